"""What an array is compared with: NumPy arrays of its components, and how they are written in words.

The model of an array is the NumPy array of its components with lanes last: ``(n,)`` of a flat array, ``(3, n)`` of an
``Array3f``, ``(2, n)`` of a complex number, ``(2, 2, n)`` of a matrix; that of a tensor has its shape.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import drjit as dr

__all__ = ["Array", "Operands", "Typed", "describe", "difference", "kind_of", "text_of", "value_of"]

Array = np.ndarray[Any, Any]

#: Letters of the kinds of arrays, as the rows of ``touches`` list them.
KINDS = {"F": "flat array", "N": "nested array", "D": "nested array of depth 2", "C": "complex number",
         "Q": "quaternion", "M": "matrix", "V": "tensor of one dimension", "T": "tensor",
         "S": "tensor without dimensions"}


def kind_of(array: Any) -> str:
    """The letter of an array's kind, see :data:`KINDS`."""
    if dr.is_tensor_v(array):
        return {0: "S", 1: "V"}.get(len(array.shape), "T")
    if dr.is_complex_v(array):
        return "C"
    if dr.is_quaternion_v(array):
        return "Q"
    if dr.is_matrix_v(array):
        return "M"
    return "FND"[dr.depth_v(array) - 1]


def value_of(array: Any) -> Array:
    """The components of an array, lanes last."""
    value = array.numpy()
    if value.dtype.kind == "c":
        return np.stack([value.real, value.imag])
    return np.array(value)


@dataclass
class Typed:
    """A value together with the array type that it must have."""

    type: Any
    value: Array


@dataclass
class Host:
    """A value that is no array of the library: numbers, lists, text, NumPy arrays; compared with its type."""

    value: Any


def describe(value: Any) -> str:
    """A value on one line."""
    shown = repr(value.tolist()) + f" ({value.dtype})" if isinstance(value, np.ndarray) else repr(value)
    return " ".join(shown.split())[:160]


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return type(a) is type(b) and a.dtype == b.dtype and a.shape == b.shape and np.array_equal(
            a, b, equal_nan=a.dtype.kind in "fc")
    if isinstance(a, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(map(_equal, a, b))
    return type(a) is type(b) and bool(a == b)


def difference(found: Any, expected: Any, loose: bool = False) -> str:
    """In words how a result differs from what is expected; the empty string if it does not.

    ``loose``: arrays of one element go with any number of lanes.
    """
    if isinstance(expected, Host):
        if _equal(found, expected.value):
            return ""
        return f"found {describe(found)} of type {type(found).__name__}, expected {describe(expected.value)} of type " \
               f"{type(expected.value).__name__}"
    if isinstance(expected, tuple):
        if not isinstance(found, tuple) or len(found) != len(expected):
            return f"found {describe(found)}, expected {len(expected)} values"
        return next(filter(None, (difference(a, b, loose) for a, b in zip(found, expected))), "")
    if isinstance(expected, Typed):
        if not isinstance(found, tuple(expected.type) if isinstance(expected.type, tuple) else expected.type):
            return f"found the type {type(found).__name__}, expected {expected.type.__name__}"
        expected = expected.value
    if not dr.is_array_v(found):
        return f"found {describe(found)} of type {type(found).__name__}, expected an array"
    value = value_of(found)
    if loose and value.ndim == expected.ndim:
        value, expected = np.broadcast_arrays(value, expected)
    if _equal(value, np.asarray(expected)):
        return ""
    return f"found {describe(value)}, expected {describe(np.asarray(expected))}"


# --- text ------------------------------------------------------------------------------------------------------------


def _number(x: Any) -> str:
    return str(bool(x)) if isinstance(x, (bool, np.bool_)) else f"{x:.6g}" if isinstance(x, np.floating) else str(x)


def _nested_text(value: Array, indent: int) -> str:
    if value.ndim == 0:
        return _number(value[()])
    separator = ", " if value.ndim == 1 else ",\n" + " " * (indent + 1)
    return "[" + separator.join(_nested_text(part, indent + 1) for part in value) + "]"


def text_of(value: Array, kind: str) -> str:
    """What ``repr`` must print of an array: elements along the lanes first, the components of each in brackets."""
    if kind in "VTSF":
        return _nested_text(value, 0)
    if not value.size:
        return "[]"
    if kind in "ND":
        return _nested_text(np.moveaxis(value, -1, 0), 0)
    if kind == "M":
        return "[" + ",\n ".join(_matrix_text(part) for part in np.moveaxis(value, -1, 0)) + "]"
    return "[" + ",\n ".join(_sum_text(part, "j" if kind == "C" else "ijk") for part in value.T) + "]"


def _matrix_text(rows: Array) -> str:
    return "[" + ",\n  ".join("[" + ", ".join(map(_number, row)) + "]" for row in rows) + "]"


def _sum_text(parts: Array, units: str) -> str:
    """``1+2j``, or ``1i+2j+3k+4``: the real part comes first of complex numbers, last of quaternions."""
    names = ["", *units] if len(units) == 1 else [*units, ""]
    terms = [f"{part:+.6g}{name}" for part, name in zip(parts, names) if part]
    return "".join(terms).removeprefix("+") or "0"


# --- operands --------------------------------------------------------------------------------------------------------


class Operands:
    """What a touch needs besides the array: operands that fit it, their models, and which lanes are active.

    ``value`` is the array's model at the start, ``lanes`` the number of lanes that operands have, ``active`` which of
    them take part (all but in loops).
    """

    def __init__(self, array: Any, value: Array, lanes: int) -> None:
        self.type = type(array)
        self.kind = kind_of(array)
        self.tensor = self.kind in "VTS"
        self.package: Any = sys.modules[self.type.__module__]
        self.value, self.lanes = value, lanes
        self.dtype = value.dtype
        self.letter = self.dtype.kind
        self.shape = value.shape if self.tensor else (*value.shape[:-1], lanes)
        self.count = value.size if self.tensor else value.shape[-1]
        self.scalar: Any = {"b": bool, "f": float}.get(self.letter, int)
        self.active = np.ones(lanes, bool)
        leaf = dr.array_t if self.tensor else dr.leaf_t
        self.leaf: Any = self.type if self.kind == "F" else leaf(self.type)
        self.mask_leaf: Any = self.package.Bool
        self.index: Any = self.package.UInt
        #: In loops that remove elements, which lanes are left: operands are theirs.
        self.left: Any = None
        #: Zeros that a touch may write to, made before a loop.
        self.spare = dr.zeros(self.leaf, self.count) if self.letter == "f" and self.kind == "F" else None

    # operands of the library, and their models

    def _make(self, leaf: Any, numbers: Array, tensor: Any) -> Any:
        flat = self.of_left(leaf(numbers.reshape(-1).tolist()) if numbers.size else leaf())
        return tensor(flat, shape=self.shape if len(flat) == numbers.size else (len(flat),)) if self.tensor else flat

    def of_left(self, flat: Any) -> Any:
        """What lanes that are left have of something that all have."""
        if self.left is None or len(flat) != self.lanes or len(self.left) == self.lanes:
            return flat
        return dr.gather(type(flat), flat, self.left)

    @property
    def wide_value(self) -> Array:
        """One number for each lane (of a tensor: for each element)."""
        shape = self.shape if self.tensor else (self.lanes,)
        numbers = np.arange(int(np.prod(shape))).reshape(shape) % 3
        return (numbers % 2 == 0 if self.letter == "b" else numbers + 1).astype(self.dtype)

    def wide(self) -> Any:
        """An operand with the array's scalar type; a flat array, or a tensor of the same shape beside a tensor."""
        return self._make(self.leaf, self.wide_value, self.type)

    def double(self) -> Any:
        """The wide operand as double-precision numbers."""
        return self._make(self.package.Float64, self.wide_value.astype(np.float64), self.package.TensorXf64)

    @property
    def mask_value(self) -> Array:
        """Two lanes of four (in loops, one of those never runs)."""
        shape = self.shape if self.tensor else (self.lanes,)
        return (np.arange(int(np.prod(shape))) % 4 < 2).reshape(shape)

    def mask(self) -> Any:
        """The wide operand as a mask."""
        return self._make(self.mask_leaf, self.mask_value, self.package.TensorXb)

    @property
    def key_value(self) -> Array:
        """A position for each lane, none twice: the lanes of the array from the last to the first."""
        return np.zeros(self.lanes, int) if self.count == 1 else np.arange(self.count)[::-1][:self.lanes]

    def key(self) -> Any:
        """The wide operand as an array of indices."""
        return self.of_left(self.index(self.key_value.tolist()) if self.lanes else self.index())

    def host(self) -> Array:
        """A NumPy operand of the array's own shape."""
        return (np.arange(int(np.prod(self.value.shape))).reshape(self.value.shape) % 3 + 1).astype(self.dtype)

    # models of what depends on the kind

    def number(self, value: Any) -> Any:
        """What a number, or one for each lane, adds to an array: the real part, the diagonal."""
        value = np.asarray(value, self.dtype)
        if self.kind in "CQM":
            unit = {"C": np.array([1, 0]), "Q": np.array([0, 0, 0, 1]), "M": np.eye(len(self.value))}[self.kind]
            return (unit.astype(self.dtype)[..., None] * value).astype(self.dtype)
        return value

    def product(self, a: Array, b: Array) -> Array:
        """The product of two arrays of the type."""
        if self.kind == "C":
            return np.stack([a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]])
        if self.kind == "Q":
            x, y, z, w = a
            p, q, r, s = b
            return np.stack([w * p + x * s + y * r - z * q, w * q - x * r + y * s + z * p,
                             w * r + x * q - y * p + z * s, w * s - x * p - y * q - z * r])
        if self.kind == "M":
            return np.einsum("ikn,kjn->ijn", a, b)
        return a * b

    def spread(self, lanes: Array) -> Array:
        """Something given for each lane, in a shape that goes with the array's model."""
        return lanes.reshape(self.shape) if self.tensor else lanes

    def read(self, model: Array, where: Any = True) -> Array:
        """What is read at the keys' positions, zero in lanes that take no part."""
        found = model.reshape(-1)[self.key_value] if self.tensor else model[..., self.key_value]
        return np.where(self.active & where, found, self.dtype.type(0))

    def put(self, model: Array, positions: Array, values: Any, where: Any = True,
            combine: Callable[[Array, Any, Any], None] | None = None) -> None:
        """Write to positions of a model, in active lanes only."""
        lanes = self.active & where if len(positions) == len(self.active) else np.broadcast_to(where, len(positions))
        values = np.broadcast_to(np.asarray(values, self.dtype), (*model.shape[:-1], len(positions)))
        chosen = (..., positions[lanes])
        if combine is None:
            model[chosen] = values[..., lanes]
        else:
            combine(model, chosen, values[..., lanes])
