"""What ``dr.if_stmt`` does, in symbolic and evaluated mode."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import drjit_core as core
from drjit_core import KIND, ops

from .._access.lanes import TRUE, masked_access
from .._base.arguments import require_bool, require_label, require_mode
from .._base.errors import ArgumentError, describe
from .._trees.pytree import TreeSpec, flatten_nodes
from .choice import Results, SymbolicChoice, arrays_of, blended, nodes_of, run_directly, store_arguments, written
from .containers import containers_of
from .iteration import uninitialized
from .outside import Words
from .state import arguments, mask_of

__all__ = ["FUNCTION", "check", "run"]

FUNCTION = "drjit.if_stmt"
_LITERAL = KIND["literal"]
_LABELS = ["true_fn", "false_fn"]
_WORDS = Words(FUNCTION, "a side of this symbolic branch",
               "pass it in 'args' and return it from both functions", "branch",
               "run the branch with mode='evaluated'")


def check(args: Any, cond: Any, true_fn: Any, false_fn: Any, arg_labels: Any, rv_labels: Any, label: Any, mode: Any,
           strict: Any) -> None:
    """Refuse arguments of other types and values than they must have."""
    if type(args) is not tuple:
        raise TypeError(f"{FUNCTION}(): 'args' must be a tuple, found {describe(args)}.")
    if not callable(true_fn) or not callable(false_fn):
        name, value = ("false_fn", false_fn) if callable(true_fn) else ("true_fn", true_fn)
        raise TypeError(f"{FUNCTION}(): '{name}' must be callable, found {describe(value)}.")
    if mode is not None or label is not None or type(strict) is not bool:
        require_mode(FUNCTION, mode)
        require_bool(FUNCTION, "strict", strict)
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
                not all(isinstance(entry, str) for entry in labels):
            raise TypeError(f"{FUNCTION}(): '{name}' must be a sequence of strings, found {describe(labels)} "
                            f"({labels!r}).")


def _mask(cond: Any) -> core.Node:
    if type(cond) is bool:
        return core.literal(core.VarType.Bool.value, cond)
    mask = mask_of(cond)
    if mask is not None:
        return mask
    raise TypeError(f"{FUNCTION}(): 'cond' must be a one-dimensional mask array or a bool, found {describe(cond)}.")


@functools.lru_cache(16)
def _names(count: int) -> tuple[str, ...]:
    """What arguments are called that have no labels."""
    return tuple([f"args[{k}]" for k in range(count)])


def run(args: Any, cond: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], arg_labels: Sequence[str],
         rv_labels: Sequence[str], label: str | None, mode: str, strict: bool) -> Any:
    mask = _mask(cond)
    nodes, leaves, spec = flatten_nodes(args, FUNCTION)
    containers = None if spec.is_flat else containers_of(args, spec)
    if containers is None:
        return _run(nodes, leaves, spec, mask, true_fn, false_fn, arg_labels, rv_labels, label, mode, strict)
    true_fn, false_fn = containers.wrapped(true_fn), containers.wrapped(false_fn)
    return containers.kept(
        _run(nodes, leaves, spec, mask, true_fn, false_fn, arg_labels, rv_labels, label, mode, strict))


def _run(nodes: list[core.Node], leaves: list[Any], spec: TreeSpec, mask: core.Node, true_fn: Callable[..., Any],
         false_fn: Callable[..., Any], arg_labels: Sequence[str], rv_labels: Sequence[str], label: str | None,
         mode: str, strict: bool) -> Any:
    results = Results(FUNCTION, tuple(rv_labels), strict, ", or pass strict=False")
    names = tuple(arg_labels) or _names(len(spec.children or ()))
    if mask.size:
        _require_initialized(nodes, leaves, spec, names)
    if mode == "evaluated" or not mask.size:
        return _evaluated(mask, nodes, leaves, spec, true_fn, false_fn, results)
    if mask.kind == _LITERAL:
        function = true_fn if mask.payload else false_fn
        return run_directly(FUNCTION, function, False, mask.size, nodes, leaves, spec)
    try:
        return SymbolicChoice(_WORDS, mask, None, label, _LABELS, [true_fn, false_fn], False, nodes, leaves, spec,
                              names, results).run()
    except core.NoDerivative:  # of writes, for example: both sides have some
        results.spec = None
        return _evaluated(mask, nodes, leaves, spec, true_fn, false_fn, results)


def _require_initialized(nodes: list[core.Node], leaves: list[Any], spec: TreeSpec, names: Sequence[str]) -> None:
    position = uninitialized(nodes, spec)
    if position >= 0:
        raise ArgumentError(f"{FUNCTION}(): the argument '{spec.paths(names)[position]}' of type "
                            f"{leaves[position]._name} is empty; it must be initialized before the branch.")


def _evaluated(mask: core.Node, nodes: list[core.Node], leaves: list[Any], spec: TreeSpec, true_fn: Callable[..., Any],
               false_fn: Callable[..., Any], results: Results) -> Any:
    """Compute both sides, and join them. What one side has written to is what the other finds."""
    original = nodes
    with masked_access(TRUE):  # which is the scope of what is known of versions
        before = arguments(FUNCTION, spec, nodes, leaves)
        arrays = arrays_of(before, spec, FUNCTION)
        with masked_access(mask, some=False):
            yes = results.add(true_fn(*before), "true_fn")
        nodes = written(nodes, nodes_of(arrays))
        before = arguments(FUNCTION, spec, nodes, leaves)
        arrays = arrays_of(before, spec, FUNCTION)
        with masked_access(ops.inv(mask), some=False):
            no = results.add(false_fn(*before), "false_fn")
        nodes = written(nodes, nodes_of(arrays))
        store_arguments(leaves, original, nodes)
        return results.rebuilt([blended(_WORDS, mask, position, first, last, results)
                                for position, (first, last) in enumerate(zip(yes, no, strict=True))])
