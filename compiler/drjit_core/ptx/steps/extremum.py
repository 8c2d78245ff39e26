"""Positions of the smallest elements, or of the largest ones, along the middle one of three extents.

A reduction of pairs: of a number and its position.  Of equal numbers the first one is taken, and NaN never, so that a
row without anything else has position 0.  Long rows are cut into parts, whose pairs are reduced once more.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...codegen.steps import Call, Pass, Text
from ...types import COMPUTES_IN, TYPES, UINT32, UINT64
from .. import atomics, texts
from ..texts import T
from .writer import BLOCK, WARP, WARPS, Grid, Writer, in_registers, require_counted

__all__ = ["passes"]

#: Elements of a part, unless that makes more parts than there are numbers for threads of the second launch.
_PART, _MOST_PARTS = 1 << 14, 1 << 10
#: No element is as large as that; positions of nothing.
_NOWHERE = (1 << 32) - 1


class _Pairs:
    """Pairs of an element, and its position."""

    def __init__(self, w: Writer, type_: int, largest: int) -> None:
        self.w, self.memory = w, in_registers(type_)
        self.kept = COMPUTES_IN[self.memory]
        self.relation = "gt" if largest else "lt"
        info = TYPES[self.kept]
        self.least = w.number(self.kept, (info.minimum if largest else info.maximum) if info.kind != "f" else 0)

    def nothing(self) -> tuple[str, str]:
        """No pair."""
        return self.w.copy(self.kept, self.least), self.w.r("mov.b32", _NOWHERE)

    def read(self, value: str) -> str:
        """An element, as it is compared."""
        if self.memory == self.kept:
            return value
        result = self.w.new(self.kept)
        self.w.lines += texts.cast(self.w, result, value, T[self.memory], T[self.kept])
        return result

    def take(self, best: tuple[str, str], value: str, position: str, also: str = "") -> None:
        """Let a pair take the place of the best one, if it is better; positions of nothing are no pairs."""
        w, t = self.w, T[self.kept]
        none = w.p("setp.eq.u32", best[1], _NOWHERE)
        better = w.p(f"setp.{self.relation}.{t}", value, best[0])
        same = w.p(f"setp.eq.{t}", value, best[0])
        sooner = w.p("setp.lt.u32", position, best[1])
        better = w.p("or.pred", w.p("or.pred", better, w.both(same, sooner)), none)
        wanted = w.both(better, w.p("setp.ne.u32", position, _NOWHERE))
        if self.kept != self.memory or TYPES[self.kept].kind == "f":
            wanted = w.both(wanted, w.p(f"setp.eq.{t}", value, value))
        if also:
            wanted = w.both(wanted, also)
        w.line(f"@{wanted} {self.w.move(self.kept, best[0], value)}")
        w.line(f"@{wanted} mov.b32 {best[1]}, {position};")

    def of_warp(self, best: tuple[str, str]) -> None:
        """The best pair of the threads of a warp, for all of them."""
        for distance in (16, 8, 4, 2, 1):
            others = []
            for type_, name in ((self.kept, best[0]), (UINT32, best[1])):
                lines, other = atomics.shuffled(self.w, type_, name, "bfly", f"{distance}, 31, -1")
                self.w.lines += lines
                others.append(other)
            self.take(best, *others)


def _rows(architecture: int, type_: int, largest: int, parts: int) -> str:
    """A block for each part of a row.  Words: source, positions, elements of a row, parts of a row, elements of a part;
    values of the parts."""
    w = Writer(architecture)
    pairs, size = _Pairs(w, type_, largest), TYPES[type_].size
    if parts:
        row = w.r("div.u32", w.block, w.parameter(3, "u32"))
        part = w.r("sub.u32", w.block, w.r("mul.lo.u32", row, w.parameter(3, "u32")))
        first = w.r("mul.lo.u32", part, w.parameter(4, "u32"))
        left = w.r("sub.u32", w.parameter(2, "u32"), first)  # the sum of both others may not have 32 bits
        end = w.r("add.u32", first, w.r("min.u32", left, w.parameter(4, "u32")))
    else:
        row, first, end = w.block, w.r("mov.b32", 0), w.parameter(2, "u32")
    begin = w.at(w.parameter(0), w.rd("mul.wide.u32", row, w.parameter(2, "u32")), size)
    best, position = pairs.nothing(), w.r("add.u32", first, w.tid)
    with w.loop() as unless:
        unless(w.p("setp.lt.u32", position, end))
        pairs.take(best, pairs.read(w.load(pairs.memory, w.at(begin, position, size))), position)
        w.line(f"add.u32 {position}, {position}, {BLOCK};")
    pairs.of_warp(best)
    values, positions = w.shared("values", 8 * WARPS), w.shared("positions", 4 * WARPS)
    warp = w.r("shr.u32", w.tid, 5)
    with w.when(w.p("setp.eq.u32", w.lane(), 0)):
        w.store(pairs.kept, w.at(values, warp, 8), best[0], space="shared")
        w.store(UINT32, w.at(positions, warp, 4), best[1], space="shared")
    w.barrier()
    with w.when(w.p("setp.eq.u32", w.tid, 0)):
        for k in range(1, WARPS):
            pairs.take(best, w.load(pairs.kept, values, space="shared", offset=8 * k),
                       w.load(UINT32, positions, space="shared", offset=4 * k))
        if parts:
            bits = atomics.as_bits(w, pairs.kept, best[0])
            w.store(UINT64 if bits.startswith("%rd") else UINT32, w.at(w.parameter(5), w.block, 8), bits)
            w.store(UINT32, w.at(w.parameter(1), w.block, 4), best[1])
        else:
            _result(w, best[1], w.at(w.parameter(1), w.block, 4))
    return w.text(6 if parts else 3)


def _result(w: Writer, position: str, address: str) -> None:
    w.store(UINT32, address, w.select(UINT32, w.p("setp.eq.u32", position, _NOWHERE), "0", position))


def _parts(architecture: int, type_: int, largest: int) -> str:
    """A warp for each row, of what parts have found.  Words: values, positions, results, parts of a row, rows."""
    w = Writer(architecture)
    pairs = _Pairs(w, type_, largest)
    row = w.r("mad.lo.u32", w.block, WARPS, w.r("shr.u32", w.tid, 5))
    lane, count = w.lane(), w.parameter(3, "u32")
    with w.when(w.p("setp.lt.u32", row, w.parameter(4, "u32"))):
        best, number = pairs.nothing(), w.copy(UINT32, lane)
        with w.loop() as unless:
            unless(w.p("setp.lt.u32", number, count))
            at = w.rd("add.u64", w.rd("mul.wide.u32", row, count), w.wide(number))
            place = w.at(w.parameter(0), at, 8)
            bits = w.load(UINT64 if T[pairs.kept].word == 64 else UINT32, place)
            pairs.take(best, atomics.from_bits(w, pairs.kept, bits), w.load(UINT32, w.at(w.parameter(1), at, 4)))
            w.line(f"add.u32 {number}, {number}, {WARP};")
        pairs.of_warp(best)
        with w.when(w.p("setp.eq.u32", lane, 0)):
            _result(w, best[1], w.at(w.parameter(2), row, 4))
    return w.text(5)


def _columns(architecture: int, type_: int, largest: int) -> str:
    """A thread for each column, or short row.  Words: source, results, columns in all, columns of a row, elements of a
    column."""
    w = Writer(architecture)
    pairs, size = _Pairs(w, type_, largest), TYPES[type_].size
    number = w.rd("mad.wide.u32", w.block, BLOCK, w.wide(w.tid))
    with w.when(w.p("setp.lt.u64", number, w.parameter(2))):
        inner, length = w.parameter(3), w.parameter(4)
        outer = w.rd("div.u64", number, inner)
        column = w.rd("sub.u64", number, w.rd("mul.lo.u64", outer, inner))
        first = w.rd("mad.lo.u64", w.rd("mul.lo.u64", outer, length), inner, column)
        source, step = w.at(w.parameter(0), first, size), w.rd("mul.lo.u64", inner, size)
        best, position = pairs.nothing(), w.r("mov.b32", 0)
        with w.loop() as unless:
            unless(w.p("setp.lt.u64", w.wide(position), length))
            pairs.take(best, pairs.read(w.load(pairs.memory, source)), position)
            w.line(f"add.u64 {source}, {source}, {step};")
            w.line(f"add.u32 {position}, {position}, 1;")
        _result(w, best[1], w.at(w.parameter(1), number, 4))
    return w.text(5)


def passes(call: Call) -> Iterable[Pass]:
    """Those of a step."""
    (source,), result, largest = call.operands, call.results[0], int(call.step.options[0])
    outer, length, inner = call.extents
    require_counted("extremum", length)
    arguments = (call.target.features, source.type, largest)
    if inner > 1 or length < WARP:
        yield Pass(Text("extremum of columns", arguments, _columns, 8),
                   (source.address, result.address, outer * inner, inner, length),
                   Grid(source.size, -(-outer * inner // BLOCK)))
        return
    part = max(_PART, -(-length // _MOST_PARTS))
    parts = -(-length // part)
    if parts == 1:
        yield Pass(Text("extremum", (*arguments, 0), _rows, 8), (source.address, result.address, length),
                   Grid(source.size, outer))
        return
    values, positions = call.scratch(8 * outer * parts), call.scratch(4 * outer * parts)
    yield Pass(Text("extremum", (*arguments, 1), _rows, 8),
               (source.address, positions, length, parts, part, values), Grid(source.size, outer * parts))
    yield Pass(Text("extremum of parts", arguments, _parts, 8), (values, positions, result.address, parts, outer),
               Grid(outer * parts, -(-outer // WARPS)))
