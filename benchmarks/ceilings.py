"""What the machine can do: the ceilings that benchmarks are held against.

.. code-block:: shell

    python benchmarks/ceilings.py [--json]

Bandwidth (triad with plain and with non-temporal stores, reading, filling) and arithmetic (fused multiply-adds in
registers) are measured by small LLVM kernels on all cores.  The memory is touched beforehand, and is larger than the
caches.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import sys
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "compiler"))  # a checkout need not be installed

import numpy as np

from drjit_core.llvm import jit

__all__ = ["Ceiling", "measure"]

ELEMENTS = 1 << 25
FMA_ROUNDS = 1 << 22
FMA_CHAINS = 12

_ARGUMENTS = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)


@dataclass(frozen=True)
class Ceiling:
    """One figure: what was measured, in GB/s or GFLOP/s."""

    name: str
    value: float
    unit: str


def _loop(name: str, body: str, lanes: int, results: str = "", phis: str = "") -> str:
    """A function over packets ``begin … end`` of three arrays; ``body`` sees the packet ``%i``."""
    return f"""
define void @{name}(ptr noalias %z, ptr noalias %x, ptr noalias %y, i64 %begin, i64 %end) {{
entry:
  br label %loop
loop:
  %i = phi i64 [ %begin, %entry ], [ %next, %loop ]
{phis}
  %px = getelementptr inbounds <{lanes} x float>, ptr %x, i64 %i
  %py = getelementptr inbounds <{lanes} x float>, ptr %y, i64 %i
  %pz = getelementptr inbounds <{lanes} x float>, ptr %z, i64 %i
{body}
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %end
  br i1 %more, label %loop, label %done
done:
{results}
  ret void
}}
"""


def _text(lanes: int) -> str:
    """The module of all kernels."""
    vector, align = f"<{lanes} x float>", 4 * lanes
    two = f"{vector} splat (float 2.0)"
    triad = f"""
  %a = load {vector}, ptr %px, align {align}
  %b = load {vector}, ptr %py, align {align}
  %c = call {vector} @llvm.fma({two}, {vector} %a, {vector} %b)
  store {vector} %c, ptr %pz, align {align}"""
    fill = f"\n  store {two}, ptr %pz, align {align}"
    read_phis, read_body, read_ends = [], [], []
    for k in range(8):  # eight packets a round, in as many accumulators, hide the latency of the additions
        read_phis.append(f"  %s{k} = phi {vector} [ zeroinitializer, %entry ], [ %t{k}, %loop ]")
        read_body.append(f"""
  %q{k} = getelementptr inbounds [8 x {vector}], ptr %x, i64 %i, i64 {k}
  %v{k} = load {vector}, ptr %q{k}, align {align}
  %t{k} = fadd {vector} %s{k}, %v{k}""")
        read_ends.append(f"  %o{k} = getelementptr inbounds {vector}, ptr %z, i64 {k}\n"
                        f"  store {vector} %t{k}, ptr %o{k}")
    fma_phis, fma_body, fma_ends = [], [], []
    for k in range(FMA_CHAINS):
        fma_phis.append(f"  %s{k} = phi {vector} [ splat (float {k}.0), %entry ], [ %t{k}, %loop ]")
        fma_body.append(f"  %t{k} = call {vector} @llvm.fma({vector} %s{k}, {vector} splat (float 0.5), {two})")
        fma_ends.append(f"  %o{k} = getelementptr inbounds {vector}, ptr %z, i64 {k}\n"
                        f"  store {vector} %t{k}, ptr %o{k}")
    return (f"declare {vector} @llvm.fma({vector}, {vector}, {vector})\n"
            + _loop("triad", triad, lanes)
            + _loop("triad_stream", triad + ", !nontemporal !0", lanes)
            + _loop("fill", fill, lanes)
            + _loop("fill_stream", fill + ", !nontemporal !0", lanes)
            + _loop("read", "".join(read_body), lanes, "\n".join(read_ends), "\n".join(read_phis))
            + _loop("fma", "\n".join(fma_body), lanes, "\n".join(fma_ends), "\n".join(fma_phis))
            + "!0 = !{i32 1}\n").replace("@llvm.fma", f"@llvm.fma.v{lanes}f32")


class Kernels:
    """The kernels in memory, and how to run one on several threads."""

    def __init__(self, threads: int) -> None:
        self.lanes = jit.lanes()
        self.threads = threads
        names = ["triad", "triad_stream", "fill", "fill_stream", "read", "fma"]
        self.code = jit.link(jit.compile_text(_text(self.lanes)), names)
        self.functions = {name: ctypes.CFUNCTYPE(None, *_ARGUMENTS)(self.code.addresses[name]) for name in names}

    def seconds(self, name: str, addresses: list[tuple[int, int, int]], rounds: int, repeats: int = 9) -> float:
        """Shortest time of a kernel whose threads work on arrays of their own: from the first start to the last end."""
        function = self.functions[name]
        deadline = [0.0]
        together = threading.Barrier(self.threads, lambda: deadline.__setitem__(0, time.perf_counter() + 1e-3))
        spans: list[list[tuple[float, float]]] = [[] for _ in addresses]

        def work(number: int, arrays: tuple[int, int, int]) -> None:
            for _ in range(repeats + 1):
                together.wait()
                time.sleep(max(0.0, deadline[0] - time.perf_counter()))  # threads leave a barrier one by one
                begin = time.perf_counter()
                function(*arrays, 0, rounds)
                spans[number].append((begin, time.perf_counter()))

        workers = [threading.Thread(target=work, args=(k, arrays)) for k, arrays in enumerate(addresses)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        turns = list(zip(*spans, strict=True))[1:]
        return min(max(end for _, end in turn) - min(begin for begin, _ in turn) for turn in turns)


def measure(elements: int = ELEMENTS, rounds: int = FMA_ROUNDS) -> list[Ceiling]:
    """Measure all ceilings on the cores that this process may use."""
    threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    kernels = Kernels(threads)
    share = elements // threads // 128 * 128
    memory = [np.empty(share * threads + 16, dtype=np.float32) for _ in range(3)]
    for array in memory:
        array.fill(1.0)
    bases = [(array.ctypes.data + 63) // 64 * 64 for array in memory]
    addresses = [(bases[0] + 4 * share * k, bases[1] + 4 * share * k, bases[2] + 4 * share * k)
                 for k in range(threads)]
    packets, total = share // kernels.lanes, share * threads
    result = []
    for name, title, size, length in (("triad", "triad, plain stores", 12, packets),
                                      ("triad_stream", "triad, non-temporal stores", 12, packets),
                                      ("read", "read", 4, packets // 8),
                                      ("fill", "fill, plain stores", 4, packets),
                                      ("fill_stream", "fill, non-temporal stores", 4, packets)):
        result.append(Ceiling(title, size * total / kernels.seconds(name, addresses, length) * 1e-9, "GB/s"))
    flops = 2 * FMA_CHAINS * kernels.lanes * rounds * threads
    result.append(Ceiling("FMA, float32", flops / kernels.seconds("fma", addresses, rounds) * 1e-9, "GFLOP/s"))
    return result


def main() -> None:
    """Print the ceilings, as a table or as JSON."""
    parser = argparse.ArgumentParser(description="Measure bandwidth and arithmetic peak of this machine.")
    parser.add_argument("--json", action="store_true", help="print one JSON array")
    options = parser.parse_args()
    ceilings = measure()
    if options.json:
        print(json.dumps([asdict(ceiling) for ceiling in ceilings]))
        return
    for ceiling in ceilings:
        print(f"{ceiling.name:28} {ceiling.value:8.1f} {ceiling.unit}")


if __name__ == "__main__":
    main()
