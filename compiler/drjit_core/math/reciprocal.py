"""Reciprocals, of numbers and of square roots: targets may approximate them where FastMath is set.

That of a root is, where FastMath is set and in single precision, computed without root and division, which take 2.6
times as long as all of it: subtracting half the bits of a number from a constant gives the exponent of the result, and
its mantissa within some percent (C. Lomont, *Fast inverse square root*, 2003). A polynomial of ``h = 1 - a y**2``
and a step of Newton's method refine this ``y``. The largest error is 1.0 units of the last place, where root and
division have 1.49, and 87 results of 100 are correctly rounded, in place of 74. No instruction of a processor
estimates anything, so that the bits are the same everywhere.
"""

from __future__ import annotations

from ..control.rare import rarely
from ..flags import FAST_MATH, state
from ..ir.node import Node
from ..ir.trace import bitcast, ops
from ..types import FLOAT32
from .exponential import FORMATS, unusual
from .polynomial import constant, elementary, horner

__all__ = ["rcp", "rsqrt"]

_MAGIC = 0x5F200000  #: Makes the interval below the narrowest: 5/32 <= h <= 1/4
_STEP = (1.0045794248580933, 0.43462273478507996, 0.6631522178649902)  #: 1 / sqrt(1 - h), relative error 2^-15.94


def rcp(a: Node) -> Node:
    """``1 / a``."""
    return ops.div(constant(a.type, 1) if a.size else a, a)  # type: ignore[no-any-return]


def _by_root(a: Node) -> Node:
    """``1 / sqrt(a)``, with two roundings: within 1.5 units of the last place."""
    return rcp(ops.sqrt(a))


@elementary
def rsqrt(a: Node) -> Node:
    """``1 / sqrt(a)``, within a unit of the last place; without FastMath and in double precision within 1.5."""
    if a.type != FLOAT32 or not state.flags & FAST_MATH:
        return _by_root(a)
    f = FORMATS[FLOAT32]
    half_bits = ops.shr(bitcast(a, f.word), constant(f.word, 1))
    y = bitcast(ops.sub(constant(f.word, _MAGIC), half_bits), FLOAT32)
    y = ops.mul(y, horner(_remainder(a, y), _STEP))
    y = ops.fma(ops.mul(y, constant(FLOAT32, 0.5)), _remainder(a, y), y)
    (root,) = rarely("rsqrt", unusual(a, f), [y], [a], lambda x: [_by_root(x)])
    return root


def _remainder(a: Node, y: Node) -> Node:
    """``1 - a y**2``."""
    return ops.fma(ops.neg(ops.mul(a, y)), y, constant(a.type, 1))  # type: ignore[no-any-return]
