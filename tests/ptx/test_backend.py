"""The backend of GPUs over the machine's driver: memory, kernels on disk, tickets, failures; how a driver is found."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from drjit_core import (
    JitFlag,
    Node,
    ReduceMode,
    ReduceOp,
    evaluate,
    kernel_history,
    literal,
    on_backend,
    ops,
    reduce,
    scatter,
    scoped_set_flag,
    step,
)
from drjit_core.cuda.errors import DriverError
from drjit_core.runtime import disk
from drjit_core.runtime.gpu import backend as gpu
from drjit_core.runtime.gpu.backend import GPU
from drjit_core.runtime.heap import Block, Heap
from drjit_core.runtime.recording import Recorded
from tests.core.harness import FLOAT32, TRUE, UINT32, array, values
from tests.machine.driver import MachineDriver


@pytest.fixture
def device() -> Iterator[GPU]:
    """A device of its own."""
    backend = GPU(MachineDriver())
    with on_backend(backend):
        yield backend


def increased(size: int = 100):
    return ops.add(array(np.arange(size), FLOAT32), literal(FLOAT32, 1))


def test_kernels_are_found_in_memory_and_on_disk(device: GPU, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRJIT_CACHE_DIR", str(tmp_path))
    disk.directory.cache_clear()
    try:
        for _ in range(2):
            assert values(increased())[-1] == 100
        assert values(reduce(increased(), ReduceOp.Add.value))[0] == 5050
        assert device.kernel_statistics() == {"launches": 3, "hits": 1, "loaded": 0, "compiled": 2}
        with on_backend(GPU(MachineDriver())) as other:
            assert values(increased())[-1] == 100 and values(reduce(increased(), ReduceOp.Add.value))[0] == 5050
            assert other.kernel_statistics()["loaded"] == 2
            assert [each.text for each in other.kernels.values()] == [each.text for each in device.kernels.values()]
        with on_backend(GPU(MachineDriver(75))) as older:  # another architecture
            assert values(increased())[-1] == 100
            assert older.kernel_statistics()["loaded"] == 0
    finally:
        disk.directory.cache_clear()
    device.flush()
    assert values(increased())[-1] == 100


def test_files_of_kernels(device: GPU, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                          caplog: pytest.LogCaptureFixture) -> None:
    def suffixes() -> list[str]:
        found = sorted(path.suffix for path in folder.iterdir())
        for path in folder.iterdir():
            path.unlink()
        return found

    folder, tools = tmp_path / "kernels", tmp_path / "tools"
    monkeypatch.setenv("DRJIT_DUMP_DIR", str(folder))
    monkeypatch.setenv("PATH", str(tools))  # no disassembler
    evaluate([increased()])
    assert (path := next(folder.glob("*.ptx"))).read_text().startswith("// kernel: ")
    assert path.read_text().endswith(path.with_suffix(".cubin").read_text())  # as it is: the machine runs PTX
    assert "float32 = add(" in path.with_suffix(".txt").read_text()
    assert suffixes() == [".cubin", ".ptx", ".txt"]
    evaluate([increased()])
    assert suffixes() == []  # it was found in memory
    device.flush()
    values(reduce(increased(), ReduceOp.Add.value))  # the short way, which finds kernels on disk
    head = next(folder.glob("*.ptx")).read_text().splitlines()[:2]
    assert [line.partition(":")[0] for line in head] == ["// kernel", "// combine"]
    assert suffixes() == [".cubin", ".ptx", ".txt"]
    tools.mkdir()
    (tools / "nvdisasm").write_text("#!/bin/sh\nread line < $2; echo \"$1: $line\"; exit $STATUS\n")
    (tools / "nvdisasm").chmod(0o755)
    monkeypatch.setenv("STATUS", "0")
    evaluate(step("scan", [array(np.arange(9), FLOAT32)], [(FLOAT32, 9)], (ReduceOp.Add.value, 0, 0), (1, 0, 1)))
    assert next(folder.glob("*.sass")).read_text().startswith("-c: .version")
    assert suffixes() == [".cubin", ".ptx", ".sass"]
    monkeypatch.setenv("STATUS", "1")
    device.flush()
    evaluate([increased()])
    assert suffixes() == [".cubin", ".ptx", ".txt"] and "nvdisasm cannot read" in caplog.text


def test_known_structures_have_tables_as_large_as_memory(device: GPU, monkeypatch: pytest.MonkeyPatch) -> None:
    """What has been planned before is launched, and recorded, for memory of other sizes as well."""
    def count(target: Node, index: Node) -> list[Node]:
        return [scatter(target, literal(UINT32, 1), index, TRUE, ReduceOp.Add.value, ReduceMode.Auto.value)]

    shared = device.target().shared
    assert shared is not None
    monkeypatch.setattr(device, "_target", device.target()._replace(shared=shared._replace(width=300)))
    recorded = Recorded(count)
    for function in (count, recorded):
        for places in (7, 7, 7, 1000, 7, 1025, 3):
            index = np.arange(3000) % places
            found, = function(array(np.zeros(places), UINT32), array(index, UINT32))
            assert values(found).tolist() == np.bincount(index, minlength=places).tolist()
    assert len(recorded.recordings) == 2


def test_memory_comes_from_a_heap_and_goes_back(device: GPU) -> None:
    x = increased(5000)
    evaluate([x])
    asked = device.memory_statistics()["allocations"]
    del x
    evaluate([increased(5000)])
    assert device.memory_statistics()["allocations"] == asked
    device.flush_memory()
    assert not device.driver.machine.memory.blocks and device.memory_statistics()["cached"] == 0


def test_a_shortage_names_the_largest_arrays() -> None:
    device = GPU(MachineDriver(memory=1 << 16))
    with on_backend(device):
        x = array(np.arange(8000), FLOAT32)
        array(np.arange(6000), FLOAT32)  # goes back to the heap, and from there to the device
        y = array(np.arange(3000), FLOAT32)
        with pytest.raises(MemoryError, match=r"memory of the GPU.*float32\[8000\]"):
            array(np.arange(7000), FLOAT32)
        assert values(x)[-1] == 7999 and values(y)[-1] == 2999


def test_a_fault_names_what_was_launched_and_other_backends_go_on(device: GPU) -> None:
    x = increased()
    evaluate([x])
    device.wait()
    x.payload.address += 1 << 40
    evaluate([ops.mul(x, x)])
    with pytest.raises(RuntimeError, match=r"the GPU is lost.*test_backend\.py:\d+.*Debug") as caught:
        device.wait()
    assert "one of 1 launches" in str(caught.value)
    with pytest.raises(RuntimeError, match="the GPU is lost"):
        evaluate([increased()])
    assert device.finish()
    with on_backend("llvm"):
        assert values(increased())[-1] == 100
    x.payload.address -= 1 << 40


def test_tickets(device: GPU) -> None:
    evaluate([increased()])
    ticket = device.submitted()
    assert ticket == 1 and not device.is_done(ticket)
    device.wait(ticket)
    assert device.is_done(ticket)
    x = increased()
    evaluate([x])
    values(x)  # which waits for everything
    assert device.is_done(device.submitted())


def test_histories_have_times(device: GPU) -> None:
    with scoped_set_flag(JitFlag.KernelHistory):
        evaluate([increased()])
        (entry,) = kernel_history()
    assert entry["execution_time"] > 0 and ".visible .entry kernel" in entry["ir"].getvalue()


def test_times_that_cannot_be_had_are_told_as_other_failures(device: GPU, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(begin: float, end: float) -> float:
        raise DriverError("cuEventSynchronize", "CUDA_ERROR_ILLEGAL_ADDRESS", 700)

    monkeypatch.setattr(device.driver, "milliseconds", fails)
    with scoped_set_flag(JitFlag.KernelHistory):
        evaluate([increased()])
        with pytest.raises(RuntimeError, match="the GPU is lost"):
            kernel_history()
    assert device.is_lost()


def test_a_flush_returns_what_launches_held() -> None:
    class Source:
        kind, padding, held, freed = "memory", 0, list[Block](), 0

        def request(self, capacity: int) -> tuple[int, int]:
            return 4096, 0

        def free(self, base: int) -> None:
            self.freed += 1

        def wait(self) -> None:
            while self.held:
                heap.release(self.held.pop())

    source = Source()
    heap = Heap(source)
    source.held.append(heap.allocate(100))
    heap.flush()
    assert source.freed == 1 and heap.statistics()["cached"] == heap.statistics()["in_use"] == 0


# --- whether there is one ---------------------------------------------------------------------------------------------


def test_reports_say_why_there_is_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu, "_found", lambda: "there is no CUDA driver: it is gone")
    assert gpu.availability() == (False, "there is no CUDA driver: it is gone") and gpu.the_gpu() is None
    there = SimpleNamespace(name="H", architecture=90, version=12040, natives=lambda: None)
    monkeypatch.setattr(gpu, "_found", lambda: GPU(there))
    assert gpu.availability() == (True, "H, sm_90, driver 12.4") and gpu.the_gpu() is not None
