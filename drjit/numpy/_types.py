"""Data types, what is asked of them, and texts and files of arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import drjit.array_api as xp

from ._public import Array, array_of, axis_of, documented, of_type, public

__all__ = ["ALIASES", "FILES", "TEXTS", "can_cast", "common_type", "dtype", "finfo", "iinfo", "isdtype", "issubdtype",
           "min_scalar_type", "packbits", "promote_types", "result_type", "unpackbits"]

#: Other names of data types.
ALIASES = {"bool_": xp.bool, "byte": xp.int8, "short": xp.int16, "intc": xp.int32, "int_": xp.int64, "intp": xp.int64,
           "long": xp.int64, "longlong": xp.int64, "ubyte": xp.uint8, "ushort": xp.uint16, "uintc": xp.uint32,
           "uint": xp.uint64, "uintp": xp.uint64, "ulong": xp.uint64, "ulonglong": xp.uint64, "half": xp.float16,
           "single": xp.float32, "double": xp.float64, "csingle": xp.complex64, "cdouble": xp.complex128}


dtype = np.dtype


def _numpy(value: Any) -> Any:
    return value.numpy if isinstance(value, xp.DType) else value


@public
def issubdtype(arg1: Any, arg2: Any) -> bool:
    """Whether a data type is one of a family, such as ``np.floating``, or another one."""
    return bool(np.issubdtype(_numpy(arg1), _numpy(arg2)))


@public
def isdtype(dtype: Any, kind: Any) -> bool:
    """Whether a data type is another one, or belongs to a category such as ``'integral'``, or to one of a tuple."""
    return xp.isdtype(of_type(dtype), kind)


@public
def promote_types(type1: Any, type2: Any) -> np.dtype[Any]:
    """The type that values of two types have in common."""
    return xp.result_type(of_type(type1), of_type(type2))


@public
def result_type(*arrays_and_dtypes: Any) -> np.dtype[Any]:
    """The data type of an operation on arrays, data types and numbers."""
    return xp.result_type(*arrays_and_dtypes)


@public
def can_cast(from_: Any, to: Any, casting: str = "safe") -> bool:
    """Whether values of one type become another one by a rule, as NumPy's."""
    source = from_.dtype if isinstance(from_, Array) else of_type(from_).numpy
    return bool(np.can_cast(source, of_type(to).numpy, casting))  # type: ignore[arg-type]


@public
def min_scalar_type(a: Any) -> np.dtype[Any]:
    """The smallest type that holds a number; of an array its own."""
    return a.dtype if isinstance(a, Array) else of_type(np.min_scalar_type(a)).numpy


@public
def finfo(dtype: Any) -> Any:
    """The limits of a floating point type, as NumPy has them."""
    return np.finfo(_numpy(dtype.dtype if isinstance(dtype, Array) else of_type(dtype)))


@public
def iinfo(dtype: Any) -> Any:
    """The limits of an integer type, as NumPy has them."""
    return np.iinfo(_numpy(dtype.dtype if isinstance(dtype, Array) else of_type(dtype)))


@public
def common_type(*arrays: Any) -> type[np.generic]:
    """The floating point type that arrays have in common, as NumPy's class; integers count as ``float64``."""
    return np.common_type(*[np.empty(0, array_of(array).dtype) for array in arrays])


@public
def packbits(a: Any, /, axis: int | None = None, bitorder: str = "big") -> Array:
    """Truth values as the bits of ``uint8``, eight along an axis (of all elements without one) in each, the rest 0.
    Lazy."""
    array = array_of(a)
    if array.dtype.kind not in "biu":
        raise TypeError(f"needs integers or truth values, found {array.dtype}.")
    array, place = (array.ravel(), 0) if axis is None else (array, axis_of(axis, array.ndim))
    rest = -array.shape[place] % 8
    bits = xp.moveaxis((array != 0).astype(xp.uint8), place, -1)
    bits = xp.concat([bits, xp.zeros((*bits.shape[:-1], rest), dtype=xp.uint8)], axis=-1)
    grouped = bits.reshape((*bits.shape[:-1], bits.shape[-1] // 8, 8)) * _weights(bitorder)
    return xp.moveaxis(xp.sum(grouped, axis=-1, dtype=xp.uint8), -1, place)


@public
def unpackbits(a: Any, /, axis: int | None = None, count: int | None = None, bitorder: str = "big") -> Array:
    """The bits of ``uint8`` along an axis (of all elements without one) as 0 and 1: the first ``count`` of them, or all
    but the last ``-count``. Lazy."""
    array = array_of(a)
    if array.dtype != xp.uint8:
        raise TypeError(f"needs elements of uint8, found {array.dtype}.")
    array, place = (array.ravel(), 0) if axis is None else (array, axis_of(axis, array.ndim))
    last = xp.moveaxis(array, place, -1)
    bits = ((last[..., None] & _weights(bitorder)) != 0).astype(xp.uint8)
    bits = bits.reshape((*last.shape[:-1], 8 * last.shape[-1]))
    size = bits.shape[-1]
    wanted = size if count is None else count if count >= 0 else size + count
    if wanted < 0:
        raise ValueError(f"'count' is {count}, for {size} bits.")
    if wanted > size:
        bits = xp.concat([bits, xp.zeros((*bits.shape[:-1], wanted - size), dtype=xp.uint8)], axis=-1)
    return xp.moveaxis(bits[..., :wanted], -1, place)


def _weights(bitorder: str) -> Array:
    """What each of eight bits is worth."""
    if bitorder not in ("big", "little"):
        raise ValueError(f"'bitorder' must be 'big' or 'little', found {bitorder!r}.")
    return xp.asarray([1 << (7 - k if bitorder == "big" else k) for k in range(8)], dtype=xp.uint8)


def _host(value: Any) -> Any:
    return np.asarray(value) if isinstance(value, Array) else value


def _of_numpy(name: str, text: str, back: Callable[[Any], Any] | None = None) -> Any:
    """A function of NumPy, for arrays that are evaluated; what it returns becomes an array if that is wanted."""
    found = getattr(np, name)

    def function(*args: Any, **kwargs: Any) -> Any:
        result = found(*map(_host, args), **{key: _host(value) for key, value in kwargs.items()})
        return result if back is None else back(result)

    return documented(function, name, text)


def _loaded(result: Any) -> Any:
    return array_of(result) if isinstance(result, np.ndarray) else result


TEXTS = {name: _of_numpy(name, text) for name, text in (
    ("array2string", "The text of an array, as NumPy's. Evaluates."),
    ("array_repr", "The text of an array as Python writes it, as NumPy's. Evaluates."),
    ("array_str", "The text of the elements of an array, as NumPy's. Evaluates."))}
FILES = {name: _of_numpy(name, text, back) for name, text, back in (
    ("save", "Write an array to a file of NumPy's format. Evaluates.", None),
    ("savez", "Write several arrays to a file of NumPy's format. Evaluates.", None),
    ("savez_compressed", "Write several arrays to a compressed file of NumPy's format. Evaluates.", None),
    ("savetxt", "Write a vector or a matrix to a text file. Evaluates.", None),
    ("load", "The array in a file of NumPy's format; of several ones NumPy's object, whose arrays are NumPy's.",
     _loaded),
    ("loadtxt", "The numbers of a text file.", _loaded), ("genfromtxt", "The numbers of a text file, some of which may "
                                                                        "be missing.", _loaded),
    ("fromregex", "The numbers of a text file that an expression finds: an array with named fields, which is NumPy's.",
     None), ("fromfile", "The numbers of a binary file.", _loaded),
    ("fromstring", "The numbers of a text.", _loaded))}
