"""Comparison within tolerances."""

from __future__ import annotations

import functools
import math
from typing import Any

from drjit_core import TYPES, Node, cast, literal, ops

from .._base.arguments import require_float
from .._base.array import ArrayBase
from .._base.errors import ArgumentError, SizeError, describe
from .._base.types import BFLOAT16, BOOL, FLOAT16, FLOAT32, FLOAT64
from .._base.values import is_ndarray, plain_scalar
from .._promotion.plans import elementwise
from .elementwise import abs as _abs
from .elementwise import isnan, maximum, select
from .reductions import all as _all
from .reductions import count as _count
from .reductions import max as _max

__all__ = ["allclose", "assert_allclose", "holds"]

#: Relative and absolute tolerance by the precision of the promoted arguments; integers are compared as float64.
_TOLERANCES = {FLOAT64: (1e-5, 1e-8), FLOAT32: (1e-3, 1e-5), FLOAT16: (1e-1, 1e-2), BFLOAT16: (1e-1, 1e-2)}

_or, _and = ops.or_, ops.and_


def _tolerances(type_: int, rtol: float | None, atol: float | None) -> tuple[float, float]:
    relative, absolute = _TOLERANCES.get(type_, _TOLERANCES[FLOAT64])
    return relative if rtol is None else rtol, absolute if atol is None else atol


def _given(function: str, rtol: Any, atol: Any) -> tuple[float | None, float | None]:
    """Tolerances that were given as arguments."""
    return (None if rtol is None else require_float(function, "rtol", rtol),
            None if atol is None else require_float(function, "atol", atol))


def _trace_close(rtol: float | None, atol: float | None, equal_nan: bool, a: Node, b: Node) -> Node:
    equal: Node = ops.eq(a, b)
    if a.type == BOOL or not equal.size:
        return equal
    if TYPES[a.type].kind != "f":
        a, b = cast(a, FLOAT64), cast(b, FLOAT64)
    relative, absolute = _tolerances(a.type, rtol, atol)
    bound = ops.fma(ops.abs(b), literal(a.type, relative), literal(a.type, absolute))
    close: Node = _or(equal, ops.le(ops.abs(ops.sub(a, b)), bound))
    return _or(close, _and(ops.neq(a, a), ops.neq(b, b))) if equal_nan else close


def _close(function: str, a: Any, b: Any, rtol: float | None, atol: float | None, equal_nan: bool) -> Any:
    """A mask, or a ``bool`` if no array is involved."""
    if isinstance(a, ArrayBase) or isinstance(b, ArrayBase):
        for value, like in ((a, b), (b, a)):
            if isinstance(value, ArrayBase) and value._depth < 0:
                other = like if isinstance(like, ArrayBase) or plain_scalar(like) is not None else type(value)(like)
                if isinstance(other, ArrayBase) and other._depth < 0 and other.shape != value.shape:
                    return False
                a, b = (a, other) if value is a else (other, b)
        for value, other, first in ((a, b, True), (b, a, False)):  # rows, each of which is compared
            if isinstance(value, ArrayBase) and not value._depth and other.__class__ in (list, tuple) and any(
                    entry.__class__ in (list, tuple, range) for entry in other):
                return all(holds(_close(function, a, row, rtol, atol, equal_nan) if first else
                                 _close(function, row, b, rtol, atol, equal_nan)) for row in other)
        if a.__class__ is complex or b.__class__ is complex:
            a, b = (type(b)(a), b) if a.__class__ is complex else (a, type(a)(b))
        return elementwise(function, functools.partial(_trace_close, rtol, atol, equal_nan), (a, b), mask=True)
    a, b = (value.tolist() if is_ndarray(value) else value for value in (a, b))
    if isinstance(a, (list, tuple, range)) and isinstance(b, (list, tuple, range)):
        if len(a) != len(b):
            raise SizeError(f"{function}(): incompatible sizes ({len(a)} and {len(b)})!")
        return all(holds(_close(function, x, y, rtol, atol, equal_nan)) for x, y in zip(a, b, strict=True))
    if isinstance(a, (list, tuple, range)) or isinstance(b, (list, tuple, range)):
        if _is_number(a) or _is_number(b):
            return all(holds(_close(function, x, b, rtol, atol, equal_nan)) for x in a) if _is_number(b) else \
                all(holds(_close(function, a, y, rtol, atol, equal_nan)) for y in b)
    if not _is_number(a) or not _is_number(b):
        raise ArgumentError(f"{function}(): the arguments must be arrays, numbers or sequences of such, found "
                            f"{describe(a)} and {describe(b)}.")
    relative, absolute = _tolerances(FLOAT64, rtol, atol)
    return bool(a == b or abs(a - b) <= abs(b) * relative + absolute or equal_nan and a != a and b != b)


def _is_number(value: Any) -> bool:
    return plain_scalar(value) is not None or value.__class__ is complex


def holds(mask: Any) -> bool:
    return bool(_all(mask, axis=None)) if isinstance(mask, ArrayBase) else mask


def allclose(a: Any, b: Any, rtol: float | None = None, atol: float | None = None, equal_nan: bool = False) -> bool:
    """Whether all elements of two arrays are equal, or ``|a - b| <= |b| * rtol + atol``.

    Evaluates the arrays, and waits for the result, a ``bool``. ``a`` and ``b`` are arrays, numbers or sequences, and
    are promoted to a common type, whose precision sets the tolerances that are not given: ``rtol`` and ``atol`` are
    1e-5 and 1e-8 for float64, integers and Python numbers, 1e-3 and 1e-5 for float32, 1e-1 and 1e-2 for float16
    and bfloat16. NaN equals nothing, or NaN if ``equal_nan``; an infinite ``b`` makes the bound infinite. Tensors of
    different shapes are not close; a ``RuntimeError`` is raised for other arrays whose sizes do not go together, a
    ``TypeError`` for anything else.

    >>> from drjit.llvm import Float
    >>> dr.allclose(Float(1, 2), Float(1, 2.0001))
    True
    >>> dr.allclose(Float(1, 2), [1, 2.1])
    False
    """
    function = "drjit.allclose"
    return holds(_close(function, a, b, *_given(function, rtol, atol), equal_nan))


def assert_allclose(actual: Any, desired: Any, rtol: float | None = None, atol: float | None = None,
                    equal_nan: bool = False, err_msg: str = "") -> None:
    """Raise an ``AssertionError`` unless :func:`allclose`; it tells how many elements differ, and by how much.

    ``err_msg`` is put before the message. Unlike the other assertions, this one does not depend on flags. Evaluates the
    arrays.

    >>> from drjit.llvm import Float
    >>> dr.assert_allclose(Float(1, 2), Float(1, 2.5))
    Traceback (most recent call last):
        ...
    AssertionError: Arrays are not equal to tolerance rtol=0.001, atol=1e-05
    Mismatched elements: 1 / 2 (50%)
    Max absolute difference: 0.5
    Max relative difference: 0.2
     ACTUAL: [1, 2]
     DESIRED: [1, 2.5]
    """
    function = "drjit.assert_allclose"
    rtol, atol = _given(function, rtol, atol)
    close = _close(function, actual, desired, rtol, atol, equal_nan)
    if holds(close):
        return
    message = f"{err_msg}\n" if err_msg else ""
    if not isinstance(close, ArrayBase):
        raise AssertionError(f"{message}assert_allclose() failed: actual={actual}, desired={desired}")
    raise AssertionError(message + _report(close, actual, desired, rtol, atol))


def _report(close: Any, actual: Any, desired: Any, rtol: float | None, atol: float | None) -> str:
    array: Any = actual if isinstance(actual, ArrayBase) else desired
    mismatched = _number(_count(~close, axis=None))
    total = math.prod(close.shape)
    used = next((n.type for v in (actual, desired) if isinstance(v, ArrayBase) for n in v._nodes()), FLOAT64)
    lines = []
    if array._kind != "b" and array._special in ("", "tensor"):
        zero = array * 0 if array._kind != "f" else select(isnan(array), 0, 0)
        difference = maximum(actual, desired) - (actual + desired - maximum(actual, desired)) \
            if array._kind == "u" else _abs(actual - desired + zero)
        used = next((n.type for n in difference._nodes()), used)
        lines.append(f"Max absolute difference: {_most(difference):.6g}")
        scale = _abs(desired + zero)
        ratio = select(scale == 0, 0, difference / scale) if array._kind == "f" else None
        if ratio is not None:
            lines.append(f"Max relative difference: {_most(ratio):.6g}")
    relative, absolute = _tolerances(used, rtol, atol)
    return "\n".join([f"Arrays are not equal to tolerance rtol={relative:.6g}, atol={absolute:.6g}",
                      f"Mismatched elements: {mismatched} / {total} ({100 * mismatched / total:.3g}%)", *lines,
                      f" ACTUAL: {actual!r}", f" DESIRED: {desired!r}"])


def _most(values: Any) -> Any:
    """The largest of some differences; NaN if none of them is a number."""
    found = _number(_max(values, axis=None))
    return found if found >= 0 else math.nan


def _number(value: Any) -> Any:
    return value.item() if isinstance(value, ArrayBase) else value
