"""LLVM text of rows: pieces of memory of up to 16 bytes, one for each lane, and the packets that they are made of;
what is read may have 32 bytes.

A gather instruction costs as much as a load for each lane. A piece is read by one load a lane (of three elements under
a mask, so that nothing beyond them is touched), and what was read is transposed in registers; two elements of 32 bits
are read by a gather of 64-bit integers. Lanes that take no part read the first elements, if any does take part, and
are set to zero in the end. Indices of 32 bits leave a packet in pairs: the units that take them out are those that
transpose.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..types import UINT64
from .function import FunctionEmitter
from .texts import TypeText, is_everywhere, vector
from .writer import Writer

__all__ = ["add", "gather", "scatter"]

#: Lanes that are transposed together: those of the widest register.
_GROUP_BYTES = 64
#: Within so many bytes of a register, elements move at once.
_BLOCK_BYTES = 16


def gather(emitter: FunctionEmitter, type_: TypeText, base: str, index: tuple[str, str], start: int, count: int,
           condition: str) -> list[str]:
    """Names of packets: the elements ``start`` to ``start + count`` beyond an index, zero where a mask is not set."""
    w, lanes, size = emitter.writer, emitter.lanes, type_.info.size
    if size * count <= 8:
        at = _places(w, type_, base, index, start)
        wide, narrow = emitter.packets[UINT64], TypeText(type_.info, 2 * lanes)
        pairs = w.gathered(wide, at, size, condition)
        both = w(f"bitcast {wide} {pairs} to {narrow}")
        return [w.shuffle(narrow, both, "poison", range(number, 2 * lanes, 2)) for number in range(2)]
    everywhere, base = is_everywhere(condition), w.at(type_.element, base, start)
    if not everywhere:
        emitter.module.need("zeros", lambda: "@zeros = internal constant [32 x i8] zeroinitializer, align 32")
        index = index[0], w(f"select {type_.mask} {condition}, {index[0]} {index[1]}, {index[0]} zeroinitializer")
        base = w.either(emitter.any_element(condition, False), "ptr", base, "@zeros")
    piece, rows = TypeText(type_.info, 1 << (count - 1).bit_length()), []
    wanted = vector("i1", [str(number < count).lower() for number in range(piece.lanes)])
    for lane in _of_lanes(w, lanes, *index):
        place = w.at(type_.element, base, lane)
        rows.append(w.load(piece, place, size) if count == piece.lanes else
                    w.masked_load(piece, place, size, wanted))
    group = min(lanes, _GROUP_BYTES // size)
    parts = [_transposed(w, type_, rows[begin:begin + group], piece.lanes) for begin in range(0, lanes, group)]
    columns = [_joined(w, type_, column, group) for column in map(list, zip(*parts, strict=True))]
    return columns if everywhere else [
        w(f"select {type_.mask} {condition}, {type_} {column}, {type_} zeroinitializer") for column in columns]


def scatter(emitter: FunctionEmitter, type_: TypeText, base: str, index: tuple[str, str], start: int,
            values: list[str], condition: str) -> None:
    """Write packets, side by side, to the elements from ``start`` beyond an index on, where a mask is set."""
    w, lanes, size, pointers = emitter.writer, emitter.lanes, type_.info.size, type_.of("ptr")
    at = _places(w, type_, base, index, start)
    if size * len(values) <= 8:
        wide, narrow = emitter.packets[UINT64], TypeText(type_.info, 2 * lanes)
        places = [lane + side * lanes for lane in range(lanes) for side in range(2)]
        both = w.shuffle(type_, values[0], values[1], places)
        w.scattered(wide, w(f"bitcast {narrow} {both} to {wide}"), at, size, condition)
        return

    def write_all() -> None:
        for place, row, part in _rows(w, lanes, type_, values, at):
            w.store(part, row, place, size)

    def write_some() -> None:
        for k, value in enumerate(values):
            w.scattered(type_, value, w(f"getelementptr {type_.element}, {pointers} {at}, i64 {k}"), size, condition)

    if is_everywhere(condition):
        write_all()
    else:
        bits = w(f"bitcast {type_.mask} {condition} to i{lanes}")
        w.branch(w(f"icmp eq i{lanes} {bits}, -1"), write_all, write_some)


def add(emitter: FunctionEmitter, type_: TypeText, base: str, index: tuple[str, str], start: int,
        values: list[str], condition: str) -> None:
    """Add packets, side by side, to the elements from ``start`` beyond an index on, where a mask is set: lane by lane,
    as several may add to the same elements. Those that take no part add to memory that nobody reads, of their own."""
    w, lanes, size, pointers = emitter.writer, emitter.lanes, type_.info.size, type_.of("ptr")
    at = _places(w, type_, base, index, start)
    if not is_everywhere(condition):
        nowhere = emitter.keep("nowhere", lambda: emitter.prologue(f"alloca [{lanes} x <4 x i32>], align 16"))
        own = w(f"getelementptr <4 x i32>, ptr {nowhere}, <{lanes} x i64> {vector('i64', range(lanes))}")
        at = w(f"select {type_.mask} {condition}, {pointers} {at}, {pointers} {own}")
    for place, row, part in _rows(w, lanes, type_, values, at):
        w.store(part, w(f"fadd {part} {w.load(part, place, size)}, {row}"), place, size)


def _places(w: Writer, type_: TypeText, base: str, index: tuple[str, str], start: int) -> str:
    """Where the pieces of all lanes begin."""
    return w(f"getelementptr {type_.element}, ptr {w.at(type_.element, base, start)}, {index[0]} {index[1]}")


def _of_lanes(w: Writer, lanes: int, type_: str, index: str) -> list[str]:
    """The index of each lane as an i64."""
    if "i64" in str(type_):
        return [w(f"extractelement {type_} {index}, i32 {lane}") for lane in range(lanes)]
    pairs, found = f"<{lanes // 2} x i64>", []
    packed = w(f"bitcast {type_} {index} to {pairs}")
    for number in range(lanes // 2):
        pair = w(f"extractelement {pairs} {packed}, i32 {number}")
        found += [w(f"sext i32 {w(f'trunc i64 {pair} to i32')} to i64"), w(f"ashr i64 {pair}, 32")]
    return found


def _rows(w: Writer, lanes: int, type_: TypeText, values: list[str],
          at: str) -> Iterator[tuple[str, str, TypeText]]:
    """Of each lane: where its row is, its row, which packets are the columns of, and the type of that."""
    count, pointers = len(values), type_.of("ptr")
    group = min(lanes, _GROUP_BYTES // type_.info.size)
    part, register = TypeText(type_.info, count), TypeText(type_.info, group)
    for begin in range(0, lanes, group):
        columns = [w.shuffle(type_, value, "poison", range(begin, begin + group)) for value in values]
        blocks = _squares(w, register, columns)
        for lane in range(group):
            first = lane // count * count
            row = w.shuffle(register, blocks[lane % count], "poison", range(first, first + count))
            yield w(f"extractelement {pointers} {at}, i32 {begin + lane}"), row, part


def _joined(w: Writer, type_: TypeText, parts: Sequence[str], size: int) -> str:
    """One packet of several, which have ``size`` elements each, in their order."""
    while len(parts) > 1:
        part = TypeText(type_.info, size)
        parts = [w.shuffle(part, parts[number], parts[number + 1], range(2 * size))
                 for number in range(0, len(parts), 2)]
        size *= 2
    return parts[0]


def _transposed(w: Writer, type_: TypeText, rows: list[str], count: int) -> list[str]:
    """Columns of as many rows as a register has elements, of 16 bytes each.

    Rows that are ``count`` apart come to lie in one register; what remains is to transpose its parts of 16 bytes, which
    shuffles within them do.
    """
    side = min(count, _BLOCK_BYTES // type_.info.size)
    wide = [_joined(w, type_, rows[number::side], count) for number in range(side)]
    register, both = TypeText(type_.info, len(rows)), TypeText(type_.info, len(rows) * count // side)
    return [column for begin in range(0, count, side) for column in _squares(w, register, wide if count == side else [
        w.shuffle(both, block, "poison", [k for k in range(both.lanes) if k % count // side * side == begin])
        for block in wide])]


def _squares(w: Writer, register: TypeText, blocks: list[str]) -> list[str]:
    """Registers whose parts of 16 bytes are transposed: those in the same place of all registers are a square."""
    size = register.lanes
    if len(blocks) == 2:
        return [w.shuffle(register, blocks[0], blocks[1], [
            k + half + side * size for k in range(0, size, 2) for side in (0, 1)]) for half in (0, 1)]
    quads = range(0, size, 4)
    first = {(pair, half): w.shuffle(register, blocks[2 * pair], blocks[2 * pair + 1], [
        q + 2 * half + place + side * size for q in quads for place in (0, 1) for side in (0, 1)])
        for pair in (0, 1) for half in (0, 1)}
    return [w.shuffle(register, first[0, half], first[1, half], [
        q + 2 * part + place + side * size for q in quads for side in (0, 1) for place in (0, 1)])
        for half in (0, 1) for part in (0, 1)]
