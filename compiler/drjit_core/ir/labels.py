"""Public indices and labels of nodes: rarely asked for, hence kept beside them."""

from __future__ import annotations

import contextlib
import itertools
import weakref

from ..flags import REUSE_INDICES, state
from ..ops.table import DUAL
from .node import Node

__all__ = ["are_any", "caller_of", "copy_labels", "index_of", "label_of", "set_caller", "set_label"]

#: Public indices by the serial numbers of nodes.
_indices: dict[int, int] = {}
_labels: weakref.WeakKeyDictionary[Node, str] = weakref.WeakKeyDictionary()
#: The functions of this project that programs called for accesses to memory.
_callers: weakref.WeakKeyDictionary[Node, str] = weakref.WeakKeyDictionary()
_free_indices: list[int] = []
_next_index = itertools.count(1).__next__


def index_of(node: Node) -> int:
    """Public index of a node, handed out when first asked for; those of dead nodes are used again if the flag
    ``ReuseIndices`` is set."""
    if node.kind == DUAL and node.d0 is not None:
        node = node.d0
    index = _indices.get(node.id)
    if index is None:
        given = _new_index()
        index = _indices.setdefault(node.id, given)
        if index == given:
            weakref.finalize(node, _let_go, node.id).atexit = False
        else:  # another thread was faster
            _free_indices.append(given)
    return index


def _new_index() -> int:
    if state.flags & REUSE_INDICES:
        with contextlib.suppress(IndexError):  # there is none
            return _free_indices.pop()
    return _next_index()


def _let_go(serial: int) -> None:
    """A node with an index has died."""
    _free_indices.append(_indices.pop(serial))


def set_label(node: Node, label: str) -> None:
    """Attach a label that graphs and listings show."""
    if node.kind == DUAL and node.d0 is not None:
        node.payload.label = label
        node = node.d0
    _labels[node] = label


def label_of(node: Node) -> str | None:
    """The label of a node, if it has one."""
    return _labels.get(node.d0 if node.kind == DUAL and node.d0 is not None else node)


def set_caller(node: Node, function: str) -> None:
    """Note which function of this project the user called for an access to memory."""
    _callers[node] = function


def caller_of(node: Node) -> str | None:
    """The function of this project that the user called for an access to memory, if that is known."""
    return _callers.get(node)


def are_any() -> bool:
    """Whether anything is known of any node."""
    return bool(_labels or _callers)


def copy_labels(new: Node, node: Node) -> None:
    """Give a node what is known of the one that it stands for."""
    if node in _labels:
        _labels[new] = _labels[node]
    if node in _callers:
        _callers[new] = _callers[node]
