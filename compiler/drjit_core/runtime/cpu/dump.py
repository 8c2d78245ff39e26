"""What ``DRJIT_DUMP_DIR=<folder>`` gets of a kernel of the CPU.

==============  =========================================================================================
``<hash>.txt``  the program: parameters with their meaning, nodes with the user's source lines (debug mode)
``<hash>.ll``   LLVM text
``<hash>.s``    assembly
``<hash>.py``   a script that runs the kernel alone, on synthetic data, and prints how long it takes;
                there is none for kernels with calls, whose tables hold addresses of this process, and of
                kernels of steps there is nothing but text and assembly
``<hash>.*.bin``  inputs of the script that decide which memory is touched, and how often loops run
==============  =========================================================================================
"""

from __future__ import annotations

import ctypes
from pathlib import Path

from ...codegen.program import REPORT_WORDS, Program
from ...codegen.signature import Role, Slot, slots_of
from ...ir.node import Node
from ...ir.region import arguments_of, operands
from ...llvm import emit, jit
from ...ops.table import EVALUATED, IS_INDEXED, LOOP, PHI, SCATTER
from ...types import TYPES
from .. import dump
from ..backend import LoadedKernel
from ..memory import PADDING
from . import launches, pool

__all__ = ["write", "write_text"]

#: Inputs of more bytes are not recorded.
_RECORD_LIMIT = 1 << 26


def write(program: Program, compiled: LoadedKernel, functions: launches.Functions) -> None:
    """Write the files of a kernel that is about to be launched, if that is asked for."""
    def write_files(path: Path) -> None:
        name = compiled.hash
        _write_code(path, compiled)
        dump.write_listing(path, name, program)
        if program.calls:
            return
        recorded = _record(program, path, name)
        (path / f"{name}.py").write_text(_script(program, compiled, functions, recorded))

    dump.write(write_files)


def _write_code(path: Path, compiled: LoadedKernel) -> None:
    (path / f"{compiled.hash}.ll").write_text(compiled.text)
    (path / f"{compiled.hash}.s").write_text(jit.assembly(compiled.text))


def write_text(compiled: LoadedKernel) -> None:
    """Write the text and assembly of a kernel of a step, if that is asked for."""
    dump.write(lambda path: _write_code(path, compiled))


# --- recorded inputs -------------------------------------------------------------------------------------------------


def _deciding(program: Program) -> set[int]:
    """Ids of the inputs that indices, masks of accesses and loops depend on: made-up values would fault or not end."""
    stack: list[Node] = []
    for node in (*program.order, *program.scatters):
        if node.kind == SCATTER:
            stack += (node.d2, node.d3)  # type: ignore[arg-type]
        elif IS_INDEXED[node.kind]:
            stack += arguments_of(node)
        elif node.kind == LOOP:
            stack += (node.payload.condition, *node.payload.initial, *node.payload.finals)
    seen: set[int] = set()
    found: set[int] = set()
    while stack:
        node = stack.pop()
        if node.id in seen:
            continue
        seen.add(node.id)
        if node.kind == EVALUATED:
            found.add(node.id)
        elif node.kind != PHI:
            stack.extend(operands(node))
    return found


def _record(program: Program, path: Path, name: str) -> dict[int, str]:
    """Write the inputs that the script cannot make up; names of their files by node id."""
    recorded: dict[int, str] = {}
    deciding = _deciding(program)
    for slot, (role, type_, size, node) in enumerate(slots_of(program)):
        if role in (Role.INPUT, Role.MEMORY) and node is not None and node.id in deciding and node.id not in recorded:
            nbytes = size * TYPES[type_].size
            if nbytes <= _RECORD_LIMIT:
                pool.wait(node.payload.ticket)
                recorded[node.id] = f"{name}.{slot}.bin"
                (path / recorded[node.id]).write_bytes(ctypes.string_at(node.payload.address, nbytes))
    return recorded


# --- the script ------------------------------------------------------------------------------------------------------


def _script(program: Program, compiled: LoadedKernel, functions: launches.Functions, recorded: dict[int, str]) -> str:
    width, unit = program.units, program.unit
    blocks, size = (1, width) if launches.course_of(program).single else (
        launches.blocks_of(functions, width, unit), functions.size(width, unit))
    exports = emit.exports(program)
    rows = []
    for slot, parameter in enumerate(slots_of(program)):
        row = _memory(program, compiled, slot, parameter, recorded) or (str(parameter.role), program.parameters[slot])
        rows.append(f"    {row},\n")
    return _TEMPLATE.format(hash=compiled.hash, rows="".join(rows), width=width, blocks=blocks, size=size,
                            exports=exports, padding=PADDING)


def _memory(program: Program, compiled: LoadedKernel, slot: int, parameter: Slot, recorded: dict[int, str],
            ) -> tuple[str, int, str | None, int | None] | None:
    """For a parameter that is an address: role, bytes, what fills them, and the array that they belong to."""
    role, type_, size, node = parameter
    if role is Role.PARTIALS:
        return str(role), compiled.partial_bytes(program.units, program.unit), None, None
    if role is Role.REPORT:
        return str(role), 8 * REPORT_WORDS * size, None, None
    if role is Role.TABLES:
        return str(role), program.parameters[slot + 1], None, None  # of one thread
    if role not in (Role.INPUT, Role.OUTPUT, Role.MEMORY):
        return None
    info = TYPES[type_]
    fill, array = None, None
    if role is not Role.OUTPUT:
        assert node is not None
        fill = recorded.get(node.id) or (f"random {info.code}" if info.is_float and info.code else None)
        array = min(s for s, other in enumerate(program.parameters) if s > 1 and other == program.parameters[slot])
    return str(role), size * info.size, fill, array


_TEMPLATE = '''"""Runs kernel {hash} alone, on one thread, and prints how long it takes.

    python {hash}.py [repetitions]

It needs the package that wrote it, and the .ll file beside it, which may be edited.  Inputs are random in [0.5, 1) if
they are floating-point numbers, else zero; those that indices and loops depend on are in .bin files, unless too large.
A run of more than two minutes is ended: perhaps a loop does not end on made-up data.
"""

import ctypes
import faulthandler
import pathlib
import random
import struct
import sys
import time

from drjit_core.llvm import jit

HERE = pathlib.Path(__file__).parent
WIDTH, BLOCKS, BLOCK_SIZE, PADDING = {width}, {blocks}, {size}, {padding}
# role and value; for memory: role, bytes, what fills them, and the array (parameters may share one)
PARAMETERS = [
{rows}]


def allocate(nbytes, fill):
    """Zeros, random numbers, or the contents of a file, aligned to cache lines."""
    memory = ctypes.create_string_buffer(nbytes + PADDING + 64)
    address = ctypes.addressof(memory) + 63 & -64
    if fill is not None and fill.startswith("random "):
        code = fill[-1]
        numbers = random.Random(0)
        data = struct.pack(f"<1024{{code}}", *(numbers.uniform(0.5, 1) for _ in range(1024)))
        data = (data * (nbytes // len(data) + 1))[:nbytes]
        ctypes.memmove(address, data, nbytes)
    elif fill is not None:
        ctypes.memmove(address, (HERE / fill).read_bytes(), nbytes)
    return memory, address


def main():
    repetitions = int(sys.argv[1]) if len(sys.argv) > 1 else 10
    faulthandler.dump_traceback_later(120, exit=True)
    code = jit.compile_text((HERE / "{hash}.ll").read_text())
    native = jit.link(code, {exports})
    kernel = ctypes.CFUNCTYPE(None, ctypes.c_void_p, *[ctypes.c_int64] * 5, ctypes.c_int32)(native.addresses["kernel"])
    combine = native.addresses.get("combine")
    combine = combine and ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(combine)
    words, shared, kept = [], {{}}, []
    for _role, number, *memory in PARAMETERS:
        if memory:
            fill, array = memory
            memory, number = shared.get(array) or allocate(number, fill)
            kept.append(memory)
            if array is not None:
                shared[array] = memory, number
        words.append(number)
    parameters = (ctypes.c_uint64 * len(words))(*words)
    address = ctypes.addressof(parameters)
    times = []
    for _ in range(repetitions):
        start = time.perf_counter()
        for block in range(BLOCKS):
            kernel(address, 0, 1, block * BLOCK_SIZE, min(WIDTH, (block + 1) * BLOCK_SIZE), block, 0)
        if combine:
            combine(address, BLOCKS)
        times.append(time.perf_counter() - start)
    times.sort()
    print(f"kernel {hash}: {{WIDTH}} elements, {{repetitions}} runs: best {{times[0] * 1e3:.4f}} ms, "
          f"median {{times[len(times) // 2] * 1e3:.4f}} ms")
    faulthandler.cancel_dump_traceback_later()


main()
'''
