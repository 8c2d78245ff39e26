"""Symbolic loops: the body is called once, with what stands for the state, and the loop becomes part of a kernel."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import drjit_core as core
from drjit_core import (
    Differentiable,
    IncompatibleSizes,
    SymbolicValue,
    is_version,
    primal,
    repeat,
    tracked,
    while_loop,
)

from .._access.lanes import note_version, with_lanes
from .._access.store import Buffers, Journal, innermost_journal, journal_of, store, store_written
from .._base.array import ArrayBase
from .._base.errors import ArgumentError, SizeError, describe, user_part
from .._trees.pytree import TreeSpec, flatten, flatten_nodes
from .assigned import Variables, assigned_by
from .choice import store_arguments
from .frozen import Frozen
from .outside import (
    Again,
    Captured,
    TracedAgain,
    Wider,
    Words,
    captured_earlier,
    name_in_program,
    require_no_leftovers,
    variables_of,
    widened,
)
from .state import arguments, equal, mask_of

__all__ = ["FUNCTION", "SymbolicLoop", "changed_size", "condition_of", "flattened", "require_tuple", "uninitialized"]

FUNCTION = "drjit.while_loop"
_WORDS = Words(FUNCTION, "the body of this symbolic loop",
               "make it a state variable: pass it in 'state' and return it from the body", "loop",
               "run the loop with mode='evaluated'")


class SymbolicLoop:
    """A loop that is traced, perhaps several times."""

    def __init__(self, nodes: list[core.Node], leaves: list[Any], spec: TreeSpec, cond: Callable[..., Any],
                 body: Callable[..., Any], names: Sequence[str], label: str | None, strict: bool,
                 max_iterations: int | None) -> None:
        self.nodes = nodes
        self.leaves = leaves
        self.spec = spec
        #: The user's functions; once it is traced, copies of them for derivatives.
        self.cond = cond
        self.body = body
        self.names = names
        self.label = label
        self.strict = strict
        self.max_iterations = max_iterations
        self.count = len(nodes)
        #: Whether any of the state is a tensor: those of one element have as many as the loop is wide.
        self.tensors = bool([entry for entry in spec.traced() if entry[4] < 0])
        #: Arrays from outside that the body writes to.
        self.captured: list[Captured] = []
        self.journal: Journal
        #: The leaves of the state that are no arrays, after the loop.
        self.final = leaves
        self.frozen: Frozen | None = None
        #: What the functions may assign to, while they are traced.
        self.variables: Variables | None = None

    def run(self, through: bool) -> Any:
        """The state after the loop; writes to it by index reach the caller's arrays if they go ``through``."""
        around = innermost_journal()
        if around is not None:
            self.captured = captured_earlier(around)
        inner: list[Any] = []
        buffers = Buffers() if around is None else around.buffers
        while True:
            self.journal = journal_of(around, buffers)
            self.journal.inner = inner
            try:
                results = self.trace()
            except Again as request:
                self.put_back(False)
                self.captured, inner = request.captured, self.journal.inner
                continue
            except Wider as request:
                if around is not None:
                    raise
                self.put_back(False)
                request.widen()
                self.captured, inner = [], []
                continue
            except SymbolicValue:
                wide = widened([self.journal], around, self.nodes, self.leaves)
                if wide is None:
                    raise
                self.put_back(False)
                self.nodes = wide
                continue
            break
        self.variables = None
        if around is not None:
            around.add_inner([(weakref.ref(entry.array), entry.position) for entry in self.captured])
        for position, node in enumerate(self.nodes):
            result = results[position]
            if is_version(primal(result)):
                note_version(result, node)
        if not self.captured and not through:
            return self.spec.rebuild_nodes(results, self.final)
        state = self.spec.rebuild_nodes(results[:self.count], self.final)
        if through:
            store_arguments(self.leaves, self.nodes, [result if is_version(primal(result)) else node
                                                      for node, result in zip(self.nodes, results, strict=False)])
        for (array, position, initial, _), result in zip(self.captured, results[self.count:], strict=True):
            if result is not initial and (around is not None or not buffers.own(array)):
                before = array._nodes()[position]
                store_written(array, [result], position)
                note_version(result, before)
        return state

    def trace(self) -> list[core.Node]:
        """The nodes of the state after the loop, and of the arrays that it writes to."""
        if self.variables is None:
            self.variables = assigned_by((self.cond, self.body))
        try:
            results = self.repeated(variables_of(self.nodes, self.captured))
        except IncompatibleSizes as error:
            if user_part(error) is not None:
                raise
            _require_common_size(self.nodes, self.nodes, self.spec, self.names)
            widths = list(dict.fromkeys([size for size in error.sizes if size != 1]))
            raise SizeError(
                f"{FUNCTION}(): the state, and what the body of this symbolic loop computes and writes by index, have "
                f"incompatible sizes! (sizes: {', '.join(map(str, widths))}) All of it must be as wide as the loop; "
                "run the loop with mode='evaluated' otherwise.") from None
        except TracedAgain:
            self.put_back(False)
            raise
        except core.NoDerivative:
            self.put_back(False)
            raise
        except BaseException:
            self.put_back(True)
            raise
        finally:
            self.journal.roll_back()
        for node in results:
            if tracked(node) is not None:
                self.frozen = Frozen(FUNCTION, (self.cond, self.body), [entry.array for entry in self.captured])
                self.cond, self.body = self.frozen.functions
                break
        return results

    def repeated(self, variables: list[core.Node]) -> list[core.Node]:
        """What the compiler makes of it; most loops have nothing to do with derivatives."""
        try:
            return while_loop(variables, self.test, self.following, self.label, self.name_of, self.count, 0, True, True)
        except Differentiable:
            pass
        return repeat(variables, self.test, self.following, self.label, self.name_of, self.count, self.max_iterations,
                      _longest)

    # --- what the compiler calls, perhaps again for a derivative -----------------------------------------------------

    def test(self, variables: list[core.Node]) -> core.Node:
        """The condition, of what stands for the variables."""
        self.begin(variables)
        if self.frozen is None:
            return self.test_of(variables)
        before = assigned_by((self.cond,))
        try:  # for a derivative, which may trace one of the two alone
            return self.test_of(variables)
        finally:
            self.journal.roll_back()
            if before is not None:
                before.put_back(False)

    def following(self, variables: list[core.Node]) -> list[core.Node]:
        """The variables after an iteration."""
        if self.frozen is None:
            return self.next_of(variables)
        self.begin(variables)
        before = assigned_by((self.body,))
        try:
            return self.next_of(variables)
        finally:
            self.journal.roll_back()
            if before is not None:
                before.put_back(False)

    def name_of(self, position: int) -> str:
        """The name of a variable."""
        if position < self.count:
            return self.spec.node_paths(self.names)[position]
        return name_in_program(self.captured[position - self.count].array, (self.cond, self.body))

    def begin(self, variables: list[core.Node]) -> None:
        """A trace begins, perhaps not the first one."""
        if self.frozen is not None:
            self.frozen.require_unchanged()
        else:
            self.put_back(False)
        self.journal.begin()
        if self.captured:
            for (array, position, *_), formal in zip(self.captured, variables[self.count:], strict=True):
                store(array, [formal], position)

    def put_back(self, arrays: bool) -> None:
        """Give what the functions assign what it was, perhaps only if these are ``arrays``."""
        if self.variables is not None:
            self.variables.put_back(arrays)

    def test_of(self, variables: list[core.Node]) -> core.Node:
        """What the user's condition says."""
        test = condition_of(self.cond(*arguments(FUNCTION, self.spec, variables[:self.count], self.leaves)))
        return with_lanes(test, test.size)

    def next_of(self, variables: list[core.Node]) -> list[core.Node]:
        """What the user's body returns, and what it has written to other arrays."""
        count, names = self.count, self.names
        before = arguments(FUNCTION, self.spec, variables[:count], self.leaves)
        inside = flatten(before, FUNCTION)[1] if self.tensors else self.spec
        assigned = None if self.variables is None else Variables((self.body,))
        results, final = flattened(self.body(*before), inside, names)
        if assigned is not None:
            assigned.require_same(_WORDS)
        _require_sizes(variables, results, self.spec, names)
        changed = []
        for position, new in enumerate(results):
            if new is not variables[position] and not is_version(primal(new)):
                changed.append(new)
        _require_common_size(changed, results, self.spec, names)
        traced = self.spec.traced()
        if len(traced) < len(final):
            if self.strict:
                _require_unchanged(self.leaves, final, self.spec, names)
            # arrays of the state are rebuilt: what the body returned need not live on
            for entry in traced:
                final[entry[0]] = self.leaves[entry[0]]
            self.final = final
        del before, final
        if self.journal.entries or self.journal.attributes:
            require_no_leftovers(_WORDS, self.journal, self.captured, variables[count:], (self.cond, self.body))
        if self.captured:
            results = results + [array._nodes()[position] for array, position, *_ in self.captured]
        return results


def _longest(numbers: core.Node, others: list[core.Node]) -> int:
    """The largest number of iterations; evaluates them, and others that the same loop computes."""
    if not numbers.size:
        return 0
    most = core.reduce(numbers, core.ReduceOp.Max.value)
    core.evaluate([most, *others])
    return int(core.read_element(most, 0))


def _require_unchanged(before: list[Any], after: list[Any], spec: TreeSpec, names: Sequence[str]) -> None:
    """Refuse changes of what symbolic loops do not track."""
    for position, (old, new) in enumerate(zip(before, after, strict=True)):
        if old is new or isinstance(old, ArrayBase) and old._dynamic or equal(old, new):
            continue
        raise ArgumentError(
            f"{FUNCTION}(): the body of this loop changed the state variable '{spec.paths(names)[position]}' of type "
            f"{describe(old)} from {old!r} to {new!r}. Symbolic loops do not track Python objects: use a Dr.Jit array "
            "instead, or pass strict=False.")


# --- the state -------------------------------------------------------------------------------------------------------


def uninitialized(nodes: Sequence[core.Node], spec: TreeSpec) -> int:
    """The position of the first leaf that is a traced array without elements, -1 if there is none."""
    if len(nodes) >= len(spec.traced()):
        for node in nodes:
            if not node.size:
                break
        else:
            return -1
    position = 0
    for leaf, _, _, count, _ in spec.traced():
        if not count:
            return leaf
        for _ in range(count):
            if not nodes[position].size:
                return leaf
            position += 1
    return -1


def require_tuple(result: Any, count: int) -> tuple[Any, ...]:
    """What the body returned: as many state variables as there are."""
    if type(result) is not tuple:
        if count == 1 and result is not None:
            return (result,)
        raise TypeError(f"{FUNCTION}(): 'body' must return a tuple of {count} state variable{'s' * (count != 1)}, "
                        f"found {describe(result)}.")
    if len(result) != count:
        raise ArgumentError(f"{FUNCTION}(): 'body' must return {count} state variables, found {len(result)}.")
    return result


def flattened(result: Any, before: TreeSpec, names: Sequence[str]) -> tuple[list[core.Node], list[Any]]:
    """Nodes and leaves of what the body returned, if that is a state like the one before."""
    result = require_tuple(result, len(names))
    nodes, leaves, spec = flatten_nodes(result, FUNCTION)
    if spec is before or spec == before:
        return nodes, leaves
    difference = before.difference(spec, names)
    if difference is not None:
        place, what, first, second = difference
        advice = " Convert it in the body, or begin with what it becomes." if what == "type" else ""
        raise ArgumentError(f"{FUNCTION}(): the body of this loop changed the {what} of the state variable '{place}' "
                            f"from {first} to {second}.{advice}")
    # the same up to the order of the keys of dictionaries
    nodes, leaves, _ = flatten_nodes(before.rebuild(before.aligned(spec, leaves)), FUNCTION)
    return nodes, leaves


def condition_of(value: Any) -> core.Node:
    mask = mask_of(value)
    if mask is not None:
        return mask
    if value.__class__ is bool:
        raise TypeError(f"{FUNCTION}(): 'cond' must return a one-dimensional mask array, found bool: that makes a "
                        "Python loop, which is mode='scalar'.")
    raise TypeError(f"{FUNCTION}(): 'cond' must return a one-dimensional mask array or a bool, found "
                    f"{describe(value)}.")


def _require_sizes(before: Sequence[core.Node], after: Sequence[core.Node], spec: TreeSpec,
                   names: Sequence[str]) -> None:
    """Refuse state variables that the body made wider or narrower than they were, but for broadcasts."""
    for position, new in enumerate(after):
        old = before[position]
        if new.size != old.size and new.size != 1 and (old.size != 1 or not new.size):
            raise changed_size(old, new, spec.node_paths(names)[position])


def changed_size(old: core.Node, new: core.Node, name: str) -> SizeError:
    return SizeError(f"{FUNCTION}(): the body of this loop changed the size of the state variable '{name}' from "
                     f"{old.size} to {new.size}.")


def _require_common_size(nodes: Sequence[core.Node], state: Sequence[core.Node], spec: TreeSpec,
                         names: Sequence[str]) -> None:
    """Refuse state variables, some of the state, whose sizes do not go together."""
    wide: core.Node | None = None
    for node in nodes:
        if node.size != 1:
            if wide is None:
                wide = node
            elif node.size != wide.size:
                paths = spec.node_paths(names)
                first, second = [paths[list(state).index(entry)] for entry in (wide, node)]
                raise SizeError(f"{FUNCTION}(): the state variables '{first}' and '{second}' have incompatible "
                                f"sizes! (sizes: {wide.size}, {node.size})")
