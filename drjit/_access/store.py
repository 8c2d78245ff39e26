"""What an array holds is replaced here, and nowhere else.

Every change in place of an array that exists passes through :func:`store`: item assignment, components, scatters,
in-place operators, labels, evaluation that turns a literal into memory. An array that is a component of another one
(``v.x``), or the flat array of a tensor (``t.array``), holds nothing of its own: the change is made to its owner, and
shows in all of the owner's components that somebody holds.

While the body of a symbolic loop is traced, a :class:`Journal` remembers what changed arrays held before: they get it
back when the body raises, or is traced again, and at the end the loop decides what their changes mean. That of an
evaluated construct does not hold what was there before a write by index: that would be one more holder of the memory,
which would be copied before each write. It notes which version that was, and as long as no kernel has done the write,
which holds it, it can be undone.
"""

from __future__ import annotations

import math
import threading
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from drjit_core import KIND, Node, dual, import_copy, innermost, is_version, primal, schedule, vertex_of

from .._base.errors import SizeError
from .._base.handle import views
from .._base.nodes import broadcast, elements_of, pack
from .._trees.pytree import resized
from .lanes import note_version, note_writes

__all__ = ["Buffers", "Journal", "innermost_journal", "journal_of", "note_attribute", "note_narrow", "noted",
           "owner_of", "store", "store_result", "store_same", "store_written"]


def store(array: Any, nodes: Sequence[Node], position: int | None = None, written: bool = False) -> None:
    """Replace component nodes of an array in place: those from a position on, or all of them; whether these are later
    versions of the same memory, ``written`` to by index.

    The lists and nodes that the array held before are left as they are. Raises a ``SizeError``, before anything has
    changed, if a tensor would no longer have the number of elements that its shape says.
    """
    if innermost() is not None:
        journal = innermost_journal()
        if journal is not None:
            journal.note(array)
    elif _running.journals:
        if written:
            _running.journals[-1].note_write(array)
        else:
            _running.journals[-1].note(array)
    store_same(array, nodes, position)


def store_same(array: Any, nodes: Sequence[Node], position: int | None = None) -> None:
    """Replace nodes by others that have the same values: what was evaluated, or got a label."""
    owner = array._o
    if owner is None and not array._depth:
        array._n = nodes[0]
        return
    changed, first = array, position
    while owner is not None:
        array, offset = owner
        position = offset + (position or 0)
        owner = array._o
    if array._depth < 0:
        if changed._depth == 1:
            _store_numbers(array, changed, nodes, first)
        else:
            _store_tensor(array, nodes[0])
        return
    if position is None:
        array._c = list(nodes)
    else:
        components = array._c.copy()  # whoever has the old list keeps it as it was
        components[position:position + len(nodes)] = nodes
        array._c = components
    _show(array)


def _store_tensor(tensor: Any, node: Node) -> None:
    count = math.prod(tensor._s)
    if node.size != count:
        if node.size != 1:
            raise SizeError(f"{tensor._name}: cannot replace the {count} elements of a tensor of the shape {tensor._s} "
                            f"by {node.size} ones in place.")
        node = broadcast(node, count) if count else tensor._n
    tensor._n = node
    for _, view in views(tensor):
        if not view._depth:
            view._n = node
        else:  # numbers of drjit.scalar; reading those of a symbolic tensor raises
            view._c = elements_of(node, False) if not node.scope else [node] * count


def _store_numbers(tensor: Any, view: Any, nodes: Sequence[Node], position: int | None) -> None:
    """Replace elements of a tensor of drjit.scalar through its flat array, which holds numbers."""
    elements = list(nodes)
    if position is not None:
        elements = view._c.copy()
        elements[position:position + len(nodes)] = nodes
    count = math.prod(tensor._s)
    if len(elements) != count:
        raise SizeError(f"{view._name}: cannot replace the {count} elements of a tensor of the shape {tensor._s} by "
                        f"{len(elements)} ones in place.")
    if count:
        tensor._n = elements[0] if count == 1 else import_copy(tensor._type, pack(elements))
    view._c = elements


def _show(array: Any) -> None:
    """Tell the components that somebody holds what they are now."""
    for position, view in views(array):
        if view._depth:
            count = len(view._c)
            view._c = array._c[position * count:(position + 1) * count]
            _show(view)
        else:
            view._n = array._c[position]


def store_written(array: Any, nodes: Sequence[Node], position: int | None = None) -> None:
    """Store the results of scatters, and see to it that those run with the next evaluation."""
    note_writes(nodes)
    for node, before in zip(nodes, array._nodes()[position or 0:], strict=False):
        note_version(node, before)  # of memory that others hold, there is a copy between them
    schedule([node for node in nodes if not node.scope])
    store(array, nodes, position, True)


def owner_of(array: Any) -> tuple[Any, int]:
    """The array that a component is part of, and the position of the component's first node in that."""
    first = 0
    while array._o is not None:
        array, offset = array._o
        first += offset
    return array, first


def store_result(array: Any, position: int, node: Node, like: Any = None, lanes: tuple[int, ...] = (),
                 whole: bool = False) -> None:
    """Give a component of an array what it is after a construct; a tensor has the shape of another one, or is broadcast
    to that of the ``lanes`` if it had one element and has one for each of them.

    The result of a scatter is the array after writes by index, unless it was changed as a ``whole``, whose parts were
    brought together by scatters.
    """
    tensor = array
    while tensor._o is not None:
        tensor = tensor._o[0]
    if tensor._depth < 0:
        shape = like._s if like is not None and tensor is array else tensor._s if math.prod(tensor._s) == node.size \
            else resized(tensor._s, lanes, node.size)
        if shape != tensor._s:
            store(tensor, tensor._nodes())  # for the journal
            tensor._s = shape
            store_same(tensor, [node])
            return
    if not whole and is_version(primal(node)):
        before = array._nodes()[position]
        store_written(array, [node], position)
        note_version(node, before)
        return
    store(array, [node], position)


# --- what changes while a loop is traced -----------------------------------------------------------------------------


#: What most constructs have no entries in: whoever adds the first one replaces it.
_NOTHING: dict[Any, Any] = {}
_EMPTY: list[Any] = []


class Buffers:
    """The memory of ``dr.Local`` in the functions of an outermost construct, from one trace to the next."""

    __slots__ = ("arrays", "made")

    def __init__(self) -> None:
        #: Arrays that are such memory, by their identity.
        self.arrays: dict[int, Any] = _NOTHING
        #: What was made within, by the place of the function and the number in it: a trace finds again what the one
        #: before has made.
        self.made: dict[tuple[int, ...], Any] = _NOTHING

    def note(self, array: Any) -> None:
        """Note an array that is such memory."""
        self.arrays = self.arrays or {}
        self.arrays[id(array)] = array

    def add(self, place: tuple[int, ...], memory: Any) -> None:
        """Add what was made at a place."""
        self.made = self.made or {}
        self.made[place] = memory

    def own(self, array: Any) -> bool:
        """Whether an array is memory that was made within the construct."""
        return any(array is entry for memory in self.made.values() for entry in memory.arrays)


class Journal:
    """What arrays held before they were changed: by their identity, each array with the component nodes it had.

    The region that is being traced has it from :meth:`begin` on. Whoever calls that also calls :meth:`roll_back`.
    """

    __slots__ = ("attributes", "buffers", "earlier", "entries", "inner", "made", "narrow", "path", "writes")

    def __init__(self, buffers: Buffers | None = None, path: tuple[int, ...] = ()) -> None:
        #: Local memory, of this function and of those within, and where this one is in the outermost one.
        self.buffers = Buffers() if buffers is None else buffers
        self.path = path
        #: How many buffers of local memory have been made in this trace.
        self.made = 0
        self.entries: dict[int, tuple[Any, list[Node], tuple[int, ...] | None]] = _NOTHING
        #: Arrays that evaluated constructs have written to by index, with which versions of their components they had.
        self.writes: dict[int, tuple[Any, list[tuple[int, Any]]]] = _NOTHING
        #: Likewise objects that hold arrays as attributes, of which they exchange one for another.
        self.attributes: dict[int, tuple[Any, dict[str, Any]]] = _NOTHING
        #: Whether a component of one element, beside larger ones, was to be written to by index.
        self.narrow = False
        #: What each loop within writes to, in the order of the program: in this trace, and in the one before.
        self.inner: list[list[tuple[weakref.ref[Any], int]]] = _EMPTY
        self.earlier: list[list[tuple[weakref.ref[Any], int]]] = _EMPTY

    def begin(self) -> None:
        """A trace begins, perhaps not the first one."""
        region = innermost()
        assert region is not None
        region.journal = self
        self.roll_back()
        self.made = 0
        self.earlier, self.inner = self.inner or self.earlier, _EMPTY

    def add_inner(self, written: list[tuple[weakref.ref[Any], int]]) -> None:
        """Note what a loop, a branch or a call within, which has been traced, writes to."""
        self.inner = self.inner or []
        self.inner.append(written)

    def note(self, array: Any) -> None:
        """Remember an array, which is about to be changed, unless it has been already."""
        while array._o is not None:
            array = array._o[0]
        if id(array) not in self.entries:
            self.entries = self.entries or {}
            self.entries[id(array)] = array, array._nodes(), array._s if array._depth < 0 else None

    def note_write(self, array: Any) -> None:
        """Remember which versions of its components an array has, which is about to be written to by index."""
        while array._o is not None:
            array = array._o[0]
        if id(array) not in self.writes:
            self.writes = self.writes or {}
            self.writes[id(array)] = array, [(primal(node).id, vertex_of(node)) for node in array._nodes()]

    def before(self, array: Any) -> list[Node]:
        """The nodes that an array had, unless it has been changed by nothing, or only by writes by index: then those
        that it has."""
        count = len(array._nodes())
        owner, first = owner_of(array)
        entry = self.entries.get(id(owner))
        return list((owner._nodes() if entry is None else entry[1])[first:first + count])

    def roll_back(self) -> None:
        """Give all arrays back what they held."""
        if self.entries:
            for array, nodes, shape in self.entries.values():
                if shape is not None:
                    array._s = shape
                store_same(array, nodes)
            self.entries = _NOTHING
        if self.writes:
            for array, versions in self.writes.values():
                store_same(array, [_unwritten(node, *version) for node, version in zip(
                    array._nodes(), versions, strict=True)])
            self.writes = _NOTHING
        if self.attributes:
            for owner, values in self.attributes.values():
                for name, value in values.items():
                    setattr(owner, name, value)
            self.attributes = _NOTHING


#: A write makes a new version of its target, of which there may first be a copy.
_VERSIONS = KIND["scatter"], KIND["opaque"]


def _unwritten(node: Node, number: int, vertex: Any) -> Node:
    """The version of a component that had some id, or the last one that a kernel has written to since."""
    found = primal(node)
    while found.id != number and found.kind in _VERSIONS and found.d0 is not None:
        found = found.d0
    return node if found is primal(node) else found if vertex is None else dual(found, vertex)


def journal_of(around: Journal | None, buffers: Buffers, number: int = 0) -> Journal:
    """A journal of one of the functions of a construct that is traced next."""
    path = () if around is None else (*around.path, len(around.inner))
    return Journal(buffers, (*path, number))


def note_attribute(owner: Any, name: str) -> None:
    """Note that an object of the library is about to exchange one of its arrays for another."""
    journal = innermost_journal()
    if journal is not None:
        journal.attributes = journal.attributes or {}
        values = journal.attributes.setdefault(id(owner), (owner, {}))[1]
        if name not in values:
            values[name] = getattr(owner, name, None)


def note_narrow() -> None:
    """Note that a component of one element is written to by index, which must be as wide as those beside it."""
    journal = innermost_journal()
    if journal is not None:
        journal.narrow = True


class _Running(threading.local):
    """The journals of evaluated constructs that run in this thread, innermost last."""

    def __init__(self) -> None:
        self.journals: list[Journal] = []


_running = _Running()


@contextmanager
def noted() -> Iterator[Journal]:
    """Note what arrays are changed while a function of an evaluated construct runs; if it raises, all get back what
    they held."""
    journal, journals = Journal(), _running.journals
    journals.append(journal)
    try:
        yield journal
    except BaseException:
        journal.roll_back()
        raise
    finally:
        journals.pop()
    if journals and (journal.entries or journal.writes):
        journals[-1].entries = {**journal.entries, **journals[-1].entries}
        journals[-1].writes = {**journal.writes, **journals[-1].writes}


def innermost_journal() -> Journal | None:
    """The journal of the innermost function that this thread traces."""
    region = innermost()
    while region is not None:
        journal: Journal | None = region.journal
        if journal is not None:
            return journal
        region = region.outer
    return None
