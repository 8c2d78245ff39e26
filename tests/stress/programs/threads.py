"""Eight threads trace and evaluate the same expressions at once: ``threads.py <seconds> [<control>]``.

With ``control``, one more thread changes the number of threads, empties caches and forks meanwhile.
"""

from __future__ import annotations

import os
import random
import sys
import threading
import time
from collections.abc import Callable

import numpy as np

import drjit as dr
from drjit.llvm import Float, UInt32
from tests.stress.programs.common import check, formula, inputs, watch

SIZES = (1, 7, 1000, 70000)
deadline = 0.0
errors: list[BaseException] = []
rounds = [0] * 9


def shared_formula(rng: random.Random) -> None:
    check(rng.randrange(40), rng.choice(SIZES))


def write_to_a_shared_expression(rng: random.Random) -> None:
    """All threads trace the same expression (one node, by value numbering) and write to it, each to its own."""
    size = rng.choice(SIZES[1:])
    x = dr.arange(UInt32, size) * 3 + 5
    if rng.random() < 0.3:
        dr.eval(x)
    position = rng.randrange(size)
    dr.scatter(x, UInt32(7), UInt32(position))
    if rng.random() < 0.5:
        dr.eval(x)
    y = dr.arange(UInt32, size) * 3 + 5
    expected = np.arange(size, dtype=np.uint32) * 3 + 5
    assert np.array_equal(y.numpy(), expected), "a write went to an array of another thread"
    expected[position] = 7
    assert np.array_equal(x.numpy(), expected)


def sum_and_sync(rng: random.Random) -> None:
    size = rng.choice(SIZES)
    a, b = inputs(size)
    number = rng.randrange(40)
    total = dr.sum(formula(number, UInt32(a), UInt32(b)))
    dr.schedule(total)
    dr.sync_thread()
    expected = int(formula(number, a, b).sum(dtype=np.uint64)) & 0xFFFF_FFFF
    assert int(total[0]) == expected


def host_writes(rng: random.Random) -> None:
    x = dr.zeros(Float, rng.choice(SIZES))
    for _ in range(5):
        x[0] = x[0] + 1.0
        y = x + 1
        if rng.random() < 0.5:
            dr.eval(y)
        assert y[0] == x[0] + 1
    assert x[0] == 5


def queue_and_drop(rng: random.Random) -> None:
    x = dr.arange(UInt32, 70000)
    for step in range(8):
        x = (x ^ step) * 3
        dr.eval(x)
    expected = np.arange(70000, dtype=np.uint32)
    for step in range(8):
        expected = (expected ^ np.uint32(step)) * np.uint32(3)
    with dr.scoped_set_flag(dr.JitFlag.LaunchBlocking, rng.random() < 0.2):
        assert np.array_equal(x.numpy(), expected)


JOBS: list[Callable[[random.Random], None]] = [shared_formula, write_to_a_shared_expression, sum_and_sync, host_writes,
                                               queue_and_drop]


def work(index: int) -> None:
    rng = random.Random(index)
    try:
        while time.monotonic() < deadline and not errors:
            rng.choice(JOBS)(rng)
            rounds[index] += 1
    except BaseException as error:
        errors.append(error)
        raise


def control() -> None:
    rng = random.Random(99)
    try:
        while time.monotonic() < deadline and not errors:
            action = rng.randrange(4)
            if action == 0:
                dr.set_thread_count(rng.choice((1, 2, 4)))
            elif action == 1:
                dr.flush_kernel_cache()
            elif action == 2:
                dr.flush_malloc_cache()
            else:
                child = os.fork()
                if child == 0:
                    status = 1
                    try:
                        watch(60)
                        check(3, 200000)
                        queue_and_drop(rng)
                        status = 0
                    finally:
                        os._exit(status)
                assert os.waitpid(child, 0)[1] == 0, "a child failed"
                rounds[8] += 1
            time.sleep(0.03)
    except BaseException as error:
        errors.append(error)
        raise


def main(seconds: float, controlled: bool) -> None:
    global deadline
    watch(seconds + 120)
    sys.setswitchinterval(1e-4)
    deadline = time.monotonic() + seconds
    threads = [threading.Thread(target=work, args=(index,)) for index in range(8)]
    if controlled:
        threads.append(threading.Thread(target=control))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    print(f"{sum(rounds[:8])} programs in 8 threads, {rounds[8]} forks")


if __name__ == "__main__":
    main(float(sys.argv[1]), len(sys.argv) > 2)
