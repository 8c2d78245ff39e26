"""What the driver refuses."""

from __future__ import annotations

__all__ = ["DriverError", "NoDevice"]

#: After these the context is of no use any more: every call that follows has the same answer.
_LOST = frozenset({214, 226, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 721, 911, 999})


class NoDevice(Exception):
    """There is no driver, no device, or one that is too old."""


class DriverError(Exception):
    """A call of the driver that has failed."""

    def __init__(self, function: str, name: str, status: int, details: str = "") -> None:
        super().__init__(f"{function}: {name} ({status})" + (f": {details}" if details else ""))
        self.status = status

    @property
    def lost(self) -> bool:
        """Whether a kernel has ruined the context."""
        return self.status in _LOST
