"""Changes made in place by loops and branches reach the caller, as in programs written for release 1.5.0 of Dr.Jit."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest

import drjit as dr
from drjit import llvm as l

modes = pytest.mark.parametrize("mode", ["symbolic", "evaluated"])


@modes
def test_generators_do_not_repeat_their_numbers(mode: str) -> None:
    @dr.syntax
    def draw(g: Any, n: Any, new: Any) -> Any:
        i, r = l.UInt(0), l.Float(0)
        while dr.hint(i < n, mode=mode):
            r += new(g)
            i += 1
        return r

    g = l.PCG32(2)
    found = [draw(g, l.UInt(2, 2), lambda g: g.next_float32()).numpy() for _ in range(2)]
    assert np.allclose(found, [[1.01534, 0.859682], [1.28193, 1.44937]], atol=1e-5)
    h = dr.rng(seed=l.UInt(0))
    found = [draw(h, l.UInt(2, 2), lambda g: g.uniform(l.Float, 2)).numpy() for _ in range(2)]
    assert not np.array_equal(found[0], found[1])


class Point:
    DRJIT_STRUCT: ClassVar = {"v": l.UInt}

    def __init__(self, v: Any = None) -> None:
        self.v = v


def assign(p: Any) -> None:
    p.v = p.v + 1


def add(p: Any) -> None:
    p.v += 1


@modes
@pytest.mark.parametrize("change", [assign, add])
@pytest.mark.parametrize("otherwise", [True, False])
def test_objects_that_are_not_read_afterwards(otherwise: bool, change: Any, mode: str) -> None:
    @dr.syntax
    def run(p: Any, c: Any) -> None:
        if dr.hint(c, mode=mode):
            change(p)
        else:
            if otherwise:
                p.v = p.v

    p = Point(l.UInt(1, 2))
    run(p, l.Bool(True, False))
    assert list(p.v) == [2, 2]


@modes
def test_lists_and_dictionaries(mode: str) -> None:
    @dr.syntax
    def run(q: Any, d: Any, a: Any, c: Any) -> None:
        if dr.hint(c, mode=mode):
            q[0] += 1
            d["a"] += 1
            a.x += 1

    q, d, a = [l.UInt(1, 2)], {"a": l.UInt(3, 4)}, l.Array2u([5, 6], 7)
    run(q, d, a, l.Bool(True, False))
    assert (list(q[0]), list(d["a"]), list(a.x)) == ([2, 2], [4, 4], [6, 6])


@modes
def test_arrays_are_the_callers(mode: str) -> None:
    @dr.syntax
    def grow(x: Any) -> None:
        if dr.hint(x > 4, mode=mode):
            x += 10

    x = l.UInt(1, 5, 9)
    grow(x)
    assert list(x) == [1, 15, 19]

    def body(x: Any) -> Any:
        x *= 2
        return (x,)

    x = l.Float(3)
    y, = dr.while_loop((x,), lambda x: x < 20, body, mode=mode)
    assert y is x and list(x) == [24]


def test_what_is_not_changed_is_the_same_object() -> None:
    x, z = l.Float(1, 2), l.Float(3)
    _, zo = dr.while_loop((x, z), lambda x, z: x < 5, lambda x, z: (x + 1, z), mode="symbolic")
    assert zo is z
