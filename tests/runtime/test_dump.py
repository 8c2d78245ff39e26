"""``DRJIT_DUMP_DIR``: files for each kernel, and a script that runs it alone."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

import drjit as dr
from drjit.llvm import Bool, Float, Float16, Float64, Int, UInt
from drjit_core import VarType, call, evaluate, literal, opaque, ops
from drjit_core.runtime import dump


@pytest.fixture
def folder(tmp_path, monkeypatch):
    path = tmp_path / "kernels"
    dr.eval()  # what other tests have scheduled
    dr.sync_thread()
    monkeypatch.setenv("DRJIT_DUMP_DIR", str(path))
    dr.flush_kernel_cache()
    yield path
    dr.flush_kernel_cache()


def names(folder, suffix):
    return sorted(path.stem for path in folder.glob(f"*{suffix}"))


def rerun(folder, name, repetitions=2):
    done = subprocess.run([sys.executable, str(folder / f"{name}.py"), str(repetitions)], capture_output=True,
                          text=True, env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)})
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_files_of_a_kernel(folder):
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory):
        dr.kernel_history_clear()
        x = Float(1, 2, 3)
        dr.eval(x * 2.5)
        (entry,) = dr.kernel_history([dr.KernelType.JIT])
    name = entry["hash"]
    assert sorted(os.listdir(folder)) == [name + suffix for suffix in (".ll", ".py", ".s", ".txt")]
    assert (folder / f"{name}.ll").read_text() == entry["ir"].getvalue()
    assert "ret" in (folder / f"{name}.s").read_text()
    assert re.fullmatch(r"kernel \w+: 3 elements, 2 runs: best [\d.]+ ms, median [\d.]+ ms\n", rerun(folder, name))


def test_listing(folder):
    with dr.scoped_set_flag(dr.JitFlag.Debug):
        x = Float(1, 2, 3)
        y = x * 2.5  # the line that the listing shows
        z = dr.sum(dr.gather(Float, x, UInt(y))) + 1
        dr.eval(y, z)
    with pytest.warns(RuntimeWarning, match="out-of-bounds read from position 5"):
        dr.sync_thread()
    text = "\n".join(path.read_text() for path in folder.glob("*.txt"))
    assert re.search(r"v\d+: float32 = mul\(v\d+, v\d+\) .* # .*test_dump\.py:\d+: y = x \* 2\.5  # the line", text)
    for part in ("0  width 3", "literal float32 2.5", "input float32[3], packets", "output float32[3]",
                 "memory float32[3], accessed by index", "store add over all elements of v", "limit 3",
                 "report of 1 checked access", "store v"):
        assert part in text


def loop(kind, count):
    def body(i, x):
        return i + 1, x * kind(0.5) + 1
    return dr.while_loop((UInt(0), dr.arange(kind, count)), lambda i, x: i < 5, body)[1]


def newton():
    target = dr.opaque(Float, 2, 100)
    return dr.while_loop((dr.full(Float, 1, 100), target), lambda x, t: dr.abs(x * x - t) > 1e-3,
                         lambda x, t: (0.5 * (x + t / x), t))[0]


def scattered(op, mode=dr.ReduceMode.Auto, size=100_000):
    target = dr.zeros(Float, 500)
    dr.scatter_reduce(op, target, dr.arange(Float, size), dr.opaque(UInt, 3, size) + dr.arange(UInt, size) % 400,
                      mode=mode)
    return target


PROGRAMS = {
    "one element": lambda: Float(3) + dr.opaque(Float, 1),
    "half precision": lambda: Float16(1, 2) * dr.opaque(Float16, 3),
    "masks": lambda: dr.opaque(Bool, True, 100) & (dr.arange(Int, 100) > 3),
    "reductions": lambda: (dr.sum(dr.arange(Float, 100_000) * 2.0), dr.max(dr.arange(Float64, 100_000))),
    "indices from memory": lambda: dr.gather(Float, dr.opaque(Float, 1, 50), dr.opaque(Int, 59, 200) - 10),
    "gather of what is also read": lambda: (lambda x: x + dr.gather(Float, x, 99 - dr.arange(UInt, 100)))(
        dr.opaque(Float, 2, 100)),
    "loop": lambda: loop(Float, 1000),
    "loop whose end depends on data": newton,
    "scatter-addition": lambda: scattered(dr.ReduceOp.Add),
    "scatter-addition, atomic": lambda: scattered(dr.ReduceOp.Add, dr.ReduceMode.Direct),
    "scatter-maximum, short": lambda: scattered(dr.ReduceOp.Max, size=100),
}


@pytest.mark.parametrize("debug", [False, True])
@pytest.mark.parametrize("program", PROGRAMS)
def test_every_script_runs(folder, program, debug):
    with dr.scoped_set_flag(dr.JitFlag.Debug, debug):
        dr.eval(PROGRAMS[program]())
    found = names(folder, ".py")
    assert found
    for name in found:
        assert f"kernel {name}: " in rerun(folder, name, 1)


def test_there_is_no_script_of_a_kernel_that_calls(folder):
    """Its tables hold addresses of the process that made them: a script with these crashes."""
    index = opaque(literal(VarType.UInt32.value, 1, 100))
    targets = [lambda s: s, lambda s: [ops.add(s[0], literal(VarType.UInt32.value, 1))]]
    evaluate(call(index, literal(VarType.Bool.value, True), targets, [index])[0])
    assert len(names(folder, ".ll")) == len(names(folder, ".txt")) == len(names(folder, ".py")) + 1
    for name in names(folder, ".py"):
        rerun(folder, name, 1)


def test_kernels_from_disk_are_dumped(folder):
    dr.eval(dr.arange(Float, 10) * 3.25 - 1)
    (folder / "marker").touch()
    before = set(os.listdir(folder))
    for path in folder.iterdir():
        path.unlink()
    dr.flush_kernel_cache()
    dr.eval(dr.arange(Float, 10) * 3.25 - 1)
    assert set(os.listdir(folder)) == before - {"marker"}


def test_nothing_without_the_variable(tmp_path, monkeypatch):
    monkeypatch.delenv("DRJIT_DUMP_DIR", raising=False)
    monkeypatch.chdir(tmp_path)
    dr.flush_kernel_cache()
    dr.eval(dr.arange(Float, 10) * 4.25)
    assert not os.listdir(tmp_path)


def test_unwritable_folder_is_one_warning(tmp_path, monkeypatch, caplog):
    (tmp_path / "file").touch()
    monkeypatch.setenv("DRJIT_DUMP_DIR", str(tmp_path / "file" / "folder"))
    monkeypatch.setattr(dump, "_warned", set())
    dr.flush_kernel_cache()
    for value in (5.25, 6.25):
        x = dr.arange(Float, 10) * value
        assert (x + Float(value))[1] == 2 * value
        dr.flush_kernel_cache()
    assert len([record for record in caplog.records if "DRJIT_DUMP_DIR" in record.message]) == 1
