"""Warnings of indices that are out of bounds: what an evaluation finds."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import drjit_core as core
from drjit_core import Node

__all__ = ["warn_of"]


def warn_of(function: str, index: Node, bad: Node, words: Callable[[object], str]) -> None:
    """Let an evaluation warn of the first index for which a mask is set, at the user's line; ``words`` say it."""
    line = core.user_line()

    def act(capture: core.Capture) -> None:
        found, _, values = core.captured(capture)
        if found:
            file, number = line or ("<unknown>", 0)
            warnings.warn_explicit(f"{function}(): {words(core.read_element(values[0], 0))}", RuntimeWarning, file,
                                   number)

    core.capture(function, [index], bad, 1, act)
