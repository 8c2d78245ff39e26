"""Loops that write, against the same loops written by hand in LLVM's language: ``python benchmarks/loops_by_hand.py``.

Both sides run on one thread and on packets as wide as the machine's registers. The figure is the time of the loop
written by hand over that of the kernel of ``dr.while_loop``, the median of alternating runs; 1 / 1.1 is wanted.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import statistics
import time
from collections.abc import Callable

os.environ["DRJIT_THREADS"] = "1"

import numpy as np

import drjit as dr
from drjit.llvm import Float, UInt
from drjit_core.llvm import jit

WIDTH, TRIPS, BINS = 1 << 20, 20, 1 << 10
RUNS, WANTED = 9, 1 / 1.1


def _by_hand(name: str, per_packet: str, body: str, finish: str = "") -> Callable[[int], None]:
    """A function of an address: ``body`` for each packet and each ``%k``, between what happens once a packet."""
    lanes = jit.lanes()
    vector = f"<{lanes} x i32>"
    steps = ", ".join(f"i32 {lane}" for lane in range(lanes))
    text = f"""
define void @{name}(ptr %memory) #0 {{
entry:
  br label %packet
packet:
  %index = phi i32 [ 0, %entry ], [ %index_next, %next ]
  %lane_0 = insertelement {vector} poison, i32 %index, i32 0
  %lane_1 = shufflevector {vector} %lane_0, {vector} poison, {vector} zeroinitializer
  %lane = add {vector} %lane_1, <{steps}>
  {per_packet}
  br label %loop
loop:
  %k = phi i32 [ 0, %packet ], [ %k_next, %loop ]
  %k_0 = insertelement {vector} poison, i32 %k, i32 0
  %ks = shufflevector {vector} %k_0, {vector} poison, {vector} zeroinitializer
  {body}
  %k_next = add i32 %k, 1
  %more = icmp ult i32 %k_next, {TRIPS}
  br i1 %more, label %loop, label %next
next:
  {finish}
  %index_next = add i32 %index, {lanes}
  %rest = icmp ult i32 %index_next, {WIDTH}
  br i1 %rest, label %packet, label %done
done:
  ret void
}}
declare {vector} @llvm.masked.gather.v{lanes}i32.v{lanes}p0(<{lanes} x ptr>, i32, <{lanes} x i1>, {vector})
attributes #0 = {{ nounwind "prefer-vector-width"="512" "min-legal-vector-width"="512" }}
"""
    native = jit.link(jit.compile_text(text), [name])
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(native.addresses[name])
    function.native = native  # type: ignore[attr-defined]  # keeps the code loaded
    return function


def _kernel_time(body: Callable[[UInt], UInt], written: Float | UInt) -> float:
    """Seconds that the kernel of a loop takes."""
    dr.while_loop((dr.opaque(UInt, 0, WIDTH),), lambda k: k < TRIPS, body, mode="symbolic")
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory):
        dr.kernel_history_clear()
        dr.eval(written)
        dr.sync_thread()
        return sum(entry["execution_time"] for entry in dr.kernel_history()) * 1e-3


def _histogram() -> tuple[Callable[[], float], Callable[[], float]]:
    """Every lane counts in a bin of its own choice, in each iteration."""
    lanes = jit.lanes()
    vector = f"<{lanes} x i32>"
    sevens, thirteens, last = (f"splat (i32 {value})" for value in (7, 13, BINS - 1))
    body = [f"%a = mul {vector} %lane, {sevens}", f"%b = mul {vector} %ks, {thirteens}", f"%c = add {vector} %a, %b",
            f"%bin = and {vector} %c, {last}"]
    for lane in range(lanes):
        body += [f"%bin{lane} = extractelement {vector} %bin, i32 {lane}",
                 f"%at{lane} = getelementptr i32, ptr %memory, i32 %bin{lane}", f"%old{lane} = load i32, ptr %at{lane}",
                 f"%new{lane} = add i32 %old{lane}, 1", f"store i32 %new{lane}, ptr %at{lane}"]
    function = _by_hand("histogram", "", "\n  ".join(body))
    memory = np.zeros(BINS, np.uint32)
    lane = dr.arange(UInt, WIDTH)
    counts = dr.zeros(UInt, BINS)
    dr.eval(lane, counts)

    def count(k: UInt) -> UInt:
        dr.scatter_add(counts, UInt(1), (lane * 7 + k * 13) & (BINS - 1))
        return k + 1

    def ours() -> float:
        return _kernel_time(count, counts)

    def by_hand() -> float:
        start = time.perf_counter()
        function(memory.ctypes.data)
        return time.perf_counter() - start

    ours(), by_hand()
    assert (counts.numpy() == memory).all()
    return ours, by_hand


def _relaxation() -> tuple[Callable[[], float], Callable[[], float]]:
    """Every lane reads what it has written in the iteration before, by index."""
    lanes = jit.lanes()
    vector, floats, pointers = f"<{lanes} x i32>", f"<{lanes} x float>", f"<{lanes} x ptr>"
    mask = f"<{lanes} x i1> splat (i1 true)"
    body = [f"%at = getelementptr float, ptr %memory, {vector} %place",
            f"%old = call {floats} @llvm.masked.gather.v{lanes}f32.v{lanes}p0({pointers} %at, i32 4, {mask}, "
            f"{floats} zeroinitializer)", f"%kf = uitofp {vector} %ks to {floats}",
            f"%half = fmul {floats} %old, splat (float 0.5)", f"%new = fadd {floats} %half, %kf",
            f"call void @llvm.masked.scatter.v{lanes}f32.v{lanes}p0({floats} %new, {pointers} %at, i32 4, {mask})"]
    function = _by_hand("relaxation", f"%place = xor {vector} %lane, splat (i32 5)", "\n  ".join(body))
    memory = np.ones(WIDTH, np.float32)
    lane = dr.arange(UInt, WIDTH)
    values = dr.ones(Float, WIDTH)
    dr.make_opaque(lane, values)

    def relax(k: UInt) -> UInt:
        place = lane ^ 5
        dr.scatter(values, dr.gather(Float, values, place) * 0.5 + Float(k), place)
        return k + 1

    def ours() -> float:
        return _kernel_time(relax, values)

    def by_hand() -> float:
        start = time.perf_counter()
        function(memory.ctypes.data)
        return time.perf_counter() - start

    ours(), by_hand()
    assert (values.numpy() == memory).all()
    return ours, by_hand


def main() -> None:
    """Print a line for each loop."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    loops = {"scatter_add to 1024 bins": _histogram(), "reads what it writes": _relaxation()}
    for name, (ours, by_hand) in loops.items():
        ours(), ours(), ours()  # optimised by now
        pairs = [(by_hand(), ours()) for _ in range(RUNS)]
        ratio = statistics.median(hand / own for hand, own in pairs)
        best = [min(times) * 1e3 for times in zip(*pairs, strict=True)]
        print(f"{name:28} by hand {best[0]:7.2f} ms, ours {best[1]:7.2f} ms, ratio {ratio:.2f}"
              f"{'' if ratio >= WANTED else '  (below what is wanted)'}")


if __name__ == "__main__":
    main()
