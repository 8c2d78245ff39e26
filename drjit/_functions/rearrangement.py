"""Rearrangement: other shapes, other orders of axes, and joining and splitting of tensors; flat forms of arrays.

What only changes a shape shares the flat array; all else reads it through computed indices. Nothing is evaluated.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import drjit_core as core
from drjit_core import cast

from .._access.keys import is_array_key, is_mask, key_integer
from .._access.slicing import contiguous_strides, normalise_axes, normalise_axis, parse_slice, read, strided
from .._arrays.broadcasting import concatenate, make, transposed
from .._arrays.tensor import TensorBase
from .._base.arguments import require_count, require_integer
from .._base.array import ArrayBase
from .._base.errors import CORE_ERRORS, ArgumentError, SizeError, describe, translate
from .._base.nodes import broadcast
from .._base.types import FLOAT32, FLOAT64, INT64, SCALAR, UINT32, lookup, retype
from .._base.types import reshape as reshape_type
from .._base.typing import ArrayT, T
from .._base.values import is_ndarray, plain_scalar
from .._promotion.promote import flat_of_scalars, wrap
from .._trees.pytree import is_pytree, transform
from .elementwise import floor, lerp, maximum, minimum, select
from .linalg import transpose as transpose_matrix

__all__ = ["array_split", "column_stack", "concat", "dstack", "expand_dims", "hstack", "moveaxis", "ravel", "repeat",
           "reshape", "reverse", "row_stack", "split", "squeeze", "stack", "swapaxes", "take", "take_interp", "tile",
           "transpose", "unravel", "upsample", "vstack"]


def _require_tensor(function: str, value: ArrayT, name: str = "value") -> ArrayT:
    if not isinstance(value, TensorBase):
        raise TypeError(f"{function}(): '{name}' must be a tensor, found {describe(value)}.")
    return value


# --- flat forms ------------------------------------------------------------------------------------------------------


def _order(function: str, order: Any, automatic: str) -> str:
    if order not in ("A", "C", "F"):
        raise ArgumentError(f"{function}(): 'order' must equal 'A', 'C' or 'F', found {order!r}.")
    return automatic if order == "A" else order


def ravel(array: Any, order: str = "A") -> Any:
    """The elements of an array or tensor as a flat array.

    ``order='F'`` lets the first index vary fastest (the components of nested arrays alternate), ``'C'`` the last one;
    ``'A'`` means ``'F'`` for arrays and ``'C'`` for tensors. What is flat already is returned as it is, and so is
    anything that is no array. Raises a ``TypeError`` for another order, and a ``RuntimeError`` if the components of an
    array differ in size. Evaluates nothing.

    >>> from drjit.llvm import Array2f
    >>> dr.ravel(Array2f([1, 2, 3], [10, 20, 30]))
    [1, 10, 2, 20, 3, 30]
    >>> dr.ravel(Array2f([1, 2, 3], [10, 20, 30]), order="C")
    [1, 2, 3, 10, 20, 30]
    """
    function = "drjit.ravel"
    if not isinstance(array, ArrayBase):
        return array
    if isinstance(array, TensorBase):
        rank = len(array._s)
        if _order(function, order, "C") == "F":
            return wrap(array._leaf, [transposed(array._n, array._s, tuple(range(rank))[::-1])[0]])
        return array.array
    found = _order(function, order, "F")
    if not array._depth:
        return array
    shape, rows = array.shape, array._nodes()
    if not array._dynamic:
        order_of = _positions(shape) if found == "F" else range(len(rows))
        return wrap(reshape_type(type(array), (-1,)), [rows[k] for k in order_of])
    node = concatenate([broadcast(row, shape[-1]) if row.size else row for row in rows]) if rows else None
    if node is None:
        return array._leaf()
    if found == "F" and node.size:
        node = transposed(node, shape, tuple(range(len(shape)))[::-1])[0]
    return wrap(array._leaf, [node])


def unravel(dtype: type[T], array: ArrayBase, order: str = "A") -> T:
    """An array of type ``dtype`` from the elements of a flat array: the inverse of :func:`ravel`.

    ``order='F'``, which is what ``'A'`` means here, takes the components of one entry after the other, ``'C'`` all
    entries of the first component first. Only the last dimension of ``dtype`` may be dynamic. Raises a ``TypeError`` if
    the array is not flat or of other elements, a ``RuntimeError`` if its size is no multiple of the number of
    components. Evaluates nothing.

    >>> from drjit.llvm import Array2f, Float
    >>> dr.unravel(Array2f, Float(1, 10, 2, 20, 3, 30))
    [[1, 10],
     [2, 20],
     [3, 30]]
    """
    function = "drjit.unravel"
    if not isinstance(dtype, type) or not issubclass(dtype, ArrayBase) or not hasattr(dtype, "_record") or \
            dtype._depth < 0:
        raise TypeError(f"{function}(): 'dtype' must be an array type other than a tensor, found {describe(dtype)}.")
    if dtype._count < 0:
        raise TypeError(f"{function}(): only the last dimension of 'dtype' may be dynamic (found {dtype._name}).")
    if not dtype._dynamic and isinstance(array, ArrayBase) and array._plain._record.shape == (-1,) and \
            array._leaf is dtype._leaf and not array._dynamic:
        scalars: T = _unravel_scalars(function, dtype, array._nodes(), _order(function, order, "F"))
        return scalars
    if not isinstance(array, ArrayBase) or array._depth or array._leaf is not dtype._leaf:
        raise TypeError(f"{function}(): 'array' must be a flat array of type {dtype._leaf._name}, found "
                        f"{describe(array)}.")
    found = _order(function, order, "F")
    result: Any = array
    if dtype._depth:
        result = _unravel(function, dtype, array._nodes()[0], dtype._record.shape, found)
    unraveled: T = result
    return unraveled


def _positions(shape: tuple[int, ...]) -> list[int]:
    """Positions of the entries of a row-major array in column-major order."""
    strides = contiguous_strides(shape)
    found = [0]
    for size, stride in zip(shape, strides, strict=True):
        found = [position + k * stride for k in range(size) for position in found]
    return found


def _unravel_scalars(function: str, dtype: Any, entries: list[Any], order: str) -> Any:
    if len(entries) != dtype._count:
        raise SizeError(f"{function}(): {dtype._name} has {dtype._count} components, found {len(entries)} elements.")
    if order == "F":
        source = dict(zip(_positions(dtype._record.shape), entries, strict=True))
        entries = [source[k] for k in range(len(entries))]
    return wrap(dtype, list(entries))


def _unravel(function: str, dtype: Any, node: Any, static: tuple[int, ...], order: str) -> Any:
    count = math.prod(static)
    if count and node.size % count:
        raise SizeError(f"{function}(): the number of elements ({node.size}) is not divisible by the number of "
                        f"components of {dtype._name} ({count}).")
    width = node.size // count if count else 0
    if order == "C":
        return wrap(dtype, [strided(node, (width,), (1,), k * width) for k in range(count)])
    strides = contiguous_strides(static[::-1])[::-1]
    offsets = [0]
    for size, stride in zip(static, strides, strict=True):
        offsets = [offset + k * stride for offset in offsets for k in range(size)]
    return wrap(dtype, [strided(node, (width,), (count,), offset) for offset in offsets])


# --- other shapes ----------------------------------------------------------------------------------------------------


def reshape(dtype: Any = ..., value: Any = ..., shape: Any = ..., order: Any = "A", shrink: Any = False) -> Any:
    """An array with the elements of another one and a given shape.

    Called as ``reshape(value, shape, order='A', shrink=False)`` or ``reshape(dtype, value, shape, …)``, where ``dtype``
    is the type of the result, if that is another one. ``shape`` is an int or a sequence of ints, of which one may be
    -1: it follows from the others. ``order`` is that of :func:`ravel` and :func:`unravel`. ``shrink=True`` allows fewer
    elements than there are, and keeps the first ones. PyTrees are traversed; other objects are returned unchanged.

    Raises a ``RuntimeError`` if the numbers of elements differ, a ``TypeError`` if the shape is none of the type.
    Evaluates nothing.

    >>> from drjit.llvm import Array2f, Float, TensorXf
    >>> dr.reshape(TensorXf, dr.arange(Float, 6), (2, -1))
    [[0, 1, 2],
     [3, 4, 5]]
    >>> dr.reshape(Array2f, dr.arange(Float, 6), (2, 3))
    [[0, 1],
     [2, 3],
     [4, 5]]
    >>> dr.reshape(dr.arange(Float, 6), 4, shrink=True)
    [0, 1, 2, 3]
    """
    function = "drjit.reshape"
    if dtype is not ... and not isinstance(dtype, type):  # no type came first: what was given by position moves on
        moved = [entry for entry in (value, shape) if entry is not ...]
        if value is ...:  # reshape(value, shape=…)
            value = dtype
        elif shape is ...:  # reshape(value, shape)
            value, shape = dtype, moved[0]
        else:  # reshape(value, shape, order[, shrink])
            if shrink is not False or order != "A" and order.__class__ is not bool:
                raise TypeError(f"{function}(): expected (value, shape, order='A', shrink=False) or (dtype, value, "
                                "shape, order='A', shrink=False).")
            value, shape, order, shrink = dtype, moved[0], moved[1], False if order == "A" else order
        dtype = None
    for name, given in (("value", value), ("shape", shape)):
        if given is ...:
            raise TypeError(f"{function}(): missing argument '{name}'.")
    return _reshape(function, None if dtype is ... else dtype, value, shape, order, shrink)


def _target_shape(function: str, shape: Any, size: int, shrink: bool) -> tuple[int, ...]:
    """The requested sizes, with -1 replaced."""
    try:
        sizes = tuple(map(operator.index, shape)) if isinstance(shape, (list, tuple)) else (operator.index(shape),)
    except TypeError:
        raise TypeError(f"{function}(): 'shape' must be an int or a sequence of ints, found {shape!r}.") from None
    unknown = sizes.count(-1)
    if unknown > 1 or min(sizes, default=0) < -1:
        raise ArgumentError(f"{function}(): 'shape' may hold a single -1 and no other negative size, found {sizes}.")
    if unknown:
        known = math.prod(entry for entry in sizes if entry != -1)
        if not known or size % known and not shrink:
            raise ArgumentError(f"{function}(): cannot infer a compatible shape: {size} elements do not fit into "
                                f"{sizes}.")
        sizes = tuple(size // known if entry == -1 else entry for entry in sizes)
    count = math.prod(sizes)
    if count != size and not (shrink and count < size):
        raise SizeError(f"{function}(): mismatched array sizes (input: {size}, target: {count} for the shape {sizes}).")
    return sizes


def _reshape(function: str, dtype: Any, value: Any, shape: Any, order: Any, shrink: Any) -> Any:
    if not isinstance(value, ArrayBase):
        if is_pytree(type(value)):
            return transform(function, lambda leaf: _reshape(function, None, leaf, shape, order, shrink), value)
        return value
    cls = type(value) if dtype is None else dtype
    if not isinstance(cls, type) or not issubclass(cls, ArrayBase) or not hasattr(cls, "_record"):
        raise TypeError(f"{function}(): 'dtype' must be an array type, found {describe(dtype)}.")
    tensors = isinstance(value, TensorBase), issubclass(cls, TensorBase)
    if all(tensors):
        if order == "F":  # through the transposes of both
            flat = ravel(value, "F")._n
            sizes = _target_shape(function, shape, flat.size, False)
            node, _ = transposed(flat, sizes[::-1], tuple(range(len(sizes)))[::-1])
            return make(cls, cast(node, cls._type), sizes)
        _order(function, order, "C")
        sizes = _target_shape(function, shape, value._n.size, shrink)
        count = math.prod(sizes)
        node = value._n if count == value._n.size else strided(value._n, (count,), (1,))
        return make(cls, cast(node, cls._type), sizes)
    if shrink and type(value) is cls and cls._depth >= 0:
        width = value._width(function)
        static = value._static_shape()
        sizes = tuple(shape) if isinstance(shape, (list, tuple)) else (*static, operator.index(shape))
        if sizes[:-1] != static or not 0 <= sizes[-1] <= width:
            raise SizeError(f"{function}(): cannot shrink an array of the shape {(*static, width)} to {sizes}.")
        return wrap(cls, [strided(broadcast(node, width), (sizes[-1],), (1,)) for node in value._nodes()])
    if not value._dynamic or not cls._dynamic or cls._record.backend is SCALAR:
        return _reshape_scalars(function, cls, value, shape, order, shrink)
    flat = ravel(value, order if not tensors[0] else "A")
    node = cast(flat._n, cls._type)
    if tensors[1]:
        return make(cls, node, _target_shape(function, shape, node.size, shrink))
    sizes = _target_shape(function, shape, node.size, shrink)
    declared = (*cls._record.shape, -1)
    if len(sizes) != len(declared) or any(d not in (-1, s) for d, s in zip(declared, sizes, strict=True)):
        expected = ", ".join("*" if size < 0 else str(size) for size in declared)
        raise ArgumentError(f"{function}(): the shape {sizes} is incompatible with {cls._name} (expected "
                            f"({expected})).")
    count = math.prod(sizes)
    if count != node.size:
        node = strided(node, (count,), (1,))
    if not cls._depth:
        return wrap(cls, [node])
    return _unravel(function, cls, node, sizes[:-1], _order(function, order, "F"))


def _reshape_scalars(function: str, cls: Any, value: Any, shape: Any, order: Any, shrink: bool) -> Any:
    """``reshape`` to or from static arrays of the scalar backend."""
    flat = ravel(value, order if not isinstance(value, TensorBase) else "A")
    if flat._dynamic or cls._record.backend is not SCALAR:
        raise ArgumentError(f"{function}(): cannot reshape {value._name} to {cls._name}.")
    nodes = [cast(node, cls._type) for node in flat._nodes()]
    sizes = _target_shape(function, shape, len(nodes), shrink)
    declared, nodes = cls._record.shape, nodes[:math.prod(sizes)]
    if issubclass(cls, TensorBase):
        return make(cls, flat_of_scalars(cls._leaf, wrap(cls._plain, nodes)), sizes)
    if len(sizes) != len(declared) or any(d not in (-1, s) for d, s in zip(declared, sizes, strict=True)):
        raise ArgumentError(f"{function}(): the shape {sizes} is incompatible with {cls._name}.")
    return wrap(cls, nodes) if -1 in declared else _unravel_scalars(function, cls, nodes, _order(function, order, "F"))


def expand_dims(value: ArrayT, /, axis: int | tuple[int, ...]) -> ArrayT:
    """A tensor with axes of size 1 inserted, at the positions ``axis`` (int or tuple) of the result.

    The result shares the elements. Raises a ``TypeError`` if ``value`` is no tensor or there is no such position.
    Evaluates nothing.

    >>> from drjit.llvm import TensorXf
    >>> x = TensorXf([1, 2, 3, 4], shape=(2, 2))
    >>> dr.expand_dims(x, 0).shape
    (1, 2, 2)
    >>> dr.expand_dims(x, (1, -1)).shape
    (2, 1, 2, 1)
    """
    function = "drjit.expand_dims"
    tensor = _require_tensor(function, value)
    count = len(axis) if isinstance(axis, (tuple, list)) else 1
    axes = normalise_axes(function, axis, len(tensor._s) + count)
    sizes = iter(tensor._s)
    return make(type(tensor), tensor._n,
                tuple(1 if k in axes else next(sizes) for k in range(len(tensor._s) + count)))


def squeeze(value: ArrayT, /, axis: int | tuple[int, ...] | None = None) -> ArrayT:
    """A tensor without axes of size 1: all of them, or those that ``axis`` (int or tuple) names.

    The result shares the elements. Raises a ``TypeError`` if ``value`` is no tensor, a ``RuntimeError`` if an axis has
    another size. Evaluates nothing.

    >>> from drjit.llvm import TensorXf
    >>> x = dr.zeros(TensorXf, (1, 3, 1))
    >>> dr.squeeze(x).shape, dr.squeeze(x, axis=0).shape
    ((3,), (3, 1))
    """
    function = "drjit.squeeze"
    tensor = _require_tensor(function, value)
    shape = tensor._s
    axes = tuple(k for k, size in enumerate(shape) if size == 1) if axis is None else \
        normalise_axes(function, axis, len(shape))
    for k in axes:
        if shape[k] != 1:
            raise SizeError(f"{function}(): axis {k} has size {shape[k]}, not 1 (the shape is {shape}).")
    return make(type(tensor), tensor._n, tuple(size for k, size in enumerate(shape) if k not in axes))


# --- other orders of axes --------------------------------------------------------------------------------------------


def _permuted(tensor: ArrayT, axes: tuple[int, ...]) -> ArrayT:
    return make(type(tensor), *transposed(tensor._n, tensor._s, axes))


def transpose(value: ArrayT, /, axes: Sequence[int] | None = None) -> ArrayT:
    """A tensor with its axes in another order: that of the permutation ``axes``, or reversed.

    Also the transpose of a matrix, or of a nested array that has the shape of one, whose type stays the same. Raises a
    ``TypeError`` for other arrays, and if ``axes`` is no permutation. Evaluates nothing.

    >>> from drjit.llvm import Matrix2f, TensorXf
    >>> x = TensorXf([1, 2, 3, 4, 5, 6], shape=(2, 3))
    >>> dr.transpose(x)
    [[1, 4],
     [2, 5],
     [3, 6]]
    >>> dr.transpose(x[None], (1, 0, 2)).shape
    (2, 1, 3)
    >>> dr.transpose(Matrix2f(1, 2, 3, 4))
    [[[1, 3],
      [2, 4]]]
    """
    function = "drjit.transpose"
    if isinstance(value, ArrayBase) and value._depth >= 2:
        result: ArrayT = transpose_matrix(value, axes)
        return result
    tensor = _require_tensor(function, value)
    rank = len(tensor._s)
    order = tuple(range(rank))[::-1] if axes is None else normalise_axes(function, axes, rank, "axes")
    if len(order) != rank:
        raise ArgumentError(f"{function}(): 'axes' must be a permutation of {tuple(range(rank))}, found {axes!r}.")
    return _permuted(tensor, order)


def swapaxes(value: ArrayT, /, axis1: int, axis2: int) -> ArrayT:
    """A tensor with two axes exchanged.

    Raises a ``TypeError`` if ``value`` is no tensor or an axis does not exist. Evaluates nothing.

    >>> from drjit.llvm import TensorXf
    >>> dr.swapaxes(dr.zeros(TensorXf, (2, 3, 4)), 0, 2).shape
    (4, 3, 2)
    """
    function = "drjit.swapaxes"
    tensor = _require_tensor(function, value)
    order = list(range(len(tensor._s)))
    first = normalise_axis(function, axis1, len(order), "axis1")
    second = normalise_axis(function, axis2, len(order), "axis2")
    order[first], order[second] = second, first
    return _permuted(tensor, tuple(order))


def moveaxis(arg: ArrayT, /, source: int | tuple[int, ...], destination: int | tuple[int, ...]) -> ArrayT:
    """A tensor with some axes (int or tuple) moved to other positions; the others keep their order.

    Raises a ``TypeError`` if ``arg`` is no tensor, if an axis does not exist, and if ``source`` and ``destination`` do
    not name equally many. Evaluates nothing.

    >>> from drjit.llvm import TensorXf
    >>> dr.moveaxis(dr.zeros(TensorXf, (2, 3, 4)), 0, -1).shape
    (3, 4, 2)
    """
    function = "drjit.moveaxis"
    tensor = _require_tensor(function, arg, "arg")
    rank = len(tensor._s)
    sources = normalise_axes(function, source, rank, "source")
    destinations = normalise_axes(function, destination, rank, "destination")
    if len(sources) != len(destinations):
        raise ArgumentError(f"{function}(): 'source' and 'destination' must name equally many axes, found {source!r} "
                            f"and {destination!r}.")
    order = [axis for axis in range(rank) if axis not in sources]
    for position, axis in sorted(zip(destinations, sources, strict=True)):
        order.insert(position, axis)
    return _permuted(tensor, tuple(order))


# --- joining and splitting -------------------------------------------------------------------------------------------


def _sequence(function: str, values: Sequence[ArrayT], name: str) -> list[ArrayT]:
    found = list(values) if isinstance(values, (list, tuple)) else []
    if not found or not all(isinstance(value, ArrayBase) for value in found):
        others = [f"{describe(value)} at position {k}" for k, value in enumerate(found)
                  if not isinstance(value, ArrayBase)]
        what = others[0] if others else f"an empty {describe(values)}" if isinstance(values, (list, tuple)) else \
            describe(values)
        raise TypeError(f"{function}(): '{name}' must be a non-empty sequence of arrays, found {what}.")
    if len({type(value) for value in found}) > 1:
        raise ArgumentError(f"{function}(): the arrays must have one type, found "
                            f"{' and '.join(dict.fromkeys(value._name for value in found))}.")
    return found


def concat(arr: Sequence[ArrayT], /, axis: int | None = 0) -> ArrayT:
    """Arrays or tensors of one type joined along an existing axis; ``axis=None`` joins them raveled.

    The other sizes agree, else a ``RuntimeError`` is raised. Arrays (other than tensors) are joined along their last,
    dynamic axis only, which is axis 0 of flat ones; a ``TypeError`` is raised for another axis, and for arrays of
    several types. Evaluates nothing.

    >>> from drjit.llvm import Float, TensorXf
    >>> dr.concat([Float(1, 2), Float(3)])
    [1, 2, 3]
    >>> x = TensorXf([1, 2, 3, 4], shape=(2, 2))
    >>> dr.concat([x, 10 * x], axis=1)
    [[1, 2, 10, 20],
     [3, 4, 30, 40]]
    """
    function = "drjit.concat"
    return _concat(function, _sequence(function, arr, "arr"), axis)


def _concat(function: str, values: list[ArrayT], axis: int | None) -> ArrayT:
    cls = type(values[0])
    if not cls._dynamic:
        result: ArrayT = _concat_scalars(function, values, axis)
        return result
    if axis is None:
        joined: Any = wrap(cls._leaf, [concatenate([ravel(value)._n for value in values])])
        return make(cls, joined._n, (joined._n.size,)) if cls._depth < 0 else joined
    if cls._depth >= 0:
        if normalise_axis(function, axis, cls._depth + 1) != cls._depth:
            raise ArgumentError(f"{function}(): arrays of type {cls._name} are joined along their last axis only; "
                                "convert them to tensors first.")
        if len({value._static_shape() for value in values}) > 1:
            raise SizeError(f"{function}(): the arrays have different numbers of components.")
        widths = [value._width(function) for value in values]
        rows = [[broadcast(node, width) if node.size else node for node in value._nodes()]
                for value, width in zip(values, widths, strict=True)]
        return wrap(cls, [concatenate(parts) for parts in zip(*rows, strict=True)])
    rank = len(values[0]._s)
    found = normalise_axis(function, axis, rank)
    shape = values[0]._s
    if any(len(v._s) != rank or v._s[:found] != shape[:found] or v._s[found + 1:] != shape[found + 1:] for v in values):
        raise SizeError(f"{function}(): the shapes must agree in all axes but {found}, found "
                        f"{' and '.join(dict.fromkeys(str(v._s) for v in values))}.")
    total = sum(value._s[found] for value in values)
    # The joined axis comes first in memory, so that each tensor is one contiguous part, and is then moved.
    order = (found, *(k for k in range(rank) if k != found))
    node = concatenate([transposed(value._n, value._s, order)[0] for value in values])
    back = [order.index(k) for k in range(rank)]
    sizes = (total, *(shape[k] for k in order[1:]))
    return make(cls, *transposed(node, sizes, tuple(back)))


def _concat_scalars(function: str, values: list[Any], axis: Any) -> Any:
    """Arrays of the scalar backend joined: those of one dimension."""
    cls = type(values[0])
    if cls._depth != 1 or cls._special:
        raise ArgumentError(f"{function}(): only one-dimensional arrays of the scalar backend can be joined, found "
                            f"{cls._name}.")
    if axis is not None:
        normalise_axis(function, axis, 1)
    return wrap(reshape_type(cls, (-1,)), [node for value in values for node in value._nodes()])


def _tensors(function: str, arrays: Sequence[ArrayT]) -> list[ArrayT]:
    """The arrays of a sequence, those that are no tensors as such."""
    values = _sequence(function, arrays, "arrays")
    cls: Any = type(values[0])
    if cls._depth >= 0:
        if not cls._dynamic:
            raise TypeError(f"{function}(): 'arrays' must hold tensors, or arrays that can become tensors, found "
                            f"{cls._name}.")
        kind: Any = lookup(cls._record._replace(kind="tensor", shape=()))
        return [kind(value) for value in values]
    return values


def stack(arrays: Sequence[ArrayT], /, axis: int = 0) -> ArrayT:
    """Tensors of one type and shape joined along a new axis, at a position of the result.

    Other arrays are taken as tensors. Raises a ``TypeError`` for several types, a ``RuntimeError`` if the shapes
    differ. Evaluates nothing.

    >>> from drjit.llvm import TensorXf
    >>> x = TensorXf([1, 2], shape=(2,))
    >>> dr.stack([x, 10 * x])
    [[1, 2],
     [10, 20]]
    >>> dr.stack([x, 10 * x], axis=1)
    [[1, 10],
     [2, 20]]
    """
    function = "drjit.stack"
    values = _tensors(function, arrays)
    if len({value._s for value in values}) > 1:
        raise SizeError(f"{function}(): the tensors must have one shape, found "
                        f"{' and '.join(dict.fromkeys(str(value._s) for value in values))}.")
    position = normalise_axis(function, axis, len(values[0]._s) + 1)
    return _concat(function, [expand_dims(value, position) for value in values], position)


def vstack(arrays: Sequence[ArrayT], /) -> ArrayT:
    """Tensors joined along their first axis; those with fewer than two dimensions become rows.

    See :func:`concat` for errors. Evaluates nothing.

    >>> from drjit.llvm import TensorXf
    >>> x = TensorXf([1, 2], shape=(2,))
    >>> dr.vstack([x, 10 * x])
    [[1, 2],
     [10, 20]]
    """
    return _vstack("drjit.vstack", arrays)


def _vstack(function: str, arrays: Sequence[ArrayT]) -> ArrayT:
    values = _tensors(function, arrays)
    return _concat(function, [v if len(v._s) > 1 else make(type(v), v._n, (1, v._n.size)) for v in values], 0)


def row_stack(arrays: Sequence[ArrayT], /) -> ArrayT:
    """Another name of :func:`vstack`: tensors joined along their first axis, those of one dimension as rows.

    See :func:`concat` for errors. Evaluates nothing.

    >>> from drjit.llvm import TensorXf
    >>> x = TensorXf([1, 2], shape=(2,))
    >>> dr.row_stack([x, 10 * x])
    [[1, 2],
     [10, 20]]
    """
    return _vstack("drjit.row_stack", arrays)


def hstack(arrays: Sequence[ArrayT], /) -> ArrayT:
    """Tensors joined along their second axis, or the first one if they have no other.

    See :func:`concat` for errors. Evaluates nothing.

    >>> from drjit.llvm import TensorXf
    >>> x = TensorXf([1, 2], shape=(2,))
    >>> dr.hstack([x, 10 * x])
    [1, 2, 10, 20]
    """
    function = "drjit.hstack"
    values = [v if v._s else make(type(v), v._n, (1,)) for v in _tensors(function, arrays)]
    return _concat(function, values, 1 if len(values[0]._s) > 1 else 0)


def column_stack(arrays: Sequence[ArrayT], /) -> ArrayT:
    """Tensors joined along their second axis; those with one dimension become columns.

    See :func:`concat` for errors. Evaluates nothing.

    >>> from drjit.llvm import TensorXf
    >>> x = TensorXf([1, 2], shape=(2,))
    >>> dr.column_stack([x, 10 * x])
    [[1, 10],
     [2, 20]]
    """
    function = "drjit.column_stack"
    values = _tensors(function, arrays)
    return _concat(function, [v if len(v._s) > 1 else make(type(v), v._n, (v._n.size, 1)) for v in values], 1)


def dstack(arrays: Sequence[ArrayT], /) -> ArrayT:
    """Tensors joined along their third axis; ``(N,)`` is taken as ``(1, N, 1)``, and ``(M, N)`` as ``(M, N, 1)``.

    See :func:`concat` for errors. Evaluates nothing.

    >>> from drjit.llvm import TensorXf
    >>> x = TensorXf([1, 2], shape=(2,))
    >>> dr.dstack([x, 10 * x])
    [[[1, 10],
      [2, 20]]]
    """
    function = "drjit.dstack"
    values = _tensors(function, arrays)
    shapes = [v._s if len(v._s) > 2 else ((1,) * (2 - len(v._s)) + v._s + (1,)) for v in values]
    return _concat(function, [make(type(v), v._n, shape) for v, shape in zip(values, shapes, strict=True)], 2)


def split(value: ArrayT, indices_or_sections: int | Sequence[int], /, axis: int = 0) -> list[ArrayT]:
    """A list of parts of a tensor along an axis: a number of equal ones, or those between the given positions.

    Raises a ``TypeError`` if ``value`` is no tensor, and if it cannot be split into that many equal parts (see
    :func:`array_split`). Evaluates nothing.

    >>> from drjit.llvm import Float, TensorXf
    >>> x = TensorXf(dr.arange(Float, 6))
    >>> dr.split(x, 2)
    [[0, 1, 2], [3, 4, 5]]
    >>> dr.split(x, [1, 3])
    [[0], [1, 2], [3, 4, 5]]
    """
    function = "drjit.split"
    tensor = _require_tensor(function, value)
    found = normalise_axis(function, axis, len(tensor._s))
    size = tensor._s[found]
    if isinstance(indices_or_sections, (list, tuple)):
        bounds = [0, *(require_integer(function, f"indices_or_sections[{k}]", entry)
                       for k, entry in enumerate(indices_or_sections)), size]
    else:
        sections = require_integer(function, "indices_or_sections", indices_or_sections)
        if sections < 1 or size % sections:
            raise ArgumentError(f"{function}(): axis {found} of size {size} cannot be split into {sections} equal "
                                "parts; see drjit.array_split().")
        bounds = list(range(0, size + 1, size // sections)) if size else [0] * (sections + 1)
    return _parts(tensor, bounds, found)


def array_split(value: ArrayT, sections: int, /, axis: int = 0) -> list[ArrayT]:
    """A list of parts of a tensor along an axis whose sizes differ by at most one, the larger ones first.

    Raises a ``TypeError`` if ``value`` is no tensor. Evaluates nothing.

    >>> from drjit.llvm import Float, TensorXf
    >>> dr.array_split(TensorXf(dr.arange(Float, 5)), 3)
    [[0, 1], [2, 3], [4]]
    """
    function = "drjit.array_split"
    tensor = _require_tensor(function, value)
    found = normalise_axis(function, axis, len(tensor._s))
    count = require_count(function, "sections", sections, 1)
    small, larger = divmod(tensor._s[found], count)
    return _parts(tensor, [k * small + min(k, larger) for k in range(count + 1)], found)


def _parts(tensor: Any, bounds: Sequence[int], axis: int) -> list[Any]:
    before = (slice(None),) * axis
    return [tensor[(*before, slice(start, stop))] for start, stop in itertools.pairwise(bounds)]


def take(value: ArrayT, index: int | ArrayBase, axis: int = 0) -> ArrayT:
    """What ``value[..., index, ...]`` selects, with an integer or an integer array ``index`` at position ``axis``.

    ``value`` is a tensor, else a ``TypeError`` is raised. An integer removes the axis; an array gives it its size.
    Indices that are too large are found in debug mode only (``JitFlag.Debug``). Evaluates nothing.

    >>> from drjit.llvm import TensorXf, UInt
    >>> x = TensorXf([1, 2, 3, 4, 5, 6], shape=(2, 3))
    >>> dr.take(x, 1)
    [4, 5, 6]
    >>> dr.take(x, UInt(2, 0), axis=1)
    [[3, 1],
     [6, 4]]
    """
    function = "drjit.take"
    tensor: Any = _require_tensor(function, value)
    found = normalise_axis(function, axis, len(tensor._s))
    if key_integer(index) is None and (not is_array_key(index) or is_mask(index)):
        raise TypeError(f"{function}(): 'index' must be an int or an array of integers, found {describe(index)}.")
    access, shape = parse_slice(function, tensor._s, (*(slice(None),) * found, index))
    try:
        result: ArrayT = make(type(tensor), read(tensor._n, access), shape)
    except CORE_ERRORS as error:
        raise translate(error, function) from None
    return result


def take_interp(value: ArrayT, pos: float | ArrayBase, axis: int = 0) -> ArrayT:
    """Values between the entries of a tensor along an axis, by linear interpolation at fractional positions.

    ``pos`` is a number, which removes the axis, or an array of one dimension, which gives it its size. Position 0 is
    the first entry, ``n - 1`` the last one; beyond, the first and the last segment are extended. The result has the
    type of ``value``. Raises a ``TypeError`` if ``value`` is no tensor, a ``RuntimeError`` if the axis has fewer than
    two entries. Evaluates nothing.

    >>> from drjit.llvm import Float, TensorXf
    >>> x = TensorXf([0, 1, 2, 10, 20, 40], shape=(2, 3))
    >>> dr.take_interp(x, 0.5)
    [5, 10.5, 21]
    >>> dr.take_interp(x, Float(0.5, 1.25), axis=1)
    [[0.5, 1.25],
     [15, 25]]
    """
    function = "drjit.take_interp"
    tensor: Any = _require_tensor(function, value)
    rank = len(tensor._s)
    found = normalise_axis(function, axis, rank)
    size = tensor._s[found]
    if size < 2:
        raise SizeError(f"{function}(): axis {found} has size {size}, but interpolation needs at least 2 entries.")
    if tensor._kind == "b":
        raise ArgumentError(f"{function}(): masks cannot be interpolated; convert them first.")
    cls: Any = type(tensor)
    # at least in single precision, and in double precision where the position or the value has it
    wide: Any = retype(cls, FLOAT64 if cls._leaf._type in (FLOAT64, INT64) else FLOAT32)
    before = (slice(None),) * found
    number = plain_scalar(pos)
    if number is not None:
        if not math.isfinite(number):
            raise ArgumentError(f"{function}(): 'pos' must be finite, found {pos!r}.")
        start = min(max(math.floor(number), 0), size - 2)
        below, above = (wide(tensor[(*before, k)]) for k in (start, start + 1))
        result: ArrayT = cls(lerp(below, above, number - start))
        return result
    at: Any = pos
    if not isinstance(pos, ArrayBase):
        kind: Any = wide._leaf
        try:
            at = kind(pos)
        except (TypeError, ValueError, RuntimeError) as error:
            raise ArgumentError(f"{function}(): 'pos' must be a number or an array of one dimension: {error}") from None
    if at._depth > 0 or len(at.shape) != 1 or at._kind == "b" or not at._dynamic:
        raise TypeError(f"{function}(): 'pos' must be a number or an array of one dimension, found {describe(at)}"
                        f"{f' of the shape {at.shape}' if at._depth < 0 else ''}.")
    flat: Any = at if at._depth == 0 else at.array
    if not len(flat):
        empty: ArrayT = make(cls, core.invalid(cls._type), (*tensor._s[:found], 0, *tensor._s[found + 1:]))
        return empty
    exact: Any = retype(type(flat), FLOAT64 if flat._type == FLOAT64 or size > 1 << 22 else FLOAT32)(flat)
    # NaN is at no position, but interpolates to NaN
    index: Any = retype(type(flat), UINT32)(maximum(minimum(floor(exact), size - 2), 0))
    index = select(exact == exact, index, 0)
    weight = wide((exact - type(exact)(index)), shape=(len(flat), *(1,) * (rank - 1 - found)))
    below, above = (wide(tensor[(*before, k)]) for k in (index, index + 1))
    interpolated: ArrayT = cls(lerp(below, above, weight))
    return interpolated


# --- other orders of entries, and repetitions ------------------------------------------------------------------------


def _map_rows(array: Any, change: Callable[[Any], Any]) -> Any:
    """An array each of whose components has been changed along the trailing, dynamic axis."""
    nodes = array._nodes()
    width = array._width("drjit")
    return wrap(type(array), [change(broadcast(node, width) if width else node) for node in nodes])


def reverse(value: Any, axis: int = 0) -> Any:
    """An array, a tensor or a Python sequence with its entries in reverse order along an axis.

    Of nested arrays, axis 0 are the components, the last axis the elements of each; matrices exchange their rows.
    Python sequences have axis 0 only, and keep their type. Raises a ``TypeError`` for anything else, and if there is no
    such axis. Evaluates nothing.

    >>> from drjit.llvm import Array2f, Float, TensorXf
    >>> dr.reverse(Float(1, 2, 3))
    [3, 2, 1]
    >>> dr.reverse(Array2f([1, 2], [3, 4]))
    [[3, 1],
     [4, 2]]
    >>> dr.reverse(TensorXf([1, 2, 3, 4], shape=(2, 2)), axis=1)
    [[2, 1],
     [4, 3]]
    >>> dr.reverse(("x", "y"))
    ('y', 'x')
    """
    function = "drjit.reverse"
    if not isinstance(value, ArrayBase):
        if not isinstance(value, Sequence) and not is_ndarray(value):
            raise TypeError(f"{function}(): 'value' must be a Dr.Jit array or a sequence, found {describe(value)}.")
        normalise_axis(function, axis, 1)
        return value[::-1]
    array: Any = value
    found = normalise_axis(function, axis, array.ndim)
    if array._depth < 0:
        return array[(*(slice(None),) * found, slice(None, None, -1))]
    if found == array._depth and array._dynamic:
        return _map_rows(array, lambda node: strided(node, (node.size,), (-1,), node.size - 1) if node.size else node)
    shape, nodes = array._static_shape(), array._nodes()
    inner = math.prod(shape[found + 1:])
    return wrap(type(array), [nodes[outer + k * inner + rest]
                              for outer in range(0, len(nodes), shape[found] * inner or 1)
                              for k in reversed(range(shape[found])) for rest in range(inner)])


def _counts(function: str, count: Any) -> tuple[int, ...]:
    """The repetitions along the trailing axes, as a tuple."""
    if isinstance(count, (list, tuple)):
        return tuple(require_count(function, f"count[{k}]", entry) for k, entry in enumerate(count))
    return (require_count(function, "count", count),)


def tile(value: T, count: int | Sequence[int]) -> T:
    """An array with all of its elements repeated ``count`` times, one copy after the other.

    Of nested arrays and tensors, the trailing axis; a sequence of counts is one for each of the trailing axes of a
    tensor (whose number of axes grows if there are more of them, as of a flat array, which becomes a tensor). PyTrees
    are traversed. What has no dynamic axis is returned as it is. Raises a ``TypeError`` for other counts, a
    ``ValueError`` for negative ones. Evaluates nothing.

    >>> from drjit.llvm import Array2f, Float, TensorXf
    >>> dr.tile(Float(1, 2, 3), 2)
    [1, 2, 3, 1, 2, 3]
    >>> dr.tile(TensorXf([1, 2], shape=(1, 2)), (2, 3))
    [[1, 2, 1, 2, 1, 2],
     [1, 2, 1, 2, 1, 2]]
    """
    function = "drjit.tile"
    counts = _counts(function, count)
    if counts == (1,) and not isinstance(count, (list, tuple)):
        return value
    result: T = _tile(function, value, counts)
    return result


def _tile(function: str, value: Any, counts: tuple[int, ...]) -> Any:
    if not isinstance(value, ArrayBase):
        return transform(function, lambda leaf: _tile(function, leaf, counts), value) \
            if is_pytree(type(value)) else value
    array: Any = value
    if all(count == 1 for count in counts) and len(counts) <= (len(array._s) if array._depth < 0 else 1):
        return value
    if array._depth >= 0 and len(counts) == 1:
        if not array._dynamic:
            return wrap(type(array), array._nodes() * counts[0]) if array._record.shape == (-1,) else value
        return _map_rows(array, lambda node: strided(node, (counts[0], node.size), (0, 1)))
    if array._depth > 0 or not array._dynamic:
        raise ArgumentError(f"{function}(): only flat arrays and tensors are repeated along several axes, found "
                            f"{array._name} and {len(counts)} counts.")
    tensor: Any = array
    if array._depth == 0:
        kind: Any = lookup(array._record._replace(kind="tensor", shape=()))
        tensor = kind(array)
    rank = max(len(tensor._s), len(counts))
    shape, repeats = ((1,) * (rank - len(given)) + given for given in (tensor._s, counts))
    strides = contiguous_strides(shape)
    node = strided(tensor._n, [size for pair in zip(repeats, shape, strict=True) for size in pair],
                   [stride for own in strides for stride in (0, own)])
    return make(type(tensor), node, tuple(a * b for a, b in zip(repeats, shape, strict=True)))


def repeat(value: T, count: int | Sequence[int] | ArrayBase, axis: int | None = None) -> T:
    """An array with each of its elements repeated ``count`` times in place.

    Of nested arrays, the elements of each component. Tensors are raveled first, unless ``axis`` says along which axis
    their entries are repeated. ``count`` may also be an array or a sequence of ints, one for each entry, which is
    evaluated. PyTrees are traversed. What has no dynamic axis is returned as it is. Raises a ``TypeError`` for other
    counts, a ``ValueError`` for negative ones, a ``RuntimeError`` if there is another number of them than of entries.
    Evaluates nothing else.

    >>> from drjit.llvm import Float, TensorXf
    >>> dr.repeat(Float(1, 2, 3), 2)
    [1, 1, 2, 2, 3, 3]
    >>> dr.repeat(TensorXf([1, 2, 3, 4], shape=(2, 2)), 2, axis=1)
    [[1, 1, 2, 2],
     [3, 3, 4, 4]]
    >>> dr.repeat(Float(1, 2, 3), [2, 0, 1])
    [1, 1, 3]
    """
    function = "drjit.repeat"
    given: Any = count
    if isinstance(given, (ArrayBase, list, tuple)) or is_ndarray(given) and given.ndim:
        if not isinstance(given, (list, tuple)) and len(given.shape) > 1:
            raise TypeError(f"{function}(): 'count' must be an int, or ints in one dimension, found {describe(given)} "
                            f"of the shape {given.shape}.")
        entries = list(given if isinstance(given, (list, tuple)) else given.numpy() if isinstance(given, ArrayBase)
                       else given)
        counts: Any = [require_count(function, f"count[{k}]", entry) for k, entry in enumerate(entries)]
    else:
        counts = require_count(function, "count", given)
    result: T = _repeat(function, value, counts, axis)
    return result


def _repeat(function: str, value: Any, counts: Any, axis: Any) -> Any:
    if not isinstance(value, ArrayBase):
        return transform(function, lambda leaf: _repeat(function, leaf, counts, axis), value) \
            if is_pytree(type(value)) else value
    array: Any = value
    if array._depth < 0:
        shape, found = array._s, 0
        if axis is None:
            shape = (array._n.size,)
        else:
            found = normalise_axis(function, axis, len(shape))
        outer, size, inner = math.prod(shape[:found]), shape[found], math.prod(shape[found + 1:])
        total = _total(function, size, counts)
        if isinstance(counts, int):
            node = strided(array._n, (outer, size, counts, inner), (size * inner, inner, 0, 1))
            return make(type(array), node, (*shape[:found], total, *shape[found + 1:]))
        source = make(type(array), array._n, (outer, size, inner))
        taken: Any = source[:, [k for k, times in enumerate(counts) for _ in range(times)]]
        return make(type(array), taken._n, (*shape[:found], total, *shape[found + 1:]))
    if axis is not None:
        normalise_axis(function, axis, 1)
    if not array._dynamic:
        if array._record.shape != (-1,):
            return value
        nodes = array._nodes()
        _total(function, len(nodes), counts)
        each = [counts] * len(nodes) if isinstance(counts, int) else counts
        return wrap(type(array), [node for node, times in zip(nodes, each, strict=True) for _ in range(times)])
    if isinstance(counts, int):
        return value if counts == 1 else _map_rows(array, lambda node: strided(node, (node.size, counts), (1, 0)))
    width = array._width(function)
    _total(function, width, counts)
    index = [k for k, times in enumerate(counts) for _ in range(times)]
    leaf: Any = array._leaf
    return _map_rows(array, lambda node: wrap(leaf, [node])[index]._n)


def _total(function: str, size: int, counts: Any) -> int:
    """The number of entries after repetition."""
    if isinstance(counts, int):
        return size * counts
    if len(counts) != size:
        raise SizeError(f"{function}(): 'count' has {len(counts)} entries, but 'value' has {size}.")
    return sum(counts)


def upsample(source: ArrayT, shape: Sequence[int] | None = None, scale_factor: Sequence[int] | None = None) -> ArrayT:
    """A tensor with each entry repeated along its axes: nearest neighbours at a multiple of the resolution.

    Either ``shape`` is that of the result, made of multiples of the sizes of ``source``, or ``scale_factor`` holds the
    multiples; both are sequences of ints, and what is missing at the end leaves the axes alone. Raises a ``TypeError``
    for other arguments. :func:`resample` knows better filters, and any shape. Evaluates nothing.

    >>> from drjit.llvm import TensorXf
    >>> dr.upsample(TensorXf([1, 2, 3, 4], shape=(2, 2)), scale_factor=(1, 2))
    [[1, 1, 2, 2],
     [3, 3, 4, 4]]
    """
    function = "drjit.upsample"
    tensor: Any = _require_tensor(function, source, "source")
    if (shape is None) == (scale_factor is None):
        raise ArgumentError(f"{function}(): either 'shape' or 'scale_factor' must be given.")
    name, given = ("shape", shape) if scale_factor is None else ("scale_factor", scale_factor)
    if not isinstance(given, (list, tuple)) or len(given) > len(tensor._s):
        raise ArgumentError(f"{function}(): '{name}' must be a sequence of at most {len(tensor._s)} ints, found "
                            f"{given!r}.")
    wanted = [require_count(function, f"{name}[{k}]", entry, 0 if scale_factor is None else 1)
              for k, entry in enumerate(given)]
    factors = []
    for k, (entry, size) in enumerate(zip(wanted, tensor._s, strict=False)):
        if scale_factor is None and (entry % size or not entry if size else entry):
            raise ArgumentError(f"{function}(): 'shape[{k}]' must be a multiple of the size {size}, found {entry}.")
        factors.append(entry if scale_factor is not None else entry // size if size else 1)
    factors += [1] * (len(tensor._s) - len(factors))
    strides = contiguous_strides(tensor._s)
    node = strided(tensor._n, [size for pair in zip(tensor._s, factors, strict=True) for size in pair],
                   [stride for own in strides for stride in (own, 0)])
    result: ArrayT = make(type(tensor), node, tuple(a * b for a, b in zip(tensor._s, factors, strict=True)))
    return result
