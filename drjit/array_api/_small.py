"""The road of few elements to NumPy and back: the products and matrices for which a kernel would take longer.

What is read of small arrays are copies of their bytes, views being views of the memory of their root.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from drjit.detail import bytes_of, computes_now, is_pending, of_memory
from drjit.interop import numpy_of_parts

from . import _dtypes as dtypes
from ._data import Storage, evaluated, made, parts_of, tensors_of
from ._evaluation import policy, settle

__all__ = ["LARGE", "joined", "of_numbers", "on_host", "product", "rolled"]

#: Fewer bytes than this are copied, which takes less time than to share their memory.
LARGE = 1 << 15
#: Data types of BLAS.
_OF_BLAS = (dtypes.float64, dtypes.float32)
#: (Of ``dot``, which is no ufunc, NumPy does not warn where numbers are infinite.)
_ndarray, _dot, _contiguous, _concatenate = np.ndarray, np.dot, np.ascontiguousarray, np.concatenate


def on_host(array: Storage) -> Any:
    """The elements as a NumPy array; evaluates."""
    dtype = array._dtype
    if dtype.kind != "c" and dtype.bits != 16:
        return _memory_of(array)
    found = numpy_of_parts(evaluated(array))
    return found.astype(np.float32) if dtype is dtypes.float16 else found


def _memory_of(array: Storage) -> Any:
    """The elements of a real array."""
    parts = parts_of(array)
    part = parts[0]
    view = array._view
    root = array if view is None else view.root
    whole = parts[0] if view is None else tensors_of(view)[0]
    if is_pending(whole):
        settle(root)
    shape, own = part.shape, whole.shape
    dtype = array._dtype
    count = dtype.itemsize
    for size in own:
        count *= size
    if not count:
        return numpy_of_parts(parts)
    memory = bytes_of(whole) if count < LARGE else numpy_of_parts((whole,))
    if root is array:
        return _ndarray(shape, dtype.numpy, memory)
    offset, strides = array.place
    size = dtype.itemsize
    return _ndarray(shape, dtype.numpy, memory, offset * size, tuple([stride * size for stride in strides]))


def _owner_of(array: Storage) -> Storage:
    """What owns the elements of a view; an array itself if it is none."""
    view = array._view
    return array if view is None else view.root


def of_numbers(value: Any) -> Any:
    """An array with the elements of a NumPy array of few elements and a real type; ``None`` for others."""
    dtype = dtypes.of_numpy(value.dtype)
    if dtype is None or dtype.kind == "c" or not 0 < value.nbytes < LARGE:
        return None
    return made(dtype, (of_memory(dtype.tensor, _contiguous(value).reshape(value.shape)),))


def product(x1: Any, x2: Any) -> Any:
    """A product of few floating point numbers of one type whose shapes go together, by NumPy; ``None`` for all else."""
    if not isinstance(x1, Storage) or not isinstance(x2, Storage):
        return None
    dtype = x1._dtype
    if x2._dtype is not dtype or dtype not in _OF_BLAS:
        return None
    left, right = parts_of(x1)[0], parts_of(x2)[0]
    first, second = left.shape, right.shape
    if not 0 < len(first) < 3 or not 0 < len(second) < 3 or first[-1] != second[0]:
        return None
    count = first[-1]
    if len(first) == 2:
        count *= first[0]
    if len(second) == 2:
        count *= second[1]
    if not 0 < count <= policy.small or not computes_now(left, right):
        return None
    a, b = _owner_of(x1), _owner_of(x2)
    if is_pending(parts_of(a)[0]) or is_pending(parts_of(b)[0]):
        settle(a, b)
    found = _dot(_memory_of(x1), _memory_of(x2))
    return made(dtype, (of_memory(dtype.tensor, found if type(found) is _ndarray else np.asarray(found)),))


def joined(arrays: list[Any], axis: int) -> Any:
    """Real arrays of one data type, and of few elements together, one after the other along an axis, by NumPy; ``None``
    for others."""
    count, most = 0, policy.small >> 4
    dtype = arrays[0]._dtype
    if dtype.kind == "c":
        return None
    pending = []
    for each in arrays:
        array: Storage = each
        part = parts_of(array)[0]
        count += math.prod(part.shape)
        if count > most or not computes_now(part):
            return None
        root = _owner_of(array)
        if is_pending(parts_of(root)[0]):
            pending.append(root)
    if pending:
        settle(*pending)
    found = _contiguous(_concatenate([_memory_of(array) for array in arrays], axis))
    return made(dtype, (of_memory(dtype.tensor, found),))


def rolled(x: Any, by: int, axis: int | None) -> Any:
    """A real array of few elements, moved along an axis or in C order, by NumPy; ``None`` for others."""
    array: Storage = x
    dtype = array._dtype
    part = parts_of(array)[0]
    count = math.prod(part.shape)
    if dtype.kind == "c" or not 0 < count <= policy.small >> 4 or not computes_now(part):
        return None
    found = _memory_of(array)
    if axis is None:
        found = found.reshape(-1)
    size = found.shape[axis or 0]
    by %= size
    if axis:
        before = (slice(None),) * axis
        found = _concatenate((found[(*before, slice(size - by, None))], found[(*before, slice(0, size - by))]), axis)
    else:
        found = _concatenate((found[size - by:], found[:size - by]))
    return made(dtype, (of_memory(dtype.tensor, _contiguous(found).reshape(part.shape)),))
