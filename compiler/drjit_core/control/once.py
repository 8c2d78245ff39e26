"""Effects outside of regions that need one: a loop of a single iteration."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..context import current
from ..errors import NoDerivative
from ..ir import trace
from ..ir.build import append, broadcast_size, broadcast_size_of, counter, literal, new_formal, where_of
from ..ir.dual import primal, refuse, tracked
from ..ir.extents import common_size, sized_as
from ..ir.node import Node
from ..ir.region import Loop, Region
from ..ir.symbolic import Tracing, call_site, close, innermost, open_
from ..ops.reductions import EXCHANGE
from ..ops.table import DUAL, LITERAL, LOOP
from ..types import BOOL, UINT32, UINT64, ReduceOp
from .construct import results_of
from .loop import MASKS, while_loop

__all__ = ["atomic", "compensated", "once"]



def once(mask: Node, state: Sequence[Node], body: Callable[[list[Node]], Sequence[Node]]) -> list[Node]:
    """``state = body(state)`` for the elements that are set in a mask."""
    def condition(variables: list[Node]) -> Node:
        return variables[0]

    def iteration(variables: list[Node]) -> list[Node]:
        return [literal(BOOL, False), *body(variables[1:])]

    return while_loop([mask, *state], condition, iteration)[1:]


def _update(mask: Node, state: Sequence[Node], body: Callable[[list[Node]], Sequence[Node]], uses: Sequence[Node],
            targets: int) -> list[Node]:
    """What :func:`once` does, outside of regions, where all is known that :func:`.loop.while_loop` finds out by traces.

    The last variables, so many as there are ``targets``, are memory that is written to, for each element of what the
    body ``uses`` besides; the others it computes anew.
    """
    initial = [mask, *state]
    values = len(initial) - targets
    size = broadcast_size_of("scatter", [*initial[:values], *uses])
    region = Tracing(None, None)
    region.initial = initial
    formals = [new_formal(value.type, size if i < values else value.size, i, i >= values, region.id, value.where)
               for i, value in enumerate(initial)]
    masks = [new_formal(BOOL, size, position, False, region.id) for position in MASKS]
    if current().recording is not None:
        wide = common_size(size, uses)
        for i, formal in enumerate(formals):
            sized_as(formal, (initial[i], *initial), wide)
        for formal in masks:
            sized_as(formal, initial, wide)
    open_(region)
    try:
        region.entering, region.live = masks
        results = [literal(BOOL, False), *body(formals[1:])]
    finally:
        close(region)
    payload = Loop((Region(region.id, formals, masks, ((formals[0],), results)),), initial, None)
    return results_of(append(LOOP, BOOL, size, None, None, None, None, 0, payload, 0,
                             where_of("scatter", [*initial, *uses])))[1:]


def atomic(target: Node, value: Node, index: Node, mask: Node, op: int, mode: int = 0,
           expected: Node | None = None) -> tuple[Node, Node]:
    """What each lane of a scatter-reduction or an exchange finds before its update (zero where the mask is not set),
    and the new version of the target.

    Lanes of one packet take turns in their order; otherwise there is none.
    """
    if expected is not None:  # bits that are compared
        expected = primal(expected)
    if target.kind == DUAL or value.kind == DUAL:
        if tracked(target) is None and tracked(value) is None:
            return atomic(primal(target), primal(value), index, mask, op, mode, expected)
        if op == EXCHANGE and innermost() is None:
            return _differentiable_exchange(target, value, index, mask, mode)
        refuse(NoDerivative, f"{call_site('scatter')}(): there is no derivative of an update that depends on what it "
               "finds; use drjit.detach() if none is meant to flow.", target, value)
        return atomic(primal(target), primal(value), index, mask, op, mode, expected)
    if innermost() is not None or mask.kind == LITERAL and not mask.payload or not target.size or not \
            broadcast_size("scatter", value, index, mask):
        return trace.atomic(target, value, index, mask, op, mode, expected)

    def body(variables: list[Node]) -> Sequence[Node]:
        return trace.atomic(variables[1], value, index, mask, op, mode, expected)

    uses = [node for node in (value, index, mask, expected) if node is not None]
    found, version = _update(mask, [literal(target.type, 0), target], body, uses, 1)
    return found, version


def _differentiable_exchange(target: Node, value: Node, index: Node, mask: Node, mode: int) -> tuple[Node, Node]:
    """An exchange of the numbers of lanes tells which lane each one found the value of, and whose value is the last."""
    ops, size = trace.ops, broadcast_size("scatter", value, index, mask)
    if not size or not target.size or mask.kind == LITERAL and not mask.payload:
        found, _ = trace.atomic(primal(target), primal(value), index, mask, EXCHANGE, mode)
        return found, target
    scalar = UINT32 if size < 1 << 32 else UINT64
    zero, one = literal(scalar, 0), literal(scalar, 1)  # lanes count from 1
    found, last = atomic(literal(scalar, 0, target.size), ops.add(counter(size, scalar), one), index, mask, EXCHANGE,
                         mode)

    def of_lane(number: Node, before: Node) -> Node:
        by_lane = ops.gt(number, zero)
        written = value if value.size == 1 else trace.gather(value, ops.sub(number, one), by_lane)
        return ops.select(by_lane, written, before)  # type: ignore[no-any-return]

    return of_lane(found, trace.gather(target, index, mask)), of_lane(last, target)


def compensated(target: Node, lost: Node, value: Node, index: Node, mask: Node) -> tuple[Node, Node]:
    """New versions of two targets: sums, and what rounding has lost of them (the algorithm of Kahan, Babuška and
    Neumaier), nothing where a sum is no finite number."""
    if target.kind == DUAL or lost.kind == DUAL or value.kind == DUAL:  # what is lost is below all rounding
        version, lost_ = compensated(primal(target), primal(lost), primal(value), index, mask)
        return trace.written(version, target, value, index, mask, ReduceOp.Add.value, 0), lost_

    def body(variables: list[Node]) -> Sequence[Node]:
        found, version = trace.atomic(variables[0], value, index, mask, ReduceOp.Add.value, 0)
        ops = trace.ops
        total = ops.add(found, value)
        larger = ops.ge(ops.abs(found), ops.abs(value))
        first, second = ops.select(larger, found, value), ops.select(larger, value, found)
        error = ops.add(ops.sub(first, total), second)
        error = ops.select(ops.eq(ops.sub(total, total), literal(total.type, 0)), error, literal(total.type, 0))
        return version, trace.scatter(variables[1], error, index, mask, ReduceOp.Add.value, 0)

    if innermost() is not None or mask.kind == LITERAL and not mask.payload or not \
            broadcast_size("scatter", value, index, mask):
        version, lost = body([target, lost])
    else:
        version, lost = _update(mask, [target, lost], body, (value, index, mask), 2)
    return version, lost
