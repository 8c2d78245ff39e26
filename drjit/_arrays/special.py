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
from .._base.errors import (
    CORE_ERRORS,
    FAILURES,
    ArgumentError,
    CallSite,
    IncompatibleArguments,
    Site,
    called,
    translate,
)
from .._base.values import is_real, plain_scalar
from .._promotion import operations
from .._promotion.operations import method_of
from .._promotion.plans import Keys, Operation, Plan, flat_loader, is_array, is_real_key, promotion
from .._promotion.promote import brought, convert, leads, repeated, wrap
from .._rules.complex import integer_power
from .construction import nested_nodes
from .nested import NestedArray
from .operators import Operator, array_operators, inplace, power, reverse_power
from .unplanned import mixed

__all__ = ["SpecialArray", "is_real"]

Rule = Callable[..., list[Node]]

#: Operations with a rule of their own, by their rows.
_ARITHMETIC = frozenset({"add", "sub", "mul", "div", "fma"})
_ORDER = frozenset({"lt", "le", "gt", "ge"})


def _comparison(operation: Operation) -> Operator:
    """Equality of components."""
    trace, plans = operation.trace, operation.plans

    def compare(self: Any, other: Any) -> Any:
        cls = self.__class__
        try:
            if other.__class__ is cls:
                return wrap(cls._mask_type, list(map(trace, self._c, other._c)))
            plan = plans.get((cls, other.__class__))
            return mixed(self, other, operation) if plan is None else plan(self, other)
        except FAILURES as error:
            raise translate(error, CallSite(method_of(operation), cls), (self, other)) from None

    return compare


def _ordering(operation: Operation) -> Operator:
    def compare(self: Any, other: Any) -> NoReturn:
        raise _no_order(type(self), CallSite(method_of(operation), type(self)))

    return compare


def _no_order(cls: type[ArrayBase], site: Site) -> ArgumentError:
    return ArgumentError(f"{called(site)}: there is no order among {_PLURAL[cls._special]}.")


_PLURAL = {"complex": "complex numbers", "quaternion": "quaternions", "matrix": "matrices"}


def _undefined(name: str) -> Operator:
    def operate(self: Any, other: Any) -> NoReturn:
        raise TypeError(f"{self._name}.__{name}__(): the operation is not defined for {_PLURAL[self._special]}.")

    return operate


class SpecialArray(NestedArray):
    """Behaviour that complex numbers, quaternions and matrices share."""

    __slots__ = ()

    #: Rules by the row of the operation: functions of the components of both operands.
    _rules: ClassVar[dict[str, Rule]] = {}
    #: Rules of unary functions by their name in ``drjit``: a list of nodes is of this type, a node is a real.
    _functions: ClassVar[dict[str, Callable[[list[Node]], Any]]] = {}

    @classmethod
    def _unit(cls) -> Sequence[int]:
        """Positions of the components that are 1 in the identity element, where the others are 0."""
        raise NotImplementedError

    @classmethod
    def _rule(cls, row: str) -> Rule:
        """The rule of an operation, by its row: a function of components of this type."""
        return cls._rules[row]

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
        if len(args) == 1:
            value = args[0]
            if isinstance(value, ArrayBase):
                if value._depth == 1 and value._size == -1:
                    return nested_nodes(cls, (list(value),))
                if value._depth >= 0:
                    return cls._convert(value, f"{cls._name}.__init__")
            elif plain_scalar(value) is not None:
                return cls._convert(value, f"{cls._name}.__init__")
        return nested_nodes(cls, args)

    @classmethod
    def _convert(cls, value: Any, function: Site) -> list[Node]:
        if is_real(value):
            return cls._identity(convert(cls._leaf, value, function)[0])
        if isinstance(value, ArrayBase):
            value = brought(cls, value, function)
            if value._special == cls._special and value._record.shape != cls._record.shape and \
                    leads(value._record.shape, cls._record.shape) and value._dynamic == cls._dynamic:
                return repeated(cls, value)
            if value._record.shape != cls._record.shape or value._special not in ("", cls._special):
                raise ArgumentError(f"{called(function)}: cannot convert {value._name} to {cls._name}.")
            return list(convert(cls, value, function))
        return convert(cls, value, function)

    @classmethod
    def _plan(cls, operation: Operation, site: Site, keys: Keys) -> Plan | None:
        """The plan of an operation with operands of this kind; ``None`` if it is done component by component."""
        row = operation.name
        if operation.mask:
            if row in _ORDER:
                raise _no_order(cls, site)
            return None  # equality and closeness: of components
        if row in ("power", "integer_power"):
            return cls._power_plan(site, keys)
        if row not in _ARITHMETIC:
            return cls._no_rule(site)
        if row == "fma":
            return cls._fused_plan(keys)
        found: Any = promotion(keys)
        kind: Any = found.cls
        first, second = found.loaders
        if is_real_key(keys[1]):
            real = flat_loader(kind, keys[1]).node
            rule = functools.partial(kind._with_real, row, operation.trace)
            return lambda a, b: wrap(kind, rule(first(a), real(b)))
        if is_real_key(keys[0]):
            real = flat_loader(kind, keys[0]).node
            rule = functools.partial(kind._from_real, row, operation.trace)
            return lambda a, b: wrap(kind, rule(real(a), second(b)))
        rule = kind._rule(row)
        return lambda a, b: wrap(kind, rule(first(a), second(b)))

    @classmethod
    def _no_rule(cls, site: Site) -> Plan | None:
        raise ArgumentError(f"{called(site)}: the function is not defined for {_PLURAL[cls._special]}.")

    @classmethod
    def _with_real(cls, row: str, trace: Callable[..., Node], nodes: Sequence[Node], real: Node) -> list[Node]:
        """A binary operation whose right operand is real: a product scales, a sum changes the real part only."""
        if row in ("mul", "div"):
            return [trace(node, real) for node in nodes]
        unit = cls._unit()
        return [trace(node, real) if k in unit else node for k, node in enumerate(nodes)]

    @classmethod
    def _from_real(cls, row: str, trace: Callable[..., Node], real: Node, nodes: list[Node]) -> list[Node]:
        """A binary operation whose left operand is real."""
        if row == "div":
            row, trace, nodes = "mul", ops.mul, cls._inverse(nodes)
        if row == "mul":
            return [trace(real, node) for node in nodes]
        unit, zero = cls._unit(), literal(cls._type, 0)
        return [trace(real, node) if k in unit else node if row == "add" else trace(zero, node)
                for k, node in enumerate(nodes)]

    @classmethod
    def _fused_plan(cls, keys: Keys) -> Plan:
        """The plan of ``a * b + c`` in terms of this kind's product."""
        found: Any = promotion(keys)
        kind, load = found.cls, found.load
        position = kind._unit()[0]
        reals = [is_real_key(key) for key in keys]

        def fused(*args: Any) -> Any:
            a, b, c = load(*args)
            if reals[0]:
                return wrap(kind, [ops.fma(a[position], node, c[k]) for k, node in enumerate(b)])
            if reals[1]:
                return wrap(kind, [ops.fma(b[position], node, c[k]) for k, node in enumerate(a)])
            return wrap(kind, kind._rule("fma")(a, b, c))

        return fused

    @classmethod
    def _power_plan(cls, site: Site, keys: Keys) -> Plan:
        """The plan of ``base ** exponent``, one of them of this kind."""
        found: Any = promotion(keys)
        kind, load = found.cls, found.load
        number = not is_array(keys[1])

        def raised(base: Any, exponent: Any) -> Any:
            if number and abs(exponent) < 1 << 31 and exponent == int(exponent):
                nodes = found.loaders[0](base)
                one = kind._identity(literal(kind._type, 1, max(node.size for node in nodes)))
                product = kind._rule("mul")
                return wrap(kind, integer_power(product, kind._inverse, one, nodes, int(exponent)))
            if "power" not in kind._rules:
                raise IncompatibleArguments(f"only integers can be exponents of {_PLURAL[kind._special]}")
            return wrap(kind, kind._rule("power")(*load(base, exponent)))

        return raised

    def _function(self, name: str) -> Any:
        """A unary function by its name in ``drjit``; raises where there is no rule for this kind."""
        if name == "square":
            return self * self
        cls = type(self)
        rule = cls._functions.get(name)
        if rule is None:
            return NotImplemented if cls._no_rule(CallSite(f"drjit.{name}", cls)) is None else None
        try:
            result = rule(self._c)
        except CORE_ERRORS as error:
            raise translate(error, CallSite(f"drjit.{name}", cls)) from None
        if isinstance(result, tuple):
            return tuple(wrap(cls, nodes) for nodes in result)
        return wrap(cls, result) if isinstance(result, list) else wrap(cls._leaf, [result])

    @property
    def array(self) -> Any:
        """The components as an ordinary array of the same layout."""
        return wrap(self._plain, list(self._c))

    __add__, __radd__, __iadd__ = array_operators(operations.ADD)
    __sub__, __rsub__, __isub__ = array_operators(operations.SUB)
    __mul__, __rmul__, __imul__ = array_operators(operations.MUL)
    __truediv__, __rtruediv__, __itruediv__ = array_operators(operations.DIV)
    __pow__, __rpow__, __ipow__ = power, reverse_power, inplace(power)

    __eq__ = _comparison(operations.EQ)
    __ne__ = _comparison(operations.NEQ)
    __lt__, __le__, __gt__, __ge__ = map(_ordering, (operations.LT, operations.LE, operations.GT, operations.GE))
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
        return wrap(type(self), list(map(core.abs, self._c))) if result is NotImplemented else result
