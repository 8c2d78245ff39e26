"""What is in arrays: the host waits for it, and reads an element."""

from __future__ import annotations

from typing import Any

from ..context import current as context_of
from ..flags import FORBID_SYNCHRONIZATION, JitFlag
from ..ir import trace
from ..ir.dual import without
from ..ir.node import Node
from ..ir.symbolic import note_seen, symbolic_error
from ..ops.table import BOUND, DUAL, EVALUATED, LITERAL, UNDEFINED
from ..types import TYPES
from . import bounds, exclusion
from .backend import memory_for
from .backends import LLVM, all_backends, backend_of
from .buffer import Buffer
from .elements import copied, peek, unpack
from .evaluation import evaluate
from .native import Native

__all__ = ["address_of", "bytes_of", "in_memory", "looked_at", "read_bytes", "read_element", "read_size", "settle",
           "sync"]

_DUAL, _LITERAL, _EVALUATED, _LLVM = DUAL, LITERAL, EVALUATED, LLVM
_native: Native = LLVM.native
#: What :func:`.bounds.warn` looks at first.
_launched, _found = bounds.launched, bounds.found


def sync() -> None:
    """Wait until everything that was launched has finished."""
    _check_synchronization()
    for backend in all_backends():
        backend.wait()
    if _launched or _found:
        bounds.warn()
    _check(None)


def _check(buffer: Buffer | None) -> None:
    """Raise what is wrong with a buffer, or with anything, as masks say that are known by now; each does so once."""
    checks = context_of().checks
    for check in list(checks):
        mask = check.mask
        if mask.kind != EVALUATED or not mask.payload.backend.is_done(mask.payload.ticket) or check not in checks:
            continue
        if not unpack(mask.type, mask.payload.backend.read(mask.payload, 0, 1)):
            checks.remove(check)
        elif buffer is None or any(node.kind == EVALUATED and node.payload is buffer for node in check.alive()):
            checks.remove(check)
            raise RuntimeError(check.message)


def _check_synchronization() -> None:
    if context_of().flags & FORBID_SYNCHRONIZATION:
        raise RuntimeError(f"attempted to synchronize while {JitFlag.ForbidSynchronization!s} is set: the program "
                           "waits here for the device; evaluate later, or clear the flag")


def _before_waiting() -> None:
    """Raise if this thread must not wait, or what it records must not depend on contents."""
    context = context_of()
    if context.recording is not None:
        context.recording.refuse_host()
    if context.flags & FORBID_SYNCHRONIZATION:
        _check_synchronization()


def _after_waiting(buffer: Buffer) -> None:
    """Warn of what launches have reported, and raise what they have found to be wrong."""
    if _launched or _found:
        bounds.warn()
    context = context_of()
    if context.checks:
        _check(buffer)


def address_of(buffer: Buffer) -> int:
    """Where the host may access the contents of a buffer; waits for the last launch that uses it."""
    context = context_of()  # the next lines are those of functions above, whose calls cost a fifth of an element's read
    if context.recording is not None:
        context.recording.refuse_host()
    if context.flags & FORBID_SYNCHRONIZATION:
        _check_synchronization()
    address: int = _native.host_address(buffer) if buffer.backend is _LLVM else buffer.backend.host_address(buffer)
    if _launched or _found:
        bounds.warn()
    if context.checks:
        _check(buffer)
    return address


def bytes_of(buffer: Buffer, offset: int, count: int) -> bytes:
    """Some bytes of a buffer, copied once the last launch that uses it has ended."""
    if buffer.backend is _LLVM or buffer.backend.is_host:
        return copied(address_of(buffer) + offset, count)
    _before_waiting()
    found: bytes = buffer.backend.read(buffer, offset, count)
    if len(found) != count:
        raise RuntimeError(f"the backend '{buffer.backend.name}' has read {len(found)} bytes instead of {count}")
    _after_waiting(buffer)
    return found


def settle(buffer: Buffer) -> None:
    """Wait for the last launch that uses a buffer."""
    _before_waiting()
    buffer.backend.wait(buffer.ticket)
    _after_waiting(buffer)


def in_memory(node: Node, where: int = 0) -> Node:
    """A node with the same values that is evaluated: the node itself, or for a literal an opaque copy, which belongs to
    a backend if that is said; of a dual, its value."""
    if node.kind == _EVALUATED:
        return node
    if node.scope:
        raise symbolic_error(node, "eval")
    if node.kind == _DUAL:
        return in_memory(without(node), where)
    if node.kind == UNDEFINED:
        with exclusion.lock:
            if node.kind == UNDEFINED:
                node.become_evaluated(memory_for(backend_of(node.where), node))
                if context_of().recording is not None:
                    context_of().recording.allocated(node)
        return node
    if node.kind == LITERAL or node.kind == BOUND:
        node = trace.opaque(node, where)
    evaluate((node,))
    return node


def read_element(node: Node, index: int) -> Any:
    """One element as a Python scalar; evaluates the array if need be, but launches nothing if it is in memory."""
    if node.kind == _DUAL:
        node = without(node)
    if node.scope:
        raise symbolic_error(node, "eval")
    if node.kind == _LITERAL:
        return node.payload
    if context_of().region is not None:
        note_seen(node)
    node = in_memory(node)
    buffer: Buffer = node.payload
    if buffer.backend is _LLVM or buffer.backend.is_host:
        return peek(node.type, address_of(buffer), index)
    size = TYPES[node.type].size
    return unpack(node.type, bytes_of(buffer, index * size, size))


def read_size(node: Node) -> Any:
    """A number of elements that was computed, the only element of an array: waits for it. While a program is recorded,
    it is an :class:`~drjit_core.ir.extents.Extent`, and each replay reads it anew."""
    node = in_memory(node)
    context = context_of()
    recorder = context.recording
    if recorder is None:
        return int(read_element(node, 0))
    context.recording = None
    try:
        value = int(read_element(node, 0))
    finally:
        context.recording = recorder
    return recorder.read(node, value)


def read_bytes(node: Node, first: int = 0, size: int = -1, looks: bool = True) -> bytes:
    """Some elements of an array as they are in memory, all of them if it is not said how many; evaluates it and waits.
    It is noted that the program ``looks`` at it."""
    node = looked_at(without(node) if node.kind == _DUAL else node, looks)
    itemsize = TYPES[node.type].size
    return bytes_of(node.payload, first * itemsize, (node.size if size < 0 else size) * itemsize)


def looked_at(node: Node, looks: bool) -> Node:
    """The evaluated node of what the host accesses, of which is noted that the program ``looks`` at it."""
    if node.scope:
        raise symbolic_error(node, "eval")
    if looks and node.kind != _LITERAL and context_of().region is not None:
        note_seen(node)
    return in_memory(node)
