"""The IR verifier: checks the invariants of a graph, regions included.

It costs as much as tracing and is off by default; the environment variable ``DRJIT_VERIFY=1`` runs it on everything
that is evaluated, and the tests call it directly.  A failure is a defect of this project, never of the user's program.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Iterable

from ..ops.op import MANY
from ..ops.products import OUTER
from ..ops.reductions import COMPARE_EXCHANGE, EXCHANGES
from ..ops.table import (
    ACCESS,
    COND,
    COUNTER,
    DUAL,
    EVALUATED,
    FETCH,
    INDEX,
    INVALID,
    IS_WRITE,
    LITERAL,
    LOCAL,
    MASK,
    MEMORY,
    OPS,
    PACK,
    PHI,
    REDUCE,
    RESULT,
    SCATTER,
    SEGMENT,
    STEP,
    VALUE,
    VIEW,
    Op,
)
from ..types import BOOL, TYPES, UINT32, UINT64, ReduceOp
from .expansion import UPDATES
from .node import BAKED, PARAMETER, SHAPE, Node
from .region import (
    CONTROL,
    Choice,
    Cond,
    Control,
    Loop,
    Region,
    all_operands,
    is_version,
    memory_of,
    operands,
    origin_of,
    width_of_write,
)

__all__ = ["CHECKS", "Check", "VerificationError", "require", "verify"]


class VerificationError(AssertionError):
    """An invariant of the graph does not hold."""


def verify(roots: Iterable[Node], expanded: bool = False) -> int:
    """Check everything that the roots need; returns the number of nodes seen.

    ``expanded``: whether they may be parts of expansions as backends get them, which have branches that few elements
    take.
    """
    seen: set[int] = set()
    stack: list[Node] = list(roots)
    for root in stack:
        require(not root.scope, root, f"depends on region {root.scope}")
    while stack:
        node = stack.pop()
        if node.id in seen:
            continue
        seen.add(node.id)
        _check(node)
        used = list(operands(node))
        places = functools.reduce(operator.or_, [operand.where for operand in used], 0)
        require(not places & ~node.where, node, f"belongs to the backends {node.where:b}, its operands to {places:b}")
        stack += used
        if node.kind in CONTROL:
            require(expanded or not (isinstance(node.payload, Cond) and node.payload.rare), node,
                     "is no part of a graph, but of an expansion")
            _check_control(node, node.payload)
            for region in node.payload.regions:
                stack += (*region.formals, *region.masks, *region.nodes)
        elif node.kind != PHI and node.kind != PACK:
            used = all_operands(node)
            depth = max((operand.scope for operand in used), default=0)
            require(node.scope == depth, node, f"belongs to region {node.scope}, its operands to {depth}")
    return len(seen)


def require(condition: bool, node: Node, what: str) -> None:
    """Raise what is wrong with a node, unless a condition holds."""
    if not condition:
        raise VerificationError(f"{node!r}: {what}")


def _check(node: Node) -> None:
    """Check one node: what its row says of operands, type and size, and what its kind means beyond that."""
    kind, row = node.kind, OPS[node.kind]
    values = all_operands(node)
    require(TYPES[node.type] is not None, node, "unknown type")
    require(kind != DUAL, node, "is a value with a derivative, which nothing behind tracing knows")
    require((node.size == 0) == (kind == INVALID), node, "size 0 is for invalid nodes, and they have no other")
    if kind == PACK:
        _check_pack(node)
        return
    packs = [operand for operand in (node.d0, node.d1, node.d2, node.d3) if operand is not None and
             operand.kind == PACK]
    require(all(pack.scope == node.scope and pack.size in (node.size, width_of_write(node) if IS_WRITE[kind] else 0)
                for pack in packs), node, "has a pack that is somebody else's")
    if not row.speculable and kind != FETCH and len(values) == row.arity + 1 and not IS_WRITE[kind]:
        require(values.pop().type == BOOL, node, "the mask of its region is no mask")
    if kind == STEP:  # its types and sizes are its own affair
        require(1 <= len(values) <= row.arity, node, f"has {len(values)} operands, which are 1 to {row.arity}")
        require(node.scope == 0, node, "is part of a region")
        require(all(operand.kind not in (INVALID, LITERAL) for operand in values), node, "an operand has no memory")
        return
    roles = row.roles
    if kind == SCATTER and packs:
        require(node.attr == COMPARE_EXCHANGE and packs == [node.d1], node,
                "several values go with a compare-and-exchange")
        roles = MEMORY, VALUE, VALUE, INDEX, MASK
    if row.arity == MANY:
        roles = (*roles, *[roles[-1]] * (len(values) - len(roles)))
    require(len(values) == len(roles), node, f"has {len(values)} operands instead of {len(roles)}")
    _check_types(node, row, roles, values)
    _check_size(node, row, roles, values)
    check = CHECKS.get(kind)
    if check is not None:
        check(node, values)


def _check_pack(pack: Node) -> None:
    """Check what stands for several operands, which may be of any kind."""
    held = [operand for operand in (pack.d0, pack.d1, pack.d2) if operand is not None]
    require(len(held) > 1 and pack.d3 is None, pack, "holds other than two or three operands")
    require(all(operand.kind != PACK for operand in held[:-1]), pack, "goes on before its end")
    require(pack.payload == (pack.scope or None), pack, "is found as that of another region")
    require(pack.scope >= max(operand.scope for operand in held), pack,
            "belongs outside of a region that it depends on")


def _check_literal(node: Node, values: list[Node]) -> None:
    require(node.attr in (PARAMETER, BAKED, SHAPE), node, "unknown class of literal")


def _check_evaluated(node: Node, values: list[Node]) -> None:
    require(node.payload.nbytes >= node.size * TYPES[node.type].size, node, "its buffer is too small")


def _check_counter(node: Node, values: list[Node]) -> None:
    require(node.type in (UINT32, UINT64), node, "a counter is a 32 or 64-bit unsigned integer")


def _check_access(node: Node, values: list[Node]) -> None:
    first, stride = node.payload
    last = first + stride * (node.size - 1)
    require(stride in (1, -1), node, "its elements are no neighbours")
    require(0 <= min(first, last) <= max(first, last) < values[0].size, node, "leaves its array")


def _check_view(node: Node, values: list[Node]) -> None:
    base, extents, strides = node.payload
    reach = [(extent - 1) * stride for extent, stride in zip(extents, strides, strict=True)]
    require(math.prod(extents) == node.size and min(extents) > 1, node, "has other extents than elements")
    require(base + sum(step for step in reach if step < 0) >= 0 and
            base + sum(step for step in reach if step > 0) < values[0].size, node, "leaves its array")


def _check_segment(node: Node, values: list[Node]) -> None:
    _check_reduce(node, values)
    extent, inner, part = node.payload
    outer = values[0].size // (extent * inner)
    require(1 < part <= extent and values[0].size == outer * extent * inner
            and node.size == outer * -(-extent // part) * inner > 1, node, "its parts are not all of its operand")


def _check_scatter(node: Node, values: list[Node]) -> None:
    require(node.attr != COMPARE_EXCHANGE or len(values) > OPS[SCATTER].arity, node, "a compare-and-exchange expects "
            "nothing")
    require(node.attr not in EXCHANGES or node.scope != 0, node, "is in no region")
    if values[1].kind == OUTER:
        _check_added(node, *values)
    if values[1].kind in UPDATES:
        require(node.attr == ReduceOp.Add.value and node.scope == values[1].scope, node, "does not add updates")
        require(values[2].kind == LITERAL and not values[2].payload, node, "has an index, and so has each update")


def _check_added(node: Node, memory: Node, products: Node, index: Node, mask: Node) -> None:
    """Check a write of sums of products."""
    require(node.attr == ReduceOp.Add.value and node.scope == products.scope != 0, node, "adds no products in a region")
    require(index.kind == LITERAL and index.attr == BAKED, node, "does not know where it adds products")
    rows, columns = products.attr, len(all_operands(products)) - 1 - products.attr
    down, across = products.payload
    places = [index.payload + row * down + column * across for row in (0, rows - 1) for column in (0, columns - 1)]
    require(min(places) >= 0 and max(places) < memory.size, node, "adds products beyond its memory")


def _check_reduce(node: Node, values: list[Node]) -> None:
    require(node.attr != ReduceOp.Identity.value, node, "no reduction")
    if node.kind != REDUCE:
        return
    value, count = values[0], 1
    if value.kind == OUTER:
        require(node.attr == ReduceOp.Add.value, node, "does not add up products")
        count = value.attr * (len(all_operands(value)) - 1 - value.attr)
    require(node.size == count, node, f"has not {count} elements")


def _check_fetch(node: Node, values: list[Node]) -> None:
    scatter = values[0]
    require(IS_WRITE[scatter.kind] and scatter.attr != ReduceOp.Identity.value, node,
            "its operand is no scatter-reduction")
    require(scatter.scope != 0, node, "is in no region")
    require(node.size == width_of_write(scatter), node, "has not the width of its scatter-reduction")


def _check_result(node: Node, values: list[Node]) -> None:
    control = values[0].payload
    formal = control.origin(node.attr) if node.payload else control.regions[0].results[-1][node.attr]
    require(node.type == formal.type, node, "differs from what it is a result of")
    require(node.size == (formal.size if node.payload else values[0].size), node, "has another size")


#: What is to be checked of a node besides what its row says, given its operands but for the mask of its region.
Check = Callable[[Node, list[Node]], None]
#: By kinds.
CHECKS: dict[int, Check] = {
    LITERAL: _check_literal, EVALUATED: _check_evaluated, COUNTER: _check_counter, ACCESS: _check_access,
    VIEW: _check_view, SEGMENT: _check_segment, SCATTER: _check_scatter, REDUCE: _check_reduce, FETCH: _check_fetch,
    RESULT: _check_result}


def _check_types(node: Node, row: Op, roles: tuple[int, ...], values: list[Node]) -> None:
    """Check the operands by their roles, and the type of the result by that of the operands."""
    type_ = -1  # of the operands that are values or memory
    for operand, role in zip(values, roles, strict=True):
        info = TYPES[operand.type]
        if role in (VALUE, MEMORY):
            require(type_ in (-1, operand.type) or row.result == "own", node, "operands of different types")
            type_ = operand.type
            require(info.kind in row.accepts, node, f"is not defined for {info.name}")
        elif role == INDEX:
            require(info.kind in "iu" and info.bits >= 32, node, "the index is no 32 or 64-bit integer")
        elif role == MASK:
            require(operand.type == BOOL, node, "the mask is no mask")
        else:
            require(operand.kind in CONTROL, node, "its operand has no regions")
    if row.result == "same":
        require(node.type == type_, node, "has not the type of its operands")
    elif row.result == "mask":
        require(node.type == BOOL, node, "its result is a mask")
    elif row.result == "bits":
        require(TYPES[node.type].size == TYPES[type_].size, node, "differs from its operand in width")


def _check_size(node: Node, row: Op, roles: tuple[int, ...], values: list[Node]) -> None:
    """Check the number of elements by those of the operands."""
    if row.size == "own":
        return
    register = [operand for operand, role in zip(values, roles, strict=True) if role != MEMORY]
    width = max(operand.size for operand in register)
    require(all(operand.size in (1, width) for operand in register), node, "operands of different sizes")
    if row.size == "operands":
        require(node.size == width, node, "has not the size of its operands")
    else:
        require(node.size == values[0].size, node, "a version has the size of its target")


def _check_control(node: Node, control: Control) -> None:
    """Check the interface of a node with regions, and each region."""
    require(len(control.regions) > 0, node, "has no region")
    if isinstance(control, Loop):
        require([len(region.parts) for region in control.regions] == [2], node, "a loop has a region of two parts")
        require(control.condition.type == BOOL, node, "its condition is no mask")
    else:
        assert isinstance(control, Choice)
        require(node.kind != COND or len(control.regions) == 2, node, "a branch has two regions")
    for region in control.regions:
        require(len(region.parts) == len(region.results) == len(region.masks), node, "inconsistent numbers of parts")
        _check_formals(node, control, region)
        require(not region.writes or all(mask.size == node.size for mask in region.masks), node,
                 "writes, and not all of its elements take part")
        _check_region(region, node)
        if isinstance(control, Loop):
            _check_state(node, control)
        else:
            _check_results(node, control, region)


def _check_formals(node: Node, control: Control, region: Region) -> None:
    for mask in region.masks:
        require(mask.kind == PHI and mask.scope == region.id and mask.type == BOOL, mask, "is no mask of its region")
    require(len(control.initial) == len(region.formals), node, "inconsistent numbers of formals")
    for initial, formal, first in zip(control.initial, region.formals, control.regions[0].formals, strict=True):
        require(formal.kind == PHI and formal.scope == region.id, node, f"{formal!r} is no formal of its region")
        require(initial.type == formal.type, node, f"{formal!r} has another type than {initial!r}")
        require(formal.payload == first.payload, node, f"{formal!r} is memory in one region only")
        require(not formal.payload or initial.size == formal.size, node, f"memory {formal!r} changes its size")


def _check_state(node: Node, loop: Loop) -> None:
    """Check the state of a loop after an iteration."""
    region = loop.region
    require(len(loop.finals) == len(region.formals), node, "inconsistent numbers of variables")
    for before, phi, after in zip(loop.initial, region.formals, loop.finals, strict=True):
        require(phi.type == after.type, node, f"variable {phi!r} changes its type")
        if phi.payload:
            require(after is not phi, node, f"memory {phi!r} is not written to")
            _check_version(node, region, phi, after)
        else:
            require(max(before.size, after.size) <= node.size, node, f"variable {phi!r} is wider than the loop")
            require(not (after.scope == region.id and is_version(after)), node, f"value {phi!r} becomes memory")


def _check_results(node: Node, choice: Choice, region: Region) -> None:
    """Check the results of one of the regions of a branch or call."""
    results, first = region.results[0], choice.regions[0].results[0]
    require(len(results) == len(first) == choice.count + len(choice.memory_of), node, "inconsistent results")
    for position, (value, one) in enumerate(zip(results, first, strict=True)):
        require(value.type == one.type, node, f"{value!r} has another type than {one!r}")
        if position >= choice.count:
            _check_version(node, region, region.formals[choice.memory_of[position - choice.count]], value)
        else:
            require(value.size <= node.size, node, f"{value!r} is wider than the node")
            require(not (value.scope == region.id and is_version(value)), node, f"value {value!r} becomes memory")


def _check_version(node: Node, region: Region, formal: Node, version: Node) -> None:
    require(version.size == formal.size, node, f"memory {formal!r} changes its size")
    require(is_version(version) and version.scope == region.id and origin_of(version, region.id) is formal, node,
             f"{version!r} is no version of {formal!r}")


def _check_region(region: Region, node: Node) -> None:
    """Check that each node of a region comes after what it uses, and versions of memory one after the other."""
    outside = {value.id for value in (*region.captures, *region.sources)}
    for value in (*region.captures, *region.sources):
        require(value.scope < region.id and value.scope <= node.scope, value,
                 f"is used by region {region.id}, and belongs to region {value.scope}")
    defined = {phi.id for phi in (*region.formals, *region.masks)} | outside
    replaced: set[int] = set()
    for inner in region.nodes:
        require(inner.scope == region.id, inner, f"is listed by region {region.id} without depending on it")
        for operand in operands(inner):
            require(operand.id in defined, inner, f"uses {operand!r} before it is there")
        for version in _versions_read(inner):
            require(version.id not in replaced, inner, f"reads {version!r} after it was replaced")
        require(not IS_WRITE[inner.kind] or width_of_write(inner) <= node.size, inner,
                 "writes more elements than there are")
        require(is_version(inner) or inner.kind == LOCAL or inner.size <= node.size, inner, f"is wider than {node!r}")
        read = {version.id for version in _versions_read(inner)}
        for version in _versions_written(inner):
            require(version.id not in read, inner, f"reads {version!r}, and replaces it")
            require(version.scope == region.id and (is_version(version) or version.kind == LOCAL), inner,
                     f"writes to {version!r}, no memory of region {region.id}")
            require(version.id not in replaced, inner, f"replaces {version!r} a second time")
            replaced.add(version.id)
        defined.add(inner.id)
    for value in (value for results in region.results for value in results):
        require(value.id in defined, node, f"{value!r} is neither computed in the region nor captured")
    for part in region.parts[:-1]:
        for inner in part:
            require(not any(_versions_written(inner)), inner, "is an effect in a condition")


def _versions_read(node: Node) -> tuple[Node, ...]:
    if node.kind in CONTROL:
        return tuple(node.payload.sources())
    return tuple(memory_of(node)) if OPS[node.kind].needs_memory and not IS_WRITE[node.kind] else ()


def _versions_written(node: Node) -> tuple[Node, ...]:
    if node.kind in CONTROL:
        return tuple(node.payload.memory())
    return (node.d0,) if node.d0 is not None and IS_WRITE[node.kind] else ()
