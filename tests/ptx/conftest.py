"""Tests of PTX run on the machine: nothing here needs a GPU."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from drjit_core import JitFlag, on_backend, scoped_set_flag
from drjit_core.cuda.driver import Driver
from drjit_core.runtime import disk
from drjit_core.runtime.gpu.backend import GPU
from tests.machine.backend import OnMachine
from tests.machine.driver import MachineDriver
from tests.machine.library import Library

_machines: dict[tuple[int, int | None], OnMachine] = {}


@pytest.fixture
def machine(request: pytest.FixtureRequest) -> Iterator[OnMachine]:
    """The backend of the test: of an architecture and a seed of schedules, which parameters may tell."""
    architecture, seed = getattr(request, "param", (90, None))
    backend = _machines.setdefault((architecture, seed), OnMachine(architecture, seed))
    with on_backend(backend), scoped_set_flag(JitFlag.FastMath, False):
        yield backend


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> Iterator[Library]:
    """The library that drivers find; no kernels are on disk."""
    found = Library(MachineDriver())
    monkeypatch.setattr(ctypes, "CDLL", lambda name: found)
    monkeypatch.setattr(disk, "directory", lambda: tmp_path)
    yield found
    assert not found.errors


@pytest.fixture
def device(library: Library) -> Iterator[GPU]:
    """A device by it."""
    with on_backend(GPU(Driver())) as backend:
        yield backend
        backend.wait()


@pytest.fixture
def own_texts(machine: OnMachine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Changes numbers that texts are made by, which keys do not tell: nobody else finds these kernels."""
    monkeypatch.setattr(disk, "directory", lambda: tmp_path)
    machine.flush()
    yield monkeypatch
    machine.flush()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Tests of ``machines`` run for the oldest and a recent architecture."""
    if "machines" in metafunc.fixturenames:
        metafunc.parametrize("machine", [(75, None), (90, None)], indirect=True, ids=["sm_75", "sm_90"])


@pytest.fixture
def machines(machine: OnMachine) -> OnMachine:
    """See above."""
    return machine
