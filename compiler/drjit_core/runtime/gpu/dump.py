"""What ``DRJIT_DUMP_DIR=<folder>`` gets of a kernel of a GPU.

================  =======================================================================================
``<hash>.txt``    the program: parameters with their meaning, nodes with the user's source lines (debug mode);
                  kernels of steps have none
``<hash>.ptx``    PTX, with a head of comments: registers, local and shared memory, as the driver tells them
``<hash>.cubin``  what the driver has assembled
``<hash>.sass``   the instructions of that, if ``nvdisasm`` (part of the CUDA toolkit) is found
================  =======================================================================================
"""

from __future__ import annotations

import logging
import shutil
import subprocess
from pathlib import Path
from typing import Any

from ...codegen.program import Program
from ...ptx.emit import COMBINE, KERNEL
from .. import dump

__all__ = ["write"]

_log = logging.getLogger("drjit")


def write(kernel: Any, program: Program | None) -> None:
    """Write the files of a :class:`~.kernels.GPUKernel` that is about to be launched, if that is asked for."""
    dump.write(lambda path: _write_files(path, kernel, program))


def _write_files(path: Path, kernel: Any, program: Program | None) -> None:
    name, driver = kernel.hash, kernel.backend.driver
    if program is not None:
        dump.write_listing(path, name, program)
    with kernel.backend.watching():
        facts = [(what, driver.facts_of(function)) for what, function in (
            (KERNEL, kernel.function), (COMBINE, kernel.combine)) if function is not None]
        code = driver.assemble(kernel.text)  # once more: kernels do not keep it
    (path / f"{name}.ptx").write_text("".join(
        f"// {what}: {of['registers']} registers, {of['local']} bytes of local memory, {of['shared']} of shared\n"
        for what, of in facts) + kernel.text)
    file = path / f"{name}.cubin"
    file.write_bytes(code)
    disassembler = shutil.which("nvdisasm")
    if disassembler is None:
        return
    done = subprocess.run([disassembler, "-c", file], capture_output=True, text=True)
    if done.returncode:
        _log.warning("nvdisasm cannot read %s: %s", file, done.stderr.strip())
    else:
        file.with_suffix(".sass").write_text(done.stdout)
