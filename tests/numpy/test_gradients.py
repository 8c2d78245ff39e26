"""Derivatives of the functions of ``drjit.numpy``, against finite differences of NumPy's, in one random direction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pytest

import drjit as dr
import drjit.numpy as dnp

#: Functions of one vector.
PLAIN = """
    sin cos tan arcsin arccos arctan sinh cosh tanh arcsinh arctanh exp expm1 log log2 log10 log1p sqrt cbrt exp2 square
    deg2rad rad2deg sinc i0 reciprocal abs fabs negative sum prod mean std var max min ptp median cumsum cumprod diff
    gradient trapezoid unwrap sort nansum nanmean nanmax nanmedian nanstd average ediff1d diag flip vander
"""
#: Functions of a vector x of six numbers between 0.2 and 0.9, by a name.
FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{name: lambda np, x, name=name: getattr(np, name)(x) for name in PLAIN.split()},
    "arccosh": lambda np, x: np.arccosh(x + 1), "power": lambda np, x: np.power(x, x[::-1]),
    "arctan2": lambda np, x: np.arctan2(x, x[::-1]), "hypot": lambda np, x: np.hypot(x, 0.5),
    "logaddexp": lambda np, x: np.logaddexp(x, x[::-1]), "logaddexp2": lambda np, x: np.logaddexp2(x, 0.3),
    "maximum": lambda np, x: np.maximum(x, 0.5), "fmin": lambda np, x: np.fmin(x, x[::-1]),
    "clip": lambda np, x: np.clip(x, 0.3, 0.7), "where": lambda np, x: np.where(x > 0.5, x * x, x),
    "ldexp": lambda np, x: np.ldexp(x, 3), "frexp": lambda np, x: np.frexp(x)[0],
    "modf": lambda np, x: np.modf(3 * x)[0],
    "remainder": lambda np, x: np.remainder(3 * x, 0.8), "fmod": lambda np, x: np.fmod(-3 * x, 0.8),
    "maximum.accumulate": lambda np, x: np.maximum.accumulate(x),
    "multiply.reduce": lambda np, x: np.multiply.reduce(x),
    "hypot.reduce": lambda np, x: np.hypot.reduce(x), "subtract.outer": lambda np, x: np.subtract.outer(x, x * x),
    "linspace": lambda np, x: np.linspace(x[0], x[1] * 3, 5), "meshgrid": lambda np, x: np.meshgrid(x, x)[0] * x,
    "geomspace": lambda np, x: np.geomspace(x[0], x[1] + 1, 4), "pad": lambda np, x: np.pad(x, 2, "reflect"),
    "pad linear_ramp": lambda np, x: np.pad(x, 2, "linear_ramp"), "pad mean": lambda np, x: np.pad(x, 2, "mean"),
    "roll": lambda np, x: np.roll(x.reshape(2, 3), (1, 2), (0, 1)), "rot90": lambda np, x: np.rot90(x.reshape(2, 3)),
    "concatenate": lambda np, x: np.concatenate([x, x * 2]), "stack": lambda np, x: np.stack([x, x * x], 1),
    "insert": lambda np, x: np.insert(x, 2, 0.5), "delete": lambda np, x: np.delete(x, [1, 3]),
    "split": lambda np, x: np.split(x, 3)[1] * x[:2], "tile": lambda np, x: np.tile(x,
    2), "repeat": lambda np, x: np.repeat(x, 2),
    "block": lambda np, x: np.block([[x.reshape(2, 3)], [x.reshape(2, 3) ** 2]]), "take": lambda np, x: np.take(x, [0,
    0, 5]),
    "quantile": lambda np, x: np.quantile(x, [0.1, 0.5, 0.77]), "percentile": lambda np, x: np.percentile(x.reshape(2,
    3), 30, axis=1),
    "quantile hazen": lambda np, x: np.quantile(x,
    0.4, method="hazen"), "average w": lambda np, x: np.average(x, weights=x * x),
    "cov": lambda np, x: np.cov(x.reshape(2, 3)), "corrcoef": lambda np, x: np.corrcoef(x.reshape(2,
    3)[:, :2] ** 2 * [1, 2] + x[:2])[0, 0] + x,
    "convolve": lambda np, x: np.convolve(x, x[:3], "same"), "correlate": lambda np, x: np.correlate(x, x[2:], "full"),
    "convolve many": lambda np, x: np.convolve(np.tile(x, 8), np.tile(x, 7), "valid"),
    "interp": lambda np, x: np.interp(x * 2, [0.0, 1, 2], x[:3]), "gradient x": lambda np, x: np.gradient(x ** 2,
    np.arange(6) ** 2.0),
    "trapezoid x": lambda np, x: np.trapezoid(x, x * x), "dot": lambda np, x: np.dot(x, x),
    "outer": lambda np, x: np.outer(x, x),
    "kron": lambda np, x: np.kron(x[:2], x), "inner": lambda np, x: np.inner(x.reshape(2, 3), x.reshape(2, 3)),
    "tensordot": lambda np, x: np.tensordot(x.reshape(2, 3), x.reshape(3,
    2), axes=1), "vdot": lambda np, x: np.vdot(x, x * x),
    "cross": lambda np, x: np.cross(x[:3], x[3:]), "einsum": lambda np, x: np.einsum("ij,kj,k->i", x.reshape(2,
    3), x.reshape(2, 3), x[:2]),
    "einsum diagonal": lambda np, x: np.einsum("ii->i",
    np.outer(x, x)), "trace": lambda np, x: np.trace(np.outer(x, x * x)),
    "norm": lambda np, x: np.linalg.norm(x), "norm 3": lambda np, x: np.linalg.norm(x, 3),
    "norm nuc": lambda np, x: np.linalg.norm(x.reshape(2,
    3), "nuc"), "norm axis": lambda np, x: np.linalg.norm(x.reshape(2, 3), axis=1),
    "inv": lambda np, x: np.linalg.inv(x[:4].reshape(2,
    2) + 2 * np.eye(2)), "det": lambda np, x: np.linalg.det(x[:4].reshape(2, 2)),
    "solve": lambda np, x: np.linalg.solve(x[:4].reshape(2,
    2) + 2 * np.eye(2), x[4:]), "cond": lambda np, x: np.linalg.cond(x.reshape(2, 3)),
    "lstsq": lambda np, x: np.linalg.lstsq(np.stack([np.ones(6), np.arange(6.0), x], 1), x ** 2)[0],
    "multi_dot": lambda np, x: np.linalg.multi_dot([x.reshape(2, 3), x.reshape(3, 2), x[:2]]),
    "matrix_power": lambda np, x: np.linalg.matrix_power(x[:4].reshape(2, 2),
    3), "eigvalsh": lambda np, x: np.linalg.eigvalsh(np.diag(x)),
    "polyval": lambda np, x: np.polyval(x[:3], x), "polyfit": lambda np, x: np.polyfit(np.arange(6.0), x, 2),
    "polymul": lambda np, x: np.polymul(x, x[:2]), "polydiv": lambda np, x: np.polydiv(x, x[:2] + 1)[0],
    "polyint": lambda np, x: np.polyint(x),
    "polyder": lambda np, x: np.polyder(x), "fft": lambda np, x: np.abs(np.fft.fft(x)),
    "irfft": lambda np, x: np.fft.irfft(np.fft.rfft(x) ** 2),
    "histogram w": lambda np, x: np.histogram(np.arange(6.0),
    3, weights=x)[0], "bincount w": lambda np, x: np.bincount([0, 1, 1, 0, 2, 2], x),
    "select": lambda np, x: np.select([x > 0.7, x > 0.4], [x, x * x], 0), "piecewise": lambda np, x: np.piecewise(x,
    [x > 0.5], [np.sin, np.cos]),
    "take_along_axis": lambda np, x: np.take_along_axis(x.reshape(2, 3), np.array([[0, 2], [1, 1]]),
    1), "angle": lambda np, x: np.angle(x + 1j * x[::-1]),
    "nan_to_num": lambda np, x: np.nan_to_num(x),
    "apply_along_axis": lambda np, x: np.apply_along_axis(lambda r: r * r, 1, x.reshape(2, 3)),
    "kaiser": lambda np, x: np.kaiser(6, 3.0) * x, "matmul": lambda np, x: x.reshape(2, 3) @ x.reshape(3,
    2), "resize": lambda np, x: np.resize(x, 9),
}
POINT = numpy.array([0.31, 0.87, 0.52, 0.23, 0.68, 0.44])


def weighted(np: Any, found: Any) -> Any:
    """A sum of all elements, each with another weight."""
    if found.ndim == 0:
        return found * 1.3
    flat = found.reshape(-1)
    return (flat * np.cos(np.arange(flat.shape[0]) * 0.7 + 0.3)).sum()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_are_those_of_finite_differences(name: str) -> None:
    function = FUNCTIONS[name]
    x = dnp.array(POINT)
    dr.enable_grad(x)
    y = weighted(dnp, function(dnp, x))
    dr.backward(y)
    direction = numpy.sin(numpy.arange(6) * 1.7 + 0.4)
    found = float((numpy.asarray(dr.grad(x)) * direction).sum())
    step = 1e-6
    ends = [float(weighted(numpy, numpy.asarray(function(numpy, POINT + sign * step * direction)))) for sign in (1, -1)]
    assert found == pytest.approx((ends[0] - ends[1]) / (2 * step), rel=2e-5, abs=1e-7)


def test_random_numbers_have_derivatives_by_parameters() -> None:
    for draw in (lambda rng, s: rng.normal(1.0, s, 50), lambda rng, s: rng.uniform(0.0, s, 50),
                 lambda rng, s: rng.exponential(s, 50), lambda rng, s: rng.weibull(s, 50),
    lambda rng, s: rng.gumbel(0.5, s, 50),
                 lambda rng, s: rng.gamma(2.0, s, 50), lambda rng, s: rng.lognormal(0.0, s, 50)):
        scale = dnp.array(0.8)
        dr.enable_grad(scale)
        dr.backward((draw(dnp.random.default_rng(3), scale) ** 2).sum())
        ends = [float((draw(dnp.random.default_rng(3), value) ** 2).sum()) for value in (0.8 + 1e-6, 0.8 - 1e-6)]
        assert float(dr.grad(scale)) == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-5)
