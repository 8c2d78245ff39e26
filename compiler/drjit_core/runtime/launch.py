"""From a planned kernel to its launch, after which its outputs have values.

This is the one module that touches the assembled program, the kernel cache, the allocator and the queue together.  A
launch may need others before and after it, which are launched here as well (:mod:`.thread_tables`).
"""

from __future__ import annotations

import ctypes
import logging
import sys
import time
from typing import Any

from ..codegen.program import Program, assemble
from ..flags import DEBUG, KERNEL_HISTORY, LAUNCH_BLOCKING, PRINT_IR, state
from ..ir import build, numbering
from ..ir.node import Node
from ..llvm import reduction
from ..ops.table import EVALUATED, RESULT, SCATTER, UNDEFINED
from ..passes.schedule import Kernel
from ..types import TYPES, UINT8
from . import bounds, cache, call_tables, dump, explain, history, pool
from . import buffer as buffers
from .thread_tables import ThreadTables

__all__ = ["launch"]

_log = logging.getLogger("drjit")


def launch(kernel: Kernel) -> None:
    """Assemble, look up or compile, and submit one kernel; its outputs are evaluated afterwards."""
    flags = state.flags
    start = time.perf_counter_ns()
    for node in kernel.undefined:
        if node.kind == UNDEFINED:
            node.become_evaluated(buffers.allocate(node.size * TYPES[node.type].size))
    program = assemble(kernel, pool.host(), flags & DEBUG != 0)
    compiled, hit = cache.lookup(program)
    if compiled.prepare(program.width) and _log.isEnabledFor(logging.INFO):
        _log.info("jit_eval(): optimised kernel %s, build: %.4g ms.", compiled.hash[:16], compiled.build_time)
    outputs = _allocate_outputs(program, compiled.functions)
    tables = [_filled_tables(program, node) for node in program.scatters if node.id in program.tables]
    keep: list[Any] = _foreign(program)
    report = bounds.Report(program) if program.checks else None
    if report is not None:
        keep.append(report)
    call_tables.fill(program, compiled.native.addresses, keep)
    parameters = (ctypes.c_uint64 * len(program.parameters))(*program.parameters)
    submission = pool.Launch(compiled.functions, parameters, program.width, compiled.work, keep,
                         bool(flags & KERNEL_HISTORY), program.single)
    elapsed = (time.perf_counter_ns() - start) * 1e-6 - (0.0 if hit else compiled.build_time)
    if flags & PRINT_IR:
        sys.stdout.write(compiled.text)
    if _log.isEnabledFor(logging.INFO):
        _log_launch(program, compiled, hit, elapsed)
    if not hit:
        explain.remember(program, compiled.hash)
        dump.write(program, compiled)
    try:
        ticket = pool.submit(submission)
        _commit(program, outputs, tables, ticket)
    except BaseException:
        if submission.begun:  # it was interrupted (Ctrl-C) when the kernel had been submitted, and must not run twice
            _commit(program, outputs, tables, pool.submitted())
        raise
    if report is not None:
        bounds.expect(report, ticket)
    if flags & LAUNCH_BLOCKING:
        pool.wait()
    if flags & KERNEL_HISTORY:
        history.record(program, compiled, hit, submission, elapsed)


def _commit(program: Program, outputs: list[tuple[Node, buffers.Buffer]], tables: list[ThreadTables],
            ticket: int) -> None:
    """Note that a launch uses its buffers, and that its outputs have values; may be repeated.

    What the launch has written in place comes before the tables, whose merging needs a launch of its own: if that
    fails, their scatters are pending as before.
    """
    for node in program.inputs:
        node.payload.ticket = ticket
    for node, buffer in outputs:
        buffer.ticket = ticket
        numbering.forget(node)
        node.become_evaluated(buffer)
    _commit_scatters(program)
    for each in tables:
        if each.node.kind == SCATTER:
            result, merge = each.merge()
            launch(merge)
            each.node.become_evaluated(result.payload)
    if tables:
        _commit_scatters(program)


def _commit_scatters(program: Program) -> None:
    """The scatters whose targets have been written in place have values."""
    for node in program.scatters:
        if node.kind == SCATTER and node.id not in program.tables and node.d0.kind == EVALUATED:  # type: ignore[union-attr]
            node.become_evaluated(node.d0.payload)  # type: ignore[union-attr]
    for node in program.versions:
        if node.kind == RESULT:
            node.become_evaluated(node.d0.payload.origin(node.attr).payload)  # type: ignore[union-attr]


def _filled_tables(program: Program, node: Node) -> ThreadTables:
    """The tables of a scatter-reduction, which are filled and bound to the program."""
    tables = ThreadTables(node, program.host.threads)
    launch(tables.fill())
    tables.bind(program)
    return tables


def _foreign(program: Program) -> list[Any]:
    """Inputs that do not come from the allocator, and so must not die before the launch has run."""
    return [node.payload for node in program.inputs if node.payload.read_only]


def _allocate_outputs(program: Program, functions: pool.Functions) -> list[tuple[Node, buffers.Buffer]]:
    """Allocate what a kernel stores, and enter the addresses among its parameters."""
    outputs = []
    parameters, slots = program.parameters, program.slots
    for node in program.stores:
        buffer = buffers.allocate(node.size * TYPES[node.type].size)
        parameters[slots[node.id]] = buffer.address
        outputs.append((node, buffer))
    if program.reductions:
        stride = reduction.partial_stride(len(program.reductions))
        partials = buffers.allocate(stride * pool.blocks_of(functions, program.width))
        parameters[1] = partials.address
        for node in program.reductions:
            buffer = buffers.allocate(TYPES[node.type].size)
            parameters[slots[node.id]] = buffer.address
            outputs.append((node, buffer))
        scratch = build.undefined(UINT8, partials.nbytes)  # memory that only the kernel needs
        outputs.append((scratch, partials))
    return outputs


def _log_launch(program: Program, compiled: cache.CompiledKernel, hit: bool, elapsed: float) -> None:
    _log.info("  -> launching %s (n=%i, in=%i, out=%i, ops=%i, jit=%.4g us):", compiled.hash[:16], program.width,
              len(program.inputs), len(program.stores) + len(program.reductions) + len(program.scatters),
              compiled.operations, elapsed * 1e3)
    if hit:
        _log.info("     cache hit.")
    else:
        _log.info("     cache %s, build: %.4g ms, %i bytes.", "hit on disk" if compiled.from_disk else "miss",
                  compiled.build_time, compiled.native.size)
