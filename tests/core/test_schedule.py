"""What is launched for a program: how many kernels, of which sizes, and what they store."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from drjit_core import (
    JitFlag,
    Node,
    ReduceOp,
    VarState,
    cast,
    counter,
    evaluate,
    gather,
    literal,
    malloc_statistics,
    opaque,
    ops,
    reduce,
    scatter,
    schedule,
    scoped_set_flag,
    state_of,
    sync,
    undefined,
    while_loop,
)
from drjit_core.ir import holders
from drjit_core.ops.table import OPS
from drjit_core.passes.schedule import plan
from drjit_core.runtime.cpu.memory import HEAP
from drjit_core.runtime.cpu.target import CPU_TARGET
from tests.core.harness import FLOAT32, TRUE, UINT32, array, assert_same_bits, launches, number, program_of, values

N = 10_000
ADD, MAX = ReduceOp.Add.value, ReduceOp.Max.value


def ramp(size: int = N) -> Node:
    return array(np.arange(size) % 64, FLOAT32)


def one() -> Node:
    return literal(FLOAT32, 1)


def launched(*nodes: Node) -> list[tuple[int, int]]:
    """Size and number of outputs of each kernel that evaluating the nodes takes."""
    with launches() as history:
        evaluate(nodes)
    return [(entry["size"], entry["output_count"]) for entry in history]


def bytes_at_the_peak(*nodes: Node) -> int:
    """Bytes that evaluating the nodes takes at most at a time."""
    gc.collect()
    sync()
    HEAP.reset_peak()
    before = HEAP.statistics()["in_use"]
    evaluate(nodes)
    sync()
    return HEAP.statistics()["peak"] - before


def bytes_allocated(*nodes: Node) -> int:
    """Bytes that evaluating the nodes takes and keeps."""
    gc.collect()
    sync()
    before = malloc_statistics()["in_use"]
    evaluate(nodes)
    sync()
    return malloc_statistics()["in_use"] - before


# --- fusion ----------------------------------------------------------------------------------------------------------


def test_an_expression_is_one_kernel_with_one_output() -> None:
    x = ramp()
    assert launched(ops.sqrt(ops.add(ops.mul(x, x), one()))) == [(N, 1)]


def test_several_outputs_of_one_size_are_one_kernel() -> None:
    x = ramp()
    assert launched(ops.sqrt(x), ops.neg(x), ops.add(x, x)) == [(N, 3)]


def test_different_sizes_are_different_kernels() -> None:
    kernels = launched(ops.sqrt(ramp()), ops.sqrt(ramp(77)), ops.sqrt(number(FLOAT32, 2)))
    assert sorted(kernels) == [(1, 1), (77, 1), (N, 1)]


def test_a_sum_of_an_expression_stores_nothing_of_its_size() -> None:
    x = ramp()
    total = reduce(ops.sqrt(ops.mul(x, x)), ADD)
    assert bytes_allocated(total) < 2000
    total = reduce(ops.abs(ops.mul(x, x)), ADD)
    assert launched(total) == [(N, 1)]


def test_many_reductions_of_one_computation_share_one_kernel() -> None:
    x = ramp()
    y = ops.sqrt(x)
    sums = [reduce(ops.mul(y, literal(FLOAT32, k)), ADD) for k in range(2, 60)]
    assert launched(*sums, reduce(x, MAX), ops.neg(y)) == [(N, 60)]


def test_mean_and_variance_are_two_passes_that_store_no_array() -> None:
    x = ramp()
    y = ops.mul(x, x)
    mean = ops.div(reduce(y, ADD), literal(FLOAT32, N))
    deviation = ops.sub(y, mean)
    variance = ops.div(reduce(ops.mul(deviation, deviation), ADD), literal(FLOAT32, N))
    assert launched(variance) == [(N, 1), (N, 1), (1, 1)]
    data = (np.arange(N) % 64).astype(np.float64) ** 2
    np.testing.assert_allclose(values(variance), data.var(), rtol=1e-4)
    assert state_of(y) is VarState.Unevaluated and state_of(mean) is VarState.Unevaluated


def test_scalars_are_computed_in_the_kernels_that_use_them() -> None:
    x, a = ramp(), number(FLOAT32, 3)
    scale = ops.sqrt(ops.add(a, one()))
    assert launched(ops.mul(x, scale)) == [(N, 1)]
    assert state_of(scale) is VarState.Unevaluated


# --- barriers --------------------------------------------------------------------------------------------------------


def test_what_is_cheap_is_computed_again_across_a_barrier() -> None:
    x = ramp()
    cheap = ops.mul(x, x)
    total = reduce(cheap, ADD)
    assert launched(ops.add(cheap, total)) == [(N, 1), (N, 1)]
    assert state_of(cheap) is VarState.Unevaluated


def test_what_is_dear_is_stored_across_a_barrier() -> None:
    dear = ramp()
    data = (np.arange(N) % 64).astype(np.float32)
    for _ in range(CPU_TARGET.recompute // next(op.cost for op in OPS if op.name == "div") + 1):
        dear = ops.div(dear, literal(FLOAT32, 3))
        data = data / np.float32(3)
    total = reduce(dear, MAX)
    result = ops.add(dear, total)
    assert launched(result) == [(N, 2), (N, 1)]
    assert state_of(dear) is VarState.Evaluated
    assert_same_bits(values(result), data + data.max())


def test_what_is_stored_anyway_is_read_not_computed_again() -> None:
    x = ramp()
    cheap = ops.mul(x, x)
    result = ops.add(cheap, reduce(cheap, ADD))
    with launches() as history:
        evaluate([result, cheap])
    assert [(entry["size"], entry["output_count"], entry["input_count"]) for entry in history] == [(N, 2, 1), (N, 1, 2)]
    assert "fmul" not in history[1]["ir"].getvalue()


def test_three_stages_that_use_the_value_of_the_first() -> None:
    x = ramp()
    y = ops.sqrt(ops.add(ops.div(x, literal(FLOAT32, 3)), one()))
    first = reduce(y, MAX)
    second = reduce(ops.sub(y, first), MAX)
    third = reduce(ops.mul(ops.sub(y, first), second), MAX)
    sizes = [size for size, _ in launched(third)]
    assert sizes == [N, N, N]
    data = np.sqrt((np.arange(N) % 64).astype(np.float32) / np.float32(3) + np.float32(1))
    expected = ((data - data.max()) * (data - data.max()).max()).max()
    assert_same_bits(values(third), np.array([expected]))


def test_a_gather_from_what_is_not_evaluated_comes_after_it() -> None:
    source = ops.sqrt(ramp())
    index = ops.sub(literal(UINT32, N - 1), counter(N))
    result = gather(source, index, TRUE)
    assert launched(result) == [(N, 1), (N, 1)]
    assert state_of(source) is VarState.Evaluated
    assert_same_bits(values(result), np.sqrt((np.arange(N) % 64).astype(np.float32))[::-1])


def test_a_gather_from_memory_is_fused() -> None:
    x = ramp()
    result = ops.sqrt(gather(x, counter(100), TRUE))
    assert launched(result) == [(100, 1)]


def test_gathers_of_gathers() -> None:
    x = ramp(500)
    permutation = np.random.default_rng(0).permutation(500).astype(np.uint32)
    p = array(permutation)
    assert launched(gather(gather(x, p, TRUE), p, TRUE)) == [(500, 1), (500, 1)]
    q = gather(p, p, TRUE)
    assert launched(gather(x, gather(p, q, TRUE), TRUE)) == [(500, 1)]
    assert_same_bits(values(gather(x, gather(p, q, TRUE), TRUE)),
                     (np.arange(500) % 64).astype(np.float32)[permutation[permutation[permutation]]])


def test_a_gather_is_stored_if_it_is_needed_again_later() -> None:
    x = ramp()
    picked = gather(x, ops.xor(counter(N), literal(UINT32, 1)), TRUE)
    result = ops.add(picked, reduce(picked, ADD))
    assert launched(result) == [(N, 2), (N, 1)]


# --- writes ----------------------------------------------------------------------------------------------------------


def write(target: Node, value: Node, index: Node, op: ReduceOp = ReduceOp.Identity, mask: Node = TRUE) -> Node:
    return scatter(target, value, index, mask, op.value, 0)


def test_writes_that_may_overlap_are_separate_kernels() -> None:
    x = undefined(FLOAT32, N)
    i = counter(N)
    x = write(x, one(), i)
    x = write(x, literal(FLOAT32, 2), ops.xor(i, literal(UINT32, 1)))
    assert launched(x) == [(N, 1), (N, 1)]


def test_writes_to_the_same_elements_share_a_kernel() -> None:
    x = opaque(literal(FLOAT32, 0, N))
    i = counter(N)
    for k in range(5):
        x = write(x, literal(FLOAT32, k + 2), i)
    assert launched(x) == [(N, 5)]
    assert set(values(x)) == {6}


def test_additions_to_one_target_share_a_kernel() -> None:
    x = opaque(literal(FLOAT32, 0, 100))
    for k in range(5):
        x = write(x, one(), ops.mod(ops.add(counter(N), literal(UINT32, k)), literal(UINT32, 100)), ReduceOp.Add)
    assert launched(x) == [(N, 5)]
    assert set(values(x)) == {5 * N / 100}
    x = write(x, one(), counter(N), ReduceOp.Add, ops.lt(counter(N), literal(UINT32, 100)))
    x = write(x, one(), counter(N), ReduceOp.Max, ops.lt(counter(N), literal(UINT32, 100)))
    assert launched(x) == [(N, 1), (N, 1)]


def test_a_target_that_is_not_evaluated_is_computed_into_the_memory_that_is_written_to() -> None:
    x = ramp()
    y = write(ops.sqrt(x), literal(FLOAT32, -1), literal(UINT32, 5))
    assert 4 * N <= bytes_allocated(y) < 6 * N
    assert values(y)[5] == -1


def test_a_literal_target_takes_one_kernel_to_fill_it() -> None:
    y = write(literal(FLOAT32, 0, N), one(), literal(UINT32, 5))
    assert launched(y) == [(N, 1), (1, 1)]


def dear(x: Node) -> Node:
    """Something that is stored rather than computed again."""
    for _ in range(CPU_TARGET.recompute):
        x = ops.sqrt(ops.add(x, one()))
    return x


@pytest.mark.parametrize("begun", [lambda: literal(FLOAT32, 0, 64), lambda: opaque(literal(FLOAT32, 0, 64))])
def test_what_is_scattered_to_memory_that_is_only_filled_is_not_stored(begun: Callable[[], Node]) -> None:
    x = ramp()
    value, target = dear(x), begun()
    index = ops.mod(counter(N), literal(UINT32, 64))
    first, second = write(target, value, index, ReduceOp.Max), reduce(value, ADD)
    counts = launched(first, second)
    assert [count for size, count in counts if size == N] == [2]
    assert state_of(value) is VarState.Unevaluated
    assert_same_bits(values(first), values(dear(ramp(64))))


def test_memory_that_is_only_filled_may_be_a_value_as_well() -> None:
    zeros = opaque(literal(FLOAT32, 0, N))
    shifted = ops.add(zeros, one())
    x = write(zeros, dear(ramp()), counter(N), ReduceOp.Add)
    y = write(opaque(literal(FLOAT32, 1, N)), gather(x, counter(N), TRUE), counter(N), ReduceOp.Add)
    evaluate([shifted, x, y])
    assert set(values(shifted)) == {1}
    assert_same_bits(values(x), values(dear(ramp())))
    assert_same_bits(values(y), values(dear(ramp())) + np.float32(1))


def scattered(x: Node, times: int) -> Node:
    """Values of one scatter after another, each to zeros of its own."""
    for _ in range(times):
        target = write(literal(FLOAT32, 0, N), dear(x), counter(N))
        x = gather(target, ops.sub(literal(UINT32, N - 1), counter(N)), TRUE)
    return x


def test_memory_is_filled_before_its_first_use_and_dies_after_the_last() -> None:
    few, many = (bytes_at_the_peak(scattered(ramp(), times)) for times in (3, 30))
    assert many == few <= 4 * 4 * (N + 1000)


def test_what_a_kernel_has_stored_dies_with_its_last_use() -> None:
    peaks = []
    for times in (3, 30):
        x = ramp()
        for _ in range(times):
            x = dear(x)
            x = ops.sub(x, reduce(x, MAX))
        peaks.append(bytes_at_the_peak(x))
    assert peaks[1] < peaks[0] + 4 * N


def test_an_undefined_target_takes_none() -> None:
    y = write(undefined(FLOAT32, N), one(), counter(N))
    assert launched(y) == [(N, 1)]
    assert set(values(y)) == {1}


def test_a_histogram_of_an_expression_is_one_kernel() -> None:
    x = ramp()
    bins = opaque(literal(UINT32, 0, 64))
    bins = write(bins, literal(UINT32, 1), cast(x, UINT32), ReduceOp.Add)
    assert launched(bins) == [(N, 1)]
    assert values(bins).tolist() == np.bincount(np.arange(N) % 64).tolist()


def test_reads_of_a_version_come_after_the_write() -> None:
    x = write(opaque(literal(FLOAT32, 0, N)), one(), counter(N))
    assert launched(ops.add(x, x)) == [(N, 1), (N, 1)]
    assert state_of(x) is VarState.Evaluated


# --- what is not launched --------------------------------------------------------------------------------------------


def test_what_nobody_holds_is_not_computed() -> None:
    x = ramp()
    for _ in range(5):
        ops.sqrt(x)
    schedule([ops.sqrt(x)])
    assert launched(ops.neg(x)) == [(N, 1)]
    schedule([ops.sqrt(x)])
    assert launched() == []


def test_a_write_that_nobody_holds_is_not_performed() -> None:
    x = opaque(literal(FLOAT32, 0, 50))
    write(x, one(), counter(50))
    schedule([write(x, one(), counter(50))])
    assert launched() == []
    assert set(values(x)) == {0}


def test_nothing_to_do() -> None:
    x = ramp()
    y = ops.sqrt(x)
    assert not evaluate([x]) and not evaluate([literal(FLOAT32, 2)]) and not evaluate([]) and not schedule([x])
    assert schedule([y]) and evaluate()
    assert not evaluate([y]) and not schedule([y])


def test_scheduled_arrays_are_evaluated_together() -> None:
    x = ramp()
    a, b = ops.sqrt(x), ops.neg(x)
    schedule([a])
    schedule([b, a])
    assert launched() == [(N, 2)]


def test_evaluated_operands_are_released() -> None:
    x = ramp()
    y = ops.sqrt(x)
    evaluate([y])
    assert y.d0 is None and y.size == N
    sync()
    before = malloc_statistics()["in_use"]
    del x
    assert malloc_statistics()["in_use"] <= before - 4 * N
    assert values(y)[1] == 1


# --- the plan itself -------------------------------------------------------------------------------------------------


def test_planning_twice_gives_the_same_plan() -> None:
    def program() -> list[Node]:
        x = ramp(100)
        y = ops.sqrt(x)
        total = reduce(y, ADD)
        z = write(ops.add(y, total), one(), ops.mod(cast(y, UINT32), literal(UINT32, 100)), ReduceOp.Add)
        return [reduce(z, MAX), gather(z, counter(7), TRUE)]

    def shape(roots: list[Node]) -> list[Any]:
        return [(k.stage, k.width, [OPS[node.kind].name for node in k.outputs]) for k in plan(roots, CPU_TARGET)]

    assert shape(program()) == shape(program())
    assert [stage for stage, _, _ in shape(program())] == sorted(stage for stage, _, _ in shape(program()))


def test_the_order_of_the_roots_does_not_matter() -> None:
    x = ramp(100)
    a, b, c = ops.sqrt(x), ops.neg(x), reduce(ops.mul(x, x), ADD)
    assert program_of(a, b, c).key == program_of(c, a, b).key == program_of(b, c, a).key


def test_a_deep_graph_is_planned_without_recursion() -> None:
    x = ramp(16)
    for i in range(20_000):
        x = ops.add(x, one()) if i % 2 else ops.abs(x)
    (kernel,) = plan([x], CPU_TARGET)
    assert kernel.outputs == [x]


def test_a_graph_that_shares_its_parts_is_planned_in_linear_time() -> None:
    """Every node is used twice: the number of paths doubles with each step."""
    x = ramp(16)
    for k in range(60):
        x = ops.maximum(ops.add(x, x), ops.mul(x, literal(FLOAT32, k + 2)))
    total = reduce(x, MAX)
    assert launched(ops.add(x, total)) == [(16, 2), (16, 1)]


def test_a_chain_of_many_stages() -> None:
    x = ramp(100)
    data = (np.arange(100) % 64).astype(np.float32)
    for _ in range(50):
        x = ops.sub(x, ops.mul(reduce(x, MAX), literal(FLOAT32, 0.5)))
        data = data - data.max() * np.float32(0.5)
    counts = launched(x)
    assert len(counts) == 51
    assert_same_bits(values(x), data)


def test_uniform_results_of_loops_are_computed_once() -> None:
    (k,) = while_loop([number(UINT32, 1)], lambda s: ops.lt(s[0], literal(UINT32, 1000)),
                      lambda s: [ops.add(s[0], s[0])])
    result = ops.mul(counter(N), k)
    assert launched(result) == [(1, 1), (N, 1)]
    assert values(result)[2] == 2048


@pytest.mark.parametrize("counts_are_exact", [True, False])
def test_copying_always_is_slow_but_right(monkeypatch: pytest.MonkeyPatch, counts_are_exact: bool) -> None:
    """Free-threaded builds do not count references exactly."""
    monkeypatch.setattr(holders, "_COUNTS_ARE_EXACT", counts_are_exact)
    x = opaque(literal(FLOAT32, 0, 50))
    for k in range(4):
        x = write(x, literal(FLOAT32, k + 2), ops.add(counter(10), literal(UINT32, 7 * k)))
    kernels = launched(x)
    assert len(kernels) == (4 if counts_are_exact else 8)
    expected = np.zeros(50, np.float32)
    for k in range(4):
        expected[7 * k:7 * k + 10] = k + 2
    assert_same_bits(values(x), expected)


def test_the_flag_of_the_history_is_what_fills_it() -> None:
    with launches() as history, scoped_set_flag(JitFlag.KernelHistory, False):
        evaluate([ops.sqrt(ramp())])
    assert history == []
