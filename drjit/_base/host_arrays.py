"""Objects of NumPy, told from others without an import of NumPy, which takes as long as that of half of this project:
until a program imports it, there are none."""

from __future__ import annotations

import sys
from typing import Any

__all__ = ["is_host_array", "is_host_data"]


def is_host_array(value: Any) -> bool:
    """Whether a value is an array of NumPy."""
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, getattr(numpy, "ndarray", ()))


def is_host_data(value: Any) -> bool:
    """Whether a value is an array of NumPy, or an entry of one that has fields."""
    return is_host_array(value) or isinstance(value, getattr(sys.modules.get("numpy"), "void", ()))
