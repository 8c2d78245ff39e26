"""``make bench`` runs each benchmark without arguments, and the page of benchmarks says what each of them asks."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"
PROGRAMS = sorted(FOLDER.glob("*.py"))


@pytest.mark.parametrize("program", PROGRAMS, ids=[program.stem for program in PROGRAMS])
def test_it_needs_no_arguments(program: Path) -> None:
    done = subprocess.run([sys.executable, str(program), "--help"], capture_output=True, text=True, check=True)
    usage = done.stdout.partition("\n\n")[0].removeprefix("usage: ")
    while (shorter := re.sub(r"\[[^\[\]]*\]", "", usage)) != usage:  # options are in brackets
        usage = shorter
    assert usage.split() == [program.name]


def test_the_page_lists_them_all() -> None:
    listed = re.findall(r"^\| `(\w+\.py)` \|", (FOLDER / "README.md").read_text(), re.MULTILINE)
    assert sorted(listed) == [program.name for program in PROGRAMS]
