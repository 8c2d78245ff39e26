"""Who else holds a node: the one question that copy-on-write asks."""

from __future__ import annotations

import numpy as np
import pytest

from drjit_core import Node, evaluate, literal, ops, scatter, while_loop
from drjit_core.ir.holders import held_elsewhere
from tests.core.harness import FLOAT32, TRUE, UINT32, array, shared, values


class Slot:
    __slots__ = ("node",)

    def __init__(self, node: Node) -> None:
        self.node = node


def held(slot: Slot) -> bool:
    """The answer for a slot's node; in an assertion, pytest would hold the node as well."""
    return held_elsewhere(slot.node)


def memory() -> Node:
    return array(np.arange(10), FLOAT32)


def written() -> Node:
    index = array(np.arange(10, dtype=np.uint32))
    return scatter(memory(), memory(), index, TRUE, 0, 0)


def of_a_loop() -> Node:
    limit = array(np.arange(10), UINT32)
    return while_loop([literal(UINT32, 0)], lambda s: ops.lt(s[0], limit),
                      lambda s: [ops.add(s[0], literal(UINT32, 2))])[0]


@pytest.mark.parametrize("make", [memory, written, of_a_loop])
def test_one_slot_is_no_holder(make) -> None:
    slot = Slot(make())
    assert not held(slot)
    name = slot.node
    assert held(slot)
    known = held_elsewhere(name, 1)
    assert not known
    del name
    assert not held(slot)


@pytest.mark.parametrize("hold", [lambda node: [node], lambda node: (node,), Slot, lambda node: {"a": node},
                                  lambda node: ops.neg(node)], ids=["list", "tuple", "slot", "dict", "operand"])
def test_whatever_holds_a_node_counts(hold) -> None:
    slot = Slot(memory())
    holder = hold(slot.node)
    assert held(slot)
    del holder
    assert not held(slot)


def test_evaluation_lets_operands_go() -> None:
    slot = Slot(memory())
    holder = ops.neg(slot.node)
    evaluate((holder,))
    assert not held(slot)
    assert values(holder)[3] == -3


def test_what_value_numbering_finds_may_be_found_at_any_moment() -> None:
    slot = Slot(ops.add(memory(), memory()))
    assert held(slot)


def test_memory_of_others_is_held_by_them() -> None:
    slot = Slot(shared(np.arange(10, dtype=np.float32)))
    assert held(slot)


@pytest.mark.parametrize("holders", [0, 1])
def test_a_write_to_what_a_loop_has_computed_leaves_what_others_hold_of_it(holders: int) -> None:
    result = of_a_loop()
    held_too = [result] * holders
    version = scatter(result, literal(UINT32, 77), literal(UINT32, 3), TRUE, 0, 0)
    del result
    evaluate([version, *held_too])
    assert values(version).tolist() == [0, 2, 2, 77, 4, 6, 6, 8, 8, 10]
    assert all(values(node).tolist() == [0, 2, 2, 4, 4, 6, 6, 8, 8, 10] for node in held_too)
