"""Ranges and marks in the history of kernels, flags, and log levels."""

from __future__ import annotations

import sys
import threading

import pytest

import drjit as dr
from drjit._tools import profiling
from drjit.detail import ProfileEvent
from drjit.llvm import Float


@pytest.fixture(autouse=True)
def clean_history():
    dr.kernel_history_clear()
    yield
    dr.kernel_history_clear()


def launch(size):
    dr.eval(dr.arange(Float, size) + 1)


def events():
    return [(entry["type"], entry.get("name", entry.get("size")), entry["ranges"]) for entry in dr.kernel_history()]


JIT, MARK, RANGE = dr.KernelType.JIT, ProfileEvent.Mark, ProfileEvent.Range


def test_kernels_carry_the_names_of_ranges():
    with dr.profile_enable():
        launch(2)
        with dr.profile_range("outer"):
            launch(3)
            with dr.profile_range("inner"):
                dr.profile_mark("here")
                launch(4)
            launch(5)
        launch(6)
    assert events() == [(JIT, 2, ()), (JIT, 3, ("outer",)), (MARK, "here", ("outer", "inner")),
                        (JIT, 4, ("outer", "inner")), (RANGE, "inner", ("outer",)), (JIT, 5, ("outer",)),
                        (RANGE, "outer", ()), (JIT, 6, ())]


def test_what_counts_is_the_launch():
    with dr.profile_enable():
        with dr.profile_range("traced"):
            x = dr.arange(Float, 7) + 1
        with dr.profile_range("launched"):
            dr.eval(x)
    assert (JIT, 7, ("launched",)) in events()


def test_ranges_tell_times():
    with dr.profile_enable():
        dr.profile_mark("start")
        with dr.profile_range("step"):
            launch(1000)
            dr.sync_thread()
    mark, kernel, step = dr.kernel_history()
    assert 0 <= mark["time"] <= step["time"] and mark["execution_time"] == 0
    assert 0 < kernel["execution_time"] <= step["execution_time"]
    assert dr.kernel_history() == []


def test_without_a_history_nothing_is_noted():
    with dr.profile_range("a"):
        dr.profile_mark("b")
        launch(3)
        with dr.profile_enable():
            launch(4)
    assert events() == [(JIT, 4, ("a",))]


def test_profiling_restores_the_flag():
    for before in (False, True):
        with dr.scoped_set_flag(dr.JitFlag.KernelHistory, before):
            profile = dr.profile_enable()
            with pytest.raises(KeyError), profile:
                with profile:
                    assert dr.flag(dr.JitFlag.KernelHistory)
                assert dr.flag(dr.JitFlag.KernelHistory)
                raise KeyError
            assert dr.flag(dr.JitFlag.KernelHistory) is before


def test_ranges_end_with_exceptions():
    with dr.profile_enable():
        with pytest.raises(KeyError), dr.profile_range("a"), dr.profile_range("b"):
            raise KeyError
        launch(3)
    assert events() == [(RANGE, "b", ("a",)), (RANGE, "a", ()), (JIT, 3, ())]


def test_one_range_object_nests_and_repeats():
    step = dr.profile_range("step")
    with dr.profile_enable():
        with step, step:
            launch(3)
        with step:
            launch(4)
    assert [entry for entry in events() if entry[0] is JIT] == [(JIT, 3, ("step", "step")), (JIT, 4, ("step",))]


def test_generators_may_interleave_ranges():
    def steps(name):
        with dr.profile_range(name):
            yield
            yield

    a, b = steps("a"), steps("b")
    with dr.profile_enable():
        next(a)
        next(b)
        a.close()
        launch(3)
        b.close()
        launch(4)
    assert [entry for entry in events() if entry[0] is JIT] == [(JIT, 3, ("b",)), (JIT, 4, ())]


def test_ranges_belong_to_threads():
    def work():
        with dr.profile_enable(), dr.profile_range("other"):
            launch(5)

    with dr.profile_enable(), dr.profile_range("main"):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        launch(6)
    assert [entry for entry in events() if entry[0] is JIT] == [(JIT, 5, ("other",)), (JIT, 6, ("main",))]


def test_kinds_of_entries_can_be_chosen():
    with dr.profile_enable(), dr.profile_range("a"):
        dr.profile_mark("b")
        launch(3)
    assert [entry["size"] for entry in dr.kernel_history([JIT])] == [3]


@pytest.mark.parametrize("call", [dr.profile_mark, dr.profile_range])
@pytest.mark.parametrize("name", [3, None, b"a"])
def test_names_are_strings(call, name):
    with pytest.raises(TypeError, match=rf"drjit\.{call.__name__}\(\): the name must be a str, found"):
        call(name)


# --- log levels, flags -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("level", "error", "message"), [
    (99, ValueError, r"there is no log level 99; the levels are 0 \(Disable\), .*6 \(Trace\)"), (-1, ValueError, "-1"),
    ("warn", TypeError, "found str"), (1.5, TypeError, "found float"), (True, TypeError, "found bool")])
def test_log_levels(level, error, message):
    before = dr.log_level()
    with pytest.raises(error, match=rf"drjit\.set_log_level\(\): .*{message}") as info:
        dr.set_log_level(level)
    assert info.value.__cause__ is None and info.value.__suppress_context__ in (True, False)
    assert dr.log_level() is before


#: All of the reference, with the values and defaults of its enumeration.
FLAGS = ["Debug", "ReuseIndices", "ConstantPropagation", "FastMath", "ValueNumbering", "SymbolicLoops", "OptimizeLoops",
         "CompressLoops", "SymbolicCalls", "OptimizeCalls", "MergeFunctions", "SymbolicConditionals", "PacketOps",
         "ForceOptiX", "PrintIR", "KernelHistory", "LaunchBlocking", "ForbidSynchronization", "ScatterReduceLocal",
         "SymbolicScope", "KernelFreezing", "FreezingScope", "EnableObjectTraversal", "ShaderExecutionReordering",
         "SpillToSharedMemory"]


@pytest.mark.parametrize("position", range(len(FLAGS)), ids=FLAGS)
def test_flags_are_accepted_and_change_no_result(position, capsys):
    flag = getattr(dr.JitFlag, FLAGS[position])
    assert int(flag) == 1 << position
    x = dr.opaque(Float, 2, 3)
    for value in (True, False):
        with dr.scoped_set_flag(flag, value):
            assert dr.flag(flag) is value
            y = x * 3 + 1
            (_, total) = dr.while_loop((Float(0, 1, 2), Float(0)), lambda i, total: i < 3, lambda i, t: (i + 1, t + i))
            dr.eval(y, total)
        assert y.tolist() == [7, 7, 7] and total.tolist() == [3, 3, 2]
    capsys.readouterr()


class Tool:
    """Stands for the package ``nvtx``."""

    def __init__(self):
        self.told = []

    def mark(self, name):
        self.told.append(name)

    def push_range(self, name):
        self.told.append(f"{name} begins")

    def pop_range(self):
        self.told.append("it ends")


def test_tools_that_listen_to_nvtx_are_told(monkeypatch):
    tool = Tool()
    monkeypatch.setenv("NVTX_INJECTION64_PATH", "/a/library.so")
    monkeypatch.setitem(sys.modules, "nvtx", tool)
    monkeypatch.setattr(profiling, "_nvtx", profiling._listener())
    step = dr.profile_range("step")
    with pytest.raises(KeyError), dr.profile_range("all"), step:
        dr.profile_mark("here")
        with step:
            raise KeyError
    assert tool.told == ["all begins", "step begins", "here", "step begins", "it ends", "it ends", "it ends"]


def test_nobody_is_told_without_a_tool_or_the_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "nvtx", Tool())
    monkeypatch.delenv("NVTX_INJECTION64_PATH", raising=False)
    assert profiling._listener() is None
    monkeypatch.setenv("NVTX_INJECTION64_PATH", "/a/library.so")
    monkeypatch.setitem(sys.modules, "nvtx", None)  # which is not installed
    assert profiling._listener() is None
