"""What the parts of a driver have in common: functions that not every driver has, and one stream that is asked."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

__all__ = ["Calls"]


class Calls:
    """The library of a driver, and the stream in whose order everything happens."""

    number: int  #: of the device
    version: int  #: of the driver
    stream: int  #: the one that is asked
    _library: Any
    functions: dict[str, Any]
    call: Callable[..., None]  #: calls a function by its name
    _made: Callable[..., int]  #: the same, for what it makes
    _inside: Callable[[], AbstractContextManager[None]]  #: our context is the current one meanwhile
    fail: Callable[..., Any]

    def __init__(self) -> None:
        #: Held while a stream is asked, so that nobody asks one that has been left.
        self._asking = threading.RLock()

    def _find(self, functions: dict[str, tuple[Any, ...]]) -> None:
        """Let functions be called, by their names and arguments; raises an ``AttributeError`` for the first that there
        is not."""
        for name, arguments in functions.items():
            function = self._library[name]  # an object of its own, whose arguments nobody else sets
            function.argtypes = arguments
            self.functions[name] = function

    def _require(self, what: str, functions: dict[str, tuple[Any, ...]], since: int) -> None:
        """The same for functions that not every driver has, but those from a version on; raises a ``RuntimeError`` that
        says what there is not without them."""
        try:
            self._find({name: arguments for name, arguments in functions.items() if name not in self.functions})
        except AttributeError as error:
            found, needed = (f"{value // 1000}.{value % 1000 // 10}" for value in (self.version, since))
            raise RuntimeError(f"{what} need a CUDA driver of version {needed} or newer; that of this machine, "
                               f"{found}, lacks a function: {error}") from None

    def ask(self, function: str, *arguments: Any) -> None:
        """Call a function whose last argument is the stream."""
        with self._asking:
            status = self.functions[function](*arguments, self.stream)
        if status:
            self.fail(function, status)
