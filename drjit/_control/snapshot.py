"""What containers hold before functions are called, and which of it is something else afterwards.

The containers that functions were given, or that they know, are remembered before a call, and compared after it.

NumPy arrays, sets, and what else has a buffer that can be written to are no containers: they hold data, as arrays do,
but know nothing of elements. A body that is traced is called once for all iterations, and would change them once, where
Python does it in each; that is refused. Lists, dictionaries and queues of Python objects are what programs note things
down in, once for each call. NumPy arrays of Python objects are lists of these.
"""

from __future__ import annotations

import functools
import gc
import sys
import warnings
from collections.abc import Callable, Container, Sequence
from types import CodeType, FunctionType, ModuleType
from typing import Any

import drjit_core as core
from drjit_core import (
    any_vertex,
    closure_of,
    code_of,
    defaults_of,
    depend_on,
    further_of,
    globals_of,
    innermost,
    is_apart,
    primal,
    tracked,
)

from .._access.store import extent_of
from .._base.array import ArrayBase
from .._base.handle import Handle
from .._trees.contents import (
    attributes_in_dict,
    attributes_of,
    contents_of,
    data_of,
    entries_of,
    is_small,
    listed,
    parts_of,
    set_data,
    shown,
    write_place,
)
from .._trees.holders import has_array
from .._trees.kinds import (
    CELL,
    CLASS,
    DATA,
    DICT,
    FUNCTION,
    GENERATOR,
    LIST,
    MISSING,
    MODULE,
    OBJECT,
    REFERRING,
    TUPLE,
    VALUE,
    VARIABLES,
    about,
    is_installed,
    is_library,
    is_of_library,
    is_own,
    kind_at,
    refers,
)
from .._trees.pytree import flatten_nodes
from .closed import (
    COMPUTES_ATTRIBUTES,
    COMPUTES_VARIABLES,
    called_by_operators,
    functions_of,
    imported_by,
    is_closed,
    names_of,
    variables_of,
)
from .places import Change, is_spent, reorder, restore, unshared

__all__ = ["Snapshot", "snapshot"]

#: So many containers are looked at; a warning tells if there are more.
_MOST_CONTAINERS = 65536
_EMPTY: list[Any] = []
_NOTHING: dict[int, Any] = {}
_KEEPING = functools._lru_cache_wrapper
#: The warnings that have been given, by their places.
_warned: dict[Any, Any] = {}
#: What variables of optimisers make of what they consist of when they are asked.
_COMPUTED = frozenset(("duals", "slope"))
#: What functions of other frameworks have: frozen functions call them, and do not look at what these know.
_WRAPPED = "__drjit_wrap__"


class Snapshot:
    """What containers hold: those of a tree, and those that a function knows.

    Nothing is copied but references: what a container held is compared by identity.
    """

    __slots__ = ("asks", "begun", "caches", "data", "functions", "held", "index", "keeping", "kept", "modules", "more",
                 "origins", "owners", "passed", "reordered", "same", "seen", "showing", "suspended", "traced",
                 "waiting")

    def __init__(self) -> None:
        #: Whether data is looked at, and whether variables of generators are.
        self.traced = self.suspended = False
        #: Whether the arrays are looked at that views write to.
        self.origins = False
        #: Whether there is more than is looked at.
        self.more = False
        #: Whether there are objects that ask others for attributes whose names they know.
        self.asks = False
        #: NumPy arrays, sets and other objects that hold data, with that.
        self.data: list[tuple[Any, Any]] = _EMPTY
        #: Generators that have changed variables which they use in the middle of an expression, and these; those that
        #: hold arrays in variables which they had not before.
        self.waiting: list[tuple[Any, str]] = _EMPTY
        self.begun: list[tuple[Any, str]] = _EMPTY
        #: How many modules there were, if functions import some.
        self.modules = 0
        #: Of each container: the container, what it is, the number of keys and values, and these in turn; of lists a
        #: copy, of cells the content.
        self.held: list[Any] = []
        #: The positions in that of containers that hold an array, one or a list, by the ids of the array and of what it
        #: is part of, once places have been asked for.
        self.index: dict[int, Any] = _NOTHING
        self.seen: set[int] = set()
        #: What has led to some of them, which nobody sees if it leads to others later: iterators, sets, views.
        self.passed: list[Any] = _EMPTY
        #: Objects of which only they themselves know what they show of arrays.
        self.showing: list[Any] = _EMPTY
        #: Optimisers and the like, which keep variables that are no places; and all that these consist of, with that.
        self.keeping: list[Any] = _EMPTY
        self.kept: list[tuple[Any, Any, int, dict[Any, Any]]] = _EMPTY
        #: Functions whose results are kept, with what that was.
        self.caches: list[tuple[Any, list[Any]]] = _EMPTY
        #: Whether everything was the same when that was asked last; dictionaries with arrays whose entries are in
        #: another order, with those of before and then.
        self.same = True
        self.reordered: list[tuple[Any, list[Any], list[Any]]] = _EMPTY
        #: The functions among them; classes and modules, where functions find others by name.
        self.functions: list[FunctionType] = []
        self.owners: list[Any] = _EMPTY

    @property
    def codes(self) -> list[CodeType]:
        """The codes of the functions."""
        return [code_of(function) for function in self.functions]

    def settings(self) -> tuple[Any, ...]:
        """What tells what the functions do: the ids of their codes, and the texts and truth values that they know by
        name, as their variables or those around them."""
        found: list[Any] = []
        for function in self.functions:
            code, cells, defaults, variables = code_of(function), closure_of(function), defaults_of(function), \
                globals_of(function)
            found.append(id(code))
            if cells is not None:
                for cell in cells:
                    _note_setting(contents_of(cell), found)
            if defaults is not None:
                for value in defaults:
                    _note_setting(value, found)
            for name in variables_of(code)[0]:
                _note_setting(variables.get(name), found)
        return tuple(found)

    def add(self, value: Any) -> None:
        """Look at a value, and at all that it refers to."""
        todo = [value]
        seen, known = self.seen, about(type(value))
        #: The class that is known, and the one of the last object that was looked at, of which the next ones are.
        cls: Any = type(value)
        last: Any = None
        while todo:
            value = todo.pop()
            if type(value) is not cls:
                cls = type(value)
                known = about(cls)
            kind = known.kind
            if kind < 0 or kind == DATA:
                kind = kind_at(value)
            count = len(seen)
            if kind == VALUE and not known.has_more or kind == MODULE and is_library(value):
                continue
            if count >= _MOST_CONTAINERS:
                self.more = True
                return
            seen.add(id(value))
            if len(seen) == count:  # it was there
                continue
            if kind == CLASS:
                known = about(value)
                cls = None
            if cls is not last or kind == CLASS:
                for base in known.bases:  # which are looked at before what shows their attributes
                    if id(base) not in seen:
                        self.add(base)
                if known.is_users and kind == CLASS:
                    self.add_class(value, todo)
                elif known.is_users and id(cls) not in seen:
                    self.add(cls)
                last = None if kind == CLASS else cls
            if kind == OBJECT or kind == DICT:
                entries = entries_of(value, kind) if kind == DICT or known.slots else attributes_in_dict(value)
                self.add_entries(value, kind, entries, todo)
                if known.assigns:
                    self.showing = [*self.showing, value]
                    if self.origins and hasattr(value, "__drjit_origin__"):
                        todo.append(value.__drjit_origin__()[0])
                if known.keeps:
                    self.keeping = [*self.keeping, value]
                if known.asks:
                    self.asks = True
            elif kind == LIST or kind == TUPLE:
                content = value if kind == TUPLE else listed(value)
                self.held += (value, kind, content)
                _push(content, todo)
                if known.kind == DATA:  # a NumPy array, whose other fields are numbers
                    self.add_data(value)
            elif kind == CELL:
                content = contents_of(value)
                self.held += (value, kind, content)
                if refers(content):
                    todo.append(content)
            elif kind == FUNCTION:
                self.add_function(value, todo)
            elif kind == MODULE:
                self.owners = [*self.owners, value]
                entries = entries_of(value, kind)
                answers = vars(value).get("__getattr__")  # for names that the module does not have
                if type(answers) is FunctionType:
                    todo.append(answers)
                if entries:
                    self.add_entries(value, kind, entries, todo)
            elif kind != CLASS and kind != VALUE:
                parts = parts_of(value, kind)
                _push(parts, todo)
                if kind == REFERRING and isinstance(value, _KEEPING):
                    self.caches = [*self.caches, (value, parts)]
                if kind == GENERATOR or kind == REFERRING or isinstance(value, set):
                    self.passed = [*self.passed, value]
                if kind == GENERATOR and self.suspended:
                    self.add_entries(value, kind, entries_of(value, kind), todo)
                elif kind == DATA:
                    self.add_data(value)
            if known.has_more and kind != CLASS:
                self.add_entries(value, OBJECT, attributes_of(value), todo)

    def add_entries(self, container: Any, kind: int, entries: dict[Any, Any], todo: list[Any]) -> None:
        """Note what a container holds."""
        held = self.held
        held.append(container)
        held.append(kind)
        held.append(2 * len(entries))
        for key, value in entries.items():
            held.append(key)
            held.append(value)
            if refers(value):
                todo.append(value)
            if kind == DICT and refers(key):
                todo.append(key)

    def add_entries_of(self, held: list[Any]) -> None:
        """Note what containers held that had nothing but arrays and each other."""
        position = len(self.held)
        self.held, self.index = self.held + held, _NOTHING
        while position < len(self.held):
            self.seen.add(id(self.held[position]))
            position += 3 if self.held[position + 1] == LIST else 3 + self.held[position + 2]

    def is_unchanged(self) -> bool:
        """Whether everything is as it was, as far as that is known of what there is."""
        return not (self.data or self.passed or self.showing or self.keeping or self.caches or self.changes()) and \
            self.same and not self.waiting and not self.begun

    def add_data(self, value: Any) -> None:
        """Note what something holds that is no place, where that must not change."""
        if self.traced and is_small(value):
            self.data = self.data or []
            self.data.append((value, data_of(value)))

    def add_class(self, cls: type, todo: list[Any]) -> None:
        """Note the attributes of a class; look at those that are no functions, and at methods that operators call."""
        held, entries = self.held, entries_of(cls, CLASS)
        self.owners = [*self.owners, cls]
        held.append(cls)
        held.append(CLASS)
        held.append(2 * len(entries))
        for key, value in entries.items():
            held.append(key)
            held.append(value)
            if key[:2] == "__":
                todo += called_by_operators(value)
            elif refers(value) and not callable(value):
                todo.append(value)

    def add_function(self, function: FunctionType, todo: list[Any]) -> None:
        """Look at the variables that a function uses."""
        if is_of_library(function):
            return
        self.functions.append(function)
        further = further_of(function)
        if self.suspended and further is not None and _WRAPPED in function.__dict__:
            return
        cells, defaults, variables = closure_of(function), defaults_of(function), globals_of(function)
        if cells is not None:
            todo += cells
        if defaults is not None:
            todo.append(defaults)
        if further is not None:
            todo += further
        names, modules = variables_of(code_of(function))
        if modules:
            todo += imported_by(modules, variables)
            self.modules = self.modules or len(sys.modules)
        if names and not is_own(variables.get("__name__", "")):
            if names[0] in COMPUTES_VARIABLES:
                names = tuple([name for name in variables if name[:2] != "__"])
            held = self.held
            held.append(variables)
            held.append(VARIABLES)
            held.append(2 * len(names))
            for name in names:
                value = variables.get(name, MISSING)
                held.append(name)
                held.append(value)
                if refers(value):
                    todo.append(value)

    def is_complete(self) -> bool:
        """Whether functions have imported no modules since for the first time, at which nobody has looked."""
        return not self.modules or self.modules == len(sys.modules)

    def add_named(self) -> None:
        """Look at methods and functions that others find by their names in classes and modules, at all methods if names
        are computed; and note what modules have by names that are used, or by any, whatever that is."""
        names: set[str] = set()
        functions = owners = 0
        while functions < len(self.functions) or owners < len(self.owners):
            for function in self.functions[functions:]:
                names.update(names_of(code_of(function)))
            functions, owners = len(self.functions), len(self.owners)
            for owner in self.owners:
                entries = vars(owner)
                if isinstance(owner, type) and "__subclasses__" in names:
                    for derived in list[Any](type.__subclasses__(owner)):
                        self.add(derived)
                computed = isinstance(owner, type) and (self.asks or not names.isdisjoint(COMPUTES_ATTRIBUTES))
                for name in list(entries) if computed else names.intersection(entries):
                    for value in functions_of(entries[name]):
                        self.add(value)
        for owner in self.owners:
            if type(owner) is ModuleType:
                variables = vars(owner)
                used = names.intersection(variables) if names.isdisjoint(COMPUTES_ATTRIBUTES) and not self.asks else [
                    name for name in variables if name[:2] != "__"]
                plain = [entry for name in used if kind_at(variables[name]) == VALUE
                         and not isinstance(variables[name], ArrayBase) for entry in (name, variables[name])]
                self.held += (owner, MODULE, len(plain), *plain)

    def add_installed(self) -> None:
        """Note which numbers and texts libraries have, in whose modules nothing else is looked at, by names that are
        used."""
        todo = [value for value in self.held if type(value) is ModuleType and is_installed(value)]
        names = set[str]().union(*map(names_of, self.codes)) if todo else set()
        while todo:
            module = todo.pop()
            if id(module) not in self.seen:
                self.seen.add(id(module))
                variables = vars(module)
                entries = {name: variables[name] for name in sorted(names.intersection(variables))}
                todo += [value for value in entries.values() if type(value) is ModuleType and is_installed(value)]
                plain = {name: value for name, value in entries.items()
                         if kind_at(value) == VALUE and not callable(value) and not isinstance(value, ModuleType)}
                self.held += (module, MODULE, 2 * len(plain), *[each for entry in plain.items() for each in entry])

    def constants(self, state: Sequence[Any]) -> list[tuple[ArrayBase, int, list[int]]]:
        """The arrays that containers hold of which components must be variables: in how many places they are, and which
        components. Those that are ``state`` otherwise must be if they are constants only; others that are equal to
        state must be."""
        arrays: dict[int, Any] = {}
        more: dict[int, int] = {}
        array: Any
        for value in self.values():
            if not isinstance(value, Handle) or not value._dynamic:  # type: ignore[attr-defined]
                continue
            array = value
            while array._o is not None:
                array = array._o[0]
            number = id(array)
            if number in arrays:
                more[number] = more.get(number, 1) + 1
            else:
                arrays[number] = array
        for leaf in state if arrays else ():
            if id(leaf) in arrays and not [node for node in _components(leaf) if primal(node).kind == _LITERAL]:
                del arrays[id(leaf)]
        if not arrays:
            return []
        #: What is the content of an array, and of several, unless it is a constant in any case.
        known = {primal(node) for leaf in state if isinstance(leaf, ArrayBase) and leaf._dynamic
                 for node in leaf._nodes() if id(leaf) not in arrays}
        several: set[core.Node] = set()
        for array in arrays.values():
            for node in (array._n,) if array._depth <= 0 else array._c:
                node = primal(node)
                if node in known:
                    several.add(node)
                elif node.kind != _LITERAL:
                    known.add(node)
        found: list[tuple[ArrayBase, int, list[int]]] = []
        for number, array in arrays.items():
            count = more.get(number, 1) if more else 1
            if array._depth <= 0:
                if _must_be_variable(array._n, several):
                    found.append((array, count, [0]))
                continue
            nodes = array._c
            width = max([node.size for node in nodes], default=0)  # narrower ones become as wide when written to
            positions = [place for place, node in enumerate(nodes) if node.size == width and _must_be_variable(
                node, several)]
            if positions:
                found.append((array, count, positions))
        return found

    def forget(self, depends: Callable[[list[core.Node]], bool], changed: Container[int]) -> None:
        """Let functions whose results are kept compute them again, if any new ones depend on elements, but for arrays
        that are ``changed`` in place, by their ids, which are what is wanted."""
        for function, before in self.caches:
            known, nodes = set(map(id, before)), list[core.Node]()
            for part in parts_of(function, REFERRING):
                if id(part) not in known and has_array(part):
                    found, leaves, _ = flatten_nodes(part, "")
                    if not [leaf for leaf in leaves if id(leaf) in changed]:
                        nodes += found
            if nodes and depends(nodes):
                function.cache_clear()

    def restored(self) -> list[Any]:
        """Data that is something else now; it gets back what it was."""
        found = []
        for value, before in self.data:
            if data_of(value) != before:
                set_data(value, before)
                found.append(value)
        return found

    def keep(self, holder: Any) -> None:
        """Note what an object consists of that keeps variables."""
        for owner in (holder, *[variable for variable, _ in holder.__drjit_variables__()]):
            entries = attributes_of(owner)
            self.kept = [*self.kept, (holder, owner, OBJECT, dict(entries)), *[
                (holder, entry, DICT, dict(entry)) for entry in entries.values() if type(entry) is dict]]

    def rekept(self) -> list[Any]:
        """Objects of which variables that they keep are others now; they get back what they were."""
        found = [each for each in self.kept if _differs(*each[1:])]
        for _, owner, kind, before in found:
            for key in [key for key in entries_of(owner, kind) if key not in before]:
                write_place(owner, kind, key, MISSING)
            for key, value in before.items():
                write_place(owner, kind, key, value)
        self.same = self.same and not found
        return [holder for holder, *_ in found]

    def places(self, sought: Any) -> list[tuple[Any, int, Any]]:
        """The places in which an array was, or what it is part of, or a part of it."""
        found: list[tuple[Any, int, Any]] = []
        if not isinstance(sought, Handle):
            return found
        owner, first, end = extent_of(sought)
        if not self.index:
            self.index = self.indexed()
        among = self.index.get(id(owner), _EMPTY)
        if owner is not sought and id(sought) in self.index:
            among = sorted({*_several(among), *_several(self.index[id(sought)])})
        held = self.held
        for position in _several(among):
            container, kind, values = held[position], held[position + 1], held[position + 2]
            if kind == CELL:
                if _shares(values, owner, first, end):
                    found.append((container, kind, ""))
            elif kind == LIST or kind == TUPLE:
                for key, value in enumerate(values):
                    if _shares(value, owner, first, end):
                        found.append((container, kind, key))
            else:
                for place in range(position + 3, position + 3 + values, 2):
                    if _shares(held[place + 1], owner, first, end):
                        found.append((container, DICT if kind == VARIABLES else kind, held[place]))
        return found

    def indexed(self) -> dict[int, Any]:
        """What :attr:`index` is."""
        found: dict[int, Any] = {}
        for position in self.positions():
            for value in self.content(position):
                _note_array(found, value, position)
        return found

    def values(self) -> list[Any]:
        """What is in all places."""
        found: list[Any] = []
        for position in self.positions():
            found += self.content(position)
        return found

    def positions(self) -> list[int]:
        """Where containers begin in what is held."""
        found: list[int] = []
        held, position = self.held, 0
        while position < len(held):
            found.append(position)
            kind = held[position + 1]
            position += 3 if kind == CELL or kind == LIST or kind == TUPLE else 3 + held[position + 2]
        return found

    def content(self, position: int) -> Sequence[Any]:
        """What is in a container that begins at a position."""
        kind, values = self.held[position + 1], self.held[position + 2]
        if kind == CELL:
            return (values,)
        return values if kind == LIST or kind == TUPLE else self.held[position + 4:position + 3 + values:2]

    def changes(self) -> list[Change]:
        """The places that hold something else now; notes dictionaries with arrays that have another order."""
        found: list[Change] = []
        held, position = self.held, 0
        self.same, self.reordered = True, _EMPTY
        slots: tuple[str, ...] = ()
        last: Any = None
        while position < len(held):
            container, kind, before = held[position], held[position + 1], held[position + 2]
            position += 3
            if kind == TUPLE:
                continue
            if kind == CELL:
                now = contents_of(container)
                if now is not before:
                    found.append(Change(container, kind, "", before, now))
            elif kind == LIST:
                now = listed(container)
                if not _same(now, before):
                    _compare(container, kind, dict(enumerate(before)), dict(enumerate(now)), found)
            else:
                first, count = position, before
                position += count
                if kind == VARIABLES or kind == MODULE:  # some of those that there are
                    variables = vars(container) if kind == MODULE else container
                    for place in range(first, position, 2):
                        now = variables.get(held[place], MISSING)
                        if now is not held[place + 1]:
                            found.append(Change(container, MODULE if kind == MODULE else DICT, held[place],
                                                held[place + 1], now))
                    continue
                if kind == OBJECT:
                    if type(container) is not last:
                        last = type(container)
                        slots = about(last).slots
                    entries = attributes_of(container) if slots else attributes_in_dict(container)
                else:
                    entries = entries_of(container, kind)
                if not _same_entries(entries, held, first, position):
                    old = dict(zip(held[first:position:2], held[first + 1:position:2], strict=True))
                    if kind == GENERATOR:
                        self.compare_variables(container, old, entries, found)
                        continue
                    if kind == DICT and [key for key in entries if key in old] != list(old):
                        self.same = False
                        if has_array(container):
                            self.reordered = [*self.reordered, (container, list(old), list(entries))]
                    _compare(container, kind, old, dict(entries), found)
        self.same = self.same and not found
        return found

    def refresh(self) -> bool:
        """Note what containers hold now; false if others may be in them that nobody has looked at."""
        held, position = self.held, 0
        self.index = _NOTHING
        if self.passed or self.data or self.more or self.kept:
            return False
        while position < len(held):
            container, kind, before = held[position], held[position + 1], held[position + 2]
            position += 3
            if kind == TUPLE:
                continue
            if kind == CELL or kind == LIST:
                now = listed(container) if kind == LIST else contents_of(container)
                if now is before if kind == CELL else _same(now, before):
                    continue
                held[position - 1] = now
                if [value for value in (now if kind == LIST else [now]) if refers(value)]:
                    return False
                continue
            entries = vars(container) if kind == MODULE else container if kind == VARIABLES else \
                entries_of(container, kind)
            if kind != MODULE and kind != VARIABLES and 2 * len(entries) != before:
                return False
            for place in range(position, position + before, 2):
                now = entries.get(held[place], MISSING)
                if now is not held[place + 1]:
                    held[place + 1] = now
                    if now is MISSING or refers(now):
                        return False
            position += before
        return True

    def compare_variables(self, generator: Any, before: dict[str, Any], now: dict[str, Any],
                          found: list[Change]) -> None:
        """Note the variables of a generator that hold arrays which may be computed of those that they held: others may
        be what they are, since they are forgotten."""
        for name, value in now.items():
            old = before.get(name, MISSING)
            if old is MISSING and has_array(value) and not [each for each in before.values() if each is value]:
                self.begun = [*self.begun, (generator, name)]
                found.append(Change(generator, GENERATOR, name, MISSING, value))
            if value is old or not (has_array(old) and has_array(value)):
                continue
            (nodes, _, spec), (others, _, was) = flatten_nodes(value, ""), flatten_nodes(old, "")
            if was.meeting(spec) is None or self.traced and not depend_on(
                    [node for node in nodes if primal(node).kind != _LITERAL], others):
                continue
            found.append(Change(generator, GENERATOR, name, old, value))
            held = [each for each in gc.get_referents(generator) if each is value]
            if len(held) > len([each for each in now.values() if each is value]):
                self.waiting = [*self.waiting, (generator, name)]

    def undo(self, counts: Callable[[Change], bool] | None = None) -> list[Change]:
        """Let places hold what they held, and dictionaries with arrays have the order that they had; returns the
        changes that have to do with arrays, or are beside such in lists that have got longer or shorter, where entries
        are in other places; and others that are said to count."""
        found = self.changes()
        if self.same:
            return found
        moved = {id(change.container) for change in found if change.kind == LIST and (
            change.before is MISSING or change.now is MISSING)}
        moved = {id(change.container) for change in found if id(change.container) in moved and (
            has_array(change.before) or has_array(change.now))}
        copies = dict[int, tuple[Any, Any]]()
        changes = [change if change.before is MISSING else change._replace(now=unshared(change.now, copies),
                                                                           copies=copies)
                   for change in found if has_array(change.before) or has_array(change.now) or
                   id(change.container) in moved or counts is not None and counts(change)]
        restore(changes)
        for table, keys, _ in self.reordered:
            reorder(table, keys)
        return [change._replace(before=MISSING, spent=change.before)
                if change.now is not MISSING and is_spent(change.before) else change for change in changes]


def _compare(container: Any, kind: int, before: dict[Any, Any], now: dict[Any, Any], found: list[Change]) -> None:
    for key, value in before.items():
        other = now[key] if key in now else shown(container, kind, key, found)
        if other is not value:
            found.append(Change(container, kind, key, value, other))
    for key, value in now.items():
        if key not in before:
            found.append(Change(container, kind, key, shown(container, kind, key, found), value))


def _differs(owner: Any, kind: int, before: dict[Any, Any]) -> bool:
    """Whether an object or a dictionary consists of something else than before, but for what it has computed of that.
    """
    now = entries_of(owner, kind)
    return bool([key for key in (*before, *now) if key not in _COMPUTED and
                 now.get(key, MISSING) is not before.get(key, MISSING)])


def _note_setting(value: Any, found: list[Any]) -> None:
    """Note a text or a truth value."""
    cls = type(value)
    if cls is str or cls is bool:
        found.append(value)


def _push(values: Sequence[Any], todo: list[Any]) -> None:
    """Add those of some values that may refer to others."""
    for value in values:
        if refers(value):
            todo.append(value)


def _same(now: list[Any], before: list[Any]) -> bool:
    if len(now) != len(before):
        return False
    for position, value in enumerate(now):  # noqa: SIM110  (compiled)
        if value is not before[position]:
            return False
    return True


def _same_entries(now: dict[Any, Any], held: list[Any], first: int, end: int) -> bool:
    """Whether keys and values are those of before, in the same order."""
    if 2 * len(now) != end - first:
        return False
    for key, value in now.items():
        if value is not held[first + 1] or key is not held[first]:
            return False
        first += 2
    return True


def snapshot(tree: Any, function: Callable[..., Any] | None, apart: Sequence[Any] = (),
             data: bool = False) -> Snapshot | None:
    """What is held by the containers of a tree, but for some, and by those that a function knows; ``None`` if there are
    none. Arrays of NumPy and other ``data`` belong to it where something is traced, or will be."""
    if tree is None and (function is None or is_closed(function)):
        return None
    found = Snapshot()
    found.suspended, found.traced = True, data or innermost() is not None
    if apart:
        found.seen.update([id(each) for each in apart])
    if tree is not None:
        found.add(tree)
    if function is not None:
        found.add(function)
    if found.owners:
        found.add_named()
    for holder in found.keeping:
        found.keep(holder)
    if found.more:
        file, number = core.user_line() or ("<unknown>", 0)
        warnings.warn_explicit(
            f"The functions of a loop, branch or call refer to more than {_MOST_CONTAINERS} lists, dictionaries and "
            "objects. Not all are looked at, so that what they do to the others may be lost: keep the data in arrays, "
            "or pass what changes as an argument.", RuntimeWarning, file, number, registry=_warned)
    return found if found.held or found.data else None


def _note_array(index: dict[int, Any], value: Any, position: int) -> None:
    """Note in which container an array is, if something is one."""
    if not isinstance(value, Handle):
        return
    array = value
    while True:
        number = id(array)
        known = index.setdefault(number, position)
        if known.__class__ is list:
            if known[-1] != position:
                known.append(position)
        elif known != position:
            index[number] = [known, position]
        if array._o is None:
            return
        array = array._o[0]


def _several(value: Any) -> list[int]:
    """One or several, as several."""
    return value if value.__class__ is list else [value]


def _shares(value: Any, owner: Any, first: int, end: int) -> bool:
    """Whether something is an array that holds any of the same contents: some nodes of the owner of these."""
    if value is owner:
        return True
    if not isinstance(value, Handle) or value._o is None:
        return False
    other, start, last = extent_of(value)
    return other is owner and start < end and first < last


def _must_be_variable(node: core.Node, several: set[core.Node]) -> bool:
    """Whether what is computed with a node would not tell what it is computed of: a constant, the contents of several
    arrays, or what may turn out to have derivatives, of which it was not known then; or if it has,
    what is a variable around this construct, which probably changes it."""
    value = primal(node)
    return value.kind == _LITERAL or value in several or any_vertex() and core.is_float(node.type) and (
        value.kind == _PHI or is_apart(value) or tracked(node) is None)


_LITERAL, _PHI = core.KIND["literal"], core.KIND["phi"]


def _components(array: Any) -> list[core.Node]:
    """The nodes of an array that is no view."""
    return [array._n] if array._depth <= 0 else array._c


