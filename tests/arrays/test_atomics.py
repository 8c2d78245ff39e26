"""Increments, exchanges and compensated sums: what they find and leave, in loops and outside, on all threads."""

import gc

import numpy as np
import pytest

import drjit as dr
import drjit.scalar
from drjit.llvm import Array3f, ArrayXf, Bool, Float, Float16, Float64, Int, Int8, Int64, TensorXf, UInt, UInt8, UInt64
from drjit_core.ir.node import node_count
from drjit_core.runtime.cpu.memory import HEAP

ELEMENTS = [Float, Float16, Float64, Int, Int8, Int64, UInt, UInt8, UInt64]
SIZES = [0, 1, 2, 15, 16, 17, 64, 100]


@pytest.fixture(params=[1, 2, 5])
def threads(request):
    before = dr.thread_count()
    dr.set_thread_count(request.param)
    yield request.param
    dr.set_thread_count(before)


def sample(kind, size, seed):
    """Whole numbers, which all types hold."""
    return np.random.default_rng(seed).integers(0, 5, size).astype(kind(0).numpy().dtype)


def positions(size, seed=0):
    """Positions in an array of twice the size, each once, and a mask."""
    rng = np.random.default_rng(seed)
    return rng.permutation(2 * size)[:size].astype(np.uint32), rng.random(size) < 0.7


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", ELEMENTS)
@pytest.mark.parametrize("masked", [False, True])
def test_exchange(kind, size, masked):
    index, mask = positions(size)
    before, new = sample(kind, 2 * size, 1), sample(kind, size, 2)
    target = kind(before)
    found = dr.scatter_exch(target, kind(new), UInt(index), Bool(mask) if masked else True)
    mask = mask if masked else np.ones(size, bool)
    assert type(found) is kind
    assert np.array_equal(found.numpy(), np.where(mask, before[index], 0))
    before[index[mask]] = new[mask]
    assert np.array_equal(target.numpy(), before)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kind", ELEMENTS)
@pytest.mark.parametrize("masked", [False, True])
def test_compare_and_exchange(kind, size, masked):
    index, mask = positions(size)
    before, expected, new = sample(kind, 2 * size, 1), sample(kind, size, 2), sample(kind, size, 3)
    target = kind(before)
    found, success = dr.scatter_cas(target, kind(expected), kind(new), UInt(index), Bool(mask) if masked else True)
    mask = mask if masked else np.ones(size, bool)
    wins = mask & (before[index] == expected)
    assert (type(found), type(success)) == (kind, Bool)
    assert np.array_equal(found.numpy(), np.where(mask, before[index], 0))
    assert np.array_equal(success.numpy(), wins)
    before[index[wins]] = new[wins]
    assert np.array_equal(target.numpy(), before)


def test_masks_are_exchanged():
    target = Bool(True, False, True)
    found = dr.scatter_exch(target, Bool(False, True), UInt(0, 1))
    assert (list(found), list(target)) == ([True, False], [False, True, True])
    found, success = dr.scatter_cas(target, True, False, UInt(0, 1, 2))
    assert (list(found), list(success), list(target)) == ([False, True, True], [False, True, True], [False] * 3)


def test_comparison_is_one_of_bits():
    target = Float(0.0, dr.nan)
    found, success = dr.scatter_cas(target, Float(-0.0, dr.nan), 7.0, UInt(0, 1))
    assert list(success) == [False, True] and list(target) == [0, 7] and found[0] == 0


@pytest.mark.parametrize("size", [1, 17, 1000, 100_000])
def test_contention_on_one_element(threads, size):
    count = UInt(3)
    slot = dr.scatter_inc(count, 0, dr.full(Bool, True, size))
    assert np.array_equal(np.sort(slot.numpy()), np.arange(3, 3 + size)) and list(count) == [3 + size]
    last = UInt(size)
    passed = np.append(dr.scatter_exch(last, dr.arange(UInt, size), 0, dr.full(Bool, True, size)).numpy(), last.numpy())
    assert np.array_equal(np.sort(passed), np.arange(size + 1))  # each number is found once, or is there at the end
    lock = UInt(0)
    _, success = dr.scatter_cas(lock, 0, dr.arange(UInt, size) + 1, dr.zeros(UInt, size))
    (winner,) = np.flatnonzero(success.numpy())
    assert lock[0] == winner + 1
    total = dr.zeros(UInt, 1)
    dr.scatter_add(total, 1, dr.zeros(UInt, size), mode=dr.ReduceMode.Direct)
    assert total[0] == size


@pytest.mark.parametrize("size", SIZES)
def test_increments_of_several_elements(threads, size):
    index, mask = np.random.default_rng(0).integers(0, 7, size), np.random.default_rng(1).random(size) < 0.6
    count = dr.zeros(UInt, 7)
    slot = dr.scatter_inc(count, UInt(index.astype(np.uint32)), Bool(mask)).numpy()
    assert np.array_equal(count.numpy(), np.bincount(index[mask], minlength=7))
    for place in range(7):
        lanes = mask & (index == place)
        assert np.array_equal(np.sort(slot[lanes]), np.arange(lanes.sum()))
    assert not slot[~mask].any()


def test_what_is_found_stays_what_it_was():
    """The update happens once, whatever is asked for, and when."""
    count, data = UInt(0), dr.arange(Float, 100)
    slot = dr.scatter_inc(count, 0, data >= 50)
    first, second = dr.zeros(Float, 50), dr.zeros(Float, 50)
    dr.scatter(first, data, slot, data >= 50)
    dr.eval(first)
    dr.scatter(second, data, slot, data >= 50)
    assert list(first) == list(second) and sorted(first) == list(range(50, 100))
    assert list(count) == [50] and list(dr.scatter_inc(count, 0)) == [50] and list(count) == [51]


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
def test_loops(mode):
    count, kept = UInt(0), dr.zeros(UInt, 40)

    def body(i, count, kept):
        chosen = (i & 1) == 0
        slot = dr.scatter_inc(count, 0, chosen)
        dr.scatter(kept, i + 1, slot, chosen)
        return i + 1, count, kept

    _, count, kept = dr.while_loop((dr.arange(UInt, 10), count, kept), lambda i, count, kept: i < 10, body, mode=mode)
    expected = sorted(i + 1 for start in range(10) for i in range(start, 10) if i % 2 == 0)
    assert list(count) == [len(expected)] and sorted(kept.numpy()[:len(expected)]) == expected


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
def test_a_lock_in_a_loop(mode):
    """Of the elements that want a place, one gets it in each round; the others try the next one."""
    owners = dr.zeros(UInt, 50)

    def body(place, has, owners):
        _, has = dr.scatter_cas(owners, 0, dr.arange(UInt, 50) + 1, place)
        return dr.select(has, place, place + 1), has, owners

    place, _, owners = dr.while_loop((dr.zeros(UInt, 50), Bool([False] * 50), owners),
                                     lambda place, has, owners: ~has, body, mode=mode)
    assert sorted(place) == list(range(50))
    assert [owners[int(p)] for p in place] == list(range(1, 51))


def test_a_uniform_write_of_a_loop_is_made_by_each_of_its_elements():
    count = UInt(0)

    def body(i):
        dr.scatter_inc(count, 0)
        return (i + 1,)

    dr.while_loop((dr.arange(UInt, 10),), lambda i: i < 5, body)
    assert list(count) == [5 + 4 + 3 + 2 + 1]


@pytest.mark.parametrize("kind", [Float16, Float, Float64])
@pytest.mark.parametrize("mode", ["symbolic", "evaluated", "none"])
def test_compensated_sums(kind, mode):
    small = {Float16: 2.0 ** -14, Float: 2.0 ** -30, Float64: 2.0 ** -60}[kind]
    total, lost = kind(1, 0), kind(0, 0)
    if mode == "none":
        dr.scatter_add_kahan(total, lost, kind(small), dr.zeros(UInt, 64))
    else:
        def body(i, total, lost):
            dr.scatter_add_kahan(total, lost, kind(small), 0)
            return i + 1, total, lost

        _, total, lost = dr.while_loop((dr.zeros(UInt, 16), total, lost), lambda i, *_: i < 4, body, mode=mode)
    assert (list(total), list(lost)) == ([1, 0], [64 * small, 0])


def test_compensated_sums_of_numbers_that_cancel(threads):
    rng = np.random.default_rng(0)
    values = np.concatenate([rng.normal(size=20_000).astype(np.float32) * 1e6, np.full(100, 1e-3, np.float32)])
    index = rng.integers(0, 3, values.size).astype(np.uint32)
    total, lost = dr.zeros(Float, 3), dr.zeros(Float, 3)
    dr.scatter_add_kahan(total, lost, Float(values), UInt(index))
    exact = np.array([values[index == k].astype(np.float64).sum() for k in range(3)])
    found = total.numpy().astype(np.float64) + lost.numpy()
    assert np.abs(found - exact).max() < 1
    assert np.abs(total.numpy() - exact).max() > 2  # what rounding costs without compensation


def test_compensated_sums_that_overflow_are_infinite():
    total, lost = dr.zeros(Float, 1), dr.zeros(Float, 1)
    dr.scatter_add_kahan(total, lost, 3e38, dr.zeros(UInt, 3))
    assert list(total + lost) == [dr.inf]


@pytest.mark.parametrize("update", [
    lambda t: dr.scatter_inc(t, UInt(0, 1)), lambda t: dr.scatter_exch(t, 9, 0), lambda t: dr.scatter_cas(t, 1, 9, 0)])
def test_who_shares_the_array_keeps_it(update):
    memory = np.array([1, 2, 3], np.uint32)
    target = UInt(memory)
    other = UInt(target)
    update(target)
    assert target[0] in (2, 9) and list(other) == [1, 2, 3] and list(memory) == [1, 2, 3]


@pytest.mark.parametrize("update", [
    lambda t: dr.scatter_inc(t, UInt(0, 1)), lambda t: dr.scatter_exch(t, 9, UInt(0, 2)),
    lambda t: dr.scatter_cas(t, 1, 9, UInt(0, 2)), lambda t: dr.scatter_add_kahan(Float(t), Float(t), 1, UInt(0, 1))])
def test_repetition_leaves_nothing_behind(update):
    def repeat(count):
        for _ in range(count):
            dr.eval(update(UInt(1, 2, 3)))
        gc.collect()
        dr.sync_thread()
        return HEAP.statistics()["in_use"], node_count()

    repeat(10)
    memory, nodes = repeat(1)
    after, left = repeat(1000)
    assert after <= memory and left <= nodes + 5


#: Calls that are refused: a function of no arguments, the exception, and what it says.
BAD = [
    (lambda: dr.scatter_inc(Int(0), 0), TypeError, "drjit.scatter_inc.*'target' must be a flat array of unsigned 32"),
    (lambda: dr.scatter_inc(dr.scalar.ArrayXu(0), 0), TypeError, "a backend that compiles"),
    (lambda: dr.scatter_inc([1], 0), TypeError, "found list"),
    (lambda: dr.scatter_inc(UInt(0, 0), "a"), TypeError, "'index' has an unsupported type"),
    (lambda: dr.scatter_inc(UInt(0, 0), -1), TypeError, "out of range"),
    (lambda: dr.scatter_inc(UInt(0, 0), 2), IndexError, "drjit.scatter_inc.*index 2 is out of bounds"),
    (lambda: dr.scatter_inc(UInt(0, 0), UInt(0, 1), Bool(True, True, False)), RuntimeError, "incompatible sizes"),
    (lambda: dr.scatter_inc(UInt(), UInt(0)), RuntimeError, "write to an empty array"),
    (lambda: dr.scatter_exch(Array3f(0), 1, 0), TypeError, "drjit.scatter_exch.*'target' must be a flat array"),
    (lambda: dr.scatter_exch(TensorXf([1.0]), 1, 0), TypeError, "'target' must be a flat array"),
    (lambda: dr.scatter_exch(Float(0), Array3f(1), 0), TypeError, "'value' must be convertible to drjit.llvm.Float"),
    (lambda: dr.scatter_exch(Int(0), 1.5, 0), RuntimeError, "cannot assign a value of type 'float'"),
    (lambda: dr.scatter_exch(Int(0), Float(1.5), 0), RuntimeError, "cannot assign a value of type"),
    (lambda: dr.scatter_exch(Int(0, 0), Int(1, 2, 3), UInt(0, 1)), RuntimeError, "incompatible sizes"),
    (lambda: dr.scatter_cas(Int(0), "x", 1, 0), (TypeError, RuntimeError), "drjit.scatter_cas"),
    (lambda: dr.scatter_cas(ArrayXf([[0]]), 0, 1, 0), TypeError, "drjit.scatter_cas.*'target' must be a flat array"),
    (lambda: dr.scatter_add_kahan(Int(0), Int(0), 1, 0), TypeError, "'target_1' must be a flat array of floating"),
    (lambda: dr.scatter_add_kahan(Float(0), Float64(0), 1, 0), TypeError, "'target_2' must be a flat array"),
    (lambda: dr.scatter_add_kahan(Float(0), Float(0, 0), 1, 0), RuntimeError, "must have one size, found 1 and 2"),
]


@pytest.mark.parametrize("case", BAD, ids=[str(number) for number in range(len(BAD))])
def test_bad_input(case):
    call, exception, message = case
    with pytest.raises(exception, match=message):
        call()


def test_one_array_is_no_pair_of_targets():
    target = Float(0)
    with pytest.raises(RuntimeError, match="must be two arrays, found one"):
        dr.scatter_add_kahan(target, target, 1, 0)


@pytest.mark.parametrize(("name", "update"), [
    ("scatter", lambda t: dr.scatter(t, 1, UInt(0, 7))), ("scatter_add", lambda t: dr.scatter_add(t, 1, UInt(0, 7))),
    ("scatter_reduce", lambda t: dr.scatter_reduce(dr.ReduceOp.Max, t, 1, UInt(0, 7))),
    ("scatter_inc", lambda t: dr.scatter_inc(t, UInt(0, 7))),
    ("scatter_exch", lambda t: dr.scatter_exch(t, 1, UInt(0, 7))),
    ("scatter_cas", lambda t: dr.scatter_cas(t, 0, 1, UInt(0, 7)))])
def test_debug_mode_names_the_function(name, update):
    with dr.scoped_set_flag(dr.JitFlag.Debug):
        target = UInt(0, 0)
        found = update(target)
        with pytest.warns(RuntimeWarning, match=rf"drjit\.{name}\(\): out-of-bounds write to position 7 .*\(.*"
                                                r"test_atomics\.py:\d+\)"):
            assert list(target) == [1, 0]
        if name == "scatter_cas":
            assert list(found[1]) == [True, False]


def test_sizes_that_do_not_go_together_are_named() -> None:
    target = Float(1, 2, 3, 4)
    with pytest.raises(RuntimeError, match=r"'value', 'index' and 'active' have incompatible sizes: 3, 2 and 1"):
        dr.scatter(target, Float(1, 2, 3), UInt(0, 1))
    np.testing.assert_array_equal(target.numpy(), [1, 2, 3, 4])


@pytest.mark.parametrize("update", ["scatter_inc", "scatter_exch", "scatter_cas", "scatter_add_kahan"])
def test_an_update_outside_of_regions_is_traced_once(update: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from drjit_core.control import once

    traced = []
    atomic = once.trace.atomic
    monkeypatch.setattr(once.trace, "atomic", lambda *args: traced.append(args) or atomic(*args))
    index = dr.opaque(UInt, 1, 40) + dr.arange(UInt, 40) % 3
    target, other = dr.zeros(UInt, 8), dr.zeros(Float, 8)
    if update == "scatter_inc":
        dr.scatter_inc(target, index)
    elif update == "scatter_exch":
        dr.scatter_exch(target, index, index)
    elif update == "scatter_cas":
        dr.scatter_cas(target, UInt(0), index, index)
    else:
        dr.scatter_add_kahan(other, dr.zeros(Float, 8), Float(index), index)
    assert len(traced) == 1
