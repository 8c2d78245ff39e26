"""The :class:`~drjit_core.codegen.target.Target` of the CPU: its numbers, and what they were measured by."""

from __future__ import annotations

import contextlib
import functools
import glob

from ...codegen.target import Copies, Limits, Local, Reductions, Rooms, Rows, Target, Tracing
from ...ops.table import GATHER, OPS
from ...types import JitBackend
from ..memory import PADDING
from . import pool

__all__ = ["CPU_TARGET", "LIMITS", "last_level_cache", "target"]

#: Inputs and outputs of 8 MiB.  Two cores with 2 MiB each and a share of 105 MiB, multiply-adds, non-temporal stores
#: and prefetches against plain stores: of 2M floats 565 and 860 us, and if the next kernel reads what was written, 752
#: and 869; of 1M 245 and 321, but 383 and 312.
_LARGEST_CACHE = 8 << 20

#: One thread, and the largest cache; :func:`target` says what there is.
CPU_TARGET = Target(
    language=JitBackend.LLVM.value,
    features=0,  # the processor is part of what files of kernels are named by
    threads=1,
    single=1 << 15,
    combines=False,
    has_tables=True,
    shared=None,
    tables=0,
    streaming_bytes=_LARGEST_CACHE,
    streaming_width=1 << 16,
    streaming_row=64,  # whole lines of the cache are written
    large_bytes=8 << 20,
    # A packet written and read again takes about as long as 20 additions at the memory bandwidth of two cores.
    traffic=20,
    recompute=20,
    views=24,
    sink=20,  # a few operations LLVM moves by itself
    rows=Rows(
        # Packets go over several short rows.  3M numbers and a row that is added to each take 0.42 ms in rows of 4
        # (0.84 if the kernel goes over rows) and 0.40 in rows of 8 (0.57); but each length of rows is a compilation.
        flat=8,
        indexed=3,  # such rows would leave most of a packet empty
        views=64,  # for each of them, packets are held in memory
        short=16,  # their packets need not be longer
        few=64,
        part=1 << 14,
        together=8,
        keep=20,  # an exponential, say; the row of the output is in the cache
    ),
    rooms=Rooms(line=8, columns=16),  # a line of the cache; registers hold a whole number of them
    # With sixteen elements in a packet, a part of the second-level cache; with 32, 256 KiB of it; and with sixteen,
    # 1 MiB of the stack, see :mod:`.pool`.
    local=Local(array=8 << 10, kernel=8 << 10, together=64 << 10),
    tracing=Tracing(
        # What costs less waits for memory, which no branch saves.  (A loop of 1M elements and 300 iterations, in which
        # half of those that are left finish every 28, of 1, 2, 4 and 8 sines of 23 each: 171, 252, 471 and 1010 ms with
        # a branch, 155, 287, 738 and 1846 without.)
        blend=40,
        blend_width=1 << 16,  # fewer elements take less time than tracing a branch does
        hoist=OPS[GATHER].cost,  # as much as one of these reads
        reductions=Reductions(unrolled=16, parallel=1 << 14, results=64, part=1 << 12, rows=256, elements=1 << 16,
                              short=4, narrow=32),
        copies=Copies(fewest=1 << 14, shortest=8, longest=1 << 62),
        products=True,
        # Functions of calls know of no thread, and each update of theirs is atomic. (Gradients of two networks of 16
        # and of 64 units, and of two hash grids: 30, 369 and 72 ms of processor time as calls, 9, 54 and 13
        # as branches.)
        targets=4,
        # What lies in a core's own cache is read together.  (1M positions in 16 levels of 4 MiB take 0.41 s of
        # processor time together, 0.1 apart.)
        apart=1 << 20,
        apart_width=1 << 14,
    ),
    piece_bytes=16,
    # Two texels of four floats, in the cache: lookups with gradients by positions take 0.92 of the time that two reads
    # of 16 bytes do, and lookups of two, three and four doubles 0.86, 0.90 and 0.84.
    read_bytes=32,
    aligned_pieces=False,
    # Compiling an expansion takes LLVM about 1.5 ms, each time that it occurs.  Of sixteen sines, a kernel of calls
    # takes 1.0 to 1.3 times as long to run, and from a quarter to a tenth of the time to compile.
    inlined=16,
    native=frozenset(),
    static_calls=False,
    graph=1 << 62,  # it launches without asking anybody
)

LIMITS = Limits(PADDING, CPU_TARGET.local, CPU_TARGET.tracing, 1 << 32)  # positions have 32 bits

_last = CPU_TARGET


def target() -> Target:
    """What programs are assembled for, at the beginning of an evaluation: while it lasts, it stays the same.

    The caller holds :data:`..exclusion.lock`.
    """
    global _last
    threads, tables = pool.decided_threads(), pool.get_expand_threshold()
    if _last.threads != threads or _last.tables != tables or _last is CPU_TARGET:
        _last = CPU_TARGET._replace(threads=threads, tables=tables, streaming_bytes=last_level_cache())
    return _last


@functools.cache
def last_level_cache() -> int:
    """Bytes of the processor's last-level cache that a kernel can hope for, as far as the system tells.

    A server's cache may be far larger than that, but is shared with as many other cores or virtual machines.
    """
    sizes = []
    for entry in glob.glob("/sys/devices/system/cpu/cpu0/cache/index*/size"):
        with contextlib.suppress(OSError, ValueError), open(entry) as file:
            text = file.read().strip()
            sizes.append(int(text[:-1]) << {"K": 10, "M": 20}[text[-1]])
    return min(max(sizes, default=_LARGEST_CACHE), _LARGEST_CACHE)
