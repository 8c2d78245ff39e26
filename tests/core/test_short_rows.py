"""Views of short rows, several of which a packet goes over: against the interpreter, beside memory that is out of
bounds, and by the texts and keys of their kernels."""

from __future__ import annotations

import ctypes
import mmap
import os
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import drjit_core as core
from drjit_core import (
    TYPES,
    Node,
    ReduceOp,
    evaluate,
    interpret,
    literal,
    on_backend,
    ops,
    reduce,
    segment,
    undefined,
    view,
)
from drjit_core.codegen.program import DENSE, PERIODIC, SPREAD, assemble
from drjit_core.ir.trace import gather, opaque, scatter
from drjit_core.llvm import emit, jit
from drjit_core.passes.schedule import plan
from drjit_core.runtime.cpu.target import CPU_TARGET
from drjit_core.runtime.cpu.texts import TEXTS
from drjit_core.runtime.null import Null
from drjit_core.runtime.recording import Recorded
from tests.core.harness import (
    ALL_TYPES,
    BOOL,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    TRUE,
    UINT8,
    UINT32,
    array,
    key_of,
    launches,
    program_of,
    shared,
)

#: By their names: base, distances of rows and of elements of a row, number of elements of the source, for a number of
#: rows and their length.
FORMS: dict[str, Callable[[int, int], tuple[int, int, int, int]]] = {
    "a row repeated": lambda n, p: (0, 0, 1, p), "a row repeated backwards": lambda n, p: (p, 0, -1, p + 1),
    "parts of a row repeated": lambda n, p: (1, 0, 3, 3 * p), "one element": lambda n, p: (2, 0, 0, 3),
    "elements repeated": lambda n, p: (0, 1, 0, n), "some elements repeated": lambda n, p: (1, 2, 0, 2 * n),
    "rows in reverse": lambda n, p: (p - 1, p, -1, n * p), "parts of rows": lambda n, p: (1, p + 1, 1, n * (p + 1)),
    "overlapping": lambda n, p: (0, 1, 1, n + p), "overlapping backwards": lambda n, p: (p, 1, -1, n + p),
    "every other element": lambda n, p: (0, 2 * p, 2, 2 * n * p), "far apart": lambda n, p: (3, p + 9, 1, n * (p + 9)),
    "transposed": lambda n, p: (0, 1, n, n * p), "transposed backwards": lambda n, p: (n * p - 1, -1, -n, n * p),
    "rows backwards": lambda n, p: ((n - 1) * p, -p, 1, n * p),
    "rows of spread elements": lambda n, p: (0, 3, 7, 3 * n + 7 * p),
}
COUNTS = (2, 5, 22, 33, 64, 101)


def numbers(size: int, type_: int, seed: int = 0) -> np.ndarray[Any, Any]:
    generator = np.random.default_rng(seed)
    if type_ == BOOL:
        return generator.random(size) > 0.4
    return generator.integers(0, 100, size).astype(TYPES[type_].name)


def seen(source: Node, form: str, rows: int, period: int) -> Node:
    base, outer, inner, _ = FORMS[form](rows, period)
    found = view(source, base, (rows, period), (outer, inner))
    assert found is not None
    return found


def source_of(form: str, rows: int, period: int, type_: int, make: Callable[..., Node] = array, seed: int = 0) -> Node:
    return make(numbers(FORMS[form](rows, period)[3], type_, seed + rows))


def agree(*roots: Node) -> None:
    expected = interpret(list(roots))
    evaluate(list(roots))
    for found, want in zip(interpret(list(roots)), expected, strict=True):
        np.testing.assert_array_equal(found, want)


def check(rows: int, period: int, type_: int, make: Callable[..., Node] = array) -> None:
    """All forms in one kernel, beside an array that is read as it is."""
    other = array(numbers(rows * period, type_, 1))
    combine = ops.xor if type_ == BOOL else ops.add
    roots = [combine(seen(source_of(form, rows, period, type_, make), form, rows, period), other) for form in FORMS]
    with launches() as found:
        agree(*roots)
    assert len(found) == 1 or make is not array


@pytest.mark.parametrize("period", (2, 3))
@pytest.mark.parametrize("type_", ALL_TYPES, ids=lambda type_: TYPES[type_].name)
def test_rows_of_two_and_three_elements_of_all_types(type_: int, period: int) -> None:
    for rows in COUNTS:
        check(rows, period, type_)


@pytest.mark.parametrize("period", range(4, CPU_TARGET.rows.flat + 1))
@pytest.mark.parametrize("type_", (UINT8, FLOAT16, FLOAT32, FLOAT64), ids=lambda type_: TYPES[type_].name)
def test_longer_rows(type_: int, period: int) -> None:
    for rows in COUNTS:
        check(rows, period, type_)


@pytest.mark.parametrize("period", (2, 3, 7))
def test_blocks_begin_anywhere_in_a_row(period: int) -> None:
    for rows in (8192, 20_011, 70_001):
        check(rows, period, FLOAT32)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("type_", (BOOL, FLOAT32, FLOAT64), ids=lambda type_: TYPES[type_].name)
def test_kernels_of_one_view(type_: int, form: str) -> None:
    """Whose packets are the longest."""
    for period in (2, 3, 5, 8):
        for rows in (3, 33, 65, 131):
            agree(seen(source_of(form, rows, period, type_), form, rows, period))


@pytest.mark.parametrize("make", (lambda data: opaque(array(data)), shared), ids=("computed", "foreign"))
def test_other_memory(make: Callable[..., Node]) -> None:
    for period in (2, 3, 6):
        check(37, period, FLOAT32, make)


@pytest.fixture
def guarded() -> Any:
    """A function that puts arrays where nothing may be read in front of them, and another one for behind."""
    if os.name != "posix":
        pytest.skip("protects pages")
    libc, page, held = ctypes.CDLL(None, use_errno=True), mmap.PAGESIZE, []
    libc.mprotect.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int

    def place(data: np.ndarray[Any, Any], behind: bool) -> np.ndarray[Any, Any]:
        size = -(-data.nbytes // page) * page
        memory = mmap.mmap(-1, size + 2 * page)
        raw = (ctypes.c_char * (size + 2 * page)).from_buffer(memory)
        start = ctypes.addressof(raw) + page
        for guard in (start - page, start + size):
            assert libc.mprotect(guard, page, 0) == 0
        held.append((memory, raw, start - page, size + 2 * page))
        found = np.frombuffer(memory, data.dtype, data.size, page + (size - data.nbytes if behind else 0))
        found[:] = data
        return found

    yield place
    core.flush_malloc_cache()
    for _, _, start, size in held:
        libc.mprotect(start, size, mmap.PROT_READ | mmap.PROT_WRITE)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("behind", (False, True), ids=("in front", "behind"))
def test_nothing_is_read_that_is_out_of_bounds(guarded: Any, behind: bool, form: str) -> None:
    for type_ in (UINT8, FLOAT32, FLOAT64):
        for period in (2, 3, 4, 7):
            for rows in (2, 23, 64, 129):
                base, outer, inner, _ = FORMS[form](rows, period)
                reach = (rows - 1) * outer, (period - 1) * inner
                first = base + sum(min(0, steps) for steps in reach)
                used = sum(map(abs, reach)) + 1
                source = shared(guarded(numbers(max(used, 2), type_), behind))
                found = view(source, base - first, (rows, period), (outer, inner))
                assert found is not None
                agree(ops.add(found, array(numbers(rows * period, type_, 1))))


def test_views_that_do_not_fit_each_other() -> None:
    """Rows of six elements beside rows of four, which divide neither each other nor packets."""
    first, second = array(numbers(6, FLOAT32)), array(numbers(18, FLOAT32))
    with launches() as found:
        agree(ops.add(seen(first, "a row repeated", 12, 6), seen(second, "elements repeated", 18, 4)))
    assert len(found) == 1


def test_other_views_beside_rows_of_three_are_read_by_index() -> None:
    short, deep = array(numbers(3, FLOAT32)), array(numbers(40, FLOAT32))
    cube = view(deep, 1, (4, 5, 3), (5, 0, 1))
    long = view(array(numbers(20, FLOAT32)), 0, (3, 20), (0, 1))
    assert cube is not None and long is not None
    with launches() as found:
        agree(ops.add(seen(short, "a row repeated", 20, 3), ops.mul(cube, long)))
    assert len(found) == 1


def test_reductions_writes_and_reads_by_index_beside_short_rows() -> None:
    data = ops.mul(seen(array(numbers(50, FLOAT32)), "elements repeated", 50, 3),
                   seen(array(numbers(3, FLOAT32)), "a row repeated", 50, 3))
    index = seen(array(np.arange(50, dtype=np.uint32) * 7 % 50), "elements repeated", 50, 3)
    table = array(numbers(50, FLOAT32))
    agree(reduce(data, ReduceOp.Max.value), data,
          scatter(array(np.zeros(50, np.float32)), data, index, TRUE, ReduceOp.Add.value, 0),
          gather(table, index, seen(array(numbers(3, BOOL)), "a row repeated", 50, 3)))


def test_reductions_of_rows_that_were_short_views() -> None:
    for period in (2, 3, 4, 8):
        row = seen(array(numbers(period, FLOAT32)), "a row repeated", 40, period)
        data = ops.add(array(numbers(40 * period, FLOAT32)), row)
        sums = segment(data, ReduceOp.Add.value, 40, period, 1, 0)
        columns = segment(data, ReduceOp.Add.value, 1, 40, period, 0)
        assert sums is not None and columns is not None
        agree(data, sums, columns)


def test_short_rows_beside_loops_and_branches() -> None:
    data = seen(array(numbers(3, UINT32)), "a row repeated", 30, 3)
    (looped,) = core.while_loop([data], lambda state: ops.lt(state[0], literal(UINT32, 300)),
                                lambda state: [ops.add(state[0], ops.add(data, literal(UINT32, 7)))])
    agree(looped, ops.add(looped, seen(array(numbers(30, UINT32)), "elements repeated", 30, 3)))


def test_kernels_of_very_many_views() -> None:
    total = array(numbers(60, FLOAT32))
    for number in range(CPU_TARGET.rows.views + 6):
        total = ops.add(total, seen(array(numbers(3, FLOAT32, number)), "a row repeated", 20, 3))
    (kernel,) = plan([total], CPU_TARGET)
    assert len(assemble(kernel, CPU_TARGET).short) == CPU_TARGET.rows.views
    agree(total)


def test_recordings_of_what_was_computed_of_short_rows() -> None:
    """Views that were traced before are of arrays of the sizes that these have."""
    outer = ops.mul(seen(array(numbers(3, FLOAT32)), "a row repeated", 20, 3),
                    seen(array(numbers(20, FLOAT32)), "elements repeated", 20, 3))
    recorded = Recorded(lambda x: [ops.add(x, outer)])
    expected = numbers(3, FLOAT32)[np.arange(60) % 3] * numbers(20, FLOAT32)[np.arange(60) // 3]
    for seed in range(3):
        data = numbers(60, FLOAT32, seed)
        (found,) = recorded(array(data))
        np.testing.assert_array_equal(interpret([found])[0], data + expected)
    with pytest.raises(core.IncompatibleSizes):
        recorded(array(numbers(120, FLOAT32)))
    beside = Recorded(lambda x: [ops.neg(x), ops.neg(outer)])
    for size in (60, 50):
        assert [result.shape for result in interpret(list(beside(array(numbers(size, FLOAT32)))))] == [(size,), (60,)]


@pytest.mark.parametrize("form", FORMS)
def test_positions_of_64_bits_compile(form: str) -> None:
    """Planning and compilation need no memory."""
    rows = 1 << 31
    for period in (2, 3, 5):
        with on_backend(Null(TEXTS)):
            base, outer, inner, size = FORMS[form](rows, period)
            source = opaque(undefined(FLOAT32, size))
            evaluate([source])
            found = view(source, base, (rows, period), (outer, inner))
            assert found is not None
            program = program_of(ops.neg(found))
            assert program.wide
            for lanes in (4, 16):
                jit.compile_text(emit.emit(program, lanes))


# --- texts and keys --------------------------------------------------------------------------------------------------


def layout_of(form: str, rows: int = 40, period: int = 3) -> tuple[int, str]:
    program = program_of(ops.neg(seen(source_of(form, rows, period, FLOAT32), form, rows, period)))
    (layout,) = program.accesses.values()
    return layout, emit.emit(program, 16)


@pytest.mark.parametrize(("layout", "forms"), [
    (PERIODIC, ("a row repeated", "a row repeated backwards", "parts of a row repeated", "one element")),
    (DENSE, ("elements repeated", "some elements repeated", "rows in reverse", "parts of rows", "overlapping")),
    (SPREAD, ("far apart", "transposed", "transposed backwards", "rows backwards"))],
    ids=("periodic", "dense", "spread"))
def test_packets_need_no_position_of_each_element(layout: int, forms: tuple[str, ...]) -> None:
    for form in forms:
        found, text = layout_of(form)
        assert found == layout
        assert "%lane" not in text or layout == SPREAD  # for its mask
        assert text.count("llvm.masked.gather") == (layout != PERIODIC)


def test_what_packets_are_made_of_is_part_of_the_key_and_positions_are_not() -> None:
    def key(form: str, rows: int = 40, period: int = 3, type_: int = FLOAT32) -> Any:
        return key_of(ops.neg(seen(source_of(form, rows, period, type_), form, rows, period)))

    different = {key(form, 40, period) for form in ("a row repeated", "elements repeated", "overlapping",
                                                    "rows in reverse", "transposed") for period in (2, 3, 4)}
    assert len(different) == 15
    for form in FORMS:
        assert key(form) == key(form, 700)
        assert key(form) != key(form, type_=FLOAT64)
    assert key("a row repeated") == key("one element") == key("parts of a row repeated")
    assert key("transposed") == key("far apart") == key("rows backwards")


def test_long_rows_and_rows_that_are_asked_for_stay_rows() -> None:
    long = seen(array(numbers(CPU_TARGET.rows.flat + 1, FLOAT32)), "a row repeated", 40, CPU_TARGET.rows.flat + 1)
    assert not program_of(ops.neg(long)).domain.is_flat
    short = seen(array(numbers(4, FLOAT32)), "a row repeated", 40, 4)
    assert program_of(ops.neg(short)).domain.is_flat
    sums = segment(ops.add(short, array(numbers(160, FLOAT32))), ReduceOp.Add.value, 40, 4, 1, 0)
    assert sums is not None
    assert not program_of(sums).domain.is_flat


# --- random programs -------------------------------------------------------------------------------------------------


def random_program(seed: int, data: int = 0) -> None:
    """A program of a seed, with other numbers each time."""
    generator, contents = random.Random(seed), seed + 1_000_000 * data
    type_ = generator.choice(ALL_TYPES)
    size = 840 * generator.choice((1, 2, 8)) if generator.random() < 0.7 else generator.randrange(4, 2000) * 6
    periods = [period for period in range(2, CPU_TARGET.rows.flat + 1) if size % period == 0 and size > period]
    combine = ops.xor if type_ == BOOL else generator.choice((ops.add, ops.minimum))
    make = generator.choice((array, shared, lambda data: opaque(array(data))))
    roots = []
    for _ in range(generator.randrange(1, 4)):
        total = array(numbers(size, type_, contents)) if generator.random() < 0.5 else None
        for _ in range(generator.randrange(1, 6)):
            period = generator.choice(periods)
            if generator.random() < 0.3:
                rows = size // period
                outer = generator.randrange(-2 * period, 2 * period + 1)
                inner = generator.randrange(-period, period + 1)
                reach = (rows - 1) * outer, (period - 1) * inner
                base = -sum(min(0, steps) for steps in reach) + generator.randrange(3)
                used = base + sum(max(0, steps) for steps in reach)
                source = make(numbers(used + generator.randrange(2, 4), type_, contents))
                found = view(source, base, (rows, period), (outer, inner))
                assert found is not None
            else:
                form = generator.choice(list(FORMS))
                rows = size // period
                found = seen(source_of(form, rows, period, type_, make, contents), form, rows, period)
            total = found if total is None else combine(total, found)
        roots.append(total)
    agree(*(root for root in roots if root is not None))


def check_again(seed: int) -> None:
    """The second time, a recipe is made; the third time, it is used."""
    for data in range(3):
        random_program(seed, data)


@pytest.mark.parametrize("block", range(4))
def test_random_views(block: int) -> None:
    for seed in range(25 * block, 25 * block + 25):
        check_again(seed)


@pytest.mark.exhaustive
@pytest.mark.parametrize("block", range(20))
def test_two_thousand_random_views(block: int) -> None:
    for seed in range(1000 + 100 * block, 1100 + 100 * block):
        check_again(seed)
