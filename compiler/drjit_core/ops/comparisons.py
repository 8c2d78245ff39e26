"""Rows that compare and select."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from . import llvm_text as text
from . import semantics as meaning
from .op import Op, Rows

__all__ = ["rows"]


def _compare(name: str, symbol: Callable[[Any, Any], Any], signed: str, unsigned: str, floating: str, doc: str,
             commutative: bool = False) -> Op:
    llvm = {"i": text.infix(f"icmp {signed}"), "bu": text.infix(f"icmp {unsigned}"),
            "f": text.infix(f"fcmp {floating}")}
    return Op(name, 2, "biuf", symbol, llvm, doc, result="mask", commutative=commutative)


rows = Rows([
    _compare("eq", operator.eq, "eq", "eq", "oeq", "Equality.", commutative=True),
    _compare("neq", operator.ne, "ne", "ne", "une", "Inequality.", commutative=True),
    _compare("lt", operator.lt, "slt", "ult", "olt", "Less than; a mask that is not set is less than one that is."),
    _compare("le", operator.le, "sle", "ule", "ole", "Less or equal."),
    _compare("gt", operator.gt, "sgt", "ugt", "ogt", "Greater than."),
    _compare("ge", operator.ge, "sge", "uge", "oge", "Greater or equal."),
])


@rows.elementwise("biuf", {"biuf": lambda d, m, a, b, t: f"{d} = select {t.mask} {m}, {t} {a}, {t} {b}"},
                  meaning.select)
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
