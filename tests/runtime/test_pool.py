"""The queue of launches: tickets, threads, and who waits for what."""

from __future__ import annotations

import ctypes
import gc
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import drjit as dr
from drjit.llvm import Float, UInt32
from drjit_core import VarType, evaluate, import_shared, malloc_statistics, ops, read_element
from drjit_core.runtime import buffer, history, malloc, pool

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
    busy = slow(6000)
    y = ops.add(x, x)
    evaluate((y,))
    del x
    gc.collect()
    assert not pool.is_done(pool.submitted()) and not Owner.died
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
    block = malloc.allocate(1 << 21)
    word = ctypes.c_int64.from_address(block.address)
    word.value = 1
    child = os.fork()
    if child == 0:
        word.value = 2
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert word.value == 1
    malloc.release(block)


def test_history_waits_for_its_times() -> None:
    dr.kernel_history_clear()
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory):
        slow(3000)
    (entry,) = dr.kernel_history()
    assert 0.1 < entry["execution_time"] < 10_000
    assert not history._entries


def test_finalisers_may_allocate_while_the_allocator_is_at_work(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []
    collect = malloc._collect

    def interrupted() -> None:
        if not made:
            made.append(None)
            made.append(UInt32(np.arange(10, dtype=np.uint32)))
        collect()

    monkeypatch.setattr(malloc, "_collect", interrupted)
    x = Float(np.ones(10, np.float32))
    assert list(made[1]) == list(range(10)) and x[0] == 1


def test_thread_start_that_is_interrupted_leaves_no_thread_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    dr.set_thread_count(3)
    before = len(os.listdir("/proc/self/task"))

    class Interrupted(pool._Pool):
        def start(self, workers: int) -> None:
            super().start(workers)
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(pool, "_Pool", Interrupted)
        with pytest.raises(KeyboardInterrupt):
            slow(10)
    assert len(os.listdir("/proc/self/task")) == before
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
    whole = buffer.allocate(1000)
    part = buffer.view(whole, 64, 100)
    part.ticket = whole.ticket + 5
    expected = part.ticket
    del part
    assert whole.ticket == expected
    whole.ticket = 0
