"""Functions that create arrays, and conversions of data types."""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, cast

import numpy as np

import drjit as dr
from drjit.interop import is_on_gpu

from . import _dtypes as dtypes
from ._data import Storage, constant, copy_of, default_dtype, expanded, of_value, wrap
from ._devices import CPU, known_device
from ._dlpack import shared
from ._dtypes import ON_GPU, DType, DTypeLike, FInfo, IInfo, promoted
from ._evaluation import default_device, eager
from ._host import moved
from ._operands import (
    converted,
    describe,
    literal,
    number_of,
    on_one_device,
    require_array,
    require_arrays,
    shape_of,
    with_number,
)
from ._operators import fits
from ._small import by_numpy, of_list

if TYPE_CHECKING:
    from ._array import Array

__all__ = ["arange", "array_from", "asarray", "astype", "can_cast", "chosen_device", "common_type", "converted_to",
           "data_type", "empty", "empty_like", "eye", "finfo", "full", "full_like", "holds_arrays", "iinfo", "isdtype",
           "linspace", "meshgrid", "ones", "ones_like", "result_type", "tril", "triu", "zeros", "zeros_like"]

_NAMESPACE = "drjit.array_api"


def chosen_device(function: str, device: Any, default: str | None = None) -> str:
    """The device of a new array: by its name, or if none is given a default one, that of the policy if none is said.
    """
    if device is None:
        return default_device() if default is None else default
    return known_device(function, device)


#: Data types by Python's and NumPy's types.
_KNOWN: dict[Any, DType] = {**dtypes.BY_NUMPY, **{dtype.numpy.type: dtype for dtype in dtypes.ALL.values()},
                            float: dtypes.float64, int: dtypes.int64, bool: dtypes.bool, complex: dtypes.complex128}


def data_type(function: str, dtype: Any, default: DType) -> DType:
    if dtype is None:
        return default
    if not isinstance(dtype, DType):
        if isinstance(dtype, (np.dtype, type)) and dtype in _KNOWN:
            return _KNOWN[dtype]
        found = dtypes.ALL.get(dtype) if isinstance(dtype, str) else None
        if found is None and isinstance(dtype, (np.dtype, type, str)):
            try:
                found = dtypes.of_numpy(dtype)
            except TypeError:  # no name of NumPy's
                pass
        if found is None:
            raise TypeError(f"{function}(): 'dtype' must be a data type of drjit.array_api, found {dtype!r}.")
        return found
    return dtype


# --- from other objects ----------------------------------------------------------------------------------------------


def asarray(obj: Any, /, *, dtype: DTypeLike | None = None, device: Any = None, copy: bool | None = None) -> Array:
    """An array of what ``obj`` holds: a number, nested sequences of numbers and arrays, a NumPy array, a Dr.Jit array
    or tensor, an object with the buffer or the DLPack protocol.

    Arrays and tensors of Dr.Jit are taken as they are: lazy, and with their derivatives. Memory of others is copied,
    because it may change before what is computed from it is evaluated; ``copy=False`` shares it, and raises a
    ``ValueError`` where that is not possible; ``copy=True`` is for memory of its own. Numbers beside arrays in a
    sequence take the type of the arrays. Arrays, and memory of a GPU, remain on their device unless another one is
    said; all else goes to that of the policy. Raises an ``OverflowError`` for numbers that an integer type cannot hold,
    a ``TypeError`` for complex numbers where others are wanted.
    """
    function = f"{_NAMESPACE}.asarray"
    return array_from(function, obj, dtype, copy, None if device is None else known_device(function, device))


def array_from(function: str, obj: Any, dtype: DTypeLike | None = None, copy: bool | None = None,
               device: str | None = None) -> Array:
    """What :func:`asarray` returns, for another function of the user's."""
    if isinstance(obj, Storage):
        wanted = data_type(function, dtype, obj._dtype)
        if device is not None and device != obj.device:
            return converted(moved(function, obj, device, copy), _not_complex(function, obj._dtype, wanted))
        if copy is False and wanted is not obj._dtype:
            raise ValueError(f"{function}(): {obj._dtype} cannot become {wanted} without a copy.")
        found = converted(obj, _not_complex(function, obj._dtype, wanted))
        return copy_of(found) if copy and found is obj else found
    number = obj if isinstance(obj, (bool, int, float, complex)) else None
    if number is not None:
        if copy is False:
            raise ValueError(f"{function}(): a Python number cannot become an array without a copy.")
        wanted = data_type(function, dtype, default_dtype(number))
        return _of_number(function, wanted, number, device or default_device())
    if isinstance(obj, dr.ArrayBase):
        return _of_dr(function, obj, dtype, copy, device)
    if isinstance(obj, (list, tuple, range)):
        if copy is False:
            raise ValueError(f"{function}(): a sequence cannot become an array without a copy.")
        now = of_list(obj) if dtype is None and (device or default_device()) == CPU and not isinstance(obj, range) \
            else None
        return _of_sequence(function, list(obj), dtype, device) if now is None else cast("Array", now)
    return _of_memory(function, obj, dtype, copy, device)


def _converted_to(value: Any, dtype: DType) -> Array:
    """``float64(value)``, where a text is read as a number."""
    function = f"{_NAMESPACE}.{dtype}"
    if isinstance(value, str):
        try:
            value = dtype.numpy.type(value)
        except ValueError as error:
            raise ValueError(f"{function}(): {error}") from None
    return array_from(function, value, dtype)


dtypes.enter_conversion(_converted_to)


def _of_number(function: str, dtype: DType, number: Any, device: str) -> Array:
    if isinstance(number, complex):
        _not_complex(function, dtypes.DEFAULT_COMPLEX, dtype)
    if dtype.kind == "b":
        return constant(dtype, bool(number), (), device)
    if dtype.kind in "iu":
        if not math.isfinite(number):
            raise (ValueError if math.isnan(number) else OverflowError)(
                f"{function}(): the Python number {number} does not fit into {dtype}.")
        return literal(function, dtype, int(number), device)
    return constant(dtype, number, (), device)


def _not_complex(function: str, own: DType, wanted: DType) -> DType:
    """The data type that elements are to become, which loses no imaginary parts."""
    if own.kind == "c" and wanted.kind not in "cb":
        raise TypeError(f"{function}(): complex numbers cannot become {wanted}; take their real or imaginary parts.")
    return wanted


def converted_to(function: str, array: Any, dtype: Any, default: DType) -> Array:
    """An array with elements of the data type that the user asks for; of the default one for ``None``."""
    return converted(array, _not_complex(function, array._dtype, data_type(function, dtype, default)))


def _of_dr(function: str, value: Any, dtype: Any, copy: bool | None, device: str | None) -> Array:
    """An array of Dr.Jit: tensors and flat arrays by their elements, complex numbers in two parts."""
    where = device or default_device()  # of scalar arrays, which are nowhere
    if dr.is_complex_v(value):
        parts = [_tensor_of(value[0], where), _tensor_of(value[1], where)]
        own = dtypes.complex64 if dtypes.of_tensor(function, type(parts[0])) is dtypes.float32 else dtypes.complex128
        parts = [own.beside(part)(part) for part in parts]
    else:
        parts = [_tensor_of(value, where)]
        own = dtypes.of_tensor(function, type(parts[0]))
    found = wrap(own, *parts)
    if device is not None and device != found.device:
        found = moved(function, found, device, copy)
    wanted = _not_complex(function, own, data_type(function, dtype, own))
    shared = dr.is_jit_v(value) and (dr.is_tensor_v(value) or dr.depth_v(value) == 1)
    if copy is False and not (shared and wanted is own):
        raise ValueError(f"{function}(): {type(value).__module__}.{type(value).__name__} cannot become an array of "
                         f"{wanted} without a copy.")
    return converted(found, wanted)


def _tensor_of(value: Any, device: str) -> Any:
    """A Dr.Jit array as a tensor of the types that arrays here hold."""
    if not dr.is_jit_v(value):
        return _numpy_part(np.asarray(value), device)
    tensor = dr.tensor_t(dr.diff_array_t(type(value)))
    return tensor(value)


def _of_sequence(function: str, entries: list[Any], dtype: Any, device: str | None) -> Array:
    """Nested sequences: on the host, unless there are arrays among their entries."""
    if holds_arrays(entries):
        where = device or CPU
        if ON_GPU or device:
            arrays = [array_from(function, leaf) for leaf in _flat(entries)
                      if isinstance(leaf, (Storage, dr.ArrayBase))]
            where = device or on_one_device(function, arrays, [f"obj[…{k}]" for k in range(len(arrays))])[1]
            entries = _moved_entries(function, entries, where)
        leaves = _leaves(entries)
        types = {leaf._dtype for leaf in leaves if isinstance(leaf, Storage)}
        if len(types) == 1 and (dtype is None or data_type(function, dtype, dtypes.DEFAULT_FLOAT) in types):
            own = types.pop()
            if all(isinstance(leaf, Storage) or fits(own, leaf) for leaf in leaves):
                now = by_numpy(np.array, (entries, own), {})
                return _joined(function, entries, own, where) if now is None else cast("Array", now)
        own = common_type(function, leaves) if dtype is None else \
            data_type(function, dtype, dtypes.DEFAULT_FLOAT)
        return _joined(function, entries, own, where)
    try:
        found = np.asarray(entries)
    except ValueError:
        raise ValueError(f"{function}(): the sequence is ragged: its entries have different lengths.") from None
    large = found.dtype.kind == "f" and found.size and _are_integers(entries)
    if found.dtype.kind not in "biufc" or large:  # integers that none of NumPy's types holds together
        wanted = data_type(function, dtype, dtypes.DEFAULT_INT)
        _refuse(function, entries, wanted)
        found = np.asarray(entries, dtype=wanted.numpy)
    elif found.dtype == np.uint64 and dtype is None:
        raise OverflowError(f"{function}(): there are integers that do not fit into int64; pass dtype=uint64.")
    wanted = data_type(function, dtype, dtypes.of_numpy(found.dtype) or dtypes.DEFAULT_FLOAT)
    if found.dtype.kind == "c":
        _not_complex(function, dtypes.DEFAULT_COMPLEX, wanted)
    if wanted.kind in "iu" and found.dtype != wanted.numpy and found.dtype.kind in "iuf" and found.size:
        limits = dtypes.iinfo_of(wanted)
        for extreme in (found.min().item(), found.max().item()):
            if not limits.min - 1 < extreme < limits.max + 1:  # which NaN is not, either
                raise (ValueError if extreme != extreme else OverflowError)(
                    f"{function}(): the Python number {extreme} does not fit into {wanted}.")
    return _of_numpy(found.astype(wanted.numpy), device or default_device())


def _moved_entries(function: str, entries: Any, device: str) -> Any:
    """Nested sequences with their arrays, and numbers, on a device."""
    if isinstance(entries, (list, tuple)):
        return [_moved_entries(function, entry, device) for entry in entries]
    return entries if number_of(entries) is not None else array_from(function, entries, device=device)


def _flat(entries: Any) -> list[Any]:
    """What nested sequences hold."""
    return [leaf for entry in entries for leaf in _flat(entry)] if isinstance(entries, (list, tuple)) else [entries]


def _leaves(entries: Any) -> list[Any]:
    """The arrays and numbers in nested sequences."""
    return [leaf if isinstance(leaf, Storage) or number_of(leaf) is not None else asarray(leaf)
            for leaf in _flat(entries)]


def _joined(function: str, entries: Any, dtype: DType, device: str) -> Array:
    """The entries of nested sequences, some of which are arrays on a device, as one array of a data type."""
    if number_of(entries) is not None:
        return _of_number(function, dtype, number_of(entries), device)
    if not isinstance(entries, (list, tuple)):
        return asarray(entries, dtype=dtype)
    if not holds_arrays(entries):
        return _of_sequence(function, list(entries), dtype, device)
    arrays = [_joined(function, entry, dtype, device) for entry in entries]
    if any(array.shape != arrays[0].shape for array in arrays):
        raise ValueError(f"{function}(): the sequence is ragged: its entries have the shapes "
                         f"{' and '.join(dict.fromkeys(str(array.shape) for array in arrays))}.")
    shape = (len(arrays), *arrays[0].shape)
    return wrap(dtype, *[type(parts[0])(dr.concat([part.array for part in parts]), shape=shape)
                         for parts in zip(*[array._parts for array in arrays], strict=True)])


def _are_integers(entries: Any) -> bool:
    """Whether nested sequences hold integers only."""
    return all(map(_are_integers, entries)) if isinstance(entries, (list, tuple)) else \
        isinstance(entries, (int, np.integer))


def _refuse(function: str, entries: Any, dtype: DType) -> None:
    """Refuse entries other than integers, of which some are too large for NumPy's types."""
    for entry in entries:
        if isinstance(entry, (list, tuple)):
            _refuse(function, entry, dtype)
        elif not isinstance(entry, (int, np.integer)):
            raise TypeError(f"{function}(): the entries of a sequence must be numbers, found {describe(entry)}.")
        elif dtype.kind in "iu" and not dtypes.holds(dtype, int(entry)):
            raise OverflowError(f"{function}(): the Python number {entry} does not fit into {dtype}.")


def holds_arrays(entries: Any) -> bool:
    """Whether there are arrays in nested sequences."""
    return any(isinstance(entry, (Storage, dr.ArrayBase)) or
               isinstance(entry, (list, tuple)) and holds_arrays(entry) for entry in entries)


def _of_memory(function: str, obj: Any, dtype: Any, copy: bool | None, device: str | None) -> Array:
    """An array of another library's memory, which is copied unless ``copy`` is false."""
    if isinstance(obj, (str, bytes)):
        raise TypeError(f"{function}(): expected an array, a number or a sequence of them, found {describe(obj)}.")
    speaks = not isinstance(obj, np.ndarray) and hasattr(obj, "__dlpack__")
    if not isinstance(obj, np.ndarray) and is_on_gpu(obj):
        there = shared(function, obj, True if copy is None else copy)
        return array_from(function, there, dtype, False if copy is False else None, device)
    where = device or default_device()
    if copy is False and where != CPU:
        raise ValueError(f"{function}(): {describe(obj)} cannot become an array on the device {where!r} without a "
                         "copy.")
    try:
        found = np.from_dlpack(obj) if speaks else np.asarray(obj, copy=copy if copy is False else None)
    except Exception as error:
        if copy is False and isinstance(error, ValueError):
            raise ValueError(f"{function}(): {describe(obj)} cannot become an array without a copy.") from error
        raise TypeError(f"{function}(): {describe(obj)} cannot become an array: {error}") from error
    own = dtypes.of_numpy(found.dtype)
    if own is None:
        raise TypeError(f"{function}(): there is no data type for elements of {found.dtype}, found {describe(obj)}.")
    wanted = _not_complex(function, own, data_type(function, dtype, own))
    if copy is not False:
        return converted(_of_numpy(found, where), wanted)
    if wanted is not own or not found.dtype.isnative:
        raise ValueError(f"{function}(): {found.dtype} cannot become {wanted} without a copy.")
    return shared(function, obj if speaks else found, False)


def _of_numpy(value: np.ndarray[Any, Any], device: str) -> Array:
    """A copy of a NumPy array, on a device."""
    dtype = dtypes.of_numpy(value.dtype)
    assert dtype is not None
    if device == CPU and 0 < value.size <= eager() and dtype.bits != 16:
        return of_value(dtype, value.astype(dtype.numpy, "C"))
    if dtype.kind == "c":
        return wrap(dtype, _numpy_part(value.real, device), _numpy_part(value.imag, device))
    return wrap(dtype, _numpy_part(value, device))


def _numpy_part(value: np.ndarray[Any, Any], device: str) -> Any:
    dtype = dtypes.of_numpy(value.dtype)
    assert dtype is not None
    return dtype.on(device)(value if value.flags.c_contiguous and value.dtype is dtype.numpy else
                            np.ascontiguousarray(value, dtype.numpy).reshape(value.shape))


# --- filled arrays ---------------------------------------------------------------------------------------------------


def full(shape: int | tuple[int, ...], fill_value: Any, *, dtype: DTypeLike | None = None, device: Any = None) -> Array:
    """An array of a shape whose elements all have one value: a number, or an array without axes.

    The data type follows from the value if it is not given. Lazy.
    """
    function = f"{_NAMESPACE}.full"
    where = None if device is None else known_device(function, device)
    sizes = shape_of(function, shape)
    if isinstance(fill_value, Storage):
        if fill_value.shape != ():
            raise ValueError(f"{function}(): 'fill_value' must be a number, found an array of the shape "
                             f"{fill_value.shape}.")
        value = converted(fill_value, data_type(function, dtype, fill_value._dtype))
        if where is not None and where != value.device:
            value = moved(function, value, where)
        return wrap(value._dtype, *[expanded(part, sizes) for part in value._parts])
    number = number_of(fill_value)
    if number is None:
        raise TypeError(f"{function}(): 'fill_value' must be a number, found {describe(fill_value)}.")
    wanted = data_type(function, dtype, default_dtype(number))
    where = where or default_device()
    if wanted.kind in "iu":
        _of_number(function, wanted, number, where)  # which checks the range
        number = int(number.real)
    elif isinstance(number, complex):
        _not_complex(function, dtypes.DEFAULT_COMPLEX, wanted)
    return _constant(wanted, bool(number) if wanted.kind == "b" else number, sizes, where)


def zeros(shape: int | tuple[int, ...], *, dtype: DTypeLike | None = None, device: Any = None) -> Array:
    """An array of zeros. Lazy."""
    return _filled("zeros", shape, 0, dtype, device)


def ones(shape: int | tuple[int, ...], *, dtype: DTypeLike | None = None, device: Any = None) -> Array:
    """An array of ones. Lazy."""
    return _filled("ones", shape, 1, dtype, device)


def empty(shape: int | tuple[int, ...], *, dtype: DTypeLike | None = None, device: Any = None) -> Array:
    """An array whose elements are to be set; they are zeros. Lazy."""
    return _filled("empty", shape, 0, dtype, device)


def _filled(name: str, shape: Any, number: int, dtype: Any, device: Any) -> Array:
    function = f"{_NAMESPACE}.{name}"
    where = default_device() if device is None else known_device(function, device)
    wanted, sizes = data_type(function, dtype, dtypes.DEFAULT_FLOAT), shape_of(function, shape)
    return _constant(wanted, number, sizes, where)


def _constant(dtype: DType, number: Any, shape: tuple[int, ...], device: str) -> Array:
    """An array of a shape with axes whose elements are all the same number: a small one has a value, but of integers,
    which are literals as keys."""
    if shape and dtype.kind not in "iu" and dtype.bits != 16 and device == CPU and 0 < math.prod(shape) <= eager():
        return of_value(dtype, np.full(shape, number, dtype.numpy) if number else np.zeros(shape, dtype.numpy))
    return constant(dtype, number, shape, device)


def full_like(x: Array, /, fill_value: Any, *, dtype: DTypeLike | None = None, device: Any = None) -> Array:
    """An array like another one whose elements all have one value. Lazy."""
    function = f"{_NAMESPACE}.full_like"
    array = require_array(function, "x", x)
    return full(array.shape, fill_value, dtype=data_type(function, dtype, array._dtype),
                device=chosen_device(function, device, array.device))


def zeros_like(x: Array, /, *, dtype: DTypeLike | None = None, device: Any = None) -> Array:
    """An array of zeros like another one. Lazy."""
    return _like("zeros_like", x, 0, dtype, device)


def ones_like(x: Array, /, *, dtype: DTypeLike | None = None, device: Any = None) -> Array:
    """An array of ones like another one. Lazy."""
    return _like("ones_like", x, 1, dtype, device)


def empty_like(x: Array, /, *, dtype: DTypeLike | None = None, device: Any = None) -> Array:
    """An array like another one whose elements are to be set; they are zeros. Lazy."""
    return _like("empty_like", x, 0, dtype, device)


def _like(name: str, x: Any, number: int, dtype: Any, device: Any) -> Array:
    function = f"{_NAMESPACE}.{name}"
    array = require_array(function, "x", x)
    where = chosen_device(function, device, array.device)
    return _constant(data_type(function, dtype, array._dtype), number, array.shape, where)


# --- regular ones ----------------------------------------------------------------------------------------------------


def arange(start: float, /, stop: float | None = None, step: float = 1, *, dtype: DTypeLike | None = None,
           device: Any = None) -> Array:
    """``start``, ``start + step`` … before ``stop``; from 0 to the only argument. Lazy.

    Integers if all arguments are, else floating point numbers.
    """
    function = f"{_NAMESPACE}.arange"
    where = chosen_device(function, device)
    numbers = [number_of(value) if not isinstance(value, Storage) else value.__float__()
               for value in ((0, start, step) if stop is None else (start, stop, step))]
    for name, number in zip(("start", "stop", "step"), numbers, strict=True):
        if number is None or isinstance(number, complex):
            raise TypeError(f"{function}(): '{name}' must be a real number.")
    first, last, by = (number.real for number in numbers if number is not None)
    if by == 0:
        raise ValueError(f"{function}(): 'step' must not be 0.")
    integral = all(isinstance(number, int) for number in (first, last, by))
    wanted = data_type(function, dtype, dtypes.DEFAULT_INT if integral else dtypes.DEFAULT_FLOAT)
    count = max(len(range(int(first), int(last), int(by))) if integral else math.ceil((last - first) / by), 0)
    if wanted.kind in "iu" and integral:
        for extreme in (int(first), int(first) + (count - 1) * int(by)) if count else ():
            if not dtypes.holds(wanted, extreme):
                raise OverflowError(f"{function}(): the number {extreme} does not fit into {wanted}.")
    if where == CPU and 0 < count <= eager() and wanted.kind != "c":
        values: Any = np.arange(count)
        values = values * int(by) + int(first) if wanted.kind in "iu" else values * float(by) + float(first)
        return converted(of_value(dtypes.int64 if wanted.kind in "iu" else dtypes.float64, values), wanted)
    positions = _positions(count, where)
    if wanted.kind in "iu":
        return converted(wrap(dtypes.int64, positions * int(by) + int(first)), wanted)
    found = dtypes.float64.on(where)(positions) * float(by) + float(first)
    return converted(wrap(dtypes.float64, found), wanted)


def _positions(count: int, device: str) -> Any:
    """0, 1, 2 … as a tensor of 64-bit integers on a device."""
    tensor = dtypes.int64.on(device)
    return tensor(dr.arange(dr.array_t(tensor), count), shape=(count,))


def linspace(start: complex, stop: complex, /, num: int, *, dtype: DTypeLike | None = None, device: Any = None,
             endpoint: bool = True) -> Array:
    """``num`` numbers at equal distances from ``start`` to ``stop``, which is one of them if ``endpoint``. Lazy."""
    function = f"{_NAMESPACE}.linspace"
    where = chosen_device(function, device)
    first, last = number_of(start), number_of(stop)
    if first is None or last is None:
        raise TypeError(f"{function}(): 'start' and 'stop' must be numbers, found {describe(start)} and "
                        f"{describe(stop)}.")
    count = operator.index(num)
    if count < 0:
        raise ValueError(f"{function}(): 'num' must not be negative, found {count}.")
    complex_ = isinstance(first, complex) or isinstance(last, complex)
    wanted = data_type(function, dtype, dtypes.DEFAULT_COMPLEX if complex_ else dtypes.DEFAULT_FLOAT)
    steps = count - 1 if endpoint else count
    if where == CPU and 0 < count <= eager() and wanted.kind != "c":
        low, high = float(first.real), float(last.real)
        values = np.arange(count) * ((high - low) / max(steps, 1)) + low
        if endpoint and count > 1:
            values[-1] = high
        return converted(of_value(dtypes.float64, values), wanted)
    position = dtypes.float64.on(where)(_positions(count, where))

    def part(a: float, b: float) -> Any:
        found = position * ((b - a) / max(steps, 1)) + a
        return dr.select(position == steps, b, found) if endpoint and count > 1 else found

    if wanted.kind == "c":
        return converted(wrap(dtypes.complex128, part(first.real, last.real), part(first.imag, last.imag)), wanted)
    return converted(wrap(dtypes.float64, part(float(first.real), float(last.real))), wanted)


def eye(n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: DTypeLike | None = None,
        device: Any = None) -> Array:
    """A matrix with ones on the diagonal ``k`` places above the main one, and zeros elsewhere. Lazy."""
    function = f"{_NAMESPACE}.eye"
    where = chosen_device(function, device)
    shape = shape_of(function, (n_rows, n_rows if n_cols is None else n_cols))
    wanted = data_type(function, dtype, dtypes.DEFAULT_FLOAT)
    if where == CPU and 0 < math.prod(shape) <= eager() and wanted.bits != 16:
        return of_value(wanted, np.eye(shape[0], shape[1], _diagonal(shape, k), wanted.numpy))
    return converted(wrap(dtypes.bool, _difference(shape, where) == _diagonal(shape, k)), wanted)


def _diagonal(shape: tuple[int, ...], k: int) -> int:
    """The number of a diagonal; the nearest one outside of a matrix for those that are further away."""
    return min(max(operator.index(k), -shape[-2] - 1), shape[-1] + 1)


def _difference(shape: tuple[int, ...], device: str) -> Any:
    """Column less row of the entries of matrices, as a tensor of two axes."""
    rows, columns = _positions(shape[-2], device), _positions(shape[-1], device)
    return columns[None, :] - rows[:, None]


def tril(x: Array, /, *, k: int = 0) -> Array:
    """The entries of matrices on and below the diagonal ``k``, zeros above. Lazy; differentiable."""
    return _triangle("tril", x, lambda difference: difference <= _diagonal(x.shape, k))


def triu(x: Array, /, *, k: int = 0) -> Array:
    """The entries of matrices on and above the diagonal ``k``, zeros below. Lazy; differentiable."""
    return _triangle("triu", x, lambda difference: difference >= _diagonal(x.shape, k))


def _triangle(name: str, x: Any, kept: Any) -> Array:
    function = f"{_NAMESPACE}.{name}"
    array = require_array(function, "x", x)
    if array.ndim < 2:
        raise ValueError(f"{function}(): 'x' must have two dimensions at least, found the shape {array.shape}.")
    mask = kept(_difference(array.shape, array.device))
    return wrap(array._dtype, *[dr.select(mask, part, dr.zeros(type(part), ())) for part in array._parts])


def meshgrid(*arrays: Array, indexing: str = "xy") -> tuple[Array, ...]:
    """Coordinates of a grid: for each array of one axis an array of all axes. Lazy; differentiable.

    ``indexing``: ``'ij'``, the k-th array varies along axis k, or ``'xy'``, with the first two axes exchanged.
    """
    function = f"{_NAMESPACE}.meshgrid"
    if indexing not in ("xy", "ij"):
        raise ValueError(f"{function}(): 'indexing' must be 'xy' or 'ij', found {indexing!r}.")
    found = require_arrays(function, arrays, [f"arrays[{k}]" for k in range(len(arrays))])
    for array in found:
        if array.ndim != 1:
            raise ValueError(f"{function}(): arrays must have one dimension, found the shape {array.shape}.")
        if array._dtype is not found[0]._dtype:
            raise ValueError(f"{function}(): arrays must have one data type, found {found[0]._dtype} and "
                             f"{array._dtype}.")
    count = len(found)
    places = list(range(count))
    if indexing == "xy" and count > 1:
        places[:2] = 1, 0
    shape = [0] * count
    for array, place in zip(found, places, strict=True):
        shape[place] = array.size
    results = []
    for array, place in zip(found, places, strict=True):
        key = tuple(slice(None) if axis == place else None for axis in range(count))
        results.append(wrap(array._dtype, *[expanded(part[key], tuple(shape)) for part in array._parts]))
    return tuple(results)


# --- data types ------------------------------------------------------------------------------------------------------


def astype(x: Array, dtype: DTypeLike, /, *, copy: bool = True, device: Any = None) -> Array:
    """The elements as another data type. Lazy; differentiable between floating point types.

    Complex numbers become complex or Boolean ones only.
    """
    function = f"{_NAMESPACE}.astype"
    array = require_array(function, "x", x)
    if device is not None and known_device(function, device) != array.device:
        array, copy = moved(function, array, device), False
    wanted = data_type(function, dtype, array._dtype)
    if array._dtype.kind == "c" and wanted.kind not in "cb":
        raise TypeError(f"{function}(): complex numbers cannot become {wanted}; take real() or imag() of them.")
    if wanted is array._dtype:
        return copy_of(array) if copy else array
    return converted(array, wanted)


def result_type(*arrays_and_dtypes: Any) -> np.dtype[Any]:
    """The data type of an operation on arrays, data types and Python numbers, also those of NumPy."""
    return common_type(f"{_NAMESPACE}.result_type", arrays_and_dtypes).numpy


def common_type(function: str, arrays_and_dtypes: Iterable[Any]) -> DType:
    """The data type of an operation on arrays, data types and numbers."""
    found: DType | None = None
    numbers = []
    for value in arrays_and_dtypes:
        dtype = value if isinstance(value, DType) else value._dtype if isinstance(value, Storage) else None
        if isinstance(value, (np.ndarray, np.dtype, type, str)):
            dtype = data_type(function, value.dtype if isinstance(value, np.ndarray) else value, dtypes.bool)
        if dtype is None:
            number = number_of(value)
            if number is None:
                raise TypeError(f"{function}(): arguments must be arrays, data types or numbers, found "
                                f"{describe(value)}.")
            numbers.append(number)
            continue
        found = dtype if found is None else promoted(found, dtype)
    if found is None:
        if not numbers:
            raise TypeError(f"{function}(): needs at least one argument.")
        found = default_dtype(numbers[0])
    for number in numbers:
        found = with_number(found, number)
    return found


def can_cast(from_: DTypeLike | Array, to: DTypeLike, /) -> bool:
    """Whether promotion makes one data type another one."""
    function = f"{_NAMESPACE}.can_cast"
    source = from_._dtype if isinstance(from_, Storage) else data_type(function, from_, dtypes.bool)
    target = data_type(function, to, source)
    return promoted(source, target) is target


_CATEGORIES = {"bool": "b", "signed integer": "i", "unsigned integer": "u", "integral": "iu", "real floating": "f",
               "complex floating": "c", "numeric": "iufc"}


def isdtype(dtype: DTypeLike, kind: Any) -> bool:
    """Whether a data type is another one, or belongs to a category such as ``'integral'``, or to one of a tuple."""
    function = f"{_NAMESPACE}.isdtype"
    if isinstance(kind, tuple):
        return any(isdtype(dtype, entry) for entry in kind)
    own = data_type(function, dtype, dtypes.bool)
    if isinstance(kind, str):
        if kind not in _CATEGORIES:
            raise ValueError(f"{function}(): 'kind' must be one of {', '.join(map(repr, _CATEGORIES))}, found "
                             f"{kind!r}.")
        return own.kind in _CATEGORIES[kind]
    return own is data_type(function, kind, own)


def finfo(type: DTypeLike | Array, /) -> FInfo:
    """The limits of a floating point type; of complex types those of the parts."""
    function = f"{_NAMESPACE}.finfo"
    dtype = type._dtype if isinstance(type, Storage) else data_type(function, type, dtypes.bool)
    if dtype.kind not in "fc":
        raise TypeError(f"{function}(): 'type' must be a floating point type, found {dtype}.")
    return dtypes.finfo_of(dtype)


def iinfo(type: DTypeLike | Array, /) -> IInfo:
    """The limits of an integer type."""
    function = f"{_NAMESPACE}.iinfo"
    dtype = type._dtype if isinstance(type, Storage) else data_type(function, type, dtypes.bool)
    if dtype.kind not in "iu":
        raise TypeError(f"{function}(): 'type' must be an integer type, found {dtype}.")
    return dtypes.iinfo_of(dtype)
