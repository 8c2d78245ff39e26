"""Backends: kernels of LLVM, the null backend that launches nothing, and the interpreter."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from drjit_core import (
    JitFlag,
    Node,
    Recorded,
    ReduceMode,
    ReduceOp,
    VarState,
    call,
    cond,
    counter,
    evaluate,
    gather,
    host_view,
    import_shared,
    interpret,
    kernel_history,
    kernel_history_clear,
    literal,
    on_backend,
    opaque,
    ops,
    read_element,
    reduce,
    rewritten,
    rooms,
    scatter,
    scoped_set_flag,
    set_element,
    sin,
    state_of,
    sync,
    undefined,
    unshared,
    while_loop,
)
from drjit_core.codegen.program import Program
from drjit_core.codegen.target import PRIVATE
from drjit_core.runtime.backends import LLVM, backend_of
from drjit_core.runtime.cpu.target import CPU_TARGET, last_level_cache
from drjit_core.runtime.cpu.texts import TEXTS
from drjit_core.runtime.null import Null, NullKernel, NullLaunch
from tests.core.harness import FLOAT32, TRUE, UINT32, array, assert_same_bits, values

SIZE = 1000


def uint(value: int) -> Node:
    return literal(UINT32, value)


def floats(size: int = SIZE) -> Node:
    return array(np.linspace(0.5, 3, size), FLOAT32)


# --- programs ---------------------------------------------------------------------------------------------------------


def elementwise() -> list[Node]:
    x = floats()
    return [ops.fma(x, x, literal(FLOAT32, 3)), sin(x)]


def of_one_element() -> list[Node]:
    return [ops.add(floats(1), literal(FLOAT32, 3))]


def reductions() -> list[Node]:
    index = counter(300_000)
    return [reduce(ops.and_(index, uint(7)), ReduceOp.Add.value), reduce(index, ReduceOp.Max.value)]


def a_mean_that_is_subtracted() -> list[Node]:
    index = counter(SIZE)
    return [ops.sub(index, ops.floordiv(reduce(index, ReduceOp.Add.value), uint(SIZE)))]


def gathers() -> list[Node]:
    table = ops.mul(floats(), floats())
    return [gather(table, ops.xor(counter(512), uint(5)), TRUE),
            gather(floats(7), ops.and_(counter(99), uint(3)), TRUE)]


def scatters() -> list[Node]:
    target = undefined(UINT32, SIZE)
    written = scatter(target, counter(SIZE), ops.sub(uint(SIZE - 1), counter(SIZE)), TRUE, ReduceOp.Identity.value, 0)
    return [scatter(written, uint(7), uint(5), TRUE, ReduceOp.Add.value, 0), written]


def tables_of_threads() -> list[Node]:
    bins = array(np.arange(64), UINT32)
    return [scatter(bins, uint(3), ops.and_(counter(1 << 17), uint(63)), TRUE, ReduceOp.Add.value,
                    ReduceMode.Expand.value)]


def loops() -> list[Node]:
    results = while_loop([uint(0), array(np.arange(SIZE), UINT32), array(np.zeros(8), UINT32)],
                         lambda s: ops.lt(s[0], ops.and_(s[1], uint(15))),
                         lambda s: [ops.add(s[0], uint(1)), s[1],
                                    scatter(s[2], uint(1), ops.and_(s[0], uint(7)), TRUE, ReduceOp.Add.value, 0)])
    return [results[0], results[2]]


def branches() -> list[Node]:
    results, _ = cond(ops.lt(counter(SIZE), uint(300)), [floats()], lambda s: [ops.sqrt(s[0])],
                      lambda s: [ops.neg(s[0])])
    return list(results)


def calls() -> list[Node]:
    table = floats(10)
    results, _ = call(ops.mod(counter(SIZE), uint(3)), TRUE, [
        lambda s: [ops.add(s[0], literal(FLOAT32, 5))], lambda s: [ops.add(s[0], literal(FLOAT32, 7))],
        lambda s: [gather(table, ops.mod(counter(SIZE), uint(10)), TRUE)]], [floats()])
    return list(results)


PROGRAMS = [elementwise, of_one_element, reductions, a_mean_that_is_subtracted, gathers, scatters, tables_of_threads,
            loops, branches, calls]
each_program = pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
Trace = Callable[[], list[Node]]


@pytest.fixture
def null() -> Iterator[Null]:
    with on_backend("null") as backend:
        assert isinstance(backend, Null)
        yield backend


def launches_of(program: Trace, backend: Null) -> list[NullLaunch]:
    with on_backend(backend):
        before = len(backend.launches)
        evaluate(program())
        return backend.launches[before:]


# --- what is the same on all of them ----------------------------------------------------------------------------------


@each_program
def test_the_null_backend_has_the_keys_and_texts_of_kernels_that_run(program: Trace,
                                                                     monkeypatch: pytest.MonkeyPatch) -> None:
    launched: list[tuple[bytes, str, int, int]] = []

    def compile_(assembled: Program, compile_kernel: Any = LLVM.compile) -> Any:
        found = compile_kernel(assembled)
        launched.append((assembled.key, found[0].text, assembled.width, len(assembled.parameters)))
        return found

    monkeypatch.setattr(LLVM, "compile", compile_)
    roots = program()
    with scoped_set_flag(JitFlag.KernelHistory):  # which the short way of the compiled form leaves alone
        evaluate(roots)
    kernel_history_clear()
    recorded = launches_of(program, Null(TEXTS))
    assert sorted(launched) == sorted((each.kernel.key, each.kernel.text, each.width, len(each.parameters))
                                      for each in recorded)
    assert launched


def test_launches_of_one_size_have_one_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is known of a launch keeps it, in recordings as in recipes, on a backend without a way of its own."""
    asked: list[int] = []

    def shape(self: NullKernel, course: Any, units: int, unit: int = 1, shape_of: Any = NullKernel.shape) -> Any:
        asked.append(units)
        return shape_of(self, course, units, unit)

    monkeypatch.setattr(NullKernel, "shape", shape)
    with on_backend("null") as null:
        small, large = (array(np.arange(size), UINT32) for size in (10, 20))
        recorded = Recorded(lambda x: [ops.add(x, ops.mul(x, x))])
        for x in (small, small, small, large, large, small):
            recorded(x)
        assert asked[0] == 10 and [launch.width for launch in null.launches] == [10, 10, 10, 20, 20, 10]
        if rooms.compiled:  # the other form asks each time
            assert asked == [10, 10, 20, 10]


@each_program
def test_the_interpreter_gives_the_values_of_kernels(program: Trace) -> None:
    roots = program()
    evaluate(roots)
    with on_backend("interpreter"):
        interpreted = program()
        assert evaluate(interpreted) and not evaluate(interpreted)
        assert all(state_of(root) is VarState.Evaluated for root in interpreted)
        for root, other in zip(roots, interpreted, strict=True):
            assert_same_bits(values(root), values(other))


@pytest.mark.parametrize("name", ["llvm", "interpreter"])
def test_the_host_reads_and_writes_what_a_backend_has_evaluated(name: str) -> None:
    with on_backend(name):
        x = ops.add(array(np.arange(10), UINT32), uint(5))
        held = [x]
        assert read_element(x, 3) == 8
        y = rewritten(held[0], set_element(3, 99))
        assert [read_element(node, 3) for node in (x, y)] == [8, 99]
        assert values(opaque(literal(FLOAT32, 2, 3))).tolist() == [2, 2, 2]
        data = np.arange(5, dtype=np.uint32)
        shared = import_shared(UINT32, data.ctypes.data, 5, data)
        copied, doubled = unshared(shared), ops.add(shared, shared)
        data[:] = 0
        assert values(copied).tolist() == [0, 1, 2, 3, 4] and values(doubled).tolist() == [0] * 5
        sync()


def test_the_interpreter_stores_all_that_a_loop_computes_which_writes() -> None:
    with on_backend("interpreter"):
        count, total = loops()
        evaluate([count])
        assert state_of(total) is VarState.Evaluated
        assert values(total).sum() == values(count).sum()


def test_an_exception_of_the_interpreter_leaves_everything_pending() -> None:
    with on_backend("interpreter"):
        good, bad = ops.add(counter(10), uint(1)), gather(array(np.arange(4), UINT32), counter(10), TRUE)
        with pytest.raises(IndexError, match="element 4 of an array of 4"):
            evaluate([good, bad])
        assert state_of(good) is state_of(bad) is VarState.Unevaluated
        assert values(good).tolist() == list(range(1, 11))


# --- belonging --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("here", ["llvm", "null", "interpreter"])
@pytest.mark.parametrize("there", ["llvm", "null", "interpreter"])
def test_arrays_of_another_backend_are_refused(here: str, there: str) -> None:
    if here == there:
        return
    with on_backend(there):
        foreign = array(np.arange(10), UINT32)
    with on_backend(here):
        own = array(np.arange(10), UINT32)
        total = ops.add(own, foreign)
        inside, _ = cond(ops.lt(own, uint(5)), [own], lambda s: [gather(foreign, s[0], TRUE)], lambda s: [s[0]])
        for wrong in (total, *inside):
            with pytest.raises(RuntimeError, match=rf"runs on the backend '{here}', but one of its inputs, "
                                                   rf"uint32\[10\], belongs to the backend '{there}'"):
                evaluate([wrong])
        assert state_of(total) is VarState.Unevaluated
        fine = ops.add(own, uint(1))
        evaluate([fine])
        assert state_of(fine) is VarState.Evaluated


def test_a_backend_is_chosen_by_a_thread_and_until_the_end_of_the_block() -> None:
    found = []
    with pytest.raises(KeyError), on_backend("null") as outer:
        assert backend_of(0) is outer
        with on_backend("interpreter") as inner:
            assert backend_of(0) is inner
        thread = threading.Thread(target=lambda: found.append(backend_of(0)))
        thread.start()
        thread.join()
        assert backend_of(0) is outer
        raise KeyError
    assert found == [LLVM] and backend_of(0) is LLVM
    with pytest.raises(ValueError, match="no backend 'ptx', only llvm, null, interpreter"), on_backend("ptx"):
        pass


# --- the null backend -------------------------------------------------------------------------------------------------


def test_memory_of_the_null_backend_has_no_elements(null: Null) -> None:
    x = array(np.arange(100), UINT32)
    y = ops.add(x, x)
    evaluate([y])
    for access in (lambda: read_element(y, 0), lambda: rewritten(y, set_element(0, 1)), lambda: host_view(x),
                   lambda: interpret([y])):
        with pytest.raises(RuntimeError, match="null backend launches nothing and keeps no memory: an array of 400 b"):
            access()
    sync()


def test_launches_are_recorded_with_their_parameters(null: Null) -> None:
    x = array(np.arange(100), UINT32)
    y = ops.mul(x, uint(1234))
    with scoped_set_flag(JitFlag.KernelHistory):
        kernel_history_clear()
        evaluate([y])
        (entry,) = kernel_history()
    (launch,) = null.launches
    assert launch.width == 100
    assert {x.payload.address, y.payload.address, 1234, 100} <= set(launch.parameters)
    assert (entry["size"], entry["hash"], entry["cache_hit"]) == (100, launch.kernel.hash, 0)
    assert len({node.payload.address // 4096 for node in (x, y)} | {0}) > 1 and x.payload.address != y.payload.address


def test_records_do_not_change_what_is_planned_next(null: Null) -> None:
    """Who holds a node makes a write copy it."""
    x = array(np.zeros(100), UINT32)
    for _ in range(3):
        address = x.payload.address
        x = scatter(x, uint(1), counter(100), TRUE, ReduceOp.Identity.value, 0)
        evaluate([x])
        assert x.payload.address == address
    assert len(null.launches) == 3 and len(null.kernels) == 1


def test_a_target_decides_how_scatter_reductions_cope_with_conflicts() -> None:
    def kernels(threads: int) -> list[int]:
        target = CPU_TARGET._replace(threads=threads)
        return [each.width for each in launches_of(tables_of_threads, Null(TEXTS, target))]

    assert kernels(1) == [1 << 17]
    assert kernels(4) == [4 * 64, 1 << 17, 64]  # tables are filled, updated and merged
    first, second = (launches_of(tables_of_threads, Null(TEXTS, CPU_TARGET._replace(threads=threads)))[1]
                     for threads in (2, 4))
    assert first.kernel.key == second.kernel.key and PRIVATE == 2


def test_a_target_decides_what_is_written_past_the_cache() -> None:
    def root() -> list[Node]:
        return [ops.mul(array(np.zeros(1 << 21), FLOAT32), literal(FLOAT32, 3))]

    small, large = (launches_of(root, Null(TEXTS, CPU_TARGET._replace(streaming_bytes=size)))[0].kernel
                    for size in (1 << 23, 1 << 25))
    assert "nontemporal" in small.text and "nontemporal" not in large.text and small.key != large.key
    assert 1 << 10 < last_level_cache() <= 32 << 20 and backend_of(0) is LLVM
    assert LLVM.target().streaming_bytes == last_level_cache()


def instances(count: int, argument: Node | None = None) -> list[Node]:
    """A call of as many instances of one class, each with a number and an array of its own."""
    def method(number: int, data: Node) -> Callable[[list[Node]], list[Node]]:
        return lambda s: [ops.fma(s[0], literal(FLOAT32, number + 0.5), gather(data, counter(SIZE), TRUE))]

    index = ops.mod(array(np.arange(SIZE), UINT32), uint(count))
    targets = [method(number, array(np.full(SIZE, number), FLOAT32)) for number in range(count)]
    return list(call(index, TRUE, targets, [argument or floats()])[0])


def instances_in_a_loop(count: int) -> list[Node]:
    return while_loop([uint(0), floats()], lambda s: ops.lt(s[0], uint(5)),
                      lambda s: [ops.add(s[0], uint(1)), *instances(count, s[1])])[1:]


def instances_in_a_branch_in_a_loop(count: int) -> list[Node]:
    def body(s: list[Node]) -> list[Node]:
        results, _ = cond(ops.lt(s[1], literal(FLOAT32, 2)), [s[1]], lambda s: instances(count, s[0]), lambda s: [s[0]])
        return [ops.add(s[0], uint(1)), *results]

    return while_loop([uint(0), floats()], lambda s: ops.lt(s[0], uint(5)), body)[1:]


def instances_in_a_call(count: int) -> list[Node]:
    """Its targets use a number that those of the inner call use as well."""
    number = opaque(literal(FLOAT32, 3.5))
    evaluate([number])

    def outer(s: list[Node]) -> list[Node]:
        return [ops.mul(number, instances(count, s[0])[0])]

    return list(call(ops.and_(counter(SIZE), uint(1)), TRUE, [outer, lambda s: [ops.neg(s[0])]], [floats()])[0])


def instances_with_numbers_that_are_evaluated_later(count: int) -> list[Node]:
    numbers = [opaque(literal(FLOAT32, number + 0.25)) for number in range(count)]

    def body(s: list[Node]) -> list[Node]:
        index = ops.mod(array(np.arange(SIZE), UINT32), uint(count))
        results, _ = call(index, TRUE, [lambda s, number=number: [ops.add(s[0], number)] for number in numbers], [s[1]])
        return [ops.add(s[0], uint(1)), *results]

    results = while_loop([uint(0), floats()], lambda s: ops.lt(s[0], uint(5)), body)
    evaluate(numbers)
    return results[1:]


INSTANCES = {"alone": (instances, 1), "in a loop": (instances_in_a_loop, 1),
             "in a branch in a loop": (instances_in_a_branch_in_a_loop, 1), "in a call": (instances_in_a_call, 3),
             "evaluated later": (instances_with_numbers_that_are_evaluated_later, 1)}


@pytest.mark.parametrize(("trace", "functions"), INSTANCES.values(), ids=INSTANCES)
def test_instances_with_other_literals_and_buffers_are_one_function_and_their_number_is_no_part_of_the_text(
        trace: Callable[[int], list[Node]], functions: int) -> None:
    backend = Null(TEXTS)
    found = {count: launches_of(lambda count=count: trace(count), backend)[-1]  # type: ignore[misc]
             for count in (2, 10, 1000)}
    for count, launch in found.items():
        # beside those of one target at a time there may be others, which take elements of several
        assert launch.kernel.text.count("define void @target") == functions
        if functions == 1:  # else it is in the record of another function
            assert count in launch.parameters
    assert len({launch.kernel.text for launch in found.values()}) == 1
    assert len({launch.kernel.key for launch in found.values()}) == 1


@pytest.mark.parametrize("trace", [trace for trace, _ in INSTANCES.values()], ids=INSTANCES)
def test_instances_compute_what_the_interpreter_does(trace: Callable[[int], list[Node]]) -> None:
    with on_backend("interpreter"):
        expected = values(trace(10)[0])
    assert_same_bits(values(trace(10)[0]), expected)


# --- programs beside others -------------------------------------------------------------------------------------------


def beside_values() -> list[Node]:
    return [ops.neg(floats(777))]


def beside_stages() -> list[Node]:
    index = counter(778)
    total = reduce(ops.mul(index, index), ReduceOp.Add.value)
    return [ops.sub(index, total), gather(ops.add(index, total), ops.xor(counter(779), uint(1)), TRUE)]


def beside_writes() -> list[Node]:
    return [scatter(array(np.zeros(780), UINT32), uint(1), counter(780), TRUE, ReduceOp.Identity.value, 0)]


@pytest.mark.parametrize("others", [[beside_values], [beside_stages], [beside_writes],
                                    [beside_values, beside_stages, beside_writes]],
                         ids=lambda others: "-".join(other.__name__ for other in others))
@each_program
def test_a_kernel_is_the_same_whether_it_is_planned_alone_or_beside_others(program: Trace, others: list[Trace]) -> None:
    """The others need kernels of other widths: those of one stage and width would be one kernel."""
    alone = [each.kernel.key for each in launches_of(program, Null(TEXTS))]
    apart = [each.kernel.key for other in others for each in launches_of(other, Null(TEXTS))]
    for programs in ([program, *others], [*others, program]):
        together = launches_of(lambda programs=programs: [root for each in programs for root in each()],  # type: ignore[misc]
                               Null(TEXTS))
        assert sorted(each.kernel.key for each in together) == sorted([*alone, *apart])
