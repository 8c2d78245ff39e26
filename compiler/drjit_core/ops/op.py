"""A row of the op table, and how rows are written down: floor 0.

An operation that is also a public function is written as a Python function, which says all that its users see: its name
and parameters, its meaning on Python numbers, and its documentation, whose example runs in CI. The decorators of
:class:`Rows` add what the compiler has to know::

    @rows.expanded(cost=39)
    def cbrt(arg: float, /) -> float:
        # the documentation
        return math.cbrt(arg)

From this the array layer makes ``drjit.cbrt``, the stub, and the page of the reference: a new function needs nothing
else but the operations that it expands to, in :mod:`drjit_core.math`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

__all__ = ["Op", "Rows"]

_Number = TypeVar("_Number", bound=Callable[..., Any])


class Op(NamedTuple):
    """A row: everything that is known about one operation."""

    name: str  # of the trace function, and of the public one; an underscore follows what is a keyword of Python
    arity: int
    accepts: str  # type classes of the operands (mask aside): b(ool), i(nt), u(nsigned), f(loat)
    fold: Callable[..., Any] | None  # meaning on one element, see drjit_core.ops.semantics
    doc: str
    result: str = "same"  # "same" as the last operand, "mask", or "pair" of two such
    typed: bool = False  # fold takes the TypeInfo as its last argument
    commutative: bool = False
    cost: int = 1  # of a packet, relative to an addition: weighs recomputation against memory
    kind: int = -1  # position in the table; -1 if the operation is traced as several others
    #: The public function on Python numbers; ``None`` if there is none. For floats it may raise ``ArithmeticError``,
    #: ``ValueError`` or ``NotImplementedError``: then the operation in double precision stands in.
    number: Callable[..., Any] | None = None

    @property
    def word(self) -> str:
        """What messages, logs, listings and graphs call the operation: ``and`` for the row ``and_``."""
        return self.name.rstrip("_")


class Rows(list[Op]):
    """Some rows of the table, and decorators that add to them."""

    def elementwise(self, accepts: str, fold: Callable[..., Any], *, result: str = "same", typed: bool = False,
                    commutative: bool = False, cost: int = 1) -> Callable[[_Number], _Number]:
        """An operation that backends have a text for."""
        def add(function: _Number) -> _Number:
            self.append(_row(function, accepts, fold, result, typed, commutative, cost))
            return function

        return add

    def expanded(self, cost: int, *, precise: int = 0) -> Callable[[_Number], _Number]:
        """An operation on floats whose text is made from its expansion in :mod:`drjit_core.math`.

        Where that is another one without ``JitFlag.FastMath``, there is a second row, of the cost ``precise``.
        """
        def add(function: _Number) -> _Number:
            row = _row(function, "f", cost=cost)
            self.append(row)
            if precise:
                self.append(row._replace(name=f"{row.name}_precise", cost=precise, number=None))
            return function

        return add

    def composed(self, accepts: str, *, result: str = "same") -> Callable[[_Number], _Number]:
        """An operation that is traced as some others at once, by a function of :mod:`drjit_core.math`."""
        def add(function: _Number) -> _Number:
            self.append(_row(function, accepts, result=result))
            return function

        return add


def _row(function: Callable[..., Any], accepts: str, fold: Callable[..., Any] | None = None, result: str = "same",
         typed: bool = False, commutative: bool = False, cost: int = 1) -> Op:
    code = function.__code__
    return Op(function.__name__, code.co_argcount, accepts, fold, function.__doc__ or "", result, typed, commutative,
              cost, number=function)
