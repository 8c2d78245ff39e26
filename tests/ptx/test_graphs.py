"""Recordings whose launches the driver gets as a graph: the bits of launches one by one, whatever changes meanwhile."""

from __future__ import annotations

import gc
import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from drjit_core import (
    Node,
    Recorded,
    ReduceOp,
    counter,
    evaluate,
    import_copy,
    literal,
    on_backend,
    ops,
    record,
    reduce,
    rooms,
    scatter,
    size_of,
    step,
    while_loop,
)
from drjit_core.cuda.errors import DriverError
from drjit_core.runtime.gpu.backend import GPU
from drjit_core.runtime.gpu.target import target_of
from tests.core import regions
from tests.core.harness import FLOAT32, TRUE, UINT32, array, values
from tests.machine.driver import MachineDriver
from tests.ptx.test_launching import WithoutFunctions, called, numbers, straight, twice

ADD = ReduceOp.Add.value


class Counted(MachineDriver):
    """A driver that counts."""

    launches = replays = changes = made = 0

    def _launch(self, *arguments: Any) -> int:
        self.launches += 1
        return super()._launch(*arguments)

    def graph(self, launches: Any) -> Any:
        """Counted."""
        self.made += 1
        return super().graph(launches)

    def change(self, *arguments: Any) -> None:
        """Counted."""
        self.changes += 1
        super().change(*arguments)

    def replay(self, launcher: int) -> None:
        """Counted."""
        self.replays += 1
        super().replay(launcher)

    def counts(self) -> tuple[int, int, int, int]:
        """Launches, graphs that were made and launched, and changes of nodes."""
        return self.launches, self.made, self.replays, self.changes


def gpu(fewest: int, driver: MachineDriver | None = None) -> GPU:
    """A device on which so many launches make a graph."""
    return GPU(driver or Counted(), target_of(90)._replace(graph=fewest))


def scanned(x: Node) -> Node:
    """A step, of whatever size."""
    size = size_of(x)
    return step("scan", [x], [(FLOAT32, size)], (ADD, 0, 0), (1, size, 1))[0]  # type: ignore[list-item]


def accumulated(x: Node) -> Node:
    """Updates of few elements, which are read afterwards."""
    index = ops.mod(counter(size_of(x)), literal(UINT32, 7))  # type: ignore[arg-type]
    return ops.add(x, reduce(scatter(literal(FLOAT32, 1, 7), x, index, TRUE, ADD, 0), ReduceOp.Max.value))


def looped(x: Node) -> Node:
    """A loop of several steps."""
    return while_loop((literal(UINT32, 0), x), lambda state: ops.lt(state[0], literal(UINT32, 3)), lambda state: [
        ops.add(state[0], literal(UINT32, 1)), ops.mul(state[1], literal(FLOAT32, 0.5))])[1]


def written(x: Node) -> Node:
    """A write to one element of a copy."""
    return scatter(x, reduce(x, ADD), literal(UINT32, 1), TRUE, 0, 0)


PARTS = [straight, twice, scanned, called, accumulated, looped, written]


def chain(seed: int) -> Callable[..., list[Node]]:
    """A function of an array, a literal and a number in memory, of several launches."""
    parts = random.Random(seed).choices(PARTS, k=5)

    def function(x: Node, factor: Node, offset: Node) -> list[Node]:
        found = [x]
        for number, part in enumerate(parts):
            x = part(ops.fma(x, factor, offset) if number % 3 == 0 else x)
            if number % 2:
                found.append(x := ops.div(x, ops.add(reduce(x, ReduceOp.Max.value), offset)))
        return found[1:]

    return function


def arguments(seed: int, round_: int) -> tuple[Node, Node, Node]:
    """Those of a call: of another size now and then, and other numbers."""
    source = np.random.default_rng((seed, round_))
    size = (50, 50, 50, 1300, 70)[round_ % 5]
    return (array(source.random(size).astype(np.float32) + 0.5), literal(FLOAT32, 1 + round_ / 4),
            array([1 + round_ / 2], FLOAT32))


@pytest.mark.parametrize("seed", [*range(2), *(
    pytest.param(seed, marks=pytest.mark.exhaustive) for seed in range(2, 60))])
def test_random_chains_give_the_bits_of_launches(seed: int) -> None:
    found: list[list[bytes]] = []
    for fewest in (1 << 30, 1):
        with on_backend(device := gpu(fewest)):
            function = Recorded(chain(seed))
            found.append([])
            kept: Any = []
            for round_ in range(10):
                results = function(*arguments(seed, round_))
                found[-1] += [values(result).tobytes() for result in results]
                kept = results if round_ % 3 == 0 else kept  # memory that is not used again
        _, made, replays, changes = device.driver.counts()  # type: ignore[attr-defined]
        assert (replays > 2 and made < 5 and changes > 0) == (fewest == 1 and rooms.compiled), device.driver.counts()
        del function, results, kept
        gc.collect()
        device.flush()
        device.flush_memory()
        assert not device.driver.graphs and not device.driver.machine.memory.blocks  # type: ignore[attr-defined]
    assert found[0] == found[1]


def test_random_programs_give_the_bits_of_launches(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Node] = []
    given: list[Node] = []

    def make(data: Any) -> Node:
        if not given:
            made.append(array(data))
        return given.pop(0) if given else made[-1]

    monkeypatch.setattr(regions, "shared", make)
    replays = 0
    for seed in range(8):
        program = regions.generate(seed)
        with on_backend(device := gpu(1)):
            made.clear()
            roots = regions.trace_unless_refused(program)
            nodes = list(made)
            if not nodes or roots is None:
                continue

            def function(*nodes: Node, program: Any = program) -> list[Node]:
                given[:] = nodes
                return regions.trace(program)

            expected = [values(node).tobytes() for node in roots]
            recording, _ = record(function, nodes)
            for _ in range(3):
                assert [values(node).tobytes() for node in recording.replay(nodes)] == expected, program
            replays += device.driver.replays  # type: ignore[attr-defined]
    assert (replays > 4) == rooms.compiled


def kernels(count: int) -> Callable[[Node], list[Node]]:
    """A function of so many kernels, each of which needs the one before."""
    def function(x: Node) -> list[Node]:
        for _ in range(count):
            x = scatter(straight(x), literal(FLOAT32, 1), literal(UINT32, 0), TRUE, 0, 0)
        return [x]
    return function


def test_a_graph_takes_eight_launches_and_is_made_at_the_second_replay() -> None:
    assert target_of(90).graph == 8
    for count in (3, 8):
        with on_backend(device := GPU(driver := Counted())):
            function = Recorded(kernels(count))
            x = array(numbers())
            submitted, counted, y = [], [], None
            for _ in range(5):
                y = function(x)[0]
                submitted.append(device.submitted())
                counted.append(driver.counts())
            assert y is not None and values(y)[1:].tolist() == (numbers()[1:] + count).tolist() and values(y)[0] == 1
        launches = np.diff(submitted)
        assert (launches == launches[0]).all()  # those of graphs are counted
        if rooms.compiled and count == 8:
            assert launches[0] >= 8
            assert [each[0] for each in counted[1:]] == [counted[1][0]] * 4
            assert [each[1:3] for each in counted] == [(0, 0), (0, 0), (1, 1), (1, 2), (1, 3)]
        else:
            assert driver.counts()[1:] == (0, 0, 0)


def test_a_driver_without_functions_launches() -> None:
    with on_backend(gpu(1, driver := WithoutFunctions())):
        function = Recorded(kernels(8))
        for _ in range(4):
            assert values(function(array(numbers()))[0])[-1] == 107
    assert not driver.graphs


def test_what_has_not_changed_is_not_told_again() -> None:
    """Memory that is used again in the same order has the same addresses."""
    def function(x: Node) -> list[Node]:
        return [reduce(each, op.value) for op in (ReduceOp.Add, ReduceOp.Max) for each in (x, ops.mul(x, x))]

    with on_backend(gpu(1, driver := Counted())):
        recorded, x, changes = Recorded(function), array(numbers()), 0
        for round_ in range(8):
            if round_ in (5, 7):
                changes = driver.changes
                x = array(numbers(first=round_)) if round_ == 7 else x
            recorded(x)
            if round_ == 5:
                assert driver.changes == changes
    assert (driver.changes > changes) == rooms.compiled


def test_kernels_that_were_forgotten_are_launched_again() -> None:
    """And make a graph again, but not always."""
    with on_backend(device := gpu(1, driver := Counted())):
        function = Recorded(lambda x: [twice(scanned(twice(x)))])
        found = set()
        for round_ in range(30):
            if round_ % 3 == 2:
                device.flush()
            found.add(values(function(array(numbers(first=1)))[0]).tobytes())
    assert len(found) == 1 and driver.made == (4 if rooms.compiled else 0)


def test_tables_of_calls_that_change_come_before_their_kernels() -> None:
    """They hold the addresses of what functions read."""
    def function(x: Node, y: Node) -> list[Node]:
        from drjit_core import gather
        from drjit_core.control.choice import call

        for _ in range(3):
            index = ops.and_(counter(size_of(x)), literal(UINT32, 1))  # type: ignore[arg-type]
            table = ops.mul(y, reduce(x, ReduceOp.Max.value))
            x = call(index, TRUE, [lambda a, table=table: [gather(table, counter_of(a[0]), TRUE)],
                                   lambda a: [ops.add(a[0], literal(FLOAT32, 1))]], [x])[0][0]
        return [x]

    def counter_of(x: Node) -> Node:
        from drjit_core import cast
        return ops.and_(cast(x, UINT32), literal(UINT32, 15))

    found = []
    for fewest in (1 << 30, 1):
        with on_backend(device := gpu(fewest)):
            recorded = Recorded(function)
            found.append([])
            kept = []
            for round_ in range(6):
                kept.append(recorded(array(numbers(64, round_)), array(numbers(16, round_ / 2)))[0])
                found[-1].append(values(kept[-1]).tobytes())
    assert found[0] == found[1]
    assert (device.driver.replays > 2) == rooms.compiled  # type: ignore[attr-defined]


# --- what comes in between -------------------------------------------------------------------------------------------


def test_memory_that_runs_short_meanwhile() -> None:
    """What is cached goes back when the launches that use it have been asked for."""
    with on_backend(device := gpu(1, driver := Counted(memory=1_000_000))):
        function = Recorded(chain(1))
        kept: list[Any] = []
        for round_ in range(7):
            size = 2000 + 4000 * (round_ % 3)
            results = function(array(numbers(size, 1)), literal(FLOAT32, 1), array([1], FLOAT32))
            fresh = chain(1)(array(numbers(size, 1)), literal(FLOAT32, 1), array([1], FLOAT32))
            assert [values(one).tobytes() for one in results] == [values(one).tobytes() for one in fresh]
            kept = [*kept[-1:], array(numbers(20_000))]
        assert (driver.replays > 0) == rooms.compiled and device.memory_statistics()["allocations"] > 20


@pytest.mark.skipif(not rooms.compiled, reason="the plain form keeps no launches")
@pytest.mark.parametrize("what", ["upload", "point", "refused", "interrupt"])
def test_what_others_ask_for_comes_behind_the_launches_before_it(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory that a kept launch is going to write may be somebody else's already, who writes to it; and memory that is
    lent goes back at a point behind them."""
    def body(x: Node) -> list[Node]:
        y = straight(x)
        evaluate([y])
        return [scanned(twice(y))]

    with on_backend(device := gpu(1, driver := Counted())):
        function, x = Recorded(body), array(numbers(first=1))
        expected = [values(function(x)[0]).tobytes() for _ in range(4)][-1]
        device.recipes.forget()  # so that the step is looked up when the other launches are kept
        look_up, seen = GPU.compile_text, list[Node]()

        def compile_text(self: GPU, *given: Any) -> Any:
            keeps, before = self.native.keeps, driver.launches
            if what == "interrupt":
                assert keeps
                seen.append(x)
                raise KeyboardInterrupt
            if what == "point":
                self.exchange.lent(object())  # and not any more
            else:
                seen.append(import_copy(FLOAT32, numbers(100, 7)))
            assert keeps and not self.native.keeps and driver.launches > before
            return look_up(self, *given)

        def refuse(*given: Any) -> None:
            raise DriverError("cuLaunchKernel", "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", 701)

        with monkeypatch.context() as patch:
            patch.setattr(GPU, "compile_text", compile_text)
            if what == "refused":  # which is told to who launches
                patch.setattr(driver, "launch", refuse)
                with pytest.raises(RuntimeError, match="OUT_OF_RESOURCES"):
                    function(x)
            elif what == "interrupt":  # when there were launches already
                before = driver.launches
                with pytest.raises(KeyboardInterrupt):
                    function(x)
                assert seen.pop() is x and driver.launches >= before + 3 and not device.native.keeps
            else:
                assert values(function(x)[0]).tobytes() == expected
        assert all(values(other).tolist() == numbers(100, 7).tolist() for other in seen)
        assert values(function(x)[0]).tobytes() == expected


@pytest.mark.skipif(not rooms.compiled, reason="the plain form makes no graphs")
def test_an_interrupt_while_a_graph_is_made_is_told_when_all_is_launched() -> None:
    """What a recording has written to is known as written."""
    class Interrupted(Counted):
        def graph(self, launches: Any) -> Any:
            raise KeyboardInterrupt

    with on_backend(gpu(1, driver := Interrupted())):
        function, x = Recorded(kernels(8)), array(numbers())
        function(x)  # which launches otherwise
        before = driver.launches
        function(x)
        launches = driver.launches - before
        with pytest.raises(KeyboardInterrupt):
            function(x)
        assert driver.launches - before == 2 * launches > 16
        assert values(function(x)[0])[-1] == 107


@pytest.mark.skipif(not rooms.compiled, reason="the plain form makes no graphs")
def test_memory_that_goes_back_while_a_graph_is_made_does_so_behind_it() -> None:
    """A finaliser runs then, and the launches of the graph may use the memory."""
    class Interrupted(Counted):
        def graph(self, launches: Any) -> Any:
            asked.append("graph")
            device.exchange.lent(Owner())  # and not any more
            return super().graph(launches)

        def replay(self, launcher: int) -> None:
            asked.append("launch")
            super().replay(launcher)

        def mark(self) -> float:
            asked.append("point")
            return super().mark()

    class Owner:
        def __del__(self) -> None:
            asked.append("gone")

    asked: list[str] = []
    with on_backend(device := gpu(1, Interrupted())):
        function, x = Recorded(kernels(8)), array(numbers())
        for _ in range(3):
            assert values(function(x)[0])[-1] == 107
    assert asked == ["graph", "launch", "point", "gone"]


@pytest.mark.skipif(not rooms.compiled, reason="the plain form keeps no launches")
def test_launches_come_behind_those_that_another_thread_asks_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which lets others run in the midst of it: what is launched meanwhile is neither kept nor forgotten."""
    def body(x: Node) -> list[Node]:
        y = straight(x)
        evaluate([y])
        return [scanned(twice(y))]

    class Slow(Counted):
        def _launch(self, *arguments: Any) -> int:
            if threading.current_thread() is not threading.main_thread():
                begun.set()
                time.sleep(0.05)
            return super()._launch(*arguments)

    begun, others, look_up = threading.Event(), list[threading.Thread](), GPU.compile_text
    with on_backend(device := gpu(1, Slow())):
        function, x = Recorded(body), array(numbers(first=1))
        expected = [values(function(x)[0]).tobytes() for _ in range(4)][-1]
        device.recipes.forget()  # so that the step is looked up when the other launches are kept

        def compile_text(self: GPU, *given: Any) -> Any:
            if not others:
                assert device.native.keeps
                others.append(threading.Thread(target=device.settle))
                others[0].start()
                assert begun.wait(10)
            return look_up(self, *given)

        monkeypatch.setattr(GPU, "compile_text", compile_text)
        assert values(function(x)[0]).tobytes() == expected
        others[0].join()


def test_threads_replay_the_same() -> None:
    with on_backend(device := gpu(1)):
        function, failed = Recorded(chain(3)), []
        given = [arguments(3, round_) for round_ in range(3)]
        expected = [[values(node).tobytes() for node in function(*each)] for each in given]

        def work(number: int) -> None:
            try:
                with on_backend(device):
                    for round_ in range(6):
                        each = (number + round_) % 3
                        data = numbers(200, number)
                        mine = array(data)
                        found = [values(node).tobytes() for node in function(*given[each])]
                        assert found == expected[each] and (values(mine) == data).all()
            except BaseException as error:
                failed.append(error)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not failed


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_process_is_told_that_the_gpu_stays_with_its_parent() -> None:
    with on_backend(gpu(1)):
        function = Recorded(kernels(8))
        x = array(numbers())
        for _ in range(3):
            function(x)
        child = os.fork()
        if not child:
            status = 1
            try:
                function(x)
            except RuntimeError as error:
                status = 0 if "was forked" in str(error) else 2
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert values(function(x)[0])[-1] == 107


# --- failures --------------------------------------------------------------------------------------------------------


def test_a_fault_is_told_with_the_last_launches_of_a_graph() -> None:
    with on_backend(device := gpu(8)):
        function = Recorded(kernels(8))
        x = array(numbers())
        for _ in range(3):
            values(function(x)[0])
        x.payload.address += 1 << 40
        with pytest.raises(RuntimeError, match=r"the GPU is lost.*one of \d+ launches: [0-9a-f]{16} \(.*test_graphs\.p"
                           r"y:\d+\)") as told:
            values(function(x)[0])
        assert str(told.value).count("test_graphs.py:") == (5 if rooms.compiled else 1)  # who launches sees it
        x.payload.address -= 1 << 40
        with pytest.raises(RuntimeError, match="the GPU is lost"):
            function(x)
        device.flush()
    assert values(straight(array(numbers())))[-1] == 100  # other backends go on


@pytest.mark.skipif(not rooms.compiled, reason="the plain form makes no graphs")
@pytest.mark.parametrize("what", ["graph", "change", "replay"])
@pytest.mark.parametrize("error", [MemoryError("none left"), DriverError("cuGraph", "CUDA_ERROR_NOT_SUPPORTED", 801)])
def test_what_cannot_be_a_graph_is_launched(what: str, error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    """That a graph cannot be launched is an error, unless there is no memory for it."""
    with on_backend(gpu(1, driver := Counted())):
        function = Recorded(kernels(8))
        x = array(numbers())
        for _ in range(2 if what == "graph" else 3):
            function(x)

        def refuse(*arguments: Any) -> None:
            raise error

        monkeypatch.setattr(driver, what, refuse)
        status = 2 if isinstance(error, MemoryError) else 1
        monkeypatch.setattr(driver, "_told", lambda work: _status(work, status))
        monkeypatch.setattr(driver, "fail", lambda function, status: (_ for _ in ()).throw(error))
        y = array(numbers(first=2))
        if what == "replay" and status == 1:
            with pytest.raises(RuntimeError, match="NOT_SUPPORTED"):
                function(y)
            return
        for _ in range(3):
            before = driver.launches
            assert values(function(y)[0])[-1] == 109
            assert driver.launches > before + 7


def _status(work: Callable[[], None], status: int) -> int:
    try:
        work()
    except (MemoryError, DriverError):
        return status
    return 0


# --- by the driver's library -----------------------------------------------------------------------------------------


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> Iterator[Any]:
    """A library of the driver's functions."""
    import ctypes

    from drjit_core.runtime import disk
    from tests.machine.library import Library

    found = Library(MachineDriver())
    monkeypatch.setattr(ctypes, "CDLL", lambda name: found)
    monkeypatch.setattr(disk, "directory", lambda: tmp_path)
    yield found
    assert not found.errors


def test_graphs_by_the_functions_of_the_library(library: Any) -> None:
    from drjit_core.cuda.driver import Driver

    driver = Driver()
    with on_backend(device := GPU(driver, target_of(90)._replace(graph=1))):
        functions = [Recorded(chain(seed)) for seed in range(2)]
        failed: list[BaseException] = []

        def work(theirs: bool) -> None:
            try:
                if theirs:  # a thread in which another library has chosen another device
                    library.other_context()
                with on_backend(device):
                    for seed, function in enumerate(functions):
                        for round_ in range(3 - theirs):
                            found = [values(node).tobytes() for node in function(*arguments(seed, round_))]
                            fresh = [values(node).tobytes() for node in chain(seed)(*arguments(seed, round_))]
                            assert found == fresh
            except BaseException as error:
                failed.append(error)

        for theirs in (False, True):
            thread = threading.Thread(target=work, args=(theirs,))
            thread.start()
            thread.join()
        assert not failed
        assert ("cuGraphLaunch" in library.calls) == rooms.compiled
        assert bool(library.left("launcher")) == rooms.compiled
        functions.clear()
        gc.collect()
        device.flush()
        assert not any(library.left(kind) for kind in ("graph", "node", "launcher", "module"))


@pytest.mark.skipif(not rooms.compiled, reason="the plain form makes no graphs")
@pytest.mark.parametrize("name", ["cuGraphCreate", "cuGraphAddKernelNode_v2", "cuGraphInstantiateWithFlags",
                                  "cuGraphExecKernelNodeSetParams_v2", "cuGraphLaunch"])
@pytest.mark.parametrize("status", [2, 801])
def test_functions_that_refuse(library: Any, name: str, status: int) -> None:
    from drjit_core.cuda.driver import Driver

    with on_backend(device := GPU(Driver(), target_of(90)._replace(graph=1))):
        function = Recorded(kernels(8))
        makes = name in ("cuGraphCreate", "cuGraphAddKernelNode_v2", "cuGraphInstantiateWithFlags")
        for round_ in range(7):
            if round_ == (2 if makes else 4):
                library.refuses[name] = status
            x = array(numbers(100 + 10 * round_, round_))
            if round_ == 4 and name == "cuGraphLaunch" and status == 801:
                with pytest.raises(RuntimeError, match=r"cuGraphLaunch: .*\(801\)"):
                    function(x)
                return
            assert values(function(x)[0])[1:].tolist() == (numbers(100 + 10 * round_, round_)[1:] + 8).tolist()
        assert not library.refuses
        del function
        gc.collect()
        device.flush()
        assert not any(library.left(kind) for kind in ("graph", "node", "launcher"))
