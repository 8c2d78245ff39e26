"""Arrays and tensors joined along an axis, an existing one or a new one.

The parts are written one after the other, with the joined axis first. Nothing is evaluated.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._access.extents import alike
from .._access.slicing import normalise_axis
from .._arrays.broadcasting import concatenate, make, transposed
from .._base.array import ArrayBase
from .._base.errors import ArgumentError, ShapeError, SizeError, describe
from .._base.types import lookup
from .._base.types import reshape as reshape_type
from .._base.typing import ArrayT
from .._promotion.promote import wrap
from .shapes import expand_dims, ravel

__all__ = ["column_stack", "concat", "dstack", "hstack", "row_stack", "stack", "vstack"]


def _sequence(function: str, values: Sequence[ArrayT], name: str) -> list[ArrayT]:
    found = list(values) if isinstance(values, (list, tuple)) else []
    if not found or not all(isinstance(value, ArrayBase) for value in found):
        others = [f"{describe(value)} at position {k}" for k, value in enumerate(found)
                  if not isinstance(value, ArrayBase)]
        what = others[0] if others else f"an empty {describe(values)}" if isinstance(values, (list, tuple)) else \
            describe(values)
        raise ArgumentError(f"{function}(): '{name}' must be a non-empty sequence of arrays, found {what}.")
    if len({type(value) for value in found}) > 1:
        raise ArgumentError(f"{function}(): the arrays must have one type, found "
                            f"{' and '.join(dict.fromkeys(value._name for value in found))}.")
    return found


def concat(arr: Sequence[ArrayT], /, axis: int | None = 0) -> ArrayT:
    """Arrays or tensors of one type joined along an existing axis; ``axis=None`` joins them raveled, in a flat array.

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
        joined: Any
        if cls._depth < 0:
            node = concatenate([value._nodes()[0] for value in values])
            joined = make(cls, node, (node.size,)).array
        else:
            joined = wrap(cls._leaf, [concatenate([ravel(value)._nodes()[0] for value in values])])
        return joined  # type: ignore[no-any-return]
    if cls._depth >= 0:
        if normalise_axis(function, axis, cls._depth + 1) != cls._depth:
            raise ArgumentError(f"{function}(): arrays of type {cls._name} are joined along their last axis only; "
                                "convert them to tensors first.")
        if len({value._static_shape() for value in values}) > 1:
            raise SizeError(f"{function}(): the arrays have different numbers of components.")
        rows = [alike(value, function) for value in values]
        return wrap(cls, [concatenate(parts) for parts in zip(*rows, strict=True)])
    rank = len(values[0]._s)
    found = normalise_axis(function, axis, rank)
    shape = values[0]._s
    if any(len(v._s) != rank or v._s[:found] != shape[:found] or v._s[found + 1:] != shape[found + 1:] for v in values):
        raise SizeError(f"{function}(): the shapes must agree in all axes but {found}, found "
                        f"{' and '.join(dict.fromkeys(str(v._s) for v in values))}.")
    total = sum(value._s[found] for value in values)
    if not found:
        return make(cls, concatenate([value._n for value in values]), (total, *shape[1:]))
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


# --- stacks ----------------------------------------------------------------------------------------------------------


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
        raise ShapeError(f"{function}(): the tensors must have one shape, found "
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
