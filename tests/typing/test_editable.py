"""An editable installation is seen by type checkers that run in other folders."""

from __future__ import annotations

import importlib.metadata
import json
import subprocess
import sys

import pytest

PROGRAM = """
from drjit.llvm import Array3f, Float
reveal_type(Array3f(1) + Float(1, 2))
"""


def is_editable() -> bool:
    texts = [found.read_text("direct_url.json") for found in importlib.metadata.distributions(name="drjit-python")]
    return any(text and json.loads(text).get("dir_info", {}).get("editable") for text in texts)


@pytest.mark.skipif(not is_editable(), reason="the package is not installed here, or not as editable")
@pytest.mark.parametrize("checker", [["mypy", "--no-incremental"], ["pyright", "--pythonpath", sys.executable]])
def test_type_checkers_find_the_package_from_another_folder(checker, tmp_path, monkeypatch):
    for name in ("MYPYPATH", "PYTHONPATH"):
        monkeypatch.delenv(name, raising=False)
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    done = subprocess.run([sys.executable, "-m", *checker, path], cwd=tmp_path, text=True, capture_output=True,
                          timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert '"drjit.llvm.Array3f"' in done.stdout or 'is "Array3f"' in done.stdout
