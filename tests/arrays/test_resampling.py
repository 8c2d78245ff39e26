"""Resampling and convolution against Pillow, NumPy and SciPy, and what they cost.

Errors are measured in roundings of single precision, of inputs that are numbers like 3: weights are rounded once, and
each product and sum once more. What takes the same operations in the same order is compared bit by bit.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

import drjit as dr
from drjit import scalar
from drjit.llvm import Array2f, Float, Float16, Float64, Int, TensorXf, TensorXf16, TensorXf64, TensorXu
from drjit.llvm.ad import Float as DifferentiableFloat
from drjit.llvm.ad import TensorXf as DifferentiableTensorXf

FILTERS = ["box", "linear", "hamming", "cubic", "lanczos", "gaussian"]
BOUNDARIES = ["zero", "nearest", "wrap", "reflect", "mirror"]
#: What SciPy and NumPy call them; NumPy's mirror is called reflect.
PADDING = {"zero": "constant", "nearest": "edge", "wrap": "wrap", "reflect": "symmetric", "mirror": "reflect"}


ROUNDING = 2.0**-24


def oracle(name: str):
    """A package of others that computes what is expected: of the extra ``dev``, which not everybody has."""
    return pytest.importorskip(name, reason=f"{name} is the oracle of this test, and is not installed")


def image(*shape: int) -> np.ndarray:
    return np.random.default_rng(5).normal(size=shape).astype("f4")


def kernel(name: str, radius: float) -> np.ndarray:
    """The weights of a filter that is stretched by a radius, at the integers, written down anew."""
    x = np.arange(-64, 65) / radius
    if name == "box":
        return ((x >= -0.5) & (x < 0.5)).astype(float)  # the position of the output less that of the input
    if name == "linear":
        return np.maximum(0, 1 - abs(x))
    if name == "hamming":
        return np.where(abs(x) < 1, np.sinc(x) * (0.54 + 0.46 * np.cos(np.pi * x)), 0)
    if name == "cubic":
        a = abs(x)
        return np.where(a < 1, 1.5 * a**3 - 2.5 * a**2 + 1, np.where(a < 2, -0.5 * a**3 + 2.5 * a**2 - 4 * a + 2, 0))
    if name == "lanczos":
        return np.where(abs(x) < 3, np.sinc(x) * np.sinc(x / 3), 0)
    return np.where(abs(x) < 2, np.exp(-2 * x**2) - np.exp(-8), 0)


@pytest.mark.oracle
@pytest.mark.parametrize("name", FILTERS[:-1])
@pytest.mark.parametrize("shape", [(7, 5), (14, 10), (31, 17), (11, 10), (14, 23), (1, 1), (20, 3), (14, 3), (28, 30)])
def test_images_are_those_of_pillow(name, shape):
    pillow = oracle("PIL.Image")
    data = image(14, 10)
    method = {"box": "BOX", "linear": "BILINEAR", "hamming": "HAMMING", "cubic": "BICUBIC", "lanczos": "LANCZOS"}[name]
    expected = np.asarray(pillow.fromarray(data).resize(shape[::-1], getattr(pillow.Resampling, method)))
    found = dr.resample(TensorXf(data), shape, name)
    assert type(found) is TensorXf and found.shape == shape
    np.testing.assert_allclose(found.numpy(), expected, atol=16 * ROUNDING * abs(data).max())


@pytest.mark.oracle
def test_channels_are_left_alone():
    pillow = oracle("PIL.Image")
    data = image(9, 8, 3)
    found = dr.resample(TensorXf(data), (5, 20, 3))
    for channel in range(3):
        expected = pillow.fromarray(np.ascontiguousarray(data[..., channel])).resize((20, 5), pillow.Resampling.BICUBIC)
        np.testing.assert_allclose(found.numpy()[..., channel], np.asarray(expected), atol=8 * ROUNDING)


@pytest.mark.oracle
@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize("name", FILTERS)
@pytest.mark.parametrize("radius", [0.4, 1, 2, 2.5, 7])
def test_convolutions_are_those_of_numpy(name, radius, boundary):
    data = image(200).astype("f8")
    weights = kernel(name, radius)
    padded = np.pad(data, 64, PADDING[boundary])
    expected = np.convolve(padded, weights, "valid")
    found = dr.convolve(Float64(data), name, radius, boundary=boundary, normalize=False)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12, atol=1e-13)  # sums in double precision
    if boundary == "zero":
        expected = expected / np.convolve(np.pad(np.ones(200), 64), weights, "valid")
    else:
        expected = expected / weights.sum()
    found = dr.convolve(Float64(data), name, radius, boundary=boundary)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12, atol=1e-13)


@pytest.mark.oracle
@pytest.mark.parametrize(("axis", "boundary"), [(0, "reflect"), (1, "nearest"), ((0, 2), "wrap"), (None, "mirror")])
def test_convolutions_along_axes_are_those_of_scipy(axis, boundary):
    ndimage = oracle("scipy.ndimage")
    data, weights = image(9, 8, 7), kernel("linear", 3)[60:69]
    expected = data.astype("f8")
    for number in range(3) if axis is None else np.atleast_1d(axis):
        expected = ndimage.correlate1d(expected, weights / weights.sum(), axis=number, mode=boundary)
    found = dr.convolve(TensorXf(data), "linear", 3, axis=axis, boundary=boundary)
    np.testing.assert_allclose(found.numpy(), expected, atol=8 * ROUNDING)


@pytest.mark.oracle
def test_a_gaussian_is_that_of_scipy_but_for_its_end():
    ndimage = oracle("scipy.ndimage")
    data = image(40, 50)
    expected = ndimage.gaussian_filter(data.astype("f8"), 2.5, mode="reflect", truncate=4)
    found = dr.convolve(TensorXf(data), "gaussian", 5, boundary="reflect")
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-3)  # the end is lowered by exp(-8) = 3e-4


@pytest.mark.parametrize("name", FILTERS)
@pytest.mark.parametrize(("inputs", "outputs"), [(3000, 1500), (1500, 3000), (4096, 1024), (3000, 3000), (1800, 3000),
                                                 (2999, 3001), (40000, 3), (3, 4000)])
def test_long_axes_whose_weights_repeat_are_those_of_a_whole_table(name, inputs, outputs, monkeypatch):
    from drjit._functions import resampling

    data = image(2, inputs)
    results = []
    for threshold in (resampling._LONG, 1 << 40):
        monkeypatch.setattr(resampling, "_LONG", threshold)
        resampling._known_table.cache_clear()
        resampling._known_kernel.cache_clear()
        if inputs == outputs:
            results.append(dr.convolve(TensorXf(data), name, 4, axis=1).numpy())
        else:
            results.append(dr.resample(TensorXf(data), (2, outputs), name).numpy())
    resampling._known_table.cache_clear()
    resampling._known_kernel.cache_clear()
    np.testing.assert_array_equal(*results)
    assert results[0].shape == (2, outputs)


def test_the_table_of_a_long_axis_is_small():
    from drjit._functions import resampling

    weights, _ = resampling._FILTERS["gaussian"]
    axis = resampling._Axis(1 << 24, 1 << 24, weights, 2.0, 0.1, "zero", True, False)
    assert len(resampling._kernel("f", axis).factors) < 1000
    assert resampling._table("f", axis._replace(outputs=1 << 23)).rows < 1000


@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize("function", [
    lambda x, boundary: dr.resample(x, (7,), "lanczos", boundary=boundary),
    lambda x, boundary: dr.resample(x, (23,), lambda v: max(0, 1 - abs(v)), 1, boundary),
    lambda x, boundary: dr.convolve(x, "cubic", 3.5, boundary=boundary)])
def test_the_scalar_backend_computes_the_same(function, boundary):
    data = image(12)
    found = function(scalar.ArrayXf(data), boundary)
    assert type(found) is scalar.ArrayXf
    np.testing.assert_allclose(found.numpy(), function(Float(data), boundary).numpy(), atol=4 * ROUNDING)


def test_a_function_is_called_with_floats_and_once_for_each_distance():
    seen: list[float] = []

    def tent(x: float) -> float:
        seen.append(x)
        return 1 - abs(x)

    data = image(5)
    np.testing.assert_allclose(dr.resample(Float(data), (10,), tent, 1).numpy(),
                               dr.resample(Float(data), (10,), "linear").numpy(), atol=4 * ROUNDING)
    assert len(seen) == len(set(seen)) <= 6 and {type(x) for x in seen} == {float}
    seen.clear()
    dr.convolve(Float(data), tent, 1)
    assert sorted(seen) == [-1, 0, 1]


def test_the_argument_of_a_function_is_the_way_from_the_input_to_the_output():
    """A convolution, not a correlation; resampling has the opposite sign."""
    impulse = Float(0, 0, 1, 0, 0)
    assert list(dr.convolve(impulse, lambda x: 10 + x, 2, normalize=False)) == [8, 9, 10, 11, 12]
    assert dr.resample(Float(1, 2), (4,), lambda x: 1.5 if x > 0 else 0.5, 1).numpy()[1] == 1.75


@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize("name", FILTERS)
def test_constants_stay_what_they_are(name, boundary):
    for size in (1, 2, 5, 30):
        ones = dr.full(Float, 3, size)
        for result in (dr.convolve(ones, name, 4, boundary=boundary),
                       dr.resample(ones, (13,), name, boundary=boundary)):
            np.testing.assert_allclose(result.numpy(), 3, rtol=8 * ROUNDING)


def test_types_stay_and_halves_are_summed_in_single_precision():
    data = image(6)
    assert type(dr.resample(TensorXf64(data), (3,))) is TensorXf64
    assert type(dr.convolve(DifferentiableTensorXf(data), "box", 2)) is DifferentiableTensorXf
    assert type(dr.convolve(Float16(data), "box", 2)) is Float16
    large = dr.full(TensorXf16, 60000, (40,))
    assert list(dr.convolve(large, "box", 30).array) == [60000] * 40


def test_what_lies_beyond_the_support_does_not_enter():
    data = np.zeros(9, "f4")
    data[0] = np.inf
    found = dr.resample(Float(data), (5,), "linear").numpy()
    assert np.isinf(found[0]) and (found[1:] == 0).all()


def test_axes_without_elements():
    empty = dr.zeros(TensorXf, (0, 3))
    assert dr.resample(empty, (0, 5)).shape == (0, 5) and dr.convolve(empty, "box", 2).shape == (0, 3)
    assert dr.resample(dr.zeros(TensorXf, (4, 3)), (0, 3)).shape == (0, 3)
    assert len(dr.convolve(Float(), "box", 2)) == 0
    with pytest.raises(RuntimeError, match=r"drjit\.resample\(\): axis 0 has no elements, of which 2"):
        dr.resample(empty, (2, 3))


def test_nothing_is_evaluated_and_an_axis_is_one_kernel():
    data = dr.opaque(TensorXf, 1, (30, 40))
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory, True):
        dr.kernel_history_clear()
        result = dr.resample(2 * data, (10, 20)) + 1
        blurred = dr.convolve(data, "gaussian", 3, axis=1) * 2
        assert not dr.kernel_history()
        dr.eval(blurred)
        assert len(dr.kernel_history()) == 1
        dr.eval(result)
    np.testing.assert_allclose(result.numpy(), 3, rtol=8 * ROUNDING)


def test_other_sizes_are_no_other_programs():
    def run(shape, wanted):
        with dr.scoped_set_flag(dr.JitFlag.KernelHistory, True):
            dr.kernel_history_clear()
            dr.eval(dr.resample(dr.opaque(Float, 1, shape), (wanted,), "cubic"))
            return [entry["hash"] for entry in dr.kernel_history() if "hash" in entry]

    assert run(10, 20) == run(11, 22) == run(50, 100) != []


def test_literals_and_components_of_arrays_are_sources_as_well():
    assert dr.allclose(dr.resample(dr.full(Float, 2, 7), (3,)), 2)
    v = Array2f([1, 2, 3, 4], [0, 0, 1, 0])
    assert list(dr.convolve(v.y, "linear", 2)) == [0, 0.25, 0.5, pytest.approx(1 / 3)]


# --- sums of views ---------------------------------------------------------------------------------------------------


@pytest.fixture
def roads(monkeypatch):
    """Both ways to filter: by views, of a padded copy or of the table, and by elements that are read by index."""
    from drjit._functions import resampling

    def run(function):
        results = []
        for least in (0, 1 << 60):
            monkeypatch.setattr(resampling, "_LARGE", least)
            monkeypatch.setattr(resampling, "_MANY", least)
            results.append(function())
        return results

    monkeypatch.setattr(resampling, "_LEAST_TAPS", 2)
    monkeypatch.setattr(resampling, "_SHORT", 6)
    return run


def ramp(x: float) -> float:
    """A filter that is not symmetric, with an even number of taps."""
    return 3.0 + x if x > -2.5 else 0.0


@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize(("name", "radius"), [("linear", 2), ("gaussian", 3), (ramp, 3), ("lanczos", 9)])
def test_sums_of_views_are_those_of_single_elements(name, radius, normalize, boundary, roads):
    shapes = [((50,), 0), ((6,), 0), ((1, 30), 1), ((5, 40), 1), ((40, 5), 0), ((40, 17), 0), ((3, 20, 4), 1),
              ((3, 20, 18), 1), ((2, 3, 20), 1), ((4, 1, 20), 1), ((4, 9, 1), 1), ((2, 2, 2), 1), ((1100, 2), 0)]
    for shape, axis in shapes:
        data = (TensorXf if len(shape) > 1 else Float)(image(*shape))
        views, single = roads(lambda data=data, axis=axis: dr.convolve(
            data, name, radius, axis=axis, boundary=boundary, normalize=normalize).numpy())
        np.testing.assert_array_equal(views, single, err_msg=str(shape))
        assert views.any()


#: Shapes, the axis, and how many outputs there are along it: long and short rows, one and several of them, as they are
#: and with weights that repeat.
RESAMPLED = [((50,), 0, 25), ((6,), 0, 30), ((1, 30), 1, 12), ((5, 40), 1, 60), ((40, 5), 0, 7), ((7, 17), 0, 20),
             ((3, 20, 4), 1, 10), ((3, 20, 18), 1, 33), ((2, 3, 20), 1, 9), ((4, 1, 20), 1, 5), ((4, 9, 1), 1, 8),
             ((1030, 12), 0, 2060), ((9, 1040), 1, 1560)]


@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize("name", ["box", "linear", "cubic", "lanczos", ramp])
def test_resampling_by_rows_is_that_by_elements(name, boundary, roads):
    radius = {"filter_radius": 3} if callable(name) else {}
    for shape, axis, outputs in RESAMPLED:
        data = (TensorXf if len(shape) > 1 else Float)(image(*shape))
        wanted = [outputs if number == axis else size for number, size in enumerate(shape)]
        rows, single = roads(lambda data=data, wanted=wanted: dr.resample(
            data, wanted, name, boundary=boundary, **radius).numpy())
        np.testing.assert_array_equal(rows, single, err_msg=str((shape, outputs)))
        assert rows.any()


@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize("what", ["cubic", "box", "convolve", "kernel", "normalized"])
def test_derivatives_by_rows_are_those_by_elements(what, boundary, roads):
    """Gradients, changes, and gradients of the gradient's square."""
    from drjit.llvm.ad import TensorXf64 as Tensor

    rng = np.random.default_rng(3)
    for shape, axis, outputs in RESAMPLED[2:]:
        wanted = [outputs if number == axis else size for number, size in enumerate(shape)]

        def filtered(x, axis=axis, wanted=wanted):
            if what == "convolve":
                return dr.convolve(x, [1, 2, -1, 4], axis=axis, boundary=boundary)
            if what == "kernel":
                return dr.convolve(x, ramp, 3, axis=axis, boundary=boundary, normalize=False)
            if what == "normalized":
                return dr.convolve(x, "gaussian", 3, axis=axis, boundary=boundary)
            return dr.resample(x, wanted, what, boundary=boundary)

        data, moved = rng.normal(size=shape), rng.normal(size=shape)
        weights = rng.normal(size=filtered(Tensor(data)).shape)

        def run(filtered=filtered, data=data, moved=moved, weights=weights):
            def f(x):
                return dr.sum(filtered(x) ** 3 * Tensor(weights), axis=None)

            def along(x):
                return dr.sum(dr.value_and_grad(f)(x)[1] * Tensor(moved), axis=None)

            x = Tensor(data)
            dr.enable_grad(x)
            dr.set_grad(x, Tensor(moved))
            change = dr.forward_to(filtered(x)).numpy()
            first = dr.value_and_grad(f)(Tensor(data))[1].numpy()
            return change, first, dr.value_and_grad(along)(Tensor(data))[1].numpy()

        for found, expected in zip(*roads(run), strict=True):
            np.testing.assert_allclose(found, expected, atol=1e-11 * abs(expected).max(), err_msg=str((shape, outputs)))


@pytest.mark.oracle
@pytest.mark.parametrize("boundary", BOUNDARIES[1:])
def test_large_convolutions_are_those_of_scipy(boundary):
    ndimage = oracle("scipy.ndimage")
    modes = {"nearest": "nearest", "wrap": "wrap", "reflect": "reflect", "mirror": "mirror"}
    data, weights = image(600, 700), kernel("linear", 9)[56:73]
    for axis in (0, 1):
        expected = ndimage.correlate1d(data.astype("f8"), weights / weights.sum(), axis=axis, mode=modes[boundary])
        found = dr.convolve(TensorXf(data), "linear", 9, axis=axis, boundary=boundary)
        np.testing.assert_allclose(found.numpy(), expected, atol=20 * ROUNDING)  # 17 products of numbers up to 5


@pytest.mark.parametrize("array", [TensorXf16, TensorXf64, DifferentiableTensorXf])
def test_sums_of_views_keep_the_type(array, roads):
    data = array(image(9, 20))
    views, single = roads(lambda: dr.convolve(data, "gaussian", 2, boundary="nearest"))
    assert type(views) is type(single) is array
    np.testing.assert_array_equal(views.numpy(), single.numpy())


@pytest.mark.parametrize("make", [
    lambda: dr.full(TensorXf, 3, (8, 20)), lambda: dr.opaque(TensorXf, 3, (8, 20)),
    lambda: dr.opaque(TensorXf, 1, (8, 20)) + 2, lambda: dr.opaque(TensorXf, 3, (20, 8))[:8, :1] + dr.zeros(
        TensorXf, (8, 20)), lambda: dr.zeros(TensorXf, (0, 20)), lambda: dr.zeros(TensorXf, (8, 0))])
def test_sums_of_views_of_literals_of_memory_and_of_what_is_computed(make, roads):
    views, single = roads(lambda: dr.convolve(make(), "gaussian", 4, boundary="zero") + 1)
    assert views.shape == single.shape
    np.testing.assert_allclose(views.numpy(), 4, rtol=8 * ROUNDING)
    np.testing.assert_array_equal(views.numpy(), single.numpy())


def test_what_the_weight_zero_is_for_does_not_enter_a_sum_of_views(roads):
    data = np.zeros(30, "f4")
    data[7] = np.inf
    views, single = roads(lambda: dr.convolve(Float(data), lambda x: float(x != 1), 3, normalize=False).numpy())
    np.testing.assert_array_equal(views, single)
    assert np.isfinite(views[8]) and np.isinf(views[7])


def test_large_convolutions_are_three_kernels_and_other_sizes_no_other_programs():
    def run(shape):
        data = dr.opaque(TensorXf, 1, shape)
        with dr.scoped_set_flag(dr.JitFlag.KernelHistory, True):
            dr.kernel_history_clear()
            result = dr.convolve(data, "gaussian", 4, axis=1, boundary="reflect") * 2
            assert not dr.kernel_history()
            dr.eval(result)
            kernels = [(entry["hash"], entry["size"]) for entry in dr.kernel_history([dr.KernelType.JIT])]
        np.testing.assert_allclose(result.numpy(), 2, rtol=8 * ROUNDING)
        return kernels

    first = run((600, 1000))
    assert [size for _, size in first] == [1014, 600 * 1014, 600 * 1000]  # positions, the padded copy, the sum
    assert [hash for hash, _ in run((700, 900))] == [hash for hash, _ in first]


def test_convolutions_in_loops_read_by_index(roads):
    data = Float(image(40))

    def run():
        def step(i, total):
            return i + 1, total + dr.convolve(data, "linear", 4, boundary="wrap")

        return dr.while_loop((Int(0), dr.zeros(Float, 40)), lambda i, total: i < 3, step, mode="symbolic")[1].numpy()

    views, single = roads(run)
    np.testing.assert_array_equal(views, single)
    np.testing.assert_allclose(views, 3 * dr.convolve(data, "linear", 4, boundary="wrap").numpy(), rtol=4 * ROUNDING)


# --- errors -----------------------------------------------------------------------------------------------------------


def tracked_kernel():
    kernel = DifferentiableFloat(1, 2, 1)
    dr.enable_grad(kernel)
    return kernel


@pytest.mark.parametrize(("call", "error", "message"), [
    (lambda: dr.resample(Float(1, 2), (2, 2)), RuntimeError, r"drjit\.resample\(\): 'source' and 'shape' must have"),
    (lambda: dr.resample(Int(1, 2), (4,)), TypeError, r"drjit\.resample\(\): 'source'.*floating-point.*llvm\.Int"),
    (lambda: dr.resample(TensorXu([1, 2]), (4,)), TypeError, r"'source'.*found drjit\.llvm\.TensorXu"),
    (lambda: dr.resample(Array2f(1, 2), (2, 4)), TypeError, r"'source'.*found drjit\.llvm\.Array2f"),
    (lambda: dr.resample([1, 2], (4,)), TypeError, r"'source'.*found list"),
    (lambda: dr.resample(scalar.Array2f(1, 2), (4,)), TypeError, r"'source'.*found drjit\.scalar\.Array2f"),
    (lambda: dr.resample(Float(1, 2), (-4,)), TypeError, r"drjit\.resample\(\): 'shape' must be"),
    (lambda: dr.resample(Float(1, 2), (4,), "sinc"), TypeError, r"'filter' must be one of 'box'.*found 'sinc'"),
    (lambda: dr.resample(Float(1, 2), (4,), 3), TypeError, r"'filter' must be the name of a filter or a function"),
    (lambda: dr.resample(Float(1, 2), (4,), "box", 2), TypeError, r"'filter_radius' must be None"),
    (lambda: dr.resample(Float(1, 2), (4,), abs), TypeError, r"'filter_radius' is needed"),
    (lambda: dr.resample(Float(1, 2), (4,), abs, 0), TypeError, r"'filter_radius' must be a positive number, found 0"),
    (lambda: dr.resample(Float(1, 2), (4,), abs, math.nan), TypeError, r"'filter_radius' must be.*found nan"),
    (lambda: dr.resample(Float(1, 2), (4,), abs, 1e-3), TypeError, r"the filter footprint is too small"),
    (lambda: dr.resample(Float(1, 2), (4,), str, 1), TypeError, r"'filter' must return a number, found str"),
    (lambda: dr.resample(Float(1, 2), (4,), "box", boundary="clamp"), TypeError, r"'boundary' must be one of 'zero'"),
    (lambda: dr.convolve(Float(1, 2), "box", "a"), TypeError, r"drjit\.convolve\(\): 'filter_radius' must be"),
    (lambda: dr.convolve(Float(1, 2), "box", 1, axis=1), TypeError, r"drjit\.convolve\(\): out-of-bounds axis"),
    (lambda: dr.convolve(TensorXf([[1.0]]), "box", 1, axis=(0, 0)), TypeError, r"'axis' names an axis twice"),
    (lambda: dr.convolve(Float(1, 2, 3), lambda x: x, 1), TypeError, r"drjit\.convolve\(\): the filter footprint"),
    (lambda: dr.convolve(Float(1, 2, 3), tracked_kernel()), TypeError,
     r"drjit\.convolve\(\): 'filter' tracks derivatives.*dr\.detach"),
])
def test_errors_name_the_argument(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_an_exception_of_a_filter_comes_through():
    def broken(x: float) -> float:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        dr.resample(Float(1, 2), (4,), broken, 1)


@pytest.mark.parametrize("size", [0, 1, 2, 7])
@pytest.mark.parametrize("chosen", ["gaussian", "box", lambda x: 1 / (1 + x * x)])
@pytest.mark.parametrize("normalize", [True, False])
def test_filters_that_are_much_wider_than_their_input(size, chosen, normalize):
    x = np.linspace(1, 2, size)
    found = dr.convolve(TensorXf64(x), chosen, 1e9, normalize=normalize).numpy()
    distances = np.arange(size)[:, None] - np.arange(size)
    top = 1 - math.exp(-8) if chosen == "gaussian" else 1  # the end is lowered to zero
    weights = 1 / (1.0 + distances * distances) if callable(chosen) else np.full((size, size), top)
    assert np.allclose(found, weights @ x / (weights.sum(1) if normalize else 1), rtol=1e-6)
