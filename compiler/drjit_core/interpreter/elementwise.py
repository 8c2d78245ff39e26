"""Rows of the op table on whole arrays.

What a row means is its folding function, element by element.  Where NumPy computes the same bits (each claim is tested
at special values of every type), it does so for all elements at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..ops import semantics
from ..ops.op import Op
from ..ops.table import KIND, TWINS
from ..types import BFLOAT16, FLOAT64, TYPES, TypeInfo

__all__ = ["Array", "apply", "bitcast", "by_element", "cast", "dtype_of", "filled", "narrowed", "type_of", "widened"]

Array = NDArray[Any]


def dtype_of(type_: int) -> np.dtype[Any]:
    """The NumPy dtype of a scalar type."""
    return _DTYPES[type_]  # type: ignore[no-any-return]


#: NumPy has no bfloat16: its bits are the only field of a structure, which no other type is taken for.
_BITS = "bits"
_FORMATS: dict[str, Any] = {"pointer": "uint64", "bfloat16": [(_BITS, np.uint16)]}
_DTYPES: dict[int, Any] = {
    info.type: np.dtype(_FORMATS.get(info.name, info.name)) for info in TYPES if info is not None}


def filled(type_: int, value: Any, size: int = 1) -> Array:
    """An array of equal elements."""
    if type_ == BFLOAT16:
        return np.broadcast_to(narrowed(np.full(1, value), type_), size).copy()
    return np.full(size, value, _DTYPES[type_])


def widened(values: Array) -> Array:
    """Numbers that NumPy can compute with: bfloat16 in single precision."""
    if values.dtype != _DTYPES[BFLOAT16]:
        return values
    return (np.asarray(values[_BITS], np.uint32) << np.uint32(16)).view(np.float32)


def narrowed(values: Array, type_: int) -> Array:
    """Numbers rounded to a floating-point type; the others as they are."""
    if type_ != BFLOAT16:
        with np.errstate(all="ignore"):
            return values.astype(_DTYPES[type_])
    if values.dtype != np.float32:
        return np.array([(semantics.bits_of(semantics.normalise(type_, value), TYPES[type_]),)
                         for value in values.reshape(-1).tolist()], _DTYPES[type_]).reshape(values.shape)
    bits = np.ascontiguousarray(values).view(np.uint32).astype(np.uint64)
    rounded = np.where(np.isnan(values), bits | (1 << 22), bits + 0x7FFF + (bits >> 16 & 1))
    return (rounded >> 16).astype(np.uint16).view(_DTYPES[type_])


# --- what NumPy does in the same way ---------------------------------------------------------------------------------

_Vectorised = Callable[..., Array]


def _shift(function: Callable[..., Array]) -> _Vectorised:
    """A shift whose count is taken modulo the word size."""
    return lambda a, b: function(a, b & b.dtype.type(8 * b.dtype.itemsize - 1))


def _rotate_right(a: Array, b: Array) -> Array:
    """A rotation: two shifts of the unsigned word, whose counts add up to the word size, or are both zero."""
    word = np.dtype(f"u{a.dtype.itemsize}")
    bits, last = a.view(word), word.type(8 * word.itemsize - 1)
    right = b.view(word) & last
    rotated: Array = bits >> right | bits << (-right & last)
    return rotated.view(a.dtype)


def _if_integers(function: Callable[..., Array]) -> _Vectorised:
    """A function that leaves floats (signs of zeros, roundings of products) to the folding function."""
    return lambda *operands: NotImplemented if operands[-1].dtype.kind == "f" else function(*operands)


def _if_unsigned(function: Callable[..., Array]) -> _Vectorised:
    """A quotient or remainder that leaves signed operands to the folding function; zero for a zero divisor."""
    def apply(a: Array, b: Array) -> Array:
        if b.dtype.kind != "u":
            return NotImplemented  # type: ignore[no-any-return]
        one = b.dtype.type(1)
        return np.where(b == 0, b, function(a, np.where(b == 0, one, b)))

    return apply


_BY_NAME: dict[str, Any] = {
    "neg": np.negative, "abs": np.abs, "inv": np.invert,
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "sqrt": np.sqrt,
    "floordiv": _if_unsigned(np.floor_divide), "mod": _if_unsigned(np.remainder),
    "fma": _if_integers(lambda a, b, c: a * b + c),
    "minimum": _if_integers(np.minimum), "maximum": _if_integers(np.maximum),
    "ceil": np.ceil, "floor": np.floor, "trunc": np.trunc, "round": np.rint,
    "and_": np.bitwise_and, "or_": np.bitwise_or, "xor": np.bitwise_xor,
    "shl": _shift(np.left_shift), "shr": _shift(np.right_shift), "rotr": _rotate_right,
    "eq": np.equal, "neq": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "select": np.where,
}
_VECTORISED: dict[int, _Vectorised] = {KIND[name]: function for name, function in _BY_NAME.items()}
_VECTORISED |= {twin: _VECTORISED[kind] for kind, twin in TWINS.items() if kind in _VECTORISED}


def apply(row: Op, type_: int, *operands: Array) -> Array:
    """What an elementwise row yields for operands of equal sizes, or of size 1; ``type_`` is the result's."""
    function = _VECTORISED.get(row.kind)
    if function is not None:
        with np.errstate(all="ignore"):
            result = function(*map(widened, operands))
        if result is not NotImplemented:
            if type_ == BFLOAT16:
                return narrowed(result, type_)
            assert result.dtype == _DTYPES[type_], (row.name, result.dtype)
            return result
    return by_element(row, type_, *operands)


def by_element(row: Op, type_: int, *operands: Array) -> Array:
    """The result of a row on arrays, element by element, by its folding function."""
    fold, info = row.fold, TYPES[type_of(operands[-1])]
    assert fold is not None, f"{row.name} has no meaning of its own"

    def one(*values: Any) -> Any:
        try:
            result = fold(*values, info) if row.typed else fold(*values)
        except OverflowError:  # a double-precision product or sum of finite numbers
            result = math.inf
        return semantics.normalise(type_, result)

    columns = np.broadcast_arrays(*map(widened, operands))
    results = [one(*values) for values in zip(*(column.tolist() for column in columns), strict=True)]
    return narrowed(np.array(results, np.float64), type_) if type_ == BFLOAT16 else np.array(results, _DTYPES[type_])


_TYPES_OF = {dtype: type_ for type_, dtype in _DTYPES.items() if TYPES[type_].name != "pointer"}


def type_of(values: Array) -> int:
    """The scalar type of an array."""
    return _TYPES_OF[values.dtype]


# --- conversions -----------------------------------------------------------------------------------------------------


def cast(values: Array, type_: int) -> Array:
    """Conversion to another scalar type, see :func:`drjit_core.ops.semantics.cast`."""
    source, target = TYPES[type_of(values)], TYPES[type_]
    if source.type == type_:
        return values
    values, dtype = widened(values), _DTYPES[type_]
    if target.kind == "b":
        return np.asarray(values != 0)
    if target.computes_in != type_ and source.kind in "iu":  # NumPy rounds to single precision first
        rounded = [semantics.cast(value, source, target) for value in values.tolist()]
        return narrowed(np.array(rounded, np.float64), type_)
    if type_ == BFLOAT16:
        return narrowed(values if source.type == FLOAT64 else values.astype(np.float32), type_)
    if source.kind != "f" or target.kind == "f":
        with np.errstate(all="ignore"):
            return values.astype(dtype)
    return _truncate(values, target)


def _truncate(values: Array, target: TypeInfo) -> Array:
    """Floats to integers: what does not fit becomes the smallest of a signed type, the largest of an unsigned one."""
    signed = target.kind == "i"
    whole = np.trunc(values.astype(np.float64))
    fits = (whole >= float(target.minimum)) & (whole < 2.0 ** (target.bits - signed))
    result = np.where(fits, whole, 0).astype(np.int64 if signed else np.uint64).astype(_DTYPES[target.type])
    return np.where(fits, result, _DTYPES[target.type].type(target.minimum if signed else target.maximum))


def bitcast(values: Array, type_: int) -> Array:
    """Reinterpretation of the bits as another type of the same size."""
    return np.ascontiguousarray(values).view(_DTYPES[type_])
