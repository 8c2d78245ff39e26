"""Running steps: what the backend makes of one is launched, in order, with memory of its own in between."""

from __future__ import annotations

import logging
import time
from array import array
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ..codegen.steps import Array, Call, Pass, Text
from ..codegen.target import Target
from ..flags import KERNEL_HISTORY, LAUNCH_BLOCKING, PRINT_IR, state
from ..ir import node as nodes
from ..ir.node import Node
from ..ir.region import memory_of
from ..ops.steps import STEPS, Step
from ..ops.table import UNDEFINED
from ..passes.schedule import Kernel
from . import history
from .backend import KernelBackend, LoadedKernel, bring, memory_for
from .buffer import Buffer
from .stages import Listener

__all__ = ["Stored", "launch_step", "placed_passes", "run", "texts_of"]

_log = logging.getLogger("drjit")


class Stored(NamedTuple):
    """An array of a step, in memory."""

    type: int
    size: int
    buffer: Buffer

    @property
    def array(self) -> Array:
        """What the backend gets to know of it."""
        return Array(self.type, self.size, self.buffer.address)


def launch_step(backend: KernelBackend, kernel: Kernel, listener: Listener | None = None) -> None:
    """Launch a planned step; its results are evaluated afterwards."""
    results = kernel.outputs
    for node in kernel.undefined:
        if node.kind == UNDEFINED:
            node.become_evaluated(memory_for(backend, node))
            if listener is not None:
                listener.allocated(node)
    operands = memory_of(results[0])
    for node in operands:
        if node.payload.backend is not backend:
            bring(backend, node)
    step: Step = results[0].payload
    if listener is not None:
        listener.begin_step(step, operands, results)
    found = {node.attr: Stored(node.type, node.size, memory_for(backend, node))
             for node in results}
    run(backend, step, [Stored(node.type, node.size, node.payload) for node in operands], found)
    for node in results:
        buffer = found[node.attr].buffer
        nodes.forget(node)
        node.become_evaluated(buffer)
    if listener is not None:
        listener.end_step(results)


#: Parameters are words of 64 bits, of which negative numbers take the upper half.
_WORD = (1 << 64) - 1
#: Where arrays of a step seem to be, one after the other, while its passes are made for wherever they will be.
_SHIFT = 40
#: Which words of passes are addresses is found by making them twice, with this bit in all addresses and without.
_MARK = 1 << 50


def placed_passes(backend: KernelBackend, step: Step, operands: Sequence[Node], results: Mapping[int, Node],
                  target: Target) -> tuple[list[tuple[Pass, list[int], LoadedKernel]], list[int]]:
    """The passes of a step with operands and results (by position) of some types and sizes, and the bytes of scratch
    memory that they need.

    A word of a pass that is an address is the distance from the beginning of an array: of an operand, a result (of
    those that are wanted), or of scratch memory, numbered in this order; with each pass come these numbers for all of
    its words, -1 for those that are no addresses, and its kernel.
    """
    plain, scratch = _made(backend, step, operands, results, target, 0)
    marked, _ = _made(backend, step, operands, results, target, _MARK)
    found = []
    for each, other in zip(plain, marked, strict=True):
        arrays = [-1 if word == same else (word >> _SHIFT) - 1
                  for word, same in zip(each.words, other.words, strict=True)]
        words = tuple([word if array < 0 else word & (1 << _SHIFT) - 1
                       for word, array in zip(each.words, arrays, strict=True)])
        found.append((each._replace(words=words), arrays, backend.compile_text(each.text, each.launch)[0]))
    return found, scratch


def texts_of(backend: KernelBackend, step: Step, operands: Sequence[Node], results: Mapping[int, Node],
             target: Target) -> list[Text]:
    """The texts that a step with operands and results of some types and sizes launches."""
    return [each.text for each in _made(backend, step, operands, results, target, 0)[0]]


def _made(backend: KernelBackend, step: Step, operands: Sequence[Node], results: Mapping[int, Node], target: Target,
          mark: int) -> tuple[list[Pass], list[int]]:
    """The passes for arrays at addresses that tell which they are."""
    scratch: list[int] = []

    def address(number: int) -> int:
        return (number + 1 << _SHIFT) + mark

    def allocated(nbytes: int) -> int:
        scratch.append(nbytes)
        return address(len(operands) + len(results) + len(scratch) - 1)

    first = len(operands)
    call = Call(step, [Array(node.type, node.size, address(number)) for number, node in enumerate(operands)],
                {position: Array(node.type, node.size, address(number))
                 for number, (position, node) in enumerate(results.items(), first)}, allocated, target)
    return list(backend.passes(call)), scratch


def run(backend: KernelBackend, step: Step, operands: Sequence[Stored], results: Mapping[int, Stored]) -> None:
    """Run a step.

    It writes to its results and to memory of its own only: when it is interrupted, some of its launches have run in
    vain, and it may be run again.
    """
    used = [array.buffer for array in (*operands, *results.values())]
    keep = [array.buffer for array in operands if array.buffer.read_only]  # not from the allocator

    def scratch(nbytes: int) -> int:
        buffer = backend.allocate(nbytes)
        used.append(buffer)
        return buffer.address

    flags = state.flags
    told = bool(flags & (PRINT_IR | KERNEL_HISTORY)) or _log.isEnabledFor(logging.INFO)
    call = Call(step, [array.array for array in operands], {place: array.array for place, array in results.items()},
                scratch, backend.target())
    for each in backend.passes(call):
        width = each.launch.width
        start = time.perf_counter_ns() if told else 0
        compiled, hit = backend.compile_text(each.text, each.launch)
        kept: list[Any] = list(keep)
        words = array("Q", [word & _WORD for word in each.words])
        launched = compiled.launch(words, compiled.shape_of_pass(each.launch), kept, flags & KERNEL_HISTORY != 0)
        if told:
            elapsed = (time.perf_counter_ns() - start) * 1e-6 - compiled.build_time
            history.tell(compiled, hit, width, len(operands), len(results), elapsed, each.text.name)
        try:
            _note(used, backend.submit(launched))
        except BaseException:
            _note(used, backend.submitted())
            raise
        if flags & LAUNCH_BLOCKING:
            backend.wait()
        if flags & KERNEL_HISTORY:
            history.record(backend, compiled, hit, launched, width, len(operands), len(results), elapsed,
                           STEPS[step.name].type)


def _note(used: Sequence[Buffer], ticket: int) -> None:
    """Note that a launch uses some buffers; may be repeated."""
    for buffer in used:
        buffer.ticket = ticket
