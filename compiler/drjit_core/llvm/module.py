"""What the functions of a module have in common, whatever they compute."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .texts import TypeText, make_type_texts
from .writer import Writer

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

    def need(self, name: str, text: Callable[[], str]) -> str:
        """The name of a function or constant of the module, whose text is made where it is needed first."""
        if name not in self.helpers:
            made = text()  # what it needs in turn comes before it
            self.helpers[name] = made
        return name

    def need_function(self, name: str, parameters: str, write: Callable[[Writer], str | None], result: str = "void",
                      attributes: str = "noinline #0") -> str:
        """The name of a function of the module that is written by hand, and may return what it ends with."""
        def text() -> str:
            w = Writer()
            w.function(f"internal {result} @{name}({parameters})", attributes)
            w.end(write(w) or "void")
            return w.functions()

        return self.need(name, text)
