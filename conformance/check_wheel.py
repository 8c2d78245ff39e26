"""Build the wheels, look inside, install each alone in a fresh environment, and use it.

There are two: one with compiled rooms (see ``drjit_core/rooms.py``), for one platform, and a pure one for all others.

    python conformance/check_wheel.py [--inside-only]

Exits with 1 and a list of what is wrong.
"""

from __future__ import annotations

import argparse
import email
import fnmatch
import os
import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
import tomllib
import zipfile
from email.message import Message

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "compiler"))

from drjit_core import rooms  # noqa: E402

PACKAGES = {"drjit": ROOT / "drjit", "drjit_core": ROOT / "compiler" / "drjit_core"}
DEPENDENCIES = {"llvmlite", "numpy"}
#: What type checkers read.
STUBS = {f"drjit/{path}.pyi" for path in ("__init__", "scalar/__init__", "llvm/__init__", "llvm/ad", "cuda/__init__",
                                          "cuda/ad", "auto/__init__", "auto/ad",
                                          "numpy/__init__")}

# Runs in the fresh environment, away from the checkout.
PROBE = """
import importlib.metadata, pathlib, sys
import drjit, drjit_core
for package in drjit, drjit_core:
    assert pathlib.Path(package.__file__).is_relative_to(sys.prefix), package.__file__
installed = {d.metadata["Name"].lower() for d in importlib.metadata.distributions()} - {"pip", "setuptools", "wheel"}
assert installed == {"drjit-python", "llvmlite", "numpy"}, installed
assert drjit_core.rooms_report().startswith(sys.argv[1]), drjit_core.rooms_report()
"""


def build(folder: pathlib.Path, pure: bool) -> pathlib.Path:
    """Build a wheel of the checkout into a folder."""
    shutil.rmtree(ROOT / "build", ignore_errors=True)  # setuptools packs what earlier builds left there
    environment = {key: value for key, value in os.environ.items() if key != "DRJIT_PURE"}
    done = subprocess.run([sys.executable, "-m", "build", "--wheel", "--outdir", folder, ROOT], text=True,
                          env=environment | {"DRJIT_PURE": "1"} if pure else environment,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode:
        sys.exit(f"{done.stdout}\nThe wheel could not be built.")
    (wheel,) = folder.glob("*.whl")
    return wheel


def expected_files(pure: bool) -> set[str]:
    """Every module, stub and marker of the packages in the checkout, and the extension modules of the rooms."""
    found = {f"{name}/{path.relative_to(folder).as_posix()}" for name, folder in PACKAGES.items()
             for path in folder.rglob("*")
             if path.suffix in (".py", ".pyi", ".pxd", ".pyx", ".pxi") or path.name == "py.typed"}
    if not pure:
        suffix = sysconfig.get_config_var("EXT_SUFFIX")
        found |= {name.replace(".", "/") + suffix for name in (*rooms.ROOMS, "drjit_core._compiled")}
    return found


def message(archive: zipfile.ZipFile, name: str) -> Message:
    """A file of the ``dist-info`` folder that has the form of mail headers."""
    (path,) = (entry for entry in archive.namelist() if entry.endswith(f".dist-info/{name}"))
    return email.message_from_bytes(archive.read(path))


def problems(wheel: pathlib.Path, pure: bool) -> list[str]:
    """What is wrong with the contents of a wheel."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    found: list[str] = []
    version = "".join(map(str, sys.version_info[:2]))
    tags = "py3-none-any" if pure else f"cp{version}-cp{version}-*"
    if not fnmatch.fnmatch(wheel.name, f"drjit_python-{project['version']}-{tags}.whl"):
        found.append(f"the name says something else than {tags}, or another version: {wheel.name}")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        code = {name for name in names if ".dist-info/" not in name}
        expected = expected_files(pure)
        found += [f"missing: {name}" for name in sorted((expected | STUBS) - code)]
        found += [f"does not belong there: {name}" for name in sorted(code - expected)]
        found += [f"missing: {name}/py.typed" for name in PACKAGES if f"{name}/py.typed" not in names]
        if not any(re.search(r"\.dist-info/licenses/LICENSE$", name) for name in names):
            found.append("missing: LICENSE")
        if message(archive, "WHEEL")["Root-Is-Purelib"] != ("true" if pure else "false"):
            found.append("it should be pure Python" if pure else "it should not be pure Python")
        metadata = message(archive, "METADATA")
        for field, value in (("Name", "drjit-python"), ("License-Expression", "BSD-3-Clause"),
                             ("Requires-Python", ">=3.11")):
            if metadata[field] != value:
                found.append(f"metadata {field}: {metadata[field]!r} instead of {value!r}")
        runtime = {re.match(r"[\w.-]+", requirement)[0] for requirement in metadata.get_all("Requires-Dist", [])
                   if "extra ==" not in requirement}
        if runtime != DEPENDENCIES:
            found.append(f"runtime dependencies {sorted(runtime)} instead of {sorted(DEPENDENCIES)}")
    return found


def use(wheel: pathlib.Path, folder: pathlib.Path, pure: bool) -> None:
    """Install the wheel in a fresh environment and run it there."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    python = folder / "bin" / "python"
    quiet = ["--disable-pip-version-check", "--quiet", "--progress-bar", "off"]
    subprocess.run([python, "-m", "pip", "install", *quiet, wheel], check=True)
    subprocess.run([python, "-W", "error", "-c", PROBE, "plain" if pure else "compiled"], check=True, cwd=folder)
    subprocess.run([python, "-m", "drjit"], check=True, cwd=folder, stdout=subprocess.DEVNULL)


def main() -> int:
    """Check the wheel; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--inside-only", action="store_true", help="do not install it")
    options = parser.parse_args()
    start = time.perf_counter()
    failed = False
    for pure in (True, False):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            wheel = build(folder, pure)
            found = problems(wheel, pure)
            for problem in found:
                print(f"{wheel.name}: {problem}", file=sys.stderr)
            if not found and not options.inside_only:
                try:
                    use(wheel, folder / "environment", pure)
                except subprocess.CalledProcessError:  # the program has said why
                    found.append("does not work in an environment of its own")
                    print(f"{wheel.name}: {found[-1]}", file=sys.stderr)
            if not found:
                print(f"{wheel.name}: {wheel.stat().st_size // 1024} KiB, as it should be "
                      f"({time.perf_counter() - start:.0f} s)")
            failed |= bool(found)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
