"""One evaluation at a time: a lock between threads, and a mark that tells an evaluation in the midst of another."""

from __future__ import annotations

import threading

__all__ = ["check", "evaluating", "lock"]

#: Held by whoever evaluates, and around everything that changes what an evaluation relies on.
lock = threading.RLock()
#: Whether there is an evaluation.  Whoever evaluates, and so holds the lock, sets it, and clears it in a ``finally``.
#: It is a variable, since an interrupt comes when a function is called: one that clears it might never get that far.
evaluating = False


def check() -> None:
    """Raise if this thread evaluates already; the caller holds :data:`lock`."""
    if evaluating:
        raise RuntimeError("eval(): an evaluation was started in the midst of another one of the same thread, by a "
                           "signal handler or a finaliser; these must not need the values of arrays")
