"""LLVM text of regions: loops and branches.

A loop runs while its condition holds in some active element.  Elements that are done keep their values: the mask of
live elements is carried along, and each iteration's results are blended with the previous ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..ir.node import Node
from ..ops.table import LOOP
from ..types import BOOL
from .texts import zero

if TYPE_CHECKING:
    from .emit import Emitter

__all__ = ["cond", "loop", "result"]


def loop(emitter: Emitter, node: Node) -> None:
    """Emit a loop and the nodes of its region."""
    payload = node.payload
    region = payload.region
    number = emitter.place(node)
    # arguments of functions are packets, whatever their size
    uniform = not emitter.vectorized or node.size == 1 and all(map(emitter.is_uniform, payload.values()))
    types = emitter.types(uniform)
    mask = types[BOOL]
    outer_active = emitter.active_mask(uniform)
    values = [(value, formal, final) for value, formal, final
              in zip(payload.initial, region.formals, payload.finals, strict=True) if not formal.payload]
    initial = [emitter.value(value, uniform) for value, _, _ in values]
    out = emitter.lines(uniform)
    before = emitter.label(uniform)
    head, body, latch, done = (f"loop{number}_{part}" for part in ("head", "body", "latch", "done"))
    out.append(f"br label %{head}")
    emitter.open_block(head, uniform)
    for (_, formal, _), start in zip(values, initial, strict=True):
        name = f"%v{emitter.place(formal)}"
        emitter.define(formal, name, uniform)
        out.append(f"{name} = phi {types[formal.type]} [ {start}, %{before} ], [ {name}_next, %{latch} ]")
    entering, live = (f"%loop{number}_{part}" for part in ("active", "live"))
    out.append(f"{entering} = phi {mask} [ {outer_active}, %{before} ], [ {live}, %{latch} ]")
    outer_state = emitter.active, emitter.scalar_active, emitter.region
    _set_active(emitter, entering, uniform)
    emitter.define(region.masks[0], entering, uniform)
    emitter.region += not uniform or emitter.region > 0
    for inner in region.parts[0]:
        emitter.node(inner)
    condition = emitter.value(payload.condition, uniform)
    any_ = f"%loop{number}_any"
    out.append(f"{live} = and {mask} {entering}, {condition}")
    if uniform:
        any_ = live
    else:
        out.append(f"{any_} = call i1 @llvm.vector.reduce.or.{mask.suffix}({mask} {live})")
    out.append(f"br i1 {any_}, label %{body}, label %{done}")
    emitter.open_block(body, uniform)
    _set_active(emitter, live, uniform)
    emitter.define(region.masks[1], live, uniform)
    for inner in region.parts[1]:
        emitter.node(inner)
    for _, formal, final in values:
        value, name, type_ = emitter.value(final, uniform), f"%v{emitter.place(formal)}", types[formal.type]
        out.append(f"{name}_next = select {mask} {live}, {type_} {value}, {type_} {name}")
    out.append(f"br label %{latch}")
    emitter.open_block(latch, uniform)
    out.append(f"br label %{head}")
    emitter.open_block(done, uniform)
    emitter.active, emitter.scalar_active, emitter.region = outer_state
    emitter.define(node, "", uniform)


def cond(emitter: Emitter, node: Node) -> None:
    """Emit a branch: each region in turn, skipped by packets of which no element takes it."""
    choice = node.payload
    number, uniform = emitter.place(node), not emitter.vectorized
    types = emitter.types(uniform)
    mask, out, name = types[BOOL], emitter.lines(False), f"%cond{emitter.place(node)}"
    assert node.d0 is not None
    condition, active = emitter.value(node.d0, uniform), emitter.active_mask(uniform)
    out.append(f"{name}_else = xor {mask} {condition}, {mask.splat('true')}")
    outer_state = emitter.active, emitter.scalar_active, emitter.region
    computed: list[list[str]] = []
    for side, (region, wanted) in enumerate(zip(choice.regions, (condition, f"{name}_else"), strict=True)):
        live, any_ = f"{name}_live{side}", f"{name}_any{side}"
        out.append(f"{live} = and {mask} {wanted}, {active}")
        if uniform:
            any_ = live
        else:
            out.append(f"{any_} = call i1 @llvm.vector.reduce.or.{mask.suffix}({mask} {live})")
        before, taken, done = emitter.label(False), f"cond{number}_taken{side}", f"cond{number}_done{side}"
        out.append(f"br i1 {any_}, label %{taken}, label %{done}")
        emitter.open_block(taken, False)
        for initial, formal in zip(choice.initial, region.formals, strict=True):
            if not formal.payload:
                place = emitter.place(initial)
                emitter.define(formal, emitter.names[place] or emitter.value(initial, True), emitter.uniform[place])
        _set_active(emitter, live, uniform)
        emitter.define(region.masks[0], live, uniform)
        emitter.region += 1
        for inner in region.parts[0]:
            emitter.node(inner)
        values = [(types[result.type], emitter.value(result, uniform)) for result in region.results[0][:choice.count]]
        after = emitter.label(False)
        emitter.active, emitter.scalar_active, emitter.region = outer_state
        out.append(f"br label %{done}")
        emitter.open_block(done, False)
        computed.append([f"{name}_value{side}_{i}" for i in range(len(values))])
        out += [f"{found} = phi {type_} [ {value}, %{after} ], [ {zero(type_)}, %{before} ]"
                for found, (type_, value) in zip(computed[-1], values, strict=True)]
    for i, (true, false) in enumerate(zip(*computed, strict=True)):
        type_ = types[choice.regions[0].results[0][i].type]
        out.append(f"{name}_{i} = select {mask} {condition}, {type_} {true}, {type_} {false}")
    emitter.define(node, name, uniform)


def result(emitter: Emitter, node: Node) -> None:
    """A value after a loop, a branch or a call; there is no text of what is memory."""
    control = node.d0
    assert control is not None
    if node.payload:
        emitter.define(node, "", emitter.is_uniform(control))
    elif control.kind == LOOP:
        formal = control.payload.region.formals[node.attr]
        emitter.define(node, emitter.names[emitter.place(formal)], emitter.is_uniform(formal))
    else:
        emitter.define(node, f"{emitter.names[emitter.place(control)]}_{node.attr}", emitter.is_uniform(control))


def _set_active(emitter: Emitter, mask: str, uniform: bool) -> None:
    if uniform:
        emitter.scalar_active = mask
    else:
        emitter.active = mask
