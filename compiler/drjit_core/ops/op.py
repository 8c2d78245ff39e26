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

from .derivatives import Rule

__all__ = ["INDEX", "MANY", "MASK", "MEMORY", "Op", "OpRows", "PRECISE", "REGION", "VALUE"]

#: Roles of operands: values of the type that the row works on; an array that is read or written by address, and takes
#: no part in the width of what is computed; integers that say where; a mask; a region, of which this is a result.
VALUE, MEMORY, INDEX, MASK, REGION = range(5)
#: What ends the name of a row that is traced in the place of another one if ``JitFlag.FastMath`` is cleared.
PRECISE = "_precise"
#: The number of operands of rows that have any number of the last one.
MANY = 1 << 30
_Number = TypeVar("_Number", bound=Callable[..., Any])


class Op(NamedTuple):
    """A row: everything that is known about one operation."""

    name: str  # of the trace function, and of the public one; an underscore follows what is a keyword of Python
    arity: int  # MANY: the last operand may be repeated any number of times
    accepts: str  # type classes of the operands (mask aside): b(ool), i(nt), u(nsigned), f(loat)
    fold: Callable[..., Any] | None  # meaning on one element, see drjit_core.ops.semantics
    doc: str
    #: Type of the result: "same" as that of the operands that are values or memory, which all have one type; "mask";
    #: a "pair" of two such as the operands; of the same "bits" as the operand; or the node's "own".
    result: str = "same"
    typed: bool = False  # fold takes the TypeInfo as its last argument
    commutative: bool = False
    cost: int = 1  # of a packet, relative to an addition: weighs recomputation against memory
    kind: int = -1  # position in the table; -1 if the operation is traced as several others
    #: The public function on Python numbers; ``None`` if there is none. For floats it may raise ``ArithmeticError``,
    #: ``ValueError`` or ``NotImplementedError``: then the operation in double precision stands in.
    number: Callable[..., Any] | None = None
    #: What each operand is for (``VALUE`` …); memory comes first. Rows that have values only leave it to the table.
    roles: tuple[int, ...] = ()
    #: Number of elements: the common one of the "operands" (memory aside), that of the "memory", or the node's "own".
    size: str = "operands"
    #: What happens besides the result: "none"; a "write" to the memory operand, of which the result is the next
    #: version; or whatever the row's "region" does.
    effect: str = "none"
    #: Whether the result exists only when the kernel that computes it has ended: it cannot be used there.
    barrier: bool = False
    #: Whether the memory operands must exist before the kernel begins (but for a write that goes on with another one).
    needs_memory: bool = False
    #: Whether it may be computed although nobody asked, as when what was traced in a branch is moved out of it. What
    #: may not (accesses to memory, writes, loops) has a mask or a region to say for which elements it is wanted.
    speculable: bool = True
    #: Whether equal operations on equal operands are one node.
    numbered: bool = True
    #: How a change of each operand carries over to the result; ``None`` if it does not, or if the operation has a
    #: structure that takes more than a factor for each element (see :mod:`drjit_core.derivatives.structure`).
    derivative: Rule | None = None

    @property
    def word(self) -> str:
        """What messages, logs, listings and graphs call the operation: ``and`` for the row ``and_``."""
        return self.name.removesuffix(PRECISE).rstrip("_")


class OpRows(list[Op]):
    """Some rows of the table, and decorators that add to them."""

    def elementwise(self, accepts: str, fold: Callable[..., Any], *, typed: bool = False, commutative: bool = False,
                    cost: int = 1, roles: tuple[int, ...] = (),
                    precise: int = 0) -> Callable[[_Number], _Number]:
        """An operation that backends have a text for; ``precise`` is as in :meth:`expanded`."""
        def add(function: _Number) -> _Number:
            row = _row(function, accepts, fold, typed=typed, commutative=commutative, cost=cost, roles=roles)
            self.enter(row, precise)
            return function

        return add

    def expanded(self, cost: int, *, precise: int = 0) -> Callable[[_Number], _Number]:
        """An operation on floats whose text is made from its expansion in :mod:`drjit_core.math`.

        Where backends may compute another one, or approximate it, unless ``JitFlag.FastMath`` is cleared, there is a
        second row for what is traced then, of the cost ``precise``.
        """
        def add(function: _Number) -> _Number:
            self.enter(_row(function, "f", cost=cost), precise)
            return function

        return add

    def enter(self, row: Op, precise: int) -> None:
        """Append a row, and its second one, if there is one."""
        self.append(row)
        if precise:
            self.append(row._replace(name=f"{row.name}{PRECISE}", cost=precise, number=None))

    def composed(self, accepts: str, *, result: str = "same") -> Callable[[_Number], _Number]:
        """An operation that is traced as some others at once, by a function of :mod:`drjit_core.math`."""
        def add(function: _Number) -> _Number:
            self.append(_row(function, accepts, result=result))
            return function

        return add


def _row(function: Callable[..., Any], accepts: str, fold: Callable[..., Any] | None = None, **columns: Any) -> Op:
    return Op(function.__name__, function.__code__.co_argcount, accepts, fold, function.__doc__ or "", number=function,
              **columns)
