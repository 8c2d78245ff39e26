"""Rows of the op table that are expanded: where their expansions are registered.

``sin``, ``exp`` … are traced as *one* node.  Not before a kernel's text is made is it replaced by operations that a
backend knows (:mod:`drjit_core.codegen.expand`): tracing them, and walking them at each launch, would cost as much as
some fifty other operations.  Targets may have a text for some of these rows instead
(:attr:`drjit_core.codegen.target.Target.native`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ..flags import JitFlag, state
from .node import Node

__all__ = ["EXPANSIONS", "NATIVE", "TRACED", "expanding", "expansion"]

#: By kind, the function that traces the expansion for some operands.  :mod:`drjit_core.math` enters them.
EXPANSIONS: dict[int, Callable[..., Node]] = {}
#: By kind, another expansion, for targets that have a text for the row of the kind that is told with it.
NATIVE: dict[int, tuple[int, Callable[..., Node]]] = {}
#: By kind, the function that traces one such node, or the expansion at once if the operands are literals.
TRACED: dict[int, Callable[..., Node]] = {}


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
    function = EXPANSIONS.get(node.kind)
    if function is None:
        return node
    with expanding("usual"):
        return function(*(d for d in (node.d0, node.d1) if d is not None))
