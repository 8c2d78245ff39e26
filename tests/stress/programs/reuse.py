"""Memory that is freed and used again while kernels are queued: ``reuse.py <programs>``.

Random programs run twice: asynchronously, and step by step with NumPy.
"""

from __future__ import annotations

import gc
import random
import sys
from typing import Any

import numpy as np

import drjit as dr
from drjit.llvm import UInt32
from tests.stress.programs.common import watch

#: Sizes on both sides of a block and of what comes from mmap.
SIZES = (3, 1000, 70_000, 300_000)


class Pair:
    """An array and what it must be."""

    def __init__(self, array: UInt32, expected: Any) -> None:
        self.array, self.expected = array, expected

    def check(self) -> None:
        found = self.array.numpy()
        assert np.array_equal(found, self.expected), f"{np.flatnonzero(found != self.expected)[:5]}"


def fresh(rng: random.Random, size: int) -> Pair:
    kind = rng.randrange(3)
    values = np.random.default_rng(rng.randrange(1 << 30)).integers(0, 1 << 32, size, dtype=np.uint32)
    if kind == 0:  # copied; the source dies at once
        return Pair(UInt32(values), values.copy())
    if kind == 1:  # shared; only the array keeps the source alive
        expected = values.copy()
        return Pair(UInt32(Foreign(values)), expected)
    start = rng.randrange(1000)
    return Pair(dr.arange(UInt32, size) * 3 + start, np.arange(size, dtype=np.uint32) * 3 + start)


class Foreign:
    """An array of somebody else, imported by DLPack without a copy."""

    def __init__(self, values: Any) -> None:
        self.__dlpack__ = values.__dlpack__
        self.__dlpack_device__ = values.__dlpack_device__


def step(rng: random.Random, pairs: list[Pair], size: int) -> None:
    pair, other = rng.choice(pairs), rng.choice(pairs)
    action = rng.randrange(12)
    if action < 4:
        pairs.append(Pair(pair.array * 3 + other.array, pair.expected * np.uint32(3) + other.expected))
    elif action == 4:
        dr.eval(pair.array)
    elif action == 5 and len(pairs) > 2:
        pairs.remove(pair)
    elif action == 6:  # a write of all elements in place, by a kernel
        index = dr.arange(UInt32, size)
        dr.scatter_add(pair.array, index & 255, index)
        pair.expected = pair.expected + (np.arange(size, dtype=np.uint32) & 255)
    elif action == 7:
        position, value = rng.randrange(size), rng.randrange(1 << 32)
        pair.array[position] = value
        pair.expected = pair.expected.copy()
        pair.expected[position] = value
    elif action == 8:
        position = rng.randrange(size)
        assert int(pair.array[position]) == int(pair.expected[position])
    elif action == 9:
        index = (dr.arange(UInt32, size) * 7 + 1) % size
        where = (np.arange(size, dtype=np.uint32) * 7 + 1) % np.uint32(size)
        pairs.append(Pair(dr.gather(UInt32, pair.array, index), pair.expected[where]))
    elif action == 10:
        total = dr.sum(pair.array)
        pairs.append(Pair(other.array ^ total, other.expected ^ pair.expected.sum(dtype=np.uint32)))
        del total
    else:
        pairs.append(fresh(rng, size))
    while len(pairs) > 12:
        pairs.pop(rng.randrange(len(pairs)))


def program(seed: int) -> None:
    rng = random.Random(seed)
    size = rng.choice(SIZES)
    dr.set_thread_count(rng.choice((1, 2, 2, 2, 3)) if seed % 10 == 0 else dr.thread_count())
    pairs = [fresh(rng, size) for _ in range(3)]
    views: list[tuple[Any, Any]] = []
    for _ in range(rng.randrange(20, 60)):
        step(rng, pairs, size)
        if rng.random() < 0.2:
            dr.eval([pair.array for pair in pairs])
        if rng.random() < 0.05:  # a view outlives its array, whose memory must not be used again
            pair = pairs[0]
            views.append((pair.array.numpy(), pair.expected.copy()))
            pairs[0] = fresh(rng, size)
        if rng.random() < 0.02:
            gc.collect()
    for pair in pairs:
        pair.check()
    for view, expected in views:
        assert np.array_equal(view, expected), "memory was used again while a view showed it"


def fill_the_queue() -> None:
    """More launches than the ring has slots, behind one that takes long."""
    x = dr.arange(UInt32, 400_000)
    dr.eval(x)

    def body(i: Any, y: Any) -> Any:
        return i + 1, y * 5 + 1

    _, slow = dr.while_loop((UInt32(0), x), lambda i, y: i < 3000, body)
    y = dr.arange(UInt32, 1000)
    dr.eval(y)
    dr.eval(slow)
    expected = np.arange(1000, dtype=np.uint32)
    for index in range(3000):
        y = (y ^ index) + 1
        dr.eval(y)
    for index in range(3000):
        expected = (expected ^ np.uint32(index)) + np.uint32(1)
    assert np.array_equal(y.numpy(), expected)
    value = np.arange(400_000, dtype=np.uint32)
    for _ in range(3000):
        value = value * np.uint32(5) + np.uint32(1)
    assert np.array_equal(slow.numpy(), value)


def main(programs: int) -> None:
    watch(900)
    dr.set_thread_count(2)
    fill_the_queue()
    for seed in range(programs):
        try:
            program(seed)
        except AssertionError as error:
            raise AssertionError(f"program {seed}: {error}") from error
    print(f"{programs} random programs, 3000 launches behind a slow one")


if __name__ == "__main__":
    main(int(sys.argv[1]))
