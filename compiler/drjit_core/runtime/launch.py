"""Evaluation by kernels: what is wanted is planned, and each kernel assembled, compiled and launched.

Here alone planning, programs, kernels, memory and launches meet, whatever backend they are of.  A launch may need
others before and after it (:mod:`.thread_tables`).
"""

from __future__ import annotations

import logging
import sys
import time
from typing import Any

from ..codegen.program import Policy, Program, assemble
from ..flags import DEBUG, KERNEL_HISTORY, LAUNCH_BLOCKING, PRINT_IR, state
from ..ir import build, numbering
from ..ir.node import Node
from ..ops.table import EVALUATED, RESULT, SCATTER, UNDEFINED
from ..passes.schedule import Kernel, plan
from ..types import TYPES, UINT8
from . import bounds, explain, history
from .backend import KernelBackend, LoadedKernel, refuse_foreign
from .buffer import Buffer
from .thread_tables import ThreadTables

__all__ = ["evaluate_by_kernels"]

_log = logging.getLogger("drjit")


def evaluate_by_kernels(backend: KernelBackend, roots: list[Node]) -> None:
    """Plan the kernels that nodes need, and launch them in order."""
    policy = backend.policy()
    kernels = plan(roots)
    if _log.isEnabledFor(logging.INFO):
        _log.info("jit_eval(): launching %i kernel%s.", len(kernels), "" if len(kernels) == 1 else "s")
    for kernel in kernels:
        _launch(backend, policy, kernel)


def _launch(backend: KernelBackend, policy: Policy, kernel: Kernel) -> None:
    """Assemble, look up or compile, and submit one kernel; its outputs are evaluated afterwards."""
    flags = state.flags
    start = time.perf_counter_ns()
    for node in kernel.undefined:
        if node.kind == UNDEFINED:
            node.become_evaluated(backend.allocate(node.size * TYPES[node.type].size))
    program = assemble(kernel, policy, flags & DEBUG != 0)
    keep: list[Any] = []
    for node in program.inputs:
        buffer = node.payload
        if buffer.backend is not backend:
            refuse_foreign(backend, node)
        if buffer.read_only:  # it does not come from the allocator, and so must not die before the launch has run
            keep.append(buffer)
    compiled, hit = backend.compile(program)
    outputs = _allocate_outputs(backend, program, compiled)
    tables = [_filled_tables(backend, program, node) for node in program.scatters if node.id in program.tables]
    report = bounds.Report(backend, program) if program.checks or program.checked and program.calls else None
    if report is not None:
        keep.append(report)
    if program.calls:
        compiled.fill_calls(program, keep)
    launch = compiled.launch(program, keep, flags & KERNEL_HISTORY != 0)
    elapsed = (time.perf_counter_ns() - start) * 1e-6 - (0.0 if hit else compiled.build_time)
    if flags & PRINT_IR:
        sys.stdout.write(compiled.text)
    if _log.isEnabledFor(logging.INFO):
        _log_launch(program, compiled, hit, elapsed)
    if not hit:
        explain.remember(program, compiled.hash)
        compiled.dump(program)
    try:
        ticket = backend.submit(launch)
        _commit(backend, program, outputs, tables, ticket)
    except BaseException:
        if launch.begun:  # it was interrupted (Ctrl-C) when the kernel had been submitted, and must not run twice
            _commit(backend, program, outputs, tables, backend.submitted())
        raise
    if report is not None:
        bounds.expect(report, ticket)
    if flags & LAUNCH_BLOCKING:
        backend.wait()
    if flags & KERNEL_HISTORY:
        history.record(backend, program, compiled, hit, launch, elapsed)


def _commit(backend: KernelBackend, program: Program, outputs: list[tuple[Node, Buffer]], tables: list[ThreadTables],
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
            _launch(backend, program.policy, merge)
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


def _filled_tables(backend: KernelBackend, program: Program, node: Node) -> ThreadTables:
    """The tables of a scatter-reduction, which are filled and bound to the program."""
    tables = ThreadTables(node, program.policy.threads, backend.limits.packet)
    _launch(backend, program.policy, tables.fill())
    tables.bind(program)
    return tables


def _allocate_outputs(backend: KernelBackend, program: Program, compiled: LoadedKernel) -> list[tuple[Node, Buffer]]:
    """Allocate what a kernel stores, and enter the addresses among its parameters."""
    outputs = []
    parameters, slots = program.parameters, program.slots
    for node in program.stores:
        buffer = backend.allocate(node.size * TYPES[node.type].size)
        parameters[slots[node.id]] = buffer.address
        outputs.append((node, buffer))
    if program.reductions:
        partials = backend.allocate(compiled.partial_bytes(program))
        parameters[1] = partials.address
        for node in program.reductions:
            buffer = backend.allocate(TYPES[node.type].size)
            parameters[slots[node.id]] = buffer.address
            outputs.append((node, buffer))
        scratch = build.undefined(UINT8, partials.nbytes)  # memory that only the kernel needs
        outputs.append((scratch, partials))
    return outputs


def _log_launch(program: Program, compiled: LoadedKernel, hit: bool, elapsed: float) -> None:
    _log.info("  -> launching %s (n=%i, in=%i, out=%i, ops=%i, jit=%.4g us):", compiled.hash[:16], program.width,
              len(program.inputs), len(program.stores) + len(program.reductions) + len(program.scatters),
              compiled.operations, elapsed * 1e3)
    if hit:
        _log.info("     cache hit.")
    else:
        _log.info("     cache %s, build: %.4g ms, %i bytes.", "hit on disk" if compiled.from_disk else "miss",
                  compiled.build_time, compiled.size)
