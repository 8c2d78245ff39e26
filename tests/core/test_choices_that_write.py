"""Branches and calls that write: all their elements take part, as many as the widest of what decides and of results."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from drjit_core import (
    Node,
    ReduceOp,
    SymbolicValue,
    atomic,
    call,
    cond,
    counter,
    evaluate,
    interpret,
    literal,
    ops,
    scatter,
    while_loop,
)
from drjit_core.ir.verify import verify
from drjit_core.types import BOOL
from tests.core.harness import TRUE, UINT32, array, assert_same_bits, values

ADD, PLAIN = ReduceOp.Add.value, ReduceOp.Identity.value
Function = Callable[[list[Node]], Sequence[Node]]
Choose = Callable[[list[Node], Function], tuple[list[Node], dict[int, Node]]]


def uint(value: int, size: int = 1) -> Node:
    return literal(UINT32, value, size)


def branch(arguments: list[Node], function: Function) -> tuple[list[Node], dict[int, Node]]:
    return cond(array([1], BOOL), arguments, function, lambda s: [s[0]])


def other_side(arguments: list[Node], function: Function) -> tuple[list[Node], dict[int, Node]]:
    return cond(array([0], BOOL), arguments, lambda s: [s[0]], function)


def known_branch(arguments: list[Node], function: Function) -> tuple[list[Node], dict[int, Node]]:
    return cond(TRUE, arguments, function, lambda s: [s[0]])


def first_target(arguments: list[Node], function: Function) -> tuple[list[Node], dict[int, Node]]:
    return call(array([0], UINT32), TRUE, [function, lambda s: [s[0]]], arguments)


def masked_call(arguments: list[Node], function: Function) -> tuple[list[Node], dict[int, Node]]:
    return call(array([1], UINT32), array([1], BOOL), [lambda s: [s[0]], function], arguments)


def within_a_branch(arguments: list[Node], function: Function) -> tuple[list[Node], dict[int, Node]]:
    def outer(s: list[Node]) -> Sequence[Node]:
        return first_target(s, function)[0]

    return branch(arguments, outer)


def known_within_a_branch(arguments: list[Node], function: Function) -> tuple[list[Node], dict[int, Node]]:
    return branch(arguments, lambda s: known_branch(s, function)[0])


def branch_within_a_known_one(arguments: list[Node], function: Function) -> tuple[list[Node], dict[int, Node]]:
    return known_branch(arguments, lambda s: other_side(s, function)[0])


def within_two_calls(arguments: list[Node], function: Function) -> tuple[list[Node], dict[int, Node]]:
    return masked_call(arguments, lambda s: within_a_branch(s, function)[0])


def beside_another_branch(arguments: list[Node], function: Function) -> tuple[list[Node], dict[int, Node]]:
    """Another branch, which writes nothing, decides about nothing and gives a result."""
    def outer(s: list[Node]) -> Sequence[Node]:
        (same,), _ = cond(array([1], BOOL), s[:1], lambda t: [ops.add(t[0], uint(0))], lambda t: [uint(0)])
        return first_target([same, s[1]], function)[0]

    return branch(arguments, outer)


def within_a_loop(arguments: list[Node], function: Function) -> tuple[list[Node], dict[int, Node]]:
    def body(s: list[Node]) -> list[Node]:
        results, versions = branch(s[1:], function)
        return [ops.add(s[0], uint(1)), *results, versions[1]]

    _, result, memory = while_loop([uint(0), *arguments], lambda s: ops.lt(s[0], uint(1)), body)
    return [result], {1: memory}


#: Those in which a function runs once if nothing but its writes is wide.
ONCE: list[Choose] = [branch, other_side, known_branch, first_target, masked_call, within_a_branch,
                      known_within_a_branch, branch_within_a_known_one, within_two_calls]
CHOICES = [*ONCE, beside_another_branch, within_a_loop]


def check(choose: Choose, argument: Node, function: Function, expected: list[int]) -> None:
    results, versions = choose([argument, array(np.zeros(40), UINT32)], function)
    roots = [*results, versions[1]]
    verify(roots)
    interpreted = interpret(roots)
    evaluate(roots)
    for root, data in zip(roots, interpreted, strict=True):
        assert_same_bits(values(root), data)
    assert values(versions[1])[:len(expected)].tolist() == expected


@pytest.mark.parametrize("choose", CHOICES)
@pytest.mark.parametrize("size", [1, 2, 16, 40])
def test_each_element_writes_if_only_a_result_has_several(choose: Choose, size: int) -> None:
    def function(s: list[Node]) -> list[Node]:
        scatter(s[1], uint(3), uint(1), TRUE, ADD, 0)
        return [s[0]]

    check(choose, array(np.arange(size), UINT32), function, [0, 3 * size, 0])


@pytest.mark.parametrize("choose", CHOICES)
@pytest.mark.parametrize("size", [2, 16, 40])
def test_each_element_writes_if_what_is_captured_makes_a_result_wide(choose: Choose, size: int) -> None:
    captured = array(np.arange(size), UINT32)

    def function(s: list[Node]) -> list[Node]:
        scatter(s[1], uint(3), uint(1), TRUE, ADD, 0)
        return [ops.add(s[0], captured)]

    check(choose, uint(5) if choose is not within_a_loop else uint(5, size), function, [0, 3 * size, 0])


@pytest.mark.parametrize("choose", ONCE)
@pytest.mark.parametrize("size", [2, 16, 40])
def test_single_values_are_written_once_where_only_writes_are_wide(choose: Choose, size: int) -> None:
    def function(s: list[Node]) -> list[Node]:
        memory = scatter(s[1], uint(3), uint(1), TRUE, ADD, 0)
        memory = scatter(memory, ops.add(counter(size), uint(1)), uint(2), TRUE, ADD, 0)
        scatter(memory, s[0], uint(3), TRUE, ADD, 0)
        return [s[0]]

    check(choose, array([5], UINT32), function, [0, 3, size * (size + 1) // 2, 5] if size > 2 else [0, 3, 3, 5])


def test_what_one_update_has_found_is_no_result_of_a_branch_whose_writes_are_wide() -> None:
    def function(s: list[Node]) -> list[Node]:
        found, memory = atomic(s[1], uint(3), uint(1), TRUE, ADD)
        scatter(memory, counter(16), uint(2), TRUE, ADD, 0)
        return [found]

    with pytest.raises(SymbolicValue, match=r"cond\(\): a function writes several values at once, and returns what an "
                       "update of one value has found"):
        branch([array([5], UINT32), array(np.zeros(40), UINT32)], function)


def test_nobody_knows_how_often_to_write_what_a_branch_gives_within_one_whose_writes_are_wide() -> None:
    def function(s: list[Node]) -> list[Node]:
        scatter(scatter(s[1], counter(16), uint(2), TRUE, ADD, 0), s[0], uint(3), TRUE, ADD, 0)
        return [s[0]]

    with pytest.raises(SymbolicValue, match=r"all of whose elements do the same, and which has 16 of them|"
                       "writes several values at once, and returns what an update of one value has found"):
        beside_another_branch([array([5], UINT32), array(np.zeros(40), UINT32)], function)
