"""Division of integers by a divisor that is known while tracing: a multiplication and a few cheap operations.

The algorithms are those of T. Granlund and P. L. Montgomery, *Division by Invariant Integers using Multiplication*,
PLDI 1994, in the forms of figures 4.1 (unsigned) and 5.1 (signed), which have no branches and no special cases: they
hold for every divisor but zero.  Hence multiplier, shifts and sign are kernel *parameters*, and all divisors share one
compiled program.  (Chapter 10 of H. S. Warren, *Hacker's Delight*, derives the same numbers.)
"""

from __future__ import annotations

import functools

from ..ir.build import literal
from ..ir.node import BAKED, SHAPE, Node
from ..ir.trace import ops
from ..ops.table import LITERAL
from ..types import TYPES, TypeInfo, is_signed

__all__ = ["floordiv", "mod"]


def floordiv(a: Node, b: Node) -> Node:
    """Quotient rounded towards zero; zero for a zero divisor, and the smallest value divided by -1 is itself."""
    if _is_parameter(a, b):
        return _signed_quotient(a, b) if is_signed(a.type) else _unsigned_quotient(a, b)
    return ops.floordiv(a, b)  # type: ignore[no-any-return]


def mod(a: Node, b: Node) -> Node:
    """Remainder of :func:`floordiv`, with the sign of the dividend; zero for a zero divisor."""
    if _is_parameter(a, b):
        return ops.sub(a, ops.mul(floordiv(a, b), b))  # type: ignore[no-any-return]
    return ops.mod(a, b)  # type: ignore[no-any-return]


def _is_parameter(a: Node, b: Node) -> bool:
    """Whether b is a literal that kernels receive as a parameter (and a is not one, which would fold)."""
    return (b.kind == LITERAL and b.attr != BAKED and b.payload != 0 and a.kind != LITERAL
            and a.type == b.type and TYPES[b.type].kind in "iu")


@functools.lru_cache(maxsize=256)
def _literals(type_: int, d: int) -> tuple[Node, Node, Node]:
    """The parameters of a division by ``d`` as literals, which all have a meaning of their own."""
    parameters = (_signed_parameters if is_signed(type_) else _unsigned_parameters)(d, TYPES[type_])
    first, second, third = (literal(type_, value, 1, SHAPE, tag=k) for k, value in enumerate(parameters, 1))
    return first, second, third


def _unsigned_parameters(d: int, info: TypeInfo) -> tuple[int, int, int]:
    """Multiplier and two shifts of figure 4.1."""
    ceil_log2 = (d - 1).bit_length()
    multiplier = (1 << info.bits) * ((1 << ceil_log2) - d) // d + 1
    return multiplier, min(ceil_log2, 1), max(ceil_log2 - 1, 0)


def _signed_parameters(d: int, info: TypeInfo) -> tuple[int, int, int]:
    """Multiplier (less one word, so that it fits), shift and sign mask of figure 5.1."""
    ceil_log2 = max((abs(d) - 1).bit_length(), 1)
    multiplier = 1 + (1 << (info.bits + ceil_log2 - 1)) // abs(d) - (1 << info.bits)
    return multiplier, ceil_log2 - 1, -1 if d < 0 else 0


def _unsigned_quotient(a: Node, b: Node) -> Node:
    multiplier, shift1, shift2 = _literals(a.type, b.payload)
    high = ops.mul_hi(a, multiplier)
    return ops.shr(ops.add(high, ops.shr(ops.sub(a, high), shift1)), shift2)  # type: ignore[no-any-return]


def _signed_quotient(a: Node, b: Node) -> Node:
    multiplier, shift, sign = _literals(a.type, b.payload)
    quotient = ops.shr(ops.add(a, ops.mul_hi(a, multiplier)), shift)
    negative = ops.shr(a, literal(a.type, TYPES[a.type].bits - 1, 1, BAKED))  # -1 where the dividend is negative
    quotient = ops.sub(quotient, negative)
    return ops.sub(ops.xor(quotient, sign), sign)  # type: ignore[no-any-return]
