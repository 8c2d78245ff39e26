"""Random access of 16M elements: ``gather`` from and ``scatter_add`` into tables of several sizes."""

from __future__ import annotations

from measure import case, main, median_seconds, scaled

import drjit as dr
from drjit.llvm import Float, UInt32

SIZE = scaled(1 << 24)


def random_indices(table: int) -> UInt32:
    """Evaluated indices below ``table``, a power of two or not, that a hash of the position scatters."""
    i = dr.arange(UInt32, SIZE)
    i = (i ^ (i >> 16)) * 0x7FEB352D
    i = (i ^ (i >> 15)) * 0x846CA68B
    i = i ^ (i >> 16)
    i = (i >> 4) % table
    dr.eval(i)
    return i


def gather_from(table: int) -> tuple[float, float]:
    """Seconds to gather, and the mean of what was."""
    index = random_indices(table)
    source = dr.arange(Float, table) / table
    dr.eval(source)

    def once() -> None:
        dr.eval(dr.gather(Float, source, index))
        dr.sync_thread()

    return median_seconds(once, 9), float(dr.sum(dr.gather(Float, source, index))[0]) / SIZE


def scatter_into(table: int) -> tuple[float, float]:
    """Seconds to add numbers at random places of a table of zeros, and a weighted sum of the table."""
    index = random_indices(table)
    value = dr.arange(Float, SIZE) / SIZE
    dr.eval(value)

    def add() -> Float:
        target = dr.zeros(Float, table)
        dr.scatter_add(target, value, index)
        dr.eval(target)
        dr.sync_thread()
        return target

    seconds = median_seconds(add, 7)
    return seconds, float(dr.sum(add() * (dr.arange(Float, table) / table + 0.5))[0]) / SIZE


@case("gather 16M from 64k entries", nbytes=8 * SIZE)
def _gather_small() -> tuple[float, float]:
    return gather_from(1 << 16)


@case("gather 16M from 16M entries", nbytes=12 * SIZE)
def _gather_large() -> tuple[float, float]:
    return gather_from(scaled(1 << 24))


@case("scatter_add 16M into 100 bins", nbytes=8 * SIZE, tolerance=1e-3)
def _scatter_100() -> tuple[float, float]:
    return scatter_into(100)


@case("scatter_add 16M into 10k bins", nbytes=8 * SIZE, tolerance=1e-3)
def _scatter_10k() -> tuple[float, float]:
    return scatter_into(10_000)


@case("scatter_add 16M into 4M bins", nbytes=8 * SIZE, tolerance=1e-3)
def _scatter_4m() -> tuple[float, float]:
    return scatter_into(scaled(1 << 22))


if __name__ == "__main__":
    main()
