"""Traversals in the functions of loops, branches and calls: gradients in there, and those that flow outside."""

from __future__ import annotations

import gc
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import drjit as dr
from drjit.llvm.ad import Array3f, Bool, Float, Float16, Int, TensorXf, UInt
from drjit_core.ir.vertex import live_vertices
from tests.derivatives.harness import flat


def variable(*values: float, cls: Any = Float) -> Any:
    found = cls(*values)
    dr.enable_grad(found)
    return found


def numbers(array: Any) -> list[float]:
    return flat(array).tolist()


def gradient(function: Callable[[Any], Any], x: Any) -> Any:
    """By a variable that is made where this is called."""
    y = type(x)(dr.detach(x))
    dr.enable_grad(y)
    dr.backward(function(y))
    return y.grad


def loop(body: Callable[[Any, Any], Any], x: Any, mode: str, count: Any = 3, **options: Any) -> Any:
    counter = Int(0) if dr.width(x) == 1 else dr.zeros(Int, dr.width(x))
    return dr.while_loop((counter, x), lambda i, x: i < count, lambda i, x: (i + 1, body(i, x)), mode=mode,
                         **options)[1]


def forward_change(x: Any) -> Any:
    y = Float(x)
    dr.enable_grad(y)
    z = y * y
    dr.forward(y)
    return z.grad


def isolated(x: Any) -> Any:
    y = Float(x)
    dr.enable_grad(y)
    z = y * y
    with dr.isolate_grad():
        dr.backward(z * z)
    return y.grad


class Product(dr.CustomOp):
    def eval(self, x: Any, y: Any) -> Any:
        self.x, self.y = x, y
        return x * y

    def backward(self) -> None:
        self.set_grad_in("x", self.y * self.grad_out())
        self.set_grad_in("y", self.x * self.grad_out())


def inner_loop(y: Any) -> Any:
    return dr.while_loop((Int(0), Float(y)), lambda j, z: j < 2, lambda j, z: (j + 1, z * y), max_iterations=2)[1]


def inner_branch(y: Any) -> Any:
    return dr.if_stmt((y,), y > 1.1, lambda y: y * y, lambda y: 3 * y)


BODIES = {
    "square": lambda x: gradient(lambda y: y * y, x),
    "newton": lambda x: x - (x * x - 2) / gradient(lambda y: y * y - 2, x),
    "forward": forward_change,
    "chosen": lambda x: gradient(lambda y: dr.select(y > 1, y * y, y * 3), x),
    "isolated": lambda x: isolated(x) / 8,
    "custom": lambda x: gradient(lambda y: dr.custom(Product, y, y), x),
    "loop": lambda x: gradient(inner_loop, x) * 0.3,
    "branch": lambda x: gradient(inner_branch, x) * 0.5,
    "enabled in place": lambda x: enabled_in_place(x),
}


def enabled_in_place(x: Any) -> Any:
    dr.enable_grad(x)
    dr.backward(x * x * x)
    found = x.grad
    dr.disable_grad(x)
    return found * 0.2


@pytest.mark.parametrize("name", BODIES)
def test_loops_branches_and_calls_use_gradients(name: str) -> None:
    step, x = BODIES[name], Float(0.75, 1.25, 1.5)
    expected = x
    for _ in range(3):
        expected = step(expected)
    for mode in ("symbolic", "evaluated"):
        assert numbers(loop(lambda i, x: step(x), x, mode)) == pytest.approx(numbers(expected), rel=1e-5)
        branch = dr.if_stmt((x,), x > 1, step, lambda x: x, mode=mode)
        assert numbers(branch) == pytest.approx(numbers(dr.select(x > 1, step(x), x)), rel=1e-5)
        call = dr.switch(UInt(0, 1, 0), [step, lambda x: x], x, mode=mode)
        assert numbers(call) == pytest.approx(numbers(dr.select(Bool(True, False, True), step(x), x)), rel=1e-5)


def test_vectors_have_gradients_in_symbolic_loops() -> None:
    step = lambda x: gradient(lambda y: dr.dot(y, y) * y.x, x) * 0.1  # noqa: E731
    expected = x = Array3f(Float(1, 1.5), Float(2, 1), Float(3, 0.5))
    for _ in range(3):
        expected = step(expected)
    assert numbers(loop(lambda i, x: step(x), x, "symbolic")) == pytest.approx(numbers(expected), rel=1e-5)


def test_a_single_value_has_a_gradient_for_each_element_in_a_symbolic_loop() -> None:
    def body(i: Any, x: Any) -> Any:
        y = variable(5)
        dr.backward(y * x)
        return x + y.grad

    assert numbers(loop(body, Float(1, 3), "symbolic", 2)) == [4, 12]


# --- variables from outside ------------------------------------------------------------------------------------------

SURROUNDED = {
    "wide": (lambda: variable(2, 3), lambda w, i, x: x * w, [6, 12]),
    "single": (lambda: variable(2), lambda w, i, x: x * w, [18]),
    "both": (lambda: variable(2, 3), lambda w, i, x: x * w * w + w, [27, 75]),
    "half precision": (lambda: variable(2, 3, cls=Float16), lambda w, i, x: x * Float(w), [6, 12]),
    "vector": (lambda: variable(2, 3, 4, cls=Array3f), lambda w, i, x: dr.dot(w, w) * x, [72, 108, 144]),
    "read by index": (lambda: variable(2, 3, 4), lambda w, i, x: x * dr.gather(Float, w, UInt(i)), [4, 6, 8]),
    "read by index and as it is": (lambda: variable(2, 3), lambda w, i, x: x * w * dr.gather(Float, w, UInt(0, 0)),
                                   [60, 24]),
    "custom": (lambda: variable(2, 3), lambda w, i, x: dr.custom(Product, w, x), [6, 12]),
    "in a branch": (lambda: variable(2, 3), lambda w, i, x: dr.if_stmt(
        (x,), x > 2, lambda x: x * w, lambda x: x), [3, 12]),
    "in a loop": (lambda: variable(2, 3), lambda w, i, x: dr.while_loop(
        (Int(0), Float(x)), lambda j, z: j < 2, lambda j, z: (j + 1, z + dr.gather(Float, w, UInt(j)) * x))[1],
        [18, 18]),
}


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
@pytest.mark.parametrize("name", SURROUNDED)
def test_gradients_flow_out_of_loops(name: str, mode: str) -> None:
    make, function, expected = SURROUNDED[name]
    w = make()
    dr.accum_grad(w, 100)

    def body(i: Any, x: Any) -> Any:
        dr.backward(function(w, i, x))
        return x + 1

    assert numbers(loop(body, Float(1, 3), mode)) == [4, 6]
    assert numbers(w.grad) == [number + 100 for number in expected]


def test_elements_that_take_no_part_have_no_gradients_outside() -> None:
    w, single = variable(2, 3, 4), variable(1)

    def side(x: Any) -> Any:
        dr.backward(x * x * w * single)
        return x

    dr.if_stmt((Float(1, 2, 3),), Bool(False, True, True), side, lambda x: x, mode="symbolic")
    assert numbers(w.grad) == [0, 4, 9] and numbers(single.grad) == [48]
    dr.switch(UInt(0, 1, 0), [side, lambda x: x], Float(1, 2, 3), mode="symbolic")
    assert numbers(w.grad) == [1, 4, 18] and numbers(single.grad) == [86]
    v = variable(2, 3, 1, 4)

    def body(i: Any, x: Any) -> Any:
        dr.backward(x * v)
        return i + 1, x + 1

    dr.while_loop((Int(0, 2, 5, 1), Float(1, 3, 1, 1)), lambda i, x: i < 3, body, mode="symbolic")
    assert numbers(v.grad) == [6, 3, 0, 3]


def test_gradients_flow_on_from_what_was_computed_outside() -> None:
    a = variable(2, 3)
    w = a * a

    def body(i: Any, x: Any) -> Any:
        dr.backward(x * w)
        return x + 1

    loop(body, Float(1, 3), "symbolic")
    assert numbers(a.grad) == [24, 72] and numbers(w.grad) == [0, 0]
    with dr.isolate_grad():
        loop(body, Float(1, 3), "symbolic")
        assert numbers(a.grad) == [24, 72]
    assert numbers(a.grad) == [48, 144]


def test_gradients_flow_from_the_arguments_of_branches_and_calls() -> None:
    a = variable(2, 3, 4)

    def side(y: Any) -> Any:
        dr.backward(y * y)
        return y

    dr.if_stmt((a * 2,), Bool(True, False, True), side, lambda y: y, mode="symbolic")
    assert numbers(a.grad) == [16, 0, 32]
    dr.switch(UInt(1, 0, 1), [side, lambda y: y], a, mode="symbolic")
    assert numbers(a.grad) == [16, 6, 32]


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
def test_gradients_in_a_function_that_is_differentiated_flow_once(mode: str) -> None:
    def run() -> Any:
        return loop(lambda i, x: x * a + gradient(lambda y: y * y * w, x) * 0.01, Float(1, 3), mode, max_iterations=3)

    w, a = variable(2, 3), variable(1.5, 1.25)
    found, x, expected, by_a = run(), [1.0, 3.0], [0.0, 0.0], [0.0, 0.0]
    for _ in range(3):
        for lane, (w_, a_) in enumerate([(2, 1.5), (3, 1.25)]):
            expected[lane] += x[lane] ** 2
            by_a[lane] = by_a[lane] * a_ + x[lane]
            x[lane] = x[lane] * a_ + 2 * x[lane] * w_ * 0.01
    assert numbers(found) == pytest.approx(x, rel=1e-5)
    dr.backward(found)
    assert numbers(w.grad) == pytest.approx(expected, rel=1e-5)  # once, and gradients have no derivatives
    assert numbers(a.grad) == pytest.approx(by_a, rel=1e-5)
    dr.set_grad(a, 1)
    dr.forward_to(run())
    assert numbers(w.grad) == pytest.approx([2 * number for number in expected], rel=1e-5)


@pytest.mark.parametrize("single", [True, False])
@pytest.mark.parametrize("construct", ["branch", "call"])
def test_branches_and_calls_that_are_differentiated_flow_once(construct: str, single: bool) -> None:
    w, x = (variable(2) if single else variable(2, 2, 2)), variable(1, 2, 3)

    def side(x: Any) -> Any:
        return x * w + gradient(lambda y: y * y * w, x)

    if construct == "branch":
        found = dr.if_stmt((x,), Bool(True, False, True), side, lambda x: x, mode="symbolic")
    else:
        found = dr.switch(UInt(0, 1, 0), [side, lambda x: x], x, mode="symbolic")
    assert numbers(found) == [6, 2, 18] and numbers(w.grad) == ([10] if single else [1, 0, 9])
    dr.backward(found)
    assert numbers(w.grad) == ([14] if single else [2, 0, 12]) and numbers(x.grad) == [2, 1, 2]


def test_gradients_flow_out_of_methods_of_instances() -> None:
    class Surface:
        def __init__(self, weight: float) -> None:
            self.weight = variable(weight)

        def shade(self, x: Any) -> Any:
            dr.backward(x * x * self.weight)
            return x * self.weight

    first, second = Surface(2), Surface(3)
    surfaces = dr.instance_array(Surface, UInt)(first, second, first, None)
    assert numbers(dr.dispatch(surfaces, Surface.shade, Float(1, 2, 3, 4))) == [2, 6, 6, 0]
    assert numbers(first.weight.grad) == [10] and numbers(second.weight.grad) == [4]


def test_a_loop_that_is_traced_again_lets_gradients_flow_once() -> None:
    w, target = variable(2, 3), dr.zeros(Float, 4)

    def body(i: Any, x: Any) -> Any:
        dr.scatter_add(target, x, UInt(i))
        dr.backward(x * w)
        dr.backward(x * x * w)
        return x + 1

    loop(body, Float(1, 3), "symbolic")
    assert numbers(w.grad) == [20, 62] and numbers(target) == [4, 6, 8, 0]


def test_a_body_that_raises_leaves_gradients_outside_alone() -> None:
    w = variable(2, 3)
    dr.set_grad(w, 5)

    def body(i: Any, x: Any) -> Any:
        dr.backward(x * w)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        loop(body, Float(1, 3), "symbolic")
    assert numbers(w.grad) == [5, 5]


def test_forward_mode_takes_changes_from_outside() -> None:
    a = variable(2, 3)
    w = a * a
    dr.set_grad(a, 1)
    found = loop(lambda i, x: x + dr.forward_to(x * w), Float(1, 3), "symbolic")
    assert numbers(found) == [125, 3 * 7**3] and numbers(a.grad) == [1, 1]
    dr.clear_grad(a)
    dr.backward(w)  # which is as it was
    assert numbers(a.grad) == [4, 6]


def inner_traversal(x: Any) -> Any:
    y = variable(1, 2)

    def side(x: Any) -> Any:
        dr.backward(y * x)
        return x

    return dr.if_stmt((x,), x > 1, side, lambda x: x, mode="symbolic")


REFUSED = {
    "the gradient of an argument": (lambda w, x: dr.backward_to(w), r"drjit.backward_to\(\): the argument was made "
                                                                    r"outside of the symbolic loop"),
    "a traversal that begins outside": (lambda w, x: dr.backward(w), r"drjit.backward\(\): this changes the gradient "
                                                                     r"of an array that was made outside"),
    "one that goes on outside": (lambda w, x: dr.backward_from(w), r"drjit.backward_from\(\): the argument was made "
                                                                   r"outside of the symbolic loop"),
    "a variable of a loop around it": (lambda w, x: inner_traversal(x), r"derivatives would flow out of this symbolic "
                                                                        r"branch to a variable of another one"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_symbolic_loops_refuse(name: str) -> None:
    act, message = REFUSED[name]
    w = variable(2, 3)
    dr.set_grad(w, 7)

    def body(i: Any, x: Any) -> Any:
        act(w, x)
        return x + 1

    with pytest.raises(RuntimeError, match=message):
        loop(body, Float(1, 3), "symbolic")
    assert numbers(w.grad) == [7, 7]


def test_the_state_of_a_loop_is_no_place_to_begin() -> None:
    a = variable(2, 3)

    def body(i: Any, x: Any) -> Any:
        dr.backward(x * x)
        return x * a

    with pytest.raises(RuntimeError, match=r"drjit.while_loop\(\): a traversal in the body.*to the state variable "
                                           + re.escape("'state[1]'")):
        loop(body, a * 2, "symbolic")
    assert numbers(a.grad) == [0, 0]


# --- in all modes, and with traversals that take apart what they pass ------------------------------------------------

MODES = ("symbolic", "evaluated")
FLAGS = (dr.ADFlag.Default, dr.ADFlag.ClearVertices)


def chosen(how: str, mode: str, arguments: tuple[Any, ...], yes: Any, no: Any) -> Any:
    """One of two functions, the first one of which the first two of four elements take: a branch, a call or a loop."""
    if how == "branch":
        return dr.if_stmt(arguments, Bool(True, True, False, False), yes, no, mode=mode)
    if how == "call":
        return dr.switch(UInt(0, 0, 1, 1), [yes, no], *arguments, mode=mode)
    return dr.while_loop((UInt(0), *arguments), lambda k, *_: (k < 1) & (UInt(0, 0, 1, 1) < 1),
                         lambda k, *arguments: (k + 1, yes(*arguments), *arguments[1:]), mode=mode)[1]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("how", ["branch", "call", "loop"])
def test_gradients_of_what_is_returned_as_well_flow_once(how: str, mode: str) -> None:
    x = variable(1, 1, 1, 1)

    def function(a: Any, i: Any) -> Any:
        d = dr.gather(Float, x, i)
        dr.backward_from(d * d)
        return d * a

    found = chosen(how, mode, (Float(1, 2, 3, 4), UInt(0, 1, 2, 3)), function, lambda a, i: a)
    assert numbers(x.grad) == [2, 2, 0, 0] and numbers(found) == [1, 2, 3, 4]


@pytest.mark.parametrize("flags", FLAGS)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("both", [True, False])
@pytest.mark.parametrize("how", ["branch", "call"])
def test_each_function_lets_gradients_flow_where_its_elements_are(how: str, both: bool, mode: str, flags: Any) -> None:
    x = variable(1, 2, 3, 4)

    def yes(y: Any) -> Any:
        dr.backward_from(y * 2, flags)
        return y

    def no(y: Any) -> Any:
        if both:
            dr.backward_from(y * 3, flags)
        return y

    chosen(how, mode, (x * 2,), yes, no)
    assert numbers(x.grad) == ([4, 4, 6, 6] if both else [4, 4, 0, 0])


@pytest.mark.parametrize("flags", FLAGS)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("what", ["wide", "single", "read by index", "state", "beside state"])
def test_iterations_let_gradients_flow_for_elements_that_are_left(what: str, mode: str, flags: Any) -> None:
    w = variable(2) if what == "single" else variable(1, 2, 3, 4)
    twice = w * 2

    def body(i: Any, x: Any, table: Any) -> Any:
        factor = dr.gather(Float, table, i) if what in ("state", "beside state") else \
            dr.gather(Float, twice, i) if what == "read by index" else twice
        dr.backward_from(x * factor * (w if what == "beside state" else 1), flags)
        return i + 1, x + 1, table

    table = Float(1, 2, 3, 4) if what == "beside state" else twice
    start = dr.zeros(UInt, 4), Float(1, 1, 1, 1), table
    dr.while_loop(start, lambda i, *_: i < UInt(3, 2, 0, 1), body, mode=mode)
    expected = {"wide": [12, 6, 0, 2], "single": [20], "beside state": [14, 5, 0, 1]}
    assert numbers(w.grad) == expected.get(what, [6, 8, 6, 0])


@pytest.mark.parametrize("mode", MODES)
def test_a_traversal_in_each_iteration_reaches_what_is_outside(mode: str) -> None:
    x = variable(1, 1)
    y = x * 2

    def body(i: Any) -> Any:
        dr.backward(2 * y)
        return (i + 1,)

    dr.while_loop((UInt(0, 0),), lambda i: i < 2, body, mode=mode)
    assert numbers(x.grad) == [8, 8]


@pytest.mark.parametrize("mode", MODES)
def test_constructs_within_others_let_gradients_flow(mode: str) -> None:
    x = variable(1, 2, 3, 4)
    twice = x * 2

    def side(y: Any) -> Any:
        dr.backward(y * twice)
        return y * 2

    def body(i: Any, y: Any) -> Any:
        return i + 1, dr.if_stmt((y,), y > 1.5, side, lambda y: y + 1, mode="symbolic")

    dr.while_loop((dr.zeros(UInt, 4), Float(1, 1, 1, 1)), lambda i, y: i < UInt(3, 2, 0, 1), body, mode=mode)
    assert numbers(x.grad) == [12, 4, 0, 0]


@pytest.mark.parametrize("mode", MODES)
def test_what_a_function_isolates_flows_where_its_elements_are(mode: str) -> None:
    x = variable(1, 2, 3, 4)

    def side(y: Any) -> Any:
        with dr.isolate_grad():
            dr.backward(y * y)
        dr.backward(y * 3)
        return y

    dr.if_stmt((x * 2,), Bool(True, False, True, False), side, lambda y: y, mode=mode)
    assert numbers(x.grad) == [8 + 6, 0, 24 + 6, 0]


@pytest.mark.parametrize("mode", MODES)
def test_gradients_of_arguments_themselves(mode: str) -> None:
    x = variable(1, 2, 3, 4)

    def side(y: Any) -> Any:
        dr.backward(y)
        return dr.detach(y)

    dr.if_stmt((x * x,), Bool(True, False, True, False), side, dr.detach, mode=mode)
    assert numbers(x.grad) == [2, 0, 6, 0]


@pytest.mark.parametrize("mode", MODES)
def test_elements_that_nobody_has_let_nothing_flow(mode: str) -> None:
    w = variable(2)

    def side(y: Any) -> Any:
        dr.backward(w * 3)
        return y

    dr.if_stmt((Float(1, 2, 3),), Bool(False, False, False), side, lambda y: y, mode=mode)
    assert numbers(w.grad) == [0]


@pytest.mark.parametrize("mode", MODES)
def test_a_function_that_raises_leaves_gradients_alone(mode: str) -> None:
    x = variable(1, 2)
    dr.set_grad(x, 5)

    def side(y: Any) -> Any:
        dr.backward(y * 2)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        dr.if_stmt((x * 2,), x > 1, side, lambda y: y, mode=mode)
    assert numbers(x.grad) == [5, 5] and dr.grad_enabled(x * 2)


def test_loops_that_remove_elements_let_gradients_of_reads_flow() -> None:
    table, count = variable(1, 2, 3, 4, 5), 64
    twice = table * 2

    def body(i: Any, n: Any, x: Any) -> Any:
        dr.backward_from(x * dr.gather(Float, twice, i))
        return i + 1, n, x + 1

    dr.while_loop((dr.zeros(UInt, count), dr.arange(UInt, count) % 5, dr.ones(Float, count)), lambda i, n, x: i < n,
                  body, mode="evaluated", compress=True)
    expected = [0.0] * 5
    for element in range(count):
        for i in range(element % 5):
            expected[i] += 2 * (1 + i)
    assert numbers(table.grad) == expected


@dr.syntax
def assigned_in_a_branch(i: Any, y: Any) -> Any:
    z = Float(0)
    if i < 1:
        z = dr.gather(Float, y, i) * 5
        dr.backward_from(z)


@dr.syntax
def returned_from_a_branch(i: Any, y: Any) -> Any:
    if i < 1:
        z = dr.gather(Float, y, i) * 5
        dr.backward_from(z)
    else:
        z = Float(0)
    return z


@pytest.mark.parametrize("symbolic", [True, False])
@pytest.mark.parametrize("evaluate", [True, False])
@pytest.mark.parametrize("size", [1, 3, 4])
@pytest.mark.parametrize("function", [assigned_in_a_branch, returned_from_a_branch])
def test_a_value_read_by_index_that_leaves_a_branch(function: Any, size: int, evaluate: bool, symbolic: bool) -> None:
    x = variable(*range(1, size + 1))
    y = x * 2
    if evaluate:
        dr.eval(y)
    with dr.scoped_set_flag(dr.JitFlag.SymbolicConditionals, symbolic):
        function(UInt(0, 1, 2), y)
    assert numbers(x.grad) == [10, 0, 0, 0][:size]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("how", ["branch", "call"])
def test_forward_mode_takes_changes_of_arguments(how: str, mode: str) -> None:
    x = variable(1, 2, 3, 4)
    y = x * 2
    dr.set_grad(x, 1)
    dr.forward_from(x, dr.ADFlag.ClearEdges)
    found = chosen(how, mode, (y,), lambda y: dr.forward_to(y * 2), lambda y: dr.forward_to(y * 3))
    assert numbers(found) == [4, 4, 6, 6] and numbers(y.grad) == [2, 2, 2, 2]
    z, x.grad = x * x, Float(1, 1, 1, 2)
    found = chosen(how, mode, (z,), lambda y: dr.forward_to(y * 2), lambda y: dr.forward_to(y * y))
    assert numbers(found) == [4, 8, 2 * 9 * 6, 2 * 16 * 16] and numbers(x.grad) == [1, 1, 1, 2]


@pytest.mark.parametrize("mode", MODES)
def test_forward_mode_takes_changes_of_state(mode: str) -> None:
    x = variable(1, 2)
    dr.set_grad(x, 1)
    found = dr.while_loop((UInt(0), x, Float(0)), lambda i, *_: i < 2, lambda i, x, s: (
        i + 1, x * x, s + dr.forward_to(x * 3)), mode=mode)[2]
    assert numbers(found) == [3 + 6, 3 + 12]


def test_forward_mode_within_an_isolated_scope_begins_at_what_is_outside() -> None:
    a = variable(1)
    b = a * 2
    dr.set_grad(a, 3)
    with dr.isolate_grad():
        found = [dr.forward_to(a * 2), dr.forward_to(a * 5), dr.forward_to(b * 3)]
    assert [numbers(entry) for entry in found] == [[6], [15], [18]] and numbers(a.grad) == [3]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("how", ["branch", "loop"])
def test_variables_that_are_left_alone_keep_their_derivatives_where_these_are_suspended(how: str, mode: str) -> None:
    def changing(x: Any, y: Any) -> Any:
        return x * y, y, dr.detach(y)

    def leaving(x: Any, y: Any) -> Any:
        return x, y, dr.detach(y)

    x, y = variable(1, 2, 3, 4), variable(3, 4, 5, 6)
    with dr.suspend_grad():
        if how == "branch":
            a, b, c = dr.if_stmt((x, y), x < 2, changing, leaving, mode=mode)
        else:
            a, b, c = dr.while_loop((x, y, y), lambda x, *_: x < 2, lambda x, y, _: changing(x, y), mode=mode)
    assert not dr.grad_enabled(a) and not dr.grad_enabled(c)
    assert dr.grad_enabled(b) and b.index_ad == y.index_ad


def test_state_has_derivatives_inside_only_if_it_has_some_outside() -> None:
    w = variable(1)
    known: list[list[bool]] = []

    def body(i: Any, x: Any, y: Any) -> Any:
        dr.if_stmt((x, y), i < 1, lambda x, y: (known.append([*map(dr.grad_enabled, (x, y, x + y, y * 2))]), x)[1],
                   lambda x, y: x)
        known.append([*map(dr.grad_enabled, (x, y, x + y, y * 2, y * w))])
        return i + 1, x * 2, y * 3

    x = dr.while_loop((UInt(0), variable(1, 2), Float(3)), lambda i, *_: i < 3, body, mode="symbolic")
    assert known == [[True, False, True, False], [True, False, True, False, True]]
    assert dr.grad_enabled(x[1]) and not dr.grad_enabled(x[2])


#: What there is one of, made of an array from outside; and the derivative by that.
ONES: dict[str, tuple[Callable[[Any], Any], list[float]]] = {
    "gather": (lambda w: dr.gather(Float, w, UInt(0)), [1, 0]),
    "item": (lambda w: w[UInt(1)], [0, 1]),
    "chain": (lambda w: dr.gather(Float, w, UInt(0)) * dr.gather(Float, w, UInt(1)) * 0.5, [1, 0.5]),
    "slice": (lambda w: TensorXf(w)[1:].array, [0, 1]),
}


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
@pytest.mark.parametrize("name", ONES)
def test_elements_that_have_ended_say_nothing_about_what_there_is_one_of(name: str, mode: str) -> None:
    make, slopes = ONES[name]
    w = variable(1, 2)

    def body(i: Any, x: Any) -> Any:
        dr.backward(x * make(w))
        return i + 1, x

    dr.while_loop((UInt(0, 0), Float(10, 100)), lambda i, x: i < UInt(1, 3), body, mode=mode)
    assert numbers(w.grad) == [310 * slope for slope in slopes]


@pytest.mark.parametrize("name", ONES)
def test_threads_share_what_there_is_one_of(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Updates of its gradient are atomic, as the listing of the kernel says, or of tables."""
    make, _ = ONES[name]
    w, threads = variable(1, 2), dr.thread_count()
    dr.flush_kernel_cache()  # of which listings are written when they are compiled
    monkeypatch.setenv("DRJIT_DUMP_DIR", str(tmp_path))
    dr.set_thread_count(4)
    try:
        dr.while_loop((UInt(np.zeros(1000)), Float(np.ones(1000))), lambda i, x: i < 3,
                      lambda i, x: (dr.backward(x * make(w)), (i + 1, x))[1], mode="symbolic")
        dr.eval(w.grad)
    finally:
        dr.set_thread_count(threads)
    updates = re.findall(r"scatter_add\(.*\), ([\w ]+)", "".join(path.read_text() for path in tmp_path.glob("*.txt")))
    assert updates and "plain" not in updates


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
def test_elements_that_take_no_part_say_nothing_about_what_there_is_one_of(mode: str) -> None:
    w = variable(3)

    def taken(x: Any) -> Any:
        dr.backward(x * (w * 2))
        dr.backward((w * 2) + x * 0)
        return x

    dr.if_stmt((Float(10, 100, 1000),), Bool(True, False, True), taken, lambda x: x, mode=mode)
    assert numbers(w.grad) == [2 * 1010 + 2 * 2]
    dr.clear_grad(w)
    dr.switch(UInt(0, 1, 0), [taken, lambda x: x], Float(10, 100, 1000), mode=mode)
    assert numbers(w.grad) == [2 * 1010 + 2 * 2]


@pytest.mark.parametrize("function", [dr.sum, dr.prod, dr.max, dr.mean, lambda w: dr.dot(w, w)])
def test_reductions_of_arrays_from_outside_are_refused_in_a_symbolic_body(function: Any) -> None:
    w = variable(1, 2)

    def body(i: Any, x: Any) -> Any:
        dr.backward(x * function(w))
        return i + 1, x

    with pytest.raises(RuntimeError, match=r"drjit\.backward\(\).*needs the values of all elements"):
        dr.while_loop((UInt(0, 0), Float(10, 100)), lambda i, x: i < UInt(1, 3), body, mode="symbolic")
    assert numbers(w.grad) == [0, 0]


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
@pytest.mark.parametrize("construct", ["loop", "branch", "call"])
def test_gradients_of_half_precision_are_added_up_in_single_precision(construct: str, mode: str) -> None:
    """In half precision, the sum of 0.01 ends at 32."""
    count = 1 << 16
    table = Float16(1, 2, 3)
    dr.enable_grad(table)
    index = dr.arange(UInt, count)

    def read(index: UInt) -> Float:
        return Float(dr.gather(Float16, table, index % 3)) * 0.01

    if construct == "loop":
        _, found = dr.while_loop((UInt(0), dr.zeros(Float, count)), lambda k, y: k < 3,
                                 lambda k, y: (k + 1, y + read(k)), mode=mode)
        times = count
    elif construct == "branch":
        found, times = dr.if_stmt((index,), index % 2 == 0, read, lambda i: Float(0), mode=mode), count / 6
    else:
        found, times = dr.switch(index % 2, [read, lambda i: Float(0)], index, mode=mode), count / 6
    dr.backward(dr.sum(found))
    assert dr.allclose(Float(dr.grad(table)), 0.01 * times, rtol=2e-3)


def _branch(v: Any) -> Any:
    return dr.if_stmt((v,), v > 0.5, lambda a: dr.sin(a), lambda a: a * a)


def _loop(v: Any, body: Callable[[Any], Any] = lambda a: dr.sin(a) + a) -> Any:
    return dr.while_loop((UInt(0), v), lambda i, a: i < 4, lambda i, a: (i + 1, body(a)), max_iterations=8)[1]


def _call(v: Any) -> Any:
    return dr.switch(dr.arange(UInt, 64) % 2, [lambda a: dr.sin(a), lambda a: a * a], v)


def _sum(v: Any) -> Any:
    return dr.while_loop((UInt(0), Float(0)), lambda i, a: i < 4, lambda i, a: (i + 1, a + dr.sin(v * i)))[1]


def _reads(v: Any) -> Any:
    return dr.while_loop((UInt(0), v), lambda i, a: i < 4, lambda i, a: (
        i + 1, a + dr.gather(Float, v, (dr.arange(UInt, 64) + i) % 16)), max_iterations=8)[1]


@pytest.mark.parametrize("mode", ["none", "reverse", "forward", "second", "evaluated"])
@pytest.mark.parametrize("construct", [
    _branch, _loop, _call, _sum, _reads, lambda v: _loop(v, _branch), lambda v: _loop(v, _call),
    lambda v: _loop(v, _loop), lambda v: _branch(_loop(v))],
    ids=["branch", "loop", "call", "sum", "reads", "branch in a loop", "call in a loop", "loop in a loop", "in turn"])
def test_vertices_of_constructs_die_without_the_collector_of_cycles(construct: Any, mode: str) -> None:
    def run() -> None:
        x = dr.opaque(Float, 0.5, 64) + dr.arange(Float, 64) / 64
        if mode == "second":
            inner = dr.value_and_grad(lambda z: dr.sum(construct(z)))
            dr.value_and_grad(lambda y: dr.sum(inner(y)[1]))(x)
            return
        dr.enable_grad(x)
        if mode == "forward":
            dr.set_grad(x, 1)
            dr.forward_to(construct(x))
            return
        y = construct(x)
        if mode == "evaluated":
            dr.eval(y)
        if mode != "none":
            dr.backward(y)

    run()  # what is kept for later
    gc.collect()
    before = len(live_vertices())
    gc.disable()
    try:
        run()
        assert len(live_vertices()) == before
    finally:
        gc.enable()
