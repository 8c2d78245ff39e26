"""What fuses: how many kernels some pipelines of tensors launch, and the most memory that they take at once.

    python benchmarks/fusion.py

Peak memory is what arrays take beyond the inputs while the pipeline runs, results included, in arrays of the size of
the input; computed step by step, as NumPy does it, each intermediate result is such an array.  The plot is
``benchmarks/out/fusion.png``.
"""

from __future__ import annotations

import argparse
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np

import drjit as dr
from drjit.llvm import TensorXf
from drjit_core.runtime.cpu.memory import HEAP

SIDE = 1024
OUT = pathlib.Path(__file__).parent / "out"


def softmax(x: Any) -> Any:
    """Of each row."""
    e = dr.exp(x - dr.max(x, axis=1, keepdims=True))
    return e / dr.sum(e, axis=1, keepdims=True)


def layer_norm(x: Any) -> Any:
    """Rows of mean 0 and variance 1."""
    d = x - dr.mean(x, axis=1, keepdims=True)
    return d * dr.rsqrt(dr.mean(d * d, axis=1, keepdims=True) + 1e-5)


def blur(x: Any) -> Any:
    """The mean of 5 × 5 neighbours."""
    return sum(x[i:SIDE - 4 + i, j:SIDE - 4 + j] for i in range(5) for j in range(5)) / 25


PIPELINES: dict[str, Callable[[Any], Any]] = {
    "softmax of rows": softmax,
    "layer norm of rows": layer_norm,
    "variance of rows": lambda x: dr.var(x, axis=1),
    "variance of columns": lambda x: dr.var(x, axis=0),
    "x * 2 + x.T": lambda x: x * 2 + x.T,
    "5 x 5 blur": blur,
    "mean(softmax(x @ x))": lambda x: dr.mean(softmax(x @ x)),
    "sum((x - row) ** 2)": lambda x: dr.sum((x - x[0]) ** 2),
}


def measure(pipeline: Callable[[Any], Any]) -> tuple[list[str], float]:
    """Types of the launches, and peak memory in arrays of the input's size."""
    x = TensorXf(np.random.default_rng(0).random((SIDE, SIDE), dtype=np.float32))
    dr.eval(pipeline(x))  # memory is kept from launch to launch
    dr.sync_thread()
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory):
        dr.kernel_history_clear()
        dr.eval(pipeline(x))
        launches = [entry["type"].name for entry in dr.kernel_history()]
    dr.sync_thread()
    HEAP.reset_peak()
    before = HEAP.statistics()["in_use"]
    found = pipeline(x)
    dr.eval(found)
    dr.sync_thread()
    return launches, (HEAP.statistics()["peak"] - before) / (4 * SIDE * SIDE)


def main() -> None:
    """Print a table and draw it."""
    argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0]).parse_args()
    rows = []
    print(f"{SIDE} x {SIDE}, single precision\n\n{'pipeline':24} launches  peak memory (arrays of that size)")
    for name, pipeline in PIPELINES.items():
        launches, peak = measure(pipeline)
        rows.append((name, len(launches), peak))
        print(f"{name:24} {len(launches):8}  {peak:5.2f}")
    try:
        import matplotlib
    except ImportError:
        return
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 3.5), sharey=True, layout="constrained")
    names = [name for name, _, _ in rows][::-1]
    left.barh(names, [count for _, count, _ in rows][::-1])
    left.set_xlabel("launches")
    right.barh(names, [peak for _, _, peak in rows][::-1], color="tab:orange")
    right.set_xlabel("peak memory beyond the input, in arrays of its size")
    OUT.mkdir(exist_ok=True)
    figure.savefig(OUT / "fusion.png", dpi=150)


if __name__ == "__main__":
    main()
