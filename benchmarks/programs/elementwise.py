"""Elementwise kernels: bound by memory (axpy) and by arithmetic (a chain of five functions)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from measure import case, main, median_seconds, scaled

import drjit as dr
from drjit.llvm import Float, Float64

LARGE, SMALL, MIDDLE = scaled(1 << 25), scaled(1 << 18), scaled(1 << 23)


def ramp(dtype: type, size: int) -> Any:
    """Evaluated values between 1/2 and 5/2."""
    result = dr.arange(dtype, size) * (2 / size) + 0.5
    dr.eval(result)
    return result


def measured(function: Callable[[], Any], repeats: int) -> tuple[float, float]:
    """Seconds of one evaluation, and the mean of the result."""

    def once() -> Any:
        result = function()
        dr.eval(result)
        dr.sync_thread()

    seconds = median_seconds(once, repeats)
    result = function()
    return seconds, float(dr.sum(result)[0]) / dr.width(result)


@case("axpy of 32M", nbytes=12 * LARGE, flops=2 * LARGE)
def _axpy_large() -> tuple[float, float]:
    x, y = ramp(Float, LARGE), ramp(Float, LARGE) + 0
    y = y * 0.5
    dr.eval(y)
    return measured(lambda: 2.5 * x + y, 15)


@case("axpy of 256k", nbytes=12 * SMALL, flops=2 * SMALL)
def _axpy_small() -> tuple[float, float]:
    x, y = ramp(Float, SMALL), ramp(Float, SMALL) * 0.5
    dr.eval(y)
    return measured(lambda: 2.5 * x + y, 301)


def functions(x: Any) -> Any:
    """Five functions, one of the other."""
    return dr.sqrt(dr.exp(dr.sin(dr.cos(dr.log(x)))))


@case("sqrt exp sin cos log of 8M, float32", nbytes=8 * MIDDLE)
def _functions_single() -> tuple[float, float]:
    x = ramp(Float, MIDDLE)
    return measured(lambda: functions(x), 15)


@case("sqrt exp sin cos log of 8M, float64", nbytes=16 * MIDDLE, tolerance=1e-10)
def _functions_double() -> tuple[float, float]:
    x = ramp(Float64, MIDDLE)
    return measured(lambda: functions(x), 15)


if __name__ == "__main__":
    main()
