"""Methods of arrays, by the names, the arguments and the meaning that those of NumPy's and JAX's arrays have.

Those of reductions take ``out``, an array that is written to, and ``where``, a mask of the elements that count. All are
lazy unless they say otherwise, and differentiable where the functions of the namespace are.
"""

from __future__ import annotations

import builtins
import math
import pickle
from builtins import max as greatest
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, cast

import numpy as np

import drjit as dr
from drjit.interop import contiguous_strides

from . import _dtypes as dtypes
from ._creation import asarray, astype, data_type
from ._data import (
    Storage,
    constant,
    copy_of,
    has_value,
    require_writable,
    reversed_axes,
    view_of_part,
    view_of_zeros,
    wrap,
)
from ._elementwise import (
    add,
    conj,
    divide,
    floor_divide,
    multiply,
    negative,
    pow,
    remainder,
    round,
    sqrt,
    subtract,
)
from ._elementwise import clip as clipped
from ._indexing import combine, get, nonzero, put, take, where, write_into
from ._linear import matmul, tensordot
from ._manipulation import moveaxis, permute_dims, repeat, reshape, squeeze, transpose
from ._operands import converted, normalized_axis, number_of, operands
from ._operators import Operators
from ._searching import argmax, argmin, argsort, partitioned, searchsorted, sort
from ._small import eagerly, on_host
from ._statistics import all, any, cumulative_prod, cumulative_sum, max, mean, min, prod, std, sum, var
from .linalg import diagonal

if TYPE_CHECKING:
    from ._array import Array

__all__ = ["Methods"]

_SELF = "drjit.array_api.Array"
Axis = int | tuple[int, ...] | None


def _into(out: Array | None, found: Array) -> Array:
    """The result of a method, or the array that it is written to."""
    if out is None:
        return found
    write_into(_SELF, out, found)
    return out


def _beside(array: Storage, value: Any) -> Array:
    """The array that an argument is, or becomes on the device of another one."""
    return cast("Array", value) if isinstance(value, Storage) else asarray(value, device=array.device)


def _chosen(array: Any, mask: Any, neutral: Any) -> Array:
    """The array with a neutral element in place of those that do not count."""
    return cast("Array", array) if mask is True else where(_beside(array, mask), array, neutral)


def _limit(array: Storage, sign: int) -> Any:
    """The neutral element of maxima (-1) and minima (1)."""
    if array._dtype.kind in "fc":
        return sign * (math.inf if array._dtype.kind == "f" else complex(math.inf, math.inf))
    if array._dtype.kind == "b":
        return sign > 0
    limits = dtypes.iinfo_of(array._dtype)
    return limits.max if sign > 0 else limits.min


def _in_order(array: Any, order: str, function: str) -> Array:
    """The array whose elements in C order are those of an array in some order."""
    if order not in ("C", "F", "A", "K"):
        raise ValueError(f"{_SELF}.{function}(): 'order' must be 'C', 'F', 'A' or 'K', found {order!r}.")
    if order == "F" or order == "A" and array.flags.fnc:
        return transpose(array)
    if order == "K" and array._view is not None:  # as they follow each other in memory
        strides = array.place[1]
        return permute_dims(array, tuple(sorted(range(array.ndim), key=lambda axis: -abs(strides[axis]))))
    return cast("Array", array)


def _several(values: tuple[Any, ...]) -> Any:
    """Arguments that may be one tuple."""
    return values[0] if len(values) == 1 and isinstance(values[0], (tuple, list)) else values


class Methods(Operators):
    """The methods; :class:`drjit.array_api.Array` adds what Python asks for."""

    __slots__ = ()

    # --- attributes ---

    @property
    def T(self) -> Array:
        """The array with its axes in reverse order: of a matrix the transpose. A view."""
        now = reversed_axes(self)
        return now if now is not None else transpose(cast("Array", self))

    @property
    def real(self) -> Array:
        """The real part; a view."""
        return view_of_part(self, 0) if self._dtype.kind == "c" else get(self, ...)

    @real.setter
    def real(self, value: Any) -> None:
        put(self.real, ..., value)

    @property
    def imag(self) -> Array:
        """The imaginary part, a view; of real elements zeros, which cannot be written to."""
        return view_of_part(self, 1) if self._dtype.kind == "c" else view_of_zeros(self)

    @imag.setter
    def imag(self, value: Any) -> None:
        if self._dtype.kind != "c":
            raise TypeError(f"{_SELF}.imag: an array of {self._dtype} has no imaginary part to set.")
        put(self.imag, ..., value)

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return self._dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self.size * self._dtype.itemsize

    @property
    def strides(self) -> tuple[int, ...]:
        """Bytes from an element to the next one along each axis, as NumPy's arrays in C order have them."""
        return tuple([math.prod(self.shape[axis + 1:]) * self._dtype.itemsize for axis in range(self.ndim)])

    @property
    def base(self) -> Array | None:
        """The array that this one is a view of; ``None`` if it is none."""
        return None if self._view is None else cast("Array", self._view.root)

    @property
    def flags(self) -> Flags:
        """How the elements lie among those of the array that owns them, by NumPy's names."""
        return Flags(self)

    @property
    def flat(self) -> Array:
        """The elements in their order, of one axis; a view where the elements of the array follow each other."""
        return reshape(cast("Array", self), (-1,))

    @flat.setter
    def flat(self, value: Any) -> None:
        source = reshape(_beside(self, value), (-1,))
        index = _beside(source, np.arange(self.size) % source.size)
        put(self, ..., reshape(take(source, index), self.shape))

    @property
    def at(self) -> At:
        """Changed copies: ``x.at[key].set(value)``, as JAX has them; ``add``, ``subtract``, ``multiply``, ``divide``,
        ``power``, ``min`` and ``max`` count positions that a key has several times as often as it has them."""
        return At(cast("Array", self))

    # --- reductions ---

    def sum(self, axis: Axis = None, dtype: Any = None, out: Array | None = None, keepdims: bool = False,
            initial: Any = None, where: Any = True) -> Array:
        """The sum over axes, all of them without ``axis``; of integers as 64-bit ones if ``dtype`` says nothing else.
        """
        found = sum(_chosen(self, where, 0), axis=axis, dtype=dtype, keepdims=keepdims)
        return _into(out, found if initial is None else add(found, initial))

    def prod(self, axis: Axis = None, dtype: Any = None, out: Array | None = None, keepdims: bool = False,
             initial: Any = None, where: Any = True) -> Array:
        """The product over axes; data types as those of :meth:`sum`."""
        found = prod(_chosen(self, where, 1), axis=axis, dtype=dtype, keepdims=keepdims)
        return _into(out, found if initial is None else multiply(found, initial))

    def mean(self, axis: Axis = None, dtype: Any = None, out: Array | None = None, keepdims: bool = False, *,
             where: Any = True) -> Array:
        """The mean over axes; NaN of no elements."""
        array = cast("Array", self if dtype is None else astype(cast("Array", self), dtype, copy=False))
        if where is True:
            return _into(out, mean(array, axis=axis, keepdims=keepdims))
        mask = _beside(array, where)
        zeros = constant(dtypes.int64, 0, array.shape, array.device)
        count = sum(add(mask, zeros), axis=axis, keepdims=keepdims)
        total = sum(_chosen(array, mask, 0), axis=axis, keepdims=keepdims)
        return _into(out, divide(total, count if total._dtype.kind in "iu" else converted(count, total._dtype)))

    def var(self, axis: Axis = None, dtype: Any = None, out: Array | None = None, ddof: float = 0,
            keepdims: bool = False, *, where: Any = True, mean: Any = None,
            correction: float | None = None) -> Array:
        """The variance over axes: the sum of squared distances from the mean, divided by the number of elements less
        ``ddof``, which the standard calls ``correction``. The ``mean`` may be given, with the axes that it is over as
        axes of size one."""
        return _into(out, self._spread(var, axis, dtype, ddof if correction is None else correction, keepdims, where,
                                       mean))

    def std(self, axis: Axis = None, dtype: Any = None, out: Array | None = None, ddof: float = 0,
            keepdims: bool = False, *, where: Any = True, mean: Any = None,
            correction: float | None = None) -> Array:
        """The square root of :meth:`var`."""
        return _into(out, self._spread(std, axis, dtype, ddof if correction is None else correction, keepdims, where,
                                       mean))

    def _spread(self, measure: Callable[..., Array], axis: Axis, dtype: Any, free: float, keepdims: bool, mask: Any,
                centre: Any) -> Array:
        """The variance or the standard deviation of the elements of a mask, around a centre."""
        array = cast("Array", self if dtype is None else astype(cast("Array", self), dtype, copy=False))
        if mask is True and centre is None:
            return measure(array, axis=axis, correction=free, keepdims=keepdims)
        centre = array.mean(axis, keepdims=True, where=mask) if centre is None else \
            _beside(array, centre)
        distance = _chosen(subtract(array, centre), mask, 0)
        squares = multiply(distance, conj(distance)).real if distance._dtype.kind == "c" else \
            multiply(distance, distance)
        ones = constant(squares._dtype, 1, array.shape, array.device)
        count = subtract(sum(_chosen(ones, mask, 0), axis=axis, keepdims=keepdims), free)
        found = divide(sum(squares, axis=axis, keepdims=keepdims), clipped(count, 0, None))
        return found if measure is var else sqrt(found)

    def max(self, axis: Axis = None, out: Array | None = None, keepdims: bool = False, initial: Any = None,
            where: Any = True) -> Array:
        """The largest element over axes, no less than ``initial``; NaN if there is one."""
        return _into(out, self._extreme(max, -1, axis, keepdims, initial, where))

    def min(self, axis: Axis = None, out: Array | None = None, keepdims: bool = False, initial: Any = None,
            where: Any = True) -> Array:
        """The smallest element over axes, no greater than ``initial``; NaN if there is one."""
        return _into(out, self._extreme(min, 1, axis, keepdims, initial, where))

    def _extreme(self, reduce: Callable[..., Array], sign: int, axis: Axis, keepdims: bool, initial: Any,
                 mask: Any) -> Array:
        array = _chosen(self, mask, _limit(self, sign) if initial is None else initial)
        if initial is None:
            return reduce(array, axis=axis, keepdims=keepdims)
        places = range(self.ndim) if axis is None else (axis,) if isinstance(axis, int) else axis
        if not math.prod([self.shape[place] for place in places]):
            shape = sum(array, axis=axis, keepdims=keepdims).shape
            return constant(self._dtype, initial, shape, self.device)
        return clipped(reduce(array, axis=axis, keepdims=keepdims), *((initial, None) if sign < 0 else (None, initial)))

    def ptp(self, axis: Axis = None, out: Array | None = None, keepdims: bool = False) -> Array:
        """The largest element over axes less the smallest one."""
        array = cast("Array", self)
        return _into(out, subtract(max(array, axis=axis, keepdims=keepdims), min(array, axis=axis, keepdims=keepdims)))

    def all(self, axis: Axis = None, out: Array | None = None, keepdims: bool = False, *, where: Any = True) -> Array:
        """Whether all elements over axes are true, or other than 0."""
        return _into(out, all(_chosen(converted(self, dtypes.bool), where, True), axis=axis, keepdims=keepdims))

    def any(self, axis: Axis = None, out: Array | None = None, keepdims: bool = False, *, where: Any = True) -> Array:
        """Whether an element over axes is true, or other than 0."""
        return _into(out, any(_chosen(converted(self, dtypes.bool), where, False), axis=axis, keepdims=keepdims))

    def argmax(self, axis: int | None = None, out: Array | None = None, keepdims: bool = False) -> Array:
        """The position of the first largest element along an axis, or among all."""
        return _into(out, argmax(cast("Array", self), axis=axis, keepdims=keepdims))

    def argmin(self, axis: int | None = None, out: Array | None = None, keepdims: bool = False) -> Array:
        """The position of the first smallest element along an axis, or among all."""
        return _into(out, argmin(cast("Array", self), axis=axis, keepdims=keepdims))

    def cumsum(self, axis: int | None = None, dtype: Any = None, out: Array | None = None) -> Array:
        """The sums of the elements up to each one along an axis; of all elements in their order without one."""
        array, place = self._along(axis)
        return _into(out, cumulative_sum(array, axis=place, dtype=dtype))

    def cumprod(self, axis: int | None = None, dtype: Any = None, out: Array | None = None) -> Array:
        """The products of the elements up to each one along an axis; of all elements in their order without one."""
        array, place = self._along(axis)
        return _into(out, cumulative_prod(array, axis=place, dtype=dtype))

    def _along(self, axis: int | None) -> tuple[Array, int]:
        array = cast("Array", self)
        return (reshape(array, (-1,)), 0) if axis is None else (array, axis)

    def trace(self, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None,
              out: Array | None = None) -> Array:
        """The sum of the entries on a diagonal of two axes."""
        return _into(out, sum(self.diagonal(offset, axis1, axis2), axis=-1, dtype=dtype))

    # --- products ---

    def dot(self, b: Any, out: Array | None = None) -> Array:
        """The sum of products over the last axis and the second to last one of ``b`` (its only one of a vector);
        products of each element with a number."""
        array, other = cast("Array", self), _beside(self, b)
        if not array.ndim or not other.ndim:
            return _into(out, multiply(array, other))
        if array.ndim <= 2 and other.ndim <= 2:
            return _into(out, matmul(array, other))
        return _into(out, tensordot(array, other, axes=((array.ndim - 1,), (greatest(other.ndim - 2, 0),))))

    # --- elements ---

    def clip(self, min: Any = None, max: Any = None, out: Array | None = None) -> Array:
        """Elements no less than ``min`` and no greater than ``max``, which are numbers or arrays."""
        bounds = [value if value is None or number_of(value) is not None else _beside(self, value)
                  for value in (min, max)]
        if self._dtype.kind in "iu":  # which no element is beyond
            limits = dtypes.iinfo_of(self._dtype)
            low, high = bounds
            bounds = [None if isinstance(low, int) and low < limits.min else low,
                      None if isinstance(high, int) and high > limits.max else high]
        given = [value for value in bounds if value is not None]
        array = operands(f"{_SELF}.clip", [self, *given], ["self", "min", "max"][:1 + len(given)], broadcast=False)[0]
        return _into(out, clipped(array, *bounds))

    def round(self, decimals: int = 0, out: Array | None = None) -> Array:
        """The nearest number with as many decimals; the even one of two that are equally near."""
        array = cast("Array", self)
        if not decimals or self._dtype.kind in "iub" and decimals > 0:
            return _into(out, round(array))
        scale = 10 ** abs(decimals)
        if self._dtype.kind in "iu":
            half = converted(round(divide(array, scale)), self._dtype)
            return _into(out, multiply(half, scale))
        found = divide(round(multiply(array, float(scale))), float(scale)) if decimals > 0 else \
            multiply(round(divide(array, float(scale))), float(scale))
        return _into(out, found)

    def conj(self) -> Array:
        """The complex conjugate."""
        return conj(cast("Array", self))

    conjugate = conj

    def astype(self, dtype: Any, order: str = "K", casting: str = "unsafe", subok: bool = True,
               copy: bool = True) -> Array:
        """The elements as another data type, which may be a name; ``casting`` as NumPy's."""
        found = data_type(f"{_SELF}.astype", dtype, self._dtype)
        if casting != "unsafe" and not np.can_cast(self._dtype.numpy, found.numpy, cast(Any, casting)):
            raise TypeError(f"{_SELF}.astype(): {self._dtype} cannot become {found} by the rule {casting!r}.")
        return astype(cast("Array", self), found, copy=copy)

    def copy(self, order: str = "C") -> Array:
        """An array of its own with the same elements."""
        return copy_of(self)

    def fill(self, value: Any) -> None:
        """Set all elements to a value."""
        put(self, ..., value)

    def view(self, dtype: Any = None) -> Array:
        """The array itself by another name, which is written to with it; with a ``dtype`` of the same size the bits as
        that type, in an array of its own."""
        array = cast("Array", self)
        if dtype is None:
            return get(array, ...)
        found = data_type(f"{_SELF}.view", dtype, self._dtype)
        if found.itemsize != self.itemsize or "c" in (found.kind, self._dtype.kind) or found.kind == "b":
            raise ValueError(f"{_SELF}.view(): the bits of {self._dtype} cannot be seen as {found}.")
        return wrap(found, dr.reinterpret_array(found.on(self.device), self._parts[0]))

    def tobytes(self) -> bytes:
        """The bytes of all elements in their order. Evaluates."""
        return np.ascontiguousarray(np.asarray(self)).tobytes()

    def tofile(self, fid: Any, sep: str = "", format: str = "%s") -> None:
        """Write the elements to a file, as bytes, or as text with something between them. Evaluates."""
        np.asarray(self).tofile(fid, sep, format)

    def dumps(self) -> bytes:
        """The array as ``pickle`` writes it. Evaluates."""
        return pickle.dumps(self)

    def dump(self, file: Any) -> None:
        """Write the array to a file, as ``pickle`` does. Evaluates."""
        if hasattr(file, "write"):
            file.write(self.dumps())
        else:
            Path(file).write_bytes(self.dumps())

    def byteswap(self, inplace: bool = False) -> Array:
        """The elements with their bytes in reverse order. Evaluates."""
        found = _beside(self, np.asarray(self).byteswap())
        if inplace:
            put(self, ..., found)
        return cast("Array", self) if inplace else found

    # --- arrangement ---

    def reshape(self, *shape: Any, order: str = "C", copy: bool | None = None) -> Array:
        """The elements in their order with another shape, of which one size may be -1; with ``order='F'`` the first
        axis is the fastest one of both shapes."""
        wanted = _several(shape)
        array = cast("Array", self)
        if order != "F":
            return reshape(_in_order(array, order, "reshape"), wanted, copy=copy)
        sizes = tuple(wanted)[::-1] if isinstance(wanted, (tuple, list)) else wanted
        return transpose(reshape(transpose(array), sizes, copy=copy))

    def ravel(self, order: str = "C") -> Array:
        """The elements in their order, of one axis; a view of those that follow each other, else a copy."""
        array = _in_order(self, order, "ravel")
        if self._view is None and order != "F":
            return reshape(cast("Array", self), (-1,))
        apart = [stride for size, stride, own in zip(array.shape, array.place[1], contiguous_strides(array.shape),
                                                     strict=True) if size > 1 and stride != own]
        return reshape(array, (-1,), copy=True if apart else None)

    def flatten(self, order: str = "C") -> Array:
        """The elements in their order, in an array of its own."""
        return reshape(_in_order(self, order, "flatten"), (-1,), copy=True)

    def squeeze(self, axis: Axis = None) -> Array:
        """The array without axes of size one. A view."""
        places = tuple([place for place, size in enumerate(self.shape) if size == 1]) if axis is None else axis
        return squeeze(cast("Array", self), places)

    def swapaxes(self, axis1: int, axis2: int) -> Array:
        """The array with two axes exchanged. A view."""
        first, second = (normalized_axis(f"{_SELF}.swapaxes", axis, self.ndim, name)
                         for axis, name in ((axis1, "axis1"), (axis2, "axis2")))
        order = list(range(self.ndim))
        order[first], order[second] = second, first
        return permute_dims(cast("Array", self), tuple(order))

    def transpose(self, *axes: Any) -> Array:
        """The array with its axes in another order, the reverse one if none is given; ``axes`` are integers, or a tuple
        of them. A view."""
        alone = len(axes) == 1 and (axes[0] is None or isinstance(axes[0], (tuple, list)))
        return transpose(cast("Array", self), axes[0] if alone else axes or None)

    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
        """The entries on a diagonal of two axes, which becomes the last axis."""
        return diagonal(moveaxis(cast("Array", self), (axis1, axis2), (-2, -1)), offset=offset)

    def repeat(self, repeats: Any, axis: int | None = None) -> Array:
        """Each element repeated along an axis; of all elements in their order without one."""
        counts = repeats if isinstance(repeats, int) else _beside(self, repeats)
        return repeat(cast("Array", self), counts, axis=axis)

    def take(self, indices: Any, axis: int | None = None, out: Array | None = None, mode: str = "raise") -> Array:
        """The entries of an axis at positions, of all elements without one. ``mode`` says what is done with those
        beyond it: they are as for keys, or counted in a circle (``'wrap'``), or the nearest ones (``'clip'``)."""
        array = reshape(cast("Array", self), (-1,)) if axis is None else cast("Array", self)
        place = normalized_axis(f"{_SELF}.take", 0 if axis is None else axis, array.ndim)
        size = array.shape[place]
        if mode == "raise" and not isinstance(indices, Storage):
            return _into(out, get(array, (*(slice(None),) * place, np.asarray(indices, dtype=np.int64))))
        index = _beside(self, indices)
        if mode == "wrap":
            index = remainder(index, size)
        elif mode == "clip":
            index = clipped(index, 0, size - 1)
        elif mode != "raise":
            raise ValueError(f"{_SELF}.take(): 'mode' must be 'raise', 'wrap' or 'clip', found {mode!r}.")
        flat = take(array, reshape(index, (-1,)), axis=place)
        return _into(out, reshape(flat, (*array.shape[:place], *index.shape, *array.shape[place + 1:])))

    def compress(self, condition: Any, axis: int | None = None, out: Array | None = None) -> Array:
        """The entries of an axis for which a condition holds, of all elements without one. Evaluates the condition."""
        array = reshape(cast("Array", self), (-1,)) if axis is None else cast("Array", self)
        return _into(out, take(array, nonzero(_beside(self, condition))[0], axis=0 if axis is None else axis))

    def choose(self, choices: Sequence[Any], out: Array | None = None, mode: str = "raise") -> Array:
        """For each element, which is the number of one of several arrays, the element of that array. Other numbers
        raise a ``ValueError`` if they are known, begin again (``'wrap'``), or count as the nearest one (``'clip'``)."""
        index, arrays = cast("Array", self), [_beside(self, choice) for choice in choices]
        if mode not in ("raise", "wrap", "clip"):
            raise ValueError(f"{_SELF}.choose(): 'mode' must be 'raise', 'wrap' or 'clip', found {mode!r}.")
        if mode == "wrap":
            index = remainder(index, len(arrays))
        elif mode == "clip":
            index = clipped(index, 0, len(arrays) - 1)
        elif has_value(index) and not 0 <= on_host(index).min() <= on_host(index).max() < len(arrays):
            raise ValueError(f"{_SELF}.choose(): there are {len(arrays)} arrays to choose from, with the numbers from "
                             f"0 on; found {on_host(index).min()} to {on_host(index).max()}.")
        found = arrays[0]
        for number, choice in enumerate(arrays[1:], 1):
            found = where(index == number, choice, found)
        return _into(out, found)

    def put(self, indices: Any, values: Any, mode: str = "raise") -> None:
        """Set elements at positions among all of them in their order to values, which are repeated. ``mode`` says what
        is done with positions beyond: they raise an ``IndexError``, but if they are computed, which are lost; or they
        are counted in a circle (``'wrap'``), or the nearest ones (``'clip'``)."""
        array, size = cast("Array", self), self.size
        if mode not in ("raise", "wrap", "clip"):
            raise ValueError(f"{_SELF}.put(): 'mode' must be 'raise', 'wrap' or 'clip', found {mode!r}.")
        known = not isinstance(indices, Storage)
        index: Any = reshape(cast("Array", indices), (-1,)) if not known else np.asarray(indices).reshape(-1)
        if not index.size:
            return
        if mode == "clip":
            index = index.clip(0, size - 1)
        elif mode == "raise" and known and not -size <= index.min() <= index.max() < size:
            beyond = index[(index < -size) | (index >= size)].flat[0]
            raise IndexError(f"{_SELF}.put(): the index {beyond} is out of bounds for an array of {size} elements.")
        if number_of(values) is None:
            source = reshape(_beside(self, values), (-1,))
            if source.size not in (1, index.size):
                if not source.size:
                    return
                source = take(source, _beside(source, np.arange(index.size) % source.size))
            values = source
        put(array, np.unravel_index(index % size, self.shape) if known else
            tuple([remainder(floor_divide(index, math.prod(self.shape[axis + 1:])), count)
                   for axis, count in enumerate(self.shape)]), values)

    # --- order ---

    def nonzero(self) -> tuple[Array, ...]:
        """For each axis, the positions of elements that are not zero. Evaluates."""
        return nonzero(cast("Array", self))

    def searchsorted(self, v: Any, side: str = "left", sorter: Any = None) -> Array:
        """For each element of ``v`` the position in this sorted array where it belongs."""
        return searchsorted(cast("Array", self), _beside(self, v), side=side,
                            sorter=None if sorter is None else _beside(self, sorter))

    def argsort(self, axis: int | None = -1, kind: str | None = None, order: None = None, *,
                stable: bool | None = None, descending: bool = False) -> Array:
        """The positions that sort the array along an axis, of all elements without one; always stable, NaN comes last.
        """
        array = reshape(cast("Array", self), (-1,)) if axis is None else cast("Array", self)
        return argsort(array, axis=-1 if axis is None else axis, descending=descending)

    def argpartition(self, kth: Any, axis: int | None = -1, kind: str = "introselect", order: None = None) -> Array:
        """The positions of elements such that the one of the number ``kth`` in the order is in its place, smaller ones
        before and greater ones behind; those that sort the array where derivatives or a construct are traced."""
        array = reshape(cast("Array", self), (-1,)) if axis is None else cast("Array", self)
        return partitioned(f"{_SELF}.argpartition", array, kth, -1 if axis is None else axis, positions=True)

    def sort(self, axis: int = -1, kind: str | None = None, order: None = None, *, stable: bool | None = None,
             descending: bool = False) -> None:
        """Sort the array itself along an axis, as NumPy's method does (JAX's returns a copy, as the function
        ``sort`` does)."""
        put(self, ..., sort(cast("Array", self), axis=axis, descending=descending))

    def partition(self, kth: Any, axis: int = -1, kind: str = "introselect", order: None = None) -> None:
        """Bring the element of the number ``kth`` in the order along an axis to its place in the array itself, smaller
        ones before it and greater ones behind."""
        put(self, ..., partitioned(f"{_SELF}.partition", cast("Array", self), kth, axis, positions=False))


class Flags:
    """What ``x.flags`` is, to read: attributes, or keys such as ``'C_CONTIGUOUS'`` and ``'W'``."""

    __slots__ = ("_array",)
    _SHORT: ClassVar[dict[str, str]] = {"C": "c_contiguous", "F": "f_contiguous", "O": "owndata", "W": "writeable",
                                        "A": "aligned", "X": "writebackifcopy", "FNC": "fnc", "FORC": "forc"}

    def __init__(self, array: Storage) -> None:
        self._array = array

    def _follow(self, order: int) -> bool:
        """Whether the elements follow each other, the last axis (1) or the first one (-1) the fastest."""
        shape, strides = self._array.shape[::order], self._array.place[1][::order]
        own = contiguous_strides(shape)
        return not math.prod(shape) or builtins.all(size == 1 or stride == wanted for size, stride, wanted in zip(
            shape, strides, own, strict=True))

    @property
    def c_contiguous(self) -> bool:
        """Whether the elements follow each other, the last axis the fastest."""
        return self._follow(1)

    contiguous = c_contiguous

    @property
    def f_contiguous(self) -> bool:
        """Whether the elements follow each other, the first axis the fastest."""
        return self._follow(-1)

    @property
    def fnc(self) -> bool:
        """Whether they do so in the order of Fortran, and not in that of C."""
        return self.f_contiguous and not self.c_contiguous

    @property
    def forc(self) -> bool:
        """Whether they do so in one of both orders."""
        return self.f_contiguous or self.c_contiguous

    @property
    def owndata(self) -> bool:
        """Whether the array is no view."""
        return self._array._view is None

    @property
    def writeable(self) -> bool:
        """Whether elements can be set: they can, but for the imaginary part of real ones, and for those that
        derivatives have been enabled for."""
        try:
            require_writable(f"{_SELF}.flags", self._array)
        except (RuntimeError, ValueError):
            return False
        return True

    aligned = True
    writebackifcopy = False

    def __getitem__(self, name: str) -> bool:
        found = self._SHORT.get(name, str(name).lower())
        if found not in self._SHORT.values() and found != "contiguous":
            raise KeyError(f"{_SELF}.flags: there is no flag {name!r}.")
        return bool(getattr(self, found))

    def __repr__(self) -> str:
        names = ("C_CONTIGUOUS", "F_CONTIGUOUS", "OWNDATA", "WRITEABLE", "ALIGNED", "WRITEBACKIFCOPY")
        return "".join([f"  {name} : {self[name]}\n" for name in names])


#: What to use in place of attributes of NumPy's arrays that are not there.
_INSTEAD = {"resize": "x = numpy.resize(x, shape) makes another array", "ctypes": "x.numpy() shares the memory",
            "data": "x.numpy() shares the memory",
            "setflags": "arrays can be written to; x.numpy() is an array of NumPy that cannot",
            **dict.fromkeys(("getfield", "setfield"), "x.view(dtype) has the bits as another type")}


class At:
    """What ``x.at`` is: ``x.at[key]`` makes changed copies."""

    __slots__ = ("_array",)

    def __init__(self, array: Array) -> None:
        self._array = array

    def __getitem__(self, key: Any) -> Place:
        return Place(self._array, key)


class Place:
    """A key of an array, to make copies that are changed there."""

    __slots__ = ("_array", "_key")

    def __init__(self, array: Array, key: Any) -> None:
        self._array, self._key = array, key

    def get(self) -> Array:
        """The elements."""
        return get(self._array, self._key)

    def set(self, values: Any) -> Array:
        """The array with other elements there; one of several that a position is given is chosen."""
        found = copy_of(self._array)
        put(found, self._key, values)
        return found

    def apply(self, function: Callable[[Array], Array]) -> Array:
        """The array with what a function makes of the elements there."""
        return self.set(function(self.get()))

    def add(self, values: Any) -> Array:
        """The array with values added there."""
        return self._combined("add", values)

    def subtract(self, values: Any) -> Array:
        """The array with values taken away there."""
        return self._combined("subtract", negative(self._values(values)))

    def multiply(self, values: Any) -> Array:
        """The array with what is there multiplied by values."""
        return self._combined("multiply", values)

    mul = multiply

    def divide(self, values: Any) -> Array:
        """The array with what is there divided by values."""
        ones = constant(self._array._dtype, 1, self._array.shape, self._array.device)
        return divide(self._array, Place(ones, self._key)._combined("divide", values))

    def power(self, values: Any) -> Array:
        """The array with what is there raised to the power of values."""
        ones = constant(self._array._dtype, 1, self._array.shape, self._array.device)
        return pow(self._array, Place(ones, self._key)._combined("power", values))

    def min(self, values: Any) -> Array:
        """The array with the smaller one of what is there and values."""
        return self._combined("min", values)

    def max(self, values: Any) -> Array:
        """The array with the larger one of what is there and values."""
        return self._combined("max", values)

    def _combined(self, name: str, values: Any) -> Array:
        """What several values for one position are combined with, and what is there."""
        numeric, logical = _COMBINED[name]
        return combine(f"{_SELF}.at[].{name}", self._array, self._key, self._values(values),
                       logical if self._array._dtype.kind == "b" else numeric)


    def _values(self, values: Any) -> Array:
        """Values as an array: Python numbers are of the array's type, if that is of their kind or a higher one."""
        if isinstance(values, Storage):
            return cast("Array", values)
        dtype = self._array._dtype
        weak = isinstance(values, (int, float, complex)) and dtype.kind in _AT_LEAST.get(type(values), "")
        return asarray(values, dtype=dtype if weak else None, device=self._array.device)


#: The kinds that hold Python numbers, by the classes of these.
_AT_LEAST: dict[type, str] = {bool: "biufc", int: "iufc", float: "fc", complex: "c"}


#: What combines numbers and truth values at one position.
_COMBINED = {"add": (dr.ReduceOp.Add, dr.ReduceOp.Or), "subtract": (dr.ReduceOp.Add, dr.ReduceOp.Or),
             "multiply": (dr.ReduceOp.Mul, dr.ReduceOp.And), "divide": (dr.ReduceOp.Mul, dr.ReduceOp.And),
             "power": (dr.ReduceOp.Mul, dr.ReduceOp.And), "min": (dr.ReduceOp.Min, dr.ReduceOp.And),
             "max": (dr.ReduceOp.Max, dr.ReduceOp.Or)}

#: Methods whose results of small arrays are those of NumPy's arrays.
_BY_NUMPY = {"all", "any", "argmax", "argmin", "argpartition", "choose", "clip", "compress", "cumprod", "cumsum",
             "dot", "flatten", "max", "mean", "min", "nonzero", "prod", "repeat", "round", "searchsorted", "std", "sum",
             "take", "trace", "var"}


class _Absent:
    """An attribute that is not there, of which is told what to use in its place. (``__getattr__`` would make the way to
    all others longer.)"""

    __slots__ = ("_hint", "_name")

    def __init__(self, name: str, hint: str) -> None:
        self._name, self._hint = name, hint

    def __get__(self, array: Any, owner: Any = None) -> Any:
        raise AttributeError(f"'Array' object has no attribute {self._name!r}: {self._hint}", name=self._name,
                             obj=owner if array is None else array)


for _name, _hint in _INSTEAD.items():
    setattr(Methods, _name, _Absent(_name, _hint))

for _name, _method in list(vars(Methods).items()):
    if not _name.startswith("_") and callable(_method):
        _called = dr.detail.named(f"{_SELF}.{_name}")(_method)
        setattr(Methods, _name, eagerly(getattr(np.ndarray, _name), _called) if _name in _BY_NUMPY else _called)
