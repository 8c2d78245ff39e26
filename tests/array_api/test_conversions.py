"""Arrays of other objects, NumPy's functions on arrays, and how arrays are printed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import drjit as dr
import drjit.array_api as xp
from drjit.llvm.ad import Array2f, Complex2f, Float, TensorXf
from drjit.opt import GradScaler

# --- asarray ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value, dtype, error, message", [
    ([2**63, 1], None, OverflowError, "9223372036854775808 does not fit into int64"),
    ([2**63, -1], None, OverflowError, "9223372036854775808 does not fit into int64"),
    ([2**63, -1], xp.uint64, OverflowError, "-1 does not fit into uint64"),
    ([2**64], None, OverflowError, "18446744073709551616 does not fit into int64"),
    ([300.0], xp.int8, OverflowError, "300.0 does not fit into int8"),
    ([float("nan")], xp.int8, ValueError, "nan does not fit into int8"),
    (float("nan"), xp.int8, ValueError, "nan does not fit into int8"),
    (float("inf"), xp.int64, OverflowError, "inf does not fit into int64"),
    (["a"], None, TypeError, "found str"), ([None], None, TypeError, "found NoneType"),
    ("a", None, TypeError, "found str"),
    ({1, 2}, None, TypeError, "set"),
    (xp.asarray([1j]), xp.float32, TypeError, "complex numbers cannot become float32"),
    (np.array([1j]), xp.float32, TypeError, "complex numbers cannot become float32"),
    (Complex2f(1, 2), xp.float32, TypeError, "complex numbers cannot become float32"),
    ([xp.ones(2), 1], None, ValueError, "ragged"), ([xp.ones(2), xp.ones(3)], None, ValueError, "ragged")])
def test_what_cannot_become_an_array(value, dtype, error, message):
    with pytest.raises(error, match=rf"drjit\.array_api\.asarray\(\): .*{message}"):
        xp.asarray(value, dtype=dtype)


def test_large_floating_point_numbers_are_no_integers():
    assert xp.asarray([1e30, -1.0]).dtype == xp.float64
    assert xp.asarray([2**63, 1], dtype=xp.uint64).tolist() == [2**63, 1]
    exact = [[2**64 - 1025, 2**63 + 1], [0, 1]]
    assert xp.asarray(exact, dtype=xp.uint64).tolist() == exact
    assert xp.asarray([2**64], dtype=xp.float64).tolist() == [2.0**64]


def test_numbers_beside_arrays_take_their_type():
    x = xp.asarray(1, dtype=xp.float32)
    assert xp.asarray([x, 2.5]).dtype == xp.float32
    assert xp.asarray([[x, 0.0], [0, 1.0]]).dtype == xp.float32
    assert xp.asarray([x, 1j]).dtype == xp.complex64
    assert xp.asarray([xp.ones(2), [1, 2]]).tolist() == [[1, 1], [1, 2]]
    assert xp.asarray([xp.ones(2), np.zeros(2)]).tolist() == [[1, 1], [0, 0]]


def test_memory_is_shared_where_no_copy_is_wanted():
    memory = np.arange(4.0)
    x = xp.asarray(memory, copy=False)
    memory[0] = 7
    assert x.tolist() == [7, 1, 2, 3]
    x[1] = 9  # which copies
    assert memory.tolist() == [7, 1, 2, 3] and x.tolist() == [7, 9, 2, 3]
    raw = bytearray(b"abc")
    y = xp.asarray(raw, copy=False)
    raw[0] = 1
    assert y.tolist() == [1, 98, 99]
    copied = xp.asarray(memory)
    memory[2] = -1
    assert copied.tolist() == [7, 1, 2, 3]
    assert xp.asarray(TensorXf([1, 2]), copy=False).tolist() == [1, 2]
    assert xp.asarray(Float([1, 2]), copy=False).tolist() == [1, 2]


@pytest.mark.parametrize("value, dtype", [
    ([1, 2], None), (1, None), (np.arange(4.0)[::2], None), (np.arange(4.0), xp.float32), (np.array([1j]), None),
    (np.arange(3, dtype=np.dtype(np.int32).newbyteorder()), None), (xp.ones(2), xp.float32), (Array2f(1, 2), None),
    (Float([1]), xp.float64)])
def test_copies_that_are_needed_and_ruled_out(value, dtype):
    with pytest.raises(ValueError, match="copy"):
        xp.asarray(value, dtype=dtype, copy=False)


def test_devices_are_strings():
    for device in ("cuda:0", 5, np.array([1, 2])):
        with pytest.raises(ValueError, match=r"ones\(\): there is no device"):
            xp.ones(3, device=device)


# --- NumPy -----------------------------------------------------------------------------------------------------------


def test_functions_of_numpy_are_those_of_ours():
    x = xp.asarray([1.0, 2.0])
    assert isinstance(np.sin(x), xp.Array) and np.allclose(np.sin(x), np.sin([1, 2]))
    assert np.add(np.ones(2), x).tolist() == [2, 3] and np.sum(x) == 3 and np.mean(x) == 1.5
    assert np.where([True, False], x, 0).tolist() == [1, 0] and np.isnan(x).tolist() == [False, False]
    np.testing.assert_allclose(x, [1, 2])
    assert all(isinstance(found, xp.Array) for found in (np.add(np.ones(2), x), np.mean(x), np.linalg.norm(x)))
    dr.enable_grad(x)
    dr.backward(np.sum(np.exp(x)).tensor)
    np.testing.assert_allclose(dr.grad(x), np.exp(dr.detach(x)))


def test_functions_of_numpy_that_are_not_there_are_computed_by_numpy():
    x = xp.asarray([3.0, 1.0])
    assert isinstance(np.lexsort((x, x)), (np.ndarray, xp.Array))
    assert str(np.array2string(x)) == "[3. 1.]"


def test_numpy_writes_to_its_own_arrays_and_to_ours():
    a, x = np.zeros(2), xp.asarray([1.0, 2.0])
    np.copyto(a, x)
    a += x
    np.add(a, x, out=a)
    np.multiply(x, a, out=x)
    np.add.at(a, [0, 0], x[:1])
    np.copyto(x[:1], a[:1])
    assert isinstance(a, np.ndarray) and a.tolist() == [9, 6] and x.tolist() == [9, 12]


def test_functions_of_numpy_leave_arrays_of_others_alone():
    class Other:
        def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
            return "other"

        def __array_function__(self, func, types, args, kwargs):
            return "other"

    x = xp.ones(2)
    assert np.add(x, Other()) == np.concatenate([x, Other()]) == "other"


@pytest.mark.parametrize("operation", [
    lambda a, b: a + b, lambda a, b: a - b, lambda a, b: a * b, lambda a, b: a / b, lambda a, b: a @ b,
    lambda a, b: a == b, lambda a, b: a < b, lambda a, b: a ** b])
def test_operators_take_arrays_of_numpy(operation):
    a, b = np.asarray([1.0, 3.0]), np.asarray([2.0, 3.0])
    for found in (operation(a, xp.asarray(b)), operation(xp.asarray(a), b)):
        assert isinstance(found, xp.Array) and found.tolist() == operation(a, b).tolist()


def test_numbers_of_numpy_are_numbers():
    for found in (np.float64(2) * xp.ones(2, dtype=xp.float32), xp.ones(2, dtype=xp.float32) * np.float64(2),
                  np.float32(4) / xp.full(2, 2, dtype=xp.float32)):
        assert found.dtype == xp.float32 and found.tolist() == [2, 2]
    assert (np.float64(0) < xp.ones(2)).tolist() == [True, True]
    assert (np.int64(1) << xp.asarray([2])).tolist() == [4]


# --- text ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("array, text", [
    (xp.asarray(1.5), "Array(1.5, dtype=float64)"), (xp.zeros(0), "Array([], dtype=float64)"),
    (xp.zeros((0, 3), dtype=xp.int8), "Array([], shape=(0, 3), dtype=int8)"),
    (xp.arange(2000), "Array([   0,    1,    2, ..., 1997, 1998, 1999], shape=(2000,), dtype=int64)")])
def test_text_tells_shapes_that_cannot_be_seen(array, text):
    assert repr(array) == text


def test_numbers_are_formatted_as_numbers():
    assert f"{xp.asarray(3.14159):.2f} {xp.asarray(7):03d} {xp.asarray(2.5)}" == "3.14 007 2.5"
    assert f"{xp.arange(2):>9}" == "    [0 1]"
    with pytest.raises(TypeError, match=r"__format__\(\): only arrays without dimensions are formatted like numbers"):
        f"{xp.arange(2):.2f}"


def test_the_class_is_found_where_users_look_for_it():
    assert repr(xp.Array) == "<class 'drjit.array_api.Array'>"
    with pytest.raises(TypeError, match=r"found drjit\.array_api\.Array"):
        dr.sin(xp.ones(2))


# --- data types ------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(tuple(map(int, np.__version__.split(".")[:2])) < (2, 4),
                    reason="the protocol of data types is that of NumPy 2.4")
def test_numpy_knows_data_types():
    for name in ("bool", "int8", "uint64", "float16", "float32", "complex128"):
        own, other = getattr(xp, name), np.dtype(name)
        assert np.dtype(own) == other and np.zeros(2, dtype=own).dtype == other
        assert own == other and other == own and hash(own) == hash(other)
        assert len({own, other}) == 1
    assert np.issubdtype(xp.float32, np.floating) and xp.float32 != np.dtype("float64") and xp.float32 != "a"


# --- numbers that are none -------------------------------------------------------------------------------------------


def test_integers_have_no_negative_powers():
    x = xp.asarray([1, 2])
    for function in (lambda: x ** -1, lambda: xp.pow(x, np.int64(-2)), lambda: xp.pow(x, xp.asarray([1, -1]))):
        with pytest.raises(ValueError, match=r"array_api\.pow\(\): integers to the power of -[12] are no integers"):
            function()
    assert (xp.asarray([2.0]) ** -1).tolist() == [0.5]
    assert xp.pow(xp.asarray([], dtype=xp.int64), xp.asarray([], dtype=xp.int64)).shape == (0,)


def test_arguments_of_other_kinds():
    with pytest.raises(TypeError, match=r"linalg\.matrix_power\(\): 'n' must be an int, found float"):
        xp.linalg.matrix_power(xp.eye(2), 0.5)
    with pytest.raises(TypeError, match=r"linalg\.vector_norm\(\): 'ord' must be a number, found 'fro'"):
        xp.linalg.vector_norm(xp.ones(2), ord="fro")
    with pytest.raises(ValueError, match=r"linalg\.vector_norm\(\): there is no element along the axes \(0,\)"):
        xp.linalg.vector_norm(xp.ones(0), ord=float("inf"))
    with pytest.raises(TypeError, match=r"Array\.__dlpack__\(\): 'max_version' must be a tuple of two ints"):
        xp.ones(2).__dlpack__(max_version="1.0")
    with pytest.raises(BufferError, match=r"Array\.__dlpack__\(\): .* found dl_device='cpu'"):
        xp.ones(2).__dlpack__(dl_device="cpu")


@pytest.mark.parametrize("name, function, error, message", [
    ("sum", lambda: xp.sum(xp.ones(2) + 1j, dtype=xp.float64), TypeError, "complex numbers cannot become float64"),
    ("prod", lambda: xp.prod(xp.ones(2) + 1j, dtype=xp.float64), TypeError, "complex numbers cannot become float64"),
    ("cumulative_sum", lambda: xp.cumulative_sum(xp.ones(2) + 1j, dtype=xp.int8), TypeError, "complex numbers"),
    ("sum", lambda: xp.sum(xp.ones(2), dtype="foo"), TypeError, "'dtype' must be a data type"),
    ("clip", lambda: xp.clip(xp.arange(3), 1.5), TypeError, "'min' is 1.5, which no element of int64 is"),
    ("roll", lambda: xp.roll(xp.arange(3), 1.5), TypeError, "'shift' must be an int"),
    ("full", lambda: xp.full(2, float("nan"), dtype=xp.int8), ValueError, "nan does not fit into int8"),
    ("full", lambda: xp.full(2, 1j, dtype=xp.float32), TypeError, "complex numbers cannot become float32"),
    ("arange", lambda: xp.arange(300, dtype=xp.int8), OverflowError, "299 does not fit into int8"),
    ("arange", lambda: xp.arange(-1, 3, dtype=xp.uint8), OverflowError, "-1 does not fit into uint8")])
def test_messages_name_the_function_of_the_user(name, function, error, message):
    with pytest.raises(error, match=rf"^drjit\.array_api\.{name}\(\): .*{message}"):
        function()


def test_sums_take_data_types_of_numpy():
    assert xp.sum(xp.ones(2), dtype=np.float32).dtype == xp.float32
    assert xp.sum(xp.ones(2), dtype=xp.complex64).tolist() == 2 and xp.arange(128, dtype=xp.int8)[-1] == 127


@pytest.mark.parametrize("dtype", [xp.float32, xp.float64], ids=str)
def test_types_of_dr_keep_derivatives(dtype: Any) -> None:
    for cls, shape in ((dr.llvm.ad.Float64, (4,)), (dr.llvm.ad.TensorXf, (2, 2)), (dr.llvm.ad.Array2f, (2, 3)),
                       (dr.llvm.ad.Float, (1,))):
        a = xp.ones(shape, dtype=dtype)
        dr.enable_grad(a)
        b = cls(a)
        assert dr.grad_enabled(b)
        dr.backward(b * 3)
        np.testing.assert_array_equal(np.asarray(dr.grad(a)), np.full(shape, 3))


def test_jacobians_of_arrays() -> None:
    x = xp.asarray([[1.0, 2.0], [3.0, 4.0]])
    for mode in ("forward", "reverse", "auto"):
        found = dr.jacobian(lambda x: xp.sum(x * x, axis=0), x, mode=mode)
        assert isinstance(found, type(x))
        assert found.dtype == x.dtype
        np.testing.assert_allclose(np.asarray(found), [[[2, 0], [6, 0]], [[0, 4], [0, 8]]])


@pytest.mark.parametrize("dtype", [xp.float16, xp.float32, xp.float64], ids=str)
def test_loss_scaling_of_arrays(dtype: Any) -> None:
    scaler = GradScaler(init_scale=4)
    for shape in ((), (2,)):
        x = xp.ones(shape, dtype=dtype)
        dr.enable_grad(x)
        loss = scaler.scale(x * 3)
        assert loss.shape == shape
        assert loss.dtype == (xp.float32 if dtype == xp.float16 else dtype)
        dr.backward(loss)
        np.testing.assert_array_equal(np.asarray(dr.grad(x)), np.full(shape, 12))
        np.testing.assert_array_equal(np.asarray(dr.detach(scaler.unscale(loss))), np.full(shape, 3))


def test_texts_are_those_of_numpy():
    for value in ([1.0, 2.5], 2.5, [[1, 2], [3, 4]], 3, [True], 1 + 2j, [], list(range(2000))):
        assert str(xp.asarray(value)) == f"{xp.asarray(value)}" == str(np.asarray(value))


def test_rounding_as_a_number():
    assert round(xp.asarray(2.6)) == 3 and isinstance(round(xp.asarray(2.6)), int)
    assert float(round(xp.asarray(2.625), 2)) == 2.62
    with pytest.raises(TypeError, match=r"use x\.round\(\)"):
        round(xp.asarray([2.6]))


@pytest.mark.parametrize("value", [[1, 2], [], [[True], [False]]])
def test_truth_of_arrays_is_ambiguous(value):
    with pytest.raises(ValueError, match=r"the truth value of an array of \d elements is ambiguous"):
        bool(xp.asarray(value))


@pytest.mark.parametrize("name", ["f4", "d", "<f8", "i2", "u1", "?", "c8", "F", "float", "int", "half", "intp", "=i4"])
def test_names_of_data_types_are_those_of_numpy(name):
    assert xp.zeros(1, dtype=name).dtype == np.dtype(name)
    assert xp.asarray([0]).astype(name).dtype == np.dtype(name)
    with pytest.raises(TypeError, match="'dtype' must be a data type"):
        xp.zeros(1, dtype="f5")


def test_arrays_without_axes_are_sizes():
    import drjit.numpy as dnp

    n = xp.asarray(3)
    for module in (xp, dnp):
        assert module.zeros(n).shape == module.ones((n,)).shape == module.full(n, 2.0).shape == (3,)
        assert module.eye(n).shape == (3, 3) and module.arange(6).reshape(n, -1).shape == (3, 2)
    assert dnp.arange(n).tolist() == [0, 1, 2] and dnp.arange(n).dtype == dnp.int64
