"""What functions know of the module that they are part of."""

from __future__ import annotations

from typing import Any, Protocol

from ..codegen.linear import Function, Linear

__all__ = ["ModuleContext"]


class ModuleContext(Protocol):
    """See :class:`.emit.ModuleEmitter`."""

    linear: Linear
    architecture: int
    words_in_memory: bool
    callees: dict[str, Any]  # functions that can be called (:class:`.calls.Callee`), by name
    targets: dict[int, Any]  # those of calls, by number

    @property
    def printers(self) -> dict[int, Any]:
        """What prints an instruction, by its kind."""

    @property
    def printers_of_rows(self) -> dict[int, Any]:
        """What prints an instruction of a kernel that goes over rows, by its kind."""

    @property
    def parameter_list(self) -> str:
        """What a kernel gets."""

    def may_be_written(self, function: Function, slot: int) -> bool:
        """Whether the memory of a parameter may be, while the kernel runs."""

    def need(self, function: Function) -> Any:
        """The function of an expansion or of a rare branch."""
