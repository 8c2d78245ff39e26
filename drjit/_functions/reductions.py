"""Reductions along the dimensions of an array.

Static dimensions are reduced by elementwise operations. Reducing the trailing, dynamic dimension is one node of the
graph: it becomes part of the kernel that computes its input, and nothing is evaluated here. The result keeps that
dimension with size 1.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import drjit_core as core
from drjit_core import SHAPE, Node, ReduceOp, cast, literal, ops

from .._arrays.broadcasting import make
from .._base.array import ArrayBase
from .._base.errors import CORE_ERRORS, ArgumentError, describe, translate
from .._base.nodes import broadcast
from .._base.types import FLOAT16, FLOAT32, UINT32, reshape, retype
from .._base.values import is_ndarray, plain_scalar
from .._promotion.plans import elementwise
from .._promotion.promote import wrap, wrap_like
from .._rules.combine import COMBINE
from .tensor_reductions import reduce_axes, result_shape

__all__ = ["COMBINE", "all", "any", "count", "max", "mean", "min", "none", "prod", "reduce", "sum"]

_min, _max, _any, _all = min, max, any, all


#: Kinds of elements that each operation is defined for.
_KINDS = {ReduceOp.Add: "iuf", ReduceOp.Mul: "iuf", ReduceOp.Min: "iuf", ReduceOp.Max: "iuf", ReduceOp.And: "biu",
          ReduceOp.Or: "biu"}

#: The operations on Python numbers, and what an empty sequence reduces to.
_SCALAR: dict[ReduceOp, tuple[Callable[[Any, Any], Any], Any]] = {
    ReduceOp.Add: (lambda a, b: a + b, 0), ReduceOp.Mul: (lambda a, b: a * b, 1),
    ReduceOp.Min: (lambda a, b: _extremum(a, b, ReduceOp.Min), float("inf")),
    ReduceOp.Max: (lambda a, b: _extremum(a, b, ReduceOp.Max), float("-inf")),
    ReduceOp.And: (lambda a, b: a & b, True), ReduceOp.Or: (lambda a, b: a | b, False),
}


def _extremum(a: Any, b: Any, op: ReduceOp) -> Any:
    """Minimum or maximum of two entries of a Python sequence."""
    if not isinstance(a, ArrayBase) and not isinstance(b, ArrayBase):
        return _min(a, b) if op is ReduceOp.Min else _max(a, b)
    return elementwise("drjit.min" if op is ReduceOp.Min else "drjit.max", COMBINE[op], (a, b))


def _axes(axis: Any, ndim: int, where: str) -> tuple[int, ...]:
    """The axes to reduce, sorted; ``axis`` is an int, a tuple, ``...`` (the outermost one) or None (all)."""
    if axis is None:
        return tuple(range(ndim))
    if axis is ...:
        return (0,)
    found = axis if isinstance(axis, tuple) else (axis,)
    if not _all(value.__class__ is int for value in found):
        raise ArgumentError(f"{where}: 'axis' must be an int, a tuple of ints, None or ..., found {axis!r}.")
    if not ndim and found == (0,):  # of a tensor without dimensions, which is its only element
        return ()
    for value in found:
        if not -ndim <= value < ndim:
            raise ArgumentError(f"{where}: out-of-bounds axis (got {value}, ndim={ndim}).")
    return tuple(sorted({value % ndim for value in found}))


def _check_mode(mode: str | None, where: str) -> None:
    if mode not in (None, "symbolic", "evaluated"):
        raise ArgumentError(f"{where}: 'mode' must be \"symbolic\", \"evaluated\", or None, found {mode!r}.")


def _reduce_array(op: ReduceOp, array: ArrayBase, axis: Any, mode: str | None, keepdims: bool, function: str) -> Any:
    where = f"{function}(<{array._name}>)"
    axes = _axes(None if axis is ... and array._depth < 0 else axis, array.ndim, where)
    _check_mode(mode, where)
    if array._kind not in _KINDS[op]:
        raise ArgumentError(f"{where}: array type is not compatible with the requested reduction.")
    if array._depth < 0:
        return _reduce_tensor(op, array, axes, mode, keepdims, where)
    if not axes:
        return type(array)(array)
    trailing = array._dynamic and axes[-1] == array._depth
    if keepdims and axes != (array._depth,):
        raise ArgumentError(f"{where}: 'keepdims=True' is only supported for tensor types or reductions of a trailing "
                            "dynamic axis.")
    shape, nodes = array._static_shape(), array._nodes()
    if mode == "evaluated" and trailing:
        core.evaluate(nodes)
    combine = COMBINE[op]
    if trailing and len(nodes) > 1:  # components of size 1 stand for the full width
        width = array._width(function)
    try:
        kept = [k for k in range(array._depth) if k not in axes]
        groups = _groups(nodes, shape, kept)
        results = []
        for group in groups:
            if not group:
                results.append(literal(array._type, core.reduction_identity(op.value, array._type)))
                continue
            node = functools.reduce(combine, group)
            if trailing:
                node = core.reduce(node if len(nodes) == 1 else broadcast(node, width), op.value)
            results.append(node)
    except CORE_ERRORS as error:
        raise translate(error, where) from error
    return wrap(reshape(type(array), tuple(array._record.shape[k] for k in kept)), results)


def _reduce_tensor(op: ReduceOp, array: Any, axes: tuple[int, ...], mode: str | None, keepdims: bool,
                   where: str) -> Any:
    node = array._n
    if mode == "evaluated":
        core.evaluate([node])
    try:
        node = reduce_axes(op, COMBINE[op], node, array._s, axes, mode == "symbolic")
    except CORE_ERRORS as error:
        raise translate(error, where) from error
    return make(type(array), node, result_shape(array._s, axes, keepdims))


def _groups(nodes: Sequence[Node], shape: tuple[int, ...], kept: list[int]) -> list[list[Node]]:
    """Components that are reduced to one, in row-major order of the dimensions that are kept."""
    count = 1
    for axis in kept:
        count *= shape[axis]
    groups: list[list[Node]] = [[] for _ in range(count)]
    for position, node in enumerate(nodes):
        indices, rest = [0] * len(shape), position
        for axis in range(len(shape) - 1, -1, -1):
            rest, indices[axis] = divmod(rest, shape[axis])
        target = 0
        for axis in kept:
            target = target * shape[axis] + indices[axis]
        groups[target].append(node)
    return groups


def _reduce(op: ReduceOp, value: Any, axis: Any, mode: str | None, keepdims: bool, function: str) -> Any:
    if isinstance(value, ArrayBase):
        return _reduce_array(op, value, axis, mode, keepdims, function)
    where = f"{function}(<{describe(value)}>)"
    _check_mode(mode, where)
    number = plain_scalar(value)
    boolean = op in (ReduceOp.And, ReduceOp.Or)
    if number is not None:
        if boolean and number.__class__ is float:
            raise ArgumentError(f"{where}: a float is not compatible with the requested reduction.")
        return number
    if is_ndarray(value):
        value = value.tolist()
    if isinstance(value, (str, bytes, dict)) or not isinstance(value, Iterable):
        raise ArgumentError(f"{where}: 'value' must be a Dr.Jit array, a sequence of such or of numbers, or a number.")
    if axis not in (..., 0, None, (0,)):
        raise ArgumentError(f"{where}: sequences are reduced along axis 0 only, found axis={axis!r}.")
    entries = list(value)
    if axis is None:
        entries = [_reduce(op, entry, None, mode, keepdims, function) for entry in entries]
    for entry in entries:
        if not isinstance(entry, ArrayBase) and plain_scalar(entry) is None:
            raise ArgumentError(f"{where}: cannot reduce a sequence with an entry of type '{describe(entry)}'.")
    combine, identity = _SCALAR[op]
    try:
        return functools.reduce(combine, entries) if entries else identity
    except (TypeError, RuntimeError) as error:
        raise ArgumentError(f"{where}: failed (see above)! {error}") from error


def reduce(op: ReduceOp, value: Any, axis: Any = ..., mode: str | None = None, keepdims: bool = False) -> Any:
    """Combine the elements of an array or sequence along one or several axes.

    ``op`` is any :class:`ReduceOp` but ``Identity``. ``axis`` is an int, a tuple of ints, ``None`` (all axes) or
    ``...``, the default (the outermost axis). The trailing dimension of an array is never removed: it is
    left with size 1, and its reduction becomes part of the kernel that computes the input. ``mode='evaluated'``
    evaluates the input first. Minimum and maximum ignore NaN. Evaluates nothing by default.
    """
    if not isinstance(op, ReduceOp) or op is ReduceOp.Identity:
        raise ArgumentError(f"drjit.reduce(): unsupported reduction {op!r}: 'op' must be a drjit.ReduceOp other than "
                            "Identity.")
    return _reduce(op, value, axis, mode, keepdims, "drjit.reduce")


def sum(value: Any, axis: Any = ..., mode: str | None = None, keepdims: bool = False) -> Any:
    """Sum along one or several axes; 0 if there is nothing to add. See :func:`reduce`."""
    return _reduce(ReduceOp.Add, value, axis, mode, keepdims, "drjit.sum")


def prod(value: Any, axis: Any = ..., mode: str | None = None, keepdims: bool = False) -> Any:
    """Product along one or several axes; 1 if there is nothing to multiply. See :func:`reduce`."""
    return _reduce(ReduceOp.Mul, value, axis, mode, keepdims, "drjit.prod")


def min(value: Any, axis: Any = ..., mode: str | None = None, keepdims: bool = False) -> Any:
    """Minimum along one or several axes, NaN ignored; the largest value of the type if empty. See :func:`reduce`."""
    return _reduce(ReduceOp.Min, value, axis, mode, keepdims, "drjit.min")


def max(value: Any, axis: Any = ..., mode: str | None = None, keepdims: bool = False) -> Any:
    """Maximum along one or several axes, NaN ignored; the smallest value of the type if empty. See :func:`reduce`."""
    return _reduce(ReduceOp.Max, value, axis, mode, keepdims, "drjit.max")


def mean(value: Any, axis: Any = ..., mode: str | None = None, keepdims: bool = False) -> Any:
    """Mean along one or several axes of floating-point arrays or sequences; 0 if empty.

    Half precision is summed in single precision. See :func:`reduce` for the arguments.
    """
    function = "drjit.mean"
    if not isinstance(value, ArrayBase):
        if plain_scalar(value) is not None:
            return float(value)
        entries = list(value) if isinstance(value, Iterable) else value
        total = _reduce(ReduceOp.Add, entries, axis, mode, keepdims, function)
        return total / len(entries) if len(entries) else 0.0
    where = f"{function}(<{value._name}>)"
    if value._kind != "f":
        raise ArgumentError(f"{where}: the mean is defined for floating-point arrays; convert the input first.")
    tensor = value._depth < 0
    axes = _axes(None if axis is ... and tensor else axis, value.ndim, where)
    shape = value.shape if tensor else (*value._static_shape(), 0)
    number = 1
    for k in axes:
        number *= value._width(where) if value._dynamic and k == value._depth else shape[k]
    half = value._type == FLOAT16
    source = retype(type(value), FLOAT32)(value) if half else value
    total = _reduce_array(ReduceOp.Add, source, axis, mode, keepdims, function)
    if not number:
        return total if not half or not isinstance(total, ArrayBase) else retype(type(total), FLOAT16)(total)
    # The number of elements stays a parameter of the kernel: another size is no other program.
    cls, sums = (type(total), total._nodes()) if isinstance(total, ArrayBase) else \
        (source._leaf, [literal(source._type, total)])
    nodes = [ops.div(node, literal(node.type, number, 1, SHAPE, tag=3)) if node.size else node for node in sums]
    return wrap_like(total, retype(cls, value._type), [cast(node, value._type) for node in nodes])


# --- masks -----------------------------------------------------------------------------------------------------------


def _require_masks(value: Any, function: str) -> None:
    kind = value._kind if isinstance(value, ArrayBase) else "b"
    entries = [value] if not isinstance(value, (list, tuple)) else value
    if kind != "b" or _any(plain_scalar(e).__class__ in (int, float) for e in entries if not isinstance(e, ArrayBase)):
        raise ArgumentError(f"{function}(<{describe(value)}>): array type is not compatible with the requested "
                            "reduction: 'value' must be a mask, a bool, or a sequence of such.")


def all(value: Any, axis: Any = ..., keepdims: bool = False) -> Any:
    """Whether all elements of a mask are set along one or several axes; true if empty. See :func:`reduce`."""
    _require_masks(value, "drjit.all")
    return _reduce(ReduceOp.And, value, axis, None, keepdims, "drjit.all")


def any(value: Any, axis: Any = ..., keepdims: bool = False) -> Any:
    """Whether any element of a mask is set along one or several axes; false if empty. See :func:`reduce`."""
    _require_masks(value, "drjit.any")
    return _reduce(ReduceOp.Or, value, axis, None, keepdims, "drjit.any")


def none(value: Any, axis: Any = ..., keepdims: bool = False) -> Any:
    """Whether no element of a mask is set along one or several axes; true if empty. See :func:`reduce`."""
    _require_masks(value, "drjit.none")
    result: Any = _reduce(ReduceOp.Or, value, axis, None, keepdims, "drjit.none")
    if isinstance(result, ArrayBase):
        inverted: Any = result
        return ~inverted
    return not result


def count(value: Any, axis: Any = ..., keepdims: bool = False) -> Any:
    """Number of set elements of a mask along one or several axes, as unsigned 32-bit integers. See :func:`reduce`."""
    _require_masks(value, "drjit.count")
    if isinstance(value, ArrayBase):
        cls = retype(type(value), UINT32)
        nodes = [ops.select(node, literal(UINT32, 1), literal(UINT32, 0)) if node.size else cast(node, UINT32)
                 for node in value._nodes()]
        return _reduce(ReduceOp.Add, wrap_like(value, cls, nodes), axis, None, keepdims, "drjit.count")
    if isinstance(value, bool):
        return int(value)
    entries = [count(entry, (), False) if isinstance(entry, ArrayBase) else int(entry) for entry in value]
    return _reduce(ReduceOp.Add, entries, axis, None, keepdims, "drjit.count")


