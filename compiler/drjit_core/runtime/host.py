"""Access of the host to arrays: elements, imports, views, and copies that nobody else can change.

The host touches memory once the last launch that uses it has ended.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

from ..derivatives.flow import Flow
from ..derivatives.structure import STRUCTURE, Gradients, Structure
from ..flags import state
from ..ir import build, trace
from ..ir.dual import STRUCTURE as RULES
from ..ir.dual import derived, dual, without
from ..ir.holders import held_elsewhere
from ..ir.node import Node
from ..ir.symbolic import is_unusable, symbolic_error
from ..ir.vertex import Vertex
from ..ops.derivatives import Rule
from ..ops.table import BOUND, DUAL, EVALUATED, INVALID, LITERAL, SCATTER, UNDEFINED
from ..types import TYPES, JitBackend, VarState
from .backend import Exchange, bring
from .backends import backend_of
from .buffer import Buffer, share
from .contents import address_of, bytes_of, in_memory, looked_at, read_bytes, read_element, settle, sync
from .elements import pack
from .evaluation import evaluate

__all__ = ["call_host", "copied", "exchange_of", "exported_view", "filled", "gpu_of", "host_view", "import_copy",
           "import_shared", "import_written", "in_memory", "moved", "opaque", "opaque_all", "put_back", "read_bytes",
           "read_element", "rewritten", "set_bytes", "set_element", "shown", "state_of", "sync", "unshared"]


def opaque(node: Node, where: int = 0) -> Node:
    """An evaluated node with the same values, also for literals (which otherwise are never evaluated), and belong to
    the backend that is given."""
    if node.kind == DUAL:
        return _with_derivative(node, opaque(without(node), where))
    return node if node.kind == INVALID or node.scope and is_unusable(node) else in_memory(node, where)


def opaque_all(nodes: Sequence[Node], where: int = 0) -> list[Node]:
    """What :func:`opaque` returns of several nodes, which are evaluated together."""
    values = [without(node) if node.kind == DUAL else node for node in nodes]
    values = [trace.opaque(value, where) if value.kind == LITERAL or value.kind == BOUND else value for value in values]
    evaluate(values)
    return [_with_derivative(node, opaque(value)) if node.kind == DUAL else opaque(value)
            for node, value in zip(nodes, values, strict=True)]


def call_host(function: Callable[[Sequence[Node]], Sequence[Node]], operands: Sequence[Node]) -> list[Node]:
    """What a function makes of nodes without derivatives, which are evaluated for it; its results are, and in memory of
    their own. It may look at contents while something is recorded: replays call it again, for operands of these sizes.
    """
    nodes, recorder = opaque_all(operands), state.recording
    empty = [None if node.kind == EVALUATED else node for node in nodes]
    where = recorder.backend.where if recorder is not None else 0

    def called(given: Sequence[Node]) -> list[Node]:
        left = iter(given)
        results = opaque_all(function([node or next(left) for node in empty]), where)
        for node in results:  # what is recorded goes on where the recording launches
            if where and node.kind == EVALUATED and not node.where and \
                    node.payload.backend is not backend_of(where):
                bring(backend_of(where), node)
        return list(map(unshared, results))

    def again(given: Sequence[Node]) -> list[Node]:
        return [node for node in called(given) if node.kind == EVALUATED]

    given = [node for node in nodes if node.kind == EVALUATED]
    if recorder is None:
        return called(given)
    again.__name__ = function.__name__
    state.recording = None
    try:
        results = called(given)
    finally:
        state.recording = recorder
    recorder.called(again, given, [node for node in results if node.kind == EVALUATED])
    return results


def _with_derivative(node: Node, value: Node) -> Node:
    """A dual with the same values elsewhere in memory."""
    return node if value is node.d0 else dual(value, node.payload)


def rewritten(node: Node, write: Callable[[Buffer, int], None], others: int = 0) -> Node:
    """The version of an array after a function has written to its memory; in place if only the caller's array holds
    it, and so many ``others`` that will hold the new version.

    Call it as ``array.slot = rewritten(array.slot, …)``: any further holder of the node makes it copy.
    """
    own = node.kind == LITERAL  # a literal's opaque copy is nobody's
    node = in_memory(node)
    data = node.payload
    settle(data)
    if not own and held_elsewhere(node, 1 + others):
        data = data.backend.copy(data)
    # a node of its own even in place: value numbering knows the old one as the value of an expression
    evaluated = build.evaluated(node.type, node.size, data, node.where)
    write(data, node.type)
    return evaluated


def set_element(index: int, value: Any) -> Callable[[Buffer, int], None]:
    """What sets one element, for :func:`rewritten`."""
    return lambda data, type_: data.backend.write(data, index * TYPES[type_].size, pack(type_, value))


def set_bytes(write: Callable[[Any], None]) -> Callable[[Buffer, int], None]:
    """What lets a function write to the bytes of an array, for :func:`rewritten`: to a copy of them, if the host cannot
    access the memory."""
    def applied(data: Buffer, _type: int) -> None:
        if data.backend.is_host:
            write((ctypes.c_char * data.nbytes).from_address(address_of(data)))
            return
        found = bytearray(bytes_of(data, 0, data.nbytes))
        write(found)
        data.backend.write(data, 0, found)

    return applied


#: So many bytes are copied once more on the way, which takes less time than a view of where they go.
_FEW = 1 << 12


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
    backend.write(buffer, 0, view.tobytes() if nbytes <= _FEW else view.cast("B"))
    node = build.evaluated(type_, nbytes // itemsize, buffer, where)
    if state.recording is not None:
        state.recording.keep(node)
    return node


def import_written(type_: int, size: int, write: Callable[[Any], None], where: int | None = None) -> Node:
    """An evaluated array whose bytes a function writes, all of them; it must keep no view of them. Of the backend that
    :func:`import_copy` says."""
    buffer = backend_of(where or 0).allocate(size * TYPES[type_].size)
    set_bytes(write)(buffer, type_)
    node = build.evaluated(type_, size, buffer, where)
    if state.recording is not None:
        state.recording.keep(node)
    return node


def filled(node: Node, where: int = 0) -> Node:
    """What :func:`opaque` returns of a constant: the host fills the memory, so that there is no kernel."""
    return import_copy(node.type, pack(node.type, node.payload) * node.size, where) if node.kind == LITERAL else node


def moved(nodes: Sequence[Node], where: int, function: str) -> list[Node]:
    """Nodes with the same values that go with a backend, given as a bit: those that do so themselves, and of others'
    copies that the host makes, which are evaluated together for ``function``. Their gradients come back in the same
    way."""
    others = [node for node in nodes if where and node.where and node.where != where]
    for node in others:
        if node.scope:
            raise symbolic_error(node, need="elements are copied to another backend", function=function)
    if others and state.recording is not None:
        raise RuntimeError(f"{function}(): this program is being recorded for one backend, and copies an array to "
                           "another one: do so outside")
    evaluate([without(node) if node.kind == DUAL else node for node in others])
    return [_moved(node, where) if where and node.where and node.where != where else node for node in nodes]


def _moved(node: Node, where: int) -> Node:
    value = without(node) if node.kind == DUAL else node
    copy = import_copy(node.type, read_bytes(value), where)
    return copy if value is node else derived(_MOVE, copy, (node,), (node.where, where))


def _move_forward(flow: Flow, vertex: Vertex, gradients: Gradients) -> Node | None:
    change = gradients[0]
    return None if change is None else moved((change,), vertex.info[1], "drjit.forward")[0]


def _move_reverse(flow: Flow, vertex: Vertex, gradient: Node) -> None:
    flow.give(vertex.a, moved((gradient,), vertex.info[0], "drjit.backward")[0], vertex.size, vertex.sparse)


_MOVE = "move"
RULES[_MOVE], STRUCTURE[_MOVE] = Rule(_MOVE, ()), Structure(_move_forward, _move_reverse)


def exchange_of(where: int) -> Exchange | None:
    """What a backend, given as a bit, shares memory with other libraries by; ``None`` if its memory is that of the
    host, or nobody else's."""
    return backend_of(where).exchange


def gpu_of() -> Any:
    """The backend of arrays of ``drjit.cuda``, for what has to do with a GPU; raises a ``RuntimeError`` that says why
    there is none."""
    found = backend_of(JitBackend.CUDA.value)
    if not hasattr(found, "streams"):
        raise RuntimeError(f"the backend '{found.name}', which is in the place of a GPU, is none")
    return found


def import_shared(type_: int, address: int, size: int, owner: Any, where: int | None = None,
                  exchange: Exchange | None = None) -> Node:
    """An evaluated array over foreign memory, which ``owner`` keeps alive; it is copied before any write.

    It belongs to a backend, as with :func:`import_copy`; one that cannot access such memory gets a copy. Memory that is
    not the host's is that of the backend whose ``exchange`` is given.
    """
    itemsize = TYPES[type_].size
    if exchange is not None and size:
        nbytes = size * itemsize
        buffer = exchange.copied(address, nbytes) if address % itemsize else \
            share(backend_of(where or 0), address, nbytes, owner)
        return build.evaluated(type_, size, buffer, where)
    if address % itemsize:
        raise ValueError(f"import_shared(): the address {address:#x} is not aligned to the {itemsize} bytes of a "
                         f"{TYPES[type_].name}")
    if size == 0:
        return build.invalid(type_)
    backend = backend_of(where or 0)
    if not backend.is_host:
        data: Any = (ctypes.c_char * (size * itemsize)).from_address(address)
        return import_copy(type_, memoryview(data).cast("B"), where)
    return build.evaluated(type_, size, share(backend, address, size * itemsize, owner), where)


def host_view(node: Node, looks: bool = True) -> tuple[Node, int, Any]:
    """Evaluated node, address of its elements, and what keeps them there: the buffer of the array if its backend
    ``is_host``, so that later writes to it in place are visible through the address; a copy otherwise. It is noted
    that the program ``looks`` at it.
    """
    if node.kind == DUAL:
        value, address, owner = host_view(without(node))
        return _with_derivative(node, value), address, owner
    node = looked_at(node, looks)
    buffer = node.payload
    if buffer.backend.is_host:
        return node, address_of(buffer), buffer
    block = ctypes.create_string_buffer(bytes_of(buffer, 0, buffer.nbytes), buffer.nbytes)
    return node, ctypes.addressof(block), block


def exported_view(node: Node) -> tuple[Node, int, Any, bool]:
    """What :func:`host_view` returns, for others who may write through the address, and whether they must not; what
    is no view of the array's own memory does not concern that."""
    node, address, owner = host_view(node)
    if not isinstance(owner, Buffer):
        return node, address, owner, False
    owner.exported = True
    return node, address, owner, owner.read_only


def shown(node: Node, where: int) -> tuple[Node, Buffer]:
    """Evaluated node, and its buffer in the memory of a backend, for others who may write to it in an order that they
    look after; the host waits for nothing."""
    if node.kind == DUAL:
        value, buffer = shown(without(node), where)
        return _with_derivative(node, value), buffer
    if state.recording is not None:
        state.recording.refuse_host()
    node = in_memory(node, where) if node.kind == LITERAL or node.kind == BOUND else looked_at(node, True)
    if not node.where and node.payload.backend is not backend_of(where):
        bring(backend_of(where), node)
    node.payload.exported = True
    return node, node.payload


def unshared(node: Node) -> Node:
    """A node with the same values that nobody else can change: a copy of memory that is imported or exported."""
    if node.kind == DUAL:
        return _with_derivative(node, unshared(without(node)))
    if node.kind == EVALUATED and state.recording is not None:  # what replays are given, others may see
        return trace.opaque(node, node.where)
    if node.kind != EVALUATED or not (node.payload.read_only or node.payload.exported):
        return node
    return copied(node)


def copied(node: Node) -> Node:
    """An evaluated node with the same values in memory of its own; others as they are."""
    if node.kind == DUAL:
        return _with_derivative(node, copied(without(node)))
    if node.kind != EVALUATED:
        return node
    settle(node.payload)
    return build.evaluated(node.type, node.size, node.payload.backend.copy(node.payload), node.where)


def put_back(data: Buffer, before: Node) -> Node:
    """A node with the values of an evaluated one in other memory, of as many bytes, which others see."""
    settle(data)
    data.backend.write(data, 0, read_bytes(before, looks=False))
    return build.evaluated(before.type, before.size, data, before.where)


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
