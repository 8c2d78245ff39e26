"""Launches on the CPU from compiled code; its compiled form is ``native.pyx``.

A known kernel is called through its address, or enqueued: from the call of the kernel on no Python code runs, so that
no interrupt comes in between.
"""

from __future__ import annotations

from typing import Any

from ..buffer import Buffer
from ..native import Native
from . import pool

__all__ = ["CPUNative", "host_address"]


class CPUNative(Native):
    """In this form nobody asks."""


def host_address(self: Any, buffer: Buffer) -> int:
    """The address of a buffer once the launches that use it have ended."""
    pool.wait(buffer.ticket)
    return buffer.address
