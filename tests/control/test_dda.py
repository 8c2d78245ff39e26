"""``drjit.dda``: the cells that rays pass through, and integrals along them, against NumPy in double precision."""

from __future__ import annotations

import math
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest

import drjit as dr
import drjit.llvm as plain
import drjit.llvm.ad as ad
from drjit import scalar
from drjit.dda import dda, integrate

MODES = ["symbolic", "evaluated"]
INF = math.inf


# --- what is expected ------------------------------------------------------------------------------------------------


def segments(o: Any, d: Any, end: float, cells: Any, low: Any, high: Any) -> list[tuple[tuple[int, ...], float, float]]:
    """The cells (X, Y, Z) that a ray passes through, with the distances: between all crossings of planes, sorted."""
    o, d, low, high, cells = (np.asarray(value, np.float64) for value in (o, d, low, high, cells))
    cuts = {0.0, end}
    for axis in range(len(o)):
        if d[axis]:
            planes = low[axis] + np.arange(cells[axis] + 1) * (high[axis] - low[axis]) / cells[axis]
            cuts |= {float(cut) for cut in (planes - o[axis]) / d[axis]}
    found = []
    for first, last in pairwise(sorted(cut for cut in cuts if 0 <= cut <= end)):
        middle = o + d * ((first + last) / 2 if last < INF else first + 1)
        cell = np.floor((middle - low) / (high - low) * cells)
        if last - first > 1e-9 and (cell >= 0).all() and (cell < cells).all():
            found.append((tuple(int(entry) for entry in cell), first, last))
    return found


def interpolated(vol: Any, position: Any) -> float:
    """The value at a position (X, Y, Z), in units of cells."""
    cell = np.clip(np.floor(position).astype(int), 0, np.array(vol.shape[::-1]) - 2)
    total = 0.0
    for corner in product((0, 1), repeat=len(cell)):
        weight = np.prod(np.where(np.array(corner), position - cell, 1 - (position - cell)))
        total += weight * vol[tuple((cell + corner)[::-1])]
    return total


def integral(o: Any, d: Any, end: float, low: Any, high: Any, vol: Any) -> float:
    """By the rule of Gauss and Legendre with three points in each cell."""
    o, d, low, high, vol = (np.asarray(value, np.float64) for value in (o, d, low, high, vol))
    cells = np.array(vol.shape[::-1]) - 1
    nodes, weights = np.polynomial.legendre.leggauss(3)
    total = 0.0
    for _, first, last in segments(o, d, end, cells, low, high):
        for node, weight in zip(nodes, weights, strict=True):
            position = o + d * ((first + last) / 2 + node * (last - first) / 2)
            total += weight * (last - first) / 2 * interpolated(vol, (position - low) / (high - low) * cells)
    return total * float(np.linalg.norm(d))


def random_rays(dimensions: int, count: int, seed: int) -> tuple[Any, Any, Any]:
    """Origins, directions (some parallel to axes), and ends (some infinite)."""
    rng = np.random.default_rng(seed)
    o = rng.uniform(-1, 2, (dimensions, count))
    d = rng.normal(size=(dimensions, count)) * rng.uniform(0.3, 3, count)
    d[rng.random((dimensions, count)) < 0.15] = 0
    end = np.where(rng.random(count) < 0.5, INF, rng.uniform(0, 2, count))
    return (*(value.astype(np.float32) for value in (o, d, end)),)


# --- the traversal ---------------------------------------------------------------------------------------------------


def visited(o: Any, d: Any, end: float, cells: Any, low: Any = 0, high: Any = 1, **arguments: Any) -> list[Any]:
    """The cells of one ray in the order of the traversal, with the positions in them, as the scalar backend has them.
    """
    dimensions = len(o)
    vector, integers = getattr(scalar, f"Array{dimensions}f"), getattr(scalar, f"Array{dimensions}u")

    def note(state: list[Any], index: Any, pt_in: Any, pt_out: Any, active: bool) -> tuple[list[Any], bool]:
        assert type(index) is integers and type(pt_in) is type(pt_out) is vector and active is True
        return [*state, (tuple(index), tuple(pt_in), tuple(pt_out))], True

    found: list[Any] = dda(vector(o), vector(d), end, integers(cells), vector(low), vector(high), note, [],
                           **{"active": True, **arguments})
    return found


@pytest.mark.parametrize("dimensions", [2, 3, 4])
def test_the_cells_are_those_between_crossings_of_planes(dimensions: int) -> None:
    cells = [3, 5, 2, 4][:dimensions]
    o, d, end = random_rays(dimensions, 60, dimensions)
    for k in range(60):
        expected = segments(o[:, k], d[:, k], float(end[k]), cells, [0] * dimensions, [1] * dimensions)
        found = visited(o[:, k].tolist(), d[:, k].tolist(), float(end[k]), cells[::-1])
        assert [index[::-1] for index, _, _ in found] == [cell for cell, _, _ in expected]
        for (_, pt_in, pt_out), (cell, first, last) in zip(found, expected, strict=True):
            for position, distance in ((pt_in, first), (pt_out, last)):
                np.testing.assert_allclose(position, (o[:, k] + d[:, k] * distance) * cells - cell, atol=2e-5)


EDGES = [
    ("along an axis", (-1, 0.3, 0.6), (1, 0, 0), INF, [(1, 0, 0), (1, 0, 1), (1, 0, 2), (1, 0, 3)]),
    ("backwards", (2, 0.3, 0.6), (-1, 0, 0), INF, [(1, 0, 3), (1, 0, 2), (1, 0, 1), (1, 0, 0)]),
    ("away from the grid", (2, 0.3, 0.6), (1, 0, 0), INF, []),
    ("from inside", (0.6, 0.3, 0.6), (1, 0, 0), INF, [(1, 0, 2), (1, 0, 3)]),
    ("a direction of zero", (0.6, 0.3, 0.6), (0, 0, 0), INF, []),
    ("a length of zero", (0.6, 0.3, 0.6), (1, 1, 1), 0, []),
    ("a negative length", (0.6, 0.3, 0.6), (1, 1, 1), -1, []),
    ("an end inside", (0.1, 0.3, 0.6), (2, 0, 0), 0.25, [(1, 0, 0), (1, 0, 1), (1, 0, 2)]),
    ("an end at the grid", (-1, 0.3, 0.6), (1, 0, 0), 1, []),
    ("on the first face", (-1, 0, 0.6), (1, 0, 0), INF, [(1, 0, 0), (1, 0, 1), (1, 0, 2), (1, 0, 3)]),
    ("on the last face", (-1, 1, 0.6), (1, -0.0, 0), INF, [(1, 1, 0), (1, 1, 1), (1, 1, 2), (1, 1, 3)]),
    ("between two cells", (-1, 0.5, 0.6), (1, 0, 0), INF, [(1, 1, 0), (1, 1, 1), (1, 1, 2), (1, 1, 3)]),
    ("beside the grid", (-1, 1.5, 0.6), (1, 0, 0), INF, []),
    ("touching a corner", (-1, 1, 0), (1, 1, 1), INF, []),
    ("from a face outwards", (1, 0.3, 0.6), (1, 0, 0), INF, []),
    ("from a face inwards", (1, 0.3, 0.6), (-1, 0, 0), 0.25, [(1, 0, 3)]),
    ("not a number", (math.nan, 0.3, 0.6), (1, 0, 0), INF, []),
    ("a direction that is none", (0.5, 0.3, 0.6), (1, math.nan, 0), INF, []),
    ("an end that is none", (0.5, 0.3, 0.6), (1, 0, 0), math.nan, []),
    ("an infinite direction", (0.5, 0.3, 0.6), (INF, 0, 0), INF, []),
    ("a tiny direction", (0.5, 0.3, 0.6), (1e-40, 0, 0), 1, [(1, 0, 2)]),
]


@pytest.mark.parametrize(("o", "d", "end", "expected"), [entry[1:] for entry in EDGES],
                         ids=[entry[0] for entry in EDGES])
def test_edges(o: Any, d: Any, end: float, expected: Any) -> None:
    found = [index for index, pt_in, pt_out in visited(o, d, end, (2, 2, 4)) if pt_in != pt_out]
    assert found == expected


def test_corners_are_crossed_at_once() -> None:
    for sign in (1, -1):
        found = visited((0.5 - 1.5 * sign,) * 3, (sign,) * 3, INF, (2, 2, 2))
        ends = ((0, 0, 0), (1, 1, 1))[::sign]
        assert found == [(index, *ends) for index in ends]


@pytest.mark.parametrize(("high", "cells"), [((1, 0, 1), (2, 2, 2)), ((1, 1, 1), (2, 0, 2))])
def test_grids_without_a_volume_have_no_cells(high: Any, cells: Any) -> None:
    assert visited((-1, 0, 0.5), (1, 0, 0), INF, cells, 0, high) == []


def test_masks_and_single_cells() -> None:
    assert visited((-1, -1), (1, 1), INF, (1, 1)) == [((0, 0), (0, 0), (1, 1))]
    assert visited((-1, -1), (1, 1), INF, (1, 1), active=False) == []


@pytest.mark.parametrize("mode", [*MODES, None])
@pytest.mark.parametrize("integers", [plain.Array3u, plain.Array3i])
def test_many_rays_at_once(mode: Any, integers: Any) -> None:
    cells = [3, 5, 2]
    o, d, end = random_rays(3, 40, 7)
    wanted = np.arange(40) % 5 != 0
    counts, stopped = plain.UInt32(0), plain.UInt32(0)
    histogram = dr.zeros(plain.UInt32, 30)

    def count(state: Any, index: Any, pt_in: Any, pt_out: Any, active: Any) -> Any:
        assert type(index) is integers and type(active) is plain.Bool
        dr.scatter_add(histogram, 1, plain.UInt32((index[0] * 5 + index[1]) * 3 + index[2]), active)
        return state + 1, True

    counts = dda(plain.Array3f(o), plain.Array3f(d), plain.Float(end), integers(cells[::-1]), plain.Array3f(0),
                 plain.Array3f(1), count, counts, plain.Bool(wanted), mode)
    stopped = dda(plain.Array3f(o), plain.Array3f(d), plain.Float(end), integers(cells[::-1]), plain.Array3f(0),
                  plain.Array3f(1), lambda state, *_: (state + 1, state < 1), stopped, True, mode)
    expected = [segments(o[:, k], d[:, k], float(end[k]), cells, [0] * 3, [1] * 3) for k in range(40)]
    assert counts.numpy().tolist() == [len(found) * bool(use) for found, use in zip(expected, wanted, strict=True)]
    assert stopped.numpy().tolist() == [min(len(found), 2) for found in expected]
    bins = np.zeros(30, int)
    for k, found in enumerate(expected):
        for cell, _, _ in found:
            bins[(cell[2] * 5 + cell[1]) * 3 + cell[0]] += bool(wanted[k])
    assert histogram.numpy().tolist() == bins.tolist()


def test_no_rays() -> None:
    nothing = plain.Array3f([], [], [])
    assert dda(nothing, nothing, INF, plain.Array3u(2), nothing, nothing, lambda *_: 1 / 0, "state", True) == "state"


# --- integrals -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("shape", [(4, 5), (3, 4, 5), (2, 2), (2, 2, 2), (2, 9, 3)])
@pytest.mark.parametrize("dtype", ["f", "f64"])
def test_integrals(mode: Any, shape: tuple[int, ...], dtype: str) -> None:
    n = len(shape)
    vector, real, tensor = (getattr(plain, name) for name in (
        f"Array{n}{dtype}", "Float" if dtype == "f" else "Float64", "TensorXf" if dtype == "f" else "TensorXf64"))
    low, high = [-0.2, 0.1, 0][:n], [1.1, 1, 2][:n]
    o, d, end = random_rays(n, 100, sum(shape))
    vol = np.random.default_rng(1).random(shape)
    result = integrate(vector(o), vector(d), real(end), vector(low), vector(high), tensor(vol), mode=mode)
    expected = [integral(o[:, k], d[:, k], float(end[k]), low, high, vol) for k in range(100)]
    assert sum(value > 0 for value in expected) > 10
    assert type(result) is real
    np.testing.assert_allclose(result.numpy(), expected, rtol=1e-4 if dtype == "f" else 1e-9,
                               atol=1e-5 if dtype == "f" else 1e-9)


def test_integrals_of_scalars_and_single_rays() -> None:
    vol = np.random.default_rng(1).random((3, 4, 5)).astype(np.float32)
    o, d = (-0.1, 0.2, 0.3), (1, 0.2, -0.1)
    expected = integral(o, d, 0.8, (0, 0, 0), (1, 1, 1), vol)
    result = integrate(scalar.Array3f(o), scalar.Array3f(d), 0.8, scalar.Array3f(0), scalar.Array3f(1),
                       scalar.TensorXf(vol))
    assert type(result) is float and abs(result - expected) < 1e-6
    for mode in ("scalar", *MODES):
        single = integrate(plain.Array3f(o), plain.Array3f(d), 0.8, 0, 1, plain.TensorXf(vol), mode=mode)
        assert type(single) is plain.Float and abs(single[0] - expected) < 1e-6
    assert len(integrate(plain.Array3f([], [], []), plain.Array3f(d), 0.8, 0, 1, plain.TensorXf(vol))) == 0


def test_integrals_of_active_rays() -> None:
    vol = dr.ones(plain.TensorXf, (3, 3))
    result = integrate(plain.Array2f(-1, 0.5), plain.Array2f(3, 0), plain.Float(INF, 0.5, 0.1), 0, 1, vol,
                       active=plain.Bool(False, True, True))
    assert dr.allclose(result, [0, 0.5, 0])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("shape", [(4, 5), (3, 4, 5)])
def test_derivatives_by_values(mode: Any, shape: tuple[int, ...]) -> None:
    """The integral is linear: forward mode is the integral of the change, reverse mode its transpose."""
    n = len(shape)
    rng = np.random.default_rng(2)
    vector = getattr(ad, f"Array{n}f")
    o, d, end = random_rays(n, 50, 3)
    ray = (vector(o), vector(d), ad.Float(end), vector(0), vector(1))
    vol = ad.TensorXf(rng.random(shape))
    change, weights = ad.TensorXf(rng.random(shape)), ad.Float(rng.random(50))
    dr.enable_grad(vol)
    result = integrate(*ray, vol, mode=mode)
    dr.set_grad(vol, change)
    moved = dr.forward_to(result)
    expected = integrate(*ray, change)
    np.testing.assert_allclose(moved.numpy(), expected.numpy(), rtol=1e-5)
    dr.clear_grad(vol)
    result = integrate(*ray, vol, mode=mode)
    dr.backward(result * weights)
    single = np.zeros(shape)
    for place in np.ndindex(*shape):
        basis = np.zeros(shape)
        basis[place] = 1
        single[place] = float(dr.sum(integrate(*ray, ad.TensorXf(basis)) * weights)[0])
    np.testing.assert_allclose(vol.grad.numpy(), single, rtol=1e-4, atol=1e-5)


def test_a_minimisation_runs_the_same_kernels_again() -> None:
    vol = ad.TensorXf(np.zeros((3, 3)))
    ray = (ad.Array2f(-1, dr.linspace(ad.Float, 0, 1, 9)), ad.Array2f(1, 0.3), INF, 0, 1)
    losses = []
    for _ in range(4):
        dr.enable_grad(vol)
        loss = dr.mean(dr.square(integrate(*ray, vol) - 1))
        dr.backward(loss)
        losses.append(loss[0])
        vol = dr.detach(vol) - vol.grad
    assert losses == sorted(losses, reverse=True) and losses[-1] < losses[0]


@pytest.mark.parametrize("mode", MODES)
def test_derivatives_by_ends(mode: Any) -> None:
    rng = np.random.default_rng(2)
    vol = rng.random((3, 4, 5))
    o, d, _ = random_rays(3, 30, 5)
    o, end = rng.uniform(0, 1, (3, 30)), rng.uniform(0, 0.5, 30)
    ends = ad.Float64(end)
    dr.enable_grad(ends)
    arguments = ad.Array3f64(o), ad.Array3f64(d), ends, ad.Array3f64(0), ad.Array3f64(1), ad.TensorXf64(vol)
    result = integrate(*arguments, mode=mode)
    dr.set_grad(ends, 2)
    forward = dr.forward_to(result).numpy()
    dr.clear_grad(ends)
    dr.backward(integrate(*arguments, mode=mode) * 2)
    step = 1e-5
    expected = [(integral(o[:, k], d[:, k], end[k] + step, [0] * 3, [1] * 3, vol)
                 - integral(o[:, k], d[:, k], end[k] - step, [0] * 3, [1] * 3, vol)) / step for k in range(30)]
    assert sum(value > 0 for value in expected) > 5
    np.testing.assert_allclose(forward, expected, atol=1e-4)
    np.testing.assert_allclose(ends.grad.numpy(), expected, atol=1e-4)


def test_plain_rays_through_a_volume_that_tracks_derivatives() -> None:
    vol = ad.TensorXf(np.ones((2, 2)))
    dr.enable_grad(vol)
    result = integrate(plain.Array2f(-1, 0.5), plain.Array2f(1, 0), INF, plain.Array2f(0), plain.Array2f(1), vol)
    assert type(result) is ad.Float
    dr.backward(result)
    assert dr.allclose(vol.grad, 0.25)


# --- errors ----------------------------------------------------------------------------------------------------------


GOOD: dict[str, Any] = {
    "ray_o": plain.Array3f(-1, 0.5, 0.5), "ray_d": plain.Array3f(1, 0, 0), "ray_max": plain.Float(INF),
    "grid_min": plain.Array3f(0), "grid_max": plain.Array3f(1)}


@pytest.mark.parametrize(("change", "message"), [
    ({"ray_o": plain.Float(1)}, "'ray_o' must be a vector of floating-point numbers such as drjit.llvm.Array3f, "
                                "found drjit.llvm.Float"),
    ({"ray_o": plain.Array3i(1)}, "'ray_o' must be a vector"),
    ({"ray_o": plain.Array4f(1)}, "'ray_d' must be of the type of 'ray_o'"),
    ({"ray_d": plain.Array2f(1)}, r"'ray_d' must be of the type of 'ray_o' \(drjit.llvm.Array3f\), found "
                                  "drjit.llvm.Array2f"),
    ({"grid_min": plain.Array3f64(1)}, "'grid_min' must be of the type"),
    ({"ray_max": plain.Float64(1)}, "'ray_max' must be of type drjit.llvm.Float, found drjit.llvm.Float64"),
    ({"ray_max": "far"}, "'ray_max' must be of type drjit.llvm.Float, found str"),
    ({"active": 1}, "'active' must be of type drjit.llvm.Bool, found int"),
    ({"mode": "fast"}, "'mode' must be 'scalar', 'symbolic', 'evaluated' or None, found 'fast'"),
])
def test_errors_of_both(change: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=rf"drjit.dda.integrate\(\): {message}"):
        integrate(**{**GOOD, "vol": dr.ones(plain.TensorXf, (2, 2, 2)), **change})
    with pytest.raises(TypeError, match=rf"drjit.dda.dda\(\): {message}"):
        dda(**{**GOOD, "grid_res": plain.Array3u(2), "func": lambda state, *_: (state, True), "state": (),
               "active": True, **change})


@pytest.mark.parametrize(("vol", "message"), [
    (dr.ones(plain.TensorXf, (2, 2)), r"'vol' must have 3 dimensions of at least 2 values, found the shape \(2, 2\)"),
    (dr.ones(plain.TensorXf, (2, 1, 2)), r"found the shape \(2, 1, 2\)"),
    (dr.zeros(plain.TensorXf, (2, 0, 2)), r"found the shape \(2, 0, 2\)"),
    (dr.ones(plain.TensorXf64, (2, 2, 2)), r"'vol' must be a tensor that goes with 'ray_o' \(drjit.llvm.TensorXf\), "
                                           "found drjit.llvm.TensorXf64"),
    (dr.ones(plain.Float, 8), "found drjit.llvm.Float"), (None, "found NoneType")])
def test_errors_of_volumes(vol: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        integrate(**GOOD, vol=vol)


def test_errors_of_other_arguments() -> None:
    with pytest.raises(TypeError, match="'ray_o' must have 2 or 3 components, found 4"):
        integrate(plain.Array4f(0), plain.Array4f(1), INF, 0, 1, dr.ones(plain.TensorXf, (2, 2, 2, 2)))
    tracked = ad.Array2f(0, 1)
    dr.enable_grad(tracked)
    with pytest.raises(NotImplementedError, match="'ray_o' tracks derivatives"):
        integrate(tracked, ad.Array2f(1), INF, 0, 1, dr.ones(ad.TensorXf, (2, 2)))
    more = {"grid_res": plain.Array3u(2), "func": lambda state, *_: (state, True), "state": (), "active": True}
    for grid in (plain.Array2u(2), plain.Array3f(2), scalar.Array3u(2), 2):
        with pytest.raises(TypeError, match="'grid_res' must be a vector of 3 32-bit integers"):
            dda(**{**GOOD, **more, "grid_res": grid})
    with pytest.raises(TypeError, match="'func' must be callable, found int"):
        dda(**{**GOOD, **more, "func": 3})
    with pytest.raises(TypeError, match="'func' must return a tuple of the state and a mask, found tuple of 3"):
        dda(**{**GOOD, **more, "func": lambda *_: (1, 2, 3)})
    with pytest.raises(TypeError, match="'func' must return a tuple of the state and a mask, found int"):
        dda(**{**GOOD, **more, "func": lambda *_: 1})
