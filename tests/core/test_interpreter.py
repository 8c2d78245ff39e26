"""The interpreter: its arithmetic is that of the op table, and it leaves the graph alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from drjit_core import (
    ELEMENTWISE,
    KIND,
    OPS,
    TYPES,
    JitFlag,
    Op,
    ReduceOp,
    bitcast,
    cast,
    counter,
    gather,
    interpret,
    invalid,
    literal,
    ops,
    reduce,
    scatter,
    scoped_set_flag,
    undefined,
    while_loop,
)
from drjit_core import math as traced
from drjit_core.interpreter import elementwise
from drjit_core.ops import semantics
from drjit_core.ops.table import LOOP, RESULT
from tests.core.harness import (
    ALL_TYPES,
    BFLOAT16,
    BOOL,
    FLOAT32,
    FLOATS,
    TRUE,
    UINT32,
    array,
    assert_same_bits,
    dtype_of,
    name_of,
    shared,
    values,
)
from tests.ops.samples import combinations, samples


def known_to_numpy(data: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The same in the dtypes of the interpreter."""
    return data.view(elementwise.dtype_of(BFLOAT16)) if data.dtype == "bfloat16" else data


CASES = [(row, type_) for row in ELEMENTWISE for type_ in ALL_TYPES if TYPES[type_].kind in row.accepts]


@pytest.mark.parametrize(("row", "type_"), CASES, ids=[f"{row.name}-{name_of(type_)}" for row, type_ in CASES])
def test_what_numpy_computes_is_what_rows_mean(row: Op, type_: int) -> None:
    result = BOOL if row.result == "mask" else type_
    few = samples(type_)[::3] if row.arity == 3 else samples(type_)
    operands = combinations(*([samples(BOOL)] if row.name == "select" else [few]), *[few] * (row.arity - 1))
    operands = [known_to_numpy(operand) for operand in operands]
    assert_same_bits(elementwise.apply(row, result, *operands), elementwise.by_element(row, result, *operands))


@pytest.mark.parametrize("target", ALL_TYPES, ids=name_of)
@pytest.mark.parametrize("source", ALL_TYPES, ids=name_of)
def test_conversions(source: int, target: int) -> None:
    data = samples(source)
    expected = [semantics.cast(value, TYPES[source], TYPES[target]) for value in data.tolist()]
    assert_same_bits(elementwise.cast(known_to_numpy(data), target), np.array(expected, dtype_of(target)))


@pytest.mark.parametrize("name", ["sin", "exp", "log", "tanh", "cbrt", "atan2", "erf", "power", "asin"])
@pytest.mark.parametrize("type_", FLOATS[1:], ids=name_of)
def test_functions_have_the_bits_of_kernels(name: str, type_: int) -> None:
    x, y = combinations(samples(type_), samples(type_)[::5])
    function = getattr(traced, name)
    node = function(array(x)) if OPS[KIND[name]].arity == 1 else function(array(x), array(y))
    (expected,) = interpret([node])
    assert_same_bits(values(node), expected, x, y)


def test_leaves() -> None:
    roots = [literal(FLOAT32, 2.5, 3), counter(4), undefined(UINT32, 2), invalid(BOOL), array([1, 2], FLOAT32),
             shared(np.array([7.0], np.float64)), bitcast(array([1.0], FLOAT32), UINT32)]
    expected = [np.full(3, 2.5, np.float32), np.arange(4, dtype=np.uint32), np.zeros(2, np.uint32), np.empty(0, bool),
                np.array([1, 2], np.float32), np.array([7.0]), np.array([0x3F80_0000], np.uint32)]
    for data, one in zip(interpret(roots), expected, strict=True):
        assert_same_bits(data, one)


def test_reductions_of_equal_elements_and_of_nan() -> None:
    three = ops.add(literal(UINT32, 5, 3), cast(array([False]), UINT32))
    nothing = array([np.nan, np.nan], FLOAT32)
    roots = [reduce(three, ReduceOp.Add.value), reduce(nothing, ReduceOp.Min.value),
             reduce(nothing, ReduceOp.Add.value)]
    for root, data in zip(roots, interpret(roots), strict=True):
        assert_same_bits(values(root), data)


def test_nothing_is_evaluated_and_the_graph_stays_as_it_is() -> None:
    memory = array(np.zeros(5), UINT32)
    i, after = while_loop([literal(UINT32, 0), memory], lambda s: ops.lt(s[0], counter(5)), lambda s: [
        ops.add(s[0], literal(UINT32, 1)), scatter(s[1], s[0], counter(5), TRUE, ReduceOp.Add.value, 0)])
    sums = gather(after, counter(5), TRUE)
    for _ in range(2):
        found = [data.tolist() for data in interpret([i, after, sums, memory])]
        assert found == [[0, 1, 2, 3, 4], [0, 0, 1, 3, 6], [0, 0, 1, 3, 6], [0] * 5]
    assert i.kind == after.kind == RESULT and i.d0 is not None and i.d0.kind == LOOP
    assert values(after).tolist() == [0, 0, 1, 3, 6]


def test_long_chains() -> None:
    x = one = array(np.arange(3), UINT32)
    for _ in range(100_000):
        x = ops.add(x, one)
    assert interpret([x])[0].tolist() == [0, 100_001, 200_002]


def test_accesses_out_of_bounds_raise_unless_debug_mode_leaves_them_out() -> None:
    def reads_and_writes() -> list[object]:
        x = array(np.arange(4), UINT32)
        return [gather(x, ops.add(counter(4), literal(UINT32, 2)), TRUE),
                scatter(x, counter(4), ops.add(counter(4), literal(UINT32, 1)), TRUE, 0, 0)]

    for node in reads_and_writes():
        with pytest.raises(IndexError, match="element 4 of an array of 4"):
            interpret([node])  # type: ignore[list-item]
    with scoped_set_flag(JitFlag.Debug):
        read, written = interpret(reads_and_writes())  # type: ignore[arg-type]
    assert read.tolist() == [2, 3, 0, 0] and written.tolist() == [0, 0, 1, 2]
