"""The stub of ``drjit.numpy``, whose names are those of its modules and of tables."""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Iterable

from drjit import numpy as namespace

__all__ = ["namespace_stub"]

#: Modules with names of their own, and what the stub imports beside them.
_MODULES = ("_creation", "_keys", "_polynomials", "_products", "_reductions", "_searching", "_shapes", "_signal",
            "_statistics", "_types")
_HEAD = '''"""NumPy's functions, by their names and signatures, on the arrays of ``drjit.array_api``."""

from builtins import bool as _bool
from collections.abc import Sequence
from typing import Any

from drjit.array_api import DType
from ._public import Axis
from . import fft as fft, linalg as linalg, random as random
from ._ufuncs import ufunc as ufunc
'''


def _imports(module: str, names: Iterable[str]) -> str:
    text = ", ".join(f"{name} as {name}" for name in sorted(names))
    lines = textwrap.wrap(text, 114)
    return f"from {module} import (\n" + "".join(f"    {line}\n" for line in lines) + ")\n"


def _function(name: str) -> str:
    signature = inspect.signature(getattr(namespace, name))
    result = signature.return_annotation if isinstance(signature.return_annotation, str) else "Array"
    parameters = [parameter.replace(annotation=parameter.annotation if isinstance(parameter.annotation, str) else "Any",
                                    default=parameter.empty if parameter.default is parameter.empty else ...)
                  if parameter.name not in ("args", "kwargs") else parameter.replace(annotation="Any")
                  for parameter in signature.parameters.values()]
    written = str(signature.replace(parameters=parameters, return_annotation=inspect.Signature.empty))
    written = re.sub(r"\bbool\b", "_bool", written.replace("'", "").replace("Ellipsis", "..."))
    return f"def {name}{written} -> {result}: ...\n"


def namespace_stub() -> str:
    """The text of ``drjit/numpy/__init__.pyi``."""
    types = namespace._types
    tables = {**namespace._ufuncs.UFUNCS, **namespace._reductions.METHODS, **namespace._signal.WINDOWS, **types.ALIASES,
              **types.TEXTS, **types.FILES}
    own = {name for module in _MODULES for name in getattr(namespace, module).__all__ if not name.isupper()}
    known = {"ndarray", "euler_gamma", "fft", "linalg", "random", "ufunc", *tables, *own, *namespace._OF_NUMPY}
    found = [_HEAD, _imports("drjit.array_api", set(namespace.__all__) - known)]
    found += [_imports(f".{module}", [name for name in getattr(namespace, module).__all__ if not name.isupper() and
                                      name not in tables]) for module in _MODULES]
    found.append(_imports("numpy", {*namespace._OF_NUMPY, "euler_gamma"}))
    found.append("\nndarray = Array\n")
    found += [f"{name}: ufunc\n" for name in sorted(namespace._ufuncs.UFUNCS)]
    found += [f"{name}: DType\n" for name in sorted(types.ALIASES)]
    found += [_function(name) for name in sorted({**namespace._reductions.METHODS, **namespace._signal.WINDOWS})]
    found += [f"def {name}(*args: Any, **kwargs: Any) -> Any: ...\n" for name in sorted({**types.TEXTS, **types.FILES})]
    return "".join(found)
