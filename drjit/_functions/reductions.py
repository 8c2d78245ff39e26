"""Reductions along the dimensions of an array.

Static dimensions are reduced by elementwise operations. Reducing the trailing, dynamic dimension is one node of the
graph: it becomes part of the kernel that computes its input, and nothing is evaluated here. The result keeps that
dimension with size 1.
"""

from __future__ import annotations

import builtins
import functools
import math
import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import drjit_core as core
from drjit_core import COMPUTES_IN, REDUCTIONS, SHAPE, Node, ReduceOp, cast, literal, ops

from .._access.slicing import normalise_axes
from .._arrays.broadcasting import make
from .._base.array import ArrayBase
from .._base.errors import CORE_ERRORS, ArgumentError, CallSite, describe, translate
from .._base.methods import FlatSlots, NestedSlots
from .._base.nodes import broadcast, index_type
from .._base.types import UINT32, reshape, retype
from .._base.values import is_ndarray, plain_integer, plain_scalar
from .._promotion.componentwise import flat_array
from .._promotion.plans import elementwise
from .._promotion.promote import wrap, wrap_like
from .._rules.combine import COMBINE
from .._trees.classes import sole_array
from .tensor_reductions import reduce_axes, result_shape

__all__ = ["all", "any", "call_of", "check_keepdims", "check_mode", "combine_entries", "count", "entries_of",
           "extent_of", "groups_of", "max", "mean", "min", "none", "parse_axes", "prod", "reduce", "sum", "unless_nan"]

#: The operations that are no operator of Python, which arrays have a method for.
_FUNCTIONS = {ReduceOp.Min: "drjit.min", ReduceOp.Max: "drjit.max"}


def combine_entries(op: ReduceOp, a: Any, b: Any) -> Any:
    """Combine two entries of a Python sequence, arrays or numbers."""
    if op in _FUNCTIONS and (isinstance(a, ArrayBase) or isinstance(b, ArrayBase)):
        return elementwise(_FUNCTIONS[op], COMBINE[op], (a, b))
    return REDUCTIONS[op.value].number(a, b)


def unless_nan(op: ReduceOp, value: Any) -> Any:
    """What an array or number is as the result of a reduction: that of nothing where it is NaN, if NaN is ignored."""
    floats = value._kind == "f" if isinstance(value, ArrayBase) else value != value
    return combine_entries(op, value, REDUCTIONS[op.value].nothing) if op in _FUNCTIONS and floats else value


def call_of(function: str, value: Any) -> str:
    """How messages show the call of a reduction."""
    return f"{function}(<{describe(value)}>)"


def parse_axes(function: str, array: ArrayBase, axis: Any) -> tuple[int, ...]:
    """The axes to reduce, sorted; ``axis`` is an int, a tuple, ``...`` (the outermost one) or None (all)."""
    ndim = array.ndim
    if axis is None or axis is ... and array._depth < 0:
        return tuple(range(ndim))
    if axis is ...:
        return (0,)
    given = axis if isinstance(axis, tuple) else (axis,)
    if None in map(plain_integer, given):
        raise ArgumentError(f"{call_of(function, array)}: 'axis' must be an int, a tuple of ints, None or ..., found "
                            f"{axis!r}.")
    if not ndim and given == (0,):  # of a tensor without dimensions, which is its only element
        return ()
    return tuple(sorted(normalise_axes(CallSite(function, type(array)), given, ndim)))


def check_mode(function: str, value: Any, mode: str | None) -> None:
    """Raise unless a mode is one that reductions have."""
    if mode not in (None, "symbolic", "evaluated"):
        raise ArgumentError(f"{call_of(function, value)}: 'mode' must be \"symbolic\", \"evaluated\", or None, found "
                            f"{mode!r}.")


def _flag(function: str, value: Any, keepdims: Any) -> bool:
    number = plain_scalar(keepdims)
    if number is None or number not in (0, 1):
        raise ArgumentError(f"{call_of(function, value)}: 'keepdims' must be a bool, found {keepdims!r}.")
    return bool(number)


def check_keepdims(function: str, array: ArrayBase, axes: tuple[int, ...], keepdims: bool) -> None:
    """Raise where an array of this kind cannot keep the dimensions that are reduced."""
    if keepdims and axes != (array._depth,):
        raise ArgumentError(f"{call_of(function, array)}: 'keepdims=True' is only supported for tensor types or "
                            "reductions of a trailing dynamic axis.")


def _accumulator(op: ReduceOp, scalar: int) -> int:
    """The scalar type that a reduction is computed in: sums and products of half precision in single precision."""
    return COMPUTES_IN[scalar] if REDUCTIONS[op.value].rounds else scalar


def _reduce_array(op: ReduceOp, array: ArrayBase, axis: Any, mode: str | None, keepdims: bool, function: str,
                  finish: Callable[[Node], Node] | None = None) -> Any:
    """The reduction of an array; ``finish`` is applied to the results before they are rounded to the array's type."""
    axes = parse_axes(function, array, axis)
    check_mode(function, array, mode)
    if not isinstance(keepdims, bool):
        keepdims = _flag(function, array, keepdims)
    if array._kind not in REDUCTIONS[op.value].accepts:
        raise ArgumentError(f"{call_of(function, array)}: array type is not compatible with the requested reduction.")
    scalar = _accumulator(op, array._type)
    try:
        if array._depth < 0:
            return _reduce_tensor(op, array, axes, mode, keepdims, scalar, finish)
        if axes or finish is not None:
            check_keepdims(function, array, axes, keepdims and bool(axes))
            return _reduce_components(op, array, axes, mode, scalar, function, finish)
    except CORE_ERRORS as error:
        raise translate(error, call_of(function, array)) from None
    return type(array)(array)


def _reduce_components(op: ReduceOp, array: ArrayBase, axes: tuple[int, ...], mode: str | None, scalar: int,
                       function: str, finish: Callable[[Node], Node] | None) -> Any:
    trailing = array._dynamic and array._depth in axes
    shape, nodes, type_ = array._static_shape(), array._nodes(), array._type
    if mode == "evaluated" and trailing:
        core.evaluate(nodes)
    if scalar != type_:
        nodes = [cast(node, scalar) for node in nodes]
    combine = COMBINE[op]
    width = array._width(function) if trailing and len(nodes) > 1 else 0  # components of size 1 stand for all of it
    kept = [k for k in range(array._depth) if k not in axes]
    results = []
    for group in groups_of(nodes, shape, kept):
        if not group:
            node = literal(scalar, REDUCTIONS[op.value].empty(scalar))
        else:
            node = functools.reduce(combine, group)
            node = core.reduce(node if len(nodes) == 1 else broadcast(node, width), op.value) if trailing else \
                core.unless_nan(node, op.value)
        if finish is not None:
            node = finish(node)
        results.append(node if scalar == type_ else cast(node, type_))
    return wrap(reshape(type(array), tuple(array._record.shape[k] for k in kept)), results)


def _reduce_tensor(op: ReduceOp, array: Any, axes: tuple[int, ...], mode: str | None, keepdims: bool, scalar: int,
                   finish: Callable[[Node], Node] | None) -> Any:
    node = array._n
    if mode == "evaluated":
        core.evaluate([node])
    node = reduce_axes(op, COMBINE[op], cast(node, scalar), array._s, axes, mode == "symbolic")
    if finish is not None:
        node = finish(node)
    return make(type(array), cast(node, array._type), result_shape(array._s, axes, keepdims))


class _Plans(dict[type, Callable[[Any], Any]]):
    """What a reduction without options does, by the class of its argument.

    ``general`` is its other form; ``kinds`` are those of the elements that it takes, if not all that the operation
    does. ``finish`` is applied to the result, and the number of elements that were reduced to one.
    """

    def __init__(self, op: ReduceOp, function: str, general: Callable[[Any], Any] | None = None, kinds: str = "",
                 finish: Callable[[Node, int], Node] | None = None) -> None:
        super().__init__()
        self._op, self._function, self._finish = op, function, finish
        self._kinds = kinds or REDUCTIONS[op.value].accepts
        self._general = general or functools.partial(reduce_for, op, axis=..., mode=None, keepdims=False,
                                                     function=function)

    def __missing__(self, cls: type) -> Callable[[Any], Any]:
        plan = self._plan(cls)
        if "_record" in vars(cls):  # one of ours: types that programs derive come and go
            self[cls] = plan
        return plan

    def _plan(self, cls: Any) -> Callable[[Any], Any]:
        function, finish, number, combine = self._function, self._finish, self._op.value, COMBINE[self._op]
        if not issubclass(cls, ArrayBase) or not cls._dynamic or cls._kind not in self._kinds or \
                COMPUTES_IN[cls._type] != cls._type:
            return self._general
        tensor = cls._depth < 0
        if tensor or issubclass(cls, FlatSlots):
            def elements(value: Any) -> Any:
                try:
                    given = value._n
                    node = core.reduce(given, number)
                    if finish is not None:
                        node = finish(node, core.size_of(given))
                    return make(cls, node, ()) if tensor else flat_array(cls, node)
                except CORE_ERRORS as error:
                    raise translate(error, call_of(function, value)) from None
            return elements
        if issubclass(cls, NestedSlots) and cls._depth == 1 and cls._count > 0:
            leaf, count = cls._leaf, cls._count

            def components(value: Any) -> Any:
                try:
                    node = core.unless_nan(functools.reduce(combine, value._c), number)
                    return flat_array(leaf, node if finish is None else finish(node, count))
                except CORE_ERRORS as error:
                    raise translate(error, call_of(function, value)) from None
            return components
        return self._general


def groups_of(nodes: Sequence[Node], shape: tuple[int, ...], kept: list[int]) -> list[list[Node]]:
    """Components that are reduced to one, in row-major order of the dimensions that are kept."""
    groups: list[list[Node]] = [[] for _ in range(math.prod(shape[axis] for axis in kept))]
    for position, node in enumerate(nodes):
        indices, rest = [0] * len(shape), position
        for axis in range(len(shape) - 1, -1, -1):
            rest, indices[axis] = divmod(rest, shape[axis])
        target = 0
        for axis in kept:
            target = target * shape[axis] + indices[axis]
        groups[target].append(node)
    return groups


def reduce_for(op: ReduceOp, value: Any, axis: Any, mode: str | None, keepdims: bool, function: str) -> Any:
    """The reduction of an array, sequence or number; messages name the function that the user called."""
    if isinstance(value, ArrayBase):
        return _reduce_array(op, value, axis, mode, keepdims, function)
    check_mode(function, value, mode)
    number = plain_scalar(value)
    if number is not None:
        if number.__class__ is float and "f" not in REDUCTIONS[op.value].accepts:
            raise ArgumentError(f"{call_of(function, value)}: a float is not compatible with the requested reduction.")
        return unless_nan(op, number)
    if _is_foreign(value):
        return _reduce_foreign(op, value, axis, keepdims, function)
    return _reduce_sequence(op, value, axis, mode, keepdims, function)


def _is_foreign(value: Any) -> bool:
    """Whether a value is an array of another package than NumPy, and none of the array API."""
    return hasattr(value, "__dlpack__") and not is_ndarray(value) and sole_array(value) is value


def _reduce_foreign(op: ReduceOp, value: Any, axis: Any, keepdims: bool, function: str) -> Any:
    """The reduction of an array of another package, by its own operators: that of a sequence of what it consists of."""
    if keepdims or axis not in (..., None, 0, (0,)):
        raise ArgumentError(f"{call_of(function, value)}: an array of another package is reduced as a sequence, along "
                            f"axis 0 or all of its axes (None), found axis={axis!r}.")
    if axis is None or not value.shape:
        value = value.reshape((-1,))
    return functools.reduce(_OF_OTHERS[op], value) if value.shape[0] else REDUCTIONS[op.value].nothing


#: What combines entries of arrays of other packages.
_OF_OTHERS: dict[ReduceOp, Callable[[Any, Any], Any]] = {
    ReduceOp.Add: operator.add, ReduceOp.Mul: operator.mul, ReduceOp.And: operator.and_, ReduceOp.Or: operator.or_,
    ReduceOp.Min: builtins.min, ReduceOp.Max: builtins.max}


def entries_of(function: str, value: Any, axis: Any) -> list[Any]:
    """The entries of a sequence that is to be reduced; with ``axis=None``, those of the sequences within as well."""
    if sole_array(value) is not value or _is_foreign(value):
        raise ArgumentError(f"{call_of(function, value)}: arrays of {describe(value).rpartition('.')[0]} are reduced "
                            "by its own functions.")
    if is_ndarray(value):
        if value.ndim > 1 and axis is not None:
            raise ArgumentError(f"{call_of(function, value)}: a NumPy array of the shape {value.shape} is reduced "
                                "along all of its axes only (axis=None); convert it for others, as in "
                                "drjit.llvm.TensorXf.")
        value = value.tolist()
    if isinstance(value, (str, bytes, dict)) or not isinstance(value, Iterable):
        raise ArgumentError(f"{call_of(function, value)}: 'value' must be a Dr.Jit array, a sequence of such or of "
                            "numbers, or a number.")
    if axis is not None and axis is not ... and axis not in (0, (0,)):
        raise ArgumentError(f"{call_of(function, value)}: sequences are reduced along axis 0 only, or all axes "
                            f"(None), found axis={axis!r}.")
    found = []
    for entry in value:
        if isinstance(entry, ArrayBase) or plain_scalar(entry) is not None:
            found.append(entry)
        elif axis is None or _is_foreign(entry):
            found += entries_of(function, entry, None)
        else:
            raise ArgumentError(f"{call_of(function, value)}: cannot reduce a sequence with an entry of type "
                                f"'{describe(entry)}' along its outermost axis; all of its axes are axis=None.")
    return found


def _reduce_sequence(op: ReduceOp, value: Any, axis: Any, mode: str | None, keepdims: bool, function: str,
                     divisor: int = 1) -> Any:
    """The reduction of a sequence, divided by a number."""
    if keepdims:
        raise ArgumentError(f"{call_of(function, value)}: 'keepdims=True' is for arrays: a sequence has no axes to "
                            "keep.")
    entries = entries_of(function, value, axis)
    if axis is None:
        entries = [reduce_for(op, entry, None, mode, keepdims, function) for entry in entries]
    arrays = [entry for entry in entries if isinstance(entry, ArrayBase)]
    types = {array._type for array in arrays}
    rounded = next((type_ for type_ in types if len(types) == 1 and _accumulator(op, type_) != type_), None)
    if rounded is not None:
        entries = [retype(type(e), COMPUTES_IN[rounded])(e) if isinstance(e, ArrayBase) else e for e in entries]
    try:
        result = functools.reduce(functools.partial(combine_entries, op), entries) if entries else \
            REDUCTIONS[op.value].nothing
        result = unless_nan(op, result)
    except (TypeError, RuntimeError) as error:
        raise ArgumentError(f"{call_of(function, value)}: the entries cannot be combined: {error}") from None
    if divisor != 1:
        result = result / divisor if divisor else result * math.nan
    return result if rounded is None else retype(type(result), rounded)(result)


def reduce(op: ReduceOp, value: Any, axis: Any = ..., mode: str | None = None, keepdims: bool = False) -> Any:
    """Combine the elements of an array, tensor or sequence along one or several axes by an operation.

    ``op`` is any :class:`ReduceOp` but ``Identity``. ``axis`` is an int, a tuple of ints (negative ones count from the
    end), ``None`` for all axes, or ``...``, the default: the outermost axis of arrays and sequences, all axes of
    tensors.

    Of an array, static dimensions that are reduced disappear from the type (``Array3f`` becomes ``Float``); the
    trailing dynamic dimension is never removed, but left with size 1. Tensors lose the axes; ``keepdims=True`` keeps
    them with size 1. The element type stays the same; sums and products of half precision are computed in single
    precision. Minimum and maximum ignore NaN, and are those of nothing where there is nothing else. Sequences of arrays
    or numbers are reduced entry by entry.

    The reduction along a dynamic dimension becomes part of the kernel that computes its input. ``mode`` is ``None``,
    ``'symbolic'`` or ``'evaluated'``, which evaluates the input first; otherwise nothing is evaluated. Raises a
    ``TypeError`` if the elements are of a kind that the operation is not defined for, or an axis does not exist.

    >>> from drjit.llvm import Array2f, Float, TensorXf
    >>> dr.reduce(dr.ReduceOp.Max, Float(3, 9, 4))
    [9]
    >>> x = Array2f([1, 2, 3], [10, 20, 30])
    >>> dr.reduce(dr.ReduceOp.Add, x)
    [11, 22, 33]
    >>> dr.reduce(dr.ReduceOp.Add, x, axis=1)
    [[6, 60]]
    >>> dr.reduce(dr.ReduceOp.Add, TensorXf([1, 2, 3, 4], shape=(2, 2)), axis=1)
    [3, 7]
    """
    if not isinstance(op, ReduceOp) or op is ReduceOp.Identity:
        raise ArgumentError(f"drjit.reduce(): unsupported reduction {op!r}: 'op' must be a drjit.ReduceOp other than "
                            "Identity.")
    return reduce_for(op, value, axis, mode, keepdims, "drjit.reduce")


def sum(value: Any, axis: Any = ..., mode: str | None = None, keepdims: bool = False) -> Any:
    """Sum along one or several axes; 0 if there is nothing to add.

    Elements are numbers; see :func:`reduce` for axes, shapes and errors. Evaluates nothing by default.

    >>> from drjit.llvm import Array2f, Float
    >>> dr.sum(Float(1, 2, 3))
    [6]
    >>> dr.sum(Array2f([1, 2, 3], [10, 20, 30]))
    [11, 22, 33]
    >>> dr.sum(Array2f([1, 2, 3], [10, 20, 30]), axis=None)
    [66]
    >>> dr.sum([1, 2, 3])
    6
    """
    if axis is ... and mode is None and keepdims is False:
        return _SUM[value.__class__](value)
    return reduce_for(ReduceOp.Add, value, axis, mode, keepdims, "drjit.sum")


_SUM = _Plans(ReduceOp.Add, "drjit.sum")


def prod(value: Any, axis: Any = ..., mode: str | None = None, keepdims: bool = False) -> Any:
    """Product along one or several axes; 1 if there is nothing to multiply.

    Elements are numbers; see :func:`reduce` for axes, shapes and errors. Evaluates nothing by default.

    >>> from drjit.llvm import Int
    >>> dr.prod(Int(1, 2, 3, 4))
    [24]
    """
    if axis is ... and mode is None and keepdims is False:
        return _PROD[value.__class__](value)
    return reduce_for(ReduceOp.Mul, value, axis, mode, keepdims, "drjit.prod")


_PROD = _Plans(ReduceOp.Mul, "drjit.prod")


def min(value: Any, axis: Any = ..., mode: str | None = None, keepdims: bool = False) -> Any:
    """Minimum along one or several axes, NaN ignored; the largest value of the type (or infinity) if there is nothing.

    Elements are numbers; see :func:`reduce` for axes, shapes and errors, and :func:`minimum` for the smaller of two
    arrays. Evaluates nothing by default.

    >>> from drjit.llvm import Float
    >>> dr.min(Float(3, dr.nan, 2))
    [2]
    """
    if axis is ... and mode is None and keepdims is False:
        return _MIN[value.__class__](value)
    return reduce_for(ReduceOp.Min, value, axis, mode, keepdims, "drjit.min")


_MIN = _Plans(ReduceOp.Min, "drjit.min")


def max(value: Any, axis: Any = ..., mode: str | None = None, keepdims: bool = False) -> Any:
    """Maximum along one or several axes, NaN ignored; the smallest value of the type (or -infinity) if there is
    nothing.

    Elements are numbers; see :func:`reduce` for axes, shapes and errors, and :func:`maximum` for the larger of two
    arrays. Evaluates nothing by default.

    >>> from drjit.llvm import TensorXf
    >>> dr.max(TensorXf([1, 5, 3, 4], shape=(2, 2)), axis=0)
    [3, 5]
    """
    if axis is ... and mode is None and keepdims is False:
        return _MAX[value.__class__](value)
    return reduce_for(ReduceOp.Max, value, axis, mode, keepdims, "drjit.max")


_MAX = _Plans(ReduceOp.Max, "drjit.max")


def _divided(total: Node, count: int) -> Node:
    """A sum, divided by the number of elements; NaN if there are none.

    The number stays a parameter of the kernel: another size is no other program.
    """
    if not total.size:
        return total
    if count.__class__ is not int:
        return ops.div(total, core.bound(total.type, count))  # type: ignore[no-any-return]
    if not count:
        return ops.add(total, literal(total.type, math.nan))  # type: ignore[no-any-return]  # whose changes are zeros
    return ops.div(total, literal(total.type, count, 1, SHAPE, 3))  # type: ignore[no-any-return]


def extent_of(function: str, array: ArrayBase, axes: tuple[int, ...]) -> int:
    """Number of elements that are reduced to one along some axes."""
    shape = array.shape if array._depth < 0 else array._static_shape()
    return math.prod(array._width(function) if array._dynamic and axis == array._depth else shape[axis]
                     for axis in axes)


def mean(value: Any, axis: Any = ..., mode: str | None = None, keepdims: bool = False) -> Any:
    """Mean along one or several axes; NaN if there is nothing.

    Elements are floating-point numbers (convert others first, else a ``TypeError`` is raised); half precision is summed
    in single precision. See :func:`reduce` for axes, shapes and errors. Evaluates nothing by default.

    >>> from drjit.llvm import Float, TensorXf
    >>> dr.mean(Float(1, 2, 6))
    [3]
    >>> dr.mean(TensorXf([1, 2, 3, 5], shape=(2, 2)), axis=-1)
    [1.5, 4]
    """
    if axis is ... and mode is None and keepdims is False:
        return _MEAN[value.__class__](value)
    return _mean(value, axis, mode, keepdims)


def _mean(value: Any, axis: Any = ..., mode: str | None = None, keepdims: bool = False) -> Any:
    function = "drjit.mean"
    if not isinstance(value, ArrayBase):
        if plain_scalar(value) is not None:
            return float(value)
        if _is_foreign(value):
            number = math.prod(value.shape if axis is None else value.shape[:1])
            total = _reduce_foreign(ReduceOp.Add, value, axis, keepdims, function)
            return total / number if number else math.nan
        entries = entries_of(function, value, axis)
        for entry in entries:
            if isinstance(entry, ArrayBase):
                _require_floats(function, entry)
        if axis is None:
            number = builtins.sum(math.prod(e.shape) if isinstance(e, ArrayBase) else 1 for e in entries)
        else:
            number = len(entries)
        total = _reduce_sequence(ReduceOp.Add, entries, axis, mode, keepdims, function, number)
        return total if isinstance(total, ArrayBase) else float(total)
    _require_floats(function, value)
    number = extent_of(function, value, parse_axes(function, value, axis))
    return _reduce_array(ReduceOp.Add, value, axis, mode, keepdims, function,
                         lambda node: _divided(node, number))


_MEAN = _Plans(ReduceOp.Add, "drjit.mean", _mean, "f", _divided)


def _require_floats(function: str, array: ArrayBase) -> None:
    if array._kind != "f":
        raise ArgumentError(f"{call_of(function, array)}: the mean is defined for floating-point arrays; convert the "
                            "input first.")


# --- masks -----------------------------------------------------------------------------------------------------------


def _require_masks(value: Any, function: str) -> None:
    kind = value._kind if isinstance(value, ArrayBase) else "b"
    entries = [value] if not isinstance(value, (list, tuple)) else value
    numbers = [plain_scalar(entry) for entry in entries if not isinstance(entry, ArrayBase)]
    if kind != "b" or builtins.any(number.__class__ in (int, float) for number in numbers):
        raise ArgumentError(f"{function}(<{describe(value)}>): array type is not compatible with the requested "
                            "reduction: 'value' must be a mask, a bool, or a sequence of such.")


def all(value: Any, axis: Any = ..., keepdims: bool = False) -> Any:
    """Whether all elements of a mask are set along one or several axes; true if there are none.

    ``value`` is a mask, a ``bool`` or a sequence of such, else a ``TypeError`` is raised. Returns masks, of which those
    of one element can be tested by ``if``. See :func:`reduce` for axes and shapes. Evaluates nothing; a test does.

    >>> from drjit.llvm import Float
    >>> x = Float(1, 2, 3)
    >>> dr.all(x > 0)
    [True]
    >>> "positive" if dr.all(x > 0) else "mixed"
    'positive'
    """
    if axis is ... and keepdims is False:
        return _ALL[value.__class__](value)
    return _all(value, axis, keepdims)


def _all(value: Any, axis: Any = ..., keepdims: bool = False) -> Any:
    _require_masks(value, "drjit.all")
    return reduce_for(ReduceOp.And, value, axis, None, keepdims, "drjit.all")


_ALL = _Plans(ReduceOp.And, "drjit.all", _all, "b")


def any(value: Any, axis: Any = ..., keepdims: bool = False) -> Any:
    """Whether any element of a mask is set along one or several axes; false if there are none.

    See :func:`all` for arguments, results and errors. Evaluates nothing.

    >>> from drjit.llvm import Array2f
    >>> dr.any(Array2f([1, 2, 3], [4, -5, 6]) < 0)
    [False, True, False]
    >>> dr.any(Array2f([1, 2, 3], [4, -5, 6]) < 0, axis=None)
    [True]
    """
    if axis is ... and keepdims is False:
        return _ANY[value.__class__](value)
    return _any(value, axis, keepdims)


def _any(value: Any, axis: Any = ..., keepdims: bool = False) -> Any:
    _require_masks(value, "drjit.any")
    return reduce_for(ReduceOp.Or, value, axis, None, keepdims, "drjit.any")


_ANY = _Plans(ReduceOp.Or, "drjit.any", _any, "b")


def none(value: Any, axis: Any = ..., keepdims: bool = False) -> Any:
    """Whether no element of a mask is set along one or several axes; true if there are none.

    See :func:`all` for arguments, results and errors. Evaluates nothing.

    >>> from drjit.llvm import Float
    >>> dr.none(Float(1, 2, 3) > 5)
    [True]
    """
    if axis is ... and keepdims is False:
        return _NONE[value.__class__](value)
    return _none(value, axis, keepdims)


def _none(value: Any, axis: Any = ..., keepdims: bool = False) -> Any:
    _require_masks(value, "drjit.none")
    result: Any = reduce_for(ReduceOp.Or, value, axis, None, keepdims, "drjit.none")
    if isinstance(result, ArrayBase):
        inverted: Any = result
        return ~inverted
    return not result


_NONE = _Plans(ReduceOp.Or, "drjit.none", _none, "b", lambda node, _: ops.inv(node))


def count(value: Any, axis: Any = ..., keepdims: bool = False) -> Any:
    """Number of set elements of a mask along one or several axes, as unsigned 32-bit integers.

    Where there are so many elements (2³² or more) that their number may need 64 bits, it has these. See :func:`all` for
    arguments and errors; of Python sequences, the result is an ``int``. Evaluates nothing.

    >>> from drjit.llvm import Float
    >>> dr.count(Float(1, 2, 3) > 1.5)
    [2]
    >>> dr.count([True, False, True])
    2
    """
    _require_masks(value, "drjit.count")
    if isinstance(value, ArrayBase):
        most, axes = _most(value._nodes()), parse_axes("drjit.count", value, axis)
        if index_type(most) != UINT32:  # of all elements, not of those that are reduced to one
            most = extent_of("drjit.count", value, axes)
        numbers = _numbers(value, index_type(most))
        if axis is ... and keepdims is False:
            return _COUNT[type(numbers)](numbers)
        return reduce_for(ReduceOp.Add, numbers, axis, None, keepdims, "drjit.count")
    if isinstance(value, bool):
        return int(value)
    value = entries_of("drjit.count", value, axis)
    scalar = index_type(_most([node for entry in value if isinstance(entry, ArrayBase) for node in entry._nodes()]))
    entries = [_numbers(entry, scalar) if isinstance(entry, ArrayBase) else int(entry) for entry in value]
    return reduce_for(ReduceOp.Add, entries, axis, None, keepdims, "drjit.count")


def _most(nodes: Sequence[Node]) -> int:
    """How many elements there are in all, at most, if those of one element go with any others."""
    return len(nodes) * builtins.max((node.size for node in nodes), default=0)


def _numbers(mask: ArrayBase, scalar: int) -> ArrayBase:
    """A mask as integers, which are 0 or 1."""
    one, zero = literal(scalar, 1), literal(scalar, 0)
    found: ArrayBase = wrap_like(mask, retype(type(mask), scalar), [
        ops.select(node, one, zero) if node.size else cast(node, scalar) for node in mask._nodes()])
    return found


_COUNT = _Plans(ReduceOp.Add, "drjit.count")


