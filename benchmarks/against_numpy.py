"""How tensors compare with NumPy, and with a peer that has the same interface.

    python benchmarks/against_numpy.py [--peer PYTHON] [--runs 5] [--plain] [--only TEXT]

Runs ``programs/tensors.py`` on each side by turns, in fresh processes, and prints the medians of the runs' times and
ratios.  The plot is ``benchmarks/out/against_numpy.png``.  The peer's interpreter may also be named by
``DRJIT_PEER_PYTHON``.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent
PROGRAM = HERE / "programs" / "tensors.py"


def run(python: str, environment: dict[str, str], own: bool) -> dict[str, tuple[float, float]]:
    """Seconds and checksums of the cases, by their names."""
    with tempfile.TemporaryDirectory() as home:
        variables = {**os.environ, "HOME": home, "XDG_CACHE_HOME": home, **environment}
        variables.pop("PYTHONPATH", None)
        if own:
            variables["PYTHONPATH"] = os.pathsep.join((str(HERE.parent), str(HERE.parent / "compiler")))
        done = subprocess.run([python, str(PROGRAM)], env=variables, capture_output=True, text=True, timeout=900)
    found = {}
    for line in done.stdout.splitlines():
        entry = json.loads(line)
        if "value" in entry and entry["value"] is not None:
            found[entry["name"]] = (entry["value"], entry["checksum"])
    if done.returncode and not found:
        raise RuntimeError(done.stderr[-2000:])
    return found


def main() -> None:
    """Measure, print and draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer", default=os.environ.get("DRJIT_PEER_PYTHON"))
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--plain", action="store_true", help="the tracer uncompiled as well")
    parser.add_argument("--only", default="", help="cases whose names contain a text")
    options = parser.parse_args()
    sides = {"ours": (sys.executable, {"BENCH_ONLY": options.only}, True),
             "numpy": (sys.executable, {"BENCH_NUMPY": "1", "BENCH_ONLY": options.only}, False)}
    if options.plain:
        sides["plain"] = (sys.executable, {"DRJIT_PURE": "1", "BENCH_ONLY": options.only}, True)
    if options.peer:
        sides["peer"] = (options.peer, {"BENCH_ONLY": options.only}, False)
    runs: list[dict[str, dict[str, tuple[float, float]]]] = []
    for number in range(options.runs):
        order = list(sides) if number % 2 == 0 else list(sides)[::-1]
        runs.append({side: run(*sides[side]) for side in order})
        print(f"run {number + 1} of {options.runs}", file=sys.stderr)
    others = [side for side in sides if side != "ours"]
    print(f"{'case':46} {'ours':>9} " + " ".join(f"{side + ' / ours':>16}" for side in others))
    rows = []
    for name in runs[0]["ours"]:
        own = [each["ours"][name][0] for each in runs]
        row = [statistics.median(own) * 1e3]
        for side in others:
            ratios = [each[side][name][0] / each["ours"][name][0] for each in runs if name in each[side]]
            row.append(statistics.median(ratios) if ratios else float("nan"))
            for each in runs:
                if name in each[side]:
                    ours, theirs = each["ours"][name][1], each[side][name][1]
                    if abs(ours - theirs) > 1e-3 * max(abs(ours), abs(theirs)):
                        print(f"checksums differ: {name}: {ours} {theirs} ({side})", file=sys.stderr)
        rows.append((name, row))
        print(f"{name:46} {row[0]:9.3f} " + " ".join(f"{ratio:16.2f}" for ratio in row[1:]))
    (HERE / "out").mkdir(exist_ok=True)
    (HERE / "out" / "against_numpy.json").write_text(json.dumps({"sides": others, "rows": rows}, indent=1))
    draw(rows, others)


def draw(rows: list[tuple[str, list[float]]], others: list[str]) -> None:
    """A bar for each case: how many times as long the others take."""
    try:
        import matplotlib
    except ImportError:
        return
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(9, 0.34 * len(rows) + 1), layout="constrained")
    height = 0.8 / len(others)
    for number, side in enumerate(others):
        axes.barh([place + number * height for place in range(len(rows))], [row[1 + number] for _, row in rows], height,
                  label=side)
    axes.set_yticks([place + 0.4 - height / 2 for place in range(len(rows))], [name for name, _ in rows], fontsize=7)
    axes.set_xscale("log")
    axes.axvline(1, color="black", linewidth=0.8)
    axes.invert_yaxis()
    axes.set_xlabel("time of the other side / ours")
    axes.legend()
    figure.savefig(HERE / "out" / "against_numpy.png", dpi=150)


if __name__ == "__main__":
    main()
