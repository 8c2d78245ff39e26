"""Control flow: what programs written for release 1.5.0 of Dr.Jit find in it."""

from __future__ import annotations

from typing import Any

import pytest

import drjit as dr
from drjit import llvm as l

modes = pytest.mark.parametrize("mode", ["symbolic", "evaluated"])


@modes
@pytest.mark.parametrize("construct", ["while_loop", "if_stmt", "switch"])
def test_exceptions_of_bodies_are_both_classes(construct: str, mode: str) -> None:
    def fail(*args: Any) -> Any:
        raise KeyError("x")

    with pytest.raises(KeyError) as found:
        if construct == "while_loop":
            dr.while_loop((l.UInt(0, 1),), lambda i: i < 5, fail, mode=mode)
        elif construct == "if_stmt":
            dr.if_stmt((l.UInt(0, 1),), l.Bool(True, False), fail, lambda x: x, mode=mode)
        else:
            dr.switch(l.UInt(0, 1), [fail, fail], l.UInt(0, 1), mode=mode)
    assert isinstance(found.value, RuntimeError) and isinstance(found.value.__cause__, KeyError)


def test_modes_that_flags_choose_within_symbolic_loops() -> None:
    def body(i: Any) -> Any:
        with dr.scoped_set_flag(dr.JitFlag.SymbolicLoops, False):
            j, = dr.while_loop((l.UInt(0),), lambda j: j < 2, lambda j: (j + 1,))
        return (i + j,)

    with pytest.warns(RuntimeWarning, match="symbolic"):
        found, = dr.while_loop((l.UInt(0, 0),), lambda i: i < 5, body)
    assert list(found) == [6, 6]


@modes
def test_tensors_of_no_axes_meet_others(mode: str) -> None:
    @dr.syntax
    def run() -> Any:
        i, z = dr.arange(l.TensorXu, 4), l.TensorXu(0)
        if dr.hint(i < 2, mode=mode):
            z = i * 3 + 1
        return z

    z = run()
    assert z.shape == (4,) and list(z.array) == [1, 4, 0, 0]


def test_one_function_that_is_not_called() -> None:
    called = []
    assert dr.switch(0, [lambda x: called.append(x)], l.Float(1), active=False) is None
    assert not called
    assert list(dr.switch(0, [lambda x: x * 2], l.Float(1), active=True)) == [2]


def test_the_mask_that_functions_get() -> None:
    seen = []

    def f(x: Any, active: Any) -> Any:
        seen.append((active.state, active[0]))
        return x

    dr.switch(l.UInt(0, 1), [f, f], l.Float(1, 2), active=l.Bool(True, False), mode="symbolic")
    assert set(seen) == {(dr.VarState.Literal, True)}


def test_literals_that_do_not_change_stay() -> None:
    found = dr.switch(l.UInt(0, 1), [lambda: l.Float(3), lambda: l.Float(3)])
    assert found.state == dr.VarState.Literal
    _, x = dr.while_loop((l.UInt(0), l.Float(3)), lambda i, x: i < 5, lambda i, x: (i + 1, l.Float(3)))
    assert x.state == dr.VarState.Literal


def test_syntax_above_wrap_is_an_error_that_tells_the_order() -> None:
    with pytest.raises(RuntimeError, match=r"wrap"):
        @dr.syntax
        @dr.wrap(source="drjit", target="torch")
        def f(x: Any) -> Any:
            return x


def test_hints_name_variables_of_outer_functions() -> None:
    @dr.syntax(recursive=True)
    def outer() -> Any:
        buffer = l.UInt(0, 0)

        def inner(n: Any) -> None:
            nonlocal buffer
            i = l.UInt(0)
            while dr.hint(i < n, include=[buffer]):
                buffer += 1
                i += 1

        inner(l.UInt(2, 3))
        return buffer

    assert list(outer()) == [2, 3]
