"""Debug mode: indices out of bounds are masked out, and reported with the user's line at the next synchronisation."""

from __future__ import annotations

import array
import inspect
import os
import re
import struct
import subprocess
import sys
import threading
import warnings

import pytest

import drjit as dr
import drjit_core as core
from drjit.llvm import Bool, Float, Int, UInt, UInt64
from drjit_core import KIND, TYPES, ReduceOp, VarType
from drjit_core.codegen.program import assemble
from drjit_core.control.choice import call
from drjit_core.llvm import emit
from drjit_core.passes.domain import flat
from drjit_core.passes.schedule import Kernel
from drjit_core.runtime import bounds
from drjit_core.runtime.cpu.backend import CPU
from drjit_core.runtime.cpu.target import CPU_TARGET

TRUE = core.literal(VarType.Bool.value, True)


@pytest.fixture(autouse=True)
def debug_mode():
    with dr.scoped_set_flag(dr.JitFlag.Debug, True):
        yield


def here():
    """The caller's line as messages name it."""
    frame = inspect.currentframe().f_back
    return f"({frame.f_code.co_filename}:{frame.f_lineno})"


def reports(synchronise=dr.sync_thread):
    """The warnings of the next synchronisation."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        synchronise()
    assert all(entry.category is RuntimeWarning for entry in found)
    return [str(entry.message) for entry in found]


def values(array):
    """Elements of an array, and the warnings that reading them gives."""
    result = []
    found = reports(lambda: result.extend(array[i] for i in range(len(array))))
    return result, found


def read(size, position, where, more=0):
    text = f"drjit.gather(): out-of-bounds read from position {position} in an array of size {size}. {where}"
    return text + (f" {more} further access{'es were' if more > 1 else ' was'} out of bounds here." if more else "")


def test_gather():
    x, where = dr.gather(dtype=UInt, source=UInt(1, 2, 3), index=UInt(0, 1, 100)), here()
    assert values(x) == ([1, 2, 0], [read(3, 100, where)])


def test_the_warning_points_to_the_synchronisation():
    x = dr.gather(UInt, UInt(1, 2, 3), UInt(0, 1, 100))
    with pytest.warns(RuntimeWarning, match="out-of-bounds read") as found:
        x[0]
    assert found[0].filename == __file__


@pytest.mark.parametrize(("index", "more"), [(UInt(7), 0), (UInt(7, 7), 1), (dr.full(UInt, 7, 100), 0)])
def test_uniform_index(index, more):
    x, where = dr.gather(Float, Float(1, 2, 3), index), here()
    assert values(x) == ([0] * len(x), [read(3, 7, where, more)])


def test_uniform_index_of_many_blocks_counts_once():
    x, where = dr.gather(Float, Float(1, 2, 3), UInt(7)) + dr.arange(Float, 1 << 20), here()
    assert reports(lambda: x[5]) == [read(3, 7, where)]
    assert x[5] == 5


def test_all_accesses_are_counted():
    x, where = dr.gather(Float, dr.arange(Float, 1000), dr.arange(UInt, 300_000)), here()
    total = dr.sum(x)
    (found,) = reports(lambda: total[0])
    assert re.fullmatch(re.escape(read(1000, 0, where, 298_999)).replace(r"position\ 0", r"position\ (\d+)"), found)
    assert total[0] == sum(range(1000))


def test_padding_is_no_access():
    assert values(dr.gather(UInt, UInt(5, 6, 7), dr.arange(UInt, 3)))[1] == []


def test_inactive_lanes_are_no_accesses():
    x = dr.gather(UInt, UInt(1, 2, 3), UInt(0, 1, 100), active=Bool(True, True, False))
    assert values(x) == ([1, 2, 0], [])


def test_negative_index():
    x, where = dr.gather(Float, dr.arange(Float, 10), Int(-1, 2, -5, 3)), here()
    assert values(x) == ([0, 2, 0, 3], [read(10, -1, where, more=1)])


@pytest.mark.parametrize(("type_", "bad"), [("Int32", -3), ("Int64", -3), ("UInt32", (1 << 32) - 3),
                                            ("UInt64", (1 << 64) - 3), ("UInt64", 1 << 32), ("Int64", 1 << 40)])
@pytest.mark.parametrize("width", [1, 5])
def test_index_types(type_, bad, width):
    type_ = VarType[type_].value
    code = TYPES[type_].code
    source = core.import_copy(VarType.Float32.value, array.array("f", [1, 2, 3, 4]))
    index = core.import_copy(type_, array.array(code, [bad, 1, 2, 3, 0][:width]))
    node, where = core.gather(source, index, core.literal(VarType.Bool.value, True)), here()
    core.evaluate([node])
    assert reports(core.sync) == [read(4, bad, where)]
    assert [core.read_element(node, i) for i in range(width)] == [0, 2, 3, 4, 1][:width]


def test_source_that_is_a_constant():
    x, where = dr.gather(Float, dr.full(Float, 3, 10), UInt(10, 2)), here()
    assert values(x) == ([0, 3], [read(10, 10, where)])


def test_masks_as_source():
    x, where = dr.gather(Bool, Bool(True, True), UInt(0, 2)), here()
    assert values(x) == ([True, False], [read(2, 2, where)])


@pytest.mark.parametrize(("write", "function", "result"), [
    (dr.scatter, "scatter", [0, 0, 0, 1, 0]), (dr.scatter_add, "scatter_add", [0, 0, 0, 2, 0])])
@pytest.mark.parametrize("threads", [1, 2])
def test_writes(write, function, result, threads):
    before = dr.thread_count()
    dr.set_thread_count(threads)
    try:
        target = dr.zeros(Float, 5)
        _, where = write(target, 1.0, UInt(3, 5, 3, 8)), here()
        assert values(target) == (result, [
            f"drjit.{function}(): out-of-bounds write to position 5 in an array of size 5. {where} "
            "1 further access was out of bounds here."])
    finally:
        dr.set_thread_count(before)


@pytest.mark.parametrize("write", [dr.scatter, dr.scatter_add])
def test_writes_of_one_element(write):
    target = dr.zeros(Float, 5)
    write(target, 1.0, UInt(5))
    result, found = values(target)
    assert result == [0] * 5
    assert len(found) == 1


@pytest.mark.parametrize("mode", [mode for mode in dr.ReduceMode if mode.name not in ("NoConflicts", "Permute")])
def test_scatter_reductions_of_many_elements(mode):
    target = dr.zeros(Float, 1000)
    dr.scatter_add(target, 1.0, dr.arange(UInt, 100_000) % 1003, mode=mode)
    (found,) = reports(lambda: target[0])
    bad = sum(i % 1003 >= 1000 for i in range(100_000))
    assert f"{bad - 1} further accesses were" in found
    assert [target[i] for i in (0, 999)] == [100, 99]


@pytest.mark.parametrize("wide", [False, True])
def test_inside_of_a_symbolic_loop(wide):
    source = dr.arange(Float, 1000) + 0
    i, total = dr.arange(UInt, 100) if wide else UInt(0), dr.zeros(Float, 100 if wide else 1)

    def body(i, total):
        return i + 1, total + dr.gather(Float, source, i + 995)

    line = f"({__file__}:{body.__code__.co_firstlineno + 1})"
    i, total = dr.while_loop((i, total), lambda i, total: i < 10, body)
    result, found = values(total)
    assert found == [read(1000, 1000, line, more=39 if wide else 4)]
    assert result[0] == 995 + 996 + 997 + 998 + 999
    assert not wide or result[5:] == [0] * 95


def test_uniform_index_inside_of_a_loop_counts_active_elements():
    source, bad = Float(1, 2, 3), dr.opaque(UInt, 5)

    def body(i, total):
        return i + 1, total + dr.gather(Float, source, bad) + Float(i)

    line = f"({__file__}:{body.__code__.co_firstlineno + 1})"
    _, total = dr.while_loop((dr.arange(UInt, 100), dr.zeros(Float, 100)), lambda i, total: i < 5, body)
    assert reports(lambda: total[0]) == [read(3, 5, line, more=14)]


def test_reports_survive_until_they_are_read():
    for k in range(3):
        dr.eval(dr.gather(UInt, dr.zeros(UInt, 10 + k), UInt(100 + k)))
    dr.eval(dr.arange(Float, 100_000) + 1)
    assert [int(re.search(r"position (\d+)", text)[1]) for text in reports()] == [100, 101, 102]
    assert reports() == []


def test_warnings_as_errors_lose_no_report():
    for k in range(3):
        dr.eval(dr.gather(UInt, dr.zeros(UInt, 10 + k), UInt(100 + k)))
    for k in range(3):
        with warnings.catch_warnings(), pytest.raises(RuntimeWarning, match=f"position {100 + k} "):
            warnings.simplefilter("error")
            dr.sync_thread()
    assert reports() == []


def test_one_line_is_one_report():
    with dr.scoped_set_flag(dr.JitFlag.ValueNumbering, False):
        for k in range(200):
            dr.eval(dr.gather(UInt, UInt(1, 2), UInt(100 + k)))
    (found,) = reports()
    assert "position 100 " in found and "199 further" in found


def test_launch_blocking():
    with dr.scoped_set_flag(dr.JitFlag.LaunchBlocking, True), pytest.warns(RuntimeWarning, match="position 9 "):
        dr.eval(dr.gather(UInt, UInt(1, 2), UInt(9)))


def test_numpy_synchronises():
    x = dr.gather(UInt, UInt(1, 2), UInt(0, 9))
    with pytest.warns(RuntimeWarning, match="position 9 "):
        assert x.numpy().tolist() == [1, 0]


def test_a_finaliser_may_look_at_arrays_while_reports_are_collected():
    class Interrupted(CPU):
        """A backend that a finaliser interrupts, which reads an array and so asks for reports."""

        def is_done(self, ticket):
            bounds.warn()
            return True

    def launch():
        with pytest.warns(RuntimeWarning, match="out-of-bounds read from position 5 in an array of size 3"):
            for report in launched:
                bounds.expect(report, 1)
            bounds.warn()
        ended.append(True)

    dr.sync_thread()
    access = bounds.Access("gather", "read from", 3, None, 32, False)
    launched, ended = [bounds.Report(Interrupted(), [access]) for _ in range(3)], []
    for report in launched:
        report.backend.write(report.memory, 0, struct.pack("=2Q", 1, 5))
    thread = threading.Thread(target=launch, daemon=True)
    thread.start()
    thread.join(20)
    assert ended and not bounds.launched and not bounds.found


def test_reports_of_another_pool():
    x = dr.gather(Float, dr.arange(Float, 10), dr.arange(UInt, 1 << 20))
    dr.eval(x)
    dr.set_thread_count(2)
    assert len(reports()) == 1


def test_reports_at_exit():
    program = ("import drjit as dr\nfrom drjit.llvm import UInt\ndr.set_flag(dr.JitFlag.Debug, True)\n"
               "dr.eval(dr.gather(UInt, UInt(1, 2), UInt(9)))\n")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True,
                          env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)})
    assert "out-of-bounds read from position 9 in an array of size 2. (<string>:4)" in done.stderr


def test_without_the_flag_kernels_are_unchanged():
    source, index = dr.opaque(Float, 1, 10), UInt64(1, 2, 3)
    node = dr.gather(Float, source, UInt(index))._nodes()[0]
    kernel = Kernel(0, flat(3))
    kernel.outputs.append(node)
    plain, checked = (assemble(kernel, CPU_TARGET, flag) for flag in (False, True))
    assert plain.key != checked.key
    assert len(checked.parameters) == len(plain.parameters) + 2
    assert "out_of_bounds" not in emit.emit(plain, 8)
    assert "out_of_bounds" in emit.emit(checked, 8)


def test_kernels_without_accesses_are_the_same_with_the_flag():
    kernel = Kernel(0, flat(3))
    kernel.outputs.append((UInt(1, 2, 3) + 5)._nodes()[0])
    assert kernel.outputs[0].kind == KIND["add"]
    assert assemble(kernel, CPU_TARGET, checked=True).key == assemble(kernel, CPU_TARGET).key


def test_constant_source_inside_of_a_loop():
    def body(i, total):
        return i + 1, total + dr.gather(Float, dr.full(Float, 2, 10), i + 8)

    line = f"({__file__}:{body.__code__.co_firstlineno + 1})"
    _, total = dr.while_loop((dr.opaque(UInt, 0, 3), dr.zeros(Float, 3)), lambda i, total: i < 3, body)
    assert values(total) == ([4, 4, 4], [read(10, 10, line, more=2)])


# --- targets of calls ------------------------------------------------------------------------------------------------


def array_of(*elements):
    """A node in memory, of 32-bit unsigned integers."""
    return core.import_copy(VarType.UInt32.value, array.array("I", elements))


def called(targets, index, *arguments, mask=None):
    """Results of a call, and new versions of the arguments."""
    mask = core.literal(VarType.Bool.value, True) if mask is None else mask
    return call(index, mask, [lambda s, target=target: target(*s) for target in targets], arguments)


def elements(node):
    """Elements of a node, and the warnings that reading them gives, sorted."""
    core.evaluate([node])
    result = []
    found = reports(lambda: result.extend(core.read_element(node, i) for i in range(node.size)))
    return result, sorted(found)


def line_of(function, offset=1):
    return f"({__file__}:{function.__code__.co_firstlineno + offset})"


@pytest.mark.parametrize("width", [1, 5, 40])
def test_targets_that_are_one_function_name_their_own_lines(width):
    source = array_of(1, 2, 3)

    def first(i):
        return [core.gather(source, i, TRUE)]

    def second(i):
        return [core.gather(source, i, TRUE)]

    i = array_of(*([7, 2, 8, 9, 1] * 8)[:width])
    (x,), _ = called([first, second], core.ops.and_(i, core.literal(i.type, 1)), i)
    if width == 1:
        assert elements(x) == ([0], [read(3, 7, line_of(second))])
        return
    more = width // 5 - 1
    assert elements(x) == ([0, 3, 0, 0, 2] * (width // 5), sorted([
        read(3, 8, line_of(first), more=more), read(3, 7, line_of(second), more=2 * more + 1)]))


def test_elements_that_take_no_part_in_a_call_are_no_accesses():
    source, i = array_of(1, 2, 3), array_of(7, 2, 8, 9)

    def target(i):
        return [core.gather(source, i, TRUE)]

    mask = core.ops.lt(i, core.literal(i.type, 8))
    (x,), _ = called([target, target], core.literal(i.type, 0, 4), i, mask=mask)
    assert elements(x) == ([0, 3, 0, 0], [read(3, 7, line_of(target))])


@pytest.mark.parametrize("op", [ReduceOp.Identity, ReduceOp.Add])
def test_writes_of_a_target(op):
    memory, i = array_of(0, 0, 0), array_of(2, 5, 1, 4)

    def target(m, i):
        core.scatter(m, core.literal(i.type, 7), i, TRUE, op.value, 0)
        return [i]

    def other(m, i):
        return [core.ops.add(i, i)]

    _, versions = called([target, other], core.ops.and_(i, core.literal(i.type, 2)), memory, i)
    function = "scatter" if op is ReduceOp.Identity else "scatter_reduce"
    assert elements(versions[0]) == ([0, 7, 0], [
        f"drjit.{function}(): out-of-bounds write to position 5 in an array of size 3. {line_of(target)} "
        "1 further access was out of bounds here."])


def test_calls_within_calls_and_loops_report_beside_their_kernel():
    source, i = array_of(1, 2, 3), array_of(7, 2, 8, 1)
    even = core.ops.and_(i, core.literal(i.type, 1))

    def inner(i):
        return [core.gather(source, core.ops.add(i, core.literal(i.type, 10)), TRUE)]

    def outer(i):
        (x,), _ = called([inner, lambda i: [i]], even, i)
        return [core.ops.add(x, core.gather(source, core.ops.add(i, core.literal(i.type, 20)), TRUE))]

    def iteration(s):
        (x,), _ = called([outer, lambda i: [i]], even, i)
        return [core.ops.add(s[0], core.literal(i.type, 1)), core.ops.add(s[1], x)]

    beside, where = core.gather(source, i, TRUE), here()
    x = core.while_loop([core.literal(i.type, 0, 4), core.literal(i.type, 0, 4)],
                        lambda s: core.ops.lt(s[0], core.literal(i.type, 3)), iteration)[1]
    total = core.ops.add(x, beside)
    assert elements(total) == ([21, 3, 0, 5], sorted([
        read(3, 12, line_of(inner), more=5), read(3, 22, line_of(outer, 2), more=5), read(3, 7, where, more=1)]))
