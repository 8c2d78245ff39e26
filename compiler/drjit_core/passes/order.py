"""The order of the nodes of a kernel: what planning and assembling do with each of thousands of nodes.

All else that they do is seldom, or by kernel; see :mod:`.schedule` and :mod:`..codegen.program`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ..ir.node import Node
from ..ir.region import CONTROL, arguments_of, memory_of, operands
from ..ops.table import (
    EVALUATED,
    FIRST_ELEMENTWISE,
    FIRST_REGISTERED,
    IS_BARRIER,
    MEMORY_OPERANDS,
    NEEDS_MEMORY,
    OPAQUE,
    OPS,
    PACK,
    REDUCE,
    RESULT,
    SCATTER,
    SEGMENT,
    STEP,
    UNDEFINED,
    VIEW,
)
from ..types import TYPE_BITS

__all__ = ["append_all", "inner_reductions", "post_order"]


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
            number = node.id
            if number in seen:
                continue
            seen.add(number)
            kind = node.kind
            if kind <= UNDEFINED or kind == EVALUATED:
                continue
            stack.append(node)
            stack.append(None)
            if kind < FIRST_ELEMENTWISE and kind in CONTROL:
                stack.extend(operands(node))
                continue
            operand = node.d3
            if operand is not None and operand.kind > UNDEFINED and operand.kind != EVALUATED:
                stack.append(operand)
            operand = node.d2
            if operand is not None and operand.kind > UNDEFINED and operand.kind != EVALUATED:
                stack.append(operand)
            operand = node.d1
            if operand is not None and operand.kind > UNDEFINED and operand.kind != EVALUATED:
                stack.append(operand)
            operand = node.d0
            if operand is not None and operand.kind > UNDEFINED and operand.kind != EVALUATED:
                stack.append(operand)
    return order


#: Kinds that need the whole procedure wherever they occur.
_STRUCTURED = frozenset((OPAQUE, RESULT, SEGMENT, STEP, VIEW, *CONTROL,
                         *(row.kind for row in OPS if row.effect == "write")))


def inner_reductions(order: list[Node], roots: list[Node]) -> int:
    """How many reductions are none of the roots, where no node needs the result of a barrier; -1 if one does, or needs
    the whole procedure of planning."""
    is_barrier = IS_BARRIER
    reductions = 0
    for node in order:
        kind = node.kind
        if kind >= FIRST_ELEMENTWISE:
            operand = node.d0
            if operand is None:
                continue
            if is_barrier[operand.kind]:
                return -1
            operand = node.d1
            if operand is None:
                continue
            if is_barrier[operand.kind]:
                return -1
            operand = node.d2
            if operand is not None and is_barrier[operand.kind]:
                return -1
        elif kind == REDUCE:
            reductions += 1
            if is_barrier[node.d0.kind]:  # type: ignore[union-attr]
                return -1
        elif kind in _STRUCTURED:
            return -1
        else:  # counter, gather, cast, bitcast, what is registered, and its packs
            for operand in (node.d0, node.d1, node.d2, node.d3):
                if operand is not None and is_barrier[operand.kind]:
                    return -1
            if NEEDS_MEMORY[kind]:
                for memory in memory_of(node):
                    if memory.kind != EVALUATED:
                        return -1
    for node in roots:
        if node.kind == REDUCE:
            reductions -= 1
    return reductions


def append_all(order: list[Node], position: dict[int, int], appended: list[Node], key: list[int],
               append: Callable[[Node], None]) -> None:
    """Append nodes that are in order to those of a program, each after the leaves that it uses.

    ``position``, ``appended`` and ``key`` are the program's; ``append`` is what it does with leaves, and with all
    nodes but elementwise ones.
    """
    for node in order:
        kind = node.kind
        if kind >= FIRST_ELEMENTWISE:
            d0: Any = node.d0
            first = position.get(d0.id)
            if first is None:
                append(d0)
                first = position[d0.id]
            d1: Any = node.d1
            if d1 is None:
                key += (kind << TYPE_BITS | node.type, first)
            else:
                second = position.get(d1.id)
                if second is None:
                    append(d1)
                    second = position[d1.id]
                d2: Any = node.d2
                if d2 is None:
                    key += (kind << TYPE_BITS | node.type, first, second)
                else:
                    third = position.get(d2.id)
                    if third is None:
                        append(d2)
                        third = position[d2.id]
                    key += (kind << TYPE_BITS | node.type, first, second, third)
            position[node.id] = len(appended)
            appended.append(node)
        elif kind != REDUCE and kind != SCATTER and kind != PACK and kind != OPAQUE and node.id not in position:
            # the first two come with the outputs, and the users of a pack and of a copy see through it
            if MEMORY_OPERANDS[kind] or kind >= FIRST_REGISTERED:
                used: Iterable[Node | None] = arguments_of(node)
            elif kind in CONTROL:
                used = (node.d0, node.d1, node.d2, *node.payload.values())
            elif kind == VIEW and node.d0.kind == EVALUATED:  # type: ignore[union-attr]
                used = ()
            else:
                used = (node.d0,)
            for operand in used:
                if operand is not None and operand.id not in position:
                    append(operand)
            append(node)
