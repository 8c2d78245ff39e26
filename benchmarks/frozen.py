"""What a call of a frozen function costs on the host, compared with tracing the same again.

.. code-block:: shell

    python benchmarks/frozen.py [--calls 500]

Prints microseconds per call, the least of five rounds, of calls that find a recording, whose results are evaluated, and
of the same calls traced and evaluated, and of first calls, which record (the least of 50 functions, whose kernels are
known); launches are asynchronous, and arrays so small that kernels hardly count. Runs with a peer that has the same
interface, too.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import drjit as dr
from drjit.llvm import Float
from drjit.llvm.ad import Float as Tracked


def total(*arrays: Any) -> Any:
    """The sum of arrays, times two."""
    found = arrays[0]
    for array in arrays[1:]:
        found = found + array
    return found * 2


def chain(x: Any) -> Any:
    """300 operations."""
    for k in range(150):
        x = x * 1.01 + k
    return x


def step(opt: Any, target: Any) -> Any:
    """A step of an optimisation."""
    loss = dr.mean(dr.square(opt["x"] - target))
    dr.backward(loss)
    opt.step()
    return loss


def microseconds(function: Callable[..., Any], args: tuple[Any, ...], calls: int, chained: bool, frozen: bool) -> float:
    """The time of one call; results are the first arguments of the next one if calls are chained."""
    for _ in range(20):
        found = function(*args)
        dr.eval(found)
    best = float("inf")
    for _ in range(5):
        dr.sync_thread()
        start = time.perf_counter()
        for _ in range(calls):
            found = function(*args)
            if not frozen:
                dr.eval(found)
            if chained:  # else what is traced again would be known
                args = (found, *args[1:])
        best = min(best, (time.perf_counter() - start) / calls)
    return best * 1e6


def microseconds_of_first(function: Callable[..., Any], arguments: Callable[[], tuple[Any, ...]]) -> float:
    """The time of the first call of a frozen function."""
    best = float("inf")
    for _ in range(50):
        frozen, args = dr.freeze(function), arguments()
        dr.sync_thread()
        start = time.perf_counter()
        frozen(*args)
        best = min(best, time.perf_counter() - start)
    return best * 1e6


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description="calls of frozen functions")
    parser.add_argument("--calls", type=int, default=500)
    calls = parser.parse_args().calls
    cases: list[tuple[str, Callable[..., Any], Callable[[], tuple[Any, ...]]]] = []
    for count in (1, 10, 100):
        arrays = tuple(Float(1, 2, 3) + k for k in range(count))
        dr.eval(arrays)
        cases.append((f"{count} array arguments", total, lambda arrays=arrays: arrays))  # type: ignore[misc]
    cases.append(("300 operations", chain, lambda: (Float(*range(16)),)))

    def optimiser() -> tuple[Any, ...]:
        from drjit.opt import Adam
        return Adam(lr=0.01, params={"x": dr.zeros(Tracked, 1000)}), dr.arange(Tracked, 1000) + dr.opaque(Tracked, 0)

    cases.append(("a step of Adam", step, optimiser))
    print(f"{'':24}{'frozen':>10}{'traced':>10}{'recorded':>10}")
    for name, function, arguments in cases:
        frozen = microseconds(dr.freeze(function), arguments(), calls, function is not step, True)
        traced = microseconds(function, arguments(), calls, function is not step, False)
        print(f"{name:24}{frozen:8.1f} µs{traced:8.1f} µs{microseconds_of_first(function, arguments):8.1f} µs")


if __name__ == "__main__":
    main()
