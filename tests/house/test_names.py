"""What the package offers by name: what exists is there, nothing stands for what does not, and listings show it."""

from __future__ import annotations

import ast
import builtins
import doctest
import importlib
import inspect
import pathlib
import pickle

import pytest

import drjit as dr
from conformance.api_names import find, member_state, state_of
from conformance.run_reference import is_later
from drjit import llvm, scalar
from drjit._functions.elementwise import FUNCTIONS
from drjit.llvm import ad
from drjit_core import FUNCTIONS as ROWS

PACKAGES = ["scalar", "llvm", "llvm.ad", "cuda", "cuda.ad", "auto", "auto.ad"]
ROOT = pathlib.Path(dr.__file__).parent


# --- one row, one function --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ROWS)
def test_a_public_row_is_a_function_with_its_name_parameters_and_documentation(name: str) -> None:
    function, row = getattr(dr, name), ROWS[name]
    assert inspect.isfunction(function) and function is FUNCTIONS[name]
    assert (function.__name__, function.__qualname__, function.__module__) == (name, name, "drjit")
    assert function.__code__.co_name == name  # what a traceback shows
    assert row.number is not None and function.__doc__.startswith(row.doc.partition("\n")[0])
    written, found = (inspect.signature(f).parameters.values() for f in (row.number, function))
    assert [(p.name, p.kind, p.default) for p in found] == [(p.name, p.kind, p.default) for p in written]
    assert pickle.loads(pickle.dumps(function)) is function


@pytest.mark.parametrize(("name", "parameters"), [
    ("sin", "(arg, /)"), ("atan2", "(arg0, arg1, /)"), ("fma", "(arg0, arg1, arg2, /)"), ("hypot", "(a, b)"),
    ("select", "(arg0, arg1, arg2)"), ("clip", "(value, min, max)"), ("lerp", "(a, b, t)"), ("sign", "(arg, /)"),
    ("power", "(arg0, arg1, /)"), ("sincos", "(arg, /)"), ("mulsign", "(arg0, arg1, /)"),
])
def test_parameters_are_those_of_the_reference(name: str, parameters: str) -> None:
    signature = inspect.signature(getattr(dr, name))
    bare = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in signature.parameters.values()]
    assert str(inspect.Signature(bare)) == parameters


@pytest.mark.parametrize("name", ["step", "mul_wide", "rad2deg", "deg2rad", "reinterpret_array", *ROWS])
def test_the_documentation_of_an_elementwise_function_has_examples_that_run(name: str) -> None:
    text = inspect.getdoc(getattr(dr, name)) or ""
    assert "Raises a ``TypeError``" in text and "evaluated" in text
    test = doctest.DocTestParser().get_doctest(text, {}, name, None, None)
    assert len(test.examples) > 1
    report: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    runner.run(test, out=report.append)
    assert not runner.failures, "".join(report)


def test_no_module_of_the_array_layer_lists_the_functions_of_rows() -> None:
    """A new row needs no other line: neither the facade nor the package names it."""
    for path in (ROOT / "__init__.py", ROOT / "_functions" / "elementwise.py", ROOT / "_functions" / "from_table.py",
                 pathlib.Path(importlib.import_module("drjit_core").__file__ or "")):
        named = {node.value for node in ast.walk(ast.parse(path.read_text("utf-8")))
                 if isinstance(node, ast.Constant) and isinstance(node.value, str)}
        named |= {alias.name for node in ast.walk(ast.parse(path.read_text("utf-8")))
                  if isinstance(node, (ast.ImportFrom, ast.Import)) for alias in node.names}
        assert not named & (set(ROWS) - {"log"}), path


# --- what exists, and what does not -----------------------------------------------------------------------------------


def test_public_names_are_bound_and_listed_and_public() -> None:
    assert len(set(dr.__all__)) == len(dr.__all__) and sorted(dr.__all__) == dr.__all__
    assert {"scalar", "llvm", "cuda", "auto", "detail", "sin", "Float"} - {*dir(dr)} == {"Float"}
    for name in dir(dr):
        assert hasattr(dr, name) and (name == "__version__" or not name.startswith("_"))
    functions = [found for name in dr.__all__ if inspect.isfunction(found := getattr(dr, name))]
    assert {function.__module__.partition(".")[0] for function in functions} == {"drjit", "drjit_core"}
    assert not any(function.__module__.startswith("drjit._") for function in functions)


def test_a_star_import_brings_the_public_names() -> None:
    names: dict[str, object] = {}
    exec("from drjit import *", names)
    assert {*dr.__all__} == {*names} - {"__builtins__"}


def test_names_that_are_no_part_of_the_interface_are_told_apart() -> None:
    with pytest.raises(AttributeError, match=r"'drjit' has no attribute 'sine'$") as raised:
        _ = dr.sine
    assert not is_later(raised.value)


@pytest.mark.parametrize("package", PACKAGES)
def test_a_package_lists_its_types_and_nothing_else(package: str) -> None:
    module = importlib.import_module(f"drjit.{package}")
    listed = dir(module)
    assert {*module.__all__} == {*listed} - {"ad"} and ("ad" in listed) == hasattr(module, "ad")
    assert not [name for name in listed if name.startswith("_") or not hasattr(module, name)]
    for name in ("Texture4f", "foo", "_record", "package"):
        assert not hasattr(module, name) or name == "package" and name not in listed


COMPONENTS = [
    (llvm.Array3f, "xyz"), (llvm.Array2i, "xy"), (llvm.Array4f, "wxyz"), (llvm.ArrayXf, ""), (scalar.Array3f, "xyz"),
    (ad.Array1f, "x"), (llvm.Quaternion4f, "wxyz"), (llvm.Complex2f, ""), (llvm.Float, ""), (llvm.TensorXf, ""),
    (llvm.Matrix3f, ""), (llvm.Array22f, "xy"),
]


@pytest.mark.parametrize(("cls", "components"), COMPONENTS)
def test_dir_of_an_array_lists_what_programs_use(cls: type, components: str) -> None:
    listed = dir(cls)
    assert [name for name in listed if not name.strip("wxyz")] == list(components)
    assert {"numpy", "shape", "array", "state", "__add__"} < {*listed}
    assert not [name for name in listed if name.startswith("_") and not name.startswith("__")]
    assert ("T" in listed) == (cls in (llvm.Matrix3f, llvm.TensorXf))
    array = cls([1]) if cls in (llvm.ArrayXf, llvm.TensorXf) else cls(1)
    assert dir(array) == listed
    for name in listed:
        assert hasattr(cls, name)


def test_listing_leaves_no_trace_on_identity() -> None:
    class Mine(llvm.Array3f):
        def length(self) -> object:
            return dr.norm(self)

    assert "length" in dir(Mine) and "zyx" not in dir(Mine) and Mine(1, 2, 3).zyx.x == 3
    assert isinstance(llvm.Array3f, builtins.type) and type(dr.ArrayBase) is builtins.type


def test_names_of_the_reference_are_found_or_not() -> None:
    assert state_of("drjit.sin") == "exists" and find("drjit.llvm.ad.Float") is ad.Float
    assert state_of("drjit.nn.Linear") == "exists" and state_of("drjit.nn.Foo") == "to come"
    assert member_state("drjit.ArrayBase", "numpy") == "exists"
    assert member_state("drjit.ArrayBase", "torch") == "exists"
    assert member_state("drjit.ReduceOp", "Add") == "exists" and member_state("drjit.ReduceOp", "Foo") == "to come"
