"""Evaluation by kernels: what is wanted is planned, and each kernel assembled, compiled and launched.

Here alone planning, programs, kernels, memory and launches meet, whatever backend they are of.
"""

from __future__ import annotations

import logging
import time
from array import array
from typing import Any

from ..codegen.program import Program, assemble
from ..codegen.records import layout_of
from ..codegen.target import Target
from ..flags import DEBUG, EXCEPTIONAL, KERNEL_HISTORY, LAUNCH_BLOCKING, PRINT_IR, state
from ..ir import build
from ..ir import node as nodes
from ..ir.node import Node
from ..ops.table import EVALUATED, RESULT, SCATTER, UNDEFINED
from ..passes.schedule import Kernel, plan
from ..types import UINT8
from . import bounds, explain, history
from .backend import KernelBackend, LoadedKernel, Tables, bring, memory_for
from .buffer import Buffer
from .stages import Listener, place_tables
from .steps import launch_step

__all__ = ["evaluate_by_kernels", "launch"]

_log = logging.getLogger("drjit")


def evaluate_by_kernels(backend: KernelBackend, roots: list[Node], listener: Listener | None = None) -> None:
    """Plan the kernels that nodes need, and launch them in order; a listener, by default the recording, notes them."""
    target = backend.target()
    recorder = state.recording if listener is None else None
    if recorder is not None:
        recorder.require(backend)
        listener = recorder
    shortly = recorder is not None and not state.flags & EXCEPTIONAL and not _log.isEnabledFor(logging.INFO)
    kernels = plan(roots, target)
    if _log.isEnabledFor(logging.INFO):
        _log.info("jit_eval(): launching %i kernel%s.", len(kernels), "" if len(kernels) == 1 else "s")
    kernels.reverse()
    while kernels:
        kernel = kernels.pop()  # what a kernel has stored must not live longer than what needs it
        if kernel.is_step:
            launch_step(backend, kernel, listener)
        elif not shortly or kernel.undefined or kernel.stack or not kernel.domain.is_flat or \
                not backend.recipes.launch_straight(kernel.outputs, kernel.width, recorder):
            launch(backend, target, kernel, listener)


def launch(backend: KernelBackend, target: Target, kernel: Kernel, listener: Listener | None = None) -> None:
    """Assemble, look up or compile, and submit one kernel; its outputs are evaluated afterwards."""
    flags = state.flags
    told = bool(flags & (PRINT_IR | KERNEL_HISTORY)) or _log.isEnabledFor(logging.INFO)
    start = time.perf_counter_ns() if told else 0
    for node in kernel.undefined:
        if node.kind == UNDEFINED:
            node.become_evaluated(memory_for(backend, node))
            if listener is not None:
                listener.allocated(node)
    program = assemble(kernel, target, flags & DEBUG != 0, listener is not None)
    foreign = [node for node in program.inputs if node.payload.backend is not backend]
    if foreign:
        for node in foreign:
            bring(backend, node)
        program = assemble(kernel, target, flags & DEBUG != 0, listener is not None)  # with their addresses
    keep: list[Any] = []
    for node in program.inputs:
        buffer = node.payload
        if buffer.read_only:  # it does not come from the allocator, and so must not die before the launch has run
            keep.append(buffer)
    compiled, hit = backend.compile(program)
    if listener is not None:
        listener.begin(program, compiled)
    outputs = _allocate_outputs(backend, program, compiled)
    tables: list[tuple[Node, Tables]] = []
    for node, memory, op in program.tabled:
        filled, slot = backend.fill_tables(target, memory, op), program.tables[node.id]
        tables.append((node, filled))
        program.parameters[slot:slot + 2] = filled.words
        program.inputs.append(filled.whole)
    accesses = bounds.accesses_of(program) if program.checked else None
    report = bounds.Report(backend, accesses) if accesses else None
    if report is not None:
        keep.append(report)
        report.bind(program)
    if program.calls:
        _place_calls(program, compiled, keep)
    shape = compiled.shape(compiled.course(program), program.units, program.unit)
    launched = compiled.launch(array("Q", program.parameters), shape, keep, flags & KERNEL_HISTORY != 0)
    if told:
        elapsed = (time.perf_counter_ns() - start) * 1e-6 - compiled.build_time
        outputs_count = len(program.stores) + len(program.reductions) + len(program.scatters)
        history.tell(compiled, hit, program.width, len(program.inputs), outputs_count, elapsed)
    if not hit:
        explain.remember(program, compiled.hash)
        compiled.dump(program)
    try:
        ticket = backend.submit(launched)
        if report is not None:
            bounds.expect(report, ticket)
        _commit(backend, program, outputs, tables, ticket)
    except BaseException:
        if launched.begun:  # it was interrupted (Ctrl-C) when the kernel had been submitted, and must not run twice
            if report is not None:
                bounds.expect(report, backend.submitted())
            _commit(backend, program, outputs, tables, backend.submitted())
        raise
    if listener is not None:
        listener.end()
    if flags & LAUNCH_BLOCKING:
        backend.wait()
    if flags & KERNEL_HISTORY:
        history.record(backend, compiled, hit, launched, program.width, len(program.inputs), outputs_count, elapsed)


def _place_calls(program: Program, compiled: LoadedKernel, keep: list[Any]) -> None:
    """Make the tables of calls, which become parameters."""
    layout = layout_of(program)
    words = array("Q", layout.words)
    place_tables(compiled, layout, words, keep)
    for site in program.calls.values():
        program.parameters[site.slot] = words[site.slot]


def _commit(backend: KernelBackend, program: Program, outputs: list[tuple[Node, Buffer]],
            tables: list[tuple[Node, Tables]], ticket: int) -> None:
    """Note that a launch uses its buffers, and that its outputs have values; may be repeated.

    What the launch has written in place comes before the tables, whose merging needs a launch of its own: if that
    fails, their scatters are pending as before.
    """
    for node in program.inputs:
        node.payload.ticket = ticket
    for node, buffer in outputs:
        buffer.ticket = ticket
        nodes.forget(node)
        node.become_evaluated(buffer)
    _commit_scatters(program)
    for node, filled in tables:
        if node.kind != EVALUATED:
            node.become_evaluated(backend.merge_tables(program.target, filled))
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


def _allocate_outputs(backend: KernelBackend, program: Program, compiled: LoadedKernel) -> list[tuple[Node, Buffer]]:
    """Allocate what a kernel stores, and enter the addresses among its parameters."""
    outputs = []
    parameters, slots = program.parameters, program.slots
    for node in program.stores:
        buffer = memory_for(backend, node)
        parameters[slots[node.id]] = buffer.address
        outputs.append((node, buffer))
    if program.partial_words:
        partials = backend.allocate(compiled.partial_bytes(program.units, program.unit))
        parameters[1] = partials.address
        for node in program.reductions:
            buffer = memory_for(backend, node)
            parameters[slots[node.id]] = buffer.address
            outputs.append((node, buffer))
        scratch = build.undefined(UINT8, partials.nbytes)  # memory that only the kernel needs
        outputs.append((scratch, partials))
    return outputs
