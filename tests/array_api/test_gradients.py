"""Gradients through every differentiable function of the namespace: reverse and forward mode against differences.

A table says how each function is called; what is in neither table fails the last test. Hypothesis chooses shapes and
values, which keep away from kinks, poles and branch cuts.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

import drjit as dr
import drjit.array_api as xp

L, F = xp.linalg, xp.fft


class Case(NamedTuple):
    """How a function is called: with arrays of some shapes, whose elements are in a range."""

    call: Callable[..., Any]
    shapes: Callable[[Any], list[tuple[int, ...]]]
    low: float = -1.5
    high: float = 1.5
    kinds: str = "fc"
    matrix: str = ""  # "hermitian", "positive": what matrices are made
    invariant: bool = False  # only magnitudes of results are well-defined


def shape(draw: Any, least: int = 0, most: int = 3, empty: bool = True) -> tuple[int, ...]:
    """A shape, rarely of no elements."""
    sizes = st.integers(0 if empty and draw(st.integers(0, 9)) == 0 else 1, 4)
    return tuple(draw(st.lists(sizes, min_size=least, max_size=most)))


def one(draw: Any) -> list[tuple[int, ...]]:
    """An array of any shape."""
    return [shape(draw)]


def axes(draw: Any) -> list[tuple[int, ...]]:
    """An array with an axis at least, and elements."""
    return [shape(draw, 1, empty=False)]


def two(draw: Any) -> list[tuple[int, ...]]:
    """Arrays that are broadcast against each other."""
    full = shape(draw)
    other = tuple(1 if draw(st.booleans()) else size for size in full)
    shapes = [full, other[draw(st.integers(0, len(other))):]]
    return shapes if draw(st.booleans()) else shapes[::-1]


def fixed(*shapes: tuple[int, ...]) -> Callable[[Any], list[tuple[int, ...]]]:
    """Arrays of these shapes."""
    return lambda draw: list(shapes)


def square(draw: Any) -> list[tuple[int, ...]]:
    """A stack of square matrices."""
    size = draw(st.integers(1, 3))
    return [(*draw(st.sampled_from([(), (2,), (0,)])), size, size)]


def pair(draw: Any) -> list[tuple[int, ...]]:
    """Matrices to be multiplied, or vectors."""
    rows, inner, columns = (draw(st.integers(1, 4)) for _ in range(3))
    return draw(st.sampled_from([[(rows, inner), (inner, columns)], [(inner,), (inner, columns)], [(inner,), (inner,)],
                                 [(2, rows, inner), (inner,)], [(2, 1, rows, inner), (3, inner, columns)]]))


INDEX = np.array([2, 0, 0, -1])

#: How functions are called; a list for several ways.
DIFFERENTIABLE: dict[str, Case | list[Case]] = {
    **{name: Case(getattr(xp, name), one) for name in (
        "sin", "cos", "sinh", "tanh", "exp", "expm1", "positive", "negative", "square", "conj", "real", "imag")},
    "reciprocal": [Case(xp.reciprocal, one, 0.5, 2), Case(xp.reciprocal, one, -2, -0.5, "f")],
    "cosh": Case(xp.cosh, one), "tan": Case(xp.tan, one, -0.7, 0.7),
    "abs": [Case(xp.abs, one, 0.2, 2), Case(xp.abs, one, -2, -0.2)],
    "acos": [Case(xp.acos, one, -0.8, 0.8, "f"), Case(xp.acos, one, 0.2, 0.8, "c")],
    "asin": [Case(xp.asin, one, -0.8, 0.8, "f"), Case(xp.asin, one, 0.2, 0.8, "c")],
    "atan": [Case(xp.atan, one, kinds="f"), Case(xp.atan, one, 0.2, 0.7, "c")],
    "acosh": [Case(xp.acosh, one, 1.2, 3, "f"), Case(xp.acosh, one, 0.3, 1.5, "c")],
    "asinh": [Case(xp.asinh, one, kinds="f"), Case(xp.asinh, one, 0.2, 0.7, "c")],
    "atanh": [Case(xp.atanh, one, -0.8, 0.8, "f"), Case(xp.atanh, one, 0.2, 0.7, "c")],
    **{name: Case(getattr(xp, name), one, 0.3, 3) for name in ("log", "log2", "log10", "log1p", "sqrt")},
    "add": Case(xp.add, two), "subtract": Case(xp.subtract, two), "multiply": Case(xp.multiply, two),
    "divide": Case(xp.divide, two, 0.5, 2), "pow": Case(xp.pow, two, 0.5, 2),
    "atan2": Case(xp.atan2, two, 0.3, 2, "f"), "hypot": Case(xp.hypot, two, 0.3, 2, "f"),
    "logaddexp": Case(xp.logaddexp, two, kinds="f"), "copysign": Case(xp.copysign, two, 0.3, 2, "f"),
    "maximum": Case(xp.maximum, two, kinds="f"), "minimum": Case(xp.minimum, two, kinds="f"),
    "remainder": Case(lambda a, b: xp.remainder(a, b + 7), two, 0.3, 2, "f"),
    "clip": Case(lambda a: xp.clip(a, -0.5, 0.7), one, kinds="f"),
    "where": Case(lambda a, b: xp.where(xp.real(a) > 0, a, b), two),
    "astype": Case(lambda a: xp.astype(a, xp.complex128), one), "asarray": Case(xp.asarray, one),
    "full": Case(lambda a: xp.full((2, 3), a), fixed(())), "full_like": Case(
        lambda a: xp.full_like(xp.zeros((2, 3), dtype=a.dtype), a), fixed(())),
    "meshgrid": Case(lambda a, b: xp.meshgrid(a, b), fixed((2,), (3,))),
    "tril": Case(lambda a: xp.tril(a, k=1), square), "triu": Case(lambda a: xp.triu(a, k=-1), square),
    "broadcast_to": Case(lambda a: xp.broadcast_to(a, (2, 3, 4)), fixed((3, 1))),
    "broadcast_arrays": Case(lambda a, b: xp.broadcast_arrays(a, b), two),
    "concat": [Case(lambda a, b: xp.concat([a, b], axis=1), fixed((2, 3), (2, 1))),
               Case(lambda a, b: xp.concat([a, b], axis=None), fixed((2, 3), (0, 1)))],
    "stack": Case(lambda a, b: xp.stack([a, b], axis=-1), fixed((2, 3), (2, 3))),
    "unstack": Case(lambda a: xp.unstack(a, axis=-1), axes),
    "expand_dims": Case(lambda a: xp.expand_dims(a, axis=0), one),
    "squeeze": Case(lambda a: xp.squeeze(a, axis=(0, 2)), fixed((1, 3, 1))), "flip": Case(xp.flip, one),
    "moveaxis": Case(lambda a: xp.moveaxis(a, 0, -1), fixed((2, 3, 4))),
    "permute_dims": Case(lambda a: xp.permute_dims(a, (2, 0, 1)), fixed((2, 3, 4))),
    "transpose": Case(xp.transpose, fixed((2, 3, 4))),
    "repeat": [Case(lambda a: xp.repeat(a, 2, axis=0), axes),
               Case(lambda a: xp.repeat(a, xp.asarray([1, 0, 2])), fixed((3,)))],
    "reshape": Case(lambda a: xp.reshape(a, (-1,)), axes), "roll": Case(lambda a: xp.roll(a, 1, axis=0), axes),
    "tile": Case(lambda a: xp.tile(a, (2, 1)), axes),
    "take": Case(lambda a: xp.take(a, xp.asarray(INDEX), axis=1), fixed((2, 3))),
    "take_along_axis": Case(lambda a: xp.take_along_axis(a, xp.asarray(INDEX[None]), axis=1), fixed((2, 3))),
    "sum": [Case(xp.sum, one), Case(lambda a: xp.sum(a, axis=(0, -1), keepdims=True), fixed((2, 3, 4)))],
    "prod": [Case(xp.prod, one, 0.5, 2), Case(lambda a: xp.prod(a, axis=0), axes, 0.5, 2)],
    "mean": [Case(xp.mean, axes), Case(lambda a: xp.mean(a, axis=-1, keepdims=True), axes)],
    "var": Case(lambda a: xp.var(a, axis=0, correction=1), fixed((4, 3)), kinds="f"),
    "std": Case(lambda a: xp.std(a, axis=0), fixed((4, 3)), kinds="f"),
    "max": Case(lambda a: xp.max(a, axis=0), fixed((4, 3)), kinds="f"), "min": Case(xp.min, fixed((4, 3)), kinds="f"),
    "cumulative_sum": Case(lambda a: xp.cumulative_sum(a, axis=0, include_initial=True), axes),
    "cumulative_prod": Case(lambda a: xp.cumulative_prod(a, axis=0), axes, 0.5, 2),
    "diff": Case(lambda a: xp.diff(a, axis=0, n=2), fixed((4, 2))),
    "sort": Case(lambda a: xp.sort(a, axis=0, descending=True), fixed((4, 3)), kinds="f"),
    "matmul": Case(xp.matmul, pair), "matrix_transpose": Case(xp.matrix_transpose, square),
    "tensordot": Case(lambda a, b: xp.tensordot(a, b, axes=((1, 0), (0, 2))), fixed((2, 3, 4), (3, 2, 2))),
    "vecdot": Case(xp.vecdot, fixed((2, 3), (3,))),
    "linalg.cross": Case(L.cross, fixed((2, 3), (3,))), "linalg.outer": Case(L.outer, fixed((2,), (3,))),
    "linalg.diagonal": Case(lambda a: L.diagonal(a, offset=1), fixed((2, 3, 4))), "linalg.trace": Case(L.trace, square),
    "linalg.det": Case(L.det, square, matrix="regular"), "linalg.inv": Case(L.inv, square, matrix="regular"),
    "linalg.slogdet": Case(L.slogdet, square, matrix="regular"),
    "linalg.solve": Case(L.solve, fixed((3, 3), (2, 3, 2)), matrix="regular"),
    "linalg.cholesky": Case(L.cholesky, square, matrix="positive"),
    "linalg.eigh": Case(L.eigh, fixed((3, 3)), matrix="hermitian", invariant=True),
    "linalg.eigvalsh": Case(L.eigvalsh, fixed((2, 3, 3)), matrix="hermitian"),
    "linalg.eig": Case(L.eig, fixed((3, 3)), matrix="regular", invariant=True),
    "linalg.eigvals": Case(lambda a: xp.sum(L.eigvals(a) ** 3), fixed((3, 3)), matrix="regular"),
    "linalg.qr": [Case(L.qr, fixed((4, 3)), matrix="regular"), Case(L.qr, fixed((2, 3, 4)), matrix="regular"), Case(
        lambda a: L.qr(a, mode="complete"), fixed((3, 3)), matrix="regular")],
    "linalg.svd": Case(lambda a: L.svd(a, full_matrices=False), fixed((4, 3)), matrix="regular", invariant=True),
    "linalg.svdvals": Case(L.svdvals, fixed((3, 4)), matrix="regular"), "linalg.pinv": Case(
        L.pinv, fixed((4, 3)), matrix="regular"),
    "linalg.matrix_power": [Case(lambda a: L.matrix_power(a, 3), square),
                            Case(lambda a: L.matrix_power(a, -2), fixed((2, 2)), matrix="regular")],
    "linalg.matrix_norm": [Case(L.matrix_norm, fixed((2, 3, 2)), 0.3), Case(
        lambda a: L.matrix_norm(a, ord="nuc"), fixed((3, 2)), matrix="regular"), Case(
        lambda a: L.matrix_norm(a, ord=1), fixed((3, 2)), 0.3)],
    "linalg.vector_norm": [Case(L.vector_norm, axes, 0.3), Case(lambda a: L.vector_norm(a, ord=3, axis=0), axes, 0.3),
                           Case(lambda a: L.vector_norm(a, ord=math.inf), axes, 0.3, kinds="f")],
    **{f"linalg.{name}": Case(getattr(L, name), fixed((2, 3), (2, 3))) for name in ("vecdot",)},
    "linalg.matmul": Case(L.matmul, pair), "linalg.matrix_transpose": Case(L.matrix_transpose, square),
    "linalg.tensordot": Case(L.tensordot, fixed((2, 3, 4), (3, 4, 2))),
    **{f"fft.{name}": Case(functools.partial(getattr(F, name), norm="ortho"), axes) for name in (
        "fft", "ifft", "fftn", "ifftn")},
    **{f"fft.{name}": Case(getattr(F, name), axes, kinds="f") for name in ("rfft", "rfftn", "ihfft")},
    **{f"fft.{name}": Case(getattr(F, name), fixed((2, 4)), kinds="c") for name in ("irfft", "irfftn", "hfft")},
    "fft.fftshift": Case(F.fftshift, axes), "fft.ifftshift": Case(F.ifftshift, axes),
}
#: Functions that have no derivative to check, and why.
OTHERS = {
    "no arrays of numbers are given":
        "arange linspace empty empty_like eye ones ones_like zeros zeros_like fft.fftfreq fft.rfftfreq finfo iinfo "
        "isdtype can_cast result_type broadcast_shapes __array_namespace_info__ from_dlpack",
    "results are integers or Booleans":
        "all any argmax argmin argsort count_nonzero equal greater greater_equal isfinite isin isinf isnan less "
        "less_equal logical_and logical_not logical_or logical_xor nonzero not_equal searchsorted signbit bitwise_and "
        "bitwise_invert bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor linalg.matrix_rank unique_all "
        "unique_counts unique_inverse unique_values",
    "the derivative is zero": "ceil floor floor_divide nextafter round sign trunc",
}


def made(case: Case, shapes: list[tuple[int, ...]], kind: str, seed: int) -> list[np.ndarray]:
    """Values of arguments."""
    rng = np.random.default_rng(seed)
    found = []
    for position, size in enumerate(shapes):
        array = rng.uniform(case.low, case.high, size)
        if kind == "c":
            array = array + 1j * rng.uniform(case.low, case.high, size)
        if case.matrix and not position:
            adjoint = np.swapaxes(array.conj(), -1, -2) if array.shape[-1] == array.shape[-2] else None
            spread = np.zeros(array.shape[-2:])
            np.fill_diagonal(spread, 4 + 3 * np.arange(min(array.shape[-2:])))
            array = array + spread if case.matrix == "regular" else \
                (array + adjoint) / 2 + spread if case.matrix == "hermitian" else array @ adjoint + spread
        found.append(array)
    return found


def total(case: Case, arrays: list[Any]) -> Any:
    """A weighted sum of all that a function returns."""
    found = case.call(*arrays)
    result = xp.asarray(0.0)
    for number, array in enumerate(found if isinstance(found, (tuple, list)) else (found,)):
        weight = xp.asarray(np.random.default_rng(number).uniform(-1, 1, array.shape))
        if case.invariant:
            array = xp.abs(array) ** 2
        result = result + xp.sum(xp.real(array) * weight)
        if array.dtype.kind == "c":
            result = result + xp.sum(xp.imag(array) * weight * weight)
    return result


def check(case: Case, shapes: list[tuple[int, ...]], kind: str, seed: int) -> None:
    values = made(case, shapes, kind, seed)
    directions = made(case._replace(low=-1, high=1, matrix=""), shapes, kind, seed + 1)
    if case.matrix in ("hermitian", "positive"):  # changes keep what the function relies on
        directions[0] = (directions[0] + np.swapaxes(directions[0].conj(), -1, -2)) / 2

    def at(step: float) -> float:
        return float(total(case, [xp.asarray(value + step * direction)
                                  for value, direction in zip(values, directions, strict=True)]))

    step = 1e-5
    slope = (8 * (at(step) - at(-step)) - (at(2 * step) - at(-2 * step))) / (12 * step)
    arrays = [xp.asarray(value) for value in values]
    dr.enable_grad(arrays)
    result = total(case, arrays)
    if not dr.grad_enabled(result):
        assert slope == 0
        return
    dr.backward(result, flags=dr.ADFlag.ClearInterior)
    gradients = [dr.grad(array) for array in arrays]
    assert [(gradient.dtype, gradient.shape) for gradient in gradients] == [(a.dtype, a.shape) for a in arrays]
    reverse = sum(float(np.sum(np.real(np.conj(np.asarray(gradient)) * direction)))
                  for gradient, direction in zip(gradients, directions, strict=True))
    tolerance = 1e-6 * max(1, abs(slope))
    assert abs(reverse - slope) < tolerance, (shapes, kind, seed, reverse, slope)
    dr.clear_grad([arrays, result])
    for array, direction in zip(arrays, directions, strict=True):
        dr.set_grad(array, xp.asarray(direction))
    forward = float(dr.forward_to(result))
    assert abs(forward - slope) < tolerance, (shapes, kind, seed, forward, slope)


CASES = [(f"{name}-{number}", case) for name, cases in DIFFERENTIABLE.items()
         for number, case in enumerate(cases if isinstance(cases, list) else [cases])]


@pytest.mark.parametrize("case", [case for _, case in CASES], ids=[name for name, _ in CASES])
@settings(max_examples=4, deadline=None, database=None, derandomize=True)
@given(data=st.data())
def test_gradients(case: Case, data: st.DataObject) -> None:
    check(case, case.shapes(data.draw), data.draw(st.sampled_from(case.kinds)), data.draw(st.integers(0, 1000)))


@pytest.mark.exhaustive
@pytest.mark.parametrize("case", [case for _, case in CASES], ids=[name for name, _ in CASES])
@settings(max_examples=60, deadline=None, database=None)
@given(data=st.data())
def test_gradients_at_more_points(case: Case, data: st.DataObject) -> None:
    check(case, case.shapes(data.draw), data.draw(st.sampled_from(case.kinds)), data.draw(st.integers(0, 10**6)))


@pytest.mark.parametrize("dtype", ["float16", "float32", "complex64"])
def test_gradients_have_the_type_of_the_array(dtype: str) -> None:
    x = xp.asarray([0.5, 1.5], dtype=getattr(xp, dtype))
    dr.enable_grad(x)
    dr.backward(xp.sum(xp.real(x * x)))
    gradient = dr.grad(x)
    assert gradient.dtype == x.dtype and gradient.tolist() == [1, 3]


def test_what_has_no_derivative_says_so() -> None:
    x = xp.ones((3, 2))
    dr.enable_grad(x)
    with pytest.raises(NotImplementedError, match=r"linalg\.qr\(\): the columns of Q beyond .* have no derivative"):
        L.qr(x, mode="complete")
    with pytest.raises(NotImplementedError, match=r"linalg\.svd\(\): singular vectors beyond .* have no derivative"):
        L.svd(x)
    assert not dr.grad_enabled(L.matrix_rank(x))


def test_item_access_and_assignment() -> None:
    w = xp.asarray([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    dr.enable_grad(w)
    x = xp.zeros((2, 4))
    x[:, 1:] = w * 2
    x[0] *= w[1, 0]
    x[xp.asarray([1, 1]), xp.asarray([0, 1])] = w[0, :2] ** 2
    x[x > 9] = w[1, 1]
    dr.backward(xp.sum(x))
    # The rows are 0, 2 w00 w10, 2 w01 w10, 2 w02 w10 (the last two above 9), and w00², w01², 2 w11 and 2 w12 (above 9).
    assert dr.grad(w).tolist() == [[2 * 4 + 2, 4, 0], [2, 4, 0]]


def test_every_function_is_in_a_table() -> None:
    spaces = {"": xp, "linalg.": L, "fft.": F}
    functions = {prefix + name for prefix, space in spaces.items() for name in space.__all__
                 if callable(getattr(space, name)) and not isinstance(getattr(space, name), type)
                 and not isinstance(getattr(space, name), xp.DType)}
    others = {name for names in OTHERS.values() for name in names.split()}
    assert not others & set(DIFFERENTIABLE)
    assert functions == others | set(DIFFERENTIABLE), functions ^ (others | set(DIFFERENTIABLE))


# --- derivatives of derivatives --------------------------------------------------------------------------------------

_SIDE = np.random.default_rng(5).normal(size=(3, 3))
#: A symmetric matrix with positive eigenvalues, and a direction.
_MATRIX, _DIRECTION = _SIDE @ _SIDE.T + np.diag([1.0, 2, 3]), _SIDE + _SIDE.T

SECOND = {
    "cholesky": lambda a: xp.sum(xp.linalg.cholesky(a)**3), "cross": lambda a: xp.sum(xp.linalg.cross(a, a[::-1])**3),
    "det": xp.linalg.det, "eigh": lambda a: xp.sum(xp.abs(xp.linalg.eigh(a)[1])**3),
    "eigvalsh": lambda a: xp.sum(xp.linalg.eigvalsh(a)**3), "fft": lambda a: xp.sum(xp.abs(xp.fft.fft(a))**3),
    "fftn": lambda a: xp.sum(xp.abs(xp.fft.fftn(a))**3), "hfft": lambda a: xp.sum(xp.fft.hfft(a)**3),
    "ihfft": lambda a: xp.sum(xp.abs(xp.fft.ihfft(a))**3), "inv": lambda a: xp.sum(xp.linalg.inv(a)**2),
    "irfft": lambda a: xp.sum(xp.fft.irfft(a)**3), "matrix_power": lambda a: xp.sum(xp.linalg.matrix_power(a, -2)**2),
    "nuclear norm": lambda a: xp.linalg.matrix_norm(a, ord="nuc")**3, "norm": lambda a: xp.linalg.matrix_norm(a)**3,
    "pinv": lambda a: xp.sum(xp.linalg.pinv(a)**2), "qr": lambda a: sum(xp.sum(b**3) for b in xp.linalg.qr(a)),
    "rfft": lambda a: xp.sum(xp.real(xp.fft.rfft(a))**3), "slogdet": lambda a: xp.linalg.slogdet(a)[1]**2,
    "solve": lambda a: xp.sum(xp.linalg.solve(a, a[:, 0]**2)**2),
    "spectral norm": lambda a: xp.linalg.matrix_norm(a, ord=2)**3,
    "svd": lambda a: sum(xp.sum(xp.abs(b)**3) for b in xp.linalg.svd(a)),
    "svdvals": lambda a: xp.sum(xp.linalg.svdvals(a)**3), "tensordot": lambda a: xp.sum(xp.tensordot(a, a, axes=1)**3),
    "eigvals": lambda a: xp.sum(xp.real(xp.linalg.eigvals(a))**3),
}


@pytest.mark.parametrize("name", SECOND)
def test_derivatives_of_derivatives(name):
    def gradient(values):
        a = xp.asarray(values)
        dr.enable_grad(a)
        dr.backward(SECOND[name](a))
        return np.asarray(dr.grad(a))

    gradients, products = dr.hvp(SECOND[name], xp.asarray(_MATRIX), xp.asarray(_DIRECTION))
    np.testing.assert_allclose(np.asarray(gradients), gradient(_MATRIX), rtol=1e-10, atol=1e-12)
    step = 1e-5
    found = (gradient(_MATRIX + step * _DIRECTION) - gradient(_MATRIX - step * _DIRECTION)) / (2 * step)
    np.testing.assert_allclose(np.asarray(products), found, rtol=1e-6, atol=1e-6 * np.abs(found).max())
