"""The :class:`~drjit_core.codegen.target.Target` of GPUs: its numbers, and where they come from.

None was chosen by trying others; what is said of a device follows from its bandwidth, or was measured there.
"""

from __future__ import annotations

import functools

from ...codegen.target import Copies, Limits, Local, Reductions, Rows, Shared, Target, Tracing
from ...ptx.atomics import SHARED_UPDATES
from ...ptx.steps import LONGEST
from ...ptx.texts import NATIVE
from ...types import JitBackend

__all__ = ["ARCHITECTURES", "LIMITS", "target_of"]

#: What texts are made for: the oldest one that CUDA 13 assembles, and those that have instructions of their own.
ARCHITECTURES = (75, 80, 90, 100)

_NEVER = 1 << 62
#: Bytes beyond the end of an array that vectors of a thread's elements may touch.
_PADDING = 32

_TARGET = Target(
    language=JitBackend.CUDA.value,
    features=ARCHITECTURES[0],
    threads=1 << 18,  # what counts is that there are several
    single=1,
    combines=True,
    has_tables=False,  # that of each thread would be larger than what it stands for
    # An H100 updates one element each 18 ns, and many of them 41 times a nanosecond: 16M updates of 100 elements take
    # 3.0 ms, of 10,000 0.41. So up to 750 elements wait for each other. In a narrow kernel these are not many updates.
    shared=Shared(updates=SHARED_UPDATES, size=1 << 10, width=1 << 18, most=4),
    tables=0,
    streaming_bytes=_NEVER,
    streaming_width=_NEVER,
    streaming_row=1,
    large_bytes=_NEVER,  # other warps run while one waits
    # In the time of 8 bytes at 3.35 TB/s, 132 multiprocessors with 128 lanes at 1.7 GHz execute 69 instructions.
    traffic=64,
    recompute=64,
    views=68,
    sink=64,
    rows=Rows(flat=8, indexed=3, views=64, short=16, few=64, part=1 << 14, together=8, keep=64),
    rooms=None,
    # a driver reserves it for all threads that a device can hold: 8 KiB would be 2 GB
    local=Local(array=512, kernel=512, together=512),
    piece_bytes=16,
    read_bytes=16,
    aligned_pieces=True,
    inlined=16,
    native=NATIVE,
    static_calls=True,  # registers have no addresses
    # Of a launch, the host does 1.6 us (NVIDIA/cuda-python, pull request 1959) to 2.7 (ahrefs/ocannl, issue 488, a
    # laptop; there, a graph of eight is done 32 us earlier than they are, and graphs gain from three on). What new
    # parameters of a node cost, nobody has told. `on_gpu --only speed` measures both ways.
    graph=8,
    tracing=Tracing(
        blend=40,
        blend_width=1 << 16,
        hoist=64,
        # a reduction occupies a device only if it has some hundred thousand threads
        reductions=Reductions(unrolled=16, parallel=1 << 18, results=1024, part=1 << 10, rows=256, elements=1 << 16,
                              short=4, narrow=32),
        copies=Copies(fewest=1 << 14, shortest=8, longest=LONGEST),
        products=False,  # there is no text for them
        targets=0,
        apart=_NEVER,
        apart_width=_NEVER,
    ),
)

LIMITS = Limits(_PADDING, _TARGET.local, _TARGET.tracing, LONGEST)


@functools.cache
def target_of(architecture: int) -> Target:
    """The target of an architecture, such as 90: the latest of those that texts are made for that it can run."""
    known = [each for each in ARCHITECTURES if each <= architecture]
    if not known:
        raise ValueError(f"GPUs of the architecture sm_{architecture} are too old: kernels need sm_{ARCHITECTURES[0]}")
    return _TARGET._replace(features=known[-1])
