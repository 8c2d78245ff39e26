"""Running steps: what the backend makes of one is launched, in order, with memory of its own in between."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ..codegen.program import Policy
from ..codegen.steps import Array, Call, Pass
from ..flags import KERNEL_HISTORY, LAUNCH_BLOCKING, PRINT_IR, state
from ..ir import node as nodes
from ..ir.node import Node
from ..ir.region import memory_of
from ..ops.steps import STEPS, Step
from ..ops.table import EVALUATED, UNDEFINED
from ..passes.schedule import Kernel
from ..types import TYPES
from . import history
from .backend import KernelBackend, refuse_foreign
from .buffer import Buffer

if TYPE_CHECKING:
    from .recorder import Recorder

__all__ = ["Stored", "forget", "launch_alone", "launch_step", "run"]

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


def launch_step(backend: KernelBackend, kernel: Kernel, recorder: Recorder | None = None) -> None:
    """Launch a planned step; its results are evaluated afterwards."""
    results = kernel.outputs
    for node in kernel.undefined:
        if node.kind == UNDEFINED:
            node.become_evaluated(backend.allocate(node.size * TYPES[node.type].size))
            if recorder is not None:
                recorder.allocated(node)
    operands = memory_of(results[0])
    for node in operands:
        if node.payload.backend is not backend:
            refuse_foreign(backend, node)
    step: Step = results[0].payload
    if recorder is not None:
        recorder.begin_step(step, operands, results)
    found = {node.attr: Stored(node.type, node.size, backend.allocate(node.size * TYPES[node.type].size))
             for node in results}
    run(backend, step, [Stored(node.type, node.size, node.payload) for node in operands], found)
    positions = [node.attr for node in results]
    for node, position in zip(results, positions, strict=True):
        nodes.forget(node)
        node.become_evaluated(found[position].buffer)
    if recorder is not None:
        recorder.end_step(results, positions)


#: What stands for addresses of operands, results and scratch memory: such a number above 40 bits.
_OPERANDS, _RESULTS, _SCRATCH = 1, 8, 16
_SHIFT = 40
#: Which words of passes are addresses is found by making them twice, with this bit in all addresses and without.
_MARK = 1 << 50


class _Known:
    """The passes of a step of some structure, wherever its arrays are."""

    __slots__ = ("passes", "policy", "scratch")

    def __init__(self, backend: KernelBackend, node: Node, policy: Policy) -> None:
        self.policy = policy
        self.passes = []
        plain, self.scratch = self._made(backend, node, 0)
        marked, _ = self._made(backend, node, _MARK)
        for each, other in zip(plain, marked, strict=True):
            places = tuple([place for place, (word, same) in enumerate(zip(each.words, other.words, strict=True))
                            if word != same])
            self.passes.append((each, places, backend.compile_text(each.text, each.width)[0]))

    def _made(self, backend: KernelBackend, node: Node, mark: int) -> tuple[list[Pass], list[int]]:
        """The passes, and the bytes of scratch memory that they need."""
        scratch: list[int] = []

        def allocated(nbytes: int) -> int:
            scratch.append(nbytes)
            return (_SCRATCH + len(scratch) - 1 << _SHIFT) + mark

        operands = [Array(d.type, d.size, (_OPERANDS + place << _SHIFT) + mark)
                    for place, d in enumerate(memory_of(node))]
        result = Array(node.type, node.size, (_RESULTS + node.attr << _SHIFT) + mark)
        call = Call(node.payload, operands, {node.attr: result}, allocated, self.policy.cache_bytes,
                    self.policy.threads)
        return list(backend.passes(call)), scratch


_known: dict[Any, _Known] = {}
_MOST_KNOWN = 1024


def launch_alone(backend: KernelBackend, node: Node) -> bool:
    """Launch a step whose operands are in memory, by a shorter way; whether it was done.

    The passes of a step of some structure are made once, of addresses that stand for arrays.
    """
    operands = memory_of(node)
    structure: list[Any] = [node.payload, node.attr, node.type, node.size]
    for operand in operands:
        if operand.kind != EVALUATED or operand.payload.backend is not backend:
            return False
        structure += (operand.type, operand.size)
    policy = backend.policy()
    key = tuple(structure)
    known = _known.get(key)
    if known is None or known.policy != policy:
        if len(_known) >= _MOST_KNOWN:
            _known.clear()
        known = _known[key] = _Known(backend, node, policy)
    result = backend.allocate(node.size * TYPES[node.type].size)
    used = [operand.payload for operand in operands]
    keep = [buffer for buffer in used if buffer.read_only]  # not from the allocator
    buffers = dict(enumerate(used, _OPERANDS))
    buffers[_RESULTS + node.attr] = result
    for number, nbytes in enumerate(known.scratch, _SCRATCH):
        buffers[number] = backend.allocate(nbytes)
    used = list(buffers.values())
    for each, places, compiled in known.passes:
        words = list(each.words)
        for place in places:
            word = words[place]
            words[place] = buffers[word >> _SHIFT].address + (word & (1 << _SHIFT) - 1)
        compiled.reuse(each.width)
        launched = compiled.launch_pass(each._replace(words=tuple(words)), list(keep), False)
        try:
            _note(used, backend.submit(launched))
        except BaseException:
            _note(used, backend.submitted())
            raise
    nodes.forget(node)
    node.become_evaluated(result)
    return True


def forget() -> None:
    """Forget the passes of steps."""
    _known.clear()


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
    policy = backend.policy()
    call = Call(step, [array.array for array in operands], {place: array.array for place, array in results.items()},
                scratch, policy.cache_bytes, policy.threads)
    for each in backend.passes(call):
        start = time.perf_counter_ns() if told else 0
        compiled, hit = backend.compile_text(each.text, each.width)
        kept: list[Any] = list(keep)
        launched = compiled.launch_pass(each, kept, flags & KERNEL_HISTORY != 0)
        if told:
            elapsed = (time.perf_counter_ns() - start) * 1e-6 - (0.0 if hit else compiled.build_time)
            history.tell(compiled, hit, each.width, len(operands), len(results), elapsed, each.text.name)
        try:
            _note(used, backend.submit(launched))
        except BaseException:
            _note(used, backend.submitted())
            raise
        if flags & LAUNCH_BLOCKING:
            backend.wait()
        if flags & KERNEL_HISTORY:
            history.record(backend, compiled, hit, launched, each.width, len(operands), len(results), elapsed,
                           STEPS[step.name].type)


def _note(used: Sequence[Buffer], ticket: int) -> None:
    """Note that a launch uses some buffers; may be repeated."""
    for buffer in used:
        buffer.ticket = ticket
