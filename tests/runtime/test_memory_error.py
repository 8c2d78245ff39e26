"""When memory runs out: an exception that says how much was asked for, and what occupies the rest."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits the address space of the process")

PRELUDE = """
import resource
import drjit as dr, drjit_core as core
from drjit.llvm import Float, Float64
from drjit_core.llvm import jit

def limit(more):
    with open("/proc/self/statm") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + more, resource.RLIM_INFINITY))

def attempt(function):
    try:
        function()
    except MemoryError as error:
        print(error)
        return
    raise SystemExit("there was enough memory")

large = dr.opaque(Float, 1, 1 << 22)
core.set_label(large._nodes()[0], "weights")
small = dr.opaque(Float64, 1, 1 << 16)
dr.eval(dr.arange(Float, 1 << 20) + large[0])
jit.engine()  # threads, code and LLVM are there
"""


def run(program):
    done = subprocess.run([sys.executable, "-c", PRELUDE + program], capture_output=True, text=True,
                          env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)})
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_message():
    text = run("limit(64 << 20)\nx = dr.arange(Float, 1 << 28)\nattempt(lambda: dr.eval(x))")
    assert text.startswith("cannot allocate 1 GiB (1073741824 bytes) of host memory")
    assert "16 MiB: float32[4194304] 'weights'; 512 KiB: float64[65536]" in text
    assert "in use" in text


def test_impossible_size():
    assert "cannot allocate 4096 TiB" in run("attempt(lambda: dr.opaque(Float, 1, 1 << 50))")


def test_the_program_goes_on():
    assert run("limit(64 << 20)\nx = dr.arange(Float, 1 << 28)\nattempt(lambda: dr.eval(x))\n"
               "print(x.state.name, dr.sum(small)[0], (dr.arange(Float, 100) + 1)[99])").splitlines()[-1] == (
                   "Unevaluated 65536.0 100.0")


def test_unused_memory_is_given_back_and_used():
    assert run("y = [dr.opaque(Float, 1, 1 << 22) for _ in range(20)]\ndr.sync_thread()\nlimit(16 << 20)\n"
               "del y\nprint(dr.opaque(Float, 1, 60 << 20)[5])") == "1.0\n"


def test_arrays_in_reference_cycles_are_collected():
    assert run("import gc\ngc.disable()\nclass Holder: pass\nholder = Holder()\nholder.itself = holder\n"
               "holder.arrays = [dr.opaque(Float, 1, 1 << 22) for _ in range(20)]\ndr.sync_thread()\n"
               "del holder\nlimit(16 << 20)\nprint(dr.opaque(Float, 1, 60 << 20)[5])") == "1.0\n"
