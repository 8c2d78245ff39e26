"""Numbers of a recording: sizes and scalars that follow from its arguments, whose values are known but not relied upon.

While a program is recorded (:mod:`drjit_core.runtime.recording`), the sizes of its arguments are an :class:`Extent`: a
number that remembers how it was computed, so that it can be computed again for other arguments.  What is decided by it
is a *guard*: a comparison, or the use as an ordinary number, holds for the arguments at hand, and the recording is good
for all arguments for which its guards have the same outcome.
"""

from __future__ import annotations

import itertools
import math
import operator
import sys
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, NamedTuple, NoReturn, Self, SupportsIndex

from ..flags import state
from .node import Node

__all__ = ["CONSTANT", "CONTENT", "OPERATION", "SIZE", "VALUE", "Content", "Expression", "Extent", "Guard",
           "Operation", "Size", "Terms", "Value", "common_size", "number_of", "size_of", "sized", "sized_as", "words"]


class _OfNumber:
    """An expression that a number tells all about: there is one object for each."""

    __slots__ = ("argument",)
    argument: int
    _known: ClassVar[dict[int, Any]]

    def __init_subclass__(cls) -> None:
        cls._known = {}

    def __new__(cls, argument: int) -> Self:
        found: Self | None = cls._known.get(argument)
        if found is None:
            found = super().__new__(cls)
            found.argument = argument
            found = cls._known.setdefault(argument, found)
        return found

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.argument})"


class Size(_OfNumber):
    """The number of elements of an argument."""

    __slots__ = ()


class Value(_OfNumber):
    """The value of an argument that is a literal."""

    __slots__ = ()


class Content(_OfNumber):
    """A number that launches find, which the host reads in between: the first, the second …"""

    __slots__ = ()


class Operation:
    """What a function makes of other expressions, which may have common parts.

    Its hash is computed once: by way of each path through a hundred of ``n = n + n`` that would take for ever.
    """

    __slots__ = ("_hash", "function", "operands")

    def __init__(self, function: Callable[..., Any], operands: tuple[Expression, ...]) -> None:
        self.function = function
        self.operands = operands
        self._hash = hash((function, operands))

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return other.__class__ is Operation and self._hash == other._hash and self.function is other.function \
            and self.operands == other.operands

    def __hash__(self) -> int:
        return self._hash


Expression = Size | Value | Content | Operation | int | float | bool


class Guard(NamedTuple):
    """An expression lies within an interval of integers: what a program was made for."""

    expression: Expression
    low: float
    high: float
    reason: str  # what was decided by it


#: What a term is: the size or the value of an argument, a constant, an operation on earlier terms, or what is read.
SIZE, VALUE, CONSTANT, OPERATION, CONTENT = 0, 1, 2, 3, 4


class Terms:
    """Expressions that are evaluated together, common parts once: each is a row, by its number.

    A row has what it is (see above); its argument, constant, or function; and the numbers of its operands.
    """

    __slots__ = ("_kept", "_known", "rows")

    def __init__(self) -> None:
        self._kept: list[Operation] = []  # whose ids are known
        self.rows: list[tuple[int, Any, tuple[int, ...]]] = []
        self._known: dict[Any, int] = {}

    def number(self, expression: Expression) -> int:
        """The number of an expression.  (Constants of different types are different: Python takes 1 and 1.0 for equal.)
        """
        known = self._found(expression)
        if known is not None:
            return known
        stack = [expression]
        while stack:
            part = stack[-1]
            if isinstance(part, Operation):
                missing = [each for each in part.operands if self._found(each) is None]
                if missing:
                    stack += missing
                    continue
            self._enter(part)
            stack.pop()
        found = self._found(expression)
        assert found is not None
        return found

    def _found(self, expression: Expression) -> int | None:
        if isinstance(expression, Operation):  # by what it is, not by what it is equal to
            return self._known.get(id(expression))
        return self._known.get((expression.__class__, expression))

    def _enter(self, expression: Expression) -> None:
        if isinstance(expression, Operation):
            operands = tuple([self._found(each) for each in expression.operands])
            key: Any = expression.function, operands
            row: Any = OPERATION, expression.function, operands
        else:
            key = expression.__class__, expression
            row = (SIZE, expression.argument, ()) if isinstance(expression, Size) else \
                (VALUE, expression.argument, ()) if isinstance(expression, Value) else \
                (CONTENT, expression.argument, ()) if isinstance(expression, Content) else (CONSTANT, expression, ())
        number = self._known.get(key)
        if number is None:
            number = self._known[key] = len(self.rows)
            self.rows.append(row)
        if isinstance(expression, Operation):
            self._known[id(expression)] = number
            self._kept.append(expression)


_WORDS = {operator.add: "+", operator.sub: "-", operator.mul: "*", operator.truediv: "/", operator.floordiv: "//",
          operator.mod: "%"}


def words(expression: Expression, depth: int = 6) -> str:
    """An expression for people, who do not read more than so many levels of parentheses."""
    if isinstance(expression, Size):
        return f"size of argument {expression.argument}"
    if isinstance(expression, Value):
        return f"argument {expression.argument}"
    if isinstance(expression, Content):
        return f"number {expression.argument} that was read"
    if not isinstance(expression, Operation):
        return str(expression)
    if not depth:
        return "…"
    operands = [words(operand, depth - 1) for operand in expression.operands]
    if len(operands) == 2 and expression.function in _WORDS:
        return f"({operands[0]} {_WORDS[expression.function]} {operands[1]})"
    return f"{expression.function.__name__}({', '.join(operands)})"


def number_of(value: Any) -> tuple[Any, Expression]:
    """The number and the expression of an extent, or of a plain number, which is an expression of its own."""
    return (value.value, value.expression) if isinstance(value, Extent) else (value, value)


def _arithmetic(function: Callable[[Any, Any], Any], swapped: bool = False) -> Callable[[Extent, Any], Any]:
    def method(self: Extent, other: Any) -> Any:
        if not isinstance(other, (Extent, int, float)):
            if not hasattr(other, "__array_interface__"):
                return NotImplemented
            return function(other, self.pinned()) if swapped else function(self.pinned(), other)
        left, right = (number_of(other), number_of(self)) if swapped else (number_of(self), number_of(other))
        return Extent(function(left[0], right[0]), Operation(function, (left[1], right[1])), self.guards)

    return method


def _comparison(function: Callable[[Any, Any], bool], sign: str) -> Callable[[Extent, Any], Any]:
    def method(self: Extent, other: Any) -> Any:
        if not isinstance(other, (Extent, int, float)):
            return function(self.pinned(), other) if hasattr(other, "__array_interface__") else NotImplemented
        value, expression = number_of(other)
        outcome = function(self.value, value)
        self.decide(Operation(function, (self.expression, expression)), outcome,
                    f"{words(self.expression)} {sign} {words(expression)}")
        return outcome

    return method


class Extent:
    """A number that is known, with the expression that it is the value of.

    It is no ``int``, so that nothing takes it for one unnoticed: ``int``, ``range`` and whatever else wants an ordinary
    number ask for its ``__index__`` or ``__float__``, which make its value part of the program.
    """

    __slots__ = ("expression", "guards", "serial", "value")
    #: NumPy, whose arrays are no part of a program, leaves arithmetic to it: they meet the ordinary number.
    __array_ufunc__ = None

    def __init__(self, value: Any, expression: Expression, guards: list[Guard]) -> None:
        self.value = value
        self.expression = expression
        #: Those of the recording, to which decisions add.
        self.guards = guards
        #: Tells extents apart in the keys of value numbering.
        self.serial = _new_serial()

    def belongs(self) -> bool:
        """Whether the program that is being recorded is the one that it was computed in: else it is a number."""
        return state.recording is not None and state.recording.guards is self.guards

    def decide(self, expression: Expression, outcome: Any, reason: str) -> None:
        """Note that something was decided by an expression."""
        self.guards.append(Guard(expression, outcome, outcome, reason))

    __add__, __radd__ = _arithmetic(operator.add), _arithmetic(operator.add, True)
    __sub__, __rsub__ = _arithmetic(operator.sub), _arithmetic(operator.sub, True)
    __mul__, __rmul__ = _arithmetic(operator.mul), _arithmetic(operator.mul, True)
    __truediv__, __rtruediv__ = _arithmetic(operator.truediv), _arithmetic(operator.truediv, True)
    __floordiv__, __rfloordiv__ = _arithmetic(operator.floordiv), _arithmetic(operator.floordiv, True)
    __mod__, __rmod__ = _arithmetic(operator.mod), _arithmetic(operator.mod, True)
    __pow__, __rpow__ = _arithmetic(operator.pow), _arithmetic(operator.pow, True)
    __and__, __rand__ = _arithmetic(operator.and_), _arithmetic(operator.and_, True)
    __or__, __ror__ = _arithmetic(operator.or_), _arithmetic(operator.or_, True)
    __xor__, __rxor__ = _arithmetic(operator.xor), _arithmetic(operator.xor, True)
    __lshift__, __rlshift__ = _arithmetic(operator.lshift), _arithmetic(operator.lshift, True)
    __rshift__, __rrshift__ = _arithmetic(operator.rshift), _arithmetic(operator.rshift, True)
    __lt__, __le__ = _comparison(operator.lt, "<"), _comparison(operator.le, "<=")
    __gt__, __ge__ = _comparison(operator.gt, ">"), _comparison(operator.ge, ">=")
    __eq__ = _comparison(operator.eq, "==")
    __ne__ = _comparison(operator.ne, "!=")

    def __neg__(self) -> Extent:
        return Extent(-self.value, Operation(operator.neg, (self.expression,)), self.guards)

    def __pos__(self) -> Extent:
        return self

    def __abs__(self) -> Extent:
        return Extent(abs(self.value), Operation(operator.abs, (self.expression,)), self.guards)

    def pinned(self) -> Any:
        """The ordinary number, which is part of the program then."""
        self.decide(self.expression, self.value, f"{words(self.expression)} is used as the number {self.value}")
        return self.value

    def __index__(self) -> int:
        return operator.index(self.pinned())

    def __int__(self) -> int:
        return int(self.pinned())

    def __float__(self) -> float:
        return float(self.pinned())

    def __bool__(self) -> bool:
        return bool(self != 0)

    def __hash__(self) -> int:
        return hash(self.pinned())

    def __format__(self, format_spec: str) -> str:
        return format(self.pinned(), format_spec)

    def __str__(self) -> str:
        return str(self.pinned())

    def __repr__(self) -> str:
        return repr(self.pinned())

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        del copy
        return sys.modules["numpy"].array(self.pinned(), dtype)

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise TypeError("cannot pickle or copy a number of a recording: it belongs to that; take int() of it")


_new_serial = itertools.count(1).__next__


def size_of(node: Node) -> Any:
    """Number of elements of a node: an :class:`Extent` while a program is recorded that it depends on."""
    recorder = state.recording
    return node.size if recorder is None else recorder.extent(node)


def common_size(size: int, nodes: Iterable[Node | None]) -> Any:
    """A size that some of the nodes have: an :class:`Extent` while a program is recorded, if it follows from that."""
    recorder = state.recording
    return size if recorder is None else recorder.common_extent(size, [node for node in nodes if node is not None])


def has_places(node: Node, low: int, high: int) -> bool:
    """Whether an array has elements from a place to another one; while a program is recorded, replays are for arrays of
    which it is as true."""
    if low < 0:
        return False
    size = size_of(node)
    if size.__class__ is not Extent:
        return high < size  # type: ignore[no-any-return]
    found: bool = high < size.value
    least, most = (high + 1, math.inf) if found else (0, high)
    size.guards.append(Guard(size.expression, least, most, f"place {high} of an array: {words(size.expression)}"))
    return found


def sized_as(node: Node, others: Iterable[Node], wide: Any = 0) -> Node:
    """A formal of a region, whose size, while a program is recorded, is that of what it stands for.

    It may stand for fewer elements than the region has: ``wide`` is the size of that.
    """
    recorder = state.recording
    if recorder is not None and node.size > 1:
        for other in others:
            if other.size == node.size:
                recorder.sizes[node.id] = recorder.expression(other)
                return node
        if wide.__class__ is Extent and wide.value == node.size:
            recorder.sizes[node.id] = wide.expression
    return node


def sized(size: Extent, node: Node) -> Node:
    """A leaf that has been made with a size, which is remembered."""
    if size.belongs():
        if size.value > 1:
            size.guards.append(Guard(size.expression, 2, math.inf, f"{words(size.expression)} > 1"))
        else:
            size.decide(size.expression, size.value, f"{words(size.expression)} == {size.value}")
        state.recording.sizes[node.id] = size.expression
        state.recording.presume(size.value, size.expression)
    return node
