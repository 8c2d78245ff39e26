"""Positions of the set elements of a mask: they are counted chunk by chunk, and then each chunk writes its own.

Masks are bytes.  A packet of positions is compressed in registers and stored as a whole: what lies behind the set ones
is written over by the next packet, which is why the last packets of a chunk, behind which others write, are masked.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...codegen.steps import Call, Pass, Text
from ...types import BOOL
from .packets import Elements
from .writer import Writer

__all__ = ["count_passes", "passes"]

#: Mask elements that are looked at together, and lanes of a packet of positions.
_BITS, _LANES = 64, 16


def count_passes(call: Call) -> Iterable[Pass]:
    """The launch that counts, and adds the counts up."""
    (mask,), (chunk, _) = call.operands, call.step.extents
    chunks = -(-mask.size // chunk)
    offsets, total = (call.results[place].address if place in call.results else call.scratch(8 * max(1, chunks))
                      for place in (0, 1))
    yield Pass(Text("count", (), _count, chunk, combines=True), (mask.address, offsets, total, mask.size, chunk),
               chunks, 8)


def passes(call: Call) -> Iterable[Pass]:
    """The launch that writes."""
    mask, offsets = call.operands
    (chunk, _), target = call.step.extents, call.results[0]
    chunks = -(-mask.size // chunk)
    yield Pass(Text("compress", (), _compress, 8 * chunk),
               (mask.address, offsets.address, target.address, mask.size, chunk, chunks, target.size), chunks, 8)


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
        found = w.loop(whole, stop, _BITS, [("i64", found[0])], lambda position, values: add(position, values, False))
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


def _compress() -> str:
    w = Writer()
    bytes_ = Elements(w, BOOL, _BITS)
    packet, mask_type = f"<{_LANES} x i32>", f"<{_LANES} x i1>"
    w.kernel()
    source, offsets, target = (w.parameter(number, "ptr") for number in range(3))
    size, chunk, chunks, total = (w.parameter(number) for number in range(3, 7))
    lanes = "<" + ", ".join(f"i32 {lane}" for lane in range(_LANES)) + ">"

    def splat(value: str) -> str:
        first = w(f"insertelement {packet} poison, i32 {value}, i64 0")
        return w(f"shufflevector {packet} {first}, {packet} poison, {packet} zeroinitializer")

    def task(number: str, _: list[str]) -> list[str]:
        start = w.mul(number, chunk)
        stop = w.minimum(w.add(start, chunk), size)
        place = w.load("i64", w.at("i64", offsets, number), 8)
        following = w.add(number, 1)
        is_last = w(f"icmp eq i64 {following}, {chunks}")
        limit, = w.branch(is_last, lambda: [total], lambda: [w.load("i64", w.at("i64", offsets, following), 8)],
                          ["i64"])

        def packets(position: str, values: list[str], whole: bool) -> list[str]:
            bits, place = _bits(w, bytes_, source, position, stop, whole), values[0]
            counts = []
            for part in range(_BITS // _LANES):
                some = w(f"lshr i64 {bits}, {part * _LANES}") if part else bits
                some = w(f"trunc i64 {some} to i{_LANES}")
                mask = w(f"bitcast i{_LANES} {some} to {mask_type}")
                first = w(f"trunc i64 {w.add(position, part * _LANES)} to i32")
                positions = w(f"add {packet} {splat(first)}, {lanes}")
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
                        few = splat(w(f"trunc i64 {count} to i32"))
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
