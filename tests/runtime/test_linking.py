"""Loading object code, whatever the address space looks like."""

from __future__ import annotations

import ctypes
import gc
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import drjit as dr
from drjit.llvm import Float, Float64, UInt32
from drjit_core.llvm import jit, objects
from drjit_core.runtime.cpu import natives

ELF = pytest.mark.skipif(sys.platform != "linux" or not jit.is_x86(), reason="LLVM's linker loads others")


def results() -> list[Any]:
    """What kernels of many kinds compute."""
    dr.flush_kernel_cache()
    x = dr.linspace(Float, 0.1, 3, 1000)
    i = dr.arange(UInt32, 1000)
    added = dr.zeros(Float, 16)
    dr.scatter_add(added, x, i & 15)
    found = [dr.sin(x) * 2, dr.power(x, x), dr.erf(Float64(x)), dr.gather(Float, x, i // 7), i % 9, added,
             dr.sum(x * x), dr.cumsum(x), dr.argsort(-x),
             dr.switch(i % 20, [lambda x, k=k: x * k for k in range(20)], x),
             dr.while_loop((x, i), lambda x, i: x < 3, lambda x, i: (x * 1.25 + 0.5, i + 1))[0]]
    return [np.array(value) for value in found]


def module_of(body: str) -> bytes:
    return jit.compile_text(textwrap.dedent(body))


@ELF
def test_kernels_are_loaded_without_llvms_linker_and_compute_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[bool] = []
    load = objects.load

    def counted(*arguments: Any) -> Any:
        found = load(*arguments)
        loaded.append(found is not None)
        return found

    monkeypatch.setattr(objects, "load", counted)
    ours = results()
    assert len(loaded) >= 8 and all(loaded)
    monkeypatch.setattr(objects, "load", lambda *_: None)
    for one, other in zip(ours, results(), strict=True):
        np.testing.assert_array_equal(one, other)


@ELF
@pytest.mark.parametrize(("body", "expected"), [
    ("declare double @cos(double)\n"
     "define double @kernel() { %x = call double @cos(double 0.0)\n ret double %x }", 1.0),
    ("@count = internal global i32 0\n"
     "define double @kernel() { %n = load volatile i32, ptr @count\n %m = add i32 %n, 1\n"
     "store volatile i32 %m, ptr @count\n %x = sitofp i32 %m to double\n ret double %x }", 1.0),
], ids=["functions of others", "data that is written"])
def test_other_objects_are_left_to_llvms_linker(body: str, expected: float) -> None:
    code = module_of(body)
    assert objects.load(code, ["kernel"]) is None
    native = jit.link(code, ["kernel"])
    assert ctypes.CFUNCTYPE(ctypes.c_double)(native.addresses["kernel"])() == expected


@ELF
def test_names_that_are_not_there_are_left_to_llvms_linker() -> None:
    code = module_of("define i32 @kernel() { ret i32 7 }")
    assert objects.load(code, ["kernel", "combine"]) is None
    assert objects.load(b"no object", ["kernel"]) is None
    with pytest.raises(RuntimeError):
        jit.link(code, ["combine"])


@ELF
def test_addresses_in_tables_of_constants() -> None:
    cases = "".join(f" i32 {k}, label %b{k}" for k in range(12))
    blocks = "".join(f"b{k}: store volatile i32 {k}, ptr %at\n br label %end\n" for k in range(12))
    results = ", ".join(f"[ {k * k}, %b{k} ]" for k in range(12))
    native = jit.link(module_of(f"define i32 @kernel(i32 %k) {{\n%at = alloca i32\n"
                                f"switch i32 %k, label %end [{cases}]\n{blocks}"
                                f"end: %x = phi i32 {results}, [ -1, %0 ]\nret i32 %x }}"), ["kernel"])
    function = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(native.addresses["kernel"])
    assert [function(k) for k in range(13)] == [*[k * k for k in range(12)], -1]


@ELF
def test_memory_goes_with_the_code() -> None:
    def mappings() -> int:
        return len(Path("/proc/self/maps").read_text().splitlines())

    code = module_of("define i32 @kernel() { ret i32 7 }")
    gc.collect()
    before = mappings()
    held = [jit.link(code, ["kernel"]) for _ in range(100)]
    function = ctypes.CFUNCTYPE(ctypes.c_int)(held[50].addresses["kernel"])
    assert function() == 7
    del held
    gc.collect()
    assert mappings() <= before + 2  # memory of Python's


@pytest.mark.skipif(sys.platform != "linux", reason="asks the system what processor there is")
def test_llvm_is_not_loaded_for_kernels_on_disk(tmp_path: Path) -> None:
    program = textwrap.dedent("""
        import sys
        import drjit as dr
        from drjit.llvm import Float
        assert dr.has_backend(dr.JitBackend.LLVM)
        print(dr.sum(dr.sin(dr.arange(Float, 100))), "llvmlite.binding" in sys.modules)
    """)
    environment = {"PATH": "", "PYTHONPATH": ":".join(sys.path), "DRJIT_CACHE_DIR": str(tmp_path / "cache")}
    first, second = (subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120,
                                    check=True, env=environment).stdout.split() for _ in range(2))
    assert first[0] == second[0]
    assert (first[1], second[1]) == ("True", str(not jit.is_x86()))


def test_the_host_is_asked_for_again_where_the_library_is_another_one(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def ask() -> jit.Host:
        asked.append(1)
        return jit.Host("cpu", "+a,-b", "triple", "20.1.0")

    monkeypatch.setenv("DRJIT_CACHE_DIR", str(tmp_path / "cache"))
    library = tmp_path / "llvmlite" / "binding" / "libllvmlite.so"
    library.parent.mkdir(parents=True)
    library.write_bytes(b"one")
    spec = type("Spec", (), {"submodule_search_locations": [str(library.parent.parent)]})
    monkeypatch.setattr(natives.importlib.util, "find_spec", lambda _: spec)
    assert natives._host(ask) == natives._host(ask) == jit.Host("cpu", "+a,-b", "triple", "20.1.0")
    assert len(asked) == (1 if Path("/proc/cpuinfo").exists() else 2)
    library.write_bytes(b"another")
    natives._host(ask)
    assert len(asked) == (2 if Path("/proc/cpuinfo").exists() else 3)
    monkeypatch.setenv("DRJIT_CACHE_DIR", "")
    natives._host(ask)
    assert len(asked) == (3 if Path("/proc/cpuinfo").exists() else 4)
    library.unlink()
    natives._host(ask)  # as without the package
    assert len(asked) == (4 if Path("/proc/cpuinfo").exists() else 5)


@pytest.mark.skipif(sys.platform != "linux", reason="lays out the address space as Linux does")
def test_sections_of_one_object_stay_within_reach_of_each_other() -> None:
    """Holes of a page, a large mapping, and behind it all other room: code fits into a hole, but not its constants."""
    program = textwrap.dedent("""
        import ctypes, mmap
        from drjit_core.llvm import jit, objects
        objects.load = lambda *_: None

        text = '''
        @table = internal constant [16777216 x i32] zeroinitializer
        define i32 @kernel(i64 %i) nounwind {
          %at = getelementptr i32, ptr @table, i64 %i
          %value = load i32, ptr %at
          ret i32 %value
        }
        '''
        code = jit.compile_text(text)
        jit.engine()
        pages = [mmap.mmap(-1, mmap.PAGESIZE) for _ in range(2000)]
        no_reserve = 0x4000
        large = mmap.mmap(-1, 3 << 30, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | no_reserve, prot=mmap.PROT_READ)
        del pages[1::2]
        for _ in range(5):
            native = jit.link(code, ["kernel"])
            assert ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_long)(native.addresses["kernel"])(5) == 0
    """)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
