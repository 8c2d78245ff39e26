"""Branches and calls: each element takes one of several regions."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence

from ..errors import IncompatibleSizes, SymbolicValue
from ..ir import trace
from ..ir.build import append, broadcast_size
from ..ir.deferred import BORROWED, Memory, Statement, hand_over, settle, version_of
from ..ir.expansion import TRACED
from ..ir.node import Node
from ..ir.region import Call, Choice, Cond, MemoryAsValue, Region, is_version, operands, origin_of
from ..ir.symbolic import (
    Tracing,
    call_site,
    close,
    innermost,
    open_,
    replace_version,
    require_memory,
    scope_of,
    user_line,
)
from ..ops.table import CALL, COND, LITERAL, OPS, PHI, RESULT
from ..types import BOOL, TYPES, UINT32
from .inline import inline, live_mask
from .loop import while_loop
from .once import atomic
from .widths import written_widths

__all__ = ["PLAIN", "call", "cond"]

Function = Callable[[list[Node]], Sequence[Node]]


def cond(mask: Node, arguments: Sequence[Node], true: Function, false: Function, label: str | None = None,
         name_of: Callable[[int], str] | None = None) -> tuple[list[Node], dict[int, Node]]:
    """``true(arguments) if mask else false(arguments)`` for every element, as part of the kernel.

    Both functions are called with nodes, and return as many nodes of the same types.  Returned are the results, and by
    position the new versions of those arguments that the functions have written to by index.  What the functions
    compute of their arguments, and every access to memory, happens only if some element needs it.
    """
    if mask.kind == LITERAL:
        return _Choice("cond", COND, mask, None, (true if mask.payload else false,), arguments, label, name_of).trace()
    return _Choice("cond", COND, mask, None, (true, false), arguments, label, name_of).trace()


def call(index: Node, mask: Node, targets: Sequence[Function], arguments: Sequence[Node], label: str | None = None,
         name_of: Callable[[int], str] | None = None) -> tuple[list[Node], dict[int, Node]]:
    """``targets[index](arguments)`` for every element for which the mask is set, else zeros; see :func:`cond`.

    ``index`` is a 32-bit unsigned integer; elements for which it is too large are masked out.
    """
    if not targets:
        raise ValueError("call(): there is no target")
    if index.type != UINT32:
        raise TypeError(f"call(): the index must be uint32, found {TYPES[index.type].name}")
    return _Choice("call", CALL, mask, index, targets, arguments, label, name_of).trace()


class _Choice:
    """A branch or a call that is being traced, perhaps several times."""

    def __init__(self, function: str, kind: int, mask: Node, index: Node | None, targets: Sequence[Function],
                 arguments: Sequence[Node], label: str | None, name_of: Callable[[int], str] | None) -> None:
        self.function = function
        self.kind = kind
        self.mask = mask
        self.index = index
        self.targets = targets
        self.given = arguments
        self.label = label
        self.name_of = name_of
        self.line = user_line()
        #: Positions of arguments that are accessed by index, and of those that no target writes to.
        self.memory: frozenset[int] = frozenset()
        self.constant: frozenset[int] = frozenset()
        # Of a trace:
        self.arguments: Sequence[Node] = arguments  # and then what statements write to, which targets have borrowed
        self.borrowed: list[Memory] = []
        self.statements: list[Statement] = []
        self.lent: list[dict[Memory, Node]]  # the formals that stand for that, of each target
        self.regions: list[Tracing]
        self.formals: list[list[Node]]
        self.masks: list[Node]
        self.results: list[list[Node]]
        self.latest: list[dict[int, Node]]  # the last version of each formal, by the formal's id

    def trace(self) -> tuple[list[Node], dict[int, Node]]:
        """Trace until nothing new turns out."""
        while True:
            failure = self.attempt()
            by_index: set[int] = set().union(*(region.by_index for region in self.regions)) - self.memory
            if by_index:
                self.memory |= by_index
                continue
            if failure is not None:
                try:
                    raise failure
                finally:
                    del failure  # its frames lead back to this one
            self.add_borrowed()
            written = {i for latest, formals in zip(self.latest, self.formals, strict=True)
                       for i in self.memory - self.constant if formals[i].id in latest}
            unwritten = self.memory - self.constant - written
            if unwritten:
                self.constant |= unwritten
                continue
            return self.finish(sorted(written))

    def attempt(self) -> Exception | None:
        """Trace all targets once; returns the exception that one has raised."""
        self.regions, self.formals, self.masks, self.results, self.latest = [], [], [], [], []
        self.arguments, self.borrowed, self.statements, self.lent = self.given, [], [], []
        self.memory = frozenset(i for i in self.memory if i < len(self.given))
        outer = innermost()
        width = broadcast_size(self.function, self.mask, *([self.index] if self.index is not None else []),
                               *([outer.live] if outer is not None and outer.live is not None else []))
        for target in self.targets:
            region = Tracing(self.label, self.line, self.name_of)
            formals = [value if i in self.constant else
                       append(PHI, value.type, value.size, attr=i, payload=i in self.memory,
                              scope=region.id)
                       for i, value in enumerate(self.arguments)]
            live = append(PHI, BOOL, width, attr=-1, payload=False, scope=region.id)
            self.regions.append(region)
            self.formals.append(formals)
            self.masks.append(live)
            open_(region)
            try:
                region.live = live
                results = list(target(list(formals)))
                self.check(results)
                self.results.append(results)
            except Exception as error:
                return error
            finally:
                self.latest.append(dict(region.latest))
                self.lent.append(region.borrowed)
                self.statements += region.statements
                close(region)
        return None

    def add_borrowed(self) -> None:
        """Add memory of statements to the arguments, as far as any target has written to it."""
        for lent, latest in zip(self.lent, self.latest, strict=True):
            self.borrowed += (memory for memory, formal in lent.items()
                              if formal.id in latest and memory not in self.borrowed)
        before = [version_of(memory, innermost()) for memory in self.borrowed]
        self.arguments = [*self.given, *before]
        self.memory |= frozenset(range(len(self.given), len(self.arguments)))
        for region, formals, lent in zip(self.regions, self.formals, self.lent, strict=True):
            for memory, version in zip(self.borrowed, before, strict=True):
                formals.append(lent.get(memory) or append(PHI, version.type, version.size, attr=BORROWED, payload=True,
                                                          scope=region.id))

    def check(self, results: Sequence[Node]) -> None:
        """Refuse results that differ from those of the first target in number or type."""
        scope_of(*results)
        if self.regions[-1].outside and not self.regions[-1].by_index:
            raise SymbolicValue(f"{call_site(self.function)}(): a function writes to an array that is not among its "
                                "arguments.")
        if not self.results:
            return
        first = self.results[0]
        if len(results) != len(first):
            raise ValueError(f"{self.function}(): the functions returned {len(first)} and {len(results)} values")
        for i, (one, other) in enumerate(zip(first, results, strict=True)):
            if one.type != other.type:
                raise TypeError(f"{self.function}(): the type of result {i} is {TYPES[one.type].name} for one "
                                f"function, {TYPES[other.type].name} for another")

    def finish(self, written: Sequence[int]) -> tuple[list[Node], dict[int, Node]]:
        """Make the node, and those of its results."""
        aliases = self.aliases()
        values = [i for i in range(len(self.results[0])) if i not in aliases]
        varying = [i for i in range(len(self.arguments)) if i not in self.constant]
        regions = []
        for tracing, latest, formals, live, results in zip(self.regions, self.latest, self.formals, self.masks,
                                                          self.results, strict=True):
            finals = [latest.get(formals[i].id, formals[i]) for i in written]
            try:
                regions.append(Region(tracing.id, [formals[i] for i in varying], (live,),
                                      ([*(results[i] for i in values), *finals],)))
            except MemoryAsValue as error:
                formal = origin_of(error.node, tracing.id)
                raise SymbolicValue(
                    f"{call_site(self.function)}(): a function writes to '{self.name(formal.attr)}' by index, and "
                    "computes with all of its elements; there, only accesses by index know what they find. Use "
                    "drjit.gather().") from None
        used = {operand.id for region in regions for node in region.nodes for operand in operands(node)}
        used.update(result.id for region in regions for result in region.results[0])
        # what no function uses is no argument: memory in particular, which would be a value
        varying = [i for i in varying if any(formals[i].id in used for formals in self.formals)]
        for region, formals in zip(regions, self.formals, strict=True):
            region.formals = tuple(formals[i] for i in varying)
        initial = [self.arguments[i] for i in varying]
        for i in written:
            argument = self.arguments[i]
            if argument.scope and any(source is argument for region in regions for source in region.sources):
                raise SymbolicValue(
                    f"{call_site(self.function)}(): a function writes to '{self.name(i)}' by index, and one reads what "
                    "was there before; inside of a symbolic loop, branch or call there are no copies of arrays. Read "
                    "it through the function's argument.")
            if argument.scope and sum(argument is other for other in initial) > 1:
                raise SymbolicValue(
                    f"{call_site(self.function)}(): two arguments are the same array, and '{self.name(i)}' is written "
                    "to by index; inside of a symbolic loop, branch or call there are no copies of arrays.")
            require_memory(self.function, argument)
        if len(regions) == 1 and self.index is None:  # the mask is known: part of what is around it
            found = inline(regions[0], initial, live_mask(), functions=PLAIN)
            versions = dict(zip(written, found[len(values):], strict=True))
            return self.settled(self.ordered(values, aliases, found[:len(values)], versions), versions)
        positions = {i: position for position, i in enumerate(varying)}
        class_ = Cond if self.kind == COND else Call
        choice: Choice = class_(regions, initial, self.label, len(values), [positions[i] for i in written])
        outer = innermost()
        enclosing = outer.live if outer is not None else None
        size = broadcast_size(self.function, self.masks[0], *(results[i] for results in self.results for i in values),
                              *(width for region in regions for width in written_widths(region)))
        if enclosing is not None and size not in (1, enclosing.size) and enclosing.size != 1:
            raise IncompatibleSizes(self.function, (enclosing.size, size))
        scope = scope_of(self.index, self.mask, enclosing, *choice.values(), *choice.memory(), *choice.sources())
        if self.index is None:
            node = append(COND, BOOL, size, self.mask, enclosing, payload=choice, scope=scope)
        else:
            node = append(CALL, BOOL, size, self.index, self.mask, enclosing, payload=choice, scope=scope)
        outputs = []
        for position, first in enumerate(regions[0].results[0]):
            memory = position >= len(values)
            result = append(RESULT, first.type, first.size if memory else size, node, attr=position, payload=memory)
            choice.outputs.append(weakref.ref(result))
            outputs.append(result)
        versions = dict(zip(written, outputs[len(values):], strict=True))
        for i in written:
            replace_version(self.arguments[i], versions[i])
        return self.settled(self.ordered(values, aliases, outputs, versions), versions)

    def settled(self, results: list[Node], versions: dict[int, Node]) -> tuple[list[Node], dict[int, Node]]:
        """Results and new versions of the caller's arguments, after statements have got theirs."""
        for i, memory in enumerate(self.borrowed, len(self.given)):
            settle(memory, versions.pop(i))
        hand_over(self.statements)
        return results, versions

    def ordered(self, values: Sequence[int], aliases: dict[int, int], outputs: Sequence[Node],
                versions: dict[int, Node]) -> list[Node]:
        """Results in the order in which the functions return them."""
        found = dict(zip(values, outputs, strict=False))
        return [found[i] if i in found else versions[aliases[i]] for i in range(len(self.results[0]))]

    def aliases(self) -> dict[int, int]:
        """Results that are memory: the last version of an argument, by position of the result that of the argument."""
        found: dict[int, int] = {}
        for region, latest, formals, results in zip(self.regions, self.latest, self.formals, self.results, strict=True):
            for i, result in enumerate(results):
                if result.scope == region.id and is_version(result):
                    formal = origin_of(result, region.id)
                    if result is not latest.get(formal.id, formal) or found.setdefault(i, formal.attr) != \
                            formal.attr or formals[formal.attr] is not formal:
                        raise SymbolicValue(
                            f"{call_site(self.function)}(): result {i} is an array that was written to by index, but "
                            "not its last version, or not the same array in each function.")
        for i in found:
            for region, results in zip(self.regions, self.results, strict=True):
                if not (results[i].scope == region.id and is_version(results[i])):
                    raise SymbolicValue(
                        f"{call_site(self.function)}(): result {i} is an array that one function writes to by index, "
                        "and a value that another one computes.")
        return found

    def name(self, position: int) -> str:
        return str(position) if self.name_of is None else self.name_of(position)


class _Plain:
    """Trace functions on nodes."""

    def row(self, kind: int, operands: Sequence[Node]) -> Node:
        function: Callable[..., Node] = TRACED.get(kind) or getattr(trace.ops, OPS[kind].name)
        return function(*operands)

    cast = staticmethod(trace.cast)
    bitcast = staticmethod(trace.bitcast)
    gather = staticmethod(trace.gather)
    scatter = staticmethod(trace.scatter)
    atomic = staticmethod(atomic)
    while_loop = staticmethod(while_loop)
    cond = staticmethod(cond)
    call = staticmethod(call)


#: What :func:`inline` traces with unless told otherwise.
PLAIN = _Plain()
