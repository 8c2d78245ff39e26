"""Gradients of the weights of networks in loops, branches and calls: equal however the program runs."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import drjit as dr
from drjit import nn
from drjit.llvm.ad import Float, Float16, Float64, TensorXf, TensorXf16, TensorXf64, UInt
from drjit_core import limits, on_backend

#: By tensor types: flat arrays, and what gradients may differ by, relative to the largest element.
TYPES: dict[str, tuple[Any, Any, float]] = {
    "f64": (TensorXf64, Float64, 1e-12), "f32": (TensorXf, Float, 2e-6), "f16": (TensorXf16, Float16, 2e-3)}


class Case:
    """A network, positions that it is evaluated for, and how often, by the element."""

    def __init__(self, name: str, width: int, hidden: int, bias: bool = True, packed: bool = True) -> None:
        dtype, self.leaf, self.tolerance = TYPES[name]
        self.packed = packed
        self.net = nn.Sequential(nn.Linear(2, hidden, bias=bias), nn.Tanh(), nn.Linear(-1, hidden, bias=bias),
                                 nn.LeakyReLU(), nn.Linear(-1, 2, bias=bias)).alloc(dtype, rng=dr.rng(seed=3))
        rng = np.random.default_rng(hidden)
        for key in self.net:
            if key.endswith("bias"):
                self.net[key] = dtype(rng.uniform(-0.5, 0.5, self.net[key].shape))
        if packed:
            self.net = nn.pack(self.net, layout="training")
        rng = np.random.default_rng(width)
        self.x = [self.leaf(rng.uniform(-1, 1, width)) for _ in range(2)]
        self.times = UInt(rng.integers(width == 1, 5, width).astype(np.uint32))
        dr.eval(self.x, self.times)

    def step(self, x: Any, y: Any) -> Any:
        """One step: the vector is moved by the network."""
        if self.packed:
            a, b = self.net(nn.CoopVec(x, y))
        else:
            v = nn.CoopVec(x, y)
            for layer in self.net.layers:
                v = nn.matvec(nn.view(layer.weights), v, None if layer.bias is None else nn.view(layer.bias)) \
                    if isinstance(layer, nn.Linear) else layer(v)
            a, b = v
        return x + 0.25 * a, y - 0.5 * b

    def derivatives(self, function: Any) -> list[Any]:
        """Values, and gradients of all parameters and positions."""
        keys = list(self.net)
        for key in keys:
            weights = dr.detach(self.net[key], preserve_type=True)
            dr.enable_grad(weights)
            self.net[key] = weights
        given = [type(each)(each) for each in self.x]
        dr.enable_grad(given)
        x, y = function(self, *given)
        loss = dr.sum(Float64(x) * Float64(y) + Float64(y))
        dr.backward(loss)
        found = [dr.grad(each) for each in (*[self.net[key] for key in keys], *given)]
        dr.eval(loss, found)
        return [np.array(Float64(dr.ravel(each)).numpy()) for each in (loss, *found)]


def unrolled(case: Case, x: Any, y: Any) -> Any:
    for k in range(4):
        a, b = case.step(x, y)
        x, y = dr.select(case.times > k, a, x), dr.select(case.times > k, b, y)
    return x, y


def loop(mode: str) -> Any:
    def run(case: Case, x: Any, y: Any) -> Any:
        return dr.while_loop((UInt(0), x, y), lambda k, x, y: k < case.times, lambda k, x, y: (k + 1, *case.step(x, y)),
                             mode=mode, max_iterations=4)[1:]
    return run


def branches(mode: str) -> Any:
    def run(case: Case, x: Any, y: Any) -> Any:
        for k in range(4):
            x, y = dr.if_stmt((x, y), case.times > k, case.step, lambda x, y: (x, y), mode=mode)
        return x, y
    return run


def branch_in_loop(case: Case, x: Any, y: Any) -> Any:
    def body(k: Any, x: Any, y: Any) -> Any:
        return k + 1, *dr.if_stmt((x, y), case.times > k, case.step, lambda x, y: (x, y))

    return dr.while_loop((UInt(0), x, y), lambda k, x, y: k < 4, body, max_iterations=4)[1:]


def calls(mode: str) -> Any:
    def run(case: Case, x: Any, y: Any) -> Any:
        for k in range(4):
            x, y = dr.switch(UInt(case.times > k), [lambda x, y: (x, y), case.step], x, y, mode=mode)
        return x, y
    return run


def call_in_loop(case: Case, x: Any, y: Any) -> Any:
    def body(k: Any, x: Any, y: Any) -> Any:
        return k + 1, *dr.switch(UInt(case.times > k), [lambda x, y: (x, y), case.step], x, y)

    return dr.while_loop((UInt(0), x, y), lambda k, x, y: k < 4, body, max_iterations=4)[1:]


def loop_in_loop(case: Case, x: Any, y: Any) -> Any:
    def body(k: Any, x: Any, y: Any) -> Any:
        end = dr.minimum(k + 2, case.times)
        return k + 2, *dr.while_loop((UInt(k), x, y), lambda k, x, y: k < end, lambda k, x, y: (
            k + 1, *case.step(x, y)), max_iterations=2)[1:]

    return dr.while_loop((UInt(0), x, y), lambda k, x, y: k < case.times, body, max_iterations=2)[1:]


def sums(mode: str) -> Any:
    """A loop in which nothing is differentiated that changes: its derivative runs in its own direction."""
    def run(case: Case, x: Any, y: Any) -> Any:
        def body(k: Any, x: Any, y: Any) -> Any:
            a, b = case.step(case.leaf(k) * 0.1, case.leaf(0.5))
            return k + 1, x + a, y + b * 0.5
        return dr.while_loop((UInt(0), x, y), lambda k, x, y: k < case.times, body, mode=mode, max_iterations=4)[1:]
    return run


def plain_sums(case: Case, x: Any, y: Any) -> Any:
    for k in range(4):
        a, b = case.step(case.leaf(dr.full(case.leaf, k * 0.1, len(case.times))), case.leaf(0.5))
        x, y = dr.select(case.times > k, x + a, x), dr.select(case.times > k, y + b * 0.5, y)
    return x, y


WAYS: dict[str, tuple[Any, Any]] = {
    "loop": (loop("symbolic"), unrolled), "evaluated loop": (loop("evaluated"), unrolled),
    "branches": (branches("symbolic"), unrolled), "evaluated branches": (branches("evaluated"), unrolled),
    "branch in a loop": (branch_in_loop, unrolled), "calls": (calls("symbolic"), unrolled),
    "evaluated calls": (calls("evaluated"), unrolled), "call in a loop": (call_in_loop, unrolled),
    "loop in a loop": (loop_in_loop, unrolled), "sums": (sums("symbolic"), plain_sums),
    "evaluated sums": (sums("evaluated"), plain_sums)}


def check(found: list[Any], expected: list[Any], tolerance: float) -> None:
    assert len(found) == len(expected) > 3
    largest = max(np.abs(two).max() for two in expected)
    for one, two in zip(found, expected, strict=True):
        assert one.shape == two.shape
        scale = max(np.abs(two).max(), largest / 16)
        assert scale > 1e-20 and np.isfinite(two).all()
        assert np.abs(one - two).max() <= tolerance * scale, (np.abs(one - two).max() / scale, tolerance)


@pytest.mark.parametrize("name", list(TYPES))
@pytest.mark.parametrize("way", list(WAYS))
def test_gradients_are_those_of_the_unrolled_program(way: str, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    function, plain = WAYS[way]
    case = Case(name, 133, 5)
    if limits(case.times._n.where).tracing.products:
        monkeypatch.setattr("drjit.nn.product._sum", None)  # nothing is read element by element
    expected = Case("f64", 133, 5).derivatives(plain) if name != "f16" else case.derivatives(plain)
    tolerance = case.tolerance * (1 if name != "f16" else 8)
    check(case.derivatives(function), expected, tolerance)


#: Many elements of one shape each, few of all.
WIDTHS_AND_SHAPES = [*itertools.product([1, 2, 7, 16, 33], [1, 3, 16, 33]), (3000, 3), (70000, 16)]


@pytest.mark.sample(2)  # kernels that take long to compile
@pytest.mark.parametrize(("width", "hidden"), WIDTHS_AND_SHAPES)
@pytest.mark.parametrize("way", ["loop", "sums", "branch in a loop", "calls"])
def test_widths_and_shapes(way: str, width: int, hidden: int) -> None:
    function, plain = WAYS[way]
    check(Case("f32", width, hidden).derivatives(function), Case("f64", width, hidden).derivatives(plain), 2e-5)


def test_two_loops_and_two_products_in_a_body() -> None:
    def loops(case: Case, x: Any, y: Any) -> Any:
        def body(k: Any, x: Any, y: Any) -> Any:
            return k + 1, *case.step(*case.step(x, y))

        x, y = loop("symbolic")(case, x, y)
        return dr.while_loop((UInt(0), x * 0.5, y), lambda k, x, y: k < case.times, body, max_iterations=4)[1:]

    def plain(case: Case, x: Any, y: Any) -> Any:
        x, y = unrolled(case, x, y)
        x = x * 0.5
        for k in range(4):
            a, b = case.step(*case.step(x, y))
            x, y = dr.select(case.times > k, a, x), dr.select(case.times > k, b, y)
        return x, y

    check(Case("f32", 50, 4).derivatives(loops), Case("f64", 50, 4).derivatives(plain), 1e-5)


@pytest.mark.parametrize("width", [1, 50])
@pytest.mark.parametrize("way", ["loop", "calls", "branches"])
def test_indices_are_checked_elsewhere(way: str, width: int) -> None:
    function, plain = WAYS[way]
    with dr.scoped_set_flag(dr.JitFlag.Debug):
        found = Case("f32", width, 4).derivatives(function)
    check(found, Case("f64", width, 4).derivatives(plain), 1e-5)


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("way", ["loop", "sums", "calls", "loop in a loop"])
def test_buffers(way: str, bias: bool, packed: bool) -> None:
    function, plain = WAYS[way]
    check(Case("f32", 50, 4, bias, packed).derivatives(function), Case("f64", 50, 4, bias, packed).derivatives(plain),
          3e-6)


@pytest.mark.parametrize("how", ["plain", "transposed", "slice", "rows", "column", "row", "one"])
@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
def test_views(how: str, mode: str) -> None:
    """Parts of a matrix, of any distance of rows and columns."""
    matrix = TensorXf64(np.arange(48).reshape(6, 8) / 10)
    dr.enable_grad(matrix)
    view = nn.view(matrix)
    part = {"plain": view, "transposed": view.T, "slice": view[1:4, 2:7], "rows": view[1:6:2], "column": view[:, 3:4],
            "row": view[2:3], "one": view[3:4, 4:5]}[how]
    rows, columns = part.shape if how != "transposed" else part.shape[::-1]
    x = [Float64(0.1 * k, 0.2, 0.3 + k) for k in range(columns)]

    def body(k: Any, *found: Any) -> Any:
        return k + 1, *[f + a * (k + 1) for f, a in zip(found, nn.matvec(part, nn.CoopVec(*x)), strict=True)]

    found = dr.while_loop((UInt(0), *[Float64(0)] * rows), lambda k, *rest: k < UInt(3, 0, 1), body, mode=mode)[1:]
    dr.backward(sum(value * (place + 1) for place, value in enumerate(found)))
    expected = np.zeros((6, 8))
    positions = np.arange(48).reshape(6, 8)
    positions = {"plain": positions, "transposed": positions.T, "slice": positions[1:4, 2:7], "rows": positions[1:6:2],
                 "column": positions[:, 3:4], "row": positions[2:3], "one": positions[3:4, 4:5]}[how]
    weights = np.array([6, 0, 1])
    for row in range(rows):
        for column in range(columns):
            expected.reshape(-1)[positions[row, column]] = (row + 1) * (x[column].numpy() * weights).sum()
    np.testing.assert_allclose(dr.grad(matrix).numpy(), expected, rtol=1e-12)


@pytest.mark.parametrize("size", [1, 5])
def test_a_matrix_of_one_element(size: int) -> None:
    weight = Float64(2)
    dr.enable_grad(weight)
    x = dr.arange(Float64, size) + 1

    def body(k: Any, x: Any) -> Any:
        found, = nn.matvec(nn.view(weight), nn.CoopVec(x), nn.view(weight))
        return k + 1, found

    _, found = dr.while_loop((UInt(0), Float64(x)), lambda k, x: k < 3, body, max_iterations=3)
    dr.backward(dr.sum(found))
    assert dr.grad(weight)[0] == sum(3 * 4 * each + 1 + 2 * 2 + 3 * 4 for each in range(1, size + 1))


@pytest.mark.parametrize("within", [False, True])
@pytest.mark.parametrize("count", [1, 3, 4, 6])
def test_calls_of_few_and_of_many_networks(count: int, within: bool) -> None:
    """Each has weights of its own, but for the last, which has those of the first; some elements call none. The
    derivative of a call of few is branches, which add up in rooms of their own."""
    rng, width = np.random.default_rng(count), 70
    x, index, active = rng.uniform(-1, 1, (2, width)), rng.integers(0, count + 1, width), rng.integers(0, 4, width) > 0
    scales = [Float64(0.5 + k) for k in range(count)]
    buffers = [Float64(rng.uniform(-1, 1, 8)) for _ in range(max(1, count - 1))]
    table = Float64(rng.uniform(-1, 1, 5))

    def function(number: int) -> Any:
        def apply(x: Any, y: Any, active: Any = True) -> Any:
            buffer = buffers[number % len(buffers)]
            a, b = nn.matvec(nn.MatrixView._make(buffer, (2, 2), 2, 0), nn.CoopVec(x, y),
                             nn.MatrixView._make(buffer, (2, 1), 1, 4))
            return dr.tanh(a) * scales[number], b + dr.gather(Float64, table, UInt(dr.abs(x) * 5) % 5) * y
        return apply

    functions = [function(number) for number in range(count)]

    def call(x: Any, y: Any) -> Any:
        return dr.switch(UInt(index), functions, x, y, dr.llvm.ad.Bool(active))

    def selected(x: Any, y: Any) -> Any:
        a = b = dr.zeros(Float64, width)
        for number, apply in enumerate(functions):
            here = dr.llvm.ad.Bool(active & (index == number))
            a, b = (dr.select(here, new, old) for new, old in zip(apply(x, y), (a, b), strict=True))
        return a, b

    found = []
    for run in (selected, call):
        given = [*buffers, table, *scales, *map(Float64, x)]
        for each in given:
            dr.disable_grad(each)
            dr.enable_grad(each)
        a, b = given[-2:]
        if within:
            _, a, b = dr.while_loop((UInt(0), a, b), lambda k, a, b: k < 2,
                                    lambda k, a, b, run=run: (k + 1, *run(a, b)),
                                    max_iterations=2, mode="evaluated" if run is selected else "symbolic")
        else:
            a, b = run(a, b)
        with dr.scoped_set_flag(dr.JitFlag.KernelHistory):
            dr.kernel_history_clear()
            dr.backward(dr.sum(a * b + dr.sin(b)))
            found.append([dr.grad(each).numpy() for each in given])
            texts = [kernel["ir"].getvalue() for kernel in dr.kernel_history() if kernel["type"] == dr.KernelType.JIT]
    for one, two in zip(*found, strict=True):
        # atomic additions have another order than those of branches
        np.testing.assert_allclose(one, two, rtol=1e-11, atol=1e-13)
    assert abs(found[0][0]).max() > 0.01
    assert any("outer_once" in text for text in texts) == (count == 6)


@pytest.mark.parametrize(("leaf", "tolerance"), [(Float, 5e-7), (Float16, 1e-3)])
def test_sums_of_many_elements_are_exact(leaf: Any, tolerance: float) -> None:
    """Terms of one sign, whose sum in single precision would lose digits; and in half precision, all of it."""
    count = 1 << 20
    weights = leaf(0.5, 0.25)
    dr.enable_grad(weights)
    x = dr.full(leaf, 0.1, count)
    dr.eval(x)

    def body(k: Any, total: Any) -> Any:
        found, = nn.matvec(nn.view(weights).T, nn.CoopVec(x, leaf(1)))
        return k + 1, total + Float(found)

    _, total = dr.while_loop((UInt(0), dr.zeros(Float, count)), lambda k, t: k < 3, body)
    dr.backward(dr.mean(total))
    np.testing.assert_allclose(dr.grad(weights).numpy(), [3 * leaf(0.1)[0], 3], rtol=tolerance)


def test_threads_and_kinds_of_kernels_agree() -> None:
    """The bits do not depend on how many threads there are."""
    case = Case("f32", 20000, 8)
    before, found = dr.thread_count(), []
    try:
        for threads in (1, 2, 3, 2):
            dr.set_thread_count(threads)
            found.append(case.derivatives(loop("symbolic")))
    finally:
        dr.set_thread_count(before)
    for other in found[1:]:
        for one, two in zip(found[0], other, strict=True):
            assert (one == two).all()


def test_elements_that_take_no_part_add_nothing() -> None:
    """Not even where the vector is infinite."""
    weights = Float(1, 2)
    dr.enable_grad(weights)
    x = Float(1, np.inf, 3, np.nan)

    def body(k: Any, y: Any) -> Any:
        found, = nn.matvec(nn.view(weights).T, nn.CoopVec(x, Float(1)))
        return k + 1, y + found

    _, y = dr.while_loop((UInt(0), dr.zeros(Float, 4)), lambda k, y: k < UInt(2, 0, 1, 0), body)
    dr.backward(dr.sum(y))
    assert dr.grad(weights).numpy().tolist() == [5, 3]


def test_frozen_steps() -> None:
    case = Case("f32", 40, 6)

    @dr.freeze
    def step(weights: Any, times: Any, x: Any, y: Any) -> Any:
        weights = Float(weights)
        dr.enable_grad(weights)
        case.net["weights"], case.times = weights, times
        x, y = loop("symbolic")(case, x, y)
        dr.backward(dr.sum(x * y + y))
        return dr.grad(weights)

    weights = Float(case.net["weights"])
    for width in (40, 40, 40, 23, 300, 40, 1):
        case = Case("f32", width, 6)
        expected = Case("f64", width, 6).derivatives(unrolled)[1]
        found = step(weights, case.times, *case.x).numpy()
        assert np.abs(found - expected).max() < 3e-6 * np.abs(expected).max()
    assert step.n_recordings <= 4


@pytest.mark.parametrize("way", ["loop", "sums", "branches", "branch in a loop", "calls", "call in a loop"])
def test_forward_mode(way: str) -> None:
    """Along the same direction, both modes agree."""
    function, _ = WAYS[way]
    case = Case("f64", 21, 5)
    expected = case.derivatives(function)[1]
    weights = Float64(case.net["weights"])
    direction = np.random.default_rng(1).uniform(-1, 1, len(weights))
    dr.enable_grad(weights)
    case.net["weights"] = weights
    x, y = function(case, *case.x)
    dr.set_grad(weights, Float64(direction))
    found = dr.forward_to(dr.sum(x * y + y))[0]
    np.testing.assert_allclose(found, (direction * expected).sum(), rtol=1e-11)


def of_second_order(case: Case, function: Any, direction: Any, order: str) -> Any:
    """The derivative of the gradient by all parameters along a direction."""
    weights = Float64(dr.detach(case.net["weights"]))
    dr.enable_grad(weights)

    def loss(weights: Any) -> Any:
        case.net["weights"] = weights
        x, y = function(case, *case.x)
        return dr.sum(x * y + dr.sin(y))

    if order == "forward over reverse, as a function":
        return dr.hvp(loss, weights, direction)[1].numpy()
    _, gradient = dr.value_and_grad(loss)(weights)
    if order == "evaluated between":
        dr.eval(gradient)
    if order == "forward over reverse":
        dr.set_grad(weights, direction)
        return dr.forward_to(gradient).numpy()
    dr.backward(dr.dot(gradient, direction))
    return dr.grad(weights).numpy()


@pytest.mark.sample(2)  # kernels that take long to compile
@pytest.mark.parametrize("how", ["products", "reads"])
@pytest.mark.parametrize("order", ["reverse over reverse", "evaluated between", "forward over reverse",
                                   "forward over reverse, as a function"])
@pytest.mark.parametrize("way", [way for way in WAYS if "evaluated" not in way])
def test_derivatives_of_second_order(way: str, order: str, how: str) -> None:
    """By parameters, which products with cooperative vectors and reads by index find in memory: as without regions."""
    case, (function, plain) = Case("f64", 6, 3), WAYS[way]
    direction = Float64(np.random.default_rng(1).uniform(-1, 1, len(case.net["weights"])))
    if how == "reads":
        def step(x: Any, y: Any) -> Any:
            a, b = x, y
            for k in range(3):
                v, w = (dr.gather(Float64, case.net["weights"], 7 * k + UInt(dr.abs(a) * 4) % 5 + place)
                        for place in (0, 1))
                a, b = dr.tanh(v * a + w * b), v * b - a * a
            return x + 0.25 * a, y - 0.5 * b

        case.step = step  # type: ignore[method-assign]
    expected = of_second_order(case, plain, direction, "reverse over reverse")
    found = of_second_order(case, function, direction, order)
    assert abs(expected).max() > 1e-3
    # the same sums in another order; of the default, where terms nearly cancel
    np.testing.assert_allclose(found, expected, atol=1e-11 * abs(expected).max())


@pytest.mark.parametrize("way", ["loop", "branches", "calls", "sums", "branch in a loop"])
def test_derivatives_of_second_order_are_differences(way: str) -> None:
    case, (function, _) = Case("f64", 5, 3), WAYS[way]
    weights = case.net["weights"].numpy()
    direction = np.random.default_rng(1).uniform(-1, 1, len(weights))

    def gradient(weights: Any) -> Any:
        def loss(weights: Any) -> Any:
            case.net["weights"] = weights
            x, y = function(case, *case.x)
            return dr.sum(x * y + dr.sin(y))
        return dr.value_and_grad(loss)(Float64(weights))[1].numpy()

    case.net["weights"] = Float64(weights)
    found = of_second_order(case, function, Float64(direction), "reverse over reverse")
    expected = (gradient(weights + 1e-5 * direction) - gradient(weights - 1e-5 * direction)) / 2e-5
    # what central differences by 1e-5 leave out and round away
    np.testing.assert_allclose(found, expected, atol=1e-8 * abs(expected).max())


@pytest.mark.parametrize("way", ["loop", "branches", "calls", "sums"])
def test_derivatives_of_third_order(way: str) -> None:
    case, (function, plain) = Case("f64", 4, 3), WAYS[way]
    start = Float64(case.net["weights"])
    first, second = (Float64(np.random.default_rng(k).uniform(-1, 1, len(start))) for k in range(2))

    def found(function: Any) -> Any:
        def loss(weights: Any) -> Any:
            case.net["weights"] = weights
            x, y = function(case, *case.x)
            return dr.sum(x * y + dr.sin(y))

        weights = Float64(start)
        dr.enable_grad(weights)
        _, gradient = dr.value_and_grad(lambda w: dr.dot(dr.value_and_grad(loss)(w)[1], first))(weights)
        dr.backward(dr.dot(gradient, second))
        return dr.grad(weights).numpy()

    expected = found(plain)
    # the same sums in another order, once more differentiated
    np.testing.assert_allclose(found(function), expected, atol=1e-10 * abs(expected).max())


@pytest.mark.parametrize("way", ["loop", "branch", "call"])
def test_a_gradient_that_is_read_by_index_once_more(way: str) -> None:
    """What a derivative adds up is memory like others outside; within, a write that is read has no derivative still."""
    weights, x = Float64(0.5, -0.25, 2), Float64(0.5, 2)
    dr.enable_grad(weights)

    def value(weights: Any, x: Any) -> Any:
        return dr.sin(dr.gather(Float64, weights, UInt(x)) * x)

    def run(weights: Any) -> Any:
        if way == "loop":
            return dr.while_loop((UInt(0), Float64(0)), lambda k, y: k < 2, lambda k, y: (
                k + 1, y + value(weights, x)), mode="symbolic")[1]
        if way == "branch":
            return dr.if_stmt((Float64(x),), x > 1, lambda x: value(weights, x), lambda x: value(weights, x) * 2,
                              mode="symbolic")
        return dr.switch(UInt(x > 1), [lambda x: value(weights, x) * 2, lambda x: value(weights, x)], Float64(x),
                         mode="symbolic")

    _, gradient = dr.value_and_grad(lambda w: dr.sum(run(w)))(weights)
    dr.backward(dr.sum(dr.gather(Float64, gradient, UInt(2, 0, 2))))
    many = 2 if way == "loop" else 1
    # sines of two libraries
    np.testing.assert_allclose(dr.grad(weights).numpy(), [-0.5 * np.sin(0.25), 0, -8 * many * np.sin(4)], rtol=1e-12)


@pytest.mark.parametrize("way", list(WAYS))
def test_the_interpreter_agrees(way: str) -> None:
    function, _ = WAYS[way]
    case = Case("f64", 19, 4)
    expected = case.derivatives(function)
    with on_backend("interpreter"):
        other = Case("f64", 19, 4)
        found = other.derivatives(function)
    check(found, expected, 1e-12)


def test_an_exception_in_a_loop_changes_nothing() -> None:
    case = Case("f64", 12, 3)
    expected = case.derivatives(loop("symbolic"))

    def fails(case: Case, x: Any, y: Any) -> Any:
        def body(k: Any, x: Any, y: Any) -> Any:
            case.step(x, y)
            raise KeyError("in the body")
        return dr.while_loop((UInt(0), x, y), lambda k, x, y: k < 3, body, max_iterations=3)

    with pytest.raises(RuntimeError, match="in the body"):
        case.derivatives(fails)
    check(case.derivatives(loop("symbolic")), expected, 0)


def test_text_does_not_grow_with_the_network() -> None:
    """A loop with a network of 64 × 64 is a few thousand lines, not one for each weight."""
    case = Case("f32", 64, 64)
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory):
        dr.kernel_history_clear()
        case.derivatives(sums("symbolic"))
        lengths = [len(kernel["ir"].getvalue().splitlines()) for kernel in dr.kernel_history()
                   if kernel["type"] == dr.KernelType.JIT]
    assert max(lengths) < 12000


@dr.syntax
def marched(net: Any, x: Any, y: Any, times: Any) -> Any:
    k = UInt(0)
    while k < times:
        a, b = net(nn.CoopVec(x, y))
        if a > 0:
            a, b = net(nn.CoopVec(a, b))
        x, y = x + a, y - 0.5 * b
        k += 1
    return x, y


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("layout", ["inference", "training", None])
def test_networks_are_variables_of_loops_and_branches(nested: bool, layout: str | None) -> None:
    """All views of a packed network have one buffer, in loops as well."""
    layers = nn.Linear(2, 5), nn.Tanh(), nn.Linear(-1, 2)
    net = nn.Sequential(nn.Sequential(*layers[:2]), nn.Skip(nn.Linear(5, 5)), layers[2]) if nested else \
        nn.Sequential(*layers)
    net = nn.pack(net.alloc(TensorXf64, rng=dr.rng(seed=4)), layout=layout) if layout else nn.pack(
        net.alloc(TensorXf64, rng=dr.rng(seed=4)))
    given = Float64(0.3, -0.4, 0.8, 0.1), Float64(-0.2, 0.5, 0.9, -1), UInt(3, 0, 1, 2)

    def symbolic(net: Any, x: Any, y: Any, times: Any) -> Any:
        def body(k: Any, net: Any, x: Any, y: Any) -> Any:
            a, b = net(nn.CoopVec(x, y))
            a, b, net = dr.if_stmt((a, b, net), a > 0, lambda a, b, net: (*net(nn.CoopVec(a, b)), net),
                                   lambda a, b, net: (a, b, net))
            return k + 1, net, x + a, y - 0.5 * b
        return dr.while_loop((UInt(0), net, x, y), lambda k, net, x, y: k < times, body, max_iterations=3)[2:]

    def plain(net: Any, x: Any, y: Any, times: Any) -> Any:
        for k in range(3):
            a, b = net(nn.CoopVec(x, y))
            c, d = net(nn.CoopVec(a, b))
            a, b = dr.select(a > 0, c, a), dr.select(a > 0, d, b)
            x, y = dr.select(times > k, x + a, x), dr.select(times > k, y - 0.5 * b, y)
        return x, y

    found = []
    for function in (plain, marched, symbolic):
        weights = Float64(net["weights"])
        if function is not marched:  # which has no bound
            dr.enable_grad(weights)
        net["weights"] = weights
        x, y = function(net, *given)
        if function is not marched:
            dr.backward(dr.sum(x * y + y))
        found.append((x.numpy(), y.numpy(), dr.grad(weights).numpy()))
        linear = [layer for layer in (*net.layers, *(net.layers[0].layers if nested else ()),
                                      *(net.layers[1].layers if nested else ())) if isinstance(layer, nn.Linear)]
        assert len(linear) > 1 and all(view.buffer is net["weights"] for layer in linear
                                       for view in (layer.weights, layer.bias))
        net["weights"] = dr.detach(weights, preserve_type=True)
    for other in found[1:]:
        assert np.allclose(found[0][0], other[0]) and np.allclose(found[0][1], other[1])
    assert abs(found[0][2]).min() > 0 and np.allclose(found[0][2], found[2][2])
