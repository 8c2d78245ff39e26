"""Differentiable operations as lines of Python, and points where they are differentiated.

Needs nothing but NumPy: modules and types are arguments of what runs the lines, so that other interpreters can, too.
"""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["OPERATIONS", "TYPES", "points"]

Array = np.ndarray[Any, Any]
#: Types by their names.
TYPES = {"Float16": np.float16, "Float": np.float32, "Float64": np.float64}

#: Functions of ``x``, element by element.
_UNARY = {f"dr.{name}(x)": 1 for name in (
    "sin", "cos", "tan", "cot", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "exp",
    "exp2", "log", "log2", "sqrt", "rsqrt", "rcp", "cbrt", "abs", "square", "erf", "erfc", "erfinv", "lgamma", "sign",
    "floor", "ceil", "round", "trunc", "safe_sqrt", "safe_asin", "safe_acos", "rad2deg", "deg2rad")}
_UNARY |= dict.fromkeys(("dr.sincos(x)[0]", "dr.sincos(x)[1]", "dr.sincosh(x)[0]", "dr.sincosh(x)[1]", "-x", "x ** 2",
                        "x ** 3", "x ** -1", "x ** 0.5", "x ** 0", "2 / x", "1 - x"), 1)
#: Of ``x`` and ``y``.
_BINARY = dict.fromkeys((
    "x + y", "x - y", "x * y", "x / y", "x ** y", "dr.power(x, y)", "dr.atan2(x, y)", "dr.hypot(x, y)",
    "dr.minimum(x, y)", "dr.maximum(x, y)", "dr.copysign(x, y)", "dr.mulsign(x, y)", "dr.select(x > y, x, y)",
    "dr.clip(x, -1, y)"), 2)
#: Of ``x``, ``y`` and ``z``.
_TERNARY = dict.fromkeys(("dr.fma(x, y, z)", "dr.lerp(x, y, z)", "dr.clip(x, y, z)", "dr.select(x > 0, y, z)"), 3)
#: All of them, and how many operands they have.
OPERATIONS = _UNARY | _BINARY | _TERNARY


def points(operands: int, dtype: Any, seed: int = 0) -> list[Array]:
    """Operands: all combinations of special numbers, and random ones; an array for each operand."""
    info = np.finfo(dtype)
    ends = [0.0, 1.0, float("inf"), float(info.max), float(info.smallest_subnormal), float(info.tiny)]
    more = [0.5, 2.0, 3.0, 1 - float(info.epsneg), 1 + float(info.eps), float(info.max) ** 0.5, float(info.tiny) ** 0.5]
    special = [sign * value for value in (ends + more if operands < 3 else ends[:3] + more[:2]) for sign in (1, -1)]
    special.append(float("nan"))
    grid = np.meshgrid(*[np.array(special)] * operands, indexing="ij")
    source = np.random.default_rng([seed, operands])
    drawn = [np.concatenate([source.uniform(-1, 1, 50), source.normal(0, 3, 50), np.exp(source.uniform(-4, 4, 50))])
             for _ in range(operands)]
    return [np.concatenate([a.ravel(), source.permutation(b)]).astype(dtype) for a, b in zip(grid, drawn, strict=True)]
