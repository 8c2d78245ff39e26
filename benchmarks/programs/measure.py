"""What the benchmark programs share: registering cases, timing them, and reporting one JSON object per line.

A program imports nothing but the public ``drjit`` and this module, so that the same file runs on this project and on
the peer.  A case is a function that returns the seconds (or, for other units, the value) that it measured and a
checksum of what it computed; smaller values are better throughout.  The value is ``None`` where there is nothing to
measure on this side.  ``BENCH_SCALE`` in the environment divides array sizes, for a quick look or a test.

Two numbers as arguments, ``k n``, ask for the k-th of n parts of the cases: sides that alternate often meet the same
machine, whose speed changes within seconds.
"""

from __future__ import annotations

import gc
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

__all__ = ["Case", "case", "main", "median_seconds", "microseconds", "scaled"]

#: The function of a case: what it measured, and a checksum.
Measurement = Callable[[], tuple[float | None, float]]

_SCALE = max(1, int(os.environ.get("BENCH_SCALE", "1")))


@dataclass(frozen=True)
class Case:
    """One measurement: its name, the unit of its values, and what the work amounts to."""

    name: str
    run: Measurement
    unit: str
    bytes: float
    flops: float
    tolerance: float


_cases: list[Case] = []


def scaled(size: int) -> int:
    """An array size, divided by ``BENCH_SCALE``."""
    return max(1024, size // _SCALE)


def case(name: str, unit: str = "s", nbytes: float = 0, flops: float = 0,
         tolerance: float = 1e-4) -> Callable[[Measurement], Measurement]:
    """Register a function as a case; ``nbytes`` and ``flops`` are what it must move and compute per measured value."""

    def register(function: Measurement) -> Measurement:
        _cases.append(Case(name, function, unit, nbytes, flops, tolerance))
        return function

    return register


def median_seconds(function: Callable[[], Any], repeats: int = 9, warmup: int = 2, budget: float = 1.0) -> float:
    """Median time of a call, after a warm-up; fewer repeats (at least 3) if they would take more than ``budget``."""
    for _ in range(warmup):
        function()
    times: list[float] = []
    begin = time.perf_counter()
    while len(times) < repeats and (len(times) < 3 or time.perf_counter() - begin < budget):
        start = time.perf_counter()
        result = function()
        times.append(time.perf_counter() - start)
        del result
    return statistics.median(times)


def microseconds(expression: str, varying: str, variants: list[Any], names: dict[str, Any], repeats: int = 15) -> float:
    """Median time of an evaluation of an expression, for the values of one of the names in it.

    A repeat keeps what the expression gives until its end, as a traced program does, and drops it within the time that
    is measured.  The time is that of the processor in this thread, minus that of the same loop around ``None``: tracing
    waits for nothing, so that other programs on the machine count less.  The garbage collector runs as users have it.
    """
    loop, empty = _timed_loop(expression, varying, names), _timed_loop("None", varying, names)
    gc.collect()
    times = [loop(variants) - empty(variants) for _ in range(repeats + 1)]
    return max(statistics.median(times[1:]) / len(variants) * 1e6, _SHORTEST)


_SHORTEST = 1e-3  #: Microseconds: what is as short as the empty loop is not negative.


def _timed_loop(expression: str, varying: str, names: dict[str, Any]) -> Callable[[list[Any]], float]:
    """A function that evaluates an expression for the values of one name, all names being local; returns seconds."""
    fixed = {name: value for name, value in names.items() if name != varying}
    lines = [f"def loop(variants, {', '.join(fixed)}):",
             " values = []",
             " keep = values.append",
             " start = now()",
             f" for {varying} in variants:",
             f"  keep({expression})",
             " values.clear()",
             " return now() - start"]
    scope: dict[str, Any] = {"now": time.thread_time}
    exec("\n".join(lines), scope)
    return partial(scope["loop"], **fixed)


def main() -> None:
    """Run all cases, each reported as soon as it is done; a failing case reports its error and the others go on."""
    part, parts = map(int, sys.argv[1:3]) if len(sys.argv) > 2 else (0, 1)
    for entry in _cases[len(_cases) * part // parts:len(_cases) * (part + 1) // parts]:
        report: dict[str, Any] = {"name": entry.name, "unit": entry.unit, "bytes": entry.bytes, "flops": entry.flops,
                                  "tolerance": entry.tolerance}
        try:
            report["value"], report["checksum"] = entry.run()
        except Exception as error:  # whatever a case raises is its result
            text = str(error).strip().splitlines() or [""]
            report["error"] = f"{type(error).__name__}: {text[0][:200]}"
        print(json.dumps(report), flush=True)
