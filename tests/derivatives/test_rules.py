"""The derivative of every operation, against finite differences in double precision."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import drjit as dr
import drjit_core
from drjit.llvm import ad
from drjit_core.ops.derivatives import RULES
from tests.derivatives.harness import check, flat

F, T = ad.Float64, ad.TensorXf64
RANDOM = np.random.default_rng(0)
P, Q, S = RANDOM.random(7) + 0.3, RANDOM.random(7) + 0.2, RANDOM.standard_normal(7)
A, B = RANDOM.random((3, 4, 5)) + 0.2, RANDOM.random((4, 1)) + 0.3
INDEX = ad.UInt32(0, 3, 3, 6, 1)


def on(values: Any) -> tuple[Any, Any]:
    return F, values


UNARY = dict.fromkeys([
    "sin", "cos", "tan", "cot", "exp", "exp2", "log", "log2", "sqrt", "rsqrt", "rcp", "cbrt", "sinh", "cosh", "tanh",
    "asinh", "erf", "erfc", "lgamma", "abs", "square", "sincos", "sincosh", "sum", "prod", "min", "max", "mean",
    "var", "std", "norm", "squared_norm", "cumsum", "prefix_sum", "sort", "median", "reverse", "ravel"], P)
UNARY |= dict.fromkeys(("asin", "acos", "atan", "atanh", "erfinv", "safe_sqrt", "safe_asin", "safe_acos"), P * 0.6)
UNARY |= {"acosh": P + 1}


@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one_array(name: str) -> None:
    check(getattr(dr, name), on(UNARY[name]))


@pytest.mark.parametrize("name", ["atan2", "hypot", "power", "minimum", "maximum", "copysign", "mulsign", "fmin",
                                  "fmax", "dot"])
def test_functions_of_two_arrays(name: str) -> None:
    check(getattr(dr, name), on(P), on(Q))


def test_every_row_with_a_rule_is_among_these() -> None:
    tested = {*UNARY, "atan2", "hypot", "power", "minimum", "maximum", "copysign", "flip", "neg", "add", "sub", "mul",
              "div", "fma", "select"}
    assert {name.removesuffix("_precise") for name in RULES} <= tested


ELEMENTWISE = {
    "operators": (lambda a, b: (a * b + a / b - a * 2 + 3 / b) ** 2 - (-a) * b ** -2 + abs(b - 1), P, Q),
    "fma": (lambda a, b: dr.fma(a, b, a), P, Q), "lerp": (lambda a, b: dr.lerp(a, b, a * b), P, Q),
    "select": (lambda a, b: dr.select(a > 0.7, a * b, b), P, Q),
    "clip": (lambda a, b: dr.clip(a, 0.5, 0.9) * b, P, Q),
    "one operand of one element": (lambda a, b: a * b + b, P, Q[:1]),
    "negative lgamma": (lambda a, b: dr.lgamma(-a - 0.1) * b, P, Q),
    "a number on the left": (lambda a, b: 2 - a + 3 / (1 + b), P, Q),
    "powers": (lambda a, b: a ** 3 + b ** 0.5 + a ** -2, P, Q),
    "an operand twice": (lambda a, b: a * a + b / b + (a - a) * b, P, Q),
    "a longer chain": (lambda a, b: dr.exp(-dr.sin(a * b) ** 2) / dr.log(1 + dr.exp(a)), P, Q),
    "in place": (lambda a, b: in_place(a, b), P, Q),
}


def in_place(a: Any, b: Any) -> Any:
    result = F(a)
    result += b
    result *= a
    return result


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_expressions(name: str) -> None:
    function, *values = ELEMENTWISE[name]
    check(function, *map(on, values))


MEMORY = {
    "gather": lambda a: dr.gather(F, a, INDEX), "masked gather": lambda a: dr.gather(F, a, INDEX, INDEX < 5),
    "gather of a product": lambda a: dr.gather(F, a * a, INDEX) * dr.gather(F, a, ad.UInt32(2)),
    "gather of rows": lambda a: dr.gather(ad.Array2f64, a, ad.UInt32(0, 2, 2)),
    "repeat": lambda a: dr.repeat(a, 3), "tile": lambda a: dr.tile(a, 3),
    "compress": lambda a: dr.gather(F, a, dr.compress(a > 0.7)),
    "slice": lambda a: a[1:5] * a[0:4], "strided slice": lambda a: a[::2], "reversed slice": lambda a: a[::-1] * a,
    "integer array": lambda a: a[INDEX] * 2, "prefix sum, exclusive": lambda a: dr.prefix_sum(a) * a,
    "sum from the end": lambda a: dr.prefix_sum(a, reverse=True), "descending": lambda a: dr.sort(a, descending=True),
    "unravel": lambda a: dr.unravel(ad.Array2f64, a[:6]), "concat": lambda a: dr.concat((a, a * 2)),
    "meshgrid": lambda a: dr.meshgrid(a, a[:3]), "linspace": lambda a: dr.linspace(F, 0, 1, 7) * a,
    "evaluated between": lambda a: evaluated(a * a) * a, "opaque between": lambda a: opaque(a * 2) * a,
    "an element by gather": lambda a: dr.gather(F, a, 2) * a,
    "casts": lambda a: F(ad.Float64(a)) * a,
}


def evaluated(a: Any) -> Any:
    dr.eval(a)
    return a


def opaque(a: Any) -> Any:
    dr.make_opaque(a)
    return a


@pytest.mark.parametrize("name", MEMORY)
def test_memory_operations(name: str) -> None:
    check(MEMORY[name], on(P))


def test_a_gather_of_one_element() -> None:
    check(lambda a: dr.gather(F, a, ad.UInt32(0, 0, 0)) * 2, on(P[:1]))


BLOCKS = {
    "sum": lambda a: dr.block_sum(a, 3), "prefix": lambda a: dr.block_prefix_sum(a, 3),
    "maximum": lambda a: dr.block_reduce(dr.ReduceOp.Max, a, 3),
    "minimum": lambda a: dr.block_reduce(dr.ReduceOp.Min, a, 2),
    "product": lambda a: dr.block_reduce(dr.ReduceOp.Mul, a, 3),
}


@pytest.mark.parametrize("name", BLOCKS)
def test_blocks(name: str) -> None:
    check(BLOCKS[name], on(P[:6]))


@pytest.mark.parametrize("name", BLOCKS)
def test_blocks_of_literals(name: str) -> None:
    def gradients(x: Any) -> list[float]:
        dr.enable_grad(x)
        y = BLOCKS[name](x)
        dr.backward(y * y)
        return [*flat(y), *flat(x.grad)]

    np.testing.assert_allclose(gradients(dr.full(F, 0.75, 6)), gradients(F([0.75] * 6)))


def test_gradients_that_are_literals_flow_through_views_that_repeat() -> None:
    mask = T(RANDOM.random((1, 2)) + 1)[:, [0, 0]] > 0.1
    check(lambda a: dr.sum(dr.select(mask, a, a) * 2, axis=None), (T, Q[:2].reshape(2, 1)))
    gradient, product = dr.hvp(lambda a: dr.sum(dr.square(dr.select(mask, a, a)), axis=None), T(Q[:2].reshape(2, 1)),
                               T([[1], [10]]))
    np.testing.assert_allclose([flat(gradient), flat(product)], [4 * Q[:2], [4, 40]])
    x = T([[0.5]])
    dr.enable_grad(x)
    y = dr.var(x[:, [0, 0]].T[::-1, [0, 0]], axis=1)
    dr.backward(y)
    assert flat(y).tolist() == [0, 0] and flat(x.grad).tolist() == [0]


@pytest.mark.parametrize("op", [dr.ReduceOp.Identity, dr.ReduceOp.Add, dr.ReduceOp.Min, dr.ReduceOp.Max],
                         ids=lambda op: op.name)
@pytest.mark.parametrize("mode", [dr.ReduceMode.Auto, dr.ReduceMode.Direct, dr.ReduceMode.Expand],
                         ids=lambda mode: mode.name)
def test_scatters(op: Any, mode: Any) -> None:
    def function(a: Any, b: Any) -> Any:
        target = F(a)
        index = ad.UInt32(0, 3, 2, 6, 1) if op is dr.ReduceOp.Identity else INDEX
        if op is dr.ReduceOp.Identity:
            dr.scatter(target, b, index, INDEX < 5)
        else:
            dr.scatter_reduce(op, target, b, index, INDEX < 5, mode=mode)
        return target * target

    check(function, on(P), on(Q[:5]))


def test_one_value_scattered_to_several_places_and_a_compensated_sum() -> None:
    def function(a: Any, b: Any) -> Any:
        target, lost = F(a), dr.zeros(F, 7)
        dr.scatter_add(target, b, INDEX)
        dr.scatter_add_kahan(target, lost, b * b, INDEX)
        return target * a

    check(function, on(P), on(Q[:1]))


ASSIGNMENTS = {
    "slice": lambda a, b: (slice(1, 4), b * 2), "number": lambda a, b: (5, 3.0),
    "mask": lambda a, b: (a > 0.7, 2.0), "everything": lambda a, b: (slice(None), a * a),
}


@pytest.mark.parametrize("name", ASSIGNMENTS)
def test_item_assignment(name: str) -> None:
    def function(a: Any, b: Any) -> Any:
        result = F(a)
        key, value = ASSIGNMENTS[name](a, b)
        result[key] = value
        return result * result + dr.sum(b)

    check(function, on(P), on(Q[:3]))


# --- tensors ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("axis", [0, 1, 2, (0, 1), (0, 2), (1, 2), (0, 1, 2), None], ids=str)
@pytest.mark.parametrize("name", ["sum", "prod", "min", "max", "mean", "var", "std"])
def test_reductions_of_tensors(name: str, axis: Any) -> None:
    check(lambda t: getattr(dr, name)(t, axis=axis), (T, A))


TENSORS = {
    "keepdims": lambda t: t - dr.mean(t, axis=1, keepdims=True),
    "softmax": lambda t: dr.exp(t) / dr.sum(dr.exp(t), axis=2, keepdims=True),
    "layer norm": lambda t: (t - dr.mean(t, axis=2, keepdims=True)) / dr.sqrt(dr.var(t, axis=2, keepdims=True) + 1e-3),
    "slices": lambda t: t[1:, ::2, -1], "new axis": lambda t: t[:, None, 1],
    "integer array": lambda t: t[INDEX[:3] % 3],
    "list": lambda t: t[:, [0, 2], 1:3], "moveaxis": lambda t: dr.moveaxis(t, 0, 2),
    "swapaxes": lambda t: dr.swapaxes(t, 0, 1), "transpose": lambda t: dr.transpose(t) * 2,
    "reshape": lambda t: dr.reshape(t, (4, 15)), "stack": lambda t: dr.stack((t, t * 2)),
    "concat": lambda t: dr.concat((t, t * t), axis=1), "ravel": dr.ravel, "reversed": lambda t: t[::-1, :, ::-1],
    "cumsum": lambda t: dr.cumsum(t, axis=1), "sort": lambda t: dr.sort(t, axis=2),
    "sort 0": lambda t: dr.sort(t, axis=0),
    "repeat": lambda t: dr.repeat(t, 2, axis=1), "cross entropy": lambda t: cross_entropy(t),
    "array": lambda t: t.array * t.array, "split": lambda t: dr.split(t, 2, axis=1)[1],
    "pooling": lambda t: dr.max(dr.reshape(t, (3, 2, 2, 5)), axis=2),
    "windows": lambda t: t[:, :-1] * t[:, 1:], "shift": lambda t: shifted(t),
}


def cross_entropy(t: Any) -> Any:
    return dr.log(dr.sum(dr.exp(t - dr.max(t, axis=1, keepdims=True)), axis=1))


def shifted(t: Any) -> Any:
    result = T(t)
    result[1:] = result[:-1]
    return result * result


@pytest.mark.parametrize("name", TENSORS)
def test_tensors(name: str) -> None:
    check(TENSORS[name], (T, A))


def test_broadcast_tensors_and_assignments() -> None:
    check(lambda a, b: a * b + b, (T, A), (T, B))
    check(lambda a, b: a * b - b, (T, RANDOM.random((50, 3))), (T, RANDOM.random((50, 1))))

    def assign(t: Any, u: Any) -> Any:
        t = T(t)
        t[1:, 0] = u
        t[0, 1, 2] = 5.0
        return t * t

    check(assign, (T, A), (T, RANDOM.random((2, 5))))


def test_transpositions_of_many_elements() -> None:
    check(lambda a: a * 2 + a.T, (T, RANDOM.random((150, 150))))


PRODUCTS = {
    "matrices": ((5, 6), (6, 4)), "matrix and vector": ((5, 6), (6,)), "vector and matrix": ((6,), (6, 4)),
    "vectors": ((6,), (6,)), "batch": ((3, 5, 6), (6, 4)), "batches": ((3, 1, 5, 6), (2, 6, 4)),
    "large": ((40, 50), (50, 30)),
    "short": ((4, 2), (2, 4)), "outer": ((4, 1), (1, 5)),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_of_matrices(name: str) -> None:
    first, second = (RANDOM.random(shape) for shape in PRODUCTS[name])
    check(lambda a, b: a @ b, (T, first), (T, second))
    if len(first.shape) == len(second.shape) == 2:
        check(lambda a, b: dr.matmul(a, b, At=True, Bt=True) * 2, (T, first.T.copy()), (T, second.T.copy()))
        check(lambda a, b: a.T @ b.T, (T, first.T.copy()), (T, second.T.copy()))


def test_resampling_and_convolution() -> None:
    picture = RANDOM.random((12, 9))
    check(lambda t: dr.resample(t, (7, 14)), (T, picture))
    check(lambda t: dr.convolve(t, "gaussian", 2.0), (T, picture))
    check(lambda t: dr.upsample(t, shape=(24, 18)), (T, picture))
    check(lambda t, u: dr.take_interp(t, u), (T, P), (F, np.array([0.5, 2.3, 4.7])))
    check(lambda t: dr.take(t, ad.UInt32(0, 3, 3)), (T, P))


# --- nested arrays ---------------------------------------------------------------------------------------------------


def test_vectors_and_matrices() -> None:
    v, w = RANDOM.random((3, 4)), RANDOM.random((3, 4))
    check(lambda a, b: dr.dot(a, b) * dr.cross(a, b) + dr.normalize(a) + dr.norm(b), (ad.Array3f64, v),
          (ad.Array3f64, w))
    m = RANDOM.random((3, 3, 2)) + np.eye(3)[:, :, None]
    check(lambda a, b: a @ b + dr.det(a) * dr.rcp(b), (ad.Matrix3f64, m), (ad.Matrix3f64, m[::-1].copy()))
    check(lambda a: (a.x * a.y, dr.sum(a), dr.ravel(a)), (ad.Array3f64, v))


def complex_of(*parts: Any) -> list[Any]:
    return [ad.Complex2f64(*parts[k:k + 2]) for k in range(0, len(parts), 2)]


COMPLEX = ["exp", "exp2", "log", "log2", "sqrt", "rsqrt", "rcp", "sin", "cos", "tan", "asin", "acos", "atan", "sinh",
           "cosh", "tanh", "asinh", "acosh", "atanh", "abs", "conj", "square"]


@pytest.mark.parametrize("name", COMPLEX)
def test_functions_of_complex_numbers(name: str) -> None:
    def function(*parts: Any) -> Any:
        found = getattr(dr, name)(complex_of(*parts)[0])
        return [dr.real(found), dr.imag(found)] if dr.is_complex_v(found) else found

    z = RANDOM.random((2, 3)) + 0.2
    check(function, on(z[0]), on(z[1]))


def test_arithmetic_of_complex_numbers_and_quaternions() -> None:
    def function(*parts: Any) -> Any:
        a, b = complex_of(*parts)
        found = a * b / (a + b) - a ** 2 + a ** b + dr.fma(a, b, a)
        return [dr.real(found), dr.imag(found)]

    check(function, *[on(RANDOM.random(3) + 0.2) for _ in range(4)])
    q = RANDOM.random((4, 3)) + 0.1
    check(lambda a, b: a * b / (a + b) + dr.exp(a) + dr.sqrt(b) + dr.normalize(a) + dr.conj(b) + dr.log(a),
          (ad.Quaternion4f64, q), (ad.Quaternion4f64, q[::-1].copy()))


# --- precision, and where derivatives do not exist -------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in UNARY if name not in ("sort", "median")])
@pytest.mark.parametrize(("cls", "tolerance"), [(ad.Float, 2e-5), (ad.Float16, 2e-2)], ids=["single", "half"])
def test_less_precise_types_agree_with_double_precision(name: str, cls: Any, tolerance: float) -> None:
    values = UNARY[name].astype(np.float16)
    found = []
    for type_ in (cls, F):
        x = type_(values)
        dr.enable_grad(x)
        result = getattr(dr, name)(x)
        for entry in result if isinstance(result, tuple) else (result,):
            dr.set_grad(entry, 1)
            dr.enqueue(dr.ADMode.Backward, entry)
        dr.traverse(dr.ADMode.Backward)
        found.append(flat(x.grad))
    np.testing.assert_allclose(found[0], found[1], rtol=tolerance, atol=tolerance)


nan, inf = np.nan, np.inf
#: Functions, arguments, and the gradients of the sum of the results.
SPECIAL = [
    (dr.abs, ([0.0, -0.0, 1, -1],), ([0, 0, 1, -1],)),
    (dr.minimum, ([1, 1, 2], [1, 2, 1]), ([1, 1, 0], [0, 0, 1])),
    (dr.maximum, ([1, 1, 2], [1, 2, 1]), ([0, 0, 1], [1, 1, 0])),
    (dr.max, ([1, 2, 2],), ([0, 1, 1],)), (dr.min, ([1, 1, 2],), ([1, 1, 0],)),
    (dr.prod, ([0, 2, 3],), ([6, 0, 0],)), (dr.prod, ([0, 0, 3],), ([0, 0, 0],)),
    (dr.sqrt, ([0, 1],), ([inf, 0.5],)), (dr.hypot, ([0, 3], [0, 4]), ([0, 0.6], [0, 0.8])),
    (lambda x: dr.select(x > 0, dr.sqrt(x), 0), ([0, 1, -1],), ([0, 0.5, 0],)),
    (lambda x: dr.select(x > 0, dr.log(x), x), ([0, 2, -1],), ([1, 0.5, 1],)),
    (dr.safe_sqrt, ([0, -1, 1],), ([0, 0, 0.5],)), (dr.rcp, ([2, 0],), ([-0.25, -inf],)),
    (dr.power, ([0, 2], [2, 3]), ([0, 12], [0, 8 * np.log(2)])), (lambda x: x ** 3, ([0, -2],), ([0, 12],)),
    (lambda x: dr.clip(x, 0, 1), ([0, 1, 0.5, 2, -1],), ([0, 1, 1, 0, 0],)),
    (dr.copysign, ([1, -2], [-1, 1]), ([-1, -1], [0, 0])), (lambda x: dr.floor(x) * x, ([1.5],), ([1],)),
]


@pytest.mark.parametrize("case", range(len(SPECIAL)))
def test_special_points(case: int) -> None:
    function, values, expected = SPECIAL[case]
    xs = [F(value) for value in values]
    dr.enable_grad(xs)
    dr.backward(function(*xs))
    for x, gradient in zip(xs, expected, strict=True):
        np.testing.assert_allclose(x.grad.numpy(), np.array(gradient, dtype=float))


@pytest.mark.parametrize("function", [
    lambda x: dr.prefix_reduce(dr.ReduceOp.Max, x),
    lambda x: scattered_product(x),
])
def test_what_has_no_derivative_says_so_when_it_is_asked_for(function: Any) -> None:
    x = ad.Float(1, 2, 3)
    dr.enable_grad(x)
    result = function(x) * x
    with pytest.raises(RuntimeError, match=r"drjit.backward\(\): there is no derivative of a .*drjit.detach"):
        dr.backward(result)
    assert flat(x.grad).tolist() == [0, 0, 0]


def scattered_product(x: Any) -> Any:
    target = ad.Float(x)
    dr.scatter_reduce(dr.ReduceOp.Mul, target, x, ad.UInt32(0, 1, 1))
    return target


def test_derivatives_on_the_interpreter_are_the_same() -> None:
    def gradient() -> Any:
        x = ad.Float64(P)
        dr.enable_grad(x)
        y = dr.sum(dr.sin(x) * dr.gather(ad.Float64, x, INDEX[0]) + dr.cumsum(x) * dr.sqrt(x))
        dr.backward(y)
        return flat(x.grad)

    with drjit_core.on_backend("interpreter"):
        found = gradient()
    np.testing.assert_allclose(found, gradient(), rtol=1e-12)
