"""Reversal, repetition, interpolation, squares and their like: on every kind of array, against NumPy and lists."""

from __future__ import annotations

import numpy as np
import pytest

import drjit as dr
from drjit import scalar
from drjit.llvm import (
    Array2f,
    Array3f,
    Array22f,
    ArrayXf,
    Bool,
    Complex2f,
    Float,
    Float16,
    Int,
    Matrix2f,
    Quaternion4f,
    TensorXb,
    TensorXf,
    TensorXf16,
    TensorXf64,
    TensorXi,
    TensorXu,
    UInt,
)
from drjit.llvm.ad import TensorXf as DifferentiableTensorXf

GRID = np.arange(24, dtype="f4").reshape(2, 3, 4)


class Pair:
    DRJIT_STRUCT = {"x": Float, "y": Int}  # noqa: RUF012


def states(array):
    """An array as a literal or memory, evaluated, unevaluated."""
    yield array
    dr.eval(array)
    yield array
    yield array + dr.zeros(type(array), len(array)) if array._depth == 0 and array._kind != "b" else array


# --- reverse ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("value", "axis", "expected"), [
    (Float(1, 2, 3), 0, [3, 2, 1]), (Float(1, 2, 3), -1, [3, 2, 1]), (Float(7), 0, [7]), (Float(), 0, []),
    (Bool(True, False), 0, [False, True]), (Float16(1, 2, 3), 0, [3, 2, 1]), (dr.full(Int, 4, 3), 0, [4, 4, 4]),
    (Array2f([1, 2], [3, 4]), 0, [[3, 4], [1, 2]]), (Array2f([1, 2], [3, 4]), 1, [[2, 1], [4, 3]]),
    (Array2f([1, 2], 3), 1, [[2, 1], [3, 3]]), (Array2f([1, 2], [3, 4]), -2, [[3, 4], [1, 2]]),
    (ArrayXf([1, 2], [3, 4], [5, 6]), 0, [[5, 6], [3, 4], [1, 2]]),
    (Array22f([1, 2], [3, 4]), 0, [[[3], [4]], [[1], [2]]]), (Array22f([1, 2], [3, 4]), 1, [[[2], [1]], [[4], [3]]]),
    (Matrix2f(1, 2, 3, 4), 0, [[[3], [4]], [[1], [2]]]), (Complex2f(1, 2), 0, [[2], [1]]),
    (scalar.Array3f(1, 2, 3), 0, [3, 2, 1]), (scalar.ArrayXf([1, 2, 3]), -1, [3, 2, 1]),
    (scalar.Array22f([1, 2], [3, 4]), 1, [[2, 1], [4, 3]]),
])
def test_arrays_are_reversed_along_any_axis(value, axis, expected):
    found = dr.reverse(value, axis)
    assert type(found) is type(value)
    array = found.array if found._special else found
    np.testing.assert_array_equal(array.numpy().reshape(np.shape(expected)), expected)


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
@pytest.mark.parametrize("shape", [(2, 3, 4), (1, 1, 1), (0, 2, 3), (2, 0, 1)])
def test_tensors_are_reversed_along_any_axis(shape, axis):
    values = np.arange(np.prod(shape), dtype="i4").reshape(shape)
    np.testing.assert_array_equal(dr.reverse(TensorXi(values), axis).numpy(), np.flip(values, axis))


def test_python_sequences_are_reversed_and_keep_their_type():
    assert dr.reverse([1, 2]) == [2, 1] and dr.reverse((1, "a")) == ("a", 1) and dr.reverse("abc") == "cba"
    assert dr.reverse(range(3)) == range(2, -1, -1) and dr.reverse([]) == []
    np.testing.assert_array_equal(dr.reverse(np.arange(3)), [2, 1, 0])
    assert [list(x) for x in dr.reverse([Float(1, 2), Float(3)])] == [[3], [1, 2]]
    for value in (5, {1: 2}, None):
        with pytest.raises(TypeError, match=r"drjit\.reverse\(\): 'value' must be a Dr\.Jit array or a sequence"):
            dr.reverse(value)
    for value in (Float(1), [1], TensorXf([1]), scalar.Array2f(1)):
        with pytest.raises(TypeError, match=r"drjit\.reverse\(\): out-of-bounds axis"):
            dr.reverse(value, 1)


# --- tile and repeat -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [0, 1, 2, 5, np.int64(3)])
@pytest.mark.parametrize("value", [
    Float(1, 2, 3), Float(), Float(4), dr.full(Float, 2, 3), Bool(True, False), Float16(1, 2), Int(-1, 2)])
def test_flat_arrays_are_tiled_and_repeated(value, count):
    for state in states(value):
        for function, oracle in ((dr.tile, np.tile), (dr.repeat, np.repeat)):
            found = function(state, count)
            assert type(found) is type(value)
            np.testing.assert_array_equal(found.numpy(), oracle(value.numpy(), count))


@pytest.mark.parametrize("value", [
    Array2f([1, 2], [3, 4]), Array2f([1, 2], 3), ArrayXf([1, 2], [3, 4]), Array3f(1, 2, 3), Complex2f([1, 2], [3, 4]),
    Matrix2f(1, 2, 3, [4, 5]), Quaternion4f(1, 2, 3, 4)], ids=lambda value: type(value).__name__)
def test_nested_arrays_are_tiled_and_repeated_along_their_last_axis(value):
    for function, oracle in ((dr.tile, np.tile), (dr.repeat, np.repeat)):
        found = function(value, 3)
        assert type(found) is type(value)
        before, after = (dr.ravel(x.array if x._special else x, order="C").numpy() for x in (value, found))
        rows = before.reshape(-1, dr.width(value))
        np.testing.assert_array_equal(after.reshape(rows.shape[0], -1), [oracle(row, 3) for row in rows])


@pytest.mark.parametrize("counts", [(2,), (1, 1), (2, 3), (2, 0), (2, 1, 3, 1, 2), (), (1, 2, 1), 3, [2, 1, 2]])
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (2, 1, 4), (0, 2)])
def test_tensors_are_tiled_as_by_numpy(shape, counts):
    values = np.arange(np.prod(shape), dtype="f4").reshape(shape)
    found = dr.tile(TensorXf(values), counts)
    expected = np.tile(values, counts)
    assert found.shape == expected.shape
    np.testing.assert_array_equal(found.numpy(), expected)


@pytest.mark.parametrize("axis", [None, 0, 1, 2, -1])
@pytest.mark.parametrize("count", [0, 1, 3, "each"])
@pytest.mark.parametrize("shape", [(2, 3, 4), (1, 0, 2), (4, 1, 1)])
def test_tensors_are_repeated_as_by_numpy(shape, count, axis):
    values = np.arange(np.prod(shape), dtype="f4").reshape(shape)
    if count == "each":
        size = values.size if axis is None else shape[axis]
        count = [k % 3 for k in range(size)]
    found = dr.repeat(TensorXf(values), count, axis)
    expected = np.repeat(values, count, axis)
    assert found.shape == expected.shape
    np.testing.assert_array_equal(found.numpy(), expected)


def test_counts_may_be_arrays():
    for count in (UInt(1, 2, 0), [1, 2, 0], np.array([1, 2, 0]), TensorXu([1, 2, 0]), (1, 2, 0)):
        assert list(dr.repeat(Float(5, 6, 7), count)) == [5, 6, 6]
    assert list(dr.repeat(Array2f([1, 2], 9), [2, 1]).y) == [9, 9, 9]
    assert list(dr.repeat(scalar.ArrayXf([1, 2]), [2, 1])) == [1, 1, 2]


def test_flat_arrays_tiled_along_several_axes_are_tensors():
    found = dr.tile(Float(1, 2), (2, 2))
    assert type(found) is TensorXf
    np.testing.assert_array_equal(found.numpy(), np.tile([1, 2], (2, 2)))


def test_pytrees_are_traversed_and_what_is_static_is_left_alone():
    for function, expected in ((dr.tile, [1, 2, 1, 2]), (dr.repeat, [1, 1, 2, 2])):
        found = function([Float(1, 2), {"a": Float(3), "b": 5, "c": "x"}, None], 2)
        assert list(found[0]) == expected and list(found[1]["a"]) == [3, 3]
        assert found[1]["b"] == 5 and found[1]["c"] == "x" and found[2] is None
        pair = Pair()
        pair.x, pair.y = Float(1, 2), Int(7)
        made = function(pair, 2)
        assert type(made) is Pair and list(made.x) == expected and list(made.y) == [7, 7]
        static = scalar.Array3f(1, 2, 3)
        assert function(static, 2) is static and function(3.5, 2) == 3.5
    x = Float(1, 2)
    assert dr.tile(TensorXf(3), 1).shape == () and dr.tile(TensorXf(3), (1,)).shape == (1,)
    assert dr.tile(x, 1) is x and dr.repeat(x, 1) is x


# --- interpolation ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_interpolation_is_that_of_numpy_and_extends_the_ends(axis):
    size = GRID.shape[axis]
    positions = np.array([0, 0.5, size - 1, size - 1.25, -0.5, size + 2], "f4")
    below = np.clip(np.floor(positions), 0, size - 2).astype(int)
    weight = np.expand_dims(positions - below, tuple(range(1, 3 - axis % 3)))
    expected = np.take(GRID, below, axis) * (1 - weight) + np.take(GRID, below + 1, axis) * weight
    found = dr.take_interp(TensorXf(GRID), Float(positions), axis)
    assert found.shape == expected.shape
    np.testing.assert_allclose(found.numpy(), expected, rtol=2.0**-22)  # two roundings
    for k, position in enumerate(positions.tolist()):
        one = dr.take_interp(TensorXf(GRID), position, axis)
        np.testing.assert_allclose(one.numpy(), np.take(expected, k, axis), rtol=2.0**-22)


@pytest.mark.parametrize("kind", [TensorXf, TensorXf64, TensorXf16, TensorXi, TensorXu, DifferentiableTensorXf])
def test_interpolated_values_have_the_type_of_the_tensor(kind):
    x = kind([1, 2, 4])
    for position in (1.5, Float(1.5), dr.llvm.Float64(1.5), Float16(1.5), TensorXf([1.5]), [1.5], np.array([1.5])):
        if kind is DifferentiableTensorXf and isinstance(position, dr.ArrayBase):
            position = type(position)(position)
        found = dr.take_interp(x, position)
        assert type(found) is kind and found.numpy().reshape(()) == 3


def test_positions_that_are_not_finite_and_axes_that_are_too_short():
    x = TensorXf([1, 2, 4])
    found = dr.take_interp(x, Float(dr.nan, 1)).numpy()
    assert np.isnan(found[0]) and found[1] == 2
    assert dr.take_interp(dr.zeros(TensorXf, (3, 0)), Float(0.5, 1)).shape == (2, 0)
    assert dr.take_interp(x, Float()).shape == (0,)
    for call, error, message in (
            (lambda: dr.take_interp(TensorXf([1]), 0.5), RuntimeError, "axis 0 has size 1"),
            (lambda: dr.take_interp(dr.zeros(TensorXf, (0, 2)), 0.5), RuntimeError, "axis 0 has size 0"),
            (lambda: dr.take_interp(Float(1, 2), 0.5), TypeError, "'value' must be a tensor"),
            (lambda: dr.take_interp(x, dr.nan), TypeError, "'pos' must be finite"),
            (lambda: dr.take_interp(x, "a"), TypeError, "'pos' must be a number or an array"),
            (lambda: dr.take_interp(x, TensorXf([[1.0]])), TypeError, r"'pos'.*of the shape \(1, 1\)"),
            (lambda: dr.take_interp(TensorXb([True, False]), 0.5), TypeError, "masks cannot be interpolated"),
            (lambda: dr.take_interp(x, 0.5, 1), TypeError, "out-of-bounds axis")):
        with pytest.raises(error, match=r"drjit\.take_interp\(\): .*" + message):
            call()


def test_take_names_itself_in_errors():
    x = TensorXf(GRID)
    np.testing.assert_array_equal(dr.take(x, [[0, 1], [2, -1]], 1).numpy(), np.take(GRID, [[0, 1], [2, -1]], 1))
    np.testing.assert_array_equal(dr.take(x, Int(-1, 0), 2).numpy(), GRID[..., [-1, 0]])
    with pytest.raises(IndexError, match=r"drjit\.take\(\): index 5 is out of bounds for axis 1 with size 3"):
        dr.take(x, 5, 1)
    for index in (1.5, slice(2), None, Bool(True), [True]):
        with pytest.raises(TypeError, match=r"drjit\.take\(\): 'index' must be an int or an array of integers"):
            dr.take(x, index)


# --- stacks, upsampling, squares and intervals -----------------------------------------------------------------------


@pytest.mark.parametrize("name", ["stack", "vstack", "row_stack", "hstack", "column_stack", "dstack"])
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (2, 1, 2), (0,), (2, 0)])
def test_stacks_are_those_of_numpy(name, shape):
    a = np.arange(np.prod(shape), dtype="f4").reshape(shape)
    found = getattr(dr, name)([TensorXf(a), TensorXf(-a), TensorXf(2 * a)])
    expected = getattr(np, "vstack" if name == "row_stack" else name)([a, -a, 2 * a])
    assert found.shape == expected.shape
    np.testing.assert_array_equal(found.numpy(), expected)
    if len(shape) == 1:
        np.testing.assert_array_equal(getattr(dr, name)([Float(a), Float(-a), Float(2 * a)]).numpy(), expected)


def test_stacks_take_nested_arrays_as_tensors_and_name_themselves():
    assert dr.stack([Array2f([1, 2], [3, 4])] * 3).shape == (3, 2, 2)
    assert dr.vstack([Array2f([1, 2], [3, 4])] * 2).shape == (4, 2)
    for name in ("stack", "vstack", "row_stack", "hstack", "column_stack", "dstack"):
        function = getattr(dr, name)
        for values in ([], [1], [Float(1), Int(2)], 5, [scalar.Array2f(1)]):
            with pytest.raises(TypeError, match=rf"drjit\.{name}\(\): "):
                function(values)
    with pytest.raises(RuntimeError, match=r"drjit\.row_stack\(\): the shapes must agree"):
        dr.row_stack([TensorXf([1, 2]), TensorXf([1])])


@pytest.mark.parametrize(("shape", "factors"), [((2, 3), (2, 3)), ((2, 3), (2,)), ((2, 3), (1, 1)), ((4,), (3,)),
                                                ((2, 0, 2), (2, 5, 1)), ((), ())])
def test_upsampling_repeats_entries(shape, factors):
    values = np.arange(np.prod(shape), dtype="f4").reshape(shape)
    expected = values
    for axis, factor in enumerate(factors):
        expected = expected.repeat(factor, axis)
    np.testing.assert_array_equal(dr.upsample(TensorXf(values), scale_factor=factors).numpy(), expected)
    np.testing.assert_array_equal(dr.upsample(TensorXf(values), expected.shape).numpy(), expected)


@pytest.mark.parametrize(("shape", "factors"), [
    ((201, 173), (2, 3)), ((20, 51, 60), (3, 1, 4)), ((64, 33, 31), (2, 2, 2)), ((150, 120, 3), (3, 3, 1)),
    ((1, 1), (400, 500))])
@pytest.mark.parametrize("cls", [TensorXi, TensorXb, TensorXf16])
def test_upsampling_large_tensors_repeats_entries(cls, shape, factors):
    values = np.random.default_rng(1).integers(0, 2, shape)
    values = values.astype({TensorXi: "i4", TensorXb: "?", TensorXf16: "f2"}[cls])
    expected = np.kron(values, np.ones(factors, values.dtype))
    found = dr.upsample(cls(values), scale_factor=factors)
    assert found.shape == expected.shape
    np.testing.assert_array_equal(found.numpy(), expected)


def test_gradients_of_large_tensors_that_are_upsampled_are_sums_of_blocks():
    generator = np.random.default_rng(2)
    x, weights = (DifferentiableTensorXf(generator.random(size, "f4")) for size in ((211, 173), (422, 519)))
    dr.enable_grad(x)
    dr.backward(dr.sum(dr.upsample(x, (422, 519)) * weights, axis=None))
    expected = weights.numpy().astype("f8").reshape(211, 2, 173, 3).sum((1, 3))
    np.testing.assert_allclose(dr.grad(x).numpy(), expected, 1e-6)


@pytest.mark.parametrize(("arguments", "error", "message"), [
    ({}, TypeError, "either 'shape' or 'scale_factor'"), ({"shape": (2,), "scale_factor": (2,)}, TypeError, "either"),
    ({"shape": (3,)}, TypeError, r"'shape\[0\]' must be a multiple of the size 2, found 3"),
    ({"shape": (0,)}, TypeError, r"'shape\[0\]' must be a multiple"), ({"shape": 4}, TypeError, "'shape' must be a"),
    ({"scale_factor": (0,)}, ValueError, r"'scale_factor\[0\]' must be an int >= 1, found 0"),
    ({"scale_factor": (1.5,)}, TypeError, r"'scale_factor\[0\]' must be an int, found float"),
    ({"scale_factor": (1, 1)}, TypeError, "a sequence of at most 1 ints")])
def test_upsampling_says_what_it_expects(arguments, error, message):
    with pytest.raises(error, match=r"drjit\.upsample\(\): .*" + message):
        dr.upsample(TensorXf([1, 2]), **arguments)


def test_squares():
    assert dr.square(3) == 9 and dr.square(1.5) == 2.25 and dr.square(True) == 1
    assert list(dr.square(Int(-3, 4))) == [9, 16] and type(dr.square(scalar.Array2f(2, 3))) is scalar.Array2f
    np.testing.assert_array_equal(dr.square(TensorXf(GRID)).numpy(), GRID**2)
    z, q, m = Complex2f(1, 2), Quaternion4f(1, 2, 3, 4), Matrix2f(1, 2, 3, 4)
    for value in (z, q, m):
        assert type(dr.square(value)) is type(value) and str(dr.square(value)) == str(value * value)
    for value in (Bool(True), "a", [1]):
        with pytest.raises(TypeError, match=r"drjit\.square"):
            dr.square(value)


def test_clamp_is_clip():
    assert list(dr.clamp(Float(1, 2, 3), 1.5, 2.5)) == list(dr.clip(Float(1, 2, 3), 1.5, 2.5)) == [1.5, 2, 2.5]
    assert dr.clamp(5, 3, 2) == dr.clip(5, 3, 2) == 3  # maximum(minimum(value, max), min), as the reference says
    assert dr.clamp(Int(-5, 9), 0, 7).numpy().tolist() == [0, 7]
    with pytest.raises(TypeError, match=r"drjit\.clamp"):
        dr.clamp("a", 0, 1)


# --- places ----------------------------------------------------------------------------------------------------------


def test_nothing_is_evaluated():
    x, t = dr.opaque(Float, 1, 8), dr.opaque(TensorXf, 1, (2, 4))
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory, True):
        dr.kernel_history_clear()
        results = [dr.reverse(x + 1), dr.tile(x + 1, 2), dr.repeat(x + 1, 2), dr.tile(t + 1, (2, 2)),
                   dr.repeat(t + 1, 2, axis=0), dr.take_interp(t + 1, Float(0.5), 1), dr.upsample(t + 1, (4, 4)),
                   dr.reverse(t + 1), dr.vstack([t, t + 1]), dr.square(t)]
        assert not dr.kernel_history()
    dr.eval(results)


def test_loops_may_rearrange_what_they_captured():
    x = dr.arange(Float, 4)

    def body(k, total):
        return k + 1, total + dr.gather(Float, dr.reverse(x), k) + dr.square(total)

    _, total = dr.while_loop((UInt(0, 1), Float(0, 0)), lambda k, total: k < 3, body)
    expected = []
    for k in (0, 1):
        t = 0.0
        while k < 3:
            t += 3 - k + t * t
            k += 1
        expected.append(t)
    assert list(total) == expected


@pytest.mark.parametrize(("dtype", "value", "shape", "order", "expected"), [
    (TensorXf, np.arange(3, dtype=np.float32), (3, 1), "A", [[0], [1], [2]]),
    (TensorXf, [1, 2, 3, 4], (2, 2), "A", [[1, 2], [3, 4]]),
    (TensorXf, (1, 2), (2,), "A", [1, 2]),
    (TensorXi, 5, (1, -1), "A", [[5]]),
    (TensorXf, np.float32(5), 1, "A", [5]),
    (Float, [1, 2, 3], 3, "A", [1, 2, 3]),
    (Array2f, [1, 2, 3, 4], (2, 2), "A", [[1, 3], [2, 4]]),
    (Array2f, [1, 2, 3, 4], (2, 2), "C", [[1, 2], [3, 4]]),
    (TensorXf, np.arange(6.0).reshape(2, 3), (3, 2), "A", [[0, 3], [1, 4], [2, 5]]),  # as nested arrays are read
    (TensorXf, np.arange(6.0).reshape(2, 3), (3, 2), "C", [[0, 1], [2, 3], [4, 5]]),
    (TensorXf, [[1, 2], [3, 4]], (4,), "A", [1, 3, 2, 4]),
    (TensorXf, np.zeros((0, 3)), (3, 0), "A", np.zeros((3, 0)).tolist()),
    (scalar.TensorXf, [1, 2, 3, 4], (2, 2), "A", [[1, 2], [3, 4]]),
    (scalar.Array3f, [1, 2, 3], (3,), "A", [1, 2, 3]),
])
def test_numbers_get_a_type_and_a_shape(dtype, value, shape, order, expected):
    found = dr.reshape(dtype, value, shape, order)
    assert type(found) is dtype
    assert found.numpy().tolist() == expected


def test_the_arrays_of_a_pytree_get_a_type_and_a_shape():
    found = dr.reshape(TensorXf, {"a": Float(1, 2), "b": [Int(3, 4), "text", 5]}, (2, 1))
    assert type(found["a"]) is TensorXf and found["a"].numpy().tolist() == [[1], [2]]
    assert type(found["b"][0]) is TensorXf and found["b"][0].numpy().tolist() == [[3], [4]]
    assert found["b"][1:] == ["text", 5]
    assert dr.reshape(dict, {"a": Float(1, 2)}, 1, shrink=True)["a"].numpy().tolist() == [1]


def test_reshaped_numbers_have_to_fit():
    with pytest.raises(RuntimeError, match=r"drjit\.reshape\(\): mismatched array sizes \(input: 3, target: 4"):
        dr.reshape(TensorXf, [1, 2, 3], (2, 2))
    with pytest.raises(TypeError, match=r"'order'"):
        dr.reshape(TensorXf, [1, 2, 3], (3, 1), "Z")
