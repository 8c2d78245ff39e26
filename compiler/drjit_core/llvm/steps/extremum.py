"""Positions of the smallest or largest elements along the middle one of three extents: the first one of equals.

NaN is passed over, as in minimum and maximum; the position is 0 where there is nothing else.

A lane keeps the best value that it has seen, and where; chunks of a long row do so independently, and are compared in
the end.  Rows that are no neighbours are compared side by side, like those of a scan.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...codegen.steps import Call, Pass, Text
from ...ops.reductions import REDUCTIONS
from ...types import BOOL, COMPUTES_IN, INT32, TYPES, ReduceOp
from ..texts import TypeText, constant, vector
from ..writer import Writer
from .blocks import in_blocks
from .packets import Elements, lanes_of

__all__ = ["passes"]

_SMALLEST, _LARGEST = 1 << 14, 1 << 18
_STRIP = 1 << 9
_UNROLLED = 4
#: Position of a lane that has seen nothing better than what it began with.
_NOWHERE = (1 << 31) - 1


def passes(call: Call) -> Iterable[Pass]:
    """The launches of a search."""
    (largest,), (outer, length, inner) = call.step.options, call.extents
    (source,), target = call.operands, call.results[0]
    block = 1 << min(max(source.size // 16, _SMALLEST), _LARGEST).bit_length() - 1
    if inner > 1:
        strip = min(_STRIP, inner)
        strips = -(-inner // strip)
        text = Text("search strips", (source.type, largest), _strips, 8 * length * strip)
        values = call.scratch(source.size // length * TYPES[COMPUTES_IN[source.type]].size)
        yield in_blocks(text, (source.address, target.address, values, length, inner, strip, strips), outer * strips,
                        max(1, block // (length * strip)))
        return
    chunk = min(block, length)
    chunks = -(-length // chunk)
    partials = call.scratch(outer * chunks * 16) if chunks > 1 else 0
    text = Text("search rows", (source.type, largest, int(chunks > 1)), _rows, 3 * chunk, combines=chunks > 1)
    yield in_blocks(text, (source.address, target.address, partials, length, chunk, chunks, outer), outer * chunks,
                    max(1, block // chunk))


class _Search:
    """What the texts have in common: types, and which of two elements is the better one."""

    def __init__(self, type_: int, largest: int) -> None:
        self.writer = Writer()
        self.type = type_
        self.lanes = lanes_of(type_)
        self.elements = Elements(self.writer, type_, self.lanes)
        self.single = Elements(self.writer, type_, 0)
        op = ReduceOp.Max.value if largest else ReduceOp.Min.value
        worst = (0 if largest else 1) if type_ == BOOL else REDUCTIONS[op].identity(type_)
        self.worst = constant(self.elements.held, worst)
        kind = TYPES[self.elements.held].kind
        side = "gt" if largest else "lt"
        self.better = f"fcmp o{side}" if kind == "f" else f"icmp {'s' if kind == 'i' else 'u'}{side}"
        self.equal = "fcmp oeq" if kind == "f" else "icmp eq"
        self.is_float = kind == "f"

    def best(self, elements: Elements, position: str, a: tuple[str, str], b: tuple[str, str]) -> tuple[str, str]:
        """The better one of two values with their positions, the earlier one of equals."""
        w, register = self.writer, elements.register
        mask = register.mask
        wins = w(f"{self.better} {register} {b[0]}, {a[0]}")
        same = w(f"{self.equal} {register} {b[0]}, {a[0]}")
        earlier = w(f"icmp ult {position} {b[1]}, {a[1]}")
        wins = w(f"or {mask} {wins}, {w(f'and {mask} {same}, {earlier}')}")
        return (w(f"select {mask} {wins}, {register} {b[0]}, {register} {a[0]}"),
                w(f"select {mask} {wins}, {position} {b[1]}, {position} {a[1]}"))

    def found(self, base: str, first: str, length: str, step: str, position: str) -> str:
        """The position in a row, of which nothing may have been better than the worst value: then the first number."""
        w, stored = self.writer, self.single.stored
        nowhere = w(f"icmp eq i64 {position}, {_NOWHERE}")

        def search() -> list[str]:
            if not self.is_float:
                return ["0"]

            def look(index: str, values: list[str]) -> list[str]:
                value = self.single.load(w.at(stored, base, w.add(first, w.mul(index, step))))
                number = w(f"fcmp ord {self.single.register} {value}, {value}")
                unknown = w(f"icmp eq i64 {values[0]}, {_NOWHERE}")
                here = w(f"and i1 {number}, {unknown}")
                return [w(f"select i1 {here}, i64 {index}, i64 {values[0]}")]

            where, = w.loop("0", length, 1, [("i64", str(_NOWHERE))], look)
            none = w(f"icmp eq i64 {where}, {_NOWHERE}")
            return [w(f"select i1 {none}, i64 0, i64 {where}")]

        return w.branch(nowhere, search, lambda: [position], ["i64"])[0]

    def write(self, target: str, index: str, position: str) -> None:
        """Store a position."""
        w = self.writer
        w.store("i32", w(f"trunc i64 {position} to i32"), w.at("i32", target, index), 4)


def _rows(type_: int, largest: int, chunked: int) -> str:
    """A task is a row, or a chunk of one."""
    search = _Search(type_, largest)
    w, elements, lanes = search.writer, search.elements, search.lanes
    register, places = elements.register, TypeText(TYPES[INT32], lanes)
    worst = register.splat(search.worst)
    w.kernel()
    source, target, partials = (w.parameter(number, "ptr") for number in range(3))
    length, chunk, chunks = (w.parameter(number) for number in range(3, 6))
    numbers = vector("i32", range(lanes))

    def task(number: str, _: list[str]) -> list[str]:
        row = w.udiv(number, chunks)
        begin = w.mul(w.sub(number, w.mul(row, chunks)), chunk)
        first = w.add(w.mul(row, length), begin)
        count = w.minimum(chunk, w.sub(length, begin))

        def look(position: str, best: list[str], mask: str, offset: int) -> list[str]:
            at = w.add(w.add(first, position), offset)
            value = elements.load(w.at(elements.stored.element, source, at), mask)
            wins = w(f"{search.better} {register} {value}, {best[0]}")
            if mask:
                wins = w(f"and {register.mask} {wins}, {mask}")
            here = w.splat(places, w(f"trunc i64 {w.add(position, offset)} to i32"))
            return [w(f"select {register.mask} {wins}, {register} {value}, {register} {best[0]}"),
                    w(f"select {register.mask} {wins}, {places} {here}, {places} {best[1]}")]

        def several(position: str, values: list[str]) -> list[str]:
            return [value for k in range(_UNROLLED)
                    for value in look(position, values[2 * k:2 * k + 2], "", k * lanes)]

        def one(position: str, values: list[str]) -> list[str]:
            return look(position, values, elements.mask(w.sub(count, position)), 0)

        whole = w.and_(count, -_UNROLLED * lanes)
        start = [(register, worst), (places, f"splat (i32 {_NOWHERE})")]
        values = w.loop("0", whole, _UNROLLED * lanes, start * _UNROLLED, several)
        values += w.loop(whole, count, lanes, start, one)
        # from positions of packets to those of elements; nowhere stays so
        found = []
        for k in range(0, len(values), 2):
            nowhere = w(f"icmp eq {places} {values[k + 1]}, splat (i32 {_NOWHERE})")
            place = w(f"select <{lanes} x i1> {nowhere}, {places} {values[k + 1]}, {places} "
                      + w(f"add {places} {values[k + 1]}, {numbers}"))
            found.append((values[k], place))
        while len(found) > 1:
            found[:2] = [search.best(elements, places, found[0], found[1])]
        # one lane after the other: LLVM 22 gets rotations of <8 x double>, of which one lane is wanted, wrong
        pairs = [(elements.element(found[0][0], lane), w(f"extractelement {places} {found[0][1]}, i64 {lane}"))
                 for lane in range(lanes)]
        while len(pairs) > 1:
            pairs = [search.best(search.single, "i32", a, b) for a, b in zip(pairs[::2], pairs[1::2], strict=True)]
        value, place = pairs[0]
        position = w(f"zext i32 {place} to i64")
        if chunked:
            at = w(f"getelementptr i8, ptr {partials}, i64 {w.mul(number, 16)}")
            w.store(search.single.register, value, at, 8)
            nowhere = w(f"icmp eq i64 {position}, {_NOWHERE}")
            place = w(f"select i1 {nowhere}, i64 -1, i64 {w.add(begin, position)}")  # in the row
            w.store("i64", place, w(f"getelementptr i8, ptr {at}, i64 8"), 8)
        else:
            search.write(target, row, search.found(source, first, length, "1", position))
        return []

    w.loop("%begin", "%end", 1, [], task)
    w.end()
    if chunked:
        _combine_chunks(search)
    return w.text()


def _combine_chunks(search: _Search) -> None:
    """What combines chunks: the first one of those with the best value."""
    w, single = search.writer, search.single
    w.combine()
    source, target, partials = (w.parameter(number, "ptr") for number in range(3))
    length, chunks, outer = w.parameter(3), w.parameter(5), w.parameter(6)

    def row(number: str, _: list[str]) -> list[str]:
        def chunk(which: str, values: list[str]) -> list[str]:
            index = w.add(w.mul(number, chunks), which)
            at = w(f"getelementptr i8, ptr {partials}, i64 {w.mul(index, 16)}")
            value = w.load(single.register, at, 8)
            position = w.load("i64", w(f"getelementptr i8, ptr {at}, i64 8"), 8)
            return list(search.best(single, "i64", (values[0], values[1]), (value, position)))

        found = w.loop("0", chunks, 1, [(single.register, search.worst), ("i64", "-1")], chunk)
        none = w(f"icmp eq i64 {found[1]}, -1")

        def search_number() -> list[str]:
            return [search.found(source, w.mul(number, length), length, "1", str(_NOWHERE))]

        position, = w.branch(none, search_number, lambda: [found[1]], ["i64"])
        search.write(target, number, position)
        return []

    w.loop("0", outer, 1, [], row)
    w.end()


def _strips(type_: int, largest: int) -> str:
    """A task is a strip of columns."""
    search = _Search(type_, largest)
    w, elements, lanes = search.writer, search.elements, search.lanes
    held = Elements(w, elements.held, lanes)
    register, places = elements.register, TypeText(TYPES[INT32], lanes)
    w.kernel()
    source, target, best = (w.parameter(number, "ptr") for number in range(3))
    length, inner, strip, strips = (w.parameter(number) for number in range(3, 7))
    positions = Elements(w, 8, lanes)  # uint32

    def task(number: str, _: list[str]) -> list[str]:
        outer = w.udiv(number, strips)
        column = w.mul(w.sub(number, w.mul(outer, strips)), strip)
        count = w.minimum(strip, w.sub(inner, column))
        result = w.add(w.mul(outer, inner), column)
        first = w.add(w.mul(w.mul(outer, length), inner), column)
        values, where = w.at(held.stored.element, best, result), w.at("i32", target, result)
        whole = w.and_(count, -lanes)

        def begin(position: str, mask: str) -> None:
            held.store(register.splat(search.worst), w.at(held.stored.element, values, position), mask)
            positions.store(f"splat (i32 {_NOWHERE})", w.at("i32", where, position), mask)

        def row(index: str, _: list[str]) -> list[str]:
            base = w.at(elements.stored.element, source, w.add(first, w.mul(index, inner)))
            single = w(f"insertelement {places} poison, i32 {w(f'trunc i64 {index} to i32')}, i64 0")
            here = w(f"shufflevector {places} {single}, {places} poison, {places} zeroinitializer")

            def step(position: str, mask: str) -> None:
                at, place = w.at(held.stored.element, values, position), w.at("i32", where, position)
                value = elements.load(w.at(elements.stored.element, base, position), mask)
                old, old_place = held.load(at, mask), positions.load(place, mask)
                wins = w(f"{search.better} {register} {value}, {old}")
                held.store(w(f"select {register.mask} {wins}, {register} {value}, {register} {old}"), at, mask)
                positions.store(w(f"select {register.mask} {wins}, {places} {here}, {places} {old_place}"), place, mask)

            elements.over(count, whole, step)
            return []

        def finish(position: str, _: list[str]) -> list[str]:
            at = w.at("i32", where, position)
            place = w(f"zext i32 {w.load('i32', at, 4)} to i64")
            found = search.found(source, w.add(first, position), length, inner, place)
            w.store("i32", w(f"trunc i64 {found} to i32"), at, 4)
            return []

        elements.over(count, whole, begin)
        w.loop("0", length, 1, [], row)
        w.loop("0", count, 1, [], finish)
        return []

    w.loop("%begin", "%end", 1, [], task)
    w.end()
    return w.text()
