"""Loops over arrays: ``dr.while_loop``.

In *symbolic* mode the compiler traces the body once, and the loop becomes part of a kernel; in *evaluated* mode each
iteration is a kernel of its own; *scalar* mode is a plain Python loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from .._base.array import ArrayBase
from .._base.typing import Ts
from .repetition import loop

__all__ = ["while_loop"]


def while_loop(state: tuple[*Ts], cond: Callable[[*Ts], ArrayBase | bool], body: Callable[[*Ts], tuple[*Ts]],
               labels: Sequence[str] = (), label: str | None = None,
               mode: Literal["scalar", "symbolic", "evaluated"] | None = None, strict: bool = True,
               compress: bool | None = None, max_iterations: int | None = None) -> tuple[*Ts]:
    """Repeat ``state = body(*state)`` for every element for which ``cond(*state)`` holds; returns the final state.

    ``state`` is a tuple of arrays, PyTrees of arrays, and other objects (which are passed on, but not tracked in
    symbolic mode). ``cond`` returns a mask, or a ``bool`` for a plain Python loop; it must be free of side effects.
    ``body`` returns state of the same structure and types. ``mode`` is ``'scalar'``, ``'symbolic'``, ``'evaluated'`` or
    ``None``, which decides by the type of the condition and ``JitFlag.SymbolicLoops``. ``labels`` name the entries of
    the state in messages. ``strict`` refuses changes of Python objects in symbolic mode. ``compress`` (by default,
    ``JitFlag.CompressLoops``) removes elements that have finished from evaluated loops; other modes ignore it.

    Symbolic loops are traced once, become part of a kernel, and evaluate nothing; evaluated ones evaluate the state
    once for each iteration. ``body`` may write by index (``dr.scatter``, ``x[i] = value`` …) to arrays of the state and
    to others, which happens for the elements that are still in the loop. What it does in place, to arrays (``x += 1``),
    lists, dictionaries and objects that it is given or refers to, it does to the caller's, for these elements; what it
    returns instead of them leaves them alone. In symbolic loops each element writes one value at a time by index, and
    what is written can only be read by index; a write to an array that ``body`` has made itself raises a
    ``RuntimeError``. If something raises, all arrays are as they were before, but for what iterations of an evaluated
    loop have written by index that a kernel has done. Raises a ``TypeError`` if the body changes the structure or a
    type of the state; tensors keep their shape, too, but those of one element are broadcast to that of others they
    meet, or of the condition. What ``cond`` and ``body`` raise is raised as an exception of the same class that is a
    ``RuntimeError``, too.

    Evaluated loops keep elements that have finished, and compute with them for nothing, unless ``compress`` is set.
    Then ``cond`` and ``body`` are called with the elements that are left, once a quarter of those that were has
    finished: arrays of the state become smaller, while those that are read or written by index are shared by all
    elements and stay as they are. Arrays of all elements that the functions refer to, without being state, raise a
    ``RuntimeError`` when they meet smaller ones. What depends on several elements, such as ``dr.sum``, is computed of
    those that are left. Loops of one element, and those whose state has tensors of several dimensions, are run as
    without it.

    Sizes of the state are equal or 1, but for what is read or written by index or left alone. A loop has no elements if
    any of its state has none: nothing happens, and what the body would change has none afterwards, either. (Evaluated
    loops call ``body`` only if the condition holds for some element, and return the state as it is otherwise.)

    Differentiable. A symbolic loop that writes what is differentiated by index has no derivative of its own: it is run
    in evaluated mode instead, together with the symbolic constructs around it. ``body`` is not called
    again when derivatives are computed, which are those of what was traced. Reverse mode keeps the state of each
    iteration, unless the body does nothing with what is differentiated but to add to it: for ``max_iterations`` of
    them, for as many as the condition allows if it counts (``i < 48``), or else for as many as there are, which an
    evaluation finds out. Gradients of elements that take more than ``max_iterations`` are NaN, and a ``RuntimeError``
    says so the next time that the program waits for a result. Within loops, branches and calls, a loop without a bound
    computes its state again for each iteration.

    >>> from drjit.llvm import Int
    >>> steps, x = dr.while_loop(
    ...     state=(Int(0), Int(1, 5, 100)),
    ...     cond=lambda steps, x: x < 100,
    ...     body=lambda steps, x: (steps + 1, x * 2))
    >>> steps, x
    ([7, 5, 0], [128, 160, 100])
    """
    return loop(state, cond, body, labels, label, mode, strict, compress,  # type: ignore[no-any-return]
                max_iterations)
