"""Operands of different types: what they promote to, whether the plan for them is new or known, and what values do."""

from __future__ import annotations

import gc
import itertools
import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import drjit as dr
from drjit import llvm, scalar
from drjit._base.errors import describe
from drjit.llvm import (
    Array2f,
    Array3b,
    Array3f,
    Array3f64,
    Array3i,
    Array22f,
    ArrayXf,
    ArrayXi,
    Bool,
    Complex2f,
    Float,
    Float16,
    Float64,
    Int,
    Int8,
    Matrix2f,
    Matrix3f,
    Quaternion4f,
    TensorXb,
    TensorXf,
    TensorXf64,
    TensorXi,
    UInt,
    UInt8,
)
from drjit_core.ir.node import node_count


def same(result: Any, expected: Any, kind: type | None = None) -> None:
    if kind is not None:
        assert type(result) is kind
    found = result.numpy()
    expected = np.asarray(expected)
    assert found.shape == np.broadcast_shapes(found.shape, expected.shape)
    np.testing.assert_allclose(found, np.broadcast_to(expected, found.shape), rtol=1e-6)


# --- all pairs of operands, against NumPy ----------------------------------------------------------------------------

#: Operands, and what they are to NumPy: component axes first, the elements last.
OPERANDS: dict[str, tuple[Callable[[], Any], Any]] = {
    "Float": (lambda: Float(1, 2, 3), [1, 2, 3]), "Float64": (lambda: Float64(3, 1, 2), [3, 1, 2]),
    "Float16": (lambda: Float16(2), [2]), "Int": (lambda: Int(4, 5, 7), [4, 5, 7]),
    "UInt8": (lambda: UInt8(3, 1, 2), [3, 1, 2]), "Bool": (lambda: Bool(True, False, True), [1, 0, 1]),
    "Array3f": (lambda: Array3f([1, 2, 4], 2, 5), [[1, 2, 4], [2] * 3, [5] * 3]),
    "Array3i": (lambda: Array3i(3, [1, 5, 2], 2), [[3] * 3, [1, 5, 2], [2] * 3]),
    "Array3f64": (lambda: Array3f64(1, 7, 2), [[1], [7], [2]]),
    "ArrayXf": (lambda: ArrayXf([1, 2, 3], [4, 5, 6], [7, 8, 9]), [[1, 2, 3], [4, 5, 6], [7, 8, 9]]),
    "ArrayXi of one": (lambda: ArrayXi([[3, 4, 5]]), [[3, 4, 5]]),
    "scalar Array3f": (lambda: scalar.Array3f(1, 3, 2), [[1], [3], [2]]),
    "int": (lambda: 3, 3), "float": (lambda: 1.5, 1.5), "bool": (lambda: True, 1),
    "np.float32": (lambda: np.float32(2.5), 2.5), "np.int64": (lambda: np.int64(4), 4),
    "np.bool": (lambda: np.True_, 1),
    "0-dim": (lambda: np.array(2.0), 2.0), "list": (lambda: [3, 1, 2], None),
}


def reference(name: str, other: str) -> np.ndarray[Any, Any]:
    if name == "list":  # of components next to a nested array, else of elements
        return np.array([[3], [1], [2]] if "Array" in other else [3, 1, 2], np.float64)
    return np.array(OPERANDS[name][1], np.float64)


@pytest.mark.parametrize("operation", [operator.sub, operator.lt, dr.maximum],
                         ids=lambda function: function.__name__)
@pytest.mark.parametrize("left", OPERANDS)
def test_mixed_operands_agree_with_numpy(left: str, operation: Callable[[Any, Any], Any]) -> None:
    expected_of = {dr.maximum: np.maximum}.get(operation, operation)
    for right in OPERANDS:
        a, b = OPERANDS[left][0](), OPERANDS[right][0]()
        arrays = [x for x in (a, b) if isinstance(x, dr.ArrayBase)]
        if not arrays or all(dr.is_mask_v(x) or isinstance(x, (bool, np.bool_)) for x in (a, b)):
            continue  # nothing to do with arrays; masks have no arithmetic
        if "list" in (left, right) and "of one" in left + right:
            continue  # of three components, or one
        x, y = reference(left, right), reference(right, left)
        first = operation(a, b)
        result = operation(OPERANDS[left][0](), OPERANDS[right][0]())  # the plan is known by now
        assert type(result) is type(first)
        expected = np.asarray(expected_of(x, y))
        if type(result) is UInt8:
            expected = expected % 256
        found = result.numpy()
        if dr.backend_v(result) == dr.JitBackend.Invalid:
            found = found[:, None]  # no dimension of elements
        np.testing.assert_allclose(found, np.broadcast_to(expected, found.shape), rtol=1e-6)


def test_scalar_types_follow_the_order_of_types() -> None:
    flat = [Bool, Int8, UInt8, Int, UInt, llvm.Int64, llvm.UInt64, Float16, Float, Float64]
    for a, b in itertools.product(flat, repeat=2):
        if Bool in (a, b):
            continue
        expected = flat[max(flat.index(a), flat.index(b))]
        for _ in range(2):
            assert type(a(1) + b(1)) is expected


@pytest.mark.parametrize(("left", "right", "kind"), [
    (lambda: TensorXi([1, 2]), lambda: 1.5, TensorXf), (lambda: TensorXf([1, 2]), lambda: Float64(1, 2), TensorXf64),
    (lambda: Int(1, 2), lambda: TensorXf([1, 2]), TensorXf), (lambda: TensorXf([1]), lambda: [1.5, 2.0], TensorXf),
    (lambda: np.array([1.0, 2.0]), lambda: TensorXf([1, 2]), TensorXf64),
    (lambda: TensorXf([[1], [2]]), lambda: np.array([1, 2], np.float32), TensorXf),
    (lambda: TensorXf([1, 2]), lambda: np.float64(2), TensorXf), (lambda: True, lambda: TensorXi([1]), TensorXi),
])
def test_tensors_with_other_operands(left: Callable[[], Any], right: Callable[[], Any], kind: type) -> None:
    a, b = left(), right()
    x, y = (v.numpy() if isinstance(v, dr.ArrayBase) else np.array(v) for v in (a, b))
    for _ in range(2):
        same(a + b, x + y, kind)
        same(b * a, x * y, kind)
        same(dr.fma(a, b, 1), x * y + 1, kind)


# --- what depends on values ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("make", "value"), [
    (lambda: Int8(1), 128), (lambda: UInt(1), -1), (lambda: Array3i(1), 1 << 31), (lambda: TensorXi([1]), 1 << 40),
    (lambda: Float(1), 1 << 1100),
])
def test_integers_out_of_range_are_refused_each_time(make: Callable[[], Any], value: int) -> None:
    for good in (1, 0):
        make() + good
        for operation in (lambda: make() + value, lambda: value - make(), lambda: make() < value,
                          lambda: dr.maximum(make(), value), lambda: dr.fma(make(), 1, value),
                          lambda: dr.select(make() == 1, make(), value)):
            with pytest.raises(TypeError, match="out of range"):
                operation()


def test_numbers_that_are_no_numbers_stay_what_they_are() -> None:
    for value in (math.nan, math.inf, -math.inf, -0.0):
        for array in (Float(1, 2), Int(1, 2), Array3f(1), TensorXf([1, 2])):
            for _ in range(2):
                found = (array * 0 + value).numpy().reshape(-1)
                assert np.array_equal(found, np.full(found.shape, value, np.float32), equal_nan=True)
    assert math.copysign(1, (Array3f(0) * 1 - 0.0).x[0]) == 1 and math.copysign(1, dr.maximum(-0.0, Float(-1))[0]) == -1


def test_dynamic_sizes_are_compared_by_each_call() -> None:
    x = ArrayXf([1, 2, 3])
    for _ in range(2):
        same(x + ArrayXi([1, 2, 3]), [[2], [4], [6]], ArrayXf)
        same(x + ArrayXi([1]), [[2], [3], [4]], ArrayXf)
        same(ArrayXi([2]) * Array3f(1, 2, 3), [[2], [4], [6]], ArrayXf)
        with pytest.raises(TypeError, match=r"ArrayXf of shape \(3, 1\) and drjit.llvm.ArrayXi of shape \(2, 1\)"):
            x + ArrayXi([1, 2])
        with pytest.raises(TypeError, match=r"ArrayXi of shape .* and drjit.llvm.Array3f of shape"):
            ArrayXi([1, 2]) * Array3f(1, 2, 3)
    assert repr(ArrayXf() + Float(1)) == repr(ArrayXf() * 2) == "[]"


def test_numpy_scalars_count_as_python_numbers() -> None:
    for value in (np.float64(1.5), np.float32(1.5), np.float16(1.5), np.int64(2), np.uint8(2), np.True_):
        for _ in range(2):
            assert type(Float(1) * value) is type(value * Float(1)) is Float
            assert type(Float16(1) + value) is Float16
            same(Array3i(2) * value, [[2 * float(value)]] * 3, Array3f if isinstance(value, np.floating) else Array3i)
    for _ in range(2):
        with pytest.raises(TypeError, match="out of range"):
            Int8(1) + np.int64(200)


# --- powers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [Float, Float64, Float16, Int, UInt, Array3f, Array3i, ArrayXf, TensorXf, TensorXi,
                                  scalar.Array3f])
@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 4, 2.0, True, np.int32(2), np.float32(3)])
def test_integral_powers(kind: type, exponent: Any) -> None:
    base = kind([1, 2, 3])
    for _ in range(2):
        same(base**exponent, base.numpy().astype(float) ** float(exponent))
        assert type(base**exponent) is type(base * exponent)


def test_integers_have_no_negative_powers_and_others_have() -> None:
    same(Float(2, 4) ** -2, [0.25, 0.0625], Float)
    for array in (Int(2), Array3i(2), TensorXi([2])):
        with pytest.raises(TypeError, match=r"__pow__\(\): integer arrays cannot be raised to the negative power -1"):
            array**-1
    same(Int8(2) ** 200, [0], Int8)  # modulo the word size


@pytest.mark.parametrize("make", [lambda: Int(2, 3), lambda: Float(2), lambda: Array3f(2), lambda: TensorXf([2]),
                                  lambda: Complex2f(2, 1), lambda: Matrix2f(2), lambda: scalar.Array3i(2)])
def test_a_modulus_is_refused(make: Callable[[], Any]) -> None:
    with pytest.raises(TypeError, match=r"__pow__\(\): the argument 'mod' of pow\(\) is not supported \(found 5\)"):
        pow(make(), 3, 5)


def test_powers_of_several_types() -> None:
    same(2 ** Int(1, 2), [2, 4], Float)
    same(Float(4, 9) ** 0.5, [2, 3], Float)
    same(Float(2) ** TensorXf([1, 2, 3]), [2, 4, 8], TensorXf)
    same([2, 3] ** Float(2, 1), [4, 3], Float)
    same(Float(2, 3) ** Float64(2), [4, 9], Float64)
    same(Float(2, 3) ** Array3f(1, 2, 3), [[2, 3], [4, 9], [8, 27]], Array3f)
    z = Complex2f(1, 2) ** 2
    assert type(z) is Complex2f and repr(z) == "[-3+4j]"
    assert repr(Matrix2f(1, 2, 3, 4) ** 2) == repr(Matrix2f(1, 2, 3, 4) @ Matrix2f(1, 2, 3, 4))
    with pytest.raises(TypeError, match="only integers can be exponents of matrices"):
        Matrix2f(1) ** 0.5


# --- masks -----------------------------------------------------------------------------------------------------------

MASKS: list[Any] = [Bool(True, False, True), [True, False, True], np.array([True, False, True])]


@pytest.mark.parametrize("mask", MASKS, ids=["Bool", "list", "ndarray"])
@pytest.mark.parametrize("kind", [Float, Float64, Float16, TensorXf])
def test_masks_go_with_floats_from_the_right(kind: type, mask: Any) -> None:
    """Before floating-point numbers they would count as numbers, which have no bits."""
    x = kind([1, 2, 3])
    for _ in range(2):
        same(x & mask, [1, 0, 3], kind)
        for left in (mask, True, TensorXb([True, False, True]) if kind is TensorXf else Bool(False)):
            with pytest.raises((TypeError, RuntimeError), match="not supported for this type"):
                left & x
    same(x & False, [0, 0, 0], kind)


@pytest.mark.parametrize("mask", MASKS, ids=["Bool", "list", "ndarray"])
def test_masks_go_with_integers_from_the_right(mask: Any) -> None:
    for _ in range(2):
        same(Int(4, 5, 6) & mask, [4, 0, 6], Int)
        same(mask & Int(4, 5, 7), [0, 0, 1], Int)  # there, a mask counts as 0 and 1
    same(TensorXi([4, 5, 6]) & mask, [4, 0, 6], TensorXi)
    same(TensorXb([True, False, True]) & TensorXi([4, 5, 7]), [0, 0, 1], TensorXi)
    same(Int(4, 5, 6) & [4, 1, 6], [4, 1, 6], Int)


def test_masks_of_nested_arrays() -> None:
    v = Array3f([1, 2], 3, 4)
    for _ in range(2):
        same(v & [True, False, True], [[1, 2], [0, 0], [4, 4]], Array3f)
        same(v & Bool(True, False), [[1, 0], [3, 0], [4, 0]], Array3f)
        same(Bool(True, False) & Array3i(1, 2, 4), [[1, 0], [0, 0], [0, 0]], Array3i)
        same(Float(1, 2) & Array3b(True, False, True), [[1, 2], [0, 0], [1, 2]], Array3f)
        same(ArrayXf([1, 2]) & ArrayXf([0, 1]).__class__([1, 2]).__ge__(2), [[0], [2]], ArrayXf)
    assert repr(Complex2f(1, 2) & Bool(True, False)) == "[1+2j,\n 0]"
    same(TensorXf([[1, 2], [3, 4]]) & TensorXb([True, False]), [[1, 0], [3, 0]], TensorXf)


def test_masks_among_themselves_stay_masks() -> None:
    for mask in MASKS:
        for function, expected in ((operator.and_, [1, 0, 1]), (operator.or_, [1, 1, 1]), (operator.xor, [0, 1, 0])):
            first = [True, True, True] if function is not operator.and_ else [True, False, True]
            same(function(Bool(first), mask), expected, Bool)
            same(function(mask, Bool(first)), expected, Bool)


def test_selections_of_several_types() -> None:
    p, q = Bool(True, False, True), Array3b(True, False, True)
    for _ in range(2):
        same(dr.select(p, Int(1, 2, 3), 0.5), [1, 0.5, 3], Float)
        same(dr.select(p, 1, 2), [1, 2, 1], Int)
        same(dr.select(q, Float(1, 2), Array3i(5, 6, 7)), [[1, 2], [6, 6], [1, 2]], Array3f)
        same(dr.select(p, Array3f(1, 2, 3), 0), [[1, 0, 1], [2, 0, 2], [3, 0, 3]], Array3f)
        same(dr.select(p, [1, 2, 3], Float(0)), [1, 0, 3], Float)
        same(dr.select(TensorXb([[True], [False]]), TensorXf([1, 2]), 7), [[1, 2], [7, 7]], TensorXf)
        assert type(dr.select(p, Complex2f(1, 2), 1)) is Complex2f
        assert repr(dr.select(p, Complex2f(1, 2), 3)) == "[1+2j,\n 3,\n 1+2j]"


# --- products --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("convert", [list, tuple, np.array, lambda v: np.array(v, np.float32)])
def test_sequences_and_numpy_arrays_are_operands_of_matrix_products(convert: Callable[[Any], Any]) -> None:
    vector, x = [1, 2, 3], np.array([4.0, 5, 6])
    entries = np.array([[1.0, 2, 3], [4, 5, 6], [7, 8, 10]])
    m, v, f, t = Matrix3f(entries.tolist()), Array3f(4, 5, 6), Float(4, 5, 6), TensorXf(entries)
    square = [list(map(int, row)) for row in entries.T]
    for result, expected in (
            (f @ convert(vector), x @ vector), (convert(vector) @ f, x @ vector),
            (v @ convert(vector), x @ vector), (convert(vector) @ v, x @ vector),
            (m @ convert(vector), entries @ vector), (convert(vector) @ m, vector @ entries),
            (m @ convert(square), entries @ square), (convert(square) @ m, square @ entries),
            (v @ convert(square), x @ square), (convert(square) @ v, square @ x),
            (ArrayXf([4, 5, 6]) @ convert(vector), x @ vector),
            (t @ convert(vector), entries @ vector), (convert(square) @ t, square @ entries),
            (dr.matmul(m, convert(vector)), entries @ vector), (dr.matmul(convert(vector), v), x @ vector)):
        assert isinstance(result, dr.ArrayBase)
        np.testing.assert_allclose(np.squeeze(result.numpy()), expected, rtol=1e-6)


def test_products_keep_the_scalar_type_of_numpy_arrays_and_that_of_arrays_with_sequences() -> None:
    assert type(Float(1, 2) @ [1.5, 2]) is Float and type(Int(1, 2) @ [1.5, 2]) is Float
    assert type(Float(1, 2) @ np.array([1.0, 2])) is Float64 and type(Float(1) @ np.array([1], np.int32)) is Float
    assert type(Matrix2f(1) @ [Float(1, 2), 3]) is Array2f
    result = scalar.Array3f(1, 2, 3) @ [1, 2, 3]
    assert result == 14


@pytest.mark.parametrize(("operation", "message"), [
    (lambda: Float(1) @ [[1, 2], [3, 4]], r"Float.__matmul__\(\): the operand of type 'list' has the shape \(2, 2\)"),
    (lambda: Array3f(1) @ np.ones((3, 2)), r"Array3f.__matmul__\(\): the operand of type .*ndarray' .* \(3, 2\)"),
    (lambda: [1, 2] @ Array3f(1), r"Array3f.__rmatmul__\(\): incompatible arguments: .*Array2f of .*Array3f of shape"),
    (lambda: Matrix3f(1) @ [1, 2], r"Matrix3f.__matmul__\(\): incompatible arguments: .*Matrix3f of shape"),
    (lambda: Float(1) @ [], r"Float.__matmul__\(\): the operand of type 'list' is empty"),
    (lambda: Float(1) @ "a", r"Float.__matmul__\(\): unsupported operand of type 'str'"),
    (lambda: Complex2f(1) @ Complex2f(1), r"Complex2f.__matmul__\(\): complex numbers .* no matrix product"),
    (lambda: Bool(True) @ Bool(True), r"Bool.__matmul__\(\): operation not supported for this type"),
])
def test_errors_of_products(operation: Callable[[], Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        operation()


# --- special kinds ---------------------------------------------------------------------------------------------------


def test_reals_and_special_kinds() -> None:
    z, reals = Complex2f([1, 2], 3), [2, 2.0, np.float32(2), Float(2, 3), Int(2, 3)]
    x = np.array([1 + 3j, 2 + 3j])
    for real in reals:
        y = real.numpy() if isinstance(real, dr.ArrayBase) else real
        for _ in range(2):
            for name in ("add", "sub", "mul", "truediv"):
                function = getattr(operator, name)
                np.testing.assert_allclose(function(z, real).numpy(), function(x, y), rtol=1e-6)
                np.testing.assert_allclose(function(real, z).numpy(), function(y, x), rtol=1e-6)
            np.testing.assert_allclose(dr.fma(z, real, z).numpy(), x * y + x, rtol=1e-6)
            np.testing.assert_allclose(dr.fma(real, z, 1).numpy(), x * y + 1, rtol=1e-6)
    np.testing.assert_allclose((z * (1 + 2j)).numpy(), x * (1 + 2j), rtol=1e-6)
    np.testing.assert_allclose(((1 + 2j) / z).numpy(), (1 + 2j) / x, rtol=1e-6)
    np.testing.assert_allclose((np.complex64(1 + 2j) - z).numpy(), 1 + 2j - x, rtol=1e-6)
    assert repr(z == (1 + 3j)) == "[[True, True],\n [False, True]]"


def test_matrices_with_other_operands() -> None:
    entries = np.array([[1.0, 2], [3, 4]])
    m, v = Matrix2f(entries.tolist()), Array2f(5, 6)
    for _ in range(2):
        np.testing.assert_allclose(np.squeeze((m * v).numpy()), entries @ [5, 6], rtol=1e-6)
        np.testing.assert_allclose(np.squeeze((v * m).numpy()), [5, 6] @ entries, rtol=1e-6)
        np.testing.assert_allclose(np.squeeze((v / m).numpy()), np.array([5, 6]) @ np.linalg.inv(entries), rtol=1e-5)
        np.testing.assert_allclose(np.squeeze((m / m).numpy()), np.eye(2), atol=1e-5)
        np.testing.assert_allclose(np.squeeze((m + 1).numpy()), entries + np.eye(2), rtol=1e-6)
        np.testing.assert_allclose(np.squeeze((2 * m).numpy()), 2 * entries, rtol=1e-6)
        np.testing.assert_allclose(np.squeeze(dr.fma(m, 2, m).numpy()), 3 * entries, rtol=1e-6)
        np.testing.assert_allclose(np.squeeze(dr.maximum(m, 2).numpy()), [[2, 2], [3, 4]], rtol=1e-6)
        assert type(m + Matrix2f(1)) is Matrix2f and type(m * llvm.Matrix2f64(1)) is llvm.Matrix2f64
    for operation in (lambda: m + v, lambda: m * Array22f(1), lambda: m * Matrix3f(1), lambda: m < 1,
                      lambda: dr.maximum(Quaternion4f(1), 1), lambda: Complex2f(1) > 0, lambda: Complex2f(1) >= 1):
        for _ in range(2):
            with pytest.raises(TypeError):
                operation()


# --- tensors: broadcasting -------------------------------------------------------------------------------------------

SHAPES: list[tuple[int, ...]] = [(), (1,), (4,), (3, 1), (1, 4), (3, 4), (2, 1, 4), (2, 3, 1), (0,), (3, 0), (1, 1, 1)]


@pytest.mark.parametrize("first", SHAPES, ids=str)
def test_all_shapes_broadcast_like_numpy(first: tuple[int, ...]) -> None:
    x = np.arange(math.prod(first), dtype=np.float32).reshape(first)
    for second in SHAPES:
        y = 1 + np.arange(math.prod(second), dtype=np.float32).reshape(second)
        for _ in range(2):
            try:
                expected = x - y
            except ValueError:
                with pytest.raises(RuntimeError, match="incompatible shapes"):
                    TensorXf(x) - TensorXf(y)
                continue
            result = TensorXf(x) - TensorXf(y)
            assert result.shape == expected.shape
            np.testing.assert_array_equal(result.numpy(), expected)
            np.testing.assert_array_equal(dr.fma(TensorXf(x), 2, TensorXf(y)).numpy(), x * 2 + y)


def test_broadcasts_inside_and_outside_of_loops() -> None:
    def body(i: Int, x: TensorXf) -> tuple[Int, TensorXf]:
        return i + 1, x + row

    row, column = TensorXf([1, 2, 3]), TensorXf([[10.0], [20.0]])
    before = column + row
    expected = np.array([[10.0], [20]]) + np.array([1.0, 2, 3])
    _, summed = dr.while_loop((Int(0), column + 0 * row), lambda i, x: i < 3, body)
    after = column + row
    for result in (before, after):
        np.testing.assert_array_equal(result.numpy(), expected)
    np.testing.assert_array_equal(summed.numpy(), np.array([[10.0], [20]]) + 3 * np.array([1.0, 2, 3]))


def test_broadcasts_keep_nothing_alive() -> None:
    def compute() -> None:
        result = TensorXf(np.ones((7, 11))) + TensorXf(np.ones(11))
        dr.eval(result)

    def live_nodes() -> int:
        gc.collect()
        return node_count()

    compute()
    before = live_nodes()
    compute()
    assert live_nodes() == before


def test_in_place_operators_do_not_change_the_shape_of_a_tensor() -> None:
    t = alias = TensorXf([1, 2])
    for assign in (operator.iadd, operator.imul, operator.isub, operator.itruediv, operator.imatmul, operator.ipow):
        if assign is not operator.ipow:
            with pytest.raises(RuntimeError, match=rf"TensorXf.__{assign.__name__}__\(\): the result has the shape "
                                                   r"\(.*\), but .* not change the shape .* is \(2,\)"):
                assign(t, TensorXf([[1, 2], [3, 4], [5, 6]] if assign is not operator.imatmul else [1, 2]))
    assert alias.shape == (2,) and t is alias
    t += 1
    t += TensorXf([1, 1])
    t += [10, 20]
    np.testing.assert_array_equal(alias.numpy(), [13, 24])
    with pytest.raises(RuntimeError, match="shape"):
        t += Float(1, 2, 3)
    wide = t
    wide += Float64(1, 2)  # of another type: a new tensor
    assert type(wide) is TensorXf64 and type(alias) is TensorXf


@pytest.mark.parametrize("mask", [True, llvm.Bool(True), llvm.TensorXb(True), dr.empty(llvm.TensorXb, (0, 3)),
                                  llvm.TensorXb([True, False, True])], ids=["bool", "flat", "0d", "same", "broadcast"])
def test_masks_go_with_empty_tensors(mask: Any) -> None:
    tensor = dr.empty(llvm.TensorXf, (0, 3))
    result = tensor & mask
    assert type(result) is llvm.TensorXf and result.shape == (0, 3)


def test_masks_go_with_empty_arrays() -> None:
    assert list(Float() & llvm.Bool()) == [] and list(llvm.Bool() & Int()) == []
    assert list(Float() & llvm.Bool(True)) == [] and list(Float(1) & llvm.Bool()) == []
    with pytest.raises(RuntimeError, match="incompatible sizes"):
        Float() & llvm.Bool(True, False)


@pytest.mark.parametrize("left, right, kind", [
    (Float(1, 2), [Float(3, 4), 5], Array2f), (Float(1), [Float(3, 4)] * 5, ArrayXf),
    (Float(1, 2), [[Float(1, 2), 3], [4, 5]], Array22f), (Array2f(1, 2), [Array2f(1, 2), Array2f(3, 4)], Array22f),
    (scalar.Array2f(1, 2), [Float(3, 4), 5], Array2f), (Float(1, 2), [np.float32([3, 4]), np.float32([5, 6])], Array2f),
    (Int(1, 2), (Float64(3, 4), Int8(1)), llvm.Array2f64),
])
def test_sequences_of_arrays_are_arrays_of_these_components(left: Any, right: Any, kind: type) -> None:
    found, expected = left + right, left + kind(right)
    same(found, expected.numpy(), kind)
    same(right + left, expected.numpy(), kind)
    assert type(dr.select(True, left, right)) is type(dr.maximum(right, left))
    masked = Float(1, 2, 3) & [Bool(True, False, True), True]
    same(masked, [[1, 0, 3], [1, 2, 3]], Array2f)


@pytest.mark.parametrize("left", [
    Array2f(1, 2), ArrayXf([1, 2], [3, 4]), Matrix2f(1, 2, 3, 4), Complex2f(1, 2), TensorXf([[1, 2], [3, 4]]),
    scalar.Array2f(1, 2), scalar.Matrix2f(1, 2, 3, 4), scalar.Complex2f(1, 2)], ids=describe)
def test_sequences_with_derivatives_keep_them(left: Any) -> None:
    x = llvm.ad.Float(3, 5)
    dr.enable_grad(x)
    pair = [x, x] if isinstance(left, TensorXf) else [x, 1]
    results = [left + pair, pair * left, dr.fma(left, 2, pair), dr.select(left != 1, pair, left)]
    if not isinstance(left, Complex2f | scalar.Complex2f):
        results += [left @ pair, pair @ left]
    if not left._special:
        results.append(dr.minimum(pair, left + 9))
    for result in results:
        assert dr.grad_enabled(result)
        dr.backward(result)
    assert all(dr.grad(x).numpy() > 0)
