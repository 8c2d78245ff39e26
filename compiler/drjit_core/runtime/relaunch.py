"""Launching stages again, with all that is told, checked and booked meanwhile: see :mod:`.stages`."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any

from ..codegen.records import literal_bits
from ..codegen.target import Target
from ..flags import KERNEL_HISTORY, LAUNCH_BLOCKING, state
from ..ir.node import Node
from ..ops.table import LITERAL, UNDEFINED
from . import bounds, history, steps
from .backend import KernelBackend, LoadedKernel, memory_for
from .buffer import Buffer
from .stages import Stage, place_tables

__all__ = ["run"]


def run(backend: KernelBackend, stages: Sequence[Stage], nodes: list[Any], sizes: Sequence[int]) -> None:
    """Launch stages for nodes, by their places, and sizes, by their numbers.  The caller holds the lock."""
    target = backend.target()
    for stage in stages:
        for place in stage.undefined:
            node: Node = nodes[place]
            if node.kind == UNDEFINED:
                node.become_evaluated(memory_for(backend, node))
        if stage.step is not None:
            _run_step(backend, stage, nodes)
        elif stage.kernel is not None:
            _run_kernel(backend, target, stage, stage.kernel, nodes, sizes)
        for place in stage.releases:
            nodes[place] = None


def _run_step(backend: KernelBackend, stage: Stage, nodes: list[Any]) -> None:
    """Run a step."""
    assert stage.step is not None
    results = {position: steps.Stored(nodes[place].type, nodes[place].size, memory_for(backend, nodes[place]))
               for position, place in zip(stage.positions, stage.outputs, strict=True)}
    operands = [nodes[place] for place in stage.operands]
    steps.run(backend, stage.step, [steps.Stored(node.type, node.size, node.payload) for node in operands], results)
    for position, place in zip(stage.positions, stage.outputs, strict=True):
        nodes[place].become_evaluated(results[position].buffer)


def _run_kernel(backend: KernelBackend, target: Target, stage: Stage, kernel: LoadedKernel, nodes: list[Any],
                sizes: Sequence[int]) -> None:
    """Launch a kernel."""
    flags, keep = state.flags, list[Any]()
    units = stage.units if stage.width < 0 else sizes[stage.width]
    width = units * stage.unit
    tables = [backend.fill_tables(target, nodes[each.target], each.op) for each in stage.tables]
    kernel.reuse(width)
    words, used = array("Q", stage.words), list[Buffer]()
    if stage.width >= 0:
        for first in stage.firsts:
            words[first] = units
    for number, place in enumerate(stage.places):
        if place < 0:
            continue
        node = nodes[place]
        if node.kind == LITERAL:
            words[number] = literal_bits(node.type, node.payload)
        else:
            used.append(node.payload)
            words[number] = node.payload.address
    keep += [buffer for buffer in used if buffer.read_only]  # not from the allocator
    outputs = [(nodes[place], memory_for(backend, nodes[place])) for place in stage.outputs]
    for slot, (_, buffer) in zip(stage.slots, outputs, strict=True):
        words[slot] = buffer.address
        used.append(buffer)
    if kernel.partial_words:
        partials = backend.allocate(kernel.partial_bytes(units, stage.unit))
        words[1] = partials.address
        used.append(partials)
    for each, filled in zip(stage.tables, tables, strict=True):
        words[each.slot], words[each.slot + 1] = filled.words
        used.append(filled.whole.payload)
    report: bounds.Report | None = None
    if stage.accesses:
        report = bounds.Report(backend, [access._replace(size=sizes[number]) if number >= 0 else access
                                         for access, number in zip(stage.accesses, stage.limits, strict=True)])
        for number, address in zip([slot for slot, _ in stage.reports], report.parts(stage.reports), strict=True):
            words[number] = address
        keep.append(report)
    place_tables(kernel, stage, words, keep)
    launched = kernel.launch(words[:stage.count], kernel.shape(stage.course, units, stage.unit), keep,
                             flags & KERNEL_HISTORY != 0)
    history.tell(kernel, True, width, *stage.arrays, 0.0)
    try:
        _commit(outputs, used, report, backend.submit(launched))
    except BaseException:
        if launched.begun:  # it was interrupted (Ctrl-C) when the kernel had been submitted, which uses this memory
            _commit(outputs, used, report, backend.submitted())
        raise
    for each, filled in zip(stage.tables, tables, strict=True):
        nodes[each.result].become_evaluated(backend.merge_tables(target, filled))
    if flags & LAUNCH_BLOCKING:
        backend.wait()
    if flags & KERNEL_HISTORY:
        history.record(backend, kernel, True, launched, width, *stage.arrays, 0.0)


def _commit(outputs: Sequence[tuple[Node, Buffer]], used: Sequence[Buffer], report: bounds.Report | None,
            ticket: int) -> None:
    """Note that a launch uses some buffers, and may report something, and that its outputs have values; may be
    repeated."""
    if report is not None:
        bounds.expect(report, ticket)
    for buffer in used:
        buffer.ticket = ticket
    for node, buffer in outputs:
        node.become_evaluated(buffer)
