"""Indirect access to arrays of the scalar backend, which happens at once, with indices checked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from drjit_core import Node, ReduceOp, literal

from .._base.array import ArrayBase
from .._base.errors import BoundsError, SizeError, describe
from .._base.nodes import as_literal, number_of
from .._base.values import plain_scalar
from .._promotion.promote import coerce, wrap
from .._rules.combine import COMBINE

__all__ = ["gather_scalars", "scatter_scalars"]


def _indices(index: Any, active: Any, function: str) -> tuple[list[int], list[bool], bool]:
    """Positions, whether each is to be accessed, and whether there is a single one."""
    positions, single = _numbers(index, "index", "iuf", function)
    mask, _ = _numbers(active, "active", "b", function)
    count = max(len(positions), len(mask)) if positions and mask else 0
    if len(positions) not in (1, count) or len(mask) not in (1, count):
        raise SizeError(f"{function}(): operands have incompatible sizes! (sizes: {len(positions)}, {len(mask)})")
    if len(positions) < count:
        positions *= count
    return [int(k) for k in positions], [bool(m) for m in (mask if len(mask) == count else mask * count)], single


def _numbers(value: Any, name: str, kinds: str, function: str) -> tuple[list[Any], bool]:
    number = plain_scalar(value)
    if number is not None:
        return [number], True
    if isinstance(value, ArrayBase) and not value._dynamic and value._depth == 1 and value._kind in kinds:
        return [number_of(node) for node in value._nodes()], False
    if isinstance(value, (list, tuple, range)) and all(plain_scalar(entry) is not None for entry in value):
        return list(value), False
    raise TypeError(f"{function}(): '{name}' has an unsupported type ({describe(value)}); it must be an integer array "
                    "of the scalar backend, a sequence of numbers or a number.")


def _node_at(nodes: Sequence[Node], position: int, function: str) -> Node:
    if not 0 <= position < len(nodes):
        raise BoundsError(f"{function}(): index {position} is out of bounds (the array has {len(nodes)} entries).")
    return nodes[position]


def gather_scalars(dtype: Any, source: ArrayBase, index: Any, active: Any, function: str) -> Any:
    """``dr.gather`` from a one-dimensional scalar array, with indices checked."""
    if source._depth != 1 or source._special:
        raise TypeError(f"{function}(): the source of type {source._name} must be a one-dimensional array.")
    positions, mask, single = _indices(index, active, function)
    nodes, zero = source._nodes(), literal(source._type, 0)
    found = {"b": bool, "i": int, "u": int, "f": float}[source._kind]
    if dtype is found and single:
        return number_of(_node_at(nodes, positions[0], function)) if mask[0] else found(0)
    if isinstance(dtype, type) and issubclass(dtype, ArrayBase) and dtype._leaf is source._leaf:
        if dtype._count < 0 and dtype._depth == 1:
            return wrap(dtype, [_node_at(nodes, k, function) if m else zero
                                for k, m in zip(positions, mask, strict=True)])
        if dtype._count >= 0 and single:
            start, count = positions[0] * dtype._count, dtype._count
            return wrap(dtype, [_node_at(nodes, start + k, function) if mask[0] else zero for k in range(count)])
    raise TypeError(f"{function}(): unsupported 'dtype' {describe(dtype)} for a source of type {source._name}.")


def scatter_scalars(op: ReduceOp, target: ArrayBase, value: Any, index: Any, active: Any, function: str) -> list[Node]:
    """The components of a one-dimensional scalar array after a ``dr.scatter`` or ``dr.scatter_reduce``."""
    if target._depth != 1 or target._special:
        raise TypeError(f"{function}(): the target of type {target._name} must be a one-dimensional array.")
    positions, mask, single = _indices(index, active, function)
    nodes = list(target._nodes())
    if isinstance(value, ArrayBase):
        if value._type != target._type or value._dynamic:
            raise TypeError(f"{function}(): 'value' of type {value._name} is not supported for a target of type "
                            f"{target._name}; convert it first.")
        values = list(value._nodes())
        if single and len(values) > 1:
            positions = [positions[0] * len(values) + k for k in range(len(values))]
            mask *= len(values)
    else:
        entries = value if isinstance(value, (list, tuple, range)) else [value]
        values = [coerce(target._leaf, entry, function)[0] for entry in entries]
    if len(values) == 1:
        values *= len(positions)
    if len(positions) == 1:
        positions, mask = positions * len(values), mask * len(values)
    if len(values) != len(positions):
        raise SizeError(f"{function}(): operands have incompatible sizes! (sizes: {len(values)}, {len(positions)})")
    for node, position, enabled in zip(values, positions, mask, strict=True):
        if enabled:
            old = _node_at(nodes, position, function)
            nodes[position] = node if op is ReduceOp.Identity else as_literal(COMBINE[op](old, node))
    return nodes
