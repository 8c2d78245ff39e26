"""Run traced expressions on arrays: a small compiler of elementwise graphs, made of the op table's own LLVM text.

Tests of :mod:`drjit_core.math` need millions of samples on real machine instructions, and nothing else of the runtime:
:func:`kernel` traces a function of nodes once and returns a function of NumPy arrays.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from llvmlite import binding as llvm

from drjit_core.ir.build import evaluated
from drjit_core.ir.node import Node
from drjit_core.ops import llvm_text
from drjit_core.ops.table import BITCAST, CAST, EVALUATED, LITERAL, OPS, llvm_by_class
from drjit_core.types import BOOL, TYPES

__all__ = ["count", "kernel", "nodes_of"]

LANES = int(__import__("os").environ.get("LANES", 16))
SAMPLES = 1 << 16  # the size of the nodes; kernels run on any multiple of LANES

llvm.initialize_native_target()
llvm.initialize_native_asmprinter()
_texts = llvm_text.make_type_texts(LANES)


def nodes_of(*roots: Node) -> list[Node]:
    """All nodes that the roots depend on, operands first."""
    order: dict[int, Node] = {}

    def visit(node: Node) -> None:
        if node.id not in order:
            for operand in (node.d0, node.d1, node.d2, node.d3):
                if operand is not None:
                    visit(operand)
            order[node.id] = node

    for root in roots:
        visit(root)
    return list(order.values())


def count(*roots: Node) -> int:
    """Number of operations, without leaves and reinterpretations, which cost nothing."""
    return sum(node.kind not in (LITERAL, EVALUATED, BITCAST) for node in nodes_of(*roots))


def _constant(node: Node) -> str:
    text = _texts[node.type]
    if node.type == BOOL:
        return text.splat("true" if node.payload else "false")
    if TYPES[node.type].kind == "f":
        if text.info.bits == 16:
            return text.splat("0xH" + np.float16(node.payload).tobytes()[::-1].hex().upper())
        return text.splat("0x" + np.float64(node.payload).tobytes()[::-1].hex().upper())
    return text.splat(node.payload)


def _statement(node: Node, names: dict[int, str]) -> str:
    operands = [names[d.id] for d in (node.d0, node.d1, node.d2, node.d3) if d is not None]
    name, text = f"%r{node.id}", _texts[node.type]
    if node.kind in (CAST, BITCAST):
        assert node.d0 is not None
        convert = llvm_text.cast if node.kind == CAST else llvm_text.bitcast
        return convert(name, operands[0], _texts[node.d0.type], text)
    op = OPS[node.kind]
    last = [d for d in (node.d0, node.d1, node.d2, node.d3) if d is not None][-1]
    return llvm_by_class(op)[TYPES[last.type].kind](name, *operands, _texts[last.type])


def _module(roots: Sequence[Node], leaves: Sequence[Node]) -> str:
    """A loop over packets; masks are stored as bytes (LLVM declares intrinsics itself)."""
    lines, names = [], {}
    for i, leaf in enumerate(leaves):
        text = _texts[leaf.type]
        lines += [f"%p{i} = getelementptr {text.info.llvm}, ptr %in{i}, i64 %i",
                  f"%r{leaf.id} = load {text}, ptr %p{i}, align 1"]
    for node in nodes_of(*leaves, *roots):
        names[node.id] = _constant(node) if node.kind == LITERAL else f"%r{node.id}"
        if node.kind not in (LITERAL, EVALUATED):
            lines += _statement(node, names).split("\n")
    for i, root in enumerate(roots):
        text, value = _texts[root.type], names[root.id]
        if root.type == BOOL:
            lines.append(f"%m{i} = zext {text} {value} to <{LANES} x i8>")
            text, value = _texts[4], f"%m{i}"
        lines += [f"%q{i} = getelementptr {text.info.llvm}, ptr %out{i}, i64 %i", f"store {text} {value}, ptr %q{i}, align 1"]
    parameters = ", ".join([f"ptr noalias %in{i}" for i in range(len(leaves))] +
                           [f"ptr noalias %out{i}" for i in range(len(roots))] + ["i64 %n"])
    body = "\n".join(lines)
    return "\n".join([f"define void @kernel({parameters}) {{", "entry:", "br label %loop", "loop:",
                      "%i = phi i64 [0, %entry], [%next, %loop]", body, f"%next = add i64 %i, {LANES}",
                      "%more = icmp ult i64 %next, %n", "br i1 %more, label %loop, label %done", "done:", "ret void", "}"])


def _compile(text: str) -> tuple[Any, int]:
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=2)
    machine.set_asm_verbosity(False)
    module = llvm.parse_assembly(text)
    module.verify()
    options = llvm.create_pipeline_tuning_options(speed_level=2)
    builder = llvm.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    kernel.assembly = machine.emit_assembly(module)  # type: ignore[attr-defined]
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    return engine, engine.get_function_address("kernel")


def kernel(function: Callable[..., Any], *types: int) -> Callable[..., Any]:
    """Compile a function from nodes of the given types to a node (or a tuple) into a function of arrays."""
    leaves = [evaluated(t, SAMPLES, None) for t in types]
    traced = function(*leaves)
    roots = traced if isinstance(traced, tuple) else (traced,)
    engine, address = _compile(_module(roots, leaves))
    call = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * (len(leaves) + len(roots)), ctypes.c_int64)(address)
    results = [np.dtype(TYPES[root.type].name) for root in roots]

    def run(*arrays: Any) -> Any:
        size = max(np.size(a) for a in arrays)
        padded = -(-size // LANES) * LANES
        inputs = [np.resize(np.asarray(a, TYPES[t].name), padded) if np.size(a) != padded or not a.flags.c_contiguous
                  else np.asarray(a, TYPES[t].name) for a, t in zip(arrays, types, strict=True)]
        outputs = [np.empty(padded, dtype) for dtype in results]
        call(*[a.ctypes.data for a in (*inputs, *outputs)], padded)
        trimmed = tuple(o[:size] for o in outputs)
        return trimmed if isinstance(traced, tuple) else trimmed[0]

    run.engine = engine  # type: ignore[attr-defined]
    run.operations = count(*roots)  # type: ignore[attr-defined]
    run.call = call  # type: ignore[attr-defined]
    run.assembly = kernel.assembly  # type: ignore[attr-defined]
    return run
