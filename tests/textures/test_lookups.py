"""What lookups find: every format, filter, wrap mode, dimension and number of channels, at all kinds of positions."""

from __future__ import annotations

import importlib
import itertools
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import drjit as dr
from drjit import FilterMode, WrapMode, llvm, scalar
from tests.textures import model

FORMATS = {"f": np.float32, "bf16": np.dtype(ml_dtypes.bfloat16), "f16": np.float16, "f64": np.float64, "f8u": np.uint8}
PRECISIONS = {"f": np.float32, "f16": np.float16, "f64": np.float64}
SHAPES = {1: [(7,), (1,), (2,)], 2: [(5, 4), (1, 3)], 3: [(3, 5, 4), (2, 1, 2)]}
COUNT = 64
TOLERANCE = {np.float32: 2e-5, np.float16: 2e-2, np.float64: 1e-12}


def texels(shape: tuple[int, ...], dtype: Any, rng: np.random.Generator) -> Any:
    if dtype is np.uint8:
        return rng.integers(0, 256, shape, dtype=np.uint8)
    return (rng.random(shape) * 2 - 1).astype(dtype)


def points(size: int, dtype: type, rng: np.random.Generator, special: bool = True) -> Any:
    """Random positions, also beyond the edges, knots, seams, and what is hardly a position at all."""
    found = rng.random(COUNT) * 3 - 1
    found[:8] = (rng.integers(-size, 2 * size, 8) + 0.5) / size
    found[8:12] = [0, 1, -1, 2]
    if special:
        found[12:18] = [np.nan, np.inf, -np.inf, 2.0**31, -(2.0**31), 1e4]
    rng.shuffle(found)
    with np.errstate(over="ignore"):
        return found.astype(dtype)


def near_a_seam(position: Any, size: int, shift: float) -> Any:
    """Where rounding decides in which texel a position is."""
    with np.errstate(invalid="ignore"):
        scaled = position.astype(np.float64) * size + shift
        distance = abs(scaled - np.round(scaled))
    return np.isfinite(scaled) & (distance < 4e-3 * np.maximum(1, abs(scaled)))


@pytest.mark.parametrize("channels", [1, 3, 6])
@pytest.mark.parametrize("dimension", [1, 2, 3])
@pytest.mark.parametrize("form", FORMATS)
def test_some_lookups_are_those_of_the_model(form: str, dimension: int, channels: int) -> None:
    rng = np.random.default_rng([channels, dimension, len(form)])
    shape, mode = SHAPES[dimension][0], list(WrapMode)[int(rng.integers(4))]
    compare(llvm, form, channels, shape, mode, list(PRECISIONS)[int(rng.integers(3))], rng)


@pytest.mark.exhaustive
@pytest.mark.parametrize("package", ["llvm", "llvm.ad"])
@pytest.mark.parametrize("channels", [1, 2, 3, 4, 6])
@pytest.mark.parametrize("dimension", [1, 2, 3])
@pytest.mark.parametrize("form", FORMATS)
def test_lookups_are_those_of_the_model(form: str, dimension: int, channels: int, package: str) -> None:
    module = importlib.import_module(f"drjit.{package}")
    rng = np.random.default_rng([channels, dimension, len(form)])
    for shape, mode, suffix in itertools.product(SHAPES[dimension], WrapMode, PRECISIONS):
        if suffix == "f" or shape is SHAPES[dimension][0]:
            compare(module, form, channels, shape, mode, suffix, rng)


def compare(module: Any, form: str, channels: int, shape: tuple[int, ...], mode: WrapMode, suffix: str,
            rng: np.random.Generator) -> None:
    """Look a texture of random texels up, and compare with the model."""
    dimension, dtype = len(shape), PRECISIONS[suffix]
    data = texels((*shape, channels), FORMATS[form], rng)
    border = rng.random(channels) if mode is WrapMode.Border else 0
    options = {"border": border.tolist()} if mode is WrapMode.Border else {}
    positions = [points(size, dtype, rng) for size in shape[::-1]]
    active = rng.random(COUNT) < 0.8
    pos = getattr(module, f"Array{dimension}{suffix}")(*positions) if dimension > 1 else \
        getattr(module, f"Array1{suffix}")(getattr(module, {"f": "Float", "f16": "Float16", "f64": "Float64"}[suffix])(
            positions[0]))
    modes, values = [mode] * dimension, data / 255 if form == "f8u" else data.astype(np.float64)
    with np.errstate(all="ignore"):
        expected = {"linear": model.linear(values, positions, modes, border, dtype),
                    "cubic": model.cubic(values, positions, modes, border, dtype),
                    "nearest": model.nearest(values, positions, modes, border, dtype)}
        fetched = model.corners(values, positions, modes, border, dtype)
    textures = {kind: getattr(module, f"Texture{dimension}{form}")(
        data, filter_mode=FilterMode.Nearest if kind == "nearest" else FilterMode.Linear, wrap_mode=mode, **options)
        for kind in ("linear", "nearest")}
    found: dict[str, Any] = {kind: texture.eval(pos, module.Bool(active)) for kind, texture in textures.items()}
    found["cubic"] = textures["nearest"].eval_cubic(pos, module.Bool(active))
    wanted = getattr(module, f"Array{channels if channels <= 4 else 'X'}{suffix}")
    seams = np.any([near_a_seam(position, size, 0) for position, size in zip(positions, shape[::-1], strict=True)],
                   axis=0)
    for kind, result in found.items():
        assert type(result) is wanted
        result = np.asarray(result.numpy(), np.float64).T
        assert (result[~active] == 0).all(), kind
        keep = active & ~seams if kind == "nearest" else active
        # Differences of positions are as large as their rounding, times the size.
        np.testing.assert_allclose(result[keep], expected[kind][keep], rtol=0,
                                   atol=TOLERANCE[dtype] * 3, err_msg=f"{kind} {shape} {mode} {suffix}")
    unsure = np.any([near_a_seam(position, size, 0.5) for position, size
                     in zip(positions, shape[::-1], strict=True)], axis=0)
    known = active & ~unsure & np.all([np.isfinite(position) for position in positions], axis=0)
    for result, value in zip(textures["linear"].eval_fetch(pos, module.Bool(active)), fetched, strict=True):
        result = np.asarray(result.numpy(), np.float64).T
        np.testing.assert_allclose(result[known], value[known], rtol=2e-3 if dtype is np.float16 else 1e-6, atol=0)
        assert (result[~active] == 0).all()


@pytest.mark.parametrize("dimension", [1, 2, 3])
@pytest.mark.parametrize("mode", WrapMode)
def test_gradients_and_hessians_of_the_spline(dimension: int, mode: WrapMode) -> None:
    rng = np.random.default_rng(3)
    shape = SHAPES[dimension][0]
    data = texels((*shape, 2), np.float64, rng)
    positions = [rng.random(COUNT) * 3 - 1 for _ in shape]
    texture = getattr(llvm, f"Texture{dimension}f64")(data, wrap_mode=mode)
    kind = getattr(llvm, f"Array{dimension}f64")
    pos = kind(*positions) if dimension > 1 else kind(llvm.Float64(positions[0]))
    modes = [mode] * dimension
    value, gradients = texture.eval_cubic_grad(pos)
    again, slopes, hessians = texture.eval_cubic_hessian(pos)
    expected = model.cubic(data, positions, modes, 0, np.float64)
    for found in (value, again):
        np.testing.assert_allclose(found.numpy().T, expected, atol=1e-12)
    for channel in range(2):
        for axis in range(dimension):
            orders = [int(k == axis) for k in range(dimension)]
            wanted = model.cubic(data, positions, modes, 0, np.float64, orders)[:, channel]
            for found in (gradients, slopes):
                assert type(found[channel]) is kind
                np.testing.assert_allclose(found[channel][axis].numpy(), wanted, atol=1e-10)
            for other in range(dimension):
                orders = [(k == axis) + (k == other) for k in range(dimension)]
                wanted = model.cubic(data, positions, modes, 0, np.float64, orders)[:, channel]
                np.testing.assert_allclose(hessians[channel][axis][other].numpy(), wanted, atol=1e-9)


def test_derivatives_of_the_spline_fit_in_half_precision() -> None:
    """Codes of 8 bits times the size squared would not."""
    texture = llvm.Texture1f8u(np.where(np.arange(16) % 2, 255, 0).reshape(16, 1))
    place = np.array([0.28125, 0.59375], np.float16)
    found = texture.eval_cubic_hessian(llvm.Array1f16(llvm.Float16(place)))
    expected = texture.eval_cubic_hessian(llvm.Array1f64(llvm.Float64(place)))
    for one, other in ((found[1][0].x, expected[1][0].x), (found[2][0][0][0], expected[2][0][0][0])):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=0.02, atol=0.1)


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("dimension", [1, 2, 3])
def test_numbers_are_looked_up_likewise(dimension: int, form: str) -> None:
    rng = np.random.default_rng(5)
    for channels, mode in itertools.product((1, 3, 5), WrapMode):
        shape = SHAPES[dimension][0]
        data = texels((*shape, channels), FORMATS[form], rng)
        textures = [getattr(package, f"Texture{dimension}{form}")(data, wrap_mode=mode) for package in (scalar, llvm)]
        for _ in range(3):
            position = (rng.random(dimension) * 3 - 1).tolist()
            for method in ("eval", "eval_cubic"):
                one, many = (getattr(texture, method)(position) for texture in textures)
                assert type(one) is getattr(scalar, type(many).__name__)
                np.testing.assert_allclose(np.array(one), many.numpy()[:, 0], rtol=1e-6, atol=1e-7)
            for one, many in zip(*(texture.eval_fetch(position) for texture in textures), strict=True):
                np.testing.assert_allclose(np.array(one), many.numpy()[:, 0], rtol=1e-6)
            assert list(textures[0].wrap([-3] * dimension)) == [int(k[0]) for k in textures[1].wrap([-3] * dimension)]


@pytest.mark.parametrize("mode", WrapMode)
def test_whole_positions_are_wrapped(mode: WrapMode) -> None:
    index = np.array([*range(-12, 13), 2**31 - 1, -(2**31), 1000, -1000])
    for size in (1, 2, 4, 5):
        found = llvm.Texture1f([size], 1, wrap_mode=mode).wrap(llvm.Array1i(llvm.Int(index))).x.numpy()
        expected = model.wrapped(index, size, WrapMode.Clamp if mode is WrapMode.Border else mode)
        assert (found == expected).all()
    assert type(llvm.Texture2f([2, 2], 1).wrap([1.7, -1.7])) is llvm.Array2i
    found = llvm.Texture2f([2, 2], 1, wrap_mode=WrapMode.Repeat).wrap(llvm.Array2f(-1.7, 1.7))
    assert found.numpy().T.tolist() == [[1, 1]]


def test_each_axis_has_a_mode() -> None:
    rng = np.random.default_rng(8)
    data = texels((4, 5, 2), np.float32, rng)
    positions = [points(size, np.float32, rng) for size in (5, 4)]
    for modes in itertools.product(WrapMode, repeat=2):
        options = {"border": [0.25, 0.5]} if WrapMode.Border in modes else {}
        texture = llvm.Texture2f(data, wrap_mode=modes, **options)
        assert texture.wrap_mode() == (modes if len(set(modes)) > 1 else modes[0])
        expected = model.linear(data, positions, modes[::-1], np.array([0.25, 0.5]))
        np.testing.assert_allclose(texture.eval(llvm.Array2f(*positions)).numpy().T, expected, atol=5e-5)


def test_positions_of_many_kinds() -> None:
    texture = llvm.Texture2f(np.arange(12.0).reshape(3, 4, 1))
    expected = texture.eval(llvm.Array2f(0.3, 0.6))
    for position in ((0.3, 0.6), [0.3, 0.6], np.array([0.3, 0.6]), [llvm.Float(0.3), 0.6], scalar.Array2f(0.3, 0.6),
                     np.array([[0.3], [0.6]]), llvm.ArrayXf([0.3], [0.6])):
        assert dr.allclose(texture.eval(position), expected) and type(texture.eval(position)) is llvm.Array1f
    assert type(texture.eval([llvm.Float64(0.3), 0.6])) is llvm.Array1f64
    assert type(texture.eval(llvm.Float64(0.5))) is llvm.Array1f64
    for position in (0.5, llvm.Float(0.5), np.float32(0.5)):
        assert dr.allclose(texture.eval(position), texture.eval([0.5, 0.5]))
    assert texture.eval(1).numpy().tolist() == [[11]] and texture.eval(llvm.Array2i(1, 0)).numpy().tolist() == [[3]]
    for position in (llvm.Array3f(0), llvm.TensorXf([1, 2]), None, "xy", [0.1], [1, 2, 3], np.zeros(3),
                     llvm.Array2b(True), llvm.Matrix2f(1), llvm.ArrayXf([1], [2], [3]), {}):
        with pytest.raises(TypeError, match=r"Texture2f.eval\(\): 'pos' must be a position of 2 components"):
            texture.eval(position)
    with pytest.raises(TypeError, match="'active' must be a mask"):
        texture.eval(0.5, active="all")
    with pytest.raises(RuntimeError, match="incompatible"):
        texture.eval(llvm.Array2f([1, 2, 3], 0), active=llvm.Bool(True, False))


def test_colors_are_decoded() -> None:
    data = np.arange(0, 250, 10, dtype=np.uint8).reshape(1, 5, 5)
    def linear(code: Any) -> Any:
        return np.where(code <= 0.04045, code / 12.92, ((code + 0.055) / 1.055)**2.4)
    centres = (np.arange(5) + 0.5) / 5
    for module in (llvm, scalar):
        texture = module.Texture2f8u(data, srgb=True)
        for x in range(5):
            position = [float(centres[x]), 0.5]
            found = np.array(texture.eval(position), np.float64).reshape(-1)
            expected = linear(data[0, x] / 255)
            expected[3] = data[0, x, 3] / 255  # alpha
            np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-7)
    half = llvm.Texture1f8u([[0], [255]], srgb=True)
    assert half.eval(0.5).numpy().tolist() == [[0.5]]  # decoded first


def test_textures_without_texels_are_zero() -> None:
    for shape in ([0], [0, 3], [3, 0, 2]):
        texture = getattr(llvm, f"Texture{len(shape)}f")(shape, 2)
        assert texture.eval(llvm.Float(0.1, 0.9)).numpy().tolist() == [[0, 0], [0, 0]]
        assert texture.eval_cubic(0.5).numpy().tolist() == [[0], [0]]


@pytest.mark.parametrize("mode", WrapMode)
@pytest.mark.parametrize("method", ["eval", "eval_cubic", "eval_catmull_rom"])
def test_textures_without_texels_are_zero_within_constructs(method: str, mode: WrapMode) -> None:
    """Where memory that there is not would be read."""
    border = {"border": [2, 3]} if mode is WrapMode.Border else {}
    pos = llvm.Array2f([0.1, 0.9, 7, -3, 1e4, 2.0**31], 0.5)
    active = llvm.Bool(True, True, True, True, True, False)
    for shape in ([0, 3], [2, 0]):
        lookup = getattr(llvm.Texture2f(shape, 2, wrap_mode=mode, **border), method)
        expected = np.array([[2.0], [3.0]] if border else [[0.0], [0.0]]) * active.numpy()
        index = llvm.UInt(np.arange(6) % 2)
        for construct in ("symbolic", "evaluated"):
            found = [dr.switch(index, [lookup, lambda p, a, lookup=lookup: lookup(p, a)], pos, active, mode=construct),
                     dr.while_loop((index, dr.zeros(llvm.Array2f, 6)), lambda i, found: i < 2,
                                   lambda i, found, lookup=lookup: (i + 1, lookup(pos, active)), mode=construct)[1]]
            for each in found:
                np.testing.assert_allclose(each.numpy(), expected, atol=1e-5)


def test_one_lookup_is_one_kernel() -> None:
    rng = np.random.default_rng(1)
    for channels in (1, 3, 4, 7):
        texture = llvm.Texture2f(rng.random((8, 8, channels)).astype(np.float32))
        position = llvm.Array2f(rng.random((2, 100)).astype(np.float32))
        dr.eval(texture, position)
        with dr.scoped_set_flag(dr.JitFlag.KernelHistory):
            dr.kernel_history_clear()
            dr.eval(dr.sum(texture.eval(position) * 2))
            assert len(dr.kernel_history([dr.KernelType.JIT])) == 1


@pytest.mark.parametrize("mode", WrapMode)
@pytest.mark.parametrize("method", ["eval", "eval_cubic", "eval_catmull_rom"])
@pytest.mark.parametrize("shape", [(1, 1), (2, 3)])
def test_texels_that_are_known_to_be_zero_are_looked_up_as_others(shape: Any, method: str, mode: WrapMode) -> None:
    known, zero = llvm.Texture2f(shape, 1, wrap_mode=mode), llvm.Texture2f(shape, 1, wrap_mode=mode)
    zero.set_value(dr.opaque(llvm.Float, 0, shape[0] * shape[1]))
    number = scalar.Texture2f(shape, 1, wrap_mode=mode)
    values = [float("nan"), float("inf"), -float("inf"), 0.3, 1e30]
    for x, y in itertools.product(values, values):
        expected = getattr(zero, method)([x, y])[0].numpy()
        np.testing.assert_array_equal(getattr(known, method)([x, y])[0].numpy(), expected)
        np.testing.assert_array_equal(getattr(number, method)([x, y])[0], expected[0])


@pytest.mark.parametrize("method", ["cubic", "catmull_rom"])
@pytest.mark.parametrize("channels", [1, 3])
def test_rows_that_edges_push_inwards_have_no_other_texels(method: str, channels: int) -> None:
    """NaN and infinite ones show next to them, and nowhere else."""
    for size in (4, 5, 6):
        data = np.random.default_rng(size).random((3, size, channels))
        x, y = (axis.ravel() for axis in np.meshgrid(np.linspace(-0.45, size + 0.45, 121) / size, [0, 0.5, 1.1]))
        for special in range(size):
            changed = data.copy()
            changed[1, special] = np.nan
            texture = llvm.Texture2f64(changed)
            found = getattr(texture, f"eval_{method}")(llvm.Array2f64(x, y)).numpy()
            expected = getattr(model, method)(changed, [x, y], [WrapMode.Clamp] * 2, dtype=np.float64).T
            assert (np.isnan(found) == np.isnan(expected)).all()
            np.testing.assert_allclose(found, expected, rtol=0, atol=1e-13)  # sums of 16 products
