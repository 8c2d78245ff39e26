"""Keys: NumPy's meaning of integers, slices, masks and arrays of positions, and what is beyond an axis."""

from __future__ import annotations

import random

import numpy as np
import pytest

import drjit as dr
import drjit.array_api as xp
from drjit.array_api._evaluation import COMPILED


def random_key(shape, rng):
    """A key of integers, slices, new axes, lists, masks and arrays of positions."""
    key, axis = [], 0
    while axis < len(shape):
        size = shape[axis]
        choice = rng.choice(["int", "number", "slice", "none", "array", "list", "mask", "end"])
        if choice == "end":
            break
        if choice == "none":
            key.append(None)
            continue
        width = 1
        if choice == "int":
            key.append(rng.randrange(-size, size))
        elif choice == "number":
            key.append(np.array(rng.randrange(-size, size)))
        elif choice == "slice":
            key.append(slice(rng.choice([None, -3, 0, 1]), rng.choice([None, -1, 2, 5]), rng.choice([None, 1, 2, -1])))
        elif choice == "array":
            key.append(np.array([[rng.randrange(-size, size)] for _ in range(2)]).reshape(
                rng.choice([(2,), (1, 2), (2, 1)])))
        elif choice == "list":
            key.append([rng.randrange(-size, size) for _ in range(2)])
        else:
            width = rng.randrange(1, len(shape) - axis + 1)
            key.append(np.array([rng.random() < 0.5 for _ in range(int(np.prod(shape[axis:axis + width])))]).reshape(
                shape[axis:axis + width]))
        axis += width
    return tuple(key)


@pytest.mark.parametrize("seed", range(40))
def test_keys_read_and_write_as_those_of_numpy(seed):
    rng = random.Random(seed)
    for _ in range(15):
        shape = tuple(rng.choice([1, 2, 3, 4]) for _ in range(rng.randrange(1, 4)))
        array = np.arange(float(np.prod(shape))).reshape(shape)
        key = random_key(shape, rng)
        own = tuple([xp.asarray(entry) if isinstance(entry, np.ndarray) and rng.random() < 0.7 else entry
                     for entry in key])
        x = xp.asarray(array)
        try:
            wanted = array[key]
        except IndexError:
            with pytest.raises(IndexError):
                x[own]
            continue
        np.testing.assert_array_equal(np.asarray(x[own]), wanted, err_msg=f"{shape}, {key}")
        value = rng.choice([np.array(-1.0), -1 - np.arange(wanted.size, dtype=float).reshape(wanted.shape)])
        array[key] = value
        x[own] = xp.asarray(value)
        np.testing.assert_array_equal(np.asarray(x), array, err_msg=f"{shape}, {key}, {value.shape}")


def test_a_mask_of_rows_beside_an_integer_selects_a_column():
    x = xp.zeros((3, 3))
    x[xp.asarray([True, False, True]), 1] = 5
    assert x.tolist() == [[0, 5, 0], [0, 0, 0], [0, 5, 0]]
    x[xp.asarray([True, False, False]), 1:] = 7
    assert x.tolist() == [[0, 7, 7], [0, 0, 0], [0, 5, 0]]


BEYOND = [
    ("integer", 3), ("negative integer", -4), ("list", [0, 3]), ("NumPy array", np.array([0, -4])),
    ("number of this namespace", xp.asarray(3)), ("filled array", xp.full(4, -4))]


@pytest.mark.parametrize("key", [key for _, key in BEYOND], ids=[name for name, _ in BEYOND])
def test_known_positions_beyond_an_axis_raise(key):
    x = xp.zeros((2, 3))
    with pytest.raises(IndexError, match=r"array_api\.Array\.__getitem__\(\): index (3|-4) is out of bounds for axis 1 "
                                         r"of size 3"):
        x[0, key]
    with pytest.raises(IndexError, match=r"array_api\.Array\.__setitem__\(\): index (3|-4) is out of bounds for axis 1 "
                                         r"of size 3"):
        x[0, key] = 1
    assert not np.any(np.asarray(x))


def test_computed_positions_beyond_an_axis_touch_no_memory(monkeypatch):
    monkeypatch.setattr(xp.policy, "eager", 0)
    x = xp.reshape(xp.arange(12.0), (3, 4))
    positions = xp.asarray([1, 3, -4, 1 << 40])
    assert x[positions][:, 0].tolist() == [4, 0, 0, 0]
    assert x[0, xp.asarray([1, 4])].tolist() == [1, 0]  # not the first one of the next row
    assert xp.take(x, positions, axis=0)[:, 1].tolist() == [5, 0, 0, 0]
    assert xp.take_along_axis(x, xp.asarray([[0, 4]]), axis=1).tolist() == [[0, 0], [4, 0], [8, 0]]
    y = xp.zeros((3, 4))
    y[positions] = 1
    y[xp.asarray([0, 2]), xp.asarray([-5, 3])] = xp.asarray([8.0, 9.0])
    assert y.tolist() == [[0, 0, 0, 0], [1, 1, 1, 1], [0, 0, 0, 9]]
    dr.enable_grad(x)
    dr.backward(xp.sum(x[positions, 0]))
    assert dr.grad(x).tolist() == [[0, 0, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0]]


@pytest.mark.skipif(not COMPILED, reason="all is traced in the plain form")
@pytest.mark.parametrize("size", [3, 100_000])
def test_positions_beyond_an_axis_that_are_known_raise(size):
    """Those of small arrays, whatever is indexed by them: in memory, pending, or with derivatives."""
    message = rf"index {size} is out of bounds for axis 0 of size {size}"
    positions, tracked = xp.asarray([0, size]), xp.zeros(size)
    dr.enable_grad(tracked)
    stored = xp.asarray(np.zeros(size))
    for x in (stored, xp.arange(size) + 1, tracked):
        for function in (lambda x: x[positions], lambda x: xp.take(x, positions, axis=0),
                         lambda x: xp.take_along_axis(x, positions, axis=0)):
            with pytest.raises(IndexError, match=message):
                function(x)
    with pytest.raises(IndexError, match=message):
        stored[positions] = 1
    assert not np.any(np.asarray(stored))


def test_computed_positions_beyond_an_axis_raise_in_debug_mode():
    x, positions = xp.zeros((2, 3)), xp.asarray([0, 5])
    with dr.scoped_set_flag(dr.JitFlag.Debug):
        for name, function in (
                ("Array.__getitem__", lambda: x[positions]), ("take", lambda: xp.take(x, positions, axis=0)),
                ("take_along_axis", lambda: xp.take_along_axis(x, xp.asarray([[0], [5]])))):
            with pytest.raises(IndexError, match=rf"{name}\(\): index 5 is out of bounds for axis [01] of size [23]"):
                function()


@pytest.mark.parametrize("key, error, message", [
    ((0, 0, 0), IndexError, "the key has 3 indices for an array of 2 dimensions"),
    ((..., ...), IndexError, "one '...'"), (1.0, IndexError, "found float"), ("a", IndexError, "found str"),
    (slice(1.5, None), IndexError, "slices are made of integers"), (slice(None, None, 0), ValueError, "step"),
    (xp.asarray([0.5]), IndexError, "found float64"), (xp.asarray([True] * 4), IndexError, r"mask of the shape \(4,\)"),
    ((xp.asarray([0, 1, 1]), xp.asarray([0, 1])), IndexError, "cannot be broadcast")])
def test_wrong_keys(key, error, message):
    x = xp.zeros((2, 3))
    with pytest.raises(error, match=rf"Array\.__getitem__\(\): .*{message}"):
        x[key]
    with pytest.raises(error, match=rf"Array\.__setitem__\(\): .*{message}"):
        x[key] = 1


@pytest.mark.parametrize("value, error, message", [
    ([1j, 2], TypeError, "complex numbers cannot become int8"), (1j, TypeError, "complex numbers cannot become int8"),
    (np.array([1j, 2]), TypeError, "complex numbers cannot become int8"),
    ([300, 1], OverflowError, "300 does not fit into int8"), (-129, OverflowError, "-129 does not fit into int8"),
    (300.5, OverflowError, "300 does not fit into int8"), (float("nan"), ValueError, "nan does not fit into int8"),
    ([1.5, float("inf")], OverflowError, "inf does not fit"), ([float("nan"), 1], ValueError, "nan does not fit"),
    (["a", "b"], TypeError, "found str"), ("ab", TypeError, "found str"), (None, TypeError, "found NoneType"),
    ([1, [2]], ValueError, "ragged"), ([1, 2, 3], ValueError, r"shape \(3,\) cannot be assigned .* shape \(2,\)")])
def test_wrong_values(value, error, message):
    x = xp.zeros(4, dtype=xp.int8)
    with pytest.raises(error, match=rf"Array\.__setitem__\(\): .*{message}"):
        x[1:3] = value
    assert x.tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("key", [slice(1, 3), [1, 2], slice(None), "mask"], ids=str)
@pytest.mark.parametrize("origin", [xp.asarray, np.asarray, list])
@pytest.mark.parametrize("target, source", [
    ("float32", "float64"), ("float32", "int64"), ("int32", "int64"), ("uint8", "int64"), ("int8", "bool"),
    ("complex64", "float64"), ("float64", "bool"), ("int64", "float64"), ("float32", "complex64"), ("bool", "int32"),
    ("bool", "float32"), ("int32", "uint64"), ("float16", "float32"), ("complex64", "complex128")])
def test_values_are_converted_that_lose_no_imaginary_parts(target, source, origin, key):
    own, given = np.array([0, 1, 0, 1]).astype(target), np.array([1, 0, 1, 1]).astype(source)
    if given.dtype.kind == "f":
        given *= 1.75
    x = xp.asarray(own)
    place = xp.asarray([False, True, True, False]) if key == "mask" else key
    expected = [False, True, True, False] if key == "mask" else key
    value = given[expected]
    if given.dtype.kind == "c" and own.dtype.kind != "c":
        with pytest.raises(TypeError, match=r"__setitem__\(\): complex numbers cannot become"):
            x[place] = origin(value)
    else:
        x[place] = origin(value)
        own[expected] = value
    assert x.dtype == own.dtype and x.tolist() == own.tolist()


def test_values_of_other_libraries_are_converted():
    x = xp.zeros(4, dtype=xp.float32)
    x[1:3] = np.array([1.5, 2.5])
    x[3:] = [7]
    assert x.tolist() == [0, 1.5, 2.5, 7] and x.dtype == xp.float32
    x[:2] = dr.llvm.Float([3, 4])
    assert x.tolist() == [3, 4, 2.5, 7]


def test_take_along_axis_names_shapes():
    with pytest.raises(ValueError, match=r"take_along_axis\(\): the shapes \(2, 2\) of 'x' and \(3, 3\) of 'indices'"):
        xp.take_along_axis(xp.ones((2, 2)), xp.asarray([[0, 1, 2]] * 3))


def test_integers_beyond_the_default_type_can_be_assigned_where_they_fit() -> None:
    x = xp.zeros(2, dtype=xp.uint64)
    x[:] = [2**63 + 1, 1]
    assert x.tolist() == [2**63 + 1, 1]
    with pytest.raises(OverflowError, match=r"__setitem__.*9223372036854775809 does not fit into int64"):
        xp.zeros(2, dtype=xp.int64)[:] = [2**63 + 1, 1]
    mask = xp.zeros(1, dtype=xp.bool)
    mask[:] = [2**63 + 1]
    assert mask.tolist() == [True]
