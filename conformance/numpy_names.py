"""Write the page of the names of ``drjit.numpy``, by NumPy's modules: what exists, and what does not.

    python -m conformance.numpy_names [--check]

With ``--check``, nothing is written, and the exit status is 1 if the page is not what would be written.
"""

from __future__ import annotations

import argparse
import inspect
import pathlib
import sys
import textwrap
from types import ModuleType
from typing import Any

import numpy

from drjit import numpy as namespace

PAGE = pathlib.Path(__file__).resolve().parent.parent / "docs" / "numpy-names.md"
_HEAD = f"""# The names of `drjit.numpy`

NumPy's names, as of version {'.'.join(numpy.__version__.split('.')[:2])}, that [`drjit.numpy`](tutorials/numpy.md)
has, with their signatures and what they do, and those that it has not. This page is generated
(`python -m conformance.numpy_names`) and compared with the package by a test.

"""
#: Names of NumPy that are no functions of arrays: other kinds of elements, memory, and NumPy's own machinery.
_NOT_MEANT = {
    "ScalarType", "asmatrix", "bmat", "broadcast", "busday_count", "busday_offset", "busdaycalendar", "bytes_", "char",
    "character", "clongdouble", "complex256", "core", "ctypeslib", "datetime64", "datetime_as_string", "datetime_data",
    "dtypes", "f2py", "flatiter", "flexible", "float128", "frompyfunc", "get_include", "getbufsize", "geterrcall",
    "info", "is_busday", "isfortran", "isnat", "lib", "little_endian", "longdouble", "ma", "matrix", "memmap",
    "mintypecode", "nditer", "nested_iters", "object_", "rec", "recarray", "record", "sctypeDict",
    "setbufsize", "seterrcall", "show_config", "show_runtime", "str_", "strings", "test",
    "timedelta64", "typecodes", "typename", "typing", "void", "mtrand", "bit_generator", "get_bit_generator",
    "set_bit_generator", "BitGenerator", "MT19937", "PCG64", "PCG64DXSM", "Philox", "SFC64", "get_state", "set_state",
    "random_integers",
}


def _described(name: str, value: Any) -> str:
    if isinstance(value, (ModuleType, str, bool, int, float)) or value is None or type(value).__name__ == "DType":
        return ""
    try:
        signature = "" if inspect.isclass(value) else \
            str(inspect.signature(value)) if not isinstance(value, namespace.ufunc) else \
            "(" + ", ".join([f"x{k + 1}" for k in range(value.nin)]) + \
            ", /, out=None, *, where=True, dtype=None, casting='same_kind')"
    except (ValueError, TypeError):
        signature = ""
    parameters = inspect.signature(value).parameters if signature and not isinstance(value, namespace.ufunc) else {}
    if parameters:
        signature = str(inspect.Signature([entry.replace(annotation=entry.empty) for entry in parameters.values()]))
    text = " ".join((inspect.getdoc(value) or "").split())
    return f"| `{name}{signature}` | {_sentence(text)} |\n".replace("``", "`").replace("<no value>", "…")


def _sentence(text: str) -> str:
    first = text.partition(". ")[0].rstrip(".")
    return first.replace("|", "\\|").replace(":func:", "")


def _section(title: str, module: ModuleType, other: ModuleType) -> str:
    there = [name for name in module.__all__ if hasattr(other, name) or module is namespace]
    lacking = sorted(name for name in dir(other) if not name.startswith("_") and name not in module.__all__ and
                     name not in _NOT_MEANT)
    rows = [row for name in there if name not in (*namespace._OF_NUMPY, *namespace._MODULES) and
            (row := _described(name, getattr(module, name)))]
    plain = [name for name in there if not _described(name, getattr(module, name)) or
             name in (*namespace._OF_NUMPY, *namespace._MODULES)]
    text = f"## {title}\n\n| | |\n|---|---|\n{''.join(rows)}\n"
    for what, names in (("Also", plain), ("Not there yet", lacking)):
        if names:
            text += textwrap.fill(f"{what}: {', '.join(f'`{name}`' for name in names)}.", 120,
                                  break_on_hyphens=False) + "\n\n"
    return text


def _members(title: str, cls: type, other: type) -> str:
    names = [name for name in dir(other) if not name.startswith("_")]
    exist = [name for name in names if hasattr(cls, name)]
    lacking = [name for name in names if not hasattr(cls, name)]
    text = f"## {title}\n\n"
    for what, found in (("Exist", exist), ("Not there yet", lacking)):
        text += textwrap.fill(f"{what}: {', '.join(f'`{name}`' for name in found)}.", 120,
                              break_on_hyphens=False) + "\n\n"
    return text


def page() -> str:
    """The text of the page."""
    return (_HEAD + _section("numpy", namespace, numpy) + _section("numpy.linalg", namespace.linalg, numpy.linalg) +
            _section("numpy.fft", namespace.fft, numpy.fft) + _section("numpy.random", namespace.random, numpy.random) +
            _members("Methods of generators", namespace.random.Generator, numpy.random.Generator) +
            _members("Methods and attributes of arrays", namespace.ndarray, numpy.ndarray)).rstrip("\n") + "\n"


def main() -> int:
    """Write or check; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing")
    if parser.parse_args().check:
        return int(PAGE.read_text(encoding="utf-8") != page())
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
