"""What statements have captured, in the order of the elements."""

from __future__ import annotations

import struct

from ..control.capture import Capture
from ..ir.build import literal
from ..ir.node import Node
from ..ops.table import LITERAL
from ..types import TYPES
from .host import import_copy, read_bytes, read_element

__all__ = ["captured"]


def captured(capture: Capture) -> tuple[int, list[int], list[Node]]:
    """How many elements came by; the positions of those that were captured, ascending; and the nodes' values there.

    To be called when the capture's memory is there.  What one element has captured several times stays in that order.
    """
    count: int = read_element(capture.count, 0)
    size = min(count, capture.limit)
    if not size:
        return 0, [], []
    info = TYPES[capture.elements.type]
    elements = struct.unpack(f"={size}{info.code}", read_bytes(capture.elements, 0, size))
    order = sorted(range(size), key=elements.__getitem__)
    values = []
    for node in capture.values:
        if node.kind == LITERAL:
            values.append(literal(node.type, node.payload, size))
        else:
            data, step = read_bytes(node, 0, size), TYPES[node.type].size
            values.append(import_copy(node.type, b"".join(data[k * step:(k + 1) * step] for k in order), node.where))
    return count, [elements[k] for k in order], values
