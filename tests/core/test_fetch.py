"""What scatter-reductions find before they update: kernels against the interpreter.

Where each lane has an element of its own, or a packet is all there is, the order is given and bits are compared; where
lanes of several packets meet, each must find what some order of the updates explains.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from drjit_core import (
    COMPARE_EXCHANGE,
    EXCHANGE,
    REDUCTIONS,
    TYPES,
    JitFlag,
    Node,
    ReduceMode,
    ReduceOp,
    UnsupportedType,
    atomic,
    call,
    cast,
    cond,
    counter,
    evaluate,
    gather,
    interpret,
    literal,
    ops,
    scatter,
    scoped_set_flag,
    set_thread_count,
    thread_count,
    while_loop,
)
from drjit_core.codegen.listing import format_program
from drjit_core.codegen.program import assemble
from drjit_core.ir import trace
from drjit_core.ir.print import format_graph
from drjit_core.ir.verify import VerificationError, verify
from drjit_core.llvm import emit, jit
from drjit_core.ops.table import FETCH
from drjit_core.passes.schedule import plan
from drjit_core.runtime.cpu.target import CPU_TARGET
from tests.core.harness import (
    ALL_TYPES,
    BOOL,
    FLOAT32,
    INT32,
    TRUE,
    UINT32,
    UINT64,
    array,
    assert_same_bits,
    dtype_of,
    name_of,
    values,
)

ADD, AUTO = ReduceOp.Add.value, ReduceMode.Auto.value
ROWS = [(op, type_) for op in REDUCTIONS for type_ in ALL_TYPES if TYPES[type_].kind in REDUCTIONS[op].accepts]
ROW_NAMES = [f"{ReduceOp(op).name.lower()}-{name_of(type_)}" for op, type_ in ROWS]


def uint(value: int, size: int = 1) -> Node:
    return literal(UINT32, value, size)


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Updates without atomic instructions."""
    count = thread_count()
    set_thread_count(1)
    yield
    set_thread_count(count)


def sample(type_: int, size: int, seed: int) -> Node:
    rng = np.random.default_rng(seed)
    return array(rng.integers(0, 2 if type_ == BOOL else 5, size).astype(dtype_of(type_)))


def same(make: Callable[[], list[Node]]) -> None:
    roots = make()
    verify(roots)
    expected = interpret(roots)
    evaluate(roots)
    for root, data in zip(roots, expected, strict=True):
        assert_same_bits(values(root), data)


def in_a_loop(op: int, type_: int, size: int, index: Node, iterations: int = 3, mode: int = AUTO) -> list[Node]:
    """Update elements in each iteration; of what is found, the last and (of numbers) the sum."""
    value, target, rounds = sample(type_, size, 1), sample(type_, size, 2), sample(UINT32, size, 3)

    def body(s: list[Node]) -> list[Node]:
        found, version = atomic(s[1], value, index, ops.neq(s[0], rounds), op, mode)
        return [ops.add(s[0], uint(1)), version, found, ops.add(s[3], cast(found, INT32))]

    return while_loop([uint(0), target, literal(type_, 0), literal(INT32, 0)],
                      lambda s: ops.lt(s[0], uint(iterations)), body)[1:]


@pytest.mark.parametrize(("op", "type_"), ROWS, ids=ROW_NAMES)
@pytest.mark.parametrize("size", [1, 5, 16, 100])
def test_each_lane_with_its_own_element(op: int, type_: int, size: int) -> None:
    same(lambda: in_a_loop(op, type_, size, counter(size)))


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize(("op", "type_"), ROWS, ids=ROW_NAMES)
@pytest.mark.parametrize("size", [1, 7, 16])
def test_lanes_of_one_packet_that_meet_take_turns(op: int, type_: int, size: int) -> None:
    size = min(size, jit.lanes())  # between packets there is no order
    same(lambda: in_a_loop(op, type_, size, ops.and_(counter(size), uint(3)) if size > 3 else uint(0), 2))


@pytest.mark.usefixtures("one_thread")
def test_one_thread_goes_from_packet_to_packet() -> None:
    same(lambda: in_a_loop(ADD, UINT32, 1000, ops.and_(counter(1000), uint(7)), 1))


INTEGERS = [type_ for op, type_ in ROWS if op == ADD and TYPES[type_].kind in "iu"]


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("index_type", [INT32, UINT32, UINT64])
@pytest.mark.parametrize("type_", INTEGERS, ids=name_of)
@pytest.mark.parametrize("size", [5, 16])
def test_lanes_that_add_the_same_to_one_element_take_turns(type_: int, index_type: int, size: int) -> None:
    index, value, size = literal(index_type, 2), literal(type_, 3), min(size, jit.lanes())

    def body(s: list[Node]) -> list[Node]:
        active = ops.neq(s[0], sample(UINT32, size, 3))
        found, version = atomic(s[1], value, index, active, ADD, AUTO)
        _, version = atomic(version, value, index, ops.neq(active, TRUE), ADD, AUTO)
        return [ops.add(s[0], uint(1)), version, found]

    same(lambda: while_loop([uint(0), sample(type_, 4, 2), literal(type_, 0, size)], lambda s: ops.lt(s[0], uint(6)),
                            body)[1:])


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("in_loop", [False, True])
@pytest.mark.parametrize("type_", INTEGERS, ids=name_of)
def test_many_lanes_that_add_to_one_element_lose_nothing(type_: int, in_loop: bool, threads: int) -> None:
    size, count = 100_000, thread_count()
    set_thread_count(threads)
    try:
        active = ops.neq(ops.and_(counter(size), uint(3)), uint(1))
        target = array(np.array([1, 2, 3], dtype_of(type_)))
        add = literal(type_, 5), uint(1), active, ADD, AUTO
        if in_loop:
            target = while_loop([uint(0), target], lambda s: ops.lt(s[0], uint(2)),
                                lambda s: [ops.add(s[0], uint(1)), scatter(s[1], *add)])[1]
        else:
            target = scatter(target, *add)
        total = 2 + 75_000 * 5 * (2 if in_loop else 1)
        assert_same_bits(values(target), np.array([1, total, 3]).astype(dtype_of(type_)))
    finally:
        set_thread_count(count)


def test_a_packet_counts_with_one_update() -> None:
    active = ops.neq(ops.and_(counter(100), uint(3)), uint(1))
    root = while_loop([uint(0), array(np.zeros(3, np.uint32))], lambda s: ops.lt(s[0], uint(2)),
                      lambda s: [ops.add(s[0], uint(1)), scatter(s[1], uint(1), uint(1), active, ADD, AUTO)])[1]
    (kernel,) = plan([root], CPU_TARGET)
    text = emit.emit(assemble(kernel, CPU_TARGET._replace(threads=8)), 16)
    assert text.count("atomicrmw") == 1
    assert "call i16 @llvm.ctpop.i16" in text


@pytest.mark.parametrize("mode", [ReduceMode.Auto, ReduceMode.NoConflicts, ReduceMode.Expand, ReduceMode.Local])
def test_modes(mode: ReduceMode) -> None:
    same(lambda: in_a_loop(ADD, UINT32, 100, counter(100), mode=mode.value))


@pytest.mark.parametrize("iterations", [1, 4])
@pytest.mark.parametrize("size", [1, 17, 1000, 200_000])
def test_an_increment_gives_every_lane_a_number_of_its_own(size: int, iterations: int) -> None:
    """On all threads at once: the numbers found are 0, 1, 2 … in some order."""
    found = []

    def body(s: list[Node]) -> list[Node]:
        number, version = atomic(s[1], uint(1), uint(0), ops.lt(s[0], array(np.full(size, iterations, np.int32))), ADD)
        return [ops.add(s[0], literal(INT32, 1)), version, *s[3:], number]

    state = while_loop([literal(INT32, 0), uint(0), *[uint(0)] * iterations],
                       lambda s: ops.lt(s[0], array(np.full(size, iterations, np.int32))), body)
    evaluate(state)
    assert values(state[1])[0] == size * iterations
    found = np.concatenate([values(node) for node in state[2:]])
    assert_same_bits(np.sort(found), np.arange(size * iterations, dtype=np.uint32))


def test_a_number_found_is_a_place_to_write_to() -> None:
    """Compaction: what passes a test is appended to an array."""
    size = 50_000
    x = array(np.arange(size, dtype=np.uint32))
    chosen = ops.eq(ops.and_(x, uint(3)), uint(1))
    slot, count = atomic(uint(0), uint(1), uint(0), chosen, ADD)
    target = trace.scatter(array(np.zeros(size // 4, np.uint32)), x, slot, chosen, 0, 0)
    verify([target, count])
    assert values(count)[0] == size // 4
    assert_same_bits(np.sort(values(target)), np.arange(1, size, 4, dtype=np.uint32))


def nested(size: int) -> list[Node]:
    def inner(s: list[Node]) -> list[Node]:
        found, version = atomic(s[1], uint(2), counter(size), TRUE, ADD)
        return [ops.add(s[0], uint(1)), version, ops.add(s[2], found)]

    def outer(s: list[Node]) -> list[Node]:
        _, memory, total = while_loop([uint(0), s[1], s[2]], lambda t: ops.lt(t[0], s[0]), inner)
        found, memory = atomic(memory, uint(1), counter(size), TRUE, ADD)
        return [ops.add(s[0], uint(1)), memory, ops.add(total, found)]

    return while_loop([uint(0), uint(0, size), uint(0)], lambda s: ops.lt(s[0], uint(4)), outer)[1:]


def branch(size: int) -> list[Node]:
    def side(step: int) -> Callable[[list[Node]], list[Node]]:
        def update(s: list[Node]) -> list[Node]:
            found, _ = atomic(s[0], uint(step), counter(size), TRUE, ADD)
            again, _ = atomic(_, uint(step), counter(size), TRUE, ADD)
            return [ops.add(ops.mul(found, uint(100)), again)]

        return update

    memory = array(np.arange(size, dtype=np.uint32))
    results, versions = cond(ops.gt(memory, uint(size // 2)), [memory], side(1), side(5))
    return [*results, *versions.values()]


def calls(size: int) -> list[Node]:
    def target(step: int) -> Callable[[list[Node]], list[Node]]:
        def update(s: list[Node]) -> list[Node]:
            found, _ = atomic(s[1], ops.add(s[0], uint(step)), counter(size), TRUE, ADD)
            return [found]

        return update

    index = ops.and_(counter(size), uint(3)) if size > 1 else uint(1)
    memory = array(np.arange(size, dtype=np.uint32))
    results, versions = call(index, TRUE, [target(k) for k in range(3)], [counter(size), memory])
    return [*results, *versions.values()]


def known_branch(size: int) -> list[Node]:
    """A branch of which one side is taken for certain is traced again, outside of any region."""
    memory = array(np.arange(size, dtype=np.uint32))
    results, versions = cond(TRUE, [memory, counter(size)], lambda s: [atomic(s[0], uint(1), s[1], TRUE, ADD)[0]],
                             lambda s: [uint(0)])
    return [*results, *versions.values()]


@pytest.mark.parametrize("make", [nested, branch, calls, known_branch])
@pytest.mark.parametrize("size", [1, 16, 100])
def test_regions(make: Callable[[int], list[Node]], size: int) -> None:
    same(lambda: make(size))


@pytest.mark.parametrize("asked", range(2))
def test_outside_of_regions_each_result_may_be_asked_for_alone(asked: int) -> None:
    roots = list(atomic(array(np.arange(20, dtype=np.uint32)), uint(3), counter(20), TRUE, ADD))
    evaluate([roots[asked]])
    assert_same_bits(values(roots[0]), np.arange(20, dtype=np.uint32))
    assert_same_bits(values(roots[1]), np.arange(3, 23, dtype=np.uint32))


def test_lanes_that_take_no_part_find_zero() -> None:
    mask = array(np.array([True, False, True, False]))
    found, version = atomic(array(np.full(4, 9, np.uint32)), uint(1), counter(4), mask, ADD)
    assert values(found).tolist() == [9, 0, 9, 0]
    assert values(version).tolist() == [10, 9, 10, 9]
    target = array(np.full(4, 9, np.uint32))
    found, version = atomic(target, uint(1), counter(4), literal(BOOL, False), ADD)
    assert version is target
    assert values(found).tolist() == [0] * 4


def test_accesses_out_of_bounds_find_zero_in_debug_mode() -> None:
    with scoped_set_flag(JitFlag.Debug), pytest.warns(RuntimeWarning, match="out-of-bounds write"):
        found, version = atomic(array(np.full(3, 9, np.uint32)), uint(1), counter(5), TRUE, ADD)
        evaluate([found, version])
        expected = interpret([found, version])
        for node, data in zip((found, version), expected, strict=True):
            assert_same_bits(values(node), data)
        assert values(found).tolist() == [9, 9, 9, 0, 0]


def test_a_fetch_is_part_of_the_program_and_of_its_texts() -> None:
    def body(fetching: bool) -> list[Node]:
        def update(s: list[Node]) -> list[Node]:
            found, version = atomic(s[1], uint(1), uint(0), TRUE, ADD)
            return [ops.add(s[0], uint(1)), version, ops.add(s[2], found if fetching else uint(2))]

        state = [counter(20), array(np.zeros(1, np.uint32)), uint(0)]
        return while_loop(state, lambda s: ops.lt(s[0], uint(4)), update)

    roots = body(True)
    text = format_graph(roots)
    assert "= fetch(n" in text
    (with_fetch,), (without,) = plan(roots, CPU_TARGET), plan(body(False), CPU_TARGET)
    assert assemble(with_fetch, CPU_TARGET).key != assemble(without, CPU_TARGET).key
    assert "= fetch(v" in format_program(assemble(with_fetch, CPU_TARGET))


def test_bad_input() -> None:
    target = array(np.zeros(3, np.uint32))
    with pytest.raises(UnsupportedType, match="plain write"):
        atomic(target, uint(1), uint(0), TRUE, ReduceOp.Identity.value)
    with pytest.raises(UnsupportedType, match="scatter-reduction Or"):
        atomic(array(np.zeros(3, np.float32)), literal(FLOAT32, 1.0), uint(0), TRUE, ReduceOp.Or.value)


def test_the_verifier_refuses_what_is_no_reduction_and_stands_in_no_region() -> None:
    version = trace.scatter(array(np.zeros(3, np.uint32)), uint(1), counter(3), TRUE, ADD, 0)
    with pytest.raises(VerificationError, match="is in no region"):
        verify([trace.append(FETCH, UINT32, 3, version)])
    plain = trace.scatter(array(np.zeros(3, np.uint32)), uint(1), counter(3), TRUE, 0, 0)
    with pytest.raises(VerificationError, match="no scatter-reduction"):
        verify([trace.append(FETCH, UINT32, 3, plain)])


def test_what_is_found_may_be_gathered_with() -> None:
    table = array(np.arange(10, dtype=np.uint32) * 10)
    found, _ = atomic(array(np.arange(10, dtype=np.uint32)[::-1].copy()), uint(1), counter(10), TRUE, ADD)
    assert values(gather(table, found, TRUE)).tolist() == list(range(90, -1, -10))


@pytest.mark.parametrize("type_", ALL_TYPES, ids=name_of)
@pytest.mark.parametrize("compare", [False, True], ids=["exchange", "compare_exchange"])
@pytest.mark.parametrize("size", [1, 5, 16, 100])
@pytest.mark.parametrize("in_loop", [False, True], ids=["alone", "loop"])
def test_exchanges(type_: int, compare: bool, size: int, in_loop: bool) -> None:
    op = COMPARE_EXCHANGE if compare else EXCHANGE

    def make() -> list[Node]:
        target, value, rounds = sample(type_, size, 1), sample(type_, size, 2), sample(UINT32, size, 3)
        expected = sample(type_, size, 4) if compare else None
        if not in_loop:
            return list(atomic(target, value, counter(size), ops.lt(rounds, uint(3)), op, AUTO, expected))

        def body(s: list[Node]) -> list[Node]:
            found, version = atomic(s[1], value, counter(size), ops.neq(s[0], rounds), op, AUTO, expected)
            return [ops.add(s[0], uint(1)), version, found]

        return while_loop([uint(0), target, literal(type_, 0)], lambda s: ops.lt(s[0], uint(3)), body)[1:]

    same(make)


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("compare", [False, True], ids=["exchange", "compare_exchange"])
def test_exchanges_of_lanes_that_meet_take_turns(compare: bool) -> None:
    size = jit.lanes()
    expected = sample(UINT32, size, 4) if compare else None
    same(lambda: list(atomic(sample(UINT32, 4, 1), sample(UINT32, size, 2), ops.and_(counter(size), uint(3)), TRUE,
                             COMPARE_EXCHANGE if compare else EXCHANGE, AUTO, expected)))


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("size", [1, 16, 100])
def test_exchanges_in_branches(known: bool, size: int) -> None:
    """The compare-and-exchange of a branch whose mask is known becomes part of what is around it."""
    def make() -> list[Node]:
        target, value = sample(UINT32, size, 1), sample(UINT32, size, 2)
        mask = literal(BOOL, True) if known else ops.lt(value, uint(3))

        def true(s: list[Node]) -> list[Node]:
            return [atomic(s[0], uint(7), counter(size), TRUE, COMPARE_EXCHANGE, AUTO, s[1])[0]]

        def false(s: list[Node]) -> list[Node]:
            return [uint(0)]

        results, versions = cond(mask, [target, value], true, false)
        return [*results, *versions.values()]

    same(make)


def test_exchanges_are_named_in_texts_and_part_of_the_key() -> None:
    def keys(op: int) -> bytes:
        root = atomic(sample(UINT32, 16, 1), uint(3), counter(16), TRUE, op, AUTO,
                      uint(5) if op == COMPARE_EXCHANGE else None)[1]
        (kernel,) = plan([root], CPU_TARGET)
        program = assemble(kernel, CPU_TARGET)
        text = format_program(program)
        assert ("compare_exchange" if op == COMPARE_EXCHANGE else "exchange") in text + format_graph([root])
        shared = assemble(kernel, CPU_TARGET._replace(threads=2))
        assert ("cmpxchg" in emit.emit(shared, 16)) == (op == COMPARE_EXCHANGE)
        return bytes(program.key)

    assert keys(EXCHANGE) != keys(COMPARE_EXCHANGE)


def test_the_verifier_refuses_exchanges_that_expect_nothing() -> None:
    def body(s: list[Node]) -> list[Node]:
        found, version = atomic(s[1], uint(3), counter(16), TRUE, EXCHANGE, AUTO)
        version.attr = COMPARE_EXCHANGE
        return [ops.add(s[0], uint(1)), version, found]

    with pytest.raises(VerificationError, match="a compare-and-exchange expects nothing"):
        verify(while_loop([uint(0), sample(UINT32, 16, 1), uint(0)], lambda s: ops.lt(s[0], uint(2)), body))
