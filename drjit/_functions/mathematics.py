"""Elementwise functions with rules of their own: what they do is not the same operation on each component.

Those of the op table's rows have their documentation there (:mod:`drjit_core.ops`); all of them, and those of the rows
that need no more than what :mod:`drjit._functions.from_table` makes of them, are in
:mod:`drjit._functions.elementwise`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, TypeVar

import drjit_core as core
from drjit_core import FUNCTIONS as ROWS
from drjit_core import TYPES, UnsupportedType, cast, ops

from .._arrays.broadcasting import tensor_select
from .._arrays.operators import power as _array_power
from .._arrays.operators import reverse_power as _array_reverse_power
from .._base.array import ArrayBase
from .._base.errors import CORE_ERRORS, FAILURES, ArgumentError, CallSite, SizeError, describe, translate
from .._base.types import BOOL, INT32, INT64, UINT32, UINT64, retype
from .._base.typing import ArrayT
from .._base.values import is_ndarray, plain_scalar, scalar_type_of
from .._promotion.componentwise import of_three
from .._promotion.operations import FMA, LT, MUL
from .._promotion.plans import SELECT, Operation, apply, of_others, operands
from .._promotion.promote import wrap, wrap_like
from .._trees.pytree import is_pytree, transform
from .from_table import dress, from_numpy, make, on_numbers, owner_of, refuse

__all__ = ["OF_ROWS", "deg2rad", "mul_wide", "rad2deg", "reinterpret_array", "step"]

_Function = TypeVar("_Function", bound=Callable[..., Any])


def _of_row(function: _Function) -> _Function:
    """Decorator: a function takes the place of the one that its row would be, with the row's documentation."""
    row = ROWS[function.__name__]
    OF_ROWS[row.name] = dress(row, function, documented=row.name in _DOCUMENTED)
    return function


#: The functions here that take the place of what would be made of a row, by name.
OF_ROWS: dict[str, Callable[..., Any]] = {}
#: Rows whose documentation says all.
_DOCUMENTED = {"select", "power"}


def _array_among(*args: Any) -> ArrayBase | None:
    return next((arg for arg in args if isinstance(arg, ArrayBase)), None)


def _is_special(value: Any) -> bool:
    return isinstance(value, ArrayBase) and value._special not in ("", "tensor")


# --- interpolation and powers ----------------------------------------------------------------------------------------

_lerp = make("lerp")


@_of_row
def lerp(a: Any, b: Any, t: Any) -> Any:
    """See the row."""
    if _is_special(a) or _is_special(b) or _is_special(t):
        array = _array_among(a, b, t)
        assert array is not None
        site = CallSite("drjit.lerp", type(array))
        if isinstance(a, ArrayBase) and a._kind != "f":  # others may have no negative numbers
            types = [value._type for value in (a, b, t) if isinstance(value, ArrayBase)]
            a = retype(type(a), functools.reduce(core.common_type, types))(a)
        rest = apply(FMA, site, (-a, t, a)) if isinstance(a, ArrayBase) or isinstance(t, ArrayBase) else a - a * t
        return apply(FMA, site, (b, t, rest))
    return _lerp(a, b, t)


@_of_row
def power(arg0: Any, arg1: Any, /) -> Any:
    """See the row."""
    array = _array_among(arg0, arg1)
    if array is None:
        if is_ndarray(arg0) or is_ndarray(arg1):
            return power(from_numpy(arg0, "drjit.power", "arg0"), from_numpy(arg1, "drjit.power", "arg1"))
        result = of_others("power", (arg0, arg1))
        if result is not NotImplemented:
            return result
        return on_numbers(ROWS["power"], "drjit.power", ("arg0", "arg1"), (arg0, arg1))
    try:
        if isinstance(arg0, ArrayBase):
            result = arg0 ** arg1 if arg0._special or _is_tensor(arg1) else _array_power(arg0, arg1)
        else:
            result = arg0 ** arg1 if array._special else _array_reverse_power(array, arg0)
    except (ArgumentError, SizeError) as error:  # which are about the operator
        reason = str(error).partition("(): ")[2]
        raise type(error)(f"drjit.power(<{array._name}>): {reason}" if reason else str(error)) from None
    if result is NotImplemented:
        raise ArgumentError(f"drjit.power(): cannot combine {describe(arg0)} and {describe(arg1)}.")
    return result


# --- selection -------------------------------------------------------------------------------------------------------


@_of_row
def select(arg0: Any, arg1: Any, arg2: Any) -> Any:
    """See the row."""
    function = "drjit.select"
    try:
        result = of_three(SELECT, arg0, arg1, arg2)
    except FAILURES as error:
        raise translate(error, CallSite(function, owner_of(arg1, arg2, arg0)), (arg0, arg1, arg2)) from None
    if result is not None:
        return result if result.__class__ is arg1.__class__ else _kept(result, arg1, arg2)
    if arg0.__class__ is bool or type(arg0).__name__ in ("bool_", "bool"):
        if _is_tensor(arg1) or _is_tensor(arg2):
            return tensor_select(function, bool(arg0), arg1, arg2)
        if isinstance(arg1, ArrayBase) or isinstance(arg2, ArrayBase):
            return _kept(apply(SELECT, CallSite(function, owner_of(arg1, arg2)), (bool(arg0), arg1, arg2)), arg1, arg2)
        return arg1 if arg0 else arg2
    if is_ndarray(arg0) and scalar_type_of(arg0) == BOOL:
        array = _array_among(arg1, arg2)
        arg0 = from_numpy(arg0, function, "arg0", None if array is None else type(array))
    if not isinstance(arg0, ArrayBase) or arg0._kind != "b":
        raise TypeError(f"{function}(): 'arg0', the condition, must be a mask array or a bool, found {describe(arg0)}.")
    if complex in (arg1.__class__, arg2.__class__) and (isinstance(arg1, ArrayBase) or isinstance(arg2, ArrayBase)):
        cls: Any = type(arg1 if isinstance(arg1, ArrayBase) else arg2)
        return select(arg0, cls(arg1) if arg1.__class__ is complex else arg1,
                      cls(arg2) if arg2.__class__ is complex else arg2)
    if is_pytree(type(arg1)) and type(arg1) is type(arg2):
        return transform(function, functools.partial(_select_leaf, arg0), arg1, arg2)
    if arg1 is None and arg2 is None:
        return None
    for name, value in (("arg1", arg1), ("arg2", arg2)):
        if not _selectable(value, None):
            raise ArgumentError(f"{function}(): 'arg1' and 'arg2' must be arrays, numbers or PyTrees of one structure; "
                                f"'{name}' is of type {describe(value)}.")
    return _kept(apply(SELECT, CallSite(function, owner_of(arg1, arg2, arg0)), (arg0, arg1, arg2)), arg1, arg2)


def _kept(result: Any, first: Any, second: Any) -> Any:
    """A choice between two values: one between arrays of instances is such an array."""
    if type(first) is type(second) and hasattr(type(first), "_registry"):
        return wrap(type(first), result._nodes())
    return result


def _select_leaf(condition: Any, first: Any, second: Any) -> Any:
    """One of two leaves of PyTrees."""
    return select(condition, first, second) if _selectable(first, second) else _same(first, second)


def _is_tensor(value: Any) -> bool:
    return isinstance(value, ArrayBase) and value._depth < 0


def _selectable(value: Any, _: Any) -> bool:
    return isinstance(value, (ArrayBase, core.Extent, list, tuple)) or plain_scalar(value) is not None or \
        is_ndarray(value)


def _same(a: Any, b: Any) -> Any:
    if a is b or a == b:
        return a
    raise ArgumentError(f"drjit.select(): cannot select between {a!r} and {b!r}.")


def step(arg0: Any, arg1: Any, /) -> Any:
    """Step function: the integer 0 where ``arg0 < arg1``, else 1.

    ``arg0`` and ``arg1`` are arrays, tensors, Python numbers or NumPy arrays. They broadcast, and the result has their
    shape, over 32-bit integers; it is traced, not evaluated.

    Raises a ``TypeError`` for other arguments, and a ``RuntimeError`` if sizes differ.

    >>> import drjit as dr
    >>> from drjit.llvm import Float
    >>> dr.step(Float(1, 2, 3), 2)
    [0, 1, 1]
    """
    function = "drjit.step"
    result = of_others("step", (arg0, arg1))
    if result is not NotImplemented:
        return result
    array = _array_among(arg0, arg1)
    if array is None:
        if is_ndarray(arg0) or is_ndarray(arg1):
            return step(from_numpy(arg0, function, "arg0"), from_numpy(arg1, function, "arg1"))
        return int(not _number(arg0, function, "arg0") < _number(arg1, function, "arg1"))
    return select(apply(LT, CallSite(function, type(array)), (arg0, arg1)), 0, 1)


def _number(value: Any, function: str, argument: str) -> Any:
    number = plain_scalar(value)
    if number is None:
        raise refuse(function, argument, value)
    return number


# --- products --------------------------------------------------------------------------------------------------------

_mulsign = make("mulsign")


@_of_row
def mulsign(arg0: Any, arg1: Any, /) -> Any:
    """See the row."""
    if isinstance(arg0, ArrayBase):  # promotion could fail, or lose the sign
        number = plain_scalar(arg1)
        factor = None
        if number is not None:
            factor = ROWS["sign"].number(number)  # type: ignore[misc]
        elif arg0._kind == "u" and _is_signed(arg1):
            factor = wrap_like(arg1, type(arg1), list(map(core.sign, arg1._nodes())))
        if factor is not None:
            return apply(MUL, CallSite("drjit.mulsign", type(arg0)), (arg0, factor))
    return _mulsign(arg0, arg1)


def _is_signed(value: Any) -> bool:
    return isinstance(value, ArrayBase) and value._kind == "i"


def mul_wide(arg0: Any, arg1: Any, /) -> Any:
    """All 64 bits of the product of two 32-bit integers: an array of 64-bit integers of the same signedness.

    ``arg0`` and ``arg1`` are arrays or tensors of 32-bit integers, Python ints, or NumPy arrays; they broadcast. The
    result is traced, not evaluated. Its upper half alone: :func:`drjit.mul_hi`.

    Raises a ``TypeError`` for other arguments, and a ``RuntimeError`` if sizes differ.

    >>> import drjit as dr
    >>> from drjit.llvm import UInt
    >>> dr.mul_wide(UInt(2**31, 5), 4)
    [8589934592, 20]
    """
    function = "drjit.mul_wide"
    array = _array_among(arg0, arg1)
    if array is None:
        if is_ndarray(arg0) or is_ndarray(arg1):
            return mul_wide(from_numpy(arg0, function, "arg0"), from_numpy(arg1, function, "arg1"))
        numbers = [_number(arg0, function, "arg0"), _number(arg1, function, "arg1")]
        if not all(number.__class__ is int for number in numbers):
            raise TypeError(f"{function}(): the arguments must be integer arrays or ints, found {arg0!r} and {arg1!r}.")
        return numbers[0] * numbers[1]
    args = (arg0, arg1)
    if array._depth < 0 or any(map(_is_tensor, args)):
        wide_args = [retype(type(arg), {INT32: INT64, UINT32: UINT64}.get(arg._type, arg._type))(arg)
                     if isinstance(arg, ArrayBase) and arg._kind in "iu" else arg for arg in args]
        return apply(MUL, CallSite(function, type(array)), wide_args)
    cls, lists = operands(function, args)
    wide = {INT32: INT64, UINT32: UINT64}.get(cls._type)
    try:
        if wide is None:
            raise UnsupportedType("mul_wide", TYPES[cls._type].name)
        nodes = [ops.mul(cast(a, wide), cast(b, wide)) for a, b in zip(*lists, strict=True)]
    except CORE_ERRORS as error:
        raise translate(error, CallSite(function, cls)) from None
    return wrap(retype(cls, wide), nodes)


#: The product with a number, which an array without elements has as well.
_SCALE = Operation("mul", core.scaled)


def _scaled(arg: Any, factor: float, function: str) -> Any:
    if is_ndarray(arg):
        arg = from_numpy(arg, function, "arg")
    if isinstance(arg, ArrayBase):
        return apply(_SCALE, CallSite(function, type(arg)), (arg, factor))
    return _number(arg, function, "arg") * factor


def rad2deg(arg: Any, /) -> Any:
    """An angle in radians, converted to degrees.

    ``arg`` is an array or tensor of numbers, a Python number, or a NumPy array; integers become floating-point numbers.
    The result is traced, not evaluated. Raises a ``TypeError`` for other arguments.

    >>> import drjit as dr
    >>> from drjit.llvm import Float
    >>> dr.rad2deg(Float(0, dr.pi))
    [0, 180]
    """
    return _scaled(arg, 180 / math.pi, "drjit.rad2deg")


def deg2rad(arg: Any, /) -> Any:
    """An angle in degrees, converted to radians.

    ``arg`` is an array or tensor of numbers, a Python number, or a NumPy array; integers become floating-point numbers.
    The result is traced, not evaluated. Raises a ``TypeError`` for other arguments.

    >>> import drjit as dr
    >>> from drjit.llvm import Float
    >>> dr.deg2rad(Float(0, 180))
    [0, 3.14159]
    """
    return _scaled(arg, math.pi / 180, "drjit.deg2rad")


def reinterpret_array(dtype: type[ArrayT], value: ArrayBase, /) -> ArrayT:
    """The bits of an array, taken as another type whose elements have the same size.

    ``dtype`` is an array type of the same kind and shape as the array ``value``. The result is traced, not evaluated.

    Raises a ``TypeError`` for other arguments, and if the sizes of the elements differ.

    >>> import drjit as dr
    >>> from drjit.llvm import Float, UInt
    >>> dr.reinterpret_array(UInt, Float(1))
    [1065353216]
    """
    function = "drjit.reinterpret_array"
    if not isinstance(dtype, type) or not issubclass(dtype, ArrayBase):
        raise TypeError(f"{function}(): 'dtype' must be an array type, found {describe(dtype)}.")
    if not isinstance(value, ArrayBase):
        raise TypeError(f"{function}(): 'value' must be a Dr.Jit array, found {describe(value)}.")
    if dtype._record[2:4] != value._record[2:4]:
        raise ArgumentError(f"{function}(): {value._name} and {dtype._name} differ in shape.")
    try:
        nodes = [core.bitcast(node, dtype._type) for node in core.moved(value._nodes(), dtype._where, function)]
        return wrap_like(value, dtype, nodes if dtype._record.diff else list(map(core.primal, nodes)))  # type: ignore[no-any-return]
    except CORE_ERRORS as error:
        raise translate(error, f"{function}(<{value._name}>)") from None

