"""Graphs whose structure is known are launched without planning: like the first time, whatever has changed since."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import drjit as dr
from drjit.llvm import Array3f, Bool, Float, Int, TensorXf, UInt
from drjit_core import atomic, evaluate, literal, ops, rooms
from drjit_core.ir.trace import scatter
from drjit_core.runtime.cpu import cache
from drjit_core.runtime.cpu.memory import HEAP
from tests.core.harness import BOOL, FLOAT32, UINT32, array, shared, values

Program = Callable[[Any, Any, Any], Any]
SIZES = (1, 37, 1000, 70_001)  # one element; a part of a packet; several packets; tables per thread


def inputs(size: int, seed: int) -> tuple[Float, Float, UInt]:
    generator = np.random.default_rng(seed)
    return (Float(generator.random(size).astype(np.float32) + 0.5), Float(generator.random(size).astype(np.float32)),
            UInt(generator.integers(0, 30, size).astype(np.uint32)))


def summed(a: Any, index: Any, size: int = 30) -> Float:
    found = dr.zeros(Float, size)
    dr.scatter_add(found, a, index)
    return found


def written_twice(a: Any, b: Any, index: Any) -> Float:
    found = dr.zeros(Float, 30)
    dr.scatter_add(found, a, index)
    dr.scatter_add(found, b, index)
    dr.scatter(found, Float(7), UInt(3))
    return found


def older_versions(a: Any, b: Any, index: Any) -> list[Float]:
    target = dr.zeros(Float, 30)
    dr.scatter_add(target, a, index)
    before = Float(target)
    dr.scatter_add(target, b, index)
    return [before, target]


def slots(a: Any, b: Any, index: Any) -> list[Any]:
    counter = dr.zeros(UInt, 30)
    found = dr.scatter_inc(counter, UInt(2), a > 1)
    return [dr.sum(dr.select(a > 1, found, 0)), counter]


def into_undefined(a: Any, b: Any, index: Any) -> Float:
    found = dr.empty(Float, 2 * dr.width(a))
    place = dr.arange(UInt, dr.width(a)) * 2
    dr.scatter(found, a, place)
    dr.scatter(found, b, place + 1)
    return found


def step_of_gradients(a: Any, b: Any, index: Any) -> list[Float]:
    table = dr.gather(Float, b, dr.minimum(index, dr.width(b) - 1))
    loss = dr.sum(dr.square(table - a))
    gradient = summed(2 * (table - a), index)
    return [loss, gradient * 0.01, dr.max(gradient)]


def softmax(a: Any, b: Any, index: Any) -> Any:
    size = dr.width(a)
    x = TensorXf(a, (1, size)) if size > 100 else TensorXf(a, (size, 1)) * TensorXf(b, (1, size))
    e = dr.exp(x - dr.max(x, axis=1, keepdims=True))
    return dr.mean(e / dr.sum(e, axis=1, keepdims=True)) * 3


def counted(a: Any, b: Any, index: Any) -> tuple[Any, ...]:
    """A loop whose length nobody knows, captures of all kinds, and a state that is not wanted."""
    limit, factor = dr.sum(b), dr.gather(Float, b, dr.minimum(index, dr.width(b) - 1))
    return dr.while_loop((a, dr.zeros(UInt, dr.width(a)), a * 2), lambda x, n, _: (x < limit * 0.01 + 3) & (n < 20),
                         lambda x, n, y: (x + factor * 0.5 + 0.25, n + 1, y + 1))[:2]


def written_in_a_loop(a: Any, b: Any, index: Any) -> list[Any]:
    target, other = dr.zeros(Float, 30), dr.zeros(UInt, 3)
    a = dr.floor(a * 16)  # sums are exact in any order
    dr.eval(other)

    def body(n: Any, x: Any) -> tuple[Any, Any]:
        dr.scatter_add(target, x, index)
        dr.scatter_inc(other, n % 3)
        return n + 1, x * 0.5

    _, x = dr.while_loop((UInt(0), Float(a)), lambda n, x: n < 4, body)
    return [target * 1, other + 0, x]


def nested_loops(a: Any, b: Any, index: Any) -> Float:
    def inner(n: Any, x: Any) -> tuple[Any, Any]:
        return n + 1, x + b * Float(0.125)

    def outer(m: Any, x: Any) -> tuple[Any, Any]:
        return m + 1, dr.while_loop((UInt(0), x), lambda n, x: n < index % 4, inner)[1] * 0.5

    return dr.while_loop((UInt(0), Float(a)), lambda m, x: m < 3, outer)[1] / dr.sum(b)


def called(a: Any, b: Any, index: Any) -> list[Any]:
    """A call whose functions have numbers, arrays, single elements and whole ones from outside."""
    table, single = summed(a, index), dr.sum(b)
    dr.eval(table, single)

    def function(number: int) -> Any:
        if number == 2:
            return lambda x, k: (x * b, k + 1)
        return lambda x, k: (x * (1.5 + number) + dr.gather(Float, table, k) * single, k * (number + 3))

    return list(dr.switch(index % 5, [function(number) for number in range(4)], a, index))


def called_in_a_loop(a: Any, b: Any, index: Any) -> list[Any]:
    target = dr.zeros(Float, 30)
    a = dr.floor(a * 16)

    def writes(x: Any, k: Any) -> Any:
        dr.scatter_add(target, x, k)
        return x + 1

    def calls(x: Any, k: Any) -> Any:
        return dr.switch(k % 2, [lambda x: x * 2, lambda x: dr.if_stmt((x,), x > 4, lambda x: x - 1, lambda x: x)], x)

    def body(n: Any, x: Any) -> tuple[Any, Any]:
        return n + 1, dr.switch((index + n) % 3, [writes, calls, lambda x, k: x - dr.floor(b * 2)], x, index)

    return [dr.while_loop((dr.zeros(UInt, dr.width(a)), Float(a)), lambda n, x: n < 3, body)[1], target + 1]


PROGRAMS: dict[str, Program] = {
    "a call": called,
    "calls in a loop": called_in_a_loop,
    "a loop": counted,
    "a loop that writes": written_in_a_loop,
    "nested loops": nested_loops,
    "rows beside a loop": lambda a, b, i: [softmax(a, b, i), counted(a, b, i)[0]],
    "two kernels": lambda a, b, i: a / dr.sum(a * b),
    "three kernels": lambda a, b, i: (a - dr.mean(a)) / dr.max(abs(a - dr.mean(a))),
    "a scatter-reduction": lambda a, b, i: summed(a, i),
    "what is scattered, used": lambda a, b, i: summed(a, i) * 2 + 1,
    "two writes": written_twice,
    "older versions": older_versions,
    "unique slots": slots,
    "writes to arrays without contents": into_undefined,
    "gradients": step_of_gradients,
    "a scan of what is computed": lambda a, b, i: dr.prefix_sum(a * b) + 1,
    "a sort of what is computed": lambda a, b, i: dr.sort(a * b) * dr.sum(b),
    "what a sum divides, sorted": lambda a, b, i: dr.sort(a / dr.sum(b)),
    "literals": lambda a, b, i: dr.sum(a) * Float(3) + Float(5),
    "packets": lambda a, b, i: dr.gather(Array3f, dr.tile(dr.prefix_sum(a), 3), dr.zeros(UInt, 5)) * 2,
    "rows": softmax,
    "masks": lambda a, b, i: dr.select(dr.any(a > 1.2), a, dr.sum(b)),
    "a product": lambda a, b, i: (TensorXf(a, (1, dr.width(a))) @ TensorXf(b, (dr.width(b), 1))) / dr.sum(b),
    "gathers of what is reduced": lambda a, b, i: dr.gather(Float, summed(b, i), i) * a,
}


def leaves(value: Any) -> list[np.ndarray[Any, Any]]:
    if isinstance(value, (list, tuple)):
        return [leaf for each in value for leaf in leaves(each)]
    return [np.array(value.numpy())]


def planned(program: Program, size: int, seed: int) -> list[np.ndarray[Any, Any]]:
    """The results when kernels are told of, for which there are no recipes."""
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory):
        found = program(*inputs(size, seed))
        dr.eval(found)
        dr.kernel_history_clear()
    return leaves(found)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_known_structures_give_what_planning_gives(name: str, size: int) -> None:
    for seed in range(4):
        arguments = inputs(size, seed)
        found = PROGRAMS[name](*arguments)
        dr.eval(found)
        for value, expected in zip(leaves(found), planned(PROGRAMS[name], size, seed), strict=True):
            if size < 40_000:
                np.testing.assert_array_equal(value, expected)
            else:  # threads add up what they happen to get
                np.testing.assert_allclose(value, expected, rtol=1e-4)
        for argument, before in zip(arguments, inputs(size, seed), strict=True):
            np.testing.assert_array_equal(argument.numpy(), before.numpy())


@pytest.mark.parametrize("name", PROGRAMS)
def test_sizes_are_those_of_this_time(name: str) -> None:
    """Across all that is decided by sizes: one element, packets, a single block, tables of threads."""
    for size in (1000, 1001, 17, 1, 40_000, 33_000, 1000, 2, 32_768, 32_769, 30, 70_001, 29, 64):
        arguments = inputs(size, size)
        found = PROGRAMS[name](*arguments)
        dr.eval(found)
        for value, expected in zip(leaves(found), planned(PROGRAMS[name], size, size), strict=True):
            np.testing.assert_allclose(value, expected, rtol=1e-4)  # threads add up what they get


def test_sizes_that_grow_and_grow() -> None:
    """Each is more than what was decided for the one before."""
    for size in range(40_000, 40_030):
        target = dr.zeros(Float, 50_000)
        dr.scatter_add(target, Float(1), dr.arange(UInt, size))
        dr.eval(target)
        assert dr.sum(target)[0] == size


def test_equal_sizes_may_be_different_ones_next_time() -> None:
    for sizes in ((5, 5), (5, 7), (7, 5), (6, 6), (1, 4), (4, 1), (9, 8)):
        a, b = (Float(np.arange(size, dtype=np.float32) + 1) for size in sizes)
        total = dr.sum(a) * dr.sum(b)
        first, second = a / total, b * total
        dr.eval(first, second)
        x, y = a.numpy(), b.numpy()
        np.testing.assert_allclose(first.numpy(), x / (x.sum() * y.sum()), rtol=1e-6)
        np.testing.assert_allclose(second.numpy(), y * (x.sum() * y.sum()), rtol=1e-6)


@pytest.mark.skipif(not rooms.compiled, reason="plain rooms plan every time")
def test_graphs_without_rows_are_planned_for_one_size(monkeypatch: pytest.MonkeyPatch) -> None:
    from drjit_core.runtime import launch

    def refused(roots: Any) -> Any:
        raise AssertionError("a graph is planned whose structure is known")

    for name in ("two kernels", "a scatter-reduction", "gradients", "a sort of what is computed", "a loop"):
        for size in (500, 700, 900, 1234):
            arguments = inputs(size, 0)
            dr.eval(arguments)
            with monkeypatch.context() as patch:
                if size > 700:
                    patch.setattr(launch, "plan", refused)
                dr.eval(PROGRAMS[name](*arguments))


def test_literals_are_those_of_this_time() -> None:
    a = Float([1, 2, 3, 4])
    for factor in (2.0, 3.0, 2.0, 5.0):
        y = a / dr.sum(a * factor) + factor
        np.testing.assert_allclose(y.numpy(), np.arange(1, 5) / (10 * factor) + factor, rtol=1e-6)


@pytest.mark.parametrize("rounds", ("held, not held", "not held, held"))
def test_targets_that_others_hold_are_copied_whatever_was_known_before(rounds: str) -> None:
    for state in rounds.split(", ") * 3:
        target = Float([1, 2, 3])
        dr.eval(target)
        other = Float(target) if state == "held" else None
        dr.scatter_add(target, Float([10, 20]), UInt([0, 2]))
        total = dr.sum(target) * 2
        dr.eval(target, total)
        np.testing.assert_array_equal(target.numpy(), [11, 2, 23])
        assert total[0] == 72
        if other is not None:
            np.testing.assert_array_equal(other.numpy(), [1, 2, 3])


def test_memory_of_others_is_never_written_to() -> None:
    for foreign in (False, True, False, True):
        data = np.array([1, 2, 3], np.float32)
        target = shared(data) if foreign else array(data)
        index, mask = array(np.array([0, 2], np.uint32)), literal(BOOL, True)
        version = scatter(target, array(np.array([10, 20], np.float32)), index, mask, dr.ReduceOp.Add.value, 0)
        del target
        doubled = ops.mul(version, literal(FLOAT32, 2))
        evaluate([doubled])
        np.testing.assert_array_equal(values(doubled), [22, 4, 46])
        np.testing.assert_array_equal(data, [1, 2, 3])


def test_what_waits_is_launched_in_order() -> None:
    a, b, index = inputs(200_000, 0)
    dr.eval(a, b, index)
    expected = np.bincount(index.numpy(), a.numpy().astype(np.float64), 30)
    for _ in range(30):
        found = summed(a, index) + 0
        for _ in range(3):
            found = found / dr.sum(found) * dr.sum(a)
        dr.eval(found)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-4)


def test_nothing_is_kept() -> None:
    def iteration(number: int) -> None:
        for program in PROGRAMS.values():
            dr.eval(program(*inputs(1000, number)))

    for number in range(4):
        iteration(number)
    dr.sync_thread()
    before = HEAP.statistics()["in_use"]
    for number in range(20):
        iteration(number)
    dr.sync_thread()
    assert HEAP.statistics()["in_use"] <= before


def test_peak_memory_is_that_of_planning() -> None:
    def chain(x: Float) -> Float:
        for _ in range(6):
            x = x / dr.sum(x)
        return x

    x = Float(np.ones(100_000, np.float32))
    dr.eval(x)
    peaks = []
    for told in (True, False, False):
        with dr.scoped_set_flag(dr.JitFlag.KernelHistory, told):
            y = chain(x)
            dr.sync_thread()
            HEAP.reset_peak()
            before = HEAP.statistics()["in_use"]
            dr.eval(y)
            dr.sync_thread()
            peaks.append(HEAP.statistics()["peak"] - before)
            del y
    assert peaks[2] <= peaks[0]


@pytest.mark.skipif(not rooms.compiled, reason="plain rooms plan every time")
def test_nothing_is_planned_the_second_time(monkeypatch: pytest.MonkeyPatch) -> None:
    from drjit_core.runtime import launch

    def refused(roots: Any) -> Any:
        raise AssertionError("a graph is planned whose structure is known")

    for name, program in PROGRAMS.items():
        for number in range(3):
            arguments = inputs(1000, number)
            dr.eval(arguments)
            with monkeypatch.context() as patch:
                if number == 2:
                    patch.setattr(launch, "plan", refused)
                try:
                    dr.eval(program(*arguments))
                except AssertionError as error:
                    raise AssertionError(name) from error


def test_types_and_masks_are_part_of_the_structure() -> None:
    for type_ in (Float, Int, UInt, Float, Int):
        x = type_([3, 1, 2])
        total = dr.sum(x)
        found = dr.select(Bool([True, False, True]), x * total, total)
        np.testing.assert_array_equal(found.numpy(), [18, 6, 12])


def test_what_is_fetched_may_be_all_that_holds_a_write() -> None:
    for number in range(6):
        target = array(np.array([1, 2, 3], np.uint32))
        index, mask = array(np.array([0, 2, 0], np.uint32)), literal(BOOL, True)
        found, _ = atomic(target, literal(UINT32, 5), index, mask, dr.ReduceOp.Add.value, 0)
        del target, _
        evaluate([found])
        assert sorted(values(found).tolist()) == [1, 3, 6], number


def test_calls_that_wait_have_tables_of_their_own() -> None:
    """Behind a long launch several calls are queued, whose functions have other numbers and arrays each time."""
    expected = [planned(called, 1000, seed) for seed in range(6)]
    for seed in range(3):
        dr.eval(called(*inputs(1000, seed)))
    x = dr.arange(Float, 1 << 20)
    long = dr.while_loop((x, dr.zeros(UInt, 1 << 20)), lambda x, n: n < 200, lambda x, n: (x * 0.5 + 1, n + 1))
    dr.eval(long)
    found = []
    for seed in range(6):
        found.append(called(*inputs(1000, seed)))
        dr.eval(found[-1])
    for values_, expected_ in zip(found, expected, strict=True):
        for value, known in zip(leaves(values_), expected_, strict=True):
            np.testing.assert_array_equal(value, known)


def test_tables_have_the_functions_of_the_tier_that_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that has done some work is compiled again: its functions lie elsewhere then."""
    linked = []
    link = cache.CompiledKernel._link

    def counted_link(self: cache.CompiledKernel, *arguments: Any) -> None:
        link(self, *arguments)
        linked.append(self)

    monkeypatch.setattr(cache.CompiledKernel, "_link", counted_link)

    def program(x: Any, k: Any) -> Any:
        return dr.switch(k, [lambda x: x * 1.75 + 11, lambda x: x - x * x * 0.375, lambda x: dr.sqrt(x) * 13], x)

    a, _, index = inputs(1000, 0)
    index %= 3
    x = a.numpy()
    expected = np.choose(index.numpy(), [x * 1.75 + 11, x - x * x * np.float32(0.375), np.sqrt(x) * 13])
    for _ in range(40):
        np.testing.assert_allclose(program(a, index).numpy(), expected, rtol=1e-5)
    if linked and not linked[0].from_disk:
        assert len(linked) > len(set(map(id, linked)))
