"""Memory of a device that is shared with other libraries, and the order of what their streams do with it.

Who gives memory away, or gets it back, lets one stream wait for another one; the host waits for nobody.  Memory of
others is theirs again, in whatever order they work, only when the launches that use it have run.
"""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from typing import Any

from ...cuda.errors import DriverError
from ..buffer import Buffer

__all__ = ["Exchange", "Loan"]

#: The default streams, the legacy one and that of each thread, which are always there.
_ALWAYS = frozenset({0, 1, 2})


class Loan:
    """Keeps what others lend, until the launches have run that were there when nobody referred to it any more."""

    __slots__ = ("_exchange", "_owner")

    def __init__(self, exchange: Exchange, owner: Any) -> None:
        self._exchange, self._owner = exchange, owner

    def __del__(self) -> None:
        self._exchange.released(self._owner)


class Exchange:
    """What a backend has of others, and others have of it; streams are told by their handles."""

    def __init__(self, backend: Any) -> None:
        self._backend = backend
        #: What others have lent and nobody uses any more, behind points at which they may have it back; ``None``: there
        #: is no point yet, as the launches before it are just being asked for.
        self._released: deque[tuple[Any, Any]] = deque()

    @property
    def number(self) -> int:
        """The device's number among all."""
        return self._backend.driver.number  # type: ignore[no-any-return]

    @property
    def stream(self) -> int:
        """The stream in whose order everything happens here, until another thread launches."""
        return self._backend.streams.own()  # type: ignore[no-any-return]

    def gives(self, stream: int) -> None:
        """Somebody gets memory: the stream waits for what is launched."""
        with self._backend.watching():
            self._backend.driver.order(None, stream)

    def takes(self, stream: int) -> None:
        """Somebody gives memory: what is launched from now on waits for the stream."""
        with self._backend.watching():
            self._backend.driver.order(stream, None)

    def returned(self, stream: int) -> None:
        """Somebody has no use any more for memory that was given to a stream.  Finalisers call this.

        A stream that somebody has made may be gone, and drivers do not check handles: then all there is is waited for.
        """
        driver = self._backend.driver
        if self._backend.is_lost():  # or belongs to the process that this one was forked from
            return
        with suppress(DriverError):  # the device may be gone
            if stream in _ALWAYS:
                driver.order(stream, None)
            else:
                driver.wait_for_all()

    def device_of(self, address: int) -> int:
        """The number of the device that some memory belongs to, -1 if it is none that the driver knows."""
        return self._backend.driver.device_of(address)  # type: ignore[no-any-return]

    # --- memory of others --------------------------------------------------------------------------------------------

    def lent(self, owner: Any) -> Loan:
        """What buffers over memory keep alive that belongs to an owner."""
        self.settle()
        return Loan(self, owner)

    def released(self, owner: Any) -> None:
        """Nobody refers any more to what is lent.  Finalisers call this."""
        if self._backend.is_lost():
            return
        try:
            self._backend.settle()
            self._released.append((self._point(), owner))
        except DriverError:  # nothing runs any more
            return
        self.settle()

    def _point(self) -> Any:
        """A point behind all launches; ``None`` in the midst of asking for those that were kept, where finalisers run
        as well."""
        return None if self._backend.native.keeps else self._backend.driver.mark()

    def settle(self) -> None:
        """Give back what no launch uses any more."""
        released = self._released
        while released and not self._backend.is_lost():
            try:
                point, owner = released.popleft()
            except IndexError:  # another thread was faster
                return
            try:
                if point is None:
                    point = self._point()
                passed = point is not None and self._backend.driver.passed(point)
            except DriverError:
                passed = True
            if not passed:
                released.appendleft((point, owner))
                return
            del owner

    def copied(self, address: int, nbytes: int) -> Buffer:
        """Memory of our own, with what is at an address."""
        buffer: Buffer = self._backend.allocate(nbytes)
        with self._backend.watching():
            self._backend.driver.copy(buffer.address, address, nbytes)
        return buffer
