"""Branches over arrays: ``dr.if_stmt``.

In *symbolic* mode the compiler traces both functions, and the branch becomes part of a kernel, which skips a side that
no element of a packet takes; in *evaluated* mode both are computed and joined by ``select``; *scalar* mode is a plain
``if``.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeVar

import drjit_core as core
from drjit_core import KIND, JitFlag, Node, ops

from .._access.lanes import TRUE, masked_access
from .._base.arguments import require_bool, require_label, require_mode
from .._base.array import ArrayBase
from .._base.errors import ArgumentError, describe, presented
from .._base.typing import Ts
from .._trees.classes import sole_array
from .._trees.pytree import TreeSpec, flatten_nodes
from .choice import Results, blended, run_directly, store_arguments, traced, written
from .iteration import uninitialized
from .outside import Words
from .state import arguments

__all__ = ["if_stmt"]

T = TypeVar("T")

_FUNCTION = "drjit.if_stmt"
_LITERAL = KIND["literal"]
_WORDS = Words(_FUNCTION, "a side of this symbolic branch",
               "pass it in 'args' and return it from both functions", "branch",
               "run the branch with mode='evaluated'")


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
    happens for the elements that take the side. Other changes of arrays that are no arguments (``x += 1``) raise a
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


def _check(args: Any, cond: Any, true_fn: Any, false_fn: Any, arg_labels: Any, rv_labels: Any, label: Any, mode: Any,
           strict: Any) -> None:
    """Refuse arguments of other types and values than they must have."""
    if args.__class__ is not tuple:
        raise TypeError(f"{_FUNCTION}(): 'args' must be a tuple, found {describe(args)}.")
    for name, value in (("true_fn", true_fn), ("false_fn", false_fn)):
        if not callable(value):
            raise TypeError(f"{_FUNCTION}(): '{name}' must be callable, found {describe(value)}.")
    require_mode(_FUNCTION, mode)
    require_bool(_FUNCTION, "strict", strict)
    require_label(_FUNCTION, label)
    for name, labels in (("arg_labels", arg_labels), ("rv_labels", rv_labels)):
        if labels == ():
            continue
        if isinstance(labels, str) or not isinstance(labels, Sequence) or \
                not all(isinstance(entry, str) for entry in labels):
            raise TypeError(f"{_FUNCTION}(): '{name}' must be a sequence of strings, found {describe(labels)} "
                            f"({labels!r}).")
    if arg_labels and len(arg_labels) != len(args):
        raise ArgumentError(f"{_FUNCTION}(): 'arg_labels' has {len(arg_labels)} entr"
                            f"{'y' if len(arg_labels) == 1 else 'ies'} for {len(args)} "
                            f"argument{'s' * (len(args) != 1)}.")
    if mode != "scalar" and cond.__class__ is not bool:
        _mask(cond)


def _mask(cond: Any) -> Node:
    if cond.__class__ is bool:
        return core.literal(core.VarType.Bool.value, cond)
    cond = sole_array(cond)
    if isinstance(cond, ArrayBase) and cond._kind == "b" and cond._depth <= 0 and cond._dynamic:
        return cond._nodes()[0]
    raise TypeError(f"{_FUNCTION}(): 'cond' must be a one-dimensional mask array or a bool, found {describe(cond)}.")


@functools.lru_cache(16)
def _names(count: int) -> tuple[str, ...]:
    """What arguments are called that have no labels."""
    return tuple([f"args[{k}]" for k in range(count)])


def _run(args: Any, cond: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], arg_labels: Sequence[str],
         rv_labels: Sequence[str], label: str | None, mode: str, strict: bool) -> Any:
    nodes, leaves, spec = flatten_nodes(args, _FUNCTION)
    mask = _mask(cond)
    results = Results(_FUNCTION, tuple(rv_labels), strict, ", or pass strict=False")
    names = tuple(arg_labels) or _names(len(args))
    if mask.size:
        _require_initialized(nodes, leaves, spec, names)
    if mode == "evaluated" or not mask.size:
        return _evaluated(mask, nodes, leaves, spec, true_fn, false_fn, results)
    functions = [("true_fn", true_fn), ("false_fn", false_fn)]
    if mask.kind == _LITERAL:
        function = true_fn if mask.payload else false_fn
        return run_directly(_FUNCTION, lambda values: function(*values), mask.size, nodes, leaves, spec)
    try:
        return traced(_WORDS, lambda values, targets, name_of, count, gives_way: core.cond(
            mask, values, targets[0], targets[1], label, name_of, count, gives_way),
                      lambda function, values: function(*values), functions, nodes, leaves, spec, names, results)
    except core.NoDerivative:  # of writes, for example: both sides have some
        results.spec = None
        return _evaluated(mask, nodes, leaves, spec, true_fn, false_fn, results)


def _require_initialized(nodes: list[Node], leaves: list[Any], spec: TreeSpec, names: Sequence[str]) -> None:
    position = uninitialized(nodes, spec)
    if position >= 0:
        raise ArgumentError(f"{_FUNCTION}(): the argument '{spec.paths(names)[position]}' of type "
                            f"{leaves[position]._name} is empty; it must be initialized before the branch.")


def _evaluated(mask: Node, nodes: list[Node], leaves: list[Any], spec: TreeSpec, true_fn: Callable[..., Any],
               false_fn: Callable[..., Any], results: Results) -> Any:
    """Compute both sides, and join them. What one side has written to is what the other finds."""
    original = nodes
    with masked_access(TRUE):  # which is the scope of what is known of versions
        before = arguments(_FUNCTION, spec, nodes, leaves)
        with masked_access(mask, some=False):
            yes = results.add(true_fn(*before), "true_fn")
        nodes = written(nodes, flatten_nodes(before, _FUNCTION)[0])
        before = arguments(_FUNCTION, spec, nodes, leaves)
        with masked_access(ops.inv(mask), some=False):
            no = results.add(false_fn(*before), "false_fn")
        nodes = written(nodes, flatten_nodes(before, _FUNCTION)[0])
        store_arguments(leaves, original, nodes)
        return results.rebuilt([blended(_WORDS, mask, position, first, last, results)
                                for position, (first, last) in enumerate(zip(yes, no, strict=True))])
