"""Calls of functions that an array of indices chooses: ``dr.switch``.

In *symbolic* mode the compiler traces each function once, and the call becomes part of a kernel, which jumps to what
the elements of a packet ask for; in *evaluated* mode elements are grouped by function, each of which runs on its own.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from .._base.array import ArrayBase
from .._base.errors import ArgumentError, BoundsError, describe
from .._base.values import plain_scalar
from .invocation import call

__all__ = ["switch"]


@functools.lru_cache(16)
def _names(count: int) -> tuple[str, ...]:
    """What the functions of a ``switch`` are called."""
    return tuple([f"targets[{position}]" for position in range(count)])


def switch(index: Any, targets: Sequence[Callable[..., Any]], *args: Any, mode: str | None = None,
           label: str | None = None, **kwargs: Any) -> Any:
    """``targets[index](*args, **kwargs)`` for every element; each function is called for all elements together.

    ``index`` is an ``int``, for an ordinary call, or an array of 32-bit unsigned integers. Arguments are arrays and
    PyTrees of arrays, of one width, and other objects; all functions return values of one structure and the same types,
    in which tensors of one element go with others. Results of what an array chooses are new arrays, also where
    functions return arguments. A mask array that is the last positional argument, or the argument ``active``, says
    which elements take part; the functions see a mask that is set, a literal. With an ``int``, ``active`` is a
    ``bool``; if it is not set, nothing is called, and the result is ``None``; else it is passed on to functions that
    have such an argument. The results of elements that take no part, and of those whose index is too large, are zero;
    but what all functions return as the same literal is that literal for all that take part
    (``JitFlag.OptimizeCalls``).
    ``mode`` is ``'symbolic'``, ``'evaluated'`` or ``None``, which decides by ``JitFlag.SymbolicCalls``: symbolic calls
    are part of a kernel and evaluate nothing; evaluated ones evaluate the index, and run each function that it asks for
    on a part of the arguments. ``label`` names the call in listings.

    The functions may read and write arguments and other arrays by index; in evaluated calls, they read arguments of the
    call's size by ``dr.gather`` only, and do not write to them: of those, each function is given a part, but all of
    textures, tables of encodings and matrix views. Debug mode warns of indices that are too large.
    Raises a ``TypeError`` for other types of indices and targets, an ``IndexError`` for an ``int`` beyond the targets,
    and a ``RuntimeError`` if the results of the functions differ in structure or type. What functions raise that an
    array has chosen is raised as an exception of the same class that is a ``RuntimeError``, too. Differentiable: where
    derivatives are tracked, all functions are computed.

    >>> from drjit.llvm import UInt32
    >>> dr.switch(UInt32(0, 0, 1, 1), [lambda x: x, lambda x: x * 10], UInt32(1, 2, 3, 4))
    [1, 2, 30, 40]
    """
    function = "drjit.switch"
    if targets.__class__ is not list and (isinstance(targets, str) or not isinstance(targets, Sequence)):
        raise TypeError(f"{function}(): 'targets' must be a sequence of functions, found {describe(targets)}.")
    for position, target in enumerate(targets):
        if not callable(target):
            raise TypeError(f"{function}(): 'targets[{position}]' must be callable, found {describe(target)}.")
    if not targets:
        raise ArgumentError(f"{function}(): 'targets' is empty.")
    number = None if isinstance(index, ArrayBase) else plain_scalar(index)
    if number.__class__ is int:
        if not 0 <= number < len(targets):
            raise BoundsError(f"{function}(): 'index' is {number}, and there are {len(targets)} targets.")
        return _called(function, targets[number], args, kwargs)
    return call(function, index, "index", targets, _names(len(targets)), args, kwargs, mode, label)


def _called(function: str, target: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What a function returns that an ``int`` has chosen, unless ``active`` says that nothing takes part."""
    if "active" in kwargs:
        active = plain_scalar(kwargs["active"])
        if active.__class__ is not bool:
            raise ArgumentError(f"{function}(): 'active' must be a bool where 'index' is an int, found "
                                f"{describe(kwargs['active'])}.")
        if not active:
            return None
        if not _takes_active(target):
            del kwargs["active"]
    return target(*args, **kwargs)


def _takes_active(target: Callable[..., Any]) -> bool:
    """Whether a function has an argument ``active``, as far as it tells what it has."""
    try:
        parameters = inspect.signature(target).parameters
    except (TypeError, ValueError):
        return True
    return "active" in parameters or any(entry.kind is entry.VAR_KEYWORD for entry in parameters.values())
