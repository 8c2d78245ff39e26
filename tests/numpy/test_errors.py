"""Errors are of NumPy's classes and name the function; unknown names say what comes near; what is lazy."""

from __future__ import annotations

from typing import Any

import numpy
import pytest

import drjit as dr
import drjit.array_api as xp
import drjit.numpy as np

#: Wrong calls: what the message begins with behind ``drjit.numpy.``, and what it says. NumPy's class must fit.
WRONG: dict[str, tuple[Any, str]] = {
    "add": (lambda np, a: np.add(a, np.ones(5)), "shapes"), "sum": (lambda np, a: np.sum(a, axis=3), "'axis' is 3"),
    "mean": (lambda np, a: np.mean(a, axis=-4), "'axis' is -4"), "reshape": (lambda np, a: np.reshape(a, (5,
    5)), "shape"),
    "concatenate": (lambda np, a: np.concatenate([a, np.ones((2,
    5))]), "differ"), "stack": (lambda np, a: np.stack([a, a[:1]]), "one shape"),
    "concatenate ": (lambda np, a: np.concatenate([]), "at least one array"), "split": (lambda np, a: np.split(a,
    4, axis=1), "equal parts"),
    "squeeze": (lambda np, a: np.squeeze(a, 0), "size"), "broadcast_to": (lambda np, a: np.broadcast_to(a, (4,
    4)), "broadcast"),
    "expand_dims": (lambda np, a: np.expand_dims(a, 7), "'axis' is 7"), "transpose": (lambda np, a: np.transpose(a, (0,
    0)), "more than once"),
    "moveaxis": (lambda np, a: np.moveaxis(a, 5, 0), "is 5"), "flip": (lambda np, a: np.flip(a, 4), "'axis' is 4"),
    "rot90": (lambda np, a: np.rot90(a, axes=(0, 0)), "different"), "repeat": (lambda np, a: np.repeat(a, [1, 2,
    3], axis=0), "3 entries"),
    "take": (lambda np, a: np.take(a, [9], axis=0), "out of bounds"), "delete": (lambda np, a: np.delete(a,
    9, axis=0), "out of bounds"),
    "insert": (lambda np, a: np.insert(a, 9,
    1, axis=0), "out of bounds"), "dot": (lambda np, a: np.dot(a, a), "do not go together"),
    "matmul": (lambda np, a: np.matmul(a, a), "do not go together"),
    "einsum": (lambda np, a: np.einsum("ij,jk", a, a), "axes of the sizes"),
    "einsum ": (lambda np, a: np.einsum("ijk", a), "does not go with an array of 2 dimensions"),
    "cross": (lambda np, a: np.cross(np.ones(4), np.ones(4)), "size 2 or 3"),
    "tensordot": (lambda np, a: np.tensordot(a, a, axes=1), "do not go with"),
    "linalg.inv": (lambda np, a: np.linalg.inv(a), "square"),
    "linalg.solve": (lambda np, a: np.linalg.solve(np.zeros((2, 2)),
    np.ones(2)), "ingular"), "linalg.norm": (lambda np, a: np.linalg.norm(a, "foo"), "'ord'"),
    "linalg.lstsq": (lambda np, a: np.linalg.lstsq(a,
    np.ones(5)), "rows"), "linalg.qr": (lambda np, a: np.linalg.qr(a, "foo"), "'mode'"),
    "quantile": (lambda np, a: np.quantile(a, 1.5), "from 0 to 1"), "percentile": (lambda np, a: np.percentile(a,
    50, method="foo"), "'method'"),
    "average": (lambda np, a: np.average(a, axis=0, weights=[1, 2,
    3]), "do not go"), "bincount": (lambda np, a: np.bincount([-1]), "negative"),
    "histogram": (lambda np, a: np.histogram(a,
    0), "'bins'"),
    "digitize": (lambda np, a: np.digitize(a, [1, 3, 2]), "order"), "interp": (lambda np, a: np.interp(1.0, [1, 2],
    [1]), "one size"),
    "gradient": (lambda np, a: np.gradient(a[:1], axis=0), "at least 2"),
    "nanargmax": (lambda np, a: np.nanargmax([np.nan, np.nan]), "no elements but NaN"),
    "nanargmin": (lambda np, a: np.nanargmin([[1, 2], [np.nan, np.nan]], axis=1), "no elements but NaN"),
    "power": (lambda np, a: np.power(np.arange(3), np.array([0, -1, 2])), "are no integers"),
    "add ": (lambda np, a: np.add(a, 1.5, dtype=int), "casting rule"),
    "subtract": (lambda np, a: np.subtract(a, 1, out=np.zeros(a.shape, dtype=int)), "casting rule"),
    "modf": (lambda np, a: np.modf(a, out=np.zeros(3)), "tuple"),
    "add  ": (lambda np, a: np.add(1, 2, np.zeros(2), out=np.zeros(2)), "twice"),
    "histogram ": (lambda np, a: np.histogram([1, 2], bins=[3, 1]), "order"),
    "histogram  ": (lambda np, a: np.histogram([1.0, np.nan]), "finite"),
    "clip": (lambda np, a: np.clip(a, 1, 2, min=3), "'a_min'"),
    "linalg.det": (lambda np, a: np.linalg.det(a), "square"),
    "sin.reduce": (lambda np, a: np.sin.reduce(a), "two arrays"),
    "partition": (lambda np, a: np.partition(a, 9), "'kth' is 9"),
    "argpartition": (lambda np, a: np.argpartition(a, -9, axis=0), "'kth' is -9"),
    "diff": (lambda np, a: np.diff(a, -1), "'n'"),
    "convolve": (lambda np, a: np.convolve([1], []), "element"), "pad": (lambda np, a: np.pad(a, -1), "negative"),
    "pad ": (lambda np, a: np.pad(a, 1, "foo"), "'mode'"), "max": (lambda np, a: np.max(np.zeros(0)), "no element"),
    "argmax": (lambda np, a: np.argmax(np.zeros((0,
    2)), axis=0), "no element"), "linspace": (lambda np, a: np.linspace(0, 1, -1), "negative"),
    "meshgrid": (lambda np, a: np.meshgrid([1], indexing="z"), "'indexing'"),
    "diag": (lambda np, a: np.diag(np.ones((1, 1, 1))), "dimensions"),
    "zeros": (lambda np, a: np.zeros(-1), "negative"), "array": (lambda np, a: np.array([[1], [1, 2]]), "ragged"),
    "polyfit": (lambda np, a: np.polyfit([1.0], [1.0, 2], 1), "as many"), "select": (lambda np, a: np.select([a > 1],
    []), "as many"),
    "where": (lambda np, a: np.where(a, a), "both"), "ix_": (lambda np, a: np.ix_(a), "one dimension"),
    "gcd": (lambda np, a: np.gcd(a, 2), "integers"),
    "fft.fft": (lambda np, a: np.fft.fft(a, axis=4), "'axis' is 4"), "invert": (lambda np, a: np.invert(a), "integer"),
    "left_shift": (lambda np, a: np.left_shift(a,
    1), "integer"), "negative": (lambda np, a: np.negative(a > 0), "numeric"),
    "take_along_axis": (lambda np, a: np.take_along_axis(a, np.array([0]), 0), "dimensions"),
}


@pytest.mark.parametrize("name", WRONG)
def test_errors_are_of_the_classes_of_numpy_and_name_the_function(name: str) -> None:
    call, message = WRONG[name]
    with pytest.raises((ValueError, TypeError, IndexError)) as expected:
        call(numpy, numpy.ones((2, 3)))
    with pytest.raises((ValueError, TypeError, IndexError)) as caught:
        call(np, np.ones((2, 3)))
    classes = (ValueError, TypeError, IndexError)
    assert any(issubclass(expected.type, cls) and issubclass(caught.type, cls) for cls in classes), (expected, caught)
    assert str(caught.value).startswith(f"drjit.numpy.{name.strip()}(): ") and message in str(caught.value)


def test_errors_of_linear_algebra_and_of_axes_are_those_of_numpy() -> None:
    with pytest.raises(numpy.linalg.LinAlgError, match=r"^drjit\.numpy\.linalg\.inv\(\): Singular matrix"):
        np.linalg.inv(np.zeros((2, 2)))
    for axis in (2, -3):
        with pytest.raises(numpy.exceptions.AxisError, match=rf"^drjit\.numpy\.sum\(\): 'axis' is {axis}"):
            np.sum(np.ones((2, 2)), axis=axis)
    assert np.linalg.LinAlgError is numpy.linalg.LinAlgError


@pytest.mark.parametrize(("module", "name", "near"), [
    (np, "arcsine", "'arcsin'"), (np, "histogramm", "'histogram'"),
    (np.linalg, "normal", "'norm'"),
    (np.fft, "ftt", "'fft'"), (np.random, "Generater", "'Generator'"), (xp, "arctan", "'atan'"),
    (xp, "concatenat", "'concat'"),
    (xp, "meen", "'mean'")])
def test_unknown_names_say_what_comes_near(module: Any, name: str, near: str) -> None:
    text = f"module '{module.__name__}' has no attribute '{name}'; did you mean .*{near}"
    with pytest.raises(AttributeError, match=text):
        getattr(module, name)
    assert not hasattr(module, "qqqqqq")


def test_listings_show_what_exists() -> None:
    for module in (np, np.linalg, np.fft, np.random):
        assert dir(module) == sorted(module.__all__) and len(set(module.__all__)) == len(module.__all__)
        for name in module.__all__:
            assert hasattr(module, name)
    undescribed = [name for name in np.__all__ if callable(getattr(np, name)) and not getattr(np, name).__doc__]
    assert not undescribed
    assert np.convolve.__module__ == "drjit.numpy" and np.sum.__name__ == "sum" and repr(np.sin) == "<ufunc 'sin'>"


#: Expressions of arrays of which nothing is to be computed.
LAZY: dict[str, Any] = {
    "roll": lambda a, v: np.roll(a, (1, 2), (0, 1)), "rot90": lambda a, v: np.rot90(a), "pad": lambda a, v: np.pad(a,
    1, "reflect"),
    "einsum": lambda a, v: np.einsum("ij,j->i", a, v), "histogram": lambda a, v: np.histogram(a,
    5)[0], "median": lambda a, v: np.median(a, axis=0),
    "quantile": lambda a, v: np.quantile(a, [0.2,
    0.7], axis=1), "convolve": lambda a, v: np.convolve(v, v), "interp": lambda a, v: np.interp(a, v, v),
    "gradient": lambda a, v: np.gradient(a)[0], "cov": lambda a, v: np.cov(a),
    "nanmean": lambda a, v: np.nanmean(a, axis=0), "sort": lambda a, v: np.sort(a),
    "unwrap": lambda a, v: np.unwrap(v), "trapezoid": lambda a, v: np.trapezoid(a), "kron": lambda a, v: np.kron(a, v),
    "norm": lambda a, v: np.linalg.norm(a, 3, axis=1),
    "isin": lambda a, v: np.isin(a, v), "searchsorted": lambda a, v: np.searchsorted(v, a),
    "polyval": lambda a, v: np.polyval(v, a),
    "random": lambda a, v: np.random.default_rng(1).normal(v,
    1.0), "meshgrid": lambda a, v: np.meshgrid(v, v)[0], "tile": lambda a, v: np.tile(a, 3),
    "gamma": lambda a, v: np.random.default_rng(1).gamma(2.0, v), "insert": lambda a, v: np.insert(a, 1, v,
    0), "putmask": lambda a, v: np.putmask(a.copy(), a > 1, 0),
}


PARAMETERS: dict[str, tuple[Any, ...]] = {
    "normal": (0, -1), "binomial": (5, 1.5), "gamma": (-1.0,), "poisson": (-1,), "exponential": (-1.0,),
    "beta": (-1, 2), "triangular": (3, 2, 1), "zipf": (0.5,), "geometric": (0,), "weibull": ([1.0, -1.0],),
    "lognormal": (0, [1, -2]),
    "multinomial": (3, [0.8, 0.8, 0.1]), "dirichlet": ([1, -1],), "vonmises": (0, -1), "uniform": (2, 1)}


@pytest.mark.parametrize("size", [None, (20_000, 2)])
@pytest.mark.parametrize("name", PARAMETERS)
def test_parameters_that_no_distribution_has(name: str, size: Any) -> None:
    for module in (numpy, np):
        with pytest.raises(ValueError):
            getattr(module.random.default_rng(1), name)(*PARAMETERS[name], size=size)
    with pytest.raises(ValueError, match=rf"drjit.numpy.random.Generator.{name}\(\)"):
        getattr(np.random.default_rng(1), name)(*PARAMETERS[name], size=size)


@pytest.mark.parametrize("p", [[0.5, 0.6], [1.5, -0.5]])
def test_probabilities_have_the_sum_one(p: list[float]) -> None:
    with pytest.raises(ValueError, match="probabilities"):
        np.random.default_rng(1).choice([1, 2], p=p)


def test_errors_of_numbers_that_nobody_looks_for_are_told() -> None:
    with pytest.warns(UserWarning, match="has no effect"), np.errstate(divide="raise"):
        assert float(np.array([1.0])[0] / 0) == numpy.inf
    with pytest.warns(UserWarning, match=r"seterr\(\).*invalid='raise'"):
        before = np.seterr(invalid="raise")
    np.seterr(**before)


def test_weights_must_have_a_sum() -> None:
    for module in (numpy, np):
        with pytest.raises(ZeroDivisionError, match=r"(?i)weights"):
            module.average(module.arange(2.0), weights=[1, -1])


def test_what_is_not_there_is_told_in_its_place() -> None:
    with pytest.raises(AttributeError, match=r"numpy\.resize"):
        np.arange(3).resize((2, 2))
    assert not hasattr(np.arange(3), "ctypes")


@pytest.mark.parametrize("name", LAZY)
def test_nothing_is_launched_until_a_value_is_needed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xp.policy, "limit", None)  # which cuts long programs
    monkeypatch.setattr(xp.policy, "small", 0)
    monkeypatch.setattr(xp.policy, "eager", 0)
    a, v = np.arange(12.0).reshape(3, 4) % 5, np.arange(4.0)
    dr.eval(a, v)
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory):
        dr.kernel_history_clear()
        LAZY[name](a, v)
        assert not dr.kernel_history()
        np.unique(v)  # whose size depends on what is in there
        assert dr.kernel_history()
