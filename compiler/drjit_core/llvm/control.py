"""LLVM text of regions: loops, and branches that few elements take.

A loop runs while its condition holds in some active element.  Elements that are done keep their values: the mask of
live elements is carried along, and each iteration's results are blended with the previous ones.
"""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

from ..ir.node import RARE, Node
from ..ir.region import Loop
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
    """Emit a branch that few elements take: a call of a function, for one element after the other.

    Scalars are quick to compile, and branches with the same text share a function.  Elements of the last packet that do
    not exist may take part, since the branch has no effects.
    """
    region, number, lanes = node.payload, emitter.place(node), emitter.lanes
    out, types = emitter.lines(False), emitter.packets
    initial = [emitter.value(value, False) for value in region.initial]
    before, name = emitter.label(False), f"%rare{number}"
    begin, body, done = (f"rare{number}_{part}" for part in ("begin", "body", "done"))
    word = f"i{lanes}"
    phis, outputs = region.phis[1:], [emitter.scalars[phi.type] for phi in region.phis[1:]]
    # what is no constant: those have a name, or none if they are loaded where they are used
    given = [c for c in region.captures if (emitter.names[emitter.place(c)] or "%").startswith("%")]
    arguments = [(emitter.scalars[c.type], emitter.value(c, emitter.is_uniform(c)), emitter.is_uniform(c))
                 for c in given]
    out.append(f"{name}_any = call i1 @llvm.vector.reduce.or.v{lanes}i1(<{lanes} x i1> {initial[0]})")
    out.append(f"br i1 {name}_any, label %{begin}, label %{done}, !prof !1")
    emitter.rare = True
    emitter.open_block(begin, False)
    out.append(f"{name}_bits = bitcast <{lanes} x i1> {initial[0]} to {word}")
    out.append(f"br label %{body}")
    emitter.open_block(body, False)
    out.append(f"{name}_rest = phi {word} [ {name}_bits, %{begin} ], [ {name}_next, %{body} ]")
    for place, (phi, start) in enumerate(zip(phis, initial[1:], strict=True)):
        out.append(f"{name}_{place}_old = phi {types[phi.type]} [ {start}, %{begin} ], [ {name}_{place}_new, %{body} ]")
    out.append(f"{name}_lane = call {word} @llvm.cttz.{word}({word} {name}_rest, i1 true)")
    passed = []
    for place, (type_, value, uniform) in enumerate(arguments):
        if not uniform:
            packet = types[given[place].type]
            out.append(f"{name}_in{place} = extractelement {packet} {value}, {word} {name}_lane")
            value = f"{name}_in{place}"
        passed.append(f"{type_} {value}")
    struct = "{ " + ", ".join(map(str, outputs)) + " }"
    function = _scalar_function(emitter, region, given, struct)
    out.append(f"{name}_out = call {struct} @{function}({', '.join(passed)})")
    for place, (phi, type_) in enumerate(zip(phis, outputs, strict=True)):
        value, packet = f"{name}_{place}", types[phi.type]
        out.append(f"{value}_out = extractvalue {struct} {name}_out, {place}")
        out.append(f"{value}_new = insertelement {packet} {value}_old, {type_} {value}_out, {word} {name}_lane")
    out.append(f"{name}_less = sub {word} {name}_rest, 1")
    out.append(f"{name}_next = and {word} {name}_rest, {name}_less")
    out.append(f"{name}_more = icmp ne {word} {name}_next, 0")
    out.append(f"br i1 {name}_more, label %{body}, label %{done}")
    emitter.open_block(done, False)
    for place, (phi, start) in enumerate(zip(phis, initial[1:], strict=True)):
        out.append(f"{name}_{place} = phi {types[phi.type]} [ {start}, %{before} ], [ {name}_{place}_new, %{body} ]")
        emitter.define(phi, f"{name}_{place}", False)
    for nothing in (node, region.phis[0]):
        emitter.define(nothing, "", False)


def _scalar_function(emitter: Emitter, region: Loop, given: list[Node], struct: str) -> str:
    """The name of a function that computes the results of a region from captured values."""
    outside = [(emitter.place(c), emitter.names[emitter.place(c)], emitter.is_uniform(c)) for c in given]
    backup = emitter.body, emitter.region
    emitter.body, emitter.region = [], 1
    emitter.block_start[id(emitter.body)] = sys.maxsize  # is not split
    for captured in given:
        emitter.define(captured, f"%in{emitter.place(captured)}", True)
    for inner in region.order:
        emitter.node(inner)
    lines = emitter.body
    result = "poison"
    for place, node in enumerate(region.results[1:]):
        scalar = f"{emitter.scalars[node.type]} {emitter.value(node, True)}"
        lines.append(f"%result{place} = insertvalue {struct} {result}, {scalar}, {place}")
        result = f"%result{place}"
    lines.append(f"ret {struct} {result}")
    emitter.body, emitter.region = backup
    parameters = ", ".join(f"{emitter.scalars[c.type]} %in{emitter.place(c)}" for c in given)
    for place, name, uniform in outside:
        emitter.names[place], emitter.uniform[place] = name, uniform
    names: dict[str, str] = {}
    text = re.sub(r"%\w+", lambda match: names.setdefault(match[0], f"%n{len(names)}"), "\n".join([parameters, *lines]))
    function = emitter.rare_functions.setdefault(text, f"rare{len(emitter.rare_functions)}")
    parameters, _, code = text.partition("\n")
    emitter.helpers[function] = (f"define internal {struct} @{function}({parameters}) noinline cold nounwind {{\n"
                                 f"{code}\n}}")
    return function


def _set_active(emitter: Emitter, mask: str, uniform: bool) -> None:
    if uniform:
        emitter.scalar_active = mask
    else:
        emitter.active = mask
