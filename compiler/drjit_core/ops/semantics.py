"""The meaning of each elementwise operation on one element, in plain Python: floor 0.

Constant folding calls these functions, tests compare kernels with them, and the scalar backend is made of them.
Arguments are Python ``int``, ``float`` or ``bool`` within the range of the operation's type; results may leave it and
are brought back by :func:`normalise`.  Where an operation depends on the width of its type, the function takes the
:class:`~drjit_core.types.TypeInfo` as its last argument (``typed=True`` in the table).
"""

from __future__ import annotations

import math
import struct
from array import array
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from ..types import BFLOAT16, BOOL, FLOAT16, FLOAT32, FLOAT64, TYPES, TypeInfo

if TYPE_CHECKING:
    from fractions import Fraction

__all__ = ["bitcast", "bits_of", "cast", "from_bits", "from_memory", "normalise", "to_memory"]

_PACK_FLOAT32, _UNPACK_FLOAT32 = struct.Struct("<f").pack, struct.Struct("<f").unpack
_PACK_FLOAT16, _UNPACK_FLOAT16 = struct.Struct("<e").pack, struct.Struct("<e").unpack
_TWO_TO_128 = 2.0**128


def _round_to_float32(value: float) -> float:
    try:
        return _UNPACK_FLOAT32(_PACK_FLOAT32(value))[0]  # type: ignore[no-any-return]
    except OverflowError:  # the value rounds beyond the largest finite number
        return math.copysign(math.inf, value)


def _round_to_float16(value: float) -> float:
    try:
        return _UNPACK_FLOAT16(_PACK_FLOAT16(value))[0]  # type: ignore[no-any-return]
    except OverflowError:
        return math.copysign(math.inf, value)


def _round_to_bfloat16(value: float) -> float:
    if value == 0 or not math.isfinite(value):
        return value
    unit = math.ldexp(1.0, max(math.frexp(value)[1], -125) - 8)  # of the last of 8 bits; the smallest is 2^-133
    rounded = math.copysign(round(value / unit) * unit, value)
    return rounded if abs(rounded) < _TWO_TO_128 else math.copysign(math.inf, value)


def _odd_double(value: int) -> float:
    """An integer as a double that can be rounded again: to nearest if that is exact, else to odd."""
    return float(value) if -1 << 53 <= value <= 1 << 53 else _round_fraction(_exactly(value))


def normalise(type_: int, value: Any) -> Any:
    """Bring a value into the range of a type: integers wrap around, floats are rounded to nearest even."""
    if type_ == FLOAT32:
        return _round_to_float32(_odd_double(value) if value.__class__ is int else value)
    if type_ == FLOAT64:
        return float(value)
    if type_ == FLOAT16:
        return _round_to_float16(_odd_double(value) if value.__class__ is int else value)
    if type_ == BFLOAT16:
        return _round_to_bfloat16(_odd_double(value) if value.__class__ is int else float(value))
    if type_ == BOOL:
        return bool(value)
    info = TYPES[type_]
    value &= (1 << info.bits) - 1
    if info.kind == "i" and value >> (info.bits - 1):
        value -= 1 << info.bits
    return value


def cast(value: Any, source: TypeInfo, target: TypeInfo) -> Any:
    """Convert a value between types.

    Float to integer truncates; what does not fit (NaN included) becomes the smallest value of a signed type and the
    largest of an unsigned one, which is what x86 vector instructions produce. To a mask: whether it differs from zero.
    """
    if target.kind == "b":
        return value != 0
    if target.kind == "f" or source.kind != "f":
        return normalise(target.type, value)
    if math.isfinite(value):
        result = math.trunc(value)
        if target.minimum <= result <= target.maximum and (target.kind == "i" or value > -1.0):
            return result
    return target.minimum if target.kind == "i" else target.maximum


def bits_of(value: Any, info: TypeInfo) -> int:
    """The bit pattern of a value as an unsigned integer."""
    return int.from_bytes(to_memory(info, (value,)), "little")


def from_bits(bits: int, info: TypeInfo) -> Any:
    """The value whose bit pattern is given; inverse of :func:`bits_of`."""
    return from_memory(info, bits.to_bytes(info.size, "little"))[0]


def to_memory(info: TypeInfo, values: Iterable[Any]) -> bytes:
    """Numbers as they lie in memory, floating-point ones rounded to the type."""
    values = tuple(values)
    if info.code:
        return struct.pack(f"<{len(values)}{info.code}", *values)
    single = struct.pack(f"<{len(values)}f", *(normalise(info.type, value) for value in values))
    return array("H", single)[1::2].tobytes()  # bfloat16: the upper halves


def from_memory(info: TypeInfo, data: Any) -> tuple[Any, ...]:
    """The inverse of :func:`to_memory`; ``data`` is anything with a buffer of bytes."""
    count = len(data) // info.size
    if info.code:
        return struct.unpack(f"<{count}{info.code}", data)
    halves = array("H", bytes(4 * count))
    halves[1::2] = array("H", bytes(data))
    return struct.unpack(f"<{count}f", halves.tobytes())


def bitcast(value: Any, source: TypeInfo, target: TypeInfo) -> Any:
    """Reinterpret the bit pattern of a value as another type of the same size."""
    return from_bits(bits_of(value, source), target)


def divide(a: float, b: float) -> float:
    """IEEE 754 division, with infinities and NaN where Python raises."""
    if b != 0:
        return a / b
    if a == 0 or a != a:
        return math.nan
    return math.copysign(math.inf, a) * math.copysign(1.0, b)


def integer_divide(a: int, b: int) -> int:
    """Integer division rounding towards zero; division by zero yields zero (as NumPy does, without its warning)."""
    if b == 0:
        return 0
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def integer_modulo(a: int, b: int) -> int:
    """Remainder of :func:`integer_divide`, with the sign of the dividend; zero for a zero divisor."""
    return a - integer_divide(a, b) * b if b else 0


def square_root(a: float) -> float:
    """IEEE 754 square root: NaN below zero, and -0 of -0."""
    return math.nan if a < 0 else math.sqrt(a) if a < math.inf else a


def _exactly(value: float) -> Fraction:
    """A number as a fraction.

    Few programs need one, and their module takes longer to import than ten of this package.
    """
    from fractions import Fraction

    return Fraction(value)


def _as_fraction_sum(a: float, b: float, c: float) -> float:
    exact = _exactly(a) * _exactly(b) + _exactly(c)
    if exact:
        return _nearest(exact)
    product_negative = math.copysign(1.0, a) * math.copysign(1.0, b) < 0
    return -0.0 if product_negative and math.copysign(1.0, c) < 0 else 0.0


def _nearest(exact: Fraction) -> float:
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def fused_multiply_add(a: Any, b: Any, c: Any, info: TypeInfo) -> Any:
    """``a * b + c`` with one rounding (float), or modulo the word size (integer)."""
    if info.kind != "f":
        return a * b + c
    if not (math.isfinite(a) and math.isfinite(b)):
        return (math.nan if (a == 0 or b == 0) and (math.isinf(a) or math.isinf(b)) else a * b) + c
    if not math.isfinite(c):
        return c  # even if the product alone would overflow
    product = a * b
    if not c and product:
        return product
    if not a or not b:
        return product + c  # which is exact
    if info.bits == 64:
        return _as_fraction_sum(a, b, c)
    return _odd_sum(product, c)  # 24 bits times 24: the product is exact


def _round_fraction(exact: Fraction) -> float:
    """Round an exact value to double by round-to-odd, after which rounding to fewer bits cannot round twice."""
    value = _nearest(exact)
    if not math.isfinite(value) or _exactly(value) == exact:
        return value
    if not bits_of(value, TYPES[FLOAT64]) & 1:
        value = math.nextafter(value, math.inf if _exactly(value) < exact else -math.inf)
    return value


def _odd_sum(a: float, b: float) -> float:
    """A sum in double precision by round-to-odd, after which rounding to fewer bits cannot round twice."""
    total = a + b
    change = total - a
    error = (a - (total - change)) + (b - change)  # exact: Knuth, The Art of Computer Programming 2, 4.2.2, theorem B
    if error and not bits_of(total, TYPES[FLOAT64]) & 1:
        total = math.nextafter(total, math.inf if error > 0 else -math.inf)
    return total


def minimum(a: Any, b: Any) -> Any:
    """Smaller value; NaN if either is (IEEE 754-2019 *minimum*), and -0 is smaller than +0."""
    if a != a or b != b:
        return math.nan
    if a == b == 0:
        return a if math.copysign(1.0, a) < 0 else b
    return a if a < b else b


def maximum(a: Any, b: Any) -> Any:
    """Larger value; NaN if either is (IEEE 754-2019 *maximum*), and +0 is larger than -0."""
    if a != a or b != b:
        return math.nan
    if a == b == 0:
        return b if math.copysign(1.0, a) < 0 else a
    return a if a > b else b


def _rounding(function: Callable[[float], int]) -> Callable[[float], float]:
    def rounded(a: float) -> float:
        return math.copysign(float(function(a)), a) if math.isfinite(a) else a

    rounded.__doc__ = f"{function.__name__} of a float as a float, which keeps infinities, NaN and the sign of zero."
    return rounded


ceil, floor, trunc, round_to_even = _rounding(math.ceil), _rounding(math.floor), _rounding(math.trunc), _rounding(round)


def multiply_high(a: int, b: int, info: TypeInfo) -> int:
    """Upper half of the double-width product."""
    return (a * b) >> info.bits


def shift_left(a: int, b: int, info: TypeInfo) -> int:
    """Left shift; the count is taken modulo the word size, as on x86."""
    return a << (b & (info.bits - 1))


def shift_right(a: int, b: int, info: TypeInfo) -> int:
    """Right shift, arithmetic for signed types; the count is taken modulo the word size."""
    return a >> (b & (info.bits - 1))


def rotate_right(a: int, count: int, info: TypeInfo) -> int:
    """Rotation to the right, by a count modulo the word size."""
    word, count = a & (1 << info.bits) - 1, count % info.bits
    return word >> count | word << info.bits - count


def population_count(a: int, info: TypeInfo) -> int:
    """Number of one bits."""
    return (a & ((1 << info.bits) - 1)).bit_count()


def leading_zeros(a: int, info: TypeInfo) -> int:
    """Number of zero bits above the highest one bit; the word size for zero."""
    return info.bits - (a & ((1 << info.bits) - 1)).bit_length()


def trailing_zeros(a: int, info: TypeInfo) -> int:
    """Number of zero bits below the lowest one bit; the word size for zero."""
    return (a & -a).bit_length() - 1 if a else info.bits


def reverse_bits(a: int, info: TypeInfo) -> int:
    """The word with its bits in reverse order."""
    return int(format(a & ((1 << info.bits) - 1), f"0{info.bits}b")[::-1], 2)


def select(mask: bool, a: Any, b: Any) -> Any:
    """``a`` where the mask is set, else ``b``."""
    return a if mask else b
