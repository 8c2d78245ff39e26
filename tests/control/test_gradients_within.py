"""What functions of constructs change that has derivatives, and how they change derivatives themselves."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import drjit as dr
from drjit.llvm.ad import Bool, UInt
from drjit.llvm.ad import Float64 as F

MODES = ["symbolic", "evaluated"]


# --- what a loop changes besides its state ----------------------------------------------------------------------------


class Tree:
    DRJIT_STRUCT = {"v": F, "w": F}  # noqa: RUF012

    def __init__(self, v: Any = None, w: Any = None) -> None:
        self.v, self.w = v, w


class Plain:
    def __init__(self, v: Any, w: Any) -> None:
        self.v, self.w = v, w


Change = Callable[[Any, list[Any], Any, Any], Any]
CHANGES: dict[str, Change] = {}


def change(function: Change) -> Change:
    CHANGES[function.__name__] = function
    return function


@change
def replaced(p: Any, entries: Any, x: Any, i: Any) -> None:
    p.v = p.v * x + p.w


@change
def in_place(p: Any, entries: Any, x: Any, i: Any) -> None:
    p.v *= x
    p.v += p.w


@change
def both(p: Any, entries: Any, x: Any, i: Any) -> None:
    p.v = p.v * x
    p.w += p.v * x


@change
def an_entry(p: Any, entries: Any, x: Any, i: Any) -> None:
    entries[0] = dr.sin(entries[0]) * x + p.v


@change
def an_entry_in_place(p: Any, entries: Any, x: Any, i: Any) -> None:
    entries[0] += entries[0] * x


@change
def in_place_and_then_replaced(p: Any, entries: Any, x: Any, i: Any) -> None:
    p.v *= 1.1
    p.v = p.v * x


@change
def exchanged(p: Any, entries: Any, x: Any, i: Any) -> None:
    p.v, p.w = p.w * x, p.v


@change
def detached(p: Any, entries: Any, x: Any, i: Any) -> None:
    p.v = dr.detach(p.v) * x + p.w


@change
def suspended(p: Any, entries: Any, x: Any, i: Any) -> None:
    with dr.suspend_grad(p.v):
        y = p.v * x
    p.v = y + p.v


@change
def another_derivative(p: Any, entries: Any, x: Any, i: Any) -> None:
    p.v = dr.replace_grad(p.v * x, p.w * x)


@change
def read_by_index(p: Any, entries: Any, x: Any, i: Any) -> None:
    p.v = p.v + dr.gather(F, p.w, i % 2) * x


@change
def captured_by_a_branch(p: Any, entries: Any, x: Any, i: Any) -> None:
    p.v = dr.if_stmt((i,), i < 2, lambda i: p.v * x + p.w, lambda i: p.v * p.v)


@change
def changed_by_a_branch(p: Any, entries: Any, x: Any, i: Any) -> None:
    def yes(i: Any) -> None:
        p.v = p.v * x + p.w

    def no(i: Any) -> None:
        p.v *= p.w

    dr.if_stmt((i,), i < 2, yes, no)


@change
def changed_by_a_loop(p: Any, entries: Any, x: Any, i: Any) -> None:
    def body(j: Any) -> Any:
        p.v = p.v * x + p.w
        return (j + 1,)

    dr.while_loop((UInt(0),), lambda j: j < 2, body)


@change
def captured_by_a_loop(p: Any, entries: Any, x: Any, i: Any) -> None:
    p.w = p.w + dr.while_loop((UInt(0), p.v), lambda j, v: j < 2, lambda j, v: (j + 1, v * p.w + p.v * x))[1] * 0.1


def changed(name: str, cls: Any, mode: str, inputs: list[Any]) -> tuple[Any, int]:
    """What a loop makes of things from outside, and how often its body is called."""
    v, w, x = inputs
    p, entries, calls = cls(v * 1.01, w + 0.1), [v * 1.5], []

    def body(i: Any) -> Any:
        calls.append(1)
        CHANGES[name](p, entries, x, i)
        return (i + 1,)

    dr.while_loop((UInt(0, 1),), lambda i: i < 3, body, mode=mode)
    return x + p.v + 2 * p.w + 3 * entries[0], len(calls)


VALUES = [[1.1, 0.7], [0.3, 0.9], [1.2, 0.8]]


@pytest.mark.parametrize("cls", [Tree, Plain])
@pytest.mark.parametrize("name", CHANGES)
def test_bodies_that_change_what_has_derivatives_are_called_once(name: str, cls: Any) -> None:
    """Whichever of the arrays are differentiated by, which the body may not know; there may be other vertices."""
    unrelated = F(1)
    dr.enable_grad(unrelated)
    for tracked in itertools.product((False, True), repeat=3):
        gradients, values = {}, {}
        for mode in MODES:
            inputs = [F(value) for value in VALUES]
            dr.enable_grad([array for array, each in zip(inputs, tracked, strict=True) if each])
            y, calls = changed(name, cls, mode, inputs)
            assert calls == (1 if mode == "symbolic" else 3), tracked
            values[mode] = np.array(y)
            if not any(tracked):
                assert not dr.grad_enabled(y)
                continue
            y = y + sum(inputs, F(0))
            dr.backward(y, dr.ADFlag.ClearVertices)
            gradients[mode] = [np.array(array.grad) for array in inputs]
            for array, each in zip(inputs, tracked, strict=True):
                if each:
                    array.grad = 1
            moved = dr.forward_to(y)
            assert np.allclose(np.sum(gradients[mode]), dr.sum(moved)[0])
        assert np.allclose(values["symbolic"], values["evaluated"])
        for symbolic, evaluated in zip(*gradients.values(), strict=True) if gradients else ():
            assert np.allclose(symbolic, evaluated), tracked


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", CHANGES)
def test_gradients_of_what_bodies_change_are_those_of_differences(name: str, mode: str) -> None:
    if name in ("detached", "suspended", "another_derivative"):
        return  # which have other derivatives on purpose
    assert dr.gradcheck(lambda *inputs: changed(name, Plain, mode, list(inputs))[0], *map(F, VALUES))


def test_another_array_with_the_same_derivatives_is_another_one() -> None:
    """Which array the body has read is not known by its vertex then."""
    x = F(2, 3)
    dr.enable_grad(x)
    p = Plain(x * 2, None)
    p.w = dr.replace_grad(F(5, 7), p.v)

    def body(i: Any) -> Any:
        p.v = p.v * p.w
        return (i + 1,)

    dr.while_loop((UInt(0, 0),), lambda i: i < 2, body, mode="symbolic")
    dr.backward(p.v)
    assert list(p.v) == [100, 294]
    assert list(x.grad) == [2 * (25 + 2 * 4 * 5), 2 * (49 + 2 * 6 * 7)]


def test_traversals_that_reach_what_changes_are_refused() -> None:
    x = F(2, 3)
    dr.enable_grad(x)
    p = Plain(x * 2, None)

    def body(i: Any) -> Any:
        dr.backward(p.v * 2)
        p.v = p.v * 3
        return (i + 1,)

    with pytest.raises(RuntimeError, match=r"a traversal in the body of this symbolic loop has let derivatives flow"):
        dr.while_loop((UInt(0, 0),), lambda i: i < 2, body, mode="symbolic")
    assert list(p.v) == [4, 6]
    assert list(x.grad) == [0, 0]


# --- gradients that are set within ------------------------------------------------------------------------------------


SOME = Bool(True, True, False, False)


def given() -> Any:
    x = F(1, 2, 3, 4)
    dr.enable_grad(x)
    x.grad = F(5, 6, 7, 8)
    return x


def run(construct: str, mode: str, function: Callable[[], Any]) -> None:
    """Call a function for the first two of four elements."""
    index = dr.select(SOME, UInt(0), UInt(1))
    if construct == "branch":
        dr.if_stmt((), SOME, function, lambda: None, mode=mode)
    elif construct == "loop":
        def body(i: Any) -> Any:
            function()
            return (i + 1,)

        dr.while_loop((index,), lambda i: i < 1, body, mode=mode)
    else:
        def target(i: Any) -> Any:
            function()
            return i

        dr.switch(index, [target, lambda i: i], UInt(1), mode=mode)


CONSTRUCTS = ["branch", "loop", "call"]
GRADIENTS: dict[str, tuple[Callable[[Any], Any], list[float]]] = {
    "set_grad": (lambda x: dr.set_grad(x, F(10, 20, 30, 40)), [10, 20, 7, 8]),
    "set_grad_of_one": (lambda x: dr.set_grad(x, 9), [9, 9, 7, 8]),
    "accum_grad": (lambda x: dr.accum_grad(x, F(10, 20, 30, 40)), [15, 26, 7, 8]),
    "clear_grad": (dr.clear_grad, [0, 0, 7, 8]),
}


@pytest.mark.parametrize("construct", CONSTRUCTS)
@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_are_set_where_elements_take_part(name: str, construct: str) -> None:
    x, (function, expected) = given(), GRADIENTS[name]
    run(construct, "evaluated", lambda: function(x))
    assert list(x.grad) == expected
    x = given()
    with pytest.raises(RuntimeError, match=rf"drjit\.{name.removesuffix('_of_one')}\(\): this (changes|replaces) the "
                                           "gradient of an array that was made outside"):
        run(construct, "symbolic", lambda: function(x))
    assert list(x.grad) == [5, 6, 7, 8]


@pytest.mark.parametrize("mode", MODES)
def test_gradients_of_arguments(mode: str) -> None:
    x = given()
    dr.if_stmt((x,), SOME, lambda x: dr.accum_grad(x, F(10, 20, 30, 40)), lambda x: None, mode=mode)
    assert list(x.grad) == [15, 26, 7, 8]
    x = given()
    dr.clear_grad(x)
    dr.if_stmt((x,), SOME, lambda x: dr.set_grad(x, 9), lambda x: None, mode=mode)
    assert list(x.grad) == [9, 9, 0, 0]
    x = given()
    dr.while_loop((UInt(0, 1, 2, 3), x), lambda i, x: i < 2,
                  lambda i, x: (i + 1, (dr.accum_grad(x, F(i) + 10), x)[1]), mode=mode)
    assert list(x.grad) == [26, 17, 7, 8]


@pytest.mark.parametrize("function", [dr.clear_grad, lambda x: dr.set_grad(x, 9)])
def test_gradients_of_arguments_that_have_some_outside_are_not_replaced(function: Any) -> None:
    x = given()
    with pytest.raises(RuntimeError, match=r"this replaces the gradient of an array that was made outside"):
        dr.if_stmt((x,), SOME, function, lambda x: None, mode="symbolic")
    dr.clear_grad(x)
    with pytest.raises(RuntimeError, match=r"this replaces the gradient of an array that was made outside"):
        dr.while_loop((UInt(0, 1, 2, 3), x), lambda i, x: i < 2, lambda i, x: (i + 1, (function(x), x)[1]),
                      mode="symbolic")
    assert list(x.grad) == [0, 0, 0, 0]


# --- what functions read of gradients ---------------------------------------------------------------------------------


def squared(x: Any, y: Any) -> Any:
    dr.backward(x * x)
    return y + x.grad


def before_and_after(x: Any, y: Any) -> Any:
    y = y + dr.grad(x)
    dr.backward(x * y)
    return y + dr.grad(x) * 2


def only_read(x: Any, y: Any) -> Any:
    return y + x.grad


def read_before(x: Any, y: Any) -> Any:
    y = y + x.grad
    dr.backward(x * 3)
    return y


def added(x: Any, y: Any) -> Any:
    z = x * 2
    dr.accum_grad(z, y)
    dr.enqueue(dr.ADMode.Backward, z)
    dr.traverse(dr.ADMode.Backward)
    return y + dr.grad(x)


def within(x: Any, y: Any) -> Any:
    y = y + x.grad
    dr.if_stmt((), y < 50, lambda: dr.backward(x * x), lambda: None)
    return y + x.grad


def read_within(x: Any, y: Any) -> Any:
    dr.backward(x * x)
    return dr.if_stmt((y,), y < 50, lambda y: y + x.grad, lambda y: y - x.grad)


READ = [squared, before_and_after, only_read, read_before, added, within, read_within]


def grads_read(construct: str, given: bool, mode: str, function: Any, x: Any, y: Any, count: Any) -> list[Any]:
    """The result of a function that reads the gradient of a variable, which it is given, or refers to, and that
    gradient."""
    dr.enable_grad(x)
    x.grad = x + 10
    if construct == "loop" and given:
        y = dr.while_loop((count, y, x), lambda i, y, x: i > 0, lambda i, y, x: (i - 1, function(x, y), x),
                          mode=mode)[1]
    elif construct == "loop":
        y = dr.while_loop((count, y), lambda i, y: i > 0, lambda i, y: (i - 1, function(x, y)), mode=mode)[1]
    elif construct == "branch" and given:
        y = dr.if_stmt((y, x), count > 0, lambda y, x: function(x, y), lambda y, x: y - 1, mode=mode)
    elif construct == "branch":
        y = dr.if_stmt((y,), count > 0, lambda y: function(x, y), lambda y: y - 1, mode=mode)
    elif given:
        y = dr.switch(dr.minimum(count, 1), [lambda y, x: y - 1, lambda y, x: function(x, y)], y, x, mode=mode)
    else:
        y = dr.switch(dr.minimum(count, 1), [lambda y: y - 1, lambda y: function(x, y)], y, mode=mode)
    return [[float(value) for value in dr.detach(y)], [float(value) for value in x.grad]]


@pytest.mark.parametrize("function", READ)
@pytest.mark.parametrize("given", [True, False])
@pytest.mark.parametrize("construct", CONSTRUCTS)
def test_gradients_that_functions_read_are_those_that_each_element_has(construct: str, given: bool,
                                                                       function: Any) -> None:
    alone = [grads_read(construct, given, "evaluated", function, F(1.0 + k), F(k / 2), UInt(n))
             for k, n in enumerate([1, 0, 3])]
    expected = [[values[0][0] for values in alone], [values[1][0] for values in alone]]
    if function is within and given:
        with pytest.raises(RuntimeError, match="derivatives would flow out of this symbolic branch"):
            grads_read(construct, given, "symbolic", function, F(1, 2, 3), F(0, 0.5, 1), UInt(1, 0, 3))
        return
    found = grads_read(construct, given, "symbolic", function, F(1, 2, 3), F(0, 0.5, 1), UInt(1, 0, 3))
    assert found == expected
    if construct != "call" or given:  # a function of a call finds all elements of what it refers to
        found = grads_read(construct, given, "evaluated", function, F(1, 2, 3), F(0, 0.5, 1), UInt(1, 0, 3))
        assert found == expected


def test_gradients_that_loops_read_which_remove_elements() -> None:
    def result(mode: str, compress: bool) -> list[Any]:
        x = dr.arange(F, 16) + 1
        dr.enable_grad(x)
        x.grad = x * 10

        def body(i: Any, y: Any, x: Any, n: Any) -> Any:
            y = y + x.grad
            dr.backward(x * x)
            return i + 1, y + dr.grad(x) * i, x, n

        n = dr.arange(UInt, 16) // 2
        _, y, *_ = dr.while_loop((UInt([0] * 16), F([0.0] * 16), x, n), lambda i, y, x, n: i < n, body, mode=mode,
                                 compress=compress)
        return [list(y), list(x.grad)]

    expected = []
    for k in range(16):
        gradient, y, x = (k + 1) * 10.0, 0.0, k + 1
        for i in range(k // 2):
            y += gradient
            gradient += 2 * x
            y += gradient * i
        expected.append((y, gradient))
    assert result("evaluated", True) == result("evaluated", False) == result("symbolic", False) == [
        list(values) for values in zip(*expected, strict=True)]


@pytest.mark.parametrize("mode", MODES)
def test_a_gradient_that_all_elements_share_is_that_of_all(mode: str) -> None:
    x = F(3)
    dr.enable_grad(x)
    x.grad = 10
    y = dr.if_stmt((F(1, 2, 3),), Bool(True, False, True), lambda y: (dr.backward(x * y), y + x.grad)[1],
                   lambda y: F(0), mode=mode)
    assert list(y) == [15, 0, 17] and list(x.grad) == [14]


@pytest.mark.parametrize("mode", MODES)
def test_variables_of_a_body_are_its_own(mode: str) -> None:
    def body(i: Any, z: Any) -> Any:
        y = F(i)
        dr.enable_grad(y)
        dr.backward(y * y * 3)
        found = dr.grad(y)
        dr.clear_grad(y)
        dr.set_grad(y, 1)
        return i + 1, found + dr.grad(y)

    assert list(dr.while_loop((UInt(0, 1, 2, 3), F(0)), lambda i, z: i < 2, body, mode=mode)[1]) == [7, 7, 0, 0]


TRACKING: dict[str, Callable[[Any], Any]] = {
    "enable_grad": dr.enable_grad, "disable_grad": dr.disable_grad,
    "set_grad_enabled": lambda x: dr.set_grad_enabled(x, not dr.grad_enabled(x))}


@pytest.mark.parametrize("others", [False, True])
@pytest.mark.parametrize("construct", CONSTRUCTS)
@pytest.mark.parametrize("name", TRACKING)
def test_arrays_are_tracked_as_a_whole(name: str, construct: str, others: bool) -> None:
    """Evaluated functions say so for all elements; symbolic ones have no say."""
    unrelated, before = F(1), name == "disable_grad"
    dr.set_grad_enabled(unrelated, others)

    def fresh() -> Any:
        x = F(1, 2, 3, 4)
        dr.set_grad_enabled(x, before)
        return x

    x = fresh()
    run(construct, "evaluated", lambda: TRACKING[name](x))
    assert dr.grad_enabled(x) is not before
    if not before:
        dr.backward(x * 2)
        assert list(x.grad) == [2, 2, 2, 2]
    x = fresh()
    with pytest.raises(RuntimeError,
                       match=r"outside of the symbolic loop|enables or disables derivatives of the array"):
        run(construct, "symbolic", lambda: TRACKING[name](x))
    assert dr.grad_enabled(x) is before


# --- derivatives that are enabled or disabled of what a function is given ---------------------------------------------


def run_construct(construct: str, mode: str, function: Callable[[Any], Any], y: Any) -> Any:
    """Elements 0 and 2 take a function of ``y``; those of a loop that it does not begin with do so twice."""
    if construct == "branch":
        return dr.if_stmt((y,), Bool(True, False, True, False), function, lambda y: y * 1, mode=mode)
    if construct == "call":
        return dr.switch(UInt(0, 1, 0, 1), [function, lambda y: y * 1], y, mode=mode)
    return dr.while_loop((UInt(0, 2, 0, 2), y), lambda i, y: i < 2, lambda i, y: (i + 1, function(y)),
                         mode=mode.partition(" ")[0], compress=mode.endswith("compressed"), max_iterations=2)[1]


@pytest.mark.parametrize("mode", [*MODES, "evaluated compressed"])
@pytest.mark.parametrize("construct", ["branch", "call", "loop"])
@pytest.mark.parametrize("is_variable", [False, True])
@pytest.mark.parametrize("returns", ["the argument", "another"])
def test_derivatives_disabled_of_an_argument_are_those_of_the_caller(construct: str, mode: str, is_variable: bool,
                                                                     returns: str) -> None:
    """What takes part in the function is detached there; the caller's array has the vertex that it had."""
    if mode.endswith("compressed") and construct != "loop":
        return
    x = F(1, 2, 3, 4)
    dr.enable_grad(x)
    y = x if is_variable else x * 2
    before = y.index_ad

    def function(y: Any) -> Any:
        dr.disable_grad(y)
        return y if returns == "the argument" else y * 3

    found = run_construct(construct, mode, function, y)
    assert y.index_ad == before
    if construct == "loop" and returns == "the argument":
        assert found is y
    else:
        dr.backward(found)
        scale = 1 if is_variable else 2
        assert np.array_equal(x.grad, [0, scale, 0, scale])


@pytest.mark.parametrize("mode", [*MODES, "evaluated compressed"])
@pytest.mark.parametrize("construct", ["branch", "call", "loop"])
def test_derivatives_enabled_of_an_argument_are_none_of_the_callers(construct: str, mode: str) -> None:
    if mode.endswith("compressed") and construct != "loop":
        return
    y = F(1, 2, 3, 4)

    def function(y: Any) -> Any:
        dr.enable_grad(y)
        return y

    run_construct(construct, mode, function, y)
    assert not dr.grad_enabled(y)


@pytest.mark.parametrize("mode", MODES)
def test_derivatives_disabled_of_arguments_in_containers_and_given_twice(mode: str) -> None:
    x = F(1, 2, 3, 4)
    dr.enable_grad(x)
    tree, before = Tree(x * 2, x * 3), x.index_ad
    vertices = tree.v.index_ad, tree.w.index_ad

    def function(tree: Any, y: Any, z: Any) -> Any:
        dr.disable_grad(tree.v)
        dr.disable_grad(y)
        return tree.v * tree.w + y * z

    found = dr.if_stmt((tree, x, x), Bool(True, False, True, False), function, lambda tree, y, z: tree.v, mode=mode)
    assert (tree.v.index_ad, tree.w.index_ad) == vertices and x.index_ad == before
    dr.backward(found)
    assert np.array_equal(x.grad, [2 * 3, 2, 6 * 3, 2])


@pytest.mark.parametrize("opaque", [False, True])
@pytest.mark.parametrize("numbers", [[1, 4, 2], [0, 4, 0], [1, 1, 1], [2, 3, 4, 2]])
@pytest.mark.parametrize("construct", ["loop", "if", "else", "switch"])
@pytest.mark.parametrize("read", [lambda t, i: dr.gather(F, t, i), lambda t, i: t[i]], ids=["gather", "key"])
def test_each_lane_that_reads_at_one_position_adds_to_the_gradient(read: Callable[[Any, Any], Any], construct: str,
                                                                   numbers: list[int], opaque: bool) -> None:
    table = [0.5, 1.5, 2, -0.25]
    expected = [0.0] * 4
    for n in numbers:
        reads = {"loop": range(n), "if": [1] * (n > 1), "else": [1] * (n <= 1), "switch": [1] * (n % 2 == 0)}[construct]
        for i in reads:
            expected[i] += 2 * table[i]
    for mode in ("symbolic", "evaluated"):
        t, n = F(table), UInt(numbers)
        dr.enable_grad(t)
        start = UInt(0 if construct == "loop" else 1)
        if opaque:
            start = dr.opaque(start)

        def step(i: Any, t: Any = t) -> Any:
            dr.backward_from(dr.square(read(t, i)))
            return i + 1

        if construct == "loop":
            dr.while_loop((start, n), lambda i, n: i < n, lambda i, n, step=step: (step(i), n), mode=mode)
        elif construct == "switch":
            dr.switch(n % 2, [step, lambda i: i], start, mode=mode)
        else:
            sides = [step, lambda i: i] if construct == "if" else [lambda i: i, step]
            dr.if_stmt((start,), n > 1, *sides, mode=mode)
        assert list(t.grad) == expected


def test_each_lane_that_looks_up_one_position_adds_to_the_gradient_of_the_texels() -> None:
    for mode in MODES:
        texels = dr.llvm.ad.TensorXf64([[[1], [2]], [[3], [4]]])
        dr.enable_grad(texels)
        texture = dr.llvm.ad.Texture2f64(texels)

        def body(i: Any, n: Any, texture: Any = texture) -> Any:
            dr.backward_from(texture.eval(dr.llvm.ad.Array2f64(0.25, 0.75))[0])
            return i + 1, n

        dr.while_loop((UInt(0), UInt(1, 4, 2)), lambda i, n: i < n, body, mode=mode)
        assert list(texels.grad.array) == [0, 0, 7, 0]
