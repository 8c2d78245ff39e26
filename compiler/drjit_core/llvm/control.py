"""LLVM text of regions: loops and branches.

A loop runs while its condition holds in some active element.  Elements that are done keep their values: the mask of
live elements is carried along, and each iteration's results are blended with the previous ones.  What nobody asks for
when the loop has ended is not blended: each iteration need not wait for the mask then, which takes longer than many a
body.  Elements that are done compute something with it that nobody sees, since accesses to memory are masked, and all
arithmetic is defined for all operands.
"""

from __future__ import annotations

from ..codegen.linear import Instruction
from ..ops.table import LOOP, PHI
from ..types import BOOL
from . import rare
from .function import FunctionEmitter
from .texts import zero

__all__ = ["cond", "loop", "result"]


def loop(emitter: FunctionEmitter, instruction: Instruction) -> None:
    """A loop and its blocks."""
    number, uniform = instruction.number, instruction.uniform
    condition_block, body_block = instruction.blocks
    formals = condition_block.formals
    assert condition_block.mask is not None and body_block.mask is not None
    types = emitter.types(uniform)
    mask, outer_active = types[BOOL], emitter.active_mask(uniform)
    initial = [emitter.value(start, formal.uniform)
               for start, formal in zip(instruction.operands, formals, strict=True)]
    out, before = emitter.lines, emitter.label
    head, body, latch, done = (f"loop{number}_{part}" for part in ("head", "body", "latch", "done"))
    out.append(f"br label %{head}")
    emitter.open_block(head)
    phis = len(out)  # known when the body is
    for formal in formals:
        emitter.define(formal, f"%v{formal.number}")
        out.append("")
    entering, live = (f"%loop{number}_{part}" for part in ("active", "live"))
    out.append(f"{entering} = phi {mask} [ {outer_active}, %{before} ], [ {live}, %{latch} ]")
    outer, outer_block = (emitter.active, emitter.scalar_active), emitter.block
    if condition_block.counts:
        count = f"%loop{number}_count"
        out.append(f"{count} = phi i64 [ 0, %{before} ], [ {count}_next, %{latch} ]")
    emitter.set_active(entering, uniform)
    emitter.define(condition_block.mask, entering)
    emitter.region(condition_block)
    (condition,) = emitter.values(condition_block.results, uniform)
    out.append(f"{live} = and {mask} {entering}, {condition}")
    out.append(f"br i1 {emitter.any_element(f'%loop{number}_any', live, uniform)}, label %{body}, label %{done}")
    emitter.open_block(body)
    emitter.set_active(live, uniform)
    emitter.define(body_block.mask, live)
    emitter.region(body_block)
    for place, (formal, start, final) in enumerate(zip(formals, initial, body_block.results, strict=True), phis):
        value, name = emitter.value(final, formal.uniform), f"%v{formal.number}"
        type_ = emitter.types(formal.uniform)[formal.type]
        # elements that are done would go through branches that are rare otherwise
        if formal in instruction.asked or emitter.function.rare and not formal.uniform:
            out.append(f"{name}_next = select {mask} {live}, {type_} {value}, {type_} {name}")
            value = f"{name}_next"
        out[place] = f"{name} = phi {type_} [ {start}, %{before} ], [ {value}, %{latch} ]"
    out.append(f"br label %{latch}")
    emitter.open_block(latch)
    if condition_block.counts:
        out.append(f"%loop{number}_count_next = add i64 %loop{number}_count, 1")
    out.append(f"br label %{head}")
    emitter.open_block(done)
    emitter.active, emitter.scalar_active = outer
    emitter.enter(outer_block)
    emitter.define(instruction, "")


def cond(emitter: FunctionEmitter, instruction: Instruction) -> None:
    """A branch: each region in turn, skipped by packets of which no element takes it."""
    if instruction.is_rare:
        rare.branch(emitter, instruction)
        return
    number, uniform, chosen = instruction.number, instruction.uniform, instruction.operands[0]
    types, out, name = emitter.types(uniform), emitter.lines, f"%cond{instruction.number}"
    mask, condition, active = types[BOOL], emitter.value(chosen, uniform), emitter.active_mask(uniform)
    out.append(f"{name}_else = xor {mask} {condition}, {mask.splat('true')}")
    outer, outer_block = (emitter.active, emitter.scalar_active), emitter.block
    computed: list[list[str]] = []
    for side, (block, wanted) in enumerate(zip(instruction.blocks, (condition, f"{name}_else"), strict=True)):
        assert block.mask is not None
        live = f"{name}_live{side}"
        out.append(f"{live} = and {mask} {wanted}, {active}")
        any_ = emitter.any_element(f"{name}_any{side}", live, uniform)
        before, taken, done = emitter.label, f"cond{number}_taken{side}", f"cond{number}_done{side}"
        out.append(f"br i1 {any_}, label %{taken}, label %{done}")
        emitter.open_block(taken)
        emitter.enter(block)
        emitter.set_active(live, uniform)
        emitter.define(block.mask, live)
        emitter.region(block)
        values = [(types[value.type], emitter.value(value, uniform)) for value in block.results]
        after = emitter.label
        emitter.active, emitter.scalar_active = outer
        emitter.enter(outer_block)
        out.append(f"br label %{done}")
        emitter.open_block(done)
        computed.append([f"{name}_value{side}_{i}" for i in range(len(values))])
        out += [f"{found} = phi {type_} [ {value}, %{after} ], [ {zero(type_)}, %{before} ]"
                for found, (type_, value) in zip(computed[-1], values, strict=True)]
    for i, (value, true, false) in enumerate(zip(instruction.blocks[0].results, *computed, strict=True)):
        type_ = types[value.type]
        out.append(f"{name}_{i} = select {mask} {condition}, {type_} {true}, {type_} {false}")
    emitter.define(instruction, name)


def result(emitter: FunctionEmitter, instruction: Instruction) -> None:
    """A value after a loop, a branch or a call; there is no text of what is memory."""
    (operand,) = instruction.operands
    name, kind = emitter.names[operand.number], operand.kind
    if instruction.node.payload or kind == LOOP:
        emitter.define(instruction, "")
    elif kind == PHI:  # of a loop
        emitter.define(instruction, name)
    else:
        emitter.define(instruction, f"{name}_{instruction.node.attr}")
