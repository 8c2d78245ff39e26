"""Rows of the op table that are expanded: where their expansions are registered.

``sin``, ``exp`` … are traced as *one* node.  Not before a kernel's text is made is it replaced by operations that a
backend knows (:mod:`drjit_core.codegen.expand`): tracing them, and walking them at each launch, would cost as much as
some fifty other operations.  Targets may have a text for some of these rows instead
(:attr:`drjit_core.codegen.target.Target.native`).

A row with structure that is registered may have an expansion as well, in place of a text for each backend: it reads its
memory with :func:`read`. What such a row expands to may also be the *updates* of a write whose value it is: one node of
the graph, and in a kernel as many writes as there are updates.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager

from ..flags import JitFlag, state
from ..ops.table import FIRST_EXPANDED, GATHER, SCATTER
from ..types import TYPE_BITS
from .build import append
from .node import Node
from .region import all_operands, arguments_of, memory_of

__all__ = ["COMPOSED", "EXPANSIONS", "NATIVE", "TRACED", "UPDATES", "actuals_of", "count_updates", "expanding",
           "expansion", "is_expanded", "read", "stands_for_updates", "traced_by", "updates_of"]

#: By kind, the function that traces the expansion for some operands.  :mod:`drjit_core.math` enters them.
EXPANSIONS: dict[int, Callable[..., Node]] = {}
#: By kind, another expansion, for targets that have a text for the row of the kind that is told with it.
NATIVE: dict[int, tuple[int, Callable[..., Node]]] = {}
#: By kind of a row with structure: what traces the expansion of a node, given that, and what stands for its operands:
#: for memory, which :func:`read` takes, itself.
COMPOSED: dict[int, Callable[[Node, Sequence[Node]], Node]] = {}
#: By kind of a row with structure that is no value, but what writes add: what traces values, indices and masks of the
#: updates, given the node and what stands for its operands, the mask first.
UPDATES: dict[int, Callable[[Node, Sequence[Node]], Iterable[tuple[Node, Node, Node]]]] = {}
#: By kind, the function that traces one such node, or the expansion at once if the operands are literals.
TRACED: dict[int, Callable[..., Node]] = {}


def is_expanded(node: Node) -> bool:
    """Whether a node is of a row that has an expansion."""
    return node.kind >= FIRST_EXPANDED or node.kind in COMPOSED


def traced_by(node: Node, native: Collection[int] = ()) -> Callable[..., Node]:
    """What traces the expansion of a node for other operands, for a target that has some rows natively."""
    composed = COMPOSED.get(node.kind)
    if composed is not None:
        return lambda *operands: composed(node, operands)
    row, function = NATIVE.get(node.kind, (0, None))
    return function if function is not None and row << TYPE_BITS | node.type in native else EXPANSIONS[node.kind]


def actuals_of(node: Node) -> tuple[list[Node], list[Node]]:
    """What an expansion is of: the memory, and the values."""
    if node.kind in COMPOSED:
        return memory_of(node), arguments_of(node)
    return [], [d for d in (node.d0, node.d1) if d is not None]


def stands_for_updates(node: Node) -> bool:
    """Whether a node is a write of several updates."""
    return node.kind == SCATTER and node.d1 is not None and node.d1.kind in UPDATES


def count_updates(writes: Iterable[Node]) -> int:
    """How many updates some writes are."""
    count = 0
    for node in writes:
        count += node.d1.attr if stands_for_updates(node) else 1  # type: ignore[union-attr]
    return count


def updates_of(write: Node, stand_in: Callable[[Node], Node]) -> list[tuple[Node, Node, Node]]:
    """Values, indices and masks of the updates that a write is, of what stands for its operands."""
    value, mask = write.d1, write.d3
    assert value is not None and mask is not None
    return list(UPDATES[value.kind](value, [stand_in(node) for node in (mask, *all_operands(value)[1:])]))


def read(source: Node, index: Node, mask: Node) -> Node:
    """What an expansion reads of memory by index, of the elements that its node is computed for."""
    size = index.size if mask.size == 1 else max(index.size, mask.size)
    return append(GATHER, source.type, size, source, index, mask, scope=0)


@contextmanager
def expanding(branches: str, flags: int = int(JitFlag.Default)) -> Iterator[None]:
    """Trace under the default flags, whatever the thread has set, or those given, as outside of regions.

    Of branches that few elements take, there will be a ``branch``, ``both`` sides (as elsewhere), or only the ``usual``
    one.
    """
    backup = state.flags, state.mode, state.region, state.scope, state.branches
    state.flags, state.mode, state.region, state.scope, state.branches = flags, 0, None, 0, branches
    try:
        yield
    finally:
        state.flags, state.mode, state.region, state.scope, state.branches = backup


def expansion(node: Node) -> Node:
    """What a node of an expanded row stands for, in terms of other rows and without what few elements need.

    Any other node is its own expansion.
    """
    if not is_expanded(node):
        return node
    memory, values = actuals_of(node)
    with expanding("usual"):
        return traced_by(node)(*memory, *values)
