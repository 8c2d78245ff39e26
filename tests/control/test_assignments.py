"""Variables from outside that functions of symbolic constructs assign: once, however often a function is traced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import drjit as dr
from drjit.llvm import Bool, Float, UInt, ad
from drjit_core import SymbolicValue


def plain(array: Any) -> Any:
    return np.asarray(array).tolist()


class Scene:
    """An object whose attribute functions assign."""

    def __init__(self) -> None:
        self.x = Float(1, 2, 3)


def in_construct(construct: str, function: Callable[[Any], Any]) -> Any:
    """A symbolic construct whose function is called with a variable, in the first and the last element."""
    x, taken = Float(0, 0, 0), Bool(True, False, True)
    if construct == "loop":
        return dr.while_loop((x,), lambda x: taken & (x < 1), function, mode="symbolic")[0]
    if construct == "branch":
        return dr.if_stmt((x,), taken, function, lambda x: x, mode="symbolic")
    return dr.switch(dr.select(taken, UInt(0), 1), [function, lambda x: x], x, mode="symbolic")


@pytest.mark.parametrize("construct", ["branch", "call"])
def test_functions_that_are_traced_again_assign_once(construct: str) -> None:
    """A write by index to an array from outside is found in one trace, and part of the next."""
    scene, entries, table = Scene(), [Float(1, 2, 3)], dr.zeros(Float, 3)
    nonlocal_ = Float(1, 2, 3)

    def function(x: Any) -> Any:
        nonlocal nonlocal_
        scene.x = scene.x + 1
        entries[0] = entries[0] * 2
        nonlocal_ = nonlocal_ + 10
        dr.scatter_add(table, scene.x + entries[0] + nonlocal_, dr.arange(UInt, 3))
        return x + 1

    assert plain(in_construct(construct, function)) == [1, 0, 1]
    assert plain(table) == [15, 0, 23]
    assert (plain(scene.x), plain(entries[0]), plain(nonlocal_)) == ([2, 3, 4], [2, 4, 6], [11, 12, 13])


@pytest.mark.parametrize("construct", ["loop", "branch", "call"])
def test_what_a_function_has_assigned_to_before_is_there_in_each_trace(construct: str) -> None:
    scene, table = Scene(), dr.zeros(Float, 3)

    def function(x: Any) -> Any:
        scene.x = scene.x + x + 5
        dr.scatter_add(table, scene.x, dr.arange(UInt, 3))
        return x + 1

    assert plain(in_construct(construct, function)) == [1, 0, 1]
    assert plain(table) == [6, 0, 8]
    with pytest.raises(SymbolicValue, match=f"value of the symbolic {construct}"):
        dr.eval(scene.x)


@pytest.mark.parametrize("construct", ["loop", "branch", "call"])
def test_variables_are_as_before_when_a_function_raises(construct: str) -> None:
    scene, entries, nonlocal_ = Scene(), [Float(1, 2, 3)], Float(1, 2, 3)

    def function(x: Any) -> Any:
        nonlocal nonlocal_
        scene.x = scene.x + x
        entries[0] = x
        nonlocal_ = x * 2
        raise KeyError("stop")

    with pytest.raises(KeyError, match="stop"):
        in_construct(construct, function)
    for array in (scene.x, entries[0], nonlocal_):
        assert plain(array) == [1, 2, 3]


@pytest.mark.parametrize("construct", ["branch", "call"])
@pytest.mark.parametrize("reverse", [False, True])
def test_derivatives_of_functions_assign_nothing(construct: str, reverse: bool) -> None:
    count, x = [dr.zeros(ad.Float, 3)], ad.Float(1, 2, 3)
    dr.enable_grad(x)

    def function(x: Any) -> Any:
        count[0] = count[0] + 1
        return x * x

    if construct == "branch":
        y = dr.if_stmt((x,), x > 1, function, lambda x: x, mode="symbolic")
    else:
        y = dr.switch(dr.select(x > 1, ad.UInt(0), 1), [function, lambda x: x], x, mode="symbolic")
    if reverse:
        dr.backward(y)
        assert plain(x.grad) == [1, 4, 6]
    else:
        x.grad = 1
        assert plain(dr.forward_to(y)) == [1, 4, 6]
    assert plain(count[0]) == [1, 1, 1]
