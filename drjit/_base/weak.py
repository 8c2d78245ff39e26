"""What has been found out about objects, as long as they live.

Programs make classes, modules and codes, too; who remembers something of these must not keep them.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["note", "remembered"]

Found = TypeVar("Found")


def note(table: dict[int, Found], value: Any, found: Found) -> Found:
    """Note something about an object, by its id, until it dies."""
    table[id(value)] = found
    weakref.finalize(value, table.pop, id(value), None).atexit = False
    return found


def remembered(find: Callable[[Any], Found]) -> Callable[[Any], Found]:
    """A function that is called once for each object."""
    table: dict[int, Found] = {}

    @functools.wraps(find)
    def known(value: Any) -> Found:
        number = id(value)
        return table[number] if number in table else note(table, value, find(value))

    return known
