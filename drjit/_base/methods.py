"""The operators of arrays: which method is which operation, and what kinds of arrays implement.

An operator returns a new array. An in-place operator changes the array object where the type of the result is the
object's own (all names bound to it see the change), and otherwise returns a new array of the promoted type.
"""

from __future__ import annotations

from typing import Any

import drjit_core as core

from .handle import Handle

__all__ = ["FlatSlots", "NestedSlots", "Operators", "TensorSlots"]

#: Numbers of the operations of two operands, and of one.
(ADD, SUB, MUL, DIV, FLOORDIV, MOD, SHL, SHR, OR, XOR, AND,
 EQ, NEQ, LT, LE, GT, GE) = range(17)
NEG, INV, ABS = range(3)


class Operators(Handle):
    """Arrays with operators; what these do is up to the kind of the array."""

    __slots__ = ()

    def _forward(self, operation: int, other: Any) -> Any:
        """``self + other`` and its like."""
        raise NotImplementedError

    def _reverse(self, operation: int, other: Any) -> Any:
        """``other + self``, where ``other`` is no array that has done it."""
        raise NotImplementedError

    def _inplace(self, operation: int, other: Any) -> Any:
        """``self += other``."""
        raise NotImplementedError

    def _unary(self, operation: int) -> Any:
        """``-self`` and its like."""
        raise NotImplementedError

    def __add__(self, other: Any) -> Any:
        return self._forward(ADD, other)

    def __radd__(self, other: Any) -> Any:
        return self._reverse(ADD, other)

    def __iadd__(self, other: Any) -> Any:
        return self._inplace(ADD, other)

    def __sub__(self, other: Any) -> Any:
        return self._forward(SUB, other)

    def __rsub__(self, other: Any) -> Any:
        return self._reverse(SUB, other)

    def __isub__(self, other: Any) -> Any:
        return self._inplace(SUB, other)

    def __mul__(self, other: Any) -> Any:
        return self._forward(MUL, other)

    def __rmul__(self, other: Any) -> Any:
        return self._reverse(MUL, other)

    def __imul__(self, other: Any) -> Any:
        return self._inplace(MUL, other)

    def __truediv__(self, other: Any) -> Any:
        return self._forward(DIV, other)

    def __rtruediv__(self, other: Any) -> Any:
        return self._reverse(DIV, other)

    def __itruediv__(self, other: Any) -> Any:
        return self._inplace(DIV, other)

    def __floordiv__(self, other: Any) -> Any:
        return self._forward(FLOORDIV, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return self._reverse(FLOORDIV, other)

    def __ifloordiv__(self, other: Any) -> Any:
        return self._inplace(FLOORDIV, other)

    def __mod__(self, other: Any) -> Any:
        return self._forward(MOD, other)

    def __rmod__(self, other: Any) -> Any:
        return self._reverse(MOD, other)

    def __imod__(self, other: Any) -> Any:
        return self._inplace(MOD, other)

    def __lshift__(self, other: Any) -> Any:
        return self._forward(SHL, other)

    def __rlshift__(self, other: Any) -> Any:
        return self._reverse(SHL, other)

    def __ilshift__(self, other: Any) -> Any:
        return self._inplace(SHL, other)

    def __rshift__(self, other: Any) -> Any:
        return self._forward(SHR, other)

    def __rrshift__(self, other: Any) -> Any:
        return self._reverse(SHR, other)

    def __irshift__(self, other: Any) -> Any:
        return self._inplace(SHR, other)

    def __or__(self, other: Any) -> Any:
        return self._forward(OR, other)

    def __ror__(self, other: Any) -> Any:
        return self._reverse(OR, other)

    def __ior__(self, other: Any) -> Any:
        return self._inplace(OR, other)

    def __xor__(self, other: Any) -> Any:
        return self._forward(XOR, other)

    def __rxor__(self, other: Any) -> Any:
        return self._reverse(XOR, other)

    def __ixor__(self, other: Any) -> Any:
        return self._inplace(XOR, other)

    def __and__(self, other: Any) -> Any:
        return self._forward(AND, other)

    def __rand__(self, other: Any) -> Any:
        return self._reverse(AND, other)

    def __iand__(self, other: Any) -> Any:
        return self._inplace(AND, other)

    def __eq__(self, other: Any) -> Any:
        return self._forward(EQ, other)

    def __ne__(self, other: Any) -> Any:
        return self._forward(NEQ, other)

    def __lt__(self, other: Any) -> Any:
        return self._forward(LT, other)

    def __le__(self, other: Any) -> Any:
        return self._forward(LE, other)

    def __gt__(self, other: Any) -> Any:
        return self._forward(GT, other)

    def __ge__(self, other: Any) -> Any:
        return self._forward(GE, other)

    def __hash__(self) -> int:
        return object.__hash__(self)

    def __neg__(self) -> Any:
        return self._unary(NEG)

    def __invert__(self) -> Any:
        return self._unary(INV)

    def __abs__(self) -> Any:
        return self._unary(ABS)


class FlatSlots(Operators):
    """What a flat array holds: its node."""

    __slots__ = ("_n",)

    _n: core.Node


class NestedSlots(Operators):
    """What a nested array holds: the nodes of its components."""

    __slots__ = ("_c",)

    _c: list[core.Node]


class TensorSlots(Operators):
    """What a tensor holds: the node of its elements in C order, and its shape."""

    __slots__ = ("_n", "_s")

    _n: core.Node
    _s: tuple[int, ...]
