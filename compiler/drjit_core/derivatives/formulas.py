"""The trace functions that rules of derivatives are written in."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

from ..ir.build import literal
from ..ir.dual import primal
from ..ir.node import Node
from ..ir.trace import binary, ops
from ..math import TRACE
from ..math.gamma import digamma
from ..math.hyperbolic import slope_of_tanh
from ..ops.table import DUAL, KIND, OPS

__all__ = ["FORMULAS", "masked", "number", "product"]


def number(like: Node, value: float) -> Node:
    """A constant of the type of a node."""
    return literal(like.type, value)


_MUL = KIND["mul"]
#: ``o`` of the rules: every row and every function of the mathematics, by name.
FORMULAS: Any = SimpleNamespace(**{row.name: getattr(ops, row.name) for row in OPS if hasattr(ops, row.name)})
FORMULAS.__dict__.update(TRACE)
FORMULAS.number, FORMULAS.digamma, FORMULAS.slope_of_tanh = number, digamma, slope_of_tanh


def masked(mask: Node, value: Node, inverted: bool = False) -> Node:
    """A value where a mask is set (or is not), and zero elsewhere."""
    zero = number(value, 0)
    return ops.select(mask, zero, value) if inverted else ops.select(mask, value, zero)  # type: ignore[no-any-return]


def product(gradient: Node, factor: Node, sparse: bool) -> Node:
    """Gradient times factor; zeros of a ``sparse`` gradient have no part, and stay zero beside infinity and NaN."""
    if not sparse:
        return binary(_MUL, gradient, factor)
    zero = number(gradient, 0)
    result, none = binary(_MUL, gradient, factor), zero
    if gradient.kind == DUAL:  # what is zero may change nevertheless
        factor = primal(factor)
        is_finite = ops.lt(ops.abs(factor), number(factor, math.inf))
        none = binary(_MUL, gradient, ops.select(is_finite, factor, zero))
    return ops.select(ops.eq(gradient, zero), none, result)  # type: ignore[no-any-return]
