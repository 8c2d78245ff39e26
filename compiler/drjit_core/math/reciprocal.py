"""Reciprocals, of division and root, and as exact as these: targets may approximate them where FastMath is set."""

from __future__ import annotations

from ..ir.node import Node
from ..ir.trace import ops
from .polynomial import constant

__all__ = ["rcp", "rsqrt"]


def rcp(a: Node) -> Node:
    """``1 / a``."""
    return ops.div(constant(a.type, 1) if a.size else a, a)  # type: ignore[no-any-return]


def rsqrt(a: Node) -> Node:
    """``1 / sqrt(a)``, with two roundings: within 1.5 units of the last place."""
    return rcp(ops.sqrt(a))
