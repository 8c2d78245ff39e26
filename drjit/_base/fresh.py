"""Objects without contents: how arrays that are results come into being.

Their nodes are stored at once, by whoever asks; ``__init__`` is for users. The compiled form calls the type's own slot,
and keeps the memory of flat arrays that have died.
"""

from __future__ import annotations

from typing import Any

__all__ = ["FlatSlots", "adopt", "fresh"]

#: An object of a class without contents.
fresh: Any = object.__new__


class FlatSlots:
    """The slots of flat arrays (see :mod:`drjit._base.array`)."""

    __slots__ = ("__weakref__", "_n", "_o")

    _n: Any
    _o: Any


def adopt(cls: type) -> None:
    """Tell of an array type of the library's own, whose instances hold nothing but nodes."""
