"""Derivatives of programs that evaluate on the way: gradients are evaluated where the values were."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import drjit as dr
from drjit.llvm.ad import Array3f, Float, TensorXf, UInt
from tests.derivatives.harness import flat

WIDTH = 64


def variable(size: int = WIDTH) -> Any:
    found = dr.linspace(Float, 0.1, 1, size)
    dr.make_opaque(found)
    dr.enable_grad(found)
    return found


def launches(action: Callable[[], Any]) -> list[dict[str, Any]]:
    """What was launched meanwhile."""
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory):
        dr.kernel_history_clear()
        action()
        return dr.kernel_history((dr.KernelType.JIT,))


# --- steps: what they compute, and how many operations each has -------------------------------------------------------


def smooth(x: Any, w: Any) -> Any:
    """Twenty operations or so."""
    for _ in range(4):
        x = x * 0.5 + x * w * 0.3 + 0.01 * (1 - x * x)
    return dr.sin(x)


def neighbours(x: Any, w: Any) -> Any:
    """Reads by index, whose gradients are scattered."""
    index = dr.arange(UInt, WIDTH)
    for shift in range(3):
        x = 0.5 * (dr.gather(Float, x, (index + 2 * shift + 1) % WIDTH) + dr.gather(Float, x, (index + shift) % WIDTH))
        x = smooth(x, w)
    return x


def written(x: Any, w: Any) -> Any:
    """Writes to memory."""
    target = dr.zeros(Float, WIDTH // 2)
    dr.scatter_add(target, smooth(x, w), dr.arange(UInt, WIDTH) // 2)
    return smooth(dr.gather(Float, target, dr.arange(UInt, WIDTH) // 2) * 0.4, w)


def averaged(x: Any, w: Any) -> Any:
    """Reductions and running sums."""
    return smooth(x, w) - dr.mean(x) * 0.1 + 0.01 * dr.cumsum(x) / WIDTH


class Scaled(dr.CustomOp):
    def eval(self, x: Any, w: Any) -> Any:
        self.x, self.w = x, w
        return x * w

    def forward(self) -> None:
        self.set_grad_out(self.grad_in("x") * self.w + self.grad_in("w") * self.x)

    def backward(self) -> None:
        self.set_grad_in("x", self.grad_out() * self.w)
        self.set_grad_in("w", self.grad_out() * self.x)


def custom(x: Any, w: Any) -> Any:
    """A custom operation."""
    return smooth(dr.custom(Scaled, x, w), w)


def looped(x: Any, w: Any) -> Any:
    """A symbolic loop."""
    _, x = dr.while_loop((UInt(0), x), lambda i, x: i < 3, lambda i, x: (i + 1, smooth(x, w)), max_iterations=3)
    return x


STEPS = [smooth, neighbours, written, averaged, custom, looped]


def simulate(step: Callable[[Any, Any], Any], count: int, x: Any, w: Any, evaluate: bool = True) -> Any:
    for _ in range(count):
        x = step(x, w)
        if evaluate:
            dr.eval(x)
    return x


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("parameter", [1, WIDTH])
def test_gradients_are_those_of_programs_that_do_not_evaluate(step: Callable[[Any, Any], Any], parameter: int) -> None:
    found = []
    for evaluate in (False, True):
        x, w = variable(), variable(parameter)
        dr.backward(dr.sum(dr.square(simulate(step, 20, x, w, evaluate))))
        found.append((flat(x.grad), flat(w.grad)))
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-3, atol=2e-4 * abs(a).max())


@pytest.mark.parametrize("count", [2, 3, 5, 20])
@pytest.mark.parametrize("step", STEPS)
def test_forward_mode_likewise(step: Callable[[Any, Any], Any], count: int) -> None:
    found = []
    for evaluate in (False, True):
        x, w = variable(), variable(1)
        y = simulate(step, count, x, w, evaluate)
        dr.set_grad(x, 1)
        dr.set_grad(w, 2)
        dr.enqueue(dr.ADMode.Forward, x, w)
        dr.traverse(dr.ADMode.Forward)
        found.append(flat(y.grad))
        assert flat(x.grad).max() == 0
    np.testing.assert_allclose(*found, rtol=2e-3, atol=2e-4 * abs(found[0]).max())


@pytest.mark.parametrize("count", [3, 5, 16])
@pytest.mark.parametrize("step", [smooth, neighbours, averaged])
def test_gradients_as_values_likewise(step: Callable[[Any, Any], Any], count: int) -> None:
    x, w = variable(), Float(0.3)
    for function in (dr.value_and_grad, lambda f: lambda x: dr.hvp(f, x, x)):
        results = [function(lambda x, evaluate=evaluate: dr.sum(dr.square(simulate(step, count, x, w, evaluate))))(x)
                   for evaluate in (False, True)]
        for a, b in zip(*results, strict=True):
            np.testing.assert_allclose(flat(a), flat(b), rtol=5e-3, atol=5e-4 * abs(flat(a)).max())


@pytest.mark.parametrize("mode", ["backward", "forward", "value_and_grad"])
@pytest.mark.parametrize("step", [smooth, neighbours, averaged])
def test_kernels_are_of_a_bounded_size_and_the_same_for_all_steps(step: Callable[[Any, Any], Any], mode: str) -> None:
    def gradient(count: int) -> None:
        x, w = variable(), variable(1)
        if mode == "value_and_grad":
            dr.eval(dr.value_and_grad(lambda x: dr.sum(simulate(step, count, x, w)))(x))
            return
        y = simulate(step, count, x, w)
        if mode == "backward":
            dr.backward(y)
            dr.eval(x.grad, w.grad)
        else:
            dr.set_grad(w, 0)
            dr.forward(x)
            dr.eval(y.grad)

    kernels = launches(lambda: gradient(100))
    longer = launches(lambda: gradient(200))
    assert max(entry["operation_count"] for entry in kernels) < 3000
    assert len({entry["hash"] for entry in kernels}) <= 16
    assert len({entry["hash"] for entry in longer} - {entry["hash"] for entry in kernels}) <= 2  # the first and last
    assert len(longer) < 2.2 * len(kernels)
    assert all(entry["cache_hit"] for entry in launches(lambda: gradient(200)))


def test_programs_that_do_not_evaluate_remain_one_kernel() -> None:
    x, w = variable(), Float(0.3)
    dr.backward(simulate(smooth, 30, x, w, evaluate=False))
    assert len(launches(lambda: dr.eval(x.grad))) == 1


def test_few_evaluated_steps_remain_one_kernel() -> None:
    x, w = variable(), Float(0.3)
    y = simulate(smooth, 5, x, w)
    assert not launches(lambda: dr.backward(y))
    assert len(launches(lambda: dr.eval(x.grad))) == 1


def test_what_is_scheduled_meanwhile_does_not_hold_derivatives_up() -> None:
    x, w = variable(), variable(1)
    y = simulate(smooth, 30, x, w)
    other = Float(1, 2) * w
    dr.schedule(other)
    dr.backward(y)
    expected = flat(x.grad)
    x, w = variable(), variable(1)
    dr.backward(simulate(smooth, 30, x, w, evaluate=False))
    np.testing.assert_allclose(expected, flat(x.grad), rtol=2e-3)


class Fails(dr.CustomOp):
    def eval(self, x: Any) -> Any:
        return x * 2

    def backward(self) -> None:
        raise ValueError("on purpose")

    def forward(self) -> None:
        raise ValueError("on purpose")


@pytest.mark.parametrize("step", [smooth, neighbours])
def test_a_traversal_that_raises_after_evaluations_puts_everything_back(step: Callable[[Any, Any], Any]) -> None:
    x, w = variable(), variable(1)
    first = simulate(step, 30, x, w)
    y = simulate(step, 30, dr.custom(Fails, first), w)
    with pytest.raises(ValueError, match="on purpose"):
        dr.backward(y)
    assert flat(w.grad).max() == 0
    assert flat(y.grad).max() == 0
    dr.backward(first)  # nothing has been taken apart
    assert flat(w.grad).max() != 0


def test_gradients_between_are_kept_if_the_flags_say_so() -> None:
    found = []
    for evaluate in (False, True):
        x, w = variable(), Float(0.3)
        middle = simulate(smooth, 30, x, w, evaluate)
        dr.backward(simulate(smooth, 30, middle, w, evaluate), flags=dr.ADFlag.ClearNone)
        found.append(flat(middle.grad))
    np.testing.assert_allclose(*found, rtol=2e-3)


def test_isolated_traversals() -> None:
    found = []
    for evaluate in (False, True):
        x, w = variable(), variable(1)
        y = simulate(smooth, 30, x, w, evaluate)
        with dr.isolate_grad():
            dr.backward(simulate(smooth, 30, y, w, evaluate))
            assert flat(x.grad).max() == 0
        found.append((flat(x.grad), flat(w.grad)))
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-3)


@pytest.mark.parametrize("compress", [False, True])
def test_evaluated_loops(compress: bool) -> None:
    def gradient(mode: str) -> tuple[Any, Any]:
        x, w = variable(), variable(1)
        last = dr.arange(UInt, WIDTH) + 20
        _, _, y = dr.while_loop((UInt(0), last, x), lambda i, last, x: i < last,
                                lambda i, last, x: (i + 1, last, smooth(x, w)),
                                mode=mode, compress=compress and mode == "evaluated")
        dr.backward(y)
        return flat(x.grad), flat(w.grad)

    kernels: list[Any] = []
    kernels += launches(lambda: kernels.append(gradient("evaluated")))
    for a, b in zip(kernels.pop(0), gradient("symbolic"), strict=True):
        np.testing.assert_allclose(a, b, rtol=5e-3, atol=1e-4)
    assert max(entry["operation_count"] for entry in kernels) < 3000


def test_states_of_several_arrays_and_tensors() -> None:
    def gradient(evaluate: bool) -> Any:
        x = TensorXf(np.linspace(0, 1, 3 * WIDTH, dtype=np.float32), (3, WIDTH))
        v = Array3f(0.1, variable(), 0.3)
        dr.enable_grad(x)
        for _ in range(30):
            force = dr.sin(x[:, ::-1]) - 0.1 * x
            v = v + 0.1 * Array3f(force.array[0], force.array[1], dr.mean(force.array))
            x = x + 0.1 * dr.norm(v)[0] * force
            if evaluate:
                dr.eval(x, v)
        dr.backward(dr.sum(x * x, axis=None))
        return flat(x.grad)

    np.testing.assert_allclose(gradient(True), gradient(False), rtol=2e-3)
