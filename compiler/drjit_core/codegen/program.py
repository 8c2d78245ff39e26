"""The program of one kernel: its nodes in order, its key, and its parameters.

``assemble`` walks the graph once and produces both what a launch needs (parameters, buffers) and the *key*, a sequence
of 64-bit integers.  Only if the key is unknown does an emitter turn the program into text.

The key is injective: it is a sequence of self-delimiting entries, one per node, in an order that emission follows too;
each entry starts with a code that determines how many items follow.  Operands appear as positions.  It follows from the
kernel alone: a leaf comes before the first node that uses it, outputs after all nodes.

Parameter 0 is the width, 1 the address of the reduction's partial results; then come values of literals, addresses of
inputs and of outputs, in the order in which they are met.

A *checked* program (debug mode) compares the indices of gathers and scatters with the size of the memory: a parameter
for each access, and one for the address of the report (two words an access: how many indices were out of bounds, and
the position that one of them asked for).  The target of a call has such parameters in its record, and a part of the
report to itself, so that targets of one function tell their own lines.
"""

from __future__ import annotations

import weakref
from array import array
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ..ir.expansion import COMPOSED, count_updates
from ..ir.node import BAKED, PARAMETER, Node, new_node
from ..ir.region import CONTROL, Loop, arguments_of, in_record, is_local, memory_of
from ..ops.products import OUTER
from ..ops.table import (
    ACCESS,
    BITCAST,
    BOUND,
    CALL,
    CAST,
    COND,
    COUNTER,
    EVALUATED,
    FETCH,
    FIRST_ELEMENTWISE,
    GATHER,
    IS_INDEXED,
    LITERAL,
    LOCAL,
    LOOP,
    OPAQUE,
    OPS,
    PACK,
    PHI,
    REDUCE,
    RESULT,
    SCATTER,
    SEGMENT,
    UNDEFINED,
    VERSIONS,
    VIEW,
)
from ..passes.domain import WIDE_EXTENT, Domain, strides_in
from ..passes.order import append_all, post_order
from ..passes.schedule import Kernel
from ..types import TYPE_BITS, TYPES, ReduceMode, ReduceOp
from .partials import words_of
from .records import Alike, Model, literal_bits, shape_of
from .tables import updated_in_regions
from .target import ATOMIC, COMBINED, PLAIN, PRIVATE, SHARED, SUMMED, Target

__all__ = ["ALIGNED", "Check", "DENSE", "ENTRIES", "PERIODIC", "Program", "REPORT_WORDS",
           "REVERSED", "ROW", "SCALAR", "SHIFTED", "SHIFTED_UNALIGNED", "SPREAD", "STRIDED", "Short", "UNALIGNED",
           "assemble", "streamed_bytes"]

#: Layouts of what is accessed by position: one element; the element of the same position, in padded memory of our own
#: or in foreign memory; neighbours from another position on, in the same two kinds of memory; neighbours backwards.
SCALAR, ALIGNED, UNALIGNED, SHIFTED, SHIFTED_UNALIGNED, REVERSED = range(6)
#: In kernels that go over rows also: one element for each row; elements of a row at some distance from each other.
ROW, STRIDED = 6, 7
#: In flat kernels also: rows of a few elements, which are the same in each row, lie close to those of the next row, or
#: anywhere.
PERIODIC, DENSE, SPREAD = 8, 9, 10
#: Codes of entries that are not ``kind << TYPE_BITS | type``: outputs, and the marks around regions.
STORE, REDUCTION, WRITE, LOOP_BEGIN, LOOP_CONDITION, LOOP_END, COND_BEGIN, REGION_END, EXTRA, STREAMED, STACKED, \
    LINKED = range(-1, -13, -1)
#: Words of a report for each access that is checked.
REPORT_WORDS = 2


class Check(NamedTuple):
    """An access whose indices are compared with the size of the memory."""

    number: int  # of its two words in the program's part of the report
    slot: int  # parameter that holds the size
    access: Node
    size: int


class Short(NamedTuple):
    """The rows of a view whose packets go over several of them."""

    period: int  # number of elements of a row
    outer: int = 0  # distances of elements of neighbouring rows and of a row, if they are part of the program
    inner: int = 0
    wide: bool = False  # whether distances need 64 bits


class Site:
    """A call: its arguments, and its targets.  What a target captures besides literals and memory is an *extra*
    argument; a parameter of the target tells where it lies among all arguments and results.
    """

    __slots__ = ("arguments", "extras", "functions", "results", "shared", "slot", "targets")

    def __init__(self, arguments: list[Node], results: list[tuple[int, int]]) -> None:
        self.arguments = arguments
        self.results = results  # types and sizes
        self.extras: list[Node] = []
        self.targets: list[Program | Alike] = []
        self.functions: tuple[int, ...] = ()  # numbers of those that are called
        self.slot = 0  # parameter with the address of the table; the next one is the number of targets
        self.shared = False  # elements of several targets may be taken together, see :meth:`Program.takes_records`

    @property
    def programs(self) -> list[Program]:
        """The targets, all of which were assembled (see :attr:`Program.detailed`)."""
        found = [target for target in self.targets if isinstance(target, Program)]
        assert len(found) == len(self.targets)
        return found

    def place_of(self, extra: Node) -> int:
        """Place of an extra argument behind the arguments and the results."""
        if extra not in self.extras:
            self.extras.append(extra)
        return len(self.arguments) + len(self.results) + self.extras.index(extra)


class Program:
    """A kernel, assembled: see the module's documentation."""

    __slots__ = ("__weakref__", "_outer", "accesses", "aliases", "alone", "arguments", "axes", "block_tables",
                 "calls", "checked", "checks", "detailed", "domain", "extras", "firsts", "functions", "inputs", "key",
                 "links", "live", "local_bytes", "locals", "loops", "moving", "numbers", "order", "parameters",
                 "pointers", "position", "reductions", "report", "scatters", "shared", "sharing", "short", "slots",
                 "stack", "stores", "strategies", "streaming", "summed", "sums", "tabled", "tables", "target",
                 "updated", "versions", "wide", "width")

    def __init__(self, domain: Domain, target: Target, checked: bool = False, detailed: bool = False) -> None:
        self.domain = domain
        self.width = width = domain.size
        self.target = target
        self.checked = checked
        #: Whether somebody wants to know what the parameters of each target of a call mean.
        self.detailed = detailed or checked
        self.checks: dict[int, Check] = {}  # node id -> check of an access
        self.report = 0  # parameter that holds the address of its part of the report, if there are checks
        self.wide = width >= WIDE_EXTENT  # positions need 64 bits
        self.key: Any = [target.code << 8 | len(domain.extents), *target.classes_of(domain)]
        self.axes = 0  # parameter with the extent of a row, followed by those of the other axes but the outermost, and
        # the number and length of its parts
        self.order: list[Node] = []
        self.position: dict[int, int] = {}  # node id -> place in order
        self.slots: dict[int, int] = {}  # node id -> parameter of a literal, input or output
        self.accesses: dict[int, int] = {}  # node id -> layout, of what is read by position
        self.firsts: dict[int, int] = {}  # node id -> parameter with the first position of a part of an array
        self.short: dict[int, Short] = {}  # view of a flat kernel -> its rows
        self.moving: dict[int, int] = {}  # view -> axes but the innermost, as bits, along which its rows differ
        #: Node id -> parameter of memory that is gathered from or scattered to; for local memory, minus its number.
        self.pointers: dict[int, int] = {}
        self.locals = 0
        self.local_bytes = 0  # of an element
        self.stack: list[Node] = []  # what arrays begin with that are on the stack
        self.parameters: list[int] = [width, 0]
        self.inputs: list[Node] = []
        self.stores: list[Node] = []
        self.strategies: dict[int, int] = {}  # scatter-reduction -> how it copes with conflicts
        #: Node id of the first PRIVATE scatter to a target, of a version that regions make by such, and of the memory
        #: that these are given -> parameter of its tables.
        self.tables: dict[int, int] = {}
        self.tabled: list[tuple[Node, Node, int]] = []  # those scatters and versions, their memory, the operator
        #: Versions that regions make of memory that they only update, the memory, and the updates.
        self.updated: list[tuple[Node, Node, list[Node]]] = []
        self.alone: set[int] = set()  # ids of those updates
        #: Writes of sums of products in regions that are added up as reductions are, and to the memory in the end:
        #: their ids, and those that have a place.
        self.summed: set[int] = set()
        self.sums: list[Node] = []
        #: Scatter-reductions that may update a table of their block, the first ones to their memory; of those that do,
        #: parameter of the memory -> parameter with the number of its elements.
        self.sharing: list[Node] = []
        self.block_tables: dict[int, int] = {}
        self.loops: list[Loop] = []
        self.streaming = False  # so much is read and written that the target does it in another way
        self.reductions: list[Node] = []
        self.scatters: list[Node] = []
        self.versions: list[Node] = []  # results of regions that are memory: written in place
        self.calls: dict[int, Site] = {}  # node id -> the targets of a call
        #: Node id -> the node whose place it has: of copies, and of what a branch is given.
        self.aliases: dict[int, Node] = {}
        self.functions: dict[Any, Program] = {}  # of a kernel: the programs of functions that are called, by their keys
        self.numbers: dict[Any, int] = {}  # their numbers
        self.shared: dict[Any, None] = {}  # keys of those that take elements of several targets together
        # Of a function, whose parameters are the record of a target:
        self._outer: weakref.ref[Program] | None = None
        self.links: list[tuple[int, int]] = []  # parameters, and those of the outer program that they are equal to
        self.arguments: list[Node] = []  # formals that are values
        self.live: Node | None = None  # the mask of the elements that take part
        self.extras: list[Node] = []  # captures that are arguments
        if not domain.is_flat:
            self.axes = len(self.parameters)
            whole = domain.extents[-2] if domain.columns else domain.row
            self.parameters += (*domain.extents[:0:-1], domain.parts, domain.part or whole)

    @property
    def units(self) -> int:
        """Number of parts that the work is made of: elements, rows, parts of rows, or columns of rows."""
        return self.domain.units

    @property
    def unit(self) -> int:
        """Number of elements of such a part."""
        return self.domain.unit

    def has_rows(self, node: Node) -> bool:
        """Whether a node has an element for each row."""
        return not self.domain.is_flat and 1 != node.size != self.width

    @property
    def outer(self) -> Program | None:
        """Of a function: the program that calls it, as long as somebody holds that."""
        return None if self._outer is None else self._outer()

    @property
    def is_function(self) -> bool:
        """Whether this is the target of a call, and no kernel."""
        return self._outer is not None

    @property
    def reduced(self) -> list[Any]:
        """What the reductions of a kernel are of, and the sums of products that are added up as these are."""
        return [*[node.d0 for node in self.reductions], *[node.d1 for node in self.sums]]

    @property
    def partial_words(self) -> int:
        """Words of 8 bytes that each block of a kernel leaves of its reductions."""
        return words_of(self.reduced, self.target.rooms)

    @property
    def takes_records(self) -> bool:
        """Of a function: whether elements of several targets can be taken together, each with a record of its own.

        What writes, calls, or asks for memory ahead is for one target at a time, and so is what has further arguments.
        """
        return self.width != 1 and not self.extras and not self.checks and all(
            node.kind in _WITH_RECORDS or node.kind >= FIRST_ELEMENTWISE or node.kind in COMPOSED
            for node in self.order) and not any(
            self.is_large(memory) for node in self.order if node.kind == GATHER or node.kind in COMPOSED
            for memory in memory_of(node))

    def pointer(self, node: Node) -> int:
        """Parameter that holds the address of an array in memory."""
        slot = self.pointers.get(node.id)
        if slot is None:
            outer = self.outer
            assert node.kind != PHI or outer is not None
            slot = self.pointers[node.id] = len(self.parameters)
            if outer is not None and node.kind != EVALUATED:
                self.link(slot, outer.pointer(node))
            elif node.kind == EVALUATED:
                self.parameters.append(node.payload.address)
                self.inputs.append(node)
            else:
                self.parameters.append(0)
        return slot

    def link(self, slot: int, outer: int) -> None:
        """Append a parameter that is equal to one of the outer program: the address of memory that is written."""
        self.parameters.append(0)
        self.links.append((slot, outer))
        if self.target.static_calls:
            self.key += (LINKED, slot, outer)

    @property
    def written(self) -> set[int]:
        """Parameters that hold the address of memory which the kernel writes, here or in other functions."""
        written = {self.pointers[node.id] for node in (*self.order, *self.scatters) if node.kind == SCATTER}
        written.update(slot for slot, _ in self.links)
        for site in self.calls.values():
            written.update(outer for target in site.targets for _, outer in target.links)
        return {slot for slot in written if slot > 0}

    def class_of(self, memory: Node) -> int:
        """What the text of an access depends on: whether its memory needs wide indices, and is large."""
        return 0 if is_local(memory) else (memory.size >= WIDE_EXTENT) | self.asks_ahead(memory) << 2

    def access_class(self, access: Node, memory: Node) -> int:
        """What the text of an access depends on besides its memory: :meth:`class_of`, and whether it is checked."""
        if is_local(memory):
            return 0
        wide = self.class_of(memory)
        if not self.checked:
            return wide
        if not self.checks:
            self.report = len(self.parameters)
            self.parameters.append(0)
        self.checks[access.id] = Check(len(self.checks), len(self.parameters), access, memory.size)
        self.parameters.append(memory.size)
        return wide | 2

    def asks_ahead(self, memory: Node) -> bool:
        """Whether what is accessed by index is asked for ahead: in large arrays, but not on the stack."""
        return self.pointers[memory.id] > 0 and self.is_large(memory)

    def is_large(self, memory: Node) -> bool:
        """Whether an array is."""
        return self.target.is_large(memory.size * TYPES[memory.type].size)

    def place_of(self, node: Node) -> int:
        """Position of a node whose operands are in place; a leaf is appended if it is not there yet."""
        place = self.position.get(node.id)
        if place is None:
            self.append(node)
            place = self.position[node.id]
        return place

    def append(self, node: Node) -> None:
        """Append a node whose operands are in place, extending key and parameters."""
        position, key = self.position, self.key
        position[node.id] = len(self.order)
        self.order.append(node)
        kind = node.kind
        if kind >= FIRST_ELEMENTWISE:
            if node.d1 is None:
                key += (kind << TYPE_BITS | node.type, position[node.d0.id])  # type: ignore[union-attr]
            elif node.d2 is None:
                key += (kind << TYPE_BITS | node.type, position[node.d0.id], position[node.d1.id])  # type: ignore[union-attr]
            else:
                key += (kind << TYPE_BITS | node.type, position[node.d0.id], position[node.d1.id],  # type: ignore[union-attr]
                        position[node.d2.id])
        else:
            if kind in VERSIONS:
                key.append(VERSIONS[kind])
            ENTRIES.get(kind, Program.append_structured)(self, node)

    def append_structured(self, node: Node) -> None:
        """Key of a row with structure about which there is nothing else to be said: what its memory is like, its
        operands, ``attr``, and ``payload``, which is a tuple of numbers if it is anything."""
        self.key.append(node.kind << TYPE_BITS | node.type)
        for memory in memory_of(node):
            self.key += (self.pointer(memory), self.class_of(memory) << TYPE_BITS | memory.type)
        self.key += [self.position[operand.id] for operand in arguments_of(node)]
        payload = node.payload or ()
        if not isinstance(payload, tuple) or not all(isinstance(each, int) for each in payload):
            raise TypeError(f"the payload of the row '{OPS[node.kind].name}' must be a tuple of integers, found "
                            f"{payload!r}")
        self.key += (node.attr, len(payload), *payload)

    def append_bound(self, node: Node) -> None:
        """Key and parameter of a constant: to whoever makes text of it, a literal like any other."""
        self.order[-1] = literal = _as_literal(node)
        self.append_literal(literal)

    def append_evaluated(self, node: Node) -> None:
        """Key and parameter of an array in memory that is read by position."""
        buffer = node.payload
        access = SCALAR if node.size == 1 else ROW if self.has_rows(node) else \
            ALIGNED if buffer.padded else UNALIGNED
        self.key += (EVALUATED << TYPE_BITS | node.type, access)
        self.accesses[node.id] = access
        self.slots[node.id] = len(self.parameters)
        self.parameters.append(buffer.address)
        self.inputs.append(node)

    def append_gather(self, node: Node) -> None:
        """Key of a read by index."""
        source, index, mask = node.d0, node.d1, node.d2
        assert source is not None and index is not None and mask is not None
        self.key += (GATHER << TYPE_BITS | node.type, self.pointer(source), self.access_class(node, source),
                     self.position[index.id], self.position[mask.id])

    def append_segment(self, node: Node) -> None:
        """Key of a reduction along an axis."""
        assert node.d0 is not None
        self.key += (SEGMENT << TYPE_BITS | node.type, node.attr, self.position[node.d0.id])

    def append_result(self, node: Node) -> None:
        """Key of what a loop, a branch or a call computes."""
        assert node.d0 is not None
        if node.payload and node.id not in self.tables:
            self.pointers[node.id] = self.pointers[node.d0.payload.origin(node.attr).id]
        self.key += (RESULT << TYPE_BITS | node.type, self.position[node.d0.id], node.attr)

    def append_leaf(self, node: Node) -> None:
        """Key of a counter, or of undefined memory."""
        self.key.append(node.kind << TYPE_BITS | node.type)
        if not self.domain.is_flat:
            self.key.append(self.has_rows(node))

    def append_own(self, node: Node) -> None:
        """Key of memory that each element has to itself."""
        self.append_local(node.id, TYPES[node.type].size * node.size)
        self.key += (LOCAL << TYPE_BITS | node.type, node.size)

    def append_opaque(self, node: Node) -> None:
        """Note that a copy is the value that it is of, whatever becomes of it."""
        assert node.d0 is not None
        self.order.pop()
        self.place_of(node.d0)
        self.append_alias(node, node.d0)

    def append_pack(self, node: Node) -> None:
        """No part of a program: its user sees through it."""
        self.order.pop()
        del self.position[node.id]

    def append_one(self, node: Node) -> None:
        """Key of what one operand tells all about: a conversion, or what a scatter-reduction has found."""
        assert node.d0 is not None
        self.key += (node.kind << TYPE_BITS | node.type, self.position[node.d0.id])

    def append_local(self, number: int, size: int) -> None:
        """Note local memory of so many bytes an element, that a node is known by."""
        self.locals += 1
        self.pointers[number] = -self.locals
        self.local_bytes += size

    def append_stack(self, begin: Node, entries: int) -> None:
        """Append memory that is on the stack, which begins as a constant or undefined."""
        content = begin.d0 if begin.kind == OPAQUE else begin
        assert content is not None
        place = -1 if content.kind == UNDEFINED else self.place_of(content)
        self.append_local(begin.id, TYPES[begin.type].size * entries)
        self.stack.append(begin)
        self.position[begin.id] = len(self.order)
        self.order.append(_as_local(begin, entries, None if place < 0 else content))
        self.key += (STACKED, begin.type, entries, place)

    def append_alias(self, node: Node, original: Node) -> None:
        """Give a node the place of another one, whose value it is."""
        place = self.position[node.id] = self.position[original.id]
        self.aliases[node.id] = self.order[place]

    def append_access(self, node: Node) -> None:
        """Key and parameters of a part of an array, which is in memory by now."""
        source, (first, stride) = node.d0, node.payload
        assert source is not None and source.kind == EVALUATED
        layout = REVERSED if stride < 0 else SHIFTED if source.payload.padded else SHIFTED_UNALIGNED
        self.accesses[node.id] = layout
        self.key += (ACCESS << TYPE_BITS | node.type, self.pointer(source), layout)
        self.firsts[node.id] = len(self.parameters)
        self.parameters.append(first)

    def append_view(self, node: Node) -> None:
        """Key and parameters of a view: of an array in memory, or of what there is one of for each row."""
        source, (base, extents, strides) = node.d0, node.payload
        assert source is not None
        if self.domain.is_flat:
            self.append_short_view(node)
            return
        if source.kind != EVALUATED:
            self.accesses[node.id] = ROW
            self.key += (VIEW << TYPE_BITS | node.type, ROW, self.position[source.id])
            return
        steps = strides_in(self.domain, extents, strides)
        neighbours = SHIFTED if source.payload.padded else SHIFTED_UNALIGNED
        layout = {0: ROW, 1: neighbours, -1: REVERSED}.get(steps[-1], STRIDED)
        self.accesses[node.id] = layout
        moving = self.moving[node.id] = sum((stride != 0) << axis for axis, stride in enumerate(steps[:-1]))
        self.key += (VIEW << TYPE_BITS | node.type, layout, self.pointer(source), moving)
        self.firsts[node.id] = len(self.parameters)
        self.parameters += (base, *(stride & _WORD for stride in steps))

    def append_short_view(self, node: Node) -> None:
        """Key and parameters of a view of short rows in a flat kernel: what they have in common with a few others is
        part of the program."""
        source, (base, (_, period), (outer, inner)) = node.d0, node.payload
        assert source is not None and source.kind == EVALUATED
        if not outer:
            layout, short = PERIODIC, Short(period)
        elif 0 < outer <= period + 1 and abs(inner) <= period:
            layout, short = DENSE, Short(period, outer, inner)
        else:
            layout, short = SPREAD, Short(period, wide=source.size >= WIDE_EXTENT)
        self.accesses[node.id], self.short[node.id] = layout, short
        self.key += (VIEW << TYPE_BITS | node.type, layout, self.pointer(source), *short)
        self.firsts[node.id] = len(self.parameters)
        self.parameters += (base, outer & _WORD, inner & _WORD)

    def append_literal(self, node: Node) -> None:
        """Key and parameter of a literal: part of the program if baked, else a parameter."""
        value = node.payload
        if node.attr == BAKED:
            bits = literal_bits(node.type, value) if TYPES[node.type].is_float else int(value)
            self.key += (LITERAL << TYPE_BITS | node.type, bits - (bits >> 63 << 64) if bits > 0 else bits)
            return
        self.key.append(node.type)  # kind 0: a parameter
        self.slots[node.id] = len(self.parameters)
        self.parameters.append(literal_bits(node.type, value))

    def append_loop(self, node: Node) -> None:
        """Key and order of a loop and its region."""
        loop, position, key = node.payload, self.position, self.key
        region = loop.region
        self.loops.append(loop)
        values = [formal for formal in region.formals if not formal.payload]
        key += (LOOP_BEGIN, len(values), len(region.formals) - len(values),
                position[node.d0.id] if node.d0 is not None else -1)
        key += [position[initial.id] for initial, formal in zip(loop.initial, region.formals, strict=True)
                if not formal.payload]
        for initial, formal in zip(loop.initial, region.formals, strict=True):
            if formal.payload:
                self.pointers[formal.id] = self.tables.get(initial.id) or self.pointer(initial)
                key.append(self.pointers[formal.id])
            else:
                self.append_formal(formal)
        entering, live = region.masks
        self.append_formal(entering)
        for inner in region.parts[0]:
            self.append(inner)
        key += (LOOP_CONDITION, position[loop.condition.id])
        self.append_formal(live)
        for inner in region.parts[1]:
            self.append(inner)
        key.append(LOOP_END)
        key += [position[final.id] for final, formal in zip(loop.finals, region.formals, strict=True)
                if not formal.payload]

    def append_cond(self, node: Node) -> None:
        """Key and order of a branch and its regions."""
        choice, position, key = node.payload, self.position, self.key
        assert node.d0 is not None
        key += (COND_BEGIN, position[node.d0.id], position[node.d1.id] if node.d1 is not None else -1, choice.count,
                sum(1 for _ in choice.memory()))
        for region in choice.regions:
            for initial, formal in zip(choice.initial, region.formals, strict=True):
                if formal.payload:
                    self.pointers[formal.id] = self.tables.get(initial.id) or self.pointer(initial)
                    key.append(self.pointers[formal.id])
                else:
                    self.append_alias(formal, initial)
            self.append_formal(region.masks[0])
            for inner in region.parts[0]:
                self.append(inner)
            key.append(REGION_END)
            key += [position[result.id] for result in region.results[0][:choice.count]]

    def append_call(self, node: Node) -> None:
        """Key of a call; the programs of its targets, of which equal ones become one function."""
        choice, position = node.payload, self.position
        assert node.d0 is not None and node.d1 is not None
        arguments = list(choice.arguments())
        site = Site(arguments, [(result.type, result.size) for result in choice.regions[0].results[0][:choice.count]])
        models: dict[Any, list[Model]] = {}
        for region in choice.regions:
            shape = None if self.detailed else shape_of(region)
            similar = [] if shape is None else models.setdefault(shape, [])
            for model in similar:
                like = model.target(region, self.inputs, site)
                if like is not None:
                    site.targets.append(like)
                    break
            else:
                target = self.assembled(choice, region, site)
                site.targets.append(target)
                if shape is not None and len(similar) < _MODELS:
                    similar.append(Model(target, region, choice.count))
        site.slot = len(self.parameters)
        self.parameters += (0, len(site.targets))  # address of the table, number of targets
        self.calls[node.id] = site
        functions = Counter([target.key for target in site.targets])
        for each in site.targets:
            if isinstance(each, Program):  # the first one of its function
                self.functions.setdefault(each.key, each)
        for key, count in functions.items():
            site.functions += (self.numbers.setdefault(key, len(self.numbers)),)
            if count > 1 and (key in self.shared or self.functions[key].takes_records):
                self.shared[key] = None
                site.shared = True
        self.key += (CALL << TYPE_BITS, site.slot, position[node.d0.id], position[node.d1.id],
                     position[node.d2.id] if node.d2 is not None else -1, len(arguments), len(site.extras),
                     choice.count, *(position[value.id] for value in (*arguments, *site.extras)),
                     *(type_ for type_, _ in site.results), len(functions))
        for function, count in functions.items():
            self.key += (count > 1, len(function), *array("q", function))

    def assembled(self, choice: Any, region: Any, site: Site) -> Program:
        """The program of a call's target."""
        target = Program(self.domain, self.target, self.checked, self.detailed)
        target._outer, target.inputs = weakref.ref(self), self.inputs
        target.functions, target.numbers, target.shared = self.functions, self.numbers, self.shared
        target.append_target(choice, region, site)
        target.functions = {}  # no circles: programs go with their last holder, as planning counts those of nodes
        return target

    def append_target(self, choice: Any, region: Any, site: Site) -> None:
        """Assemble the function of a call's target: what it uses from outside is a parameter, or an argument."""
        used = {memory.id for node in region.nodes if IS_INDEXED[node.kind] for memory in memory_of(node)}
        used.update(version.id for node in region.nodes if node.kind in CONTROL
                    for version in (*node.payload.memory(), *node.payload.sources()))
        for initial, formal in zip(choice.initial, region.formals, strict=True):
            if not formal.payload:
                self.append_formal(formal)
                self.arguments.append(formal)
            elif formal.id in used:
                assert self.outer is not None
                slot = self.pointers[formal.id] = len(self.parameters)
                self.link(slot, self.outer.pointer(initial))
        self.live = region.masks[0]
        self.append_formal(self.live)
        for capture in region.captures:
            if in_record(capture):
                if capture.id not in region.recorded:  # else it is in the records of other targets
                    self.append(capture)
            else:
                self.position[capture.id] = len(self.order)
                self.order.append(capture)
                place = site.place_of(capture)
                self.key += (EXTRA, capture.type, place) if self.target.static_calls else (EXTRA, capture.type)
                self.extras.append(capture)
                self.slots[capture.id] = len(self.parameters)
                self.parameters.append(place)
        for inner in region.parts[0]:
            self.append(inner)
        self.key.append(REGION_END)
        self.key += [self.position[result.id] for result in region.results[0][:choice.count]]
        self.stores = list(region.results[0][:choice.count])
        self.finish_key()

    def append_formal(self, formal: Node) -> None:
        """Append a formal of a region."""
        self.position[formal.id] = len(self.order)
        self.order.append(formal)
        self.key += (formal.kind << TYPE_BITS | formal.type, formal.size != 1)

    def append_scatter(self, node: Node) -> None:
        """Append a write inside of a region, which happens where it stands."""
        target, position = node.d0, self.position
        assert target is not None
        pointer = self.pointers[node.id] = self.pointers[target.id]
        if node.attr == ReduceOp.Identity.value:
            self.strategies[node.id], strategy = PLAIN, self.choose_strategy(node, target)
        elif node.id in self.summed:
            strategy = self.strategies[node.id] = SUMMED
            self.sums.append(node)
        else:
            strategy = self.strategies[node.id] = PRIVATE if pointer in self.tables.values() else \
                self.target.inner_strategy(node.payload, self.width)
        self.key += (SCATTER << TYPE_BITS | node.type, node.attr, strategy, pointer, self.access_class(node, target),
                     *[position[operand.id] for operand in arguments_of(node)])

    def add_output(self, node: Node) -> None:
        """Append one of the kernel's outputs and what it needs."""
        key = self.key
        if node.kind == REDUCE:
            assert node.d0 is not None
            place = self.place_of(node.d0)
            key += (REDUCTION, node.attr, place)
            self.reductions.append(node)
            self.slots[node.id] = len(self.parameters)
        elif node.kind == SCATTER:
            assert node.d0 is not None and node.d1 is not None and node.d2 is not None and node.d3 is not None
            places = [self.place_of(operand) for operand in (node.d1, node.d2, node.d3)]
            target = node.d0
            if target.kind == SCATTER:  # an earlier write of this kernel to the same memory
                self.pointers[node.id] = self.pointers[target.id]
            else:
                self.pointers[node.id] = self.pointer(target)
            strategy = self.choose_strategy(node, target)
            if strategy == COMBINED and target.kind != SCATTER:
                strategy = self.choose_table(node)
            key += (WRITE, node.attr, strategy, self.pointers[node.id], self.access_class(node, target), *places)
            self.scatters.append(node)
            if strategy == PRIVATE and target.kind != SCATTER:
                self.pointers[node.id] = self.append_tables(node, target, node.attr)
            return
        elif node.kind == RESULT and node.payload:
            if node.id not in self.tables:
                self.versions.append(node)
            return
        else:
            place = self.place_of(node)
            key += (STORE, place)
            self.stores.append(node)
            self.slots[node.id] = len(self.parameters)
        self.parameters.append(0)

    def choose_table(self, node: Node) -> int:
        """How a scatter-reduction does that may update a table of its block; if so, append its parameter."""
        if self.domain.is_flat and self.target.may_share(node.payload, node.attr << TYPE_BITS | node.type,
                                                         len(self.sharing)):
            self.sharing.append(node)
            if self.target.shares(node.size, self.width):
                self.block_tables[self.pointers[node.id]] = len(self.parameters)
                self.parameters.append(node.size)
                self.strategies[node.id] = SHARED
        return self.strategies[node.id]

    def append_tables(self, node: Node, memory: Node, op: int) -> int:
        """Append the parameters of tables, whose updates make a node of some memory: address, and bytes of a table."""
        slot = self.tables[node.id] = len(self.parameters)
        self.parameters += (0, 0)
        self.tabled.append((node, memory, op))
        return slot

    def find_tables(self, order: Sequence[Node], outputs: Sequence[Node]) -> None:
        """Let regions update tables of each thread where memory is small, and add up sums of products by themselves."""
        if not self.target.has_tables or not self.domain.is_flat:
            return
        for node, memory, updates in updated_in_regions(order, outputs):
            sums = [update.id for update in updates if update.d1.kind == OUTER]  # type: ignore[union-attr]
            if sums:
                self.summed.update(sums)
                continue
            if node.d0.size == 1:  # type: ignore[union-attr]
                continue  # nothing conflicts
            self.updated.append((node, memory, updates))
            self.alone.update(update.id for update in updates)
            count = count_updates(updates)
            strategies = {self.target.strategy_in_regions(update.payload, memory.size, self.width, count)
                          for update in updates}
            if strategies == {PRIVATE}:
                self.tables[memory.id] = self.append_tables(node, memory, updates[0].attr)

    def let_stand_for(self, part: Node, write: Node) -> None:
        """Let a node stand for a part of what a write is, which accesses memory as that does."""
        tables: tuple[dict[int, Any], ...] = self.pointers, self.strategies, self.checks
        for known in tables:
            if write.id in known:
                known[part.id] = known[write.id]
        if write.id in self.alone:
            self.alone.add(part.id)

    def computes(self) -> bool:
        """Whether the program does more than to store constants."""
        return bool(self.scatters or self.reductions) or any(node.kind != LITERAL for node in self.order)

    def finish_key(self) -> None:
        """Make the key a sequence of bytes, 8 for each entry."""
        self.key = array("q", self.key).tobytes()

    def choose_strategy(self, node: Node, target: Node) -> int:
        """How a scatter copes with conflicts; of plain ones, which have no need to, whether neighbours go together."""
        if node.attr == ReduceOp.Identity.value:
            return ATOMIC if node.payload == ReduceMode.Direct.value else PLAIN
        if target.kind == SCATTER:
            strategy = self.strategies.get(target.id, PLAIN)  # after a plain write only if the width is 1
        else:
            strategy = self.target.strategy(node.payload, node.size, self.width)
        self.strategies[node.id] = strategy
        return strategy


#: What appends the key and the parameters of a node that has its place, by kinds; rows that are elementwise have none,
#: and others :meth:`Program.append_structured` unless they are here.
ENTRIES: dict[int, Callable[[Program, Node], None]] = {
    LITERAL: Program.append_literal, BOUND: Program.append_bound, EVALUATED: Program.append_evaluated,
    GATHER: Program.append_gather, ACCESS: Program.append_access, VIEW: Program.append_view,
    SEGMENT: Program.append_segment, LOOP: Program.append_loop, COND: Program.append_cond, CALL: Program.append_call,
    SCATTER: Program.append_scatter, RESULT: Program.append_result, COUNTER: Program.append_leaf,
    UNDEFINED: Program.append_leaf, LOCAL: Program.append_own, OPAQUE: Program.append_opaque,
    PACK: Program.append_pack, FETCH: Program.append_one, CAST: Program.append_one, BITCAST: Program.append_one}

#: Of targets with the same operations in order, so many are looked at before another one is assembled.
_MODELS = 8
#: What elements of several targets compute together, besides elementwise operations.
_WITH_RECORDS = {LITERAL, UNDEFINED, EVALUATED, CAST, BITCAST, PHI, GATHER, LOOP, COND, RESULT}
#: A parameter, of which negative numbers take the upper half.
_WORD = (1 << 64) - 1


def _as_literal(node: Node) -> Node:
    """A literal with the value that a constant has now, and its place in the graph."""
    literal: Node = new_node(Node)
    literal.kind, literal.type, literal.size, literal.id = LITERAL, node.type, node.size, node.id
    literal.d0 = literal.d1 = literal.d2 = literal.d3 = None
    literal.attr, literal.payload, literal.scope, literal.where = PARAMETER, node.payload, 0, 0
    return literal


def _as_local(begin: Node, entries: int, content: Node | None) -> Node:
    """Local memory in place of an array, and what it begins with."""
    local: Node = new_node(Node)
    local.kind, local.type, local.size, local.id = LOCAL, begin.type, entries, begin.id
    local.d0, local.d1, local.d2, local.d3 = content, None, None, None
    local.attr, local.payload, local.scope = 1, None, 0  # 1: what an element has is its part of the array
    local.where = begin.where
    return local


def streamed_bytes(program: Program) -> int:
    """Bytes that each element of a kernel reads and writes by position; 0 if it writes none."""
    if not program.stores or any(program.has_rows(node) for node in program.stores):
        return 0
    accesses = program.accesses
    return sum(TYPES[node.type].size for node in program.stores) + \
        sum(TYPES[node.type].size for node in program.order
            if node.id in accesses and accesses[node.id] not in (SCALAR, ROW, PERIODIC))


def assemble(kernel: Kernel, target: Target, checked: bool = False, detailed: bool = False) -> Program:
    """The program of a planned kernel.  Everything from earlier stages must be evaluated by now."""
    program = Program(kernel.domain, target, checked, detailed)
    for begin, entries in kernel.stack:
        program.append_stack(begin, entries)
    order = post_order(kernel.outputs) if kernel.order is None else kernel.order
    program.find_tables(order, kernel.outputs)
    append_all(order, program.position, program.order, program.key, program.append)
    for node in kernel.outputs:
        program.add_output(node)
    bytes_ = streamed_bytes(program)
    if bytes_ and target.streams(kernel.width, bytes_, 0 if kernel.domain.is_flat else kernel.domain.row):
        program.streaming = True
        program.key.append(STREAMED)
    program.finish_key()
    return program
