"""Generators of random numbers as state and arguments: what functions draw is drawn, once, by those that draw."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import drjit as dr
from drjit.llvm.ad import PCG32, Array3f, Bool, Float, Philox4x32, UInt32

MODES = "symbolic", "evaluated"
X = np.arange(8, dtype=np.float32)


def drawn(count: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """The numbers that eight streams draw one after the other, and their states before each and after the last."""
    rng, numbers = PCG32(8), list[np.ndarray]()
    states = [np.array(rng.state)]
    for _ in range(count):
        numbers.append(np.array(rng.next_float32()))
        states.append(np.array(rng.state))
    return numbers, states


def same(found: Any, expected: Any) -> None:
    np.testing.assert_array_equal(np.array(found), expected)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("returned", (False, True))
def test_branches_draw(mode: str, returned: bool) -> None:
    rng, x, (numbers, states) = PCG32(8), Float(X), drawn(1)
    before = rng.state
    result = dr.if_stmt((rng, x), x < 4, lambda r, x: (r.next_float32(), r if returned else x),
                        lambda r, x: (x, r if returned else x), mode=mode)
    same(result[0], np.where(X < 4, numbers[0], X))
    same(rng.state, np.where(X < 4, states[1], states[0]))
    same(before, states[0])
    assert not returned or result[1] is rng


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("copy", (PCG32, dr.detach))
def test_copies_that_are_made_within_are_apart(mode: str, copy: Any) -> None:
    rng, x, (_, states) = PCG32(8), Float(X), drawn(1)

    def draw(r: PCG32, x: Float) -> Any:
        copied, state = copy(r), r.state
        r.next_float32()
        return copied, state

    copied, state = dr.if_stmt((rng, x), x < 4, draw, lambda r, x: (copy(r), r.state), mode=mode)
    same(rng.state, np.where(X < 4, states[1], states[0]))
    rng.next_float32()
    same(copied.state, states[0])
    same(state, states[0])


@pytest.mark.parametrize("mode", MODES)
def test_loops_draw(mode: str) -> None:
    rng, (numbers, states) = PCG32(8), drawn(3)
    _, found, total = dr.while_loop((UInt32(0), rng, Float(0)), lambda k, r, t: k < 3,
                                    lambda k, r, t: (k + 1, r, t + r.next_float32()), mode=mode)
    assert found is rng
    same(total, numbers[0] + numbers[1] + numbers[2])
    same(rng.state, states[3])


@pytest.mark.parametrize("mode", MODES)
def test_a_generator_in_whose_place_another_one_is_returned_has_drawn_once(mode: str) -> None:
    rng, (_, states) = PCG32(8), drawn(3)

    def body(k: UInt32, r: PCG32) -> Any:
        r.next_float32()
        return k + 1, PCG32(r)

    _, found = dr.while_loop((UInt32(0), rng), lambda k, r: k < 3, body, mode=mode)
    same(found.state, states[3])
    same(rng.state, states[1])


def test_within_each_other_and_in_a_recording() -> None:
    @dr.syntax
    def total(rng: PCG32, x: Float) -> Float:
        k, s = UInt32(0), Float(0)
        while k < 4:
            if x < 4:
                s += rng.next_float32()
            elif x < 6:
                j = UInt32(0)
                while j < 2:
                    s += rng.next_float32()
                    j += 1
            k += 1
        return s

    numbers, states = drawn(8)
    counts = np.where(X < 4, 4, np.where(X < 6, 8, 0))
    sums = np.zeros(8, np.float32)
    for k, each in enumerate(numbers):
        sums = np.where(k < counts, sums + each, sums)
    for function in (total, dr.freeze(total)):
        rng = PCG32(8)
        same(function(rng, Float(X)), sums)
        same(rng.state, np.choose(counts, states))


def test_known_otherwise_given_twice_and_given_up() -> None:
    x, (numbers, states) = Float(X), drawn(2)
    rng = PCG32(8)
    same(dr.if_stmt((rng, x), x < 4, lambda r, x: rng.next_float32() + r.next_float32(), lambda r, x: x),
         np.where(X < 4, numbers[0] + numbers[1], X))
    same(rng.state, np.where(X < 4, states[2], states[0]))
    rng = PCG32(8)
    same(dr.if_stmt((rng, rng, x), x < 4, lambda a, b, x: a.next_float32() + b.next_float32(), lambda a, b, x: x),
         np.where(X < 4, numbers[0] + numbers[1], X))
    rng = PCG32(8)

    def fail(r: PCG32, x: Float) -> Float:
        r.next_float32()
        raise ValueError("given up")

    with pytest.raises(ValueError, match="given up"):
        dr.if_stmt((rng, x), x < 4, fail, lambda r, x: x)
    with pytest.raises(ValueError, match="given up"):
        dr.while_loop((rng, x), lambda r, x: x < 4, lambda r, x: (r, fail(r, x)))
    same(rng.state, states[0])


def test_conditions_draw_nothing() -> None:
    rng = PCG32(8)
    with pytest.raises(RuntimeError, match=r"the condition of this symbolic loop changes .*state\[1\]\.state"):
        dr.while_loop((UInt32(X), rng), lambda k, r: (k < 3) & (r.next_float32() < 2), lambda k, r: (k + 1, r))
    same(rng.state, drawn(0)[1][0])


def test_derivatives_and_other_generators() -> None:
    x, (numbers, _) = Float(X), drawn(3)
    dr.enable_grad(x)
    result = dr.if_stmt((PCG32(8), x), x < 4, lambda r, x: x * r.next_float32(), lambda r, x: x * x)
    dr.backward(dr.sum(result))
    same(x.grad, np.where(X < 4, numbers[0], 2 * X))
    rng, other = (Philox4x32(seed=3, counter_0=dr.arange(UInt32, 8)) for _ in range(2))
    found = dr.if_stmt((rng, x), x < 4, lambda r, x: r.next_float32x4().x, lambda r, x: x)
    same(found, np.where(X < 4, other.next_float32x4().x, X))
    same(rng.counter.w, np.where(X < 4, 1, 0))


@pytest.mark.parametrize("mode", MODES)
def test_nested_arrays_change_in_place(mode: str) -> None:
    point, x = Array3f(X, X + 1, X + 2), Float(X)
    held = point.y

    def move(p: Array3f, x: Float) -> Bool:
        p.y += 1
        return p.y > 3

    result = dr.if_stmt((point, x), x < 4, move, lambda p, x: p.y > 3, mode=mode)
    moved = np.where(X < 4, X + 2, X + 1)
    same(result, moved > 3)
    same(point.y, moved)
    same(held, moved)
