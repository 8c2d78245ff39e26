"""How NumPy is told what to do about numbers that are infinite or NaN, which no operation here looks for."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

__all__ = ["errstate", "seterr"]


def _tell(function: str, options: dict[str, Any]) -> None:
    for name, value in options.items():
        if value in ("raise", "call", "print", "log"):
            warnings.warn(f"{function}(): operations of drjit.numpy do not look for infinite numbers and NaN: "
                          f"{name}={value!r} has no effect on them; isfinite(x).all() tells.", stacklevel=3)
            return


class errstate(np.errstate):
    """``numpy.errstate``, for functions of NumPy. Operations here are lazy, and say nothing of infinite numbers and
    NaN; a warning says so if something else is asked for."""

    __module__ = "drjit.numpy"

    def __init__(self, **options: Any) -> None:
        _tell("drjit.numpy.errstate", options)
        super().__init__(**options)


def seterr(all: Any = None, divide: Any = None, over: Any = None, under: Any = None,
           invalid: Any = None) -> dict[str, Any]:
    """``numpy.seterr``, for functions of NumPy, as :class:`errstate`. Returns what held before."""
    options = {"all": all, "divide": divide, "over": over, "under": under, "invalid": invalid}
    _tell("drjit.numpy.seterr", options)
    return dict(np.seterr(**options))
