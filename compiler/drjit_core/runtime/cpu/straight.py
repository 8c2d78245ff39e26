"""Evaluation by kernels without control flow, writes or checks, all of which can run now: the usual case.

What :mod:`..launch` does for any kernel, the compiled form of this module, ``straight.pyx``, does for these in one walk
over the graph: it makes a program's key and its parameters without the program, and a kernel that is known by that key
is launched at once.  Whatever else there is to do (a kernel that is not known, a recording, debug mode, a history, log
lines) is left to the general way.  This form leaves everything to it.
"""

from __future__ import annotations

from typing import Any

from ...ir.node import Node

__all__ = ["evaluate", "forget", "key_of"]


def evaluate(backend: Any, roots: list[Node]) -> bool:
    """Give values to nodes, unless the general way has to; whether it was done.  The caller holds the lock."""
    return False


def key_of(backend: Any, roots: list[Node]) -> tuple[bytes, list[int]] | None:
    """For tests: key and parameters (those of outputs are 0) of the one kernel of some nodes; ``None`` if there is none."""
    return None


def forget() -> None:
    """Forget all kernels."""
