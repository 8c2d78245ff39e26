"""Operators of arrays, made from operations: the hot path of every program.

``a + b`` on two arrays of one type, or on an array and a Python number that its type can hold, goes straight to the
trace function; for all other operands there is a plan (:mod:`drjit._promotion.plans`). The functions below are
templates: each is instantiated per operation, with what it needs in closure variables, so that no step looks anything
up.

An operator returns a new array. An in-place operator changes the array object where the type of the result is the
object's own (all names bound to it see the change), and otherwise returns a new array of the promoted type. It never
changes the shape of a tensor.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import drjit_core as core
from drjit_core import Node, literal, ops

from .._base.array import ArrayBase
from .._base.errors import FAILURES, ArgumentError, CallSite, called, translate
from .._base.types import FLOAT32, FLOAT64, INT64, retype
from .._base.values import plain_scalar
from .._promotion.operations import POWER, method_of
from .._promotion.plans import Keys, Operation, Plan, apply, promotion
from .._promotion.promote import wrap, wrap_like
from .bases import matrix_product, square
from .products import PRODUCTS, product
from .unplanned import failed, is_foreign, mixed

__all__ = ["array_operators", "inplace", "integer_power", "matmul", "matmul_inplace", "positive", "power",
           "power_inplace", "reverse_matmul", "reverse_power"]

Operator = Callable[[Any, Any], Any]


def inplace(operator: Operator) -> Operator:
    """The in-place form of an operator."""

    def assign(self: Any, other: Any) -> Any:
        result = operator(self, other)
        if result.__class__ is self.__class__:
            self._assign(result)
            return self
        return result

    return assign


def array_operators(operation: Operation) -> tuple[Operator, Operator, Operator]:
    """``__op__``, ``__rop__`` and ``__iop__`` of arrays whose operators have no way but that of plans."""
    plans = operation.plans

    def forward(self: Any, other: Any) -> Any:
        try:
            plan = plans.get((self.__class__, other.__class__))
            return mixed(self, other, operation) if plan is None else plan(self, other)
        except FAILURES as error:
            raise failed(error, self, other, operation) from None

    def reverse(self: Any, other: Any) -> Any:
        try:
            plan = plans.get((other.__class__, self.__class__))
            return mixed(self, other, operation, True) if plan is None else plan(other, self)
        except FAILURES as error:
            raise failed(error, self, other, operation, True) from None

    return forward, reverse, inplace(forward)


# --- powers ----------------------------------------------------------------------------------------------------------


def integer_power(node: Node, exponent: int) -> Node:
    """``node ** exponent`` by repeated squaring, followed by a reciprocal if the exponent is negative."""
    if exponent == 2:
        return ops.mul(node, node)  # type: ignore[no-any-return]
    remaining, result = abs(exponent), None
    while remaining:
        if remaining & 1:
            result = node if result is None else ops.mul(result, node)
        remaining >>= 1
        if remaining:
            node = ops.mul(node, node)
    if result is None:
        return literal(node.type, 1, node.size)
    return core.rcp(result) if exponent < 0 else result


def _integer_power_plan(operation: Operation, site: Any, keys: Keys) -> Plan:
    """The plan of an array to the power of an integral Python number."""
    base = keys[0]
    if base._special:
        return base._plan(operation, site, keys)  # type: ignore[no-any-return]
    found = promotion(keys)
    cls, load = found.cls, found.loaders[0]
    integral = cls._kind != "f"

    def raised(array: Any, exponent: Any) -> Any:
        if exponent < 0 and integral:
            raise ArgumentError(f"{base._name}.__pow__(): integer arrays cannot be raised to the negative power "
                                f"{exponent}.")
        power = int(exponent)
        return wrap(cls, [integer_power(node, power) for node in load(array)])

    return raised


#: ``**`` with an integral number as exponent: its row would be that of multiplication.
_INTEGER_POWER = Operation("integer_power", core.power, make_plan=_integer_power_plan)


def positive(self: Any) -> Any:
    """``+self``: an array of its own with the same values and derivatives, whatever is tracked at the moment."""
    return wrap_like(self, type(self), list(self._nodes()))


def power(self: Any, other: Any, modulo: object = None) -> Any:
    """``self ** other``: multiplications if the exponent is integral, else through logarithm and exponential."""
    if modulo is not None:
        raise TypeError(f"{self._name}.__pow__(): the argument 'mod' of pow() is not supported (found {modulo!r}); "
                        "take the remainder of the power with '%'.")
    exponent = other if other.__class__ is int else plain_scalar(other)
    try:
        if exponent.__class__ is int and exponent == 2:
            result = square(self)
            if result is not None:
                return result
        if exponent is not None and -0x80000000 < exponent < 0x80000000 and exponent == int(exponent):
            plan = _INTEGER_POWER.plans.get((self.__class__, exponent.__class__))
            if plan is None:
                return apply(_INTEGER_POWER, CallSite("__pow__", type(self)), (self, exponent))
            return plan(self, exponent)
        return _general_power(self, other, False)
    except FAILURES as error:
        raise failed(error, self, other, POWER) from None


def reverse_power(self: Any, other: Any) -> Any:
    """``other ** self``."""
    if self._kind != "f" and plain_scalar(other) is not None:
        self = retype(type(self), FLOAT64 if self._type >= INT64 else FLOAT32)(self)
    try:
        return _general_power(self, other, True)
    except FAILURES as error:
        raise failed(error, self, other, POWER, True) from None


def _general_power(self: Any, other: Any, reverse: bool) -> Any:
    if self._kind != "f" and isinstance(other, ArrayBase) and other._kind != "f":
        site = CallSite(method_of(POWER, reverse), type(self))
        raise ArgumentError(f"{called(site)}: raising integers to the power of an array is not supported; convert to a "
                            "floating-point type first.")
    return mixed(self, other, POWER, reverse)


power_inplace = inplace(power)


# --- products --------------------------------------------------------------------------------------------------------


def matmul(self: Any, other: Any) -> Any:
    """``self @ other``: the product of matrices, vectors, flat arrays, or with a scalar (see :func:`drjit.matmul`)."""
    try:
        plan = PRODUCTS.get((type(self), type(other)))
        if plan is not None:
            return matrix_product(plan, self, other)
        return NotImplemented if is_foreign(self, other, "__matmul__") else \
            product(CallSite("__matmul__", type(self)), self, other)
    except FAILURES as error:
        raise translate(error, CallSite("__matmul__", type(self))) from None


def reverse_matmul(self: Any, other: Any) -> Any:
    """``other @ self``, where the left operand is no array."""
    try:
        return NotImplemented if is_foreign(self, other, "__rmatmul__") else \
            product(CallSite("__rmatmul__", type(self)), other, self)
    except FAILURES as error:
        raise translate(error, CallSite("__rmatmul__", type(self))) from None


matmul_inplace = inplace(matmul)
