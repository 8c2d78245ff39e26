"""Forks while kernels run; children compute, and write to what they inherited: ``forks.py <count>``."""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
import warnings

import numpy as np

import drjit as dr
from drjit.llvm import UInt32
from tests.stress.programs.common import check, watch

SIZE = 600_000  # large blocks: of the kind that comes from mmap
EXPECTED = np.arange(SIZE, dtype=np.uint32) * np.uint32(5) + np.uint32(3)


def start() -> UInt32:
    """Work in the queue."""
    x = dr.arange(UInt32, SIZE)
    dr.eval(x)
    for _ in range(30):
        x = x + 1
        dr.eval(x)
    x = (x - 30) * 5 + 3
    dr.eval(x)
    return x


def child_computes(inherited: UInt32, way: int) -> None:
    status = 1
    try:
        watch(60)
        assert np.array_equal(inherited.numpy(), EXPECTED)  # its ticket is from the parent's queue
        inherited += 1
        inherited[0] = 77
        mine = [dr.zeros(UInt32, SIZE) + index for index in range(4)]  # takes free blocks, written by the child
        dr.eval(mine)
        dr.sync_thread()
        check(way % 30, 200_000)
        x = start()
        dr.scatter_add(x, UInt32(1), dr.arange(UInt32, SIZE))
        assert np.array_equal(x.numpy(), EXPECTED + np.uint32(1))
        status = 0
    finally:
        if way % 2 or way % 3 == 2 or status:  # sys.exit() in a thread ends the thread, in a child as elsewhere
            os._exit(status)
        sys.exit(status)


def square(number: int) -> int:
    return int(dr.sum(dr.full(UInt32, number, 100_000))[0])


def main(count: int) -> None:
    watch(60 + 5 * count)
    warnings.simplefilter("ignore", DeprecationWarning)  # Python warns of threads; these ones are prepared for it
    for way in range(count):
        x = start()
        y = x * 2
        dr.eval(y)
        children: list[int] = []

        def fork(way: int = way, x: UInt32 = x, children: list[int] = children) -> None:
            child = os.fork()
            if child == 0:
                child_computes(x, way)
            children.append(child)

        if way % 3 == 2:
            thread = threading.Thread(target=fork)
            thread.start()
            z = start()
            thread.join()
        else:
            fork()
            z = start()
        assert np.array_equal(z.numpy(), EXPECTED)
        status = os.waitpid(children[0], 0)[1]
        assert status == 0, f"child {way} ended with status {status}"
        assert np.array_equal(x.numpy(), EXPECTED), "a child wrote into its parent's memory"
        assert np.array_equal(y.numpy(), EXPECTED * np.uint32(2))
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map(square, range(8)) == [100_000 * number for number in range(8)]
    print(f"{count} forks and a pool of processes")


if __name__ == "__main__":
    main(int(sys.argv[1]))
