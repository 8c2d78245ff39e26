"""Steps: what a fused kernel cannot do, on every type, at sizes around packets and blocks, against NumPy."""

from __future__ import annotations

import gc
import itertools
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import drjit_core
from drjit_core import (
    TYPES,
    JitFlag,
    KernelType,
    Node,
    ReduceOp,
    counter,
    evaluate,
    gather,
    interpret,
    kernel_history,
    literal,
    ops,
    reduce,
    scatter,
    scoped_set_flag,
    step,
    while_loop,
)
from drjit_core.errors import SymbolicValue
from drjit_core.interpreter.steps import MEANINGS
from drjit_core.ir.verify import VerificationError, verify
from drjit_core.llvm.steps import LAUNCHES, compress
from drjit_core.llvm.steps import scan as scan_texts
from drjit_core.ops.reductions import REDUCTIONS
from drjit_core.ops.steps import STEPS, Step
from drjit_core.passes.schedule import plan
from drjit_core.runtime import disk
from drjit_core.runtime.cpu.target import CPU_TARGET
from drjit_core.runtime.cpu.texts import TEXTS
from drjit_core.runtime.null import Null
from tests.core.harness import (
    ALL_TYPES,
    BFLOAT16,
    BOOL,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    FLOATS,
    INT32,
    TRUE,
    UINT32,
    UINT64,
    array,
    dtype_of,
    name_of,
    plain,
    shared,
    values,
)

ADD = ReduceOp.Add.value
#: Around packets of every width, and around chunks and blocks.
SIZES = [1, 2, 15, 16, 17, 31, 33, 63, 64, 65, 240, 1000, (1 << 14) - 1, (1 << 14) + 1, 3 << 16]


def data(type_: int, size: int, seed: int = 0, special: bool = False) -> np.ndarray[Any, Any]:
    """Small numbers, of which sums are exact; ``special``: with NaN, infinities and zeros of both signs."""
    random = np.random.default_rng(seed + size)
    found = random.integers(0, 5 if type_ == FLOAT16 else 100, size).astype(dtype_of(type_))
    if type_ == BOOL:
        found = random.random(size) < 0.5
    if special and type_ in FLOATS:
        where = random.integers(0, 12, size)
        for number, value in enumerate((np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0)):
            found[where == number] = value
    return found


def scan(node: Node, op: int, exclusive: int = 0, reverse: int = 0, extents: tuple[int, int, int] = (1, 0, 1)) -> Node:
    return step("scan", [node], [(node.type, node.size)], (op, exclusive, reverse), extents)[0]


def sort(node: Node, positions: int = 0, descending: int = 0, extents: tuple[int, int, int] = (1, 0, 1)) -> Node:
    return step("sort", [node], [(UINT32 if positions else node.type, node.size)], (positions, descending), extents)[0]


def extremum(node: Node, largest: int, extents: tuple[int, int, int]) -> Node:
    outer, length, inner = Step("", (), extents).with_sizes(node.size)
    assert outer * length * inner == node.size
    return step("extremum", [node], [(UINT32, outer * inner)], (largest,), extents)[0]


def counted(mask: Node, chunk: int = 1 << 14) -> tuple[Node, ...]:
    return step("count", [mask], [(UINT64, -(-mask.size // chunk)), (UINT64, 1)], (), (chunk, 0))


def compressed(mask: Node, chunk: int = 1 << 14) -> Node:
    before, total = counted(mask, chunk)
    evaluate([before, total])
    return step("compress", [mask, before], [(UINT32, int(values(total)[0]))], (), (chunk, 0))[0]


def same_bits(found: np.ndarray[Any, Any], expected: np.ndarray[Any, Any]) -> bool:
    found, expected = plain(found), plain(expected)
    return found.dtype == expected.dtype and found.tobytes() == expected.tobytes()


def test_each_step_has_a_meaning_and_launches() -> None:
    assert set(STEPS) == set(MEANINGS) == set(LAUNCHES)
    for name, row in STEPS.items():
        assert row.name == name and 1 <= row.operands <= 3 and row.results >= 1 and row.doc


# --- what they compute -----------------------------------------------------------------------------------------------


def shapes(size: int) -> list[tuple[int, int, int]]:
    """Extents that an array can have: whole, short and long rows, columns."""
    candidates = [(1, 0, 1), (0, 1, 1), (0, 2, 1), (0, 3, 1), (0, 5, 1), (0, 16, 1), (0, 60, 1), (0, 1000, 1),
                  (0, 5, 3), (0, 8, 40), (0, 64, 16), (0, 2, 4096), (0, 3 << 12, 16)]
    return [each for each in candidates if size % max(1, each[1] * each[2]) == 0]


@pytest.mark.parametrize("type_", ALL_TYPES, ids=name_of)
def test_scans_are_those_of_numpy(type_: int) -> None:
    for op in (ADD, ReduceOp.Max.value, ReduceOp.And.value, ReduceOp.Or.value, ReduceOp.Mul.value, ReduceOp.Min.value):
        if TYPES[type_].kind not in REDUCTIONS[op].accepts:
            continue
        for size in [*SIZES[:10:3], 240, *SIZES[-2:]] if op in (ADD, ReduceOp.Or.value) else [17, 240]:
            node = array(data(type_, size) if op != ReduceOp.Mul.value else np.ones(size, dtype_of(type_)) + (
                np.arange(size) == 7).astype(dtype_of(type_)), type_)
            for extents, exclusive, reverse in itertools.product(shapes(size), (0, 1), (0, 1)):
                found = scan(node, op, exclusive, reverse, extents)
                expected, = interpret([found])
                got = values(found)
                if type_ in (BFLOAT16, FLOAT16) and op == ADD:  # rounded where the sum in single precision is
                    np.testing.assert_allclose(got.astype(float), plain(expected).astype(float), rtol=8e-3)
                else:
                    assert same_bits(got, expected), (size, op, extents, exclusive, reverse)


@pytest.mark.parametrize(("exclusive", "reverse"), list(itertools.product((0, 1), (0, 1))))
def test_the_meaning_of_a_scan_is_that_of_numpy(exclusive: int, reverse: int) -> None:
    rows = data(INT32, 240).reshape(4, 12, 5)
    flipped = rows[:, ::-1] if reverse else rows
    sums = np.cumsum(flipped, axis=1) - flipped * exclusive
    found, = MEANINGS["scan"](Step("scan", (ADD, exclusive, reverse), (0, 12, 5)), rows.reshape(-1))
    np.testing.assert_array_equal(found.reshape(4, 12, 5), sums[:, ::-1] if reverse else sums)


@pytest.mark.parametrize("length", [3, 5, 16, 100])
@pytest.mark.parametrize("reverse", [0, 1])
def test_the_last_block_of_a_scan_may_be_shorter(length: int, reverse: int) -> None:
    numbers = data(INT32, 1001)
    blocks = [numbers[start:start + length] for start in range(0, 1001, length)]
    expected = np.concatenate([np.cumsum(block[::-1])[::-1] if reverse else np.cumsum(block) for block in blocks])
    np.testing.assert_array_equal(values(scan(array(numbers), ADD, 0, reverse, (0, length, 1))), expected)


@pytest.mark.parametrize("type_", [FLOAT32, UINT32, FLOAT16, BOOL], ids=name_of)
def test_rows_of_many_chunks_are_combined_in_order(type_: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also by who does not wait for totals but computes them."""
    numbers = data(type_, 1_000_003)
    if type_ == FLOAT16:
        numbers = numbers / 64
    elif type_ == BOOL:
        numbers[:] = False
        numbers[[5, 700_001]] = True
    op = ReduceOp.Or.value if type_ == BOOL else ADD
    directions = list(itertools.product((0, 1), (0, 1), ((0, 1_000_003, 1), (0, 400_000, 1))))
    before, found = drjit_core.thread_count(), []
    try:
        for count, looks in ((1, 256), (5, 256), (5, 1)):
            drjit_core.set_thread_count(count)
            monkeypatch.setattr(scan_texts, "_LOOKS", looks)
            found.append([values(scan(array(numbers), op, *rest)) for rest in directions])
    finally:
        drjit_core.set_thread_count(before)
    for one, *others in zip(*found, strict=True):
        assert all(same_bits(one, other) for other in others)
    for direction, one in zip(directions, found[0], strict=True):
        expected, = interpret([scan(array(numbers), op, *direction)])
        np.testing.assert_allclose(one.astype(np.float64), expected.astype(np.float64), rtol=1e-3)


def test_minima_and_maxima_of_scans_ignore_nan() -> None:
    x = array(np.float32([np.nan, 3, np.nan, 1, 2]))
    np.testing.assert_array_equal(values(scan(x, ReduceOp.Min.value)), np.float32([np.inf, 3, 3, 1, 1]))
    np.testing.assert_array_equal(values(scan(x, ReduceOp.Max.value, 1)), np.float32([-np.inf, -np.inf, 3, 3, 3]))


def test_an_exclusive_sum_begins_with_zero_and_an_inclusive_one_keeps_its_sign() -> None:
    x = array(np.float32([-0.0, -0.0]))
    assert np.signbit(values(scan(x, ADD))).tolist() == [True, True]
    assert np.signbit(values(scan(x, ADD, 1))).tolist() == [False, False]


def test_sums_of_half_precision_are_accumulated_in_single_precision() -> None:
    for extents in ((1, 0, 1), (1, 0, 4)):
        x = array(np.full(16384, 0.25, np.float16))
        count = 16384 // extents[2]
        assert values(scan(x, ADD, 0, 0, extents))[-1] == count * 0.25


@pytest.mark.parametrize("type_", ALL_TYPES, ids=name_of)
def test_sorts_are_those_of_numpy(type_: int) -> None:
    for size in [*SIZES, 300_000]:
        for special in (False, True):
            node = array(data(type_, size, 1, special), type_)
            rows = [each for each in shapes(size) if each[2] == 1 and each[1] != 1]
            for extents, positions, descending in itertools.product(rows, (0, 1), (0, 1)):
                found = sort(node, positions, descending, extents)
                expected, = interpret([found])
                assert same_bits(values(found), expected), (size, special, extents, positions, descending)


def test_numbers_that_differ_in_any_bit_are_sorted() -> None:
    random = np.random.default_rng(5)
    for dtype in ("uint32", "int64", "float64", "float32", "uint8"):
        numbers = np.frombuffer(random.bytes(20_000 * np.dtype(dtype).itemsize), dtype)
        expected = np.sort(numbers)
        found = values(sort(array(numbers)))
        np.testing.assert_array_equal(found, expected)


def test_many_keys_are_sorted_in_three_passes() -> None:
    numbers = np.random.default_rng(3).random(1 << 18, dtype=np.float32) - np.float32(0.5)
    numbers[::7] = numbers[3]  # keys of 32 bits are no multiple of the digits' 11, and equal ones must stay in order
    node = array(numbers)
    with scoped_set_flag(JitFlag.KernelHistory):
        np.testing.assert_array_equal(values(sort(node)), np.sort(numbers))
        assert len(kernel_history([KernelType.MkPerm])) == 6
    for descending in (0, 1):
        expected = np.argsort(-numbers if descending else numbers, kind="stable")
        np.testing.assert_array_equal(values(sort(node, 1, descending)), expected)


@pytest.mark.parametrize("type_", ALL_TYPES, ids=name_of)
def test_extremes_are_found(type_: int) -> None:
    for size in SIZES:
        for special in (False, True):
            node = array(data(type_, size, 2, special), type_)
            for extents, largest in itertools.product(shapes(size), (0, 1)):
                found = extremum(node, largest, extents)
                expected, = interpret([found])
                assert same_bits(values(found), expected), (size, special, extents, largest)


@pytest.mark.parametrize("size", [3, 100, 100_000])
def test_among_nothing_but_nan_and_the_worst_value_the_first_number_is_found(size: int) -> None:
    for dtype in ("float16", "float32", "float64"):
        numbers = np.full(size, np.nan, dtype)
        for extents in ((1, 0, 1), (1, 0, 1)):
            assert values(extremum(array(numbers), 0, extents)).tolist() == [0]
        numbers[size // 2:] = np.inf
        assert values(extremum(array(numbers), 0, (1, 0, 1))).tolist() == [size // 2]
        table = np.repeat(numbers[:, None], 3, 1)
        assert values(extremum(array(table), 0, (1, 0, 3))).tolist() == [size // 2] * 3


@pytest.mark.parametrize("share", [0.01, 0.5, 0.99, 1])
def test_masks_are_compressed(share: float) -> None:
    for size in SIZES:
        mask = np.random.default_rng(size).random(size) < share
        mask[size // 2] = True
        before, total = counted(array(mask))
        for node, expected in zip((before, total), interpret([before, total]), strict=True):
            assert same_bits(values(node), expected)
        np.testing.assert_array_equal(values(compressed(array(mask))), np.flatnonzero(mask))


@pytest.mark.parametrize("lanes", [4, 8, 16])
def test_masks_are_compressed_on_processors_with_other_registers(lanes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compress, "jit", SimpleNamespace(lanes=lambda: lanes))
    monkeypatch.setattr(disk, "load", lambda key: None)
    monkeypatch.setattr(disk, "store", lambda key, data: None)
    drjit_core.flush_kernel_cache()
    before = drjit_core.thread_count()
    try:
        drjit_core.set_thread_count(3)
        rng = np.random.default_rng(lanes)
        # All masks of a packet, and whole chunks of few or many: each chunk writes up to where the next one begins.
        patterns = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).reshape(-1) > 0
        masks = [patterns, patterns[::-1], np.tile(patterns, 9)[3:], np.arange(5000) % 64 == 63, np.arange(5000) > 60]
        masks += [rng.random(size) < rng.choice([0.005, 0.1, 0.5, 0.95, 1], -(-size // 64)).repeat(64)[:size]
                  for size in (1, 7, 63, 64, 65, 127, 1000, 1024, 4096, 100_003) for _ in range(4)]
        for mask, chunk in itertools.product(masks, (64, 192, 1 << 14)):
            mask[len(mask) // 2] = True
            for node in (array(mask), shared(np.ascontiguousarray(mask))):
                found = compressed(node, chunk)
                np.testing.assert_array_equal(values(found), np.flatnonzero(mask), f"{mask.size} {chunk}")
    finally:
        drjit_core.set_thread_count(before)
        drjit_core.flush_kernel_cache()


# --- how they run ----------------------------------------------------------------------------------------------------


def inputs() -> tuple[Node, Node]:
    random = np.random.default_rng(1)
    return array(random.random(700_001, dtype=np.float32)), array(random.random(700_001) < 0.3)


def all_steps(x: Node, mask: Node) -> list[Node]:
    return [scan(x, ADD), scan(x, ADD, 1, 1), scan(x, ADD, 0, 0, (0, 100_000, 7)) if x.size % 700_000 == 0 else
            scan(x, ADD, 0, 1, (0, 1000, 1)), sort(x), sort(x, 1, 1), extremum(x, 1, (1, 0, 1)), compressed(mask)]


def test_results_have_the_same_bits_whatever_the_number_of_threads() -> None:
    before = drjit_core.thread_count()
    try:
        found = []
        for count in (1, 2, 5):
            drjit_core.set_thread_count(count)
            found.append([values(node) for node in all_steps(*inputs())])
    finally:
        drjit_core.set_thread_count(before)
    for others in found[1:]:
        for one, other in zip(found[0], others, strict=True):
            assert same_bits(one, other)


def test_equal_steps_of_equal_operands_are_one_node() -> None:
    x = array(data(FLOAT32, 40))
    assert scan(x, ADD) is scan(x, ADD)
    assert scan(x, ADD) is not scan(x, ADD, 1)
    assert sort(x) is not sort(array(data(FLOAT32, 40)))
    before, total = counted(array(data(BOOL, 40)))
    assert before is not total


def test_results_of_one_step_share_its_launches() -> None:
    mask = array(data(BOOL, 1000))
    before, total = counted(mask)
    assert [kernel.is_step for kernel in plan([before, total], CPU_TARGET)] == [True]
    with scoped_set_flag(JitFlag.KernelHistory):
        evaluate([before, total])
        entry, = kernel_history([KernelType.Compress])
    assert entry["size"] == 1 and entry["execution_time"] > 0 and "define void @kernel" in entry["ir"].getvalue()


def test_a_step_stands_between_what_makes_and_what_takes_its_arrays() -> None:
    numbers = data(FLOAT32, 1000)
    x = ops.mul(array(numbers), literal(FLOAT32, 2.0))
    sums = scan(x, ADD)
    result = ops.add(gather(sums, ops.sub(literal(UINT32, 999), counter(1000)), TRUE), sort(sums))
    kinds = [kernel.is_step for kernel in plan([result, reduce(sums, ADD)], CPU_TARGET)]
    assert sorted(kinds) == [False] * (len(kinds) - 2) + [True] * 2
    expected = np.cumsum(numbers * 2, dtype=np.float32)
    np.testing.assert_allclose(values(result), expected[::-1] + expected, rtol=1e-6)


def test_operands_may_be_literals_counters_and_written_memory() -> None:
    np.testing.assert_array_equal(values(scan(literal(INT32, 3, 5), ADD)), np.arange(3, 18, 3))
    np.testing.assert_array_equal(values(scan(counter(5), ADD)), [0, 1, 3, 6, 10])
    target = array(np.zeros(5, np.int32))
    written = scatter(target, literal(INT32, 1), counter(5), TRUE, 0, 0)
    sums = scan(written, ADD)
    again = scatter(written, literal(INT32, 7), literal(UINT32, 0), TRUE, 0, 0)
    evaluate([sums, again])
    np.testing.assert_array_equal(values(sums), [1, 2, 3, 4, 5])
    np.testing.assert_array_equal(values(again), [7, 1, 1, 1, 1])


def test_a_step_reads_nothing_past_the_end_of_foreign_memory() -> None:
    for size in (1, 17, 1000):
        whole = np.full(size + 64, 1000, np.int32)
        whole[:size] = data(INT32, size)
        node = shared(whole[:size])
        np.testing.assert_array_equal(values(scan(node, ADD)), np.cumsum(whole[:size]))
        np.testing.assert_array_equal(values(sort(node)), np.sort(whole[:size]))
        assert values(extremum(node, 1, (1, 0, 1)))[0] == np.argmax(whole[:size])
        assert (whole[size:] == 1000).all()


def test_a_step_of_a_loops_values_is_refused() -> None:
    x = array(data(FLOAT32, 8))

    def body(state: Sequence[Node]) -> list[Node]:
        return [scan(state[0], ADD)]

    with pytest.raises(SymbolicValue, match="needs the values of all elements"):
        while_loop([x], lambda state: ops.lt(state[0], literal(FLOAT32, 100.0)), body)


def test_a_step_of_what_is_known_outside_may_be_used_in_a_loop() -> None:
    x = array(np.float32([1, 2, 3]))
    total, = while_loop([literal(FLOAT32, 0, 3)], lambda state: ops.lt(state[0], literal(FLOAT32, 10.0)),
                        lambda state: [ops.add(state[0], scan(x, ADD))])
    np.testing.assert_array_equal(values(total), [10, 12, 12])


def test_wrong_numbers_of_operands_and_results_are_refused() -> None:
    x = array(data(FLOAT32, 8))
    with pytest.raises(ValueError, match="'scan' takes 1 operands"):
        step("scan", [x, x], [(FLOAT32, 8)], (ADD, 0, 0), (1, 0, 1))
    with pytest.raises(ValueError, match="has no elements"):
        step("scan", [drjit_core.invalid(FLOAT32)], [(FLOAT32, 8)], (ADD, 0, 0), (1, 0, 1))


def test_the_verifier_knows_steps() -> None:
    found = scan(array(data(FLOAT64, 8)), ADD)
    assert verify([found]) == 2
    found.d0 = literal(FLOAT64, 1.0, 8)
    with pytest.raises(VerificationError, match="no memory"):
        verify([found])


def test_the_null_backend_goes_the_whole_road() -> None:
    null = Null(TEXTS)
    with drjit_core.on_backend(null):
        node = sort(scan(ops.mul(counter(1000), literal(UINT32, 3)), ADD))
        evaluate([node])
    assert [launch.kernel.text.count("define void @kernel") for launch in null.launches] == [1] * len(null.launches)
    assert len(null.launches) == 3 and null.launches[-1].block > 0


def test_the_interpreter_runs_steps() -> None:
    x = data(FLOAT32, 100)
    with drjit_core.on_backend("interpreter"):
        node = array(x)
        np.testing.assert_array_equal(values(sort(node)), np.sort(x))


def test_memory_does_not_grow() -> None:
    x, mask = array(data(FLOAT32, 50_000)), array(data(BOOL, 50_000))

    def once() -> None:
        evaluate(all_steps(x, mask))
        drjit_core.sync()

    for _ in range(3):
        once()
    gc.collect()
    before = drjit_core.malloc_statistics()
    for _ in range(200):
        once()
    gc.collect()
    assert drjit_core.malloc_statistics() == before


def test_dumps_have_the_text_of_steps(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRJIT_DUMP_DIR", str(tmp_path))
    drjit_core.flush_kernel_cache()
    evaluate([scan(array(data(FLOAT32, 100)), ADD)])
    assert [path.suffix for path in sorted(tmp_path.iterdir())] == [".ll", ".s"]


# --- recordings ------------------------------------------------------------------------------------------------------


def test_a_recording_keeps_steps_for_other_sizes() -> None:
    function = drjit_core.Recorded(lambda x: [sort(scan(ops.add(x, literal(INT32, 1)), ADD), 0, 1)])
    for size in (100, 1000, 70_001):
        numbers = data(INT32, size)
        found, = function(array(numbers))
        np.testing.assert_array_equal(values(found), np.cumsum(numbers + 1)[::-1])
    assert len(function.recordings) == 1


def test_a_recording_with_rows_is_good_for_as_many_rows_as_there_are() -> None:
    function = drjit_core.Recorded(lambda x: [scan(x, ADD, 0, 0, (0, 5, 2))])
    for size in (100, 1000):
        numbers = data(INT32, size)
        found, = function(array(numbers))
        np.testing.assert_array_equal(values(found), np.cumsum(numbers.reshape(-1, 5, 2), axis=1).reshape(-1))
    assert len(function.recordings) == 1


def test_a_recording_with_a_size_of_its_own_is_good_for_that_only() -> None:
    function = drjit_core.Recorded(lambda x: [extremum(x, 0, (1, x.size, 1))])
    for size in (100, 1000, 100):
        numbers = data(INT32, size)
        found, = function(array(numbers))
        assert values(found).tolist() == [np.argmin(numbers)]
    assert len(function.recordings) == 2


def test_a_step_of_a_known_structure_is_launched_by_a_shorter_way() -> None:
    """The passes are those of the first launch, whatever arrays they are of: own and foreign ones, in any order."""
    generator = np.random.default_rng(5)
    for size in (100, 1 << 18):
        for number in range(6):
            data = generator.random(size).astype(np.float32)
            source = (array, shared)[number % 2](data)
            (found,) = step("scan", [source], [(FLOAT32, size)], (ADD, 0, 0), (1, 0, 1))
            assert verify([found]) >= 1
            np.testing.assert_allclose(values(found), np.cumsum(data, dtype=np.float64), rtol=1e-5)
            order = step("sort", [source], [(UINT32, size)], (1, 0), (1, size, 1))[0]
            with scoped_set_flag(JitFlag.KernelHistory, number == 3):  # the general way
                evaluate([order])
            kernel_history()  # other tests want it empty
            np.testing.assert_array_equal(values(order), np.argsort(data, kind="stable"))
        product = [generator.random((20, 30)).astype(np.float32) for _ in range(3)]
        for one, other in itertools.product(product, repeat=2):
            (found,) = step("matmul", [array(one), array(other)], [(FLOAT32, 400)], (20, 20, 30, 0, 0, 30, 1, 1, 30))
            np.testing.assert_allclose(values(found), (one @ other.T).reshape(-1), rtol=1e-5)
        drjit_core.flush_kernel_cache()
