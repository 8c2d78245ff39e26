"""Constructs are traced once, and again as long as something turns out that is no matter of what they are traced of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import drjit_core as core
from drjit_core import Node, SymbolicValue

from .._access.store import Journal
from .._base.array import ArrayBase
from .._base.errors import SizeError, user_part
from .._base.nodes import broadcast
from .wording import Words

__all__ = ["Wider", "retried"]

#: So many times a construct begins again at most.
_MOST_ATTEMPTS = 64


class Wider(Exception):
    """Local memory that a region accesses is too narrow, or not written yet: do that first, and trace the outermost
    construct again."""

    def __init__(self, widen: Callable[[], None]) -> None:
        super().__init__("local memory is to be changed outside")
        self.widen = widen


def widened(journal: Journal, around: Journal | None, nodes: Sequence[Node],
            leaves: Sequence[Any]) -> list[Node] | None:
    """The nodes of a state or of arguments, in which the components of an array are as large as each other; ``None`` if
    that would not help functions, which were to write to narrower ones by index.

    What belongs to a construct around this one is made wider by that, which is traced again, too.
    """
    if not journal.narrow:
        return None
    journal.narrow = False
    found, start = list(nodes), 0
    for leaf in leaves:
        if isinstance(leaf, ArrayBase) and leaf._dynamic:
            count = len(leaf._nodes())
            width = max([node.size for node in nodes[start:start + count]], default=0)
            for position in range(start, start + count):
                node = nodes[position]
                if not node.scope:
                    found[position] = broadcast(node, width)
                elif node.size < width and around is not None:
                    around.narrow = True
            start += count
    return found if found != list(nodes) else None


def retried(construct: Any, words: Words, around: Journal | None, what: str) -> Any:
    """What a construct's ``attempt`` returns, which begins again as long as something turns out: it is told to
    ``restart``, or to ``clear`` what is found again. ``what`` of it must have one size."""
    for _ in range(_MOST_ATTEMPTS):
        try:
            return construct.attempt()
        except core.Restart:
            construct.restart(around)
        except Wider as request:
            if around is not None:
                raise
            request.widen()
            construct.clear()
        except SymbolicValue:
            wide = widened(construct.journal, around, construct.nodes, construct.given.leaves)
            if wide is None:
                raise
            construct.nodes = wide
            construct.clear()
        except core.IncompatibleSizes as error:
            if user_part(error) is not None:
                raise
            construct.check_sizes()
            widths = list(dict.fromkeys([size for size in error.sizes if size != 1]))
            raise SizeError(
                f"{words.function}(): {what}, have incompatible sizes! (sizes: {', '.join(map(str, widths))}) All of "
                f"it must be as wide as the {words.noun}; {words.otherwise} if that is so of all but what is written."
                ) from None
    raise SymbolicValue(
        f"{words.function}(): {words.traced} does something else each time it is called: it changes arrays from "
        f"outside, and after {_MOST_ATTEMPTS} calls it still finds new ones. Make these arrays before the "
        f"{words.noun}.")
