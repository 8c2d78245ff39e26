"""Reciprocals, correctly rounded up to the last operation: no approximate instructions, hence the same everywhere."""

from __future__ import annotations

from ..ir.node import Node
from ..ir.trace import ops
from .polynomial import constant

__all__ = ["rcp", "rsqrt"]


def rcp(a: Node) -> Node:
    """``1 / a``, correctly rounded."""
    return ops.div(constant(a.type, 1), a)  # type: ignore[no-any-return]


def rsqrt(a: Node) -> Node:
    """``1 / sqrt(a)``, within 1 ulp: the error of the root is halved by the reciprocal."""
    return rcp(ops.sqrt(a))
