"""Constructs of one mode within those of the other one, which find arrays of all elements, and derivatives of both.
"""

from __future__ import annotations

import itertools
from typing import Any

import pytest

import drjit as dr
from drjit.llvm import Float, UInt32
from drjit.llvm.ad import Float64

LANES = 5
LANE = UInt32(range(LANES))
BODIES = {
    "branch": lambda write, mode: dr.if_stmt((), LANE < 3, write, lambda: None, mode=mode),
    "loop": lambda write, mode: dr.while_loop(
        (UInt32(0),), lambda i: i < 2, lambda i: (write(), (i + 1,))[1], mode=mode),
    "wide loop": lambda write, mode: dr.while_loop(
        (LANE,), lambda i: i < 4, lambda i: (write(), (i + 1,))[1], mode=mode),
    "call": lambda write, mode: dr.switch(LANE % 2, [lambda: write(), lambda: None], mode=mode),
}


@pytest.mark.parametrize("inner", BODIES)
@pytest.mark.parametrize("around", ["call", "call of one", "loop"])
def test_symbolic_constructs_within_those_that_give_functions_some_elements(around: str, inner: str) -> None:
    """What takes part of all elements is known outside of the region: to find it out is no write there."""
    found = []
    for outer, mode in (("symbolic", "symbolic"), ("evaluated", "symbolic"), ("evaluated", "evaluated")):
        if (outer, mode, around) == ("evaluated", "evaluated", "call") and inner == "wide loop":
            continue  # state that has more elements than the call was given
        bins = dr.zeros(Float, LANES)

        def run(mode: str = mode, bins: Float = bins) -> None:
            BODIES[inner](lambda: dr.scatter_add(bins, Float(1), LANE), mode)

        if around == "loop":
            dr.while_loop((UInt32(0, 0, 0, 0, 0), UInt32(1, 1, 3, 1, 2)), lambda i, n: i < n,
                          lambda i, n: (run(), (i + 1, n))[1], mode=outer, compress=True)
        else:
            index = LANE % 2 if around == "call" else dr.select(LANE == 2, UInt32(0), UInt32(1))
            dr.switch(index, [lambda x: (run(), x)[1], lambda x: x], Float(LANE), mode=outer)
        found.append(list(bins))
    assert all(each == found[0] for each in found), found
    assert sum(found[0]) > 0


@pytest.mark.parametrize("first", ["argument", "array"])
def test_an_argument_that_a_function_changes_and_of_which_it_uses_all_elements_elsewhere(first: str) -> None:
    """An evaluated call gives it some of the elements: which of both it means in one place is refused."""
    def run(mode: str) -> Any:
        box = {"x": Float(9, 9, 9, 9)}
        wide = Float(1, 1, 1, 1)

        def changed(x: Float) -> Float:
            if first == "argument":
                x += 1
            shown = box["x"]
            shown += wide
            if first == "array":
                x += 1
            return x * 1

        return dr.switch(UInt32(0, 1, 0, 1), [changed, lambda x: x * 1], box["x"], mode=mode), box["x"]

    assert list(map(list, run("symbolic"))) == [[11, 9, 11, 9]] * 2
    with pytest.raises(RuntimeError, match=r"(changes the argument 'args\[0\]' in place|gives 'targets\[0\]' only)"):
        run("evaluated")
    with pytest.raises(KeyError, match="outside"):  # what is handled around the call is another matter
        try:
            raise KeyError("outside")
        except KeyError:
            with pytest.raises(RuntimeError, match=r"args\[0\]|targets\[0\]"):
                run("evaluated")
            raise


@pytest.mark.parametrize("modes", [*itertools.product(["symbolic", "evaluated"], repeat=3)], ids="-".join)
def test_derivatives_of_branches_that_need_what_others_compute(modes: tuple[str, str, str]) -> None:
    """Two derivatives, each of which could compute what the other one begins with, do not wait for each other."""
    lane, x = UInt32(0, 1, 2, 3), Float64(1, 3, 5, 7)
    dr.enable_grad(x)
    values = {"sum": Float64(3), "last": Float64(3)}
    doubled = x * 1

    def taken() -> None:
        values["last"] = doubled + 2
        values["sum"] += 1

    def body(i: Any) -> Any:
        dr.if_stmt((), lane != 0, taken, lambda: None, mode=modes[1])
        return (i + 1,)

    dr.while_loop((lane * 0,), lambda i: i < 3 - lane, body, mode=modes[0])
    product = doubled * values["sum"]
    dr.while_loop((lane & 1, values["sum"]), lambda i, _: i < 3 - lane,
                  lambda i, value: (i + 1, changed(value, lane)), mode=modes[2])
    dr.backward(product * 2 + values["last"] * 3)
    assert list(product) == [3, 15, 20, 21]
    assert list(values["sum"]) == [3, 5, 7, 3]
    assert list(dr.grad(x)) == [6, 13, 11, 6]


def changed(value: Any, lane: Any) -> Any:
    """Change an array where a mask says."""
    value[lane > 1] = value + 3
    return value

