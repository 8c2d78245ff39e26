"""LLVM text of regions: loops, and branches that few elements take.

A loop runs while its condition holds in some active element.  Elements that are done keep their values: the mask of
live elements is carried along, and each iteration's results are blended with the previous ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..ir.node import RARE, Node
from ..types import BOOL

if TYPE_CHECKING:
    from .emit import Emitter

__all__ = ["loop"]


def loop(emitter: Emitter, node: Node) -> None:
    """Emit a loop and the nodes of its region."""
    region = node.payload
    number = emitter.place(node)
    uniform = not emitter.vectorized or node.size == 1
    if node.attr == RARE and not uniform:
        rare_branch(emitter, node)
        return
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


def rare_branch(emitter: Emitter, node: Node) -> None:
    """Emit a branch that few elements take, for one element after the other: as scalars, which are quick to compile.

    Elements of the last packet that do not exist may take part, since the branch has no effects.
    """
    region, number, lanes = node.payload, emitter.place(node), emitter.lanes
    out, types = emitter.lines(False), emitter.packets
    initial = [emitter.value(value, False) for value in region.initial]
    before, name = emitter.label(False), f"%rare{number}"
    begin, body, done = (f"rare{number}_{part}" for part in ("begin", "body", "done"))
    word = f"i{lanes}"
    out.append(f"{name}_any = call i1 @llvm.vector.reduce.or.v{lanes}i1(<{lanes} x i1> {initial[0]})")
    out.append(f"br i1 {name}_any, label %{begin}, label %{done}, !prof !1")
    emitter.rare = True
    emitter.open_block(begin, False)
    out.append(f"{name}_bits = bitcast <{lanes} x i1> {initial[0]} to {word}")
    out.append(f"br label %{body}")
    emitter.open_block(body, False)
    first = len(out)  # the phi instructions, which need the block that the body ends in
    out.append(f"{name}_lane = call {word} @llvm.cttz.{word}({word} {name}_rest, i1 true)")
    outside: dict[int, str] = {}
    for captured in region.captures:
        if not emitter.is_uniform(captured):
            place = emitter.place(captured)
            outside[place] = packet = emitter.names[place]
            emitter.names[place], emitter.uniform[place] = f"{name}_v{place}", True
            out.append(f"{name}_v{place} = extractelement {types[captured.type]} {packet}, {word} {name}_lane")
    emitter.region += 1
    for inner in region.order:
        emitter.node(inner)
    results = [emitter.value(result, True) for result in region.results[1:]]
    emitter.region -= 1
    end = emitter.label(False)
    phis = [f"{name}_rest = phi {word} [ {name}_bits, %{begin} ], [ {name}_next, %{end} ]"]
    merged = []
    for place, (phi, result, start) in enumerate(zip(region.phis[1:], results, initial[1:], strict=True)):
        type_, value = types[phi.type], f"{name}_{place}"
        phis.append(f"{value}_old = phi {type_} [ {start}, %{begin} ], [ {value}_new, %{end} ]")
        scalar = emitter.scalars[phi.type]
        out.append(f"{value}_new = insertelement {type_} {value}_old, {scalar} {result}, {word} {name}_lane")
        merged.append(f"{value} = phi {type_} [ {start}, %{before} ], [ {value}_new, %{end} ]")
        emitter.define(phi, value, False)
    out[first:first] = phis
    out.append(f"{name}_less = sub {word} {name}_rest, 1")
    out.append(f"{name}_next = and {word} {name}_rest, {name}_less")
    out.append(f"{name}_more = icmp ne {word} {name}_next, 0")
    out.append(f"br i1 {name}_more, label %{body}, label %{done}")
    emitter.open_block(done, False)
    out += merged
    for place, packet in outside.items():
        emitter.names[place], emitter.uniform[place] = packet, False
    for nothing in (node, region.phis[0]):
        emitter.define(nothing, "", False)


def _set_active(emitter: Emitter, mask: str, uniform: bool) -> None:
    if uniform:
        emitter.scalar_active = mask
    else:
        emitter.active = mask
