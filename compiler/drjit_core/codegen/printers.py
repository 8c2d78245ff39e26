"""What prints the instructions of a linear program: a table for each language, and each kind of kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from ..ops.table import OPS

__all__ = ["Printers"]


class Printers(dict[int, Callable[[Any, Any], None]]):
    """What prints an instruction, by its kind."""

    def __init__(self, language: str, known: Mapping[int, Callable[[Any, Any], None]]) -> None:
        super().__init__(known)
        self.language = language

    def __missing__(self, kind: int) -> NoReturn:
        raise NotImplementedError(f"there is no {self.language} text of the row '{OPS[kind].name}': one that is "
                                  "registered needs a printer for each backend that is to run it")
