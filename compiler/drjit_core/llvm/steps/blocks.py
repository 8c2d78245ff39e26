"""Launches of steps: how they are cut into blocks."""

from __future__ import annotations

from typing import NamedTuple

from ...codegen.steps import Pass, Text

__all__ = ["Blocks", "in_blocks"]


class Blocks(NamedTuple):
    """The kernel is called for one block after the other, whose bounds are ``%begin`` and ``%end``; see
    :mod:`drjit_core.llvm.emit` for its other parameters."""

    width: int
    block: int  # parts of one block, but maybe the last


def in_blocks(text: Text, words: tuple[int, ...], width: int, block: int) -> Pass:
    """A launch in blocks of some size."""
    return Pass(text, words, Blocks(width, block))
