"""Reads by index that need no preparation: the most frequent ones."""

from __future__ import annotations

from typing import Any

from drjit_core import KIND, gather

from .._base.handle import held
from .._base.operators import FlatSlots
from .._base.types import UINT32
from .._promotion.componentwise import flat_array
from .lanes import TRUE, with_lanes

__all__ = ["read"]

_LITERAL, _UINT32 = KIND["literal"], UINT32


def read(dtype: Any, source: Any, index: Any) -> Any:
    """``source[index]`` of a flat array of the type ``dtype`` at positions that are unsigned integers of 32 bits, else
    ``None``."""
    if type(source) is not dtype or not isinstance(source, FlatSlots) or not isinstance(index, FlatSlots):
        return None
    nodes, positions = held(source), held(index)
    if nodes.size < 2 or not positions.size or positions.kind <= _LITERAL or positions.type != _UINT32 \
            or nodes.size > 4294967296:
        return None
    return flat_array(dtype, gather(nodes, positions, with_lanes(TRUE, positions.size)))
