"""The pages of the documentation name what exists, and what they call missing is missing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import drjit as dr

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs" / "tutorials").glob("*.md"))]

_FENCE = re.compile(r"^ *```.*?^ *```\s*$", re.MULTILINE | re.DOTALL)
_NAME = re.compile(r"`@?dr\.([A-Za-z_]\w*)(?:\.([A-Za-z_]\w*))?")
#: What "not there yet" is said of: a sentence, what stands in parentheses, or the cell of a table.
_PART = re.compile(r"\|\s|[()]|(?<=[.:])\s|\n\n")
_MISSING = "not there yet"


def parts(text):
    """The prose of a page in parts, each with the names of this package in it."""
    prose = re.sub(r"`([^`\n]*)`", lambda code: re.sub(r"[()|]", "\x00", code[0]), _FENCE.sub("\n\n", text))
    for part in _PART.split(prose):
        part = re.sub(r"\s+", " ", part)
        yield part, _NAME.findall(part)


def exists(name, member):
    """Whether ``dr.name`` or ``dr.name.member`` is public."""
    packages = "llvm", "scalar", "cuda", "auto", "nn", "textures"
    if name not in dr.__all__ and not (hasattr(dr, name) and name in packages):
        return False
    return not member or hasattr(getattr(dr, name), member)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_names_exist_unless_the_page_says_otherwise(path):
    wrong = []
    for part, names in parts(path.read_text(encoding="utf-8")):
        missing = _MISSING in part
        for name, member in names:
            if exists(name, member) == missing:
                wrong.append(f"dr.{name}{'.' if member else ''}{member}: "
                             f"{'said to be missing, but exists' if missing else 'does not exist'}: {part[:150]!r}")
    assert not wrong, "\n".join(wrong)


def test_parts_of_a_page():
    found = list(parts("Use `dr.sin(x)`. (`dr.later` and\n`@dr.other` are not there yet.) | `dr.a.b` | `dr.c` | "
                       "\n\n```python\ndr.unseen\n```\n"))
    assert [names for _, names in found if names] == [
        [("sin", "")], [("later", ""), ("other", "")], [("a", "b")], [("c", "")]]
    assert [_MISSING in part for part, names in found if names] == [False, True, False, False]


def test_existence():
    assert exists("sum", "") and exists("JitFlag", "Debug")
    assert not exists("JitFlag", "Debugging") and not exists("surely_no_function", "")


FLAGS = (ROOT / "docs" / "flags.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("member", [*dr.JitFlag, *dr.LogLevel], ids=str)
def test_every_flag_and_level_has_a_row(member):
    assert re.search(rf"^\|.*`(LogLevel\.)?{member.name}`.*\|$|^`{member.name}` is", FLAGS, re.MULTILINE)


def test_every_environment_variable_has_a_row():
    read = {name for folder in ("drjit", "compiler") for path in (ROOT / folder).rglob("*.py")
            for name in re.findall(r"environ(?:\.get\(|\[)\"(DRJIT_\w+)\"", path.read_text(encoding="utf-8"))}
    assert len(read) >= 6
    assert read == set(re.findall(r"^\| `(DRJIT_\w+)` \|", FLAGS, re.MULTILINE))
