"""Warnings about the environment at import, and the report of ``python -m drjit``."""

from __future__ import annotations

import sys
import time
import warnings

import pytest

import drjit_core
from drjit import __main__ as report_module
from drjit._base import environment as _environment


def make_distribution(folder, name):
    (folder / f"{name}.dist-info").mkdir(parents=True)
    return str(folder)


def test_another_distribution_is_found(tmp_path):
    folder = make_distribution(tmp_path, "drjit-1.1.0")
    assert _environment.other_distributions([folder]) == [f"drjit 1.1.0 in {folder}"]


@pytest.mark.parametrize("name", ["drjit_python-0.1.0", "drjit_core-1.0", "mitsuba-3.5.0"])
def test_unrelated_distributions_are_not(tmp_path, name):
    assert _environment.other_distributions([make_distribution(tmp_path, name)]) == []


def test_search_path_with_odd_entries(tmp_path):
    assert _environment.other_distributions([str(tmp_path / "missing"), "", str(tmp_path)]) == []


def test_import_warns_of_another_distribution(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [make_distribution(tmp_path, "drjit-1.1.0")])
    with pytest.warns(RuntimeWarning, match=r"drjit 1\.1\.0 in .*pip uninstall drjit drjit-python"):
        _environment.check()


def test_free_threaded_interpreters_are_warned_of(monkeypatch):
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: False, raising=False)
    with pytest.warns(RuntimeWarning, match="without the global lock"):
        _environment.check()


def test_ordinary_environment_is_silent_and_quick(monkeypatch):
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: True, raising=False)
    seconds = []
    for _ in range(20):
        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            _environment.check()
        seconds.append(time.perf_counter() - start)
    assert min(seconds) < 0.02  # 0.3 ms is usual; import may take 250 ms in all


@pytest.fixture
def facade(monkeypatch):
    """A compiler whose answers are known."""
    monkeypatch.setattr(drjit_core, "thread_report", lambda: "7", raising=False)
    monkeypatch.setattr(drjit_core, "cache_report", lambda: ("/cache", 3 << 19), raising=False)
    monkeypatch.setattr(drjit_core, "backend_report", lambda: [("llvm", True, "LLVM 22, <16 x float>"),
                                                               ("cuda", False, "no driver")], raising=False)


def test_report_says_what_a_bug_report_needs(facade):
    lines = report_module.report().splitlines()
    titles = [line.partition(":")[0] for line in lines if not line.startswith(" ")]
    assert titles == list(report_module.SECTIONS)
    text = "\n".join(lines)
    for part in ("llvmlite ", "numpy ", "llvm  yes  LLVM 22, <16 x float>", "cuda  no   no driver", "/cache, 1.5 MiB",
                 "threads:       7", sys.executable):
        assert part in text
    assert "could not be found out" not in text


def test_report_survives_a_section_that_fails(facade, monkeypatch):
    def broken():
        raise OSError("libllvmlite.so is missing")

    monkeypatch.setattr(drjit_core, "backend_report", broken)
    assert "backends:      could not be found out: OSError: libllvmlite.so is missing" in report_module.report()


def test_report_without_a_cache(facade, monkeypatch):
    monkeypatch.setattr(drjit_core, "cache_report", lambda: (None, 0))
    assert "kernel cache:  in memory only" in report_module.report()


def test_report_names_another_distribution(facade, monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "path", [*sys.path, make_distribution(tmp_path, "drjit-1.1.0")])
    assert f"conflicts:     drjit 1.1.0 in {tmp_path}" in report_module.report()
