"""Other shapes: flat forms of arrays, and the same elements with other sizes or more axes.

What only changes a shape shares the flat array; all else reads it through computed indices. Nothing is evaluated.
"""

from __future__ import annotations

import functools
import math
import operator
from typing import Any

from drjit_core import Node, cast, moved, primal

from .._access.keys import flatten
from .._access.slicing import contiguous_strides, normalise_axes, read_slice, strided
from .._arrays.broadcasting import concatenate, make, transposed
from .._arrays.tensor import TensorBase
from .._base.arguments import require_tensor
from .._base.array import ArrayBase
from .._base.errors import ArgumentError, SizeError, describe
from .._base.nodes import broadcast, elements_of, exact_size
from .._base.types import FLOAT32, SCALAR, Record, lookup
from .._base.types import reshape as reshape_type
from .._base.typing import ArrayT, T
from .._base.values import is_ndarray, plain_scalar
from .._promotion.promote import flat_of_scalars, wrap, wrap_like
from .._trees.pytree import is_pytree, transform

__all__ = ["expand_dims", "ravel", "reshape", "squeeze", "unravel"]


# --- flat forms ------------------------------------------------------------------------------------------------------


def _order(function: str, order: Any, automatic: str) -> str:
    if order not in ("A", "C", "F"):
        raise ArgumentError(f"{function}(): 'order' must equal 'A', 'C' or 'F', found {order!r}.")
    return automatic if order == "A" else order


def ravel(array: Any, order: str = "A") -> Any:
    """The elements of an array or tensor as a flat array.

    ``order='F'`` lets the first index vary fastest (the components of nested arrays alternate), ``'C'`` the last one;
    ``'A'`` means ``'F'`` for arrays and ``'C'`` for tensors. What is flat already is returned as it is, and so is
    anything that is no array. Nested lists and tuples of numbers become an ``ArrayXf`` of ``drjit.scalar``, in the
    orders of arrays. Raises a ``TypeError`` for another order, and for sequences that are ragged or have other entries;
    a ``RuntimeError`` if the components of an array differ in size. Evaluates nothing.

    >>> from drjit.llvm import Array2f
    >>> dr.ravel(Array2f([1, 2, 3], [10, 20, 30]))
    [1, 10, 2, 20, 3, 30]
    >>> dr.ravel(Array2f([1, 2, 3], [10, 20, 30]), order="C")
    [1, 2, 3, 10, 20, 30]
    """
    function = "drjit.ravel"
    if isinstance(array, list | tuple):
        return _ravel_sequence(function, array, _order(function, order, "F"))
    if not isinstance(array, ArrayBase):
        return array
    if isinstance(array, TensorBase):
        rank = len(array._s)
        if _order(function, order, "C") == "F":
            columns = transposed(array._n, array._s, tuple(range(rank))[::-1])[0]
            return wrap(array._plain, [columns] if array._plain is array._leaf else elements_of(columns))
        return array.array
    found = _order(function, order, "F")
    if not array._depth or not array._dynamic and array._record.shape == (-1,) and not array._special:
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


def _ravel_sequence(function: str, value: Any, order: str) -> Any:
    flat: list[Any] = []
    shape = flatten(function, value, flat)
    wrong = next((entry for entry in flat if plain_scalar(entry) is None), None)
    if wrong is not None:
        raise ArgumentError(f"{function}(): sequences must consist of numbers, found {describe(wrong)}.")
    cls: Any = lookup(Record(SCALAR, FLOAT32, "array", (-1,), False))
    return cls([flat[k] for k in _positions(shape)] if order == "F" else flat)


def unravel(dtype: type[T], array: ArrayBase, order: str = "A") -> T:
    """An array of type ``dtype`` from the elements of a flat array: the inverse of :func:`ravel`.

    ``order='F'``, which is what ``'A'`` means here, takes the components of one entry after the other, ``'C'`` all
    entries of the first component first. Only the last dimension of ``dtype`` may be dynamic. Elements, and
    whether they track derivatives, become those of ``dtype``. Raises a ``TypeError`` if the array is not flat, a
    ``RuntimeError`` if its size is no multiple of the number of
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
    if isinstance(array, dtype) and (not dtype._depth or not dtype._dynamic and dtype._record.shape == (-1,)):
        return array
    if dtype._count < 0:
        raise TypeError(f"{function}(): only the last dimension of 'dtype' may be dynamic (found {dtype._name}).")
    if not dtype._dynamic and isinstance(array, ArrayBase) and array._plain._record.shape == (-1,) and \
            array._leaf is dtype._leaf and not array._dynamic:
        scalars: T = _unravel_scalars(function, dtype, array._nodes(), _order(function, order, "F"))
        return scalars
    if not isinstance(array, ArrayBase) or array._depth or array._record.backend is not dtype._record.backend or \
            (array._kind == "b") != (dtype._kind == "b"):
        raise TypeError(f"{function}(): 'array' must be a flat array of the backend of {dtype._leaf._name}, found "
                        f"{describe(array)}.")
    found = _order(function, order, "F")
    leaf: Any = dtype._leaf
    result: Any = array if type(array) is leaf else leaf(array)
    array = result
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


def _unravel(function: str, dtype: Any, node: Node, static: tuple[int, ...], order: str) -> Any:
    count = dtype._count
    if count and exact_size(node) % count:
        raise SizeError(f"{function}(): the number of elements ({node.size}) is not divisible by the number of "
                        f"components of {dtype._name} ({count}).")
    width = node.size // count if count else 0
    if order == "C":
        return wrap(dtype, [read_slice(node, k * width, width, 1) for k in range(count)])
    return wrap(dtype, [read_slice(node, offset, width, count) for offset in _alternating(static)])


@functools.lru_cache(maxsize=256)
def _alternating(static: tuple[int, ...]) -> tuple[int, ...]:
    """Where the components of an entry are in memory, in their order, if the first index varies fastest."""
    strides = contiguous_strides(static[::-1])[::-1]
    offsets = [0]
    for size, stride in zip(static, strides, strict=True):
        offsets = [offset + k * stride for offset in offsets for k in range(size)]
    return tuple(offsets)


# --- other shapes ----------------------------------------------------------------------------------------------------


def reshape(dtype: Any = ..., value: Any = ..., shape: Any = ..., order: Any = "A", shrink: Any = False) -> Any:
    """An array with the elements of another one and a given shape.

    Called as ``reshape(value, shape, order='A', shrink=False)`` or ``reshape(dtype, value, shape, …)``, where ``dtype``
    is the type of the result, if that is another one. ``shape`` is an int or a sequence of ints, of which one may be
    -1: it follows from the others. ``order`` is that of :func:`ravel` and :func:`unravel`. ``shrink=True`` allows fewer
    elements than there are, and keeps the first ones. PyTrees are traversed; other objects are returned unchanged,
    except where there is a ``dtype``: numbers, sequences of numbers and NumPy arrays are converted, and are read in the
    order of nested arrays.

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
        given = [entry for entry in (value, shape) if entry is not ...]
        if value is ...:  # reshape(value, shape=…)
            value = dtype
        elif shape is ...:  # reshape(value, shape)
            value, shape = dtype, given[0]
        else:  # reshape(value, shape, order[, shrink])
            if shrink is not False or order != "A" and order.__class__ is not bool:
                raise TypeError(f"{function}(): expected (value, shape, order='A', shrink=False) or (dtype, value, "
                                "shape, order='A', shrink=False).")
            value, shape, order, shrink = dtype, given[0], given[1], False if order == "A" else order
        dtype = None
    for name, given in (("value", value), ("shape", shape)):
        if given is ...:
            raise TypeError(f"{function}(): missing argument '{name}'.")
    dtype = None if dtype is ... else dtype
    if isinstance(dtype, type) and issubclass(dtype, ArrayBase) and not isinstance(value, ArrayBase):
        value = _of_numbers(function, dtype, value, order)
    return _reshape(function, dtype, value, shape, order, shrink)


def _of_numbers(function: str, dtype: Any, value: Any, order: Any) -> Any:
    """A flat array of the numbers that are to get a type and a shape; other values are left alone."""
    if not is_ndarray(value) and not _numbers(value):
        return value
    tensor: Any = lookup(dtype._record._replace(kind="tensor", shape=()))
    return ravel(tensor([value] if plain_scalar(value) is not None else value), _order(function, order, "F"))


def _numbers(value: Any) -> bool:
    """Whether a value is a number, or a sequence of numbers or of such sequences that is not empty."""
    if isinstance(value, (list, tuple)):
        return bool(value) and all(map(_numbers, value))
    return plain_scalar(value) is not None


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
            inner = dtype if isinstance(dtype, type) and issubclass(dtype, ArrayBase) else None
            return transform(function, lambda leaf: _reshape(function, inner, leaf, shape, order, shrink), value)
        return value
    cls = type(value) if dtype is None else dtype
    if not isinstance(cls, type) or not issubclass(cls, ArrayBase) or not hasattr(cls, "_record"):
        raise TypeError(f"{function}(): 'dtype' must be an array type, found {describe(dtype)}.")
    if value._record.diff and not cls._record.diff:
        value = wrap_like(value, type(value), list(map(primal, value._nodes())))
    if value._where != cls._where and value._dynamic:
        value = wrap_like(value, type(value), moved(value._nodes(), cls._where, function))
    tensors = isinstance(value, TensorBase), issubclass(cls, TensorBase)
    if all(tensors):
        if order == "F":  # through the transposes of both
            flat = transposed(value._n, value._s, tuple(range(len(value._s)))[::-1])[0]
            sizes = _target_shape(function, shape, exact_size(flat), False)
            node, _ = transposed(flat, sizes[::-1], tuple(range(len(sizes)))[::-1])
            return make(cls, cast(node, cls._type), sizes)
        _order(function, order, "C")
        sizes = _target_shape(function, shape, exact_size(value._n), shrink)
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
        return make(cls, node, _target_shape(function, shape, exact_size(node), shrink))
    sizes = _target_shape(function, shape, exact_size(node), shrink)
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


# --- axes of size 1 --------------------------------------------------------------------------------------------------


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
    tensor = require_tensor(function, value)
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
    tensor = require_tensor(function, value)
    shape = tensor._s
    axes = tuple(k for k, size in enumerate(shape) if size == 1) if axis is None else \
        normalise_axes(function, axis, len(shape))
    for k in axes:
        if shape[k] != 1:
            raise SizeError(f"{function}(): axis {k} has size {shape[k]}, not 1 (the shape is {shape}).")
    return make(type(tensor), tensor._n, tuple(size for k, size in enumerate(shape) if k not in axes))
