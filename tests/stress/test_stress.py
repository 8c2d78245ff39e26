"""The native runtime under stress: see :mod:`tests.stress.harness` for the scenarios, which also have a full form."""

from __future__ import annotations

import sys

import pytest

from tests.stress.harness import SCENARIOS, run_scenario

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks, signals and /proc as on Linux")


@pytest.mark.parametrize("name", SCENARIOS)
def test_short(name: str) -> None:
    run_scenario(name, full=False)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", SCENARIOS)
def test_full(name: str) -> None:
    run_scenario(name, full=True)
