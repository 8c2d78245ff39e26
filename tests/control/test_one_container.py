"""Containers that functions of constructs put in places: one in several is one, and what a place loses is changed by
the first iteration only."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

import drjit as dr
from drjit.llvm.ad import Array2f64
from drjit.llvm.ad import Float64 as F
from drjit.llvm.ad import UInt32 as U

MODES = ["symbolic", "evaluated"]


class Tree:
    DRJIT_STRUCT = {"v": F}  # noqa: RUF012

    def __init__(self, v: Any = None) -> None:
        self.v = v


KINDS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "list": (lambda x: [x], lambda c: c[0]),
    "dict": (lambda x: {"v": x}, lambda c: c["v"]),
    "tree": (Tree, lambda c: c.v),
    "nested": (lambda x: ({"v": [x]},), lambda c: c[0]["v"][0]),
}


def run(construct: str, mode: str, function: Callable[[Any], Any], count: Any, *, both: bool) -> None:
    """Call a function of a number, for some elements, or in both sides."""
    other = function if both else lambda x: None
    if construct == "loop":
        def body(i: Any, x: Any) -> Any:
            function(x)
            return i + 1, x * 2

        dr.while_loop((U(0), F(1)), lambda i, x: i < count, body, mode=mode)
    elif construct == "branch":
        dr.if_stmt((F([1.0] * len(count)),), count > 1, function, other, mode=mode)
    else:
        dr.switch(dr.minimum(count, 1), [other, function], F([1.0] * len(count)), mode=mode)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("start", ["none", "one", "two"])
@pytest.mark.parametrize("construct", ["loop", "branch", "call"])
def test_a_container_in_two_places_is_one(construct: str, start: str, kind: str, mode: str) -> None:
    make, read = KINDS[kind]
    state = SimpleNamespace()
    if start == "one":
        state.a = state.b = make(F(0))
    elif start == "two":
        state.a, state.b = make(F(0)), make(F(0))

    def function(x: Any) -> None:
        state.a = state.b = make(x + 1)

    run(construct, mode, function, U(1, 2, 3), both=start != "one")
    # elements without an iteration, or that take no target, would have two
    if start != "two" or construct == "branch" or (construct, mode) == ("loop", "evaluated"):
        assert read(state.a) is read(state.b)
        assert state.a is state.b or (kind == "nested" and state.a[0] is state.b[0])
    expected = {"loop": [2, 3, 5], "branch": [0, 2, 2] if start == "one" else [2, 2, 2], "call": [2, 2, 2]}[construct]
    if construct == "loop":
        expected = [1 + 2 ** (k - 1) for k in (1, 2, 3)]
    assert list(read(state.a)) == list(read(state.b)) == expected


@pytest.mark.parametrize("mode", MODES)
def test_containers_are_two_where_elements_without_an_iteration_have_two(mode: str) -> None:
    state = SimpleNamespace(a=[F(0)], b=[F(1)])

    def body(i: Any) -> Any:
        state.a = state.b = [F(i) + 5]
        return (i + 1,)

    dr.while_loop((U(0),), lambda i: i < U(0, 1, 2), body, mode=mode)
    assert state.a is not state.b
    assert list(state.a[0]) == [0, 5, 6] and list(state.b[0]) == [1, 5, 6]


@pytest.mark.parametrize("mode", MODES)
def test_a_container_that_both_sides_put_somewhere_is_that(mode: str) -> None:
    other = [F(5)]
    state = SimpleNamespace(a=[F(0)], b=other)

    def function() -> None:
        state.a = state.b

    dr.if_stmt((), U(0, 1) > 0, function, function, mode=mode)
    assert state.a is state.b is other and list(other[0]) == [5]


@pytest.mark.parametrize("mode", MODES)
def test_a_container_that_iterations_keep_within_another_one_is_the_callers(mode: str) -> None:
    inner = [F(1)]
    state = SimpleNamespace(a=[inner, F(0)])

    def body(i: Any) -> Any:
        inner = state.a[0]
        inner[0] = inner[0] + 1
        state.a = [inner, inner[0] * 2]
        return (i + 1,)

    dr.while_loop((U(0),), lambda i: i < U(0, 1, 2), body, mode=mode)
    assert state.a[0] is inner
    assert list(inner[0]) == [1, 2, 3] and list(state.a[1]) == [0, 4, 6]


CHANGES: dict[str, Callable[[Any], None]] = {}


def change(function: Callable[[Any], None]) -> Callable[[Any], None]:
    CHANGES[function.__name__] = function
    return function


@change
def before(s: Any) -> None:
    cells = s.cells
    cells["a"] = cells["a"] + 1
    s.cells = {"a": cells["a"], "b": cells["b"] * 2}


@change
def after(s: Any) -> None:
    cells = s.cells
    s.cells = {"a": cells["a"], "b": cells["b"] * 2}
    cells["a"] = cells["a"] + 1


@change
def in_place(s: Any) -> None:
    cells = s.cells
    cells["a"] = cells["a"] + 1
    cells["a"] += 1
    s.cells = {"a": cells["a"] * 3, "b": cells["b"] * 2}


@change
def for_some(s: Any) -> None:
    cells, new = s.cells, {"a": s.cells["b"] + 1, "b": s.cells["a"] * 2}

    def replace() -> None:
        s.cells = new

    def fill() -> None:
        cells["a"] = new["a"]

    dr.if_stmt((), cells["a"] < 3, replace, fill)


@change
def swapped(s: Any) -> None:
    cells = s.cells
    cells["a"], cells["b"] = cells["b"], cells["a"]
    s.cells = {"a": cells["a"] + 1, "b": cells["b"]}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", CHANGES)
def test_a_container_that_a_place_loses_is_changed_by_the_first_iteration(name: str, mode: str) -> None:
    def result(start: list[float], count: list[int], mode: str) -> Any:
        first = {"a": F(start), "b": F([k * 2.0 for k in start])}
        state = SimpleNamespace(cells=first)

        def body(i: Any) -> Any:
            CHANGES[name](state)
            return (i + 1,)

        dr.while_loop((U(0),), lambda i: i < U(count), body, mode=mode)
        return [list(each[key]) for each in (first, state.cells) for key in "ab"]

    counts = [0, 1, 2, 3]
    alone = [result([k + 1.0], [count], "evaluated") for k, count in enumerate(counts)]
    expected = [[values[k][0] for values in alone] for k in range(4)]
    if name == "for_some":  # after a branch, elements have one container
        expected = result([1, 2, 3, 4], counts, "evaluated")
    assert result([1, 2, 3, 4], counts, mode) == expected


def test_a_container_that_comes_from_elsewhere_must_not_be_changed() -> None:
    state = SimpleNamespace(a=[F(0)], b=[F(1)])

    def body(i: Any) -> Any:
        state.a[0] = state.a[0] + 1
        state.a = state.b
        return (i + 1,)

    with pytest.raises(RuntimeError, match=r"changes a list that is in the attribute 'a' .*, and puts another one "
                                           "there, which is elsewhere"):
        dr.while_loop((U(0),), lambda i: i < U(0, 1, 3), body, mode="symbolic")
    assert list(state.a[0]) == [0] and list(state.b[0]) == [1]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("construct", ["branch", "call"])
def test_one_side_changes_a_container_and_another_one_replaces_it(construct: str, mode: str) -> None:
    """What one has made for it is known to the others, whatever else it has changed."""
    state = SimpleNamespace(points=[Array2f64(F(1, 2), F(5, 6)), Array2f64(F(3, 4), F(7, 8))], weight=F(1))
    old = state.points

    def scale(x: Any) -> None:
        state.points[0] = state.points[0] * x
        state.weight *= 2

    def swap(x: Any) -> None:
        state.points = [state.points[1], state.points[0]]

    x = F(10, 20)
    if construct == "branch":
        dr.if_stmt((x,), x < 15, scale, swap, mode=mode)
    else:
        dr.switch(U(0, 1), [scale, swap], x, mode=mode)
    assert [[list(each) for each in point] for point in state.points] == [[[10, 4], [50, 8]], [[3, 2], [7, 6]]]
    assert [[list(each) for each in point] for point in old] == [[[10, 2], [50, 6]], [[3, 4], [7, 8]]]
    assert list(state.weight) == [2, 1]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", CHANGES)
def test_derivatives_of_containers_that_a_place_loses(name: str, mode: str) -> None:
    def result(x: Any, count: Any, mode: str) -> Any:
        first = {"a": x * x, "b": x * 2}
        state = SimpleNamespace(cells=first)

        def body(i: Any) -> Any:
            CHANGES[name](state)
            return (i + 1,)

        dr.while_loop((U(0),), lambda i: i < count, body, mode=mode)
        return first["a"] * 3 + first["b"] * 5 + state.cells["a"] * 7 + state.cells["b"] * state.cells["a"]

    x, count = F(1, 2, 3, 4), U(0, 1, 2, 3)
    dr.enable_grad(x)
    y = result(x, count, mode)
    dr.backward(y)
    step = 1e-6
    expected = (result(dr.detach(x) + step, count, "evaluated") - result(dr.detach(x) - step, count, "evaluated")) / (
        2 * step)
    # what central differences round away
    assert dr.allclose(x.grad, expected, rtol=1e-5)
