"""LLVM text of scatter-reductions of which all lanes have the same index: those of a packet become a single update."""

from __future__ import annotations

import math

from ..codegen.linear import Instruction
from ..codegen.target import ATOMIC
from ..ops.reductions import REDUCTIONS
from ..types import BOOL, COMPUTES_IN, TYPES, ReduceOp
from .function import FunctionEmitter
from .texts import TypeText, constant, is_everywhere, vector
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


def update(emitter: FunctionEmitter, instruction: Instruction, base: str, index: tuple[str, str],
           condition: str) -> None:
    """Combine what the lanes of a mask have, and update the element once; a packet without such lanes does not."""
    access, op, type_ = instruction.access, instruction.node.attr, instruction.type
    assert access is not None
    stored, packet = emitter.packets[type_], emitter.packets[COMPUTES_IN[type_]]
    w, value = emitter.writer, emitter.value(instruction.operands[0], False)
    if packet != stored:
        value = w.cast(value, stored, packet)
    done = w.label("done")
    if not is_everywhere(condition):
        w.only_if(w(f"icmp ne i{emitter.lanes} {emitter.bits_of(condition)}, 0"), done)
        value = w(f"select {packet.mask} {condition}, {packet} {value}, {packet} {packet.splat(_neutral(op, packet))}")
    value, scalar = _total(w, op, value, packet), emitter.scalars[type_]
    if packet.info != scalar.info:
        value = w.cast(value, TypeText(packet.info, 0), scalar)
    write = Update(w, op, scalar, access.strategy == ATOMIC)
    write(w(f"getelementptr {write.element}, ptr {base}, {index[0]} {index[1]}"), value)
    w.go(done)
    w.open(done)


def _total(w: Writer, op: int, value: str, packet: TypeText) -> str:
    """What the lanes of a packet combine to."""
    value, last = w.folded(value, packet, 1, lambda low, high, half: w.named(
        lambda name: combined(op, name, low, high, half)))
    return w(f"extractelement {last} {value}, i32 0")


def _neutral(op: int, type_: TypeText) -> str:
    """What changes nothing that it is combined with: NaN where numbers are preferred to it."""
    if type_.info.is_float and op in (ReduceOp.Min.value, ReduceOp.Max.value):
        return constant(type_.info.type, math.nan)
    return constant(type_.info.type, REDUCTIONS[op].identity(type_.info.type))


def add(emitter: FunctionEmitter, instruction: Instruction, base: str, condition: str) -> None:
    """Add as many times as lanes are set in a mask: the lanes take turns, so that each finds what those before it add.

    A packet without such lanes touches no memory.
    """
    access, (counted, element, _), w = instruction.access, instruction.operands, emitter.writer
    assert access is not None
    lanes, word = emitter.lanes, f"i{emitter.lanes}"
    type_, scalar = emitter.packets[instruction.type], emitter.scalars[instruction.type]
    value, index = emitter.value(counted, True), emitter.value(element, True)
    if TYPES[element.type].bits < 64:
        extend = "sext" if TYPES[element.type].kind == "i" else "zext"
        index = w(f"{extend} {emitter.scalars[element.type]} {index} to i64")
    bits, done = emitter.bits_of(condition), w.label("done")
    any_, before = w(f"icmp ne {word} {bits}, 0"), w.here
    w.only_if(any_, done)
    some = w.here
    times = _resized(w, w.call(word, f"llvm.ctpop.{word}", f"{word} {bits}"), word, lanes, scalar)
    sum_, at = w(f"mul {scalar} {times}, {value}"), w.at(scalar, base, index)
    old = Update(w, ReduceOp.Add.value, scalar, access.strategy == ATOMIC)(at, sum_)
    if access.fetched:
        masks = f"<{lanes} x {word}>"
        first = w(f"insertelement {masks} poison, {word} {bits}, i32 0")
        everywhere = w(f"shufflevector {masks} {first}, {masks} poison, <{lanes} x i32> zeroinitializer")
        lower = w(f"and {masks} {everywhere}, {vector(word, ((1 << lane) - 1 for lane in range(lanes)))}")
        turn = _resized(w, w.call(masks, f"llvm.ctpop.v{lanes}{word}", f"{masks} {lower}"), masks, lanes, type_)
        values, olds = w.splat(type_, value), w.splat(type_, old)
        added = w(f"mul {type_} {turn}, {values}")
        new = w(f"add {type_} {olds}, {added}")
        found = w(f"select {type_.mask} {condition}, {type_} {new}, {type_} zeroinitializer")
    w.go(done)
    w.open(done)
    if access.fetched:
        emitter.results[instruction.number] = [w.phi(type_, ("zeroinitializer", before), (found, some))]


def _resized(w: Writer, value: str, before: str, bits: int, after: TypeText) -> str:
    """An unsigned integer, or packets of such, of other ones that have so many bits."""
    width = after.info.bits
    if bits == width:
        return value
    return w(f"{'zext' if bits < width else 'trunc'} {before} {value} to {after}")
