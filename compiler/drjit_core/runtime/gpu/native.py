"""Launches on a GPU from compiled code, and what is known of all launches; its compiled form is ``native.pyx``.

The compiled form calls the driver's functions by their addresses (:class:`~drjit_core.cuda.driver.Natives`): what a
launch gets are words as they lie in memory.  Memory comes from the heap, tables of calls are uploaded when they have
changed.  From the call of the driver on no Python code runs, so that no interrupt comes in between.

The launches of a recording, if there are enough of them, are *kept*, and asked for in the end, as one graph: made when
it is replayed for the second time, its nodes get new parameters where these have changed.  As memory is used again in
the order of launches, whoever asks the driver for anything meanwhile has them launched before, one by one.
"""

from __future__ import annotations

from typing import Any

from ...ir.frames import user_place
from ..native import Native
from .launches import described

__all__ = ["GPUNative"]

#: Launches that the message about a fault lists.
LISTED = 5


class GPUNative(Native):
    """The number of launches, and which were the last ones."""

    def __init__(self, backend: Any) -> None:
        super().__init__(backend)
        self.count = 0  #: launches so far: the ticket of the last one
        self.done = 0  #: the last one that is known to have run
        self.hits = 0  #: launches of kernels that were in memory
        self.is_lost = False  #: whether the device is of no use any more
        #: Whether there are launches that the driver has not been asked for yet, which only the compiled form has.
        self.keeps = False
        self._last: list[Any] = [None] * LISTED

    def forget_thread(self) -> None:
        """The stream of a thread is another one: nothing is known of it here."""

    def settle(self) -> None:
        """Something else is about to be asked for: ask for what is kept.  What fails is told by who launches."""

    def note(self, name: str) -> int:
        """There was a launch; returns its ticket."""
        self.count += 1
        self._last[self.count % LISTED] = name, user_place()
        return self.count

    def have_run(self, count: int) -> None:
        """All launches up to one have run."""
        self.done = max(self.done, count)

    def waiting(self) -> tuple[int, list[str]]:
        """How many launches may not have run, and the last of them."""
        first = max(self.done, self.count - LISTED) + 1
        return self.count - self.done, described([self._last[each % LISTED] for each in range(first, self.count + 1)])
