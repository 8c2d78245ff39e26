"""Calls of functions that an array of indices chooses: ``dr.switch``.

In *symbolic* mode the compiler traces each function once, and the call becomes part of a kernel, which jumps to what
the elements of a packet ask for; in *evaluated* mode elements are grouped by function, each of which runs on its own.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from .._base.errors import ArgumentError, describe
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
    PyTrees of arrays, of one width, and other objects; all functions return values of one structure and the same types.
    A mask array that is the last positional argument, or the argument ``active``, says which elements take part; the
    functions see a mask that is set. The results of others, and of those whose index is too large, are zero.
    ``mode`` is ``'symbolic'``, ``'evaluated'`` or ``None``, which decides by ``JitFlag.SymbolicCalls``: symbolic calls
    are part of a kernel and evaluate nothing; evaluated ones evaluate the index, and run each function that it asks for
    on a part of the arguments. ``label`` names the call in listings.

    The functions may read and write arguments and other arrays by index; in evaluated calls, arguments of another size
    than the call's only, since of those each function is given a part. Debug mode warns of indices that are too large.
    Raises a ``TypeError`` for other types of indices and targets, an ``IndexError`` for an ``int`` beyond the targets,
    and a ``RuntimeError`` if the results of the functions differ in structure or type. Differentiable: where
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
    number = plain_scalar(index)
    if number.__class__ is int:
        if not 0 <= number < len(targets):
            raise IndexError(f"{function}(): 'index' is {number}, and there are {len(targets)} targets.")
        return targets[number](*args, **kwargs)
    return call(function, index, "index", targets, _names(len(targets)), args, kwargs, mode, label)
