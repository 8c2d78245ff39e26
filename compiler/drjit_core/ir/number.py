"""Literals of Python numbers: what operators make of the other operand of ``x + 1``."""

from __future__ import annotations

from typing import Any

from ..types import IS_FLOAT, TYPES
from .build import known_literal, literal
from .node import Node

__all__ = ["number", "recent_literals"]

#: The range of Python numbers that become literals without further ado, by type; masks have none.
_LARGEST = 1.7976931348623157e308  # of a Python float: an int beyond cannot become one
_LOW: list[Any] = [1 if info is None or info.kind == "b" else -_LARGEST if info.kind == "f" else info.minimum
                   for info in TYPES]
_HIGH: list[Any] = [0 if info is None or info.kind == "b" else _LARGEST if info.kind == "f" else info.maximum
                    for info in TYPES]


def number(type_: int, value: Any) -> Node | None:
    """The literal of one element of a Python number.

    ``None`` for what is neither ``int`` nor ``float``, and for numbers that the type cannot hold.
    """
    kind = value.__class__
    if (kind is float and IS_FLOAT[type_]) or (kind is int and _LOW[type_] <= value <= _HIGH[type_]):
        return known_literal((type_, value)) or literal(type_, value)
    return None


def recent_literals() -> list[Node]:
    """The literals that this room holds on its own: none in this form."""
    return []
