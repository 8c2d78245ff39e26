"""The type stubs: that they are up to date, and that mypy and pyright read in them what happens at runtime.

Thousands of expressions are evaluated and become a program with one ``assert_type`` each, which both checkers read,
together with ``program.py`` and the page about types. A checker may know less than the runtime, in the cases that
``docs/typing.md`` lists, but never something else; and both checkers must say the same of each line.
"""

from __future__ import annotations

import collections
import json
import pathlib
import re
import subprocess
import sys
import types
import typing
from typing import Any

import pytest

import drjit as dr
from conformance.run_doc_blocks import blocks
from conformance.stubs.__main__ import FOLDER, outdated, stubs
from conformance.stubs.base import SEVEN

from .samples import MODULES, Program, Sample, functions, operators

ROOT = FOLDER.parent
PROGRAM = pathlib.Path(__file__).with_name("program.py")
Messages = dict[tuple[str, int], list[str]]  # by file and line
MYPY = """\
[mypy]
strict = true
python_version = 3.11
explicit_package_bases = true
mypy_path = {path}
[mypy-llvmlite.*]
ignore_missing_imports = true
"""


def run_mypy(folder: pathlib.Path, files: list[pathlib.Path]) -> Messages:
    (folder / "mypy.ini").write_text(MYPY.format(path=f"{ROOT}:{ROOT / 'compiler'}"))
    done = subprocess.run([sys.executable, "-m", "mypy", "--config-file", "mypy.ini", "--output=json", *files],
                          cwd=folder, capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stdout[-2000:] + done.stderr
    found = collections.defaultdict(list)
    for entry in map(json.loads, done.stdout.splitlines()):
        if entry["severity"] == "error":
            found[pathlib.Path(entry["file"]).name, entry["line"]].append(entry["message"])
    return found


def run_pyright(folder: pathlib.Path, files: list[pathlib.Path]) -> Messages:
    settings: dict[str, Any] = {"extraPaths": [str(ROOT), str(ROOT / "compiler")], "pythonVersion": "3.11"}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    done = subprocess.run([sys.executable, "-m", "pyright", "-p", folder, "--pythonpath", sys.executable,
                           "--outputjson", *files], cwd=folder, capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stdout[-2000:] + done.stderr
    found = collections.defaultdict(list)
    for entry in json.loads(done.stdout)["generalDiagnostics"]:
        if entry["severity"] == "error":
            line = entry["range"]["start"]["line"] + 1
            found[pathlib.Path(entry["file"]).name, line].append(entry["message"])
    return found


CHECKERS = {"mypy": run_mypy, "pyright": run_pyright}


def test_the_stubs_in_the_tree_are_what_would_be_generated() -> None:
    assert not outdated(FOLDER), "run `make stubs`"


def test_the_stubs_are_of_reasonable_size() -> None:
    assert sum(map(len, stubs().values())) < 1_000_000


def test_what_programs_annotate_with_exists_at_runtime() -> None:
    for name in ("T", "Ts", "ArrayT", *SEVEN):
        assert getattr(dr, name).__name__ == name
    assert typing.get_origin(dr.AnyArray) is dr.ArrayBase
    assert typing.get_args(dr.AnyArray) == (Any,) * len(SEVEN)
    assert issubclass(types.new_class("Named", (dr.ArrayBase[int],)), dr.ArrayBase)


# --- generated expressions -------------------------------------------------------------------------------------------


def verdict(sample: Sample, messages: list[str]) -> str:
    """What the messages of a line amount to."""
    if sample.type is None:
        return "objects" if messages else "silent"
    if not messages:
        return "knows"
    if any("assert_type" not in message and "Expression is of type" not in message for message in messages):
        return "objects"
    return "knows nothing" if any('"Any"' in message for message in messages) else "errs"


def packages(text: str) -> set[str]:
    return {package for package in MODULES if re.search(rf"\b{package}_", text)}


#: Where a checker may know something else than the runtime: the pattern of an expression, and why.
OTHERWISE = [
    (r"^(True|2|1\.5) (==|!=) ", "Python asks the left operand first, and `float == object` is a `bool` to a checker"),
    (r"^dr\.(lerp|fma|clip|select)\(.*(_Bool|b\b)", "masks that become numbers only by the other arguments"),
    (r"^dr\.normalize\(\w+Matrix", "the rows of a matrix, of different lengths"),
    (r"^dr\.imag\((True|2|1\.5)\)", "the stub says that it is 0, the sample that it is an int"),
    (r"^dr\.mulsign\(\w+, (True|2|1\.5)\)", "the sign of a Python number does not promote"),
]
#: Where it may object to what runs, or know nothing.
LESS = [
    (r"^\w+\[:\]$", "a slice of a static array has as many components as the slice says"),
    (r"^dr\.", "functions with arguments of several types"),
    (r"Array\w*X.*Array|Array.*ArrayX", "dynamic sizes that go with static ones"),
    (r"Array\d\d", "nested arrays over integers, which no package lists"),
    (r"Matrix", "products of matrices and vectors of higher precision"),
]


def listed(sample: Sample, reasons: list[tuple[str, str]]) -> bool:
    return any(re.search(pattern, sample.text) for pattern, _ in reasons)


def number_of_python(sample: Sample, messages: list[str]) -> bool:
    """Whether the type is one that the true one can be used as: a bool is an int, an int is a float."""
    order = ["bool", "int", "float"]
    found = re.search(r'(?:of type|received) "(\w+)"', messages[0])
    return found is not None and {sample.type, found[1]} <= {*order} \
        and order.index(sample.type) <= order.index(found[1])


# --- what checkers say ------------------------------------------------------------------------------------------------


def marked_lines(messages: Messages) -> list[str]:
    """What is wrong with the verdicts on ``program.py``: errors where none is marked, or none where one is."""
    lines = PROGRAM.read_text().splitlines()
    found = {line: texts for (file, line), texts in messages.items() if file == PROGRAM.name}
    return [f"{number}: {line.strip()}: {found.get(number, 'no error')}" for number, line in enumerate(lines, 1)
            if line.endswith("  # error") != (number in found)]


def known_otherwise(samples: dict[Sample, list[str]]) -> list[str]:
    """Expressions of which a checker knows something else than the runtime, for no reason that is listed."""
    return [f"{sample.text}: {sample.type}, {messages[0]}" for sample, messages in samples.items()
            if verdict(sample, messages) == "errs" and not number_of_python(sample, messages)
            and not listed(sample, OTHERWISE)]


def known_less(samples: dict[Sample, list[str]]) -> list[str]:
    """Expressions of which a checker knows nothing, for no reason that is listed."""
    return [f"{sample.text}: {sample.type}, {messages[0]}" for sample, messages in samples.items()
            if sample.type is not None and verdict(sample, messages) in ("objects", "knows nothing")
            and len(packages(sample.text)) < 2 and not listed(sample, LESS)]


def start(checker: str, folder: pathlib.Path) -> None:
    """Skip the test if a checker is not there."""
    pytest.importorskip(checker, reason=f"{checker} is not installed (pip install -e '.[dev]')")
    if subprocess.run([sys.executable, "-m", checker, "--version"], cwd=folder, capture_output=True).returncode:
        pytest.skip(f"{checker} does not start (pyright needs Node.js: pip install 'pyright[nodejs]')")


# One test, as the checkers take half a minute: several workers would each run them.
def test_checkers_know_what_happens_at_runtime(tmp_path: pathlib.Path) -> None:
    for checker in CHECKERS:
        start(checker, tmp_path)
    program = Program.joined(operators(seed=1, pairs=1500, types=120), functions(seed=1, count=1200))
    text, where = program.text()
    path = tmp_path / "generated.py"
    path.write_text(text)
    page = tmp_path / "page.py"
    page.write_text("".join(block.text for block in blocks((ROOT / "docs" / "typing.md").read_text())))
    problems: dict[str, list[str]] = {}
    verdicts = {}
    for checker, run in CHECKERS.items():
        messages = run(tmp_path, [path, page, PROGRAM])
        problems[f"{checker}: docs/typing.md"] = [f"{line}: {found}" for (file, line), found in messages.items()
                                                  if file == page.name]
        samples = {sample: messages.get((path.name, line), []) for line, sample in where.items()}
        problems[f"{checker}: program.py"] = marked_lines(messages)
        problems[f"{checker}: knows something else"] = known_otherwise(samples)
        problems[f"{checker}: knows nothing"] = known_less(samples)
        verdicts[checker] = {sample: verdict(sample, found) for sample, found in samples.items()}
        counts = collections.Counter(found for sample, found in verdicts[checker].items()
                                     if not sample.text.startswith("dr.") and not listed(sample, OTHERWISE))
        assert counts["knows"] > 2500
        assert counts["knows"] > 0.95 * (counts["knows"] + counts["knows nothing"])
    problems["they differ"] = [f"{sample.text}: mypy {found}, pyright {verdicts['pyright'][sample]}"
                               for sample, found in verdicts["mypy"].items() if found != verdicts["pyright"][sample]]
    assert not {what: found for what, found in problems.items() if found}
