"""Registers and labels of one function, and lines of text that use them."""

from __future__ import annotations

from ..types import BOOL
from .texts import REGISTERS, Lines, T, zero

__all__ = ["FALSE", "TRUE", "Registers"]

#: Masks that are known.
TRUE, FALSE = "true", "false"


class Registers:
    """What texts of single rows and elements need to know of the function that they are part of."""

    def __init__(self, name: str, architecture: int) -> None:
        self.name, self.architecture = name, architecture
        self.counts: dict[str, int] = {}  # of registers, by prefix
        self.labels = 0
        self.lines: Lines = []

    def register(self, prefix: str) -> str:
        """A new register."""
        number = self.counts[prefix] = self.counts.get(prefix, 0) + 1
        return f"{prefix}{number}"

    def registers(self, *prefixes: str) -> list[str]:
        """Several of them."""
        return [self.register(prefix) for prefix in prefixes]

    def new(self, type_: int) -> str:
        """A new register for a value of some type."""
        return self.register(T[type_].prefix)

    def declarations(self) -> Lines:
        """What all registers are."""
        return [f".reg .{REGISTERS[prefix]} {prefix}<{count + 1}>;" for prefix, count in self.counts.items()]

    def label(self, name: str) -> str:
        """A new label."""
        self.labels += 1
        return f"${self.name}_{name}{self.labels}"

    def move(self, type_: int, target: str, source: str) -> str:
        """Text that sets a register."""
        if type_ == BOOL and source in (TRUE, FALSE):
            return f"setp.{'eq' if source == TRUE else 'ne'}.u32 {target}, 0, 0;"
        return f"mov.{T[type_].declared} {target}, {source};"

    def clear(self, type_: int, target: str) -> str:
        """Text that sets a register to zero."""
        return self.move(type_, target, zero(type_))

    def as_register(self, mask: str) -> str:
        """A mask in a register."""
        if mask not in (TRUE, FALSE):
            return mask
        register = self.new(BOOL)
        self.lines.append(self.move(BOOL, register, mask))
        return register

    def guard(self, mask: str) -> str:
        """What stands before an instruction that some elements take part in."""
        return "" if mask == TRUE else f"@{self.as_register(mask)} "
