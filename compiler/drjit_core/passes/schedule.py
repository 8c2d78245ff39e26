"""From the nodes that are wanted to a list of kernels.

A kernel is a (stage, width): all that can run together.  The stage of a node is the number of barriers on its longest
path: results of reductions and scatters exist only when their kernel has ended, and a gather needs its source in
memory.  Branches are first given what only one of their sides needs (:mod:`.sink`).  Then work proceeds in three steps.

1. :func:`_separate_targets` gives every pending scatter a target of its own: one that somebody else holds is copied
   first (copy-on-write, expressed as an ``OPAQUE`` node that a kernel stores).
2. Stages are computed bottom-up over the graph.
3. Top-down from the last stage, each kernel claims what it computes.  A value from an earlier stage is recomputed if
   that is cheaper than writing and reading it, else it becomes a store of the kernel that computes it first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ..ir.build import append
from ..ir.holders import held_elsewhere
from ..ir.node import Node
from ..ir.region import CONTROL, is_version, memory_of, operands, values_of, width_of_write, writes
from ..ops.table import (
    EVALUATED,
    FIRST_ELEMENTWISE,
    IS_BARRIER,
    IS_WRITE,
    NEEDS_MEMORY,
    OPAQUE,
    OPS,
    PHI,
    REDUCE,
    RESULT,
    STEP,
    UNDEFINED,
)
from ..types import ReduceOp
from .domain import Domain, flat
from .sink import sink

__all__ = ["Kernel", "add_results", "plan", "post_order", "width_of"]

#: A value is stored, not recomputed, if recomputing costs more than this many additions: a packet written and read
#: again takes about as long as 20 of them at the memory bandwidth of two cores (see benchmarks).
RECOMPUTE_LIMIT = 20


class Kernel:
    """Nodes that one launch produces: stores, reductions and scatters of one stage and domain; or results of one step,
    which is a list of launches of its own."""

    __slots__ = ("domain", "order", "outputs", "stage", "undefined", "width")

    def __init__(self, stage: int, domain: Domain) -> None:
        self.stage = stage
        self.domain = domain
        self.width = domain.size  # number of points
        self.outputs: list[Node] = []
        #: Arrays of undefined contents that are read or written by index, and need memory.
        self.undefined: list[Node] = []
        #: Unevaluated nodes that the outputs need, operands first, if planning happens to know them.
        self.order: list[Node] | None = None

    @property
    def is_step(self) -> bool:
        """Whether this is a step."""
        return self.outputs[0].kind == STEP


def width_of(node: Node) -> int:
    """Number of elements over which a kernel iterates to produce a node."""
    if node.kind == RESULT:
        assert node.d0 is not None
        return node.d0.size
    if node.kind == REDUCE:
        assert node.d0 is not None
        return node.d0.size
    return width_of_write(node) if IS_WRITE[node.kind] else node.size


def plan(roots: list[Node]) -> list[Kernel]:
    """Kernels that produce the roots, in the order in which they must run."""
    if not roots:
        return []
    if len(roots) > 1:  # the program must not depend on the order in which its outputs were scheduled
        roots.sort(key=_id)
    order = post_order(roots)
    kernel = _single_kernel(order, roots)
    if kernel is not None:
        return [kernel]
    if sink(order, roots):
        order = post_order(roots)
    writing = [node for node in order if node.kind in CONTROL and node.payload.writes]
    if writing:
        add_results(writing, roots)
        order = post_order(roots)
    if any(map(writes, order)) and _separate_targets(order, roots):
        order = post_order(roots)
    del writing
    stages = _stages(order)
    del order
    return _Planner(stages).run(roots)


def add_results(loops: list[Node], roots: list[Node]) -> None:
    """Add all results of loops that write to the roots: these run once, so that what they compute is stored now."""
    known = {root.id for root in roots}
    for loop in loops:
        for reference in loop.payload.outputs:
            result = reference()
            if result is not None and result.kind == RESULT and result.id not in known:
                roots.append(result)
    roots.sort(key=_id)


def post_order(roots: Iterable[Node]) -> list[Node]:
    """Unevaluated nodes that the roots need, operands first."""
    order: list[Node] = []
    seen: set[int] = set()
    stack: list[Node | None] = []
    for root in roots:
        if root.id in seen:
            continue
        stack.append(root)
        while stack:
            node = stack.pop()
            if node is None:  # the operands of the node below are done
                node = stack.pop()
                assert node is not None
                order.append(node)
                continue
            if node.id in seen:
                continue
            seen.add(node.id)
            if node.kind <= UNDEFINED or node.kind == EVALUATED:
                continue
            stack.append(node)
            stack.append(None)
            if node.kind in CONTROL:
                stack.extend(operands(node))
                continue
            for operand in (node.d3, node.d2, node.d1, node.d0):
                if operand is not None and operand.kind > UNDEFINED and operand.kind != EVALUATED:
                    stack.append(operand)
    return order


#: Kinds that need the whole procedure wherever they occur.
_STRUCTURED = frozenset((OPAQUE, RESULT, STEP, *CONTROL, *(row.kind for row in OPS if row.effect == "write")))


def _single_kernel(order: list[Node], roots: list[Node]) -> Kernel | None:
    """The one kernel that produces the roots, if there is no barrier: the usual case, found in one pass."""
    width = width_of(roots[0])
    is_barrier = IS_BARRIER
    reductions = 0
    for node in order:
        kind = node.kind
        if kind >= FIRST_ELEMENTWISE:
            for operand in (node.d0, node.d1, node.d2):
                if operand is None:
                    break
                if is_barrier[operand.kind]:
                    return None
        elif kind == REDUCE:
            reductions += 1
            if is_barrier[node.d0.kind]:  # type: ignore[union-attr]
                return None
        elif kind in _STRUCTURED:
            return None
        else:  # counter, gather, cast, bitcast
            for operand in (node.d0, node.d1, node.d2):
                if operand is not None and is_barrier[operand.kind]:
                    return None
            if NEEDS_MEMORY[kind] and node.d0.kind != EVALUATED:  # type: ignore[union-attr]
                return None
    for root in roots:
        reductions -= root.kind == REDUCE
        if width_of(root) != width:
            return None
    if reductions:  # some reduction is none of the roots, but is used by one of them
        return None
    kernel = Kernel(0, flat(width))
    kernel.outputs = roots
    kernel.order = order
    return kernel


# --- copy-on-write ---------------------------------------------------------------------------------------------------


def _separate_targets(order: list[Node], roots: list[Node]) -> bool:
    """Give each write a target that nobody else holds; returns whether the graph has changed."""
    known = _references(order, roots)
    changed = False
    for node in order:
        if IS_WRITE[node.kind]:
            assert node.d0 is not None
            if held_elsewhere(node.d0, known.get(node.d0.id, 0)):
                node.d0 = _copy(node.d0)
                changed = True
        elif node.kind in CONTROL and node.payload.writes:
            loop = node.payload
            for position, formal in enumerate(loop.regions[0].formals):
                if formal.payload and held_elsewhere(loop.initial[position], known.get(loop.initial[position].id, 0)):
                    copy = _copy(loop.initial[position])
                    loop.initial = (*loop.initial[:position], copy, *loop.initial[position + 1:])
                    changed = True
                    del copy
            del loop
    return changed


def _references(*lists: list[Node]) -> dict[int, int]:
    """How often the lists of planning hold each node."""
    known: dict[int, int] = {}
    for nodes in lists:
        for node in nodes:
            known[node.id] = known.get(node.id, 0) + 1
    return known


def _copy(target: Any) -> Node:
    """The same values in memory of their own; what is written to is stored anyway."""
    return append(OPAQUE, target.type, target.size, target)


# --- stages ----------------------------------------------------------------------------------------------------------


def _in_memory(node: Node) -> bool:
    """Whether a node's result exists only when the kernel that computes it has ended."""
    return IS_BARRIER[node.kind] or is_version(node)


def _memory_of_regions(loop: Node) -> Iterator[Node]:
    """What a loop accesses by index."""
    yield from loop.payload.memory()
    yield from loop.payload.sources()


def _merges(scatter: Node, previous: Node) -> bool:
    """Whether two successive writes to one target may share a kernel (see the rules of the engine in DESIGN)."""
    width = width_of(scatter)
    if width != width_of(previous):
        return False
    if width == 1:
        return True
    if scatter.attr != previous.attr:
        return False
    if scatter.attr != ReduceOp.Identity.value:  # in any order, if they cope with conflicts in the same way
        return bool(scatter.payload == previous.payload)
    return scatter.d2 is previous.d2 and scatter.d3 is previous.d3  # the same element of the same lane


def _stages(order: list[Node]) -> dict[int, int]:
    """Stage by node id, for unevaluated nodes."""
    stages: dict[int, int] = {}
    for node in order:
        stage = 0
        kind = node.kind
        if NEEDS_MEMORY[kind]:
            for memory in memory_of(node):
                if memory.id in stages:
                    merged = IS_WRITE[kind] and IS_WRITE[memory.kind] and _merges(node, memory)
                    stage = max(stage, stages[memory.id] + (not merged))
            used: Iterable[Node | None] = values_of(node)
        elif kind in CONTROL:
            used = (node.d0, node.d1, *node.payload.values())
            stage = max((stages[memory.id] + 1 for memory in _memory_of_regions(node) if memory.id in stages),
                        default=0)
        elif kind == PHI:
            raise AssertionError(f"{node!r} is used outside of its region")
        else:
            used = (node.d0, node.d1, node.d2, node.d3)
        for operand in used:
            if operand is not None and operand.id in stages:
                needed = stages[operand.id]
                if _in_memory(operand) or (operand.kind == RESULT and operand.size == 1 and width_of(node) > 1):
                    needed += 1
                if needed > stage:
                    stage = needed
        stages[node.id] = stage
    return stages


# --- claiming --------------------------------------------------------------------------------------------------------


class _Planner:
    """Assigns outputs to kernels, from the last stage to the first."""

    def __init__(self, stages: dict[int, int]) -> None:
        self.stages = stages
        #: By stage, width, and the number of the step, 0 for other kernels.
        self.kernels: dict[tuple[int, int, int], Kernel] = {}
        self.stored: set[int] = set()
        self.steps: dict[tuple[Any, ...], int] = {}  # numbers of steps, which several nodes may be results of

    def run(self, roots: list[Node]) -> list[Kernel]:
        for root in roots:
            if root.id in self.stages:
                self.store(root)
        done: set[tuple[int, int, int]] = set()
        while True:
            pending = [key for key in self.kernels if key not in done]
            if not pending:
                break
            key = max(pending)
            done.add(key)
            self.claim(self.kernels[key])
        for kernel in self.kernels.values():  # program order of the writes, whatever order they were found in
            kernel.outputs.sort(key=_id)
        return [self.kernels[key] for key in sorted(self.kernels)]

    def store(self, node: Node) -> None:
        """Make a node an output of the kernel of its stage and width."""
        if node.id in self.stored:
            return
        self.stored.add(node.id)
        key = (self.stages[node.id], width_of(node), 0)
        if node.kind == STEP:
            step = (node.payload, *(operand.id for operand in memory_of(node)))
            key = (key[0], 0, self.steps.setdefault(step, len(self.steps) + 1))
        kernel = self.kernels.get(key)
        if kernel is None:
            kernel = self.kernels[key] = Kernel(key[0], flat(width_of(node)))
        kernel.outputs.append(node)

    def claim(self, kernel: Kernel) -> None:
        """Walk what a kernel computes, storing what must come from earlier kernels.

        An output of the kernel may itself be found to need another store in it, so the list can grow meanwhile.
        """
        seen: set[int] = set()
        position = 0
        while position < len(kernel.outputs):
            stack = [kernel.outputs[position]]
            position += 1
            while stack:
                node = stack.pop()
                if node.id in seen:
                    continue
                seen.add(node.id)
                if NEEDS_MEMORY[node.kind]:
                    for memory in memory_of(node):
                        self.require(kernel, memory)
                    register: Iterable[Node | None] = values_of(node)
                elif node.kind in CONTROL:
                    for memory in _memory_of_regions(node):
                        self.require(kernel, memory)
                    register = (node.d0, node.d1, *node.payload.values())
                else:
                    register = (node.d0, node.d1, node.d2, node.d3)
                for operand in register:
                    if operand is not None and operand.id in self.stages and not self.from_memory(operand, kernel):
                        stack.append(operand)

    def require(self, kernel: Kernel, memory: Any) -> None:
        """See to it that an array is in memory when a kernel runs that accesses it by index."""
        if memory.id in self.stages:
            self.store(memory)
        elif memory.kind == UNDEFINED:
            kernel.undefined.append(memory)

    def from_memory(self, node: Node, kernel: Kernel) -> bool:
        """Whether a kernel reads an operand from memory (which is then stored) instead of computing it."""
        if _in_memory(node):
            self.store(node)
            return True
        if self.stages[node.id] == kernel.stage and (node.size == kernel.width or node.size == 1):
            return False
        if node.id in self.stored or self.is_dear(node):
            self.store(node)
            return True
        return False

    def is_dear(self, node: Node) -> bool:
        """Whether computing a node again costs more than writing and reading it."""
        cost = 0
        seen: set[int] = set()
        stack = [node]
        while stack:
            current = stack.pop()
            if current.id in seen:
                continue
            seen.add(current.id)
            kind = current.kind
            if kind == RESULT or kind == OPAQUE or kind in CONTROL:
                return True
            if current.size > 1 or NEEDS_MEMORY[kind]:
                cost += OPS[kind].cost
                if cost > RECOMPUTE_LIMIT:
                    return True
            if _in_memory(current):
                continue
            stack.extend(values_of(current) if NEEDS_MEMORY[kind] else operands(current))  # memory is read
        return False


def _id(node: Node) -> int:
    return node.id
