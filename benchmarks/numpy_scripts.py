"""Twelve ordinary NumPy scripts from one source, on NumPy, `drjit.numpy` and `jax.numpy`: times, results, memory.

    python benchmarks/numpy_scripts.py [--jax PYTHON] [--runs 5] [--sizes small large] [--only TEXT] [--memory N]

Each side is a fresh process, in changing order; a script reports its first call and the median of further ones, in
seconds of the clock, or of the processor with ``--processor``, for machines that others use. The table shows medians
over the runs, and how much longer each side takes than NumPy; the plot is ``benchmarks/out/numpy_scripts.png``.
``--jax`` is an interpreter that has JAX, whose functions are not compiled by ``jax.jit``, as they are no NumPy.
``--memory N`` calls each script N times instead and tells how much more memory the process has then, and how many
kernels it has compiled since the first hundredth of them.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import time
from typing import Any

import numpy

HERE = pathlib.Path(__file__).parent
SIDES = ("numpy", "drjit.numpy", "jax.numpy")
#: Results may differ by so much from NumPy's, relative to the largest.
TOLERANCE = 1e-6


def resident() -> float:
    """Megabytes that the process has."""
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return float(line.split()[1]) / 1024
    return 0.0


def module_of(name: str) -> Any:
    """The module whose functions a side calls."""
    if name == "jax.numpy":
        importlib.import_module("jax").config.update("jax_enable_x64", True)
    return importlib.import_module(name)


def measure(name: str, sizes: list[str], only: str, processor: bool) -> None:
    """Run the scripts, and print a line for each."""
    from examples.scripts import SCRIPTS

    np, clock = module_of(name), time.process_time if processor else time.perf_counter
    for script in SCRIPTS.values():
        for size in sizes:
            if only not in script.run.__name__:
                continue

            times, found = [], None
            for _ in range(10 if size == "small" else 4):
                start = clock()
                found = numpy.asarray(script.run(np, numpy.random.default_rng(0), *getattr(script, size)))
                times.append(clock() - start)
            assert found is not None
            print(json.dumps({"name": script.run.__name__, "size": size, "first": times[0],
                              "seconds": statistics.median(times[1:]), "values": found.ravel()[:1000].tolist()}),
                  flush=True)


def hold(count: int, only: str) -> None:
    """Call each small script many times: does memory grow, are kernels compiled?"""
    from examples.scripts import SCRIPTS

    import drjit.numpy as np
    import drjit_core as core

    print(f"{'script':22} {'calls':>7} {'MiB before':>11} {'MiB after':>10} {'compiled since':>15}")
    for script in SCRIPTS.values():
        if only not in script.run.__name__:
            continue
        for k in range(count):
            if k == max(count // 100, 1):
                before, kernels = resident(), core.kernel_statistics()["compiled"]
            numpy.asarray(script.run(np, numpy.random.default_rng(0), *script.small))
        print(f"{script.run.__name__:22} {count:7} {before:11.1f} {resident():10.1f} "
              f"{core.kernel_statistics()['compiled'] - kernels:15}", flush=True)


def run(python: str, name: str, options: argparse.Namespace) -> dict[tuple[str, str], Any]:
    """What a side reports, by the scripts' names and sizes."""
    command = [python, __file__, "--side", name, "--only", options.only, "--sizes", *options.sizes,
               *["--processor"] * options.processor]
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join((str(HERE.parent), str(HERE.parent / "compiler")))}
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=3600, check=False)
    if done.returncode:
        raise RuntimeError(f"{name}: {done.stderr[-2000:]}")
    entries = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {(entry["name"], entry["size"]): entry for entry in entries}


def difference(found: list[Any], expected: list[Any]) -> float:
    """How far results are apart, relative to the largest."""
    a, b = numpy.asarray(found), numpy.asarray(expected)
    return float(numpy.max(numpy.abs(a - b)) / (numpy.max(numpy.abs(b)) or 1)) if a.shape == b.shape else math.inf


def main() -> int:
    """Measure, print and draw; 1 if results differ."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jax", default=os.environ.get("JAX_PYTHON"))
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--only", default="")
    parser.add_argument("--sizes", nargs="+", default=["small", "large"])
    parser.add_argument("--processor", action="store_true")
    parser.add_argument("--memory", type=int)
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side:
        measure(options.side, options.sizes, options.only, options.processor)
        return 0
    if options.memory:
        hold(options.memory, options.only)
        return 0
    sides = {"numpy": sys.executable, "drjit.numpy": sys.executable}
    if options.jax:
        sides["jax.numpy"] = options.jax
    runs: dict[str, list[Any]] = {name: [] for name in sides}
    for number in range(options.runs):
        for name in list(sides)[::1 if number % 2 else -1]:
            runs[name].append(run(sides[name], name, options))
        print(f"run {number + 1} of {options.runs}", file=sys.stderr)
    status, rows = 0, []
    print(f"{'script':22} {'size':6} {'numpy ms':>9} " + " ".join(f"{name + ' ms':>15} {'/ numpy':>8} {'first ms':>9}"
                                                                  for name in list(sides)[1:]))
    for key, entry in runs["numpy"][0].items():
        base = statistics.median(each[key]["seconds"] for each in runs["numpy"])
        text, ratios = f"{key[0]:22} {key[1]:6} {base * 1e3:9.2f} ", []
        for name in list(sides)[1:]:
            taken = statistics.median(each[key]["seconds"] for each in runs[name])
            ratios.append(statistics.median(each[key]["seconds"] / own[key]["seconds"]
                                            for each, own in zip(runs[name], runs["numpy"], strict=True)))
            text += f"{taken * 1e3:15.2f} {ratios[-1]:8.2f} {runs[name][0][key]['first'] * 1e3:9.1f} "
            apart = difference(runs[name][0][key]["values"], entry["values"])
            if apart > TOLERANCE:
                status = 1
                print(f"{name}: {key[0]} ({key[1]}) differs by {apart:.1e}", file=sys.stderr)
        rows.append((" ".join(key), ratios))
        print(text)
    (HERE / "out").mkdir(exist_ok=True)
    (HERE / "out" / "numpy_scripts.json").write_text(json.dumps({"sides": list(sides)[1:], "rows": rows}, indent=1))
    draw(rows, list(sides)[1:])
    return status


def draw(rows: list[tuple[str, list[float]]], sides: list[str]) -> None:
    """A bar for each script and side: how many times as long as NumPy it takes."""
    try:
        import matplotlib
    except ImportError:
        return
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 0.32 * len(rows) + 1), layout="constrained")
    height = 0.8 / len(sides)
    for number, side in enumerate(sides):
        places = [place + number * height for place in range(len(rows))]
        axes.barh(places, [ratios[number] for _, ratios in rows], height, label=side)
    axes.set_yticks([place + 0.4 - height / 2 for place in range(len(rows))], [name for name, _ in rows], fontsize=7)
    axes.set_xscale("log")
    axes.axvline(1, color="black", linewidth=0.8)
    axes.invert_yaxis()
    axes.set_xlabel("time / NumPy's")
    axes.legend()
    figure.savefig(HERE / "out" / "numpy_scripts.png", dpi=150)


if __name__ == "__main__":
    sys.exit(main())
