"""Elementwise functions: ``dr.sqrt``, ``dr.fma``, ``dr.select`` and their like.

They are made from the rows of the compiler's op table and from its traced expansions. Each accepts arrays of any type
with the right kind of elements, and Python numbers, for which it computes at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import drjit_core as core
from drjit_core import KIND, OPS, TYPES, Node, literal, ops

from .._arrays.broadcasting import tensor_select
from .._arrays.operators import absolute
from .._arrays.operators import power as _array_power
from .._arrays.operators import reverse_power as _array_reverse_power
from .._base.array import ArrayBase
from .._base.errors import CORE_ERRORS, ArgumentError, describe, translate
from .._base.nodes import broadcast
from .._base.types import BOOL, FLOAT64, INT32, UINT32
from .._base.typing import ArrayT
from .._base.values import plain_scalar
from .._promotion.promote import alike, elementwise, operands, wrap, wrap_like
from .._trees.pytree import is_pytree, transform

__all__ = ["abs", "brev", "ceil", "clip", "cos", "exp", "floor", "fma", "isfinite", "isinf", "isnan", "lerp", "log",
           "log2i", "lzcnt", "maximum", "minimum", "mul_hi", "popcnt", "power", "rcp", "reinterpret_array", "round",
           "rsqrt", "select", "sin", "sincos", "sqrt", "trunc", "tzcnt"]

_new = object.__new__
Unary = Callable[[Any], Any]


def _fold(name: str) -> Callable[..., Any]:
    """The meaning of a row of the op table on Python numbers."""
    function = OPS[KIND[name]].fold
    assert function is not None
    return function


def _number(value: Any, function: str, argument: str = "arg") -> Any:
    number = plain_scalar(value)
    if number is None:
        raise TypeError(f"{function}(): '{argument}' must be a Dr.Jit array or a Python number, found "
                        f"{describe(value)}.")
    return number


def _unary(name: str, trace: Callable[[Node], Node], scalar: Callable[[Any], Any], doc: str) -> Unary:
    """A function of one argument whose result has the type of the argument."""
    function_name = f"drjit.{name}"

    def function(arg: Any, /) -> Any:
        if isinstance(arg, ArrayBase):
            result: Any
            if arg._special:
                result = arg._function(name)
                if result is not NotImplemented:
                    return result
            result = _new(arg.__class__)
            try:
                if arg._depth:
                    nodes = list(map(trace, arg._nodes()))
                    return wrap_like(arg, type(arg), nodes)
                else:
                    result._n = trace(arg._n)  # type: ignore[attr-defined]
                result._o = None
                return result
            except CORE_ERRORS as error:
                raise translate(error, f"{function_name}(<{arg._name}>)") from error
        return scalar(_number(arg, function_name))

    function.__name__ = function.__qualname__ = name
    function.__module__ = "drjit"
    function.__doc__ = doc
    return function


def _binary(name: str, trace: Callable[[Node, Node], Node], scalar: Callable[[Any, Any], Any],
            doc: str) -> Callable[[Any, Any], Any]:
    """A function of two arguments whose result has their promoted type."""
    function_name = f"drjit.{name}"

    def function(arg0: Any, arg1: Any, /) -> Any:
        cls = arg0.__class__
        if cls is arg1.__class__ and isinstance(arg0, ArrayBase) and not cls._depth:
            result: Any = _new(cls)
            try:
                result._n = trace(arg0._n, arg1._n)  # type: ignore[attr-defined]
            except CORE_ERRORS as error:
                raise translate(error, f"{function_name}(<{cls._name}>)") from error
            result._o = None
            return result
        array = arg0 if isinstance(arg0, ArrayBase) else arg1
        if isinstance(array, ArrayBase):
            return elementwise(f"{function_name}(<{array._name}>)", trace, (arg0, arg1))
        a, b = _number(arg0, function_name, "arg0"), _number(arg1, function_name, "arg1")
        number = scalar(a, b)
        return float(number) if float in (a.__class__, b.__class__) else +number  # which makes a bool an int

    function.__name__ = function.__qualname__ = name
    function.__module__ = "drjit"
    function.__doc__ = doc
    return function


def _float(function: Callable[[float], float]) -> Callable[[Any], float]:
    """The function on Python numbers with what IEEE 754 says where Python raises."""
    def compute(value: Any) -> float:
        try:
            return function(float(value))
        except OverflowError:
            return math.inf
        except ValueError:
            return math.nan

    return compute


_divide, _square_root = _fold("div"), _fold("sqrt")
_NUMBERS = "``arg``: array of floating-point numbers, or a Python number."
_INTEGERS = "``arg``: array of integers, or a Python ``int``, taken as 32 bits wide."

sqrt = _unary("sqrt", ops.sqrt, _float(_square_root), f"Square root, correctly rounded; NaN below zero. {_NUMBERS}")
ceil = _unary("ceil", ops.ceil, _float(_fold("ceil")), f"Smallest integer that is not below. {_NUMBERS}")
floor = _unary("floor", ops.floor, _float(_fold("floor")), f"Largest integer that is not above. {_NUMBERS}")
trunc = _unary("trunc", ops.trunc, _float(_fold("trunc")), f"The integer part: rounds towards zero. {_NUMBERS}")
round = _unary("round", ops.round, _float(_fold("round")),
               f"Nearest integer; halves go to the even one. {_NUMBERS}")
rcp = _unary("rcp", core.rcp, lambda a: _divide(1.0, a), f"Reciprocal ``1 / arg``. {_NUMBERS}")
rsqrt = _unary("rsqrt", core.rsqrt, lambda a: _divide(1.0, _square_root(a)),
               f"Reciprocal square root ``1 / sqrt(arg)``. {_NUMBERS}")
exp = _unary("exp", core.exp, _float(math.exp), f"Natural exponential. {_NUMBERS}")
log = _unary("log", core.log, lambda a: -math.inf if a == 0 else _float(math.log)(a),
             f"Natural logarithm; NaN below zero. {_NUMBERS}")
sin = _unary("sin", core.sin, _float(math.sin), f"Sine of an angle in radians. {_NUMBERS}")
cos = _unary("cos", core.cos, _float(math.cos), f"Cosine of an angle in radians. {_NUMBERS}")


abs = _unary("abs", absolute, abs, "Absolute value of numbers of any kind.")


# --- bits ------------------------------------------------------------------------------------------------------------


def _bits(name: str, scalar: Callable[[int], int]) -> Callable[[Any], int]:
    def compute(value: Any) -> int:
        if value.__class__ is not int or not 0 <= value < 1 << 32:
            raise TypeError(f"drjit.{name}(): 'arg' must be an array of integers or an int from 0 to 2**32 - 1, found "
                            f"{value!r}.")
        return scalar(value)

    return compute


def _typed(name: str) -> Callable[[int], Any]:
    return _bits(name, lambda value: _fold(name)(value, TYPES[UINT32]))


popcnt = _unary("popcnt", ops.popcnt, _typed("popcnt"), f"Number of one bits. {_INTEGERS}")
lzcnt = _unary("lzcnt", ops.lzcnt, _typed("lzcnt"), f"Number of leading zero bits. {_INTEGERS}")
tzcnt = _unary("tzcnt", ops.tzcnt, _typed("tzcnt"), f"Number of trailing zero bits. {_INTEGERS}")
brev = _unary("brev", ops.brev, _typed("brev"), f"The bits in reverse order. {_INTEGERS}")


def _trace_log2i(node: Node) -> Node:
    zeros = ops.lzcnt(node)
    return ops.sub(literal(node.type, TYPES[node.type].bits - 1), zeros)  # type: ignore[no-any-return]


log2i = _unary("log2i", _trace_log2i, _bits("log2i", lambda value: value.bit_length() - 1),
               f"Logarithm to the base two, rounded down. {_INTEGERS}")


def _scalar_mul_hi(a: Any, b: Any) -> int:
    scalar = INT32 if min(a, b) < 0 else UINT32
    low, high = TYPES[scalar].minimum, TYPES[scalar].maximum
    if a.__class__ is not int or b.__class__ is not int or not (low <= a <= high and low <= b <= high):
        raise TypeError("drjit.mul_hi(): the arguments must be integer arrays or 32-bit ints.")
    return (a * b) >> 32


mul_hi = _binary("mul_hi", ops.mul_hi, _scalar_mul_hi,
                 "Upper half of the product of two integers, computed with twice their width.")


# --- several arguments -----------------------------------------------------------------------------------------------

minimum = _binary("minimum", ops.minimum, _fold("minimum"), "Smaller of two values, elementwise; NaN if either is.")
maximum = _binary("maximum", ops.maximum, _fold("maximum"), "Larger of two values, elementwise; NaN if either is.")


def fma(arg0: Any, arg1: Any, arg2: Any, /) -> Any:
    """``arg0 * arg1 + arg2`` with a single rounding, elementwise over arrays and numbers of promoted type."""
    args = (arg0, arg1, arg2)
    array = arg0 if isinstance(arg0, ArrayBase) else next((arg for arg in args if isinstance(arg, ArrayBase)), None)
    if array is not None:
        return elementwise(f"drjit.fma(<{array._name}>)", ops.fma, args)
    numbers = [_number(arg, "drjit.fma", f"arg{k}") for k, arg in enumerate(args)]
    if float not in {number.__class__ for number in numbers}:
        return numbers[0] * numbers[1] + numbers[2]
    return _fold("fma")(*map(float, numbers), TYPES[FLOAT64])


def clip(value: Any, min: Any, max: Any) -> Any:
    """``value`` brought into the range from ``min`` to ``max``, elementwise."""
    return minimum(maximum(value, min), max)


def lerp(a: Any, b: Any, t: Any) -> Any:
    """Linear interpolation ``(1 - t) * a + t * b``, as two fused multiply-additions."""
    return fma(b, t, fma(-a, t, a))


def power(arg0: Any, arg1: Any, /) -> Any:
    """``arg0 ** arg1``: multiplications if ``arg1`` is an integral Python number, else ``exp2(log2(arg0) * arg1)``."""
    if isinstance(arg0, ArrayBase):
        result = arg0 ** arg1 if arg0._special or _is_tensor(arg1) else _array_power(arg0, arg1)
    elif isinstance(arg1, ArrayBase):
        result = arg0 ** arg1 if arg1._special else _array_reverse_power(arg1, arg0)
    else:
        base, exponent = _number(arg0, "drjit.power", "arg0"), _number(arg1, "drjit.power", "arg1")
        try:
            return math.pow(base, exponent)
        except ValueError:
            return math.inf if base == 0 else math.nan
        except OverflowError:
            return math.inf
    if result is NotImplemented:
        raise ArgumentError(f"drjit.power(): cannot combine {describe(arg0)} and {describe(arg1)}.")
    return result


def sincos(arg: Any, /) -> tuple[Any, Any]:
    """Sine and cosine of an angle in radians, sharing their work."""
    if isinstance(arg, ArrayBase):
        if arg._special:
            result = arg._function("sincos")
            if result is not NotImplemented:
                return result  # type: ignore[no-any-return]
        try:
            pairs = [core.sincos(node) for node in arg._nodes()]
        except CORE_ERRORS as error:
            raise translate(error, f"drjit.sincos(<{arg._name}>)") from error
        return wrap_like(arg, type(arg), [s for s, _ in pairs]), wrap_like(arg, type(arg), [c for _, c in pairs])
    number = _number(arg, "drjit.sincos")
    return _float(math.sin)(number), _float(math.cos)(number)


def select(arg0: Any, arg1: Any, arg2: Any) -> Any:
    """``arg1`` where the mask ``arg0`` is set, else ``arg2``, elementwise.

    ``arg0`` is a mask array or a ``bool``, which selects one of the arguments as a whole. ``arg1`` and ``arg2`` are
    arrays, numbers, or PyTrees of one structure, whose entries are selected likewise.
    """
    function = "drjit.select"
    if isinstance(arg0, ArrayBase) and arg0._kind == "b" and isinstance(arg1, ArrayBase) \
            and arg0.__class__ is arg1._mask:
        found = alike((arg1, arg2))
        if found is not None:
            cls, (first, second) = found
            try:
                return wrap(cls, list(map(ops.select, arg0._nodes(), first, second)))
            except CORE_ERRORS as error:
                raise translate(error, f"{function}(<{cls._name}>)") from error
    if arg0.__class__ is bool or type(arg0).__name__ in ("bool_", "bool"):
        if _is_tensor(arg1) or _is_tensor(arg2):
            return tensor_select(function, bool(arg0), arg1, arg2)
        if isinstance(arg1, ArrayBase) or isinstance(arg2, ArrayBase):
            cls, (first, second) = operands(function, (arg1, arg2))
            try:
                return wrap(cls, [_chosen(arg0, a, b) for a, b in zip(first, second, strict=True)])
            except CORE_ERRORS as error:
                raise translate(error, function) from error
        return arg1 if arg0 else arg2
    if not isinstance(arg0, ArrayBase) or arg0._kind != "b":
        raise TypeError(f"{function}(): 'arg0' must be a mask array or a bool, found {describe(arg0)}.")
    if complex in (arg1.__class__, arg2.__class__) and (isinstance(arg1, ArrayBase) or isinstance(arg2, ArrayBase)):
        cls: Any = type(arg1 if isinstance(arg1, ArrayBase) else arg2)
        return select(arg0, *(cls(value) if value.__class__ is complex else value for value in (arg1, arg2)))
    if is_pytree(type(arg1)) and type(arg1) is type(arg2):
        return transform(function, lambda a, b: select(arg0, a, b) if _selectable(a, b) else _same(a, b), arg1, arg2)
    if arg1 is None and arg2 is None:
        return None
    if not (_selectable(arg1, arg2) and _selectable(arg2, arg1)):
        raise ArgumentError(f"{function}(): 'arg1' and 'arg2' must be arrays, numbers or PyTrees of one structure, "
                            f"found {describe(arg1)} and {describe(arg2)}.")
    if _is_tensor(arg0) or _is_tensor(arg1) or _is_tensor(arg2):
        return tensor_select(f"{function}(<{arg0._name}>)", arg0, arg1, arg2)
    cls, (masks, first, second) = operands(f"{function}(<{arg0._name}>)", (arg1, arg2), mask=arg0)
    try:
        return wrap(cls, list(map(ops.select, masks, first, second)))
    except CORE_ERRORS as error:
        raise translate(error, f"{function}(<{cls._name}>)") from error


def _chosen(condition: Any, first: Node, second: Node) -> Node:
    """One of two nodes, as wide as both together."""
    return broadcast(first if condition else second, core.broadcast_size("select", first, second))


def _is_tensor(value: Any) -> bool:
    return isinstance(value, ArrayBase) and value._depth < 0


def _selectable(value: Any, _: Any) -> bool:
    return isinstance(value, (ArrayBase, list, tuple)) or plain_scalar(value) is not None \
        or type(value).__name__ == "ndarray"


def _same(a: Any, b: Any) -> Any:
    if a is b or a == b:
        return a
    raise ArgumentError(f"drjit.select(): cannot select between {a!r} and {b!r}.")


# --- classification --------------------------------------------------------------------------------------------------


def _classify(name: str, trace: Callable[[Node], Node], otherwise: bool, scalar: Callable[[Any], bool],
              doc: str) -> Unary:
    function_name = f"drjit.{name}"

    def function(arg: Any, /) -> Any:
        if isinstance(arg, ArrayBase):
            return wrap_like(arg, arg._mask, [
                trace(node) if arg._kind == "f" else literal(BOOL, otherwise, node.size) for node in arg._nodes()])
        return scalar(_number(arg, function_name))

    function.__name__ = function.__qualname__ = name
    function.__module__ = "drjit"
    function.__doc__ = doc
    return function


isnan = _classify("isnan", lambda n: ops.neq(n, n), False, math.isnan, "Whether values are NaN: a mask, or a ``bool``.")
isinf = _classify("isinf", lambda n: ops.eq(ops.abs(n), literal(n.type, math.inf)), False, math.isinf,
                  "Whether values are infinite: a mask, or a ``bool``.")
isfinite = _classify("isfinite", lambda n: ops.lt(ops.abs(n), literal(n.type, math.inf)), True, math.isfinite,
                     "Whether values are neither infinite nor NaN: a mask, or a ``bool``.")


def reinterpret_array(dtype: type[ArrayT], value: ArrayBase, /) -> ArrayT:
    """The bits of an array, taken as another type whose elements have the same size."""
    if not isinstance(value, ArrayBase) or not isinstance(dtype, type) or not issubclass(dtype, ArrayBase):
        raise TypeError(f"drjit.reinterpret_array(): expected an array type and an array, found {describe(dtype)} and "
                        f"{describe(value)}.")
    if dtype._record[2:4] != value._record[2:4]:
        raise ArgumentError(f"drjit.reinterpret_array(): {value._name} and {dtype._name} differ in shape.")
    try:
        return wrap_like(value, dtype, [core.bitcast(node, dtype._type) for node in value._nodes()])
    except CORE_ERRORS as error:
        raise translate(error, f"drjit.reinterpret_array(<{value._name}>)") from error
