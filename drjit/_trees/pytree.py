"""PyTrees: taking structures of arrays apart, putting them together again, and comparing them.

:func:`flatten` turns a PyTree into the list of its leaves and a :class:`TreeSpec`, which says how they were held; its
method ``rebuild`` is the way back, and ``difference`` finds where two structures disagree, in words. Everything that
takes PyTrees goes through it: :func:`leaves` where the structure does not matter, :func:`transform` and :func:`walk`
where functions are applied to leaves, :func:`flatten_nodes` where the compiler's nodes within the arrays are wanted.

Which objects are inner nodes says :mod:`drjit._trees.classes`; all others are leaves. What is neither, because it holds
arrays in another way (:mod:`drjit._trees.holders`), is refused by those functions that do something with all arrays
(:func:`transform`, :func:`walk`, :func:`known_leaves`, :func:`collect_nodes`). A structure that contains itself raises
a ``RecursionError``.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import drjit_core as core

from .._base.array import ArrayBase
from .._base.errors import ArgumentError, describe
from .._base.handle import fresh_array, held
from .._base.weak import note
from .classes import (
    attributes,
    children,
    construct,
    extras,
    field_types,
    is_copied,
    is_foreign_array,
    is_pytree,
    kind_of,
)
from .holders import array_within, beside_entries, passed_over

__all__ = ["Difference", "TreeSpec", "children", "collect_nodes", "construct", "extras", "field_types",
           "fields_at_once", "flatten", "flatten_nodes", "is_pytree", "joint_shape", "known_leaves", "leaves",
           "resized", "transform", "transform_known", "walk"]


class Difference(NamedTuple):
    """Where two structures disagree, in words for a message."""

    #: The place, as its user would write it: ``state[1].velocity['x']``; empty for the root.
    path: str
    #: What differs: "type", "shape", "number of components", "length" or "keys".
    what: str
    #: How it is here and there.
    first: str
    second: str


class TreeSpec:
    """The structure of a PyTree: what it consists of, but for the leaves.

    It says of containers their class, their keys (positions, dictionary keys, names of fields) and their entries; of
    arrays their type and those sizes that are no matter of width: the shape of a tensor, the number of components of
    ``ArrayX*``; of other leaves their class. Specs are immutable, may be hashed, and are equal if all of that is (the
    order of keys included). An object that joins by the traversal protocol makes its own likes: the spec keeps it for
    that, and it takes no part in comparisons.
    """

    __slots__ = ("_arrays", "_copies", "_hash", "_numbers", "_positions",
                 "_tensors", "children", "cls", "flats", "is_flat", "keys", "prototype", "shape")

    #: Class of a container or leaf.
    cls: Any
    #: Sizes of an array that its type and its width do not tell; of a container, what it has besides entries.
    shape: tuple[Any, ...]
    #: Keys of the entries of a container; empty for lists and tuples, whose keys are positions.
    keys: tuple[Any, ...]
    #: Structures of the entries of a container, ``None`` for a leaf.
    children: tuple[TreeSpec, ...] | None
    #: An object of the traversal protocol, which rebuilds itself.
    prototype: Any
    _hash: int | None
    #: Whether functions get copies of any part, and whether any array is not traced; -1 as long as nobody has asked.
    _copies: int
    _numbers: int
    #: Which leaves are traced arrays, with their types, shapes, numbers of component nodes and dimensions of these.
    _arrays: list[tuple[int, type[ArrayBase], tuple[int, ...], int, int]] | None
    #: Of each of these its place among the leaves, the first of its nodes, and their number.
    _positions: list[tuple[int, int, int]] | None
    #: Whether it is a tuple of leaves; and once the arrays have been asked for, their types if all are flat arrays, and
    #: whether any is a tensor.
    is_flat: bool
    flats: list[type[ArrayBase]] | None
    _tensors: bool

    def __init__(self, cls: Any, shape: tuple[Any, ...] = (), keys: tuple[Any, ...] = (),
                 children: tuple[TreeSpec, ...] | None = None, prototype: Any = None) -> None:
        self.cls, self.shape, self.keys, self.children, self.prototype = cls, shape, keys, children, prototype
        self._hash = self._arrays = self._positions = None
        self._copies = self._numbers = -1
        self.is_flat = self._tensors = False
        self.flats = None
        if cls is tuple and children is not None:
            self.is_flat = not [entry for entry in children if entry.children is not None]

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if other.__class__ is not TreeSpec:
            return NotImplemented
        return self.cls is other.cls and self.shape == other.shape and self.keys == other.keys \
            and self.children == other.children

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash((self.cls, self.shape, self.keys, self.children))
        return self._hash

    def __reduce__(self) -> tuple[Any, ...]:
        # Hashes of strings and classes are those of one process.
        return TreeSpec, (self.cls, self.shape, self.keys, self.children, self.prototype)

    def __repr__(self) -> str:
        if self.children is None:
            return describe(self.cls) + (str(list(self.shape)) if self.shape else "")
        entries = (f"{step or f'[{k}]'}: {child!r}" for k, (step, child)
                   in enumerate(zip(self._steps(), self.children, strict=True)))
        return f"{describe(self.cls)}({', '.join(entries)})"

    # --- going back --------------------------------------------------------------------------------------------------

    def rebuild(self, leaves: Iterable[Any]) -> Any:
        """A PyTree of this structure with the given leaves, in the order of :func:`flatten`."""
        return tuple(leaves) if self.is_flat else self._rebuild(iter(leaves))

    def _rebuild(self, leaves: Iterator[Any]) -> Any:
        entries = self.children
        if entries is None:
            return next(leaves)
        values = [next(leaves) if entry.children is None else entry._rebuild(leaves) for entry in entries]
        cls = self.cls
        if cls is list:
            return values
        if cls is tuple:
            return tuple(values)
        items = dict(zip(self.keys, values, strict=True))
        if cls is dict:
            return items
        if self.prototype is None:
            return construct(cls, items, self.shape)
        if not hasattr(cls, "__drjit_rebuild__"):
            raise TypeError(f"{describe(cls)} has a method __drjit_children__(), but no __drjit_rebuild__(children), "
                            "which makes an object like this one with other children.")
        return self.prototype.__drjit_rebuild__(items)

    def rebuild_nodes(self, nodes: Sequence[core.Node], leaves: Iterable[Any], lanes: tuple[int, ...] = ()) -> Any:
        """A PyTree of this structure from the nodes of its traced arrays, which may be wider than they were.

        The other leaves are taken from ``leaves``, where the places of traced arrays are ignored. A tensor with a
        single element that has become wider is broadcast to the shape of the ``lanes``, if these are as many, else it
        has one dimension.
        """
        return self.rebuild(self.fresh(nodes, leaves, lanes))

    def fresh(self, nodes: Sequence[core.Node], leaves: Iterable[Any], lanes: tuple[int, ...] = ()) -> list[Any]:
        """The leaves of such a PyTree."""
        position, arrays = 0, self.traced()
        if self.flats is not None:
            result = []
            for cls in self.flats:
                array = fresh_array(cls)
                array._o = None
                array._n = nodes[position]
                result.append(array)
                position += 1
            return result
        result = list(leaves)
        for k, cls, shape, count, depth in arrays:
            array = fresh_array(cls)
            array._o = None
            if depth > 0:
                array._c = list(nodes[position:position + count])
            else:
                node = nodes[position]
                array._n = node
                if depth < 0:
                    array._s = shape if node.size == math.prod(shape) else resized(shape, lanes, node.size)
            result[k] = array
            position += count
        return result

    def reshaped(self, shapes: Mapping[int, tuple[int, ...]]) -> TreeSpec:
        """This structure with other shapes of some tensors, by the positions of these leaves."""
        return self._reshaped(shapes, itertools.count()) if shapes else self

    def _reshaped(self, shapes: Mapping[int, tuple[int, ...]], positions: Iterator[int]) -> TreeSpec:
        if self.children is None:
            shape = shapes.get(next(positions))
            return self if shape is None else TreeSpec(self.cls, shape)
        return TreeSpec(self.cls, self.shape, self.keys,
                        tuple([entry._reshaped(shapes, positions) for entry in self.children]), self.prototype)

    def joined(self, other: TreeSpec) -> TreeSpec:
        """This structure with the shapes of tensors in which it meets another one, like it but for these."""
        if self == other:
            return self
        pairs = enumerate(zip(self.leaf_specs(), other.leaf_specs(), strict=True))
        return self.reshaped({k: joint_shape(one.shape, two.shape) or () for k, (one, two) in pairs
                              if one.shape != two.shape})

    def meeting(self, other: TreeSpec) -> TreeSpec | None:
        """The structure in which this one meets another one that is like it but for shapes, in the same order."""
        if self == other:
            return self
        if self.difference(other, "", True) is not None:
            return None
        found = self.joined(other)
        return found if found == other.joined(self) else None

    def traced(self) -> list[tuple[int, type[ArrayBase], tuple[int, ...], int, int]]:
        """Which leaves are traced arrays, with their types, shapes, numbers of component nodes and dimensions of these.
        """
        if self._arrays is None:
            self._arrays = []
            if self.children is not None:
                for k, entry in enumerate(self.leaf_specs()):
                    for _, cls, shape, count, depth in entry.traced():
                        self._arrays.append((k, cls, shape, count, depth))
            elif isinstance(self.cls, type) and issubclass(self.cls, ArrayBase) and self.cls._dynamic:
                self._arrays.append((0, self.cls, self.shape, self.node_count(), self.cls._depth))
            depths = [each[4] for each in self._arrays]
            self._tensors = bool(depths) and min(depths) < 0
            if self.is_flat and depths == [0] * len(self.children or ()):
                self.flats = [each[1] for each in self._arrays]
        return self._arrays

    def positions(self) -> list[tuple[int, int, int]]:
        """Of each traced array its place among the leaves, the first of its nodes, and their number."""
        if self._positions is None:
            first, self._positions = 0, []
            for place, _, _, count, _ in self.traced():
                self._positions.append((place, first, count))
                first += count
        return self._positions

    def has_tensors(self) -> bool:
        """Whether any traced array is a tensor."""
        self.traced()
        return self._tensors

    def fits(self, value: Any) -> bool:
        """Whether a value is a tuple of flat arrays of this structure."""
        if self.flats is None or type(value) is not tuple or len(value) != len(self.flats):
            return False
        for position, entry in enumerate(value):  # noqa: SIM110  (compiled)
            if type(entry) is not self.flats[position]:
                return False
        return True

    def take(self, value: Any, found: list[Any]) -> bool:
        """Add the leaves of a value that is seen at once to have this structure; ``False`` if it has another one, or
        that takes more."""
        cls = value.__class__
        if cls is not self.cls:
            return False
        entries = self.children
        if entries is None:
            if isinstance(value, ArrayBase) and cls._count < 0 and \
                    self.shape != (value._s if cls._depth < 0 else value._static_shape()):
                return False
            found.append(value)
            return True
        if cls is tuple or cls is list:
            if len(value) != len(entries):
                return False
            for position, entry in enumerate(value):  # noqa: SIM110  (compiled)
                if not entries[position].take(entry, found):
                    return False
            return True
        if self.shape or self.prototype is not None and value is not self.prototype or cls is not dict and \
                kind_of(cls) is not None:
            return False
        keys = fields_at_once(cls)
        if keys is not None:
            if len(keys) != len(entries):
                return False
            for position, key in enumerate(keys):
                if key != self.keys[position] or not entries[position].take(getattr(value, key), found):
                    return False
            return True
        items = children(value)
        if items is None or len(items) != len(entries):
            return False
        for position, (key, entry) in enumerate(items):
            if key != self.keys[position] or not entries[position].take(entry, found):
                return False
        return True

    def holds_numbers(self) -> bool:
        """Whether any leaf is an array that is not traced."""
        if self._numbers < 0:
            self._numbers = len(self.traced()) < len([entry for entry in self.leaf_specs() if isinstance(
                entry.cls, type) and issubclass(entry.cls, ArrayBase)])
        return bool(self._numbers)

    def holds_objects(self) -> bool:
        """Whether any part joins by the protocol, which is rebuilt instead of being written to."""
        return self.prototype is not None or self.children is not None and any(
            child.holds_objects() for child in self.children)

    def holds_copies(self) -> bool:
        """Whether functions get copies of any part."""
        if self._copies < 0:
            self._copies = is_copied(self.prototype) or self.children is not None and bool(
                [child for child in self.children if child.children is not None and child.holds_copies()])
        return bool(self._copies)

    def shared_nodes(self) -> set[int]:
        """The positions of the nodes of what is memory that all elements share, of whatever size: of arrays in objects
        whose class says so (``_dr_shared``)."""
        shared: list[bool] = []
        self._note_shared(False, shared)
        return {first + k for place, first, count in self.positions() if shared[place] for k in range(count)}

    def _note_shared(self, is_shared: bool, found: list[bool]) -> None:
        if self.children is None:
            found.append(is_shared)
            return
        for entry in self.children:
            entry._note_shared(is_shared or getattr(self.cls, "_dr_shared", False), found)

    # --- what it consists of -----------------------------------------------------------------------------------------

    def leaf_specs(self) -> list[TreeSpec]:
        """The specs of the leaves, in order."""
        found: list[TreeSpec] = []
        self._collect(found)
        return found

    def _collect(self, found: list[TreeSpec]) -> None:
        if self.children is None:
            found.append(self)
        else:
            for entry in self.children:
                if entry.children is None:
                    found.append(entry)
                else:
                    entry._collect(found)

    def attributes(self) -> list[tuple[type, dict[str, Any]]]:
        """The attributes that containers have besides their entries, with the classes of these."""
        found: list[tuple[type, dict[str, Any]]] = []
        if self.children is not None:
            self._collect_attributes(found)
        return found

    def _collect_attributes(self, found: list[tuple[type, dict[str, Any]]]) -> None:
        if self.shape:
            found.append((self.cls, attributes(self.shape)))
        for entry in self.children or ():
            if entry.children is not None:
                entry._collect_attributes(found)

    def node_count(self) -> int:
        """Number of component nodes of a leaf that is an array."""
        cls: type[ArrayBase] = self.cls
        return cls._count if cls._count >= 0 else 1 if cls._depth < 0 else math.prod(self.shape)

    def key_paths(self) -> list[tuple[Any, ...]]:
        """The keys that lead to each of the leaves."""
        if self.children is None:
            return [()]
        keys = self.keys or range(len(self.children))
        return [(key, *rest) for key, entry in zip(keys, self.children, strict=True) for rest in entry.key_paths()]

    def paths(self, root: str | Sequence[str] = "") -> list[str]:
        """The places of the leaves, as their user would write them: ``state[1].velocity``.

        ``root`` is the name of the whole structure, or a name for each of its entries.
        """
        if self.children is None:
            return [str(root)]
        return [path for entry, place in zip(self.children, self._places(root), strict=True)
                for path in entry.paths(place)]

    def node_paths(self, root: str | Sequence[str] = "") -> list[str]:
        """The places of the component nodes of traced arrays, in the order of :func:`flatten_nodes`."""
        result = []
        for entry, path in zip(self.leaf_specs(), self.paths(root), strict=True):
            cls = entry.cls
            if isinstance(cls, type) and issubclass(cls, ArrayBase) and cls._dynamic:
                shape = (entry.shape or cls._record.shape) if cls._depth > 0 else ()
                result += [path + suffix for suffix in _component_suffixes(shape, cls._special)]
        return result

    def _steps(self) -> list[str]:
        """What is appended to the place of a container for its entries."""
        assert self.children is not None
        if self.cls in (list, tuple) or issubclass(self.cls, list | deque):
            return [f"[{k}]" for k in range(len(self.children))]
        if issubclass(self.cls, dict):
            return [f"[{key!r}]" for key in self.keys]
        return [f".{key}" if isinstance(key, str) and key.isidentifier() else f"[{key!r}]" for key in self.keys]

    def _places(self, root: str | Sequence[str]) -> list[str]:
        if not isinstance(root, str):
            return list(root)
        return [root + step for step in self._steps()]

    # --- comparing ---------------------------------------------------------------------------------------------------

    def difference(self, other: TreeSpec, root: str | Sequence[str] = "", loosely: bool = False) -> Difference | None:
        """The first place where another structure is not like this one, whatever the order of keys.

        ``loosely``, tensors that go together are alike, see :func:`joint_shape`.
        """
        if self is other or self == other:
            return None
        place = root if isinstance(root, str) else ""
        if self.cls is not other.cls:
            return Difference(place, "type", describe(self.cls), describe(other.cls))
        if self.children is None or other.children is None:
            if loosely and self.cls._depth < 0 and joint_shape(self.shape, other.shape) is not None:
                return None
            what = "shape" if self.cls._depth < 0 else "number of components"
            sizes = (self.shape, other.shape) if self.cls._depth < 0 else (self.shape[0], other.shape[0])
            return Difference(place, what, *map(str, sizes))
        if self.keys != other.keys and self.keys and set(self.keys) == set(other.keys):
            others: dict[Any, TreeSpec] = dict(zip(other.keys, other.children, strict=True))
            pairs = zip(self.children, map(others.__getitem__, self.keys), strict=True)
        elif self.keys != other.keys:
            return Difference(place, "keys", *(str(list(keys)) for keys in (self.keys, other.keys)))
        elif len(self.children) != len(other.children):
            return Difference(place, "length", str(len(self.children)), str(len(other.children)))
        else:
            pairs = zip(self.children, other.children, strict=True)
        for (first, second), step in zip(pairs, self._places(root), strict=True):
            found = first.difference(second, step, loosely)
            if found is not None:
                return found
        return None

    def aligned(self, other: TreeSpec, leaves: Sequence[Any]) -> Sequence[Any]:
        """Leaves of a structure that differs from this one in the order of keys at most, in this one's order."""
        return leaves if self == other else self._aligned(other, iter(leaves))

    def _aligned(self, other: TreeSpec, leaves: Iterator[Any]) -> list[Any]:
        if self.children is None or other.children is None:
            return [next(leaves)]
        keys = self.keys or range(len(self.children))
        mine = dict(zip(keys, self.children, strict=True))
        found = {key: mine[key]._aligned(entry, leaves)
                 for key, entry in zip(other.keys or keys, other.children, strict=True)}
        return [leaf for key in keys for leaf in found[key]]

    def in_order(self, other: TreeSpec) -> tuple[Sequence[int], TreeSpec]:
        """Another structure, like this one but for the order of keys and shapes of tensors, in this one's order; and
        which places its leaves had."""
        specs = other.leaf_specs()
        order = self.aligned(other, range(len(specs)))
        return order, self.reshaped({place: specs[k].shape for place, (k, entry) in enumerate(zip(
            order, self.leaf_specs(), strict=True)) if specs[k].shape != entry.shape})

    def flatten_up_to(self, value: Any, function: str) -> list[Any]:
        """What another PyTree has at the places of this structure's leaves, be they leaves there or not."""
        found: list[Any] = []
        self._flatten_up_to(value, function, "", found)
        return found

    def _flatten_up_to(self, value: Any, function: str, place: str, found: list[Any]) -> None:
        if self.children is None:
            found.append(value)
            return
        items = dict(children(value) or ()) if value.__class__ is self.cls else None
        keys = self.keys or range(len(self.children))
        if items is None or items.keys() != set(keys):
            where = f" at {place}" if place else ""
            what = f"{describe(self.cls)} and {describe(value)}"
            if items is not None:
                first, second = (f"{len(entries)} entries" if self.cls in (list, tuple) else f"the keys {list(entries)}"
                                 for entries in (keys, items))
                what = f"{describe(self.cls)} with {first} and with {second}"
            raise ArgumentError(f"{function}(): the structures of the arguments differ{where}: found {what}.")
        for key, entry, step in zip(keys, self.children, self._steps(), strict=True):
            entry._flatten_up_to(items[key], function, place + step, found)


def joint_shape(first: tuple[int, ...], second: tuple[int, ...]) -> tuple[int, ...] | None:
    """The shape of tensors of which each element takes one; ``None`` if they do not go together.

    One of a single element goes with any, by the rules of broadcasting; others must be the same, but for dimensions of
    one element before theirs.
    """
    if first == second:
        return first
    long, short = (first, second) if len(first) >= len(second) else (second, first)
    padded = (1,) * (len(long) - len(short)) + short
    if padded == long or math.prod(short) == 1:
        return long
    return padded if math.prod(long) == 1 else None


def resized(shape: tuple[int, ...], lanes: tuple[int, ...], size: int) -> tuple[int, ...]:
    """The shape of a tensor that has another number of elements than before, one for each lane perhaps."""
    found = joint_shape(shape, lanes) if math.prod(lanes) == size else None
    return (size,) if found is None else found


_COMPONENTS = ".x", ".y", ".z", ".w"


def _component_suffixes(shape: tuple[int, ...], special: str) -> list[str]:
    """What is appended to the name of an array for each of its component nodes."""
    if special == "complex":
        return [".real", ".imag"]
    if len(shape) == 1 and shape[0] <= len(_COMPONENTS):
        return list(_COMPONENTS[:shape[0]])
    return ["".join(f"[{k}]" for k in position) for position in itertools.product(*map(range, shape))]


# --- taking apart ----------------------------------------------------------------------------------------------------

#: The specs of arrays whose type says all.
_of_type: dict[type, TreeSpec] = {}
#: Those of tuples of such arrays, by the types of the latter.
_of_types: dict[tuple[type, ...], TreeSpec] = {}
_MOST_TYPES = 1024
#: The names of the fields of data classes, by the ids of classes; ``None`` of those that have others, if any; none of
#: those that say themselves what is in them.
_by_fields: dict[int, tuple[Any]] = {}


def flatten(value: Any, function: str, *, whole: bool = False) -> tuple[list[Any], TreeSpec]:
    """The leaves of a PyTree, arrays or not, in order, and its structure. With ``whole``, arrays of other packages are
    leaves, too (see :func:`drjit._trees.classes.is_foreign_array`)."""
    found: list[Any] = []
    return found, _flatten(value, function, found, set(), whole)


def _flatten(value: Any, function: str, found: list[Any], path: set[int], whole: bool) -> TreeSpec:
    cls = value.__class__
    if isinstance(value, ArrayBase):
        found.append(value)
        if cls._depth < 0:
            return TreeSpec(cls, value._s)
        if cls._count < 0:
            return TreeSpec(cls, value._static_shape())
        spec = _of_type.get(cls)
        if spec is None:
            spec = _of_type[cls] = TreeSpec(cls)
        return spec
    keys: tuple[Any, ...] = ()
    more: tuple[Any, ...] = ()
    entries: Iterable[Any] = value
    if cls is list or cls is tuple:
        pass
    elif cls is dict:
        keys, entries = tuple(value), value.values()
    elif (names := fields_at_once(cls)) is not None:
        keys, entries = tuple(names), [getattr(value, name) for name in names]
    else:
        items = None if whole and is_foreign_array(value) else children(value)
        if items is None:
            found.append(value)
            return TreeSpec(cls)
        keys, entries, more = tuple([key for key, _ in items]), [entry for _, entry in items], extras(value)
    if id(value) in path:
        _enter(value, function, path)
    path.add(id(value))
    specs = tuple([_flatten(entry, function, found, path, whole) for entry in entries])
    path.discard(id(value))
    return TreeSpec(cls, more, keys, specs, value if hasattr(cls, "__drjit_children__") else None)


def fields_at_once(cls: type) -> Any:
    """The names of the fields of a class that :func:`children` takes apart by these alone; ``None`` of others."""
    known = _by_fields.get(id(cls))
    if known is None:
        names: Any = None
        if hasattr(cls, "__drjit_children__") or issubclass(cls, (ArrayBase, type)):
            names = ()
        elif dataclasses.is_dataclass(cls) and kind_of(cls) is None:
            names = tuple([field.name for field in dataclasses.fields(cls)])
        known = note(_by_fields, cls, (names,))
    if known[0] == ():
        return None
    struct = getattr(cls, "DRJIT_STRUCT", None)
    return struct if struct.__class__ is dict else known[0]


def flatten_nodes(value: Any, function: str,
                  like: TreeSpec | None = None) -> tuple[list[core.Node], list[Any], TreeSpec]:
    """The component nodes of the traced arrays in a PyTree, all of its leaves, and its structure, which is probably
    ``like`` another one."""
    spec: TreeSpec | None = None
    found: list[Any] = []
    if like is not None and like.children is not None and not like.is_flat:
        if like.take(value, found):
            return _traced_nodes(like, found), found, like
    if like is not None and like.fits(value):
        found, spec = list(value), like
    elif type(value) is tuple:
        types = tuple([type(entry) for entry in value])
        spec = _of_types.get(types)
        found = list(value)
        if spec is None:
            found, spec = flatten(value, function)
            if not [cls for cls in types if cls not in _of_type]:
                if len(_of_types) >= _MOST_TYPES:
                    _of_types.clear()
                _of_types[types] = spec
    else:
        spec = _of_type.get(type(value))
        found = [value]
        if spec is None:
            found, spec = flatten(value, function)
    return _traced_nodes(spec, found), found, spec


def _traced_nodes(spec: TreeSpec, found: Sequence[Any]) -> list[core.Node]:
    """The component nodes of the traced arrays among the leaves of a structure."""
    nodes: list[core.Node] = []
    arrays = spec.traced()
    if spec.flats is not None:
        for array in found:
            nodes.append(held(array))
        return nodes
    for k, _, _, _, depth in arrays:
        array = found[k]
        if depth > 0:
            nodes += array._c
        else:
            nodes.append(held(array))
    return nodes


def leaves(value: Any, function: str) -> list[Any]:
    """All leaves of a PyTree, arrays or not, in order."""
    if isinstance(value, ArrayBase):
        return [value]
    found: list[Any] = []
    _leaves(value, function, found, set(), [])
    return found


def known_leaves(value: Any, function: str) -> list[Any]:
    """All leaves, in order; refuses what holds arrays, but is no PyTree, because these would be passed over."""
    if isinstance(value, ArrayBase):
        return [value]
    found: list[Any] = []
    beside: list[tuple[type, dict[str, Any]]] = []
    _leaves(value, function, found, set(), beside)
    _require_known(found, beside, value, function)
    return found


def _require_known(found: list[Any], beside: list[tuple[type, dict[str, Any]]], value: Any, function: str) -> None:
    """Refuse a PyTree with leaves that hold arrays, or with attributes of containers that do."""
    if beside:
        beside_entries(function, beside)
    for k, leaf in enumerate(found):
        if not isinstance(leaf, ArrayBase) and array_within(leaf):
            raise passed_over(function, leaf, flatten(value, function)[1].paths("arg")[k])


def _leaves(value: Any, function: str, found: list[Any], path: set[int],
            beside: list[tuple[type, dict[str, Any]]]) -> None:
    cls = value.__class__
    entries: Iterable[Any]
    if cls is list or cls is tuple:
        entries = value
    elif cls is dict:
        entries = value.values()
    else:
        items = children(value)
        if items is None:
            found.append(value)
            return
        entries = [entry for _, entry in items]
        more = extras(value)
        if more:
            beside.append((cls, attributes(more)))
    _enter(value, function, path)
    for entry in entries:
        if isinstance(entry, ArrayBase):
            found.append(entry)
        else:
            _leaves(entry, function, found, path, beside)
    path.discard(id(value))


def _enter(value: Any, function: str, path: set[int]) -> None:
    """Add a container to those that enclose what is visited next."""
    if id(value) in path:
        raise RecursionError(f"{function}(): the PyTree contains itself: a {describe(value)} is its own descendant.")
    path.add(id(value))


def collect_nodes(values: Iterable[Any], function: str) -> list[core.Node]:
    """The component nodes of all traced arrays in several PyTrees."""
    nodes: list[core.Node] = []
    for value in values:
        if value.__class__ is tuple:
            spec = _of_types.get(tuple([entry.__class__ for entry in value]))
            if spec is not None:
                nodes += _traced_nodes(spec, value)
                continue
        for leaf in (value,) if isinstance(value, ArrayBase) else known_leaves(value, function):
            if isinstance(leaf, ArrayBase) and leaf._dynamic:
                nodes += leaf._nodes()
    return nodes


# --- applying functions ----------------------------------------------------------------------------------------------


def transform(function: str, visit: Callable[..., Any], value: Any, *others: Any) -> Any:
    """A new PyTree whose leaves are ``visit(leaf, *what the others have there)``.

    The others must have the structure of the first one, but may have PyTrees where that has leaves.
    """
    if isinstance(value, ArrayBase):
        return visit(value, *others)
    found, spec = flatten(value, function)
    _require_known(found, spec.attributes(), value, function)
    if others:
        return spec.rebuild(map(visit, found, *[spec.flatten_up_to(other, function) for other in others]))
    return spec.rebuild(map(visit, found))


def transform_known(function: str, visit: Callable[..., Any], value: Any) -> Any:
    """Rebuild a PyTree of other leaves; what holds arrays, but is no PyTree, is a leaf like any."""
    found, spec = flatten(value, function)
    return spec.rebuild(map(visit, found))


def walk(function: str, visit: Callable[..., Any], value: Any, *others: Any) -> None:
    """Call ``visit(leaf, *what the others have there)`` for the leaves of a PyTree, see :func:`transform`."""
    found, spec = flatten(value, function)
    _require_known(found, spec.attributes(), value, function)
    for arguments in zip(found, *[spec.flatten_up_to(other, function) for other in others], strict=True):
        visit(*arguments)
