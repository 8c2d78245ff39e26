"""Which elements of a read or write belong to lanes that take part: the masks of control flow that is evaluated.

An evaluated loop runs its body for all elements, and holds back those that have finished; evaluated branches do
likewise. The mask of each such construct is on a stack, one for each thread, while its body runs. An access by index
inside of it happens for the lanes only that take part. What belongs to which lane follows from sizes, where *W*, more
than one, is the width of the construct (the size of its mask):

* An operand of *W* elements (an index array, a mask, a value) is per lane: element *k* belongs to lane *k*, and is
  used if that lane takes part. This holds for ``dr.gather`` and ``dr.scatter`` and for keys in brackets, and for
  ``a[:] = value`` with a value of *W* elements as well. (With an index array as key, a value of several dimensions is
  uniform, however many elements it has.)
* Where such an operand is broadcast to a larger selection of a tensor, the lanes are broadcast with it:
  ``t[index] = 0`` writes the rows of those that take part.
* All else is uniform, and happens once: accesses whose operands are of other sizes, such as ``a[:] = 0``, integer keys
  (``a[0] = 1``) and components (``v.x = value``, ``v[0] = value``), which replace what the array holds as
  ``v += value`` does. A scatter of a single element writes once, but a scatter-reduction of a single value takes place
  once for every lane that takes part; and where a mask is the key of an array of one element, that element is one for
  each lane.
* Symbolic loops are the same: there, the loop's mask is part of every access that could do harm. What happens once,
  and writes several elements, is none of theirs: it is refused, unless all lanes do the same.
* Reading a slice is harmless, and never masked. Reading by index yields zero in lanes that do not take part. What is
  read at one position is uniform, unless it tracks derivatives: each lane that takes part adds to its gradient then.

The body of an evaluated loop is not run when no lane takes part; masks of one element are hence of no consequence
there. Both sides of an evaluated branch are run, whatever lanes there are: accesses that are not per lane happen there
if any lane takes part.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, NamedTuple

import drjit_core as core
from drjit_core import (
    KIND,
    ReduceMode,
    ReduceOp,
    Scope,
    abandon,
    any_vertex,
    gather,
    innermost,
    leave,
    literal,
    ops,
    primal,
    reduce,
    scatter,
    schedule,
    size_for_program,
    stands_for,
    state,
    vertex_of,
)

from .._base.types import BOOL

__all__ = ["TRUE", "VERSIONS", "WATCHES", "Part", "Watch", "begun", "by_each_lane", "cut_to", "depths", "elements",
           "fitting", "gradient_elsewhere", "in_plain_code", "innermost_part", "innermost_width", "lane_mask",
           "made_from", "masked_access", "masking", "note_origin", "note_read", "note_version", "note_writes",
           "on_part", "part_depth", "part_of", "part_runs", "symbolic_width", "wholes", "widest_mask", "with_lanes",
           "written_apart", "written_from"]

TRUE = literal(BOOL, True)

_and = ops.and_
_OR = ReduceOp.Or.value


_NOTHING: dict[int, tuple[core.Node, core.Node]] = {}


class Part(NamedTuple):
    """Some lanes of a construct, which what runs has been given as if there were no others."""

    lanes: core.Node
    #: The number of lanes of the construct.
    width: int
    #: How many masks there were when it began.
    masks: int = 0
    #: The variables among what it has been given, by ids: what they are elements of, and which ones.
    given: Mapping[int, tuple[core.Node, core.Node]] = _NOTHING


class _Stack(threading.local):
    """The masks of the constructs whose bodies run in this thread, innermost last."""

    def __init__(self) -> None:
        self.masks: list[core.Node] = []
        #: Those of them that belong to constructs which may run although no lane takes part.
        self.uncertain: list[core.Node] = []
        #: Ids of the results of writes that the masks have held back, and of the versions before them.
        self.origins: dict[int, int] = {}
        #: Of evaluated calls, and of loops that remove lanes: the lanes that what runs was given, innermost last.
        self.parts: list[Part] = []


_stack = _Stack()
#: As many entries as there are masks and parts, and journals of evaluated constructs, of all threads.
begun: list[bool] = []
_begun = begun


class masked_access:
    """Reads and writes of elements inside happen only for the lanes whose mask is set; see the module's text.

    ``some`` says that there are such lanes. Traversals inside end at what was there before: what they bring there, in
    lanes that take part, flows on from there in the end.
    """

    __slots__ = ("mask", "scope", "some")

    def __init__(self, mask: core.Node, some: bool = True) -> None:
        self.mask = mask
        self.some = some
        self.scope: Any = None

    def __enter__(self) -> None:
        _stack.masks.append(self.mask)
        _begun.append(True)
        if not self.some:
            _stack.uncertain.append(self.mask)
        if any_vertex():
            self.scope = state.derivatives = Scope.isolating(state.derivatives, _of_lanes)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 traceback: TracebackType | None) -> None:
        try:
            scope, self.scope = self.scope, None
            if scope is not None:
                scope.end()
                if kind is None:
                    schedule([node for node in leave(scope) if not node.scope])
                else:
                    abandon(scope)
        finally:
            _stack.masks.pop()
            _begun.pop()
            if not self.some:
                _stack.uncertain.pop()
            if not _stack.masks:
                _stack.origins.clear()


def _of_lanes(width: int) -> core.Node:
    """The lanes that take part, of so many."""
    return with_lanes(TRUE, width)


class on_part:
    """What runs inside is given the elements of some lanes of a construct of so many."""

    __slots__ = ("part",)

    def __init__(self, lanes: core.Node, width: int,
                 given: Mapping[int, tuple[core.Node, core.Node]] = _NOTHING) -> None:
        self.part = Part(lanes, width, len(_stack.masks), given)

    def __enter__(self) -> None:
        _stack.parts.append(self.part)
        _begun.append(True)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 traceback: TracebackType | None) -> None:
        _stack.parts.pop()
        _begun.pop()


def elements(node: core.Node, lanes: core.Node, given: dict[int, tuple[core.Node, core.Node]]) -> core.Node:
    """Some elements of a node, noted in what a part is given."""
    found = gather(node, lanes, TRUE)
    vertex = vertex_of(found)
    if vertex is not None:
        given[vertex.id] = node, lanes
    return found


def gradient_elsewhere(vertex: core.Vertex, gradient: Callable[[core.Node], core.Node]) -> core.Node | None:
    """The gradient that elements have which what runs was given, given that of what they are elements of."""
    for part in reversed(_stack.parts):
        if vertex.id in part.given:
            node, lanes = part.given[vertex.id]
            return gather(gradient(node), lanes, TRUE, harmless=True)
    return None


def depths() -> tuple[int, int, int]:
    """How many masks, uncertain ones and parts there are."""
    return len(_stack.masks), len(_stack.uncertain), len(_stack.parts)


def cut_to(depths: tuple[int, int, int]) -> None:
    """End what has begun since."""
    masks, uncertain, parts = depths
    del _begun[len(_begun) + masks + parts - len(_stack.masks) - len(_stack.parts):]
    del _stack.masks[masks:]
    del _stack.uncertain[uncertain:]
    del _stack.parts[parts:]


def innermost_part() -> Part | None:
    """The lanes that what runs was given last; ``None`` if there are all."""
    return _stack.parts[-1] if _stack.parts else None


def part_runs(part: Part | None) -> bool:
    """Whether what was given some lanes still runs."""
    return part is None or any(entry is part for entry in _stack.parts)


def part_depth() -> int:
    """How many functions that were given some lanes run within each other."""
    return len(_stack.parts)


def part_of(depth: int) -> Part | None:
    """Which lanes run, of those that ran when :func:`part_depth` was so much; ``None`` if that is all of them."""
    parts = _stack.parts[depth:]
    if not parts:
        return None
    lanes = parts[0].lanes
    for inner in parts[1:]:
        lanes = gather(lanes, inner.lanes, TRUE, harmless=True)
    return Part(lanes, parts[0].width)


class Watch:
    """Some nodes, and which of them are read by index, or written to, by what runs inside.

    If they are some elements of others, these are the ``whole`` of which positions tell elements.
    """

    __slots__ = ("ids", "read", "thread", "whole")

    def __init__(self, nodes: Sequence[core.Node], whole: Sequence[core.Node] = ()) -> None:
        self.ids = {primal(node).id for node in nodes}
        self.whole = {primal(node).id: other for node, other in zip(nodes, whole, strict=False)}
        self.read: set[int] = set()
        self.thread = threading.get_ident()

    def __enter__(self) -> Watch:
        WATCHES.append(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 traceback: TracebackType | None) -> None:
        WATCHES.remove(self)

    def accessed(self, number: int) -> bool:
        """Whether a node, which has or had some id, has been read by index, or is what a write in an evaluated
        construct began with."""
        return number in self.read or number in _stack.origins.values()


#: Those that have begun, in any thread.
WATCHES: list[Watch] = []


def note_read(source: core.Node) -> None:
    """An element of an array is read by its index; called only if :data:`WATCHES` are there."""
    number = stands_for(primal(source)).id
    for watch in list(WATCHES):
        if watch.thread == threading.get_ident() and number in watch.ids:
            watch.read.add(number)


def wholes(nodes: Sequence[core.Node]) -> list[core.Node] | None:
    """Of what nodes are elements that what runs was given instead; ``None`` if they are none. Called only if
    :data:`WATCHES` are there."""
    found = list(nodes)
    for watch in reversed(WATCHES):
        if watch.whole and watch.thread == threading.get_ident():
            found = [watch.whole.get(primal(node).id, node) for node in found]
    return None if found == list(nodes) else found


#: A write makes a new version of its target, of which there may first be a copy.
VERSIONS = KIND["scatter"], KIND["opaque"]


def note_writes(nodes: Sequence[core.Node]) -> None:
    """Remember of nodes that are the results of writes which version they were made of; evaluation forgets it."""
    if _stack.masks:
        origins = _stack.origins
        for node in map(primal, nodes):
            version: core.Node = node  # and those before it, which the construct may have been given
            while version.kind in VERSIONS and (version is node or version.id not in origins):
                before = version.d0
                if before is None:
                    break
                origins[version.id] = before.id
                version = before


def note_version(node: core.Node, original: core.Node) -> core.Node:
    """Remember that a node, which is returned, is made of another version of the same array."""
    if _stack.masks and node is not original:
        _stack.origins[primal(node).id] = primal(original).id
    return node


def note_origin(node: core.Node, number: int) -> None:
    """Remember that a node is made of the version of an array that has, or had, some id."""
    if _stack.masks:
        _stack.origins[primal(node).id] = number


def written_from(new: core.Node, old: core.Node) -> bool:
    """Whether one node is a later version of another, made by nothing but writes in an evaluated construct.

    The lanes that do not take part have then been held back already, whatever elements the others wrote to.
    """
    return primal(old).id in _versions(new)


def made_from(new: core.Node, number: int) -> bool:
    """Whether a node is a later version of another one, which has, or had, some id; see :func:`written_from`."""
    return number in _versions(new)


def written_apart(first: core.Node, second: core.Node) -> bool:
    """Whether two nodes are versions of one array, of which neither has the writes of the other."""
    one, other = [primal(first).id, *_versions(first)], [primal(second).id, *_versions(second)]
    return one[0] not in other and other[0] not in one and not set(one).isdisjoint(other)


def _versions(node: core.Node) -> Iterator[int]:
    """The ids of the versions that a node was made of, the last one first."""
    number = _stack.origins.get(primal(node).id)
    while number is not None:
        yield number
        number = _stack.origins.get(number)


def lane_mask(width: int) -> core.Node | None:
    """The lanes that take part in an access of ``width`` elements, or ``None`` if it is not per lane."""
    if not _stack.masks or width < 2:
        return None
    result = None
    first, inner, parts = 0, len(_stack.parts), _stack.parts
    for number in range(len(parts) - 1, -1, -1):
        if width in (parts[number].lanes.size, parts[number].width):
            # by the lanes that were given, not by those of a construct around it; or by all of which some were given
            first, inner = parts[number].masks, number + (parts[number].lanes.size == width)
            break
    for part in parts[inner:]:
        lanes = for_lanes(literal(BOOL, True, part.lanes.size), width)
        if lanes is not None:
            result = lanes if result is None else _and(result, lanes)
    for mask in _stack.masks[first:]:
        lanes = mask if mask.size == width or not parts or mask.size == 1 else for_lanes(mask, width)
        if lanes is not None and lanes.size == width:
            result = lanes if result is None else _and(result, lanes)
    return result


def for_lanes(mask: core.Node, width: int) -> core.Node | None:
    """A mask of some number of lanes for ``width`` of them, of which one are part of the others, as far as what runs is
    given parts; ``None`` if none has so many."""
    found = {mask.size: mask}
    for part in (*reversed(_stack.parts), *_stack.parts):
        if part.lanes.size in found and part.width not in found:
            found[part.width] = scatter(literal(BOOL, False, part.width), found[part.lanes.size], part.lanes, TRUE,
                                        ReduceOp.Identity.value, ReduceMode.NoConflicts.value, harmless=True)
        elif part.width in found and part.lanes.size not in found:
            found[part.lanes.size] = gather(found[part.width], part.lanes, TRUE, harmless=True)
    return found.get(width)


def fitting(mask: core.Node, one: core.Node, other: core.Node) -> core.Node | None:
    """A mask that chooses between two values: itself, or that of as many lanes as they have elements; ``None`` if there
    is none."""
    widths = {one.size, other.size} - {1}
    if len(widths) > 1:
        return None
    return mask if not widths or mask.size == 1 or mask.size in widths else for_lanes(mask, widths.pop())


def masking() -> list[core.Node]:
    """What accesses of elements depend on besides what the program says: the masks of evaluated constructs, and which
    lanes functions are given."""
    return [*_stack.masks, *[part.lanes for part in _stack.parts]]


def symbolic_width() -> int:
    """The number of lanes of the symbolic loop that is being traced; 1 if there is none, or all of them do the same."""
    region = innermost()
    return 1 if region is None or region.live is None or region.uniform else size_for_program(region.live)


def innermost_width() -> int:
    """The number of lanes of what is traced, or runs: that of the innermost construct with several ones, else 1."""
    region = innermost()
    if region is not None and region.live is not None and size_for_program(region.live) != 1:
        return region.live.size
    first, width = (_stack.parts[-1].masks, _stack.parts[-1].lanes.size) if _stack.parts else (0, 1)
    return next((mask.size for mask in reversed(_stack.masks[first:]) if mask.size != 1), width)


def in_plain_code() -> bool:
    """Whether no construct is traced, and none runs."""
    return innermost() is None and (not _begun or not _stack.masks and not _stack.parts)


def with_lanes(mask: core.Node, width: int) -> core.Node:
    """A mask of an access of ``width`` elements, without the lanes that do not take part."""
    if not _begun or not _stack.masks:
        return mask
    lanes = lane_mask(width)
    result = mask if lanes is None else lanes if mask is TRUE else _and(mask, lanes)
    for uncertain in _stack.uncertain:
        if uncertain.size != width or width == 1:
            some = _some(uncertain)
            result = some if result is TRUE else _and(result, some)
    return result


def by_each_lane(mask: core.Node, source: core.Node) -> core.Node:
    """A mask of a read of one element: each lane that takes part reads it if gradients are added up where it stands."""
    lanes = widest_mask() if _begun and vertex_of(source) is not None else None
    return with_lanes(mask, 1) if lanes is None else lanes if mask is TRUE else _and(mask, lanes)


def _some(lanes: core.Node) -> core.Node:
    """Whether any lane takes part; where each lane of a region does what there is one of, whether it does."""
    return lanes if lanes.size == 1 or lanes.scope else reduce(lanes, _OR)


def widest_mask() -> core.Node | None:
    """The lanes that take part in the innermost construct that has several, for updates that all of them make.

    ``None`` if there is no such construct, or all of its lanes take part.
    """
    first, width = (_stack.parts[-1].masks, _stack.parts[-1].lanes.size) if _stack.parts else (0, 1)
    width = next((mask.size for mask in reversed(_stack.masks[first:]) if mask.size != 1), width)
    everyone = TRUE if width == 1 else literal(BOOL, True, width)
    lanes = with_lanes(everyone, width) if _stack.uncertain else lane_mask(width)
    if lanes is None and _stack.parts:  # all that a function was given
        lanes = everyone
    return None if lanes is TRUE else lanes
