"""Reads by index that need no preparation: the most frequent ones."""

from __future__ import annotations

from typing import Any

from drjit_core import KIND, gather

from .._base.handle import held
from .._base.methods import FlatSlots
from .._base.types import BOOL, UINT32
from .._promotion.componentwise import flat_array
from .lanes import TRUE, by_each_lane, with_lanes

__all__ = ["read"]

_LITERAL, _UINT32, _BOOL = KIND["literal"], UINT32, BOOL


def read(dtype: Any, source: Any, index: Any, active: Any) -> Any:
    """``source[index]`` of a flat array of the type ``dtype`` at positions that are unsigned integers of 32 bits,
    where ``active`` is set, ``True`` or one mask for each of them; else ``None``, as for those of another backend."""
    if type(source) is not dtype or not isinstance(source, FlatSlots) or not isinstance(index, FlatSlots) or \
            index._where != dtype._where:  # type: ignore[attr-defined]
        return None
    nodes, positions = held(source), held(index)
    if nodes.size < 2 or not positions.size or positions.kind <= _LITERAL or positions.type != _UINT32 \
            or nodes.size > 4294967296:
        return None
    mask = TRUE
    if active is not True:
        if not isinstance(active, FlatSlots) or active._where != dtype._where:  # type: ignore[attr-defined]
            return None
        mask = held(active)
        if mask.type != _BOOL or mask.size != positions.size:
            return None
    mask = with_lanes(mask, positions.size) if positions.size > 1 else by_each_lane(mask, nodes)
    return flat_array(dtype, gather(nodes, positions, mask))
