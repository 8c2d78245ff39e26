"""The same bits in every run, for every number of threads, under load: ``same_bits.py <runs>``."""

from __future__ import annotations

import sys
import threading
import time

import numpy as np

import drjit as dr
from drjit.llvm import Float, UInt32
from tests.stress.programs.common import watch


def results(x: Float) -> tuple[bytes, ...]:
    y = dr.sin(x) * 1e3 + 1 / (x + 0.1)
    found = dr.sum(y), dr.sum(dr.sqrt(x) * y), dr.prod(1 + y * 1e-9), dr.max(y)
    dr.eval(*found)
    return tuple(entry.numpy().tobytes() for entry in found)


def uneven(size: int) -> UInt32:
    """The last tenth of the elements takes nearly all of the time."""
    index = dr.arange(UInt32, size)
    rounds = dr.select(index > size // 10 * 9, UInt32(2000), UInt32(1))
    _, _, y = dr.while_loop((UInt32(0), rounds, index), lambda i, n, y: i < n, lambda i, n, y: (i + 1, n, y * 5 + 1))
    dr.eval(y)
    dr.sync_thread()
    return y


def seconds_of(threads: int) -> float:
    dr.set_thread_count(threads)
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        uneven(400_000)
        best = min(best, time.perf_counter() - start)
    return best


def main(runs: int) -> None:
    watch(600)
    x = Float(np.random.default_rng(0).random(1_000_003, dtype=np.float32))
    dr.set_thread_count(1)
    expected = results(x)
    stop = threading.Event()

    def disturb() -> None:
        while not stop.is_set():
            sum(range(2000))
            time.sleep(1e-4)

    disturber = threading.Thread(target=disturb)
    disturber.start()
    try:
        for run in range(runs):
            if run % (runs // 4 or 1) == 0:
                dr.set_thread_count((1, 2, 3, 4)[run * 4 // runs % 4])
            with dr.scoped_set_flag(dr.JitFlag.LaunchBlocking, run % 5 == 0):
                assert results(x) == expected, f"other bits in run {run} with {dr.thread_count()} threads"
    finally:
        stop.set()
        disturber.join()
    one, two = seconds_of(1), seconds_of(2)
    print(f"{runs} runs with 1 to 4 threads; uneven work {one / two:.2f} times as fast with two threads")


if __name__ == "__main__":
    main(int(sys.argv[1]))
