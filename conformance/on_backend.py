"""Run a program with the types of another backend in the place of LLVM's: ``on_backend.py cuda PROGRAM``."""

from __future__ import annotations

import importlib
import runpy
import sys
from pathlib import Path

import drjit


def main() -> None:
    """Put the packages in place, and run the program."""
    backend, program, *arguments = sys.argv[1:]
    for end in ("", ".ad"):
        sys.modules[f"drjit.llvm{end}"] = importlib.import_module(f"drjit.{backend}{end}")
    drjit.llvm = sys.modules["drjit.llvm"]
    sys.argv, sys.path[0] = [program, *arguments], str(Path(program).parent)
    runpy.run_path(program, run_name="__main__")


if __name__ == "__main__":
    main()
