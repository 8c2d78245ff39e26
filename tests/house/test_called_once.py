"""Examples and documents: each function of a symbolic construct is called once; and the counter that tells."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from conformance.called_once import ROOT, count, files

#: What always runs: short files with constructs of all kinds. The others do in the long run.
SHORT = ["examples/mandelbrot.py", "docs/tutorials/control_flow.md", "docs/tutorials/pytrees.md"]

PAGE = """\
```python
import drjit as dr
from drjit.llvm import Bool, Float, UInt

class Owner:
    def target(self, x):
        return x

def body(i):
    return i + 1,

for k in range(3):
    dr.while_loop((UInt(0, 0),), lambda i: i < 2, body, mode="evaluated")
dr.if_stmt((Float(1, 2),), Bool(True, False), lambda x: x, lambda x: x + 1)
dr.switch(UInt(0, 1), [Owner().target, lambda x: x + 1], Float(1, 2))

@dr.syntax
def function(x):
    if x > 1:
        x = x + 1
    return x if x < 5 else 2

function(Float(1, 2))
```
"""


def problems(path: Path) -> list[str]:
    """What is wrong with a file, in words."""
    rows, problem = count(path)
    return [*filter(None, [problem]), *(str(row) for row in rows if row.wrong and not row.reason)]


@pytest.mark.parametrize("name", SHORT)
def test_functions_are_called_once(name: str) -> None:
    assert problems(ROOT / name) == []


@pytest.mark.exhaustive
@pytest.mark.parametrize("path", files(), ids=lambda path: path.name)
def test_functions_of_all_files_are_called_once(path: Path) -> None:
    assert problems(path) == []


def test_all_functions_of_a_page_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text(PAGE)
    rows, problem = count(path)
    assert problem == ""
    assert sorted((row.name.rpartition(".")[2], row.part, row.mode, row.number) for row in rows) == sorted([
        ("<lambda>", "condition", "evaluated", 3), ("body", "body", "evaluated", 3),
        ("<lambda>", "true side", "symbolic", 1), ("<lambda>", "false side", "symbolic", 1),
        ("target", "target", "symbolic", 1), ("<lambda>", "target", "symbolic", 1),
        *[(row.name.rpartition(".")[2], f"{side} side", "symbolic", 1) for side in ("true", "false") for row in rows
          if row.name.startswith("function.") and row.part == f"{side} side"]])
    assert sum(row.name.startswith("function.") for row in rows) == 4
    assert [(row.least, row.most) for row in rows if row.mode == "evaluated"] == [(2, 2), (3, 3)]


def test_functions_that_are_called_twice_are_told() -> None:
    program = f"import sys; sys.path[:0] = {[str(ROOT), str(ROOT / 'compiler')]!r}\n" \
        "import drjit as dr; from drjit.llvm import Bool, Float; from conformance import called_once\n" \
        "dr.if_stmt = lambda args, cond, yes, no: (yes(*args), yes(*args))\n" \
        "called_once.install(dr)\n" \
        "dr.if_stmt((Float(1, 2),), Bool(True, False), lambda x: x, lambda x: x)\n" \
        "print([row[5:] for row in called_once.report()])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[[1, 2, 2, 1], [1, 0, 0, 1]]\n"
