"""LLVM text of regions: loops.

A loop runs while its condition holds in some active element.  Elements that are done keep their values: the mask of
live elements is carried along, and each iteration's results are blended with the previous ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..ir.node import Node
from ..types import BOOL

if TYPE_CHECKING:
    from .emit import Emitter

__all__ = ["loop"]


def loop(emitter: Emitter, node: Node) -> None:
    """Emit a loop and the nodes of its region."""
    payload = node.payload
    region = payload.region
    number = emitter.place(node)
    uniform = not emitter.vectorized or node.size == 1
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


def _set_active(emitter: Emitter, mask: str, uniform: bool) -> None:
    if uniform:
        emitter.scalar_active = mask
    else:
        emitter.active = mask
