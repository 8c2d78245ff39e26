"""Branches and calls: each element takes one of several regions."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from ..context import current
from ..errors import IncompatibleSizes
from ..ir import trace
from ..ir.build import append, broadcast_size_of, invalid, literal, where_of
from ..ir.extents import common_size
from ..ir.node import Node
from ..ir.region import Call, Choice, Cond, MemoryAsValue, Region, is_version, origin_of
from ..ir.symbolic import innermost, scope_of_all
from ..ops.table import CALL, COND, FETCH, LITERAL, LOOP, PHI, RESULT
from ..types import BOOL, TYPES, UINT32
from .construct import Construct, Functions, Traced, results_of, written_widths
from .inline import MAKERS, inline, live_mask
from .once import atomic
from .source import Source

__all__ = ["Joined", "Targets", "Versions", "call", "chosen", "cond"]


#: The new versions of those arguments that a branch or call has written to by index, by position.
Versions = dict[int, Node]

_NONE: frozenset[int] = frozenset()
_EMPTY: list[Source] = []
#: So few values are compared one by one.
_FEW = 32
#: Those of a branch or call that does not write, and its results that are memory.
_UNWRITTEN: Versions = {}
_UNALIASED: dict[int, int] = {}

#: Positions of arguments that are memory, and of those that are written to.
Memory = tuple[frozenset[int], frozenset[int]]
Function = Callable[[list[Node]], Sequence[Node]]
#: What functions return besides their results, given the number of one: known when all have been called.
Joined = Callable[[int], Sequence[Node]]


def cond(mask: Node, arguments: Sequence[Node], true: Function, false: Function, label: str | None = None,
         name_of: Callable[[int], str] | None = None,
         count: int = sys.maxsize, differentiates: bool = False,
         joined: Joined | None = None, memory: Memory | None = None) -> tuple[list[Node], Versions]:
    """``true(arguments) if mask else false(arguments)`` for every element, as part of the kernel.

    Both functions are called with nodes, and return as many nodes of the same types.  Returned are the results, and by
    position the new versions of those arguments that the functions have written to by index.  What the functions
    compute of their arguments, and every access to memory, happens only if some element needs it.  Arguments from
    position ``count`` on are arrays of the caller's that the functions write to, which ``name_of`` names as such.
    When all functions have been called, ``joined`` returns further results of each, by its number.
    Whether it ``differentiates``, see :func:`.loop.while_loop`.  If it is traced again, it is known which arguments are
    ``memory``, and which of these are written to.
    """
    return chosen(Targets((true, false), joined, name_of), 2, mask, None, arguments, label, count, differentiates,
                  memory)


def call(index: Node, mask: Node, targets: Sequence[Function], arguments: Sequence[Node], label: str | None = None,
         name_of: Callable[[int], str] | None = None,
         count: int = sys.maxsize, differentiates: bool = False,
         joined: Joined | None = None, memory: Memory | None = None) -> tuple[list[Node], Versions]:
    """``targets[index](arguments)`` for every element for which the mask is set, else zeros; see :func:`cond`.

    ``index`` is a 32-bit unsigned integer; elements for which it is too large are masked out.
    """
    return chosen(Targets(targets, joined, name_of), len(targets), mask, index, arguments, label, count,
                  differentiates, memory)


def chosen(functions: Functions, number: int, mask: Node, index: Node | None, arguments: Sequence[Node],
           label: str | None = None, count: int = sys.maxsize, differentiates: bool = False,
           memory: Memory | None = None) -> tuple[list[Node], Versions]:
    """:func:`cond`, or with an index :func:`call`, of so many functions that are methods."""
    if not number:
        raise ValueError("call(): there is no target")
    if index is not None and index.type != UINT32:
        raise TypeError(f"call(): the index must be uint32, found {TYPES[index.type].name}")
    return _Choice(functions, number, mask, index, arguments, label, count, differentiates, memory).trace()


class Targets(Functions):
    """Functions, what they return besides, and what messages call arguments."""

    __slots__ = ("functions", "more", "names")

    def __init__(self, functions: Sequence[Function], more: Joined | None, names: Callable[[int], str] | None) -> None:
        self.functions, self.more, self.names = functions, more, names

    def target(self, number: int, formals: list[Node]) -> list[Node]:
        return list(self.functions[number](formals))

    def joined(self, number: int) -> list[Node]:
        return [] if self.more is None else list(self.more(number))

    def name_of(self, position: int) -> str | None:
        return None if self.names is None else self.names(position)


class _Choice(Construct):
    """A branch or a call that is being traced."""

    OUTSIDE = "a function writes to an array that is not among its arguments."
    AS_VALUE = ("a function writes to {} by index, and computes with all of its elements; there, only accesses by "
                "index know what they find. Use drjit.gather().")
    READ_BEFORE = ("a function writes to {} by index, and one reads what was there before; inside of a symbolic loop, "
                   "branch or call there are no copies of arrays. Read it through the function's argument.")
    SAME_ARRAY = ("two arguments are the same array, and {} is written to by index; inside of a symbolic loop, branch "
                  "or call there are no copies of arrays.")
    FOUND = ("a function writes several values at once, and returns what an update of one value has found, which only "
             "one of its elements knows. Write in a branch or call of its own.")

    def __init__(self, functions: Functions, number: int, mask: Node, index: Node | None, arguments: Sequence[Node],
                 label: str | None, count: int, differentiates: bool, memory: Memory | None) -> None:
        if index is None:
            self.set_up("cond", "branch", functions, arguments, label, count, differentiates)
        else:
            self.set_up("call", "call", functions, arguments, label, count, differentiates)
        self.mask = mask
        self.index = index
        #: How many functions there are, and the first one that is traced: a branch by a known mask has one only.
        self.number, self.first = number, 0
        if index is None and self.mask.kind == LITERAL:
            self.number, self.first = 1, 0 if mask.payload else 1
        #: Whether a value that is given twice has one formal.
        self.merged = False
        if memory is not None:
            self.memory, written = memory
            self.constant = self.memory - written
            self.merged = self.repeats_values()
        #: Whether it is wide only for the sake of what it writes, and what the widths of writes in the targets were
        #: before it was.
        self.uniform = False
        self.single: list[list[int]] = []
        #: The number of elements that take part at least.
        self.least = 1
        #: Whether it has at least as many elements as what is around it.  Where all elements of that do the same, it
        #: does not as long as nobody knows how wide its writes are without them; then this is the mask of those.
        self.joins = False
        self.apart: Node | None = None

    def trace(self) -> tuple[list[Node], Versions]:
        """Trace until nothing new turns out."""
        while True:
            self.attempt()
            if self.finds_memory():
                continue
            if self.failure is not None:
                if self.relied():
                    continue
                self.fail()
            if self.adopts():
                continue
            self.add_borrowed()
            varying = self.memory - self.constant if self.memory else _NONE
            written = self.written_of(varying) if varying else varying
            one = self.traced[0]
            mask = one.masks[0]
            width = mask.size
            if varying is not written and varying != written:
                self.constant |= varying - written
            elif not self.merged and self.repeats_values() and not self.leaves_trace(width):
                self.merged = True
            else:
                aliases = self.aliases()
                passed = self.passed()
                values = list(range(len(one.results)))
                if aliases or passed:
                    values = [i for i in values if i not in aliases and i not in passed]
                order = sorted(written) if written else []
                try:
                    regions = self.regions(values, order)
                except MemoryAsValue as error:
                    if self.has_deferred():  # what is left alone within is taken for used
                        continue
                    raise self.refusal(self.AS_VALUE, origin_of(error.node, error.node.scope)) from None
                if not self.grows(regions, len(values)):
                    if self.has_deferred() and not self.leaves_trace(width):
                        continue
                    if self.uniform and [i for i in values if not _is_single(one.results[i])]:
                        raise self.refusal(self.FOUND)
                    return self.finish(regions, aliases, passed, values, order)

    def written_of(self, positions: frozenset[int]) -> frozenset[int]:
        """Those of some positions of arguments that are written to."""
        return frozenset([i for traced in self.traced for i in positions if traced.formals[i].id in traced.latest])

    def regions(self, values: list[int], written: list[int]) -> list[Region]:
        """The regions that were traced."""
        return [self.region(traced, values, written) for traced in self.traced]

    def grows(self, regions: list[Region], count: int) -> bool:
        """Whether it writes, and is wider than the elements that take part in that: all its elements do in the next
        trace.  (Or whether it does not write, and was traced apart from what is around it.)

        Where results of one element meet others of several, each element writes.  Where only as many elements are
        written at once, single writes happen once.
        """
        one, apart, writes = self.traced[0], self.apart, False
        mask = one.masks[0]
        for region in regions:
            writes |= region.writes
        if not writes:
            self.joins |= apart is not None
            return apart is not None
        results = [mask, *[value for region in regions for value in region.results[0][:count]]]
        size = self.size(regions, count)
        if apart is not None:
            size = max(size, apart.size)
        if size == mask.size:
            return False
        uniform = all(map(_is_single, results))
        if uniform and self.mask_is_known():
            return False  # what is written there is written as it stands
        self.uniform, self.single, self.joins = uniform, [traced.region.widths for traced in self.traced], True
        self.least, self.wide = size, common_size(size, [*results, *_written(regions), apart])
        return True

    def size(self, regions: Sequence[Region], count: int) -> int:
        """The number of elements: of what decides, of results, and of what is written."""
        one = self.traced[0]
        mask = one.masks[0]
        size = mask.size
        for region in regions:
            results = region.results[0]
            for i in range(count):
                value = results[i]
                if value.size != 1 and value.size != size:
                    if size != 1:
                        raise IncompatibleSizes(self.function, tuple([node.size for node in (
                            mask, *[node for each in regions for node in each.results[0][:count]])]))
                    size = value.size
        found = _written(regions)
        return broadcast_size_of(self.function, [*one.masks, *[node for region in regions for node in region.results[
            0][:count]], *found]) if found else size

    def mask_is_known(self) -> bool:
        """Whether it becomes part of what is around it."""
        return self.index is None and self.number == 1

    def repeats_values(self) -> bool:
        """Whether a value is given twice, which makes the program of one."""
        values = self.given
        if self.memory or self.constant:
            values = [value for i, value in enumerate(values) if i not in self.memory and i not in self.constant]
        count = len(values)
        if count > _FEW:
            return len({value.id for value in values}) < count
        for i in range(1, count):
            for k in range(i):
                if values[i] is values[k]:
                    return True
        return False

    def attempt(self) -> None:
        """Trace all targets once."""
        self.begin()
        outer = innermost()
        live = None if outer is None else outer.live
        self.apart = live if outer is not None and outer.uniform and not self.joins else None
        wide = [self.mask]
        if self.index is not None:
            wide.append(self.index)
        if live is not None and self.apart is None:
            wide.append(live)
        width = broadcast_size_of(self.function, wide)
        if self.least > width:
            width = self.least
        elif current().recording is not None:
            self.wide = common_size(width, wide)
        sources = self.recall(width, self.uniform) if self.called else _EMPTY
        for number in range(self.number):
            traced = self.enter(0, width, (-1,))
            if self.uniform:
                traced.region.uniform, traced.region.single = True, self.single[number]
            if sources:
                traced.source = sources[number]
            if not self.run(traced):
                if sources:  # the user's functions know what is wrong, and where
                    self.forget("what they left cannot be traced again")
                    self.attempt()
                return
        if not sources:
            for number in range(self.number):
                traced = self.traced[number]
                more = self.functions.joined(self.first + number)
                if more:
                    traced.results = traced.results + self.values(more, self.differentiates)
            for traced in self.traced:
                self.check(traced.results)
            self.called = self.traced

    def trace_into(self, traced: Traced) -> None:
        """Trace the target whose turn it is."""
        region, source = traced.region, traced.source
        (region.live,) = traced.masks
        formals = traced.formals
        if self.merged:
            formals = formals.copy()
            first: dict[int, Node] = {}
            for i, value in enumerate(self.given):
                if i not in self.memory | self.constant:
                    formals[i] = first.setdefault(value.id, formals[i])
        if source is None:
            traced.results = self.values(self.functions.target(self.first + len(self.traced) - 1, formals),
                                         self.differentiates)
        else:
            traced.results = source.trace(0, source.values(region, formals, traced.masks))
            self.check(traced.results)

    def source_of(self, traced: Traced) -> Source:
        versions = [*traced.latest.values(), *[after for *_, after in traced.adopted]]
        return Source(traced.region.id, traced.formals[:len(self.given)], traced.masks, traced.lent, traced.statements,
                      (traced.results,), versions, repeats=False)

    def check(self, results: Sequence[Node]) -> None:
        """Refuse results that differ from those of the first target in number or type."""
        one = self.traced[0]
        first = one.results
        if len(results) != len(first):
            raise ValueError(f"{self.function}(): the functions returned {len(first)} and {len(results)} values")
        for i, other in enumerate(results):
            own = first[i]
            if own.type != other.type:
                raise TypeError(f"{self.function}(): the type of result {i} is {TYPES[own.type].name} for one "
                                f"function, {TYPES[other.type].name} for another")

    def finish(self, regions: list[Region], aliases: dict[int, int], passed: dict[int, Node], values: list[int],
               written: list[int]) -> tuple[list[Node], Versions]:
        """Make the node, and those of its results."""
        varying = []
        for i in range(len(self.initial)):
            if not self.constant or i not in self.constant:
                for number, region in enumerate(regions):
                    traced = self.traced[number]
                    if traced.formals[i] in region.used:
                        varying.append(i)  # what no function uses is no argument: memory would be a value
                        break
        initial = self.initial
        if len(varying) < len(initial):
            initial = [initial[i] for i in varying]
            for number, region in enumerate(regions):
                traced = self.traced[number]
                region.formals = tuple([traced.formals[i] for i in varying])
        self.check_memory_of(regions, initial)
        if self.mask_is_known():
            mask = live_mask()
            if self.least > mask.size:
                mask = trace.ops.and_(mask, literal(BOOL, True, self.wide))
            outputs = inline(regions[0], initial, mask)
        else:
            class_ = Cond if self.index is None else Call
            outputs = results_of(self.node(class_(regions, initial, self.label, len(values),
                                                       [varying.index(i) for i in written])))
        versions = _UNWRITTEN
        if written:
            versions = dict(zip(written, outputs[len(values):], strict=True))
        results = outputs
        if written or passed:
            found = passed | dict(zip(values, outputs, strict=False))
            results = [found[i] if i in found else versions[aliases[i]] for i in range(len(self.traced[0].results))]
        if self.statements:
            self.settle([versions.pop(i) for i in range(len(self.given), len(self.initial))])
        return results, versions

    def region(self, traced: Traced, values: list[int], written: list[int]) -> Region:
        """A region that was traced, with the last versions of what any of them has written to."""
        formals, results = traced.formals, traced.results
        if written or len(values) < len(results):
            finals = [traced.latest.get(formals[i].id, formals[i]) for i in written]
            results = [results[i] for i in values] + finals
        if self.constant:
            formals = [formals[i] for i in range(len(formals)) if i not in self.constant]
        return Region(traced.region.id, formals, traced.masks, (results,))

    def node(self, choice: Choice) -> Node:
        """The node of a branch or call."""
        outer = innermost()
        enclosing = outer.live if outer is not None else None
        size = self.size(choice.regions, choice.count)
        if enclosing is not None and size not in (1, enclosing.size) and enclosing.size != 1:
            raise IncompatibleSizes(self.function, (enclosing.size, size))
        # what functions use of regions that are not open has been refused already
        used = [self.mask, *choice.initial]
        for region in choice.regions:
            used += region.captures
            used += region.sources
        scope = scope_of_all(used)
        if self.index is not None or enclosing is not None:
            scope = max(scope, scope_of_all((self.index, enclosing)))
        where = where_of(self.function, used)
        if self.index is None:
            return append(COND, BOOL, size, self.mask, enclosing, None, None, 0, choice, scope, where)
        return append(CALL, BOOL, size, self.index, self.mask, enclosing, None, 0, choice, scope, where)

    def aliases(self) -> dict[int, int]:
        """Results that are memory: the last version of an argument, by position of the result that of the argument."""
        found = _UNALIASED
        for traced in self.traced:
            for i, result in enumerate(traced.results):
                if result.scope == traced.region.id and is_version(result):
                    formal, found = origin_of(result, result.scope), found or {}
                    if result is not traced.latest.get(formal.id, formal) or found.setdefault(i, formal.attr) != \
                            formal.attr or traced.formals[formal.attr] is not formal:
                        raise self.refusal(f"result {i} is an array that was written to by index, but not its last "
                                           "version, or not the same array in each function.")
        for i in found:
            for traced in self.traced:
                if not (traced.results[i].scope == traced.region.id and is_version(traced.results[i])):
                    raise self.refusal(f"result {i} is an array that one function writes to by index, and a value that "
                                       "another one computes.")
        return found

    def passed(self) -> dict[int, Node]:
        """Results that are the same in each function, an argument for example: that is the result.

        But for those that are not as wide as the branch or call, whose results are, unless they are memory: arguments
        that are read by index, or that have another number of elements; what one value decides has no width of its own.
        Where functions write, results tell how many elements do; and elements that take no part in a call have zeros.
        """
        found = _UNWRITTEN
        if self.mask_is_known():
            return found
        one = self.traced[0]
        mask = one.masks[0]
        width = mask.size
        writes = [traced for traced in self.traced if traced.latest]
        for i, result in enumerate(one.results):
            if (width == 1 or self.uniform) and self.has_nothing(i):
                found = found or {}
                found[i] = invalid(result.type)
                continue
            first = self.outside(one, result)
            if first is None or not self.all_return(i, first):
                continue
            if width > 1 and first.size not in (1, width) or \
                    not writes and [k for k in self.constant if self.given[k] is first] or \
                    not writes and self.index is None and width in (1, first.size):
                found = found or {}
                found[i] = first
        return found

    def has_nothing(self, position: int) -> bool:
        """Whether a result of a function has no elements, which those of others go with."""
        found = False
        for traced in self.traced:
            result = traced.results[position]
            if result.size > 1:
                return False
            if not result.size:
                found = True
        return found

    def all_return(self, position: int, value: Node) -> bool:
        """Whether a result of each target is the same value from outside."""
        for traced in self.traced:  # noqa: SIM110  (compiled)
            if self.outside(traced, traced.results[position]) is not value:
                return False
        return True

    def outside(self, traced: Traced, result: Node) -> Node | None:
        """What a result of a target is outside of the choice, if it is there already."""
        if result.scope != traced.region.id:
            return result if result.size or result is not invalid(result.type) else None  # which is computed
        if result.kind == PHI and not is_version(result) and result is not traced.masks[0]:
            return self.given[result.attr]
        return None

    def name(self, position: int) -> str:
        return f"'{super().name(position)}'"


def _is_single(value: Node) -> bool:
    """Whether there is one value: also one that a branch or call gives to all of its elements."""
    if value.size == 1:
        return True
    choice = value.d0
    if value.kind != RESULT or value.payload or choice is None or choice.kind == LOOP:
        return False
    deciding = (choice.d0,) if choice.kind == COND else (choice.d0, choice.d1)
    return all(map(_is_single, (*deciding, *(region.results[0][value.attr] for region in choice.payload.regions))))


def _written(regions: Sequence[Region]) -> list[Node]:
    """What is written in any of some regions."""
    found: list[Node] = []
    for region in regions:
        if region.writes:
            found += written_widths(region)
    return found


MAKERS[FETCH], MAKERS[COND], MAKERS[CALL] = atomic, cond, call
