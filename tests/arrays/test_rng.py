"""``dr.rng`` and ``dr.random.Generator``: recorded values, shapes, types, seeds, state, distributions, and errors."""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import drjit as dr
from drjit import llvm, scalar
from drjit.llvm import (
    Array2u,
    Array3f,
    ArrayXf,
    Bool,
    Float,
    Float16,
    Float64,
    Int,
    Philox4x32,
    TensorXf,
    TensorXf16,
    TensorXu,
    UInt,
    UInt64,
)
from drjit.llvm import ad as diff


def numbers(value: Any) -> list[Any]:
    """The elements of an array of any type, in C order of its shape."""
    return np.array(value).ravel().tolist() if isinstance(value, dr.ArrayBase) else [value]


#: Values of another implementation with this interface.
RECORDED: dict[str, list[float]] = {
    "dr.rng().random(Float, 3)": [0.310349, 0.575526, 0.781459],
    "dr.rng(1).random(Float, 3)": [0.517474, 0.413664, 0.99131],
    "dr.rng(UInt64(1, 2, 3)).random(Float, 3)": [0.517474, 0.481511, 0.188729],
    "dr.rng(0).random(float, ())": [0.31034912362435585],
    "dr.rng(0).integers(UInt, 10, 10)": [3, 5, 7, 3, 5, 5, 9, 8, 8, 1],
    "dr.rng(0).integers(Int, 10, -5, 5)": [-2, 0, 2, -2, 0, 0, 4, 3, 3, -4],
    "dr.rng(0).integers(Int, 10, -5, 5, True)": [-2, 1, 3, -1, 1, 0, 5, 4, 4, -4],
    "dr.rng(0).integers(UInt, 5, 2**31 + 1)": [1316804204, 1085997416, 1679501938, 796394674, 1177149337],
    "dr.rng(0).integers(UInt, 6, high=3000000000)": [
        931047370, 1726577406, 2344377025, 1112550507, 1644458626, 9860786],
    "dr.rng(0).integers(UInt, 3, 0, UInt(5, 10, 15))": [1, 5, 11],
    "dr.rng(0).integers(TensorXu, (2, 3), 0, TensorXu([5, 6, 7]))": [1, 3, 5, 1, 3, 3],
    "dr.rng(0).permutation(UInt, 10)": [9, 0, 3, 5, 4, 1, 2, 8, 7, 6],
    "dr.rng(0).permutation(dr.arange(TensorXf, 12))": [9, 0, 3, 10, 11, 5, 4, 1, 2, 8, 7, 6],
    "dr.rng(0).permutation(dr.reshape(dr.arange(TensorXf, 12), (4, 3)))": [0, 1, 2, 9, 10, 11, 3, 4, 5, 6, 7, 8],
}


@pytest.mark.parametrize("expression", RECORDED)
def test_recorded_values(expression: str) -> None:
    found, expected = numbers(eval(expression)), RECORDED[expression]
    assert found == expected if isinstance(expected[0], int) else found == pytest.approx(expected, rel=1e-5)


def test_recorded_normal_variates() -> None:
    """They depend on how logarithms and sines are computed."""
    expected = [0.281158, -1.15812, 1.23209, 0.438405]
    assert numbers(dr.rng(0).normal(Float, 4)) == pytest.approx(expected, rel=1e-5)
    assert numbers(dr.rng(0).normal(Float64, 2)) == pytest.approx([0.3062061145758123, -0.6830137800119879], rel=1e-12)
    assert numbers(dr.rng(0).normal(Float, 2, 1, scale=2)) == pytest.approx([1.5623153, -1.3162336], rel=1e-5)


@pytest.mark.parametrize(("bits", "per_step"), [("32", 4), ("16", 4), ("64", 2)])
def test_the_counters_of_philox(bits: str, per_step: int) -> None:
    """The first counter counts steps, the second one is the position; the last word of a step comes first."""
    seed = 2**40 + 3
    kind = {"32": ArrayXf, "16": llvm.ArrayXf16, "64": llvm.ArrayXf64}[bits]
    for suffix in ("", "_normal"):
        rng = dr.rng(seed)
        for start in (0, 2):
            found = (rng.normal if suffix else rng.random)(kind, (2 * per_step - 1, 5))
            expected: list[Any] = []
            for step in (start, start + 1):
                philox = Philox4x32(seed, step, dr.arange(UInt, 5))
                expected += list(getattr(philox, f"next_float{bits}x{per_step}{suffix}")())[::-1]
            assert len(found) == len(expected) - 1
            for component, other in zip(found, expected[:-1], strict=True):
                assert numbers(component) == numbers(other)


SHAPES: list[tuple[Any, Any, tuple[int, ...]]] = [
    (Float, 128, (128,)), (Float, (128,), (128,)), (Float, [3], (3,)), (Float, 1, (1,)), (Float, 0, (0,)),
    (TensorXf16, (12, 8), (12, 8)), (TensorXf, 12, (12,)), (TensorXf, (), ()), (TensorXf, (0, 3), (0, 3)),
    (Array3f, (3, 128), (3, 128)), (Array3f, 5, (3, 5)), (ArrayXf, (6, 3), (6, 3)),
    (llvm.Matrix4f64, (4, 4, 20), (4, 4, 20)), (llvm.Complex2f, (2, 3), (2, 3)), (llvm.Quaternion4f, (4, 3), (4, 3)),
    (diff.Float, 3, (3,)), (diff.TensorXf, (2, 2), (2, 2)), (scalar.Array3f, 3, (3,)), (scalar.ArrayXf64, (7,), (7,)),
    (scalar.Matrix2f, (2, 2), (2, 2)), (scalar.Complex2f, (2,), (2,)), (scalar.TensorXf, (2, 3), (2, 3)),
    (scalar.TensorXf64, 5, (5,)), (scalar.TensorXf16, (4, 1, 3), (4, 1, 3)), (scalar.TensorXf, (), ()),
    (scalar.TensorXf, (1,), (1,)), (scalar.TensorXf, (0, 3), (0, 3))]


@pytest.mark.parametrize(("dtype", "shape", "expected"), SHAPES)
def test_types_and_shapes(dtype: Any, shape: Any, expected: tuple[int, ...]) -> None:
    for draw in (dr.rng(1).random, dr.rng(1).uniform, dr.rng(1).normal):
        result = draw(dtype, shape)
        assert type(result) is dtype
        assert dr.shape(result) == expected
        if not dr.is_half_v(dtype) and not dr.is_complex_v(dtype):
            assert len(set(numbers(result))) == math.prod(expected)
    if not dr.is_special_v(dtype):
        integers = dr.uint32_array_t(dtype)
        result = dr.rng(1).integers(integers, shape, 2**31)
        assert (type(result), dr.shape(result)) == (integers, expected)


def test_scalars_are_those_of_the_first_element() -> None:
    for seed in (0, 7, 2**63 + 5):
        for count in (1, 3, 6):
            vector, single = dr.rng(seed), dr.rng(seed)
            for _ in range(2):
                assert numbers(vector.random(ArrayXf, (count, 1))) == numbers(single.random(scalar.ArrayXf, count))
                assert numbers(vector.random(llvm.ArrayXf64, (count, 1))) == \
                    numbers(single.random(scalar.ArrayXf64, count))
                assert numbers(vector.integers(llvm.ArrayXu, (count, 1), 3 * 2**30)) == \
                    numbers(single.integers(scalar.ArrayXu, count, 3 * 2**30))
    assert type(dr.rng(0).random(float, ())) is type(dr.rng(0).normal(float, ())) is float


#: What is drawn as tensors of a package.
TENSORS: dict[str, Callable[[Any, Any], Any]] = {
    "random": lambda m, rng: rng.random(m.TensorXf, (3, 40)),
    "random64": lambda m, rng: rng.random(m.TensorXf64, (3, 40)),
    "random16": lambda m, rng: rng.random(m.TensorXf16, 17),
    "one": lambda m, rng: rng.random(m.TensorXf, ()),
    "none": lambda m, rng: rng.random(m.TensorXf, (2, 0)),
    "uniform": lambda m, rng: rng.uniform(m.TensorXf, (3, 4), -1, 1),
    "uniform, of bounds": lambda m, rng: rng.uniform(m.TensorXf, (2, 3), m.TensorXf([1, 2, 3], (1, 3)), 7),
    "normal": lambda m, rng: rng.normal(m.TensorXf, (3, 4), 5, 2),
    "normal64, of means": lambda m, rng: rng.normal(m.TensorXf64, (2, 3), m.TensorXf64([1, 2, 3], (1, 3))),
    "normal16": lambda m, rng: rng.normal(m.TensorXf16, (2, 3)),
    "integers": lambda m, rng: rng.integers(m.TensorXu, (3, 7), 10),
    "signed": lambda m, rng: rng.integers(m.TensorXi, (3, 7), -5, 6, endpoint=True),
    "drawn again": lambda m, rng: rng.integers(m.TensorXu, 300, 3 * 2**30),
    "words": lambda m, rng: rng.integers(m.TensorXu, 5, 0, 2**32 - 1, endpoint=True),
    "one integer": lambda m, rng: rng.integers(m.TensorXu, (), 3 * 2**30),
    "no integers": lambda m, rng: rng.integers(m.TensorXu, (0, 3), 3 * 2**30),
    "bounds": lambda m, rng: rng.integers(m.TensorXi, (2, 3), m.TensorXi([1, 2, 3], (1, 3)),
                                          m.TensorXi([10, 20], (2, 1))),
    "one bound": lambda m, rng: rng.integers(m.TensorXi, (), 0, m.TensorXi([10], ())),
    "permutation of numbers": lambda m, rng: rng.permutation(m.TensorXf, 20),
    "permutation": lambda m, rng: rng.permutation(dr.arange(m.TensorXf, 20)),
    "permutation of columns": lambda m, rng: rng.permutation(dr.reshape(dr.arange(m.TensorXi, 40), (4, 10)), axis=1),
}


@pytest.mark.parametrize("name", TENSORS)
def test_tensors_of_the_scalar_package_hold_the_numbers_of_other_packages(name: str) -> None:
    one, other = dr.rng(3), dr.rng(3)
    for _ in range(2):
        found, expected = TENSORS[name](scalar, one), TENSORS[name](llvm, other)
        assert type(found).__name__ == type(expected).__name__ and type(found).__module__ == "drjit.scalar"
        assert found.shape == expected.shape and numbers(found) == numbers(expected)
    assert repr(one) == repr(other)


def test_numbers_of_the_scalar_package_follow_those_whose_steps_are_not_known_yet() -> None:
    for draw in (lambda rng: numbers(rng.integers(scalar.ArrayXu, 400, 3 * 2**30)),
                 lambda rng: numbers(rng.integers(scalar.TensorXu, 40, 3 * 2**30)),
                 lambda rng: [rng.random(float, ())]):
        rng = dr.rng(0)
        rng.integers(UInt, 1000, 3 * 2**30)  # draws some of them again, as often as it turns out
        steps = int(repr(rng).partition("counter=")[2].rstrip("]"))
        again = dr.random.Philox4x32Generator(0, steps)
        assert draw(rng) == draw(again)
        assert repr(rng) == repr(again)


def test_uniform_numbers_lie_between_their_bounds() -> None:
    for dtype in (Float16, Float, Float64):
        for low, high in ((2, 4), (1e3, 1e3 + 1), (-3.0, 0.0), (-1e-3, 1e-3)):
            found = np.array(dr.rng(3).uniform(dtype, 100_000, low, high=high)).astype(float)
            assert type(dr.rng(3).uniform(dtype, 2, low, high)) is dtype
            assert low - 1e-3 <= found.min() and found.max() < high
    assert numbers(dr.rng(0).uniform(Float, 2, 3, 1)) == pytest.approx([3 - 2 * 0.3103491, 3 - 2 * 0.5755264])
    both = dr.rng(0).uniform(TensorXf, (2, 3), low=TensorXf([1, 2, 3]), high=7)
    assert numbers(both) == pytest.approx([2.86209, 4.87763, 6.12584, 3.2251, 4.74076, 5.13979], rel=1e-5)
    assert type(dr.rng(0).uniform(Float, 3, 0, Float64(3))) is Float64


@pytest.mark.parametrize("bound", [1, 2, 3, 10, 100, 257])
def test_integers_are_equally_probable(bound: int) -> None:
    """Chi-square: the statistic has the expected value ``bound - 1`` and the variance ``2 (bound - 1)``."""
    count = 200_000
    for low, dtype in ((0, UInt), (-50, Int)):
        found = np.array(dr.rng(11).integers(dtype, count, low, low + bound))
        observed = np.bincount(found.astype(np.int64) - low, minlength=bound)
        assert observed.size == bound
        statistic = ((observed - count / bound)**2 / (count / bound)).sum()
        assert abs(statistic - (bound - 1)) <= 5 * math.sqrt(2 * (bound - 1))


@pytest.mark.parametrize("bound", [3 * 2**30, 2**31 + 1, 2**32 - 1])
def test_large_bounds_have_no_bias(bound: int) -> None:
    """By a remainder, a third of the numbers below 3 * 2^30 would be twice as frequent as the others."""
    count = 100_000
    found = np.array(dr.rng(5).integers(UInt, count, bound)).astype(np.float64)
    assert found.max() < bound
    observed = np.bincount((found * 12 / bound).astype(int), minlength=12)
    assert ((observed - count / 12)**2 / (count / 12)).sum() < 11 + 5 * math.sqrt(22)


def test_integers_of_the_whole_range() -> None:
    words = np.array(Philox4x32(0, 0, dr.arange(UInt, 9)).next_uint32x4()[3])
    assert numbers(dr.rng(0).integers(UInt, 9, 0, 2**32 - 1, endpoint=True)) == words.tolist()
    assert numbers(dr.rng(0).integers(UInt, 9, high=2**32)) == words.tolist()
    signed = dr.rng(0).integers(Int, 9, -2**31, 2**31 - 1, endpoint=True)
    assert numbers(signed) == (words.astype(np.int64) - 2**31).tolist()
    assert numbers(dr.rng(0).integers(UInt, 9, UInt(0), UInt(2**32 - 1), endpoint=True)) == words.tolist()
    assert numbers(dr.rng(0).integers(UInt, 4, 5, 6)) == [5] * 4
    assert dr.shape(dr.rng(0).integers(Array2u, (2, 3), 10)) == (2, 3)


def test_drawing_again_moves_the_generator_on() -> None:
    """What is drawn after integers does not repeat the words that they took, as many steps as the slowest one."""
    rng = dr.rng(0)
    first = rng.integers(UInt, 12, 2**31 + 1)
    assert repr(rng) == "Philox4x32Generator[seed=0, counter=6]"  # the other implementation's, too
    assert len(numbers(first)) == 12
    assert numbers(rng.random(Float, 2)) == pytest.approx([0.517911, 0.156941], abs=1e-6)
    assert repr(rng) == "Philox4x32Generator[seed=0, counter=7]"


@pytest.mark.parametrize("dtype", [Float16, Float, Float64])
def test_moments(dtype: Any) -> None:
    count = 200_000
    uniform = np.array(dr.rng(2).random(dtype, count)).astype(float)
    assert uniform.mean() == pytest.approx(1 / 2, abs=5 / math.sqrt(12 * count))
    assert uniform.var() == pytest.approx(1 / 12, abs=5 / math.sqrt(180 * count))
    assert uniform.min() >= 0 and uniform.max() < 1
    normal = np.array(dr.rng(2).normal(dtype, count)).astype(float)
    assert normal.mean() == pytest.approx(0, abs=5 / math.sqrt(count))
    assert normal.var() == pytest.approx(1, abs=5 * math.sqrt(2 / count))
    assert (normal**4).mean() == pytest.approx(3, abs=5 * math.sqrt(96 / count))


@pytest.mark.parametrize("size", [0, 1, 2, 3, 17, 64, 1000, 4097])
def test_permutations(size: int) -> None:
    found = dr.rng(4).permutation(Float, size)
    assert type(found) is UInt
    keys = np.array(dr.rng(4).random(Float, size))
    assert numbers(found) == np.argsort(keys, kind="stable").tolist()
    values = Int([3 * entry for entry in range(size)])
    assert numbers(dr.rng(4).permutation(values)) == [3 * entry for entry in numbers(found)]
    rows = dr.reshape(dr.arange(TensorXf, 2 * size), (2, size))
    along = dr.rng(4).permutation(rows, axis=-1)
    assert numbers(along) == np.arange(2.0 * size).reshape(2, size)[:, np.array(found, int)].ravel().tolist()


def test_types_of_permutations() -> None:
    assert type(dr.rng(0).permutation(Bool(True, False, True))) is Bool
    tensor = dr.rng(0).permutation(TensorXu, n=5)
    assert (type(tensor), tensor.shape) == (TensorXu, (5,))
    assert type(dr.rng(0).permutation(diff.Float, 3)) is diff.UInt
    assert sorted(numbers(dr.rng(0).permutation(dr.arange(TensorXf, 6), 0))) == [0, 1, 2, 3, 4, 5]


# --- state -----------------------------------------------------------------------------------------------------------


COPIES = {"clone": lambda rng: rng.clone(), "copy": copy.copy, "deepcopy": copy.deepcopy,
          "pickle": lambda rng: pickle.loads(pickle.dumps(rng)), "dr.copy": dr.copy}


@pytest.mark.parametrize("how", COPIES)
@pytest.mark.parametrize("seed", [5, UInt64(5), UInt64(1, 2, 3)], ids=["int", "array", "arrays"])
@pytest.mark.parametrize("used", [False, True])
def test_copies_are_independent(how: str, seed: Any, used: bool) -> None:
    rng = dr.rng(seed, symbolic=used)
    if used:
        rng.random(Float, 3)
    other = COPIES[how](rng)
    expected = [numbers(rng.random(Float, 3)) for _ in range(3)]
    assert [numbers(other.random(Float, 3)) for _ in range(3)] == expected
    assert isinstance(other, dr.random.Generator)
    assert numbers(rng.random(Float, 3)) == numbers(other.random(Float, 3))


def test_seeds_make_different_streams() -> None:
    seeds = [0, 1, 2, 2**32, 2**32 + 1, 2**63, 2**64 - 1]
    drawn = [tuple(numbers(dr.rng(seed).random(Float, 8))) for seed in seeds]
    assert len(set(drawn)) == len(seeds)
    for seed, row in zip(seeds, drawn, strict=True):
        assert tuple(numbers(dr.rng(UInt64(seed)).random(Float, 8))) == row
        assert tuple(numbers(dr.rng(np.uint64(seed)).random(Float, 8))) == row
    a, b = (np.array(dr.rng(seed).random(Float64, 50_000)) for seed in (0, 1))
    assert abs(np.corrcoef(a, b)[0, 1]) < 5 / math.sqrt(50_000)


def test_packages_share_a_generator() -> None:
    rng, other = dr.rng(3), dr.rng(3)
    for dtype in (Float, diff.Float, Float):
        assert numbers(rng.random(dtype, 3)) == numbers(other.random(Float, 3))
    assert rng.random(scalar.Array3f, 3)[0] == other.random(Float, 1)[0]
    assert numbers(rng.random(Float, 3)) == numbers(other.random(Float, 3))


@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
def test_generators_in_loops(mode: str, symbolic: bool) -> None:
    for seed in (UInt64(0), UInt64(0, 1, 2, 3)):
        rng, outside = dr.rng(seed, symbolic=symbolic), dr.rng(seed)
        result, rng = dr.while_loop(
            (UInt(0), dr.zeros(Float, 4), rng), lambda i, total, rng: i < 3,
            lambda i, total, rng: (i + 1, total + rng.random(Float, 4), rng), mode=mode)[1:]
        expected = dr.zeros(Float, 4)
        for _ in range(3):
            expected += outside.random(Float, 4)
        assert numbers(result) == numbers(expected)
        assert numbers(rng.random(Float, 4)) == numbers(outside.random(Float, 4))


def test_integers_in_loops() -> None:
    rng = dr.rng(UInt64(0))
    total = dr.while_loop(
        (UInt(0), dr.zeros(UInt, 1000), rng), lambda i, total, rng: i < 50,
        lambda i, total, rng: (i + 1, total + rng.integers(UInt, 1000, 3), rng), mode="symbolic")[1]
    mean = np.array(total).mean() / 50
    assert mean == pytest.approx(1, abs=5 * math.sqrt(2 / 3 / 50_000))


def test_a_generator_without_a_package_cannot_be_used_in_a_symbolic_loop() -> None:
    rng = dr.rng(0)
    with pytest.raises(RuntimeError, match=r"seed is a number; make it with an array.*before the loop"):
        dr.while_loop((UInt(0), Float(0), rng), lambda i, x, rng: i < 3,
                      lambda i, x, rng: (i + 1, x + rng.random(Float, 1), rng), mode="symbolic")
    rng.random(Float, 1)
    rng = dr.while_loop((UInt(0), Float(0), rng), lambda i, x, rng: i < 3,
                        lambda i, x, rng: (i + 1, x + rng.random(Float, 1), rng), mode="symbolic")[2]
    assert repr(rng) == "Philox4x32Generator[seed=0, counter=4]"


def test_generators_are_pytrees() -> None:
    rng = dr.rng(UInt64(1, 2))
    dr.eval(rng)
    assert dr.shape(dr.copy({"a": rng})["a"].random(Float, 2)) == (2,)
    dr.make_opaque(rng)
    other = dr.rng(UInt64(1, 2))
    for _ in range(3):
        assert numbers(rng.random(Float, 2)) == numbers(other.random(Float, 2))


def test_draws_of_other_seeds_and_later_ones_compile_nothing() -> None:
    for draw in (lambda rng: rng.random(Float, 100), lambda rng: rng.integers(UInt, 100, 7),
                 lambda rng: rng.uniform(Array3f, (3, 100), 1, 2)):
        for seed in (0, 1):  # where both counter and seed are 0, products with them are the same parameter
            first = dr.rng(seed)
            for _ in range(3):  # the counter is a literal at first, and may be an array later
                dr.eval(draw(first))
        with dr.scoped_set_flag(dr.JitFlag.KernelHistory):
            dr.kernel_history_clear()
            for seed in (0, 1, 2, 2**33, 2**64 - 1):
                rng = dr.rng(seed)
                for _ in range(3):
                    dr.eval(draw(rng))
            history = [entry for entry in dr.kernel_history() if entry["type"] == dr.KernelType.JIT]
        assert history and all(entry["cache_hit"] for entry in history)


def test_nothing_is_evaluated() -> None:
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory):
        dr.kernel_history_clear()
        rng = dr.rng(0)
        for _ in range(3):
            rng.random(Float, 10), rng.normal(TensorXf, (2, 3)), rng.integers(UInt, 10, 7), rng.uniform(Float, 3, 1, 2)
        assert dr.kernel_history() == []


ERRORS = [
    ("dr.rng(-1)", r"drjit\.rng\(\): 'seed' must be an int from 0 to 2\^64 - 1, found -1"),
    ("dr.rng(2**64)", r"'seed' must be an int from 0 to 2\^64 - 1"),
    ("dr.rng(1.5)", r"'seed' must be an int or an array of unsigned integers, found float"),
    ("dr.rng(Float(1))", r"'seed' must be an int or an array of unsigned integers"),
    ("dr.rng(0, 'mt19937')", r"'method' must be 'philox4x32', found 'mt19937'"),
    ("dr.rng(0, symbolic=1)", r"'symbolic' must be a bool"),
    ("dr.rng().random(UInt, 3)", r"Generator\.random\(\): 'dtype' must be .* floating-point"),
    ("dr.rng().random(int, 3)", r"'dtype' must be"),
    ("dr.rng().random('x', 3)", r"'dtype' must be .* found 'x'"),
    ("dr.rng().random(dr.ArrayBase, 3)", r"'dtype' must be"),
    ("dr.rng().random(Float, -1)", r"'shape' must be an int or a sequence"),
    ("dr.rng().random(Float, (2, 3))", r"'shape' \(2, 3\)"),
    ("dr.rng().random(Array3f, (2, 3))", r"expected \(3, \*\)"),
    ("dr.rng().uniform(Int, 3)", r"Generator\.uniform\(\): 'dtype' must be .* floating-point"),
    ("dr.rng().uniform(Float, -1, 2, 3)", r"Generator\.uniform\(\): 'shape' must be an int or a sequence"),
    ("dr.rng().uniform(Float, (2, 3))", r"Generator\.uniform\(<.*>\): .* 'shape' \(2, 3\)"),
    ("dr.rng(UInt64(1, 2)).uniform(Float, 3)", r"Generator\.uniform\(\): .*sizes"),
    ("dr.rng().normal(Int, 3)", r"Generator\.normal\(\): 'dtype' must be .* floating-point"),
    ("dr.rng().integers(UInt64, 3, 4)", r"Generator\.integers\(\): 'dtype' must be .* 32-bit integers"),
    ("dr.rng().integers(Float, 3, 4)", r"'dtype' must be"),
    ("dr.rng().integers(UInt, 3, 5, 5)", r"no integer from 'low' to 'high', which are 5 and 5 \(the latter"),
    ("dr.rng().integers(UInt, 3)", r"no integer"),
    ("dr.rng().integers(UInt, 3, -5, 5)", r"'low' must lie in the range of drjit\.llvm\.UInt.* found -5"),
    ("dr.rng().integers(Int, 3, 0, 2**31, endpoint=True)", r"'high' must lie in the range"),
    ("dr.rng().integers(UInt, 3, 2.5)", r"'low' must be an int"),
    ("dr.rng().integers(UInt, 3, UInt(1, 2))", r"'low' of the shape \(2,\) cannot be combined"),
    ("dr.rng(UInt64(1, 2)).random(Float, 3)", r"sizes"),
    ("dr.rng().permutation(UInt, -1)", r"Generator\.permutation\(\): 'n' must be an int that is not negative"),
    ("dr.rng().permutation(UInt)", r"'n' must be"),
    ("dr.rng().permutation([1, 2])", r"first argument must be"),
    ("dr.rng().permutation(Array3f(1, 2, 3))", r"first argument must be"),
    ("dr.rng().permutation(Float(1, 2), 1)", r"'axis' must be an int from -1 to 0, found 1"),
    ("dr.rng().permutation(dr.zeros(TensorXf, (2, 3)), axis=2)", r"'axis' must be an int from -2 to 1"),
    ("dr.rng().integers(scalar.TensorXi, 3, 0, llvm.TensorXi([1, 2, 3]))",
     r"'high' must be an int, or an array of 32-bit integers of the package of 'dtype', found drjit\.llvm\.TensorXi"),
    ("dr.rng(UInt64(1, 2)).random(scalar.TensorXf, 3)", r"made of arrays of type drjit\.llvm\.UInt64 and drjit\.llvm"),
    ("dr.rng(UInt64())", r"drjit\.rng\(\): 'seed' has no elements"),
    ("dr.random.Generator(1)", r"drjit\.random\.Generator\(\) takes no arguments.* drjit\.rng\(seed=\.\.\.\) returns"),
    ("dr.random.Generator(seed=1)", r"drjit\.random\.Generator\(\) takes no arguments"),
    ("dr.random.Generator().normal(Float, 3)", r"Generator\.normal\(\): Generator does not have this method"),
    ("dr.rng().permutation(scalar.ArrayXu, 3)", r"drjit\.scalar cannot be permuted"),
]


@pytest.mark.parametrize(("expression", "message"), ERRORS)
def test_errors(expression: str, message: str) -> None:
    with pytest.raises((TypeError, ValueError, RuntimeError), match=message):
        eval(expression)


def test_failing_draws_change_nothing() -> None:
    rng = dr.rng(0)
    for draw in (lambda: rng.random(UInt, 3), lambda: rng.integers(UInt, 3, 0), lambda: rng.random(Float, (1, 2))):
        with pytest.raises((TypeError, ValueError)):
            draw()
    assert repr(rng) == "Philox4x32Generator[seed=0, counter=0]"


def test_more_elements_than_positions_are_refused() -> None:
    for dtype, shape in ((llvm.Float, 1 << 33), (llvm.TensorXf, (1 << 20, 1 << 20))):
        with pytest.raises(TypeError, match=r"drjit\.random\.Generator\.random\(\): 'shape' must have at most"):
            dr.rng(1).random(dtype, shape)


@pytest.mark.parametrize(("call", "words"), [
    (lambda rng: rng.uniform(llvm.Float, 3, low="a"), r"Generator\.uniform\(\): 'low' must be a number.*found str"),
    (lambda rng: rng.uniform(llvm.Float, 3, high=None), r"Generator\.uniform\(\): 'high'.*found NoneType"),
    (lambda rng: rng.normal(llvm.Float, 3, "a"), r"Generator\.normal\(\): 'loc'.*found str"),
    (lambda rng: rng.normal(scalar.TensorXf, 3, scale=1j), r"Generator\.normal\(\): 'scale'.*found complex"),
])
def test_bounds_that_are_no_numbers_are_named_and_nothing_is_drawn(call, words):
    rng, other = dr.rng(3), dr.rng(3)
    with pytest.raises(TypeError, match=words):
        call(rng)
    assert rng.random(llvm.Float, 5).numpy().tolist() == other.random(llvm.Float, 5).numpy().tolist()


def test_bounds_may_be_sequences():
    low, high = llvm.Float(1, 2, 3), llvm.Float(5, 6, 7)
    expected = dr.rng(3).uniform(llvm.Float, 3, low, high).numpy().tolist()
    for pair in (([1, 2, 3], (5, 6, 7)), ([1, 2, 3], high), (low, [5, 6, 7])):
        found = dr.rng(3).uniform(llvm.Float, 3, *pair)
        assert type(found) is llvm.Float and found.numpy().tolist() == expected
    found = dr.rng(3).uniform(llvm.Array2f, (2, 4), low=[0, 10], high=20).numpy()
    assert (found[1] >= 10).all() and (found < 20).all()


@pytest.mark.parametrize("method, names", [("uniform", ("low", "high")), ("normal", ("loc", "scale")),
                                           ("integers", ("low", "high"))])
def test_bounds_of_other_sizes_are_named(method: str, names: tuple[str, str]) -> None:
    kind: Any = llvm.Int if method == "integers" else llvm.Float
    draw = getattr(dr.rng(seed=0), method)
    for name in names:
        bounds = {**dict(zip(names, (1, 9), strict=True)), name: kind(1, 2, 3)}
        with pytest.raises(RuntimeError) as caught:
            draw(kind, 4, **bounds)
        assert str(caught.value) == (f"drjit.random.Generator.{method}(): '{name}' of the shape (3,) cannot be "
                                     "combined with numbers of the shape (4,).")
