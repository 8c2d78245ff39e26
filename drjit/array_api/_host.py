"""Functions that NumPy computes on the host: their values by LAPACK and pocketfft, their derivatives by rules.

They evaluate their arguments; results are on the same device. A rule says how changes of the arguments change the
results, and how gradients of the results become gradients of the arguments, in operations of this namespace. Gradients
of complex numbers are dL/d(real) + i dL/d(imag), so that the adjoint of a matrix is its conjugate transpose.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import drjit as dr
from drjit.detail import call_host, is_constant, records
from drjit.interop import CopyError

from . import _dtypes as dtypes
from ._data import Storage, constant, evaluated, has_value, wrap
from ._devices import CPU
from ._dlpack import from_dlpack, on_device
from ._evaluation import settle
from ._manipulation import permute_dims
from ._operands import converted, enter_moved
from ._small import LARGE, of_numbers, on_host, result_of

if TYPE_CHECKING:
    from ._array import Array

__all__ = ["computed", "imported", "is_tracked", "moved", "on_host"]

#: From arguments, results and changes of the arguments to changes of the results.
Forward = Callable[[Sequence[Any], Sequence[Any], Sequence[Any]], Sequence[Any]]
#: From arguments, results and gradients of the results to gradients of the arguments.
Backward = Callable[[Sequence[Any], Sequence[Any], Sequence[Any]], Sequence[Any]]


def is_tracked(*arrays: Storage) -> bool:
    """Whether derivatives of an array are tracked."""
    return any(dr.grad_enabled(part) for array in arrays if array._dtype.kind in "fc" and not has_value(array)
               for part in array._parts)


def computed(function: str, value: Callable[..., Any], arguments: Sequence[Storage], forward: Forward | None = None,
             backward: Backward | None = None, missing: str = "there is no derivative of this function",
             device: str | None = None) -> list[Array]:
    """The results of a function of NumPy arrays, on the device of the arguments unless another one is said; with
    derivatives if those of the arguments are tracked.

    Raises a ``NotImplementedError`` if there is no rule for them, which says what is ``missing``.
    """
    half = any(array._dtype is dtypes.float16 for array in arguments)
    where = arguments[0].device if device is None else device
    if not is_tracked(*arguments):
        return _values(value, arguments, half, where)
    if forward is None or backward is None:
        raise NotImplementedError(f"{function}(): {missing}; drjit.detach() of the argument says that none is meant.")
    change, pull = forward, backward
    kinds = [array._dtype for array in arguments]
    outputs: list[Any] = []

    def joined(parts: Sequence[Any], types: Sequence[Any], shapes: Sequence[Any]) -> list[Array]:
        several = [shape for dtype, shape in zip(types, shapes, strict=True) for _ in range(1 + (dtype.kind == "c"))]
        return _joined(map(_shaped, parts, several), types)

    class Rule(dr.CustomOp):
        differentiable = True

        def eval(self, parts: Any) -> Any:
            self.shapes = [array.shape for array in arguments]
            self.found = _values(value, joined(parts, kinds, self.shapes), half, where)
            outputs[:] = [array._dtype for array in self.found]
            return tuple([part for array in self.found for part in array._parts])

        def pair(self) -> tuple[list[Array], list[Array]]:
            """Arguments and results; these are computed again if their derivatives are wanted."""
            arrays = joined(self.given("parts"), kinds, self.shapes)
            return arrays, self.found if not is_tracked(*arrays) else \
                computed(function, value, arrays, change, pull, device=where)

        def forward(self) -> None:
            changes = joined(self.grad_in("parts"), kinds, self.shapes)
            found = change(*self.pair(), changes)
            self.set_grad_out(tuple([part for array in found for part in array._parts]))

        def backward(self) -> None:
            gradients = joined(self.grad_out(), [array._dtype for array in self.found],
                               [array.shape for array in self.found])
            found = pull(*self.pair(), gradients)
            self.set_grad_in("parts", tuple([
                part for array, dtype in zip(found, kinds, strict=True)
                for part in (converted(array, dtype)._parts if dtype.kind == "c" else array._parts[:1])]))

        def name(self) -> str:
            return function

    results = dr.custom(Rule, tuple([part for array in arguments for part in array._parts]))
    return _joined(results, outputs)


def _joined(parts: Iterable[Any], types: Sequence[Any]) -> list[Array]:
    """Arrays of some data types, of their parts."""
    left = iter(parts)
    return [wrap(dtype, *[next(left) for _ in range(1 + (dtype.kind == "c"))]) for dtype in types]


def _shaped(part: Any, shape: tuple[int, ...]) -> Any:
    """A gradient of a shape; one that was never set has one element."""
    if dr.shape(part) == shape:
        return part
    return dr.zeros(type(part), shape) + part


def _values(value: Callable[..., Any], arguments: Sequence[Storage], half: bool, device: str) -> list[Array]:
    settle(*[array for array in arguments if not has_value(array)])
    arrays = _recorded(value, arguments, device) if records() else _found(value, arguments, device)
    return [converted(array, dtypes.float16) if half and array._dtype is dtypes.float32 else array for array in arrays]


def _found(value: Callable[..., Any], arguments: Sequence[Storage], device: str) -> list[Array]:
    found = value(*[on_host(array) for array in arguments])
    return [imported(np.asarray(entry), device) for entry in (found if isinstance(found, tuple) else (found,))]


def _recorded(value: Callable[..., Any], arguments: Sequence[Storage], device: str) -> list[Array]:
    """What :func:`_found` computes within a frozen function, whose replays compute it again."""
    given, made = [array._dtype for array in arguments], list[Any]()

    def parts(*tensors: Any) -> list[Any]:
        found = _found(value, _joined(tensors, given), device)
        made[:] = [array._dtype for array in found]
        return [part for array in found for part in array._parts]

    parts.__name__ = value.__name__
    return _joined(call_host(parts, *[part for array in arguments for part in array._parts]), made)


def imported(result: np.ndarray[Any, Any], device: str) -> Array:
    """An array of a result, of which nobody else knows, on a device. Those of LAPACK have their columns one after the
    other."""
    found: Array | None = of_numbers(result, device)
    if found is not None:
        return found
    dtype = dtypes.BY_NUMPY[result.dtype]
    if not result.size:
        return constant(dtype, 0, result.shape, device)
    flags = result.flags
    if device != CPU or result.nbytes < LARGE or not flags.f_contiguous and not flags.c_contiguous:
        return result_of(dtype, result, device)  # type: ignore[no-any-return]
    if flags.c_contiguous:
        return from_dlpack(result)
    return permute_dims(from_dlpack(result.T), tuple(range(result.ndim))[::-1])


def moved(function: str, array: Any, device: str, copy: bool | None = None) -> Array:
    """The array on another device, to which its elements are copied. Evaluates it, unless it is a constant; derivatives
    cross. Raises an exception that is a ``ValueError`` if ``copy=False`` rules that out."""
    if copy is False:
        raise CopyError(f"{function}(): the array is on {array.device!r} and cannot be on {device!r} without a copy.")
    dtype, origin = array._dtype, array.device
    if is_tracked(array):
        return computed(function, _same, [array], lambda a, y, d: [moved(function, d[0], device)],
                        lambda a, y, g: [moved(function, g[0], origin)], device=device)[0]
    if all(map(is_constant, array._parts)):
        tensor = dtype.on(device)
        return wrap(dtype, *[dr.full(tensor, part.array[0], part.shape) if math.prod(part.shape) else
                             dr.zeros(tensor, part.shape) for part in array._parts])
    if records():
        return _values(_same, [array], dtype is dtypes.float16, device)[0]
    return on_device(function, dtype, dr.detach(evaluated(array)), device, None)


enter_moved(moved)


def _same(value: Any) -> Any:
    return value
