"""Which memory a kernel has to itself, on a stack.

Local memory is an array of which each element has a part of its own (:data:`~drjit_core.control.alike.OF_ELEMENTS`).
If one kernel begins with it, writes to it and reads it, and nobody wants it afterwards, there is no array: elements
that are computed one after the other use the same few entries on the stack.

What is decided here is never wrong, at worst slow: loops and branches that write to nothing but such memory have no
effects, and whoever asks for their results later computes them once more.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from ..control.alike import NEIGHBOURS, OF_ELEMENTS
from ..ir.holders import held_elsewhere
from ..ir.node import Node
from ..ir.region import CONTROL, Control
from ..ops.table import CALL, GATHER, IS_WRITE, LITERAL, OPAQUE, RESULT, UNDEFINED
from ..types import TYPES

__all__ = ["OnStack", "memory_on_stack"]


class OnStack(NamedTuple):
    """What lies on the stack."""

    #: How many entries an element has, by the ids of what arrays begin with.
    entries: Mapping[int, int] = {}
    #: The ids of all versions of these arrays, with those of what they begin with.
    versions: Collection[int] = ()


class _Array:
    """An array that constructs access, from what it begins with to its last version."""

    __slots__ = ("begin", "fits", "stage", "versions", "width", "written")

    def __init__(self, begin: Node, node: Node, stage: int) -> None:
        self.begin = begin
        self.width, self.stage = node.size, stage
        self.versions: dict[int, Node] = {}
        self.written = False
        self.fits = node.size > 1 and not begin.size % _whole(node.size) and (
            begin.kind == UNDEFINED or begin.kind == OPAQUE and begin.d0 is not None
            and begin.d0.kind in (LITERAL, UNDEFINED))

    @property
    def entries(self) -> int:
        """Entries that an element has."""
        return self.begin.size // _whole(self.width)

    @property
    def bytes(self) -> int:
        """Bytes of these."""
        return TYPES[self.begin.type].size * self.entries


def memory_on_stack(order: list[Node], roots: list[Node], stages: Mapping[int, int], most: int) -> OnStack:
    """What can lie on the stack of a kernel, of the memory that nodes in order use, with so many bytes for an element;
    ``stages`` says when these are computed."""
    search = _Search(stages)
    search.find(order)
    if not any(array.fits and array.written for array in search.arrays.values()):
        return OnStack()
    search.look_at_uses(order)
    for array in search.arrays.values():
        array.fits = array.fits and array.written and search.is_free(array, roots)
    search.leave_others(order)
    search.limit(most)
    search.leave_others(order)
    found = [array for array in search.arrays.values() if array.fits]
    return OnStack({array.begin.id: array.entries for array in found},
                   {number for array in found for number in (array.begin.id, *array.versions)})


class _Search:
    """The arrays of an evaluation."""

    def __init__(self, stages: Mapping[int, int]) -> None:
        self.stages = stages
        self.arrays: dict[int, _Array] = {}  # by the ids of what they begin with
        self.known: dict[int, _Array] = {}  # by the ids of versions, also of those within regions
        self.held: dict[int, int] = {}  # how often the graph holds a version

    def find(self, order: list[Node]) -> None:
        """Find all arrays that constructs access."""
        for node in order:
            if node.kind in CONTROL:
                written = node.payload.memory()
                for version in (*written, *node.payload.sources()):
                    array = self.array_of(version, node)
                    if node.kind == CALL or node.size != array.width or self.stages[node.id] != array.stage:
                        array.fits = False
                for version in written:
                    self.known[version.id].written = True
                extension = node.payload.extension
                if extension is not None:  # which may take the place of what it is an extension of
                    for control in (node.payload, extension.of.payload):
                        for version in (*control.memory(), *control.sources()):
                            self.array_of(version, node).fits = False
            elif node.kind == RESULT and node.payload:
                assert node.d0 is not None
                self.array_of(node, node.d0)

    def array_of(self, version: Node, construct: Node) -> _Array:
        """The array that a version is one of."""
        found = self.known.get(version.id)
        if found is None:
            begin = version
            while begin.kind == RESULT and begin.payload:
                assert begin.d0 is not None
                begin = begin.d0.payload.origin(begin.attr)
            found = self.arrays.get(begin.id)
            if found is None:
                found = self.arrays[begin.id] = _Array(begin, construct, self.stages.get(construct.id, -1))
            self.known[version.id] = found
            found.versions[version.id] = version
        return found

    def look_at_uses(self, order: list[Node]) -> None:
        """Note how often the graph holds versions, and what is used otherwise than as memory of each element's own."""
        nodes = list(order)
        for number, node in enumerate(nodes):  # which grows meanwhile
            if node.kind in CONTROL:
                self.enter(node, nodes)
                continue
            kind = node.kind
            if kind == RESULT and node.payload:
                assert node.d0 is not None
                found = self.known.get(node.d0.payload.origin(node.attr).id)
                if found is not None:
                    self.known[node.id] = found
                continue
            for place, operand in enumerate((node.d0, node.d1, node.d2, node.d3)):
                array = None if operand is None else self.known.get(operand.id)
                if array is None:
                    continue
                assert operand is not None
                self.hold(operand)
                outside = number < len(order)
                if not place and IS_WRITE[kind] and not outside and node.payload == OF_ELEMENTS:
                    self.known[node.id] = array
                elif place or kind != GATHER or outside and (
                        node.size != array.width or self.stages[node.id] != array.stage):
                    array.fits = False

    def enter(self, node: Node, nodes: list[Node]) -> None:
        """Look into a construct: its regions' nodes are to be looked at, too."""
        control: Control = node.payload
        for version in control.initial:
            self.hold(version)
        for region in control.regions:
            for initial, formal in zip(control.initial, region.formals, strict=True):
                array = self.known.get(initial.id)
                if array is not None and formal.payload:
                    self.known[formal.id] = array
                    array.fits = array.fits and node.kind != CALL
            for version in region.sources:
                self.hold(version)
                array = self.known.get(version.id)
                if array is not None and node.kind == CALL:
                    array.fits = False
            nodes += region.nodes

    def hold(self, version: Node) -> None:
        """Note that something of the graph holds a node."""
        self.held[version.id] = self.held.get(version.id, 0) + 1

    def is_free(self, array: _Array, roots: list[Node]) -> bool:
        """Whether nobody but the graph has any version of an array; who has asked for one that is nobody's any more
        was going to look at it in this graph."""
        for version in array.versions.values():
            if version.kind == RESULT:
                known = self.held.get(version.id, 0) + 2 + sum(1 for root in roots if root is version)
                if held_elsewhere(version, known):
                    return False
        return True

    def leave_others(self, order: list[Node]) -> None:
        """Leave out arrays of constructs that write to other memory as well: these must not run twice."""
        constructs = [node.payload.memory() for node in order if node.kind in CONTROL]
        changed = True
        while changed:
            changed = False
            for memory in constructs:
                arrays = [self.known[version.id] for version in memory]
                if any(array.fits for array in arrays) and not all(array.fits for array in arrays):
                    changed = True
                    for array in arrays:
                        array.fits = False

    def limit(self, most: int) -> None:
        """Leave out the largest ones where there are too many in one kernel."""
        left: dict[tuple[int, int], int] = {}  # by stage and width, which tell kernels apart
        for array in sorted(self.arrays.values(), key=_size_of):
            if array.fits:
                kernel = array.stage, array.width
                room = left.get(kernel, most) - array.bytes
                array.fits = room >= 0
                left[kernel] = max(room, 0)


def _size_of(array: _Array) -> tuple[int, int]:
    return array.bytes, array.begin.id


def _whole(width: int) -> int:
    """The number of elements that an array has room for."""
    return -(-width // NEIGHBOURS) * NEIGHBOURS
