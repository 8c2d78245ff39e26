"""Arrays of bfloat16: what functions of arrays make of them, against ml_dtypes, in every backend that computes."""

from __future__ import annotations

import copy
import pickle
import sys

import ml_dtypes
import numpy as np
import pytest

import drjit as dr
import drjit.array_api as xp
from drjit import ReduceMode, ReduceOp, VarType, llvm, scalar
from drjit.llvm import ad
from drjit_core import TYPES, common_type, rooms

NUMBERS = np.dtype(ml_dtypes.bfloat16)
EVERY = np.arange(1 << 16, dtype=np.uint16).view(NUMBERS)


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(NUMBERS)


def same(found: object, expected: np.ndarray) -> None:
    """Equal bits, but for those of NaN."""
    values = found.numpy()  # type: ignore[attr-defined]
    assert values.dtype == expected.dtype == NUMBERS and values.shape == expected.shape
    a, b = values.view(np.uint16), expected.view(np.uint16)
    np.testing.assert_array_equal(np.where(a & 0x7FFF > 0x7F80, 0x7FFF, a), np.where(b & 0x7FFF > 0x7F80, 0x7FFF, b))


# --- types -----------------------------------------------------------------------------------------------------------


def test_types_and_traits() -> None:
    assert dr.type_v(llvm.BFloat16) is VarType.BFloat16 and dr.type_v(ad.TensorXbf16) is VarType.BFloat16
    assert dr.itemsize_v(llvm.Array3bf16) == 2 and dr.is_float_v(llvm.BFloat16) and dr.is_signed_v(llvm.BFloat16)
    assert not dr.is_half_v(llvm.BFloat16) and not dr.is_integral_v(llvm.BFloat16)
    assert scalar.BFloat16 is float and scalar.Array3bf16(1.01).x == 1.0078125
    assert dr.epsilon(llvm.BFloat16) == 2**-8 and dr.largest(llvm.BFloat16) == float(ml_dtypes.finfo(NUMBERS).max)
    assert dr.smallest(llvm.BFloat16) == float(ml_dtypes.finfo(NUMBERS).smallest_normal)


@pytest.mark.parametrize(("other", "expected"), [
    ("BFloat16", "BFloat16"), ("Float16", "Float"), ("Float", "Float"), ("Float64", "Float64"), ("Int", "BFloat16"),
    ("UInt64", "BFloat16"), ("UInt8", "BFloat16"), ("Bool", "BFloat16"),
])
def test_what_it_is_promoted_to(other: str, expected: str) -> None:
    for package in (llvm, ad):
        a, b = package.BFloat16(1), getattr(package, other)(1)
        wanted = getattr(package, expected)
        assert dr.expr_t(a, b) is dr.expr_t(b, a) is wanted
        if other != "Bool":
            assert type(a * b) is type(b * a) is wanted
        assert type(dr.select(package.Bool(True), a, b)) is wanted
    assert type(llvm.Array3bf16(1) * llvm.Float16(2)) is llvm.Array3f
    assert type(llvm.TensorXf16([1]) + llvm.TensorXbf16([1])) is llvm.TensorXf
    assert type(dr.fma(llvm.Int(1), llvm.Float16(1), llvm.BFloat16(1))) is llvm.Float
    assert type(llvm.BFloat16(1) + 1.5) is type(2 * llvm.BFloat16(1)) is llvm.BFloat16


def test_common_types_are_the_least_that_hold_both() -> None:
    """Whatever the order: that of types is total but for the two of 16 bits."""
    scalars = [info.type for info in TYPES if info is not None and info.name != "pointer"]
    two = {VarType.BFloat16.value, VarType.Float16.value}
    for a in scalars:
        for b in scalars:
            assert common_type(a, b) == (VarType.Float32.value if {a, b} == two else max(a, b))
            for c in scalars:
                assert common_type(common_type(a, b), c) == common_type(a, common_type(b, c))


# --- exchange --------------------------------------------------------------------------------------------------------


def test_numpy() -> None:
    x = llvm.BFloat16(EVERY)
    same(x, EVERY)
    assert np.shares_memory(x.numpy(), np.asarray(x))
    same(llvm.Array2bf16(numbers(2, 5)), numbers(2, 5))
    same(llvm.TensorXbf16(numbers(2, 3, 4)), numbers(2, 3, 4))
    same(scalar.Array3bf16(numbers(3)), numbers(3))
    same(llvm.BFloat16(), np.empty(0, NUMBERS))
    same(llvm.BFloat16(np.empty(0, NUMBERS)), np.empty(0, NUMBERS))
    same(llvm.TensorXbf16(numbers(0, 3, 4)), numbers(0, 3, 4))
    assert llvm.Float(np.empty(0, NUMBERS)).numpy().size == 0
    assert llvm.Float(numbers(4)).numpy().tolist() == numbers(4).tolist()
    assert llvm.Int(np.array([1, 2.5, -3], NUMBERS)).numpy().tolist() == [1, 2, -3]
    same(llvm.BFloat16(np.array([1 + 2**-8 + 2**-40, 1 + 2**-8])), np.array([1 + 2**-7, 1], NUMBERS))  # rounded once
    same(llvm.BFloat16(np.arange(5)) * NUMBERS.type(2) + np.ones(5, NUMBERS), np.arange(1, 11, 2).astype(NUMBERS))
    assert type(dr.sin(np.ones(2, NUMBERS))).__name__ == "BFloat16"


@pytest.mark.parametrize("dtype", [">f2", ">f4", ">f8", ">i2", ">i4", ">u8", "longdouble", ml_dtypes.float8_e5m2])
def test_numpy_in_any_order_of_bytes_and_of_other_types(dtype: object) -> None:
    for size in (0, 1, 3):
        same(llvm.BFloat16(np.arange(size).astype(dtype)), np.arange(size).astype(NUMBERS))
    same(llvm.TensorXbf16(np.arange(6).reshape(2, 3).astype(dtype)), np.arange(6).reshape(2, 3).astype(NUMBERS))
    same(scalar.Array3bf16(np.arange(3).astype(dtype)), np.arange(3).astype(NUMBERS))
    x = llvm.BFloat16(1, 2, 3)
    dr.scatter(x, np.array([7]).astype(dtype), llvm.UInt(1))
    assert x.tolist() == [1, 7, 3]
    swapped = np.arange(3).astype(NUMBERS).astype(NUMBERS.newbyteorder())
    assert llvm.Float(swapped).tolist() == llvm.BFloat16(swapped).tolist() == [0, 1, 2]


@pytest.mark.parametrize("value", [1e30, -3, float("nan"), float("inf")])
def test_numbers_of_numpy_that_integers_cannot_hold(value: float) -> None:
    for make in (llvm.UInt, llvm.TensorXu, lambda numpy: llvm.Array3u(numpy), lambda numpy: llvm.UInt(numpy[1:2])):
        with pytest.raises(TypeError, match=r"at position .* of an array of type 'bfloat16': it is out of range"):
            make(np.array([2, value, 1], NUMBERS))  # type: ignore[operator]
    assert llvm.UInt(np.array([2.75, 0, -0.5], NUMBERS)).tolist() == [2, 0, 0]


def test_masked_entries_of_numpy_do_not_count() -> None:
    for elements in (np.ones(2, NUMBERS), np.ones(2)):
        for cls in (llvm.Float, llvm.BFloat16, llvm.TensorXbf16):
            with pytest.raises(TypeError, match=r"masked entries \(1 of 2\)"):
                cls(np.ma.array(elements, mask=[False, True]))


def test_without_ml_dtypes_numpy_gets_the_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    found = llvm.BFloat16(1, -2).numpy()
    assert found.dtype == np.uint16 and found.tolist() == [0x3F80, 0xC000]
    assert dr.reinterpret_array(llvm.BFloat16, llvm.UInt16(found)).tolist() == [1, -2]


def test_python() -> None:
    x = llvm.BFloat16([1e39, 3.3e38, 1 / 3, -0.0, float("nan"), 10**50])
    assert repr(x) == "[inf, 3.29649e+38, 0.333984, -0, nan, inf]"
    assert x[2] == 0.333984375 and list(x)[:3] == x.tolist()[:3] == [float("inf"), float(NUMBERS.type(3.3e38)), x[2]]
    x[0] = 7.77
    assert x[0] == float(NUMBERS.type(7.77))
    view = memoryview(llvm.BFloat16(1, -2).memview())
    assert view.format == "H" and view.tolist() == [0x3F80, 0xC000]


@pytest.mark.parametrize("value", [
    llvm.BFloat16(1, 2.5, 3.3), llvm.BFloat16(3.3), llvm.Array3bf16(1, [2, 3], 4), llvm.TensorXbf16([[1, 2], [3, 4]]),
    scalar.Array3bf16(1, 2, 3.3), ad.Matrix2bf16(1, 2, 3, 4),
])
def test_pickles_and_copies(value: object) -> None:
    for found in (pickle.loads(pickle.dumps(value)), pickle.loads(pickle.dumps(value, 5)), copy.deepcopy(value)):
        assert type(found) is type(value) and repr(found) == repr(value)


def test_a_pickle_of_half_precision_is_none_of_bfloat16() -> None:
    state = llvm.Float16(1, 2).__reduce_ex__(4)[2]
    with pytest.raises(ValueError, match="elements of the type 'f2', expected 'bf2'"):
        llvm.BFloat16.__new__(llvm.BFloat16).__setstate__(state)


class Speaker:
    """An object that speaks nothing but DLPack."""

    def __init__(self, array: object) -> None:
        self.array = array

    def __dlpack__(self, **options: object) -> object:
        return self.array.__dlpack__(**options)  # type: ignore[attr-defined]

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


def test_dlpack() -> None:
    x = llvm.BFloat16(1, 2.5, -3)
    assert llvm.BFloat16(Speaker(x)).tolist() == llvm.Float(Speaker(x)).tolist() == [1, 2.5, -3]
    assert llvm.TensorXbf16(Speaker(llvm.TensorXbf16(numbers(3, 4)))).numpy().tolist() == numbers(3, 4).tolist()


def test_numpy_knows_no_such_elements_of_dlpack() -> None:
    from drjit._arrays import dlpack

    x, before = llvm.BFloat16(1, 2), len(dlpack._exported)
    with pytest.raises(RuntimeError if rooms.compiled else SystemError):
        np.from_dlpack(x)
    assert len(dlpack._exported) == before


def test_torch() -> None:
    torch = pytest.importorskip("torch")
    tensor = torch.arange(6, dtype=torch.bfloat16).reshape(2, 3) / 7
    x = llvm.TensorXbf16(tensor)
    assert x.shape == (2, 3) and x.numpy().astype(float).tolist() == tensor.tolist()
    out = (x * 2).torch()
    assert out.dtype == torch.bfloat16 and torch.equal(out, tensor * 2)


def test_the_array_api_does_not_know_it() -> None:
    for make in (lambda: xp.asarray(llvm.TensorXbf16([1])), lambda: xp.asarray(llvm.BFloat16(1)),
                 lambda: xp.asarray(np.ones(2, NUMBERS)), lambda: xp.from_dlpack(llvm.BFloat16(1, 2))):
        with pytest.raises(TypeError, match="no data type"):
            make()
    assert "bfloat16" not in xp.__array_namespace_info__().dtypes()


# --- memory ----------------------------------------------------------------------------------------------------------


def test_gathers_and_scatters() -> None:
    data, index = numbers(100), np.random.default_rng(1).permutation(100)
    same(dr.gather(llvm.BFloat16, llvm.BFloat16(data), llvm.UInt(index)), data[index])
    target = dr.zeros(llvm.BFloat16, 100)
    dr.scatter(target, llvm.BFloat16(data), llvm.UInt(index))
    expected = np.zeros(100, NUMBERS)
    expected[index] = data
    same(target, expected)


@pytest.mark.parametrize("mode", [ReduceMode.Direct, ReduceMode.Expand, ReduceMode.NoConflicts, ReduceMode.Local])
@pytest.mark.parametrize(("op", "function"), [
    (ReduceOp.Add, np.add), (ReduceOp.Mul, np.multiply), (ReduceOp.Min, np.minimum), (ReduceOp.Max, np.maximum)])
def test_scatter_reductions(mode: ReduceMode, op: ReduceOp, function: np.ufunc) -> None:
    index = np.arange(64) if mode is ReduceMode.NoConflicts else np.arange(64) % 5
    values = np.where(np.arange(64) % 7 == 0, 2, np.where(op is ReduceOp.Mul, 1, -1)).astype(np.float32)
    target = llvm.BFloat16(np.ones(64, NUMBERS))
    dr.scatter_reduce(op, target, llvm.BFloat16(values), llvm.UInt(index), mode=mode)
    expected = np.ones(64, np.float32)
    function.at(expected, index, values)  # all of which are exact
    same(target, expected.astype(NUMBERS))


def test_nan_in_scatter_reductions() -> None:
    for op in (ReduceOp.Min, ReduceOp.Max):
        target = llvm.BFloat16(1, float("nan"))
        dr.scatter_reduce(op, target, llvm.BFloat16(float("nan"), 2), llvm.UInt(0, 1), mode=ReduceMode.Direct)
        assert target.tolist() == [1, 2]


# --- reductions and steps --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 17, 1000, 100_000])
def test_sums_are_accumulated_in_more_precision(size: int) -> None:
    data = numbers(size)
    for x in (llvm.BFloat16(data), llvm.TensorXbf16(data)):
        found = float(dr.sum(x).numpy().reshape(-1)[0])
        assert found == pytest.approx(data.astype(float).sum(), rel=2**-8, abs=1e-6)
    assert float(dr.mean(llvm.BFloat16(np.full(size, 0.25, NUMBERS)))[0]) == 0.25
    assert dr.sum(llvm.BFloat16(np.ones(size, NUMBERS)))[0] == float(NUMBERS.type(size))
    assert dr.max(llvm.BFloat16(data))[0] == float(data.max()) and dr.min(llvm.BFloat16(data))[0] == float(data.min())


def test_sums_along_axes() -> None:
    data = numbers(300, 40)
    x = llvm.TensorXbf16(data)
    for axis in (0, 1, None):
        found, expected = dr.sum(x, axis=axis).numpy(), data.astype(float).sum(axis)
        np.testing.assert_allclose(found.astype(float), expected, rtol=2**-8, atol=1e-4)
    assert type(dr.sum(llvm.Array3bf16(1, 2, 3))) is llvm.BFloat16
    # a sum that is rounded after each step would stay at 256
    assert dr.sum(llvm.ArrayXbf16(np.ones((1000, 2), NUMBERS))).tolist() == [1000, 1000]
    assert dr.block_sum(llvm.BFloat16(np.ones(2000, NUMBERS)), 1000).tolist() == [1000, 1000]
    assert dr.dot(llvm.BFloat16(np.ones(1000, NUMBERS)), llvm.BFloat16(np.ones(1000, NUMBERS)))[0] == 1000


def test_prefix_sums() -> None:
    found = dr.cumsum(llvm.BFloat16(np.ones(1000, NUMBERS)))
    same(found, np.arange(1, 1001).astype(np.float32).astype(NUMBERS))


def test_order() -> None:
    data = numbers(1000)
    data[::50] = np.nan
    data[3], data[7] = np.inf, -np.inf
    x, exact = llvm.TensorXbf16(data), data.astype(np.float32)
    same(dr.sort(x), np.sort(exact).astype(NUMBERS))
    assert dr.argsort(x).numpy().tolist() == np.argsort(exact, kind="stable").tolist()
    assert dr.argmin(llvm.BFloat16(data))[0] == 7 and dr.argmax(llvm.BFloat16(data))[0] == 3


@pytest.mark.parametrize("shape", [(2, 3, 4), (70, 33, 50), (1, 500, 1), (64, 300, 1), (1, 300, 64)])
def test_products(shape: tuple[int, int, int]) -> None:
    a, b = numbers(*shape[:2]), numbers(*shape[1:], seed=1)
    expected = a.astype(float) @ b.astype(float)
    found = (llvm.TensorXbf16(a) @ llvm.TensorXbf16(b)).numpy()
    assert found.dtype == NUMBERS
    np.testing.assert_allclose(found.astype(float), expected, rtol=2**-8, atol=1e-4)
    small = llvm.Matrix2bf16(1, 2, 3, 4) @ llvm.Array2bf16(1, 2)
    assert small.numpy().reshape(-1).tolist() == [5, 11]


# --- functions -------------------------------------------------------------------------------------------------------

UNARY = ("sqrt", "cbrt", "sin", "cos", "tan", "exp", "exp2", "log", "log2", "sinh", "cosh", "tanh", "asin", "acos",
         "atan", "asinh", "acosh", "atanh", "erf", "rcp", "abs", "floor", "ceil", "trunc", "round", "square")


@pytest.mark.parametrize("name", UNARY)
def test_functions_are_those_of_single_precision_rounded_once(name: str) -> None:
    function = getattr(dr, name)
    words = np.arange(1 << 16, dtype=np.uint16)[::3]
    x = llvm.BFloat16(words.view(NUMBERS))
    same(function(x), llvm.BFloat16(function(llvm.Float(x))).numpy())


def test_functions_of_several_numbers() -> None:
    a, b, c = (llvm.BFloat16(numbers(1000, seed=seed)) for seed in range(3))
    single = [llvm.Float(x) for x in (a, b, c)]
    for function in (dr.atan2, lambda x, y: dr.power(dr.abs(x), y), dr.hypot, dr.copysign, dr.minimum, dr.maximum):
        same(function(a, b), llvm.BFloat16(function(*single[:2])).numpy())
    product = [np.longdouble(x) for x in (a.numpy(), b.numpy(), c.numpy())]
    exact = product[0] * product[1] + product[2]
    unit = np.ldexp(np.longdouble(1), np.frexp(exact)[1] - 8)
    same(dr.fma(a, b, c), (np.round(exact / unit) * unit).astype(np.float32).astype(NUMBERS))
    for found, expected in zip(dr.sincos(a), dr.sincos(single[0]), strict=True):
        same(found, llvm.BFloat16(expected).numpy())


def test_one_rounding_of_a_fused_sum() -> None:
    """Beyond double precision, and where the product alone leaves the range of single precision."""
    cases = [(1 + 2**-7, 1 + 2**-7, 2.0**-100), (2.0**127, 2.0, -(2.0**127)), (2.0**-80, 2.0**-80, 1.0),
             (1.0078125, 1.0, 2.0**-8), (1.0, 1.00390625 - 2**-8, 2.0**-8)]
    for a, b, c in cases:
        found = dr.fma(llvm.BFloat16(a, a), llvm.BFloat16(b, b), llvm.BFloat16(c, c))[0]
        assert found == dr.fma(scalar.Array1bf16(a), scalar.Array1bf16(b), scalar.Array1bf16(c))[0]
    assert dr.fma(llvm.BFloat16(2.0**127, 1), 2, llvm.BFloat16(-(2.0**127), 1))[0] == 2.0**127


def test_both_backends_agree() -> None:
    a, b = numbers(50), numbers(50, seed=1)
    x, y = llvm.BFloat16(a), llvm.BFloat16(b)
    for function in (lambda p, q: p + q, lambda p, q: p * q - q, lambda p, q: p / q,
                     lambda p, q: dr.exp(p) * dr.sin(q)):
        assert function(x, y).tolist() == [function(scalar.Array1bf16(p), scalar.Array1bf16(q)).x
                                           for p, q in zip(a.tolist(), b.tolist(), strict=True)]


def test_subnormal_numbers_are_kept() -> None:
    smallest = float(ml_dtypes.finfo(NUMBERS).smallest_subnormal)
    x = llvm.BFloat16(smallest, -3 * smallest)
    assert (x + x).tolist() == [2 * smallest, -6 * smallest] and llvm.Float(x).tolist() == [smallest, -3 * smallest]
    assert llvm.BFloat16(llvm.Float64(smallest * 0.5, smallest * 0.51)).tolist() == [0, smallest]


def test_loops_and_branches() -> None:
    x, k = dr.while_loop((llvm.BFloat16(1, 2, 3), llvm.UInt(0)), lambda x, k: k < 4, lambda x, k: (x * 1.5, k + 1))
    assert x.tolist() == [5.0625, 10.125, 15.1875] and k.tolist() == [4, 4, 4]
    chosen = dr.if_stmt((x,), x > 6, lambda x: x - 1, lambda x: x + 1)
    assert chosen.tolist() == [6.0625, 9.125, 14.1875]


# --- derivatives and random numbers ----------------------------------------------------------------------------------


def test_derivatives() -> None:
    data = np.array([0.5, 1.25, -2], NUMBERS)
    x, reference = ad.BFloat16(data), ad.Float(data)
    for value in (x, reference):
        dr.enable_grad(value)
        dr.backward(dr.sum(value * dr.sin(value) + dr.sqrt(dr.abs(value)) / (value + 4)))
    assert type(x.grad) is ad.BFloat16
    np.testing.assert_allclose(np.array(x.grad.tolist()), np.array(reference.grad.tolist()), rtol=0.03)
    y = ad.TensorXbf16(numbers(4, 5))
    dr.enable_grad(y)
    dr.backward(dr.sum(y @ ad.TensorXbf16(np.ones((5, 3), NUMBERS))))
    assert y.grad.numpy().astype(float).tolist() == [[3.0] * 5] * 4


def test_random_numbers() -> None:
    x = dr.rng(seed=1).random(llvm.BFloat16, 10_000)
    assert float(dr.max(x)[0]) < 1 and float(dr.min(x)[0]) >= 0 and abs(float(dr.mean(x)[0]) - 0.5) < 0.02
    assert abs(float(dr.mean(dr.rng(seed=1).normal(llvm.TensorXbf16, (100, 100))).numpy())) < 0.05
    rng, same = llvm.PCG32(1000), llvm.PCG32(1000)
    drawn = rng.next_float(llvm.BFloat16)
    assert type(drawn) is llvm.BFloat16 and dr.all(abs(drawn - same.next_float32()) < 2**-8) and dr.all(drawn < 1)
    assert dr.all(rng.prev_float(llvm.BFloat16) == drawn)
    normal, single = llvm.PCG32(1000).next_float_normal(llvm.BFloat16), llvm.PCG32(1000).next_float32_normal()
    assert dr.all(normal == llvm.BFloat16(single))
