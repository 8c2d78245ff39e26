"""The frameworks that are installed, one after the other."""

from __future__ import annotations

import warnings

import pytest

from tests.interop.harness import MODULES


@pytest.fixture(params=MODULES)
def framework(request):
    """The name of a framework; JAX has double precision meanwhile."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pytest.importorskip(MODULES[request.param])
    if request.param == "jax":
        import jax

        with jax.enable_x64(True):
            yield request.param
    else:
        yield request.param
