"""Scalar types, enumerations and their properties: floor 0, known to everything, knowing nothing.

Inside the compiler a scalar type is a plain ``int`` (``FLOAT32`` …), because it is part of every value-numbering key
and enums make such keys 1.5-2.4x dearer.  :class:`VarType` is the public face of the same numbers.
"""

from __future__ import annotations

import enum
from typing import NamedTuple

__all__ = ["ADFlag", "ADMode", "COMPUTES_IN", "FilterMode", "IS_FLOAT", "JitBackend", "KernelRecordingMode",
           "KernelType", "LogLevel", "ProfileEvent", "ReduceMode", "ReduceOp", "TYPES", "TYPE_BITS", "TypeInfo",
           "VarState", "VarType", "WrapMode", "common_type", "is_float", "is_integral", "is_signed"]

VOID, BOOL, INT8, UINT8, INT16, UINT16, INT32, UINT32, INT64, UINT64 = 0, 1, 3, 4, 5, 6, 7, 8, 9, 10
POINTER, BFLOAT16, FLOAT16, FLOAT32, FLOAT64 = 11, 12, 13, 14, 15
#: Bits that a type takes where it shares a word with something else, as in the keys of kernels.
TYPE_BITS = 4


class TypeInfo(NamedTuple):
    """What the compiler needs to know about one scalar type."""

    type: int
    name: str  # "float32": as in messages, NumPy dtypes and log lines
    short: str  # "f32": as in tables
    kind: str  # 'b' mask, 'i' signed integer, 'u' unsigned integer, 'f' floating point: the op table's type classes
    bits: int  # width of the value (1 for a mask)
    size: int  # bytes an element takes in memory
    code: str  # letter of the struct and array modules, and of the buffer protocol; empty if there is none
    minimum: float  # smallest and largest value; -inf and inf for floating point
    maximum: float
    is_float: bool  # whether the kind is 'f'
    computes_in: int  # the type in which functions and sums are computed before they are rounded to this one


def _integer(type_: int, bits: int, code: str, signed: bool) -> TypeInfo:
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    kind = "i" if signed else "u"
    return TypeInfo(type_, ("int" if signed else "uint") + str(bits), kind + str(bits), kind, bits, bits // 8, code,
                    low, high, False, type_)


def _float(type_: int, name: str, short: str, bits: int, code: str, computes_in: int) -> TypeInfo:
    return TypeInfo(type_, name, short, "f", bits, bits // 8, code, float("-inf"), float("inf"), True, computes_in)


#: Properties by scalar type; ``None`` at the numbers that are not a type of array elements.
TYPES: list[TypeInfo] = [None] * (1 << TYPE_BITS)  # type: ignore[list-item]
for _info in (
    TypeInfo(BOOL, "bool", "msk", "b", 1, 1, "?", 0, 1, False, BOOL),
    _integer(INT8, 8, "b", True), _integer(UINT8, 8, "B", False),
    _integer(INT16, 16, "h", True), _integer(UINT16, 16, "H", False),
    _integer(INT32, 32, "i", True), _integer(UINT32, 32, "I", False),
    _integer(INT64, 64, "q", True), _integer(UINT64, 64, "Q", False),
    TypeInfo(POINTER, "pointer", "ptr", "u", 64, 8, "Q", 0, (1 << 64) - 1, False, POINTER),
    _float(BFLOAT16, "bfloat16", "bf16", 16, "", FLOAT32), _float(FLOAT16, "float16", "f16", 16, "e", FLOAT32),
    _float(FLOAT32, "float32", "f32", 32, "f", FLOAT32), _float(FLOAT64, "float64", "f64", 64, "d", FLOAT64),
):
    TYPES[_info.type] = _info

#: What is asked often of the records, by scalar type: compiled rooms read bytes without making objects.
IS_FLOAT = bytes(info is not None and info.is_float for info in TYPES)
COMPUTES_IN = bytes(info.computes_in if info is not None else VOID for info in TYPES)


def is_float(type_: int) -> bool:
    """Whether a scalar type is a floating-point one."""
    return bool(IS_FLOAT[type_])


def common_type(a: int, b: int) -> int:
    """The scalar type that two promote to: the one that comes later in the table, unless neither holds all numbers of
    the other."""
    return FLOAT32 if {a, b} == {BFLOAT16, FLOAT16} else max(a, b)


def is_integral(type_: int) -> bool:
    """Whether a scalar type is a signed or unsigned integer."""
    return INT8 <= type_ <= UINT64


def is_signed(type_: int) -> bool:
    """Whether a scalar type can represent negative numbers."""
    return TYPES[type_].kind in "if"


class _Enum(enum.Enum):
    """An enumeration whose members print as ``VarState.Literal``."""

    __hash__ = object.__hash__  # members are unique; that of their names is written in Python

    def __repr__(self) -> str:
        return str(self)


class VarType(_Enum):
    """Scalar types of array elements, see :func:`drjit.type_v`.

    >>> from drjit.llvm import Array3f, UInt
    >>> dr.type_v(Array3f), dr.type_v(UInt)
    (VarType.Float32, VarType.UInt32)
    """

    #: No type: what :func:`drjit.type_v` says of anything but arrays.
    Void = 0
    #: Elements of masks: one byte each.
    Bool = 1
    #: Signed integers of 8 bits.
    Int8 = 3
    #: Unsigned integers of 8 bits.
    UInt8 = 4
    #: Signed integers of 16 bits.
    Int16 = 5
    #: Unsigned integers of 16 bits.
    UInt16 = 6
    #: Signed integers of 32 bits: the elements of ``Int``.
    Int32 = 7
    #: Unsigned integers of 32 bits: the elements of ``UInt``, and of indices.
    UInt32 = 8
    #: Signed integers of 64 bits.
    Int64 = 9
    #: Unsigned integers of 64 bits.
    UInt64 = 10
    #: Addresses in memory; there are no arrays of them.
    Pointer = 11
    #: Floating-point numbers of 16 bits with the range of single precision, and 8 bits of significand.
    BFloat16 = 12
    #: Floating-point numbers of half precision.
    Float16 = 13
    #: Floating-point numbers of single precision: the elements of ``Float``.
    Float32 = 14
    #: Floating-point numbers of double precision.
    Float64 = 15


class VarState(_Enum):
    """Evaluation state of an array, see :attr:`drjit.ArrayBase.state`.

    >>> from drjit.llvm import Float
    >>> x = Float(1, 2, 3)
    >>> x.state, (x + 1).state, Float(1).state
    (VarState.Evaluated, VarState.Unevaluated, VarState.Literal)
    """

    #: An array without elements, or of the scalar backend, which takes no part in tracing.
    Invalid = 0
    #: Of undefined contents, see :func:`drjit.empty`; not in memory yet.
    Undefined = 1
    #: A constant, which takes no memory.
    Literal = 2
    #: Traced, but not computed yet.
    Unevaluated = 3
    #: In memory.
    Evaluated = 4
    #: With a scatter to it that has not happened yet: the next evaluation carries it out.
    Dirty = 5
    #: A value inside a symbolic loop, which has no value outside of it.
    Symbolic = 6
    #: A nested array whose components differ.
    Mixed = 7


class JitBackend(_Enum):
    """Backends that compile and run traced programs, see :func:`drjit.backend_v` and :func:`drjit.has_backend`.

    >>> dr.backend_v(dr.llvm.Float)
    JitBackend.LLVM
    """

    #: None: that of ``drjit.scalar``, which computes at once.
    Invalid = 0
    #: GPUs of NVIDIA, through PTX.
    CUDA = 1
    #: CPUs, through LLVM.
    LLVM = 2
    #: GPUs of Apple; there is no such backend.
    Metal = 3


class ReduceOp(_Enum):
    """Operations of reductions (:func:`drjit.reduce`) and of scatter-reductions (:func:`drjit.scatter_reduce`).

    >>> from drjit.llvm import Float
    >>> dr.reduce(dr.ReduceOp.Min, Float(3, 1, 2))
    [1]
    """

    #: None: a plain write. Not an operation of reductions.
    Identity = 0
    #: Sum.
    Add = 1
    #: Product.
    Mul = 2
    #: Minimum.
    Min = 3
    #: Maximum.
    Max = 4
    #: Bits that are set in all (of integers); conjunction of masks.
    And = 5
    #: Bits that are set in any (of integers); disjunction of masks.
    Or = 6


class ADMode(_Enum):
    """What is computed: values, or derivatives from inputs to outputs or from outputs to inputs.

    >>> dr.ADMode.Forward
    ADMode.Forward
    """

    #: Values without derivatives. No mode of traversals.
    Primal = 0
    #: Derivatives flow from inputs to outputs.
    Forward = 1
    #: Derivatives flow from outputs to inputs.
    Backward = 2


class ADFlag(enum.IntFlag):
    """What a traversal clears of the graph it goes through; flags are combined by ``|``.

    >>> int(dr.ADFlag.Default) == dr.ADFlag.ClearEdges | dr.ADFlag.ClearVertices
    True
    """

    #: Nothing: the same derivatives may be computed again, and add up.
    ClearNone = 0
    #: The edges that were traversed, with all that was kept for them.
    ClearEdges = 1
    #: The gradients of the variables that the traversal began with.
    ClearInput = 2
    #: The gradients of what lies between.
    ClearInterior = 4
    #: Gradients, but no edges.
    ClearVertices = 6
    #: Edges and gradients.
    Default = 7
    #: Arguments that track no derivatives are no error.
    AllowNoGrad = 8

    __str__ = enum.Flag.__str__


class FilterMode(_Enum):
    """How the lookups of a texture interpolate between texels.

    >>> dr.FilterMode.Linear
    FilterMode.Linear
    """

    #: The texel that the position is in.
    Nearest = 0
    #: Multilinear interpolation between the centres of the texels around.
    Linear = 1


class WrapMode(_Enum):
    """What texels there are beyond the edges of a texture.

    >>> from drjit.scalar import Texture1f
    >>> modes = dr.WrapMode.Repeat, dr.WrapMode.Clamp, dr.WrapMode.Mirror
    >>> [Texture1f([4], 1, wrap_mode=mode).wrap(-2)[0] for mode in modes]
    [2, 0, 1]
    """

    #: The texture again.
    Repeat = 0
    #: The texels at the edge.
    Clamp = 1
    #: The texture reflected at its edges, each other time.
    Mirror = 2
    #: Texels of a constant value, the ``border`` of the texture.
    Border = 3


class ReduceMode(_Enum):
    """How scatter-reductions such as :func:`drjit.scatter_add` cope with updates of one element by several threads.

    Results do not depend on it, except for the rounding of floating-point sums, and for ``NoConflicts``.

    >>> from drjit.llvm import Float, UInt
    >>> x = dr.zeros(Float, 2)
    >>> dr.scatter_add(x, Float(1, 2, 3), UInt(0, 1, 1), mode=dr.ReduceMode.Expand)
    >>> x
    [1, 5]
    """

    #: ``Expand`` where the target is small, see :func:`drjit.expand_threshold`, else atomic updates.
    Auto = 0
    #: Atomic updates, one for each element; of plain writes, neighbours are written one by one.
    Direct = 1
    #: Atomic updates; on GPUs, neighbours combine what they have for one element first.
    Local = 2
    #: Updates that are not atomic: the caller guarantees that no two go to one element at a time.
    NoConflicts = 3
    #: A copy of the target for each thread, which are combined afterwards.
    Expand = 4
    #: For plain writes: the caller guarantees that each element is written once. A hint without effect so far;
    #: scatter-reductions refuse it.
    Permute = 5


class KernelType(_Enum):
    """Kinds of entries in the kernel history, see :func:`drjit.kernel_history`.

    Reductions are parts of the kernels of traced programs; scans, sorts and the like have kernels of their own.

    >>> from drjit.llvm import Float
    >>> with dr.scoped_set_flag(dr.JitFlag.KernelHistory):
    ...     done = dr.eval(dr.sqrt(Float(1, 2)) + 1)
    ...     entry = dr.kernel_history([dr.KernelType.JIT])[-1]
    >>> entry["type"], entry["size"]
    (KernelType.JIT, 2)
    """

    #: A kernel that was compiled from a traced program.
    JIT = 0
    #: Reduction of blocks.
    BlockReduce = 1
    #: Running reduction of blocks.
    BlockPrefixReduce = 2
    #: Inner product.
    Dot = 3
    #: Products of many matrices.
    BatchedGemm = 4
    #: Positions of the set elements of a mask.
    Compress = 5
    #: Sorting of the targets of calls.
    MkPerm = 6
    #: Copy of memory.
    Memcpy = 7
    #: Filling of memory.
    Memset = 8
    #: Writing of one element.
    Poke = 9
    #: Collection of the arguments of calls.
    Aggregate = 10
    #: A function that the host runs between kernels.
    LLVMHostFunc = 11


class ProfileEvent(_Enum):
    """Kinds of entries in the kernel history that are no kernels, see :func:`drjit.kernel_history`.

    >>> with dr.profile_enable():
    ...     dr.profile_mark("start")
    >>> dr.kernel_history()[0]["type"]
    ProfileEvent.Mark
    """

    #: An event, see :func:`drjit.profile_mark`.
    Mark = 0
    #: The end of a named range, see :class:`drjit.profile_range`.
    Range = 1


class KernelRecordingMode(_Enum):
    """Whether a kernel ran inside a frozen function, and how, see :func:`drjit.kernel_history`.

    >>> from drjit.llvm import Float
    >>> with dr.scoped_set_flag(dr.JitFlag.KernelHistory):
    ...     done = dr.eval(dr.sqrt(Float(1, 2)) + 1)
    ...     entry = dr.kernel_history()[-1]
    >>> entry["recording_mode"]
    KernelRecordingMode.Inactive
    """

    #: It did not.
    Inactive = 0
    #: While a function was recorded.
    Recorded = 1
    #: As a part of a recorded function that is called again.
    Replayed = 2


class LogLevel(_Enum):
    """How much the compiler tells about its work, see :func:`drjit.set_log_level`.

    >>> dr.log_level()
    LogLevel.Warn
    """

    #: Nothing.
    Disable = 0
    #: Nothing so far: errors are exceptions.
    Error = 1
    #: Problems, such as a kernel cache that cannot be used. The default.
    Warn = 2
    #: Every kernel: compiled, found in the cache, launched, and why it was compiled again.
    Info = 3
    #: The same as ``Info`` so far.
    InfoSym = 4
    #: A line for each operation that is traced. Slow.
    Debug = 5
    #: The same as ``Debug`` so far.
    Trace = 6
