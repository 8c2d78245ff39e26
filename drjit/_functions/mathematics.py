"""Mathematical functions of arrays and Python numbers: trigonometric, hyperbolic, error and gamma functions …

They are made from the traced expansions of :mod:`drjit_core.math`, whose modules state errors and special values;
Python numbers take the functions of :mod:`math`, and the same expansions in double precision where that module has no
such function, or raises. The functions of the op table's rows, and those for bits, are in
:mod:`drjit._functions.elementwise`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import drjit_core as core
from drjit_core import TYPES, Node, UnsupportedType, VarType, bitcast, cast, literal, ops

from .._base.array import ArrayBase
from .._base.errors import CORE_ERRORS, translate
from .._base.nodes import broadcast
from .._base.types import FLOAT16, FLOAT32, FLOAT64, INT32, INT64, UINT32, UINT64, retype
from .._base.values import plain_scalar
from .._promotion.promote import alike, operands, wrap, wrap_like
from .._rules.combine import ignoring_nan
from .elementwise import _binary, _number, _unary, clip, maximum, select, sqrt

__all__ = ["acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "copysign", "cosh", "cot", "deg2rad",
           "erf", "erfc", "erfinv", "exp2", "fmax", "fmin", "hypot", "lgamma", "log2", "mul_wide", "mulsign", "rad2deg",
           "safe_acos", "safe_asin", "safe_sqrt", "sign", "sincosh", "sinh", "step", "tan", "tanh"]

Trace = Callable[..., Node]
_UINT16 = VarType.UInt16.value


def _scalar(trace: Trace, function: Callable[..., float] | None) -> Callable[..., float]:
    """A function of Python numbers; ``trace`` of literals, which fold, knows what ``math`` refuses."""
    def compute(*args: Any) -> float:
        numbers = [float(arg) for arg in args]
        if function is not None:
            try:
                return function(*numbers)
            except (ValueError, OverflowError):
                pass
        return float(trace(*(literal(FLOAT64, number) for number in numbers)).payload)

    return compute


def _function(name: str, function: Callable[[float], float] | None, doc: str) -> Callable[[Any], Any]:
    trace = getattr(core, name)
    return _unary(name, trace, _scalar(trace, function), f"{doc} ``arg``: array of floating-point numbers, or a Python "
                                                         "number.")


def _pair(name: str, trace: Callable[[Node], tuple[Node, Node]], first: Callable[[Any], Any],
          second: Callable[[Any], Any], doc: str) -> Callable[[Any], tuple[Any, Any]]:
    """A function of one argument with two results of its type."""
    def function(arg: Any, /) -> tuple[Any, Any]:
        if not isinstance(arg, ArrayBase):
            number = _number(arg, f"drjit.{name}")
            return first(number), second(number)
        if arg._special:
            result = arg._function(name)
            if result is not NotImplemented:
                return result  # type: ignore[no-any-return]
        try:
            pairs = [trace(node) for node in arg._nodes()]
        except CORE_ERRORS as error:
            raise translate(error, f"drjit.{name}(<{arg._name}>)") from error
        return wrap_like(arg, type(arg), [a for a, _ in pairs]), wrap_like(arg, type(arg), [b for _, b in pairs])

    function.__name__ = function.__qualname__ = name
    function.__module__ = "drjit"
    function.__doc__ = doc
    return function


tan = _function("tan", math.tan, "Tangent of an angle in radians.")
cot = _function("cot", None, "Cotangent of an angle in radians; infinite at zero.")
asin = _function("asin", math.asin, "Arcsine in radians; NaN beyond -1 and 1 (see :func:`safe_asin`).")
acos = _function("acos", math.acos, "Arccosine in radians; NaN beyond -1 and 1 (see :func:`safe_acos`).")
atan = _function("atan", math.atan, "Arctangent in radians.")
sinh = _function("sinh", math.sinh, "Hyperbolic sine.")
cosh = _function("cosh", math.cosh, "Hyperbolic cosine.")
tanh = _function("tanh", math.tanh, "Hyperbolic tangent.")
asinh = _function("asinh", math.asinh, "Inverse hyperbolic sine.")
acosh = _function("acosh", math.acosh, "Inverse hyperbolic cosine; NaN below 1.")
atanh = _function("atanh", math.atanh, "Inverse hyperbolic tangent; infinite at -1 and 1, NaN beyond.")
exp2 = _function("exp2", math.exp2, "Two to the power of the argument; exact for integers.")
log2 = _function("log2", math.log2, "Logarithm to the base 2; exact for powers of two, NaN below zero.")
erf = _function("erf", math.erf, "Error function.")
erfc = _function("erfc", math.erfc, "Complement of the error function, ``1 - erf(arg)`` without cancellation.")
erfinv = _function("erfinv", None, "Inverse of the error function; infinite at -1 and 1, NaN beyond.")
lgamma = _function("lgamma", math.lgamma, "Logarithm of the absolute value of the gamma function.")
cbrt = _function("cbrt", None, "Cube root, of negative numbers too.")
sincosh = _pair("sincosh", core.sincosh, sinh, cosh, "Hyperbolic sine and cosine, sharing their work.")

atan2 = _binary("atan2", core.atan2, _scalar(core.atan2, math.atan2),
                "Angle of the point with ordinate ``arg0`` and abscissa ``arg1``, in radians between -pi and pi. Zeros "
                "and infinities are as in C99.")
_hypot = _binary("hypot", core.hypot, _scalar(core.hypot, math.hypot), "")


def hypot(a: Any, b: Any) -> Any:
    """Length ``sqrt(a**2 + b**2)``, whose squares neither overflow nor underflow; floating-point arrays or numbers."""
    return _hypot(a, b)


# --- signs -----------------------------------------------------------------------------------------------------------


def _require_number(node: Node, name: str) -> str:
    kind = TYPES[node.type].kind
    if kind == "b":
        raise UnsupportedType(name, TYPES[node.type].name)
    return kind


def _trace_sign(node: Node) -> Node:
    one = literal(node.type, 1)
    if _require_number(node, "sign") == "u":
        return literal(node.type, 1, node.size)
    return ops.select(ops.ge(node, literal(node.type, 0)), one, literal(node.type, -1))  # type: ignore[no-any-return]


def _trace_copysign(a: Node, b: Node) -> Node:
    kind = _require_number(a, "copysign")
    if kind == "u":
        return broadcast(a, core.broadcast_size("copysign", a, b))
    if kind == "i":
        magnitude = ops.abs(a)
        return ops.select(ops.ge(b, literal(b.type, 0)), magnitude, ops.neg(magnitude))  # type: ignore[no-any-return]
    word = {FLOAT16: _UINT16, FLOAT32: UINT32, FLOAT64: UINT64}[a.type]
    mask = literal(word, 1 << (TYPES[word].bits - 1), 1, core.BAKED)
    sign = getattr(ops, "and")(bitcast(b, word), mask)
    return bitcast(getattr(ops, "or")(bitcast(ops.abs(a), word), sign), a.type)


def _trace_mulsign(a: Node, b: Node) -> Node:
    if _require_number(a, "mulsign") == "u":
        return broadcast(a, core.broadcast_size("mulsign", a, b))
    return ops.select(ops.ge(b, literal(b.type, 0)), a, ops.neg(a))  # type: ignore[no-any-return]


sign = _unary("sign", _trace_sign, lambda a: type(a)(1 if a >= 0 else -1),
              "1 where the argument is positive or zero, else -1 (for NaN too), in the type of the argument.")
copysign = _binary("copysign", _trace_copysign,
                   lambda a, b: math.copysign(a, b) if a.__class__ is float else abs(a) if math.copysign(1, b) > 0 else
                   -abs(a), "The magnitude of ``arg0`` with the sign of ``arg1``, that of zeros included.")
_mulsign = _binary("mulsign", _trace_mulsign, lambda a, b: a if b >= 0 else -a, "")


def _is_signed(value: Any) -> bool:
    return isinstance(value, ArrayBase) and value._kind == "i"


def mulsign(arg0: Any, arg1: Any, /) -> Any:
    """``arg0 * sign(arg1)``, see :func:`sign`."""
    if isinstance(arg0, ArrayBase) and (plain_scalar(arg1) is not None or arg0._kind == "u" and _is_signed(arg1)):
        return arg0 * sign(arg1)  # promotion could fail, or lose the sign
    return _mulsign(arg0, arg1)


def step(arg0: Any, arg1: Any, /) -> Any:
    """Step function: the integer 0 where ``arg0 < arg1``, else 1."""
    if not isinstance(arg0, ArrayBase) and not isinstance(arg1, ArrayBase):
        return int(not _number(arg0, "drjit.step", "arg0") < _number(arg1, "drjit.step", "arg1"))
    return select(arg0 < arg1, 0, 1)


# --- smaller and larger numbers, products ----------------------------------------------------------------------------


def _prefer_numbers(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda a, b: b if a != a else a if b != b else function(a, b)


fmin = _binary("fmin", ignoring_nan(ops.le, ops.minimum), _prefer_numbers(min),
               "Smaller of two values, elementwise; a number is preferred to NaN (see :func:`minimum`).")
fmax = _binary("fmax", ignoring_nan(ops.ge, ops.maximum), _prefer_numbers(max),
               "Larger of two values, elementwise; a number is preferred to NaN (see :func:`maximum`).")


def mul_wide(arg0: Any, arg1: Any, /) -> Any:
    """All 64 bits of the product of two 32-bit integers: an array of 64-bit integers of the same signedness."""
    function = "drjit.mul_wide"
    args = (arg0, arg1)
    array = next((arg for arg in args if isinstance(arg, ArrayBase)), None)
    if array is None:
        numbers = [_number(arg, function, f"arg{k}") for k, arg in enumerate(args)]
        if not all(number.__class__ is int for number in numbers):
            raise TypeError(f"{function}(): the arguments must be integer arrays or ints, found {arg0!r} and {arg1!r}.")
        return numbers[0] * numbers[1]
    if any(isinstance(arg, ArrayBase) and arg._depth < 0 for arg in args):
        wide_args = [retype(type(arg), {INT32: INT64, UINT32: UINT64}.get(arg._type, arg._type))(arg)
                     if isinstance(arg, ArrayBase) and arg._kind in "iu" else arg for arg in args]
        return wide_args[0] * wide_args[1]
    cls, lists = alike(args) or operands(f"{function}(<{array._name}>)", args)
    wide = {INT32: INT64, UINT32: UINT64}.get(cls._type)
    try:
        if wide is None:
            raise UnsupportedType("mul_wide", TYPES[cls._type].name)
        nodes = [ops.mul(cast(a, wide), cast(b, wide)) for a, b in zip(*lists, strict=True)]
    except CORE_ERRORS as error:
        raise translate(error, f"{function}(<{cls._name}>)") from error
    return wrap(retype(cls, wide), nodes)


# --- angles, and arguments that leave the domain ---------------------------------------------------------------------


def _angle(arg: Any, factor: float, function: str) -> Any:
    return arg * factor if isinstance(arg, ArrayBase) else _number(arg, function) * factor


def rad2deg(arg: Any, /) -> Any:
    """An angle in radians, converted to degrees."""
    return _angle(arg, 180 / math.pi, "drjit.rad2deg")


def deg2rad(arg: Any, /) -> Any:
    """An angle in degrees, converted to radians."""
    return _angle(arg, math.pi / 180, "drjit.deg2rad")


def safe_sqrt(arg: Any, /) -> Any:
    """Square root that takes negative arguments, as rounding errors leave them, for zero."""
    return sqrt(maximum(arg, 0))


def safe_asin(arg: Any, /) -> Any:
    """Arcsine of the argument, clipped to the range from -1 to 1."""
    return asin(clip(arg, -1, 1))


def safe_acos(arg: Any, /) -> Any:
    """Arccosine of the argument, clipped to the range from -1 to 1."""
    return acos(clip(arg, -1, 1))
