"""Sparse matrices against dense ones, and SciPy's."""

from __future__ import annotations

import numpy as np
import pytest

import drjit as dr
import drjit.array_api as xp
from drjit.sparse import bsr_array, coo_array, csr_array, from_scipy, matmul

DENSE = np.where(np.random.default_rng(0).random((6, 4)) < 0.4, np.random.default_rng(1).normal(size=(6, 4)), 0)


def blocks():
    return bsr_array((np.arange(1.0, 13).reshape(2, 3, 2), [1, 0], [0, 1, 2]), shape=(6, 4))


MATRICES = {"coo": lambda: coo_array(DENSE), "csr": lambda: csr_array(DENSE), "bsr": blocks,
            "transposed": lambda: csr_array(DENSE.T.copy()).T, "doubled": lambda: coo_array(
                ([1.0, 2.0, 3.0], ([0, 0, 5], [1, 1, 3])), shape=(6, 4)),
            "empty": lambda: coo_array(np.zeros((6, 4))), "tocsr": lambda: coo_array(DENSE[::-1]).tocsr(),
            "tocoo": lambda: blocks().tocoo(), "scaled": lambda: -(csr_array(DENSE) * 2) / 3}


@pytest.mark.parametrize("eager", [0, 1 << 13])
@pytest.mark.parametrize("name", MATRICES)
def test_products(name, eager, monkeypatch):
    monkeypatch.setattr(xp.policy, "eager", eager)
    A = MATRICES[name]()
    dense = np.asarray(A.toarray())
    assert A.shape == dense.shape == (6, 4) and A.ndim == 2 and A.dtype == np.float64
    if name in ("coo", "csr"):
        np.testing.assert_array_equal(dense, DENSE)
    x, y, z = (np.random.default_rng(2).normal(size=shape) for shape in (4, (4, 3), (2, 6)))
    np.testing.assert_allclose(A @ xp.asarray(x), dense @ x)
    np.testing.assert_allclose(matmul(A, y), dense @ y)
    np.testing.assert_allclose(z @ A, z @ dense)
    np.testing.assert_allclose(xp.asarray(z[0]) @ A, z[0] @ dense)


@pytest.mark.parametrize("name", ["coo", "csr", "bsr", "doubled"])
def test_derivatives(name):
    A = MATRICES[name]()
    dense = np.asarray(A.toarray())
    x = xp.asarray(np.random.default_rng(3).normal(size=(4, 2)))
    weights = np.random.default_rng(4).normal(size=(6, 2))
    dr.enable_grad(A.data, x)
    dr.backward(xp.sum((A @ x) * xp.asarray(weights)).tensor)
    np.testing.assert_allclose(dr.grad(x), dense.T @ weights)
    rows, columns = A.tocoo()._places() if name != "coo" and name != "doubled" else A._places()
    whole = weights @ np.asarray(dr.detach(x)).T
    np.testing.assert_allclose(np.asarray(dr.grad(A.data)).ravel(), whole[rows, columns])


@pytest.mark.parametrize("format", ["coo", "csr", "bsr", "csc"])
def test_scipy(format):
    sparse = pytest.importorskip("scipy.sparse")
    theirs = sparse.csr_array(DENSE).asformat(format)
    ours = from_scipy(theirs)
    np.testing.assert_array_equal(ours.toarray(), DENSE)
    np.testing.assert_array_equal(ours.to_scipy().toarray(), DENSE)
    assert ours.to_scipy().format == (format if format != "csc" else "csr")
    np.testing.assert_allclose(theirs @ xp.ones(4), DENSE @ np.ones(4))


@pytest.mark.parametrize(("make", "error", "text"), [
    (lambda: coo_array(([1.0], ([2], [0])), shape=(2, 2)), IndexError, r"'row' holds 2 … 2"),
    (lambda: coo_array(([1.0], ([0.5], [0])), shape=(2, 2)), TypeError, r"'row' must be a vector of integers"),
    (lambda: coo_array(([1.0, 2], ([0], [0])), shape=(2, 2)), ValueError, r"coo_array\(\): there are"),
    (lambda: csr_array(([1.0], [0], [0, 2]), shape=(1, 2)), ValueError, r"csr_array\(\): 'indptr' must begin with 0"),
    (lambda: bsr_array(([1.0], [0], [0, 1])), ValueError, r"bsr_array\(\): 'data' must have three axes"),
    (lambda: csr_array(DENSE) @ xp.ones(3), ValueError, r"matmul\(\): a matrix of the shape \(6, 4\) and an array"),
    (lambda: csr_array(DENSE) * np.ones(4), TypeError, r"'\*' takes a number"),
    (lambda: from_scipy(DENSE), TypeError, r"from_scipy\(\): 'matrix' must be a sparse matrix of SciPy")])
def test_errors(make, error, text):
    with pytest.raises(error, match=text):
        make()


@pytest.mark.parametrize("eager", [0, 1 << 13])
@pytest.mark.parametrize("name", MATRICES)
def test_products_of_sparse_matrices(name, eager, monkeypatch):
    monkeypatch.setattr(xp.policy, "eager", eager)
    A = MATRICES[name]()
    dense = np.asarray(A.toarray())
    for other in (csr_array(DENSE.T.copy()), coo_array(DENSE).T, blocks().T):
        found = A @ other
        assert isinstance(found, csr_array) and found.shape == (6, 6)
        np.testing.assert_allclose(np.asarray(found.toarray()), dense @ np.asarray(other.toarray()), atol=1e-14)
    assert (A @ csr_array(DENSE.T.copy())).to_scipy().has_sorted_indices or name == "empty"
    with pytest.raises(ValueError, match=r"matrices of the shapes \(6, 4\) and \(6, 4\) do not go together"):
        A @ A


def test_products_of_sparse_matrices_have_derivatives():
    data = [np.random.default_rng(k).normal(size=int((DENSE != 0).sum())) for k in (5, 6)]
    places, weights = np.nonzero(DENSE), np.random.default_rng(7).normal(size=(4, 4))

    def value(a, b):
        found = coo_array((b, places), DENSE.shape).T @ coo_array((a, places), DENSE.shape)
        return xp.sum(found.toarray() * xp.asarray(weights))

    a, b = map(xp.asarray, data)
    dr.enable_grad(a, b)
    dr.backward(value(a, b))
    for array, place in ((a, 0), (b, 1)):
        for k in (0, 3):
            moved = [[xp.asarray(values.copy()) for values in data] for _ in (0, 1)]
            for sign, arrays in zip((1, -1), moved, strict=True):
                arrays[place][k] += sign * 1e-5
            slope = (float(value(*moved[0])) - float(value(*moved[1]))) / 2e-5
            assert float(dr.grad(array)[k]) == pytest.approx(slope, rel=1e-6, abs=1e-8)
