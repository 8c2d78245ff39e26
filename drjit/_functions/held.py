"""Evaluation of what a program asks for together with what it holds of that: for those who have such a policy."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable
from typing import Any

import drjit_core as core
from drjit_core import KIND, LEAF, TYPES, current, primal, tracked, vertex_of

from .._access.lanes import begun
from .._access.lanes import in_plain_code as without_lanes
from .._access.single import store_by
from .._access.store import no_journal

__all__ = ["bytes_of", "computes_now", "contents", "copied", "eval_held", "in_plain_code", "is_constant",
           "is_pending", "is_recorded", "is_variable", "read_by", "tracking", "write_by"]

_begun = begun
_DUAL = KIND["dual"]
_LITERAL = KIND["literal"]
_EVALUATED, _VIEW, _ACCESS = KIND["evaluated"], KIND["view"], KIND["access"]
#: Arrays of so many elements are stored for later only if they are not much larger than what they are computed from:
#: all pairs of two arrays, say, of which sums are wanted.
_LARGE, _MUCH = 1 << 21, 4


def is_constant(array: Any) -> bool:
    """Whether all elements of a flat array or a tensor are a number that is known while tracing. Evaluates nothing.

    >>> from drjit.llvm import Float
    >>> x = Float(1, 2)
    >>> dr.detail.is_constant(x + 1), dr.detail.is_constant(Float(2) * 3)
    (False, True)
    """
    return primal(array._n).kind == _LITERAL


def is_recorded(number: Any) -> bool:
    """Whether a number stands for any that later calls of the frozen function which is recorded have in its place.

    It has the ``value`` that it has in this call, and ``pinned()`` returns it as one on which the recording depends.

    >>> from drjit.llvm import Float
    >>> f = dr.freeze(lambda x, n: (x * n, dr.detail.is_recorded(n)), warn_after=0)
    >>> [f(Float(1, 2), n) for n in (3, 4, 5)]  # the third one stands for others
    [([3, 6], False), ([4, 8], False), ([5, 10], True)]
    >>> dr.detail.is_recorded(3)
    False
    """
    return number.__class__ is core.Extent


def is_pending(array: Any) -> bool:
    """Whether a flat array or a tensor has no values yet, could have some, and is more than a part of what has some.

    Constants need none. Evaluates nothing.

    >>> from drjit.llvm import Float
    >>> x = Float(1, 2)
    >>> dr.detail.is_pending(x), dr.detail.is_pending(x + 1)
    (False, True)
    """
    node = primal(array._n)
    if node.kind <= _EVALUATED or node.scope:
        return False
    whole = _whole(node)
    return whole is None or whole.kind != _EVALUATED


def _whole(node: core.Node) -> core.Node | None:
    """What a node is a part of, the same elements in another order or place; ``None`` if it is computed."""
    return node.d0 if node.kind == _VIEW or node.kind == _ACCESS else None


def eval_held(asked: Iterable[Any], held: Iterable[Any] | None = None) -> bool:
    """Evaluate flat arrays or tensors that are ``asked`` for, and in the same kernels those ``held`` ones that they are
    computed from, so that nothing is computed again for these later.

    Of those held, parts of others are left out, which are read with the others, and what is much larger than all it is
    computed from. Without ``held``, everything asked for is evaluated that is not of this kind. Returns whether
    anything was evaluated. Raises a ``RuntimeError`` for values of a symbolic loop.

    >>> from drjit.llvm import TensorXf
    >>> x = TensorXf([1, 2])
    >>> y = x * x
    >>> dr.detail.eval_held([y + 1], held=[x, y])
    True
    >>> y.state
    VarState.Evaluated
    """
    nodes = [array._n for array in asked]
    needed, elements = core.needed_for(nodes)
    if not needed:
        return core.evaluate(nodes)  # statements that wait for an evaluation
    if held is None:
        candidates, nodes = [primal(node) for node in nodes], []
    else:
        candidates = [primal(array._n) for array in held]
    known = {node.id for node in candidates}
    for node in candidates:
        if node.id in needed and not node.scope:
            whole = _whole(node)
            part = whole is not None and (whole.kind == _EVALUATED or whole.id in known)
            if not part and (node.size <= _LARGE or node.size <= _MUCH * elements):
                nodes.append(node)
    del candidates
    return core.evaluate(nodes)


def bytes_of(array: Any) -> bytes:
    """The elements of a flat array or a tensor as they are in memory; evaluates it and waits.

    >>> from drjit.llvm import UInt8
    >>> dr.detail.bytes_of(UInt8(1, 2) + 1)
    b'\\x02\\x03'
    """
    return core.read_bytes(array._n)


def read_by(array: Any, read: Callable[[Any], Any]) -> Any:
    """What a function makes of the bytes of a flat array or a tensor in memory, of which it must keep no view;
    evaluates it and waits.

    >>> import numpy as np
    >>> from drjit.llvm import UInt8
    >>> int(dr.detail.read_by(UInt8(1, 2) + 1, lambda memory: np.frombuffer(memory, np.uint8).max()))
    3
    """
    _, address, _owner = core.host_view(array._n)
    return read((ctypes.c_char * (array._n.size * TYPES[array._n.type].size)).from_address(address))


def write_by(array: Any, write: Callable[[Any], None]) -> None:
    """Let a function write to the bytes of a flat array or a tensor, of which it must keep no view: where
    :func:`computes_now` and :func:`in_plain_code` hold. Evaluates the array and waits; others that have the same memory
    keep their elements.

    >>> import numpy as np
    >>> from drjit.llvm import UInt8
    >>> x = UInt8(1, 2, 3)
    >>> y = x + 0
    >>> dr.detail.write_by(x, lambda memory: np.frombuffer(memory, np.uint8).put([0, 2], 9))
    >>> x, y
    ([9, 2, 9], [1, 2, 3])
    """
    store_by(array, core.set_bytes(write))


def computes_now(*arrays: Any) -> bool:
    """Whether what is computed of flat arrays or tensors outside of kernels is all that is wanted: no derivatives of
    them are tracked, no region is traced, and no frozen function recorded.

    >>> from drjit.llvm.ad import Float
    >>> x = Float(1, 2)
    >>> dr.detail.computes_now(x)
    True
    >>> dr.enable_grad(x)
    >>> dr.detail.computes_now(x)
    False
    """
    context = current()
    return context.region is None and context.recording is None and not [array for array in arrays
                                                                         if array._n.kind == _DUAL]


def in_plain_code() -> bool:
    """Whether this thread neither traces nor runs a construct, and records no frozen function.

    >>> dr.detail.in_plain_code()
    True
    """
    context = current()
    return context.region is None and context.recording is None and (not _begun or without_lanes() and no_journal())


def tracking(arrays: Iterable[Any]) -> int:
    """A number that tells by which vertices derivatives of some flat arrays or tensors are tracked: 0 for none, and
    another one, which is greater, whenever derivatives of one of them have been enabled again.

    >>> from drjit.llvm.ad import Float
    >>> x = Float(1, 2)
    >>> dr.enable_grad(x)
    >>> dr.detail.tracking([x]) > dr.detail.tracking([dr.detach(x)])
    True
    """
    total = 0
    if core.any_vertex():
        for array in arrays:
            vertex = vertex_of(array._n)
            if vertex is not None:
                total += vertex.id
    return total


def contents(arrays: Iterable[Any], exported: bool = True) -> tuple[int, ...] | None:
    """What stands for the elements of some flat arrays or tensors: something else as soon as one of them has been
    written to; ``None`` while others may write to memory that they are in, or are read from: memory that has been
    imported without a copy, or ``exported``, if that counts. Evaluates nothing.

    >>> from drjit.llvm import Float
    >>> x = dr.opaque(Float, 0, 2)
    >>> before = dr.detail.contents([x])
    >>> x[0] = 1
    >>> dr.detail.contents([x]) == before
    False
    >>> shown = x.numpy()
    >>> dr.detail.contents([x]) is None
    True
    """
    found = []
    for array in arrays:
        node = primal(array._n)
        found.append(node.id)
        source = node if node.kind == _EVALUATED else _whole(node)
        if source is not None and source.kind == _EVALUATED:
            buffer = source.payload
            if buffer.read_only or exported and buffer.exported:
                return None
    return tuple(found)


def copied(array: Any) -> Any:
    """A flat array or a tensor with the same elements and derivatives, evaluated, in memory that nobody else has.

    >>> from drjit.llvm import Float
    >>> x = dr.opaque(Float, 0, 2)
    >>> shown = dr.detail.copied(x).numpy()
    >>> shown[0] = 1
    >>> x
    [0, 0]
    """
    core.evaluate([array._n])
    found = array.__class__(array)
    found._n = core.copied(found._n)
    return found


def is_variable(arrays: Iterable[Any]) -> bool:
    """Whether one of some flat arrays or tensors is what derivatives have been enabled for, by
    :func:`drjit.enable_grad`, and not computed of such arrays; where scopes such as :func:`drjit.suspend_grad` let them
    be tracked.

    >>> from drjit.llvm.ad import Float
    >>> x = Float(1, 2)
    >>> dr.enable_grad(x)
    >>> dr.detail.is_variable([x]), dr.detail.is_variable([x + 1])
    (True, False)
    """
    if core.any_vertex():
        for array in arrays:
            vertex = tracked(array._n)
            if vertex is not None and vertex.rule is LEAF and vertex.info is not None:
                return True
    return False
