"""Reductions of 32M elements: of arrays in memory, and of expressions of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from measure import case, main, median_seconds, scaled

import drjit as dr
from drjit.llvm import Float

SIZE = scaled(1 << 25)
x = dr.arange(Float, SIZE) * (2 / SIZE) + 0.5
y = 1.5 - dr.arange(Float, SIZE) * (1 / SIZE)
dr.eval(x, y)


def measured(function: Callable[[], list[Any]], scale: float = 1.0) -> tuple[float, float]:
    """Seconds until all results are there, and their weighted sum."""

    def once() -> None:
        dr.eval(*function())
        dr.sync_thread()

    seconds = median_seconds(once, 11)
    return seconds, sum((k + 1) * float(value[0]) * scale for k, value in enumerate(function()))


@case("sum(x) of 32M", nbytes=4 * SIZE)
def _total() -> tuple[float, float]:
    return measured(lambda: [dr.sum(x)], 1 / SIZE)


@case("sum(x * y) of 32M", nbytes=8 * SIZE)
def _total_of_product() -> tuple[float, float]:
    return measured(lambda: [dr.sum(x * y)], 1 / SIZE)


@case("mean and variance of an expression, 32M", nbytes=16 * SIZE)
def _mean_and_variance() -> tuple[float, float]:
    def moments() -> list[Any]:
        e = x * x + y
        mean = dr.mean(e)
        deviation = e - mean
        return [mean, dr.mean(deviation * deviation)]

    return measured(moments)


@case("min and max of an expression, 32M", nbytes=8 * SIZE)
def _minimum_and_maximum() -> tuple[float, float]:
    def extremes() -> list[Any]:
        e = x * y - x
        return [dr.min(e), dr.max(e)]

    return measured(extremes)


@case("max(x) of 32M", nbytes=4 * SIZE)
def _maximum() -> tuple[float, float]:
    return measured(lambda: [dr.max(x)])


@case("dot(x, y) of 32M", nbytes=8 * SIZE)
def _dot() -> tuple[float, float]:
    return measured(lambda: [dr.dot(x, y)], 1 / SIZE)


if __name__ == "__main__":
    main()
