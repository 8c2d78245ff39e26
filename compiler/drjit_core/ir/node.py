"""The node of the graph: one traced operation on one flat array.

Invariants
----------
* A node is immutable but for one event: evaluation turns it into kind ``EVALUATED`` (:meth:`Node.become_evaluated`),
  which replaces its operands by a buffer.  Its ``id``, ``type`` and ``size`` never change.  Planning puts equal things
  in place of others: a copy for the target of a write, regions that compute more by themselves for those of a branch.
* Operands are held in the fixed slots ``d0 … d3``, behind each of which may stand several of them, in a ``PACK``; a
  region (``payload`` of a ``LOOP``) holds its nodes in tuples.  Lifetimes are CPython's: a node lives as long as an
  array, another node, a region or an AD edge holds it.
* ``size`` is the number of elements: 0 only for ``INVALID``, and 1 broadcasts.

What ``attr`` and ``payload`` mean, by kind
-------------------------------------------
=============  ==============================  =====================================
kind           ``attr``                        ``payload``
=============  ==============================  =====================================
LITERAL        PARAMETER, BAKED or SHAPE       the value, normalised to the type
DUAL                                           the vertex (see :mod:`.dual`)
BOUND                                          the value now, for the first launch
EVALUATED                                      the buffer
COUNTER        serial number of the extent
               that is its size, or 0
ACCESS                                         first position, and 1 or -1
VIEW                                           base, extents, strides
SEGMENT        reduction (ReduceOp value)      extent of the middle one of three
                                               axes, and of the last one; how many
                                               elements are reduced to one
PHI            position among the formals;     whether it is memory (``OWN``:
               -1, -2: a mask of the region;   local memory)
               -3: memory of a deferred
               statement (see :mod:`.deferred`)
SCATTER        reduction (ReduceOp value),     scatter mode (ReduceMode value)
               or an exchange (see
               ``ops/reductions.py``)
REDUCE         reduction (ReduceOp value)
LOOP                                           the :class:`drjit_core.ir.region.Loop`
COND                                           the :class:`drjit_core.ir.region.Cond`
CALL                                           the :class:`drjit_core.ir.region.Call`
RESULT         position among the results      whether it is memory (as a ``PHI``)
FETCH
STEP           position among the results      the :class:`drjit_core.ops.steps.Step`
PACK                                           the region that it belongs to, if any
=============  ==============================  =====================================

A ``SCATTER`` has the size of its target; the number of elements it writes is the width of its other operands.
The operand of a ``FETCH`` is a ``SCATTER``; it has the width of that, and belongs to the same region.
That of a compare-and-exchange has a ``PACK`` in place of the value: what it stores, and what it expects. One that adds
sums of products has an ``OUTER`` there, and the index of the first of the elements that it adds to.  One of several
updates has a row there that stands for these (:data:`drjit_core.ir.expansion.UPDATES`), and the index 0.
The last operand of a ``GATHER`` is the mask of the region that it was traced in, if any.

``where`` is the backend that a node belongs to, a :class:`drjit_core.types.JitBackend` as a bit: that of its operands,
which have one, or none.  Literals have none, and go with all; leaves have that of who made them.

``scope`` is the id of the innermost region whose formals a node depends on (see :mod:`.region`), 0 if there is none.
"""

from __future__ import annotations

import functools
import gc
import itertools
import math
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn, SupportsIndex

from ..ops.semantics import normalise
from ..ops.table import EVALUATED, FIRST_ELEMENTWISE, LITERAL, OPS
from ..types import TYPES

__all__ = ["BAKED", "FIELDS", "PARAMETER", "SHAPE", "Node", "blank_node", "collect", "enter", "find", "find1", "find2",
           "find3", "forget", "imported_node", "live_nodes", "new_id", "new_node", "node_count", "normalise",
           "numbered_count", "remember", "remembered", "sweep", "sweep_if_large"]

#: Classes of literals: a kernel parameter; part of the program; a parameter even if its value is 0 or 1 (shapes).
PARAMETER, BAKED, SHAPE = 0, 1, 2

#: Serial numbers, never reused: value-numbering keys of dead operands stay harmless.
new_id = itertools.count(1).__next__


class Node:
    """One operation of the traced program (see the module's documentation for its invariants)."""

    __slots__ = ("__weakref__", "attr", "d0", "d1", "d2", "d3", "id", "kind", "payload", "scope", "size", "type",
                 "where")

    kind: int
    type: int
    where: int
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

    def __init_subclass__(cls) -> None:
        raise TypeError("type 'drjit_core.ir.node.Node' is not an acceptable base type")

    def __reduce_ex__(self, protocol: SupportsIndex) -> NoReturn:
        raise TypeError("cannot pickle or copy a node of the graph: it refers to memory of this process; pickle the "
                        "array that holds it, which goes by value")

    def __repr__(self) -> str:
        operands = ", ".join(f"n{d.id}" for d in (self.d0, self.d1, self.d2, self.d3) if d is not None)
        return f"<{TYPES[self.type].name} n{self.id}[{self.size}] = {OPS[self.kind].word}({operands})>"


#: A node without contents.
new_node = Node.__new__
blank_node = functools.partial(object.__new__, Node)


def imported_node() -> Node:
    """A node without contents, for an array in memory that somebody else owns, who may refer to the array.

    (In the compiled form it is of a type of its own: the collector of cycles knows no other nodes there.)
    """
    return new_node(Node)


#: What a node consists of.
FIELDS = ("kind", "type", "where", "size", "id", "d0", "d1", "d2", "d3", "attr", "payload", "scope")


def live_nodes() -> list[Node]:
    """All nodes that there are, found by a search through all objects of the process."""
    return [each for each in gc.get_objects() if type(each) is Node]


def node_count() -> int:
    """How many nodes there are: for tests, since it looks for them."""
    return len(live_nodes())


def collect(scope: int, known: Iterable[Node], parts: Sequence[Sequence[Node]], plain: bytes,
            operands: Callable[[Node], Iterable[Node]]) -> tuple[list[list[Node]], list[Node], list[Node], set[Node]]:
    """For each part of a region, the nodes that its roots need, and parts before it do not, in the order of making.

    Only those of a scope, without some that are ``known``. Of kinds that are ``plain``, all operands are values, and
    among the first three; of others, ``operands`` tells them. Also those of them that are not plain, or that may use
    memory as a value; the roots, and values that plain ones use, that are of other scopes; and the known ones that are
    needed.
    """
    seen: set[int] = set()
    result, ids = [], {node.id for node in known}
    users: list[Node] = []
    captures: dict[int, Node] = {}
    for roots in parts:
        found, stack = [], list(roots)
        while stack:
            node = stack.pop()
            if node.scope != scope or node.id in seen:
                continue
            seen.add(node.id)
            if node.id not in ids:
                found.append(node)
                stack += [operand for operand in (node.d0, node.d1, node.d2) if operand is not None] \
                    if plain[node.kind] else operands(node)
        found.sort(key=lambda node: node.id)
        result.append(found)
        users += [node for node in found if not plain[node.kind] or [
            value for value in (node.d0, node.d1, node.d2) if value is not None and value.scope == scope and
            value.payload is not None and value.payload is not False]]
        outside = {value.id: value for node in reversed(found) if plain[node.kind]
                   for value in (node.d2, node.d1, node.d0) if value is not None and value.scope != scope}
        captures |= {number: value for number, value in reversed(outside.items()) if number not in captures}
        captures |= {root.id: root for root in roots if root.scope != scope and root.id not in captures}
    return result, users, list(captures.values()), {node for node in known if node.id in seen}


# --- value numbering -------------------------------------------------------------------------------------------------

#: From what an operation is, a tuple of plain numbers, to the node.  Entries of dead nodes are swept out when the table
#: has doubled since the last sweep, which costs less per node than a death callback; a stale entry is harmless
#: meanwhile, because ids are never reused and a dead reference yields ``None``.  (The compiled form, ``node.pyx``, has
#: a table of its own, which nodes leave when they die.)
_numbered: dict[tuple[Any, ...], weakref.ref[Node]] = {}
_find = _numbered.get
_ref = weakref.ref
_limit = 8192


def find1(kind: int, a: Node, mode: int) -> Node | None:
    """The node of an elementwise operation of one operand that was traced in a mode, if there is one."""
    reference = _find((kind, a.id, mode))
    return None if reference is None else reference()


def find2(kind: int, a: Node, b: Node, mode: int) -> Node | None:
    """The node of an elementwise operation of two operands that was traced in a mode, if there is one."""
    reference = _find((kind, a.id, b.id, mode))
    return None if reference is None else reference()


def find3(kind: int, a: Node, b: Node, c: Node, mode: int) -> Node | None:
    """The node of an elementwise operation of three operands that was traced in a mode, if there is one."""
    reference = _find((kind, a.id, b.id, c.id, mode))
    return None if reference is None else reference()


def find(kind: int, type_: int, size: int, d0: Node | None, d1: Node | None, d2: Node | None, d3: Node | None,
         attr: int, payload: Any, mode: int, where: int = 0) -> Node | None:
    """The node of any operation that is not elementwise; of one without operands, where it belongs."""
    reference = _find((kind, type_, size, d0.id if d0 is not None else -where, d1.id if d1 is not None else 0,
                       d2.id if d2 is not None else 0, d3.id if d3 is not None else 0, attr, payload, mode))
    return None if reference is None else reference()


def enter(node: Node, mode: int) -> None:
    """Make a node that which is found from now on."""
    first, second, third = node.d0, node.d1, node.d2
    if node.kind >= FIRST_ELEMENTWISE and first is not None and second is not None and third is None:
        _numbered[node.kind, first.id, second.id, mode] = _ref(node)
    else:
        _numbered[_key(node, mode)] = _ref(node)
    if not node.id & _SWEEP_INTERVAL:
        sweep_if_large()


def find_literal(type_: int, size: int, value: Any, attr: int, tag: int) -> Node | None:
    """The literal of a value that its type has, whatever the mode, if anybody holds it."""
    reference = _find((LITERAL, type_, size, _key_of(value), attr, tag))
    return None if reference is None else reference()


def _key_of(value: Any) -> Any:
    if value == value:
        return value or str(value)  # -0.0 == 0.0
    return "-nan" if math.copysign(1, value) < 0 else "nan"


def enter_literal(node: Node, tag: int) -> Node:
    """Make a literal that which is found from now on; returns that of another thread if it was faster."""
    value = node.payload
    key = (LITERAL, node.type, node.size, _key_of(value), node.attr, tag)
    found = _numbered.setdefault(key, _ref(node))()
    if found is None:
        _numbered[key] = _ref(node)
        found = node
    if not node.id & _SWEEP_INTERVAL:
        sweep_if_large()
    return found


#: Every so many nodes (one less than a power of two), the table is looked at.
_SWEEP_INTERVAL = 4095


def forget(node: Node) -> None:
    """Remove the entry of a node that is about to be evaluated.

    From then on its operands may be overwritten by the host, and its own memory by a write that found no other holder:
    the same expression traced once more may have another value, and must not come upon the old node.
    """
    if node.kind == EVALUATED:
        return
    for mode in (0, -1):  # as traced usually, and with labels or log lines
        key = _key(node, mode)
        reference = _numbered.get(key)
        if reference is not None and reference() is node:
            _numbered.pop(key, None)
            return


def _key(node: Node, mode: int) -> tuple[Any, ...]:
    """The key under which tracing entered a node outside of regions."""
    kind, d0, d1, d2, d3 = node.kind, node.d0, node.d1, node.d2, node.d3
    if kind >= FIRST_ELEMENTWISE:
        assert d0 is not None
        if d1 is None:
            return kind, d0.id, mode
        return (kind, d0.id, d1.id, mode) if d2 is None else (kind, d0.id, d1.id, d2.id, mode)
    return (kind, node.type, node.size, d0.id if d0 is not None else -node.where, d1.id if d1 is not None else 0,
            d2.id if d2 is not None else 0, d3.id if d3 is not None else 0, node.attr, node.payload, mode)


def remembered(key: tuple[Any, ...]) -> Node | None:
    """The node that stands for a key of somebody's own."""
    reference = _find(key)
    return None if reference is None else reference()


def remember(key: tuple[Any, ...], node: Node) -> None:
    """Let a node stand for a key of somebody's own, as long as it lives."""
    _numbered[key] = _ref(node)


def sweep() -> None:
    """Remove the entries of dead nodes."""
    global _limit
    for key, reference in _numbered.copy().items():
        if reference() is None and _numbered.get(key) is reference:
            _numbered.pop(key, None)
    _limit = max(8192, 2 * len(_numbered))


def numbered_count() -> int:
    """How many nodes can be found, at most."""
    return len(_numbered)


def sweep_if_large() -> None:
    """Sweep if the table has grown enough to pay for it."""
    if len(_numbered) > _limit:
        sweep()
