"""What a region consists of: its nodes in the order of tracing, what it takes from outside, which formals it uses."""

from __future__ import annotations

import random

import pytest

from drjit_core import Node, innermost, literal, ops, while_loop
from drjit_core.ir.node import collect
from drjit_core.ir.region import Loop, Region
from drjit_core.ops.table import PHI, RESULT
from tests.core.harness import FLOAT32, UINT32, array


def region_of(results: list[Node]) -> Region:
    """The region of the loop that has some results."""
    node = results[0]
    assert node.kind == RESULT and node.d0 is not None
    loop: Loop = node.d0.payload
    return loop.region


def searched(region: Region, part: int, known: set[int]) -> list[int]:
    """The ids of a part's nodes, found by a search."""
    formals = {node.id for node in (*region.formals, *region.masks)}
    found: set[int] = set()
    stack = list(region.results[part])
    while stack:
        node = stack.pop()
        if node.scope == region.id and node.id not in found | known | formals:
            found.add(node.id)
            stack += [d for d in (node.d0, node.d1, node.d2, node.d3) if d is not None]
    return sorted(found)


@pytest.mark.parametrize("seed", range(20))
def test_nodes_are_those_that_results_need_in_the_order_of_tracing(seed: int) -> None:
    generator = random.Random(seed)
    outside = [array([1.0, 2.0], FLOAT32), literal(FLOAT32, 1.25), array([3.0, 4.0], FLOAT32)]
    kept: list[Node] = []  # dead nodes of the region, and nodes from outside, live on between those that are needed

    def some(values: list[Node], count: int) -> Node:
        values = [*values, *outside]
        for _ in range(count):
            function = generator.choice([ops.add, ops.mul, ops.sub, ops.maximum])
            values.append(function(generator.choice(values), generator.choice(values)))
            if generator.random() < 0.3:
                kept.append(values[-1])
        return values[-1]

    def condition(variables: list[Node]) -> Node:
        return ops.lt(some(variables[1:], 5), ops.add(variables[2], literal(FLOAT32, 100.0)))

    def body(variables: list[Node]) -> list[Node]:
        k, x, y = variables
        return [ops.add(k, literal(UINT32, 1)), ops.add(x, some([x, y], 40)), ops.add(some([x, y], 40), y)]

    results = while_loop([literal(UINT32, 0), array([1.0, 5.0], FLOAT32), array([2.0, 0.5], FLOAT32)], condition, body)
    region = region_of(results)
    known: set[int] = set()
    for number, part in enumerate(region.parts):
        assert [node.id for node in part] == searched(region, number, known)
        known.update(node.id for node in part)
    operands = [d for node in region.nodes for d in (node.d0, node.d1, node.d2, node.d3) if d is not None]
    used = [*operands, *(result for roots in region.results for result in roots)]
    assert {node.id for node in region.captures} == {node.id for node in used if node.scope != region.id}
    assert region.used == {node for node in used if node.kind == PHI and node.scope == region.id}


def test_parts_share_nothing_and_known_nodes_are_not_listed() -> None:
    def body(variables: list[Node]) -> list[Node]:
        k, x = variables
        region = innermost()
        assert region is not None
        first = ops.mul(x, x)
        second = ops.add(first, ops.add(x, literal(FLOAT32, 0.5)))
        number = literal(FLOAT32, 0.25)
        parts, users, captures, needed = collect(region.id, (k, x), ((first, number), (second, x), (number,)),
                                                 bytes([1]) * 256, lambda node: ())
        assert [[node.id for node in part] for part in parts[:1]] == [[first.id]]
        assert len(parts[1]) == 2 and parts[1][-1] is second and parts[2] == []
        assert users == [] and [node.payload for node in captures] == [0.25, 0.5]
        assert needed == {x}
        return [ops.add(k, literal(UINT32, 1)), second]

    while_loop([literal(UINT32, 0), array([1.0, 2.0], FLOAT32)],
               lambda variables: ops.lt(variables[0], literal(UINT32, 2)), body)
