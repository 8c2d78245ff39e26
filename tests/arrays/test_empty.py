"""Arrays without elements are arrays: one element goes with none of them, as in NumPy."""

from __future__ import annotations

import contextlib
import math
from typing import Any

import numpy as np
import pytest

import drjit as dr
import drjit_core as core
from drjit import llvm, scalar
from drjit.llvm import (
    Array3b,
    Array3f,
    Array3i,
    Bool,
    Complex2f,
    Float,
    Float16,
    Float64,
    Int,
    Int64,
    Matrix3f,
    Quaternion4f,
    TensorXb,
    TensorXf,
    TensorXi,
    UInt,
    UInt64,
    ad,
)

EMPTY = [lambda: Float(), lambda: TensorXf(np.ones((0, 3), np.float32)), lambda: Array3f(np.ones((3, 0), np.float32))]
FUNCTIONS = ["sin", "cos", "tan", "cot", "exp", "exp2", "erf", "erfc", "erfinv", "sinh", "cosh", "tanh", "rcp",
             "rsqrt", "log", "log2", "cbrt", "asin", "acos", "atan", "asinh", "acosh", "atanh", "sign", "lgamma",
             "safe_sqrt", "safe_asin", "safe_acos", "deg2rad", "rad2deg", "sqrt", "abs", "floor", "isinf", "isfinite",
             "isnan"]
#: The rows of the compiler's table that are public functions.
FUNCTIONS_OF_ROWS = sorted(core.FUNCTIONS)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("make", EMPTY, ids=["flat", "tensor", "nested"])
def test_elementwise_functions_of_one_argument(name, make):
    array = make()
    result = getattr(dr, name)(array)
    assert result.shape == array.shape
    assert type(result) is (dr.mask_t(array) if name.startswith("is") else type(array))


@pytest.mark.parametrize("name", ["sincos", "sincosh"])
@pytest.mark.parametrize("make", EMPTY, ids=["flat", "tensor", "nested"])
def test_functions_with_two_results(name, make):
    array = make()
    for result in getattr(dr, name)(array):
        assert result.shape == array.shape and type(result) is type(array)


def empty(dtype, size=0):
    """An array, a nested array or a tensor with so many elements (of a row)."""
    leaf = dr.leaf_t(dtype)
    number = bool if dr.is_mask_v(leaf) else np.int32 if dr.is_integral_v(leaf) else np.float32
    if dr.is_tensor_v(dtype):
        return dtype(np.ones((3, size), number))
    return dtype(np.ones((3, size) if dr.depth_v(dtype) > 1 else size, number))


KINDS = {"flat": {"f": Float, "i": Int, "b": Bool}, "half": {"f": Float16, "i": UInt64},
         "double": {"f": Float64, "i": Int64}, "nested": {"f": Array3f, "i": Array3i, "b": Array3b},
         "tensor": {"f": TensorXf, "i": TensorXi, "b": TensorXb}}


@pytest.mark.parametrize("name", FUNCTIONS_OF_ROWS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_function_of_the_table_makes_nothing_of_nothing(name, kind):
    """All expanded and composed rows, and those with a text, on each type class that they accept."""
    row = core.FUNCTIONS[name]
    for letter in {"i" if c in "iu" else c for c in row.accepts if name != "select"} or {"f"}:
        if letter not in KINDS[kind]:
            continue
        dtype = KINDS[kind][letter]
        args = [empty(dtype) for _ in range(row.arity)]
        if name == "select":
            args[0] = empty(dr.mask_t(dtype))
        results = getattr(dr, name)(*args)
        for result in results if row.result == "pair" else [results]:
            assert type(result) is (dr.mask_t(dtype) if row.result == "mask" else dtype)
            assert result.shape == args[0].shape and result.shape[-1] == 0
            assert result.numpy().size == 0


@pytest.mark.parametrize("name", [name for name in FUNCTIONS_OF_ROWS if core.FUNCTIONS[name].arity > 1])
@pytest.mark.parametrize("kind", ["flat", "nested"])
def test_an_array_without_elements_goes_with_one_element_and_no_others(name, kind):
    """Beside arrays with elements, whichever operand has none."""
    row = core.FUNCTIONS[name]
    dtype = KINDS[kind]["f" if "f" in row.accepts else "i"]
    for position in range(row.arity):
        for size in (1, 2):
            args = [empty(dtype, 0 if k == position else size) for k in range(row.arity)]
            if name == "select":
                args[0] = empty(dr.mask_t(dtype), args[0].shape[-1])
            if size == 1:
                result = getattr(dr, name)(*args)
                assert result.shape == empty(dtype).shape
                assert type(result) is (dr.mask_t(dtype) if row.result == "mask" else dtype)
            else:
                with pytest.raises(RuntimeError, match=rf"drjit\.{name}\(.*incompatible sizes! \(sizes: [02, ]+\)"):
                    getattr(dr, name)(*args)


@pytest.mark.parametrize("name", [name for name in FUNCTIONS_OF_ROWS if core.FUNCTIONS[name].arity > 1
                                  and "f" in core.FUNCTIONS[name].accepts and name != "select"])
@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0,)])
def test_tensors_without_elements_broadcast_with_one_row(name, shape):
    arity = core.FUNCTIONS[name].arity
    nothing, row = TensorXf(np.ones(shape, np.float32)), TensorXf(np.ones((1,) * len(shape), np.float32))
    for position in range(arity):
        result = getattr(dr, name)(*(nothing if k == position else row for k in range(arity)))
        assert type(result) is TensorXf and result.shape == shape


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, -1, -3, 1000, -1000])
@pytest.mark.parametrize("make", EMPTY, ids=["flat", "tensor", "nested"])
def test_integer_powers_of_nothing(make, exponent):
    array = make()
    assert dr.power(array, exponent).shape == (array ** exponent).shape == array.shape


@pytest.mark.parametrize("name", ["deg2rad", "rad2deg"])
@pytest.mark.parametrize("dtype", [Int, UInt64, Array3i, TensorXi])
def test_angles_of_integers_become_floats(name, dtype):
    array = empty(dtype)
    result = getattr(dr, name)(array)
    assert result.shape == array.shape and dr.is_float_v(result)


# --- operators and functions of several operands, against NumPy -------------------------------------------------------

#: Expressions of an array ``a``, or of two, and of a namespace ``f`` of functions.
OF_ONE = ["a + 1", "1 - a", "a * 0", "0 * a", "a * -1", "a / 1", "a ** 2", "2 ** a", "-a", "abs(a)", "a <= 0", "1 > a",
          "a != a", "a - a", "f.maximum(0, a)", "f.minimum(a, 1)", "f.fma(a, 0, 1)", "f.clip(a, 0, 1)",
          "f.select(a > 0, a, 1)", "f.select(a > 0, 1.0, 2.0)", "f.select(True, 1, a)", "f.sqrt(a * 2)",
          "f.copysign(a, -1)", "f.copysign(2.0, a)"]
OF_TWO = ["a + b", "a - b", "a * b", "a / b", "a ** b", "a > b", "a == b", "a + b * 0", "f.minimum(a, b)",
          "f.fma(a, b, 1)", "f.fma(a, 0, b)", "f.clip(a, 0, b)", "f.clip(0.5, a, b)", "f.select(a > 0, b, 1)",
          "f.select(a > b, a, b)", "f.select(True, a, b)", "f.select(False, a, b)", "f.atan2(a, b)", "f.hypot(b, a)"]
#: Whatever NumPy says of them.
SHAPES = [((0,), (0,)), ((0,), (1,)), ((0, 3), (3,)), ((0, 3), (1, 3)), ((3, 0), (3, 1)), ((0, 1), (3,)), ((0,), ()),
          ((2, 0, 3), (2, 1, 1)), ((0, 3), ()), ((0,), (2, 1)), ((0,), (2,)), ((0, 3), (2, 3)), ((0, 3), (0,))]


class InNumPy:
    """NumPy's functions by the names that they have here."""

    minimum, maximum, clip, sqrt, hypot, copysign = np.minimum, np.maximum, np.clip, np.sqrt, np.hypot, np.copysign
    select, atan2 = np.where, np.arctan2

    @staticmethod
    def fma(a: Any, b: Any, c: Any) -> Any:
        return a * b + c


def evaluated_in(expression: str, f: Any, a: Any, b: Any) -> Any:
    return eval(expression, {"f": f, "a": a, "b": b})


@pytest.mark.parametrize("expression", OF_ONE + OF_TWO)
@pytest.mark.parametrize("package", [llvm, ad, scalar], ids=["llvm", "ad", "scalar"])
def test_tensors_have_the_shapes_of_numpy(package: Any, expression: str) -> None:
    for shapes in [*SHAPES, *[pair[::-1] for pair in SHAPES]]:
        expected: Any = None
        try:
            expected = evaluated_in(expression, InNumPy, *[np.ones(shape, np.float32) for shape in shapes])
        except ValueError:
            pass
        a, b = (dr.ones(package.TensorXf, shape) for shape in shapes)
        if expected is None:
            with pytest.raises(RuntimeError, match="incompatible shapes"):
                evaluated_in(expression, dr, a, b)
        else:
            result = evaluated_in(expression, dr, a, b)
            assert result.shape == expected.shape and dr.is_mask_v(result) == (expected.dtype == bool)


#: What one element may be.
ONE = {"literal": lambda m: m.Float(2), "memory": lambda m: dr.opaque(m.Float, 2),
       "traced": lambda m: dr.opaque(m.Float, 2) + 1, "number": lambda m: 2, "list": lambda m: [2.0],
       "NumPy": lambda m: np.ones(1, np.float32), "another type": lambda m: m.Int(2)}
FLAGS = {"as usual": contextlib.nullcontext,
         "no folding": lambda: dr.scoped_set_flag(dr.JitFlag.ConstantPropagation, False),
         "no numbering": lambda: dr.scoped_set_flag(dr.JitFlag.ValueNumbering, False),
         "exact": lambda: dr.scoped_set_flag(dr.JitFlag.FastMath, False),
         "debug": lambda: dr.scoped_set_flag(dr.JitFlag.Debug, True)}


@pytest.mark.parametrize("flags", FLAGS)
@pytest.mark.parametrize("package", [llvm, ad], ids=["llvm", "ad"])
def test_flat_arrays_without_elements_stay_so(package: Any, flags: str) -> None:
    with FLAGS[flags]():
        for expression in OF_ONE:
            result = evaluated_in(expression, dr, package.Float(), None)
            assert result.shape == (0,) and result.state is dr.VarState.Invalid, expression


@pytest.mark.parametrize("flags", FLAGS)
@pytest.mark.parametrize("one", ONE)
@pytest.mark.parametrize("package", [llvm, ad], ids=["llvm", "ad"])
def test_flat_arrays_of_one_element_go_with_none(package: Any, one: str, flags: str) -> None:
    with FLAGS[flags]():
        other = ONE[one](package)
        for expression in OF_TWO:
            for operands in ((package.Float(), other), (other, package.Float())):
                if isinstance(operands[0], list) and "a > " in expression:
                    continue  # a comparison of Python's
                result = evaluated_in(expression, dr, *operands)
                assert result.shape == (0,) and result.state is dr.VarState.Invalid, expression


@pytest.mark.parametrize("expression", OF_ONE + OF_TWO)
def test_numbers_of_the_scalar_package_have_the_sizes_of_numpy(expression: str) -> None:
    for sizes in ((0, 0), (0, 1), (1, 0), (0, 2), (2, 0)):
        a, b = (scalar.ArrayXf([1] * size) for size in sizes)
        if 2 not in sizes:
            expected = evaluated_in(expression, InNumPy, *[np.ones(size) for size in sizes])
            assert evaluated_in(expression, dr, a, b).shape == expected.shape
        elif expression in OF_TWO:
            with pytest.raises(RuntimeError, match="incompatible arguments"):
                evaluated_in(expression, dr, a, b)


NOTHING = Float()
COMPONENTS = [
    (lambda: Array3f(NOTHING, 1, 2) + 1, (3, 0)), (lambda: Array3f(1, 2, 3) * NOTHING, (3, 0)),
    (lambda: Array3f(NOTHING, 1, 2) > Array3f(1, NOTHING, 0), (3, 0)), (lambda: dr.norm(Array3f(NOTHING, 1, 2)), (0,)),
    (lambda: dr.dot(Array3f(1, 2, 3), Array3f(NOTHING)), (0,)), (lambda: dr.select(Bool(), Array3f(1), 0), (3, 0)),
    (lambda: dr.cross(Array3f(NOTHING), Array3f(1, 2, 3)), (3, 0)), (lambda: dr.sum(Array3f(NOTHING, 1, 2)), (0,)),
    (lambda: Matrix3f(1) @ Array3f(NOTHING, 1, 2), (3, 0)), (lambda: Matrix3f(NOTHING) @ Matrix3f(2), (3, 3, 0)),
    (lambda: dr.rcp(Matrix3f(NOTHING)), (3, 3, 0)), (lambda: dr.det(Matrix3f(1) * NOTHING), (0,)),
    (lambda: Complex2f(NOTHING, 1) * Complex2f(1, 2), (2, 0)), (lambda: dr.exp(Complex2f(1, NOTHING)), (2, 0)),
    (lambda: abs(Complex2f(1, NOTHING)), (0,)), (lambda: Quaternion4f(NOTHING, 0, 0, 1) * 2, (4, 0)),
    (lambda: dr.quat_apply(Quaternion4f(0, 0, 0, 1), Array3f(NOTHING)), (3, 0)),
    (lambda: dr.var(Array3f(NOTHING, 1, 2), axis=1), (3, 1)), (lambda: dr.tile(Array3f(NOTHING, 1, 2), 2), (3, 0)),
    (lambda: dr.cumsum(Array3f(NOTHING, 1, 2), axis=1), (3, 0)), (lambda: dr.ravel(Array3f(NOTHING, 1, 2)), (0,)),
    (lambda: llvm.ArrayXf() + llvm.ArrayXf([[1]]), (0, 0)), (lambda: llvm.ArrayXf(NOTHING) + 1, (1, 0)),
]


@pytest.mark.parametrize(("expression", "shape"), COMPONENTS)
def test_components_of_one_element_go_with_those_of_none(expression: Any, shape: tuple[int, ...]) -> None:
    result = expression()
    assert result.shape == shape and dr.width(result) == shape[-1]
    assert result.numpy().shape == shape or dr.is_complex_v(result)


def test_widths_of_one_and_none_are_none() -> None:
    assert dr.width(Array3f(NOTHING, 1, 2)) == dr.width({"a": NOTHING, "b": Float(1)}, 1.5) == 0
    assert dr.shape([NOTHING, Float(1)]) == (2, 0)
    for ragged in ([NOTHING, Float(1, 2)], Array3f(NOTHING, 1, Float(1, 2))):
        for function in (dr.width, dr.shape):
            with pytest.raises(RuntimeError, match="ragged"):
                function(ragged)


# --- memory, rearrangement, reductions --------------------------------------------------------------------------------


def test_reads_at_no_positions_are_empty() -> None:
    x = dr.arange(Float, 4)
    for result in (dr.gather(Float, x, UInt()), dr.gather(Float, x, 0, Bool()), dr.gather(Float, x, UInt(), True),
                   dr.gather(Float, Float(), UInt()), dr.gather(Float, Float(3), UInt()), x[UInt()], x[4:], x[[]]):
        assert type(result) is Float and result.shape == (0,)
    assert dr.gather(Array3f, x, UInt()).shape == (3, 0) and dr.gather(llvm.Array4f, x, UInt()).shape == (4, 0)
    tensor = dr.zeros(TensorXf, (2, 3))
    assert tensor[UInt()].shape == (0, 3) and tensor[:, UInt()].shape == (2, 0) and tensor[2:, None].shape == (0, 1, 3)
    with pytest.raises(RuntimeError, match="read from an empty array"):
        dr.gather(Float, Float(), UInt(0))
    with pytest.raises(RuntimeError, match=r"sizes: 0, 2"):
        dr.gather(Float, x, UInt(), Bool(True, False))


WRITES = {
    "scatter": lambda x, v, i, m: dr.scatter(x, v, i, m),
    "scatter_reduce": lambda x, v, i, m: dr.scatter_reduce(dr.ReduceOp.Max, x, v, i, m),
    "scatter_add_kahan": lambda x, v, i, m: dr.scatter_add_kahan(x, dr.zeros(Float, 3), v, i, m),
    "scatter_exch": lambda x, v, i, m: dr.scatter_exch(x, v, i, m),
    "scatter_cas": lambda x, v, i, m: dr.scatter_cas(x, 1, v, i, m)[0],
}


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("operands", [(Float(), UInt(), True), (7, UInt(), True), (Float(7), UInt(), Bool()),
                                      (Float(), 0, True), (Float(7), UInt(0), Bool()), (Float(), UInt(), Bool(False))])
def test_writes_of_nothing_write_nothing(write: str, operands: Any) -> None:
    x = Float(1, 2, 3)
    result = WRITES[write](x, *operands)
    assert list(x) == [1, 2, 3] and (result is None or result.shape == (0,))
    for bad in ((Float(1, 2), UInt(), True), (Float(), UInt(0, 1), True), (Float(1), UInt(), Bool(True, True))):
        with pytest.raises(RuntimeError, match="incompatible sizes"):
            WRITES[write](x, *bad)


@pytest.mark.parametrize(("here", "there"), [
    (lambda x, y: dr.concat([x, y]), lambda x, y: np.concatenate([x, y])),
    (lambda x, y: dr.tile(y, 0), lambda x, y: np.tile(y, 0)), (lambda x, y: dr.tile(x, 2), lambda x, y: np.tile(x, 2)),
    (lambda x, y: dr.repeat(x, 3), lambda x, y: np.repeat(x, 3)),
    (lambda x, y: dr.repeat(y, 0), lambda x, y: np.repeat(y, 0)), (lambda x, y: dr.reverse(x), lambda x, y: x[::-1]),
    (lambda x, y: dr.sort(x), lambda x, y: np.sort(x)), (lambda x, y: dr.argsort(x), lambda x, y: np.argsort(x)),
    (lambda x, y: dr.cumsum(x), lambda x, y: np.cumsum(x)),
    (lambda x, y: dr.meshgrid(x, y)[1], lambda x, y: np.meshgrid(x, y)[1].ravel()),
    (lambda x, y: dr.linspace(Float, 0, 1, 0), lambda x, y: np.linspace(0, 1, 0)),
    (lambda x, y: dr.arange(Int, 0), lambda x, y: np.arange(0)),
    (lambda x, y: dr.compress(x > 0), lambda x, y: np.flatnonzero(x > 0)),
    (lambda x, y: dr.compress(y > 5), lambda x, y: np.flatnonzero(y > 5)),
    (lambda x, y: dr.dot(x, y), lambda x, y: np.sum(x * y, keepdims=True)),
    (lambda x, y: x @ y, lambda x, y: np.sum(x * y, keepdims=True)),
    (lambda x, y: dr.std(x * y), lambda x, y: np.full(1, np.nan)),
    (lambda x, y: dr.all(x > y), lambda x, y: np.all(x > y, keepdims=True)),
    (lambda x, y: dr.count(x > y), lambda x, y: np.zeros(1)),
    (lambda x, y: dr.block_sum(x + y, 2), lambda x, y: np.zeros(0)),
    (lambda x, y: dr.unravel(Array3f, x), lambda x, y: np.zeros((3, 0))),
    (lambda x, y: dr.reshape(TensorXf, x, (0, 3)), lambda x, y: np.zeros((0, 3))),
    (lambda x, y: dr.zeros(TensorXf, (2, 0)) @ dr.zeros(TensorXf, (0, 3)), lambda x, y: np.zeros((2, 3))),
    (lambda x, y: dr.zeros(TensorXf, (0, 2)) @ dr.zeros(TensorXf, (2, 3)), lambda x, y: np.zeros((0, 3))),
])
def test_rearrangements_and_reductions_are_those_of_numpy(here: Any, there: Any) -> None:
    found, expected = here(Float(), Float(2)), there(np.zeros(0, np.float32), np.full(1, 2, np.float32))
    np.testing.assert_array_equal(found.numpy(), expected)


@pytest.mark.parametrize("package", [llvm, ad], ids=["llvm", "ad"])
def test_streams_of_random_numbers_without_elements(package: Any) -> None:
    seed = package.UInt64()
    for rng in (package.PCG32(0), package.PCG32(1, seed), package.PCG32(1, seed, package.UInt64(3))):
        for found in (rng.next_uint32(), rng.next_float32(), rng.next_float64_normal(), rng.next_uint32_bounded(7)):
            assert found.shape == (0,)
    assert package.Philox4x32(package.UInt64(), 1).next_float32x4().shape == (4, 0)
    assert dr.rng(1).random(package.TensorXf, (0, 3)).shape == (0, 3)


# --- programs ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [-1, 0.5, 2])
@pytest.mark.parametrize("package", [llvm, ad], ids=["llvm", "ad"])
def test_a_program_that_filters(package: Any, limit: float) -> None:
    """Of a few elements, of one of them, and of none."""
    values = np.array([0, 0.5, 1.5], np.float32)
    kept = values[values > limit]
    expected = np.sum(np.where(kept > 1, np.sqrt(kept + 1) * 2, np.clip(kept, 0.25, 1)) - np.minimum(kept, 0))
    x = package.Float(values)
    x = dr.gather(package.Float, x, dr.compress(x > limit))
    total = dr.sum(dr.select(x > 1, dr.sqrt(x + 1) * 2, dr.clip(x, 0.25, 1)) - dr.minimum(x, 0))
    assert math.isclose(total[0], expected, rel_tol=1e-6)


def test_nothing_is_launched_for_nothing() -> None:
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory):
        one = dr.opaque(Float, 1)
        dr.kernel_history_clear()
        x = dr.sin(Float() + one) * 2
        dr.eval(x, Array3f(x, 1, 2), dr.gather(Float, Float(1, 2), UInt(x)), dr.cumsum(x))
        dr.scatter(Float(1, 2), x, UInt(x))
        dr.sync_thread()
        assert dr.kernel_history((dr.KernelType.JIT,)) == []
