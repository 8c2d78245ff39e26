"""Reductions and rearrangements of tensors against NumPy."""

import itertools

import numpy as np
import pytest

import drjit as dr
from drjit import scalar
from drjit.llvm import Array2f, Array3f, ArrayXf, Float, TensorXb, TensorXf, TensorXf16, TensorXi, TensorXu
from drjit_core.runtime.backends import on_backend
from drjit_core.runtime.cpu.target import CPU_TARGET
from drjit_core.runtime.cpu.texts import TEXTS
from drjit_core.runtime.null import Null

AXES = [..., None, (), 0, 1, 2, -1, -2, (0, 1), (0, 2), (-1, 1), (0, 1, 2)]
SHAPES = [(2, 3, 4), (40, 3, 2), (3, 1, 50), (1, 1, 1), (2, 0, 3), (0, 2, 2), (33, 34, 5)]
rng = np.random.default_rng(3)


def numpy_axes(axis, ndim):
    return tuple(range(ndim)) if axis in (..., None) else tuple({a % ndim for a in np.atleast_1d(axis).astype(int)})


@pytest.mark.parametrize("axis", AXES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_reductions(shape, axis):
    values = rng.integers(-3, 4, shape).astype("i4")
    axes = numpy_axes(axis, 3)
    for keepdims, mode in ((False, None), (True, "evaluated"), (False, "symbolic")):
        found = dr.sum(TensorXi(values), axis, mode=mode, keepdims=keepdims)
        expected = values.sum(axis=axes, keepdims=keepdims)
        assert type(found) is TensorXi and found.shape == expected.shape
        np.testing.assert_array_equal(found.numpy(), expected)
    t, positive = TensorXf(values), TensorXi(values) > 0
    np.testing.assert_array_equal(dr.prod(TensorXi(values), axis).numpy(), values.prod(axis=axes, dtype="i4"))
    if values.size:
        np.testing.assert_array_equal(dr.min(t, axis).numpy(), values.min(axis=axes))
        np.testing.assert_array_equal(dr.max(t, axis, mode="symbolic").numpy(), values.max(axis=axes))
        np.testing.assert_allclose(dr.mean(t, axis).numpy(), values.mean(axis=axes), atol=1e-5)
    np.testing.assert_array_equal(dr.all(~positive, axis).numpy(), (values <= 0).all(axis=axes))
    np.testing.assert_array_equal(dr.any(positive, axis).numpy(), (values > 0).any(axis=axes))
    np.testing.assert_array_equal(dr.none(positive, axis).numpy(), ~(values > 0).any(axis=axes))
    counts = dr.count(positive, axis)
    assert type(counts) is TensorXu
    np.testing.assert_array_equal(counts.numpy(), (values > 0).sum(axis=axes))


def test_how_rows_are_cut_is_said_by_the_backend():
    launches = []
    for change in ({}, {"results": 1}):
        numbers = CPU_TARGET.tracing.reductions._replace(**change)
        target = CPU_TARGET._replace(tracing=CPU_TARGET.tracing._replace(reductions=numbers))
        with on_backend(Null(TEXTS, target)) as backend:
            x = dr.opaque(TensorXf, 1, (4, 1 << 16))
            backend.launches.clear()
            dr.eval(dr.sum(x * 2, axis=1))
            launches.append(len(backend.launches))
    assert launches == [2, 1]


def test_minimum_and_maximum_ignore_nan():
    values = np.arange(200, dtype="f4").reshape(2, 100)
    values[0, ::7] = np.nan
    for axis in (None, 0, 1):
        np.testing.assert_array_equal(dr.max(TensorXf(values), axis).numpy(), np.nanmax(values, axis=axis))
        np.testing.assert_array_equal(dr.min(TensorXf(values), axis).numpy(), np.nanmin(values, axis=axis))


def test_results_of_rank_zero():
    assert dr.sum(TensorXf([[1, 2], [3, 4]])).shape == () and dr.sum(TensorXf(3)).item() == 3
    assert bool(dr.all(TensorXb([True, True]))) and np.isnan(dr.mean(dr.zeros(TensorXf, (0, 3))).item())
    assert dr.mean(TensorXf16([1, 2])).item() == 1.5


@pytest.mark.parametrize("operation, words", [
    (lambda t: dr.sum(t, axis=2), r"out-of-bounds axis \(got 2, ndim=2\)"), (lambda t: dr.all(t), "not compatible"),
    (lambda t: dr.mean(TensorXi(t)), "floating-point"), (lambda t: dr.sum(t, axis="a"), "'axis'"),
    (lambda t: dr.sum(t, mode="x"), "'mode'"), (lambda t: dr.squeeze(t, 0), "axis 0 has size 2"),
    (lambda t: dr.transpose(t, (0, 0)), "twice"), (lambda t: dr.reshape(t, (4, -1)), "cannot infer"),
    (lambda t: dr.reshape(t, (4, 2)), "mismatched"), (lambda t: dr.transpose(Float(1)), "must be a tensor"),
    (lambda t: dr.concat([t, t.T]), "shapes must agree"), (lambda t: dr.split(t, 4, axis=1), "equal"),
    (lambda t: dr.unravel(TensorXf, t.array), "'dtype'"), (lambda t: dr.unravel(ArrayXf, t.array), "dynamic"),
    (lambda t: dr.unravel(Array3f, Float(1, 2)), "divisible"), (lambda t: dr.reshape(t.array, (2, 3)), "incompatible"),
    (lambda t: dr.stack([]), "non-empty"), (lambda t: dr.ravel(t, "X"), "'order'"),
])
def test_errors(operation, words):
    with pytest.raises((TypeError, RuntimeError), match=words):
        operation(TensorXf(np.ones((2, 3))))


@pytest.mark.parametrize("shape", [(2, 3, 4), (1, 3, 1), (2, 0, 3), (5, 1, 2)], ids=str)
def test_orders_of_axes(shape):
    values = rng.random(shape, dtype="f4")
    t = TensorXf(values)
    for axes in itertools.permutations(range(3)):
        np.testing.assert_array_equal(dr.transpose(t, axes).numpy(), values.transpose(axes))
        np.testing.assert_array_equal(dr.moveaxis(t, (0, -1), axes[:2]).numpy(), np.moveaxis(values, (0, -1), axes[:2]))
    np.testing.assert_array_equal(dr.transpose(t).numpy(), values.T)
    np.testing.assert_array_equal(dr.swapaxes(t, 0, -1).numpy(), np.swapaxes(values, 0, -1))
    for axis in (0, 2, -1, (0, -1), (1, 2)):
        np.testing.assert_array_equal(dr.expand_dims(t, axis).numpy(), np.expand_dims(values, axis))
    np.testing.assert_array_equal(dr.squeeze(t).numpy(), np.squeeze(values))


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_joining_and_splitting(axis):
    values = rng.random((6, 4, 6), dtype="f4")
    t = TensorXf(values)
    np.testing.assert_array_equal(dr.concat([t, t + 1, t], axis).numpy(),
                                  np.concatenate([values, values + 1, values], axis))
    np.testing.assert_array_equal(dr.stack([t, t + 1], axis).numpy(), np.stack([values, values + 1], axis))
    for found, expected in zip(dr.split(t, 2, axis), np.split(values, 2, axis), strict=True):
        np.testing.assert_array_equal(found.numpy(), expected)
    for found, expected in zip(dr.split(t, [1, 3], axis), np.split(values, [1, 3], axis), strict=True):
        np.testing.assert_array_equal(found.numpy(), expected)
    for found, expected in zip(dr.array_split(t, 4, axis), np.array_split(values, 4, axis), strict=True):
        np.testing.assert_array_equal(found.numpy(), expected)
    np.testing.assert_array_equal(dr.take(t, 1, axis).numpy(), np.take(values, 1, axis))


def test_concat_of_other_arrays():
    assert repr(dr.concat([Float(1, 2), Float(3)])) == "[1, 2, 3]"
    assert repr(dr.concat([Array2f([1, 2], 3), Array2f(4, 5)], axis=-1)) == "[[1, 3],\n [2, 3],\n [4, 5]]"
    assert repr(dr.concat([TensorXf([[1, 2]]), TensorXf([[3], [4]])], axis=None)) == "[1, 2, 3, 4]"


def test_flat_forms():
    x = Array3f([1, 2], [3, 4], [5, 6])
    assert repr(dr.ravel(x)) == "[1, 3, 5, 2, 4, 6]" and repr(dr.ravel(x, "C")) == "[1, 2, 3, 4, 5, 6]"
    flat = Float(1, 2, 3, 4, 5, 6)
    assert repr(dr.unravel(Array3f, flat)) == "[[1, 2, 3],\n [4, 5, 6]]"
    assert repr(dr.unravel(Array3f, flat, "C")) == "[[1, 3, 5],\n [2, 4, 6]]"
    t = TensorXf([[1, 2], [3, 4]])
    assert repr(dr.ravel(t)) == "[1, 2, 3, 4]" and repr(dr.ravel(t, "F")) == "[1, 3, 2, 4]"
    assert dr.ravel(flat) is flat and dr.ravel(3) == 3
    nested = [[1, 2], [3, 4]]
    assert type(dr.ravel(nested)) is scalar.ArrayXf and list(dr.ravel(nested)) == [1, 3, 2, 4]
    assert list(dr.ravel(nested, "C")) == [1, 2, 3, 4] and list(dr.ravel(((1.5,), (2,)))) == [1.5, 2]
    for wrong in ([[1, 2], [3]], [flat], ["a"]):
        with pytest.raises(TypeError, match=r"drjit\.ravel\(\): (the nested sequence is ragged|sequences must con)"):
            dr.ravel(wrong)


def test_reshape():
    value = dr.arange(TensorXf, 6)
    assert repr(dr.reshape(value, (3, -1))) == "[[0, 1],\n [2, 3],\n [4, 5]]"
    array = Array2f([1, 2, 3], [4, 5, 6])
    assert repr(dr.reshape(Array3f, array, shape=(3, -1), order="C")) == "[[1, 3, 5],\n [2, 4, 6]]"
    assert repr(dr.reshape(Array3f, array, shape=(3, -1), order="F")) == "[[1, 4, 2],\n [5, 3, 6]]"
    assert repr(dr.reshape(Float, array, -1)) == "[1, 4, 2, 5, 3, 6]"
    assert repr(dr.reshape(TensorXf, Float(1, 2, 3, 4, 5, 6), (2, 3))) == "[[1, 2, 3],\n [4, 5, 6]]"
    assert repr(dr.reshape(TensorXf, Array3f([1, 2], [3, 4], [5, 6]), (2, 3))) == "[[1, 3, 5],\n [2, 4, 6]]"
    assert repr(dr.reshape(Array2f, value, (2, 3))) == "[[0, 1],\n [2, 3],\n [4, 5]]"
    values = np.arange(6.0).reshape(2, 3)
    np.testing.assert_array_equal(dr.reshape(TensorXf(values), (3, 2), order="F").numpy(),
                                  values.reshape(3, 2, order="F"))
    assert dr.reshape(value, -1).shape == (6,) and dr.reshape({"a": value}, (2, 3))["a"].shape == (2, 3)
    assert repr(dr.reshape(Float(1, 2, 3), 2, shrink=True)) == "[1, 2]"
    assert repr(dr.reshape(Array2f([1, 2, 3], 4), 2, shrink=True)) == "[[1, 4],\n [2, 4]]"
    assert dr.reshape("a", 3) == "a"


@pytest.mark.parametrize("a, b", [
    ((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 4)), ((2, 3), (3, 4)), ((5, 2, 3), (3, 4)), ((2, 1, 2, 3), (4, 3, 5)),
    ((2, 0), (0, 3)), ((0, 2), (2, 3)), ((30, 40), (40, 50)),
], ids=str)
def test_matrix_products(a, b):
    left, right = rng.random(a, dtype="f4"), rng.random(b, dtype="f4")
    expected = left @ right
    np.testing.assert_allclose((TensorXf(left) @ TensorXf(right)).numpy(), expected, rtol=1e-5)
    np.testing.assert_allclose(dr.matmul(TensorXf(left), TensorXf(right)).numpy(), expected, rtol=1e-5)
    if len(a) > 1 and len(b) > 1:
        np.testing.assert_allclose(dr.matmul(TensorXf(left).mT, TensorXf(right).mT, True, True).numpy(), expected,
                                   rtol=1e-5)


def test_matrix_products_need_matching_sizes():
    with pytest.raises(RuntimeError, match=r"\(2, 3\) and \(2, 3\)"):
        TensorXf(np.ones((2, 3))) @ TensorXf(np.ones((2, 3)))
    with pytest.raises(RuntimeError, match="at least one dimension"):
        TensorXf(1) @ TensorXf(2)


@pytest.mark.parametrize("name", ["vstack", "hstack", "column_stack", "dstack"])
@pytest.mark.parametrize("shape", [(3,), (2, 3), (2, 3, 4)], ids=str)
def test_stacks(name, shape):
    if name == "column_stack" and len(shape) > 2:
        pytest.skip("two dimensions at most")
    values = [rng.random(shape, dtype="f4") for _ in range(3)]
    np.testing.assert_array_equal(getattr(dr, name)([TensorXf(v) for v in values]).numpy(), getattr(np, name)(values))


def test_sums_along_axes_are_the_same_in_every_run():
    values = TensorXf(rng.random((7, 30000), dtype="f4"))
    first = dr.sum(values, axis=1).numpy().copy()
    for _ in range(5):
        np.testing.assert_array_equal(dr.sum(TensorXf(values.numpy()), axis=1).numpy(), first)


@pytest.mark.parametrize("evaluated", [False, True])
@pytest.mark.parametrize("index", [1, -1, slice(1, 3), slice(None, -1), slice(1, None), slice(None, None, -1)], ids=str)
@pytest.mark.parametrize("shape", [(4, 3, 3), (4, 16, 16), (3, 2, 17), (3, 40, 3), (3, 100, 200)], ids=str)
def test_contiguous_parts_are_reduced_along_axes(shape, index, evaluated):
    values = rng.integers(-9, 9, shape).astype("f4")
    tensor, part = TensorXf(values), values[index]
    if not evaluated:
        tensor, part = tensor + dr.opaque(Float, 1), part + 1
    for axis in range(part.ndim):
        found = tensor[index]
        np.testing.assert_array_equal(dr.sum(found, axis).numpy(), part.sum(axis))
        np.testing.assert_array_equal(dr.max(found * 2, axis).numpy(), part.max(axis) * 2)
        np.testing.assert_array_equal((found - dr.min(found, axis, keepdims=True)).numpy(),
                                      part - part.min(axis, keepdims=True))


def test_parts_of_vectors_stand_beside_rows_that_are_reduced():
    matrix, vector = rng.integers(-9, 9, (10, 33)).astype("f4"), rng.integers(-9, 9, 80).astype("f4")
    rows, flat = TensorXf(matrix), TensorXf(vector)
    dr.eval(rows, flat)
    np.testing.assert_array_equal((dr.sum(rows * flat[3:13][:, None], 1) + flat[5:15]).numpy(),
                                  (matrix * vector[3:13, None]).sum(1) + vector[5:15])
    np.testing.assert_array_equal((dr.sum(rows * flat[3:36], 0) + flat[2:35]).numpy(),
                                  (matrix * vector[3:36]).sum(0) + vector[2:35])
    np.testing.assert_array_equal(dr.sum(rows[1:6] - flat[1:6][:, None], 1).numpy(),
                                  (matrix[1:6] - vector[1:6, None]).sum(1))


@pytest.mark.parametrize("call, message", [
    (lambda t, a: dr.norm(t, axis=7), r"drjit\.norm\(<drjit\.llvm\.TensorXf>\): out-of-bounds axis \(got 7, ndim=2\)"),
    (lambda t, a: dr.squared_norm(a, axis=1), r"drjit\.squared_norm\(<drjit\.llvm\.Float>\): out-of-bounds axis"),
    (lambda t, a: dr.matmul(t[0], t, At=True), r"drjit\.matmul\(\): 'At' .*TensorXf of shape \(3,\)"),
    (lambda t, a: dr.matmul(t, 2.0, Bt=True), r"drjit\.matmul\(\): 'Bt' transposes a matrix, found float\."),
    (lambda t, a: dr.concat([a, 1]), r"drjit\.concat\(\): 'arr' .* found int at position 1"),
    (lambda t, a: dr.hstack([]), r"drjit\.hstack\(\): 'arrays' .* found an empty list"),
    (lambda t, a: dr.concat(a), r"drjit\.concat\(\): 'arr' .* found drjit\.llvm\.Float\."),
])
def test_messages_name_what_was_called_and_found(call, message):
    with pytest.raises((TypeError, RuntimeError, ValueError), match=message):
        call(TensorXf(values := rng.random((2, 3), dtype="f4")), Float(values[0]))
