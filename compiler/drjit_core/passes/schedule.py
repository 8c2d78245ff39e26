"""From the nodes that are wanted to a list of kernels.

A kernel is a (stage, width): all that can run together.  The stage of a node is the number of barriers on its longest
path: results of reductions and scatters exist only when their kernel has ended, and a gather needs its source in
memory.  Branches are first given what only one of their sides needs (:mod:`.sink`).  Then work proceeds in three steps.

1. :func:`_separate_targets` gives every pending scatter a target of its own: one that somebody else holds is copied
   first (copy-on-write, expressed as an ``OPAQUE`` node that a kernel stores).
2. Stages are computed bottom-up over the graph.
3. Top-down from the last stage, each kernel claims what it computes.  A value from an earlier stage is recomputed if
   that is cheaper than writing and reading it, else it becomes a store of the kernel that computes it first.

Reductions along the last axis (``SEGMENT``) are no barrier for what uses them on the same *row*: a kernel that goes
over its rows one by one has the sum of a row when it has seen the row, and may go over it once more. Values with one
element for each row, and those of whole rows that are computed from them, share a kernel whose rows have that length;
what asks for anything else waits for the next stage. Where there are regions, and for reductions along other axes, such
a result is a barrier like any other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ..codegen.target import Target
from ..control.alike import KEPT_APART, OF_ELEMENTS
from ..ir.build import append
from ..ir.expansion import UPDATES
from ..ir.extension import depends, take_over
from ..ir.holders import held_elsewhere
from ..ir.node import Node
from ..ir.packets import are_in_rows
from ..ir.region import CONTROL, is_local, is_version, memory_of, operands, values_of, width_of_write, writes
from ..ops.table import (
    ACCESS,
    BITCAST,
    CAST,
    COUNTER,
    EVALUATED,
    FIRST_ELEMENTWISE,
    GATHER,
    IS_BARRIER,
    IS_WRITE,
    NEEDS_MEMORY,
    OPAQUE,
    OPS,
    PACK,
    PHI,
    REDUCE,
    RESULT,
    SCATTER,
    SEGMENT,
    STEP,
    UNDEFINED,
    VIEW,
)
from ..types import ReduceOp
from .domain import Domain, flat, is_short, refine
from .leaves import move_views
from .order import inner_reductions, post_order
from .positions import lower
from .sink import sink
from .stack import OnStack, memory_on_stack

__all__ = ["Kernel", "add_results", "plan", "width_of"]


class Kernel:
    """Nodes that one launch produces: stores, reductions and scatters of one stage and domain; or results of one step,
    which is a list of launches of its own."""

    __slots__ = ("apart", "columns", "domain", "order", "outputs", "part", "row", "stack", "stage", "undefined",
                 "width")

    def __init__(self, stage: int, domain: Domain, row: int = 0, columns: int = 0, part: int = 0) -> None:
        self.stage = stage
        self.domain = domain
        self.width = domain.size  # number of points
        self.row = row  # number of points of a row, if something asks for rows of some length
        self.columns = columns  # number of rows that are reduced to one, column by column; 0: none
        self.part = part  # how many of them, or of the elements of a row, at a time; 0: all
        self.apart = False  # whether what it does is kept apart: it computes whatever is not in memory anyway
        self.outputs: list[Node] = []
        #: Arrays of undefined contents that are read or written by index, and need memory.
        self.undefined: list[Node] = []
        #: What arrays begin with that lie on the stack (see :mod:`.stack`), and how many entries an element has.
        self.stack: list[tuple[Node, int]] = []
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
    if node.kind == REDUCE or node.kind == SEGMENT:
        assert node.d0 is not None
        return node.d0.size
    return width_of_write(node) if IS_WRITE[node.kind] else node.size


def plan(roots: list[Node], target: Target) -> list[Kernel]:
    """Kernels that produce the roots, in the order in which they must run, for where they do."""
    if not roots:
        return []
    if len(roots) > 1:  # the program must not depend on the order in which its outputs were scheduled
        roots.sort(key=_id)
    order = post_order(roots)
    kernel = _single_kernel(order, roots)
    if kernel is not None:
        return [kernel]
    if any(node.kind == VIEW or node.kind == ACCESS for node in order) and move_views(order, target.views):
        order = post_order(roots)
        kernel = _single_kernel(order, roots)
        if kernel is not None:
            return [kernel]
    if sink(order, roots, target.sink):
        order = post_order(roots)
    writing = [node for node in order if node.kind in CONTROL and node.payload.writes]
    if writing:
        add_results(writing, roots)
        order = post_order(roots)
    if any(map(writes, order)) and _separate_targets(order, roots):
        order = post_order(roots)
    stages, rows = _stages(order)
    on_stack = memory_on_stack(order, roots, stages, target.local.kernel) if writing else OnStack()
    del order, writing
    return _Planner(stages, rows, on_stack, target).run(roots)


def add_results(loops: list[Node], roots: list[Node]) -> None:
    """Add all results of loops that write to the roots: these run once, so that what they compute is stored now."""
    known = {root.id for root in roots}
    for loop in loops:
        for reference in loop.payload.outputs:
            result = reference()
            if result is not None and result.kind == RESULT and result.id not in known:
                roots.append(result)
    roots.sort(key=_id)


def _single_kernel(order: list[Node], roots: list[Node]) -> Kernel | None:
    """The one kernel that produces the roots, if there is no barrier: the usual case, found in one pass."""
    width = width_of(roots[0])
    if inner_reductions(order, roots) or any(width_of(root) != width for root in roots):
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
    """A copy in memory of its own; what is written to is stored anyway."""
    return append(OPAQUE, target.type, target.size, target)


# --- stages ----------------------------------------------------------------------------------------------------------


def _in_memory(node: Node) -> bool:
    """Whether a node's result exists only when the kernel that computes it has ended."""
    return IS_BARRIER[node.kind] or is_version(node) or node.kind == OPAQUE and node.attr != 0


def _group(node: Any) -> int:
    """The number of what is computed apart, or writes to memory that is (see :mod:`..ir.apart`); else 0."""
    while node.kind == SCATTER:
        node = node.d0
    return max(0, node.attr) if node.kind == OPAQUE else 0


def _is_of_rows(segment: Node) -> bool:
    """Whether a reduction is one of whole rows, and so known when a kernel has gone over the row."""
    extent, inner, part = segment.payload
    return bool(inner == 1 and part == extent)


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
    assert scatter.d2 is not None and previous.d2 is not None
    return scatter.d3 is previous.d3 and are_in_rows(scatter.d2, previous.d2)  # the same element of the same lane


def _is_kept_apart(memory: Any, width: int) -> bool:
    """Whether memory is what a loop, branch or call of so many elements has written, each to its own part of it.

    Elements that read no other part need not wait for the others.
    """
    if memory.kind != RESULT or memory.d0.size != width:
        return False
    found = [memory]
    while found:
        version = found.pop()
        if version.kind == SCATTER:
            return version.payload in (KEPT_APART, OF_ELEMENTS)
        if version.kind == RESULT:  # else one side of a branch has not written
            found += (region.results[-1][version.attr] for region in version.d0.payload.regions)
    return False


class _Rows:
    """What kernels that go over rows have in common."""

    def __init__(self, order: list[Node]) -> None:
        #: Whether reductions along axes are no barriers.
        self.fused = not any(node.kind in CONTROL for node in order)
        #: Length of the rows, by the ids of values with one element for each of them.
        self.each: dict[int, int] = {}
        #: By the ids of values of whole rows that depend on such.
        self.whole: dict[int, int] = {}
        self._alike: dict[int, bool] = {}

    def ends_kernel(self, node: Node) -> bool:
        """Whether a node's result exists only when the kernel that computes it has ended."""
        return _in_memory(node) or node.kind == SEGMENT and not (self.fused and _is_of_rows(node))

    def may_be_computed_once_a_row(self, node: Node) -> bool:
        """Whether a value with one element for each row can be computed by a kernel that goes over rows."""
        known = self._alike.get(node.id)
        if known is None:
            kind = node.kind
            if node.size == 1 or kind <= UNDEFINED or kind == EVALUATED or kind == COUNTER or node.id in self.each or \
                    self.ends_kernel(node):  # what ends a kernel is read from memory
                known = True
            elif kind >= FIRST_ELEMENTWISE or kind == CAST or kind == BITCAST:
                known = all(self.may_be_computed_once_a_row(operand) for operand in (node.d0, node.d1, node.d2)
                            if operand is not None)
            else:
                known = False
            self._alike[node.id] = known
        return known


def _repeats_rows(view: Node, row: int) -> bool:
    """Whether a view repeats each element of its operand so often."""
    return bool(view.payload == (0, (view.size // row, row), (1, 0)))


def _filled(order: list[Node]) -> set[int]:
    """Ids of the memory that is accessed by index, and begins as a constant or a copy.

    Nothing is computed for it, so that it is there before the first stage of computations. Were that stage its own,
    what is scattered to new zeros would be computed beside the zeros, stored, and read again by the scatter.
    """
    filled: set[int] = set()
    for node in order:
        if NEEDS_MEMORY[node.kind] or node.kind in CONTROL:
            for memory in memory_of(node) if NEEDS_MEMORY[node.kind] else _memory_of_regions(node):
                content: Any = memory.d0
                if memory.kind == OPAQUE and (content.kind <= UNDEFINED or content.kind == EVALUATED):
                    filled.add(memory.id)
    return filled


def _stages(order: list[Node]) -> tuple[dict[int, int], _Rows]:
    """Stage by node id, for unevaluated nodes; what is computed row by row."""
    late: dict[int, int] = {}
    while True:
        stages, rows = _stages_from(order, late)
        before = dict(late)
        for node in order:  # whoever writes local memory shares a kernel with its readers
            if node.kind in CONTROL:
                for memory in _memory_of_regions(node):
                    if memory.kind == RESULT and is_local(memory):
                        loop: Any = memory.d0
                        if stages[loop.id] < stages[node.id]:
                            late[loop.id] = max(late.get(loop.id, 0), stages[node.id])
        if late == before:
            return stages, rows


def _stages_from(order: list[Node], late: dict[int, int]) -> tuple[dict[int, int], _Rows]:
    """The stages and rows of nodes, some of which have a stage that is given, or a later one."""
    stages: dict[int, int] = {}
    rows = _Rows(order)
    filled = _filled(order)
    first = 1 if filled else 0
    for node in order:
        if node.id in filled:
            stages[node.id] = 0
            continue
        stage = first
        kind = node.kind
        if NEEDS_MEMORY[kind]:
            for memory in memory_of(node):
                if memory.id in stages:
                    merged = IS_WRITE[kind] and IS_WRITE[memory.kind] and _merges(node, memory) or \
                        kind == GATHER and _is_kept_apart(memory, node.size)
                    stage = max(stage, stages[memory.id] + (not merged))
            used: Iterable[Node | None] = values_of(node)
        elif kind in CONTROL:
            used = (node.d0, node.d1, *node.payload.values())
            stage = max((stages[memory.id] + (not is_local(memory) and not _is_kept_apart(memory, node.size))
                         for memory in _memory_of_regions(node) if memory.id in stages), default=first)
            stage = max(stage, late.get(node.id, stage))
        elif kind == PHI:
            raise AssertionError(f"{node!r} is used outside of its region")
        elif kind == VIEW:
            source: Any = node.d0
            row = rows.each.get(source.id)
            if row is not None and _repeats_rows(node, row):
                rows.whole[node.id] = row
                stage = stages[source.id]
            elif source.id in stages:
                stage = stages[source.id] + 1
            used = ()
        else:
            used = (node.d0, node.d1, node.d2, node.d3)
        barrier = _row_of_result(node, used, stages, rows) if rows.each else ()
        for operand in used:
            if operand is not None and operand.id in stages:
                needed = stages[operand.id]
                if rows.ends_kernel(operand) or operand.id in barrier or (
                        operand.kind == RESULT and operand.size == 1 and width_of(node) > 1):
                    needed += 1
                if kind == SEGMENT and not rows.fused:
                    needed = stages[operand.id] + 1
                if needed > stage:
                    stage = needed
        if kind == SEGMENT and rows.fused and _is_of_rows(node):
            rows.each[node.id] = node.payload[0]
        stages[node.id] = stage
    if filled:
        _fill_late(order, stages, filled)
    return stages, rows


def _fill_late(order: list[Node], stages: dict[int, int], filled: set[int]) -> None:
    """Fill memory in the stage before its first use, so that it does not lie about through all those before."""
    used: dict[int, int] = {}
    for node in order:
        for operand in operands(node):
            if operand.id in filled:
                used[operand.id] = min(used.get(operand.id, stages[node.id]), stages[node.id])
    for number, stage in used.items():
        stages[number] = stage - 1


def _row_of_result(node: Node, used: Iterable[Node | None], stages: dict[int, int], rows: _Rows) -> Iterable[int]:
    """Note what a node is to a kernel that goes over rows; the ids of operands that it has to wait for."""
    operands = [operand for operand in used  # what is in memory by then tells nothing about rows
                if operand is not None and operand.id in stages and not rows.ends_kernel(operand)]
    each = {rows.each[operand.id] for operand in operands if operand.id in rows.each}
    whole = {rows.whole[operand.id] for operand in operands if operand.id in rows.whole}
    if not each and not whole:
        return ()
    kind = node.kind
    if len(each) == 1 and (kind >= FIRST_ELEMENTWISE or kind == CAST or kind == BITCAST):
        (rows.each[node.id],) = each
        # whole rows of another kernel that happen to be as many, and what packets are needed for
        return [operand.id for operand in operands if operand.id not in rows.each and (
            operand.id in rows.whole or not rows.may_be_computed_once_a_row(operand))]
    row = node.payload[0] if kind == SEGMENT and node.payload[1] == 1 else min(whole, default=0)
    if kind == SEGMENT and not _is_of_rows(node):
        row = -1  # goes over columns, or parts of rows
    elif whole and row in whole and kind != SEGMENT:
        rows.whole[node.id] = row
    return [operand.id for operand in operands
            if operand.id in rows.each or rows.whole.get(operand.id, row) != row]


# --- claiming --------------------------------------------------------------------------------------------------------


def _place(kernel: Kernel) -> tuple[int, int]:
    """The place of a kernel among all: whatever sizes there are, a program has the same order."""
    return kernel.stage, kernel.outputs[0].id


def _in_order(kernels: Iterable[Kernel]) -> list[Kernel]:
    """Kernels by their places, but each after those of its stage that write before it to the same memory: where there
    are regions, a write of values of rows is not in the kernel of others."""
    ordered = sorted(kernels, key=_place)
    writers = {node.id: kernel for kernel in ordered for node in kernel.outputs if node.kind == SCATTER}
    if not writers:
        return ordered
    found: list[Kernel] = []
    entered: set[int] = set()
    for kernel in ordered:
        _enter(kernel, writers, found, entered)
    return found


def _enter(kernel: Kernel, writers: dict[int, Kernel], found: list[Kernel], entered: set[int]) -> None:
    """Append a kernel to those that have been found, after others that write before it."""
    if id(kernel) not in entered:
        entered.add(id(kernel))
        for node in kernel.outputs:
            if node.kind == SCATTER and node.d0 is not None and node.d0.id in writers:
                _enter(writers[node.d0.id], writers, found, entered)
        found.append(kernel)


#: What a kernel is found by while it is planned: stage, width, length of rows (0: any), rows that are reduced to one
#: (0: none), and of how many elements or rows at a time, or minus the number of a step.
_Key = tuple[int, int, int, int, int]


class _Planner:
    """Assigns outputs to kernels, from the last stage to the first."""

    def __init__(self, stages: dict[int, int], rows: _Rows, on_stack: OnStack, target: Target) -> None:
        self.target = target
        self.stages = stages
        self.rows = rows
        self.on_stack = on_stack
        self.kernels: dict[_Key, Kernel] = {}
        self.stored: set[int] = set()
        self.done: set[_Key] = set()
        self.steps: dict[tuple[Any, ...], int] = {}  # numbers of steps, which several nodes may be results of

    def run(self, roots: list[Node]) -> list[Kernel]:
        for root in roots:
            if root.id in self.stages and root.id not in self.on_stack.versions:
                self.store(root)
        while True:
            pending = [key for key in self.kernels if key not in self.done]
            if not pending:
                break
            key = max(pending)
            self.done.add(key)
            self.claim(self.kernels[key])
        for kernel in self.kernels.values():  # program order of the writes, whatever order they were found in
            kernel.outputs.sort(key=_id)
        return _in_order(self.kernels.values())

    def store(self, node: Node) -> None:
        """Make a node an output of the kernel of its stage and width."""
        if node.id in self.stored:
            return
        self.stored.add(node.id)
        self.kernel_of(node).outputs.append(node)

    def kernel_of(self, node: Node) -> Kernel:
        """The kernel of a node's stage, width, and rows; what has none goes with those that do."""
        stage, width, columns, part = self.stages[node.id], width_of(node), 0, 0
        row = self.rows.each.get(node.id) or self.rows.whole.get(node.id, 0)
        if node.kind == STEP:
            step = (node.payload, *(operand.id for operand in memory_of(node)))
            part = -self.steps.setdefault(step, len(self.steps) + 1)
            width = 0
        elif node.kind == SEGMENT:
            extent, inner, part = node.payload
            if inner > 1:
                row, columns = inner, extent
            else:
                row = extent
                part = 0 if part == extent else part
        elif node.id in self.rows.each:
            width = node.size * row
        elif node.kind in (OPAQUE, SCATTER) and (group := _group(node)):
            part = -self.steps.setdefault((group,), len(self.steps) + 1)
        key = (stage, width, row, columns, part)
        kernel = self.kernels.get(key)
        if kernel is None and self.rows.fused and not columns and not part:  # where there are regions, rows stay apart
            for other, found in self.kernels.items():
                if other[:2] == key[:2] and other not in self.done and not any(other[3:]) and 0 in (row, other[2]):
                    if row:  # one without rows gets some
                        del self.kernels[other]
                        self.kernels[key], found.row = found, row
                    return found
        if kernel is None:
            kernel = self.kernels[key] = Kernel(stage, flat(width or node.size), row, columns, max(0, part))
            kernel.apart = part < 0
        return kernel

    def claim(self, kernel: Kernel) -> None:
        """Walk what a kernel computes, storing what must come from earlier kernels.

        An output of the kernel may itself be found to need another store in it, so the list can grow meanwhile.
        """
        seen: set[int] = set()
        views: list[Node] = []
        extensions: list[Node] = []
        position, regions = 0, False
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
                        self.reach(kernel, memory, stack)
                    register: Iterable[Node | None] = values_of(node)
                elif node.kind in CONTROL:
                    regions = True
                    for memory in _memory_of_regions(node):
                        self.reach(kernel, memory, stack)
                    register = (node.d0, node.d1, *node.payload.values())
                    if node.payload.extension is not None:
                        extensions.append(node)
                elif node.kind == VIEW:
                    if self.rows.whole.get(node.id) == kernel.row != 0:
                        register = (node.d0,)
                    else:
                        self.require(kernel, node.d0)
                        views.append(node)
                        register = ()
                elif node.kind == SEGMENT and not self.rows.fused:
                    self.require(kernel, node.d0)
                    register = ()
                else:
                    register = (node.d0, node.d1, node.d2, node.d3)
                for operand in register:
                    if operand is not None and operand.id in self.stages and not self.from_memory(operand, kernel):
                        stack.append(operand)
        for node in extensions:
            if node.payload.extension.of.id in seen and not depends(node, seen | self.stored):
                take_over(node)
        kernel.stack.sort(key=_first_id)
        _choose_domain(kernel, views, regions, self.target)

    def reach(self, kernel: Kernel, memory: Node, stack: list[Node]) -> None:
        """See to it that a kernel has memory which it accesses by index: its own, or an array."""
        if memory.id in self.on_stack.versions:
            stack.append(memory)
            entries = self.on_stack.entries.get(memory.id)
            if entries is not None and all(begin is not memory for begin, _ in kernel.stack):
                kernel.stack.append((memory, entries))
        elif is_local(memory):
            stack.append(memory)
        else:
            self.require(kernel, memory)

    def require(self, kernel: Kernel, memory: Any) -> None:
        """See to it that an array is in memory when a kernel runs that accesses it by index."""
        if memory.id in self.stages:
            self.store(memory)
        elif memory.kind == UNDEFINED:
            kernel.undefined.append(memory)

    def from_memory(self, node: Node, kernel: Kernel) -> bool:
        """Whether a kernel reads an operand from memory (which is then stored) instead of computing it."""
        if node.kind == PACK or node.kind in UPDATES:
            return False  # no value: what its user asks for are its operands
        if self.rows.ends_kernel(node):
            self.store(node)
            return True
        if self.stages[node.id] == kernel.stage and (
                node.size in (1, kernel.width) and self.rows.whole.get(node.id, kernel.row) == kernel.row
                or kernel.row and node.size * kernel.row == kernel.width
                and self.rows.each.get(node.id, kernel.row) == kernel.row):
            return False
        if kernel.apart and node.size in (1, kernel.width) and node.id not in self.stored:
            return False
        if node.id in self.stored or self.is_dear(node) or \
                node.size not in (1, kernel.width) and not self.rows.may_be_computed_once_a_row(node):
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
            if kind == RESULT or kind == OPAQUE or kind in CONTROL or current.id in self.rows.each \
                    or current.id in self.rows.whole:
                return True
            if NEEDS_MEMORY[kind] and current.d0.id in self.on_stack.versions:  # type: ignore[union-attr]
                return True  # the stack is gone with its kernel
            if current.size > 1 or NEEDS_MEMORY[kind]:
                cost += OPS[kind].cost
                if cost > self.target.recompute:
                    return True
            if self.rows.ends_kernel(current):
                continue
            used = operands(current)
            if kind == VIEW:
                used = used[1:]  # the first one is read, not computed
            stack.extend(values_of(current) if NEEDS_MEMORY[kind] else used)
        return False


def _choose_domain(kernel: Kernel, views: list[Node], regions: bool, target: Target) -> None:
    """The domain of a kernel that reads some views; those that it cannot express are computed by index."""
    assert not kernel.row or kernel.width % kernel.row == 0 < kernel.width, "a kernel consists of whole rows"
    if not views and not kernel.row:
        return
    rows = target.rows
    extents: tuple[int, ...] = (kernel.width,)
    fits = [False] * len(views)
    if regions:
        assert not kernel.row, "a kernel with regions goes over rows"
    elif kernel.columns:
        whole = (kernel.width // (kernel.columns * kernel.row), kernel.columns, kernel.row)
        extents, fits = refine(kernel.width, [whole, *(view.payload[1] for view in views)], kernel.row)
        del fits[0]
        if extents[-2] != kernel.columns:  # some view tells the rows of a column apart
            extents, fits = whole, [False] * len(views)
    elif kernel.row or not all(is_short(view.payload[1], rows.flat) for view in views):
        extents, fits = refine(kernel.width, [view.payload[1] for view in views], kernel.row)
    else:
        fits = [True] * len(views)
    for view, fit in zip(views, fits, strict=True):
        if not fit:
            lower(view)
    if not kernel.row and extents[-1] <= rows.indexed:
        extents = (kernel.width,)
    domain = Domain(extents, kernel.columns > 0)
    if domain.is_flat:  # rows of one element each, or of a few
        kept = 0
        for view, fit in zip(views, fits, strict=True):
            if fit and kept < rows.views and is_short(view.payload[1], rows.flat):
                kept += 1
            elif fit:
                lower(view)
    if kernel.part:
        cut_along = kernel.columns or kernel.row
        kernel.domain = domain._replace(parts=-(-cut_along // kernel.part), part=kernel.part)
    else:
        kernel.domain = domain if kernel.row else target.cut(domain)


def _id(node: Node) -> int:
    return node.id


def _first_id(pair: tuple[Node, int]) -> int:
    return pair[0].id
