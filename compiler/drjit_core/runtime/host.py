"""Access of the host to arrays: elements, imports, views, and copies that nobody else can change.

The host touches memory once the last launch that uses it has ended.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..flags import state
from ..ir import build, trace
from ..ir.dual import dual, without
from ..ir.holders import held_elsewhere
from ..ir.node import Node
from ..ir.symbolic import innermost, known, note_seen
from ..ops.table import BOUND, DUAL, EVALUATED, INVALID, LITERAL, SCATTER, UNDEFINED
from ..types import TYPES, VarState
from .backends import backend_of
from .buffer import Buffer, share
from .contents import address_of, in_memory, read_element, sync
from .elements import poke
from .evaluation import evaluate

__all__ = ["address_of", "host_view", "import_copy", "import_shared", "in_memory", "opaque", "opaque_all",
           "read_element", "state_of", "sync", "unshared", "write_element"]


def opaque(node: Node, where: int = 0) -> Node:
    """An evaluated node with the same values, also for literals (which otherwise are never evaluated), and belong to
    the backend that is given."""
    if node.kind == DUAL:
        return _with_derivative(node, opaque(without(node), where))
    return node if node.kind == INVALID else in_memory(node, where)


def opaque_all(nodes: Sequence[Node], where: int = 0) -> list[Node]:
    """What :func:`opaque` returns of several nodes, which are evaluated together."""
    values = [without(node) if node.kind == DUAL else node for node in nodes]
    values = [trace.opaque(value, where) if value.kind == LITERAL or value.kind == BOUND else value for value in values]
    evaluate(values)
    return [_with_derivative(node, opaque(value)) if node.kind == DUAL else opaque(value)
            for node, value in zip(nodes, values, strict=True)]


def _with_derivative(node: Node, value: Node) -> Node:
    """A dual with the same values elsewhere in memory."""
    return node if value is node.d0 else dual(value, node.payload)


def write_element(node: Node, index: int, value: Any) -> Node:
    """The version of an array after one element has been set; in place if only the caller's array holds it.

    Call it as ``array.slot = write_element(array.slot, …)``: any further holder of the node makes it copy.
    """
    own = node.kind == LITERAL  # a literal's opaque copy is nobody's
    node = in_memory(node)
    data = node.payload
    address = address_of(data)
    if not own and held_elsewhere(node, 1):
        data = data.backend.copy(data)
        address = data.backend.host_address(data)
    # a node of its own even in place: value numbering knows the old one as the value of an expression
    evaluated = build.evaluated(node.type, node.size, data, node.where)
    poke(node.type, address, index, value)
    return evaluated


def import_copy(type_: int, data: Any, where: int | None = None) -> Node:
    """An evaluated array with a copy of a C-contiguous buffer, whose items must have the type's size.

    It belongs to a backend, that of this thread unless another one is given; with 0 to whatever it is combined with.
    """
    view = memoryview(data)
    if not view.c_contiguous:
        raise ValueError("import_copy(): the buffer must be C-contiguous")
    nbytes, itemsize = view.nbytes, TYPES[type_].size
    if nbytes % itemsize:
        raise ValueError(f"import_copy(): {nbytes} bytes are no multiple of the {itemsize} of a {TYPES[type_].name}")
    if nbytes == 0:
        return build.invalid(type_)
    backend = backend_of(where or 0)
    buffer = backend.allocate(nbytes)
    backend.write(buffer, view.cast("B"))
    node = build.evaluated(type_, nbytes // itemsize, buffer, where)
    if state.recording is not None:
        state.recording.keep(node)
    return node


def import_shared(type_: int, address: int, size: int, owner: Any) -> Node:
    """An evaluated array over foreign memory, which ``owner`` keeps alive; it is copied before any write."""
    itemsize = TYPES[type_].size
    if address % itemsize:
        raise ValueError(f"import_shared(): the address {address:#x} is not aligned to the {itemsize} bytes of a "
                         f"{TYPES[type_].name}")
    if size == 0:
        return build.invalid(type_)
    return build.evaluated(type_, size, share(backend_of(0), address, size * itemsize, owner))


def host_view(node: Node, looks: bool = True) -> tuple[Node, int, Buffer]:
    """Evaluated node, address and buffer of an array, for host access; the buffer keeps the memory alive. It is noted
    that the program ``looks`` at it.

    Later writes to the array in place are visible through the address.
    """
    if node.kind == DUAL:
        value, address, buffer = host_view(without(node))
        return _with_derivative(node, value), address, buffer
    if node.scope:
        node = known(node, "eval")
    elif looks and node.kind != LITERAL and innermost() is not None:
        note_seen(node)
    node = in_memory(node)
    return node, address_of(node.payload), node.payload


def unshared(node: Node) -> Node:
    """A node with the same values that nobody else can change: a copy of memory that is imported or exported."""
    if node.kind == DUAL:
        return _with_derivative(node, unshared(without(node)))
    if node.kind != EVALUATED or not (node.payload.read_only or node.payload.exported):
        return node
    address_of(node.payload)
    return build.evaluated(node.type, node.size, node.payload.backend.copy(node.payload), node.where)


def state_of(node: Node) -> VarState:
    """Evaluation state of a node."""
    if node.kind == DUAL:
        node = without(node)
    kind = node.kind
    if kind == EVALUATED:
        return VarState.Evaluated
    if kind == LITERAL or kind == BOUND:
        return VarState.Literal
    if kind == INVALID:
        return VarState.Invalid
    if node.scope:
        return VarState.Symbolic
    if kind == SCATTER:
        return VarState.Dirty
    return VarState.Undefined if kind == UNDEFINED else VarState.Unevaluated
