"""MIP maps, Laplacian pyramids, splines through texels, and image files."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest

import drjit as dr
from drjit import WrapMode, llvm
from drjit.llvm.ad import Array2f, Array3f, Float, TensorXf, Texture2f
from drjit.textures import Mipmap, from_image, from_laplacian_pyramid, laplacian_pyramid
from tests.textures import model

RNG = np.random.default_rng(6)


# --- Catmull-Rom -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [WrapMode.Clamp, WrapMode.Repeat, WrapMode.Mirror])
def test_the_spline_goes_through_the_texels_and_keeps_lines_and_squares(mode: WrapMode) -> None:
    data = RNG.random((5, 7, 2))
    texture = llvm.Texture2f64(data, wrap_mode=mode)
    y, x = np.meshgrid((np.arange(5) + 0.5) / 5, (np.arange(7) + 0.5) / 7, indexing="ij")
    found = texture.eval_catmull_rom(llvm.Array2f64(x.ravel(), y.ravel())).numpy()
    np.testing.assert_allclose(found.T.reshape(5, 7, 2), data, atol=1e-12)
    centres = (np.arange(20) + 0.5) / 20
    parabola = llvm.Texture1f64(((centres - 0.3)**2).reshape(20, 1), wrap_mode=mode)
    place = 0.2 + RNG.random(50) * 0.6
    found = parabola.eval_catmull_rom(llvm.Float64(place)).x.numpy()
    np.testing.assert_allclose(found, (place - 0.3)**2, atol=1e-12)


# --- Laplacian pyramids ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(8, 8, 3), (7, 5, 1), (1, 9, 2), (1, 1, 1)])
def test_a_pyramid_is_the_image(shape: tuple[int, ...]) -> None:
    image = TensorXf(RNG.random(shape))
    for levels in (None, 1, max(shape[:2]).bit_length()):
        pyramid = laplacian_pyramid(image, levels)
        assert len(pyramid) == (levels or max(shape[:2]).bit_length())
        np.testing.assert_allclose(from_laplacian_pyramid(pyramid).numpy(), image.numpy(), atol=1e-6)


def test_levels_may_be_optimised() -> None:
    """Where few texels are seen at a time, the levels of a pyramid are closer after as many steps than texels are, each
    at the rate that suits them best."""
    y, x = np.mgrid[0:32, 0:32] / 32
    wanted = TensorXf((0.5 + 0.5 * np.sin(5 * x + 3 * y))[..., None])
    target = Texture2f(wanted)

    def loss_after(start: Any, image: Any, rate: float) -> float:
        optimiser = dr.opt.Adam(lr=rate, params=start)
        rng = np.random.default_rng(1)
        for _ in range(40):
            place = Array2f(rng.random((2, 60)).astype(np.float32))
            texture = Texture2f(image(optimiser))
            error = texture.eval(place).x - target.eval(place).x
            dr.backward(dr.mean(error * error))
            optimiser.step()
        difference = image(optimiser) - wanted
        return float(dr.mean(difference.array * difference.array)[0])

    empty = dr.zeros(TensorXf, (32, 32, 1))
    plain = loss_after({"image": TensorXf(empty)}, lambda o: o["image"], 0.05)
    levels = {str(k): TensorXf(level) for k, level in enumerate(laplacian_pyramid(empty))}
    better = loss_after(levels, lambda o: from_laplacian_pyramid([o[str(k)] for k in range(len(levels))]),
                        0.01)
    assert better < 0.2 * plain


def test_what_is_no_pyramid_is_refused() -> None:
    image = TensorXf(np.zeros((4, 4, 1)))
    with pytest.raises(TypeError, match="'image' must be a tensor"):
        laplacian_pyramid(Float(1))
    with pytest.raises(RuntimeError, match="'image' must have rows, columns and channels"):
        laplacian_pyramid(TensorXf([1, 2]))
    with pytest.raises(RuntimeError, match="'levels' must be an int from 1 to 3, found 4"):
        laplacian_pyramid(image, 4)
    with pytest.raises(TypeError, match="'pyramid' must be a list"):
        from_laplacian_pyramid([])
    with pytest.raises(RuntimeError, match="half the size"):
        from_laplacian_pyramid([image, image])


# --- MIP maps --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [WrapMode.Clamp, WrapMode.Repeat, WrapMode.Mirror])
def test_levels_are_interpolated(mode: WrapMode) -> None:
    data = RNG.random((8, 12, 3)).astype(np.float32)
    mipmap = Mipmap(TensorXf(data), mode)
    levels = [level.numpy() for level in mipmap.levels]
    assert [level.shape for level in levels] == [(8, 12, 3), (4, 6, 3), (2, 3, 3), (1, 1, 3)]
    np.testing.assert_allclose(levels[1], data.reshape(4, 2, 6, 2, 3).mean((1, 3)), atol=1e-6)
    np.testing.assert_allclose(levels[3][0, 0], data.mean((0, 1)), atol=1e-6)
    place = [(RNG.random(200) * 3 - 1).astype(np.float32) for _ in range(2)]
    lod = (RNG.random(200) * 5 - 1).astype(np.float32)
    found = mipmap.eval(Array2f(*place), Float(lod), dr.llvm.ad.Bool(lod < 3.5)).numpy().T
    within = np.clip(lod, 0, 3)
    each = np.array([model.linear(level, place, [mode] * 2) for level in levels])
    low, number = np.floor(within).astype(int), np.arange(200)
    fraction = (within - low)[:, None]
    expected = each[low, number] * (1 - fraction) + each[np.minimum(low + 1, 3), number] * fraction
    np.testing.assert_allclose(found, expected * (lod < 3.5)[:, None], atol=2e-5)
    assert repr(mipmap) == f"Mipmap(shape=(8, 12, 3), levels=4, wrap_mode={mode.name})"


def test_footprints_choose_levels() -> None:
    data = RNG.random((16, 16, 1)).astype(np.float32)
    mipmap, pos = Mipmap(TensorXf(data)), Array2f(RNG.random((2, 50)).astype(np.float32))
    for scale, lod in ((1, 0), (2, 1), (4, 2), (0.3, 0), (3, np.log2(3)), (100, 4)):
        for size in (1, 4):
            square = mipmap.eval_grad(pos, Array2f(scale / 16, 0), Array2f(0, scale / 16), size)
            np.testing.assert_allclose(square.numpy(), mipmap.eval(pos, lod).numpy(), atol=1e-5)
    # A long area: means of lookups along its longer axis, at the level of the shorter one.
    ddx, ddy = Array2f(8 / 16, 0), Array2f(0, 2 / 16)
    expected = sum(mipmap.eval(pos + ddx * ((k + 0.5) / 4 - 0.5), 1) for k in range(4)) / 4
    np.testing.assert_allclose(mipmap.eval_grad(pos, ddx, ddy, 16).numpy(), expected.numpy(), atol=1e-5)
    # At most two lookups: the level goes up instead.
    expected = sum(mipmap.eval(pos + ddx * ((k + 0.5) / 2 - 0.5), 2) for k in range(2)) / 2
    np.testing.assert_allclose(mipmap.eval_grad(pos, ddx, ddy, 2).numpy(), expected.numpy(), atol=1e-5)
    line = mipmap.eval_grad(pos, ddx, Array2f(0, 0), 4)
    assert np.isfinite(line.numpy()).all()
    assert (mipmap.eval_grad(pos, ddx, ddy, 4, active=False).numpy() == 0).all()


@pytest.mark.parametrize("anisotropy", [1, 4])
def test_gradients_go_through_the_levels(anisotropy: int) -> None:
    data, change = RNG.random((8, 8, 2)), RNG.random((8, 8, 2)) - 0.5
    place = RNG.random((2, 30)).astype(np.float32)

    def at(values: Any) -> Any:
        found = Mipmap(values).eval_grad(Array2f(place), Array2f(0.3, 0.1), Array2f(0, 0.1), anisotropy)
        return dr.sum(found.x * 2 - found.y)

    image = TensorXf(data)
    dr.enable_grad(image)
    dr.backward(at(image))
    expected = at(TensorXf(data + change))[0] - at(TensorXf(data))[0]  # it is linear
    np.testing.assert_allclose((dr.grad(image).numpy() * change).sum(), expected, rtol=1e-3, atol=1e-3)


def test_what_is_no_mip_map_is_refused() -> None:
    image = TensorXf(np.zeros((4, 4, 1)))
    with pytest.raises(TypeError, match="'image' must be a tensor"):
        Mipmap([1])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="'wrap_mode' must be"):
        Mipmap(image, WrapMode.Border)
    with pytest.raises(TypeError, match="'pos' must be convertible"):
        Mipmap(image).eval(Array3f(1))
    with pytest.raises(RuntimeError, match="'max_anisotropy' must be an int from 1 to 16"):
        Mipmap(image).eval_grad(Array2f(0), Array2f(0), Array2f(0), 17)
    mipmap = Mipmap(image)
    dr.enable_grad(mipmap)
    assert dr.grad_enabled(mipmap) and isinstance(dr.detach(mipmap), Mipmap)


# --- image files -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["L", "LA", "RGB", "RGBA", "P", "1"])
def test_image_files(mode: str) -> None:
    image_module = pytest.importorskip("PIL.Image")
    codes = RNG.integers(0, 256, (3, 4, 4), dtype=np.uint8)
    image = image_module.fromarray(codes, "RGBA" if mode != "RGB" else None).convert(mode)
    file = io.BytesIO()
    image.save(file, "PNG")
    if mode in ("P", "1"):
        image = image_module.open(file)
        image = image.convert("RGBA" if "transparency" in image.info else "RGB")
    expected = np.asarray(image).reshape(3, 4, -1)
    stored = from_image(llvm.Texture2f8u, file)
    assert (stored.tensor().numpy() == expected).all() and stored.srgb() == (expected.shape[2] > 2)
    raw = from_image(llvm.Texture2f, file, raw=True, filter_mode=dr.FilterMode.Nearest)
    np.testing.assert_allclose(raw.tensor().numpy(), expected / 255, atol=1e-6)
    place = llvm.Array2f([0.1, 0.6], [0.2, 0.9])
    linear = from_image(llvm.Texture2f, file)
    if expected.shape[2] > 2:
        np.testing.assert_allclose(linear.eval(place).numpy(), stored.eval(place).numpy(), atol=1e-6)
    with pytest.raises(TypeError, match="'cls' must be a texture of two dimensions"):
        from_image(llvm.Texture1f, file)
