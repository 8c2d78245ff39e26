"""One evaluation at a time: a lock between threads, and a mark that tells an evaluation in the midst of another."""

from __future__ import annotations

import threading

__all__ = ["begin", "check", "end", "evaluating", "lock"]

#: Held by whoever evaluates, and around everything that changes what an evaluation relies on.
lock = threading.RLock()
_evaluating = False


def check() -> None:
    """Raise if this thread evaluates already; the caller holds :data:`lock`."""
    if _evaluating:
        raise RuntimeError("eval(): an evaluation was started in the midst of another one of the same thread, by a "
                           "signal handler or a finaliser; these must not need the values of arrays")


def begin() -> None:
    """Begin an evaluation; the caller holds :data:`lock`, and will end it."""
    global _evaluating
    _evaluating = True


def end() -> None:
    """End an evaluation."""
    global _evaluating
    _evaluating = False


def evaluating() -> bool:
    """Whether there is an evaluation; the caller holds :data:`lock`."""
    return _evaluating
