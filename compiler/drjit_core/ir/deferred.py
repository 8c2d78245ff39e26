"""Statements that act when what they need has been computed: output of what only kernels know.

A *statement* has memory of its own, and a function that looks at it after an evaluation.  The statements of a thread
form a chain in the order of the program, which each of its evaluations includes.  A statement in a region belongs to
the trace of that: if the region is traced again or given up, it never was.  When the region is finished, its statements
pass to the one around it, and at last to the chain.

A region writes to such memory without having it among its variables: it *borrows* it, from the region around it if
there is one, and its last version becomes one more result of the region.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterable, Sequence

from ..context import state
from ..flags import JitFlag, scoped_set_flag
from ..ops.table import EVALUATED, UNDEFINED
from .build import new_formal
from .node import Node
from .symbolic import Tracing, innermost

__all__ = ["BORROWED", "Check", "Memory", "Statement", "abandon", "assume_not", "chain", "defer", "hand_over", "run",
           "settle", "version_of"]

#: In place of the position of a formal that is borrowed.
BORROWED = -3


class Memory:
    """An array that statements write to, wherever they stand: its last version outside of all open regions."""

    __slots__ = ("node",)

    def __init__(self, node: Node) -> None:
        self.node = node

    @property
    def there(self) -> bool:
        """Whether the memory is there, or was not written to."""
        return self.node.kind == EVALUATED or self.node.kind <= UNDEFINED


class Statement:
    """What is done when some memory is there; at once if there is none, and no region that may be traced again.

    Whoever records a program takes the statements that are left, and repeats them with the memory of each replay: also
    those without memory that are for the user (``shown``).
    """

    __slots__ = ("act", "memory", "shown")

    def __init__(self, memory: Sequence[Memory], act: Callable[[], None], shown: bool = False) -> None:
        self.memory = tuple(memory)
        self.act = act
        self.shown = shown

    @property
    def waits(self) -> bool:
        """Whether it does not act at once."""
        return bool(self.memory) or self.shown and chain.recording is not None


#: The context of the thread that asks: its ``statements`` are those that have not acted yet.
chain = state


def version_of(memory: Memory, region: Tracing | None) -> Node:
    """The version that a write in a region must go on with; memory from outside is borrowed."""
    if region is None:
        return memory.node
    formal = region.borrowed.get(memory)
    if formal is None:
        before = version_of(memory, region.outer)
        formal = new_formal(before.type, before.size, BORROWED, True, region.id, before.where)
        region.borrowed = region.borrowed or {}
        region.borrowed[memory] = formal
    return region.latest.get(formal.id, formal)


def settle(memory: Memory, version: Node) -> None:
    """A region that is finished has made a version of memory that it had borrowed."""
    if innermost() is None:
        memory.node = version


def defer(statement: Statement) -> None:
    """Append a statement to what is being traced."""
    region = innermost()
    if region is not None:
        region.statements = [*region.statements, statement]
    elif statement.waits:
        chain.statements.append(statement)
    else:
        statement.act()


class Check:
    """A mask of one element that must not be set, what is wrong if it is, and what it is about: nodes of which the
    mask is evaluated with all that is computed with them, and what has been evaluated so."""

    __slots__ = ("about", "mask", "message")

    def __init__(self, mask: Node, message: str, about: Iterable[Node]) -> None:
        self.mask, self.message = mask, message
        self.about = list(map(weakref.ref, about))

    def alive(self) -> list[Node]:
        """What it is about, as far as somebody holds it."""
        return [node for reference in self.about if (node := reference()) is not None]


def assume_not(mask: Node, message: str, about: Iterable[Node]) -> None:
    """Let the program raise, with a message, if a mask of one element turns out to be set, since a kernel cannot: when
    it reads something that has been computed with the nodes that the mask is ``about``, or waits for everything."""
    chain.checks.append(Check(mask, message, about))


def hand_over(statements: Sequence[Statement]) -> None:
    """Append the statements of a region that is finished to what is around it."""
    region = innermost()
    if region is not None:
        region.statements = [*region.statements, *statements]
        return
    chain.statements += [statement for statement in statements if statement.waits]
    for statement in statements:
        if not statement.waits:
            statement.act()


def run() -> None:
    """Let statements act, in order, as far as their memory is there.

    If one raises, it has acted; those that follow do so after the next evaluation.
    """
    if chain.acting:  # one of them evaluates something
        return
    chain.acting = True
    try:
        while chain.statements and all(memory.there for memory in chain.statements[0].memory):
            statement = chain.statements.pop(0)
            with scoped_set_flag(JitFlag.ForbidSynchronization, False):  # the program does not wait: its output does
                statement.act()
    finally:
        chain.acting = False


def abandon() -> None:
    """Drop the statements that could not be evaluated: the evaluations that follow are none of their business."""
    chain.statements = [statement for statement in chain.statements if all(memory.there for memory in statement.memory)]


def _forget() -> None:
    """In a child process: the parent does the output of what it has traced."""
    chain.statements, chain.checks = [], []


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
