"""String representations.

Floating-point numbers are shown with six significant digits. Nested arrays are transposed: a line shows what belongs to
one thread of the program. Dimensions above :data:`LIMIT` entries show the first and the last three.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from drjit_core import broadcast_size, evaluate

from .._base.array import LIMIT, ArrayBase
from .._base.errors import CORE_ERRORS
from .._base.links import links
from .._base.nodes import values_at

__all__ = ["LIMIT", "format_array", "format_element", "hypercomplex_text", "shown_positions"]

_EDGE = 3


def format_element(value: Any) -> str:
    if value.__class__ is float:
        return "nan" if value != value else f"{value:.6g}"
    return str(value)


def shown_positions(size: int, limit: int) -> list[int | None]:
    """Positions to show of a dimension; ``None`` stands for those that are skipped."""
    if size <= max(limit, 2 * _EDGE):
        return list(range(size))
    return [*range(_EDGE), None, *range(size - _EDGE, size)]


def format_array(array: ArrayBase, limit: int = LIMIT) -> str:
    """The text of ``repr(array)``; evaluates the array and reads the elements that are shown."""
    nodes, shape = array._nodes(), array._static_shape()
    if not array._dynamic:
        return _format((1, *shape), (0,), [values_at(node, [0]) for node in nodes], shape, limit, 1) if nodes else "[]"
    try:
        width = broadcast_size("repr", *nodes) if len(nodes) > 1 else nodes[0].size if nodes else 0
    except CORE_ERRORS:
        return "[ragged array]"
    if not width:
        return "[]"
    if any(node.scope for node in nodes):
        return f"[symbolic array of type {array._name}]"
    evaluate(nodes)
    positions = shown_positions(width, limit)
    return _format((width, *shape), (), [values_at(node, positions) for node in nodes], shape, limit)


def _format(sizes: tuple[int, ...], prefix: tuple[int, ...], values: list[dict[int, Any]], shape: tuple[int, ...],
            limit: int, hidden: int = 0) -> str:
    """One dimension of the transposed array: the dynamic one is outermost; ``prefix`` are the indices so far, and the
    values are those of each component that are shown.

    ``hidden`` is the number of dimensions without brackets of their own.
    """
    depth = len(prefix)
    if depth == len(sizes):
        position = 0
        for size, inner in zip(shape, prefix[1:], strict=True):
            position = position * size + inner
        return format_element(values[position][prefix[0]])
    entries, skipped = [], sizes[depth] - 2 * _EDGE
    for index in shown_positions(sizes[depth], limit):
        entries.append(f".. {skipped} skipped .." if index is None
                       else _format(sizes, (*prefix, index), values, shape, limit, hidden))
    innermost = depth == len(sizes) - 1
    return "[" + (", " if innermost else ",\n" + " " * (depth + 1 - hidden)).join(entries) + "]"


def hypercomplex_text(array: ArrayBase, units: Sequence[tuple[int, str]], limit: int) -> str:
    """``repr`` of numbers that are sums of units, such as ``1+2j``: one a line; terms that are zero are left out."""
    nodes = array._nodes()
    try:
        width = broadcast_size("repr", *nodes)
    except CORE_ERRORS:
        return "[ragged array]"
    if not width:
        return "[]"
    if any(node.scope for node in nodes):
        return f"[symbolic array of type {array._name}]"
    evaluate(nodes)
    positions = shown_positions(width, limit) if array._dynamic else [0]
    values = [values_at(node, positions) for node in nodes]

    def entry(index: int) -> str:
        text = ""
        for position, unit in units:
            value = values[position][index]
            if value == 0:
                continue
            term = format_element(value) + unit
            text += term if not text or term.startswith("-") else "+" + term
        return text or "0"

    if not array._dynamic:
        return entry(0)
    entries = [f".. {width - len(positions) + 1} skipped .." if index is None else entry(index) for index in positions]
    return "[" + ",\n ".join(entries) + "]"


links.format_array = format_array
