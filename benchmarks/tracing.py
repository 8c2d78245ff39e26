"""What tracing an operation costs, against its budget, and where the time goes.

.. code-block:: shell

    python benchmarks/tracing.py [--peer PYTHON] [--runs 5] [--functions N]
    python benchmarks/tracing.py --table [--against CHECKOUT] [--peer PYTHON] [--runs 5]

The budget is 1.5 us for an operation on ``Float`` and 4 us on ``Array3f``, Python's garbage collector as users have it.
The cases are those of ``programs/tracing.py``, run in fresh processes and, given the interpreter of a peer, alternating
with it (see ``runner.py``).  The breakdown is taken in this process from loops that leave one layer out each, which
disturbs less than a profiler; a profile by function follows.  Writes a plot to ``benchmarks/out/tracing.png``.

With ``--table`` it measures operation by operation instead (``programs/tracing_table.py``), along with the launch of a
cached kernel, the import and the making of all types.  ``--against`` names the root of another checkout of this
project, such as a ``git worktree`` of the commit that a change started from: what it takes is the column *before*, this
checkout is *after*, and both alternate with the peer.  Writes ``benchmarks/out/tracing_table.json`` and a plot beside
it.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import io
import json
import os
import pstats
import statistics
import sys
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import import_time
from runner import (
    OUTPUT,
    PROGRAMS,
    ROOT,
    Result,
    aligned,
    geometric_mean,
    measure,
    record,
    shown,
    sides,
    unframe,
    warn_if_busy,
)

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
    return aligned(lines, left=(0, 4))


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
        unframe(axis)
        axis.margins(x=0.12)
    figure.tight_layout()
    figure.savefig(file, dpi=120)
    plt.close(figure)
    return True


# --- the table of operations -----------------------------------------------------------------------------------------

#: How the rows are grouped: what their names begin with, and the title.  The last group has all others.
GROUPS = {"new: ": "each value new (value numbering off)", "found: ": "each value found (value numbering on)",
          "": "launching and importing"}


def measured_table(peer: str | None, against: Path | None, runs: int) -> dict[str, Result]:
    """All rows of the table, the sides alternating."""
    compared = sides(peer, against)
    imports = import_time.measure(compared, runs)  # first: what cannot be imported is reported at once
    return measure(compared, [PROGRAMS / "tracing_table.py", PROGRAMS / "small_kernels.py"], runs, 1) | imports


def grouped(results: dict[str, Result]) -> dict[str, dict[str, Result]]:
    """The results by the prefix of their group, under their names without it."""
    groups: dict[str, dict[str, Result]] = {prefix: {} for prefix in GROUPS}
    for name, result in results.items():
        prefix = next(prefix for prefix in GROUPS if name.startswith(prefix))
        groups[prefix][name.removeprefix(prefix)] = result
    return groups


def median_ratio(result: Result, side: str, other: str) -> float | None:
    """Median over the runs of the value of one side over that of another."""
    ratios = result.relative(side, other)
    return statistics.median(ratios) if ratios else None


def comparison(results: dict[str, Result]) -> str:
    """The table as text: the columns of the sides that were measured, and the means of their ratios by group."""
    present = {side for result in results.values() for side in result.values}
    after = "after" if "before" in present else "ours"
    columns: list[tuple[str, tuple[str, ...]]] = [(after, ("ours",))]  # a title; a side, or two whose ratio it is
    if "before" in present:
        columns = [("before", ("before",)), *columns, ("after/before", ("ours", "before"))]
    if "peer" in present:
        columns += [("peer", ("peer",)), (f"peer/{after}", ("peer", "ours"))]

    def row(name: str, result: Result) -> tuple[str, ...]:
        cells = []
        for _, compared in columns:
            if len(compared) == 1:
                cells.append(shown(result.median(compared[0]), result.unit))
            else:
                ratio = median_ratio(result, *compared)
                cells.append(f"{ratio:.2f}" if ratio else "-")
        return ("  " + name, *cells, "" if result.agreement == "same" else result.agreement)

    def means(name: str, members: list[Result]) -> tuple[str, ...]:
        cells = []
        for _, compared in columns:
            ratios = [ratio for member in members if len(compared) == 2 and (ratio := median_ratio(member, *compared))]
            cells.append(f"{geometric_mean(ratios):.2f}" if ratios else "")
        return (name, *cells, "")

    lines: list[tuple[str, ...]] = [("operation", *(title for title, _ in columns), "")]
    operations: list[Result] = []
    for prefix, members in grouped(results).items():
        lines.append((GROUPS[prefix], *("" for _ in columns), ""))
        lines += [row(name, member) for name, member in members.items()]
        if prefix:
            operations += members.values()
            lines.append(means("  geometric mean", list(members.values())))
    lines.append(means("geometric mean of all operations", operations))
    return aligned(lines, left=(0, len(columns) + 1))


def plot_table(results: dict[str, Result], file: Path) -> bool:
    """Operations new and found, a bar a side; returns whether matplotlib is there to draw them."""
    try:
        import matplotlib
    except ModuleNotFoundError:
        return False
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    panels = {prefix: members for prefix, members in grouped(results).items() if prefix}
    present = {side for result in results.values() for side in result.values}
    colors = {"before": "#b9c6cf", "ours": "#2a7f62", "peer": "#f4a259"}
    drawn = [side for side in colors if side in present]
    titles = {"before": "before", "ours": "after" if "before" in present else "ours", "peer": "peer"}
    height = 0.8 / len(drawn)
    figure, axes = plt.subplots(1, len(panels), figsize=(15, 1.6 + 0.4 * max(map(len, panels.values()))), sharex=True)
    for axis, (prefix, members) in zip(axes, panels.items(), strict=True):
        for number, side in enumerate(drawn):
            offset = (number - (len(drawn) - 1) / 2) * height
            bars = {row: value for row, member in enumerate(members.values()) if (value := member.median(side))}
            axis.barh([row + offset for row in bars], list(bars.values()), color=colors[side], height=height * 0.92,
                      label=titles[side])
        axis.set_xscale("log")
        axis.xaxis.set_major_formatter(lambda value, position: f"{value:g}")
        axis.set_yticks(range(len(members)), list(members))
        axis.set_title(f"µs an operation, {GROUPS[prefix]}", fontsize=11, loc="left")
        unframe(axis)
        axis.margins(y=0.01)
    axes[0].legend(frameon=False, fontsize=9)
    figure.tight_layout()
    figure.savefig(file, dpi=120)
    plt.close(figure)
    return True


def report_table(results: dict[str, Result], runs: int) -> None:
    """Print the table, write its values and its plot."""
    print(comparison(results))
    print(f"\nMedians of {runs} alternating runs; a ratio is the median of those of the runs, below 1 the side named "
          "first took less time.")
    OUTPUT.mkdir(parents=True, exist_ok=True)
    file = OUTPUT / "tracing_table.json"
    file.write_text(json.dumps({"runs": runs, "results": record(results)}, indent=1) + "\n")
    print(f"wrote {file}")
    announce(plot_table(results, file.with_suffix(".png")), file.with_suffix(".png"))


# --- the program -----------------------------------------------------------------------------------------------------


def announce(drawn: bool, file: Path) -> None:
    """Say where a plot is, or why there is none."""
    print(f"wrote {file}" if drawn else 'no plot: matplotlib is not installed (pip install "drjit-python[dev]")')


def main() -> None:
    """Measure, print tables, write the plot."""
    parser = argparse.ArgumentParser(description="Measure the cost of tracing.")
    parser.add_argument("--peer", default=os.environ.get("DRJIT_PEER_PYTHON") or None, metavar="PYTHON",
                        help="interpreter that has the peer (default: $DRJIT_PEER_PYTHON, else none)")
    parser.add_argument("--runs", type=int, default=5, metavar="N", help="alternating runs (default: %(default)s)")
    parser.add_argument("--functions", type=int, default=14, metavar="N", help="lines of the profile by function")
    parser.add_argument("--table", action="store_true", help="measure operation by operation instead")
    parser.add_argument("--against", type=Path, metavar="CHECKOUT",
                        help="with --table: another checkout of this project, the column 'before'")
    options = parser.parse_args()
    if options.runs < 1:
        parser.error("--runs must be at least 1")
    if options.against:
        if not options.table:
            parser.error("--against needs --table")
        if not (options.against / "drjit" / "__init__.py").is_file():
            parser.error(f"--against: {str(options.against)!r} is not a checkout of this project: it has no drjit/")
    warn_if_busy()
    if options.table:
        against = options.against.resolve() if options.against else None
        report_table(measured_table(options.peer, against, options.runs), options.runs)
        return
    results = list(measure(sides(options.peer), [PROGRAMS / "tracing.py"], options.runs, 1).values())
    print(table(results))
    parts = breakdown()
    print("\nwhere the time goes                  us")
    for name, value in parts.items():
        print(f"  {name:34} {value:5.2f}" + ("  +" if name in PARTS else ""))
    print(f"\nprofile by function, {COUNT} operations (the profiler inflates small functions)\n")
    print(profile(options.functions))
    OUTPUT.mkdir(parents=True, exist_ok=True)
    print()
    announce(plot(results, parts, OUTPUT / "tracing.png"), OUTPUT / "tracing.png")


if __name__ == "__main__":
    main()
