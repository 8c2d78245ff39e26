"""Reads that are the same in each iteration of a loop happen once, before it.

An element that never enters the loop's body must not read: so the mask of the read says whether the condition holds at
first, which is computed for the initial values of the variables.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..codegen.target import limits
from ..ir.build import append, literal, sized_by, where_of
from ..ir.node import Node
from ..ir.region import Region
from ..ir.trace import ops
from ..ops.table import FIRST_ELEMENTWISE, FIRST_REGISTERED, GATHER, LITERAL, OPS
from ..types import BOOL
from .inline import computed_of
from .rewrite import Rewriter, labelled

__all__ = ["hoisted"]


def hoisted(region: Region, initial: Sequence[Node], mask: Node | None) -> Region:
    """The region of a loop without those of its reads that can happen before it, all operands of which are captured.

    ``mask`` is that of the elements of the enclosing region that take part in the loop, if it is in one.
    """
    for node in region.accesses:
        if node.kind == GATHER and node.d3 in region.masks and region.id not in (
                node.d0.scope, node.d1.scope, node.d2.scope):  # type: ignore[union-attr]
            hoisting = _Hoisting(region, initial, mask)
            new = hoisting.region(region)
            return new if hoisting.found else region
    return region


class _Hoisting(Rewriter):
    """Makes the region of a loop anew."""

    def __init__(self, region: Region, initial: Sequence[Node], mask: Node | None) -> None:
        super().__init__({})
        self.old = region
        self.initial = initial
        self.mask = mask
        #: Memory that the loop writes to.
        self.written = {value.id for value, formal in zip(initial, region.formals, strict=True) if formal.payload}
        #: Whether there was anything to hoist.
        self.found = False
        self._holds: Node | None = None
        self._is_known = False

    def node(self, node: Node, region: int) -> Node:
        if node.kind == GATHER and node.d3 is not None and node.scope == self.old.id:
            new = self.before(node, region)
            if new is not None:
                self.found = True
                return labelled(new, node)
        return super().node(node, region)

    def before(self, node: Node, region: int) -> Node | None:
        """A read before the loop that stands for one in it, if there can be one."""
        source, index, mask = (self[d] for d in (node.d0, node.d1, node.d2) if d is not None)
        if region in (source.scope, index.scope, mask.scope) or source.id in self.written:
            return None
        entering, live = self.old.masks
        if node.d3 is live:
            holds = self.holds()
            if holds is None or holds.size not in (1, node.size):
                return None
            mask = ops.and_(mask, holds)
        elif node.d3 is not entering:
            return None
        if mask.kind == LITERAL and not mask.payload:
            return sized_by(literal(node.type, 0, node.size), node)
        return append(GATHER, node.type, node.size, source, index, mask, self.mask)

    def holds(self) -> Node | None:
        """The mask of the elements for which the condition holds at first, if that may be computed and is cheap."""
        if not self._is_known:
            self._is_known = True
            self._holds = self._compute()
        return self._holds

    def _compute(self) -> Node | None:
        entering, cost = self.old.masks[0], 0
        most = limits(where_of("while_loop", self.initial)).tracing.hoist
        values = {formal.id: value for formal, value in zip(self.old.formals, self.initial, strict=True)}
        values[entering.id] = self.mask if self.mask is not None else literal(BOOL, True)
        computed = []
        for node in self.old.parts[0]:
            new = self[node]
            if new.scope == self[entering].scope:
                cost += OPS[node.kind].cost
                if cost > most or not OPS[node.kind].speculable or FIRST_REGISTERED <= node.kind < FIRST_ELEMENTWISE:
                    return None
                computed.append(node)
            else:
                values[node.id] = new
        for node in computed:
            values[node.id] = computed_of(node, [values.get(d.id, d) for d in (node.d0, node.d1, node.d2)
                                                 if d is not None])
        (condition,) = self.old.results[0]
        return values.get(condition.id, condition)
