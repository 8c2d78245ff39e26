"""What reductions compute in, what counts as an element of a sequence, and what they refuse."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest

import drjit as dr
from drjit import scalar
from drjit.llvm import (
    Array2b,
    Array2f,
    Array3f,
    Array3f16,
    Array3i,
    ArrayXf16,
    Bool,
    Float,
    Float16,
    Int,
    TensorXb,
    TensorXf,
    TensorXf16,
    TensorXu,
    TensorXu64,
    UInt,
    UInt64,
)


@pytest.mark.parametrize("value", [
    [[1, 2], [3, 4]], ((1.0, 2), [3, 4]), np.array([[1.0, 2], [3, 4]]), [1, [2, [3, 4]]]])
def test_all_axes_of_nested_sequences_count_each_number(value):
    assert dr.mean(value, axis=None) == 2.5
    assert dr.sum(value, axis=None) == 10
    assert dr.var(value, axis=None) == 1.25
    assert dr.std(value, axis=None) == math.sqrt(1.25)


def test_all_axes_of_a_sequence_of_arrays_count_each_element():
    mean = dr.mean([Float(1, 2), Float(3, 5)], axis=None)
    assert isinstance(mean, Float) and mean[0] == 2.75
    assert dr.mean([Float(1, 2, 3), Float(6)], axis=None)[0] == 3
    assert dr.mean([Float(1, 2), 6.0], axis=None)[0] == 3


@pytest.mark.parametrize("function", [dr.sum, dr.mean, dr.var])
def test_the_outermost_axis_of_a_nested_sequence_is_refused_in_words(function):
    with pytest.raises(TypeError, match=rf"drjit\.{function.__name__}\(<list>\).*'list'.*axis=None"):
        function([[1, 2], [3, 4]])


@pytest.mark.parametrize(("function", "value", "axis", "expected"), [
    (dr.sum, lambda: dr.ones(TensorXf16, (4096, 2)), 0, [4096, 4096]),
    (dr.sum, lambda: dr.ones(TensorXf16, (3, 4096)), 1, [4096] * 3),
    (dr.sum, lambda: dr.ones(TensorXf16, (4096, 1)), 0, [4096]),
    (dr.sum, lambda: dr.ones(TensorXf16, (2, 4096)), None, [8192]),
    (dr.sum, lambda: dr.opaque(Float16, 1, 4096), ..., [4096]),
    (dr.sum, lambda: ArrayXf16(np.ones((4096, 2), np.float16)), 0, [4096, 4096]),
    (dr.sum, lambda: [Float16(1)] * 4096, ..., [4096]),
    (dr.mean, lambda: dr.full(TensorXf16, 60000, (4, 3)), 0, [60000] * 3),
    (dr.mean, lambda: Array3f16(60000, 60000, 60000), ..., [60000]),
    (dr.mean, lambda: [Float16(60000), Float16(60000)], ..., [60000]),
    (dr.prod, lambda: Array3f16(300, 300, 0.001), 0, [90.04]),
    (dr.prod, lambda: TensorXf16([[300.0], [300], [0.001]]), 0, [90.04]),
])
def test_half_precision_accumulates_in_single_precision(function, value, axis, expected):
    result = function(value(), axis=axis)
    assert result.numpy().dtype == np.float16
    # the result alone is rounded to half precision
    np.testing.assert_allclose(np.ravel(result.numpy()), expected, rtol=2.0**-11)


@pytest.mark.parametrize("product", [
    lambda: dr.ones(TensorXf16, (3, 4096)) @ dr.ones(TensorXf16, (4096, 2)),
    lambda: dr.ones(TensorXf16, 4096) @ dr.ones(TensorXf16, (4096, 2)),
    lambda: dr.opaque(Float16, 1, 4096) @ dr.opaque(Float16, 1, 4096),
    lambda: dr.dot(dr.opaque(Float16, 1, 4096), dr.opaque(Float16, 1, 4096)),
    lambda: dr.squared_norm(dr.opaque(Float16, 1, 4096)),
    lambda: dr.dot(dr.opaque(TensorXf16, 1, (2, 2048)), dr.opaque(TensorXf16, 1, (2, 2048)))])
def test_products_of_half_precision_accumulate_in_single_precision(product):
    result = product()
    assert result.numpy().dtype == np.float16 and np.all(result.numpy() == 4096)


NAN = math.nan
ONLY_NAN = {
    "number": lambda: NAN, "sequence": lambda: [NAN, NAN], "one entry": lambda: (NAN,), "one": lambda: Float(NAN),
    "evaluated": lambda: dr.opaque(Float, NAN), "literal": lambda: dr.full(Float, NAN, 5),
    "kernel": lambda: dr.opaque(Float, NAN, 5), "unevaluated": lambda: Float(NAN, NAN) * 2,
    "half": lambda: Float16(NAN), "components": lambda: Array3f(NAN), "mixed": lambda: Array3f([NAN, NAN], NAN, NAN),
    "arrays": lambda: [Float(NAN)], "scalar": lambda: scalar.Array3f(NAN),
    "scalar dynamic": lambda: scalar.ArrayXf([NAN]), "rank 0": lambda: TensorXf(NAN),
    "tensor of one": lambda: TensorXf([[NAN]]),
    "tensor": lambda: dr.opaque(TensorXf, NAN, (3, 4)), "tensor literal": lambda: dr.full(TensorXf, NAN, (3, 40))}


@pytest.mark.parametrize("axis", [..., None, 0, -1])
@pytest.mark.parametrize("state", ONLY_NAN)
def test_extremes_of_nothing_but_nan_are_those_of_nothing(state, axis):
    """However many there are, and wherever they are combined."""
    if state in ("number", "sequence", "one entry", "arrays", "rank 0") and axis == -1:
        pytest.skip("the only axis is 0")
    for function, expected in ((dr.min, math.inf), (dr.max, -math.inf)):
        result = function(ONLY_NAN[state](), axis)
        found = result.numpy() if isinstance(result, dr.ArrayBase) else np.array(result)
        assert found.size and (found == expected).all()


@pytest.mark.parametrize("op", [dr.ReduceOp.Min, dr.ReduceOp.Max])
@pytest.mark.parametrize("type_", [Float, Float16, scalar.ArrayXf, TensorXf, list])
def test_blocks_and_running_extremes_of_nothing_but_nan_are_those_of_nothing(op: dr.ReduceOp, type_: Any) -> None:
    nothing = math.inf if op is dr.ReduceOp.Min else -math.inf
    for length in (1, 4):
        x = type_([NAN] * length)
        for exclusive in (False, True):
            assert list(dr.prefix_reduce(op, x, exclusive=exclusive)) == [nothing] * length
        for size in (1, length):
            if type_ not in (TensorXf, list):
                assert list(dr.block_reduce(op, x, size)) == [nothing] * (length // size)
                assert list(dr.block_prefix_reduce(op, x, size, exclusive=False)) == [nothing] * length
    assert list(dr.prefix_reduce(op, type_([NAN, 1, NAN]), exclusive=False)) == [nothing, 1, 1]


@pytest.mark.parametrize("function", [dr.min, dr.max])
def test_numbers_are_preferred_to_nan_everywhere(function):
    for value in ([NAN, 2.0], [2.0, NAN], Float(NAN, 2), Array3f(NAN, 2, NAN), TensorXf([NAN, 2]),
                  TensorXf([[NAN], [2]]), scalar.Array3f(2, NAN, NAN), dr.opaque(Float, 2) + Float(0, NAN)):
        result = function(value, axis=None)
        assert (result if isinstance(result, float) else result.numpy().reshape(())) == 2


NOTHING = [
    [], scalar.ArrayXf([]), Float(), Float16(), scalar.ArrayXf(), dr.zeros(TensorXf, 0), dr.zeros(TensorXf, (0, 3)),
    dr.zeros(TensorXf16, (2, 0)), dr.zeros(Array2f, 0), dr.opaque(Float, 1, 4)[4:]]


@pytest.mark.parametrize("value", NOTHING, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize(("function", "expected"), [
    (dr.sum, 0), (dr.prod, 1), (dr.min, math.inf), (dr.max, -math.inf), (dr.mean, math.nan), (dr.var, math.nan),
    (dr.std, math.nan)], ids=lambda value: getattr(value, "__name__", ""))
def test_what_no_elements_reduce_to_is_one_thing_everywhere(function, value, expected):
    """Means and variances divide zero by zero, as their formulas say."""
    result = function(value, axis=None)
    number = result if isinstance(result, (int, float)) else result.numpy().reshape(())
    np.testing.assert_array_equal(number, expected)


@pytest.mark.parametrize(("function", "expected"), [
    (dr.sum, 0), (dr.prod, 1), (dr.min, math.inf), (dr.max, -math.inf), (dr.mean, math.nan), (dr.var, math.nan)])
@pytest.mark.parametrize(("shape", "axis"), [((0, 3), 0), ((2, 0, 3), 1), ((2, 0, 0), (1, 2)), ((3, 0), -1)])
def test_an_axis_of_no_elements_reduces_to_that_at_each_place(function, expected, shape, axis):
    for keepdims in (False, True):
        result = function(dr.zeros(TensorXf, shape), axis=axis, keepdims=keepdims)
        np.testing.assert_array_equal(result.numpy(), np.full(np.zeros(shape).sum(axis, keepdims=keepdims).shape,
                                                              expected))
    assert function(dr.zeros(TensorXf, (0, 3)), axis=1).shape == (0,)


def test_a_mean_of_nothing_is_nan():
    assert np.isnan(dr.mean(dr.zeros(Array2f, 0), axis=1).numpy()).tolist() == [[True], [True]]
    assert math.isnan(dr.mean([Float(), Float()], axis=None)[0])
    assert all(math.isnan(dr.mean(kind())[0]) for kind in (Float, Float16))
    assert np.isnan(dr.mean(dr.zeros(TensorXf, (0, 2)), axis=0).numpy()).tolist() == [True, True]
    assert math.isnan(dr.mean(scalar.ArrayXf())) and math.isnan(dr.mean([]))


TWICE = dr.ones(TensorXf, (2, 3))


@pytest.mark.parametrize("axis", [(0, 0), (0, -2), (1, 0, 1)])
@pytest.mark.parametrize("call", [
    dr.sum, dr.prod, dr.min, dr.max, dr.mean, dr.var, dr.std, lambda x, axis: dr.all(x > 0, axis),
    lambda x, axis: dr.any(x > 0, axis), lambda x, axis: dr.none(x > 0, axis), lambda x, axis: dr.count(x > 0, axis),
    lambda x, axis: dr.reduce(dr.ReduceOp.Add, x, axis), lambda x, axis: dr.norm(x, axis=axis),
    lambda x, axis: dr.squared_norm(x, axis=axis), dr.cumsum, dr.median,
    lambda x, axis: dr.prefix_reduce(dr.ReduceOp.Add, x, axis), lambda x, axis: dr.convolve(x, "box", 1, axis=axis),
    dr.squeeze, lambda x, axis: dr.moveaxis(x, axis, axis),
    lambda x, axis: dr.sum(Array2f(1, 2), axis=axis)])
def test_axes_that_are_named_twice_are_refused(call, axis):
    with pytest.raises(TypeError, match=r"drjit\.\w+\(.*\): '(axis|source)' names an axis twice \(\("):
        call(TWICE, axis)


@pytest.mark.parametrize("axis", [(0, 0), (1, -3)])
def test_a_position_of_the_result_that_is_named_twice_is_refused(axis):
    with pytest.raises(TypeError, match=r"drjit\.expand_dims\(\): 'axis' names an axis twice"):
        dr.expand_dims(TWICE, axis)


@pytest.mark.parametrize("ddof", [0, 1, 2, 3])
@pytest.mark.parametrize("make", [lambda v: v.tolist(), Float, scalar.ArrayXf, TensorXf,
                                  lambda v: TensorXf(v[:, None])])
@pytest.mark.parametrize("count", [1, 2, 3, 20])
def test_variances_without_degrees_of_freedom_are_one_thing_everywhere(make, count, ddof):
    """Deviations divided by zero: NaN if there are none, else infinity, as by NumPy."""
    data = np.arange(count, dtype="f4") ** 2
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = data.astype("f8").var(ddof=ddof)
    result = dr.var(make(data), axis=None, ddof=ddof)
    found = result if isinstance(result, float) else result.numpy().reshape(())
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("axis", [0, 1, (0, 1), (1, 2), (-1, 0), None, ..., ()])
@pytest.mark.parametrize("ddof", [0, 1])
@pytest.mark.parametrize("keepdims", [False, True])
def test_variances_along_axes_are_those_of_numpy(axis, ddof, keepdims):
    data = np.random.default_rng(1).normal(size=(2, 3, 4)).astype("f4")
    axes = (0, 1, 2) if axis in (None, ...) else axis
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = data.var(axis=axes, ddof=ddof, keepdims=keepdims)
    for mode in (None, "symbolic", "evaluated"):
        found = dr.var(TensorXf(data), axis, mode, keepdims, ddof)
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-6)  # some roundings of single precision
        deviation = dr.std(TensorXf(data), axis, mode, keepdims, ddof)
        np.testing.assert_allclose(deviation.numpy(), np.sqrt(expected), rtol=1e-6)


@pytest.mark.parametrize("axis", [np.int64(0), np.uint8(1), (np.int32(0), 1), -1])
def test_axes_may_be_integers_of_numpy(axis):
    value = np.arange(6, dtype=np.float32).reshape(2, 3)
    axis_of_numpy = tuple(map(int, axis)) if isinstance(axis, tuple) else int(axis)
    np.testing.assert_allclose(dr.sum(TensorXf(value), axis=axis).numpy(), value.sum(axis=axis_of_numpy))


def test_means_of_integers_are_refused_in_sequences_as_well():
    for value in (Int(1, 2), [Int(1), Int(2)]):
        with pytest.raises(TypeError, match=r"drjit\.mean\(<drjit\.llvm\.Int>\): the mean is defined for floating"):
            dr.mean(value)


@pytest.mark.parametrize(("call", "message"), [
    (lambda: dr.sum(TensorXf([1, 2]), axis=3), r"drjit\.sum\(<drjit\.llvm\.TensorXf>\): out-of-bounds axis \(got 3"),
    (lambda: dr.sum(TensorXf([1, 2]), axis="x"), r"drjit\.sum\(<drjit\.llvm\.TensorXf>\): 'axis' must be an int"),
    (lambda: dr.sum(Float(1), mode="x"), r"drjit\.sum\(<drjit\.llvm\.Float>\): 'mode' must be"),
    (lambda: dr.sum(Array3f(1), axis=0, keepdims=True), r"drjit\.sum\(<drjit\.llvm\.Array3f>\): 'keepdims=True' is"),
    (lambda: dr.var(Float(1), ddof="a"), r"drjit\.var\(\): 'ddof' must be an int"),
    (lambda: dr.var("a"), r"drjit\.var\(<str>\): 'value' must be a Dr\.Jit array"),
    (lambda: dr.std(Int(1)), r"drjit\.std\(<drjit\.llvm\.Int>\): the variance is defined for floating-point"),
    (lambda: dr.allclose(Float(1), 1, rtol="a"), r"drjit\.allclose\(\): 'rtol' must be a number, found str"),
    (lambda: dr.assert_allclose(Float(1), 1, atol=[1]), r"drjit\.assert_allclose\(\): 'atol' must be a number"),
    (lambda: dr.identity(3), r"drjit\.identity\(\): 'dtype' must be a type, found int"),
    (lambda: dr.identity(Float, "a"), r"drjit\.identity\(\): 'size' must be an int"),
    (lambda: dr.sphdir("a", 1), r"drjit\.sphdir\(\): 'theta' must be an array of floating-point numbers or a number"),
    (lambda: dr.sphdir(1, Int(1)), r"drjit\.sphdir\(\): 'phi' must be an array of floating-point numbers or a number"),
    (lambda: dr.rotate(dr.llvm.Quaternion4f, Array3f(1, 0, 0), "a"), r"drjit\.rotate\(\): 'angle' must be"),
    (lambda: dr.polar_decomp(dr.llvm.Matrix3f(1), "a"), r"drjit\.polar_decomp\(\): 'it' must be an int, found str"),
    (lambda: dr.split(TensorXf([1, 2]), "a"), r"drjit\.split\(\): 'indices_or_sections' must be an int, found str"),
    (lambda: dr.split(TensorXf([1, 2]), [0.5]), r"drjit\.split\(\): 'indices_or_sections\[0\]' must be an int"),
    (lambda: dr.array_split(TensorXf([1, 2]), 0), r"drjit\.array_split\(\): 'sections' must be an int >= 1, found 0"),
    (lambda: dr.arange(Float, 1.5), r"drjit\.arange\(\): 'size' must be an int, found float"),
    (lambda: dr.arange(Float, 1, 2, size=3), r"drjit\.arange\(\): expected either"),
    (lambda: dr.arange(Float, start=1, size=3), r"drjit\.arange\(\): 'size' cannot be combined"),
    (lambda: dr.arange(Float), r"drjit\.arange\(\): expected either"),
    (lambda: dr.reshape(Float(1)), r"drjit\.reshape\(\): missing argument 'shape'"),
    (lambda: dr.reshape(Float), r"drjit\.reshape\(\): missing argument 'value'"),
    (lambda: dr.linear_srgb_to_oklab(TensorXf([[1.0], [2], [3]])), r"drjit\.linear_srgb_to_oklab\(\):.*shape \(3, 1\)"),
    (lambda: dr.oklab_to_linear_srgb(Array2f(1)), r"drjit\.oklab_to_linear_srgb\(\): 'value' must be an array"),
    (lambda: dr.concat([scalar.Array22f(1), scalar.Array22f(2)]), r"drjit\.concat\(\): only one-dimensional arrays"),
])
def test_errors_name_the_function_that_was_called_and_its_argument(call, message):
    with pytest.raises((TypeError, ValueError), match=message) as caught:
        call()
    assert caught.value.__cause__ is None or not isinstance(caught.value.__cause__, AssertionError)


def test_oklab_of_tensors_takes_the_trailing_axis_and_keeps_alpha():
    rgb = np.random.default_rng(1).random((5, 7, 4), np.float32)
    array = dr.linear_srgb_to_oklab(dr.llvm.Array4f(*(rgb[..., k].ravel() for k in range(4))))
    tensor = dr.linear_srgb_to_oklab(TensorXf(rgb))
    np.testing.assert_allclose(tensor.numpy(), array.numpy().T.reshape(5, 7, 4), rtol=1e-6)
    np.testing.assert_array_equal(tensor.numpy()[..., 3], rgb[..., 3])
    np.testing.assert_allclose(dr.oklab_to_linear_srgb(tensor).numpy(), rgb, atol=1e-5)


def test_scalar_arrays_are_joined_and_make_grids():
    x, y = scalar.ArrayXf([1, 2]), scalar.ArrayXf([3, 4, 5])
    joined = dr.concat([x, y])
    assert type(joined) is scalar.ArrayXf and list(joined) == [1, 2, 3, 4, 5]
    assert list(dr.concat([scalar.Array3i(1, 2, 3), scalar.Array3i(4, 5, 6)], axis=None)) == [1, 2, 3, 4, 5, 6]
    for indexing in ("xy", "ij"):
        expected = np.meshgrid([1, 2], [3, 4, 5], indexing=indexing)
        for found, wanted in zip(dr.meshgrid(x, y, indexing=indexing), expected, strict=True):
            assert list(found) == list(wanted.ravel())


@pytest.mark.parametrize("args", [
    ((3, 2), "C"), ((3, 2),), ((4,), "C", True), ((3, 2), "F"), ((3, 2), "F", False)])
def test_reshape_takes_its_arguments_by_position_and_by_name(args):
    value = TensorXf(np.arange(6, dtype=np.float32))
    names = dict(zip(("shape", "order", "shrink"), args, strict=False))
    expected = dr.reshape(value, *args).numpy()
    for found in (dr.reshape(value, **names), dr.reshape(value=value, **names), dr.reshape(TensorXf, value, *args),
                  dr.reshape(TensorXf, value, **names), dr.reshape(dtype=TensorXf, value=value, **names)):
        np.testing.assert_array_equal(found.numpy(), expected)


def test_arange_by_position_and_by_name():
    for found in (dr.arange(Int, 2, 8, 2), dr.arange(Int, start=2, stop=8, step=2), dr.arange(Int, 2, stop=8, step=2)):
        assert list(found) == [2, 4, 6]
    for found in (dr.arange(Int, 3), dr.arange(Int, size=3), dr.arange(Int, stop=3)):
        assert list(found) == [0, 1, 2]


@pytest.mark.parametrize("value", [[dr.nan, 1.0], [1.0, dr.nan], (dr.nan, dr.nan, 1.0)])
@pytest.mark.parametrize("function", [dr.min, dr.max])
def test_minimum_and_maximum_of_python_numbers_ignore_nan(function, value):
    assert function(value) == 1
    assert function(Float(value)) == 1


@pytest.mark.parametrize("shape", [(3, 5), (1000, 3), (3, 1000), (1, 7), (50000, 2)])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("mode", [None, "evaluated", "symbolic"])
def test_sums_of_negative_zeros_are_negative_along_every_axis(shape, axis, mode):
    zeros = TensorXf(np.full(shape, -0.0, np.float32))
    sums = dr.sum(zeros, axis=axis, mode=mode).numpy()
    assert not sums.any() and np.signbit(sums).all()


def test_the_sum_of_no_numbers_is_a_positive_zero():
    for nothing in (Float(), Float(np.zeros(0)), TensorXf(np.zeros((0, 3), np.float32))):
        sums = dr.sum(nothing, axis=0).numpy()
        assert not sums.any() and not np.signbit(sums).any()


@pytest.mark.parametrize(("call", "words"), [
    (lambda: dr.norm(Int(1, 2)), r"drjit\.norm\(<drjit\.llvm\.Int>\).*int32"),
    (lambda: dr.norm(TensorXu([1, 2]), axis=0), r"drjit\.norm\(<drjit\.llvm\.TensorXu>\).*uint32"),
    (lambda: dr.norm((Int(1), Int(2))), r"drjit\.norm\(<tuple>\).*int32"),
    (lambda: dr.normalize(Array3i(1, 2, 3)), r"drjit\.normalize\(<drjit\.llvm\.Array3i>\).*int32"),
    (lambda: dr.unit_angle(Array3i(1, 2, 3), Array3i(1, 2, 3)), r"drjit\.unit_angle\(<drjit\.llvm\.Array3i>\).*int32"),
    (lambda: dr.norm(Bool(True), axis=0), r"drjit\.norm\(<drjit\.llvm\.Bool>\).*bool"),
    (lambda: dr.norm(["a"]), r"drjit\.norm\(\): the entries.*found str at position 0"),
    (lambda: dr.norm([[1.0]]), r"drjit\.norm\(\): the entries.*found list at position 0"),
    (lambda: dr.squared_norm([1, "a"]), r"drjit\.squared_norm\(\): the entries.*found str at position 1"),
    (lambda: dr.dot([1, 2], [1, None]), r"drjit\.dot\(\): the entries.*found NoneType at position 1"),
    (lambda: dr.dot([Float(1, 2)], [Float(1, 2, 3)]), r"drjit\.dot\(\): the entries cannot be multiplied"),
    (lambda: dr.dot([Float(1, 2), 1], [1, Float(1, 2, 3)]), r"drjit\.dot\(<list>\): the entries cannot be combined"),
    (lambda: dr.norm([1.0, 2.0], axis=1), r"drjit\.norm\(<list>\).*axis=1"),
    (lambda: dr.norm(Float(1, 2), mode="now"), r"drjit\.norm\(<drjit\.llvm\.Float>\): 'mode'.*'now'"),
    (lambda: dr.norm(Array3f(1, 2, 3), keepdims=True), r"drjit\.norm\(<drjit\.llvm\.Array3f>\): 'keepdims=True'"),
    (lambda: dr.sum(np.zeros((2, 3))), r"drjit\.sum\(<numpy\.ndarray>\).*\(2, 3\).*axis=None"),
    (lambda: dr.mean(np.zeros((2, 3)), axis=0), r"drjit\.mean\(<numpy\.ndarray>\).*\(2, 3\).*axis=None"),
    (lambda: dr.sum(Float(1, 2), keepdims="yes"), r"drjit\.sum\(<drjit\.llvm\.Float>\): 'keepdims'.*'yes'"),
    (lambda: dr.any(Bool(True), keepdims=2), r"drjit\.any\(<drjit\.llvm\.Bool>\): 'keepdims'.*2"),
])
def test_what_is_refused_is_told_in_the_name_of_the_function_that_was_called(call, words):
    with pytest.raises(TypeError, match=words):
        call()


def test_lengths_of_sequences():
    assert dr.norm([3, 4]) == 5
    assert dr.norm([]) == 0
    assert dr.squared_norm([[1, 2], [3]], axis=None) == 14
    assert dr.squared_norm([Float(1, 2), 3], axis=0, mode="evaluated").numpy().tolist() == [10, 13]
    assert dr.dot([True, False], (True, True)) == 1
    assert dr.dot([Float(1, 2), 2], [3, Float(1)]).numpy().tolist() == [5, 8]
    assert dr.sum(TensorXf([[1, 2]]), axis=0, keepdims=np.True_).shape == (1, 2)


BIG = 1 << 32


@pytest.mark.parametrize(("find", "type_", "number"), [
    (lambda: dr.count(dr.arange(UInt64, BIG + 8) >= 8), UInt64, BIG),
    (lambda: dr.count(dr.ones(Bool, BIG)), UInt64, BIG),
    (lambda: dr.count(dr.ones(Bool, BIG - 1)), UInt, BIG - 1),
    (lambda: dr.count(dr.ones(TensorXb, (2, BIG // 2)), axis=None), TensorXu64, BIG),
    (lambda: dr.count(dr.ones(TensorXb, (2, BIG // 2)), axis=1)[1], TensorXu, BIG // 2),
    (lambda: dr.count(Array2b(dr.ones(Bool, BIG // 2), True), axis=None), UInt64, BIG),
    (lambda: dr.count(Array2b(dr.ones(Bool, BIG // 2), True)), UInt, 2),
    (lambda: dr.count([dr.ones(Bool, BIG), True], axis=None), UInt64, BIG + 1),
])
def test_count_of_more_than_32_bits_hold(find: Any, type_: type, number: int) -> None:
    found = find()
    assert type(found) is type_
    assert dr.ravel(found)[0] == number
