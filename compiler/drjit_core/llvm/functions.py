"""LLVM text of expansions that a kernel has many of: a function of its module, and calls.

A function has packets as arguments and results, which are passed in registers, or is one of scalars, where all operands
are uniform.  LLVM inlines nothing of its own accord when it makes code, so that each is compiled once.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from ..codegen.expand import Call
from ..codegen.program import Policy, Program
from ..ops.table import OPS
from ..passes.domain import flat

if TYPE_CHECKING:
    from .emit import Emitter

__all__ = ["call"]


def call(emitter: Emitter, call: Call) -> None:
    """Emit a call, and define its results."""
    uniform = all(map(emitter.is_uniform, call.operands))
    types, out = emitter.types(uniform), emitter.lines(uniform)
    key = uniform, *call.function
    name = emitter.functions.get(key)
    if name is None:
        rows = "_".join(OPS[node.kind].name for node in call.nodes)
        name = emitter.functions[key] = f"{rows}_{len(emitter.functions)}"
        emitter.helpers[name] = _function(emitter, call, uniform, name)
    arguments = ", ".join(f"{types[d.type]} {emitter.value(d, uniform)}" for d in call.operands)
    results = [f"%v{emitter.place(node)}" for node in call.nodes]
    returned = _returned([types[node.type] for node in call.nodes])
    if len(results) == 1:
        out.append(f"{results[0]} = call {returned} @{name}({arguments})")
    else:
        out.append(f"{results[0]}_all = call {returned} @{name}({arguments})")
        out += [f"{result} = extractvalue {returned} {results[0]}_all, {i}" for i, result in enumerate(results)]
    for node, result in zip(call.nodes, results, strict=True):
        emitter.define(node, result, uniform)
    emitter.split_block(uniform)


def _returned(types: list[str]) -> str:
    return types[0] if len(types) == 1 else f"{{ {', '.join(types)} }}"


def _function(caller: Emitter, call: Call, uniform: bool, name: str) -> str:
    """Text of a function, whose own functions are entered among the helpers of the kernel."""
    from .emit import Emitter

    formals, results, expanded = call.body()
    emitter = Emitter(Program(flat(1 if uniform else 2), Policy()), expanded, caller.lanes)
    emitter.block_start = dict.fromkeys(emitter.block_start, sys.maxsize)  # is not split
    types = emitter.types(uniform)
    for number, node in enumerate(formals):
        emitter.define(node, f"%a{number}", uniform)
    for node in expanded.order:
        emitter.node(node)
    out = emitter.lines(uniform)
    values = [(types[node.type], emitter.value(node, uniform)) for node in results]
    returned = _returned([type_ for type_, _value in values])
    if len(values) == 1:
        out.append(f"ret {returned} {values[0][1]}")
    else:
        before = "poison"
        for i, (type_, value) in enumerate(values):
            out.append(f"%all{i} = insertvalue {returned} {before}, {type_} {value}, {i}")
            before = f"%all{i}"
        out.append(f"ret {returned} {before}")
    caller.helpers |= emitter.helpers
    caller.rare |= emitter.rare
    arguments = ", ".join(f"{types[node.type]} %a{number}" for number, node in enumerate(formals))
    lines = [f"define internal {returned} @{name}({arguments}) noinline #0{' !prof !2' if emitter.rare else ''} {{",
             "entry:", *emitter.prologue, *emitter.entry]
    if not uniform:
        lines += ["br label %packet", "packet:", *emitter.body]
    return "\n".join([*lines, "}"])
