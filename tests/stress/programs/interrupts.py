"""Ctrl-C at any moment of an evaluation, and in a long wait: ``interrupts.py <count>``.

Every kernel must run once: what an interrupted evaluation has submitted is not submitted again.
"""

from __future__ import annotations

import faulthandler
import os
import random
import signal
import sys
import threading
import time
from types import FrameType

import numpy as np

import drjit as dr
from drjit.llvm import Float, UInt32


def interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def evaluations(count: int, size: int, rng: random.Random) -> int:
    """Scatter-additions, each evaluated under a timer that strikes at a random moment."""
    ones = dr.arange(UInt32, size)
    x, total = dr.zeros(UInt32, size), dr.zeros(UInt32, 1)
    dr.eval(ones, x)
    struck = 0
    for step in range(count):
        dr.scatter_add(x, UInt32(1), ones)
        total += dr.sum(ones & 1)
        queued = [ones + step for _ in range(rng.randrange(3))]
        try:
            signal.setitimer(signal.ITIMER_REAL, rng.uniform(1e-6, 4e-4))
            dr.eval(x, total, queued)
            if rng.random() < 0.3:
                dr.sync_thread()
            signal.setitimer(signal.ITIMER_REAL, 0)
        except KeyboardInterrupt:
            struck += 1
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        if rng.random() < 0.2:
            assert int(x[size // 2]) == step + 1, "a kernel was lost or run twice"
    assert np.all(x.numpy() == count), "a kernel was lost or run twice"
    assert int(total[0]) == count * (size // 2)
    return struck


def long_wait() -> float:
    """Seconds from Ctrl-C to its exception, in a wait of many seconds."""
    x = dr.arange(Float, 4_000_000)
    dr.eval(x)
    expected = x.numpy().copy()
    x = x + 0
    steps = 900
    for _ in range(steps):
        x = x + 1
        dr.eval(x)
    struck = []

    def strike() -> None:
        struck.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    threading.Timer(0.05, strike).start()
    try:
        dr.sync_thread()
        raise AssertionError("the wait was too short to be interrupted")
    except KeyboardInterrupt:
        late = time.monotonic() - struck[0]
    assert np.array_equal(x.numpy(), expected + np.float32(steps))
    return late


def main(count: int) -> None:
    faulthandler.dump_traceback_later(300, exit=True)
    signal.signal(signal.SIGALRM, interrupt)
    rng = random.Random(1)
    struck = 0
    for threads in (2, 1):
        dr.set_thread_count(threads)
        for size in (100, 200_000):
            struck += evaluations(count, size, rng)
    dr.set_thread_count(2)
    late = long_wait()
    assert late < 1.0, f"Ctrl-C took {late} s"
    print(f"{struck} of {4 * count} evaluations interrupted; Ctrl-C in a long wait after {late * 1e3:.0f} ms")


if __name__ == "__main__":
    main(int(sys.argv[1]))
