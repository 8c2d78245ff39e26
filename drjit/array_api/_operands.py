"""What operands become before an operation: arrays of one data type, whose shapes can be broadcast.

Python numbers take part beside an array, and become arrays of its type: ``bool`` beside all of them, ``int`` beside
numeric ones, ``float`` beside floating point, ``complex`` beside floating point, which becomes complex. Beside arrays
of a lesser kind, and alone, they are of the default type of their kind. NumPy's scalars count as Python numbers.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

import numpy as np

import drjit as dr
from drjit.detail import is_constant

from . import _dtypes as dtypes
from ._data import Storage, constant, default_dtype, of_value, value_of, wrap
from ._devices import CPU, CUDA
from ._dtypes import ON_GPU, DType, holds, promoted
from ._evaluation import default_device, eager, on_default
from ._operators import at_once, enter, of_numpy

if TYPE_CHECKING:
    from ._array import Array

__all__ = ["as_float", "common_shape", "converted", "describe", "enter_moved", "normalized_axes", "normalized_axis",
           "number_of", "of_recording", "on_one_device", "on_their_device", "operands", "require_array",
           "require_arrays", "require_kind", "shape_of", "with_number"]

_P = ParamSpec("_P")
_R = TypeVar("_R")
_KINDS = {"b": "Boolean", "iu": "integer", "f": "real floating point", "fc": "floating point",
          "iuf": "real-valued", "iufc": "numeric", "biu": "integer or Boolean",
          "biuf": "real-valued or Boolean"}


def describe(value: Any) -> str:
    """The type of a value, as messages call it."""
    if isinstance(value, Storage):
        return f"an array of the data type {value.dtype}"
    cls = type(value)
    return cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"


def require_array(function: str, name: str, value: Any, device: str | None = None) -> Array:
    """The argument itself, which must be an array of this namespace, or one of NumPy or a number, which become one."""
    if not isinstance(value, Storage):
        if isinstance(value, np.ndarray):
            return cast("Array", of_numpy(value, device))
        number = number_of(value)
        if number is not None:
            return constant(default_dtype(number), number, (), default_device())
        raise TypeError(f"{function}(): '{name}' must be an array of drjit.array_api, found {describe(value)}. "
                        "drjit.array_api.asarray() converts.")
    return cast("Array", value)


def require_arrays(function: str, values: Sequence[Any], names: Sequence[str]) -> list[Array]:
    """Arguments that must be arrays, as those of :func:`require_array`, on one device: NumPy's go to that of others."""
    device = _device_among(values) if ON_GPU else None
    found = [require_array(function, name, value, device) for value, name in zip(values, names, strict=True)]
    return found if device is None else on_one_device(function, found, names)[0]


def require_kind(function: str, name: str, value: Any, kinds: str) -> Array:
    """The argument itself, which must be an array whose data type is of certain kinds."""
    array = require_array(function, name, value)
    if array.dtype.kind not in kinds:
        raise TypeError(f"{function}(): '{name}' must have {_article(_KINDS[kinds])} data type, found {array.dtype}.")
    return array


def _article(kind: str) -> str:
    return f"an {kind}" if kind[0] in "aei" else f"a {kind}"


def number_of(value: Any) -> bool | int | float | complex | None:
    """A Python number, also of NumPy's scalars; ``None`` for other values."""
    if isinstance(value, np.generic):
        value = value.item()
    return value if isinstance(value, (bool, int, float, complex)) else None


def with_number(dtype: DType, number: bool | int | float | complex) -> DType:
    """The data type of an operation of an array and a Python number."""
    own = default_dtype(number)
    if "biufc".index(own.kind) <= "biufc".index(dtype.kind):
        return dtype
    return dtypes.complex64 if own.kind == "c" and dtype.kind == "f" and dtype.bits < 64 else own


#: The operators that are the same of numbers and of arrays without axes.
_ALIKE = frozenset(("add", "sub", "mul", "truediv", "eq", "ne", "lt", "le", "gt", "ge"))


def of_recording(name: str, array: Array, number: Any) -> Any:
    """What a number of a recording is to an operator beside an array: one without axes, of the type that the number has
    there, whose element is that of each replay; or the number, which each replay has then."""
    dtype = with_number(array._dtype, number.value)
    alike = name in _ALIKE and dtype.kind in ("f" if name == "truediv" else "iuf")
    return constant(dtype, number, (), array.device) if alike else number.pinned()


enter("number", of_recording)


def literal(function: str, dtype: DType, number: bool | int | float | complex, device: str = CPU) -> Array:
    """A Python number as an array of a data type that can hold it."""
    if dtype.kind in "iu" and not holds(dtype, cast(int, number)):
        raise OverflowError(f"{function}(): the Python number {number} does not fit into {dtype}.")
    return constant(dtype, number, (), device)


#: What copies an array to a device, see :func:`drjit.array_api._host.moved`, which stands above.
_moved: Any = None


def enter_moved(function: Callable[[str, Storage, str], Any]) -> None:
    """Tell what copies an array to a device."""
    global _moved
    _moved = function


def on_one_device(function: str, values: Sequence[Any], names: Sequence[str]) -> tuple[list[Any], str]:
    """Operands, and the device that their arrays are on: those that are like numbers go where the others are.

    Raises a ``ValueError`` for arrays on different devices. (Nobody asks as long as there is no array on a GPU.)
    """
    places = [value.device if isinstance(value, Storage) else None for value in values]
    found = {place for place in places if place is not None}
    if len(found) < 2:
        return list(values), found.pop() if found else default_device()
    fixed = [(name, place) for name, place, value in zip(names, places, values, strict=True)
             if place is not None and not _goes_along(value)]
    if len({place for _, place in fixed}) > 1:
        raise ValueError(f"{function}(): the arguments are on different devices: " + " and ".join(
            [f"'{name}' on {place!r}" for name, place in fixed]) + "; x.to_device() copies to another one.")
    device = fixed[0][1] if fixed else CUDA
    return [value if place in (None, device) else _moved(function, value, device)
            for value, place in zip(values, places, strict=True)], device


def _goes_along(array: Storage) -> bool:
    """Whether an array goes where others are: one without axes, on the CPU or of a number that nobody has to fetch."""
    if array.shape:
        return False
    return array.device == CPU or not dr.grad_enabled(array._parts) and all(map(is_constant, array._parts))


def on_their_device(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """A function within which arrays are made on the device of its arguments, if these are arrays: on a GPU if one of
    them is there."""
    @functools.wraps(function)
    def called(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        device = _device_among((*args, *kwargs.values())) if ON_GPU else None
        if device is None or device == default_device():
            return function(*args, **kwargs)
        with on_default(device):
            return function(*args, **kwargs)

    return called


def _device_among(values: Sequence[Any]) -> str | None:
    """Where arrays among values and the entries of sequences are; ``None`` if there are none."""
    found = {value.device if isinstance(value, Storage) else _device_among(value)
             for value in values if isinstance(value, (Storage, list, tuple))}
    return CUDA if CUDA in found else CPU if CPU in found else None


def operands(function: str, values: Sequence[Any], names: Sequence[str], kinds: str = "biufc", *,
             broadcast: bool = True) -> list[Array]:
    """Arrays of one data type for the operands of an operation.

    ``kinds`` are those that the operation knows; ``broadcast``: whether shapes must go together.
    """
    dtype: DType | None = None
    device = CPU
    if ON_GPU:
        values, device = on_one_device(function, values, names)
    numbers: list[Any] = []
    for value, name in zip(values, names, strict=True):
        number = None
        if isinstance(value, Storage):
            if dtype is None or dtype is value._dtype:
                dtype = value._dtype
            else:
                dtype = promoted(dtype, value._dtype)
        else:
            number = number_of(value)
            if number is None:
                raise TypeError(f"{function}(): '{name}' must be an array of drjit.array_api or a Python number, "
                                f"found {describe(value)}. drjit.array_api.asarray() converts.")
        numbers.append(number)
    for number in numbers:
        if number is not None:
            dtype = default_dtype(number) if dtype is None else with_number(dtype, number)
    assert dtype is not None
    if dtype.kind not in kinds:
        raise TypeError(f"{function}(): needs {_article(_KINDS[kinds])} data type, found {dtype}.")
    arrays = [converted(value, dtype) if number is None else literal(function, dtype, number, device)
              for value, number in zip(values, numbers, strict=True)]
    if broadcast:
        common_shape(function, arrays)
    return arrays


def common_shape(function: str, arrays: Sequence[Storage]) -> tuple[int, ...]:
    """The shape that arrays are broadcast to."""
    shapes = [array.shape for array in arrays]
    if all(shape == shapes[0] for shape in shapes):
        return shapes[0]
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        raise ValueError(f"{function}(): the shapes {' and '.join(map(str, shapes))} cannot be broadcast to a common "
                         "one.") from None


def converted(array: Any, dtype: DType) -> Array:
    """An array with elements of another type; itself if it has that type."""
    old: DType = array._dtype
    if old is dtype:
        return cast("Array", array)
    most = eager() if dtype.bits != 16 and (old.kind != "c" or dtype.kind in "cb") else 0
    value = value_of(array, most) if most else None
    if value is not None and (old.kind != "f" or dtype.kind in "fcb" or _are_within(value, dtype)):
        return of_value(dtype, at_once(value.astype, dtype.numpy))
    parts = array._parts
    if dtype.kind == "b":
        found = [part != 0 for part in parts]
        return wrap(dtype, found[0] if len(found) == 1 else found[0] | found[1])
    if dtype.kind == "c":
        real = _cast(parts[0], dtype.part)
        return wrap(dtype, real, _cast(parts[1], dtype.part) if len(parts) == 2 else dr.zeros(type(real), real.shape))
    return wrap(dtype, _cast(parts[0], dtype))


def _are_within(value: Any, dtype: DType) -> bool:
    """Whether the elements of a NumPy array are integers of a data type if their fractions are cut off."""
    low, high = dtype.integers
    return bool(value.min() >= low and value.max() < high)  # which NaN is not


def _cast(part: Any, dtype: DType) -> Any:
    """A tensor with elements of another real type."""
    if type(part) is dtype.tensor:
        return part
    tensor = dtype.beside(part)
    return dr.select(part, tensor(1), tensor(0)) if dr.is_mask_v(part) else tensor(part)


def as_float(function: str, name: str, value: Any, kinds: str = "fc") -> Array:
    """An array of floating point numbers; integers become the default type."""
    array = require_array(function, name, value)
    if array.dtype.kind in kinds:
        return array
    if array.dtype.kind in "iu":
        return converted(array, dtypes.DEFAULT_FLOAT)
    return require_kind(function, name, value, kinds)


def normalized_axis(function: str, axis: Any, ndim: int, name: str = "axis") -> int:
    """An axis counted from the front."""
    try:
        found = operator.index(axis)
    except TypeError:
        raise TypeError(f"{function}(): '{name}' must be an int, found {describe(axis)}.") from None
    if not -ndim <= found < ndim:
        raise np.exceptions.AxisError(f"{function}(): '{name}' is {found}, but the array has {ndim} "  # an IndexError
                                      f"dimension{'s' * (ndim != 1)}.")
    return found % ndim


def normalized_axes(function: str, axis: Any, ndim: int, name: str = "axis") -> tuple[int, ...]:
    """Axes counted from the front: all of them for ``None``, several in a tuple, each once."""
    if axis is None:
        return tuple(range(ndim))
    if type(axis) is int and -ndim <= axis < ndim:
        return (axis % ndim,)
    axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    found = tuple([normalized_axis(function, entry, ndim, name) for entry in axes])
    if len(set(found)) != len(found):
        raise ValueError(f"{function}(): '{name}' has an axis more than once: {axis}.")
    return found


def shape_of(function: str, shape: Any, name: str = "shape") -> tuple[int, ...]:
    """A shape: of an int, or a sequence of them."""
    try:
        found = (operator.index(shape),) if not isinstance(shape, (tuple, list)) else \
            tuple([operator.index(entry) for entry in shape])
    except TypeError:
        raise TypeError(f"{function}(): '{name}' must be an int or a tuple of ints, found {shape!r}.") from None
    if any(entry < 0 for entry in found):
        raise ValueError(f"{function}(): '{name}' must not be negative, found {shape!r}.")
    return found
