"""The two forms of the hot rooms: which one runs, and that it is all of them or none."""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import drjit_core
from drjit_core import rooms

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "compiler" / "drjit_core"
BUILT = any((PACKAGE / f"_compiled{suffix}").is_file() for suffix in importlib.machinery.EXTENSION_SUFFIXES)

PROGRAM = """
import importlib
import drjit
import drjit.array_api
import drjit.llvm
import drjit.opt
import drjit_core
from drjit_core import rooms
files = {name: importlib.import_module(name).__file__ for name in rooms.ROOMS}
compiled = {name: not file.endswith(".py") for name, file in files.items()}
assert len(set(compiled.values())) == 1, compiled
assert next(iter(compiled.values())) is rooms.compiled
from drjit_core import literal, ops, read_element
from drjit_core.types import VarType
x = ops.add(literal(VarType.Int32.value, 2, 3), literal(VarType.Int32.value, 3, 3))
assert read_element(x, 2) == 5
assert list(drjit.llvm.Float(1, 2) + 1) == [2, 3]
print(drjit_core.rooms_report())
"""


def copied(folder: Path, *without: str) -> Path:
    """Both packages in a folder, but for some files."""
    for package in (ROOT / "drjit", PACKAGE):
        shutil.copytree(package, folder / package.name, ignore=shutil.ignore_patterns("__pycache__", *without))
    return folder


def report(*folders: Path, **environment: str) -> str:
    """What a fresh process says that imports the packages from folders."""
    variables = {key: value for key, value in os.environ.items() if key != "DRJIT_PURE"} | environment
    variables["PYTHONPATH"] = os.pathsep.join(map(str, folders))
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=variables, text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_all_rooms_have_the_form_that_is_reported() -> None:
    for name in rooms.ROOMS:
        file = importlib.import_module(name).__file__
        assert file is not None and file.endswith(".py") is not rooms.compiled, name
    assert drjit_core.rooms_report().startswith("compiled" if rooms.compiled else "plain Python: ")


def test_the_environment_asks_for_the_plain_form() -> None:
    assert report(ROOT, ROOT / "compiler", DRJIT_PURE="1") == "plain Python: the environment variable DRJIT_PURE is set"


def test_without_extension_modules_the_plain_form_runs(tmp_path: Path) -> None:
    assert report(copied(tmp_path, "*.so", "*.pyd")) == "plain Python: they have not been compiled (see README.md)"


@pytest.mark.skipif(not BUILT, reason="the rooms have not been compiled")
def test_compiled_rooms_of_other_sources_are_never_run(tmp_path: Path) -> None:
    before = report(copied(tmp_path))
    with (tmp_path / "drjit_core" / "ir" / "trace.py").open("a") as file:
        file.write("# a change\n")
    assert report(tmp_path) == "plain Python: their sources have changed since they were compiled"
    assert before.startswith(("compiled", "plain Python: their sources have changed"))


@pytest.mark.skipif(not rooms.compiled, reason="the rooms have not been compiled, or are not used")
def test_compiled_rooms_run_from_a_folder_with_dots_in_its_name(tmp_path: Path) -> None:
    folder = copied(tmp_path / "lib.v1" / "python3.11" / "site-packages")
    assert report(folder) == f"compiled, {len(rooms.ROOMS)} modules"


@pytest.mark.skipif(not rooms.compiled, reason="the rooms have not been compiled, or are not used")
def test_compiled_rooms_that_are_incomplete_are_never_run(tmp_path: Path) -> None:
    folder = copied(tmp_path, "number.*.so", "number.*.pyd")
    assert report(folder) == "plain Python: the compiled drjit_core.ir.number is missing"


def test_the_plain_form_takes_no_extension_module_of_what_was_a_room_once(tmp_path: Path) -> None:
    folder = copied(tmp_path, "_compiled.*")
    for module in ("drjit_core/ir/verify", "drjit_core/types", "drjit/_access/indirect"):
        assert module.replace("/", ".") not in rooms.ROOMS
        (folder / f"{module}{importlib.machinery.EXTENSION_SUFFIXES[0]}").write_bytes(b"made from other sources")
    assert report(folder).startswith("plain Python: they have not been compiled")


def test_each_room_has_sources_that_the_hash_covers() -> None:
    found = {Path(path).relative_to(ROOT).with_suffix("").as_posix().removeprefix("compiler/").replace("/", ".")
             for path in rooms.sources()}
    assert found == set(rooms.ROOMS)
    assert all(importlib.util.find_spec(name) is not None for name in rooms.ROOMS)
