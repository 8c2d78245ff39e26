"""Elementwise functions, as objects with the methods of NumPy's universal functions."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

import drjit as dr
import drjit.array_api as xp

from ._public import (
    Array,
    Axis,
    array_of,
    axes_of,
    axis_of,
    into,
    is_number,
    kind_of,
    named,
    of_type,
    on_host,
    require_casting,
    tensor_of,
)

__all__ = ["UFUNCS", "ufunc"]

Function = Callable[..., Any]


class ufunc:
    """An elementwise function of one or several arrays, which are broadcast.

    Arguments may be whatever ``asarray`` takes; types promote as those of NumPy. ``out`` is an array that is written
    to, or a tuple of one for each result, ``where`` a mask of the elements that are (others remain as they are in
    ``out``, and are 0 without it), ``dtype`` the type that arguments are converted to, as far as ``casting`` allows;
    ``order`` and ``subok`` mean nothing here. All calls are lazy; derivatives are those of the mathematical function.
    """

    __module__ = "drjit.numpy"

    def __init__(self, name: str, function: Function, nin: int, kinds: str, text: str, nout: int = 1) -> None:
        self.__name__, self.__doc__ = name, text
        self.nin, self.nout, self.nargs = nin, nout, nin + nout
        row: tuple[str | None, Any] = _REDUCTIONS.get(name, (None, None))
        self._reduction, self.identity = row

        def call(arguments: tuple[Any, ...]) -> Any:
            if kinds == "f":
                return function(*_as_floating(arguments))
            if kinds == "n":
                return function(*[array_of(value).astype(xp.int8) if kind_of(value) == "b" else value
                                  for value in arguments])
            return function(*arguments)

        self._call = named(f"drjit.numpy.{name}")(call)
        operation = getattr(function, "operation", None)
        #: Whether few real floating point numbers are computed at once without a look at arguments.
        self._short = operation is not None and nout == 1
        self._direct = named(f"drjit.numpy.{name}")(
            function if operation is None else operation.one if nin == 1 else operation.two)
        own = None if name in _OTHER else getattr(np, name, None)
        self._plain = self._general if own is None else xp.eagerly(own, self._general)

    def __repr__(self) -> str:
        return f"<ufunc {self.__name__!r}>"

    def __call__(self, *args: Any, out: Any = None, where: Any = True, dtype: Any = None, casting: str = "same_kind",
                 order: str = "K", subok: bool = True) -> Any:
        if out is None and where is True and dtype is None and len(args) == self.nin:
            first, last = args[0], args[-1]
            if self._short and first.__class__ is Array and first._dtype.kind == "f" and \
                    (last is first or last.__class__ is float or last.__class__ is Array and
                     last._dtype is first._dtype):
                return self._direct(*args)
            return self._plain(*args)
        return self._whole(args, out, where, dtype, casting)

    def _general(self, *args: Any) -> Any:
        """The function of its arguments alone."""
        if args[0].__class__ is args[-1].__class__ is Array and args[0].dtype.kind == "f":
            return self._direct(*args)  # nothing is to be converted
        return self._whole(args, None, True, None)

    @xp.on_their_device
    def _whole(self, args: tuple[Any, ...], out: Any, where: Any, dtype: Any, casting: str = "same_kind") -> Any:
        outs = self._outs(args, out)
        args = args[:self.nin]
        if dtype is not None:
            args = tuple([self._cast(array_of(value), of_type(dtype), casting) for value in args])
        elif all(map(is_number, args)):
            args = tuple(map(xp.asarray, args))
        else:
            args = tuple([value if is_number(value) else array_of(value) for value in args])
        found = self._call(args)
        if where is not True:
            mask = array_of(where)
            found = tuple([xp.where(mask, each, xp.zeros_like(each) if target is None else target)
                           for each, target in zip(found if self.nout > 1 else (found,), outs, strict=True)])
        elif self.nout == 1:
            found = (found,)
        kept = [each if target is None else self._cast(each, of_type(target.dtype), casting)
                for each, target in zip(found, outs, strict=True)]
        results = tuple([into(target, each) for target, each in zip(outs, kept, strict=True)])
        return results if self.nout > 1 else results[0]

    def _outs(self, args: tuple[Any, ...], out: Any) -> tuple[Any, ...]:
        """The arrays that results are written to, ``None`` for those that are new: those behind the arguments, or
        ``out``."""
        behind = args[self.nin:]
        if len(args) < self.nin or len(behind) > self.nout:
            raise TypeError(f"drjit.numpy.{self.__name__}(): takes from {self.nin} to {self.nargs} arguments, found "
                            f"{len(args)}.")
        if behind and out is not None:
            raise TypeError(f"drjit.numpy.{self.__name__}(): 'out' is given twice, as an argument and by its name.")
        outs = (*behind, *(None,) * (self.nout - len(behind))) if behind else (None,) * self.nout if out is None else \
            out if isinstance(out, tuple) else (out,)
        if len(outs) != self.nout:
            raise (ValueError if isinstance(out, tuple) else TypeError)(
                f"drjit.numpy.{self.__name__}(): 'out' must be a tuple of an array for each of {self.nout} results, "
                f"found {len(outs)}.")
        for target in outs:
            if target is not None and not isinstance(target, Array):
                raise TypeError(f"drjit.numpy.{self.__name__}(): 'out' must be an array of this module, found "
                                f"{type(target).__name__}.")
        return outs

    def _cast(self, array: Array, dtype: xp.DType, casting: str) -> Array:
        """An array as another data type, if ``casting`` allows it."""
        wanted = np.dtype(dtype.name)
        if not np.can_cast(array.dtype, wanted, casting):  # type: ignore[arg-type]
            raise TypeError(f"drjit.numpy.{self.__name__}(): {array.dtype} cannot become {wanted} by the casting rule "
                            f"{casting!r}.")
        return array if array.dtype == wanted else xp.real(array).astype(dtype) \
            if array.dtype.kind == "c" and wanted.kind != "c" else array.astype(dtype)

    @xp.on_their_device
    def reduce(self, array: Any, axis: Axis = 0, dtype: Any = None, out: Any = None, keepdims: bool = False,
               initial: Any = None, where: Any = True) -> Array:
        """What is left when the function combines all elements along an axis, the first one by default."""
        given = array_of(array)
        axes = axes_of(axis, given.ndim)
        if self._reduction is not None:
            options = {name: value for name, value in (("dtype", dtype), ("initial", initial)) if value is not None}
            found = getattr(given, self._reduction)(axis=axes, keepdims=keepdims, where=where, **options)
            return into(out, found)
        if where is not True or initial is not None:
            raise NotImplementedError(f"drjit.numpy.{self.__name__}.reduce(): 'where' and 'initial' are not there yet.")
        found = given if dtype is None else given.astype(dtype)
        self._require_two("reduce")
        if len(axes) > 1 and self.__name__ not in _ASSOCIATIVE:
            raise ValueError(f"drjit.numpy.{self.__name__}.reduce(): the order of elements counts, which that of "
                             f"several axes does not tell, found {axes}.")
        for place in axes:
            if not found.shape[place]:
                raise ValueError(f"drjit.numpy.{self.__name__}.reduce(): there is no element along axis {place}.")
            found = self._halved(found, place) if self.__name__ in _ASSOCIATIVE else \
                xp.expand_dims(self._in_order(found, place)[-1], place)
        return into(out, found if keepdims else found.squeeze(axes))

    def _in_order(self, given: Array, place: int) -> list[Array]:
        """What the function makes of the entries up to each one along an axis, one after the other."""
        entries = xp.unstack(given, axis=place)
        return list(itertools.accumulate(entries, self))

    def _halved(self, found: Array, place: int) -> Array:
        before = (slice(None),) * place
        while found.shape[place] > 1:
            half = found.shape[place] // 2
            rest = found[(*before, slice(2 * half, None))]
            found = self(found[(*before, slice(0, half))], found[(*before, slice(half, 2 * half))])
            if rest.shape[place]:
                found = xp.concat([found, rest], axis=place)
        return found

    def _operand(self, array: Any, dtype: Any) -> Array:
        """What elements are combined of: truth values, if these are the results."""
        return array_of(array).astype("bool" if dtype is None else dtype) \
            if dtype is not None or self.__name__.startswith("logical") else array_of(array)

    def _require_two(self, method: str) -> None:
        if self.nin != 2 or self.nout != 1:
            raise ValueError(f"drjit.numpy.{self.__name__}.{method}(): only functions of two arrays with one result "
                             "have it.")

    def _require_associative(self, method: str) -> None:
        self._require_two(method)
        if self.__name__ not in _ASSOCIATIVE:
            raise NotImplementedError(f"drjit.numpy.{self.__name__}.{method}(): only functions that may be combined in "
                                      f"any order have it: {', '.join(sorted(_ASSOCIATIVE))}.")

    @xp.on_their_device
    def accumulate(self, array: Any, axis: int = 0, dtype: Any = None, out: Any = None) -> Array:
        """What the function makes of all elements up to each one along an axis."""
        given = self._operand(array, dtype)
        place = axis_of(axis, given.ndim)
        if dtype is None and out is None:
            return xp.eagerly(getattr(np, self.__name__).accumulate, self._up_to)(given, place)
        return into(out, self._up_to(given, place))

    def _up_to(self, given: Array, place: int) -> Array:
        if self.__name__ in ("add", "multiply"):
            return given.cumsum(place) if self.__name__ == "add" else given.cumprod(place)
        if self.__name__ in ("maximum", "minimum") and given.dtype.kind in "iuf" and given.size:
            op = dr.ReduceOp.Max if self.__name__ == "maximum" else dr.ReduceOp.Min
            found = xp.asarray(dr.prefix_reduce(op, tensor_of(given), axis=place, exclusive=False))
            return xp.where(xp.isnan(given).cumsum(place) > 0, float("nan"), found) if given.dtype.kind == "f" else \
                found
        self._require_two("accumulate")
        before, distance, size = (slice(None),) * place, 1, given.shape[place]
        if size < 2:
            return given.copy()
        if self.__name__ not in _ASSOCIATIVE:
            return xp.stack(self._in_order(given, place), axis=place)
        while distance < size:
            lower = given[(*before, slice(0, size - distance))]
            upper = given[(*before, slice(distance, None))]
            given = xp.concat([given[(*before, slice(0, distance))], self(lower, upper)], axis=place)
            distance *= 2
        return given

    @xp.on_their_device
    def reduceat(self, array: Any, indices: Any, axis: int = 0, dtype: Any = None, out: Any = None) -> Array:
        """What the function makes of the elements along an axis from each position to the next one given, the last to
        the end; where the next is not behind, the element itself. Evaluates the positions."""
        given = self._operand(array, dtype)
        place, own = axis_of(axis, given.ndim), getattr(np, self.__name__)
        if self._reduction == "sum" or self._reduction == "prod":
            given = given.astype(getattr(given[..., :0], self._reduction)(axis=place).dtype if dtype is None else dtype)
        if dtype is None and out is None:
            return xp.eagerly(own.reduceat, self._segments)(given, indices, place)
        return into(out, self._segments(given, indices, place))

    def _segments(self, given: Array, indices: Any, place: int) -> Array:
        self._require_associative("reduceat")
        starts = np.asarray(on_host(array_of(indices)))
        size = given.shape[place]
        if starts.size and not 0 <= starts.min() <= starts.max() < size:
            raise IndexError(f"positions must be from 0 to {size - 1}, found {starts.tolist()}.")
        counts = np.maximum(np.diff(starts, append=size), 1)
        first = np.cumsum(counts) - counts
        number = np.repeat(np.arange(starts.size), counts)
        position = np.arange(number.size) - first[number]  # within its segment
        found = xp.take(given, xp.asarray(starts[number] + position), axis=place)
        left, behind, distance = counts[number] - position, (1,) * (given.ndim - place - 1), 1
        while distance < counts.max(initial=0):  # each is combined with what follows, as far as its segment goes
            there = xp.asarray(left > distance).reshape((-1, *behind))
            found = xp.where(there, self(found, xp.roll(found, -distance, axis=place)), found)
            distance *= 2
        return xp.take(found, xp.asarray(first), axis=place)

    @xp.on_their_device
    def outer(self, a: Any, b: Any, /, **options: Any) -> Any:
        """What the function makes of each element of one array with each of another."""
        first, second = array_of(a), array_of(b)
        return self(first.reshape(first.shape + (1,) * second.ndim), second, **options)

    @xp.on_their_device
    def at(self, a: Array, indices: Any, b: Any = None, /) -> None:
        """Change elements of an array in place, as often as their positions are given."""
        named(f"drjit.numpy.{self.__name__}.at")(self._at)(a, indices, b)

    def _at(self, a: Array, indices: Any, b: Any) -> None:
        if not isinstance(a, Array):
            raise TypeError("the first argument must be an array of this module.")
        name = {"minimum": "min", "maximum": "max", "true_divide": "divide"}.get(self.__name__, self.__name__)
        now = None if self.__name__ in _OTHER or b is None else \
            xp.eagerly(_changed(getattr(np, self.__name__)), _nothing)(a, indices, b)
        if now is not None:
            a[...] = now
        elif b is None:
            found = self(a[indices])
            require_casting(found, a)
            a[indices] = found
        elif name in ("add", "subtract", "multiply", "divide", "power", "min", "max"):
            a[...] = getattr(a.at[indices], name)(b)
        else:
            raise NotImplementedError("is not there yet.")


def _changed(own: Any) -> Function:
    """What makes a copy of a NumPy array that its elementwise function has changed at positions."""
    def changed(a: Any, indices: Any, b: Any) -> Any:
        found = a.copy()
        own.at(found, indices, b)
        return found

    return changed


def _nothing(a: Any, indices: Any, b: Any) -> None:
    """In place of a copy of an array that is not small."""


#: Functions whose special values are not NumPy's, as operators of arrays have them.
_OTHER = {"floor_divide", "remainder", "divmod", "left_shift", "right_shift", "nextafter", "spacing", "multiply",
          "divide", "expm1", "tan", "tanh"}
#: The method of arrays that is the reduction of a function, and the result of no elements.
_REDUCTIONS: dict[str, tuple[str, Any]] = {
    "add": ("sum", 0), "multiply": ("prod", 1), "maximum": ("max", None), "minimum": ("min", None),
    "logical_and": ("all", True), "logical_or": ("any", False)}
_ASSOCIATIVE = {"add", "multiply", "maximum", "minimum", "logical_and", "logical_or", "logical_xor", "bitwise_and",
                "bitwise_or", "bitwise_xor", "fmax", "fmin", "hypot", "logaddexp", "logaddexp2", "gcd", "lcm"}


def _as_floating(arguments: tuple[Any, ...]) -> list[Any]:
    """Arguments as floating point numbers, of the type that NumPy has for integers of their size."""
    kinds = {1: xp.float16, 2: xp.float32}
    return [value.astype(kinds.get(value.itemsize, xp.float64))
            if isinstance(value, Array) and value.dtype.kind in "biu" else value for value in arguments]


# --- formulas --------------------------------------------------------------------------------------------------------


def _cubic_root(x: Array) -> Array:
    return xp.asarray(dr.cbrt(tensor_of(x)))


def _fmod(a: Any, b: Any) -> Array:
    rest = xp.remainder(xp.abs(array_of(a)), xp.abs(array_of(b)))
    found = xp.where(array_of(a) < 0, -rest, rest)
    return found if found.dtype.kind != "f" else xp.copysign(found, a)


def _fextremum(of: Function) -> Function:
    def extremum(a: Any, b: Any) -> Array:
        first, second = array_of(a), array_of(b)
        if not {"f", "c"} & {first.dtype.kind, second.dtype.kind}:
            return of(a, b)
        return xp.where(xp.isnan(second), a, xp.where(xp.isnan(first), b, of(a, b)))

    return extremum


def _heaviside(x: Any, half: Any) -> Array:
    array = array_of(x)
    found = xp.where(array < 0, 0.0, xp.where(array == 0, half, 1.0))
    return xp.astype(xp.where(xp.isnan(array), array, found), xp.result_type(x, half))


def _gcd(a: Any, b: Any) -> Array:
    first, second = xp.broadcast_arrays(*_integers(a, b))
    x, _ = dr.while_loop((xp.abs(first), xp.abs(second)), lambda x, y: y != 0, lambda x, y: (y, x % y))
    return x


def _lcm(a: Any, b: Any) -> Array:
    first, second = _integers(a, b)
    divisor = _gcd(first, second)
    return xp.abs(xp.where(divisor == 0, 0, first // xp.where(divisor == 0, 1, divisor) * second))


def _integers(a: Any, b: Any) -> tuple[Array, Array]:
    dtype = xp.result_type(a, b)
    if dtype.kind not in "iu":
        raise TypeError(f"needs integers, found {dtype}.")
    return array_of(a).astype(dtype), array_of(b).astype(dtype)


def _logaddexp2(a: Any, b: Any) -> Array:
    scale = float(np.log(2.0))
    return xp.logaddexp(a * scale, b * scale) / scale


def _modf(x: Array) -> tuple[Array, Array]:
    whole = xp.trunc(x)
    return xp.copysign(xp.where(xp.isinf(x), 0.0, x - whole), x), whole


def _frexp(x: Array) -> tuple[Array, Array]:
    wide = x.astype(xp.float64)
    tiny = xp.abs(wide) < 2.0 ** -1000
    wide = xp.where(tiny, wide * 2.0 ** 100, wide)
    exponent = (wide.view(xp.int64) >> 52 & 0x7ff) - 1022
    plain = xp.isfinite(wide) & (wide != 0)
    scale = (1023 - xp.where(plain, exponent, 0) << 52).view(xp.float64)  # 2 to the power of it
    found = xp.where(plain, exponent - xp.where(tiny, 100, 0), 0)
    return xp.where(plain, wide * scale, wide).astype(x.dtype), found.astype(xp.int32)


def _sinc(x: Array) -> Array:
    angle = x * np.pi
    zero = angle == 0
    safe = xp.where(zero, 1.0, angle)
    return xp.where(zero, 1.0, xp.sin(safe) / safe)


def _scaled(factor: float) -> Function:
    return lambda x: x * factor


# --- tables ----------------------------------------------------------------------------------------------------------

#: Names, functions of the standard (by name) or formulas, and what they say. Kinds: ``f``: integers become floating
#: point numbers; ``n``: truth values become integers; empty: all kinds.
_UNARY: list[tuple[str, str | Function, str, str]] = [
    ("absolute", "abs", "", "The absolute value; of complex numbers the magnitude."),
    ("fabs", xp.abs, "f", "The absolute value as a floating point number."),
    *[(new, old, "f", f"The {text}.") for new, old, text in [
        ("sin", "sin", "sine of an angle in radians"), ("cos", "cos", "cosine of an angle in radians"),
        ("tan", "tan", "tangent of an angle in radians"), ("arcsin", "asin", "inverse sine, in radians"),
        ("arccos", "acos", "inverse cosine, in radians"), ("arctan", "atan", "inverse tangent, in radians"),
        ("sinh", "sinh", "hyperbolic sine"), ("cosh", "cosh", "hyperbolic cosine"),
        ("tanh", "tanh", "hyperbolic tangent"), ("arcsinh", "asinh", "inverse hyperbolic sine"),
        ("arccosh", "acosh", "inverse hyperbolic cosine"), ("arctanh", "atanh", "inverse hyperbolic tangent"),
        ("exp", "exp", "exponential function"), ("expm1", "expm1", "exponential function less 1, accurate near 0"),
        ("log", "log", "natural logarithm"), ("log2", "log2", "logarithm to base 2"),
        ("log10", "log10", "logarithm to base 10"), ("log1p", "log1p", "logarithm of 1 + x, accurate near 0"),
        ("sqrt", "sqrt", "square root"), ("rint", "round", "nearest integer, the even one of two")]],
    ("cbrt", _cubic_root, "f", "The cube root."), ("exp2", xp.special.exp2, "f", "2 to the power of each element."),
    ("ceil", "ceil", "", "The smallest integer that is not less."),
    ("floor", "floor", "", "The largest integer that is not greater."),
    ("trunc", "trunc", "", "The nearest integer that is not larger in magnitude."),
    ("negative", "negative", "", "The negative."), ("positive", "positive", "", "The elements themselves."),
    ("reciprocal", "reciprocal", "f", "1 / x."), ("square", "square", "n", "x * x."),
    ("bitwise_count", lambda x: xp.asarray(dr.popcnt(tensor_of(xp.abs(x)))).astype(xp.uint8), "",
     "The number of bits that are set in the magnitude."),
    ("spacing", lambda x: xp.copysign(xp.nextafter(xp.abs(x), np.inf) - xp.abs(x), x), "f",
     "The distance to the next number that is larger in magnitude."),
    ("sign", "sign", "", "-1, 0 or 1 by the sign; of complex numbers z / abs(z)."),
    ("signbit", "signbit", "f", "Whether the sign bit is set."), ("conjugate", "conj", "n", "The complex conjugate."),
    ("isfinite", "isfinite", "", "Whether elements are neither infinite nor NaN."),
    ("isinf", "isinf", "", "Whether elements are infinite."), ("isnan", "isnan", "", "Whether elements are NaN."),
    ("invert", "bitwise_invert", "", "Each bit flipped; of truth values the negation."),
    ("logical_not", "logical_not", "", "Whether elements are false, or 0."),
    ("deg2rad", _scaled(np.pi / 180), "f", "Degrees as radians."),
    ("rad2deg", _scaled(180 / np.pi), "f", "Radians as degrees."),
    ("sinc", _sinc, "f", "sin(pi x) / (pi x), 1 at 0."), ("i0", xp.special.i0, "f", "The modified Bessel function."),
]
_BINARY: list[tuple[str, str | Function, str, str]] = [
    ("add", "add", "", "The sum."), ("subtract", "subtract", "", "The difference."),
    ("multiply", "multiply", "", "The product."),
    ("divide", "divide", "", "The quotient as a floating point number."),
    ("floor_divide", "floor_divide", "n", "The quotient rounded down."),
    ("remainder", "remainder", "n", "The remainder with the sign of the divisor, as Python's ``%``."),
    ("fmod", _fmod, "n", "The remainder with the sign of the dividend, as C's."),
    ("power", "pow", "n", "x1 to the power of x2."),
    ("float_power", lambda a, b: xp.pow(_double(a), _double(b)), "", "x1 to the power of x2, at least as float64."),
    ("arctan2", "atan2", "f", "The angle of the point (x2, x1), in radians."),
    ("hypot", "hypot", "f", "sqrt(x1**2 + x2**2), without overflow."),
    ("logaddexp", "logaddexp", "f", "log(exp(x1) + exp(x2)), without overflow."),
    ("logaddexp2", _logaddexp2, "f", "log2(2**x1 + 2**x2), without overflow."),
    ("copysign", "copysign", "f", "The magnitude of x1 with the sign of x2."),
    ("nextafter", "nextafter", "f", "The next number from x1 in the direction of x2."),
    ("ldexp", lambda x, e: x * xp.special.exp2(array_of(e).astype(array_of(x).dtype)), "", "x1 * 2**x2."),
    ("heaviside", _heaviside, "f", "0 for negative elements, 1 for positive ones, x2 at 0."),
    ("maximum", "maximum", "", "The larger one; NaN if there is one."),
    ("minimum", "minimum", "", "The smaller one; NaN if there is one."),
    ("fmax", _fextremum(xp.maximum), "", "The larger one, no NaN if it can be avoided."),
    ("fmin", _fextremum(xp.minimum), "", "The smaller one, no NaN if it can be avoided."),
    ("gcd", _gcd, "n", "The greatest common divisor."), ("lcm", _lcm, "n", "The least common multiple."),
    ("equal", "equal", "", "Whether elements are equal."),
    ("not_equal", "not_equal", "", "Whether elements differ."), ("less", "less", "n", "Whether x1 < x2."),
    ("less_equal", "less_equal", "n", "Whether x1 <= x2."), ("greater", "greater", "n", "Whether x1 > x2."),
    ("greater_equal", "greater_equal", "n", "Whether x1 >= x2."),
    ("logical_and", "logical_and", "", "Whether both are true."),
    ("logical_or", "logical_or", "", "Whether one of them is true, or both."),
    ("logical_xor", "logical_xor", "", "Whether one of them is true, and not both."),
    ("bitwise_and", "bitwise_and", "", "Bits that are set in both."),
    ("bitwise_or", "bitwise_or", "", "Bits that are set in one of them or both."),
    ("bitwise_xor", "bitwise_xor", "", "Bits that are set in one of them."),
    ("left_shift", "bitwise_left_shift", "n", "x1 with its bits moved up by x2."),
    ("right_shift", "bitwise_right_shift", "n", "x1 with its bits moved down by x2."),
]
_PAIRS: list[tuple[str, Function, int, str, str]] = [
    ("divmod", lambda a, b: (xp.floor_divide(a, b), xp.remainder(a, b)), 2, "n", "The quotient rounded down, and the "
                                                                                 "remainder."),
    ("modf", _modf, 1, "f", "The fraction, and the whole number, both with the sign of x."),
    ("frexp", _frexp, 1, "f", "The mantissa, from 0.5 to 1, and the exponent of base 2."),
]
#: Other names of the same functions.
_SAME = {"abs": "absolute", "acos": "arccos", "acosh": "arccosh", "asin": "arcsin", "asinh": "arcsinh",
         "atan": "arctan", "atan2": "arctan2", "atanh": "arctanh", "bitwise_invert": "invert", "bitwise_not": "invert",
         "bitwise_left_shift": "left_shift", "bitwise_right_shift": "right_shift", "conj": "conjugate",
         "degrees": "rad2deg", "fix": "trunc", "mod": "remainder", "pow": "power", "radians": "deg2rad",
         "true_divide": "divide"}


def _double(value: Any) -> Array:
    array = array_of(value)
    return array if array.dtype.kind == "c" else array.astype(xp.float64)


def _function(row: str | Function) -> Function:
    return getattr(xp, row) if isinstance(row, str) else row


def _made() -> dict[str, ufunc]:
    """All functions by their names."""
    rows = itertools.chain(((name, function, 1, kinds, text, 1) for name, function, kinds, text in _UNARY),
                           ((name, function, 2, kinds, text, 1) for name, function, kinds, text in _BINARY),
                           ((name, function, nin, kinds, text, 2) for name, function, nin, kinds, text in _PAIRS))
    found = {name: ufunc(name, _function(function), nin, kinds, f"{text} Lazy.", nout)
             for name, function, nin, kinds, text, nout in rows}
    return found | {new: found[old] for new, old in _SAME.items()}


UFUNCS = _made()
