"""Searching, sorting, choosing, and sets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

import drjit as dr
import drjit.array_api as xp

from ._public import Array, array_of, axis_of, is_number, on_host, public, require_casting

__all__ = ["apply_along_axis", "apply_over_axes", "argwhere", "compress", "copyto", "extract", "flatnonzero", "in1d",
           "intersect1d", "isin", "lexsort", "ndenumerate", "nditer", "partition", "piecewise", "place",
           "put_along_axis", "putmask", "select", "setdiff1d", "setxor1d", "sort", "sort_complex", "take_along_axis",
           "union1d", "unique", "unique_all", "unique_counts", "unique_inverse", "unique_values", "vectorize", "where"]


# --- order -----------------------------------------------------------------------------------------------------------


def _axis(a: Any, axis: int | None) -> tuple[Array, int]:
    """An array and an axis; of all elements without one."""
    array = array_of(a)
    return (array.ravel(), 0) if axis is None else (array, axis_of(axis, array.ndim))


@public
def sort(a: Any, axis: int | None = -1, kind: str | None = None, order: None = None, *,
         stable: bool | None = None) -> Array:
    """The elements in order along an axis, of all elements without one; NaN comes last. Lazy; differentiable."""
    array, place = _axis(a, axis)
    return xp.sort(array, axis=place)


@public
def sort_complex(a: Any) -> Array:
    """The elements as complex numbers in order of their real parts, then of their imaginary ones. Lazy;
    differentiable."""
    array = array_of(a)
    return xp.sort(array if array.dtype.kind == "c" else array.astype(xp.complex128))


@public
def ndenumerate(arr: Any) -> Iterator[tuple[tuple[int, ...], Any]]:
    """The position and the value of each element, as Python numbers. Evaluates."""
    return iter(np.ndenumerate(on_host(array_of(arr))))


@public
def nditer(op: Any, flags: Any = None, op_flags: Any = None, *args: Any, **kwargs: Any) -> Any:
    """NumPy's iterator over the elements of one array, or of several in a list, to read them. Evaluates. Raises a
    ``TypeError`` for elements that are to be written: ``x[...] = …`` writes."""
    if any(str(flag) in ("readwrite", "writeonly", "allocate") for entry in op_flags or () for flag in
           (entry if isinstance(entry, (list, tuple)) else (entry,))):
        raise TypeError("elements are read here; write with x[...] = …, which is one kernel for all of them.")
    several = isinstance(op, (list, tuple)) and any(isinstance(entry, Array) for entry in op)
    given: Any = [on_host(array_of(entry)) for entry in op] if several else on_host(array_of(op))
    return np.nditer(given, flags or (), op_flags or (["readonly"] if not several else [["readonly"]] * len(given)),
                     *args, **kwargs)


@public
def partition(a: Any, kth: Any, axis: int | None = -1, kind: str = "introselect", order: None = None) -> Array:
    """The elements with the one of the number ``kth`` in the order along an axis in its place, smaller ones before and
    greater ones behind. Evaluates as :func:`sort` does; differentiable."""
    array, place = _axis(a, axis)
    return xp.partitioned("drjit.numpy.partition", array, kth, place, positions=False)


@public
def lexsort(keys: Sequence[Any], axis: int = -1) -> Array:
    """The positions that sort by several keys, of which the last one counts most. Lazy."""
    return xp.ordered_by([array_of(key) for key in keys], axis)


# --- choosing --------------------------------------------------------------------------------------------------------


@public
def where(condition: Any, *choices: Any) -> Any:
    """Elements of the first of two arrays where a condition holds, those of the second elsewhere. Lazy; differentiable.
    Without them, the positions where it holds, along each axis, which evaluates the condition."""
    mask = array_of(condition)
    mask = mask if mask.dtype.kind == "b" else mask != 0
    if not choices:
        return mask.nonzero()
    if len(choices) != 2:
        raise ValueError("either both or none of two arrays to choose from must be given.")
    return xp.where(mask, *[value if is_number(value) else array_of(value) for value in choices])


@public
def flatnonzero(a: Any) -> Array:
    """The positions of elements that are not zero, among all in their order. Evaluates."""
    return xp.nonzero(array_of(a).ravel())[0]


@public
def argwhere(a: Any) -> Array:
    """The positions of elements that are not zero, one in each row. Evaluates."""
    array = array_of(a)
    return xp.stack(xp.nonzero(array), axis=-1) if array.ndim else xp.zeros((int(bool(array)), 0), dtype=xp.int64)


@public
def compress(condition: Any, a: Any, axis: int | None = None, out: Array | None = None) -> Array:
    """The entries of an axis for which a condition holds, of all elements without one. Evaluates the condition."""
    return array_of(a).compress(condition, axis, out)


@public
def extract(condition: Any, arr: Any) -> Array:
    """The elements for which a condition holds, in their order. Evaluates the condition."""
    return xp.take(array_of(arr).ravel(), flatnonzero(condition))


@public
def place(arr: Array, mask: Any, vals: Any) -> None:
    """Set the elements for which a mask holds, in their order, to values, which are repeated. Evaluates the mask."""
    values, index = array_of(vals).ravel(), flatnonzero(mask)
    arr.put(index, xp.take(values, xp.arange(index.size) % values.size).astype(arr.dtype))


@public
def putmask(a: Array, mask: Any, values: Any) -> None:
    """Set the elements for which a mask holds to those of values at the same place; values of another size are
    repeated. Lazy."""
    given = array_of(values)
    if given.size not in (1, a.size):
        given = xp.take(given.ravel(), xp.arange(a.size) % given.size).reshape(a.shape)
    elif given.size == a.size:
        given = given.reshape(a.shape)
    a[...] = xp.where(array_of(mask) != 0, given.astype(a.dtype), a)


@public
def copyto(dst: Array, src: Any, casting: str = "same_kind", where: Any = True) -> None:
    """Set the elements of an array to those of another one, which is broadcast, where a mask holds; ``casting`` as
    NumPy's. Lazy."""
    weak = is_number(src) and casting != "unsafe"
    source = xp.asarray(src, dtype=xp.result_type(dst, src)) if weak else array_of(src)
    require_casting(source, dst, casting)
    source = source.astype(dst.dtype)
    dst[...] = source if where is True else xp.where(array_of(where), source, dst)


@public
def select(condlist: Sequence[Any], choicelist: Sequence[Any], default: Any = 0) -> Array:
    """The element of the choice whose condition is the first that holds, or the default. Lazy; differentiable."""
    if len(condlist) != len(choicelist):
        raise ValueError(f"there must be as many choices as conditions, found {len(choicelist)} and {len(condlist)}.")
    values = [value if is_number(value) else array_of(value) for value in (*choicelist, default)]
    dtype = xp.result_type(*values)
    found = array_of(values.pop()).astype(dtype)
    for condition, choice in zip(reversed(condlist), reversed(values), strict=True):
        found = where(condition, choice, found)
    return found.astype(dtype)


@public
def piecewise(x: Any, condlist: Any, funclist: Sequence[Any], *args: Any, **kw: Any) -> Array:
    """What functions, or numbers, give where conditions hold; the last one that does counts, and one function more than
    conditions is for where none does. Lazy; differentiable: functions see all elements."""
    array = array_of(x)
    conditions = list(condlist) if isinstance(condlist, (list, tuple)) and not is_number(condlist[0]) else [condlist]
    conditions = [array_of(condition) for condition in conditions]
    values = [entry(array, *args, **kw) if callable(entry) else entry for entry in funclist]
    if len(values) not in (len(conditions), len(conditions) + 1):
        raise ValueError(f"there must be as many functions as conditions, or one more, found {len(values)} and "
                         f"{len(conditions)}.")
    found: Any = values[-1] if len(values) > len(conditions) else 0
    found = xp.zeros_like(array) + found
    for condition, value in zip(conditions, values, strict=False):
        found = xp.where(condition, value, found)
    return found.astype(array.dtype)


@public
def take_along_axis(arr: Any, indices: Any, axis: int | None = -1) -> Array:
    """For each position, the element at that entry of an axis, and the same place of the other axes. Lazy;
    differentiable."""
    array, place_ = _axis(arr, axis)
    return xp.take_along_axis(array, array_of(indices), axis=place_)


@public
def put_along_axis(arr: Array, indices: Any, values: Any, axis: int | None) -> None:
    """Set, for each position, the element at that entry of an axis, and the same place of the other axes. Lazy."""
    index = array_of(indices)
    if axis is None:
        arr.put(index, values)
        return
    at = axis_of(axis, arr.ndim)
    key = [xp.arange(size).reshape(tuple([-1 if k == other else 1 for k in range(arr.ndim)]))
           for other, size in enumerate(arr.shape)]
    key[at] = index
    arr[tuple(key)] = values if is_number(values) else array_of(values)


@public
def apply_along_axis(func1d: Callable[..., Any], axis: int, arr: Any, *args: Any, **kwargs: Any) -> Array:
    """What a function makes of each vector along an axis, stacked: it is called once for each of them, which takes long
    for many."""
    array = array_of(arr)
    at = axis_of(axis, array.ndim)
    moved = xp.moveaxis(array, at, -1)
    batch = moved.shape[:-1]
    rows = [array_of(func1d(row, *args, **kwargs)) for row in moved.reshape((-1, moved.shape[-1]))]
    found = xp.stack(rows).reshape((*batch, *rows[0].shape))
    return xp.moveaxis(found, tuple(range(len(batch), found.ndim)), tuple(range(at, at + rows[0].ndim))) \
        if rows[0].ndim else found


@public
def apply_over_axes(func: Callable[..., Any], a: Any, axes: Any) -> Array:
    """What a function of an array and an axis makes of several axes, one after the other."""
    found = array_of(a)
    for axis in axes if hasattr(axes, "__iter__") else (axes,):
        result = array_of(func(found, axis))
        found = xp.expand_dims(result, axis) if result.ndim < found.ndim else result
    return found


class vectorize:
    """A function of numbers as one of arrays. It is called once, with arrays, where it can be traced (no ``if`` on
    elements; see ``where``): lazy and differentiable. Otherwise, and with a ``signature``, it is called with the
    elements by ``numpy.vectorize``, one after the other, which evaluates, and has no derivatives. ``otypes`` are the
    data types of results; arguments that are ``excluded``, by their number or name, are passed on as they are."""

    def __init__(self, pyfunc: Callable[..., Any], otypes: Any = None, doc: str | None = None, excluded: Any = None,
                 cache: bool = False, signature: str | None = None) -> None:
        self.pyfunc, self.otypes, self.signature = pyfunc, otypes, signature
        self.excluded, self.cache, self.__doc__ = set(excluded or ()), cache, doc or pyfunc.__doc__
        self.__name__ = getattr(pyfunc, "__name__", "vectorize")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        given = {name: array_of(value) for name, value in (*enumerate(args), *kwargs.items())
                 if name not in self.excluded}
        try:
            return self._traced(args, kwargs, given)
        except (TypeError, ValueError, IndexError):
            if not dr.detail.in_plain_code() or xp.is_tracked(*given.values()):
                raise
        one_by_one = np.vectorize(self.pyfunc, self.otypes, None, self.excluded or None, self.cache, self.signature)
        found = one_by_one(*[on_host(given[k]) if k in given else value for k, value in enumerate(args)],
                           **{name: on_host(given[name]) if name in given else value
                              for name, value in kwargs.items()})
        return tuple(map(array_of, found)) if isinstance(found, tuple) else array_of(found)

    def _traced(self, args: tuple[Any, ...], kwargs: dict[str, Any], given: dict[Any, Array]) -> Any:
        if self.signature is not None:
            raise NotImplementedError("drjit.numpy.vectorize(): functions that have a 'signature' are called one by "
                                      "one, which has no derivatives.") \
                if xp.is_tracked(*given.values()) else ValueError
        arrays = dict(zip(given, xp.broadcast_arrays(*given.values()), strict=True)) if given else {}
        found = self.pyfunc(*[arrays.get(k, value) for k, value in enumerate(args)],
                            **{name: arrays.get(name, value) for name, value in kwargs.items()})
        shape = next(iter(arrays.values())).shape if arrays else ()
        results = found if isinstance(found, tuple) else (found,)
        types = self.otypes or (None,) * len(results)
        kept = [xp.broadcast_to(array_of(each) if dtype is None else array_of(each).astype(dtype), shape)
                for each, dtype in zip(results, types, strict=True)]
        return tuple(kept) if isinstance(found, tuple) else kept[0]


# --- sets ------------------------------------------------------------------------------------------------------------


@public
def unique_all(x: Any) -> Any:
    """The distinct elements in order, the position of the first of each, for each element the position of its value
    among them, and how often each occurs. Evaluates."""
    return xp.unique_all(array_of(x))


@public
def unique_counts(x: Any) -> Any:
    """The distinct elements in order, and how often each occurs. Evaluates."""
    return xp.unique_counts(array_of(x))


@public
def unique_inverse(x: Any) -> Any:
    """The distinct elements in order, and for each element the position of its value among them. Evaluates."""
    return xp.unique_inverse(array_of(x))


@public
def unique_values(x: Any) -> Array:
    """The distinct elements in order. Evaluates."""
    return xp.unique_values(array_of(x))


class _Unique(NamedTuple):
    values: Array
    indices: Array
    inverse: Array
    counts: Array


@public
def unique(ar: Any, return_index: bool = False, return_inverse: bool = False, return_counts: bool = False,
           axis: int | None = None, *, equal_nan: bool = True, sorted: bool = True) -> Any:
    """The distinct elements in order, or the distinct entries of an axis; on request also the position of the first of
    each, for each element the position of its value among them, and how often each occurs. Evaluates."""
    array = array_of(ar)
    if axis is None and not (return_index or return_inverse or return_counts):
        return _values(array, equal_nan)
    found = _unique(array, equal_nan) if axis is None else _unique_entries(array, axis_of(axis, array.ndim))
    results = [found.values, *[entry for entry, wanted in zip(
        found[1:], (return_index, return_inverse, return_counts), strict=True) if wanted]]
    return results[0] if len(results) == 1 else tuple(results)


def _values(array: Array, equal_nan: bool) -> Array:
    values = xp.unique_values(array)
    missing = int(xp.isnan(values).sum()) if equal_nan and array.dtype.kind in "fc" else 0
    return values[:values.size - missing + 1] if missing > 1 else values


def _unique(array: Array, equal_nan: bool) -> _Unique:
    found = xp.unique_all(array)
    values, indices, inverse, counts = found.values, found.indices, found.inverse_indices, found.counts
    if equal_nan and array.dtype.kind in "fc" and values.size > 1:
        first = int((~xp.isnan(values)).sum())  # NaN come last, and are distinct in the standard
        if first < values.size - 1:
            total = xp.sum(counts[first:])
            values, indices = values[:first + 1], indices[:first + 1]
            counts = xp.concat([counts[:first], total.reshape(1)])
            inverse = xp.minimum(inverse, first)
    return _Unique(values, indices, inverse, counts)


def _unique_entries(array: Array, axis: int) -> _Unique:
    """The distinct entries of an axis, in the order of their elements."""
    moved = xp.moveaxis(array, axis, 0)
    rows = moved.reshape((moved.shape[0], -1))
    order = lexsort([rows[:, k] for k in reversed(range(rows.shape[1]))]) if rows.shape[1] else xp.arange(rows.shape[0])
    ordered = xp.take(rows, order, axis=0)
    differs = (ordered[1:] != ordered[:-1]).any(axis=1)
    first = xp.concat([xp.ones((min(1, rows.shape[0]),), dtype=xp.bool), differs])
    starts = xp.nonzero(first)[0]
    ends = xp.concat([starts[1:], xp.asarray([rows.shape[0]])])
    inverse = xp.zeros((rows.shape[0],), dtype=xp.int64)
    inverse[order] = first.cumsum() - 1
    indices = xp.take(order, starts)
    values = xp.moveaxis(xp.take(moved, indices, axis=0), 0, axis)
    return _Unique(values, indices, inverse, ends - starts)


@public
def isin(element: Any, test_elements: Any, assume_unique: bool = False, invert: bool = False, *,
         kind: str | None = None) -> Array:
    """Whether each element is one of others; whether it is none with ``invert``. Lazy."""
    return xp.isin(array_of(element), array_of(test_elements), invert=invert)


@public
def in1d(ar1: Any, ar2: Any, assume_unique: bool = False, invert: bool = False) -> Array:
    """As :func:`isin`, of all elements in their order. Lazy."""
    return xp.isin(array_of(ar1).ravel(), array_of(ar2).ravel(), invert=invert)


@public
def union1d(ar1: Any, ar2: Any) -> Array:
    """The distinct elements of both arrays, in order. Evaluates."""
    return unique(xp.concat([array_of(ar1).ravel(), array_of(ar2).ravel()]))


@public
def intersect1d(ar1: Any, ar2: Any, assume_unique: bool = False, return_indices: bool = False) -> Any:
    """The distinct elements that both arrays have, in order; with ``return_indices`` also their first positions in
    both. Evaluates."""
    first, second = (_unique(array_of(ar).ravel(), True) for ar in (ar1, ar2))
    both = xp.isin(first.values, second.values)
    values = first.values[both]
    if not return_indices:
        return values
    return values, first.indices[both], xp.take(second.indices, xp.searchsorted(second.values, values))


@public
def setdiff1d(ar1: Any, ar2: Any, assume_unique: bool = False) -> Array:
    """The distinct elements of the first array that the second one does not have, in order. Evaluates."""
    values = array_of(ar1).ravel() if assume_unique else unique(ar1)
    return values[~xp.isin(values, array_of(ar2).ravel())]


@public
def setxor1d(ar1: Any, ar2: Any, assume_unique: bool = False) -> Array:
    """The distinct elements that only one of both arrays has, in order. Evaluates."""
    first, second = unique(ar1), unique(ar2)
    return xp.sort(xp.concat([first[~xp.isin(first, second)], second[~xp.isin(second, first)]]))
