"""A gradient of one element stands for as many as there are: forward derivatives along 1 are those along ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import drjit as dr
from drjit.llvm.ad import Array3f, Float, TensorXf, UInt32


def _written(write: Callable[..., Any], *before: Any) -> Callable[[Float], Float]:
    def written(x: Float) -> Float:
        target = dr.opaque(Float, 2, 6)
        write(*before, target, x, UInt32(3))
        return target

    return written


def _tensor(x: Float) -> TensorXf:
    return TensorXf(x, (2, 2))


FUNCTIONS: dict[str, Callable[[Float], Any]] = {
    "sum": dr.sum, "prod": dr.prod, "max": dr.max, "mean": dr.mean, "norm": dr.norm, "var": dr.var, "median": dr.median,
    "dot": lambda x: dr.dot(x, x), "cumsum": dr.cumsum, "sort": dr.sort, "reverse": dr.reverse,
    "prefix product": lambda x: dr.prefix_reduce(dr.ReduceOp.Mul, x), "block sum": lambda x: dr.block_sum(x, 2),
    "block product": lambda x: dr.block_reduce(dr.ReduceOp.Mul, x, 2), "repeat": lambda x: dr.repeat(x, 2),
    "tile": lambda x: dr.tile(x, 2), "concat": lambda x: dr.concat([x, x]), "slice": lambda x: x[1:3],
    "gather": lambda x: dr.gather(Float, x, UInt32(0, 1, 1)),
    "masked gather": lambda x: dr.gather(Float, x, UInt32(0, 1, 1), Float(1, 0, 1) > 0),
    "sum along an axis": lambda x: dr.sum(_tensor(x), axis=0),
    "max along an axis": lambda x: dr.max(_tensor(x), axis=0),
    "matrix product": lambda x: _tensor(x) @ _tensor(x),
    "scatter": _written(dr.scatter), "scatter_add": _written(dr.scatter_add),
    "scatter product": _written(dr.scatter_reduce, dr.ReduceOp.Mul),
    "scatter maximum": _written(dr.scatter_reduce, dr.ReduceOp.Max),
    "packets": lambda x: _written(lambda target, y, _: dr.scatter_add(target, Array3f(y, y, y), UInt32(0)))(x),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_tangent_of_one_element_is_that_of_all(name: str) -> None:
    found = []
    for tangent in (1, Float(1, 1, 1, 1)):
        x = Float(1.5, 3, 2.5, 4)
        dr.enable_grad(x)
        y = FUNCTIONS[name](x)
        dr.set_grad(x, tangent)
        found.append(np.array(dr.forward_to(y)))
    np.testing.assert_array_equal(*np.broadcast_arrays(*found))


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
def test_all_additions_of_a_call_have_a_tangent(mode: str) -> None:
    target, x = dr.opaque(Float, 1, 4), Float(1, 2, 3, 4)
    dr.enable_grad(x)
    dr.switch(UInt32(0, 1, 0, 1), [lambda value: dr.scatter_add(target, value, 3), lambda value: None], x * 1,
              mode=mode)
    dr.set_grad(x, 1)
    assert np.array(dr.forward_to(target)).tolist() == [0, 0, 0, 2]
