"""Steps in PTX, on the machine: every type, sizes around tiles and groups, schedules at random."""

from __future__ import annotations

import itertools
import struct
from typing import Any

import numpy as np
import pytest

from drjit_core import TYPES, ReduceOp, evaluate, interpret, step
from drjit_core.codegen.steps import Array, Call, Pass
from drjit_core.ir.steps import transposed
from drjit_core.ops.reductions import REDUCTIONS
from drjit_core.ops.steps import STEPS, Step
from drjit_core.ptx.steps import LAUNCHES, LONGEST
from drjit_core.ptx.steps import extremum as extrema
from drjit_core.ptx.steps import product as products
from drjit_core.ptx.steps import scan as scans
from drjit_core.ptx.steps import sort as sorts
from drjit_core.runtime.gpu.target import target_of
from tests.core.harness import (
    ALL_TYPES,
    BFLOAT16,
    BOOL,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT8,
    UINT8,
    UINT32,
    UINT64,
    array,
    dtype_of,
    name_of,
    plain,
    values,
)
from tests.core.test_steps import compressed, counted, data, extremum, same_bits, scan, shapes, sort
from tests.machine.backend import OnMachine
from tests.machine.driver import MachineDriver

ADD = ReduceOp.Add.value
ANY_ORDER = pytest.mark.parametrize("machine", [(90, None), (75, 1), (90, 2)], indirect=True,
                                    ids=["in order", "sm_75, any order", "any order"])


@pytest.mark.parametrize("type_", ALL_TYPES, ids=name_of)
def test_scans(type_: int, machine: OnMachine) -> None:
    for op in map(int, REDUCTIONS):
        if TYPES[type_].kind not in REDUCTIONS[op].accepts:
            continue
        for size in (33, 240, 9001) if op in (ADD, ReduceOp.Or.value) else (240,):
            given = data(type_, size) if op != ReduceOp.Mul.value else np.ones(size, dtype_of(type_)) + (
                np.arange(size) == 7).astype(dtype_of(type_))
            if type_ in (FLOAT16, BFLOAT16) and size > 1000:
                given = (np.arange(size) % 97 == 0).astype(dtype_of(type_))
            node = array(given, type_)
            few = shapes(size)[::3 if size == 240 and op == ADD else 4]
            for extents, exclusive, reverse in itertools.product(few, (0, 1), (0, 1)):
                found = scan(node, op, exclusive, reverse, extents)
                expected, = interpret([found])
                got = values(found)
                if type_ in (BFLOAT16, FLOAT16) and op == ADD:  # rounded where the sum in single precision is
                    np.testing.assert_allclose(got.astype(float), plain(expected).astype(float), rtol=8e-3)
                else:
                    assert same_bits(got, expected), (size, op, extents, exclusive, reverse)


@ANY_ORDER
@pytest.mark.parametrize("type_", [BOOL, INT8, UINT32, UINT64, FLOAT32], ids=name_of)
def test_tiles_look_back(type_: int, own_texts: pytest.MonkeyPatch) -> None:
    """Over groups of groups of tiles, which are made small."""
    own_texts.setattr(scans, "_MOST", 1)
    own_texts.setattr(scans, "_GROUP", 2)
    op = ReduceOp.Or.value if type_ == BOOL else ADD
    for size, length in ((3000, 0), (3000, 700), (2048, 1024), (513, 0)):
        node = array(data(type_, size), type_)
        for exclusive, reverse in ((0, 0), (1, 1)):
            found = scan(node, op, exclusive, reverse, (1 if not length else 0, length, 1))
            expected, = interpret([found])
            assert same_bits(values(found), expected), (size, length, exclusive, reverse)


@ANY_ORDER
def test_set_positions(machine: OnMachine) -> None:
    for size, chunk in ((1, 64), (1000, 64), (5000, 1 << 14), (20_000, 256)):
        for density in (0.0, 0.3, 1.0):
            mask = np.random.default_rng(size).random(size) < density
            node = array(mask, BOOL)
            before, total = counted(node, chunk)
            evaluate([before, total])
            assert values(total)[0] == mask.sum()
            counts = [mask[begin:begin + chunk].sum() for begin in range(0, size, chunk)]
            assert values(before).tolist() == [0, *np.cumsum(counts)[:-1].tolist()]
            if mask.any():
                assert values(compressed(node, chunk)).tolist() == np.flatnonzero(mask).tolist()


@pytest.mark.parametrize("type_", ALL_TYPES, ids=name_of)
def test_extremes(type_: int, machine: OnMachine) -> None:
    for size, special in ((240, True), (1001, True), (40_000, False)):
        node = array(data(type_, size, special=special), type_)
        for extents in [*shapes(size)[::2], (1, 0, 1)] if size < 40_000 else [(1, 0, 1), (2, 20_000, 1)]:
            for largest in (0, 1):
                found = extremum(node, largest, extents)
                expected, = interpret([found])
                assert same_bits(values(found), expected), (size, extents, largest)
    if TYPES[type_].kind == "f":
        nothing = array(np.full(500, np.nan).astype(dtype_of(type_)), type_)
        assert values(extremum(nothing, 0, (5, 100, 1))).tolist() == [0] * 5


@pytest.mark.parametrize("type_", [BOOL, UINT32, UINT64, FLOAT16], ids=name_of)
@pytest.mark.parametrize("case", [((70, 33), (1, 0)), ((3, 40, 65), (2, 1, 0)), ((2, 3, 33, 40), (0, 3, 1, 2)),
                                  ((2, 64, 3, 8), (1, 3, 2, 0))], ids=str)
def test_transposes(case: tuple[tuple[int, ...], tuple[int, ...]], type_: int, machine: OnMachine) -> None:
    shape, axes = case
    given = data(type_, int(np.prod(shape)))
    found = transposed(array(given, type_), shape, axes, 1, 2, 1 << 32)
    if found is None:
        pytest.skip("it is read by index")
    assert same_bits(values(found), np.ascontiguousarray(plain(given).reshape(shape).transpose(axes)).reshape(-1))


#: Rows, columns, depth, strides of both operands (row, column), extents and distances of the batch.
PRODUCTS = [
    (3, 5, 7, (7, 1), (5, 1), ()), (40, 1, 50, (50, 1), (1, 1), ()), (1, 9, 100, (0, 1), (1, 100), ()),
    (3, 1, 2100, (1, 3), (1, 1), ()), (20, 33, 19, (19, 1), (33, 1), ()), (70, 65, 9, (1, 70), (1, 9), ()),
    (130, 130, 3, (3, 1), (130, 1), ()), (4, 4, 4, (4, 1), (4, 1), (6, 16, 16)),
    (17, 18, 5, (5, 1), (18, 1), (2, 0, 90, 3, 85, 0))]


@pytest.mark.parametrize("case", PRODUCTS, ids=str)
@pytest.mark.parametrize("type_", [INT8, UINT32, UINT64, FLOAT16, BFLOAT16, FLOAT32, FLOAT64], ids=name_of)
def test_products(type_: int, case: tuple, machine: OnMachine, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, columns, depth, a, b, batch = case
    random = np.random.default_rng(1)
    extent = max(1, int(np.prod(batch[::3])))
    given = [random.integers(0, 4, size).astype(dtype_of(type_)) for size in (
        rows * depth * extent, depth * columns * extent)]
    count = rows * columns * extent
    for large in (False, True) if rows == 130 else (False,):
        if large:
            monkeypatch.setattr(products, "_LARGE", 1)
        (found,) = step("matmul", [array(each, type_) for each in given], [(type_, count)],
                        (rows, columns, depth, 0, 0, *a, *b, *batch))
        expected, = interpret([found])
        assert same_bits(values(found), expected)


def same_order(type_: int, size: int, extents: tuple[int, int, int]) -> None:
    node = array(data(type_, size, special=True), type_)
    for positions, descending in itertools.product((0, 1), (0, 1)):
        found = sort(node, positions, descending, extents)
        expected, = interpret([found])
        assert same_bits(values(found), expected), (size, extents, positions, descending)


@pytest.mark.parametrize("type_", ALL_TYPES, ids=name_of)
def test_rows_in_order(type_: int, machine: OnMachine) -> None:
    for size, extents in ((1, (1, 0, 1)), (33, (1, 0, 1)), (240, (0, 60, 1)), (1500, (2, 0, 1))):
        same_order(type_, size, extents)


@pytest.mark.parametrize("type_", [BOOL, INT8, UINT32, FLOAT16, FLOAT64], ids=name_of)
def test_long_rows_in_order(type_: int, own_texts: pytest.MonkeyPatch) -> None:
    own_texts.setattr(sorts, "_SHORT", {32: 64, 64: 64})
    own_texts.setattr(sorts, "_EACH", 2)
    own_texts.setattr(sorts, "_TILE", 2 * sorts.BLOCK)
    for size, extents in ((1300, (1, 0, 1)), (1200, (2, 0, 1))):
        same_order(type_, size, extents)


@ANY_ORDER
def test_order_of_many(machine: OnMachine) -> None:
    given = np.random.default_rng(1).integers(0, 1 << 31, 9000).astype(np.int32)
    assert values(sort(array(given))).tolist() == np.sort(given).tolist()
    assert values(sort(array(given[:600]), 1)).tolist() == np.argsort(given[:600], kind="stable").tolist()


def test_all_steps_have_texts(machine: OnMachine) -> None:
    assert set(LAUNCHES) == set(STEPS)


# --- rows that are nearly as long as 32 bits can tell ----------------------------------------------------------------


def planned(name: str, type_: int, options: tuple[int, ...], extents: tuple[int, ...], size: int,
            result: int) -> list[Pass]:
    """The passes of a step, of arrays that are nowhere."""
    found = Call(Step(name, options, extents), [Array(type_, size, 0)] * STEPS[name].operands,
                 {0: Array(type_, result, 0)}, lambda nbytes: 0, target_of(90))
    return list(LAUNCHES[name](found))


@pytest.mark.parametrize(("name", "call"), [
    ("extremum", lambda n: ((0,), (1, n, 1), n, 1)), ("extremum", lambda n: ((0,), (1, n, 2), 2 * n, 2)),
    ("sort", lambda n: ((0, 0), (1, n, 1), n, n)), ("matmul", lambda n: ((n, 1, 2, 0, 0, 2, 1, 1, 1), (), 2 * n, n)),
    ("matmul", lambda n: ((1, n, 2, 0, 0, 2, 1, 1, 1), (), 2, n)),
    ("matmul", lambda n: ((1, 1, n, 0, 0, 2, 1, 1, 1), (), n, 1)),
    ("matmul", lambda n: ((1, 1, 2, 0, 0, 2, 1, 1, 1, n, 2, 0), (), 2 * n, n)),
    ("matmul", lambda n: ((16, n, 2, 0, 0, 2, 1, n, 1), (), 32, 16 * n)),
    ("transpose", lambda n: ((n, 8, 8, n, 0), (), 8 * n, 8 * n)),
    ("transpose", lambda n: ((8, 8, 64, 8, 0, n, 64, 64), (), 64 * n, 64 * n))])
def test_what_kernels_count_has_32_bits(name: str, call: Any) -> None:
    """What is larger is refused, not computed with what is left of it."""
    assert planned(name, FLOAT32, *call(LONGEST))
    for count in (LONGEST + 1, 1 << 32, (1 << 32) + 5):
        with pytest.raises(RuntimeError, match=rf"the step '{name}' has .* at most 4294967040 .*; found {count}$"):
            planned(name, FLOAT32, *call(count))


def test_thin_products_count_their_elements() -> None:
    for rows in (1 << 29, 1 << 28):
        options = rows, 15, 2, 0, 0, 2, 1, 15, 1
        if 15 * rows <= LONGEST:
            assert planned("matmul", FLOAT32, options, (), 2 * rows, 15 * rows)
        else:
            with pytest.raises(RuntimeError, match=f"of a thin product, on a GPU; found {15 * rows}$"):
                planned("matmul", FLOAT32, options, (), 2 * rows, 15 * rows)


def test_the_last_part_of_the_longest_row_ends_where_the_row_does() -> None:
    """Where a part begins, and how long it is, add up to more than 32 bits."""
    driver = MachineDriver()
    text = extrema._rows(90, UINT8, 0, 1).replace("%ctaid.x", "1")  # the second part of two
    function = driver.function(driver.load(driver.assemble(text)), "kernel")
    numbers = np.full(256, 9, np.uint8)
    numbers[[77, 201]] = 3
    first = LONGEST - 256
    source, results = driver.allocate(256), driver.allocate(32)
    driver.upload(source, numbers.tobytes())
    words = (source - first) % (1 << 64), results, LONGEST, 2, first, results + 16
    driver.launch(function, (1, 256, 1), struct.pack("<6Q", *words))
    assert struct.unpack("<I", driver.download(results + 4, 4)) == (first + 77,)
