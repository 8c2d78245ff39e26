"""Elementwise functions of the standard.

Each is a row of formulas by the kind of elements: Boolean, integer, real, complex (pairs of real and imaginary parts).
They are lazy, and differentiable where the mathematical function is.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

import drjit as dr

from . import _dtypes as dtypes
from ._data import Storage, constant, copy_of, default_dtype, expanded, has_value, own, wrap
from ._dtypes import ON_GPU, DType, promoted
from ._operands import (
    as_float,
    common_shape,
    converted,
    number_of,
    on_one_device,
    operands,
    require_array,
    require_arrays,
    require_kind,
    with_number,
)
from ._operators import Operation, enter, exact_product, fits
from ._small import by_numpy, on_host

if TYPE_CHECKING:
    from ._array import Array

__all__ = ["abs", "acos", "acosh", "add", "asin", "asinh", "atan", "atan2", "atanh", "bitwise_and", "bitwise_invert",
           "bitwise_left_shift", "bitwise_or", "bitwise_right_shift", "bitwise_xor", "ceil", "clip", "conj", "copysign",
           "cos", "cosh", "divide", "equal", "exp", "expm1", "floor", "floor_divide", "greater", "greater_equal",
           "hypot", "imag", "isfinite", "isinf", "isnan", "less", "less_equal", "log", "log10", "log1p", "log2",
           "logaddexp", "logical_and", "logical_not", "logical_or", "logical_xor", "maximum", "minimum", "multiply",
           "negative", "nextafter", "not_equal", "positive", "pow", "real", "reciprocal", "remainder", "round", "sign",
           "signbit", "sin", "sinh", "sqrt", "square", "subtract", "tan", "tanh", "trunc"]

_NAMESPACE = "drjit.array_api"
Formula = Callable[..., Any]


# --- formulas on tensors ---------------------------------------------------------------------------------------------


def _same(x: Any) -> Any:
    """The elements in a tensor (or a pair of them) of its own."""
    return (type(x[0])(x[0]), type(x[1])(x[1])) if isinstance(x, tuple) else type(x)(x)


def _is_zero(x: Any) -> Any:
    return x == 0


def _pairs(name: str) -> Formula:
    """A function of complex numbers whose parts are apart."""
    return functools.partial(dr.detail.of_pairs, name)


def _by_parts(function: Formula) -> Formula:
    """A function of the real parts, and of the imaginary ones."""
    return lambda *numbers: tuple(map(function, *numbers))


def _parts_are(test: Formula, joined: Formula) -> Formula:
    """Whether something holds for the real and (or) the imaginary parts."""
    return lambda *numbers: joined(*map(test, *numbers))


def _log1p_of(x: Any) -> Any:
    """log(1 + x), accurate for small x: the error of 1 + x is made up for by a division (HP-15C handbook, 1982)."""
    one = 1 + x
    short = one - 1
    logarithm = dr.log(one)
    return dr.select(short == 0, x, dr.select(dr.isinf(one), logarithm,
                                              logarithm * x / dr.select(short == 0, 1, short)))


_log1p = dr.detail.differentiated(_log1p_of, lambda x: 1 / (1 + x))


def _expm1(x: Any) -> Any:
    """exp(x) - 1, accurate for small x: what rounding takes from the exponential, its logarithm has lost, too."""
    one = dr.exp(x)
    short = one - 1
    inner = dr.select((one == 1) | (short == -1) | dr.isinf(one), 1, dr.log(one))
    return dr.select(one == 1, x, dr.select((short == -1) | dr.isinf(one), short, short * x / inner))


def _log10(x: Any) -> Any:
    """The logarithm to base 10, exact for the powers of ten that log() comes close to."""
    found = dr.log(x) * (1 / math.log(10))
    near = dr.round(found)
    return dr.select((dr.abs(near) < 23) & (x == dr.power(type(x)(10.0), near)), near, found)


def _expit_of(x: Any) -> Any:
    """The logistic function, by the exponential that does not overflow."""
    left = x < 0
    small = dr.exp(dr.select(left, x, -x))
    return dr.select(left, small, 1) / (1 + small)


_expit: Formula = dr.detail.differentiated(_expit_of, lambda x: _expit(x) * _expit(-x))


def _signbit(x: Any) -> Any:
    return dr.reinterpret_array(_integers(x), x) < 0


def _integers(x: Any) -> Any:
    """The type of signed integers of the size of the floating point numbers of a tensor."""
    return {2: dtypes.int16, 4: dtypes.int32, 8: dtypes.int64}[dr.itemsize_v(x)].beside(x)


def _copysign(a: Any, b: Any) -> Any:
    size = dr.abs(a)
    return dr.select(_signbit(b), -size, size)


def _nextafter(a: Any, b: Any) -> Any:
    """The next number from a in the direction of b: numbers of one sign are ordered as their bits are."""
    integers = _integers(a)
    bits = dr.reinterpret_array(integers, a)
    away = (b > a) == (a > 0)
    step = dr.select(away, integers(1), integers(-1))
    tiny = _copysign(dr.reinterpret_array(type(a), dr.full(integers, 1, ())), b)
    found = dr.select(a == 0, tiny, dr.reinterpret_array(type(a), bits + step))
    return dr.select(a == b, b, dr.select(dr.isnan(a) | dr.isnan(b), a + b, found))


def _sign(x: Any) -> Any:
    zero, one = dr.zeros(type(x), ()), dr.full(type(x), 1, ())
    found = dr.select(x > 0, one, dr.select(x < 0, -one, zero)) if _signed(x) else dr.select(x > 0, one, zero)
    return dr.select(dr.isnan(x), dr.detach(x), found) if dr.is_float_v(x) else found


def _signed(x: Any) -> Any:
    return dr.is_signed_v(x)


def _extremum(of: Formula) -> Formula:
    def extremum(a: Any, b: Any) -> Any:
        found = of(a, b)
        return dr.select(dr.isnan(a) | dr.isnan(b), a + b, found) if dr.is_float_v(a) else found

    return extremum


def _pairs_are(first: Formula, then: Formula) -> Formula:
    """A comparison of complex numbers by size as in NumPy: of real parts ``first``, ``then`` of imaginary ones."""
    return lambda a, b: first(a[0], b[0]) & ~(dr.isnan(a[1]) | dr.isnan(b[1])) | (a[0] == b[0]) & then(a[1], b[1])


def _extremum_of_pairs(comes: Formula) -> Formula:
    """The complex number that ``comes`` before the other one or is NaN, the first of two that do."""

    def extremum(a: Any, b: Any) -> Any:
        first = comes(a, b) | dr.isnan(a[0]) | dr.isnan(a[1])
        return tuple([dr.select(first, *parts) for parts in zip(a, b, strict=True)])

    return extremum


_or, _and = operator.or_, operator.and_


def _int_divide(a: Any, b: Any) -> Any:
    """The quotient rounded down; the machine's rounds towards zero."""
    quotient = a // b
    if not _signed(a):
        return quotient
    wrong = (a - quotient * b != 0) & ((a < 0) != (b < 0)) & (b != 0)
    return quotient - dr.select(wrong, type(a)(1), type(a)(0))


def _int_remainder(a: Any, b: Any) -> Any:
    """The remainder with the sign of the divisor; 0 if that is 0."""
    found = dr.select(b == 0, type(a)(0), a % b)
    return dr.select((found != 0) & ((found < 0) != (b < 0)), found + b, found) if _signed(a) else found


def _fmod(a: Any, b: Any) -> Any:
    """The exact remainder of |a| / |b|, for finite a and b other than 0.

    Rounds take away multiples of b that hold as many bits of the quotient as a number does; there is one for all but
    quotients of more than that.
    """
    wide = type(a) if dr.itemsize_v(a) == 8 else dtypes.float64.beside(a)
    rest, divisor = (dr.abs(wide(x)) for x in _together(a, b))
    shape = rest.shape
    flat = type(rest.array)
    if not math.prod(shape):
        return type(a)(rest)

    def step(rest: Any, divisor: Any) -> Any:
        # A power of two of the divisor, so that the quotient has 52 bits at most, and no product overflows.
        ratio = rest / divisor
        huge = ~(ratio < 2.0 ** 52)
        scale = dr.select(huge, _power_of_two_below(rest, divisor), 1)
        multiple = divisor * scale
        quotient = dr.trunc(rest / multiple)
        found = dr.fma(-quotient, multiple, rest)
        return dr.select(found < 0, found + multiple, dr.select(found >= multiple, found - multiple, found)), divisor

    rest_, _ = dr.while_loop((flat(rest.array), flat(divisor.array)),
                             lambda rest, divisor: (rest >= divisor) & (divisor > 0) & (rest < math.inf), step)
    return type(a)(type(rest)(rest_, shape=shape))


def _power_of_two_below(a: Any, b: Any) -> Any:
    """A power of two, such that a / (b * power) is from 2^50 to 2^52; the exponents of the numbers tell."""
    bits = dr.uint64_array_t(type(a))
    exponent = [dr.int64_array_t(type(a))((dr.reinterpret_array(bits, x) >> 52) & 0x7ff) for x in (a, b)]
    shift = dr.clip(exponent[0] - exponent[1] - 51, 0, 1000)
    return dr.reinterpret_array(type(a), bits(shift + 1023) << 52)


def _together(a: Any, b: Any) -> tuple[Any, Any]:
    """Two tensors, broadcast to their common shape."""
    shape = np.broadcast_shapes(a.shape, b.shape)
    return expanded(a, shape), expanded(b, shape)


def _remainder(a: Any, b: Any) -> Any:
    """The remainder with the sign of the divisor, exact, as Python's ``%``."""
    size = _fmod(a, b)
    rest = dr.select(a < 0, -size, size)
    rest = dr.select((rest != 0) & ((rest < 0) != (b < 0)), rest + b, rest)
    rest = dr.select(dr.isinf(b) & dr.isfinite(a), dr.select((a == 0) | ((a < 0) == (b < 0)), a, b), rest)
    rest = dr.select(rest == 0, _copysign(dr.zeros(type(a), ()), b), rest)
    return dr.select(dr.isinf(a) | dr.isnan(a) | dr.isnan(b) | (b == 0), dr.full(type(a), math.nan, ()), rest)


def _divide_down(a: Any, b: Any) -> Any:
    """The quotient rounded down, by the exact remainder where it is close to an integer; zeros have its sign."""
    a, b = dr.detach(a), dr.detach(b)
    quotient = a / b
    rest = _fmod(a, b)
    rest = dr.select((a < 0) != (b < 0), dr.select(rest == 0, rest, dr.abs(b) - rest), rest)
    exact = dr.round((a - _copysign(rest, b)) / b)
    small = dr.isfinite(a) & dr.isfinite(b) & dr.isfinite(quotient) & (dr.abs(quotient) < 2.0 ** 52) & (exact != 0)
    return dr.select(small, exact, dr.floor(quotient))


def _logaddexp(a: Any, b: Any) -> Any:
    """log(exp(a) + exp(b)), by the larger of the two, which does not overflow."""
    largest = _extremum(dr.maximum)(a, b)
    shift = dr.select(dr.isinf(largest), 0, largest)
    small = _extremum(dr.minimum)(a, b) - shift
    return dr.select(dr.isinf(largest), largest, shift + _log1p(dr.exp(small)))


def _int_pow(a: Any, b: Any) -> Any:
    """Integers to the power of integers, with as many products as the exponent has bits; 1 / a**-b, rounded towards
    zero, for negative exponents."""
    base, exponent = _together(a, b)
    shape, flat = base.shape, type(base.array)
    if not math.prod(shape):
        return base
    number, count = flat(base.array), flat(exponent.array)
    if _signed(a):
        negative = count < 0
        odd = (count & 1) != 0
        inverse = dr.select(number == 1, 1, dr.select(number == -1, dr.select(odd, flat(-1), flat(1)), flat(0)))
        count_ = dr.select(negative, flat(0), count)
    else:
        count_ = count
    _, _, found = dr.while_loop(
        (number, count_, dr.full(flat, 1, dr.width(number))), lambda base, count, found: count != 0,
        lambda base, count, found: (base * base, count >> 1, dr.select((count & 1) != 0, found * base, found)))
    if _signed(a):
        found = dr.select(negative, inverse, found)
    return type(base)(found, shape=shape)


def _shift_left(a: Any, b: Any) -> Any:
    bits = 8 * dr.itemsize_v(a)
    return dr.select((b >= 0) & (b < bits), a << dr.select((b >= 0) & (b < bits), b, type(b)(0)), type(a)(0))


def _shift_right(a: Any, b: Any) -> Any:
    bits = 8 * dr.itemsize_v(a)
    inside = (b >= 0) & (b < bits)
    far = dr.select(a < 0, type(a)(-1), type(a)(0)) if _signed(a) else type(a)(0)
    return dr.select(inside, a >> dr.select(inside, b, type(b)(0)), far)


def _int_abs(x: Any) -> Any:
    return dr.abs(x) if _signed(x) else _same(x)


def _true_like(x: Any) -> Any:
    return dr.full(dr.mask_t(type(x)), True, x.shape)


def _false_like(x: Any) -> Any:
    return dr.full(dr.mask_t(type(x)), False, x.shape)


# --- functions -------------------------------------------------------------------------------------------------------


def documented(function: Any, name: str, text: str, differentiable: bool = True, module: str = _NAMESPACE) -> Any:
    """A function with its name, its module and its description."""
    function.__name__ = function.__qualname__ = name
    function.__module__ = module
    function.__doc__ = f"{text}\n\nLazy{'; differentiable' if differentiable else ''}."
    return function


def _with(formula: Formula | None, *derivatives: Formula | None) -> Formula | None:
    """A formula for real numbers with derivatives, if it has some of its own."""
    if formula is None or not any(derivatives):
        return formula
    return dr.detail.differentiated(formula, *derivatives)


#: Functions that are operators, by their names.
_OPERATORS = {"add": "add", "subtract": "sub", "multiply": "mul", "floor_divide": "floordiv", "remainder": "mod",
              "bitwise_and": "and", "bitwise_or": "or", "bitwise_xor": "xor", "bitwise_left_shift": "lshift",
              "bitwise_right_shift": "rshift", "equal": "eq", "not_equal": "ne", "less": "lt", "less_equal": "le",
              "greater": "gt", "greater_equal": "ge"}


#: Functions whose special values are not those of NumPy.
_OTHER = {"bitwise_left_shift", "bitwise_right_shift", "nextafter"}
#: Those whose special values alone differ.
_FINITE = {"floor_divide", "remainder"}
#: Those of NumPy by another name, and the kinds of elements that are computed by them.
_NUMPY = {"pow": (np.power, "f"), "round": (np.rint, "f"), "reciprocal": (np.reciprocal, "f"),
          "sign": (np.sign, "iuf"), "expm1": (np.expm1, "f"), "tan": (np.tan, "f"),
          "tanh": (np.tanh, "f")}  # those of complex infinities are other in NumPy


def _of_numpy(name: str) -> tuple[Any, str, bool]:
    """The function of NumPy by which small arrays are computed, for which kinds of elements, and whether for finite
    ones alone."""
    function, kinds = _NUMPY.get(name) or (None if name in _OTHER else getattr(np, name, None), "biufc")
    return function, kinds, name in _FINITE


def _unary(name: str, text: str, *, real: Formula | None = None, pair: Formula | None = None,
           integer: Formula | None = None, boolean: Formula | None = None, result: str = "", cast: bool = True,
           derivative: Formula | None = None) -> Callable[[Array], Array]:
    """A function of one array; its formulas say which kinds of elements it knows. That for real numbers may have a
    ``derivative``; it is that of what it is composed of otherwise.

    ``result`` is ``"bool"`` or ``"real"`` if that is the type of results. Integers become floating point numbers
    (``cast``) if there is no formula for them.
    """
    kinds = ("b" if boolean else "") + ("iu" if integer else "") + ("f" if real else "") + ("c" if pair else "")
    formulas = {"b": boolean, "i": integer, "u": integer, "f": _with(real, derivative), "c": pair}

    def general(x: Any) -> Any:
        array = as_float(f"{_NAMESPACE}.{name}", "x", x) if cast and kinds in ("f", "fc") else \
            require_kind(f"{_NAMESPACE}.{name}", "x", x, kinds)
        if array.dtype.kind not in kinds:
            require_kind(f"{_NAMESPACE}.{name}", "x", x, kinds)
        if array is not x:
            return operation.one(array)
        dtype, formula = array._dtype, formulas[array._dtype.kind]
        assert formula is not None
        if dtype.kind == "c":
            found = formula(array._parts)
            if result:
                return wrap(dtypes.bool if result == "bool" else dtype.part, found)
            return wrap(dtype, *found)
        return wrap(dtypes.bool if result == "bool" else dtype, formula(array._parts[0]))

    operation = Operation({kind: formula for kind, formula in formulas.items() if formula},
                          dtypes.bool if result == "bool" else None, general, *_of_numpy(name))

    def function(x: Array, /) -> Array:
        return operation.one(x)  # type: ignore[no-any-return]

    enter(name, operation.one)
    found = documented(function, name, text, result != "bool" and real is not None)
    found.operation = operation
    return found  # type: ignore[no-any-return]


def _binary(name: str, text: str, *, real: Formula | None = None, pair: Formula | None = None,
            integer: Formula | None = None, boolean: Formula | None = None, result: str = "",
            smooth: bool = True, derivatives: tuple[Formula, ...] = (),
            counts: bool = True) -> Callable[[Any, Any], Array]:
    """A function of two arrays, or of an array and a number. ``derivatives`` by these as for functions of one. If it
    ``counts``, truth values that it has no formula for are 0 and 1, as in NumPy."""
    kinds = ("b" if boolean else "") + ("iu" if integer else "") + ("f" if real else "") + ("c" if pair else "")
    formulas = {"b": boolean, "i": integer, "u": integer, "f": _with(real, *derivatives), "c": pair}
    full = f"{_NAMESPACE}.{name}"

    def general(x1: Any, x2: Any) -> Any:
        if formulas["i"] in _COMPARISONS:
            known = _compared(full, formulas["i"], x1, x2)
            if known is not None:
                return known
        if counts and "b" not in kinds and integer is not None and _are_boolean(x1, x2):
            x1, x2 = [converted(require_array(full, "x", value), dtypes.int8) for value in (x1, x2)]
        a, b = operands(full, (x1, x2), ("x1", "x2"), kinds)
        dtype = a._dtype
        formula = formulas[dtype.kind]
        assert formula is not None
        if dtype.kind == "c":
            found = formula(a._parts, b._parts)
            return wrap(dtypes.bool, found) if result else wrap(dtype, *found)
        return wrap(dtypes.bool if result else dtype, formula(a._parts[0], b._parts[0]))

    operation = Operation({kind: formula for kind, formula in formulas.items() if formula},
                          dtypes.bool if result else None, general, *_of_numpy(name))
    enter(_OPERATORS.get(name, name), operation)

    def function(x1: Array | complex, x2: Array | complex, /) -> Array:
        return operation.two(x1, x2)  # type: ignore[no-any-return]

    found = documented(function, name, text, smooth and real is not None)
    found.operation = operation
    return found  # type: ignore[no-any-return]


def _are_boolean(*values: Any) -> bool:
    """Whether all operands are truth values, and one of them an array."""
    kinds = [value._dtype.kind if isinstance(value, Storage) else type(number_of(value)) for value in values]
    return "b" in kinds and set(kinds) <= {"b", bool}


_COMPARISONS = {operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge}


def _compared(function: str, formula: Any, x1: Any, x2: Any) -> Array | None:
    """A comparison of integers that no type holds together: of elements with a Python number beyond their type, and of
    signed ones with unsigned ones of 64 bits; ``None`` if that is not what is to be compared."""
    of_array = [isinstance(value, Storage) for value in (x1, x2)]
    if all(of_array):
        a, b = x1._dtype, x2._dtype
        if {a.kind, b.kind} != {"i", "u"} or promoted(a, b).kind != "f":
            return None
        if ON_GPU:
            (x1, x2), _ = on_one_device(function, (x1, x2), ("x1", "x2"))
        common_shape(function, (x1, x2))
        signed = 0 if a.kind == "i" else 1
        found = formula(converted(x1, dtypes.uint64)._parts[0], converted(x2, dtypes.uint64)._parts[0])
        negative = (x1, x2)[signed]._parts[0] < 0
        return wrap(dtypes.bool, negative | found if formula(signed - 1, -signed) else ~negative & found)
    if not any(of_array):
        return None
    array, number = (x1, number_of(x2)) if of_array[0] else (x2, number_of(x1))
    if array._dtype.kind not in "iu" or type(number) is not int or dtypes.holds(array._dtype, number):
        return None
    found = formula(*((0, number) if of_array[0] else (number, 0)))  # as 0 is
    return constant(dtypes.bool, found, array.shape, array.device)


def _logical(name: str, text: str, formula: Formula) -> Callable[[Any, Any], Array]:
    """A function of two arrays of truth values; numbers count as true unless they are 0."""
    full = f"{_NAMESPACE}.{name}"

    def function(x1: Array | complex, x2: Array | complex, /) -> Array:
        a, b = [converted(array, dtypes.bool) for array in require_arrays(full, (x1, x2), ("x1", "x2"))]
        common_shape(full, [a, b])
        known = by_numpy(getattr(np, name), (a, b), {})
        if known is not None:
            return known  # type: ignore[no-any-return]
        return wrap(dtypes.bool, formula(a._parts[0], b._parts[0]))

    return documented(function, name, text, False)  # type: ignore[no-any-return]


def _order(name: str, text: str, first: Formula, then: Formula, boolean: Formula) -> Callable[[Any, Any], Array]:
    """A comparison by size."""
    return _binary(name, f"{text}; of complex numbers by the real parts, where these are equal by the imaginary ones.",
                   real=then, integer=then, boolean=boolean, pair=_pairs_are(first, then), result="bool", smooth=False)


_magnitude = _unary("abs", "", real=dr.abs, integer=_int_abs, boolean=_same)
acos = _unary("acos", "The inverse cosine, in radians.", real=dr.acos, pair=_pairs("acos"))
acosh = _unary("acosh", "The inverse hyperbolic cosine.", real=dr.acosh, pair=_pairs("acosh"))
asin = _unary("asin", "The inverse sine, in radians.", real=dr.asin, pair=_pairs("asin"))
asinh = _unary("asinh", "The inverse hyperbolic sine.", real=dr.asinh, pair=_pairs("asinh"))
atan = _unary("atan", "The inverse tangent, in radians.", real=dr.atan, pair=_pairs("atan"))
atanh = _unary("atanh", "The inverse hyperbolic tangent.", real=dr.atanh, pair=_pairs("atanh"))
bitwise_invert = _unary("bitwise_invert", "Each bit flipped; of Booleans the negation.", integer=operator.invert,
                        boolean=operator.invert)
ceil = _unary("ceil", "The smallest integer that is not less.", real=dr.ceil, integer=_same, boolean=_same)
conj = _unary("conj", "The complex conjugate.", real=_same, integer=_same, pair=lambda z: (z[0], -z[1]))
cos = _unary("cos", "The cosine of an angle in radians.", real=dr.cos, pair=_pairs("cos"))
cosh = _unary("cosh", "The hyperbolic cosine.", real=dr.cosh, pair=_pairs("cosh"))
exp = _unary("exp", "e to the power of each element.", real=dr.exp, pair=_pairs("exp"))
expm1 = _unary("expm1", "exp(x) - 1, accurate for small x.", real=_expm1, derivative=dr.exp, pair=_pairs("expm1"))
floor = _unary("floor", "The largest integer that is not greater.", real=dr.floor, integer=_same, boolean=_same)
isfinite = _unary("isfinite", "Whether elements are neither infinite nor NaN.", real=dr.isfinite, integer=_true_like,
                  boolean=_true_like, pair=_parts_are(dr.isfinite, _and), result="bool")
isinf = _unary("isinf", "Whether elements are infinite.", real=dr.isinf, integer=_false_like, boolean=_false_like,
               pair=_parts_are(dr.isinf, _or), result="bool")
isnan = _unary("isnan", "Whether elements are NaN.", real=dr.isnan, integer=_false_like, boolean=_false_like,
               pair=_parts_are(dr.isnan, _or), result="bool")
log = _unary("log", "The natural logarithm.", real=dr.log, pair=_pairs("log"))
log10 = _unary("log10", "The logarithm to base 10.", real=_log10, derivative=lambda x: 1 / (math.log(10) * x),
               pair=_pairs("log10"))
log1p = _unary("log1p", "log(1 + x), accurate for small x.", real=_log1p, pair=_pairs("log1p"))
log2 = _unary("log2", "The logarithm to base 2.", real=dr.log2, pair=_pairs("log2"))
logical_not = _unary("logical_not", "Whether elements are false, or 0.", boolean=operator.invert, integer=_is_zero,
                     real=_is_zero, pair=_parts_are(_is_zero, _and), result="bool")
negative = _unary("negative", "The negative.", real=operator.neg, integer=operator.neg, pair=_by_parts(operator.neg))
positive = _unary("positive", "The elements themselves.", real=own, integer=_same,
                  pair=lambda z: (own(z[0]), own(z[1])))
reciprocal = _unary("reciprocal", "1 / x.", real=lambda x: 1 / x, pair=_pairs("reciprocal"))
round = _unary("round", "The nearest integer; the even one of two that are equally near.", real=dr.round, integer=_same,
               pair=_by_parts(dr.round))
sign = _unary("sign", "-1, 0 or 1 by the sign; of complex numbers z / abs(z). NaN remains.", real=_sign, integer=_sign,
              pair=_pairs("sign"))
signbit = _unary("signbit", "Whether the sign bit is set, of zeros and NaN as well.", real=_signbit, result="bool")
sin = _unary("sin", "The sine of an angle in radians.", real=dr.sin, pair=_pairs("sin"))
sinh = _unary("sinh", "The hyperbolic sine.", real=dr.sinh, pair=_pairs("sinh"))
sqrt = _unary("sqrt", "The square root; of complex numbers the one whose real part is not negative.", real=dr.sqrt,
              pair=_pairs("sqrt"))
square = _unary("square", "x * x.", real=lambda x: x * x, integer=lambda x: x * x, pair=_pairs("square"))
tan = _unary("tan", "The tangent of an angle in radians.", real=dr.tan, pair=_pairs("tan"))
tanh = _unary("tanh", "The hyperbolic tangent.", real=dr.tanh, pair=_pairs("tanh"))
trunc = _unary("trunc", "The nearest integer that is not larger in magnitude.", real=dr.trunc, integer=_same,
               boolean=_same)

add = _binary("add", "The sum; of truth values whether one is true.", real=operator.add, integer=operator.add,
              boolean=_or, pair=_by_parts(operator.add))
atan2 = _binary("atan2", "The angle of the point (x2, x1), in radians from -pi to pi.", real=dr.atan2)
bitwise_and = _binary("bitwise_and", "Bits that are set in both.", integer=_and, boolean=_and)
bitwise_left_shift = _binary("bitwise_left_shift", "x1 with its bits moved up by x2; 0 if that is all of them.",
                             integer=_shift_left)
bitwise_or = _binary("bitwise_or", "Bits that are set in one of them or both.", integer=_or, boolean=_or)
bitwise_right_shift = _binary("bitwise_right_shift", "x1 with its bits moved down by x2, filled with the sign.",
                              integer=_shift_right)
bitwise_xor = _binary("bitwise_xor", "Bits that are set in one of them.", integer=operator.xor, boolean=operator.xor)
copysign = _binary("copysign", "The magnitude of x1 with the sign of x2.", real=_copysign)
equal = _binary("equal", "Whether elements are equal.", real=operator.eq, integer=operator.eq, boolean=operator.eq,
                pair=_parts_are(operator.eq, _and), result="bool", smooth=False)
floor_divide = _binary("floor_divide", "The quotient rounded down; where an operand is infinite, floor(x1 / x2).",
                       real=_divide_down, integer=_int_divide, smooth=False)
greater = _order("greater", "Whether x1 > x2", operator.gt, operator.gt, lambda a, b: a & ~b)
greater_equal = _order("greater_equal", "Whether x1 >= x2", operator.gt, operator.ge, lambda a, b: a | ~b)
hypot = _binary("hypot", "sqrt(x1**2 + x2**2), without overflow.", real=dr.hypot)
less = _order("less", "Whether x1 < x2", operator.lt, operator.lt, lambda a, b: ~a & b)
less_equal = _order("less_equal", "Whether x1 <= x2", operator.lt, operator.le, lambda a, b: ~a | b)
logaddexp = _binary("logaddexp", "log(exp(x1) + exp(x2)), without overflow.", real=_logaddexp,
                    derivatives=(lambda a, b: _expit(a - b), lambda a, b: _expit(b - a)))
logical_and = _logical("logical_and", "Whether both are true.", _and)
logical_or = _logical("logical_or", "Whether one of them is true, or both.", _or)
logical_xor = _logical("logical_xor", "Whether one of them is true, and not both.", operator.xor)
maximum = _binary("maximum", "The larger one; NaN if there is one.", real=_extremum(dr.maximum), integer=dr.maximum,
                  boolean=_or, pair=_extremum_of_pairs(_pairs_are(operator.gt, operator.ge)))
minimum = _binary("minimum", "The smaller one; NaN if there is one.", real=_extremum(dr.minimum), integer=dr.minimum,
                  boolean=_and, pair=_extremum_of_pairs(_pairs_are(operator.lt, operator.le)))
multiply = _binary("multiply", "The product; of truth values whether both are true.", real=exact_product,
                   integer=operator.mul, boolean=_and, pair=_pairs("mul"))
nextafter = _binary("nextafter", "The next number from x1 in the direction of x2.", real=_nextafter, smooth=False)
not_equal = _binary("not_equal", "Whether elements differ.", real=operator.ne, integer=operator.ne,
                    boolean=operator.ne, pair=_parts_are(operator.ne, _or), result="bool", smooth=False)
remainder = _binary("remainder", "The remainder of x1 / x2 with the sign of x2, as Python's %.", real=_remainder,
                    derivatives=(lambda a, b: dr.ones(type(a), ()), lambda a, b: -dr.floor(a / b)),
                    integer=_int_remainder)
subtract = _binary("subtract", "The difference.", real=operator.sub, integer=operator.sub, pair=_by_parts(operator.sub),
                   counts=False)
_divide = _binary("divide", "", real=operator.truediv, pair=_pairs("quotient"))
_pow = _binary("pow", "", real=dr.power, integer=_int_pow, pair=_pairs("power"))


def abs(x: Array, /) -> Array:
    """The absolute value; of complex numbers the magnitude, which is real.

    Lazy; differentiable.
    """
    array = require_kind(f"{_NAMESPACE}.abs", "x", x, "biufc")
    known = by_numpy(np.abs, (array,), {}) if array._dtype.kind == "c" else None
    if known is not None:
        return known  # type: ignore[no-any-return]
    return wrap(array._dtype.part, dr.hypot(*array._parts)) if array._dtype.kind == "c" else _magnitude(array)


enter("abs", abs)


def divide(x1: Array | complex, x2: Array | complex, /) -> Array:
    """The quotient; integers become floating point numbers of the default type.

    Lazy; differentiable.
    """
    return _quotient.two(x1, x2)  # type: ignore[no-any-return]


def _divide_any(x1: Any, x2: Any) -> Any:
    # Python numbers need not fit into integers: these become floating point numbers before.
    given = [converted(x, dtypes.DEFAULT_FLOAT) if isinstance(x, Storage) and x._dtype.kind in "biu" and
             number_of(other) is not None else x for x, other in ((x1, x2), (x2, x1))]
    found = operands(f"{_NAMESPACE}.divide", given, ("x1", "x2"))
    return _divide(*[converted(x, dtypes.DEFAULT_FLOAT) if x._dtype.kind in "biu" else x for x in found])


_quotient = Operation({"f": operator.truediv}, None, _divide_any, np.divide)
_quotient.kinds |= {"b", "i", "c"}  # of which NumPy makes floating point numbers, too
enter("truediv", _quotient)


def pow(x1: Array | complex, x2: Array | complex, /) -> Array:
    """x1 to the power of x2. Integers are multiplied exactly, modulo 2 to the number of their bits.

    Lazy; differentiable. Raises a ``ValueError`` for integers to the power of a negative Python number, which is no
    integer, or of negative elements that are known; for others the result is 0, or 1 or -1 where that is exact.
    """
    number = number_of(x2)
    if isinstance(number, int) and number < 0 and isinstance(x1, Storage) and x1._dtype.kind in "iu":
        raise _no_integers(number)
    if number is not None and not isinstance(number, complex) and number in (1, 2, 3) and isinstance(x1, Storage):
        array, _ = (x1, x2) if x1._dtype.kind == "f" else operands(f"{_NAMESPACE}.pow", (x1, x2), ("x1", "x2"), "iufc")
        return copy_of(array) if number == 1 else multiply(array, array) if number == 2 else \
            multiply(multiply(array, array), array)
    if isinstance(x2, Storage) and x2._dtype.kind == "i" and has_value(x2) and (on_host(x2) < 0).any() and \
            (x1._dtype.kind if isinstance(x1, Storage) else default_dtype(number_of(x1)).kind) in "iu":
        raise _no_integers(int(on_host(x2).min()))
    return _pow(x1, x2)


def _no_integers(number: int) -> ValueError:
    return ValueError(f"{_NAMESPACE}.pow(): integers to the power of {number} are no integers; convert 'x1' to a "
                      "floating point type with astype().")


enter("pow", pow)


def _copied_part(value: Any, name: str) -> Any:
    return np.array(getattr(value, name))


def real(x: Array, /) -> Array:
    """The real part of complex numbers; real ones are their own.

    Lazy; differentiable.
    """
    array = require_kind(f"{_NAMESPACE}.real", "x", x, "iufc")
    known = by_numpy(_copied_part, (array, "real"), {})
    if known is not None:
        return known  # type: ignore[no-any-return]
    return wrap(array._dtype.part, _same(array._parts[0]))


def imag(x: Array, /) -> Array:
    """The imaginary part of complex numbers; zeros for real ones.

    Lazy; differentiable.
    """
    array = require_kind(f"{_NAMESPACE}.imag", "x", x, "iufc")
    known = by_numpy(_copied_part, (array, "imag"), {})
    if known is not None:
        return known  # type: ignore[no-any-return]
    if array._dtype.kind == "c":
        return wrap(array._dtype.part, _same(array._parts[1]))
    return constant(array._dtype, 0, array.shape, array.device)


def clip(x: Array, /, min: Any = None, max: Any = None) -> Array:
    """Elements no less than ``min`` and no greater than ``max``, which are numbers or arrays; NaN remains.

    The result has the data type of ``x``, and the shape that all are broadcast to. Lazy; differentiable.
    """
    function = f"{_NAMESPACE}.clip"
    array = require_array(function, "x", x)
    if fits(array._dtype, 0 if min is None else min) and fits(array._dtype, 0 if max is None else max):
        known = by_numpy(np.clip, (array, min, max), {})
        if known is not None:
            return known  # type: ignore[no-any-return]
    found = array
    for name, bound, choose in (("min", min, maximum), ("max", max, minimum)):
        if bound is not None:
            found = choose(*operands(function, (found, _bound(function, name, bound, array._dtype)), ("x", name)))
    return copy_of(array) if found is array else converted(found, array._dtype)


def _bound(function: str, name: str, value: Any, dtype: DType) -> Any:
    """A bound, which must go with the data type of what is clipped."""
    number = number_of(value)
    if number is None:
        return require_array(function, name, value)
    if dtype.kind in "iu":
        limits = dtypes.iinfo_of(dtype)
        if isinstance(number, float) and number.is_integer():
            number = int(number)
        if isinstance(number, float) and math.isinf(number):
            number = limits.max if number > 0 else limits.min
        if isinstance(number, int):
            number = sorted((limits.min, number, limits.max))[1]
    if with_number(dtype, number) is not dtype:
        raise TypeError(f"{function}(): '{name}' is {number!r}, which no element of {dtype} is; convert 'x' with "
                        "astype().")
    return number
