"""Random programs of NumPy calls agree with NumPy; the whole run has 20,000 of them."""

from __future__ import annotations

import pytest

import drjit.array_api as xp

from .programs import agree


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("part", range(4))
def test_random_programs(part: int) -> None:
    assert sum(agree(seed) for seed in range(part * 100, part * 100 + 100)) > 200


@pytest.mark.filterwarnings("ignore")
def test_random_programs_are_traced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xp.policy, "eager", 0)
    assert sum(agree(seed) for seed in range(1000, 1040)) > 80


@pytest.mark.exhaustive
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("eager", [0, 1 << 13])
@pytest.mark.parametrize("part", range(100))
def test_many_random_programs(part: int, eager: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xp.policy, "eager", eager)
    for seed in range(10_000 + part * 200, 10_200 + part * 200):
        agree(seed)
