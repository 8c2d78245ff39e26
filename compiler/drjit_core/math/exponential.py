"""Exponentials, logarithms and powers."""

from __future__ import annotations

import math
from typing import NamedTuple

from ..errors import UnsupportedType
from ..ir.build import literal
from ..ir.node import BAKED, Node
from ..ir.trace import bitcast, cast, ops
from ..types import FLOAT16, FLOAT32, FLOAT64, TYPES, UINT32, UINT64, is_float, is_integral
from .polynomial import clamp, constant, elementary, elementary_binary, estrin

__all__ = ["FORMATS", "Format", "exp", "exp2", "log", "log2", "log_of_mantissa", "power", "round_quotient",
           "scale_by_power", "split", "split_any"]

_and, _or = getattr(ops, "and"), getattr(ops, "or")


class Format(NamedTuple):
    """Layout of one precision, and the constants that follow from it."""

    word: int  # unsigned integer type of the same size
    mantissa: int  # explicit bits
    bias: int  # of the exponent
    log2_e: tuple[float, float]  # 1 / log(2), in two parts, each rounded to nearest
    log_2: tuple[float, float]  # log(2), likewise
    exp: tuple[float, ...]  # (exp(r) - 1 - r) / r**2
    exp_range: tuple[float, float]  # results are 0 below and infinite above
    exp2: tuple[float, ...]  # (2**r - 1) / r
    exp2_range: tuple[float, float]
    log: tuple[float, ...]  # see log_of_mantissa


FORMATS = {
    FLOAT32: Format(
        word=UINT32, mantissa=23, bias=127,
        log2_e=(1.4426950216293335, 1.925963033500011e-08), log_2=(0.6931471824645996, -1.9046542121259336e-09),
        # |r| <= 1.0001 log(2)/2, relative error 2^-27.99
        exp=(0.4999999403953552, 0.1666652113199234, 0.04166838899254799, 0.008368716575205326, 0.0013814588310196996),
        exp_range=(-104.0, 89.0),
        # |r| <= 0.50005, relative error 2^-25.9
        exp2=(0.6931471824645996, 0.24022647738456726, 0.055503323674201965, 0.009618437848985195,
              0.0013398887822404504, 0.0001535335904918611),
        exp2_range=(-151.0, 129.0),
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
        exp_range=(-746.0, 710.0),
        # |r| <= 0.50005, relative error 2^-55.05
        exp2=(0.6931471805599453, 0.2402265069591013, 0.055504108664820084, 0.009618129107594093,
              0.0013333558146775026, 0.0001540353045714939, 1.5252733492833914e-05, 1.3215435262158455e-06,
              1.0178199657990925e-07, 7.0737869434742465e-09, 4.4347633290715433e-10),
        exp2_range=(-1076.0, 1025.0),
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
    exponent = bitcast(_or(ops.shr(bits, constant(f.word, f.mantissa)), magic), x.type)
    if offset is None:
        offset = constant(x.type, 2.0 ** f.mantissa + f.bias)
    mantissa = ops.add(_and(bits, constant(f.word, (1 << f.mantissa) - 1)), constant(f.word, root))
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


@elementary
def log(a: Node) -> Node:
    """Natural logarithm, ``e * log(2) + log(m)`` with ``a = m * 2**e`` and m next to 1."""
    f = FORMATS[a.type]
    e, m = split_any(a, f)
    value = log_of_mantissa(m, f, ops.mul(e, constant(a.type, f.log_2[1])))
    return _log_special(a, ops.fma(e, constant(a.type, f.log_2[0]), value))


@elementary
def log2(a: Node) -> Node:
    """Logarithm to the base 2, ``e + log(m) / log(2)``; exact for powers of two."""
    f = FORMATS[a.type]
    e, m = split_any(a, f)
    value = log_of_mantissa(m, f, None)
    low = ops.fma(value, constant(a.type, f.log2_e[1]), e)
    return _log_special(a, ops.fma(value, constant(a.type, f.log2_e[0]), low))


# --- powers ----------------------------------------------------------------------------------------------------------

#: Integer exponents up to this one are multiplied out.
_LARGEST_MULTIPLIED = 64

# 2**r = 1 + r P(r) for powers of single precision, computed in double: |r| <= 0.50005, relative error 2^-34.32
_POWER_EXP2 = (0.693147180704683, 0.24022651066772968, 0.05550410365602156, 0.00961803809716518, 0.0013333935268965917,
               0.0001546676848430849, 1.5196131114691454e-05)
# log2(1 + f) = f P(f) likewise: sqrt(1/2) <= 1 + f <= sqrt(2), relative error 2^-35.85
_POWER_LOG2 = (1.442695040868702, -0.7213475208687363, 0.4808983613960698, -0.36067367483098034, 0.2885372934423805,
               -0.24045316535403802, 0.20617536020943472, -0.1803006092366104, 0.15876979714062403,
               -0.14315635160357615, 0.14474837083327113, -0.1428398455064478, 0.07737112010759283)
# (2 atanh(s) - 2 s - 2 s**3 / 3) / s**5 in s**2 for powers of double precision: relative error 2^-66.29
_POWER_ATANH = (0.4000000000000225, 0.2857142857010214, 0.22222222519484558, 0.1818178440384764, 0.1538675571022462,
                0.1325685393866388, 0.13196006426750606)
_TWO_THIRDS = (0.6666666666666666, 3.700743415417188e-17)


@elementary_binary
def _power(a: Node, b: Node) -> Node:
    # an infinite exponent as a large one, so that 0 * inf does not arise where the base is 1
    limited = clamp(b, -1e30, 1e30) if a.type == FLOAT32 else clamp(b, -1e300, 1e300)
    magnitude = ops.abs(a)
    value = _power32(magnitude, limited) if a.type == FLOAT32 else _power64(magnitude, limited)
    return _power_special(a, b, value)


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
    elif a.type == FLOAT16:
        return cast(_integer_power(cast(a, FLOAT32), n), FLOAT16)
    elif abs(n) > _LARGEST_MULTIPLIED:
        return power(a, literal(a.type, n))
    if n == 0:
        return literal(a.type, 1, a.size, BAKED)
    return _multiplied(a, n) if n > 0 else ops.div(constant(a.type, 1), _multiplied(a, -n))


def _power_special(a: Node, b: Node, value: Node) -> Node:
    """Sign and special values of ``|a|**b`` (C99, annex F.9.4.4)."""
    f, type_ = FORMATS[a.type], a.type
    half = ops.mul(b, constant(type_, 0.5))
    integer = ops.eq(ops.round(b), b)
    odd = _and(integer, ops.neq(ops.round(half), half))
    sign = _and(bitcast(a, f.word), constant(f.word, 1 << (TYPES[type_].bits - 1)))
    value = bitcast(_or(bitcast(value, f.word), ops.select(odd, sign, constant(f.word, 0))), type_)
    negative = _and(ops.lt(a, constant(type_, 0)), ops.gt(a, constant(type_, -math.inf)))
    value = ops.select(_and(negative, ops.inv(integer)), constant(type_, math.nan), value)
    one = constant(type_, 1)
    is_one = _or(ops.eq(a, one), ops.eq(b, constant(type_, 0)))
    return ops.select(is_one, one, value)  # type: ignore[no-any-return]


def _infinite_ends(magnitude: Node, logarithm: Node, type_: int) -> Node:
    """The logarithm with its values at zero and infinity."""
    infinity = constant(magnitude.type, math.inf)
    value = ops.select(ops.lt(magnitude, infinity), logarithm, cast(magnitude, type_))
    is_zero = ops.eq(magnitude, constant(magnitude.type, 0))
    return ops.select(is_zero, constant(type_, -math.inf), value)  # type: ignore[no-any-return]


def _power32(magnitude: Node, b: Node) -> Node:
    """``exp2(b * log2(a))`` in double precision, with polynomials that are just good enough for single precision."""
    f = FORMATS[FLOAT64]
    e, m = split(cast(magnitude, FLOAT64), f)
    x = ops.sub(m, constant(FLOAT64, 1))
    logarithm = _infinite_ends(magnitude, ops.fma(x, estrin(x, _POWER_LOG2), e), FLOAT64)
    exponent = clamp(ops.mul(cast(b, FLOAT64), logarithm), -151.0, 129.0)
    n, biased = round_quotient(exponent, 1.0, f, f.bias)
    r = ops.sub(exponent, n)
    value = ops.fma(estrin(r, _POWER_EXP2), r, constant(FLOAT64, 1))
    # far from the ends of double precision one factor will do
    scale = bitcast(ops.shl(biased, constant(f.word, f.mantissa)), FLOAT64)
    return cast(ops.mul(value, scale), FLOAT32)


def _sum(a: Node, b: Node) -> tuple[Node, Node]:
    """``a + b`` and its rounding error, for ``|a| >= |b|`` or ``a = 0`` (T. J. Dekker, 1971)."""
    total = ops.add(a, b)
    return total, ops.add(ops.sub(a, total), b)


def _product(a: Node, b: Node) -> tuple[Node, Node]:
    """``a * b`` and its rounding error."""
    result = ops.mul(a, b)
    return result, ops.fma(a, b, ops.neg(result))


def _log2_extended(magnitude: Node) -> tuple[Node, Node]:
    """``log2`` in double precision as a sum of two numbers, to some 64 bits.

    With ``s = (m - 1) / (m + 1)`` as a sum of two numbers, ``log(m) = s (2 + z (2/3 + z P(z)))``, ``z = s**2``, where
    everything but P is computed with the rounding errors of the larger terms.
    """
    f, type_ = FORMATS[FLOAT64], FLOAT64
    e, m = split_any(magnitude, f)
    one = constant(type_, 1)
    x, (t, t_low) = ops.sub(m, one), _sum_with_one(m)
    reciprocal = ops.div(one, t)
    s = ops.mul(x, reciprocal)
    remainder = ops.fma(ops.neg(s), t_low, ops.fma(ops.neg(s), t, x))
    s_low = ops.mul(remainder, reciprocal)

    z, z_low = _product(s, s)
    z_low = ops.fma(ops.add(s, s), s_low, z_low)
    c, c_low = _sum(constant(type_, _TWO_THIRDS[0]), ops.mul(z, estrin(z, _POWER_ATANH)))
    c_low = ops.add(c_low, constant(type_, _TWO_THIRDS[1]))
    u, u_low = _product(z, c)
    u_low = ops.fma(z, c_low, ops.fma(z_low, c, u_low))
    v, v_low = _product(s, u)
    v_low = ops.fma(s, u_low, ops.fma(s_low, u, v_low))
    y, y_low = _sum(ops.add(s, s), v)
    y_low = ops.add(y_low, ops.add(v_low, ops.add(s_low, s_low)))

    high, low = (constant(type_, part) for part in f.log2_e)
    w, w_low = _product(y, high)
    w_low = ops.fma(y, low, ops.fma(y_low, high, w_low))
    total, total_low = _sum(e, w)
    return _infinite_ends(magnitude, total, type_), ops.add(total_low, w_low)


def _sum_with_one(m: Node) -> tuple[Node, Node]:
    """``m + 1`` and its rounding error for m between 1/2 and 2, where ``total - 1`` is exact."""
    one = constant(m.type, 1)
    total = ops.add(m, one)
    return total, ops.sub(m, ops.sub(total, one))


def _power64(magnitude: Node, b: Node) -> Node:
    """``exp2(b * log2(a))`` with the logarithm and the product as sums of two numbers."""
    f = FORMATS[FLOAT64]
    logarithm, low = _log2_extended(magnitude)
    exponent = ops.mul(b, logarithm)
    rest = ops.fma(b, low, ops.fma(b, logarithm, ops.neg(exponent)))
    rest = ops.select(ops.lt(ops.abs(exponent), constant(FLOAT64, 2048)), rest, constant(FLOAT64, 0))
    exponent = clamp(exponent, *f.exp2_range)
    n, biased = round_quotient(exponent, 1.0, f, 2 * f.bias)
    r = ops.add(ops.sub(exponent, n), rest)
    return scale_by_power(ops.fma(estrin(r, f.exp2), r, constant(FLOAT64, 1)), biased, f)
