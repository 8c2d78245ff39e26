"""Type traits: questions about a type, or the type of a value, and its relatives.

Names that end in ``_v`` return a value, those in ``_t`` a type. All of them take an array, an array type, a Python
number or ``bool``, ``int``, ``float``; for any other object, the answer is that of something that is no array.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from drjit_core import TYPES, JitBackend, VarType, common_type

from .._base.array import ArrayBase
from .._base.errors import ArgumentError, describe
from .._base.types import (
    BFLOAT16,
    BOOL,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT32,
    INT64,
    SCALAR,
    UINT32,
    UINT64,
    Record,
    lookup,
)
from .._base.values import is_ndarray, scalar_type_of

__all__ = ["Dynamic", "array_t", "backend_v", "bfloat16_array_t", "depth_v", "detached_t", "diff_array_t", "expr_t",
           "float16_array_t", "float32_array_t", "float64_array_t", "float_array_t", "int32_array_t", "int64_array_t",
           "int8_array_t", "int_array_t", "is_arithmetic_v", "is_array_v", "is_complex_v", "is_diff_v", "is_dynamic_v",
           "is_float_v", "is_half_v", "is_integral_v", "is_jit_v", "is_mask_v", "is_matrix_v", "is_quaternion_v",
           "is_signed_v", "is_special_v", "is_struct_v", "is_tensor_v", "is_unsigned_v", "is_vector_v", "itemsize_v",
           "leaf_t", "mask_t", "matrix_t", "newaxis", "reinterpret_array_t", "replace_shape_t", "replace_type_t",
           "scalar_t", "size_v", "tensor_t", "type_v", "uint32_array_t", "uint64_array_t", "uint8_array_t",
           "uint_array_t", "value_t"]

#: The size of dynamic dimensions, see :func:`size_v`.
Dynamic = -1
#: In a key, a new dimension of size 1: another name of ``None``.
newaxis = None

INT8, UINT8 = VarType.Int8.value, VarType.UInt8.value
_Function = TypeVar("_Function", bound=Callable[..., Any])
_PYTHON: dict[str, type] = {"b": bool, "i": int, "u": int, "f": float}
_KIND_OF: dict[type, str] = {bool: "b", int: "i", float: "f"}


def _array_type(arg: Any) -> Any:
    """The concrete array type that an argument is, or is an instance of, else ``None``."""
    cls = arg if isinstance(arg, type) else type(arg)
    return cls if issubclass(cls, ArrayBase) and hasattr(cls, "_record") else None


def _type_of(arg: Any) -> Any:
    return arg if isinstance(arg, type) else type(arg)


def _kind(arg: Any) -> str:
    """Letter of the kind of elements: b, i, u, f, or an empty string."""
    cls = _array_type(arg)
    return cls._kind if cls is not None else _KIND_OF.get(_type_of(arg), "")


def _kind_test(name: str, kinds: str, doc: str) -> Callable[[Any], bool]:
    def test(arg: Any, /) -> bool:
        kind = _kind(arg)
        return kind != "" and kind in kinds

    return _named(test, name, doc)


def _array_test(name: str, condition: Callable[[Any], bool], doc: str) -> Callable[[Any], bool]:
    def test(arg: Any, /) -> bool:
        cls = _array_type(arg)
        return cls is not None and condition(cls)

    return _named(test, name, doc)


def _named(function: _Function, name: str, doc: str) -> _Function:
    function.__name__ = function.__qualname__ = name
    function.__module__, function.__doc__ = "drjit", doc
    return function


# --- questions -------------------------------------------------------------------------------------------------------


def is_array_v(arg: Any) -> bool:
    """Whether the argument is an array or array type.

    >>> from drjit.llvm import Float
    >>> dr.is_array_v(Float(1)), dr.is_array_v(Float), dr.is_array_v([1])
    (True, True, False)
    """
    return issubclass(_type_of(arg), ArrayBase)


is_mask_v = _kind_test("is_mask_v", "b", """Whether the argument is a mask array, a ``bool``, or a type of such.

    >>> from drjit.llvm import Bool, Float
    >>> dr.is_mask_v(Bool), dr.is_mask_v(Float(1) > 0), dr.is_mask_v(Float)
    (True, True, False)
    """)
is_float_v = _kind_test("is_float_v", "f", """Whether the elements are floating-point numbers.

    >>> from drjit.llvm import Array3f, Int
    >>> dr.is_float_v(Array3f), dr.is_float_v(Int), dr.is_float_v(1.5)
    (True, False, True)
    """)
is_integral_v = _kind_test("is_integral_v", "iu", """Whether the elements are integers (masks are not).

    >>> from drjit.llvm import Bool, Int
    >>> dr.is_integral_v(Int), dr.is_integral_v(Bool), dr.is_integral_v(3)
    (True, False, True)
    """)
is_arithmetic_v = _kind_test("is_arithmetic_v", "iuf", """Whether the elements are numbers (those of masks are not).

    >>> from drjit.llvm import Bool, Float
    >>> dr.is_arithmetic_v(Float), dr.is_arithmetic_v(Bool)
    (True, False)
    """)
is_signed_v = _kind_test("is_signed_v", "if", """Whether the elements are numbers that may be negative.

    >>> from drjit.llvm import Float, Int, UInt
    >>> dr.is_signed_v(Float), dr.is_signed_v(Int), dr.is_signed_v(UInt)
    (True, True, False)
    """)
is_unsigned_v = _kind_test("is_unsigned_v", "bu", """Whether the elements are unsigned integers or booleans.

    >>> from drjit.llvm import Bool, Int, UInt
    >>> dr.is_unsigned_v(UInt), dr.is_unsigned_v(Bool), dr.is_unsigned_v(Int)
    (True, True, False)
    """)


def is_half_v(arg: Any, /) -> bool:
    """Whether the elements are floating-point numbers of half precision; true of Python's ``float``, too.

    >>> from drjit.llvm import Float, Float16
    >>> dr.is_half_v(Float16), dr.is_half_v(Float), dr.is_half_v(float)
    (True, False, True)
    """
    cls = _array_type(arg)
    return bool(cls._type == FLOAT16) if cls is not None else _type_of(arg) is float


is_dynamic_v = _array_test("is_dynamic_v", lambda cls: cls._dynamic or cls._special == "tensor" or -1 in
                           cls._record.shape, """Whether a dimension of the array type has a dynamic size.

    >>> dr.is_dynamic_v(dr.llvm.Array3f), dr.is_dynamic_v(dr.scalar.Array3f)
    (True, False)
    """)
is_jit_v = _array_test("is_jit_v", lambda cls: cls._record.backend is not SCALAR,
                       """Whether computation with the array type is traced and compiled.

    >>> dr.is_jit_v(dr.llvm.Array3f), dr.is_jit_v(dr.scalar.Array3f)
    (True, False)
    """)
is_diff_v = _array_test("is_diff_v", lambda cls: cls._record.diff,
                        """Whether the array type belongs to a package whose types track derivatives (``drjit.*.ad``).

    >>> dr.is_diff_v(dr.llvm.ad.Float), dr.is_diff_v(dr.llvm.Float)
    (True, False)
    """)
is_vector_v = _array_test("is_vector_v", lambda cls: not cls._special and cls._record.shape != (),
                          """Whether the argument is a nested array with ordinary array semantics.

    >>> from drjit.llvm import Array3f, Float, Matrix3f
    >>> dr.is_vector_v(Array3f), dr.is_vector_v(Float), dr.is_vector_v(Matrix3f)
    (True, False, False)
    """)
is_complex_v = _array_test("is_complex_v", lambda cls: cls._special == "complex", """\
    Whether the argument is an array of complex numbers, or a type of such.

    >>> from drjit.llvm import Array2f, Complex2f
    >>> dr.is_complex_v(Complex2f), dr.is_complex_v(Array2f)
    (True, False)
    """)
is_matrix_v = _array_test("is_matrix_v", lambda cls: cls._special == "matrix", """\
    Whether the argument is an array of matrices, or a type of such.

    >>> from drjit.llvm import Array33f, Matrix3f
    >>> dr.is_matrix_v(Matrix3f), dr.is_matrix_v(Array33f)
    (True, False)
    """)
is_quaternion_v = _array_test("is_quaternion_v", lambda cls: cls._special == "quaternion", """\
    Whether the argument is an array of quaternions, or a type of such.

    >>> from drjit.llvm import Array4f, Quaternion4f
    >>> dr.is_quaternion_v(Quaternion4f), dr.is_quaternion_v(Array4f)
    (True, False)
    """)
is_tensor_v = _array_test("is_tensor_v", lambda cls: cls._special == "tensor", """\
    Whether the argument is a tensor, or a type of such.

    >>> from drjit.llvm import Float, TensorXf
    >>> dr.is_tensor_v(TensorXf), dr.is_tensor_v(Float)
    (True, False)
    """)
is_special_v = _array_test("is_special_v", lambda cls: cls._special not in ("", "tensor"),
                           """Whether multiplication is not elementwise: matrices, complex numbers, quaternions.

    >>> from drjit.llvm import Array3f, Matrix3f
    >>> dr.is_special_v(Matrix3f), dr.is_special_v(Array3f)
    (True, False)
    """)


def is_struct_v(arg: Any, /) -> bool:
    """Whether the class of the argument has a ``DRJIT_STRUCT`` annotation, which makes its instances PyTrees.

    >>> from drjit.llvm import Float
    >>> class Point:
    ...     DRJIT_STRUCT = {"x": Float, "y": Float}
    >>> dr.is_struct_v(Point), dr.is_struct_v(Float)
    (True, False)
    """
    return getattr(_type_of(arg), "DRJIT_STRUCT", None).__class__ is dict


# --- values ----------------------------------------------------------------------------------------------------------


def type_v(arg: Any, /) -> VarType:
    """Scalar type of an array or array type; ``VarType.Void`` for anything else.

    >>> from drjit.llvm import Array3f
    >>> dr.type_v(Array3f), dr.type_v(int)
    (VarType.Float32, VarType.Void)
    """
    cls = _array_type(arg)
    return VarType(cls._type) if cls is not None else VarType.Void


def backend_v(arg: Any, /) -> JitBackend:
    """Backend of an array or array type; ``JitBackend.Invalid`` for scalar arrays and anything else.

    >>> dr.backend_v(dr.llvm.Float), dr.backend_v(dr.scalar.Array3f)
    (JitBackend.LLVM, JitBackend.Invalid)
    """
    cls = _array_type(arg)
    return cls._record.backend if cls is not None else JitBackend.Invalid


def size_v(arg: Any, /) -> int:
    """Static size of the outermost dimension of an array type, or ``Dynamic``; 0 for tensors, 1 for anything else.

    >>> from drjit.llvm import Array3f, Float
    >>> dr.size_v(Array3f), dr.size_v(Float) == dr.Dynamic, dr.size_v(float)
    (3, True, 1)
    """
    cls = _array_type(arg)
    if cls is None:
        return 1
    return 0 if cls._special == "tensor" else int(cls._size)


def depth_v(arg: Any, /) -> int:
    """Number of dimensions of an array type; 0 for tensors, whose number varies, and anything else.

    >>> from drjit.llvm import Array3f, Float
    >>> dr.depth_v(Float), dr.depth_v(Array3f), dr.depth_v(float)
    (1, 2, 0)
    """
    cls = _array_type(arg)
    return 0 if cls is None or cls._special == "tensor" else len(cls._record.shape) + cls._dynamic


def itemsize_v(arg: Any, /) -> int:
    """Bytes that an element of an array or array type takes in memory. Raises a ``TypeError`` for anything else.

    >>> from drjit.llvm import Array3f, Float64
    >>> dr.itemsize_v(Array3f), dr.itemsize_v(Float64)
    (4, 8)
    """
    cls = _array_type(arg)
    if cls is None:
        raise TypeError(f"drjit.itemsize_v(): expected an array or array type, found {describe(arg)}.")
    result: int = TYPES[cls._type].size
    return result


# --- relatives -------------------------------------------------------------------------------------------------------


def _attribute(name: str, attribute: str, doc: str) -> Callable[[Any], Any]:
    def relative(arg: Any) -> Any:
        cls = _array_type(arg)
        return getattr(cls, attribute) if cls is not None else _type_of(arg)

    return _named(relative, name, doc)


array_t = _attribute("array_t", "_plain", """\
    The array type of the same layout with ordinary array semantics; the type of the storage of a tensor.

    Anything but arrays: the type itself.

    >>> from drjit.llvm import Complex2f, TensorXf
    >>> dr.array_t(Complex2f).__name__, dr.array_t(TensorXf).__name__
    ('Array2f', 'Float')
    """)
value_t = _attribute("value_t", "_value", """\
    The type of an entry of the outermost dimension; the type itself for anything but arrays.

    >>> from drjit.llvm import Array3f, Float
    >>> dr.value_t(Array3f).__name__, dr.value_t(Float).__name__
    ('Float', 'float')
    """)


def mask_t(arg: Any, /) -> Any:
    """The type of comparisons: masks of the same shape; ``bool`` for anything but arrays.

    >>> from drjit.llvm import Array3f
    >>> dr.mask_t(Array3f).__name__, dr.mask_t(int).__name__
    ('Array3b', 'bool')
    """
    cls = _array_type(arg)
    return cls._mask_type if cls is not None else bool


def scalar_t(arg: Any, /) -> Any:
    """The Python type of the innermost elements; the type itself for anything but arrays.

    >>> from drjit.llvm import Array3f, Bool
    >>> dr.scalar_t(Array3f).__name__, dr.scalar_t(Bool).__name__
    ('float', 'bool')
    """
    cls = _array_type(arg)
    return _PYTHON[cls._kind] if cls is not None else _type_of(arg)


def leaf_t(arg: Any, /) -> Any:
    """The innermost array type; the type itself for anything but arrays.

    >>> from drjit.llvm import Array3f, Matrix4f
    >>> dr.leaf_t(Array3f).__name__, dr.leaf_t(Matrix4f).__name__
    ('Float', 'Float')
    """
    cls = _array_type(arg)
    if cls is None:
        return _type_of(arg)
    if cls._record.backend is not SCALAR:
        return cls._leaf
    return _found(cls._plain._record._replace(shape=cls._plain._record.shape[-1:]), "drjit.leaf_t")


def _found(record: Record, function: str) -> Any:
    found = lookup(record)
    if found is None:
        sizes = "".join("X" if size < 0 else str(size) for size in record.shape)
        raise ArgumentError(f"{function}(): there is no {record.kind} type of the shape '{sizes}' over elements of "
                            f"type {TYPES[record.type].name}.")
    return found


def _retyped(cls: Any, scalar: int, function: str) -> Any:
    return _found(cls._record._replace(type=scalar), function)


def _fixed(name: str, scalar: int, suffix: str) -> Callable[[Any], Any]:
    """The type over other elements, whose names end in a suffix."""
    function = f"drjit.{name}"

    def relative(arg: Any, /) -> Any:
        cls = _array_type(arg)
        return _retyped(cls, scalar, function) if cls is not None else _PYTHON[TYPES[scalar].kind]

    python = _PYTHON[TYPES[scalar].kind].__name__
    return _named(relative, name, f"""\
    The analogous type over elements of type {TYPES[scalar].name}; ``{python}`` for anything but arrays.

    >>> from drjit.llvm import Array3f
    >>> dr.{name}(Array3f).__name__, dr.{name}(3).__name__
    ('Array3{suffix}', '{python}')
    """)


int8_array_t = _fixed("int8_array_t", INT8, "i8")
uint8_array_t = _fixed("uint8_array_t", UINT8, "u8")
int32_array_t = _fixed("int32_array_t", INT32, "i")
uint32_array_t = _fixed("uint32_array_t", UINT32, "u")
int64_array_t = _fixed("int64_array_t", INT64, "i64")
uint64_array_t = _fixed("uint64_array_t", UINT64, "u64")
bfloat16_array_t = _fixed("bfloat16_array_t", BFLOAT16, "bf16")
float16_array_t = _fixed("float16_array_t", FLOAT16, "f16")
float32_array_t = _fixed("float32_array_t", FLOAT32, "f")
float64_array_t = _fixed("float64_array_t", FLOAT64, "f64")


def _same_size(name: str, kind: str, expected: str, doc: str) -> Callable[[Any], Any]:
    function = f"drjit.{name}"
    by_size = {info.size: info.type for info in TYPES if info is not None and info.kind == kind
               and info.code and info.name != "pointer"}

    def relative(arg: Any, /) -> Any:
        cls = _array_type(arg)
        scalar = None if cls is None else cls._type if cls._kind == kind else by_size.get(TYPES[cls._type].size)
        if scalar is None:
            raise TypeError(f"{function}(): expected {expected}, found {describe(arg)}.")
        return _retyped(cls, scalar, function)

    return _named(relative, name, doc)


int_array_t = _same_size("int_array_t", "i", "an array type", """\
    The analogous type of signed integers whose elements have the same size.

    Raises a ``TypeError`` for anything but arrays and array types.

    >>> from drjit.llvm import Array3f, Float64
    >>> dr.int_array_t(Array3f).__name__, dr.int_array_t(Float64).__name__
    ('Array3i', 'Int64')
    """)
uint_array_t = _same_size("uint_array_t", "u", "an array type", """\
    The analogous type of unsigned integers whose elements have the same size.

    Raises a ``TypeError`` for anything but arrays and array types.

    >>> from drjit.llvm import Array3f, Float64
    >>> dr.uint_array_t(Array3f).__name__, dr.uint_array_t(Float64).__name__
    ('Array3u', 'UInt64')
    """)
float_array_t = _same_size("float_array_t", "f", "an array type with elements of two or more bytes",
                           """The analogous type of floating-point numbers whose elements have the same size.

    Raises a ``TypeError`` for anything but arrays and array types, and where there is none of that size.

    >>> from drjit.llvm import Array3u, UInt64
    >>> dr.float_array_t(Array3u).__name__, dr.float_array_t(UInt64).__name__
    ('Array3f', 'Float64')
    """)


def replace_type_t(arg0: Any, arg1: VarType, /) -> Any:
    """The analogous type over elements of another scalar type; the type itself for anything but arrays.

    Raises a ``TypeError`` if ``arg1`` is no :class:`VarType` of array elements, or there is no such type.

    >>> from drjit.llvm import Array3f
    >>> dr.replace_type_t(Array3f, dr.VarType.UInt64).__name__
    'Array3u64'
    """
    if not isinstance(arg1, VarType) or TYPES[arg1.value] is None or arg1 is VarType.Pointer:
        raise TypeError(f"drjit.replace_type_t(): 'arg1' must be the drjit.VarType of array elements, found {arg1!r}.")
    cls = _array_type(arg0)
    return _retyped(cls, arg1.value, "drjit.replace_type_t") if cls is not None else _type_of(arg0)


def reinterpret_array_t(arg0: Any, arg1: VarType, /) -> Any:
    """The analogous type over another scalar type, see :func:`reinterpret_array` (which needs one of the same size).

    A Python type for anything but arrays. Raises a ``TypeError`` if ``arg1`` is no :class:`VarType` of array elements.

    >>> from drjit.llvm import Array3f
    >>> dr.reinterpret_array_t(Array3f, dr.VarType.UInt32).__name__
    'Array3u'
    """
    if not isinstance(arg1, VarType) or TYPES[arg1.value] is None or arg1 is VarType.Pointer:
        raise TypeError("drjit.reinterpret_array_t(): 'arg1' must be the drjit.VarType of array elements, found "
                        f"{arg1!r}.")
    cls, info = _array_type(arg0), TYPES[arg1.value]
    if cls is None:
        return _PYTHON[info.kind]
    return _retyped(cls, arg1.value, "drjit.reinterpret_array_t")


def replace_shape_t(arg0: Any, arg1: Sequence[int], arg2: str | None = None) -> Any:
    """The type of another shape, ``Dynamic`` (-1) where it varies: ``(3, -1)`` is ``Array3f`` of a vectorised package.

    ``arg2`` is the kind: ``"array"`` (the default, unless the argument has the shape already), ``"matrix"``,
    ``"complex"``, ``"quaternion"`` or ``"tensor"``. Returns the type itself for anything but arrays. Raises a
    ``TypeError`` if there is no such type.

    >>> from drjit.llvm import Float
    >>> dr.replace_shape_t(Float, (3, -1)).__name__
    'Array3f'
    >>> dr.replace_shape_t(Float, (3, 3, -1), "matrix").__name__
    'Matrix3f'
    """
    function = "drjit.replace_shape_t"
    cls = _array_type(arg0)
    if cls is None:
        return _type_of(arg0)
    shape = tuple(arg1)
    if not all(size.__class__ is int and size >= -1 for size in shape):
        raise TypeError(f"{function}(): 'arg1' must be a sequence of sizes, -1 where dynamic, found {arg1!r}.")
    vectorised = cls._record.backend is not SCALAR
    static = shape[:-1] if vectorised else shape
    kind = arg2 if arg2 is not None else cls._special if static == cls._record.shape and cls._special else "array"
    if not vectorised and not static and kind != "tensor":
        return scalar_t(cls)
    return _found(cls._record._replace(kind=kind, shape=() if kind == "tensor" else static), function)


def matrix_t(arg: Any, /) -> Any:
    """The matrix type of the same size: of a matrix, a square array, or an array of rows; ``None`` if there is none.

    >>> from drjit.llvm import Array2i, Array3f
    >>> dr.matrix_t(Array3f).__name__
    'Matrix3f'
    >>> dr.matrix_t(Array2i) is None
    True
    """
    cls = _array_type(arg)
    if cls is None or cls._special == "matrix":
        return cls
    shape = cls._record.shape
    if cls._special or not shape:
        return None
    return lookup(cls._record._replace(kind="matrix", shape=shape * 2 if len(shape) == 1 else shape))


def tensor_t(arg: Any, /) -> Any:
    """The tensor type over the same elements; ``None`` for anything but arrays.

    >>> from drjit.llvm import Array3f
    >>> dr.tensor_t(Array3f).__name__
    'TensorXf'
    """
    cls = _array_type(arg)
    return lookup(cls._record._replace(kind="tensor", shape=())) if cls is not None else None


def _with_diff(name: str, diff: bool, doc: str) -> Callable[[Any], Any]:
    def relative(arg: Any, /) -> Any:
        cls = _array_type(arg)
        if cls is None:
            return _type_of(arg)
        return cls if cls._record.backend is SCALAR else lookup(cls._record._replace(diff=diff))

    return _named(relative, name, doc)


diff_array_t = _with_diff("diff_array_t", True, """\
    The type of the same name that tracks derivatives; the type itself for anything but traced arrays.

    >>> from drjit.llvm import Float
    >>> dr.diff_array_t(Float)
    <class 'drjit.llvm.ad.Float'>
    """)
detached_t = _with_diff("detached_t", False, """\
    The type of the same name that does not track derivatives; the type itself for anything but arrays.

    >>> from drjit.llvm.ad import Float
    >>> dr.detached_t(Float)
    <class 'drjit.llvm.Float'>
    """)


def expr_t(*args: Any) -> Any:
    """The type of an arithmetic expression that involves the arguments: arrays, numbers, or types of such.

    Beside an array there may be sequences and NumPy arrays of numbers, and sequences of arrays and of such. Raises a
    ``TypeError`` if they do not go together.

    >>> from drjit.llvm import Array3f, Int
    >>> dr.expr_t(Array3f, Int).__name__, dr.expr_t(Int, 0.5).__name__
    ('Array3f', 'Float')
    >>> dr.expr_t(1, 2.0).__name__
    'float'
    """
    like = next((cls for cls in map(_array_type, args) if cls is not None), None)
    if like is not None:
        args = tuple([_type_of_elements(arg, like) for arg in args])
    arrays = [cls for cls in map(_array_type, args) if cls is not None]
    python = [_type_of(arg) for arg in args if _array_type(arg) is None]
    names = " and ".join(f"{describe(arg)}" for arg in args)
    if not arrays and len(set(python)) <= 1:
        return python[0] if python and args[0] is not None else None
    if not all(cls in _KIND_OF for cls in python):
        raise TypeError(f"drjit.expr_t(): incompatible types {names}.")
    if not arrays:
        return max(python, key=(bool, int, float).index)
    scalar = functools.reduce(common_type, [cls._type for cls in arrays])
    if float in python and not TYPES[scalar].is_float:
        scalar = FLOAT32
    elif int in python and scalar == BOOL:
        scalar = INT32
    backends = {cls._record.backend for cls in arrays} - {SCALAR}
    kinds = {cls._record[2:4] for cls in arrays if cls._special} or {("array", _common_shape(arrays, names))}
    if len(backends) > 1 or len(kinds) > 1:
        raise TypeError(f"drjit.expr_t(): incompatible types {names}.")
    kind, shape = kinds.pop()
    if kind != "array" and any(not cls._special and cls._record.shape not in ((), shape) for cls in arrays):
        raise TypeError(f"drjit.expr_t(): incompatible types {names}.")
    return _found(Record(backends.pop() if backends else SCALAR, scalar, kind, shape,
                         any(cls._record.diff for cls in arrays)), "drjit.expr_t")


def _type_of_elements(arg: Any, like: Any) -> Any:
    """What a sequence counts as beside an array: its numbers, or an array of them on the same backend."""
    if is_ndarray(arg):
        scalar = scalar_type_of(arg)
        if scalar is None or not arg.ndim:
            return arg
        record = like._leaf._record
        shape = arg.shape[:-1] if like._dynamic else arg.shape
        return _found(record._replace(type=scalar, kind="array", shape=shape), "drjit.expr_t")
    if arg.__class__ not in (list, tuple, range):
        return arg
    entries = [_type_of_elements(entry, like) for entry in arg]
    nested = any(_array_type(entry) is not None for entry in entries) or \
        any(entry.__class__ in (list, tuple, range) for entry in arg)
    if not nested:
        return expr_t(*entries) if entries else bool
    inner = expr_t(like._leaf._mask_type, *entries)
    return _found(inner._record._replace(shape=(len(entries), *inner._record.shape)), "drjit.expr_t")


def _common_shape(arrays: list[Any], names: str) -> tuple[int, ...]:
    shape: tuple[int, ...] = ()
    for cls in arrays:
        other = cls._record.shape
        count = max(len(shape), len(other))
        pairs = zip((1,) * (count - len(shape)) + shape, (1,) * (count - len(other)) + other, strict=True)
        merged = []
        for axis, (a, b) in enumerate(pairs):
            padded = axis < count - len(shape) or axis < count - len(other)
            if a != b and -1 not in (a, b) and not padded:
                raise TypeError(f"drjit.expr_t(): incompatible types {names}.")
            merged.append(-1 if -1 in (a, b) else b if axis < count - len(shape) else a)
        shape = tuple(merged)
    return shape
