"""Fused multiply-adds in registers: 512 an element, as 1, 4 or 8 independent chains traced one after the other."""

from __future__ import annotations

from measure import case, main, median_seconds, scaled

import drjit as dr
from drjit.llvm import Float

SIZE, COUNT = scaled(1 << 22), 512
x = dr.arange(Float, SIZE) * (0.5 / SIZE) + 0.25
y = 0.5 - dr.arange(Float, SIZE) * (0.25 / SIZE)
dr.eval(x, y)


def chains(number: int) -> Float:
    """The sum of the last elements of some chains."""
    ends = []
    for k in range(number):
        a = x + float(k)
        for _ in range(COUNT // number):
            a = dr.fma(a, x, y)
        ends.append(a)
    total = ends[0]
    for end in ends[1:]:
        total = total + end
    return total


def measured(number: int) -> tuple[float, float]:
    """Seconds of a kernel, and the mean of what it computes."""

    def once() -> None:
        dr.eval(chains(number))
        dr.sync_thread()

    return median_seconds(once, 15), float(dr.sum(chains(number))[0]) / SIZE


@case("512 FMAs in 1 chain, 4M", flops=2 * COUNT * SIZE)
def _one() -> tuple[float, float]:
    return measured(1)


@case("512 FMAs in 4 chains, 4M", flops=2 * COUNT * SIZE)
def _four() -> tuple[float, float]:
    return measured(4)


@case("512 FMAs in 8 chains, 4M", flops=2 * COUNT * SIZE)
def _eight() -> tuple[float, float]:
    return measured(8)


if __name__ == "__main__":
    main()
