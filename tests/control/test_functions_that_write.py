"""Branches and calls of which each function writes to another array from outside."""

from __future__ import annotations

import pytest

import drjit as dr
from drjit.llvm import Float, UInt


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
def test_each_function_of_a_call_writes_to_an_array_of_its_own(mode: str) -> None:
    targets = [dr.zeros(Float, 6) for _ in range(3)]
    x = dr.arange(UInt, 6)
    found = dr.switch(x % 3, [lambda x, k=k: (dr.scatter(targets[k], Float(k + 1), x), x * k)[1] for k in range(3)], x,
                      mode=mode)
    assert list(found) == [0, 1, 4, 0, 4, 10]
    assert [list(target) for target in targets] == [[1, 0, 0, 1, 0, 0], [0, 2, 0, 0, 2, 0], [0, 0, 3, 0, 0, 3]]


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
def test_each_side_of_a_branch_writes_to_an_array_of_its_own(mode: str) -> None:
    small, large = dr.zeros(UInt, 4), dr.zeros(UInt, 4)
    x = dr.arange(UInt, 4)
    dr.if_stmt((x,), x < 2, lambda x: dr.scatter(small, x + 1, x), lambda x: dr.scatter(large, x + 1, x), mode=mode)
    assert (list(small), list(large)) == ([1, 2, 0, 0], [0, 0, 3, 4])
