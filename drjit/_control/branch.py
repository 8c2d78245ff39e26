"""Branches over arrays: ``dr.if_stmt``.

In *symbolic* mode the compiler traces both functions, and the branch becomes part of a kernel, which skips a side that
no element of a packet takes; in *evaluated* mode both are computed and joined by ``select``; *scalar* mode is a plain
``if``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, TypeVar

from .._base.array import ArrayBase
from .._base.typing import Ts
from .conditional import branch

__all__ = ["if_stmt"]

T = TypeVar("T")


def if_stmt(args: tuple[*Ts], cond: ArrayBase | bool, true_fn: Callable[[*Ts], T], false_fn: Callable[[*Ts], T],
            arg_labels: Sequence[str] = (), rv_labels: Sequence[str] = (), label: str | None = None,
            mode: Literal["scalar", "symbolic", "evaluated"] | None = None, strict: bool = True) -> T:
    """``true_fn(*args) if cond else false_fn(*args)`` for every element.

    ``args`` is a tuple of arrays, PyTrees of arrays, and other objects. Both functions return values of one structure
    and the same types; tensors of one element are broadcast to the shape that the other function returns. ``cond`` is a
    mask, or a ``bool`` for a plain ``if``. ``mode`` is ``'scalar'``, ``'symbolic'``, ``'evaluated'`` or ``None``, which
    decides by the type of the condition and ``JitFlag.SymbolicConditionals``: symbolic branches are part of a kernel,
    and skip what no element needs; evaluated ones compute both sides. Neither evaluates anything. ``arg_labels`` and
    ``rv_labels`` name arguments and results in messages. ``strict`` refuses results that are Python objects and differ.

    Results have the size of the condition, which may be 0, or of what the functions compute, if one of both is 1.

    The functions may write by index (``dr.scatter``, ``x[i] = value`` …) to arguments and to other arrays, which
    happens for the elements that take the side. What they do in place (``x += 1``, entries, attributes) to objects that
    they are given or refer to, they do to the caller's, for these elements; each finds what was there before. A result
    that both return as they were given it, changed or not, is the caller's object. What the functions raise is raised
    as an exception of the same class that is a ``RuntimeError``, too, but by a plain ``if``. Differentiable: where
    derivatives are tracked, both sides are computed.

    >>> from drjit.llvm import Float
    >>> x = Float(-4, 9)
    >>> dr.if_stmt(args=(x,), cond=x > 0, true_fn=lambda x: dr.sqrt(x), false_fn=lambda x: x * 0 - 1)
    [-1, 3]
    """
    return branch(args, cond, true_fn, false_fn, arg_labels, rv_labels, label, mode,  # type: ignore[no-any-return]
                  strict, None, ("true_fn", "false_fn"))
