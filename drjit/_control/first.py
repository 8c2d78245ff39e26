"""The first call of a loop's body that puts arrays where nothing was, or changes the order of the entries of
dictionaries: later iterations find it so.

So it is called again, with what an iteration leaves. If it does the same, what it does is what all iterations do. Else
the first call tells what the first iteration does, and the second one what all others do, if it leaves places and
orders as it has found them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import drjit_core as core
from drjit_core import Node, SymbolicValue, ops, primal, vertex_of

from .._access.store import Journal, owner_of
from .._base.array import ArrayBase
from .entries import Filled, First, Left
from .places import Change, words_of
from .wording import Words

__all__ = ["FirstCall"]

_FIRST = ("first",)


def _have_same(one: Node, other: Node) -> bool:
    """Whether arrays in memory hold the same."""
    return core.read_bytes(one, looks=False) == core.read_bytes(other, looks=False)


def _is_changed(leaf: Any, journal: Journal) -> bool:
    """Whether a leaf is an array that was changed in place, or part of one."""
    entry = journal.entries.get(id(owner_of(leaf)[0])) if isinstance(leaf, ArrayBase) else None
    return entry is not None and bool([node for node, before in zip(entry[0]._nodes(), entry[1], strict=True)
                                       if node is not before])


def _chosen(first: Node, once: Node, node: Node) -> Node:
    """What something is after an iteration, given what it is after the first one and after others."""
    is_same = primal(node) is primal(once) and vertex_of(node) is vertex_of(once)
    return node if is_same else ops.select(first, once, node)


class FirstCall:
    """What a first call has left."""

    def __init__(self, words: Words, entries: dict[Any, Any], filled: Mapping[Any, tuple[Change, list[Node]]],
                 others: Mapping[Any, Left], variables: Sequence[Node],
                 stands: Mapping[Any, Sequence[Node]], state: list[Node], results: Sequence[Node],
                 changing: Sequence[Node]) -> None:
        region = core.innermost()
        assert region is not None
        self.words, self.entries, self.scope, self.live = words, entries, region.id, region.live
        #: Whether the last trace was narrower, and is not the last one.
        self.is_narrow = False
        #: Whether it has done something that there is no derivative of, as it may turn out.
        self.refused = bool(region.refused)
        self.formals, self.stands, self.state = variables[:len(state) - 1], stands, state
        #: What other variables are afterwards, by their keys; and places that were filled.
        self.after = self.by_keys(results)
        self.filled = {key: change for key, (change, _) in filled.items()}
        for key, (change, nodes) in filled.items():
            self.entries[key] = Filled(change, words.function, changing)
            self.after[key] = nodes
        self.entries |= others
        #: What the body does that later iterations find.
        self.does = (self.entries[next(iter(filled))] if filled else next(iter(others.values()))).does(words.noun)
        self.entries.setdefault(_FIRST, First())

    def by_keys(self, nodes: Sequence[Node]) -> dict[Any, Sequence[Node]]:
        """Nodes of the variables that are no state."""
        found, position = {}, 0
        for key, entry in self.entries.items():
            found[key] = nodes[position:position + len(entry.initial)]
            position += len(entry.initial)
        return found

    def joined(self, variables: Sequence[Node], stands: Mapping[Any, Sequence[Node]], values: list[Node], test: Node,
               results: list[Node], grows: bool) -> list[Node]:
        """What all variables are after an iteration, given what they are after one that is not the first: the state
        (``values``, which is changed), and the others; and whether it has filled places that are new again.
        """
        after, (first,) = self.by_keys(results), stands[_FIRST]
        region = core.innermost()
        assert region is not None and region.live is not None and self.live is not None
        pairs = [*zip(self.formals, variables, strict=False), (self.live, region.live)]
        for key, nodes in self.stands.items():
            pairs += zip(nodes, stands[key], strict=True)
        left = [key for key in self.filled if list(after[key]) == list(stands[key])]
        for key in left:
            if not self.entries[key].depends:
                pairs += zip(self.after[key], stands[key], strict=True)
        for key in self.filled:  # what is put there again, and is the same in all iterations
            if key not in left and not self.entries[key].depends and core.are_same(
                    self.after[key], after[key], pairs, _have_same):
                left.append(key)
                after[key] = stands[key]
        if self.live.size < region.live.size and [node for nodes in after.values() for node in nodes
                                                   if core.is_version(primal(node))]:
            raise self.refusal()  # it is wide for what it changes, and writes are single ones, as in the first call
        same = core.are_same(self.state[-1:], [test], pairs, _have_same)
        # each iteration of what fills other places leaves those of before alone: lists grow
        alone = [key for key in left if grows or not self.entries[key].depends or self.entries[key].is_kept]
        self.is_narrow = False
        if same and core.are_same(*self.compared(values, after, alone), pairs, _have_same):
            if not [key for key in after if key[0] == "once"]:  # which only the first iteration changes
                after[_FIRST] = [first]
            return [node for nodes in after.values() for node in nodes]
        self.is_narrow = region.live.size < self.live.size
        if self.is_narrow:  # which tells what is memory; another trace tells whether the body does the same
            after[_FIRST] = [core.literal(first.type, False)]
            return [node for nodes in after.values() for node in nodes]
        but = [key for key in left if not self.entries[key].depends]
        before, now = self.compared(values, after, but)
        writes = [pair for pair in zip(before, now, strict=True) if core.is_version(primal(pair[1]))]
        if not same or grows or self.refused or not core.are_same(
                [pair[0] for pair in writes], [pair[1] for pair in writes], pairs, _have_same):
            raise self.refusal()
        # what is written is the same in all iterations, and written once in each
        found = core.traced_within([node for node, other in zip(before, now, strict=True) if not core.is_version(
            primal(other))], self.scope, [*pairs, *writes])
        if found is None:
            raise self.refusal()
        once = iter(found)
        joined = iter([node if core.is_version(primal(node)) else _chosen(first, next(once), node) for node in now])
        values[:] = [next(joined) for _ in values]
        for key in self.after:
            if key != _FIRST and key not in but:
                after[key] = [next(joined) for _ in after[key]]
        after[_FIRST] = [core.literal(first.type, False)]
        return [node for nodes in after.values() for node in nodes]

    def require_one_array(self, journal: Journal) -> None:
        """Refuse changes in place of what is one array in several places that the first call has filled, and several in
        later iterations."""
        known: dict[int, tuple[Any, Filled]] = {}
        for key in self.filled:
            entry = self.entries[key]
            for place, *_ in entry.spec.traced():
                leaf = entry.leaves[place]
                other, another = known.setdefault(id(entry.originals[place]), (leaf, entry))
                if other is not leaf and (_is_changed(leaf, journal) or _is_changed(other, journal)):
                    raise SymbolicValue(
                        f"{self.words.function}(): {self.words.traced} changes an array in place that is in "
                        f"{words_of(*another.change[:3])} and {words_of(*entry.change[:3])}, but not in all "
                        f"iterations. Put copies there, or {self.words.otherwise}.")

    def compared(self, values: Sequence[Node], after: Mapping[Any, Sequence[Node]],
                 but: Sequence[Any]) -> tuple[list[Node], list[Node]]:
        """What variables are after the first call, and after another one, but for some that are no state."""
        before, now = list(self.state[:-1]), list(values)
        for key, nodes in self.after.items():
            if key != _FIRST and key not in but:
                before += nodes
                now += after[key]
        return before, now

    def refusal(self) -> SymbolicValue:
        """What is wrong with a body that does something else where it finds what it has put in new places."""
        return SymbolicValue(
            f"{self.words.function}(): {self.words.traced} {self.does}, and does something else in later iterations, "
            f"which find it so. Do that before the {self.words.noun}, or {self.words.otherwise}.")
