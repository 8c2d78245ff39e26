"""What instructions compute, on NumPy arrays of one type."""

from __future__ import annotations

import ctypes
import ctypes.util
from typing import Any

import numpy as np

from .memory import Fault

__all__ = ["APPROXIMATE", "COMPARISONS", "ONE", "TWO", "UPDATES", "approximate", "compare", "convert", "fma",
           "minimum"]

_libm = ctypes.CDLL(ctypes.util.find_library("m") or "libm.so.6")
_libm.fma.restype, _libm.fma.argtypes = ctypes.c_double, [ctypes.c_double] * 3
_fma_by_one = np.frompyfunc(_libm.fma, 3, 1)
#: Numbers of double precision with exponents up to this (by absolute value) are far from overflow and underflow.
_MODERATE = 400


def _odd(rounded: Any, error: Any) -> Any:
    """A double that is rounded to odd: what was meant is ``rounded + error``."""
    bits = rounded.view(np.int64)
    moved = (error != 0) & (bits & 1 == 0) & np.isfinite(rounded)
    return np.where(moved, (bits + np.where((error > 0) == (rounded > 0), 1, -1)).view(np.float64), rounded)


def _towards(rounded: Any, exact: Any, error: Any, rounding: str) -> Any:
    """What was rounded to the nearest, rounded in another direction; what was meant is ``exact + error``."""
    distance = exact - rounded.astype(np.float64)
    distance = np.where(distance == 0, error, distance)
    up, down = np.nextafter(rounded, rounded.dtype.type(np.inf)), np.nextafter(rounded, rounded.dtype.type(-np.inf))
    above, below = np.where(distance > 0, up, rounded), np.where(distance < 0, down, rounded)
    if rounding == "rz":
        return np.where(exact > 0, below, above)
    return above if rounding == "rp" else below


def _product(a: Any, b: Any) -> tuple[Any, Any]:
    """A product and its error, of doubles (T. J. Dekker, A floating-point technique for extending the available
    precision, 1971)."""
    def halves(x: Any) -> tuple[Any, Any]:
        shifted = x * 134217729.0  # 2^27 + 1
        high = shifted - (shifted - x)
        return high, x - high

    (a1, a2), (b1, b2), product = halves(a), halves(b), a * b
    return product, a2 * b2 - (product - a1 * b1 - a2 * b1 - a1 * b2)


def _sum(a: Any, b: Any) -> tuple[Any, Any]:
    """A sum and its error."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def _fma64(a: Any, b: Any, c: Any) -> Any:
    """That of doubles (S. Boldo, G. Melquiond, Emulation of FMA and correctly rounded sums: proved algorithms using
    rounding to odd, 2008); where something might overflow or underflow, that of the C library."""
    high, low = _product(a, b)
    first, second = _sum(c, low)
    third, fourth = _sum(high, first)
    result = np.where((a == 0) | (b == 0), high + c, third + _odd(*_sum(second, fourth)))
    other = ~(np.isfinite(a) & np.isfinite(b) & np.isfinite(c))
    for each in (a, b, c):
        other |= abs(np.frexp(each)[1]) > _MODERATE
    if other.any():
        result[other] = _fma_by_one(a[other], b[other], c[other])
    return result


def fma(a: Any, b: Any, c: Any, rounding: str = "rn") -> Any:
    """``a * b + c``, rounded once."""
    if a.dtype == np.float64:
        assert rounding == "rn"
        return _fma64(a, b, c)
    x, y, z = a.astype(np.float64), b.astype(np.float64), c.astype(np.float64)
    product = x * y  # exact
    total = product + z
    part = total - product
    error = (product - (total - part)) + (z - part)
    error = np.where(np.isfinite(error), error, 0)
    result = _odd(total, error).astype(a.dtype)
    return result if rounding == "rn" else _towards(result, total, error, rounding)


def minimum(smaller: bool, nan: bool) -> Any:
    """A minimum or maximum; of zeros, -0 is the smaller one."""
    def function(a: Any, b: Any) -> Any:
        if a.dtype.kind != "f":
            return np.minimum(a, b) if smaller else np.maximum(a, b)
        first = (a < b) | (a == b) & np.signbit(a) if smaller else (a > b) | (a == b) & ~np.signbit(a)
        result = np.where(first | np.isnan(b), a, b)
        return np.where(np.isnan(a) | np.isnan(b), result.dtype.type(np.nan), result) if nan else result
    return function


def _high_half(a: Any, b: Any) -> Any:
    bits = 8 * a.dtype.itemsize
    if bits < 64:
        wide = np.dtype(f"{a.dtype.kind}{bits // 4}").type
        return ((a.astype(wide) * b.astype(wide)) >> wide(bits)).astype(a.dtype)
    half, low = np.uint64(32), np.uint64(0xFFFFFFFF)
    x, y = a.view(np.uint64), b.view(np.uint64)
    middle = (x >> half) * (y & low) + ((x & low) * (y & low) >> half)
    other = (x & low) * (y >> half) + (middle & low)
    high = (x >> half) * (y >> half) + (middle >> half) + (other >> half)
    if a.dtype.kind == "i":
        high = high - np.where(a < 0, y, np.uint64(0)) - np.where(b < 0, x, np.uint64(0))
    return high.view(a.dtype)


def _divided(a: Any, b: Any) -> Any:
    if a.dtype.kind == "f":
        return a / b
    if (b == 0).any():
        raise Fault("division by zero")
    if a.dtype.kind == "u":
        return a // b
    quotient = np.abs(a.astype(object)) // np.abs(b.astype(object))
    return np.where((a < 0) == (b < 0), quotient, -quotient).astype(a.dtype)


def _shifted_left(a: Any, b: Any) -> Any:
    bits = 8 * a.dtype.itemsize
    return np.where(b < bits, a << (b & np.uint32(bits - 1)).astype(a.dtype), a.dtype.type(0))


def _shifted_right(a: Any, b: Any) -> Any:
    bits = 8 * a.dtype.itemsize
    result = a >> np.minimum(b, bits - 1).astype(a.dtype)
    return result if a.dtype.kind == "i" else np.where(b < bits, result, a.dtype.type(0))


def _leading_zeros(a: Any) -> Any:
    count, found = np.zeros(a.shape, np.uint32), np.zeros(a.shape, bool)
    for bit in range(8 * a.dtype.itemsize - 1, -1, -1):
        found |= (a >> a.dtype.type(bit)) & a.dtype.type(1) != 0
        count += ~found
    return count


def _reversed(a: Any) -> Any:
    result, bits = np.zeros_like(a), 8 * a.dtype.itemsize
    for bit in range(bits):
        result |= ((a >> a.dtype.type(bit)) & a.dtype.type(1)) << a.dtype.type(bits - 1 - bit)
    return result


TWO: dict[str, Any] = {
    "copysign": lambda a, b: np.copysign(b, a),
    "add": np.add, "sub": np.subtract, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
    "div": _divided, "rem": lambda a, b: a - _divided(a, b) * b, "mul.lo": np.multiply, "mul.hi": _high_half,
    "mul": np.multiply, "shl": _shifted_left, "shr": _shifted_right}
ONE: dict[str, Any] = {
    "neg": np.negative, "abs": np.abs, "not": np.invert, "sqrt": np.sqrt,
    "popc": lambda a: np.bitwise_count(a).astype(np.uint32), "clz": _leading_zeros, "brev": _reversed}
COMPARISONS: dict[str, Any] = {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal,
                               "gt": np.greater, "ge": np.greater_equal}
#: What ``atom`` and ``red`` do.
#: Functions that are approximated: here they are rounded correctly, in single precision.
APPROXIMATE: dict[str, Any] = {
    "div": np.divide, "rcp": np.reciprocal, "sqrt": np.sqrt, "rsqrt": lambda a: 1 / np.sqrt(a), "ex2": np.exp2,
    "lg2": np.log2, "sin": np.sin, "cos": np.cos}


def approximate(name: str, flush: bool) -> Any:
    """One of them, which takes and makes zeros of denormal numbers if it has to ``flush`` them."""
    def flushed(a: Any) -> Any:
        return np.where(np.abs(a) < np.float32(2.0 ** -126), np.copysign(np.float32(0), a), a) if flush else a

    def function(*operands: Any) -> Any:
        assert all(a.dtype == np.float32 for a in operands)
        wide = APPROXIMATE[name](*(flushed(a).astype(np.float64) for a in operands))
        return flushed(wide.astype(np.float32))

    return function


UPDATES: dict[str, Any] = {"add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and,
                           "or": np.bitwise_or}


def compare(name: str, a: Any, b: Any) -> Any:
    """A comparison; of numbers that are none, those whose name ends with ``u`` hold."""
    ordered = COMPARISONS.get(name)
    if ordered is not None and name != "ne":
        return ordered(a, b)
    if a.dtype.kind != "f":
        return COMPARISONS[name](a, b)
    unordered = np.isnan(a) | np.isnan(b)
    if name == "nan":
        return unordered
    return COMPARISONS["ne"](a, b) & ~unordered if name == "ne" else COMPARISONS[name[:-1]](a, b) | unordered


_ROUNDINGS = {"rzi": np.trunc, "rni": np.rint, "rmi": np.floor, "rpi": np.ceil}


def convert(modifiers: list[str], a: Any, target: np.dtype[Any]) -> Any:
    """``cvt``: to integers it saturates, and makes 0 of NaN."""
    if a.dtype.kind != "f":
        if "rz" not in modifiers:
            return a.astype(target)
        result = a.astype(target)
        exact = np.array([int(each) for each in result.tolist()], object) if len(a) else a
        return np.where(np.abs(exact) > np.abs(a.astype(object)), np.nextafter(result, 0), result).astype(target)
    for modifier in modifiers:
        a = _ROUNDINGS.get(modifier, lambda x: x)(a)
    if target.kind == "f":
        result = a.astype(target)
        if "rz" in modifiers:
            result = np.where(np.abs(result.astype(a.dtype)) > np.abs(a), np.nextafter(result, target.type(0)), result)
        return result.astype(target)
    if not set(modifiers) & set(_ROUNDINGS):
        raise SyntaxError("a conversion to an integer says how it rounds")
    info, wide = np.iinfo(target), a.astype(np.float64)
    inside = (wide >= float(info.min)) & (wide < 2.0 ** (8 * target.itemsize - (target.kind == "i")))
    result = np.where(inside, wide, 0).astype(np.int64 if target.kind == "i" else np.uint64).astype(target)
    outside = np.where(wide < 0, info.min, info.max).astype(target)
    return np.where(np.isnan(wide), target.type(0), np.where(inside, result, outside))
