"""Frozen functions in the long run: many replays, many threads, interrupts, forks and flushes in between."""

from __future__ import annotations

import gc
import os
import resource
import signal
import threading
from typing import Any

import numpy as np
import pytest

import drjit as dr
from drjit.llvm import UInt
from drjit.llvm.ad import Float
from drjit.opt import Adam
from drjit_core import rooms


def step(opt: Any, target: Any) -> Any:
    loss = dr.mean(dr.square(opt["x"] - target))
    dr.backward(loss)
    opt.step()
    return loss


def changes(state: Any, x: Any) -> Any:
    state["x"] = state["x"] * 0.5 + x
    dr.scatter_add(state["bins"], x, UInt([0, 1, 0]))
    state["last"] = [x + 1]
    return {"sum": dr.sum(state["x"]), "sorted": dr.sort(-x)}


def given() -> Any:
    return {"x": dr.opaque(Float, 0, 3), "bins": dr.opaque(Float, 0, 2), "last": None}, Float([1, 2, 3])


def resident() -> int:
    """Bytes of memory of this process."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize()


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="there is no /proc here")
def test_a_hundred_thousand_replays_do_not_grow() -> None:
    frozen, (state, x) = dr.freeze(changes), given()
    optimise, opt, target = dr.freeze(step), Adam(lr=0.01, params={"x": dr.opaque(Float, 0, 3)}), Float([1, 2, 3])

    def run(count: int) -> tuple[int, int, int]:
        for _ in range(count):
            frozen(state, x)
        for _ in range(count // 10):
            optimise(opt, target)
        dr.sync_thread()
        gc.collect()
        return len(gc.get_objects()), resident(), frozen.n_recordings + optimise.n_recordings

    run(2000)
    before = run(2000)
    after = run(100_000 if rooms.compiled else 4000)
    assert after[2] == before[2]
    # Kernels are compiled once more when they have worked for long, for which LLVM takes memory.
    assert after[0] - before[0] < 50 and after[1] - before[1] < 40 << 20


def test_eight_threads_on_one_function() -> None:
    frozen, wrong = dr.freeze(changes), []

    def work(number: int) -> None:
        try:
            state, _ = given()
            for k in range(150):
                x = Float(np.array([1, 2, 3], np.float32) + number)
                found = frozen(state, x)
                assert state["bins"].numpy().tolist() == [(k + 1) * (4 + 2 * number), (k + 1) * (2 + number)]
                assert found["sorted"].numpy().tolist() == [-3 - number, -2 - number, -1 - number]
                if k % 50 == 25 and number == 0:
                    dr.flush_kernel_cache()
                    dr.flush_malloc_cache()
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert frozen.n_cached_recordings <= 16  # each for the first call and the others


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there are no timers here")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_interrupts_during_replays() -> None:
    """What a call does to an array happens as a whole, or not at all; the next calls go on from there."""
    frozen, (state, x) = dr.freeze(changes), given()
    for _ in range(3):
        frozen(state, x)
    interrupts = 0

    def interrupt(*args: Any) -> None:
        raise KeyboardInterrupt

    previous = signal.signal(signal.SIGALRM, interrupt)
    try:
        while interrupts < 60:
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.0002 + 0.00003 * (interrupts % 20))
                for _ in range(20_000):  # what comes while something is destroyed, Python tells nobody about
                    frozen(state, x)
            except KeyboardInterrupt:
                interrupts += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    assert frozen.n_recordings <= 3
    bins = state["bins"].numpy()
    assert bins[0] == 2 * bins[1] and bins[1] == round(bins[1])
    frozen(state, x)
    assert np.array_equal(state["bins"].numpy(), bins + [4, 2])
    assert state["last"][0].numpy().tolist() == [2, 3, 4]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_forks_between_replays() -> None:
    frozen, (state, x) = dr.freeze(changes), given()
    large = dr.freeze(lambda x: dr.sum(dr.sin(x) * x))
    wide = dr.arange(Float, 1 << 20) * 1e-6
    dr.eval(wide)
    expected = large(wide).numpy()
    for _ in range(3):
        frozen(state, x)
    for _ in range(5):
        large(wide)  # which may be running still
        child = os.fork()
        if not child:
            code = 1
            try:
                for _ in range(3):
                    frozen(state, x)
                code = 0 if state["bins"].numpy().tolist() == [24, 12] and large(wide).numpy() == expected else 2
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    frozen(state, x)
    assert state["bins"].numpy().tolist() == [16, 8] and large(wide).numpy() == expected


def test_flushes_between_replays() -> None:
    frozen, (state, x) = dr.freeze(changes), given()
    for k in range(30):
        frozen(state, x)
        if k % 3 == 1:
            dr.flush_kernel_cache()
        if k % 3 == 2:
            dr.flush_malloc_cache()
    assert state["bins"].numpy().tolist() == [120, 60] and frozen.n_recordings <= 2
