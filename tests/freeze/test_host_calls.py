"""Functions that NumPy computes, within frozen functions: replays compute them again, between their launches."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

import drjit as dr
import drjit.array_api as xp
import drjit.numpy as np_
from drjit._freeze.format import Refused, written
from drjit.llvm.ad import Float, TensorXf

RNG = np.random.default_rng(3)


def matrices(shape: tuple[int, ...], dtype: Any) -> Any:
    """Matrices that are neither singular nor far from symmetric ones."""
    found = RNG.standard_normal(shape) + 4 * np.eye(shape[-2], shape[-1])
    if np.dtype(dtype).kind == "c":
        found = found + 1j * RNG.standard_normal(shape)
    return found.astype(dtype)


def positive(a: Any) -> Any:
    return xp.matmul(a, xp.conj(xp.matrix_transpose(a)))


#: What is frozen, with operations before and after.
FUNCTIONS = {
    "inv": lambda a: xp.linalg.inv(a + 1) * 2,
    "solve": lambda a: xp.linalg.solve(a, a[..., :1] + 1),
    "det": lambda a: xp.linalg.det(a) + 1,
    "slogdet": lambda a: tuple(xp.linalg.slogdet(a)),
    "cholesky": lambda a: xp.linalg.cholesky(positive(a)),
    "qr": lambda a: xp.matmul(*xp.linalg.qr(a)),
    "svd": lambda a: xp.linalg.svdvals(a),
    "eigh": lambda a: xp.linalg.eigh(positive(a)).eigenvalues,
    "eigvals": lambda a: xp.linalg.eigvals(a),
    "pinv": lambda a: xp.linalg.pinv(a),
    "rank": lambda a: xp.linalg.matrix_rank(a),
    "fft": lambda a: xp.fft.fft(a * 2),
    "round trip": lambda a: xp.fft.ifft(xp.fft.fft(a) * 0.5),
    "fftn": lambda a: xp.abs(xp.fft.fftn(a)),
    "several": lambda a: (xp.linalg.inv(xp.linalg.inv(a) + 1), xp.fft.fft(xp.linalg.inv(a))),
}


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_replays_compute_it_again(name: str, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xp.policy, "eager", 0)  # NumPy's functions may round in another way
    function = FUNCTIONS[name]
    frozen = dr.freeze(function)
    calls = 0
    for shape in ((3, 3), (3, 3), (4, 4), (3, 3), (2, 3, 3), (2, 3, 3), (30, 30), (30, 30)):
        given = matrices(shape, dtype)
        found, expected = frozen(xp.asarray(given)), function(xp.asarray(given))
        calls += 1
        for one, other in zip(*[each if isinstance(each, tuple) else (each,) for each in (found, expected)],
                              strict=True):
            assert one.dtype == other.dtype and one.shape == other.shape
            np.testing.assert_array_equal(np.asarray(one), np.asarray(other))
    assert frozen.n_recordings == 4 < calls


def test_results_of_earlier_calls_stay() -> None:
    frozen = dr.freeze(lambda a: xp.linalg.inv(a))
    given = [xp.asarray(matrices((40, 40), "float32")) for _ in range(4)]
    found = [frozen(a) for a in given]
    for a, inverse in zip(given, found, strict=True):
        np.testing.assert_array_equal(np.asarray(inverse), np.asarray(xp.linalg.inv(a)))
    found[3][0, 0] = 7.0
    again = frozen(given[3])
    assert float(again[0, 0]) == float(xp.linalg.inv(given[3])[0, 0])
    assert frozen.n_recordings == 1


def test_results_may_be_written_to() -> None:
    def function(a: Any) -> Any:
        found = xp.linalg.inv(a)
        found[0, :] = 1.0
        return found, xp.sum(found)

    frozen = dr.freeze(function)
    for _ in range(3):
        a = xp.asarray(matrices((3, 3), "float32"))
        for one, other in zip(frozen(a), function(a), strict=True):  # (eager sums of few elements are NumPy's)
            np.testing.assert_allclose(np.asarray(one), np.asarray(other), rtol=1e-5)
    assert frozen.n_recordings == 1


def test_derivatives() -> None:
    def loss(a: Any, b: Any) -> Any:
        return xp.sum(xp.linalg.solve(a, b) ** 2) + xp.sum(xp.abs(xp.fft.fft(b)))

    frozen = dr.freeze(loss)
    for _ in range(3):
        gradients = []
        a, b = matrices((4, 4), "float64"), RNG.standard_normal((4, 2))
        for function in (loss, frozen):
            x, y = xp.asarray(a), xp.asarray(b)
            dr.enable_grad(x, y)
            dr.backward(function(x, y))
            gradients.append([np.asarray(dr.grad(each)) for each in (x, y)])
        for one, other in zip(*gradients, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-12)
    assert frozen.n_recordings == 1


def test_a_step_of_an_optimisation() -> None:
    """The gradient is computed within the frozen function."""
    def step(x: Any, a: Any) -> Any:
        dr.enable_grad(x)
        loss = xp.sum((xp.linalg.inv(a * x) - 0.5) ** 2)
        dr.backward(loss)
        return dr.detach(x) - 0.01 * dr.grad(x), dr.detach(loss)

    frozen = dr.freeze(step)
    a = xp.asarray(matrices((3, 3), "float64"))
    x, y = xp.asarray(1.5, dtype=xp.float64), xp.asarray(1.5, dtype=xp.float64)
    for _ in range(5):
        (x, one), (y, other) = frozen(x, a), step(y, a)
        assert float(one) == float(other) and float(x) == float(y)
    assert frozen.n_recordings == 2  # of a number first, which then turns out to change


def test_what_raises_has_changed_nothing() -> None:
    def function(state: Any, a: Any) -> Any:
        state["count"] = state["count"] + 1
        state["inverse"] = xp.linalg.inv(a)
        return state["inverse"] + 1

    frozen, good = dr.freeze(function), xp.asarray(matrices((3, 3), "float32"))
    state = {"count": dr.opaque(Float, 0), "inverse": xp.zeros((3, 3))}
    for _ in range(2):
        frozen(state, good)
    before = np.asarray(state["inverse"])
    with pytest.raises(np.linalg.LinAlgError, match="ingular"):
        frozen(state, xp.zeros((3, 3)))
    assert state["count"].numpy()[0] == 2
    np.testing.assert_array_equal(np.asarray(state["inverse"]), before)
    frozen(state, good)
    assert state["count"].numpy()[0] == 3


def test_sizes_that_were_found() -> None:
    """Numbers of elements are read between launches, too."""
    def function(a: Any, x: Any) -> Any:
        kept = dr.gather(Float, x, dr.compress(x > 0))
        return xp.linalg.inv(a), dr.sum(kept), kept

    frozen = dr.freeze(function)
    for k in range(6):
        a, x = xp.asarray(matrices((3, 3), "float32")), Float(RNG.standard_normal(9 + k % 2))
        found, expected = frozen(a, x), function(a, x)
        np.testing.assert_array_equal(np.asarray(found[0]), np.asarray(expected[0]))
        assert found[1] == expected[1] and list(found[2]) == list(expected[2])


@pytest.mark.parametrize("size", [0, 1, 5])
def test_functions_of_ones_own(size: int) -> None:
    """Literals, arrays without elements, and results of other types."""
    def on_host(x: Any, y: Any) -> list[Any]:
        return [TensorXf(np.sort(x.numpy())), TensorXf(y.numpy() + 1)]

    def function(x: Any) -> Any:
        one, other = dr.detail.call_host(on_host, x * -1, TensorXf([2.0]))
        return one + 1, other * x

    frozen = dr.freeze(function)
    for k in range(4):
        x = TensorXf(np.arange(size, dtype=np.float32) + k)
        for one, other in zip(frozen(x), function(x), strict=True):
            assert one.shape == other.shape and one.numpy().tolist() == other.numpy().tolist()
    assert frozen.n_recordings == 1 + (size == 1)  # of a number first, which then turns out to change


def test_functions_that_make_something_else_are_recorded_again() -> None:
    calls = []

    def on_host(x: Any) -> Any:
        calls.append(x)
        return [TensorXf(np.ones(int(x[0]), np.float32)), "long" if x[0] > 2 else "short"]

    def function(x: Any) -> Any:
        found, text = dr.detail.call_host(on_host, x * 2)
        return found + 1, text, x + len(text)

    frozen = dr.freeze(function)
    for first, recordings in ((1.5, 1), (1.6, 1), (0.5, 2), (1.7, 2), (0.6, 2), (0.25, 3)):
        calls.clear()
        found, expected = frozen(TensorXf([first, 2, 1])), function(TensorXf([first, 2, 1]))
        assert found[0].numpy().tolist() == expected[0].numpy().tolist() and found[1] == expected[1]
        assert found[2].numpy().tolist() == expected[2].numpy().tolist()
        assert frozen.n_recordings == recordings


DECIDED = {
    "bincount": (lambda x: np_.bincount(x) * 2, [[3, 1, 2, 0], [1, 1, 0, 3], [5, 1, 1, 1], [3, 3, 3, 0]], 2),
    "trim_zeros": (lambda x: np_.trim_zeros(x) + 1, [[0, 1, 2, 0], [0, 3, 4, 0], [0, 0, 0, 0], [1, 2, 3, 0]], 3),
    "roots": (lambda x: np_.roots(x), [[1.0, -3, 2], [1.0, -5, 6], [0, 1.0, -2], [1.0, -7, 12]], 2),
    "polymul": (lambda x: np_.polymul(x, [1.0, 2]), [[1.0, 2], [3.0, 4], [0, 2.0]], 2),
    "eigvals": (lambda x: np_.linalg.eigvals(x), [np.diag([1.0, 2]), np.diag([3.0, 4]), [[0, 1.0], [-1, 0]]], 2),
    "eig": (lambda x: np_.linalg.eig(x).eigenvalues, [np.diag([1.0, 2]), np.diag([3.0, 4]), [[0, 1.0], [-1, 0]]], 2),
    "lstsq": (lambda x: np_.linalg.lstsq(x, x[:, 0])[:3], [
        np.eye(4, 3), np.eye(4, 3) + 1, np.ones((4, 3)), np.eye(4, 3) * 2], 2),
    "digitize": (lambda x: np_.digitize([0.5, 2.5], x), [[1.0, 2, 3], [0.0, 1, 5], [3.0, 2, 1]], 2),
    "sqrt": (lambda x: np_.emath.sqrt(x), [[1.0, 4], [9.0, 16], [-1.0, 4], [4.0, 9]], 2),
}


@pytest.mark.parametrize("name", DECIDED)
def test_what_is_decided_by_contents_is_recorded_once_for_each_decision(name: str) -> None:
    function, given, recordings = DECIDED[name]
    frozen = dr.freeze(function)
    for values in given:
        array = xp.asarray(np.asarray(values))
        for one, other in zip(*[each if isinstance(each, tuple) else (each,) for each in (
                frozen(array), function(array))], strict=True):
            assert getattr(one, "dtype", type(one)) == getattr(other, "dtype", type(other))
            np.testing.assert_allclose(np.asarray(one), np.asarray(other), rtol=1e-12, atol=1e-14)
    assert frozen.n_recordings == recordings


def test_files_hold_none(tmp_path: Any) -> None:
    frozen = dr.freeze(lambda a: xp.linalg.inv(a))
    frozen(xp.asarray(matrices((3, 3), "float32")))
    path = os.fspath(tmp_path / "inverse")
    with pytest.raises(RuntimeError, match=r"cannot be saved: it calls inv\(\) on the host between launches"):
        frozen.save(path)
    assert not os.path.exists(path)


def test_objects_without_a_name_are_refused_in_words(tmp_path: Any) -> None:
    generator = dr.rng(seed=1)
    frozen = dr.freeze(lambda x: {"kind": generator if x is None else None, "sum": x + 1})
    frozen(Float(1, 2))
    frozen.save(os.fspath(tmp_path / "without"))
    with pytest.raises(Refused, match="is an object of the type Philox4x32Generator, which a file cannot hold"):
        written(generator, "the result")


def test_arrays_of_the_standard_are_saved(tmp_path: Any) -> None:
    frozen = dr.freeze(lambda a, b: {"sum": xp.sum(a * b, axis=0), "above": a > b})
    a, b = xp.asarray(matrices((3, 4), "float32")), xp.asarray(matrices((3, 4), "float32"))
    expected = frozen(a, b)
    path = os.fspath(tmp_path / "sums")
    frozen.save(path)
    found = dr.load_frozen(path)(a, b)
    for name, value in expected.items():
        assert found[name].dtype == value.dtype
        np.testing.assert_array_equal(np.asarray(found[name]), np.asarray(value))


@pytest.mark.parametrize("function", [
    lambda a: a[[0, -1]], lambda a: a[:, [[1, 0], [0, 2]]], lambda a: a[[]], lambda a: np_.digitize(a, [0.2, 0.5, 0.8]),
    lambda a: np_.polyfit(a[:, 0], a[:, 1], 1)], ids=["rows", "columns", "no rows", "digitize", "polyfit"])
def test_numbers_of_the_host_are_no_contents(function: Any) -> None:
    frozen = dr.freeze(function)
    for seed in (1, 2, 3):
        a = xp.asarray(np.random.default_rng(seed).random((4, 3), dtype=np.float32))
        np.testing.assert_allclose(np.asarray(frozen(a)), np.asarray(function(a)), rtol=1e-4, atol=1e-5)
    assert frozen.n_recordings == 1
