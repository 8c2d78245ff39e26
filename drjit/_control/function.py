"""Functions whose bodies are functions of the kernel as well."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, overload

from drjit_core import JitBackend

from .._base.array import ArrayBase
from .._base.errors import ArgumentError, describe
from .._base.types import SCALAR, UINT32, Record, lookup
from .._functions.creation import opaque
from .._trees.pytree import leaves
from .invocation import call

__all__ = ["func"]


@overload
def func(f: Callable[..., Any], /, *, backend: JitBackend | None = None) -> Callable[..., Any]: ...
@overload
def func(f: None = None, /, *, backend: JitBackend | None = None) -> Callable[[Callable[..., Any]],
                                                                              Callable[..., Any]]: ...


def func(f: Callable[..., Any] | None = None, *, backend: JitBackend | None = None) -> Any:
    """Let the body of a function be a function of the kernel, too, instead of a part of each caller.

    A decorator, with or without arguments. A large function that a kernel calls in several places is compiled once
    then. Results and derivatives are the same; arguments and results are PyTrees, as those of :func:`switch`.
    ``backend`` is needed for functions without arrays among their arguments, else a ``RuntimeError`` is raised.
    Evaluates nothing.

    >>> from drjit.llvm import Float
    >>> @dr.func
    ... def scaled(x, factor=2):
    ...     return x * factor
    >>> scaled(Float(1, 2))
    [2, 4]
    """
    if f is None:
        return functools.partial(func, backend=backend)
    if not callable(f):
        raise TypeError(f"drjit.func(): expected a function, found {describe(f)}.")

    return _called_in_kernel(f, backend)


def _called_in_kernel(f: Callable[..., Any], backend: JitBackend | None) -> Callable[..., Any]:
    name = getattr(f, "__name__", "f")

    @functools.wraps(f)
    def func(*args: Any, **kwargs: Any) -> Any:  # messages call it by this name
        arrays = [leaf for leaf in leaves([args, kwargs], "drjit.func")
                  if isinstance(leaf, ArrayBase) and leaf._dynamic]
        record = next((array._leaf._record for array in arrays if array._record.diff), None) or \
            next((array._leaf._record for array in arrays), None)
        if record is None:
            if backend is None or backend is SCALAR:
                raise ArgumentError("drjit.func(): there is no array among the arguments; say which 'backend' the "
                                    "function is for.")
            record = Record(backend, UINT32, "array", ())
        return call("drjit.func", _index(record), "index", [f], (name,), args, kwargs, None, None)

    return func


@functools.cache
def _index(record: Record) -> Any:
    """The index of the only function."""
    return opaque(lookup(record._replace(type=UINT32)), 0)
