"""Rows that work on the bits of integers and masks."""

from __future__ import annotations

import operator

from ..types import TYPES, UINT32
from . import semantics as meaning
from .op import Op, OpRows

__all__ = ["rows"]

rows = OpRows([
    Op("inv", 1, "biu", lambda a: not a if isinstance(a, bool) else ~a, "Bitwise complement."),
    Op("and_", 2, "biu", operator.and_, "Bitwise and.", commutative=True),
    Op("or_", 2, "biu", operator.or_, "Bitwise or.", commutative=True),
    Op("xor", 2, "biu", operator.xor, "Bitwise exclusive or.", commutative=True),
    Op("shl", 2, "iu", meaning.shift_left, "Left shift.", typed=True),
    Op("shr", 2, "iu", meaning.shift_right, "Right shift, arithmetic for signed types.", typed=True),
    Op("rotr", 2, "iu", meaning.rotate_right, "Rotation to the right, by a count modulo the word size.", typed=True),
])


@rows.elementwise("iu", meaning.population_count, typed=True, cost=2)
def popcnt(arg: int, /) -> int:
    """Number of one bits.

    >>> import drjit as dr
    >>> from drjit.llvm import Int
    >>> dr.popcnt(Int(7, -1))
    [3, 32]
    """
    return meaning.population_count(arg, TYPES[UINT32])


@rows.elementwise("iu", meaning.leading_zeros, typed=True, cost=2)
def lzcnt(arg: int, /) -> int:
    """Number of zero bits above the highest one bit; the width of the type for zero.

    >>> import drjit as dr
    >>> from drjit.llvm import UInt
    >>> dr.lzcnt(UInt(1, 0))
    [31, 32]
    """
    return meaning.leading_zeros(arg, TYPES[UINT32])


@rows.elementwise("iu", meaning.trailing_zeros, typed=True, cost=2)
def tzcnt(arg: int, /) -> int:
    """Number of zero bits below the lowest one bit; the width of the type for zero.

    >>> import drjit as dr
    >>> from drjit.llvm import UInt
    >>> dr.tzcnt(UInt(8, 0))
    [3, 32]
    """
    return meaning.trailing_zeros(arg, TYPES[UINT32])


@rows.elementwise("iu", meaning.reverse_bits, typed=True, cost=4)
def brev(arg: int, /) -> int:
    """The bits in reverse order.

    >>> import drjit as dr
    >>> from drjit.llvm import UInt
    >>> dr.brev(UInt(1, 2))
    [2147483648, 1073741824]
    """
    return meaning.reverse_bits(arg, TYPES[UINT32])
