"""einops on arrays: its functions agree with those on NumPy's arrays, whichever package is imported first."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

import drjit as dr
import drjit.array_api as xp
from drjit.array_api._einops import einsum

einops = pytest.importorskip("einops")

A = np.random.default_rng(0).normal(size=(2, 3, 4))


@pytest.mark.parametrize("function", [
    lambda x: einops.rearrange(x, "a b c -> c (b a)"), lambda x: einops.rearrange(x, "a b (c d) -> d a b c", d=2),
    lambda x: einops.rearrange([x, x], "k a b c -> a (k b) c"), lambda x: einops.rearrange(x, "... c -> c ..."),
    lambda x: einops.repeat(x, "a b c -> a (b k) c m", k=2, m=3), lambda x: einops.reduce(x, "a b c -> b", "mean"),
    lambda x: einops.reduce(x, "a b (c d) -> b 1 d", "sum", d=2), lambda x: einops.reduce(x, "a b c -> c", "prod"),
    lambda x: einops.reduce(x, "a b c -> ()", "max"), lambda x: einops.reduce(x, "a b c -> a", "min"),
    lambda x: einops.reduce(x > 0, "a b c -> b", "any"), lambda x: einops.reduce(x > 0, "a b c -> b", "all"),
    lambda x: einops.pack([x, x], "a b *")[0], lambda x: einops.unpack(x, [(2,), (2,)], "a b *")[1],
    lambda x: einops.einsum(x, x, "a b c, a d c -> b d")])
def test_functions(function):
    found = function(xp.asarray(A))
    assert isinstance(found, xp.Array)
    np.testing.assert_allclose(np.asarray(found), function(A), rtol=1e-12)


def test_functions_keep_derivatives():
    x = xp.asarray(A)
    dr.enable_grad(x)
    dr.backward(xp.sum(einops.einsum(einops.reduce(x, "a b c -> b c", "mean"), xp.ones(4), "b c, c -> b")))
    np.testing.assert_allclose(np.asarray(dr.grad(x)), np.full(A.shape, 0.5))


def test_shapes_and_errors():
    x = xp.asarray(A)
    assert einops.parse_shape(x, "a _ c") == {"a": 2, "c": 4}
    assert isinstance(einops.asnumpy(x), np.ndarray)
    with pytest.raises(einops.EinopsError, match="expected 2 dims"):
        einops.rearrange(x, "a b -> b a")
    with pytest.raises(NotImplementedError, match="mean"):
        einops.reduce(xp.arange(4), "a -> ()", "mean")


@pytest.mark.parametrize("pattern, shapes", [
    ("ij,jk->ik", [(2, 3), (3, 4)]), ("ij,jk,kl->il", [(2, 3), (3, 4), (4, 2)]), ("ij,ij->ij", [(2, 3), (2, 3)]),
    ("i,j->ji", [(2,), (3,)]), ("ij->", [(2, 3)]), ("ij->ji", [(2, 3)]), ("ii->i", [(3, 3)]), ("iij->j", [(2, 2, 3)]),
    ("iii->", [(3, 3, 3)]), ("bij,bjk->bik", [(2, 3, 4), (2, 4, 2)]), ("bij,kj->kbi", [(2, 3, 4), (5, 4)]),
    ("ab,cb,b->ac", [(2, 3), (4, 3), (3,)]), (",i->i", [(), (3,)]), ("ij,k->i", [(2, 3), (4,)]),
    ("ij,jk->ik", [(2, 0), (0, 3)]),
    ("abcd,dcb->a", [(2, 3, 4, 2), (2, 4, 3)])])
def test_sums_of_products(pattern, shapes):
    arrays = [np.random.default_rng(k).integers(-3, 4, shape) for k, shape in enumerate(shapes)]
    for dtype in (np.int64, np.float64, np.complex128):
        values = [array.astype(dtype) for array in arrays]
        found = einsum(pattern, *map(xp.asarray, values))
        assert found.dtype == xp.asarray(values[0]).dtype
        np.testing.assert_allclose(np.asarray(found), np.einsum(pattern, *values), atol=1e-12)


def run(code):
    """Run a program in a process of its own."""
    subprocess.run([sys.executable, "-c", code], check=True,
                   env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})


@pytest.mark.parametrize("imports", ["import einops, drjit.array_api as xp", "import drjit.array_api as xp, einops"])
def test_either_package_may_be_imported_first(imports):
    code = f"{imports}\nassert einops.rearrange(xp.ones((2, 3)), 'a b -> b a').shape == (3, 2)\n" \
           "assert type(einops._backends.__spec__.loader).__name__ == 'SourceFileLoader'"
    run(code)


def test_einops_is_not_imported():
    code = "import sys, drjit.array_api\nassert 'einops' not in sys.modules"
    run(code)
