"""Positions of the set elements of a mask: they are counted chunk by chunk, and then each chunk writes its own.

Masks are bytes.  A packet of positions is compressed in registers and stored as a whole: what lies behind the set ones
is written over by the next packet, which is why the last packets of a chunk, behind which others write, are masked.

Processors whose packets have fewer than 16 lanes have no instruction that compresses.  There, a table knows which lanes
come first, for each of the 2^lanes masks of a packet; the last positions of a chunk are written one by one.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...codegen.steps import Call, Pass, Text
from ...types import BOOL, INT32, TYPES
from .. import jit
from ..texts import TypeText, vector
from ..writer import Writer
from .blocks import in_blocks
from .packets import Elements

__all__ = ["count_passes", "passes"]

#: Mask elements that are looked at together, and lanes of a packet of positions where an instruction compresses it.
_BITS, _LANES = 64, 16


def count_passes(call: Call) -> Iterable[Pass]:
    """The launch that counts, and adds the counts up."""
    (mask,), (chunk, _) = call.operands, call.step.extents
    chunks = -(-mask.size // chunk)
    offsets, total = (call.results[place].address if place in call.results else call.scratch(8 * max(1, chunks))
                      for place in (0, 1))
    yield in_blocks(Text("count", (), _count, chunk, combines=True), (mask.address, offsets, total, mask.size, chunk),
                    chunks, 8)


def passes(call: Call) -> Iterable[Pass]:
    """The launch that writes."""
    mask, offsets = call.operands
    (chunk, _), target = call.step.extents, call.results[0]
    chunks = -(-mask.size // chunk)
    yield in_blocks(Text("compress", (), _compress if jit.lanes() == _LANES else _by_table, 8 * chunk),
                    (mask.address, offsets.address, target.address, mask.size, chunk, chunks, target.size), chunks, 8)


def _each(w: Writer, source: str, position: str, stop: str, places: str, target: str = "") -> str:
    """Count the set elements of what is too short for a packet, and write their positions: how many there were.

    (Where there is no mask for the lanes of a load, LLVM makes a branch of each of them.)
    """
    def element(position: str, values: list[str]) -> list[str]:
        is_set = w(f"icmp ne i8 {w.load('i8', w.at('i8', source, position), 1)}, 0")

        def write() -> list[str]:
            w.store("i32", w(f"trunc i64 {position} to i32"), w.at("i32", target, values[0]), 4)
            return []

        if target:
            w.branch(is_set, write)
        return [w.add(values[0], w(f"zext i1 {is_set} to i64"))]

    return w.loop(position, stop, 1, [("i64", places)], element)[0]


def _bits(w: Writer, bytes_: Elements, source: str, position: str, stop: str, whole: bool) -> str:
    """The next mask elements as bits; those from ``stop`` on are not set."""
    mask = "" if whole else bytes_.mask(w.sub(stop, position))
    value = bytes_.load(w.at("i8", source, position), mask)
    packet = bytes_.register
    return w(f"bitcast <{_BITS} x i1> {w(f'icmp ne {packet} {value}, zeroinitializer')} to i{_BITS}")


def _count() -> str:
    w = Writer()
    bytes_ = Elements(w, BOOL, _BITS)
    w.kernel()
    source, offsets = w.parameter(0, "ptr"), w.parameter(1, "ptr")
    size, chunk = w.parameter(3), w.parameter(4)

    def task(number: str, _: list[str]) -> list[str]:
        start = w.mul(number, chunk)
        stop = w.minimum(w.add(start, chunk), size)
        whole = w.add(start, w.and_(w.sub(stop, start), -_BITS))

        def add(position: str, values: list[str], is_whole: bool) -> list[str]:
            bits = _bits(w, bytes_, source, position, stop, is_whole)
            return [w.add(values[0], w.call("i64", "llvm.ctpop.i64", f"i64 {bits}"))]

        found = w.loop(start, whole, _BITS, [("i64", "0")], lambda position, values: add(position, values, True))
        if jit.lanes() == _LANES:
            found = w.loop(whole, stop, _BITS, [("i64", found[0])],
                           lambda position, values: add(position, values, False))
        else:
            found = [_each(w, source, whole, stop, found[0])]
        w.store("i64", found[0], w.at("i64", offsets, number), 8)
        return []

    w.loop("%begin", "%end", 1, [], task)
    w.end()
    w.combine()
    offsets, total = w.parameter(1, "ptr"), w.parameter(2, "ptr")
    size, chunk = w.parameter(3), w.parameter(4)
    chunks = w.udiv(w.add(size, w.sub(chunk, 1)), chunk)

    def add_up(number: str, values: list[str]) -> list[str]:
        at = w.at("i64", offsets, number)
        count = w.load("i64", at, 8)
        w.store("i64", values[0], at, 8)
        return [w.add(values[0], count)]

    found = w.loop("0", chunks, 1, [("i64", "0")], add_up)
    w.store("i64", found[0], total, 8)
    w.end()
    return w.text()


def _room(w: Writer, number: str, offsets: str, chunks: str, total: str) -> tuple[str, str]:
    """Where the positions of a chunk begin and end."""
    place = w.load("i64", w.at("i64", offsets, number), 8)
    following = w.add(number, 1)
    is_last = w(f"icmp eq i64 {following}, {chunks}")
    limit, = w.branch(is_last, lambda: [total], lambda: [w.load("i64", w.at("i64", offsets, following), 8)], ["i64"])
    return place, limit


def _compress() -> str:
    w = Writer()
    bytes_ = Elements(w, BOOL, _BITS)
    packet, mask_type = TypeText(TYPES[INT32], _LANES), f"<{_LANES} x i1>"
    w.kernel()
    source, offsets, target = (w.parameter(number, "ptr") for number in range(3))
    size, chunk, chunks, total = (w.parameter(number) for number in range(3, 7))
    lanes = vector("i32", range(_LANES))

    def task(number: str, _: list[str]) -> list[str]:
        start = w.mul(number, chunk)
        stop = w.minimum(w.add(start, chunk), size)
        place, limit = _room(w, number, offsets, chunks, total)

        def packets(position: str, values: list[str], whole: bool) -> list[str]:
            bits, place = _bits(w, bytes_, source, position, stop, whole), values[0]
            counts = []
            for part in range(_BITS // _LANES):
                some = w(f"lshr i64 {bits}, {part * _LANES}") if part else bits
                some = w(f"trunc i64 {some} to i{_LANES}")
                mask = w(f"bitcast i{_LANES} {some} to {mask_type}")
                first = w(f"trunc i64 {w.add(position, part * _LANES)} to i32")
                positions = w(f"add {packet} {w.splat(packet, first)}, {lanes}")
                kept = w(f"call {packet} @llvm.experimental.vector.compress.v{_LANES}i32({packet} {positions}, "
                         f"{mask_type} {mask}, {packet} poison)")
                count = w(f"zext i{_LANES} {w.call(f'i{_LANES}', f'llvm.ctpop.i{_LANES}', f'i{_LANES} {some}')} to i64")
                counts.append((kept, count))
            fits = w(f"icmp ule i64 {w.add(place, _BITS)}, {limit}")

            def store(masked: bool) -> list[str]:
                at = place
                for kept, count in counts:
                    pointer = w.at("i32", target, at)
                    if masked:
                        few = w.splat(packet, w(f"trunc i64 {count} to i32"))
                        mask = w(f"icmp ult {packet} {lanes}, {few}")
                        w.line(f"call void @llvm.masked.store.v{_LANES}i32.p0({packet} {kept}, ptr {pointer}, i32 4, "
                               f"{mask_type} {mask})")
                    else:
                        w.store(packet, kept, pointer, 4)
                    at = w.add(at, count)
                return [at]

            return w.branch(fits, lambda: store(False), lambda: store(True), ["i64"])

        whole = w.add(start, w.and_(w.sub(stop, start), -_BITS))
        place, = w.loop(start, whole, _BITS, [("i64", place)], lambda position, values: packets(position, values, True))
        w.loop(whole, stop, _BITS, [("i64", place)], lambda position, values: packets(position, values, False))
        return []

    w.loop("%begin", "%end", 1, [], task)
    w.end()
    return w.text()


def _table(w: Writer, lanes: int) -> str:
    """A table of the lanes that are set in each mask of a packet, in their order, as bytes."""
    rows = ([lane for lane in range(lanes) if mask >> lane & 1] for mask in range(1 << lanes))
    data = "".join(f"\\{lane:02X}" for row in rows for lane in [*row, *[0] * (lanes - len(row))])
    return w.constant(f"[{lanes << lanes} x i8] c\"{data}\"", 64)


def _by_table() -> str:
    w, lanes = Writer(), jit.lanes()
    bytes_, table = Elements(w, BOOL, _BITS), _table(w, lanes)
    packet = f"<{lanes} x i32>"
    w.kernel()
    source, offsets, target = (w.parameter(number, "ptr") for number in range(3))
    size, chunk, chunks, total = (w.parameter(number) for number in range(3, 7))

    def packets(position: str, bits: str, place: str) -> list[str]:
        """Write whole packets."""
        low = w(f"trunc i64 {position} to i32")
        first = w(f"insertelement {packet} poison, i32 {low}, i64 0")
        first = w(f"shufflevector {packet} {first}, {packet} poison, {packet} zeroinitializer")
        for start in range(0, _BITS, lanes):
            some = w.and_(w(f"lshr i64 {bits}, {start}") if start else bits, (1 << lanes) - 1)
            row = w.load(f"<{lanes} x i8>", w.at("i8", table, w.mul(some, lanes)), lanes)
            offset = w(f"add {packet} {first}, <{', '.join([f'i32 {start}'] * lanes)}>") if start else first
            w.store(packet, w(f"add {packet} {w(f'zext <{lanes} x i8> {row} to {packet}')}, {offset}"),
                    w.at("i32", target, place), 4)
            if start + lanes < _BITS:
                place = w.add(place, w.call("i64", "llvm.ctpop.i64", f"i64 {some}"))
        return []

    def one_by_one(position: str, bits: str, place: str, end: str) -> list[str]:
        """Write the position of each element that is set."""
        def write(place: str, values: list[str]) -> list[str]:
            bits, = values
            found = w.add(position, w.call("i64", "llvm.cttz.i64", f"i64 {bits}", "i1 true"))
            w.store("i32", w(f"trunc i64 {found} to i32"), w.at("i32", target, place), 4)
            return [w.and_(bits, w.sub(bits, 1))]

        w.loop(place, end, 1, [("i64", bits)], write)
        return []

    def task(number: str, _: list[str]) -> list[str]:
        start = w.mul(number, chunk)
        stop = w.minimum(w.add(start, chunk), size)
        place, limit = _room(w, number, offsets, chunks, total)

        def step(position: str, values: list[str]) -> list[str]:
            bits, place = _bits(w, bytes_, source, position, stop, True), values[0]
            end = w.add(place, w.call("i64", "llvm.ctpop.i64", f"i64 {bits}"))
            fits = w(f"icmp ule i64 {w.add(place, _BITS)}, {limit}")
            w.branch(fits, lambda: packets(position, bits, place), lambda: one_by_one(position, bits, place, end))
            return [end]

        whole = w.add(start, w.and_(w.sub(stop, start), -_BITS))
        place, = w.loop(start, whole, _BITS, [("i64", place)], step)
        _each(w, source, whole, stop, place, target)
        return []

    w.loop("%begin", "%end", 1, [], task)
    w.end()
    return w.text()
