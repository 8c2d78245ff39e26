"""What only one side of a branch needs is computed there, if it is dear."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest

from drjit_core import (
    Node,
    ReduceOp,
    call,
    cond,
    counter,
    evaluate,
    exp,
    gather,
    interpret,
    literal,
    ops,
    reduce,
    scatter,
    sin,
    while_loop,
)
from drjit_core.codegen.program import assemble
from drjit_core.ir.build import apart
from drjit_core.ir.region import CONTROL
from drjit_core.ir.verify import verify
from drjit_core.llvm import emit
from drjit_core.ops.table import COND, GATHER, KIND, OPS
from drjit_core.passes.order import post_order
from drjit_core.passes.schedule import plan
from drjit_core.runtime.cpu.target import CPU_TARGET
from tests.core.harness import FLOAT32, TRUE, UINT32, array, assert_same_bits, values

SIZE = 1000


def uint(value: int) -> Node:
    return literal(UINT32, value)


def number(value: float) -> Node:
    return literal(FLOAT32, value)


def floats() -> Node:
    return array(np.linspace(0.5, 3, SIZE), FLOAT32)


def seldom() -> Node:
    return ops.lt(ops.and_(counter(SIZE), uint(127)), uint(3))


def dear(x: Node) -> Node:
    return exp(ops.mul(sin(x), number(1.5)))


def choose(mask: Node, true: Callable[[list[Node]], list[Node]], *arguments: Node) -> list[Node]:
    return cond(mask, arguments, true, lambda s: [number(0)] * len(true(s)))[0]


def one_side() -> list[Node]:
    y = dear(floats())
    return choose(seldom(), lambda s: [ops.add(y, s[0])], floats())


def the_other_side() -> list[Node]:
    y = dear(floats())
    return cond(seldom(), [floats()], lambda s: [s[0]], lambda s: [ops.mul(y, s[0])])[0]


def the_result_itself() -> list[Node]:
    y = dear(floats())
    return choose(seldom(), lambda s: [y])


def each_side_its_own() -> list[Node]:
    x, y = dear(floats()), dear(ops.neg(floats()))
    return cond(seldom(), [], lambda s: [x], lambda s: [ops.sqrt(y)])[0]


def a_read() -> list[Node]:
    """By indices that are out of range elsewhere: the read must not have been moved to where it happens for all."""
    table, mask = floats(), seldom()
    y = gather(table, ops.mod(counter(SIZE), uint(77)), mask)
    return choose(mask, lambda s: [ops.add(y, s[0])], floats())


def a_read_of_what_is_computed() -> list[Node]:
    table, total = ops.sqrt(floats()), reduce(ops.and_(counter(SIZE), uint(3)), ReduceOp.Add.value)
    y = dear(gather(table, ops.mod(ops.add(counter(SIZE), total), uint(SIZE)), TRUE))
    return choose(seldom(), lambda s: [ops.add(y, s[0])], floats())


def of_what_is_read_by_index_as_well() -> list[Node]:
    x = floats()
    y = dear(x)
    return choose(seldom(), lambda s: [ops.add(y, gather(x, ops.mod(counter(SIZE), uint(9)), TRUE))])


def inside_of_a_loop() -> list[Node]:
    def body(s: list[Node]) -> list[Node]:
        y = dear(s[1])
        (found,) = choose(ops.lt(s[1], number(1)), lambda t: [ops.add(y, t[0])], s[1])
        return [ops.add(s[0], uint(1)), ops.add(s[1], ops.mul(found, number(0.25)))]

    return while_loop([uint(0), floats()], lambda s: ops.lt(s[0], uint(5)), body)[1:]


def of_a_version_that_is_replaced() -> list[Node]:
    """The read comes before the write, the branch after it."""
    def body(s: list[Node]) -> list[Node]:
        index = counter(SIZE)
        y = dear(gather(s[2], index, TRUE))
        version = scatter(s[2], ops.mul(s[1], number(0.5)), index, TRUE, ReduceOp.Identity.value, 0)
        (found,) = choose(ops.lt(s[1], number(2)), lambda t: [ops.add(y, t[0])], s[1])
        return [ops.add(s[0], uint(1)), ops.mul(found, number(0.25)), version]

    return while_loop([uint(0), floats(), floats()], lambda s: ops.lt(s[0], uint(5)), body)[1:]


def with_regions_inside() -> list[Node]:
    """A loop, a call and a branch within the side that needs a value use it as well."""
    y = dear(floats())

    def true(s: list[Node]) -> list[Node]:
        loop = while_loop([uint(0), s[0]], lambda t: ops.lt(t[0], uint(3)),
                          lambda t: [ops.add(t[0], uint(1)), ops.add(t[1], y)])[1]
        (called,), _ = call(ops.and_(counter(SIZE), uint(1)), TRUE,
                            [lambda t: [ops.mul(t[0], y)], lambda t: [ops.sub(y, number(2.5))]], [loop])
        (inner,) = choose(ops.lt(called, number(8)), lambda t: [ops.sub(y, t[0])], called)
        return [inner]

    return choose(seldom(), true, floats())


def beside_a_write() -> list[Node]:
    """Its branch writes: all of its results are stored when it runs."""
    y, target = dear(floats()), array(np.zeros(SIZE), FLOAT32)
    results, versions = cond(seldom(), [floats(), target], lambda s: [ops.add(y, s[0])][:(scatter(
        s[1], y, counter(SIZE), TRUE, ReduceOp.Identity.value, 0), 1)[1]], lambda s: [s[0]])
    return [*results, versions[1]]


def of_copies() -> list[Node]:
    """Of one array, which have been told apart, and are one value within the side."""
    x = floats()
    y, z = dear(apart(x)), ops.mul(apart(x), number(2))
    return choose(seldom(), lambda s: [ops.add(y, z)])


SUNK = [one_side, the_other_side, the_result_itself, each_side_its_own, a_read, a_read_of_what_is_computed,
        of_what_is_read_by_index_as_well, inside_of_a_loop, of_a_version_that_is_replaced, with_regions_inside,
        beside_a_write, of_copies]


def used_twice() -> list[Node]:
    y = dear(floats())
    return [*choose(seldom(), lambda s: [y]), ops.neg(y)]


def used_by_both_sides() -> list[Node]:
    y = dear(floats())
    return cond(seldom(), [], lambda s: [y], lambda s: [ops.neg(y)])[0]


def used_by_the_mask() -> list[Node]:
    y = dear(floats())
    return choose(ops.lt(y, number(1)), lambda s: [y])


def an_argument() -> list[Node]:
    y = dear(floats())
    return choose(seldom(), lambda s: [ops.add(y, s[0])], y)


def cheap() -> list[Node]:
    y = ops.add(ops.mul(floats(), floats()), number(3))
    return choose(seldom(), lambda s: [y])


def the_same_for_all() -> list[Node]:
    y = dear(array(np.array([0.7]), FLOAT32))
    return choose(seldom(), lambda s: [ops.add(y, s[0])], floats())


def asked_for() -> list[Node]:
    y = dear(floats())
    return [*choose(seldom(), lambda s: [y]), y]


KEPT = [used_twice, used_by_both_sides, used_by_the_mask, an_argument, cheap, the_same_for_all, asked_for]


def cost_outside(roots: list[Node]) -> int:
    """What planned nodes cost outside of the branches; in loops, of an iteration."""
    cost, nodes = 0, post_order(roots)
    while nodes:
        node = nodes.pop()
        cost += OPS[node.kind].cost
        if node.kind in CONTROL and node.kind != COND:
            for region in node.payload.regions:
                nodes += region.nodes
    return cost


@pytest.mark.parametrize("trace", SUNK, ids=lambda trace: trace.__name__)
def test_what_one_side_needs_is_computed_there(trace: Callable[[], list[Node]]) -> None:
    roots = trace()
    expected = interpret(roots)
    before = cost_outside(roots)
    plan(list(roots), CPU_TARGET)
    verify(roots)
    assert cost_outside(roots) < before - CPU_TARGET.recompute
    for data, same in zip(interpret(roots), expected, strict=True):
        assert_same_bits(data, same)
    for root, data in zip(roots, expected, strict=True):
        assert_same_bits(values(root), data)


@pytest.mark.parametrize("trace", KEPT, ids=lambda trace: trace.__name__)
def test_what_others_need_as_well_stays_where_it_is(trace: Callable[[], list[Node]]) -> None:
    roots = trace()
    expected = interpret(roots)
    before = cost_outside(roots)
    plan(list(roots), CPU_TARGET)
    assert cost_outside(roots) == before
    for root, data in zip(roots, expected, strict=True):
        assert_same_bits(values(root), data)


def test_the_text_has_it_between_the_labels_of_the_side() -> None:
    table, index = floats(), ops.mod(ops.mul(counter(SIZE), counter(SIZE)), uint(SIZE))
    y = gather(table, index, TRUE)
    (kernel,) = plan(choose(seldom(), lambda s: [ops.add(y, s[0])], floats()), CPU_TARGET)
    text = emit.emit(assemble(kernel, CPU_TARGET), 16)
    places = [match.start() for match in re.finditer(r"taken\d+:|call <16 x float> @llvm.masked.gather|done\d+:", text)]
    words = [text[place:place + 4] for place in places]
    assert words == ["take", "call", "done", "take", "done"]


def test_reads_take_the_mask_of_the_side() -> None:
    roots = a_read()
    plan(list(roots), CPU_TARGET)
    assert roots[0].d0 is not None
    region = roots[0].d0.payload.regions[0]
    (read,) = (node for node in region.nodes if node.kind == GATHER)
    assert read.d3 is region.masks[0]


def test_what_was_sunk_can_be_computed_later() -> None:
    y = dear(floats())
    results = choose(seldom(), lambda s: [ops.neg(y)])
    expected = interpret([y, *results])
    evaluate(results)
    assert_same_bits(values(y), expected[0])
    assert_same_bits(values(results[0]), expected[1])


def test_a_second_plan_changes_nothing() -> None:
    roots = one_side()
    plan(list(roots), CPU_TARGET)
    assert roots[0].d0 is not None
    payload = roots[0].d0.payload
    plan(list(roots), CPU_TARGET)
    assert roots[0].d0.payload is payload and KIND["exp"] in {node.kind for node in payload.regions[0].nodes}
