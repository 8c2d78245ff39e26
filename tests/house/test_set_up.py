"""Setting up a checkout: nothing is compiled twice, and what is made of the C code of a room is found again."""

from __future__ import annotations

import importlib.util
import re
import subprocess
from pathlib import Path
from types import ModuleType

import pytest
from setuptools import Distribution, Extension
from setuptools.command import build_ext

ROOT = Path(__file__).resolve().parents[2]
TARGETS = ("demo", "test", "exhaustive", "bench", "conformance", "consumers", "stubs", "reference", "docs")


def recipes(tmp_path: Path, *targets: str) -> list[str]:
    """What make would run for targets in a fresh checkout, line by line."""
    done = subprocess.run(["make", "--dry-run", f"VENV={tmp_path / 'none'}", "PYTHON=python3",
                           *targets], cwd=ROOT, text=True, check=True,
                          capture_output=True)
    return done.stdout.splitlines()


@pytest.mark.parametrize("targets, count", [(TARGETS[:1], 1), (TARGETS[1:], 3)])  # a picture's are made at once
def test_one_recipe_compiles(targets: tuple[str, ...], count: int, tmp_path: Path) -> None:
    lines = recipes(tmp_path, *targets)
    assert sum("build_ext" in line for line in lines) == 1
    installations = [line for line in lines if "--editable" in line]
    assert len(installations) == count
    assert all(line.startswith("DRJIT_PURE=1 ") and "--no-build-isolation" in line for line in installations)


@pytest.mark.parametrize("target", TARGETS[:6] + ("docs",))
def test_what_runs_the_tracer_compiles_it_first(target: str, tmp_path: Path) -> None:
    lines = recipes(tmp_path, target)
    compiled = next(number for number, line in enumerate(lines) if "build_ext" in line)
    used = re.compile(r"bin/python (examples|benchmarks|conformance|-m (pytest|sphinx|conformance))|== \$program")
    assert all(number > compiled for number, line in enumerate(lines) if used.search(line))


def test_a_picture_does_not_wait_for_the_tools_of_the_tests(tmp_path: Path) -> None:
    assert not any(re.search(r"\[(dev|docs)\]", line) for line in recipes(tmp_path, "demo"))


# --- what setup.py keeps ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def script() -> ModuleType:
    """The module of setup.py."""
    spec = importlib.util.spec_from_file_location("set_up", ROOT / "setup.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Builds:
    """Builds of two rooms in a folder, by a compiler that notes what it is asked for."""

    def __init__(self, script: ModuleType, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.script, self.folder = script, folder
        self.compiled: list[str] = []
        self.arguments = ["-O2"]
        for name in ("long", "short"):
            self.write(name, "int x;" * len(name))
        monkeypatch.setattr(build_ext.build_ext, "build_extension",
                            lambda command, extension: self.compile(command, extension))

    def write(self, name: str, code: str) -> None:
        (self.folder / f"{name}.c").write_text(code)

    def compile(self, command: build_ext.build_ext, extension: Extension) -> None:
        self.compiled.append(extension.name)
        file = Path(command.get_ext_fullpath(extension.name))
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(Path(extension.sources[0]).read_bytes() + " ".join(extension.extra_compile_args).encode())

    def run(self, folder: str) -> list[str]:
        """Build into a folder; the names of what was compiled."""
        extensions = [Extension(name, [str(self.folder / f"{name}.c")], extra_compile_args=list(self.arguments))
                      for name in ("long", "short")]
        command = self.script.BuildRooms(Distribution({"name": "rooms", "ext_modules": extensions}))
        command.build_lib, command.build_temp = str(self.folder / folder), str(self.folder / "objects")
        command.parallel = 1
        command.ensure_finalized()
        command.run()
        self.compiled, compiled = [], self.compiled
        for extension in extensions:
            built = Path(command.get_ext_fullpath(extension.name)).read_text()
            assert built == Path(extension.sources[0]).read_text() + " ".join(self.arguments)
        return compiled


@pytest.fixture
def builds(script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Builds:
    return Builds(script, tmp_path, monkeypatch)


def test_the_longest_room_is_compiled_first(builds: Builds) -> None:
    assert builds.run("first") == ["short", "long"]  # by their C code


def test_a_second_build_compiles_nothing(builds: Builds) -> None:
    builds.run("first")
    assert builds.run("first") == []
    assert builds.run("wheel") == []  # another folder, as that of a wheel or of an editable installation


def test_what_has_changed_is_compiled_alone(builds: Builds) -> None:
    builds.run("first")
    builds.write("long", "int y;")
    assert builds.run("first") == ["long"]
    assert builds.run("wheel") == []


def test_other_arguments_compile_again(builds: Builds) -> None:
    builds.run("first")
    builds.arguments = ["-O1"]
    assert builds.run("first") == ["short", "long"]


def test_other_compilers_compile_again(builds: Builds, monkeypatch: pytest.MonkeyPatch) -> None:
    builds.run("first")
    monkeypatch.setenv("CC", "another")
    assert builds.run("first") == ["short", "long"]


def test_a_build_that_was_cut_off_is_made_again(builds: Builds) -> None:
    builds.run("first")
    (kept,) = builds.folder.glob("long.*.key")
    kept.unlink()
    assert builds.run("first") == ["long"]
