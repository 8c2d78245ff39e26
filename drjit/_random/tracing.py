"""What a draw traces: a step and an output of PCG32, the rounds of Philox4x32, and numbers from bits.

A room that is compiled (see :mod:`drjit_core.rooms`), since these are some ten to sixty nodes a draw.
"""

from __future__ import annotations

import functools
from typing import Any

import drjit_core as core
from drjit_core import BAKED, KIND, SHAPE, binary, cast, literal, ternary

from .._base.handle import held
from .._base.types import FLOAT32, UINT32, UINT64
from .._promotion.componentwise import flat_array

__all__ = ["INVERSE", "MULTIPLIER", "PHILOX_MULTIPLIERS", "WEYL", "advance", "draw", "permute", "philox", "rewind",
           "unit_float32"]

# M. E. O'Neill, "PCG: A Family of Simple Fast Space-Efficient Statistically Good Algorithms for Random Number
# Generation" (Harvey Mudd College, HMC-CS-2014-0905), and the reference implementation at pcg-random.org: the generator
# XSH-RR 64/32. Multiplier of the linear congruential generator (Knuth's), its inverse modulo 2^64.
MULTIPLIER = 0x5851F42D4C957F2D
INVERSE = pow(MULTIPLIER, -1, 1 << 64)

# J. K. Salmon, M. A. Moraes, R. O. Dror, D. E. Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3" (SC 2011), section
# 3.3: multipliers of a round, and the increments of the key between rounds (golden ratio and sqrt(3) - 1).
PHILOX_MULTIPLIERS = 0xD2511F53, 0xCD9E8D57
WEYL = 0x9E3779B9, 0xBB67AE85

_UINT32, _FLOAT32 = UINT32, FLOAT32
_ADD, _SUB, _MUL, _MUL_HI, _FMA = KIND["add"], KIND["sub"], KIND["mul"], KIND["mul_hi"], KIND["fma"]
_LITERAL, _SHAPE = KIND["literal"], SHAPE
#: Tags of the literals that are keys of rounds: the first of them.
_TAG = 64
_SHR, _ROTR, _XOR = KIND["shr"], KIND["rotr"], KIND["xor"]

# Constants, which are part of the program.
_FACTOR, _INVERSE = literal(UINT64, MULTIPLIER, 1, BAKED), literal(UINT64, INVERSE, 1, BAKED)
_18, _27, _59 = (literal(UINT64, count, 1, BAKED) for count in (18, 27, 59))
_9, _SCALE = literal(UINT32, 9, 1, BAKED), literal(FLOAT32, 2.0**-23, 1, BAKED)
_FACTOR_A, _FACTOR_C = (literal(UINT32, factor, 1, BAKED) for factor in PHILOX_MULTIPLIERS)
_WEYL_HIGH, _WEYL_LOW = (literal(UINT32, increment, 1, BAKED) for increment in WEYL)


def advance(state: core.Node, increment: core.Node) -> core.Node:
    """The next state of the linear congruential generator of PCG32."""
    return ternary(_FMA, state, _FACTOR, increment)


def rewind(state: core.Node, increment: core.Node) -> core.Node:
    """Its previous state."""
    return binary(_MUL, binary(_SUB, state, increment), _INVERSE)


def permute(state: core.Node) -> core.Node:
    """The output of a state: the highest bits, xorshifted, rotated by the five above."""
    mixed = cast(binary(_SHR, binary(_XOR, binary(_SHR, state, _18), state), _27), _UINT32)
    return binary(_ROTR, mixed, cast(binary(_SHR, state, _59), _UINT32))


def unit_float32(bits: core.Node) -> core.Node:
    """The upper 23 of 32 bits as a number in [0, 1)."""
    return binary(_MUL, cast(binary(_SHR, bits, _9), _FLOAT32), _SCALE)


def draw(generator: Any, states: Any, results: Any, floating: bool) -> Any:
    """One word of each stream of a generator PCG32, as an integer or a number in [0, 1), and a step forward.

    ``states`` and ``results`` are the types of arrays.
    """
    state = held(generator._state)
    new, value = advance(state, held(generator._inc)), permute(state)
    if floating:
        value = unit_float32(value)
    generator._state = flat_array(states, new)
    return flat_array(results, value)


@functools.lru_cache(64)
def schedule(high: int, low: int, rounds: int) -> list[core.Node]:
    """The keys of all rounds, upper and lower word in turn, as parameters that every key shares its program with."""
    keys = []
    for number in range(rounds):
        for word, increment, tag in ((high, WEYL[0], 2 * number), (low, WEYL[1], 2 * number + 1)):
            keys.append(literal(UINT32, (word + number * increment) & 0xFFFFFFFF, 1, SHAPE, tag=_TAG + tag))
    return keys


def _apart(node: core.Node, tag: int) -> core.Node:
    """A parameter that follows from others, as one by itself: as one with an equal one it would make another program.
    """
    if node.kind == _LITERAL and node.attr == _SHAPE:
        return literal(UINT32, node.payload, 1, SHAPE, tag=_TAG - 1 - tag)
    return node


def philox(a: core.Node, b: core.Node, c: core.Node, d: core.Node, high: core.Node, low: core.Node,
           rounds: int) -> list[core.Node]:
    """Four words: four counters, encrypted with a key of two words."""
    keys = None
    if high.kind == _LITERAL and low.kind == _LITERAL and high.attr == _SHAPE and low.attr == _SHAPE:
        keys = schedule(high.payload, low.payload, rounds)
    for number in range(rounds):
        if keys is not None:
            high, low = keys[2 * number], keys[2 * number + 1]
        elif number:
            high, low = binary(_ADD, high, _WEYL_HIGH), binary(_ADD, low, _WEYL_LOW)
        upper_a, upper_c = binary(_MUL_HI, a, _FACTOR_A), binary(_MUL_HI, c, _FACTOR_C)
        lower_a, lower_c = binary(_MUL, a, _FACTOR_A), binary(_MUL, c, _FACTOR_C)
        if number < 3:  # what follows from the counter and the key alone does so in these rounds
            upper_a, upper_c = _apart(upper_a, 6 * number), _apart(upper_c, 6 * number + 1)
            lower_a, lower_c = _apart(lower_a, 6 * number + 2), _apart(lower_c, 6 * number + 3)
        a, c = binary(_XOR, binary(_XOR, upper_c, b), high), binary(_XOR, binary(_XOR, upper_a, d), low)
        if number < 3:
            a, c = _apart(a, 6 * number + 4), _apart(c, 6 * number + 5)
        b, d = lower_c, lower_a
    return [a, b, c, d]
