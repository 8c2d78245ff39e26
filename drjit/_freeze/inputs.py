"""What a call of a frozen function depends on: its arguments, and all that the function can be seen to know.

Arrays are arguments of a recording. All else is part of its *key*: the containers, with which values and arrays are in
them, and which of these are the same object. Of objects only those attributes count that a function of the user's
mentions, unless they are PyTrees, or some function asks for attributes by names that it computes.
"""

from __future__ import annotations

import dis
import functools
import hashlib
import math
import os
import random
import sys
import weakref
from abc import ABCMeta, get_cache_token
from collections import namedtuple
from collections.abc import Callable, Iterator, Sequence
from numbers import Number
from types import BuiltinMethodType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple

import drjit_core as core
from drjit_core import KIND, Node, any_vertex, code_of, current, primal, tracked, vertex_of

from .._access.store import owner_of, store_same
from .._base.array import ArrayBase
from .._base.errors import describe
from .._base.types import FLOAT64, INT64, reshape, retype
from .._base.values import is_ndarray, real_number
from .._base.weak import remembered
from .._control.closed import COMPUTES_ATTRIBUTES, names_of
from .._control.places import Change, reorder, restore
from .._control.snapshot import Snapshot
from .._functions.creation import opaque
from .._functions.evaluation import make_opaque
from .._trees.contents import data_of, parts_of, position_of, read_place, set_data, write_place
from .._trees.holders import has_array
from .._trees.kinds import (
    CELL,
    CLASS,
    DATA,
    DICT,
    LIST,
    MODULE,
    OBJECT,
    REFERRING,
    TUPLE,
    VARIABLES,
    about,
    buffer_of,
    hides,
    is_own,
    kind_at,
)
from .._trees.pytree import is_pytree, leaves

__all__ = ["Inputs", "NotANumber", "Route", "array_of_number", "fill", "flag_of", "keeps_more", "token_of",
           "twins_of", "version_of"]

_LITERAL, _EVALUATED = KIND["literal"], KIND["evaluated"]
_PLAIN = {int, bool, str, bytes, type(None), type(Ellipsis)}


class _Same:
    """An object that is equal to itself only; it need not live for that."""

    __slots__ = ("_hash", "_object")

    def __init__(self, value: Any) -> None:
        self._hash = id(value)
        try:
            self._object: Callable[[], Any] = weakref.ref(value)
        except TypeError:
            self._object = lambda: value

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, _Same) or self._hash != other._hash:
            return False
        value = self._object()
        return value is not None and value is other._object()

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return repr(self._object())


def token_of(value: Any) -> Any:
    """What is equal for two values that make no difference to a function, but for containers and arrays."""
    cls = type(value)
    if cls in _PLAIN:
        return cls, value
    if cls is float:
        return cls, value, math.copysign(1.0, value) if value == 0 else 0
    if cls is FunctionType:  # what else it knows are containers, unless it is of another framework
        return cls, _Same(value if "__drjit_wrap__" in value.__dict__ else value.__code__)
    if cls is MethodType:
        return cls, token_of(value.__func__)
    if cls is functools.partial:
        return cls, token_of(value.func), tuple(map(token_of, value.args)), \
            tuple([(key, token_of(entry)) for key, entry in value.keywords.items()])
    if cls is slice:
        return cls, token_of(value.start), token_of(value.stop), token_of(value.step)
    if cls is memoryview:
        return cls, value.format, value.shape, value.tobytes()
    if is_ndarray(value):  # but for objects in it
        dtype = value.dtype.str if value.dtype.names is None else repr(value.dtype)
        return cls, value.shape, dtype, hashlib.blake2b(b"".join(data_of(value))).digest()
    if isinstance(value, set | frozenset):
        return cls, frozenset(map(token_of, value))
    if kind_at(value) == DATA:
        return cls, data_of(value)
    if isinstance(value, type | ModuleType | BuiltinMethodType) or cls.__hash__ is None or \
            _by_identity(cls):
        if cls.__module__.startswith("drjit.") and any(
                isinstance(entry, Node) for entry in getattr(value, "__dict__", {}).values()):
            raise RuntimeError(f"drjit.freeze(): the function uses an object of type {cls.__name__}, whose state "
                               "cannot be an input yet. Keep it outside of the frozen function.")
        return cls, _Same(value)
    try:
        hash(value)
    except TypeError:
        return cls, _Same(value)
    # numbers may be equal and not the same: zeros have signs, decimal numbers as many places as they have
    return (cls, value, repr(value)) if isinstance(value, Number) else (cls, value)


def _by_identity(cls: Any) -> bool:
    return cls.__hash__ is object.__hash__


def _environment() -> Any:
    return frozenset(os.environ.items())


def _context_of_decimals() -> Any:
    import decimal

    context = decimal.getcontext()
    return context.prec, context.rounding, context.Emin, context.Emax, context.clamp, tuple([
        signal for signal, is_on in context.traps.items() if is_on])


#: What functions find around them that no container shows, by the names that they ask with.
_AROUND: dict[str, Callable[[], Any]] = {
    "environ": _environment, "getenv": _environment, "getcontext": _context_of_decimals,
    "Decimal": _context_of_decimals, "log_level": core.log_level, "getcwd": os.getcwd}


#: What classes are called, which texts of them and of their objects tell without asking for it by name.
_TOLD = frozenset(("__module__", "__name__", "__qualname__"))
#: What functions are called, and what is said of them.
_DESCRIBING = ("__annotations__", "__doc__", "__module__", "__name__", "__qualname__")


def _derived_from(cls: Any) -> Any:
    """The classes that are derived from a class at once."""
    return tuple(map(_Same, type.__subclasses__(cls)))


def _text_of(function: Any, name: str) -> str:
    return repr(getattr(function, name))


def _around(names: set[str], computed: bool, snapshot: Snapshot) -> list[tuple[Callable[[], Any], Any]]:
    """What functions can find around them, with how: also which classes have been registered as derived from abstract
    ones, if there are such, or are derived from others; and what functions are called. Names may be ``computed``."""
    found = {id(read): read for name, read in _AROUND.items() if name in names}
    if any(isinstance(owner, ABCMeta) for owner in snapshot.owners):
        found[0] = get_cache_token
    reads = list(found.values())
    if "__subclasses__" in names:
        reads += [functools.partial(_derived_from, owner) for owner in snapshot.owners if isinstance(owner, type)]
    reads += [functools.partial(_text_of, function, name) for name in _DESCRIBING if computed or name in names
              for function in snapshot.functions]
    return [(read, read()) for read in reads]


def kept_by(function: Any) -> frozenset[Any]:
    """What a function keeps that keeps its results, and what arrays among these hold."""
    parts = parts_of(function, REFERRING)
    return frozenset(map(_Same, [*parts, *[node for part in parts if isinstance(part, ArrayBase)
                                           for node in part._nodes()]]))


def _keeps(function: Any, results: frozenset[Any]) -> bool:
    """Whether a function still keeps those results."""
    return results <= kept_by(function)


@remembered
def _names_in(code: CodeType) -> set[str]:
    """The names and texts in a function, and in those within it."""
    return set(names_of(code)).union(*[
        {constant} if isinstance(constant, str) else _names_in(constant)
        for constant in code.co_consts if isinstance(constant, str | CodeType)])


@remembered
def _counts_in_full(cls: Any) -> bool:
    """Whether functions that nobody looks at read attributes of objects: those of this package, or of a library that
    tells what is equal."""
    owner = next(base for base in cls.__mro__ if "__hash__" in vars(base))
    return is_pytree(cls) or is_own(cls.__module__) or owner is not object and not about(owner).is_users


@remembered
def _has_state(cls: Any) -> bool:
    """Whether objects of a class, which is none of ours, keep more than attributes: those of compiled classes are
    larger than attributes need."""
    size = _Plain.__basicsize__ + len(about(cls).slots) * (_OneSlot.__basicsize__ - object.__basicsize__)
    return cls.__basicsize__ > size and not is_own(cls.__module__) and not is_pytree(cls)


class _Plain:
    """An object with attributes and nothing else."""


class _OneSlot:
    """An object with one attribute."""

    __slots__ = ("one",)


def keeps_more(value: Any) -> bool:
    """Whether an object with attributes keeps what these do not show, as tensors of other libraries do: only the same
    object is like it, in the same version."""
    return kind_at(value) == OBJECT and _has_state(type(value))


def version_of(value: Any) -> Any:
    """What counts the changes of such an object, if anything does."""
    return getattr(value, "_version", None)


#: How a place is reached: from the arguments (``None``), or from a container that the function knows, by kinds of
#: containers and keys; and the type of the number there and of arrays that hold these, if it stays one, or ``None`` if
#: an array takes its place.
Route = tuple[Any, tuple[tuple[int, Any], ...], Any]


class NotANumber(TypeError):
    """An array that stands for a number is used in a way that only numbers can be."""


class _Number(NamedTuple):
    """A number in some place, which an array stands for. What the function sees there is that, or a number of the
    recording, whose type is exactly that of the number."""

    container: Any
    kind: int
    key: Any
    array: Any
    exactly: Any


def type_of_numbers(values: Any) -> Any:
    """The type of arrays that stand for numbers: that of the first array of floats; ``None`` if there is none."""
    array = next((leaf for leaf in leaves(values, "drjit.freeze")
                  if isinstance(leaf, ArrayBase) and leaf._dynamic and leaf._kind == "f"), None)
    return None if array is None else retype(reshape(type(array), ()), array._type)


def array_of_number(values: Any, number: float) -> Any:
    """An evaluated array of one element that stands for a number, like the first array of floats; ``None`` if there is
    none."""
    for value in values:
        if hasattr(type(value), "__array_namespace__") and is_own(type(value).__module__):
            space = value.__array_namespace__()
            if space.isdtype(value.dtype, "real floating"):
                found = space.asarray(number, dtype=value.dtype)
                make_opaque(found)
                return found
    cls = type_of_numbers(values)
    return None if cls is None else opaque(cls, number)


_TYPES = {int: INT64, float: FLOAT64}
#: Names by which functions ask for classes of objects.
_ASKING = frozenset(("isinstance", "type", "issubclass", "__class__", "singledispatch", "isscalar"))
#: Where methods of data classes and of named tuples stand, which compare classes of objects with their own.
_GENERATED = frozenset(("<string>", namedtuple.__code__.co_filename))
#: Methods of data classes that are frozen, which ask for the class of the object itself.
_ASSIGNING = frozenset(("__setattr__", "__delattr__"))
_MATCH_CLASS = dis.opmap.get("MATCH_CLASS", -1)


def _matches(code: CodeType) -> bool:
    """Whether a function, or one within it, has patterns of classes."""
    return _MATCH_CLASS in code.co_code[::2] or any(
        isinstance(constant, CodeType) and _matches(constant) for constant in code.co_consts)


_LARGEST = 1 << 63


class _Variable(NamedTuple):
    """A variable that an object keeps apart from what it shows: a parameter of an optimiser."""

    owner: Any
    number: int  # of the array that stands for it
    counts: bool  # whether the number of steps matters


#: What of such objects is looked at as it is; those that programs see with a lower precision have a value as well.
_SHOWN = ("name", "form", "cls", "rate", "state", "shared")
_PROMOTED = (*_SHOWN, "value")


def _shown(owner: Any) -> tuple[str, ...]:
    return _PROMOTED if owner.promoted else _SHOWN


def flag_of(node: Node) -> int:
    """What matters of the derivatives of an input: whether there are, are tracked, and there is a gradient."""
    vertex = vertex_of(node)
    if vertex is None:
        return 0
    return (1 if tracked(node) is None else 2) + (0 if vertex.gradient is None else 2)


def twins_of(nodes: Sequence[Node]) -> list[int]:
    """For each node the position of the first one with the same vertex; -1 if it has none."""
    first: dict[int, int] = {}
    return [-1 if (vertex := vertex_of(node)) is None else first.setdefault(id(vertex), position)
            for position, node in enumerate(nodes)]


class Inputs:
    """What one call depends on."""

    __slots__ = ("_drawn", "_installed", "_items", "_large", "_made", "_numbers", "_replaced", "_spans", "_words",
                 "around", "arrays", "containers", "data", "described", "flags", "function", "holders", "key",
                 "names", "nodes", "own", "parts", "reason", "snapshot", "steps_before", "tree", "variables",
                 "waiting")

    def __init__(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], state: Any,
                 routes: Sequence[Route] = ()) -> None:
        """Numbers to which some routes lead are arrays."""
        #: Why recordings are not good for the call, although nothing in its words is different.
        self.reason = ""
        self.snapshot = snapshot = Snapshot()
        snapshot.suspended = snapshot.traced = snapshot.origins = True
        self.tree = [args, kwargs, state]
        #: The numbers that are arrays, by their places.
        self._made: dict[tuple[int, Any], _Number] = _numbers_at(self.tree, routes) if routes else {}
        #: The numbers of the recording that the function has found there.
        self._installed: dict[tuple[int, Any], Any] = {}
        #: The tuples that it finds, by those in whose places they are.
        self._replaced: dict[int, Any] = {}
        #: What :meth:`entries` and :meth:`words` have found.
        self._items: list[tuple[Any, int, list[tuple[Any, Any, bool]]]] = []
        self._words: dict[str, str] | None = None
        snapshot.add(self.tree)
        own = len(snapshot.held)
        self.function = function
        snapshot.add(function)
        if snapshot.owners:
            snapshot.add_named()
        snapshot.add_installed()
        self.variables: list[_Variable] = []
        #: The objects that keep variables.
        self.holders = snapshot.keeping
        found = [each for value in self.holders for each in value.__drjit_variables__()]
        for owner, _ in found:
            snapshot.seen.add(id(owner))
            shown = _shown(owner)
            snapshot.held += (owner, OBJECT, 2 * len(shown), *[each for name in shown for each in (
                name, getattr(owner, name))])
            for name in shown:
                snapshot.add(getattr(owner, name))
        #: The containers, in the order in which they are found, and their numbers.
        self.containers: list[Any] = []
        self._numbers: dict[int, int] = {}
        #: The arrays that are no parts of others, likewise.
        self.arrays: list[Any] = []
        self._spans: dict[int, int] = {}
        #: NumPy arrays, sets and other data, with what they held when the key was made, by their identity.
        self.data: dict[int, tuple[Any, Any]] = {}
        #: While the function is recorded: data that is too large to be noted, with its contents; the host's generators
        #: of random numbers, with their states.
        self._large: list[tuple[Any, Any]] = []
        self._drawn: list[tuple[Any, Any]] = []
        #: Generators and other iterators, with how far they were.
        self.waiting = [(each, position_of(each)) for each in snapshot.passed]
        held = snapshot.held
        #: How many of them the arguments lead to.
        self.own = 0
        position = 0
        while position < len(held):
            container, kind, content = held[position], held[position + 1], held[position + 2]
            self.own += position < own
            position += 3
            self._numbers.setdefault(id(container), len(self.containers))
            self.containers.append(container)
            if kind not in (LIST, TUPLE, CELL):
                position += content
        names = set[str]().union(*map(_names_in, snapshot.codes))
        #: The names that functions mention; ``None`` if they may mention any.
        self.names = None if snapshot.asks or names & COMPUTES_ATTRIBUTES else names
        self.around = _around(names, self.names is None, snapshot)
        self._items = list(self._entries())
        parts: Any = tuple([self._part(container, kind, [item for item in items if item[2]])
                            for container, kind, items in self.entries()])
        parts += (frozenset(map(_Same, snapshot.codes)), *[value for _, value in self.around], *[
            (None if code is None else _Same(code), left) for _, (code, left, _) in self.waiting])
        self.around += [(functools.partial(getattr, owner, "__bases__"), owner.__bases__)
                        for owner in snapshot.owners if isinstance(owner, type)]
        for owner, counts in found:
            self.variables.append(_Variable(owner, len(self.arrays), counts))
            self.arrays.append(owner.array())
            parts += ((owner.steps if counts and not owner.shared else 0,),)
        self.steps_before = [owner.steps for owner, _, _ in self.variables]
        #: The nodes of the arrays, with what is tracked of them.
        self.nodes: list[Node] = [node for array in self.arrays for node in array._nodes()]
        self.described = tuple([self._described(array) for array in self.arrays])
        self.flags = bytes(map(flag_of, self.nodes))
        self.parts: Any = parts
        self.key: Any = parts, self.described, () if not any(self.flags) else tuple(
            [(position, first) for position, first in enumerate(twins_of(self.nodes)) if -1 < first < position])

    def number(self, container: Any) -> int:
        """The number of a container; -1 if it is none of those that were there before the call."""
        number = self._numbers.get(id(container), -1)
        if number < 0:
            return -1
        known = self.containers[number]
        return number if known is container or self._replaced.get(id(known)) is container else -1

    def number_of_array(self, array: Any) -> int:
        """The position of an array among those that are known, or -1."""
        return self._spans.get(id(array), -1)

    def number_at(self, array: Any) -> _Number | None:
        """The number that an array stands for."""
        return next((each for each in self._made.values() if each.array is array), None) if self._made else None

    def numbers(self) -> set[int]:
        """The positions of the nodes of such arrays."""
        found, position = set(), 0
        for array in self.arrays if self._made else ():
            if self.number_at(array) is not None:
                found.add(position)
            position += len(array._nodes())
        return found

    def entries(self) -> Iterator[tuple[Any, int, list[tuple[Any, Any, bool]]]]:
        """The containers, with what was in them, and whether that counts."""
        for container, kind, items in self._items:
            if self._made:
                items = [(key, self._made[id(container), key].array if (id(container), key) in self._made else value,
                          counts) for key, value, counts in items]
            yield container, kind, items

    def _entries(self) -> Iterator[tuple[Any, int, list[tuple[Any, Any, bool]]]]:
        held, position, names = self.snapshot.held, 0, self.names
        while position < len(held):
            container, kind, content = held[position], held[position + 1], held[position + 2]
            position += 3
            if kind == CELL:
                yield container, kind, [("", content, True)]
            elif kind == LIST or kind == TUPLE:
                yield container, kind, [(number, value, True) for number, value in enumerate(content)]
            else:
                some = names is not None and (kind == CLASS or kind == MODULE or kind == OBJECT
                                              and not _counts_in_full(type(container)))
                yield container, kind, [
                    (held[place], held[place + 1], not some or held[place] in names or  # type: ignore[operator]
                     kind == CLASS and held[place] in _TOLD) for place in range(position, position + content, 2)]
                position += content

    def _part(self, container: Any, kind: int, items: Sequence[tuple[Any, Any, bool]]) -> Any:
        """The part of the key that a container makes."""
        cls: Any = type(container) if kind not in (CLASS, MODULE) else _Same(container)
        if kind == CLASS:
            cls = cls, tuple(map(_Same, container.__bases__))
        if kind in (LIST, TUPLE, CELL):
            return (cls, *[self._token(value) for _, value, _ in items])
        return (cls, *[(type(key), key, self._token(value)) for key, value, _ in items])

    def _token(self, value: Any) -> Any:
        number = self._numbers.get(id(value))
        if number is not None and not isinstance(value, ArrayBase):
            return (number, token_of(value)) if hides(value) else (
                number, _Same(value), version_of(value)) if keeps_more(value) else number
        if isinstance(value, ArrayBase):
            if not value._dynamic:
                return type(value), tuple([primal(node).payload for node in value._nodes()])
            owner, offset = owner_of(value)
            place = self._spans.get(id(owner))
            if place is None:
                place = self._spans[id(owner)] = len(self.arrays)
                self.arrays.append(owner)
            return type(value), place, offset
        if type(value) is MethodType:
            return MethodType, self._token(value.__self__), self._token(value.__func__)
        token = token_of(value)
        if kind_at(value) == DATA:  # which a call may change, so that it counts where it is the same
            self.data.setdefault(id(value), (value, token))
            return list(self.data).index(id(value)), token
        return token

    def _described(self, array: Any) -> Any:
        nodes = array._nodes()
        shape = array._s if array._depth < 0 else len(nodes)
        if not any_vertex():
            return type(array), shape, ()
        flags = list(map(flag_of, nodes))
        return type(array), shape, tuple(flags) if any(flags) else ()

    def shape_of(self, number: int) -> Any:
        """The shape of a tensor when the key was made, or the number of components."""
        return self.described[number][1]

    def steps(self) -> list[int]:
        """How many steps each variable has made since."""
        return [owner.steps - before for (owner, _, _), before in zip(self.variables, self.steps_before, strict=True)]

    # --- what is done with it -----------------------------------------------------------------------------------------

    def evaluate(self, all_opaque: bool) -> None:
        """Evaluate the arrays; literals, too, if these are to be opaque."""
        pending = False
        for array in self.arrays:
            nodes = array._nodes()
            kinds = [primal(node).kind for node in nodes] if self.number_at(array) is None else []
            if [kind for kind in kinds if kind != _EVALUATED and (all_opaque or kind != _LITERAL)]:
                if _UNDEFINED in kinds or all_opaque:
                    store_same(array, core.opaque_all(nodes, array._where))
                pending = True
        if pending:
            self.nodes = [node for array in self.arrays for node in array._nodes()]
            core.evaluate([primal(node) for node in self.nodes])

    def give(self, nodes: Sequence[Node]) -> None:
        """Let the arrays hold other nodes."""
        position = 0
        for array in self.arrays:
            count = len(array._nodes())
            store_same(array, nodes[position:position + count])
            position += count
        self.hand_on()

    def hand_on(self) -> None:
        """Let variables be what the arrays hold that stand for them."""
        for owner, number, _ in self.variables:
            owner.take(self.arrays[number]._nodes())

    def fetch(self) -> None:
        """The opposite."""
        for owner, number, _ in self.variables:
            store_same(self.arrays[number], owner.array()._nodes())

    def install(self) -> tuple[Any, ...]:
        """Put arrays, or numbers of the recording, in the places of numbers, and tuples with these in the places of
        tuples; returns the positional arguments."""
        self._replaced.clear()
        for (number, key), (container, kind, _, array, exactly) in self._made.items():
            if id(array) in self._spans:
                value = array if exactly is None else current().recording.scalar(array._n)
                self._installed[number, key] = value
                if kind != TUPLE:
                    write_place(container, DICT if kind == VARIABLES else kind, key, value)
        if any(kind == TUPLE for _, kind, *_ in self._made.values()):
            for container, kind, items in self._items:
                for key, value, _ in items if kind != TUPLE and container is not self.tree else ():
                    if isinstance(value, tuple) and (other := self._with_numbers(value)) is not value:
                        self._installed[id(container), key] = other
                        write_place(container, DICT if kind == VARIABLES else kind, key, other)
        args: tuple[Any, ...] = self._with_numbers(self.tree[0])
        return args

    def _with_numbers(self, values: Any) -> Any:
        """A tuple with what stands for numbers in it and in tuples within; itself, if there are none."""
        if id(values) not in self._replaced:
            others = [self._installed[id(values), key] if (id(values), key) in self._installed else
                      self._with_numbers(value) if isinstance(value, tuple) else value
                      for key, value in enumerate(tuple.__iter__(values))]
            new = any(one is not other for one, other in zip(tuple.__iter__(values), others, strict=True))
            if new and hasattr(values, "__dict__"):
                raise NotANumber("it is in an object with attributes")
            found = tuple.__new__(type(values), others) if new else values
            self._replaced[id(values)] = found
            if new:
                self._numbers[id(found)] = self._numbers[id(values)]
        return self._replaced[id(values)]

    def asks_for_types(self) -> bool:
        """Whether functions of the user's ask for classes of objects: what stands for a number is of another one."""
        codes = [code_of(each) for each in self.snapshot.functions if not is_own(each.__module__ or "")]
        return any((asked := _ASKING.intersection(names_of(code))) and not (code.co_filename in _GENERATED and (
            asked == {"__class__"} or code.co_name in _ASSIGNING)) or _matches(code) for code in codes)

    def changes(self) -> list[Change]:
        """The places that hold something else than before the call."""
        found = []
        for change in self._changes():
            place = id(change.container), change.key
            if place not in self._installed or change.now is not self._installed[place]:
                if place in self._made and self._made[place].exactly is None:
                    raise NotANumber("it is changed")
                found.append(change)
        return found

    def _changes(self) -> list[Change]:
        shown = {id(owner): _shown(owner) for owner, _, _ in self.variables}
        return [change for change in self.snapshot.changes() if change.key in shown.get(id(change.container), (
            change.key,))]

    def _reordered(self) -> Iterator[tuple[Any, list[Any], list[Any]]]:
        """The dictionaries whose keys are others, or in another order, with those of before and now."""
        held, position = self.snapshot.held, 0
        while position < len(held):
            container, kind, content = held[position], held[position + 1], held[position + 2]
            position += 3
            if kind not in (LIST, TUPLE, CELL):
                first, position = position, position + content
                if kind == DICT and isinstance(container, dict):
                    before, now = held[first:position:2], list(container.keys())
                    if now != before:
                        yield container, before, now

    def orders(self) -> list[tuple[Any, list[Any]]]:
        """The dictionaries in which something else has changed than that entries went and others came after the rest,
        with their keys."""
        return [(container, now) for container, before, now in self._reordered()
                if now != [*[key for key in before if key in container], *[key for key in now if key not in before]]]

    def number_of_data(self, value: Any) -> int:
        """The number of data that was there before the call, or -1."""
        return list(self.data).index(id(value)) if id(value) in self.data else -1

    def data_at(self, number: int) -> Any:
        """Data by its number."""
        return list(self.data.values())[number][0]

    def begin(self) -> None:
        """The function is about to be recorded: note what it may change that the key tells nothing of."""
        small = {id(value) for value, _ in self.snapshot.data}
        self._large = [(value, data_of(value)) for key, (value, _) in self.data.items()
                       if key not in small and (isinstance(value, set) or buffer_of(value) is not None)]
        self._drawn = [(generator, _state_of(generator)) for generator in _host_generators(self.snapshot, self.names)]

    def kept(self) -> list[tuple[Callable[[], Any], Any]]:
        """How to find out whether functions that keep their results have forgotten any since, or have others."""
        return [(functools.partial(_keeps, function, kept_by(function)), True)
                for function, _ in self.snapshot.caches]

    def changed_data(self) -> list[tuple[int, Any]]:
        """The numbers of the data that the function has changed, and what it holds now."""
        changed = [value for value, before in self.snapshot.data if data_of(value) != before]
        large = [value for value, before in self._large if data_of(value) != before]
        for value in (*large, *changed):
            if large or id(value) not in self.data or has_array(value):
                raise RuntimeError(
                    f"drjit.freeze(): the function changes an object of type {describe(value)}, which calls that "
                    f"replay it do not, since {'it is too large' if large else 'they would not find it'}. Change it "
                    "outside, or pass arrays of Dr.Jit.")
        return [(self.number_of_data(value), data_of(value)) for value in changed]

    def require_waiting(self) -> None:
        """Refuse iterators and generators of the host that the function has advanced."""
        for generator, state in self._drawn:
            if not _are_equal(_state_of(generator), state):
                raise RuntimeError(f"drjit.freeze(): the function draws random numbers on the host, from an object of "
                                   f"type {describe(generator)}, which calls that replay it could not do. Draw them "
                                   "outside, and pass them as arguments, or use drjit.rng().")
        for iterator, (*place, variables) in self.waiting:
            *other, now = position_of(iterator)
            if place == [None, None]:
                raise RuntimeError(f"drjit.freeze(): the function knows an iterator of type {describe(iterator)}, of "
                                   "which nobody can tell how far it is, and calls that replay it could not advance "
                                   "it. Advance it outside, and pass what it yields.")
            if place != other or list(map(id, variables)) != list(map(id, now)):
                raise RuntimeError(f"drjit.freeze(): the function advances an iterator of type {describe(iterator)}, "
                                   "which calls that replay it could not do. Advance it outside.")

    def roll_back(self, shapes: Sequence[Any]) -> None:
        """Let everything be as it was before the call."""
        held, position = self.snapshot.held, 0
        while position < len(held):
            container, kind, content = held[position], held[position + 1], held[position + 2]
            position += 3
            if kind == LIST:
                fill(container, content)
            elif kind not in (TUPLE, CELL):
                position += content
        restore([change for change in self._changes() if change.kind != LIST])
        for container, before, _ in self._reordered():
            reorder(container, before)
        self.snapshot.restored()
        for value, content in self._large:
            if data_of(value) != content:
                set_data(value, content)
        for generator, state in self._drawn:
            _set_state(generator, state)
        for (owner, _, _), steps in zip(self.variables, self.steps_before, strict=True):
            owner.steps = steps
        for array, shape in zip(self.arrays, shapes, strict=True):
            if shape is not None:
                array._s = shape
        self.give(self.nodes)

    def shapes(self) -> list[Any]:
        """The shapes of the arrays that are tensors."""
        return [array._s if array._depth < 0 else None for array in self.arrays]

    def path_of(self, position: int) -> str:
        """Where the array of a node is, for people."""
        places = [number for number, array in enumerate(self.arrays) for _ in array._nodes()]
        return next((path for path, _, value in self._paths() if isinstance(value, ArrayBase) and
                     owner_of(value)[0] is self.arrays[places[position]]), "an input")

    def words(self) -> dict[str, str]:
        """What counts, for people, by where it is."""
        if self._words is not None:
            return self._words
        found: dict[str, str] = {}
        for path, _, value in self._paths():
            if id(value) in self._numbers:
                found[path] = f"{type(value).__name__} of {len(value)}" if hasattr(type(value), "__len__") and \
                    isinstance(value, list | tuple | dict) else f"object of type {type(value).__name__}"
            elif isinstance(value, ArrayBase):
                found[path] = "a number" if self.number_at(value) is not None else _words_of_array(value)
            else:
                text = repr(value)
                found[path] = text if len(text) <= _LONGEST else text[:_LONGEST] + "…"
        self._words = found
        return found

    def route_to(self, path: str, exactly: bool = False) -> Route | None:
        """How the number is reached that is at a path: a float by way of an object, or if it remains a number, any
        that can be put somewhere else."""
        for other, route, value in self._paths():
            if other == path and route is not None:
                start, steps, _ = route
                kinds = [kind for kind, _ in steps]
                if exactly and type(value) in (int, float) and self.arrays and (
                        kinds.count(TUPLE) < len(kinds)):
                    return start, steps, (type(value), retype(reshape(type(self.arrays[0]), ()), _TYPES[type(value)]))
                return route if type(real_number(value)) is float and OBJECT in kinds else None
        return None

    def _paths(self) -> Iterator[tuple[str, Route | None, Any]]:
        """The places that count, for people, how they are reached from the arguments, and what is there."""
        routes: dict[int, Route] = {id(self.tree): (None, (), None)}
        places: dict[int, str] = {id(self.tree): "", **_places_in(self.function)}
        for each in self.snapshot.functions:
            for name in ("__defaults__", "__kwdefaults__"):
                if values := getattr(each, name):
                    places[id(values)], routes[id(values)] = f"{each.__name__}.{name}", (values, (), None)
            for name, cell in zip(each.__code__.co_freevars, each.__closure__ or (), strict=True):
                places.setdefault(id(cell), name)
        for container, kind, items in self.entries():
            place = places.get(id(container), "")
            for key, value, counts in items:
                if not counts or kind == CLASS and key in _TOLD and self.names is not None and key not in self.names:
                    continue
                if container is self.tree:
                    path = ("args", "kwargs", "state")[key]
                elif kind in (LIST, TUPLE, DICT):
                    path = str(key) if kind == DICT and isinstance(container, dict) and \
                        "__builtins__" in container else f"{place}[{key!r}]"
                elif kind == CELL:
                    path = place or "a variable of an enclosing function"
                elif kind == VARIABLES:
                    path = str(key)
                else:
                    path = f"{place or getattr(container, '__name__', f'{type(container).__name__}()')}.{key}"
                route: Route | None = None
                if kind in (CELL, VARIABLES, CLASS):
                    route = container, ((kind, key),), None
                elif kind in (LIST, DICT, OBJECT, MODULE) or kind == TUPLE and id(container) in routes and not hasattr(
                        container, "__dict__"):  # what no argument and no variable leads to is always the same
                    start, steps, _ = routes.get(id(container), (container, (), None))
                    route = start, (*steps, (kind, key)), None
                if id(value) in self._numbers:
                    places.setdefault(id(value), path)
                    if route is not None:
                        routes.setdefault(id(value), route)
                yield path, route, value


def _places_in(function: Any) -> dict[int, str]:
    """What a callable that is no function is called with, for people: the object of a method, what was given before."""
    found: dict[int, str] = {}
    while not isinstance(function, FunctionType):
        if isinstance(function, MethodType):
            found[id(function.__self__)], function = "self", function.__func__
        elif isinstance(function, functools.partial):
            found.update({id(value): f"partial.args[{number}]" for number, value in enumerate(function.args)})
            found.update({id(value): f"partial.keywords[{key!r}]" for key, value in function.keywords.items()})
            function = function.func
        else:
            found[id(function)] = "self"
            break
    return found


def _numbers_at(tree: list[Any], routes: Sequence[Route]) -> dict[tuple[int, Any], _Number]:
    """The numbers to which routes lead, with arrays that stand for them."""
    found: dict[tuple[int, Any], _Number] = {}
    for start, steps, exactly in routes:
        wanted, cls = exactly or (None, type_of_numbers(tree))
        if cls is None:
            continue
        container: Any = None
        value: Any = tree if start is None else start
        try:
            for kind, key in steps:
                container, value = value, value[key] if kind == TUPLE else read_place(value, kind, key)
        except (AttributeError, LookupError, TypeError):
            continue
        number = real_number(value)
        if number is not None and (wanted is None or type(value) is wanted and (
                wanted is float or -_LARGEST <= number < _LARGEST)):
            found[id(container), key] = _Number(container, kind, key, cls(number), wanted)
    return found


_UNDEFINED = KIND["undefined"]
_LONGEST = 80


def _words_of_array(array: Any) -> str:
    nodes = array._nodes()
    kinds = {primal(node).kind for node in nodes}
    shape = array._s if array._depth < 0 else (*array._static_shape(), max([node.size for node in nodes], default=0))
    words = f"{array._name}{list(shape)}"
    if _LITERAL in kinds:
        words += f" literal {[primal(node).payload for node in nodes if primal(node).kind == _LITERAL]}"
    if any(vertex_of(node) is not None for node in nodes):
        words += ", with derivatives" if any(tracked(node) is not None for node in nodes) else ", derivatives suspended"
        if any((vertex := vertex_of(node)) is not None and vertex.gradient is not None for node in nodes):
            words += " and a gradient"
    return words


def _host_generators(snapshot: Snapshot, names: set[str] | None) -> list[Any]:
    """The generators of random numbers of Python and NumPy that functions know: objects, and those of the modules that
    they name."""
    found: dict[int, Any] = {}
    values = [*snapshot.held, *snapshot.values()]
    library = sys.modules.get("numpy")
    named = library is not None and (names is None or "random" in names) and any(value is library for value in values)
    numpy: Any = sys.modules.get("numpy.random") if library is None or not named else library.random
    classes = (random.Random,) if numpy is None else (random.Random, numpy.Generator, numpy.RandomState)
    for value in values:
        generator: Any = random.random.__self__ if value is random else value  # type: ignore[attr-defined]
        if numpy is not None and (value is numpy or named and value is library):
            generator = numpy.rand.__self__
        if isinstance(generator, classes):
            found[id(generator)] = generator
    return list(found.values())


def _state_of(generator: Any) -> Any:
    """The state of a generator of the host."""
    if isinstance(generator, random.Random):
        return generator.getstate()
    return generator.bit_generator.state if hasattr(generator, "bit_generator") else generator.get_state(legacy=False)


def _set_state(generator: Any, state: Any) -> None:
    if isinstance(generator, random.Random):
        generator.setstate(state)
    elif hasattr(generator, "bit_generator"):
        generator.bit_generator.state = state
    else:
        generator.set_state(state)


def _are_equal(one: Any, other: Any) -> bool:
    """Whether states are equal: numbers and arrays of them, in dictionaries."""
    if isinstance(one, dict):
        return all(_are_equal(value, other[key]) for key, value in one.items())
    found = one == other
    return bool(found.all() if hasattr(found, "all") else found)


def fill(container: Any, content: Sequence[Any]) -> None:
    """Let a list, a queue or a NumPy array of objects have some entries."""
    if isinstance(container, list):
        if len(container) != len(content) or any(a is not b for a, b in zip(container, content, strict=False)):
            list.__setitem__(container, slice(None), content)
    elif is_ndarray(container):
        for number, value in enumerate(content):
            write_place(container, LIST, number, value)
    else:
        container.clear()
        container.extend(content)
