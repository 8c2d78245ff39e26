"""Running reductions (scans) along the middle one of three extents.

A *row* is what is scanned.  Rows of neighbours are scanned packet by packet, by shuffles in registers; several packets
at once hide the latency of the carry.  Other rows are scanned side by side, a strip of columns at a time, with a row of
running results in the first-level cache.

A long row is cut into chunks: a first pass reduces each, what combines the results turns them into the values that
chunks begin with, and the second pass scans.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...codegen.steps import Call, Pass, Text
from ...types import FLOAT16, FLOAT32, TYPES
from .. import jit
from .packets import Accumulation, Elements, lanes_of
from .writer import Writer

__all__ = ["passes"]

#: Elements of a chunk, and of a block: 16 blocks, but no smaller ones than these, and none larger.
_SMALLEST, _LARGEST = 1 << 14, 1 << 18
#: Columns of a strip.
_STRIP = 1 << 11
_UNROLLED = 8


def _chunk(size: int) -> int:
    """Elements of a block, for an array of some size: a power of two."""
    return 1 << min(max(size // 16, _SMALLEST), _LARGEST).bit_length() - 1


def passes(call: Call) -> Iterable[Pass]:
    """The launches of a scan."""
    outer, length, inner = call.extents
    return _along_rows(call, length) if inner == 1 else _along_columns(call, outer, length, inner)


# --- rows of neighbours ----------------------------------------------------------------------------------------------


def _along_rows(call: Call, length: int) -> Iterable[Pass]:
    (op, exclusive, reverse) = call.step.options
    (source,), target = call.operands, call.results[0]
    size, type_ = source.size, source.type
    lanes, block = lanes_of(type_), _chunk(size)
    rows = -(-size // length)  # the last one may be shorter
    if length <= lanes:
        text = Text("scan packets", (type_, op, exclusive, reverse, length), _packets, 8)
        each = lanes // length * length  # elements of a packet
        yield Pass(text, (source.address, target.address), size, block // each * each)
        return
    chunk = min(block, length)
    chunks = -(-length // chunk)
    aligned = (rows == 1 or length % lanes == 0) and (not reverse or size % lanes == 0)
    streamed = int(aligned and source.nbytes + target.nbytes > call.cache_bytes)
    words = (source.address, target.address, 0, size, length, chunk, chunks)
    if chunks > 1:
        partials = call.scratch(rows * chunks * 8)
        words = (*words[:2], partials, *words[3:])
        text = Text("scan chunks", (type_, op, exclusive, reverse), _reduce_chunks, 4 * chunk, combines=True)
        yield Pass(text, words, rows * chunks, 1)
    text = Text("scan rows", (type_, op, exclusive, reverse, int(chunks > 1), streamed), _rows, 8 * chunk)
    yield Pass(text, words, rows * chunks, max(1, block // chunk))


class _Scan:
    """What the texts have in common: the operator, and the direction."""

    def __init__(self, type_: int, op: int, exclusive: int, reverse: int) -> None:
        self.writer = Writer()
        self.lanes = lanes_of(type_)
        self.elements = Elements(self.writer, type_, self.lanes)
        self.combine = Accumulation(self.elements, op)
        self.exclusive, self.reverse = exclusive, reverse
        self.first = self.combine.empty if exclusive else self.combine.neutral

    def shifted(self, value: str, distance: int, segment: int) -> str:
        """Each lane gets the value of the lane that comes so far before it in its segment, or the neutral element."""
        indices = []
        for lane in range(self.lanes):
            place = (segment - 1 - lane % segment) if self.reverse else lane % segment
            other = lane + distance if self.reverse else lane - distance
            indices.append(other if place >= distance else self.lanes + lane)
        return self.elements.shuffle(value, self.combine.neutrals, indices)

    def scanned(self, value: str, segment: int) -> str:
        """The inclusive scan of each segment of a packet."""
        distance = 1
        while distance < segment:
            value = self.combine(self.shifted(value, distance, segment), value)
            distance *= 2
        return value

    def carried(self, carry: str, inclusive: str) -> tuple[str, str]:
        """The result for a packet, and the carry after it."""
        lanes = self.lanes
        total = self.elements.shuffle(inclusive, "poison", [0 if self.reverse else lanes - 1] * lanes)
        value = self.shifted(inclusive, 1, lanes) if self.exclusive else inclusive
        return self.combine(carry, value), self.combine(carry, total)

    def address(self, base: str, end: str, position: str, offset: int) -> str:
        """Where a packet lies that begins at a position of a row, or at a position from its end."""
        w = self.writer
        if self.reverse:
            index = w.sub(end, w.add(position, offset + self.lanes))
        else:
            index = w.add(position, offset) if offset else position
        return w.at(self.elements.stored.element, base, index)


def _packets(type_: int, op: int, exclusive: int, reverse: int, length: int) -> str:
    """Each packet has as many whole rows as fit."""
    scan = _Scan(type_, op, exclusive, reverse)
    w, elements = scan.writer, scan.elements
    each = scan.lanes // length * length
    first = elements.register.splat(scan.first)
    w.kernel()
    source, target = w.parameter(0, "ptr"), w.parameter(1, "ptr")
    usual = elements.mask(str(each)) if each < scan.lanes else ""

    def packet(position: str, mask: str) -> None:
        value = scan.combine.load(w.at(elements.stored.element, source, position), mask)
        value = scan.scanned(value, length)
        if exclusive:
            value = scan.shifted(value, 1, length)
        value = scan.combine(first, value)
        elements.store(value, w.at(elements.stored.element, target, position), mask)

    def whole(position: str, _: list[str]) -> list[str]:
        for number in range(4):
            packet(w.add(position, number * each), usual)
        return []

    def rest(position: str, _: list[str]) -> list[str]:
        packet(position, elements.mask(w.minimum(w.sub("%end", position), str(each))))
        return []

    count = w.sub("%end", "%begin")
    stop = w.add("%begin", w.mul(w.udiv(count, 4 * each), 4 * each))
    w.loop("%begin", stop, 4 * each, [], whole)
    w.loop(stop, "%end", each, [], rest)
    w.end()
    return w.text()


def _task(scan: _Scan, task: str, words: list[str]) -> tuple[str, str, str, str]:
    """Of a task (the number of a chunk): where its row begins, and ends, and its positions in it."""
    w = scan.writer
    size, length, chunk, chunks = words
    row = w.udiv(task, chunks)
    number = w.sub(task, w.mul(row, chunks))
    begin = w.mul(row, length)
    end = w.minimum(w.add(begin, length), size)
    start = w.mul(number, chunk)
    stop = w.minimum(w.add(start, chunk), w.sub(end, begin))
    return begin, end, start, w.call("i64", "llvm.umax.i64", f"i64 {start}", f"i64 {stop}")


def _rows(type_: int, op: int, exclusive: int, reverse: int, chunked: int, streamed: int) -> str:
    """A task is a row, or a chunk of one."""
    scan = _Scan(type_, op, exclusive, reverse)
    w, elements, lanes = scan.writer, scan.elements, scan.lanes
    register, stored = elements.register, elements.stored.element
    w.kernel()
    source, target, partials = (w.parameter(number, "ptr") for number in range(3))
    words = [w.parameter(number) for number in range(3, 7)]

    def task(number: str, _: list[str]) -> list[str]:
        begin, end, start, stop = _task(scan, number, words)
        sources, targets = (base if reverse else w.at(stored, base, begin) for base in (source, target))
        carry = elements.register.splat(scan.first)
        if chunked:
            scalar = elements.register.element
            carry = elements.splat(w.load(scalar, w(f"getelementptr i64, ptr {partials}, i64 {number}"), 8))

        def several(position: str, values: list[str]) -> list[str]:
            carry = values[0]
            packets = [scan.combine.load(scan.address(sources, end, position, k * lanes)) for k in range(_UNROLLED)]
            scanned = [scan.scanned(packet, lanes) for packet in packets]
            for k, inclusive in enumerate(scanned):
                result, carry = scan.carried(carry, inclusive)
                elements.store(result, scan.address(targets, end, position, k * lanes), "", bool(streamed))
            return [carry]

        def one(position: str, values: list[str]) -> list[str]:
            left = w.sub(stop, position)
            mask = elements.mask(left, bool(reverse))
            packet = scan.combine.load(scan.address(sources, end, position, 0), mask)
            result, carry = scan.carried(values[0], scan.scanned(packet, lanes))
            elements.store(result, scan.address(targets, end, position, 0), mask)
            return [carry]

        step = _UNROLLED * lanes
        whole = w.add(start, w.and_(w.sub(stop, start), -step))
        carry, = w.loop(start, whole, step, [(register, carry)], several)
        w.loop(whole, stop, lanes, [(register, carry)], one)
        return []

    w.loop("%begin", "%end", 1, [], task)
    if streamed and jit.is_x86():
        w.line("call void @llvm.x86.sse.sfence()")
    w.end()
    return w.text()


def _reduce_chunks(type_: int, op: int, exclusive: int, reverse: int) -> str:
    """Reduces each chunk, and makes of the results what each chunk begins with."""
    scan = _Scan(type_, op, exclusive, reverse)
    w, elements, lanes = scan.writer, scan.elements, scan.lanes
    register = elements.register
    w.kernel()
    source, partials = w.parameter(0, "ptr"), w.parameter(2, "ptr")
    words = [w.parameter(number) for number in range(3, 7)]

    def task(number: str, _: list[str]) -> list[str]:
        begin, end, start, stop = _task(scan, number, words)
        base = source if reverse else w.at(elements.stored.element, source, begin)

        def several(position: str, values: list[str]) -> list[str]:
            return [scan.combine(value, scan.combine.load(scan.address(base, end, position, k * lanes)))
                    for k, value in enumerate(values)]

        def one(position: str, values: list[str]) -> list[str]:
            left = w.sub(stop, position)
            mask = elements.mask(left, bool(reverse))
            return [scan.combine(values[0], scan.combine.load(scan.address(base, end, position, 0), mask))]

        step = _UNROLLED * lanes
        whole = w.add(start, w.and_(w.sub(stop, start), -step))
        sums = w.loop(start, whole, step, [(register, scan.combine.neutrals)] * _UNROLLED, several)
        while len(sums) > 1:
            sums = [scan.combine(a, b) for a, b in zip(sums[::2], sums[1::2], strict=True)]
        last, = w.loop(whole, stop, lanes, [(register, scan.combine.neutrals)], one)
        total = scan.combine.total(scan.combine(sums[0], last))
        w.store(register.element, total, w(f"getelementptr i64, ptr {partials}, i64 {number}"), 8)
        return []

    w.loop("%begin", "%end", 1, [], task)
    w.end()
    _scan_partials(w, type_, op, scan.first)
    return w.text()


def _scan_partials(w: Writer, type_: int, op: int, first: str) -> None:
    """What combines the results of chunks: an exclusive scan of those of each row."""
    scalars = Elements(w, type_, 0)
    combine = Accumulation(scalars, op)
    w.combine()
    partials, chunks = w.parameter(2, "ptr"), w.parameter(6)

    def row(start: str, _: list[str]) -> list[str]:
        def chunk(number: str, values: list[str]) -> list[str]:
            at = w(f"getelementptr i64, ptr {partials}, i64 {number}")
            following = combine(values[0], w.load(scalars.register, at, 8))
            w.store(scalars.register, values[0], at, 8)
            return [following]

        w.loop(start, w.add(start, chunks), 1, [(scalars.register, first)], chunk)
        return []

    w.loop("0", "%blocks", chunks, [], row)
    w.end()


# --- rows side by side -----------------------------------------------------------------------------------------------


def _along_columns(call: Call, outer: int, length: int, inner: int) -> Iterable[Pass]:
    (op, exclusive, reverse) = call.step.options
    (source,), target = call.operands, call.results[0]
    type_ = source.type
    block = _chunk(source.size)
    strip = min(_STRIP, inner)
    strips = -(-inner // strip)
    chunks = max(1, min(16 // (outer * strips), length * strip // _SMALLEST))
    chunk = -(-length // chunks)
    chunks = -(-length // chunk)
    held = 4 if type_ == FLOAT16 else TYPES[type_].size
    running = call.scratch(outer * chunks * inner * held)
    words = (source.address, target.address, running, length, inner, chunk, chunks, strip, strips, outer)
    width, tasks = outer * chunks * strips, max(1, block // (chunk * strip))
    work = chunk * strip
    if chunks > 1:
        text = Text("scan strips: reduce", (type_, op, exclusive, reverse, 1), _strips, 8 * work, combines=True)
        yield Pass(text, words, width, tasks)
    text = Text("scan strips", (type_, op, exclusive, reverse, 2 if chunks > 1 else 0), _strips, 8 * work)
    yield Pass(text, words, width, tasks)


def _strips(type_: int, op: int, exclusive: int, reverse: int, phase: int) -> str:
    """A task is a strip of columns in a chunk of rows.  Phases: 0, one chunk; 1, only reduces chunks; 2, goes on from
    what these begin with."""
    scan = _Scan(type_, op, exclusive, reverse)
    w, elements, lanes = scan.writer, scan.elements, scan.lanes
    combine, held = scan.combine, Elements(w, FLOAT32 if type_ == FLOAT16 else type_, lanes)
    w.kernel()
    source, target, running = (w.parameter(number, "ptr") for number in range(3))
    length, inner, chunk, chunks, strip, strips = (w.parameter(number) for number in range(3, 9))
    first = elements.register.splat(combine.neutral if phase == 1 else scan.first)

    def task(number: str, _: list[str]) -> list[str]:
        part = w.udiv(number, strips)  # of an outer index: a chunk
        place = w.sub(number, w.mul(part, strips))
        outer = w.udiv(part, chunks)
        which = w.sub(part, w.mul(outer, chunks))
        column = w.mul(place, strip)
        count = w.minimum(strip, w.sub(inner, column))
        sums = w.at(held.stored.element, running, w.add(w.mul(part, inner), column))
        start = w.mul(which, chunk)
        stop = w.minimum(w.add(start, chunk), length)
        stop = w.call("i64", "llvm.umax.i64", f"i64 {start}", f"i64 {stop}")
        whole = w.and_(count, -lanes)

        def begin(position: str, mask: str) -> None:
            held.store(first, w.at(held.stored.element, sums, position), mask)

        def row(number: str, _: list[str]) -> list[str]:
            at = w.sub(w.sub(length, "1"), number) if reverse else number
            index = w.add(w.mul(outer, length), at)
            offset = w.add(w.mul(index, inner), column)
            inputs, outputs = (w.at(elements.stored.element, base, offset) for base in (source, target))

            def step(position: str, mask: str) -> None:
                so_far = w.at(held.stored.element, sums, position)
                before = held.load(so_far, mask)
                after = combine(before, combine.load(w.at(elements.stored.element, inputs, position), mask))
                held.store(after, so_far, mask)
                if phase != 1:
                    elements.store(before if exclusive else after, w.at(elements.stored.element, outputs, position),
                                   mask)

            elements.over(count, whole, step)
            return []

        if phase != 2:
            elements.over(count, whole, begin)
        w.loop(start, stop, 1, [], row)
        return []

    w.loop("%begin", "%end", 1, [], task)
    w.end()
    if phase == 1:
        _scan_running(w, type_, op, scan.first)
    return w.text()


def _scan_running(w: Writer, type_: int, op: int, first: str) -> None:
    """What combines the results of chunks: an exclusive scan, column by column."""
    scalars = Elements(w, FLOAT32 if type_ == FLOAT16 else type_, 0)
    combine = Accumulation(Elements(w, type_, 0), op)
    stored = scalars.stored
    w.combine()
    running = w.parameter(2, "ptr")
    inner, chunks, outer = w.parameter(4), w.parameter(6), w.parameter(9)

    def each(number: str, _: list[str]) -> list[str]:
        row = w.udiv(number, inner)
        column = w.sub(number, w.mul(row, inner))
        base = w.add(w.mul(w.mul(row, chunks), inner), column)

        def chunk(which: str, values: list[str]) -> list[str]:
            at = w.at(stored.element, running, w.add(base, w.mul(which, inner)))
            following = combine(values[0], w.load(stored, at, scalars.size))
            w.store(stored, values[0], at, scalars.size)
            return [following]

        w.loop("0", chunks, 1, [(scalars.register, first)], chunk)
        return []

    w.loop("0", w.mul(outer, inner), 1, [], each)
    w.end()
