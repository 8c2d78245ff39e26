"""The scalar backend: what it shares with the vectorised packages, and what it does otherwise."""

from __future__ import annotations

import copy
import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import drjit as dr
from drjit import llvm, scalar
from drjit.scalar import (
    Array0f,
    Array1b,
    Array2f,
    Array3b,
    Array3f,
    Array3f16,
    Array3i,
    Array3i8,
    Array3u,
    Array3u8,
    Array4f,
    Array22f,
    ArrayXb,
    ArrayXf,
    ArrayXi,
    ArrayXu,
)


def test_flat_types_are_those_of_python() -> None:
    assert (scalar.Bool, scalar.Int, scalar.UInt64, scalar.Float16, scalar.Float) == (bool, int, int, float, float)


# --- construction ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("value", "text"), [
    (lambda: Array3f(1, 2, 3), "[1, 2, 3]"), (lambda: Array3f(0.5), "[0.5, 0.5, 0.5]"),
    (lambda: Array3f(), "[0, 0, 0]"),
    (lambda: Array3f([1, 2, 3]), "[1, 2, 3]"), (lambda: Array3f(range(3)), "[0, 1, 2]"),
    (lambda: Array3f(True, 2, 3), "[1, 2, 3]"), (lambda: Array3b(True, False, True), "[True, False, True]"),
    (lambda: Array3i(Array3f(1.7, -2.7, 3)), "[1, -2, 3]"), (lambda: Array3f(np.arange(3.0)), "[0, 1, 2]"),
    (lambda: ArrayXf(np.arange(4)), "[0, 1, 2, 3]"), (lambda: ArrayXf(5), "[5]"), (lambda: ArrayXf(), "[]"),
    (lambda: ArrayXf([]), "[]"), (lambda: Array0f(), "[]"), (lambda: Array22f((1, 2), (3, 4)), "[[1, 2],\n [3, 4]]"),
    (lambda: Array22f(1), "[[1, 1],\n [1, 1]]"), (lambda: Array22f(np.array([[1, 2], [3, 4]])), "[[1, 2],\n [3, 4]]"),
    (lambda: ArrayXf(range(30)), "[0, 1, 2, .. 24 skipped .., 27, 28, 29]"),
    (lambda: scalar.Array334f(1)[0], "[[1, 1, 1, 1],\n [1, 1, 1, 1],\n [1, 1, 1, 1]]"),
    (lambda: ArrayXf(iter([1, 2])), "[1, 2]"), (lambda: Array2f(np.float32(1), np.int64(2)), "[1, 2]"),
])
def test_construction(value: Callable[[], Any], text: str) -> None:
    assert repr(value()) == text


@pytest.mark.parametrize(("construct", "message"), [
    (lambda: Array3f(1, 2), r"drjit\.scalar\.Array3f.*wrong size \(expected 3 elements, got 2\)"),
    (lambda: Array3i(1.5, 2, 3), r"drjit\.scalar\.Array3i.*component 0.*'float'"),
    (lambda: Array3u8(256), r"type int with the value 256.*out of range"),
    (lambda: Array3f("abc"), r"drjit\.scalar\.Array3f.*'str'"),
    (lambda: Array3f(None), r"drjit\.scalar\.Array3f.*'NoneType'"),
    (lambda: Array3b(1, 2, 3), r"drjit\.scalar\.Array3b.*component 0.*'int'"),
    (lambda: Array3f(np.zeros((3, 2))), r"ndim=1, shape=\(3\)"),
    (lambda: Array3f(x=1), "unknown keyword argument 'x'"),
    (lambda: Array22f(1, 2, 3, 4), "wrong size"),
])
def test_bad_construction(construct: Callable[[], Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        construct()


def test_values_are_rounded_to_the_scalar_type() -> None:
    assert Array3f(0.1).x == np.float32(0.1) and Array3f16(0.1).x == np.float16(0.1)
    assert (Array3f16(1, 2, 3) / 3).x == np.float16(1) / np.float16(3)
    assert (Array3i8(127) + 1).x == -128 and (Array3u(1, 2, 3) - 2).x == 2**32 - 1
    assert Array3f(1e300).x == math.inf


# --- entries ---------------------------------------------------------------------------------------------------------


def test_entries_are_python_numbers() -> None:
    value = Array3f(1, 2, 3)
    assert [type(e) for e in value] == [float] * 3 and list(value) == [1, 2, 3]
    assert (value[0], value[-1], value.y, value[2]) == (1, 3, 2, 3)
    assert type(Array3i(1)[0]) is int and type(Array3b(True)[0]) is bool
    assert (len(value), value.shape, value.ndim, dr.shape(value), dr.width(value)) == (3, (3,), 1, (3,), 3)
    assert (value.state, value.index, value.array is value) == (dr.VarState.Invalid, 0, True)
    assert (Array22f(1).shape, Array22f(1).ndim, ArrayXf(1, 2).shape, Array0f().shape) == ((2, 2), 2, (2,), (0,))


def test_entries_can_be_assigned() -> None:
    value = Array3f(1, 2, 3)
    value[0], value.y = 10, 20
    value.z += 5
    assert repr(value) == "[10, 20, 8]"
    value.xz = Array2f(-1, -2)
    assert repr(value) == "[-1, 20, -2]"
    value[value < 0] = 0
    assert repr(value) == "[0, 20, 0]"
    value[0:2] = [7, 8]
    assert repr(value) == "[7, 8, 0]"
    for key in (3, -4):
        with pytest.raises(IndexError, match=r"drjit\.scalar\.Array3f"):
            value[key] = 1
    with pytest.raises(TypeError):
        Array3i(1)[0] = 1.5
    with pytest.raises(TypeError):
        value.x = "a"
    assert repr(value) == "[7, 8, 0]"


def test_rows_are_live() -> None:
    matrix = Array22f((1, 2), (3, 4))
    row = matrix[1]
    row.x = 30
    matrix[1, 1] = 40
    matrix[0][0] = 10
    assert repr(matrix) == "[[10, 2],\n [30, 40]]" and repr(row) == "[30, 40]"
    assert matrix[1, 0] == 30 and repr(matrix[:, 1]) == "[2, 40]" and repr(matrix[1, 0:1]) == "[30]"
    with pytest.raises(IndexError, match="too many indices"):
        matrix[0, 0, 0]


def test_slices_swizzles_and_integer_keys() -> None:
    value = Array4f(1, 2, 3, 4)
    assert type(value.zy) is Array2f and repr(value.wzyx) == "[4, 3, 2, 1]"
    assert type(value[1:3]) is Array2f and repr(value[::-1]) == "[4, 3, 2, 1]"
    long = ArrayXf(1, 2, 3)
    assert type(long[0:2]) is ArrayXf and repr(long[ArrayXu(2, 0)]) == "[3, 1]"
    long[ArrayXu(0, 2)] = ArrayXf(10, 30)
    assert repr(long) == "[10, 2, 30]"
    with pytest.raises(RuntimeError, match="'w' component"):
        _ = Array3f(1).w


def test_copies_are_apart() -> None:
    value = Array3f(1, 2, 3)
    for other in (Array3f(value), copy.copy(value), copy.deepcopy(value), +value):
        other.x = 5
    assert value.x == 1
    other = value
    other += 1
    assert repr(value) == "[2, 3, 4]"


def test_truth() -> None:
    assert bool(Array1b(True)) and not Array1b(False)
    with pytest.raises(RuntimeError, match=r"exactly 1 element"):
        bool(Array3b(True))
    with pytest.raises(TypeError):
        bool(Array3f(1))


# --- with other packages ---------------------------------------------------------------------------------------------


def test_conversions_between_packages() -> None:
    assert repr(llvm.Array3f(Array3f(1, 2, 3))) == "[[1, 2, 3]]"
    assert repr(llvm.Float(ArrayXf(1, 2, 3))) == "[1, 2, 3]" and repr(llvm.Int(ArrayXf(1.5))) == "[1]"
    assert repr(Array3f(llvm.Float(1, 2, 3))) == "[1, 2, 3]" and repr(Array3i(llvm.Float(1.5))) == "[1, 1, 1]"
    assert repr(ArrayXf(llvm.Float(1, 2, 3) + 1)) == "[2, 3, 4]"
    assert repr(Array3f(llvm.Array3f(1, 2, 3))) == "[1, 2, 3]" and repr(Array2f(llvm.Float(1), 2)) == "[1, 2]"
    assert repr(llvm.ArrayXf(ArrayXi(1, 2))) == "[[1, 2]]"
    for convert in (lambda: Array3f(llvm.Array3f([1, 2], 2, 3)), lambda: Array3f(llvm.Float(1, 2))):
        with pytest.raises(TypeError, match=r"drjit\.scalar\.Array3f"):
            convert()


@pytest.mark.parametrize("diff", [False, True])
def test_operations_with_vectorised_arrays(diff: bool) -> None:
    package = llvm.ad if diff else llvm
    x, v = package.Float(1, 2), Array3f(1, 2, 3)
    for result in (x * v, v * x, package.Array3f(x) * v, dr.fma(x, v, 0), dr.select(x > 0, x * v, v)):
        assert type(result) is package.Array3f and repr(result) == "[[1, 2, 3],\n [2, 4, 6]]"
    assert type(Array3i(1) + package.Float(0.5)) is package.Array3f
    assert type(v < x) is package.Array3b
    source = package.Float(1, 2, 3)
    assert repr(dr.gather(package.Float, source, ArrayXu(2, 0))) == "[3, 1]"
    assert type(Array22f(1) + package.Array2f(1)) is package.Array22f


def test_mixed_shapes() -> None:
    assert repr(Array22f((1, 2), (3, 4)) + Array2f(10, 20)) == "[[11, 22],\n [13, 24]]"
    assert type(Array3f(1) + ArrayXf(1, 2, 3)) is ArrayXf and type(Array3u(1) * Array3f(2)) is Array3f
    for numbers in (Array3f(1, 2, 3), ArrayXf(1, 2, 3)):
        result = numbers + np.array([1, 2, 3])
        assert type(result).__name__[:6] == type(numbers).__name__[:6] and repr(result) == "[2, 4, 6]"
    assert repr(Array22f(1) + np.array([[1, 2], [3, 4]])) == "[[2, 3],\n [4, 5]]"
    assert repr(2.0 @ Array3f(1, 2, 3)) == "[2, 4, 6]" and [1, 2, 3] @ Array3f(1) == 6
    assert repr(Array3f(1) + [1, 2, 3]) == "[2, 3, 4]" and repr(2 - Array3f(1, 2, 3)) == "[1, 0, -1]"
    for operation in (lambda: ArrayXf(1, 2) + ArrayXf(1, 2, 3), lambda: Array2f(1) + Array3f(1)):
        with pytest.raises((TypeError, RuntimeError), match=r"drjit\.scalar\.Array.*incompatible"):
            operation()
    for operation in (lambda: Array3i(1) / 2, lambda: Array3b(True) & 1.5, lambda: Array3f(1) + "a"):
        with pytest.raises(TypeError, match=r"drjit\.scalar\.Array3"):
            operation()


# --- functions -------------------------------------------------------------------------------------------------------


def test_creation() -> None:
    assert repr(dr.arange(ArrayXf, 4)) == "[0, 1, 2, 3]" and repr(dr.arange(ArrayXi, 5, -1, -2)) == "[5, 3, 1]"
    assert repr(dr.linspace(ArrayXf, 0, 1, 5)) == repr(dr.linspace(llvm.Float, 0, 1, 5))
    assert repr(dr.zeros(ArrayXf, 3)) == "[0, 0, 0]" and repr(dr.ones(Array3b)) == "[True, True, True]"
    assert dr.zeros(Array3f, 5).shape == (3,) and dr.zeros(Array22f, (2, 2)).shape == (2, 2)
    assert dr.empty(ArrayXf, 3).shape == (3,) and repr(dr.full(Array2f, 4)) == "[4, 4]"
    assert repr(dr.zeros_like(Array3f(1))) == "[0, 0, 0]" and repr(dr.ones_like(ArrayXf(3, 4))) == "[1, 1]"
    assert dr.empty_like(Array3f(1)).shape == (3,) and repr(dr.opaque(Array2f, 3)) == "[3, 3]"
    with pytest.raises(TypeError, match="shape"):
        dr.zeros(Array3f, (4,))
    with pytest.raises(TypeError, match="1D array"):
        dr.arange(Array3f, 3)


def test_reductions_return_python_numbers() -> None:
    value = ArrayXf(4, 1, 3)
    assert [f(value) for f in (dr.sum, dr.prod, dr.min, dr.max, dr.mean)] == [8, 12, 1, 4, float(np.float32(8) / 3)]
    assert type(dr.sum(Array3i(1))) is int and type(dr.mean(Array3f16(1, 2, 4))) is float
    mask = Array3b(True, False, True)
    assert (dr.any(mask), dr.all(mask), dr.none(mask), dr.count(mask)) == (True, False, False, 2)
    matrix = Array22f((1, 2), (3, 4))
    assert repr(dr.sum(matrix)) == "[4, 6]" and repr(dr.sum(matrix, axis=1)) == "[3, 7]"
    assert dr.sum(matrix, axis=None) == 10 and dr.mean(matrix, axis=None) == 2.5
    assert dr.sum(ArrayXf()) == 0 and dr.min(ArrayXf()) == math.inf and Array3f(1, 2, 3) @ Array3f(1) == 6
    with pytest.raises(TypeError, match="out-of-bounds axis"):
        dr.sum(Array3f(1), axis=1)


def test_gather_and_scatter() -> None:
    source = ArrayXf(range(6))
    assert repr(dr.gather(ArrayXf, source, ArrayXu(5, 0))) == "[5, 0]"
    assert repr(dr.gather(ArrayXf, source, [5, 0], ArrayXb(True, False))) == "[5, 0]"
    assert repr(dr.gather(ArrayXf, source, ArrayXu(5, 1), ArrayXb(False, True))) == "[0, 1]"
    assert repr(dr.gather(Array3f, source, 1)) == "[3, 4, 5]" and dr.gather(float, source, 2) == 2
    dr.scatter(source, ArrayXf(10, 20), ArrayXu(1, 2))
    dr.scatter_add(source, 1.5, ArrayXu(0, 0, 3), ArrayXb(True, True, False))
    assert repr(source) == "[3, 10, 20, 3, 4, 5]"
    dr.scatter_reduce(dr.ReduceOp.Max, source, ArrayXf(100, 0), ArrayXu(5, 4))
    dr.scatter(source, Array2f(7, 8), 1)
    assert repr(source) == "[3, 10, 7, 8, 4, 100]"
    for access in (lambda: dr.gather(ArrayXf, source, ArrayXu(6)), lambda: dr.scatter(source, 1.0, ArrayXi(-1))):
        with pytest.raises(IndexError, match=r"drjit\.(gather|scatter).*out of bounds"):
            access()
    for access in (lambda: dr.gather(ArrayXi, source, ArrayXu(0)), lambda: dr.gather(ArrayXf, source, "a"),
                   lambda: dr.scatter(source, ArrayXi(1), 0)):
        with pytest.raises(TypeError, match=r"drjit\.(gather|scatter)"):
            access()
    assert repr(source) == "[3, 10, 7, 8, 4, 100]"


def test_evaluation_leaves_scalars_alone() -> None:
    value, tree = Array3f(1, 2, 3), {"a": Array3f(1), "b": llvm.Float(1, 2) + 1}
    assert dr.eval(value) is False and dr.schedule(value) is False
    dr.make_opaque(tree)
    assert repr(tree["a"]) == "[1, 1, 1]" and tree["a"].state is dr.VarState.Invalid


def test_export() -> None:
    for value, expected in ((ArrayXf(1, 2, 3), np.array([1, 2, 3], np.float32)), (Array0f(), np.empty(0, np.float32)),
                            (Array22f((1, 2), (3, 4)), np.array([[1, 2], [3, 4]], np.float32)),
                            (Array3b(True, False, True), np.array([True, False, True])),
                            (Array3f16(0.5), np.full(3, 0.5, np.float16))):
        for exported in (value.numpy(), np.asarray(value), np.from_dlpack(value) if len(value) else value.numpy()):
            assert exported.dtype == expected.dtype and exported.shape == expected.shape
            assert (exported == expected).all()
    assert Array3i(1, 2, 3).memview().tolist() == [1, 2, 3]


def test_loops_with_scalar_state() -> None:
    final = dr.while_loop((ArrayXf(1, 2), 0), lambda x, i: i < 3, lambda x, i: (x * 2, i + 1))
    assert repr(final[0]) == "[8, 16]" and final[1] == 3
    total, offset, _ = dr.while_loop((llvm.Float(0, 0), Array2f(1, 2), llvm.Int(0, 2)), lambda t, o, i: i < 4,
                                     lambda t, o, i: (t + o.x + o.y, o, i + 1))
    assert repr(total) == "[12, 6]" and repr(offset) == "[1, 2]"


def test_special_types_and_tensors_of_scalars() -> None:
    from drjit.scalar import Complex2f, Matrix2f, Quaternion4f, TensorXf

    assert repr(Complex2f(1 + 2j) + 3) == "4+2j" and repr(Quaternion4f(1, 2, 3, 4) + 10) == "1i+2j+3k+14"
    assert repr(Matrix2f(1, 2, 3, 4) + 10) == "[[11, 2],\n [3, 14]]" and dr.det(Matrix2f(1, 2, 3, 4)) == -2
    assert repr(Matrix2f(1, 2, 3, 4) @ Array2f(1, 2)) == "[5, 11]" and Complex2f(1, 2).imag == 2
    tensor = TensorXf([1, 2, 3, 4], shape=(2, 2))
    assert type(tensor.array) is ArrayXf and repr(tensor.array) == "[1, 2, 3, 4]"
    assert repr(tensor + 1) == "[[2, 3],\n [4, 5]]"
    assert repr(TensorXf(Array3f(1, 2, 3))) == "[1, 2, 3]" and TensorXf(Array22f(1)).shape == (2, 2)
    assert repr(Array3f(TensorXf([1, 2, 3]))) == "[1, 2, 3]" and repr(ArrayXf(TensorXf([5]))) == "[5]"
    assert repr(Array22f(tensor)) == repr(tensor)
    matrix = Array22f((1, 2), (3, 4))
    for order in "CFA":
        assert repr(dr.unravel(Array22f, dr.ravel(matrix, order), order)) == repr(matrix)
    assert repr(dr.ravel(matrix)) == "[1, 3, 2, 4]" and repr(dr.ravel(matrix, "C")) == "[1, 2, 3, 4]"


def test_without_constant_propagation() -> None:
    with dr.scoped_set_flag(dr.JitFlag.ConstantPropagation, False):
        value = Array3f(1, 2, 3) * 2 + 1
        assert repr(value) == "[3, 5, 7]" and value.x == 3 and dr.sum(value) == 15


# --- the scalar and the LLVM backend agree ---------------------------------------------------------------------------

UNARY = [getattr(dr, name) for name in ("sqrt", "rsqrt", "rcp", "exp", "log", "sin", "cos", "floor", "ceil", "round",
                                        "trunc", "abs", "isnan", "isfinite")] + [operator.neg]
INTEGER_UNARY = [getattr(dr, name) for name in ("popcnt", "lzcnt", "tzcnt", "brev", "log2i", "abs")] + [operator.invert]
BINARY = [operator.add, operator.sub, operator.mul, operator.truediv, dr.minimum, dr.maximum, operator.lt, operator.eq,
          operator.floordiv, operator.mod, lambda a, b: dr.fma(a, b, a), lambda a, b: dr.select(a < b, a, b)]
INTEGER_BINARY = [operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod, operator.and_,
                  operator.or_, operator.xor, dr.minimum, dr.maximum, dr.mul_hi, operator.ge, operator.ne]


def same(a: Any, b: Any) -> bool:
    return a == b and math.copysign(1, a) == math.copysign(1, b) or a != a and b != b


@pytest.mark.parametrize("suffix", ["f16", "f", "f64"])
def test_floating_point_functions_agree_with_the_llvm_backend(suffix: str) -> None:
    values = [0.0, -0.0, 0.5, -1.75, 3.0, 100.25, 1e-3, math.inf, -math.inf, math.nan]
    mine, theirs = getattr(scalar, f"ArrayX{suffix}"), getattr(llvm, f"Float{suffix[1:] or 32}")
    for function in UNARY:
        compare(function, mine(values), theirs(values))
    for function in BINARY:
        for other in (0.5, -2.0, 3.0):
            compare(function, mine(values), theirs(values), other)


@pytest.mark.parametrize("name", ["Int", "UInt", "Int64", "UInt64", "Int8", "UInt8"])
def test_integer_functions_agree_with_the_llvm_backend(name: str) -> None:
    theirs: Any = getattr(llvm, name)
    mine = getattr(scalar, "ArrayX" + theirs.__name__.replace("UInt", "u").replace("Int", "i"))
    values = [v for v in (1, 2, 7, 100, 127, -1, -5, -128, 255) if theirs._low <= v <= theirs._high]
    for function in INTEGER_UNARY:
        compare(function, mine(values), theirs(values))
    for function in INTEGER_BINARY:
        for other in (1, 3, 7):
            compare(function, mine(values), theirs(values), other)


def compare(function: Callable[..., Any], mine: Any, theirs: Any, *others: Any) -> None:
    try:
        expected = function(theirs, *(type(theirs)(other) for other in others))
    except (TypeError, RuntimeError) as error:
        with pytest.raises(type(error)):
            function(mine, *(type(mine)(other) for other in others))
        return
    dr.make_opaque(expected)
    found = function(mine, *(type(mine)(other) for other in others))
    assert all(map(same, found, expected)), (function, list(mine), others, list(found), list(expected))


# Found by random programs (test_random_expressions.py).


def test_a_sum_with_an_infinite_addend_is_infinite() -> None:
    limit, inf = 1.7976931348623157e308, math.inf
    for package in (scalar, llvm):
        result = dr.fma(package.Array1f64(limit), limit, -inf)
        assert result.x == -inf or result.x[0] == -inf


def test_reshape() -> None:
    assert repr(dr.reshape(Array22f, Array4f(1, 2, 3, 4), (2, 2))) == "[[1, 3],\n [2, 4]]"
    assert repr(dr.reshape(Array4f, Array22f((1, 2), (3, 4)), 4)) == "[1, 3, 2, 4]"
    assert repr(dr.reshape(ArrayXi, Array22f((1, 2), (3, 4)), -1)) == "[1, 3, 2, 4]"
    assert repr(dr.reshape(scalar.TensorXf, Array4f(1, 2, 3, 4), (2, -1))) == "[[1, 2],\n [3, 4]]"
    assert repr(dr.reshape(ArrayXf, scalar.TensorXf([1, 2, 3, 4], (2, 2)), 4)) == "[1, 2, 3, 4]"
    for source, shape in ((Array4f(1), (2, 2)), (Array4f(1), (-1, 3)), (ArrayXf(1, 2), (3,))):
        with pytest.raises((TypeError, RuntimeError), match=r"drjit\.reshape"):
            dr.reshape(source, shape)
    with pytest.raises(TypeError, match=r"cannot reshape drjit\.llvm\.Array2f to drjit\.scalar\.Array2f"):
        dr.reshape(Array2f, llvm.Array2f(1), 2)


@pytest.mark.parametrize("function", [
    lambda p: dr.normalize(p.ArrayXf16([-2.6, 0.5])), lambda p: dr.cross(*[p.Array3f(-0.0017226, 7, 0.5)] * 2),
    lambda p: dr.quat_to_matrix(p.Matrix3f, p.Quaternion4f(-0.583, -1.4864, 0.3498, -1.1352)),
    lambda p: dr.matrix_to_quat(p.Matrix3f(2, 0.1, 0.5, 1.03, -1, -1.8, -3.1, 0.1, -3.7)),
    lambda p: dr.quat_to_euler(p.Quaternion4f(0.3, 0.2, -0.1, 0.9)),
    lambda p: dr.slerp(p.Quaternion4f(0.3, 0.2, -0.1, 0.9), p.Quaternion4f(0.1, 0.2, 0.3, 0.9), 0.3),
    lambda p: dr.quat_apply(p.Quaternion4f(0.3, 0.2, -0.1, 0.9), p.Array3f(0.1, 0.2, 0.3)),
])
def test_functions_of_components_round_as_on_the_llvm_backend(function: Callable[[Any], Any]) -> None:
    mine, theirs = function(scalar), function(llvm)
    assert type(mine).__name__ == type(theirs).__name__
    leaves = [theirs[k] for k in range(len(theirs))]
    found = [mine[k] for k in range(len(mine))]
    if dr.depth_v(mine) > 1:
        leaves, found = [leaf for row in leaves for leaf in row], [leaf for row in found for leaf in row]
    assert found == [leaf[0] for leaf in leaves]
