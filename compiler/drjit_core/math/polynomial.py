"""What the expansions share: baked constants, polynomials, and the way of half precision.

The coefficients of this package were fitted by ``conformance/fit_polynomials.py``; the comment beside each table gives
interval and error of the polynomial, evaluated exactly.  The error of whole functions, rounding included, is in the
docstring of each function, and is what ``conformance/accuracy.py`` prints.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from ..errors import UnsupportedType
from ..flags import FAST_MATH, state
from ..ir.build import literal
from ..ir.dual import primal, recorded
from ..ir.expansion import EXPANSIONS, TRACED
from ..ir.node import BAKED, Node
from ..ir.trace import bitcast, cast, make_binary, make_unary, ops
from ..ops.table import DUAL, KIND, LITERAL, OPS, TWINS, Op
from ..types import COMPUTES_IN, FLOAT32, TYPES, UINT32, UINT64, is_float

__all__ = ["clamp", "constant", "elementary", "elementary_binary", "estrin", "flip_sign", "horner", "in_single",
           "with_sign_of"]


@functools.cache
def constant(type_: int, value: float) -> Node:
    """A constant that is part of the program (but not ``-0.0``, which the cache would take for ``0.0``)."""
    return literal(type_, value, 1, BAKED)


def horner(x: Node, coefficients: Sequence[float]) -> Node:
    """Polynomial by Horner's rule, lowest coefficient first: fewest operations, one chain of them."""
    result = constant(x.type, coefficients[-1])
    for value in reversed(coefficients[:-1]):
        result = ops.fma(result, x, constant(x.type, value))
    return result


def estrin(x: Node, coefficients: Sequence[float], square: Node | None = None) -> Node:
    """Polynomial as two interleaved Horner chains in ``x**2``: half the latency, for one operation more.

    (The first step of G. Estrin's scheme, *Organization of computer systems: the fixed plus variable structure
    computer*, 1960.)
    """
    if square is None:
        square = ops.mul(x, x)
    odd, even = horner(square, coefficients[1::2]), horner(square, coefficients[::2])
    return ops.fma(odd, x, even)  # type: ignore[no-any-return]


def clamp(x: Node, low: float, high: float) -> Node:
    """``x`` brought into an interval; NaN stays NaN.

    As selections whose second operand is ``x``: that is the meaning of one x86 ``min`` or ``max`` instruction, where
    the rows ``minimum`` and ``maximum`` take three.
    """
    bound = constant(x.type, high)
    x = ops.select(ops.lt(bound, x), bound, x)
    bound = constant(x.type, low)
    return ops.select(ops.gt(bound, x), bound, x)  # type: ignore[no-any-return]


def in_single(function: Callable[[Node], Node]) -> Callable[[Node], Node]:
    """A function that computes half precision in single precision, and all else as the given one does."""
    def expand(a: Node) -> Node:
        wide = COMPUTES_IN[a.type]
        return cast(function(cast(a, wide)), a.type) if wide != a.type else function(a)

    return expand


def elementary(function: Callable[[Node], Node]) -> Callable[[Node], Node]:
    """The trace function of a row of one operand, whose expansion the decorated function is.

    Half precision is computed in single precision.  Literals are expanded at once, which folds them; the function of an
    array without elements has none, and is not expanded.
    """
    name = function.__name__.lstrip("_")
    row = OPS[KIND[name]]
    trace, of_floats = make_unary(row), in_single(function)

    def expand(a: Node) -> Node:
        if not is_float(a.type):
            raise UnsupportedType(name, TYPES[a.type].name)
        return of_floats(a)

    @functools.wraps(function)
    def call(a: Node) -> Node:
        if a.kind == DUAL:
            return recorded(row.kind, call(a.d0), a)  # type: ignore[arg-type]
        if a.kind <= LITERAL:
            return expand(a) if a.size or not is_float(a.type) else a
        return trace(a)

    _enter(row, expand, call)
    return call


def _enter(row: Op, expand: Callable[..., Node], call: Callable[..., Node]) -> None:
    """Note the expansion and the trace function of a row.

    Where it has a second one, that is expanded without FastMath; else it is so itself: its results do not depend on it.
    """
    def precisely(*operands: Node) -> Node:
        flags = state.flags
        state.flags &= ~FAST_MATH
        try:
            return expand(*operands)
        finally:
            state.flags = flags

    twin = TWINS.get(row.kind)
    EXPANSIONS[row.kind], TRACED[row.kind] = expand if twin is not None else precisely, call
    if twin is not None:
        trace = make_unary(OPS[twin])
        EXPANSIONS[twin] = precisely
        TRACED[twin] = lambda a: precisely(a) if a.kind <= LITERAL and a.kind != DUAL else trace(a)


def elementary_binary(function: Callable[[Node, Node], Node]) -> Callable[[Node, Node], Node]:
    """Like :func:`elementary`, for a function of two operands of one type."""
    name = function.__name__.lstrip("_")
    row = OPS[KIND[name]]
    trace = make_binary(row)

    def expand(a: Node, b: Node) -> Node:
        wide = COMPUTES_IN[a.type]
        if wide != a.type:
            return cast(function(cast(a, wide), cast(b, wide)), a.type)
        return function(a, b)

    @functools.wraps(function)
    def call(a: Node, b: Node) -> Node:
        if a.type != b.type or not is_float(a.type):
            raise UnsupportedType(name, TYPES[a.type].name if not is_float(a.type) else TYPES[b.type].name)
        if a.kind == DUAL or b.kind == DUAL:
            return recorded(row.kind, call(primal(a), primal(b)), a, b)
        if a.kind <= LITERAL and b.kind <= LITERAL and a.size and b.size:
            return expand(a, b)
        return trace(a, b)  # or the array without elements, if one of them has none

    _enter(row, expand, call)
    return call


def with_sign_of(value: Node, sign: Node) -> Node:
    """A value that is not negative, with the sign of another; exact, and right for zeros."""
    word, bits = _sign_bit(sign)
    return bitcast(ops.or_(bitcast(value, word), bits), value.type)


def flip_sign(value: Node, sign: Node) -> Node:
    """A value, negated where another is negative; exact, and right for zeros."""
    word, bits = _sign_bit(sign)
    return bitcast(ops.xor(bitcast(value, word), bits), value.type)


def _sign_bit(a: Node) -> tuple[int, Node]:
    """An integer type, and the bits of a number in it with all but its sign cleared."""
    word = UINT32 if a.type == FLOAT32 else UINT64
    return word, ops.and_(bitcast(a, word), constant(word, 1 << (TYPES[word].bits - 1)))
