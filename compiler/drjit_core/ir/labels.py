"""Public indices and labels of nodes: rarely asked for, hence kept beside them."""

from __future__ import annotations

import itertools
import weakref

from .node import Node

__all__ = ["index_of", "label_of", "set_label"]

_indices: weakref.WeakKeyDictionary[Node, int] = weakref.WeakKeyDictionary()
_labels: weakref.WeakKeyDictionary[Node, str] = weakref.WeakKeyDictionary()
_free_indices: list[int] = []
_next_index = itertools.count(1).__next__


def index_of(node: Node, reuse: bool = True) -> int:
    """Public index of a node, handed out when first asked for; indices of dead nodes are used again if ``reuse``."""
    index = _indices.get(node)
    if index is None:
        index = _free_indices.pop() if reuse and _free_indices else _next_index()
        _indices[node] = index
        weakref.finalize(node, _free_indices.append, index).atexit = False
    return index


def set_label(node: Node, label: str) -> None:
    """Attach a label that graphs and listings show."""
    _labels[node] = label


def label_of(node: Node) -> str | None:
    """The label of a node, if it has one."""
    return _labels.get(node)
