"""What ``dr.if_stmt`` does, in symbolic and evaluated mode."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import drjit_core as core
from drjit_core import KIND, JitFlag, current, ops

from .._access.store import end_since, standing
from .._base.arguments import require_bool, require_label, require_mode
from .._base.errors import ArgumentError, SizeError, describe, presented
from .choice import SymbolicChoice, run_directly
from .given import Given, as_before
from .results import Results, Returned
from .sides import evaluated
from .state import mask_of, no_mask, shape_of, told_apart, uninitialized
from .wording import Words

__all__ = ["branch"]

FUNCTION = "drjit.if_stmt"
_LITERAL = KIND["literal"]
_SYMBOLIC_CONDITIONALS = JitFlag.SymbolicConditionals.value
_WORDS = Words(FUNCTION, "a side of this symbolic branch", "branch", "run the branch with mode='evaluated'")


def branch(args: tuple[Any, ...], cond: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any],
           arg_labels: Sequence[str] = (), rv_labels: Sequence[str] = (), label: str | None = None,
           mode: str | None = None, strict: bool = True,
           fill: Callable[[Sequence[Returned]], None] | None = None, sides: tuple[str, str] = ("if", "else")) -> Any:
    """``dr.if_stmt``, where something may complete what both functions have returned before it is compared, and these
    are the two ``sides`` of the program's ``if`` for messages."""
    _check(args, true_fn, false_fn, arg_labels, rv_labels, label, mode, strict)
    if mode == "scalar" or mode is None and cond.__class__ is bool:
        return (true_fn if cond else false_fn)(*args)
    before = standing()
    try:
        given = Given(FUNCTION, args)
        if given.simple:
            return _joined(given, _mask(cond), cond, true_fn, false_fn, arg_labels, rv_labels, label, mode, strict,
                           fill, sides)
        with as_before(given):
            return _joined(given, _mask(cond), cond, true_fn, false_fn, arg_labels, rv_labels, label, mode, strict,
                           fill, sides)
    except Exception as error:
        end_since(before)
        raise presented(error, FUNCTION)  # noqa: B904


def _check(args: Any, true_fn: Any, false_fn: Any, arg_labels: Any, rv_labels: Any, label: Any, mode: Any,
           strict: Any) -> None:
    """Refuse arguments of other types and values than they must have."""
    if type(args) is not tuple:
        raise TypeError(f"{FUNCTION}(): 'args' must be a tuple, found {describe(args)}.")
    if not callable(true_fn) or not callable(false_fn):
        name, value = ("false_fn", false_fn) if callable(true_fn) else ("true_fn", true_fn)
        raise TypeError(f"{FUNCTION}(): '{name}' must be callable, found {describe(value)}.")
    if mode is not None:
        require_mode(FUNCTION, mode)
    if type(strict) is not bool:
        require_bool(FUNCTION, "strict", strict)
    if label is not None:
        require_label(FUNCTION, label)
    _check_labels("arg_labels", arg_labels)
    _check_labels("rv_labels", rv_labels)
    if arg_labels and len(arg_labels) != len(args):
        raise ArgumentError(f"{FUNCTION}(): 'arg_labels' has {len(arg_labels)} entr"
                            f"{'y' if len(arg_labels) == 1 else 'ies'} for {len(args)} "
                            f"argument{'s' * (len(args) != 1)}.")


def _check_labels(name: str, labels: Any) -> None:
    if type(labels) is not tuple or labels:
        if isinstance(labels, str) or not isinstance(labels, Sequence) or \
                [entry for entry in labels if not isinstance(entry, str)]:
            raise TypeError(f"{FUNCTION}(): '{name}' must be a sequence of strings, found {describe(labels)} "
                            f"({labels!r}).")


def _mask(cond: Any) -> core.Node:
    if type(cond) is bool:
        return core.literal(core.VarType.Bool.value, cond)
    mask = mask_of(cond)
    if mask is not None:
        return mask
    raise ArgumentError(f"{FUNCTION}(): 'cond' must be a one-dimensional mask array or a bool, found {no_mask(cond)}")


def _joined(given: Given, mask: core.Node, cond: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any],
            arg_labels: Sequence[str], rv_labels: Sequence[str], label: str | None, mode: str | None, strict: bool,
            fill: Callable[[Sequence[Returned]], None] | None, sides: tuple[str, str]) -> Any:
    """The results of both functions, joined."""
    given.nodes = told_apart(given.nodes)
    results = Results(FUNCTION, tuple(rv_labels), strict, ", or pass strict=False", fill, shape_of(cond, given.spec))
    names = tuple(arg_labels) or "args"
    if mode is None:
        mode = "symbolic" if current().flags & _SYMBOLIC_CONDITIONALS else "evaluated"
    try:
        if mask.kind == _LITERAL and mask.size and mode == "symbolic":
            function = true_fn if mask.payload else false_fn
            return run_directly(function, False, mask.size, given, results.lanes)
        if mode == "symbolic" and mask.size:
            results.optimizes = True
            try:
                return SymbolicChoice(_WORDS, mask, None, label, sides, [true_fn, false_fn], False, given, names,
                                      results).run()
            except core.NoDerivative:  # of writes, for example: both sides have some
                pass
        return evaluated(_WORDS, given, [mask, ops.inv(mask)], [true_fn, false_fn], sides, False, results)
    except (SizeError, core.IncompatibleSizes) as error:
        position = uninitialized(error, given.nodes, given.spec)
        if position < 0:
            raise
        raise ArgumentError(
            f"{FUNCTION}(): the argument '{given.spec.paths(names)[position]}' of type "
            f"{given.leaves[position]._name} is empty; it must be initialized before the branch.") from None
