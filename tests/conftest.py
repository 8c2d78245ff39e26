"""What holds for all tests."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

# A shell that runs the tests in the background lets them ignore Ctrl-C, and what they start as well.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--watched``: every test fails that writes behind the memory of an array (plain rooms only)."""
    parser.addoption("--watched", action="store_true", help="fail where something is written behind an array")


@pytest.fixture(autouse=True)
def _watched(request: pytest.FixtureRequest) -> Iterator[None]:
    if request.config.getoption("--watched"):
        from tests.core.harness import watched_memory

        with watched_memory():
            yield
    else:
        yield
