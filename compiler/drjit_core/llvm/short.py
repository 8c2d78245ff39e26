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

from collections.abc import Iterable
from math import gcd

from ..codegen.linear import Instruction
from ..codegen.program import DENSE, PERIODIC, Short
from ..types import BOOL, UINT32, UINT64
from .function import FunctionEmitter
from .texts import TypeText

__all__ = ["view"]


def view(emitter: FunctionEmitter, instruction: Instruction) -> None:
    """Read a packet of a view of short rows."""
    access = instruction.access
    assert access is not None
    name, type_ = f"%v{instruction.number}", emitter.stored_type(instruction.type, False)
    value = f"{name}_m" if instruction.type == BOOL else name
    print_ = _periodic if access.layout == PERIODIC else _dense if access.layout == DENSE else _spread
    print_(emitter, instruction, name, value, type_)
    if instruction.type == BOOL:
        emitter.lines.append(f"{name} = icmp ne {type_} {value}, {type_.splat(0)}")
    emitter.define(instruction, name)


def _beginnings(emitter: FunctionEmitter, period: int) -> range:
    """Places in a row that a packet may begin with."""
    return range(0, period, gcd(emitter.lanes, period))


def _row_of(emitter: FunctionEmitter, period: int) -> tuple[str, str]:
    """The row that the packet begins in, and the place in it."""
    row, place = f"%row_of_{period}", f"%place_of_{period}"
    if row not in emitter.loaded:
        emitter.loaded.add(row)
        emitter.lines += [f"{row} = udiv i64 {emitter.index}, {period}", f"{row}_first = mul i64 {row}, {period}",
                          f"{place} = sub i64 {emitter.index}, {row}_first"]
    return row, place


def _held(emitter: FunctionEmitter, name: str, value: str, period: int, packets: list[str], stored: str,
          type_: TypeText) -> None:
    """Keep packets, one for each beginning, in memory of the kernel, and read the one that belongs to this packet."""
    align = min(64, emitter.lanes * type_.info.size)
    emitter.prologue.append(f"{name}_packets = alloca [{len(packets)} x {stored}], align 64")
    for number, packet in enumerate(packets):
        emitter.entry += [f"{name}_packet{number} = getelementptr {stored}, ptr {name}_packets, i64 {number}",
                          f"store {stored} {packet}, ptr {name}_packet{number}, align {align}"]
    own = "0"
    if len(packets) > 1:
        _, own = _row_of(emitter, period)
        if len(packets) < period:
            emitter.lines.append(f"{name}_number = udiv i64 {own}, {period // len(packets)}")
            own = f"{name}_number"
    emitter.lines += [f"{name}_own = getelementptr {stored}, ptr {name}_packets, i64 {own}",
                      f"{value} = load {type_}, ptr {name}_own, align {align}"]


def _periodic(emitter: FunctionEmitter, instruction: Instruction, name: str, value: str, type_: TypeText) -> None:
    """Packets of the elements of a row, over and over again."""
    access, entry = instruction.access, emitter.entry
    assert access is not None
    base, first, inner = _parameters(emitter, instruction, 1)
    period, element = access.short.period, f"i{type_.info.bits}"  # bits: processors may not compute with such floats
    row = f"<{period} x {element}>"
    before = "poison"
    for place in range(period):
        part = f"{name}_row{place}"
        entry += [f"{part}_i = mul i64 {inner}, {place}", f"{part}_position = add i64 {first}, {part}_i",
                  f"{part}_at = getelementptr {element}, ptr {base}, i64 {part}_position",
                  f"{part}_e = load {element}, ptr {part}_at, align {type_.info.size}",
                  f"{part} = insertelement {row} {before}, {element} {part}_e, i32 {place}"]
        before = part
    packets = []
    for number, begin in enumerate(_beginnings(emitter, period)):
        order = [(begin + lane) % period for lane in range(emitter.lanes)]
        packets.append(f"{name}_from{number}")
        entry.append(_shuffle(packets[-1], row, before, order))
    _held(emitter, name, value, period, packets, type_.bits, type_)


def _spread(emitter: FunctionEmitter, instruction: Instruction, name: str, value: str, type_: TypeText) -> None:
    """Gather elements at distances from the first row that are the same for all packets of a beginning."""
    access, entry = instruction.access, emitter.entry
    assert access is not None
    base, first, outer, inner = _parameters(emitter, instruction, 2)
    short, index = access.short, emitter.packets[UINT64 if access.short.wide else UINT32]
    steps: list[str] = []
    for stride in (outer, inner):
        narrow = stride
        if not short.wide:
            narrow = f"{name}_s{len(steps)}"
            entry.append(f"{narrow} = trunc i64 {stride} to i32")
        steps.append(f"{name}_steps{len(steps)}")
        emitter.splat(steps[-1], narrow, index, entry)
    packets = []
    for number, begin in enumerate(_beginnings(emitter, short.period)):
        part = f"{name}_distance{number}"
        for step, numbers in zip(steps, zip(*(divmod(begin + lane, short.period) for lane in range(emitter.lanes)),
                                            strict=True), strict=True):
            entry.append(f"{part}_{step[-1]} = mul {index} {step}, {_vector(index.element, numbers)}")
        entry.append(f"{part} = add {index} {part}_0, {part}_1")
        packets.append(part)
    _held(emitter, name, f"{name}_distances", short.period, packets, index, index)
    row, _ = _row_of(emitter, short.period)
    emitter.lines += [f"{name}_r = mul i64 {row}, {outer}", f"{name}_f = add i64 {first}, {name}_r",
                      f"{name}_first = getelementptr {type_.element}, ptr {base}, i64 {name}_f"]
    _gather(emitter, name, value, type_, f"{index} {name}_distances", emitter.active)


def _dense(emitter: FunctionEmitter, instruction: Instruction, name: str, value: str, type_: TypeText) -> None:
    """Read neighbours, and put them in order."""
    access, out, lanes = instruction.access, emitter.lines, emitter.lanes
    assert access is not None
    base, first = _parameters(emitter, instruction, 0)
    period, outer, inner, _ = access.short
    row, place = _row_of(emitter, period)
    orders = {begin: [number * outer + rest * inner for number, rest in
                      (divmod(begin + lane, period) for lane in range(lanes))]
              for begin in _beginnings(emitter, period)}
    count = 1 << (max(max(order) - min(order) for order in orders.values())).bit_length()
    # So many rows reach as far as what is read, which is more than what is needed: they must all exist.
    rows = 1 + max(-(-(min(order) + count - 1) // outer) for order in orders.values())
    number, width = name[1:], emitter.parameter(0, "i64")
    out += [f"{name}_r = mul i64 {row}, {outer}", f"{name}_f = add i64 {first}, {name}_r",
            f"{name}_first = getelementptr {type_.element}, ptr {base}, i64 {name}_f",
            f"{name}_end = add i64 {emitter.index}, {max(rows * period, lanes)}",
            f"{name}_inside = icmp ule i64 {name}_end, {width}",
            f"br i1 {name}_inside, label %{number}_whole, label %{number}_near_end"]
    emitter.open_block(f"{number}_whole")
    labels = [f"{number}_begin{begin}" for begin in orders]
    if len(labels) == 1:
        out.append(f"br label %{labels[0]}")
    else:
        cases = " ".join(f"i64 {begin}, label %{label}" for begin, label in zip(orders, labels, strict=True))
        out.append(f"switch i64 {place}, label %{labels[0]} [ {cases} ]")
    element = f"i{8 * type_.info.size}" if type_.info.computes_in != type_.info.type else type_.element
    results = []
    for (begin, order), label in zip(orders.items(), labels, strict=True):
        part = f"{name}_{begin}"
        emitter.open_block(label)
        neighbours = f"<{count} x {element}>"
        out += [f"{part}_at = getelementptr {type_.element}, ptr {name}_first, i64 {min(order)}",
                f"{part}_n = load {neighbours}, ptr {part}_at, align {type_.info.size}",
                _shuffle(f"{part}_e", neighbours, f"{part}_n", [place - min(order) for place in order]),
                f"{part} = bitcast {type_.of(element)} {part}_e to {type_}", f"br label %{number}_read"]
        results.append(f"[ {part}, %{label} ]")
    emitter.open_block(f"{number}_near_end")
    _near_end(emitter, name, access.short, place, width, type_)
    out.append(f"br label %{number}_read")
    emitter.open_block(f"{number}_read")
    out.append(f"{value} = phi {type_} {', '.join(results)}, [ {name}_late, %{number}_near_end ]")


def _near_end(emitter: FunctionEmitter, name: str, short: Short, place: str, width: str, type_: TypeText) -> None:
    """Gather a packet, or what there is of it."""
    out, index, lanes = emitter.lines, emitter.packets[UINT32], _vector("i32", range(emitter.lanes))
    out += [f"{name}_left = sub i64 {width}, {emitter.index}",
            f"{name}_left_c = call i64 @llvm.umin.i64(i64 {name}_left, i64 {emitter.lanes})",
            f"{name}_left_32 = trunc i64 {name}_left_c to i32", f"{name}_place_32 = trunc i64 {place} to i32"]
    emitter.splat(f"{name}_left_all", f"{name}_left_32", index, out)
    emitter.splat(f"{name}_place_all", f"{name}_place_32", index, out)
    out += [f"{name}_exist = icmp ult {index} {lanes}, {name}_left_all",
            f"{name}_lanes = add {index} {lanes}, {name}_place_all",
            f"{name}_q = udiv {index} {name}_lanes, {index.splat(short.period)}",
            f"{name}_qp = mul {index} {name}_q, {index.splat(short.period)}",
            f"{name}_p = sub {index} {name}_lanes, {name}_qp",
            f"{name}_qs = mul {index} {name}_q, {index.splat(short.outer)}",
            f"{name}_ps = mul {index} {name}_p, {index.splat(short.inner)}",
            f"{name}_d = add {index} {name}_qs, {name}_ps"]
    _gather(emitter, name, f"{name}_late", type_, f"{index} {name}_d", f"{name}_exist")


def _gather(emitter: FunctionEmitter, name: str, value: str, type_: TypeText, distances: str, mask: str) -> None:
    """Gather elements at some distances from the first row of a packet."""
    emitter.lines += [
        f"{name}_at = getelementptr {type_.element}, ptr {name}_first, {distances}",
        f"{value} = call {type_} @llvm.masked.gather.{type_.suffix}.v{emitter.lanes}p0({type_.of('ptr')} {name}_at, "
        f"i32 {type_.info.size}, {type_.mask} {mask}, {type_} zeroinitializer)"]


def _parameters(emitter: FunctionEmitter, instruction: Instruction, count: int) -> list[str]:
    """The address, the position of the first element, and distances: of rows, and of their elements."""
    access = instruction.access
    assert access is not None
    return [emitter.parameter(access.slot, "ptr"), emitter.parameter(access.first, "i64"),
            *(emitter.parameter(access.first + 3 - count + number, "i64") for number in range(count))]


def _vector(element: str, numbers: Iterable[int]) -> str:
    """A constant packet."""
    return "<" + ", ".join(f"{element} {number}" for number in numbers) + ">"


def _shuffle(name: str, type_: str, value: str, order: list[int]) -> str:
    """Text of elements in some order."""
    return (f"{name} = shufflevector {type_} {value}, {type_} poison, <{len(order)} x i32> "
            f"{_vector('i32', order)}")
