"""Cooperative vectors and views: what they are made of, and what is refused."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import drjit as dr
from drjit import nn
from drjit.llvm import ad
from drjit.llvm.ad import Array2f, Array4f, ArrayXf, Float, Float16, TensorXf, TensorXf16, UInt


def vector() -> Any:
    return nn.CoopVec(Float(1, 2, 3), 2.0, Array2f(1, 2))


def test_arguments_are_flattened() -> None:
    v = nn.CoopVec({"a": Float(1, 2)}, [3, (4,)], (x for x in [5]), TensorXf([6, 7, 8, 9], (2, 2)),
                   nn.CoopVec(Float(1)))
    assert ArrayXf(v).numpy().tolist() == [[1, 2], [3, 3], [4, 4], [5, 5], [6, 7], [8, 9], [1, 1]]
    assert len(v) == 7 and v.type is Float and repr(v) == "drjit.nn.CoopVec[drjit.llvm.ad.Float, shape=(7, 2)]"
    assert TensorXf(vector()).shape == (4, 3) and Array4f(vector()).shape == (4, 3)
    assert nn.CoopVec(dr.llvm.Float(1), Float(2)).type is Float


@pytest.mark.parametrize(("args", "error"), [
    ((), RuntimeError), ((1, 2), TypeError), ((None,), RuntimeError), (("x",), RuntimeError),
    ((Float(1), UInt(1)), TypeError), ((Float(1, 2), Float(1, 2, 3)), RuntimeError)])
def test_what_is_no_component_is_refused(args: tuple[Any, ...], error: type[Exception]) -> None:
    with pytest.raises(error, match="CoopVec"):
        nn.CoopVec(*args)


FUNCTIONS: list[tuple[str, Callable[[Any], Any]]] = [
    ("sum", lambda v: v + v), ("number", lambda v: 2 - v), ("array", lambda v: Float(1, 2, 3) * v),
    ("quotient", lambda v: 1 / v), ("power", lambda v: v ** 2), ("negative", lambda v: -v),
    ("abs", lambda v: dr.abs(-v)),
    ("minimum", lambda v: dr.minimum(v, 1.5)), ("maximum", lambda v: dr.maximum(1.5, v)),
    ("fma", lambda v: dr.fma(v, 2, v)), ("exp2", dr.exp2), ("log2", dr.log2), ("tanh", dr.tanh), ("exp", dr.exp),
    ("step", lambda v: dr.step(1.5, v)), ("clip", lambda v: dr.clip(v, 1, 2)), ("lerp", lambda v: dr.lerp(v, 0, 0.25)),
    ("square", dr.square), ("copy", dr.copy), ("detach", dr.detach)]


@pytest.mark.parametrize(("name", "function"), FUNCTIONS)
def test_functions_are_those_of_the_components(name: str, function: Callable[[Any], Any]) -> None:
    v = vector()
    found = function(v)
    assert isinstance(found, nn.CoopVec) and found.type is Float
    expected = [function(x) for x in v]
    for x, y in zip(found, expected, strict=True):
        assert dr.allclose(x, y)


def test_reductions_and_casts() -> None:
    v = vector()
    assert dr.allclose(dr.dot(v, v), [10, 13, 18]) and dr.allclose(dr.sum(v), [6, 7, 8])
    assert dr.allclose(dr.norm(v), dr.sqrt(Float(10, 13, 18)))
    assert nn.cast(v, Float16).type is Float16 and len(nn.cast(v, TensorXf16)) == 4


def test_operands_that_do_not_fit_are_refused() -> None:
    v = vector()
    with pytest.raises(RuntimeError, match="different lengths"):
        v + nn.CoopVec(Float(1))
    with pytest.raises(RuntimeError, match="element types"):
        dr.minimum(v, nn.cast(v, Float16))
    with pytest.raises(TypeError):
        v + UInt(1)
    with pytest.raises(TypeError):
        v + "x"
    with pytest.raises(TypeError):
        v[0]
    with pytest.raises(TypeError):
        nn.cast(v, 1)


def test_derivatives_flow_through_vectors() -> None:
    x = Float(1, 2, 3)
    dr.enable_grad(x)
    a, b = nn.cast(nn.cast(dr.tanh(nn.CoopVec(x, 2) * x), ad.Float64), Float)
    dr.backward(a + b)
    t = np.tanh(np.array([1.0, 4, 9])), np.tanh(np.array([2.0, 4, 6]))
    assert np.allclose(x.grad.numpy(), (1 - t[0] ** 2) * [2, 4, 6] + (1 - t[1] ** 2) * 2, atol=1e-5)


def test_vectors_are_state_of_loops_and_results_of_calls() -> None:
    def body(i: Any, v: Any) -> Any:
        return i + 1, v * 2

    for mode in ("symbolic", "evaluated"):
        _, v = dr.while_loop((UInt(0), vector()), lambda i, v: i < 3, body, mode=mode)
        assert dr.allclose(next(iter(v)), [8, 16, 24])
    v = dr.switch(UInt(0, 1, 0), [lambda v: v, lambda v: -v], vector())
    assert dr.allclose(next(iter(v)), [1, -2, 3])
    assert dr.allclose(next(iter(dr.freeze(lambda v: v + 1)(vector()))), [2, 3, 4])
    assert repr(pickle.loads(pickle.dumps(vector()))) == repr(vector())


# --- views -----------------------------------------------------------------------------------------------------------

NUMBERS = np.arange(12, dtype=np.float32).reshape(3, 4)


def matrix() -> Any:
    return nn.view(TensorXf(NUMBERS))


@pytest.mark.parametrize("key", [1, -1, slice(1, None), (slice(None), 1), (slice(None, None, 2), slice(1, 3)),
                                 (slice(None, None, -1), slice(None)), (2, -1), (slice(0, 2), -2)])
def test_slices_are_those_of_numpy(key: Any) -> None:
    terms = key if isinstance(key, tuple) else (key,)
    rows, columns = (*terms, slice(None))[:2]
    expected = np.atleast_2d(NUMBERS[rows])[:, columns] if not isinstance(columns, int) else \
        np.atleast_2d(NUMBERS[rows])[:, columns][:, None]
    found = matrix()[key]
    assert np.array_equal(TensorXf(found).numpy(), expected) and found.shape == expected.shape
    assert np.array_equal(TensorXf(found.T).numpy(), expected.T)
    assert np.array_equal(TensorXf(nn.unpack(nn.pack(found))).numpy(), expected)
    x = [Float(k + 1) for k in range(expected.shape[1])]
    assert np.allclose([y.numpy()[0] for y in found @ nn.CoopVec(x)], expected @ np.arange(1, len(x) + 1))


def test_views_show_their_buffer() -> None:
    t = TensorXf(NUMBERS)
    view = nn.view(t)
    assert view.buffer is t.array and nn.view(Float(1, 2)).shape == (2, 1)
    assert (view.layout, view.stride, view.size, view.offset) == ("row_major", 4, 12, 0)
    assert view.dtype == dr.VarType.Float32 and "shape=(3, 4)" in repr(view)
    assert pickle.loads(pickle.dumps(view[1:])).offset == 4


@pytest.mark.parametrize(("key", "error"), [
    (5, IndexError), ((0, -5), IndexError), ((slice(None), slice(None, None, 2)), RuntimeError),
    (slice(3, 3), RuntimeError), ((0, 0, 0), RuntimeError), ("x", RuntimeError)])
def test_slices_that_are_none_are_refused(key: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="MatrixView"):
        matrix()[key]


def test_what_has_no_view_is_refused() -> None:
    for value, error in ((dr.full(TensorXf, 1, (1, 1, 1)), RuntimeError), (Array2f(1), RuntimeError), ([1], TypeError)):
        with pytest.raises(error, match="view"):
            nn.view(value)
    with pytest.raises(TypeError):
        nn.MatrixView()
    packed = nn.pack(matrix())
    with pytest.raises(RuntimeError, match="slice before packing"):
        packed[0]
    with pytest.raises(TypeError, match="unpack"):
        TensorXf(packed)
    with pytest.raises(RuntimeError, match="layout"):
        nn.pack(matrix(), layout="x")
    with pytest.raises(TypeError, match="different types"):
        nn.pack(matrix(), Float16(1))


def test_views_whose_buffer_has_become_smaller_are_refused() -> None:
    """A function of PyTrees may put other buffers into views, which have the elements no more."""
    small = dr.gather(nn.MatrixView, nn.view(matrix()), UInt(0, 1, 2))
    x = nn.CoopVec(1, 2, 3, Float(4))
    for arguments in ((small, x), (nn.view(matrix()), x, small[:, 0])):
        with pytest.raises(IndexError, match=r"drjit.nn.matvec\(\): a matrix of .* memory, an array of size 3"):
            nn.matvec(*arguments)


def test_packing_keeps_the_structure() -> None:
    assert nn.pack() == ()
    found = nn.pack({"a": matrix().T, "b": [Float(1, 2), 3]}, layout="training")
    assert found["a"].layout == "training" and found["b"][0].layout == "row_major" and found["b"][1] == 3
    assert found["a"].buffer is found["b"][0].buffer and found["b"][0].offset == 12
    first, second = nn.pack(matrix(), Float(1))
    assert first.buffer is second.buffer


def test_gradients_of_a_buffer_reach_what_was_packed() -> None:
    a, b = TensorXf(NUMBERS), Float(1, 2)
    dr.enable_grad(a)
    A, B = nn.pack(nn.view(a)[1:], b)
    dr.backward(A.buffer * dr.arange(Float, 10))
    assert np.array_equal(a.grad.numpy().ravel(), [0] * 4 + list(range(8)))
    assert not dr.grad_enabled(b) and nn.view(a).grad.shape == (3, 4) and B.shape == (2, 1)


def test_values_of_products_are_used_after_the_next_one() -> None:
    """Small integers: exact. What a product gives is needed by the next one, by what comes after that, and at the end
    of chains of operations that are longer than what is written late."""
    a, b, c = (np.array([[(3 * i + k * j) % 5 - 2 for j in range(3)] for i in range(3)], np.float32) for k in (1, 2, 4))
    x = np.array([[(7 * i + j) % 9 - 4 for j in range(37)] for i in range(3)], np.float32)
    A, B, C = nn.pack(*(TensorXf(m) for m in (a, b, c)))
    vector = nn.matvec(A, nn.CoopVec([Float(row) for row in x]))
    first, second = list(vector), list(nn.matvec(B, dr.maximum(vector, 0)))
    long, long_ = second[0], (b @ np.maximum(a @ x, 0))[0]
    for number in range(40):
        long, long_ = dr.maximum(long + 1, number - 20), np.maximum(long_ + 1, number - 20)
    third = nn.matvec(C, nn.CoopVec(long, first[2], second[1]))
    found = nn.CoopVec([y + z for y, z in zip(third, first, strict=True)], second)
    y, z = a @ x, b @ np.maximum(a @ x, 0)
    expected = np.concatenate([c @ np.stack([long_, y[2], z[1]]) + y, z])
    np.testing.assert_array_equal(ArrayXf(found).numpy(), expected)


@pytest.mark.parametrize("type_", [Float16, Float, ad.Float64])
@pytest.mark.parametrize("count", [1, 37])
def test_rectified_values_keep_nan_and_have_positive_zeros(type_: Any, count: int) -> None:
    values = np.resize([np.nan, -0.0, 0.0, -1.0, 2.0, np.inf, -np.inf], count)
    found = nn.ReLU()(type_(values)).numpy()
    np.testing.assert_array_equal(found, np.maximum(values, 0.0))
    assert not np.signbit(found[found == 0]).any()
