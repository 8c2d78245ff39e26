"""The verifier refuses malformed nodes of every row: missing operands, types and sizes that do not fit."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from drjit_core import (
    BINARY,
    ELEMENTWISE,
    EXPANDED,
    OPS,
    TERNARY,
    TRACE,
    UNARY,
    Node,
    Op,
    ReduceMode,
    ReduceOp,
    bitcast,
    cast,
    gather,
    ops,
    reduce,
    scatter,
    while_loop,
)
from drjit_core.ir.expansion import EXPANSIONS, expanding
from drjit_core.ir.node import FIELDS, new_node
from drjit_core.ir.region import CONTROL
from drjit_core.ir.trace import access, opaque
from drjit_core.ir.verify import VerificationError, verify
from drjit_core.ops import table
from drjit_core.passes.order import post_order
from tests.core.harness import BOOL, FLOAT32, FLOAT64, FLOATS, INT16, INT32, UINT32, array, name_of

SLOTS = ("d0", "d1", "d2", "d3")


def sample(type_: int, size: int = 4) -> Node:
    """Some values in memory, no two arrays alike."""
    return array(np.arange(size), type_)


def operand(row: Op, role: int) -> Node:
    """An operand that a row accepts in a role."""
    if role == table.MASK:
        return sample(BOOL)
    return sample(UINT32 if role == table.INDEX else FLOAT32 if "f" in row.accepts else UINT32)


def loop_result() -> Node:
    i, _ = while_loop([sample(UINT32), sample(UINT32)], lambda s: ops.lt(s[0], s[1]),
                      lambda s: [ops.add(s[0], sample(UINT32, 1)), s[1]])
    return i


TRACED: dict[int, Callable[..., Node]] = {
    **UNARY, **BINARY, **TERNARY, **{row.kind: TRACE[row.name] for row in EXPANDED if row.name in TRACE},
    table.GATHER: gather, table.REDUCE: lambda a: reduce(a, ReduceOp.Add.value), table.OPAQUE: opaque,
    table.SCATTER: lambda *operands: scatter(*operands, ReduceOp.Add.value, ReduceMode.Auto.value),
    table.CAST: lambda a: cast(a, FLOAT64), table.BITCAST: lambda a: bitcast(a, INT32),
    table.RESULT: lambda _: loop_result()}
ROWS = [pytest.param(OPS[kind], id=OPS[kind].name) for kind in sorted(TRACED)]


def made(row: Op) -> Node:
    """A node of a row, on operands of four elements."""
    node = TRACED[row.kind](*(operand(row, role) for role in row.roles))
    assert node.kind in (row.kind, table.TWINS.get(row.kind)) or row.kind >= table.FIRST_EXPANDED
    return node


def malformed(node: Node, **slots: object) -> Node:
    """A copy of a node that tracing would never have made."""
    other: Node = new_node(Node)
    for name in FIELDS:
        setattr(other, name, slots.get(name, getattr(node, name)))
    return other


def test_every_row_that_is_traced_has_a_sample() -> None:
    leaves = {row.kind for row in OPS if not row.roles}
    elsewhere = {row.kind for row in EXPANDED if row.name not in TRACE} | {
        table.ACCESS, table.VIEW, table.SEGMENT, table.STEP,  # see test_accesses.py, test_rows.py, test_steps.py
        table.FETCH, *CONTROL,  # in regions: test_fetch.py, test_regions.py
        table.DUAL}  # what only tracing knows: tests/derivatives
    registered = set(range(table.FIRST_REGISTERED, table.FIRST_ELEMENTWISE))  # test_structured.py
    assert set(TRACED) == {row.kind for row in OPS} - leaves - elsewhere - registered
    assert {row.kind for row in ELEMENTWISE} <= set(TRACED)


@pytest.mark.parametrize("row", ROWS)
def test_what_tracing_makes_is_well_formed(row: Op) -> None:
    assert verify([made(row)]) > 1


@pytest.mark.parametrize("row", ROWS)
def test_missing_and_superfluous_operands_are_refused(row: Op) -> None:
    node = made(row)
    arity = OPS[node.kind].arity
    with pytest.raises(VerificationError, match=f"{arity - 1} operands instead of {arity}"):
        verify([malformed(node, **{SLOTS[arity - 1]: None})])
    if arity < 4 and node.kind != table.GATHER:  # which may have the mask of its region, too
        with pytest.raises(VerificationError, match=f"{arity + 1} operands instead of {arity}"):
            verify([malformed(node, **{SLOTS[arity]: sample(FLOAT32)})])


@pytest.mark.parametrize("row", ROWS)
def test_operands_of_a_type_that_does_not_go_with_their_role_are_refused(row: Op) -> None:
    node = made(row)
    roles = OPS[node.kind].roles
    for slot, role in zip(SLOTS, roles, strict=False):
        if role in (table.VALUE, table.MEMORY) and OPS[node.kind].result == "own":
            continue  # a cast of anything
        wrong = {table.INDEX: INT16, table.MASK: UINT32}.get(role, INT16)
        with pytest.raises(VerificationError):
            verify([malformed(node, **{slot: sample(wrong)})])


@pytest.mark.parametrize("row", ROWS)
def test_results_of_another_type_or_size_are_refused(row: Op) -> None:
    node = made(row)
    if OPS[node.kind].result != "own":
        with pytest.raises(VerificationError):
            verify([malformed(node, type=INT16)])
    if OPS[node.kind].size != "own":
        with pytest.raises(VerificationError):
            verify([malformed(node, size=3)])
        with pytest.raises(VerificationError, match="size 0 is for invalid nodes"):
            verify([malformed(node, size=0)])


@pytest.mark.parametrize("row", [pytest.param(param.values[0], id=param.id) for param in ROWS
                                 if len(param.values[0].roles) > 1])  # type: ignore[attr-defined, union-attr]
def test_operands_of_other_sizes_are_refused_but_memory_has_one_of_its_own(row: Op) -> None:
    node = made(row)
    roles = OPS[node.kind].roles
    for slot, role in zip(SLOTS, roles, strict=False):
        other = malformed(node, **{slot: sample(getattr(node, slot).type, 3)})
        if role == table.MEMORY and OPS[node.kind].size != "memory":
            verify([other])
        else:
            with pytest.raises(VerificationError):
                verify([other])


def test_parts_that_are_none_of_their_arrays_are_refused() -> None:
    part = access(array(np.arange(20), FLOAT32), 3, 1, 10)
    verify([part])
    for payload, message in (((3, 2), "no neighbours"), ((11, 1), "leaves its array"), ((8, -1), "leaves its array")):
        with pytest.raises(VerificationError, match=message):
            verify([malformed(part, payload=payload)])


@pytest.mark.parametrize("row", EXPANDED, ids=lambda row: row.name)
@pytest.mark.parametrize("type_", FLOATS, ids=name_of)
def test_expansions_are_well_formed_and_their_rare_branches_are_no_part_of_a_graph(row: Op, type_: int) -> None:
    operands = [sample(type_), sample(type_)][:row.arity]
    with expanding("branch"):
        root = EXPANSIONS[row.kind](*operands)
    assert verify([root], expanded=True) > 1
    if any(node.kind == table.COND for node in post_order([root])):
        with pytest.raises(VerificationError, match="is no part of a graph, but of an expansion"):
            verify([root])


def test_selections_by_something_that_is_no_mask_are_refused() -> None:
    node = malformed(ops.select(sample(BOOL), sample(FLOAT32), sample(FLOAT32)), d0=sample(FLOAT32))
    with pytest.raises(VerificationError, match="the mask is no mask"):
        verify([node])
