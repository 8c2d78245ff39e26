"""Array types of the best backend that is available, tracking derivatives where it can.

The module redirects to another package, see :func:`drjit.set_backend`.
"""

from typing import Any

from .._tools import auto as _auto


def __getattr__(name: str) -> Any:
    return _auto.get(name, True)


def __dir__() -> list[str]:
    return dir(_auto.module(True))
