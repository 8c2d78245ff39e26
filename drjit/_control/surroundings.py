"""What functions that are called again for their derivatives change besides what they return.

Such a function may draw from a generator that it refers to, count its calls, or keep something. When it is called
again, it finds what it found the first time; and afterwards, all is as it was before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import drjit_core as core
from drjit_core import Node, Vertex, primal, vertex_of

from .._access.store import noted, owner_of, store
from .._base.array import ArrayBase
from .._base.links import links
from .._trees.contents import data_of, set_data
from .._trees.kinds import LIST
from .._trees.pytree import flatten_nodes
from .places import Change, place_key, restore
from .snapshot import Snapshot, snapshot
from .wording import name_in_program, place_in_words

__all__ = ["Moment", "Surroundings"]

_EVALUATED = core.KIND["evaluated"]


class Moment(NamedTuple):
    """What surrounds a function at some time: what containers hold, and arrays with their nodes and shapes."""

    held: Snapshot
    arrays: dict[int, tuple[Any, list[Node], Any]]


class Surroundings:
    """What a ``function`` of the user's refers to, and its ``arguments`` as far as they are no arrays; ``name`` is that
    of the function which calls it."""

    def __init__(self, name: str, function: Callable[..., Any], arguments: Sequence[Any]) -> None:
        self._name, self._function = name, function
        self._arguments = [value for value in arguments if not isinstance(value, ArrayBase)] or None
        #: What they are now, and were at first; ``None`` if there is nothing that could change.
        self.moment = self._first = self._look()
        #: What the function has changed: places, lists, arrays, and data, by their keys and ids.
        self._changed = set[Any]()

    def _look(self) -> Moment | None:
        held = snapshot(self._arguments, self._function, data=True)
        if held is None:
            return None
        arrays: dict[int, Any] = {}
        for value in held.values():
            if isinstance(value, ArrayBase) and value._dynamic:
                array, _ = owner_of(value)
                arrays[id(array)] = array, array._nodes(), getattr(array, "_s", None)
        return Moment(held, arrays)

    @contextmanager
    def watched(self, variables: Sequence[Vertex] = (), last: int = 0, strict: bool = False) -> Iterator[list[Node]]:
        """Note what the function changes within; the list gets what it consists of, to be evaluated. If it raises,
        arrays, and places that hold some, are as they were at first.

        None of it may depend on ``variables`` by operations after the ``last`` one from before, or (``strict``) on
        anything.
        """
        nodes: list[Node] = []
        before = self.moment
        if before is None:
            yield nodes
            return
        try:
            with noted() as journal:
                yield nodes
                changes = before.held.changes()
                arrays = [before.arrays[number] for number in {**journal.entries, **journal.writes}
                          if number in before.arrays and _is_other(*before.arrays[number])]
                data = [value for value, content in before.held.data if data_of(value) != content]
                if changes or arrays or data:
                    self._require_apart(changes, arrays, last, {vertex.id for vertex in variables}, strict)
                    self._changed.update(map(_key, changes), [id(array) for array, *_ in arrays], map(id, data))
                    self.moment = self._look()
                    for value in [change.now for change in changes] + [array for array, *_ in arrays]:
                        nodes += flatten_nodes(value, self._name)[0]
        except BaseException:
            self._undo()
            raise

    def _require_apart(self, changes: Sequence[Change], arrays: Sequence[Any], last: int,
                       own: set[int], strict: bool) -> None:
        """Refuse changes that are more than values: derivatives would not flow from them to the arguments, and memory
        that others see would show what is computed again."""
        functions = [self._function]
        found = [(change.now, partial(place_in_words, change, functions)) for change in changes]
        found += [(array, partial(name_in_program, array, functions)) for array, *_ in arrays]
        for value, words in found:
            if _depend(flatten_nodes(value, self._name)[0], last, own, strict):
                raise RuntimeError(
                    f"{self._name}(): the function changes {words()} to something that derivatives are tracked for, "
                    "but these flow from what it returns only. Let it return that, too, or use drjit.detach().")
        for array, nodes, _ in arrays:
            if [node for node in map(primal, nodes) if node.kind == _EVALUATED and node.payload.exported]:
                raise RuntimeError(
                    f"{self._name}(): the function changes {name_in_program(array, functions)}, whose memory others "
                    "see, who would see it again when derivatives flow. Pass that as an argument, and let the function "
                    "return it.")

    def _undo(self) -> None:
        """Let arrays, and places that hold some, be as they were at first."""
        assert self._first is not None
        self._first.held.undo()
        for entry in self._first.arrays.values():
            _put_back(*entry)

    def finish(self) -> bool:
        """The function has been called; returns whether it has changed anything. If not, it does not when it is called
        again."""
        if not self._changed:
            self.moment = self._first = None
        return bool(self._changed)

    @contextmanager
    def kept(self) -> Iterator[None]:
        """A context after which all is as it was before."""
        if self._first is None:
            yield
            return
        before = snapshot(self._arguments, self._function, data=True)
        with noted() as journal:
            try:
                yield
            finally:
                if before is not None:
                    before.undo(lambda change: True)
                    before.restored()
                journal.roll_back()

    def let(self, moment: Moment | None) -> None:
        """Let all that the function has changed be as it was at some time."""
        if moment is None or self._first is None:
            return
        restore([change for change in moment.held.changes() if self._is_changed(_key(change), change.container)])
        for value, content in moment.held.data:
            if self._is_changed(id(value), value) and data_of(value) != content:
                set_data(value, content)
        for number, entry in moment.arrays.items():
            if number in self._changed or number not in self._first.arrays:
                _put_back(*entry)
        self.moment = self._look()

    def _is_changed(self, key: Any, container: Any) -> bool:
        """Whether the function has changed something, or has made what it is in."""
        assert self._first is not None
        return key in self._changed or id(container) not in self._first.held.seen


def _key(change: Change) -> Any:
    """What tells a place from others; all entries of a list are one, since they move."""
    return id(change.container) if change.kind == LIST else place_key(*change[:3])


def _is_other(array: Any, nodes: Sequence[Node], shape: Any) -> bool:
    """Whether an array holds something else than these nodes."""
    now = array._nodes()
    return now is not nodes and (getattr(array, "_s", None) != shape or
                                 bool([node for node, old in zip(now, nodes, strict=True) if node is not old]))


def _put_back(array: Any, nodes: list[Node], shape: Any) -> None:
    """Let an array hold some nodes, if it does not."""
    if _is_other(array, nodes, shape):
        if shape is not None:
            array._s = shape
        store(array, nodes)


def _depend(nodes: Sequence[Node], last: int, own: set[int], strict: bool) -> bool:
    """Whether any nodes depend on some vertices by operations after the last one from before, or if that is ``strict``
    on anything."""
    todo = [vertex for node in nodes if (vertex := vertex_of(node)) is not None]
    seen = set[int]()
    while todo:
        vertex = todo.pop()
        if vertex.id in own or strict and vertex.id > last:
            return True
        if vertex.id > last and vertex.id not in seen:
            seen.add(vertex.id)
            todo += vertex.operands()
    return False


links.surroundings = Surroundings
