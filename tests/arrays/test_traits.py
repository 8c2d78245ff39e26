"""Type traits, as a table: expected values by type."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import pytest

import drjit as dr
from drjit import JitBackend, VarType, llvm, scalar
from drjit.llvm import ad

FLAGS = ["array", "mask", "half", "float", "integral", "arithmetic", "signed", "unsigned", "dynamic", "jit", "diff",
         "vector", "complex", "matrix", "quaternion", "tensor", "special"]
NUMBER = "float arithmetic signed "

TABLE = [
    # type, what holds, scalar type, size, depth, item size
    (llvm.Float, NUMBER + "array dynamic jit", VarType.Float32, -1, 1, 4),
    (llvm.Float16, NUMBER + "half array dynamic jit", VarType.Float16, -1, 1, 2),
    (llvm.Int64, "integral arithmetic signed array dynamic jit", VarType.Int64, -1, 1, 8),
    (llvm.UInt, "integral arithmetic unsigned array dynamic jit", VarType.UInt32, -1, 1, 4),
    (llvm.UInt8, "integral arithmetic unsigned array dynamic jit", VarType.UInt8, -1, 1, 1),
    (llvm.Bool, "mask unsigned array dynamic jit", VarType.Bool, -1, 1, 1),
    (llvm.Array0f, NUMBER + "array dynamic jit vector", VarType.Float32, 0, 2, 4),
    (llvm.Array3f, NUMBER + "array dynamic jit vector", VarType.Float32, 3, 2, 4),
    (ad.Array3b, "mask unsigned array dynamic jit diff vector", VarType.Bool, 3, 2, 1),
    (llvm.ArrayXu, "integral arithmetic unsigned array dynamic jit vector", VarType.UInt32, -1, 2, 4),
    (llvm.Array22f64, NUMBER + "array dynamic jit vector", VarType.Float64, 2, 3, 8),
    (llvm.Matrix34f, NUMBER + "array dynamic jit matrix special", VarType.Float32, 3, 4, 4),
    (ad.Matrix2f, NUMBER + "array dynamic jit diff matrix special", VarType.Float32, 2, 3, 4),
    (llvm.Complex2f, NUMBER + "array dynamic jit complex special", VarType.Float32, 2, 2, 4),
    (llvm.Quaternion4f16, NUMBER + "half array dynamic jit quaternion special", VarType.Float16, 4, 2, 2),
    (llvm.TensorXf, NUMBER + "array dynamic jit tensor", VarType.Float32, 0, 0, 4),
    (ad.TensorXb, "mask unsigned array dynamic jit diff tensor", VarType.Bool, 0, 0, 1),
    (scalar.Array3f, NUMBER + "array vector", VarType.Float32, 3, 1, 4),
    (scalar.ArrayXf, NUMBER + "array dynamic vector", VarType.Float32, -1, 1, 4),
    (scalar.Array22b, "mask unsigned array vector", VarType.Bool, 2, 2, 1),
    (scalar.Complex2f64, NUMBER + "array complex special", VarType.Float64, 2, 1, 8),
    (scalar.Matrix2f, NUMBER + "array matrix special", VarType.Float32, 2, 2, 4),
    (scalar.TensorXf, NUMBER + "array dynamic tensor", VarType.Float32, 0, 0, 4),
    (float, NUMBER + "half", VarType.Void, 1, 0, None),
    (int, "integral arithmetic signed", VarType.Void, 1, 0, None),
    (bool, "mask unsigned", VarType.Void, 1, 0, None),
    (str, "", VarType.Void, 1, 0, None),
    (complex, "", VarType.Void, 1, 0, None),
    (list, "", VarType.Void, 1, 0, None),
]


@pytest.mark.parametrize(("cls", "holds", "scalar_type", "size", "depth", "itemsize"), TABLE,
                         ids=[str(row[0].__module__) + "." + row[0].__name__ for row in TABLE])
def test_questions(cls: type, holds: str, scalar_type: VarType, size: int, depth: int, itemsize: int | None) -> None:
    assert {flag for flag in FLAGS if getattr(dr, f"is_{flag}_v")(cls)} == set(holds.split())
    assert (dr.type_v(cls), dr.size_v(cls), dr.depth_v(cls)) == (scalar_type, size, depth)
    assert dr.backend_v(cls) is (JitBackend.LLVM if "llvm" in cls.__module__ else JitBackend.Invalid)
    if itemsize is None:
        with pytest.raises(TypeError, match="itemsize_v"):
            dr.itemsize_v(cls)
    else:
        assert dr.itemsize_v(cls) == itemsize


def test_values_have_the_traits_of_their_types() -> None:
    for value in (llvm.Array3f(1, 2, 3), scalar.Array3f(1), ad.Bool(True), 1, 1.5, True):
        for flag in FLAGS:
            trait = getattr(dr, f"is_{flag}_v")
            assert trait(value) == trait(type(value)), flag
        for name in ("type_v", "size_v", "depth_v", "backend_v", "mask_t", "scalar_t", "array_t", "value_t", "leaf_t"):
            trait = getattr(dr, name)
            assert trait(value) is trait(type(value)) or trait(value) == trait(type(value))


def test_structures() -> None:
    class Annotated:
        DRJIT_STRUCT: ClassVar[dict[str, type]] = {"x": llvm.Float}

    @dataclasses.dataclass
    class Data:
        x: int = 0

    assert dr.is_struct_v(Annotated) and dr.is_struct_v(Annotated())
    assert not any(map(dr.is_struct_v, (Data, Data(), float, llvm.Float, None, 1)))
    assert not dr.is_array_v(Annotated) and dr.is_array_v(dr.ArrayBase)


RELATIVES = [
    # trait, type, expected
    ("value_t", llvm.Float, float), ("value_t", llvm.Array3f, llvm.Float), ("value_t", llvm.Matrix2f, llvm.Array2f),
    ("value_t", llvm.Array34f, llvm.Array4f), ("value_t", scalar.Array3i, int), ("value_t", float, float),
    ("value_t", scalar.Array22f, scalar.Array2f), ("value_t", llvm.TensorXb, bool), ("value_t", str, str),
    ("mask_t", llvm.Matrix34f, llvm.Array334b), ("mask_t", ad.Complex2f, ad.Array2b), ("mask_t", int, bool),
    ("mask_t", llvm.TensorXu, llvm.TensorXb), ("scalar_t", llvm.Array3u, int), ("scalar_t", scalar.Matrix3f, float),
    ("array_t", llvm.Matrix3f, llvm.Array33f), ("array_t", scalar.Quaternion4f16, scalar.Array4f16),
    ("array_t", llvm.TensorXf16, llvm.Float16), ("array_t", scalar.TensorXf, scalar.ArrayXf),
    ("array_t", llvm.Array3f, llvm.Array3f), ("array_t", 5, int),
    ("leaf_t", llvm.Matrix34f, llvm.Float), ("leaf_t", scalar.Array22f, scalar.Array2f), ("leaf_t", float, float),
    ("leaf_t", scalar.TensorXf, scalar.ArrayXf), ("leaf_t", scalar.Complex2f, scalar.Array2f),
    ("matrix_t", llvm.Array3f, llvm.Matrix3f), ("matrix_t", llvm.Array22f, llvm.Matrix2f),
    ("matrix_t", llvm.Array3i, None), ("matrix_t", llvm.Float, None), ("matrix_t", ad.Matrix41f, ad.Matrix41f),
    ("tensor_t", llvm.Array22f, llvm.TensorXf), ("tensor_t", scalar.Complex2f64, scalar.TensorXf64),
    ("tensor_t", float, None),
    ("diff_array_t", llvm.Matrix2f, ad.Matrix2f), ("diff_array_t", scalar.Array3f, scalar.Array3f),
    ("detached_t", ad.TensorXf, llvm.TensorXf), ("detached_t", llvm.Float, llvm.Float), ("detached_t", int, int),
    ("int8_array_t", llvm.Array3f, llvm.Array3i8), ("uint8_array_t", llvm.Bool, llvm.UInt8),
    ("int32_array_t", llvm.Array3f16, llvm.Array3i), ("uint32_array_t", llvm.TensorXf, llvm.TensorXu),
    ("int64_array_t", scalar.ArrayXf, scalar.ArrayXi64), ("uint64_array_t", ad.Float, ad.UInt64),
    ("bfloat16_array_t", llvm.Matrix2f, llvm.Matrix2bf16), ("bfloat16_array_t", ad.Int, ad.BFloat16),
    ("float_array_t", llvm.Array3bf16, llvm.Array3bf16), ("float_array_t", llvm.UInt16, llvm.Float16),
    ("uint_array_t", llvm.BFloat16, llvm.UInt16), ("bfloat16_array_t", int, float),
    ("float16_array_t", llvm.Matrix2f, llvm.Matrix2f16), ("float32_array_t", llvm.Complex2f64, llvm.Complex2f),
    ("float64_array_t", llvm.Bool, llvm.Float64), ("float32_array_t", int, float), ("int32_array_t", float, int),
    ("int_array_t", llvm.Float64, llvm.Int64), ("uint_array_t", llvm.Array3f, llvm.Array3u),
    ("float_array_t", llvm.Array3u64, llvm.Array3f64), ("float_array_t", llvm.UInt, llvm.Float),
    ("int_array_t", llvm.Bool, llvm.Int8),
]


@pytest.mark.parametrize(("trait", "cls", "expected"), RELATIVES)
def test_relatives(trait: str, cls: object, expected: object) -> None:
    assert getattr(dr, trait)(cls) is expected


@pytest.mark.parametrize(("trait", "cls"), [
    ("int32_array_t", llvm.Matrix2f), ("uint64_array_t", llvm.Complex2f), ("float_array_t", llvm.Bool),
    ("float_array_t", float), ("int_array_t", int), ("float_array_t", llvm.UInt8),
])
def test_relatives_that_do_not_exist_raise(trait: str, cls: object) -> None:
    with pytest.raises(TypeError, match=f"drjit.{trait}"):
        getattr(dr, trait)(cls)


def test_replacements() -> None:
    assert dr.replace_type_t(llvm.Array3f, VarType.Int32) is llvm.Array3i
    assert dr.replace_type_t(llvm.Array3f(1), VarType.Bool) is llvm.Array3b
    assert dr.replace_type_t(float, VarType.Int32) is float
    assert dr.reinterpret_array_t(llvm.Array3f64, VarType.UInt64) is llvm.Array3u64
    assert dr.reinterpret_array_t(float, VarType.UInt64) is int
    assert dr.replace_shape_t(llvm.Array3f, (2, -1)) is llvm.Array2f
    assert dr.replace_shape_t(llvm.Array1f, (2, 2, -1)) is llvm.Array22f
    assert dr.replace_shape_t(llvm.Array1f, (2, 2, -1), "matrix") is llvm.Matrix2f
    assert dr.replace_shape_t(llvm.Float, (4, -1), "quaternion") is llvm.Quaternion4f
    assert dr.replace_shape_t(scalar.Array3f, (2,), "complex") is scalar.Complex2f
    assert dr.replace_shape_t(llvm.Array3f, (-1,)) is llvm.Float
    assert dr.replace_shape_t(float, (2,)) is float
    for call in (lambda: dr.replace_shape_t(llvm.Array3f, (5, -1)), lambda: dr.replace_shape_t(llvm.Float, "ab"),
                 lambda: dr.replace_type_t(llvm.Float, 3), lambda: dr.replace_type_t(llvm.Float, VarType.Void),
                 lambda: dr.reinterpret_array_t(llvm.Float, VarType.Void)):
        with pytest.raises(TypeError, match=r"drjit\.re\w+_t"):
            call()


EXPRESSIONS = [
    ((llvm.Float, llvm.Array3i), llvm.Array3f), ((llvm.Float, 1.0), llvm.Float), ((int, float), float),
    ((llvm.Float, llvm.Array3f, llvm.ArrayXf), llvm.ArrayXf), ((int, llvm.Int, float), llvm.Float),
    ((llvm.Float16, float), llvm.Float16), ((ad.Float, llvm.Float), ad.Float), ((llvm.Bool, int), llvm.Int),
    ((scalar.Array3f, llvm.Float), llvm.Array3f), ((llvm.Matrix2f, llvm.Float), llvm.Matrix2f), ((bool, int), int),
    ((bool, bool), bool), ((llvm.Int,), llvm.Int), ((), None), ((None,), None), ((llvm.Array3f, 1, 2.0), llvm.Array3f),
    ((llvm.Matrix2f, llvm.Float64), llvm.Matrix2f64), ((llvm.Array22f, llvm.Array2i), llvm.Array22f),
]


@pytest.mark.parametrize(("args", "expected"), EXPRESSIONS)
def test_types_of_expressions(args: tuple[object, ...], expected: object) -> None:
    assert dr.expr_t(*args) is expected


def test_types_of_expressions_agree_with_arithmetic() -> None:
    values = [llvm.Float(1), llvm.Int(1), llvm.UInt64(1), llvm.Float16(1), llvm.Array3f(1), llvm.ArrayXi([1]),
              llvm.Array33f(1), ad.Float64(1), scalar.Array3f(1), scalar.Array3u(1), 1, 2.0, True]
    for a in values:
        for b in values:
            try:
                expected = type(a + b)
            except (TypeError, RuntimeError):
                continue
            if dr.is_array_v(expected):
                assert dr.expr_t(a, b) is expected, (type(a), type(b))


def test_incompatible_expressions_raise() -> None:
    for args in ((str, int), (llvm.Array2f, llvm.Array3f), (llvm.Float, dr.cuda.Float),
                 (llvm.Complex2f, llvm.Matrix2f)):
        with pytest.raises(TypeError, match=r"drjit\.expr_t\(\): incompatible types"):
            dr.expr_t(*args)


def test_constants() -> None:
    assert dr.Dynamic == -1 and dr.newaxis is None
