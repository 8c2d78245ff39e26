"""Functions and long loops whose inside is computed again in reverse mode."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import pytest

import drjit as dr
import drjit_core
from drjit._ad.checkpoint import split
from drjit.llvm.ad import PCG32, Array3f, Bool, Float, TensorXf, UInt
from tests.derivatives.harness import flat


def variable(size: int = 8, first: float = 0.1) -> Any:
    found = dr.linspace(Float, first, 1, size)
    dr.make_opaque(found)
    dr.enable_grad(found)
    return found


def step(x: Any, w: Any) -> Any:
    return x + 0.1 * dr.sin(x * w) - 0.02 * dr.gather(Float, x, (dr.arange(UInt, 8) + 1) % 8), w


def gradients(count: int, **options: Any) -> list[Any]:
    x, w, scale = variable(), variable(1, 0.7), variable(1, 0.9)

    def scaled(x: Any, w: Any) -> Any:  # refers to another array
        x, w = step(x, w)
        return x * scale, w

    if options:
        y, _ = dr.checkpoint(scaled, x, w, steps=count, **options.get("keywords", {}))
    else:
        y = x
        for _ in range(count):
            y, _ = scaled(y, w)
            dr.eval(y)
    dr.backward(dr.sum(dr.square(y)))
    return [flat(y), flat(x.grad), flat(w.grad), flat(scale.grad)]


@pytest.mark.parametrize("count", [1, 2, 3, 7, 20])
@pytest.mark.parametrize("slots", [None, 0, 1, 2, 5])
def test_gradients_of_steps_are_those_of_a_loop(count: int, slots: int | None) -> None:
    keywords = {} if slots is None else {"slots": slots}
    for a, b in zip(gradients(count, keywords=keywords), gradients(count), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4)


def test_forward_mode() -> None:
    found = []
    for checkpointed in (False, True):
        x, w = variable(), variable(1, 0.7)
        if checkpointed:
            y, _ = dr.checkpoint(step, x, w, steps=9)
        else:
            y = x
            for _ in range(9):
                y, _ = step(y, w)
        dr.set_grad(x, 2)
        dr.set_grad(w, 3)
        dr.enqueue(dr.ADMode.Forward, x, w)
        dr.traverse(dr.ADMode.Forward)
        found.append(flat(y.grad))
    np.testing.assert_allclose(*found, rtol=1e-4)


@pytest.mark.parametrize("steps", [None, 1, 6])
def test_second_derivatives(steps: int | None) -> None:
    w = variable(1, 0.7)

    def function(x: Any) -> Any:
        return dr.checkpoint(lambda x: step(x, w)[0], x, steps=steps)

    def plain(x: Any) -> Any:
        for _ in range(steps or 1):
            x, _ = step(x, w)
        return x

    found = [dr.hvp(lambda x, f=f: dr.sum(dr.square(f(x))), dr.detach(variable()), Float(1)) for f in (function, plain)]
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(flat(a), flat(b), rtol=1e-4)
    inner = [dr.value_and_grad(lambda w, f=f: dr.sum(f(dr.detach(variable()) * w)))(Float(0.5))
             for f in (function, plain)]
    for a, b in zip(*inner, strict=True):
        np.testing.assert_allclose(flat(a), flat(b), rtol=1e-4)


def test_a_function_is_called_again_when_derivatives_flow_and_keeps_nothing_until_then(capsys: Any) -> None:
    def function(x: Any, factor: float, *, power: int) -> Any:
        print(dr.grad_enabled(x))
        for _ in range(power):
            x = dr.sin(x) * factor
            dr.eval(x)
        return {"value": x, "count": 3}

    x = variable()
    result = dr.checkpoint(function, x, 0.5, power=2)
    assert result["count"] == 3
    assert capsys.readouterr().out == "True\n"
    dr.backward(result["value"])
    assert capsys.readouterr().out == "True\n"
    y = variable()
    dr.backward(dr.sin(dr.sin(y) * 0.5) * 0.5)
    np.testing.assert_allclose(flat(x.grad), flat(y.grad), rtol=1e-5)


def test_states_are_trees_with_numbers_and_arrays_of_any_type() -> None:
    def move(state: Any) -> Any:
        v = dr.gather(Array3f, state["v"].array, UInt(0))
        return {"x": state["x"] + 0.1 * v, "v": state["v"] * 0.9,
                "t": state["t"] + 1, "i": state["i"] + UInt(1)}

    v = TensorXf([1.0, 2.0, 3.0])
    dr.enable_grad(v)
    state = {"x": Array3f(0), "v": v, "t": 0, "i": dr.zeros(UInt, 1)}
    last = dr.checkpoint(move, state, steps=5, slots=1)
    assert last["t"] == 5
    assert last["i"] == 5
    dr.backward(last["x"])
    np.testing.assert_allclose(v.grad.numpy(), [0.1 * sum(0.9**k for k in range(5))] * 3, rtol=1e-5)


def test_what_is_changed_in_place_does_not_change_what_is_kept() -> None:
    def step(x: Any) -> Any:
        x *= 2
        x += dr.square(x)
        return x

    x = variable()
    y = dr.checkpoint(step, x, steps=4, slots=1)
    np.testing.assert_allclose(flat(x), np.linspace(0.1, 1, 8), rtol=1e-6)
    dr.backward(y)
    z = variable()
    value = z
    for _ in range(4):
        value = value * 2
        value = value + value * value
    dr.backward(value)
    np.testing.assert_allclose(flat(x.grad), flat(z.grad), rtol=1e-4)


def test_nothing_to_differentiate_by() -> None:
    y = dr.checkpoint(lambda x: x * 2, Float(1, 2), steps=3)
    assert not dr.grad_enabled(y)
    assert y[1] == 16
    with dr.suspend_grad():
        assert not dr.grad_enabled(dr.checkpoint(lambda x: x * 2, variable()))
    x = variable()
    assert dr.checkpoint(lambda x: x * 2, x, steps=0) is x


def test_in_a_symbolic_loop_it_is_called_as_it_is() -> None:
    x = variable()
    _, y = dr.while_loop((UInt(0), x), lambda i, x: i < 3,
                         lambda i, x: (i + 1, dr.checkpoint(lambda x: dr.sin(x), x, steps=2)), max_iterations=3)
    dr.backward(y)
    z = variable()
    value = z
    for _ in range(6):
        value = dr.sin(value)
    dr.backward(value)
    np.testing.assert_allclose(flat(x.grad), flat(z.grad), rtol=1e-4)


@pytest.mark.parametrize(("arguments", "options", "message"), [
    ((3, Float(1)), {}, "must be a function"),
    ((dr.sin, Float(1)), {"slots": 3}, "goes with 'steps'"),
    ((dr.sin, Float(1)), {"steps": -1}, "'steps' must be an int"),
    ((lambda x, y: x, Float(1), Float(2)), {"steps": 2}, "given 2 values"),
])
def test_what_is_wrong_is_said(arguments: Any, options: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError, RuntimeError), match=message):
        dr.checkpoint(*arguments, **options)


# --- the binomial scheme ---------------------------------------------------------------------------------------------


@lru_cache(None)
def advances(steps: int, slots: int) -> int:
    """How many steps are computed without being recorded, besides those of the first run."""
    if steps == 1:
        return 0
    if slots == 0:
        return steps * (steps - 1) // 2
    left = split(steps, slots)
    return left + advances(left, slots) + advances(steps - left, slots - 1)


@lru_cache(None)
def least(steps: int, slots: int) -> int:
    if steps == 1:
        return 0
    if slots == 0:
        return steps * (steps - 1) // 2
    return min(left + least(left, slots) + least(steps - left, slots - 1) for left in range(1, steps))


@pytest.mark.parametrize("slots", range(6))
def test_no_scheme_computes_fewer_steps(slots: int) -> None:
    for steps in range(1, 80):
        assert advances(steps, slots) == least(steps, slots)


@pytest.mark.parametrize(("steps", "slots", "times"), [(1000, 10, 5), (10000, 14, 6), (1000, 3, 9)])
def test_as_often_as_documented(steps: int, slots: int, times: int) -> None:
    assert round(advances(steps, slots) / steps + 1) == times
    assert slots in (3, int(np.ceil(np.log2(steps))))


def test_memory_is_logarithmic() -> None:
    size = 1 << 16

    def peak(run: Callable[[Any], Any]) -> int:
        """The most memory that a gradient needs, as a multiple of the state."""
        x = dr.full(Float, 0.5, size)
        dr.make_opaque(x)
        dr.enable_grad(x)
        most = 0

        def step(x: Any) -> Any:
            nonlocal most
            most = max(most, drjit_core.malloc_statistics()["in_use"])
            return dr.sin(x) * 0.99 + 0.01 * x * x

        before = drjit_core.malloc_statistics()["in_use"]
        dr.backward(run(step)(x))
        dr.eval(x.grad)
        return (most - before) // (4 * size)

    def loop(step: Any) -> Any:
        def run(x: Any) -> Any:
            for _ in range(128):
                x = step(x)
                dr.eval(x)
            return x
        return run

    assert peak(loop) >= 127
    assert peak(lambda step: lambda x: dr.checkpoint(step, x, steps=128)) <= 7 + 6
    assert peak(lambda step: lambda x: dr.checkpoint(step, x, steps=128, slots=2)) <= 2 + 6


@pytest.mark.parametrize("mode", ["backward", "forward"])
@pytest.mark.parametrize("steps", [None, 5])
@pytest.mark.parametrize("tracked", [False, True])
def test_other_arrays_than_those_that_were_used_are_refused(tracked: bool, steps: int | None, mode: str) -> None:
    x, w = variable(), [variable(1, 0.7)]
    y = dr.checkpoint(lambda x: x * w[0], x, steps=steps)
    w[0] = y * w[0] if tracked else Float(0.9)
    with pytest.raises(RuntimeError, match=r"drjit.checkpoint\(\): the function refers to other arrays"):
        if mode == "backward":
            dr.backward(y)
        else:
            dr.forward(x)
    assert not flat(x.grad).any() or mode == "forward"
    w.clear()  # which the function knows that the result keeps


scale = 1.0


@pytest.mark.parametrize("steps", [None, 2])
@pytest.mark.parametrize("mode", ["backward", "forward", "hvp"])
def test_variables_are_what_they_were_when_it_was_called(steps: int | None, mode: str) -> None:
    cells: list[Any] = []

    def results(call: Callable[..., Any]) -> list[Any]:
        def run(x: Any) -> Any:
            global scale
            w, y = 0.5 + x, x
            cells.append(lambda: w)
            for count in range(3):
                scale = 1 + 0.1 * count
                if steps is None:
                    y = call(lambda q: scaled(q) * w + count * q, y, steps=None)  # noqa: B023
                else:  # that is what it is about
                    y = call(lambda q: scaled(q) + count * q, y, steps=steps)  # noqa: B023
                w = w * y
            return dr.sum(y)

        def scaled(x: Any) -> Any:
            return x * scale

        x = variable()
        if mode == "hvp":
            return [flat(value) for value in dr.hvp(run, x, Float(1))]
        y = run(x)
        (dr.backward if mode == "backward" else dr.forward)(y if mode == "backward" else x)
        assert scale == 1.2
        return [flat(y), flat(x.grad if mode == "backward" else y.grad)]

    def repeated(function: Callable[[Any], Any], x: Any, steps: int | None) -> Any:
        for _ in range(steps or 1):
            x = function(x)
        return x

    for found, expected in zip(results(dr.checkpoint), results(repeated), strict=True):
        # in single precision: what is computed again may be fused, and so rounded, otherwise
        np.testing.assert_allclose(found, expected, rtol=1e-5)
    for knows in cells:  # a result that refers to itself is kept
        knows.__closure__[0].cell_contents = None


@pytest.mark.parametrize("steps", [None, 3])
@pytest.mark.parametrize("mode", ["backward", "forward", "hvp"])
def test_what_was_suspended_when_it_was_called_remains_so(steps: int | None, mode: str) -> None:
    def results(checkpointed: bool) -> list[Any]:
        x, w = variable(), variable(1, 0.7)

        def function(x: Any) -> Any:
            with dr.suspend_grad(w):
                if checkpointed:
                    return dr.checkpoint(lambda x: dr.sin(x * w), x, steps=steps)
                for _ in range(steps or 1):
                    x = dr.sin(x * w)
                return x

        if mode == "hvp":
            return [flat(value) for value in dr.hvp(lambda x: dr.sum(function(x)), x, Float(1))]
        y = function(x)
        if mode == "backward":
            dr.backward(y)
            return [flat(x.grad), flat(w.grad)]
        dr.set_grad([x, w], [2, 3])
        dr.enqueue(dr.ADMode.Forward, x, w)
        dr.traverse(dr.ADMode.Forward)
        return [flat(y.grad)]

    for found, expected in zip(results(True), results(False), strict=True):
        # in single precision: what is computed again may be fused, and so rounded, otherwise
        np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_arguments_are_what_they_were_whatever_becomes_of_them() -> None:
    def function(x: Any, array: Any, *, factor: Any, tree: Any) -> Any:
        array *= 2
        return x * Float(array) * factor * tree["w"]

    x = Float(1, 2)
    dr.enable_grad(x)
    factor, tree, array = Float(2), {"w": Float(3)}, np.array([1.0, 2.0], np.float32)
    y = dr.checkpoint(function, x, array, factor=factor, tree=tree)
    assert list(array) == [1, 2]
    factor += 10
    tree["w"] = Float(0)
    array[:] = 0
    dr.backward(y)
    assert list(x.grad) == [12, 24]


@pytest.mark.parametrize("symbolic", [False, True])
def test_changes_in_place_are_none_of_the_arguments(symbolic: bool) -> None:
    def function(x: Any, generator: Any) -> Any:
        x *= 2
        return x * generator.next_float32()

    x, generator = Float(1, 2), PCG32(2)
    if symbolic:
        dr.if_stmt((x,), Bool(True, False), lambda x: dr.checkpoint(function, x, generator), lambda x: x * 0)
    else:
        dr.checkpoint(function, x, generator)
    assert list(x) == [1, 2]
    assert dr.all(generator.next_float32() == PCG32(2).next_float32())


def test_keyword_arguments_have_derivatives() -> None:
    x, w = Float(1, 2), Float(2)
    dr.enable_grad(x, w)
    dr.backward(dr.checkpoint(lambda x, *, w: x * w, x, w=w, steps=2))
    assert list(x.grad) == [4, 4]
    assert list(w.grad) == [12]


# --- what else a function changes ------------------------------------------------------------------------------------


class Noisy:
    """A function with generators and a counter."""

    def __init__(self) -> None:
        self.calls, self.words, self.numbers = 0, PCG32(3), dr.rng(seed=0)

    def __call__(self, x: Any) -> Any:
        self.calls += 1
        return dr.sin(x) * self.calls * self.words.next_float32() + self.numbers.normal(Float, 3) * x


def drawing() -> Callable[[Any], Any]:
    generator = dr.rng(seed=UInt(5, 6, 7))
    return lambda x: x * generator.random(Float, 3)


def rebinding() -> Callable[[Any], Any]:
    total = Float(1, 2, 3)

    def function(x: Any) -> Any:
        nonlocal total
        total = total * 1.5
        return dr.sin(x) * total

    return function


def in_place() -> Callable[[Any], Any]:
    total, tensor, counts = Float(1, 2, 3), dr.zeros(TensorXf, (2, 3)), np.zeros(3, np.float32)

    def function(x: Any) -> Any:
        nonlocal total
        total += 1
        tensor[1] += 1
        counts[1] += 1
        return dr.sin(x) * total * tensor[1].array * (Float(counts) + 1)

    return function


def scattering() -> Callable[[Any], Any]:
    total = dr.zeros(Float, 3)

    def function(x: Any) -> Any:
        dr.scatter_add(total, Float(1, 2, 3), UInt(0, 1, 1))
        return dr.sin(x) * total

    return function


def growing() -> Callable[[Any], Any]:
    known: dict[str, Any] = {}

    def function(x: Any) -> Any:
        known["count"] = known.get("count", 0) + 1
        known.setdefault("list", []).append(UInt(known["count"]))
        return dr.sin(x) * len(known["list"]) * Float(known["list"][-1])

    return function


def nested() -> Callable[[Any], Any]:
    generator = PCG32(3)

    def inner(x: Any) -> Any:
        return dr.sin(x) * generator.next_float32()

    return lambda x: dr.checkpoint(inner, x, steps=2) * generator.next_float32()


def frozen() -> Callable[[Any], Any]:
    generator = PCG32(3)
    return dr.freeze(lambda x: dr.sin(x) * generator.next_float32())


def of_others() -> Callable[[Any], Any]:
    word, words, legacy = random.Random(3), np.random.default_rng(3), np.random.RandomState(3)
    draw, uniform = random.Random(4).random, np.random.default_rng(4).random
    random.seed(5)
    np.random.seed(5)
    return lambda x: dr.sin(x) * (word.random() + words.normal() + legacy.rand() + draw() + uniform() +
                                  random.random() + np.random.rand())


@pytest.mark.parametrize("steps", [None, 2, 9])
@pytest.mark.parametrize("mode", ["backward", "forward", "hvp"])
@pytest.mark.parametrize("make", [Noisy, drawing, rebinding, in_place, scattering, growing, nested, frozen, of_others])
def test_what_else_a_function_changes_is_as_it_was_when_it_is_called_again(
        make: Callable[[], Callable[[Any], Any]], mode: str, steps: int | None) -> None:
    if mode == "hvp" and make is frozen:
        pytest.skip("derivatives of derivatives of frozen functions are traced again, as they were called")

    def results(checkpointed: bool) -> list[Any]:
        function = make()

        def run(x: Any) -> Any:
            if checkpointed:
                return dr.checkpoint(function, x, steps=steps)
            for _ in range(steps or 1):
                x = function(x)
            return x

        if mode == "hvp":
            return [*map(flat, dr.hvp(lambda x: dr.sum(dr.square(run(x))), Float(0.3, 0.5, 0.7), Float(1, 2, 3))),
                    flat(function(Float(1, 1, 1)))]
        x = Float(0.3, 0.5, 0.7)
        dr.enable_grad(x)
        y = run(x)
        between = function(Float(1, 1, 1))
        z = run(x)
        if mode == "backward":
            dr.backward(y * z)
        else:
            dr.forward(x)
        return [flat(each) for each in (y, z, between, function(Float(1, 1, 1)),
                                        *((x.grad,) if mode == "backward" else (y.grad, z.grad)))]

    for found, expected in zip(results(True), results(False), strict=True):
        # in single precision, rounded otherwise where it is computed again
        np.testing.assert_allclose(found, expected, rtol=1e-3)


def test_what_raises_has_changed_nothing() -> None:
    generator, total = PCG32(3), dr.zeros(Float, 3)

    def function(x: Any) -> Any:
        dr.scatter_add(total, Float(1), UInt(0))
        assert total[0] < 3
        return x * generator.next_float32()

    with pytest.raises(AssertionError):
        dr.checkpoint(function, variable(3), steps=5)
    assert dr.all(generator.next_float32() == PCG32(3).next_float32())
    assert list(total) == [0, 0, 0]


@pytest.mark.parametrize("steps", [None, 3])
@pytest.mark.parametrize("place", ["the attribute 'last' of an object", "the array 'total'",
                                   "a variable of an enclosing function"])
def test_what_depends_on_arguments_must_be_returned(place: str, steps: int | None) -> None:
    total, found = Float(0), None
    holder = Noisy()

    def function(x: Any) -> Any:
        nonlocal total, found
        if "last" in place:
            holder.last = x * 2
        elif "total" in place:
            total += x
        else:
            found = [x]
        return dr.sin(x)

    with pytest.raises(RuntimeError, match=rf"checkpoint\(\): the function changes {place}.* to something that deriv"):
        dr.checkpoint(function, variable(), steps=steps)
    assert not dr.grad_enabled(total)
    assert found is None
    assert not hasattr(holder, "last")
    with dr.suspend_grad():
        dr.checkpoint(function, variable(), steps=steps)  # nothing depends on anything
    assert not dr.grad_enabled((total, found, getattr(holder, "last", None)))


@pytest.mark.parametrize("steps", [None, 3])
@pytest.mark.parametrize("make", [
    lambda: iter([1.0, 2.0, 3.0, 4.0]), lambda: iter({1.0, 2.0, 3.0, 4.0}), lambda: iter({1.0: 2, 2.0: 3, 3.0: 4}),
    lambda: (k * 1.5 for k in range(9)), lambda: map(float, range(9)), itertools.count, lambda: iter(range(9)),
    lambda: itertools.cycle([1.0, 2.0])])
def test_iterators_are_not_taken_back(make: Callable[[], Any], steps: int | None) -> None:
    values, others = make(), make()
    y = dr.checkpoint(lambda x: dr.sin(x) * (1 if others is None else 2), variable(), steps=steps)
    dr.backward(y)
    with pytest.raises(RuntimeError, match=r"advances (the object 'values'|an object of type \w+_iterator), which"):
        dr.checkpoint(lambda x: dr.sin(x) * next(values), variable(), steps=steps)


def test_a_generator_of_a_library() -> None:
    def results(checkpointed: bool) -> list[Any]:
        np.random.seed(3)
        x = variable()
        y = dr.checkpoint(_with_noise, x, steps=3) if checkpointed else _with_noise(_with_noise(_with_noise(x)))
        dr.backward(y)
        return [*x.grad, np.random.rand()]

    # in single precision, rounded otherwise where it is computed again
    np.testing.assert_allclose(results(True), results(False), rtol=1e-5)


def _with_noise(x: Any) -> Any:
    return x * np.random.rand()


def test_what_depends_on_other_arrays_may_be_kept() -> None:
    def results(checkpointed: bool) -> list[Any]:
        x, w, held = variable(), variable(1, 0.7), list[Any]()

        def function(x: Any) -> Any:
            held[:] = [held[0] * w if held else dr.sqrt(w)]
            return dr.sin(x) * held[0]

        y = x
        if checkpointed:
            for _ in range(4):
                y = dr.checkpoint(function, y)
            with pytest.raises(RuntimeError, match="changes the entry 0 of the list 'held' to something that deriv"):
                dr.checkpoint(function, y, steps=4)
        else:
            for _ in range(4):
                y = function(y)
        dr.backward(y * held[0])
        return [flat(x.grad), flat(w.grad)]

    for a, b in zip(results(True), results(False), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4)


def test_memory_that_others_see_is_not_changed() -> None:
    total = dr.zeros(Float, 3)
    dr.make_opaque(total)
    seen = total.numpy()
    with pytest.raises(RuntimeError, match="changes the array 'total', whose memory others see"):
        dr.checkpoint(lambda x: (dr.scatter_add(total, x, UInt(0)), x)[1], Float(1))
    assert list(total) == [0, 0, 0]
    assert list(seen) == [0, 0, 0]


def test_steps_that_draw_are_one_program() -> None:
    generator, x = PCG32(8), variable()
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory):
        dr.kernel_history_clear()
        dr.backward(dr.checkpoint(lambda x: dr.sin(x) * generator.next_float32(), x, steps=40))
        dr.eval(x.grad)
        kernels = [entry["hash"] for entry in dr.kernel_history([dr.KernelType.JIT])]
    assert len(kernels) > 80
    assert len(set(kernels)) < 12


def test_steps_that_differentiate_do_so_when_they_are_computed_again() -> None:
    def descend(x: Any) -> Any:
        variable = dr.detach(x)
        dr.enable_grad(variable)
        dr.backward(variable**3)
        return x - 0.1 * dr.grad(variable)

    x = variable()
    y = dr.checkpoint(descend, x, steps=9, slots=1)
    for _ in range(2):  # no state but the first two is left the second time
        dr.backward(y, flags=dr.ADFlag.ClearVertices)
    assert flat(x.grad).tolist() == [2] * 8


class Holder:
    def __init__(self, array: Any) -> None:
        self.array = array


@pytest.mark.parametrize("hold", [
    Holder, lambda array: {array}, lambda array: (value for value in [array]), lambda array: lambda: array])
@pytest.mark.parametrize("steps", [None, 1])
def test_results_that_derivatives_would_not_flow_from_are_refused(hold: Callable[[Any], Any],
                                                                  steps: int | None) -> None:
    with pytest.raises(TypeError, match=r"drjit.checkpoint\(\): 'result(\[1\])?' is of type .* holds arrays, but is"):
        dr.checkpoint(lambda x, _: (x, hold(2 * x)), variable(), None, steps=steps)
    array = variable()
    assert dr.checkpoint(lambda x, _: (x, array), variable(), None, steps=steps)[1] is not None
    assert dr.checkpoint(lambda x, held: (x, held), variable(), hold(array), steps=steps)[1] is not None


@pytest.mark.parametrize("mode", ["backward", "forward"])
def test_other_results_than_at_first_are_refused(mode: str) -> None:
    x, again = variable(), list[bool]()
    y = dr.checkpoint(lambda x: x if again else (x, 2 * x), x)[1]
    again.append(True)
    with pytest.raises(RuntimeError, match="returned something else than when it was called"):
        (dr.forward if mode == "forward" else dr.backward)(x if mode == "forward" else y)
