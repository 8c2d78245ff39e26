"""The node of the graph: one traced operation on one flat array.

Invariants
----------
* A node is immutable but for one event: evaluation turns it into kind ``EVALUATED`` (:meth:`Node.become_evaluated`),
  which replaces its operands by a buffer.  Its ``id``, ``type`` and ``size`` never change.  Planning puts equal things
  in place of others: a copy for the target of a write, regions that compute more by themselves for those of a branch.
* Operands are held in the fixed slots ``d0 … d3``; a region (``payload`` of a ``LOOP``) holds its nodes in tuples.
  Lifetimes are CPython's: a node lives as long as an array, another node, a region or an AD edge holds it.
* ``size`` is the number of elements: 0 only for ``INVALID``, and 1 broadcasts.

What ``attr`` and ``payload`` mean, by kind
-------------------------------------------
=============  ==============================  =====================================
kind           ``attr``                        ``payload``
=============  ==============================  =====================================
LITERAL        PARAMETER, BAKED or SHAPE       the value, normalised to the type
BOUND                                          the value now, for the first launch
EVALUATED                                      the buffer
COUNTER        serial number of the extent
               that is its size, or 0
ACCESS                                         first position, and 1 or -1
PHI            position among the formals;     whether it is memory
               -1, -2: a mask of the region;
               -3: memory of a deferred
               statement (see :mod:`.deferred`)
SCATTER        reduction (ReduceOp value)      scatter mode (ReduceMode value)
REDUCE         reduction (ReduceOp value)
LOOP                                           the :class:`drjit_core.ir.region.Loop`
COND                                           the :class:`drjit_core.ir.region.Cond`
CALL                                           the :class:`drjit_core.ir.region.Call`
RESULT         position among the results      whether it is memory
FETCH
=============  ==============================  =====================================

A ``SCATTER`` has the size of its target; the number of elements it writes is the width of its other operands.
The operand of a ``FETCH`` is a ``SCATTER``; it has the width of that, and belongs to the same region.
The last operand of a ``GATHER`` is the mask of the region that it was traced in, if any.

``scope`` is the id of the innermost region whose formals a node depends on (see :mod:`.region`), 0 if there is none.
"""

from __future__ import annotations

import itertools
import weakref
from typing import Any, NoReturn, SupportsIndex

from ..ops.table import EVALUATED, OPS
from ..types import TYPES

__all__ = ["BAKED", "Node", "PARAMETER", "SHAPE", "index_of", "label_of", "new_id", "set_label"]

#: Classes of literals: a kernel parameter; part of the program; a parameter even if its value is 0 or 1 (shapes).
PARAMETER, BAKED, SHAPE = 0, 1, 2

#: Serial numbers, never reused: value-numbering keys of dead operands stay harmless.
new_id = itertools.count(1).__next__


class Node:
    """One operation of the traced program (see the module's documentation for its invariants)."""

    __slots__ = ("__weakref__", "attr", "d0", "d1", "d2", "d3", "id", "kind", "payload", "scope", "size", "type")

    kind: int
    type: int
    size: int
    id: int
    d0: Node | None
    d1: Node | None
    d2: Node | None
    d3: Node | None
    attr: int
    payload: Any
    scope: int

    def become_evaluated(self, buffer: Any) -> None:
        """Replace the operation by its result, releasing the operands."""
        self.payload = buffer
        self.kind = EVALUATED
        self.attr = 0
        self.d0 = self.d1 = self.d2 = self.d3 = None

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise TypeError("cannot pickle or copy a node of the graph: it refers to memory of this process; pickle the "
                        "array that holds it, which goes by value")

    def __repr__(self) -> str:
        operands = ", ".join(f"n{d.id}" for d in (self.d0, self.d1, self.d2, self.d3) if d is not None)
        return f"<{TYPES[self.type].name} n{self.id}[{self.size}] = {OPS[self.kind].word}({operands})>"


# --- public indices and labels: rarely asked for, hence kept beside the nodes ----------------------------------------

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
