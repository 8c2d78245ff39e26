"""Recordings: what was launched once is launched again for other arguments, with what tracing afresh would give."""

from __future__ import annotations

import gc
import itertools
import math
import os
import sys
import weakref
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest

import drjit_core
from drjit_core import (
    TYPES,
    JitFlag,
    Node,
    ReduceMode,
    ReduceOp,
    access,
    atomic,
    bitcast,
    bound,
    call,
    cast,
    cond,
    copysign,
    counter,
    evaluate,
    gather,
    host_view,
    isfinite,
    isinf,
    isnan,
    kernel_statistics,
    literal,
    malloc_statistics,
    mulsign,
    on_backend,
    opaque,
    ops,
    read_element,
    record,
    reduce,
    scatter,
    schedule,
    scoped_set_flag,
    set_thread_count,
    sign,
    sin,
    size_of,
    sync,
    thread_count,
    undefined,
    while_loop,
)
from drjit_core.codegen.expand import stand_in
from drjit_core.codegen.signature import Role
from drjit_core.errors import SymbolicValue
from drjit_core.ir.extents import Extent
from drjit_core.ir.node import node_count
from drjit_core.ops.table import LITERAL, PHI
from drjit_core.passes.domain import WIDE_EXTENT
from drjit_core.rooms import compiled
from drjit_core.runtime.backends import LLVM
from drjit_core.runtime.buffer import Buffer
from drjit_core.runtime.cpu.backend import CPU
from drjit_core.runtime.cpu.target import CPU_TARGET
from drjit_core.runtime.cpu.texts import TEXTS
from drjit_core.runtime.null import Null
from drjit_core.runtime.recording import Recorded
from tests.core import regions
from tests.core.harness import (
    ALL_TYPES,
    BOOL,
    FLOAT32,
    TRUE,
    UINT32,
    array,
    assert_same_bits,
    dtype_of,
    launches,
    name_of,
    shared,
    values,
)

ADD = ReduceOp.Add.value
#: Elements of a kernel of three streams of floats that writes past the cache.
PAST_CACHE = CPU_TARGET.streaming_bytes // 8
Function = Callable[..., Sequence[Node]]


def floats(size: int, seed: int = 0) -> Node:
    return array(np.random.default_rng(seed).random(size, np.float32) + np.float32(0.5))


def indices(size: int, limit: int, seed: int = 0) -> Node:
    return array(np.random.default_rng(seed).integers(0, limit, size).astype(np.uint32))


def number(value: float, size: int = 1) -> Node:
    return literal(FLOAT32, value, size)


def one() -> Node:
    return number(1.0)


# --- programs --------------------------------------------------------------------------------------------------------


def saxpy(a: Node, x: Node, y: Node) -> list[Node]:
    return [ops.fma(a, x, y)]


def mean(x: Node) -> list[Node]:
    return [ops.mul(reduce(sin(x), ADD), bound(FLOAT32, 1.0 / size_of(x)))]


def normalised(x: Node) -> list[Node]:
    total = reduce(x, ADD)
    return [ops.div(x, total), total]


def histogram(index: Node, mode: ReduceMode = ReduceMode.Auto) -> list[Node]:
    return [scatter(literal(UINT32, 0, 64), literal(UINT32, 1), index, TRUE, ADD, mode.value)]


def histogram_by_tables(index: Node) -> list[Node]:
    return histogram(index, ReduceMode.Expand)


def histogram_by_atomics(index: Node) -> list[Node]:
    return histogram(index, ReduceMode.Direct)


def put(x: Node, index: Node, value: Node) -> list[Node]:
    return [scatter(x, value, index, TRUE, 0, 0), x]


def positions(x: Node) -> list[Node]:
    size = size_of(x)
    return [ops.add(x, cast(counter(size), FLOAT32)), number(3.0, size), counter(size * 2 + 1),  # type: ignore[arg-type]
            reduce(literal(UINT32, 3, size), ADD)]  # type: ignore[arg-type]


def fresh_memory(x: Node) -> list[Node]:
    size = size_of(x)
    return [scatter(undefined(FLOAT32, size), x, counter(size), TRUE, 0, 0)]


def lookup(table: Node, index: Node) -> list[Node]:
    return [ops.mul(gather(table, index, TRUE), number(2.0))]


def of_two_sizes(x: Node, y: Node) -> list[Node]:
    return [ops.add(x, one()), ops.add(y, number(2.0)), x, x]


def power(exponent: Node, x: Node) -> list[Node]:
    def body(state: list[Node]) -> list[Node]:
        return [ops.add(state[0], literal(UINT32, 1)), ops.mul(state[1], x)]

    return [while_loop((literal(UINT32, 0), one()), lambda state: ops.lt(state[0], exponent), body)[1]]


def loop_that_writes(bins: Node, x: Node) -> list[Node]:
    """Each lane adds its number of steps to a bin, step by step."""
    def body(state: list[Node]) -> list[Node]:
        i, memory = state
        return [ops.add(i, literal(UINT32, 1)), scatter(memory, literal(UINT32, 1), i, TRUE, ADD, 0)]

    steps = cast(ops.mul(x, number(3.0)), UINT32)
    return list(while_loop((literal(UINT32, 0), bins), lambda state: ops.lt(state[0], steps), body))


def branch(limit: Node, x: Node) -> list[Node]:
    return cond(ops.gt(x, limit), [x], lambda v: [ops.mul(v[0], limit)], lambda v: [sin(v[0])])[0]


def calls(a: Node, table: Node, x: Node) -> list[Node]:
    """Targets with literals, memory and scalars of their own, and one within another."""
    scale = gather(table, literal(UINT32, 0), TRUE)
    parity = ops.and_(cast(ops.mul(x, number(10.0)), UINT32), literal(UINT32, 1))

    def inner(v: list[Node]) -> list[Node]:
        return call(parity, TRUE, [lambda w: [ops.sub(w[0], a)], lambda w: [ops.mul(w[0], number(7.0))]], v)[0]

    targets = [lambda v: [ops.mul(v[0], a)], lambda v: [ops.add(v[0], gather(table, literal(UINT32, 1), TRUE))],
               lambda v: [ops.mul(v[0], scale)], inner]
    which = ops.mod(cast(ops.mul(x, number(100.0)), UINT32), literal(UINT32, 5))
    return call(which, TRUE, targets, [x])[0]


def same_twice(x: Node, y: Node) -> list[Node]:
    product = ops.mul(x, y)
    return [product, product, y]


def of_literals(a: Node, b: Node) -> list[Node]:
    return [ops.add(a, b), a, number(4.0)]


def several_stages(x: Node) -> list[Node]:
    """Kernels that read what others have written, and memory that is needed for a while only."""
    for _ in range(3):
        x = ops.div(x, reduce(x, ReduceOp.Max.value))
        x = scatter(x, reduce(x, ADD), literal(UINT32, 0), TRUE, 0, 0)
        evaluate([x])
    return [x]


Arguments = list[tuple[Node, ...]]
#: Programs; arguments for which one recording is enough; and others, each of which needs one more.
CASES: list[tuple[Function, Arguments, Arguments]] = [
    (saxpy, [(number(2.0), floats(100), floats(100)), (number(3.0), floats(50), floats(50)),
             (number(0.0), floats(33), floats(33)), (number(1.0), floats(100_000), floats(100_000))],
     [(number(1.0), floats(50), floats(1)), (floats(1), floats(50), floats(50)),
      (floats(50), floats(50), floats(50)), (number(1.0), floats(1), floats(1)),
      (number(2.0), floats(PAST_CACHE), floats(PAST_CACHE))]),
    (mean, [(floats(100),), (floats(33),), (floats(100_000),)], [(floats(1),), (number(3.0),)]),
    (normalised, [(floats(100),), (floats(33),), (floats(100_000),)], [(floats(1),)]),
    (histogram, [(indices(1000, 64),), (indices(20, 64),)], [(indices(1, 64),), (indices(100_000, 64),)]),
    (histogram_by_tables, [(indices(100_000, 64),), (indices(123_456, 64),)], [(indices(100, 64),)]),
    (histogram_by_atomics, [(indices(100_000, 64),), (indices(123_456, 64),)], [(indices(100, 64),)]),
    (put, [(floats(10), indices(3, 10), floats(3)), (floats(20), indices(5, 20), floats(5))],
     [(floats(20), indices(1, 20), floats(1)), (number(3.0), indices(1, 1), floats(1)),
      (number(3.0, 20), indices(7, 20), floats(7))]),
    (positions, [(floats(10),), (floats(20),), (floats(1000),)], [(floats(1),)]),
    (fresh_memory, [(floats(10),), (floats(20),)], [(floats(1),)]),
    (lookup, [(floats(10), indices(5, 10)), (floats(20), indices(9, 20))],
     [(floats(1), indices(4, 1)), (number(4.0), indices(4, 1)), (floats(20), literal(UINT32, 3))]),
    (of_two_sizes, [(floats(10), floats(20)), (floats(20), floats(7)), (floats(20), floats(20, 1))],
     [(floats(1), floats(20)), (shared_argument := floats(20), shared_argument)]),
    (power, [(literal(UINT32, 3), floats(20)), (literal(UINT32, 0), floats(9)), (literal(UINT32, 11), floats(100))],
     [(array([4], UINT32), floats(20)), (indices(20, 5), floats(20))]),
    (loop_that_writes, [(literal(UINT32, 0, 8), floats(20)), (literal(UINT32, 7, 5), floats(100))],
     [(indices(8, 3), floats(20)), (indices(8, 3), floats(1))]),
    (branch, [(number(1.0), floats(20)), (number(0.0), floats(33)), (number(2.0), floats(1000))],
     [(floats(1), floats(20)), (number(1.0), floats(1))]),
    (calls, [(number(1.0), floats(3), floats(20)), (number(0.7), floats(5), floats(333)),
             (number(0.0), floats(2), floats(2))], [(floats(1), floats(3), floats(20))]),
    (same_twice, [(floats(10), floats(10, 1)), (floats(20), floats(20, 1))],
     [(shared_argument, shared_argument), (floats(20), floats(1))]),
    (of_literals, [(number(1.0), number(2.0)), (number(0.0), number(0.0)), (number(5.0), number(-1.0))],
     [(number(2.0, 7), number(1.0)), (floats(1), number(1.0))]),
    (several_stages, [(floats(100),), (floats(3000),)], [(floats(1),)]),
]


def contents(nodes: Sequence[Node]) -> list[Any]:
    return [values(node) for node in nodes]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0].__name__)
def test_replays_give_what_tracing_gives(case: tuple[Function, Arguments, Arguments]) -> None:
    function, alike, others = case
    recorded = Recorded(function)
    for number_of_recordings, arguments in [*((1, each) for each in alike), *enumerate(others, 2),
                                            *((1 + len(others), each) for each in alike)]:
        before = contents(arguments)
        results = recorded(*arguments)
        for found, expected in zip(contents(results), contents(function(*arguments)), strict=True):
            assert_same_bits(found, expected, function.__name__)
        for now, then in zip(contents(arguments), before, strict=True):
            assert_same_bits(now, then, "argument")
        assert len(recorded.recordings) == number_of_recordings, [len(values(node)) for node in arguments]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0].__name__)
def test_kernels_that_are_known_are_noted_as_their_programs_are(case: tuple[Function, Arguments, Arguments]) -> None:
    function, alike, others = case
    for arguments in (*alike, *others):
        with scoped_set_flag(JitFlag.KernelHistory, True):  # which the short way knows nothing of
            expected, _ = record(function, arguments)
        for _ in range(3):  # the second time makes a recipe, where kernels are not straight ones
            shortly = LLVM.recipes.launches
            found, results = record(function, arguments)
            shortly = LLVM.recipes.launches - shortly
            assert found.is_like(expected)
            assert found.contents()[2:12] == expected.contents()[2:12]
            for one, other in zip(found.stages, expected.stages, strict=True):
                assert (one.course, one.units, one.arrays, one.releases) == (
                    other.course, other.units, other.arrays, other.releases)
            for node, correct in zip(contents(results), contents(function(*arguments)), strict=True):
                assert_same_bits(node, correct, function.__name__)
        if compiled and arguments is alike[0]:
            assert shortly >= found.kernels, "a kernel that is known went the general way"


@pytest.mark.parametrize("type_", ALL_TYPES, ids=name_of)
def test_literals_of_all_types_are_arguments(type_: int) -> None:
    """The special values included, which trace functions may know something of."""
    dtype = dtype_of(type_)

    def copies(x: Node) -> list[Node]:
        return [opaque(x), ops.and_(x, x) if type_ == BOOL else ops.select(ops.eq(x, x), x, x)]

    if type_ == BOOL:
        special: list[Any] = [True, False]
    elif TYPES[type_].is_float:
        special = [0, 1, -1, -0.0, 0.1, 1e-7, math.nan, math.inf, -math.inf]
    else:
        special = [0, 1, 5, int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)]
    recorded = Recorded(copies)
    for size, value in itertools.product((1, 3, 17), special):
        for found in recorded(literal(type_, value, size)):
            assert_same_bits(values(found), np.full(size, value).astype(dtype), (size, value))
    assert len(recorded.recordings) == 2  # of one element, and of more


# --- on the null backend: launches are compared with those of tracing ------------------------------------------------


def launched(backend: Null, run: Callable[[], Any]) -> list[tuple[bytes, int, bool, list[Any]]]:
    """What a call launches: keys, widths, and the parameters that are no addresses."""
    backend.launches.clear()
    run()
    return [(launch.kernel.key, launch.width, launch.single,
             [word if role in (Role.WIDTH, Role.LITERAL, Role.TABLE_BYTES, Role.TARGETS, Role.ARGUMENT) else
              _array_of(word) for role, word in zip(launch.kernel.signature.roles, launch.parameters, strict=True)])
            for launch in backend.launches]


def _array_of(address: int) -> Any:
    """Addresses may be any, but not those of nothing."""
    return address != 0


def sized(type_: int, size: int) -> Node:
    node = opaque(undefined(type_, size))
    assert node.size == size
    return node


def update(target: Node, index: Node, value: Node) -> list[Node]:
    return [scatter(target, value, index, TRUE, ADD, ReduceMode.Auto.value)]


def lookup_in_a_call(table: Node, index: Node) -> list[Node]:
    return call(ops.and_(index, literal(UINT32, 1)), TRUE, [
        lambda a: [gather(table, a[0], TRUE)], lambda a: [ops.neg(gather(table, a[0], TRUE))]], [index])[0]


def scaled(a: Node, x: Node) -> list[Node]:
    return [ops.mul(x, a)]


THRESHOLD, CACHE, NARROW = 50_000, 1 << 24, WIDE_EXTENT - 1
#: Programs with the sizes of their arguments on both sides of everything that a size decides.
GUARDS: dict[str, tuple[Function, Callable[[int], tuple[Node, ...]], list[tuple[int, int]]]] = {
    "width of positions": (scaled, lambda n: (number(2.0), sized(FLOAT32, n)), [(1, 2), (NARROW, NARROW + 1)]),
    "past the cache": (scaled, lambda n: (number(2.0), sized(FLOAT32, n)), [(CACHE // 8, CACHE // 8 + 1)]),
    "width of indices": (lookup, lambda n: (sized(FLOAT32, n), sized(UINT32, 100)), [(NARROW, NARROW + 1)]),
    "width of indices in a target": (lookup_in_a_call, lambda n: (sized(FLOAT32, n), sized(UINT32, 100)),
                                     [(NARROW, NARROW + 1)]),
    "threads share it": (update, lambda n: (sized(UINT32, 9), sized(UINT32, n), literal(UINT32, 5)),
                         [(CPU_TARGET.single, CPU_TARGET.single + 1)]),
    "tables per thread": (update, lambda n: (sized(UINT32, n), sized(UINT32, 100_000), literal(UINT32, 5)),
                          [(THRESHOLD, THRESHOLD + 1)]),
    "tables for fewer elements": (update, lambda n: (sized(UINT32, 45_000), sized(UINT32, n), literal(UINT32, 5)),
                                  [(44_999, 45_000)]),
}


@pytest.mark.parametrize("name", GUARDS)
def test_each_decision_by_size_is_a_guard(name: str) -> None:
    """A recording made on either side of a limit is good on that side, and there launches what tracing launches."""
    function, make, limits = GUARDS[name]
    with on_backend(Null(TEXTS, CPU_TARGET._replace(threads=2, tables=THRESHOLD, streaming_bytes=CACHE))) as backend:
        assert isinstance(backend, Null)
        for below, above in limits:
            for here, there in ((below, above), (above, below)):
                recording, _ = record(function, make(here))
                assert recording.obstacle(make(here)) is None
                assert recording.obstacle(make(there)) is not None
                replayed = launched(backend, partial(recording.replay, make(here)))
                assert replayed == launched(backend, partial(record, function, make(here))), (here, there)
                other = launched(backend, partial(record, function, make(there)))
                assert [key for key, *_ in replayed] != [key for key, *_ in other], "the limit decides nothing"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0].__name__)
def test_replays_launch_what_recording_launches(case: tuple[Function, Arguments, Arguments]) -> None:
    function, alike, _ = case
    with on_backend(Null(TEXTS)) as backend:
        assert isinstance(backend, Null)
        recorded = Recorded(function)
        for arguments in alike:
            nodes = [node if node.kind == LITERAL else sized(node.type, node.size) for node in arguments]
            recorded(*nodes)
            replayed = launched(backend, partial(recorded, *nodes))
            if function is not of_two_sizes:  # where sizes are equal by chance, tracing finds one kernel for both
                assert replayed == launched(backend, partial(record, function, nodes))
        assert len(recorded.recordings) == 1


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0].__name__)
def test_replays_of_which_is_told_launch_the_same(case: tuple[Function, Arguments, Arguments]) -> None:
    """Stages are launched in two ways."""
    function, alike, _ = case
    with on_backend(Null(TEXTS)) as backend:
        assert isinstance(backend, Null)
        recorded = Recorded(function)
        for arguments in alike:
            nodes = [node if node.kind == LITERAL else sized(node.type, node.size) for node in arguments]
            recorded(*nodes)
            replayed = launched(backend, partial(recorded, *nodes))
            with launches() as entries:
                assert replayed == launched(backend, partial(recorded, *nodes))
            assert len(entries) >= len([stage for stage in recorded.recordings[0].stages if stage.kernel is not None])
        assert len(recorded.recordings) == 1


def repeat(count: int) -> list[tuple[int, int, int]]:
    """Replay programs of all kinds so often, in three parts; after each, bytes of the process, number of nodes, and
    bytes of arrays."""
    cases = [Recorded(function) for function, _, _ in CASES]
    arguments = [alike[:2] for _, alike, _ in CASES]
    found = []
    for _ in range(3):
        for number in range(count // sum(map(len, arguments)) // 3 + 1):
            for recorded, alike in zip(cases, arguments, strict=True):
                for each in alike:
                    recorded(*each)
            if number % 50 == 0:
                sync()  # launches that have not run keep their memory
        sync()
        gc.collect()
        found.append((resident(), node_count(), malloc_statistics()["in_use"]))
    return found


def resident() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="nobody says how large the process is")
@pytest.mark.parametrize("count", [2000, pytest.param(1_000_000, marks=pytest.mark.exhaustive)])
def test_replays_leave_nothing(count: int) -> None:
    _, (before, *counts), (after, *found) = repeat(count)
    assert found == counts
    assert count < 100_000 or after - before < 2 << 20  # kernels are compiled again meanwhile


def test_replays_trace_and_look_up_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    recording, _ = record(saxpy, [number(2.0), floats(100), floats(100)])
    arguments = [number(-3.5), floats(70, 1), floats(70, 2)]
    (expected,) = contents(saxpy(*arguments))

    def fail(*_: Any, **__: Any) -> Any:
        raise AssertionError("a replay traces nothing")

    for owner, name in (("drjit_core.runtime.launch", "assemble"), ("drjit_core.runtime.launch", "plan"),
                        ("drjit_core.ir.build", "append"), ("drjit_core.runtime.cpu.cache", "lookup")):
        monkeypatch.setattr(f"{owner}.{name}", fail)
    (found,) = recording.replay(arguments)
    assert_same_bits(values(found), expected)


# --- what a recording must not do ------------------------------------------------------------------------------------


def looks(x: Node) -> list[Node]:
    return [x] if read_element(ops.add(x, one()), 0) else []


def views(x: Node) -> list[Node]:
    host_view(x)
    return [x]


def test_looking_at_contents_is_refused() -> None:
    for function in (looks, views):
        with pytest.raises(RuntimeError, match="being recorded, and looks at the contents of an array"):
            record(function, [floats(10)])
    assert_same_bits(values(ops.add(number(1.0), number(1.0))), np.float32([2.0]))  # and all is as before


def test_writing_to_what_others_see_is_refused() -> None:
    held = [floats(10)]

    def writes(x: Node) -> list[Node]:
        held[0] = scatter(held[0], x, counter(10), TRUE, 0, 0)
        return [held[0]]

    with pytest.raises(RuntimeError, match=r"writes to an array that is neither one of its arguments .* float32\[10\]"):
        record(writes, [floats(10)])


def test_captured_arrays_are_read_by_each_replay_and_never_written_to() -> None:
    outside = floats(10)
    expected = values(outside)

    def function(x: Node) -> list[Node]:
        imported = array(np.zeros(4, np.float32))
        return [ops.add(x, outside), scatter(imported, reduce(x, ADD), literal(UINT32, 1), TRUE, ADD, 0)]

    recorded = Recorded(function)
    for seed in range(3):
        x = floats(10, seed)
        for found, fresh in zip(contents(recorded(x)), contents(function(x)), strict=True):
            assert_same_bits(found, fresh)
    assert len(recorded.recordings) == 1
    assert_same_bits(values(outside), expected)


def test_what_is_donated_is_written_to_in_place() -> None:
    """As often as it is written to; and if it is not, it comes back as it is."""
    def function(given: list[Node], index: Node, read: list[Node]) -> list[Node]:
        memory = scatter(given.pop(), one(), index, TRUE, ADD, 0)
        memory = scatter(memory, number(3.0), literal(UINT32, 0), TRUE, ADD, 0)
        evaluate([memory])
        total = reduce(cast(index, FLOAT32), ADD)
        return [scatter(memory, total, literal(UINT32, 1), TRUE, ADD, 0), total, read.pop()]

    def written(memory: Any, index: Any) -> Any:
        memory = memory.copy()
        np.add.at(memory, index, np.float32(1))
        memory[0] += 3
        memory[1] += (total := index.sum(dtype=np.float32))
        return memory, total

    recording = None
    for size, seed in ((10, 0), (10, 1), (30, 2), (30, 3)):
        x, index, y = floats(size, seed), indices(4, 10, seed), floats(size, 9)
        expected, total = written(values(x), values(index))
        address = x.payload.address
        if recording is None:
            recording, results = record(function, [x, index, y], donated=[0, 2])
            assert len(recording.stages) == 4  # no copies
        else:
            assert recording.obstacle([x, index, y]) is None
            results = recording.replay([x, index, y])
            assert results[2] is y
        assert results[0].payload.address == address and results[0] is not x
        np.testing.assert_allclose(values(results[0]), expected, rtol=1e-6)
        np.testing.assert_allclose(values(results[1]), [total], rtol=1e-6)


def test_what_others_see_is_copied_though_it_is_donated() -> None:
    def function(given: list[Node], *_: Node) -> list[Node]:
        return [scatter(given.pop(), one(), literal(UINT32, 2), TRUE, 0, 0)]

    recording, _ = record(function, [floats(10)], donated=[0])
    data = np.arange(10, dtype=np.float32)
    x = floats(10)
    before = values(x)
    x.payload.exported = True
    (result,) = recording.replay([x])
    assert_same_bits(values(x), before)
    assert read_element(result, 2) == 1 and read_element(result, 3) == before[3]
    x = shared(data)
    both, (result,) = record(function, [x, x], donated=[0])
    assert read_element(result, 2) == 1 and data[2] == 2
    (result,) = both.replay([x, x])
    assert read_element(result, 2) == 1 and data[2] == 2


def test_what_a_function_keeps_of_a_donated_argument_is_its_own() -> None:
    kept: list[Node] = []

    def function(given: list[Node]) -> list[Node]:
        kept.append(given[0])
        return [scatter(given.pop(), one(), literal(UINT32, 2), TRUE, 0, 0), kept[0]]

    x = floats(10)
    expected = values(x)
    _, results = record(function, [x], donated=[0])
    assert_same_bits(values(kept[0]), expected)
    assert_same_bits(values(results[1]), expected)
    assert read_element(results[0], 2) == 1


def test_results_of_a_replay_are_its_own() -> None:
    """What is written to results, by arrays or by the host, changes neither arguments nor what other replays return."""
    recorded = Recorded(lambda x: [ops.add(x, one()), x])
    x = floats(10)
    expected = values(ops.add(x, one()))
    first, second = recorded(x)[0], recorded(x)[0]
    first = scatter(first, number(0.0), counter(10), TRUE, 0, 0)
    assert_same_bits(values(first), np.zeros(10, np.float32))
    assert_same_bits(values(second), expected)
    assert_same_bits(values(recorded(x)[0]), expected)


def test_what_was_computed_of_an_argument_before_is_captured() -> None:
    x = floats(10)
    before = ops.mul(x, number(3.0))
    recording, results = record(lambda y: [ops.add(y, before), y], [x])
    assert results[1] is x
    y = floats(10, 1)
    assert_same_bits(values(recording.replay([y])[0]), values(ops.add(y, before)))


def test_what_a_function_keeps_of_its_arguments_is_its_own() -> None:
    kept: list[Node] = []

    def function(x: Node) -> list[Node]:
        kept.append(x)
        return [ops.add(x, one())]

    x = floats(10)
    expected = values(x)
    record(function, [x])
    x = scatter(x, number(0.0), counter(10), TRUE, 0, 0)
    assert_same_bits(values(x), np.zeros(10, np.float32))
    assert_same_bits(values(kept[0]), expected)


def test_what_was_scheduled_before_is_no_part_of_a_recording() -> None:
    pending = ops.mul(floats(10), number(3.0))
    schedule([pending])
    with launches() as entries:
        recording, _ = record(lambda x: [ops.add(x, one())], [floats(5)])
        recording.replay([floats(5)])
    assert [entry["size"] for entry in entries] == [10, 5, 5]


def test_a_recording_within_another_one_is_part_of_it() -> None:
    inner = Recorded(lambda x: [ops.mul(x, number(3.0))])
    outer = Recorded(lambda x: [ops.add(inner(x)[0], one())])
    for size in (10, 20):
        x = floats(size)
        assert_same_bits(values(outer(x)[0]), values(ops.add(ops.mul(x, number(3.0)), one())))
    assert not inner.recordings and len(outer.recordings) == 1


def test_exceptions_end_a_recording() -> None:
    def function(x: Node) -> list[Node]:
        evaluate([ops.add(x, one())])
        raise KeyError("mine")

    recorded = Recorded(function)
    with pytest.raises(KeyError, match="mine"):
        recorded(floats(10))
    assert not recorded.recordings
    assert read_element(floats(10), 0) > 0  # nothing is recorded any more


def test_flags_and_thread_counts_are_part_of_the_pattern() -> None:
    recorded = Recorded(histogram_by_tables)
    index = indices(100_000, 64)
    expected = values(histogram(index)[0])
    before = thread_count()
    try:
        for count, number_of_recordings in ((1, 1), (2, 2), (1, 2), (2, 2)):
            set_thread_count(count)
            assert_same_bits(values(recorded(index)[0]), expected)
            assert len(recorded.recordings) == number_of_recordings
        with scoped_set_flag(JitFlag.Debug):
            assert_same_bits(values(recorded(index)[0]), expected)
        assert len(recorded.recordings) == 3
    finally:
        set_thread_count(before)


def test_a_recording_during_which_the_number_of_threads_changes_is_not_used() -> None:
    """Its kernels were made for a number of threads that its replays would not have."""
    before = thread_count()

    def alone(index: Node) -> list[Node]:
        set_thread_count(1)
        counts = histogram(index)
        evaluate(counts)
        return counts

    recorded, index = Recorded(alone), indices(1 << 20, 4)
    expected = np.bincount(values(index), minlength=64).astype(np.uint32)
    try:
        for _ in range(3):
            set_thread_count(2)
            assert_same_bits(values(recorded(index)[0]), expected)
        set_thread_count(2)
        obstacle = recorded.recordings[0].obstacle([index])
        assert obstacle == "the number of threads, or what else it runs on, has changed while it was recorded"
    finally:
        set_thread_count(before)


def test_replays_are_printed_counted_and_logged(capsys: pytest.CaptureFixture[str],
                                                caplog: pytest.LogCaptureFixture) -> None:
    recorded, x = Recorded(mean), floats(100)
    recorded(x)
    before = kernel_statistics()
    with scoped_set_flag(JitFlag.PrintIR), caplog.at_level("INFO", logger="drjit"):
        recorded(x)
    after = kernel_statistics()
    assert len(recorded.recordings) == 1
    assert {name: after[name] - before[name] for name in after} == {"launches": 2, "hits": 2, "loaded": 0,
                                                                    "compiled": 0}
    assert capsys.readouterr().out.count("define void @kernel(") == 2
    assert len([record for record in caplog.records if "launching" in record.getMessage()]) == 2


@pytest.mark.parametrize("replayed", [False, True], ids=["traced", "replayed"])
def test_an_interrupt_does_not_lose_what_debug_mode_reports(replayed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel has run, and so must tell what it has found, even if Ctrl-C comes as soon as it is submitted."""
    submit = CPU.submit

    def interrupted(launch: Any) -> int:
        submit(launch)
        raise KeyboardInterrupt

    with scoped_set_flag(JitFlag.Debug):
        recorded, x, wrong = Recorded(lookup), floats(10), array([3, 17, 0], UINT32)
        recorded(x, indices(3, 10))
        program: Callable[..., Any] = recorded if replayed else lambda *inputs: evaluate(lookup(*inputs))
        with monkeypatch.context() as patch:
            patch.setattr(CPU, "submit", staticmethod(interrupted))
            with pytest.raises(KeyboardInterrupt):
                program(x, wrong)
        with pytest.warns(RuntimeWarning, match="out-of-bounds read from position 17 in an array of size 10") as found:
            values(x)
    assert len(found) == 1


def test_replays_check_indices_in_debug_mode() -> None:
    with scoped_set_flag(JitFlag.Debug):
        recorded = Recorded(lookup)
        recorded(floats(10), indices(5, 10))
        with pytest.warns(RuntimeWarning, match="out-of-bounds read from position 17 in an array of size 12"):
            values(recorded(floats(12), array([3, 17, 0], UINT32))[0])
    assert len(recorded.recordings) == 1


def test_replays_that_block_warn_at_once() -> None:
    with scoped_set_flag(JitFlag.Debug), scoped_set_flag(JitFlag.LaunchBlocking):
        recorded = Recorded(lookup)
        recorded(floats(10), indices(3, 10))
        with pytest.warns(RuntimeWarning, match="out-of-bounds read from position 17"):
            recorded(floats(12), array([3, 17, 0], UINT32))
    assert len(recorded.recordings) == 1


@pytest.mark.parametrize("told", [False, True])
def test_interrupted_replays_have_launched(told: bool) -> None:
    """An interrupt right after a launch must not leave memory for others that the launch still uses: one that comes
    out of the launch or, where launches are told of by Python code, between the notes of it."""
    class Interrupted(Null):
        armed = False

        def submit(self, launch: Any, /) -> int:
            super().submit(launch)
            if self.armed:
                object.__setattr__(launch, "begun", True)
                if not told:
                    raised.append(True)
                    raise KeyboardInterrupt
                return Interrupting(len(self.launches))
            return len(self.launches)

    class Interrupting(int):
        """A ticket that is interrupted when it is entered first."""

    raised = []

    class Memory(Buffer):
        __slots__ = ()

        def __setattr__(self, name: str, value: Any) -> None:
            if name == "ticket" and isinstance(value, Interrupting) and not raised:
                raised.append(True)
                raise KeyboardInterrupt
            super().__setattr__(name, value)

    with on_backend(Interrupted(TEXTS)) as backend:
        assert isinstance(backend, Interrupted)
        allocate = backend.allocate
        recording, _ = record(saxpy, [number(2.0), sized(FLOAT32, 10), sized(FLOAT32, 10)])
        x, y = sized(FLOAT32, 12), sized(FLOAT32, 12)
        evaluate([x, y])
        made: list[Memory] = []

        def allocate_memory(nbytes: int, /) -> Buffer:
            buffer = allocate(nbytes)
            made.append(Memory(backend, buffer.address, nbytes))
            return made[-1]

        backend.allocate = allocate_memory  # type: ignore[method-assign]
        backend.armed = True
        with pytest.raises(KeyboardInterrupt), scoped_set_flag(JitFlag.KernelHistory, told):
            recording.replay([number(3.0), x, y])
        assert raised and {buffer.ticket for buffer in (*made, x.payload, y.payload)} == {len(backend.launches)}


class _Interrupt:
    """Raises a KeyboardInterrupt at the n-th call of a function that evaluates, where Python looks for signals."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __call__(self, frame: Any, event: str, argument: Any) -> None:
        path = frame.f_code.co_filename
        if event == "call" and path.endswith(("evaluation.py", "exclusion.py", "recording.py", "launch.py", "pool.py")):
            self.number -= 1
            if not self.number:
                sys.settrace(None)
                raise KeyboardInterrupt


@pytest.mark.parametrize("replayed", [False, True], ids=["traced", "replayed"])
def test_an_interrupt_at_any_call_leaves_everything_as_if_it_had_come_before_or_after(replayed: bool) -> None:
    def program(x: Node, index: Node) -> list[Node]:
        found = [reduce(gather(ops.mul(x, x), index, TRUE), ADD), *histogram_by_tables(index), *put(x, index, one())]
        evaluate(found)
        return found

    recorded, x, index, before = Recorded(program), floats(64), indices(CPU_TARGET.single + 1, 64), thread_count()
    run: Callable[..., list[Node]] = recorded if replayed else program
    set_thread_count(2)
    try:
        expected = contents(recorded(x, index))
        number, interrupted, trace = 0, True, sys.gettrace()
        while interrupted:
            number += 1
            interrupt = _Interrupt(number)
            sys.settrace(interrupt)
            try:
                run(x, index)
            except KeyboardInterrupt:
                pass
            finally:
                sys.settrace(trace)
            interrupted = not interrupt.number
            for found, value in zip(contents(run(x, index)), expected, strict=True):
                assert_same_bits(found, value, number)
        assert number > 10 and len(recorded.recordings) == 1
    finally:
        set_thread_count(before)


def test_replays_check_indices_in_the_targets_of_calls() -> None:
    def looked_up(x: Node, index: Node) -> list[Node]:
        def target(s: list[Node]) -> list[Node]:
            return [gather(x, s[0], TRUE)]

        return call(ops.and_(index, literal(UINT32, 1)), TRUE, [target, lambda s: [gather(x, s[0], TRUE)]], [index])[0]

    with scoped_set_flag(JitFlag.Debug):
        recorded = Recorded(looked_up)
        recorded(floats(10), indices(5, 10))
        x = floats(12)
        for _ in range(2):
            with pytest.warns(RuntimeWarning, match="out-of-bounds read from position 17 in an array of size 12"):
                found = values(recorded(x, array([3, 11, 17, 10], UINT32))[0])
            assert_same_bits(found, values(x)[[3, 11, 0, 10]] * np.float32([1, 1, 0, 1]))
    assert len(recorded.recordings) == 1


def test_the_number_of_recordings_is_limited() -> None:
    recorded = Recorded(lambda x, y: [ops.add(x, y)], limit=2)
    for _ in range(2):
        for x, y in ((floats(3), floats(3)), (floats(1), floats(3)), (floats(3), floats(1))):
            recorded(x, y)
            assert len(recorded.recordings) <= 2
    with pytest.raises(ValueError, match="at least 1, found 0"):
        Recorded(saxpy, limit=0)


def test_backends_without_kernels_cannot_record() -> None:
    with on_backend("interpreter"), pytest.raises(RuntimeError, match="the backend 'interpreter' has none"):
        record(saxpy, [one(), one(), one()])


def test_memory_is_released_as_soon_as_no_launch_needs_it() -> None:
    recorded = Recorded(several_stages)
    recorded(floats(100))
    (recording,) = recorded.recordings
    released = [place for stage in recording.stages for place in stage.releases]
    assert len(released) == len(set(released)) >= 7  # what three rounds make, but for the result


def test_replays_keep_no_graph_and_no_arguments() -> None:
    recorded = Recorded(saxpy)
    arguments = [one(), floats(10), floats(10)]
    recorded(*arguments)
    buffer = weakref.ref(arguments[1].payload)
    del arguments
    gc.collect()
    assert buffer() is None


# --- extents ---------------------------------------------------------------------------------------------------------


def guarded(use: Callable[[Any], Any], sizes: Sequence[int], x: int = 10) -> list[bool]:
    """For which sizes of its argument a recording is good that uses its size in some way."""
    def function(node: Node) -> list[Node]:
        size = size_of(node)
        assert isinstance(size, Extent)
        use(size)
        return [ops.add(node, one())]

    recording, _ = record(function, [floats(x)])
    return [recording.obstacle([floats(size)]) is None for size in sizes]


USES: list[tuple[Callable[[Any], Any], Callable[[int], Any]]] = [
    (lambda n: n > 5, lambda n: n > 5), (lambda n: n <= 12, lambda n: n <= 12), (int, lambda n: n == 10),
    (lambda n: n == 10, lambda n: n == 10),
    (lambda n: n != 3, lambda n: n != 3),
    (lambda n: n // 3 == 3, lambda n: n // 3 == 3), (lambda n: n % 2, lambda n: 0),
    (lambda n: bool(n % 2), lambda n: n % 2 == 0), (lambda n: 2 * n - 5 < 20, lambda n: 2 * n - 5 < 20),
    (lambda n: 1 / n < 0.2, lambda n: 1 / n < 0.2), (lambda n: -n < -9, lambda n: -n < -9),
    (lambda n: list(range(n)), lambda n: n == 10), (lambda n: f"{n + 0}", lambda n: n == 10), (hash, lambda n: n == 10),
    (lambda n: n + n * n - 3, lambda n: 0), (lambda n: max(n, 7), lambda n: n >= 7), (float, lambda n: n == 10),
]


@pytest.mark.parametrize("number_of_use", range(len(USES)))
def test_what_is_decided_by_a_size_is_a_guard(number_of_use: int) -> None:
    use, decision = USES[number_of_use]
    sizes = range(2, 25)
    assert guarded(use, sizes) == [decision(size) == decision(10) for size in sizes]


def test_sizes_of_what_was_computed_follow_from_the_arguments() -> None:
    def function(x: Node, index: Node) -> list[Node]:
        gathered = gather(ops.mul(x, number(2.0)), index, TRUE)
        evaluate([gathered])
        total = ops.add(gathered, one())
        sizes = [size_of(node) for node in (x, gathered, total, scatter(x, one(), literal(UINT32, 0), TRUE, 0, 0))]
        return [bound(UINT32, size) for size in sizes] + [bound(UINT32, size_of(reduce(x, ADD)))]

    recorded = Recorded(function)
    for m, n in ((10, 4), (7, 21), (100, 100)):
        assert [read_element(node, 0) for node in recorded(floats(m), indices(n, m))] == [m, n, n, m, 1]
    assert len(recorded.recordings) == 1


def repeated(value: float, x: Node) -> Node:
    return literal(FLOAT32, value, size_of(x))


def zeros(x: Node) -> Node:
    return literal(UINT32, 0, size_of(x))


def steps(variables: Sequence[Node], body: Callable[[list[Node]], list[Node]]) -> list[Node]:
    """The variables after two steps of a loop."""
    def step(variables: list[Node]) -> list[Node]:
        return [ops.add(variables[0], literal(UINT32, 1)), *body(variables[1:])]

    return list(while_loop((literal(UINT32, 0), *variables), lambda state: ops.lt(state[0], literal(UINT32, 2)),
                           step))[1:]


#: Results whose size is known without computing them, and sizes of what stands for something else in a region.
SIZES: dict[str, Function] = {
    "folded, one operand": lambda x: [ops.neg(repeated(3.0, x))],
    "folded, two operands": lambda x: [ops.add(repeated(3.0, x), one())],
    "folded, three operands": lambda x: [ops.fma(repeated(3.0, x), one(), one())],
    "chosen": lambda x: [ops.select(TRUE, repeated(3.0, x), one())],
    "converted": lambda x: [cast(repeated(3.0, x), UINT32)],
    "reinterpreted": lambda x: [bitcast(repeated(3.0, x), UINT32)],
    "times zero": lambda x: [ops.mul(cast(x, UINT32), literal(UINT32, 0))],
    "equal to itself": lambda x: [ops.eq(cast(x, UINT32), cast(x, UINT32))],
    "sum of what is folded": lambda x: [reduce(ops.add(zeros(x), literal(UINT32, 1)), ADD)],
    "to the power of zero": lambda x: [drjit_core.power(x, 0)],
    "integers that are finite": lambda x: [f(cast(x, UINT32)) for f in (isnan, isinf, isfinite)],
    "sign of what has none": lambda x: [sign(cast(x, UINT32))],
    "as wide as another": lambda x: [copysign(number(2.0), x), mulsign(number(2.0), x), mulsign(opaque(one()), x)],
    "backwards": lambda x: [access(x, size_of(x) - 1, -1, size_of(x))],
    "from the middle on": lambda x: [access(x, size_of(x) // 2, 1, size_of(x) - size_of(x) // 2)],
    "in steps": lambda x: [access(x, 0, size_of(x) // 3, 3)],
    "gathered from a literal": lambda x: [gather(one(), counter(size_of(x)), TRUE)],
    "gathered nowhere": lambda x: [gather(x, zeros(x), literal(TRUE.type, False))],
    "loop": lambda x: steps([repeated(1.0, x)], lambda s: [ops.add(s[0], one())]),
    "size of a variable": lambda x: steps([x], lambda s: [ops.add(s[0], bound(FLOAT32, size_of(s[0])))]),
    "what writes have found": lambda x: steps(
        [literal(UINT32, 0, 3), literal(UINT32, 0)], lambda s: list(reversed(atomic(
            s[0], literal(UINT32, 1), cast(ops.gt(x, one()), UINT32), TRUE, ADD, 0)))),
    "size of memory": lambda x: steps(
        [x], lambda s: [scatter(s[0], bound(FLOAT32, size_of(s[0])), counter(size_of(x)), TRUE, ADD, 0)]),
    "size of an argument": lambda x: cond(
        ops.gt(x, one()), [x], lambda a: [ops.add(a[0], cast(counter(size_of(a[0])), FLOAT32))], lambda a: a)[0],
}


@pytest.mark.parametrize("name", SIZES)
def test_sizes_that_are_known_without_computing_follow_from_the_arguments(name: str) -> None:
    recorded = Recorded(SIZES[name])
    for size in (10, 7, 12):
        for found, expected in zip(contents(recorded(floats(size))), contents(SIZES[name](floats(size))), strict=True):
            assert_same_bits(found, expected, name)
    assert len(recorded.recordings) == 1


def test_loops_that_are_wider_than_their_variables_know_their_size() -> None:
    """A loop is as wide as what it writes, which its variables do not tell."""
    def function(memory: Node, x: Node) -> list[Node]:
        def body(state: list[Node]) -> list[Node]:
            number = ops.add(state[0], bound(FLOAT32, size_of(state[0])))
            return [number, scatter(state[1], ops.add(x, number), counter(size_of(x)), TRUE, 0, 0)]

        return steps([one(), memory], body)

    recorded = Recorded(function)
    for m, n in ((20, 10), (20, 7), (30, 12)):
        arguments = floats(m), floats(n)
        for found, expected in zip(contents(recorded(*arguments)), contents(function(*arguments)), strict=True):
            assert_same_bits(found, expected)
    assert len(recorded.recordings) == 1


def test_a_size_of_unknown_origin_holds_for_arguments_of_these_sizes_only() -> None:
    def function(x: Node, y: Node) -> list[Node]:
        unknown = stand_in(FLOAT32, 5)
        unknown.kind = PHI
        return [ops.add(x, bound(FLOAT32, size_of(unknown) + 1)), y]

    recording, _ = record(function, [floats(10), floats(7)])
    assert recording.obstacle([floats(10), floats(7)]) is None
    assert recording.obstacle([floats(11), floats(7)]) == "size of argument 0 == 10"
    assert recording.obstacle([floats(10), floats(8)]) == "size of argument 1 == 7"


def test_operands_that_are_not_computed_with_must_have_their_sizes_nevertheless() -> None:
    recording, _ = record(lambda x, y: [ops.add(cast(x, UINT32), zeros(y))], [floats(5), floats(5)])
    assert recording.obstacle([floats(7), floats(7)]) is None
    assert recording.obstacle([floats(7), floats(8)]) == "size of argument 0 == size of argument 1"


def test_reads_that_need_no_mask_for_the_size_of_their_memory_are_guarded() -> None:
    """An index that lies in the memory may be read by elements that take no part: only where it still does."""
    def function(table: Node, x: Node) -> list[Node]:
        taken = ops.lt(literal(UINT32, 5), bound(UINT32, size_of(table)))
        return cond(ops.and_(taken, ops.gt(x, one())), [x],
                    lambda a: [ops.add(a[0], gather(table, literal(UINT32, 5), TRUE))], lambda a: a)[0]

    recording, _ = record(function, [floats(10), floats(4)])
    assert recording.obstacle([floats(6), floats(5)]) is None
    assert recording.obstacle([floats(5), floats(4)]) == "place 5 of an array: size of argument 0"


def test_rows_that_elements_keep_apart_are_guarded() -> None:
    """The elements of a loop of one element, which writes several at once, stay in their columns: of so many rows."""
    def function(memory: Node, x: Node) -> list[Node]:
        def body(state: list[Node]) -> list[Node]:
            at = ops.add(ops.mul(state[0], literal(UINT32, 8)), counter(size_of(x)))
            return [ops.add(state[0], literal(UINT32, 1)),
                    scatter(state[1], ops.add(gather(state[1], at, TRUE), x), at, TRUE, 0, 0)]

        return [while_loop((literal(UINT32, 0), memory), lambda state: ops.lt(state[0], literal(UINT32, 3)), body,
                           together=True)[1]]

    recorded = Recorded(function)
    for n in (4, 6, 8):
        (found,) = recorded(floats(24), floats(n))
        assert_same_bits(values(found), values(function(floats(24), floats(n))[0]))
    with pytest.raises(SymbolicValue, match="writes 10 values at once"):
        recorded(floats(24), floats(10))
    assert len(recorded.recordings) == 1


def test_a_part_that_is_the_whole_array_is_so_in_each_replay() -> None:
    recorded = Recorded(lambda x: [ops.add(access(x, 0, 1, 10), one())])
    for size in (10, 12):
        assert [len(values(node)) for node in recorded(floats(size))] == [10]


@pytest.mark.parametrize("count, factor", [(3000, 3001), (60, 1 << 60)])
def test_sizes_may_be_computed_in_many_steps(count: int, factor: int) -> None:
    """Neither the depth of an expression nor the number of ways through it matters."""
    def function(x: Node) -> list[Node]:
        first = result = size_of(x)
        for _ in range(count):
            result = result + (first if count == 3000 else result)
        assert result > 5
        return [ops.add(x, bound(FLOAT32, result))]

    recorded = Recorded(function)
    for size in (3, 5, 17):
        x = floats(size)
        expected = values(x) + np.float32(size * factor)
        assert_same_bits(values(recorded(x)[0]), expected)
    assert len(recorded.recordings) == 1
    assert all(len(guard.reason) < 1000 for guard in recorded.recordings[0].guards)


def test_extents_of_another_recording_are_numbers() -> None:
    kept: list[Any] = []

    def function(x: Node) -> list[Node]:
        kept.append(size_of(x))
        return [x]

    record(function, [floats(4)])
    recording, _ = record(lambda x: [ops.add(x, one()), counter(kept[0]), bound(UINT32, kept[0])], [floats(9)])
    replayed = recording.replay([floats(6)])
    assert [len(values(opaque(node))) for node in replayed] == [6, 4, 1] and read_element(replayed[2], 0) == 4


def test_extents_outside_of_a_recording_are_numbers() -> None:
    kept: list[Any] = []

    def function(x: Node) -> list[Node]:
        kept.append(size_of(x))
        return [x]

    record(function, [floats(10)])
    assert counter(kept[0]).size == 10 and int(kept[0]) == 10 and repr(kept[0]) == "10"
    assert read_element(bound(FLOAT32, kept[0]), 3) == 10.0
    x = floats(12)
    assert_same_bits(values(access(x, kept[0] - 1, -1, kept[0])), values(x)[9::-1])
    assert size_of(floats(3)) == 3


# --- random programs -------------------------------------------------------------------------------------------------


@pytest.fixture
def inputs(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Node]]:
    """The arrays that a random program reads: made when it is traced first, given when it is traced again."""
    made: list[Node] = []
    given: list[Node] = []

    def make(data: Any) -> Node:
        if given:
            return given.pop(0)
        made.append(shared(data))
        return made[-1]

    monkeypatch.setattr(regions, "shared", make)
    make.given = given  # type: ignore[attr-defined]
    yield made


def check(seed: int, inputs: list[Node]) -> None:
    program = regions.generate(seed)
    inputs.clear()
    roots = regions.trace_unless_refused(program)
    arguments = list(inputs)
    given: list[Node] = regions.shared.given  # type: ignore[attr-defined]

    def function(*nodes: Node) -> list[Node]:
        given[:] = nodes
        results = regions.trace(program)
        assert not given
        return results

    if not arguments:
        return
    if roots is None:
        with pytest.raises(SymbolicValue, match="this write"):
            record(function, arguments)
        return
    expected = contents(roots)
    recording, results = record(function, arguments)
    for found in (results, recording.replay(arguments), recording.replay(arguments)):
        for one_of_them, result in zip(contents(found), expected, strict=True):
            assert_same_bits(one_of_them, result, program)
    others = [array(values(node)[::-1].copy()) for node in arguments]
    if recording.obstacle(others) is None:
        for found, fresh in zip(contents(recording.replay(others)), contents(function(*others)), strict=True):
            assert_same_bits(found, fresh, program)


@pytest.mark.parametrize("block", range(4))
def test_random_programs_replay_what_they_compute(block: int, inputs: list[Node]) -> None:
    for seed in range(10 * block, 10 * block + 10):
        check(seed, inputs)


@pytest.mark.exhaustive
@pytest.mark.parametrize("block", range(20))
def test_many_random_programs_replay_what_they_compute(block: int, inputs: list[Node]) -> None:
    for seed in range(1000 + 100 * block, 1100 + 100 * block):
        check(seed, inputs)
