"""Branches and calls whose functions write to arrays from outside."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import drjit as dr
from drjit.llvm import Array3f, Float, Int, TensorXf, UInt


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
def test_each_function_of_a_call_writes_to_an_array_of_its_own(mode: str) -> None:
    targets = [dr.zeros(Float, 6) for _ in range(3)]
    x = dr.arange(UInt, 6)
    found = dr.switch(x % 3, [lambda x, k=k: (dr.scatter(targets[k], Float(k + 1), x), x * k)[1] for k in range(3)], x,
                      mode=mode)
    assert list(found) == [0, 1, 4, 0, 4, 10]
    assert [list(target) for target in targets] == [[1, 0, 0, 1, 0, 0], [0, 2, 0, 0, 2, 0], [0, 0, 3, 0, 0, 3]]


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
def test_each_side_of_a_branch_writes_to_an_array_of_its_own(mode: str) -> None:
    small, large = dr.zeros(UInt, 4), dr.zeros(UInt, 4)
    x = dr.arange(UInt, 4)
    dr.if_stmt((x,), x < 2, lambda x: dr.scatter(small, x + 1, x), lambda x: dr.scatter(large, x + 1, x), mode=mode)
    assert (list(small), list(large)) == ([1, 2, 0, 0], [0, 0, 3, 4])


def _branch(left: Int, function: Callable[[Int], Int], mode: str) -> Int:
    return dr.if_stmt((left,), left > 0, lambda left: (function(left),), lambda left: (left,), mode=mode)[0]


def _call(left: Int, function: Callable[[Int], Int], mode: str) -> Int:
    return dr.switch(dr.select(left > 0, UInt(0), UInt(1)), [function, lambda left: left], left, mode=mode)


#: Constructs whose functions run for the elements whose state is positive.
CONSTRUCTS: dict[str, Callable[[Int, Callable[[Int], Int], str], Int]] = {
    "branch": _branch, "call": _call,
    "loop": lambda left, function, mode: dr.while_loop((left,), lambda left: left > 0,
                                                       lambda left: (function(left) * 0,), mode=mode)[0],
    "branch in branch": lambda left, function, mode: _branch(left, lambda left: _branch(left, function, mode), mode),
    "call in branch": lambda left, function, mode: _branch(left, lambda left: _call(left, function, mode), mode),
    "branch in loop": lambda left, function, mode: dr.while_loop(
        (left,), lambda left: left > 0, lambda left: (_branch(left, function, mode) * 0,), mode=mode)[0],
    "loop in branch": lambda left, function, mode: _branch(left, lambda left: dr.while_loop(
        (left,), lambda left: left > 0, lambda left: (function(left) * 0,), mode=mode)[0], mode),
}


def _set_item(x: Float) -> None:
    x[3] = 5
    x[0] = 7


def _set_component(v: Array3f) -> None:
    v.y[3] = 5


def _set_entry(t: TensorXf) -> None:
    t[1, 1] = 5


def _read_after_write(x: Float) -> None:
    x[3] = 5
    dr.scatter(x, dr.gather(Float, x, UInt(3)) + 1, UInt(0))
    dr.scatter(x, dr.gather(Float, x, UInt(0)) + dr.gather(Float, x, UInt(3)), UInt(1))


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
@pytest.mark.parametrize("construct", CONSTRUCTS)
@pytest.mark.parametrize(("make", "write", "expected"), [
    (lambda: Float(3, 1, 4, 2), _set_item, [7, 1, 4, 5]),
    (lambda: Array3f([3, 1, 4, 2], [3, 1, 4, 2], 0), _set_component, [[3, 1, 4, 2], [3, 1, 4, 5], [0] * 4]),
    (lambda: TensorXf([3, 1, 4, 2], (2, 2)), _set_entry, [[3, 1], [4, 5]]),
    (lambda: Float(3, 1, 4, 2), _read_after_write, [6, 11, 4, 5]),
], ids=["item", "component", "entry", "read after write"])
def test_single_elements_of_arrays_from_outside(make: Callable[[], Any], write: Callable[[Any], None],
                                                expected: list[Any], construct: str, mode: str) -> None:
    """The array is as wide as the construct: its elements are not those of the lanes."""
    array = make()
    dr.eval(array)

    def function(left: Int) -> Int:
        write(array)
        return left

    found = CONSTRUCTS[construct](Int(2, 0, 3, 1), function, mode)
    dr.eval(found, array)
    assert array.numpy().tolist() == expected


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
def test_a_state_variable_that_is_read_by_index_may_pass_through_a_branch(mode: str) -> None:
    def body(step: Int, table: Float, found: Float) -> Any:
        return step - 1, *dr.if_stmt((table, found), step > 1, lambda table, found: (
            table, found + dr.gather(Float, table, UInt(3, 2, 1, 0))), lambda table, found: (table, found), mode=mode)

    _, table, found = dr.while_loop((Int(2, 0, 3, 1), Float(3, 1, 4, 2), dr.zeros(Float, 4)),
                                    lambda step, table, found: step > 0, body, mode=mode)
    assert (list(table), list(found)) == ([3, 1, 4, 2], [2, 0, 2, 0])
