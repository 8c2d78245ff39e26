"""Constructs within constructs: what is traced, and how often functions are called, grows with the depth, not faster.

Whatever turns out about a construct within another one is left to the one trace that the outermost makes again.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

import drjit as dr
from drjit.llvm import Float, Int, UInt
from drjit.llvm.ad import Float as FloatAD

DEPTHS = 2, 4, 6
WIDTH = 8

#: What the body of a construct does with its value, what is in the box, and the construct within.
Level = Callable[[Any, SimpleNamespace, Callable[[Any], Any]], Any]


def loop(body: Callable[..., tuple[Any, ...]], *state: Any) -> Any:
    return dr.while_loop((Int(0), *state), lambda i, *rest: i < 3, lambda i, *rest: (i + 1, *body(*rest)),
                         mode="symbolic")[1]


def same_loop(x: Any, box: SimpleNamespace, within: Callable[[Any], Any]) -> Any:
    return loop(lambda y: (within(y),), x)


def grows_wide(x: Any, box: SimpleNamespace, within: Callable[[Any], Any]) -> Any:
    return loop(lambda y: (y + within(x),), type(x)(0))


def leaves_alone(x: Any, box: SimpleNamespace, within: Callable[[Any], Any]) -> Any:
    return loop(lambda y, c: (within(y + c), c), x, x * 2)


def reads(x: Any, box: SimpleNamespace, within: Callable[[Any], Any]) -> Any:
    return loop(lambda y, memory: (within(y) + dr.gather(type(x), memory, UInt(dr.detach(y)) % WIDTH), memory),
                x, box.memory)


def constant(x: Any, box: SimpleNamespace, within: Callable[[Any], Any]) -> Any:
    known = type(x)(0)
    return loop(lambda y: (within(y + known),), x)


def branches(x: Any, box: SimpleNamespace, within: Callable[[Any], Any]) -> Any:
    return dr.if_stmt((x, x), x > 2, lambda a, b: within(a + b), lambda a, b: a - b, mode="symbolic")


def calls(x: Any, box: SimpleNamespace, within: Callable[[Any], Any]) -> Any:
    return dr.switch(UInt(dr.detach(x)) % 2, [
        lambda a, m: within(a) + dr.gather(type(x), m, UInt(dr.detach(a)) % WIDTH), lambda a, m: a - 1], x, box.memory)


def all_kinds(x: Any, box: SimpleNamespace, within: Callable[[Any], Any]) -> Any:
    return grows_wide(x, box, lambda y: branches(y, box, lambda z: calls(z, box, within)))


LEVELS = same_loop, grows_wide, leaves_alone, reads, constant, branches, calls, all_kinds


def traced(level: Level, depth: int, type_: Any, innermost: Callable[[Any, SimpleNamespace], Any]) -> tuple[int, int]:
    """How many nodes such constructs make within each other, and how often the innermost function is called."""
    x = dr.arange(type_, WIDTH) + 0.5
    if type_ is FloatAD:
        dr.enable_grad(x)
    box = SimpleNamespace(memory=dr.full(type_, 1, WIDTH), total=type_(x) * 2)
    dr.eval(x, box.memory, box.total)
    calls = itertools.count()

    def within(left: int, y: Any) -> Any:
        if left:
            return level(y, box, lambda z: within(left - 1, z))
        next(calls)
        return innermost(y, box)

    before = (Float(dr.detach(x)) + 1).index
    within(depth, x)
    return (Float(dr.detach(x)) + 2).index - before, next(calls)


def scale(x: Any, box: SimpleNamespace) -> Any:
    return x * 1.5


def add_to_total(x: Any, box: SimpleNamespace) -> Any:
    box.total += x
    return x * 1.5


@pytest.mark.parametrize("type_", [Float, FloatAD], ids=["plain", "ad"])
@pytest.mark.parametrize("level", LEVELS, ids=lambda level: level.__name__)
def test_each_level_costs_the_same(level: Level, type_: Any) -> None:
    (two, once), (four, also), (six, again) = (traced(level, depth, type_, scale) for depth in DEPTHS)
    assert once == also == again == 1
    assert six - four <= (four - two) * 1.1 + 4


def test_functions_that_ask_how_wide_they_are() -> None:
    """A loop turns out to be wider, and is called again; those within are as wide as what is around them then."""
    def asks(x: Any, box: SimpleNamespace, within: Callable[[Any], Any]) -> Any:
        return loop(lambda y: (y + within(x) * dr.width(y),), Float(0))

    assert [traced(asks, depth, Float, scale)[1] for depth in DEPTHS] == [3, 5, 7]


def test_a_loop_that_is_narrower_than_what_is_around_it_knows_how_wide_it_is() -> None:
    x = dr.arange(Float, WIDTH)
    found = loop(lambda y: (y + loop(lambda z: (z + dr.width(z),), Float(0)),), x)
    assert dr.all(found == x + 9)


@pytest.mark.parametrize("type_", [Float, FloatAD], ids=["plain", "ad"])
@pytest.mark.parametrize("level", [same_loop, branches, calls], ids=lambda level: level.__name__)
def test_functions_that_change_what_they_know_are_called_once(level: Level, type_: Any) -> None:
    called = [traced(level, depth, type_, add_to_total)[1] for depth in DEPTHS]
    assert called == [1, 1, 1]


def test_an_array_that_bodies_find_under_two_names() -> None:
    """What is changed in place turns out to be an argument, too, so that the body is called again: once a level."""
    def writes(x: Any, box: SimpleNamespace, within: Callable[[Any], Any]) -> Any:
        def body(y: Any, memory: Any) -> tuple[Any, ...]:
            dr.scatter(memory, y, UInt(y) % WIDTH)
            return within(y), memory

        return loop(body, x, box.memory)

    def last(x: Any, box: SimpleNamespace) -> Any:
        return x + dr.gather(Float, box.memory, UInt(0))

    assert [traced(writes, depth, Float, last)[1] for depth in DEPTHS] == [3, 5, 7]


def test_values_of_nested_loops() -> None:
    x = dr.arange(Float, WIDTH)
    found = loop(lambda y: (y + loop(lambda z: (z + x,), Float(0)),), Float(0))
    assert dr.all(found == 9 * x)


def test_a_loop_within_whose_variables_are_left_alone_and_read() -> None:
    memory, x = dr.arange(Float, 16) * 10, dr.arange(Float, WIDTH)

    def inner(y: Any, m: Any, c: Any) -> tuple[Any, ...]:
        return y + dr.gather(Float, m, UInt(x)) * c, m, c

    found = loop(lambda y, m: (loop(inner, y, m, Float(2)), m), Float(0), memory)
    assert dr.all(found == 9 * 2 * 10 * x)


def test_writes_of_a_loop_within_that_one_element_makes() -> None:
    """Several values are written at once, in a loop of one element within another one."""
    target, x = dr.zeros(Float, WIDTH), dr.arange(Float, WIDTH)

    def inner(j: Any) -> tuple[Any, ...]:
        dr.scatter_reduce(dr.ReduceOp.Add, target, x, dr.arange(UInt, WIDTH))
        return (j + 1,)

    loop(lambda j: (loop(inner, j),), Int(0))
    assert dr.all(target == 9 * x)


def test_gradients_of_nested_loops() -> None:
    x = dr.arange(FloatAD, WIDTH) + 1
    dr.enable_grad(x)
    scale_ = FloatAD(2)
    found = loop(lambda y: (y + loop(lambda z: (z + x * scale_,), FloatAD(0)),), FloatAD(0))
    dr.backward(found)
    assert dr.all(dr.grad(x) == 18)
