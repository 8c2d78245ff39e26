"""Memory: nothing is read or written beyond the end of what belongs to others, and nothing leaks."""

from __future__ import annotations

import ctypes
import gc
import mmap
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from drjit_core import (
    TYPES,
    Node,
    ReduceMode,
    ReduceOp,
    VarState,
    cast,
    counter,
    evaluate,
    flush_malloc_cache,
    gather,
    host_view,
    import_copy,
    import_shared,
    invalid,
    literal,
    malloc_statistics,
    opaque,
    ops,
    read_element,
    reduce,
    rewritten,
    scatter,
    set_element,
    state_of,
    sync,
    undefined,
    while_loop,
)
from drjit_core.ir.node import imported_node, node_count, numbered_count, sweep
from drjit_core.runtime.backends import LLVM
from drjit_core.runtime.buffer import Buffer
from drjit_core.runtime.cpu.memory import HEAP
from tests.core.harness import (
    ALL_TYPES,
    BOOL,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT8,
    INT32,
    INT64,
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

_PAGE = mmap.PAGESIZE


class Holder:
    """The one holder of a node, as an array is."""

    __slots__ = ("node",)

    def __init__(self, node: Node) -> None:
        self.node = node


def in_use() -> int:
    gc.collect()
    sync()
    return malloc_statistics()["in_use"]


# --- guard pages -----------------------------------------------------------------------------------------------------


class Guarded:
    """Memory between two pages that may not be touched: an access beyond either end kills the process."""

    def __init__(self, nbytes: int, at_end: bool, writable: bool = True) -> None:
        self.pages = max(1, -(-nbytes // _PAGE))
        self.map = mmap.mmap(-1, (self.pages + 2) * _PAGE)
        self.start = ctypes.addressof(ctypes.c_char.from_buffer(self.map))
        inner = self.start + _PAGE
        self.address = inner + self.pages * _PAGE - nbytes if at_end else inner
        self.nbytes = nbytes
        self.data = np.frombuffer((ctypes.c_char * nbytes).from_address(self.address), np.uint8)
        self._protect(self.start, _PAGE, 0)
        self._protect(inner + self.pages * _PAGE, _PAGE, 0)

    def _protect(self, address: int, size: int, protection: int) -> None:
        mprotect = ctypes.CDLL(None, use_errno=True).mprotect
        assert mprotect(ctypes.c_void_p(address), ctypes.c_size_t(size), protection) == 0

    def make_read_only(self) -> None:
        """From here on, a write kills the process."""
        self._protect(self.start + _PAGE, self.pages * _PAGE, mmap.PROT_READ)

    def release(self) -> None:
        self._protect(self.start, (self.pages + 2) * _PAGE, mmap.PROT_READ | mmap.PROT_WRITE)


@pytest.fixture
def guarded() -> Iterator[Any]:
    made: list[Guarded] = []

    def make(data: np.ndarray[Any, Any], at_end: bool) -> Node:
        block = Guarded(data.nbytes, at_end)
        block.data.view(data.dtype)[:] = data
        block.make_read_only()
        made.append(block)
        return import_shared({dtype_of(t): t for t in ALL_TYPES}[data.dtype], block.address, data.size, block)

    yield make
    sync()
    for block in made:
        block.release()


@pytest.mark.parametrize("at_end", [True, False])
@pytest.mark.parametrize("type_", ALL_TYPES, ids=name_of)
def test_foreign_memory_is_not_touched_beyond_its_end(guarded: Any, type_: int, at_end: bool) -> None:
    for size in (1, 2, 7, 15, 16, 17, 31, 63, 64, 65, 127, 250, 1001):
        data = (np.arange(size) % 7).astype(dtype_of(type_))
        x = guarded(data, at_end)
        y = ops.xor(x, literal(BOOL, True)) if type_ == BOOL else ops.add(x, literal(type_, 1))
        assert_same_bits(values(y), ~data if type_ == BOOL else data + data.dtype.type(1))
        assert_same_bits(values(gather(x, ops.sub(literal(UINT32, size - 1), counter(size)), TRUE)), data[::-1])
        if type_ != BOOL:
            assert values(reduce(x, ReduceOp.Max.value))[0] == data.max()
        changed = scatter(x, literal(type_, 1), literal(UINT32, size - 1), TRUE, 0, 0)
        assert values(changed)[-1] == 1
        assert_same_bits(values(x), data)
        assert read_element(x, size - 1) == data[-1]


@pytest.mark.parametrize("at_end", [True, False])
def test_gathers_and_loops_over_foreign_memory_stay_inside(guarded: Any, at_end: bool) -> None:
    data = np.arange(77, dtype=np.uint32)
    x = guarded(data, at_end)
    for size in (1, 5, 16, 77, 130):
        index = counter(size)
        inside = ops.lt(index, literal(UINT32, 77))
        expected = np.where(np.arange(size) < 77, np.arange(size), 0).astype(np.uint32)
        assert_same_bits(values(gather(x, ops.mul(index, literal(UINT32, 1)), inside)), expected)
        (end,) = while_loop([index], lambda s: ops.lt(s[0], literal(UINT32, 77)),
                            lambda s: [ops.add(gather(x, s[0], TRUE), literal(UINT32, 1))])
        assert_same_bits(values(end), np.maximum(np.arange(size), 77).astype(np.uint32))


def test_a_single_masked_access_touches_nothing(guarded: Any) -> None:
    x = guarded(np.arange(3, dtype=np.float64), True)
    for index in (3, 1 << 20, 0xFFFF_FFFF):
        off = array([False])
        assert values(gather(x, array([index], UINT32), off)).tolist() == [0]
    y = scatter(array(np.zeros(9), FLOAT64), literal(FLOAT64, 1), array([1 << 31], UINT32), array([False]), 0, 0)
    assert values(y).tolist() == [0] * 9


def test_foreign_memory_of_any_alignment() -> None:
    backing = np.arange(200, dtype=np.float32)
    for offset in range(17):
        view = backing[offset:offset + 100]
        assert_same_bits(values(ops.neg(shared(view))), -view)
    with pytest.raises(ValueError, match="not aligned"):
        import_shared(FLOAT32, backing.ctypes.data + 2, 10, backing)


def test_stores_stay_inside_the_padding() -> None:
    """Whole packets run over the end of our own arrays, never further than the padding that belongs to them."""
    for type_ in ALL_TYPES:
        info = TYPES[type_]
        for size in (2, 3, 15, 63, 65, 1001):
            node = cast(ops.add(counter(size), literal(UINT32, 1)), type_)
            evaluate([node])
            sync()
            block = node.payload._block
            assert block.capacity >= size * info.size + HEAP.padding
            nbytes = size * info.size
            behind = (ctypes.c_uint8 * (block.capacity - nbytes)).from_address(block.address + nbytes)
            ctypes.memset(behind, 0xA5, len(behind))
            index = array(np.arange(size), UINT32)
            box = [scatter(node, literal(type_, 1), index, TRUE, 0, 0)]
            del node
            evaluate(box)
            sync()
            assert set(behind) == {0xA5}, "a write by index has no reason to touch the padding"


def test_kernels_write_no_further_than_a_packet_behind_the_end() -> None:
    for type_ in ALL_TYPES:
        for size in (2, 17, 65, 1000):
            blocks = [HEAP.allocate(size * TYPES[type_].size) for _ in range(4)]
            for block in blocks:
                ctypes.memset(block.address, 0xA5, block.capacity)
                HEAP.release(block)
            node = cast(ops.mul(counter(size), literal(UINT32, 3)), type_)
            evaluate([node])
            sync()
            block = node.payload._block
            raw = np.frombuffer((ctypes.c_uint8 * block.capacity).from_address(block.address), np.uint8)
            touched = np.flatnonzero(raw[size * TYPES[type_].size:] != 0xA5)
            assert touched.size == 0 or touched[-1] < HEAP.padding


@pytest.mark.parametrize("op", [ReduceOp.Add, ReduceOp.Mul, ReduceOp.Min, ReduceOp.Identity], ids=lambda op: op.name)
@pytest.mark.parametrize("mode", [ReduceMode.Direct, ReduceMode.Expand, ReduceMode.NoConflicts], ids=lambda m: m.name)
@pytest.mark.parametrize("density", [0, 0.03, 0.5, 1])
def test_masked_lanes_of_a_scatter_touch_no_memory(op: ReduceOp, mode: ReduceMode, density: float) -> None:
    """The element behind the last one is nobody's, too: threads would contend for it."""
    rng = np.random.default_rng(1)
    for type_ in (INT8, FLOAT16, FLOAT32, INT64, FLOAT64):
        for width, size in ((1, 7), (33, 50), (40_000, 64_000)):
            mask = rng.random(width) < density
            index = np.where(mask, rng.permutation(size)[:width], 0xFFFF_FF00).astype(np.uint32)
            value = rng.integers(1, 4, width).astype(dtype_of(type_))
            target = array(np.full(size, 2), type_)
            block = target.payload._block
            raw = np.frombuffer((ctypes.c_uint8 * block.capacity).from_address(block.address), np.uint8)
            nbytes = size * TYPES[type_].size
            ctypes.memset(block.address + nbytes, 0xA5, block.capacity - nbytes)
            expected = np.full(size, 2, dtype_of(type_))
            hit, old = index[mask], expected[index[mask]]
            expected[hit] = {ReduceOp.Add: old + value[mask], ReduceOp.Mul: old * value[mask],
                             ReduceOp.Min: np.minimum(old, value[mask]), ReduceOp.Identity: value[mask]}[op]
            kind = 0 if op is ReduceOp.Identity else mode.value
            evaluate([target := scatter(target, array(value), array(index), array(mask), op.value, kind)])
            assert_same_bits(values(target), expected)
            assert target.payload._block is block or (mode is ReduceMode.Expand and width > 1000)
            assert np.all(raw[nbytes:] == 0xA5)


# --- import and export -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("type_", ALL_TYPES, ids=name_of)
def test_a_copy_is_independent_of_its_source(type_: int) -> None:
    data = (np.arange(33) % 2).astype(dtype_of(type_))
    x = import_copy(type_, data.view(f"u{data.itemsize}"))
    original = data.copy()
    data[:] = 1
    assert_same_bits(values(x), original)
    assert x.payload.padded and not x.payload.read_only
    assert x.payload.address % 64 == 0


def test_what_cannot_be_imported_is_refused() -> None:
    with pytest.raises(ValueError, match="contiguous"):
        import_copy(FLOAT32, np.zeros(10, np.float32)[::2])
    with pytest.raises(ValueError, match="no multiple"):
        import_copy(FLOAT64, np.zeros(3, np.float32))
    assert import_copy(FLOAT32, b"") is invalid(FLOAT32)
    assert import_shared(FLOAT32, 64, 0, None) is invalid(FLOAT32)


def test_a_shared_import_shows_what_its_owner_writes_and_keeps_it_alive() -> None:
    class Owner:
        def __init__(self) -> None:
            self.data = np.arange(20, dtype=np.float32)

    owner = Owner()
    data, alive = owner.data, weakref.ref(owner)
    x = import_shared(FLOAT32, data.ctypes.data, 20, owner)
    del owner
    gc.collect()
    assert alive() is not None
    data[3] = 100
    assert values(x)[3] == 100
    y = ops.add(x, x)
    del x
    assert values(y)[3] == 200
    gc.collect()
    assert alive() is None


def test_foreign_memory_lives_until_the_launches_that_read_it_have_run() -> None:
    size = 2_000_000
    for i in range(5):
        data = np.full(size, i, np.float32)
        alive = weakref.ref(data)
        y = ops.sqrt(ops.mul(shared(data), shared(data)))
        del data
        evaluate([y])
        result = values(y)
        assert result[0] == i and result[-1] == i and (result == i).all()
        del y
        gc.collect()
        evaluate([ops.add(array([1]), array([2]))])
        assert alive() is None


def test_a_view_shows_later_writes() -> None:
    holder = Holder(array(np.arange(10), INT32))
    address, pinned = host_view(holder.node)[1:]  # not the node, which would make a write copy
    view = np.frombuffer((ctypes.c_char * 40).from_address(address), np.int32)
    holder.node = rewritten(holder.node, set_element(3, 77))
    assert view[3] == 77
    box = [scatter(holder.node, literal(INT32, 88), literal(UINT32, 4), TRUE, 0, 0)]
    holder.node = box[0]
    del box
    values(holder.node)
    assert view[4] == 88
    del holder
    gc.collect()
    assert view[3] == 77 and isinstance(pinned, Buffer)


def test_a_view_keeps_the_memory() -> None:
    x = ops.mul(counter(1000), literal(UINT32, 3))
    _, address, pinned = host_view(x)
    del x
    others = [values(ops.add(counter(1000), literal(UINT32, i + 2))) for i in range(10)]
    view = np.frombuffer((ctypes.c_char * 4000).from_address(address), np.uint32)
    assert view[999] == 2997 and len(others) == 10
    del pinned


# --- single elements -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("type_", ALL_TYPES, ids=name_of)
def test_reading_an_element_of_evaluated_memory_launches_nothing(type_: int) -> None:
    data = (np.arange(20) % 3).astype(dtype_of(type_))
    x = array(data)
    with launches() as history:
        assert [read_element(x, i) for i in range(20)] == data.tolist()
    assert history == []
    assert read_element(literal(type_, 1, 20), 3) == 1
    assert type(read_element(x, 0)) is type(data[0].item())
    y = ops.select(array(np.ones(20, bool)), x, x) if type_ == BOOL else ops.add(x, x)
    assert read_element(y, 2) == (data[2] if type_ == BOOL else data[2] + data[2])


@pytest.mark.parametrize("kind", ["evaluated", "computed", "literal", "undefined", "shared"])
def test_writing_an_element_copies_if_somebody_else_holds_the_array(kind: str) -> None:
    data = np.full(20, 5, np.int32)
    make = {"evaluated": lambda: array(data),
            "computed": lambda: ops.add(array(np.full(20, 2, np.int32)), literal(INT32, 3)),
            "literal": lambda: literal(INT32, 5, 20), "undefined": lambda: undefined(INT32, 20),
            "shared": lambda: shared(data)}[kind]
    first = Holder(make())
    second = Holder(first.node)
    first.node = rewritten(first.node, set_element(3, -1))
    first.node = rewritten(first.node, set_element(4, -2))
    assert values(first.node)[[3, 4]].tolist() == [-1, -2]
    if kind != "undefined":
        assert values(second.node).tolist() == [5] * 20
    assert data.tolist() == [5] * 20
    second.node = rewritten(second.node, set_element(5, 9))
    assert values(first.node)[3] == -1 and values(second.node)[5] == 9
    assert kind == "undefined" or values(first.node)[5] == 5


def test_writing_an_element_in_place_allocates_nothing() -> None:
    holder = Holder(array(np.zeros(1000), FLOAT32))
    before, address = in_use(), holder.node.payload.address
    for i in range(1000):
        holder.node = rewritten(holder.node, set_element(i, float(i)))
    assert in_use() == before and holder.node.payload.address == address
    assert_same_bits(values(holder.node), np.arange(1000, dtype=np.float32))


def test_a_pending_reader_makes_a_write_copy() -> None:
    holder = Holder(array(np.zeros(10), FLOAT32))
    reader = ops.add(holder.node, literal(FLOAT32, 1))
    holder.node = rewritten(holder.node, set_element(3, 50.0))
    assert values(reader).tolist() == [1] * 10
    assert values(holder.node)[3] == 50


# --- amounts ---------------------------------------------------------------------------------------------------------


def test_a_fused_expression_allocates_its_output_only() -> None:
    size = 1_000_000
    x, y = array(np.zeros(size), FLOAT32), array(np.ones(size), FLOAT32)
    flush_malloc_cache()
    before = HEAP.statistics()["in_use"]
    HEAP.reset_peak()
    z = x
    for i in range(30):
        z = ops.add(ops.mul(z, y), literal(FLOAT32, i + 2))
    evaluate([z])
    sync()
    one = HEAP.size_class(4 * size)
    assert HEAP.statistics()["peak"] == before + one
    HEAP.reset_peak()
    total = reduce(ops.mul(z, y), ReduceOp.Add.value)
    evaluate([total])
    sync()
    assert HEAP.statistics()["peak"] < before + one + 100_000
    assert HEAP.statistics()["in_use"] < before + one + 10_000


def test_memory_is_used_again() -> None:
    def step() -> None:
        evaluate([ops.add(array(np.zeros(50_000), FLOAT32), literal(FLOAT32, 3))])

    step()
    sync()
    before = malloc_statistics()["allocations"]
    for _ in range(50):
        step()
    assert malloc_statistics()["allocations"] - before < 5


def test_a_flush_returns_what_is_free_and_keeps_what_is_used() -> None:
    x = ops.add(array(np.zeros(3_000_000), FLOAT32), literal(FLOAT32, 3))
    evaluate([x])
    flush_malloc_cache()
    assert malloc_statistics()["cached"] == 0
    assert (values(x) == 3).all()
    used = in_use()
    del x
    assert in_use() <= used - 12_000_000
    assert malloc_statistics()["cached"] >= 12_000_000
    flush_malloc_cache()
    assert malloc_statistics()["cached"] == 0


def test_a_size_that_cannot_be_had_is_a_memory_error() -> None:
    with pytest.raises(MemoryError, match="cannot allocate"):
        LLVM.allocate(1 << 60)
    with pytest.raises(MemoryError, match="cannot allocate"):
        opaque(literal(FLOAT64, 1, 1 << 50))
    one = array([1], FLOAT64)
    before = in_use()
    failing = ops.add(literal(FLOAT64, 1, 1 << 50), one)
    with pytest.raises(MemoryError, match="cannot allocate"):
        evaluate([failing])
    assert state_of(failing) is VarState.Unevaluated
    assert in_use() == before
    assert values(ops.add(one, one)).tolist() == [2]


@pytest.mark.parametrize("evaluate_every", [1, 7])
def test_ten_thousand_iterations_grow_neither_memory_nor_nodes(evaluate_every: int) -> None:
    holder = Holder(array(np.zeros(100), FLOAT32))
    step = array(np.ones(100), FLOAT32)

    def iterate(count: int) -> None:
        for i in range(count):
            holder.node = ops.add(ops.mul(holder.node, literal(FLOAT32, 1.0 + (i % 3) / 2)), step)
            if i % 5 == 0:
                holder.node = scatter(holder.node, literal(FLOAT32, i % 13), literal(UINT32, i % 100), TRUE, 0, 0)
            if i % 11 == 0:
                read_element(reduce(holder.node, ReduceOp.Max.value), 0)
                holder.node = ops.minimum(holder.node, literal(FLOAT32, 100))
            if i % evaluate_every == 0:
                evaluate([holder.node])
        evaluate([holder.node])

    iterate(500)
    gc.collect()
    sweep()
    nodes, numbered = node_count(), numbered_count()
    memory = in_use()
    iterate(10_000 if evaluate_every == 1 else 3_000)
    gc.collect()
    assert node_count() <= nodes + 5
    assert in_use() == memory
    sweep()
    assert numbered_count() <= numbered


def test_nodes_and_regions_of_loops_are_released() -> None:
    def run() -> None:
        (x,) = while_loop([counter(30)], lambda s: ops.lt(s[0], literal(UINT32, 20)),
                          lambda s: [ops.add(s[0], literal(UINT32, 3))])
        values(x)

    run()
    gc.collect()
    before = node_count()
    gc.disable()
    try:
        for _ in range(50):
            run()
        assert node_count() <= before, "a cycle waits for the garbage collector"
    finally:
        gc.enable()


def test_nodes_have_no_derived_types() -> None:
    """The compiled form uses their memory again."""
    with pytest.raises(TypeError, match="is not an acceptable base type"):
        type("Derived", (Node,), {})
    with pytest.raises(TypeError, match="is not an acceptable base type"):
        type("Derived", (type(imported_node()),), {})
