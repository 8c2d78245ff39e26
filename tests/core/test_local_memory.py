"""Loops that keep their variables in local memory, and loops that read them: kernels, the interpreter, NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from drjit_core import Node, call, cast, cond, counter, evaluate, interpret, literal, ops, reduce, while_loop
from drjit_core.control.extend import Counted, construct_of, fits, most_iterations
from drjit_core.ir.extension import take_over
from drjit_core.ir.verify import verify
from drjit_core.types import ReduceOp
from tests.core.harness import (
    ALL_TYPES,
    BOOL,
    FLOAT64,
    INT8,
    TRUE,
    UINT8,
    UINT32,
    array,
    launches,
    name_of,
    values,
)

SIZES = [1, 5, 16, 100, 1000]


def loop_of(results: Sequence[Node]) -> Node | None:
    """The loop that results are of."""
    return construct_of(results, ())


def stepped(x: Node, type_: int) -> Node:
    return ops.inv(x) if type_ == BOOL else ops.add(ops.add(x, x), literal(type_, 1))


def forwards(start: Node, counts: Node) -> list[Node]:
    """``counts`` iterations of each element: the number of the iteration, and a value."""
    return while_loop([literal(UINT32, 0), start], lambda s: ops.lt(s[0], counts),
                      lambda s: [ops.add(s[0], literal(UINT32, 1)), stepped(s[1], start.type)])


def backwards(counted: Counted, counts: Node) -> list[Node]:
    """What a loop has kept, from the last iteration to the first: weighted by its number, and the last one read."""
    def body(state: list[Node]) -> list[Node]:
        iteration = ops.sub(state[0], literal(UINT32, 1))
        state_of = counted.state(iteration)
        number, value = state_of[0], state_of[1]
        total = ops.add(state[1], ops.mul(cast(value, UINT32), ops.add(iteration, literal(UINT32, 1))))
        return [iteration, total, number]

    return while_loop([counted.number, literal(UINT32, 0), literal(UINT32, 7)],
                      lambda s: ops.gt(s[0], literal(UINT32, 0)), body)[1:]


def expected(start: np.ndarray[Any, Any], counts: np.ndarray[Any, Any]) -> list[np.ndarray[Any, Any]]:
    total, last = np.zeros(len(start), np.uint32), np.full(len(start), 7, np.uint32)
    for lane, (value, count) in enumerate(zip(start, counts, strict=True)):
        for k in range(count):
            total[lane] += np.uint32(np.uint64(int(value) & 0xFFFFFFFF) * np.uint64(k + 1) & np.uint64(0xFFFFFFFF))
            value = ~value if value.dtype == bool else value + value + value.dtype.type(1)
            last[lane] = 0
    return [total, last]


@pytest.mark.parametrize("type_", ALL_TYPES, ids=name_of)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("apart", [False, True])
def test_what_a_loop_has_kept(type_: int, size: int, apart: bool) -> None:
    generator = np.random.default_rng(size)
    counts = generator.integers(0, 6, size).astype(np.uint32)
    start = array(np.arange(size) % 2, type_)
    with np.errstate(all="ignore"):
        wanted = expected(values(start), counts)
    first = forwards(start, array(counts))
    loop = loop_of(first)
    assert loop is not None
    counted = Counted(loop, 5, (0, 1), apart=apart)
    assert counted.local != apart
    results = [*backwards(counted, array(counts)), counted.number]
    verify(results)
    if apart:
        take_over(counted.node)
    interpreted = interpret(results)
    with launches() as seen:
        evaluate([*results, *first])
    assert len(seen) == (1 if not apart else 2)
    for result, told, value in zip(results, interpreted, [*wanted, counts], strict=True):
        np.testing.assert_array_equal(np.broadcast_to(values(result), size), value)
        np.testing.assert_array_equal(np.broadcast_to(told, size), value)
    np.testing.assert_array_equal(np.broadcast_to(values(first[0]), size), counts)


def test_a_loop_that_was_evaluated_runs_again() -> None:
    counts = array(np.array([3, 0, 2], np.uint32))
    first = forwards(array(np.array([0, 1, 1], np.float32)), counts)
    counted = Counted(loop_of(first), 3, (0, 1))  # type: ignore[arg-type]
    evaluate([first[1]])
    with launches() as seen:
        evaluate(results := backwards(counted, counts))
    assert len(seen) == 1
    wanted = expected(np.array([0, 1, 1], np.float32), np.array([3, 0, 2]))
    np.testing.assert_array_equal(values(results[0]), wanted[0])


def test_one_kernel_computes_a_loop_and_the_one_that_extends_it() -> None:
    counts = array(np.array([3, 0, 2], np.uint32))
    first = forwards(array(np.array([0, 1, 1], np.float32)), counts)
    loop = loop_of(first)
    assert loop is not None
    counted = Counted(loop, 3, (0, 1))
    results = backwards(counted, counts)
    evaluate([*results, reduce(first[1], ReduceOp.Add.value)])
    assert first[0].d0 is counted.node is not loop


def test_what_needs_a_sum_of_the_loop_runs_it_again() -> None:
    """The loop that keeps its variables belongs to the kernel of the one that reads them, which waits for the sum."""
    counts = array(np.array([3, 0, 2], np.uint32))
    first = forwards(array(np.array([0, 1, 1], np.float32)), counts)
    counted = Counted(loop_of(first), 3, (0, 1))  # type: ignore[arg-type]
    total = cast(reduce(first[1], ReduceOp.Add.value), UINT32)

    def body(state: list[Node]) -> list[Node]:
        iteration = ops.sub(state[0], literal(UINT32, 1))
        return [iteration, ops.add(state[1], ops.mul(cast(counted.state(iteration)[1], UINT32), total))]

    result = while_loop([counted.number, literal(UINT32, 0)], lambda s: ops.gt(s[0], literal(UINT32, 0)), body)[1]
    verify([result])
    told = interpret([result])
    with launches() as seen:
        evaluate([result])
    assert len(seen) == 2
    kept = [[0, 1, 3], [], [1, 3]]
    wanted = np.array([sum(each) for each in kept]) * (7 + 1 + 7)
    np.testing.assert_array_equal(values(result), wanted)
    np.testing.assert_array_equal(told[0], wanted)


@pytest.mark.parametrize("how", ["branch", "call", "loop"])
@pytest.mark.parametrize("size", [1, 40])
def test_in_regions(how: str, size: int) -> None:
    counts_ = np.arange(size).astype(np.uint32) % 5
    counts, start = array(counts_), array((np.arange(size) % 3).astype(np.float32))

    def visited(x: Node) -> Node:
        first = forwards(x, counts)
        loop = loop_of(first)
        assert loop is not None
        return ops.add(backwards(Counted(loop, 5, (0, 1), anew=True), counts)[0], cast(first[1], UINT32))

    even = ops.eq(ops.and_(counter(size), literal(UINT32, 1)), literal(UINT32, 0))

    def otherwise(x: Node) -> Node:
        return literal(UINT32, 5)

    if how == "branch":
        (found,), _ = cond(even, [start], lambda s: [visited(s[0])], lambda s: [otherwise(s[0])])
    elif how == "call":
        (found,), _ = call(ops.select(even, literal(UINT32, 0), literal(UINT32, 1)), TRUE,
                           [lambda s: [visited(s[0])], lambda s: [otherwise(s[0])]], [start])
    else:
        found = while_loop([literal(UINT32, 0), start, literal(UINT32, 5)],
                           lambda s: ops.and_(even, ops.lt(s[0], literal(UINT32, 1))),
                           lambda s: [ops.add(s[0], literal(UINT32, 1)), s[1], visited(s[1])])[2]
    verify([found])
    (told,) = interpret([found])
    wanted = np.full(size, 5, np.uint32)
    weighted = expected((np.arange(size) % 3).astype(np.float32), counts_)[0]
    for lane in range(0, size, 2):
        value = np.float32(lane % 3)
        for _ in range(counts_[lane]):
            value = value + value + np.float32(1)
        wanted[lane] = weighted[lane] + np.uint32(value)
    np.testing.assert_array_equal(np.broadcast_to(values(found), size), wanted)
    np.testing.assert_array_equal(np.broadcast_to(told, size), wanted)


def test_what_fits() -> None:
    loop = loop_of(forwards(array(np.zeros(3, np.float32)), array(np.ones(3, np.uint32))))
    assert loop is not None
    assert fits(loop, 48) and fits(loop, 1023) and not fits(loop, 1024)


@pytest.mark.parametrize("first, step, test, most", [
    (0, 1, lambda k, x: ops.lt(k, literal(UINT32, 12)), 12), (0, 1, lambda k, x: ops.le(k, literal(UINT32, 12)), 13),
    (0, 1, lambda k, x: ops.gt(literal(UINT32, 12), k), 12), (0, 1, lambda k, x: ops.ge(literal(UINT32, 12), k), 13),
    (3, 5, lambda k, x: ops.lt(k, literal(UINT32, 14)), 3), (3, 5, lambda k, x: ops.lt(k, literal(UINT32, 13)), 2),
    (20, 1, lambda k, x: ops.lt(k, literal(UINT32, 12)), 0),
    (0, 1, lambda k, x: ops.and_(ops.gt(x, literal(FLOAT64, 0)), ops.lt(k, literal(UINT32, 12))), 12),
    (0, 1, lambda k, x: ops.and_(ops.gt(x, literal(FLOAT64, 0)), ops.lt(k, literal(UINT32, 1200))), None),
    (0, 1, lambda k, x: ops.lt(k, literal(UINT32, 1200)), 1200),
    (0, 1, lambda k, x: ops.or_(ops.gt(x, literal(FLOAT64, 0)), ops.lt(k, literal(UINT32, 12))), None),
    (0, 1, lambda k, x: ops.lt(x, literal(FLOAT64, 12)), None),
    (0, 0, lambda k, x: ops.lt(k, literal(UINT32, 12)), None),
    (0, 1 << 31, lambda k, x: ops.lt(k, literal(UINT32, (1 << 32) - 5)), None)])
def test_how_many_iterations_a_condition_allows(first: int, step: int, test: Any, most: int | None) -> None:
    results = while_loop([literal(UINT32, first), array(np.ones(3))], lambda s: test(s[0], s[1]),
                         lambda s: [ops.add(s[0], literal(UINT32, step)), ops.sub(s[1], literal(FLOAT64, 0.25))])
    loop = loop_of(results)
    assert loop is not None
    assert most_iterations(loop.payload) == most


@pytest.mark.parametrize("type_, most", [(UINT8, None), (INT8, None), (UINT32, 250)], ids=["uint8", "int8", "uint32"])
def test_a_counter_that_starts_over_allows_any_number(type_: int, most: int | None) -> None:
    limit = 127 if type_ == INT8 else 250
    results = while_loop([literal(type_, 0), array(np.ones(3))], lambda s: ops.lt(s[0], literal(type_, limit)),
                         lambda s: [ops.add(s[0], literal(type_, 100 if type_ != UINT32 else 1)), ops.neg(s[1])])
    loop = loop_of(results)
    assert loop is not None
    assert most_iterations(loop.payload) == most
