"""The trace functions that rules of derivatives are written in."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from ..ir.build import literal
from ..ir.node import Node
from ..ir.trace import ops
from ..math import TRACE
from ..math.gamma import digamma
from ..ops.table import OPS

__all__ = ["FORMULAS", "masked", "number", "product"]


def number(like: Node, value: float) -> Node:
    """A constant of the type of a node."""
    return literal(like.type, value)


#: ``o`` of the rules: every row and every function of the mathematics, by name.
FORMULAS: Any = SimpleNamespace(**{row.name: getattr(ops, row.name) for row in OPS if hasattr(ops, row.name)})
FORMULAS.__dict__.update(TRACE)
FORMULAS.number, FORMULAS.digamma = number, digamma


def masked(mask: Node, value: Node, *, inverted: bool = False) -> Node:
    """A value where a mask is set (or is not), and zero elsewhere."""
    zero = number(value, 0)
    return ops.select(mask, zero, value) if inverted else ops.select(mask, value, zero)  # type: ignore[no-any-return]


def product(gradient: Node, factor: Node, sparse: bool) -> Node:
    """Gradient times factor; zeros of a ``sparse`` gradient have no part, and stay zero beside infinity and NaN."""
    result = ops.mul(gradient, factor)
    if not sparse:
        return result  # type: ignore[no-any-return]
    zero = number(gradient, 0)
    return ops.select(ops.eq(gradient, zero), zero, result)  # type: ignore[no-any-return]
