"""What the functions of a branch or call return, and how that is joined: of each element, what the function returns
that it takes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import drjit_core as core
from drjit_core import primal

from .._access.lanes import fitting, written_apart, written_from
from .._base.array import ArrayBase
from .._base.errors import ArgumentError, SizeError, describe
from .._trees.pytree import TreeSpec, flatten_nodes
from .called import Call
from .given import Given, first_places
from .refilling import become, refilled
from .state import difference_of
from .wording import Words

__all__ = ["Results", "Returned", "argument_of", "blended", "kept_of", "common_owner", "wrong_sizes"]


_LITERAL = core.KIND["literal"]
#: What most constructs have no entries in: whoever adds the first one replaces it.
_EMPTY: list[Any] = []


class Results:
    """What the functions of a construct return: trees of one structure, in which shapes of tensors go together."""

    def __init__(self, function: str, names: Sequence[str] = (), strict: bool = True, otherwise: str = "",
                 fill: Callable[[Sequence[Returned]], None] | None = None, lanes: tuple[int, ...] = ()) -> None:
        self.function = function
        #: The shape of what decides.
        self.lanes = lanes
        self.names = names
        self.strict = strict
        #: What helps where Python objects differ.
        self.otherwise = otherwise
        #: What completes what functions have returned, before it is compared.
        self.fill = fill
        self.spec: TreeSpec | None = None
        self.leaves: Sequence[Any] = _EMPTY
        self.which = ""
        #: Of a symbolic call that is optimized: for which elements functions are called, whose results may be known;
        #: whether those of a branch may be.
        self.called: core.Node | None = None
        self.optimizes = False
        #: Whether each element is known to take one of the functions, if its index is none too large.
        self.every = True
        #: The results that all functions have returned, as far as they are literals.
        self.common: list[core.Node | None] = _EMPTY

    def root(self, value: Any) -> str | Sequence[str]:
        """What a result is called in messages."""
        children = self.spec.children if self.spec is not None and self.spec.cls is tuple else None
        if value.__class__ is not tuple or children is None or len(children) != len(value):
            return "result"
        return self.names if len(value) == len(self.names) else [f"result[{k}]" for k in range(len(value))]

    def complete(self, returned: Sequence[Returned], labels: Sequence[str]) -> None:
        """Compare what all functions have returned: trees of one structure."""
        if self.fill is not None:
            self.fill(returned)
        first = returned[0]
        self.spec, self.leaves, self.which = first.spec, first.leaves, labels[0]
        self.common = _EMPTY
        if self.called is not None or self.optimizes:
            for node in first.nodes:
                if node.kind == _LITERAL:
                    self.common = list(first.nodes)
                    break
        for number in range(1, len(returned)):
            self.compare(returned[number], labels[number])

    def compare(self, other: Returned, which: str) -> None:
        """Compare what a function has returned with what the first one has."""
        assert self.spec is not None
        if other.spec is not self.spec and other.spec != self.spec:
            root = self.root(other.value)
            difference = self.spec.difference(other.spec, root, True)
            if difference is not None:
                path, what, first, second = difference
                advice = " Convert one of them, so that both are of the same type." if what == "type" else ""
                raise ArgumentError(
                    f"{self.function}(): '{self.which}' and '{which}' must return values of the same types and "
                    f"structure, but the {what} of '{path}' is {first} in '{self.which}' and {second} in '{which}'."
                    f"{advice}")
            other.align(self.spec)
            self.spec = self.spec.joined(other.spec)
        if self.common:
            for position, node in enumerate(self.common):
                if node is not None and (node is not other.nodes[position] or node.kind != _LITERAL):
                    self.common[position] = None
        leaves = other.leaves
        if len(self.spec.traced()) == len(leaves):  # there is nothing but traced arrays
            return
        if self.strict:
            place = difference_of(self.leaves, leaves)
            if place >= 0:
                old, new = self.leaves[place], leaves[place]
                raise ArgumentError(
                    f"{self.function}(): '{self.which}' and '{which}' return different values of "
                    f"'{self.spec.paths(self.root(other.value))[place]}', a Python object of type {describe(old)} that "
                    f"is not tracked: {old!r} and {new!r}. Use a Dr.Jit array instead{self.otherwise}.")
        else:
            self.leaves = [old if isinstance(new, ArrayBase) and new._dynamic else new
                           for old, new in zip(self.leaves, leaves, strict=True)]

    def place(self, position: int) -> str:
        """The name of the result that a node is part of."""
        assert self.spec is not None
        names = self.names if self.spec.cls is tuple and self.spec.children is not None and \
            len(self.spec.children) == len(self.names) and self.names else "result"
        return self.spec.node_paths(names)[position]

    def rebuilt(self, nodes: list[core.Node], returned: Sequence[Returned] = (), calls: Sequence[Call] = (),
                made: dict[Any, Any] | None = None, given: Given | None = None) -> Any:
        """The tree of joined results; what all functions return of the caller's is the caller's, and what was ``made``
        for places, in which they have left it, too, is in these.

        Where all functions have returned the same literal, it is that. What they were ``given`` tells what is the
        caller's, instead of calls, if they have left that alone, and all else.
        """
        assert self.spec is not None
        for position, node in enumerate(self.common):
            if node is not None and node.kind == _LITERAL:
                nodes = nodes.copy()
                nodes[position] = node if self.called is None else _where(self.called, node, nodes[position].size)
        fresh = self.spec.fresh(nodes, self.leaves, self.lanes)
        if returned:
            positions = self.spec.positions()
            first = first_places(returned[0].leaves) if len(positions) > 1 else None
            for place, _, _ in positions:
                array = kept_of(place, returned, calls, given) if calls or given is not None else None
                if array is None and calls and made:
                    array = made.get(tuple([id(each.leaves[place]) for each in returned]))
                before = place if first is None else first[place]
                if array is not None:
                    fresh[place] = array
                elif before != place and not [each for each in returned
                                              if each.leaves[place] is not each.leaves[before]]:
                    fresh[place] = fresh[before]
        if self.spec.children is None:
            return fresh[0]
        values = [each.value for each in returned]
        if given is not None:
            if self.spec.is_flat and len(values) > 1 and values[0] is not values[1]:
                return tuple(fresh)
            calls = [Call(given, given.nodes, None, own_nodes=True)] * len(values)
        if not calls:
            return self.spec.rebuild(fresh) if not values or self.spec.is_flat else \
                refilled(values, self.spec, iter(fresh), _none, become)
        owned = [id(call_.own(value)) for call_, value in zip(calls, values, strict=True)]
        if self.spec.is_flat and any(map(owned[0].__ne__, owned)):
            return tuple(fresh)
        return refilled(values, self.spec, iter(fresh), functools.partial(common_owner, calls), calls[0].become, made)


def kept_of(place: int, returned: Sequence[Returned], calls: Sequence[Call], given: Given | None = None) -> Any:
    """The caller's array that all functions have returned in one place, an argument or one from outside; ``None`` if
    that is something else. They were called with ``given`` arrays themselves, or else by ``calls``."""
    first, origin = returned[0], -1
    array, same = first.leaves[place], True
    for number, each in enumerate(returned):
        leaf = each.leaves[place]
        if given is None:
            called = calls[number]
            found = called.original(leaf)
        else:
            found = given.place_of(leaf)
        same = same and found < 0 and leaf is array
        if not same and (found < 0 or number and found != origin):
            return None
        origin = found
    if given is None:
        called = calls[len(returned) - 1]
        given = called.given
    return array if same else given.leaves[origin]


def _where(called: core.Node, result: core.Node, width: int) -> core.Node:
    """A literal that functions return, for those elements that they are called for, and zero for others."""
    found = core.literal(result.type, result.payload, width, result.attr)
    return core.ops.select(called, found, core.literal(result.type, 0))  # type: ignore[no-any-return]


class Returned:
    """What one function has returned."""

    __slots__ = ("given", "leaves", "nodes", "spec", "value")

    leaves: Sequence[Any]

    def __init__(self, function: str, value: Any, like: TreeSpec | None = None) -> None:
        self.take(function, value, like)
        #: The nodes of what the function was given, if it has done nothing besides.
        self.given: list[core.Node] = _EMPTY

    def take(self, function: str, value: Any, like: TreeSpec | None = None) -> None:
        """Look at a value, which is probably ``like`` another one."""
        self.value = value
        self.nodes, self.leaves, self.spec = flatten_nodes(value, function, like)

    def parts(self, position: int) -> tuple[TreeSpec, slice, slice]:
        """The structure of an entry of a tuple, and which of the leaves and nodes it has."""
        assert self.spec.children is not None
        spec, before = self.spec.children[position], TreeSpec(tuple, (), (), self.spec.children[:position])
        first, start = len(before.leaf_specs()), sum([entry[3] for entry in before.traced()])
        return spec, slice(first, first + len(spec.leaf_specs())), slice(start, start + sum(
            [entry[3] for entry in spec.traced()]))

    def entry(self, position: int) -> tuple[TreeSpec, Sequence[core.Node], Sequence[Any]]:
        """The structure of an entry of a tuple, its nodes and its leaves."""
        spec, leaves, nodes = self.parts(position)
        return spec, self.nodes[nodes], self.leaves[leaves]

    def replace(self, position: int, value: Any) -> None:
        """Put another value in the place of an entry of a tuple."""
        assert self.spec.children is not None
        _, leaves, nodes = self.parts(position)
        new, found, spec = flatten_nodes(value, "")
        self.value = (*self.value[:position], value, *self.value[position + 1:])
        self.leaves = [*self.leaves[:leaves.start], *found, *self.leaves[leaves.stop:]]
        self.nodes = [*self.nodes[:nodes.start], *new, *self.nodes[nodes.stop:]]
        self.spec = TreeSpec(tuple, (), (), (*self.spec.children[:position], spec, *self.spec.children[position + 1:]))

    def align(self, spec: TreeSpec) -> None:
        """Bring the entries of dictionaries into the order that a structure has, like this one but for shapes."""
        segments = self.segments()
        order, self.spec = spec.in_order(self.spec)
        self.leaves = [self.leaves[place] for place in order]
        self.nodes = [node for place in order for node in segments[place]]

    def widen(self, some: tuple[int, ...], all_: tuple[int, ...]) -> None:
        """Let tensors of some elements, for which the function was called, have the shape of tensors of all."""
        self.spec = self.spec.reshaped({k: all_ for k, _, shape, _, depth in self.spec.traced()
                                        if depth < 0 and shape == some})

    def unusable(self, why: str) -> Any:
        """Something like it that nobody can use, who are told ``why``."""
        nodes = [core.unusable(primal(node), f"this array has no value: {why}") for node in self.nodes]
        return self.spec.rebuild_nodes(nodes, self.leaves)

    def segments(self) -> list[Sequence[core.Node]]:
        """The nodes of each leaf."""
        counts = {place: count for place, _, _, count, _ in self.spec.traced()}
        found: list[Sequence[core.Node]] = []
        start = 0
        for place in range(len(self.leaves)):
            count = counts.get(place, 0)
            found.append(self.nodes[start:start + count])
            start += count
        return found


def common_owner(calls: Sequence[Call], values: Sequence[Any], spec: TreeSpec) -> Any:
    """The container that all of several functions have returned; ``None`` if these are several."""
    found = calls[0].own(values[0])
    for number in range(1, len(values)):
        if calls[number].own(values[number]) is not found:
            return None
    return found


def _none(values: Sequence[Any], spec: TreeSpec) -> Any:
    return None


def argument_of(value: core.Node, nodes: Sequence[core.Node]) -> int | None:
    """The position of the argument that a result of an evaluated function is, after writes by index if any."""
    return next((k for k, node in enumerate(nodes) if value is node or written_from(value, node)), None)


def blended(words: Words, mask: core.Node, position: int, yes: core.Node, no: core.Node, results: Results) -> core.Node:
    """A result where a mask is set, and another one elsewhere; or the last version, if by index was written."""
    if yes is no and (yes.size or mask.size < 2 or yes is not core.invalid(yes.type)) or written_from(yes, no):
        return yes
    if written_from(no, yes):
        return no
    if written_apart(yes, no):
        raise ArgumentError(f"{words.function}(): the functions write by index to different copies of one array, and "
                            f"return them as '{results.place(position)}'. Write to the array itself, or use "
                            "mode='symbolic'.")
    fits = fitting(mask, yes, no)
    if fits is None:
        raise wrong_sizes(words, results, position, [yes, no, mask], True)
    return core.ops.select(fits, yes, no)  # type: ignore[no-any-return]


def wrong_sizes(words: Words, results: Results, position: int, nodes: Sequence[core.Node],
                 branches: bool) -> SizeError:
    """What is wrong with a result whose sizes in all functions are those of the first nodes, and with what decides."""
    sizes = ", ".join(str(node.size) for node in nodes)
    return SizeError(f"{words.function}(): the sizes of the result '{results.place(position)}' do not go with that of "
                     f"the {'condition' if branches else 'index'}! (sizes: {sizes})")
