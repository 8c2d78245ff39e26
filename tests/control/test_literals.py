"""Masks and indices whose value is known while tracing: what they choose is run directly, with the same results."""

from __future__ import annotations

from typing import Any

import pytest

import drjit as dr
from drjit.llvm.ad import Bool, Float, Int, UInt

MODES = ["symbolic", "evaluated"]
TYPES = {"literal": dr.full, "opaque": dr.opaque}


def choose(kind: str, construct: str, taken: bool, width: int, mode: str, function: Any, *args: Any) -> Any:
    """What a branch or a call returns of which all elements take the same side."""
    make = TYPES[kind]
    if construct == "branch":
        functions = (function, lambda *args: Float(0)) if taken else (lambda *args: Float(0), function)
        return dr.if_stmt(args, make(Bool, taken, width), *functions, mode=mode)
    targets = [lambda *args: Float(0), function] if taken else [function, lambda *args: Float(0)]
    return dr.switch(make(UInt, int(taken), width), targets, *args, mode=mode)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize("taken", [True, False])
@pytest.mark.parametrize("construct", ["branch", "call"])
@pytest.mark.parametrize("kind", TYPES)
def test_writes_and_widths(kind: str, construct: str, taken: bool, width: int, mode: str) -> None:
    argument, outside = dr.zeros(Float, 3), dr.zeros(Float, 3)

    def function(argument: Any) -> Any:
        dr.scatter_add(argument, Float(1), UInt(0))
        dr.scatter_add(outside, Float(2), UInt(2))
        dr.scatter(argument, Float(7), UInt(1))
        return Float(5)

    found = choose(kind, construct, taken, width, mode, function, argument)
    assert list(found) == [5] * width
    assert list(argument) == [width, 7, 0] and list(outside) == [0, 0, 2 * width]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize("construct", ["branch", "call"])
@pytest.mark.parametrize("kind", TYPES)
def test_derivatives(kind: str, construct: str, width: int, mode: str) -> None:
    for count in {1, width}:  # elements of another argument
        for forward in (False, True):
            x, other = Float(1.5), dr.arange(Float, count)
            dr.enable_grad(x)
            found = choose(kind, construct, True, width, mode, lambda other, x: x * x + other * x, other, x)
            assert len(found) == width
            if forward:
                dr.set_grad(x, 1)
                dr.forward_to(found)
                assert list(found.grad) == [3 + other[k % count] for k in range(width)]
            else:
                dr.backward(dr.sum(found))
                assert x.grad == sum(3 + other[k % count] for k in range(width))


@pytest.mark.parametrize("mode", MODES)
def test_within_loops(mode: str) -> None:
    table, steps = dr.zeros(Float, 4), Int(1, 0, 3)

    def body(left: Any, total: Any) -> Any:
        def function(total: Any) -> Any:
            dr.scatter_add(table, Float(1), UInt(1))
            return total + 2

        total = dr.if_stmt((total,), dr.full(Bool, True, 3), function, lambda total: total, mode=mode)
        return left - 1, dr.switch(dr.full(UInt, 1, 3), [lambda total: total, function], total, mode=mode)

    for loop_mode in MODES if mode == "symbolic" else ["evaluated"]:
        table = dr.zeros(Float, 4)
        _, total = dr.while_loop((steps, dr.zeros(Float, 3)), lambda left, total: left > 0, body, mode=loop_mode)
        assert list(total) == [4, 0, 12] and list(table) == [0, 8, 0, 0]


def test_evaluated_branches_are_part_of_symbolic_loops() -> None:
    """They evaluate nothing; what takes place once in them does so if a lane takes part."""
    found = []
    for mode in MODES:
        table = dr.zeros(Float, 4)

        def body(left: Any, total: Any, mode: str = mode, table: Any = table) -> Any:
            def function(total: Any) -> Any:
                dr.scatter_add(table, Float(1), UInt(1))
                return total + 2

            return left - 1, dr.if_stmt((total,), left > 1, function, lambda total: total - 1, mode=mode)

        _, total = dr.while_loop((Int(1, 0, 3), dr.zeros(Float, 3)), lambda left, total: left > 0, body)
        found.append((list(total), list(table)))
    assert found == [([-1, 0, 3], [0, 2, 0, 0])] * 2


@pytest.mark.parametrize("optimized", [True, False])
def test_a_variable_that_a_loop_gives_the_literal_that_it_has_stays_one(optimized: bool) -> None:
    def body(i: Any, scale: Any, active: Any, other: Any) -> Any:
        return i + 1, Float(2), Bool(True), other * scale + 1

    with dr.scoped_set_flag(dr.JitFlag.OptimizeLoops, optimized):
        i, scale, active, other = dr.while_loop(
            (UInt(0, 1), Float(2), Bool(True), Float(1)), lambda i, *_: i < 3, body, mode="symbolic")
    assert (scale.state is dr.VarState.Literal) == (active.state is dr.VarState.Literal) == optimized
    assert list(i) == [3, 3] and list(other) == [15, 7] and set(scale) == {2} and set(active) == {True}


def test_a_variable_that_a_loop_gives_another_literal_changes() -> None:
    i, scale = dr.while_loop((UInt(0, 3), Float(1)), lambda i, _: i < 3, lambda i, _: (i + 1, Float(2)),
                             mode="symbolic")
    assert list(i) == [3, 3] and list(scale) == [2, 1]


@pytest.mark.parametrize("size", [1, 2])
def test_a_variable_that_a_loop_gives_its_literal_by_index(size: int) -> None:
    def body(i: Any, flags: Any, total: Any) -> Any:
        flags[0] = True
        return i + 1, flags, total + dr.select(dr.gather(Bool, flags, UInt(0)), 2, 1)

    i, flags, total = dr.while_loop((UInt(0, 1), dr.full(Bool, True, size), UInt(0)), lambda i, *_: i < 3, body,
                                    mode="symbolic")
    assert list(i) == [3, 3] and set(flags) == {True} and list(total) == [6, 4]
