"""The classes that flat arrays, nested arrays and tensors derive from: what their operators do, and how components are
reached, the hot path of every program.

``a + b`` on two arrays of one type, or on an array and a Python number that its type can hold, goes straight to the
trace function; for all other operands there is a plan (:mod:`drjit._promotion.plans`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn, TypeVar

import drjit_core as core
from drjit_core import KIND, binary, cast, number, ops, read_element, size_for_program, unary

from .._access.lanes import WATCHES
from .._access.store import store
from .._base.errors import FAILURES, CallSite, SizeError, no_deletion, translate
from .._base.handle import add_view, flat_component, fresh_array, held, view_at
from .._base.methods import FlatSlots, NestedSlots, Operators, TensorSlots
from .._base.nodes import number_of
from .._promotion import operations
from .._promotion.componentwise import Componentwise, Loader, Operation, flat_array, nested_array, trace2, trace3
from .._promotion.operations import method_of
from .._rules.matrix import dot, multiply
from .unplanned import failed, mixed

__all__ = ["Component", "FlatHandle", "MatrixProduct", "NestedHandle", "TensorHandle", "TensorPlan", "component_of",
           "inner_product", "matrix_product", "nodes_of", "reshaped", "shape_of", "square", "tensor"]

_Array = TypeVar("_Array")
#: Operations by their numbers (see :mod:`drjit._base.methods`).
_OPERATIONS = [operations.ADD, operations.SUB, operations.MUL, operations.DIV, operations.FLOORDIV, operations.MOD,
               operations.SHL, operations.SHR, operations.OR, operations.XOR, operations.AND,
               operations.EQ, operations.NEQ, operations.LT, operations.LE, operations.GT, operations.GE]
_MUL = KIND["mul"]
_UNARY = [ops.neg, ops.inv, core.abs]
_UNARY_ROWS = [KIND["neg"], KIND["inv"], -1]  # of what is composed of several there is none
_DUAL = KIND["dual"]
_UNARY_METHODS = ["__neg__", "__invert__", "__abs__"]


def trace_two(operation: Operation, a: core.Node, b: core.Node) -> core.Node:
    """The node of an operation of two nodes of one type."""
    return binary(operation.row, a, b) if operation.row >= 0 else operation.trace(a, b)


def trace_one(operation: int, node: core.Node) -> core.Node:
    """The node of an operation of one node."""
    row = _UNARY_ROWS[operation]
    return unary(row, node) if row >= 0 else _UNARY[operation](node)


def planned(operation: Operation, self: Any, other: Any) -> Any:
    """An operator with an array of any kind on the left, by the plan for such operands."""
    plan = operation.plans.get((type(self), type(other)))
    if isinstance(plan, Componentwise):
        known = plan
        return known.two(self, other)
    return mixed(self, other, operation) if plan is None else plan(self, other)


def planned_reverse(operation: Operation, self: Any, other: Any) -> Any:
    """An operator with an array on the right, and on the left something that did not do it."""
    try:
        plan = operation.plans.get((type(other), type(self)))
        if isinstance(plan, Componentwise):
            known = plan
            return known.two(other, self)
        return mixed(self, other, operation, True) if plan is None else plan(other, self)
    except FAILURES as error:
        raise failed(error, self, other, operation, True) from None


class FlatHandle(FlatSlots):
    """A flat array, with its operators."""

    __slots__ = ()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if len(args) == 1 and not kwargs:
            value = args[0]
            cls: Any = type(self)
            if type(value) is cls:
                node = held(value)
            elif isinstance(value, FlatSlots):
                node = cast(held(value), cls._type)
                if node.where and node.where != cls._where:
                    node = core.moved([node], cls._where, f"{cls._name}.__init__")[0]
                if node.kind == _DUAL and not cls._record.diff:
                    node = node.d0
            else:
                node = number(cls._type, value)
            if node is not None:
                self._n = node if node.kind != _DUAL else core.followed([node])[0]
                self._o = None
                return
        self._construct(args, kwargs)  # type: ignore[attr-defined]
        if self._n.kind == _DUAL:
            self._n = core.followed([self._n])[0]

    def __len__(self) -> int:
        return size_for_program(self._n)

    def __getitem__(self, key: Any) -> Any:
        if type(key) is int and 0 <= key < self._n.size and not self._n.scope and not WATCHES:
            return read_element(self._n, key)
        return self._get(key)  # type: ignore[attr-defined]

    def _forward(self, operation: int, other: Any) -> Any:
        cls: Any = type(self)
        what = _OPERATIONS[operation]
        try:
            right: core.Node | None
            if type(other) is cls:
                array = other
                right = array._n
            else:
                right = number(self._n.type, other)
                if right is None:
                    return planned(what, self, other)
            node = binary(what.row, self._n, right) if what.row >= 0 else what.trace(self._n, right)
        except FAILURES as error:
            raise failed(error, self, other, what) from None
        result = fresh_array(cls._mask_type if what.mask else cls)
        result._n = node
        result._o = None
        return result

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
            node = trace_one(operation, self._n)
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


def nodes_of(cls: Any, values: tuple[Any, ...]) -> list[core.Node] | None:
    """The nodes of flat arrays of a class, and of numbers that it can hold; ``None`` if there is something else."""
    if not issubclass(cls, FlatSlots):
        return None
    scalar = cls._type
    nodes = []
    for value in values:
        if type(value) is cls:
            node = held(value)
        else:
            node = number(scalar, value)
            if node is None:
                return None
        nodes.append(node)
    return nodes


class NestedHandle(NestedSlots):
    """A nested array, with its operators."""

    __slots__ = ()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        cls: Any = type(self)
        self._o = None
        if len(args) > 1 and not kwargs and len(args) == cls._size and not cls._special:
            nodes = nodes_of(cls._value, args)
            if nodes is not None:
                self._c = core.followed(nodes)
                return
        if kwargs:
            args = self._with_options(args, kwargs)  # type: ignore[attr-defined]
        self._c = core.followed(self._construct(args))  # type: ignore[attr-defined]

    def __len__(self) -> int:
        return outer_size(self)

    def __iter__(self) -> Iterator[Any]:
        return iter([component_of(self, k) for k in range(outer_size(self))])

    def __getitem__(self, key: Any) -> Any:
        if type(key) is int and 0 <= key < outer_size(self):
            return component_of(self, key)
        if type(key) is tuple and len(key) == 2:
            row, column = key
            if type(row) is int and type(column) is int and 0 <= row < outer_size(self):
                entry = component_of(self, row)
                if isinstance(entry, NestedSlots) and 0 <= column < outer_size(entry):
                    return component_of(entry, column)
        return self._get(key)  # type: ignore[attr-defined]

    def __setitem__(self, key: Any, value: Any) -> None:
        if type(key) is int and 0 <= key < outer_size(self) and replace_component(self, key, value):
            return
        self._set(key, value)  # type: ignore[attr-defined]

    def __delitem__(self, key: Any) -> NoReturn:
        raise no_deletion(self)

    def _forward(self, operation: int, other: Any) -> Any:
        cls: Any = type(self)
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
                    node = held(other)
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
        cls: Any = type(self)
        right = self._c
        nodes = []
        try:
            if type(other) is cls._leaf:
                node = held(other)
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
        nodes = []
        try:
            for node in self._c:
                nodes.append(trace_one(operation, node))
        except FAILURES as error:
            raise translate(error, CallSite(_UNARY_METHODS[operation], type(self))) from None
        return nested_array(type(self), nodes)


def outer_size(array: Any) -> int:
    """The number of components along the outermost dimension."""
    cls: Any = type(array)
    size = cls._size
    return size if size >= 0 else len(array._c)


def replace_component(array: Any, position: int, value: Any) -> bool:
    """Assign a flat array to a component of its type, at a position that exists; false if it is something else."""
    cls: Any = type(array)
    if type(value) is not cls._value or not isinstance(value, FlatSlots):
        return False
    store(array, [held(value)], position)
    return True


def component_of(array: Any, position: int) -> Any:
    """The component of a nested array at a position that exists, referring back to it."""
    found = view_at(array, position)
    if found is not None:
        return found
    found = flat_component(array, position)
    if found is not None:
        return found
    value = type(array)._value
    if value is float or value is int or value is bool:
        return number_of(array._c[position])
    result = fresh_array(value)
    if value._depth:
        count = value._count
        result._c = array._c[position * count:(position + 1) * count]
        add_view(array, position, result, position * count)
    else:
        result._n = array._c[position]
        add_view(array, position, result, position)
    return result


class Component:
    # A component by its name, such as ``v.x``: a live reference, and assignment. ``missing`` makes the exception for
    # arrays that have none at the position, and ``assign`` stores a value. (Each one has a documentation of its own.)

    __slots__ = ("__doc__", "assign", "missing", "position")

    def __init__(self, position: int, missing: Callable[[Any], Exception], assign: Callable[[Any, Any], None],
                 documentation: str) -> None:
        self.position, self.missing, self.assign, self.__doc__ = position, missing, assign, documentation

    def __get__(self, array: Any, owner: Any) -> Any:
        if array is None:
            return self
        found = view_at(array, self.position)
        if found is not None:
            return found
        found = flat_component(array, self.position)
        if found is not None:
            return found
        if type(array)._size <= self.position:
            raise self.missing(array)
        return component_of(array, self.position)

    def __set__(self, array: Any, value: Any) -> None:
        if array._size <= self.position:
            raise self.missing(array)
        if not replace_component(array, self.position, value):
            self.assign(array, value)

    def __delete__(self, array: Any) -> None:
        raise AttributeError(f"{type(array)._name}: components cannot be deleted.")


# --- tensors ---------------------------------------------------------------------------------------------------------


class TensorHandle(TensorSlots):
    """A tensor, with its operators: without a plan where that is frequent."""

    __slots__ = ()

    def _forward(self, operation: int, other: Any) -> Any:
        cls: Any = type(self)
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
            raise reshaped(self, result, method_of(_OPERATIONS[operation]))
        return _assigned(self, result)

    def _unary(self, operation: int) -> Any:
        try:
            node = trace_one(operation, self._n)
        except FAILURES as error:
            raise translate(error, CallSite(_UNARY_METHODS[operation], type(self))) from None
        return tensor(type(self), node, self._s)


def reshaped(array: Any, result: Any, method: str) -> SizeError:
    """The error of an in-place operator that would change the shape of a tensor."""
    return SizeError(f"{array._name}.__i{method[2:]}(): the result has the shape {result._s}, but in-place operators "
                     f"do not change the shape of a tensor, which is {array._s}; use a new name for the result.")


def tensor(cls: type[_Array], node: core.Node, shape: tuple[int, ...]) -> _Array:
    """A tensor of a type from its node and shape."""
    result = fresh_array(cls)
    result._n = node
    result._s = shape
    result._o = None
    return result  # type: ignore[no-any-return]


class TensorPlan(Componentwise):
    """The plan of an operation with a tensor among the operands; ``align`` and ``align_two`` bring nodes of several
    shapes to a common one."""

    __slots__ = ("align", "align_two")

    def __init__(self, trace: Callable[..., core.Node], loaders: Sequence[Loader], result: Any,
                 align: Callable[..., Any], align_two: Callable[..., Any]) -> None:
        super().__init__(trace, loaders, result)
        self.align, self.align_two = align, align_two

    def __call__(self, *operands: Any) -> Any:
        if len(operands) == 2:
            return self.two(operands[0], operands[1])
        nodes = [load.node(operand) for load, operand in zip(self.loaders, operands, strict=True)]
        nodes, shape = self.align(nodes, tuple([shape_of(operand) for operand in operands]))
        return tensor(self.result, self.trace(*nodes), shape)

    def two(self, a: Any, b: Any) -> Any:
        left, right = self.first.node(a), self.second.node(b)
        shape, other = shape_of(a), shape_of(b)
        if not shape:  # numbers go with everything
            shape = other
        elif shape != other and other:
            left, right, shape = self.align_two(left, right, (shape, other))
        return tensor(self.result, trace2(self.row, self.trace, left, right), shape)

    def three(self, a: Any, b: Any, c: Any) -> Any:
        one, two, three = shape_of(a), shape_of(b), shape_of(c)
        shape = one or two or three
        if one and one != shape or two and two != shape or three and three != shape:
            return self(a, b, c)
        return tensor(self.result, trace3(self.row, self.trace, self.first.node(a), self.second.node(b),
                                          self.third.node(c)), shape)


def shape_of(operand: Any) -> tuple[int, ...]:
    """The shape that an operand has beside tensors: a tensor, a flat array or a number."""
    if isinstance(operand, TensorSlots):
        array = operand
        return array._s
    if isinstance(operand, FlatSlots):
        flat = operand
        return (flat._n.size if not flat._n.scope else core.size_for_program(flat._n),)
    return ()


# --- products --------------------------------------------------------------------------------------------------------


def inner_product(a: Any, b: Any) -> Any:
    """The inner product of two nested arrays of one type with a single static dimension, else ``None``."""
    cls = type(a)
    if cls is not type(b) or not isinstance(a, NestedSlots) or cls._depth != 1 or cls._special or not cls._dynamic:
        return None
    left, right = a, b
    if len(left._c) != len(right._c) or not left._c:
        return None
    return flat_array(cls._value, dot(left._c, right._c))


class MatrixProduct:
    """The plan of a product of two static arrays, of which one is a matrix with ``size`` rows or columns, the other a
    matrix or a vector; entries have one component each. ``result`` is its type, and ``scalar`` that of its entries."""

    __slots__ = ("result", "scalar", "size")

    def __init__(self, size: int, scalar: int, result: Any) -> None:
        self.size, self.scalar, self.result = size, scalar, result

    def __call__(self, left: Any, right: Any) -> Any:
        return matrix_product(self, left, right)


def matrix_product(plan: MatrixProduct, left: Any, right: Any) -> Any:
    """The product by a plan."""
    a, b = left, right
    nodes = multiply(_cast(a._c, plan.scalar), _cast(b._c, plan.scalar), plan.size)
    return nested_array(plan.result, nodes)


def _cast(nodes: list[core.Node], scalar: int) -> list[core.Node]:
    """Nodes of a scalar type."""
    first = nodes[0]
    return nodes if first.type == scalar else [cast(node, scalar) for node in nodes]


# --- powers --------------------------------------------------------------------------------------


def square(array: Any) -> Any:
    """``array ** 2`` of numbers that are no complex ones and no matrices, else ``None``."""
    cls: Any = type(array)
    if not isinstance(array, Operators) or cls._special and cls._depth >= 0 or cls._kind == "b":
        return None
    known: Any = array
    if cls._depth > 0:
        nodes = []
        for node in known._c:
            nodes.append(binary(_MUL, node, node))
        return nested_array(cls, nodes)
    node = binary(_MUL, held(array), held(array))
    return tensor(cls, node, known._s) if cls._depth < 0 else flat_array(cls, node)
