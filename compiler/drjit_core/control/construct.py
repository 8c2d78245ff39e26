"""What loops, branches and calls have in common: how their regions are traced, and what becomes of these.

The user's functions are called once.  What turns out then (how wide variables are, which ones are left alone, which
arrays from outside are written to) takes another trace, which is made of the nodes that the functions have left (see
:mod:`.source`).  Functions are called again where these do not tell: if the program has asked for a number of elements
that turned out to be another one, for example.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn
from weakref import ref

from ..context import current
from ..errors import SymbolicValue
from ..ir.build import apart, append, new_formal
from ..ir.deferred import BORROWED, Memory, Statement, hand_over, settle, version_of
from ..ir.dual import dual, is_within, outlive, primal, refuse, tracked
from ..ir.extents import sized_as
from ..ir.frames import is_internal, user_place
from ..ir.node import Node
from ..ir.region import CONTROL, OWN, Region, is_local, is_version, operands, writes
from ..ir.symbolic import (
    Tracing,
    become_memory,
    call_site,
    close,
    innermost,
    new_region,
    open_,
    replace_version,
    require_memory,
    scope_of_all,
)
from ..ir.vertex import LEAF, Vertex, any_vertex
from ..messages import LEVELS, logger
from ..ops.table import LITERAL, LOOP, PHI, RESULT
from ..types import BOOL, IS_FLOAT, LogLevel
from .source import Ambiguous, Source

__all__ = ["Construct", "Functions", "Restart", "Traced", "adopt", "depend_on", "late_formal", "late_variable",
           "outlived", "raised_here", "results_of", "unusable", "written_widths"]

_NONE: frozenset[int] = frozenset()
#: Of constructs that write nothing, and have no statements.
_NOTHING: dict[Any, Node] = {}
_EMPTY: list[Any] = []
_UNKNOWN: dict[int, bool] = {}
#: So many times functions are called again at most, for a construct that keeps finding more that they change.
_MOST_CALLS = 64


class Restart(Exception):
    """A construct that is differentiated must be traced from the start, with more variables."""


class Functions:
    """The user's functions, as a construct calls them: those of a loop, or those of a branch or call by their numbers.
    """

    __slots__ = ()

    def test(self, variables: list[Node]) -> Node:
        """A loop's condition."""
        raise NotImplementedError

    def following(self, variables: list[Node]) -> list[Node]:
        """The variables of a loop after an iteration."""
        raise NotImplementedError

    def target(self, number: int, formals: list[Node]) -> list[Node]:
        """What a function of a branch or call returns."""
        raise NotImplementedError

    def joined(self, number: int) -> list[Node]:
        """What it returns besides: known when all of them have been called."""
        return _EMPTY

    def name_of(self, position: int) -> str | None:
        """What messages call a variable."""
        return None


class Traced:
    """A region of a construct, traced once."""

    __slots__ = ("adopted", "formals", "latest", "lent", "masks", "region", "results", "source", "statements", "test")

    def __init__(self, region: Tracing, formals: list[Node], masks: list[Node]) -> None:
        self.region = region
        #: What it is traced of; ``None``: of calls of the user's functions.
        self.source: Source | None = None
        #: What stands for the variables; a constant one stands for itself.
        self.formals = formals
        self.masks = masks
        #: What the user's function has returned; of a loop also whether it goes on.
        self.results: list[Node] = _EMPTY
        self.test: Node | None = None
        #: The last version of each formal that was written to, by the formal's id.
        self.latest: dict[int, Node] = _NOTHING
        #: What has turned out to be a variable (see :func:`adopt`).
        self.adopted: list[tuple[int, Node, Node, Node]] = _EMPTY
        #: The formals that stand for memory of statements, and these.
        self.lent: dict[Memory, Node] = _NOTHING
        self.statements: list[Statement] = _EMPTY


class Construct:
    """A loop, a branch or a call that is being traced, perhaps several times.

    Its *variables* are what the caller has given, followed by memory that statements write to, which the regions have
    borrowed (see :mod:`drjit_core.ir.deferred`).
    """

    #: What is wrong with a function that writes to what is no variable; that uses all elements of what it writes to;
    #: that reads what was there before it wrote to it; or that writes to one of two variables that are the same array.
    #: ``{}`` stands for the variable.
    OUTSIDE = AS_VALUE = READ_BEFORE = SAME_ARRAY = ""

    def set_up(self, function: str, noun: str, functions: Functions, given: Sequence[Node], label: str | None,
               first_array: int, differentiates: bool) -> None:
        """What ``__init__`` of all constructs does."""
        #: The name of the user's function, if the stack does not tell it.
        self.function = function
        #: What it is: a ``loop``, ``branch`` or ``call``.
        self.noun = noun
        self.functions = functions
        #: Whether operations on duals are recorded, which no result is differentiated by: there are no variables but
        #: those that the functions make.
        self.differentiates = differentiates
        self.given: Sequence[Node] = self.values(given, False)
        self.label = label
        #: Positions from here on are arrays of the caller's that the functions write to.
        self.first_array = first_array
        self.place = user_place()
        #: Positions of variables that are accessed by index, and of those that stand for themselves.
        self.memory = _NONE
        self.constant = _NONE
        #: Positions of variables that are presumed to stay as they are: the functions tell when they are called. They
        #: stand for themselves, told apart from what is equal.
        self.presumed = _NONE
        #: Of what stood for these when the functions were called, by ids: whether it turned out to be a variable.
        self.stands: dict[int, bool] = _UNKNOWN
        #: The number of elements, if it is not that of a variable only.
        self.wide: Any = 0
        #: Whether another trace can be left to the region around it.
        self.defers = True
        #: Whether constructs within presume nothing of what is around them.
        self.cautious = False
        # Of a trace:
        self.initial: Sequence[Node] = self.given
        self.borrowed: list[Memory] = _EMPTY
        self.statements: list[Statement] = _EMPTY
        self.traced: list[Traced] = _EMPTY
        #: The regions for which the user's functions were called, and what further traces are made of, if any are.
        self.called: list[Traced] = _EMPTY
        self.sources: list[Source] = _EMPTY
        #: How many times they have been called again.
        self.calls = 0
        #: What a function has raised.
        self.failure: Exception | None = None

    def values(self, nodes: Sequence[Node], differentiates: bool) -> list[Node]:
        """The values of nodes; those whose derivatives are tracked are refused, unless that is of no consequence."""
        if not any_vertex() and type(nodes) is list:
            return nodes
        found = []
        for node in nodes:
            if not differentiates and tracked(node) is not None:
                refuse(
                    SymbolicValue, f"{call_site(self.function)}(): a variable tracks derivatives, and there are none "
                    "yet of symbolic loops, branches and calls: use drjit.detach() or drjit.suspend_grad(), or "
                    "mode='evaluated'.", node)
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

        ``size`` is that of the values, 0 if each has its own; those without elements keep theirs.  Masks are given by
        the positions of their formals, and have the size ``width``.
        """
        region = Tracing(self.label, self.place, self.functions, self.first_array, self.noun)
        region.differentiates = self.differentiates
        region.initial = self.given
        formals = []
        for position, value in enumerate(self.given):
            if self.constant and position in self.constant:
                formals.append(value)
            elif self.presumed and position in self.presumed:
                formals.append(apart(value))
            elif not value.size:
                formals.append(self.nothing(value))
            else:
                is_memory = bool(self.memory) and position in self.memory
                # arrays from outside may be memory, of which nobody knows yet
                own = is_memory or not size or position >= self.first_array and value.size != 1
                formals.append(new_formal(value.type, value.size if own else size, position,
                                          OWN if is_local(value) else is_memory, region.id, value.where))
        traced = Traced(region, formals, [new_formal(BOOL, width, position, False, region.id) for position in masks])
        if current().recording is not None:
            for value, formal in zip(self.given, formals, strict=True):
                if formal.kind == PHI:
                    sized_as(formal, (value, *self.given), self.wide)
            for mask in traced.masks:
                sized_as(mask, self.given, self.wide)
        self.traced.append(traced)
        return traced

    def nothing(self, value: Node) -> Node:
        """What stands for a variable without elements."""
        return value

    def trace_into(self, traced: Traced) -> None:
        """Call the user's functions of a region, or trace again what they have left."""
        raise NotImplementedError

    def source_of(self, traced: Traced) -> Source:
        """What calls of the user's functions have left in a region."""
        raise NotImplementedError

    def run(self, traced: Traced) -> bool:
        """Trace into a region; returns whether that went well, else :attr:`failure` says what did not."""
        region = traced.region
        outer = innermost()
        region.cautious = self.cautious or outer is not None and outer.cautious
        region.defers = traced.source is None and self.defers and (outer is None or outer.defers)
        open_(region)
        try:
            self.trace_into(traced)
            scope_of_all(traced.results)
            if region.outside and not (region.by_index or region.adopted or region.outside <= {
                    traced.formals[position].id for position in self.presumed}):
                raise self.refusal(self.OUTSIDE)
        except RecursionError:  # in another trace, functions would call themselves as often, and so each of those
            raise
        except Exception as error:
            self.failure = error
        finally:
            traced.latest, traced.lent = region.latest, region.borrowed
            if region.adopted:
                traced.adopted = [(number, primal(before), primal(stand), after)
                                  for number, before, stand, after in region.adopted]
            traced.statements = region.statements if traced.source is None else traced.source.statements
            if traced.statements:
                self.statements = [*self.statements, *traced.statements]
            close(region)
        return self.failure is None

    def recall(self, width: int, uniform: bool) -> list[Source]:
        """What calls of the user's functions have left, if it tells what a trace of some width is; else nothing."""
        for traced in self.called:
            region = traced.region
            if region.by_index or region.again:
                return self.forget("they use all elements of what is accessed by index")
            if region.asked and width != traced.masks[-1].size or uniform and traced.statements:
                return self.forget(f"it has turned out to have {width} elements")
        if self.called and not self.sources:
            try:
                self.sources = [self.source_of(traced) for traced in self.called]
            except Ambiguous:
                return self.doubt()
        for source in self.sources:
            if not source.tells(width):
                return self.forget(f"it has turned out to have {width} elements")
        return self.sources

    def forget(self, why: str) -> list[Source]:
        """Let the next trace call the user's functions."""
        if why and logger.isEnabledFor(LEVELS[LogLevel.Info]):
            logger.info("%s(): the functions of this symbolic %s are called again: %s.", call_site(self.function),
                        self.noun, why)
        self.calls += 1
        if self.calls == _MOST_CALLS:
            raise self.refusal(f"the functions of this {self.noun} do something else each time they are called: they "
                               f"write to arrays from outside, and after {_MOST_CALLS} calls they still find new ones. "
                               "Make these arrays before it.")
        self.sources = self.called = _EMPTY
        self.defers = False
        return self.sources

    def adopts(self) -> bool:
        """Whether functions that were called have made variables of arrays from outside, which are some in the next
        trace."""
        found = _NOTHING
        if self.traced is self.called:
            for traced in self.called:
                for number, value, stand, after in traced.adopted:
                    found = found or {}
                    found[self.first_array + number] = value
                    if stand.id in self.stands:
                        self.stands[stand.id] = True
                    if is_version(after):
                        self.memory |= {self.first_array + number}
        if not found:
            return False
        before, count = [found[position] for position in sorted(found)], len(self.given)
        assert sorted(found) == list(range(count, count + len(found)))
        self.given = self.initial = [*self.given, *before]
        again = bool([traced for traced in self.called if traced.region.again])
        try:
            if again:
                raise Ambiguous
            self.sources = []
            for traced in self.called:
                stands = dict(zip(range(count, count + len(found)), before, strict=True))
                stands |= {self.first_array + number: stand for number, _, stand, _ in traced.adopted}
                traced.formals = traced.formals + [stands[position] for position in sorted(stands)]
                source = self.source_of(traced)
                become = {self.first_array + number: after for number, _, _, after in traced.adopted}
                source.note_origins([(stand, become.get(position, stand)) for position, stand in stands.items()
                                     if stand.scope != source.id and stand.id not in self.stands])
                self.sources.append(source)
        except Ambiguous:
            self.doubt()
        return True

    def doubt(self) -> list[Source]:
        """Let the next trace call the user's functions, since the nodes do not tell what it would be."""
        if self.called[0].region.taped:
            raise Restart
        return self.forget("they may have read what they change in several ways")

    def fail(self) -> NoReturn:
        """Raise what a function has raised, whose frames lead back to this object."""
        failure, self.failure = self.failure, None
        assert failure is not None
        try:
            raise failure
        finally:
            del failure

    def finds_memory(self) -> bool:
        """Note which variables are accessed by index; whether that takes another trace."""
        again, found = False, _NONE
        for traced in self.traced:
            region = traced.region
            for position, formal in enumerate(traced.formals):
                if formal.payload and formal.scope == region.id:
                    found |= {position}
            if region.by_index:
                found |= region.by_index - self.constant
        if found and not found <= self.memory:
            again = bool([traced for traced in self.traced if traced.region.by_index])
            self.memory |= found
            for traced in self.traced:  # what is memory for one function is so for all
                for position in found:
                    formal = traced.formals[position]
                    if formal.scope == traced.region.id and not formal.payload:
                        become_memory(formal, self.given[position])
        return again

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
                traced.formals.append(traced.lent.get(memory) or new_formal(
                    version.type, version.size, BORROWED, True, traced.region.id, version.where))

    def leaves_trace(self, width: int) -> bool:
        """Whether the region around it is told to be traced again, so that this construct, which is as wide, need not
        be.

        Otherwise, each construct would be traced again for each one around it.
        """
        outer = innermost()
        if outer is None or not outer.defers or not self.defers or self.traced is not self.called or self.borrowed or \
                outer.live is None or width != 1 != outer.live.size != width:
            return False
        for traced in self.called:
            if traced.latest or traced.region.outside or traced.region.asked and width != traced.masks[-1].size:
                return False  # what is written, and for which elements, may depend on the width
        outer.deferred = outer.relied = True
        return True

    def relied(self) -> bool:
        """Whether what could not be traced may be due to what constructs within have left to this one, or to the width
        that they began with: then functions are called again, and constructs within settle by themselves."""
        if self.cautious or not isinstance(self.failure, RuntimeError) or not raised_here(self.failure) or not [
                traced for traced in self.traced if traced.region.relied]:
            return False
        self.failure, self.cautious = None, True
        self.forget("what is within could not be traced as wide as it is")
        return True

    def has_deferred(self) -> bool:
        """Whether what constructs within have left to this one is to be done in another trace."""
        if self.traced is not self.called:
            return False
        for traced in self.called:  # noqa: SIM110  (compiled)
            if traced.region.deferred:
                return True
        return False

    # --- what becomes of it ------------------------------------------------------------------------------------------

    def check_memory_of(self, regions: Sequence[Region], initial: Sequence[Node], deferred: bool = False) -> None:
        """Refuse what would need a copy of memory, where there are none: in the regions around this construct.

        If it is to be traced again, some of the memory may only be read.
        """
        first = regions[0]
        for formal in first.formals:
            if formal.payload:
                break
        else:
            return
        for value, formal in zip(initial, first.formals, strict=True):
            if formal.payload:
                if value.scope and not deferred:
                    if [source for region in regions for source in region.sources if source is value]:
                        raise self.refusal(self.READ_BEFORE, formal)
                    if len([other for other in initial if other is value]) > 1:
                        raise self.refusal(self.SAME_ARRAY, formal)
                require_memory(self.function, value)

    def settle(self, versions: list[Node]) -> None:
        """Hand statements over to what is around the construct, with the last versions of what was borrowed."""
        for position, memory in enumerate(self.borrowed):
            settle(memory, versions[position])
        if self.statements:
            hand_over(self.statements)

    # --- errors ------------------------------------------------------------------------------------------------------

    def name(self, position: int) -> str:
        """A variable as the user knows it."""
        return self.functions.name_of(position) or str(position)

    def refusal(self, text: str, formal: Node | None = None) -> SymbolicValue:
        """What is wrong with the user's functions; ``{}`` stands for the variable of a formal."""
        if formal is not None:
            text = text.format(self.name(formal.attr))
        return SymbolicValue(f"{call_site(self.function)}(): {text}")


def results_of(node: Node) -> list[Node]:
    """Make the nodes of all results."""
    control, results, position = node.payload, [], -1
    first = control.regions[0]
    for last in first.results[-1]:
        position += 1
        memory = control.is_memory(position)
        result = append(RESULT, last.type, last.size if memory else node.size, node, None, None, None, position,
                        OWN if memory and is_local(last) else memory)
        control.outputs.append(ref(result))
        if memory and (node.kind != LOOP or last is not first.formals[position]):
            replace_version(control.origin(position), result)
        results.append(result)
    return results


def raised_here(failure: Exception) -> bool:
    """Whether an exception is the library's, not one of the user's functions."""
    trace = failure.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is None or is_internal(trace.tb_frame)


def adopt(number: int, before: Node, stand: Node, after: Node) -> None:
    """Tell that the construct of the innermost region has one more variable: its number among those from outside, what
    it is before, what stands for it in this trace, and what it becomes."""
    region = innermost()
    assert region is not None
    region.adopted = [*region.adopted, (number, before, stand, after)]


def late_formal(before: Node) -> Node:
    """What stands for a variable that the innermost region turns out to have."""
    region = innermost()
    assert region is not None and region.live is not None
    return new_formal(before.type, max(before.size, region.live.size), -4, False, region.id, before.where)


def unusable(node: Node, why: str) -> Node:
    """What stands in a place for a value that elements do not have alike: who uses it is told ``why`` nobody can."""
    return new_formal(node.type, node.size, -4, why, new_region(), node.where)


def outlived(node: Node) -> Node:
    """What a value is outside of the innermost region: itself, or nothing that anyone could use."""
    return late_formal(node) if is_within(node) else outlive(node)


def late_variable(before: Node) -> Node:
    """What :func:`late_formal` makes, with a derivative if that may turn out to be asked for, as variables have that
    are known before."""
    region, scope = innermost(), current().derivatives
    formal = late_formal(primal(before))
    assert region is not None
    if region.entries is None or not IS_FLOAT[formal.type] or scope is not None and not scope.records:
        return formal
    leaf = Vertex(LEAF, formal.type, formal.size)
    region.entries[leaf.id] = tracked(before)
    return dual(formal, leaf)


def depend_on(results: Sequence[Node], values: Sequence[Node], since: int = -1) -> bool:
    """Whether any of some results, but for those that are one of some values, may be computed of these, by nodes that
    have been made ``since`` one of some id: literals leave no trace."""
    values = [primal(value) for value in values]
    if [value for value in values if value.kind == LITERAL]:
        return True
    seen: set[int] = set()
    sought = {value.id for value in values}
    lowest = min(sought, default=0)
    todo = [result for result in map(primal, results) if result.id not in sought]
    while todo:
        node = todo.pop()
        for operand in operands(node):
            if operand.id in sought and node.id > since:
                return True
            if operand.id > lowest and operand.id not in seen:
                seen.add(operand.id)
                todo.append(operand)
    return False


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
