"""Evaluation: from nodes to launches.

This is the one module that touches planning, the kernel cache, the allocator and the queue.  One lock serialises
evaluation between threads; what has been scheduled is a property of the thread.
"""

from __future__ import annotations

import ctypes
import logging
import os
import struct
import sys
import threading
import time
import weakref
from collections.abc import Iterable
from typing import Any

from ..codegen.program import Program, assemble
from ..flags import DEBUG, FORBID_SYNCHRONIZATION, KERNEL_HISTORY, LAUNCH_BLOCKING, PRINT_IR, JitFlag, state
from ..ir import build, deferred, numbering, trace
from ..ir.node import Node
from ..ir.symbolic import symbolic_error
from ..ir.verify import verify
from ..llvm import reduction
from ..math import COMBINE
from ..ops.reductions import REDUCTIONS
from ..ops.table import EVALUATED, INVALID, LITERAL, RESULT, SCATTER, UNDEFINED
from ..passes.schedule import Kernel, plan
from ..types import BOOL, TYPES, UINT8, VarState
from . import bounds, cache, dump, explain, history, malloc, pool
from . import buffer as buffers
from . import tables as call_tables

__all__ = ["evaluate", "flush_kernel_cache", "host_view", "import_copy", "import_shared", "opaque", "read_element",
           "schedule", "state_of", "sync", "unshared", "write_element"]

#: Check the graph before every evaluation (a defect of this project raises, instead of giving wrong results).
_VERIFY = os.environ.get("DRJIT_VERIFY", "") not in ("", "0")
_lock = pool.lock
_log = logging.getLogger("drjit")


class _Scheduled(threading.local):
    """Nodes that the next evaluation of this thread includes, if they are still alive by then."""

    def __init__(self) -> None:
        self.nodes: list[weakref.ref[Node]] = []


_scheduled = _Scheduled()


def schedule(nodes: Iterable[Node]) -> bool:
    """Include nodes in the next evaluation; returns whether any of them needs one."""
    any_ = False
    for node in nodes:
        if node.kind > UNDEFINED and node.kind != EVALUATED:
            if node.scope:
                raise symbolic_error(node, "schedule")
            _scheduled.nodes.append(weakref.ref(node))
            any_ = True
    return any_


def evaluate(nodes: Iterable[Node] = ()) -> bool:
    """Evaluate nodes, everything scheduled, and what this thread's statements need, and let those act.

    Returns whether there was anything to do.
    """
    schedule(nodes)
    statements = deferred.chain.statements
    if not _scheduled.nodes and not statements:
        return False
    with _lock:
        pool.check_no_evaluation()
        try:
            pool.begin_evaluation()
            found = _evaluate()
        except Exception:
            deferred.abandon()
            raise
        finally:
            pool.end_evaluation()
    if found and state.flags & LAUNCH_BLOCKING:
        bounds.warn()
    if statements:
        deferred.run()
    return found


def _evaluate() -> bool:
    """Evaluate what this thread has scheduled."""
    references, _scheduled.nodes = _scheduled.nodes, []
    roots: list[Node] = []
    seen: set[int] = set()
    for reference in references:
        node = reference()
        if node is not None and node.kind != EVALUATED and node.id not in seen:
            seen.add(node.id)
            roots.append(node)
    for statement in deferred.chain.statements:
        for memory in statement.memory:
            if not memory.there and memory.node.id not in seen:
                seen.add(memory.node.id)
                roots.append(memory.node)
    node = None
    if not roots:
        return False
    numbering.sweep_if_large()
    if _VERIFY:
        verify(roots)
    kernels = plan(roots)
    if _log.isEnabledFor(logging.INFO):
        _log.info("jit_eval(): launching %i kernel%s.", len(kernels), "" if len(kernels) == 1 else "s")
    for kernel in kernels:
        _launch(kernel)
    return True


def _launch(kernel: Kernel) -> None:
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
    tables = [_allocate_tables(program, node) for node in program.scatters if node.id in program.tables]
    keep: list[Any] = _foreign(program)
    report = bounds.Report(program) if program.checks else None
    if report is not None:
        keep.append(report)
    call_tables.fill(program, compiled.native.addresses, keep)
    parameters = (ctypes.c_uint64 * len(program.parameters))(*program.parameters)
    work, known = cache.launch_work(compiled, program)
    launch = pool.Launch(compiled.functions, parameters, program.width, work, keep, bool(flags & KERNEL_HISTORY),
                         program.single, known)
    elapsed = (time.perf_counter_ns() - start) * 1e-6 - (0.0 if hit else compiled.build_time)
    if flags & PRINT_IR:
        sys.stdout.write(compiled.text)
    if _log.isEnabledFor(logging.INFO):
        _log_launch(program, compiled, hit, elapsed)
    if not hit:
        explain.remember(program, compiled.hash)
        dump.write(program, compiled)
    try:
        ticket = pool.submit(launch)
        _commit(program, outputs, tables, ticket)
    except BaseException:
        if launch.begun:  # it was interrupted (Ctrl-C) when the kernel had been submitted, and must not run twice
            _commit(program, outputs, tables, pool.submitted())
        raise
    if report is not None:
        bounds.expect(report, ticket)
    if flags & LAUNCH_BLOCKING:
        pool.wait()
    if flags & KERNEL_HISTORY:
        history.record(program, compiled, hit, launch, elapsed)


def _commit(program: Program, outputs: list[tuple[Node, buffers.Buffer]], tables: list[tuple[Node, list[Node]]],
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
    for node, views in tables:
        if node.kind == SCATTER:
            _merge_tables(node, views)
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


def _allocate_tables(program: Program, node: Node) -> tuple[Node, list[Node]]:
    """Tables for a scatter-reduction, one per thread, filled with the neutral element: as views of one array."""
    info = TYPES[node.type]
    stride = (node.size + _TABLE_STEP - 1) // _TABLE_STEP * _TABLE_STEP
    neutral = build.literal(node.type, REDUCTIONS[node.attr].identity(node.type), stride * program.host.threads)
    whole = trace.opaque(neutral)
    fill = Kernel(0, whole.size)
    fill.outputs.append(whole)
    _launch(fill)
    buffer = whole.payload
    slot = program.tables[node.id]
    program.parameters[slot:slot + 2] = buffer.address, stride * info.size
    program.inputs.append(whole)
    return node, [build.evaluated(node.type, node.size, buffers.view(buffer, thread * stride * info.size,
                                                                     node.size * info.size))
                  for thread in range(program.host.threads)]


#: Elements by which tables are aligned: a packet of the widest kind.
_TABLE_STEP = 64


def _merge_tables(node: Node, tables: list[Node]) -> None:
    """Evaluate a scatter-reduction from its target and the tables of all threads."""
    reduction, combine = REDUCTIONS[node.attr], COMBINE[node.attr]
    neutral = build.literal(node.type, reduction.identity(node.type))
    result: Any = node.d0
    for table in tables:
        combined = combine(result, table)
        if reduction.ignores_nan(node.type):  # NaN in the target as well, but only if there was any update
            combined = trace.ops.select(trace.ops.neq(table, neutral), combined, result)
        result = combined
    merge = Kernel(0, node.size)
    merge.outputs.append(result)
    _launch(merge)
    node.become_evaluated(result.payload)


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


# --- host access -----------------------------------------------------------------------------------------------------


def sync(ticket: int | None = None) -> None:
    """Wait until a launch, or everything that was launched, has finished."""
    if state.flags & FORBID_SYNCHRONIZATION:
        raise RuntimeError(f"attempted to synchronize while {JitFlag.ForbidSynchronization!s} is set: the program "
                           "waits here for the device; evaluate later, or clear the flag")
    pool.wait(ticket)
    bounds.warn()


def in_memory(node: Node) -> Node:
    """A node with the same values that is evaluated: the node itself, or for a literal an opaque copy."""
    if node.kind == EVALUATED:
        return node
    if node.scope:
        raise symbolic_error(node, "eval")
    if node.kind == UNDEFINED:
        with _lock:
            if node.kind == UNDEFINED:
                node.become_evaluated(buffers.allocate(node.size * TYPES[node.type].size))
        return node
    if node.kind == LITERAL:
        node = trace.opaque(node)
    evaluate((node,))
    return node


def opaque(node: Node) -> Node:
    """An evaluated node with the same values, also for literals (which otherwise are never evaluated)."""
    return node if node.kind == INVALID else in_memory(node)


_C_TYPES: dict[str, Any] = {code: getattr(ctypes, name) for code, name in {
    "?": "c_uint8", "b": "c_int8", "B": "c_uint8", "h": "c_int16", "H": "c_uint16", "i": "c_int32", "I": "c_uint32",
    "q": "c_int64", "Q": "c_uint64", "e": "c_uint16", "f": "c_float", "d": "c_double"}.items()}


def read_element(node: Node, index: int) -> Any:
    """One element as a Python scalar; evaluates the array if need be, but launches nothing if it is in memory."""
    if node.kind == LITERAL:
        return node.payload
    node = in_memory(node)
    sync(node.payload.ticket)
    info = TYPES[node.type]
    value = _C_TYPES[info.code].from_address(node.payload.address + index * info.size).value
    if info.code == "?":
        return value != 0
    if info.code == "e":
        return struct.unpack("<e", struct.pack("<H", value))[0]
    return value


class _Holder:
    __slots__ = ("node",)


def _references(node: Any) -> int:
    return sys.getrefcount(node)


def _measure_held_once() -> int:
    holder = _Holder()
    holder.node = object()  # type: ignore[attr-defined]
    return _references(holder.node)  # type: ignore[attr-defined]


_HELD_ONCE = _measure_held_once()


def write_element(node: Node, index: int, value: Any) -> Node:
    """The version of an array after one element has been set; in place if only the caller's array holds it.

    Call it as ``array.slot = write_element(array.slot, …)``: any further holder of the node makes it copy.
    """
    held_once = sys.getrefcount(node) <= _HELD_ONCE and getattr(sys, "_is_gil_enabled", lambda: True)()
    if node.kind != EVALUATED:
        evaluated = in_memory(node)
        held_once = held_once or node.kind == LITERAL  # a literal's opaque copy is nobody's
    else:
        evaluated = node
    data = evaluated.payload
    sync(data.ticket)
    info = TYPES[node.type]
    if not held_once or data.read_only:
        data = buffers.copy(data)
    # a node of its own even in place: value numbering knows the old one as the value of an expression
    evaluated = build.evaluated(node.type, node.size, data)
    location = _C_TYPES[info.code].from_address(data.address + index * info.size)
    if info.code == "e":
        value = int.from_bytes(struct.pack("<e", value), "little")
    location.value = int(value) if info.type == BOOL else value
    return evaluated


def import_copy(type_: int, data: Any) -> Node:
    """An evaluated array with a copy of a C-contiguous buffer, whose items must have the type's size."""
    view = memoryview(data)
    if not view.c_contiguous:
        raise ValueError("import_copy(): the buffer must be C-contiguous")
    nbytes, itemsize = view.nbytes, TYPES[type_].size
    if nbytes % itemsize:
        raise ValueError(f"import_copy(): {nbytes} bytes are no multiple of the {itemsize} of a {TYPES[type_].name}")
    if nbytes == 0:
        return build.invalid(type_)
    buffer = buffers.allocate(nbytes)
    pool.wait(buffer.ticket)
    memoryview((ctypes.c_char * nbytes).from_address(buffer.address)).cast("B")[:] = view.cast("B")
    return build.evaluated(type_, nbytes // itemsize, buffer)


def import_shared(type_: int, address: int, size: int, owner: Any) -> Node:
    """An evaluated array over foreign memory, which ``owner`` keeps alive; it is copied before any write."""
    itemsize = TYPES[type_].size
    if address % itemsize:
        raise ValueError(f"import_shared(): the address {address:#x} is not aligned to the {itemsize} bytes of a "
                         f"{TYPES[type_].name}")
    if size == 0:
        return build.invalid(type_)
    return build.evaluated(type_, size, buffers.share(address, size * itemsize, owner))


def host_view(node: Node) -> tuple[Node, int, buffers.Buffer]:
    """Evaluated node, address and buffer of an array, for host access; the buffer keeps the memory alive.

    Later writes to the array in place are visible through the address.
    """
    node = in_memory(node)
    sync(node.payload.ticket)
    return node, node.payload.address, node.payload


def unshared(node: Node) -> Node:
    """A node with the same values that nobody else can change: a copy of memory that is imported or exported."""
    if node.kind != EVALUATED or not (node.payload.read_only or node.payload.exported):
        return node
    sync(node.payload.ticket)
    return build.evaluated(node.type, node.size, buffers.copy(node.payload))


def state_of(node: Node) -> VarState:
    """Evaluation state of a node."""
    kind = node.kind
    if kind == EVALUATED:
        return VarState.Evaluated
    if kind == LITERAL:
        return VarState.Literal
    if kind == INVALID:
        return VarState.Invalid
    if node.scope:
        return VarState.Symbolic
    if kind == SCATTER:
        return VarState.Dirty
    return VarState.Undefined if kind == UNDEFINED else VarState.Unevaluated


def flush_kernel_cache() -> None:
    """Forget all kernels in memory."""
    with _lock:
        pool.wait()
        cache.flush()
        explain.forget()


flush_malloc_cache = malloc.flush
malloc_statistics = malloc.statistics
