"""What does not depend on a loop that it is traced in, and how wide writes are."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from drjit_core import (
    Node,
    ReduceOp,
    SymbolicValue,
    cast,
    counter,
    gather,
    literal,
    ops,
    scatter,
    undefined,
    while_loop,
)
from tests.core.harness import TRUE, UINT32, array, values

ADD, PLAIN = ReduceOp.Add.value, ReduceOp.Identity.value
TABLE = np.array([5, 6, 7, 8], np.uint32)


def uint(value: int, size: int = 1) -> Node:
    return literal(UINT32, value, size)


def counted(bound: Node, body: Callable[..., list[Node]], *state: Node) -> list[Node]:
    """``for i in range(bound)``, for each element of the bound."""
    zero = literal(UINT32, 0, bound.size)
    return while_loop([zero, *state], lambda s: ops.lt(s[0], bound), lambda s: [ops.add(s[0], uint(1)), *body(*s)])[1:]


def summed(table: Node, harmless: bool) -> Node:
    """The sums of all rotations of a table, each by a loop."""
    def body(s: list[Node]) -> list[Node]:
        at = ops.and_(ops.add(s[0], counter(4)), uint(3))
        return [ops.add(s[0], uint(1)), ops.add(s[1], gather(table, at, TRUE, harmless=harmless))]

    return while_loop([uint(0, 4), uint(0, 4)], lambda s: ops.lt(s[0], uint(4)), body, trips=4 * harmless)[1]


#: Something that is computed of a table, in a loop; and what it gives.
COMPUTED: dict[str, tuple[Callable[[Node, bool], Node], list[int]]] = {
    "gather": (lambda table, harmless: gather(table, ops.xor(counter(4), uint(1)), TRUE, harmless=harmless),
               [6, 5, 8, 7]),
    "loop": (summed, [26, 26, 26, 26]),
    "scatter": (lambda table, harmless: scatter(undefined(UINT32, 4), table, ops.xor(counter(4), uint(3)), TRUE, PLAIN,
                                                0, harmless=harmless), [8, 7, 6, 5]),
}


@pytest.mark.parametrize("name", list(COMPUTED))
def test_what_is_harmless_does_not_depend_on_the_loop_around_it(name: str) -> None:
    compute, expected = COMPUTED[name]
    found: list[Node] = []

    def body(i: Node, total: Node) -> list[Node]:
        found.append(compute(array(TABLE), True))
        return [ops.add(total, found[-1])]

    total, = counted(array(np.array([2, 0, 3, 1], np.uint32)), body, uint(0, 4))
    assert all(node.scope == 0 for node in found)
    assert values(found[-1]).tolist() == expected
    assert values(total).tolist() == [k * value for k, value in zip([2, 0, 3, 1], expected, strict=True)]


@pytest.mark.parametrize("name", ["gather", "loop"])
def test_what_could_do_harm_depends_on_which_elements_take_part(name: str) -> None:
    compute, expected = COMPUTED[name]
    found: list[Node] = []

    def body(i: Node, total: Node) -> list[Node]:
        found.append(compute(array(TABLE), False))
        return [ops.add(total, found[-1])]

    total, = counted(uint(2, 4), body, uint(0, 4))
    assert all(node.scope for node in found)
    assert values(total).tolist() == [2 * value for value in expected]


def test_a_harmless_access_to_memory_of_the_loop_is_part_of_it() -> None:
    """It must see what the loop has written."""
    def body(i: Node, memory: Node, total: Node) -> list[Node]:
        memory = scatter(memory, uint(1), counter(4), TRUE, ADD, 0)
        return [memory, ops.add(total, gather(memory, counter(4), TRUE, harmless=True))]

    memory, total = counted(uint(3, 4), body, array(TABLE), uint(0, 4))
    assert values(memory).tolist() == [8, 9, 10, 11]
    assert values(total).tolist() == [21, 24, 27, 30]


def test_what_depends_on_the_loop_is_not_written_outside() -> None:
    def body(i: Node, total: Node) -> list[Node]:
        return [scatter(undefined(UINT32, 4), i, counter(4), TRUE, PLAIN, 0, harmless=True)]

    with pytest.raises(SymbolicValue, match="not among its state variables"):
        counted(uint(2, 4), body, uint(0, 4))


@pytest.mark.parametrize("size", [2, 3, 8])
def test_a_write_is_as_wide_as_the_loop_or_one_value(size: int) -> None:
    def body(i: Node, memory: Node) -> list[Node]:
        return [scatter(memory, uint(1), counter(size), TRUE, ADD, 0)]

    with pytest.raises(SymbolicValue, match=f"a symbolic loop with 4 elements, each of which writes.*but not {size}"):
        counted(uint(2, 4), body, uint(0, 100))


@pytest.mark.parametrize("size", [4, 100, 5000])
def test_a_loop_of_one_element_becomes_as_wide_as_what_it_writes(size: int) -> None:
    """Its elements do the same, so that a write of one value happens once."""
    def body(i: Node, memory: Node, single: Node) -> list[Node]:
        return [scatter(memory, uint(1), counter(size), TRUE, ADD, 0), scatter(single, uint(1), uint(2), TRUE, ADD, 0)]

    memory, single = counted(uint(3), body, uint(0, size), uint(0, 4))
    assert values(memory).tolist() == [3] * size
    assert values(single).tolist() == [0, 0, 3, 0]


def test_one_value_in_a_wide_loop_is_written_by_each_element() -> None:
    def body(i: Node, memory: Node) -> list[Node]:
        return [scatter(memory, uint(1), uint(2), TRUE, ADD, 0)]

    memory, = counted(array(np.array([2, 0, 3, 1], np.uint32)), body, uint(0, 7))
    assert values(memory).tolist() == [0, 0, 6, 0, 0, 0, 0]


def test_a_loop_within_one_of_elements_that_do_the_same_writes_no_single_values() -> None:
    """Nobody knows whether its own elements do the same."""
    def body(i: Node, memory: Node, single: Node) -> list[Node]:
        memory = scatter(memory, uint(1), counter(4), TRUE, ADD, 0)
        return [memory, *counted(cast(i, UINT32), lambda j, m: [scatter(m, uint(1), uint(2), TRUE, ADD, 0)], single)]

    with pytest.raises(SymbolicValue, match="within another one, all of whose elements do the same"):
        counted(uint(3), body, uint(0, 4), uint(0, 4))
