"""Copies between the host and the device: over the driver's library, where they happen as late as they may."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from conformance import on_gpu
from drjit_core import evaluate, literal, on_backend, ops, rooms
from drjit_core.control.choice import call
from drjit_core.cuda.driver import Driver
from drjit_core.cuda.errors import DriverError
from drjit_core.runtime.gpu.backend import GPU
from tests.core.harness import FLOAT32, TRUE, UINT32, array, values
from tests.machine.library import Library
from tests.ptx.test_launching import numbers, straight

#: What the driver copies at once, what is read by way of pinned memory, and what is written by it.
COPIED, READ, WRITTEN = 1 << 16, 1 << 12, 1 << 22
SIZES = [8, READ, READ + 8, COPIED, COPIED + 8, WRITTEN, WRITTEN + 8]


def words(nbytes: int, first: int = 0) -> Any:
    return np.arange(first, first + nbytes // 8, dtype=np.uint64)


@pytest.mark.parametrize("nbytes", SIZES)
@pytest.mark.parametrize("is_pinned", [True, False])
def test_data_may_be_changed_once_it_was_written(nbytes: int, is_pinned: bool, device: GPU, library: Library) -> None:
    """The host waits only where there is much of it, or no pinned memory."""
    driver, data = device.driver, words(nbytes)
    if not is_pinned:
        library.always["cuMemHostAlloc"] = 2
    address = driver.allocate(nbytes)
    for given in (memoryview(data), memoryview(data).toreadonly(), data.tobytes()):
        driver.fill(address, 0, nbytes)
        library.calls.clear()
        driver.upload(address, given)
        assert ("cuStreamSynchronize" in library.calls) == (nbytes > (WRITTEN if is_pinned else COPIED))
        data[:] = 7
        library.calls.clear()
        found = driver.download(address, nbytes)
        assert found.__class__ is bytes and (np.frombuffer(found, np.uint64) == words(nbytes)).all()
        assert library.calls.count("cuStreamSynchronize") == (1 if nbytes <= READ and is_pinned else 2)
        data[:] = words(nbytes)
    driver.release(address)


def test_what_is_written_comes_in_order_and_waits_for_what_was_written_before(device: GPU, library: Library) -> None:
    driver, nbytes = device.driver, 700_000
    addresses = [driver.allocate(nbytes) for _ in range(3)]
    data = bytearray(nbytes)
    for round_ in range(40):
        data[:] = words(nbytes, round_).tobytes()
        driver.upload(addresses[round_ % 3], memoryview(data))
    assert "cuStreamSynchronize" not in library.calls and 4 < library.calls.count("cuEventSynchronize") < 10
    for number, address in enumerate(addresses):
        last = max(round_ for round_ in range(40) if round_ % 3 == number)
        assert driver.download(address, nbytes) == words(nbytes, last).tobytes()
        driver.release(address)


@pytest.mark.parametrize("status", [2, 801])
def test_without_pinned_memory_the_driver_copies(status: int, device: GPU, library: Library) -> None:
    library.always["cuMemHostAlloc"] = status
    for count in (1, 100_000):
        assert (values(straight(array(numbers(count)))) == numbers(count, 1)).all()
    assert library.calls.count("cuMemHostAlloc") == 2 and not library.pinned


def test_copies_can_be_measured_on_a_device(library: Library) -> None:
    told = list(on_gpu.copies(Driver(), 1 << 21))
    assert len(told) == 24 and "writing 4 bytes, no pinned memory" in [each["name"] for each in told]
    assert not library.device.machine.memory.blocks and len(library.pinned) == 2


def test_many_threads_copy(device: GPU) -> None:
    failed: list[BaseException] = []

    def work(number: int) -> None:
        try:
            with on_backend(device):
                for round_ in range(6):
                    for nbytes in (8, 100_000, 1_500_000):
                        data = words(nbytes, 1000 * number + round_)
                        address = device.driver.allocate(nbytes)
                        device.driver.upload(address, memoryview(data))
                        data[:] = 0
                        found = np.frombuffer(device.driver.download(address, nbytes), np.uint64)
                        assert (found == words(nbytes, 1000 * number + round_)).all()
                        device.driver.release(address)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


@pytest.mark.parametrize("after", [False, True])
def test_interrupts_ruin_nothing(after: bool, device: GPU, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C comes between two calls of the driver: before or after any of them."""
    driver, nbytes = device.driver, 1_500_000
    address, other = driver.allocate(nbytes), driver.allocate(nbytes)
    functions, left = dict(driver.functions), [0]  # type: ignore[attr-defined]

    def interrupted(function: Callable[..., int], *arguments: Any) -> int:
        left[0] -= 1
        if left[0] == 0 and not after:
            raise KeyboardInterrupt
        status = function(*arguments)
        if left[0] == 0:
            raise KeyboardInterrupt
        return status

    steps: list[Callable[[], Any]] = [
        lambda: driver.upload(other, words(nbytes, 5).tobytes()), lambda: driver.download(other, 8)]
    come = 0
    for step in steps:
        for number in range(1, 25):
            left[0] = 1 + number % 4
            with monkeypatch.context() as patch:
                for name, function in functions.items():
                    patch.setitem(driver.functions, name, partial(interrupted, function))  # type: ignore[attr-defined]
                try:
                    step()
                except KeyboardInterrupt:
                    come += 1
            data = words(nbytes, number)
            driver.upload(address, memoryview(data))
            data[:] = 0
            assert driver.download(address + 8, 8) == words(8, number + 1).tobytes()
            assert driver.download(address, nbytes) == words(nbytes, number).tobytes()
    assert come > 20
    driver.release(address)
    driver.release(other)


def test_what_is_written_in_the_midst_of_a_write(device: GPU, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a handler of signals, or a finaliser."""
    driver, nbytes = device.driver, 1_500_000
    functions: dict[str, Any] = driver.functions  # type: ignore[attr-defined]
    addresses, copy = [driver.allocate(nbytes) for _ in range(2)], functions["cuMemcpyHtoDAsync_v2"]
    data = words(nbytes, 1)

    def handled(*arguments: Any) -> int:
        if arguments[0] == addresses[0]:
            driver.upload(addresses[1], memoryview(data))
            driver.trim()
        return int(copy(*arguments))

    monkeypatch.setitem(functions, "cuMemcpyHtoDAsync_v2", handled)
    driver.upload(addresses[0], memoryview(words(nbytes)))
    data[:] = 0
    for number, address in enumerate(addresses):
        assert driver.download(address, nbytes) == words(nbytes, number).tobytes()
        driver.release(address)


def test_a_copy_that_nobody_waits_for_is_waited_for(device: GPU, monkeypatch: pytest.MonkeyPatch) -> None:
    """The interrupt came between the copy and the mark behind it."""
    driver, nbytes = device.driver, 1_500_000  # two of these have room in a half
    addresses = [driver.allocate(nbytes) for _ in range(6)]
    ask = driver.ask

    def interrupted(function: str, *arguments: Any) -> None:
        if function == "cuEventRecord":
            raise KeyboardInterrupt
        ask(function, *arguments)

    for number, address in enumerate(addresses):
        data = words(nbytes, number)
        if number == 1:
            monkeypatch.setattr(driver, "ask", interrupted)
            with pytest.raises(KeyboardInterrupt):
                driver.upload(address, memoryview(data))
            monkeypatch.setattr(driver, "ask", ask)
        else:
            driver.upload(address, memoryview(data))
    for number, address in enumerate(addresses):
        assert driver.download(address, nbytes) == words(nbytes, number).tobytes()
        driver.release(address)


def test_what_is_flushed_gives_pinned_memory_back(device: GPU, library: Library) -> None:
    for _ in range(2):
        x = array(numbers(100_000))
        assert values(straight(x))[-1] == 100_000 and max(map(len, library.pinned.values())) >= WRITTEN
        assert values(array(numbers(2)))[-1] == 1
        del x
        device.flush_memory()
        assert [*map(len, library.pinned.values())] == [16 * READ] and not library.left("event")


def test_a_device_that_is_lost_says_so(device: GPU, library: Library) -> None:
    x = array(numbers())
    x.payload.address += 1 << 40
    evaluate([straight(x)])
    x.payload.address -= 1 << 40
    with pytest.raises(RuntimeError, match=r"the GPU is lost.*CUDA_ERROR_ILLEGAL_ADDRESS \(700\).*one of 1 launches"):
        array(numbers(100_000), FLOAT32)
    for ask in (lambda: device.driver.download(0, 8), lambda: device.driver.upload(0, bytes(100_000)),
                lambda: device.driver._staging.release()):  # type: ignore[attr-defined]
        with pytest.raises(DriverError):
            ask()


def test_tables_of_many_functions_are_there_when_these_are_launched(device: GPU, library: Library) -> None:
    """They have more bytes than the driver copies at once."""
    count = 4200
    index, x = array(np.arange(count), UINT32), array(numbers(count))
    for round_ in range(4):
        functions = [lambda a, number=number: [ops.add(a[0], literal(FLOAT32, number))]
                     for number in range(round_, count + round_)]
        assert (values(call(index, TRUE, functions, [x])[0][0]) == 2 * numbers(count) + round_).all()
    if rooms.compiled:
        assert max(map(len, library.pinned.values())) >= WRITTEN
