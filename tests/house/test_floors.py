"""The rules between floors that import-linter has no word for.

What builds on the public API imports nothing private; no modules import each other in a circle; and imports stand at
the head of a module, where the floors can be checked.
"""

from __future__ import annotations

import ast
import graphlib
import subprocess
import sys
from pathlib import Path

import grimp
import pytest

ROOT = Path(__file__).resolve().parents[2]

#: Modules that make the public API; everything else in ``drjit`` that is not ``drjit._*`` itself is a user of it.
FOUNDATION = ("drjit", "drjit.__main__", "drjit.scalar", "drjit.llvm", "drjit.cuda", "drjit.auto", "drjit.dda",
              "drjit.detail", "drjit.interop", "drjit.nn", "drjit.opt", "drjit.random", "drjit.textures")

#: What may be imported within a function: packages that are optional, or that ``import drjit`` leaves alone.
LATE = {"numpy", "graphviz", "pickle", "ml_dtypes", "PIL", "decimal"}


def is_user(module: str) -> bool:
    return module not in FOUNDATION and not module.startswith(("drjit._", *(f"{name}." for name in FOUNDATION[1:])))


#: Imports for annotations that do go in a circle, by who is imported: the functions of a namespace and the class whose
#: operators they are name each other, and so do the translators of statements and of expressions.
NAME_EACH_OTHER = {"drjit.array_api._array", "drjit._control.syntax.translate"}


@pytest.fixture(scope="module")
def graph() -> grimp.ImportGraph:
    return grimp.build_graph("drjit", cache_dir=None, exclude_type_checking_imports=True)


def test_users_of_the_public_api_import_no_private_module(graph):
    found = [f"{user} imports {imported}" for user in sorted(graph.modules) if is_user(user)
             for imported in sorted(graph.find_modules_directly_imported_by(user)) if imported.startswith("drjit._")]
    assert not found


@pytest.mark.parametrize("package", ["drjit", "drjit_core"])
def test_no_modules_import_each_other_in_a_circle(package):
    """Not even for annotations."""
    run, annotate = (grimp.build_graph(package, cache_dir=None, exclude_type_checking_imports=excluded)
                     for excluded in (True, False))
    imports = {module: {imported for imported in annotate.find_modules_directly_imported_by(module)
                        if imported not in NAME_EACH_OTHER or
                        imported in run.find_modules_directly_imported_by(module)} for module in annotate.modules}
    graphlib.TopologicalSorter(imports).prepare()  # raises a CycleError that names the circle


def imported_late(path: Path) -> list[str]:
    """The packages that functions of a module import."""
    found = []
    for function in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for node in ast.walk(function):
                if isinstance(node, ast.Import):
                    found += [alias.name for alias in node.names]
                elif isinstance(node, ast.ImportFrom):
                    found.append("." * node.level + (node.module or ""))
    return found


def test_imports_stand_at_the_head_of_modules():
    found = [f"{path.relative_to(ROOT)}: {name}" for path in sorted((ROOT / "drjit").rglob("*.py"))
             for name in imported_late(path) if name not in LATE]
    assert not found


def test_what_takes_long_to_import_waits_until_somebody_asks():
    shown = "import sys, drjit; print(*sys.modules)"
    found = subprocess.run([sys.executable, "-c", shown], capture_output=True, text=True, check=True).stdout.split()
    assert "drjit_core.runtime.backends" in found
    assert not {"numpy", "drjit_core.runtime.gpu", "drjit_core.ptx", "drjit.array_api"} & set(found)
