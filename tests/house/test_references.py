"""What documentation and comments refer to exists: files in pages, and modules, classes and functions in docstrings."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("drjit", "compiler", "tests", "conformance", "benchmarks", "examples")
FILES = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*")
               if path.suffix in {".py", ".pyx", ".pxd", ".md", ".sh", ".json", ".txt", ".ipynb"})
#: Pages that tell of the code, and not of other programs'.
PAGES = [ROOT / "docs" / "architecture.md", ROOT / "docs" / "glossary.md", ROOT / "compiler" / "README.md",
         ROOT / "docs" / "debugging.md", ROOT / "README.md"]
SOURCES = [path for path in FILES if path.suffix in {".py", ".pyx"} and (
    (ROOT / "drjit") in path.parents or (ROOT / "compiler") in path.parents)]
_FILE = re.compile(r"`{1,2}((?:[\w.-]+/)*[\w-]+\.(?:py|pyx|pxd))`{1,2}")
_FOLDER = re.compile(r"`((?:drjit|drjit_core|compiler|tests|_\w+|runtime|llvm|ptx|codegen|control|derivatives|passes|"
                     r"ir|ops)(?:/[\w.]+)*/)`")
_ROLE = re.compile(r":(?:mod|class|func|meth|attr|data):`~?([\w.]+)`")


def _ends(path: str) -> bool:
    """Whether some file, or folder, has a path that ends like this."""
    tail = f"/{path}"
    return any(str(file).endswith(tail) for file in FILES) or (ROOT / path).exists() or any(
        tail in f"{file.parent}/" for file in FILES)


@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
def test_files_in_pages(page: Path) -> None:
    text = page.read_text()
    assert [path for path in [*_FILE.findall(text), *_FOLDER.findall(text)] if not _ends(path)] == []


def test_files_in_docstrings_and_comments() -> None:
    assert [f"{source.relative_to(ROOT)}: {path}" for source in SOURCES for path in _FILE.findall(source.read_text())
            if not _ends(path)] == []


#: Words that are none of a program's: instructions of processors.
_FOREIGN = {"vrangeps"}


def test_words_in_pages() -> None:
    """Whatever stands between backticks stands somewhere in a program, too."""
    words = set(_FOREIGN)
    for path in FILES:
        words.update(path.relative_to(ROOT).with_suffix("").parts)
        if path not in PAGES:
            words.update(re.findall(r"\w+", path.read_text()))
    for name in ("Makefile", "setup.py", "pyproject.toml"):
        words.update(re.findall(r"\w+", (ROOT / name).read_text()))
    missing = [f"{page.name}: {span}" for page in PAGES
               for span in re.findall(r"`([^`]+)`", re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL))
               if not words.issuperset(re.findall(r"[A-Za-z_]\w+", span))]
    assert missing == []


def _package(source: Path) -> list[str]:
    """The names of the package that a module is in."""
    root = ROOT / "compiler" if (ROOT / "compiler") in source.parents else ROOT
    return list(source.relative_to(root).parent.parts)


def _is_there(name: str) -> bool:
    """Whether a dotted name is a module, or something in one."""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:count]))
        except ImportError:
            continue
        for part in parts[count:]:
            # what a class notes of its instances is known to its text only
            found = getattr(found, part, None) or getattr(found, "__annotations__", {}).get(part)
            if found is None:
                return False
        return True
    return False


def _names(source: Path, text: str) -> list[str]:
    """The names that roles refer to, with those of modules nearby made complete."""
    found = []
    for name in _ROLE.findall(text):
        if name.startswith("."):
            dots = len(name) - len(name.lstrip("."))
            package = _package(source)
            found.append(".".join([*package[:len(package) - dots + 1], name.lstrip(".")]))
        elif name.partition(".")[0] in {"drjit", "drjit_core"}:
            found.append(name)
    return found


def test_roles_in_docstrings_and_comments() -> None:
    missing = {}
    for source in SOURCES:
        for name in _names(source, source.read_text()):
            if name not in missing:
                missing[name] = None if _is_there(name) else str(source.relative_to(ROOT))
    assert {name: source for name, source in missing.items() if source is not None} == {}
