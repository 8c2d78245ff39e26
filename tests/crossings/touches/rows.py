"""Rows of the table of touches, and what many of them need."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import drjit as dr

from ..model import Array, Operands, Typed

__all__ = ["ALL", "ARITHMETIC", "Act", "Model", "NUMBERS", "PLAIN", "TOUCHES", "Touch",
           "UNORDERED", "lane_wise", "mask", "same", "touch"]

Act = Callable[[Any, Operands], Any]
Model = Callable[[Array, Operands], Any]

ALL, PLAIN = "FNDCQMVTS", "FNDVTS"
ARITHMETIC = "iuf"


class Touch(NamedTuple):
    """A row: what is done, its model, the room by kind of array, and what it is meant for.

    ``rooms`` lists kinds and their rooms (``"F:gather VT:read"``); ``letters`` the kinds of scalar types. ``why`` says
    why the other kinds and scalar types have no cell; ``holds`` that something still reads the array when it is
    written; ``masked`` that lanes that take no part must read zeros.
    """

    name: str
    act: Act
    model: Model
    rooms: str
    letters: str = "biuf"
    why: str = ""
    holds: bool = False
    masked: bool = False

    def room(self, kind: str) -> str:
        """The room for a kind of array; empty if there is none."""
        for entry in self.rooms.split():
            kinds, _, room = entry.partition(":")
            if kind in kinds:
                return room
        return ""


TOUCHES: list[Touch] = []
UNORDERED = "complex numbers, quaternions and matrices have no such operation"
NUMBERS = "masks are no numbers"


def touch(name: str, act: Act, model: Model | None = None, rooms: str = f"{ALL}:lanes", letters: str = ARITHMETIC,
          why: str = NUMBERS, holds: bool = False, masked: bool = False) -> None:
    """Add a row; without a model, NumPy does the same."""
    TOUCHES.append(Touch(name, act, model or act, rooms, letters, why, holds, masked))


def same(o: Operands, value: Any) -> Typed:
    """A result of the array's own type."""
    return Typed(o.type, np.asarray(value).astype(o.dtype))


def mask(o: Operands, value: Any) -> Typed:
    """A mask for the array's type."""
    return Typed(dr.mask_t(o.type), np.asarray(value))


def lane_wise(o: Operands, lanes: Array) -> Array:
    return o.number(o.spread(lanes))
