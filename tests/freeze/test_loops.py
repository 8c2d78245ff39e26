"""Derivatives of loops in frozen functions: how many iterations there are is found out by each replay."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import drjit as dr
from drjit.llvm import UInt
from drjit.llvm.ad import Float


@dr.syntax
def power(x: Any, n: Any) -> Any:
    i, y = UInt(0), Float(1)
    while i < n:
        y = y * x + dr.sin(y)
        i += 1
    return y


def inside(x: Any, n: Any) -> Any:
    y = power(x, n)
    dr.backward(y)
    return y, dr.grad(x)


COUNTS = (3, 3, 4, 2, 9, 3, 17, 16, 1, 0, 3)


def test_gradients_that_the_body_computes() -> None:
    frozen = dr.freeze(inside)
    for k, count in enumerate(COUNTS):
        found = []
        for function in (inside, frozen):
            x = Float([0.5, 1.25, 0.1 * k])
            dr.enable_grad(x)
            found.append([np.array(dr.detach(each)) for each in function(x, UInt(count))])
        np.testing.assert_allclose(found[1], found[0], rtol=1e-5)
    assert frozen.n_recordings < len(COUNTS)


@pytest.mark.parametrize("backward", [True, False], ids=["backward", "forward"])
def test_derivatives_through_the_call(backward: bool) -> None:
    frozen = dr.freeze(power)
    for k, count in enumerate(COUNTS):
        found = []
        for function in (power, frozen):
            x = Float([0.5, 1.25, 0.1 * k])
            dr.enable_grad(x)
            y = function(x, UInt([count, 1, 2]))
            if backward:
                dr.backward(y * 2)
                found.append([np.array(dr.detach(y)), np.array(dr.grad(x))])
            else:
                dr.set_grad(x, 2)
                dr.enqueue(dr.ADMode.Forward, x)
                dr.traverse(dr.ADMode.Forward)
                found.append([np.array(dr.detach(y)), np.array(dr.grad(y))])
        np.testing.assert_allclose(found[1], found[0], rtol=1e-5)
    assert frozen.n_recordings <= 2
