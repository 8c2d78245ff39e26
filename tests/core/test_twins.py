"""Rooms of which there are two texts do the same in both forms, for the same inputs."""

from __future__ import annotations

import functools
import importlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import FunctionType

import pytest

from drjit_core import rooms

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = Path(__file__).with_name("twins.py")


def source(room: str, suffix: str) -> Path:
    """The file of a room."""
    root = ROOT / "compiler" if room.startswith("drjit_core") else ROOT
    return root.joinpath(*room.split(".")).with_suffix(suffix)


#: Rooms of the short way to a launch, which has no plain form.
SHORT_WAY = tuple(f"drjit_core.runtime.{name}" for name in ("walk", "native", "recipes", "cpu.native", "gpu.native"))
#: Other rooms have one text, which both rounds of the suite test.
TWINS = [room for room in rooms.ROOMS if source(room, ".pyx").is_file() and room not in SHORT_WAY]


@functools.cache
def transcripts(pure: str) -> dict[str, list[str]]:
    """What the rooms do in a fresh process."""
    path = os.pathsep.join([str(ROOT), str(ROOT / "compiler")])
    environment = os.environ | {"DRJIT_PURE": pure, "PYTHONPATH": path}
    done = subprocess.run([sys.executable, str(PROGRAM)], env=environment, text=True, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, list[str]] = json.loads(done.stdout)
    return found


@pytest.mark.skipif(not rooms.compiled, reason="there is but one form")
@pytest.mark.parametrize("room", TWINS)
def test_both_forms_do_the_same(room: str) -> None:
    name = room.rpartition(".")[2]
    plain, compiled = transcripts("1")[name], transcripts("0")[name]
    for position, (expected, found) in enumerate(zip(plain, compiled, strict=True)):
        assert found == expected, position


@pytest.mark.parametrize("room", TWINS)
def test_all_that_is_public_is_compared(room: str) -> None:
    name, module = room.rpartition(".")[2], importlib.import_module(room)
    text = source(room, ".py").read_text(encoding="utf-8")
    (names,) = re.findall(r"^__all__ = \[(.*?)\]", text, re.DOTALL | re.MULTILINE)
    mentioned = set(re.findall(rf"\b{name}\.(\w+)", PROGRAM.read_text(encoding="utf-8")))
    for each in re.findall(r"\"(\w+)\"", names):
        what = getattr(module, each)
        if isinstance(what, FunctionType) or type(what).__name__ in ("cython_function_or_method",
                                                                     "builtin_function_or_method"):
            assert each in mentioned or each in ("adopt", "new_node"), each  # called at import; a slot of the type


def test_the_list_is_complete() -> None:
    assert len(TWINS) == 9


@pytest.mark.parametrize("room", SHORT_WAY[:3])
def test_the_short_way_knows_no_backend(room: str) -> None:
    """The import contracts see the plain form only."""
    for suffix in (".pyx", ".pxd"):
        file = source(room, suffix)
        if file.is_file():
            imports = re.findall(r"^(?:from|c?import) +([\w.]+)", file.read_text(encoding="utf-8"), re.MULTILINE)
            assert imports and not [name for name in imports if re.search(r"\b(llvm|ptx|cuda|cpu|gpu)\b", name)]
