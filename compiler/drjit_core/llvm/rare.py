"""LLVM text of branches that few elements take: a call of a function, which computes one element after the other.

Scalars are quick to compile, and all branches of one name share a function.  Elements of the last packet that do not
exist may take part, since the branch has no effects.  Values go through memory, so that little is left at the call.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from ..codegen.expand import Expanded, stand_in
from ..codegen.program import Policy, Program
from ..control.rare import Rare
from ..ir.expansion import expanding
from ..ir.node import Node
from ..passes.domain import flat
from ..types import BOOL, TYPES

if TYPE_CHECKING:
    from .emit import Emitter

__all__ = ["branch", "result"]

#: Texts of functions by name, width of the mask, and types of arguments and results.
_functions: dict[tuple[str, int, tuple[int, ...], tuple[int, ...]], tuple[str, str]] = {}


def branch(emitter: Emitter, node: Node) -> None:
    """Emit a branch and its results."""
    rare: Rare = node.payload
    number, word = emitter.place(node), f"i{emitter.lanes}"
    uniform = all(map(emitter.is_uniform, rare.inputs()))
    out, types = emitter.lines(uniform), emitter.types(uniform)
    condition = emitter.value(rare.mask, uniform)
    arguments = [emitter.value(value, uniform) for value in rare.arguments]
    initial = [emitter.value(value, uniform) for value in rare.values]
    before, name = emitter.label(uniform), f"%rare{number}"
    taken, done = f"rare{number}_taken", f"rare{number}_done"
    if uniform:
        any_ = condition
    else:
        any_ = f"{name}_any"
        out.append(f"{any_} = call i1 @llvm.vector.reduce.or.{types[BOOL].suffix}({types[BOOL]} {condition})")
    emitter.rare = True
    out.append(f"br i1 {any_}, label %{taken}, label %{done}, !prof !1")
    emitter.open_block(taken, uniform)
    out.append(f"{name}_bits = {'zext' if uniform else 'bitcast'} {types[BOOL]} {condition} to {word}")
    memory = []
    for slot, (value, text) in enumerate(zip((*rare.arguments, *rare.values), (*arguments, *initial), strict=True)):
        memory.append(_scratch(emitter, slot))
        out.append(f"store {types[value.type]} {text}, ptr {memory[-1]}, align 64")
    function = _function(emitter, rare)
    out.append(f"call void @{function}({word} {name}_bits, {', '.join(f'ptr {address}' for address in memory)})")
    results = memory[len(arguments):]
    for position, (value, address) in enumerate(zip(rare.values, results, strict=True)):
        out.append(f"{name}_{position}_new = load {types[value.type]}, ptr {address}, align 64")
    out.append(f"br label %{done}")
    emitter.open_block(done, uniform)
    emitter.define(node, name, uniform)
    for position, (value, start) in enumerate(zip(rare.values, initial, strict=True)):
        out.append(f"{result(emitter, node, position)} = phi {types[value.type]} [ {start}, %{before} ], "
                   f"[ {name}_{position}_new, %{taken} ]")


def result(emitter: Emitter, node: Node, position: int) -> str:
    """The name of one of the values after a branch."""
    return f"{emitter.names[emitter.place(node)]}_{position}"


def _scratch(emitter: Emitter, slot: int) -> str:
    """Memory for a packet of any type."""
    name = f"%scratch{slot}"
    if name not in emitter.loaded:
        emitter.loaded.add(name)
        emitter.prologue.append(f"{name} = alloca [{8 * emitter.lanes} x i8], align 64")
    return name


def _function(emitter: Emitter, rare: Rare) -> str:
    """The name of the function of a branch, whose text is entered among the helpers of the kernel."""
    inputs, outputs = (tuple(node.type for node in nodes) for nodes in (rare.arguments, rare.values))
    key = rare.name, emitter.lanes, inputs, outputs
    found = _functions.get(key)
    if found is None:
        types = "_".join(TYPES[type_].name for type_ in (*inputs, *outputs))
        found = _functions[key] = _make(rare, emitter.lanes, f"rare_{rare.name}_{types}")
    name, text = found
    emitter.helpers[name] = text
    return name


def _make(rare: Rare, lanes: int, name: str) -> tuple[str, str]:
    """Name and text of a function of the mask's bits, and of addresses of arguments and values."""
    from .emit import Emitter

    formals = [stand_in(node.type, 1) for node in rare.arguments]
    with expanding("both"):
        results = rare.branch(*formals)
        expanded = Expanded.function(results, formals)
    emitter = Emitter(Program(flat(1), Policy()), expanded, lanes)
    emitter.block_start[id(emitter.entry)] = sys.maxsize  # is not split
    scalars, body, word = emitter.scalars, emitter.entry, f"i{lanes}"
    assert BOOL not in {node.type for node in (*formals, *results)}  # masks in memory are bits
    parameters = [f"{word} %mask", *(f"ptr %in{i}" for i in range(len(formals))),
                  *(f"ptr %out{i}" for i in range(len(results)))]
    body += [f"define internal void @{name}({', '.join(parameters)}) noinline cold nounwind {{", "entry:",
             "br label %element", "element:", f"%rest = phi {word} [ %mask, %entry ], [ %next, %element ]",
             f"%number = call {word} @llvm.cttz.{word}({word} %rest, i1 true)"]
    if lanes == 64:
        body.append("%index = add i64 %number, 0")
    else:
        body.append(f"%index = zext {word} %number to i64")
    for i, node in enumerate(formals):
        type_ = scalars[node.type]
        body.append(f"%at{i} = getelementptr {type_}, ptr %in{i}, i64 %index")
        body.append(f"%a{i} = load {type_}, ptr %at{i}")
        emitter.define(node, f"%a{i}", True)
    for node in expanded.order:
        emitter.node(node)
    for i, node in enumerate(results):
        type_ = scalars[node.type]
        body.append(f"%to{i} = getelementptr {type_}, ptr %out{i}, i64 %index")
        body.append(f"store {type_} {emitter.value(node, True)}, ptr %to{i}")
    body += [f"%less = sub {word} %rest, 1", f"%next = and {word} %rest, %less", f"%more = icmp ne {word} %next, 0",
             "br i1 %more, label %element, label %done", "done:", "ret void", "}"]
    return name, "\n".join(body)
