"""What loops, branches and calls have in common: how their regions are traced, and what becomes of these.

State variables and arguments are values or *memory*, by their use, which is known when the user's functions have been
traced.  So they are traced again, until nothing new turns out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn
from weakref import ref

from ..context import current
from ..errors import SymbolicValue
from ..ir.build import append
from ..ir.deferred import BORROWED, Memory, Statement, hand_over, settle, version_of
from ..ir.dual import primal, tracked
from ..ir.extents import sized_as
from ..ir.frames import user_place
from ..ir.node import Node
from ..ir.region import CONTROL, OWN, Region, is_local, writes
from ..ir.symbolic import (
    Tracing,
    call_site,
    close,
    innermost,
    open_,
    replace_version,
    require_memory,
    scope_of_all,
)
from ..ops.table import PHI, RESULT
from ..types import BOOL

__all__ = ["Construct", "Differentiable", "Traced", "written_widths"]

_NONE: frozenset[int] = frozenset()
#: Of constructs that write nothing, and have no statements.
_NOTHING: dict[Any, Node] = {}
_EMPTY: list[Any] = []


class Differentiable(Exception):
    """A function's results track derivatives, which somebody else knows how to trace."""


class Traced:
    """A region of a construct, traced once."""

    __slots__ = ("formals", "latest", "lent", "masks", "region", "results")

    def __init__(self, region: Tracing, formals: list[Node], masks: list[Node]) -> None:
        self.region = region
        #: What stands for the variables; a constant one stands for itself.
        self.formals = formals
        self.masks = masks
        #: What the user's function has returned.
        self.results: list[Node] = _EMPTY
        #: The last version of each formal that was written to, by the formal's id.
        self.latest: dict[int, Node] = _NOTHING
        #: The formals that stand for memory of statements.
        self.lent: dict[Memory, Node] = _NOTHING


class Construct:
    """A loop, a branch or a call that is being traced, perhaps several times.

    Its *variables* are what the caller has given, followed by memory that statements write to, which the regions have
    borrowed (see :mod:`drjit_core.ir.deferred`).
    """

    #: What is wrong with a function that writes to what is no variable; that uses all elements of what it writes to;
    #: that reads what was there before it wrote to it; or that writes to one of two variables that are the same array.
    #: ``{}`` stands for the variable.
    OUTSIDE = AS_VALUE = READ_BEFORE = SAME_ARRAY = ""

    def set_up(self, function: str, noun: str, given: Sequence[Node], label: str | None,
               name_of: Callable[[int], str] | None, first_array: int, gives_way: bool) -> None:
        """What ``__init__`` of all constructs does."""
        #: The name of the user's function, if the stack does not tell it.
        self.function = function
        #: What it is: a ``loop``, ``branch`` or ``call``.
        self.noun = noun
        #: Whether it is given up by :class:`Differentiable` if results turn out to track derivatives.
        self.gives_way = gives_way
        self.given: Sequence[Node] = self.values(given)
        self.label = label
        self.name_of = name_of
        #: Positions from here on are arrays of the caller's that the functions write to.
        self.first_array = first_array
        self.place = user_place()
        #: Positions of variables that are accessed by index, and of those that stand for themselves.
        self.memory = _NONE
        self.constant = _NONE
        #: The number of elements, if it is not that of a variable only.
        self.wide: Any = 0
        # Of a trace:
        self.initial: Sequence[Node] = self.given
        self.borrowed: list[Memory] = _EMPTY
        self.statements: list[Statement] = _EMPTY
        self.traced: list[Traced] = _EMPTY
        #: What a function has raised.
        self.failure: Exception | None = None

    def values(self, nodes: Sequence[Node]) -> list[Node]:
        """The values of nodes; those whose derivatives are tracked are refused."""
        found = []
        for node in nodes:
            if tracked(node) is not None:
                if self.gives_way:
                    raise Differentiable
                raise SymbolicValue(
                    f"{call_site(self.function)}(): a variable tracks derivatives, and there are none yet of symbolic "
                    "loops, branches and calls: use drjit.detach() or drjit.suspend_grad(), or mode='evaluated'.")
            found.append(primal(node))
        return found

    # --- tracing -----------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Forget the trace before."""
        self.initial, self.borrowed, self.statements, self.traced = self.given, _EMPTY, _EMPTY, []
        self.failure = None
        if self.memory:
            self.memory = frozenset([i for i in self.memory if i < len(self.given)])

    def enter(self, size: int, width: int, masks: Sequence[int]) -> Traced:
        """A region that is to be traced, with a formal for each variable.

        ``size`` is that of the values, 0 if each has its own.  Masks are given by the positions of their formals, and
        have the size ``width``.
        """
        region = Tracing(self.label, self.place, self.name_of, self.first_array, self.noun)
        region.differentiates = self.gives_way
        region.initial = self.given
        formals = []
        for position, value in enumerate(self.given):
            if self.constant and position in self.constant:
                formals.append(value)
            else:
                is_memory = bool(self.memory) and position in self.memory
                formals.append(append(PHI, value.type, value.size if is_memory or not size else size, None, None, None,
                                      None, position, OWN if is_local(value) else is_memory, region.id))
        traced = Traced(region, formals, [append(PHI, BOOL, width, None, None, None, None, attr, False, region.id)
                                          for attr in masks])
        outer = innermost()
        if outer is not None and outer.done:
            region.done |= {formal.id for value, formal in zip(self.given, formals, strict=True)
                            if value.id in outer.done}
        if current().recording is not None:
            for value, formal in zip(self.given, formals, strict=True):
                if formal is not value:
                    sized_as(formal, (value, *self.given), self.wide)
            for mask in traced.masks:
                sized_as(mask, self.given, self.wide)
        self.traced.append(traced)
        return traced

    def trace_into(self, traced: Traced) -> None:
        """Call the user's functions of a region."""
        raise NotImplementedError

    def run(self, traced: Traced) -> bool:
        """Trace into a region; returns whether that went well, else :attr:`failure` says what did not."""
        region = traced.region
        open_(region)
        try:
            self.trace_into(traced)
            scope_of_all(traced.results)
            if region.outside and not region.by_index:
                raise self.refusal(self.OUTSIDE)
        except RecursionError:  # in another trace, functions would call themselves as often, and so each of those
            raise
        except Exception as error:
            self.failure = error
        finally:
            traced.latest, traced.lent = region.latest, region.borrowed
            if region.statements:
                self.statements = [*self.statements, *region.statements]
            close(region)
        return self.failure is None

    def fail(self) -> NoReturn:
        """Raise what a function has raised, whose frames lead back to this object."""
        failure, self.failure = self.failure, None
        assert failure is not None
        try:
            raise failure
        finally:
            del failure

    def finds_memory(self) -> bool:
        """Whether a trace has found variables that are accessed by index: they are memory in the next one."""
        before = self.memory
        for traced in self.traced:
            if traced.region.by_index:
                self.memory |= traced.region.by_index - self.constant
        return self.memory != before

    def add_borrowed(self) -> None:
        """Add memory of statements to the variables, as far as any region has written to it."""
        if not self.statements:
            return
        for traced in self.traced:
            self.borrowed = self.borrowed + [memory for memory, formal in traced.lent.items()
                                             if formal.id in traced.latest and memory not in self.borrowed]
        before = [version_of(memory, innermost()) for memory in self.borrowed]
        self.initial = [*self.given, *before]
        self.memory |= frozenset(range(len(self.given), len(self.initial)))
        for traced in self.traced:
            for memory, version in zip(self.borrowed, before, strict=True):
                traced.formals.append(traced.lent.get(memory) or append(
                    PHI, version.type, version.size, attr=BORROWED, payload=True, scope=traced.region.id))

    # --- what becomes of it ------------------------------------------------------------------------------------------

    def check_memory_of(self, regions: Sequence[Region], initial: Sequence[Node]) -> None:
        """Refuse what would need a copy of memory, where there are none: in the regions around this construct."""
        for formal in regions[0].formals:
            if formal.payload:
                break
        else:
            return
        for value, formal in zip(initial, regions[0].formals, strict=True):
            if formal.payload:
                if value.scope and [source for region in regions for source in region.sources if source is value]:
                    raise self.refusal(self.READ_BEFORE, formal)
                if value.scope and len([other for other in initial if other is value]) > 1:
                    raise self.refusal(self.SAME_ARRAY, formal)
                require_memory(self.function, value)

    def results_of(self, node: Node) -> list[Node]:
        """Make the nodes of all results."""
        control, results, position = node.payload, [], -1
        first = control.regions[0]
        for last in first.results[-1]:
            position += 1
            memory = control.is_memory(position)
            result = append(RESULT, last.type, last.size if memory else node.size, node, None, None, None, position,
                            OWN if memory and is_local(last) else memory)
            control.outputs.append(ref(result))
            if memory:
                replace_version(control.origin(position), result)
            results.append(result)
        return results

    def settle(self, versions: list[Node]) -> None:
        """Hand statements over to what is around the construct, with the last versions of what was borrowed."""
        for position, memory in enumerate(self.borrowed):
            settle(memory, versions[position])
        if self.statements:
            hand_over(self.statements)

    # --- errors ------------------------------------------------------------------------------------------------------

    def name(self, position: int) -> str:
        """A variable as the user knows it."""
        return str(position) if self.name_of is None else self.name_of(position)

    def refusal(self, text: str, formal: Node | None = None) -> SymbolicValue:
        """What is wrong with the user's functions; ``{}`` stands for the variable of a formal."""
        if formal is not None:
            text = text.format(self.name(formal.attr))
        return SymbolicValue(f"{call_site(self.function)}(): {text}")


def written_widths(region: Region) -> list[Node]:
    """What is written in a region, for each of its elements: so wide must be what it belongs to."""
    found: list[Node] = []
    if region.writes:
        for node in region.nodes:
            if node.kind in CONTROL:
                if node.payload.writes:
                    found.append(node)
            elif writes(node):
                assert node.d1 is not None and node.d2 is not None and node.d3 is not None
                found += (node.d1, node.d2, node.d3)
    return found
