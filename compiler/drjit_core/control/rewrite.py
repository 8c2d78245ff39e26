"""Making a region anew, in which some nodes are others.

Unlike :mod:`.inline`, which traces a region as a part of what is around it, this makes the same region, node by node.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from weakref import ref

from ..ir.build import append, new_formal, pack
from ..ir.extents import sized_as
from ..ir.labels import copy_labels
from ..ir.node import Node
from ..ir.region import CONTROL, Choice, Cond, Control, Loop, Region, all_operands
from ..ir.symbolic import new_region
from ..ops.table import BITCAST, CAST, FIRST_ELEMENTWISE, GATHER, PACK, RESULT
from .inline import computed_of

__all__ = ["Rewriter"]


class Rewriter:
    """Makes regions anew; ``known`` says what stands for nodes, by their ids, and all others stand for themselves.

    What does not depend on a region any more is computed outside: it is traced as if it had stood there, which the
    regions around must be open for.
    """

    def __init__(self, known: Mapping[int, Node]) -> None:
        self.known = dict(known)

    def __getitem__(self, node: Node) -> Node:
        return self.known.get(node.id, node)

    def region(self, region: Region, arguments: Sequence[Node] = (), before: Sequence[Node] = ()) -> Region:
        """A region with formals of its own, and the regions in it.

        ``arguments`` are values from outside that get a formal each; nodes that are computed from them, ``before``
        those of the region, become part of it, and their reads happen for its elements only.
        """
        scope = new_region()
        for formal in (*region.formals, *region.masks):
            self.known[formal.id] = sized_as(new_formal(formal.type, formal.size, formal.attr, formal.payload, scope,
                                                        formal.where), (formal,))
        formals = [sized_as(new_formal(argument.type, argument.size, position, False, scope, argument.where),
                            (argument,))
                   for position, argument in enumerate(arguments, len(region.formals))]
        if before:
            new = Rewriter({argument.id: formal for argument, formal in zip(arguments, formals, strict=True)})
            for node in before:
                new.known[node.id] = new.read(node, self[region.masks[0]]) if node.kind == GATHER else \
                    new.node(node, scope)
            self.known.update((node.id, new[node]) for node in before)  # not arguments, which may be read by index
        for node in region.nodes:
            self.known[node.id] = self.node(node, scope)
        return Region(scope, [*(self[formal] for formal in region.formals), *formals],
                      [self[mask] for mask in region.masks],
                      [[self[result] for result in results] for results in region.results])

    def node(self, node: Node, region: int) -> Node:
        """A node of the region that is made."""
        kind, payload = node.kind, node.payload
        if kind == PACK:
            return node  # its user has one of its own
        used = [self[operand] for operand in all_operands(node)]
        inputs: Iterable[Node] = used
        if kind in CONTROL:
            payload = self.control(payload)
            inputs = (*used, *payload.inputs(), *payload.memory(), *payload.sources())
        scope = max((value.scope for value in inputs), default=0)
        if scope != region and (kind >= FIRST_ELEMENTWISE or kind == CAST or kind == BITCAST):
            new = computed_of(node, used)
        else:
            d0, d1, d2, d3 = (None if d is None else self[d] if d.kind != PACK else
                              pack([self[each] for each in all_operands(d)], d.size, scope)
                              for d in (node.d0, node.d1, node.d2, node.d3))
            new = append(kind, node.type, node.size, d0, d1, d2, d3, node.attr, payload, scope, node.where)
        if kind == RESULT:
            assert new.d0 is not None
            new.d0.payload.outputs.append(ref(new))
        return labelled(new, node)

    def read(self, node: Node, active: Node) -> Node:
        """A read that happens for some elements only, those of a region."""
        assert node.d1 is not None and node.d2 is not None
        return labelled(append(GATHER, node.type, node.size, node.d0, self[node.d1], self[node.d2], active,
                               scope=active.scope), node)

    def control(self, control: Control) -> Control:
        """The payload of a loop, a branch or a call."""
        initial = [self[value] for value in control.initial]
        regions = [self.region(region) for region in control.regions]
        if isinstance(control, Loop):
            return Loop(regions, initial, control.label, control.trips)
        if isinstance(control, Cond):
            return Cond(regions, initial, control.label, control.count, control.memory_of, control.rare)
        assert isinstance(control, Choice)
        return type(control)(regions, initial, control.label, control.count, control.memory_of)


def labelled(new: Node, node: Node) -> Node:
    """A node with the label of the one that it stands for, if that has one."""
    copy_labels(new, node)
    return new
