"""What surrounds kernels that take no time themselves: cached ones, on 1000 elements, in loops."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

from measure import case, main

import drjit as dr
from drjit.llvm import Float

ROUNDS = 200  #: In a repeat.
REPEATS = 25
x = dr.arange(Float, 1000) / 1000
one = dr.sum(x)
#: Arrays of 32 sizes.
arrays = [dr.arange(Float, 1000 + 8 * k) / 1000 for k in range(32)]
dr.eval(x, one, arrays)
dr.sync_thread()


def microseconds(once: Callable[[], Any], rounds: int = ROUNDS) -> float:
    """Median time of a round; at the end of a repeat, what has been launched is waited for."""
    times = []
    for _ in range(REPEATS + 2):
        start = time.perf_counter()
        for _ in range(rounds):
            once()
        dr.sync_thread()
        times.append((time.perf_counter() - start) / rounds * 1e6)
    return statistics.median(times[2:])


def hundred_operations(state: Float) -> Float:
    """A program whose result lies between 0 and 1, as its argument does."""
    for _ in range(50):
        state = state * 0.999
        state = state + 0.001
    return state


def carried(step: Callable[[Float], Float], rounds: int) -> tuple[float, float]:
    """Microseconds of a step that needs what the one before has computed, and the sum after ten of them."""
    state = Float(x)

    def once() -> None:
        nonlocal state
        state = step(state)
        dr.eval(state)

    elapsed = microseconds(once, rounds)
    state = Float(x)
    for _ in range(10):
        once()
    return elapsed, float(dr.sum(state)[0])


@case("cached 2-operation kernel, asynchronous", unit="us")
def _asynchronous() -> tuple[float, float]:
    return microseconds(lambda: dr.eval(x * 2.5 + 1.5)), float(dr.sum(x * 2.5 + 1.5)[0])


@case("cached 2-operation kernel, with a sync", unit="us")
def _synchronous() -> tuple[float, float]:
    def once() -> None:
        dr.eval(x * 2.5 + 1.5)
        dr.sync_thread()

    return microseconds(once), float(dr.sum(x * 2.5 + 1.5)[0])


@case("state carried through a loop of small kernels", unit="us")
def _carried() -> tuple[float, float]:
    return carried(lambda state: state * 0.999 + 0.001, ROUNDS)


@case("dependent chain of kernels of 100 operations", unit="us")
def _chain() -> tuple[float, float]:
    return carried(hundred_operations, 20)


@case("32 kernels of 32 sizes in one evaluation", unit="us")
def _sizes() -> tuple[float, float]:
    def once() -> list[Float]:
        results = [array * 2.5 + 1.5 for array in arrays]
        dr.eval(results)
        return results

    return microseconds(once, 10), sum(float(dr.sum(result)[0]) for result in once())


@case("readback of one evaluated number", unit="us")
def _number() -> tuple[float, float]:
    return microseconds(lambda: one[0]), float(one[0])


@case("readback of one number that a kernel computes", unit="us")
def _result() -> tuple[float, float]:
    return microseconds(lambda: (one * 2.5 + 1.5)[0]), float((one * 2.5 + 1.5)[0])


if __name__ == "__main__":
    main()
