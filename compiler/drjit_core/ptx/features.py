"""What texts depend on besides the program: the architecture (75, 80, 90, 100 …), and the classes that texts know.

Which instruction exists where was found by assembling each of them.
"""

from __future__ import annotations

__all__ = ["has_nan_minimum", "head"]

#: The least version of PTX that architectures need, from some on; 8.1 is that of the oldest driver, 12.1, which permits
#: 32,764 bytes of parameters.
_VERSIONS = ((100, "8.6"), (0, "8.1"))


def head(architecture: int) -> list[str]:
    """What a module begins with."""
    version = next(version for first, version in _VERSIONS if architecture >= first)
    return [f".version {version}", f".target sm_{architecture}", ".address_size 64"]


def has_nan_minimum(architecture: int) -> bool:
    """Whether ``min.NaN`` exists for half and single precision."""
    return architecture >= 80
