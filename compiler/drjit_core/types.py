"""Scalar types, enumerations and their properties: floor 0, known to everything, knowing nothing.

Inside the compiler a scalar type is a plain ``int`` (``FLOAT32`` …), because it is part of every value-numbering key
and enums make such keys 1.5-2.4x dearer.  :class:`VarType` is the public face of the same numbers.
"""

from __future__ import annotations

import enum
from typing import NamedTuple

__all__ = ["JitBackend", "KernelRecordingMode", "KernelType", "LogLevel", "ProfileEvent", "ReduceMode", "ReduceOp",
           "TYPES", "TypeInfo", "VarState", "VarType", "is_float", "is_integral", "is_signed"]

VOID, BOOL, INT8, UINT8, INT16, UINT16, INT32, UINT32, INT64, UINT64 = 0, 1, 3, 4, 5, 6, 7, 8, 9, 10
POINTER, FLOAT16, FLOAT32, FLOAT64 = 11, 13, 14, 15


class TypeInfo(NamedTuple):
    """What the compiler needs to know about one scalar type."""

    type: int
    name: str  # "float32": as in messages, NumPy dtypes and log lines
    short: str  # "f32": as in tables
    kind: str  # 'b' mask, 'i' signed integer, 'u' unsigned integer, 'f' floating point: the op table's type classes
    bits: int  # width of the value (1 for a mask)
    size: int  # bytes an element takes in memory
    llvm: str  # LLVM type of the value in a register
    code: str  # letter of the struct and array modules, and of the buffer protocol
    minimum: float  # smallest and largest value; -inf and inf for floating point
    maximum: float


def _integer(type_: int, bits: int, code: str, signed: bool) -> TypeInfo:
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    kind = "i" if signed else "u"
    return TypeInfo(type_, ("int" if signed else "uint") + str(bits), kind + str(bits), kind, bits, bits // 8,
                    f"i{bits}", code, low, high)


def _float(type_: int, bits: int, llvm: str, code: str) -> TypeInfo:
    return TypeInfo(type_, f"float{bits}", f"f{bits}", "f", bits, bits // 8, llvm, code, float("-inf"), float("inf"))


#: Properties by scalar type; ``None`` at the numbers that are not a type of array elements.
TYPES: list[TypeInfo] = [None] * 16  # type: ignore[list-item]
for _info in (
    TypeInfo(BOOL, "bool", "msk", "b", 1, 1, "i1", "?", 0, 1),
    _integer(INT8, 8, "b", True), _integer(UINT8, 8, "B", False),
    _integer(INT16, 16, "h", True), _integer(UINT16, 16, "H", False),
    _integer(INT32, 32, "i", True), _integer(UINT32, 32, "I", False),
    _integer(INT64, 64, "q", True), _integer(UINT64, 64, "Q", False),
    TypeInfo(POINTER, "pointer", "ptr", "u", 64, 8, "i64", "Q", 0, (1 << 64) - 1),
    _float(FLOAT16, 16, "half", "e"), _float(FLOAT32, 32, "float", "f"), _float(FLOAT64, 64, "double", "d"),
):
    TYPES[_info.type] = _info


def is_float(type_: int) -> bool:
    """Whether a scalar type is a floating-point one."""
    return type_ >= FLOAT16


def is_integral(type_: int) -> bool:
    """Whether a scalar type is a signed or unsigned integer."""
    return INT8 <= type_ <= UINT64


def is_signed(type_: int) -> bool:
    """Whether a scalar type can represent negative numbers."""
    return type_ >= FLOAT16 or TYPES[type_].kind == "i"


class _Enum(enum.Enum):
    """An enumeration whose members print as ``VarState.Literal``."""

    def __repr__(self) -> str:
        return str(self)


class VarType(_Enum):
    """Scalar types of array elements."""

    Void = 0
    Bool = 1
    Int8 = 3
    UInt8 = 4
    Int16 = 5
    UInt16 = 6
    Int32 = 7
    UInt32 = 8
    Int64 = 9
    UInt64 = 10
    Pointer = 11
    Float16 = 13
    Float32 = 14
    Float64 = 15


class VarState(_Enum):
    """Evaluation state of an array, see ``ArrayBase.state``."""

    Invalid = 0
    Undefined = 1
    Literal = 2
    Unevaluated = 3
    Evaluated = 4
    Dirty = 5
    Symbolic = 6
    Mixed = 7


class JitBackend(_Enum):
    """Backends that compile and run traced programs."""

    Invalid = 0
    CUDA = 1
    LLVM = 2


class ReduceOp(_Enum):
    """Operations of reductions and of atomic read-modify-write scatters."""

    Identity = 0
    Add = 1
    Mul = 2
    Min = 3
    Max = 4
    And = 5
    Or = 6


class ReduceMode(_Enum):
    """Compilation strategies of scatter-reductions."""

    Auto = 0
    Direct = 1
    Local = 2
    NoConflicts = 3
    Expand = 4
    Permute = 5


class KernelType(_Enum):
    """Kinds of entries in the kernel history."""

    JIT = 0
    BlockReduce = 1
    BlockPrefixReduce = 2
    Dot = 3
    BatchedGemm = 4
    Compress = 5
    MkPerm = 6
    Memcpy = 7
    Memset = 8
    Poke = 9
    Aggregate = 10
    LLVMHostFunc = 11


class ProfileEvent(_Enum):
    """Kinds of entries in the kernel history that are no kernels."""

    Mark = 0
    Range = 1


class KernelRecordingMode(_Enum):
    """Whether a kernel ran inside a frozen function, and how."""

    Inactive = 0
    Recorded = 1
    Replayed = 2


class LogLevel(_Enum):
    """Verbosity of the compiler's messages."""

    Disable = 0
    Error = 1
    Warn = 2
    Info = 3
    InfoSym = 4
    Debug = 5
    Trace = 6
