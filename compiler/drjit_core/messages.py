"""Log levels, and how messages reach the user: floor 0.

Every message of the project goes to ``logging.getLogger("drjit")``, whose level *is* the log level: there is no second
state, and :func:`set_log_level` and ``logging`` may be used side by side.  The levels of the reference lie among those
of ``logging`` as in :data:`LEVELS`.

Messages are printed on ``sys.stderr`` unless the application has configured logging, that is, unless the logger
``drjit`` or the root logger has a handler of somebody else: then these get the messages (they propagate), and nothing
is printed twice.
"""

from __future__ import annotations

import logging
import sys

from . import flags
from .types import LogLevel

__all__ = ["INFO_SYM", "LEVELS", "TRACE", "log_level", "logger", "set_log_level"]

#: Levels of ``logging`` for messages about symbolic operations, and for the most detailed ones.
INFO_SYM, TRACE = 15, 5

#: Levels of ``logging`` by log level.
LEVELS: dict[LogLevel, int] = {
    LogLevel.Disable: logging.CRITICAL + 10, LogLevel.Error: logging.ERROR, LogLevel.Warn: logging.WARNING,
    LogLevel.Info: logging.INFO, LogLevel.InfoSym: INFO_SYM, LogLevel.Debug: logging.DEBUG, LogLevel.Trace: TRACE}

logger = logging.getLogger("drjit")


class _Formatter(logging.Formatter):
    """Warnings and errors say where they come from; information is printed as it is."""

    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record)
        return f"drjit: {record.levelname.lower()}: {text}" if record.levelno >= logging.WARNING else text


class _StderrHandler(logging.StreamHandler):  # type: ignore[type-arg]
    """Prints on whatever ``sys.stderr`` is at that moment, if nobody else handles the messages."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)
        self.setFormatter(_Formatter())

    @property
    def stream(self) -> object:
        return sys.stderr

    def filter(self, record: logging.LogRecord) -> bool:
        others = logging.getLogger().handlers if logger.propagate else []
        return not others and logger.handlers == [self] and bool(super().filter(record))


def _install() -> None:
    """Attach the handler, once even if the module is loaded again, and start at ``LogLevel.Warn``."""
    if not any(type(handler).__name__ == _StderrHandler.__name__ for handler in logger.handlers):
        logger.addHandler(_StderrHandler())
    if logger.level == logging.NOTSET:
        logger.setLevel(LEVELS[LogLevel.Warn])


_install()


def log_level() -> LogLevel:
    """Return the log level: which messages are let through (``LogLevel.Warn`` unless changed)."""
    return next(level for level in reversed(LogLevel) if LEVELS[level] >= min(logger.level, LEVELS[LogLevel.Disable]))


def set_log_level(level: LogLevel | int, /) -> None:
    """Choose which messages are let through, by a :class:`LogLevel` or its number, for all threads.

    ``Info`` reports kernels (compiled, found in the cache, launched); ``Debug`` and ``Trace`` add a line for every
    traced variable, which makes tracing slow.
    """
    if isinstance(level, bool) or not isinstance(level, (LogLevel, int)):
        raise TypeError(f"drjit.set_log_level(): the level must be a drjit.LogLevel or its number, "
                        f"found {type(level).__name__} ({level!r})")
    try:
        level = LogLevel(level)
    except ValueError:
        known = ", ".join(f"{known.value} ({known.name})" for known in LogLevel)
        raise ValueError(f"drjit.set_log_level(): there is no log level {level!r}; the levels are {known}") from None
    logger.setLevel(LEVELS[level])
    flags.set_log_variables(level.value >= LogLevel.Debug.value)
