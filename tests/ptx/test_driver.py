"""The driver's functions as they are called, over a library of them that is made of the machine."""

from __future__ import annotations

import ctypes
import gc
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from drjit_core import JitFlag, evaluate, kernel_history, kernel_history_clear, on_backend, scoped_set_flag
from drjit_core.cuda import driver, graphics, green
from drjit_core.cuda.driver import OUT_OF_MEMORY, Driver
from drjit_core.cuda.errors import DriverError, NoDevice
from drjit_core.runtime.gpu.backend import GPU
from tests.core.harness import FLOAT32, array, values
from tests.machine.driver import MachineDriver, Node
from tests.machine.library import PROTOTYPES, Library
from tests.ptx.test_launching import KINDS, numbers, straight

# --- how a driver is found -------------------------------------------------------------------------------------------


def test_functions_have_the_arguments_of_the_header() -> None:
    called = driver._FUNCTIONS | green.FUNCTIONS | graphics.FUNCTIONS
    assert set(called) == set(PROTOTYPES) - {"cuInit", "cuDriverGetVersion", "cuGetErrorName"}
    for name, arguments in called.items():
        assert [ctypes.sizeof(each) for each in arguments] == [ctypes.sizeof(each) for each in PROTOTYPES[name]], name


def test_parameters_of_nodes_lie_as_in_the_header() -> None:
    """As an x86-64 or AArch64 compiler places the members of ``CUDA_KERNEL_NODE_PARAMS_v2``."""
    members = [(name, getattr(Node, name).offset) for name, _ in Node._fields_]
    assert [offset for _, offset in members] == [0, 8, 12, 16, 20, 24, 28, 32, 40, 48, 56, 64]
    ours = [getattr(driver._Node, name).offset for name, _ in driver._Node._fields_]
    assert ours == [0, 8, 20, 32, 40, 48, 56, 64] and ctypes.sizeof(driver._Node) == ctypes.sizeof(Node) == 72


@pytest.mark.parametrize(("lacks", "version", "status", "message"), [
    (("cuDriverGetVersion",), 13000, 0, "is no CUDA driver: .*cuDriverGetVersion"),
    ((), 11080, 0, "too old: its version is 11.8, kernels need 12.1"),
    (("cuMemPoolCreate",), 11020, 999, "too old: its version is 11.2"),
    ((), 12040, 100, "the CUDA driver has no device$"),
    ((), 12040, 803, r"cannot be used: cuInit: CUDA_ERROR_SYSTEM_DRIVER_MISMATCH \(803\)"),
    ((), 12040, 12345, r"cannot be used: cuInit: an error without a name \(12345\)"),
    (("cuMemPoolCreate",), 13000, 0, "lacks a function: .*cuMemPoolCreate")])
def test_drivers_that_do_not_do(lacks: tuple[str, ...], version: int, status: int, message: str,
                                monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda name: Library(MachineDriver(), lacks, version, status))
    with pytest.raises(NoDevice, match=message):
        Driver()


def test_the_library_may_be_anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRJIT_LIBCUDA_PATH", "/nowhere/libcuda.so")
    with pytest.raises(NoDevice, match=r"/nowhere/libcuda\.so"):
        Driver()


# --- what is asked for -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("make", "expected"), [kind[:2] for kind in KINDS],
                         ids=[make.__name__ for make, _, _ in KINDS])
def test_kernels_run_and_leave_nothing_behind(device: GPU, library: Library, make: Any, expected: Any) -> None:
    for round_ in range(3):  # by methods, and by addresses
        x = array(numbers(first=round_), FLOAT32)
        # sums in another order than NumPy's
        assert np.allclose(values(make(x)), expected(numbers(first=round_)), rtol=1e-5)
    del x
    gc.collect()
    device.flush()
    device.flush_memory()
    assert not library.device.machine.memory.blocks
    assert not library.left("module") and not library.left("linker") and not library.left("event")


def test_histories_have_times(device: GPU, library: Library) -> None:
    with scoped_set_flag(JitFlag.KernelHistory):
        evaluate([straight(array(numbers(), FLOAT32))])
        (entry,) = kernel_history()
    assert entry["execution_time"] > 0 and not library.left("event")


def test_times_that_nobody_asks_for_leave_nothing_behind(device: GPU, library: Library) -> None:
    with scoped_set_flag(JitFlag.KernelHistory):
        evaluate([straight(array(numbers(), FLOAT32))])
        assert len(library.left("event")) == 2
        kernel_history_clear()
        assert not library.left("event")
        library.refuses["cuLaunchKernel"] = 701
        with pytest.raises(RuntimeError, match="OUT_OF_RESOURCES"):
            evaluate([straight(array(numbers(first=1), FLOAT32))])
    gc.collect()  # of frames that the exception has kept
    assert not library.left("event")


def test_what_is_no_program_is_told_with_what_the_assembler_says(device: GPU) -> None:
    with pytest.raises(DriverError, match=r"cuLinkAddData_v2: CUDA_ERROR_INVALID_PTX \(218\).*nonsense"):
        device.driver.assemble("nonsense")
    code = device.driver.assemble(".visible .entry one (.param .u64 a)\n{\nret;\n}\n")
    module = device.driver.load(code)
    assert device.driver.facts_of(device.driver.function(module, "one")) == {"registers": 0, "local": 0, "shared": 0}
    with pytest.raises(DriverError, match="NOT_FOUND"):
        device.driver.function(module, "two")
    device.driver.unload(module)


def test_threads_have_the_context_before_they_ask(device: GPU) -> None:
    """Whatever they ask for first."""
    x = array(numbers(), FLOAT32)
    for _ in range(3):
        values(straight(x))
    text = ".visible .entry one (.param .align 8 .b8 p[8])\n{\nret;\n}\n"
    module = device.driver.load(device.driver.assemble(text))
    function, address = device.driver.function(module, "one"), device.driver.allocate(16)
    driver, failed = device.driver, []
    for ask in (lambda: values(straight(x)), lambda: driver.launch(function, (1, 1), bytes(8)), driver.wait,
                lambda: driver.passed(driver.mark()), lambda: driver.order(1, driver.stream), driver.wait_for_all,
                lambda: driver.device_of(address), lambda: driver.release(driver.allocate(16)), driver.trim,
                lambda: driver.upload(address, bytes(16)), lambda: driver.download(address, 16),
                lambda: driver.copy(address, address, 16), lambda: driver.fill(address, 0, 16),
                lambda: driver.assemble(text), lambda: driver.facts_of(function),
                lambda: driver.function(module, "one"), lambda: driver.milliseconds(driver.mark(), driver.mark()),
                lambda: driver.unload(module)):
        def work(ask: Callable[[], Any] = ask) -> None:
            try:
                with on_backend(device):
                    ask()
            except BaseException as error:
                failed.append(error)
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    driver.release(address)
    assert not failed


def test_threads_keep_the_device_that_others_have_chosen(device: GPU, library: Library) -> None:
    """What belongs to the current context is made in ours all the same."""
    x = array(numbers(), FLOAT32)
    failed: list[BaseException] = []

    def work() -> None:
        try:
            chosen = library.other_context()
            with on_backend(device), scoped_set_flag(JitFlag.KernelHistory):
                for make, expected, _ in KINDS:
                    for _ in range(2):
                        # sums in another order than NumPy's
                        assert np.allclose(values(make(x)), expected(numbers()), rtol=1e-5)
                        assert library.context() == chosen
                kernel_history()
                device.exchange.takes(1)
                device.exchange.returned(0xBAD)
                device.flush()
            assert library.context() == chosen
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert not failed


def test_what_streams_wait_for(device: GPU, library: Library) -> None:
    driver, machine = device.driver, library.device
    driver.order(driver.stream, 2)
    driver.order(1, driver.stream)
    driver.wait_for_all()
    assert machine.orders == [(driver.stream, 2), (1, driver.stream), (-1, machine.stream)]
    machine.behind = True
    point = driver.mark()
    assert not driver.passed(point)
    machine.behind = False
    assert driver.passed(point) and not library.left("event")
    with pytest.raises(DriverError, match="INVALID_HANDLE"):
        driver.order(driver.stream, 0xBAD)
    assert not library.left("event")


def test_memory(device: GPU) -> None:
    driver = device.driver
    address = driver.allocate(32)
    driver.upload(address, memoryview(np.arange(4, dtype=np.uint64)))
    driver.copy(address + 8, address + 16, 8)
    driver.fill(address, 0xFF, 4)
    assert np.frombuffer(driver.download(address, 32), np.uint64).tolist() == [0xFFFFFFFF, 2, 2, 3]
    assert (driver.device_of(address + 31), driver.device_of(4096)) == (0, -1)
    driver.release(address)
    with pytest.raises(DriverError, match="INVALID_VALUE"):
        driver.release(address)


# --- failures --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("function", ["cuLaunchKernel", "cuModuleLoadData", "cuModuleGetFunction", "cuLinkComplete"])
def test_what_there_is_no_memory_for_has_that_of_the_cache(device: GPU, library: Library, function: str) -> None:
    x = array(numbers(), FLOAT32)
    if function == "cuLaunchKernel":  # by methods, and by addresses
        for _ in range(3):
            library.refuses[function] = OUT_OF_MEMORY
            assert values(straight(x))[-1] == 100
            assert not library.refuses
        return
    library.refuses[function] = OUT_OF_MEMORY
    assert values(straight(x))[-1] == 100 and not library.refuses
    assert "cuMemPoolTrimTo" in library.calls


def test_what_there_is_no_memory_for_is_told(device: GPU, library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    x = array(numbers(), FLOAT32)
    for _ in range(3):
        y = straight(x)
        with monkeypatch.context() as patch:
            patch.setattr(library, "always", {"cuLaunchKernel": OUT_OF_MEMORY})
            with pytest.raises(MemoryError, match="the GPU has no memory left: cuLaunchKernel"):
                evaluate([y])
        assert values(y)[-1] == 100


def test_a_fault_is_told_by_whoever_sees_it(device: GPU, library: Library) -> None:
    x = array(numbers(), FLOAT32)
    for _ in range(3):
        values(straight(x))
    x.payload.address += 1 << 40
    evaluate([straight(x)])
    x.payload.address -= 1 << 40
    with pytest.raises(RuntimeError, match=r"the GPU is lost.*CUDA_ERROR_ILLEGAL_ADDRESS \(700\).*one of 1 launches"):
        values(x)
    with pytest.raises(RuntimeError, match="the GPU is lost"):
        evaluate([straight(x)])
    calls = len(library.calls)
    del x
    gc.collect()
    device.flush()
    device.flush_memory()
    assert len(library.calls) == calls  # who is lost is not asked
