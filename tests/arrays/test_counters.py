"""Counters that a program makes of literals: how often a kernel is compiled for their values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import drjit as dr
from drjit.llvm import Float, Float64, Int, UInt, UInt64

PASSES = 12


def read(x: Any, counter: Any) -> Any:
    return dr.gather(type(x), x, UInt(counter))


def add(x: Any, counter: Any) -> Any:
    return x + counter


def write(x: Any, counter: Any) -> Any:
    y = type(x)(x)
    dr.scatter(y, type(x)(70), UInt(counter))  # no value of the counter: equal literals are one node
    return y


@pytest.mark.parametrize("use", [read, add, write])
@pytest.mark.parametrize("type_", [Float, Float64, Int, UInt, UInt64])
def test_counters_from_zero_are_one_program(type_: Any, use: Callable[[Any, Any], Any]) -> None:
    x = dr.opaque(type_, 3, 16)
    counter = type_(0)
    dr.eval()  # what others have scheduled
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory):
        for _ in range(PASSES):
            dr.eval(use(x, counter))
            counter += 1
        history = dr.kernel_history()
    hashes = {entry["hash"] for entry in history if entry["type"] == dr.KernelType.JIT}
    assert len(hashes) <= 4  # with 0, with 1, and with all others; and the copy that is written to


@pytest.mark.parametrize("start", [0, 1])
def test_evaluated_loops_with_uniform_counters_are_one_program(start: int) -> None:
    table = dr.zeros(UInt, 40)
    dr.eval(table)

    def body(i: UInt, total: UInt) -> tuple[UInt, UInt]:
        total = total + 3 * i
        dr.scatter(table, total, i)
        return i + 1, total

    with dr.scoped_set_flag(dr.JitFlag.KernelHistory):
        dr.while_loop((UInt(start), UInt(0)), lambda i, total: i < 40, body, mode="evaluated")
        history = dr.kernel_history()
    kernels = [entry["hash"] for entry in history if entry["type"] == dr.KernelType.JIT]
    assert len(kernels) >= 39 and len(set(kernels)) <= 5
    assert table.numpy().tolist() == [3 * k * (k + 1) // 2 for k in range(40)]
