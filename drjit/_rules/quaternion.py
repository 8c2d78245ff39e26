"""Functions of quaternions over lists of four nodes: the factors of i, j, k, and the real part.

A quaternion ``w + v`` with real part w and vector v lies in a plane of quaternions that is a copy of the complex
numbers, with ``v / |v|`` in the place of the imaginary unit. Exponentials, logarithms and roots are those of the
complex number ``w + i |v|``, turned back into that plane (W. R. Hamilton, *Elements of Quaternions*, 1866). Where v is
zero the plane is not determined: it is that of i, so that ``sqrt(-4) = 2i``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from drjit_core import Node, ops

from . import complex as complex_rules
from .reals import constant, in_single, norm, scaled

__all__ = ["absolute", "conjugate", "divide", "exp", "exp2", "fma", "log", "log2", "mul", "power", "rcp", "rsqrt",
           "sqrt"]

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
    values = scaled(q)
    square, factor = values.square(), values.choose(values.limits.down, values.limits.up)
    return [ops.mul(ops.div(node, square), factor) for node in conjugate(values.components)]


def divide(a: Quaternion, b: Quaternion) -> list[Node]:
    """``a rcp(b)``."""
    return mul(a, rcp(b))


def _in_plane(function: Callable[[Sequence[Node]], list[Node]]) -> Callable[[Quaternion], list[Node]]:
    """The function of quaternions that a function of complex numbers induces, see the module."""

    @in_single
    def compute(q: Quaternion) -> list[Node]:
        length = norm(q[:3])
        real, imaginary = function([q[3], length])
        undirected = ops.eq(length, constant(length, 0))
        zero, one = constant(length, 0), constant(length, 1)
        vector = [ops.mul(ops.select(undirected, start, ops.div(node, length)), imaginary)
                  for node, start in zip(q[:3], (one, zero, zero), strict=True)]
        return [*vector, real]

    compute.__doc__ = function.__doc__
    return compute


sqrt = _in_plane(complex_rules.sqrt)
rsqrt = _in_plane(complex_rules.rsqrt)
exp = _in_plane(complex_rules.exp)
exp2 = _in_plane(complex_rules.exp2)
log = _in_plane(complex_rules.log)
log2 = _in_plane(complex_rules.log2)


def power(a: Quaternion, b: Quaternion) -> list[Node]:
    """``exp(log(a) b)``."""
    return exp(mul(log(a), b))
