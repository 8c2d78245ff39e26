"""A program is compiled once, whatever its sizes and the values of its scalars."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from drjit_core import (
    SHAPE,
    Node,
    ReduceOp,
    cast,
    counter,
    evaluate,
    floordiv,
    gather,
    literal,
    ops,
    reduce,
    scatter,
    while_loop,
)
from drjit_core.runtime.cpu import cache
from tests.core.harness import FLOAT32, FLOAT64, INT32, TRUE, UINT32, array, launches, values

Program = Callable[[int, float], list[Node]]


def linspace(size: int, start: float, stop: float) -> Node:
    step = (stop - start) / max(size - 1, 1)
    return ops.fma(cast(counter(size), FLOAT32), literal(FLOAT32, step, 1, SHAPE), literal(FLOAT32, start, 1, SHAPE))


def mean(x: Node) -> Node:
    return ops.div(reduce(x, ReduceOp.Add.value), literal(x.type, x.size, 1, SHAPE))


def _statistics(size: int, value: float) -> list[Node]:
    x = linspace(size, 0, 1)
    centred = ops.sub(x, mean(x))
    return [mean(ops.mul(centred, centred)), ops.mul(x, literal(FLOAT32, value))]


def _reverse(size: int, value: float) -> list[Node]:
    x = array(np.arange(size), FLOAT32)
    last = ops.sub(literal(UINT32, size, 1, SHAPE), literal(UINT32, 1))
    return [ops.add(gather(x, ops.sub(last, counter(size)), TRUE), literal(FLOAT32, value))]


def _write(size: int, value: float) -> list[Node]:
    target = literal(FLOAT32, 0, size)
    index = ops.shr(counter(size), literal(UINT32, 1))
    return [scatter(target, literal(FLOAT32, value), index, TRUE, ReduceOp.Add.value, 0)]


def _divide(size: int, value: float) -> list[Node]:
    return [floordiv(cast(counter(size), INT32), literal(INT32, int(value) + 2))]


def _loop(size: int, value: float) -> list[Node]:
    limit = literal(UINT32, int(value) % 20, 1, SHAPE)
    return while_loop([counter(size) if size > 1 else array([0], UINT32)], lambda s: ops.lt(s[0], limit),
                      lambda s: [ops.add(s[0], literal(UINT32, 3))])


def _update(size: int, value: float) -> list[Node]:
    """A step of an optimiser."""
    x, gradient = array(np.ones(size), FLOAT64), array(np.ones(size), FLOAT64)
    return [ops.sub(x, ops.mul(gradient, literal(FLOAT64, value * 1e-3)))]


PROGRAMS: list[Program] = [_statistics, _reverse, _write, _divide, _loop, _update]


def compilations(program: Program, arguments: list[tuple[int, float]]) -> tuple[int, int]:
    """Number of kernels compiled, and of kernels launched at the first arguments."""
    cache.flush()
    first = 0
    with launches() as history:
        for i, (size, value) in enumerate(arguments):
            evaluate(program(size, value))
            if i == 0:
                first = len(cache._kernels)
    assert sum(not entry["cache_hit"] for entry in history) == len(cache._kernels)
    return len(cache._kernels), first


#: Values that no program may look at; 0, 1 and -1 are baked into programs that are given them as ordinary literals.
VALUES = [float(v) for v in np.random.default_rng(1).uniform(2, 1000, 1000)]
SIZES = [2, 3, 15, 16, 17, 64, 65, *map(int, np.random.default_rng(2).integers(2, 20_000, 993))]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__.strip("_"))
def test_a_thousand_values_are_one_compilation(program: Program) -> None:
    count, first = compilations(program, [(100, value) for value in VALUES])
    assert count == first


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__.strip("_"))
def test_a_thousand_sizes_are_one_compilation(program: Program) -> None:
    count, first = compilations(program, [(size, 3.5) for size in SIZES])
    assert count == first


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__.strip("_"))
def test_size_one_is_at_most_a_second_compilation(program: Program) -> None:
    count, first = compilations(program, [(100, 3.5), (1, 3.5), (100, 4.5), (1, 7.5), (1000, 7.5)])
    assert first <= count <= 2 * first


def test_special_values_of_a_parameter() -> None:
    """A shape is a parameter even if it is 0 or 1; other literals of 0, 1 and -1 are part of the program."""
    def shape(size: int, value: float) -> list[Node]:
        return [ops.mul(cast(counter(size), FLOAT32), literal(FLOAT32, value, 1, SHAPE))]

    special = [0.0, 1.0, -1.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, 3.4e38, 0.1]
    count, first = compilations(shape, [(50, value) for value in special])
    assert count == first == 1

    def plain(size: int, value: float) -> list[Node]:
        return [ops.maximum(cast(counter(size), FLOAT32), literal(FLOAT32, value))]

    count, _ = compilations(plain, [(50, value) for value in special])
    assert count == 1 + 4  # and 0, -0, 1, -1 each


def test_parameters_that_happen_to_be_equal_are_one_parameter_of_a_second_kernel() -> None:
    def rectangle(size: int, value: float) -> list[Node]:
        x = cast(counter(size), FLOAT32)
        return [ops.fma(x, literal(FLOAT32, 3, 1, SHAPE), literal(FLOAT32, value, 1, SHAPE))]

    count, _ = compilations(rectangle, [(50, value) for value in (2.0, 3.0, 4.0, 5.0)])
    assert count == 2


def test_results_are_right_when_a_kernel_is_used_again() -> None:
    rng = np.random.default_rng(3)
    for size in rng.integers(2, 3000, 100).tolist():
        value = float(np.float32(rng.uniform(2, 9)))
        variance, scaled = _statistics(size, value)
        evaluate([variance, scaled])
        x = np.arange(size, dtype=np.float32) / np.float32(size - 1)
        np.testing.assert_allclose(values(variance), x.var(), rtol=1e-4)
        np.testing.assert_allclose(values(scaled), x * np.float32(value), rtol=1e-5)
        (reverse,) = _reverse(size, value)
        np.testing.assert_array_equal(values(reverse), np.arange(size, dtype=np.float32)[::-1] + np.float32(value))
        (quotient,) = _divide(size, value)
        np.testing.assert_array_equal(values(quotient), np.arange(size) // (int(value) + 2))
        (end,) = _loop(size, value)
        expected = np.arange(size)
        while (expected < int(value) % 20).any():
            expected = np.where(expected < int(value) % 20, expected + 3, expected)
        np.testing.assert_array_equal(values(end), expected)


def test_flushing_forgets_kernels_and_nothing_else() -> None:
    (first,) = _update(100, 3)
    evaluate([first])
    cache.flush()
    expected: Any = values(first)
    with launches() as history:
        (second,) = _update(100, 3)
        evaluate([second])
    assert [entry["cache_hit"] for entry in history] == [0]
    np.testing.assert_array_equal(values(second), expected)
