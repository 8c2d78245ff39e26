"""Straight kernels: their short way in the compiled form makes the keys and parameters of the general one."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

from drjit_core import (
    access,
    counter,
    evaluate,
    gather,
    import_shared,
    literal,
    ops,
    read_element,
    reduce,
    rooms,
    scatter,
    sync,
)
from drjit_core.codegen.program import assemble
from drjit_core.ir.node import Node
from drjit_core.ops.table import EVALUATED, UNDEFINED
from drjit_core.passes.schedule import plan
from drjit_core.runtime import exclusion, explain
from drjit_core.runtime.backends import LLVM, on_backend
from drjit_core.runtime.cpu import cache
from drjit_core.runtime.cpu.launches import Course, course_of
from drjit_core.runtime.cpu.target import CPU_TARGET
from drjit_core.runtime.cpu.texts import TEXTS
from drjit_core.runtime.null import Null
from drjit_core.types import BOOL, FLOAT32, UINT32, ReduceOp
from tests.core.harness import ALL_TYPES, array, shared, values
from tests.core.test_random_programs import Program

needs_rooms = pytest.mark.skipif(not rooms.compiled, reason="only the compiled form has a short way")
TRUE = literal(BOOL, True)


def compared(*roots: Node, backend: Any = LLVM) -> list[bool]:
    """Whether each kernel of some nodes has a short way, after a look at its key and parameters."""
    found = []
    with exclusion.lock:
        for kernel in plan(list(roots), backend.target()):
            short = backend.recipes.key_of(kernel.outputs)
            found.append(short is not None)
            if short is not None:
                program = assemble(kernel, backend.target())
                assert short == (program.key, program.parameters)
                assert not (program.scatters or program.versions or program.calls or program.tables)
                assert course_of(program) == Course(single=False, trips=1)
                structure, details = explain._described(1, program.key, "")
                assert structure == tuple(explain._structure(program))
                assert details.details == tuple(explain._details(program))
    return found


@needs_rooms
@pytest.mark.parametrize("structure", [False, True])
def test_keys_and_parameters_of_random_programs(structure: bool) -> None:
    found = []
    for seed in range(300):
        program = Program(seed, 4 + seed % 40, structure)
        results = program.run()
        roots = {results[i].id: results[i] for i in program.roots()}
        found += compared(*(root for root in roots.values() if root.kind > UNDEFINED and root.kind != EVALUATED))
    assert found.count(True) > 100


@needs_rooms
@pytest.mark.parametrize("type_", ALL_TYPES)
def test_keys_and_parameters_of_literals_and_inputs(type_: int) -> None:
    numbers = [0, 1] if type_ == BOOL else [0, 1, 3, 100]
    if type_ >= FLOAT32 - 1:
        numbers += [-1, 0.1, -0.0, float("inf"), float("-inf"), float("nan"), 6e-5]  # type: ignore[list-item]
    inputs = [array(np.ones(size), type_) for size in (1, 7)] + [shared(np.ones(7, np.uint8).astype(
        values(array([1], type_)).dtype))]
    combine = ops.eq
    for each in inputs:
        for number in numbers:
            root = combine(each, literal(type_, number))
            if root.kind > UNDEFINED and root.kind != EVALUATED:
                assert compared(root) == [True]


@needs_rooms
def test_keys_and_parameters_by_structure() -> None:
    x, single = array(np.arange(100, dtype=np.float32)), array(np.ones(1, np.float32))
    borrowed = shared(np.ones(100, np.float32))
    index = ops.mod(counter(50), literal(UINT32, 7))
    doubled = ops.add(x, x)
    assert compared(doubled, ops.mul(doubled, single), ops.add(doubled, borrowed)) == [True]
    assert compared(gather(x, index, TRUE), gather(borrowed, index, TRUE), gather(x, counter(50), TRUE)) == [True]
    assert compared(ops.add(access(x, 3, 1, 50), access(x, 60, -1, 50)), access(borrowed, 3, 1, 50)) == [True]
    assert compared(reduce(x, ReduceOp.Add.value), doubled, reduce(doubled, ReduceOp.Max.value)) == [True]
    assert compared(counter(100), ops.sqrt(x), ops.select(ops.lt(x, single), x, borrowed)) == [True]
    assert compared(doubled, ops.add(single, single), counter(3)) == [True, True, True]
    wide = array(np.ones(2_000_000, np.float32))
    assert compared(ops.add(wide, ops.mul(wide, wide))) == [True], "past the cache"
    # what has no short way
    total = reduce(x, ReduceOp.Add.value)
    assert False in compared(ops.add(x, total))
    assert not any(compared(scatter(array(np.ones(100, np.float32)), x, counter(100), TRUE, 0, 0)))
    assert False in compared(gather(doubled, index, TRUE))


@needs_rooms
def test_the_target_decides_about_keys() -> None:
    targets = [CPU_TARGET, CPU_TARGET._replace(features=5), CPU_TARGET._replace(streaming_width=10),
               CPU_TARGET._replace(streaming_width=10, streaming_bytes=300), CPU_TARGET._replace(large_bytes=100)]
    keys = set()
    for each in targets:
        with on_backend(Null(TEXTS, each)) as null:
            x, index = array(np.ones(100, np.float32)), ops.mod(counter(50), literal(UINT32, 7))
            roots = [ops.add(gather(x, index, TRUE), access(x, 3, 1, 50))]
            assert compared(*roots, backend=null) == [True]
            keys.add(null.recipes.key_of(roots)[0])  # type: ignore[attr-defined]
    assert len(keys) == len(targets) - 1, "a width alone decides nothing"


@needs_rooms
def test_the_null_backend_takes_the_short_way() -> None:
    """What has been launched in the end is the same each time: kernels, and all parameters but addresses."""
    with on_backend("null") as null:
        x, target = array(np.ones(1000, np.float32)), array(np.zeros(4, np.float32))
        found = []
        for _ in range(4):
            before, short = len(null.launches), null.recipes.launches  # type: ignore[attr-defined]
            scattered = scatter(target, ops.mul(x, x), ops.mod(counter(1000), literal(UINT32, 4)), TRUE,
                                ReduceOp.Add.value, 0)
            evaluate([scattered, ops.add(x, reduce(ops.mul(x, x), ReduceOp.Add.value))])
            del scattered
            launches = null.launches[before:]  # type: ignore[attr-defined]
            shortly = null.recipes.launches - short  # type: ignore[attr-defined]
            assert shortly in (0, len(launches)) or launches[0].block
            found.append([(each.kernel, each.width, each.single, each.block, len(each.parameters), each.parameters[0])
                          for each in launches])
        assert shortly > 0 and all(each == found[0] for each in found)


@pytest.mark.parametrize("count", [1, 2, 300])
@pytest.mark.parametrize("stores", [False, True])
def test_reductions_of_arrays_in_memory_have_parameters_between_their_outputs(count: int, stores: bool) -> None:
    arrays = [array(np.full(10, k + 1, np.float32)) for k in range(count)]
    for _ in range(3):  # the kernel is compiled, looked up, and known
        roots = [reduce(each, ReduceOp.Add.value) for each in arrays]
        expected = [[10.0 * (k + 1)] for k in range(count)]
        if stores:
            roots += [ops.mul(each, literal(FLOAT32, 3.0)) for each in arrays]
            expected += [[3.0 * (k + 1)] * 10 for k in range(count)]
        evaluate(roots)
        assert [list(values(root)) for root in roots] == expected


@needs_rooms
def test_short_ways_are_counted_and_end_when_kernels_are_forgotten() -> None:
    x = array(np.ones(77, np.float32))

    def run() -> dict[str, int]:
        evaluate([ops.fma(x, x, literal(FLOAT32, 77.25))])
        return cache.statistics()

    LLVM.flush()
    first, second, third = run(), run(), run()
    assert second["hits"] == first["hits"] + 1 and third["hits"] == second["hits"] + 1
    assert third["compiled"] == first["compiled"] and third["loaded"] == first["loaded"]
    LLVM.flush()
    fourth = run()
    assert fourth["hits"] == third["hits"] and fourth["launches"] == third["launches"] + 1


def test_reductions_of_inputs_and_outputs_share_a_kernel() -> None:
    """What only a reduction needs is a parameter between those of outputs."""
    for start in range(3):  # only the first one is compiled
        inputs = [array(np.arange(start + k, start + k + 5), UINT32) for k in range(12)]
        roots = [node for each in inputs for node in (reduce(each, ReduceOp.Add.value), ops.add(each, inputs[0]))]
        evaluate(roots)
        for k in range(12):
            expected = np.arange(start + k, start + k + 5)
            assert list(values(roots[2 * k])) == [expected.sum()]
            assert np.array_equal(values(roots[2 * k + 1]), expected + np.arange(start, start + 5))
            assert np.array_equal(values(inputs[k]), expected)


def test_quick_kernels_are_compiled_again_when_they_have_worked_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "_level", lambda: None)
    monkeypatch.setattr(cache, "_BREAK_EVEN", 1 << 14)
    x = array(np.ones(1000, np.float32))
    monkeypatch.setattr(cache.disk, "load", lambda key: None)
    LLVM.flush()
    found = []
    for _ in range(40):
        node = ops.fma(x, x, literal(FLOAT32, 3.125))
        evaluate([node])
        assert read_element(node, 999) == 4.125
        (kernel,) = cache._kernels.values()
        found.append(kernel.quick)
    assert found[0] and not found[-1]


def test_many_launches_wait_in_the_queue() -> None:
    """More than the ring has slots, with foreign memory that nobody else holds by then."""
    size = 1 << 18
    total = array(np.zeros(size, np.float32))
    for k in range(40):
        total = ops.add(ops.sqrt(ops.mul(total, total)), shared(np.full(size, k, np.float32)))
        evaluate([total])
    gc.collect()
    assert set(values(total)) == {sum(range(40))}
    sync()


class Owner:
    """Has memory, and knows of the array that lies in it."""

    node: Any

    def __init__(self) -> None:
        self.memory = np.ones(4, np.float32)


@pytest.mark.parametrize("used", [False, True])
def test_cycles_through_foreign_owners_are_collected(used: bool) -> None:
    owner = Owner()
    owner.node = import_shared(FLOAT32, owner.memory.ctypes.data, 4, owner)
    if used:
        double = ops.add(owner.node, owner.node)
        evaluate([double])
        assert read_element(double, 0) == 2
        del double
    reference = weakref.ref(owner)
    node = owner.node
    del owner
    gc.collect()
    assert reference() is not None and read_element(node, 0) == 1, "somebody holds the array"
    del node
    gc.collect()
    assert reference() is None


def test_nodes_of_our_own_memory_are_no_business_of_the_collector_in_compiled_form() -> None:
    ours, foreign = array(np.ones(4, np.float32)), shared(np.ones(4, np.float32))
    assert gc.is_tracked(foreign) and gc.is_tracked(foreign.payload)
    assert gc.is_tracked(ours) is not rooms.compiled
