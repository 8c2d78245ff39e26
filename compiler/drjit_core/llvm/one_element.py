"""LLVM text of scatter-reductions of which all lanes have the same index: those of a packet become a single update."""

from __future__ import annotations

import math

from ..codegen.linear import Instruction
from ..codegen.target import ATOMIC
from ..ops.reductions import REDUCTIONS
from ..types import BOOL, COMPUTES_IN, TYPES, ReduceOp
from .function import FunctionEmitter
from .texts import TypeText, cast, constant
from .texts import update as combined
from .updates import Update
from .writer import Writer

__all__ = ["add", "is_count", "is_one", "update"]


def is_count(emitter: FunctionEmitter, instruction: Instruction) -> bool:
    """Whether all lanes of a scatter-reduction add the same integer to the same element."""
    value, index = instruction.operands[:2]
    return (emitter.vectorized and not instruction.uniform and instruction.node.attr == ReduceOp.Add.value
            and TYPES[instruction.type].kind in "iu" and value.uniform and index.uniform)


def is_one(emitter: FunctionEmitter, instruction: Instruction) -> bool:
    """Whether all lanes of a scatter-reduction update the same element, and nobody asks what each of them finds."""
    access, index = instruction.access, instruction.operands[1]
    assert access is not None
    return (emitter.vectorized and not instruction.uniform and index.uniform and not access.fetched
            and not access.piece and instruction.node.attr in REDUCTIONS and instruction.type != BOOL)


def update(emitter: FunctionEmitter, instruction: Instruction, name: str, base: str, index: tuple[str, str],
           condition: str) -> None:
    """Combine what the lanes of a mask have, and update the element once; a packet without such lanes does not."""
    access, op, type_ = instruction.access, instruction.node.attr, instruction.type
    assert access is not None
    stored, packet = emitter.packets[type_], emitter.packets[COMPUTES_IN[type_]]
    w, value = Writer(emitter.body, f"{name[1:]}."), emitter.value(instruction.operands[0], False)
    if packet != stored:
        value = w.named(lambda name: cast(name, value, stored, packet))
    done = w.label("done")
    if condition not in ("true", "splat (i1 true)"):
        bits = f"i{emitter.lanes}"
        w.only_if(w(f"icmp ne {bits} {w(f'bitcast {packet.mask} {condition} to {bits}')}, 0"), done)
        value = w(f"select {packet.mask} {condition}, {packet} {value}, {packet} {packet.splat(_neutral(op, packet))}")
    value, scalar = _total(w, op, value, packet), emitter.scalars[type_]
    if packet.info != scalar.info:
        value = w.named(lambda name: cast(name, value, TypeText(packet.info, 0), scalar))
    write = Update(w, op, scalar, access.strategy == ATOMIC)
    write(w(f"getelementptr {write.element}, ptr {base}, {index[0]} {index[1]}"), value)
    w.go(done)
    w.open(done)


def _total(w: Writer, op: int, value: str, packet: TypeText) -> str:
    """What the lanes of a packet combine to: its halves are combined until one lane is left."""
    if packet.lanes == 1:
        return w(f"extractelement {packet} {value}, i32 0")
    lanes = packet.lanes // 2
    half = TypeText(packet.info, lanes)
    low, high = (w.shuffle(packet, value, "poison", range(first, first + lanes)) for first in (0, lanes))
    return _total(w, op, w.named(lambda name: combined(op, name, low, high, half)), half)


def _neutral(op: int, type_: TypeText) -> str:
    """What changes nothing that it is combined with: NaN where numbers are preferred to it."""
    if type_.info.is_float and op in (ReduceOp.Min.value, ReduceOp.Max.value):
        return constant(type_.info.type, math.nan)
    return constant(type_.info.type, REDUCTIONS[op].identity(type_.info.type))


def add(emitter: FunctionEmitter, instruction: Instruction, name: str, base: str, condition: str) -> None:
    """Add as many times as lanes are set in a mask: the lanes take turns, so that each finds what those before it add.

    A packet without such lanes touches no memory.
    """
    access, (counted, element, _) = instruction.access, instruction.operands
    assert access is not None
    out, lanes, number = emitter.lines, emitter.lanes, name[1:]
    type_, scalar = emitter.packets[instruction.type], emitter.scalars[instruction.type]
    bits, size, width = f"i{lanes}", TYPES[instruction.type].size, TYPES[instruction.type].bits
    value, index = emitter.value(counted, True), emitter.value(element, True)
    if TYPES[element.type].bits < 64:
        extend = "sext" if TYPES[element.type].kind == "i" else "zext"
        out.append(f"{name}_i = {extend} {emitter.scalars[element.type]} {index} to i64")
        index = f"{name}_i"
    out += [f"{name}_bits = bitcast {type_.mask} {condition} to {bits}",
            f"{name}_any = icmp ne {bits} {name}_bits, 0",
            f"br i1 {name}_any, label %{number}_some, label %{number}_done"]
    before = emitter.label
    emitter.open_block(f"{number}_some")
    out += [f"{name}_ones = call {bits} @llvm.ctpop.{bits}({bits} {name}_bits)",
            _resized(f"{name}_times", bits, lanes, f"{name}_ones", str(scalar), width),
            f"{name}_sum = mul {scalar} {name}_times, {value}",
            f"{name}_at = getelementptr {scalar}, ptr {base}, i64 {index}"]
    if access.strategy == ATOMIC:
        out.append(f"{name}_old = atomicrmw add ptr {name}_at, {scalar} {name}_sum monotonic, align {size}")
    else:
        out += [f"{name}_old = load {scalar}, ptr {name}_at, align {size}",
                f"{name}_new = add {scalar} {name}_old, {name}_sum",
                f"store {scalar} {name}_new, ptr {name}_at, align {size}"]
    if access.fetched:
        masks = f"<{lanes} x {bits}>"
        lower = ", ".join(f"{bits} {(1 << lane) - 1}" for lane in range(lanes))
        out += [f"{name}_first = insertelement {masks} poison, {bits} {name}_bits, i32 0",
                f"{name}_everywhere = shufflevector {masks} {name}_first, {masks} poison, "
                f"<{lanes} x i32> zeroinitializer",
                f"{name}_lower = and {masks} {name}_everywhere, <{lower}>",
                f"{name}_earlier = call {masks} @llvm.ctpop.v{lanes}{bits}({masks} {name}_lower)",
                _resized(f"{name}_turn", masks, lanes, f"{name}_earlier", str(type_), width)]
        emitter.splat(f"{name}_values", value, type_, out)
        emitter.splat(f"{name}_olds", f"{name}_old", type_, out)
        out += [f"{name}_added = mul {type_} {name}_turn, {name}_values",
                f"{name}_new_to_each = add {type_} {name}_olds, {name}_added",
                f"{name}_found_some = select {type_.mask} {condition}, {type_} {name}_new_to_each, "
                f"{type_} zeroinitializer"]
    out.append(f"br label %{number}_done")
    emitter.open_block(f"{number}_done")
    if access.fetched:
        out.append(f"{name}_found = phi {type_} [ zeroinitializer, %{before} ], [ {name}_found_some, %{number}_some ]")


def _resized(name: str, before: str, bits: int, value: str, after: str, width: int) -> str:
    """Text that makes an unsigned integer, or packets of such, of other ones that have so many bits."""
    if bits == width:
        return f"{name} = add {before} {value}, {'0' if before[0] == 'i' else 'zeroinitializer'}"
    return f"{name} = {'zext' if bits < width else 'trunc'} {before} {value} to {after}"
