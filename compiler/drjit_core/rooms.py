"""The hot rooms of the tracer, which come in two forms: compiled by Cython, or as they stand.

Both forms have the same text, and run the same tests; the compiled one traces several times as fast. All rooms are
compiled or none: modules of both kinds would not know each other's objects. This module decides when it is imported,
as the first of the package, and :func:`report` tells how it did. The compiled form is not used

* if it does not exist, because the package was installed without a C compiler;
* if it was made from other sources than those that are here (a checkout that has changed since), or is incomplete;
* where it cannot run: in subinterpreters, and on Python without the global lock;
* if the environment variable ``DRJIT_PURE`` is set to anything but 0.

A room is a module here and, beside its ``.py`` file, an extension module, which Python prefers; for the plain form a
finder leads past it. ``setup.py`` compiles the rooms, and a module with the hash of their sources,
``drjit_core._compiled``.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Sequence
from types import ModuleType

__all__ = ["ROOMS", "compiled", "digest", "report", "sources"]

#: The modules that are compiled, in the order of their imports.
ROOMS = (
    "drjit_core.context",
    "drjit_core.ops.derivatives",
    "drjit_core.ir.node",
    "drjit_core.ir.region",
    "drjit_core.ir.frames",
    "drjit_core.ir.symbolic",
    "drjit_core.ir.build",
    "drjit_core.ir.number",
    "drjit_core.ir.fold",
    "drjit_core.ir.simplify",
    "drjit_core.ir.vertex",
    "drjit_core.ir.dual",
    "drjit_core.ir.trace",
    "drjit_core.ir.structured",
    "drjit_core.ir.steps",
    "drjit_core.derivatives.formulas",
    "drjit_core.derivatives.flow",
    "drjit_core.derivatives.traversal",
    "drjit_core.control.inline",
    "drjit_core.control.source",
    "drjit_core.control.demand",
    "drjit_core.control.construct",
    "drjit_core.control.loop",
    "drjit_core.control.choice",
    "drjit_core.control.extend",
    "drjit_core.control.once",
    "drjit_core.derivatives.tape",
    "drjit_core.derivatives.of_loops",
    "drjit_core.derivatives.of_choices",
    "drjit_core.passes.positions",
    "drjit_core.passes.trips",
    "drjit_core.passes.order",
    "drjit_core.codegen.records",
    "drjit_core.runtime.elements",
    "drjit_core.runtime.heap",
    "drjit_core.runtime.buffer",
    "drjit_core.runtime.walk",
    "drjit_core.runtime.native",
    "drjit_core.runtime.recipes",
    "drjit_core.runtime.cpu.native",
    "drjit_core.runtime.gpu.native",
    "drjit_core.runtime.evaluation",
    "drjit_core.runtime.contents",
    "drjit_core.runtime.recording",
    "drjit._base.handle",
    "drjit._base.methods",
    "drjit._base.nodes",
    "drjit._promotion.promote",
    "drjit._promotion.componentwise",
    "drjit._rules.matrix",
    "drjit._access.direct",
    "drjit._access.lanes",
    "drjit._access.store",
    "drjit._access.keys",
    "drjit._access.slicing",
    "drjit._access.basic",
    "drjit._access.elements",
    "drjit._trees.kinds",
    "drjit._trees.contents",
    "drjit._trees.pytree",
    "drjit._functions.structure",
    "drjit._functions.tensor_reductions",
    "drjit._texture.grid",
    "drjit._texture.lookups",
    "drjit._control.state",
    "drjit._control.closed",
    "drjit._control.snapshot",
    "drjit._control.fields",
    "drjit._control.given",
    "drjit._control.called",
    "drjit._control.refilling",
    "drjit._control.aliases",
    "drjit._control.places",
    "drjit._control.entries",
    "drjit._control.outside",
    "drjit._control.attempts",
    "drjit._control.results",
    "drjit._control.effects",
    "drjit._control.choice",
    "drjit._control.iteration",
    "drjit._control.conditional",
    "drjit._control.sides",
    "drjit._control.evaluated",
    "drjit._control.invocation",
    "drjit._control.repetition",
    "drjit._arrays.bases",
    "drjit._arrays.broadcasting",
    "drjit._random.tracing",
    "drjit._freeze.inputs",
    "drjit._freeze.plan",
    "drjit._freeze.outcome",
    "drjit._freeze.frozen",
    "drjit.opt.steps",
    "drjit._functions.held",
    "drjit.array_api._dtypes",
    "drjit.array_api._evaluation",
    "drjit.array_api._data",
    "drjit.array_api._operators",
    "drjit.array_api._small",
)

_PACKAGES = {room.partition(".")[0] for room in ROOMS}

#: Whether the compiled form runs.
compiled = False
_reason = ""


class _PlainFinder:
    """Finds the sources of modules, whatever extension modules lie beside them: also of what was a room once."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None,
                  target: ModuleType | None = None) -> importlib.machinery.ModuleSpec | None:
        if path is None or name.partition(".")[0] not in _PACKAGES:
            return None
        for folder in path:
            file = os.path.join(folder, f"{name.rpartition('.')[2]}.py")
            if os.path.isfile(file):
                return importlib.util.spec_from_file_location(name, file)
        return None


def _choose() -> None:
    """Decide which form of the rooms is imported from now on."""
    global compiled, _reason
    _reason = _obstacle()
    compiled = not _reason
    if not compiled and not any(finder is _PlainFinder for finder in sys.meta_path):
        sys.meta_path.insert(0, _PlainFinder)


def _obstacle() -> str:
    """Why the compiled form cannot be used; empty if it can."""
    if os.environ.get("DRJIT_PURE", "") not in ("", "0"):
        return "the environment variable DRJIT_PURE is set"
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        return "this Python runs without the global lock"
    try:
        stamp = importlib.import_module("drjit_core._compiled")
    except ModuleNotFoundError:
        return "they have not been compiled (see README.md)"
    except ImportError as error:
        return f"the compiled ones cannot run here ({error})"
    if digest() != stamp.SOURCES:
        return "their sources have changed since they were compiled"
    name = os.path.basename(stamp.__file__ or "")  # without folders, which have dots: lib/python3.11/site-packages
    suffix = name.removeprefix("_compiled")
    missing = [room for room in ROOMS if not os.path.isfile(_file_of(room, suffix))]
    return f"the compiled {missing[0]} is missing" if missing else ""


#: The folders of the compiler and of the package ``drjit``, in a checkout or an installation.  (Paths as strings: the
#: objects of ``pathlib`` take several times as long, in each import.)
_COMPILER = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_PUBLIC = _COMPILER if os.path.isdir(os.path.join(_COMPILER, "drjit")) else os.path.dirname(_COMPILER)


def _file_of(room: str, suffix: str) -> str:
    """The file of a room with a suffix."""
    return os.path.join(_COMPILER if room.startswith("drjit_core.") else _PUBLIC, room.replace(".", os.sep) + suffix)


def sources() -> list[str]:
    """The files that the compiled form is made from."""
    files = [_file_of(room, suffix) for room in ROOMS for suffix in (".py", ".pxd", ".pyx", ".pxi")]
    return [file for file in files if os.path.isfile(file)]


def digest() -> str:
    """A hash of the sources of all rooms."""
    found = hashlib.blake2b(digest_size=16)
    for file in sources():
        with open(file, "rb", buffering=0) as source:
            found.update(source.read())
    return found.hexdigest()


def report() -> str:
    """Which form runs, and why, in words."""
    return f"compiled, {len(ROOMS)} modules" if compiled else f"plain Python: {_reason}"


if __package__:  # setup.py runs this module outside of its package
    _choose()
