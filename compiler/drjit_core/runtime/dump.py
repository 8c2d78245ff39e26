"""Files of kernels for people: ``DRJIT_DUMP_DIR=<folder>`` asks for them.

Each backend says what it writes, for each kernel that is compiled or loaded from disk.  Those that are found in memory
were written when they got there.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path

from ..codegen.listing import format_program
from ..codegen.program import Program

__all__ = ["is_wanted", "write", "write_listing"]

_log = logging.getLogger("drjit")
_warned: set[str] = set()


def is_wanted() -> bool:
    """Whether there is a folder for files."""
    return bool(os.environ.get("DRJIT_DUMP_DIR"))


def write(write_files: Callable[[Path], None]) -> None:
    """Let files be written to the folder, if there is one; a folder where that fails is told of once."""
    folder = os.environ.get("DRJIT_DUMP_DIR")
    if not folder:
        return
    try:
        path = Path(folder)
        path.mkdir(parents=True, exist_ok=True)
        write_files(path)
    except OSError as error:
        if folder not in _warned:
            _warned.add(folder)
            _log.warning("kernels cannot be dumped to DRJIT_DUMP_DIR=%s: %s", folder, error)


def write_listing(path: Path, name: str, program: Program) -> None:
    """Write the program of a kernel: parameters with their meaning, nodes with the user's source lines."""
    (path / f"{name}.txt").write_text(f"kernel {name}, {program.width} elements\n{format_program(program)}")
