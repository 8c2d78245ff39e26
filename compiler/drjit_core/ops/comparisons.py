"""Rows that compare and select."""

from __future__ import annotations

import operator
from typing import Any

from . import semantics as meaning
from .op import MASK, VALUE, Op, OpRows

__all__ = ["rows"]


rows = OpRows([
    Op("eq", 2, "biuf", operator.eq, "Equality.", result="mask", commutative=True),
    Op("neq", 2, "biuf", operator.ne, "Inequality.", result="mask", commutative=True),
    Op("lt", 2, "biuf", operator.lt, "Less than; a mask that is not set is less than one that is.", result="mask"),
    Op("le", 2, "biuf", operator.le, "Less or equal.", result="mask"),
    Op("gt", 2, "biuf", operator.gt, "Greater than.", result="mask"),
    Op("ge", 2, "biuf", operator.ge, "Greater or equal.", result="mask"),
])


@rows.elementwise("biuf", meaning.select, roles=(MASK, VALUE, VALUE))
def select(arg0: bool, arg1: Any, arg2: Any) -> Any:
    """``arg1`` where the mask ``arg0`` is set, else ``arg2``, elementwise.

    ``arg0`` is a mask (an array of booleans) or a ``bool``, which selects one of the arguments as a whole. ``arg1`` and
    ``arg2`` are arrays, numbers, or PyTrees of one structure, whose entries are selected likewise; both are computed,
    whatever the mask says. Promotion is that of arithmetic, and masks broadcast with it: one mask for all three
    components of an ``Array3f``, or one for each. Nothing is evaluated.

    Raises a ``TypeError`` if ``arg0`` is no mask or the others cannot be combined, a ``RuntimeError`` if sizes differ.

    >>> import drjit as dr
    >>> from drjit.llvm import Float
    >>> x = Float(1, -4, 9)
    >>> dr.select(x > 0, dr.sqrt(x), 0)
    [1, 0, 3]
    """
    return arg1 if arg0 else arg2
