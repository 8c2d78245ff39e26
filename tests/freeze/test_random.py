"""Random programs, frozen and not: equal results over calls with other sizes, values, aliases, flags and state."""

from __future__ import annotations

import random

import numpy as np
import pytest

import drjit as dr
from drjit.llvm.ad import Float, TensorXf, UInt

CALLS = 8
SIZES = (0, 1, 2, 3, 4, 5, 8, 17, 64, 300)


class _State:
    """What programs find beside their arguments."""

    def __init__(self, seed):
        rng = random.Random(seed)
        self.k = rng.choice((1, 2, 0.5))
        self.table = {"a": Float(1, 2, 3), "n": 2}
        self.entries = [Float(4), 7]
        self.last = None
        self.weights = Float(0.5)


def _program(seed):
    """A function of two arrays, a number and a state, made of random steps."""
    rng = random.Random(seed)
    steps = [rng.choice(STEPS) for _ in range(rng.randint(2, 7))]
    choices = [rng.random() for _ in steps]

    def program(x, y, k, state):
        values = [x, y]
        for step, choice in zip(steps, choices, strict=True):
            a = values[int(choice * 7919) % len(values)]
            b = values[int(choice * 104729) % len(values)]
            found = step(a, b, k, state, choice)
            if found is not None:
                values.append(found)
        return values[-1], values[2:]

    program.steps = [step.__name__ for step in steps]
    return program


def _goes(a, b):
    return a if len(a) == 1 or len(b) == 1 or len(a) == len(b) else None


def add(a, b, k, state, choice):
    return a + dr.sum(b)


def multiply(a, b, k, state, choice):
    return a * k + state.k


def elementwise(a, b, k, state, choice):
    return dr.sin(a) + dr.abs(a) * dr.minimum(a, 2)


def mean(a, b, k, state, choice):
    return dr.mean(a) + b


def variance(a, b, k, state, choice):
    return dr.var(a) if len(a) > 1 else a


def running(a, b, k, state, choice):
    return dr.cumsum(a)


def reverse(a, b, k, state, choice):
    return dr.reverse(a)


def tile(a, b, k, state, choice):
    return dr.tile(a, 2) if dr.width(a) < 1000 else a


def join(a, b, k, state, choice):
    return dr.concat([a, b]) if dr.width(a) < 1000 else a


def slice_(a, b, k, state, choice):
    return a[1:4] if choice < 0.5 else a[::2]


def extreme(a, b, k, state, choice):
    return dr.max(a) + b if dr.width(a) else b


def arrange(a, b, k, state, choice):
    return dr.sort(a)


def count(a, b, k, state, choice):
    return Float(dr.count(a > 1))


def number(a, b, k, state, choice):
    return a * dr.width(b) + len(a)


def select(a, b, k, state, choice):
    return dr.select(dr.any(a > 3), a, a + 1)


def in_place(a, b, k, state, choice):
    a += 1


def scatter(a, b, k, state, choice):
    if dr.width(a):
        dr.scatter(a, Float(choice), UInt(0))


def scatter_add(a, b, k, state, choice):
    target = dr.zeros(Float, 4)
    dr.scatter_add(target, a, dr.arange(UInt, dr.width(a)) % 4)
    return target


def gather(a, b, k, state, choice):
    return dr.gather(Float, state.table["a"], dr.arange(UInt, 3)) + a[:0].shape[0]


def use_table(a, b, k, state, choice):
    state.table["b"] = dr.sum(a) + state.table["n"]
    return state.table["b"]


def keep(a, b, k, state, choice):
    state.last = a * 2


def rebind(a, b, k, state, choice):
    state.entries[0] = state.entries[0] + dr.sum(a)
    return state.entries[0]


def weights(a, b, k, state, choice):
    state.weights += choice
    return a * state.weights


def alias(a, b, k, state, choice):
    return a


def tensor(a, b, k, state, choice):
    t = TensorXf(a)
    return dr.sum(t[:, None] * t[None, :], axis=0).array if dr.width(a) < 50 else a


def loop(a, b, k, state, choice):
    def body(i, v):
        return i + 1, v * 0.5 + 1
    return dr.while_loop((UInt(0), a + 0), lambda i, v: i < UInt(3), body)[1]


def gradient(a, b, k, state, choice):
    z = Float(dr.detach(a))
    dr.enable_grad(z)
    dr.backward(z * z * k)
    return dr.grad(z)


STEPS = (add, multiply, elementwise, mean, variance, running, reverse, tile, join, slice_, extreme, arrange, count,
         number, select, in_place, scatter, scatter_add, gather, use_table, keep, rebind, weights, alias, tensor, loop,
         gradient)


def _seen(value, arrays, x, y, state):
    if isinstance(value, dr.ArrayBase):
        names = {id(x): "x", id(y): "y"}
        arrays.append(value)
        same = next(k for k, other in enumerate(arrays) if other is value)
        return names.get(id(value), same), np.array(value.numpy())
    if isinstance(value, list | tuple):
        return [_seen(entry, arrays, x, y, state) for entry in value]
    if isinstance(value, dict):
        return [(key, _seen(entry, arrays, x, y, state)) for key, entry in value.items()]
    return value


def _run(function, seed):
    """What a function does in several calls, and which exceptions it raises."""
    rng, state, found = random.Random(seed), _State(seed), []
    for _ in range(CALLS):
        n = rng.choice(SIZES)
        x = Float([rng.randint(-4, 4) for _ in range(n)])
        y = x if rng.random() < 0.15 else Float([rng.randint(0, 6) for _ in range(rng.choice((n, 1, n)))])
        if rng.random() < 0.1:
            y = Float(rng.randint(0, 3))
        k = rng.choice((1, 2.0, 2, True))
        if rng.random() < 0.2:
            state.k = rng.choice((1, 3))
        tracked = rng.random() < 0.4
        if tracked:
            dr.enable_grad(x)
        try:
            last, values = function(x, y, k, state)
            arrays = []
            seen = [_seen(each, arrays, x, y, state) for each in (
                last, values, x, y, state.table, state.entries, state.last, state.weights)]
            if tracked and dr.grad_enabled(last):
                dr.backward(last)
                seen.append(np.array(x.grad.numpy()))
            found.append(seen)
        except Exception as error:
            found.append(isinstance(error, Exception))
            state = _State(seed)
    return found


def _equal(one, other):
    if isinstance(one, np.ndarray):
        return isinstance(other, np.ndarray) and one.shape == other.shape and \
            np.allclose(one, other, rtol=2e-3, atol=1e-3, equal_nan=True)
    if isinstance(one, list | tuple):
        return isinstance(other, list | tuple) and len(one) == len(other) and all(map(_equal, one, other))
    return one == other


def check(seed):
    program = _program(seed)
    frozen = dr.freeze(program)
    expected, found = _run(program, seed), _run(frozen, seed)
    for call, (one, other) in enumerate(zip(expected, found, strict=True)):
        assert _equal(one, other), f"seed {seed}, call {call}: {program.steps}\n{one}\n{other}"
    return frozen


@pytest.mark.parametrize("first", range(0, 60, 10))
def test_random_programs(first):
    for seed in range(first, first + 10):
        check(seed)
