"""What the operators of flat arrays, nested arrays and tensors do, and how components are reached: the hot path of
every program.

``a + b`` on two arrays of one type, or on an array and a Python number that its type can hold, goes straight to the
trace function; for all other operands there is a plan (:mod:`drjit._promotion.plans`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import drjit_core as core
from drjit_core import binary, number, ops

from .._base.errors import FAILURES, CallSite, SizeError, translate
from .._base.handle import add_view, fresh, view_at
from .._base.operators import FlatSlots, NestedSlots, TensorSlots
from .._promotion import operations
from .._promotion.componentwise import Componentwise, Operation, flat_array, nested_array
from .._promotion.operations import method_of
from .operators import failed, mixed

__all__ = ["FlatHandle", "NestedHandle", "TensorHandle", "component_of", "getter_of_component"]

#: Operations by their numbers (see :mod:`drjit._base.operators`).
_OPERATIONS = [operations.ADD, operations.SUB, operations.MUL, operations.DIV, operations.FLOORDIV, operations.MOD,
               operations.SHL, operations.SHR, operations.OR, operations.XOR, operations.AND,
               operations.EQ, operations.NEQ, operations.LT, operations.LE, operations.GT, operations.GE]
_UNARY = [ops.neg, ops.inv, core.abs]
_UNARY_METHODS = ["__neg__", "__invert__", "__abs__"]


def trace_two(operation: Operation, a: core.Node, b: core.Node) -> core.Node:
    """The node of an operation of two nodes of one type."""
    return binary(operation.row, a, b) if operation.row >= 0 else operation.trace(a, b)


def planned(operation: Operation, self: Any, other: Any) -> Any:
    """An operator with an array of any kind on the left, by the plan for such operands."""
    plan = operation.plans.get((type(self), type(other)))
    if type(plan) is Componentwise:
        known = plan
        return known.two(self, other)
    return mixed(self, other, operation) if plan is None else plan(self, other)


def planned_reverse(operation: Operation, self: Any, other: Any) -> Any:
    """An operator with an array on the right, and on the left something that did not do it."""
    try:
        plan = operation.plans.get((type(other), type(self)))
        if type(plan) is Componentwise:
            known = plan
            return known.two(other, self)
        return mixed(self, other, operation, True) if plan is None else plan(other, self)
    except FAILURES as error:
        raise failed(error, self, other, operation, True) from None


class FlatHandle(FlatSlots):
    """A flat array, with its operators."""

    __slots__ = ()

    def _forward(self, operation: int, other: Any) -> Any:
        cls = type(self)
        what = _OPERATIONS[operation]
        try:
            if type(other) is cls:
                array = other
                right = array._n
            else:
                right = number(self._n.type, other)
                if right is None:
                    return planned(what, self, other)
            node = trace_two(what, self._n, right)
        except FAILURES as error:
            raise failed(error, self, other, what) from None
        return flat_array(cls._mask_type if what.mask else cls, node)

    def _reverse(self, operation: int, other: Any) -> Any:
        what = _OPERATIONS[operation]
        try:
            left = number(self._n.type, other)
            if left is None:
                return planned_reverse(what, self, other)
            node = trace_two(what, left, self._n)
        except FAILURES as error:
            raise failed(error, self, other, what, True) from None
        return flat_array(type(self), node)

    def _inplace(self, operation: int, other: Any) -> Any:
        return _assigned(self, self._forward(operation, other))

    def _unary(self, operation: int) -> Any:
        try:
            node = _UNARY[operation](self._n)
        except FAILURES as error:
            raise translate(error, CallSite(_UNARY_METHODS[operation], type(self))) from None
        return flat_array(type(self), node)


def _assigned(array: Any, result: Any) -> Any:
    """An array after ``array += …``, whose result may be of another type."""
    if type(result) is type(array):
        array._assign(result)
        return array
    return result


# --- nested arrays ---------------------------------------------------------------------------------------------------


class NestedHandle(NestedSlots):
    """A nested array, with its operators."""

    __slots__ = ()

    def _forward(self, operation: int, other: Any) -> Any:
        cls = type(self)
        what = _OPERATIONS[operation]
        left = self._c
        nodes = []
        try:
            if type(other) is cls:
                array = other
                right = array._c
                if len(left) != len(right):
                    return planned(what, self, other)
                for k in range(len(left)):
                    nodes.append(trace_two(what, left[k], right[k]))
            else:
                if type(other) is cls._leaf:
                    flat = other
                    node = flat._n
                else:
                    node = number(cls._type, other)
                    if node is None:
                        return planned(what, self, other)
                for k in range(len(left)):
                    nodes.append(trace_two(what, left[k], node))
        except FAILURES as error:
            raise failed(error, self, other, what) from None
        return nested_array(cls._mask_type if what.mask else cls, nodes)

    def _reverse(self, operation: int, other: Any) -> Any:
        what = _OPERATIONS[operation]
        cls = type(self)
        right = self._c
        nodes = []
        try:
            if type(other) is cls._leaf:
                flat = other
                node = flat._n
            else:
                node = number(cls._type, other)
                if node is None:
                    return planned_reverse(what, self, other)
            for k in range(len(right)):
                nodes.append(trace_two(what, node, right[k]))
        except FAILURES as error:
            raise failed(error, self, other, what, True) from None
        return nested_array(cls, nodes)

    def _inplace(self, operation: int, other: Any) -> Any:
        return _assigned(self, self._forward(operation, other))

    def _unary(self, operation: int) -> Any:
        trace = _UNARY[operation]
        try:
            nodes = [trace(node) for node in self._c]
        except FAILURES as error:
            raise translate(error, CallSite(_UNARY_METHODS[operation], type(self))) from None
        return nested_array(type(self), nodes)


def component_of(array: Any, position: int) -> Any:
    """The component of a nested array at a position that exists, referring back to it."""
    found = view_at(array, position)
    if found is not None:
        return found
    nodes = array._c
    value = type(array)._value
    if value._depth:
        count = value._count
        inner = fresh(value)
        inner._c = nodes[position * count:(position + 1) * count]
        add_view(array, position, inner, position * count)
        return inner
    flat = fresh(value)
    flat._n = nodes[position]
    add_view(array, position, flat, position)
    return flat


def getter_of_component(position: int, missing: Callable[[Any], Exception]) -> Callable[[Any], Any]:
    """The function from nested arrays to their component at a position; raises what ``missing`` makes if there is
    none."""
    def get(self: Any) -> Any:
        found = view_at(self, position)
        if found is not None:
            return found
        if self._size <= position:
            raise missing(self)
        return self._component(position)

    return get


# --- tensors ---------------------------------------------------------------------------------------------------------


class TensorHandle(TensorSlots):
    """A tensor, with its operators: without a plan where that is frequent."""

    __slots__ = ()

    def _forward(self, operation: int, other: Any) -> Any:
        cls = type(self)
        what = _OPERATIONS[operation]
        try:
            if type(other) is cls:
                array = other
                if array._s != self._s:
                    return planned(what, self, other)
                right = array._n
            else:
                right = number(self._n.type, other) if self._n.size else None
                if right is None:
                    return planned(what, self, other)
            node = trace_two(what, self._n, right)
        except FAILURES as error:
            raise failed(error, self, other, what) from None
        return tensor(cls._mask_type if what.mask else cls, node, self._s)

    def _reverse(self, operation: int, other: Any) -> Any:
        what = _OPERATIONS[operation]
        try:
            left = number(self._n.type, other) if self._n.size else None
            if left is None:
                return planned_reverse(what, self, other)
            node = trace_two(what, left, self._n)
        except FAILURES as error:
            raise failed(error, self, other, what, True) from None
        return tensor(type(self), node, self._s)

    def _inplace(self, operation: int, other: Any) -> Any:
        result = self._forward(operation, other)
        if type(result) is type(self) and result._s != self._s:
            raise SizeError(f"{self._name}.__i{method_of(_OPERATIONS[operation])[2:]}(): the result has the shape "
                            f"{result._s}, but in-place operators do not change the shape of a tensor, which is "
                            f"{self._s}; use a new name for the result.")
        return _assigned(self, result)

    def _unary(self, operation: int) -> Any:
        try:
            node = _UNARY[operation](self._n)
        except FAILURES as error:
            raise translate(error, CallSite(_UNARY_METHODS[operation], type(self))) from None
        return tensor(type(self), node, self._s)


def tensor(cls: Any, node: core.Node, shape: tuple[int, ...]) -> Any:
    """A tensor of a type from its node and shape."""
    result = fresh(cls)
    result._n = node
    result._s = shape
    result._o = None
    return result
