"""The queue of launches: tickets, threads, and who waits for what."""

from __future__ import annotations

import ctypes
import gc
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import drjit as dr
from drjit.llvm import Float, UInt32
from drjit_core import VarType, evaluate, import_shared, malloc_statistics, ops, read_element, rooms
from drjit_core.runtime import buffer, history, launch, memory
from drjit_core.runtime.backends import LLVM
from drjit_core.runtime.cpu import pool
from drjit_core.runtime.cpu.memory import HEAP

SIZE = 400_000
pytestmark = pytest.mark.skipif(not pool.is_supported(), reason="there is no pool on this machine")


@pytest.fixture(autouse=True)
def two_threads() -> Iterator[None]:
    before = dr.thread_count()
    dr.set_thread_count(2)
    yield
    dr.set_thread_count(before)


def slow(steps: int = 300, size: int = SIZE) -> UInt32:
    """Work of some milliseconds, queued."""
    _, y = dr.while_loop((UInt32(0), dr.arange(UInt32, size)), lambda i, y: i < steps, lambda i, y: (i + 1, y * 5 + 1))
    dr.eval(y)
    return y


def test_launches_are_asynchronous_and_reads_wait_for_what_they_need() -> None:
    first = dr.arange(UInt32, SIZE) + 1
    dr.eval(first)
    y = slow(6000)
    assert not pool.is_done(pool.submitted())
    assert first[7] == 8 and not pool.is_done(pool.submitted())  # its ticket is older
    value = 7
    for _ in range(6000):
        value = (value * 5 + 1) & 0xFFFF_FFFF
    assert y[7] == value


def test_new_memory_of_the_host_does_not_wait() -> None:
    y = slow(6000)
    x = Float(np.ones(12345, np.float32))
    assert x[3] == 1 and not pool.is_done(pool.submitted())
    del y


def test_tickets_go_on_after_a_change_of_the_number_of_threads() -> None:
    old = [slow(10) for _ in range(20)]
    last = pool.submitted()
    assert last >= 20
    for count in (2, 3, 1, 2):
        dr.set_thread_count(count)
        x = slow(10)
        assert pool.submitted() >= last
        assert np.array_equal(x.numpy(), old[0].numpy())


def test_threads_may_be_changed_by_one_thread_while_another_evaluates() -> None:
    expected = slow(50).numpy()
    errors: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(60):
                assert np.array_equal(slow(50).numpy(), expected)
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    count = 0
    while thread.is_alive():
        count += 1
        dr.set_thread_count(1 + count % 3)
    thread.join()
    assert not errors


def test_shared_memory_lives_until_the_kernels_that_read_it_have_run() -> None:
    class Owner:
        died = False

        def __init__(self) -> None:
            self.values = (ctypes.c_uint32 * SIZE)(*range(SIZE))

        def __del__(self) -> None:
            Owner.died = True

    owner = Owner()
    x = import_shared(VarType.UInt32.value, ctypes.addressof(owner.values), SIZE, owner)
    del owner
    gc.freeze()  # or the collection takes longer than the kernel, if many tests have run before
    try:
        busy = slow(6000)
        y = ops.add(x, x)
        evaluate((y,))
        del x
        gc.collect()
        assert not pool.is_done(pool.submitted()) and not Owner.died
    finally:
        gc.unfreeze()
    assert read_element(y, SIZE - 1) == 2 * (SIZE - 1)
    dr.sync_thread()
    assert Owner.died
    del busy


def test_several_threads_wait_and_let_go_of_launches() -> None:
    """A launch is let go only when it has run, by whichever thread notices."""
    stop = threading.Event()

    def wait() -> None:
        while not stop.is_set():
            dr.sync_thread()

    threads = [threading.Thread(target=wait) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        expected = slow(20).numpy().copy()
        for _ in range(100):
            assert np.array_equal(slow(20).numpy(), expected)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    launched = pool._pool
    assert launched is not None and not launched.kept


def test_memory_that_is_freed_may_be_used_by_kernels_at_once_and_by_the_host_when_they_have_run() -> None:
    busy = slow(6000)
    x = dr.arange(UInt32, SIZE) * 3
    dr.eval(x)
    del x
    gc.collect()
    y = UInt32(np.full(SIZE, 9, np.uint32))  # the block that x had: the queued kernel would overwrite it
    dr.sync_thread()
    assert np.all(y.numpy() == 9)
    del busy


def test_flush_returns_memory_to_the_system_when_kernels_have_run() -> None:
    x = slow(5000)
    del x
    dr.flush_malloc_cache()
    assert malloc_statistics()["cached"] == 0


def test_large_blocks_are_not_shared_with_forked_children() -> None:
    block = HEAP.allocate(1 << 21)
    word = ctypes.c_int64.from_address(block.address)
    word.value = 1
    child = os.fork()
    if child == 0:
        word.value = 2
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert word.value == 1
    HEAP.release(block)


def test_history_waits_for_its_times() -> None:
    dr.kernel_history_clear()
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory):
        slow(3000)
    (entry,) = dr.kernel_history()
    assert 0.1 < entry["execution_time"] < 10_000
    assert not history._entries


@pytest.mark.skipif(rooms.compiled, reason="no Python code runs in the midst of the compiled allocator")
def test_finalisers_may_allocate_while_the_allocator_is_at_work(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    collect = HEAP._collect

    def interrupted() -> None:
        if not made:
            made.append(None)
            made.append(UInt32(np.arange(10, dtype=np.uint32)))
        collect()

    monkeypatch.setattr(HEAP, "_collect", interrupted)
    x = Float(np.ones(10, np.float32))
    assert list(made[1]) == list(range(10)) and x[0] == 1


def test_an_interrupt_while_memory_is_given_back_leaves_nothing_that_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    HEAP.flush()
    blocks = [HEAP.allocate(nbytes) for nbytes in (100, 1000, 1 << 21)]
    for block in blocks:
        HEAP.release(block)
    free, freed = memory._free, []

    def interrupted(address: int) -> None:
        freed.append(address)
        free(address)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(memory, "_free", interrupted)
        with pytest.raises(KeyboardInterrupt):
            HEAP.flush()
    cached = HEAP.statistics()["cached"]
    left = [block for free_ones in HEAP.free_blocks.values() for block in free_ones]
    assert len(freed) == 1 and left and freed[0] not in {block.base for block in left}
    assert cached == sum(block.capacity for block in left)


INTERRUPTED_FORK = """
import os, signal, threading, time
import drjit as dr
from drjit.llvm import Float
from drjit_core.runtime import exclusion

x = dr.opaque(Float, 1, 10)

def evaluate():
    with exclusion.lock:
        held.set()
        time.sleep(1)

held = threading.Event()
thread = threading.Thread(target=evaluate)
thread.start()
held.wait()
threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
child = os.fork()
if not child:
    signal.alarm(20)
    os._exit(0 if (x + 1)[0] == 2 else 1)
thread.join()
threading.Thread(target=lambda: print((x + 1)[0], os.waitpid(child, 0)[1])).start()
"""


def test_a_child_whose_fork_was_interrupted_finds_no_lock_taken() -> None:
    """Ctrl-C while the fork waits for a thread that evaluates: the child does not have that thread."""
    process = run_program(INTERRUPTED_FORK)
    assert process.returncode == 0 and process.stdout.split() == ["2.0", "0"], process.stderr[-2000:]


def test_thread_start_that_is_interrupted_leaves_no_thread_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    dr.set_thread_count(3)
    before = set(os.listdir("/proc/self/task"))

    class Interrupted(pool._Pool):
        def start(self, workers: int) -> None:
            super().start(workers)
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(pool, "_Pool", Interrupted)
        with pytest.raises(KeyboardInterrupt):
            slow(10)
    assert set(os.listdir("/proc/self/task")) <= before  # other threads may end meanwhile
    assert slow(1)[1] == 6


def report(**environment: str) -> tuple[str, str]:
    process = subprocess.run([sys.executable, "-m", "drjit"], capture_output=True, text=True,
                             env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment})
    line = next(line for line in process.stdout.splitlines() if line.startswith("threads:"))
    return line.partition(":")[2].strip(), process.stderr


def test_without_a_pool_kernels_run_on_the_calling_thread_and_the_report_says_so(
        monkeypatch: pytest.MonkeyPatch) -> None:
    expected = slow(20).numpy().copy()
    dr.set_thread_count(2)
    with monkeypatch.context() as patch:
        patch.setattr(pool, "is_supported", lambda: False)
        assert dr.thread_count() == 1
        assert "calling thread (the pool needs Linux" in pool.thread_report()
        assert np.array_equal(slow(20).numpy(), expected)
        assert pool._pool is None
    assert report(DRJIT_THREADS="1")[0] == "1: kernels run on the calling thread, but for loops (DRJIT_THREADS=1)"
    assert report(DRJIT_THREADS="3")[0] == "3 (DRJIT_THREADS=3)"
    assert "DRJIT_THREADS must be a number" in report(DRJIT_THREADS="many")[1]


def test_no_thread_is_started_while_the_interpreter_exits(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = slow(20).numpy().copy()
    dr.set_thread_count(2)
    monkeypatch.setattr(pool, "_leaving", True)
    assert np.array_equal(slow(20).numpy(), expected)
    assert pool._pool is None


def test_one_host_thread_at_a_time_helps() -> None:
    """Kernels have tables by worker number, and every host thread that helps is worker 0."""
    stop = threading.Event()

    def wait() -> None:
        while not stop.is_set():
            dr.sync_thread()

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    threads = [threading.Thread(target=wait) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        index = dr.arange(UInt32, 2_000_000) & 15
        dr.eval(index)
        for _ in range(40):
            counts = dr.zeros(UInt32, 16)
            dr.scatter_add(counts, UInt32(1), index)
            assert np.all(counts.numpy() == 125_000), "two threads used one table"
    finally:
        stop.set()
        for thread in threads:
            thread.join()
        sys.setswitchinterval(interval)


def test_the_ticket_of_a_view_is_one_of_its_memory() -> None:
    whole = LLVM.allocate(1000)
    part = buffer.view(whole, 64, 100)
    part.ticket = whole.ticket + 5
    expected = part.ticket
    del part
    assert whole.ticket == expected
    whole.ticket = 0


# --- how many threads there are ---------------------------------------------------------------------------------------


def run_program(text: str, *arguments: object, timeout: float = 120,
                **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-W", "ignore", "-c", text, *map(str, arguments)], capture_output=True,
                          text=True, timeout=timeout, check=False,
                          env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment})


AFFINITY = """
import os, sys
import drjit as dr
from drjit.llvm import UInt32
processors = sorted(os.sched_getaffinity(0))
for step in sys.argv[1:]:
    if step == "evaluate":
        counts = dr.zeros(UInt32, 4)
        dr.scatter_add(counts, UInt32(1), dr.arange(UInt32, 1 << 23) & 3)
        assert counts.numpy().tolist() == [1 << 21] * 4, counts
    elif step == "threads":
        dr.set_thread_count(dr.thread_count() + 1)
    else:
        os.sched_setaffinity(0, processors[:int(step)])
"""


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity") or len(os.sched_getaffinity(0)) < 2,
                    reason="one processor, or no choice of processors")
@pytest.mark.parametrize("steps", ("2 evaluate 1 evaluate 2 evaluate", "1 evaluate 2 evaluate 1 evaluate",
                                   "1 2 evaluate 1 evaluate evaluate", "2 1 evaluate 2 evaluate evaluate",
                                   "1 evaluate threads evaluate 2 evaluate threads 1 evaluate"))
def test_the_number_of_threads_is_the_pools_whatever_becomes_of_the_affinity(steps: str) -> None:
    process = run_program(AFFINITY, *steps.split(), DRJIT_THREADS="")
    assert process.returncode == 0, process.stderr[-2000:]


def test_the_number_of_threads_stays_during_an_evaluation(monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal handler that changes it would leave too few tables for the threads."""
    plan = launch.plan
    errors: list[str] = []

    def interrupted(*arguments: Any) -> Any:
        try:
            dr.set_thread_count(5)
        except RuntimeError as error:
            errors.append(str(error))
        return plan(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(launch, "plan", interrupted)
        counts = dr.zeros(UInt32, 4)
        dr.scatter_add(counts, UInt32(1), dr.arange(UInt32, 1 << 20) & 3)
        assert counts.numpy().tolist() == [1 << 18] * 4
    assert errors and "in the midst of an evaluation" in errors[0] and dr.thread_count() == 2
    dr.set_thread_count(5)
    assert dr.thread_count() == 5


@pytest.mark.parametrize("interrupted_at", ("wait", "stop_native", "_join"))
def test_an_interrupt_while_threads_end_leaves_nothing_behind(interrupted_at: str,
                                                              monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*arguments: object) -> None:
        raise KeyboardInterrupt

    dr.set_thread_count(3)
    before = len(os.listdir("/proc/self/task"))
    expected = slow(20).numpy().copy()
    running = pool._pool
    assert running is not None and len(os.listdir("/proc/self/task")) >= before + 2
    with monkeypatch.context() as patch:
        if interrupted_at == "_join":
            patch.setattr(pool, "_join", interrupt)
        else:
            patch.setattr(running, interrupted_at, interrupt)
        with pytest.raises(KeyboardInterrupt):
            dr.set_thread_count(2)
    assert np.array_equal(slow(20).numpy(), expected)
    dr.set_thread_count(2)
    del running
    # Threads of a test before may have ended since.
    assert len(os.listdir("/proc/self/task")) <= before and not pool._ending


# --- kernels that nobody knows the length of --------------------------------------------------------------------------


@pytest.mark.parametrize("threads", (1, 2))
def test_other_threads_run_while_a_loop_over_few_elements_does(threads: int) -> None:
    dr.set_thread_count(threads)
    stop = threading.Event()
    slept = []

    def tick() -> None:
        while not stop.wait(0.01):
            slept.append(time.monotonic())

    ticking = threading.Thread(target=tick)
    ticking.start()
    try:
        for size in (4, 1):
            start = time.monotonic()
            y = slow(60_000_000, size)
            y[0]
            end = time.monotonic()
            assert end - start > 0.05
            during = [at for at in slept if start < at < end]
            assert len(during) > (end - start) / 0.01 / 10, f"{len(during)} ticks in {end - start:.2f} s"
    finally:
        stop.set()
        ticking.join()


@pytest.mark.parametrize("size", (4, 300_000))
def test_loops_have_the_same_results_with_any_number_of_threads(size: int) -> None:
    def results() -> list[Any]:
        x = dr.arange(Float, size) * 0.1
        _, y = dr.while_loop((UInt32(0), x), lambda i, y: i < 17, lambda i, y: (i + 1, y * 0.75 + 1))
        total = dr.sum(y)
        counts = dr.zeros(UInt32, 8)
        dr.scatter_add(counts, UInt32(y), UInt32(y) & 7)
        dr.eval(y, total, counts)
        z = y + total  # waits in the queue behind the loop
        dr.eval(z)
        return [array.numpy().tobytes() for array in (y, total, counts, z)]

    found = []
    for threads in (1, 2, 1, 3):
        dr.set_thread_count(threads)
        found += [results() for _ in range(5)]
    assert all(result == found[0] for result in found)


def test_host_threads_do_not_run_kernels_of_unknown_length_even_if_several_wait() -> None:
    """Their blocks are taken by the pool's threads; all who wait are served."""
    expected = slow(100).numpy().copy()
    results: list[bool] = []

    def wait() -> None:
        for _ in range(10):
            results.append(np.array_equal(slow(100).numpy(), expected))

    for count in (1, 2, 3):
        dr.set_thread_count(count)
        threads = [threading.Thread(target=wait) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert results == [True] * 90


ENDLESS = """
import atexit, os, signal, sys, threading, time
import drjit as dr
from drjit.llvm import UInt32

atexit.register(lambda: print("goodbye", flush=True))
size, way = int(sys.argv[1]), sys.argv[2]
x = dr.arange(UInt32, size) + 1
if way == "behind":
    x = dr.sum(x) + dr.zeros(UInt32, size)
    dr.eval(x)
_, y = dr.while_loop((UInt32(0), x), lambda i, y: y > 0, lambda i, y: (i + 1, y | 1))
start = time.monotonic()
dr.eval(y)
threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    if way == "behind":
        y = y * 2
    print(y[0])
except KeyboardInterrupt:
    print("interrupted", flush=True)
if time.monotonic() - start > 20:
    raise SystemExit("too late")
if way == "fork":
    child = os.fork()
    if not child:
        threading.Timer(0.01, lambda: None).start()
        try:
            dr.eval(x + 5)
            os._exit(1)
        except RuntimeError as error:
            os._exit(0 if "forked while a kernel ran" in str(error) else 2)
    assert os.waitpid(child, 0)[1] == 0
if way == "daemon":
    threading.Thread(target=dr.sync_thread, daemon=True).start()
    time.sleep(0.1)
sys.exit(3)
"""


@pytest.mark.parametrize("threads", (1, 2))
@pytest.mark.parametrize(("size", "way"), ((4, "alone"), (1_000_000, "alone"), (4, "behind"), (4, "daemon"),
                                           (4, "fork")))
def test_a_program_leaves_a_loop_that_does_not_end(size: int, way: str, threads: int) -> None:
    text = ENDLESS
    if way == "fork":  # which waits for the queue: another Ctrl-C ends that
        text = text.replace("child = os.fork()", "threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT))"
                                                 ".start(); child = os.fork()")
    process = run_program(text, size, way, DRJIT_THREADS=str(threads))
    assert process.returncode == 3, f"{process.returncode}: {process.stdout} {process.stderr[-2000:]}"
    assert process.stdout.split() == ["interrupted", "goodbye"]
    assert "a kernel with a loop had not ended" in process.stderr


FRESH = """
import sys
import drjit as dr
from drjit.llvm import Float
from drjit_core.runtime.cpu import pool
dr.set_thread_count(2)
started = []
for _ in range(12):
    x = dr.arange(Float, 1 << 20) + 1
    dr.eval(x)
    started.append(pool._pool is not None)
assert x[5] == 6
print(started.index(True), all(started[started.index(True):]))
"""


def test_the_pool_is_compiled_when_that_has_become_worth_it_and_loaded_at_once(tmp_path: Path) -> None:
    first, second = (run_program(FRESH, DRJIT_CACHE_DIR=str(tmp_path)) for _ in range(2))
    index, since = first.stdout.split()
    assert 1 < int(index) < 10 and since == "True", first.stderr
    assert second.stdout.split() == ["0", "True"], second.stderr
