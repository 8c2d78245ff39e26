"""Sorted values, and the positions that sort them.

What is sorted are *keys*, unsigned numbers in the order of the elements, with their positions: NaN is the largest one,
zeros are equal, and in descending order all bits are turned round.  Short rows are sorted in shared memory, by a block
each, keys and positions as one number (bitonic sort: K. E. Batcher, 1968).

Long rows are sorted by one digit of 8 bits after the other, the lowest one first.  For each digit, blocks count digits
in their tiles; a scan of the counts, those of the first digit first, says where each tile writes its elements of each
digit; and blocks write them there, in their order.  Within a warp, who has the same digit is found by ``match``.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...codegen.steps import Array, Call, Pass, Text
from ...ops.steps import Step
from ...types import TYPES, UINT32, UINT64, ReduceOp
from .. import atomics
from . import scan
from .writer import BLOCK, WARP, WARPS, Grid, Writer, in_registers, require_counted

__all__ = ["passes"]

#: Elements of rows that are sorted in shared memory, with keys of 32 and of 64 bits.
_SHORT = {32: 4096, 64: 2048}
#: Elements of a thread in a tile, and of a tile.
_EACH = 16
_TILE = BLOCK * _EACH
_DIGIT, _DIGITS = 8, 256
#: What the last pass writes; those before it write keys and positions.
_POSITIONS, _VALUES = 1, 2


def _word(type_: int) -> int:
    return max(32, TYPES[type_].bits)


def _key(w: Writer, type_: int, descending: int, value: str) -> str:
    """The key of an element."""
    info, bits = TYPES[type_], 8 * TYPES[type_].size
    key, word = atomics.as_bits(w, in_registers(type_), value), _word(type_)
    make = w.rd if word == 64 else w.r
    ones, sign = (1 << bits) - 1, 1 << bits - 1
    if info.kind == "i":
        key = make(f"xor.b{word}", key, sign)
    elif info.kind == "f":
        size = make(f"and.b{word}", key, sign - 1)
        exponents = {FLOAT: ((1 << exponent) - 1) << bits - 1 - exponent for FLOAT, exponent in (
            ("bf16", 8), ("f16", 5), ("f32", 8), ("f64", 11))}[info.short]
        is_nan = w.p(f"setp.gt.u{word}", size, exponents)
        key = make(f"selp.b{word}", 0, key, w.p(f"setp.eq.u{word}", size, 0))
        negative = w.p(f"setp.gt.u{word}", key, sign - 1)
        key = make(f"xor.b{word}", key, make(f"selp.b{word}", ones, sign, negative))
        key = make(f"selp.b{word}", ones, key, is_nan)
    return make(f"xor.b{word}", key, ones) if descending else key


# --- short rows ------------------------------------------------------------------------------------------------------


def _rows(architecture: int, type_: int, descending: int, positions: int, log: int, threads: int) -> str:
    """A block for each row, of at most 2 to the power ``log`` elements.  Words: source, result, elements of a row."""
    w = Writer(architecture, threads)
    memory, size, word, count = in_registers(type_), TYPES[type_].size, _word(type_), 1 << log
    two = word == 64  # keys and positions have memory of their own
    keys = w.shared("keys", 8 * count)
    places = w.shared("places", 4 * count) if two else ""
    length = w.parameter(2, "u32")
    begin = w.rd("mul.wide.u32", w.block, length)
    source, result = w.at(w.parameter(0), begin, size), w.at(w.parameter(1), begin, 4 if positions else size)
    number = w.copy(UINT32, w.tid)
    with w.loop() as unless:
        unless(w.p("setp.lt.u32", number, count))
        there = w.p("setp.lt.u32", number, length)
        key = _key(w, type_, descending, w.load(memory, w.at(source, number, size), there, w.zero(memory)))
        place = w.r("selp.b32", number, -1, there)
        if two:
            w.store(UINT32, w.at(places, number, 4), place, space="shared")
        else:
            key = w.rd("mov.b64", f"{{{place}, {key}}}")
        w.store(UINT64, w.at(keys, number, 8), w.rd("selp.b64", key, -1, there), space="shared")
        w.line(f"add.u32 {number}, {number}, {threads};")
    w.barrier()
    block, distance = w.r("mov.b32", 2), w.r("mov.b32", 1)
    with w.loop() as unless:
        unless(w.p("setp.le.u32", block, count))
        w.line(f"shr.u32 {distance}, {block}, 1;")
        with w.loop() as unless_inner:
            unless_inner(w.p("setp.ne.u32", distance, 0))
            w.set(UINT32, number, w.tid)
            with w.loop() as unless_last:
                unless_last(w.p("setp.lt.u32", number, count // 2))
                low = w.r("and.b32", number, w.r("sub.u32", distance, 1))
                first = w.r("add.u32", number, w.r("sub.u32", number, low))
                _exchange(w, keys, places, first, distance, block)
                w.line(f"add.u32 {number}, {number}, {threads};")
            w.barrier()
            w.line(f"shr.u32 {distance}, {distance}, 1;")
        w.line(f"shl.b32 {block}, {block}, 1;")
    w.set(UINT32, number, w.tid)
    with w.loop() as unless:
        unless(w.p("setp.lt.u32", number, length))
        if two:
            place = w.load(UINT32, w.at(places, number, 4), space="shared")
        else:
            place = w.r("cvt.u32.u64", w.load(UINT64, w.at(keys, number, 8), space="shared"))
        if positions:
            w.store(UINT32, w.at(result, number, 4), place)
        else:
            w.store(memory, w.at(result, number, size), w.load(memory, w.at(source, place, size)))
        w.line(f"add.u32 {number}, {number}, {threads};")
    return w.text(3)


def _exchange(w: Writer, keys: str, places: str, first: str, distance: str, block: str) -> None:
    """Put two elements in order, or in the opposite one, as their block says."""
    second = w.r("add.u32", first, distance)
    at = [w.at(keys, number, 8) for number in (first, second)]
    found = [w.load(UINT64, address, space="shared") for address in at]
    backwards = w.p("setp.ne.u32", w.r("and.b32", first, block), 0)
    greater = w.p("setp.gt.u64", *found)
    if places:
        places_at = [w.at(places, number, 4) for number in (first, second)]
        numbers = [w.load(UINT32, address, space="shared") for address in places_at]
        later = w.both(w.p("setp.eq.u64", *found), w.p("setp.gt.u32", *numbers))
        greater = w.p("or.pred", greater, later)
    swap = w.p("xor.pred", greater, backwards)
    for address, value in zip(at, reversed(found), strict=True):
        w.store(UINT64, address, value, swap, "shared")
    if places:
        for address, value in zip(places_at, reversed(numbers), strict=True):
            w.store(UINT32, address, value, swap, "shared")


# --- long rows -------------------------------------------------------------------------------------------------------


class _Tile:
    """A tile of a row: keys and positions, how many elements before each have its digit in its warp's part, and how
    many of each digit warps have.  Words: source or keys, positions, tiles of a row, elements of a row."""

    def __init__(self, w: Writer, type_: int, descending: int, shift: int, first: int) -> None:
        self.w = w
        word = _word(type_)
        key_type, make = (UINT64, w.rd) if word == 64 else (UINT32, w.r)
        per_row, length = w.parameter(2, "u32"), w.parameter(3, "u32")
        self.row = w.r("div.u32", w.block, per_row)
        self.tile = w.r("sub.u32", w.block, w.r("mul.lo.u32", self.row, per_row))
        self.begin = w.rd("mul.wide.u32", self.row, length)
        self.counts = w.shared("counts", 4 * WARPS * _DIGITS)
        self.lane, self.warp = w.lane(), w.r("shr.u32", w.tid, 5)
        for k in range(WARPS):
            w.store(UINT32, w.at(self.counts, w.tid, 4), w.zero(UINT32), space="shared", offset=4 * k * _DIGITS)
        w.barrier()
        start = w.r("mad.lo.u32", self.tile, _TILE, w.r("mad.lo.u32", self.warp, _EACH * WARP, self.lane))
        own = w.at(self.counts, w.r("mul.lo.u32", self.warp, _DIGITS), 4)
        below = w.r("mov.u32", "%lanemask_lt")
        self.keys, self.positions, self.theres, self.places, self.ranks = [], [], [], [], []
        at = w.rd("add.u64", self.begin, w.wide(start))
        source = w.at(w.parameter(0), at, TYPES[type_].size if first else word // 8)
        positions = w.at(w.parameter(1), at, 4)
        for k in range(_EACH):
            number = w.r("add.u32", start, k * WARP)
            there = w.p("setp.lt.u32", number, length)
            if first:
                memory = in_registers(type_)
                value = w.load(memory, source, there, w.zero(memory), offset=k * WARP * TYPES[type_].size)
                key, position = _key(w, type_, descending, value), number
            else:
                key = w.load(key_type, source, there, w.zero(key_type), offset=k * WARP * word // 8)
                position = w.load(UINT32, positions, there, w.zero(UINT32), offset=4 * k * WARP)
            digit = make(f"shr.u{word}", key, shift)
            if word == 64:
                digit = w.r("cvt.u32.u64", digit)
            digit = w.r("selp.b32", w.r("and.b32", digit, _DIGITS - 1), _DIGITS, there)  # one that nobody has
            peers = w.r("match.any.sync.b64", w.wide(digit), -1)
            rank = w.r("popc.b32", w.r("and.b32", peers, below))
            place = w.at(own, digit, 4)
            before = w.load(UINT32, place, there, w.zero(UINT32), "shared")
            w.line("bar.warp.sync -1;")
            leader = w.both(there, w.p("setp.eq.u32", rank, 0))
            w.store(UINT32, place, w.r("add.u32", before, w.r("popc.b32", peers)), leader, "shared")
            w.line("bar.warp.sync -1;")
            self.keys.append(key)
            self.positions.append(position)
            self.theres.append(there)
            self.places.append(place)
            self.ranks.append(w.r("add.u32", before, rank))
        w.barrier()

    def at_counts(self, base: str) -> str:
        """Where the count of the thread's digit is, in memory."""
        w = self.w
        column = w.r("mad.lo.u32", self.row, _DIGITS, w.tid)
        place = w.rd("mad.wide.u32", column, w.parameter(2, "u32"), w.wide(self.tile))
        return w.at(base, place, 4)


def _count(architecture: int, type_: int, descending: int, shift: int, first: int) -> str:
    """Words: those of tiles, counts."""
    w = Writer(architecture)
    tile, total = _Tile(w, type_, descending, shift, first), w.zero(UINT32)
    for k in range(WARPS):
        one = w.load(UINT32, w.at(tile.counts, w.tid, 4), space="shared", offset=4 * k * _DIGITS)
        w.line(f"add.u32 {total}, {total}, {one};")
    w.store(UINT32, tile.at_counts(w.parameter(4)), total)
    return w.text(5)


def _move(architecture: int, type_: int, descending: int, shift: int, first: int, last: int) -> str:
    """Words: those of tiles, where tiles begin to write digits, keys or the result, positions, the source."""
    w = Writer(architecture)
    tile = _Tile(w, type_, descending, shift, first)
    before = w.load(UINT32, tile.at_counts(w.parameter(4)))
    for k in range(WARPS):
        place = w.at(tile.counts, w.tid, 4)
        one = w.load(UINT32, place, space="shared", offset=4 * k * _DIGITS)
        w.store(UINT32, place, before, space="shared", offset=4 * k * _DIGITS)
        before = w.r("add.u32", before, one)
    w.barrier()
    memory, size = in_registers(type_), TYPES[type_].size
    for key, position, there, place, rank in zip(tile.keys, tile.positions, tile.theres, tile.places, tile.ranks,
                                                 strict=True):
        start = w.load(UINT32, place, there, w.zero(UINT32), "shared")
        at = w.rd("add.u64", tile.begin, w.wide(w.r("add.u32", start, rank)))
        if last == _VALUES:
            source = w.at(w.parameter(7), w.rd("add.u64", tile.begin, w.wide(position)), size)
            w.store(memory, w.at(w.parameter(5), at, size), w.load(memory, source, there, w.zero(memory)), there)
            continue
        if not last:
            type_of_key = UINT64 if _word(type_) == 64 else UINT32
            w.store(type_of_key, w.at(w.parameter(5), at, _word(type_) // 8), key, there)
        w.store(UINT32, w.at(w.parameter(6 if not last else 5), at, 4), position, there)
    return w.text(8)


def passes(call: Call) -> Iterable[Pass]:
    """Those of a step."""
    (source,), result = call.operands, call.results[0]
    positions, descending = (int(option) for option in call.step.options)
    rows, length, _ = call.extents
    require_counted("sort", length)
    architecture, type_, width = call.target.features, source.type, source.size
    word = _word(type_)
    if length <= _SHORT[word]:
        log = max(1, (length - 1).bit_length())
        threads = min(BLOCK, max(WARP, 1 << log - 1))
        yield Pass(Text("sort of rows", (architecture, type_, descending, positions, log, threads), _rows, 100),
                   (source.address, result.address, length), Grid(width, rows, threads))
        return
    per_row = -(-length // _TILE)
    blocks, counts = rows * per_row, rows * per_row * _DIGITS
    tables = [Array(UINT32, counts, call.scratch(4 * counts)) for _ in range(2)]
    memory = [(call.scratch(word // 8 * width), call.scratch(4 * width)) for _ in range(2)]
    counted = Call(Step("scan", (ReduceOp.Add.value, 1, 0), (rows, per_row * _DIGITS, 1)), [tables[0]],
                   {0: tables[1]}, call.scratch, call.target)
    grid, digits = Grid(width, blocks), TYPES[type_].size
    for digit in range(digits):
        first, last = int(digit == 0), digit == digits - 1
        arguments = (architecture, type_, descending, _DIGIT * digit, first)
        keys, places = (source.address, 0) if first else memory[digit % 2]
        words = keys, places, per_row, length
        yield Pass(Text("sort: count", arguments, _count, 20), (*words, tables[0].address), grid)
        yield from scan.passes(counted)
        kind = 0 if not last else _POSITIONS if positions else _VALUES
        target = (result.address, 0) if last else memory[(digit + 1) % 2]
        yield Pass(Text("sort", (*arguments, kind), _move, 30), (*words, tables[1].address, *target, source.address),
                   grid)
