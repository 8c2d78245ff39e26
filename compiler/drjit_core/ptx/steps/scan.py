"""Running reductions.

Long rows are cut into tiles, each of which is read once and written once, by a block; blocks take tiles in the order in
which they begin.  A tile tells its total, and looks back (D. Merrill and M. Garland, *Single-pass parallel prefix scan
with decoupled look-back*, 2016), but always at the same things, so that the order of additions, and with it the bits of
a result, depends on nothing but the size: at the totals of the tiles before it in its group of 32, at those of the
groups before its own in their group of 32, and at the sum of all those before.  What each of these waits for are tiles
that have begun earlier.

Short rows are a warp's each, columns a thread's.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...codegen.steps import Call, Pass, Text
from ...ops.reductions import REDUCTIONS
from ...types import BOOL, COMPUTES_IN, TYPES
from .. import texts
from ..texts import T
from .writer import BLOCK, WARP, WARPS, Grid, Writer, cleared, in_registers

__all__ = ["LEVELS", "Level", "cleared_pass", "look_back", "passes", "scratch_bytes", "tiles_in", "warp_scan"]

#: Bytes of a thread in a tile, and its elements at most.
_BYTES, _MOST = 64, 16
#: Tiles of a group, and groups of a group.
_GROUP = WARP
#: Rows of more tiles are cut into them.
_SHORT = 2
LEVELS = 3


# --- scratch memory: a ticket, then flags and values of the three levels ---------------------------------------------


def tiles_in(length: int, tile: int) -> list[int]:
    """How many tiles, groups and groups of groups a row has room for: all of the lower levels are complete."""
    groups = -(-length // tile)
    found = []
    for _ in range(LEVELS - 1):
        groups = -(-groups // _GROUP)
        found.append(groups * _GROUP)
    return [*found, groups + 1]


def scratch_bytes(rows: int, levels: list[int]) -> tuple[int, int, list[tuple[int, int]]]:
    """Bytes that have to be zero, bytes in all, and where flags and values of each level are."""
    places, at = [], 8
    for count in levels:
        places.append((at, 0))
        at += 8 * -(-rows * count // 2)
    zeros = at
    for number, count in enumerate(levels):
        places[number] = places[number][0], at
        at += 8 * rows * count
    return zeros, at, places


def cleared_pass(address: int, nbytes: int, architecture: int) -> Pass:
    """Sets bytes to zero, of which there are a multiple of 8."""
    words = nbytes // 8
    return Pass(Text("clear", (architecture,), cleared, 1), (address, words), Grid(words, -(-words // BLOCK)))


# --- parts of kernels ------------------------------------------------------------------------------------------------


class Level:
    """What one thread knows of its warp: lanes below, and whether there are any."""

    def __init__(self, w: Writer) -> None:
        self.lane = w.lane()
        self.steps = []
        for distance in (1, 2, 4, 8, 16):
            there = w.p("setp.ge.u32", self.lane, distance)
            self.steps.append((w.r("selp.b32", w.r("sub.u32", self.lane, distance), self.lane, there), there))


def warp_scan(w: Writer, level: Level, op: int, type_: int, value: str) -> str:
    """The running reduction of what the threads of a warp have."""
    for lane, there in level.steps:
        other = w.shuffle(type_, value, lane)
        value = w.select(type_, there, w.combine(op, type_, other, value), value)
    return value


def look_back(w: Writer, op: int, type_: int, total: str, start: str, number: str,
              levels: list[tuple[str, str, str]]) -> str:
    """For a warp: publish the total of a tile, and reduce what comes before it.

    Flags, values and the first number of the row are given for each level, and the tile's number in its row.  ``start``
    is what rows begin with.
    """
    identity = w.number(type_, REDUCTIONS[op].identity(type_))
    lane = w.lane()
    first = w.p("setp.eq.u32", lane, 0)
    before, last = "", ""
    for flags, values, base in levels[:-1]:
        place = w.r("and.b32", number, _GROUP - 1)
        own = w.r("add.u32", base, number)
        with w.when(first if not last else w.both(first, last)):
            w.publish(type_, total, values, flags, own)
        found, over = w.copy(type_, identity), w.label("none")
        w.line(f"@!{w.p('setp.lt.u32', lane, place)} bra {over};")
        other = w.r("add.u32", w.r("sub.u32", own, place), lane)
        w.set(type_, found, w.wait_for(type_, values, flags, other))
        w.line(f"{over}:")
        found = w.total(op, type_, found)
        before = found if not before else w.combine(op, type_, found, before)
        total = w.combine(op, type_, found, total)
        is_last = w.p("setp.eq.u32", place, _GROUP - 1)
        last = is_last if not last else w.both(last, is_last)
        number = w.r("shr.u32", number, _GROUP.bit_length() - 1)
    flags, values, base = levels[-1]
    earlier = w.copy(type_, start)
    own = w.r("add.u32", base, number)
    with w.when(w.p("setp.ne.u32", number, 0)):
        w.set(type_, earlier, w.wait_for(type_, values, flags, own))
    with w.when(w.both(first, last)):
        w.publish(type_, w.combine(op, type_, earlier, total), values, flags, w.r("add.u32", own, 1))
    return w.combine(op, type_, earlier, before)


def _read(w: Writer, memory: int, type_: int, value: str) -> str:
    """What is computed with, of what is in memory."""
    if memory == type_:
        return value
    result = w.new(type_)
    w.lines += texts.cast(w, result, value, T[memory], T[type_])
    return result


# --- kernels ---------------------------------------------------------------------------------------------------------


def _types(type_: int) -> tuple[int, int]:
    memory = in_registers(type_)
    return memory, COMPUTES_IN[memory]


def _start(w: Writer, op: int, type_: int, exclusive: int) -> str:
    """What rows of a type begin with; the sum of nothing is 0, though -0 changes nothing."""
    reduction, kept = REDUCTIONS[op], _types(type_)[1]
    kind = type_ if type_ == BOOL else kept
    return w.number(kept, reduction.empty(kind) if exclusive else reduction.identity(kind))


def _each(type_: int) -> int:
    """Elements of a thread in a tile."""
    return min(_MOST, _BYTES // TYPES[type_].size)


def _tiles(architecture: int, op: int, exclusive: int, reverse: int, type_: int) -> str:
    """Words: source, result, scratch, tiles of a row, elements of a row, and of all, flags, values and numbers of the
    levels."""
    w = Writer(architecture)
    memory, kept = _types(type_)
    size, each = TYPES[type_].size, _each(type_)
    shared = w.shared("totals", 8 * (WARPS + 2))
    tile = w.ticket(w.parameter(2), shared)
    w.barrier()
    per_row = w.parameter(3, "u32")
    row = w.r("div.u32", tile, per_row)
    number = w.r("sub.u32", tile, w.r("mul.lo.u32", row, per_row))
    length, count = w.parameter(4), w.parameter(5)
    begin = w.rd("mul.lo.u64", w.wide(row), length)
    length = w.rd("min.u64", length, w.rd("sub.u64", count, begin))  # the last row may be shorter
    warp = w.r("shr.u32", w.tid, 5)
    level = Level(w)
    first = w.rd("mad.wide.u32", number, BLOCK * each, w.wide(w.r("mad.lo.u32", warp, each * WARP, level.lane)))
    identity = w.number(kept, REDUCTIONS[op].identity(kept))
    if memory != kept:
        nothing = w.number(memory, REDUCTIONS[op].identity(memory))
    else:
        nothing = identity
    after = w.p("setp.lt.u64", first, length)
    left = w.r("cvt.u32.u64", w.rd("min.u64", w.rd("selp.b64", w.rd("sub.u64", length, first), 0, after), BLOCK * each))
    position = first
    if reverse:
        position = w.rd("sub.u64", w.rd("sub.u64", length, 1), first)
    position = w.rd("add.u64", begin, position)
    distance = (-size if reverse else size) * WARP
    source, target = (w.at(w.parameter(k), position, size) for k in (0, 1))

    def there(k: int) -> str:
        return w.p("setp.gt.u32", left, k * WARP)
    found = [w.load(memory, source, there(k), nothing, offset=k * distance) for k in range(each)]
    carry, results = identity, []
    end = w.r("mov.b32", WARP - 1)
    above, is_first = level.steps[0][0], w.p("setp.eq.u32", level.lane, 0)
    for loaded in found:
        value = warp_scan(w, level, op, kept, _read(w, memory, kept, loaded))
        value = w.combine(op, kept, carry, value)
        if exclusive:
            results.append(w.select(kept, is_first, carry, w.shuffle(kept, value, above)))
        else:
            results.append(value)
        carry = w.shuffle(kept, value, end)
    own = w.at(shared, warp, 8)
    with w.when(is_first):
        w.store(kept, own, carry, space="shared")
    w.barrier()
    before, total = w.copy(kept, identity), w.copy(kept, identity)
    for k in range(WARPS):
        one = w.load(kept, shared, space="shared", offset=8 * k)
        w.set(kept, before, w.select(kept, w.p("setp.eq.u32", warp, k), total, before))
        w.set(kept, total, w.combine(op, kept, total, one))
    with w.when(w.p("setp.eq.u32", warp, 0)):
        levels = []
        for k in range(LEVELS):
            base = w.r("mul.lo.u32", row, w.parameter(8 + 3 * k, "u32"))
            levels.append((w.parameter(6 + 3 * k), w.parameter(7 + 3 * k), base))
        start = _start(w, op, type_, exclusive)
        w.store(kept, shared, look_back(w, op, kept, total, start, number, levels), is_first, "shared", 8 * WARPS)
    w.barrier()
    base = w.combine(op, kept, w.load(kept, shared, space="shared", offset=8 * WARPS), before)
    for k, value in enumerate(results):
        result = _read(w, kept, memory, w.combine(op, kept, base, value))
        w.store(memory, target, result, there(k), offset=k * distance)
    return w.text(6 + 3 * LEVELS)


def _rows(architecture: int, op: int, exclusive: int, reverse: int, type_: int) -> str:
    """A warp for each row.  Words: source, result, rows, elements of a row, and of all."""
    w = Writer(architecture)
    memory, kept = _types(type_)
    size = TYPES[type_].size
    level = Level(w)
    row = w.rd("mad.wide.u32", w.block, WARPS, w.wide(w.r("shr.u32", w.tid, 5)))
    identity = w.number(memory, REDUCTIONS[op].identity(memory))
    with w.when(w.p("setp.lt.u64", row, w.parameter(2))):
        begin = w.rd("mul.lo.u64", row, w.parameter(3))
        length = w.rd("min.u64", w.parameter(3), w.rd("sub.u64", w.parameter(4), begin))
        last = w.rd("sub.u64", w.rd("add.u64", begin, length), 1)
        carry = _start(w, op, type_, exclusive)
        offset, own = w.rd("mov.b64", 0), w.wide(level.lane)
        end, is_first = w.r("mov.b32", WARP - 1), w.p("setp.eq.u32", level.lane, 0)
        with w.loop() as unless:
            unless(w.p("setp.lt.u64", offset, length))
            position = w.rd("add.u64", offset, own)
            there = w.p("setp.lt.u64", position, length)
            element = w.rd("sub.u64", last, position) if reverse else w.rd("add.u64", begin, position)
            value = w.load(memory, w.at(w.parameter(0), element, size), there, identity)
            value = w.combine(op, kept, carry, warp_scan(w, level, op, kept, _read(w, memory, kept, value)))
            result = value
            if exclusive:
                result = w.select(kept, is_first, carry, w.shuffle(kept, value, level.steps[0][0]))
            w.store(memory, w.at(w.parameter(1), element, size), _read(w, kept, memory, result), there)
            w.set(kept, carry, w.shuffle(kept, value, end))
            w.line(f"add.u64 {offset}, {offset}, {WARP};")
    return w.text(5)


def _columns(architecture: int, op: int, exclusive: int, reverse: int, type_: int) -> str:
    """A thread for each column.  Words: source, result, columns in all, columns of a row, elements of a column, and of
    all."""
    w = Writer(architecture)
    memory, kept = _types(type_)
    size = TYPES[type_].size
    number = w.rd("mad.wide.u32", w.block, BLOCK, w.wide(w.tid))
    with w.when(w.p("setp.lt.u64", number, w.parameter(2))):
        inner, length = w.parameter(3), w.parameter(4)
        outer = w.rd("div.u64", number, inner)
        column = w.rd("sub.u64", number, w.rd("mul.lo.u64", outer, inner))
        row = w.rd("mul.lo.u64", w.rd("mul.lo.u64", outer, length), inner)
        left = w.rd("div.u64", w.rd("sub.u64", w.parameter(5), row), inner)
        length = w.rd("min.u64", length, left)
        step = w.rd("mul.lo.u64", inner, size)
        distance = w.rd("add.u64", row, column)
        if reverse:
            last = w.rd("sub.u64", length, 1)
            distance = w.rd("mad.lo.u64", last, inner, distance)
        source, target = (w.at(w.parameter(k), distance, size) for k in (0, 1))
        carry = _start(w, op, type_, exclusive)
        with w.loop() as unless:
            unless(w.p("setp.ne.u64", length, 0))
            value = w.combine(op, kept, carry, _read(w, memory, kept, w.load(memory, source)))
            w.store(memory, target, _read(w, kept, memory, carry if exclusive else value))
            w.set(kept, carry, value)
            w.line(f"sub.u64 {length}, {length}, 1;")
            for place in (source, target):
                w.line(f"{'sub' if reverse else 'add'}.u64 {place}, {place}, {step};")
    return w.text(6)


def passes(call: Call) -> Iterable[Pass]:
    """Those of a step."""
    op, exclusive, reverse = (int(option) for option in call.step.options)
    (source,), result = call.operands, call.results[0]
    _, length, inner = call.extents
    architecture = call.target.features
    arguments = (architecture, op, exclusive, reverse, source.type)
    width, words = source.size, (source.address, result.address)
    if inner > 1:
        whole = width // (length * inner)
        columns = inner * (whole + (width > whole * length * inner))
        yield Pass(Text("scan of columns", arguments, _columns, 4), (*words, columns, inner, length, width),
                   Grid(width, -(-columns // BLOCK)))
        return
    rows = -(-width // length)
    tile = BLOCK * _each(source.type)
    if length < _SHORT * tile:
        yield Pass(Text("scan of rows", arguments, _rows, 20), (*words, rows, length, width),
                   Grid(width, -(-rows // WARPS)))
        return
    per_row = -(-length // tile)
    levels = tiles_in(length, tile)
    zeros, nbytes, places = scratch_bytes(rows, levels)
    scratch = call.scratch(nbytes)
    yield cleared_pass(scratch, zeros, architecture)
    tables = [word for (flags, values), count in zip(places, levels, strict=True)
              for word in (scratch + flags, scratch + values, count)]
    yield Pass(Text("scan", arguments, _tiles, 20), (*words, scratch, per_row, length, width, *tables),
               Grid(width, rows * per_row))
