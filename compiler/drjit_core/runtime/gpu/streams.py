"""Which stream a thread's launches go to: that of the backend, or that of a green context which it has entered.

Memory is used again as soon as nobody has it, because everything is in one order.  So it remains: when a thread
launches whose stream is another one than that of the launch before, the one waits for the other, by an event.  What
threads ask for besides, copies and memory, goes to the stream of the last launch.
"""

from __future__ import annotations

import threading
from collections import deque
from contextlib import suppress
from typing import Any

from ...cuda.green import Part
from .. import exclusion

__all__ = ["GreenContext", "Streams"]


class _Entered(threading.local):
    """The green contexts that a thread has entered."""

    def __init__(self) -> None:
        self.contexts: list[GreenContext] = []


class Streams:
    """The streams of a backend."""

    def __init__(self, backend: Any) -> None:
        self.backend = backend
        self._entered = _Entered()
        self._first = 0  # the stream of who has entered none; unknown as long as nobody has ever entered one
        self._dropped: deque[Part] = deque()  # of green contexts that nobody has any more

    def make(self, count: int) -> GreenContext:
        """A green context of at least so many multiprocessors."""
        self.settle()
        with self.backend.watching():
            return GreenContext(self, *self.backend.driver.divide(count))

    def turn(self) -> int:
        """Let the stream of the calling thread be the one that is asked; its handle.  The caller holds the lock of
        :mod:`..exclusion`, as who launches does."""
        driver = self.backend.driver
        if self._first:
            contexts = self._entered.contexts
            stream = contexts[-1].part.stream if contexts else self._first
            if stream != driver.stream:
                with self.backend.watching():  # behind launches that are kept
                    self.backend.native.forget_thread()  # before: an interrupt may come in between
                    driver.switch(stream)
        return driver.stream  # type: ignore[no-any-return]

    def own(self) -> int:
        """The same for who launches nothing: the handle of a stream that is asked until another thread launches."""
        if not self._first:
            return self.backend.driver.stream  # type: ignore[no-any-return]
        with exclusion.lock:
            if exclusion.evaluating:  # a finaliser, or what handles a signal, does not change the stream of a launch
                self.backend.native.forget_thread()
                return self.backend.driver.stream  # type: ignore[no-any-return]
            return self.turn()

    def enter(self, context: GreenContext) -> None:
        """Let the launches of the calling thread go to a green context."""
        with exclusion.lock:
            self._first = self._first or self.backend.driver.stream
        self._entered.contexts.append(context)
        try:
            with self.backend.watching():  # a device that is lost says so
                self.own()
        except BaseException:
            self._entered.contexts.pop()
            raise
        self.settle()

    def leave(self, context: GreenContext) -> None:
        """End that, the last time it was entered."""
        contexts = self._entered.contexts
        if context not in contexts:
            raise RuntimeError("this thread has not entered the green context that it leaves")
        del contexts[len(contexts) - 1 - contexts[::-1].index(context)]
        if not self.backend.is_lost():  # who launches next says so
            self.own()
        self.settle()

    def drop(self, part: Part) -> None:
        """Nobody has a green context any more.  Finalisers call this."""
        self._dropped.append(part)
        self.settle()

    def settle(self) -> None:
        """Destroy green contexts that nobody has, unless somebody evaluates: the next time then."""
        while self._dropped and exclusion.lock.acquire(blocking=False):
            try:
                if exclusion.evaluating or self._dropped[0].stream == self.backend.driver.stream:
                    return  # of a thread that has ended before it has left
                part = self._dropped.popleft()
                with suppress(RuntimeError), self.backend.watching():  # of a device that is lost there is nothing
                    self.backend.driver.forget(part)
            finally:
                exclusion.lock.release()


class GreenContext:
    """Some of a device's multiprocessors, and a stream whose kernels run there."""

    def __init__(self, streams: Streams, part: Part, rest: Any) -> None:
        self._streams, self.part, self._rest = streams, part, rest
        self._remaining: Part | None = None

    @property
    def multiprocessors(self) -> int:
        """How many there are."""
        return self.part.multiprocessors

    def enter(self) -> None:
        """Let the launches of the calling thread go there."""
        self._streams.enter(self)

    def leave(self) -> None:
        """End that, the last time it was entered."""
        self._streams.leave(self)

    def remaining(self) -> int:
        """A context of the others, by its handle; 0 if there are no others.  It lives as long as this one."""
        backend = self._streams.backend
        with exclusion.lock, backend.watching():
            if self._remaining is None:
                self._remaining = backend.driver.part_of(self._rest)
        return 0 if self._remaining is None else self._remaining.current

    def __del__(self) -> None:
        for part in (self.part, self._remaining):
            if part is not None:
                self._streams.drop(part)
