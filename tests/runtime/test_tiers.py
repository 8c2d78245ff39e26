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
from drjit_core.runtime.cpu import cache, disk


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
def test_the_history_has_both_compilations() -> None:
    found = launches(20)
    assert len({entry["hash"] for entry in found}) == 1
    compiled = [k for k, entry in enumerate(found) if not entry["cache_hit"]]
    assert len(compiled) == 2 and compiled[0] == 0
    for k, entry in enumerate(found):
        assert (entry["backend_time"] > 0) == (k in compiled)
        assert not entry["cache_disk"]


@pytest.mark.usefixtures("hasty")
def test_what_is_found_on_disk_is_booked_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    files: dict[bytes, bytes] = {}
    monkeypatch.setattr(disk, "store", files.__setitem__)
    launches(20)
    quick, optimised = files
    for missing, loaded in ((optimised, [1, 0]), (quick, [1])):
        monkeypatch.setattr(disk, "load", {key: file for key, file in files.items() if key != missing}.get)
        dr.flush_kernel_cache()
        assert [entry["cache_disk"] for entry in launches(20) if not entry["cache_hit"]] == loaded


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
def test_the_log_says_which_kernel_it_is(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "drjit")
    launches(20)
    assert sum("this is kernel" in message for message in caplog.messages) == 2
    assert sum("again" in message for message in caplog.messages) == 1
    assert sum("optimised kernel" in message for message in caplog.messages) == 1


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
        assert not kernel.worked(0)
        assert kernel.patience() == pytest.approx(enough * second - 2)
        assert not kernel.worked(kernel.patience() - 1)
    assert kernel.quick
    assert kernel.worked(2) and not kernel.quick
