"""When arrays of the namespace are evaluated: what is asked for, with what the program holds of it; long programs."""

from __future__ import annotations

import numpy as np
import pytest

import drjit as dr
import drjit.array_api as xp
from drjit.array_api._evaluation import COMPILED
from drjit.llvm.ad import Float64, UInt32


@pytest.fixture(autouse=True)
def default_policy():
    keep, limit, eager = xp.policy.keep, xp.policy.limit, xp.policy.eager
    xp.policy.eager = 0  # small arrays are traced as large ones are
    yield
    xp.policy.keep, xp.policy.limit, xp.policy.eager = keep, limit, eager


def is_evaluated(*arrays):
    return [array.tensor.state is dr.VarState.Evaluated for array in arrays]


def numbers(size=100):
    return xp.asarray(np.linspace(0.1, 1, size))


def kernels(function):
    """The kernels that a function launches: how many, and how many different ones."""
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory, True):
        dr.kernel_history_clear()
        function()
        found = dr.kernel_history()
    return len(found), len({entry["hash"] for entry in found})


@pytest.mark.parametrize("ask", [float, bool, repr, np.asarray, lambda x: x.item(), lambda x: x.tolist(), str,
                                 lambda x: memoryview(x.__buffer__(0)), lambda x: x.__dlpack__(), lambda x: x.numpy(),
                                 lambda x: xp.nonzero(xp.reshape(x, (1,))), lambda x: xp.linalg.inv(x[None, None]),
                                 lambda x: xp.repeat(x, xp.astype(xp.reshape(x, (1,)), xp.int64)),
                                 lambda x: np.from_dlpack(x), lambda x: 1.0 in x, lambda x: f"{x:.3}"])
def test_what_is_held_of_a_value_is_stored_with_it(ask):
    x = numbers()
    y = xp.cos(x)
    other = xp.sin(x)
    later = y + 1
    e = xp.max(xp.abs(y - x))
    ask(e)
    assert is_evaluated(x, y, e, other, later) == [True, True, True, False, False]


def test_a_fixed_point_is_one_compilation():
    def iterate(count):
        x = numbers()
        for _ in range(count):
            y = xp.cos(x) * 0.9 + 0.1 * x * x
            e = xp.max(xp.abs(y - x))
            x = y
            if e < 0:
                break

    count, different = kernels(lambda: iterate(4))
    assert kernels(lambda: iterate(100)) == (25 * count, different)


@pytest.mark.parametrize("limit", [16, 100, None])
def test_long_programs_are_cut_where_they_were_cut_before(limit):
    def run(count):
        x, v = numbers(), numbers()
        for _ in range(count):
            v = v - xp.sin(x) * 0.01
            x = x + v * 0.01
        return x, v

    expected = np.linspace(0.1, 1, 100), np.linspace(0.1, 1, 100)
    for _ in range(200):
        v = expected[1] - np.sin(expected[0]) * 0.01
        expected = expected[0] + v * 0.01, v
    xp.policy.limit = limit
    found = []
    count, different = kernels(lambda: found.append(np.asarray(run(200)[0])))
    assert np.allclose(found[0], expected[0])
    assert different <= 3
    assert count == 1 if limit is None else 1000 // (limit + 5) <= count <= 1 + 1000 // limit


def test_what_nobody_asks_for_in_a_loop_that_looks_at_other_values():
    def run(count):
        x, total = numbers(), numbers()
        for _ in range(count):
            total = total * 0.5 + x
            x = x + 1
            bool(xp.all(x > 0))
        return total

    run(10)
    few, different = kernels(lambda: float(run(100)[0]))
    assert different <= 8
    assert few < 250


def test_reference_rules():
    x = numbers()
    y = x + 1
    xp.policy.keep = False
    float(xp.sum(y))
    assert is_evaluated(y) == [False]
    xp.policy.keep = True
    dr.eval(xp.sum(y))
    assert is_evaluated(y) == [False]
    flat = Float64(1, 2) + 1
    flat_sum = dr.sum(flat)
    assert flat_sum[0] == 5
    assert flat.state is dr.VarState.Unevaluated


def test_what_is_much_larger_than_all_it_is_computed_from_is_not_stored():
    x = numbers(2048)
    pairs = x[:, None] - x[None, :]
    assert float(xp.sum(pairs * pairs)) > 0
    assert is_evaluated(pairs) == [False]


def test_parts_are_read_with_the_whole():
    x = numbers() + 1
    part, column = x[10:20], x[:, None]
    assert float(xp.sum(part) + xp.sum(column)) > 0
    assert is_evaluated(x, part, column) == [True, False, True]  # the same elements in the same order: the same node


def test_derivatives_are_kept():
    x = numbers()
    dr.enable_grad(x)
    y = x * x
    z = xp.sum(y)
    float(z)
    assert is_evaluated(y) == [True]
    dr.backward(z)
    assert np.allclose(np.asarray(dr.grad(x)), 2 * np.linspace(0.1, 1, 100))


def test_long_programs_with_derivatives():
    xp.policy.limit = 16
    x = start = numbers()
    dr.enable_grad(start)
    for _ in range(50):
        x = x * 0.99 + 0.001
    dr.backward(xp.sum(x))
    assert np.allclose(np.asarray(dr.grad(start)), 0.99 ** 50)


def test_bodies_of_symbolic_loops_are_not_cut():
    xp.policy.limit = 4
    x = numbers()

    def body(i, x):
        for _ in range(8):
            x = xp.sin(x) + 1
        return i + 1, x

    _, found = dr.while_loop((UInt32(0), x), lambda i, x: i < 3, body)
    expected = np.linspace(0.1, 1, 100)
    for _ in range(24):
        expected = np.sin(expected) + 1
    assert np.allclose(np.asarray(found), expected)


def test_frozen_functions_are_not_cut():
    xp.policy.limit = 4

    def function(x):
        for _ in range(8):
            x = xp.sin(x) + 1
        return x

    expected = np.asarray(function(numbers()))
    frozen = dr.freeze(function)
    for _ in range(3):
        assert np.allclose(np.asarray(frozen(numbers())), expected)
    assert frozen.n_recordings == 1


def test_arrays_that_are_written_in_place():
    x = numbers()
    for _ in range(10):
        x += 1
        y = x * 2
        x[0] = 0
        assert float(xp.sum(y)) > 0
        assert is_evaluated(y) == [True]
    assert float(x[0]) == 0
    assert float(x[1]) > 10


def test_memory_does_not_grow():
    xp.policy.limit = None
    from drjit.array_api import _evaluation as evaluation

    x = numbers()
    for _ in range(5000):
        x + 1
    x = xp.asarray([1.0])
    assert float(xp.sum(x + 1)) == 2
    assert len(evaluation.__dict__.get("_recent", [])) < 5000


@pytest.mark.parametrize(("name", "value", "error"), [("keep", 1, TypeError), ("limit", 0, ValueError),
                                                      ("limit", 1.5, ValueError), ("other", 1, AttributeError)])
def test_bad_policies(name, value, error):
    with pytest.raises(error, match=name):
        setattr(xp.policy, name, value)


@pytest.mark.skipif(not COMPILED, reason="all is traced in the plain form")
@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64", "uint64", "float32", "float64", "complex64"])
def test_elements_of_what_is_in_memory_take_no_kernel(dtype):
    xp.policy.eager = 8192
    values = (np.arange(12_000).reshape(20, 30, 20) * (1 + 2j) - 5000).astype(dtype) if dtype == "complex64" else \
        (np.arange(12_000).reshape(20, 30, 20) % 251).astype(dtype)
    x = xp.asarray(values)
    views = [(x, values), (x[::2, :, ::-1], values[::2, :, ::-1]), (x.T, values.T), (x.real, values.real)]
    if dtype == "complex64":
        views.append((x.imag[1:], values.imag[1:]))
    found = []
    assert kernels(lambda: found.extend(view[3, -4, 5] for view, _ in views)) == (0, 0)
    assert [np.asarray(one).tolist() for one in found] == [expected[3, -4, 5].tolist() for _, expected in views]
    assert {one.dtype for one in found[:3]} == {values.dtype}
    before = x[3, 4, 5]
    x[3, 4, 5] = 1
    assert (before.item(), x[3, 4, 5].item()) == (values[3, 4, 5], 1)
    with pytest.raises(IndexError):
        x[20, 0, 0]


@pytest.mark.skipif(not COMPILED, reason="all is traced in the plain form")
@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64", "uint64", "float32", "float64", "complex64"])
def test_elements_of_what_is_in_memory_are_written_without_a_kernel(dtype):
    xp.policy.eager = 8192
    values = (np.arange(12_000).reshape(20, 30, 20) % 251).astype(dtype)
    number = 1 - 2j if dtype == "complex64" else True if dtype == "bool" else 7
    for array in (values, np.zeros_like(values)):
        expected = array.copy()
        x = xp.asarray(array) if array.any() else xp.zeros(array.shape, dtype=getattr(xp, dtype))
        copied, shown = xp.asarray(x, copy=True), x[3:, ::-1]

        def write(x=x, shown=shown):
            x[3, 4, 5] = number
            x[-1, 0, 0] = x[3, 4, 5]
            shown[2, 1, -1] = number

        assert kernels(write)[0] == (0 if array.any() else len(x._parts))  # memory of constants is filled
        expected[3, 4, 5] = expected[-1, 0, 0] = expected[3:, ::-1][2, 1, -1] = number
        np.testing.assert_array_equal(np.asarray(x), expected)
        np.testing.assert_array_equal(np.asarray(shown), expected[3:, ::-1])
        np.testing.assert_array_equal(np.asarray(copied), array)
        with pytest.raises(IndexError):
            x[20, 0, 0] = number
    if dtype == "complex64":
        x.imag[0, 0, 1] = 5
        assert x[0, 0, 1].item() == 5j
    if dtype == "int64":
        x[0, 0, 0] = 2.7  # is cut off, by the way of all others
        x[0, 0, 1] = xp.asarray(3, dtype=xp.uint8)
        assert np.asarray(x)[0, 0, :2].tolist() == [2, 3]
        with pytest.raises((OverflowError, ValueError, TypeError)):
            x[0, 0, 0] = 2**70


def test_elements_of_what_derivatives_are_tracked_of_have_some():
    xp.policy.eager = 8192
    x = xp.asarray(np.linspace(0, 1, 10_000))
    dr.enable_grad(x)
    dr.backward(x[5] * 3 + x[-1])
    gradient = np.asarray(dr.grad(x))
    assert (gradient[5], gradient[-1], gradient.sum()) == (3, 1, 4)


@pytest.mark.skipif(not COMPILED, reason="all is traced in the plain form")
@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64", "float32", "complex64"])
def test_few_elements_of_what_is_in_memory_take_no_kernel(dtype):
    """They are read and written there: by arrays of positions, masks, slices, and through views."""
    xp.policy.eager = 8192
    values = (np.arange(24_000).reshape(40, 30, 20) % 251).astype(dtype)
    some = np.arange(5).astype(dtype)
    x, expected = xp.asarray(values), values.copy()
    copied, shown, turned = xp.asarray(x, copy=True), x[3:, ::-1], x.T
    i, j, mask = np.array([5, 0, -1, 7, 5]), np.array([[1], [2]]), np.arange(30) % 7 == 1
    keys = [(3, i, 4), (i, 2, i), (slice(2, 4), mask, 1), (j, i, 3), (0, slice(None, None, 3), 5), ([1, 2], 3),
            (slice(0, 1), ..., 2), 7, (i, None, 3, 2)]

    def access():
        found = []
        for key in keys:
            entries = key if type(key) is tuple else (key,)
            for part, other in ((x, expected), (shown, expected[3:, ::-1]), (turned, expected.T)):
                try:
                    wanted = other[key]
                except IndexError:  # masks of other axes
                    continue
                ours = tuple([xp.asarray(entry) if isinstance(entry, np.ndarray) else entry for entry in entries])
                found.append((part[ours] + 0 if dtype != "bool" else part[ours] ^ False, wanted.copy()))
                other[key] = number = np.ones((), dtype).item()
                part[ours] = number
                if wanted.shape[-1:] == (5,):
                    other[key] = some
                    part[ours] = xp.asarray(some)
        return found

    found = []
    assert kernels(lambda: found.extend(access()))[0] == 0
    for one, other in found:
        np.testing.assert_array_equal(np.asarray(one), other)
    np.testing.assert_array_equal(np.asarray(x), expected)
    np.testing.assert_array_equal(np.asarray(shown), expected[3:, ::-1])
    np.testing.assert_array_equal(np.asarray(copied), values)


def test_few_elements_keep_what_is_computed_of_them_before_and_derivatives():
    xp.policy.eager = 8192
    x = xp.asarray(np.zeros(10_000))
    before, row = x + 1, x[:3]
    x[xp.asarray([0, 2])] = xp.asarray([5.0, 7.0])
    assert before[:3].tolist() == [1, 1, 1] and row.tolist() == [5, 0, 7]
    row += xp.asarray([1.0, 1.0, 1.0])
    assert x[:4].tolist() == [6, 1, 8, 0]
    tracked = xp.asarray(np.zeros(10_000))
    dr.enable_grad(tracked)
    dr.backward(xp.sum(tracked[xp.asarray([4, 4])] * 3 + tracked[4:6]))
    assert dr.grad(tracked)[3:7].tolist() == [0, 7, 1, 0]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("part", [lambda x: x, lambda x: x[:, 3:20], lambda x: x[::2], lambda x: x.T])
def test_products_of_matrices_and_their_transposes_take_no_kernel(part, dtype):
    xp.policy.eager = 8192
    values = np.random.default_rng(0).normal(size=(600, 40)).astype(dtype)
    x = xp.asarray(values)
    whole, expected = part(x), part(values)
    found = []
    assert kernels(lambda: found.append(whole.T @ whole))[0] == 0
    found = np.asarray(found[0])
    # Sums of 600 products or fewer, each of numbers of order 1, in another order than NumPy's may be.
    tolerance = 1e-10 if dtype == "float64" else 1e-3
    np.testing.assert_allclose(found, expected.T @ expected, rtol=0, atol=tolerance)
    np.testing.assert_allclose(found, found.T, rtol=0, atol=tolerance)
    x[0, 5] = values[0, 5] = 3
    np.testing.assert_allclose(np.asarray(whole.T @ whole), expected.T @ expected, rtol=0, atol=tolerance)
    dr.enable_grad(x)
    dr.backward(xp.sum(part(x).T @ part(x)))
    sums = 2 * expected.sum(axis=1, dtype="float64")[:, None] * np.ones(expected.shape)
    np.testing.assert_allclose(part(np.asarray(dr.grad(x))), sums, rtol=0, atol=tolerance)


@pytest.mark.parametrize("given_before", [False, True])
def test_rows_agree_with_their_tensors_once_others_have_tensors_of_the_whole(given_before):
    xp.policy.eager = 8192
    x = xp.asarray(np.arange(20_000.0).reshape(200, 100))
    tensor = x.tensor if given_before else None
    row = x[2]
    assert row.tolist()[:2] == [200, 201]
    tensor = x.tensor
    tensor[2, 0] = -5
    assert x[2, 0].item() == -5
    found = [row.tolist()[0], (row + 0)[0].item(), float(row.tensor.array[0]), float(np.asarray(row)[0])]
    assert found in ([200] * 4, [-5] * 4)


def test_rows_of_what_is_in_memory_follow_it():
    xp.policy.eager = 8192
    x = xp.asarray(np.arange(20_000.0).reshape(200, 100))
    row, part = x[2], x[2][10:12]
    assert (row + 1)[:2].tolist() == [201, 202] and part.tolist() == [210, 211]
    x += 1  # is not in memory any more
    assert (row + 1)[:2].tolist() == [202, 203] and (part * 2).tolist() == [422, 424]
    dr.eval(x)
    row *= 2
    part[0] = -1
    assert x[2, :2].tolist() == [402, 404] and row[9:12].tolist() == [420, -1, 424]
    late = x[3]
    assert (late * 1)[0].item() == 301
    dr.enable_grad(x)
    dr.backward(xp.sum(late * 3))
    assert dr.grad(x)[3, :2].tolist() == [3, 3] and dr.grad(x)[2, 0].item() == 0
    z = xp.asarray(np.arange(20_000) * (1 + 2j))
    few = z[3:5]
    few.imag[1] = 0
    assert (few + 1).tolist() == [4 + 6j, 5] and few.real.tolist() == [3, 4] and z[4].item() == 4
