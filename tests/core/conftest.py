"""Fixtures of the compiler's tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from drjit_core import on_backend


@pytest.fixture(params=("llvm", "interpreter"))
def backend(request: pytest.FixtureRequest) -> Iterator[str]:
    """Runs a test by kernels, and by the interpreter."""
    with on_backend(request.param):
        yield request.param
