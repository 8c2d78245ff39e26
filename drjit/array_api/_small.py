"""The road of few elements to NumPy and back: functions for which a kernel would take longer.

What is read of small arrays are copies of their bytes, views being views of the memory of their root.
"""

from __future__ import annotations

import functools
import inspect
import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

import drjit as dr
from drjit.detail import bytes_of, computes_now, filled_by, is_pending, read_by
from drjit.interop import numpy_of_parts

from . import _dtypes as dtypes
from ._data import Storage, evaluated, made, of_own, of_value, parts_of, tensors_of, tensors_with, value_of
from ._devices import CPU
from ._dtypes import DType
from ._evaluation import default_device, eager, policy, settle
from ._operators import Operation, at_once, stay_small

__all__ = ["LARGE", "Product", "by_numpy", "chosen", "created", "eagerly", "enter_result", "found_by", "joined",
           "of_list", "of_numbers", "on_host", "place_of", "product", "reduced", "result_of", "rolled"]

#: Fewer bytes than this are copied, which takes less time than to share their memory.
LARGE = 1 << 15
_EVALUATED = dr.VarState.Evaluated
_ndarray, _contiguous, _concatenate = np.ndarray, np.ascontiguousarray, np.concatenate


def on_host(array: Storage) -> Any:
    """The elements as a NumPy array; evaluates."""
    dtype = array._dtype
    most = eager()
    value = value_of(array, most) if most else None
    if value is not None:
        return value
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


def of_numbers(value: Any, device: str = CPU) -> Any:
    """An array on a device with the elements of a NumPy array of few elements; ``None`` for others."""
    dtype = dtypes.of_numpy(value.dtype)
    if dtype is None or not 0 < value.nbytes < LARGE:
        return None
    return result_of(dtype, value, device)


def result_of(dtype: DType, value: Any, device: str = CPU) -> Any:
    """An array on a device with the elements of a NumPy array of its type, of which nobody else knows and which has
    some."""
    most = eager()
    if 0 < value.size <= most and dtype.bits != 16 and device == CPU:
        return of_value(dtype, value)
    return made(dtype, tensors_with(dtype, _contiguous(value).reshape(value.shape), device))


def product(x1: Any, x2: Any) -> Any:
    """A product of few floating point numbers of one type whose shapes go together, or one of a matrix in memory and
    its transpose, which takes half the multiplications, by NumPy; ``None`` for all else."""
    if not isinstance(x1, Storage) or not isinstance(x2, Storage):
        return None
    a, b = x1, x2
    dtype = a._dtype
    if b._dtype is not dtype or dtype.kind not in "fc" or dtype.bits == 16:
        return None
    most = eager()
    one, other = (value_of(a, most), value_of(b, most)) if most else (None, None)
    if one is None or other is None:
        if dtype.kind == "c" or not _is_short(a.shape, b.shape) and not _is_symmetric(a, b):
            return None
        count = _count_of_product(a.shape, b.shape)
        left, right = parts_of(a)[0], parts_of(b)[0]
        if type(left) is not dtype.tensor or type(right) is not dtype.tensor or not computes_now(left, right):
            return None
        root, second = _owner_of(a), _owner_of(b)
        if is_pending(parts_of(root)[0]) or is_pending(parts_of(second)[0]):
            settle(root, second)
        if count > most:
            return made(dtype, (_large_product(dtype, a, b),))
        one, other = _memory_of(a), _memory_of(b)
    elif not _is_short(one.shape, other.shape):
        return None
    found = one.dot(other)
    if type(found) is not _ndarray:
        found = np.asarray(found)
    return of_own(dtype, found) if most and found.size <= most else result_of(dtype, found)


def _is_symmetric(a: Storage, b: Storage) -> bool:
    """Whether a matrix is the transpose of another one, which has been evaluated."""
    root = _owner_of(a)
    if root is not _owner_of(b) or len(a.shape) != 2 or a.shape != b.shape[::-1] or not policy.small:
        return False
    offset, strides = a.place
    return b.place == (offset, strides[::-1]) and math.prod(a.shape) > 0 and parts_of(root)[0].state is _EVALUATED


def _count_of_product(first: tuple[int, ...], second: tuple[int, ...]) -> int:
    """The number of elements of a product of matrices or vectors."""
    return math.prod(first[:-1]) * math.prod(second[1:])


def _large_product(dtype: DType, a: Storage, b: Storage) -> Any:
    """The product of two real arrays as a tensor, which NumPy writes to its memory, and reads where they are."""
    shape = (*a.shape[:-1], *b.shape[1:])
    return filled_by(dtype.part.tensor, shape, lambda memory: _read(a, lambda one: _read(
        b, lambda other: one.dot(other, _ndarray(shape, dtype.numpy, memory)))))


def _read(array: Storage, read: Any) -> Any:
    """What a function makes of the elements of a real array in memory, of which it must keep no view."""
    dtype, view = array._dtype, array._view
    if view is None:
        return read_by(parts_of(array)[0], lambda memory: read(_ndarray(array.shape, dtype.numpy, memory)))
    size = dtype.itemsize
    offset, strides = array.place
    return read_by(tensors_of(view)[0], lambda memory: read(_ndarray(
        array.shape, dtype.numpy, memory, offset * size, tuple([stride * size for stride in strides]))))


class Product(Operation):
    """The operator of products of matrices and vectors."""

    __slots__ = ()

    def two(self, x1: Any, x2: Any) -> Any:
        """The product."""
        found = product(x1, x2)
        return self.otherwise(x1, x2) if found is None else found


def _is_short(first: tuple[int, ...], second: tuple[int, ...]) -> bool:
    """Whether matrices and vectors of two shapes have a product, of few multiplications."""
    if not 0 < len(first) < 3 or not 0 < len(second) < 3 or first[-1] != second[0]:
        return False
    count = first[-1]
    if len(first) == 2:
        count *= first[0]
    if len(second) == 2:
        count *= second[1]
    return 0 < count <= policy.small


def joined(arrays: list[Any], axis: int) -> Any:
    """Real arrays of one data type, and of few elements together, one after the other along an axis, by NumPy; ``None``
    for others."""
    count, most = 0, policy.small >> 4
    dtype = arrays[0]._dtype
    pending = []
    now = eager()
    if now:
        values = [value_of(array, now) for array in arrays]
        if not [value for value in values if value is None]:
            found = _concatenate(values, axis)
            return result_of(dtype, found) if 0 < found.size <= most else None
    if dtype.kind == "c":
        return None
    for each in arrays:
        array: Storage = each
        part = parts_of(array)[0]
        count += math.prod(part.shape)
        if count > most or type(part) is not dtype.tensor or not computes_now(part):
            return None
        root = _owner_of(array)
        if is_pending(parts_of(root)[0]):
            pending.append(root)
    if pending:
        settle(*pending)
    found = _contiguous(_concatenate([_memory_of(array) for array in arrays], axis))
    return result_of(dtype, found)


def rolled(x: Any, by: int, axis: int | None) -> Any:
    """A real array of few elements, moved along an axis or in C order, by NumPy; ``None`` for others."""
    array: Storage = x
    dtype = array._dtype
    shape = array.shape
    count = math.prod(shape)
    if not 0 < count <= policy.small >> 4:
        return None
    most = eager()
    found = value_of(array, most) if most else None
    if found is None:
        part = parts_of(array)[0]
        if dtype.kind == "c" or type(part) is not dtype.tensor or not computes_now(part):
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
    return result_of(dtype, found.reshape(shape))


def reduced(array: Any, reduce: Any, axes: tuple[int, ...], keepdims: bool, dtype: Any) -> Any:
    """What a reduction of NumPy makes of a small array over axes, as a data type; ``None`` for others."""
    most = eager()
    value = value_of(array, most) if most else None
    if value is None:
        return None
    found = at_once(reduce, value, axes if len(axes) < value.ndim else None, None, None, keepdims)
    return of_value(dtype, np.asarray(found, dtype.numpy))


def found_by(function: Any, *arrays: Any, dtype: DType | None = None) -> Any:
    """What a function of NumPy makes of small real arrays and other arguments, whose result is not larger than small
    and of a data type (that of the first array if none is given); ``None`` for others, and where NumPy finds that
    positions do not exist."""
    most = eager()
    if not most:
        return None
    values = []
    for array in arrays:
        value = value_of(array, most) if isinstance(array, Storage) else array
        if value is None:
            return None
        values.append(value)
    try:
        found = np.asarray(function(*values))
    except (IndexError, TypeError, ValueError):
        return None
    first = arrays[0]._dtype if dtype is None else dtype
    return of_value(first, found.astype(first.numpy)) if 0 < found.size <= most else None


# --- any function of NumPy -------------------------------------------------------------------------------------------

#: Arguments that functions of NumPy take as they are.
_PLAIN = (int, float, bool, complex, str, type(None), slice, type(Ellipsis), np.dtype)
#: Options that write to arrays.
_WRITING = ("out", "copy", "overwrite_input")
#: Results of several arrays, by the names that NumPy's classes of the same fields have.
_results: dict[str, Any] = {}


def enter_result(cls: Any) -> None:
    """Tell of a class of results, which is named as one of NumPy."""
    _results[cls.__name__] = cls


def by_numpy(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], product: bool = False) -> Any:
    """What a function of NumPy makes of arguments, of which one is a small array and no other one is large; ``None``
    for others, where it raises, and where what it returns are neither arrays of their own nor arguments. (What it
    raises and what it shares are told and shared by the function of the same name here.) ``product``: whether results
    are as large as the sizes of all arrays multiplied."""
    most = eager()
    if not most:
        return None
    found = _Arguments(most, policy.small if product else 0)
    values = found.several(args)
    if values is None:
        return None
    options = {}
    for name, value in kwargs.items():
        if name in _WRITING and value is not None:
            return None
        options[name] = found.one(value)
        if found.failed:
            return None
    if not found.arrays or isinstance(function, np.ufunc) and len(found.arrays) > 1 and \
            not stay_small(found.arrays[0], found.arrays[1], most):
        return None
    try:
        result = at_once(function, *values, **options) if options else at_once(function, *values)
    except Exception:  # told in the words of the function here, or none there
        return None
    return found.result(result)


def eagerly(own: Callable[..., Any], function: Any, product: bool = False) -> Any:
    """A function which is ``own``, one of NumPy with the same parameters and meaning, where arrays are small, have
    their elements and no derivatives, and :class:`Policy` says that such are computed at once. ``product``: whether
    results are as large as the sizes of all arrays multiplied."""
    code = inspect.unwrap(function).__code__
    parameters = code.co_varnames[:code.co_argcount]
    most = parameters.index("out") if "out" in parameters else sys.maxsize

    @functools.wraps(function)
    def small(*args: Any, **kwargs: Any) -> Any:
        found = by_numpy(own, args, kwargs, product) if len(args) <= most else None
        return function(*args, **kwargs) if found is None else found

    return small


def created(own: Callable[..., Any], function: Any, count: Callable[..., int]) -> Callable[..., Any]:
    """A function that makes an array of numbers, which is ``own``, one of NumPy with the same parameters and meaning,
    where it has few elements, which ``count`` finds by the arguments, and :class:`Policy` says that such are computed
    at once."""

    @functools.wraps(function)
    def small(*args: Any, **kwargs: Any) -> Any:
        found = _created_now(own, count, args, kwargs)
        return function(*args, **kwargs) if found is None else found

    return small


def _created_now(own: Any, count: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The array that a function of NumPy creates, if it is small; ``None`` for others, and where it raises."""
    most = eager()
    if not most or default_device() != CPU:
        return None
    found = _Arguments(most, 0)
    values = found.several(args)
    if values is None:
        return None
    options = {}
    for name, value in kwargs.items():
        options[name] = found.one(value)
    if found.failed or found.arrays:
        return None
    try:
        if not 0 < count(*values, **options) <= most:
            return None
        result = own(*values, **options) if options else own(*values)
    except Exception:  # told in the words of the function here, or none there
        return None
    return found.result(result)


def of_list(entries: Any) -> Any:
    """An array of a list or tuple of Python numbers, or of lists or tuples of such that are not many; ``None`` for
    others."""
    most = eager()
    if not most:
        return None
    kind = _kind_in(entries, most)
    if not kind:
        return None
    try:
        found = np.array(entries)
    except (OverflowError, ValueError):  # told in words
        return None
    return result_of(dtypes.BY_NUMPY[found.dtype], found) if 0 < found.size <= most and found.dtype.kind == kind \
        else None


def _kind_in(entries: Any, most: int) -> str:
    """The kind of the numbers in nested lists; ``''`` if there are too many, or others than Python numbers."""
    if len(entries) > most:
        return ""
    found = 0
    for entry in entries:
        cls = type(entry)
        if cls is float:
            place = 3
        elif cls is int:
            place = 2
        elif cls is bool:
            place = 1
        elif cls is complex:
            place = 4
        elif cls is list or cls is tuple:
            kind = _kind_in(entry, most)
            if not kind:
                return ""
            place = _KINDS.index(kind)
        else:
            return ""
        found = max(found, place)
    return _KINDS[found] if found else ""


#: Kinds of Python numbers, each of which is among the next.
_KINDS = "?bifc"


class _Arguments:
    """The values of arguments, and what becomes of results."""

    __slots__ = ("arrays", "bound", "count", "failed", "most", "owners")

    def __init__(self, most: int, bound: int) -> None:
        self.most, self.bound, self.count, self.failed = most, bound, 1, False
        self.arrays: list[Any] = []
        self.owners: list[Any] = []  # of the values in ``arrays``

    def one(self, argument: Any) -> Any:
        """The value of an argument; ``failed`` is set if it has none."""
        if isinstance(argument, Storage):
            value = value_of(argument, self.most)
            if value is None:
                self.failed = True
                return None
            self.arrays.append(value)
            self.owners.append(argument)
            if self.bound:
                self.count *= value.size
                if self.count > self.bound:
                    self.failed = True
            return value
        cls = type(argument)
        if cls in _PLAIN or isinstance(argument, (np.generic, type)):
            return argument
        if cls is _ndarray and argument.size <= self.most:
            return argument
        if cls is list or cls is tuple:
            found = self.several(argument)
            return None if found is None else cls(found)
        if cls is DType:
            return argument.numpy
        self.failed = True
        return None

    def several(self, arguments: Any) -> Any:
        """The values of several arguments; ``None`` if one has none."""
        found = []
        for argument in arguments:
            found.append(self.one(argument))
            if self.failed:
                return None
        return found

    def result(self, found: Any) -> Any:
        """Arrays of what a function has returned, which may be arguments; ``None`` if it is something else, or a part
        of their memory."""
        cls = type(found)
        if cls is not _ndarray:
            if isinstance(found, np.generic):
                found = np.asarray(found)
            elif isinstance(found, (tuple, list)):
                entries = []
                for entry in found:
                    own = self.result(entry)
                    if own is None:
                        return None
                    entries.append(own)
                if cls is tuple or cls is list:
                    return cls(entries)
                made_of = _results.get(cls.__name__)
                return None if made_of is None else made_of(*entries)
            else:
                return None
        dtype = dtypes.BY_NUMPY.get(found.dtype)
        if dtype is None or not found.size:
            return None
        for value, owner in zip(self.arrays, self.owners):
            if value is found and found.ndim:
                return owner
        if found.base is not None:
            for value in self.arrays:
                if np.may_share_memory(found, value):
                    return None
        return result_of(dtype, found)


def chosen(array: Storage, key: Any) -> Any:
    """What a key with arrays of integers or truth values chooses of a small array; ``None`` for other keys, and if
    that is nothing."""
    most = eager()
    value = value_of(array, most) if most else None
    if value is None:
        return None
    place = place_of(key, most)
    if place is None:
        return None
    try:
        found = value[place]
    except (IndexError, TypeError, ValueError):  # which are told in words
        return None
    if type(found) is not _ndarray:
        found = np.asarray(found)
    return of_value(array._dtype, found) if 0 < found.size <= most else None


_OF_KEYS = (int, slice, type(None), type(Ellipsis))


def place_of(key: Any, most: int) -> Any:
    """A key of integers, slices, and small arrays and lists of integers or truth values as NumPy takes it; ``None`` for
    others."""
    place = []
    for entry in key if type(key) is tuple else (key,):
        if isinstance(entry, Storage):
            array = entry
            own = value_of(array, most) if array._dtype.kind in "biu" else None
        elif type(entry) in _OF_KEYS:
            place.append(entry)
            continue
        elif type(entry) is list:
            try:
                own = np.asarray(entry)
            except ValueError:  # lists of different lengths, which are told in words
                return None
        else:
            own = entry if type(entry) is _ndarray else None
        if own is None or own.dtype.kind not in "biu":
            return None
        place.append(own)
    return tuple(place) if type(key) is tuple else place[0]
