"""LLVM text as it is written: line by line, basic block by basic block, in the order in which it runs."""

from __future__ import annotations

__all__ = ["ATTRIBUTES", "Lines"]

#: Attributes ``#0``, those of functions that compute packets.
ATTRIBUTES = ('attributes #0 = { nounwind "frame-pointer"="none" "prefer-vector-width"="512" '
              '"min-legal-vector-width"="512" }')


class Lines(list[str]):
    """Lines of a function, and the basic block that the next one belongs to."""

    def __init__(self, label: str = "") -> None:
        super().__init__()
        self.label = label  # of the block: what phis name
        self.start = 0  # the first line of the block

    def open(self, label: str) -> None:
        """Start a basic block."""
        self.append(f"{label}:")
        self.go_on(label)

    def go_on(self, label: str) -> None:
        """Go on behind lines that have started a block."""
        self.label, self.start = label, len(self)

    @property
    def length(self) -> int:
        """The number of lines of the block so far."""
        return len(self) - self.start
