"""`drjit.array_api.special`: values of SciPy, and derivatives."""

from __future__ import annotations

import numpy as np
import pytest

import drjit as dr
import drjit.array_api as xp
from drjit.array_api import special

ss = pytest.importorskip("scipy.special")

POINTS = np.concatenate([np.linspace(-6, 6, 49), [-37.5, -21.3, -0.0, 1e-12, -1e-9, 12.5, 29.9, 30.1, 650, np.inf,
                                                  -np.inf, np.nan]])
SHARES = np.concatenate([np.linspace(0, 1, 41), [1e-300, 1e-20, 1e-5, 0.4999999, 1 - 1e-9, -0.1, 1.1, np.nan]])
#: Ulps of the result (for numbers of single precision as well) by which functions may be away from SciPy's; that is far
#: from zeros, where the arguments' own rounding counts.
WITHIN = {"digamma": 60, "psi": 60, "gammaln": 120, "log_ndtr": 300, "ndtr": 300}
TWO = {"xlogy", "xlog1py", "rel_entr", "kl_div"}


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", special.__all__)
def test_values(name: str, dtype: str) -> None:
    points = (SHARES if name in ("ndtri", "logit", "erfinv") else POINTS).astype(dtype)
    arguments = [points]
    if name in TWO:
        size = np.abs(points[np.isfinite(points)])
        arguments = [np.repeat(size, size.size), np.tile(size, size.size)]
    if name == "gammaln":
        arguments = [points[points != -np.inf]]  # where SciPy's is wrong: |gamma| has no limit
    found = getattr(special, name)(*map(xp.asarray, arguments))
    assert found.dtype == getattr(xp, dtype)
    with np.errstate(all="ignore"):
        expected = getattr(ss, name)(*arguments)
    tiny = np.finfo(dtype).tiny
    away = np.asarray(found)
    special_ones = ~np.isfinite(expected) | (np.abs(expected) < tiny)
    np.testing.assert_allclose(away[special_ones], expected[special_ones], rtol=0, atol=tiny)
    error, eps = np.abs(away[~special_ones] - expected[~special_ones]), np.finfo(dtype).eps
    scale = np.abs(expected)[~special_ones] * WITHIN.get(name, 12) + 1 / 8
    if name in ("rel_entr", "kl_div", "gammaln"):  # which are differences of terms as large as the arguments
        scale = scale + 8 * sum(np.abs(argument) for argument in arguments)[~special_ones]
    assert (error <= scale * eps).all(), (error / scale / eps).max()


@pytest.mark.parametrize("name", special.__all__)
def test_gradients(name: str) -> None:
    function = getattr(special, name)
    points = np.array([0.07, 0.3, 0.55, 0.93] if name in ("ndtri", "logit", "erfinv", *TWO) else
                      [-7.3, -1.2, 0.4, 1.9, 9.7])
    if name == "entr":
        points = np.abs(points)
    arguments = [points, points[::-1].copy()] if name in TWO else [points]
    for position in range(len(arguments)):
        arrays = [xp.asarray(argument) for argument in arguments]
        dr.enable_grad(arrays[position])
        dr.backward(xp.sum(function(*arrays)))
        ends = [function(*[xp.asarray(argument + step * (k == position)) for k, argument in enumerate(arguments)])
                for step in (1e-6, -1e-6)]
        slope = (np.asarray(ends[0]) - np.asarray(ends[1])) / 2e-6
        np.testing.assert_allclose(np.asarray(dr.grad(arrays[position])), slope, rtol=1e-5, atol=1e-8)


def test_other_types() -> None:
    assert special.erf(xp.asarray(1)).dtype == xp.float64
    half = special.i0(xp.asarray([1.0], dtype=xp.float16))
    assert half.dtype == xp.float16 and float(half[0]) == pytest.approx(1.266, abs=1e-3)
    with pytest.raises(TypeError, match=r"special\.erf\(\)"):
        special.erf(xp.asarray(1j))
    assert special.xlogy(xp.zeros(0), 2.0).shape == (0,)
    assert special.expit(xp.zeros((2, 0))).shape == (2, 0)
