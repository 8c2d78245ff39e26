"""What tracing an operation costs, against its budget, and where the time goes.

.. code-block:: shell

    python benchmarks/tracing.py [--peer PYTHON] [--runs 5] [--functions N]

The budget is 1.5 us for an operation on ``Float`` and 4 us on ``Array3f``, Python's garbage collector as users have it.
The cases are those of ``programs/tracing.py``, run in fresh processes and, given the interpreter of a peer, alternating
with it (see ``runner.py``).  The breakdown is taken in this process from loops that leave one layer out each, which
disturbs less than a profiler; a profile by function follows.  Writes a plot to ``benchmarks/out/tracing.png``.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import io
import os
import pstats
import statistics
import sys
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

from runner import OUTPUT, PROGRAMS, ROOT, Result, measure, sides

sys.path[:0] = [str(ROOT), str(ROOT / "compiler")]  # a checkout need not be installed

BUDGET = {"Float": 1.5, "Array3f": 4.0}  #: Microseconds an operation.
COUNT = 10_000


def budget_of(name: str) -> float:
    """The budget of a case, by the type in its name."""
    return next(limit for kind, limit in BUDGET.items() if kind in name)


# --- where the time goes ---------------------------------------------------------------------------------------------


def microseconds(loop: Callable[[int], Any], count: int = COUNT, repeats: int = 9) -> float:
    """Median time a round of a loop takes; what it built is dropped between the runs."""
    times = []
    for _ in range(repeats + 1):
        gc.collect()
        start = time.perf_counter()
        result = loop(count)
        times.append((time.perf_counter() - start) / count * 1e6)
        del result
    return statistics.median(times[1:])


class _Bare:
    """As many slots as a node has, to see what Python charges for them."""

    __slots__ = ("__weakref__", "attr", "d0", "d1", "d2", "d3", "id", "kind", "payload", "scope", "size", "type")


def _bare_nodes(count: int) -> Any:
    new = object.__new__
    node = None
    for k in range(count):
        previous, node = node, new(_Bare)
        node.kind = node.type = node.size = node.attr = node.scope = 1
        node.id = k
        node.d0 = previous
        node.d1 = node.d2 = node.d3 = node.payload = None
    return node


def _bare_numbering(count: int) -> Any:
    table: dict[Any, Any] = {}
    find, ref = table.get, weakref.ref
    node = _Bare()
    for k in range(count):
        key = (7, k, 11, 0)
        if find(key) is None:
            table[key] = ref(node)
    return table


def breakdown() -> dict[str, float]:
    """Microseconds of ``a * b`` by what they are spent on, and of its neighbours for comparison."""
    import drjit as dr
    import drjit_core as core
    from drjit.llvm import Float

    x, y = dr.arange(Float, 1000) / 1000, dr.arange(Float, 1000) / 4000 + 0.5
    dr.eval(x, y)
    left = core.cast(core.counter(1000), core.VarType.Float32.value)
    right = core.ops.sqrt(left)
    core.evaluate([left, right])
    multiply = core.ops.mul

    def arrays(count: int) -> Any:
        result = x
        for _ in range(count):
            result = result * y
        return result

    def numbers(count: int) -> Any:
        result = x
        for _ in range(count):
            result = result * 1.0625
        return result

    def nodes(count: int) -> Any:
        result = left
        for _ in range(count):
            result = multiply(result, right)
        return result

    def loop(count: int) -> Any:
        result = None
        for _ in range(count):
            result = _
        return result

    empty, whole, core_only = microseconds(loop), microseconds(arrays), microseconds(nodes)
    kept = nodes(COUNT)
    found = microseconds(nodes)
    del kept
    kept = arrays(COUNT)
    found_whole = microseconds(arrays)
    del kept
    gc.disable()
    uncollected = microseconds(arrays)
    gc.enable()
    bare, numbering = microseconds(_bare_nodes) - empty, microseconds(_bare_numbering) - empty
    return {
        "a * b, in all": whole,
        "the loop": empty,
        "array layer (types, wrapper)": whole - core_only,
        "core: lookup that finds": found - empty,
        "core: making and entering a node": core_only - found,
        "of all: garbage collector": whole - uncollected,
        "a * b, found by value numbering": found_whole,
        "a * number": microseconds(numbers),
        "bare: object with a node's slots": bare,
        "bare: key, lookup, entry, weakref": numbering,
    }


#: The parts of the breakdown that add up to the whole.
PARTS = ("the loop", "array layer (types, wrapper)", "core: lookup that finds", "core: making and entering a node")


def profile(functions: int) -> str:
    """Profile by function of a mixed program, the most expensive ones first."""
    import drjit as dr
    from drjit.llvm import Array3f, Float

    x = dr.arange(Float, 1000) / 1000
    v = Array3f(x, x + 1, x * 2)
    dr.eval(x, v)
    profiler = cProfile.Profile()
    profiler.enable()
    a, b = x, v
    for k in range(COUNT // 4):
        a = a * x + 0.5
        b = b * v + (0.25 + k % 7)
    profiler.disable()
    text = io.StringIO()
    statistics_ = pstats.Stats(profiler, stream=text)
    statistics_.strip_dirs().sort_stats("tottime").print_stats(functions)
    lines = text.getvalue().splitlines()
    start = next((k for k, line in enumerate(lines) if line.lstrip().startswith("ncalls")), 0)
    return "\n".join(line for line in lines[start:] if line.strip())


# --- reporting -------------------------------------------------------------------------------------------------------


def table(results: list[Result]) -> str:
    """Cases against budget and peer."""
    lines = [("us an operation", "ours", "spread", "budget", "", "peer", "ours/peer")]
    for result in results:
        limit = budget_of(result.name)
        ours, theirs = result.median("ours"), result.median("peer")
        if ours is None:
            lines.append((result.name, "-", "", f"{limit:.1f}", result.agreement, "", ""))
            continue
        values = result.values["ours"]
        lines.append((result.name, f"{ours:.2f}", f"{min(values):.2f}-{max(values):.2f}", f"{limit:.1f}",
                      "ok" if ours <= limit else "OVER", f"{theirs:.2f}" if theirs else "",
                      f"{ours / theirs:.1f}" if theirs else ""))
    widths = [max(len(line[k]) for line in lines) for k in range(7)]
    text = ["  ".join(cell.ljust(width) if k in (0, 4) else cell.rjust(width)
                      for k, (cell, width) in enumerate(zip(line, widths, strict=True))).rstrip() for line in lines]
    text.insert(1, "-" * max(map(len, text)))
    return "\n".join(text)


def plot(results: list[Result], parts: dict[str, float], file: Path) -> bool:
    """Cases with their budget, and the breakdown; returns whether matplotlib is there to draw them."""
    try:
        import matplotlib
    except ModuleNotFoundError:
        return False
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    measured = [result for result in results if result.median("ours") is not None]
    figure, (left, right) = plt.subplots(1, 2, figsize=(14, 5), width_ratios=(1.35, 1))
    for row, result in enumerate(measured):
        ours, theirs, limit = result.median("ours") or 0.0, result.median("peer"), budget_of(result.name)
        left.barh(row, ours, color="#2a7f62" if ours <= limit else "#c8553d", height=0.62)
        left.plot([limit, limit], [row - 0.42, row + 0.42], color="#222222", linewidth=2)
        if theirs:
            left.barh(row, theirs, color="#f4a259", height=0.26)
        left.annotate(f"{ours:.2f}", (max(ours, limit), row), (6, 0), textcoords="offset points", va="center",
                      fontsize=9, color="#444444")
    left.set_yticks(range(len(measured)), [result.name.removeprefix("trace ") for result in measured])
    left.set_title("µs an operation (black: the budget; orange: the peer)", fontsize=11, loc="left")
    names = list(parts)
    colors = ["#2f6690" if name in PARTS else "#81a4bd" if not name.startswith("bare") else "#c9d6df" for name in names]
    right.barh(range(len(names)), list(parts.values()), color=colors, height=0.62)
    for row, value in enumerate(parts.values()):
        right.annotate(f"{value:.2f}", (max(value, 0), row), (6, 0), textcoords="offset points", va="center",
                       fontsize=9, color="#444444")
    right.set_yticks(range(len(names)), names)
    right.set_title("where it goes (dark: the parts of a * b)", fontsize=11, loc="left")
    for axis in (left, right):
        axis.invert_yaxis()
        axis.spines[["top", "right", "left"]].set_visible(False)
        axis.tick_params(axis="y", length=0, labelsize=9.5)
        axis.grid(axis="x", color="#dddddd", linewidth=0.7)
        axis.set_axisbelow(True)
        axis.margins(x=0.12)
    figure.tight_layout()
    figure.savefig(file, dpi=120)
    plt.close(figure)
    return True


def main() -> None:
    """Measure, print tables, write the plot."""
    parser = argparse.ArgumentParser(description="Measure the cost of tracing.")
    parser.add_argument("--peer", default=os.environ.get("DRJIT_PEER_PYTHON") or None, metavar="PYTHON",
                        help="interpreter that has the peer (default: $DRJIT_PEER_PYTHON, else none)")
    parser.add_argument("--runs", type=int, default=5, metavar="N", help="alternating runs (default: %(default)s)")
    parser.add_argument("--functions", type=int, default=14, metavar="N", help="lines of the profile by function")
    options = parser.parse_args()
    if options.runs < 1:
        parser.error("--runs must be at least 1")
    results = list(measure(sides(options.peer), [PROGRAMS / "tracing.py"], options.runs, 1).values())
    print(table(results))
    parts = breakdown()
    print("\nwhere the time goes                  us")
    for name, value in parts.items():
        print(f"  {name:34} {value:5.2f}" + ("  +" if name in PARTS else ""))
    print(f"\nprofile by function, {COUNT} operations (the profiler inflates small functions)\n")
    print(profile(options.functions))
    OUTPUT.mkdir(parents=True, exist_ok=True)
    if plot(results, parts, OUTPUT / "tracing.png"):
        print(f"\nwrote {OUTPUT / 'tracing.png'}")
    else:
        print('\nno plot: matplotlib is not installed (pip install "drjit-python[dev]")')


if __name__ == "__main__":
    main()
