"""The derivative of every operation, against finite differences in double precision."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import drjit as dr
import drjit_core
from drjit._promotion.promote import wrap
from drjit.llvm import ad
from drjit_core.ir.dual import STRUCTURE
from drjit_core.ir.structured import READS
from drjit_core.ops.derivatives import RULES
from drjit_core.ops.reductions import REDUCTIONS
from drjit_core.ops.steps import STEPS
from drjit_core.ops.table import KIND, OPS
from tests.derivatives.harness import check, flat, rules_of

F, T = ad.Float64, ad.TensorXf64
RANDOM = np.random.default_rng(0)
P, Q, S = RANDOM.random(7) + 0.3, RANDOM.random(7) + 0.2, RANDOM.standard_normal(7)
A, B = RANDOM.random((3, 4, 5)) + 0.2, RANDOM.random((4, 1)) + 0.3
INDEX = ad.UInt32(0, 3, 3, 6, 1)
OPERATORS = dr.ReduceOp.Add, dr.ReduceOp.Mul, dr.ReduceOp.Min, dr.ReduceOp.Max
#: Factors without zeros, with one, and with two.
FACTORS = [P, P * [1, 1, 0, -1, 1, 1, 1], P * [1, 0, 1, 1, 0, -1, 1]]


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


BINARY = ["atan2", "hypot", "power", "minimum", "maximum", "copysign", "mulsign", "fmin", "fmax", "dot"]


@pytest.mark.parametrize("name", BINARY)
def test_functions_of_two_arrays(name: str) -> None:
    check(getattr(dr, name), on(P), on(Q))


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
    "by columns": lambda a: dr.unravel(ad.Array3f64, a[:6], order="F") * 2,
    "matrix": lambda a: dr.gather(ad.Matrix2f64, a, ad.UInt32(0)) * 2, "list": lambda a: a[[0, 1, 1]] * 2,
    "gather, no conflicts": lambda a: dr.gather(F, a, ad.UInt32(3, 1, 0), mode=dr.ReduceMode.NoConflicts),
    "gather, permutation": lambda a: dr.gather(F, a, ad.UInt32(6, 5, 4, 2, 3, 0, 1), mode=dr.ReduceMode.Permute),
}


MEMORY |= {
    "gradients in a function": lambda a: dr.value_and_grad(lambda x: dr.sum(x * x * dr.sin(x)))(a)[1] * a,
    "gradients of reads by index": lambda a: dr.value_and_grad(lambda x: dr.sum(dr.sin(dr.gather(F, x, INDEX))))(a)[1],
    "replaced by those of one element": lambda a: dr.replace_grad(dr.sum(a) + dr.zeros(F, 7), dr.sum(a)) * a,
}


def through_single(a: Any) -> Any:
    return F(ad.Float(a * a)) * a


def slope_of_tanh(a: Any) -> Any:
    """What derivatives of the derivative of tanh differentiate."""
    return wrap(type(a), [drjit_core.math.hyperbolic.slope_of_tanh(a._n)])


def test_slope_of_tanh() -> None:
    check(slope_of_tanh, on(P))


def test_casts() -> None:
    check(through_single, on(P), eps=1e-2, tolerance=1e-3)


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
    "running maximum": lambda a: dr.block_prefix_reduce(dr.ReduceOp.Max, a, 4, exclusive=False),
    "running product": lambda a: dr.block_prefix_reduce(dr.ReduceOp.Mul, a, 4, reverse=True),
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


#: Positions without conflicts, for modes and operators that need that: five of seven, and all.
APART, ORDER = ad.UInt32(0, 3, 2, 6, 1), ad.UInt32(6, 5, 4, 2, 3, 0, 1)


def scattering(op: Any, mode: Any) -> Callable[..., Any]:
    """A scatter in a mode."""

    def function(a: Any, b: Any) -> Any:
        target = F(a)
        if mode is dr.ReduceMode.Permute:
            dr.scatter(target, dr.gather(F, b, ORDER % 5), ORDER, mode=mode)
        elif op is dr.ReduceOp.Identity:
            dr.scatter(target, b, APART, APART < 5, mode=mode)
        else:
            index = APART if mode is dr.ReduceMode.NoConflicts else INDEX
            dr.scatter_reduce(op, target, b, index, INDEX < 5, mode=mode)
        return target * target

    return function


#: Permutations are for plain writes.
SCATTERS = [(op, mode) for op in (*OPERATORS, dr.ReduceOp.Identity) for mode in dr.ReduceMode
            if op is dr.ReduceOp.Identity or mode is not dr.ReduceMode.Permute]


@pytest.mark.parametrize(("op", "mode"), SCATTERS, ids=lambda entry: entry.name)
def test_scatters(op: Any, mode: Any) -> None:
    check(scattering(op, mode), on(P), on(Q[:5]))


@pytest.mark.parametrize("target", range(3))
@pytest.mark.parametrize("value", range(3))
def test_products_by_scatters_with_and_without_zeros(target: int, value: int) -> None:
    def function(a: Any, b: Any) -> Any:
        result = F(a)
        dr.scatter_reduce(dr.ReduceOp.Mul, result, b, INDEX, INDEX < 5)
        return result * result + result

    check(function, on(FACTORS[target]), on(FACTORS[value][:5]))
    check(function, on(FACTORS[target]), on(FACTORS[value][2:3]))


SCANS = [(op, exclusive, reverse) for op in OPERATORS for exclusive in (False, True) for reverse in (False, True)]


def scanning(op: Any, exclusive: bool, reverse: bool) -> Callable[..., Any]:
    """A running reduction, without the neutral elements that are infinite."""

    def function(a: Any, axis: Any = 0) -> Any:
        result = dr.prefix_reduce(op, a, axis, exclusive, reverse)
        return dr.select(dr.isfinite(result), result, 0)

    return function


@pytest.mark.parametrize(("op", "exclusive", "reverse"), SCANS)
def test_running_reductions(op: Any, exclusive: bool, reverse: bool) -> None:
    scanned = scanning(op, exclusive, reverse)
    for values in [P, RANDOM.random(300) + 0.5, *(FACTORS if op in (dr.ReduceOp.Add, dr.ReduceOp.Mul) else [])]:
        check(scanned, on(values))
    for axis in (0, 1, 2, (0, 2)):
        check(lambda t, axis=axis: scanned(t, axis), (T, A))


def test_running_extrema_follow_the_first_of_equals_along_static_and_dynamic_axes() -> None:
    values, weights = [1, 3, 2, 3, 0.5, 0.5, np.nan, 2], np.arange(1.0, 9)
    for op, expected in ((dr.ReduceOp.Max, [1, 35, 0, 0, 0, 0, 0, 0]), (dr.ReduceOp.Min, [10, 0, 0, 0, 26, 0, 0, 0])):
        x, components = F(values), dr.zeros(ad.ArrayXf64, (8, 1)) + ad.ArrayXf64(*[[value] for value in values])
        dr.enable_grad(x, components)
        dr.backward(dr.prefix_reduce(op, x, exclusive=False) * F(weights))
        running = dr.prefix_reduce(op, components, exclusive=False)
        dr.backward(dr.sum([component * weight for component, weight in zip(running, weights, strict=True)]))
        assert flat(x.grad).tolist() == flat(dr.grad(components)).tolist() == expected


@pytest.mark.parametrize("width", [5, 1])
@pytest.mark.parametrize("places", [[0, 3, 5, 6, 1], [0, 3, 3, 3, 1], [2] * 5], ids=str)
def test_exchanges(places: list[int], width: int) -> None:
    def function(a: Any, b: Any) -> Any:
        target = F(a)
        found = dr.scatter_exch(target, b, ad.UInt32(places), ad.UInt32(places) < 6)
        return target * target, found * found * found

    check(function, on(P), on(Q[:width]))


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


REDUCTIONS_OF_TENSORS = ["sum", "prod", "min", "max", "mean", "var", "std"]


@pytest.mark.parametrize("axis", [0, 1, 2, (0, 1), (0, 2), (1, 2), (0, 1, 2), None], ids=str)
@pytest.mark.parametrize("name", REDUCTIONS_OF_TENSORS)
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
    "tile": lambda t: dr.tile(t, (2, 1, 3)), "expand": lambda t: dr.expand_dims(t, -1) * 2,
    "squeeze": lambda t: dr.squeeze(t[:1]) * 2, "reverse": lambda t: dr.reverse(t, axis=-1),
    "median": lambda t: dr.median(t, axis=2), "parts": lambda t: dr.array_split(t, 3, axis=2),
    "hstack": lambda t: dr.hstack((t, t * t)), "dstack": lambda t: dr.dstack((t, t * t)),
    "vstack": lambda t: dr.vstack((t, t * t)), "columns": lambda t: dr.column_stack((t[0], t[1] * t[2])),
    "stack last": lambda t: dr.stack((t, t * t), axis=-1),
    "arrays of two axes": lambda t: t[ad.UInt32(0, 1), ad.UInt32(3, 1)] * 2,
    "array of two dimensions": lambda t: t[ad.TensorXu([[0, 2], [1, 1]])] * 2,
    "NumPy array": lambda t: t[:, np.array([1, 0]), np.array([2, 4])] * 2, "range": lambda t: t[range(0, 3, 2)] * 2,
    "mask": lambda t: t[A > 0.7] * 2, "nothing": lambda t: t[2:2] * 2,
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


#: Keys that name each element at most once.
KEYS: dict[str, Any] = {
    "number": 1, "last": (..., 2), "new axis": (slice(None), None, 1), "slice": (slice(0, 2), slice(None, None, 2)),
    "reversed": slice(None, None, -1), "list": (slice(None), [1, 3], slice(1, 3)), "array": ad.UInt32(0, 2),
    "negative": (slice(None), ad.Int32(-1, 0)), "NumPy arrays": (slice(None), np.array([1, 0]), np.array([2, 4])),
    "two arrays": (ad.UInt32(0, 1), ad.UInt32(3, 1)), "range": range(0, 3, 2), "everything": ...,
    "nothing": slice(2, 2), "mask": A > 0.7, "several": (slice(1, None), 0),
}


@pytest.mark.parametrize("name", KEYS)
def test_assignments_to_elements_of_tensors(name: str) -> None:
    key = KEYS[name]
    shape = T(A)[key].shape

    def assign(t: Any, u: Any) -> Any:
        t = T(t)
        t[key] = u
        t[0, 1, 2] = 5.0
        return t * t

    def update(t: Any, u: Any) -> Any:
        t = T(t)
        t[key] *= u
        return t * t

    check(assign, (T, A), (T, RANDOM.random(shape)))
    check(assign, (T, A), on(Q[:1]))
    check(update, (T, A), (T, RANDOM.random(shape)))


MANY = RANDOM.random((150, 150))


def transposed(a: Any) -> Any:
    return a * 2 + a.T


def test_transpositions_of_many_elements() -> None:
    check(transposed, (T, MANY))


PRODUCTS = {
    "matrices": ((5, 6), (6, 4)), "matrix and vector": ((5, 6), (6,)), "vector and matrix": ((6,), (6, 4)),
    "vectors": ((6,), (6,)), "batch": ((3, 5, 6), (6, 4)), "batches": ((3, 1, 5, 6), (2, 6, 4)),
    "large": ((40, 50), (50, 30)),
    "short": ((4, 2), (2, 4)), "outer": ((4, 1), (1, 5)), "vector and batch": ((4,), (2, 4, 3)),
    "batch and vector": ((2, 3, 4), (4,)), "one element": ((1, 1), (1, 1)), "nothing": ((5, 0), (0, 3)),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_of_matrices(name: str) -> None:
    first, second = (RANDOM.random(shape) for shape in PRODUCTS[name])
    check(lambda a, b: a @ b, (T, first), (T, second))
    if len(first.shape) == len(second.shape) == 2:
        check(lambda a, b: dr.matmul(a, b, At=True, Bt=True) * 2, (T, first.T.copy()), (T, second.T.copy()))
        check(lambda a, b: a.T @ b.T, (T, first.T.copy()), (T, second.T.copy()))


@pytest.mark.parametrize("name", ["box", "linear", "hamming", "cubic", "lanczos", "gaussian"])
def test_resampling_and_convolution(name: str) -> None:
    picture = RANDOM.random((12, 9))
    for shape in ((7, 14), (20, 5)):
        check(lambda t, shape=shape: dr.resample(t, shape, filter=name), (T, picture))
    check(lambda t: dr.convolve(t, name, 2.0), (T, picture))
    check(lambda t: dr.convolve(t, name, 1.5, axis=1), (T, picture))


def test_interpolation() -> None:
    check(lambda t: dr.convolve(t, lambda x: dr.maximum(0, 1 - abs(x)), 1.5), (T, A[0]))
    check(lambda t: dr.resample(t, (2, 5, 7)), (T, A))
    check(lambda t: dr.upsample(t, shape=(24, 18)), (T, RANDOM.random((12, 9))))
    check(lambda t: dr.upsample(t, scale_factor=(2, 3)), (T, A[0]))
    for values in (P, A):
        for axis in range(values.ndim):
            places = np.array([0.1, 0.55, 0.9]) * (values.shape[axis] - 1)
            check(lambda t, u, axis=axis: dr.take_interp(t, u, axis=axis), (T, values), (F, places))
            check(lambda t, axis=axis: dr.take(t, ad.UInt32(0, 2, 2), axis=axis), (T, values))


RANDOM_NUMBERS = {
    "normal": lambda rng, a, b: rng.normal(F, 7, a, b), "uniform": lambda rng, a, b: rng.uniform(F, 7, a, a + b),
    "tensor": lambda rng, a, b: rng.normal(T, (2, 7), dr.sum(a), dr.sum(b)),
    "order": lambda rng, a, b: rng.permutation(a) * b,
    "one mean": lambda rng, a, b: rng.normal(F, 7, dr.sum(a), b),
}


@pytest.mark.parametrize("name", RANDOM_NUMBERS)
def test_parameters_of_random_numbers(name: str) -> None:
    check(lambda a, b: RANDOM_NUMBERS[name](dr.rng(3), a, b), on(P), on(Q))


def test_rotations_and_decompositions() -> None:
    q, v = RANDOM.random((4, 3)) + 0.1, RANDOM.random((3, 3)) + 0.1
    m = RANDOM.random((4, 4, 2)) + 3 * np.eye(4)[:, :, None]
    check(lambda q, v: dr.quat_apply(dr.normalize(q), v), (ad.Quaternion4f64, q), (ad.Array3f64, v))
    check(lambda q: dr.quat_to_matrix(ad.Matrix3f64, dr.normalize(q)) * 2, (ad.Quaternion4f64, q))
    check(lambda q: dr.matrix_to_quat(dr.quat_to_matrix(ad.Matrix3f64, dr.normalize(q))), (ad.Quaternion4f64, q))
    check(lambda q: dr.quat_to_euler(dr.normalize(q)) * 2, (ad.Quaternion4f64, q))
    check(lambda a, b: dr.slerp(dr.normalize(a), dr.normalize(b), 0.3), (ad.Quaternion4f64, q),
          (ad.Quaternion4f64, q[::-1] + 0.3))
    check(lambda v, a: dr.rotate(ad.Quaternion4f64, dr.normalize(v), a), (ad.Array3f64, v), on(P[:3]))
    check(lambda v: [entry * 2.0 for entry in dr.sh_eval(dr.normalize(v), 4)], (ad.Array3f64, v))
    check(lambda m: [part * 2.0 for part in dr.polar_decomp(m)], (ad.Matrix4f64, m))
    check(lambda m: dr.transform_decompose(m)[:2], (ad.Matrix4f64, m))


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


def parts_of(name: str) -> Callable[..., Any]:
    """A function of complex numbers as one of their parts, of which it returns the parts."""

    def function(*parts: Any) -> Any:
        found = getattr(dr, name)(complex_of(*parts)[0])
        return [dr.real(found), dr.imag(found)] if dr.is_complex_v(found) else found

    return function


@pytest.mark.parametrize("name", COMPLEX)
def test_functions_of_complex_numbers(name: str) -> None:
    z = RANDOM.random((2, 3)) + 0.2
    check(parts_of(name), on(z[0]), on(z[1]))


@pytest.mark.parametrize("name", COMPLEX)
def test_functions_of_complex_numbers_on_the_axes(name: str) -> None:
    z = np.array([0.5 + 0j, 0.5j, -0.5j, -0.4 + 0.3j, *{"log": [], "log2": [], "acosh": []}.get(name, [0j])])
    if name in ("sqrt", "rsqrt", "rcp", "abs"):
        z = z[:4]
    if name == "acosh":
        z[0] += 1
    check(parts_of(name), on(z.real), on(z.imag))


@pytest.mark.parametrize("name", [name for name in COMPLEX if name not in ("abs", "conj")])
def test_second_derivatives_of_functions_of_complex_numbers(name: str) -> None:
    def gradients(x: Any, y: Any) -> Any:
        f = lambda x, y: dr.real(getattr(dr, name)(ad.Complex2f64(x, y)))  # noqa: E731
        return dr.value_and_grad(f, (0, 1))(x, y)[1]

    check(gradients, on([0.7, 0.3]), on([0.2, -0.6]))


def test_arithmetic_of_complex_numbers_and_quaternions() -> None:
    def function(*parts: Any) -> Any:
        a, b = complex_of(*parts)
        found = a * b / (a + b) - a ** 2 + a ** b + dr.fma(a, b, a)
        return [dr.real(found), dr.imag(found)]

    check(function, *[on(RANDOM.random(3) + 0.2) for _ in range(4)])
    q = RANDOM.random((4, 3)) + 0.1
    check(lambda a, b: a * b / (a + b) + dr.exp(a) + dr.sqrt(b) + dr.normalize(a) + dr.conj(b) + dr.log(a),
          (ad.Quaternion4f64, q), (ad.Quaternion4f64, q[::-1].copy()))


# --- regions ---------------------------------------------------------------------------------------------------------


class Cube(dr.CustomOp):
    """A custom operation."""

    def eval(self, x: Any) -> Any:
        self.x = x
        return x * x * x

    def forward(self) -> None:
        self.set_grad_out(3 * self.x * self.x * self.grad_in("x"))

    def backward(self) -> None:
        self.set_grad_in("x", 3 * self.x * self.x * self.grad_out())


def repeated(a: Any, b: Any, mode: str) -> Any:
    """A loop whose state is multiplied in each iteration, and one whose state is a sum."""
    k, x, total = ad.UInt32(0), F(a), F(b)
    return dr.while_loop((k, x, total), lambda k, x, total: k < 3,
                         lambda k, x, total: (k + 1, x * b + a, total + a * b), mode=mode)[1:]


def summed(a: Any, b: Any, mode: str) -> Any:
    k, total = ad.UInt32(0), F(b)
    return dr.while_loop((k, total), lambda k, total: k < 3, lambda k, total: (k + 1, total + a * b), mode=mode)[1]


def branched(a: Any, b: Any, mode: str) -> Any:
    return dr.if_stmt((a, b), a > 0.7, lambda a, b: a * b, lambda a, b: dr.sin(a) - b, mode=mode)


def called(a: Any, b: Any, mode: str) -> Any:
    return dr.switch(ad.UInt32(0, 1, 2, 0, 1, 2, 0), [lambda a, b: a * b, lambda a, b: dr.exp(a), lambda a, b: b], a, b,
                     mode=mode)


REGIONS: dict[str, Callable[..., Any]] = {"loop": repeated, "loop, sum": summed, "branch": branched, "call": called}


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
@pytest.mark.parametrize("name", REGIONS)
def test_regions(name: str, mode: str) -> None:
    check(lambda a, b: REGIONS[name](a, b, mode), on(P), on(Q))


def test_custom_operations() -> None:
    check(lambda a: dr.custom(Cube, a) * a, on(P))


# --- every rule has a sample -----------------------------------------------------------------------------------------


def samples() -> Iterator[tuple[Any, ...]]:
    """Functions that are checked above, and the types and values of their arguments."""
    for name, values in UNARY.items():
        yield getattr(dr, name), on(values)
    for name in BINARY:
        yield getattr(dr, name), on(P), on(Q)
    for function, *arguments in ELEMENTWISE.values():
        yield function, *map(on, arguments)
    for function in MEMORY.values():
        yield function, on(P)
    for function in BLOCKS.values():
        yield function, on(P[:6])
    for op, mode in SCATTERS:
        yield scattering(op, mode), on(P), on(Q[:5])
    for op, exclusive, reverse in SCANS:
        yield scanning(op, exclusive, reverse), on(P)
    for name in REDUCTIONS_OF_TENSORS:
        yield (lambda t, name=name: getattr(dr, name)(t, axis=1)), (T, A)
    for function in TENSORS.values():
        yield function, (T, A)
    yield transposed, (T, MANY)
    yield (lambda a, b: a @ b), *((T, np.ones(shape)) for shape in PRODUCTS["matrices"])
    yield dr.norm, (ad.Array3f64, A[:, 0])
    yield through_single, on(P)
    yield slope_of_tanh, on(P)
    for region in REGIONS.values():
        yield (lambda a, b, region=region: region(a, b, "symbolic")), on(P), on(Q)
    yield (lambda a: dr.custom(Cube, a)), on(P)


def expected_rules() -> set[str]:
    """What the tables of the compiler have rules for: by operand, operator and option, as :func:`rules_of` says it."""
    operators = [reduction.op.name for reduction in REDUCTIONS.values() if "f" in reduction.accepts]
    modes = [mode.name for mode in drjit_core.ReduceMode]
    found = {f"{rule.name} {operand}" for rule in RULES.values()
             for operand, partial in zip("xyz", rule.partials) if partial is not None}
    found |= {f"scatter {op} {mode}" for op in operators for mode in modes if mode != "Permute"}
    found |= {f"scatter Identity {mode}" for mode in modes}
    found |= {f"{name} {op}" for name in ("reduce", "segment") for op in operators}
    found |= {f"scan {op} {exclusive:d} {reverse:d}" for op in operators for exclusive in (0, 1) for reverse in (0, 1)}
    found |= {"sort 0", "sort 1", "output _Link", "output _Repetition", "output _Choice"}
    others = {"scatter", "reduce", "segment", "scan", "sort", "output"} | {"join"} | READS.keys()  # test_structured.py
    others |= {"move"}  # to another backend: tests/runtime/test_places.py
    return found | (STRUCTURE.keys() - others)


def test_every_rule_is_among_the_samples() -> None:
    found = set()
    for function, *arguments in samples():
        found |= rules_of(function, *arguments)
    assert sorted(expected_rules() - found) == []


def test_every_row_has_a_rule_or_a_reason() -> None:
    without = {row.name for row in OPS if "f" in row.accepts and row.derivative is None} - STRUCTURE.keys()
    constant = {"ceil", "floor", "trunc", "round", "eq", "neq", "lt", "le", "gt", "ge", "bitcast"}
    leaves = {"invalid", "dual", "literal", "bound", "undefined", "evaluated", "counter", "phi"}
    regions = {"loop", "cond", "call", "result", "local"}  # see above, and tests/control/test_derivatives.py
    # the same value; exchanges, see below; those of steps; networks' own; what others are expanded to
    others = {"opaque", "fetch", "pack", "step", "product", "outer", "sin_reduced", "cos_reduced"}
    # those of textures, if these have been used, are traced as what they are made of where derivatives are
    others |= {row.name for row in OPS if row.name.startswith(("lookup", "decoded", "texel_gradients"))}
    assert without == constant | leaves | regions | others
    positions = {"extremum", "count", "compress"}
    assert set(STEPS) == positions | STRUCTURE.keys() & set(STEPS)


@pytest.mark.parametrize("function", [dr.ceil, dr.floor, dr.trunc, dr.round, lambda x: x < 1, dr.argmin, dr.argmax,
                                      dr.isnan, dr.sign, lambda x: dr.reinterpret_array(ad.UInt64, x),
                                      lambda x: dr.compress(x > 0.5), lambda x: ad.Int64(x)])
def test_what_changes_in_steps_is_a_constant(function: Any) -> None:
    x = F(P)
    dr.enable_grad(x)
    assert not dr.grad_enabled(function(x))


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


@pytest.mark.parametrize("function", [dr.atan, dr.asinh, dr.acosh, lambda x: dr.atan2(x, x * 0 + 400),
                                      lambda x: dr.atan2(x * 0 + 400, x), lambda x: dr.atan2(x / 2**20, x / 2**20)])
@pytest.mark.parametrize("backward", [False, True])
def test_factors_of_half_precision_do_not_overflow(function: Any, backward: bool) -> None:
    found = []
    for cls in (ad.Float16, F):
        x = cls(300, 2000, 30000)
        dr.enable_grad(x)
        y = function(x)
        (dr.backward if backward else dr.forward)(y if backward else x)
        found.append(flat((x if backward else y).grad))
    np.testing.assert_allclose(*found, rtol=2e-3, atol=2e-7)


nan, inf = np.nan, np.inf
#: Functions, arguments, and the gradients of the sum of the results.
SPECIAL = [
    (dr.abs, ([0.0, -0.0, 1, -1],), ([0, 0, 1, -1],)),
    (dr.minimum, ([1, 1, 2], [1, 2, 1]), ([1, 1, 0], [0, 0, 1])),
    (dr.maximum, ([1, 1, 2], [1, 2, 1]), ([0, 0, 1], [1, 1, 0])),
    (dr.minimum, ([1, nan], [nan, 1]), ([0, 0], [1, 1])), (dr.maximum, ([1, nan], [nan, 1]), ([0, 0], [1, 1])),
    (dr.copysign, ([0.0, -0.0, 0.0, -0.0], [1, 1, -1, -0.0]), ([1, -1, -1, 1], [0, 0, 0, 0])),
    (dr.max, ([1, 2, 2],), ([0, 1, 1],)), (dr.min, ([1, 1, 2],), ([1, 1, 0],)),
    (lambda x: dr.log(dr.max(x)), ([0, -1],), ([inf, 0],)),
    (dr.prod, ([0, 2, 3],), ([6, 0, 0],)), (dr.prod, ([0, 0, 3],), ([0, 0, 0],)),
    (dr.sqrt, ([0, 1],), ([inf, 0.5],)), (dr.hypot, ([0, 3], [0, 4]), ([0, 0.6], [0, 0.8])),
    (lambda x: dr.select(x > 0, dr.sqrt(x), 0), ([0, 1, -1],), ([0, 0.5, 0],)),
    (lambda x: dr.select(x > 0, dr.log(x), x), ([0, 2, -1],), ([1, 0.5, 1],)),
    (dr.norm, ([0, 0],), ([0, 0],)), (dr.norm, ([0, 2],), ([0, 1],)),
    (lambda x, y: dr.norm(ad.Array2f64(x, y)), ([0, 3, 0], [0, 4, -2]), ([0, 0.6, 0], [0, 0.8, -1])),
    (lambda x: dr.norm(T(x)), ([0, 0],), ([0, 0],)),
    (lambda x, y: dr.abs(ad.Complex2f64(x, y)), ([0, 3, 0], [0, 4, -2]), ([0, 0.6, 0], [0, 0.8, -1])),
    (lambda x, y: dr.unit_angle(ad.Array2f64(x, y), ad.Array2f64(1, 0)), ([1], [0]), ([0], [0])),
    (dr.copysign, ([0, -0.0, 0, -0.0], [-1, -1, 1, 1]), ([-1, 1, 1, -1], [0] * 4)),
    (dr.safe_sqrt, ([0, -0.0, -1, 1, 1e-30, inf, nan],), ([0, 0, 0, 0.5, 0, 0, nan],)),
    (dr.safe_asin, ([0, 1, -1, 1.5, -1.5, inf, nan],), ([1, 0, 0, 0, 0, 0, nan],)),
    (dr.safe_acos, ([0, 1, -1, 1.5, -1.5, inf, nan],), ([-1, 0, 0, 0, 0, 0, nan],)),
    (lambda x: dr.select(x > 1, 0, dr.safe_asin(x)), ([1, 0.6, 2],), ([0, 1.25, 0],)),
    (dr.rcp, ([2, 0],), ([-0.25, -inf],)),
    (dr.power, ([0, 2], [2, 3]), ([0, 12], [0, 8 * np.log(2)])), (dr.power, ([0, 2, -1], [0, 0, 0]), ([0, 0, 0], [
        -inf, np.log(2), nan])), (lambda x: x ** 3, ([0, -2],), ([0, 12],)),
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


def looped(x: Any) -> Any:
    """Roots, of which a symbolic loop computes one more that no result depends on."""
    return dr.while_loop((ad.UInt32(0), F(x), F(x)), lambda i, y, z: i < 1, lambda i, y, z: (i + 1, y * 2, dr.sqrt(z)),
                         mode="symbolic", max_iterations=2)[1]


def scattered_roots(x: Any) -> Any:
    target = dr.zeros(F, 4)
    dr.scatter(target, x, ad.UInt32(1, 2, 3))
    return dr.sqrt(target)


#: Functions with an infinite derivative of what has no part in the result, their derivatives at (0, 1, 4), and changes
#: of the results for changes of the arguments by 1.
WITHOUT_PART = {
    "gather": (lambda x: dr.gather(F, dr.sqrt(x), ad.UInt32(1, 2, 1)), [0, 1, 0.25], [0.5, 0.25, 0.5]),
    "slice": (lambda x: dr.sqrt(x)[1:], [0, 0.5, 0.25], [0.5, 0.25]),
    "slice of a tensor": (lambda x: dr.sqrt(T(x))[1:], [0, 0.5, 0.25], [0.5, 0.25]),
    "scatter": (scattered_roots, [inf, 0.5, 0.25], [0, inf, 0.5, 0.25]),
    "running sum": (lambda x: dr.sqrt(dr.prefix_reduce(dr.ReduceOp.Add, x, exclusive=True)), [inf, 0.5, 0],
                    [0, inf, 1]),
    "loop": (lambda x: looped(x) * 0.5, [1, 1, 1], [1, 1, 1]),
    "masked loop": (lambda x: dr.select(x > 0, dr.while_loop(
        (ad.UInt32(0), F(x)), lambda i, y: i < 1, lambda i, y: (i + 1, dr.sqrt(y)), mode="symbolic",
        max_iterations=2)[1], 0), [0, 0.5, 0.25], [0, 0.5, 0.25]),
    "masked branch": (lambda x: dr.select(x > 0, dr.if_stmt(
        (x,), x < 2, dr.sqrt, lambda y: y * y, mode="symbolic"), 0), [0, 0.5, 8], [0, 0.5, 8]),
    "magnitude": (lambda x: dr.abs(dr.sqrt(x)), [0, 0.5, 0.25], [nan, 0.5, 0.25]),
}


@pytest.mark.parametrize("name", WITHOUT_PART)
def test_what_has_no_part_has_no_derivative_even_if_that_is_infinite(name: str) -> None:
    function, gradient, change = WITHOUT_PART[name]
    x = F(0, 1, 4)
    dr.enable_grad(x)
    dr.backward(function(x))
    np.testing.assert_allclose(x.grad.numpy(), gradient)
    x = F(0, 1, 4)
    dr.enable_grad(x)
    y = function(x)
    dr.forward(x)
    np.testing.assert_allclose(np.ravel(y.grad.numpy()), change)


def test_zeros_among_gradients_that_are_given_have_no_part() -> None:
    x = F(0, 1)
    dr.enable_grad(x)
    y = dr.sqrt(x)
    dr.set_grad(y, F(0, 1))
    dr.backward_from(y)
    np.testing.assert_array_equal(x.grad.numpy(), [0, 0.5])
    y = dr.sqrt(x)
    dr.set_grad(x, F(0, 1))
    dr.forward_from(x)
    np.testing.assert_array_equal(y.grad.numpy(), [0, 0.5])
    for mode in ("forward", "reverse"):
        np.testing.assert_array_equal(dr.jacobian(dr.sqrt, F(0, 1), mode=mode).numpy(), [[inf, 0], [0, 0.5]])
    np.testing.assert_array_equal(dr.hvp(dr.sqrt, F(0, 1), F(0, 1))[1].numpy(), [0, -0.25])

    class Selects(dr.CustomOp):
        def eval(self, x: Any) -> Any:
            return dr.gather(F, x, 1)

        def forward(self) -> None:
            self.set_grad_out(dr.gather(F, self.grad_in("x"), 1))

        def backward(self) -> None:
            self.set_grad_in("x", dr.select(dr.arange(ad.UInt32, 2) == 1, self.grad_out(), 0))

    x = F(0, 1)
    dr.enable_grad(x)
    dr.backward(dr.custom(Selects, dr.sqrt(x)))
    np.testing.assert_array_equal(x.grad.numpy(), [0, 0.5])


@pytest.mark.parametrize(("name", "edge"), [("safe_sqrt", 0), ("safe_asin", 1), ("safe_acos", 1), ("safe_asin", -1)])
@pytest.mark.parametrize("cls", [ad.Float16, ad.Float, ad.Float64], ids=["half", "single", "double"])
def test_derivatives_of_safe_functions_are_finite_at_the_ends_of_the_domain(cls: Any, name: str, edge: int) -> None:
    epsilon = float(dr.epsilon(cls))
    x = cls([edge + k * epsilon for k in (-8, -4, -2, -1, 0, 1, 2, 4, 8)])
    dr.enable_grad(x)
    dr.backward(getattr(dr, name)(x))
    values, found = x.numpy(), x.grad.numpy()
    inside, outside = (values > epsilon, values < 0) if edge == 0 else (abs(values) < 1 - epsilon, abs(values) >= 1)
    assert np.isfinite(found).all() and found[inside].all() and not found[outside].any()


HIDDEN_ZEROS = {
    "select": lambda x: dr.select(x > -9, x - 1, 0),
    "scatter": lambda x: scattered(x) - 1,
    "minimum": lambda x: dr.minimum(x, 9) - 1,
    "product": lambda x: (dr.minimum(x, 9) - 1) * 2 * x,
}


def scattered(x: Any) -> Any:
    target = dr.zeros(F, 3)
    dr.scatter(target, x * 1, ad.UInt32(0, 1, 2), ad.Bool(True, True, True))
    return target


@pytest.mark.parametrize("name", HIDDEN_ZEROS)
def test_gradients_that_happen_to_be_zero_have_derivatives(name: str) -> None:
    def gradient(x: Any) -> Any:
        return dr.value_and_grad(function)(x)[1]

    def function(x: Any) -> Any:
        return dr.sum(dr.square(HIDDEN_ZEROS[name](x * 0.5 + 0.25)))

    x, direction = np.array([1.5, 0.5, 2.5]), np.array([1.0, 2.0, 3.0])
    product = dr.hvp(function, F(x), F(direction))[1]
    h = 1e-5
    expected = (flat(gradient(F(x + h * direction))) - flat(gradient(F(x - h * direction)))) / (2 * h)
    np.testing.assert_allclose(flat(product), expected, rtol=1e-6)


@pytest.mark.parametrize("function", [lambda x: dr.sqrt(x), lambda x: dr.log(x), lambda x: x ** 1.5])
def test_second_derivatives_of_what_is_masked_out_are_zero(function: Any) -> None:
    gradient, product = dr.hvp(lambda x: dr.sum(dr.select(x > 0, dr.square(function(x * 1.0)), 0)), F(0, 0), F(1, 2))
    assert flat(gradient).tolist() == flat(product).tolist() == [0, 0]


def test_what_an_update_by_comparison_finds_has_no_derivative() -> None:
    x = ad.Float(1, 2, 3)
    dr.enable_grad(x)
    with pytest.raises(RuntimeError, match=r"drjit.scatter_cas\(\): there is no derivative of .*drjit.detach"):
        dr.scatter_cas(ad.Float(x), 1, 2, ad.UInt32(0))
    for target in (dr.detach(x), x):
        with dr.suspend_grad():
            copy = ad.Float(target)
            found, success = dr.scatter_cas(copy, x, x + 5, ad.UInt32(0, 1, 2), ad.Bool(True, True, False))
        assert not dr.grad_enabled(found, copy)
        assert (flat(found).tolist(), flat(copy).tolist(), list(success)) == ([1, 2, 0], [6, 7, 3], [True, True, False])


#: Functions whose second derivatives at their arguments are not zero, though first ones along the way are.
CURVED = {
    "selected": (lambda x: dr.select(x > -1, dr.sin(x), 0), [0, 0.5]),
    "larger": (lambda x: dr.maximum(dr.sin(x), -1), [0, 0.5]),
    "gathered": (lambda x: dr.gather(F, x, INDEX[0]), [0, 1]),
    "product": (dr.prod, [0, 0.5, 2]),
    "block product": (lambda x: dr.block_reduce(dr.ReduceOp.Mul, x * x, 2), [0, 2]),
    "running product": (lambda x: dr.prefix_reduce(dr.ReduceOp.Mul, x * x + x, exclusive=False), [2, 0, -3]),
    "running maximum": (lambda x: dr.prefix_reduce(dr.ReduceOp.Max, dr.sin(x), exclusive=False), [0, -1, 1]),
    "scattered product": (lambda x: scattered_product(x), [0, 2, 0.5]),
}


@pytest.mark.parametrize("name", CURVED)
def test_second_derivatives_where_first_ones_are_zero(name: str) -> None:
    function, values = CURVED[name]
    random, eps = np.random.default_rng(2), 1e-6
    base, direction = np.array(values, dtype=np.float64), random.standard_normal(len(values))

    def loss(x: Any) -> Any:
        return dr.sum(dr.square(function(x)))

    def gradient(x: Any) -> Any:
        dr.enable_grad(x)
        dr.backward(loss(x))
        return flat(x.grad)

    expected = (gradient(F(base + eps * direction)) - gradient(F(base - eps * direction))) / (2 * eps)
    _, found = dr.hvp(loss, F(base), F(direction))
    np.testing.assert_allclose(flat(found), expected, rtol=1e-5, atol=1e-5)


def scattered_product(x: Any) -> Any:
    target = F(x)
    dr.scatter_reduce(dr.ReduceOp.Mul, target, x * 2, ad.UInt32(0, 1, 1))
    return target


def test_derivatives_on_the_interpreter_are_the_same() -> None:
    def gradient() -> Any:
        x = ad.Float64(P)
        dr.enable_grad(x)
        y = dr.sum(dr.sin(x) * dr.gather(ad.Float64, x, INDEX[0]) + dr.cumsum(x) * dr.sqrt(x))
        y += dr.sum(dr.prefix_reduce(dr.ReduceOp.Mul, x) * dr.prefix_reduce(dr.ReduceOp.Min, x, exclusive=False))
        y += dr.sum(scattered_product(x[:3]))
        dr.backward(y)
        return flat(x.grad)

    with drjit_core.on_backend("interpreter"):
        found = gradient()
    np.testing.assert_allclose(found, gradient(), rtol=1e-12)


@pytest.mark.parametrize("counts", [[3], [3, 1, 0]])
def test_derivatives_of_loops_on_the_interpreter_are_the_same(counts: list[int]) -> None:
    """What a loop keeps of its iterations differs from element to element, also if its counter does not."""
    def gradient() -> Any:
        x = ad.Float64(0.1, 0.2, 0.3)
        dr.enable_grad(x)
        _, y = dr.while_loop((ad.UInt32(0), ad.Float64(x)), lambda k, y: k < ad.UInt32(counts),
                             lambda k, y: (k + 1, y * y + dr.sin(y)), mode="symbolic", max_iterations=3)
        dr.backward(dr.sum(y))
        return flat(x.grad)

    with drjit_core.on_backend("interpreter"):
        found = gradient()
    np.testing.assert_allclose(found, gradient(), rtol=1e-12)


def test_gradients_of_squares_are_doubled_products() -> None:
    """Which is what a multiplication and a fused multiply-add give, too, at less cost."""
    values, seeds = (np.random.default_rng(k).random(1000, dtype=np.float32) for k in range(2))
    x, seed = ad.Float(values), ad.Float(seeds)
    dr.enable_grad(x)
    y = x * x
    dr.set_grad(y, seed)
    dr.enqueue(dr.ADMode.Backward, y)
    dr.traverse(dr.ADMode.Backward)
    gradient = drjit_core.primal(x.grad._nodes()[0])
    assert gradient.kind == KIND["add"]
    assert np.array_equal(x.grad.numpy(), 2 * (values * seeds))
