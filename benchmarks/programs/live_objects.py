"""What objects cost that are alive: the memory of an array and of a node, and the time of the garbage collector."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterable
from time import thread_time
from typing import Any

from measure import case, main, scaled

import drjit as dr
from drjit.llvm import Array3f, Float

SIDE = scaled(1_000_000) // 1000  #: A thousand times as many objects are made, each from a pair of 1000 and so many.
TRACED = 2_000
ROUNDS = 25
x = dr.arange(Float, 1000) / 1000
y = dr.arange(Float, 1000) / 4000 + 0.5
dr.eval(x, y)
lefts, rights = [x + k for k in range(1, SIDE + 1)], [y + k for k in range(1, 1001)]
kept: list[Any] = []  # until the process ends: memory that is free already would not be seen


def resident() -> int:
    """Bytes of memory that this process occupies."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def bytes_of(made: Iterable[Any]) -> float:
    """Bytes of each of the objects that are made, beyond its entry in a list."""
    objects: list[Any] = [None] * (1000 * SIDE)
    gc.collect()
    before = resident()
    for k, each in enumerate(made):
        objects[k] = each
    gc.collect()
    kept.append(objects)
    return (resident() - before) / len(objects)


def bytes_of_arrays() -> float:
    """Bytes of an array object that shares its node with others."""
    return bytes_of(Float(x) for _ in range(1000 * SIDE))


@case("memory of an array object", unit="B")
def _array() -> tuple[float, float]:
    return bytes_of_arrays(), 0.0


@case("memory of a node", unit="B")
def _node() -> tuple[float, float]:
    return bytes_of(left * right for left in lefts for right in rights) - bytes_of_arrays(), 0.0


@case("tracing with the garbage collector, 100k live nodes", unit="of that without")
def _collector() -> tuple[float, float]:
    live = [left * right for left in lefts[:100] for right in rights]
    v, w = Array3f(x, y, x + y), Array3f(y, x, x * y)
    dr.eval(v, w)

    def trace() -> float:
        start = thread_time()
        a, b, results = x, v, []
        for k in range(TRACED):
            a = a * x + 0.5
            b = b * w + a
            results.append((a, b))
            if k % 100 == 0:
                a, b = x + k, v + k
        results.clear()
        return thread_time() - start

    gc.collect()
    seconds = {True: 0.0, False: 0.0}
    for _ in range(ROUNDS):  # their sum counts: few of them see a collection of everything, which is what costs
        for collecting in seconds:
            (gc.enable if collecting else gc.disable)()
            seconds[collecting] += trace()
    del live
    return seconds[True] / seconds[False], 0.0


if __name__ == "__main__":
    main()
