"""Data types: the thirteen of the standard and ``float16``, and how they promote.

Promotion follows from the kind and the width of a type (:func:`promoted`); there is no table. What the standard leaves
undefined is as in NumPy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import drjit as dr
from drjit.interop import tensor_type

from ._devices import BACKENDS, CPU, CUDA

__all__ = ["ALL", "BY_NUMPY", "DEFAULT_COMPLEX", "DEFAULT_FLOAT", "DEFAULT_INT", "ON_GPU", "DType", "DTypeLike",
           "FInfo", "IInfo", "bool", "complex128", "complex64", "device_of", "enter_conversion", "float16", "float32",
           "float64", "int16", "int32", "int64", "int8", "of_numpy", "of_tensor", "promoted", "uint16", "uint32",
           "uint64", "uint8"]

#: Types of tensors on the CPU and on a GPU, and the data types of their elements; those of a GPU are made as soon as
#: one of them is asked for.
_ON_CPU: dict[Any, DType] = {}
ON_GPU: dict[Any, DType] = {}


class DType:
    """The type of the elements of an array."""

    __slots__ = ("_on_gpu", "bits", "integers", "itemsize", "kind", "name", "numpy", "part", "tensor")

    def __init__(self, name: str) -> None:
        #: The type of NumPy that has the same elements.
        self.numpy = np.dtype(name)
        self.name: str = name
        #: ``'b'`` (Boolean), ``'i'``, ``'u'`` (integers), ``'f'`` or ``'c'`` (real and complex floating point).
        self.kind: str = self.numpy.kind
        #: Bytes of an element.
        self.itemsize: int = self.numpy.itemsize
        #: The type of the real and imaginary part of complex types; other types are their own part.
        self.part: DType = self if self.kind != "c" else _BY_NAME[f"float{self.itemsize * 4}"]
        #: Bits of a part.
        self.bits = 1 if self.kind == "b" else self.part.itemsize * 8
        #: The integers from the first to the last one are elements, each exactly; none if there are no real numbers.
        self.integers: tuple[int, int] = (1, 0)
        if self.kind == "f":
            exact = 2 << int(np.finfo(self.numpy).nmant)
            self.integers = -exact, exact
        elif self.kind in "iu":
            self.integers = int(np.iinfo(self.numpy).min), int(np.iinfo(self.numpy).max)
        #: The tensor type that holds such elements on the CPU, or each of the two parts of complex ones.
        self.tensor: Any = tensor_type(BACKENDS[CPU], self.part.name)
        self._on_gpu: Any = None
        _ON_CPU.setdefault(self.tensor, self)
        _BY_NAME[name] = self

    def on(self, device: str) -> Any:
        """The tensor type that holds such elements, or each of their parts, on a device."""
        if device == CPU:
            return self.tensor
        if self._on_gpu is None:
            _look_at_gpu()
        return self._on_gpu

    def beside(self, part: Any) -> Any:
        """The tensor type that holds such elements, or each of their parts, where a tensor is."""
        return self.tensor if type(part) in _ON_CPU else self.on(device_of(part))

    def __repr__(self) -> str:
        return f"drjit.array_api.{self.name}"

    def __str__(self) -> str:
        return self.name

    def __eq__(self, other: object) -> Any:
        if isinstance(other, str):
            return self.name == other
        return self is other or (self.numpy == other if isinstance(other, (type, np.dtype)) else NotImplemented)

    def __call__(self, value: Any = 0, /) -> Any:
        """An array of this type of a number, a sequence or an array: ``xp.float32(2.5)``."""
        return _convert(value, self)

    @property
    def dtype(self) -> np.dtype[Any]:
        """This type as NumPy's, as arrays have it."""
        return self.numpy

    @property
    def __numpy_dtype__(self) -> np.dtype[Any]:
        """What NumPy (2.4) takes this type for: ``np.zeros(3, dtype=xp.float32)``."""
        return self.numpy

    def __hash__(self) -> int:
        return hash(self.numpy)  # which NumPy finds equal

    def __reduce__(self) -> tuple[Any, ...]:
        return _named, (self.name,)


def _look_at_gpu() -> None:
    """Make the types of tensors on a GPU."""
    for dtype in _BY_NAME.values():
        dtype._on_gpu = tensor_type(BACKENDS[CUDA], dtype.part.name)
        ON_GPU.setdefault(dtype._on_gpu, dtype)


def device_of(part: Any) -> str:
    """The device of a tensor."""
    cls = type(part)
    if cls in _ON_CPU:
        return CPU
    if cls not in ON_GPU and dr.backend_v(cls) is BACKENDS[CUDA]:
        _look_at_gpu()
    return CUDA if cls in ON_GPU else CPU


def _named(name: str) -> DType:
    return ALL[name]


#: What makes an array of a value and a type.
_convert: Any = None


def enter_conversion(function: Callable[[Any, DType], Any]) -> None:
    """Tell what makes an array of a value and a type."""
    global _convert
    _convert = function


#: What names a data type where one is asked for.
DTypeLike = DType | np.dtype[Any] | type | str

_BY_NAME: dict[str, DType] = {}

bool = DType("bool")
int8, int16, int32, int64 = DType("int8"), DType("int16"), DType("int32"), DType("int64")
uint8, uint16, uint32, uint64 = DType("uint8"), DType("uint16"), DType("uint32"), DType("uint64")
float16, float32, float64 = DType("float16"), DType("float32"), DType("float64")
complex64, complex128 = DType("complex64"), DType("complex128")

#: All types, by their names.
ALL: dict[str, DType] = dict(_BY_NAME)
#: All types, by those of NumPy in the byte order of the machine.
BY_NUMPY = {dtype.numpy: dtype for dtype in ALL.values()}
DEFAULT_INT, DEFAULT_FLOAT, DEFAULT_COMPLEX = int64, float64, complex128


def of_numpy(dtype: Any) -> DType | None:
    """The type with the elements of a type of NumPy, in any byte order, or ``None``."""
    own = np.dtype(dtype)
    found = BY_NUMPY.get(own)
    return ALL.get(own.name) if found is None else found


def of_tensor(function: str, cls: type) -> DType:
    """The type of the elements of a tensor type; raises a ``TypeError`` for what the standard does not know."""
    if not ON_GPU and dr.backend_v(cls) is BACKENDS[CUDA]:
        _look_at_gpu()
    found = _ON_CPU.get(cls) or ON_GPU.get(cls)
    if found is not None:
        return found
    raise TypeError(f"{function}(): there is no data type for the elements of {cls.__module__}.{cls.__name__}; convert "
                    "them before, to float32 for example.")


def promoted(first: DType, second: DType) -> DType:
    """The type that values of two types have in common.

    Types of one kind become the wider one; real and complex floating point become complex; signed and unsigned
    integers become a signed type that holds both, if there is one. The standard defines no others: NumPy's rules do.
    """
    if first is second:
        return first
    kinds = {first.kind, second.kind}
    bits = max(first.bits, second.bits)
    if len(kinds) == 1:
        return first if first.bits >= second.bits else second
    if kinds == {"f", "c"}:
        return complex64 if bits <= 32 else complex128
    if kinds == {"i", "u"}:
        signed, unsigned = (first, second) if first.kind == "i" else (second, first)
        if unsigned.bits < 64:
            return ALL[f"int{max(signed.bits, 2 * unsigned.bits)}"]
    return ALL[np.promote_types(first.numpy, second.numpy).name]


class FInfo(NamedTuple):
    """Limits of a floating point type (of its parts, if it is complex)."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: DType


class IInfo(NamedTuple):
    """Limits of an integer type."""

    bits: int
    max: int
    min: int
    dtype: DType


def finfo_of(dtype: DType) -> FInfo:
    """The limits of a floating point type."""
    found = np.finfo(dtype.part.numpy)
    return FInfo(dtype.bits, float(found.eps), float(found.max), float(found.min), float(found.smallest_normal),
                 dtype.part)


def iinfo_of(dtype: DType) -> IInfo:
    """The limits of an integer type."""
    signed = dtype.kind == "i"
    return IInfo(dtype.bits, (1 << dtype.bits - signed) - 1, -(1 << dtype.bits - 1) if signed else 0, dtype)


def holds(dtype: DType, number: int) -> Any:
    """Whether an integer type has a number among its values."""
    limits = iinfo_of(dtype)
    return limits.min <= number <= limits.max


