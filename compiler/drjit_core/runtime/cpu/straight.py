"""Evaluation on the CPU; its compiled form, ``straight.pyx``, has a short way for the usual case.

That is kernels without control flow, writes or checks, all of which can run now.  What :mod:`..launch` does for any
kernel is done for these in one walk over the graph, which makes a program's key and its parameters without the program;
a kernel that is known by that key is launched at once.  Whatever else there is to do (a kernel that is not known, a
recording, debug mode, a history, log lines) is left to the general way.  This form leaves everything to it.
"""

from __future__ import annotations

from typing import Any

from ...ir.node import Node
from ..buffer import Buffer
from ..launch import evaluate_by_kernels as evaluate
from . import pool

__all__ = ["evaluate", "forget", "host_address", "key_of"]


def host_address(self: Any, buffer: Buffer) -> int:
    """The address of a buffer once the launches that use it have ended."""
    pool.wait(buffer.ticket)
    return buffer.address


def key_of(backend: Any, roots: list[Node]) -> tuple[bytes, list[int]] | None:
    """For tests: key and parameters (those of outputs are 0) of the one kernel of some nodes, or ``None``."""
    return None


def forget() -> None:
    """Forget all kernels."""
