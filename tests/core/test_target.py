"""What a target decides; and that keys and texts depend on nothing else of where they run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from drjit_core import (
    Node,
    ReduceMode,
    ReduceOp,
    call,
    cond,
    counter,
    evaluate,
    expand_threshold,
    gather,
    literal,
    opaque,
    ops,
    outer_sums,
    reduce,
    scatter,
    segment,
    set_expand_threshold,
    set_thread_count,
    sin,
    thread_count,
    undefined,
    while_loop,
)
from drjit_core.codegen.linear import Linear
from drjit_core.codegen.linearize import linearize
from drjit_core.codegen.program import Program, assemble
from drjit_core.codegen.target import ATOMIC, COMBINED, PLAIN, PRIVATE, SHARED, Copies, Rooms, Shared, Target, limits
from drjit_core.control import extend
from drjit_core.control.blend import blend
from drjit_core.ir.node import BAKED
from drjit_core.ir.steps import transposed
from drjit_core.llvm import emit
from drjit_core.ops.table import GATHER, LITERAL, RESULT
from drjit_core.passes.domain import Domain
from drjit_core.passes.schedule import plan
from drjit_core.runtime.backends import on_backend
from drjit_core.runtime.cpu.launches import course_of
from drjit_core.runtime.cpu.target import CPU_TARGET
from drjit_core.runtime.cpu.texts import TEXTS
from drjit_core.runtime.null import Null
from drjit_core.types import TYPE_BITS
from tests.core import regions
from tests.core.harness import FLOAT32, TRUE, UINT32, array
from tests.core.test_key import random_program
from tests.core.test_rows import reduced, seen
from tests.core.test_sinking import cost_outside

SIZE = 1000


def floats(size: int = SIZE) -> Node:
    return array(np.arange(size), FLOAT32)


def integers(size: int = SIZE) -> Node:
    return array(np.arange(size), UINT32)


def large(type_: int, size: int) -> Node:
    return opaque(undefined(type_, size))


def programs(roots: list[Node], target: Target) -> list[Program]:
    """Of the kernels that can run at once."""
    return [assemble(kernel, target) for kernel in plan(roots, target) if kernel.stage == 0]


def linear_of(roots: list[Node], target: Target) -> Linear:
    (program,) = programs(roots, target)
    return linearize(program)


# --- what programs show ----------------------------------------------------------------------------------------------


def dear(x: Node, operations: int = 5) -> Node:
    for k in range(operations):
        x = ops.div(x, literal(FLOAT32, k + 2.5))
    return x


def normalised() -> list[Node]:
    value = dear(floats(), 2)
    return [ops.mul(value, reduce(value, ReduceOp.Add.value))]


def outputs(roots: list[Node], target: Target) -> list[int]:
    return [len(kernel.outputs) for kernel in plan(roots, target)]


def one_side(operations: int) -> list[Node]:
    value = dear(floats(), operations)
    return cond(ops.lt(floats(), literal(FLOAT32, 3)), [floats()], lambda s: [ops.add(s[0], value)], lambda s: s)[0]


def outside(roots: list[Node], target: Target) -> int:
    """What is computed outside of the branch, in additions."""
    plan(roots, target)
    return cost_outside(roots)


def update(mode: ReduceMode, size: int = 64, width: int = 1 << 17) -> list[Node]:
    index = ops.and_(counter(width), literal(UINT32, 63))
    return [scatter(integers(size), literal(UINT32, 3), index, TRUE, ReduceOp.Add.value, mode.value)]


def strategies(roots: list[Node], target: Target) -> list[int]:
    (program,) = programs(roots, target)
    return list(program.strategies.values())


def streaming(width: int, target: Target) -> bool:
    (program,) = programs([ops.neg(floats(width))], target)
    return program.streaming


def asks_ahead(size: int, target: Target) -> bool:
    (program,) = programs([gather(floats(size), counter(SIZE), TRUE)], target)
    (node,) = (node for node in program.order if node.kind == GATHER)
    assert node.d0 is not None
    return program.asks_ahead(node.d0)


def partial_words(target: Target) -> int:
    """What a block leaves of a sum, and of a matrix of 3 rows and 5 columns."""
    x = [floats() for _ in range(8)]
    (program,) = programs([outer_sums(x[:3], x[3:]), reduce(x[0], ReduceOp.Add.value)], target)
    return program.partial_words


def changed(**changes: Any) -> Target:
    return CPU_TARGET._replace(**changes)


THREADS = changed(threads=4, tables=1000)
TABLES = Shared(frozenset({ReduceOp.Add.value << TYPE_BITS | UINT32}), size=64, width=1 << 17, most=1)
SHARING = changed(threads=4, has_tables=False, combines=True, shared=TABLES)
#: Of each number: what it decides, for the target of the CPU and for another one.
DECISIONS: dict[str, tuple[Callable[[Target], Any], Target, Any, Target, Any]] = {
    "recompute": (lambda target: outputs(normalised(), target), changed(recompute=100), [1, 1],
                  changed(recompute=5), [2, 1]),
    "sink": (lambda target: outside(one_side(5), target) > outside(one_side(0), target), CPU_TARGET, False,
             changed(sink=1000), True),
    "views": (lambda target: outputs([seen(dear(floats(), 2), 0, (SIZE // 2, 2), (1, SIZE // 2))], target), CPU_TARGET,
              [1], changed(views=5), [1, 1]),
    "threads": (lambda target: strategies(update(ReduceMode.Direct), target), THREADS, [ATOMIC],
                THREADS._replace(threads=1), [PLAIN]),
    "single": (lambda target: strategies(update(ReduceMode.Direct), target), THREADS, [ATOMIC],
               THREADS._replace(single=1 << 17), [PLAIN]),
    "tables": (lambda target: strategies(update(ReduceMode.Auto), target), THREADS, [PRIVATE],
               THREADS._replace(tables=63), [ATOMIC]),
    "shared.updates": (lambda target: strategies(update(ReduceMode.Auto), target), SHARING, [SHARED],
                       SHARING._replace(shared=TABLES._replace(updates=frozenset())), [COMBINED]),
    "shared.size": (lambda target: strategies(update(ReduceMode.Auto), target), SHARING, [SHARED],
                    SHARING._replace(shared=TABLES._replace(size=63)), [COMBINED]),
    "shared.width": (lambda target: strategies(update(ReduceMode.Auto), target), SHARING, [SHARED],
                     SHARING._replace(shared=TABLES._replace(width=(1 << 17) + 1)), [COMBINED]),
    "shared.most": (lambda target: strategies(update(ReduceMode.Auto), target), SHARING, [SHARED],
                    SHARING._replace(shared=TABLES._replace(most=0)), [COMBINED]),
    "streaming_bytes": (lambda target: streaming(1 << 17, target), CPU_TARGET, False,
                        changed(streaming_bytes=(1 << 20) - 1), True),
    "streaming_width": (lambda target: streaming(1 << 16, target), changed(streaming_bytes=1 << 18), False,
                        changed(streaming_bytes=1 << 18, streaming_width=1 << 15), True),
    "large_bytes": (lambda target: asks_ahead(SIZE, target), CPU_TARGET, False, changed(large_bytes=3999), True),
    "rows.few": (lambda target: target.cut(Domain((2, 100_001))).parts, CPU_TARGET, 7,
                 changed(rows=CPU_TARGET.rows._replace(few=2)), 1),
    "rows.part": (lambda target: target.cut(Domain((2, 100_001))).parts, CPU_TARGET, 7,
                  changed(rows=CPU_TARGET.rows._replace(part=1 << 16)), 1),
    "rows.short": (lambda target: target.classes_of(Domain((9, 17))), CPU_TARGET, [2, 0],
                   changed(rows=CPU_TARGET.rows._replace(short=17)), [2, 4]),
    "rooms.line": (partial_words, CPU_TARGET, 8 + 8 + 3 * 16 + 3 * 16 // 2, changed(rooms=Rooms(32, 16)),
                   32 + 32 + 3 * 16 + 3 * 16 // 2),
    "rooms.columns": (partial_words, CPU_TARGET, 8 + 8 + 3 * 16 + 3 * 16 // 2, changed(rooms=Rooms(8, 4)),
                      8 + 8 + 3 * 8 + 3 * 8 // 2),
    "features": (lambda target: programs([ops.neg(floats())], target)[0].key[:8], CPU_TARGET,
                 (2 << 8 | 1).to_bytes(8, "little"), changed(features=90),
                 ((90 << 8 | 2) << 8 | 1).to_bytes(8, "little")),
}


@pytest.mark.parametrize("name", DECISIONS)
def test_each_number_decides_something(name: str) -> None:
    decided, one, expected, other, otherwise = DECISIONS[name]
    assert decided(one) == expected
    assert decided(other) == otherwise


def test_one_thread_works_off_what_conflicts_where_there_are_several() -> None:
    few, many = update(ReduceMode.Auto, width=1 << 10), update(ReduceMode.Auto)
    for target, found in ((THREADS, [True, False]), (THREADS._replace(threads=1), [False, False])):
        assert [course_of(programs(list(roots), target)[0]).single for roots in (few, many)] == found


def test_local_memory_is_that_of_the_backend() -> None:
    loop = extend.construct_of(while_loop(
        [literal(UINT32, 0), floats()], lambda s: ops.lt(s[0], literal(UINT32, 9)),
        lambda s: [ops.add(s[0], literal(UINT32, 1)), ops.neg(s[1])]), ())
    assert loop is not None
    local = CPU_TARGET.local
    for target, found in ((CPU_TARGET, True), (changed(local=local._replace(array=64)), False),
                          (changed(local=local._replace(together=64)), False)):
        with on_backend(Null(TEXTS, target)):
            assert extend.fits(loop, 10) == found


def tracing(**numbers: Any) -> Target:
    return changed(tracing=CPU_TARGET.tracing._replace(**numbers))


def read_in_a_loop() -> Any:
    """The region of a loop that repeats a read, with a condition that has to be computed before it moves."""
    table, index = floats(), gather(integers(), integers(), TRUE)
    loop = extend.construct_of(while_loop(
        [literal(UINT32, 0), floats()], lambda s: ops.lt(ops.mul(s[0], s[0]), literal(UINT32, 90)),
        lambda s: [ops.add(s[0], literal(UINT32, 1)), ops.add(s[1], gather(table, index, TRUE))]), ())
    assert loop is not None
    return loop.payload.region


def blended(size: int) -> int:
    """The kind of a value that is dear, of some elements."""
    x = large(FLOAT32, size)
    return blend(ops.lt(x, literal(FLOAT32, 3)), [sin(sin(x))], [x])[0].kind


def test_what_is_decided_while_tracing_is_decided_by_the_backend() -> None:
    for target, reads in ((CPU_TARGET, 0), (tracing(hoist=0), 1)):
        with on_backend(Null(TEXTS, target)):
            region = read_in_a_loop()
            assert sum(node.kind == GATHER and node.scope == region.id for node in region.nodes) == reads
    width = CPU_TARGET.tracing.blend_width
    for target, size, branch in ((CPU_TARGET, width, True), (CPU_TARGET, width - 1, False),
                                 (tracing(blend=1000), width, False), (tracing(blend_width=4), 4, True)):
        with on_backend(Null(TEXTS, target)):
            assert (blended(size) == RESULT) == branch
    for copies, size, copied in ((CPU_TARGET.tracing.copies, 128, True), (Copies(1 << 15, 8, 1 << 32), 128, False),
                                 (Copies(1, 256, 512), 128, False), (Copies(1, 8, 127), 128, False),
                                 (CPU_TARGET.tracing.copies, 64, False)):
        with on_backend(Null(TEXTS, tracing(copies=copies))):
            matrix = large(FLOAT32, size * size)
            assert (transposed(matrix, (size, size), (1, 0), *limits(0).tracing.copies) is not None) == copied


# --- what texts depend on besides ------------------------------------------------------------------------------------


def test_pieces_of_rows_are_aligned_where_they_have_to_be() -> None:
    aligned = changed(aligned_pieces=True)
    for length in range(1, 12):
        for size in (4, 8):
            assert sum(count for _, count in CPU_TARGET.pieces(length, size)) == length
            for start, count in aligned.pieces(length, size):
                assert start % count == length % count == 0
    assert CPU_TARGET.pieces(3, 4) == [(0, 2), (2, 1)] and aligned.pieces(3, 4) == [(0, 1), (1, 1), (2, 1)]
    assert CPU_TARGET.pieces(8, 4) == aligned.pieces(8, 4) == [(0, 4), (4, 4)]
    assert changed(piece_bytes=32).pieces(8, 4) == [(0, 8)]


@pytest.mark.parametrize(("size", "expected"), [
    (4, {3: [3], 4: [4], 6: [4, 2], 7: [4, 3], 8: [8], 11: [8, 3], 12: [8, 4]}),
    (8, {2: [2], 3: [3], 4: [4], 6: [4, 2], 7: [4, 3], 8: [4, 4]})])
def test_more_is_read_together_than_written(size: int, expected: dict[int, list[int]]) -> None:
    for length, counts in expected.items():
        starts = [sum(counts[:number]) for number in range(len(counts))]
        assert CPU_TARGET.pieces(length, size, True) == list(zip(starts, counts, strict=True))
        assert all(count * size <= 16 for _, count in CPU_TARGET.pieces(length, size))


def components(count: int) -> list[Node]:
    """Rows that are read, from which another one is made."""
    table, row, found = floats(count * SIZE), integers(), []
    for k in range(count):
        index = ops.add(ops.mul(row, literal(UINT32, count, attr=BAKED)), literal(UINT32, k, attr=BAKED))
        found.append(gather(table, index, TRUE))
    return found


def test_the_linear_program_tells_how_long_rows_are() -> None:
    def pieces(count: int, target: Target) -> list[tuple[int, int]]:
        found = [each.access for each in linear_of(components(count), target).kernel if each.kind == GATHER]
        return [(access.row, access.piece[1]) for access in found if access is not None and access.piece]

    assert pieces(4, CPU_TARGET) == pieces(4, changed(aligned_pieces=True)) == [(4, 4)]
    assert pieces(6, CPU_TARGET) == [(6, 4), (6, 2)] and pieces(6, changed(aligned_pieces=True)) == 3 * [(6, 2)]
    assert pieces(3, CPU_TARGET) == [(3, 3)] and not pieces(3, changed(aligned_pieces=True))


def sines(count: int) -> list[Node]:
    value = floats()
    for _ in range(count):
        value = sin(value)
    return [value]


def test_rows_become_functions_where_there_are_more() -> None:
    assert not linear_of(sines(3), CPU_TARGET).expansions
    assert len(linear_of(sines(3), changed(inlined=2)).expansions) == 1


def test_columns_are_added_up_as_many_rows_at_once_as_the_target_says() -> None:
    for target, rows in ((CPU_TARGET, 8), (changed(rows=CPU_TARGET.rows._replace(together=4)), 4)):
        linear = linear_of([segment(floats(60_000), ReduceOp.Add.value, 2, 300, 100)], target)
        assert [len(passage.each) for passage in linear.kernel.passes] == [rows]


# --- functions -------------------------------------------------------------------------------------------------------


def with_further_arguments() -> list[Node]:
    """Two functions that differ in which of two values from outside they use."""
    index, one, other = integers(), ops.neg(floats()), ops.add(floats(), floats())
    (result,), _ = call(ops.and_(index, literal(UINT32, 1)), TRUE,
                        [lambda a: [ops.mul(a[0], one)], lambda a: [ops.mul(a[0], other)]], [floats()])
    return [result]


def test_functions_know_where_their_arguments_are_if_they_have_to() -> None:
    dynamic = linear_of(with_further_arguments(), CPU_TARGET)
    assert len(dynamic.targets) == 1 and dynamic.targets[0].places == ()
    static = linear_of(with_further_arguments(), changed(static_calls=True))
    assert [function.places for function in static.targets] == [(2,), (3,)]
    assert [len(function.extras) for function in static.targets] == [1, 1]
    for linear, functions in ((dynamic, (0,)), (static, (0, 1))):
        (site,) = (each.site for each in linear.kernel if each.site is not None)
        assert site.functions == functions


def test_instances_are_alike_only_if_their_arguments_are_in_the_same_places() -> None:
    def found(target: Target, order: str) -> int:
        index = integers()
        values = {"a": ops.neg(floats()), "b": ops.add(floats(), floats())}
        (result,), _ = call(index, TRUE, [lambda a, each=each: [ops.mul(a[0], values[each])] for each in order],
                            [floats()])
        (program,) = programs([result], target)
        (site,) = program.calls.values()
        assert len(site.targets) == len(order)
        return sum(not isinstance(each, Program) for each in site.targets)

    assert [found(target, "abab") for target in (CPU_TARGET, changed(static_calls=True))] == [3, 2]


def updates_and_reads(reads: bool = True) -> list[Node]:
    """A loop that writes to an array and reads another one; a function of its body does so as well."""
    memory, table, index = array(np.zeros(SIZE), UINT32), integers(SIZE), integers(SIZE)

    def body(state: list[Node]) -> list[Node]:
        def target(s: list[Node]) -> list[Node]:
            read = gather(table, s[1], TRUE)
            return [scatter(s[0], read, s[1], TRUE, ReduceOp.Add.value, ReduceMode.Auto.value)]

        (written,), _ = call(ops.and_(index, literal(UINT32, 1)), TRUE, [target, lambda s: [s[0]]], [state[1], index])
        return [ops.add(state[0], gather(table, index, TRUE)), written]

    return while_loop([literal(UINT32, 0), memory], lambda s: ops.lt(s[0], literal(UINT32, 5)), body)[1:]


def test_passes_keep_what_costs_as_much_as_the_target_says() -> None:
    found = []
    for keep in (20, 1000):
        target = changed(rows=CPU_TARGET.rows._replace(keep=keep))
        value = sin(floats(64 * 100))
        sums = seen(reduced(value, ReduceOp.Add.value, 64, 100, 1), 0, (64, 100), (1, 0))
        linear = linear_of([ops.mul(value, sums)], target)
        found.append([len(each.stores) for each in linear.kernel.passes])
    assert found == [[1, 1], [0, 1]]


def test_the_linear_program_tells_which_memory_is_written() -> None:
    linear = linear_of(updates_and_reads(), changed(threads=4, static_calls=True))
    for function in (linear.kernel, *linear.targets):
        assert all(0 < slot < function.parameters for slot in function.written)
        reads = {each.access.slot for each in function if each.kind == GATHER and each.access is not None}
        assert not reads & function.written
    writing = [function for function in linear.targets if function.written]
    assert len(linear.kernel.written) == 1 and len(writing) == 1
    assert all(function.parameters > 2 for function in writing)


# --- nothing else ----------------------------------------------------------------------------------------------------


#: Targets with other numbers, none of which shows in texts of equal keys.
OTHERS = [changed(threads=4), changed(threads=4, single=8), changed(threads=4, single=8, tables=1 << 20),
          changed(streaming_bytes=64, streaming_width=4, streaming_row=4), changed(large_bytes=64),
          changed(recompute=0), changed(recompute=1000), changed(sink=0), changed(sink=1000),
          changed(local=CPU_TARGET.local._replace(kernel=0)),
          changed(rows=CPU_TARGET.rows._replace(flat=2, indexed=1, views=1, short=4, few=1000, part=8))]
#: Numbers that programs do not show: features have to tell them.
UNTOLD = [changed(inlined=0, features=1), changed(piece_bytes=4, read_bytes=4, features=2),
          changed(aligned_pieces=True, features=3),
          changed(rows=CPU_TARGET.rows._replace(together=4), features=4),
          changed(rows=CPU_TARGET.rows._replace(keep=1000), features=5)]


def traced(seed: int) -> Iterator[list[Node]]:
    yield random_program(seed, 40)
    yield [root for root in regions.trace(regions.generate(seed)) if root.kind != LITERAL]


def test_texts_depend_on_nothing_of_the_target_but_what_keys_tell() -> None:
    text_of: dict[Any, str] = {}
    keys: list[set[Any]] = [set() for _ in (CPU_TARGET, *OTHERS, *UNTOLD)]
    for seed in range(40):
        for number, target in enumerate((CPU_TARGET, *OTHERS, *UNTOLD)):
            for roots in traced(seed):
                for program in programs(roots, target):
                    keys[number].add(program.key)
                    text = emit.emit(program, 16)
                    assert text_of.setdefault(program.key, text) == text, (seed, target)
    first = keys[0]
    assert all(keys[1 + len(OTHERS) + number].isdisjoint(first) for number in range(len(UNTOLD)))
    assert sum(each != first for each in keys[1:1 + len(OTHERS)]) > len(OTHERS) // 2, "they decide nothing"
    assert all(each & first for each in keys[1:1 + len(OTHERS)])


@pytest.fixture
def elsewhere() -> Iterator[None]:
    """Another number of threads, and another limit of tables."""
    threads, limit = thread_count(), expand_threshold()
    set_thread_count(3)
    set_expand_threshold(5)
    yield
    set_thread_count(threads)
    set_expand_threshold(limit)


def launched(target: Target) -> list[tuple[bytes, str, int]]:
    with on_backend(Null(TEXTS, target)) as backend:
        assert isinstance(backend, Null)
        for seed in range(10):
            for roots in traced(seed):
                evaluate(roots)
        for mode in (ReduceMode.Auto, ReduceMode.Direct, ReduceMode.Expand):
            evaluate(update(mode))
        return [(launch.kernel.key, launch.kernel.text, launch.width) for launch in backend.launches]


BEFORE = changed(threads=4, tables=1000)


@pytest.fixture(scope="module")
def before() -> list[tuple[bytes, str, int]]:
    return launched(BEFORE)


def test_nothing_is_asked_of_the_machine_but_by_the_target(before: list[tuple[bytes, str, int]],
                                                           elsewhere: None) -> None:
    assert launched(BEFORE) == before
