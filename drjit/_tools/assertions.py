"""Assertions about arrays, which debug mode checks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from drjit_core import JitFlag, flag

from .._base.array import ArrayBase
from .._base.errors import describe
from .._base.values import plain_scalar
from .._functions.comparison import holds
from .._functions.reductions import any as _any
from .printing import format_message

__all__ = ["assert_equal", "assert_false", "assert_true"]


def _check(function: str, failed: Callable[[], Any], fmt: str | None, args: tuple[Any, ...],
           kwargs: dict[str, Any]) -> None:
    """Raise if any entry of ``failed()``, a bool or a mask, is set; in debug mode only."""
    if not flag(JitFlag.Debug):
        return
    mask = failed()
    if mask.__class__ is not bool:
        if not isinstance(mask, ArrayBase) or mask._kind != "b":
            raise TypeError(f"{function}(): the condition must be a bool or a mask, found {describe(mask)}.")
        if any(node.scope for node in mask._nodes()):
            raise NotImplementedError(f"{function}(): not implemented yet for symbolic conditions.")
        if mask._depth > 0:
            while isinstance(mask, ArrayBase) and mask._depth > 0:
                mask = _any(mask, axis=0)
        if not _holds_any(mask):
            return
    elif not mask:
        return
    text = "" if fmt is None else format_message(function, fmt, args, kwargs, mask)
    raise AssertionError(f"Assertion failure: {text}" if text else "Assertion failure!")


def _holds_any(mask: Any) -> bool:
    return not holds(~mask) if isinstance(mask, ArrayBase) else bool(mask)


def _negated(cond: Any, function: str) -> Any:
    if cond.__class__ is bool or not isinstance(cond, ArrayBase):
        number = plain_scalar(cond)
        if number.__class__ is not bool:
            raise TypeError(f"{function}(): the condition must be a bool or a mask, found {describe(cond)}.")
        return not number
    array: Any = cond
    return ~array if cond._kind == "b" else cond


def assert_true(cond: Any, fmt: str | None = None, *args: Any, tb_depth: int = 3, tb_skip: int = 0,
                **kwargs: Any) -> None:
    """Raise an ``AssertionError`` if any entry of a mask (or a ``bool``) is false. Does nothing outside of debug mode.

    Debug mode is ``JitFlag.Debug``. ``fmt``, ``args`` and ``kwargs`` make a message as in :func:`format`; arrays in it
    show the entries that failed only. ``tb_depth`` and ``tb_skip`` concern symbolic conditions, which are yet to come.
    """
    function = "drjit.assert_true"
    _check(function, lambda: _negated(cond, function), fmt, args, kwargs)


def assert_false(cond: Any, fmt: str | None = None, *args: Any, tb_depth: int = 3, tb_skip: int = 0,
                 **kwargs: Any) -> None:
    """Raise an ``AssertionError`` if any entry of a mask (or a ``bool``) is true. See :func:`assert_true`."""
    function = "drjit.assert_false"
    _check(function, lambda: cond if isinstance(cond, ArrayBase) else not _negated(cond, function), fmt, args, kwargs)


def assert_equal(arg0: Any, arg1: Any, fmt: str | None = None, *args: Any, limit: int = 3, tb_skip: int = 0,
                 **kwargs: Any) -> None:
    """Raise an ``AssertionError`` if any entries of two values differ (``==``). See :func:`assert_true`."""
    def failed() -> Any:
        equal = arg0 == arg1
        return ~equal if isinstance(equal, ArrayBase) else not equal

    _check("drjit.assert_equal", failed, fmt, args, kwargs)
