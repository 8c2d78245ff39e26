"""What may differ between the derivatives here and those of Dr.Jit's wheel, and why; see ``operation_gradients.py``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import mpmath
import numpy as np
from operations import TYPES

__all__ = ["KNOWN", "MISSING", "Known", "Point", "equal"]

Array = np.ndarray[Any, Any]
#: Relative differences that are rounding.
PRECISION = {"Float16": 8e-3, "Float": 2e-6, "Float64": 1e-13}


def equal(a: Array, b: Array, name: str) -> Array:
    """Elements that are the same but for rounding."""
    least = float(np.finfo(TYPES[name]).tiny) * 4
    with np.errstate(invalid="ignore", over="ignore"):
        near = np.abs(a - b) <= PRECISION[name] * np.maximum(np.abs(a), np.abs(b)) + least
    return (a == b) | (np.isnan(a) & np.isnan(b)) | near


class Point(NamedTuple):
    """Elements that differ: the derivatives with respect to an operand, the values, and all operands."""

    mine: Array
    theirs: Array
    value: Array
    other_value: Array
    position: int
    name: str
    operands: list[Array]


class Known(NamedTuple):
    """Why some elements differ: operations (none: any), and which elements."""

    reason: str
    operations: tuple[str, ...]
    test: Callable[[Point], Array]


def _over(function: Callable[[Any], Any]) -> Callable[..., Array]:
    """A function of mpmath for arrays; NaN where it has no value."""
    def exact(x: Any) -> float:
        try:
            return float(mpmath.re(function(mpmath.mpf(float(x)))))
        except (ValueError, ZeroDivisionError, OverflowError, mpmath.libmp.NoConvergence):
            return float("nan")

    return np.vectorize(exact, otypes=[float])


def _clipped(x: Array, low: Array, high: Array) -> tuple[Array, Array, Array]:
    """Of ``maximum(minimum(x, high), low)``, where a tie goes to ``x`` first and to ``low`` then."""
    inside = np.where(x <= high, x, high)
    return (x <= high) & (inside > low), ~(inside > low), ~(x <= high) & (inside > low)


def _power(x: Array, y: Array) -> tuple[Array, Array]:
    power = np.power(x, y)
    return y * np.power(x, y - 1), np.where(power == 0, 0, power * np.log(x))


#: Derivatives with respect to each operand.
EXACT: dict[str, Callable[..., Any]] = {
    "dr.sin(x)": _over(mpmath.cos), "dr.cos(x)": _over(lambda x: -mpmath.sin(x)),
    "dr.tan(x)": _over(lambda x: 1 / mpmath.cos(x) ** 2), "dr.asinh(x)": lambda x: 1 / np.hypot(1, x),
    "dr.acosh(x)": lambda x: 1 / np.sqrt(x - 1) / np.sqrt(x + 1),
    "dr.erfinv(x)": _over(lambda x: mpmath.exp(mpmath.erfinv(x) ** 2) * mpmath.sqrt(mpmath.pi) / 2),
    # the wheel clips within the domain, at its last number, of which there is no derivative then
    "dr.safe_sqrt(x)": lambda x: 0.5 / np.sqrt(x), "dr.safe_asin(x)": lambda x: 1 / np.sqrt(1 - x * x),
    "dr.safe_acos(x)": lambda x: -1 / np.sqrt(1 - x * x),
    "dr.lgamma(x)": _over(mpmath.digamma), "x ** 0.5": lambda x: 0.5 * np.power(x, -0.5),
    "x / y": lambda x, y: (1 / y, -x / y / y), "x ** y": _power, "dr.power(x, y)": _power,
    "dr.atan2(x, y)": lambda x, y: (y / np.hypot(x, y) / np.hypot(x, y), -x / np.hypot(x, y) / np.hypot(x, y)),
    "dr.hypot(x, y)": lambda x, y: (x / np.hypot(x, y), y / np.hypot(x, y)),
    "dr.clip(x, y, z)": _clipped, "dr.clip(x, -1, y)": lambda x, y: (_clipped(x, -np.ones(x.shape), y)[::2]),
}
EXACT |= {"dr.sincos(x)[0]": EXACT["dr.sin(x)"], "dr.sincos(x)[1]": EXACT["dr.cos(x)"]}


def _is_exact(p: Point, text: str) -> Array:
    """Where the derivative here is the exact one of the operands."""
    found = EXACT[text](*p.operands)
    wanted = np.asarray(found[p.position] if isinstance(found, tuple) else found, np.float64)
    with np.errstate(over="ignore"):
        wanted = wanted.astype(TYPES[p.name]).astype(np.float64)
    return equal(p.mine, wanted, p.name)


def _any(p: Point, test: Callable[[Array], Array]) -> Array:
    return np.any([test(values) for values in p.operands], axis=0)


def _subnormal(p: Point) -> Array:
    tiny = float(np.finfo(TYPES[p.name]).tiny)
    return _any(p, lambda x: (np.abs(x) < tiny) & (x != 0))


KNOWN: tuple[Known, ...] = (
    Known("the values differ (conformance/random_peer_known.py says why)", (),
          lambda p: ~equal(p.value, p.other_value, p.name)),
    Known("where the value is NaN there is no derivative", (), lambda p: np.isnan(p.value)),
    Known("denormal operands: the wheel takes them for zero", (), _subnormal),
    *(Known("here it is the exact derivative; there, one that is less accurate, or overflows on the way, or is that of "
            "steps in another order", (text,), lambda p, text=text: _is_exact(p, text)) for text in EXACT),
    Known("tanh: here computed from the result, with an absolute error of a rounding", ("dr.tanh(x)",),
          lambda p: np.abs(p.mine - p.theirs) <= 2 * float(np.finfo(TYPES[p.name]).eps)),
    Known("lgamma: half precision ends where both are rounded; the wheel's digamma is less accurate", ("dr.lgamma(x)",),
          lambda p: np.abs(p.mine - p.theirs) <= 1e-5 * np.maximum(1, np.abs(p.mine))),
    Known("hypot: where the length of finite operands is too large, here their quotients by it, 0; 1 or -1 there",
          ("dr.hypot(x, y)",), lambda p: np.isinf(p.value) & ~_any(p, np.isinf)),
    Known("atan2: at infinite operands the limit, 0; an indefinite quotient there", ("dr.atan2(x, y)",),
          lambda p: _any(p, np.isinf) & (p.mine == 0) & np.isnan(p.theirs)),
    Known("powers: here the exponent less one is rounded", ("x ** y", "dr.power(x, y)"),
          lambda p: (p.position == 0) & (np.abs(p.mine / p.theirs - 1) <= 2 * np.abs(np.log(p.operands[0])) * float(
              np.finfo(TYPES[p.name]).eps) * np.maximum(1, np.abs(p.operands[1])))),
)
#: What the wheel cannot do at all.
MISSING = {"has no attribute 'cot'": "dr.cot: the wheel does not have it",
           "has no attribute 'erfc'": "dr.erfc: the wheel does not have it"}
