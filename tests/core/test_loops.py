"""Symbolic loops against the same loops in Python: masks of live elements, nesting, widening, invariants, errors."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from drjit_core import (
    IncompatibleSizes,
    JitFlag,
    Node,
    ReduceOp,
    VarState,
    cast,
    counter,
    evaluate,
    gather,
    literal,
    opaque,
    ops,
    read_element,
    reduce,
    scatter,
    schedule,
    scoped_set_flag,
    state,
    state_of,
    while_loop,
)
from drjit_core.ir.verify import verify
from tests.core.harness import (
    BOOL,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT32,
    INT64,
    NUMBERS,
    TRUE,
    UINT8,
    UINT32,
    array,
    assert_same_bits,
    dtype_of,
    evaluate_all,
    launches,
    name_of,
    number,
    shared,
    values,
)

State = list[Node]
SIZES = [1, 2, 15, 16, 17, 100, 5000]


def uint(value: int) -> Node:
    return literal(UINT32, value)


def checked_loop(initial: State, condition: Callable[[State], Node], body: Callable[[State], State]) -> State:
    """A loop whose graph is verified."""
    results = while_loop(initial, condition, body)
    verify(results)
    return results


def both(a: Node, b: Node) -> Node:
    return ops.and_(a, b)  # type: ignore[no-any-return]


# --- against Python --------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("size", SIZES)
def test_collatz(size: int) -> None:
    start = np.arange(1, size + 1, dtype=np.uint32)
    one, three = uint(1), uint(3)

    def body(state: State) -> State:
        n, steps = state
        odd = ops.eq(both(n, one), one)
        return [ops.select(odd, ops.add(ops.mul(n, three), one), ops.shr(n, one)), ops.add(steps, one)]

    n, steps = checked_loop([array(start), uint(0)], lambda s: ops.neq(s[0], one), body)
    expected = []
    for value in start.tolist():
        count = 0
        while value != 1:
            value = 3 * value + 1 if value & 1 else value >> 1
            count += 1
        expected.append(count)
    actual = evaluate_all(steps, n)
    assert_same_bits(actual[0], np.array(expected, np.uint32))
    assert_same_bits(actual[1], np.ones(size, np.uint32))


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("type_", [UINT32, INT32, INT64, UINT8], ids=name_of)
def test_greatest_common_divisor(size: int, type_: int) -> None:
    rng = np.random.default_rng(size)
    a, b = (rng.integers(0, 120, size).astype(dtype_of(type_)) for _ in range(2))
    zero = literal(type_, 0)
    result, rest = checked_loop([array(a), array(b)], lambda s: ops.neq(s[1], zero),
                                lambda s: [s[1], ops.mod(s[0], s[1])])
    assert_same_bits(values(result), np.gcd(a, b))
    assert not values(rest).any()


@pytest.mark.parametrize("type_", [FLOAT16, FLOAT32, FLOAT64], ids=name_of)
def test_mandelbrot(type_: int) -> None:
    dtype = dtype_of(type_)
    cx, cy = (grid.astype(dtype).reshape(-1) for grid in np.meshgrid(np.linspace(-2, 0.75, 37), np.linspace(-1, 1, 23)))
    x, y, two, four = array(cx), array(cy), literal(type_, 2), literal(type_, 4)
    zero = literal(type_, 0)

    def body(s: State) -> State:
        re, im, i = s
        return [ops.add(ops.sub(ops.mul(re, re), ops.mul(im, im)), x), ops.add(ops.mul(ops.mul(two, re), im), y),
                ops.add(i, uint(1))]

    def condition(s: State) -> Node:
        return both(ops.lt(ops.add(ops.mul(s[0], s[0]), ops.mul(s[1], s[1])), four), ops.lt(s[2], uint(50)))

    actual = evaluate_all(*checked_loop([zero, zero, uint(0)], condition, body))
    re, im, i = np.zeros_like(cx), np.zeros_like(cx), np.zeros(cx.size, np.uint32)
    with np.errstate(all="ignore"):
        while True:
            live = (re * re + im * im < 4) & (i < 50)
            if not live.any():
                break
            re, im, i = (np.where(live, re * re - im * im + cx, re), np.where(live, dtype.type(2) * re * im + cy, im),
                         np.where(live, i + np.uint32(1), i))
    for result, expected in zip(actual, (re, im, i), strict=True):
        assert_same_bits(result, expected)
    assert len(np.unique(i)) > 5


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("type_", [*NUMBERS, BOOL], ids=name_of)
def test_variables_of_every_type(type_: int) -> None:
    start = np.arange(40).astype(dtype_of(type_))
    one = literal(type_, 1)

    def body(s: State) -> State:
        changed = ops.xor(s[1], one) if type_ == BOOL else ops.add(s[1], one)
        return [ops.add(s[0], uint(1)), changed]

    _, result = checked_loop([counter(40), array(start)], lambda s: ops.lt(s[0], uint(20)), body)
    steps = np.maximum(20 - np.arange(40), 0)
    expected = start ^ (steps % 2 == 1) if type_ == BOOL else (start.astype(np.int64) + steps).astype(start.dtype)
    assert_same_bits(values(result), expected)


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("size", SIZES)
def test_nested_loops(size: int) -> None:
    """The sum over j < i < n of i * j, with the bounds different in each element."""
    bound = np.arange(size, dtype=np.uint32) % 9
    n = array(bound)

    def outer(s: State) -> State:
        i, total = s
        _, total = while_loop([uint(0), total], lambda t: ops.lt(t[0], i),
                              lambda t: [ops.add(t[0], uint(1)), ops.add(t[1], ops.mul(i, t[0]))])
        return [ops.add(i, uint(1)), total]

    _, total = checked_loop([uint(0), uint(0)], lambda s: ops.lt(s[0], n), outer)
    expected = [sum(i * j for i in range(b) for j in range(i)) for b in bound.tolist()]
    assert_same_bits(values(total), np.array(expected, np.uint32))


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("size", [1, 17, 100])
def test_loops_nested_three_deep_that_use_variables_of_all_levels(size: int) -> None:
    bound = np.arange(size, dtype=np.uint32) % 4 + 1
    n, weight = array(bound), array(np.arange(size, dtype=np.uint32))

    def third(i: Node, j: Node, total: Node) -> Node:
        return while_loop([uint(0), total], lambda t: ops.le(t[0], j), lambda t: [
            ops.add(t[0], uint(1)), ops.add(t[1], ops.add(ops.mul(ops.mul(i, j), t[0]), weight))])[1]

    def second(i: Node, total: Node) -> Node:
        return while_loop([uint(0), total], lambda t: ops.le(t[0], i),
                          lambda t: [ops.add(t[0], uint(1)), third(i, t[0], t[1])])[1]

    _, total = checked_loop([uint(0), uint(0)], lambda s: ops.lt(s[0], n),
                            lambda s: [ops.add(s[0], uint(1)), second(s[0], s[1])])
    expected = [sum(i * j * k + w for i in range(b) for j in range(i + 1) for k in range(j + 1))
                for w, b in enumerate(bound.tolist())]
    assert_same_bits(values(total), np.array(expected, np.uint32))


@pytest.mark.usefixtures("backend")
@pytest.mark.parametrize("foreign", [False, True])
@pytest.mark.parametrize("size", [1, 16, 33, 1000])
def test_indices_need_be_in_range_only_while_an_element_is_live(size: int, foreign: bool) -> None:
    """Following links to an end that lies far outside of the array."""
    rng = np.random.default_rng(size)
    links = np.append(rng.permutation(size)[: size - 1], 0).astype(np.uint32) if size > 1 else np.zeros(1, np.uint32)
    links[rng.random(size) < 0.4] = 0xFFFF_FFF0
    links[0] = 0xFFFF_FFF0
    source = shared(links) if foreign else array(links)
    limit = uint(size)

    def condition(s: State) -> Node:
        return both(ops.lt(s[0], limit), ops.lt(s[1], uint(50)))

    def body(s: State) -> State:
        return [gather(source, s[0], TRUE), ops.add(s[1], uint(1))]

    at, steps = checked_loop([counter(size), uint(0)], condition, body)
    expected = []
    for i in range(size):
        count = 0
        while i < size and count < 50:
            i, count = int(links[i]), count + 1
        expected.append((i, count))
    actual = evaluate_all(at, steps)
    assert_same_bits(actual[0], np.array([e[0] for e in expected], np.uint32))
    assert_same_bits(actual[1], np.array([e[1] for e in expected], np.uint32))


def test_a_masked_gather_in_the_condition() -> None:
    data = np.array([5, 3, 0, 7, 0, 1, 2, 0], np.uint32)
    source = array(data)

    def condition(s: State) -> Node:
        return ops.neq(gather(source, s[0], ops.lt(s[0], uint(8))), uint(0))

    (end,) = checked_loop([counter(20)], condition, lambda s: [ops.add(s[0], uint(1))])
    expected = []
    for i in range(20):
        while i < 8 and data[i]:
            i += 1
        expected.append(i)
    assert_same_bits(values(end), np.array(expected, np.uint32))


@pytest.mark.parametrize("size", [7, 16, 100, 1000])
@pytest.mark.parametrize("type_", [BOOL, UINT8, FLOAT16, FLOAT32, FLOAT64, INT64])
def test_reads_of_neighbours_and_of_one_element(size: int, type_: int) -> None:
    """Each iteration reads a row, and one element for all, as long as elements and masks say."""
    rng, rows = np.random.default_rng(size + type_), 5
    data = rng.integers(0, 2 if type_ == BOOL else 50, rows * size).astype(dtype_of(type_))
    ends, mask = rng.integers(0, rows + 1, size).astype(np.uint32), rng.random(size) < 0.7
    source, limit, allowed, lane = array(data), array(ends), array(mask), counter(size)

    def number_at(index: Node, active: Node) -> Node:
        return cast(gather(source, index, active), FLOAT32)

    def body(s: State) -> State:
        row, first = ops.mul(s[0], uint(size)), ops.sub(ops.add(lane, lane), lane)
        return [ops.add(s[0], uint(1)), ops.add(s[1], number_at(ops.add(row, first), TRUE)),
                ops.add(s[2], number_at(ops.add(first, row), allowed)), ops.add(s[3], number_at(row, TRUE)),
                ops.add(s[4], number_at(ops.add(s[0], uint(1)), allowed)),
                ops.add(s[5], number_at(ops.add(row, ops.and_(lane, uint(3))), ops.lt(lane, uint(4))))]

    zero = literal(FLOAT32, 0, size)
    _, *totals = checked_loop([uint(0), *[zero] * 5], lambda s: ops.lt(s[0], limit), body)
    table = data.reshape(rows, size).astype(np.float32)
    done = np.arange(rows)[:, None] < ends
    expected = [(table * done).sum(0), (table * done * mask).sum(0), (table[:, :1] * done).sum(0),
                (data[1:rows + 1].astype(np.float32)[:, None] * done * mask).sum(0),
                (table * done).sum(0) * (np.arange(size) < 4)]
    for total, wanted in zip(evaluate_all(*totals), expected, strict=True):
        assert_same_bits(total, wanted.astype(np.float32))


def test_writes_to_neighbours() -> None:
    size, rows = 1000, 5
    ends = np.random.default_rng(1).integers(0, rows + 1, size).astype(np.uint32)
    limit, lane, target = array(ends), counter(size), opaque(literal(UINT32, 7, rows * size))
    evaluate([target])

    def body(s: State) -> State:
        place = ops.add(ops.mul(s[0], uint(size)), lane)
        return [ops.add(s[0], uint(1)), scatter(s[1], ops.add(lane, s[0]), place, ops.neq(lane, uint(3)),
                                                ReduceOp.Identity.value, 0)]

    written = checked_loop([uint(0), target], lambda s: ops.lt(s[0], limit), body)[1]
    with launches() as history:
        (found,) = evaluate_all(written)
    row, column = np.arange(rows, dtype=np.uint32)[:, None], np.arange(size, dtype=np.uint32)
    expected = np.where((row < ends) & (column != 3), row + column, 7)
    assert_same_bits(found.reshape(rows, size), expected.astype(np.uint32))
    text = "".join(entry["ir"].getvalue() for entry in history)
    assert "masked.store" in text and "masked.scatter" not in text


def test_a_gather_from_what_has_not_been_evaluated() -> None:
    table = ops.mul(counter(10), uint(3))
    _, total = checked_loop([uint(0), literal(UINT32, 0, 20)], lambda s: ops.lt(s[0], uint(10)),
                            lambda s: [ops.add(s[0], uint(1)), ops.add(s[1], gather(table, s[0], TRUE))])
    with launches() as history:
        evaluate([total])
    assert [entry["size"] for entry in history] == [10, 20]
    assert values(total).tolist() == [135] * 20


# --- sizes -----------------------------------------------------------------------------------------------------------


def test_state_of_one_element_and_a_condition_of_many() -> None:
    n = np.arange(40, dtype=np.uint32)
    limit = array(n)
    (i,) = checked_loop([uint(0)], lambda s: ops.lt(s[0], limit), lambda s: [ops.add(s[0], uint(1))])
    assert i.size == 40
    assert_same_bits(values(i), n)


def test_state_that_grows_in_the_body() -> None:
    step = array(np.arange(40, dtype=np.uint32))
    i, x = checked_loop([uint(0), number(UINT32, 5)], lambda s: ops.lt(s[0], uint(3)),
                        lambda s: [ops.add(s[0], uint(1)), ops.add(s[1], step)])
    assert x.size == 40
    assert_same_bits(values(x), 5 + 3 * np.arange(40, dtype=np.uint32))
    assert values(i).tolist() == [3] * i.size


@pytest.mark.usefixtures("backend")
def test_a_loop_of_one_element_inside_a_kernel_of_many() -> None:
    _, power = checked_loop([uint(0), number(FLOAT32, 1)], lambda s: ops.lt(s[0], uint(10)),
                            lambda s: [ops.add(s[0], uint(1)), ops.add(s[1], s[1])])
    x = array(np.arange(40), FLOAT32)
    assert_same_bits(values(ops.mul(x, power)), np.arange(40, dtype=np.float32) * 1024)
    again = ops.mul(x, ops.add(while_loop([power], lambda s: ops.lt(s[0], literal(FLOAT32, 5000)),
                                          lambda s: [ops.add(s[0], s[0])])[0], literal(FLOAT32, 1)))
    assert_same_bits(values(again), np.arange(40, dtype=np.float32) * 8193)


@pytest.mark.usefixtures("backend")
def test_a_loop_of_one_element_nested_in_a_loop_of_many() -> None:
    bound = array(np.arange(40, dtype=np.uint32))

    def body(s: State) -> State:
        (k,) = while_loop([uint(1)], lambda t: ops.lt(t[0], uint(100)), lambda t: [ops.add(t[0], t[0])])
        return [ops.add(s[0], uint(1)), ops.add(s[1], k)]

    _, total = checked_loop([uint(0), uint(0)], lambda s: ops.lt(s[0], bound), body)
    assert_same_bits(values(total), np.arange(40, dtype=np.uint32) * 128)


def test_invariants_inside_and_outside() -> None:
    x = array(np.arange(40), FLOAT32)
    scale, outside = number(FLOAT32, 3), ops.sqrt(x)

    def body(s: State) -> State:
        inside = ops.mul(ops.add(outside, scale), literal(FLOAT32, 2))  # does not change, traced in the body
        return [ops.add(s[0], uint(1)), ops.add(s[1], inside)]

    _, total = checked_loop([uint(0), literal(FLOAT32, 0)], lambda s: ops.lt(s[0], uint(4)), body)
    expected = np.zeros(40, np.float32)
    for _ in range(4):
        expected += (np.sqrt(np.arange(40, dtype=np.float32)) + np.float32(3)) * np.float32(2)
    assert_same_bits(values(total), expected)


@pytest.mark.parametrize("optimize", [True, False])
def test_variables_that_the_body_leaves_alone(optimize: bool) -> None:
    data = array(np.arange(40), FLOAT32)
    calls = []

    def body(s: State) -> State:
        calls.append(len(s))
        return [ops.add(s[0], uint(1)), ops.add(s[1], s[2]), s[2], s[3]]

    with scoped_set_flag(JitFlag.OptimizeLoops, optimize):
        results = checked_loop([uint(0), literal(FLOAT32, 0), data, literal(FLOAT32, 7)],
                               lambda s: ops.lt(s[0], uint(5)), body)
    assert (results[2] is data) == optimize
    assert len(calls) == 1
    assert_same_bits(values(results[1]), np.arange(40, dtype=np.float32) * 5)
    assert_same_bits(values(results[2]), np.arange(40, dtype=np.float32))
    assert set(values(results[3]).tolist()) == {7}


@pytest.mark.usefixtures("backend")
def test_variables_that_are_exchanged_or_replaced() -> None:
    a, b, c = (array(np.arange(k, k + 40), INT32) for k in (0, 100, 200))
    i, x, y, z = checked_loop([counter(40), a, b, literal(INT32, -1)], lambda s: ops.lt(s[0], uint(21)),
                              lambda s: [ops.add(s[0], uint(1)), s[2], s[1], c])
    n = np.arange(40)
    swapped = (np.maximum(21 - n, 0) % 2) == 1
    actual = evaluate_all(x, y, z, i)
    assert_same_bits(actual[0], np.where(swapped, n + 100, n).astype(np.int32))
    assert_same_bits(actual[1], np.where(swapped, n, n + 100).astype(np.int32))
    assert_same_bits(actual[2], np.where(n < 21, n + 200, -1).astype(np.int32))
    assert_same_bits(actual[3], np.maximum(n, 21).astype(np.uint32))


def test_no_iterations() -> None:
    x = array(np.arange(40), FLOAT32)
    never = checked_loop([x], lambda s: literal(BOOL, False), lambda s: [ops.add(s[0], s[0])])
    assert never[0] is x
    nowhere = checked_loop([x], lambda s: ops.lt(s[0], literal(FLOAT32, -1)), lambda s: [ops.add(s[0], s[0])])
    assert_same_bits(values(nowhere[0]), np.arange(40, dtype=np.float32))
    scalar = checked_loop([number(FLOAT32, 3)], lambda s: ops.lt(s[0], literal(FLOAT32, 0)),
                          lambda s: [ops.add(s[0], s[0])])
    assert values(scalar[0]).tolist() == [3]


@pytest.mark.parametrize("size", [17, 5000, 300_000])
def test_two_loops_in_one_kernel_and_their_results_reduced(size: int) -> None:
    i = counter(size)

    def spin(count: int) -> Node:
        limit = ops.mod(i, uint(count))
        return while_loop([uint(0), uint(0)], lambda s: ops.lt(s[0], limit),
                          lambda s: [ops.add(s[0], uint(1)), ops.add(s[1], s[0])])[1]

    first, second = spin(5), spin(7)
    total, largest = reduce(ops.add(first, second), ReduceOp.Add.value), reduce(first, ReduceOp.Max.value)
    with launches() as history:
        evaluate([total, largest, second])
    assert [(entry["size"], entry["output_count"]) for entry in history] == [(size, 3)]
    n = np.arange(size, dtype=np.uint64)
    a, b = ((n % k) * np.maximum(n % k, 1) - n % k for k in (5, 7))
    assert values(total)[0] == (a // 2 + b // 2).sum()
    assert values(largest)[0] == (a // 2).max()
    assert_same_bits(values(second), (b // 2).astype(np.uint32))


@pytest.mark.usefixtures("backend")
def test_a_loop_after_a_loop() -> None:
    (x,) = while_loop([counter(40)], lambda s: ops.lt(s[0], uint(10)), lambda s: [ops.add(s[0], uint(4))])
    (y,) = checked_loop([x], lambda s: ops.lt(s[0], uint(30)), lambda s: [ops.add(s[0], x)])
    expected = []
    for i in range(40):
        while i < 10:
            i += 4
        start = i
        while i < 30:
            i += start
        expected.append(i)
    assert values(y).tolist() == expected


def test_results_of_loops_are_stored_not_computed_again() -> None:
    (x,) = while_loop([counter(100_000)], lambda s: ops.lt(s[0], uint(10)), lambda s: [ops.add(s[0], uint(4))])
    total = reduce(x, ReduceOp.Add.value)
    with launches() as history:
        last = values(ops.add(x, total))
    assert [(entry["size"], entry["output_count"]) for entry in history] == [(100_000, 2), (100_000, 1)]
    assert "loop" in history[0]["ir"].getvalue() and "loop" not in history[1]["ir"].getvalue()
    n = np.arange(100_000, dtype=np.uint32)
    expected = np.where(n < 10, n + (13 - n) // 4 * 4, n).astype(np.uint32)
    assert_same_bits(last, expected + expected.sum(dtype=np.uint32))


# --- random loops ----------------------------------------------------------------------------------------------------


def _random_loop(seed: int) -> None:
    rng = np.random.default_rng(seed)
    size, depth = int(rng.choice([1, 5, 16, 40, 200])), int(rng.integers(1, 4))
    captured = rng.integers(0, 50, size).astype(np.uint32)
    outside = array(captured)
    table_data = rng.integers(0, 50, 16).astype(np.uint32)
    table = array(table_data)
    uniform = rng.random(3) < 0.4
    start = [rng.integers(0, 20, 1 if u else size).astype(np.uint32) for u in uniform]
    plan: list[Any] = []

    def make_plan(level: int) -> list[Any]:
        steps = [(int(rng.integers(6)), int(rng.integers(3)), int(rng.integers(3)), int(rng.integers(3)))
                 for _ in range(rng.integers(1, 5))]
        inner = make_plan(level - 1) if level > 1 and rng.random() < 0.7 else None
        return [steps, inner, int(rng.integers(1, 5))]

    plan = make_plan(depth)

    def run_nodes(state_: State, plan_: list[Any]) -> State:
        steps, inner, bound = plan_

        def body(s: State) -> State:
            i, v = s[0], list(s[1:])
            for op, to, a, b in steps:
                v[to] = [lambda: ops.add(v[a], v[b]), lambda: ops.xor(v[a], outside), lambda: ops.mul(v[a], uint(3)),  # noqa: B023
                         lambda: ops.select(ops.lt(v[a], v[b]), v[a], i),  # noqa: B023
                         lambda: gather(table, both(v[a], uint(15)), TRUE), lambda: v[b]][op]()  # noqa: B023
            if inner is not None:
                v = run_nodes(v, inner)
            return [ops.add(i, uint(1)), *v]

        limit = ops.mod(outside, uint(bound + 1)) if bound % 2 else uint(bound)
        return while_loop([uint(0), *state_], lambda s: ops.lt(s[0], limit), body)[1:]

    def run_python(v: list[int], plan_: list[Any], out: int) -> list[int]:
        steps, inner, bound = plan_
        limit = out % (bound + 1) if bound % 2 else bound
        v = list(v)
        for i in range(limit):
            for op, to, a, b in steps:
                v[to] = [v[a] + v[b], v[a] ^ out, v[a] * 3, v[a] if v[a] < v[b] else i, int(table_data[v[a] & 15]),
                         v[b]][op] & 0xFFFF_FFFF
            if inner is not None:
                v = run_python(v, inner, out)
        return v

    results = run_nodes([array(s) for s in start], plan)
    verify([node for node in results if node.scope == 0])
    evaluate(results)
    expected = [run_python([int(s[0] if s.size == 1 else s[k]) for s in start], plan, int(captured[k]))
                for k in range(size)]
    for position, node in enumerate(results):
        column = np.array([row[position] for row in expected], np.uint32)
        actual = values(node)
        assert_same_bits(np.broadcast_to(actual, size).copy() if actual.size == 1 else actual, column,
                         f"seed {seed}, variable {position}, {plan}")


@pytest.mark.usefixtures("backend")
def test_random_loops_agree_with_python() -> None:
    for seed in range(150):
        _random_loop(seed)


@pytest.mark.exhaustive
def test_many_random_loops_agree_with_python() -> None:
    for seed in range(1000, 5000):
        _random_loop(seed)


# --- what is refused -------------------------------------------------------------------------------------------------


def run_one(body: Callable[[State], Any], condition: Callable[[State], Node] | None = None) -> State:
    return while_loop([counter(20), literal(FLOAT32, 0, 20)], condition or (lambda s: ops.lt(s[0], uint(10))), body)


def advanced(s: State) -> State:
    return [ops.add(s[0], uint(1)), s[1]]


@pytest.mark.parametrize(("error", "message", "body", "condition"), [
    (TypeError, "variable 1 changed from float32 to uint32", lambda s: [ops.add(s[0], uint(1)), s[0]], None),
    (ValueError, "returned 1 variables, the loop has 2", lambda s: [ops.add(s[0], uint(1))], None),
    (ValueError, "returned 3 variables, the loop has 2", lambda s: [*advanced(s), s[0]], None),
    (TypeError, "condition must be a mask, found uint32", advanced, lambda s: s[0]),
    (IncompatibleSizes, "while_loop", lambda s: [ops.add(s[0], uint(1)), array(np.zeros(7), FLOAT32)], None),
    (RuntimeError, "symbolic", lambda s: (reduce(s[0], 1), advanced(s))[1], None),
    (RuntimeError, "not among its state variables",
     lambda s: (scatter(array(np.zeros(9), FLOAT32), s[1], s[0], TRUE, 0, 0), advanced(s))[1], None),
    (RuntimeError, "free of side effects", advanced, lambda s: (scatter(s[1], s[1], s[0], TRUE, 0, 0),
                                                               ops.lt(s[0], uint(10)))[1]),
    (RuntimeError, "symbolic", lambda s: (evaluate([ops.add(s[0], s[0])]), advanced(s))[1], None),
    (RuntimeError, "symbolic", lambda s: (schedule([s[0]]), advanced(s))[1], None),
    (RuntimeError, "symbolic", lambda s: (read_element(s[0], 0), advanced(s))[1], None),
    (RuntimeError, "symbolic", lambda s: (opaque(s[0]), advanced(s))[1], None),
    (RuntimeError, "symbolic", lambda s: (gather(ops.add(s[1], s[1]), s[0], TRUE), advanced(s))[1], None),
    (NotImplementedError, "variable '1' is accessed by index and given other values",
     lambda s: [ops.add(s[0], uint(1)), gather(s[1], s[0], TRUE)], None),
    (ZeroDivisionError, "division", lambda s: [1 // 0], None),
], ids=["type", "too few", "too many", "condition", "size", "reduce", "scatter", "scatter in the condition",
        "evaluate", "schedule", "read", "opaque", "gather", "gather from a variable", "user"])
def test_what_is_wrong_raises_and_leaves_no_trace(error: type[Exception], message: str, body: Any,
                                                  condition: Any) -> None:
    before = state.region, dict(state.open), state.mode, state.flags
    with pytest.raises(error, match=message):
        run_one(body, condition)
    assert (state.region, dict(state.open), state.mode, state.flags) == before
    i, _ = run_one(advanced)
    assert_same_bits(values(i), np.maximum(np.arange(20), 10).astype(np.uint32))


def test_incompatible_sizes_of_the_initial_state() -> None:
    with pytest.raises(IncompatibleSizes):
        while_loop([counter(20), counter(21)], lambda s: TRUE, lambda s: [ops.add(n, uint(1)) for n in s])


@pytest.mark.parametrize("flags", [True, False])
@pytest.mark.parametrize("read", [True, False])
@pytest.mark.parametrize("size", [1, 3, 20, 21])
def test_variables_that_the_body_leaves_alone_may_have_another_size(size: int, read: bool, flags: bool) -> None:
    table = array(np.arange(size, dtype=np.uint32) + 5)

    def body(s: State) -> State:
        value = gather(s[1], ops.mod(s[0], uint(size)), TRUE) if read else s[0]
        return [ops.add(s[0], uint(1)), s[1], ops.add(s[2], value)]

    with scoped_set_flag(JitFlag.OptimizeLoops, flags):
        i, same, total = checked_loop([counter(20), table, uint(0)], lambda s: ops.lt(s[0], uint(25)), body)
    if read or size not in (1, 20):
        assert same is table
    expected = [sum(k % size + 5 if read else k for k in range(start, 25)) for start in range(20)]
    assert_same_bits(values(total), np.array(expected, np.uint32))
    assert_same_bits(values(i), np.full(20, 25, np.uint32))


def test_a_table_that_is_read_by_a_loop_within_a_loop() -> None:
    table = array(np.arange(7, dtype=np.uint32))

    def inner(s: State) -> State:
        return [ops.add(s[0], uint(1)), s[1], ops.add(s[2], gather(s[1], s[0], TRUE))]

    def outer(s: State) -> State:
        _, same, total = while_loop([uint(0), s[1], s[2]], lambda t: ops.lt(t[0], s[0]), inner)
        return [ops.add(s[0], uint(1)), same, total]

    _, _, total = checked_loop([counter(6), table, uint(0)], lambda s: ops.le(s[0], uint(6)), outer)
    assert values(total).tolist() == [sum(sum(range(n)) for n in range(start, 7)) for start in range(6)]


def test_evaluation_of_something_else_while_a_loop_is_traced() -> None:
    x = array(np.arange(20), FLOAT32)

    def body(s: State) -> State:
        scale = read_element(reduce(ops.add(x, x), ReduceOp.Max.value) if state.region is None else doubled, 3)
        return [ops.add(s[0], uint(1)), ops.add(s[1], literal(FLOAT32, scale))]

    doubled = ops.add(x, x)
    i, total = run_one(body)
    assert_same_bits(values(total), (np.maximum(10 - np.arange(20), 0) * 6).astype(np.float32))
    assert state_of(doubled) is VarState.Evaluated
    del i


def test_what_is_traced_inside_is_symbolic() -> None:
    states: list[VarState] = []

    def body(s: State) -> State:
        states.extend(map(state_of, (s[0], ops.add(s[0], uint(1)), uint(3))))
        assert state.flags & JitFlag.SymbolicScope
        return advanced(s)

    run_one(body)
    assert states[:3] == [VarState.Symbolic, VarState.Symbolic, VarState.Literal]
    assert not state.flags & JitFlag.SymbolicScope


def test_newton_iterations_until_they_converge() -> None:
    data = np.linspace(0.1, 1000, 333).astype(np.float64)
    a = array(data)
    tolerance, half = literal(FLOAT64, 1e-13), literal(FLOAT64, 0.5)

    def condition(s: State) -> Node:
        return ops.gt(ops.abs(ops.sub(ops.mul(s[0], s[0]), a)), ops.mul(tolerance, a))

    (root,) = checked_loop([a], condition, lambda s: [ops.mul(half, ops.add(s[0], ops.div(a, s[0])))])
    np.testing.assert_allclose(values(root), np.sqrt(data), rtol=1e-13)
    assert math.isclose(values(cast(root, FLOAT32))[0], math.sqrt(0.1), rel_tol=1e-6)
