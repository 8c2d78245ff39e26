"""Loops over arrays: ``dr.while_loop``.

In *symbolic* mode the compiler traces the body once, and the loop becomes part of a kernel; in *evaluated* mode each
iteration is a kernel of its own, with ``select`` holding back the elements that have finished; *scalar* mode is a plain
Python loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import drjit_core as core
from drjit_core import JitFlag, Node, VarType, ops

from .._access.indirect import masked_access
from .._base.array import ArrayBase
from .._base.errors import CORE_ERRORS, ArgumentError, describe, translate
from .._base.typing import Ts
from .._promotion.promote import wrap_like
from .._trees.pytree import children, leaves, transform

__all__ = ["while_loop"]

_FUNCTION = "drjit.while_loop"
_BOOL = VarType.Bool.value


def while_loop(state: tuple[*Ts], cond: Callable[[*Ts], ArrayBase | bool], body: Callable[[*Ts], tuple[*Ts]],
               labels: Sequence[str] = (), label: str | None = None,
               mode: Literal["scalar", "symbolic", "evaluated"] | None = None, strict: bool = True,
               compress: bool | None = None, max_iterations: int | None = None) -> tuple[*Ts]:
    """Repeat ``state = body(*state)`` for every element for which ``cond(*state)`` holds; returns the final state.

    ``state`` is a tuple of arrays, PyTrees of arrays, and other objects (which are passed on, but not tracked in
    symbolic mode). ``cond`` returns a mask, or a ``bool`` for a plain Python loop; it must be free of side effects.
    ``body`` returns state of the same structure and types. ``mode`` is ``'scalar'``, ``'symbolic'``, ``'evaluated'`` or
    ``None``, which decides by the type of the condition and ``JitFlag.SymbolicLoops``. ``labels`` name the entries of
    the state in messages. ``strict`` refuses changes of Python objects in symbolic mode. ``compress`` and
    ``max_iterations`` are hints that do not change the result. Symbolic loops evaluate nothing.
    """
    if state.__class__ is not tuple:
        raise TypeError(f"{_FUNCTION}(): 'state' must be a tuple, found {describe(state)}.")
    for name, value in (("cond", cond), ("body", body)):
        if not callable(value):
            raise TypeError(f"{_FUNCTION}(): '{name}' must be callable, found {describe(value)}.")
    if mode not in (None, "scalar", "symbolic", "evaluated"):
        raise ArgumentError(f"{_FUNCTION}(): 'mode' must be 'scalar', 'symbolic', 'evaluated' or None, found {mode!r}.")
    if labels and len(labels) != len(state):
        raise ArgumentError(f"{_FUNCTION}(): found {len(labels)} labels for {len(state)} state variables.")
    if mode is None:
        try:
            first = cond(*_copy(state))
        except RuntimeError:
            _require_initialized(state, list(labels) or [f"state[{k}]" for k in range(len(state))])
            raise
        if first.__class__ is bool:
            mode = "scalar"
        else:
            mode = "symbolic" if core.flag(JitFlag.SymbolicLoops) else "evaluated"
    names = list(labels) or [f"state[{k}]" for k in range(len(state))]
    if mode == "scalar":
        state = _copy(state)
        while cond(*state):
            state = _checked(state, body(*state), names)
        return state
    if mode == "evaluated":
        return _evaluated(state, cond, body, names)
    try:
        return _symbolic(state, cond, body, names, label, strict)
    except CORE_ERRORS as error:
        raise translate(error, _FUNCTION) from error


def _copy(state: Any) -> Any:
    """State with arrays of its own, so that in-place changes do not reach those of the caller."""
    return transform(_FUNCTION, lambda leaf: wrap_like(leaf, type(leaf), list(leaf._nodes()))
                     if isinstance(leaf, ArrayBase) else leaf, state)


def _checked(before: tuple[Any, ...], after: Any, names: list[str]) -> tuple[Any, ...]:
    """The result of the body, if it is consistent with the state before."""
    if after.__class__ is not tuple:
        if len(before) == 1:
            after = (after,)
        else:
            raise TypeError(f"{_FUNCTION}(): 'body' must return a tuple of {len(before)} state variables, found "
                            f"{describe(after)}.")
    if len(after) != len(before):
        raise ArgumentError(f"{_FUNCTION}(): 'body' must return {len(before)} state variables, found {len(after)}.")
    for name, old, new in zip(names, before, after, strict=True):
        _compare(name, old, new)
    return after  # type: ignore[no-any-return]


def _compare(name: str, old: Any, new: Any) -> None:
    if old.__class__ is not new.__class__:
        raise TypeError(f"{_FUNCTION}(): the body of this loop changed the type of the state variable '{name}' from "
                        f"{describe(old)} to {describe(new)}.")
    if isinstance(old, ArrayBase):
        if len(old._nodes()) != len(new._nodes()):
            raise ArgumentError(f"{_FUNCTION}(): the body of this loop changed the number of components of the state "
                                f"variable '{name}' from {len(old._nodes())} to {len(new._nodes())}.")
        return
    items = children(old)
    if items is None:
        return
    found = dict(children(new) or ())
    if found.keys() != {key for key, _ in items}:
        raise ArgumentError(f"{_FUNCTION}(): the body of this loop changed the entries of the state variable '{name}'.")
    for key, child in items:
        _compare(f"{name}.{key}" if isinstance(key, str) else f"{name}[{key}]", child, found[key])


def _condition(value: Any) -> Node:
    if isinstance(value, ArrayBase) and value._kind == "b" and not value._depth:
        return value._nodes()[0]
    if value.__class__ is bool:
        return core.literal(_BOOL, value)
    raise TypeError(f"{_FUNCTION}(): 'cond' must return a one-dimensional mask array or a bool, found "
                    f"{describe(value)}.")


def _arrays(state: Any) -> list[ArrayBase]:
    return [leaf for leaf in leaves(state, _FUNCTION) if isinstance(leaf, ArrayBase) and leaf._dynamic]


def _nodes(state: Any) -> list[Node]:
    return [node for array in _arrays(state) for node in array._nodes()]


def _with_nodes(state: Any, nodes: list[Node]) -> Any:
    """State of the same structure with other nodes."""
    position = 0

    def visit(leaf: Any) -> Any:
        nonlocal position
        if not isinstance(leaf, ArrayBase) or not leaf._dynamic:
            return leaf
        count = len(leaf._nodes())
        position += count
        return wrap_like(leaf, type(leaf), nodes[position - count:position])

    return transform(_FUNCTION, visit, state)


def _require_initialized(state: tuple[Any, ...], names: list[str]) -> None:
    for name, value in zip(names, state, strict=True):
        for array in _arrays(value):
            if not array._width(_FUNCTION):
                raise ArgumentError(f"{_FUNCTION}(): the state variable '{name}' of type {array._name} is empty; it "
                                    "must be initialized before the loop.")


def _symbolic(state: tuple[Any, ...], cond: Callable[..., Any], body: Callable[..., Any], names: list[str],
              label: str | None, strict: bool) -> tuple[Any, ...]:
    _require_initialized(state, names)

    def run_condition(nodes: list[Node]) -> Node:
        return _condition(cond(*_with_nodes(state, nodes)))

    def run_body(nodes: list[Node]) -> list[Node]:
        before = _with_nodes(state, nodes)
        after = _checked(before, body(*before), names)
        if strict:
            for name, old, new in zip(names, state, after, strict=True):
                _require_unchanged(name, old, new)
        return _nodes(after)

    final: tuple[Any, ...] = _with_nodes(state, core.while_loop(_nodes(state), run_condition, run_body, label))
    return final


def _require_unchanged(name: str, old: Any, new: Any) -> None:
    for before, after in zip(leaves(old, _FUNCTION), leaves(new, _FUNCTION), strict=True):
        if before.__class__ in (bool, int, float, str) and before != after:
            raise ArgumentError(
                f"{_FUNCTION}(): the body of this loop changed the state variable '{name}' of type "
                f"{describe(before)} from {before!r} to {after!r}. Symbolic loops do not track Python objects: use a "
                "Dr.Jit array instead, or pass strict=False.")


def _evaluated(state: tuple[Any, ...], cond: Callable[..., Any], body: Callable[..., Any],
               names: list[str]) -> tuple[Any, ...]:
    active: Node | None = None
    state = _copy(state)
    while True:
        core.evaluate(_nodes(state))
        test = _condition(cond(*_copy(state)))
        active = test if active is None else getattr(ops, "and")(active, test)
        if not active.size or not core.read_element(core.reduce(active, core.ReduceOp.Or.value), 0):
            return state
        core.evaluate((active,))
        mask = active

        def blend(old: Any, new: Any, mask: Node = mask) -> Any:
            if not isinstance(old, ArrayBase) or not old._dynamic:
                return new
            pairs = zip(new._nodes(), old._nodes(), strict=True)
            return wrap_like(old, type(old), [a if a is b else ops.select(mask, a, b) for a, b in pairs])

        before = _copy(state)
        with masked_access(mask):
            after = _checked(state, body(*before), names)
        state = transform(_FUNCTION, blend, state, after)
