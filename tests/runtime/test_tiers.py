"""Kernels that are compiled quickly, and again when they have done enough work: what is told of it, and how long it
may take."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest

import drjit as dr
from drjit.llvm import Float
from drjit_core import Recorded, ops
from drjit_core.runtime import disk
from drjit_core.runtime.cpu import cache


@pytest.fixture(autouse=True)
def _tiers(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Both tiers, without a cache on disk."""
    monkeypatch.setattr(cache, "_level", lambda: None)
    monkeypatch.setattr(disk, "load", lambda key: None)
    monkeypatch.setattr(disk, "store", lambda key, code: None)
    dr.flush_kernel_cache()
    yield
    dr.flush_kernel_cache()


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "_BREAK_EVEN", 1 << 14)


def launches(count: int) -> list[dict[str, Any]]:
    """Entries of launches of one kernel."""
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory):
        dr.kernel_history_clear()
        for k in range(count):
            dr.eval(dr.arange(Float, 1000) * (k + 1.5) + 7)
        return dr.kernel_history()


@pytest.mark.usefixtures("hasty")
def test_the_history_has_both_compilations(monkeypatch: pytest.MonkeyPatch) -> None:
    files: dict[bytes, bytes] = {}
    monkeypatch.setattr(disk, "store", files.__setitem__)
    for load in (lambda key: None), files.get:  # compiled; found on disk, where the optimised one is looked for first
        monkeypatch.setattr(disk, "load", load)
        dr.flush_kernel_cache()
        found = launches(20)
        assert len({entry["hash"] for entry in found}) == 1
        assert [entry["cache_hit"] for entry in found] == [0] + [1] * 19
        assert [entry["backend_time"] > 0 for entry in found].count(True) == (1 if load == files.get else 2)
        assert found[0]["backend_time"] > 0 and found[0]["cache_disk"] == int(load == files.get)


def test_recordings_tell_it_as_well(hasty: None) -> None:
    x = dr.arange(Float, 1000)
    dr.eval(x)
    recorded = Recorded(lambda x: [ops.fma(x, x, x)])
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory):
        dr.kernel_history_clear()
        for _ in range(20):
            recorded(x._n)
        assert [entry["backend_time"] > 0 for entry in dr.kernel_history()].count(True) == 2


@pytest.mark.usefixtures("hasty")
def test_slow_compilations_are_warned_of(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(cache, "_SLOW", 1e-3)
    monkeypatch.setattr(cache, "_SECONDS_OF_CHARACTER", 1e-12)
    found = launches(20)
    warnings = [entry.getMessage() for entry in caplog.records if entry.levelno == logging.WARNING]
    name, operations = found[0]["hash"][:16], found[0]["operation_count"]
    assert len(warnings) == 2
    assert warnings[0].startswith(f"jit_eval(): compiling kernel {name} of {operations} operations took ")
    assert warnings[1].startswith(f"jit_eval(): compiling again, optimised, kernel {name} of {operations} operations ")


def test_quick_compilations_are_not(caplog: pytest.LogCaptureFixture) -> None:
    launches(3)
    assert not caplog.messages


def test_what_takes_long_must_be_worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twice the time, twice the work; where that is beyond what nobody notices, for as many times longer."""
    second = cache._BREAK_EVEN / 2.5e-3
    dr.eval(dr.arange(Float, 2) * 1.5 + 7)
    (kernel,) = cache._kernels.values()
    characters = len(kernel.text)
    for seconds, enough in ((1.0, 1.0), (2.0, 2.0), (4.0, 8.0), (20.0, 200.0)):
        monkeypatch.setattr(cache, "_SECONDS_OF_CHARACTER", seconds / characters)
        kernel._enough, kernel._worked = 1.0, 2
        kernel.worked(0)
        assert kernel.patience() == pytest.approx(enough * second - 2)
        kernel.worked(kernel.patience() - 1)
        assert kernel.quick
    kernel.worked(2)
    assert not kernel.quick
