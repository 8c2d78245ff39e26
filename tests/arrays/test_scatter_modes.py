"""Scatter-reductions: every operator in every mode for every type, against NumPy and the scalar backend."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import drjit as dr
from drjit import llvm, scalar
from drjit_core import REDUCTIONS

OPS: dict[str, Any] = {"Add": np.add, "Mul": np.multiply, "Min": np.fmin, "Max": np.fmax, "And": np.bitwise_and,
                       "Or": np.bitwise_or}
TYPES = {"Bool": "?", "Int8": "i1", "UInt8": "u1", "Int": "i4", "UInt": "u4", "Int64": "i8", "UInt64": "u8",
         "Float16": "f2", "Float": "f4", "Float64": "f8"}
MODES = ("Auto", "Direct", "Local", "NoConflicts", "Expand")
#: Elements that are written, and targets: few and many, one that all go to, and more targets than updates.
SIZES = ((1, 5), (300, 7), (300, 1), (70_000, 40), (70_000, 1), (1000, 100_000))


def accepts(op: str, name: str) -> bool:
    kind = {"b": "b", "f": "f"}.get(np.dtype(TYPES[name]).kind, np.dtype(TYPES[name]).kind)
    return kind in REDUCTIONS[dr.ReduceOp[op].value].accepts


def data(name: str, op: str, size: int, seed: int) -> np.ndarray[Any, Any]:
    """Numbers whose sums and products are exact in any order."""
    generator = np.random.default_rng(seed)
    dtype = np.dtype(TYPES[name])
    if dtype.kind == "b":
        return generator.random(size) < 0.5
    if op == "Mul":
        return generator.choice([1, 1, 1, -1] if dtype.kind != "u" else [1, 1, 3], size).astype(dtype)
    if op == "Add" and dtype == np.float16:
        return generator.integers(0, 2, size).astype(dtype) if size < 2000 else np.zeros(size, dtype)
    return generator.integers(0, 100, size).astype(dtype)


@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("op", OPS)
def test_every_operator_in_every_mode(op: str, name: str) -> None:
    type_ = getattr(llvm, name)
    if not accepts(op, name):
        with pytest.raises(TypeError, match="not supported"):
            dr.scatter_reduce(dr.ReduceOp[op], type_([True]), type_([True]), llvm.UInt([0]))
        return
    for (count, size), mode in ((sizes, mode) for sizes in SIZES for mode in MODES):
        for seed in range(3):  # new structure, known structure, other values
            if mode == "NoConflicts":
                count = min(count, size)
                index = np.random.default_rng(seed).permutation(size)[:count].astype("u4")
            else:
                index = np.random.default_rng(seed).integers(0, size, count).astype("u4")
            values, before = data(name, op, count, seed), data(name, op, size, seed + 10)
            expected = before.copy()
            OPS[op].at(expected, index, values)
            target, held = type_(before), None
            if seed == 1:
                held = type_(target)
            dr.scatter_reduce(dr.ReduceOp[op], target, type_(values), llvm.UInt(index), mode=dr.ReduceMode[mode])
            np.testing.assert_array_equal(target.numpy(), expected, err_msg=f"{mode} {count} {size} {seed}")
            if held is not None:
                np.testing.assert_array_equal(held.numpy(), before)


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("name", TYPES)
def test_the_scalar_backend_does_the_same(name: str, op: str) -> None:
    if not accepts(op, name):
        return
    index, values, before = [3, 0, 3, 2, 3], data(name, op, 5, 0), data(name, op, 4, 1)
    targets = []
    for module in (llvm, scalar):
        if module is scalar:
            kind = "b" if name == "Bool" else {"f": "f", "i": "i", "u": "u"}[np.dtype(TYPES[name]).kind]
            bits = "" if np.dtype(TYPES[name]).itemsize == 4 or kind == "b" else str(8 * np.dtype(TYPES[name]).itemsize)
            type_ = getattr(scalar, f"ArrayX{kind}{bits}", None)
            if type_ is None:
                pytest.skip(f"the scalar backend has no arrays of {name}")
            target = type_(before.tolist())
            for place, value in zip(index, values.tolist(), strict=True):
                dr.scatter_reduce(dr.ReduceOp[op], target, value, place)
            targets.append(np.array(target))
        else:
            target = getattr(llvm, name)(before)
            dr.scatter_reduce(dr.ReduceOp[op], target, getattr(llvm, name)(values), llvm.UInt(index))
            targets.append(target.numpy())
    np.testing.assert_array_equal(*targets)


def in_loop(op: str, target: Any, values: Any, index: Any, mode: str) -> None:
    """Twice what a scatter-reduction does, the second time in a loop within."""
    def update(i: Any) -> tuple[Any]:
        dr.scatter_reduce(dr.ReduceOp[op], target, values, index, mode=dr.ReduceMode[mode])
        return (i + 1,)

    def body(i: Any) -> tuple[Any]:
        dr.while_loop((llvm.UInt(0),), lambda j: j < i, update, mode="symbolic")
        return update(i)

    dr.while_loop((dr.zeros(llvm.UInt, dr.width(values)),), lambda i: i < 2, body, mode="symbolic")


def in_branch(op: str, target: Any, values: Any, index: Any, mode: str) -> None:
    """Twice what a scatter-reduction does for odd targets, once for others, and a write that no element takes."""
    def update(index: Any) -> None:
        dr.scatter_reduce(dr.ReduceOp[op], target, values, index, mode=dr.ReduceMode[mode])

    def twice(index: Any) -> None:
        update(index)
        dr.if_stmt((index,), index >= 0, update, lambda index: None, mode="symbolic")

    dr.if_stmt((index,), (index & 1) == 1, twice, update, mode="symbolic")


@pytest.mark.parametrize("name", ["UInt8", "Int", "UInt64", "Float16", "Float", "Float64"])
@pytest.mark.parametrize("op", OPS)
def test_every_operator_in_regions(op: str, name: str) -> None:
    if not accepts(op, name):
        return
    type_ = getattr(llvm, name)
    # (updates, targets): the same structure with other sizes, for which tables are worth it or not
    for (count, size), mode in itertools.product(((1, 5), (300, 7), (5000, 40), (5000, 1), (300, 1000)), MODES):
        if mode == "NoConflicts":
            continue
        for construct, kind in itertools.product((in_loop, in_branch), ("each", "one")):
            index = np.random.default_rng(count).integers(0, size, count).astype("u4")
            if kind == "one":
                index[:] = size // 2
            values, before = data(name, op, count, 1), data(name, op, size, 2)
            if op == "Add" and name == "Float16":
                values[200:] = 0  # sums stay exact
            expected = before.copy()
            times = [index, index, index] if construct is in_loop else [index, index[index & 1 == 1]]
            for each in times:
                OPS[op].at(expected, each, values if each is index else values[index & 1 == 1])
            target = type_(before)
            held = type_(target)
            at = llvm.UInt(index) if kind == "each" else dr.opaque(llvm.UInt, int(index[0]))
            with np.errstate(over="ignore"):
                construct(op, target, type_(values), at, mode)
            np.testing.assert_array_equal(target.numpy(), expected, err_msg=f"{mode} {count} {size} {kind} {construct}")
            np.testing.assert_array_equal(held.numpy(), before)


@pytest.mark.parametrize("op", ["Min", "Max"])
@pytest.mark.parametrize("name", ["Float16", "Float", "Float64"])
def test_updates_of_one_element_prefer_numbers(op: str, name: str) -> None:
    type_ = getattr(llvm, name)
    for before, values in itertools.product(([np.nan, 1.0], [2.0, 1.0]),
                                            ([np.nan, 3, np.nan], [np.nan] * 3, [-5, 9, 1])):
        for construct in (None, in_loop):
            many = np.resize(np.array(values, TYPES[name]), 70)
            target, expected = type_(before), np.array(before, TYPES[name])
            OPS[op].at(expected, np.zeros(70, "u4"), many)
            if construct is None:
                dr.scatter_reduce(dr.ReduceOp[op], target, type_(many), llvm.UInt(0))
            else:
                construct(op, target, type_(many), llvm.UInt(0), "Auto")
            np.testing.assert_array_equal(target.numpy(), expected)


def test_what_a_loop_reads_gets_no_tables() -> None:
    """A count that is read while it is updated: each element finds what its own updates have made, at least."""
    target, index = dr.zeros(llvm.UInt, 3000), dr.arange(llvm.UInt, 3000)

    def body(i: Any, seen: Any) -> tuple[Any, Any]:
        dr.scatter_add(target, llvm.UInt(1), index)
        return i + 1, seen + dr.gather(llvm.UInt, target, index)

    _, seen = dr.while_loop((dr.zeros(llvm.UInt, 3000), llvm.UInt(0)), lambda i, seen: i < 3, body, mode="symbolic")
    assert dr.all(seen == 1 + 2 + 3) and dr.all(target == 3)


def test_two_loops_and_a_scatter_that_update_one_array() -> None:
    target, index = dr.zeros(llvm.Float, 16), dr.arange(llvm.UInt, 10_000) % 16
    values = dr.ones(llvm.Float, 10_000)
    in_loop("Add", target, values, index, "Auto")
    dr.scatter_add(target, values, index)
    in_branch("Add", target, values, index, "Auto")
    assert dr.all(target == 625 * (3 + 1 + llvm.Float([1, 2] * 8)))


def test_frozen_loops_update_arrays_of_any_size() -> None:
    frozen = dr.freeze(lambda target, values, index: in_loop("Add", target, values, index, "Auto"))
    for _ in range(2):
        for count, size in ((5000, 16), (5000, 64), (700, 16), (64, 5000), (9000, 16)):
            target, index = dr.zeros(llvm.Float, size), dr.arange(llvm.UInt, count) % size
            frozen(target, dr.full(llvm.Float, 2, count), index)
            np.testing.assert_array_equal(target.numpy(), 6 * np.bincount(np.arange(count) % size, minlength=size))


@pytest.mark.parametrize("leaf", ["Float", "Float64", "Float16"])
@pytest.mark.parametrize("count", [2, 3, 4, 7])
@pytest.mark.parametrize("mode", ["Expand", "Auto"])
def test_additions_to_rows_in_regions(leaf: str, count: int, mode: str) -> None:
    """Rows that several elements add to, twice in an iteration, in a branch as well, and some of whose elements are
    left alone there."""
    n, bins, scalar = 4099, 37, getattr(llvm, leaf)
    rng = np.random.default_rng(count)
    index, times = rng.integers(0, bins, n).astype(np.uint32), rng.integers(0, 4, n).astype(np.uint32)
    values = rng.integers(-3, 4, (count, n)).astype(np.float32)
    rows = [scalar(row) for row in values]
    how = getattr(dr.ReduceMode, mode)

    def run(kind: str) -> Any:
        target = dr.zeros(scalar, bins * count)

        def body(k: Any, where: Any) -> Any:
            for place, row in enumerate(rows):
                dr.scatter_add(target, row, where * count + place, mode=how)
            for place, row in enumerate(rows):
                dr.scatter_add(target, -row * 2, where * count + place, mode=how)

            def yes(where: Any) -> Any:
                for place in (*range(1, count), 0):
                    dr.scatter_add(target, rows[place] + 1, where * count + place, where > 5, mode=how)
                return where

            where = dr.if_stmt((where,), (where & 1) == 0, yes, lambda where: where, mode=kind)
            return k + 1, dr.select(where + 7 < bins, where + 7, where + 7 - bins)

        dr.while_loop((llvm.UInt(0), llvm.UInt(index)), lambda k, where: k < llvm.UInt(times), body, mode=kind)
        return target.numpy()

    expected = np.zeros((bins, count))
    for k in range(4):
        where, live = (index + 7 * k) % bins, times > k
        np.add.at(expected, where[live], -values.T[live])
        live &= (where % 2 == 0) & (where > 5)
        np.add.at(expected, where[live], values.T[live] + 1)
    for kind in ("symbolic", "evaluated"):
        assert run(kind).tolist() == expected.ravel().tolist()
