"""Matrices: square, row-major, with the products and quotients of linear algebra.

The arithmetic is in :mod:`drjit._rules.matrix`, products of operands of different shapes are in
:mod:`drjit._functions.linalg`, the operators in :mod:`drjit._arrays.special`; the contract with the factory stands in
:mod:`drjit._base.types`. Functions of reals that have no meaning of their own for matrices, such as ``dr.sin``, are
elementwise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import drjit_core as core
from drjit_core import Node, literal, ops

from .._base.array import ArrayBase
from .._base.errors import CORE_ERRORS, ArgumentError, CallSite, IncompatibleArguments, Site, called, translate
from .._base.types import base_class, reshape
from .._promotion.plans import Keys, Operation, Plan, is_array
from .._promotion.promote import brought, convert, is_row, wrap
from .._rules import matrix as rules
from .bases import nodes_of
from .components import absent_component
from .construction import nested_nodes
from .products import static_product
from .special import SpecialArray

__all__ = ["MatrixBase"]


@base_class("matrix")
class MatrixBase(SpecialArray):
    """Behaviour of the ``matrix`` types."""

    __slots__ = ()

    @classmethod
    def _unit(cls) -> Sequence[int]:
        size, count = cls._record.shape[0], cls._count
        inner = count // (size * size)
        return [(k * (size + 1)) * inner + j for k in range(size) for j in range(inner)]

    @classmethod
    def _inverse(cls, nodes: list[Node]) -> list[Node]:
        return rules.inner(rules.inverse, nodes, cls._size)

    @classmethod
    def _rule(cls, row: str) -> Callable[..., list[Node]]:
        if row == "mul" or row == "fma":
            return cls._product
        if row == "div":
            return lambda a, b: cls._product(a, cls._inverse(b))
        trace = ops.add if row == "add" else ops.sub
        return lambda a, b: list(map(trace, a, b))

    @classmethod
    def _product(cls, a: list[Node], b: list[Node], addend: list[Node] | None = None) -> list[Node]:
        size, count = cls._size, cls._count // (cls._size * cls._size)
        if count == 1:
            return rules.multiply(a, b, size, addend)
        parts = [rules.multiply(a[k::count], b[k::count], size, addend[k::count] if addend else None)
                 for k in range(count)]
        return [node for entry in zip(*parts, strict=True) for node in entry]

    @classmethod
    def _construct(cls, args: tuple[Any, ...]) -> list[Node]:
        size = cls._size
        if len(args) == 1:
            value: Any = args[0]
            holds_entries = isinstance(value, (list, tuple)) or (
                isinstance(value, ArrayBase) and value._depth == 1 and not value._special and not is_row(cls, value))
            if holds_entries and len(value) in (size, size * size):
                args = tuple(value)
            elif isinstance(value, ArrayBase) and not value._special and value._depth > 0 and \
                    value._record.shape == cls._record.shape[2:]:
                return cls._scaled(convert(reshape(cls, value._record.shape), value, f"{cls._name}.__init__"))
        if len(args) == size * size:
            nodes = nodes_of(cls._leaf, args) if cls._count == size * size else None
            return nodes or nested_nodes(cls, tuple(args[row * size:(row + 1) * size] for row in range(size)))
        return super()._construct(args)

    @classmethod
    def _scaled(cls, entry: Sequence[Node]) -> list[Node]:
        """Components of the identity, times what matrices with further dimensions have for an entry."""
        unit, zero = dict(zip(cls._unit(), [*entry] * cls._size, strict=True)), literal(cls._type, 0)
        return [unit.get(position, zero) for position in range(cls._count)]

    @classmethod
    def _convert(cls, value: Any, function: Site) -> list[Node]:
        if isinstance(value, ArrayBase) and value._special == "matrix" and value._size != cls._size \
                and str(function).endswith(".__init__"):
            return cls._resized(value, function)
        return super()._convert(value, function)

    @classmethod
    def _resized(cls, value: Any, function: Site) -> list[Node]:
        """The upper left part of a larger matrix, or a smaller one within the identity."""
        if len(value._record.shape) != len(cls._record.shape) or value._record.shape[2:] != cls._record.shape[2:]:
            raise ArgumentError(f"{called(function)}: cannot convert {value._name} to {cls._name}.")
        source, size, other = brought(cls, value, function)._nodes(), cls._size, value._size
        nodes, inner = cls._identity(literal(cls._type, 1)), cls._count // (cls._size * cls._size)
        for row in range(min(size, other)):
            for column in range(min(size, other)):
                for k in range(inner):
                    node = source[(row * other + column) * inner + k]
                    nodes[(row * size + column) * inner + k] = core.cast(node, cls._type)
        return nodes

    # --- operations --------------------------------------------------------------------------------------------------

    @classmethod
    def _plan(cls, operation: Operation, site: Site, keys: Keys) -> Plan | None:
        row = operation.name
        if not operation.mask and len(keys) == 2:
            vector: Any = next((key for key in keys if is_array(key) and not key._special and key._depth), None)
            if vector is not None and row == "mul":
                if vector._depth > 1 and vector._record.shape == cls._record.shape:
                    raise IncompatibleArguments("the product of a matrix and a nested array of its shape is ambiguous; "
                                                "use '@', or convert one of them")
                return static_product
            if vector is not None and row == "div" and keys[0] is vector:
                return lambda left, right: static_product(left, wrap(keys[1], keys[1]._inverse(right._c)))
            if vector is not None and vector._record.shape != cls._record.shape:
                raise IncompatibleArguments("there is no rule for both together")
            if row == "mul" and all(issubclass(key, MatrixBase) for key in keys) and keys[0]._size != keys[1]._size:
                raise IncompatibleArguments("matrices of different sizes cannot be multiplied")
        return super()._plan(operation, site, keys)

    @classmethod
    def _no_rule(cls, site: Site) -> Plan | None:
        return None  # elementwise

    def _function(self, name: str) -> Any:
        if name == "square":
            return self * self
        if name != "rcp":
            return NotImplemented
        try:
            return wrap(type(self), self._inverse(self._c))
        except CORE_ERRORS as error:
            raise translate(error, CallSite("drjit.rcp", type(self))) from None

    @property
    def T(self) -> Any:
        """The transpose."""
        return wrap(type(self), rules.transpose(self._c, self._size))

    mT = T

    x, y, z, w = map(absent_component, "xyzw")
