"""Coordinates of grids, binary search, and copies of PyTrees."""

from __future__ import annotations

import numpy as np
import pytest

import drjit as dr
from drjit.llvm import Array3f, Float, TensorXf, UInt


@pytest.mark.parametrize("indexing", ["xy", "ij"])
@pytest.mark.parametrize("sizes", [(), (3,), (2, 3), (4, 1, 3), (2, 0)])
def test_meshgrid(sizes, indexing):
    result = dr.meshgrid(*(dr.arange(Float, n) for n in sizes), indexing=indexing)
    expected = np.meshgrid(*(np.arange(n) for n in sizes), indexing=indexing)
    assert isinstance(result, tuple) and len(result) == len(sizes)
    for found, array in zip(result, expected, strict=True):
        assert np.array_equal(found.numpy(), array.ravel())


@pytest.mark.parametrize(("args", "kwargs", "error"), [
    (([1, 2], [3]), {}, TypeError), ((UInt(1), Float(1)), {}, TypeError), ((Array3f(1),), {}, TypeError),
    ((TensorXf([1, 2], (2,)),), {}, TypeError), ((dr.scalar.Array2f([1, 2]),), {}, TypeError),
    ((UInt(1),), {"indexing": "zz"}, ValueError),
])
def test_meshgrid_bad_input(args, kwargs, error):
    with pytest.raises(error, match=r"drjit\.meshgrid"):
        dr.meshgrid(*args, **kwargs)


def test_binary_search():
    data = dr.arange(Float, 10)
    limit = Float(3.5, 0, 20, -1, 9)
    result = dr.binary_search(0, 9, lambda index: dr.gather(Float, data, index) < limit)
    assert str(result) == "[4, 0, 9, 0, 9]"
    for start, end in [(0, 0), (3, 1), (0, 9), (2, 18), (-5, 4)]:
        for split in range(-6, 20):
            found = dr.binary_search(start, end, lambda index, split=split: index < split)
            assert found == (max(start, min(split, end)) if start < end else start)


@pytest.mark.parametrize("args", [
    (0, 9, 3), (0.5, 9, bool), (UInt(0), 9, bool), (0, None, bool), (0, 9, lambda index: index),
    (0, 9, lambda index: Float(1)),
])
def test_binary_search_bad_input(args):
    with pytest.raises(TypeError, match=r"drjit\.binary_search"):
        dr.binary_search(*args)


def test_copy():
    x = dr.opaque(Float, 1, 2)
    tree = {"a": [x, 2], "b": (x, "text")}
    found = dr.copy(tree)
    found["a"][0] += 1
    assert str(found) == "{'a': [[2, 2], 2], 'b': ([1, 1], 'text')}" and str(x) == "[1, 1]"
    assert found["a"] is not tree["a"]
    tree["c"] = tree
    with pytest.raises(RecursionError, match=r"drjit\.copy"):
        dr.copy(tree)
