"""Random numbers by the names of NumPy's generators.

``default_rng(seed)`` makes a :class:`Generator`, whose numbers are those of Philox4x32 by counters: drawing is lazy and
fuses with what uses the numbers. Few numbers (``drjit.array_api.policy.eager``) are made of those that
``numpy.random.default_rng(seed)`` draws, at once, where no construct is traced and no frozen function recorded: uniform
and normal ones, integers and choices are NumPy's own. Numbers have derivatives by the parameters of their distributions
where these shift, scale or reshape them. They are on the device of these, or of the policy; on a GPU few are those of
Philox4x32 as well. The functions of the module are those of one generator, which ``seed`` restarts.
"""

from __future__ import annotations

import copy
import functools
import importlib
import inspect
import math
import operator
import secrets
from collections.abc import Callable
from typing import Any

import numpy as np

import drjit as dr
import drjit.array_api as xp

from ._public import Array, array_of, axis_of, decided, floating, is_number, missing, named, of_type, on_host

__all__ = ["Generator", "RandomState", "default_rng", "seed"]

Size = int | tuple[int, ...] | None


def _shape(size: Any, *parameters: Array) -> tuple[int, ...]:
    """The shape of what is drawn: that of the parameters, unless a size is given, with which they must go together."""
    own = xp.broadcast_shapes(*[parameter.shape for parameter in parameters]) if parameters else ()
    if size is None:
        return own
    wanted = tuple([operator.index(entry) for entry in size]) if hasattr(size, "__iter__") else (operator.index(size),)
    if any(entry < 0 for entry in wanted):
        raise ValueError(f"'size' must not be negative, found {size!r}.")
    if xp.broadcast_shapes(own, wanted) != wanted:
        raise ValueError(f"parameters of the shape {own} do not go with the size {wanted}.")
    return wanted


class Generator:
    """A stream of random numbers, which methods draw in shapes of ``size``; parameters of distributions are broadcast.
    Lazy."""

    __module__ = "drjit.numpy.random"

    def __init__(self, seed: Any = 0) -> None:
        self._seed = operator.index(seed)
        #: For each device that numbers are drawn on, a generator; they draw the same ones.
        self._rngs = {xp.policy.device: dr.rng(self._seed)}
        self._of_numpy: np.random.Generator | None = None

    def __repr__(self) -> str:
        return "Generator(Philox4x32)"

    def __drjit_children__(self) -> dict[str, Any]:
        return {"_rngs": self._rngs}

    def __drjit_rebuild__(self, children: dict[str, Any]) -> Generator:
        found = copy.copy(self)
        found._rngs = children["_rngs"]
        return found

    def _rng(self) -> dr.random.Generator:
        """The generator of the device that numbers are drawn on."""
        device = xp.policy.device
        if device not in self._rngs:
            self._rngs[device] = dr.rng(self._seed)
        return self._rngs[device]

    def spawn(self, n_children: int) -> list[Generator]:
        """Several generators, whose streams are others."""
        seeds = np.asarray(self.integers(0, 1 << 62, n_children))
        return [Generator(int(seed)) for seed in seeds]

    def _few(self, name: str, place: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Array | None:
        """What the method of NumPy's generators makes of few arguments and a small ``size``, which is the argument at
        a place; ``None`` for others, and if it raises, which the method here tells in words."""
        most = xp.policy.eager
        if not most or xp.policy.device != "cpu" or not dr.detail.in_plain_code():
            return None
        size = args[place] if len(args) > place else kwargs.get("size")
        size = None if isinstance(size, (Array, np.ndarray)) else size
        if size is not None and not _is_few(size, most):
            return None
        counts = name not in _SHIFTED  # which have no derivatives
        values = [_given(value, most, counts) for value in args]
        options = {key: _given(value, most, counts) for key, value in kwargs.items()}
        if [value for value in (*values, *options.values()) if value is _MANY] or kwargs.get("out") is not None:
            return None
        try:
            found = np.asarray(getattr(self._own(), name)(*values, **options))
        except (TypeError, ValueError, OverflowError):
            return None
        return xp.asarray(found) if found.dtype.kind in "biufc" else None

    def _check(self, name: str, parameters: dict[str, Any]) -> None:
        """Refuse parameters that are known and that no distribution has: as NumPy's generators do, which draw nothing.
        """
        most = xp.policy.eager
        values = {key: _given(value, most, True) for key, value in parameters.items()}
        if [value for value in values.values() if value is _MANY]:
            return
        try:
            shape = () if name in _OF_VECTORS else np.broadcast_shapes(*map(np.shape, values.values()))
            getattr(_NOTHING, name)(**values, size=(0, *shape))
        except TypeError:  # told by the method
            return

    # --- numbers ---

    def _uniform(self, shape: tuple[int, ...], dtype: Any = None) -> Array:
        """Numbers from 0 to 1, which is left out."""
        kind = of_type(xp.float64 if dtype is None else dtype)
        if kind.kind != "f":
            raise TypeError(f"'dtype' must be a floating point type, found {kind}.")
        if not math.prod(shape):
            return xp.zeros(shape, dtype=kind)
        few = self._few("random", 0, (shape, kind), {})
        return xp.asarray(self._rng().random(kind.on(xp.policy.device), shape)) if few is None else few

    def _inverse(self, shape: tuple[int, ...]) -> Array:
        """Numbers from 0 to 1, without either, for inverse distribution functions."""
        return xp.clip(self._uniform(shape), 2.0 ** -54, None)

    def _normal(self, shape: tuple[int, ...], dtype: Any = None) -> Array:
        kind = of_type(xp.float64 if dtype is None else dtype)
        if not math.prod(shape):
            return xp.zeros(shape, dtype=kind)
        few = self._few("standard_normal", 0, (shape, kind), {})
        return xp.asarray(self._rng().normal(kind.on(xp.policy.device), shape)) if few is None else few

    def random(self, size: Size = None, dtype: Any = None, out: Array | None = None) -> Array:
        """Numbers from 0 to 1, which is left out."""
        return _into(out, self._uniform(_shape(size if out is None else out.shape), dtype))

    def uniform(self, low: Any = 0.0, high: Any = 1.0, size: Size = None) -> Array:
        """Numbers from ``low`` to ``high``."""
        first, last = floating(low), floating(high)
        return first + (last - first) * self._uniform(_shape(size, first, last))

    def standard_normal(self, size: Size = None, dtype: Any = None, out: Array | None = None) -> Array:
        """Numbers of the normal distribution with mean 0 and deviation 1."""
        return _into(out, self._normal(_shape(size if out is None else out.shape), dtype))

    def normal(self, loc: Any = 0.0, scale: Any = 1.0, size: Size = None) -> Array:
        """Numbers of the normal distribution with a mean and a deviation."""
        mean, deviation = floating(loc), floating(scale)
        return mean + deviation * self._normal(_shape(size, mean, deviation))

    def lognormal(self, mean: Any = 0.0, sigma: Any = 1.0, size: Size = None) -> Array:
        """Numbers whose logarithms have the normal distribution."""
        return xp.exp(self.normal(mean, sigma, size))

    def multivariate_normal(self, mean: Any, cov: Any, size: Size = None, check_valid: str = "warn", tol: float = 1e-8,
                            *, method: str = "svd") -> Array:
        """Vectors of the normal distribution with a mean and a matrix of covariances, which is decomposed on the host.
        """
        center, covariance = floating(mean), floating(cov)
        if center.ndim != 1 or covariance.shape != center.shape * 2:
            raise ValueError(f"'mean' must be a vector and 'cov' a matrix of its size, found the shapes {center.shape} "
                             f"and {covariance.shape}.")
        shape = (*_shape(size), center.size)
        if method == "cholesky":
            factor = xp.linalg.cholesky(covariance)
        else:
            values, vectors = xp.linalg.eigh(covariance)
            factor = vectors * xp.sqrt(xp.clip(values, 0.0, None))
        return center + (factor @ self._normal(shape)[..., None])[..., 0]

    def standard_exponential(self, size: Size = None, dtype: Any = None, method: str = "zig",
                             out: Array | None = None) -> Array:
        """Numbers of the exponential distribution with mean 1."""
        found = -xp.log1p(-self._uniform(_shape(size if out is None else out.shape)))
        return _into(out, found if dtype is None else found.astype(dtype))

    def integers(self, low: Any, high: Any = None, size: Size = None, dtype: Any = np.int64,
                 endpoint: bool = False) -> Array:
        """Integers from ``low`` (0 if there is no ``high``) to ``high``, which is left out unless ``endpoint``; of
        ranges of 2^32 and more, and of arrays of limits, those that 53 random bits make. Raises a ``ValueError`` if
        there is none."""
        kind = of_type(dtype)
        first, last = (0, low) if high is None else (low, high)
        if is_number(first) and is_number(last):
            if int(first) >= int(last) + endpoint:
                raise ValueError(f"there is no integer from {first} to {last}.")
            shape, plain = _shape(size), (int(first), int(last))
            if not math.prod(shape):
                return xp.zeros(shape, dtype=kind)
            if plain[1] - plain[0] < 1 << 32:
                number = xp.uint32.on(xp.policy.device)
                drawn = self._rng().integers(number, shape, 0, plain[1] - plain[0], endpoint=endpoint)
                return (xp.asarray(drawn).astype(xp.int64) + plain[0]).astype(kind)
        start, stop = array_of(first), array_of(last)
        span = (stop - start + int(endpoint)).astype(xp.float64)
        return (start + xp.floor(self._uniform(_shape(size, start, stop)) * span).astype(xp.int64)).astype(kind)

    def bytes(self, length: int) -> bytes:
        """Random bytes. Evaluates."""
        return self.integers(0, 256, length, dtype=np.uint8).tobytes()

    # --- choices ---

    def permutation(self, x: Any, axis: int = 0) -> Array:
        """The entries of an axis, or the integers before a number, in random order."""
        array = xp.arange(int(x)) if is_number(x) else array_of(x)
        return xp.take(array, self._order(array.shape[axis_of(axis, array.ndim)]), axis=axis)

    def _order(self, count: int, taken: int | None = None) -> Array:
        """Some integers before a number, or all of them, in random order."""
        total = count if taken is None else taken
        if not total:
            return xp.zeros((0,), dtype=xp.int64)
        if xp.policy.eager and dr.detail.in_plain_code():  # takes less time than to find the order of random numbers
            own = self._own()
            return xp.asarray(own.permutation(count) if total == count else own.choice(count, total, replace=False))
        return xp.argsort(self._uniform((count,)))[:total]

    def _own(self) -> np.random.Generator:
        """The generator of NumPy with the same seed."""
        if self._of_numpy is None:
            self._of_numpy = np.random.default_rng(self._seed % (1 << 64))
        return self._of_numpy

    def permuted(self, x: Any, *, axis: int | None = None, out: Array | None = None) -> Array:
        """The elements along each vector of an axis (all of them without one) in random orders of their own."""
        array = array_of(x)
        if axis is None:
            return _into(out, xp.take(array.ravel(), self._order(array.size)).reshape(array.shape))
        return _into(out, xp.take_along_axis(array, xp.argsort(self._uniform(array.shape), axis=axis), axis=axis))

    def shuffle(self, x: Array, axis: int = 0) -> None:
        """Bring the entries of an axis of an array into random order, in place."""
        if not isinstance(x, Array):
            raise TypeError("'x' must be an array of this module, which is changed in place; see permutation().")
        x[...] = self.permutation(x, axis)

    def choice(self, a: Any, size: Size = None, replace: bool = True, p: Any = None, axis: int = 0,
               shuffle: bool = True) -> Array:
        """Entries of an axis, or integers before a number, with probabilities ``p``; each one at most once unless
        ``replace``."""
        array = xp.arange(int(a)) if is_number(a) else array_of(a)
        count = array.shape[axis_of(axis, array.ndim)]
        shape = _shape(size)
        total = math.prod(shape)
        if not count and total:
            raise ValueError("there is nothing to choose from.")
        weights = None if p is None else floating(p)
        if weights is not None and weights.shape != (count,):
            raise ValueError(f"'p' must be {count} probabilities, found the shape {weights.shape}.")
        if weights is not None and (not isinstance(p, Array) or xp.has_value(weights)):
            _require_probabilities(on_host(weights))
        if not replace and total > count:
            raise ValueError(f"there are {count} entries to choose {total} different ones from.")
        if replace and weights is None:
            index = self.integers(0, count, total)
        elif replace and weights is not None:
            index = xp.clip(xp.searchsorted(weights.cumsum() / weights.sum(), self._uniform((total,)), side="right"), 0,
                            count - 1)
        elif weights is None:
            index = self._order(count, total)
        else:  # the largest of log(u) / p are a sample without replacement (Efraimidis & Spirakis 2006)
            keys = xp.log(self._inverse((count,))) / xp.where(weights > 0, weights, 1.0)
            index = xp.argsort(xp.where(weights > 0, keys, -math.inf), descending=True)[:total]
        found = xp.take(array, index, axis=axis)
        place = axis_of(axis, array.ndim)
        return found.reshape((*array.shape[:place], *shape, *array.shape[place + 1:]))

    # --- counts ---

    def binomial(self, n: Any, p: Any, size: Size = None) -> Array:
        """How many of ``n`` trials succeed, each with probability ``p``. Evaluates ``n``, and takes time in proportion
        to its largest element."""
        trials, chance = array_of(n), floating(p)
        shape = _shape(size, trials, chance)
        most = int(trials.max()) if trials.size else 0
        drawn = self._uniform((*shape, most))
        counts = (drawn < chance[..., None]) & (xp.arange(most) < trials[..., None])
        return counts.sum(axis=-1) if most else xp.zeros(shape, dtype=xp.int64)

    def poisson(self, lam: Any = 1.0, size: Size = None) -> Array:
        """Numbers of the Poisson distribution with a mean: by inversion in a loop up to 700, rounded normal numbers
        above (with the correction of Cornish and Fisher)."""
        mean = floating(lam)
        shape = _shape(size, mean)
        rate = xp.broadcast_to(mean, shape)
        drawn, normal = self._uniform(shape), self._normal(shape)
        small = rate < 700
        rate_ = xp.where(small, rate, 1.0)
        term = xp.exp(-rate_)
        count = xp.zeros(shape)
        _, _, count = dr.while_loop(
            (term, drawn - term, count), lambda term, rest, count: (rest >= 0) & (term > 0),
            lambda term, rest, count: (term * rate_ / (count + 1), rest - term * rate_ / (count + 1), count + 1)) \
            if math.prod(shape) else (term, drawn, count)
        large = xp.floor(rate + xp.sqrt(xp.clip(rate, 0.0, None)) * normal + (normal * normal - 1) / 6 + 0.5)
        return xp.where(small, count, xp.clip(large, 0.0, None)).astype(xp.int64)

    def negative_binomial(self, n: Any, p: Any, size: Size = None) -> Array:
        """How many trials fail until ``n`` succeed, each with probability ``p``."""
        number, chance = xp.broadcast_arrays(floating(n), floating(p))
        return self.poisson(self.gamma(number, (1 - chance) / chance, size))

    def hypergeometric(self, ngood: Any, nbad: Any, nsample: Any, size: Size = None) -> Array:
        """How many of ``nsample`` balls are good that are taken from ``ngood`` good and ``nbad`` bad ones: by inversion
        in a loop, where the least probable number has a probability of 1e-300 at least, else rounded normal numbers."""
        good, bad, taken = xp.broadcast_arrays(floating(ngood), floating(nbad), floating(nsample))
        shape = _shape(size, good, bad, taken)
        good, bad, taken = (xp.broadcast_to(array, shape) for array in (good, bad, taken))
        if not math.prod(shape):
            return xp.zeros(shape, dtype=xp.int64)
        if decided(bool, ((good < 0) | (bad < 0) | (taken < 0) | (taken > good + bad)).any()):
            raise ValueError("'nsample' must be from 0 to the number of balls, and numbers must not be negative.")
        drawn, normal = self._uniform(shape), self._normal(shape)
        first, last = xp.clip(taken - bad, 0.0, None), xp.minimum(good, taken)
        chance = _log_choose(good, first) + _log_choose(bad, taken - first) - _log_choose(good + bad, taken)
        small = chance > -690
        term = xp.where(small, xp.exp(chance), 1.0)
        count, _, _ = dr.while_loop(
            (first, term, drawn - term), lambda count, term, rest: (rest >= 0) & (count < last) & small,
            lambda count, term, rest: (count + 1, *_next_of_balls(count, term, rest, good, bad, taken)))
        share = good / xp.clip(good + bad, 1.0, None)
        spread = taken * share * (1 - share) * (good + bad - taken) / xp.clip(good + bad - 1, 1.0, None)
        large = xp.clip(xp.round(taken * share + xp.sqrt(spread) * normal), first, last)
        return xp.where(small, count, large).astype(xp.int64)

    def multivariate_hypergeometric(self, colors: Any, nsample: int, size: Size = None,
                                    method: str = "marginals") -> Array:
        """How many balls of each colour there are among ``nsample`` that are taken from as many as ``colors`` says."""
        counts = array_of(colors).astype(xp.int64)
        if counts.ndim != 1:
            raise ValueError(f"'colors' must be a vector, found the shape {counts.shape}.")
        rest, left, found = counts.sum(), xp.asarray(operator.index(nsample)), []
        shape = _shape(size)
        for number in range(counts.size):
            rest = rest - counts[number]
            found.append(self.hypergeometric(counts[number], rest, left, shape))
            left = left - found[-1]
        return xp.stack(found, axis=-1) if found else xp.zeros((*shape, 0), dtype=xp.int64)

    def multinomial(self, n: Any, pvals: Any, size: Size = None) -> Array:
        """How many of ``n`` trials have each of several results, which have the probabilities ``pvals`` (the last one
        what is left). Evaluates ``n``."""
        chances, left = floating(pvals), array_of(n)
        shape = _shape(size, left, chances[..., 0])
        if decided(bool, chances[..., :-1].sum(axis=-1).max() > 1 + 1e-12):
            raise ValueError("the sum of 'pvals' but for the last one must not be larger than 1.")
        rest, found = xp.ones(shape), []
        left = xp.broadcast_to(left, shape)
        for number in range(chances.shape[-1] - 1):
            chance = chances[..., number]
            found.append(self.binomial(left, xp.clip(chance / xp.where(rest > 0, rest, 1.0), 0.0, 1.0), shape))
            rest, left = rest - chance, left - found[-1]
        return xp.stack([*found, left], axis=-1)

    def logseries(self, p: Any, size: Size = None) -> Array:
        """Numbers of the logarithmic series distribution (Kemp 1981, algorithm LK)."""
        chance = floating(p)
        shape = _shape(size, chance)
        first, second = self._inverse(shape), self._inverse(shape)
        base = -xp.expm1(first * xp.log1p(-chance))
        far = xp.floor(1 + xp.log(second) / xp.log(base))
        near = xp.where(second <= base * base, far, xp.where(second >= base, 1.0, 2.0))
        return xp.where(second >= chance, 1.0, near).astype(xp.int64)

    def zipf(self, a: Any, size: Size = None) -> Array:
        """Numbers of the Zipf distribution (Devroye 1986, p. 550): of candidates the first that is accepted."""
        power = floating(a)
        shape = _shape(size, power)
        if decided(bool, (power <= 1).any()):
            raise ValueError(f"'a' must be greater than 1, found {a!r}.")

        def candidate(stream: Any, less: Any) -> tuple[Any, Any]:
            drawn, other = stream.next_float64x2()
            number = dr.clip(dr.floor(dr.maximum(drawn, _LEAST) ** (-1 / less)), 1, 2.0 ** 53)
            ratio, base = (1 + 1 / number) ** less, dr.power(2.0, less)
            return other * number * (ratio - 1) / (base - 1) <= ratio / base, number

        return self._accepted(shape, candidate, power - 1).astype(xp.int64)

    def geometric(self, p: Any, size: Size = None) -> Array:
        """How many trials it takes until one succeeds, each with probability ``p``."""
        chance = floating(p)
        drawn = self._inverse(_shape(size, chance))
        return xp.clip(xp.ceil(xp.log(drawn) / xp.log1p(-chance)), 1.0, None).astype(xp.int64)

    # --- distributions of the gamma family ---

    def standard_gamma(self, shape: Any, size: Size = None, dtype: Any = None, out: Array | None = None) -> Array:
        """Numbers of the gamma distribution with a shape (Marsaglia & Tsang 2000): of candidates the first that is
        accepted."""
        alpha = floating(shape)
        wanted = _shape(size, alpha)
        alpha = xp.broadcast_to(alpha, wanted)
        less = alpha < 1
        d = xp.where(less, alpha + 1, alpha) - 1 / 3
        c = 1 / xp.sqrt(9 * d)
        few = d.device == "cpu" and 0 < math.prod(wanted) <= xp.policy.eager and dr.detail.in_plain_code()
        normal = self._accepted_now(on_host(d)) if few else self._accepted(wanted, _normal_of_gamma, d)
        found = d * (1 + c * normal) ** 3
        boost = self._inverse(wanted) ** (1 / xp.where(less, alpha, 1.0))
        found = xp.where(less, found * boost, found)
        return _into(out, found if dtype is None else found.astype(dtype))

    def _accepted(self, shape: tuple[int, ...], candidate: Callable[..., tuple[Any, Any]], *parameters: Array) -> Array:
        """For each element of a shape the first of its candidates that is accepted, which has no derivatives.

        ``candidate`` is given a ``Philox4x32`` and the parameters of the distribution as flat arrays; it returns
        whether it is accepted, and its value. A loop asks until it is, with another stream for each element and
        iteration.
        """
        count, real = math.prod(shape), dr.array_t(xp.float64.on(xp.policy.device))
        if not count:
            return xp.zeros(shape)
        rng: Any = self._rng()
        rng.random(real, 1)  # the next step, which no other number is drawn at in streams from 1 on
        state = rng.__drjit_children__()
        seed, step = state["seed"], dr.max(state["counter"]) if len(state["counter"]) > 1 else state["counter"]
        index, mask = dr.uint32_array_t(real), dr.mask_t(real)
        stream = importlib.import_module(real.__module__).Philox4x32
        lane = dr.arange(index, count)
        given = [dr.detach(xp.broadcast_to(array, shape).astype(xp.float64).tensor.array) for array in parameters]

        def body(left: Any, attempt: Any, value: Any) -> tuple[Any, Any, Any]:
            accepted, value = candidate(stream(seed, step, lane, attempt), *given)
            return left & ~accepted, attempt + 1, value

        _, _, value = dr.while_loop((dr.full(mask, True, count), index(1), dr.zeros(real, count)),
                                    lambda left, attempt, value: left, body, labels=("left", "attempt", "value"))
        return xp.asarray(value).reshape(shape)

    def _accepted_now(self, d: np.ndarray[Any, Any]) -> Array:
        own, left = self._own(), np.arange(d.size)
        scale = d.reshape(-1)
        found = np.empty(d.size)
        with np.errstate(all="ignore"):
            while left.size:
                normal, drawn, d_ = own.standard_normal(left.size), own.random(left.size), scale[left]
                cube = (1 + normal / np.sqrt(9 * d_)) ** 3
                accepted = np.log(drawn) < 0.5 * normal ** 2 + d_ * (1 - cube + np.log(cube))  # no NaN is less
                accepted |= ~np.isfinite(d_)
                found[left[accepted]] = normal[accepted]
                left = left[~accepted]
        return xp.asarray(found.reshape(d.shape))

    def gamma(self, shape: Any, scale: Any = 1.0, size: Size = None) -> Array:
        """Numbers of the gamma distribution with a shape and a scale."""
        alpha, factor = xp.broadcast_arrays(floating(shape), floating(scale))
        return self.standard_gamma(alpha, size) * factor

    def beta(self, a: Any, b: Any, size: Size = None) -> Array:
        """Numbers of the beta distribution."""
        first, second = xp.broadcast_arrays(floating(a), floating(b))
        x, y = self.standard_gamma(first, size), self.standard_gamma(second, size)
        return x / (x + y)

    def chisquare(self, df: Any, size: Size = None) -> Array:
        """Numbers of the chi-square distribution."""
        return 2.0 * self.standard_gamma(floating(df) / 2, size)

    def f(self, dfnum: Any, dfden: Any, size: Size = None) -> Array:
        """Numbers of the F distribution."""
        first, second = xp.broadcast_arrays(floating(dfnum), floating(dfden))
        return self.chisquare(first, size) * second / (self.chisquare(second, size) * first)

    def standard_t(self, df: Any, size: Size = None) -> Array:
        """Numbers of Student's distribution."""
        freedom = floating(df)
        shape = _shape(size, freedom)
        return self._normal(shape) * xp.sqrt(freedom / self.chisquare(freedom, shape))

    def noncentral_chisquare(self, df: Any, nonc: Any, size: Size = None) -> Array:
        """Numbers of the noncentral chi-square distribution: the square of a normal number beside a central one, and a
        mixture of such for one degree of freedom or less."""
        freedom, centre = xp.broadcast_arrays(floating(df), floating(nonc))
        shape = _shape(size, freedom)
        many = freedom > 1
        more = 2.0 * self.poisson(xp.where(many, 0.0, centre / 2), shape)
        normal = self._normal(shape) + xp.sqrt(centre)
        return self.chisquare(xp.where(many, freedom - 1, freedom + more)) + xp.where(many, normal * normal, 0.0)

    def noncentral_f(self, dfnum: Any, dfden: Any, nonc: Any, size: Size = None) -> Array:
        """Numbers of the noncentral F distribution."""
        first, second, centre = xp.broadcast_arrays(floating(dfnum), floating(dfden), floating(nonc))
        return self.noncentral_chisquare(first, centre, size) * second / (self.chisquare(second, size) * first)

    def wald(self, mean: Any, scale: Any, size: Size = None) -> Array:
        """Numbers of the inverse Gaussian distribution (Michael, Schucany & Haas 1976)."""
        centre, width = xp.broadcast_arrays(floating(mean), floating(scale))
        shape = _shape(size, centre)
        normal, drawn = self._normal(shape), self._uniform(shape)
        square = centre * normal * normal
        root = centre + centre * (square - xp.sqrt(square * (4 * width + square))) / (2 * width)
        return xp.where(drawn * (centre + root) <= centre, root, centre * centre / root)

    def vonmises(self, mu: Any, kappa: Any, size: Size = None) -> Array:
        """Angles of the von Mises distribution (Best & Fisher 1979), from -pi to pi: of candidates the first that is
        accepted."""
        centre, concentration = xp.broadcast_arrays(floating(mu), floating(kappa))
        shape = _shape(size, centre)
        k = xp.clip(concentration, 1e-6, None)  # at which angles are all alike to six digits
        tau = 1 + xp.sqrt(1 + 4 * k * k)
        rho = (tau - xp.sqrt(2 * tau)) / (2 * k)
        r = (1 + rho * rho) / (2 * rho)

        def candidate(stream: Any, k: Any, r: Any) -> tuple[Any, Any]:
            drawn, other = stream.next_float64x2()
            z = dr.cos(math.pi * drawn)
            c = k * (r - (1 + r * z) / (r + z))
            u = dr.maximum(other, _LEAST)
            return (c * (2 - c) > u) | (dr.log(c / u) + 1 - c >= 0) | dr.isnan(c), z

        z = self._accepted(shape, candidate, k, r)
        angle = xp.acos(xp.clip((1 + r * z) / (r + z), -1.0, 1.0)) * xp.where(self._uniform(shape) < 0.5, -1.0, 1.0)
        return xp.remainder(angle + centre + math.pi, 2 * math.pi) - math.pi

    def dirichlet(self, alpha: Any, size: Size = None) -> Array:
        """Vectors of the Dirichlet distribution, whose elements have the sum 1."""
        weights = floating(alpha)
        found = self.standard_gamma(weights, (*_shape(size), *weights.shape))
        return found / found.sum(axis=-1, keepdims=True)


#: In place of uniform numbers that are 0, which have no logarithm.
_LEAST = 2.0 ** -54


def _normal_of_gamma(stream: Any, d: Any) -> tuple[Any, Any]:
    """The normal number that a number of the gamma distribution is made of (Marsaglia & Tsang 2000), of two candidates:
    one is accepted in 95 % of all cases at least. Where there is no distribution, any is."""
    normal, drawn = stream.next_float64x2_normal(), stream.next_float64x2()
    c = dr.rcp(dr.sqrt(9 * d))
    accepted = []
    for number, uniform in zip(normal, drawn, strict=True):
        cube = (1 + c * number) ** 3
        accepted.append(dr.log(dr.maximum(uniform, _LEAST)) < 0.5 * number * number + d * (1 - cube + dr.log(cube)))
    return accepted[0] | accepted[1] | ~(dr.isfinite(d) & (d > 0)), dr.select(accepted[0], normal[0], normal[1])


def _require_probabilities(p: Any) -> None:
    if not np.all(p >= 0) or abs(float(p.sum()) - 1) > math.sqrt(np.finfo(p.dtype).eps):
        raise ValueError(f"'p' must be probabilities, which are not negative and have the sum 1, found the sum "
                         f"{float(p.sum())} and {float(p.min())} as the least.")


def _log_choose(n: Array, k: Array) -> Array:
    """The logarithm of the number of ways to choose k of n."""
    return xp.special.gammaln(n + 1) - xp.special.gammaln(k + 1) - xp.special.gammaln(n - k + 1)


def _next_of_balls(count: Array, term: Array, rest: Array, good: Array, bad: Array,
                   taken: Array) -> tuple[Array, Array]:
    """The probability of one good ball more among those that are taken, and what is left of a uniform number then."""
    following = term * (good - count) * (taken - count) / ((count + 1) * (bad - taken + count + 1))
    return following, rest - following


def _into(out: Array | None, found: Array) -> Array:
    if out is None:
        return found
    out[...] = found.astype(out.dtype)
    return out


#: Distributions by the inverse of their distribution function: parameters with defaults, the formula, what it is.
_INVERSE: dict[str, tuple[dict[str, Any], Callable[..., Array], str]] = {
    "exponential": ({"scale": 1.0}, lambda u, scale: -scale * xp.log1p(-u), "the exponential distribution"),
    "laplace": ({"loc": 0.0, "scale": 1.0}, lambda u, loc, scale: loc - scale * xp.sign(u - 0.5) * xp.log1p(
        -2 * xp.abs(u - 0.5)), "the Laplace distribution"),
    "logistic": ({"loc": 0.0, "scale": 1.0}, lambda u, loc, scale: loc + scale * xp.special.logit(u),
                 "the logistic distribution"),
    "gumbel": ({"loc": 0.0, "scale": 1.0}, lambda u, loc, scale: loc - scale * xp.log(-xp.log(u)),
               "the Gumbel distribution"),
    "rayleigh": ({"scale": 1.0}, lambda u, scale: scale * xp.sqrt(-2 * xp.log1p(-u)), "the Rayleigh distribution"),
    "standard_cauchy": ({}, lambda u: xp.tan(math.pi * (u - 0.5)), "the Cauchy distribution"),
    "weibull": ({"a": None}, lambda u, a: (-xp.log1p(-u)) ** (1 / a), "the Weibull distribution"),
    "pareto": ({"a": None}, lambda u, a: xp.expm1(-xp.log1p(-u) / a), "the Lomax distribution"),
    "power": ({"a": None}, lambda u, a: u ** (1 / a), "the power distribution, from 0 to 1"),
    "triangular": ({"left": None, "mode": None, "right": None}, lambda u, left, mode, right: xp.where(
        u * (right - left) < mode - left, left + xp.sqrt(u * (right - left) * (mode - left)),
        right - xp.sqrt((1 - u) * (right - left) * (right - mode))), "the triangular distribution"),
}


def _drawn_by(name: str) -> Any:
    parameters, formula, text = _INVERSE[name]
    names = (*parameters, "size")

    def method(self: Generator, *args: Any, **kwargs: Any) -> Array:
        if len(args) > len(names) or set(kwargs) - set(names) or set(names[:len(args)]) & set(kwargs):
            raise TypeError(f"takes the arguments {', '.join(names)}.")
        given = parameters | dict(zip(names, args, strict=False)) | kwargs
        size = given.pop("size", None)
        lacking = [parameter for parameter, value in given.items() if value is None]
        if lacking:
            raise TypeError(f"{', '.join(map(repr, lacking))} must be given.")
        values = [floating(value) for value in given.values()]
        return formula(self._inverse(_shape(size, *values)), *values)

    method.__name__, method.__qualname__ = name, f"Generator.{name}"
    method.__doc__ = f"Numbers of {text}, by the inverse of its distribution function."
    return method


#: In place of arguments that are large or tracked.
_MANY = object()


#: Methods whose few numbers are NumPy's: those whose parameters shift and scale numbers in the same way, and such as
#: have no derivatives.
_SHIFTED = {"lognormal", "normal", "random", "standard_normal", "uniform"}
_AT_ONCE = _SHIFTED | {"binomial", "choice", "geometric", "hypergeometric", "integers", "logseries", "multinomial",
                       "multivariate_hypergeometric", "negative_binomial", "permutation", "permuted", "poisson", "zipf"}


def _given(value: Any, most: int, tracked: bool) -> Any:
    """An argument for NumPy's generator."""
    if isinstance(value, Array):
        many = value.size > most or value.device != "cpu" or not tracked and xp.is_tracked(value)
        return _MANY if many else on_host(value)
    if isinstance(value, xp.DType):
        return np.dtype(value.name)
    return _MANY if isinstance(value, dr.ArrayBase) or isinstance(value, np.ndarray) and value.size > most else value


def _is_few(size: Any, most: int) -> bool:
    """Whether a shape is one of few elements."""
    if isinstance(size, (tuple, list)) and all(isinstance(entry, int) for entry in size):
        size = math.prod(size)
    return isinstance(size, int) and size <= most


def _drawn_at_once(name: str, method: Any) -> Any:
    """A method that draws few numbers by the one of NumPy's generators that has its name."""
    parameters = list(inspect.signature(method).parameters)[1:]
    place = parameters.index("size" if "size" in parameters else "x")
    last = parameters.index("out") if "out" in parameters else len(parameters)

    @functools.wraps(method)
    def called(self: Generator, *args: Any, **kwargs: Any) -> Any:
        found = self._few(name, place, args, kwargs) if len(args) <= last else None
        return method(self, *args, **kwargs) if found is None else found

    return called


def _checked(name: str, method: Any) -> Any:
    """A method whose parameters are looked at before."""
    names = list(_INVERSE[name][0]) if name in _INVERSE else list(inspect.signature(method).parameters)[1:]
    names = names[:names.index("size")] if "size" in names else names

    @functools.wraps(method)
    def called(self: Generator, *args: Any, **kwargs: Any) -> Any:
        self._check(name, dict(zip(names, args, strict=False)) | {key: kwargs[key] for key in names if key in kwargs})
        return method(self, *args, **kwargs)

    return called


#: Methods whose parameters are vectors, and those that check theirs, or have none.
_OF_VECTORS = {"dirichlet", "multinomial", "multivariate_hypergeometric", "multivariate_normal"}
_OWN_CHECKS = {"bytes", "choice", "integers", "permutation", "permuted", "random", "shuffle", "spawn",
               "standard_cauchy", "standard_exponential", "standard_normal"}
#: Draws nothing.
_NOTHING = np.random.default_rng(0)


for _name in _INVERSE:
    setattr(Generator, _name, _drawn_by(_name))
for _name, _method in list(vars(Generator).items()):
    if not _name.startswith("_") and inspect.isfunction(_method):
        _called = _method if _name in _OWN_CHECKS else _checked(_name, _method)
        _called = named(f"drjit.numpy.random.Generator.{_name}")(_called)
        setattr(Generator, _name, _drawn_at_once(_name, _called) if _name in _AT_ONCE else _called)


@named("drjit.numpy.random.default_rng")
def default_rng(seed: Any = None) -> Generator:
    """A generator; with another stream for each seed, an integer, and one that cannot be repeated without it."""
    if isinstance(seed, Generator):
        return seed
    if isinstance(seed, (list, tuple, np.ndarray)):
        found = Generator(int(np.random.SeedSequence(seed).generate_state(1, np.uint64)[0]) >> 2)
        found._of_numpy = np.random.default_rng(seed)
        return found
    return Generator(secrets.randbits(62) if seed is None else seed)


# --- functions of one generator --------------------------------------------------------------------------------------

_of_module = [Generator(secrets.randbits(62))]
#: Names of functions, and the methods that they are.
_FUNCTIONS = {name: name for name in (
    "beta", "binomial", "bytes", "chisquare", "choice", "dirichlet", "exponential", "f", "gamma", "geometric", "gumbel",
    "hypergeometric", "laplace", "logistic", "lognormal", "logseries", "multinomial", "multivariate_normal",
    "negative_binomial", "noncentral_chisquare", "noncentral_f", "normal", "pareto", "permutation", "poisson", "power",
    "random", "rayleigh", "shuffle", "standard_cauchy", "standard_exponential", "standard_gamma", "standard_normal",
    "standard_t", "triangular", "uniform", "vonmises", "wald", "weibull", "zipf")} | {
        "random_sample": "random", "ranf": "random", "sample": "random", "randint": "integers"}


@named("drjit.numpy.random.seed")
def seed(seed: int | None = None) -> None:
    """Restart the generator whose numbers the functions of this module are."""
    _of_module[0] = Generator(secrets.randbits(62) if seed is None else seed)


@named("drjit.numpy.random.rand")
def rand(*shape: int) -> Array:
    """Numbers from 0 to 1, which is left out, in a shape. Lazy."""
    return _of_module[0].random(shape or None)


@named("drjit.numpy.random.randn")
def randn(*shape: int) -> Array:
    """Numbers of the normal distribution with mean 0 and deviation 1, in a shape. Lazy."""
    return _of_module[0].standard_normal(shape or None)


def _function(name: str, method: str) -> Any:
    def function(*args: Any, **kwargs: Any) -> Any:
        return getattr(_of_module[0], method)(*args, **kwargs)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = getattr(Generator, method).__doc__
    return named(f"drjit.numpy.random.{name}")(function)


class RandomState(Generator):
    """A generator with the names of NumPy's earlier ones: ``rand``, ``randn``, ``randint``."""

    def rand(self, *shape: int) -> Array:
        """Numbers from 0 to 1, which is left out, in a shape."""
        return self.random(shape or None)

    def randn(self, *shape: int) -> Array:
        """Numbers of the normal distribution with mean 0 and deviation 1, in a shape."""
        return self.standard_normal(shape or None)

    randint = Generator.integers
    random_sample = Generator.random


globals().update({name: _function(name, method) for name, method in _FUNCTIONS.items()})
__all__.extend(["rand", "randn", *_FUNCTIONS])


def __getattr__(name: str) -> Any:
    raise missing(__name__, name, __all__)


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)
