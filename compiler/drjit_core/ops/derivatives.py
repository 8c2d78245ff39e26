"""How results change with operands: the derivatives of rows and of functions that are traced as a few of them.

A :class:`Rule` has one :class:`Partial` for each operand, the factor by which a change of the operand is multiplied.
Formulas are functions of ``o``, a set of trace functions, and of what the rule has kept: the operands ``x``, ``y`` and
``z``, and the result ``r``.  One copy of them serves both directions, and derivatives of derivatives: what is kept is
traced like any other operand then.

Where a function has no derivative, the convention is that of Dr.Jit: that of ``abs`` at zero is zero; of two equal
operands, ``minimum`` follows the first one and ``maximum`` the second, and if one is NaN, both follow the second.
Derivatives of ``safe_sqrt``, ``safe_asin`` and ``safe_acos`` are zero where arguments are clipped, and within rounding
errors of the ends of the domain.  Rounding functions and comparisons have derivatives that are zero wherever they
exist, and so have no rule: their results are constants.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ..types import TYPES

__all__ = ["BOTH", "FACTOR", "NEGATED", "OTHERWISE", "PASSED", "Partial", "RULES", "Rule",
           "TIMES_R", "TIMES_X", "TIMES_Y", "WHERE"]

#: How a change carries over: as it is; negated; multiplied by the first or second operand, or by the result; multiplied
#: by a factor; where a mask, the first operand, is set; where it is not; where a factor, which is a mask, is set.
PASSED, NEGATED, TIMES_X, TIMES_Y, TIMES_R, FACTOR, WHERE, OTHERWISE, BOTH = range(9)


class Partial:
    """The derivative with respect to one operand."""

    def __init__(self, how: int, keeps: str = "", factor: Callable[..., Any] | None = None, *,
                 sparse: bool = False) -> None:
        self.how = how
        #: Which of the operands (``xyz``) and the result (``r``) it needs.
        self.keeps = keeps
        self.factor: Any = factor
        #: Whether the factor is zero by convention somewhere: elements have no part there, see ``Vertex.sparse``.
        self.sparse = sparse


class Rule:
    """The derivatives of an operation, by operand; ``None`` for what is no number (a mask)."""

    def __init__(self, name: str, partials: tuple[Partial | None, ...]) -> None:
        self.name = name
        self.partials = partials


def _factor(keeps: str, factor: Callable[..., Any]) -> Partial:
    return Partial(FACTOR, keeps, factor)


def _sparse(keeps: str, factor: Callable[..., Any]) -> Partial:
    return Partial(FACTOR, keeps, factor, sparse=True)


_pass, _negate = Partial(PASSED), Partial(NEGATED)
_LOG_2, _TWO_OVER_ROOT_PI = math.log(2), 2 / math.sqrt(math.pi)


def _one_minus_square(o: Any, x: Any) -> Any:
    return o.mul(o.sub(o.number(x, 1), x), o.add(o.number(x, 1), x))  # exact near 1


def _one_plus_square(o: Any, x: Any) -> Any:
    return o.fma(x, x, o.number(x, 1))


def _sign(o: Any, x: Any) -> Any:
    """1, -1, or 0 at zero."""
    zero = o.number(x, 0)
    return o.select(o.eq(x, zero), zero, _bit(o, x))


def _bit(o: Any, x: Any) -> Any:
    """1 or -1, as the bit of the sign says."""
    return o.copysign(o.number(x, 1), x)


def _over_square(o: Any, x: Any, r: Any) -> Any:
    """``x / r**2`` for the length ``r`` of x and something else, whose square may be out of range: 0 where that is
    infinite."""
    return o.div(_share(o, x, r), r)


def _power_of_base(o: Any, x: Any, y: Any, z: Any, r: Any) -> Any:
    """``y x**(y - 1)``, which is 0 where both are 0."""
    zero = o.number(y, 0)
    return o.select(o.and_(o.eq(y, zero), o.eq(x, zero)), zero, o.mul(y, o.power(x, o.sub(y, o.number(y, 1)))))


def _power_of_exponent(o: Any, x: Any, y: Any, z: Any, r: Any) -> Any:
    """``r log(x)``, which is 0 where the power is 0."""
    zero = o.number(r, 0)
    return o.select(o.eq(r, zero), zero, o.mul(r, o.log(x)))


def _safe_sqrt(o: Any, x: Any, y: Any, z: Any, r: Any) -> Any:
    """0 up to the smallest distance of numbers from 1, beyond which that of the root is."""
    return o.select(o.le(x, o.number(x, _epsilon(x))), o.number(x, 0), o.div(o.number(r, 0.5), r))


def _safe_asin(o: Any, x: Any, y: Any, z: Any, r: Any) -> Any:
    """0 at the ends of the domain and beyond, and that of the arcsine between."""
    end = 1 - _epsilon(x)
    outside = o.or_(o.gt(x, o.number(x, end)), o.le(x, o.number(x, -end)))
    return o.select(outside, o.number(x, 0), o.rsqrt(_one_minus_square(o, x)))


def _epsilon(x: Any) -> float:
    """Half the distance from 1 to the next number. (Rules of half precision are computed in single precision.)"""
    return 2.0 ** -{32: 24, 64: 53}[TYPES[x.type].bits]


def _quotient(o: Any, x: Any, r: Any) -> Any:
    """``x / r``, which is 0 where the length ``r`` is 0."""
    zero = o.number(r, 0)
    return o.select(o.eq(r, zero), zero, o.div(x, r))


def _share(o: Any, x: Any, r: Any) -> Any:
    """``x / r`` for the length ``r`` of x and something else: 0 where that is 0; 1 with the sign of x where x is that
    length, be it infinite."""
    zero, along = o.number(r, 0), o.eq(o.abs(x), r)
    return o.select(o.eq(r, zero), zero, o.select(along, _bit(o, x), o.div(x, r)))


#: Rules by the names of rows, and of the functions of :mod:`drjit_core.math` that have one of their own.
RULES: dict[str, Rule] = {name: Rule(name, partials) for name, partials in {
    "neg": (_negate,),
    "add": (_pass, _pass),
    "sub": (_pass, _negate),
    "mul": (Partial(TIMES_Y, "y"), Partial(TIMES_X, "x")),
    "div": (_factor("y", lambda o, x, y, z, r: o.rcp(y)),
            _factor("yr", lambda o, x, y, z, r: o.neg(o.div(r, y)))),
    "fma": (Partial(TIMES_Y, "y"), Partial(TIMES_X, "x"), _pass),
    "abs": (_sparse("x", lambda o, x, y, z, r: _sign(o, x)),),
    "sqrt": (_factor("r", lambda o, x, y, z, r: o.div(o.number(r, 0.5), r)),),
    "rsqrt": (_factor("r", lambda o, x, y, z, r: o.mul(o.mul(r, r), o.mul(r, o.number(r, -0.5)))),),
    "minimum": (Partial(BOTH, "xy", lambda o, x, y, z, r: o.le(x, y)),
                Partial(BOTH, "xy", lambda o, x, y, z, r: o.inv(o.le(x, y)))),
    "maximum": (Partial(BOTH, "xy", lambda o, x, y, z, r: o.gt(x, y)),
                Partial(BOTH, "xy", lambda o, x, y, z, r: o.inv(o.gt(x, y)))),
    "select": (None, Partial(WHERE, "x"), Partial(OTHERWISE, "x")),
    "sin": (_factor("x", lambda o, x, y, z, r: o.cos(x)),),
    "cos": (_factor("x", lambda o, x, y, z, r: o.neg(o.sin(x))),),
    "tan": (_factor("r", lambda o, x, y, z, r: _one_plus_square(o, r)),),
    "cot": (_factor("r", lambda o, x, y, z, r: o.neg(_one_plus_square(o, r))),),
    "asin": (_factor("x", lambda o, x, y, z, r: o.rsqrt(_one_minus_square(o, x))),),
    "acos": (_factor("x", lambda o, x, y, z, r: o.neg(o.rsqrt(_one_minus_square(o, x)))),),
    "atan": (_factor("x", lambda o, x, y, z, r: o.rcp(_one_plus_square(o, x))),),
    "atan2": (_factor("xy", lambda o, x, y, z, r: _over_square(o, y, o.hypot(x, y))),
              _factor("xy", lambda o, x, y, z, r: o.neg(_over_square(o, x, o.hypot(x, y))))),
    "exp": (Partial(TIMES_R, "r"),),
    "exp2": (_factor("r", lambda o, x, y, z, r: o.mul(r, o.number(r, _LOG_2))),),
    "log": (_factor("x", lambda o, x, y, z, r: o.rcp(x)),),
    "log2": (_factor("x", lambda o, x, y, z, r: o.div(o.number(x, 1 / _LOG_2), x)),),
    "power": (_factor("xy", _power_of_base), _factor("xr", _power_of_exponent)),
    "sinh": (_factor("x", lambda o, x, y, z, r: o.cosh(x)),),
    "cosh": (_factor("x", lambda o, x, y, z, r: o.sinh(x)),),
    "tanh": (_factor("x", lambda o, x, y, z, r: o.slope_of_tanh(x)),),
    "asinh": (_factor("x", lambda o, x, y, z, r: o.rcp(o.hypot(x, o.number(x, 1)))),),
    "acosh": (_factor("x", lambda o, x, y, z, r: o.mul(o.rsqrt(o.sub(x, o.number(x, 1))),
                                                       o.rsqrt(o.add(x, o.number(x, 1))))),),
    "atanh": (_factor("x", lambda o, x, y, z, r: o.rcp(_one_minus_square(o, x))),),
    "erf": (_factor("x", lambda o, x, y, z, r: o.mul(o.exp(o.neg(o.mul(x, x))), o.number(x, _TWO_OVER_ROOT_PI))),),
    "erfc": (_factor("x", lambda o, x, y, z, r: o.mul(o.exp(o.neg(o.mul(x, x))), o.number(x, -_TWO_OVER_ROOT_PI))),),
    "erfinv": (_factor("r", lambda o, x, y, z, r: o.mul(o.exp(o.mul(r, r)), o.number(r, 1 / _TWO_OVER_ROOT_PI))),),
    "lgamma": (_factor("x", lambda o, x, y, z, r: o.digamma(x)),),
    "cbrt": (_factor("r", lambda o, x, y, z, r: o.div(o.number(r, 1 / 3), o.mul(r, r))),),
    "hypot": (_sparse("xr", lambda o, x, y, z, r: _share(o, x, r)),
              _sparse("yr", lambda o, x, y, z, r: _share(o, y, r))),
    # functions whose rule is not that of what they are composed of: of rows that work on bits, and finite ones
    "copysign": (_factor("xy", lambda o, x, y, z, r: o.mul(_bit(o, x), _bit(o, y))), None),
    "slope_of_tanh": (_factor("xr", lambda o, x, y, z, r: o.mul(o.mul(r, o.number(r, -2)), o.tanh(x))),),
    "length": (_sparse("r", lambda o, x, y, z, r: _quotient(o, o.number(r, 0.5), r)),),
    "safe_sqrt": (_sparse("xr", _safe_sqrt),),
    "safe_asin": (_sparse("x", _safe_asin),),
    "safe_acos": (_sparse("x", lambda o, x, y, z, r: o.neg(_safe_asin(o, x, y, z, r))),),
}.items()}
for _name in ("div", "sqrt", "rsqrt", "sin", "cos", "tan", "cot", "exp", "exp2", "log", "log2", "tanh"):
    RULES[f"{_name}_precise"] = RULES[_name]
