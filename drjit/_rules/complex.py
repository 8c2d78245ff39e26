"""Functions of complex numbers over pairs of nodes, the real part first.

Branch cuts, and the results for signed zeros and infinities, are those of C99 (annex G) and NumPy; moduli and roots
neither overflow nor underflow on the way. The structure of the inverse functions is that of W. Kahan, *Branch cuts for
complex elementary functions, or: much ado about nothing's sign bit* (The State of the Art in Numerical Analysis, 1987).
Half precision is computed in single precision.

What is differentiable as a function of complex numbers has its derivative from that, as a formula of its own: on the
axes, where components are zero, that of the components' formulas would be lost in the conventions for signed zeros.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence

import drjit_core as core
from drjit_core import FACTOR, Node, Partial, Rule, atan2, attached, ops, primal

from .reals import (
    both,
    constant,
    copysign,
    either,
    finite,
    flip,
    in_single,
    infinite,
    length,
    log1p_factor,
    norm,
    scaled,
    with_derivative_of,
)
from .reals import sincosh as real_sincosh

__all__ = ["Complex", "absolute", "acos", "acosh", "arg", "asin", "asinh", "atan", "atanh", "conjugate", "cos", "cosh",
           "divide", "exp", "exp2", "expm1", "fma", "integer_power", "log", "log10", "log1p", "log2", "mul", "power",
           "quotient", "rcp", "reciprocal", "rsqrt", "sign", "sin", "sincos", "sincosh", "sinh", "sqrt", "square",
           "tan", "tanh", "with_powers_of_zero"]

_DUAL = core.KIND["dual"]
Complex = Sequence[Node]
Function = Callable[[Complex], list[Node]]
_INFINITY = math.inf
#: Exponentials of this are in range, by the bits of a precision; those of minus its double are 0.
_STEEP = {32: 80.0, 64: 700.0}
#: log(2) as the sum of two numbers of a precision, by its bits.
_LOG_2 = {32: (0.6931471824645996, -1.904654299957768e-09), 64: (0.6931471805599453, 2.3190468138462996e-17)}


def _has_dual(z: Complex) -> bool:
    return any(node.kind == _DUAL for node in z)


def _holomorphic(derivative: Callable[[Complex], Complex]) -> Callable[[Function], Function]:
    """A function that is differentiated as one of complex numbers, by the Cauchy-Riemann equations.

    The change ``dx + i dy`` of the argument is multiplied by the derivative ``u + i v``: the real part of the result
    changes by ``u dx - v dy``, the imaginary part by ``v dx + u dy``.
    """

    def decorate(function: Function) -> Function:
        def part(imaginary: bool) -> Rule:
            def u(o: object, x: Node, y: Node, z: None, r: None) -> Node:
                return derivative([x, y])[0]

            def v(o: object, x: Node, y: Node, z: None, r: None) -> Node:
                found = derivative([x, y])[1]
                return found if imaginary else ops.neg(found)

            factors = (v, u) if imaginary else (u, v)
            return Rule(function.__name__, tuple([Partial(FACTOR, "xy", factor) for factor in factors]))

        rules = part(False), part(True)

        @functools.wraps(function)
        def compute(z: Complex) -> list[Node]:
            if not _has_dual(z):
                return function(z)
            value = function([primal(z[0]), primal(z[1])])
            return [attached(rule, node, z[0], z[1]) for rule, node in zip(rules, value, strict=True)]

        return compute

    return decorate


# --- arithmetic ------------------------------------------------------------------------------------------------------


def mul(a: Complex, b: Complex) -> list[Node]:
    """``(a0 b0 - a1 b1, a0 b1 + a1 b0)``."""
    return [ops.fma(a[0], b[0], ops.neg(ops.mul(a[1], b[1]))), ops.fma(a[0], b[1], ops.mul(a[1], b[0]))]


def fma(a: Complex, b: Complex, c: Complex) -> list[Node]:
    """``a b + c``."""
    real = ops.fma(a[0], b[0], ops.fma(ops.neg(a[1]), b[1], c[0]))
    return [real, ops.fma(a[0], b[1], ops.fma(a[1], b[0], c[1]))]


def divide(a: Complex, b: Complex, fma: Callable[..., Node] = ops.fma) -> list[Node]:
    """``a / b``, dividing by the larger component first (R. L. Smith, *Algorithm 116*, CACM 5, 1962), as NumPy does."""
    swap = ops.lt(ops.abs(b[0]), ops.abs(b[1]))
    large, small = ops.select(swap, b[1], b[0]), ops.select(swap, b[0], b[1])
    p, q = ops.select(swap, a[1], a[0]), ops.select(swap, a[0], a[1])
    ratio = ops.select(ops.eq(large, constant(large, 0)), large, ops.div(small, large))
    denominator = fma(small, ratio, large)
    imaginary = ops.div(fma(ops.neg(p), ratio, q), denominator)
    return [ops.div(fma(q, ratio, p), denominator), ops.select(swap, ops.neg(imaginary), imaginary)]


def quotient(a: Complex, b: Complex) -> list[Node]:
    """``a / b``, by zero, of infinities and by infinities in the limit of each part (C99, annex G).

    Products are rounded, so that ``z / z`` is 1.
    """
    found = divide(a, b, lambda x, y, z: ops.add(ops.mul(x, y), z))
    p, q = [primal(node) for node in a], [primal(node) for node in b]
    zero, infinity = constant(q[0], 0), constant(q[0], _INFINITY)
    finite_a, finite_b = both(finite(p[0]), finite(p[1])), both(finite(q[0]), finite(q[1]))
    vanishing = both(ops.eq(q[0], zero), ops.eq(q[1], zero))
    known = both(ops.eq(p[0], p[0]), ops.eq(p[1], p[1]))
    pole, end = both(vanishing, known), both(finite_a, either(infinite(q[0]), infinite(q[1])))
    start = both(both(finite_b, ops.inv(vanishing)), either(infinite(p[0]), infinite(p[1])))
    by_zero = [ops.mul(node, copysign(infinity, q[0])) for node in p]
    by_infinity = _times(mul(p, conjugate(list(map(_direction, q)))), 0.0)
    of_infinity = _times(mul(list(map(_direction, p)), conjugate(q)), _INFINITY)
    limits = [ops.select(pole, x, ops.select(end, y, z))
              for x, y, z in zip(by_zero, by_infinity, of_infinity, strict=True)]
    there = either(pole, either(end, start))
    return [with_derivative_of(node, ops.select(there, limit, primal(node)))
            for node, limit in zip(found, limits, strict=True)]


def _direction(node: Node) -> Node:
    """1 with the sign of an infinite number, a zero with that of others."""
    return copysign(ops.select(infinite(node), constant(node, 1), constant(node, 0)), node)


def rcp(z: Complex) -> list[Node]:
    """``1 / z``."""
    return divide([constant(z[0], 1), constant(z[0], 0)], z)


def reciprocal(z: Complex) -> list[Node]:
    """``1 / z``, in the limit where z is zero or infinite."""
    return quotient([constant(z[0], 1), constant(z[0], 0)], z)


def square(z: Complex) -> list[Node]:
    """``z z``: ``(x - y) (x + y)`` and ``2 x y``."""
    x, y = z
    return [ops.mul(ops.sub(x, y), ops.add(x, y)), ops.mul(ops.add(x, x), y)]


@in_single
def sign(z: Complex) -> list[Node]:
    """``z / |z|``, or 0; of what is infinite along an axis its direction, NaN beside NaN."""
    values = scaled(z)
    length_ = length(values.square())
    zero, one = constant(length_, 0), constant(length_, 1)
    vanishing = ops.eq(length_, zero)
    divisor = ops.select(vanishing, one, length_)
    x, y = primal(z[0]), primal(z[1])
    end = either(both(infinite(x), finite(y)), both(infinite(y), finite(x)))
    return [ops.select(end, _direction(part), ops.select(vanishing, zero, ops.div(node, divisor)))
            for part, node in zip((x, y), values.components, strict=True)]


def _times(z: Complex, factor: float) -> list[Node]:
    return [ops.mul(node, constant(node, factor)) for node in z]


def _one_plus(z: Complex) -> list[Node]:
    return [ops.add(z[0], constant(z[0], 1)), z[1]]


def _one_minus(z: Complex) -> list[Node]:
    return [ops.sub(constant(z[0], 1), z[0]), ops.neg(z[1])]


def conjugate(z: Complex) -> list[Node]:
    """``(x, -y)``."""
    return [z[0], ops.neg(z[1])]


@in_single
def absolute(z: Complex) -> Node:
    """Modulus ``sqrt(x**2 + y**2)``."""
    return norm(z)


@in_single
def arg(z: Complex) -> Node:
    """Argument, from -pi to pi."""
    return atan2(z[1], z[0])


@_holomorphic(lambda z: _times(rsqrt(z), 0.5))
@in_single
def sqrt(z: Complex) -> list[Node]:
    """Square root with a real part that is not negative: ``t = sqrt((|x| + |z|) / 2)`` and ``y / (2 t)``."""
    x, y = z
    values = scaled(z)
    p, q = values.components
    a = ops.abs(p)
    t = ops.sqrt(ops.mul(constant(x, 0.5), ops.add(a, ops.sqrt(values.square()))))
    u = ops.div(ops.abs(q), ops.add(t, t))
    u = ops.select(ops.eq(t, constant(x, 0)), t, u)
    factor = values.choose(1 / math.sqrt(values.limits.down), 1 / math.sqrt(values.limits.up))
    t, u = ops.mul(t, factor), ops.mul(u, factor)
    negative = ops.lt(x, constant(x, 0))
    real, imaginary = ops.select(negative, u, t), copysign(ops.select(negative, t, u), y)
    # infinite parts, even beside NaN
    real = ops.select(infinite(y), ops.abs(y), real)
    imaginary = ops.select(infinite(y), y, imaginary)
    edge = infinite(x)
    zero = constant(x, 0)
    root = ops.select(negative, ops.select(finite(y), zero, ops.abs(y)), ops.abs(x))
    other = ops.select(negative, copysign(ops.abs(x), y), ops.select(finite(y), copysign(zero, y), y))
    return [ops.select(edge, root, real), ops.select(edge, ops.select(infinite(y), y, other), imaginary)]


@in_single
def rsqrt(z: Complex) -> list[Node]:
    """``1 / sqrt(z)``."""
    return rcp(sqrt(z))


# --- exponential and logarithm ---------------------------------------------------------------------------------------


def _polar(modulus: Node, factor: Node, x: Node, y: Node, s: Node, c: Node) -> list[Node]:
    """``modulus (c + i s) factor`` with the conventions for infinities; ``modulus`` is an exponential of ``x``."""
    zero = constant(x, 0)
    real = ops.mul(ops.mul(modulus, c), factor)
    imaginary = ops.select(ops.eq(y, zero), y, ops.mul(ops.mul(modulus, s), factor))
    vanishing = both(ops.eq(x, constant(x, -_INFINITY)), ops.inv(finite(y)))
    unbounded = both(ops.eq(x, constant(x, _INFINITY)), ops.inv(finite(y)))
    real = ops.select(vanishing, zero, ops.select(unbounded, x, real))
    return [real, ops.select(vanishing, zero, imaginary)]


def _split(x: Node, limit: float, function: Callable[[Node], Node], factor: float) -> tuple[Node, Node]:
    """``function(x)`` of an exponential as a product whose first factor does not overflow above ``limit``."""
    steep = both(ops.gt(x, constant(x, limit)), finite(x))
    reduced = ops.select(steep, ops.sub(x, constant(x, limit / 2)), x)
    return function(reduced), ops.select(steep, constant(x, factor), constant(x, 1))


@_holomorphic(lambda z: exp(z))
@in_single
def exp(z: Complex) -> list[Node]:
    """``exp(x) (cos y + i sin y)``."""
    x, y = z
    s, c = core.sincos(y)
    limit = _STEEP[core.TYPES[x.type].bits]
    modulus, factor = _split(x, limit, core.exp, math.exp(limit / 2))
    return _polar(modulus, factor, x, y, s, c)


def _expm1(x: Node) -> Node:
    """``exp(x) - 1`` for ``|x| < 1``, by the hyperbolic sine, which is accurate for small x."""
    half = ops.mul(x, constant(x, 0.5))
    return ops.mul(ops.mul(constant(x, 2), core.exp(half)), core.sinh(half))  # type: ignore[no-any-return]


@_holomorphic(lambda z: exp(z))
@in_single
def expm1(z: Complex) -> list[Node]:
    """``exp(z) - 1``, accurate for small z: ``expm1(x) cos(y) - 2 sin(y / 2)**2``."""
    x, y = z
    one, zero = constant(x, 1), constant(x, 0)
    real, imaginary = exp(z)
    near = both(ops.lt(ops.abs(x), one), finite(y))
    a, b = ops.select(near, x, zero), ops.select(near, y, zero)
    sine = core.sin(ops.mul(b, constant(x, 0.5)))
    # +0 for both zeros, which C99 asks for
    short = ops.add(ops.sub(ops.mul(_expm1(a), core.cos(b)), ops.mul(constant(x, 2), ops.mul(sine, sine))), zero)
    return [ops.select(near, short, ops.sub(real, one)), imaginary]


@_holomorphic(lambda z: _times(exp2(z), math.log(2)))
@in_single
def exp2(z: Complex) -> list[Node]:
    """``2**x (cos(y log 2) + i sin(y log 2))``, turned by the rounding error of the angle, which may be large."""
    x, y = z
    high, low = _LOG_2[core.TYPES[x.type].bits]
    angle = ops.mul(y, constant(y, high))
    rest = ops.fma(y, constant(y, low), ops.fma(y, constant(y, high), ops.neg(angle)))
    (s, c), (t, d) = core.sincos(angle), core.sincos(ops.select(finite(angle), rest, constant(y, 0)))
    s, c = ops.fma(s, d, ops.mul(c, t)), ops.fma(c, d, ops.neg(ops.mul(s, t)))
    limit = 120.0 if core.TYPES[x.type].bits == 32 else 1000.0
    modulus, factor = _split(x, limit, core.exp2, 2.0 ** (limit / 2))
    return _polar(modulus, factor, x, y, s, c)


def _log_modulus(z: Complex) -> Node:
    """``log |z|``, accurate next to ``|z| = 1`` too, with one real logarithm.

    There, ``log |z| = log1p(u) / 2`` with ``u = x**2 + y**2 - 1``, computed with the rounding errors of the squares.
    """
    x, y = z
    half, one = constant(x, 0.5), constant(x, 1)
    a, b = ops.abs(x), ops.abs(y)
    high, low = ops.maximum(a, b), ops.minimum(a, b)
    p, q = ops.mul(high, high), ops.mul(low, low)
    errors = ops.add(ops.fma(high, high, ops.neg(p)), ops.fma(low, low, ops.neg(q)))
    u = ops.add(ops.add(ops.sub(p, one), q), errors)
    near = both(ops.lt(ops.abs(u), half), ops.ge(p, half))
    w, correction = log1p_factor(u)
    exact = ops.eq(w, one)
    values = scaled(z)
    logarithm = core.log(ops.select(near, w, values.square()))
    limits = values.limits
    offset = values.choose(-math.log(limits.down), -math.log(limits.up), 0.0)
    value = ops.fma(half, logarithm, offset)
    close = ops.mul(half, ops.select(exact, u, ops.mul(logarithm, correction)))
    value = ops.select(near, close, value)
    return ops.select(either(infinite(x), infinite(y)), constant(x, _INFINITY), value)  # type: ignore[no-any-return]


@_holomorphic(rcp)
@in_single
def log(z: Complex) -> list[Node]:
    """``log |z| + i arg z``; the cut is the negative real axis."""
    return [_log_modulus(z), atan2(z[1], z[0])]


@_holomorphic(lambda z: rcp(_one_plus(z)))
@in_single
def log1p(z: Complex) -> list[Node]:
    """``log(1 + z)``, accurate for small z: ``log1p(x (2 + x) + y**2) / 2``."""
    x, y = z
    half, zero = constant(x, 0.5), constant(x, 0)
    near = ops.lt(ops.add(ops.abs(x), ops.abs(y)), half)
    a, b = ops.select(near, x, zero), ops.select(near, y, zero)
    real, imaginary = log(_one_plus(z))
    u = ops.fma(a, ops.add(constant(x, 2), a), ops.mul(b, b))
    w, correction = log1p_factor(u)
    value = ops.select(ops.eq(w, constant(x, 1)), u, ops.mul(core.log(w), correction))
    return [ops.select(near, ops.mul(half, value), real), imaginary]


@in_single
def log10(z: Complex) -> list[Node]:
    """``log(z) / log(10)``."""
    return _times(log(z), 1 / math.log(10))


@in_single
def log2(z: Complex) -> list[Node]:
    """``log(z) / log(2)``."""
    factor = constant(z[0], 1 / math.log(2))
    return [ops.mul(node, factor) for node in log(z)]


@in_single
def power(a: Complex, b: Complex) -> list[Node]:
    """``exp(b log a)``; powers of zero are 1 for the exponent zero, and 0 for those with a positive real part."""
    return with_powers_of_zero(exp(mul(log(a), b)), a, b, 0)


def with_powers_of_zero(value: Sequence[Node], a: Sequence[Node], b: Sequence[Node], real: int) -> list[Node]:
    """``a**b`` from ``exp(log(a) b)``, also where a or b is zero; ``real`` is the position of the real parts."""
    zero, one = constant(a[0], 0), constant(a[0], 1)
    vanishing, is_real = (functools.reduce(both, [ops.eq(node, zero) for node in nodes])
                          for nodes in (a, [node for k, node in enumerate(b) if k != real]))
    power_of_zero = ops.select(ops.gt(b[real], zero), zero, constant(a[0], math.nan))
    identity = both(is_real, ops.eq(b[real], one))  # which has a derivative at zero
    value = [ops.select(vanishing, ops.select(identity, node, power_of_zero), node_)
             for node, node_ in zip(a, value, strict=True)]
    # elsewhere the exponential of zero is one, and has a derivative by the exponent
    constant_one = both(both(is_real, ops.eq(b[real], zero)), either(vanishing, ops.neq(value[real], one)))
    return [ops.select(constant_one, one if k == real else zero, node) for k, node in enumerate(value)]


def integer_power(product: Callable[[list[Node], list[Node]], list[Node]],
                  inverse: Callable[[list[Node]], list[Node]], one: list[Node], base: list[Node], exponent: int,
                  ) -> list[Node]:
    """``base**exponent`` by repeated squaring, in terms of a product; inverted first if the exponent is negative."""
    if exponent < 0:
        base = inverse(base)
    remaining, result = abs(exponent), None
    while remaining:
        if remaining & 1:
            result = base if result is None else product(result, base)
        remaining >>= 1
        if remaining:
            base = product(base, base)
    return one if result is None else list(result)


# --- hyperbolic functions --------------------------------------------------------------------------------------------


@in_single
def _sincosh(z: Complex) -> tuple[list[Node], list[Node]]:
    """``sinh z = sinh x cos y + i cosh x sin y`` and ``cosh z = cosh x cos y + i sinh x sin y``."""
    x, y = z
    s, c = core.sincos(y)
    sh, ch, factor = real_sincosh(x)
    zero = constant(x, 0)
    x_zero, y_zero = ops.eq(x, zero), ops.eq(y, zero)
    unbounded = both(infinite(x), ops.inv(finite(y)))  # the sign is unspecified there
    sinh_real = ops.select(x_zero, flip(x, c), ops.select(unbounded, x, ops.mul(ops.mul(sh, c), factor)))
    sinh_imaginary = ops.select(y_zero, y, ops.mul(ops.mul(ch, s), factor))
    cosh_real = ops.select(unbounded, ops.abs(x), ops.mul(ops.mul(ch, c), factor))
    turn = copysign(zero, ops.select(finite(y), s, y))
    cosh_imaginary = ops.select(either(x_zero, y_zero), flip(turn, x), ops.mul(ops.mul(sh, s), factor))
    return [sinh_real, sinh_imaginary], [cosh_real, cosh_imaginary]


@_holomorphic(lambda z: cosh(z))
def sinh(z: Complex) -> list[Node]:
    """``(exp(z) - exp(-z)) / 2``."""
    result: list[Node] = _sincosh(z)[0]
    return result


@_holomorphic(sinh)
def cosh(z: Complex) -> list[Node]:
    """``(exp(z) + exp(-z)) / 2``."""
    result: list[Node] = _sincosh(z)[1]
    return result


def sincosh(z: Complex) -> tuple[list[Node], list[Node]]:
    """Hyperbolic sine and cosine."""
    if _has_dual(z):
        return sinh(z), cosh(z)
    result: tuple[list[Node], list[Node]] = _sincosh(z)
    return result


@_holomorphic(lambda z: _times(mul(_slope_of_tanh(z), tanh(z)), -2.0))
@in_single
def _slope_of_tanh(z: Complex) -> list[Node]:
    """``1 / cosh(z)**2``: in ``1 - tanh(z)**2``, which is small far from the imaginary axis, most digits would cancel.

    Where ``cosh z`` might overflow, the result is 0; for infinite x, whatever the imaginary part.
    """
    x, y = z
    steep = constant(x, _STEEP[core.TYPES[x.type].bits])
    near = ops.select(ops.gt(ops.abs(x), steep), steep, x)
    return square(rcp(_sincosh([near, ops.select(infinite(x), constant(y, 0), y)])[1]))


@_holomorphic(_slope_of_tanh)
@in_single
def tanh(z: Complex) -> list[Node]:
    """``(sinh x cosh x + i sin y cos y) / (sinh(x)**2 + cos(y)**2)``: nothing in it cancels.

    Beyond where ``tanh x`` is 1, the imaginary part is ``4 sin y cos y exp(-2 |x|)``; where x is infinite, a zero with
    the sign of y, as the array API standard has it (C's Annex G gives it that of ``sin 2y``).
    """
    x, y = z
    s, c = core.sincos(y)
    a = ops.abs(x)
    limit = constant(x, 12.0 if core.TYPES[x.type].bits == 32 else 22.0)
    far = ops.gt(a, limit)
    sh, ch, _ = real_sincosh(ops.select(far, limit, a))
    denominator = ops.fma(sh, sh, ops.mul(c, c))
    limit = ops.select(either(infinite(x), finite(y)), constant(x, 1), s)
    real = ops.select(far, limit, ops.div(ops.mul(sh, ch), denominator))
    decay = core.exp(ops.mul(a, constant(x, -2)))
    product = ops.mul(s, c)
    imaginary = ops.select(far, ops.mul(ops.mul(constant(x, 4), product), decay), ops.div(product, denominator))
    zero = constant(x, 0)
    imaginary = ops.select(either(ops.eq(y, zero), infinite(x)), copysign(zero, y), imaginary)
    real = ops.select(ops.eq(x, zero), x, copysign(real, x))
    return [real, imaginary]


def _rotated(function: Callable[[Complex], list[Node]]) -> Callable[[Complex], list[Node]]:
    """``-i f(i z)``: a trigonometric function from the hyperbolic one, and the same for the inverses."""
    def compute(z: Complex) -> list[Node]:
        real, imaginary = function([ops.neg(z[1]), z[0]])
        return [imaginary, ops.neg(real)]

    return compute


sin, tan = _rotated(sinh), _rotated(tanh)
sin.__doc__, tan.__doc__ = "``-i sinh(i z)``.", "``-i tanh(i z)``."


def cos(z: Complex) -> list[Node]:
    """``cosh(i z)``."""
    return cosh([ops.neg(z[1]), z[0]])


def sincos(z: Complex) -> tuple[list[Node], list[Node]]:
    """Sine and cosine."""
    sine, cosine = sincosh([ops.neg(z[1]), z[0]])
    return [sine[1], ops.neg(sine[0])], cosine


# --- inverse functions -----------------------------------------------------------------------------------------------


_HUGE, _DOWN = 2.0**100, 2.0**-4


def _roots(z: Complex) -> tuple[list[Node], list[Node], Node, Node]:
    """``sqrt(1 - z)``, ``sqrt(1 + z)``, the real part of z, and what scaling has taken from the logarithm.

    Adding a real number leaves the sign of a zero imaginary part alone. Where z is so large that 1 does not matter, and
    products of the roots might overflow, z is scaled.
    """
    x, y = z
    one = constant(x, 1)
    huge = ops.gt(ops.maximum(ops.abs(x), ops.abs(y)), constant(x, _HUGE))
    factor = ops.select(huge, constant(x, _DOWN), one)
    x, y = ops.mul(x, factor), ops.mul(y, factor)
    offset = ops.select(huge, constant(x, -math.log(_DOWN)), constant(x, 0))
    return sqrt([ops.sub(one, x), ops.neg(y)]), sqrt([ops.add(one, x), y]), x, offset


def _slope_of_asin(z: Complex) -> list[Node]:
    """``1 / (sqrt(1 - z) sqrt(1 + z))``, which has the cuts of the arcsine."""
    return rcp(mul(sqrt(_one_minus(z)), sqrt(_one_plus(z))))


@_holomorphic(_slope_of_asin)
@in_single
def asin(z: Complex) -> list[Node]:
    """Arcsine; the cuts are the real axis beyond -1 and 1 (Kahan 1987).

    With ``p = sqrt(1 - z)`` and ``q = sqrt(1 + z)``: ``atan2(x, Re(p q)) + i asinh(Im(conj(p) q))``.
    """
    x, y = z
    p, q, a, offset = _roots(z)
    denominator = ops.fma(p[0], q[0], ops.neg(ops.mul(p[1], q[1])))
    edge = either(infinite(x), infinite(y))
    real = atan2(a, ops.select(edge, ops.abs(y), denominator))
    imaginary = ops.add(ops.abs(core.asinh(ops.fma(p[0], q[1], ops.neg(ops.mul(p[1], q[0]))))), offset)
    zero = constant(x, 0)
    # The conventions: infinite in modulus, with the sign of y; exact zeros stay, even beside NaN.
    imaginary = _keep(ops.select(edge, constant(x, _INFINITY), imaginary), y)
    real = ops.select(ops.eq(x, zero), x, real)
    return [real, imaginary]


def _keep(value: Node, sign: Node) -> Node:
    return copysign(ops.abs(value), sign)


@_holomorphic(lambda z: _times(_slope_of_asin(z), -1.0))
@in_single
def acos(z: Complex) -> list[Node]:
    """Arccosine; the cuts are the real axis beyond -1 and 1 (Kahan 1987).

    With p and q as for the arcsine: ``2 atan2(Re p, Re q) + i asinh(Im(conj(q) p))``.
    """
    x, y = z
    p, q, _, offset = _roots(z)
    half_angle = atan2(p[0], q[0])
    real = ops.add(half_angle, half_angle)
    imaginary = ops.add(ops.abs(core.asinh(ops.fma(q[0], p[1], ops.neg(ops.mul(q[1], p[0]))))), offset)
    edge = either(infinite(x), infinite(y))
    real = ops.select(edge, atan2(ops.abs(y), x), real)
    real = ops.select(ops.eq(x, constant(x, 0)), constant(x, math.pi / 2), real)  # even beside NaN
    imaginary = _keep(ops.select(edge, constant(x, _INFINITY), imaginary), ops.neg(y))
    return [real, imaginary]


@_holomorphic(lambda z: rcp(mul(sqrt([ops.sub(z[0], constant(z[0], 1)), z[1]]), sqrt(_one_plus(z)))))
@in_single
def acosh(z: Complex) -> list[Node]:
    """``i acos z`` or ``-i acos z``, the one whose real part is not negative; the cut is the real axis below 1."""
    real, imaginary = acos(z)
    return [ops.abs(imaginary), copysign(real, z[1])]


def asinh(z: Complex) -> list[Node]:
    """``i asin(-i z)``; the cuts are the imaginary axis beyond -i and i."""
    real, imaginary = asin([z[1], ops.neg(z[0])])
    return [ops.neg(imaginary), real]


@_holomorphic(lambda z: mul(rcp(_one_minus(z)), rcp(_one_plus(z))))  # whose product might overflow
@in_single
def atanh(z: Complex) -> list[Node]:
    """Inverse hyperbolic tangent; the cuts are the real axis beyond -1 and 1.

    ``log1p(4 x / ((1 - x)**2 + y**2)) / 4 + i atan2(2 y, (1 - x) (1 + x) - y**2) / 2`` for ``x >= 0``, odd in z; for
    large z, ``x / |z|**2`` and a right angle. (Kahan 1987; S. L. Moshier, *Methods and Programs for Mathematical
    Functions*, 1989.)
    """
    x, y = z
    a, b = ops.abs(x), ops.abs(y)
    one, zero = constant(x, 1), constant(x, 0)
    single = core.TYPES[x.type].bits == 32
    bound = constant(x, 2.0**30 if single else 2.0**100)
    far = either(ops.gt(a, bound), ops.gt(b, bound))
    p, q = ops.select(far, one, a), ops.select(far, one, b)
    gap = ops.sub(p, one)
    square = ops.mul(q, q)
    # Next to the pole at 1, where q**2 would underflow, (log 2 - log q) / 2.
    pole = both(ops.eq(gap, zero), ops.lt(q, constant(x, 2.0**-40 if single else 2.0**-400)))
    u = ops.div(ops.mul(constant(x, 4), p), ops.fma(gap, gap, square))
    w, correction = log1p_factor(u)
    logarithm = core.log(ops.select(pole, q, w))
    real = ops.mul(constant(x, 0.25), ops.select(ops.eq(w, one), u, ops.mul(logarithm, correction)))
    real = ops.select(pole, ops.mul(constant(x, 0.5), ops.sub(constant(x, math.log(2)), logarithm)), real)
    inverse = rcp([a, b])[0]
    inverse = ops.select(either(infinite(x), infinite(y)), zero, inverse)
    real = copysign(ops.abs(ops.select(far, inverse, real)), x)
    angle = atan2(ops.add(q, q), ops.fma(ops.sub(one, p), ops.add(p, one), ops.neg(square)))
    imaginary = ops.select(far, constant(x, math.pi / 2), ops.mul(constant(x, 0.5), angle))
    total = ops.add(x, y)
    unknown = both(ops.neq(total, total), ops.inv(infinite(y)))
    imaginary = ops.select(both(far, unknown), total, imaginary)
    return [ops.select(ops.eq(x, zero), x, real), _keep(imaginary, y)]


atan = _rotated(atanh)
atan.__doc__ = "``-i atanh(i z)``; the cuts are the imaginary axis beyond -i and i."
