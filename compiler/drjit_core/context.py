"""What a thread has set: flags, the regions being traced, and whether new nodes are logged.

The hot path of tracing asks for :func:`current` once, and reads its attributes. (``context.pyx`` is the compiled form,
which finds the context of a thread without a dictionary.)
"""

from __future__ import annotations

import threading
from typing import Any

__all__ = ["DEFAULT_FLAGS", "Context", "current", "state"]

#: What ``JitFlag.Default`` is: every optimisation, no diagnostics.
DEFAULT_FLAGS = 26484606


class Context(threading.local):
    """What one thread has set; see :mod:`drjit_core.flags`."""

    flags: int = DEFAULT_FLAGS
    #: 0 as long as nothing special is wanted, else a negative number (see :mod:`drjit_core.flags`).
    mode: int = 0
    #: The innermost region that is being traced (a :class:`drjit_core.ir.symbolic.Tracing`).
    region: Any = None
    #: Its id, 0 if there is none: what belongs to it may be used.
    scope: int = 0
    #: What records the program (a :class:`drjit_core.runtime.recorder.Recorder`), if anything does.
    recording: Any = None
    #: Where it evaluates, unless on the usual backend (see :mod:`drjit_core.runtime.backends`).
    backend: Any = None
    #: How branches that few elements take are traced (see :mod:`drjit_core.ir.expansion`).
    branches: str = "both"
    #: For which vertices derivatives are tracked (a :class:`drjit_core.ir.dual.Scope`), unless for all.
    derivatives: Any = None
    #: Whether its statements are acting just now (see :mod:`drjit_core.ir.deferred`).
    acting: bool = False

    def __init__(self) -> None:
        #: All regions that are being traced, by their ids.
        self.open: dict[int, Any] = {}
        #: Weak references to what the next evaluation of this thread includes, if it is still alive by then.
        self.scheduled: list[Any] = []
        #: The statements that have not acted yet (see :mod:`drjit_core.ir.deferred`).
        self.statements: list[Any] = []
        #: Masks that must not be set, of which what it reads may be wrong (see :mod:`drjit_core.ir.deferred`).
        self.checks: list[Any] = []
        #: The vertices that its next traversal of derivatives visits; they have the number of this queue (0: none yet).
        self.queued: list[Any] = []
        self.queue = 0
        #: Those at which that ends if it goes backward, because of a scope.
        self.boundary: list[Any] = []


#: The context of the thread that asks.
state = Context()


def current() -> Context:
    """The context of this thread."""
    return state
