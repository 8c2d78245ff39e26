"""The road of ``a + b`` through the compiler, step by step, as compiler/README.md tells it."""

from __future__ import annotations

import array

import pytest

from drjit_core import (
    KIND,
    OPS,
    JitFlag,
    Node,
    VarState,
    VarType,
    evaluate,
    import_copy,
    kernel_history,
    ops,
    read_element,
    scoped_set_flag,
    state_of,
)
from drjit_core.codegen.linearize import linearize
from drjit_core.codegen.program import Program, assemble
from drjit_core.llvm import emit
from drjit_core.passes.schedule import plan
from drjit_core.runtime.cpu import cache
from drjit_core.runtime.cpu.target import CPU_TARGET

FLOAT32 = VarType.Float32.value


@pytest.fixture
def operands() -> tuple[Node, Node]:
    """Two arrays in memory."""
    return (import_copy(FLOAT32, array.array("f", range(1000))), import_copy(FLOAT32, array.array("f", [0.5] * 1000)))


def test_the_row_says_what_an_addition_is() -> None:
    row = OPS[KIND["add"]]
    assert (row.name, row.arity, row.accepts, row.result) == ("add", 2, "iuf", "same")
    assert row.fold is not None and row.fold(2, 3) == 5


def test_tracing_appends_one_node_and_computes_nothing(operands: tuple[Node, Node]) -> None:
    a, b = operands
    c = ops.add(a, b)
    assert (c.kind, c.type, c.size, c.d0, c.d1, c.d2) == (KIND["add"], FLOAT32, 1000, a, b, None)
    assert state_of(c) is VarState.Unevaluated
    assert ops.add(a, b) is c
    assert ops.add(b, a) is not c  # operand order is part of the program


def _program(operands: tuple[Node, Node]) -> Program:
    (kernel,) = plan([ops.add(*operands)], CPU_TARGET)
    return assemble(kernel, CPU_TARGET)


def test_planning_makes_one_kernel_of_one_stage(operands: tuple[Node, Node]) -> None:
    c = ops.add(*operands)
    (kernel,) = plan([c], CPU_TARGET)
    assert (kernel.stage, kernel.width, kernel.outputs) == (0, 1000, [c])


def test_the_program_lists_operands_first_and_the_key_leaves_out_what_may_differ(operands: tuple[Node, Node]) -> None:
    program = _program(operands)
    assert [OPS[node.kind].name for node in program.order] == ["evaluated", "evaluated", "add"]
    assert program.parameters[0] == 1000
    other = import_copy(FLOAT32, array.array("f", range(17)))
    assert _program((other, other)).key != program.key  # one input, used twice
    another = import_copy(FLOAT32, array.array("f", range(17)))
    assert _program((other, another)).key == program.key


def test_the_linear_program_says_what_varies_and_what_is_used_last(operands: tuple[Node, Node]) -> None:
    function = linearize(_program(operands)).kernel
    first, second, total = function.order
    assert total.operands == (first, second) and (first.last_use, second.last_use) == (2, 2)
    assert not any(instruction.uniform for instruction in function.order) and function.most_live == 3
    assert function.each.instructions == function.order and not function.once.instructions
    assert [store.value for store in function.stores] == [total]


def test_the_text_is_a_loop_over_packets(operands: tuple[Node, Node]) -> None:
    text = emit.emit(_program(operands), lanes=16)
    assert text.count("load <64 x float>") == 2  # four registers of 16
    assert "fadd <64 x float>" in text
    assert text.count("store <64 x float>") == 1


def test_the_cache_compiles_once(operands: tuple[Node, Node]) -> None:
    compiled, _ = cache.lookup(_program(operands))
    assert cache.lookup(_program(operands)) == (compiled, True)
    assert emit.KERNEL in compiled.native.addresses
    assert "x float>" in compiled.text


def test_evaluation_replaces_the_operands_by_a_buffer(operands: tuple[Node, Node]) -> None:
    c = ops.add(*operands)
    with scoped_set_flag(JitFlag.KernelHistory):
        assert evaluate([c])
        (launch,) = kernel_history()
    assert (launch["size"], launch["input_count"], launch["output_count"]) == (1000, 2, 1)
    assert state_of(c) is VarState.Evaluated and c.d0 is None and c.d1 is None
    assert [read_element(c, i) for i in (0, 7, 999)] == [0.5, 7.5, 999.5]
    assert not evaluate([c])
