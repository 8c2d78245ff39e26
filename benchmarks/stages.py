"""Where the time of an operation, a launch and a chain of operations goes, by stage, in both forms: a picture.

.. code-block:: shell

    python benchmarks/stages.py [--peer PYTHON] [--runs 5]

The stages are measured by ``programs/stages.py`` in fresh processes, the forms alternating (see ``runner.py``); of a
peer there are totals only.  Writes ``benchmarks/out/stages.json`` and ``stages.png``.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

from runner import OUTPUT, PROGRAMS, Result, Side, aligned, forms, measure, report_failures, unframe, warn_if_busy

#: Prefix and title of the panels, and the name of a total.
PANELS = {"operation": "a * b on Float", "launch": "tracing and launching 2 operations",
          "chain": "tracing and launching 100 operations"}
ALL = "in all"
COLORS = {"plain": "#2f6690", "compiled": "#2a7f62"}


def panel(results: dict[str, Result], name: str) -> dict[str, Result]:
    """The results of a panel, by stage, without those that no side has."""
    return {key.removeprefix(f"{name}: "): result for key, result in results.items()
            if key.startswith(f"{name}: ") and result.values}


def table(results: dict[str, Result], sides: list[str]) -> str:
    """The stages as text."""
    lines: list[tuple[str, ...]] = [("us", *sides)]
    for name, title in PANELS.items():
        lines.append((title, *[""] * len(sides)))
        for stage, result in panel(results, name).items():
            values = [result.median(side) for side in sides]
            lines.append((f"  {stage}", *("" if value is None else f"{value:.2f}" for value in values)))
    return aligned(lines, left=(0,))


def plot(results: dict[str, Result], file: Path) -> bool:
    """Bars side by side for both forms, the peer's total as a line; returns whether matplotlib is there to do it."""
    try:
        import matplotlib
    except ModuleNotFoundError:
        return False
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    drawn = [side for side in COLORS if any(side in result.values for result in results.values())]
    height = 0.8 / len(drawn)
    figure, axes = plt.subplots(1, len(PANELS), figsize=(19, 5.2))
    for axis, (name, title) in zip(axes, PANELS.items(), strict=True):
        stages = panel(results, name)
        for number, side in enumerate(drawn):
            offset = (number - (len(drawn) - 1) / 2) * height
            bars = {row: value for row, result in enumerate(stages.values())
                    if (value := result.median(side)) is not None}
            axis.barh([row + offset for row in bars], list(bars.values()), color=COLORS[side], height=height * 0.92,
                      label=side)
            for row, value in bars.items():
                axis.annotate(f"{value:.2f}", (max(value, 0), row + offset), (4, 0), textcoords="offset points",
                              va="center", fontsize=8, color="#444444")
        total = stages[ALL].median("peer") if ALL in stages else None
        if total is not None:
            axis.axvline(total, color="#f4a259", linewidth=2, label=f"peer, in all: {total:.2f}")
        axis.set_yticks(range(len(stages)), list(stages))
        axis.set_title(f"{title} (µs)", fontsize=11, loc="left")
        axis.legend(frameon=False, fontsize=9, loc="lower right")
        axis.margins(x=0.12)
        unframe(axis)
    figure.tight_layout()
    figure.savefig(file, dpi=120)
    plt.close(figure)
    return True


def main() -> None:
    """Measure, print the table, write JSON and the picture."""
    parser = argparse.ArgumentParser(description="Measure where the time of tracing and launching goes.")
    parser.add_argument("--peer", default=os.environ.get("DRJIT_PEER_PYTHON") or None, metavar="PYTHON",
                        help="interpreter that has the peer (default: $DRJIT_PEER_PYTHON, else none)")
    parser.add_argument("--runs", type=int, default=5, metavar="N", help="alternating runs (default: %(default)s)")
    options = parser.parse_args()
    if options.runs < 1:
        parser.error("--runs must be at least 1")
    warn_if_busy()
    compared = [*forms(), *([Side("peer", options.peer)] if options.peer else [])]
    results = measure(compared, [PROGRAMS / "stages.py"], options.runs, 1)
    print(table(results, [side.name for side in compared]))
    report_failures(results)
    print(f"\nMedians of {options.runs} alternating runs; what begins with 'more' comes on top of the total.")
    OUTPUT.mkdir(parents=True, exist_ok=True)
    file = OUTPUT / "stages.json"
    document = {name: {stage: result.values for stage, result in panel(results, name).items()} for name in PANELS}
    file.write_text(json.dumps({"runs": options.runs, "us": document}, indent=1) + "\n")
    print(f"wrote {file}")
    drawing = file.with_suffix(".png")
    print(f"wrote {drawing}" if plot(results, drawing) else
          'no plot: matplotlib is not installed (pip install "drjit-python[dev]")')


if __name__ == "__main__":
    main()
