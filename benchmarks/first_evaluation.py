"""What the first evaluation of a fresh installation costs beyond its own kernel.

.. code-block:: shell

    python benchmarks/first_evaluation.py [--runs 5] [--check]

Each run is a fresh process with an empty cache directory.  It evaluates a sum and waits for it, then another one of the
same shape.  LLVM's time for the kernel itself is taken off both, and their difference is what only the first one pays:
the hash of the emitter, LLVM's engine, the pool's code and threads.  This is done for launches of two widths, and once
more with what the first process has left on disk: on a fresh installation, the shorter launch does without the pool,
and the longer one, which takes tens of milliseconds, compiles it.  The median of the shorter one with an empty cache
must stay under 12 ms; with ``--check`` the exit status says whether it did.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile

BUDGET = 0.012  #: Seconds.
WIDTHS = (1 << 20, 1 << 25)
#: Evaluates two kernels of some width, and writes the seconds of both, but for what LLVM took to compile them.
PROGRAM = """
import sys, time, drjit as dr
from drjit.llvm import Float
from drjit_core.llvm import jit
compile_text = jit.compile_text
def timed(*arguments):
    start = time.perf_counter()
    code = compile_text(*arguments)
    compiling.append(time.perf_counter() - start)
    return code
jit.compile_text = timed
width, times = int(sys.argv[1]), []
x = dr.arange(Float, width)
for formula in (lambda: (x * 2 + 5) * x, lambda: (x * 3 - x) * 7):
    y, compiling = dr.sum(formula()), []
    start = time.perf_counter()
    dr.eval(y)
    dr.sync_thread()
    times.append(time.perf_counter() - start - sum(compiling[:1]))  # the next one is the pool's
print(*times)
"""


def seconds(width: int, cache: str) -> tuple[float, float]:
    """Times of the first and of the second kernel in a fresh process."""
    process = subprocess.run([sys.executable, "-c", PROGRAM, str(width)], capture_output=True, text=True, check=True,
                             env=os.environ | {"DRJIT_CACHE_DIR": cache})
    first, second = map(float, process.stdout.split())
    return first, second


def main() -> int:
    """Measure and print; returns the exit status."""
    parser = argparse.ArgumentParser(description="Measure what the first evaluation costs beyond its own kernel.")
    parser.add_argument("--runs", type=int, default=5, metavar="N", help="default: %(default)s")
    parser.add_argument("--check", action="store_true", help="fail if the budget is exceeded")
    options = parser.parse_args()
    if options.runs < 1:
        parser.error("--runs must be at least 1")
    kept = False
    print("ms beyond its own kernel: median (all runs)")
    for width in WIDTHS:
        fresh, warm = [], []
        for _ in range(options.runs):
            with tempfile.TemporaryDirectory(prefix="drjit-bench-") as cache:
                first, second = seconds(width, cache)
                fresh.append(first - second)
                first, second = seconds(width, cache)
                warm.append(first - second)
        for name, times in (("empty cache", fresh), ("cache on disk", warm)):
            print(f"{width:10} elements, {name:13}: {statistics.median(times) * 1e3:6.1f}  "
                  f"({' '.join(f'{time * 1e3:.1f}' for time in times)})")
        if width == WIDTHS[0]:
            kept = statistics.median(fresh) < BUDGET
    print(f"budget: {BUDGET * 1e3:.0f} ms, {'kept' if kept else 'EXCEEDED'}")
    return 0 if kept or not options.check else 1


if __name__ == "__main__":
    sys.exit(main())
