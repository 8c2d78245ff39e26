"""Every row of the table with every type, and every conversion: the machine gives the bits of folding."""

from __future__ import annotations

import numpy as np
import pytest

from drjit_core import TYPES, bitcast, cast, counter, on_backend, ops, sin
from drjit_core.ops.op import Op
from drjit_core.ops.table import ELEMENTWISE
from drjit_core.ptx.texts import TEXTS
from drjit_core.types import TYPE_BITS
from tests.core.harness import (
    ALL_TYPES,
    FLOAT32,
    FLOAT64,
    UINT32,
    UINT64,
    array,
    assert_same_bits,
    name_of,
    number,
    values,
)
from tests.machine.backend import OnMachine
from tests.ops.samples import samples
from tests.ops.test_conversions import PAIRS, SAME_SIZE, folded_cast, interesting
from tests.ops.test_table import ROWS, TRACE, folded, operand_types, operands_of


@pytest.mark.parametrize(("op", "type_"), ROWS)
def test_rows(op: Op, type_: int, machines: OnMachine) -> None:
    operands = operands_of(op, type_)
    expected = folded(op, type_, operands)
    assert_same_bits(values(TRACE[op.kind](*map(array, operands))), expected, *operands)
    types = operand_types(op, type_)
    place = len(expected) // 3  # of one element
    found = values(TRACE[op.kind](*(number(t, operand[place]) for t, operand in zip(types, operands, strict=True))))
    assert_same_bits(found, expected[place:place + 1])


@pytest.mark.parametrize(("source", "target"), PAIRS)
def test_casts(source: int, target: int, machine: OnMachine) -> None:
    data = interesting(source)
    assert_same_bits(values(cast(array(data), target)), folded_cast(data, source, target), data)


@pytest.mark.parametrize(("source", "target"), SAME_SIZE)
def test_reinterpretations(source: int, target: int, machine: OnMachine) -> None:
    data = samples(source)
    assert_same_bits(values(bitcast(array(data), target)), data.view(TYPES[target].name))


def test_each_row_has_a_text_for_the_types_that_it_accepts_and_no_other() -> None:
    for op in ELEMENTWISE:
        for info in TYPES:
            if info is not None:
                text = TEXTS[op.kind << TYPE_BITS | info.type]
                assert (text is not None) == (info.kind in op.accepts), (op.name, info.name)


@pytest.mark.parametrize("size", [1, 2, 255, 256, 257, 1000])
@pytest.mark.parametrize("type_", ALL_TYPES, ids=name_of)
def test_sizes_and_lanes(type_: int, size: int, machine: OnMachine) -> None:
    data = np.resize(samples(type_), size)
    x = array(data)
    results = [ops.select(ops.eq(x, x), x, array(data[::-1])), cast(counter(size), FLOAT32)]
    assert_same_bits(values(results[0]), np.where(data == data, data, data[::-1]))
    assert_same_bits(values(results[1]), np.arange(size, dtype=np.float32))


def test_threads_compute_neighbours(machine: OnMachine) -> None:
    for type_, lanes in ((FLOAT32, 4), (FLOAT64, 2), (UINT64, 2), (UINT32, 4)):
        x = array(np.arange(1000), type_)
        values(ops.add(x, x))
        module = machine.last.module
        assert module.lanes == lanes
        assert f"ld.global.nc.v{lanes}." in machine.last.text and f"st.global.v{lanes}." in machine.last.text


def test_threads_that_compute_for_longer_than_memory_takes_have_fewer_elements(machine: OnMachine) -> None:
    for count, lanes in ((10, 4), (100, 2), (200, 1), (1000, 1)):  # 8 bytes for an element: 64 additions, by the target
        x = y = array(np.arange(1000), FLOAT32)
        for _ in range(count):
            y = ops.fma(y, x, x)
        values(y)
        assert machine.last.module.lanes == lanes


def test_expansions_agree_with_the_cpu(machine: OnMachine) -> None:
    """The same operations in the same order, each of which rounds correctly, but for where a CPU has no choice."""
    data = np.concatenate([samples(FLOAT32), np.linspace(-50, 50, 1000, dtype=np.float32), np.float32([1e10, 3e38])])
    found = values(sin(array(data)))
    with on_backend("interpreter"):
        expected = values(sin(array(data)))
    assert_same_bits(found, expected, data)
