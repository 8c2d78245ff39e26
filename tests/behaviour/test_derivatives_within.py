"""Derivatives within branches, loops and calls: what programs written for release 1.5.0 of Dr.Jit find."""

from __future__ import annotations

from typing import Any

import pytest

import drjit as dr
from drjit.llvm import ad as la

modes = pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
flags = pytest.mark.parametrize("flags", [dr.ADFlag.ClearVertices, dr.ADFlag.Default], ids=["kept", "default"])


def tracked(*values: float) -> Any:
    x = la.Float(*values)
    dr.enable_grad(x)
    return x


@modes
def test_gradients_count_once_when_a_function_traverses(mode: str) -> None:
    x = tracked(1, 1, 1, 1)

    def f(a: Any, i: Any) -> Any:
        d = dr.gather(la.Float, x, i)
        dr.backward_from(d * d)
        return d * a

    dr.switch(la.UInt(0, 0, 1, 1), [f, lambda a, i: a], la.Float(1, 2, 3, 4), la.UInt(0, 1, 2, 3), mode=mode)
    assert list(x.grad) == [2, 2, 0, 0]


@modes
@flags
def test_branches_traverse_their_elements_only(mode: str, flags: Any) -> None:
    x = tracked(1, 2, 3, 4)
    y = x * 2

    def scaled(by: int) -> Any:
        def run(y: Any) -> Any:
            dr.backward_from(y * by, flags)
            return y
        return run

    dr.if_stmt((y,), la.Bool(True, True, False, False), scaled(2), scaled(3), mode=mode)
    assert list(x.grad) == [4, 4, 6, 6]


def test_changes_reach_branches() -> None:
    x = tracked(1, 2, 3, 4)
    y = x * 2
    x.grad = 1
    dr.forward_from(x, dr.ADFlag.ClearEdges)
    found = dr.if_stmt((y,), la.Bool(True, True, False, False), lambda y: dr.forward_to(y * 2),
                       lambda y: dr.forward_to(y * 3), mode="symbolic")
    assert list(found) == [4, 4, 6, 6]


def test_evaluated_loops_traverse_in_each_iteration() -> None:
    x = tracked(1)
    y = x * 2
    dr.while_loop((la.UInt(0),), lambda i: i < 2, lambda i: (dr.backward(2 * y), (i + 1,))[1], mode="evaluated")
    assert list(x.grad) == [8]


@modes
@pytest.mark.parametrize("count", [3, 4])
def test_gathered_values_leave_branches(count: int, mode: str) -> None:
    @dr.syntax
    def g(i: Any, y: Any) -> None:
        z = la.Float(0)
        if dr.hint(i < 1, mode=mode):
            z = dr.gather(la.Float, y, i) * 5
            dr.backward_from(z)

    x = tracked(*range(1, count + 1))
    g(la.UInt(0, 1, 2), x * 2)
    assert list(x.grad) == [10, 0, 0, 0][:count]


@modes
def test_both_branches_write_to_one_array(mode: str) -> None:
    i, x, y = la.UInt(0, 1, 2), tracked(1, 2, 3), dr.zeros(la.Float, 4)

    def t(i: Any, x: Any, y: Any) -> Any:
        dr.scatter_add(y, 5 * x, i + 1)
        return y

    def f(i: Any, x: Any, y: Any) -> Any:
        dr.scatter_add(y, 7 * x, i)
        return y

    y = dr.if_stmt((i, x, y), i < 2, t, f, mode=mode)
    assert list(y) == [0, 5, 31, 0]
    dr.set_grad(y, la.Float(1, 2, 3, 4))
    dr.enqueue(dr.ADMode.Backward, y)
    dr.traverse(dr.ADMode.Backward)
    assert list(x.grad) == [10, 15, 21]


@pytest.mark.parametrize("construct", ["if_stmt", "while_loop"])
def test_what_is_left_alone_keeps_its_derivatives(construct: str) -> None:
    x, y = tracked(1, 2), tracked(3, 4)
    index = y.index_ad
    with dr.suspend_grad():
        if construct == "if_stmt":
            x, y = dr.if_stmt((x, y), la.Bool(True, False), lambda x, y: (x * y, y), lambda x, y: (x, y))
        else:
            x, y = dr.while_loop((x, y), lambda x, y: x < 5, lambda x, y: (x * y, y), max_iterations=9)
    assert dr.grad_enabled(y) and y.index_ad == index
