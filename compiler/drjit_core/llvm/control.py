"""LLVM text of regions: loops and branches.

A loop runs while its condition holds in some active element.  Elements that are done keep their values: the mask of
live elements is carried along, and each iteration's results are blended with the previous ones.  What nobody asks for
when the loop has ended is not blended: each iteration need not wait for the mask then, which takes longer than many a
body.  Elements that are done compute something with it that nobody sees, since accesses to memory are masked, and all
arithmetic is defined for all operands.
"""

from __future__ import annotations

from ..codegen.linear import Block, Instruction
from ..ops.table import LOOP, PHI
from ..types import BOOL
from . import rare
from .function import FunctionEmitter
from .texts import zero

__all__ = ["cond", "loop", "result"]


def loop(emitter: FunctionEmitter, instruction: Instruction) -> None:
    """A loop and its blocks."""
    condition_block, body_block = instruction.blocks
    formals, uniform, w = condition_block.formals, instruction.uniform, emitter.writer
    assert condition_block.mask is not None and body_block.mask is not None
    mask, outer = emitter.types(uniform)[BOOL], (emitter.block, emitter.active, emitter.scalar_active)
    initial = [emitter.value(start, formal.uniform)
               for start, formal in zip(instruction.operands, formals, strict=True)]
    before, head, latch, done = w.here, w.label("loop"), w.label("latch"), w.label("loop_done")
    w.go(head)
    w.open(head)
    entries = [w.late_phi(emitter.types(formal.uniform)[formal.type]) for formal in formals]
    for formal, (name, _) in zip(formals, entries, strict=True):
        emitter.define(formal, name)
    entering, meet = w.late_phi(mask)
    entering_from = emitter.active_mask(uniform), before
    if condition_block.counts:
        count, count_on = w.late_phi("i64")
        emitter.counts[instruction.number] = count
    emitter.set_active(entering, uniform)
    emitter.define(condition_block.mask, entering)
    emitter.region(condition_block)
    (condition,) = emitter.values(condition_block.results, uniform)
    live = w(f"and {mask} {entering}, {condition}")
    meet(entering_from, (live, latch))
    w.only_if(emitter.any_element(live, uniform), done, "body")
    emitter.set_active(live, uniform)
    emitter.define(body_block.mask, live)
    emitter.region(body_block)
    for formal, (name, complete), start, final in zip(formals, entries, initial, body_block.results, strict=True):
        value, type_ = emitter.value(final, formal.uniform), emitter.types(formal.uniform)[formal.type]
        # elements that are done would go through branches that are rare otherwise
        if formal in instruction.asked or emitter.function.rare and not formal.uniform:
            value = w(f"select {mask} {live}, {type_} {value}, {type_} {name}")
        complete((start, before), (value, latch))
    w.go(latch)
    w.open(latch)
    if condition_block.counts:
        count_on((0, before), (w.add(count, 1), latch))
    w.go(head)
    w.open(done)
    _leave(emitter, *outer)
    emitter.define(instruction, "")


def _leave(emitter: FunctionEmitter, block: Block, active: str, scalar_active: str) -> None:
    """Go on behind a region, in the block that it stands in, with the masks of that."""
    emitter.active, emitter.scalar_active = active, scalar_active
    emitter.enter(block)


def cond(emitter: FunctionEmitter, instruction: Instruction) -> None:
    """A branch: each region in turn, skipped by packets of which no element takes it."""
    if instruction.is_rare:
        rare.branch(emitter, instruction)
        return
    uniform, chosen, w = instruction.uniform, instruction.operands[0], emitter.writer
    types, outer = emitter.types(uniform), (emitter.block, emitter.active, emitter.scalar_active)
    mask, condition, active = types[BOOL], emitter.value(chosen, uniform), emitter.active_mask(uniform)
    otherwise = w(f"xor {mask} {condition}, {mask.splat('true')}")
    computed: list[list[str]] = []
    for block, wanted in zip(instruction.blocks, (condition, otherwise), strict=True):
        assert block.mask is not None
        live = w(f"and {mask} {wanted}, {active}")
        any_, before, done = emitter.any_element(live, uniform), w.here, w.label("done")
        w.only_if(any_, done, "taken")
        emitter.enter(block)
        emitter.set_active(live, uniform)
        emitter.define(block.mask, live)
        emitter.region(block)
        values, after = [(types[value.type], emitter.value(value, uniform)) for value in block.results], w.here
        _leave(emitter, *outer)
        w.go(done)
        w.open(done)
        computed.append([w.phi(type_, (value, after), (zero(type_), before)) for type_, value in values])
    emitter.results[instruction.number] = [
        w(f"select {mask} {condition}, {types[value.type]} {true}, {types[value.type]} {false}")
        for value, true, false in zip(instruction.blocks[0].results, *computed, strict=True)]
    emitter.define(instruction, "")


def result(emitter: FunctionEmitter, instruction: Instruction) -> None:
    """A value after a loop, a branch or a call; there is no text of what is memory."""
    (operand,), name = instruction.operands, ""
    if not instruction.node.payload and operand.kind != LOOP:
        name = emitter.names[operand.number] if operand.kind == PHI else \
            emitter.results[operand.number][instruction.node.attr]  # a phi is that of a loop
    emitter.define(instruction, name)
