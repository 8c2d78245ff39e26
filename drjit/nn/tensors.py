"""Files of tensors by name, in the format of the package ``safetensors``, which many libraries read and write.

Such a file holds the length of a header, the header, which is JSON (type, shape and place of each tensor, and strings),
and the tensors: nothing in it is code. Files written here carry a checksum among the strings, and appear under their
name only when they are complete and on the disk.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import pathlib
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from drjit_core import VarType

from .._base.array import ArrayBase
from .._base.errors import describe
from .._base.types import retype
from .._base.values import is_ndarray
from .._functions.evaluation import eval
from .._functions.states import detached

__all__ = ["DamagedFile", "array_of", "load_safetensors", "numpy_of", "read", "save_safetensors", "write"]

#: The types of elements by the name that they have in a file; bfloat16 is read as its bits.
_TYPES = {"BOOL": np.bool_, "U8": np.uint8, "I8": np.int8, "U16": np.uint16, "I16": np.int16, "U32": np.uint32,
          "I32": np.int32, "U64": np.uint64, "I64": np.int64, "F16": np.float16, "BF16": np.uint16, "F32": np.float32,
          "F64": np.float64}
_NAMES = {np.dtype(type_).name: name for name, type_ in _TYPES.items() if name != "BF16"} | {"bfloat16": "BF16"}
#: The types of elements of arrays by their names in files.
_VARIABLES = {"BOOL": VarType.Bool, "U8": VarType.UInt8, "I8": VarType.Int8, "U32": VarType.UInt32,
              "I32": VarType.Int32, "U64": VarType.UInt64, "I64": VarType.Int64, "F16": VarType.Float16,
              "BF16": VarType.BFloat16, "F32": VarType.Float32, "F64": VarType.Float64}
_METADATA, _CHECKSUM = "__metadata__", "checksum"
#: What stands for the checksum while it is computed.
_BLANK = "0" * 64


class DamagedFile(ValueError):
    """A file that is not what was written, or no file of tensors at all."""


def numpy_of(array: Any) -> tuple[str, Any]:
    """The name of the type of an array's elements, and the elements with NumPy, in order."""
    if isinstance(array, ArrayBase):
        found = np.asarray(detached(array).numpy())
        name = "BF16" if array._type == VarType.BFloat16.value else _NAMES.get(found.dtype.name)
    else:
        found = np.asarray(array)
        name = _NAMES.get(found.dtype.name)
    if name is None:
        raise TypeError(f"drjit.nn: arrays of the type {found.dtype.name} cannot be stored in a file.")
    return name, np.ascontiguousarray(found).reshape(found.shape)  # the former makes vectors of numbers


def array_of(cls: Any, name: str, elements: Any) -> Any:
    """The array of a type whose elements, of a type of some name, are those of an array of NumPy."""
    if name == "BF16":
        elements = (elements.astype(np.uint32) << 16).view(np.float32)
    return cls(elements)


def write(path: pathlib.Path, tensors: Mapping[str, tuple[str, Any]], metadata: Mapping[str, str]) -> None:
    """Write a file: arrays of NumPy by name, with the names of their types, and strings."""
    header: dict[str, Any] = {_METADATA: {**metadata, _CHECKSUM: _BLANK}}
    ordered = sorted(tensors.items(), key=lambda item: (-item[1][1].itemsize, item[0]))  # each aligned to its size
    end = 0
    for key, (name, array) in ordered:
        header[key] = {"dtype": name, "shape": list(array.shape), "data_offsets": [end, end + array.nbytes]}
        end += array.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    # Arrays of one byte each: what has no elements is left out.
    chunks = [array.reshape(-1).view(np.uint8) for _, (_, array) in ordered if array.nbytes]
    text = text.replace(_BLANK.encode(), _digest(text, chunks).encode(), 1)
    _replace(path, [len(text).to_bytes(8, "little"), text, *chunks])


def _digest(header: bytes, chunks: Iterable[Any]) -> str:
    found = hashlib.sha256(header)
    for chunk in chunks:
        found.update(chunk)
    return found.hexdigest()


def _replace(path: pathlib.Path, chunks: Iterable[Any]) -> None:
    """Let a file have a content, all of it or, whatever happens, what it had before."""
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        with open(temporary, "wb") as file:
            for chunk in chunks:
                file.write(chunk)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    if hasattr(os, "O_DIRECTORY"):  # the name is on the disk, too
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def read(path: pathlib.Path, checked: bool = False) -> tuple[dict[str, tuple[str, Any]], dict[str, str]]:
    """What :func:`write` has written, or, unless there must be a checksum, another program; raises a
    :class:`DamagedFile` for anything else."""
    content = path.read_bytes()
    try:
        end = 8 + int.from_bytes(content[:8], "little")
        if len(content) < end:
            raise ValueError("it is too short")
        text, data = content[8:end], memoryview(content)[end:]
        header = json.loads(text)
        metadata = dict(header.pop(_METADATA, None) or {})
        checksum = metadata.pop(_CHECKSUM, None)
        blank = text.replace(str(checksum).encode(), _BLANK.encode(), 1)
        if (checked or checksum is not None) and _digest(blank, [data]) != checksum:
            raise ValueError("its checksum is wrong")
        tensors = {}
        for key, entry in header.items():
            first, last = entry["data_offsets"]
            if not 0 <= first <= last <= len(data):
                raise ValueError(f"{key!r} lies outside of it")
            found: Any = np.frombuffer(data[first:last], _TYPES[entry["dtype"]])
            tensors[key] = entry["dtype"], found.reshape(entry["shape"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DamagedFile(f"{path}: this file is damaged, or no file of tensors: {error}.") from None
    return tensors, metadata


def save_safetensors(path: str | os.PathLike[str], tensors: Mapping[str, Any],
                     metadata: Mapping[str, str] | None = None) -> None:
    """Write arrays and tensors, such as those of ``net.state_dict()``, to a file that other libraries read: the format
    is that of `safetensors <https://github.com/huggingface/safetensors>`_.

    ``tensors`` maps names to arrays, also those of NumPy; ``metadata`` strings to strings. A file of that name is
    replaced once the new one is complete. Evaluates the arrays; derivatives are left out. Raises a ``TypeError`` for
    what is no array of numbers.

    >>> from drjit.llvm import TensorXf
    >>> import tempfile, pathlib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "net.safetensors"
    ...     dr.nn.save_safetensors(path, {"x": TensorXf([1, 2], (2, 1))})
    ...     dr.nn.load_safetensors(path, TensorXf)
    {'x': [[1],
     [2]]}
    """
    for key, value in tensors.items():
        if not isinstance(key, str) or key == _METADATA or not (isinstance(value, ArrayBase) or is_ndarray(value)):
            raise TypeError(f"drjit.nn.save_safetensors(): names are mapped to arrays, found {key!r} with "
                            f"{describe(value)}.")
    eval(list(tensors.values()))
    write(pathlib.Path(path), {key: numpy_of(value) for key, value in tensors.items()}, metadata or {})


def load_safetensors(path: str | os.PathLike[str], dtype: Any) -> dict[str, Any]:
    """The tensors in a file in the format of ``safetensors``, by name: see :func:`save_safetensors`.

    ``dtype`` is a tensor type: results are of its package, each with the elements that it has in the file. The result
    is what ``load_state_dict`` takes. Raises a ``ValueError`` for a damaged file, and for types of elements that there
    are no arrays of.

    >>> from drjit.llvm import TensorXf, TensorXu
    >>> import tempfile, pathlib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "numbers.safetensors"
    ...     dr.nn.save_safetensors(path, {"i": TensorXu([1, 2])})
    ...     dr.nn.load_safetensors(path, TensorXf)
    {'i': [1, 2]}
    """
    if not isinstance(dtype, type) or not issubclass(dtype, ArrayBase) or dtype._depth >= 0:
        raise TypeError(f"drjit.nn.load_safetensors(): 'dtype' must be a tensor type, found {describe(dtype)}.")
    result = {}
    for key, (name, elements) in read(pathlib.Path(path))[0].items():
        if name not in _VARIABLES:
            raise ValueError(f"{path}: {key!r} has elements of the type {name}, which arrays do not have.")
        result[key] = array_of(retype(dtype, _VARIABLES[name].value), name, elements)
    return result
