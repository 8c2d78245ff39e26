"""Operations, and the plans of those that are done component by component: the hot path of everything that is no
operator on two arrays of one type.

An operand becomes nodes by a :class:`Loader`, which :mod:`drjit._promotion.plans` makes once for its class.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import drjit_core as core
from drjit_core import KIND, OPS, binary, cast, number, ops, ternary, unary

from .._base.handle import fresh_array, held
from .._base.methods import FlatSlots
from .._base.nodes import broadcast

__all__ = ["Componentwise", "Keys", "Loader", "Operation", "Plan", "of_one", "of_three", "of_two"]

Trace = Callable[..., core.Node]
#: The classes of operands: array types, and the types of Python numbers.
Keys = tuple[Any, ...]
#: An operation on operands of certain classes: a function of them that returns the result.
Plan = Callable[..., Any]


_SELECT = KIND["select"]


class Operation:
    """An elementwise operation, identified by its row of the op table, with the plans made so far.

    ``name`` is that of the row, or what an operation that is composed of several is called; ``trace`` makes the node of
    a result from those of the operands. ``mask`` says that results are masks. ``make_plan`` is what makes its plans,
    ``None`` for the usual rule.
    """

    __slots__ = ("_last", "kind", "make_plan", "mask", "name", "plans", "row", "trace")

    def __init__(self, name: str, trace: Trace | None = None, mask: bool | None = None,
                 make_plan: Callable[[Operation, Any, Keys], Plan] | None = None) -> None:
        self.name = name
        self.kind = KIND.get(name, -1)
        self.trace = getattr(ops, name) if trace is None else trace
        #: The row that the trace function appends, or -1 if it does something else.
        self.row = row_of(self.trace)
        self.mask = (self.kind >= 0 and OPS[self.kind].result == "mask") if mask is None else mask
        self.make_plan = make_plan
        self.plans: dict[Keys, Plan] = {}
        #: The classes of the operands of the last call with three of them, and its plan.
        self._last: tuple[Any, Any, Any, Plan | None] = (None, None, None, None)

    def __repr__(self) -> str:
        return f"Operation({self.name!r})"


#: The rows that are appended by trace functions of the compiler itself.
_ROWS = {id(getattr(ops, row.name)): row.kind for row in OPS if hasattr(ops, row.name)}


def row_of(trace: Trace) -> int:
    """The row that a trace function appends, or -1 if it does something else."""
    return _ROWS.get(id(trace), -1)


# --- from operands to nodes ------------------------------------------------------------------------------------------

#: What an operand is: a flat array, a Python number, a nested array, or anything else.
FLAT, NUMBER, NESTED, OTHER = range(4)
_FLAT, _NUMBER, _NESTED, _OTHER = FLAT, NUMBER, NESTED, OTHER  # as numbers of C


class Loader:
    """How operands of a class become nodes of the type that they are promoted to.

    ``scalar`` is that type's scalar type, ``count`` how often the nodes are repeated. ``function`` takes what needs
    more than a conversion: numbers that the type cannot hold as they are, and all operands that are something else.
    """

    __slots__ = ("casts", "count", "function", "how", "scalar")

    def __init__(self, how: int, scalar: int, casts: bool = False, count: int = 1,
                 function: Callable[[Any], Any] | None = None) -> None:
        self.how, self.scalar, self.casts, self.count = how, scalar, casts, count
        self.function: Any = function

    def __call__(self, operand: Any) -> list[core.Node]:
        return self.nodes(operand)

    def node(self, operand: Any) -> core.Node:
        """The node of an operand that is flat, or a number."""
        if self.how == _FLAT:
            node = held(operand)
            return cast(node, self.scalar) if self.casts else node
        if self.how == _NUMBER:
            node = number(self.scalar, operand)
            if node is not None:
                return node
        return self.function(operand)  # type: ignore[no-any-return]

    def nodes(self, operand: Any) -> list[core.Node]:
        """The nodes of an operand, as many as the type has components."""
        if self.how < _NESTED:
            return [self.node(operand)] * self.count
        if self.how == _OTHER:
            return self.function(operand)  # type: ignore[no-any-return]
        array = operand
        found: list[core.Node] = array._c
        if self.casts:
            found = [cast(node, self.scalar) for node in found]
        return found if self.count == 1 else found * self.count


# --- plans -----------------------------------------------------------------------------------------------------------


def trace2(row: int, trace: Trace, a: core.Node, b: core.Node) -> core.Node:
    """An operation of two operands."""
    return binary(row, a, b) if row >= 0 else trace(a, b)


def trace3(row: int, trace: Trace, a: core.Node, b: core.Node, c: core.Node) -> core.Node:
    """An operation of three operands."""
    return ternary(row, a, b, c) if row >= 0 else trace(a, b, c)


class Componentwise:
    """The plan that traces each component of the promoted operands."""

    __slots__ = ("direct", "first", "flat", "loaders", "result", "row", "second", "third", "trace")

    def __init__(self, trace: Trace, loaders: Sequence[Loader], result: Any) -> None:
        self.trace, self.row = trace, row_of(trace)
        self.loaders, self.result = list(loaders), result
        self.flat = not result._depth
        #: Whether operands are flat arrays of the promoted type, whose nodes are those of the operation.
        self.direct = self.flat and all(load.how == FLAT and not load.casts for load in loaders)
        self.first = loaders[0]
        self.second: Any = loaders[1] if len(loaders) > 1 else None
        self.third: Any = loaders[2] if len(loaders) > 2 else None

    def __call__(self, *operands: Any) -> Any:
        if len(operands) == 2:
            return self.two(operands[0], operands[1])
        if len(operands) == 3:
            return self.three(operands[0], operands[1], operands[2])
        loaded = [load(operand) for load, operand in zip(self.loaders, operands, strict=True)]
        nodes = list(map(self.trace, *loaded))
        return flat_array(self.result, nodes[0]) if self.flat else nested_array(self.result, nodes)

    def two(self, a: Any, b: Any) -> Any:
        """The result of an operation of two operands."""
        row, trace = self.row, self.trace
        if self.direct:
            return flat_array(self.result, trace2(row, trace, held(a), held(b)))
        if self.flat:
            return flat_array(self.result, trace2(row, trace, self.first.node(a), self.second.node(b)))
        left, right = self.first.nodes(a), self.second.nodes(b)
        nodes = []
        for k in range(len(left)):
            nodes.append(trace2(row, trace, left[k], right[k]))
        return nested_array(self.result, nodes)

    def three(self, a: Any, b: Any, c: Any) -> Any:
        """The result of an operation of three operands."""
        row, trace = self.row, self.trace
        if self.direct:
            return flat_array(self.result, trace3(row, trace, held(a), held(b), held(c)))
        if self.flat:
            return flat_array(self.result, trace3(row, trace, self.first.node(a), self.second.node(b),
                                                  self.third.node(c)))
        one, two, three = self.first.nodes(a), self.second.nodes(b), self.third.nodes(c)
        nodes = []
        for k in range(len(one)):
            nodes.append(trace3(row, trace, one[k], two[k], three[k]))
        return nested_array(self.result, nodes)


def flat_array(cls: Any, node: core.Node) -> Any:
    """A flat array of a type from its node."""
    result = fresh_array(cls)
    result._n = node
    result._o = None
    return result


def nested_array(cls: Any, nodes: list[core.Node]) -> Any:
    """A nested array of a type from its component nodes, which become its own."""
    result = fresh_array(cls)
    result._c = nodes
    result._o = None
    return result


# --- what functions do with operands that have been there before -----------------------------------------------------


def of_one(operation: Operation, a: Any) -> Any:
    """The result of a function of one operand that is a flat array, else ``None``."""
    if not isinstance(a, FlatSlots):
        return None
    array = a
    row = operation.row
    return flat_array(type(a), unary(row, array._n) if row >= 0 else operation.trace(array._n))


def of_two(operation: Operation, a: Any, b: Any) -> Any:
    """The result of an operation, if there is a plan for such operands, else ``None``."""
    plan = operation.plans.get((type(a), type(b)))
    if isinstance(plan, Componentwise):
        known = plan
        return known.two(a, b)
    return None if plan is None else plan(a, b)


def of_three(operation: Operation, a: Any, b: Any, c: Any) -> Any:
    """The result of an operation of three operands, if there is a plan for them, else ``None``."""
    first, second, third, plan = operation._last
    if type(a) is not first or type(b) is not second or type(c) is not third:
        keys = (type(a), type(b), type(c))
        plan = operation.plans.get(keys)
        if plan is None:
            return None
        operation._last = (*keys, plan)  # at once: other threads may be here
    if isinstance(plan, Componentwise):
        known = plan
        return known.three(a, b, c)
    return None if plan is None else plan(a, b, c)


class Chosen(Componentwise):
    """The plan of ``select`` with a Python ``bool``: one of the operands, as wide as both together.

    The loaders are those of the two that it chooses from.
    """

    __slots__ = ()

    def __init__(self, loaders: Sequence[Loader], result: Any) -> None:
        super().__init__(ops.select, loaders, result)

    def three(self, a: Any, b: Any, c: Any) -> Any:
        """The result for a condition and two values."""
        condition: bool = a
        if self.flat:
            return flat_array(self.result, chosen(condition, self.first.node(b), self.second.node(c)))
        left, right = self.first.nodes(b), self.second.nodes(c)
        nodes = []
        for k in range(len(left)):
            nodes.append(chosen(condition, left[k], right[k]))
        return nested_array(self.result, nodes)


def chosen(condition: bool, first: core.Node, second: core.Node) -> core.Node:
    """One of two nodes, as wide as both together."""
    node = first if condition else second
    return node if first.size == second.size else broadcast(node, core.broadcast_size("select", first, second))


class Masking(Componentwise):
    """The plan of ``x & mask``: the value where the mask is set, and zero elsewhere.

    The loaders are those of the mask and of the value.
    """

    __slots__ = ("zero",)

    def __init__(self, loaders: Sequence[Loader], result: Any, zero: core.Node) -> None:
        super().__init__(ops.select, loaders, result)
        self.zero = zero

    def __call__(self, *operands: Any) -> Any:
        return self.two(operands[0], operands[1])

    def two(self, a: Any, b: Any) -> Any:
        if self.flat:
            return flat_array(self.result, masked(self.first.node(b), self.second.node(a), self.zero))
        left, right = self.first.nodes(b), self.second.nodes(a)
        nodes = []
        for k in range(len(left)):
            nodes.append(masked(left[k], right[k], self.zero))
        return nested_array(self.result, nodes)


def masked(mask: core.Node, value: core.Node, zero: core.Node) -> core.Node:
    """A value where a mask is set, and zero elsewhere."""
    return ternary(_SELECT, mask, value, zero)
