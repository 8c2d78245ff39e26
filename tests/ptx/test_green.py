"""Green contexts, over a library of the driver's functions that is made of the machine: where launches go, what waits
for what, and when contexts go. The library refuses what comes out of order."""

from __future__ import annotations

import gc
import threading
from typing import Any

import numpy as np
import pytest

from drjit_core import JitFlag, Recorded, evaluate, kernel_history, on_backend, rooms, scoped_set_flag
from drjit_core.cuda.errors import DriverError
from drjit_core.runtime import exclusion
from drjit_core.runtime.gpu.backend import GPU
from drjit_core.runtime.gpu.streams import GreenContext
from tests.core.harness import FLOAT32, array, values
from tests.machine.library import Library
from tests.ptx.test_launching import KINDS, numbers, straight

OLD = ("cuDeviceGetDevResource", "cuDevSmResourceSplitByCount", "cuDevResourceGenerateDesc", "cuGreenCtxCreate",
       "cuGreenCtxDestroy", "cuCtxFromGreenCtx")


def run(device: GPU, library: Library) -> set[int]:
    """Launch something; the streams that it went to."""
    before = len(library.launched)
    assert values(straight(array(numbers(), FLOAT32)))[-1] == 100
    return {stream for thread, stream in library.launched[before:] if thread == threading.get_ident()}


def in_thread(work: Any) -> None:
    """Do something in another thread."""
    failed: list[BaseException] = []

    def whole() -> None:
        try:
            work()
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=whole)
    thread.start()
    thread.join()
    assert not failed, failed


def green(device: GPU, count: int = 8) -> GreenContext:
    return device.streams.make(count)


# --- what they are ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("count", "made", "rest"), [(1, 8, 12), (8, 8, 12), (9, 16, 4), (17, 20, 0), (20, 20, 0)])
def test_groups_are_as_large_as_the_device_makes_them(device: GPU, library: Library, count: int, made: int,
                                                      rest: int) -> None:
    context = green(device, count)
    assert context.multiprocessors == made and library.left("green context") == [made]
    handle = context.remaining()
    assert bool(handle) == bool(rest) and context.remaining() == handle
    assert library.left("green context") == [made, rest][:1 + bool(rest)]
    del context
    assert not library.left("green context") and len(library.left("stream")) == len(library.left("context")) == 1


def test_what_cannot_be_made_is_told_and_leaves_nothing(device: GPU, library: Library) -> None:
    with pytest.raises(RuntimeError, match=r"^21 multiprocessors were asked for, the GPU has 20$"):
        green(device, 21)
    context = green(device)
    for function in OLD:
        if function != "cuGreenCtxDestroy":
            library.refuses[function] = 1
            with pytest.raises(RuntimeError, match=rf"{function}: CUDA_ERROR_INVALID_VALUE \(1\)"):
                green(device)
            assert not library.refuses
    library.refuses["cuStreamCreate"] = 2
    with pytest.raises(MemoryError, match="cuStreamCreate"):
        green(device)
    assert len(library.left("green context")) == 1 and len(library.left("stream")) == 2
    library.refuses["cuGreenCtxCreate"] = 1
    with pytest.raises(RuntimeError, match="cuGreenCtxCreate"):
        context.remaining()
    assert context.remaining()  # the next time


def test_drivers_that_are_too_old_have_all_the_rest(library: Library) -> None:
    for name in OLD:
        del library._functions[name]
    library.version = 12030
    from drjit_core.cuda.driver import Driver
    with on_backend(GPU(Driver())) as device:
        with pytest.raises(RuntimeError, match=r"^green contexts need a CUDA driver of version 12\.4 or newer; that of "
                                               r"this machine, 12\.3, lacks a function: .*cuDeviceGetDevResource$"):
            green(device)
        assert len(run(device, library)) == 1


# --- where launches go -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("make", "expected"), [kind[:2] for kind in KINDS],
                         ids=[make.__name__ for make, _, _ in KINDS])
def test_kernels_of_all_kinds_go_in_and_out(device: GPU, library: Library, make: Any, expected: Any) -> None:
    """By methods, and by addresses; the memory of the one is used by the next, in another stream."""
    context, first = green(device), device.driver.stream
    x = array(numbers(), FLOAT32)
    for round_ in range(6):
        del library.launched[:]
        if round_ % 2:
            context.enter()
        # sums in another order than NumPy's
        assert np.allclose(values(make(x)), expected(numbers()), rtol=1e-5)
        assert {stream for _, stream in library.launched} == {context.part.stream if round_ % 2 else first}
        if round_ % 2:
            context.leave()


def test_they_nest(device: GPU, library: Library) -> None:
    first, one, two = device.driver.stream, green(device), green(device)
    streams = []
    for step in (one.enter, two.enter, one.enter, one.leave, two.leave, two.enter, two.leave, one.leave):
        step()
        streams.append(run(device, library))
    a, b = {one.part.stream}, {two.part.stream}
    assert streams == [a, b, a, b, a, b, a, {first}]
    with pytest.raises(RuntimeError, match="has not entered the green context"):
        one.leave()
    one.enter()  # in another order, as generators do
    two.enter()
    one.leave()
    assert run(device, library) == b
    two.leave()
    assert run(device, library) == {first}


def test_replays_are_no_graphs_there(device: GPU, library: Library) -> None:
    """Nodes run on all multiprocessors, whatever stream their graph is launched into."""
    def function(x: Any) -> list[Any]:
        for _ in range(8):
            x = straight(x)
            evaluate([x])
        return [x]

    recorded, x, context = Recorded(function), array(numbers(), FLOAT32), green(device)
    expected = [values(recorded(x)[0]).tobytes() for _ in range(3)][-1]
    graphs = library.calls.count("cuGraphLaunch")
    assert bool(graphs) == rooms.compiled
    context.enter()
    try:
        launched = len(library.launched)
        assert values(recorded(x)[0]).tobytes() == expected
        assert {stream for _, stream in library.launched[launched:]} == {context.part.stream}
        assert library.calls.count("cuGraphLaunch") == graphs
    finally:
        context.leave()
    assert values(recorded(x)[0]).tobytes() == expected
    assert library.calls.count("cuGraphLaunch") == graphs + rooms.compiled


def test_threads_have_contexts_of_their_own(device: GPU, library: Library) -> None:
    first, one, two = device.driver.stream, green(device), green(device)
    entered, left = threading.Barrier(2), threading.Barrier(2)
    found: dict[str, list[set[int]]] = {"inner": []}
    failed: list[BaseException] = []

    def work() -> None:
        try:
            with on_backend(device):
                assert run(device, library) == {first}
                two.enter()
                for _ in range(4):
                    entered.wait()
                    found["inner"].append(run(device, library))
                    left.wait()
                two.leave()
                assert run(device, library) == {first}
        except BaseException as error:
            failed.append(error)
            entered.abort()
            left.abort()

    one.enter()
    thread = threading.Thread(target=work)
    thread.start()
    outer = []
    for _ in range(4):
        entered.wait()
        left.wait()
        outer.append(run(device, library))
    thread.join()
    assert not failed, failed
    assert found["inner"] == [{two.part.stream}] * 4 and outer == [{one.part.stream}] * 4
    with pytest.raises(RuntimeError, match="has not entered"):
        two.leave()
    one.leave()
    assert run(device, library) == {first}


def test_many_threads_use_the_memory_of_each_other(device: GPU, library: Library) -> None:
    """Whatever the schedule: no launch, copy or allocation is out of order, and all results are right."""
    contexts = [green(device) for _ in range(3)]
    failed: list[BaseException] = []

    def work(number: int) -> None:
        try:
            with on_backend(device):
                for round_ in range(12):
                    context = contexts[(number + round_) % 3]
                    context.enter()
                    assert values(straight(array(numbers(first=number), FLOAT32)))[-1] == 100 + number
                    context.leave()
                    assert values(straight(array(numbers(first=round_), FLOAT32)))[-1] == 100 + round_
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed, failed
    assert not library.errors
    assert len(library.left("green context")) == 3
    contexts.clear()
    device.wait()
    assert not library.left("green context")


def test_a_stream_is_left_when_nobody_asks_it(device: GPU, library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy of another thread is under way, without the interpreter's lock."""
    context, driver = green(device), device.driver
    address, copy = driver.allocate(16), driver.functions["cuMemcpyDtoDAsync_v2"]
    begun, entered = threading.Event(), threading.Event()

    def slowly(*arguments: Any) -> Any:
        begun.set()
        entered.wait(0.2)
        return copy(*arguments)

    monkeypatch.setitem(driver.functions, "cuMemcpyDtoDAsync_v2", slowly)
    thread = threading.Thread(target=driver.copy, args=(address, address + 8, 8))
    thread.start()
    assert begun.wait(10)
    context.enter()
    entered.set()
    thread.join()
    driver.release(address)  # which is refused if the copy comes later than the change of streams
    context.leave()


def test_the_order_is_kept_by_events(device: GPU, library: Library) -> None:
    context, first = green(device), device.driver.stream
    orders = library.device.orders
    context.enter()
    context.enter()
    context.leave()
    context.leave()
    assert orders == [(first, context.part.stream), (context.part.stream, first)]
    assert not library.left("event")


def test_the_library_refuses_what_is_out_of_order(device: GPU, library: Library) -> None:
    """Otherwise the tests here say little."""
    context = green(device)
    device.driver.release(device.driver.allocate(16))
    device.driver.stream = context.part.stream
    with pytest.raises(DriverError, match=r"\(999\)"):
        device.driver.allocate(16)
    assert str(library.errors.pop()) == "out of order"


def test_reading_and_times_inside(device: GPU, library: Library) -> None:
    context = green(device)
    x = array(numbers(), FLOAT32)
    context.enter()
    y = straight(x)
    with scoped_set_flag(JitFlag.KernelHistory):
        evaluate([y])
        (entry,) = kernel_history()
    calls = len(library.calls)
    assert values(y)[-1] == 100 and entry["execution_time"] > 0
    assert "cuStreamSynchronize" not in library.calls[calls:]  # which may be destroyed while others wait
    context.leave()
    assert not library.left("event")


def test_exchange_is_in_the_order_of_the_stream_that_the_thread_is_in(device: GPU, library: Library) -> None:
    context, first, orders = green(device), device.driver.stream, library.device.orders
    assert device.exchange.stream == first
    context.enter()
    in_thread(lambda: run_outside(device, library))  # whose launches are in the other stream
    assert device.driver.stream == first and device.exchange.stream == context.part.stream
    del orders[:]
    device.exchange.gives(1)
    device.exchange.takes(1)
    device.exchange.returned(1)
    assert orders == [(context.part.stream, 1), (1, context.part.stream), (1, context.part.stream)]
    context.leave()
    assert device.exchange.stream == first


def run_outside(device: GPU, library: Library) -> None:
    with on_backend(device):
        run(device, library)


# --- when they go ----------------------------------------------------------------------------------------------------


def test_they_are_destroyed_when_nobody_has_them(device: GPU, library: Library) -> None:
    context = green(device)
    context.remaining()
    context.enter()
    stream, x = context.part.stream, array(numbers(), FLOAT32)
    y = straight(x)
    evaluate([y])
    del context
    gc.collect()
    assert library.left("green context") and run(device, library) == {stream}  # it is entered
    device.streams._entered.contexts[-1].leave()
    assert not library.left("green context") and len(library.left("stream")) == len(library.left("context")) == 1
    assert values(y)[-1] == 100  # its arrays are there


def test_those_of_threads_that_have_ended_go_later(device: GPU, library: Library) -> None:
    def work() -> None:
        with on_backend(device):
            context = green(device)
            context.enter()
            assert run(device, library) == {context.part.stream}

    first = device.driver.stream
    in_thread(work)
    assert library.left("green context")
    assert run(device, library) == {first}
    assert not library.left("green context")


def test_none_goes_while_somebody_evaluates(device: GPU, library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    context = green(device)
    with monkeypatch.context() as patch:
        patch.setattr(exclusion, "evaluating", True)
        calls = len(library.calls)
        context.enter()  # a handler of a signal, in the midst of a launch: what comes next is elsewhere
        assert device.driver.stream != context.part.stream
        context.leave()
        del context
        assert len(library.calls) == calls and library.left("green context")
    device.wait()
    assert not library.left("green context")


def test_entered_in_the_midst_of_an_evaluation_counts_from_the_next_launch(
        device: GPU, library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    context = green(device)
    for _ in range(3):
        run(device, library)
    with monkeypatch.context() as patch:
        patch.setattr(exclusion, "evaluating", True)
        context.enter()
    assert run(device, library) == {context.part.stream}
    context.leave()


def test_a_lost_device_lets_contexts_go(device: GPU, library: Library) -> None:
    context = green(device)
    context.enter()
    x = array(numbers(), FLOAT32)
    for _ in range(3):
        values(straight(x))
    x.payload.address += 1 << 40
    evaluate([straight(x)])
    x.payload.address -= 1 << 40
    with pytest.raises(RuntimeError, match="the GPU is lost"):
        values(x)
    calls = len(library.calls)
    context.leave()
    with pytest.raises(RuntimeError, match="the GPU is lost"):
        context.enter()
    assert not device.streams._entered.contexts
    with pytest.raises(RuntimeError, match="the GPU is lost"):
        green(device)
    del context
    gc.collect()
    assert len(library.calls) == calls  # who is lost is not asked
