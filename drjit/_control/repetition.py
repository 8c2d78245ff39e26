"""What ``dr.while_loop`` does: which mode a loop runs in, and plain Python loops."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import drjit_core as core
from drjit_core import JitFlag, current

from .._access.store import end_since, noted, standing
from .._base.arguments import require_bool, require_count, require_label, require_mode
from .._base.errors import ArgumentError, SizeError, describe, presented
from .evaluated import Evaluated
from .given import Given, as_before
from .iteration import FUNCTION, SymbolicLoop, require_tuple
from .modes import is_symbolic
from .snapshot import snapshot
from .state import told_apart, uninitialized

__all__ = ["loop"]

_COMPRESS_LOOPS, _SYMBOLIC_LOOPS = JitFlag.CompressLoops.value, JitFlag.SymbolicLoops.value


def loop(state: tuple[Any, ...], cond: Callable[..., Any], body: Callable[..., Any], labels: Sequence[str] = (),
         label: str | None = None, mode: str | None = None, strict: bool = True, compress: bool | None = None,
         max_iterations: int | None = None, late: Any = None, test: Any = None) -> Any:
    """``dr.while_loop``; the condition is a mask if it is told what that is at first (``test``; ``True``: nobody has
    computed it), and the body may find a variable ``late``."""
    names = _checked(state, cond, body, labels, label, mode, strict, compress, max_iterations)
    before = standing()
    try:
        return _run(state, cond, body, names, label, mode, strict, max_iterations, compress, late, test)
    except Exception as error:
        end_since(before)
        raise presented(error, FUNCTION)  # noqa: B904


def _checked(state: Any, cond: Any, body: Any, labels: Any, label: Any, mode: Any, strict: Any, compress: Any,
             max_iterations: Any) -> tuple[str, ...]:
    """Refuse arguments of other types and values than they must have; returns the names of the state variables."""
    if type(state) is not tuple:
        raise TypeError(f"{FUNCTION}(): 'state' must be a tuple, found {describe(state)}.")
    if not callable(cond) or not callable(body):
        name, value = ("body", body) if callable(cond) else ("cond", cond)
        raise TypeError(f"{FUNCTION}(): '{name}' must be callable, found {describe(value)}.")
    if mode is not None:
        require_mode(FUNCTION, mode)
    if type(strict) is not bool:
        require_bool(FUNCTION, "strict", strict)
    if compress is not None and compress.__class__ is not bool:
        raise TypeError(f"{FUNCTION}(): 'compress' must be a bool or None, found {describe(compress)} ({compress!r}).")
    if max_iterations is not None:
        require_count(FUNCTION, "max_iterations", max_iterations, -1)  # which says that there is no bound
    if label is not None:
        require_label(FUNCTION, label)
    if type(labels) is not tuple and (isinstance(labels, str) or not isinstance(labels, Sequence)):
        raise TypeError(f"{FUNCTION}(): 'labels' must be a sequence of strings, one for each state variable, found "
                        f"{describe(labels)} ({labels!r}).")
    if not labels:
        return _names(len(state))
    for k, entry in enumerate(labels):
        if not isinstance(entry, str):
            raise TypeError(f"{FUNCTION}(): 'labels[{k}]' must be a str, found {describe(entry)} ({entry!r}).")
    if len(labels) != len(state):
        raise ArgumentError(f"{FUNCTION}(): 'labels' has {len(labels)} entr{'y' if len(labels) == 1 else 'ies'} for "
                            f"{len(state)} state variable{'s' * (len(state) != 1)}.")
    return tuple(labels)


@functools.lru_cache(16)
def _names(count: int) -> tuple[str, ...]:
    """What variables are called that have no labels."""
    return tuple([f"state[{k}]" for k in range(count)])


def _run(state: Any, cond: Callable[..., Any], body: Callable[..., Any], names: Sequence[str], label: str | None,
         mode: str | None, strict: bool, max_iterations: int | None, compress: bool | None, late: Any,
         first: Any) -> Any:
    given = Given(FUNCTION, state)
    test: Any = None
    try:
        if mode is None:
            if first is None:
                known = snapshot(None if given.plain else state, cond)
                with noted() as journal:
                    try:
                        test = cond(*state)
                    finally:
                        if type(test) is not bool:  # it is called again, or has raised
                            journal.roll_back()
                            if known is not None:
                                known.undo()
            mode = "scalar" if type(test) is bool else "symbolic" if current().flags & _SYMBOLIC_LOOPS or \
                is_symbolic(FUNCTION, JitFlag.SymbolicLoops) else "evaluated"
        if mode != "scalar":
            if given.spec.is_flat or given.simple and mode == "symbolic":
                return _traced(given, cond, body, names, label, mode, strict,
                               None if max_iterations == -1 else max_iterations, compress, late, first)
            with as_before(given, mode == "evaluated"):
                return _traced(given, cond, body, names, label, mode, strict,
                               None if max_iterations == -1 else max_iterations, compress, late, first)
    except (SizeError, core.IncompatibleSizes) as error:
        position = uninitialized(error, given.nodes, given.spec)
        if position < 0:
            raise
        raise ArgumentError(
            f"{FUNCTION}(): the state variable '{given.spec.paths(names)[position]}' of type "
            f"{given.leaves[position]._name} is empty; it must be initialized before the loop.") from None
    return _scalar(state, cond, body, test)


def _traced(given: Given, cond: Callable[..., Any], body: Callable[..., Any], names: Sequence[str], label: str | None,
            mode: str, strict: bool, max_iterations: int | None, compress: bool | None, late: Any, first: Any) -> Any:
    if mode == "evaluated":
        given.nodes = told_apart(given.nodes)
        return Evaluated(given, cond, body, names,
                         bool(current().flags & _COMPRESS_LOOPS if compress is None else compress),
                         None if first is True else first, strict).run()
    try:
        return SymbolicLoop(given, cond, body, names, label, strict, max_iterations, late).run()
    except core.NoDerivative:  # of writes, for example: iterations have some, one by one
        if core.innermost() is not None:
            raise  # there is a construct around this one, which does likewise
        return Evaluated(given, cond, body, names, False, None if first is True else first, strict).run()


# --- the three modes -------------------------------------------------------------------------------------------------


def _scalar(state: Any, cond: Callable[..., Any], body: Callable[..., Any], test: Any) -> Any:
    if test is None:
        test = cond(*state)
    while test:
        state = require_tuple(body(*state), len(state))
        test = cond(*state)
    return state
