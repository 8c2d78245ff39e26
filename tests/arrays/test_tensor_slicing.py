"""Slice expressions of tensors against NumPy: reading, assignment, and ``dr.slice_index``."""

import numpy as np
import pytest

import drjit as dr
from drjit.llvm import Array3f, Bool, Float, Int, TensorXb, TensorXf, TensorXi, TensorXu, UInt


def random_key(rng, shape, arrays):
    """A random slice tuple; integer arrays as NumPy arrays."""
    rank = len(shape)
    key, length = [], int(rng.integers(1, 4))
    for size in shape[:int(rng.integers(0, rank + 1))]:
        choice = rng.integers(0, 4 if arrays else 3)
        if choice == 0 and size:
            key.append(int(rng.integers(-size, size)))
        elif choice == 3 and size:
            sizes = [(length,), (1,), (2, length), ()][rng.integers(0, 4)]
            key.append(rng.integers(-size, size, sizes))
        else:
            bound = [None, *range(-size - 1, size + 2)]
            step = [None, 1, 2, 3, -1, -2][rng.integers(0, 6)]
            key.append(slice(bound[rng.integers(len(bound))], bound[rng.integers(len(bound))], step))
    missing = rank - len(key)
    if rng.integers(0, 2):
        at = int(rng.integers(0, len(key) + 1))
        if at == len(key) or not missing:
            key.insert(at, Ellipsis)
    for _ in range(rng.integers(0, 3)):
        key.insert(int(rng.integers(0, len(key) + 1)), None)
    return tuple(key)


def select(array, key):
    """What a key selects: integers remove their axis first, then NumPy's rules hold. The shape, and a flat index."""
    index = np.arange(array.size).reshape(array.shape)
    entries = list(key)
    consuming = sum(entry is not None and entry is not Ellipsis for entry in entries)
    fill = [slice(None)] * (array.ndim - consuming)
    at = next((k for k, entry in enumerate(entries) if entry is Ellipsis), len(entries))
    entries[at:at + 1] = fill
    axes = [entry for entry in entries if entry is not None]
    index = index[tuple(entry if isinstance(entry, int) else slice(None) for entry in axes)]
    return index[tuple(entry for entry in entries if not isinstance(entry, int))]


def to_drjit(key, style):
    kinds = [lambda a: a, lambda a: a.tolist() if a.ndim else a, TensorXi,
             lambda a: Int(a) if a.ndim == 1 else TensorXi(a)]
    return tuple(kinds[style](entry) if isinstance(entry, np.ndarray) and entry.ndim else entry for entry in key)


@pytest.mark.parametrize("seed", range(150))
def test_random_slices(seed, monkeypatch):
    if seed % 3:  # positions of long rows are computed in another way
        monkeypatch.setattr("drjit._access.slicing._MANY", 1)
        monkeypatch.setattr("drjit._access.slicing._LONG_ROW", 2)
    rng = np.random.default_rng(seed)
    shape = tuple(int(n) for n in rng.integers(0 if seed % 5 == 0 else 1, 5, int(rng.integers(0, 5))))
    values = rng.integers(-99, 99, shape).astype("i4")
    key = random_key(rng, shape, arrays=seed % 2)
    key = tuple(np.atleast_1d(entry) if isinstance(entry, np.ndarray) else entry for entry in key)
    chosen = select(values, key)
    t = TensorXi(values)
    ours = to_drjit(key, seed % 4)
    found = t[ours]
    assert found.shape == chosen.shape
    np.testing.assert_array_equal(found.numpy(), values.reshape(-1)[chosen])

    new_shape, index = dr.slice_index(UInt, shape, ours)
    assert new_shape == chosen.shape and len(index) == chosen.size
    np.testing.assert_array_equal(index.numpy(), chosen.reshape(-1))

    for value in (5, 1000 + np.arange(chosen.size, dtype="i4").reshape(chosen.shape)):
        expected = values.copy().reshape(-1)
        expected[chosen] = value
        target = TensorXi(values)
        target[ours] = TensorXi(value)
        if np.unique(chosen).size == chosen.size or np.isscalar(value):
            np.testing.assert_array_equal(target.numpy(), expected.reshape(shape))
    np.testing.assert_array_equal(t.numpy(), values)


def test_the_example_of_the_reference():
    t = dr.zeros(TensorXf, (10, 20, 30, 40))
    assert t[UInt(5, 6), 10:20:4, dr.newaxis, 1, ...].shape == (2, 3, 1, 40)
    assert dr.slice_index(dtype=UInt, shape=(10, 1), indices=(slice(0, 10, 2), 0))[0] == (5,)


@pytest.mark.parametrize("shape, key, expected", [
    ((4, 5, 6), (UInt(0, 1), UInt(0, 1)), (2, 6)), ((4, 5, 6), (0, slice(None), UInt(0, 1, 2)), (5, 3)),
    ((4, 5, 6), (UInt(0, 1), slice(None), UInt(0, 1)), (2, 5)),
    ((4, 5, 6, 7), (slice(None), UInt(0, 1), 0, UInt(0, 1)), (4, 2)),
    ((4, 5, 6, 7), (slice(None), UInt(0, 1), None, UInt(0, 1)), (2, 4, 1, 7)),
    ((4, 5), TensorXu([[0, 1, 2], [3, 0, 1]]), (2, 3, 5)), ((4, 5), UInt(3), (1, 5)),
])
def test_shapes_of_integer_arrays(shape, key, expected):
    assert dr.zeros(TensorXf, shape)[key].shape == expected


@pytest.mark.parametrize("key, error, words", [
    (2, IndexError, "index 2 is out of bounds for axis 0 with size 2"), ((0, 0, 0), IndexError, "too many indices"),
    ((..., ...), IndexError, "multiple ellipses"), (True, TypeError, "'bool'"), (1.0, TypeError, "'float'"),
    ("a", TypeError, "'str'"), ([0, 5], IndexError, "index 5"), ([0, 1.5], TypeError, "'float'"),
    (Float(1), TypeError, "Float"), (TensorXb([True, False]), RuntimeError, r"mask of the shape \(2,\)"),
    (np.array([True, False]), RuntimeError, r"mask of the shape \(2,\)"), ((0, Bool(True)), TypeError, "masks"),
    ((UInt(0, 1), UInt(0, 1, 2)), RuntimeError, "incompatible shapes"),
    (Array3f(1), TypeError, "Array3f"), (slice(None, None, 0), ValueError, "axis 0"),
])
def test_errors(key, error, words):
    t = TensorXf(np.zeros((2, 3)))
    with pytest.raises(error, match=words) as found:
        t[key]
    assert "drjit.llvm.TensorXf.__getitem__()" in str(found.value)


@pytest.mark.parametrize("key, value, expected", [
    (slice(None), 5, [[5, 5], [5, 5]]), (..., 5, [[5, 5], [5, 5]]), (None, 1, [[1, 1], [1, 1]]),
    (0, [7, 8], [[7, 8], [3, 4]]), ((1, 0), 9.5, [[1, 2], [9.5, 4]]), (UInt(1), Float(6, 7), [[1, 2], [6, 7]]),
    ((slice(None), 1), TensorXf([8, 9]), [[1, 8], [3, 9]]), ((0, 0), TensorXf([[3]]), [[3, 2], [3, 4]]),
    (slice(None), TensorXf([[5], [6]]), [[5, 5], [6, 6]]), ([1, 0], np.array([[1, 2], [3, 4.]]), [[3, 4], [1, 2]]),
])
def test_assignment(key, value, expected):
    t = TensorXf([[1, 2], [3, 4]])
    other = TensorXf(t)
    t[key] = value
    np.testing.assert_array_equal(t.numpy(), expected)
    np.testing.assert_array_equal(other.numpy(), [[1, 2], [3, 4]])


def test_assignment_by_masks():
    t = TensorXf([[1, 2], [3, 4]])
    t[t > 2] = 0
    t[Bool(True, False)] = TensorXf([[7], [8]])
    np.testing.assert_array_equal(t.numpy(), [[7, 2], [8, 0]])
    t[np.array([[True], [False]])] = 1
    np.testing.assert_array_equal(t.numpy(), [[1, 1], [8, 0]])


@pytest.mark.parametrize("key, value, words", [
    (0, [1, 2, 3], r"shape \(3,\) to elements of the shape \(2,\)"), (0, [[1, 2], [3, 4]], r"\(2, 2\)"),
    (TensorXb([True, False, True]), 1, "incompatible shapes"), (slice(None), "a", "str"),
])
def test_a_failed_assignment_changes_nothing(key, value, words):
    t = TensorXf([[1, 2], [3, 4]])
    with pytest.raises((TypeError, RuntimeError), match=words):
        t[key] = value
    np.testing.assert_array_equal(t.numpy(), [[1, 2], [3, 4]])


def test_in_place_operators_on_slices():
    t = TensorXf(np.zeros((3, 4)))
    t[1] += 5
    t[:, ::2] -= TensorXf([[1], [2], [3]])
    expected = np.zeros((3, 4))
    expected[1] += 5
    expected[:, ::2] -= [[1], [2], [3]]
    np.testing.assert_array_equal(t.numpy(), expected)


@pytest.mark.parametrize("key", [
    lambda i: (slice(None), i), lambda i: (..., i), lambda i: (slice(None), i, slice(None, None, 2)),
    lambda i: (slice(None, None, -1), slice(None), i), lambda i: (slice(None, None, 2), i, slice(5, 100)),
    lambda i: (slice(None), i[:, None], i), lambda i: (1, i), lambda i: (i % 5,),
    lambda i: (slice(None), i[:1], slice(None))])
def test_large_selections_by_integer_arrays(key):
    values = np.random.default_rng(0).integers(-99, 99, (5, 200, 300)).astype("i4")
    index = np.array([3, 1, -1, 7, 0, 9] * 30)
    found = TensorXi(values)[tuple(TensorXi(entry) if isinstance(entry, np.ndarray) else entry for entry in key(index))]
    expected = values[key(index)]
    assert found.shape == expected.shape
    np.testing.assert_array_equal(found.numpy(), expected)


def test_large_selections_by_integer_arrays_in_loops():
    values, rows = TensorXi(np.arange(200 * 300, dtype="i4").reshape(200, 300)), Int(np.arange(199, -1, -1))

    def step(i, total):
        return i + 1, total + values[rows].array

    total = dr.while_loop((Int(0), dr.zeros(Int, 60000)), lambda i, total: i < 2, step, mode="symbolic")[1]
    np.testing.assert_array_equal(total.numpy(), 2 * values.numpy()[::-1].reshape(-1))


def test_slice_index_requires_unsigned_words():
    for dtype in (Int, TensorXu, Float, int):
        with pytest.raises(TypeError, match="unsigned 32-bit"):
            dr.slice_index(dtype, (3, 4), (0,))


def test_shapes_are_parameters_of_kernels():
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory):
        hits = []
        for rows, columns in ((30, 41), (77, 43), (51, 80)):
            t = TensorXf(np.arange(rows * columns).reshape(rows, columns))
            dr.kernel_history_clear()
            dr.eval(t.T[3:, 5:])
            hits.append([entry["cache_hit"] for entry in dr.kernel_history((dr.KernelType.JIT,))])
    assert all(hits[1]) and all(hits[2])
