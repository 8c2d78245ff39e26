"""How functions are made from the rows of the compiler's op table: ``dr.sin``, ``dr.maximum``, ``dr.fma`` ….

A row says all that is particular about a function (:mod:`drjit_core.ops.op`): name and parameters, meaning on Python
numbers, documentation. Here is what they share:

* Arrays are traced component by component; those of several types are promoted (:mod:`drjit._promotion`). Complex
  numbers, quaternions and matrices have rules of their own.
* Python numbers, and scalars of NumPy, are computed at once, in double precision.
* An array of NumPy among Dr.Jit arrays takes part in promotion. Without one it becomes an array of the backend that
  ``drjit.auto`` stands for: flat if it has one dimension, else a tensor. So ``dr.sin(np.zeros(3))`` is a
  ``drjit.llvm.Float64``.

The functions below are templates: each row gets an instance with what it needs in closure variables, so that no call
looks anything up. Functions whose rule is another one are in :mod:`drjit._functions.mathematics`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any, TypeVar

from drjit_core import FUNCTIONS as ROWS
from drjit_core import TRACE, Node, Op, literal

from .._arrays.complex import ComplexBase
from .._arrays.quaternion import QuaternionBase
from .._arrays.special import SpecialArray
from .._base.array import ArrayBase
from .._base.backends import array_type_of
from .._base.errors import CORE_ERRORS, FAILURES, CallSite, describe, translate
from .._base.methods import FlatSlots
from .._base.nodes import number_of
from .._base.types import FLOAT64
from .._base.values import is_ndarray, plain_scalar
from .._promotion.componentwise import flat_array, of_one, of_three, of_two
from .._promotion.plans import Operation, apply, of_others
from .._promotion.promote import wrap_like

__all__ = ["dress", "from_numpy", "make", "on_numbers", "owner_of", "refuse"]

_NO_RESULT = (ArithmeticError, ValueError, NotImplementedError)
_Function = TypeVar("_Function", bound=Callable[..., Any])


# --- arguments that are no Dr.Jit arrays -----------------------------------------------------------------------------


def parameters(row: Op) -> tuple[str, ...]:
    """The names of a public function's parameters."""
    assert row.number is not None
    return row.number.__code__.co_varnames[:row.arity]


def refuse(function: str, argument: str, value: Any) -> TypeError:
    """What to raise for an argument that is neither array nor number."""
    hint = "; convert a sequence to an array type first" if isinstance(value, (list, tuple, range)) else ""
    return TypeError(f"{function}(): '{argument}' must be a Dr.Jit array, a NumPy array or a Python number, found "
                     f"{describe(value)}{hint}.")


def from_numpy(value: Any, function: str, argument: str, like: type[ArrayBase] | None = None) -> Any:
    """The array that a NumPy array becomes; any other value as it is."""
    if not is_ndarray(value) or not value.ndim:
        return value
    cls = array_type_of(value, like)
    if cls is None:
        raise TypeError(f"{function}(): '{argument}' is a NumPy array with elements of type '{value.dtype}', for which "
                        "there is no array type.")
    return cls(value)


def _float(number: float) -> float:
    try:
        return float(number)
    except OverflowError:  # an int beyond the range of floats
        return math.inf if number > 0 else -math.inf


def on_numbers(row: Op, function: str, names: Sequence[str], args: Sequence[Any]) -> Any:
    """The result for Python numbers; raises for what is none."""
    numbers: list[Any] = []
    for name, arg in zip(names, args, strict=True):
        number = plain_scalar(arg)
        if number is None:
            raise refuse(function, name, arg)
        numbers.append(number)
    meaning = row.number
    assert meaning is not None
    if row.accepts == "f":
        numbers = list(map(_float, numbers))
        try:
            result = meaning(*numbers)
        except _NO_RESULT:  # the expansion knows what IEEE 754 says
            result = TRACE[row.name](*(literal(FLOAT64, number) for number in numbers))
            if isinstance(result, tuple):
                return tuple(number_of(node) for node in result)
            return number_of(result)
        return result if row.result == "pair" else float(result)
    if row.accepts == "iu":
        signed = min(numbers) < 0 and len(numbers) > 1
        low, high = (-1 << 31, 1 << 31) if signed else (0, 1 << 32)
        for name, number in zip(names, numbers, strict=True):
            if number.__class__ is not int or not low <= number < high:
                raise TypeError(f"{function}(): '{name}' must be an array of integers or an int of 32 bits"
                                f"{'' if len(numbers) > 1 else ' without a sign'}, found {number!r}.")
        return meaning(*numbers)
    if row.result == "mask":
        return meaning(*numbers)
    if float in map(type, numbers):
        return float(meaning(*map(_float, numbers)))
    return +meaning(*numbers)  # which makes a bool an int


def _otherwise(row: Op) -> Callable[..., Any]:
    """What a function does with arguments none of which is a Dr.Jit array; it comes first among them itself."""
    function, names, meaning = f"drjit.{row.name}", parameters(row), row.number
    assert meaning is not None

    def compute(made: Callable[..., Any], *args: Any) -> Any:
        if any(is_ndarray(arg) and arg.ndim for arg in args):
            return made(*(from_numpy(arg, function, argument) for argument, arg in zip(names, args, strict=True)))
        result = of_others(row.name, args)
        if result is not NotImplemented:
            return result
        return on_numbers(row, function, names, args)

    def compute_unary(made: Callable[..., Any], arg: Any) -> Any:
        if arg.__class__ is float:
            try:
                return meaning(arg)
            except _NO_RESULT:
                pass
        return compute(made, arg)

    def compute_binary(made: Callable[..., Any], arg0: Any, arg1: Any) -> Any:
        cls = arg0.__class__
        if cls is arg1.__class__ and cls in direct:
            try:
                return meaning(arg0, arg1)
            except _NO_RESULT:
                pass
        return compute(made, arg0, arg1)

    direct = (float,) if row.accepts == "f" else (float, int) if "f" in row.accepts else ()
    return compute_unary if row.arity == 1 and row.accepts == "f" else compute_binary if row.arity == 2 else compute


# --- documentation and signature -------------------------------------------------------------------------------------

_ELEMENTS = {"f": "floating-point numbers", "iu": "integers", "iuf": "numbers", "if": "numbers",
             "biuf": "numbers or masks"}
_KINDS: dict[type[SpecialArray], str] = {ComplexBase: "complex numbers", QuaternionBase: "quaternions"}
_MARK = "\n    >>> "


def _documentation(row: Op) -> str:
    """The documentation of a row, with what all of its kind have in common before the example."""
    names = [f"``{name}``" for name in parameters(row)]
    is_int = " (an ``int``, taken as 32 bits wide)" if row.accepts == "iu" else ""
    if row.arity == 1:
        result = "the result is a mask of its shape" if row.result == "mask" else \
            "each result has its type" if row.result == "pair" else "the result has its type"
        text = (f"{names[0]} is an array or tensor of {_ELEMENTS[row.accepts]}, a Python number{is_int}, or a NumPy "
                f"array; {result}. ")
    else:
        listed = f"{', '.join(names[:-1])} and {names[-1]}"
        text = (f"{listed} are arrays or tensors of {_ELEMENTS[row.accepts]}, Python numbers{is_int}, or NumPy arrays; "
                "they broadcast, and the result has their promoted type. ")
    kinds = [plural for cls, plural in _KINDS.items() if row.name in cls._functions]
    if kinds:
        text += f"Defined for {' and '.join(kinds)} as well. "
    text += "Nothing is evaluated."
    errors = "Raises a ``TypeError`` for other arguments"
    errors += "." if row.arity == 1 else ", and a ``RuntimeError`` if sizes differ."
    start, mark, example = row.doc.partition(_MARK)
    return f"{start.rstrip()}\n\n    {text}\n\n    {errors}\n{mark}{example}"


def dress(row: Op, function: _Function, documented: bool = False) -> _Function:
    """Give a function the name, the parameters and the documentation of a row."""
    assert row.number is not None and isinstance(function, FunctionType)
    code, written = function.__code__, row.number.__code__
    count = row.arity
    function.__code__ = code.replace(
        co_name=row.name, co_qualname=row.name, co_posonlyargcount=written.co_posonlyargcount,
        co_varnames=written.co_varnames[:count] + code.co_varnames[count:])
    function.__name__ = function.__qualname__ = row.name
    function.__module__ = "drjit"
    function.__doc__ = row.doc if documented else _documentation(row)
    function.__annotations__ = dict.fromkeys([*parameters(row), "return"], "Any")
    return function


# --- templates -------------------------------------------------------------------------------------------------------


def _unary(row: Op, trace: Callable[[Node], Node]) -> Callable[[Any], Any]:
    """A function of one argument whose result has the type of the argument."""
    name, otherwise = row.name, _otherwise(row)
    operation = Operation(row.name, trace)

    def function(arg: Any, /) -> Any:
        try:
            result = of_one(operation, arg)
            if result is not None:
                return result
            if isinstance(arg, ArrayBase):
                if arg._special:
                    result = arg._function(name)
                    if result is not NotImplemented:
                        return result
                return wrap_like(arg, type(arg), list(map(trace, arg._nodes())))
        except CORE_ERRORS as error:
            raise translate(error, CallSite(f"drjit.{name}", type(arg))) from None
        return otherwise(function, arg)

    return function


def _pair(row: Op, trace: Callable[[Node], tuple[Node, Node]]) -> Callable[[Any], Any]:
    """A function of one argument with two results of its type."""
    name, otherwise = row.name, _otherwise(row)

    def function(arg: Any, /) -> Any:
        if not isinstance(arg, ArrayBase):
            return otherwise(function, arg)
        if arg._special:
            result = arg._function(name)
            if result is not NotImplemented:
                return result
        try:
            pairs = list(map(trace, arg._nodes()))
        except CORE_ERRORS as error:
            raise translate(error, CallSite(f"drjit.{name}", type(arg))) from None
        return wrap_like(arg, type(arg), [a for a, _ in pairs]), wrap_like(arg, type(arg), [b for _, b in pairs])

    return function


def _test(row: Op, trace: Callable[[Node], Node]) -> Callable[[Any], Any]:
    """A function of one argument whose result is a mask; of special kinds, one for each component."""
    name, otherwise = row.name, _otherwise(row)

    def function(arg: Any, /) -> Any:
        if isinstance(arg, ArrayBase):
            try:
                if isinstance(arg, FlatSlots):
                    return flat_array(arg._mask_type, trace(arg._n))
                return wrap_like(arg, arg._mask_type, list(map(trace, arg._nodes())))
            except CORE_ERRORS as error:
                raise translate(error, CallSite(f"drjit.{name}", type(arg))) from None
        return otherwise(function, arg)

    return function


def owner_of(*args: Any) -> type | None:
    """The type by which messages name a call: that of the first array among the arguments."""
    return next((type(arg) for arg in args if isinstance(arg, ArrayBase)), None)


def _binary(row: Op, trace: Callable[[Node, Node], Node]) -> Callable[[Any, Any], Any]:
    """A function of two arguments whose result has their promoted type."""
    name, names, otherwise = f"drjit.{row.name}", parameters(row), _otherwise(row)
    operation = Operation(row.name, trace)

    def function(arg0: Any, arg1: Any, /) -> Any:
        try:
            result = of_two(operation, arg0, arg1)
        except FAILURES as error:
            raise translate(error, CallSite(name, owner_of(arg0, arg1), names), (arg0, arg1)) from None
        if result is not None:
            return result
        owner = owner_of(arg0, arg1)
        if owner is not None:
            return apply(operation, CallSite(name, owner, names), (arg0, arg1))
        return otherwise(function, arg0, arg1)

    return function


def _ternary(row: Op, trace: Callable[[Node, Node, Node], Node]) -> Callable[[Any, Any, Any], Any]:
    """A function of three arguments whose result has their promoted type."""
    name, names, otherwise = f"drjit.{row.name}", parameters(row), _otherwise(row)
    operation = Operation(row.name, trace)

    def function(arg0: Any, arg1: Any, arg2: Any, /) -> Any:
        try:
            result = of_three(operation, arg0, arg1, arg2)
        except FAILURES as error:
            raise translate(error, CallSite(name, owner_of(arg0, arg1, arg2), names), (arg0, arg1, arg2)) from None
        if result is not None:
            return result
        owner = owner_of(arg0, arg1, arg2)
        if owner is not None:
            return apply(operation, CallSite(name, owner, names), (arg0, arg1, arg2))
        return otherwise(function, arg0, arg1, arg2)

    return function


_TEMPLATES: dict[tuple[int, str], Callable[..., Callable[..., Any]]] = {
    (1, "same"): _unary, (1, "pair"): _pair, (1, "mask"): _test, (2, "same"): _binary, (3, "same"): _ternary}


def make(name: str) -> Callable[..., Any]:
    """The function of a row, by the rule that all of its kind share."""
    row = ROWS[name]
    return dress(row, _TEMPLATES[row.arity, row.result](row, TRACE[name]))
