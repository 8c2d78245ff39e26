"""The mode of constructs that ask for none: flags decide, and where the construct stands."""

from __future__ import annotations

import warnings
from typing import Any

import drjit_core as core
from drjit_core import JitFlag

__all__ = ["is_symbolic"]

#: The warnings that have been given, by their places: functions are traced several times.
_given: dict[Any, Any] = {}


def is_symbolic(function: str, flag: JitFlag) -> bool:
    """Whether a loop or call whose mode a flag decides is symbolic.

    Within symbolic constructs it is, since there is nothing to evaluate; if the flag says otherwise, a warning tells.
    """
    if core.current().flags & flag.value:
        return True
    if core.innermost() is None:
        return False
    file, number = core.user_line() or ("<unknown>", 0)
    warnings.warn_explicit(
        f"{function}(): this is part of a symbolic loop, branch or call, and so symbolic itself, although "
        f"drjit.{flag!s} is switched off.", RuntimeWarning, file, number, registry=_given)
    return True
