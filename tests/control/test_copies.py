"""Copies of arrays that a construct changes, and arrays that hold the same values when it begins."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import drjit as dr
from drjit.llvm import Array3f, Bool, Float, Int, UInt

MASK = Bool(True, False, True)
PLACES = UInt(2, 1, 0)
EACH = UInt(0, 1, 2)


def loop(body: Callable[..., Any], mode: str) -> Any:
    """Three, two and one iterations."""
    _, y = dr.while_loop((Int(0, 1, 2), Float(0, 0, 0)), lambda i, _: i < 3, lambda i, y: (i + 1, body(y)), mode=mode)
    return y


def branch(function: Callable[..., Any], mode: str) -> Any:
    return dr.if_stmt((Float(0, 0, 0),), MASK, function, lambda y: y, mode=mode)


def array() -> Float:
    found = Float(1, 2, 3)
    dr.eval(found)
    return found


def _other_is_read(construct: Any, mode: str) -> Any:
    a = array()
    b = Float(a)

    def function(y: Any) -> Any:
        nonlocal a
        a += 1
        return y + b

    return construct(function, mode), a, b


def _other_is_returned(construct: Any, mode: str) -> Any:
    a = array()
    b = Float(a)

    def function(y: Any) -> Any:
        nonlocal a
        a += 1
        return b

    return construct(function, mode), a, b


def _both_change(construct: Any, mode: str) -> Any:
    a = array()
    b = Float(a)

    def function(y: Any) -> Any:
        nonlocal a, b
        a += 1
        b *= 2
        return y + a

    return construct(function, mode), a, b


def _both_are_written(construct: Any, mode: str) -> Any:
    a = array()
    b = Float(a)

    def function(y: Any) -> Any:
        dr.scatter(a, y + 7, PLACES)
        dr.scatter_add(b, Float(1, 1, 1), UInt(0, 0, 1))
        return y + 1

    return construct(function, mode), a, b


def _components(construct: Any, mode: str) -> Any:
    a = Array3f(array())

    def function(y: Any) -> Any:
        a.x += 1
        a.y *= 2
        return y + a.z

    return construct(function, mode), a


@pytest.mark.parametrize("program", [_other_is_read, _other_is_returned, _both_change, _both_are_written, _components],
                         ids=lambda program: program.__name__[1:])
@pytest.mark.parametrize("construct", [loop, branch])
def test_arrays_that_hold_the_same_values(program: Any, construct: Any) -> None:
    found, expected = [str(program(construct, mode)) for mode in ("symbolic", "evaluated")]
    assert found == expected


def _value(a: Any, y: Any) -> Any:
    before = a * 2
    dr.scatter(a, Float(7, 8, 9), PLACES)
    return before + dr.gather(Float, a, EACH)


def _copy(a: Any, y: Any) -> Any:
    before = dr.copy(a)
    dr.scatter(a, Float(7, 8, 9), PLACES)
    return before


def _read(a: Any, y: Any) -> Any:
    before = Float(a)
    dr.scatter(a, Float(7, 8, 9), PLACES)
    return dr.gather(Float, before, EACH)


def _update(a: Any, y: Any) -> Any:
    before = Float(a)
    dr.scatter_add(a, before, PLACES)
    return before - dr.gather(Float, a, EACH)


@pytest.mark.parametrize("function", [_value, _copy, _read, _update], ids=lambda function: function.__name__[1:])
@pytest.mark.parametrize("constant", [False, True])
def test_branches_and_calls_read_what_was_there_before_their_writes(function: Any, constant: bool) -> None:
    found = []
    for mode in ("call", "symbolic", "evaluated"):
        a = dr.full(Float, 2, 3) if constant else array()
        calls = []

        def side(y: Any, a: Any = a, calls: Any = calls) -> Any:
            calls.append(1)
            return function(a, y)

        result = branch(side, mode) if mode != "call" else \
            dr.switch(dr.select(MASK, UInt(0), UInt(1)), [side, lambda y: y], Float(0, 0, 0), mode="symbolic")
        assert len(calls) == 1
        found.append(str((result, a)))
    assert found[0] == found[1] == found[2]


def test_loops_keep_no_copies_of_what_they_write_to() -> None:
    a = array()

    def body(y: Any) -> Any:
        before = dr.copy(a)
        dr.scatter(a, Float(7, 8, 9), PLACES)
        return before

    with pytest.raises(RuntimeError, match=r"writes to the array .a. by index, and computes with all"):
        loop(body, "symbolic")
    assert dr.all(a == Float(1, 2, 3))
