"""Checkpoints: PyTrees in files, from which a program that was ended goes on as if it had not been.

The arrays of a PyTree are tensors of a file (see ``tensors``), what is around them is a string of it:
containers, numbers, and the names of classes, which are looked up only among array types. Objects of other classes get
their state back: nothing is made by what a file says.
"""

from __future__ import annotations

import json
import os
import pathlib
import re
import sys
import warnings
from typing import Any

import numpy as np

from .._base.array import ArrayBase
from .._base.errors import describe
from .._base.values import is_ndarray
from .._functions.evaluation import eval, make_opaque
from .._functions.states import Place, Stateful, has_constants
from .._trees.classes import children, construct, extras
from .tensors import DamagedFile, array_of, numpy_of, read, write

__all__ = ["checkpoints", "load_checkpoint", "save_checkpoint"]

_TREE, _FORMAT = "drjit.tree", 1
_FILE = re.compile(r"checkpoint-(\d+)\.safetensors")
_CONTAINERS: dict[str, Any] = {"list": list, "tuple": tuple, "dict": dict}
_PLAIN = (bool, int, float, str, type(None))


class _Writer:
    """A PyTree as JSON, and the arrays in it."""

    def __init__(self, tree: Any) -> None:
        self.arrays: dict[str, Any] = {}
        self.nodes = self._node(tree, "")

    def _node(self, value: Any, path: str) -> Any:
        cls: Any = value.__class__
        if cls in _PLAIN:
            return value
        if cls is complex:
            return {"complex": [value.real, value.imag]}
        if isinstance(value, (ArrayBase, np.generic)) or is_ndarray(value):
            return self._array(value, path)
        if isinstance(value, Stateful) or all(hasattr(cls, name) for name in ("state_dict", "load_state_dict")):
            return {"state": self._node(dict(value.state_dict()), path), "class": describe(value)}
        found = None if isinstance(value, type) else children(value)
        if found is None or not all(key.__class__ in _PLAIN for key, _ in found):
            raise TypeError(f"drjit.nn.save_checkpoint(): {path or 'the PyTree'} is of the type {describe(value)}, "
                            "which cannot be stored.")
        kind = next((name for name, container in _CONTAINERS.items() if container is cls), "object")
        nodes = [[key, self._node(child, f"{path}.{key}" if path else str(key))] for key, child in found]
        return {kind: nodes, **({"class": describe(value)} if kind == "object" else {})}

    def _array(self, value: Any, path: str) -> Any:
        while path in self.arrays or not path:
            path += "_"
        self.arrays[path] = value
        kind = describe(value) if isinstance(value, ArrayBase) else \
            ("scalar" if isinstance(value, np.generic) else "numpy") + " complex" * np.iscomplexobj(value)
        constant = isinstance(value, ArrayBase) and has_constants(value)
        return {"array": path, "type": kind, **({"constant": True} if constant else {})}

    def elements(self) -> dict[str, tuple[str, Any]]:
        """The arrays with NumPy; complex numbers have one axis more."""
        eval(self.arrays)
        found = {}
        for key, array in self.arrays.items():
            complex_ = array._record.kind == "complex" if isinstance(array, ArrayBase) else np.iscomplexobj(array)
            if complex_:
                array = np.asarray(array.numpy() if isinstance(array, ArrayBase) else array)
                array = np.stack([array.real, array.imag], axis=-1)
            found[key] = numpy_of(array)
        return found


class _Reader:
    """The PyTree of a file; what objects that exist are to take over is only noted."""

    def __init__(self, tensors: dict[str, tuple[str, Any]]) -> None:
        self.tensors = tensors
        self.puts: list[tuple[Place, Any]] = []

    def value(self, node: Any, like: Any, path: str) -> Any:
        """What a node stands for, in the form of what is at its place in the PyTree that was given."""
        if not isinstance(node, dict):
            self._require(like is None or isinstance(like, (*_PLAIN, complex, np.generic)), node, like, path)
            return node
        if "complex" in node:
            return complex(*node["complex"])
        if "array" in node:
            return self._array(node, like, path)
        if "state" in node:
            return self._state(node, like, path)
        kind = next(iter(node))
        found = {} if like is None else dict(children(like) or ())
        cls = _CONTAINERS.get(kind)
        self._require(like is None and cls is not None or like.__class__ is cls or
                      cls is None and describe(like) == node["class"], node.get("class", kind), like, path)
        items = {key: self.value(child, found.get(key), f"{path}.{key}" if path else str(key))
                 for key, child in node[kind]}
        if cls is not None:
            return items if cls is dict else cls(items.values())
        if hasattr(like.__class__, "__drjit_rebuild__"):
            return like.__drjit_rebuild__(items)
        return construct(like.__class__, items, extras(like))

    @staticmethod
    def _require(condition: bool, found: Any, like: Any, path: str) -> None:
        if not condition:
            what = found if isinstance(found, str) else describe(found)
            raise TypeError(f"drjit.nn.load_checkpoint(): {path or 'the PyTree'} was saved as {what}, but is "
                            f"{'missing' if like is None else 'of the type ' + describe(like)}.")

    def _array(self, node: Any, like: Any, path: str) -> Any:
        name, elements = self.tensors[node["array"]]
        kind = node["type"]
        if kind.startswith(("numpy", "scalar")):
            self._require(like is None or isinstance(like, (np.ndarray, np.generic)), kind, like, path)
            found = _joined(elements) if kind.endswith("complex") else elements.copy()
            return found[()] if kind.startswith("scalar") else found
        module, _, short = kind.rpartition(".")
        cls = getattr(sys.modules.get(module), short, None)
        if not isinstance(cls, type) or not issubclass(cls, ArrayBase):
            raise DamagedFile(f"drjit.nn.load_checkpoint(): {path} is of the type {kind}, which is not known.")
        if isinstance(like, ArrayBase):
            self._require(cls._type == like._type and cls._record.shape == like._record.shape and
                          cls._record.kind == like._record.kind, kind, like, path)
            cls = type(like)
        else:
            self._require(like is None or isinstance(like, _PLAIN), kind, like, path)
        if cls._record.kind == "complex":
            elements = _joined(elements)
        found = array_of(cls, name, elements)
        if not node.get("constant"):  # what was in memory is there again: kernels that read it are the same as before
            make_opaque(found)
        return found

    def _state(self, node: Any, like: Any, path: str) -> Any:
        self._require(describe(like) == node["class"], node["class"], like, path)
        state = self.value(node["state"], None, path)
        if isinstance(like, Stateful):
            self.puts += like._planned(f"drjit.nn.load_checkpoint(): {path}", state, True)[0]
        else:
            self.puts.append((Place(None, like.load_state_dict), state))
        return like


def _joined(parts: Any) -> Any:
    """Complex numbers from their parts along the last axis."""
    return parts.view({4: np.complex64, 8: np.complex128}[parts.itemsize])[..., 0]


def _path(folder: pathlib.Path, step: int) -> pathlib.Path:
    return folder / f"checkpoint-{step:010d}.safetensors"


def checkpoints(directory: str | os.PathLike[str]) -> list[int]:
    """The steps of the checkpoints in a directory, the last one at the end; none if there is no such directory.

    >>> dr.nn.checkpoints("/nowhere")
    []
    """
    folder = pathlib.Path(directory)
    found = (_FILE.fullmatch(entry.name) for entry in (folder.iterdir() if folder.is_dir() else ()))
    return sorted(int(match[1]) for match in found if match)


def save_checkpoint(directory: str | os.PathLike[str], tree: Any, step: int, keep: int | None = 3) -> pathlib.Path:
    """Write a PyTree to a file in a directory, from which :func:`load_checkpoint` gets it back, bit by bit.

    - ``tree`` holds arrays, also those of NumPy, numbers, strings and ``None``, in lists, tuples, dictionaries and
      other containers, and objects that have a state: modules, encodings, optimisers, scalers, generators, and all
      others with ``state_dict()`` and ``load_state_dict()``.
    - ``step`` is a number from 0 on, which tells checkpoints apart, and is part of the name of the file.
    - ``keep`` is how many checkpoints there are afterwards at most, those of the last steps; ``None`` keeps all. Files
      of steps after this one, which belong to a course that was left, get the ending ``.left`` and count no longer.

    The file is complete and on the disk before it gets its name, and before older ones are removed: whenever the
    program ends, there is a checkpoint, if there was one before. It is a file of tensors (see
    :func:`save_safetensors`) with a checksum; nothing is pickled. Evaluates the PyTree; gradients are left out. Returns
    the path of the file. Raises a ``TypeError`` that says where in the PyTree something cannot be stored.

    >>> from drjit.llvm import Float
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     for step in range(5):
    ...         _ = dr.nn.save_checkpoint(folder, {"x": Float(step), "step": step}, step, keep=2)
    ...     print(dr.nn.checkpoints(folder), dr.nn.load_checkpoint(folder))
    [3, 4] {'x': [4], 'step': 4}
    """
    for name, value, least in (("step", step, 0), ("keep", 1 if keep is None else keep, 1)):
        if value.__class__ is not int or value < least:
            raise ValueError(f"drjit.nn.save_checkpoint(): {name!r} must be an int from {least} on, found {value!r}.")
    folder, writer = pathlib.Path(directory), _Writer(tree)
    folder.mkdir(parents=True, exist_ok=True)
    path = _path(folder, step)
    write(path, writer.elements(), {_TREE: json.dumps({"format": _FORMAT, "tree": writer.nodes})})
    found = checkpoints(folder)
    for later in found:
        if later > step:
            os.replace(_path(folder, later), _path(folder, later).with_suffix(".left"))
    before = [each for each in found if each <= step]
    for each in before[:-keep] if keep is not None else ():
        _path(folder, each).unlink(missing_ok=True)
    return path


def load_checkpoint(directory: str | os.PathLike[str], tree: Any = None, step: int | None = None) -> Any:
    """A PyTree that was saved: that of the last step in a directory, or of another ``step``.

    ``tree`` is a PyTree like the one that was saved. Objects in it that have a state take over the one that was saved,
    where they are; the result is a PyTree with these objects, and with the arrays, numbers and strings of the file in
    the places of those that there are. Lists and dictionaries have the length that they had. Without ``tree``, there
    can be no objects of classes other than arrays and containers.

    A file that is damaged is refused: there is a warning, and the checkpoint before it is loaded, unless that ``step``
    was asked for (a ``ValueError``). Raises a ``FileNotFoundError`` if there is no checkpoint, and what
    ``load_state_dict`` raises if a state does not fit. If it raises, no object has changed.

    >>> from drjit.llvm.ad import Float
    >>> import tempfile
    >>> opt = dr.opt.SGD(lr=1, params={"x": Float(1)})
    >>> state = {"opt": opt, "step": 7}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = dr.nn.save_checkpoint(folder, state, 7)
    ...     opt["x"] = Float(5)
    ...     state = dr.nn.load_checkpoint(folder, {"opt": opt, "step": 0})
    >>> opt["x"], state["step"]
    ([1], 7)
    """
    folder, found = pathlib.Path(directory), checkpoints(directory)
    wanted = found[::-1] if step is None else [step] if step in found else []
    problem: Exception | None = None
    for each in wanted:
        path = _path(folder, each)
        try:
            tensors, metadata = read(path, checked=True)
            stored = json.loads(metadata.get(_TREE, "{}"))
            if stored.get("format") != _FORMAT:
                raise DamagedFile(f"{path}: this file is no checkpoint of a format that is known.")
        except DamagedFile as error:
            if step is not None:
                raise
            problem = error
            warnings.warn(f"drjit.nn.load_checkpoint(): {error} The checkpoint before it is loaded.", RuntimeWarning,
                          stacklevel=2)
            continue
        reader = _Reader(tensors)
        result = reader.value(stored["tree"], tree, "")
        for place, value in sorted(reader.puts, key=lambda put: put[0].last):
            place.put(value)
        return result
    if problem is not None:
        raise problem
    raise FileNotFoundError(f"drjit.nn.load_checkpoint(): there is no checkpoint{'' if step is None else f' {step}'} "
                            f"in {folder}.")
