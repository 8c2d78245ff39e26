"""Memory and nodes of a long loop: ``growth.py <iterations>``."""

from __future__ import annotations

import gc
import os
import sys

import numpy as np

import drjit as dr
from drjit.llvm import Float, UInt32
from drjit_core import malloc_statistics
from drjit_core.ir.fold import kept_literals
from drjit_core.ir.node import node_count
from tests.stress.programs.common import watch


def measure() -> tuple[int, int, int]:
    """Resident bytes, bytes of the allocator, live nodes."""
    dr.sync_thread()
    gc.collect()
    with open("/proc/self/statm") as file:
        resident = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    statistics = malloc_statistics()
    nodes = node_count() - kept_literals()  # some thousands of literals are kept on purpose
    return resident, statistics["in_use"] + statistics["cached"], nodes


def main(iterations: int) -> None:
    watch(600)
    source = np.arange(5000, dtype=np.float32)
    x = dr.zeros(Float, 5000)
    counts = dr.zeros(UInt32, 16)
    index = dr.arange(UInt32, 5000) & 15
    dr.eval(index)
    start = iterations // 5
    before = after = measure()
    for step in range(iterations):
        if step == start:
            before = measure()
        x = x * 0.5 + Float(source) * float(step % 7)  # literals of many values, imports
        dr.scatter_add(counts, UInt32(1), index)
        total = dr.sum(x) + step
        dr.eval(x, total, counts)
        x[step % 5000] = float(step)
        if step % 100 == 0:
            big = dr.zeros(Float, 300_000 + step % 1000) + x[0]
            dr.eval(big)
            del big
            assert total[0] == total[0]
            view = x.numpy()
            del view
    after = measure()
    growth = [b - a for a, b in zip(before, after, strict=True)]
    assert np.all(counts.numpy() == np.bincount(np.arange(5000) & 15) * iterations)
    text = (f"{iterations} iterations: resident {growth[0] / 1024:+.0f} KiB, allocator {growth[1] / 1024:+.0f} KiB, "
            f"nodes {growth[2]:+d}")
    assert growth[0] < 4 << 20, text
    assert growth[1] <= 1 << 20, text
    assert abs(growth[2]) < 100, text
    print(text)


if __name__ == "__main__":
    main(int(sys.argv[1]))
