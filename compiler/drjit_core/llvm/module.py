"""What the functions of a module have in common, whatever they compute."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .texts import TypeText, make_type_texts

__all__ = ["ModuleContext"]


class ModuleContext:
    """The module that functions are printed for: its packets, what prints instructions, and what it has besides."""

    def __init__(self, lanes: int, printers: Mapping[int, Any], printers_of_rows: Mapping[int, Any]) -> None:
        self.lanes = lanes
        self.scalars: list[TypeText] = make_type_texts(0)
        self.packets: list[TypeText] = make_type_texts(lanes)
        #: What prints an instruction, by its kind, and the same in kernels that go over rows.
        self.printers = printers
        self.printers_of_rows = printers_of_rows
        #: Texts of the functions and constants that others refer to, by name.
        self.helpers: dict[str, str] = {}
