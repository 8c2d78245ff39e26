"""Local memory: buffers of which each lane has its own, sorted, used as a stack, and counted in."""

from __future__ import annotations

from typing import Any

from measure import case, main, median_seconds, scaled

import drjit as dr
from drjit.llvm import Float, UInt32

SIZE = scaled(1 << 20)
COUNT = 16
LEAVES = 64


def hashed(x: UInt32) -> UInt32:
    """Bits that look random."""
    x = (x ^ (x >> 16)) * 0x7FEB352D
    x = (x ^ (x >> 15)) * 0x846CA68B
    return x ^ (x >> 16)


def sorted_numbers() -> Float:
    """Numbers of each lane, sorted by insertion; a weighted sum of them."""
    lane = dr.arange(UInt32, SIZE)
    local = dr.alloc_local(Float, COUNT)

    def fill(k: UInt32, local: Any) -> Any:
        local[k] = Float(hashed(lane * COUNT + k) >> 8) * (1 / (1 << 24))
        return k + 1, local

    def insert(i: UInt32, local: Any) -> Any:
        value = local[i]

        def move(j: UInt32, before: Float, local: Any) -> Any:
            local[j] = before
            j -= 1
            return j, local.read(j - 1, j > 0), local

        j, _, local = dr.while_loop((UInt32(i), local[i - 1], local),
                                    lambda j, before, local: (j > 0) & (before > value), move)
        local[j] = value
        return i + 1, local

    def weigh(k: UInt32, total: Float, local: Any) -> Any:
        return k + 1, total + local[k] * Float(k), local

    zero = dr.zeros(UInt32, SIZE)
    _, local = dr.while_loop((zero, local), lambda k, local: k < COUNT, fill)
    _, local = dr.while_loop((zero + 1, local), lambda i, local: i < COUNT, insert)
    return dr.while_loop((zero, dr.zeros(Float, SIZE), local), lambda k, total, local: k < COUNT, weigh)[1]


def traversed() -> UInt32:
    """What the leaves of a tree below a bound of each lane are, added up by a traversal with a stack."""
    bound = hashed(dr.arange(UInt32, SIZE)) % LEAVES
    stack = dr.alloc_local(UInt32, 8, value=UInt32(1))

    def visit(top: UInt32, total: UInt32, stack: Any) -> Any:
        top = top - 1
        node = stack[top]
        leaf = node >= LEAVES
        depth = 31 - dr.lzcnt(node)
        first = (node << (6 - dr.minimum(depth, 6))) - LEAVES
        inner = ~leaf & (first < bound)
        stack.write(2 * node, top, inner)
        stack.write(2 * node + 1, top + 1, inner)
        return (dr.select(inner, top + 2, top), total + dr.select(leaf & (node - LEAVES < bound), node - LEAVES, 0),
                stack)

    return dr.while_loop((dr.full(UInt32, 1, SIZE), dr.zeros(UInt32, SIZE), stack), lambda top, total, stack: top > 0,
                         visit)[1]


def counted() -> UInt32:
    """A histogram of each lane; the sum of its squares."""
    local = dr.alloc_local(UInt32, COUNT, value=UInt32(0))

    def add(k: UInt32, seed: UInt32, local: Any) -> Any:
        place = seed >> 28
        local[place] = local[place] + 1
        return k + 1, seed * 1664525 + 1013904223, local

    def square(k: UInt32, total: UInt32, local: Any) -> Any:
        found = local[k]
        return k + 1, total + found * found, local

    zero = dr.zeros(UInt32, SIZE)
    _, _, local = dr.while_loop((zero, hashed(dr.arange(UInt32, SIZE)), local), lambda k, seed, local: k < 64, add)
    return dr.while_loop((zero, dr.zeros(UInt32, SIZE), local), lambda k, total, local: k < COUNT, square)[1]


def timed(function: Any) -> tuple[float, float]:
    """Seconds to compute an array, and its mean."""
    def once() -> None:
        dr.eval(function())
        dr.sync_thread()

    return median_seconds(once, 9), float(dr.sum(Float(function()))[0]) / SIZE


@case("insertion sort of 16 numbers in each of 1M lanes")
def _sort() -> tuple[float, float]:
    return timed(sorted_numbers)


@case("traversal of a tree of 64 leaves with a stack, 1M lanes")
def _traverse() -> tuple[float, float]:
    return timed(traversed)


@case("histogram of 64 numbers in 16 bins in each of 1M lanes")
def _count() -> tuple[float, float]:
    return timed(counted)


if __name__ == "__main__":
    main()
