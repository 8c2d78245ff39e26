"""What the short way to a launch asks of a backend; its compiled form is ``native.pyx``.

Who launches stages one after the other (:mod:`.recipes`) has words in memory, and no programs. A :class:`Native` has
functions of C for it: memory (``allocate``), kernels that are known by a key (``find``), and launches (``launch``). A
backend that has none of its own gets this one, which asks the methods of its
:class:`~.backend.KernelBackend`: that is slower, and works for all.
"""

from __future__ import annotations

from .backend import Backend
from .buffer import Buffer

__all__ = ["Native"]


class Native:
    """In this form nobody asks for anything but memory."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend

    def host_address(self, buffer: Buffer) -> int:
        """Where the host may access the contents of a buffer, once the launches that use it have ended."""
        return self.backend.host_address(buffer)
