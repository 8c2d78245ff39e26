"""Launches by the driver's functions in C, over the machine's: every kind of kernel, and what is kept for how long."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from drjit_core import Node, Recorded, ReduceOp, evaluate, literal, on_backend, ops, reduce, rooms, segment, step
from drjit_core.control.choice import call
from drjit_core.ptx import emit
from drjit_core.runtime import disk
from drjit_core.runtime.gpu.backend import GPU
from tests.core.harness import FLOAT32, TRUE, UINT32, array, values
from tests.machine.driver import MachineDriver


class Counted(MachineDriver):
    """A driver that counts."""

    launches = uploads = large = 0
    reads = False  # whether it may read the host's memory yet, because an upload of more than is copied waits

    def _launch(self, *arguments: Any) -> int:
        self.launches += 1
        return super()._launch(*arguments)

    def _upload(self, *arguments: Any) -> int:
        self.uploads += 1
        self.reads = arguments[2] > 1 << 16
        return super()._upload(*arguments)

    def upload(self, address: int, data: bytes | memoryview) -> None:
        """Those of more than is copied at once are counted: they have been read when this returns."""
        self.large += len(data) > 1 << 16
        super().upload(address, data)

    def wait(self) -> None:
        """It has read what it is to read."""
        super().wait()
        self.reads = False


class WithoutFunctions(MachineDriver):
    """A driver that has none in C."""

    def natives(self) -> None:  # type: ignore[override]
        """None."""


@pytest.fixture(params=[Counted, WithoutFunctions])
def device(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[GPU]:
    """A device of its own, with a cache of its own."""
    monkeypatch.setenv("DRJIT_CACHE_DIR", str(tmp_path))
    disk.directory.cache_clear()
    with on_backend(GPU(request.param())) as backend:
        yield backend
    disk.directory.cache_clear()


def natively(device: GPU) -> int:
    """Launches by functions in C; -1 where there are none."""
    return device.driver.launches if rooms.compiled and isinstance(device.driver, Counted) else -1


def numbers(count: int = 100, first: float = 0) -> Any:
    return (np.arange(count) + first).astype(np.float32)


def straight(x: Node) -> Node:
    return ops.add(x, literal(FLOAT32, 1))


def reduced(x: Node) -> Node:
    return reduce(ops.mul(x, x), ReduceOp.Add.value)


def twice(x: Node) -> Node:
    return ops.div(x, reduce(x, ReduceOp.Add.value))


def of_rows(x: Node) -> Node:
    return segment(straight(x), ReduceOp.Add.value, x.size // 10, 10, 1)  # type: ignore[return-value]


def scanned(x: Node) -> Node:
    return step("scan", [x], [(FLOAT32, x.size)], (ReduceOp.Add.value, 0, 0), (1, x.size, 1))[0]


def called(x: Node) -> Node:
    index = ops.and_(array(np.arange(x.size), UINT32), literal(UINT32, 1))
    functions = [lambda a: [ops.add(a[0], literal(FLOAT32, 1))], lambda a: [ops.mul(a[0], a[0])]]
    return call(index, TRUE, functions, [x])[0][0]


KINDS: list[tuple[Callable[[Node], Node], Callable[[Any], Any], int]] = [
    (straight, lambda x: x + 1, 1), (reduced, lambda x: (x * x).sum(keepdims=True), 2),
    (twice, lambda x: x / x.sum(), 3), (of_rows, lambda x: (x + 1).reshape(-1, 10).sum(1), 1),
    (scanned, np.cumsum, 0), (called, lambda x: np.where(np.arange(x.size) % 2, x * x, x + 1), 1)]


@pytest.mark.parametrize(("make", "expected", "launches"), KINDS, ids=[make.__name__ for make, _, _ in KINDS])
def test_kernels_of_all_kinds(device: GPU, make: Any, expected: Any, launches: int) -> None:
    for round_ in range(4):  # compiled, noted, and known
        x = array(numbers(first=round_), FLOAT32)
        before = natively(device)
        assert np.allclose(values(make(x)), expected(numbers(first=round_)), rtol=1e-5)
    if before >= 0:
        assert natively(device) - before >= max(1, launches)
    x = array(numbers(60, 3), FLOAT32)  # another size
    assert np.allclose(values(make(x)), expected(numbers(60, 3)), rtol=1e-5)
    evaluate([made := make(array(numbers(70, 3), FLOAT32))])  # which is not waited for
    assert not device.is_done(device.submitted()) and device.is_done(device.submitted() - 5)
    device.wait(made.payload.ticket)
    assert device.is_done(device.submitted())


@pytest.mark.parametrize(("make", "expected", "launches"), [kind for kind in KINDS if kind[0] is not of_rows],
                         ids=[make.__name__ for make, _, _ in KINDS if make is not of_rows])
def test_recordings(device: GPU, make: Any, expected: Any, launches: int) -> None:
    function = Recorded(lambda x: [make(x)])
    for round_ in range(3):
        if round_ == 2:  # recordings keep their kernels, and those their modules
            device.flush()
        before = natively(device)
        (result,) = function(array(numbers(first=round_), FLOAT32))
        assert np.allclose(values(result), expected(numbers(first=round_)), rtol=1e-5)
    assert before < 0 or natively(device) - before >= max(1, launches)
    assert len(function.recordings) == 1


def test_words_in_memory(device: GPU, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(emit, "_MOST_WORDS", 3)
    for round_ in range(3):
        x, y = (array(numbers(first=each), FLOAT32) for each in (round_, 5))
        before = natively(device)
        found = values(ops.add(x, ops.mul(y, literal(FLOAT32, 3))))
        assert (found == numbers(first=round_) + 3 * numbers(first=5)).all()
    assert before < 0 or natively(device) == before + 1


def test_tables_that_are_so_large_that_the_device_reads_them_itself_wait_for_it(device: GPU) -> None:
    """More than 64 KiB: records of a hundred numbers each."""
    def summand(number: int) -> Callable[[Any], list[Node]]:
        def added(a: Any) -> list[Node]:
            node = a[0]
            for k in range(100):
                node = ops.add(node, literal(FLOAT32, number + k))
            return [node]
        return added

    function = Recorded(lambda x, index: call(index, TRUE, [summand(number) for number in range(100)], [x])[0])
    for round_ in range(3):
        (found,) = function(array(numbers(first=round_), FLOAT32), array(np.arange(100), UINT32))
        assert natively(device) < 0 or not device.driver.reads  # type: ignore[attr-defined]
        assert (values(found) == numbers(first=round_) + 100 * np.arange(100) + 4950).all()
    assert natively(device) < 0 or device.driver.large  # type: ignore[attr-defined]


def test_tables_of_calls_are_uploaded_when_they_change(device: GPU) -> None:
    x = array(numbers(), FLOAT32)

    def uploads(factor: float) -> int:
        before = device.driver.uploads if natively(device) >= 0 else 0  # type: ignore[attr-defined]
        index = ops.and_(array(np.arange(100), UINT32), literal(UINT32, 1))
        number = literal(FLOAT32, factor)
        found = call(index, TRUE, [lambda a: [ops.add(a[0], number)], lambda a: [ops.mul(a[0], number)]], [x])[0][0]
        assert (values(found) == np.where(np.arange(100) % 2, numbers() * factor, numbers() + factor)).all()
        return device.driver.uploads - before if natively(device) >= 0 else 0  # type: ignore[attr-defined]

    found = [uploads(factor) for factor in (3, 3, 3, 3, 5, 5)]
    assert found[3] == found[5] == 0


def test_kernels_on_disk_are_launched_without_a_program(device: GPU, monkeypatch: pytest.MonkeyPatch) -> None:
    assert values(straight(array(numbers(), FLOAT32)))[-1] == 100
    with on_backend(GPU(type(device.driver)())) as other:
        if natively(device) >= 0:
            monkeypatch.setattr("drjit_core.runtime.launch.assemble", None)
        assert values(straight(array(numbers(), FLOAT32)))[-1] == 100
        assert values(straight(array(numbers(), FLOAT32)))[-1] == 100
        assert other.kernel_statistics() == {"launches": 2, "hits": 1, "loaded": 1, "compiled": 0}


def test_faults_are_told_where_they_are_seen() -> None:
    driver = Counted(forgiving=True)
    with on_backend(GPU(driver)) as device:
        for _ in range(3):
            x = array(numbers(), FLOAT32)
            evaluate([x])
            if _ == 2:
                x.payload.address += 1 << 40
                with pytest.raises(RuntimeError, match="the CUDA driver has failed: cuLaunchKernel"):
                    evaluate([straight(x)])
                x.payload.address -= 1 << 40
            assert values(straight(x))[-1] == 100
        assert natively(device)


def test_other_threads_enter_first(device: GPU) -> None:
    entered: list[int] = []
    device.driver.enter = lambda: entered.append(threading.get_ident())  # type: ignore[method-assign]
    for _ in range(3):
        values(straight(array(numbers(), FLOAT32)))

    def work() -> None:
        with on_backend(device):
            values(straight(array(numbers(), FLOAT32)))

    for _ in range(2):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert natively(device) < 0 or len(entered) == 3


@pytest.mark.parametrize("make", [make for make, _, _ in KINDS], ids=[make.__name__ for make, _, _ in KINDS])
def test_operands_are_let_go_at_once(device: GPU, make: Any) -> None:
    gc.collect()
    gc.disable()
    try:
        for _ in range(3):  # also by those who make the text of a kernel
            x = array(numbers(), FLOAT32)
            gone = weakref.ref(x.payload)
            y = make(x)
            evaluate([y])
            del x
            assert gone() is None and not device.is_done(device.submitted())
    finally:
        gc.enable()
