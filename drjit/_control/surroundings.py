"""What functions that are called again for their derivatives change besides what they return.

Such a function may draw from a generator that it refers to, count its calls, or keep something. When it is called
again, it finds what it found the first time; and afterwards, all is as it was before. So do its variables, and those of
the functions among them, which may be others by then: a loop around the function counts on, for instance.
"""

from __future__ import annotations

import itertools
import pickle
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from types import BuiltinMethodType, FunctionType, GeneratorType, MethodType, ModuleType
from typing import Any, NamedTuple

import drjit_core as core
from drjit_core import Node, Vertex, primal, vertex_of

from .._access.store import noted, owner_of, store
from .._base.array import ArrayBase
from .._base.links import links
from .._trees.contents import contents_of, data_of, set_data, write_place
from .._trees.kinds import CELL, DICT, LIST, MISSING, is_library
from .._trees.pytree import flatten_nodes
from .closed import names_of
from .places import Change, place_key, restore
from .snapshot import Snapshot, snapshot
from .wording import name_in_program, place_in_words

__all__ = ["Moment", "Surroundings"]

#: The modules that NumPy's classes of generators of random numbers belong to.
_OF_NUMPY = frozenset(("numpy.random._generator", "numpy.random.mtrand"))
#: Iterators that are made of no others.
_SEQUENCES: tuple[Any, ...] = [], (), "", b"", range(0), set(), {}, {}.values(), {}.items()
_ITERATORS = frozenset([itertools.count, *(type(iter(each)) for each in _SEQUENCES)])
_NOTHING = compile("", "", "exec")
_EVALUATED = core.KIND["evaluated"]


class Moment(NamedTuple):
    """What surrounds a function at some time: what containers hold, arrays with their nodes and shapes, and generators
    of random numbers of Python and NumPy with their states."""

    held: Snapshot
    arrays: dict[int, tuple[Any, list[Node], Any]]
    generators: dict[int, tuple[Any, Any]]
    #: Iterators, with where they are.
    positions: list[tuple[Any, list[Any]]]


class Surroundings:
    """What a ``function`` of the user's refers to, and its ``arguments`` as far as they are no arrays; ``name`` is that
    of the function which calls it."""

    def __init__(self, name: str, function: Callable[..., Any], arguments: Sequence[Any]) -> None:
        self._name, self._function = name, function
        self._arguments = [value for value in arguments if not isinstance(value, ArrayBase)] or None
        #: What they are now, and were at first; ``None`` if there is nothing that could change.
        self.moment = self._first = self._look()
        self._variables = _variables_of(function)
        #: What the function has changed: places, lists, arrays, and data, by their keys and ids.
        self._changed = set[Any]()

    def _look(self) -> Moment | None:
        held = snapshot(self._arguments, self._function, data=True)
        if held is None:
            if "random" not in names_of(getattr(self._function, "__code__", _NOTHING)):
                return None
            held = Snapshot()  # it draws from a generator that a library has
            held.add(self._function)
        arrays: dict[int, Any] = {}
        generators: dict[int, Any] = {}
        for value in held.values():
            if isinstance(value, ArrayBase) and value._dynamic:
                array, _ = owner_of(value)
                arrays[id(array)] = array, array._nodes(), getattr(array, "_s", None)
                continue
            generator = _generator_of(value)
            if generator is not None:
                generators[id(generator)] = generator, _random_state(generator)
        return Moment(held, arrays, generators, [(value, _position(value)) for value in held.passed])

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
                generators = [value for value, state in before.generators.values() if _random_state(value) != state]
                for value, position in before.positions:
                    if not _are_same(_position(value), position):
                        raise RuntimeError(
                            f"{self._name}(): the function advances {name_in_program(value, [self._function])}, which "
                            "nobody can take back for when it is called again. Pass what it yields as an argument.")
                if changes or arrays or data or generators:
                    self._require_apart(changes, arrays, last, {vertex.id for vertex in variables}, strict)
                    self._changed.update(map(_key, changes), [id(array) for array, *_ in arrays],
                                         map(id, data + generators))
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
        """A context in which the variables are what they were when the function was called, and after which all is as
        it was before."""
        others = [(*place, now) for place in self._variables if (now := _content(*place[:3])) is not place[3]]
        try:
            for container, kind, key, before, _ in others:
                write_place(container, kind, key, before)
            with self._all_kept():
                yield
        finally:
            for container, kind, key, _, now in others:
                write_place(container, kind, key, now)

    @contextmanager
    def _all_kept(self) -> Iterator[None]:
        if self._first is None:
            yield
            return
        before = self._look()
        with noted() as journal:
            try:
                yield
            finally:
                if before is not None:
                    before.held.undo(lambda change: True)
                    before.held.restored()
                    for value, state in before.generators.values():
                        _set_random_state(value, state)
                journal.roll_back()

    def let(self, moment: Moment | None) -> None:
        """Let all that the function has changed be as it was at some time."""
        if moment is None or self._first is None:
            return
        restore([change for change in moment.held.changes() if self._is_changed(_key(change), change.container)])
        for value, content in moment.held.data:
            if self._is_changed(id(value), value) and data_of(value) != content:
                set_data(value, content)
        for value, state in moment.generators.values():
            if self._is_changed(id(value), value):
                _set_random_state(value, state)
        for number, entry in moment.arrays.items():
            if number in self._changed or number not in self._first.arrays:
                _put_back(*entry)
        self.moment = self._look()

    def _is_changed(self, key: Any, container: Any) -> bool:
        """Whether the function has changed something, or has made what it is in."""
        assert self._first is not None
        return key in self._changed or id(container) not in self._first.held.seen


def _variables_of(function: Callable[..., Any]) -> list[tuple[Any, int, Any, Any]]:
    """The variables that a function finds around it and in its module, and those of the functions among these: each as
    a place, and what is there."""
    found: list[tuple[Any, int, Any, Any]] = []
    todo, seen = [function], set[int]()
    while todo:
        value: Any = todo.pop()
        if isinstance(value, MethodType | partial):
            value = value.__func__ if isinstance(value, MethodType) else value.func
        module = sys.modules.get(getattr(value, "__module__", None) or "")
        if not isinstance(value, FunctionType) or id(value) in seen or module is not None and is_library(module):
            continue
        seen.add(id(value))
        places: list[tuple[Any, int, str]] = [(cell, CELL, "") for cell in value.__closure__ or ()]
        variables = value.__globals__
        places += [(variables, DICT, name) for name in names_of(value.__code__) if name in variables]
        for place in places:
            content = _content(*place)
            found.append((*place, content))
            todo.append(content)
    return found


def _content(container: Any, kind: int, key: Any) -> Any:
    return contents_of(container) if kind == CELL else container.get(key, MISSING)


def _key(change: Change) -> Any:
    """What tells a place from others; all entries of a list are one, since they move."""
    return id(change.container) if change.kind == LIST else place_key(*change[:3])


def _position(iterator: Any) -> list[Any]:
    """Where an iterator is: a generator's variables, or what a copy of another one would be made of. Those of other
    iterators are where these are."""
    if isinstance(iterator, GeneratorType):
        frame = iterator.gi_frame
        return [] if frame is None else [frame.f_lasti, *frame.f_locals.values()]
    if type(iterator) not in _ITERATORS:
        return []
    parts = iterator.__reduce__()[1:]
    return [each for part in parts for each in (part if isinstance(part, tuple) else (part,))]


def _are_same(position: list[Any], other: list[Any]) -> bool:
    """Whether an iterator has not moved; some tell what is left in a new list each time."""
    return len(position) == len(other) and all(
        a is b or type(a) is type(b) and (a == b if isinstance(a, int | range) else isinstance(a, list) and
                                          len(a) == len(b)) for a, b in zip(position, other, strict=True))


def _generator_of(value: Any) -> Any:
    """The generator of random numbers of Python or NumPy that something is: one, a method of one, or a module with one.
    """
    if isinstance(value, ModuleType):
        if value is random:
            return random.random.__self__  # type: ignore[attr-defined]
        legacy = sys.modules.get("numpy.random.mtrand") if value.__name__ in ("numpy", "numpy.random") else None
        return None if legacy is None else legacy._rand
    if isinstance(value, MethodType | BuiltinMethodType):
        value = value.__self__
    return value if isinstance(value, random.Random) or type(value).__module__ in _OF_NUMPY else None


def _random_state(generator: Any) -> Any:
    if isinstance(generator, random.Random):
        return generator.getstate()
    return pickle.dumps(generator.get_state() if hasattr(generator, "get_state") else generator.bit_generator.state)


def _set_random_state(generator: Any, state: Any) -> None:
    if isinstance(generator, random.Random):
        generator.setstate(state)
    elif hasattr(generator, "set_state"):
        generator.set_state(pickle.loads(state))
    else:
        generator.bit_generator.state = pickle.loads(state)


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
