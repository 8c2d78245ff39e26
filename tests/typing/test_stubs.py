"""The type stubs: that they are up to date, and that mypy and pyright read in them what happens at runtime.

Thousands of expressions are evaluated and become a program with one ``assert_type`` each, which both checkers read,
together with ``program.py``. A checker may know less than the runtime, in the cases that ``docs/typing.md`` lists, but
never something else; and both checkers must say the same of each line.
"""

from __future__ import annotations

import collections
import json
import pathlib
import re
import subprocess
import sys
from typing import Any, NamedTuple

import pytest

from conformance.stubs.__main__ import FOLDER, outdated, stubs

from .samples import MODULES, Program, Sample, functions, operators

ROOT = FOLDER.parent
PROGRAM = pathlib.Path(__file__).with_name("program.py")
CHECKERS = ("mypy", "pyright")
MYPY = """\
[mypy]
strict = true
python_version = 3.11
explicit_package_bases = true
mypy_path = {path}
[mypy-llvmlite.*]
ignore_missing_imports = true
"""


class Diagnosis(NamedTuple):
    """What a checker says of programs, and what they are."""

    generated: dict[int, Sample]
    messages: dict[str, dict[tuple[str, int], list[str]]]  # by checker, file and line


def run_mypy(folder: pathlib.Path, files: list[pathlib.Path]) -> dict[tuple[str, int], list[str]]:
    (folder / "mypy.ini").write_text(MYPY.format(path=f"{ROOT}:{ROOT / 'compiler'}"))
    done = subprocess.run([sys.executable, "-m", "mypy", "--config-file", "mypy.ini", "--output=json", *files],
                          cwd=folder, capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stdout[-2000:] + done.stderr
    found = collections.defaultdict(list)
    for entry in map(json.loads, done.stdout.splitlines()):
        if entry["severity"] == "error":
            found[pathlib.Path(entry["file"]).name, entry["line"]].append(entry["message"])
    return found


def run_pyright(folder: pathlib.Path, files: list[pathlib.Path]) -> dict[tuple[str, int], list[str]]:
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


@pytest.fixture(scope="module")
def diagnosis(tmp_path_factory: pytest.TempPathFactory) -> Diagnosis:
    """Both checkers run once, on all programs."""
    pytest.importorskip("mypy", reason="mypy is not installed (pip install -e '.[dev]')")
    pytest.importorskip("pyright", reason="pyright is not installed (pip install -e '.[dev]')")
    folder = tmp_path_factory.mktemp("typing")
    if subprocess.run([sys.executable, "-m", "pyright", "--version"], cwd=folder, capture_output=True).returncode:
        pytest.skip("pyright does not start: it needs Node.js (pip install 'pyright[nodejs]')")
    program = Program.joined(operators(seed=1, pairs=1500, types=120), functions(seed=1, count=1500))
    text, generated = program.text()
    path = folder / "generated.py"
    path.write_text(text)
    runners = {"mypy": run_mypy, "pyright": run_pyright}
    return Diagnosis(generated, {name: runners[name](folder, [path, PROGRAM]) for name in CHECKERS})


def test_the_stubs_in_the_tree_are_what_would_be_generated() -> None:
    assert not outdated(FOLDER), "run `make stubs`"


def test_the_stubs_are_of_reasonable_size() -> None:
    assert sum(map(len, stubs().values())) < 1_000_000


@pytest.mark.parametrize("checker", CHECKERS)
def test_a_checker_objects_to_the_marked_lines_and_to_no_others(diagnosis: Diagnosis, checker: str) -> None:
    marked = {number for number, line in enumerate(PROGRAM.read_text().splitlines(), 1) if line.endswith("  # error")}
    found = {line: messages for (file, line), messages in diagnosis.messages[checker].items() if file == PROGRAM.name}
    assert not {line: messages for line, messages in found.items() if line not in marked}
    assert marked <= set(found)


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


@pytest.mark.parametrize("checker", CHECKERS)
def test_a_checker_never_knows_something_else_than_the_runtime(diagnosis: Diagnosis, checker: str) -> None:
    wrong = []
    for line, sample in diagnosis.generated.items():
        messages = diagnosis.messages[checker].get(("generated.py", line), [])
        if verdict(sample, messages) == "errs" and not number_of_python(sample, messages) \
                and not listed(sample, OTHERWISE):
            wrong.append(f"{sample.text}: {sample.type}, {messages[0]}")
    assert not wrong


@pytest.mark.parametrize("checker", CHECKERS)
def test_what_a_checker_does_not_know_is_listed(diagnosis: Diagnosis, checker: str) -> None:
    unknown = []
    for line, sample in diagnosis.generated.items():
        messages = diagnosis.messages[checker].get(("generated.py", line), [])
        if sample.type is not None and verdict(sample, messages) in ("objects", "knows nothing") \
                and len(packages(sample.text)) < 2 and not listed(sample, LESS):
            unknown.append(f"{sample.text}: {sample.type}, {messages[0]}")
    assert not unknown


def test_both_checkers_say_the_same_of_each_line(diagnosis: Diagnosis) -> None:
    verdicts = {sample.text: [verdict(sample, diagnosis.messages[checker].get(("generated.py", line), []))
                              for checker in CHECKERS] for line, sample in diagnosis.generated.items()}
    assert not {text: pair for text, pair in verdicts.items() if pair[0] != pair[1]}


def test_checkers_know_most_of_it(diagnosis: Diagnosis) -> None:
    counts = collections.Counter(verdict(sample, diagnosis.messages["mypy"].get(("generated.py", line), []))
                                 for line, sample in diagnosis.generated.items() if not sample.text.startswith("dr.") and not listed(sample, OTHERWISE))
    assert counts["knows"] > 3000
    assert counts["knows"] > 0.95 * (counts["knows"] + counts["knows nothing"] + counts["errs"])
