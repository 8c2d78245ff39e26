"""Loops that write, in the cases where memory could be mixed up: kernels and the interpreter give the same bits.

Whatever the order in which results are asked for, each effect happens once, and old versions stay what they were.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from drjit_core import (
    JitFlag,
    Node,
    ReduceOp,
    SymbolicValue,
    call,
    counter,
    evaluate,
    gather,
    interpret,
    literal,
    ops,
    reduce,
    scatter,
    scoped_set_flag,
    undefined,
    while_loop,
)
from drjit_core.ir.verify import verify
from tests.core.harness import TRUE, UINT32, array, assert_same_bits, values

State = list[Node]
ADD, PLAIN, MAX, OR = ReduceOp.Add.value, ReduceOp.Identity.value, ReduceOp.Max.value, ReduceOp.Or.value
N = 40


def uint(value: int, size: int = 1) -> Node:
    return literal(UINT32, value, size)


def inputs(scale: int = 1) -> Node:
    return array(np.arange(N, dtype=np.uint32) * scale)


def own(target: Node, value: Node, op: int = ADD) -> Node:
    """A write of each element to that of its own number."""
    return scatter(target, value, counter(N), TRUE, op, 0)


def counted(bound: Node, memory: Sequence[Node], body: Callable[..., Sequence[Node]], *rest: Node) -> State:
    """A loop ``for i in range(bound)`` over memory and other variables; its results without the counter."""
    return while_loop([uint(0), *memory, *rest], lambda s: ops.lt(s[0], bound),
                      lambda s: [ops.add(s[0], uint(1)), *body(*s)])[1:]


def several_results() -> State:
    x = inputs()
    return while_loop([uint(0), x, inputs(2)], lambda s: ops.lt(s[0], uint(3)),
                      lambda s: [ops.add(s[0], uint(1)), ops.add(s[1], s[0]), own(s[2], s[1])])


def a_value_that_an_expression_holds() -> State:
    memory, x = counted(uint(3), [inputs()], lambda i, m, x: [own(m, x), ops.add(x, i)], inputs(2))
    return [memory, ops.mul(x, uint(3)), reduce(ops.add(x, x), ADD), gather(x, uint(3), TRUE)]


def two_loops_from_one_version() -> State:
    before = inputs()
    x, version = inputs(5), own(before, inputs(3), PLAIN)
    return [counted(uint(3), [version], lambda i, m, k=k: [own(m, ops.add(x, uint(k)))])[0] for k in (0, 1)] + \
        [version, before]


def one_array_as_two_variables() -> State:
    memory, x = inputs(), inputs(3)
    return counted(uint(3), [memory, memory],
                   lambda i, a, b: [own(a, ops.add(x, gather(b, counter(N), TRUE)), PLAIN), own(b, i)])


def what_was_there_before() -> State:
    memory = inputs()
    neighbour = ops.mod(ops.add(counter(N), uint(1)), uint(N))
    return [*counted(uint(4), [memory], lambda i, m: [own(m, gather(memory, neighbour, TRUE))]), memory]


def one_element() -> State:
    x = inputs()
    wide = counted(uint(3), [array([5], UINT32)], lambda i, m: [scatter(m, x, uint(0), TRUE, ADD, 0)])
    narrow = counted(uint(3), [array([5], UINT32)], lambda i, m: [scatter(m, i, uint(0), TRUE, ADD, 0)])
    return [*wide, *narrow]


def one_lane_that_writes_everywhere() -> State:
    """Each element from the one before it."""
    def body(i: Node, m: Node) -> State:
        return [scatter(m, ops.add(gather(m, i, TRUE), uint(5)), ops.add(i, uint(1)), TRUE, PLAIN, 0)]
    return counted(uint(N - 1), [inputs(2)], body)


def memory_that_is_undefined() -> State:
    x, memory = inputs(), undefined(UINT32, N)
    return [counted(uint(3), [memory], lambda i, m, k=k: [own(m, ops.add(x, ops.mul(i, uint(k))), PLAIN)])[0]
            for k in (1, 2)]


def memory_that_is_a_literal() -> State:
    memory, x = uint(7, N), inputs()

    def body(i: Node, m: Node, x: Node) -> State:
        read = gather(m, counter(N), TRUE)
        return [own(m, x), ops.add(x, read)]

    return [*counted(uint(3), [memory], body, x), ops.add(memory, x)]


def memory_that_is_computed() -> State:
    memory, x = ops.mul(inputs(), uint(3)), inputs()
    positions = counter(N)
    return [*counted(uint(3), [memory, positions], lambda i, a, b: [own(a, x), own(b, i)]), memory,
            ops.add(positions, x)]


def a_loop_that_never_runs() -> State:
    x, memory = inputs(), inputs(3)
    return [*counted(array([0], UINT32), [memory], lambda i, m: [own(m, x)]), *counted(uint(0), [memory],
            lambda i, m: [own(m, x)]), memory]


def a_loop_of_which_one_result_is_wanted() -> State:
    return counted(uint(3), [inputs()], lambda i, m, x: [own(m, x), ops.add(x, i)], inputs(2))[:1]


def stages_around_a_loop() -> State:
    x = inputs()
    tripled = ops.mul(x, reduce(x, ADD))
    first, y = counted(uint(3), [inputs(2)], lambda i, m, x: [own(m, x), ops.add(x, i)],
                       ops.add(gather(tripled, ops.mod(counter(N), uint(7)), TRUE), x))
    z = ops.add(gather(first, ops.mod(ops.mul(x, uint(3)), uint(N)), TRUE), reduce(first, ADD))
    second = own(first, ops.add(y, z))
    (third,) = counted(uint(4), [second], lambda i, m: [own(m, ops.add(z, i))])
    return [reduce(third, ADD), third, second, z]


def uniform_state_and_wide_writes() -> State:
    """What is written for each element makes a loop as wide as that, though its variables are the same in all."""
    x, table = inputs(), inputs(2)
    neighbour = ops.mod(ops.add(counter(N), uint(1)), uint(N))
    return counted(uint(3), [table], lambda i, m: [own(m, ops.add(gather(table, neighbour, TRUE), x))])


def a_uniform_write_in_a_nested_loop() -> State:
    """Each element that takes part writes, also where it does what all others do."""
    def body(i: Node, m: Node, total: Node) -> State:
        j, m = while_loop([uint(0), m], lambda t: ops.lt(t[0], i),
                          lambda t: [ops.add(t[0], uint(1)), scatter(t[1], t[0], uint(3), TRUE, ADD, 0)])
        return [m, ops.add(total, j)]
    return counted(ops.mod(inputs(), uint(5)), [inputs()], body, inputs())


def conflicts_in_many_blocks() -> State:
    size = (1 << 17) + 5
    x = array(np.random.default_rng(1).integers(0, 1000, size), UINT32)

    def body(i: Node, histogram: Node, largest: Node, each: Node) -> State:
        bin_ = ops.mod(ops.mul(x, ops.add(i, uint(7))), uint(64))
        return [scatter(histogram, i, bin_, ops.neq(ops.mod(x, uint(3)), uint(0)), ADD, 0),
                scatter(largest, ops.mul(x, i), ops.mod(x, uint(5)), TRUE, MAX, 0),
                scatter(each, ops.add(gather(each, counter(size), TRUE), x), counter(size), TRUE, PLAIN, 0)]

    memory = [uint(0, 64), array(np.zeros(5), UINT32), array(np.arange(size), UINT32)]
    results = counted(ops.mod(x, uint(9)), memory, body)
    return [*results, reduce(results[2], ADD)]


def masks() -> State:
    size = 5000
    x, set_ = array(np.arange(size, dtype=np.uint32)), array(np.arange(size) % 3 == 0)
    return counted(ops.mod(x, uint(5)), [array(np.zeros(7, bool))],
                   lambda i, m: [scatter(m, ops.and_(set_, ops.neq(i, uint(1))), ops.mod(x, uint(7)), TRUE, OR, 0)])


PROGRAMS = [several_results, a_value_that_an_expression_holds, two_loops_from_one_version, one_array_as_two_variables,
            what_was_there_before, one_element, one_lane_that_writes_everywhere, memory_that_is_undefined,
            memory_that_is_a_literal, memory_that_is_computed, a_loop_that_never_runs,
            a_loop_of_which_one_result_is_wanted, stages_around_a_loop, uniform_state_and_wide_writes,
            a_uniform_write_in_a_nested_loop, conflicts_in_many_blocks, masks]


@pytest.mark.parametrize("debug", [False, True], ids=["", "debug"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_results_are_the_same_in_whatever_order_they_are_asked_for(program: Callable[[], State], debug: bool) -> None:
    with scoped_set_flag(JitFlag.Debug, debug):
        roots = program()
        verify(roots)
        expected = interpret(roots)
        evaluate(roots)
        for i, (root, data) in enumerate(zip(roots, expected, strict=True)):
            assert_same_bits(values(root), data, f"result {i}")
        orders = list(itertools.permutations(range(len(expected))))
        for order in orders[::1 + len(orders) // 6]:
            roots = program()
            for i in order:
                assert_same_bits(values(roots[i]), expected[i], f"result {i}, in the order {order}")
            for i, data in enumerate(expected):
                assert_same_bits(values(roots[i]), data, f"result {i}, after all of {order}")


def test_indices_out_of_range_are_left_out_in_debug_mode() -> None:
    x, table = inputs(), inputs(3)
    with scoped_set_flag(JitFlag.Debug):
        roots = counted(ops.mod(x, uint(5)), [inputs(2)], lambda i, m, total: [
            scatter(m, total, ops.add(counter(N), uint(2)), ops.lt(i, uint(2)), ADD, 0),
            ops.add(total, gather(table, ops.mul(counter(N), i), TRUE))], x)
        expected = interpret(roots)
        with pytest.warns(RuntimeWarning) as warned:
            for root, data in zip(roots, expected, strict=True):
                assert_same_bits(values(root), data)
    assert len(warned) == 2


def test_a_variable_that_is_left_alone_may_be_of_another_size_than_what_others_become() -> None:
    memory, two = array(np.arange(48), UINT32), array([3, 4], UINT32)
    i, same, x = while_loop([uint(0), memory, uint(1)], lambda s: ops.lt(s[0], uint(5)),
                            lambda s: [ops.add(s[0], uint(1)), s[1], two])
    assert same is memory
    assert_same_bits(values(x), np.array([3, 4], np.uint32))
    assert_same_bits(values(i), np.full(i.size, 5, np.uint32))


def test_a_loop_within_a_loop_does_not_read_what_was_there_before_its_writes() -> None:
    """Regions make no copies of memory."""
    def in_condition(i: Node, m: Node) -> State:
        return while_loop([uint(0), m], lambda s: ops.lt(s[0], gather(m, counter(N), TRUE)),
                          lambda s: [ops.add(s[0], uint(1)), own(s[1], s[0])])[1:]

    def in_body(i: Node, m: Node) -> State:
        return counted(uint(3), [m], lambda j, inner: [own(inner, gather(m, counter(N), TRUE))])

    for inner in (in_condition, in_body):
        with pytest.raises(SymbolicValue, match="reads what was there before it began"):
            counted(inputs(), [inputs(2)], inner)


@pytest.mark.parametrize("as_condition", [False, True])
def test_a_version_is_no_value_of_another_variable(as_condition: bool) -> None:
    def body(i: Node, m: Node, x: Node) -> State:
        written = own(m, i)
        return [written, written]

    error, words = (SymbolicValue, "computes with all of its elements") if as_condition else \
        (NotImplementedError, "returns the state variable '1' in the place of the state variable '2'")
    with pytest.raises(error, match=words):
        if as_condition:
            flags = array(np.zeros(N, bool))
            while_loop([flags], lambda s: s[0],
                       lambda s: [scatter(s[0], TRUE, counter(N), TRUE, PLAIN, 0)])
        else:
            counted(uint(3), [inputs()], body, inputs())


def test_a_variable_that_is_left_alone_does_not_make_a_loop_wider() -> None:
    i, same = while_loop([uint(0), array([1, 2], UINT32)], lambda s: ops.lt(s[0], uint(3)),
                         lambda s: [ops.add(s[0], uint(1)), s[1]])
    assert i.size == 1 and same.size == 2
    assert_same_bits(values(ops.add(i, inputs())), np.arange(N, dtype=np.uint32) + np.uint32(3))


def test_a_loop_of_one_element_in_a_function_whose_arguments_are_packets() -> None:
    x = inputs()

    def tripled(s: State) -> State:
        return while_loop([uint(0), s[0]], lambda t: ops.lt(t[0], s[0]),
                          lambda t: [ops.add(t[0], uint(1)), ops.add(t[1], uint(3))])[1:]

    (result,), _ = call(ops.mod(x, uint(3)), TRUE, [tripled, lambda s: [ops.mul(s[0], uint(2))]], [array([5], UINT32)])
    (expected,) = interpret([result])
    assert_same_bits(values(result), expected)
