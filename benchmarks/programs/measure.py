"""What the benchmark programs share: registering cases, timing them, and reporting one JSON object per line.

A program imports nothing but the public ``drjit`` and this module, so that the same file runs on this project and on
the peer.  A case is a function that returns the seconds (or, for other units, the value) that it measured and a
checksum of what it computed; smaller values are better throughout.  ``BENCH_SCALE`` in the environment divides array
sizes, for a quick look or a test.
"""

from __future__ import annotations

import json
import os
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

__all__ = ["Case", "case", "main", "median_seconds", "scaled"]

_SCALE = max(1, int(os.environ.get("BENCH_SCALE", "1")))


@dataclass(frozen=True)
class Case:
    """One measurement: its name, the unit of its values, and what the work amounts to."""

    name: str
    run: Callable[[], tuple[float, float]]
    unit: str
    bytes: float
    flops: float
    tolerance: float


_cases: list[Case] = []


def scaled(size: int) -> int:
    """An array size, divided by ``BENCH_SCALE``."""
    return max(1024, size // _SCALE)


def case(name: str, unit: str = "s", nbytes: float = 0, flops: float = 0,
         tolerance: float = 1e-4) -> Callable[[Callable[[], tuple[float, float]]], Callable[[], tuple[float, float]]]:
    """Register a function as a case; ``nbytes`` and ``flops`` are what it must move and compute per measured value."""

    def register(function: Callable[[], tuple[float, float]]) -> Callable[[], tuple[float, float]]:
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


def main() -> None:
    """Run all cases, each reported as soon as it is done; a failing case reports its error and the others go on."""
    for entry in _cases:
        report: dict[str, Any] = {"name": entry.name, "unit": entry.unit, "bytes": entry.bytes, "flops": entry.flops,
                                  "tolerance": entry.tolerance}
        try:
            report["value"], report["checksum"] = entry.run()
        except Exception as error:  # whatever a case raises is its result
            text = str(error).strip().splitlines() or [""]
            report["error"] = f"{type(error).__name__}: {text[0][:200]}"
        print(json.dumps(report), flush=True)
