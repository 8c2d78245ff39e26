"""Derivatives through loops, branches and calls: symbolic, evaluated, against finite differences, to second order."""

from __future__ import annotations

import gc
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import drjit as dr
import drjit_core
from drjit.llvm.ad import Array3f64, Bool, Int, UInt32
from drjit.llvm.ad import Float64 as F

X, W, TABLE = [-1.2, 0.7, 2.0, -0.3], [0.7], [0.3, -1.1, 0.8, 0.2, 1.7, -0.4, 0.9, 0.1]
INDEX, COUNTS = UInt32(0, 1, 1, 2), UInt32(3, 5, 0, 1)
U = UInt32


def gather(table: Any, *index: int) -> Any:
    return dr.gather(F, table, U(*index))


class Square(dr.CustomOp):
    def eval(self, x: Any) -> Any:
        self.x = x
        return x * x

    def forward(self) -> None:
        self.set_grad_out(2 * self.x * self.grad_in("x"))

    def backward(self) -> None:
        self.set_grad_in("x", 2 * self.x * self.grad_out())


def branch(mode: str, args: Any, cond: Any, yes: Any, no: Any) -> Any:
    return dr.if_stmt(args, cond, yes, no, mode=mode)


def loop(mode: str, state: Any, cond: Any, body: Any, **options: Any) -> Any:
    return dr.while_loop(state, cond, body, mode=mode, **options)


def call(mode: str, targets: Any, *args: Any) -> Any:
    return dr.switch(INDEX, targets, *args, mode=mode)


def splat(mode: str, x: Any) -> Any:
    target = dr.zeros(F, 3) + 1

    def added(x: Any) -> Any:
        dr.scatter_add(target, x * x, U(0, 1, 2, 0))
        return x

    def replaced(x: Any) -> Any:
        dr.scatter(target, x, U(1, 1, 0, 2))
        return x * 2

    branch(mode, (x,), x > 0, added, replaced)
    return target


def reversed_names(mode: str, x: Any) -> Any:
    """State that changes places."""
    return loop(mode, (U(0), x, F(1)), lambda i, y, z: i < COUNTS, lambda i, y, z: (i + 1, z * 0.5 + y, dr.sin(y)))[1]


class Cube(dr.CustomOp):
    """Keeps values in a list within an object that refers to itself."""

    def eval(self, x: Any) -> Any:
        self.kept = Kept([x * x])
        return x * x * x

    def forward(self) -> None:
        self.set_grad_out(3 * self.kept.entries[0] * self.grad_in("x"))

    def backward(self) -> None:
        self.set_grad_in("x", 3 * self.kept.entries[0] * self.grad_out())


class Kept:
    def __init__(self, entries: list[Any]) -> None:
        self.entries, self.itself = entries, self


class Product(dr.CustomOp):
    def eval(self, x: Any, y: Any) -> Any:
        self.factors = {"x": x, "y": (y,)}
        return x * y

    def forward(self) -> None:
        self.set_grad_out(self.factors["y"][0] * self.grad_in("x") + self.factors["x"] * self.grad_in("y"))

    def backward(self) -> None:
        self.set_grad_in("x", self.factors["y"][0] * self.grad_out())
        self.set_grad_in("y", self.factors["x"] * self.grad_out())


def captured(mode: str, x: Any) -> Any:
    """Constructs whose functions refer to what is computed in those around them."""
    def side(y: Any) -> Any:
        z = y * x

        def body(i: Any, y: Any) -> Any:
            a = dr.sin(y + z)
            return i + 1, branch(mode, (y,), y > 0.3, lambda y: y * a + z, lambda y: dr.cos(y) * x)

        return loop(mode, (U(0), y), lambda i, y: i < 2, body)[1] + z

    return branch(mode, (x,), x > -0.5, side, lambda y: y * x)


def customised(mode: str, x: Any) -> Any:
    def body(i: Any, y: Any) -> Any:
        z = dr.sin(y)
        return i + 1, branch(mode, (y,), y > 0.1, lambda y: dr.custom(Product, y, z) + dr.custom(Cube, z),
                             lambda y: dr.custom(Product, z, x) * y)

    return loop(mode, (U(0), x), lambda i, y: i < COUNTS % 4, body)[1]


def read_back(mode: str, x: Any, *, loops: bool) -> Any:
    buffer = dr.zeros(F, 4) + 1

    def side(y: Any) -> Any:
        dr.scatter_add(buffer, F(0.5), U(0, 1, 2, 3))
        return y * y * gather(buffer, 0, 1, 2, 3)

    if loops:
        return loop(mode, (U(0), x), lambda i, y: i < 2, lambda i, y: (i + 1, side(y)))[1]
    return branch(mode, (x,), x > 0, side, lambda y: dr.sin(y))


def beside(mode: str, x: Any) -> Any:
    """Writes that have nothing to do with the results of the constructs that make them."""
    buffer, counter = dr.zeros(F, 64), U(0)

    def side(y: Any) -> Any:
        dr.scatter(buffer, F(1), dr.scatter_inc(counter, U(0)))
        return y * y

    def body(i: Any, y: Any) -> Any:
        dr.scatter_add(buffer, F(i), i + 8)
        return i + 1, branch(mode, (y,), y > 0, side, lambda y: dr.sin(y)) * 0.9

    return loop(mode, (U(0), x), lambda i, y: i < COUNTS, body)[1]


#: Functions of a mode and of variables, and where they are differentiated.
PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[list[float], ...]]] = {
    "branch": (lambda m, x: branch(m, (x,), x > 0, lambda x: dr.sin(x) * x, lambda x: x * x * x), (X,)),
    "branch of two": (lambda m, x, w: branch(m, (x, w), x > 0, lambda x, w: dr.sin(x) * w, lambda x, w: x * w * w),
                      (X, W)),
    "branch, closure": (lambda m, x, w: branch(m, (x,), x > 0, lambda x: dr.sin(x) * w, lambda x: x * w * w), (X, W)),
    "branch, tuple": (lambda m, x: dr.prod(branch(m, (x,), x > 0, lambda x: Array3f64(dr.sin(x), x * 2, 1),
                                                  lambda x: Array3f64(x, x * x, x))), (X,)),
    "branch, gather": (lambda m, x, t: branch(m, (x,), x > 0, lambda x: x * gather(t, 0, 1, 2, 2),
                                              lambda x: x + gather(t, 3, 3, 4, 4) ** 2), (X, TABLE)),
    "branch, table": (lambda m, x, t: branch(m, (x, t), x > 0, lambda x, t: x * gather(t, 0, 1, 2, 2),
                                             lambda x, t: x + gather(t, 3, 3, 4, 4) ** 2), (X, TABLE)),
    "branch, detached": (lambda m, x: branch(m, (x,), x > 0, lambda x: dr.replace_grad(dr.detach(x), x) * x,
                                             lambda x: x * x), (X,)),
    "branch, constant": (lambda m, x: branch(m, (x,), x > 0, lambda x: x, lambda x: F(2)), (X,)),
    "branch of one": (lambda m, x, c: branch(m, (x, c), c > 0, lambda x, c: x * c, lambda x, c: x - c), (X, [0.5])),
    "branch, vector": (lambda m, x: dr.sum(branch(m, (Array3f64(x, x * 2, 1),), x > 0, lambda v: v * v,
                                                  lambda v: dr.cross(v, Array3f64(1, 2, 3)))), (X,)),
    "branches": (lambda m, x: branch(m, (x,), x > 0, lambda x: branch(m, (x,), x > 1, lambda x: x * x, dr.exp),
                                     lambda x: x * 3), (X,)),
    "branch, scatter": (splat, (X,)),
    "call": (lambda m, x: call(m, [lambda x: x * x, lambda x: dr.sin(x) * 2, lambda x: x + 3], x), (X,)),
    "call of two": (lambda m, x, w: call(m, [lambda x, w: x * x, lambda x, w: dr.sin(x) * w, lambda x, w: w * x + 3],
                                         x, w), (X, W)),
    "call, closure": (lambda m, x, w: call(m, [lambda x: x * w, lambda x: dr.sin(x) * w, lambda x: x + 3], x), (X, W)),
    "loop, sum": (lambda m, w: loop(m, (U(0), F(0)), lambda i, s: i < COUNTS,
                                    lambda i, s: (i + 1, s + dr.sin(w * F(i))))[1], (W,)),
    "loop, sums": (lambda m, w, x: loop(m, (U(0), x * x), lambda i, s: i < COUNTS,
                                        lambda i, s: (i + 1, s + w * x - dr.sin(w * F(i))))[1], (W, X)),
    "loop": (lambda m, x: loop(m, (U(0), x), lambda i, y: i < COUNTS,
                               lambda i, y: (i + 1, dr.sin(y) * y + y))[1], (X,)),
    "loop, shared": (lambda m, x, w: loop(m, (U(0), x), lambda i, y: i < COUNTS,
                                          lambda i, y: (i + 1, dr.sin(y) * w + y * w))[1], (X, [0.9])),
    "loop, bound": (lambda m, x, w: loop(m, (U(0), x), lambda i, y: i < COUNTS,
                                         lambda i, y: (i + 1, dr.sin(y) * w + y * w), max_iterations=5)[1], (X, W)),
    "loop, unchanged": (lambda m, x, w: loop(m, (U(0), x, w), lambda i, y, w: i < COUNTS,
                                             lambda i, y, w: (i + 1, dr.sin(y) * w + y * w, w))[1], (X, W)),
    "loop of two": (lambda m, x: dr.prod(Array3f64(*loop(
        m, (U(0), x, F(1)), lambda i, y, z: i < COUNTS, lambda i, y, z: (i + 1, y * z, z + dr.sin(y)))[1:], 1)), (X,)),
    "loop, exchange": (reversed_names, (X,)),
    "loop, gather": (lambda m, x, t: loop(m, (U(0), x), lambda i, y: i < COUNTS,
                                          lambda i, y: (i + 1, y * 0.7 + dr.gather(F, t, i) * y))[1], (X, TABLE)),
    "loop, gathered sum": (lambda m, t: loop(m, (U(0), F(0)), lambda i, y: i < COUNTS, lambda i, y: (
        i + 1, y + dr.square(dr.gather(F, t, i + INDEX))))[1], (TABLE,)),
    "loop, gather and more": (lambda m, t: loop(m, (U(0), t), lambda i, y: i < U(3, 5, 0, 1, 2, 2, 1, 4), lambda i, y: (
        i + 1, dr.sin(y) + t * dr.gather(F, t, i)))[1], (TABLE,)),
    "loop, sum of gathered and more": (lambda m, t: loop(m, (U(0), F(0)), lambda i, y: i < 3, lambda i, y: (
        i + 1, y + t * dr.gather(F, t, i)))[1], (TABLE,)),
    "branch in a loop, gather": (lambda m, x, t: loop(m, (U(0), x), lambda i, y: i < COUNTS, lambda i, y: (
        i + 1, branch(m, (y,), y > 0.5, lambda y: y * dr.gather(F, t, i), lambda y: dr.sin(y) * 2)))[1], (X, TABLE)),
    "loop in a branch, gather and more": (lambda m, t: branch(m, (t,), t > 0.15, lambda y: loop(
        m, (U(0), y), lambda j, z: j < 2, lambda j, z: (j + 1, z * dr.gather(F, t, j) + t * z * z))[1],
        lambda y: t * y), (TABLE,)),
    "loops, gather": (lambda m, x, t: loop(m, (U(0), x), lambda i, y: i < COUNTS, lambda i, y: (i + 1, loop(
        m, (U(0), y), lambda j, z: j < i, lambda j, z: (j + 1, z * dr.gather(F, t, i + j)))[1]))[1], (X, TABLE)),
    "custom operation": (lambda m, x: branch(m, (x,), x > 0, lambda x: dr.custom(Square, x) * x, lambda x: x), (X,)),
    "loops": (lambda m, x: loop(m, (U(0), x), lambda i, y: i < U(3, 2, 0, 1), lambda i, y: (i + 1, loop(
        m, (U(0), y), lambda j, z: j < i + 1, lambda j, z: (j + 1, dr.sin(z) + z * 0.1))[1]))[1], (X,)),
    "loops, sums": (lambda m, x: loop(m, (U(0), F(0)), lambda i, y: i < U(3, 2, 0, 1), lambda i, y: (i + 1, y + loop(
        m, (U(0), F(0)), lambda j, z: j < i + 1, lambda j, z: (j + 1, z + dr.sin(x * F(j + i))))[1]))[1], (X,)),
    "branch in a loop": (lambda m, x: loop(m, (U(0), x), lambda i, y: i < U(3, 2, 0, 1), lambda i, y: (
        i + 1, branch(m, (y,), y > 0, lambda y: y * y * 0.3, lambda y: dr.sin(y) - y)))[1], (X,)),
    "loop in a branch": (lambda m, x: branch(m, (x,), x > 0, lambda x: loop(
        m, (U(0), x), lambda i, y: i < 3, lambda i, y: (i + 1, dr.sin(y) * y))[1], lambda x: x * 2), (X,)),
    "call in a loop": (lambda m, x: loop(m, (U(0), x), lambda i, y: i < U(3, 2, 0, 1), lambda i, y: (
        i + 1, call(m, [lambda y: y * y * 0.3, lambda y: dr.sin(y) - y, lambda y: y + 1], y)))[1], (X,)),
    "captured": (captured, (X,)),
    "custom operations": (customised, (X,)),
    "branch, read back": (lambda m, x: read_back(m, x, loops=False), (X,)),
    "loop, read back": (lambda m, x: read_back(m, x, loops=True), (X,)),
    "writes beside": (beside, (X,)),
    "state by closure": (lambda m, x: loop(m, (U(0), F(0.5), F(1)), lambda i, y, z: i < COUNTS, lambda i, y, z: (
        i + 1, z * 2 + y, z * dr.sin(x * F(i + 1))))[1], (X,)),
    "state changes places": (lambda m, x: loop(m, (U(0), x, x * 2, F(0.3)), lambda i, *_: i < 3, lambda i, a, b, c: (
        i + 1, b * c, a, c))[1], (X,)),
    "loop, value replaced": (lambda m, x: loop(m, (U(0), x), lambda i, y: i < 2, lambda i, y: (
        i + 1, dr.replace_grad(dr.detach(y) * 1.0, y) * dr.sin(x)))[1], (X,)),
    "loop, detached": (lambda m, x: loop(m, (U(0), x), lambda i, y: i < COUNTS, lambda i, y: (
        i + 1, y * 1.1 + dr.detach(y) * 0))[1], (X,)),
}


def weighted(value: Any) -> Any:
    width = dr.width(value)
    return dr.sum(value * F(np.cos(np.arange(width)) + 1.5))


def gradients(function: Callable[..., Any], mode: str, points: list[np.ndarray[Any, Any]]) -> list[Any]:
    variables = [F(point) for point in points]
    dr.enable_grad(variables)
    dr.backward(weighted(function(mode, *variables)))
    return [np.broadcast_to(variable.grad.numpy(), point.shape)
            for variable, point in zip(variables, points, strict=True)]


def differences(value: Callable[[list[np.ndarray[Any, Any]]], Any], points: list[np.ndarray[Any, Any]],
                directions: list[np.ndarray[Any, Any]], step: float = 1e-5) -> Any:
    above, below = ([point + sign * step * direction for point, direction in zip(points, directions, strict=True)]
                    for sign in (1, -1))
    return (value(above) - value(below)) / (2 * step)


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_derivatives(name: str, mode: str) -> None:
    function, given = PROGRAMS[name]
    points, random = [np.array(point, dtype=float) for point in given], np.random.default_rng(len(name))
    directions = [random.standard_normal(point.shape) for point in points]

    def value(at: list[np.ndarray[Any, Any]]) -> float:
        return float(weighted(function(mode, *(F(point) for point in at)))[0])

    slope = differences(value, points, directions)
    found = gradients(function, mode, points)
    reverse = sum(float((gradient * direction).sum()) for gradient, direction in zip(found, directions, strict=True))
    np.testing.assert_allclose(reverse, slope, rtol=1e-5, atol=1e-7)
    variables = [F(point) for point in points]
    dr.enable_grad(variables)
    result = weighted(function(mode, *variables))
    for variable, direction in zip(variables, directions, strict=True):
        dr.set_grad(variable, F(direction))
    np.testing.assert_allclose(float(dr.forward_to(result)[0]), slope, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("name", [name for name, (_, points) in PROGRAMS.items() if len(points) == 1])
def test_second_derivatives(name: str) -> None:
    function, (given,) = PROGRAMS[name]
    point = np.array(given, dtype=float)
    direction = np.random.default_rng(3).standard_normal(point.shape)

    def loss(x: Any) -> Any:
        return weighted(function("symbolic", x))

    if name.startswith("custom operation"):
        with pytest.raises(RuntimeError, match="there is no derivative of a derivative that a custom operation"):
            dr.hvp(loss, F(point), F(direction))
        return
    expected = differences(lambda at: gradients(function, "symbolic", at)[0].copy(), [point], [direction])
    found = dr.hvp(loss, F(point), F(direction))[1].numpy()
    np.testing.assert_allclose(np.broadcast_to(found, point.shape), expected, rtol=1e-4, atol=1e-6)


def test_custom_operations_inside() -> None:
    x = F(X)
    dr.enable_grad(x)
    y = dr.if_stmt((x,), x > 0, lambda x: dr.custom(Square, x) * x, lambda x: x)
    _, z = dr.while_loop((U(0), x), lambda i, z: i < 2, lambda i, z: (i + 1, dr.custom(Square, z)))
    dr.backward(y + z)
    value = np.array(X)
    np.testing.assert_allclose(x.grad.numpy(), np.where(value > 0, 3 * value ** 2, 1) + 4 * value ** 3)


def test_a_bound_that_is_too_small_makes_gradients_nan_and_raises() -> None:
    x = F(X)
    dr.enable_grad(x)
    _, y = dr.while_loop((U(0), x), lambda i, y: i < COUNTS, lambda i, y: (i + 1, dr.sin(y) * 2), max_iterations=3,
                         label="doubling")
    dr.backward(y)
    dr.eval(x.grad)
    with pytest.raises(RuntimeError, match="the symbolic loop 'doubling' took more iterations than max_iterations=3"):
        x.grad.numpy()
    assert np.isnan(x.grad.numpy()).tolist() == [False, True, False, False]
    assert y.numpy().shape == (4,)


def test_the_error_of_a_bound_leaves_other_results_alone() -> None:
    def gradient(bound: int) -> Any:
        x = F(X)
        dr.enable_grad(x)
        _, y = dr.while_loop((U(0), x), lambda i, y: i < 5, lambda i, y: (i + 1, dr.sin(y) * 2), max_iterations=bound)
        dr.backward(y)
        return x.grad

    wrong, other = gradient(3), F(1, 2) * 3
    assert other.numpy().tolist() == [3, 6] and np.isfinite(gradient(5).numpy()).all()
    def later() -> Any:
        found = gradient(3)
        dr.eval(found)
        dr.eval(other)
        return dr.sum(found * 2)[0]

    for read in (wrong.numpy, (2 * gradient(3)).numpy, lambda: dr.sum(gradient(3))[0], later):
        with pytest.raises(RuntimeError, match="took more iterations than max_iterations=3"):
            read()
        assert other.numpy().tolist() == [3, 6]
    assert np.isnan(wrong.numpy()).all()
    wrong, other = gradient(3), F(1, 2) * 3
    dr.eval(other, wrong)
    assert other.numpy().tolist() == [3, 6]
    with pytest.raises(RuntimeError, match="took more iterations than max_iterations=3"):
        dr.sync_thread()
    assert np.isnan(wrong.numpy()).all()


def test_nobody_checks_the_bound_of_a_loop_that_nobody_asks_for() -> None:
    x = F(X)
    dr.enable_grad(x)
    _, y = dr.while_loop((U(0), x), lambda i, y: i < 5, lambda i, y: (i + 1, dr.sin(y) * 2), max_iterations=3)
    dr.backward(y)
    assert len(drjit_core.flags.state.checks) == 1
    dr.clear_grad(x)
    del y
    dr.detach(x + 1).numpy()
    assert not drjit_core.flags.state.checks


def test_a_bound_that_a_condition_keeps_is_not_checked() -> None:
    x = F(X)
    dr.enable_grad(x)
    _, y = dr.while_loop((U(0), x), lambda i, y: (i < 3) & (y < 5), lambda i, y: (i + 1, dr.sin(y) * 2),
                         max_iterations=3)
    dr.backward(y)
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory):
        dr.eval(x.grad)
        (kernel,) = dr.kernel_history()
    assert kernel["output_count"] == 1


def doubled(bound: int | None) -> Any:
    """The value of a loop, as a function."""
    return lambda x: dr.while_loop((U(0), Bool(True), x), lambda i, b, y: (i < 40) & (dr.abs(y) < 3), lambda i, b, y: (
        i + 1, y > 0.8, dr.select(b, dr.sin(y) * 1.7, y * 1.1) + 0.1), max_iterations=bound)[2]


@pytest.mark.parametrize("bound", [None, 40, 1000])
def test_the_loop_that_is_differentiated_runs_once(bound: int | None) -> None:
    x = F(X)
    dr.enable_grad(x)
    y = doubled(bound)(x)
    dr.backward(y)
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory):
        dr.eval(x.grad, y)
        kernels = [entry for entry in dr.kernel_history() if entry["type"] == dr.KernelType.JIT]
    assert len(kernels) == (1 if bound != 1000 else 2)
    assert_gradients(doubled(bound), x)


def assert_gradients(function: Any, x: Any, times: int = 1) -> None:
    """Compare the gradient that a variable has with finite differences."""
    steps = [(np.asarray(function(F(x.numpy() + step))) - np.asarray(function(F(x.numpy() - step)))) / (2 * step)
             for step in [1e-6]]
    np.testing.assert_allclose(x.grad.numpy(), times * steps[0], rtol=1e-5, atol=1e-8)


def long(x: Any, scale: Any) -> Any:
    for k in range(12):
        x = dr.sin(x * scale + k)
    return x


def many(x: Any, scale: Any) -> tuple[Any, Any]:
    return long(x, scale), long(x, scale) * scale + 1


DERIVED: dict[str, Any] = {
    "branch": lambda x, s: sum(dr.if_stmt((x, s), x > 0, many, lambda x, s: (x * s, x))),
    "branch, passed": lambda x, s: sum(dr.if_stmt((x, s), x > 0, lambda x, s: (s, long(x, s), x * s),
                                                  lambda x, s: (s, x * s, x))),
    "call": lambda x, s: sum(dr.switch(INDEX, [many, lambda x, s: (s * x, x), lambda x, s: (x, s)], x, s)),
    "sum": lambda x, s: dr.while_loop((U(0), F(0)), lambda k, y: k < 4, lambda k, y: (k + 1, y + long(x * F(k), s)))[1],
    "loop": lambda x, s: dr.while_loop((U(0), x), lambda k, y: k < 4, lambda k, y: (k + 1, long(y, s)))[1]}


def derived(what: str, direction: str, *, depends: bool = False, before: bool = False) -> tuple[Any, Any]:
    """The values of a program, which may be evaluated before, and a derivative, which may depend on the values."""
    x, scale = F(X), dr.opaque(F, 0.7)
    dr.enable_grad(x, scale)
    y = DERIVED[what](x, scale)
    if before:
        dr.eval(y)
    if direction == "reverse":
        dr.backward(dr.sum(y * y if depends else 3 * y))
        return dr.detach(y), scale.grad
    dr.set_grad(scale, dr.sum(dr.detach(y)) if depends else 1)
    return dr.detach(y), dr.forward_to(y)


@pytest.fixture(params=[False, True])
def let_go(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether small arrays are let go, too, when what is differentiated has been evaluated."""
    if request.param:
        monkeypatch.setattr("drjit_core.derivatives.tape._FEW", -1)


@pytest.mark.usefixtures("let_go")
@pytest.mark.parametrize("depends", [False, True])
@pytest.mark.parametrize("direction", ["reverse", "forward"])
@pytest.mark.parametrize("what", DERIVED)
def test_values_and_their_derivatives_together_and_apart(what: str, direction: str, depends: bool) -> None:
    wanted = derived(what, direction, depends=depends)
    dr.eval(wanted)
    apart = derived(what, direction, depends=depends, before=True)
    for one, other in zip(wanted, apart, strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-14)


@pytest.mark.parametrize("direction", ["reverse", "forward"])
@pytest.mark.parametrize("what", DERIVED)
def test_a_kernel_of_both_computes_values_with_their_derivatives(what: str, direction: str) -> None:
    def operations(function: Any) -> int:
        with dr.scoped_set_flag(dr.JitFlag.KernelHistory):
            dr.kernel_history_clear()
            dr.eval(function())
            return max(entry["operation_count"] for entry in dr.kernel_history())

    value = operations(lambda: DERIVED[what](F(X), dr.opaque(F, 0.7)))
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory):
        after = derived(what, direction, before=True)
        dr.kernel_history_clear()
        dr.eval(after)
        gradient = max(entry["operation_count"] for entry in dr.kernel_history())
    assert gradient < operations(lambda: derived(what, direction)) < gradient + 0.7 * value


@pytest.mark.parametrize("at_once", [True, False])
def test_the_local_memory_of_many_loops_does_not_exhaust_the_stack(at_once: bool) -> None:
    def value(x: Any) -> Any:
        return dr.while_loop((U(0), x), lambda k, y: k < 1000, lambda k, y: (k + 1, dr.sin(y + 0.2)))[1] * x

    x, total = F(np.linspace(0.5, 1, 40)), F(0)
    dr.enable_grad(x)
    for _ in range(12):
        if at_once:
            total += dr.sum(value(x))
        else:
            dr.backward(dr.sum(value(x)))
    if at_once:
        dr.backward(total)
    assert_gradients(value, x, 12)


@pytest.mark.parametrize("bound", [None, 40, 1000])
def test_traversals_that_share_a_loop(bound: int | None) -> None:
    """Gradients of both are asked for together: each has a loop that keeps the state."""
    x = F(X)
    dr.enable_grad(x)
    y = doubled(bound)(x)
    for _ in range(2):
        dr.set_grad(y, 1)
        dr.enqueue(dr.ADMode.Backward, y)
        dr.traverse(dr.ADMode.Backward, dr.ADFlag.ClearInterior)
    assert_gradients(doubled(bound), x, 2)


@pytest.mark.parametrize("bound", [None, 40, 1000])
def test_a_gradient_that_depends_on_a_sum_of_the_loop(bound: int | None) -> None:
    x = F(X)
    dr.enable_grad(x)
    y = doubled(bound)(x)
    dr.backward(dr.sum(y * y) * dr.sum(y))
    value = np.asarray(doubled(None)(dr.detach(x)))
    scale = 2 * value * value.sum() + (value * value).sum()
    found = x.grad.numpy()
    z = F(X)
    dr.enable_grad(z)
    dr.backward(doubled(None)(z))
    np.testing.assert_allclose(found, scale * z.grad.numpy(), rtol=1e-9)


@pytest.mark.usefixtures("let_go")
@pytest.mark.parametrize("what", ["nothing", "the number", "the value", "both"])
@pytest.mark.parametrize("bound", [None, 40, 1000])
def test_results_of_a_loop_that_were_evaluated_before(bound: int | None, what: str) -> None:
    def value(x: Any) -> Any:
        number, y = dr.while_loop((U(0), x), lambda i, y: (i < 40) & (dr.abs(y) < 3),
                                  lambda i, y: (i + 1, dr.sin(y) * 1.7 + 0.1), max_iterations=bound)
        if what in ("the number", "both"):
            dr.eval(number)
        if what in ("the value", "both"):
            dr.eval(y)
        return y * F(number)

    x = F(X)
    dr.enable_grad(x)
    y = value(x)
    dr.backward(y)
    assert_gradients(value, x)
    assert not np.isnan(y.numpy()).any()


@pytest.mark.parametrize("outer", [None, 3, 1000])
@pytest.mark.parametrize("inner", [None, 5, 5000])
@pytest.mark.parametrize("how", ["loop", "branch", "call"])
def test_loops_in_regions(outer: int | None, inner: int | None, how: str) -> None:
    def value(x: Any) -> Any:
        def repeated(y: Any, count: Any) -> Any:
            return dr.while_loop((U(0), y), lambda k, y: (k < count) & (y < 10),
                                 lambda k, y: (k + 1, dr.sin(y * x) + 0.2 * y), max_iterations=inner)[1]

        if how == "branch":
            return dr.if_stmt((x,), x < 0.5, lambda y: repeated(y, U(4)), lambda y: y * y)
        if how == "call":
            return dr.switch(INDEX & 1, [lambda y: repeated(y, U(4)), lambda y: y * y], x)
        return dr.while_loop((U(0), x), lambda k, y: k < COUNTS % 4, lambda k, y: (k + 1, repeated(y, k + 2) * 1.1),
                             max_iterations=outer)[1]

    x = F(X)
    dr.enable_grad(x)
    dr.backward(value(x))
    assert_gradients(value, x)


def test_gradients_of_a_loop_are_few_kernels() -> None:
    weights = [F(0.1 * k) for k in range(16)]
    dr.make_opaque(weights)
    x = F(np.linspace(0, 1, 1000))
    dr.eval(x)
    dr.enable_grad(weights)
    _, y = dr.while_loop((U(0), x), lambda i, y: i < 5, lambda i, y: (
        i + 1, y + sum((dr.sin(y + w) * w for w in weights), F(0))), max_iterations=5)
    dr.backward(dr.sum(y))
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory):
        dr.eval([w.grad for w in weights])
        kernels = [entry for entry in dr.kernel_history() if entry["size"] == 1000]
    assert len(kernels) <= 2


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
def test_what_suspended_scopes_and_integers_cut_stays_cut(mode: Any) -> None:
    x = F(X)
    dr.enable_grad(x)

    def suspended(x: Any) -> Any:
        with dr.suspend_grad():
            return x * x

    y, counted, flagged = dr.if_stmt((x,), x > 0, lambda x: (suspended(x) + x, U(1), Bool(True)),
                                     lambda x: (F(U(dr.abs(x))) + 2 * x, U(2), Bool(False)), mode=mode)
    assert dr.grad_enabled(y) and not dr.grad_enabled(counted) and not dr.grad_enabled(flagged)
    dr.backward(y)
    assert x.grad.numpy().tolist() == [2, 1, 1, 2]
    with dr.suspend_grad():
        assert not dr.grad_enabled(dr.if_stmt((x,), x > 0, lambda x: x * x, lambda x: x, mode=mode))


@pytest.mark.parametrize("second", [False, True])
@pytest.mark.parametrize("construct", ["loop", "branch", "call", "instances", "nested"])
def test_functions_are_called_once(construct: str, second: bool) -> None:
    calls = itertools.count()

    def function(x: Any) -> Any:
        next(calls)
        return x * dr.sin(x * w)

    def result(x: Any) -> Any:
        if construct == "branch":
            return branch("symbolic", (x,), x > 0, function, lambda x: x)
        if construct == "call":
            return call("symbolic", [function, lambda x: x, lambda x: -x], x)
        if construct == "instances":
            return surfaces.value(x)
        if construct == "nested":
            return loop("symbolic", (U(0), x), lambda i, y: i < COUNTS, lambda i, y: (
                i + 1, branch("symbolic", (y,), y > 0, function, lambda y: y)))[1]
        return loop("symbolic", (U(0), x), lambda i, y: i < COUNTS, lambda i, y: (i + 1, function(y)))[1]

    instances = Surface(function), Surface(function)
    surfaces = SurfaceArray(instances[0], None, instances[1], None)
    x, w = F(X), F(0.7)
    dr.enable_grad(x, w)
    if second:
        dr.hvp(lambda x: dr.sum(result(x)), x, F(1))
    else:
        y = result(x)
        dr.backward(y, dr.ADFlag.ClearInterior)
        dr.set_grad(x, 1)
        dr.forward_to(y)
    assert next(calls) == (2 if construct == "instances" else 1)


def test_state_that_is_not_differentiated_may_be_written_where_anything_is() -> None:
    other, calls = F(1), itertools.count()
    dr.enable_grad(other)
    added, read, numbers = dr.zeros(F, 4), dr.zeros(F, 4), dr.zeros(F, 4)
    lanes = U(0, 1, 2, 3)

    def body(i: Any, y: Any) -> Any:
        next(calls)
        dr.scatter_add(added, y, lanes)
        dr.scatter_reduce(dr.ReduceOp.Add, numbers, y, lanes)
        loop("symbolic", (U(0),), lambda j: j < 2, lambda j: (dr.scatter_add(added, y * 2, lanes), j + 1)[1:])
        y = branch("symbolic", (y,), y > 0, lambda y: (dr.scatter_add(read, y, lanes), y * 2)[1], lambda y: y)
        assert not dr.grad_enabled(y) and dr.grad_enabled(y * other)
        return i + 1, y + dr.gather(F, read, lanes)

    y = loop("symbolic", (U(0), F(X)), lambda i, y: i < 2, body)[1]
    x = np.array(X)
    seen = np.where(x > 0, x, 0)
    after = np.where(x > 0, x * 2, x) + seen
    again = seen + np.where(after > 0, after, 0)
    np.testing.assert_allclose(y.numpy(), np.where(after > 0, after * 2, after) + again)
    np.testing.assert_allclose(added.numpy(), 5 * (x + after))
    np.testing.assert_allclose(numbers.numpy(), x + after)
    np.testing.assert_allclose(read.numpy(), again)
    assert not dr.grad_enabled(y, added, read)


class Model:
    def __init__(self) -> None:
        self.weight = F(0.5)
        dr.enable_grad(self.weight)

    def step(self, i: Any, y: Any) -> Any:
        return i + 1, y * self.weight

    def run(self) -> None:
        self.loop = loop("symbolic", (U(0), F(X)), lambda i, y: i < 3, self.step)[1]
        self.branch = branch("symbolic", (self.loop,), self.loop > 0, lambda y: y * self.weight, lambda y: y)
        self.call = call("symbolic", [lambda y: y * self.weight, lambda y: y, lambda y: -y], self.branch)
        dr.backward(self.call, dr.ADFlag.ClearInterior)


def test_objects_that_run_constructs_with_their_methods_leave_nothing() -> None:
    gc.collect()
    before, enabled = len(drjit_core.live_vertices()), gc.isenabled()
    gc.disable()
    try:
        for _ in range(20):
            Model().run()
        assert len(drjit_core.live_vertices()) == before
    finally:
        if enabled:
            gc.enable()


@pytest.mark.parametrize("construct", ["branch", "call"])
def test_printing_in_branches_and_calls_happens_once(construct: str, capsys: pytest.CaptureFixture[str]) -> None:
    x = F(X)
    dr.enable_grad(x)

    def side(x: Any) -> Any:
        dr.print("value {}", x)
        return x * x

    y = branch("symbolic", (x,), x > 0, side, lambda x: x) if construct == "branch" else \
        call("symbolic", [side, lambda x: x, lambda x: -x], x)
    dr.backward(y, dr.ADFlag.ClearVertices)
    dr.set_grad(x, 1)
    dr.forward_to(y)
    dr.eval(y, x.grad, y.grad)
    assert capsys.readouterr().out.count("value") == 1


def test_printing_happens_once(capsys: pytest.CaptureFixture[str]) -> None:
    x = F(X)
    dr.enable_grad(x)

    def body(i: Any, y: Any) -> Any:
        dr.print("iteration {}", i)
        return i + 1, y * y

    _, y = dr.while_loop((U(0), x), lambda i, y: i < 2, body)
    dr.backward(y)
    dr.eval(y, x.grad)
    assert capsys.readouterr().out.count("iteration") == 1


def cubes(t: Any, x: Any) -> Any:
    return loop("symbolic", (U(0), x), lambda i, y: i < 3, lambda i, y: (i + 1, y * dr.sin(y * t)))[1]


class Scale:
    def __init__(self, factor: Any) -> None:
        self.factor = factor

    def apply(self, x: Any) -> Any:
        self.last = x * self.factor  # what an instance keeps of a call has no part in later traversals
        return dr.sin(self.last)


class Divide(Scale):
    def apply(self, x: Any) -> Any:
        return x / self.factor


ScaleArray = dr.instance_array(Scale, U)


class Surface:
    def __init__(self, value: Callable[[Any], Any]) -> None:
        self.function = value

    def value(self, x: Any) -> Any:
        return self.function(x)


SurfaceArray = dr.instance_array(Surface, U)


def instances(t: Any, x: Any) -> Any:
    one, other = Scale(t), Divide(t * 2)
    return ScaleArray(one, other, one, None).apply(x)


FROM_OUTSIDE = {
    "loop": cubes,
    "branch": lambda t, x: branch("symbolic", (x,), x > 0, lambda x: dr.sin(x * t), lambda x: x / t),
    "call": lambda t, x: call("symbolic", [lambda x: dr.sin(x * t), lambda x: x / t, lambda x: x * t * t], x),
    "instances": instances,
    "branch in a loop": lambda t, x: loop("symbolic", (U(0), x), lambda i, y: i < 2, lambda i, y: (
        i + 1, branch("symbolic", (y,), y > 0.5, lambda y: y * t * t, lambda y: dr.sin(y * t))))[1],
}


@pytest.mark.parametrize("name", FROM_OUTSIDE)
def test_forward_mode_from_a_variable_that_functions_refer_to(name: str) -> None:
    f, x, step = FROM_OUTSIDE[name], F(X), 1e-6
    t = dr.opaque(F, 0.7)
    dr.enable_grad(t)
    y = f(t, x)
    dr.forward(t)
    expected = (f(F(0.7 + step), x) - f(F(0.7 - step), x)) / (2 * step)
    np.testing.assert_allclose(y.grad.numpy(), expected.numpy(), rtol=1e-6, atol=1e-9)


def test_forward_mode_passes_by_what_a_body_has_leaked() -> None:
    leaked = []

    def body(i: Any, y: Any) -> Any:
        leaked.append(dr.exp(y * t))
        return i + 1, y + dr.sin(leaked[-1])

    t = dr.opaque(F, 0.7)
    dr.enable_grad(t)
    y = loop("symbolic", (U(0), F(X)), lambda i, y: i < 1, body)[1]
    dr.forward(t)
    x = np.array(X)
    np.testing.assert_allclose(y.grad.numpy(), np.cos(np.exp(0.7 * x)) * np.exp(0.7 * x) * x)


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
def test_changes_of_one_element_reach_wide_results(mode: str) -> None:
    x, wide = F(0.5), F(1, 2, 3)
    dr.enable_grad(x)
    found = branch(mode, (x, wide), dr.opaque(Bool, True), lambda x, wide: x * wide, lambda x, wide: wide)
    dr.set_grad(x, 1)
    dr.forward_to(found)
    assert list(found.grad) == [1, 2, 3]


@pytest.mark.parametrize("bound", [None, -1, 6])
def test_state_beside_a_table_is_stored_for_the_elements_of_the_loop(bound: int | None) -> None:
    """The table is wider than the loop, and no state that has one value for each element."""
    table, x = F(TABLE), F(0.9, 0.8, 1.1)
    dr.enable_grad(table, x)
    _, found, _ = loop("symbolic", (U(0), x, table), lambda k, x, table: k < U(3, 5, 0),
                       lambda k, x, table: (k + 1, dr.sin(x) * dr.gather(F, table, k), table), max_iterations=bound)
    dr.backward(dr.sum(found))

    def value(table: Any, x: Any) -> float:
        total = 0.0
        for lane, count in enumerate((3, 5, 0)):
            y = x[lane]
            for k in range(count):
                y = np.sin(y) * table[k]
            total += y
        return total

    start = np.array(TABLE), np.array([0.9, 0.8, 1.1])
    for position, gradient in enumerate((table.grad, x.grad)):
        for k in range(len(start[position])):
            ends = []
            for step in (1e-6, -1e-6):
                moved = [part.copy() for part in start]
                moved[position][k] += step
                ends.append(value(*moved))
            assert gradient[k] == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-6, abs=1e-9)


class Doubled(dr.CustomOp):
    """2 x, with rules of its own."""

    def eval(self, x: Any) -> Any:
        return 2 * x

    def forward(self) -> None:
        self.set_grad_out(2 * self.grad_in("x"))

    def backward(self) -> None:
        self.set_grad_in("x", 2 * self.grad_out())


@pytest.mark.parametrize("kind", ["branch", "call", "loop"])
def test_custom_operations_on_single_values_know_all_elements(kind: str) -> None:
    w, v = F(3), F(1, 2, 3)
    dr.enable_grad(w)

    def function(v: Any) -> Any:
        return v + dr.custom(Doubled, w)

    if kind == "branch":
        result, = dr.if_stmt((v,), v < 3, lambda v: (function(v),), lambda v: (v,))
        expected = 11
    elif kind == "call":
        result, expected = dr.switch(U(0, 0, 1), [function, lambda v: v], v), 11
    else:
        _, result = dr.while_loop((U(0), v), lambda i, v: i < 1, lambda i, v: (i + 1, function(v)))
        expected = 111
    loss = dr.sum(result * F(1, 10, 100))
    dr.backward(loss, flags=dr.ADFlag.ClearInterior)
    assert w.grad[0] == 2 * expected
    dr.clear_grad([w, loss])
    dr.set_grad(w, 1)
    assert dr.forward_to(loss)[0] == 2 * expected


@dr.syntax
def _looked_up(table, steps, scale):
    found = dr.zeros(F, dr.width(steps))
    while steps > 0:
        if steps > 1:
            found += dr.gather(F, table, U(steps)) * scale
        steps -= 1
    return found


@pytest.mark.parametrize("symbolic", [True, False])
@pytest.mark.parametrize("size", [4, 8, 100])
def test_tables_that_pass_through_branches_in_loops(size: int, symbolic: bool) -> None:
    table, scale = dr.arange(F, size) + 1, F(2)
    dr.enable_grad(table, scale)
    with dr.scoped_set_flag(dr.JitFlag.SymbolicLoops, symbolic), \
            dr.scoped_set_flag(dr.JitFlag.SymbolicConditionals, symbolic):
        found = _looked_up(table, Int(2, 0, 3, 1), scale)
        dr.backward(found)
    assert found.numpy().tolist() == [6, 0, 14, 0]
    assert table.grad.numpy().tolist() == [0, 0, 4, 2] + [0] * (size - 4) and scale.grad.numpy().tolist() == [10]


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
@pytest.mark.parametrize("size", [1, 4, 7])
def test_arguments_that_both_sides_return_keep_their_derivatives(size: int, mode: str) -> None:
    table, x = dr.arange(F, size) + 1, F(1, 2, 3, 4)
    dr.enable_grad(table, x)
    same, found = dr.if_stmt((table, x), x > 2, lambda table, x: (table, x * dr.gather(F, table, U(0))),
                             lambda table, x: (table, x), mode=mode)
    dr.backward(dr.sum(same) * 3 + dr.sum(found * found))
    repeated = 4 if dr.width(same) == 4 != size else 1  # a single value may have become one for each element
    assert x.grad.numpy().tolist() == [2, 4, 6, 8]
    assert table.grad.numpy().tolist() == [3 * repeated + 2 * (9 + 16)] + [3] * (size - 1)


# --- what is held -----------------------------------------------------------------------------------------------------


def opaque(type_: Any, value: float, count: int = 1 << 15) -> Any:
    return dr.opaque(type_, value, count)


def repeated(change: Callable[[Any], Any]) -> Callable[[Any, Any, Any], Any]:
    def run(x: Any, beside: Any, table: Any) -> Any:
        i = opaque(U, 0)
        return dr.while_loop((i, x, beside), lambda i, x, beside: i < 3, lambda i, x, beside: (
            i + 1, change(x), beside + dr.gather(F, table, i)))[1:]

    return run


#: Constructs of two arrays, and how many arrays their derivatives need besides the first: what decides.
HOLDING: dict[str, tuple[Callable[[Any, Any, Any], Any], float]] = {
    "loop": (repeated(dr.sin), 0.5),
    "sum": (repeated(lambda x: x + x), 0.5),
    "if": (lambda x, beside, table: dr.if_stmt(
        (x, beside), opaque(Bool, True), lambda x, beside: (dr.sin(x), beside + dr.gather(F, table, U(0))),
        lambda x, beside: (x, beside * 2)), 0.125),
    "switch": (lambda x, beside, table: dr.switch(
        opaque(U, 1), [lambda x, beside: (x * 2, beside), lambda x, beside: (
            dr.sin(x), beside + dr.gather(F, table, U(0)))], x, beside), 0.5),
}


@pytest.mark.parametrize("what", HOLDING)
def test_what_derivatives_do_not_need_is_let_go(what: str) -> None:
    function, needed = HOLDING[what]

    def arrays() -> float:
        gc.collect()
        return drjit_core.malloc_statistics()["in_use"] / array

    array = 1.0
    before = arrays()
    x, beside, table = opaque(F, 0.5), opaque(F, 1), opaque(F, 2)
    array = (arrays() - before) / 3
    before /= array
    dr.enable_grad(x)
    y, other = function(x, beside, table)
    dr.eval(y, other)
    del beside, table, other
    assert arrays() - before == pytest.approx(2 + needed, abs=0.01)  # x and y
    dr.backward(y)
    np.testing.assert_allclose(x.grad.numpy()[:2], finite(lambda x: function(x, F(1), F(2))[0]), rtol=1e-6)


def finite(function: Callable[[Any], Any]) -> float:
    """The derivative of what a function computes, at 1/2."""
    with dr.suspend_grad():
        more, less = function(F(0.5 + 1e-6)), function(F(0.5 - 1e-6))
    return float((more.numpy()[0] - less.numpy()[0]) / 2e-6)


@pytest.mark.parametrize("given", ["loop", "if"])
def test_what_another_construct_has_computed_is_no_result_of_one_that_passes_it_on(given: str) -> None:
    def gradient(evaluate: bool) -> Any:
        if given == "loop":
            passed = dr.while_loop((U(0, 0, 0), F(1, 1, 1)), lambda i, a: i < 5, lambda i, a: (i + 1, a * 1.5))[1]
        else:
            passed = dr.if_stmt((F(1, 1, 1),), F(1, 2, 3) > 1, lambda a: a * 1.5, lambda a: a * 3)
        if evaluate:
            dr.eval(passed)
        x = F(0.5, 0.6, 0.7)
        dr.enable_grad(x)
        y = dr.while_loop((passed, U(0, 0, 0), x), lambda a, i, y: i < 2, lambda a, i, y: (a, i + 1, dr.sin(y * a)))[2]
        dr.backward(y)
        return x.grad.numpy()

    np.testing.assert_array_equal(gradient(False), gradient(True))


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
def test_gradients_pass_a_loop_that_is_known_not_to_begin(mode: str) -> None:
    x = F(1, 2)
    dr.enable_grad(x)
    _, found = dr.while_loop((U(0), F(x)), lambda i, a: (i < 3) & Bool(False), lambda i, a: (i + 1, a * x), mode=mode)
    dr.backward(found)
    assert dr.all(x.grad == 1)


@pytest.mark.parametrize("inner", ["branch", "call", "loop"])
def test_tables_without_derivatives_are_read_by_constructs_in_loops(inner: str) -> None:
    """What an inner construct reads by index may have derivatives, as far as it can tell; the loop around knows."""
    table = F(TABLE)

    def read(x: Any) -> Any:
        return dr.gather(F, table, U(dr.abs(x) * 2)) * x

    def within(x: Any) -> Any:
        if inner == "branch":
            return branch("symbolic", (x,), x > 0, read, lambda x: x * x)
        if inner == "call":
            return call("symbolic", [read, lambda x: x * x, read], x)
        return loop("symbolic", (U(0), x), lambda i, x: i < 2, lambda i, x: (i + 1, read(x)), max_iterations=2)[1]

    def plain(x: Any) -> Any:
        if inner == "branch":
            return dr.select(x > 0, read(x), x * x)
        return dr.select(INDEX == 1, x * x, read(x)) if inner == "call" else read(read(x))

    def gradient(result: Callable[[Any], Any]) -> Any:
        x = F(X)
        dr.enable_grad(x)
        dr.backward(result(x))
        return dr.grad(x).numpy()

    def repeated(x: Any) -> Any:
        def body(i: Any, total: Any, x: Any) -> Any:
            return i + 1, total + within(x), x * 0.9

        return loop("symbolic", (U(0), x * 0, x), lambda i, total, x: i < 3, body, max_iterations=3)[1]

    np.testing.assert_allclose(gradient(repeated), gradient(lambda x: sum(plain(x * 0.9**k) for k in range(3))))


@pytest.mark.parametrize("bound", [None, 3, 6])
@pytest.mark.parametrize("how", ["counted", "by element", "nested", "branch", "call"])
@pytest.mark.parametrize("evaluated", [False, True])
def test_gradients_of_gradients(how: str, bound: int | None, evaluated: bool) -> None:
    """Reverse mode of what reverse mode has computed, which may have been evaluated before."""
    times = U(3, 1, 2) if how == "by element" else U(3, 3, 3)

    def step(x: Any, y: Any) -> Any:
        return dr.sin(x) * y, y + 0.3 * x * x

    def plain(x: Any, y: Any) -> Any:
        for k in range(3):
            a, b = step(x, y)
            x, y = dr.select(times > k, a, x), dr.select(times > k, b, y)
        return x, y

    def construct(x: Any, y: Any) -> Any:
        if how == "branch":
            return dr.if_stmt((x, y), times > 2, plain, lambda x, y: (y, x))
        if how == "call":
            return dr.switch(times - 2, [lambda x, y: (y, x), plain], x, y)

        def inner(k: Any, x: Any, y: Any) -> Any:
            if how != "nested":
                return k + 1, *step(x, y)
            return k + 1, *dr.while_loop((U(0), x, y), lambda j, x, y: j < 1, lambda j, x, y: (j + 1, *step(x, y)),
                                         max_iterations=bound)[1:]
        end = times if how == "by element" else 3
        return dr.while_loop((U(0, 0, 0), x, y), lambda k, x, y: k < end, inner, max_iterations=bound)[1:]

    def second(function: Any) -> list[Any]:
        x, y = F(0.1, 0.2, 0.3), F(0.5, 0.6, 0.7)
        dr.enable_grad(x, y)

        def loss(x: Any, y: Any) -> Any:
            a, b = function(x, y)
            return dr.sum(a * a * b)

        by_x, by_y = dr.value_and_grad(loss, argnums=(0, 1))(x, y)[1]
        if evaluated:
            dr.eval(by_x, by_y)
        dr.backward(dr.sum(by_x * by_x + by_x * by_y))
        return [x.grad.numpy(), y.grad.numpy()]

    for one, two in zip(second(construct), second(plain), strict=True):
        assert np.abs(two).min() > 1e-6 and np.allclose(one, two, rtol=1e-10)
