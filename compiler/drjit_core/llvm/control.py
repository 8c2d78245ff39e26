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
    region = node.payload
    number = emitter.place(node)
    uniform = not emitter.vectorized or node.size == 1
    types = emitter.types(uniform)
    mask = types[BOOL]
    outer_active = emitter.active_mask(uniform)
    initial = [emitter.value(value, uniform) for value in region.initial]
    out = emitter.lines(uniform)
    before = emitter.label(uniform)
    head, body, latch, done = (f"loop{number}_{part}" for part in ("head", "body", "latch", "done"))
    out.append(f"br label %{head}" + (f" ; {region.label}" if region.label else ""))
    emitter.open_block(head, uniform)
    phis = []
    for phi, start in zip(region.phis, initial, strict=True):
        name = f"%v{emitter.place(phi)}"
        emitter.define(phi, name, uniform)
        phis.append(name)
        out.append(f"{name} = phi {types[phi.type]} [ {start}, %{before} ], [ {name}_next, %{latch} ]")
    active = f"%loop{number}_active"
    out.append(f"{active} = phi {mask} [ {outer_active}, %{before} ], [ %loop{number}_live, %{latch} ]")
    outer_state = emitter.active, emitter.scalar_active, emitter.region
    _set_active(emitter, active, uniform)
    emitter.region += not uniform or emitter.region > 0
    for inner in region.condition_order:
        emitter.node(inner)
    condition = emitter.value(region.condition, uniform)
    live, any_ = f"%loop{number}_live", f"%loop{number}_any"
    out.append(f"{live} = and {mask} {active}, {condition}")
    if uniform:
        any_ = live
    else:
        out.append(f"{any_} = call i1 @llvm.vector.reduce.or.{mask.suffix}({mask} {live})")
    out.append(f"br i1 {any_}, label %{body}, label %{done}")
    emitter.open_block(body, uniform)
    _set_active(emitter, live, uniform)
    for inner in region.order:
        emitter.node(inner)
    for phi, name, result in zip(region.phis, phis, region.results, strict=True):
        value = emitter.value(result, uniform)
        type_ = types[phi.type]
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
