"""Division by divisors that are known while tracing, against Python's integers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from drjit_core import BAKED, KIND, SHAPE, TYPES, JitFlag, evaluate, kernel_history, literal, math, scoped_set_flag
from drjit_core.ops.semantics import integer_divide, integer_modulo
from drjit_core.types import INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64
from tests.math.kernels import DTYPES, compute, to_node

TYPES_TESTED = (INT8, UINT8, INT16, UINT16, INT32, UINT32, INT64, UINT64)
NAMES = {"ids": lambda type_: str(DTYPES[type_])}


def _expected(a: np.ndarray[Any, Any], d: int, type_: int) -> tuple[list[int], list[int]]:
    low, bits = int(TYPES[type_].minimum), TYPES[type_].bits
    quotients = [((integer_divide(int(x), d) - low) & ((1 << bits) - 1)) + low for x in a]
    return quotients, [integer_modulo(int(x), d) for x in a]


def _check(a: np.ndarray[Any, Any], d: int, type_: int) -> None:
    divisor = literal(type_, d, 1, SHAPE)
    quotient, remainder = compute(lambda node: (math.floordiv(node, divisor), math.mod(node, divisor)), a)
    expected_quotient, expected_remainder = _expected(a, d, type_)
    assert quotient.tolist() == expected_quotient, d
    assert remainder.tolist() == expected_remainder, d


@pytest.mark.parametrize("type_", [INT8, UINT8], **NAMES)
def test_every_pair_of_bytes(type_: int) -> None:
    info = TYPES[type_]
    values = np.arange(info.minimum, info.maximum + 1).astype(DTYPES[type_])
    for d in range(int(info.minimum), int(info.maximum) + 1):
        _check(values, d, type_)


@pytest.mark.parametrize("type_", [INT16, UINT16], **NAMES)
def test_every_dividend_of_16_bits(type_: int) -> None:
    info = TYPES[type_]
    values = np.arange(info.minimum, info.maximum + 1).astype(DTYPES[type_])
    low, high = int(info.minimum), int(info.maximum)
    divisors = {low, high, high - 1, 1, 2, 3, 5, 7, 10, 127, 128, 255, 641, 32767}
    if info.kind == "i":
        divisors |= {-d for d in divisors if d > 0}
    for d in divisors:
        quotient = compute(lambda node, d=d: math.floordiv(node, literal(type_, d, 1, SHAPE)), values)
        wide = values.astype(np.int64)
        expected = (np.sign(wide) * (np.abs(wide) // abs(d)) * (1 if d > 0 else -1)) if d else 0 * wide
        np.testing.assert_array_equal(quotient, expected.astype(values.dtype))


def _interesting(type_: int, count: int) -> np.ndarray[Any, Any]:
    info, rng = TYPES[type_], np.random.default_rng(4)
    low, high = int(info.minimum), int(info.maximum)
    edges = {low, low + 1, high, high - 1, 0, 1, 2, 3, 5, 7, 10, 641}
    edges |= {(1 << k) + o for k in range(info.bits) for o in (-1, 0, 1)}
    if info.kind == "i":
        edges |= {-e for e in edges}
    kept = [e for e in edges if info.minimum <= e <= info.maximum]
    random = rng.integers(low, high, count, DTYPES[type_], endpoint=True)
    small = random >> rng.integers(0, info.bits, count).astype(random.dtype)
    return np.concatenate([np.array(kept, DTYPES[type_]), random, small])


@pytest.mark.parametrize("type_", [INT32, UINT32, INT64, UINT64], **NAMES)
def test_extreme_and_random_operands(type_: int) -> None:
    values = _interesting(type_, 100)
    for d in _interesting(type_, 15):
        _check(values, int(d), type_)


@pytest.mark.parametrize("type_", TYPES_TESTED, **NAMES)
@pytest.mark.parametrize("d", [0, 1, -1])
def test_zero_and_units_baked_or_not(type_: int, d: int) -> None:
    if d < 0 and TYPES[type_].kind == "u":
        pytest.skip("an unsigned type has no negative divisor")
    values = _interesting(type_, 20)
    expected_quotient, expected_remainder = _expected(values, d, type_)
    for attr in (None, BAKED, SHAPE):
        divisor = literal(type_, d, 1, attr)
        assert compute(lambda n, v=divisor: math.floordiv(n, v), values).tolist() == expected_quotient
        assert compute(lambda n, v=divisor: math.mod(n, v), values).tolist() == expected_remainder


@pytest.mark.parametrize("type_", TYPES_TESTED, **NAMES)
def test_a_divisor_in_memory(type_: int) -> None:
    values = _interesting(type_, 20)
    divisors = np.random.default_rng(5).permutation(values)
    quotient, remainder = compute(lambda a, b: (math.floordiv(a, b), math.mod(a, b)), values, divisors)
    for i, (a, d) in enumerate(zip(values, divisors, strict=True)):
        (q,), (r,) = _expected(np.array([a]), int(d), type_)
        assert (quotient[i], remainder[i]) == (q, r), (a, d)


@pytest.mark.parametrize("type_", [INT32, UINT32], **NAMES)
def test_all_divisors_share_one_kernel(type_: int) -> None:
    a = to_node(np.arange(1000).astype(DTYPES[type_]))
    with scoped_set_flag(JitFlag.KernelHistory, True):
        kernel_history()
        for d in (3, 7, 8, 1000, 1):
            evaluate([math.floordiv(a, literal(type_, d, 1, SHAPE))])
        hashes = {entry["hash"] for entry in kernel_history()}
    assert len(hashes) == 1


def test_literals_fold() -> None:
    assert math.floordiv(literal(INT32, -7), literal(INT32, 2)).payload == -3
    assert math.mod(literal(INT32, -7), literal(INT32, 2)).payload == -1
    assert math.floordiv(to_node(np.arange(4, dtype=np.int32)), literal(INT32, 5)).kind != KIND["floordiv"]
