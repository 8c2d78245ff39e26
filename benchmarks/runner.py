"""Compare this project with a peer that has the same interface: the same programs, alternating, in fresh processes.

.. code-block:: shell

    python benchmarks/runner.py [--peer PYTHON] [--runs 5] [--only WORD …] [--scale N] [--backend cuda]

``--peer`` (or ``DRJIT_PEER_PYTHON`` in the environment) is the interpreter of a virtual environment in which
``import drjit`` finds the peer; without one, only this project is measured.  The programs are the files of
``benchmarks/programs``.  Each run executes each of them once on either side, one after the other and in changing order,
so that whatever else the machine does meets both; a program warms up by itself and reports medians.  The figure of a
case is the median over the runs of *the peer's time over ours*: 1 is the same speed, and at least 0.95 counts as equal.
Checksums prove that both sides computed the same.  The ceilings of the machine are measured in the same run.  With
``--backend cuda``, the programs use that package's types in the place of LLVM's.  Ctrl-C ends the measuring: what there
is by then is reported.

Every process gets an empty directory as its home, so that kernels cached on disk play a part only where a program is
about them.  Writes ``benchmarks/out/runner.json`` and a plot beside it.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PROGRAMS = ROOT / "benchmarks" / "programs"
OUTPUT = ROOT / "benchmarks" / "out"
PROLOGUE = ROOT / "conformance" / "on_backend.py"
EQUAL = 0.95  #: A speed ratio from which on we count as at least as fast.
TIMEOUT = 300  #: Seconds after which a program counts as hung.
#: Files of ``programs/`` that are not run here: what programs share, and those of ``tracing.py`` and ``stages.py``.
NOT_RUN = ("measure", "operations", "live_objects", "from_disk", "recordings", "stages")
#: Turns that the cases of programs are divided into: sides that alternate often meet the same machine.
PARTS = {"operations": 24, "small_kernels": 7, "live_objects": 3}


@dataclass(frozen=True)
class Side:
    """An interpreter, and what its environment has besides."""

    name: str
    python: str
    variables: dict[str, str] = field(default_factory=dict)
    backend: str = "llvm"

    @property
    def environment(self) -> dict[str, str]:
        """The environment that programs of this side are run in."""
        inherited = {key: value for key, value in os.environ.items()
                     if key not in ("PYTHONPATH", "PYTHONHOME", "XDG_CACHE_HOME", "DRJIT_CACHE_DIR")}
        return inherited | {"PYTHONDONTWRITEBYTECODE": ""} | self.variables

    def run(self, program: Path, arguments: tuple[str, ...], home: str, scale: int) -> list[dict[str, Any]]:
        """Run a program in a fresh process; returns its reports, the last of which may be an error."""
        environment = self.environment | {"HOME": home, "BENCH_SCALE": str(scale)}
        try:
            prologue = () if self.backend == "llvm" else (str(PROLOGUE), self.backend)
            process = subprocess.run([self.python, *prologue, str(program), *arguments], capture_output=True, text=True,
                                     cwd=home, env=environment, timeout=TIMEOUT, check=False)
        except subprocess.TimeoutExpired:
            return [{"name": program.stem, "error": f"no result after {TIMEOUT} s"}]
        except OSError as error:
            raise SystemExit(f"runner.py: {self.name}: {self.python!r} cannot be run: {error.strerror}") from error
        reports = [json.loads(line) for line in process.stdout.splitlines() if line.startswith("{")]
        if process.returncode:
            last = (process.stderr.strip().splitlines() or [f"exit status {process.returncode}"])[-1]
            reports.append({"name": program.stem, "error": last})
        return reports


@dataclass
class Result:
    """All that was measured of one case: by side, a value a run."""

    name: str
    unit: str = "s"
    bytes: float = 0
    flops: float = 0
    tolerance: float = 1e-4
    values: dict[str, list[float]] = field(default_factory=dict)
    checksums: dict[str, float] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)

    def add(self, side: str, report: dict[str, Any]) -> None:
        """Enter a report of one side."""
        if "error" in report:
            self.errors[side] = report["error"]
            return
        self.unit, self.bytes, self.flops = report["unit"], report["bytes"], report["flops"]
        self.tolerance = report["tolerance"]
        if report["value"] is None:
            return
        self.values.setdefault(side, []).append(report["value"])
        self.checksums[side] = report["checksum"]

    def median(self, side: str) -> float | None:
        """Median of the values of a side."""
        return statistics.median(self.values[side]) if side in self.values else None

    @property
    def ratios(self) -> list[float]:
        """The peer's value over ours, by run: above 1 we are faster."""
        return self.relative("peer", "ours")

    def relative(self, side: str, other: str) -> list[float]:
        """The values of one side over those of another, by run."""
        return [value / base for value, base in zip(self.values.get(side, ()), self.values.get(other, ()),
                                                    strict=False)]

    @property
    def agreement(self) -> str:
        """Do all sides compute the same?"""
        if self.errors:
            return "; ".join(f"{side} fails: {error}" for side, error in self.errors.items())
        if len(self.checksums) < 2:
            return ""
        (first, one), *others = self.checksums.items()
        for side, other in others:
            if not math.isclose(one, other, rel_tol=self.tolerance, abs_tol=self.tolerance * 1e-3):
                return f"DIFFERENT: {first} {one:.8g}, {side} {other:.8g}"
        return "same"

    def throughput(self, value: float) -> tuple[float, str] | None:
        """GFLOP/s or GB/s, where the case says what work it does."""
        if self.unit != "s":
            return None
        if self.bytes:
            return self.bytes / value * 1e-9, "GB/s"
        return (self.flops / value * 1e-9, "GFLOP/s") if self.flops else None


# --- measuring -------------------------------------------------------------------------------------------------------


def programs(words: list[str]) -> list[Path]:
    """The programs whose names contain one of the words, or all."""
    found = [path for path in sorted(PROGRAMS.glob("*.py")) if path.stem not in NOT_RUN]
    chosen = [path for path in found if not words or any(word in path.stem for word in words)]
    if not chosen:
        raise SystemExit(f"runner.py: argument --only: no program has a name with {' or '.join(map(repr, words))}; "
                         f"there are {', '.join(path.stem for path in found)}")
    return chosen


def turns(program: Path) -> Iterator[list[tuple[str, ...]]]:
    """What a side runs of a program before it is the next one's turn: arguments of processes that share a home."""
    if program.stem in ("cold_compilation", "from_disk"):
        yield [(), ("disk",)]  # kernels of the first are on disk for the second
    else:
        parts = PARTS.get(program.stem, 1)
        yield from ([(str(part), str(parts))] for part in range(parts))


def rotated(sides: list[Side], turn: int) -> list[Side]:
    """The sides in another order at each turn: each comes first as often as the others."""
    first = turn % len(sides)
    return sides[first:] + sides[:first]


def measure(sides: list[Side], chosen: list[Path], runs: int, scale: int) -> dict[str, Result]:
    """Run all programs on all sides, alternating."""
    results: dict[str, Result] = {}
    planned = [(program, turn) for program in chosen for turn in turns(program)]
    try:
        for run in range(runs):
            for number, (program, turn) in enumerate(planned):
                for side in rotated(sides, run + number):
                    print(f"\r  run {run + 1}/{runs}: {program.stem} ({side.name})".ljust(60), end="", file=sys.stderr,
                          flush=True)
                    with tempfile.TemporaryDirectory(prefix="drjit-bench-") as home:
                        for arguments in turn:
                            for report in side.run(program, arguments, home, scale):
                                results.setdefault(report["name"], Result(report["name"])).add(side.name, report)
    except KeyboardInterrupt:
        print("\nstopped", file=sys.stderr)
    print("\r" + " " * 60 + "\r", end="", file=sys.stderr)
    return results


def warn_if_busy() -> None:
    """Say when other programs keep this machine busy: ratios stand it better than times do, but not well."""
    try:
        load = os.getloadavg()[0]
    except OSError:
        return
    if load > 0.5:
        print(f"note: the load average is {load:.1f}, other programs run; expect a wide spread", file=sys.stderr)


def ceilings() -> list[dict[str, Any]]:
    """The ceilings of the machine; none where they cannot be measured."""
    command = [sys.executable, str(ROOT / "benchmarks" / "ceilings.py"), "--json"]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    if process.returncode:
        last = (process.stderr.strip().splitlines() or ["unknown"])[-1]
        print(f"the ceilings were not measured: {last}", file=sys.stderr)
        return []
    found: list[dict[str, Any]] = json.loads(process.stdout)
    return found


def higher(first: list[dict[str, Any]], second: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The higher figures of two measurements of the ceilings, before and after the programs."""
    return [max(pair, key=lambda ceiling: float(ceiling["value"])) for pair in zip(first, second, strict=False)]


# --- reporting -------------------------------------------------------------------------------------------------------


def shown(value: float | None, unit: str) -> str:
    """A value with its unit, in three digits."""
    if value is None:
        return "-"
    if unit == "s":
        factor, unit = next(((f, u) for f, u in ((1, "s"), (1e3, "ms")) if value * f >= 1), (1e6, "us"))
        value *= factor
    return f"{value:.3g} {unit}" if value < 1000 else f"{value:.0f} {unit}"


def ceiling_for(result: Result, limits: list[dict[str, Any]]) -> float | None:
    """The ceiling that bounds the throughput of a case: the best bandwidth measured, or the arithmetic peak."""
    unit = "GB/s" if result.bytes else "GFLOP/s"
    values = [limit["value"] for limit in limits if limit["unit"] == unit]
    return max(values) if values and result.unit == "s" and (result.bytes or result.flops) else None


def aligned(lines: list[tuple[str, ...]], left: tuple[int, ...]) -> str:
    """Lines of cells as a table, the first one its header; the columns ``left`` are aligned to the left."""
    widths = [max(len(line[k]) for line in lines) for k in range(len(lines[0]))]
    text = ["  ".join(cell.ljust(width) if k in left else cell.rjust(width)
                      for k, (cell, width) in enumerate(zip(line, widths, strict=True))).rstrip() for line in lines]
    text.insert(1, "-" * max(map(len, text)))
    return "\n".join(text)


def record(results: dict[str, Result]) -> list[dict[str, Any]]:
    """All that was measured, as JSON has it."""
    return [{"name": r.name, "unit": r.unit, "values": r.values, "ratios": r.ratios, "checksums": r.checksums,
             "errors": r.errors, "agreement": r.agreement} for r in results.values()]


def geometric_mean(ratios: list[float]) -> float:
    """The mean of ratios: as many times faster on one side as slower on the other gives 1."""
    return math.exp(statistics.fmean(map(math.log, ratios)))


def report_failures(results: dict[str, Result]) -> None:
    """Say which programs and cases have failed, and on which sides."""
    for result in results.values():
        for side, error in result.errors.items():
            print(f"{result.name}: {side} fails: {error}", file=sys.stderr)


def table(results: dict[str, Result], limits: list[dict[str, Any]]) -> str:
    """The table as text."""
    lines = [("", "ours", "peer", "ratio", "spread", "", "throughput", "of ceiling", "checksums")]
    for result in results.values():
        ours, theirs, ratios = result.median("ours"), result.median("peer"), result.ratios
        ratio = statistics.median(ratios) if ratios else None
        work = result.throughput(ours) if ours else None
        limit = ceiling_for(result, limits)
        lines.append((
            result.name, shown(ours, result.unit), shown(theirs, result.unit), f"{ratio:.2f}" if ratio else "-",
            f"{min(ratios):.2f}-{max(ratios):.2f}" if ratios else "",
            "" if ratio is None else "ok" if ratio >= EQUAL else "SLOWER",
            f"{work[0]:.1f} {work[1]}" if work else "", f"{work[0] / limit:.0%}" if work and limit else "",
            result.agreement))
    return aligned(lines, left=(0, 5, 8))


def summary(results: dict[str, Result], limits: list[dict[str, Any]]) -> str:
    """Ceilings, and how many cases are at least as fast."""
    text = "".join(f"{limit['name']:28} {limit['value']:8.1f} {limit['unit']}\n" for limit in limits)
    medians = [statistics.median(result.ratios) for result in results.values() if result.ratios]
    if medians:
        fast = sum(1 for ratio in medians if ratio >= EQUAL)
        text += (f"\nratio: the peer's time over ours, median of the runs; spread: the lowest and the highest.\n"
                 f"{fast} of {len(medians)} cases are at least as fast as the peer (ratio >= {EQUAL}); "
                 f"geometric mean {geometric_mean(medians):.2f}.\n")
    return text


def plot(results: dict[str, Result], limits: list[dict[str, Any]], file: Path) -> bool:
    """Draw ratios (or, without a peer, throughputs) as bars; returns whether matplotlib is there to do it."""
    try:
        import matplotlib
    except ModuleNotFoundError:
        return False
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    compared = [result for result in results.values() if result.ratios]
    working = [(result, work) for result in results.values()
               if (ours := result.median("ours")) and (work := result.throughput(ours))]
    panels = [kind for kind, entries in (("ratio", compared), ("work", working)) if entries]
    if not panels:
        return True
    rows = max(len(compared), len(working))
    figure, axes = plt.subplots(1, len(panels), figsize=(8.6 * len(panels), 1.6 + 0.29 * rows), squeeze=False)
    for axis, kind in zip(axes[0], panels, strict=True):
        if kind == "ratio":
            draw_ratios(axis, compared)
        else:
            draw_throughputs(axis, working, limits)
        unframe(axis)
    figure.tight_layout()
    figure.savefig(file, dpi=120)
    plt.close(figure)
    return True


def unframe(axis: Any) -> None:
    """The looks of all bar charts: rows from the top, a light grid, no frame."""
    axis.invert_yaxis()
    axis.spines[["top", "right", "left"]].set_visible(False)
    axis.tick_params(axis="y", length=0, labelsize=9)
    axis.grid(axis="x", color="#dddddd", linewidth=0.7)
    axis.set_axisbelow(True)


def draw_ratios(axis: Any, compared: list[Result]) -> None:
    """Speed relative to the peer, with the spread over the runs."""
    for row, result in enumerate(compared):
        ratio = statistics.median(result.ratios)
        color = "#2a7f62" if ratio >= EQUAL else "#c8553d"
        axis.barh(row, ratio - 1, left=1, color=color, height=0.66)
        axis.plot([min(result.ratios), max(result.ratios)], [row, row], color="#222222", linewidth=1.1)
        axis.annotate(f"{ratio:.2f}", (max(result.ratios) if ratio >= 1 else min(result.ratios), row),
                      (5 if ratio >= 1 else -5, 0), textcoords="offset points", va="center",
                      ha="left" if ratio >= 1 else "right", fontsize=8, color="#444444")
    axis.set_xscale("log", base=2)
    low = min(0.5, *(min(result.ratios) for result in compared))
    high = max(2.0, *(max(result.ratios) for result in compared))
    axis.set_xlim(low / 1.7, high * 1.7)
    axis.xaxis.set_major_formatter(lambda value, position: f"{value:g}" if value >= 1 else f"1/{1 / value:.0f}")
    axis.axvline(1, color="#222222", linewidth=1)
    axis.set_yticks(range(len(compared)), [result.name for result in compared])
    axis.set_title("speed relative to the peer (above 1: faster)", fontsize=11, loc="left")


def draw_throughputs(axis: Any, working: list[tuple[Result, tuple[float, str]]], limits: list[dict[str, Any]]) -> None:
    """Share of the machine's ceiling, ours and the peer's."""
    for row, (result, (work, unit)) in enumerate(working):
        limit = ceiling_for(result, limits) or work
        axis.barh(row, work / limit, color="#2f6690", height=0.66)
        theirs = result.median("peer")
        peer = result.throughput(theirs) if theirs else None
        if peer:
            axis.plot([peer[0] / limit] * 2, [row - 0.42, row + 0.42], color="#f4a259", linewidth=2.6)
        end = max(work, peer[0] if peer else 0) / limit
        axis.annotate(f"{work:.1f} {unit}", (end, row), (6, 0), textcoords="offset points", va="center",
                      fontsize=8, color="#444444")
    axis.axvline(1, color="#222222", linewidth=1)
    axis.xaxis.set_major_formatter(lambda value, position: f"{value:.0%}")
    axis.set_yticks(range(len(working)), [result.name for result, _ in working])
    axis.set_title("share of the machine's ceiling (orange: the peer)", fontsize=11, loc="left")


# --- the program -----------------------------------------------------------------------------------------------------


def checkout(name: str, root: Path, **variables: str) -> Side:
    """This project, run from one of its checkouts, with some environment variables."""
    return Side(name, sys.executable, {"PYTHONPATH": os.pathsep.join((str(root), str(root / "compiler"))), **variables})


def sides(peer: str | None, backend: str = "llvm") -> list[Side]:
    """This checkout, and the peer if there is one."""
    found = [checkout("ours", ROOT), *([Side("peer", peer)] if peer else [])]
    return [replace(side, backend=backend) for side in found]


def forms() -> list[Side]:
    """Both forms of this checkout, ``compiled`` and ``plain``; the plain one alone where the other does not run."""
    compiled, plain = checkout("compiled", ROOT, DRJIT_PURE=""), checkout("plain", ROOT, DRJIT_PURE="1")
    program = "import drjit_core; print(drjit_core.rooms_report())"
    report = subprocess.run([compiled.python, "-c", program], env=compiled.environment, capture_output=True, text=True,
                            check=True, cwd=tempfile.gettempdir()).stdout.strip()
    if report.startswith("compiled"):
        return [compiled, plain]
    print(f"note: without the compiled form: {report}", file=sys.stderr)
    return [plain]


def main() -> None:
    """Measure, print the table, write JSON and plot."""
    parser = argparse.ArgumentParser(description="Compare with a peer that has the same interface.")
    parser.add_argument("--peer", default=os.environ.get("DRJIT_PEER_PYTHON") or None, metavar="PYTHON",
                        help="interpreter that has the peer (default: $DRJIT_PEER_PYTHON, else none)")
    parser.add_argument("--runs", type=int, default=5, metavar="N", help="alternating runs (default: %(default)s)")
    parser.add_argument("--only", nargs="+", default=[], metavar="WORD", help="programs with such words in their names")
    parser.add_argument("--scale", type=int, default=1, metavar="N", help="divide array sizes by N, for a quick look")
    parser.add_argument("--backend", choices=["llvm", "cuda"], default="llvm", help="whose types are used")
    options = parser.parse_args()
    if options.runs < 1 or options.scale < 1:
        parser.error("--runs and --scale must be at least 1")

    chosen = programs(options.only)
    warn_if_busy()
    before = ceilings() if options.backend == "llvm" else []
    results = measure(sides(options.peer, options.backend), chosen, options.runs, options.scale)
    limits = higher(before, ceilings()) if before else []
    print(table(results, limits))
    print()
    print(summary(results, limits))
    OUTPUT.mkdir(parents=True, exist_ok=True)
    document = {"ceilings": limits, "runs": options.runs, "scale": options.scale, "results": record(results)}
    (OUTPUT / "runner.json").write_text(json.dumps(document, indent=1) + "\n")
    print(f"wrote {OUTPUT / 'runner.json'}")
    if plot(results, limits, OUTPUT / "runner.png"):
        print(f"wrote {OUTPUT / 'runner.png'}")
    else:
        print('no plot: matplotlib is not installed (pip install "drjit-python[dev]")')


if __name__ == "__main__":
    main()
