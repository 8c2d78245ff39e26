"""What an array holds is replaced here, and nowhere else.

Every change in place of an array that exists passes through :func:`store`: item assignment, components, scatters,
in-place operators, labels, evaluation that turns a literal into memory. An array that is a component of another one
(``v.x``), or the flat array of a tensor (``t.array``), holds nothing of its own: the change is made to its owner, and
shows in all of the owner's components that somebody holds.

While the body of a symbolic loop is traced, a :class:`Journal` remembers what changed arrays held before: they get it
back when the body raises, or is traced again, and at the end the loop decides what their changes mean. Of evaluated
constructs only the outermost one holds what was there before a write by index, so that memory is copied before the
first kernel that writes to it, and not before each: those within note which version that was, to which writes can be
undone that no kernel has done. Where memory is exported, others see each write: it is the copy that is held, and
written back.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any

from drjit_core import (
    KIND,
    Node,
    copied,
    current,
    dual,
    import_copy,
    innermost,
    is_version,
    primal,
    put_back,
    schedule,
    symbolic_error,
    traced_elsewhere,
    vertex_of,
)

from .._base.errors import SizeError
from .._base.handle import is_flat, views
from .._base.nodes import broadcast, elements_of, pack
from .._trees.pytree import resized
from .lanes import VERSIONS, begun, cut_to, depths, note_version, note_writes

__all__ = ["Journal", "end_since", "extent_of", "innermost_journal", "no_journal", "note_narrow", "noted",
           "overlap", "owner_of", "settled", "sole_owners", "standing", "store", "store_result", "store_same",
           "store_written", "traced"]


#: The journals of bodies of symbolic loops that threads trace now.
traced: list[Journal] = []


def store(array: Any, nodes: Sequence[Node], position: int | None = None, written: bool = False) -> None:
    """Replace component nodes of an array in place: those from a position on, or all of them; whether these are later
    versions of the same memory, ``written`` to by index.

    The lists and nodes that the array held before are left as they are. Raises a ``SizeError``, before anything has
    changed, if a tensor would no longer have the number of elements that its shape says.
    """
    region = innermost()
    if region is not None:
        journal = innermost_journal()
        if journal is not None:
            journal.note(array)
    elif traced:
        for journal in traced:
            journal.elsewhere = [*journal.elsewhere, (array, array._nodes())]
    if _running.journals:
        journal = _running.journals[-1]
        if journal.scope == (0 if region is None else region.id):  # what is traced within tells when it has been
            (journal.note_write if written else journal.note)(array)
    store_same(array, nodes, position)


def store_same(array: Any, nodes: Sequence[Node], position: int | None = None) -> None:
    """Replace nodes by others that have the same values: what was evaluated, or got a label."""
    owner = array._o
    if owner is None and is_flat(array):
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
        tensor._n = elements[0] if count == 1 else import_copy(tensor._type, pack(elements), tensor._where)
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


def sole_owners(array: Any) -> int:
    """How many arrays the array is a component of, one within the other: each of them holds its node, in a list of its
    own from now on."""
    count, owner = 0, array._o
    while owner is not None:
        holder = owner[0]
        if holder._depth > 0:
            holder._c = holder._c.copy()  # copies of the holder may have the same list
        count, owner = count + 1, holder._o
    return count


def extent_of(array: Any) -> tuple[Any, int, int]:
    """The array that holds the contents of one, and which of its nodes these are, from one to another."""
    owner, first = owner_of(array)
    return owner, first, first + (len(array._nodes()) if owner._depth >= 0 else 1)


def overlap(one: Any, other: Any) -> bool:
    """Whether arrays are one, or one is part of the other."""
    if one is other:
        return True
    if one._o is None and other._o is None:
        return False
    (owner, first, end), (same, start, last) = extent_of(one), extent_of(other)
    return owner is same and start < end and first < last


def store_result(array: Any, position: int, node: Node, like: Any = None, lanes: tuple[int, ...] = (),
                 whole: bool = False) -> None:
    """Give a component of an array what it is after a construct; a tensor has the shape of another one, or is broadcast
    to that of the ``lanes`` if it had one element and has one for each of them.

    The result of a scatter is the array after writes by index, unless it was changed as a ``whole``, whose parts were
    brought together by scatters.
    """
    tensor, _ = owner_of(array)
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


class Journal:
    """What arrays held before they were changed: by their identity, each array with the component nodes it had.

    It serves the functions of a construct, one after the other.
    The region that is being traced has it from :meth:`begin` on. Whoever calls that also calls :meth:`roll_back`.
    """

    __slots__ = ("around", "arrays", "begun", "changing", "elsewhere", "entries", "lent", "loans", "made", "memory",
                 "narrow", "number", "order", "scope", "writes")

    def __init__(self, around: Journal | None = None) -> None:
        self.entries: dict[int, tuple[Any, list[Node], tuple[int, ...] | None]] = _NOTHING
        #: Arrays that hold what stands for them while the function runs, each with the node, or nodes, that it had.
        self.loans: list[Any] = _EMPTY
        #: Arrays that evaluated constructs have written to by index, with which versions of their components they had,
        #: and these themselves, or copies of what others see, unless a construct around this one holds that.
        self.writes: dict[int, tuple[Any, list[tuple[int, Any]], list[Node | _Seen]]] = _NOTHING
        #: Of the outermost function: which arrays bodies within must be given themselves, by where these are and their
        #: codes.
        self.lent: dict[Any, set[int]] = _NOTHING
        #: Of the outermost function: places that bodies within have turned out to change, by the codes of these and the
        #: places' keys.
        self.changing: dict[tuple[Any, ...], Any] = _NOTHING
        #: Of the body of a symbolic loop: arrays that other threads have changed while it was traced, and what these
        #: held before.
        self.elsewhere: list[tuple[Any, list[Node]]] = _EMPTY
        #: Of evaluated constructs: the region that they run in, 0 if there is none.
        self.scope = 0
        #: Whether a component of one element, beside larger ones, was to be written to by index.
        self.narrow = False
        #: That of the function around this one.
        self.around = around
        #: Which of the functions of its construct is traced, and which one that is of those around.
        self.number = self.order = 0
        #: How many constructs have begun in this trace, and how many buffers of local memory have been made.
        self.begun = self.made = 0
        #: Of the outermost function: arrays that are memory of ``dr.Local`` and were written to, by their identity; and
        #: what was made within, by its place, where a trace finds again what the one before has made.
        self.arrays: dict[int, Any] = _NOTHING
        self.memory: dict[tuple[int, ...], Any] = _NOTHING
        if around is not None:
            self.order = around.begun

    def begin(self) -> None:
        """A trace begins, perhaps not the first one."""
        region = innermost()
        assert region is not None
        region.journal = self
        self.roll_back()
        self.made = self.begun = 0

    def note(self, array: Any) -> bool:
        """Remember an array, which is about to be changed, unless it has been already; returns whether it has not."""
        if array._o is not None:
            array, _ = owner_of(array)
        number = id(array)
        if number in self.entries:
            return False
        self.entries = self.entries or {}
        if is_flat(array):
            if array._n.scope:
                settled(array)
            self.entries[number] = array, [array._n], None
            return True
        settled(array)
        nested = array._depth > 0
        self.entries[number] = array, array._c if nested else [array._n], None if nested else array._s
        return True

    def lend(self, arrays: Sequence[Any], nodes: Sequence[Node]) -> None:
        """Let arrays, which are no tensors and no parts of others, hold what stands for them in the region that is
        traced."""
        self.loans, position = [], 0
        for array in arrays:
            if is_flat(array):
                before = array._n
                if before.scope:
                    settled(array)
                    before = array._n
                self.loans.append(array)
                self.loans.append(before)
                array._n = nodes[position]
                position += 1
            else:
                settled(array)
                components = array._c
                self.loans.append(array)
                self.loans.append(components)
                end = position + len(array._c)
                array._c = nodes[position:end]
                position = end
                _show(array)

    def note_write(self, array: Any) -> None:
        """Remember which versions of its components an array has, which is about to be written to by index, unless what
        it held before is known."""
        array, _ = owner_of(array)
        number = id(array)
        if number not in self.writes and number not in self.entries:
            known = [True for journal in _running.journals if journal.scope == self.scope and (
                number in journal.writes or number in journal.entries)]
            self.writes = self.writes or {}
            nodes = array._nodes()
            self.writes[number] = array, [(primal(node).id, vertex_of(node)) for node in nodes], \
                _EMPTY if known else [_Seen(primal(node)) if _is_seen_elsewhere(node) else node for node in nodes]

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
        if self.loans:
            for position in range(0, len(self.loans), 2):
                array, before = self.loans[position], self.loans[position + 1]
                if is_flat(array):
                    array._n = before
                else:
                    array._c = before
                    _show(array)
            self.loans = _EMPTY
        if self.writes:
            for array, versions, held in self.writes.values():
                store_same(array, [_undone(*each) for each in zip(array._nodes(), versions, held, strict=True)]
                           if held else [_unwritten(node, *version) for node, version in zip(
                               array._nodes(), versions, strict=True)])
            self.writes = _NOTHING

    # --- memory of ``dr.Local`` ---------------------------------------------------------------------------------------

    def outermost(self) -> Journal:
        """That of the outermost function around this one."""
        journal = self
        while journal.around is not None:
            journal = journal.around
        return journal

    def place(self) -> tuple[int, ...]:
        """The place of the buffer that is made next, by numbers of constructs, functions and buffers."""
        self.made += 1
        return (self.made, *self.path())

    def path(self) -> tuple[int, ...]:
        """Where its functions are, by numbers of constructs and functions."""
        found: list[int] = []
        journal: Journal | None = self
        while journal is not None:
            found += [journal.number, journal.order]
            journal = journal.around
        return tuple(found)

    def note_memory(self, array: Any) -> None:
        """Note an array that is such memory."""
        outermost = self.outermost()
        outermost.arrays = outermost.arrays or {}
        outermost.arrays[id(array)] = array

    def is_memory(self, array: Any) -> bool:
        """Whether an array is such memory, which was written to."""
        return id(array) in self.outermost().arrays

    def keep(self, place: tuple[int, ...], memory: Any) -> None:
        """Keep what was made at a place."""
        outermost = self.outermost()
        outermost.memory = outermost.memory or {}
        outermost.memory[place] = memory

    def kept(self, place: tuple[int, ...]) -> Any:
        """What was made at a place in the trace before, if anything."""
        return self.outermost().memory.get(place)

    def has_made(self, array: Any) -> bool:
        """Whether an array is memory that was made within the construct."""
        return any(array is entry for memory in self.outermost().memory.values() for entry in memory.arrays)


def _unwritten(node: Node, number: int, vertex: Any) -> Node:
    """The version of a component that had some id, or the last one that a kernel has written to since."""
    found = primal(node)
    while found.id != number and found.kind in VERSIONS and found.d0 is not None:
        found = found.d0
    return node if found is primal(node) else found if vertex is None else dual(found, vertex)


class _Seen:
    """Memory that others see, and a copy of it."""

    __slots__ = ("buffer", "copy")

    def __init__(self, node: Node) -> None:
        self.buffer, self.copy = node.payload, copied(node)


def _undone(node: Node, version: tuple[int, Any], before: Node | _Seen) -> Node:
    """What a component was before writes by index, given that, or the memory that it was in."""
    if not isinstance(before, _Seen):
        return before
    number, vertex = version
    found = _unwritten(node, number, vertex)
    if primal(found).id == number:
        return found
    found = put_back(before.buffer, before.copy)  # whatever the array is in now
    return found if vertex is None else dual(found, vertex)


def note_narrow() -> None:
    """Note that a component of one element is written to by index, which must be as wide as those beside it."""
    journal = innermost_journal()
    if journal is not None:
        journal.narrow = True


def settled(array: Any) -> bool:
    """Wait while an array holds what stands for it in a function that another thread traces, which finds the array
    elsewhere; returns whether it did. Threads that wait for each other give up."""
    node = traced_elsewhere(array._nodes())
    if node is None:
        return False
    end = time.monotonic() + _PATIENCE
    while node is not None:
        if time.monotonic() > end:
            raise symbolic_error(node)
        time.sleep(_INTERVAL)
        node = traced_elsewhere(array._nodes())
    return True


#: So many seconds a thread waits for another one, and so many before it looks again.
_PATIENCE, _INTERVAL = 10.0, 0.0005


class _Running(threading.local):
    """The journals of evaluated constructs that run in this thread, innermost last."""

    def __init__(self) -> None:
        self.journals: list[Journal] = []


_running = _Running()


def no_journal() -> bool:
    """Whether no evaluated construct runs in this thread."""
    return not _running.journals


def _is_seen_elsewhere(node: Node) -> bool:
    """Whether others see the memory of a node, so that writes must happen there."""
    node = primal(node)
    return bool(node.kind == _EVALUATED and node.payload.exported)


_EVALUATED = KIND["evaluated"]


class noted:
    """Note what arrays are changed while a function of an evaluated construct runs; if it raises, all get back what
    they held."""

    __slots__ = ("journal",)

    def __init__(self) -> None:
        self.journal = Journal()

    def __enter__(self) -> Journal:
        region = innermost()
        self.journal.scope = 0 if region is None else region.id
        _running.journals.append(self.journal)
        _begun.append(True)
        return self.journal

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 traceback: TracebackType | None) -> None:
        journal, journals = self.journal, _running.journals
        try:
            if kind is not None:
                journal.roll_back()
        finally:
            journals.pop()
            _begun.pop()
        if kind is None and journals and journals[-1].scope == journal.scope:
            around = journals[-1]
            if journal.writes:
                around.writes = {number: entry for number, entry in journal.writes.items()
                                 if number not in around.entries} | around.writes
            if journal.entries:
                around.entries = {**journal.entries, **around.entries}
        journal.entries = journal.writes = _NOTHING  # which hold what later writes could otherwise write to in place


def standing() -> tuple[int, tuple[int, int, int], Any]:
    """What of constructs runs in this thread now, for :func:`end_since`."""
    if not _begun:
        return 0, _NO_LANES, current().derivatives
    return len(_running.journals), depths(), current().derivatives


_NO_LANES = 0, 0, 0
_begun = begun


def end_since(before: tuple[int, tuple[int, int, int], Any]) -> None:
    """End what a construct has begun, which has raised. All of that has ended by itself, but at the limit of recursion,
    where a call of ``__exit__`` raises, too."""
    journals, lanes, derivatives = before
    for journal in reversed(_running.journals[journals:]):
        journal.roll_back()
    del _begun[len(_begun) + journals - len(_running.journals):]
    del _running.journals[journals:]
    cut_to(lanes)
    current().derivatives = derivatives


def innermost_journal() -> Journal | None:
    """The journal of the innermost function that this thread traces."""
    region = innermost()
    while region is not None:
        journal: Journal | None = region.journal
        if journal is not None:
            return journal
        region = region.outer
    return None
