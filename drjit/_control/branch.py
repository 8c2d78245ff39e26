"""Branches over arrays: ``dr.if_stmt``.

In *symbolic* mode the compiler traces both functions, and the branch becomes part of a kernel, which skips a side that
no element of a packet takes; in *evaluated* mode both are computed and joined by ``select``; *scalar* mode is a plain
``if``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, TypeVar

import drjit_core as core
from drjit_core import JitFlag

from .._base.array import ArrayBase
from .._base.errors import presented
from .._base.typing import Ts
from .conditional import FUNCTION as _FUNCTION
from .conditional import check as _check
from .conditional import run as _run

__all__ = ["if_stmt"]

T = TypeVar("T")


def if_stmt(args: tuple[*Ts], cond: ArrayBase | bool, true_fn: Callable[[*Ts], T], false_fn: Callable[[*Ts], T],
            arg_labels: Sequence[str] = (), rv_labels: Sequence[str] = (), label: str | None = None,
            mode: Literal["scalar", "symbolic", "evaluated"] | None = None, strict: bool = True) -> T:
    """``true_fn(*args) if cond else false_fn(*args)`` for every element.

    ``args`` is a tuple of arrays, PyTrees of arrays, and other objects. Both functions return values of one structure
    and the same types. ``cond`` is a mask, or a ``bool`` for a plain ``if``. ``mode`` is ``'scalar'``, ``'symbolic'``,
    ``'evaluated'`` or ``None``, which decides by the type of the condition and ``JitFlag.SymbolicConditionals``:
    symbolic branches are part of a kernel, and skip what no element needs; evaluated ones compute both sides. Neither
    evaluates anything. ``arg_labels`` and ``rv_labels`` name arguments and results in messages. ``strict`` refuses
    results that are Python objects and differ.

    The functions may write by index (``dr.scatter``, ``x[i] = value`` …) to arguments and to other arrays, which
    happens for the elements that take the side. Lists, dictionaries and objects that both return, changed or not, are
    the caller's, with what they have become. Other changes of arrays that are no arguments (``x += 1``) raise a
    ``RuntimeError`` in symbolic mode. Differentiable: where derivatives are tracked, both sides are computed.

    >>> from drjit.llvm import Float
    >>> x = Float(-4, 9)
    >>> dr.if_stmt(args=(x,), cond=x > 0, true_fn=lambda x: dr.sqrt(x), false_fn=lambda x: x * 0 - 1)
    [-1, 3]
    """
    _check(args, cond, true_fn, false_fn, arg_labels, rv_labels, label, mode, strict)
    if mode is None:
        mode = "scalar" if cond.__class__ is bool else \
            "symbolic" if core.flag(JitFlag.SymbolicConditionals) else "evaluated"
    if mode == "scalar":
        return (true_fn if cond else false_fn)(*args)
    try:
        return _run(args, cond, true_fn, false_fn, arg_labels, rv_labels, label, mode,  # type: ignore[no-any-return]
                    strict)
    except Exception as error:
        raise presented(error, _FUNCTION)  # noqa: B904
