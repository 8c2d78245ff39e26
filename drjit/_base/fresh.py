"""Objects without contents: how arrays that are results come into being.

Their nodes are stored at once, by whoever asks; ``__init__`` is for users. The compiled form calls the type's own slot,
and keeps the memory of flat arrays that have died.
"""

from __future__ import annotations

import gc
from typing import Any

__all__ = ["FlatSlots", "adopt", "fresh", "live_flat_arrays"]

#: An object of a class without contents.
fresh: Any = object.__new__


class FlatSlots:
    """The slots of flat arrays (see :mod:`drjit._base.array`)."""

    __slots__ = ("__weakref__", "_n", "_o")

    _n: Any
    _o: Any


def live_flat_arrays() -> list[Any]:
    """All flat arrays that there are, found by a search through all objects of the process."""
    return [each for each in gc.get_objects() if issubclass(type(each), FlatSlots)]


def adopt(cls: type) -> None:
    """Tell of an array type of the library's own, whose instances hold nothing but nodes."""
