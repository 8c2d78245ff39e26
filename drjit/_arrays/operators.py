"""Operators of arrays, made from trace functions: the hot path of every program.

``a + b`` on two arrays of one type, or on an array and a Python number that its type can hold, goes straight to the
trace function; everything else takes the slow path through :mod:`drjit._promotion.promote`. The functions below are
templates: each is instantiated per operation, with what it needs in closure variables, so that no step looks anything
up.

An operator returns a new array. An in-place operator changes the array object where the type of the result is the
object's own (all names bound to it see the change), and otherwise returns a new array of the promoted type.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import drjit_core as core
from drjit_core import TYPES, Node, cast, known_literal, literal, ops

from .._base.array import ArrayBase
from .._base.errors import CORE_ERRORS, ArgumentError, describe, translate
from .._base.types import BOOL, FLOAT32, FLOAT64, retype
from .._base.values import is_ndarray, plain_scalar
from .._promotion.promote import elementwise, operands, wrap
from .products import product

__all__ = ["absolute", "comparison", "flat_operators", "flat_unary", "inplace", "integer_power", "masked", "matmul",
           "matmul_inplace", "nested_comparison", "nested_operators", "nested_unary", "power", "power_inplace",
           "reverse_matmul", "reverse_power"]

_new = object.__new__
Operator = Callable[[Any, Any], Any]
Trace2 = Callable[[Node, Node], Node]


def _slow(self: ArrayBase, other: Any, name: str, trace: Trace2, swap: bool = False, mask: bool = False) -> Any:
    """An operator whose operands need promotion."""
    if not isinstance(other, (ArrayBase, list, tuple, range)) and plain_scalar(other) is None and not is_ndarray(other):
        # Foreign types may know what to do; those of Python do not.
        if type(other).__module__ != "builtins":
            return NotImplemented
        raise ArgumentError(f"{self._name}.__{name}__(): unsupported operand of type '{describe(other)}' (expected a "
                            "Dr.Jit array or a type that can be converted into one).")
    if isinstance(other, ArrayBase) and (other._depth < 0 or mask and other._special and name not in ("eq", "ne")):
        return NotImplemented  # tensors have rules of their own; complex numbers and their like have no order
    if not self._depth and isinstance(other, ArrayBase) and not other._depth and \
            self._record.backend is other._record.backend and self._record.diff is other._record.diff:
        # two scalar types: the larger one
        cls = retype(type(self), max(self._type, other._type))
        left, right = (cast(array._n, cls._type) for array in (self, other))  # type: ignore[attr-defined]
        return wrap(cls._mask_type if mask else cls, [trace(left, right)])
    args = (other, self) if swap else (self, other)
    return elementwise(f"{self._name}.__{name}__", trace, args, mask)


def inplace(operator: Operator) -> Operator:
    """The in-place form of an operator."""

    def assign(self: Any, other: Any) -> Any:
        result = operator(self, other)
        if result.__class__ is self.__class__:
            self._assign(result)
            return self
        return result

    return assign


# --- flat arrays -----------------------------------------------------------------------------------------------------


def flat_operators(name: str, trace: Trace2) -> tuple[Operator, Operator, Operator]:
    """``__op__``, ``__rop__`` and ``__iop__`` of flat arrays."""

    def forward(self: Any, other: Any) -> Any:
        cls = self.__class__
        kind = other.__class__
        try:
            if kind is cls:
                node = trace(self._n, other._n)
            elif (kind is float and cls._floating) or (kind is int and cls._low <= other <= cls._high):
                node = trace(self._n, known_literal((cls._type, other)) or literal(cls._type, other))
            else:
                return _slow(self, other, name, trace)
        except CORE_ERRORS as error:
            raise translate(error, f"{cls._name}.__{name}__") from error
        result = _new(cls)
        result._n = node
        result._o = None
        return result

    def reverse(self: Any, other: Any) -> Any:
        cls = self.__class__
        kind = other.__class__
        try:
            if (kind is float and cls._floating) or (kind is int and cls._low <= other <= cls._high):
                node = trace(known_literal((cls._type, other)) or literal(cls._type, other), self._n)
            else:
                return _slow(self, other, "r" + name, trace, swap=True)
        except CORE_ERRORS as error:
            raise translate(error, f"{cls._name}.__r{name}__") from error
        result = _new(cls)
        result._n = node
        result._o = None
        return result

    return forward, reverse, inplace(forward)


def comparison(name: str, trace: Trace2) -> Operator:
    """A comparison of flat arrays."""

    def compare(self: Any, other: Any) -> Any:
        cls = self.__class__
        kind = other.__class__
        try:
            if kind is cls:
                node = trace(self._n, other._n)
            elif (kind is float and cls._floating) or (kind is int and cls._low <= other <= cls._high):
                node = trace(self._n, known_literal((cls._type, other)) or literal(cls._type, other))
            else:
                return _slow(self, other, name, trace, mask=True)
        except CORE_ERRORS as error:
            raise translate(error, f"{cls._name}.__{name}__") from error
        result = _new(cls._mask_type)
        result._n = node
        result._o = None
        return result

    return compare


def flat_unary(name: str, trace: Callable[[Node], Node]) -> Callable[[Any], Any]:
    """A unary operator of flat arrays."""

    def apply(self: Any) -> Any:
        cls = self.__class__
        result = _new(cls)
        try:
            result._n = trace(self._n)
        except CORE_ERRORS as error:
            raise translate(error, f"{cls._name}.__{name}__") from error
        result._o = None
        return result

    return apply


def absolute(node: Node) -> Node:
    """Absolute value of any number; unsigned ones are their own."""
    return node if TYPES[node.type].kind == "u" else ops.abs(node)  # type: ignore[no-any-return]


# --- nested arrays ---------------------------------------------------------------------------------------------------


def nested_operators(name: str, trace: Trace2) -> tuple[Operator, Operator, Operator]:
    """``__op__``, ``__rop__`` and ``__iop__`` of nested arrays."""

    def forward(self: Any, other: Any) -> Any:
        cls = self.__class__
        kind = other.__class__
        left = self._c
        try:
            if kind is cls and len(left) == len(other._c):
                nodes = list(map(trace, left, other._c))
            elif kind is cls._leaf:
                right = other._n
                nodes = [trace(node, right) for node in left]
            elif (kind is float and cls._floating) or (kind is int and cls._low <= other <= cls._high):
                right = known_literal((cls._type, other)) or literal(cls._type, other)
                nodes = [trace(node, right) for node in left]
            else:
                return _slow(self, other, name, trace)
        except CORE_ERRORS as error:
            raise translate(error, f"{cls._name}.__{name}__") from error
        result = _new(cls)
        result._c = nodes
        result._o = None
        return result

    def reverse(self: Any, other: Any) -> Any:
        cls = self.__class__
        kind = other.__class__
        try:
            if kind is cls._leaf:
                left = other._n
            elif (kind is float and cls._floating) or (kind is int and cls._low <= other <= cls._high):
                left = known_literal((cls._type, other)) or literal(cls._type, other)
            else:
                return _slow(self, other, "r" + name, trace, swap=True)
            nodes = [trace(left, node) for node in self._c]
        except CORE_ERRORS as error:
            raise translate(error, f"{cls._name}.__r{name}__") from error
        result = _new(cls)
        result._c = nodes
        result._o = None
        return result

    return forward, reverse, inplace(forward)


def nested_comparison(name: str, trace: Trace2) -> Operator:
    """A comparison of nested arrays."""

    def compare(self: Any, other: Any) -> Any:
        cls = self.__class__
        try:
            if other.__class__ is cls and len(self._c) == len(other._c):
                nodes = list(map(trace, self._c, other._c))
            else:
                return _slow(self, other, name, trace, mask=True)
        except CORE_ERRORS as error:
            raise translate(error, f"{cls._name}.__{name}__") from error
        result = _new(cls._mask_type)
        result._c = nodes
        result._o = None
        return result

    return compare


def nested_unary(name: str, trace: Callable[[Node], Node]) -> Callable[[Any], Any]:
    """A unary operator of nested arrays."""

    def apply(self: Any) -> Any:
        cls = self.__class__
        result = _new(cls)
        try:
            result._c = list(map(trace, self._c))
        except CORE_ERRORS as error:
            raise translate(error, f"{cls._name}.__{name}__") from error
        result._o = None
        return result

    return apply


# --- operators with rules of their own -------------------------------------------------------------------------------


def _mask_bits(mask: Node, value: Node) -> Node:
    return ops.select(mask, value, literal(value.type, 0))  # type: ignore[no-any-return]


def masked(binary: Operator) -> Operator:
    """``__and__``, which also masks numbers: ``x & mask`` is ``x`` where the mask is set and zero elsewhere."""

    def combine(self: Any, other: Any) -> Any:
        if isinstance(other, ArrayBase) and other._depth < 0:
            return NotImplemented
        if isinstance(other, ArrayBase) and other._kind == "b" and self._kind != "b":
            function = f"{self._name}.__and__"
            cls, (masks, values) = operands(function, (self,), mask=other)
            try:
                return wrap(cls, list(map(_mask_bits, masks, values)))
            except CORE_ERRORS as error:
                raise translate(error, function) from error
        if other.__class__ is bool and self._kind != "b":
            return wrap(type(self), [_mask_bits(literal(BOOL, other), node) for node in self._nodes()])
        return binary(self, other)

    return combine


def integer_power(node: Node, exponent: int) -> Node:
    """``node ** exponent`` by repeated squaring, followed by a reciprocal if the exponent is negative."""
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


def power(self: Any, other: Any, modulo: object = None) -> Any:
    """``self ** other``: multiplications if the exponent is integral, else through logarithm and exponential."""
    function = f"{self._name}.__pow__"
    exponent = plain_scalar(other)
    if exponent is not None and abs(exponent) < 1 << 31 and exponent == int(exponent):
        cls, (nodes, _) = operands(function, (self, exponent))
        if exponent < 0 and cls._kind != "f":
            raise ArgumentError(f"{function}(): integer arrays cannot be raised to the negative power {exponent}.")
        try:
            return wrap(cls, [integer_power(node, int(exponent)) for node in nodes])
        except CORE_ERRORS as error:
            raise translate(error, function) from error
    return _general_power(self, other, function, "pow", swap=False)


def reverse_power(self: Any, other: Any) -> Any:
    """``other ** self``."""
    if self._kind != "f" and plain_scalar(other) is not None:
        self = retype(type(self), FLOAT64 if self._type >= 9 else FLOAT32)(self)
    return _general_power(self, other, f"{self._name}.__rpow__", "rpow", swap=True)


def _general_power(self: Any, other: Any, function: str, name: str, swap: bool) -> Any:
    if isinstance(other, ArrayBase) and other._depth < 0:
        return NotImplemented
    if self._kind != "f" and isinstance(other, ArrayBase) and other._kind != "f":
        raise ArgumentError(f"{function}(): raising integers to the power of an array is not supported; convert to a "
                            "floating-point type first.")
    return _slow(self, other, name, core.power, swap)


power_inplace = inplace(power)


def reverse_matmul(self: Any, other: Any) -> Any:
    """``other @ self`` for a Python number, which scales, or a sequence of components."""
    if plain_scalar(other) is not None:
        return other * self
    if not self._depth or not isinstance(other, (list, tuple, range)):
        return NotImplemented
    return type(self)(other) @ self


def matmul(self: Any, other: Any) -> Any:
    """``self @ other``: the dot product of two vectors, or a product with a scalar."""
    function = f"{self._name}.__matmul__"
    if isinstance(other, ArrayBase) and other._depth < 0:
        return NotImplemented
    if not isinstance(other, ArrayBase):
        if plain_scalar(other) is None:
            return NotImplemented
        return self * other
    if self._depth > 1 or other._depth > 1 or self._special or other._special:
        return product(function, self, other)
    if self._depth != other._depth:
        return self * other
    cls, (left, right) = operands(function, (self, other))
    try:
        if not cls._depth:
            return wrap(cls, [core.reduce(ops.mul(left[0], right[0]), core.ReduceOp.Add.value)])
        if not left:
            return wrap(cls._leaf, [literal(cls._type, 0)])
        node = ops.mul(left[0], right[0])
        for a, b in zip(left[1:], right[1:], strict=True):
            node = ops.fma(a, b, node)
    except CORE_ERRORS as error:
        raise translate(error, function) from error
    return wrap(cls._leaf, [node])


matmul_inplace = inplace(matmul)
