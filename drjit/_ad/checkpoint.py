"""Computing the inside of functions again in reverse mode, instead of keeping it.

Steps of a simulation are divided by the binomial scheme of A. Griewank and A. Walther, *Algorithm 799: revolve* (ACM
TOMS 26, 2000): with room for s states besides the first, and each step computed at most r times, C(s + r + 1, s + 1)
steps can be differentiated.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import drjit_core as core
from drjit_core import HUB, LEAF, STRUCTURE, Flow, Node, Scope, Vertex, dual, ops, primal, tracked, vertex_of

from .._base.arguments import require_count
from .._base.array import ArrayBase
from .._base.errors import ArgumentError, describe
from .._base.links import links
from .._base.nodes import broadcast
from .._base.values import is_ndarray
from .._promotion.promote import wrap_like
from .._trees.holders import beside_entries, has_array, passed_over
from .._trees.pytree import TreeSpec, flatten
from .arrays import differentiable
from .traversal import scoped

__all__ = ["checkpoint", "split"]

_FUNCTION = "drjit.checkpoint"
Nodes = list[Node | None]


def split(steps: int, slots: int) -> int:
    """How many of some steps come before the next state that is kept, if there is room for so many."""
    repeats = 1
    while math.comb(slots + 1 + repeats, slots + 1) < steps:
        repeats += 1
    return max(min(math.comb(slots + repeats, slots + 1), steps - math.comb(slots + repeats - 1, slots)), 1)


def checkpoint(function: Callable[..., Any], /, *args: Any, steps: int | None = None, slots: int | None = None,
               **kwargs: Any) -> Any:
    """The value of a function, whose inside is computed again when it is differentiated, and not kept until then.

    ``args`` and the result are PyTrees; ``kwargs`` are passed on. Without ``steps``, the result is
    ``function(*args, **kwargs)``. What the function evaluates within is let go, and only its arguments are kept; a
    traversal calls it again, and differentiates that. With ``steps``, it is a step of a simulation, called that often
    with what it has returned: one value if there is one argument, else as many as there are. The state is evaluated
    after each step. ``slots`` says how many of these states are kept; by default, so many as the binary logarithm of
    ``steps``. From these, the steps between are computed again, by the binomial scheme of Griewank and Walther (2000).

    A thousand steps take memory for ten states instead of a thousand, and are computed some five times in all; ten
    thousand take 14 states, and are computed six times. Fewer slots save memory for time: with 3, a thousand steps are
    computed nine times. Where memory is no concern, an ordinary loop is the fastest.

    The function is given copies of the arguments: what it changes in place must be among what it returns. When it is
    called again, its variables are what they were the first time, and so is what it changes of that which it refers to,
    such as the state of a generator of random numbers (of NumPy and Python as well); afterwards, they are as before.
    What it changes must not depend on the arguments (with ``steps``, on nothing) as far as derivatives are tracked,
    else a ``RuntimeError`` is raised, as it is if an iterator is advanced, or if arrays that derivatives are tracked
    for have been replaced, in containers and objects that the function refers to, when derivatives flow. It must
    compute the same each time in all else, whether derivatives are tracked for its arguments or not. In symbolic loops,
    branches and calls, which have no memory to be saved, it is called as it is. May be differentiated in both modes;
    second derivatives keep all steps. Raises a ``TypeError`` if a step of several values does not return as many.
    Evaluates nothing without ``steps``.

    >>> from drjit.llvm.ad import Float
    >>> x = Float(1, 2)
    >>> dr.enable_grad(x)
    >>> y = dr.checkpoint(lambda x: x + 0.1 * dr.sin(x), x, steps=100)
    >>> dr.backward(y)
    >>> x.grad
    [0.00013554, 3.94773e-05]
    """
    if not callable(function):
        raise ArgumentError(f"{_FUNCTION}(): the first argument must be a function (found {describe(function)}).")
    if steps is None:
        if slots is not None:
            raise ArgumentError(f"{_FUNCTION}(): 'slots' goes with 'steps'.")
    else:
        require_count(_FUNCTION, "steps", steps)
        if slots is not None:
            require_count(_FUNCTION, "slots", slots)
    if steps == 0:
        return args[0] if len(args) == 1 else args
    program = _Program(function, kwargs, args, steps)
    return program.plain(args) if core.innermost() is not None else program.run(slots)


class _State:
    """What a step is called with: the leaves of PyTrees, without derivatives."""

    __slots__ = ("leaves", "moment", "spec")

    def __init__(self, leaves: Sequence[Any], spec: TreeSpec, moment: Any) -> None:
        self.spec = spec
        #: What was around the function.
        self.moment = moment
        self.leaves = [wrap_like(leaf, type(leaf), [primal(node) for node in leaf._nodes()])
                       if isinstance(leaf, ArrayBase) and leaf._dynamic else leaf for leaf in _own(leaves)]

    def nodes(self) -> list[Node]:
        """Those that may be differentiated."""
        return _nodes(self.leaves)

    def evaluate(self, *others: Node | None) -> None:
        """Evaluate its arrays, and other nodes."""
        core.evaluate([*(node for leaf in self.leaves if isinstance(leaf, ArrayBase) and leaf._dynamic
                         for node in leaf._nodes()), *(node for node in others if node is not None)])

    def rebuilt(self, duals: Sequence[Node]) -> Any:
        """The PyTree with other nodes in place of these."""
        rest, found = iter(duals), _own(self.leaves)
        for place, leaf in enumerate(found):
            if differentiable(leaf):
                found[place] = wrap_like(leaf, type(leaf), [next(rest) for _ in leaf._nodes()])
        return self.spec.rebuild(found)


def _own(leaves: Sequence[Any]) -> list[Any]:
    """Leaves that nobody else changes: copies of arrays, NumPy's included."""
    return [wrap_like(leaf, type(leaf), list(leaf._nodes())) if isinstance(leaf, ArrayBase) and leaf._dynamic else
            copy.copy(leaf) if isinstance(leaf, ArrayBase) or is_ndarray(leaf) else leaf for leaf in leaves]


def _nodes(leaves: Sequence[Any]) -> list[Node]:
    return [node for leaf in leaves if differentiable(leaf) for node in leaf._nodes()]


class _Program:
    """A function and its calls: the payload of a vertex."""

    #: Derivatives of its derivatives flow through what is computed again.
    again = True
    name = "checkpoint"

    def __init__(self, function: Callable[..., Any], kwargs: dict[str, Any], args: Sequence[Any],
                 steps: int | None) -> None:
        self.function = function
        leaves, self.keywords = flatten(kwargs, _FUNCTION)
        #: Copies of what the keyword arguments consist of.
        self.given_by_name = _own(leaves)
        #: Which derivatives are tracked where it is called.
        self.scope = core.state.derivatives
        self.single, self.steps = len(args) == 1, steps
        self.count = steps or 1
        #: How many states may be kept besides the first.
        self.room = 0
        leaves, spec = flatten(list(args), _FUNCTION)
        self.around = links.surroundings(_FUNCTION, function, [*leaves, *self.given_by_name])
        #: States that are kept, by the numbers of steps before them.
        self.kept = {0: _State(leaves, spec, self.around.moment)}
        #: The vertices of the arguments, and of what else the function has used, so far as there are any.
        self.given = [tracked(node) for node in _nodes(leaves)]
        self.others: list[Vertex] = []
        #: What stands for variables that the function makes itself, such as those of a framework, if there are any.
        self.begun: Vertex | None = None
        self.inputs: list[Vertex] = []
        self.outputs: list[tuple[int, int]] = []
        self.received: dict[int, Node] = {}
        self.sent: dict[int, Node] = {}

    # --- running it --------------------------------------------------------------------------------------------------

    def call(self, values: Any) -> tuple[list[Any], TreeSpec]:
        """The leaves of what the function returns, and the structure of that: for a step, of what it is given."""
        result = self.function(*values, **self.keywords.rebuild(_own(self.given_by_name)))
        if self.steps is not None:
            result = [result] if self.single else result
            if not isinstance(result, list | tuple) or len(result) != len(values):
                raise ArgumentError(f"{_FUNCTION}(): a step is given {len(values)} values, and must return as many "
                                    f"(found {describe(result)}).")
            result = list(result)
        return flatten(result, _FUNCTION)

    def plain(self, values: Sequence[Any]) -> Any:
        """The result as it would be without this function."""
        leaves, spec = flatten(list(values), _FUNCTION)
        values = spec.rebuild(_own(leaves))
        for _ in range(self.count):
            leaves, spec = self.call(values)
            values = spec.rebuild(leaves)
        return values if self.steps is None else values[0] if self.single else tuple(values)

    def step(self, state: _State,
             used: dict[int, Vertex]) -> tuple[_State, list[Any], list[Vertex], list[Vertex], list[Node]]:
        """The state after a call of the function, the leaves of what that returns, the variables that the state before
        consists of, those that the function has made, and what else has changed; notes what other variables it has
        ``used``, by ids."""
        nodes = state.nodes()
        variables = [Vertex(LEAF, node.type, node.size) for node in nodes]
        last = core.last_vertex()
        own = variables if self.inputs or used or self.given.count(None) < len(self.given) else []
        with self.tracking(own), self.around.watched(own, last, self.steps is not None) as changed:
            leaves, spec = self.call(state.rebuilt(list(map(dual, nodes, variables)) if own else nodes))
        if own and not self.outputs:
            self._require_all(leaves, spec, {vertex.id for vertex in own}, last)
        begun = self._note(leaves, variables, last, used)
        return _State(leaves, spec, self.around.moment), leaves, variables, begun, changed

    def tracking(self, variables: Sequence[Vertex]) -> AbstractContextManager[None]:
        """A context in which derivatives by some variables are tracked, and by what else they were where the function
        was called."""
        return scoped(Scope.like(core.state.derivatives, self.scope, [vertex.id for vertex in variables]))

    def advanced(self, state: _State, count: int) -> _State:
        """The state some steps later, for which no derivatives are tracked; a step may differentiate on its own."""
        self.around.let(state.moment)
        with self.tracking(()):
            for _ in range(count):
                with self.around.watched() as changed:
                    leaves, spec = self.call(state.rebuilt(state.nodes()))
                state = _State(leaves, spec, self.around.moment)
                state.evaluate(*changed)
        return state

    def run(self, slots: int | None) -> Any:
        """The result, with a vertex if there is anything to differentiate by."""
        keep = set[int]()
        if self.steps is not None:
            self.room = max(1, math.ceil(math.log2(self.steps))) if slots is None else slots
            first, room = 0, self.room
            while room and self.count - first > 1:
                first += split(self.count - first, room)
                room -= 1
                keep.add(first)
        found: dict[int, Vertex] = {}
        state = self.kept[0]
        for number in range(1, self.count + 1):
            state, _, _, begun, changed = self.step(state, found)
            if begun and self.begun is None:
                self.begun = Vertex(LEAF, begun[0].type, 1)
            if self.steps is not None:
                state.evaluate(*changed)
            if number in keep:
                self.kept[number] = state
        if not self.around.finish():
            for each in self.kept.values():
                each.moment = None
        self.others = list(found.values())
        self.inputs = [vertex for vertex in (*self.given, *self.others, self.begun) if vertex is not None]
        duals = state.nodes()
        if self.inputs:
            hub = Vertex(HUB, 0, 1, info=self)
            hub.label = self.name
            for place, node in enumerate(duals):
                self.outputs.append((node.type, node.size))
                duals[place] = dual(node, Vertex(STRUCTURE["output"], node.type, node.size, hub, info=place))
        values = state.rebuilt(duals)
        return values if self.steps is None else values[0] if self.single else tuple(values)

    @staticmethod
    def _require_all(leaves: Sequence[Any], spec: TreeSpec, own: set[int], last: int) -> None:
        """Refuse results from which derivatives would not flow: arrays that are held otherwise than in a PyTree."""
        def is_cut_off(array: Any) -> bool:
            return differentiable(array) and any(vertex is not None and (vertex.id > last or vertex.id in own)
                                                 for vertex in map(vertex_of, array._nodes()))

        beside_entries(_FUNCTION, spec.attributes(), is_cut_off)
        for place, leaf in enumerate(leaves):
            if not isinstance(leaf, ArrayBase) and has_array(leaf, is_cut_off):
                raise passed_over(_FUNCTION, leaf, spec.paths("result")[place])

    @staticmethod
    def _note(leaves: Sequence[Any], own: Sequence[Vertex], last: int, found: dict[int, Vertex]) -> list[Vertex]:
        """Note the variables that results depend on and that were there before; returns others, but its own ones."""
        todo = [vertex for node in _nodes(leaves) if (vertex := vertex_of(node)) is not None]
        seen = {vertex.id for vertex in own}
        begun = []
        while todo:
            vertex = todo.pop()
            if vertex.id in seen:
                continue
            seen.add(vertex.id)
            if vertex.id <= last:
                found[vertex.id] = vertex
            elif vertex.rule is LEAF:
                begun.append(vertex)
            else:
                todo += vertex.operands()
        return begun

    # --- derivatives -------------------------------------------------------------------------------------------------

    def require_same(self, used: dict[int, Vertex], *, so_far: bool = False) -> None:
        """Refuse to differentiate what refers to other variables than it did. Before derivatives flow through a step,
        it may have used but some of them, ``so_far``: others may be what follows from the function's result."""
        known = {vertex.id for vertex in self.others}
        if not used.keys() <= known or not so_far and used.keys() < known:
            raise RuntimeError(
                f"{_FUNCTION}(): the function refers to other arrays than when it was called, as far as derivatives "
                "are tracked for them: one has been replaced since. Let derivatives flow before, or pass it as an "
                "argument.")

    def reverse(self, flow: Flow) -> None:
        """Let gradients flow from the results to the arguments."""
        gradients: Nodes = [self.received.get(place) for place in range(len(self.outputs))]
        with scoped(Scope.resumed(core.state.derivatives, None)), self.around.kept():
            if flow.again:
                found = self._whole(lambda results, inputs: core.pull(results, inputs, again=True), gradients)
            else:
                totals: Nodes = [None] * len(self.others)
                used: dict[int, Vertex] = {}
                first = self._back(gradients, totals, used)
                self.require_same(used)
                found = [*(gradient for vertex, gradient in zip(self.given, first, strict=True)
                           if vertex is not None), *totals]
        for vertex, gradient in zip(self.inputs, found, strict=False):
            if gradient is not None:
                flow.bring(vertex, gradient, gradient.size)

    def _back(self, gradients: Nodes, totals: Nodes, used: dict[int, Vertex]) -> Nodes:
        """The gradients by the first state, given those by the last."""
        kept, work = self.kept, [(0, self.count, self.room)]
        while work:
            first, last, room = work.pop()
            if last - first == 1:
                gradients = self._back_one(kept[first], gradients, totals, used)
                if first:
                    del kept[first]
                continue
            if room:
                middle = first + split(last - first, room)
                if middle not in kept:
                    kept[middle] = self.advanced(kept[first], middle - first)
                work += [(first, middle, room), (middle, last, room - 1)]
                continue
            gradients = self._back_one(self.advanced(kept[first], last - first - 1), gradients, totals, used)
            work.append((first, last - 1, 0))
        return gradients

    def _back_one(self, state: _State, gradients: Nodes, totals: Nodes, used: dict[int, Vertex]) -> Nodes:
        """The gradients by the state before one step; adds those by what is no state to the totals."""
        self.around.let(state.moment)
        _, leaves, variables, begun, _ = self.step(state, used)
        self.require_same(used, so_far=True)
        results = self._with_vertices(leaves, gradients)
        found = core.pull(results, [*variables, *self.others, *begun])[:len(variables) + len(self.others)]
        before = found[:len(variables)]
        for place, gradient in enumerate(found[len(variables):]):
            total = totals[place]
            totals[place] = total if gradient is None else gradient if total is None else ops.add(total, gradient)
        if self.steps is not None:
            state.evaluate(*before, *totals)
        return before

    def _with_vertices(self, leaves: Sequence[Any], values: Nodes) -> list[tuple[Vertex, Node]]:
        nodes = _nodes(leaves)
        self._require_alike(nodes, [None if value is None else value.size for value in values])
        return [(vertex, value) for node, value in zip(nodes, values, strict=True)
                if value is not None and (vertex := vertex_of(node)) is not None]

    @staticmethod
    def _require_alike(nodes: Sequence[Node], sizes: Sequence[int | None]) -> None:
        """Refuse to differentiate what returns something else than it did: other numbers of arrays or elements."""
        if len(nodes) != len(sizes) or any(size not in (None, 1, node.size)
                                           for node, size in zip(nodes, sizes, strict=True)):
            raise RuntimeError(f"{_FUNCTION}(): the function has returned something else than when it was called, "
                               "arrays of other numbers or sizes. It must compute the same each time.")

    def _whole(self, differentiate: Callable[[list[tuple[Vertex, Node]], list[Vertex]], Nodes],
               gradients: Nodes) -> Nodes:
        """What becomes of gradients if all steps are recorded, whose derivatives have derivatives in turn."""
        state = self.kept[0]
        nodes = state.nodes()
        variables = [Vertex(STRUCTURE["identity"], node.type, node.size, vertex)
                     for node, vertex in zip(nodes, self.given, strict=True)]
        values, last, used = state.rebuilt(list(map(dual, nodes, variables))), core.last_vertex(), dict[int, Vertex]()
        self.around.let(state.moment)
        with self.tracking(variables):
            for _ in range(self.count):
                leaves, spec = self.call(values)
                values = spec.rebuild(leaves)
        self._note(leaves, variables, last, used)
        self.require_same(used)
        inputs = [variable for variable, vertex in zip(variables, self.given, strict=True) if vertex is not None]
        return differentiate(self._with_vertices(leaves, gradients), [*inputs, *self.others])

    def forward(self, flow: Flow) -> None:
        """Let changes flow from the arguments to the results."""
        changes: Nodes = [flow.change(vertex) for vertex in self.given]
        others = [(vertex, change) for vertex in self.others if (change := flow.change(vertex)) is not None]
        with scoped(Scope.resumed(core.state.derivatives, None)), self.around.kept():
            state, used = self.kept[0], dict[int, Vertex]()
            self.around.let(state.moment)
            for number in range(self.count):
                state, leaves, variables, _, changed = self.step(state, used)
                self.require_same(used, so_far=True)
                results = [vertex_of(node) for node in _nodes(leaves)]
                given = [(vertex, change) for vertex, change in zip(variables, changes, strict=True)
                         if change is not None]
                found = iter(core.push([*given, *others], [vertex for vertex in results if vertex is not None],
                                       again=flow.again))
                changes = [None if vertex is None else next(found) for vertex in results]
                if number + 1 < self.count:
                    state.evaluate(*changes, *changed)
        self.require_same(used)
        self._require_alike(state.nodes(), [size for _, size in self.outputs])
        for place, change in enumerate(changes):
            if change is not None:
                size = self.outputs[place][1]
                self.sent[place] = broadcast(change, size) if change.size == 1 else change
