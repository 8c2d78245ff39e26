"""Each elementwise function on 8M elements, in single and double precision."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from measure import case, main, median_seconds, scaled

import drjit as dr
from drjit.llvm import Float, Float64

SIZE = scaled(1 << 23)
#: Arguments are evenly spaced between these.
RANGES: dict[str, tuple[float, float]] = {
    "sin": (-100, 100), "cos": (-100, 100), "sincos": (-100, 100), "tan": (-100, 100),
    "asin": (-1, 1), "acos": (-1, 1), "atan": (-5, 5), "atan2": (-5, 5),
    "sinh": (-10, 10), "cosh": (-10, 10), "sincosh": (-10, 10), "tanh": (-10, 10),
    "asinh": (-30, 30), "acosh": (1, 10), "atanh": (-0.99, 0.99),
    "exp": (-20, 30), "exp2": (-20, 30), "log": (0.01, 1000), "log2": (0.01, 1000), "power": (0.01, 10),
    "erf": (-3, 3), "erfinv": (-0.99999, 0.99999), "lgamma": (0.1, 20), "cbrt": (-8, 8), "hypot": (-5, 5),
    "sqrt": (0.01, 10), "rsqrt": (0.01, 10), "rcp": (0.01, 10),
}
BINARY = {"atan2": 0.75, "hypot": 0.75, "power": 1.5}  # the second operand, or the exponent


def register(name: str, dtype: type, label: str) -> None:
    """Add the case of one function and precision."""
    low, high = RANGES[name]
    itemsize, results = (4 if dtype is Float else 8), (2 if name.startswith("sinc") else 1)

    @case(f"{name} of 8M, {label}", nbytes=(1 + results) * itemsize * SIZE, tolerance=2e-3)
    def _run() -> tuple[float, float]:
        x = dr.arange(dtype, SIZE) * ((high - low) / SIZE) + (low + 0.25 * (high - low) / SIZE)
        dr.eval(x)
        function: Callable[..., Any] = getattr(dr, name)
        arguments = (x, dtype(BINARY[name])) if name in BINARY else (x,)

        def once() -> Any:
            result = function(*arguments)
            dr.eval(result)
            dr.sync_thread()
            return result

        seconds = median_seconds(once, 9)
        result = once()
        parts = result if isinstance(result, tuple) else (result,)
        return seconds, sum(float(dr.sum(dr.abs(part))[0]) for part in parts) / SIZE


for _name in RANGES:
    for _dtype, _label in ((Float, "float32"), (Float64, "float64")):
        register(_name, _dtype, _label)

if __name__ == "__main__":
    main()
