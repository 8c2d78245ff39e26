"""Twelve ordinary NumPy scripts from one source: ``np`` is ``numpy``, ``drjit.numpy`` or ``jax.numpy``.

Each function gets the module, random numbers of NumPy, and its sizes, and returns an array that depends on all it has
done. Nothing is written to in place, since the arrays of JAX cannot be.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy

__all__ = ["SCRIPTS", "Script"]


def k_means(np: Any, rng: numpy.random.Generator, points: int, dimensions: int, clusters: int, steps: int) -> Any:
    """Lloyd's algorithm."""
    x = np.asarray(rng.normal(size=(points, dimensions)) + rng.integers(0, 3, (points, 1)) * 3)
    centres = x[:clusters]
    for _ in range(steps):
        distances = np.sum((x[:, None, :] - centres[None, :, :]) ** 2, axis=2)
        labels = np.argmin(distances, axis=1)
        chosen = (labels[:, None] == np.arange(clusters)[None, :]) * 1.0
        counts = np.sum(chosen, axis=0)
        centres = (chosen.T @ x) / np.maximum(counts, 1)[:, None]
    return centres


def image_filter(np: Any, rng: numpy.random.Generator, size: int, steps: int) -> Any:
    """Repeated smoothing of the inside of an image."""
    image = np.asarray(rng.random((size, size)))
    for _ in range(steps):
        inside = (image[:-2, 1:-1] + image[2:, 1:-1] + image[1:-1, :-2] + image[1:-1, 2:] + 4 * image[1:-1, 1:-1]) / 8
        image = np.pad(inside, 1, mode="edge")
    return image


def kalman(np: Any, rng: numpy.random.Generator, steps: int, tracks: int) -> Any:
    """A Kalman filter of position and speed, for several tracks at once."""
    transition, observed = np.asarray([[1.0, 0.1], [0.0, 1.0]]), np.asarray([[1.0, 0.0]])
    process, noise = np.eye(2) * 1e-3, np.asarray([[0.1]])
    state = np.zeros((2, tracks))
    covariance = np.eye(2)
    measured = np.asarray(numpy.sin(numpy.arange(steps) * 0.1)[:, None, None] + rng.normal(size=(steps, 1, tracks)))
    estimates = []
    for k in range(steps):
        state = transition @ state
        covariance = transition @ covariance @ transition.T + process
        innovation = measured[k] - observed @ state
        gain = covariance @ observed.T @ np.linalg.inv(observed @ covariance @ observed.T + noise)
        state = state + gain @ innovation
        covariance = (np.eye(2) - gain @ observed) @ covariance
        estimates.append(state[0])
    return np.stack(estimates)


def life(np: Any, rng: numpy.random.Generator, size: int, steps: int) -> Any:
    """Conway's game of life on a torus."""
    cells = np.asarray(rng.integers(0, 2, (size, size)))
    for _ in range(steps):
        near = sum(np.roll(np.roll(cells, i, axis=0), j, axis=1) for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j)
        cells = np.where((near == 3) | ((cells == 1) & (near == 2)), 1, 0)
    return cells


def logistic_regression(np: Any, rng: numpy.random.Generator, rows: int, columns: int, steps: int) -> Any:
    """Gradient descent until the gradient is small."""
    x = np.asarray(rng.normal(size=(rows, columns)))
    y = np.asarray((rng.random(rows) > 0.5) * 1.0)
    weights = np.zeros(columns)
    for _ in range(steps):
        predicted = 1 / (1 + np.exp(-(x @ weights)))
        gradient = x.T @ (predicted - y) / rows
        weights = weights - 0.5 * gradient
        if float(np.max(np.abs(gradient))) < 1e-9:
            break
    return weights


def fft_filter(np: Any, rng: numpy.random.Generator, samples: int, steps: int) -> Any:
    """A low pass in the frequency domain."""
    signal = np.asarray(rng.normal(size=samples))
    kept = 1 / (1 + (np.fft.rfftfreq(samples) * 20) ** 2)
    for _ in range(steps):
        signal = np.fft.irfft(np.fft.rfft(signal) * kept, n=samples)
        signal = signal / np.std(signal)
    return signal


def least_squares(np: Any, rng: numpy.random.Generator, rows: int, degree: int) -> Any:
    """A polynomial through noisy samples, by the normal equations and by orthogonal factors."""
    t = np.asarray(numpy.sort(rng.uniform(-1, 1, rows)))
    y = np.sin(3 * t) + 0.1 * np.asarray(rng.normal(size=rows))
    design = np.stack([t ** k for k in range(degree)], axis=1)
    normal = np.linalg.solve(design.T @ design, design.T @ y)
    q, r = np.linalg.qr(design)
    return np.stack([normal, np.linalg.solve(r, q.T @ y)])


def gaussian_process(np: Any, rng: numpy.random.Generator, samples: int, places: int) -> Any:
    """The mean and the deviation of a regression with a squared exponential kernel."""
    x = np.asarray(numpy.sort(rng.uniform(0, 5, samples)))
    y = np.sin(x) + 0.1 * np.asarray(rng.normal(size=samples))
    where = np.linspace(0, 5, places)

    def kernel(a: Any, b: Any) -> Any:
        return np.exp(-0.5 * (a[:, None] - b[None, :]) ** 2 / 0.5 ** 2)

    factor = np.linalg.cholesky(kernel(x, x) + 0.01 * np.eye(samples))
    weights = np.linalg.solve(factor.T, np.linalg.solve(factor, y))
    across = kernel(where, x)
    rest = np.linalg.solve(factor, across.T)
    return np.stack([across @ weights, np.sqrt(np.maximum(1 - np.sum(rest ** 2, axis=0), 0))])


def lattice_boltzmann(np: Any, rng: numpy.random.Generator, size: int, steps: int) -> Any:
    """A decaying flow on a torus: D2Q9 with a single relaxation time."""
    shifts = [(0, 0), (1, 0), (0, 1), (-1, 0), (0, -1), (1, 1), (-1, 1), (-1, -1), (1, -1)]
    weights = [4 / 9] + [1 / 9] * 4 + [1 / 36] * 4

    def equilibrium(density: Any, u: Any, v: Any) -> list[Any]:
        square = 1.5 * (u * u + v * v)
        found = []
        for (i, j), weight in zip(shifts, weights, strict=True):
            along = 3 * (i * u + j * v)
            found.append(density * weight * (1 + along + 0.5 * along * along - square))
        return found

    u = np.asarray(0.1 * numpy.sin(2 * math.pi * numpy.arange(size) / size))[None, :] + np.zeros((size, size))
    v = np.asarray(0.01 * rng.normal(size=(size, size)))
    parts = equilibrium(np.ones((size, size)), u, v)
    for _ in range(steps):
        parts = [np.roll(np.roll(part, i, axis=0), j, axis=1) for part, (i, j) in zip(parts, shifts, strict=True)]
        density = sum(parts)
        u = sum(part * i for part, (i, _) in zip(parts, shifts, strict=True) if i) / density
        v = sum(part * j for part, (_, j) in zip(parts, shifts, strict=True) if j) / density
        parts = [part + (other - part) / 0.6 for part, other in
                 zip(parts, equilibrium(density, u, v), strict=True)]
    return np.stack([u, v])


def n_body(np: Any, rng: numpy.random.Generator, bodies: int, steps: int) -> Any:
    """Bodies that attract each other, by the leapfrog method."""
    place, speed = np.asarray(rng.normal(size=(bodies, 3))), np.asarray(0.1 * rng.normal(size=(bodies, 3)))
    mass = np.asarray(rng.uniform(0.5, 1.5, bodies) / bodies)

    def acceleration(place: Any) -> Any:
        apart = place[None, :, :] - place[:, None, :]
        squares = np.sum(apart ** 2, axis=2) + 0.01
        return np.sum(apart * (mass[None, :] / (squares * np.sqrt(squares)))[:, :, None], axis=1)

    force = acceleration(place)
    for _ in range(steps):
        speed = speed + 0.005 * force
        place = place + 0.01 * speed
        force = acceleration(place)
        speed = speed + 0.005 * force
    return np.concatenate([place, speed])


def option_pricing(np: Any, rng: numpy.random.Generator, paths: int, steps: int) -> Any:
    """An Asian option by simulated paths, beside the formula of Black and Scholes for a European one."""
    rate, volatility, strike, span = 0.03, 0.2, 100.0, 1 / steps
    price = np.full(paths, 100.0)
    total = np.zeros(paths)
    for _ in range(steps):
        noise = np.asarray(rng.normal(size=paths))
        price = price * np.exp((rate - 0.5 * volatility ** 2) * span + volatility * math.sqrt(span) * noise)
        total = total + price
    asian = math.exp(-rate) * np.mean(np.maximum(total / steps - strike, 0))
    spot = np.linspace(80, 120, paths)
    first = (np.log(spot / strike) + rate + 0.5 * volatility ** 2) / volatility
    below, above = (1 / (1 + np.exp(-1.702 * x)) for x in (first - volatility, first))
    return np.stack([asian, np.mean(spot * above - strike * math.exp(-rate) * below)])


def principal_components(np: Any, rng: numpy.random.Generator, rows: int, columns: int, kept: int) -> Any:
    """Principal components by the covariance, and what is lost by keeping a few."""
    x = np.asarray(rng.normal(size=(rows, columns)) @ rng.normal(size=(columns, columns)))
    centred = x - np.mean(x, axis=0)
    values, vectors = np.linalg.eigh(centred.T @ centred / (rows - 1))
    basis = vectors[:, -kept:]
    lost = np.mean((centred - (centred @ basis) @ basis.T) ** 2)
    return np.concatenate([values, lost[None]])


class Script(NamedTuple):
    """A script, with its sizes when it is small and large."""

    run: Callable[..., Any]
    small: tuple[int, ...]
    large: tuple[int, ...]


SCRIPTS = {script.run.__name__: script for script in (
    Script(k_means, (300, 2, 4, 20), (100_000, 8, 8, 20)),
    Script(image_filter, (32, 30), (1024, 30)),
    Script(kalman, (300, 1), (300, 10_000)),
    Script(life, (32, 30), (1024, 20)),
    Script(logistic_regression, (1000, 8, 50), (100_000, 50, 50)),
    Script(fft_filter, (1024, 20), (1_000_000, 5)),
    Script(least_squares, (200, 6), (200_000, 8)),
    Script(gaussian_process, (60, 100), (1000, 1000)),
    Script(lattice_boltzmann, (32, 20), (256, 20)),
    Script(n_body, (30, 20), (1000, 10)),
    Script(option_pricing, (1000, 12), (1_000_000, 12)),
    Script(principal_components, (300, 6, 2), (100_000, 50, 5)),
)}
