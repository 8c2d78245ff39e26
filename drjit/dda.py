"""Rays through grids: an N-dimensional digital differential analyzer, and line integrals of what a grid interpolates.

The traversal is that of Amanatides and Woo, "A Fast Voxel Traversal Algorithm for Ray Tracing" (1987). Positions are
kept relative to the current cell, where they have more digits than in the grid, and set to 0 or 1 where the ray crosses
a face.

>>> from drjit.llvm import Array2f, Float, TensorXf
>>> heights = TensorXf([0, 1, 2, 3], (2, 2))  # values at the four corners of a grid of one cell
>>> dr.dda.integrate(ray_o=Array2f(-1, [0, 0.5]), ray_d=Array2f(1, 0), ray_max=Float(dr.inf),
...                  grid_min=Array2f(0), grid_max=Array2f(1), vol=heights)
[0.5, 1.5]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeVar

from ._access.indirect import gather, scatter_add
from ._ad.arrays import grad_enabled
from ._ad.custom import CustomOp, custom
from ._base.arguments import require_count, require_mode
from ._base.array import ArrayBase
from ._base.errors import ArgumentError, describe
from ._base.types import INT32, UINT32
from ._base.values import plain_scalar
from ._control.while_loop import while_loop
from ._functions.blocks import block_sum
from ._functions.constants import inf
from ._functions.creation import arange, zeros
from ._functions.elementwise import ceil, clip, floor, fma, maximum, minimum, select
from ._functions.evaluation import width
from ._functions.reductions import all, any, max, min
from ._functions.traits import (
    diff_array_t,
    int32_array_t,
    is_diff_v,
    is_dynamic_v,
    is_special_v,
    is_vector_v,
    mask_t,
    tensor_t,
    uint32_array_t,
    value_t,
)
from ._functions.vectors import norm

__all__ = ["dda", "integrate", "integrate_ref"]

StateT = TypeVar("StateT")
_Mode = Literal["scalar", "symbolic", "evaluated"] | None


def dda(ray_o: Any, ray_d: Any, ray_max: Any, grid_res: Any, grid_min: Any, grid_max: Any,
        func: Callable[[StateT, Any, Any, Any, Any], tuple[StateT, Any]], state: StateT, active: Any,
        mode: _Mode = None, max_iterations: int | None = None) -> StateT:
    """Call a function for each cell of a grid that a ray segment passes through, in order; returns the final state.

    The segment goes from ``ray_o`` to ``ray_o + ray_max * ray_d``, where ``ray_max`` may be infinite and ``ray_d`` of
    any length. The grid of ``grid_res`` cells lies between ``grid_min`` and ``grid_max``. All but ``ray_max`` are
    nested arrays of one size, which is the number of dimensions; ``grid_res`` holds 32-bit integers. Where the mask
    ``active`` is not set, and where the segment touches the grid in a point at most, nothing is called.

    ``func(state, index, pt_in, pt_out, active)`` gets the state, the position of the cell (of the type of
    ``grid_res``), where the ray enters and leaves the cell (from 0 to 1 along each axis), and the mask of rays that
    take part. It returns the new state, and a mask of the rays that should go on. Following textures, integers count
    from the last axis to the first (Z, Y, X), floating-point vectors from the first to the last (X, Y, Z). On its way,
    where a ray runs through edges or corners, rounding may add cells that it passes for a length of zero.

    ``state`` is anything that :func:`while_loop` takes as a state variable; ``mode`` and ``max_iterations`` are passed
    on to it. Raises a ``TypeError`` for arguments of other types.

    >>> from drjit.scalar import Array2f, Array2u
    >>> def visit(state, index, pt_in, pt_out, active):
    ...     return [*state, index], True
    >>> dr.dda.dda(ray_o=Array2f(-1, 0.2), ray_d=Array2f(1, 0.25), ray_max=dr.inf, grid_res=Array2u(2, 2),
    ...            grid_min=Array2f(0), grid_max=Array2f(1), func=visit, state=[], active=True)
    [[0, 0], [1, 0], [1, 1]]
    """
    function = "drjit.dda.dda"
    cls = _ray_type(function, ray_o, ray_d, ray_max, grid_min, grid_max)
    o, d, low, high = (_vector(function, name, value, cls) for name, value in (
        ("ray_o", ray_o), ("ray_d", ray_d), ("grid_min", grid_min), ("grid_max", grid_max)))
    dimensions: int = len(o)
    cells = type(grid_res)
    if not (isinstance(grid_res, ArrayBase) and is_vector_v(cells) and cells._type in (INT32, UINT32)
            and grid_res.shape[0] == dimensions and (value_t(cells) is int) is (value_t(cls) is float)):
        raise ArgumentError(f"{function}(): 'grid_res' must be a vector of {dimensions} 32-bit integers that goes with "
                            f"'ray_o' ({cls._name}), found {describe(grid_res)}.")
    if not callable(func):
        raise TypeError(f"{function}(): 'func' must be callable, found {describe(func)}.")
    active = _mask(function, active, cls)
    ray_max = _length(function, ray_max, cls)
    require_mode(function, mode)
    result: StateT = _traverse(o, d, ray_max, grid_res, low, high, func, state, active, mode, max_iterations)
    return result


def _traverse(ray_o: Any, ray_d: Any, ray_max: Any, grid_res: Any, grid_min: Any, grid_max: Any,
              func: Callable[..., Any], state: Any, active: Any, mode: _Mode, max_iterations: int | None) -> Any:
    if not _count(ray_o, ray_d, ray_max, grid_res, grid_min, grid_max, active):
        return state
    cls, cells = type(ray_o), type(grid_res)
    integers: Any = int32_array_t(cls)
    resolution = integers(_reversed(grid_res))
    faces = cls(resolution)

    # Of now on, cells have unit size.
    scale = faces / (grid_max - grid_min)
    origin, direction = (ray_o - grid_min) * scale, ray_d * scale
    moving, forward = direction != 0, direction > 0
    ahead = select(forward, cls(1), cls(0))
    step = select(moving, select(forward, integers(1), integers(-1)), integers(0))

    # The distances at which the ray crosses the first and last faces along each axis; comparisons of NaN are false.
    first, last = -origin / direction, (faces - origin) / direction
    between = (origin >= 0) & (origin <= faces)
    entering = select(moving, minimum(first, last), -inf)
    leaving = select(moving, maximum(first, last), select(between, cls(inf), cls(-inf)))
    start = maximum(max(entering), 0)
    active = active & all(leaving > start) & any(moving) & all(resolution > 0) & (start < ray_max)

    position = select(moving & (entering == start), select(forward, cls(0), faces),
                      clip(fma(direction, start, origin), 0, faces))
    position = select(active, position, cls(0))
    # From a boundary, a ray visits the cell that it goes into.
    cell = clip(integers(select(moving & ~forward, ceil(position) - 1, floor(position))), 0, resolution - 1)

    def body(active: Any, state: Any, cell: Any, local: Any, remaining: Any) -> tuple[Any, ...]:
        crossing = select(moving, (ahead - local) / direction, inf)
        length = minimum(min(crossing), remaining)
        crossed = moving & (crossing <= length)
        out = select(crossed, ahead, clip(fma(direction, length, local), 0, 1))
        result = func(state, cells(_reversed(cell)), local, out, active)
        if result.__class__ is not tuple or len(result) != 2:
            raise TypeError("drjit.dda.dda(): 'func' must return a tuple of the state and a mask, found "
                            f"{describe(result)}{f' of {len(result)}' if result.__class__ is tuple else ''}.")
        state, going = result
        cell = select(crossed, cell + step, cell)
        remaining = remaining - length
        active = active & going & (remaining > 0) & all((cell >= 0) & (cell < resolution))
        return active, state, cell, select(crossed, 1 - ahead, out), remaining

    return while_loop((active, state, cell, position - cls(cell), ray_max - start), lambda active, *_: active, body,
                      ("active", "state", "cell", "position", "remaining"), "dda", mode,
                      max_iterations=max_iterations)[1]


def integrate(ray_o: Any, ray_d: Any, ray_max: Any, grid_min: Any, grid_max: Any, vol: Any, active: Any = None,
              mode: _Mode = None) -> Any:
    """The integral, along ray segments, of what a grid interpolates: exact up to rounding.

    The tensor ``vol`` holds values at the corners of ``vol.shape - 1`` cells (Y, X or Z, Y, X), which fill the box from
    ``grid_min`` to ``grid_max``; in between they are interpolated bi- or trilinearly, outside the integrand is zero.
    Segments go from ``ray_o`` to ``ray_o + ray_max * ray_d`` (X, Y, Z); ``ray_max`` may be infinite. The integral is by
    length, whatever the length of ``ray_d``. It is zero where the mask ``active`` is not set. ``mode`` is that of
    :func:`while_loop`, of which there is one for the integral and one for its derivative.

    Differentiable with respect to ``vol`` and ``ray_max``; raises a ``NotImplementedError`` if other arguments track
    derivatives, and a ``TypeError`` for arguments of other types and shapes.

    >>> from drjit.llvm.ad import Array3f, Float, TensorXf
    >>> vol = TensorXf([0, 0, 0, 0, 1, 1, 1, 1], (2, 2, 2))  # increases with Z
    >>> dr.enable_grad(vol)
    >>> total = dr.dda.integrate(ray_o=Array3f(-1, 0.5, 0.25), ray_d=Array3f(1, 0, 0), ray_max=Float(1.5),
    ...                          grid_min=Array3f(0), grid_max=Array3f(1), vol=vol)
    >>> total
    [0.125]
    >>> dr.backward(total)
    >>> vol.grad[0, 0]
    [0.140625, 0.046875]
    """
    function = "drjit.dda.integrate"
    cls = _ray_type(function, ray_o, ray_d, ray_max, grid_min, grid_max, vol)
    o, d, low, high = (_vector(function, name, value, cls) for name, value in (
        ("ray_o", ray_o), ("ray_d", ray_d), ("grid_min", grid_min), ("grid_max", grid_max)))
    dimensions, tensor = len(o), tensor_t(cls)
    if dimensions not in (2, 3):
        raise ArgumentError(f"{function}(): 'ray_o' must have 2 or 3 components, found {dimensions}.")
    if not isinstance(vol, ArrayBase) or _like(type(vol), tensor) is not tensor:
        raise ArgumentError(f"{function}(): 'vol' must be a tensor that goes with 'ray_o' ({tensor._name}), found "
                            f"{describe(vol)}.")
    shape = vol.shape
    if len(shape) != dimensions or [size for size in shape if size < 2]:
        raise ArgumentError(f"{function}(): 'vol' must have {dimensions} dimensions of at least 2 values, found the "
                            f"shape {shape}.")
    for name, value in (("ray_o", o), ("ray_d", d), ("grid_min", low), ("grid_max", high)):
        if grad_enabled(value):
            raise NotImplementedError(f"{function}(): '{name}' tracks derivatives; there are derivatives with respect "
                                      "to 'vol' and 'ray_max' only.")
    active = _mask(function, True if active is None else active, cls)
    ray_max = _length(function, ray_max, cls)
    require_mode(function, mode)
    ray = _Ray(o, d, low, high, shape, active, mode)
    return custom(_Integral, ray, tensor(vol), ray_max, grad_enabled(vol), grad_enabled(ray_max))


def integrate_ref(ray_o: Any, ray_d: Any, ray_max: Any, grid_min: Any, grid_max: Any, vol: Any,
                  n_samples: int) -> Any:
    """What :func:`integrate` computes, by the trapezoid rule over ``n_samples`` points of each ray: for checks.

    Takes ``n_samples`` elements for each ray. Arguments and errors are those of :func:`integrate`; rays must be finite.
    Differentiable with respect to ``vol`` and ``ray_max``.

    >>> from drjit.llvm import Array3f, Float, TensorXf
    >>> vol = TensorXf([0, 0, 0, 0, 1, 1, 1, 1], (2, 2, 2))
    >>> arguments = Array3f(0, 0.5, 0.25), Array3f(1, 0, 0), Float(0.5), Array3f(0), Array3f(1), vol
    >>> dr.dda.integrate_ref(*arguments, 100), dr.dda.integrate(*arguments)
    ([0.125], [0.125])
    """
    function = "drjit.dda.integrate_ref"
    if require_count(function, "n_samples", n_samples, 2) and not is_dynamic_v(ray_o):
        raise TypeError(f"{function}(): the rays must be traced arrays, found {describe(ray_o)}.")
    cls = _ray_type(function, ray_o, ray_d, ray_max, grid_min, grid_max, vol)
    o, d, low, high = (_vector(function, name, value, cls) for name, value in (
        ("ray_o", ray_o), ("ray_d", ray_d), ("grid_min", grid_min), ("grid_max", grid_max)))
    ray = _Ray(o, d, low, high, vol.shape, _mask(function, True, cls), None)
    length = _length(function, ray_max, cls)
    rays = _count(o, d, low, high, length)
    number = arange(uint32_array_t(ray.real), rays * n_samples)
    index, place = number // n_samples, number % n_samples

    def each(value: Any) -> Any:
        return gather(type(value), value, index) if width(value) > 1 else value

    fraction = ray.real(place) / (n_samples - 1)
    position = (fma(each(d), fraction * each(length), each(o)) - each(low)) / each(ray.cell_size)
    sizes = ray.integers(ray.sizes[::-1])
    inside = all((position >= 0) & (position <= cls(sizes)))
    cell = clip(ray.integers(floor(position)), 0, sizes - 1)
    values = [gather(ray.real, tensor_t(cls)(vol).array, corner, inside) for corner in ray.corners(_reversed(cell))]
    found = select(inside, _interpolated(values, position - cls(cell)), 0)
    found = found * select((place == 0) | (place == n_samples - 1), ray.real(0.5), ray.real(1))
    return block_sum(found, n_samples) * norm(d) * length / (n_samples - 1)


class _Ray:
    """Where to integrate: rays, and the cells of a volume."""

    def __init__(self, origin: Any, direction: Any, low: Any, high: Any, shape: tuple[int, ...], active: Any,
                 mode: _Mode) -> None:
        self.origin, self.direction, self.low, self.high = origin, direction, low, high
        self.active, self.mode = active, mode
        self.cls: Any = type(origin)
        self.real: Any = value_t(self.cls)
        self.integers: Any = int32_array_t(self.cls)
        self.sizes = [size - 1 for size in shape]
        self.cell_size = (high - low) / self.cls(self.sizes[::-1])
        #: How far the next value along each axis (X, Y, Z) is away in memory.
        self.strides = [1]
        for size in shape[:0:-1]:
            self.strides.append(self.strides[-1] * size)

    def traverse(self, visit: Callable[..., Any], state: Any, ray_max: Any) -> Any:
        """Call ``visit(state, corners, pt_in, pt_out, length, active)`` for each cell; it returns the new state."""
        def func(state: Any, index: Any, pt_in: Any, pt_out: Any, active: Any) -> tuple[Any, Any]:
            length = norm((pt_out - pt_in) * self.cell_size)
            return visit(state, self.corners(index), pt_in, pt_out, length, active), active

        return _traverse(self.origin, self.direction, ray_max, self.integers(self.sizes), self.low, self.high, func,
                         state, self.active, self.mode, None)

    def corners(self, index: Any) -> list[Any]:
        """Where the values of the corners of a cell (Z, Y, X) are in memory; X is the first bit of their numbers."""
        first = index[len(index) - 1]
        for axis, stride in enumerate(self.strides[:0:-1]):
            first = first + index[axis] * stride
        positions = [first]
        for stride in self.strides:
            positions += [position + stride for position in positions]
        return positions

    def integral(self, data: Any, ray_max: Any) -> Any:
        def visit(total: Any, corners: list[Any], pt_in: Any, pt_out: Any, length: Any, active: Any) -> Any:
            values = [gather(self.real, data, corner, active) for corner in corners]
            middle = (pt_in + pt_out) * 0.5
            # Simpson's rule, which is exact for polynomials of degree 3
            mean = (_interpolated(values, pt_in) + 4 * _interpolated(values, middle)
                    + _interpolated(values, pt_out)) * (1 / 6)
            return fma(mean, length, total)

        return self.traverse(visit, self.zero(ray_max), ray_max)

    def add_transposed(self, target: Any, gradient: Any, ray_max: Any) -> None:
        """Add to each value what it contributed to the integrals, times gradients of these."""
        def visit(state: Any, corners: list[Any], pt_in: Any, pt_out: Any, length: Any, active: Any) -> Any:
            middle, scale = (pt_in + pt_out) * 0.5, gradient * length * (1 / 6)
            for corner, first, second, third in zip(corners, _weights(pt_in), _weights(middle), _weights(pt_out),
                                                    strict=True):
                scatter_add(target, (first + 4 * second + third) * scale, corner, active)
            return state

        self.traverse(visit, (), ray_max)

    def at_end(self, data: Any, ray_max: Any) -> Any:
        """The change of integrals with the ends of rays: the value there, times the length of the direction."""
        sizes = self.integers(self.sizes[::-1])
        position = (fma(self.direction, ray_max, self.origin) - self.low) / self.cell_size
        inside = self.active & (ray_max > 0) & all((position > 0) & (position < self.cls(sizes)))
        position = select(inside, position, self.cls(0))
        cell = minimum(self.integers(floor(position)), sizes - 1)
        values = [gather(self.real, data, corner, inside) for corner in self.corners(_reversed(cell))]
        return _interpolated(values, position - self.cls(cell)) * norm(self.direction)

    def zero(self, ray_max: Any) -> Any:
        return self.real(0) if self.real is float else zeros(self.real, _count(
            self.origin, self.direction, self.low, self.high, self.active, ray_max))


class _Integral(CustomOp):
    """Integrals are linear in the volume; so its gradient takes another walk along the same rays."""

    def eval(self, ray: _Ray, vol: Any, ray_max: Any, by_vol: bool, by_end: bool) -> Any:
        self.ray, self.vol, self.ray_max, self.by_vol, self.by_end = ray, vol, ray_max, by_vol, by_end
        return ray.integral(vol.array, ray_max)

    def forward(self) -> None:
        if self.by_vol:
            self.set_grad_out(self.ray.integral(self.grad_in("vol").array, self.ray_max))
        if self.by_end:
            self.set_grad_out(self.ray.at_end(self.vol.array, self.ray_max) * self.grad_in("ray_max"))

    def backward(self) -> None:
        gradient = self.grad_out()
        if self.by_vol:
            target = zeros(type(self.vol.array), len(self.vol.array))
            self.ray.add_transposed(target, gradient, self.ray_max)
            self.set_grad_in("vol", type(self.vol)(target, self.vol.shape))
        if self.by_end:
            self.set_grad_in("ray_max", self.ray.at_end(self.vol.array, self.ray_max) * gradient)

    def name(self) -> str:
        return "dda.integrate"


def _interpolated(values: list[Any], point: Any) -> Any:
    """The value within a cell, given those of its corners."""
    for weight in point:
        values = [fma(weight, second - first, first) for first, second in zip(values[::2], values[1::2], strict=True)]
    return values[0]


def _weights(point: Any) -> list[Any]:
    """The parts that the corners of a cell have in a value within it."""
    found: list[Any] = []
    for weight in point:
        found = [entry * (1 - weight) for entry in found] + [entry * weight for entry in found] if found else \
            [1 - weight, weight]
    return found


def _count(*arrays: Any) -> int:
    """The number of rays; 0 if any of the arrays is empty."""
    return width(*arrays) if all([width(array) > 0 for array in arrays]) else 0


def _reversed(vector: Any) -> Any:
    """A vector from the last axis to the first."""
    return type(vector)([vector[axis] for axis in range(len(vector) - 1, -1, -1)])


# --- checks of arguments ---------------------------------------------------------------------------------------------


def _like(cls: Any, model: Any) -> Any:
    """An array type that tracks derivatives if another one does."""
    return diff_array_t(cls) if is_diff_v(model) else cls


def _ray_type(function: str, ray_o: Any, *others: Any) -> Any:
    """The type of points and directions, which tracks derivatives if any argument can."""
    cls = type(ray_o)
    if not (isinstance(ray_o, ArrayBase) and is_vector_v(cls) and not is_special_v(cls) and cls._kind == "f"
            and value_t(cls) is not cls and (value_t(cls) is float or not value_t(cls)._depth)):
        raise ArgumentError(f"{function}(): 'ray_o' must be a vector of floating-point numbers such as "
                            f"drjit.llvm.Array3f, found {describe(ray_o)}.")
    return diff_array_t(cls) if [other for other in others if is_diff_v(type(other))] else cls


def _vector(function: str, name: str, value: Any, cls: Any) -> Any:
    """A point or a direction."""
    if isinstance(value, ArrayBase) and _like(type(value), cls) is not cls:
        raise ArgumentError(f"{function}(): '{name}' must be of the type of 'ray_o' ({cls._name}), found "
                            f"{describe(value)}.")
    return value if type(value) is cls else cls(value)


def _length(function: str, value: Any, cls: Any) -> Any:
    real = value_t(cls)
    number = plain_scalar(value)
    if number.__class__ in (int, float) or isinstance(value, ArrayBase) and _like(type(value), cls) is real:
        return value if type(value) is real else real(value)
    raise ArgumentError(f"{function}(): 'ray_max' must be of type {describe(real)}, found {describe(value)}.")


def _mask(function: str, value: Any, cls: Any) -> Any:
    mask: Any = mask_t(value_t(cls))
    if plain_scalar(value).__class__ is bool or isinstance(value, ArrayBase) and _like(type(value), cls) is mask:
        return value if type(value) is mask else mask(value)
    raise ArgumentError(f"{function}(): 'active' must be of type {describe(mask)}, found {describe(value)}.")
