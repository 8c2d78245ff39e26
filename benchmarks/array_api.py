"""How `drjit.array_api` compares with NumPy and JAX: the same functions of the array API standard, and scikit-learn.

    python benchmarks/array_api.py [--jax PYTHON] [--runs 5] [--size N] [--only TEXT]

Each side is a fresh process, in changing order; a case reports its first call (with what is compiled), the median of
further calls, the memory that a call needs at its peak beyond the arrays that are there, and a checksum. ``--jax`` is
an interpreter that has JAX, whose functions are compiled by ``jax.jit``. The table shows medians over the runs of times
and ratios (1 is the same speed); the plot is ``benchmarks/out/array_api.png``.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

HERE = pathlib.Path(__file__).parent
TIMEOUT = 600


def standardised(xp: Any, x: Any, weight: Any, bias: Any) -> Any:
    """A normalised, scaled and averaged array: three reductions."""
    return xp.mean((x - xp.mean(x)) / xp.std(x) * weight + bias)


def pipeline(xp: Any, x: Any) -> Any:
    """Twenty operations."""
    y = x * 2 + 1
    y = y * y - x
    y = y / (xp.abs(x) + 1)
    y = xp.where(y > 0, y, -y) + 0.5 * x
    y = xp.maximum(y * 0.25 - 3, x)
    y = xp.sqrt(y * y + 1) - x * 0.1
    return y * 1.5 + x


def functions(xp: Any, x: Any) -> Any:
    """Six transcendental functions."""
    y = xp.exp(-x * x)
    y = xp.log1p(xp.abs(xp.sin(y) + xp.cos(x)))
    return xp.tanh(y) * x


def peak_reset() -> None:
    """Forget how much memory this process had at most."""
    with contextlib.suppress(OSError):
        pathlib.Path("/proc/self/clear_refs").write_text("5")


def memory(field: str) -> float:
    """Megabytes: what the process has (VmRSS), and had at most (VmHWM)."""
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return float(line.split()[1]) / 1024
    return 0.0


def report(name: str, call: Callable[[], Any], checksum: Callable[[Any], float], repeats: int = 5) -> None:
    """Measure a call."""
    start = time.perf_counter()
    result = call()
    first = time.perf_counter() - start
    del result
    before = memory("VmRSS")
    peak_reset()
    times: list[float] = []
    for _ in range(repeats):
        start = time.perf_counter()
        result = call()
        times.append(time.perf_counter() - start)
        value = result
        del result
    found = {"name": name, "first": first, "seconds": statistics.median(times), "memory": memory("VmHWM") - before,
             "checksum": checksum(value)}
    print(json.dumps(found), flush=True)


def program(side: str, size: int, only: str) -> None:
    """All cases on one side."""
    warnings.simplefilter("ignore")
    wait: Callable[[Any], Any]
    compiled: Callable[[Any], Any]
    if side == "ours":
        import drjit as dr
        import drjit.array_api as xp

        def wait(value: Any) -> Any:
            dr.eval(value)
            dr.sync_thread()
            return value

        def compiled(function: Any) -> Any:
            return function
    elif side == "numpy":
        xp = np

        def wait(value: Any) -> Any:
            return value

        def compiled(function: Any) -> Any:
            return function
    else:
        import jax
        import jax.numpy as xp

        def wait(value: Any) -> Any:
            return jax.block_until_ready(value)

        compiled = jax.jit
    numbers = np.random.default_rng(0).random(size, dtype=np.float32) - 0.5
    x = xp.asarray(numbers)
    weight, bias = xp.asarray(np.float32(1.5)), xp.asarray(np.float32(0.25))
    wait(x)
    cases: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
        "mean((x - mean(x)) / std(x) * w + b)": (lambda *a: standardised(xp, *a), (x, weight, bias)),
        "20 operations": (lambda *a: pipeline(xp, *a), (x,)),
        "6 transcendental functions": (lambda *a: functions(xp, *a), (x,))}
    for name, (function, arguments) in cases.items():
        if only in name:
            kernel = compiled(function)
            report(name, lambda kernel=kernel, arguments=arguments: wait(kernel(*arguments)),
                   lambda value: float(np.asarray(value, dtype=np.float64).sum()))
    if side != "jax":
        estimators(side, xp, wait, only, max(1000, size // 320))


def estimators(side: str, xp: Any, wait: Callable[[Any], Any], only: str, rows: int) -> None:
    """Estimators of scikit-learn on arrays of 50 columns."""
    import sklearn
    from sklearn.decomposition import PCA
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.mixture import GaussianMixture
    from sklearn.preprocessing import StandardScaler

    sklearn.set_config(array_api_dispatch=side != "numpy")
    rng = np.random.default_rng(0)
    features = rng.normal(size=(rows, 50)) @ rng.normal(size=(50, 50))
    target = features @ rng.normal(size=50) + rng.normal(size=rows)
    x, y, classes = (xp.asarray(array) for array in (features, target, (target > 0).astype(np.int64)))
    wait([x, y, classes])

    def fitted(estimator: Any, *arrays: Any) -> Any:
        estimator.fit(*arrays)
        wait([value for value in vars(estimator).values() if hasattr(value, "__array_namespace__")])
        return estimator

    cases: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]] = {
        "StandardScaler().fit_transform": (lambda: wait(StandardScaler().fit_transform(x)), lambda z: z),
        "PCA(full)": (lambda: fitted(PCA(10, svd_solver="full"), x), lambda e: e.explained_variance_),
        "PCA(covariance_eigh)": (lambda: fitted(PCA(10, svd_solver="covariance_eigh"), x),
                                 lambda e: e.explained_variance_),
        "Ridge(svd)": (lambda: fitted(Ridge(solver="svd"), x, y), lambda e: e.coef_),
        "LogisticRegression": (lambda: fitted(LogisticRegression(), x, classes), lambda e: e.coef_),
        "GaussianMixture(3), 5 steps": (lambda: fitted(GaussianMixture(
            3, random_state=0, init_params="random_from_data", max_iter=5), x), lambda e: e.weights_)}
    for name, (call, result) in cases.items():
        if only in name:
            report(name, call, lambda value, result=result: float(np.abs(np.asarray(result(value))).sum()), repeats=3)


def run(side: str, python: str, size: int, only: str) -> dict[str, dict[str, float]]:
    """What the cases of a side report, in a fresh process."""
    with tempfile.TemporaryDirectory() as home:
        variables = {**os.environ, "HOME": home, "XDG_CACHE_HOME": home, "SCIPY_ARRAY_API": "1"}
        variables.pop("PYTHONPATH", None)
        if side == "ours":
            variables["PYTHONPATH"] = os.pathsep.join((str(HERE.parent), str(HERE.parent / "compiler")))
        done = subprocess.run([python, __file__, "--side", side, "--size", str(size), "--only", only], env=variables,
                              capture_output=True, text=True, timeout=TIMEOUT, check=False)
    if done.returncode:
        raise RuntimeError(f"{side}: {done.stderr[-2000:]}")
    return {entry["name"]: entry for entry in map(json.loads, done.stdout.splitlines())}


def main() -> None:
    """Measure, print and draw."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--jax", help="an interpreter that has JAX")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--size", type=int, default=32_000_000, help="elements of the pipelines")
    parser.add_argument("--only", default="", help="cases whose names contain a text")
    parser.add_argument("--side", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side:
        program(options.side, options.size, options.only)
        return
    sides = {"ours": sys.executable, "numpy": sys.executable, **({"jax": options.jax} if options.jax else {})}
    runs: list[dict[str, dict[str, dict[str, float]]]] = []
    for number in range(options.runs):
        order = list(sides) if number % 2 == 0 else list(sides)[::-1]
        runs.append({side: run(side, sides[side], options.size, options.only) for side in order})
        print(f"run {number + 1} of {options.runs}", file=sys.stderr)

    def median(side: str, name: str, key: str) -> float:
        return statistics.median(each[side][name][key] for each in runs)

    print(f"{'case':38} {'first':>9} {'ours':>9} {'memory':>8}" +
          "".join(f"{side + ' / ours':>14} {'memory':>8}" for side in sides if side != "ours"))
    rows: dict[str, dict[str, float]] = {}
    for name in runs[0]["ours"]:
        line = (f"{name:38} {median('ours', name, 'first') * 1e3:6.0f} ms "
                f"{median('ours', name, 'seconds') * 1e3:6.1f} ms"
                f" {median('ours', name, 'memory'):5.0f} MB")
        rows[name] = {}
        for side in sides:
            if side == "ours" or name not in runs[0][side]:
                continue
            ratio = statistics.median(each[side][name]["seconds"] / each["ours"][name]["seconds"] for each in runs)
            rows[name][side] = ratio
            line += f" {ratio:13.2f} {median(side, name, 'memory'):5.0f} MB"
            a, b = (runs[0][which][name]["checksum"] for which in ("ours", side))
            if abs(a - b) > 1e-3 * max(abs(a), abs(b), 1):
                line += f"  checksums differ: {a} {b}"
        print(line)
    (HERE / "out").mkdir(exist_ok=True)
    (HERE / "out" / "array_api.json").write_text(json.dumps(runs, indent=1))
    draw(rows)


def draw(rows: dict[str, dict[str, float]]) -> None:
    """A bar for each case: how many times as long the others take."""
    try:
        import matplotlib
    except ImportError:
        return
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(9, 0.5 * len(rows) + 1), layout="constrained")
    for number, side in enumerate(("numpy", "jax")):
        places = [place + 0.4 * number for place, name in enumerate(rows) if side in rows[name]]
        if places:
            axes.barh(places, [rows[name][side] for name in rows if side in rows[name]], 0.4, label=side)
    axes.set_yticks([place + 0.2 for place in range(len(rows))], list(rows), fontsize=8)
    axes.set_xscale("log")
    axes.axvline(1, color="black", linewidth=0.8)
    axes.invert_yaxis()
    axes.set_xlabel("time of the other side / ours")
    axes.legend()
    figure.savefig(HERE / "out" / "array_api.png", dpi=150)


if __name__ == "__main__":
    main()
