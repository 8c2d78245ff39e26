"""Packets of elements in hand-written text: how they lie in memory and in registers, masked tails, reductions."""

from __future__ import annotations

from collections.abc import Callable

from ...ops.reductions import REDUCTIONS
from ...types import BOOL, COMPUTES_IN, TYPES, UINT8
from .. import jit
from ..texts import TypeText, accumulation, constant
from ..writer import Writer

__all__ = ["Accumulation", "Elements", "lanes_of"]


def lanes_of(type_: int) -> int:
    """Elements of a packet: those of a register, of two registers if an element has fewer than 32 bits."""
    return jit.lanes() * 4 // max(2, TYPES[COMPUTES_IN[type_]].size)


class Elements:
    """Elements of some type, ``lanes`` at a time (0: one).

    In registers, masks are bytes, and half precision is what it computes in.
    """

    def __init__(self, writer: Writer, type_: int, lanes: int) -> None:
        self.writer = writer
        self.type = type_
        self.lanes = lanes
        self.size = TYPES[type_].size
        self.held = UINT8 if type_ == BOOL else COMPUTES_IN[type_]
        #: In memory, and in registers.
        self.stored = TypeText(TYPES[UINT8 if type_ == BOOL else type_], lanes)
        self.register = TypeText(TYPES[self.held], lanes)

    def mask(self, count: str, last: bool = False) -> str:
        """A mask of the first lanes, or of the last ones, so many."""
        return self.writer.first_lanes(self.lanes, count, last)

    def load(self, pointer: str, mask: str = "", otherwise: str = "zeroinitializer") -> str:
        """Elements from memory, where a mask is set; ``otherwise`` is a constant as it is in memory."""
        w, stored = self.writer, self.stored
        value = w.masked_load(stored, pointer, self.size, mask, otherwise) if mask else \
            w.load(stored, pointer, self.size)
        return w.cast(value, stored, self.register) if stored != self.register else value

    def store(self, value: str, pointer: str, mask: str = "", streamed: bool = False) -> None:
        """Elements to memory, where a mask is set; past the cache, if they are ``streamed`` (and then are aligned)."""
        w, stored = self.writer, self.stored
        if stored != self.register:
            value = w.cast(value, self.register, stored)
        if mask:
            w.masked_store(stored, value, pointer, self.size, mask)
        else:
            w.store(stored, value, pointer, self.size * max(1, self.lanes) if streamed else self.size, streamed)

    def over(self, count: str, whole: str, body: Callable[[str, str], None]) -> None:
        """A body for each packet of so many elements, with its position, and a mask for the last one if it is shorter:
        ``whole`` of the elements are in whole packets."""
        w = self.writer
        w.loop("0", whole, self.lanes, [], lambda position, _: body(position, ""))
        w.loop(whole, count, self.lanes, [], lambda position, _: body(position, self.mask(w.sub(count, position))))

    def shuffle(self, a: str, b: str, indices: list[int]) -> str:
        """Lanes of two packets."""
        return self.writer.shuffle(self.register, a, b, indices)

    def element(self, value: str, lane: int | str) -> str:
        """One of the lanes."""
        return self.writer(f"extractelement {self.register} {value}, i64 {lane}")

    def splat(self, value: str) -> str:
        """A packet of equal elements."""
        return self.writer.splat(self.register, value)


class Accumulation:
    """An operator of reductions on elements as they are in registers."""

    def __init__(self, elements: Elements, op: int) -> None:
        self.elements = elements
        self.op = op
        self.ignores_nan = REDUCTIONS[op].ignores_nan(elements.type)

    def _constant(self, value: object) -> str:
        elements = self.elements
        if elements.type == BOOL:
            value = int(bool(value))
        return constant(elements.held, value)

    @property
    def neutral(self) -> str:
        """The neutral element, as a constant of one element."""
        return self._constant(REDUCTIONS[self.op].identity(self.elements.type))

    @property
    def empty(self) -> str:
        """What no elements reduce to: 0, where the neutral element is -0."""
        return self._constant(REDUCTIONS[self.op].empty(self.elements.type))

    @property
    def neutrals(self) -> str:
        """A packet of neutral elements."""
        return self.elements.register.splat(self.neutral)

    def load(self, pointer: str, mask: str = "") -> str:
        """Elements from memory; neutral ones where a mask is not set, and for NaN, if the operator ignores it."""
        elements, w = self.elements, self.elements.writer
        value = elements.load(pointer, mask)
        register = elements.register
        if self.ignores_nan:
            number = w(f"fcmp ord {register} {value}, {value}")
            value = w(f"select {register.mask} {number}, {register} {value}, {register} {self.neutrals}")
        if mask:
            value = w(f"select {register.mask} {mask}, {register} {value}, {register} {self.neutrals}")
        return value

    def __call__(self, a: str, b: str) -> str:
        """Combine two values."""
        return self.elements.writer.named(lambda d: accumulation(self.op, d, a, b, self.elements.register))

    def total(self, value: str) -> str:
        """Combine the lanes of a packet, in pairs of neighbours."""
        elements = self.elements
        single = Accumulation(Elements(elements.writer, elements.type, 0), self.op)
        values = [elements.element(value, lane) for lane in range(elements.lanes)]
        while len(values) > 1:
            values = [single(a, b) for a, b in zip(values[::2], values[1::2], strict=True)]
        return values[0]
