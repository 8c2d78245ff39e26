"""What each kind of node means, and the order of execution.

The value of a node is an array of the node's size or, if all its elements are equal, perhaps of size 1.  Memory is such
an array as well: a write makes a new one, so that a version stays what it was for as long as somebody reads it.

A region runs for all elements at once, under a mask.  Elements that are done keep their values; writes inside happen
for those elements that take part, in the order of the nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ..codegen.expand import stand_in
from ..flags import DEBUG, state
from ..ir.expansion import UPDATES, actuals_of, expanding, is_expanded, traced_by, updates_of
from ..ir.node import BAKED, Node
from ..ir.region import Choice, Control, Loop, Region, all_operands, is_local, memory_of, operands, width_of_write
from ..ops.products import OUTER, PRODUCT
from ..ops.steps import Step
from ..ops.table import (
    ACCESS,
    BITCAST,
    BOUND,
    CALL,
    CAST,
    COND,
    COUNTER,
    EVALUATED,
    FETCH,
    FIRST_ELEMENTWISE,
    FIRST_EXPANDED,
    GATHER,
    INVALID,
    LITERAL,
    LOCAL,
    LOOP,
    MEMORY_OPERANDS,
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
from . import elementwise, memory
from .elementwise import Array, dtype_of, filled
from .steps import MEANINGS as STEPS

__all__ = ["MEANINGS", "Interpreter"]


class Interpreter:
    """Runs graphs as they were traced.  It evaluates nothing and leaves the graph as it is.

    ``read`` returns bytes of a buffer, given where they begin and how many.  In debug mode, accesses that are out of
    bounds are left out, as kernels do it; elsewhere they raise an ``IndexError``, since what they do is not defined.
    """

    def __init__(self, read: Callable[[Any, int, int], bytes]) -> None:
        self.read = read
        self.checked = False
        #: Values by node id.
        self.values: dict[int, Any] = {}
        self._expansions: dict[int, tuple[list[Node], list[Node], Node]] = {}
        self._updates: dict[int, tuple[dict[int, Node], list[Node], list[tuple[Node, Node, Node]]]] = {}

    def run(self, roots: Iterable[Node]) -> list[Array]:
        """The values of some nodes, each an array of the node's size.

        Takes time and memory in proportion to what they are computed from; chains may be of any length.
        """
        roots = list(roots)
        self.checked = state.flags & DEBUG != 0
        self.values, self._expansions, self._updates = {}, {}, {}
        try:
            order = _post_order(roots)
            uses: dict[int, int] = {}
            for node in (*roots, *(operand for user in order for operand in _used(user))):
                uses[node.id] = uses.get(node.id, 0) + 1
            for node in order:
                self.execute(node)
                for operand in _used(node):
                    uses[operand.id] -= 1
                    if not uses[operand.id]:
                        del self.values[operand.id]
            return [np.array(np.broadcast_to(self.values[root.id], root.size)) for root in roots]
        finally:
            self.values, self._expansions, self._updates = {}, {}, {}

    def execute(self, node: Node) -> None:
        """Compute a node whose operands have values."""
        rule = Interpreter._expanded if is_expanded(node) else \
            Interpreter._pack if node.kind in UPDATES else MEANINGS.get(node.kind)
        if rule is None:
            raise NotImplementedError(f"the interpreter knows no {OPS[node.kind].word}")
        self.values[node.id] = rule(self, node)

    def __getitem__(self, node: Node | None) -> Any:
        """The value of an operand."""
        assert node is not None
        return self.values[node.id]

    # --- leaves ------------------------------------------------------------------------------------------------------

    def _invalid(self, node: Node) -> Array:
        return np.empty(0, dtype_of(node.type))

    def _literal(self, node: Node) -> Array:
        return filled(node.type, node.payload)

    def _undefined(self, node: Node) -> Array:
        return filled(node.type, 0, node.size)

    def _local(self, node: Node) -> Array:
        return np.zeros((node.size, 1), dtype_of(node.type))  # entries of each element, as many as turn out to write

    def _counter(self, node: Node) -> Array:
        return np.arange(node.size, dtype=dtype_of(node.type))

    def _evaluated(self, node: Node) -> Array:
        dtype = dtype_of(node.type)
        return np.array(np.frombuffer(self.read(node.payload, 0, node.size * dtype.itemsize), dtype))

    # --- elementwise -------------------------------------------------------------------------------------------------

    def _row(self, node: Node) -> Array:
        return elementwise.apply(OPS[node.kind], node.type,
                                 *(self[operand] for operand in (node.d0, node.d1, node.d2) if operand is not None))

    def _expanded(self, node: Node) -> Array:
        """A row that has a meaning as an expansion only: of stand-ins, as in a kernel, where no value is known."""
        memory, arguments = actuals_of(node)
        known = self._expansions.get(node.id)
        if known is None:
            inputs = [_stand_in(operand) for operand in arguments]
            with expanding("both"):
                result = traced_by(node)(*memory, *inputs)
            order = _post_order([result], {value.id for value in (*memory, *inputs)})
            known = self._expansions[node.id] = inputs, order, result
        inputs, order, result = known
        for value, found in zip(inputs, self.operands(node)[len(memory):], strict=False):
            self.values[value.id] = found
        for inner in order:
            self.execute(inner)
        return self[result]  # type: ignore[no-any-return]

    def _cast(self, node: Node) -> Array:
        return elementwise.cast(self[node.d0], node.type)

    def _bitcast(self, node: Node) -> Array:
        return elementwise.bitcast(self[node.d0], node.type)

    # --- memory ------------------------------------------------------------------------------------------------------

    def _memory(self, node: Node | None) -> Array:
        """An array with an element for each index."""
        assert node is not None
        return self[node] if is_local(node) else np.broadcast_to(self[node], node.size)

    def _opaque(self, node: Node) -> Array:
        return self._memory(node.d0)

    def _gather(self, node: Node) -> Array:
        mask = self[node.d2]
        if node.d3 is not None:
            active = self[node.d3]
            mask = mask & (active if node.size > 1 else active.any())
        if node.d0 is not None and is_local(node.d0):
            return memory.gather_local(self[node.d0], self[node.d1], mask)
        return memory.gather(self._memory(node.d0), self[node.d1], mask, self.checked)

    def _access(self, node: Node) -> Array:
        first, stride = node.payload
        found: Array = self._memory(node.d0)[first + stride * np.arange(node.size)]
        return found

    def _view(self, node: Node) -> Array:
        base, extents, strides = node.payload
        positions = np.full((1,) * len(extents), base)
        for axis, (extent, stride) in enumerate(zip(extents, strides, strict=True)):
            shape = [1] * len(extents)
            shape[axis] = extent
            positions = positions + np.reshape(np.arange(extent) * stride, shape)
        found: Array = self._memory(node.d0)[positions.reshape(-1)]
        return found

    def _segment(self, node: Node) -> Array:
        extent, inner, part = node.payload
        values = np.reshape(self._memory(node.d0), (-1, extent, inner))
        return np.stack([memory.reduce_axis(values[:, first:first + part], node.attr, 1, node.type)
                         for first in range(0, extent, part)], 1).reshape(-1)

    def _scatter(self, node: Node) -> Array:
        assert node.d1 is not None and node.d2 is not None and node.d3 is not None
        if node.d1.kind == OUTER:
            return self._add_products(node)
        if node.d1.kind in UPDATES:
            return self._add_updates(node)
        width = max(node.d1.size, node.d2.size, node.d3.size)
        index = np.broadcast_to(self[node.d2], width)  # equal elements are written as often as they occur
        value, expected = self._values(node.d1)
        if is_local(node):
            return memory.scatter_local(self[node.d0], value, index)
        return memory.scatter(self._memory(node.d0), value, index, self[node.d3], node.attr, self.checked, expected)

    def _values(self, value: Node) -> tuple[Array, Array | None]:
        """What is written, and what a compare-and-exchange expects to find."""
        if value.kind == PACK:
            written, expected = self[value]
            return written, expected
        return self[value], None

    def _fetch(self, node: Node) -> Array:
        scatter = node.d0
        assert scatter is not None and scatter.d0 is not None
        assert scatter.d1 is not None
        written, expected = self._values(scatter.d1)
        value, index, mask = (np.broadcast_to(operand, node.size)
                              for operand in (written, self[scatter.d2], self[scatter.d3]))
        return memory.fetch(self._memory(scatter.d0), value, index, mask, scatter.attr, self.checked, expected)

    def _pack(self, node: Node) -> list[Array]:
        """The values of all its operands."""
        return self.operands(node)

    def operands(self, node: Node) -> list[Any]:
        """The values of the operands of a node, those behind packs in their places; memory is as large as it is."""
        found: list[Any] = []
        for place, operand in enumerate((node.d0, node.d1, node.d2, node.d3)):
            if operand is not None and operand.kind == PACK:
                found += self[operand]
            elif operand is not None:
                found.append(self._memory(operand) if place < MEMORY_OPERANDS[node.kind] else self[operand])
        return found

    def _reduce(self, node: Node) -> Array:
        assert node.d0 is not None
        if node.d0.kind == OUTER:
            return np.asarray(self[node.d0].sum(-1), dtype_of(node.type))
        return memory.reduce(self[node.d0], node.attr, node.d0.size, node.type)

    def _step(self, node: Node) -> Array:
        step: Step = node.payload
        arrays = [self._memory(operand) for operand in memory_of(node)]
        found: Array = STEPS[step.name](step, *arrays)[node.attr]
        assert found.dtype == dtype_of(node.type) and found.size == node.size
        return found

    # --- regions -----------------------------------------------------------------------------------------------------

    def _enter(self, region: Region, current: Sequence[Array], part: int, active: Array) -> None:
        """Run a part of a region, for the elements that are active."""
        for formal, value in zip(region.formals, current, strict=True):
            self.values[formal.id] = value
        self.values[region.masks[part].id] = active
        for inner in region.parts[part]:
            self.execute(inner)

    def _initial(self, control: Control) -> list[Array]:
        """What the formals stand for at first."""
        return [self._memory(value) if formal.payload else self[value]
                for formal, value in zip(control.regions[0].formals, control.initial, strict=True)]

    def _active(self, node: Node, enclosing: Node | None) -> Array:
        """The mask of the elements that take part; those of a construct of size 1 do the same, if there are any."""
        active: Array = np.ones(1, bool) if enclosing is None else self[enclosing]
        return np.array([active.any()]) if node.size == 1 else active

    def _loop(self, node: Node) -> list[Array]:
        """Run a loop; its value is the list of its formals' last values."""
        loop: Loop = node.payload
        region, current = loop.region, self._initial(loop)
        entering = self._active(node, node.d0)
        while True:
            self._enter(region, current, 0, entering)
            live = entering & self[loop.condition]
            if not live.any():
                return current
            self._enter(region, current, 1, live)
            current = [self._memory(final) if formal.payload else np.where(live, self[final], value)
                       for formal, final, value in zip(region.formals, loop.finals, current, strict=True)]
            entering = live

    def _cond(self, node: Node) -> list[Array]:
        """Run both sides of a branch, as far as there are elements for them."""
        active, mask = self._active(node, node.d1), self[node.d0]
        return self._choose(node.payload, [active & mask, active & ~mask])

    def _call(self, node: Node) -> list[Array]:
        """Run the targets of a call in their order."""
        active, index = self._active(node, node.d2) & self[node.d1], self[node.d0]
        return self._choose(node.payload, [active & (index == target) for target in range(len(node.payload.regions))])

    def _choose(self, choice: Choice, masks: Sequence[Array]) -> list[Array]:
        """Run regions for the elements that take them: values, zero for all others, and then what is memory."""
        current = self._initial(choice)
        values = [filled(node.type, 0) for node in choice.regions[0].results[0][:choice.count]]
        for region, active in zip(choice.regions, masks, strict=True):
            if not active.any():
                continue
            self._enter(region, current, 0, active)
            (results,) = region.results
            values = [np.where(active, self[result], value) for result, value in zip(results, values)]
            for position, version in zip(choice.memory_of, results[choice.count:], strict=True):
                current[position] = self._memory(version)
        return [*values, *(current[position] for position in choice.memory_of)]

    def _product(self, node: Node) -> Array:
        matrix, *values = self.operands(node)
        offset, down, right = node.payload
        dtype, total = values[0].dtype, np.zeros((), values[0].dtype)
        for column, value in enumerate(values):  # one rounding for each, as far as double precision goes
            weight = np.float64(matrix[offset + node.attr * down + column * right])
            total = (weight * value.astype(np.float64) + total).astype(dtype)
        return total

    def _outer(self, node: Node) -> Array:
        """A row for each product, in double precision."""
        mask, *values = [np.broadcast_to(value, (node.size,)) for value in self.operands(node)]
        vectors = np.where(mask, np.array(values, np.float64), 0)
        return (vectors[:node.attr, None] * vectors[None, node.attr:]).reshape(-1, node.size)

    def _add_products(self, node: Node) -> Array:
        """Memory to which sums of products are added."""
        products, width = node.d1, width_of_write(node)
        assert products is not None
        down, across = products.payload
        found, mask = np.array(self._memory(node.d0)), np.broadcast_to(self[node.d3], (width,))
        sums = np.where(mask, self[products], 0).sum(-1).reshape(products.attr, -1)
        rows, columns = np.indices(sums.shape)
        np.add.at(found, int(self[node.d2][0]) + rows * down + columns * across, sums.astype(found.dtype))
        return found

    def _add_updates(self, node: Node) -> Array:
        """Memory after all updates that a write is."""
        assert node.d1 is not None and node.d3 is not None
        known = self._updates.get(node.id)
        if known is None:
            inputs: dict[int, Node] = {}
            with expanding("both"):
                updates = updates_of(node, lambda operand: inputs.setdefault(operand.id, _stand_in(operand)))
            order = _post_order([each for update in updates for each in update], {each.id for each in inputs.values()})
            known = self._updates[node.id] = inputs, order, updates
        inputs, order, updates = known
        for operand, value in zip((node.d3, *all_operands(node.d1)[1:]), (self[node.d3], *self[node.d1][1:]),
                                  strict=True):
            self.values[inputs[operand.id].id] = value
        for inner in order:
            self.execute(inner)
        found = self._memory(node.d0)
        for update in updates:
            value, index, mask = [np.broadcast_to(self[each], (width_of_write(node),)) for each in update]
            found = memory.scatter(found, value, index, mask, node.attr, self.checked)
        return found

    def _result(self, node: Node) -> Array:
        return self[node.d0][node.attr]  # type: ignore[no-any-return]


def _stand_in(operand: Node) -> Node:
    """What an expansion sees of an operand."""
    return operand if operand.kind == LITERAL and operand.attr == BAKED else stand_in(operand.type, operand.size)


#: What the kinds of nodes mean, but for rows that have an expansion.  Formals get their values from the region.
MEANINGS: dict[int, Callable[[Interpreter, Node], Any]] = {
    INVALID: Interpreter._invalid, LITERAL: Interpreter._literal, BOUND: Interpreter._literal,
    UNDEFINED: Interpreter._undefined, LOCAL: Interpreter._local,
    EVALUATED: Interpreter._evaluated, COUNTER: Interpreter._counter,
    GATHER: Interpreter._gather, ACCESS: Interpreter._access, VIEW: Interpreter._view,
    SEGMENT: Interpreter._segment, SCATTER: Interpreter._scatter, FETCH: Interpreter._fetch, STEP: Interpreter._step,
    PACK: Interpreter._pack,
    REDUCE: Interpreter._reduce, OPAQUE: Interpreter._opaque, CAST: Interpreter._cast, BITCAST: Interpreter._bitcast,
    LOOP: Interpreter._loop, COND: Interpreter._cond, CALL: Interpreter._call, RESULT: Interpreter._result,
    PRODUCT: Interpreter._product, OUTER: Interpreter._outer,
    **dict.fromkeys(range(FIRST_ELEMENTWISE, FIRST_EXPANDED), Interpreter._row),
}


def _used(node: Node) -> list[Node]:
    """What a node needs: of an evaluated one, its buffer is all."""
    return operands(node) if node.kind > PHI else []


def _post_order(roots: Iterable[Node], known: Iterable[int] = ()) -> list[Node]:
    """The nodes that the roots need, operands first; those in ``known`` have values."""
    order: list[Node] = []
    seen = set(known)
    for root in roots:
        stack: list[tuple[Node, bool]] = [(root, False)]
        while stack:
            node, ready = stack.pop()
            if ready:
                order.append(node)
            elif node.id not in seen:
                seen.add(node.id)
                stack.append((node, True))
                stack += [(operand, False) for operand in _used(node)]
    return order
