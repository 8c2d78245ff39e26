"""LLVM text of rows: pieces of memory of up to 16 bytes, one for each lane, and the packets that they are made of.

A gather instruction costs as much as a load for each lane. A piece is read by one load a lane (of three elements under
a mask, so that nothing beyond them is touched), and what was read is transposed in registers; two elements of 32 bits
are read by a gather of 64-bit integers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..types import UINT64
from .function import FunctionEmitter
from .texts import TypeText

__all__ = ["add", "gather", "scatter"]

#: Lanes that are transposed together: those of the widest register.
_GROUP_BYTES = 64
#: What lanes that take no part read: a piece of zeros.
_ZEROS = "zeros"


def gather(emitter: FunctionEmitter, name: str, type_: TypeText, base: str, index: tuple[str, str], start: int,
           count: int, condition: str) -> list[str]:
    """Names of packets: the elements ``start`` to ``start + count`` beyond an index, zero where a mask is not set."""
    out, lanes = emitter.lines, emitter.lanes
    index_type, position = index
    out.append(f"{name}_row = getelementptr {type_.element}, ptr {base}, i64 {start}")
    out.append(f"{name}_at = getelementptr {type_.element}, ptr {name}_row, {index_type} {position}")
    if type_.info.size * count <= 8:
        return _gather_pairs(emitter, name, type_, condition)
    pointers = type_.of("ptr")
    at = f"{name}_at"
    if condition not in ("true", "splat (i1 true)"):
        emitter.module.helpers[_ZEROS] = f"@{_ZEROS} = internal constant [16 x i8] zeroinitializer, align 16"
        at = f"{name}_safe"
        out.append(f"{at} = select {type_.mask} {condition}, {pointers} {name}_at, {pointers} "
                   f"splat (ptr @{_ZEROS})")
    partial, wide = count == 3, 4 if count == 3 else count
    piece, suffix = f"<{wide} x {type_.element}>", type_.suffix.removeprefix(f"v{lanes}")
    rows = []
    for lane in range(lanes):
        out.append(f"{name}_p{lane} = extractelement {pointers} {at}, i32 {lane}")
        out.append(f"{name}_r{lane} = " + (
            f"call {piece} @llvm.masked.load.v4{suffix}.p0(ptr {name}_p{lane}, i32 {type_.info.size}, "
            f"<4 x i1> <i1 true, i1 true, i1 true, i1 false>, {piece} zeroinitializer)" if partial else
            f"load {piece}, ptr {name}_p{lane}, align {type_.info.size}"))
        rows.append(f"{name}_r{lane}")
    group = min(lanes, _GROUP_BYTES // type_.info.size)
    columns: list[list[str]] = [[] for _ in range(wide)]
    for begin in range(0, lanes, group):
        packets = _transposed(out, f"{name}_g{begin}", type_, rows[begin:begin + group], wide)
        for column, packet in zip(columns, packets, strict=True):
            column.append(packet)
    return [_joined(out, f"{name}_c{number}", type_, column, group) for number, column in enumerate(columns)]


def _gather_pairs(emitter: FunctionEmitter, name: str, type_: TypeText, condition: str) -> list[str]:
    """Two packets of 32 bits an element, read as one of 64."""
    out, lanes, wide = emitter.lines, emitter.lanes, emitter.packets[UINT64]
    narrow = f"<{2 * lanes} x {type_.element}>"
    out.append(f"{name}_pairs = call {wide} @llvm.masked.gather.{wide.suffix}.v{lanes}p0({type_.of('ptr')} {name}_at, "
               f"i32 {type_.info.size}, {type_.mask} {condition}, {wide} zeroinitializer)")
    out.append(f"{name}_both = bitcast {wide} {name}_pairs to {narrow}")
    return [_shuffled(out, f"{name}_c{number}", narrow, f"{name}_both", "poison", range(number, 2 * lanes, 2))
            for number in range(2)]


def scatter(emitter: FunctionEmitter, name: str, type_: TypeText, base: str, index: tuple[str, str], start: int,
            values: list[str], condition: str) -> None:
    """Write packets, side by side, to the elements from ``start`` beyond an index on, where a mask is set."""
    out, lanes, count, (index_type, position) = emitter.lines, emitter.lanes, len(values), index
    pointers = type_.of("ptr")
    out.append(f"{name}_row = getelementptr {type_.element}, ptr {base}, i64 {start}")
    out.append(f"{name}_at = getelementptr {type_.element}, ptr {name}_row, {index_type} {position}")
    if type_.info.size * count <= 8:
        wide, narrow = emitter.packets[UINT64], f"<{2 * lanes} x {type_.element}>"
        pairs = _shuffled(out, f"{name}_both", str(type_), values[0], values[1],
                          [lane + side * lanes for lane in range(lanes) for side in range(2)])
        out.append(f"{name}_pairs = bitcast {narrow} {pairs} to {wide}")
        out.append(f"call void @llvm.masked.scatter.{wide.suffix}.v{lanes}p0({wide} {name}_pairs, {pointers} "
                   f"{name}_at, i32 {type_.info.size}, {type_.mask} {condition})")
        return
    number, masked = name[1:], condition not in ("true", "splat (i1 true)")
    if masked:
        out.append(f"{name}_bits = bitcast {type_.mask} {condition} to i{lanes}")
        out.append(f"{name}_all = icmp eq i{lanes} {name}_bits, -1")
        out.append(f"br i1 {name}_all, label %{number}_full, label %{number}_partial")
        emitter.open_block(f"{number}_partial")
        for k, value in enumerate(values):
            out.append(f"{name}_at{k} = getelementptr {type_.element}, {pointers} {name}_at, i64 {k}")
            out.append(f"call void @llvm.masked.scatter.{type_.suffix}.v{lanes}p0({type_} {value}, {pointers} "
                       f"{name}_at{k}, i32 {type_.info.size}, {type_.mask} {condition})")
        out.append(f"br label %{number}_done")
        emitter.open_block(f"{number}_full")
    for pointer, row, part in _rows(emitter, name, type_, values, f"{name}_at"):
        out.append(f"store {part} {row}, ptr {pointer}, align {type_.info.size}")
    if masked:
        out.append(f"br label %{number}_done")
        emitter.open_block(f"{number}_done")


def add(emitter: FunctionEmitter, name: str, type_: TypeText, base: str, index: tuple[str, str], start: int,
        values: list[str], condition: str) -> None:
    """Add packets, side by side, to the elements from ``start`` beyond an index on, where a mask is set: lane by lane,
    as several may add to the same elements. Those that take no part add to memory that nobody reads, of their own."""
    out, (index_type, position), at = emitter.lines, index, f"{name}_at"
    out.append(f"{name}_row = getelementptr {type_.element}, ptr {base}, i64 {start}")
    out.append(f"{name}_at = getelementptr {type_.element}, ptr {name}_row, {index_type} {position}")
    if condition not in ("true", "splat (i1 true)"):
        lanes, pointers, nowhere = emitter.lanes, type_.of("ptr"), "%nowhere"
        if nowhere not in emitter.loaded:
            emitter.loaded.add(nowhere)
            emitter.prologue.append(f"{nowhere} = alloca [{lanes} x <4 x i32>], align 16")
        places = ", ".join(f"i64 {lane}" for lane in range(lanes))
        out.append(f"{name}_none = getelementptr <4 x i32>, ptr {nowhere}, <{lanes} x i64> <{places}>")
        out.append(f"{name}_to = select {type_.mask} {condition}, {pointers} {name}_at, {pointers} {name}_none")
        at = f"{name}_to"
    for pointer, row, part in _rows(emitter, name, type_, values, at):
        tag = f"{name}_{pointer.rpartition('_p')[2]}"
        out.append(f"{tag}_old = load {part}, ptr {pointer}, align {type_.info.size}")
        out.append(f"{tag}_new = fadd {part} {tag}_old, {row}")
        out.append(f"store {part} {tag}_new, ptr {pointer}, align {type_.info.size}")


def _rows(emitter: FunctionEmitter, name: str, type_: TypeText, values: list[str],
          at: str) -> Iterator[tuple[str, str, str]]:
    """Of each lane: where its row is, its row, which packets are the columns of, and the type of that."""
    out, lanes, count, pointers = emitter.lines, emitter.lanes, len(values), type_.of("ptr")
    group = min(lanes, _GROUP_BYTES // type_.info.size)
    part, text = f"<{count} x {type_.element}>", f"<{group} x {type_.element}>"
    for begin in range(0, lanes, group):
        columns = [_shuffled(out, f"{name}_v{begin}_{k}", str(type_), value, "poison", range(begin, begin + group))
                   for k, value in enumerate(values)]
        blocks = _squares(out, f"{name}_g{begin}", text, columns, group)
        for lane in range(group):
            row = _shuffled(out, f"{name}_r{begin}_{lane}", text, blocks[lane % count], "poison",
                            range(lane // count * count, (lane // count + 1) * count))
            out.append(f"{name}_p{begin}_{lane} = extractelement {pointers} {at}, i32 {begin + lane}")
            yield f"{name}_p{begin}_{lane}", row, part


def _shuffled(out: list[str], name: str, type_: str, a: str, b: str, order: Sequence[int]) -> str:
    places = ", ".join(f"i32 {place}" for place in order)
    out.append(f"{name} = shufflevector {type_} {a}, {type_} {b}, <{len(order)} x i32> <{places}>")
    return name


def _joined(out: list[str], name: str, type_: TypeText, parts: list[str], size: int) -> str:
    """One packet of several, which have ``size`` elements each, in their order."""
    level = 0
    while len(parts) > 1:
        parts = [_shuffled(out, f"{name}_j{level}_{number}", f"<{size} x {type_.element}>", parts[number],
                           parts[number + 1], range(2 * size)) for number in range(0, len(parts), 2)]
        size, level = 2 * size, level + 1
    return parts[0]


def _transposed(out: list[str], name: str, type_: TypeText, rows: list[str], count: int) -> list[str]:
    """Columns of as many rows as a register has elements, of 16 bytes each.

    Rows that are ``count`` apart come to lie in one register; what remains is to transpose its parts of 16 bytes, which
    shuffles within them do.
    """
    size = len(rows)
    text = f"<{size} x {type_.element}>"
    blocks = [_joined(out, f"{name}_b{number}", type_, rows[number::count], count) for number in range(count)]
    return _squares(out, name, text, blocks, size)


def _squares(out: list[str], name: str, text: str, blocks: list[str], size: int) -> list[str]:
    """Registers whose parts of 16 bytes are transposed: those in the same place of all registers are a square."""
    if len(blocks) == 2:
        return [_shuffled(out, f"{name}_t{half}", text, blocks[0], blocks[1],
                          [k + half + side * size for k in range(0, size, 2) for side in (0, 1)])
                for half in (0, 1)]
    quads = range(0, size, 4)
    first: dict[tuple[int, int], str] = {}
    for pair in (0, 1):
        for half in (0, 1):
            order = [q + 2 * half + place + side * size for q in quads for place in (0, 1) for side in (0, 1)]
            first[pair, half] = _shuffled(out, f"{name}_u{pair}{half}", text, blocks[2 * pair], blocks[2 * pair + 1],
                                          order)
    columns = []
    for half in (0, 1):
        for part in (0, 1):
            order = [q + 2 * part + place + side * size for q in quads for side in (0, 1) for place in (0, 1)]
            columns.append(_shuffled(out, f"{name}_t{half}{part}", text, first[0, half], first[1, half], order))
    return columns
