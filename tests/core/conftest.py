"""Fixtures of the compiler's tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from drjit_core import JitBackend, on_backend
from drjit_core.runtime.backends import backend_of


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """The backends that a test runs on."""
    if "backend" in metafunc.fixturenames:
        second = ("second",) if metafunc.config.getoption("--second") or metafunc.config.getoption("--cuda") else ()
        metafunc.parametrize("backend", ("llvm", "interpreter", *second), indirect=True)


@pytest.fixture
def backend(request: pytest.FixtureRequest) -> Iterator[str]:
    """Runs a test by kernels, and by the interpreter; by kernels in memory that the host cannot access, if asked."""
    with on_backend(request.param if request.param != "second" else backend_of(JitBackend.CUDA.value)):
        yield request.param


@pytest.fixture(autouse=True)
def _on_the_gpu(request: pytest.FixtureRequest) -> Iterator[None]:
    """With ``--cuda``, tests that choose no backend run on that."""
    if request.config.getoption("--cuda"):
        with on_backend(backend_of(JitBackend.CUDA.value)):
            yield
    else:
        yield
