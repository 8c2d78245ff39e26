"""LLVM text of views of short rows, which kernels that iterate over flat arrays read.

A packet goes over several rows of a few elements.  How its elements lie follows from the place in its row of the first
one alone; a packet may begin with each or, where rows divide packets, only one.  Hence nothing is computed for each
element:

* Where all rows are the same elements, there is a packet of them in the kernel's own memory for each beginning.
* Where neighbouring rows lie side by side, a packet is read as neighbours, which are put in order as the beginning
  demands.  That reads more than is needed: packets near the end of the array are gathered.
* Other ones are gathered from distances to the first row of the packet, of which there is a packet for each beginning.
"""

from __future__ import annotations

from math import gcd

from ..codegen.linear import Instruction
from ..codegen.program import DENSE, PERIODIC, Short
from ..types import UINT32, UINT64
from .function import FunctionEmitter
from .texts import TypeText, vector

__all__ = ["view"]


def view(emitter: FunctionEmitter, instruction: Instruction) -> None:
    """Read a packet of a view of short rows."""
    assert instruction.access is not None
    layout, type_ = instruction.access.layout, emitter.stored_type(instruction.type, False)
    write = _periodic if layout == PERIODIC else _dense if layout == DENSE else _spread
    emitter.define(instruction, emitter.from_memory(write(emitter, instruction, type_), instruction.type, False))


def _beginnings(emitter: FunctionEmitter, period: int) -> range:
    """Places in a row that a packet may begin with."""
    return range(0, period, gcd(emitter.lanes, period))


def _row_of(emitter: FunctionEmitter, period: int) -> tuple[str, str]:
    """The row that the packet begins in, and the place in it."""
    w, index = emitter.writer, emitter.index
    row = emitter.keep(("row", period), lambda: w.udiv(index, period))
    return row, emitter.keep(("place", period), lambda: w.sub(index, w.mul(row, period)))


def _held(emitter: FunctionEmitter, period: int, packets: list[str], stored: str, type_: TypeText) -> str:
    """Keep packets, one for each beginning, in memory of the kernel, and read the one that belongs to this packet."""
    w, entry, align = emitter.writer, emitter.entry, type_.alignment
    memory = emitter.prologue(f"alloca [{len(packets)} x {stored}], align 64")
    for number, packet in enumerate(packets):
        entry.store(stored, packet, entry.at(stored, memory, number), align)
    own = "0"
    if len(packets) > 1:
        _, own = _row_of(emitter, period)
        if len(packets) < period:
            own = w.udiv(own, period // len(packets))
    return w.load(type_, w.at(stored, memory, own), align)


def _periodic(emitter: FunctionEmitter, instruction: Instruction, type_: TypeText) -> str:
    """Packets of the elements of a row, over and over again."""
    access, w = instruction.access, emitter.entry
    assert access is not None
    base, first, inner = _parameters(emitter, instruction, 1)
    period, element = access.short.period, type_.integer  # bits: processors may not compute with such floats
    row, elements = f"<{period} x {element}>", "poison"
    for place in range(period):
        at = w.at(element, base, w.add(first, w.mul(inner, place)))
        elements = w(f"insertelement {row} {elements}, {element} {w.load(element, at, type_.info.size)}, i32 {place}")
    packets = [w.shuffle(row, elements, "poison", ((begin + lane) % period for lane in range(emitter.lanes)))
               for begin in _beginnings(emitter, period)]
    return _held(emitter, period, packets, type_.bits, type_)


def _spread(emitter: FunctionEmitter, instruction: Instruction, type_: TypeText) -> str:
    """Gather elements at distances from the first row that are the same for all packets of a beginning."""
    access, w = instruction.access, emitter.entry
    assert access is not None
    base, first, outer, inner = _parameters(emitter, instruction, 2)
    short, index = access.short, emitter.packets[UINT64 if access.short.wide else UINT32]
    steps = [w.splat(index, stride if short.wide else w(f"trunc i64 {stride} to i32")) for stride in (outer, inner)]
    packets = []
    for begin in _beginnings(emitter, short.period):
        rows, places = zip(*(divmod(begin + lane, short.period) for lane in range(emitter.lanes)), strict=True)
        distances = [w(f"mul {index} {step}, {vector(index.element, numbers)}")
                     for step, numbers in zip(steps, (rows, places), strict=True)]
        packets.append(w(f"add {index} {distances[0]}, {distances[1]}"))
    distances_here = _held(emitter, short.period, packets, index, index)
    at = _first_row(emitter, short, base, first, outer, type_)
    return _gather(emitter, type_, at, f"{index} {distances_here}", emitter.active)


def _first_row(emitter: FunctionEmitter, short: Short, base: str, first: str, outer: object, type_: TypeText) -> str:
    """The address of the row that the packet begins in."""
    w, (row, _) = emitter.writer, _row_of(emitter, short.period)
    return w.at(type_.element, base, w.add(first, w.mul(row, outer)))


def _dense(emitter: FunctionEmitter, instruction: Instruction, type_: TypeText) -> str:
    """Read neighbours, and put them in order."""
    access, w, lanes, size = instruction.access, emitter.writer, emitter.lanes, type_.info.size
    assert access is not None
    base, first = _parameters(emitter, instruction, 0)
    period, outer, inner, _ = short = access.short
    orders = {begin: [number * outer + rest * inner for number, rest in
                      (divmod(begin + lane, period) for lane in range(lanes))]
              for begin in _beginnings(emitter, period)}
    count = 1 << (max(max(order) - min(order) for order in orders.values())).bit_length()
    # So many rows reach as far as what is read, which is more than what is needed: they must all exist.
    rows = 1 + max(-(-(min(order) + count - 1) // outer) for order in orders.values())
    _, place = _row_of(emitter, period)
    width, first_row = emitter.parameter(0, "i64"), _first_row(emitter, short, base, first, outer, type_)
    end = w.add(emitter.index, max(rows * period, lanes))
    near_end, read = w.label("near_end"), w.label("read")
    w.only_if(w(f"icmp ule i64 {end}, {width}"), near_end)
    labels = [w.label("begin") for _ in orders]
    if len(labels) == 1:
        w.go(labels[0])
    else:
        cases = " ".join(f"i64 {begin}, label %{label}" for begin, label in zip(orders, labels, strict=True))
        w.line(f"switch i64 {place}, label %{labels[0]} [ {cases} ]")
    element = type_.integer if type_.info.computes_in != type_.info.type else type_.element
    neighbours, results = f"<{count} x {element}>", []
    for order, label in zip(orders.values(), labels, strict=True):
        w.open(label)
        found = w.load(neighbours, w.at(type_.element, first_row, min(order)), size)
        packet = w.shuffle(neighbours, found, "poison", (place_ - min(order) for place_ in order))
        results.append((w(f"bitcast {type_.of(element)} {packet} to {type_}"), label))
        w.go(read)
    w.open(near_end)
    results.append((_near_end(emitter, short, first_row, place, width, type_), near_end))
    w.go(read)
    w.open(read)
    return w.phi(type_, *results)


def _near_end(emitter: FunctionEmitter, short: Short, first_row: str, place: str, width: str, type_: TypeText) -> str:
    """Gather a packet, or what there is of it."""
    w, index, lanes = emitter.writer, emitter.packets[UINT32], vector("i32", range(emitter.lanes))
    few = w(f"trunc i64 {w.minimum(w.sub(width, emitter.index), emitter.lanes)} to i32")
    place = w(f"trunc i64 {place} to i32")
    few, place = w.splat(index, few), w.splat(index, place)
    exist = w(f"icmp ult {index} {lanes}, {few}")
    places = w(f"add {index} {lanes}, {place}")
    row = w(f"udiv {index} {places}, {index.splat(short.period)}")
    places = w(f"sub {index} {places}, {w(f'mul {index} {row}, {index.splat(short.period)}')}")
    outer, inner = (w(f"mul {index} {numbers}, {index.splat(step)}")
                    for numbers, step in ((row, short.outer), (places, short.inner)))
    distances = w(f"add {index} {outer}, {inner}")
    return _gather(emitter, type_, first_row, f"{index} {distances}", exist)


def _gather(emitter: FunctionEmitter, type_: TypeText, first_row: str, distances: str, mask: str) -> str:
    """Gather elements at some distances from the first row of a packet."""
    w = emitter.writer
    return w.gathered(type_, w(f"getelementptr {type_.element}, ptr {first_row}, {distances}"), type_.info.size, mask)


def _parameters(emitter: FunctionEmitter, instruction: Instruction, count: int) -> list[str]:
    """The address, the position of the first element, and distances: of rows, and of their elements."""
    access = instruction.access
    assert access is not None
    return [emitter.parameter(access.slot, "ptr"), emitter.parameter(access.first, "i64"),
            *(emitter.parameter(access.first + 3 - count + number, "i64") for number in range(count))]
