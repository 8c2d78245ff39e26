"""How long ``import drjit`` takes, which modules take it, and how long it takes to make all array types.

.. code-block:: shell

    python benchmarks/import_time.py [--peer PYTHON] [--runs 9] [--modules N] [--check]

The time is that of a fresh interpreter running ``import drjit`` minus one that imports nothing, and must stay under
0.25 s.  The list is from ``python -X importtime``, by the time that a module itself takes.  Types are made when they
are first asked for; asking for all of the five packages must stay under 30 ms.  A peer takes its turn in each run.
With ``--check`` the exit status says whether the budgets were kept.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time

from runner import Result, Side, rotated, shown, sides

IMPORT, TYPES = "import drjit", "all array types"
BUDGETS = {IMPORT: 0.25, TYPES: 0.03}  #: Seconds.
#: Asks for all types, in the interpreter that runs it, and writes the seconds that this took to its error stream.
ALL_TYPES = """
import importlib, sys, time, drjit
start = time.perf_counter()
for package in ("llvm", "llvm.ad", "scalar", "cuda", "cuda.ad"):
    module = importlib.import_module("drjit." + package)
    for name in dir(module):
        if name not in ("PCG32", "Philox4x32"):  # which need a module of their own
            getattr(module, name)
sys.stderr.write(str(time.perf_counter() - start))
"""


def command(side: Side, *arguments: str) -> tuple[float, str]:
    """Run an interpreter; returns its wall time and what it wrote to its error stream."""
    folder = tempfile.gettempdir()  # with -c, the current directory comes first in sys.path
    start = time.perf_counter()
    process = subprocess.run([side.python, *arguments], env=side.environment, capture_output=True, text=True,
                             check=False, cwd=folder)
    elapsed = time.perf_counter() - start
    if process.returncode:
        raise SystemExit(f"import_time.py: {side.name}: {(process.stderr.strip().splitlines() or ['failed'])[-1]}")
    return elapsed, process.stderr


def seconds(side: Side) -> dict[str, float]:
    """Time of ``import drjit``, the interpreter's own start subtracted, and of all types after that."""
    return {IMPORT: command(side, "-c", "import drjit")[0] - command(side, "-c", "pass")[0],
            TYPES: float(command(side, "-c", ALL_TYPES)[1])}


def measure(compared: list[Side], runs: int) -> dict[str, Result]:
    """Import and types on all sides, alternating; a first run, which does not count, fills the caches of the disk."""
    results = {name: Result(name) for name in BUDGETS}
    for run in range(runs + 1):
        for side in rotated(compared, run):
            for name, value in seconds(side).items():
                if run:
                    results[name].values.setdefault(side.name, []).append(value)
    return results


def modules(side: Side) -> list[tuple[int, int, str]]:
    """Microseconds that each module itself takes, with everything it imports, and its name; dearest first."""
    base = {line.rpartition("|")[2].strip() for line in command(side, "-X", "importtime", "-c", "pass")[1].splitlines()}
    found = []
    for line in command(side, "-X", "importtime", "-c", "import drjit")[1].splitlines():
        own, _, rest = line.removeprefix("import time:").partition("|")
        total, _, name = rest.partition("|")
        if own.strip().isdigit() and name.strip() not in base:
            found.append((int(own), int(total), name.strip()))
    return sorted(found, reverse=True)


def main() -> int:
    """Measure and print; returns the exit status."""
    parser = argparse.ArgumentParser(description="Measure the time of `import drjit`.")
    parser.add_argument("--peer", default=os.environ.get("DRJIT_PEER_PYTHON") or None, metavar="PYTHON",
                        help="interpreter that has the peer (default: $DRJIT_PEER_PYTHON, else none)")
    parser.add_argument("--runs", type=int, default=9, metavar="N", help="default: %(default)s")
    parser.add_argument("--modules", type=int, default=12, metavar="N", help="modules to list (default: %(default)s)")
    parser.add_argument("--check", action="store_true", help="fail if the budget is exceeded")
    options = parser.parse_args()
    if options.runs < 1:
        parser.error("--runs must be at least 1")
    compared = sides(options.peer)
    kept = True
    for name, result in measure(compared, options.runs).items():
        for side in compared:
            times = result.values[side.name]
            print(f"{name}, {side.name}: {shown(result.median(side.name), 's')} "
                  f"({min(times) * 1e3:.1f}-{max(times) * 1e3:.1f})")
        within = (result.median("ours") or 0.0) < BUDGETS[name]
        print(f"budget: {BUDGETS[name] * 1e3:.0f} ms, {'kept' if within else 'EXCEEDED'}\n")
        kept = kept and within
    found = modules(compared[0])
    print(f"{len(found)} modules; own and cumulative ms of the dearest:")
    for own, total, name in found[:options.modules]:
        print(f"  {own * 1e-3:7.2f} {total * 1e-3:8.2f}  {name}")
    return 0 if kept or not options.check else 1


if __name__ == "__main__":
    sys.exit(main())
