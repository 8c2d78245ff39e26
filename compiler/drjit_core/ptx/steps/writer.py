"""Writing kernels by hand: registers, parameters, shared memory, loops.

A kernel gets words like any other.  Its text is that of all devices: what newer ones have besides stands behind a
comparison of architectures, and is part of the arguments of the text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from ...types import BOOL, UINT8, UINT32, UINT64
from .. import atomics, elements, features
from ..reduction import BLOCK, WARP, WARPS
from ..registers import Registers
from ..texts import Lines, T, accumulation, constant

__all__ = ["BLOCK", "LONGEST", "WARP", "WARPS", "Grid", "Writer", "in_registers", "require_counted"]

#: Elements along an axis, which are counted in 32 bits, up to a block's threads beyond the end.
LONGEST = (1 << 32) - BLOCK


def require_counted(step: str, *counts: int) -> None:
    """Raise a ``RuntimeError`` if there are too many of what a kernel counts in 32 bits."""
    if max(counts) > LONGEST:
        raise RuntimeError(f"the step '{step}' has kernels for at most {LONGEST} elements along an axis, and of a thin "
                           f"product, on a GPU; found {max(counts)}")


class Grid(NamedTuple):
    """A launch: of how many parts its work is made, blocks, and threads along both axes."""

    width: int
    blocks: int
    x: int = BLOCK
    y: int = 1

    @property
    def block(self) -> int:
        """Threads of a block."""
        return self.x * self.y


def in_registers(type_: int) -> int:
    """The type that elements have in steps that know no masks: a mask is the byte that it is in memory."""
    return UINT8 if type_ == BOOL else type_


class Writer(Registers):
    """Writes one kernel."""

    def __init__(self, architecture: int, threads: int = BLOCK) -> None:
        super().__init__("kernel", architecture)
        self._threads = threads
        self._words: dict[int, tuple[str, str]] = {}
        self._shared: Lines = []
        self.tid = self.r("mov.u32", "%tid.x")
        self.block = self.r("mov.u32", "%ctaid.x")

    def text(self, count: int) -> str:
        """The module, for launches with so many words: a driver refuses more than a kernel declares."""
        assert all(number < count for number in self._words)
        loads = [f"ld.param.{type_} {name}, [p+{8 * number}];" for number, (name, type_) in self._words.items()]
        return "\n".join([*features.head(self.architecture),
                          f".visible .entry kernel (.param .align 8 .b8 p[{8 * count}])",
                          f".maxntid {self._threads}, 1, 1", "{", *self.declarations(), *self._shared, *loads,
                          *self.lines, "ret;", "}"]) + "\n"

    # --- values ------------------------------------------------------------------------------------------------------

    def parameter(self, number: int, type_: str = "u64") -> str:
        """A word, loaded before everything else; always as one type."""
        if number not in self._words:
            self._words[number] = self.register("%rd" if type_ == "u64" else "%r"), type_
        return self._words[number][0]

    def shared(self, name: str, nbytes: int) -> str:
        """Memory of a block; its address."""
        self._shared.append(f".shared .align 16 .b8 {name}[{nbytes}];")
        return self.rd("mov.u64", name)

    def line(self, text: str) -> None:
        """An instruction."""
        self.lines.append(text)

    def _value(self, prefix: str, instruction: str, operands: tuple[object, ...]) -> str:
        register = self.register(prefix)
        self.lines.append(f"{instruction} {register}, {', '.join(map(str, operands))};")
        return register

    def r(self, instruction: str, *operands: object) -> str:
        """The value of an instruction, in 32 bits."""
        return self._value("%r", instruction, operands)

    def rd(self, instruction: str, *operands: object) -> str:
        """In 64 bits."""
        return self._value("%rd", instruction, operands)

    def p(self, instruction: str, *operands: object) -> str:
        """A predicate."""
        return self._value("%p", instruction, operands)

    def wide(self, value: str) -> str:
        """A word of 32 bits in 64."""
        return self.rd("cvt.u64.u32", value)

    def set(self, type_: int, target: str, source: str) -> None:
        """Set a register."""
        self.lines.append(self.move(type_, target, source))

    def copy(self, type_: int, source: str) -> str:
        """A register of its own."""
        register = self.new(type_)
        self.set(type_, register, source)
        return register

    def number(self, type_: int, value: object) -> str:
        """A constant in a register."""
        return self.copy(type_, constant(type_, int(value) if value.__class__ is bool else value))

    def zero(self, type_: int) -> str:
        """Zero in a register."""
        return self.number(type_, 0)

    def select(self, type_: int, mask: str, a: str, b: str) -> str:
        """One of two values."""
        return self._value(T[type_].prefix, f"selp.{T[type_].bits}", (a, b, mask))

    def both(self, a: str, b: str) -> str:
        """The conjunction of two predicates."""
        return self.p("and.pred", a, b)

    # --- control -----------------------------------------------------------------------------------------------------

    @contextmanager
    def when(self, mask: str) -> Iterator[None]:
        """What threads do for which a predicate holds."""
        over = self.label("over")
        self.line(f"@!{mask} bra {over};")
        yield
        self.line(f"{over}:")

    @contextmanager
    def loop(self) -> Iterator[Callable[[str], None]]:
        """What is repeated; the function that is yielded ends the loop where a predicate does not hold."""
        again, done = self.label("again"), self.label("done")
        self.line(f"{again}:")
        yield lambda mask: self.line(f"@!{mask} bra {done};")
        self.lines += [f"bra {again};", f"{done}:"]

    def barrier(self) -> None:
        """Wait for all threads of the block."""
        self.line("bar.sync 0;")

    # --- memory ------------------------------------------------------------------------------------------------------

    def at(self, base: str, index: str, size: int) -> str:
        """The address of an element by its index of 64 bits; by that of 32 bits, if it is in a register for those."""
        if index.startswith("%rd"):
            return self.rd("mad.lo.u64", index, size, base)
        return self.rd("add.u64", self.rd("mul.wide.u32", index, size), base)

    def load(self, type_: int, address: str, mask: str = "", otherwise: str = "", space: str = "global",
             offset: int = 0) -> str:
        """An element; another value where a predicate does not hold."""
        register, place = self.new(type_), f"{address}+{offset}"
        if not mask:
            self.lines += elements.loaded(self, type_, register, place, space=space)
            return register
        self.set(type_, register, otherwise)
        self.line(f"@{mask} ld.{space}.{T[type_].memory} {register}, [{place}];")
        return register

    def store(self, type_: int, address: str, value: str, mask: str = "", space: str = "global",
              offset: int = 0) -> None:
        """Write an element."""
        guard = f"@{mask} " if mask else ""
        self.lines += elements.stored(self, type_, f"{address}+{offset}", value, guard, space)

    # --- warps -------------------------------------------------------------------------------------------------------

    def lane(self) -> str:
        """The number of the thread in its warp."""
        return self.r("and.b32", self.tid, WARP - 1)

    def shuffle(self, type_: int, value: str, lane: str) -> str:
        """The value that another thread of the warp has, all of which take part."""
        lines, other = atomics.shuffled(self, type_, value, "idx", f"{lane}, 31, -1")
        self.lines += lines
        return other

    def combine(self, op: int, type_: int, a: str, b: str) -> str:
        """Two values, reduced."""
        register = self.new(type_)
        self.lines += accumulation(self, op, register, a, b, T[type_])
        return register

    def total(self, op: int, type_: int, value: str) -> str:
        """What all threads of the warp have, reduced, for all of them."""
        for distance in (16, 8, 4, 2, 1):
            lines, other = atomics.shuffled(self, type_, value, "bfly", f"{distance}, 31, -1")
            self.lines += lines
            value = self.combine(op, type_, value, other)
        return value

    # --- signals between blocks --------------------------------------------------------------------------------------

    def publish(self, type_: int, value: str, values: str, flags: str, number: str) -> None:
        """Store a value in a word that blocks wait for."""
        bits = atomics.as_bits(self, type_, value)
        self.line(f"st.relaxed.gpu.global.{'b64' if bits.startswith('%rd') else 'b32'} [{self.at(values, number, 8)}], "
                  f"{bits};")
        self.line(f"st.release.gpu.global.u32 [{self.at(flags, number, 4)}], {self.r('mov.b32', 1)};")

    def wait_for(self, type_: int, values: str, flags: str, number: str) -> str:
        """A value, once it is there."""
        flag, again = self.at(flags, number, 4), self.label("wait")
        self.line(f"{again}:")
        there = self.p("setp.ne.u32", self.r("ld.acquire.gpu.global.u32", f"[{flag}]"), 0)
        self.line(f"@!{there} bra {again};")
        word = "b64" if T[type_].word == 64 else "b32"
        bits = (self.rd if word == "b64" else self.r)(f"ld.relaxed.gpu.global.{word}",
                                                      f"[{self.at(values, number, 8)}]")
        return atomics.from_bits(self, type_, bits)

    def ticket(self, counter: str, place: str) -> str:
        """The number of the block among those that have begun, so that whoever it waits for has begun as well."""
        with self.when(self.p("setp.eq.u32", self.tid, 0)):
            self.store(UINT32, place, self.r("atom.relaxed.gpu.global.add.u32", f"[{counter}]", 1), space="shared")
        self.barrier()
        return self.load(UINT32, place, space="shared")


def cleared(architecture: int) -> str:
    """The text of a kernel that sets words to zero: their address, and their number."""
    w = Writer(architecture)
    number = w.rd("mad.wide.u32", w.block, BLOCK, w.wide(w.tid))
    with w.when(w.p("setp.lt.u64", number, w.parameter(1))):
        w.store(UINT64, w.at(w.parameter(0), number, 8), w.rd("mov.b64", 0))
    return w.text(2)
