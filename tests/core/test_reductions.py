"""Reductions of every type and size against NumPy, and that their bits are the same in every run."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from drjit_core import (
    COMBINE,
    REDUCTIONS,
    TYPES,
    Node,
    ReduceMode,
    ReduceOp,
    UnsupportedType,
    cast,
    counter,
    evaluate,
    flush_kernel_cache,
    invalid,
    literal,
    ops,
    reduce,
    scatter,
    set_thread_count,
    thread_count,
)
from drjit_core.llvm import many
from drjit_core.ops.table import LITERAL
from drjit_core.runtime import disk
from drjit_core.runtime.cpu import cache
from drjit_core.runtime.cpu.launches import blocks_of
from tests.core.harness import (
    ALL_TYPES,
    BFLOAT16,
    BOOL,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    FLOATS,
    INT32,
    INT64,
    INTEGERS,
    NUMBERS,
    UINT32,
    array,
    assert_same_bits,
    dtype_of,
    launches,
    name_of,
    program_of,
    shared,
    values,
)
from tests.ops.samples import samples

NUMPY = {ReduceOp.Add: np.add, ReduceOp.Mul: np.multiply, ReduceOp.Min: np.minimum, ReduceOp.Max: np.maximum,
         ReduceOp.And: np.bitwise_and, ReduceOp.Or: np.bitwise_or}
ROWS = [pytest.param(op, type_, id=f"{op.name}-{name_of(type_)}") for op in NUMPY for type_ in ALL_TYPES
        if TYPES[type_].kind in ("biu" if op in (ReduceOp.And, ReduceOp.Or) else "iuf")]
FLOAT_ROWS = [row for row in ROWS if row.values[1] in FLOATS]  # type: ignore[attr-defined]


def block_size(node: Node) -> int:
    """Elements of a block of the kernel that computes a reduction."""
    compiled, _ = cache.lookup(program_of(node))
    return compiled.functions.size(100)


BLOCK = block_size(reduce(array(np.zeros(100), FLOAT32), ReduceOp.Add.value))
SIZES = [1, 2, 15, 16, 17, 31, 33, 63, 64, 65, 127, 129, 1000, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 5]


def exact_data(op: ReduceOp, type_: int, size: int, rng: np.random.Generator) -> np.ndarray[Any, Any]:
    """Values whose reduction is exact in any order."""
    dtype = dtype_of(type_)
    if type_ == BOOL:
        return rng.random(size) < (0.9 if op is ReduceOp.And else 0.1)
    if op in (ReduceOp.And, ReduceOp.Or):
        bits = rng.integers(0, 1 << 63, size, dtype=np.uint64) & rng.integers(0, 1 << 63, size, dtype=np.uint64)
        return (bits if op is ReduceOp.Or else ~bits).astype(f"u{dtype.itemsize}").view(dtype)
    if op is ReduceOp.Mul and type_ in FLOATS:
        return rng.choice([1, -1], size).astype(dtype)
    if op is ReduceOp.Mul:
        return (rng.integers(-20, 20, size) * 2 + 1).astype(dtype)
    low, high = (-3, 4) if type_ != FLOAT16 or size < 1000 else (-1, 2)  # 65504 is the largest half
    if op in (ReduceOp.Min, ReduceOp.Max):
        low, high = (-100, 101)
    if TYPES[type_].kind == "u":
        low = 0
    return rng.integers(low, high, size).astype(dtype)


def model(op: ReduceOp, data: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    if data.dtype.kind not in "biu":
        return np.array([NUMPY[op].reduce(data.astype(np.float64))]).astype(data.dtype)
    return np.array([NUMPY[op].reduce(data, dtype=data.dtype)])


@pytest.mark.oracle
@pytest.mark.parametrize(("op", "type_"), ROWS)
def test_reductions_agree_with_numpy_at_every_size(op: ReduceOp, type_: int) -> None:
    rng = np.random.default_rng(op.value * 16 + type_)
    for size in SIZES:
        data = exact_data(op, type_, size, rng)
        assert_same_bits(values(reduce(array(data), op.value)), model(op, data), f"size {size}")
        if size in (1, 17, 1000):
            assert_same_bits(values(reduce(shared(data), op.value)), model(op, data), f"foreign memory, size {size}")


@pytest.mark.parametrize(("op", "type_"), ROWS)
def test_what_lies_behind_the_end_does_not_enter(op: ReduceOp, type_: int) -> None:
    """The last packet is partly full, and the memory behind it holds what spoils the result."""
    dtype = dtype_of(type_)
    neutral = REDUCTIONS[op.value].identity(type_)
    spoiler = {"Add": 7, "Mul": 0, "Min": TYPES[type_].minimum, "Max": TYPES[type_].maximum, "And": 0,
               "Or": 1}[op.name]
    for size in (2, 17, 77):
        array(np.full(size + 100, spoiler, dtype))  # memory that the next array of about that size is given
        data = np.full(size, neutral, dtype)
        expression = cast(cast(array(data), INT64), type_) if type_ in INTEGERS else array(data)
        assert_same_bits(values(reduce(expression, op.value)), np.array([neutral], dtype))
        backing = np.full(size + 100, spoiler, dtype)
        backing[:size] = neutral
        assert_same_bits(values(reduce(shared(backing[:size]), op.value)), np.array([neutral], dtype))


@pytest.mark.parametrize(("op", "type_"), ROWS)
def test_an_empty_array_reduces_to_the_neutral_element(op: ReduceOp, type_: int) -> None:
    node = reduce(invalid(type_), op.value)
    neutral, empty = (np.array([value], dtype_of(type_)) for value in (
        REDUCTIONS[op.value].identity(type_), REDUCTIONS[op.value].empty(type_)))
    assert_same_bits(values(node), empty)
    assert np.array_equal(neutral, empty), "they differ in the sign of zero at most"
    data = exact_data(op, type_, 5, np.random.default_rng(2))
    assert_same_bits(model(op, np.append(data, neutral)), model(op, data))


@pytest.mark.parametrize("type_", ALL_TYPES, ids=name_of)
@pytest.mark.parametrize("op", NUMPY)
def test_the_table_says_which_types_a_reduction_is_defined_for(op: ReduceOp, type_: int) -> None:
    assert (TYPES[type_].kind in REDUCTIONS[op.value].accepts) == (pytest.param(op, type_).values in
                                                                  [row.values for row in ROWS])
    if TYPES[type_].kind not in REDUCTIONS[op.value].accepts:
        with pytest.raises(UnsupportedType, match=op.name):
            reduce(array(np.ones(3), type_), op.value)


@pytest.mark.parametrize(("op", "type_"), ROWS)
def test_the_neutral_element_changes_no_other_and_what_is_idempotent_not_its_own(op: ReduceOp, type_: int) -> None:
    data = samples(type_)
    if TYPES[type_].kind == "f":
        data = data[~np.isnan(data)]
    neutral = array(np.full(data.size, REDUCTIONS[op.value].identity(type_)), type_)
    combine = COMBINE[op.value]
    assert_same_bits(values(combine(neutral, array(data))), data)
    assert_same_bits(values(combine(array(data), neutral)), data)
    same = values(combine(array(data), shared(data)))
    assert np.array_equal(same, data) == REDUCTIONS[op.value].idempotent


@pytest.mark.parametrize(("op", "type_"), FLOAT_ROWS)
def test_nan_is_ignored_or_not_as_the_table_says(op: ReduceOp, type_: int) -> None:
    ignored = REDUCTIONS[op.value].ignores_nan(type_)
    nan, two = np.full(40, np.nan, dtype_of(type_)), np.full(40, 2, dtype_of(type_))
    for pair in ((nan, two), (two, nan)):
        assert np.array_equal(values(COMBINE[op.value](array(pair[0]), array(pair[1]))), two) == ignored
        number = REDUCTIONS[op.value].number(float(pair[0][0]), float(pair[1][0]))
        assert (number == 2) == ignored
    mixed = np.concatenate([two, nan])
    for data in (mixed, mixed[::-1]):
        assert (values(reduce(array(data), op.value)) == 2).all() == ignored
    nothing = dtype_of(type_).type(REDUCTIONS[op.value].empty(type_)) if ignored else nan[0]
    for node in (array(nan), array(nan[:1]), literal(type_, math.nan), literal(type_, math.nan, 40)):
        assert_same_bits(values(reduce(node, op.value)), [nothing])


@pytest.mark.parametrize("type_", FLOATS, ids=name_of)
@pytest.mark.parametrize("mode", [ReduceMode.Expand, ReduceMode.Direct, ReduceMode.NoConflicts])
def test_scattered_sums_keep_the_sign_of_negative_zeros(type_: int, mode: ReduceMode) -> None:
    """As a sum of negative zeros is -0, so are elements of a target that get such ones, or nothing at all."""
    count = 1 << 16  # more than one thread does at once
    target = np.full(4, -0.0, dtype_of(type_))
    index = ops.add(ops.and_(counter(count), literal(UINT32, 1)), array(np.zeros(count, np.uint32)))
    result = scatter(array(target), literal(type_, -0.0), index, literal(BOOL, True), ReduceOp.Add.value, mode.value)
    assert_same_bits(values(result), target)


@pytest.mark.parametrize(("op", "type_"), ROWS)
def test_one_element_and_literals_need_no_kernel(op: ReduceOp, type_: int) -> None:
    one = array(exact_data(op, type_, 1, np.random.default_rng(1)))
    assert reduce(one, op.value) is one or REDUCTIONS[op.value].ignores_nan(type_)
    assert_same_bits(values(reduce(one, op.value)), values(one))
    for value in (0, 1) if type_ == BOOL else (0, 1, 3) if TYPES[type_].kind == "u" else (0, 1, -1, 3):
        for size in (1, 2, 9, 10):
            node = reduce(literal(type_, value, size), op.value)
            assert node.kind == LITERAL and node.size == 1
            expected = model(op, np.full(size, value, dtype_of(type_)))
            assert_same_bits(values(node), expected, f"{value} x {size}")


def test_literals_of_the_extreme_sizes() -> None:
    assert reduce(literal(UINT32, 3, 1 << 31), ReduceOp.Add.value).payload == (3 << 31) % (1 << 32)
    assert reduce(literal(FLOAT64, 1e300, 1000), ReduceOp.Mul.value).payload == np.inf
    assert reduce(literal(FLOAT64, -1e300, 1001), ReduceOp.Mul.value).payload == -np.inf
    assert reduce(literal(FLOAT32, 0.5, 1 << 20), ReduceOp.Mul.value).payload == 0
    assert reduce(literal(INT32, -3, 5), ReduceOp.Mul.value).payload == -243


@pytest.mark.parametrize("type_", FLOATS, ids=name_of)
@pytest.mark.parametrize("size", [2, 17, 1000, BLOCK + 1])
def test_minimum_and_maximum_ignore_nan(type_: int, size: int) -> None:
    rng = np.random.default_rng(size)
    data = rng.integers(-50, 50, size).astype(dtype_of(type_))
    data[rng.random(size) < 0.5] = np.nan
    data[0] = 3
    assert_same_bits(values(reduce(array(data), ReduceOp.Min.value)), np.array([np.nanmin(data)]))
    assert_same_bits(values(reduce(array(data), ReduceOp.Max.value)), np.array([np.nanmax(data)]))
    data[0], data[-1] = np.inf, -np.inf
    assert values(reduce(array(data), ReduceOp.Min.value))[0] == -np.inf
    assert values(reduce(array(data), ReduceOp.Max.value))[0] == np.inf
    assert np.isnan(values(reduce(array(data), ReduceOp.Add.value))[0])


@pytest.mark.parametrize("type_", FLOATS, ids=name_of)
def test_sums_of_special_values(type_: int) -> None:
    dtype = dtype_of(type_)
    for data, total in (([-0.0] * 20, -0.0), ([0.0, -0.0] * 9, 0.0), ([np.inf] * 3, np.inf),
                        ([np.inf, -np.inf, 1], np.nan), ([1.0, np.nan, 2], np.nan)):
        assert_same_bits(values(reduce(array(np.array(data, dtype)), ReduceOp.Add.value)), np.array([total], dtype))


def test_half_precision_is_accumulated_in_single_precision() -> None:
    ones = np.full(10_000, 0.25, np.float16)  # a sum of halves would end at 512
    assert values(reduce(array(ones), ReduceOp.Add.value))[0] == 2500
    large = np.array([60000, 60000, -60000, -50016] * 5, np.float16)  # beyond the largest half in between
    assert values(reduce(array(large), ReduceOp.Add.value))[0] == 49_920
    factors = array(np.array([300, 300, 1 / 256, 1 / 256], np.float16))
    assert values(reduce(factors, ReduceOp.Mul.value))[0] == np.float16(300 * 300 / 65536)


@pytest.mark.parametrize("type_", [FLOAT32, FLOAT64], ids=name_of)
def test_sums_are_at_least_as_accurate_as_adding_in_order(type_: int) -> None:
    data = np.random.default_rng(8).random(3 * BLOCK + 5).astype(dtype_of(type_))
    exact = float(np.sum(data.astype(np.longdouble)))
    total = float(values(reduce(array(data), ReduceOp.Add.value))[0])
    assert abs(total - exact) / exact < 200 * float(np.finfo(dtype_of(type_)).eps)


@pytest.mark.parametrize("size", [1000, 3 * BLOCK + 5])
def test_a_sum_has_the_same_bits_in_every_run_and_with_any_number_of_threads(size: int) -> None:
    data = (np.random.default_rng(4).standard_normal(size) * 1e3).astype(np.float32)
    x = array(data)

    def total(i: int) -> bytes:
        node = reduce(ops.mul(x, literal(FLOAT32, 1.5)), ReduceOp.Add.value)
        del i
        return values(node).tobytes()

    before = thread_count()
    results = {total(i) for i in range(100)}
    try:
        for count in (1, 2, 3):
            set_thread_count(count)
            results |= {total(i) for i in range(10)}
    finally:
        set_thread_count(before)
    assert len(results) == 1


def test_a_reduction_is_part_of_the_kernel_that_computes_its_operand() -> None:
    x = array(np.arange(1000) % 10, FLOAT32)
    with launches() as history:
        total = values(reduce(ops.mul(x, x), ReduceOp.Add.value))
    assert total[0] == 28500
    assert [(entry["size"], entry["output_count"]) for entry in history] == [(1000, 1)]


def test_many_reductions_of_all_types_in_one_kernel() -> None:
    i = counter(5000)
    data = np.arange(5000, dtype=np.uint32)
    nodes, expected = [], []
    for op, type_ in ((row.values[0], row.values[1]) for row in ROWS):  # type: ignore[attr-defined]
        small = ops.and_(i, literal(UINT32, 1))
        nodes.append(reduce(cast(small, type_), op.value))
        expected.append(model(op, (data & 1).astype(dtype_of(type_))))
    with launches() as history:
        evaluate(nodes)
    assert [(entry["size"], entry["output_count"]) for entry in history] == [(5000, len(nodes))]
    for node, result in zip(nodes, expected, strict=True):
        assert_same_bits(values(node), result)


@pytest.mark.parametrize("size", [1, 5, 17, 1000, BLOCK, 3 * BLOCK + 5])
@pytest.mark.parametrize("type_", [BFLOAT16, FLOAT16, FLOAT32, FLOAT64, INT32])
def test_accumulators_in_memory_give_the_same_bits(type_: int, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of masks, and single ones of another kind, are never in memory."""
    rng = np.random.default_rng(size)
    x = array((rng.standard_normal(size) * 20).astype(dtype_of(type_)))
    wide = ops.lt(x, literal(type_, 3))

    def all_of_them() -> list[Node]:
        scaled = [ops.add(x, literal(type_, k)) for k in range(20)]
        found = [reduce(value, op.value) for op in (ReduceOp.Add, ReduceOp.Max, ReduceOp.Min) for value in scaled]
        found.insert(25, reduce(wide, ReduceOp.And.value))
        found.insert(10, reduce(wide, ReduceOp.Or.value))
        found.append(reduce(cast(counter(size), type_), ReduceOp.Add.value))
        return found

    monkeypatch.setattr(disk, "load", lambda key: None)
    results = []
    for least in (many.MANY, 1 << 30):
        monkeypatch.setattr(many, "MANY", least)
        flush_kernel_cache()
        together, compiled = all_of_them(), cache.statistics()["compiled"]
        with launches() as history:
            evaluate(together)
        assert cache.statistics()["compiled"] == compiled + len(history)
        assert len(history) == 1 or size == 1
        results.append([values(node).copy() for node in together])
    flush_kernel_cache()
    for number, (one, other) in enumerate(zip(*results, strict=True)):
        assert_same_bits(one, other, f"reduction {number}")


def test_a_reduction_of_a_reduction_and_its_use_in_the_next_kernel() -> None:
    x = array(np.arange(100), FLOAT32)
    mean = ops.div(reduce(x, ReduceOp.Add.value), literal(FLOAT32, 100))
    deviation = ops.sub(x, mean)
    variance = reduce(ops.mul(deviation, deviation), ReduceOp.Add.value)
    assert reduce(variance, ReduceOp.Add.value) is variance
    assert values(variance)[0] == np.float32(83325)


def test_reductions_that_are_not_defined_are_refused() -> None:
    for op, type_ in ((ReduceOp.And, FLOAT32), (ReduceOp.Or, FLOAT64), (ReduceOp.Add, BOOL), (ReduceOp.Max, BOOL),
                      (ReduceOp.Identity, INT32)):
        with pytest.raises(UnsupportedType, match=op.name):
            reduce(array([0, 1], type_), op.value)


def test_blocks_depend_on_the_program_only() -> None:
    node = reduce(array(np.zeros(100), FLOAT32), ReduceOp.Add.value)
    assert block_size(node) == BLOCK
    compiled, _ = cache.lookup(program_of(node))
    assert blocks_of(compiled.functions, 3 * BLOCK + 5) == 4
    assert len(NUMBERS) == 12
