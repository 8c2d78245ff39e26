"""Inner products and lengths of vectors: nested arrays, flat ones, and Python sequences."""

from __future__ import annotations

from typing import Any

from drjit_core import TYPES, ReduceOp, literal, ops, vertex_of

from .._arrays.bases import inner_product
from .._arrays.scalar import rounding
from .._base.array import ArrayBase
from .._base.errors import CORE_ERRORS, ArgumentError, CallSite, called, describe, translate
from .._base.methods import FlatSlots
from .._base.types import reshape
from .._base.typing import ArrayT
from .._base.values import plain_scalar
from .._promotion.componentwise import flat_array
from .._promotion.plans import operands
from .._promotion.promote import wrap, wrap_like
from .._rules.combine import inner_product as _of_elements
from .._rules.reals import length
from .constants import pi
from .elementwise import abs, mulsign, rsqrt, safe_asin, select, sqrt
from .reductions import entries_of, parse_axes, reduce_for, sum

__all__ = ["abs_dot", "dot", "norm", "normalize", "squared_norm", "unit_angle"]


def _check(value: Any, function: str, argument: str) -> None:
    if not isinstance(value, (ArrayBase, list, tuple)) and not hasattr(value.__class__, "__drjit_array__"):
        raise ArgumentError(f"{function}(): '{argument}' must be a Dr.Jit array or a sequence, found "
                            f"{describe(value)}.")


def _plain(value: Any) -> Any:
    """The components of a matrix, complex number or quaternion as an ordinary array; of what stands for an array, that.
    """
    if hasattr(value.__class__, "__drjit_array__"):
        return value.__drjit_array__()
    return wrap(value._plain, value._nodes()) if isinstance(value, ArrayBase) and value._special and \
        value._special != "tensor" else value


def _dot(arg0: Any, arg1: Any, function: str) -> Any:
    try:
        result = inner_product(arg0, arg1)
        if result is not None:
            return result
        if isinstance(arg0, FlatSlots) and type(arg0) is type(arg1):
            return flat_array(type(arg0), _of_elements(arg0._n, arg1._n))
    except CORE_ERRORS as error:
        raise translate(error, CallSite(function, type(arg0))) from None
    args = tuple(_plain(arg) for arg in (arg0, arg1))
    array = next((arg for arg in args if isinstance(arg, ArrayBase)), None)
    if array is None:
        if len(arg0) != len(arg1):
            raise ArgumentError(f"{function}(): the arguments have {len(arg0)} and {len(arg1)} entries.")
        return reduce_for(ReduceOp.Add, _products(arg0, arg1, function), ..., None, False, function)
    if any(isinstance(arg, ArrayBase) and arg._depth < 0 for arg in args):
        if all(isinstance(arg, ArrayBase) and arg._kind == "b" for arg in args):
            raise ArgumentError(f"{called(CallSite(function, type(arg0)))}: operation not supported for this type "
                                "(elements of type bool).")
        return sum(arg0 * arg1)
    cls, (first, second) = operands(function, args)
    try:
        if not cls._depth:
            return wrap(cls, [_of_elements(first[0], second[0])])
        shape = cls._record.shape if cls._count >= 0 else wrap(cls, list(first))._static_shape()
        inner = len(first) // shape[0] if shape[0] else 0
        nodes = [ops.mul(a, b) for a, b in zip(first[:inner], second[:inner], strict=True)]
        for start in range(inner, len(first), inner or 1):
            nodes = [ops.fma(first[start + k], second[start + k], node) for k, node in enumerate(nodes)]
    except CORE_ERRORS as error:
        raise translate(error, CallSite(function, cls)) from None
    return wrap(reshape(cls, cls._record.shape[1:]), nodes or [literal(cls._type, 0)])


def _products(arg0: Any, arg1: Any, function: str) -> list[Any]:
    """The products of the entries of two sequences."""
    for sequence in (arg0, arg1):
        for position, entry in enumerate(sequence):
            if not isinstance(entry, ArrayBase) and plain_scalar(entry) is None:
                raise ArgumentError(f"{function}(): the entries of a sequence must be Dr.Jit arrays or numbers, found "
                                    f"{describe(entry)} at position {position}.")
    try:
        return [a * b for a, b in zip(arg0, arg1, strict=True)]
    except (TypeError, RuntimeError) as error:
        raise ArgumentError(f"{function}(): the entries cannot be multiplied: {error}") from None


def _of_floats(value: Any, product: Any, function: str) -> Any:
    """An inner product whose root is wanted, which integers have none of."""
    if isinstance(product, ArrayBase) and product._kind != "f":
        raise ArgumentError(f"{called(CallSite(function, type(value)))}: operation not supported for this type "
                            f"(elements of type {TYPES[product._type].name}); convert the input first.")
    return product


def dot(arg0: Any, arg1: Any, /) -> Any:
    """Inner product of two arrays or Python sequences.

    Of nested arrays along their outermost dimension, as fused multiply-additions; of flat arrays and tensors a
    reduction (a result of size 1) that becomes part of the kernel that computes its input. The operands have one
    length, else a ``RuntimeError`` or ``TypeError`` is raised; the result has the promoted type. Evaluates nothing.

    >>> from drjit.llvm import Array3f, Float
    >>> dr.dot(Array3f(1, 2, 3), Array3f([1, 2], 0, 1))
    [4, 5]
    >>> dr.dot(Float(1, 2, 3), Float(1, 10, 100))
    [321]
    >>> dr.dot([1, 2], [3, 4])
    11
    """
    _check(arg0, "drjit.dot", "arg0")
    _check(arg1, "drjit.dot", "arg1")
    return _dot(arg0, arg1, "drjit.dot")


def abs_dot(arg0: Any, arg1: Any, /) -> Any:
    """Absolute value of the inner product, see :func:`dot`.

    Evaluates nothing.

    >>> from drjit.llvm import Array2f
    >>> dr.abs_dot(Array2f(1, 2), Array2f(3, -4))
    [5]
    """
    _check(arg0, "drjit.abs_dot", "arg0")
    _check(arg1, "drjit.abs_dot", "arg1")
    return abs(_dot(arg0, arg1, "drjit.abs_dot"))


def _squared_norm(value: Any, axis: Any, mode: str | None, keepdims: bool, function: str) -> Any:
    _check(value, function, "value")
    if axis is ... and mode is None and not keepdims:
        return _dot(value, value, function)
    if isinstance(value, ArrayBase):
        parse_axes(function, value, axis)  # raises in the name of the caller
        array: Any = value
        try:
            squares = array * array
        except ArgumentError:
            raise ArgumentError(f"{called(CallSite(function, type(value)))}: operation not supported for this type "
                                f"(elements of type {TYPES[value._type].name}).") from None
    else:
        entries = entries_of(function, value, axis)
        squares = _products(entries, entries, function)
    return reduce_for(ReduceOp.Add, squares, axis, mode, keepdims, function)


def squared_norm(value: Any, axis: Any = ..., mode: str | None = None, keepdims: bool = False) -> Any:
    """Square of the Euclidean length, ``sum(value * value)``.

    ``value`` is an array or a sequence, else a ``TypeError`` is raised. Of nested arrays the length of each of their
    vectors; see :func:`reduce` for the other arguments. Evaluates nothing by default.

    >>> from drjit.llvm import Array2f
    >>> dr.squared_norm(Array2f([3, 6], [4, 8]))
    [25, 100]
    """
    return _squared_norm(value, axis, mode, keepdims, "drjit.squared_norm")


def norm(value: Any, axis: Any = ..., mode: str | None = None, keepdims: bool = False) -> Any:
    """Euclidean length, ``sqrt(sum(value * value))``. Its derivative is 0 where all elements are.

    See :func:`squared_norm` for the arguments. Evaluates nothing by default.

    >>> from drjit.llvm import Array2f, Float
    >>> dr.norm(Array2f([3, 6], [4, 8]))
    [5, 10]
    >>> dr.norm(Float(2, 3, 6))
    [7]
    """
    function = "drjit.norm"
    square = _of_floats(value, _squared_norm(value, axis, mode, keepdims, function), function)
    if isinstance(square, ArrayBase) and any(vertex_of(node) is not None for node in square._nodes()):
        return wrap_like(square, type(square), list(map(length, square._nodes())))
    return sqrt(square)


@rounding
def normalize(arg: ArrayT, /) -> ArrayT:
    """A vector of the same direction and of length 1; NaN for a vector of zeros.

    ``arg`` is an array of floating-point numbers, else a ``TypeError`` is raised. Evaluates nothing.

    >>> from drjit.llvm import Array2f
    >>> dr.normalize(Array2f([3, 0], [4, 2]))
    [[0.6, 0.8],
     [0, 1]]
    """
    if not isinstance(arg, ArrayBase):
        raise ArgumentError(f"drjit.normalize(): 'arg' must be a Dr.Jit array, found {describe(arg)}.")
    function = "drjit.normalize"
    result: ArrayT = arg * rsqrt(_of_floats(arg, _dot(arg, arg, function), function))
    return result


@rounding
def unit_angle(a: Any, b: Any) -> Any:
    """Angle in radians between two vectors of length 1, accurate for vectors that are nearly parallel as well.

    Twice the arcsine of half the length of the difference (D. Hatch, *The Right Way to Calculate Stuff*). ``a`` and
    ``b`` are arrays or sequences, else a ``TypeError`` is raised. Evaluates nothing.

    >>> from drjit.llvm import Array2f
    >>> dr.unit_angle(Array2f(1, 0), Array2f([0, -1], [1, 0]))
    [1.5708, 3.14159]
    """
    _check(a, "drjit.unit_angle", "a")
    _check(b, "drjit.unit_angle", "b")
    product = _of_floats(a, _dot(a, b, "drjit.unit_angle"), "drjit.unit_angle")
    angle = safe_asin(norm(b - mulsign(a, product)) * 0.5) * 2
    return select(product >= 0, angle, pi - angle)
