"""Generators of ``drjit.numpy.random``: shapes, repeatability, and the moments of distributions against SciPy's."""

from __future__ import annotations

from typing import Any

import numpy
import pytest
from scipy import stats

import drjit as dr
import drjit.numpy as np
from drjit.numpy.random import Generator, default_rng

COUNT = 20000
DISTRIBUTIONS: dict[str, tuple[tuple[float, ...], Any]] = {
    "random": ((), stats.uniform()), "uniform": ((-1.0, 3.0), stats.uniform(-1, 4)),
    "standard_normal": ((), stats.norm()), "normal": ((2.0, 0.5), stats.norm(2, 0.5)),
    "lognormal": ((0.0, 0.4), stats.lognorm(0.4)), "standard_exponential": ((), stats.expon()),
    "exponential": ((2.0,), stats.expon(scale=2)), "laplace": ((1.0, 2.0), stats.laplace(1, 2)),
    "logistic": ((0.0, 0.7), stats.logistic(0, 0.7)), "gumbel": ((0.3, 1.1), stats.gumbel_r(0.3, 1.1)),
    "rayleigh": ((1.5,), stats.rayleigh(scale=1.5)), "standard_cauchy": ((), stats.cauchy()),
    "weibull": ((1.7,), stats.weibull_min(1.7)), "pareto": ((3.0,), stats.lomax(3)),
    "power": ((2.5,), stats.powerlaw(2.5)), "triangular": ((-1.0, 0.5, 2.0), stats.triang(0.5, -1, 3)),
    "standard_gamma": ((0.6,), stats.gamma(0.6)), "gamma": ((2.5, 1.5), stats.gamma(2.5, scale=1.5)),
    "beta": ((0.7, 2.0), stats.beta(0.7, 2)), "chisquare": ((3.0,), stats.chi2(3)), "f": ((4.0, 9.0), stats.f(4, 9)),
    "standard_t": ((5.0,), stats.t(5)),
    "vonmises": ((0.5, 2.5), stats.vonmises(2.5, 0.5)), "wald": ((1.5, 2.0), stats.invgauss(0.75, scale=2)),
    "noncentral_chisquare": ((3.0, 1.5), stats.ncx2(3, 1.5)),
    "noncentral_f": ((4.0, 9.0, 1.5), stats.ncf(4, 9, 1.5)),
}
COUNTS: dict[str, tuple[tuple[float, ...], Any]] = {
    "binomial": ((10, 0.3), stats.binom(10, 0.3)), "geometric": ((0.25,), stats.geom(0.25)),
    "negative_binomial": ((3.0, 0.4), stats.nbinom(3, 0.4)),
    "hypergeometric": ((12, 20, 9), stats.hypergeom(32, 12, 9)), "logseries": ((0.7,), stats.logser(0.7)),
    "zipf": ((3.5,), stats.zipf(3.5)), "poisson": ((4.5,), stats.poisson(4.5)),
    "integers": ((2, 9), stats.randint(2, 9)),
}


@pytest.mark.oracle
@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_numbers_have_their_distribution(name: str) -> None:
    parameters, expected = DISTRIBUTIONS[name]
    found = numpy.asarray(getattr(default_rng(7), name)(*parameters, size=COUNT))
    assert found.shape == (COUNT,) and found.dtype == numpy.float64
    assert stats.kstest(found, expected.cdf).pvalue > 1e-4


@pytest.mark.oracle
@pytest.mark.parametrize("name", COUNTS)
def test_counts_have_their_distribution(name: str) -> None:
    parameters, expected = COUNTS[name]
    found = numpy.asarray(getattr(default_rng(8), name)(*parameters, size=COUNT))
    assert found.dtype == numpy.int64
    values = numpy.arange(int(expected.ppf(0.0005)), int(expected.ppf(0.9995)) + 1)
    wanted = expected.pmf(values) * COUNT
    seen = numpy.array([(found == value).sum() for value in values])
    assert (numpy.abs(seen - wanted) < 5 * numpy.sqrt(wanted + 1)).all()


def test_large_means_of_the_poisson_distribution() -> None:
    found = numpy.asarray(default_rng(1).poisson([2000.0, 30.0], (5000, 2)))
    assert numpy.abs(found.mean(0) - [2000, 30]).max() < 4 and numpy.abs(found.std(0) / [2000 ** 0.5,
    30 ** 0.5] - 1).max() < 0.05


def test_counts_of_several_kinds() -> None:
    rng, chances, colours = default_rng(3), [0.2, 0.0, 0.5, 0.3], [5, 0, 9, 6]
    found = numpy.asarray(rng.multinomial(20, chances, 4000))
    assert found.shape == (4000, 4) and (found.sum(1) == 20).all() and found.min() == 0
    assert numpy.abs(found.mean(0) - 20 * numpy.array(chances)).max() < 0.2 and found.dtype == numpy.int64
    assert rng.multinomial([3, 8], [0.5, 0.5]).sum(axis=-1).tolist() == [3, 8]
    found = numpy.asarray(rng.multivariate_hypergeometric(colours, 8, 4000))
    assert (found.sum(1) == 8).all() and (found <= colours).all()
    assert numpy.abs(found.mean(0) - 8 * numpy.array(colours) / 20).max() < 0.1
    # Where no number is probable enough for a loop to begin with.
    found = numpy.asarray(rng.hypergeometric(30000, 50000, 20000, 5000))
    assert abs(found.mean() - 7500) < 5 and abs(found.std() / (20000 * 0.375 * 0.625 * 0.75) ** 0.5 - 1) < 0.05
    assert numpy.abs(numpy.asarray(rng.vonmises(0.0, 0.0, 4000))).max() <= numpy.pi
    found = numpy.asarray(rng.noncentral_chisquare(0.5, 2.0, COUNT))
    assert stats.kstest(found, stats.ncx2(0.5, 2).cdf).pvalue > 1e-4
    for call in (lambda: rng.zipf(1.0), lambda: rng.hypergeometric(3, 2, 6),
                 lambda: rng.multinomial(3, [0.9, 0.9, 0.1])):
        with pytest.raises(ValueError, match=r"^drjit\.numpy\.random\.Generator\.\w+\(\): "):
            call()


def test_streams_are_repeated_by_their_seeds() -> None:
    for seed in (0, 12345678901234567890, [1, 2, 3]):
        first, second = default_rng(seed), default_rng(seed)
        assert np.array_equal(first.random(5), second.random(5))
        assert np.array_equal(first.integers(9, size=4), second.integers(9, size=4))
        assert not np.array_equal(first.random(5), first.random(5))
    assert not np.array_equal(default_rng(1).random(9), default_rng(2).random(9))
    assert not np.array_equal(default_rng().random(9), default_rng().random(9))
    children = default_rng(4).spawn(2)
    assert not np.array_equal(children[0].random(5), children[1].random(5))
    np.random.seed(5)
    a = np.random.normal(size=3)
    np.random.seed(5)
    assert np.array_equal(a, np.random.normal(size=3)) and isinstance(np.random.RandomState(3), Generator)


def test_parameters_are_broadcast() -> None:
    rng = default_rng(2)
    assert rng.normal([0.0, 10], 1.0).shape == (2,) and rng.normal([0.0, 10], 1.0, (3, 2)).shape == (3, 2)
    assert rng.exponential([[1.0], [2.0]], (4, 2, 3)).shape == (4, 2, 3) and rng.random().shape == ()
    assert rng.random((2, 0)).shape == (2, 0) and rng.random(3, dtype="float32").dtype == "float32"
    assert rng.multivariate_normal([0.0, 1], [[2, 0.5], [0.5, 1]], (2, 3)).shape == (2, 3, 2)
    assert rng.dirichlet([1.0, 2, 3], 4).sum(axis=1).tolist() == pytest.approx([1] * 4)
    assert rng.integers([0, 10], [5, 20], (6, 2)).shape == (6, 2) and len(rng.bytes(7)) == 7
    out = np.zeros(3)
    assert rng.random(out=out) is out and out.any()
    with pytest.raises(ValueError, match=r"^drjit\.numpy\.random\.Generator\.normal\(\): the shapes \(2,\) and \(3,\)"):
        rng.normal([0.0, 1], 1.0, 3)
    with pytest.raises(ValueError, match=r"Generator\.integers\(\): there is no integer from 3 to 3"):
        rng.integers(3, 3)
    with pytest.raises(TypeError, match=r"Generator\.exponential\(\): takes the arguments scale, size"):
        rng.exponential(1.0, 2, 3)
    with pytest.raises(AttributeError, match="did you mean 'default_rng'"):
        np.random.defaultrng


def test_covariances() -> None:
    wanted = numpy.array([[2.0, 0.5], [0.5, 1]])
    for method in ("svd", "cholesky"):
        found = numpy.asarray(default_rng(5).multivariate_normal([1.0, -1], wanted, COUNT, method=method))
        assert numpy.abs(numpy.cov(found.T) - wanted).max() < 0.1 and numpy.abs(found.mean(0) - [1, -1]).max() < 0.05


def test_choices_and_orders() -> None:
    rng, a = default_rng(6), np.arange(10)
    assert np.array_equal(np.sort(rng.permutation(a)), a) and not np.array_equal(rng.permutation(a), a)
    assert np.array_equal(np.sort(rng.permuted(np.arange(12).reshape(3, 4), axis=1), axis=1), np.arange(12).reshape(3,
    4))
    b = np.arange(12).reshape(4, 3)
    rng.shuffle(b)
    assert np.array_equal(b[:, 1], b[:, 0] + 1) and np.array_equal(np.sort(b[:, 0]), [0, 3, 6, 9])
    assert np.unique(rng.choice(10, 10, replace=False)).size == 10 and rng.choice(b, (2, 2)).shape == (2, 2, 3)
    picks = numpy.asarray(rng.choice(3, 9000, p=[0.2, 0.0, 0.8]))
    assert numpy.abs(numpy.bincount(picks, minlength=3) / 9000 - [0.2, 0, 0.8]).max() < 0.03
    assert np.array_equal(np.sort(rng.choice(4, 2, replace=False, p=[0.5, 0, 0.5, 0])), [0, 2])
    for arguments in ((3, 4, False), (3, 2, True, [0.5, 0.5]), (0, 1)):
        with pytest.raises(ValueError, match=r"^drjit\.numpy\.random\.Generator\.choice\(\): "):
            rng.choice(*arguments)


#: Calls of methods whose few numbers are NumPy's own.
FEW = ["random()", "random(3)", "random(size=(2, 3), dtype='float32')", "normal(2.0, [0.1, 3.0])", "normal(size=4)",
       "uniform(-1, 2, (3, 1))", "uniform([0, 1], 5.0)", "standard_normal(2)", "lognormal(0.1, 0.5, 3)",
       "integers(9)", "integers(-3, 9, (2, 2), dtype='int32')", "choice([1, 2, 3], 5)", "choice(50, 5, replace=False)",
       "choice(3, (2, 2), p=[0.2, 0.3, 0.5])", "permutation(6)", "poisson([1.0, 2.0])", "binomial(10, 0.5, 4)",
       "multinomial(5, [0.2, 0.8], 2)", "geometric(0.2, 3)"]


@pytest.mark.parametrize("seed", [0, 11, [1, 2]])
def test_few_numbers_are_those_of_numpy(seed: Any) -> None:
    own, other = default_rng(seed), numpy.random.default_rng(seed)
    for call in FEW:
        found, expected = eval(f"rng.{call}", {"rng": own}), numpy.asarray(eval(f"rng.{call}", {"rng": other}))
        assert isinstance(found, np.ndarray) and found.dtype == expected.dtype, call
        numpy.testing.assert_array_equal(numpy.asarray(found), expected, call)


def test_few_arguments_may_be_arrays() -> None:
    own, other = default_rng(4), numpy.random.default_rng(4)
    rows = numpy.arange(6.0).reshape(3, 2)
    numpy.testing.assert_array_equal(numpy.asarray(own.permutation(np.asarray(rows))), other.permutation(rows))
    numpy.testing.assert_array_equal(numpy.asarray(own.normal(np.asarray(rows), 0.1)), other.normal(rows, 0.1))
    numpy.testing.assert_array_equal(numpy.asarray(own.integers(0, np.asarray([3, 4]))), other.integers(0, [3, 4]))


def test_few_numbers_have_derivatives_by_parameters_and_are_drawn_by_replays() -> None:
    mean = np.asarray([1.0, 2.0])
    dr.enable_grad(mean)
    dr.backward(np.sum(3 * default_rng(1).normal(mean, 1.0)))
    assert dr.grad(mean).tolist() == [3.0, 3.0]
    rng = default_rng(2)
    draw = dr.freeze(lambda x: x + rng.random(3))
    assert len({tuple(draw(np.zeros(3)).tolist()) for _ in range(4)}) == 4
    draw = dr.freeze(lambda own, x: x + own.random(3))
    assert len({tuple(draw(rng, np.zeros(3)).tolist()) for _ in range(4)}) == 4


def test_what_numpy_refuses_is_told_in_words_and_draws_nothing() -> None:
    own, other = default_rng(5), default_rng(5)
    for call in ("integers(5, 5)", "choice(3, 5, replace=False)", "normal(size=-1)",
                 "multivariate_normal([0], [[1, 2]])"):
        with pytest.raises(ValueError, match=rf"^drjit.numpy.random.Generator.{call.split('(')[0]}\(\)"):
            eval(f"rng.{call}", {"rng": own})
    assert own.random(2).tolist() == other.random(2).tolist()


@pytest.mark.parametrize("alpha", [0.3, 1.5, 40.0])
def test_few_gamma_numbers_are_those_that_have_derivatives(alpha: float) -> None:
    few = numpy.asarray(default_rng(4).gamma(alpha, 2.0, 4000))
    assert stats.kstest(few, stats.gamma(alpha, scale=2).cdf).pvalue > 1e-4
    tracked = np.array([alpha])
    dr.enable_grad(tracked)
    found = default_rng(4).gamma(tracked, 2.0, 4000)
    # the same formula, of which the host and kernels round logarithms otherwise
    numpy.testing.assert_allclose(numpy.asarray(dr.detach(found)), few, rtol=1e-12)
    dr.backward(found.sum())
    step = 1e-5 * alpha
    change = [float(default_rng(4).gamma(alpha + sign * step, 2.0, 4000).sum()) for sign in (1, -1)]
    # a difference of rounded sums
    numpy.testing.assert_allclose(float(dr.grad(tracked)[0]), (change[0] - change[1]) / (2 * step), rtol=1e-4)


def test_gamma_numbers_of_no_number_end() -> None:
    found = numpy.asarray(default_rng(1).gamma(np.array([numpy.inf, numpy.nan, 0.0])))
    assert found[0] == numpy.inf and numpy.isnan(found[1]) and found[2] == 0


def test_large_orders_are_permutations() -> None:
    rng, count = default_rng(3), 50_000
    for order in (rng.permutation(count), rng.choice(count, count, replace=False), rng.permutation(np.arange(count))):
        assert not numpy.array_equal(numpy.asarray(order), numpy.arange(count))
        numpy.testing.assert_array_equal(numpy.sort(numpy.asarray(order)), numpy.arange(count))
    assert numpy.unique(numpy.asarray(rng.choice(count, 300, replace=False))).size == 300


@pytest.mark.parametrize("dtype", ["float64", "int32", "bool"])
def test_elements_are_partitioned(dtype: str) -> None:
    x = (numpy.random.default_rng(0).random((3, 5000)) * 100).astype(dtype)
    for kth in (7, [3, 4000], -1):
        found = numpy.asarray(np.partition(np.array(x), kth, axis=1))
        numpy.testing.assert_array_equal(numpy.sort(found, axis=1), numpy.sort(x, axis=1))
        numpy.testing.assert_array_equal(found[:, kth], numpy.sort(x, axis=1)[:, kth])
        places = numpy.asarray(np.argpartition(np.array(x), kth, axis=1))
        numpy.testing.assert_array_equal(numpy.take_along_axis(x, places, 1)[:, kth], found[:, kth])


@pytest.mark.parametrize(("name", "parameters"), [
    ("standard_gamma", (3.0,)), ("gamma", (0.5, 2.0)), ("beta", (2.0, 3.0)), ("vonmises", (0.5, 2.5)),
    ("zipf", (3.5,))])
def test_candidates_are_drawn_by_a_loop_and_not_stored(name: str, parameters: tuple[float, ...]) -> None:
    rng = default_rng(3)
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory):
        dr.kernel_history_clear()
        found = numpy.asarray(getattr(rng, name)(*parameters, size=COUNT))
        assert max(kernel["size"] for kernel in dr.kernel_history()) <= COUNT
    again = numpy.asarray(getattr(default_rng(3), name)(*parameters, size=COUNT))
    other = numpy.asarray(getattr(rng, name)(*parameters, size=COUNT))
    assert numpy.array_equal(found, again) and not numpy.array_equal(found, other)


def test_candidates_of_no_distribution_do_not_keep_a_loop_going() -> None:
    shapes = np.asarray(numpy.tile([numpy.nan, numpy.inf, 0.0, 1.0], COUNT // 4))
    found = numpy.asarray(default_rng(1).standard_gamma(shapes)).reshape(-1, 4)
    assert numpy.isnan(found[:, 0]).all() and numpy.isinf(found[:, 1]).all()
    assert (found[:, 2] == 0).all() and stats.kstest(found[:, 3], stats.gamma(1).cdf).pvalue > 1e-4
