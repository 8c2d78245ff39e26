"""Reads and additions side by side, which are one access each: at ``index + k``, of three elements, beyond rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import drjit as dr
from drjit.llvm import Array3f, Bool, Float, Float64, UInt

RNG = np.random.default_rng(9)
SIZE, COUNT = 101, 1003


@pytest.mark.parametrize("kind", [Float, Float64, UInt])
@pytest.mark.parametrize("offsets", [(0, 1), (0, 1, 2), (0, 1, 3), (1, 2), (0, 1, 2, 3, 4), (2, 1, 0), (0, 2)])
@pytest.mark.parametrize("masked", [False, True])
def test_neighbours_are_read(kind: Any, offsets: tuple[int, ...], masked: bool) -> None:
    source = kind(RNG.integers(0, 1000, SIZE))
    index = RNG.integers(0, SIZE - max(offsets), COUNT, dtype=np.uint32)
    mask = RNG.random(COUNT) < 0.6 if masked else np.ones(COUNT, bool)
    active: Any = Bool(mask) if masked else True
    base = UInt(index)
    found = [dr.gather(kind, source, base + offset if offset else base, active) for offset in offsets]
    dr.eval(found)
    for offset, value in zip(offsets, found, strict=True):
        assert (value.numpy() == np.where(mask, source.numpy()[index + offset], 0)).all()


@pytest.mark.parametrize("step", [2, 3, 4])
def test_rows_and_what_follows_are_read(step: int) -> None:
    source = Float(RNG.random(SIZE * step))
    index = RNG.integers(0, SIZE - 1, COUNT, dtype=np.uint32)
    base = UInt(index) * step
    found = [dr.gather(Float, source, base + k if k else base) for k in range(2 * step)]
    dr.eval(found)
    for k, value in enumerate(found):
        assert (value.numpy() == source.numpy()[index * step + k]).all()


def test_three_elements_at_the_end_of_memory() -> None:
    """Nothing beyond them is touched: memory of another library may end at a page that does not exist."""
    import mmap

    page = mmap.PAGESIZE
    memory = mmap.mmap(-1, page, prot=mmap.PROT_READ | mmap.PROT_WRITE)
    array = np.frombuffer(memory, np.float32)[-3 * 100:]
    array[:] = np.arange(300)
    source = dr.llvm.TensorXf(array).array
    assert dr.gather(Array3f, source, UInt(np.full(COUNT, 99))).numpy()[:, 0].tolist() == [297, 298, 299]


@pytest.mark.parametrize("kind", [Float, Float64])
@pytest.mark.parametrize("mode", [dr.ReduceMode.Expand, dr.ReduceMode.NoConflicts, dr.ReduceMode.Auto])
@pytest.mark.parametrize("count", [1, 2, 3, 4, 6])
@pytest.mark.parametrize("masked", [False, True])
def test_neighbours_are_added_to(kind: Any, mode: dr.ReduceMode, count: int, masked: bool) -> None:
    for width in (COUNT, 50_000):
        index = RNG.integers(0, SIZE - count, width, dtype=np.uint32)
        if mode is dr.ReduceMode.NoConflicts:
            index = np.arange(0, 90, 10, dtype=np.uint32)
        mask = RNG.random(index.size) < 0.6 if masked else np.ones(index.size, bool)
        values = RNG.integers(0, 5, (count, index.size))
        target, base = dr.zeros(kind, SIZE), UInt(index)
        for k in range(count):
            dr.scatter_add(target, kind(values[k]), base + k if k else base, Bool(mask) if masked else True, mode)
        dr.scatter_add(target, kind(values[0]), base, True, mode)  # once more to the same elements
        expected = np.zeros(SIZE)
        for k in range(count):
            np.add.at(expected, index + k, np.where(mask, values[k], 0))
        np.add.at(expected, index, values[0])
        assert (target.numpy() == expected).all()


@pytest.mark.parametrize("kind", [Float, Float64])
def test_packets_of_which_nobody_takes_part_read_nothing(kind: Any) -> None:
    """Beside one packet in which one element does: others have indices beyond the end."""
    source, mask = kind(RNG.random(8)), np.zeros(COUNT, bool)
    mask[500] = True
    base = UInt(np.where(mask, 1, 1 << 30).astype(np.uint32)) * 4
    found = [dr.gather(kind, source, base + k if k else base, Bool(mask)) for k in range(4)]
    dr.eval(found)
    for k, value in enumerate(found):
        assert (value.numpy() == np.where(mask, source.numpy()[4 + k], 0)).all()
