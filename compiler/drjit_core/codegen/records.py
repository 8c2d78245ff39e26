"""Records of the targets of calls, and how they lie in memory with the tables that name them.

A target may be like an earlier one: the same function, with a record of its own. Instances of a class differ in numbers
and arrays only. To assemble the function of each is most of what a call of a thousand costs; to compare two regions,
node by node, is a fraction of it.
"""

from __future__ import annotations

from typing import Any, Protocol

from ..ir.node import BAKED, Node
from ..ir.region import Region, in_record
from ..ops.semantics import bits_of
from ..ops.table import (
    EVALUATED,
    FIRST_ELEMENTWISE,
    FIRST_REGISTERED,
    IS_POINTWISE,
    LITERAL,
    MEMORY_OPERANDS,
    PACK,
)
from ..passes.domain import WIDE_EXTENT
from ..types import TYPES
from .target import Target

__all__ = ["ENTRY_WORDS", "Alike", "Assembled", "Bound", "Layout", "Model", "layout_of", "literal_bits", "shape_of"]

#: Words that the table of a call has for each target: its function, its record, and the function that takes elements of
#: several targets, 0 if there is none.
ENTRY_WORDS = 3


class Bound(Protocol):
    """A program, or a binding of it: parameters with values, and the calls by the numbers of their nodes."""

    parameters: list[int]
    calls: Any  # of what has a `slot` and `targets`, such as :class:`.program.Site`
    functions: Any
    shared: Any


class Assembled(Bound, Protocol):
    """A program."""

    key: Any
    target: Target
    slots: dict[int, int]
    pointers: dict[int, int]


class Alike:
    """A target that is like an earlier one: what differs is in its record."""

    __slots__ = ("calls", "key", "links", "parameters")

    def __init__(self, key: Any, parameters: list[int]) -> None:
        self.key = key
        self.parameters = parameters
        self.links: tuple[tuple[int, int], ...] = ()
        self.calls: dict[int, Any] = {}


class Model:
    """A target that was assembled, which others may be like."""

    __slots__ = ("captures", "count", "key", "large", "parameters", "region", "sources", "static")

    def __init__(self, program: Assembled, region: Region, count: int) -> None:
        self.region = region
        self.count = count
        self.key = program.key
        self.parameters: list[int] = program.parameters
        self.large, self.static = program.target.large_bytes, program.target.static_calls
        #: Parameters of captures, or -1 where they are part of the program; and of arrays that are read by index.
        self.captures = [program.slots.get(capture.id, -1) for capture in region.captures]
        self.sources = [program.pointers.get(source.id, -1) for source in region.sources]

    def target(self, region: Region, inputs: list[Node], site: Any) -> Alike | None:
        """The target of another region of the same call, if it has the same function."""
        partner: dict[int, int] = {}
        memory: dict[int, int] = {}
        model = self.region
        if len(region.captures) != len(model.captures) or len(region.sources) != len(model.sources):
            return None
        for number in range(len(model.formals)):
            one, other = region.formals[number], model.formals[number]
            if other.payload or one.size != other.size:
                return None
            partner[one.id] = other.id
        partner[region.masks[0].id] = model.masks[0].id
        for number in range(len(model.captures)):
            one, other = region.captures[number], model.captures[number]
            if not _is_alike(one, other):
                return None
            partner[one.id] = other.id
        for number in range(len(model.sources)):
            one, other = region.sources[number], model.sources[number]
            if one.kind != EVALUATED or other.kind != EVALUATED or one.type != other.type or \
                    _access(one, self.large) != _access(other, self.large):
                return None
            memory[one.id] = other.id
        if not _are_alike(region.parts[0], model.parts[0], partner, memory):
            return None
        for number in range(self.count):
            one, other = region.results[0][number], model.results[0][number]
            if partner.get(one.id, -1) != other.id:
                return None
        parameters = self.parameters.copy()
        for number in range(len(self.captures)):
            slot, one = self.captures[number], region.captures[number]
            if one.kind == LITERAL:
                if slot >= 0:
                    parameters[slot] = literal_bits(one.type, one.payload)
            elif in_record(one):
                parameters[slot] = one.payload.address
                inputs.append(one)
            else:
                place = site.place_of(one)
                if self.static and place != parameters[slot]:
                    return None
                parameters[slot] = place
        for number in range(len(self.sources)):
            slot, one = self.sources[number], region.sources[number]
            parameters[slot] = one.payload.address
            inputs.append(one)
        return Alike(self.key, parameters)


def shape_of(region: Region) -> Any:
    """What regions have in common that may be alike; ``None`` for those with writes or regions of their own."""
    if region.inner or region.writes:
        return None
    return len(region.captures), len(region.sources), bytes([node.kind for node in region.parts[0]])


def _is_alike(one: Node, other: Node) -> bool:
    """Whether two captures differ in what records hold, at most."""
    if one.kind != other.kind:
        return not in_record(one) and not in_record(other) and one.type == other.type
    if one.type != other.type or in_record(one) != in_record(other):
        return False
    if one.kind == LITERAL:
        return one is other or one.attr != BAKED and other.attr != BAKED
    return one.kind == EVALUATED or not in_record(one)


def _are_alike(nodes: list[Node], model: list[Node], partner: dict[int, int], memory: dict[int, int]) -> bool:
    """Whether nodes compute the same, given which values and arrays correspond to each other."""
    if len(nodes) != len(model):
        return False
    for number in range(len(nodes)):
        one, other = nodes[number], model[number]
        kind = one.kind
        if kind != other.kind or one.type != other.type:
            return False
        if kind < FIRST_ELEMENTWISE:
            if kind == PACK:  # its user sees through it
                continue
            if not IS_POINTWISE[kind] or one.attr != other.attr or one.payload != other.payload:
                return False
            arrays: int = MEMORY_OPERANDS[kind]
        else:
            arrays = 0
        if not (_correspond(one.d0, other.d0, memory if arrays > 0 else partner) and
                _correspond(one.d1, other.d1, memory if arrays > 1 else partner) and
                _correspond(one.d2, other.d2, memory if arrays > 2 else partner)):
            return False
        if kind >= FIRST_REGISTERED and not _correspond(one.d3, other.d3, partner):
            return False
        partner[one.id] = other.id
    return True


def _correspond(one: Node | None, other: Node | None, partner: dict[int, int]) -> bool:
    """Whether operands correspond to each other, or all of those in a pack."""
    if one is None or other is None:
        return one is other
    if one.kind == PACK and other.kind == PACK:
        return _correspond(one.d0, other.d0, partner) and _correspond(one.d1, other.d1, partner) and \
            _correspond(one.d2, other.d2, partner)
    return partner.get(one.id, -1) == other.id


def _access(memory: Node, large: int) -> int:
    """What the text of a read depends on: see :meth:`~.program.Program.access_class`."""
    return (memory.size >= WIDE_EXTENT) | (memory.size * TYPES[memory.type].size > large) << 2


def literal_bits(type_: int, value: Any) -> int:
    """The value of a literal as a parameter."""
    info = TYPES[type_]
    if info.is_float:
        return bits_of(value, info)
    return int(value) & 0xFFFF_FFFF_FFFF_FFFF


class Layout:
    """The parameters of a kernel, and behind them what they refer to: words that mean the same wherever they lie.

    The records of all targets follow, those of calls within calls included, and then the tables of all calls.
    """

    __slots__ = ("firsts", "functions", "links", "moves", "parts", "words")

    def __init__(self, program: Bound) -> None:
        self.words: list[int] = program.parameters.copy()
        #: Whose parameters, or records, there are, and at which words they begin.
        self.parts: list[Any] = [program]
        self.firsts: list[int] = [0]
        #: Words that are copies of earlier ones, and which ones; that are addresses of others; that are functions, by
        #: their number, and whether it is the one for several targets.
        self.links: list[tuple[int, int]] = []
        self.moves: list[tuple[int, int]] = []
        self.functions: list[tuple[int, int, bool]] = []


def layout_of(program: Bound) -> Layout:
    """The layout of a program, with the parameters that it has now."""
    layout = Layout(program)
    words, parts, firsts, moves, functions = layout.words, layout.parts, layout.firsts, layout.moves, layout.functions
    for part in parts:  # which grows meanwhile
        for site in part.calls.values():
            for target in site.targets:
                firsts.append(len(words))
                parts.append(target)
                words += target.parameters
    numbers = {key: number for number, key in enumerate(program.functions)}
    following = 1
    for place in range(len(parts)):
        outer = firsts[place]
        for site in parts[place].calls.values():
            moves.append((outer + site.slot, len(words)))
            for target in site.targets:
                first, word, key = firsts[following], len(words), target.key
                following += 1
                for link in target.links:
                    layout.links.append((first + link[0], outer + link[1]))
                functions.append((word, numbers[key], False))
                moves.append((word + 1, first))
                if key in program.shared:
                    functions.append((word + 2, numbers[key], True))
                words += (0,) * ENTRY_WORDS
    return layout
