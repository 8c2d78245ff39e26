"""The elementwise functions by name: one for each row of the compiler's op table that is public.

``from .elementwise import sqrt`` finds any of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from drjit_core import FUNCTIONS as ROWS

from .from_table import make
from .mathematics import OF_ROWS

__all__ = ["FUNCTIONS"]

#: The functions by name.
FUNCTIONS: dict[str, Callable[..., Any]] = {name: OF_ROWS.get(name) or make(name) for name in ROWS}


def __getattr__(name: str) -> Callable[..., Any]:
    try:
        return FUNCTIONS[name]
    except KeyError:
        raise AttributeError(f"the op table has no public row named {name!r}") from None
