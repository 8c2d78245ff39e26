"""``dr.freeze``: its options."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from drjit_core import JitBackend

from .._base.arguments import require_bool
from .._base.errors import ArgumentError, describe
from . import saving  # noqa: F401
from .frozen import Frozen

__all__ = ["freeze"]


def freeze(f: Callable[..., Any] | None = None, /, *, state_fn: Callable[..., Any] | None = None,
           limit: int | None = None, warn_after: int = 10, backend: JitBackend | None = None,
           auto_opaque: bool = True, enabled: bool = True, dynamic: Sequence[str] | None = ()) -> Any:
    """Make a function that is traced by its first call, and whose later calls only launch what that has launched.

    ``f`` is any callable, a method, or a static or class method; without it, a decorator is returned. A call is traced
    again (*recorded*) if it depends on other things than arrays that differ from those of earlier calls: the structure
    of arguments, types of arrays, which arrays are the same, Python numbers and texts, flags, whether derivatives are
    tracked; and shapes of tensors, and sizes where the function uses them as numbers. All that the function can be seen
    to refer to counts: default values, variables of enclosing functions and of modules, attributes and entries, also
    those that functions use which it calls. What it returns and what it does to objects is done by each call.
    Derivatives flow through calls in both modes; those of higher order are of the function traced again.

    - ``state_fn``: is given the arguments, and returns further objects with arrays that the function uses.
    - ``limit``: so many recordings are kept; the one that was used least recently goes. ``None``, or negative: all;
      0: the function is called as it is.
    - ``warn_after``: a recording after so many of them is logged as a warning, with what was different.
    - ``backend``: that of the arrays, which is checked; for functions that are given none.
    - ``auto_opaque``: whether constants among the arrays are built into a recording, until they have turned out to
      differ between calls. Otherwise they are evaluated.
    - ``dynamic``: names of parameters of which numbers are passed on as evaluated arrays of one element, of the type of
      the first array of floats among the arguments; so that others are not another recording. A parameter whose value,
      a ``float``, has been the only thing that was different twice, becomes one of them (a warning is logged), if the
      results are of the same types then; so does an attribute or entry of an object that the function is given or
      knows, such as the learning rate of an optimiser, as long as it neither changes nor returns it. NumPy's numbers
      are like Python's. ``None``: none does.
    - ``enabled``: whether to record; an attribute of the result, too, like ``n_recordings``, ``n_cached_recordings``,
      ``recordings`` (what there is), ``explain(…)`` (what a call with some arguments would do, and why), ``clear()``,
      and the function ``f``.

    The function must not look at contents of arrays (``x[0]``, ``.numpy()``): that raises a ``RuntimeError``, and so
    does drawing random numbers on the host (``random``, ``numpy.random``; :func:`rng` is for that). (Where it calls
    :func:`compress`, each call waits for the number of elements.) ``dr.print`` prints, and assertions of debug mode are
    checked, in each call. What the function raises is raised, and nothing has changed then. Within symbolic loops,
    branches and calls, and in other frozen functions, it is called as it is.

    >>> from drjit.llvm import Float
    >>> @dr.freeze
    ... def f(x, k):
    ...     return x * k + 1
    >>> f(Float(1, 2), 3), f(Float(1, 2, 3), 3), f.n_recordings
    ([4, 7], [4, 7, 10], 1)
    >>> f(Float(1, 2), 4), f.n_recordings
    ([5, 9], 2)
    """
    def decorated(function: Callable[..., Any]) -> Any:
        return _frozen(function, state_fn, limit, warn_after, backend, auto_opaque, enabled, dynamic)

    return decorated if f is None else decorated(f)


def _frozen(function: Any, state_fn: Any, limit: Any, warn_after: Any, backend: Any, auto_opaque: Any,
            enabled: Any, dynamic: Any) -> Any:
    """Check the options, and freeze a function."""
    if isinstance(function, staticmethod | classmethod):
        return type(function)(_frozen(function.__func__, state_fn, limit, warn_after, backend, auto_opaque, enabled,
                                      dynamic))
    if not callable(function):
        raise ArgumentError(f"drjit.freeze(): expected a callable (found {describe(function)}).")
    name = getattr(function, "__name__", type(function).__name__)
    called = function if inspect.isroutine(function) or isinstance(function, functools.partial) else \
        type(function).__call__
    for test, what in ((inspect.iscoroutinefunction, "a coroutine function"),
                       (inspect.isgeneratorfunction, "a generator function"),
                       (inspect.isasyncgenfunction, "an asynchronous generator function")):
        if test(called):
            raise ArgumentError(f"drjit.freeze(): {name}() is {what}, which computes nothing when it is called, so "
                                "that there is nothing to record.")
    if state_fn is not None and not callable(state_fn):
        raise ArgumentError(f"drjit.freeze(): 'state_fn' must be a callable (found {describe(state_fn)}).")
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int)):
        raise ArgumentError(f"drjit.freeze(): 'limit' must be an int or None (found {describe(limit)}).")
    if isinstance(warn_after, bool) or not isinstance(warn_after, int) or warn_after < 0:
        raise ArgumentError(f"drjit.freeze(): 'warn_after' must be an int that is not negative (found "
                            f"{warn_after!r}).")
    if backend is not None and not isinstance(backend, JitBackend):
        raise ArgumentError(f"drjit.freeze(): 'backend' must be a drjit.JitBackend (found {describe(backend)}).")
    require_bool("freeze", "auto_opaque", auto_opaque)
    require_bool("freeze", "enabled", enabled)
    if dynamic is not None and (not isinstance(dynamic, tuple | list) or not all(
            isinstance(name, str) for name in dynamic)):
        raise ArgumentError(f"drjit.freeze(): 'dynamic' must be a sequence of names (found {dynamic!r}).")
    unknown = [each for each in dynamic or () if each not in inspect.signature(function).parameters]
    if unknown:
        raise ArgumentError(f"drjit.freeze(): {name}() has no parameter {unknown[0]!r}, which 'dynamic' names.")
    return Frozen(function, state_fn, limit, warn_after, backend, auto_opaque, enabled,
                  None if dynamic is None else tuple(dynamic))
