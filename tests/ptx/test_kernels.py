"""Kernels by subject: reductions, rows, calls, local memory, atomic updates, checks, many parameters."""

from __future__ import annotations

import re

import numpy as np
import pytest

from drjit_core import (
    BAKED,
    TYPES,
    JitFlag,
    Node,
    ReduceMode,
    ReduceOp,
    call,
    cast,
    counter,
    evaluate,
    gather,
    literal,
    ops,
    reduce,
    scatter,
    scoped_set_flag,
    while_loop,
)
from drjit_core.ops.reductions import REDUCTIONS
from drjit_core.ptx import emit
from drjit_core.ptx.atomics import SHARED_UPDATES
from drjit_core.runtime.recording import Recorded
from drjit_core.types import TYPE_BITS
from tests.core.harness import (
    ALL_TYPES,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT32,
    TRUE,
    UINT8,
    UINT32,
    UINT64,
    array,
    assert_same_bits,
    dtype_of,
    name_of,
    values,
)
from tests.core.test_reductions import exact_data, model
from tests.core.test_rows import reduced, softmax
from tests.machine.backend import OnMachine

OPERATORS = [pytest.param(op, type_, id=f"{op.name}-{name_of(type_)}") for op in map(ReduceOp, REDUCTIONS)
             for type_ in ALL_TYPES if TYPES[type_].kind in REDUCTIONS[op.value].accepts]
RNG = np.random.default_rng(0)


def module_of(machine: OnMachine):
    """What was launched last."""
    return machine.last.module._replace(text=machine.last.text)


# --- reductions ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("op", "type_"), OPERATORS)
def test_reductions(op: ReduceOp, type_: int, machines: OnMachine) -> None:
    for size in (1, 31, 33, 1000, 5000):
        data = exact_data(op, type_, size, np.random.default_rng(size))
        assert_same_bits(values(reduce(array(data), op.value)), np.atleast_1d(model(op, data)), size)


@pytest.mark.parametrize("count", [1, 3, 4, 9, 40])
def test_many_reductions_in_one_kernel(count: int, machine: OnMachine) -> None:
    x, y = array(np.arange(3000) % 7, FLOAT32), array(np.arange(3000), UINT64)
    before = machine.submitted()
    roots = [reduce(ops.add(x, literal(FLOAT32, k)), (ReduceOp.Add if k % 3 else ReduceOp.Max).value)
             for k in range(count)] + [reduce(y, ReduceOp.Add.value)]
    evaluate(roots)
    assert machine.submitted() == before + 1 and module_of(machine).reductions == count + 1
    for k, root in enumerate(roots[:-1]):
        data = np.arange(3000) % 7 + k
        assert values(root)[0] == (data.sum() if k % 3 else data.max())
    assert values(roots[-1])[0] == 3000 * 2999 // 2


def test_sums_of_many_elements_are_as_exact_as_double_precision(machine: OnMachine) -> None:
    data = np.full(3_000_000, 0.1, np.float32)
    assert abs(float(values(reduce(array(data), ReduceOp.Add.value))[0]) / data.sum(dtype=np.float64) - 1) < 1e-7


def test_blocks_have_a_limit_that_no_device_changes(machine: OnMachine) -> None:
    evaluate([reduce(array(np.arange(1000), FLOAT32), ReduceOp.Add.value)])
    module = module_of(machine)
    assert module.shape(1000, 1000).blocks == 1 and module.shape(1 << 30, 1 << 30).blocks == 1024
    assert module.partial_bytes(1 << 30, 1 << 30) == 8 * 1024


# --- rows ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(40, 5), (7, 100), (3, 1500), (2, 40_000)], ids=str)
def test_a_softmax_is_one_kernel(shape: tuple[int, int], machines: OnMachine) -> None:
    data = RNG.normal(size=shape).astype(np.float32)
    before = machines.submitted()
    found = values(softmax(array(data), *shape)).reshape(shape)
    expected = np.exp(data - data.max(1, keepdims=True))
    np.testing.assert_allclose(found, expected / expected.sum(1, keepdims=True), rtol=1e-5)
    assert machines.submitted() == before + (1 if shape[1] < 40_000 else machines.submitted() - before)


@pytest.mark.parametrize("type_", [UINT8, INT32, FLOAT16, FLOAT32, FLOAT64], ids=name_of)
@pytest.mark.parametrize("shape", [(3, 5, 7), (2, 1100, 9), (50, 64, 1), (1, 3, 300)], ids=str)
def test_axes(shape: tuple[int, int, int], type_: int, machine: OnMachine) -> None:
    data = RNG.integers(0, 3, shape).astype(dtype_of(type_))
    found = values(reduced(array(data), ReduceOp.Add.value, *shape)).reshape(shape[0], shape[2])
    with np.errstate(over="ignore"):
        assert (found == data.sum(1, dtype=np.int64).astype(found.dtype)).all()


# --- calls -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("functions", [1, 2, 4, 5, 30])
def test_calls_of_some_functions(functions: int, machines: OnMachine) -> None:
    """Directly, by comparisons, by a table of labels."""
    size = 500
    x, which = array(np.arange(size), FLOAT32), array(np.arange(size) % (functions + 1), UINT32)

    def target(number: int):
        def body(arguments: list[Node]) -> list[Node]:
            value = arguments[0]
            for _ in range(number + 1):  # each has a program of its own
                value = ops.add(ops.mul(value, literal(FLOAT32, 2)), literal(FLOAT32, number))
            return [value]
        return body
    (found,), _ = call(which, TRUE, [target(number) for number in range(functions)], [x])
    expected = np.zeros(size, np.float32)
    for number in range(functions):
        value = np.arange(size, dtype=np.float32)
        for _ in range(number + 1):
            value = value * np.float32(2) + np.float32(number)
        expected[which_of(size, functions) == number] = value[which_of(size, functions) == number]
    assert_same_bits(values(found), expected)
    assert ("brx.idx" in module_of(machines).text) == (functions > 4)


def which_of(size: int, functions: int) -> np.ndarray:
    return np.arange(size) % (functions + 1)


def test_instances_that_differ_in_data_are_one_function(machine: OnMachine) -> None:
    size, count = 600, 50
    x, which = array(np.arange(size), FLOAT32), array(np.arange(size) % count, UINT32)
    tables = [array(np.arange(10) + k, FLOAT32) for k in range(count)]
    (found,), _ = call(which, TRUE, [
        lambda arguments, k=k: [ops.add(gather(tables[k], arguments[1], TRUE),
                                        ops.mul(arguments[0], literal(FLOAT32, k + 0.5)))]
        for k in range(count)], [x, array(np.full(size, 3), UINT32)])
    k = np.arange(size, dtype=np.float32) % count
    assert_same_bits(values(found), (k + 3 + np.arange(size, dtype=np.float32) * (k + np.float32(0.5))))
    text = module_of(machine).text
    assert text.count(".func") == 1 and "setp.ne.u64" not in text


@pytest.mark.parametrize("distance", [3, 0])
def test_neighbours_are_no_vectors_where_rows_begin_anywhere(distance: int, machine: OnMachine) -> None:
    """Two neighbours of a row of three are not always aligned, nor are those of a place that may be any."""
    x, number = array(np.arange(1000), FLOAT32), array(np.arange(100) * 2 + 1, UINT32)
    first = ops.mul(number, literal(UINT32, distance, 1, BAKED)) if distance else number
    found = [gather(x, ops.add(first, literal(UINT32, k, 1, BAKED)) if k else first, TRUE) for k in range(2)]
    evaluate([ops.sub(*found)])
    assert values(ops.sub(*found)).tolist() == [-1] * 100


# --- updates of memory -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("machine", [(90, None), (75, 1)], indirect=True, ids=["sm_90", "any order"])
@pytest.mark.parametrize(("op", "type_"), OPERATORS)
def test_scatter_reductions(op: ReduceOp, type_: int, machine: OnMachine) -> None:
    """To few elements, so that all threads meet; by one instruction, or by compare-and-exchange."""
    size = 300
    data = exact_data(op, type_, size, np.random.default_rng(1))
    start = exact_data(op, type_, 5, np.random.default_rng(2))
    index = np.arange(size) % 4
    expected = start.copy()
    with np.errstate(all="ignore"):
        for place in range(4):
            expected[place] = model(op, np.concatenate([start[place:place + 1], data[index == place]]))[0]
    for mode, combines in ((ReduceMode.Direct, False), (ReduceMode.Auto, True)):
        found = values(scatter(array(start), array(data), array(index, UINT32), TRUE, op.value, mode.value))
        assert_same_bits(found, expected, mode)
        assert ("match.any" in module_of(machine).text) == combines


@pytest.mark.parametrize("machine", [(90, None), (90, 1)], indirect=True, ids=["in order", "any order"])
@pytest.mark.parametrize("type_", [FLOAT32, FLOAT64], ids=name_of)
@pytest.mark.parametrize("op", [ReduceOp.Min, ReduceOp.Max])
def test_extremes_of_floats_are_those_of_their_bits(op: ReduceOp, type_: int, machine: OnMachine) -> None:
    """Whatever sign the numbers have, and NaN, which stands for no number."""
    dtype = dtype_of(type_)
    memory = np.array([np.nan, -np.nan, 1, -1, 0, np.inf, -np.inf, np.nan], dtype)
    data = np.concatenate([np.array(each, dtype) for each in (
        [3, -2, 5], [-2, 3, 5], [2, -3, np.nan], [-3, 2, -0.5], [7, -7, 1], [4, -4, 1], [4, -4, 1], [np.nan] * 3)])
    index = np.repeat(np.arange(8), 3)
    for mode in (ReduceMode.Direct, ReduceMode.Local):
        found = values(scatter(array(memory), array(data), array(index, UINT32), TRUE, op.value, mode.value))
        function = np.fmin if op == ReduceOp.Min else np.fmax
        assert_same_bits(np.nan_to_num(found, nan=99), np.nan_to_num(function(memory, function.reduce(
            data.reshape(8, 3), axis=1)), nan=99), mode)
    assert f".{op.name.lower()}.s{8 * dtype.itemsize}" in module_of(machine).text


@pytest.mark.parametrize("places", [1, 2, 7, 32, 1000])
def test_neighbours_combine_what_they_have_for_one_element(places: int, machine: OnMachine) -> None:
    """All of a warp, some, or none; some take no part; and in a loop that threads leave at different times."""
    size = 1000
    index, mask = RNG.integers(0, places, size), RNG.random(size) < 0.7
    data = RNG.integers(0, 100, size)
    found = values(scatter(array(np.zeros(1000), FLOAT32), array(data, FLOAT32), array(index, UINT32), array(mask),
                           ReduceOp.Add.value, ReduceMode.Auto.value))
    expected = np.bincount(index[mask], data[mask], 1000).astype(np.float32)
    assert_same_bits(found, expected)
    count = array(index % 5, UINT32)
    state = while_loop([literal(UINT32, 0, size), array(np.zeros(1000), UINT64)], lambda s: ops.lt(s[0], count),
                       lambda s: [ops.add(s[0], literal(UINT32, 1)),
                                  scatter(s[1], array(data, UINT64), array(index, UINT32), TRUE, ReduceOp.Max.value,
                                          ReduceMode.Local.value)])
    expected = np.zeros(1000, np.uint64)
    np.maximum.at(expected, index[index % 5 > 0], data[index % 5 > 0].astype(np.uint64))
    assert_same_bits(values(state[1]), expected)


SHARING = [pytest.param(op, type_, id=f"{op.name}-{name_of(type_)}") for op in map(ReduceOp, REDUCTIONS)
           for type_ in ALL_TYPES if op.value << TYPE_BITS | type_ in SHARED_UPDATES]


@pytest.fixture
def sharing(machine: OnMachine, monkeypatch: pytest.MonkeyPatch) -> OnMachine:
    """Blocks of narrow kernels have tables as well."""
    shared = machine.target().shared
    assert shared is not None
    monkeypatch.setattr(machine, "_target", machine.target()._replace(shared=shared._replace(width=300)))
    return machine


def updated(target: np.ndarray, data: np.ndarray, index: np.ndarray, op: ReduceOp, mask: Node = TRUE) -> Node:
    return scatter(array(target), array(data), array(index, UINT32), mask, op.value, ReduceMode.Auto.value)


@pytest.mark.parametrize("machine", [(75, None), (90, 1)], indirect=True, ids=["sm_75", "any order"])
@pytest.mark.parametrize(("op", "type_"), SHARING)
def test_blocks_update_tables_of_small_memory(op: ReduceOp, type_: int, sharing: OnMachine) -> None:
    """In several blocks, by some of the threads; whoever comes behind the end of the arrays takes no part."""
    size, places, rng = 4500, 300, np.random.default_rng(type_)
    data, start = exact_data(op, type_, size, rng), exact_data(op, type_, places, rng)
    index, mask = rng.integers(0, places - 1, size), rng.random(size) < 0.7
    expected = start.copy()
    for place in range(places):
        expected[place] = model(op, np.concatenate([start[place:place + 1], data[mask & (index == place)]]))[0]
    assert_same_bits(values(updated(start, data, index, op, array(mask))), expected)
    module = module_of(sharing)
    assert "red.relaxed.cta.shared" in module.text and module.tables
    assert module.shape(size, size).blocks == 3 and module.shape(1 << 24, 1 << 24).blocks == 1024


def test_elements_that_nothing_is_added_to_stay_as_they_are(sharing: OnMachine) -> None:
    """Numbers that memory would flush to zero, and signs of zeros; adding zero is adding."""
    start = np.array([1e-44, -0.0, -0.0, np.nan], np.float32)
    found = values(updated(start, np.zeros(300, np.float32), np.full(300, 2), ReduceOp.Add))
    assert_same_bits(found, np.array([1e-44, -0.0, 0.0, np.nan], np.float32))
    assert ".shared" in module_of(sharing).text
    assert re.search(r"@%p\d+ red\.relaxed\.gpu\.global\.add\.f32", module_of(sharing).text)


def test_what_has_no_tables(sharing: OnMachine) -> None:
    """Larger memory, narrow kernels, a fifth array, other modes, and what is no instruction."""
    index = np.arange(300) % 7

    def has_tables(places: int = 7, width: int = 300, kind: int = FLOAT32, op: ReduceOp = ReduceOp.Add,
                   mode: ReduceMode = ReduceMode.Auto) -> bool:
        evaluate([scatter(array(np.zeros(places), kind), array(index[:width], kind), array(index[:width], UINT32), TRUE,
                          op.value, mode.value)])
        return module_of(sharing).tables

    assert has_tables() and has_tables(1024) and has_tables(mode=ReduceMode.Expand)
    assert not has_tables(1025) and not has_tables(width=299)
    assert not has_tables(mode=ReduceMode.Local) and not has_tables(mode=ReduceMode.Direct)
    assert not has_tables(kind=FLOAT16) and not has_tables(op=ReduceOp.Mul) and not has_tables(op=ReduceOp.Max)
    before = sharing.submitted()
    found = [updated(np.full(k + 1, k, np.int32), index.astype(np.int32), index % (k + 1), ReduceOp.Add)
             for k in range(5)]
    found[1] = scatter(found[1], array(index, INT32), array(index % 2, UINT32), TRUE, ReduceOp.Add.value,
                       ReduceMode.Auto.value)
    found.append(reduce(array(index, FLOAT32), ReduceOp.Add.value))
    evaluate(found)
    assert sharing.submitted() == before + 1 and module_of(sharing).text.count(".b8 table_") == 4
    for k in range(5):
        sums = np.bincount(index % (k + 1), index)
        assert values(found[k]).tolist() == (k + sums * (2 if k == 1 else 1)).tolist()
    assert values(found[5])[0] == index.sum()


def test_recordings_know_how_large_tables_are(sharing: OnMachine) -> None:
    def count(target: Node, index: Node) -> list[Node]:
        return [scatter(target, literal(UINT32, 1), index, TRUE, ReduceOp.Add.value, ReduceMode.Auto.value)]

    recorded = Recorded(count)
    for places, width in ((7, 300), (1000, 3000), (7, 5000), (1025, 3000), (7, 299)):
        index = np.arange(width) % places
        found, = recorded(array(np.zeros(places), UINT32), array(index, UINT32))
        assert values(found).tolist() == np.bincount(index, minlength=places).tolist()
        assert module_of(sharing).tables == (places < 1025 and width >= 300)
    assert len(recorded.recordings) == 3


# --- the rest --------------------------------------------------------------------------------------------------------


def test_checks_leave_out_what_is_out_of_bounds_and_report_it(machine: OnMachine) -> None:
    x, index = array(np.arange(10), FLOAT32), array([0, 12, 9, 200], UINT32)
    with scoped_set_flag(JitFlag.Debug):
        found = gather(x, index, TRUE)
        with pytest.warns(RuntimeWarning, match="2 .*out of bounds"):
            assert values(found).tolist() == [0, 0, 9, 0]
    assert "atom.relaxed.gpu.global.add.u64" in module_of(machine).text


def test_words_that_are_no_parameters_any_more(machine: OnMachine, own_texts: pytest.MonkeyPatch) -> None:
    """More than fit are in memory."""
    own_texts.setattr(emit, "_MOST_WORDS", 20)
    total, expected = array(np.arange(300), FLOAT32), np.arange(300, dtype=np.float32)
    for k in range(30):
        total = ops.add(total, literal(FLOAT32, 2.25 + k))
        expected += np.float32(2.25 + k)
    found = [total, *(reduce(ops.add(total, literal(FLOAT32, k)), ReduceOp.Add.value) for k in range(10))]
    evaluate(found)
    module = module_of(machine)
    assert module.words_in_memory and "p[8]" in module.text
    assert_same_bits(values(total), expected)
    for k, each in enumerate(found[1:]):
        assert values(each)[0] == np.float32((expected + np.float32(k)).sum(dtype=np.float64))


def test_loops_that_are_the_same_in_all_elements_run_once_a_thread(machine: OnMachine) -> None:
    limit = array([5], UINT32)
    state = while_loop([literal(UINT32, 0), literal(FLOAT32, 1)], lambda s: ops.lt(s[0], limit),
                       lambda s: [ops.add(s[0], literal(UINT32, 1)), ops.mul(s[1], literal(FLOAT32, 2))])
    found = ops.add(cast(counter(1000), FLOAT32), state[1])
    assert_same_bits(values(found), np.arange(1000, dtype=np.float32) + 32)
