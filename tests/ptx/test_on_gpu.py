"""What will run on a device, on the machine: recording launches, repeating them, and telling what is wrong."""

from __future__ import annotations

import json
from argparse import Namespace
from pathlib import Path

import numpy as np
import pytest

from conformance import on_gpu
from drjit_core import on_backend
from drjit_core.cuda.driver import Driver
from drjit_core.cuda.errors import DriverError, NoDevice
from tests.machine import corpus
from tests.machine.backend import OnMachine
from tests.machine.driver import MachineDriver
from tests.ptx.test_programs import CHECKS, use_copies


@pytest.fixture(scope="module")
def entries(tmp_path_factory: pytest.TempPathFactory) -> list[corpus.Entry]:
    """Launches of a few programs, written and read again."""
    backend = OnMachine(75)
    with pytest.MonkeyPatch.context() as patch, on_backend(backend), corpus.recording(backend) as recorder:
        use_copies(patch)
        for kind in ("regions", "rows"):
            for seed in range(300, 306):
                CHECKS[kind](seed)
    path = tmp_path_factory.mktemp("corpus") / "corpus.pkl"
    corpus.save(path, recorder.entries)
    found = corpus.load(path)
    assert found == recorder.entries and len(found) > 20
    return found


def run(device: MachineDriver, entries: list[corpus.Entry], numbers: list[int] | None = None) -> list[dict]:
    told: list[dict] = []
    try:
        on_gpu.run_corpus(device, entries, list(range(len(entries))) if numbers is None else numbers, told.append)
    except DriverError:
        pass
    return told


@pytest.mark.parametrize("seed", [None, 2], ids=["in order", "any order"])
def test_launches_can_be_repeated(entries: list[corpus.Entry], seed: int | None) -> None:
    told = run(MachineDriver(seed=seed), entries)
    assert [each["entry"] for each in told] == list(range(len(entries)))
    assert not [each for each in told if each["error"]]
    assert any(entry.expected == "bits" and entry.blocks for entry in entries)
    assert any(block.moves for entry in entries for block in entry.blocks), "no table of calls has addresses"


def test_what_is_wrong_is_told(entries: list[corpus.Entry]) -> None:
    number = next(k for k, entry in enumerate(entries) if entry.expected == "bits" and
                  any(block.type and block.before != block.after for block in entry.blocks))
    entry = entries[number]
    blocks = [block._replace(after=block.before) if block.type else block for block in entry.blocks]
    changed = [*entries[:number], entry._replace(blocks=tuple(blocks)), *entries[number + 1:]]
    wrong = [each for each in run(MachineDriver(), changed) if each["error"]]
    assert [each["entry"] for each in wrong] == [number] and "differ" in wrong[0]["error"]
    rejected = [entry._replace(text=entry.text + "nonsense"), entries[0]]
    assert [bool(each["error"]) for each in run(MachineDriver(), rejected)] == [True, False]


def test_a_fault_ends_the_process(entries: list[corpus.Entry]) -> None:
    entry = next(entry for entry in entries if entry.blocks and not entry.combine)
    broken = entry._replace(moves=())
    told = run(MachineDriver(), [entries[0], broken, entries[1]])
    assert len(told) == 2 and told[1]["fatal"]


def test_what_follows_a_fault_runs_in_another_process(entries: list[corpus.Entry], tmp_path: Path,
                                                      monkeypatch: pytest.MonkeyPatch) -> None:
    results, begun = on_gpu.Results(tmp_path / "results.jsonl"), []

    def process(command: list[str], input: str, **rest: object) -> Namespace:
        numbers = json.loads(input)
        begun.append(numbers)
        if numbers[0] == 4:  # it dies without a word
            return Namespace(returncode=-11, stderr="killed")
        for number in numbers[:2]:
            results.tell({"part": "corpus", "entry": number, "error": "bad" if number % 2 else "", "compile": 0.1})
        return Namespace(returncode=3, stderr="")
    monkeypatch.setattr(on_gpu.subprocess, "run", process)
    on_gpu.corpus_in_processes(results, tmp_path / "corpus.pkl", [0, 1, 2, 3, 4, 5], float("inf"))
    assert begun == [[0, 1, 2, 3, 4, 5], [2, 3, 4, 5], [4, 5], [5]]
    assert on_gpu.failed_parts(results.read()) == ({"corpus"}, [1, 3, 4, 5])
    results.tell({"part": "corpus", "entry": 3, "error": "", "compile": 0.1})
    assert on_gpu.failed_parts(results.read())[1] == [1, 4, 5]
    assert "3 wrong" in on_gpu.table(results.read())


def test_the_other_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    device = MachineDriver()
    assert next(on_gpu.facts(device))["device"] == "machine"
    (found,) = on_gpu.kernel(device)
    assert not found["error"] and found["lanes"] == 4
    told = list(on_gpu.speed(device, 1 << 13))
    assert [each["name"] for each in told][:2] == ["axpy", "sum of squares"]
    assert not [each for each in told if "error" in each] and not device.machine.memory.blocks


def test_memory_is_compared_as_its_type_says() -> None:
    def block(values: object, type_: str) -> corpus.Block:
        data = np.array(values, type_).tobytes()
        return corpus.Block(data, data, type_, ())
    nan = np.array([0x7FFFFFFF], np.uint32).tobytes()
    assert not on_gpu.compare(nan, block([np.nan], "float32"), "bits")
    assert on_gpu.compare(nan, block([1], "uint32"), "bits")
    near = np.array([1.0001], np.float32).tobytes()
    assert on_gpu.compare(near, block([1], "float32"), "bits")
    assert not on_gpu.compare(near, block([1], "float32"), "close")
    assert not on_gpu.compare(near, block([5], "float32"), "no fault")
    assert not on_gpu.compare(near, block([5], "float32")._replace(type=""), "bits")


def test_without_a_driver_it_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
                                     capsys: pytest.CaptureFixture[str]) -> None:
    def missing(name: str) -> None:
        raise OSError(f"{name}: no such file")
    monkeypatch.setattr("drjit_core.cuda.driver.ctypes.CDLL", missing)
    with pytest.raises(NoDevice, match="no CUDA driver"):
        Driver()
    arguments = Namespace(out=tmp_path, minutes=1, only=None, failed=False, corpus=tmp_path / "none")
    assert on_gpu.run(arguments) == 2 and "Nothing was run" in capsys.readouterr().out
