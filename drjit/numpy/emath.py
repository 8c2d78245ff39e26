"""``numpy.emath``: functions whose results are complex where real ones do not exist.

Whether they are is a matter of the elements, which are evaluated. Differentiable.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import drjit.array_api as xp

from ._public import Array, decided, documented, floating, missing

__all__ = ["arccos", "arcsin", "arctanh", "log", "log10", "log2", "logn", "power", "sqrt"]


def _widened(value: Any, outside: Callable[[Array], Array]) -> Array:
    """An argument, complex if an element is outside of where the function is real."""
    array = floating(value)
    if array.dtype.kind == "c" or not decided(bool, outside(array).any()):
        return array
    return array.astype(xp.complex64 if array.dtype == xp.float32 else xp.complex128)


def _is_negative(x: Array) -> Array:
    return x < 0


def _is_beyond_one(x: Array) -> Array:
    return xp.abs(x) > 1


def _made(name: str, function: Callable[[Array], Array], outside: Callable[[Array], Array], text: str) -> Any:
    def called(x: Any) -> Array:
        return function(_widened(x, outside))

    return documented(called, f"emath.{name}", f"The {text}; complex where there is no real one. Evaluates its "
                                               "argument; differentiable.")


sqrt = _made("sqrt", xp.sqrt, _is_negative, "square root")
log = _made("log", xp.log, _is_negative, "natural logarithm")
log2 = _made("log2", xp.log2, _is_negative, "logarithm to base 2")
log10 = _made("log10", xp.log10, _is_negative, "logarithm to base 10")
arccos = _made("arccos", xp.acos, _is_beyond_one, "inverse cosine")
arcsin = _made("arcsin", xp.asin, _is_beyond_one, "inverse sine")
arctanh = _made("arctanh", xp.atanh, _is_beyond_one, "inverse hyperbolic tangent")


def _logn(n: Any, x: Any) -> Array:
    return log(x) / log(n)


def _power(x: Any, p: Any) -> Array:
    base = _widened(x, _is_negative)
    return xp.pow(base, p if isinstance(p, (int, float, complex)) else floating(p))


logn = documented(_logn, "emath.logn", "The logarithm of ``x`` to base ``n``; complex where there is no real one. "
                                       "Evaluates its arguments; differentiable.")
power = documented(_power, "emath.power", "``x`` to the power of ``p``; complex where ``x`` is negative. Evaluates "
                                          "``x``; differentiable.")


def __getattr__(name: str) -> Any:
    raise missing(__name__, name, __all__)


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)
