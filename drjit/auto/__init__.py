"""Array types of the best backend that is available.

The module redirects to another package, see :func:`drjit.set_backend`.
"""

import importlib
from typing import Any

from .._tools import auto as _auto


def __getattr__(name: str) -> Any:
    if name == "ad":
        return importlib.import_module("drjit.auto.ad")
    return _auto.get(name, False)


def __dir__() -> list[str]:
    return sorted({*dir(_auto.module(False)), "ad"})
