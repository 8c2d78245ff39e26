"""Who else holds a node: the one question that copy-on-write asks."""

from __future__ import annotations

import numpy as np
import pytest

from drjit_core import Node, evaluate, ops, scatter
from drjit_core.ir.holders import held_elsewhere
from tests.core.harness import FLOAT32, TRUE, array, shared, values


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


@pytest.mark.parametrize("make", [memory, written])
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
