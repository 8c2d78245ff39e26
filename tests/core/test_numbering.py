"""Value numbering: equal operations on equal operands are one node, and nothing else is; dead nodes leave no trace."""

from __future__ import annotations

import ctypes
import gc
import itertools
import math
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from drjit_core import (
    BAKED,
    PARAMETER,
    SHAPE,
    JitFlag,
    Node,
    ReduceOp,
    VarType,
    bitcast,
    cast,
    counter,
    evaluate,
    gather,
    host_view,
    index_of,
    literal,
    ops,
    reduce,
    rewritten,
    scatter,
    scoped_set_flag,
    set_element,
    undefined,
)
from drjit_core.ir.fold import kept_literals
from drjit_core.ir.node import live_nodes, node_count, normalise, numbered_count, sweep
from drjit_core.ops import semantics
from tests.core.harness import ALL_TYPES, BOOL, FLOAT32, FLOAT64, INT32, TRUE, UINT32, array, values


def operands() -> tuple[Node, Node]:
    return array(np.arange(20), UINT32), array(np.arange(20)[::-1], UINT32)


EXPRESSIONS: dict[str, Callable[[Node, Node], Node]] = {
    "unary": lambda a, b: ops.inv(a),
    "binary": lambda a, b: ops.add(a, b),
    "ternary": lambda a, b: ops.fma(a, b, a),
    "nested": lambda a, b: ops.mul(ops.add(a, literal(UINT32, 17)), ops.sub(b, a)),
    "comparison": lambda a, b: ops.lt(a, b),
    "cast": lambda a, b: cast(a, FLOAT32),
    "bitcast": lambda a, b: bitcast(a, FLOAT32),
    "gather": lambda a, b: gather(a, b, TRUE),
    "reduction": lambda a, b: reduce(a, ReduceOp.Add.value),
    "counter": lambda a, b: counter(a.size),
    "literal": lambda a, b: literal(FLOAT32, 2.5, 20),
}


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_the_same_expression_is_the_same_node(name: str) -> None:
    a, b = operands()
    node = EXPRESSIONS[name](a, b)
    assert EXPRESSIONS[name](a, b) is node
    evaluate([node])
    # Evaluated nodes leave the table: the host may write to their operands, a scatter to themselves.
    again = EXPRESSIONS[name](a, b)
    assert (again is node) == (name == "literal")
    np.testing.assert_array_equal(values(again), values(node))


@pytest.mark.parametrize("name", [name for name in EXPRESSIONS if name not in ("counter", "literal", "cast", "bitcast",
                                                                             "comparison")])
def test_expressions_see_what_the_host_has_written_since_they_were_evaluated(name: str) -> None:
    class Holder:
        def __init__(self, a: Node) -> None:
            self.a = a

    a, b = operands()
    holder = Holder(a)
    del a
    before = EXPRESSIONS[name](holder.a, b)
    evaluate([before])
    old = values(before).copy()
    holder.a = rewritten(holder.a, set_element(0, 1000))
    _, address, buffer = host_view(holder.a)
    ctypes.c_uint32.from_address(address + 4).value = 2000  # through a view, of which tracing knows nothing
    a, b = operands()
    a = array(np.array([1000, 2000, *range(2, 20)]), UINT32)
    np.testing.assert_array_equal(values(EXPRESSIONS[name](holder.a, b)), values(EXPRESSIONS[name](a, b)))
    np.testing.assert_array_equal(values(before), old)
    del buffer


@pytest.mark.parametrize("name", [name for name in EXPRESSIONS if name not in ("counter", "literal")])
def test_other_operands_are_another_node(name: str) -> None:
    a, b = operands()
    node = EXPRESSIONS[name](a, b)
    assert EXPRESSIONS[name](b, a) is not node
    assert EXPRESSIONS[name](array(np.arange(20), UINT32), b) is not node


def test_different_expressions_are_different_nodes() -> None:
    a, b = operands()
    nodes = [expression(a, b) for expression in EXPRESSIONS.values()]
    nodes += [cast(a, FLOAT64), cast(a, INT32), bitcast(a, INT32), reduce(a, ReduceOp.Max.value), counter(21),
              gather(b, a, TRUE), gather(a, a, TRUE), ops.add(b, a), ops.fma(a, a, b), ops.fma(b, a, a), ops.le(a, b)]
    assert len({id(node) for node in nodes}) == len(nodes)


def test_what_has_an_effect_or_no_value_is_never_numbered() -> None:
    a, _ = operands()
    zero, one = literal(UINT32, 0), literal(UINT32, 1)
    first, second = (scatter(a, one, zero, TRUE, ReduceOp.Add.value, 0) for _ in range(2))
    assert first is not second
    assert undefined(UINT32, 20) is not undefined(UINT32, 20)
    assert array([1]) is not array([1])


def test_literals_differ_by_type_value_class_and_size() -> None:
    numbers: list[Any] = [0, 1, -1, 2, 0.0, -0.0, 1.0, 2.0, 0.5, math.nan, math.inf, -math.inf, True, False]
    nodes: dict[Any, Node] = {}
    for type_, value, size, class_ in itertools.product(ALL_TYPES, numbers, (1, 2), (None, PARAMETER, BAKED, SHAPE)):
        if type_ == BOOL and not isinstance(value, bool):
            continue
        if type_ < FLOAT32 and type_ not in (13,) and (isinstance(value, float) or value == -1 and type_ % 2 == 0):
            continue
        node = literal(type_, value, size, class_)
        assert literal(type_, value, size, class_) is node
        payload = node.payload
        key = (type_, size, node.attr, "nan" if payload != payload else payload, math.copysign(1.0, payload))
        other = nodes.setdefault((key, class_), node)
        assert other.payload == payload or payload != payload
        assert (other.type, other.size, other.attr, str(other.payload)) == (type_, size, node.attr, str(payload))
    distinct = {(node.type, node.size, node.attr, str(node.payload)) for node in nodes.values()}
    assert len({id(node) for node in nodes.values()}) >= len(distinct) > 300


def test_equal_literals_are_one_node_as_long_as_somebody_holds_it() -> None:
    """However many others are made meanwhile, and whatever their key is made of."""
    arguments: list[tuple[Any, ...]] = [(FLOAT32, 0.7), (FLOAT64, math.pi, 3), (INT32, 12345, 1, SHAPE), (FLOAT32, 0.0),
                                        (FLOAT32, math.nan), (UINT32, 99, 1, None, 4), (FLOAT32, 2.5, 7, BAKED)]
    kept = [literal(*argument) for argument in arguments]
    for value in range(20_000):
        literal(FLOAT32, value + 0.25)
        if value % 3000 == 0:
            assert all(literal(*argument) is node for argument, node in zip(arguments, kept, strict=True))
    assert all(literal(*argument) is node for argument, node in zip(arguments, kept, strict=True))
    assert len({id(node) for node in kept}) == len(kept)


def test_a_program_with_a_literal_stays_the_same_program() -> None:
    a, b = operands()
    half = literal(UINT32, 77)
    first = ops.add(ops.mul(a, half), b)
    for value in range(5000):
        literal(UINT32, 1000 + value)
    assert ops.add(ops.mul(a, literal(UINT32, 77)), b) is first


def test_literals_that_nobody_holds_do_not_accumulate() -> None:
    kept = [literal(FLOAT64, k + 0.125) for k in range(3000)]
    most, before = 0, node_count()
    for value in range(60_000):
        literal(FLOAT64, value + 0.375)
        if value % 1000 == 0:
            most = max(most, node_count() - before)
    assert most < 8192
    del kept
    for value in range(60_000):
        literal(FLOAT64, -value - 0.625)
    gc.collect()
    assert kept_literals() < 8192
    assert node_count() - kept_literals() <= before - 3000


def test_threads_that_make_literals_at_once_find_the_same_ones() -> None:
    """Many more than the table holds, with some that a thread keeps for itself."""
    shared, failures = [literal(FLOAT64, k * 1.0625) for k in range(500)], []
    barrier = threading.Barrier(4)

    def work(number: int) -> None:
        barrier.wait()
        own = [literal(FLOAT64, -number - k / 1024) for k in range(1, 200)]
        for value in range(12_000):
            literal(FLOAT64, value + number / 8 + 0.03125)
            k = value % 500
            if literal(FLOAT64, k * 1.0625) is not shared[k]:
                failures.append(("shared", number, value))
            k = value % 199
            if literal(FLOAT64, -number - (k + 1) / 1024) is not own[k]:
                failures.append(("own", number, value))

    interval = sys.getswitchinterval()
    threads = [threading.Thread(target=work, args=(number,)) for number in range(1, 5)]
    try:
        sys.setswitchinterval(1e-5)
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert failures == []


@pytest.mark.parametrize(("first", "second"), [
    ((FLOAT32, 0.0), (FLOAT32, -0.0)), ((BOOL, True), (INT32, 1)), ((INT32, 1), (FLOAT32, 1.0)),
    ((INT32, 1), (UINT32, 1)), ((FLOAT32, 1.0), (FLOAT64, 1.0)), ((FLOAT32, math.nan), (FLOAT32, 0.0)),
    ((FLOAT64, math.inf), (FLOAT64, -math.inf)), ((BOOL, False), (INT32, 0)), ((FLOAT64, 0.0), (FLOAT64, -0.0))])
def test_literals_that_python_finds_equal(first: tuple[int, Any], second: tuple[int, Any]) -> None:
    a, b = literal(*first), literal(*second)
    assert a is not b
    assert repr(a.payload) == repr(first[1]) and repr(b.payload) == repr(second[1])
    assert a.type == first[0] and b.type == second[0]


def test_operations_tell_apart_literals_that_python_finds_equal() -> None:
    x = array(np.zeros(20), FLOAT32)
    plus, minus = (ops.maximum(x, literal(FLOAT32, zero, 1, BAKED)) for zero in (0.0, -0.0))
    assert plus is not minus
    classes = [ops.mul(x, literal(FLOAT32, 3.0, 1, class_)) for class_ in (PARAMETER, BAKED, SHAPE)]
    assert len({id(node) for node in classes}) == 3


def test_without_the_flag_every_operation_is_a_new_node() -> None:
    a, b = operands()
    names = [name for name in EXPRESSIONS if name not in ("literal", "nested")]  # a literal is no operation
    numbered = [EXPRESSIONS[name](a, b) for name in names]
    with scoped_set_flag(JitFlag.ValueNumbering, False):
        for name, before in zip(names, numbered, strict=True):
            first, second = EXPRESSIONS[name](a, b), EXPRESSIONS[name](a, b)
            assert first is not second and first is not before
            np.testing.assert_array_equal(values(first), values(EXPRESSIONS[name](*operands())))
    for name, before in zip(names, numbered, strict=True):
        assert EXPRESSIONS[name](a, b) is before


def test_the_flag_also_hides_nodes_traced_while_debugging() -> None:
    a, b = operands()
    with scoped_set_flag(JitFlag.Debug):
        node = ops.add(a, b)
        assert ops.add(a, b) is node
        with scoped_set_flag(JitFlag.ValueNumbering, False):
            assert ops.add(a, b) is not node
    with scoped_set_flag(JitFlag.ValueNumbering, False):
        assert ops.add(a, b) is not node


def test_writing_an_element_does_not_change_what_an_expression_means() -> None:
    """The array that was written to is no longer the value of the expression that it came from."""
    a, b = operands()
    holder = Holder()
    holder.node = ops.add(a, b)
    expected = values(holder.node)
    for index in (3, 4):
        holder.node = rewritten(holder.node, set_element(index, 1000))
    np.testing.assert_array_equal(values(holder.node), np.where(np.isin(np.arange(20), (3, 4)), 1000, expected))
    np.testing.assert_array_equal(values(ops.add(a, b)), expected)


class Holder:
    """The one holder of a node, as an array is."""

    __slots__ = ("node",)

    node: Node


def test_scattering_does_not_change_what_an_expression_means() -> None:
    a, b = operands()
    node = ops.add(a, b)
    expected = values(node)
    box = [scatter(node, literal(UINT32, 7), literal(UINT32, 3), TRUE, ReduceOp.Identity.value, 0)]
    del node
    again = ops.add(a, b)
    evaluate(box)
    np.testing.assert_array_equal(values(again), expected)
    np.testing.assert_array_equal(values(ops.add(a, b)), expected)
    del again
    box[0] = scatter(box[0], literal(UINT32, 8), literal(UINT32, 4), TRUE, ReduceOp.Identity.value, 0)
    evaluate(box)
    np.testing.assert_array_equal(values(ops.add(a, b)), expected)
    expected[[3, 4]] = 7, 8
    np.testing.assert_array_equal(values(box[0]), expected)


# --- lifetimes -------------------------------------------------------------------------------------------------------


def test_sweeping_removes_dead_entries_only() -> None:
    a, b = operands()
    alive = ops.add(a, b)
    numbers = [literal(UINT32, 100 + i) for i in range(100)]
    sweep()
    before = numbered_count()
    for number in numbers:
        ops.add(a, number)
    assert numbered_count() <= before + 100
    sweep()
    assert numbered_count() <= before
    assert ops.add(a, b) is alive


def test_evaluation_sweeps_now_and_then() -> None:
    a, _ = operands()
    sweep()
    before = numbered_count()
    for i in range(40):
        for k in range(1000):
            ops.add(a, literal(UINT32, 1000 * i + k + 2))
        evaluate([ops.sub(a, literal(UINT32, i + 2))])
    assert numbered_count() < max(20000, 3 * before)


def test_a_dead_node_is_not_found_again() -> None:
    a, b = operands()
    serial = ops.mul(a, b).id
    node = ops.mul(a, b)
    assert node.id > serial
    assert values(node)[3] == 3 * 16


def _chain(length: int, step: Callable[[Node], Node]) -> Node:
    node = array(np.arange(4), UINT32)
    for _ in range(length):
        node = step(node)
    return node


CHAINS: dict[str, tuple[int, Callable[[Node], Node]]] = {
    "unary": (1_000_000, lambda node: ops.popcnt(node)),
    "binary": (1_000_000, lambda node: ops.add(node, node)),
    "diamonds": (500_000, lambda node: ops.mul(ops.popcnt(node), node)),
    "ternary": (100_000, lambda node: ops.fma(node, node, node)),
    "two of three": (100_000, lambda node: ops.fma(literal_source, node, node)),
    "first and last": (100_000, lambda node: ops.fma(node, literal_source, node)),
    "gather": (100_000, lambda node: gather(node, literal(UINT32, 1, 4), TRUE)),
    "index": (100_000, lambda node: gather(literal_source, node, TRUE)),
    "scatter": (100_000, lambda node: scatter(node, literal(UINT32, 1), literal(UINT32, 0), TRUE, 0, 0)),
    "cast": (100_000, lambda node: cast(cast(node, FLOAT32), UINT32)),
    "reduction": (50_000, lambda node: ops.add(literal_source, reduce(node, 1))),
}
literal_source = array(np.arange(4), UINT32)


@pytest.mark.parametrize("name", CHAINS)
def test_a_long_chain_of_nodes_is_dropped_without_recursion(name: str) -> None:
    limit = sys.getrecursionlimit()
    chain = [_chain(*CHAINS[name])]
    assert chain[0].d0 is not None
    before = threading.stack_size(256 * 1024)  # recursion shows early
    try:
        thread = threading.Thread(target=chain.clear)
        thread.start()
    finally:
        threading.stack_size(before)
    thread.join()
    gc.collect()
    assert sys.getrecursionlimit() == limit
    sweep()
    assert numbered_count() < 20_000


def test_nobody_finds_a_node_that_dies() -> None:
    """Who is told of the end of a node may trace the same operation, and look at what is there."""
    a, b = operands()
    node = ops.mul(a, b)
    serial, found, before = node.id, [], node_count()

    def told(reference: weakref.ref[Node]) -> None:
        found.append(ops.mul(a, b))
        found.extend(each for each in live_nodes() if each.id == serial)

    reference = weakref.ref(node, told)
    del node
    assert reference() is None and [each.id > serial for each in found] == [True]
    again = ops.mul(a, b)
    assert again is found[0] and node_count() == before
    found.clear()
    del again
    assert node_count() == before - 1
    several = [ops.add(a, literal(UINT32, k)) for k in range(9)]
    assert len({id(each) for each in several}) == 9
    assert np.array_equal(values(several[8]), values(a) + 8)


def test_many_nodes_come_and_go_without_confusing_operands() -> None:
    """Objects reuse addresses; serial numbers are never reused, and so neither are keys."""
    a = array(np.arange(3), UINT32)
    seen: set[int] = set()
    for i in range(5000):
        temporary = ops.add(a, literal(UINT32, i + 2))
        assert temporary.id not in seen
        seen.add(temporary.id)
        node = ops.mul(temporary, temporary)
        assert node.d0 is temporary and node.d1 is temporary
        assert temporary.d1 is not None and temporary.d1.payload == i + 2


def test_public_indices_are_reused_if_that_is_wanted() -> None:
    a, b = operands()
    node = ops.add(a, b)
    index = index_of(node)
    assert index_of(node) == index
    del node
    other = ops.sub(a, b)
    assert index_of(other) == index
    fresh = ops.mul(a, b)
    del other
    with scoped_set_flag(JitFlag.ReuseIndices, False):
        assert index_of(fresh) > index
    assert literal(UINT32, 5).id != index_of(literal(UINT32, 5))


def test_the_sign_of_a_literal_that_is_no_number_is_kept():
    plus, minus = literal(FLOAT64, math.nan), literal(FLOAT64, -math.nan)
    assert plus is not minus and plus is literal(FLOAT64, float("nan"))
    assert math.copysign(1, plus.payload) == 1 and math.copysign(1, minus.payload) == -1


@pytest.mark.parametrize("value", [
    0, 1, True, False, -1, 1 << 32, (1 << 32) - 1, -(1 << 40), 16777217, 0.0, -0.0, 0.1, -2.5, 1e-46, 1e-40, math.inf,
    -math.inf, 3.4028234663852886e38, 3.4028235677973366e38, math.nextafter(3.4028235677973366e38, 0), 1e300])
def test_literals_hold_what_the_table_makes_of_a_value(value):
    for type_ in VarType.Bool, VarType.UInt32, VarType.Int32, VarType.UInt64, VarType.Float16, VarType.Float32:
        if not isinstance(value, float) or type_ in (VarType.Float16, VarType.Float32):
            found = normalise(type_.value, value)
            expected = semantics.normalise(type_.value, value)
            assert repr(found) == repr(expected)
            assert repr(literal(type_.value, value).payload) == repr(expected)
