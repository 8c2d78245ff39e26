"""Variance and standard deviation, by the two-pass algorithm."""

from __future__ import annotations

import functools
import math
from typing import Any

import drjit_core as core
from drjit_core import COMPUTES_IN, SHAPE, Node, ReduceOp, cast, literal, ops

from .._base.array import ArrayBase
from .._base.errors import CORE_ERRORS, ArgumentError, translate
from .._base.nodes import broadcast
from .._base.types import reshape, retype
from .._base.values import plain_integer, plain_scalar
from .._promotion.promote import wrap
from .elementwise import sqrt
from .reductions import call_of, check_keepdims, check_mode, entries_of, extent_of, groups_of, mean, parse_axes, sum

__all__ = ["std", "var"]


def _of_sequence(value: Any, axis: Any, mode: str | None, keepdims: bool, ddof: int, function: str) -> Any:
    if plain_scalar(value) is not None:
        value = [value]
    entries = entries_of(function, value, axis)
    if axis is None and any(isinstance(entry, ArrayBase) for entry in entries):
        raise ArgumentError(f"{call_of(function, value)}: the variance over all axes of a sequence of arrays is not "
                            "supported; join them first (see drjit.concat()).")
    center, count = mean(entries, 0, mode, keepdims), len(entries) - ddof
    total = sum([(entry - center) * (entry - center) for entry in entries], 0, mode, keepdims)
    return total / count if count > 0 else total * math.inf  # which is NaN where the deviations are zero


def _divide(node: Node, count: int) -> Node:
    # the number of elements stays a parameter of the kernel: another size is no other program
    if count.__class__ is not int:
        return ops.div(node, core.bound(node.type, count))  # type: ignore[no-any-return]
    return ops.div(node, literal(node.type, max(count, 0), 1, SHAPE, tag=3))  # type: ignore[no-any-return]


def _variance(group: list[Node], trailing: bool, count: int, ddof: int) -> Node:
    def total(nodes: list[Node]) -> Node:
        node = functools.reduce(ops.add, nodes)
        return core.reduce(node, ReduceOp.Add.value) if trailing else node

    center = _divide(total(group), count)
    deviations = [ops.sub(node, center) for node in group]
    return _divide(total([ops.mul(node, node) for node in deviations]), count - ddof)


def _of_tensor(value: Any, axes: tuple[int, ...], mode: str | None, keepdims: bool, ddof: int, function: str) -> Any:
    single = retype(type(value), COMPUTES_IN[value._type])(value)
    deviations = single - mean(single, axes, mode, keepdims=True)
    count = extent_of(function, value, axes)
    total = sum(deviations * deviations, axes, mode, keepdims)
    total._n = _divide(total._n, count - ddof) if total._n.size else total._n
    return type(value)(total)


def _of_array(value: ArrayBase, axis: Any, mode: str | None, keepdims: bool, ddof: int, function: str) -> Any:
    if value._kind != "f":
        raise ArgumentError(f"{call_of(function, value)}: the variance is defined for floating-point arrays; convert "
                            "the input first.")
    axes, shape = parse_axes(function, value, axis), value._static_shape()
    check_mode(function, value, mode)
    if value._depth < 0:
        return _of_tensor(value, axes, mode, keepdims, ddof, function)
    trailing = value._dynamic and value._depth in axes
    check_keepdims(function, value, axes, keepdims)
    nodes = value._nodes()
    if mode == "evaluated" and trailing:
        core.evaluate(nodes)
    count = core.size_of(nodes[0]) if trailing and len(nodes) == 1 else extent_of(function, value, axes)
    kept = [k for k in range(value._depth) if k not in axes]
    try:
        nodes = [cast(node, COMPUTES_IN[node.type]) for node in nodes]
        if trailing and len(nodes) > 1:
            width = value._width(function)
            nodes = [broadcast(node, width) for node in nodes]
        results = [_variance(group, trailing, count, ddof) if group else literal(value._type, math.nan)
                   for group in groups_of(nodes, shape, kept)]
        results = [cast(node, value._type) for node in results]
    except CORE_ERRORS as error:
        raise translate(error, call_of(function, value)) from None
    return wrap(reshape(type(value), tuple(value._record.shape[k] for k in kept)), results)


def _var(value: Any, axis: Any, mode: str | None, keepdims: bool, ddof: int, function: str) -> Any:
    number = plain_integer(ddof)
    if number is None or number < 0:
        raise ArgumentError(f"{function}(): 'ddof' must be an int that is not negative, found {ddof!r}.")
    if isinstance(value, ArrayBase):
        return _of_array(value, axis, mode, keepdims, number, function)
    return _of_sequence(value, axis, mode, keepdims, number, function)


def var(value: Any, axis: Any = ..., mode: str | None = None, keepdims: bool = False, ddof: int = 0) -> Any:
    """Variance along one or several axes: the mean of the squares of the deviations from the mean.

    Elements are floating-point numbers, else a ``TypeError`` is raised; half precision is computed in single precision.
    The deviations are computed in a second pass; the sum of their squares is divided by the number of elements minus
    ``ddof`` (1 for the unbiased estimate from a sample), or by zero if that is negative: the variance of nothing is
    NaN. See :func:`reduce` for the other arguments and shapes. Evaluates nothing by default.

    >>> from drjit.llvm import Float
    >>> dr.var(Float(1, 2, 3, 4))
    [1.25]
    >>> dr.var(Float(1, 2, 3, 4), ddof=1)
    [1.66667]
    """
    return _var(value, axis, mode, keepdims, ddof, "drjit.var")


def std(value: Any, axis: Any = ..., mode: str | None = None, keepdims: bool = False, ddof: int = 0) -> Any:
    """Standard deviation along one or several axes: the square root of the variance, see :func:`var`.

    Evaluates nothing by default.

    >>> from drjit.llvm import TensorXf
    >>> dr.std(TensorXf([1, 3, 10, 20], shape=(2, 2)), axis=1)
    [1, 5]
    """
    return sqrt(_var(value, axis, mode, keepdims, ddof, "drjit.std"))
