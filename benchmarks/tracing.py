"""What tracing and launching cost in both forms of this project, against what they should.

.. code-block:: shell

    python benchmarks/tracing.py [--peer PYTHON] [--against CHECKOUT] [--runs 5] [--only PROGRAM …]

The columns are *compiled* and *plain*, the forms of this checkout (see ``drjit_core/rooms.py``); *before*, another
checkout of this project that ``--against`` names, such as a ``git worktree`` of the commit that a change started from;
and the *peer*.  All alternate within each run (see ``runner.py``).  ``peer/compiled`` and ``before/plain`` are ratios
of times: the speed of the second relative to the first, the median of the runs.  Beside them stands what a form should
reach, a time at most or a speed at least, and whether it does.

Writes ``benchmarks/out/tracing.json`` and a plot beside it.  Where the time goes is drawn by ``stages.py``.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import import_time
from runner import (
    OUTPUT,
    PROGRAMS,
    Result,
    Side,
    aligned,
    checkout,
    forms,
    geometric_mean,
    measure,
    report_failures,
    shown,
    unframe,
    warn_if_busy,
)

#: What is measured: programs of ``programs/``, and the import.
MEASURED = ("operations", "small_kernels", "live_objects", "from_disk", "recordings", "import_time")
OURS_ALONE = ("from_disk", "recordings")  #: Programs that look into this project.


class Target(NamedTuple):
    """What a form should reach: at most a value or, relative to another side, at least a speed."""

    limit: float
    base: str = ""

    def text(self, unit: str) -> str:
        """The target in words, of a value with a unit."""
        return f">= {self.limit:.2f}x {self.base}" if self.base else f"<= {shown(self.limit, unit)}"


class Group(NamedTuple):
    """Rows of the table: what the names of their results begin with, or the names of all."""

    title: str
    prefix: str = ""
    names: tuple[str, ...] = ()
    #: Of each row, and of their geometric mean, by form.
    targets: dict[str, Target] = {}  # noqa: RUF012  (never changed)
    mean: dict[str, Target] = {}  # noqa: RUF012

    def rows(self, results: dict[str, Result]) -> dict[str, Result]:
        """The results of this group, by the titles of their rows."""
        if self.names:
            return {name: results[name] for name in self.names if name in results}
        return {name.removeprefix(self.prefix): result for name, result in results.items()
                if name.startswith(self.prefix)}


NOT_SLOWER = {"plain": Target(1 / 1.3, "before")}
OPERATIONS: dict[str, Any] = {"targets": {"compiled": Target(0.7, "peer")},
                              "mean": {"compiled": Target(1, "peer"), "plain": Target(0.8, "before")}}
GROUPS = (
    Group("one operation",
          names=("a node made and numbered in the core", "a node of a thousand that an operator makes"),
          targets={"compiled": Target(0.06), **NOT_SLOWER}),
    Group("a + b on Float", names=("new: Float + Float", "numbered: Float + Float"),
          targets={"compiled": Target(1 / 1.2, "peer"), **NOT_SLOWER}),
    Group("new, value numbering off", "new, unnumbered: ", **OPERATIONS),
    Group("new, value numbering on", "new: ", **OPERATIONS),
    Group("found by value numbering", "numbered: ", **OPERATIONS),
    Group("launching", names=("cached 2-operation kernel, asynchronous",),
          targets={"compiled": Target(3), **NOT_SLOWER}),
    Group("", names=("cached 2-operation kernel, with a sync",), targets={"compiled": Target(5), **NOT_SLOWER}),
    Group("", names=("dependent chain of kernels of 100 operations",), targets={"compiled": Target(1, "peer")}),
    Group("", names=("32 kernels of 32 sizes in one evaluation", "readback of one evaluated number",
                     "readback of one number that a kernel computes"), targets={"compiled": Target(0.8, "peer")}),
    Group("", names=("1k operations from a warm disk, beyond linking",), targets={"compiled": Target(0.6e-3)}),
    Group("", names=("1k operations once more",)),
    Group("replays of recordings", names=("replay: 1 operations, 1 kernel", "replay: 100 operations, 1 kernel"),
          targets={"compiled": Target(4)}),
    Group("", names=("replay: 300 operations, 1 kernel", "replay: 100 operations, 4 kernels",
                     "replay: 300 operations, 4 kernels"), targets={"compiled": Target(6)}),
    Group("", names=("replay: 10 arguments",), targets={"compiled": Target(9)}),
    Group("", names=("replay: 100 arguments",), targets={"compiled": Target(56)}),
    Group("memory", names=("memory of a node", "memory of an array object"), targets={"compiled": Target(2, "before")}),
    Group("", names=("tracing with the garbage collector, 100k live nodes",), targets={"compiled": Target(1.1)}),
    Group("import", names=(import_time.IMPORT, import_time.TYPES)),
)


def measured(compared: list[Side], runs: int, only: list[str]) -> dict[str, Result]:
    """All rows, the sides alternating."""
    results: dict[str, Result] = {}
    if "import_time" in only:  # first: what cannot be imported is reported at once
        results |= import_time.measure(compared, runs)
    ours = [side for side in compared if side.name != "peer"]
    for name in MEASURED[:-1]:
        if name in only:
            results |= measure(ours if name in OURS_ALONE else compared, [PROGRAMS / f"{name}.py"], runs, 1)
    return results


def speed(result: Result, side: str, base: str) -> float | None:
    """The speed of a side relative to another one: the median over the runs."""
    ratios = result.relative(base, side)
    return statistics.median(ratios) if ratios else None


def mean_speed(rows: dict[str, Result], side: str, base: str) -> float | None:
    """Geometric mean of the speeds of a side relative to another one."""
    speeds = [found for result in rows.values() if (found := speed(result, side, base))]
    return geometric_mean(speeds) if speeds else None


# --- reporting -------------------------------------------------------------------------------------------------------


class Row(NamedTuple):
    """A line of the table, with what it should be."""

    title: str
    values: dict[str, float]
    unit: str
    speeds: dict[tuple[str, str], float]
    targets: dict[str, Target]
    note: str = ""

    def target(self, form: str) -> str:
        """What a form should reach, in words; empty if that is nothing."""
        return self.targets[form].text(self.unit) if form in self.targets else ""

    def holds(self, form: str) -> bool | None:
        """Whether a form reaches its target; None if it has none, or it was not measured."""
        target = self.targets.get(form)
        if target is None:
            return None
        if target.base:
            found = self.speeds.get((form, target.base))
            return None if found is None else found >= target.limit
        return self.values[form] <= target.limit if form in self.values else None


#: Ratios that are shown.
SPEEDS = (("compiled", "peer"), ("plain", "before"))


def rows_of(group: Group, results: dict[str, Result]) -> Iterator[Row]:
    """The rows of a group, the last of which may be their mean."""
    members = group.rows(results)
    compared = {(form, target.base) for form, target in (group.targets | group.mean).items() if target.base}
    compared.update(SPEEDS)
    for title, result in members.items():
        values = {side: value for side in result.values if (value := result.median(side)) is not None}
        speeds = {pair: found for pair in compared if (found := speed(result, *pair))}
        yield Row(title, values, result.unit, speeds, group.targets,
                  "" if result.errors or result.agreement == "same" else result.agreement)
    if group.mean and members:
        speeds = {pair: found for pair in compared if (found := mean_speed(members, *pair))}
        yield Row("geometric mean", {}, "", speeds, group.mean)


def table(results: dict[str, Result]) -> list[tuple[str, list[Row]]]:
    """Rows by the titles of their groups; groups that nothing was measured of are left out."""
    found = [(group.title, list(rows_of(group, results))) for group in GROUPS]
    return [(title, rows) for title, rows in found if rows]


def text(groups: list[tuple[str, list[Row]]], sides: list[str]) -> str:
    """The table as text."""
    pairs = [pair for pair in SPEEDS if set(pair) <= set(sides)]
    aimed = [form for form in ("compiled", "plain") if form in sides]
    lines: list[tuple[str, ...]] = [(
        "", *sides, *(f"{base}/{form}" for form, base in pairs),
        *(cell for form in aimed for cell in (f"{form} should be", "")), "")]
    for title, rows in groups:
        if title:
            lines.append((title, *[""] * (len(lines[0]) - 1)))
        for row in rows:
            verdicts = {True: "ok", False: "MISSED", None: ""}
            lines.append((
                "  " + row.title, *(shown(row.values.get(side), row.unit) if row.values else "" for side in sides),
                *(f"{row.speeds[pair]:.2f}" if pair in row.speeds else "" for pair in pairs),
                *(cell for form in aimed for cell in (row.target(form), verdicts[row.holds(form)])),
                row.note))
    return aligned(lines, left=(0, len(lines[0]) - 1))


def document(groups: list[tuple[str, list[Row]]], results: dict[str, Result], runs: int) -> dict[str, Any]:
    """All that was measured and found, as JSON has it."""
    rows = [{"group": title, "title": row.title, "unit": row.unit, "medians": row.values,
             "speeds": {f"{base}/{form}": value for (form, base), value in row.speeds.items()},
             "targets": {form: {"target": row.target(form), "holds": row.holds(form)} for form in row.targets}}
            for title, rows in groups for row in rows]
    values = {result.name: {"values": result.values, "errors": result.errors, "agreement": result.agreement}
              for result in results.values()}
    return {"runs": runs, "rows": rows, "results": values}


COLORS = {"before": "#b9c6cf", "plain": "#2f6690", "compiled": "#2a7f62", "peer": "#f4a259"}


def plot(results: dict[str, Result], file: Path) -> bool:
    """Operations in the three situations, a bar a side; returns whether matplotlib is there to draw them."""
    try:
        import matplotlib
    except ModuleNotFoundError:
        return False
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    panels = {group.title: rows for group in GROUPS if group.prefix and (rows := group.rows(results))}
    if not panels:
        return True
    drawn = [side for side in COLORS if any(side in result.values for result in results.values())]
    height = 0.84 / len(drawn)
    size = (6.2 * len(panels), 1.6 + 0.45 * max(map(len, panels.values())))
    figure, axes = plt.subplots(1, len(panels), figsize=size, sharex=True, sharey=True, squeeze=False)
    for axis, (title, rows) in zip(axes[0], panels.items(), strict=True):
        for number, side in enumerate(drawn):
            offset = (number - (len(drawn) - 1) / 2) * height
            bars = {row: value for row, result in enumerate(rows.values()) if (value := result.median(side))}
            axis.barh([row + offset for row in bars], list(bars.values()), color=COLORS[side], height=height * 0.92,
                      label=side)
        axis.set_xscale("log")
        axis.xaxis.set_major_formatter(lambda value, position: f"{value:g}")
        axis.set_yticks(range(len(rows)), list(rows))
        axis.set_title(f"µs an operation, {title}", fontsize=11, loc="left")
        axis.margins(y=0.01)
        unframe(axis)
        axis.yaxis.set_inverted(True)  # the panels share it
    axes[0, 0].legend(frameon=False, fontsize=9)
    figure.tight_layout()
    figure.savefig(file, dpi=120)
    plt.close(figure)
    return True


# --- the program -----------------------------------------------------------------------------------------------------


def main() -> None:
    """Measure, print the table, write JSON and plot."""
    parser = argparse.ArgumentParser(description="Measure what tracing and launching cost.")
    parser.add_argument("--peer", default=os.environ.get("DRJIT_PEER_PYTHON") or None, metavar="PYTHON",
                        help="interpreter that has the peer (default: $DRJIT_PEER_PYTHON, else none)")
    parser.add_argument("--against", type=Path, metavar="CHECKOUT", help="another checkout of this project: 'before'")
    parser.add_argument("--runs", type=int, default=5, metavar="N", help="alternating runs (default: %(default)s)")
    parser.add_argument("--only", nargs="+", default=list(MEASURED), choices=MEASURED, metavar="PROGRAM",
                        help=f"some of {', '.join(MEASURED)} (default: all)")
    options = parser.parse_args()
    if options.runs < 1:
        parser.error("--runs must be at least 1")
    if options.against and not (options.against / "drjit" / "__init__.py").is_file():
        parser.error(f"--against: {str(options.against)!r} is not a checkout of this project: it has no drjit/")
    warn_if_busy()
    compared = forms()
    if options.against:
        compared.append(checkout("before", options.against.resolve()))
    if options.peer:
        compared.append(Side("peer", options.peer))
    results = measured(compared, options.runs, options.only)
    groups = table(results)
    print(text(groups, [side.name for side in compared]))
    report_failures(results)
    print(f"\nMedians of {options.runs} alternating runs; a ratio is the median of those of the runs, above 1 where "
          "the side named last is the faster one.")
    OUTPUT.mkdir(parents=True, exist_ok=True)
    file = OUTPUT / "tracing.json"
    file.write_text(json.dumps(document(groups, results, options.runs), indent=1) + "\n")
    print(f"wrote {file}")
    drawing = file.with_suffix(".png")
    print(f"wrote {drawing}" if plot(results, drawing) else
          'no plot: matplotlib is not installed (pip install "drjit-python[dev]")')


if __name__ == "__main__":
    main()
