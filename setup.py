"""What pyproject.toml cannot say: how the hot rooms are compiled, and what an editable installation is.

Rooms (see ``compiler/drjit_core/rooms.py``) are compiled by Cython where there is a C compiler. Without one, or with
``DRJIT_PURE=1`` in the environment, the package is the same and traces more slowly.

An editable installation names its two folders in a path file. Setuptools would install a finder for packages in two
folders, which runs in the interpreter only: mypy, pyright and editors would not see the package from other projects.
They do read path files.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.editable_wheel import editable_wheel

ROOT = Path(__file__).resolve().parent
FOLDERS = (ROOT, ROOT / "compiler")
#: Where C files and the stamp of the sources are written.
BUILD = Path(".cache", "rooms")
#: ``nonecheck``: programs make arrays without contents, by an ``__init__`` that does not call that of the base class.
DIRECTIVES = {"language_level": 3, "annotation_typing": False, "embedsignature": False, "auto_pickle": False,
              "nonecheck": True}
#: Warnings of C compilers about what Cython writes; nobody can act on them.
ARGUMENTS = ["-O2", "-w"] if os.name == "posix" else []


class PathFile:
    """Setuptools' protocol of a way to install a project so that changes of it are seen at once."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, wheel: Any, files: list[str], mapping: Mapping[str, str]) -> None:
        wheel.writestr(f"__editable__.{self.name}.pth", "".join(f"{folder}\n" for folder in FOLDERS))

    def __enter__(self) -> PathFile:
        return self

    def __exit__(self, *args: object) -> None:
        """Nothing was changed that would have to be put back."""


class EditableWheel(editable_wheel):
    """The command that makes the wheel of an editable installation."""

    def _select_strategy(self, name: str, tag: str, build_lib: Any) -> Any:
        return PathFile(name)


class BuildRooms(build_ext):
    """The command that compiles the rooms: all, or none."""

    def finalize_options(self) -> None:
        super().finalize_options()
        self.parallel = self.parallel or os.cpu_count()

    def run(self) -> None:
        try:
            super().run()
        except Exception as error:  # no compiler, no headers of Python, a compiler that fails in one of a hundred ways
            sys.stderr.write(f"drjit: the tracer is not compiled, and runs as plain Python: {error}\n")
            for extension in self.extensions:
                for file in (self.get_ext_fullpath(extension.name), ROOT / self._beside_sources(extension.name)):
                    Path(file).unlink(missing_ok=True)
            self.extensions = []

    def _beside_sources(self, name: str) -> Path:
        return Path("compiler" if name.startswith("drjit_core.") else "", self.get_ext_filename(name))


def extensions() -> list[Extension]:
    """The extension modules, the last of which knows the sources of all."""
    if os.environ.get("DRJIT_PURE", "") not in ("", "0") or sys.implementation.name != "cpython":
        return []
    from Cython.Build import cythonize

    spec = importlib.util.spec_from_file_location("rooms", ROOT / "compiler" / "drjit_core" / "rooms.py")
    assert spec is not None and spec.loader is not None
    rooms = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(rooms)
    os.chdir(ROOT)
    BUILD.mkdir(parents=True, exist_ok=True)
    stamp = BUILD / "_compiled.py"
    text = f'"""Written by setup.py."""\n\nSOURCES = {rooms.digest()!r}\n'
    if not stamp.is_file() or stamp.read_text() != text:
        stamp.write_text(text)
    for folder in (ROOT / "compiler" / "drjit_core", ROOT / "drjit"):  # what was compiled of modules that are no rooms
        for file in folder.rglob(f"*{sysconfig.get_config_var('EXT_SUFFIX')}"):
            name = ".".join(file.relative_to(folder.parent).with_name(file.name.partition(".")[0]).parts)
            if name not in rooms.ROOMS and name != "drjit_core._compiled":
                file.unlink()
    settings = BUILD / "directives"  # cythonize does not notice when these change
    outdated = not settings.is_file() or settings.read_text() != repr(DIRECTIVES)
    found = []
    for name in rooms.ROOMS:
        base = Path("compiler" if name.startswith("drjit_core.") else "", *name.split("."))
        source = next(file for suffix in (".pyx", ".py") if (file := base.with_suffix(suffix)).is_file())
        found.append(Extension(name, [str(source)], extra_compile_args=ARGUMENTS))
    found.append(Extension("drjit_core._compiled", [str(stamp)], extra_compile_args=ARGUMENTS))
    modules: list[Extension] = cythonize(found, build_dir=str(BUILD), include_path=["compiler", "."], quiet=True,
                                         compiler_directives=DIRECTIVES, nthreads=os.cpu_count() or 1,
                                         force=outdated)
    settings.write_text(repr(DIRECTIVES))
    return modules


if __name__ == "__main__":
    setup(ext_modules=extensions(), cmdclass={"editable_wheel": EditableWheel, "build_ext": BuildRooms})
