"""Scatter-reductions: every operator in every mode for every type, against NumPy and the scalar backend."""

from __future__ import annotations

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
