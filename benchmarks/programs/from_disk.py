"""Time until a program of 1000 operations is launched whose kernel is on disk, but for what linking it takes.

The first process evaluates the programs; the second one, with ``disk`` on the command line, does so again and reports.
Linking is the native code's part of loading a kernel; the peer's is not known, so that this is about our side alone.
"""

from __future__ import annotations

import statistics
import sys
import time
from typing import Any

from measure import case, main

import drjit as dr
from drjit.llvm import Float
from drjit_core.llvm import jit

x, y = dr.arange(Float, 1000) / 1000, dr.arange(Float, 1000) / 4000 + 0.5
dr.eval(x, y)
dr.eval(dr.abs(x - y))  # the first kernel of a process loads LLVM as well, which is another matter
dr.sync_thread()

linking = 0.0
link = jit.link


def timed_link(*arguments: Any) -> Any:
    """What ``jit.link`` does; its seconds are added up."""
    global linking
    start = time.perf_counter()
    code = link(*arguments)
    linking += time.perf_counter() - start
    return code


def program(variant: int) -> Float:
    """500 multiplications and as many additions, one after the other."""
    a = x
    for k in range(500):
        a = a * (y if k % (7 + variant) == 0 else 0.5 + 0.001 * k)
        a = a + (0.25 + 0.002 * k)
    return a


def seconds(variant: int) -> float:
    """What an evaluation takes, tracing and linking excluded."""
    result, linked = program(variant), linking
    start = time.perf_counter()
    dr.eval(result)
    elapsed = time.perf_counter() - start - (linking - linked)
    if linking == linked:
        raise RuntimeError("no kernel was linked")
    return elapsed


def measured() -> tuple[float, float]:
    """Median of several programs, and a checksum."""
    jit.link = timed_link
    return statistics.median(seconds(variant) for variant in range(7)), float(dr.sum(program(0))[0])


def from_memory(variant: int) -> float:
    """What an evaluation takes whose kernel is there, tracing excluded: the launch and, of so small a one, its run."""
    result = program(variant)
    start = time.perf_counter()
    dr.eval(result)
    return time.perf_counter() - start


def measured_once_more() -> tuple[float, float]:
    """Median of the same programs."""
    return statistics.median(from_memory(variant) for variant in range(7)), float(dr.sum(program(0))[0])


if __name__ == "__main__":
    if "disk" in sys.argv[1:]:
        case("1k operations from a warm disk, beyond linking")(measured)
        case("1k operations once more")(measured_once_more)
        main()
    else:
        measured()
        dr.sync_thread()
