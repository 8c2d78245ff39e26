"""The table of reduction operators, the single source of what a reduction is: floor 0.

An operator combines two elements of one type into one. :func:`drjit_core.reduce` repeats it over all elements,
scatter-reductions over those that meet in one place; the array layer over components, axes and Python sequences. All of
them are commutative, and associative up to rounding.

What happens to NaN is said by the row that combines two elements: sums and products are NaN if an element is; ``fmin``
and ``fmax`` prefer numbers, so that minimum and maximum ignore NaN, and are those of nothing where there is nothing
else. Whether -0 or +0 is the smaller of the two is left open: the first one stays.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any, NamedTuple

from ..types import TYPES, ReduceOp, TypeInfo
from .table import FUNCTIONS

__all__ = ["COMPARE_EXCHANGE", "EXCHANGE", "EXCHANGES", "REDUCTIONS", "Reduction", "name_of_update"]

#: Updates of memory besides scatter-reductions (in a node's ``attr``), of which is wanted what they find: a value takes
#: the place of an element; it does so if the element is what is expected, bit by bit.
EXCHANGE, COMPARE_EXCHANGE = 16, 17
EXCHANGES: dict[int, str] = {EXCHANGE: "exchange", COMPARE_EXCHANGE: "compare_exchange"}


class Reduction(NamedTuple):
    """An operator: everything that is known about it."""

    op: ReduceOp
    accepts: str  # type classes of the elements
    rows: dict[str, str]  # the row that combines two elements, by type classes
    neutral: Callable[[TypeInfo], Any]  # see `identity`
    number: Callable[[Any, Any], Any]  # the operator on two Python numbers
    nothing: Any  # what a Python sequence without entries reduces to
    repeated: Callable[[Any, int, TypeInfo], Any]  # the reduction of so many elements of one value
    idempotent: bool = False  # combining a value with itself changes nothing
    #: Type classes in which combining rounds: the order shows in the result, and half precision is combined in single.
    rounds: str = ""

    def row(self, type_: int) -> str:
        """The name of the row that combines two elements of a type: of the op table, or among those composed of it."""
        kind = TYPES[type_].kind
        return next(row for kinds, row in self.rows.items() if kind in kinds)

    def ignores_nan(self, type_: int) -> bool:
        """Whether NaN does not enter the result: where there is nothing else, that is the reduction of nothing."""
        return TYPES[type_].kind == "f" and self.rows.get("f") in _PREFER_NUMBERS

    def identity(self, type_: int) -> Any:
        """The neutral element: what goes with any other without changing it, as which partial results begin."""
        return self.neutral(TYPES[type_])

    def empty(self, type_: int) -> Any:
        """What an array without elements reduces to: the neutral element, but 0 for the sum of no numbers.

        The neutral element of floating-point sums is -0, because 0 + -0 is 0.
        """
        return self.identity(type_) or 0


#: Rows that yield the other operand where one is NaN.
_PREFER_NUMBERS = ("fmin", "fmax")


def _ones(info: TypeInfo) -> Any:
    return True if info.kind == "b" else -1 if info.kind == "i" else info.maximum


def _power(value: Any, count: int, info: TypeInfo) -> Any:
    """``value`` multiplied by itself, infinite where Python's power would raise."""
    if info.kind != "f":
        return pow(int(value), count, 1 << info.bits)
    try:
        return value ** count
    except OverflowError:
        return -math.inf if value < 0 and count & 1 else math.inf


def _itself(value: Any, count: int, info: TypeInfo) -> Any:
    return value


def _number(row: str) -> Callable[[Any, Any], Any]:
    """What a public function does to Python numbers."""
    function = FUNCTIONS[row].number
    assert function is not None
    return function


#: The operators by their numbers (the values of :class:`drjit_core.types.ReduceOp`, as in a node's ``attr``).
REDUCTIONS: dict[int, Reduction] = {reduction.op.value: reduction for reduction in (
    Reduction(ReduceOp.Add, "iuf", {"iuf": "add"}, lambda info: -0.0 if info.kind == "f" else 0, operator.add, 0,
              lambda value, count, info: value * count, rounds="f"),
    Reduction(ReduceOp.Mul, "iuf", {"iuf": "mul"}, lambda info: 1, operator.mul, 1, _power, rounds="f"),
    Reduction(ReduceOp.Min, "iuf", {"iu": "minimum", "f": "fmin"}, lambda info: info.maximum, _number("fmin"),
              math.inf, _itself, idempotent=True),
    Reduction(ReduceOp.Max, "iuf", {"iu": "maximum", "f": "fmax"}, lambda info: info.minimum, _number("fmax"),
              -math.inf, _itself, idempotent=True),
    Reduction(ReduceOp.And, "biu", {"biu": "and_"}, _ones, operator.and_, True, _itself, idempotent=True),
    Reduction(ReduceOp.Or, "biu", {"biu": "or_"}, lambda info: 0, operator.or_, False, _itself, idempotent=True),
)}


def name_of_update(op: int) -> str:
    """What texts and messages call a reduction, or another update of memory."""
    return EXCHANGES.get(op) or ReduceOp(op).name.lower()
