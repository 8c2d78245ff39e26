"""Nested arrays that are read from rows of a flat one, and written to them: loads and stores of pieces."""

import numpy as np
import pytest

import drjit as dr
import drjit.llvm as types

KINDS = ["Array2f", "Array3f", "Array4f", "Array2f64", "Array3f64", "Array4f64", "Array4i", "Array3u64", "Array4f16",
         "Array4b", "Matrix3f", "Matrix4f", "Complex2f", "Quaternion4f", "Array22f", "Array4i8"]
SIZES = [0, 1, 2, 15, 16, 17, 63, 64, 65, 1000]
ROWS = 1200


@pytest.fixture(params=[True, False], ids=["packets", "elements"])
def packets(request):
    with dr.scoped_set_flag(dr.JitFlag.PacketOps, request.param):
        yield request.param


@pytest.fixture(params=[False, True], ids=["plain", "debug"])
def debug(request):
    with dr.scoped_set_flag(dr.JitFlag.Debug, request.param):
        yield request.param


def kind_of(name):
    """A nested type, the flat type of its components, and how many there are."""
    kind = getattr(types, name)
    leaf = dr.leaf_t(kind)
    leaf = getattr(types, {"Array": "Float"}.get(leaf.__name__, leaf.__name__))
    return kind, leaf, int(np.prod(kind(0).shape[:-1]))


def numbers(leaf, size, seed=0):
    dtype = leaf(0).numpy().dtype
    return np.random.default_rng(seed).integers(0, 2 if dtype.kind == "b" else 100, size).astype(dtype)


def columns(value):
    """The components of a nested array in C order, as NumPy arrays."""
    if not dr.depth_v(value) > 1:
        return [value.numpy()]
    size = len(value)
    matrix = dr.is_matrix_v(value)
    parts = [value[i, j] for i in range(size) for j in range(size)] if matrix else [value[i] for i in range(size)]
    return [column for part in parts for column in columns(part)]


def nested(kind, leaf, data):
    """A nested array whose components are the columns of a matrix."""
    if not len(data):
        return kind(leaf(0))
    parts = [leaf(np.ascontiguousarray(column)) for column in data.T]
    index = dr.arange(types.UInt, len(data))
    flat = dr.zeros(leaf, max(1, data.size))
    for k, part in enumerate(parts):
        dr.scatter(flat, part, index * len(parts) + k)
    dr.eval(flat)
    with dr.scoped_set_flag(dr.JitFlag.PacketOps, False):
        result = dr.gather(kind, flat, index)
    dr.eval(result)
    return result


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("masked", [False, True])
def test_reads(name, size, masked, packets):
    kind, leaf, count = kind_of(name)
    data = numbers(leaf, ROWS * count)
    rng = np.random.default_rng(1)
    index, mask = rng.integers(0, ROWS, size).astype(np.uint32), rng.random(size) < 0.6
    found = dr.gather(kind, leaf(data), types.UInt(index), types.Bool(mask) if masked else True)
    expected = data.reshape(-1, count)[index]
    if masked:
        expected = np.where(mask[:, None], expected, data.dtype.type(0))
    assert type(found) is kind
    for column, wanted in zip(columns(found), expected.T, strict=True):
        assert np.array_equal(column, wanted)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("masked", [False, True])
def test_writes(name, size, masked, packets):
    kind, leaf, count = kind_of(name)
    before, data = numbers(leaf, ROWS * count), numbers(leaf, size * count, 2).reshape(size, count)
    rng = np.random.default_rng(1)
    index, mask = rng.permutation(ROWS)[:size].astype(np.uint32), rng.random(size) < 0.6
    target = leaf(before)
    dr.scatter(target, nested(kind, leaf, data), types.UInt(index), types.Bool(mask) if masked else True)
    expected, mask = before.reshape(-1, count), mask if masked else np.ones(size, bool)
    expected[index[mask]] = data[mask]
    assert np.array_equal(target.numpy(), expected.ravel())


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize("mode", ["Auto", "Direct", "Local", "Expand"])
def test_sums(threads, mode, packets):
    before = dr.thread_count()
    dr.set_thread_count(threads)
    try:
        rng = np.random.default_rng(1)
        index, data = rng.integers(0, 50, 40_000), rng.integers(0, 9, (40_000, 3))
        target = dr.zeros(types.UInt, 150)
        dr.scatter_add(target, types.Array3u(*(data[:, k].astype(np.uint32) for k in range(3))),
                       types.UInt(index.astype(np.uint32)), mode=getattr(dr.ReduceMode, mode))
        expected = np.zeros((50, 3), np.int64)
        np.add.at(expected, index, data)
        assert np.array_equal(target.numpy(), expected.ravel())
    finally:
        dr.set_thread_count(before)


@pytest.mark.parametrize("size", [1, 17, 100])
def test_reads_in_loops(size, packets, debug):
    data = numbers(types.Float, 400)
    source, index = types.Float(data), dr.arange(types.UInt, size) % 50

    def body(i, total):
        return i + 1, total + dr.gather(types.Array4f, source, index + i, i < 40)

    _, total = dr.while_loop((dr.arange(types.UInt, size), dr.zeros(types.Array4f, size)),
                             lambda i, total: i < 50, body)
    expected = np.zeros((size, 4))
    for k in range(size):
        for i in range(k, 50):
            expected[k] += data.reshape(-1, 4)[k % 50 + i] if i < 40 else 0
    assert np.array_equal(np.stack(columns(total), 1), expected)


@pytest.mark.parametrize("size", [1, 17, 100])
def test_writes_in_loops(size, packets):
    def body(i, target):
        lane = dr.arange(types.UInt, size)
        dr.scatter(target, types.Array4f(lane, i, 7, i * lane), lane)
        return i + 1, target

    start = np.arange(size) % 5
    _, target = dr.while_loop((types.UInt(start.astype(np.uint32)), dr.zeros(types.Float, 4 * size)),
                              lambda i, target: i < 4, body)
    lane = np.arange(size)
    rows = np.stack([lane, 0 * lane + 3, 0 * lane + 7, 3 * lane], 1) * (start < 4)[:, None]
    assert np.array_equal(target.numpy(), rows.ravel())


def test_components_that_are_not_asked_for_are_not_read(packets):
    data = numbers(types.Float, 4000)
    index = np.random.default_rng(0).integers(0, 1000, 333)
    row = dr.gather(types.Array4f, types.Float(data), types.UInt(index.astype(np.uint32)))
    rows = data.reshape(-1, 4)[index]
    for picked in ([1], [0, 3], [2, 1, 0]):
        total = sum(row[k] for k in picked)
        assert np.array_equal(total.numpy(), rows[:, picked].sum(1))


def test_reads_of_borrowed_memory_stay_within_it(packets):
    data = np.arange(3 * 1000, dtype=np.float32)
    found = dr.gather(types.Array3f, types.Float(data), dr.arange(types.UInt, 1000))
    assert np.array_equal(np.stack(columns(found), 1), data.reshape(-1, 3))


def test_writes_to_borrowed_memory_go_to_a_copy(packets):
    data = np.zeros(4000, np.float32)
    target = types.Float(data)
    dr.scatter(target, types.Array4f(1, 2, 3, 4), dr.arange(types.UInt, 1000))
    assert np.array_equal(target.numpy(), np.tile(np.arange(1, 5, dtype=np.float32), 1000)) and not data.any()


def test_a_write_of_rows_is_one_kernel():
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory):
        value = types.Array4f(*(dr.arange(types.Float, 1000) + k for k in range(4)))
        target = dr.empty(types.Float, 4000)
        dr.eval(target, value)
        dr.kernel_history_clear()
        dr.scatter(target, value, dr.arange(types.UInt, 1000))
        dr.eval(target)
        assert len(dr.kernel_history()) == 1
    assert list(target[:6]) == [0, 1, 2, 3, 1, 2]


def test_writes_to_one_place_keep_their_order():
    """A later write to a row that another one has written to wins, whatever kernels they share."""
    size = 1000
    target, lane = dr.zeros(types.Float, 4 * size), dr.arange(types.UInt, size)
    dr.scatter(target, types.Array4f(1, 2, 3, 4), lane)
    dr.scatter(target, types.Array4f(5, 6, 7, 8), size - 1 - lane)
    dr.scatter(target, types.Array2f(9, 10), lane)
    expected = np.tile([5.0, 6, 7, 8], size)
    expected[:2 * size] = np.tile([9.0, 10], size)
    assert np.array_equal(target.numpy(), expected)


@pytest.mark.parametrize("size", [100, 100_000])
def test_large_arrays_are_asked_for_ahead(size):
    """Beyond the cache, indices of later packets are read, at the end those of the last one."""
    rng = np.random.default_rng(0)
    large = 1 << 22
    data = rng.integers(0, 1000, large).astype(np.float32)
    index = rng.permutation(large)[:size].astype(np.uint32)
    source = types.Float(data) + 0
    dr.eval(source)
    assert np.array_equal(dr.gather(types.Float, source, types.UInt(index)).numpy(), data[index])
    row = dr.gather(types.Array4f, source, types.UInt(index) >> 2)
    assert np.array_equal(np.stack(columns(row), 1), data.reshape(-1, 4)[index >> 2])
    dr.scatter(source, types.Float(7), types.UInt(index), types.UInt(index) % 2 == 0)
    dr.scatter_add(source, 1, types.Int(index.astype(np.int32)))
    data[index[index % 2 == 0]] = 7
    data[index] += 1
    assert np.array_equal(source.numpy(), data)


@pytest.mark.parametrize("call", [lambda t, m: dr.scatter_add(t, 1, types.UInt(0, 1), mode=m),
                                  lambda t, m: dr.scatter_reduce(dr.ReduceOp.Max, t, 1, types.UInt(0, 1), mode=m)])
def test_permutations_are_for_plain_writes(call):
    target = types.UInt(0, 0)
    with pytest.raises(RuntimeError, match=r"'mode' must not be ReduceMode\.Permute"):
        call(target, dr.ReduceMode.Permute)
    dr.scatter(target, types.UInt(5, 6), types.UInt(1, 0), mode=dr.ReduceMode.Permute)
    assert list(target) == [6, 5]


def test_components_of_rows_are_reduced_by_a_kernel_with_many_reductions():
    data, index = dr.arange(types.Float, 4000), dr.arange(types.UInt, 999)
    rows = [dr.gather(types.Array4f, data, (index * 7 + k) % 1000) for k in range(3)]
    sums = [dr.sum(component) for row in rows for component in row]
    dr.eval(sums)
    places = [(np.arange(999) * 7 + k) % 1000 * 4 + c for k in range(3) for c in range(4)]
    assert [total[0] for total in sums] == [float(place.sum()) for place in places]
