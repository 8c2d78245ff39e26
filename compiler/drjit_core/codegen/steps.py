"""What steps consist of, whatever backend runs them: texts that are made by functions, and launches of them.

A backend makes *passes* of a :class:`Call` of a step: each is a launch of a :class:`Text`.  They run in order.  How the
work is shared follows from the pass alone, so that results have the same bits whoever takes part.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from ..ops.steps import Step
from ..types import TYPES
from .target import Target

__all__ = ["Array", "Call", "Pass", "Shape", "Text"]


class Array(NamedTuple):
    """An operand or result in memory.  Elements past the end must not be touched: others may own the memory."""

    type: int
    size: int  # number of elements
    address: int

    @property
    def nbytes(self) -> int:
        """Bytes of the elements."""
        return self.size * TYPES[self.type].size


class Call(NamedTuple):
    """A step with its operands and results."""

    step: Step
    operands: Sequence[Array]
    results: Mapping[int, Array]  # by position: those that somebody wants
    scratch: Callable[[int], int]  # the address of so many bytes, which live until the last pass has ended
    target: Target

    @property
    def extents(self) -> tuple[int, ...]:
        """The extents of the step."""
        return self.step.with_sizes(self.operands[0].size)


class Text(NamedTuple):
    """Code that a function makes, as a kernel like any other.  Equal names and arguments make equal texts."""

    name: str
    arguments: tuple[int | str, ...]
    make: Callable[..., str]
    work: int  # cost of an element of the width, relative to an addition (see OPS)
    #: Whether it has a function ``combine`` besides, which runs when all of it has ended.
    combines: bool = False

    @property
    def key(self) -> bytes:
        """What finds the kernel: words as in the key of a program, none of which begins with -1."""
        words = repr((self.name, self.arguments)).encode()
        return array("q", (-1, len(words))).tobytes() + words

    def text(self) -> str:
        """The code."""
        return self.make(*self.arguments)


class Shape(Protocol):
    """How a backend shares the work of a launch."""

    @property
    def width(self) -> int:
        """Of how many parts the work is made."""

    @property
    def block(self) -> int:
        """How many of them the kernel counts on coming together."""


class Pass(NamedTuple):
    """A launch of a text."""

    text: Text
    words: tuple[int, ...]  # parameters: addresses and numbers
    launch: Shape
