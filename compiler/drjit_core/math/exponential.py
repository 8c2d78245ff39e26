"""Exponentials, logarithms and powers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from ..control.rare import rarely
from ..errors import UnsupportedType
from ..ir.build import literal, sized_by
from ..ir.node import BAKED, Node
from ..ir.trace import bitcast, cast, ops
from ..types import COMPUTES_IN, FLOAT32, FLOAT64, TYPES, UINT32, UINT64, is_float, is_integral
from .polynomial import clamp, constant, elementary, elementary_binary, estrin

__all__ = ["exp", "exp2", "log", "log2", "power"]



class Format(NamedTuple):
    """Layout of one precision, and the constants that follow from it."""

    word: int  # unsigned integer type of the same size
    mantissa: int  # explicit bits
    bias: int  # of the exponent
    log2_e: tuple[float, float]  # 1 / log(2), in two parts, each rounded to nearest
    log_2: tuple[float, float]  # log(2), likewise
    exp: tuple[float, ...]  # (exp(r) - 1 - r) / r**2
    #: Results are infinite above; where they are 0 below, ``2**n`` is, too: gradual underflow takes a hundred cycles.
    exp_range: tuple[float, float]
    exp2: tuple[float, ...]  # (2**r - 1) / r
    exp2_range: tuple[float, float]
    log: tuple[float, ...]  # see log_of_mantissa


FORMATS = {
    FLOAT32: Format(
        word=UINT32, mantissa=23, bias=127,
        log2_e=(1.4426950216293335, 1.925963033500011e-08), log_2=(0.6931471824645996, -1.9046542121259336e-09),
        # |r| <= 1.0001 log(2)/2, relative error 2^-27.99
        exp=(0.4999999403953552, 0.1666652113199234, 0.04166838899254799, 0.008368716575205326, 0.0013814588310196996),
        exp_range=(-176.05, 89.0),
        # |r| <= 0.50005, relative error 2^-25.9
        exp2=(0.6931471824645996, 0.24022647738456726, 0.055503323674201965, 0.009618437848985195,
              0.0013398887822404504, 0.0001535335904918611),
        exp2_range=(-254.0, 129.0),
        # (log(1+f) - f + f**2/2) / f**3 on sqrt(1/2) <= 1 + f <= sqrt(2), relative error 2^-27.25
        log=(0.3333333134651184, -0.2500081956386566, 0.20001226663589478, -0.16623356938362122, 0.14201760292053223,
             -0.13160185515880585, 0.12761561572551727, -0.07634473592042923)),
    FLOAT64: Format(
        word=UINT64, mantissa=52, bias=1023,
        log2_e=(1.4426950408889634, 2.0355273740931033e-17), log_2=(0.6931471805599453, 2.3190468138462996e-17),
        # |r| <= 1.0001 log(2)/2, relative error 2^-56.36
        exp=(0.5000000000000011, 0.16666666666666413, 0.04166666666653016, 0.00833333333349446, 0.001388888894362949,
             0.00019841269506559118, 2.480149309964579e-05, 2.7557586410974077e-06, 2.763024807681274e-07,
             2.5000044100799855e-08),
        exp_range=(-1418.1, 710.0),
        # |r| <= 0.50005, relative error 2^-55.05
        exp2=(0.6931471805599453, 0.2402265069591013, 0.055504108664820084, 0.009618129107594093,
              0.0013333558146775026, 0.0001540353045714939, 1.5252733492833914e-05, 1.3215435262158455e-06,
              1.0178199657990925e-07, 7.0737869434742465e-09, 4.4347633290715433e-10),
        exp2_range=(-2046.0, 1025.0),
        # (2 atanh(s) - 2 s) / s**3 in s**2, on the same interval of f = 2 s / (1 - s), relative error 2^-59.5
        log=(0.6666666666666734, 0.3999999999941706, 0.28571428741888466, 0.22222198622174588, 0.18183561872507126,
             0.15314111339650138, 0.14795358729328184)),
}


# --- exponentials ----------------------------------------------------------------------------------------------------


def round_quotient(x: Node, factor: float, f: Format, bias: int) -> tuple[Node, Node]:
    """``x * factor`` rounded to an integer n, as a float, and as ``n + bias`` in the low bits of a word.

    A number is added that is so large that its last place is 1; the sum then holds n in its low bits.
    """
    magic = constant(x.type, 1.5 * 2.0 ** f.mantissa + bias)
    shifted = ops.fma(x, constant(x.type, factor), magic)
    return ops.sub(shifted, magic), bitcast(shifted, f.word)


def scale_by_power(value: Node, biased: Node, f: Format) -> Node:
    """``value * 2**n`` for ``biased = n + 2 * bias``, in two steps of half the exponent.

    Each factor is a normal number, and only the last product rounds: right up to overflow and into gradual underflow.
    """
    mantissa = constant(f.word, f.mantissa)
    half = ops.shr(biased, constant(f.word, 1))
    first = bitcast(ops.shl(half, mantissa), value.type)
    second = bitcast(ops.shl(ops.sub(biased, half), mantissa), value.type)
    return ops.mul(ops.mul(value, first), second)  # type: ignore[no-any-return]


@elementary
def exp(a: Node) -> Node:
    """Exponential ``e**a`` as ``2**n * e**r`` with ``a = n * log(2) + r`` and ``|r| <= log(2)/2``."""
    f = FORMATS[a.type]
    x = clamp(a, *f.exp_range)
    n, biased = round_quotient(x, f.log2_e[0], f, 2 * f.bias)
    r = x
    for part in f.log_2:
        r = ops.fma(n, constant(a.type, -part), r)
    z = ops.mul(r, r)
    value = ops.add(ops.fma(z, estrin(r, f.exp, z), r), constant(a.type, 1))
    return scale_by_power(value, biased, f)


@elementary
def exp2(a: Node) -> Node:
    """Exponential ``2**a`` as ``2**n * 2**r`` with ``|r| <= 1/2``; exact for integers."""
    f = FORMATS[a.type]
    x = clamp(a, *f.exp2_range)
    n, biased = round_quotient(x, 1.0, f, 2 * f.bias)
    r = ops.sub(x, n)
    value = ops.fma(estrin(r, f.exp2), r, constant(a.type, 1))
    return scale_by_power(value, biased, f)


# --- logarithms ------------------------------------------------------------------------------------------------------


def split(x: Node, f: Format, offset: Node | None = None) -> tuple[Node, Node]:
    """Exponent e and mantissa m of a positive normal number, ``x = m * 2**e`` with ``sqrt(1/2) <= m < sqrt(2)``.

    Only unsigned shifts, and no conversion from integers: 64-bit words have neither before AVX-512.  Put into the low
    bits of ``2**mantissa``, the exponent is that number of units more; ``offset`` is what is subtracted again.
    """
    root = _bits_of_root(f)
    bits = ops.add(bitcast(x, f.word), constant(f.word, (f.bias << f.mantissa) - root))
    magic = constant(f.word, (f.bias + f.mantissa) << f.mantissa)
    exponent = bitcast(ops.or_(ops.shr(bits, constant(f.word, f.mantissa)), magic), x.type)
    if offset is None:
        offset = constant(x.type, 2.0 ** f.mantissa + f.bias)
    mantissa = ops.add(ops.and_(bits, constant(f.word, (1 << f.mantissa) - 1)), constant(f.word, root))
    return ops.sub(exponent, offset), bitcast(mantissa, x.type)


def split_any(a: Node, f: Format) -> tuple[Node, Node]:
    """:func:`split` of any positive number: denormal ones are scaled into the normal range first."""
    scale, offset = f.mantissa + 2, 2.0 ** f.mantissa + f.bias
    small = ops.lt(a, constant(a.type, 2.0 ** (1 - f.bias)))
    scaled = ops.select(small, ops.mul(a, constant(a.type, 2.0 ** scale)), a)
    return split(scaled, f, ops.select(small, constant(a.type, offset + scale), constant(a.type, offset)))


def _bits_of_root(f: Format) -> int:
    """Bit pattern of sqrt(1/2)."""
    return ((f.bias - 1) << f.mantissa) + int((math.sqrt(2.0) - 1.0) * 2.0 ** f.mantissa)


def log_of_mantissa(m: Node, f: Format, carry: Node | None) -> Node:
    """``log(m) + carry`` where the carry is tiny.

    Single precision: ``f - f**2/2 + f**3 P(f)`` with ``f = m - 1``.  Double precision, where P would have 20 terms:
    with ``s = f / (2 + f)`` it is ``2 atanh(s) = 2 s + s R(s**2)``, and with ``2 s = f - s f`` that is ``f - (f**2/2 -
    s (f**2/2 + R))``, in which only ``f``, which is exact, is large (the formula of FDLIBM's e_log.c).
    """
    x = ops.sub(m, constant(m.type, 1))
    z = ops.mul(x, x)
    if m.type == FLOAT32:
        cube, tail = ops.mul(z, x), estrin(x, f.log, z)
        y = ops.mul(cube, tail) if carry is None else ops.fma(cube, tail, carry)
        return ops.add(ops.fma(z, constant(m.type, -0.5), y), x)  # type: ignore[no-any-return]
    s = ops.div(x, ops.add(m, constant(m.type, 1)))
    w = ops.mul(s, s)
    tail = ops.fma(z, constant(m.type, 0.5), ops.mul(w, estrin(w, f.log)))
    y = ops.mul(s, tail) if carry is None else ops.fma(s, tail, carry)
    return ops.add(ops.fma(z, constant(m.type, -0.5), y), x)  # type: ignore[no-any-return]


def _log_special(a: Node, value: Node) -> Node:
    """Logarithms of what is not a positive finite number."""
    infinity = constant(a.type, math.inf)
    value = ops.select(ops.lt(a, infinity), value, a)
    zero = constant(a.type, 0)
    special = ops.select(ops.eq(a, zero), constant(a.type, -math.inf), constant(a.type, math.nan))
    # "not below or equal", rather than "above": NaN has been dealt with
    return ops.select(ops.le(a, zero), special, value)  # type: ignore[no-any-return]


def unusual(a: Node, f: Format) -> Node:
    """Whether a number is anything but positive, normal and finite."""
    least, infinity = 1 << f.mantissa, (2 * f.bias + 1) << f.mantissa
    offset = ops.sub(bitcast(a, f.word), constant(f.word, least))
    return ops.ge(offset, constant(f.word, infinity - least))  # type: ignore[no-any-return]


def _natural(a: Node, e: Node, m: Node) -> Node:
    f = FORMATS[a.type]
    value = log_of_mantissa(m, f, ops.mul(e, constant(a.type, f.log_2[1])))
    return ops.fma(e, constant(a.type, f.log_2[0]), value)  # type: ignore[no-any-return]


def _binary(a: Node, e: Node, m: Node) -> Node:
    f = FORMATS[a.type]
    value = log_of_mantissa(m, f, None)
    low = ops.fma(value, constant(a.type, f.log2_e[1]), e)
    return ops.fma(value, constant(a.type, f.log2_e[0]), low)  # type: ignore[no-any-return]


def _logarithm(name: str, a: Node, function: Callable[[Node, Node, Node], Node]) -> Node:
    """A logarithm by a function of the operand, its exponent and its mantissa."""
    f = FORMATS[a.type]
    (result,) = rarely(name, unusual(a, f), [function(a, *split(a, f))], [a],
                       lambda a: [_log_special(a, function(a, *split_any(a, f)))])
    return result


@elementary
def log(a: Node) -> Node:
    """Natural logarithm, ``e * log(2) + log(m)`` with ``a = m * 2**e`` and m next to 1."""
    return _logarithm("log", a, _natural)


@elementary
def log2(a: Node) -> Node:
    """Logarithm to the base 2, ``e + log(m) / log(2)``; exact for powers of two."""
    return _logarithm("log2", a, _binary)


# --- powers ----------------------------------------------------------------------------------------------------------

#: Integer exponents up to this one are multiplied out.
_LARGEST_MULTIPLIED = 64

#: ``(log2(m) / s - K) / s**2`` in s**2, where ``m = (1 + s) / (1 - s)`` and ``K = 2 / log(2)``, for powers.
_POWER_LOG2 = {
    # relative error 2^-36.4
    FLOAT32: (0.9617967009544373, 0.5770788192749023, 0.41192734241485596, 0.3364872634410858),
    # relative error 2^-59.5
    FLOAT64: (0.9617966939259853, 0.577078016347174, 0.4121985855705884, 0.3205985574763377,
              0.26233334646825074, 0.22093589877217726, 0.21345215689534552),
}


@elementary_binary
def _power(a: Node, b: Node) -> Node:
    """``exp2(b * log2(a))`` with the logarithm and the product as sums of two numbers."""
    f, type_ = FORMATS[a.type], a.type
    exponent, rest = _scaled_logarithm(b, *_log2_extended(a, *split(a, f)))
    n, word = round_quotient(exponent, 1.0, f, 0)
    value = bitcast(_exp2_of_remainder(exponent, rest, n), f.word)
    value = bitcast(ops.add(value, ops.shl(word, constant(f.word, f.mantissa))), type_)  # times 2**n
    ordinary = ops.lt(ops.abs(exponent), constant(type_, f.bias - 2))
    (result,) = rarely("power", ops.or_(unusual(a, f), ops.inv(ordinary)), [value], [a, b],
                       lambda a, b: [_any_power(a, b)])
    return result


def _any_power(a: Node, b: Node) -> Node:
    """The power of all numbers, with results that overflow, underflow or are nothing."""
    f, type_, magnitude = FORMATS[a.type], a.type, ops.abs(a)
    zero = constant(type_, 0)
    logarithm, low = _log2_extended(magnitude, *split_any(magnitude, f))
    infinity = constant(type_, math.inf)
    logarithm = ops.select(ops.lt(magnitude, infinity), logarithm, magnitude)
    logarithm = ops.select(ops.eq(magnitude, zero), ops.neg(infinity), logarithm)
    exponent, rest = _scaled_logarithm(b, logarithm, low)
    rest = ops.select(ops.lt(ops.abs(exponent), constant(type_, 2 * f.bias)), rest, zero)
    # 1 whatever the other operand is, even NaN
    exponent = ops.select(ops.or_(ops.eq(magnitude, constant(type_, 1)), ops.eq(b, zero)), zero, exponent)
    exponent = clamp(exponent, *f.exp2_range)
    n, biased = round_quotient(exponent, 1.0, f, 2 * f.bias)
    return _power_with_sign(a, b, scale_by_power(_exp2_of_remainder(exponent, rest, n), biased, f))


def _scaled_logarithm(b: Node, logarithm: Node, low: Node) -> tuple[Node, Node]:
    """The product of a number and the sum of two others, again as a sum."""
    exponent = ops.mul(b, logarithm)
    return exponent, ops.fma(b, low, ops.fma(b, logarithm, ops.neg(exponent)))


def _exp2_of_remainder(exponent: Node, rest: Node, n: Node) -> Node:
    f, r = FORMATS[exponent.type], ops.add(ops.sub(exponent, n), rest)
    return ops.fma(estrin(r, f.exp2), r, constant(exponent.type, 1))  # type: ignore[no-any-return]


def power(a: Node, b: Node | int) -> Node:
    """``a**b``; a Python integer as exponent means multiplication, for integers modulo the word size."""
    return _integer_power(a, b) if isinstance(b, int) else _power(a, b)


def _multiplied(a: Node, n: int) -> Node:
    """``a**n`` for positive n by repeated squaring."""
    result: Node | None = None
    while n:
        if n & 1:
            result = a if result is None else ops.mul(result, a)
        n >>= 1
        if n:
            a = ops.mul(a, a)
    assert result is not None
    return result


def _integer_power(a: Node, n: int) -> Node:
    if is_integral(a.type):
        if n < 0:
            raise UnsupportedType(f"power with the negative exponent {n}", TYPES[a.type].name)
    elif not is_float(a.type):
        raise UnsupportedType("power", TYPES[a.type].name)
    elif COMPUTES_IN[a.type] != a.type:
        return cast(_integer_power(cast(a, COMPUTES_IN[a.type]), n), a.type)
    elif abs(n) > _LARGEST_MULTIPLIED:
        return power(a, literal(a.type, n))
    if n == 0:
        return sized_by(literal(a.type, 1, a.size, BAKED), a)
    return _multiplied(a, n) if n > 0 else ops.div(constant(a.type, 1), _multiplied(a, -n))


def _power_with_sign(a: Node, b: Node, value: Node) -> Node:
    """Sign of the power, and what has none (C99, annex F.9.4.4)."""
    f, type_ = FORMATS[a.type], a.type
    half = ops.mul(b, constant(type_, 0.5))
    integer = ops.eq(ops.round(b), b)
    odd = ops.and_(integer, ops.neq(ops.round(half), half))
    sign = ops.and_(bitcast(a, f.word), constant(f.word, 1 << (TYPES[type_].bits - 1)))
    value = bitcast(ops.or_(bitcast(value, f.word), ops.select(odd, sign, constant(f.word, 0))), type_)
    negative = ops.and_(ops.lt(a, constant(type_, 0)), ops.gt(a, constant(type_, -math.inf)))
    return ops.select(ops.and_(negative, ops.inv(integer)), constant(type_, math.nan), value)  # type: ignore[no-any-return]


def _sum(a: Node, b: Node) -> tuple[Node, Node]:
    """``a + b`` and its rounding error, for ``|a| >= |b|`` or ``a = 0`` (T. J. Dekker, 1971)."""
    total = ops.add(a, b)
    return total, ops.add(ops.sub(a, total), b)


def _product(a: Node, b: Node) -> tuple[Node, Node]:
    """``a * b`` and its rounding error."""
    result = ops.mul(a, b)
    return result, ops.fma(a, b, ops.neg(result))


def _log2_extended(a: Node, e: Node, m: Node) -> tuple[Node, Node]:
    """``log2(m) + e`` as a sum of two numbers, to some five bits more than one of them has.

    With ``s = (m - 1) / (m + 1)`` as a sum of two numbers, ``log2(m) = K atanh(s)``, ``K = 2 / log(2)``.  The cubic and
    higher terms are at most 1/100 of the linear one, and do without their rounding errors.
    """
    f, type_ = FORMATS[a.type], a.type
    one = constant(type_, 1)
    x, (t, t_low) = ops.sub(m, one), _sum_with_one(m)
    reciprocal = ops.div(one, t)
    s = ops.mul(x, reciprocal)
    remainder = ops.fma(ops.neg(s), t_low, ops.fma(ops.neg(s), t, x))
    s_low = ops.mul(remainder, reciprocal)

    high, low = (constant(type_, 2 * part) for part in f.log2_e)
    z = ops.mul(s, s)
    w, w_low = _product(s, high)
    # the cubic term does without a second number: what it would add is the derivative, 1 / (1 - z), times that of s
    s_low = ops.fma(s_low, z, s_low)
    w_low = ops.fma(s_low, high, ops.fma(s, low, w_low))
    tail = ops.fma(ops.mul(s, z), estrin(z, _POWER_LOG2[type_]), w_low)
    total, total_low = _sum(e, w)
    return _sum(total, ops.add(total_low, tail))


def _sum_with_one(m: Node) -> tuple[Node, Node]:
    """``m + 1`` and its rounding error for m between 1/2 and 2, where ``total - 1`` is exact."""
    one = constant(m.type, 1)
    total = ops.add(m, one)
    return total, ops.sub(m, ops.sub(total, one))
