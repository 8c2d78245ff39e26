"""How often loops that count to a number repeat is known before they run."""

from __future__ import annotations

from typing import Any

import pytest

from drjit_core import Node, ops
from drjit_core.control.loop import while_loop
from drjit_core.ir.build import literal
from drjit_core.passes.trips import trips_of
from drjit_core.types import BOOL, FLOAT32, INT8, INT32, UINT8, UINT32
from tests.core.harness import array


def number(value: Any, type_: int = UINT32) -> Node:
    return literal(type_, value)


def trips(condition: Any, step: Any, first: Node) -> int:
    """Of a loop with a counter and a value that nobody knows."""
    other = array([0.5, 1.5], FLOAT32)
    found = while_loop([first, other], lambda s: condition(s[0], s[1]), lambda s: [step(s[0]), ops.mul(s[1], s[1])])
    loop = found[1].d0
    assert loop is not None
    return trips_of(loop.payload)


def up(by: int = 1, type_: int = UINT32) -> Any:
    return lambda k: ops.add(k, number(by, type_))


def below(limit: Any, type_: int = UINT32) -> Any:
    return lambda k, x: ops.lt(k, number(limit, type_))


def unknown(type_: int = UINT32) -> Node:
    """An evaluated array, made where the test runs."""
    return array([-3 if type_ == INT32 else 3, 7], type_)


ZERO = number(0)

LOOPS = {
    "to a number": (below(16), up(), ZERO, 16),
    "rounded up": (below(17), up(), ZERO, 32),
    "from another one": (below(20), up(), number(4), 16),
    "by more than one": (below(31), up(2), ZERO, 16),
    "to a number inclusively": (lambda k, x: ops.le(k, number(15)), up(), ZERO, 16),
    "the other way round": (lambda k, x: ops.gt(number(16), k), up(), ZERO, 16),
    "inclusively, the other way round": (lambda k, x: ops.ge(number(15), k), up(), ZERO, 16),
    "and something else": (lambda k, x: ops.and_(ops.lt(x, number(1, FLOAT32)), ops.lt(k, number(16))), up(), ZERO, 16),
    "from somewhere": (below(16), up(), unknown, 16),
    "signed": (below(16, INT32), up(1, INT32), number(0, INT32), 16),
    "signed, from somewhere": (below(16, INT32), up(1, INT32), lambda: unknown(INT32), 0),
    "signed, from below zero": (below(16, INT32), up(1, INT32), number(-5, INT32), 0),
    "backwards": (below(16, INT32), up(-1, INT32), number(0, INT32), 0),
    "or something else": (lambda k, x: ops.or_(ops.lt(x, number(1, FLOAT32)), ops.lt(k, number(16))), up(), ZERO, 0),
    "something else": (lambda k, x: ops.lt(x, number(1, FLOAT32)), up(), ZERO, 0),
    "unequal": (lambda k, x: ops.neq(k, number(16)), up(), ZERO, 0),
    "by no step": (below(16), lambda k: ops.mul(k, number(3)), number(1), 0),
    "by its own value": (below(16), lambda k: ops.add(k, k), number(1), 0),
    "to what may wrap around": (below(250, UINT8), up(7, UINT8), number(0, UINT8), 0),
    "to the largest number": (lambda k, x: ops.le(k, number(255, UINT8)), up(1, UINT8), number(0, UINT8), 0),
    "signed, to the largest number": (lambda k, x: ops.le(k, number(127, INT8)), up(1, INT8), number(0, INT8), 0),
    "almost to the largest number": (lambda k, x: ops.le(k, number(126, INT8)), up(1, INT8), number(0, INT8), 128),
    "in floating point": (below(16, FLOAT32), up(1, FLOAT32), number(0, FLOAT32), 0),
    "to what is not known": (lambda k, x: ops.lt(k, unknown()), up(), ZERO, 0),
}


@pytest.mark.parametrize("name", LOOPS)
def test_loops_that_count(name: str) -> None:
    condition, step, first, expected = LOOPS[name]
    assert trips(condition, step, first() if callable(first) else first) == expected


def test_what_its_maker_says_counts() -> None:
    found = while_loop([array([0.5], FLOAT32)], lambda s: literal(BOOL, True), lambda s: [ops.mul(s[0], s[0])], trips=5)
    assert found[0].d0 is not None
    assert trips_of(found[0].d0.payload) == 5
