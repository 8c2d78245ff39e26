"""What pyproject.toml cannot say: how the hot rooms are compiled, and what an editable installation is.

Rooms (see ``compiler/drjit_core/rooms.py``) are compiled by Cython where there is a C compiler. Without one, or with
``DRJIT_PURE=1`` in the environment, the package is the same and traces more slowly.

Nothing is compiled twice: what was made of a C file stays beside it in ``.cache/rooms``, with a key that says of what
and how. A wheel, an editable installation and ``build_ext --inplace`` take it from there, and a change compiles what
it changes the C code of.

An editable installation names its two folders in a path file. Setuptools would install a finder for packages in two
folders, which runs in the interpreter only: mypy, pyright and editors would not see the package from other projects.
They do read path files.
"""

from __future__ import annotations

import filecmp
import hashlib
import importlib.util
import os
import re
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
#: ``emit_code_comments``: with the text of the sources in it, C code would change with every comment.
DIRECTIVES = {"language_level": 3, "annotation_typing": False, "embedsignature": False, "auto_pickle": False,
              "nonecheck": True, "emit_code_comments": False}
#: What each operation, each launch and each region passes through: compiled with -O2.
HOT = ("drjit_core.context", "drjit_core.ir", "drjit_core.runtime", "drjit._base", "drjit._promotion", "drjit._arrays",
       "drjit._access", "drjit._functions.held", "drjit.array_api")
#: And what it does not.
SELDOM = ("drjit_core.ir.frames", "drjit_core.runtime.contents", "drjit_core.runtime.gpu",
          "drjit_core.runtime.recording")
#: No warnings about what Cython writes, which nobody can act on; no debug information, which takes a third of the time
#: and four fifths of the files.
ARGUMENTS = ["-w", "-g0"] if os.name == "posix" else []
#: -O2 takes a third longer.  With -O1 for all, operations are 5 to 20 % slower; with -O1 for what is not hot, loops,
#: branches and calls 1 to 2 %, and replays of frozen functions 1 %.
LEVELS = {True: ["-O2"], False: ["-O1"]} if os.name == "posix" else {True: [], False: []}
#: Names of files of Cython's own in C code, which messages show: a build in an environment of its own has others.
CYTHON_FILES = re.compile(rb'"(?!compiler/|drjit/)[^"\n]*/(\w+\.pxd")')
#: Bytes of sources of rooms that a core of 2024 translates and compiles in a second.
SPEED = 6500
#: How progress is shown: in a line that changes, or in some lines.
PROGRESS, LINE = ("\r  ", "") if sys.stderr.isatty() else ("  ", "\n")
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


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
    """The command that compiles the rooms: all, or none; those whose C code has changed, the longest first."""

    def finalize_options(self) -> None:
        super().finalize_options()
        self.parallel = self.parallel or CORES
        self.force = True  # keys tell what is outdated, and contents what has to be copied
        self.made = 0

    def run(self) -> None:
        self.extensions.sort(key=lambda extension: -Path(extension.sources[0]).stat().st_size)  # the stamp is the last
        self.outdated = sum(not self.is_made(extension) for extension in self.extensions)
        try:
            super().run()
        except Exception as error:  # no compiler, no headers of Python, a compiler that fails in one of a hundred ways
            sys.stderr.write(f"drjit: the tracer is not compiled, and runs as plain Python: {error}\n")
            for extension in self.extensions:
                for file in (self.get_ext_fullpath(extension.name), ROOT / self._beside_sources(extension.name)):
                    Path(file).unlink(missing_ok=True)
            self.extensions = []

    def build_extension(self, extension: Extension) -> None:
        """Compile a room, or take what was made of the same C code before."""
        built, made, key = Path(self.get_ext_fullpath(extension.name)), *self.kept(extension)
        if self.is_made(extension):
            built.parent.mkdir(parents=True, exist_ok=True)
            self.copy_file(str(made), str(built))
            return
        super().build_extension(extension)
        key.unlink(missing_ok=True)
        self.copy_file(str(built), str(made))
        key.write_text(self.key(extension))
        self.made += 1
        if self.outdated > 2 and (sys.stderr.isatty() or self.made % 10 == 0 or self.made == self.outdated):
            sys.stderr.write(f"{PROGRESS}{self.made} of {self.outdated} compiled{LINE}")

    def copy_file(self, infile: str, outfile: str, *args: Any, **options: Any) -> Any:
        """Copy a file unless the other one is the same: running programs may be reading that."""
        if Path(outfile).is_file() and filecmp.cmp(infile, outfile, shallow=False):
            return outfile, False
        return super().copy_file(infile, outfile, *args, **options)

    def kept(self, extension: Extension) -> tuple[Path, Path]:
        """The files that keep what was made of a room, and of what."""
        made = Path(extension.sources[0]).with_suffix(sysconfig.get_config_var("EXT_SUFFIX"))
        return made, made.with_name(f"{made.name}.key")

    def is_made(self, extension: Extension) -> bool:
        """Whether what is kept of a room is what the compiler would make."""
        made, key = self.kept(extension)
        return made.is_file() and key.is_file() and key.read_text() == self.key(extension)

    @staticmethod
    def key(extension: Extension) -> str:
        """What decides about the file that the compiler makes of a room."""
        settings = [sys.version, *extension.extra_compile_args,
                    *(str(sysconfig.get_config_var(name)) for name in ("EXT_SUFFIX", "CC", "CFLAGS", "LDSHARED")),
                    *(os.environ.get(name, "") for name in ("CC", "CFLAGS", "CPPFLAGS", "LDFLAGS", "LDSHARED"))]
        code = CYTHON_FILES.sub(rb'"\1', Path(extension.sources[0]).read_bytes())
        return hashlib.blake2b(repr(settings).encode() + code).hexdigest()

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
    found, changed = [], []
    for name in rooms.ROOMS:
        base = Path("compiler" if name.startswith("drjit_core.") else "", *name.split("."))
        source = next(file for suffix in (".pyx", ".py") if (file := base.with_suffix(suffix)).is_file())
        level = LEVELS[name.startswith(HOT) and not name.startswith(SELDOM)]
        found.append(Extension(name, [str(source)], extra_compile_args=ARGUMENTS + level))
        code = BUILD / base.with_suffix(".c")
        if outdated or not code.is_file() or code.stat().st_mtime < source.stat().st_mtime:
            changed.append(source.stat().st_size)
    if len(changed) > 2:
        sys.stderr.write(f"Compiling the tracer: {len(changed)} rooms, "
                         f"about {sum(changed) / SPEED / CORES:.0f} s on {CORES} cores\n")
        sys.stderr.flush()
    found.append(Extension("drjit_core._compiled", [str(stamp)], extra_compile_args=ARGUMENTS))
    modules: list[Extension] = cythonize(found, build_dir=str(BUILD), include_path=["compiler", "."], quiet=True,
                                         compiler_directives=DIRECTIVES, nthreads=CORES, force=outdated)
    settings.write_text(repr(DIRECTIVES))
    return modules


if __name__ == "__main__":
    setup(ext_modules=extensions(), cmdclass={"editable_wheel": EditableWheel, "build_ext": BuildRooms})
