"""MIP maps, cube maps, Laplacian pyramids, splines through texels, lookups like PyTorch's, and image files."""

from __future__ import annotations

import io
import itertools
from typing import Any

import numpy as np
import pytest

import drjit as dr
from drjit import WrapMode, llvm
from drjit.llvm.ad import Array2f, Array3f, Float, TensorXf, Texture2f
from drjit.textures import CubeMap, Mipmap, from_image, from_laplacian_pyramid, grid_sample, laplacian_pyramid
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


def test_arguments_of_mip_maps_and_cube_maps_are_named() -> None:
    mipmap, place = Mipmap(TensorXf(np.zeros((4, 4, 1)))), Array2f(0.5)
    for arguments, message in (((place, "x"), "'lod' must be convertible to drjit.llvm.ad.Float"),
                               ((place, place), "'lod' must be convertible"),
                               ((place, 0, "x"), "'active' must be a mask")):
        with pytest.raises(TypeError, match=rf"drjit.textures.Mipmap.eval\(\): {message}"):
            mipmap.eval(*arguments)
    with pytest.raises(TypeError, match=r"Mipmap.eval_grad\(\): 'ddy' must be convertible"):
        mipmap.eval_grad(place, place, "x")
    with pytest.raises(TypeError, match=r"CubeMap.eval\(\): 'active' must be a mask"):
        CubeMap(TensorXf(np.zeros((6, 2, 2, 1)))).eval(Array3f(1), "x")


def test_positions_whose_derivatives_would_be_lost_are_refused() -> None:
    mipmap, cube = Mipmap(llvm.TensorXf(np.zeros((4, 4, 1)))), CubeMap(llvm.TensorXf(np.zeros((6, 2, 2, 1))))
    place, direction, level = Array2f(0.5), Array3f(1), Float(1)
    dr.enable_grad(place, direction, level)
    for look_up in (lambda: mipmap.eval(place), lambda: mipmap.eval(llvm.Array2f(0.5), level),
                    lambda: mipmap.eval_grad(llvm.Array2f(0), llvm.Array2f(0), place), lambda: cube.eval(direction)):
        with pytest.raises(TypeError, match="tracks derivatives"):
            look_up()
    assert type(mipmap.eval(dr.detach(place))) is llvm.Array1f


def test_those_of_other_shapes_are_not_merged() -> None:
    maps = [Mipmap(TensorXf(np.zeros(shape))) for shape in ((2, 8, 1), (8, 2, 1), (2, 8, 1))]
    with pytest.raises(RuntimeError, match="cannot select"):
        dr.select(dr.llvm.ad.Bool(False), maps[0], maps[1])
    with pytest.raises(RuntimeError, match="cannot select"):
        dr.select(dr.llvm.ad.Bool(False), maps[0], Mipmap(TensorXf(np.zeros((2, 8, 1))), WrapMode.Repeat))
    assert repr(dr.select(dr.llvm.ad.Bool(False), maps[0], maps[2])) == repr(maps[0])


def test_mip_maps_and_cube_maps_of_numbers_are_those_of_arrays() -> None:
    image, faces = RNG.random((5, 6, 2)).astype(np.float32), RNG.random((6, 3, 3, 2)).astype(np.float32)
    one, many = Mipmap(dr.scalar.TensorXf(image)), Mipmap(llvm.TensorXf(image))
    for x, y in RNG.random((20, 2)) * 3 - 1:
        for lod in 0.0, 0.7, 9.0:
            np.testing.assert_allclose(list(one.eval([x, y], lod)), many.eval([x, y], lod).numpy()[:, 0], atol=1e-5)
        for most in 1, 5:
            areas = [x / 3, 0.1], [0.02, y / 3]
            np.testing.assert_allclose(list(one.eval_grad([x, y], *areas, most)),
                                       many.eval_grad([x, y], *areas, most).numpy()[:, 0], atol=1e-4)
        assert list(one.eval([x, y], active=False)) == [0, 0]
        np.testing.assert_allclose(list(CubeMap(dr.scalar.TensorXf(faces)).eval([x, y, 0.3])),
                                   CubeMap(llvm.TensorXf(faces)).eval([x, y, 0.3]).numpy()[:, 0], atol=1e-5)
    assert list(one.eval_grad([0.3, 0.6], [0, 0], [0, 0], 4)) == pytest.approx(list(one.eval([0.3, 0.6])))


def test_double_precision_of_positions_is_kept() -> None:
    image = RNG.random((5, 6, 2))
    mipmap, place = Mipmap(dr.llvm.ad.TensorXf64(image)), dr.llvm.ad.Array2f64([0.3, 0.6], [0.1, 0.95])
    found, expected = mipmap.eval(place), dr.llvm.ad.Texture2f64(image).eval(place)
    assert type(found) is type(expected)
    # rounded in another order, units in the last place
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-14)


@pytest.mark.parametrize("kind", [llvm.Float, Float])
def test_levels_that_are_no_numbers_are_none_beyond_the_last(kind: Any) -> None:
    mipmap = Mipmap(TensorXf(RNG.random((5, 6, 2))))
    for level in (float("nan"), float("inf"), -float("inf"), 2.0**31):
        one = mipmap.eval(Array2f(0.3, 0.6), level).numpy()[:, 0]
        many = mipmap.eval(Array2f(0.3, 0.6), kind(level, 1)).numpy()[:, 0]
        np.testing.assert_allclose(one, many, rtol=1e-6)
        assert np.isnan(one).all() == np.isnan(level)
    nothing = mipmap.eval_grad(Array2f(0.3, 0.6), Array2f(float("nan"), 0), Array2f(0, 1), 4).numpy()
    assert nothing.shape == (2, 1)


# --- cube maps -------------------------------------------------------------------------------------------------------


def test_faces_are_where_they_belong() -> None:
    """Each texel is found in its direction: the tables of Direct3D and OpenGL."""
    size = 4
    faces = RNG.random((6, size, size, 2)).astype(np.float32)
    cube = CubeMap(TensorXf(faces))
    for face, row, column in itertools.product(range(6), range(size), range(size)):
        s, t = (2 * (column + 0.5) / size - 1, 2 * (row + 0.5) / size - 1)
        direction = [(1, -t, -s), (-1, -t, s), (s, 1, t), (s, -1, -t), (s, -t, 1), (-s, -t, -1)][face]
        found = cube.eval(Array3f(*direction) * 3).numpy()[:, 0]
        np.testing.assert_allclose(found, faces[face, row, column], atol=2e-6)
    assert (cube.eval(Array3f(1, 2, 3), active=False).numpy() == 0).all()


@pytest.mark.parametrize("size", [1, 2, 5])
def test_there_are_no_seams(size: int) -> None:
    cube = CubeMap(TensorXf(RNG.random((6, size, size, 1))))
    directions = RNG.random((3, 2000)) * 2 - 1
    first, second = directions.copy(), directions.copy()
    first[0], second[0] = abs(directions[1]) * 1.00001, abs(directions[1]) * 0.99999  # to both sides of an edge
    first[2], second[2] = first[2] * 0.9, second[2] * 0.9
    found = [cube.eval(Array3f(each.astype(np.float32))).x.numpy() for each in (first, second)]
    edge = abs(directions[1]) > abs(first[2]) + 0.05
    assert edge.any() and abs(found[0] - found[1])[edge].max() < 1e-3


def test_gradients_of_cube_maps_are_those_of_their_texture() -> None:
    cube = CubeMap(TensorXf(RNG.random((6, 3, 3, 1))))
    assert repr(cube) == "CubeMap(shape=(6, 3, 3, 1))"
    dr.enable_grad(cube)
    direction = Array3f((RNG.random((3, 500)) - 0.5).astype(np.float32))
    dr.backward(dr.sum(cube.eval(direction).x))
    (gradient,) = dr.grad(cube).__drjit_children__().values()
    assert abs(gradient.value().numpy().sum() - 500) < 0.01


def test_cube_maps_are_differentiable() -> None:
    faces = TensorXf(RNG.random((6, 3, 3, 1)))
    dr.enable_grad(faces)
    direction = Array3f((RNG.random((3, 500)) - 0.5).astype(np.float32))
    dr.backward(dr.sum(CubeMap(faces).eval(direction).x))
    assert abs(dr.grad(faces).numpy().sum() - 500) < 0.01
    with pytest.raises(RuntimeError, match="'faces' must have the shape"):
        CubeMap(TensorXf(np.zeros((6, 2, 3, 1))))
    with pytest.raises(TypeError, match="'faces' must be a tensor"):
        CubeMap(Float(1))
    with pytest.raises(TypeError, match="'direction' must be convertible"):
        CubeMap(faces).eval(Array2f(1))


# --- sampling as PyTorch does ----------------------------------------------------------------------------------------


def sampled(image: Any, grid: Any, mode: str, padding: str, align: bool) -> Any:
    """What PyTorch documents, element by element."""
    result = np.zeros((image.shape[0], image.shape[1], *grid.shape[1:-1]))
    sizes = image.shape[2:]

    def pad(x: float, size: int) -> float:
        if padding == "reflection":
            low, high = (0, size - 1) if align else (-0.5, size - 0.5)
            if low == high:
                return 0
            while not low <= x <= high:
                x = 2 * low - x if x < low else 2 * high - x
        return x if padding == "zeros" else min(max(x, 0), size - 1)

    def cubic(x: float, a: float = -0.75) -> float:
        x = abs(x)
        return (a + 2) * x**3 - (a + 3) * x**2 + 1 if x <= 1 else a * (x**3 - 5 * x**2 + 8 * x - 4) if x < 2 else 0

    for place in np.ndindex(grid.shape[:-1]):
        axes = []
        for x, size in zip(grid[place][::-1], sizes, strict=True):
            x = (x + 1) / 2 * (size - 1) if align else ((x + 1) * size - 1) / 2
            if mode == "bicubic":
                first = int(np.floor(x))
                axes.append([(round(pad(k, size)), cubic(x - k)) for k in range(first - 1, first + 3)])
                continue
            x = pad(x, size)
            axes.append([(round(x), 1)] if mode == "nearest" else [
                (int(np.floor(x)) + k, abs(1 - k - (x - np.floor(x)))) for k in (0, 1)])
        for taps in itertools.product(*axes):
            if all(0 <= k < size for (k, _), size in zip(taps, sizes, strict=True)):
                weight = np.prod([w for _, w in taps])
                result[place[0], :, *place[1:]] += weight * image[place[0], :, *[k for k, _ in taps]]
    return result


@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize(("mode", "shape"), [
    ("bilinear", (2, 3, 4, 5)), ("nearest", (2, 3, 4, 5)), ("bicubic", (2, 3, 4, 5)), ("bilinear", (1, 1, 1, 6)),
    ("bilinear", (2, 2, 3, 4, 5)), ("nearest", (1, 2, 3, 4, 5))])
def test_grids_are_sampled_as_by_pytorch(mode: str, shape: tuple[int, ...], padding: str, align: bool) -> None:
    count = len(shape) - 2
    image, grid = RNG.random(shape), RNG.random((shape[0], *(3, 5, 2)[:count], count)) * 3 - 1.5
    found = grid_sample(dr.llvm.ad.TensorXf64(image), dr.llvm.ad.TensorXf64(grid), mode, padding, align)
    expected = sampled(image, grid, mode, padding, align)
    assert found.shape == expected.shape
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-12)


def test_grids_are_sampled_as_by_pytorch_itself() -> None:
    torch = pytest.importorskip("torch")
    for mode, padding, align in itertools.product(("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection"),
                                                  (False, True)):
        image, grid = (RNG.random(shape) * 3 - 1.5 for shape in ((2, 3, 6, 5), (2, 7, 8, 2)))
        values, places = dr.llvm.ad.TensorXf64(image), dr.llvm.ad.TensorXf64(grid)
        theirs = [torch.tensor(each, requires_grad=True) for each in (image, grid)]
        dr.enable_grad(values, places)
        found = grid_sample(values, places, mode, padding, align)
        expected = torch.nn.functional.grid_sample(*theirs, mode=mode, padding_mode=padding, align_corners=align)
        np.testing.assert_allclose(found.numpy(), expected.detach().numpy(), atol=1e-10)
        dr.backward(dr.sum(found.array * found.array))
        (expected * expected).sum().backward()
        for one, other in zip((values, places), theirs, strict=True):
            np.testing.assert_allclose(dr.grad(one).numpy(), other.grad.numpy(), atol=1e-8)


@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("padding", ["border", "reflection"])
def test_edges_of_grids_have_the_slope_of_what_is_beyond(padding: str, align: bool) -> None:
    """As by PyTorch, which also takes NaN for the first texel."""
    edge = 1 if align else 1 - 1 / 4
    positions = [-edge, edge, -1, 1, float("nan")]
    grid = TensorXf(np.array([[[[x, 0] for x in positions]]]))
    dr.enable_grad(grid)
    found = grid_sample(TensorXf(np.arange(4).reshape(1, 1, 1, 4)), grid, "bilinear", padding, align)
    assert found.numpy().ravel().tolist() == [0, 3, 0, 3, 0]
    dr.backward(found)
    assert dr.grad(grid).numpy()[0, 0, :4, 0].tolist() == [0, 0, 0, 0]


def test_what_cannot_be_sampled_is_refused() -> None:
    image, grid = TensorXf(np.zeros((1, 1, 2, 2))), TensorXf(np.zeros((1, 3, 3, 2)))
    for arguments, error, message in (
            ((Float(1), grid), TypeError, "'input' must be a tensor"),
            ((image, None), TypeError, "'grid' must be a tensor"),
            ((image, dr.llvm.ad.TensorXf64(grid)), TypeError, "'grid' must have the type"),
            ((TensorXf(np.zeros((2, 2))), grid), RuntimeError, "'input' must have images"),
            ((image, TensorXf(np.zeros((2, 3, 3, 2)))), RuntimeError, "'grid' must have 1 images, 2 axes"),
            ((image, grid, "cubic"), RuntimeError, "'mode' must be"),
            ((image, grid, "bilinear", "wrap"), RuntimeError, "'padding_mode' must be"),
            ((image, grid, "bilinear", "zeros", "no"), TypeError, "'align_corners' must be a bool")):
        with pytest.raises(error, match=message):
            grid_sample(*arguments)  # type: ignore[arg-type]


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


def test_image_files_of_more_than_8_bits() -> None:
    image_module = pytest.importorskip("PIL.Image")
    codes = RNG.integers(0, 65536, (3, 4)).astype(np.uint16)
    for values, form, scale in ((codes, "PNG", 65535), ((codes / 3e4).astype(np.float32), "TIFF", 1)):
        file = io.BytesIO()
        image_module.fromarray(values).save(file, form)
        found = from_image(llvm.Texture2f, file, raw=True)
        # in single precision
        np.testing.assert_allclose(found.tensor().numpy()[..., 0], values / scale, rtol=1e-6)
        with pytest.raises(RuntimeError, match="'file' has more than 8 bits a channel"):
            from_image(llvm.Texture2f8u, file)
    with pytest.raises(TypeError, match="'raw' must be a bool"):
        from_image(llvm.Texture2f, file, raw="yes")  # type: ignore[arg-type]


# --- textures of another resolution ----------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["f", "f16", "f64", "f8u"])
@pytest.mark.parametrize("package", [llvm, dr.llvm.ad, dr.scalar])
def test_textures_are_upsampled_as_they_are_looked_up(package: Any, form: str) -> None:
    codes = RNG.integers(0, 256, (2, 3, 2))
    data = codes.astype(np.uint8) if form == "f8u" else codes.astype(np.float32)
    for options in ({}, {"wrap_mode": WrapMode.Repeat}, {"filter_mode": dr.FilterMode.Nearest}):
        texture = getattr(package, f"Texture2{form}")(data, **options)
        for arguments, sizes in (({"shape": (3, 7)}, (3, 7)), ({"shape": (5, 4, 2)}, (5, 4)),
                                 ({"scale_factor": (2, 3)}, (4, 9)), ({"scale_factor": (2,)}, (4, 3))):
            found = dr.upsample(texture, **arguments)
            assert type(found) is type(texture) and found.shape == (*sizes, 2)
            assert found.wrap_mode() == texture.wrap_mode() and found.filter_mode() == texture.filter_mode()
            y, x = np.meshgrid(*[(np.arange(size) + 0.5) / size for size in sizes], indexing="ij")
            lookup = model.nearest if "filter_mode" in options else model.linear
            expected = lookup(codes, [x.ravel(), y.ravel()], [texture.wrap_mode()] * 2).reshape(*sizes, 2)
            tolerance = {"f8u": 0.51, "f16": 0.2}.get(form, 1e-3)
            np.testing.assert_allclose(np.array(found.tensor(), np.float64), expected, atol=tolerance)


def test_upsampled_textures_pass_gradients_on() -> None:
    data = TensorXf(np.arange(12).reshape(2, 3, 2))
    dr.enable_grad(data)
    dr.backward(dr.sum(dr.upsample(Texture2f(data), scale_factor=(2, 2)).value()))
    np.testing.assert_allclose(dr.grad(data).numpy(), 4, rtol=1e-5)
    with pytest.raises(RuntimeError, match=r"drjit.upsample\(\): a texture keeps the number of its channels"):
        dr.upsample(Texture2f(data), (4, 4, 3))
    with pytest.raises(RuntimeError, match="at most 3 ints"):
        dr.upsample(Texture2f(data), (4, 4, 2, 1))
    assert dr.upsample(Texture2f([0, 4], 2), (0, 8)).shape == (0, 8, 2)
