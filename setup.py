"""Compiles the hot rooms of the tracer where there is a C compiler; everything else is in ``pyproject.toml``.

Without a compiler, or with ``DRJIT_PURE=1`` in the environment, the package is the same and traces more slowly
(see ``compiler/drjit_core/rooms.py``).
"""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

ROOT = Path(__file__).parent
PURE = os.environ.get("DRJIT_PURE", "") not in ("", "0") or sys.implementation.name != "cpython"
OPTIONS = {"language_level": 3, "embedsignature": False, "binding": True, "annotation_typing": False}


def rooms_module():  # type: ignore[no-untyped-def]
    """The module that knows the rooms, without the package around it, which needs what is not yet installed."""
    spec = importlib.util.spec_from_file_location("_rooms", ROOT / "compiler" / "drjit_core" / "rooms.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class BuildRooms(build_ext):
    """All rooms are compiled, or none."""

    def run(self) -> None:
        try:
            super().run()
        except Exception as error:
            print(f"the tracer's rooms are not compiled, and run as plain Python: {error}", file=sys.stderr)
            for extension in self.extensions:
                for folder in ("", self.build_lib):
                    Path(folder, self.get_ext_fullpath(extension.name)).unlink(missing_ok=True)
            self.extensions = []


def extensions() -> list[Extension]:
    """The extension modules, of which the last one knows the sources of all."""
    if PURE:
        return []
    try:
        from Cython.Build import cythonize
    except ImportError:
        return []
    rooms = rooms_module()
    build = ROOT / "build" / "rooms"
    build.mkdir(parents=True, exist_ok=True)
    stamp = build / "_compiled.py"
    stamp.write_text(f"SOURCES = {rooms.digest()!r}\n")
    found = []
    for name in rooms.ROOMS:
        base = Path("compiler", *name.split("."))
        source = base.with_suffix(".pyx")
        found.append(Extension(name, [str(source if (ROOT / source).is_file() else base.with_suffix(".py"))]))
    found.append(Extension("drjit_core._compiled", [str(stamp.relative_to(ROOT))]))
    return cythonize(found, build_dir="build/rooms", include_path=["compiler"],  # type: ignore[no-any-return]
                     compiler_directives=OPTIONS, quiet=True)


setup(ext_modules=extensions(), cmdclass={"build_ext": BuildRooms})
