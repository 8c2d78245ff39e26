"""Functions that create arrays."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

import drjit.array_api as xp

from ._public import Array, array_of, axis_of, decided, floating, is_number, of_type, public

__all__ = ["arange", "array", "asanyarray", "asarray", "asarray_chkfinite", "ascontiguousarray", "asfarray",
           "asfortranarray", "copy", "diag", "diag_indices", "diag_indices_from", "diagflat", "empty", "empty_like",
           "eye", "fill_diagonal", "frombuffer", "fromfunction", "fromiter", "full", "full_like", "geomspace",
           "identity", "indices", "linspace", "logspace", "mask_indices", "meshgrid", "ones", "ones_like", "require",
           "tri", "tril", "tril_indices", "tril_indices_from", "triu", "triu_indices", "triu_indices_from",
           "unravel_index", "ravel_multi_index", "vander", "zeros", "zeros_like"]

Shape = int | Sequence[int]


def _placed(found: Array, device: str | None = None, like: Any = None) -> Array:
    """A new array on a device, or if none is said on that of an array that it is to be ``like``."""
    if like is not None and not hasattr(like, "__array_function__"):
        raise TypeError(f"'like' must be an array, found {type(like).__name__}.")
    if device is None and isinstance(like, Array):
        device = like.device
    return found if device is None else found.to_device(device)


# --- from other objects ----------------------------------------------------------------------------------------------


@public
def array(object: Any, dtype: Any = None, *, copy: bool | None = True, order: str = "K", subok: bool = False,
          ndmin: int = 0, like: Any = None) -> Array:
    """An array of its own of what ``object`` holds, with ``ndmin`` axes at least: as ``asarray``, with a copy.

    Lazy; differentiable. Raises a ``ValueError`` for sequences whose entries have different lengths.
    """
    found = xp.asarray(object, dtype=dtype, copy=copy if isinstance(object, Array) else None)
    return _placed(found if found.ndim >= ndmin else found.reshape((1,) * (ndmin - found.ndim) + found.shape),
                   like=like)


@public
def asarray(a: Any, dtype: Any = None, order: str | None = None, *, device: str | None = None,
            copy: bool | None = None, like: Any = None) -> Array:
    """The array that a number, nested sequences, an array of NumPy or Dr.Jit, or an object with the buffer or DLPack
    protocol is or becomes; arrays of this module are returned as they are, but for those on another ``device`` than is
    said, or than an array is on that the result is to be ``like``. Lazy; differentiable."""
    return _placed(xp.asarray(a, dtype=dtype, device=device, copy=copy), device, like)


@public
def asarray_chkfinite(a: Any, dtype: Any = None, order: str | None = None) -> Array:
    """The array that an argument is or becomes. Evaluates; raises a ``ValueError`` if an element is infinite or NaN."""
    found = asarray(a, dtype, order)
    if found.dtype.kind in "fc" and not decided(bool, xp.isfinite(found).all()):
        raise ValueError("an element is infinite or NaN.")
    return found


@public
def require(a: Any, dtype: Any = None, requirements: Any = None, *, like: Any = None) -> Array:
    """The array that an argument is or becomes, of a data type: in an array of its own if that is asked for (``'O'``).
    Others than the order of C cannot be had."""
    names = {str(name).upper().removesuffix("_CONTIGUOUS") for name in
             ([requirements] if isinstance(requirements, str) else requirements or ())}
    unknown = names - {"C", "CONTIGUOUS", "A", "ALIGNED", "W", "WRITEABLE", "O", "OWNDATA", "E", "ENSUREARRAY"}
    if unknown:
        raise ValueError(f"arrays are in the order of C and can be written to; 'requirements' has {sorted(unknown)}.")
    found = asarray(a, dtype, like=like)
    return found.copy() if names & {"O", "OWNDATA"} and found is a else found


@public
def mask_indices(n: int, mask_func: Callable[..., Any], k: Any = 0) -> tuple[Array, ...]:
    """The positions of a square matrix of ``n`` rows that a function such as ``triu`` leaves. Evaluates."""
    return array_of(mask_func(ones((n, n), dtype=int), k)).nonzero()


asanyarray = ascontiguousarray = asfarray = asfortranarray = asarray


@public
def copy(a: Any, order: str = "K", subok: bool = False) -> Array:
    """An array of its own with the same elements. Lazy; differentiable."""
    return array_of(a).copy()


@public
def fromfunction(function: Callable[..., Any], shape: Sequence[int], *, dtype: Any = float, like: Any = None,
                 **kwargs: Any) -> Array:
    """What a function makes of the arrays of positions along each axis. Lazy; differentiable."""
    return function(*[_placed(positions, like=like) for positions in indices(tuple(shape), dtype=dtype)], **kwargs)


@public
def fromiter(iter: Iterable[Any], dtype: Any, count: int = -1, *, like: Any = None) -> Array:
    """An array of one axis of what an iterator of numbers yields."""
    return _placed(xp.asarray(np.fromiter(iter, of_type(dtype).numpy, count)), like=like)


@public
def frombuffer(buffer: Any, dtype: Any = float, count: int = -1, offset: int = 0, *, like: Any = None) -> Array:
    """An array of one axis, a copy of the bytes of a buffer."""
    return _placed(xp.asarray(np.frombuffer(buffer, of_type(dtype).numpy, count, offset)), like=like)


# --- filled arrays ---------------------------------------------------------------------------------------------------


def _shape(shape: Any) -> Any:
    if not hasattr(shape, "__iter__") or isinstance(shape, Array) and not shape.ndim:
        return operator.index(shape)
    return tuple([operator.index(size) for size in shape])


@public
def zeros(shape: Shape, dtype: Any = None, order: str = "C", *, device: str | None = None, like: Any = None) -> Array:
    """An array of zeros, on a ``device``, or that of an array that it is to be ``like``. Lazy."""
    return _placed(xp.zeros(_shape(shape), dtype=dtype), device, like)


@public
def ones(shape: Shape, dtype: Any = None, order: str = "C", *, device: str | None = None, like: Any = None) -> Array:
    """An array of ones, on a ``device``, or that of an array that it is to be ``like``. Lazy."""
    return _placed(xp.ones(_shape(shape), dtype=dtype), device, like)


@public
def empty(shape: Shape, dtype: Any = None, order: str = "C", *, device: str | None = None, like: Any = None) -> Array:
    """An array whose elements are to be set; they are zeros, on a ``device``, or that of an array that it is to be
    ``like``. Lazy."""
    return _placed(xp.zeros(_shape(shape), dtype=dtype), device, like)


@public
def full(shape: Shape, fill_value: Any, dtype: Any = None, order: str = "C", *, device: str | None = None,
         like: Any = None) -> Array:
    """An array of a shape whose elements are those of ``fill_value``, which is broadcast, on a ``device``, or that of
    an array that it is to be ``like``. Lazy; differentiable."""
    sizes = _shape(shape)
    if is_number(fill_value):
        return _placed(xp.full(sizes, fill_value, dtype=dtype), device, like)
    found = xp.broadcast_to(array_of(fill_value), sizes if isinstance(sizes, tuple) else (sizes,))
    return _placed(found if dtype is None else found.astype(dtype), device, like)


def _like(a: Any, value: Any, dtype: Any, shape: Any, device: str | None) -> Array:
    like = array_of(a)
    return full(like.shape if shape is None else shape, value, like.dtype if dtype is None else dtype, device=device)


@public
def zeros_like(a: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None, *,
               device: str | None = None) -> Array:
    """An array of zeros of the shape and the type of another one. Lazy."""
    return _like(a, 0, dtype, shape, device)


@public
def ones_like(a: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None, *,
              device: str | None = None) -> Array:
    """An array of ones of the shape and the type of another one. Lazy."""
    return _like(a, 1, dtype, shape, device)


@public
def empty_like(a: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None, *,
               device: str | None = None) -> Array:
    """An array of the shape and the type of another one whose elements are to be set; they are zeros. Lazy."""
    return _like(a, 0, dtype, shape, device)


@public
def full_like(a: Any, fill_value: Any, dtype: Any = None, order: str = "K", subok: bool = True,
              shape: Any = None, *, device: str | None = None) -> Array:
    """An array of the shape and the type of another one whose elements are those of ``fill_value``. Lazy."""
    like = array_of(a)
    if is_number(fill_value) and like.dtype.kind in "iu" and dtype is None:
        fill_value = int(fill_value.real)
    return _like(a, fill_value, dtype, shape, device)


# --- ranges ----------------------------------------------------------------------------------------------------------


@public
def arange(start: Any, stop: Any = None, step: Any = 1, dtype: Any = None, *, device: str | None = None,
           like: Any = None) -> Array:
    """``start``, ``start + step`` … before ``stop``; from 0 to the only argument. Lazy; arguments that are arrays are
    evaluated."""
    given = [array_of(value) for value in (start, stop, step) if isinstance(value, (Array, np.ndarray, np.generic))]
    if dtype is None and given:
        dtype = xp.result_type(xp.int64, *given)
    start, stop, step = (value.item() if isinstance(value, (Array, np.ndarray)) else value
                         for value in (start, stop, step))
    return _placed(xp.arange(start, stop, step, dtype=dtype), device, like)


def _spaced(start: Any, stop: Any, num: int, endpoint: bool, axis: int) -> Array:
    """Numbers at equal distances, as floating point numbers along an axis."""
    first, last = xp.broadcast_arrays(floating(start), floating(stop))
    count = operator.index(num)
    if count < 0:
        raise ValueError(f"'num' must not be negative, found {count}.")
    steps = count - 1 if endpoint else count
    place = axis_of(axis, first.ndim + 1)
    shape = tuple([count if k == place else 1 for k in range(first.ndim + 1)])
    position = xp.arange(count).astype(xp.float64).reshape(shape)
    a, b = xp.expand_dims(first, place), xp.expand_dims(last, place)
    found = a + (b - a) * (position / max(steps, 1))
    return xp.where(position == steps, b, found) if endpoint and count > 1 else found


@public
def linspace(start: Any, stop: Any, num: int = 50, endpoint: bool = True, retstep: bool = False, dtype: Any = None,
             axis: int = 0, *, device: str | None = None) -> Any:
    """``num`` numbers at equal distances from ``start`` to ``stop``, which is one of them if ``endpoint``; with
    ``retstep`` the distance, too. Both may be arrays: numbers lie along a new ``axis``. Lazy; differentiable."""
    if is_number(start) and is_number(stop) and not axis:
        found = xp.linspace(start, stop, num, endpoint=endpoint)
    else:
        found = _spaced(start, stop, num, endpoint, axis)
    if dtype is not None:
        found = (xp.floor(found) if of_type(dtype).kind in "iu" else found).astype(dtype)
    found = _placed(found, device)
    if not retstep:
        return found
    steps = num - 1 if endpoint else num
    return found, (floating(stop) - floating(start)) / steps if steps > 0 else xp.asarray(math.nan)


@public
def logspace(start: Any, stop: Any, num: int = 50, endpoint: bool = True, base: float = 10.0, dtype: Any = None,
             axis: int = 0) -> Array:
    """``num`` powers of ``base``, whose exponents are at equal distances. Lazy; differentiable."""
    found = xp.pow(xp.asarray(base, dtype=xp.float64), _spaced(start, stop, num, endpoint, axis))
    return found if dtype is None else found.astype(dtype)


@public
def geomspace(start: Any, stop: Any, num: int = 50, endpoint: bool = True, dtype: Any = None, axis: int = 0) -> Array:
    """``num`` numbers from ``start`` to ``stop``, each the same multiple of the one before. Real numbers other than 0,
    of one sign. Lazy; differentiable."""
    first, last = floating(start), floating(stop)
    sign = xp.sign(first)
    exponents = _spaced(xp.log(xp.abs(first)), xp.log(xp.abs(last)), num, endpoint, axis)
    found = xp.exp(exponents) * xp.expand_dims(sign, axis if axis >= 0 else axis + first.ndim + 1)
    place = axis_of(axis, found.ndim)
    position = xp.arange(num).reshape(tuple([num if k == place else 1 for k in range(found.ndim)]))
    found = xp.where(position == 0, xp.expand_dims(first, place), found)
    if endpoint and num > 1:
        found = xp.where(position == num - 1, xp.expand_dims(last, place), found)
    return found if dtype is None else found.astype(dtype)


# --- matrices --------------------------------------------------------------------------------------------------------


@public
def eye(N: int, M: int | None = None, k: int = 0, dtype: Any = float, order: str = "C", *, device: str | None = None,
        like: Any = None) -> Array:
    """A matrix with ones on the diagonal ``k`` places above the main one. Lazy."""
    return _placed(xp.eye(N, M, k=k, dtype=dtype), device, like)


@public
def identity(n: int, dtype: Any = None, *, like: Any = None) -> Array:
    """A square matrix with ones on the diagonal. Lazy."""
    return _placed(xp.eye(n, dtype=dtype), like=like)


@public
def tri(N: int, M: int | None = None, k: int = 0, dtype: Any = float, *, like: Any = None) -> Array:
    """A matrix of ones on and below a diagonal, zeros above. Lazy."""
    return _placed(xp.tril(xp.ones((N, N if M is None else M), dtype=dtype), k=k), like=like)


def _matrix(m: Any) -> Array:
    """Matrices; a vector is each row of one."""
    array = array_of(m)
    return xp.broadcast_to(array, array.shape * 2) if array.ndim == 1 else array


@public
def tril(m: Any, k: int = 0) -> Array:
    """The entries of matrices on and below a diagonal, zeros above. Lazy; differentiable."""
    return xp.tril(_matrix(m), k=k)


@public
def triu(m: Any, k: int = 0) -> Array:
    """The entries of matrices on and above a diagonal, zeros below. Lazy; differentiable."""
    return xp.triu(_matrix(m), k=k)


@public
def diag(v: Any, k: int = 0) -> Array:
    """The entries on a diagonal of a matrix, or the matrix with a vector on a diagonal. Lazy; differentiable."""
    values = array_of(v)
    if values.ndim == 2:
        return xp.linalg.diagonal(values, offset=k)
    if values.ndim != 1:
        raise ValueError(f"'v' must have one or two dimensions, found the shape {values.shape}.")
    before, behind = (max(-k, 0), max(k, 0))
    size = values.size + abs(k)
    row, column = xp.arange(size)[:, None], xp.arange(size)[None, :]
    wide = xp.concat([values, xp.zeros((abs(k),), dtype=values.dtype)]) if k else values
    source = xp.take(wide, xp.arange(size) - before if k < 0 else xp.arange(size)) if k else values
    return xp.where(column - row == behind - before, source[:, None], xp.zeros((), dtype=values.dtype))


@public
def diagflat(v: Any, k: int = 0) -> Array:
    """The matrix with all elements of an array on a diagonal. Lazy; differentiable."""
    return diag(array_of(v).ravel(), k)


@public
def vander(x: Any, N: int | None = None, increasing: bool = False) -> Array:
    """The powers of each element in a row, in descending order unless ``increasing``. Lazy; differentiable."""
    values = array_of(x)
    values = values.astype(xp.result_type(values, xp.int64))
    count = values.size if N is None else N
    powers = [xp.ones_like(values)]
    for _ in range(count - 1):
        powers.append(powers[-1] * values)
    if not count:
        return xp.zeros((values.size, 0), dtype=values.dtype)
    return xp.stack(powers[:count] if increasing else powers[:count][::-1], axis=-1)


@public
def fill_diagonal(a: Array, val: Any, wrap: bool = False) -> None:
    """Set the entries on the main diagonal of an array in place; ``wrap`` goes on below the end of a tall matrix."""
    if a.ndim < 2:
        raise ValueError(f"'a' must have two dimensions at least, found the shape {a.shape}.")
    if a.ndim > 2 and len(set(a.shape)) != 1:
        raise ValueError(f"all axes of 'a' must have one size, found the shape {a.shape}.")
    step = a.shape[1] + 1 if a.ndim == 2 else 1 + sum([math.prod(a.shape[k:]) for k in range(1, a.ndim)])
    end = a.size if wrap or a.ndim > 2 else min(a.size, a.shape[1] ** 2)
    place = np.unravel_index(np.arange(0, end, step), a.shape)
    values = val if is_number(val) else array_of(val).ravel()
    if isinstance(values, Array) and values.size != 1:
        values = xp.take(values, xp.asarray(np.arange(len(place[0])) % values.size))
    a[place] = values


# --- positions -------------------------------------------------------------------------------------------------------


@public
def meshgrid(*xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> tuple[Array, ...]:
    """Coordinates of a grid: for each array of one axis an array of all axes, with ``sparse`` one that is broadcast.

    ``indexing``: ``'ij'``, the k-th array varies along axis k, or ``'xy'``, with the first two exchanged. Lazy;
    differentiable.
    """
    if indexing not in ("xy", "ij"):
        raise ValueError(f"'indexing' must be 'xy' or 'ij', found {indexing!r}.")
    arrays = [array_of(x).ravel() for x in xi]
    places = list(range(len(arrays)))
    if indexing == "xy" and len(arrays) > 1:
        places[:2] = 1, 0
    found = [array.reshape(tuple([-1 if axis == place else 1 for axis in range(len(arrays))]))
             for array, place in zip(arrays, places, strict=True)]
    return tuple(found) if sparse else xp.broadcast_arrays(*found)


@public
def indices(dimensions: Sequence[int], dtype: Any = int, sparse: bool = False) -> Any:
    """The positions along each axis of a grid, stacked; with ``sparse`` a tuple of arrays that are broadcast. Lazy."""
    sizes = tuple(dimensions)
    found = [xp.arange(size).astype(dtype).reshape(tuple([-1 if k == axis else 1 for k in range(len(sizes))]))
             for axis, size in enumerate(sizes)]
    if sparse:
        return tuple(found)
    return xp.stack([xp.broadcast_to(array, sizes) for array in found]) if found else xp.zeros((0,), dtype=dtype)


def _of_numpy(found: Sequence[Any]) -> tuple[Array, ...]:
    return tuple([xp.asarray(entry) for entry in found])


@public
def diag_indices(n: int, ndim: int = 2) -> tuple[Array, ...]:
    """The positions on the main diagonal of an array, one array for each axis."""
    return (xp.arange(n),) * ndim


@public
def tril_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Array, ...]:
    """The positions on and below a diagonal of a matrix."""
    return _of_numpy(np.tril_indices(n, k, m))


@public
def triu_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Array, ...]:
    """The positions on and above a diagonal of a matrix."""
    return _of_numpy(np.triu_indices(n, k, m))


@public
def diag_indices_from(arr: Any) -> tuple[Array, ...]:
    """The positions on the main diagonal of an array whose axes have one size, one array for each axis."""
    array = array_of(arr)
    if array.ndim < 2 or len(set(array.shape)) != 1:
        raise ValueError(f"all axes of 'arr', two at least, must have one size, found the shape {array.shape}.")
    return diag_indices(array.shape[0], array.ndim)


@public
def tril_indices_from(arr: Any, k: int = 0) -> tuple[Array, ...]:
    """The positions on and below a diagonal of a matrix."""
    return tril_indices(array_of(arr).shape[-2], k, array_of(arr).shape[-1])


@public
def triu_indices_from(arr: Any, k: int = 0) -> tuple[Array, ...]:
    """The positions on and above a diagonal of a matrix."""
    return triu_indices(array_of(arr).shape[-2], k, array_of(arr).shape[-1])


@public
def unravel_index(indices: Any, shape: Sequence[int], order: str = "C") -> tuple[Array, ...]:
    """For positions among all elements those along each axis. Lazy; positions beyond the shape are not noticed."""
    sizes = tuple(shape) if hasattr(shape, "__iter__") else (shape,)
    flat, found = array_of(indices), []
    for size in (reversed(sizes) if order == "C" else sizes):
        found.append(flat % size)
        flat = flat // size
    return tuple(found[::-1] if order == "C" else found)


@public
def ravel_multi_index(multi_index: Sequence[Any], dims: Sequence[int], mode: str = "raise", order: str = "C") -> Array:
    """For positions along each axis those among all elements. ``mode`` is what is done with those beyond an axis:
    nothing (``'raise'``), counting in a circle (``'wrap'``), the nearest one (``'clip'``). Lazy."""
    entries = [array_of(entry) for entry in multi_index]
    if mode != "raise":
        entries = [entry % size if mode == "wrap" else xp.clip(entry, 0, size - 1)
                   for entry, size in zip(entries, dims, strict=True)]
    pairs = list(zip(entries, dims, strict=True))
    found = xp.asarray(0)
    for entry, size in pairs if order == "C" else pairs[::-1]:
        found = found * size + entry
    return found
