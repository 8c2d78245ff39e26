"""Reads that are the same in each iteration of a loop happen once, before it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from drjit_core import (
    JitFlag,
    Node,
    ReduceOp,
    call,
    cond,
    counter,
    evaluate,
    gather,
    interpret,
    literal,
    ops,
    scatter,
    scoped_set_flag,
    while_loop,
)
from drjit_core.codegen.program import assemble
from drjit_core.ir.verify import verify
from drjit_core.llvm import emit
from drjit_core.ops.table import GATHER, LOOP
from drjit_core.passes.schedule import plan
from drjit_core.runtime.cpu.target import CPU_TARGET
from tests.core.harness import TRUE, UINT32, array, assert_same_bits, values

SIZE = 1000
FAR = 1 << 30


def uint(value: int) -> Node:
    return literal(UINT32, value)


def data(function: Callable[[Any], Any], size: int = SIZE) -> Node:
    return array(function(np.arange(size)).astype(np.uint32), UINT32)


def table() -> Node:
    return data(lambda i: i * i + 7)


def limits() -> Node:
    """Elements that are divisible by three never enter."""
    return data(lambda i: i % 3)


def index() -> Node:
    """Out of range in the elements that never enter."""
    return data(lambda i: np.where(i % 3 == 0, FAR, (i * 7) % SIZE))


def accumulate(read: Callable[[list[Node]], Node], limit: Node, state: Node | None = None,
               condition: Callable[[list[Node]], Node] | None = None) -> list[Node]:
    """A loop that adds up what a function reads."""
    return while_loop([uint(0), state or uint(0)], condition or (lambda s: ops.lt(s[0], limit)),
                      lambda s: [ops.add(s[0], uint(1)), ops.add(s[1], read(s))])


def reads_of(root: Node) -> tuple[int, int]:
    """The reads before the loop that a node is a result of, and those in it."""
    loop = root.d0
    assert loop is not None and loop.kind == LOOP
    before = {node.id for node in loop.payload.region.captures if node.kind == GATHER}
    return len(before), sum(node.kind == GATHER for node in loop.payload.region.nodes)


def agree(trace: Callable[[], list[Node]]) -> None:
    """Kernels give what the interpreter gives, also of loops that were left as they are."""
    roots = trace()
    verify(roots)
    expected = interpret(roots)
    for root, data in zip(roots, expected, strict=True):
        assert_same_bits(values(root), data)
    with scoped_set_flag(JitFlag.OptimizeLoops, False):
        for root, data in zip(trace(), expected, strict=True):
            assert_same_bits(values(root), data)


def a_captured_index() -> list[Node]:
    a, i, limit = table(), index(), limits()
    return accumulate(lambda s: gather(a, i, TRUE), limit)


def a_captured_mask() -> list[Node]:
    a, i, limit = table(), index(), limits()
    mask = ops.lt(i, uint(500))
    return accumulate(lambda s: gather(a, i, mask), limit)


def a_read_of_a_read() -> list[Node]:
    a, b, i, limit = table(), data(lambda i: i[::-1]), index(), limits()
    return accumulate(lambda s: gather(a, ops.mod(ops.add(gather(b, i, TRUE), uint(3)), uint(SIZE)), TRUE), limit)


def a_condition_that_reads() -> list[Node]:
    a, i, limit = data(lambda i: i % 4), data(lambda i: (i * 7) % SIZE), limits()
    return accumulate(lambda s: gather(a, i, TRUE), limit, condition=lambda s: ops.lt(s[0], gather(a, i, TRUE)))


def a_condition_that_holds_at_first() -> list[Node]:
    a, i = table(), data(lambda i: (i * 7) % SIZE)
    return accumulate(lambda s: gather(a, i, TRUE), uint(4))


def a_loop_that_is_not_entered() -> list[Node]:
    a, i = table(), data(lambda i: i + FAR)
    return accumulate(lambda s: gather(a, i, TRUE), uint(0))


def a_loop_in_a_loop() -> list[Node]:
    """What the inner one reads follows from a variable of the outer one."""
    a, limit = table(), limits()

    def body(s: list[Node]) -> list[Node]:
        i = ops.select(ops.lt(limit, uint(1)), uint(FAR), ops.mod(ops.mul(s[1], uint(7)), uint(SIZE)))
        return [ops.add(s[0], uint(1)), accumulate(lambda t: gather(a, i, TRUE), limit, s[1])[1]]

    return while_loop([uint(0), counter(SIZE)], lambda s: ops.lt(s[0], limit), body)


def a_loop_with_a_branch_and_a_call() -> list[Node]:
    """Regions inside use what is read outside, and read what only they may."""
    a, b, i, limit = table(), data(lambda i: i[::-1]), index(), limits()

    def read(s: list[Node]) -> Node:
        found = gather(a, i, TRUE)
        (one,), _ = cond(ops.lt(s[1], uint(700)), [s[1]], lambda t: [ops.add(t[0], found)],
                         lambda t: [gather(b, i, TRUE)])
        (two,), _ = call(ops.and_(s[1], uint(1)), TRUE, [lambda t: [ops.xor(t[0], found)], lambda t: [
            accumulate(lambda u: ops.add(found, t[0]), uint(3))[1]]], [one])
        return two

    return accumulate(read, limit)


def one_read_of_two() -> list[Node]:
    a, i, limit = table(), index(), limits()
    return accumulate(lambda s: ops.add(gather(a, i, TRUE), gather(a, ops.mod(s[1], uint(SIZE)), TRUE)), limit)


#: Programs, and how many reads their loop has before it, and in it.
PROGRAMS: dict[Callable[[], list[Node]], tuple[int, int]] = {
    a_captured_index: (1, 0), a_captured_mask: (1, 0), a_condition_that_reads: (1, 0),
    a_condition_that_holds_at_first: (1, 0), one_read_of_two: (1, 1), a_loop_with_a_branch_and_a_call: (1, 0),
}


@pytest.mark.parametrize("trace", PROGRAMS, ids=lambda trace: trace.__name__)
def test_what_is_read_does_not_depend_on_the_loop(trace: Callable[[], list[Node]]) -> None:
    assert reads_of(trace()[1]) == PROGRAMS[trace]
    with scoped_set_flag(JitFlag.OptimizeLoops, False):
        assert reads_of(trace()[1])[0] == 0


@pytest.mark.parametrize("trace", [*PROGRAMS, a_read_of_a_read, a_loop_in_a_loop, a_loop_that_is_not_entered],
                         ids=lambda trace: trace.__name__)
def test_kernels_and_the_interpreter_agree(trace: Callable[[], list[Node]]) -> None:
    """Elements that never enter the loop do not read: their indices are far out of range."""
    agree(trace)


def test_a_read_by_what_was_read_leaves_the_loop_as_well() -> None:
    assert reads_of(a_read_of_a_read()[1]) == (1, 0)


def test_the_text_has_the_read_before_the_loop() -> None:
    (kernel,) = plan([a_captured_index()[1]], CPU_TARGET)
    text = emit.emit(assemble(kernel, CPU_TARGET), 16)
    gathers = [match.start() for match in re.finditer(r"call <\d+ x i32> @llvm.masked.gather", text)]
    assert len(gathers) == 1 and gathers[0] < re.search(r"^\S*loop\d+:", text, re.MULTILINE).start()  # type: ignore[union-attr]


def test_a_dear_condition_is_not_computed_once_more() -> None:
    a, i, limit = table(), index(), limits()

    def condition(s: list[Node]) -> Node:
        value = s[0]
        for _ in range(40):
            value = ops.xor(ops.add(value, limit), limit)
        return ops.and_(ops.lt(s[0], limit), ops.neq(value, uint(12345)))

    def trace() -> list[Node]:
        return accumulate(lambda s: gather(a, i, TRUE), limit, condition=condition)

    assert reads_of(trace()[1]) == (0, 1)
    agree(trace)


def test_a_condition_that_reads_by_a_variable_is_not_computed_once_more() -> None:
    a, i, limit = table(), index(), limits()

    def trace() -> list[Node]:
        return accumulate(lambda s: gather(a, i, TRUE), limit, condition=lambda s: ops.and_(
            ops.lt(s[0], limit), ops.lt(gather(a, s[0], TRUE), uint(100))))

    assert reads_of(trace()[1]) == (0, 2)
    agree(trace)


def test_what_the_loop_writes_to_is_read_where_it_stands() -> None:
    i, limit = index(), limits()

    def trace() -> list[Node]:
        target = data(lambda i: i)

        def body(s: list[Node]) -> list[Node]:
            found = gather(s[2], i, TRUE)
            version = scatter(s[2], ops.add(found, uint(5)), i, TRUE, ReduceOp.Identity.value, 0)
            return [ops.add(s[0], uint(1)), ops.add(s[1], found), version]

        return while_loop([uint(0), uint(0), target], lambda s: ops.lt(s[0], limit), body)

    assert reads_of(trace()[1]) == (0, 1)
    agree(trace)


def test_what_has_several_elements_is_not_read_instead_of_one() -> None:
    """Of one element, all lanes have the same value, whether they enter or not."""
    a, i, limit = table(), array(np.array([3]), UINT32), limits()

    def trace() -> list[Node]:
        return accumulate(lambda s: gather(a, i, TRUE), limit)

    assert reads_of(trace()[1]) == (0, 1)
    agree(trace)


def test_what_the_body_reads_is_symbolic_while_it_is_traced() -> None:
    a, i, limit = table(), index(), limits()
    leaked: list[Node] = []

    def read(s: list[Node]) -> Node:
        leaked.append(gather(a, i, TRUE))
        return leaked[-1]

    evaluate(accumulate(read, limit))
    assert all(node.scope for node in leaked)
    with pytest.raises(RuntimeError, match="which has ended"):
        ops.add(leaked[0], uint(1))
