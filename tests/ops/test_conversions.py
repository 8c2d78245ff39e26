"""Casts between all types, and reinterpretation of bits: kernels, folding and NumPy agree."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from drjit_core import TYPES, UnsupportedType, bitcast, cast, literal, ops
from tests.core.harness import (
    ALL_TYPES,
    BFLOAT16,
    BOOL,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    FLOATS,
    UINT16,
    UINT32,
    array,
    assert_same_bits,
    dtype_of,
    limits_of,
    name_of,
    number,
    values,
)
from tests.ops.samples import samples

PAIRS = [pytest.param(a, b, id=f"{name_of(a)}-{name_of(b)}") for a, b in itertools.permutations(ALL_TYPES, 2)]


def interesting(source: int) -> np.ndarray[Any, Any]:
    """Special values, and the neighbourhood of every power of two, where conversions round or overflow."""
    info, dtype = TYPES[source], dtype_of(source)
    if info.kind == "b":
        return samples(source)
    if source == BFLOAT16:
        return np.concatenate([samples(source), np.arange(0, 1 << 16, 5, dtype=np.uint16).view(dtype)])
    if info.kind == "f":
        limits = limits_of(source)
        powers = np.ldexp(np.ones(1, dtype), np.arange(max(limits.minexp, -160), min(limits.maxexp, 160)))
        with np.errstate(all="ignore"):
            near = [powers, np.nextafter(powers, dtype.type(0)), np.nextafter(powers, dtype.type(np.inf)),
                    powers * dtype.type(1.5), powers - dtype.type(0.5), powers + dtype.type(0.5)]
        ties = []
        for bits in (8, 11, 24):  # halfway between two numbers of a smaller type, and next to that
            if bits <= limits.nmant - 1:
                tie = 1 + 2.0 ** -bits
                ties += [np.array([tie, tie + 2.0 ** (1 - bits), np.nextafter(tie, 2), np.nextafter(tie, 0)], dtype)
                         * dtype.type(2.0) ** e for e in (-20, -15, -14, 0, 3, 10)]
        all_ = np.concatenate([*near, *ties])
        return np.concatenate([samples(source), all_, -all_])
    powers = [1 << e for e in range(info.bits)]
    halfway = [p + (p >> k) for p in powers for k in (8, 9, 11, 12, 24, 25, 53)]  # between two floats of some type
    integers = {p + d for p in powers + halfway for d in (-1, 0, 1)}
    integers |= {-i for i in integers}
    return np.concatenate([samples(source), np.array(
        [i for i in sorted(integers) if info.minimum <= i <= info.maximum], dtype_of(source))])


def folded_cast(data: np.ndarray[Any, Any], source: int, target: int) -> np.ndarray[Any, Any]:
    """What folding makes of a cast."""
    return np.array([cast(literal(source, value), target).payload for value in data.tolist()], dtype_of(target))


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_casts_in_packets_agree_with_folding(source: int, target: int) -> None:
    data = interesting(source)
    assert_same_bits(values(cast(array(data), target)), folded_cast(data, source, target), data)


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_casts_of_one_element_agree_with_folding(source: int, target: int) -> None:
    data = np.append(samples(source), interesting(source)[::7])
    actual = [values(cast(number(source, value), target))[0] for value in data]
    assert_same_bits(np.array(actual, dtype_of(target)), folded_cast(data, source, target), data)


def nearest_bfloat16(value: float) -> float:
    """By exact arithmetic: ml_dtypes rounds to single precision first."""
    if not math.isfinite(value) or not value:
        return value
    unit = Fraction(2) ** max(math.frexp(value)[1] - 8 if value.__class__ is float else value.bit_length() - 8, -133)
    rounded = round(Fraction(value) / unit) * unit
    found = math.inf if abs(rounded) >= 2**128 else abs(float(rounded))
    return math.copysign(found, value)


@pytest.mark.oracle
@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_folded_casts_agree_with_numpy(source: int, target: int) -> None:
    """Where the value fits: conversion of what does not fit is undefined in C, and so in NumPy."""
    data, goal = interesting(source), TYPES[target]
    if TYPES[source].kind == "f" and goal.kind in "iu":
        high = np.float64(goal.maximum)
        with np.errstate(invalid="ignore"):  # of NaN that signal
            whole = np.trunc(data.astype(np.float64))
        fits = (whole >= goal.minimum) & (whole < high if goal.bits > 53 else whole <= high) & (
            (whole > -1) if goal.kind == "u" else True)
        data = data[fits]
    if source == BFLOAT16:
        data = data.astype(np.float32)
    if target == BFLOAT16 and source != BOOL:
        expected = np.array([nearest_bfloat16(value) for value in data.tolist()], np.float32).astype(dtype_of(target))
    elif TYPES[source].kind in "iu" and target == FLOAT16:  # NumPy rounds by way of single or double precision
        expected = np.array([float(v) for v in data.tolist()])
        with np.errstate(over="ignore"):
            expected = expected.astype(np.float16)
        data, expected = data[np.abs(expected) < np.inf], expected[np.abs(expected) < np.inf]
    else:
        with np.errstate(all="ignore"):
            expected = data.astype(dtype_of(target))
    assert_same_bits(folded_cast(data, source, target), expected, data)


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_what_does_not_fit_becomes_the_extreme_value(source: int, target: int) -> None:
    goal = TYPES[target]
    if TYPES[source].kind != "f" or goal.kind not in "iu":
        return
    data = np.array([np.nan, np.inf, -np.inf], dtype_of(source))
    expected = goal.minimum if goal.kind == "i" else goal.maximum
    assert values(cast(array(data), target)).tolist() == [expected] * 3


SAME_SIZE = [pytest.param(a, b, id=f"{name_of(a)}-{name_of(b)}") for a, b in itertools.permutations(ALL_TYPES, 2)
             if TYPES[a].size == TYPES[b].size and BOOL not in (a, b)]


@pytest.mark.parametrize(("source", "target"), SAME_SIZE)
def test_reinterpretation_keeps_the_bits(source: int, target: int) -> None:
    data = samples(source)
    expected = data.view(dtype_of(target))
    assert_same_bits(values(bitcast(array(data), target)), expected, data)
    assert_same_bits(np.array([values(bitcast(literal(source, v), target))[0] for v in data.tolist()],
                              dtype_of(target)), expected, data)
    assert_same_bits(np.array([values(bitcast(number(source, v), target))[0] for v in data], dtype_of(target)),
                     expected, data)
    original = array(data)
    assert bitcast(bitcast(original, target), source) is original


def test_reinterpretation_of_a_literal_keeps_the_bits_of_a_nan() -> None:
    for pattern in (0x7F800001, 0x7FC00001, 0x7FFFFFFE, 0xFF812345):
        nan = bitcast(literal(UINT32, pattern), FLOAT32)
        assert np.isnan(values(nan)[0])
        assert values(bitcast(ops.add(bitcast(nan, UINT32), literal(UINT32, 0)), UINT32))[0] == pattern
    assert values(bitcast(literal(FLOAT32, np.nan), UINT32))[0] == 0x7FC00000


def test_reinterpretation_needs_equal_sizes_and_no_masks() -> None:
    refused = 0
    for source, target in itertools.product(ALL_TYPES, repeat=2):
        if TYPES[source].size != TYPES[target].size or (BOOL in (source, target) and source != target):
            refused += 1
            with pytest.raises(UnsupportedType, match="reinterpretation"):
                bitcast(array([0, 1], source), target)
    assert refused == len(ALL_TYPES) ** 2 - len(SAME_SIZE) - len(ALL_TYPES)


@pytest.mark.parametrize("type_", FLOATS, ids=name_of)
def test_casts_of_half_precision_are_right_for_every_half(type_: int) -> None:
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    if type_ == FLOAT16:
        wide = cast(cast(array(halves), FLOAT64), FLOAT32)
        assert_same_bits(values(cast(wide, FLOAT16)), halves)
    elif type_ == BFLOAT16:
        with np.errstate(invalid="ignore"):
            assert_same_bits(values(cast(array(halves), type_)), halves.astype(np.float32).astype(dtype_of(type_)))
    else:
        assert_same_bits(values(cast(array(halves), type_)), halves.astype(dtype_of(type_)), halves)


@pytest.mark.parametrize("type_", FLOATS, ids=name_of)
def test_casts_of_bfloat16_are_right_for_every_number(type_: int) -> None:
    words = np.arange(1 << 16, dtype=np.uint16)
    exact = (words.astype(np.uint32) << 16).view(np.float32)
    node = bitcast(array(words), BFLOAT16)
    if type_ == BFLOAT16:
        with np.errstate(invalid="ignore"):
            for wide in (FLOAT32, FLOAT64):
                assert_same_bits(values(cast(cast(node, wide), BFLOAT16)), words.view("bfloat16"))
    else:
        with np.errstate(over="ignore", invalid="ignore"):
            assert_same_bits(values(cast(node, type_)), exact.astype(dtype_of(type_)), exact)


@pytest.mark.parametrize("source", [FLOAT32, FLOAT64], ids=name_of)
def test_rounding_to_bfloat16_at_every_tie(source: int) -> None:
    """The midpoints between all neighbours, that to infinity included, and the numbers next to the midpoints."""
    ties = (np.arange(0x7F80, dtype=np.uint32) << 16 | 0x8000).view(np.float32).astype(dtype_of(source))
    low, high = (np.nextafter(ties, dtype_of(source).type(end)) for end in (0, np.inf))
    down, up = np.arange(0x7F80, dtype=np.uint16), np.arange(1, 0x7F81, dtype=np.uint16)
    for data, expected in ((ties, down + (down & 1)), (low, down), (high, up)):
        assert_same_bits(values(cast(array(data), BFLOAT16)), expected.view("bfloat16"), data)
        assert_same_bits(values(cast(array(-data), BFLOAT16)), (expected | 0x8000).view("bfloat16"), data)


def test_nan_stay_that_whatever_their_bits() -> None:
    patterns = np.array([0x7F800001, 0x7FBFFFFF, 0x7FFFFFFF, 0xFF800001, 0xFFFFFFFF], np.uint32)
    found = values(bitcast(cast(bitcast(array(patterns), FLOAT32), BFLOAT16), UINT16))
    assert np.all(found & 0x7FFF > 0x7F80) and np.array_equal(found >> 15, patterns >> 31)


@pytest.mark.parametrize("source", [FLOAT32, FLOAT64], ids=name_of)
def test_rounding_to_half_precision_at_every_tie(source: int) -> None:
    """The midpoints between all neighbouring halves, and the numbers next to the midpoints."""
    halves = np.arange(0x7C00, dtype=np.uint16).view(np.float16).astype(dtype_of(source))
    middle = (halves[1:] + halves[:-1]) / 2
    data = np.concatenate([middle, np.nextafter(middle, dtype_of(source).type(0)),
                           np.nextafter(middle, dtype_of(source).type(np.inf))])
    data = np.concatenate([data, -data])
    assert_same_bits(values(cast(array(data), FLOAT16)), data.astype(np.float16), data)
