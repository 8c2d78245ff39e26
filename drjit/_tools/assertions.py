"""Assertions about arrays, which debug mode checks."""

from __future__ import annotations

import functools
import sys
import traceback
from collections.abc import Callable
from itertools import islice
from typing import Any, NoReturn

import drjit_core as core
from drjit_core import IncompatibleSizes, JitFlag, Node, flag, innermost, is_internal, ops

from .._access.lanes import TRUE, with_lanes
from .._base.array import LIMIT, ArrayBase
from .._base.errors import ArgumentError, describe, translate
from .._base.values import is_ndarray, plain_scalar
from .._functions.comparison import holds
from .._functions.reductions import any as _any
from .._promotion.promote import wrap_like
from .._trees.pytree import leaves, walk
from .printing import Message, is_deferred, message, message_now, with_arrays, write_later

__all__ = ["assert_equal", "assert_false", "assert_true"]


def _check(function: str, failing: Callable[[], list[Any]], fmt: str | None, args: tuple[Any, ...],
           kwargs: dict[str, Any], limit: int, tb_depth: int, tb_skip: int) -> None:
    """Raise if any entry of ``failing()``, a list of bools and masks, is set; in debug mode only.

    Where something is symbolic, report it after the next evaluation, on the standard error stream.
    """
    if not flag(JitFlag.Debug):
        return
    for name, number in (("tb_depth", tb_depth), ("tb_skip", tb_skip)):
        if number.__class__ is not int or number < 0:
            raise TypeError(f"{function}(): '{name}' must be an int >= 0, found {number!r}.")
    conditions = failing()

    def text() -> Message:
        return message(function, "" if fmt is None else fmt, args, kwargs, "", sys.stderr, limit)

    if innermost() is not None:  # nothing is symbolic elsewhere
        found = text()
        if any(is_deferred(found, mask) for mask in (True, *conditions)):
            _report_later(found, [node for mask in conditions for node in _masks(mask)], tb_depth, tb_skip)
            return
    masks = [mask for mask in conditions if isinstance(mask, ArrayBase)]
    others = [mask for mask in conditions if not isinstance(mask, ArrayBase)]
    if core.state.recording is None or any(others) or not with_arrays(
            text(), masks, lambda found, masks: _judge(masks, lambda: found, fmt is not None)):
        _judge([*others, *masks], text, fmt is not None)


def _judge(conditions: list[Any], text: Callable[[], Message], has_text: bool) -> None:
    failed = [mask for mask in conditions if _any_set(mask)]
    if failed:
        _fail(message_now(text(), _selection(failed)) if has_text else "")


def _fail(text: str) -> NoReturn:
    raise AssertionError(f"Assertion failure: {text}" if text else _PLAIN)


_PLAIN = "Assertion failure!"


def _masks(mask: Any) -> list[Node]:
    """The masks in which entries failed, if any may have."""
    if isinstance(mask, ArrayBase) and mask._dynamic:
        return mask._nodes()
    return [TRUE] if _any_set(mask) else []


def _report_later(text: Message, failed: list[Node], depth: int, skip: int) -> None:
    """Report the elements in which any of some masks is set when they are known."""
    if not failed:
        return
    start: list[Any] = ["Assertion failure: ", *text.pieces] if any(text.pieces) else [_PLAIN]
    try:
        active = functools.reduce(ops.or_, failed)
    except IncompatibleSizes as error:
        raise translate(error, text.function) from None
    write_later(text._replace(pieces=[*start, "\n" + _backtrace(depth, skip)], end="\n"), active)


def _backtrace(depth: int, skip: int) -> str:
    """Lines of the user's program that lead here, the innermost last: ``depth`` of them, without the last ``skip``."""
    frames = ((frame, line) for frame, line in traceback.walk_stack(sys._getframe()) if not is_internal(frame))
    found = traceback.StackSummary.extract(islice(frames, skip, skip + depth))
    return "".join(reversed(found.format()))


def _any_set(mask: Any) -> bool:
    """Whether a bool, or any entry of a mask, is set."""
    if not isinstance(mask, ArrayBase):
        return bool(mask)
    array: Any = mask
    nodes = [with_lanes(node, node.size) for node in array._nodes()]  # in evaluated loops: of lanes that take part
    return not holds(~wrap_like(array, type(array), nodes))


def _selection(failed: list[Any]) -> Any:
    """The entries that a message shows: where something failed, if what was compared has one width."""
    result: Any = None
    for mask in failed:
        while getattr(mask, "_depth", 0) > 0:
            mask = _any(mask, axis=0)
        if not getattr(mask, "_dynamic", False):  # a bool
            return True
        if result is not None and (type(mask) is not type(result) or mask.shape != result.shape):
            return True
        result = mask if result is None else result | mask
    return result


def _conditions(function: str, cond: Any, negate: bool) -> list[Any]:
    """The conditions in a PyTree, negated if need be."""
    found = []
    for leaf in leaves(cond, function):
        number = plain_scalar(leaf)
        if number.__class__ is bool:
            found.append(number is not negate)
        elif isinstance(leaf, ArrayBase) and leaf._kind == "b":
            mask: Any = leaf
            found.append(~mask if negate else mask)
        elif is_ndarray(leaf) and leaf.dtype.kind == "b":
            found.append(bool((~leaf if negate else leaf).any()))
        else:
            raise TypeError(f"{function}(): the condition must be a bool or a mask, found {describe(leaf)}.")
    return found


def assert_true(cond: Any, fmt: str | None = None, *args: Any, tb_depth: int = 3, tb_skip: int = 0,
                **kwargs: Any) -> None:
    """Raise an ``AssertionError`` if any entry of a mask (or a ``bool``) is false. Does nothing outside of debug mode.

    Debug mode is ``JitFlag.Debug``. PyTrees of masks and bools are traversed; anything else raises a ``TypeError``.
    ``fmt``, ``args`` and ``kwargs`` make a message as in :func:`format`; arrays in it show the entries that failed
    only. Evaluates the condition.

    In a symbolic loop, where the condition or an array in the message has no value yet, the check is made later: the
    first evaluation that follows writes what failed to the standard error stream, for all elements at once (as
    :func:`print` does), and raises nothing. The message ends with ``tb_depth`` lines of the program that lead here,
    after the innermost ``tb_skip`` have been left out, such as those of a function that checks arguments for others.

    >>> from drjit.llvm import Float
    >>> x = Float(1, -4, -2, 3)
    >>> with dr.scoped_set_flag(dr.JitFlag.Debug):
    ...     dr.assert_true(x >= 0, "Found negative values: {}", x)
    Traceback (most recent call last):
        ...
    AssertionError: Assertion failure: Found negative values: [-4, -2]
    """
    function = "drjit.assert_true"
    _check(function, lambda: _conditions(function, cond, True), fmt, args, kwargs, LIMIT, tb_depth, tb_skip)


def assert_false(cond: Any, fmt: str | None = None, *args: Any, tb_depth: int = 3, tb_skip: int = 0,
                 **kwargs: Any) -> None:
    """Raise an ``AssertionError`` if any entry of a mask (or a ``bool``) is true. See :func:`assert_true`.

    >>> from drjit.llvm import Float
    >>> with dr.scoped_set_flag(dr.JitFlag.Debug):
    ...     dr.assert_false(Float(1, 2) < 0)
    """
    function = "drjit.assert_false"
    _check(function, lambda: _conditions(function, cond, False), fmt, args, kwargs, LIMIT, tb_depth,
           tb_skip)


def assert_equal(arg0: Any, arg1: Any, fmt: str | None = None, *args: Any, limit: int = 3, tb_skip: int = 0,
                 **kwargs: Any) -> None:
    """Raise an ``AssertionError`` if any entries of two values differ (``==``). See :func:`assert_true`.

    PyTrees are compared leaf by leaf; other structures are a failure, too. ``limit`` is the number of elements that a
    message from a symbolic loop shows.

    >>> from drjit.llvm import Int
    >>> a, b = [Int(1, 2), {"x": 3}], [Int(1, 4), {"x": 3}]
    >>> with dr.scoped_set_flag(dr.JitFlag.Debug):
    ...     dr.assert_equal(a, b, "{}", a[0])
    Traceback (most recent call last):
        ...
    AssertionError: Assertion failure: [2]
    """
    function = "drjit.assert_equal"

    def failing() -> list[Any]:
        if isinstance(arg0, ArrayBase) or isinstance(arg1, ArrayBase):
            return [_different(arg0, arg1)]  # one of them may be a list of numbers
        pairs: list[tuple[Any, Any]] = []
        try:
            walk(function, lambda *pair: pairs.append(pair), arg0, arg1)
        except ArgumentError as error:
            if fmt is None:
                _fail(str(error))
            return [True]
        return [_different(*pair) for pair in pairs]

    _check(function, failing, fmt, args, kwargs, limit, _DEPTH, tb_skip)


#: Lines of the program in a message of :func:`assert_equal`.
_DEPTH = 3


def _different(left: Any, right: Any) -> Any:
    """Where two leaves differ: a bool or a mask."""
    equal = left == right
    if isinstance(equal, ArrayBase):
        mask: Any = equal
        return ~mask
    return bool(not equal.all()) if is_ndarray(equal) else not equal
