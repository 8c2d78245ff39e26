"""Write the type stubs of the package: ``drjit/**/*.pyi``.

    python -m conformance.stubs [--check]

They follow from the records of the array types, from the op table, and from the signatures and docstrings of public
functions: a new type, operation or function needs no line here. With ``--check``, nothing is written, and the exit
status is 1 if a stub in the tree is not what would be written.
"""

from __future__ import annotations

import argparse
import pathlib
import sys

from .functions import function_stubs
from .namespace import namespace_stub
from .packages import auto_stub, package_stub
from .records import PACKAGES

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "drjit"


def stubs() -> dict[pathlib.Path, str]:
    """The text of each stub by its path below ``drjit/``."""
    found = {pathlib.Path("__init__.pyi"): function_stubs(), pathlib.Path("numpy/__init__.pyi"): namespace_stub()}
    for package in PACKAGES:
        path = package.replace(".ad", "/ad.pyi") if package.endswith(".ad") else f"{package}/__init__.pyi"
        found[pathlib.Path(path)] = package_stub(package)
    for diff, path in ((False, "auto/__init__.pyi"), (True, "auto/ad.pyi")):
        found[pathlib.Path(path)] = auto_stub(diff)
    return found


def outdated(folder: pathlib.Path) -> list[pathlib.Path]:
    """The stubs in a folder that are missing or not as they would be written."""
    return [path for path, text in stubs().items()
            if not (folder / path).exists() or (folder / path).read_text(encoding="utf-8") != text]


def main() -> int:
    """Write or check; the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing")
    options = parser.parse_args()
    if options.check:
        found = outdated(FOLDER)
        for path in found:
            print(f"drjit/{path} is out of date: make stubs", file=sys.stderr)
        return int(bool(found))
    for path, text in stubs().items():
        (FOLDER / path).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
