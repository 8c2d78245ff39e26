"""Cost of tracing one operation: 10k on ``Float``, 3k on ``Array3f``; the garbage collector as users have it."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable
from typing import Any

from measure import case, main

import drjit as dr
from drjit.llvm import Array3f, Float

COUNT = 10_000
COUNT_3 = 3_000
REPEATS = 9

x, y = dr.arange(Float, 1000) / 1000, dr.arange(Float, 1000) / 4000 + 0.5
v, w = Array3f(x, y, x + y), Array3f(y, x, x * y)
dr.eval(x, y, v, w)



def picks(count: int) -> list[tuple[int, int]]:
    """Pairs of pseudo-random numbers below 64, from a linear congruential generator."""
    state, result = 1, []
    for _ in range(count):
        state = (state * 1103515245 + 12345) & 0x7FFFFFFF
        result.append(((state >> 8) & 63, (state >> 16) & 63))
    return result


PICKS = picks(COUNT // 2)
#: 97 different numbers, none of which is simplified away
NUMBERS = [0.25 + 0.0071 * k for k in range(97)]


def chain(a: Any, b: Any, count: int) -> Any:
    """Every operation uses the one before."""
    result = a
    for _ in range(count // 2):
        result = result * b
        result = result + a
    return result


def chain_with_numbers(a: Any, count: int) -> Any:
    """A chain whose other operands are Python numbers."""
    result = a
    for k in range(count // 2):
        number = NUMBERS[k % 97]
        result = result * number
        result = number + result
    return result


def dag(a: Any, b: Any, count: int) -> Any:
    """Operations whose operands are picked from the last 64 results."""
    pool = [a + float(k) for k in range(32)] + [b + float(k) for k in range(32)]
    for k in range(count // 2):
        i, j = PICKS[k]
        product = pool[i] * pool[j]
        pool[k & 63] = product - pool[i]
    total = pool[0]
    for value in pool[1:]:
        total = dr.minimum(total, value)
    return total


def per_operation(trace: Callable[[int], Any], count: int) -> float:
    """Median of the microseconds an operation takes; what was traced is dropped between the runs."""
    times = []
    for _ in range(REPEATS + 1):
        gc.collect()
        start = time.perf_counter()
        result = trace(count)
        times.append((time.perf_counter() - start) / count * 1e6)
        del result
    return statistics.median(times[1:])


def checksum(result: Any) -> float:
    """A number that depends on what was traced."""
    if type(result) is Array3f:
        result = result.x + 2 * result.y + 4 * result.z
    return float(dr.sum(result)[0])


@case("trace Float: chain", unit="us")
def _float_chain() -> tuple[float, float]:
    return per_operation(lambda n: chain(x, y, n), COUNT), checksum(chain(x, y, 60))


@case("trace Float: DAG", unit="us")
def _float_dag() -> tuple[float, float]:
    return per_operation(lambda n: dag(x, y, n), COUNT), checksum(dag(x, y, 60))


@case("trace Float: Python numbers", unit="us")
def _float_numbers() -> tuple[float, float]:
    return per_operation(lambda n: chain_with_numbers(x, n), COUNT), checksum(chain_with_numbers(x, 60))


@case("trace Float: value-numbering hits", unit="us")
def _float_hits() -> tuple[float, float]:
    kept = [x]
    for _ in range(COUNT):
        kept.append(kept[-1] * y)

    def again(count: int) -> Any:
        result = x
        for _ in range(count):
            result = result * y
        return result

    return per_operation(again, COUNT), checksum(again(20))


@case("trace Array3f: chain", unit="us")
def _array_chain() -> tuple[float, float]:
    return per_operation(lambda n: chain(v, w, n), COUNT_3), checksum(chain(v, w, 60))


@case("trace Array3f: DAG", unit="us")
def _array_dag() -> tuple[float, float]:
    return per_operation(lambda n: dag(v, w, n), COUNT_3), checksum(dag(v, w, 60))


@case("trace Array3f: Python numbers", unit="us")
def _array_numbers() -> tuple[float, float]:
    return per_operation(lambda n: chain_with_numbers(v, n), COUNT_3), checksum(chain_with_numbers(v, 60))


if __name__ == "__main__":
    main()
