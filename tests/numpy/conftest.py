"""Tables of calls run on small arrays as they are, which are mostly NumPy's at once, and traced, as large ones are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import drjit.array_api as xp


def pytest_generate_tests(metafunc: Any) -> None:
    """Both ways for tests that ask for ``eager``."""
    if "eager" in metafunc.fixturenames and "eager" not in [name for mark in metafunc.definition.iter_markers(
            "parametrize") for name in str(mark.args[0]).split(",")]:
        metafunc.parametrize("eager", [0, 1 << 13], ids=["traced", "at-once"], indirect=True)


@pytest.fixture
def eager(request: Any) -> Iterator[int]:
    """Of how many elements arrays are that are computed at once."""
    before = xp.policy.eager
    xp.policy.eager = request.param
    yield request.param
    xp.policy.eager = before
