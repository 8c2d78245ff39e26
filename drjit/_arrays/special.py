"""What complex numbers, quaternions and matrices have in common: operators whose rules are not elementwise.

A kind gives its arithmetic as functions of component lists, by the row of the op table that stands for the operation on
reals (:attr:`SpecialArray._rules`), and the positions of the components that make up a real number
(:meth:`SpecialArray._unit`: the real part, or the diagonal). Operands of one type go straight to the rule; others are
promoted by the common rules. A real operand is not expanded: a product with it scales the components.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NoReturn

import drjit_core as core
from drjit_core import Node, invalid, literal, ops

from .._base.array import ArrayBase
from .._base.errors import CORE_ERRORS, ArgumentError, describe, translate
from .._base.values import is_ndarray, is_real, plain_scalar
from .._promotion.promote import convert, elementwise, operands, wrap
from .._rules.complex import integer_power
from .construction import nested_nodes
from .nested import NestedArray
from .operators import absolute, inplace

__all__ = ["SpecialArray", "is_real", "names_of"]

Operator = Callable[[Any, Any], Any]
Rule = Callable[..., list[Node]]

_NAMES: dict[Any, str] = {ops.add: "add", ops.sub: "sub", ops.mul: "mul", ops.div: "truediv", core.power: "pow",
                          ops.fma: "fma"}


def names_of(args: Sequence[Any]) -> str:
    """The types of arguments, for messages."""
    return ", ".join(f"<{describe(value)}>" for value in args)


def _operators(name: str, trace: Callable[..., Node]) -> tuple[Operator, Operator, Operator]:
    """``__op__``, ``__rop__`` and ``__iop__`` of an operation that a kind has a rule for."""

    def forward(self: Any, other: Any) -> Any:
        cls = self.__class__
        kind = other.__class__
        try:
            if kind is cls:
                nodes = cls._compute(name, self._c, other._c)
            elif kind is cls._leaf:
                nodes = cls._with_real(name, trace, self._c, other._n)
            elif kind is float or (kind is int and cls._low <= other <= cls._high):
                nodes = cls._with_real(name, trace, self._c, literal(cls._type, other))
            else:
                return _mixed(self, other, name, trace, False)
            return wrap(cls, nodes)
        except CORE_ERRORS as error:
            raise translate(error, f"{cls._name}.__{name}__") from error

    def reverse(self: Any, other: Any) -> Any:
        return _mixed(self, other, "r" + name, trace, True)

    return forward, reverse, inplace(forward)


def _mixed(self: Any, other: Any, name: str, trace: Callable[..., Node], swap: bool, mask: bool = False) -> Any:
    function = f"{self._name}.__{name}__"
    if not isinstance(other, (ArrayBase, list, tuple, complex)) and plain_scalar(other) is None \
            and not is_ndarray(other):
        if type(other).__module__ != "builtins":
            return NotImplemented
        raise ArgumentError(f"{function}(): unsupported operand of type '{describe(other)}' (expected a Dr.Jit array "
                            "or a type that can be converted into one).")
    return elementwise(function, trace, (other, self) if swap else (self, other), mask)


def _comparison(name: str, trace: Callable[..., Node]) -> Operator:
    """Equality of components."""

    def compare(self: Any, other: Any) -> Any:
        if other.__class__ is self.__class__:
            return wrap(self._mask_type, list(map(trace, self._c, other._c)))
        return _mixed(self, other, name, trace, False, mask=True)

    return compare


def _ordering(name: str) -> Operator:
    def compare(self: Any, other: Any) -> NoReturn:
        raise _no_order(type(self), f"{self._name}.__{name}__")

    return compare


def _no_order(cls: type[ArrayBase], function: str) -> ArgumentError:
    return ArgumentError(f"{function}(): there is no order among {_PLURAL[cls._special]}.")


_PLURAL = {"complex": "complex numbers", "quaternion": "quaternions", "matrix": "matrices"}


def _undefined(name: str) -> Operator:
    def operate(self: Any, other: Any) -> NoReturn:
        raise TypeError(f"{self._name}.__{name}__(): the operation is not defined for {_PLURAL[self._special]}.")

    return operate


class SpecialArray(NestedArray):
    """Behaviour that complex numbers, quaternions and matrices share."""

    __slots__ = ()

    #: Rules by operation: functions of the components of both operands.
    _rules: ClassVar[dict[str, Rule]] = {}
    #: Rules of unary functions by their name in ``drjit``: a list of nodes is of this type, a node is a real.
    _functions: ClassVar[dict[str, Callable[[list[Node]], Any]]] = {}

    @classmethod
    def _unit(cls) -> Sequence[int]:
        """Positions of the components that are 1 in the identity element, where the others are 0."""
        raise NotImplementedError

    @classmethod
    def _compute(cls, name: str, *args: list[Node]) -> list[Node]:
        """Apply the rule of an operation to components of this type."""
        return cls._rules[name](*args)

    @classmethod
    def _inverse(cls, nodes: list[Node]) -> list[Node]:
        """Components of the multiplicative inverse."""
        raise NotImplementedError

    @classmethod
    def _identity(cls, node: Node) -> list[Node]:
        """Components of a real multiple of the identity."""
        unit, zero = cls._unit(), literal(cls._type, 0)
        return [node if position in unit else zero for position in range(cls._count)]

    @classmethod
    def _construct(cls, args: tuple[Any, ...]) -> list[Node]:
        if not args:
            return [invalid(cls._type) if cls._dynamic else literal(cls._type, 0)] * cls._count
        if len(args) == 1 and (isinstance(args[0], ArrayBase) or plain_scalar(args[0]) is not None):
            return cls._convert(args[0], f"{cls._name}.__init__")
        return nested_nodes(cls, args)

    @classmethod
    def _convert(cls, value: Any, function: str) -> list[Node]:
        if is_real(value):
            return cls._identity(convert(cls._leaf, value, function)[0])
        if isinstance(value, ArrayBase):
            if value._record.shape != cls._record.shape or value._special not in ("", cls._special):
                raise ArgumentError(f"{function}(): cannot convert {value._name} to {cls._name}.")
            return list(convert(cls, value, function))
        return convert(cls, value, function)

    @classmethod
    def _promote_with(cls, function: str, trace: Callable[..., Node], args: Sequence[Any], mask: bool) -> Any:
        if mask:
            if trace in (ops.lt, ops.le, ops.gt, ops.ge):
                raise _no_order(cls, function)
            return NotImplemented  # equality and closeness: of components
        name = _NAMES.get(trace)
        if name is None:
            return cls._no_rule(function, args)
        try:
            if name == "fma":
                return cls._fused(function, args)
            if name == "pow":
                return cls._power(function, *args)
            return cls._combine(function, name, trace, args)
        except CORE_ERRORS as error:
            raise translate(error, function) from error

    @classmethod
    def _no_rule(cls, function: str, args: Sequence[Any]) -> Any:
        call = function if function.endswith(")") else f"{function}({names_of(args)})"
        raise TypeError(f"{call}: the function is not defined for {_PLURAL[cls._special]}.")

    @classmethod
    def _with_real(cls, name: str, trace: Callable[..., Node], nodes: list[Node], real: Node) -> list[Node]:
        """A binary operation whose right operand is real: a product scales, a sum changes the real part only."""
        if name in ("mul", "truediv"):
            return [trace(node, real) for node in nodes]
        unit = cls._unit()
        return [trace(node, real) if k in unit else node for k, node in enumerate(nodes)]

    @classmethod
    def _combine(cls, function: str, name: str, trace: Callable[..., Node], args: Sequence[Any]) -> Any:
        """A binary operation of promoted operands, one of which may be real."""
        found: Any
        found, (left, right) = operands(function, args)
        unit = found._unit()
        if is_real(args[1]):
            return wrap(found, found._with_real(name, trace, left, right[unit[0]]))
        if is_real(args[0]):
            real = left[unit[0]]
            if name == "truediv":
                name, trace, right = "mul", ops.mul, found._inverse(right)
            if name == "mul":
                return wrap(found, [trace(real, node) for node in right])
            zero = literal(found._type, 0)
            return wrap(found, [trace(real, node) if k in unit else node if name == "add" else trace(zero, node)
                                for k, node in enumerate(right)])
        return wrap(found, found._compute(name, left, right))

    @classmethod
    def _fused(cls, function: str, args: Sequence[Any]) -> Any:
        """``args[0] * args[1] + args[2]`` in terms of this kind's product."""
        found: Any
        found, (a, b, c) = operands(function, args)
        unit = found._unit()
        for factor, real in ((args[0], b), (args[1], a)):
            if is_real(factor):
                scale = (a if real is b else b)[unit[0]]
                return wrap(found, [ops.fma(scale, node, c[k]) for k, node in enumerate(real)])
        return wrap(found, found._compute("fma", a, b, c))

    @classmethod
    def _power(cls, function: str, base: Any, exponent: Any) -> Any:
        """``base ** exponent``, one of them of this kind."""
        found: Any
        number = plain_scalar(exponent)
        if number is not None and abs(number) < 1 << 31 and number == int(number):
            found, (nodes,) = operands(function, (base,))
            one = found._identity(literal(found._type, 1, max(node.size for node in nodes)))
            product = functools.partial(found._compute, "mul")
            return wrap(found, integer_power(product, found._inverse, one, nodes, int(number)))
        if "pow" not in cls._rules:
            raise TypeError(f"{function}(): only integers can be exponents of {_PLURAL[cls._special]}.")
        found, (left, right) = operands(function, (base, exponent))
        return wrap(found, found._compute("pow", left, right))

    def _function(self, name: str) -> Any:
        """A unary function by its name in ``drjit``; raises where there is no rule for this kind."""
        cls = type(self)
        rule = cls._functions.get(name)
        if rule is None:
            return cls._no_rule(f"drjit.{name}", (self,))
        try:
            result = rule(self._c)
        except CORE_ERRORS as error:
            raise translate(error, f"drjit.{name}(<{cls._name}>)") from error
        if isinstance(result, tuple):
            return tuple(wrap(cls, nodes) for nodes in result)
        return wrap(cls, result) if isinstance(result, list) else wrap(cls._leaf, [result])

    @property
    def array(self) -> Any:
        """The components as an ordinary array of the same layout."""
        return wrap(self._plain, list(self._c))

    __add__, __radd__, __iadd__ = _operators("add", ops.add)
    __sub__, __rsub__, __isub__ = _operators("sub", ops.sub)
    __mul__, __rmul__, __imul__ = _operators("mul", ops.mul)
    __truediv__, __rtruediv__, __itruediv__ = _operators("truediv", ops.div)

    def __pow__(self, other: Any, modulo: object = None) -> Any:
        return _mixed(self, other, "pow", core.power, False)

    def __rpow__(self, other: Any) -> Any:
        return _mixed(self, other, "rpow", core.power, True)

    __ipow__ = inplace(__pow__)

    __eq__ = _comparison("eq", ops.eq)
    __ne__ = _comparison("ne", ops.neq)
    __lt__, __le__, __gt__, __ge__ = map(_ordering, ("lt", "le", "gt", "ge"))
    __hash__ = object.__hash__

    __floordiv__, __rfloordiv__, __ifloordiv__ = map(_undefined, ("floordiv", "rfloordiv", "ifloordiv"))
    __mod__, __rmod__, __imod__ = map(_undefined, ("mod", "rmod", "imod"))
    __lshift__, __rlshift__, __ilshift__ = map(_undefined, ("lshift", "rlshift", "ilshift"))
    __rshift__, __rrshift__, __irshift__ = map(_undefined, ("rshift", "rrshift", "irshift"))
    __or__, __ror__, __ior__ = map(_undefined, ("or", "ror", "ior"))
    __xor__, __rxor__, __ixor__ = map(_undefined, ("xor", "rxor", "ixor"))

    def __invert__(self) -> NoReturn:
        raise TypeError(f"{self._name}.__invert__(): the operation is not defined for {_PLURAL[self._special]}.")

    def __abs__(self) -> Any:
        result = self._function("abs")
        return wrap(type(self), list(map(absolute, self._c))) if result is NotImplemented else result
