"""Stable sorting of rows, by radix from the least digit on.

Elements are ordered by *keys*, unsigned integers of as many bits: of two floats, the smaller one has the smaller key,
zeros have one key, and NaN has the largest.  Each pass moves the elements so that they are ordered by one more
*digit*, some bits of their keys: blocks count how often each digit occurs in their chunks, what combines the counts
turns them into the places where the elements of each chunk go, and a second launch moves them.  They are collected in
lines of a buffer first, one for each digit, and written line by line: thousands of places that are written to by
turns are too many for caches and address translation (4M uint32, time of the processor on a busy machine: 123 ms one
by one, 99).

Values are moved as they are.  Positions are moved together with the keys, as pairs in 64 bits, or in two arrays if
keys have as many.  Rows that are short are sorted in one launch, each by one thread; very short ones by comparing all
pairs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import NamedTuple

from ...codegen.steps import Call, Pass, Text
from ...ops.semantics import bits_of
from ...types import TYPES
from ..writer import Writer
from .blocks import in_blocks

__all__ = ["passes"]

_SMALLEST, _LARGEST = 1 << 12, 1 << 18
#: Rows of at most so many elements are sorted by one thread each, and by comparisons.
_SERIAL, _COMPARED = 1 << 14, 32
#: From so many keys of 32 bits on, three passes with larger digits are faster than four.
_MANY = 1 << 18
_UNROLLED = 4
_LINE = 64
#: What is moved: values; positions with their keys, in 64 bits; positions and keys of 64 bits.
VALUES, PAIRS, WIDE = 0, 1, 2


class _Shape(NamedTuple):
    """What texts depend on."""

    type: int
    descending: int
    mode: int
    radix: int = 8  # bits of a digit

    @property
    def digits(self) -> int:
        """Number of digits that there are."""
        return 1 << self.radix

    @property
    def passes(self) -> int:
        """How often elements are moved."""
        return -(-self.bits // self.radix)

    @property
    def bits(self) -> int:
        """Bits of an element, and of a key."""
        return 8 * TYPES[self.type].size

    @property
    def element(self) -> str:
        """The type of an element, as an integer."""
        return f"i{self.bits}"

    @property
    def moved(self) -> str:
        """The type of what is moved."""
        return self.element if self.mode == VALUES else "i64"


def passes(call: Call) -> Iterable[Pass]:
    """The launches of a sort, of values or of positions."""
    positions, descending = call.step.options
    (source,), target = call.operands, call.results[0]
    rows, length, _ = call.extents
    size = TYPES[source.type].size
    shape = _Shape(source.type, int(descending), VALUES if not positions else WIDE if size == 8 else PAIRS)
    width = size if shape.mode == VALUES else 8
    if length <= _COMPARED:
        text = Text("sort by comparison", (*shape, int(positions)), _compared, 2 * length * length)
        yield in_blocks(text, (source.address, target.address, length), rows, max(1, (1 << 14) // length))
        return
    count = source.size if length <= _SERIAL else length
    buffers = [call.scratch(count * width) if size > 1 else 0 for _ in range(2)]
    indices = [call.scratch(count * 4) if shape.mode == WIDE else 0 for _ in range(2)]
    if length <= _SERIAL:
        text = Text("sort rows", shape, _rows, 8 * size * length)
        yield in_blocks(text, (source.address, target.address, *buffers, *indices, length), rows,
                        max(1, (1 << 14) // length))
        return
    smallest = _SMALLEST
    if size == 4 and length >= _MANY:
        shape, smallest = shape._replace(radix=11), _LARGEST // 2  # so that most lines are full
    chunk = 1 << min(max(length // 16, smallest), _LARGEST).bit_length() - 1
    chunks = -(-length // chunk)
    table = call.scratch(chunks * shape.digits * 8)
    for row in range(rows):
        read, read_index = source.address + row * length * size, 0
        for number in range(shape.passes):
            first, last = int(number == 0), int(number == shape.passes - 1)
            write = target.address + row * length * (4 if positions else size) if last else buffers[number % 2]
            # a raw element differs from a key: which one is read is part of the text
            text = Text("sort: count", (*shape, first), _count, chunk, combines=True)
            shift = shape.radix * number
            yield in_blocks(text, (read, table, length, chunk, shift, chunks), chunks, 1)
            text = Text("sort: move", (*shape, first, last), _move, 4 * chunk)
            yield in_blocks(text, (read, read_index, write, indices[number % 2], table, length, chunk, shift), chunks,
                            1)
            read, read_index = write, indices[number % 2]


def _key(w: Writer, shape: _Shape, value: str) -> str:
    """The key of an element, as an i64."""
    bits, element, kind = shape.bits, shape.element, TYPES[shape.type].kind
    top = 1 << bits - 1
    if kind == "i":
        value = w(f"xor {element} {value}, {top}")
    elif kind == "f":
        infinity = bits_of(math.inf, TYPES[shape.type])
        magnitude = w(f"and {element} {value}, {top - 1}")
        is_nan = w(f"icmp ugt {element} {magnitude}, {infinity}")
        is_zero = w(f"icmp eq {element} {magnitude}, 0")
        value = w(f"select i1 {is_zero}, {element} 0, {element} {value}")
        sign = w(f"ashr {element} {value}, {bits - 1}")
        value = w(f"xor {element} {value}, {w(f'or {element} {sign}, {top}')}")
        value = w(f"select i1 {is_nan}, {element} -1, {element} {value}")
    if shape.descending:
        value = w(f"xor {element} {value}, -1")
    return value if bits == 64 else w(f"zext {element} {value} to i64")


def _digit(w: Writer, shape: _Shape, value: str, raw: bool, shift: str) -> str:
    """A byte of the key of what is moved."""
    if raw:
        key = _key(w, shape, value)
    elif shape.mode == PAIRS:  # the last digit may have more bits than are left
        key = w.and_(value, (1 << 32) - 1)
    else:
        key = value
    return w.and_(w(f"lshr i64 {key}, {shift}"), shape.digits - 1)


def _each(w: Writer, start: str, stop: str, body: object) -> None:
    """Positions, several at a time: the body gets a list of them."""
    def several(position: str, _: list[str]) -> list[str]:
        body([w.add(position, k) if k else position for k in range(_UNROLLED)])  # type: ignore[operator]
        return []

    def one(position: str, _: list[str]) -> list[str]:
        body([position])  # type: ignore[operator]
        return []

    whole = w.add(start, w.and_(w.sub(stop, start), -_UNROLLED))
    w.loop(start, whole, _UNROLLED, [], several)
    w.loop(whole, stop, 1, [], one)


def _load(w: Writer, shape: _Shape, source: str, raw: bool, position: str) -> str:
    type_ = shape.element if raw else shape.moved
    return w.load(type_, w.at(type_, source, position), int(type_[1:]) // 8)


def _is_raw(shape: _Shape, first: bool) -> bool:
    """Whether elements are read, not keys: values always are."""
    return first or shape.mode == VALUES


def _count_digits(w: Writer, shape: _Shape, first: bool, source: str, tables: list[str], start: str, stop: str,
                  shift: str) -> None:
    """Count in one table for each of the positions that are looked at together: equal digits do not wait."""
    raw = _is_raw(shape, first)

    def count(positions: list[str]) -> None:
        digits = [_digit(w, shape, _load(w, shape, source, raw, position), raw, shift) for position in positions]
        for digit, table in zip(digits, tables, strict=False):
            at = w.at("i32", table, digit)
            w.store("i32", w(f"add i32 {w.load('i32', at, 4)}, 1"), at, 4)

    _each(w, start, stop, count)


#: Writes an element, given its digit and the streams of values that belong to it.
_Put = Callable[[str, list[str]], None]


def _streams(shape: _Shape, last: bool) -> list[str]:
    """Types of what is written in a pass."""
    if shape.mode == VALUES:
        return [shape.element]
    return ["i32"] if last else ["i64", "i32"] if shape.mode == WIDE else ["i64"]


def _move_elements(w: Writer, shape: _Shape, first: bool, last: bool, source: str, source_index: str, start: str,
                   stop: str, shift: str, put: _Put) -> None:
    """Move elements; pairs have the position in their upper half."""
    raw = _is_raw(shape, first)

    def move(positions: list[str]) -> None:
        values = [_load(w, shape, source, raw, position) for position in positions]
        digits = [_digit(w, shape, value, raw, shift) for value in values]
        for position, value, digit in zip(positions, values, digits, strict=True):
            if shape.mode == VALUES:
                put(digit, [value])
                continue
            if first:
                index = w(f"trunc i64 {position} to i32")
            elif shape.mode == PAIRS:
                index = w(f"trunc i64 {w(f'lshr i64 {value}, 32')} to i32")
            else:
                index = w.load("i32", w.at("i32", source_index, position), 4)
            if last:
                put(digit, [index])
                continue
            key = _key(w, shape, value) if first else value
            if shape.mode == WIDE:
                put(digit, [key, index])
            elif first:
                high = w(f"shl i64 {w(f'zext i32 {index} to i64')}, 32")
                put(digit, [w(f"or i64 {key}, {high}")])
            else:
                put(digit, [key])

    _each(w, start, stop, move)


def _next_place(w: Writer, places: str, digit: str) -> str:
    """Where the next element with a digit goes; the one after it goes behind it."""
    at = w.at("i64", places, digit)
    place = w.load("i64", at, 8)
    w.store("i64", w.add(place, 1), at, 8)
    return place


def _put_directly(w: Writer, streams: list[str], places: str, targets: list[str]) -> _Put:
    """Write each element where it goes."""
    def put(digit: str, values: list[str]) -> None:
        place = _next_place(w, places, digit)
        for type_, value, target in zip(streams, values, targets, strict=False):
            w.store(type_, value, w.at(type_, target, place), int(type_[1:]) // 8)

    return put


class _Lines:
    """Lines of elements, one for each digit, in the stack: to be made in the entry block."""

    def __init__(self, w: Writer, shape: _Shape, streams: list[str]) -> None:
        self.writer, self.shape, self.streams = w, shape, streams
        self.count = _LINE * 8 // max(int(type_[1:]) for type_ in streams)  # elements of a line
        self.buffers = [w(f"alloca [{shape.digits * self.count} x {type_}], align {_LINE}") for type_ in streams]
        self.places = w(f"alloca [{shape.digits} x i64], align {_LINE}")

    def begin(self, starts: str) -> None:
        """Where the elements of each digit begin."""
        w = self.writer
        packet = "<8 x i64>"

        def copy(digit: str, _: list[str]) -> list[str]:
            w.store(packet, w.load(packet, w.at("i64", starts, digit), 8), w.at("i64", self.places, digit), _LINE)
            return []

        w.loop("0", str(self.shape.digits), 8, [], copy)

    def flush(self, digit: str, first: str, begin: str, end: str, targets: list[str]) -> None:
        """Write a line, whose first element belongs at ``first``: its elements from ``begin`` to ``end``."""
        w, count = self.writer, self.count
        lanes = ", ".join(f"i32 {lane}" for lane in range(count))
        line = w.mul(digit, count)
        whole = w(f"and i1 {w(f'icmp ule i64 {begin}, {first}')}, {w(f'icmp eq i64 {w.sub(end, first)}, {count}')}")

        def write(masked: bool) -> list[str]:
            if masked:
                bounds = []
                for bound in (w.call("i64", "llvm.usub.sat.i64", f"i64 {begin}", f"i64 {first}"), w.sub(end, first)):
                    number = w(f"trunc i64 {bound} to i32")
                    single = w(f"insertelement <{count} x i32> poison, i32 {number}, i64 0")
                    bounds.append(w(f"shufflevector <{count} x i32> {single}, <{count} x i32> poison, "
                                    f"<{count} x i32> zeroinitializer"))
                mask = w(f"and <{count} x i1> {w(f'icmp ule <{count} x i32> {bounds[0]}, <{lanes}>')}, "
                         + w(f"icmp ugt <{count} x i32> {bounds[1]}, <{lanes}>"))
            for type_, buffer, target in zip(self.streams, self.buffers, targets, strict=False):
                size, packet = int(type_[1:]) // 8, f"<{count} x {type_}>"
                value = w.load(packet, w.at(type_, buffer, line), size * count)
                at = w.at(type_, target, first)
                if masked:
                    w.line(f"call void @llvm.masked.store.v{count}{type_}.p0({packet} {value}, ptr {at}, i32 {size}, "
                           f"<{count} x i1> {mask})")
                else:
                    w.store(packet, value, at, size)
            return []

        w.branch(whole, lambda: write(False), lambda: write(True))

    def putting(self, starts: str, targets: list[str]) -> _Put:
        """What writes an element to its line, and the line where it goes when it is full."""
        w, count = self.writer, self.count

        def put(digit: str, values: list[str]) -> None:
            place = _next_place(w, self.places, digit)
            lane = w.and_(place, count - 1)
            slot = w.add(w.mul(digit, count), lane)
            for type_, value, buffer in zip(self.streams, values, self.buffers, strict=True):
                w.store(type_, value, w.at(type_, buffer, slot), int(type_[1:]) // 8)

            def flush() -> list[str]:
                begin = w.load("i64", w.at("i64", starts, digit), 8)
                self.flush(digit, w.sub(place, count - 1), begin, w.add(place, 1), targets)
                return []

            w.branch(w(f"icmp eq i64 {lane}, {count - 1}"), flush)

        return put

    def finish(self, starts: str, targets: list[str]) -> None:
        """Write what is left."""
        w, count = self.writer, self.count

        def line(digit: str, _: list[str]) -> list[str]:
            place = w.load("i64", w.at("i64", self.places, digit), 8)
            begin = w.load("i64", w.at("i64", starts, digit), 8)
            first = w.and_(place, -count)
            some = w(f"icmp ugt i64 {place}, {w.call('i64', 'llvm.umax.i64', f'i64 {first}', f'i64 {begin}')}")

            def flush() -> list[str]:
                self.flush(digit, first, begin, place, targets)
                return []

            w.branch(some, flush)
            return []

        w.loop("0", str(self.shape.digits), 1, [], line)


def _tables(w: Writer, digits: int) -> list[str]:
    """Tables of counts in the stack."""
    whole = w(f"alloca [{_UNROLLED * digits} x i32], align 64")
    return [w.at("i32", whole, str(k * digits)) for k in range(_UNROLLED)]


def _clear(w: Writer, digits: int, tables: list[str]) -> None:
    """Set all counts to zero."""
    def clear(digit: str, _: list[str]) -> list[str]:
        w.store("<16 x i32>", "zeroinitializer", w.at("i32", tables[0], digit), 64)
        return []

    w.loop("0", str(_UNROLLED * digits), 16, [], clear)


def _sum(w: Writer, tables: list[str], digit: str) -> str:
    """How often a digit was counted."""
    counts = [w.load("i32", w.at("i32", table, digit), 4) for table in tables]
    while len(counts) > 1:
        counts = [w(f"add i32 {a}, {b}") for a, b in zip(counts[::2], counts[1::2], strict=True)]
    return w(f"zext i32 {counts[0]} to i64")


def _bounds(w: Writer, number: str, size: str, chunk: str) -> tuple[str, str]:
    start = w.mul(number, chunk)
    return start, w.minimum(w.add(start, chunk), size)


def _count(type_: int, descending: int, mode: int, radix: int, first: int) -> str:
    """Counts the digits of each chunk; then, where the elements of each chunk go."""
    shape, w = _Shape(type_, descending, mode, radix), Writer()
    w.kernel()
    tables = _tables(w, shape.digits)
    source, table = w.parameter(0, "ptr"), w.parameter(1, "ptr")
    size, chunk, shift = w.parameter(2), w.parameter(3), w.parameter(4)

    def task(number: str, _: list[str]) -> list[str]:
        start, stop = _bounds(w, number, size, chunk)
        _clear(w, shape.digits, tables)
        _count_digits(w, shape, bool(first), source, tables, start, stop, shift)
        counts = w.at("i64", table, w.mul(number, shape.digits))

        def write(digit: str, _: list[str]) -> list[str]:
            w.store("i64", _sum(w, tables, digit), w.at("i64", counts, digit), 8)
            return []

        w.loop("0", str(shape.digits), 1, [], write)
        return []

    w.loop("%begin", "%end", 1, [], task)
    w.end()
    _add_up(w, shape)
    return w.text()


def _add_up(w: Writer, shape: _Shape) -> None:
    """What combines the counts: first those of each digit over the chunks, then those of all digits."""
    packet = "<8 x i64>"
    w.combine()
    totals = w(f"alloca [{shape.digits} x i64], align 64")
    table, chunks = w.parameter(1, "ptr"), w.parameter(5)

    def over_chunks(digit: str, _: list[str]) -> list[str]:
        def chunk(number: str, values: list[str]) -> list[str]:
            at = w.at("i64", table, w.add(w.mul(number, shape.digits), digit))
            count = w.load(packet, at, 8)
            w.store(packet, values[0], at, 8)
            return [w(f"add {packet} {values[0]}, {count}")]

        found = w.loop("0", chunks, 1, [(packet, "zeroinitializer")], chunk)
        w.store(packet, found[0], w.at("i64", totals, digit), 64)
        return []

    def over_digits(digit: str, values: list[str]) -> list[str]:
        at = w.at("i64", totals, digit)
        count = w.load("i64", at, 8)
        w.store("i64", values[0], at, 8)
        return [w.add(values[0], count)]

    def add(number: str, _: list[str]) -> list[str]:
        row = w.at("i64", table, w.mul(number, shape.digits))

        def digits(digit: str, _: list[str]) -> list[str]:
            at = w.at("i64", row, digit)
            sum_ = w(f"add {packet} {w.load(packet, at, 8)}, {w.load(packet, w.at('i64', totals, digit), 64)}")
            w.store(packet, sum_, at, 8)
            return []

        w.loop("0", str(shape.digits), 8, [], digits)
        return []

    w.loop("0", str(shape.digits), 8, [], over_chunks)
    w.loop("0", str(shape.digits), 1, [("i64", "0")], over_digits)
    w.loop("0", chunks, 1, [], add)
    w.end()


def _move(type_: int, descending: int, mode: int, radix: int, first: int, last: int) -> str:
    """Moves the elements of each chunk."""
    shape, w = _Shape(type_, descending, mode, radix), Writer()
    w.kernel()
    lines = _Lines(w, shape, _streams(shape, bool(last)))
    source, source_index, target, target_index, table = (w.parameter(number, "ptr") for number in range(5))
    size, chunk, shift = (w.parameter(number) for number in range(5, 8))
    targets = [target, target_index][:len(lines.streams)]

    def task(number: str, _: list[str]) -> list[str]:
        start, stop = _bounds(w, number, size, chunk)
        starts = w.at("i64", table, w.mul(number, shape.digits))
        lines.begin(starts)
        _move_elements(w, shape, bool(first), bool(last), source, source_index, start, stop, shift,
                       lines.putting(starts, targets))
        lines.finish(starts, targets)
        return []

    w.loop("%begin", "%end", 1, [], task)
    w.end()
    return w.text()


def _rows(type_: int, descending: int, mode: int, radix: int) -> str:
    """A task is a row, with all passes."""
    shape, w = _Shape(type_, descending, mode, radix), Writer()
    w.kernel()
    tables = _tables(w, shape.digits)
    places = w(f"alloca [{shape.digits} x i64], align 64")
    source, target, *buffers = (w.parameter(number, "ptr") for number in range(6))
    length = w.parameter(6)

    def task(number: str, _: list[str]) -> list[str]:
        begin = w.mul(number, length)
        read, read_index = w.at(shape.element, source, begin), source
        for byte in range(shape.bits // 8):
            first, last = byte == 0, byte == shape.bits // 8 - 1
            if last:
                write = w.at(shape.element if shape.mode == VALUES else "i32", target, begin)
            else:
                write = w.at(shape.moved, buffers[byte % 2], begin)
            write_index = w.at("i32", buffers[2 + byte % 2], begin)
            shift = str(shape.radix * byte)
            _clear(w, shape.digits, tables)
            _count_digits(w, shape, first, read, tables, "0", length, shift)

            def add_up(digit: str, values: list[str]) -> list[str]:
                w.store("i64", values[0], w.at("i64", places, digit), 8)
                return [w.add(values[0], _sum(w, tables, digit))]

            w.loop("0", str(shape.digits), 1, [("i64", "0")], add_up)
            _move_elements(w, shape, first, last, read, read_index, "0", length, shift,
                           _put_directly(w, _streams(shape, last), places, [write, write_index]))
            read, read_index = write, write_index
        return []

    w.loop("%begin", "%end", 1, [], task)
    w.end()
    return w.text()


def _compared(type_: int, descending: int, mode: int, radix: int, positions: int) -> str:
    """A task is a row: the place of an element is the number of those that come before it."""
    shape, w = _Shape(type_, descending, mode, radix), Writer()
    element, size = shape.element, shape.bits // 8
    w.kernel()
    keys = w(f"alloca [{_COMPARED} x i64], align 64")
    source, target, length = w.parameter(0, "ptr"), w.parameter(1, "ptr"), w.parameter(2)

    def task(number: str, _: list[str]) -> list[str]:
        begin = w.mul(number, length)
        row = w.at(element, source, begin)
        result = w.at("i32" if positions else element, target, begin)

        def prepare(position: str, _: list[str]) -> list[str]:
            key = _key(w, shape, w.load(element, w.at(element, row, position), size))
            w.store("i64", key, w.at("i64", keys, position), 8)
            return []

        def place(position: str, _: list[str]) -> list[str]:
            key = w.load("i64", w.at("i64", keys, position), 8)

            def compare(condition: str) -> object:
                def count(other: str, values: list[str]) -> list[str]:
                    before = w(f"icmp {condition} i64 {w.load('i64', w.at('i64', keys, other), 8)}, {key}")
                    return [w.add(values[0], w(f"zext i1 {before} to i64"))]

                return count

            found = w.loop("0", position, 1, [("i64", "0")], compare("ule"))  # type: ignore[arg-type]
            found = w.loop(w.add(position, 1), length, 1, [("i64", found[0])], compare("ult"))  # type: ignore[arg-type]
            if positions:
                w.store("i32", w(f"trunc i64 {position} to i32"), w.at("i32", result, found[0]), 4)
            else:
                w.store(element, w.load(element, w.at(element, row, position), size), w.at(element, result, found[0]),
                        size)
            return []

        w.loop("0", length, 1, [], prepare)
        w.loop("0", length, 1, [], place)
        return []

    w.loop("%begin", "%end", 1, [], task)
    w.end()
    return w.text()
