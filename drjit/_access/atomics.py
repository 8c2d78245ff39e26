"""Updates of elements that also tell what they found: increments, exchanges, compensated sums.

Each is a scatter of the compiler whose lanes fetch what was there before them. Outside of symbolic loops a loop of a
single iteration goes around it, so that an evaluation does it once, whatever is asked for.
"""

from __future__ import annotations

from typing import Any

import drjit_core as core
from drjit_core import KIND, TYPES, JitFlag, Node, ReduceOp, flag, literal, ops

from .._base.array import ArrayBase
from .._base.errors import CORE_ERRORS, ArgumentError, SizeError, describe, translate
from .._base.nodes import index_node
from .._base.types import BOOL, UINT32, lookup, retype
from .._promotion.promote import coerce, wrap
from .indirect import index_and_mask
from .keys import check_literal, require_assignable
from .lanes import note_version, widest_mask, with_lanes
from .store import store_written

__all__ = ["scatter_add_kahan", "scatter_cas", "scatter_exch", "scatter_inc"]

_LITERAL, _ADD = KIND["literal"], ReduceOp.Add.value


def _flat_target(target: Any, name: str, function: str) -> ArrayBase:
    """A target, which must be flat, of a backend that traces."""
    if not isinstance(target, ArrayBase) or target._depth or not target._dynamic:
        raise TypeError(f"{function}(): '{name}' must be a flat array of a backend that compiles (such as "
                        f"drjit.llvm.UInt), found {describe(target)}.")
    return target


def _value(target: ArrayBase, value: Any, name: str, function: str) -> Node:
    """The node of an argument that goes to elements of the target, in their type."""
    if isinstance(value, ArrayBase) and value._depth and not (value._depth == 1 and not value._dynamic):
        raise TypeError(f"{function}(): '{name}' must be convertible to {target._name}, found {describe(value)}.")
    require_assignable(target, value, function)
    if isinstance(value, ArrayBase) and value._kind == "f" != target._kind:
        raise ArgumentError(f"{function}(): cannot assign a value of type '{describe(value)}' to elements of type "
                            f"{target._leaf._name}; convert it first.")
    return coerce(type(target), value, function)[0]


def _place(target: ArrayBase, index: Any, active: Any, values: tuple[Node, ...],
           function: str) -> tuple[Node, Node] | None:
    """Index and mask of an update in the lanes that take part; ``None`` if it has no elements."""
    size = target._width(function)
    index_, mask = index_and_mask(target._leaf, index, active, size, function)
    if not index_.size and all(node.size <= 1 for node in (mask, *values)):
        return None
    try:
        width = core.broadcast_size("scatter", index_, mask, *values)
    except CORE_ERRORS as error:
        raise translate(error, function) from None
    if not width:
        return None
    if not size:
        raise SizeError(f"{function}(): attempted to write to an empty array.")
    if width > 1:
        mask = with_lanes(mask, width)
    else:  # one for each lane of an evaluated loop that takes part
        lanes = widest_mask()
        mask = mask if lanes is None else ops.and_(mask, lanes)
    check_literal(function, index_, mask, size)
    return index_node(index_, size), mask


def _update(op: int, target: ArrayBase, value: Node, index: Any, active: Any, function: str,
            expected: Node | None = None) -> tuple[Node, Node]:
    """What an update finds, and the mask of the lanes that it happened in; the target gets its new version."""
    values = (value,) if expected is None else (value, expected)
    place = _place(target, index, active, values, function)
    if place is None:
        return core.invalid(target._type), core.invalid(BOOL)
    try:
        old = target._nodes()[0]
        found, version = core.atomic(old, value, *place, op, 0, expected)
    except CORE_ERRORS as error:
        raise translate(error, function) from None
    store_written(target, [note_version(version, old)])
    position, mask = place
    if expected is not None and flag(JitFlag.Debug):  # lanes that are out of bounds update nothing
        mask = ops.and_(mask, ops.lt(core.cast(position, core.VarType.UInt64.value),
                                     literal(core.VarType.UInt64.value, version.size)))
    return found, mask


def scatter_inc(target: ArrayBase, index: Any, active: Any = True) -> Any:
    """Add 1 to ``target[index]`` where ``active`` is set, atomically and in place; returns what was there before.

    The result, an array of the target's type with as many entries as ``index`` and ``active``, is zero where
    ``active`` is not set. Elements that share an index find different numbers, 0, 1, 2 …, in no particular order: each
    gets a place of its own, such as one in an array that is filled without gaps. ``target`` is a flat array of
    unsigned 32-bit integers; ``index`` and ``active`` are as in :func:`drjit.gather`. Those that are of one element
    stand for a single increment, except in loops, where each element increments that takes part.

    Evaluates nothing: the next evaluation increments, once, and the result keeps the numbers that were found then, so
    that it may be used by later evaluations. Increments of one packet at one index that is the same for all elements
    are a single atomic update. Raises a ``TypeError`` for other targets, a ``RuntimeError`` if the sizes of index and
    mask do not go together.

    >>> from drjit.llvm import Bool, Float, UInt
    >>> value = Float(5, -1, 7, -2, 9)
    >>> positive = value > 0
    >>> count, kept = UInt(0), dr.zeros(Float, 5)
    >>> slot = dr.scatter_inc(count, 0, positive)
    >>> dr.scatter(kept, value, slot, positive)
    >>> count[0], sorted(kept[:3])
    (3, [5.0, 7.0, 9.0])
    """
    function = "drjit.scatter_inc"
    if not isinstance(target, ArrayBase) or target._depth or not target._dynamic or target._type != UINT32:
        raise TypeError(f"{function}(): 'target' must be a flat array of unsigned 32-bit integers of a backend that "
                        f"compiles (such as drjit.llvm.UInt), found {describe(target)}.")
    found, _ = _update(_ADD, target, literal(UINT32, 1), index, active, function)
    return wrap(type(target), [found])


def scatter_exch(target: ArrayBase, value: Any, index: Any, active: Any = True) -> Any:
    """Write ``value`` to ``target[index]`` where ``active`` is set, atomically and in place; returns what was there.

    The result has the target's type, and is zero where ``active`` is not set. Of elements that share an index, each
    finds what another one wrote, or what was there at first, in no particular order. ``target`` is a flat array of any
    element type, ``value`` is converted to its type; ``index`` and ``active`` are as in :func:`drjit.gather`.

    Derivatives follow the values to where they have gone. Evaluates nothing: the next evaluation exchanges, once, and
    the result keeps what was found then. Raises a ``TypeError`` for other targets and values, a ``RuntimeError`` if the
    sizes do not go together.

    >>> from drjit.llvm import Float, UInt
    >>> x = Float(1, 2, 3)
    >>> dr.scatter_exch(x, Float(10, 30), UInt(0, 2))
    [1, 3]
    >>> x
    [10, 2, 30]
    """
    function = "drjit.scatter_exch"
    target = _flat_target(target, "target", function)
    found, _ = _update(core.EXCHANGE, target, _value(target, value, "value", function), index, active, function)
    return wrap(type(target), [found])


def scatter_cas(target: ArrayBase, compare: Any, value: Any, index: Any, active: Any = True) -> Any:
    """Where ``target[index]`` equals ``compare``, write ``value`` there, atomically and in place.

    Returns what was found, an array of the target's type, and a mask of the elements that have written; both are zero
    where ``active`` is not set. Of elements that share an index and expect the same, one writes. Elements are compared
    bit by bit: 0 differs from -0, and a NaN equals itself. ``target`` is a flat array of any element type, ``compare``
    and ``value`` are converted to its type; ``index`` and ``active`` are as in :func:`drjit.gather`.

    Evaluates nothing: the next evaluation compares and exchanges, once, and the results keep what was found then.
    Raises a ``TypeError`` for other targets and values, a ``RuntimeError`` if the sizes do not go together, or if
    derivatives are tracked for target or value: there is none of a comparison.

    >>> from drjit.llvm import UInt
    >>> owner = UInt(0, 0, 7)
    >>> found, success = dr.scatter_cas(owner, compare=0, value=UInt(4, 5), index=UInt(1, 2))
    >>> found, success, owner
    ([0, 7], [True, False], [0, 4, 7])
    """
    function = "drjit.scatter_cas"
    target = _flat_target(target, "target", function)
    expected, new = _value(target, compare, "compare", function), _value(target, value, "value", function)
    found, mask = _update(core.COMPARE_EXCHANGE, target, new, index, active, function, expected)
    if found.size:
        mask = ops.and_(mask, ops.eq(_bits(found), _bits(expected)))
    result: Any = lookup(target._record._replace(type=BOOL)) or retype(target._leaf, BOOL)
    return wrap(type(target), [found]), wrap(result, [mask])


def _bits(node: Node) -> Node:
    """The bits of a floating-point number as an integer."""
    if not TYPES[node.type].is_float:
        return node
    kinds = {2: core.VarType.UInt16, 4: core.VarType.UInt32, 8: core.VarType.UInt64}
    return core.bitcast(node, kinds[TYPES[node.type].size].value)


def scatter_add_kahan(target_1: ArrayBase, target_2: ArrayBase, value: Any, index: Any, active: Any = True) -> None:
    """Add ``value`` to ``target_1[index]`` where ``active`` is set, and what rounding loses to ``target_2[index]``.

    ``target_1 + target_2`` is then the sum of all values almost without rounding errors, whatever their order. Both
    targets are flat arrays of floating-point numbers, of one type and size; ``value`` is converted to that type, and
    ``index`` and ``active`` are as in :func:`drjit.gather`. Sums that overflow are infinite, and so is the total.

    Evaluates nothing: the next evaluation adds. Raises a ``TypeError`` for other targets and values, a
    ``RuntimeError`` if they are one array or the sizes do not go together.

    >>> from drjit.llvm import Float, UInt
    >>> total, lost = dr.zeros(Float, 1), dr.zeros(Float, 1)
    >>> dr.scatter_add_kahan(total, lost, Float(1, 1e-8, 1e8, -1e8), UInt(0, 0, 0, 0))
    >>> total + lost
    [1]
    """
    function = "drjit.scatter_add_kahan"
    targets = _flat_target(target_1, "target_1", function), _flat_target(target_2, "target_2", function)
    for target, name in zip(targets, ("target_1", "target_2"), strict=True):
        if target._kind != "f" or target._type != target_1._type or target._leaf is not target_1._leaf:
            raise TypeError(f"{function}(): '{name}' must be a flat array of floating-point numbers, of the same type "
                            f"as the other target, found {describe(target)} ({describe(target_1)} and "
                            f"{describe(target_2)}).")
    if target_1 is target_2:
        raise ArgumentError(f"{function}(): 'target_1' and 'target_2' must be two arrays, found one.")
    sizes = [target._width(function) for target in targets]
    if sizes[0] != sizes[1]:
        raise SizeError(f"{function}(): 'target_1' and 'target_2' must have one size, found {sizes[0]} and {sizes[1]}.")
    new = _value(target_1, value, "value", function)
    place = _place(target_1, index, active, (new,), function)
    if place is None:
        return
    try:
        old = target_1._nodes()[0], target_2._nodes()[0]
        versions = core.compensated(*old, new, *place)
    except CORE_ERRORS as error:
        raise translate(error, function) from None
    for target, version, before in zip(targets, versions, old, strict=True):
        store_written(target, [note_version(version, before)])
