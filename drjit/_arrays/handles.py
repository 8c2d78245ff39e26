"""What flat arrays hold, and their operators: the hot path of every program.

``a + b`` on two arrays of one type, or on an array and a Python number that its type can hold, goes straight to the
trace function; for all other operands there is a plan (:mod:`drjit._promotion.plans`).

An operator returns a new array. An in-place operator changes the array object where the type of the result is the
object's own (all names bound to it see the change), and otherwise returns a new array of the promoted type.
"""

from __future__ import annotations

from typing import Any

import drjit_core as core
from drjit_core import binary, known_literal, literal, ops

from .._base.errors import FAILURES, CallSite, translate
from .._base.fresh import FlatSlots, fresh
from .._promotion.operations import (
    ADD,
    AND,
    DIV,
    EQ,
    FLOORDIV,
    GE,
    GT,
    LE,
    LT,
    MOD,
    MUL,
    NEQ,
    OR,
    SHL,
    SHR,
    SUB,
    XOR,
)
from .._promotion.plans import Operation
from .operators import failed, mixed

__all__ = ["FlatHandle"]

#: Rows of the operators; of those that are composed of several there is none.
_ADD, _SUB, _MUL, _DIV = ADD.kind, SUB.kind, MUL.kind, DIV.kind
_SHL, _SHR, _OR, _XOR, _AND = SHL.kind, SHR.kind, OR.kind, XOR.kind, AND.kind
_EQ, _NEQ, _LT, _LE, _GT, _GE = EQ.kind, NEQ.kind, LT.kind, LE.kind, GT.kind, GE.kind
_NONE = -1


class FlatHandle(FlatSlots):
    """What flat arrays hold, with their operators."""

    __slots__ = ()

    def __add__(self, other: Any) -> Any:
        return forward(_ADD, ADD, self, other)

    def __radd__(self, other: Any) -> Any:
        return reverse(_ADD, ADD, self, other)

    def __iadd__(self, other: Any) -> Any:
        return inplace(_ADD, ADD, self, other)

    def __sub__(self, other: Any) -> Any:
        return forward(_SUB, SUB, self, other)

    def __rsub__(self, other: Any) -> Any:
        return reverse(_SUB, SUB, self, other)

    def __isub__(self, other: Any) -> Any:
        return inplace(_SUB, SUB, self, other)

    def __mul__(self, other: Any) -> Any:
        return forward(_MUL, MUL, self, other)

    def __rmul__(self, other: Any) -> Any:
        return reverse(_MUL, MUL, self, other)

    def __imul__(self, other: Any) -> Any:
        return inplace(_MUL, MUL, self, other)

    def __truediv__(self, other: Any) -> Any:
        return forward(_DIV, DIV, self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return reverse(_DIV, DIV, self, other)

    def __itruediv__(self, other: Any) -> Any:
        return inplace(_DIV, DIV, self, other)

    def __floordiv__(self, other: Any) -> Any:
        return forward(_NONE, FLOORDIV, self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return reverse(_NONE, FLOORDIV, self, other)

    def __ifloordiv__(self, other: Any) -> Any:
        return inplace(_NONE, FLOORDIV, self, other)

    def __mod__(self, other: Any) -> Any:
        return forward(_NONE, MOD, self, other)

    def __rmod__(self, other: Any) -> Any:
        return reverse(_NONE, MOD, self, other)

    def __imod__(self, other: Any) -> Any:
        return inplace(_NONE, MOD, self, other)

    def __lshift__(self, other: Any) -> Any:
        return forward(_SHL, SHL, self, other)

    def __rlshift__(self, other: Any) -> Any:
        return reverse(_SHL, SHL, self, other)

    def __ilshift__(self, other: Any) -> Any:
        return inplace(_SHL, SHL, self, other)

    def __rshift__(self, other: Any) -> Any:
        return forward(_SHR, SHR, self, other)

    def __rrshift__(self, other: Any) -> Any:
        return reverse(_SHR, SHR, self, other)

    def __irshift__(self, other: Any) -> Any:
        return inplace(_SHR, SHR, self, other)

    def __or__(self, other: Any) -> Any:
        return forward(_OR, OR, self, other)

    def __ror__(self, other: Any) -> Any:
        return reverse(_OR, OR, self, other)

    def __ior__(self, other: Any) -> Any:
        return inplace(_OR, OR, self, other)

    def __xor__(self, other: Any) -> Any:
        return forward(_XOR, XOR, self, other)

    def __rxor__(self, other: Any) -> Any:
        return reverse(_XOR, XOR, self, other)

    def __ixor__(self, other: Any) -> Any:
        return inplace(_XOR, XOR, self, other)

    def __and__(self, other: Any) -> Any:
        return forward(_AND, AND, self, other)

    def __rand__(self, other: Any) -> Any:
        return reverse(_AND, AND, self, other)

    def __iand__(self, other: Any) -> Any:
        return inplace(_AND, AND, self, other)

    def __eq__(self, other: Any) -> Any:
        return compare(_EQ, EQ, self, other)

    def __ne__(self, other: Any) -> Any:
        return compare(_NEQ, NEQ, self, other)

    def __lt__(self, other: Any) -> Any:
        return compare(_LT, LT, self, other)

    def __le__(self, other: Any) -> Any:
        return compare(_LE, LE, self, other)

    def __gt__(self, other: Any) -> Any:
        return compare(_GT, GT, self, other)

    def __ge__(self, other: Any) -> Any:
        return compare(_GE, GE, self, other)

    def __hash__(self) -> int:
        return object.__hash__(self)

    def __neg__(self) -> Any:
        return unary(ops.neg, "__neg__", self)

    def __invert__(self) -> Any:
        return unary(ops.inv, "__invert__", self)

    def __abs__(self) -> Any:
        return unary(core.abs, "__abs__", self)


def forward(row: int, operation: Operation, self: Any, other: Any) -> Any:
    """``self + other`` and its like."""
    cls = self.__class__
    kind = other.__class__
    try:
        if kind is cls:
            right = other
            node = binary(row, self._n, right._n) if row >= 0 else operation.trace(self._n, right._n)
        elif (kind is float and cls._floating) or (kind is int and cls._low <= other <= cls._high):
            number = known_literal((cls._type, other)) or literal(cls._type, other)
            node = binary(row, self._n, number) if row >= 0 else operation.trace(self._n, number)
        else:
            plan = operation.plans.get((cls, kind))
            return mixed(self, other, operation) if plan is None else plan(self, other)
    except FAILURES as error:
        raise failed(error, self, other, operation) from None
    result = fresh(cls)
    result._n = node
    result._o = None
    return result


def reverse(row: int, operation: Operation, self: Any, other: Any) -> Any:
    """``other + self`` and its like."""
    cls = self.__class__
    kind = other.__class__
    try:
        if (kind is float and cls._floating) or (kind is int and cls._low <= other <= cls._high):
            number = known_literal((cls._type, other)) or literal(cls._type, other)
            node = binary(row, number, self._n) if row >= 0 else operation.trace(number, self._n)
        else:
            plan = operation.plans.get((kind, cls))
            return mixed(self, other, operation, True) if plan is None else plan(other, self)
    except FAILURES as error:
        raise failed(error, self, other, operation, True) from None
    result = fresh(cls)
    result._n = node
    result._o = None
    return result


def inplace(row: int, operation: Operation, self: Any, other: Any) -> Any:
    """``self += other`` and its like."""
    result = forward(row, operation, self, other)
    if result.__class__ is self.__class__:
        self._assign(result)
        return self
    return result


def compare(row: int, operation: Operation, self: Any, other: Any) -> Any:
    """``self < other`` and its like."""
    cls = self.__class__
    kind = other.__class__
    try:
        if kind is cls:
            right = other
            node = binary(row, self._n, right._n) if row >= 0 else operation.trace(self._n, right._n)
        elif (kind is float and cls._floating) or (kind is int and cls._low <= other <= cls._high):
            number = known_literal((cls._type, other)) or literal(cls._type, other)
            node = binary(row, self._n, number) if row >= 0 else operation.trace(self._n, number)
        else:
            plan = operation.plans.get((cls, kind))
            return mixed(self, other, operation) if plan is None else plan(self, other)
    except FAILURES as error:
        raise failed(error, self, other, operation) from None
    result = fresh(cls._mask_type)
    result._n = node
    result._o = None
    return result


def unary(trace: Any, method: str, self: Any) -> Any:
    """``-self`` and its like."""
    cls = self.__class__
    try:
        node = trace(self._n)
    except FAILURES as error:
        raise translate(error, CallSite(method, cls)) from None
    result = fresh(cls)
    result._n = node
    result._o = None
    return result
