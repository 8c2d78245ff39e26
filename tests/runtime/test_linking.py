"""Loading object code, whatever the address space looks like."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest


@pytest.mark.skipif(sys.platform != "linux", reason="lays out the address space as Linux does")
def test_sections_of_one_object_stay_within_reach_of_each_other() -> None:
    """Holes of a page, a large mapping, and behind it all other room: code fits into a hole, but not its constants."""
    program = textwrap.dedent("""
        import ctypes, mmap
        from drjit_core.llvm import jit

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
