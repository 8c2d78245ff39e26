"""Functions of quaternions over lists of four nodes: the factors of i, j, k, and the real part.

A quaternion ``w + v`` with real part w and vector v lies in a plane of quaternions that is a copy of the complex
numbers, with ``v / |v|`` in the place of the imaginary unit. Exponentials, logarithms and roots are those of the
complex number ``w + i |v|``, turned back into that plane (W. R. Hamilton, *Elements of Quaternions*, 1866). Where v is
zero the plane is not determined: it is that of i, so that ``sqrt(-4) = 2i``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import drjit_core as core
from drjit_core import FACTOR, Node, Partial, Rule, attached, ops, primal

from . import complex as complex_rules
from .complex import Complex, with_powers_of_zero
from .matrix import dot
from .reals import constant, in_single, largest, norm, scaled, with_derivative_of

__all__ = ["absolute", "conjugate", "divide", "exp", "exp2", "fma", "log", "log2", "mul", "power", "rcp", "rsqrt",
           "sqrt"]

_DUAL = core.KIND["dual"]
#: The square roots of the distances of numbers, by bits: half of the digits are left of a smaller difference.
_NEAR = {32: 2.0**-12, 64: 2.0**-26}
#: The square of this and its inverse are normal numbers, by bits.
_LEAST = {32: 2.0**-63, 64: 2.0**-511}
Quaternion = Sequence[Node]


def mul(a: Quaternion, b: Quaternion) -> list[Node]:
    """Hamilton's product: ``ij = k``, ``jk = i``, ``ki = j`` and ``i**2 = j**2 = k**2 = -1``."""
    ax, ay, az, aw = a
    bx, by, bz, bw = b
    return [
        ops.fma(aw, bx, ops.fma(ax, bw, ops.fma(ay, bz, ops.neg(ops.mul(az, by))))),
        ops.fma(aw, by, ops.fma(ay, bw, ops.fma(az, bx, ops.neg(ops.mul(ax, bz))))),
        ops.fma(aw, bz, ops.fma(az, bw, ops.fma(ax, by, ops.neg(ops.mul(ay, bx))))),
        ops.fma(aw, bw, ops.neg(ops.fma(ax, bx, ops.fma(ay, by, ops.mul(az, bz))))),
    ]


def fma(a: Quaternion, b: Quaternion, c: Quaternion) -> list[Node]:
    """``a b + c``."""
    return list(map(ops.add, mul(a, b), c))


def conjugate(q: Quaternion) -> list[Node]:
    """``w - v``."""
    return [*map(ops.neg, q[:3]), q[3]]


@in_single
def absolute(q: Quaternion) -> Node:
    """The norm, ``sqrt(x**2 + y**2 + z**2 + w**2)``."""
    return norm(q)


@in_single
def rcp(q: Quaternion) -> list[Node]:
    """``conj(q) / |q|**2``, with the square of the norm kept in range."""
    values = scaled(list(map(primal, q)))
    square, factor = values.square(), values.choose(values.limits.down, values.limits.up)
    found = [ops.mul(ops.div(node, square), factor) for node in conjugate(values.components)]
    if not any(node.kind == _DUAL for node in q):
        return found
    length = norm(q)  # by which numbers are divided twice, since those by its square would underflow
    return [with_derivative_of(ops.div(ops.div(node, length), length), value)
            for node, value in zip(conjugate(q), found, strict=True)]


def divide(a: Quaternion, b: Quaternion) -> list[Node]:
    """``a rcp(b)``."""
    return mul(a, rcp(b))


def _in_plane(function: Callable[[Complex], list[Node]], first: Callable[[Complex], Complex],
              second: Callable[[Complex, Node], Complex], entire: bool = False) -> Callable[[Quaternion], list[Node]]:
    """The function of quaternions that a function of complex numbers induces, see the module.

    With ``r = |v|``, the result is ``A + B v``, where ``A`` is the real part of the complex function at ``w + i r`` and
    ``B`` its imaginary part divided by r. Where r is zero, B is the derivative of the complex function; a length has no
    derivative there, but its square has, which ``A`` is differentiated by. ``first`` is the derivative of the complex
    function, and ``second`` the second one, times a number.

    Derivatives are those of ``(B u) (v / u)`` and of ``A`` by ``|v / u|**2``, where u is a constant: 1 for ``entire``
    functions, and for others as large as r, since B and the square alone might be out of range. Next to real numbers it
    is larger: second derivatives need its square.
    """
    def unit(w: Node, r: Node) -> Node:
        if entire:
            return constant(r, 1)
        real, length = ops.abs(primal(w)), primal(r)
        least = ops.minimum(real, constant(r, _LEAST[core.TYPES[r.type].bits]))
        return largest([ops.select(ops.eq(length, constant(r, 0)), real, ops.maximum(length, least))])

    def ratio(derivative: Complex, next_: Node, r: Node, u: Node) -> Node:
        """The imaginary part of a function divided by r, times u; ``next_`` is that where r is zero."""
        undirected = ops.eq(r, constant(r, 0))
        divisor = ops.select(undirected, constant(r, 1), ops.div(r, u))
        return ops.select(undirected, next_, ops.div(derivative[1], divisor))  # type: ignore[no-any-return]

    def by_square(o: object, w: Node, s: Node, r: Node, f: None) -> Node:
        u = unit(w, r)
        return ops.mul(ratio(first([w, r]), second([w, r], u)[0], r, u),  # type: ignore[no-any-return]
                       ops.mul(u, constant(r, -0.5)))

    def of_scale(w: Node, r: Node, f: Complex) -> Node:
        u = unit(w, r)
        return ratio(f, ops.mul(first([w, r])[0], u), r, u)

    def by_real(o: object, w: Node, r: Node, z: None, f: None) -> Node:
        u = unit(w, r)
        return ratio(first([w, r]), second([w, r], u)[0], r, u)

    def by_length(o: object, w: Node, r: Node, z: None, f: Node) -> Node:
        u, limit = unit(w, r), first([w, r])[0]
        difference = ops.sub(limit, ops.div(f, u))
        # Next to real numbers few digits are left of that. There, the first term of its series, a third of the second
        # derivative, is as good, and has a derivative that is.
        near = ops.le(ops.abs(difference), ops.abs(ops.mul(limit, constant(r, _NEAR[core.TYPES[r.type].bits]))))
        series = ops.mul(second([w, r], u)[1], constant(r, -1 / 3))
        divisor = ops.select(near, constant(r, 1), ops.div(r, u))
        return ops.select(near, series, ops.div(difference, divisor))  # type: ignore[no-any-return]

    name = function.__name__
    real_part = Rule(name, (Partial(FACTOR, "xz", lambda o, w, s, r, f: first([w, r])[0]),
                            Partial(FACTOR, "xz", by_square),
                            Partial(FACTOR, "z", lambda o, w, s, r, f: constant(r, 0))))
    scale = Rule(name, (Partial(FACTOR, "xy", by_real), Partial(FACTOR, "xyr", by_length)))

    def differentiable(q: Quaternion, r: Node, values: list[Node], result: Complex) -> list[Node]:
        w, length = primal(q[3]), primal(r)
        u = unit(w, length)
        parts = [ops.div(node, u) for node in q[:3]]
        factor = attached(scale, of_scale(w, length, result), q[3], r)
        vector = [with_derivative_of(ops.mul(part, factor), value) for part, value in zip(parts, values, strict=False)]
        return [*vector, attached(real_part, values[3], q[3], dot(parts, parts), r)]

    @in_single
    def compute(q: Quaternion) -> list[Node]:
        r = norm(q[:3])
        length = primal(r)
        result = function([primal(q[3]), length])
        undirected = ops.eq(length, constant(length, 0))
        zero, one = constant(length, 0), constant(length, 1)
        values = [ops.mul(ops.select(undirected, start, ops.div(primal(node), length)), result[1])
                  for node, start in zip(q[:3], (one, zero, zero), strict=True)] + [result[0]]
        return differentiable(q, r, values, result) if any(node.kind == _DUAL for node in q) else values

    compute.__doc__ = function.__doc__
    return compute


def _times(function: Callable[[Complex], Complex], factor: float) -> Callable[[Complex], Complex]:
    return lambda z: [ops.mul(node, constant(node, factor)) for node in function(z)]


def _scaled(z: Complex, u: Node) -> list[Node]:
    return [ops.mul(node, u) for node in z]


_LOG_2 = math.log(2)
exp = _in_plane(complex_rules.exp, complex_rules.exp, lambda z, u: complex_rules.exp(z), entire=True)
exp2 = _in_plane(complex_rules.exp2, _times(complex_rules.exp2, _LOG_2),
                 lambda z, u: _times(complex_rules.exp2, _LOG_2**2)(z), entire=True)


def _inverse_square(z: Complex, u: Node) -> list[Node]:
    """``-u / z**2``."""
    inverse = complex_rules.rcp(z)
    return complex_rules.mul(inverse, _scaled(inverse, ops.neg(u)))


log = _in_plane(complex_rules.log, complex_rules.rcp, _inverse_square)
log2 = _in_plane(complex_rules.log2, _times(complex_rules.rcp, 1 / _LOG_2),
                 lambda z, u: _times(lambda z: _inverse_square(z, u), 1 / _LOG_2)(z))
sqrt = _in_plane(complex_rules.sqrt, _times(complex_rules.rsqrt, 0.5), lambda z, u: complex_rules.mul(
    _scaled(complex_rules.rcp(z), ops.mul(u, constant(u, -0.25))), complex_rules.rsqrt(z)))


@in_single
def rsqrt(q: Quaternion) -> list[Node]:
    """``1 / sqrt(q)``."""
    result: list[Node] = rcp(sqrt(q))
    return result


@in_single
def power(a: Quaternion, b: Quaternion) -> list[Node]:
    """``exp(log(a) b)``; powers of zero are 1 for the exponent zero, and 0 for those with a positive real part."""
    return with_powers_of_zero(exp(mul(log(a), b)), a, b, 3)
