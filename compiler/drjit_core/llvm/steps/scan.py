"""Running reductions (scans) along the middle one of three extents.

A *row* is what is scanned.  Rows of neighbours are scanned packet by packet, by shuffles in registers; several packets
at once hide the latency of the carry.  Other rows are scanned side by side, a strip of columns at a time, with a row of
running results in the first-level cache.

A long row is cut into chunks that a core's cache holds.  A task reduces its chunk, publishes the total, looks back for
what its chunk begins with, publishes what the next one begins with, and scans the chunk, which it finds in the cache:
memory is read and written once.  (Decoupled look-back: Merrill and Garland, "Single-pass parallel prefix scan with
decoupled look-back", 2016.)  Chunks are combined strictly in order, whoever publishes what first, so that results have
the same bits in every run; and nobody waits for long: a total that does not come is computed by who needs it.

Rows side by side that are cut take two passes: the first reduces, the second scans.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ...codegen.steps import Call, Pass, Text
from ...types import COMPUTES_IN, TYPES
from .. import jit
from ..writer import Writer
from .blocks import in_blocks
from .packets import Accumulation, Elements, lanes_of

__all__ = ["passes"]

#: Elements of a chunk, and of a block: 16 blocks, but no smaller ones than these, and none larger.
_SMALLEST, _LARGEST = 1 << 14, 1 << 18
#: Bytes of a chunk of a long row, which the second-level cache of a core holds beside what is written.
_CHUNK_BYTES = 1 << 17
#: How often to look for a total before computing it: some microseconds, in which a running task publishes its own.
_LOOKS = 256
#: What has been published of a chunk: nothing, its total, what the next chunk begins with.
_NOTHING, _TOTAL, _PREFIX = 0, 1, 2
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
        yield in_blocks(text, (source.address, target.address), size, block // each * each)
        return
    aligned = (rows == 1 or length % lanes == 0) and (not reverse or size % lanes == 0)
    streamed = int(aligned and source.nbytes + target.nbytes > call.target.streaming_bytes)
    options = (type_, op, exclusive, reverse)
    chunk = min(block, _CHUNK_BYTES // TYPES[type_].size)
    if length <= chunk:
        text = Text("scan rows", (*options, streamed), _rows, 8 * length)
        yield in_blocks(text, (source.address, target.address, size, length, length, 1), rows, max(1, block // length))
        return
    chunks = -(-length // chunk)
    tasks = rows * chunks
    states, totals, prefixes = (call.scratch(tasks * 8) for _ in range(3))
    words = (source.address, target.address, size, length, chunk, chunks, states, totals, prefixes)
    yield in_blocks(Text("scan: nothing is published", (), _clear, 1), (states,), tasks, tasks)
    yield in_blocks(Text("scan chunks", (*options, streamed, _LOOKS), _chunks, 8 * chunk), words, tasks, 1)


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


def _rows(type_: int, op: int, exclusive: int, reverse: int, streamed: int) -> str:
    """A task is a row."""
    scan = _Scan(type_, op, exclusive, reverse)
    w = scan.writer
    w.kernel()
    source, target = w.parameter(0, "ptr"), w.parameter(1, "ptr")
    words = [w.parameter(number) for number in range(2, 6)]

    def task(number: str, _: list[str]) -> list[str]:
        _scan_part(scan, source, target, _task(scan, number, words), scan.first, bool(streamed))
        return []

    w.loop("%begin", "%end", 1, [], task)
    _end_streams(w, streamed)
    w.end()
    return w.text()


def _scan_part(scan: _Scan, source: str, target: str, part: tuple[str, str, str, str], carry: str,
               streamed: bool) -> None:
    """Scans a row, or a chunk of one, that begins with a value."""
    w, elements, lanes = scan.writer, scan.elements, scan.lanes
    register, stored = elements.register, elements.stored.element
    begin, end, start, stop = part
    sources, targets = (base if scan.reverse else w.at(stored, base, begin) for base in (source, target))
    carried = register.splat(carry) if not carry.startswith("%") else elements.splat(carry)

    def several(position: str, values: list[str]) -> list[str]:
        carry = values[0]
        packets = [scan.combine.load(scan.address(sources, end, position, k * lanes)) for k in range(_UNROLLED)]
        scanned = [scan.scanned(packet, lanes) for packet in packets]
        for k, inclusive in enumerate(scanned):
            result, carry = scan.carried(carry, inclusive)
            elements.store(result, scan.address(targets, end, position, k * lanes), "", streamed)
        return [carry]

    def one(position: str, values: list[str]) -> list[str]:
        mask = elements.mask(w.sub(stop, position), bool(scan.reverse))
        packet = scan.combine.load(scan.address(sources, end, position, 0), mask)
        result, carry = scan.carried(values[0], scan.scanned(packet, lanes))
        elements.store(result, scan.address(targets, end, position, 0), mask)
        return [carry]

    step = _UNROLLED * lanes
    whole = w.add(start, w.and_(w.sub(stop, start), -step))
    carried, = w.loop(start, whole, step, [(str(register), carried)], several)
    w.loop(whole, stop, lanes, [(str(register), carried)], one)


def _end_streams(w: Writer, streamed: int) -> None:
    """What was written past the cache is seen by others."""
    if streamed and jit.is_x86():
        w.line("call void @llvm.x86.sse.sfence()")


# --- chunks of long rows ---------------------------------------------------------------------------------------------


def _clear() -> str:
    w = Writer()
    w.kernel()
    states = w.parameter(0, "ptr")

    def clear(number: str, _: list[str]) -> list[str]:
        w.store("i64", str(_NOTHING), w.at("i64", states, number), 8)
        return []

    w.loop("%begin", "%end", 1, [], clear)
    w.end()
    return w.text()


def _chunks(type_: int, op: int, exclusive: int, reverse: int, streamed: int, looks: int) -> str:
    """A task is a chunk of a row.  Blocks are handed out in order: chunks before it have ended, or are worked at."""
    scan = _Scan(type_, op, exclusive, reverse)
    w = scan.writer
    scalar = scan.elements.register.element
    _total(scan)
    w.kernel()
    source, target = w.parameter(0, "ptr"), w.parameter(1, "ptr")
    words = [w.parameter(number) for number in range(2, 6)]
    states, totals, prefixes = (w.parameter(number, "ptr") for number in range(6, 9))

    def publish(number: str, value: str, values: str, state: int) -> None:
        w.store(scalar, value, w.at("i64", values, number), 8)
        w.line(f"store atomic i64 {state}, ptr {w.at('i64', states, number)} release, align 8")

    def state_of(number: str) -> str:
        return w(f"load atomic i64, ptr {w.at('i64', states, number)} acquire, align 8")

    def task(number: str, _: list[str]) -> list[str]:
        own = w.call(scalar, "total", "ptr %parameters", f"i64 {number}")
        publish(number, own, totals, _TOTAL)
        begins = _look_back(scan, number, words[-1], state_of, totals, prefixes, looks)
        following = _combine_one(scan, begins, own)
        publish(number, following, prefixes, _PREFIX)
        _scan_part(scan, source, target, _task(scan, number, words), begins, bool(streamed))
        return []

    w.loop("%begin", "%end", 1, [], task)
    _end_streams(w, streamed)
    w.end()
    return w.text()


def _combine_one(scan: _Scan, a: str, b: str) -> str:
    """Two single values."""
    return Accumulation(Elements(scan.writer, scan.elements.type, 0), scan.combine.op)(a, b)


def _look_back(scan: _Scan, number: str, chunks: str, state_of: Callable[[str], str], totals: str, prefixes: str,
               looks: int) -> str:
    """What a chunk begins with: the latest prefix that is known, and the totals of the chunks since then."""
    w, scalar = scan.writer, scan.elements.register.element
    first = w.mul(w.udiv(number, chunks), chunks)  # the first chunk of the row

    def earlier(values: list[str]) -> tuple[str, list[str]]:
        """Whether to stop: at the first chunk, or behind one whose prefix is known."""
        before = w.sub(values[0], 1)

        def known() -> list[str]:
            return [w(f"icmp eq i64 {state_of(before)}, {_PREFIX}")]

        is_first = w(f"icmp eq i64 {values[0]}, {first}")
        stops, = w.branch(is_first, lambda: ["true"], known, ["i1"])
        return stops, [w(f"select i1 {stops}, i64 {values[0]}, i64 {before}")]

    at, = w.until([("i64", number)], earlier)
    is_first = w(f"icmp eq i64 {at}, {first}")
    value, = w.branch(is_first, lambda: [scan.first],
                      lambda: [w.load(scalar, w.at("i64", prefixes, w.sub(at, 1)), 8)], [scalar])

    def add(which: str, values: list[str]) -> list[str]:
        def look(values: list[str]) -> tuple[str, list[str]]:
            _pause(w)
            left = w.sub(values[0], 1)
            found = w(f"icmp ne i64 {state_of(which)}, {_NOTHING}")
            return w(f"or i1 {found}, {w(f'icmp eq i64 {left}, 0')}"), [left]

        w.until([("i64", str(looks))], look)
        found = w(f"icmp ne i64 {state_of(which)}, {_NOTHING}")
        total, = w.branch(found, lambda: [w.load(scalar, w.at("i64", totals, which), 8)],
                          lambda: [w.call(scalar, "total", "ptr %parameters", f"i64 {which}")], [scalar])
        return [_combine_one(scan, values[0], total)]

    return w.loop(at, number, 1, [(scalar, value)], add)[0]


def _pause(w: Writer) -> None:
    """Leave the core to others for a moment."""
    if jit.is_x86():
        w.line("call void @llvm.x86.sse2.pause()")


def _total(scan: _Scan) -> None:
    """A function: what the elements of a chunk reduce to."""
    w, elements, lanes = scan.writer, scan.elements, scan.lanes
    register = elements.register
    w.function(f"{register.element} @total(ptr noalias %parameters, i64 %number)")
    source, words = w.parameter(0, "ptr"), [w.parameter(number) for number in range(2, 6)]
    begin, end, start, stop = _task(scan, "%number", words)
    base = source if scan.reverse else w.at(elements.stored.element, source, begin)

    def several(position: str, values: list[str]) -> list[str]:
        return [scan.combine(value, scan.combine.load(scan.address(base, end, position, k * lanes)))
                for k, value in enumerate(values)]

    def one(position: str, values: list[str]) -> list[str]:
        mask = elements.mask(w.sub(stop, position), bool(scan.reverse))
        return [scan.combine(values[0], scan.combine.load(scan.address(base, end, position, 0), mask))]

    step = _UNROLLED * lanes
    whole = w.add(start, w.and_(w.sub(stop, start), -step))
    sums = w.loop(start, whole, step, [(str(register), scan.combine.neutrals)] * _UNROLLED, several)
    while len(sums) > 1:
        sums = [scan.combine(a, b) for a, b in zip(sums[::2], sums[1::2], strict=True)]
    last, = w.loop(whole, stop, lanes, [(str(register), scan.combine.neutrals)], one)
    w.end(f"{register.element} {scan.combine.total(scan.combine(sums[0], last))}")


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
    held = TYPES[COMPUTES_IN[type_]].size
    running = call.scratch(outer * chunks * inner * held)
    words = (source.address, target.address, running, length, inner, chunk, chunks, strip, strips, outer)
    width, tasks = outer * chunks * strips, max(1, block // (chunk * strip))
    work = chunk * strip
    if chunks > 1:
        text = Text("scan strips: reduce", (type_, op, exclusive, reverse, 1), _strips, 8 * work, combines=True)
        yield in_blocks(text, words, width, tasks)
    text = Text("scan strips", (type_, op, exclusive, reverse, 2 if chunks > 1 else 0), _strips, 8 * work)
    yield in_blocks(text, words, width, tasks)


def _strips(type_: int, op: int, exclusive: int, reverse: int, phase: int) -> str:
    """A task is a strip of columns in a chunk of rows.  Phases: 0, one chunk; 1, only reduces chunks; 2, goes on from
    what these begin with."""
    scan = _Scan(type_, op, exclusive, reverse)
    w, elements, lanes = scan.writer, scan.elements, scan.lanes
    combine, held = scan.combine, Elements(w, COMPUTES_IN[type_], lanes)
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
    scalars = Elements(w, COMPUTES_IN[type_], 0)
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
