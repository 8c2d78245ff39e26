"""Loops that are evaluated: each iteration is a kernel of its own.

``select`` holds back the elements that have finished; or they are removed (``compress``), once a quarter of those that
are left has finished. Their results are written to arrays of all elements then, and the state of the others is gathered
into smaller ones, which is what the condition and the body are called with. What is read or written by index is memory
that all elements share, and stays as it is; the first iterations, which have all elements, tell which variables these
are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import drjit_core as core
from drjit_core import KIND, Node, cast, literal, ops

from .._access.lanes import TRUE, masked_access, on_part, watched, with_lanes, written_from
from .._base.array import ArrayBase
from .._base.errors import CORE_ERRORS, ArgumentError, SizeError
from .._base.nodes import broadcast
from .._base.types import BOOL, UINT32
from .._functions.ordering import set_positions
from .._trees.pytree import TreeSpec, flatten
from .choice import store_arguments
from .iteration import FUNCTION, changed_size, condition_of, flattened
from .state import arguments

__all__ = ["Compressed", "evaluated"]

_EVALUATED = KIND["evaluated"]

#: Elements are removed when no more of them are left than this share; else all would be moved for the sake of a few.
_SHARE = 0.75


def evaluated(nodes: list[Node], leaves: list[Any], spec: TreeSpec, cond: Callable[..., Any],
              body: Callable[..., Any], names: Sequence[str], *, through: bool) -> Any:
    """The state after a loop that keeps elements that have finished."""
    active: Node | None = None
    originals, written = leaves, [True] * len(nodes)  # what is changed by nothing but writes by index
    first = nodes
    tensors = any(isinstance(leaf, ArrayBase) and leaf._depth < 0 for leaf in leaves)
    state = _State(nodes)
    while True:
        state.prepare(nodes)
        test = condition_of(cond(*arguments(FUNCTION, spec, nodes, leaves)))
        state.check()
        active = with_lanes(test, test.size) if active is None else ops.and_(active, test)
        found = core.reduce(active, core.ReduceOp.Or.value) if active.size else literal(BOOL, False)
        core.evaluate((*nodes, active, found))
        if not core.read_element(found, 0):
            if through:
                store_arguments(originals, first, [node if only else before for node, only, before
                                                   in zip(nodes, written, first, strict=True)])
            return spec.rebuild_nodes(nodes, leaves)
        before = arguments(FUNCTION, spec, nodes, leaves)
        with masked_access(active):
            results, leaves = flattened(body(*before), spec, names)
            written = [only and (new is old or written_from(new, old))
                       for only, old, new in zip(written, nodes, results, strict=True)]
            nodes = _blended(active, nodes, results, spec, names)
        del before, results  # they hold what scatters of the next iteration could otherwise write to in place
        if tensors:  # those of one element may have become wider
            spec = flatten(spec.rebuild_nodes(nodes, leaves), FUNCTION)[1]


class _State:
    """Lets the condition join the kernel that computes the state, as long as it does not read that on the host.

    What it read would be computed in a kernel of its own then, and with it much of the rest, which is computed later.
    """

    def __init__(self, nodes: Sequence[Node]) -> None:
        core.evaluate(nodes)
        self.is_read = False
        self.pending: list[Node] = []

    def prepare(self, nodes: Sequence[Node]) -> None:
        """What must be done before the condition is called."""
        if self.is_read:
            core.evaluate(nodes)
        self.pending = [node for node in map(core.primal, nodes) if node.kind != _EVALUATED]

    def check(self) -> None:
        """Find out whether the condition has read any of the state."""
        self.is_read = self.is_read or any(node.kind == _EVALUATED for node in self.pending)
        self.pending = []


class Compressed:
    """A loop that removes elements that have finished.

    ``nodes`` is the state of the elements that are left, ``lanes`` tells which ones these are.
    """

    def __init__(self, nodes: list[Node], leaves: list[Any], spec: TreeSpec, cond: Callable[..., Any],
                 body: Callable[..., Any], names: Sequence[str]) -> None:
        self.nodes, self.leaves, self.spec = nodes, leaves, spec
        self.cond, self.body, self.names = cond, body, names
        self.state = _State(nodes)
        self.width = self.left = 0
        self.lanes: Node = TRUE
        #: Which variables are memory that all elements share; not known before some iteration.
        self.memory: list[bool] | None = None
        #: Since elements were removed first: which variables have a value for each of those that are left,
        self.own: list[bool] = []
        #: which of them have changed, and what all elements have, as far as they have finished.
        self.changed: list[bool] = []
        self.whole: list[Node] = []
        #: Which ones are changed by nothing but writes by index.
        self.written = [True] * len(nodes)

    def run(self, through: bool) -> Any:
        """The state after the loop; with ``through``, writes by index reach the arrays it began with."""
        first, originals = self.nodes, self.leaves
        active = self.test()
        active = with_lanes(active, active.size)
        self.width = self.left = active.size
        if self.width < 2 or self.width > 1 << 32 or any(
                isinstance(leaf, ArrayBase) and leaf._depth < 0 and len(leaf._s) > 1 for leaf in originals):
            # whoever computes with tensors of several dimensions relies on their shape
            return evaluated(first, originals, self.spec, self.cond, self.body, self.names, through=through)
        self.lanes = core.counter(self.width, UINT32)
        while True:
            number = core.reduce(cast(active, UINT32), core.ReduceOp.Add.value)
            core.evaluate((*self.nodes, active, number))
            left = int(core.read_element(number, 0))
            if not left:
                break
            if self.memory is not None and max(left, 2) <= _SHARE * self.left:
                active = self.remove(active, left)
            self.step(active)
            active = ops.and_(active, self.test())
        nodes = self.all_elements()
        if through:
            store_arguments(originals, first, [node if only else before for node, only, before
                                               in zip(nodes, self.written, first, strict=True)])
        return self.spec.rebuild_nodes(nodes, self.leaves)

    def test(self) -> Node:
        """For which of the elements that are left the condition holds."""
        self.state.prepare(self.nodes)
        with on_part(self.lanes, self.width):
            given = arguments(FUNCTION, self.spec, self.nodes, self.leaves)
            test = condition_of(self.called(self.cond, given))
        self.state.check()
        if self.left not in (test.size, 0) and test.size != 1:
            raise self.misfit(f"{FUNCTION}(): 'cond' returned {test.size} elements, for {self.left} ones!")
        return test

    def step(self, active: Node) -> None:
        """An iteration."""
        with on_part(self.lanes, self.width), masked_access(active), watched(self.nodes) as watch:
            before = arguments(FUNCTION, self.spec, self.nodes, self.leaves)
            inside = flatten(before, FUNCTION)[1]
            results, self.leaves = flattened(self.called(self.body, before), inside, self.names)
            memory = [watch.accessed(old) or new is not old and written_from(new, old)
                      for old, new in zip(self.nodes, results, strict=True)]
            for position, (old, new) in enumerate(zip(self.nodes, results, strict=True)):
                if self.own and self.own[position] and memory[position]:
                    raise ArgumentError(
                        f"{FUNCTION}(): the body of this loop reads or writes the state variable "
                        f"'{self.place(position)}' by index, but only after elements that have finished were removed "
                        "from it. Read an array from outside instead, or use compress=False.")
                only = new is old or written_from(new, old)
                self.written[position] = self.written[position] and only
                if self.own and not only:
                    self.changed[position] = True
                    if old.size == 1:  # one for all so far
                        self.own[position], self.whole[position] = True, broadcast(old, self.width)
            try:
                found = _blended(active, self.nodes, results, self.spec, self.names)
            except (SizeError, *CORE_ERRORS) as error:
                raise self.explained(error) from None
            if self.memory is None and not any(
                    accessed and new is not old and not written_from(new, old) and self.width in (old.size, new.size)
                    for accessed, old, new in zip(memory, self.nodes, results, strict=True)):
                # what is computed with, and read by index, cannot be both; perhaps it was the same as something else
                self.memory = memory
            self.nodes = found

    def called(self, function: Callable[..., Any], given: Any) -> Any:
        """What a function of the user returns; errors say that there are fewer elements than outside."""
        try:
            return function(*given)
        except SizeError as error:
            raise self.explained(error) from error

    def explained(self, error: Exception) -> Exception:
        """An error about sizes, which are those of the elements that are left."""
        return error if self.left == self.width or str(self.width) not in str(error) else self.misfit(str(error))

    def misfit(self, what: str) -> SizeError:
        return SizeError(
            f"{what} This loop removes elements that have finished (compress=True), of which {self.left} are left: "
            f"pass arrays of all {self.width} elements to it as state variables, instead of referring to them, or use "
            "compress=False.")

    def place(self, position: int) -> str:
        """The name of a variable."""
        return self.spec.node_paths(self.names)[position]

    def remove(self, active: Node, left: int) -> Node:
        """Remove the elements that have finished, given how many have not; returns which take part then."""
        kept = set_positions(active)
        following = literal(BOOL, True, left)
        if left == 1:  # with another one, since one value would stand for all elements
            place = int(core.read_element(kept, 0))
            following = ops.eq(core.counter(2, UINT32), literal(UINT32, 0))
            kept = ops.select(following, literal(UINT32, place), literal(UINT32, 0 if place else 1))
            core.evaluate((kept, following))
            left = 2
        if not self.own:
            assert self.memory is not None
            self.own = [node.size == self.width and not memory
                        for node, memory in zip(self.nodes, self.memory, strict=True)]
            self.changed = [False] * len(self.nodes)
            self.whole = self.nodes.copy()
        else:
            self.finish(ops.inv(active))
        self.nodes = [core.gather(node, kept, TRUE) if own else node
                      for own, node in zip(self.own, self.nodes, strict=True)]
        self.lanes = core.gather(self.lanes, kept, TRUE)
        self.left = left
        core.evaluate([*self.nodes, *self.whole, self.lanes])
        return following

    def finish(self, mask: Node) -> None:
        """Write the state of some of the elements that are left to the arrays of all."""
        for position, node in enumerate(self.nodes):
            if self.own[position] and self.changed[position]:
                self.whole[position] = core.scatter(self.whole[position], node, self.lanes, mask,
                                                    core.ReduceOp.Identity.value, core.ReduceMode.NoConflicts.value)

    def all_elements(self) -> list[Node]:
        """The state of all elements at the end."""
        if self.left == self.width:
            return self.nodes
        self.finish(TRUE)
        nodes = [whole if own else node
                 for own, node, whole in zip(self.own, self.nodes, self.whole, strict=True)]
        core.evaluate(nodes)
        return nodes


def _blended(active: Node, before: Sequence[Node], results: Sequence[Node], spec: TreeSpec,
             names: Sequence[str]) -> list[Node]:
    """The state with its new values where elements are active, the old ones elsewhere."""
    found, changed = list(results), []
    for position, (old, new) in enumerate(zip(before, results, strict=True)):
        if new is old or written_from(new, old):
            continue
        if new.size not in (1, old.size) and (old.size != 1 or not new.size):
            raise changed_size(old, new, spec.node_paths(names)[position])
        if len({active.size, old.size, new.size} - {1}) > 1:
            raise SizeError(f"{FUNCTION}(): the state variable '{spec.node_paths(names)[position]}' has a size that "
                            f"does not go with that of the condition! (sizes: {old.size}, {active.size})")
        changed.append(position)
    values = core.blend(active, [results[position] for position in changed], [before[position] for position in changed])
    for position, value in zip(changed, values, strict=True):
        found[position] = value
    return found
