"""Making nodes: the general form, and the leaves of the graph.

:mod:`drjit_core.ir.trace` builds on this with the operations of the table.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Sequence
from typing import Any

from .. import flags
from ..context import current, state
from ..errors import IncompatibleBackends, IncompatibleSizes
from ..flags import DEBUG
from ..ops.table import (
    BITCAST,
    COUNTER,
    EVALUATED,
    GATHER,
    INVALID,
    IS_NUMBERED,
    LITERAL,
    OPS,
    PACK,
    PHI,
    SCATTER,
    UNDEFINED,
)
from ..types import TYPES, UINT32, UINT64, JitBackend
from .extents import Extent, common_size, sized, sized_as
from .labels import index_of, set_caller, set_label
from .node import (
    BAKED,
    PARAMETER,
    SHAPE,
    Node,
    blank_node,
    enter,
    enter_literal,
    find_literal,
    imported_node,
    new_id,
    normalise,
)
from .node import find as _find
from .symbolic import call_site, require_open, scope_of, user_line

__all__ = ["BAKED_VALUES", "announce", "apart", "append", "append_any", "append_each", "bound", "broadcast_size",
           "broadcast_size_of", "counter", "evaluated", "find", "held_literals", "invalid", "known_literal", "literal",
           "new_formal", "nothing", "pack", "resize", "sized_by", "undefined", "where_of"]

_log = logging.getLogger("drjit")


def append(kind: int, type_: int, size: int, d0: Node | None = None, d1: Node | None = None, d2: Node | None = None,
           d3: Node | None = None, attr: int = 0, payload: Any = None,
           scope: int | None = None, where: int = 0) -> Node:
    """Append a node, or find the same one if its row says that equal operations are one node.

    ``scope`` is the region that it depends on, and ``where`` a backend that it belongs to, if that does not follow from
    the operands.
    """
    context, number = current(), IS_NUMBERED[kind]
    mode = context.mode
    if number and mode >= -1:
        node = _find(kind, type_, size, d0, d1, d2, d3, attr, payload, mode, where)
        if node is not None:
            if node.scope and node.scope != context.scope and node.scope != scope:
                require_open(node)
            return node
    if scope is not None:
        depends = scope
    elif (d0 is None or not d0.scope) and (d1 is None or not d1.scope) and (d2 is None or not d2.scope) \
            and (d3 is None or not d3.scope):
        depends = 0
    else:
        depends = scope_of(d0, d1, d2, d3)
    if d0 is not None:
        where |= d0.where
        if d1 is not None:
            where |= d1.where
            if d2 is not None:
                where |= d2.where
                if d3 is not None:
                    where |= d3.where
        if where & (where - 1):
            where_of(OPS[kind].word, (d0, d1, d2, d3))
    node = blank_node()
    node.kind, node.type, node.size, node.id = kind, type_, size, new_id()
    node.d0, node.d1, node.d2, node.d3 = d0, d1, d2, d3
    node.where = where
    node.attr, node.payload = attr, payload
    node.scope = depends
    if number and mode >= -1:
        enter(node, mode)
    if mode & 1:
        announce(node)
    return node


def new_formal(type_: int, size: int, position: int, memory: Any, scope: int, where: int = 0) -> Node:
    """What stands for a variable of a region, by its position, perhaps ``memory``; or for a mask of its elements."""
    node = blank_node()
    node.kind, node.type, node.size, node.id = PHI, type_, size, new_id()
    node.d0 = node.d1 = node.d2 = node.d3 = None
    node.attr, node.payload, node.scope, node.where = position, memory, scope, where
    if current().mode & 1:
        announce(node)
    return node


def append_any(kind: int, type_: int, size: int, operands: Sequence[Node], attr: int = 0, payload: Any = None, *,
               where: int = 0) -> Node:
    """Append a node with any number of operands: those that find no slot are in a pack, behind the last one."""
    return append_each(kind, type_, size, operands, (attr,), payload, where)[0]


def append_each(kind: int, type_: int, size: int, operands: Sequence[Node], attrs: Iterable[int],
                payload: Any = None, where: int = 0) -> list[Node]:
    """Append several nodes with the same operands, which differ in their ``attr``, see :func:`append_any`."""
    scope = None
    if len(operands) > _SLOTS:
        scope = scope_of(*operands)
        operands = *operands[:_SLOTS - 1], pack(operands[_SLOTS - 1:], size, scope)
    d0, d1, d2, d3 = (*operands, None, None, None, None)[:_SLOTS]
    return [append(kind, type_, size, d0, d1, d2, d3, attr, payload, scope, where) for attr in attrs]


#: Operands that a node holds itself, and that a pack does: walks look no further in a node without memory or regions.
_SLOTS, _PACKED = 4, 3


def pack(operands: Sequence[Node], size: int, scope: int) -> Node:
    """What stands behind one slot of a node for several of its operands.

    It is no value, and its user sees through it (:func:`drjit_core.ir.region.all_operands`); it has the size of that,
    and belongs to the same region, with whatever it is told apart by.
    """
    if len(operands) > _PACKED:
        operands = *operands[:_PACKED - 1], pack(operands[_PACKED - 1:], size, scope)
    d0, d1, d2 = (*operands, None)[:_PACKED]
    return append(PACK, operands[0].type, size, d0, d1, d2, payload=scope or None, scope=scope)


def find(kind: int, type_: int, size: int, d0: Node, d1: Node, d2: Node, d3: Node | None) -> Node | None:
    """The node that :func:`append` would find."""
    return _find(kind, type_, size, d0, d1, d2, d3, 0, None, state.mode)


def announce(node: Node) -> None:
    """The slow path of a new node: debug labels and the log's line per variable."""
    if state.flags & DEBUG:
        label = source_line()
        if label:
            set_label(node, label)
        if node.kind == GATHER or node.kind == SCATTER:
            set_caller(node, call_site(""))
    if flags.log_variables:
        operands = [f"r{index_of(d)}" for d in (node.d0, node.d1, node.d2, node.d3) if d is not None]
        index, name = f"r{index_of(node)}", TYPES[node.type].name
        size = f"[{node.size}]" if node.size != 1 else ""
        if node.kind == LITERAL:
            text = f"{node.payload:g}" if TYPES[node.type].is_float else str(node.payload)
        else:
            text = f"{OPS[node.kind].word}({', '.join(operands)})"
        _log.debug("jit_var_new(): %s %s%s = %s", name, index, size, text)


def source_line() -> str | None:
    """``file:line`` of the innermost frame that is the user's."""
    line = user_line()
    return None if line is None else f"{line[0]}:{line[1]}"


# --- leaves ----------------------------------------------------------------------------------------------------------

#: Literals of one element by what was asked for: those that were made, or asked for again, since the table was last
#: emptied. (Equal literals are one node as long as anybody holds it; this holds them a while, and finds them sooner.)
_literals: dict[tuple[Any, ...], Node] = {}
_MOST_LITERALS = 4096
#: The literal of a type and a number other than 0, if it is known: for operators whose operand is a Python number.
known_literal = _literals.get
_invalid: dict[int, Node] = {}


def literal(type_: int, value: Any, size: int | Extent = 1, attr: int | None = None, tag: int = 0) -> Node:
    """A constant; ``attr`` None bakes in 0, 1 and -1 and passes other values as parameters.

    ``value`` is a Python number within the range of integer types; floats are rounded.  Literals belong to no region.
    Equal ones are one node, as long as anybody holds it, whatever the flags say; and a program in which two operands
    coincide is another program than one in which they do not: parameters with different meanings get different tags,
    which keeps them apart whatever their values.
    """
    if isinstance(size, Extent):
        return sized(size, literal(type_, value, size.value, attr, size.serial))
    # NaN is no key, and 0.0 == -0.0
    short = size == 1 and not tag and value == value and (value != 0 or value.__class__ is int)
    if short:
        key = (type_, value) if attr is None and value != 0 else (type_, value, attr)
        node = known_literal(key)
        if node is not None:
            return node
    elif size == 0:
        return invalid(type_)
    result = normalise(type_, value if value == value else math.copysign(math.nan, value))
    if attr is None:
        attr = BAKED if result in BAKED_VALUES else PARAMETER
    node = find_literal(type_, size, result, attr, tag)
    if node is None:
        node = blank_node()
        node.kind, node.type, node.size, node.id = LITERAL, type_, size, new_id()
        node.d0 = node.d1 = node.d2 = node.d3 = None
        node.attr, node.payload, node.scope, node.where = attr, result, 0, 0
        node = enter_literal(node, tag)
        if current().mode & 1:
            announce(node)
    if short:
        if len(_literals) >= _MOST_LITERALS:
            _literals.clear()
        _literals[key] = node
    return node


BAKED_VALUES = (0, 1, -1)


def held_literals() -> list[Node]:
    """The literals that the table above holds, some of them more than once."""
    return list(_literals.values())


def invalid(type_: int) -> Node:
    """The array of size zero."""
    node = _invalid.get(type_)
    if node is None:
        _invalid[type_] = node = nothing(type_)
    return node


def nothing(type_: int) -> Node:
    """An array of size zero that is told apart from all others."""
    node = blank_node()
    node.kind, node.type, node.size, node.id = INVALID, type_, 0, new_id()
    node.d0 = node.d1 = node.d2 = node.d3 = None
    node.attr, node.payload, node.scope, node.where = 0, None, 0, 0
    return node


def apart(value: Node) -> Node:
    """A node of the same value, told apart from others: nothing that is computed of it is found, known or simpler."""
    if not value.size:
        return nothing(value.type)
    node = blank_node()
    node.kind, node.type, node.size, node.id = BITCAST, value.type, value.size, new_id()
    node.d0, node.d1, node.d2, node.d3 = value, None, None, None
    node.attr, node.payload, node.scope, node.where = 0, None, value.scope, value.where
    return sized_as(node, (value,))


def bound(type_: int, value: Any) -> Node:
    """A constant that is bound at the launch: the value of an extent, or a literal whose value has no meaning else."""
    if value.__class__ is Extent:
        if value.belongs():
            return state.recording.number(type_, value.value, value.expression)  # type: ignore[no-any-return]
        value = value.value
    return literal(type_, value, 1, SHAPE)


def undefined(type_: int, size: int | Extent, where: int = 0) -> Node:
    """An array on a backend whose contents do not matter until it is written to."""
    if isinstance(size, Extent):
        return sized(size, undefined(type_, size.value, where))
    return append(UNDEFINED, type_, size, where=where) if size else invalid(type_)


def counter(size: int | Extent, type_: int = UINT32, where: int = 0) -> Node:
    """0, 1, 2 … ``size - 1`` on a backend, as 32-bit (or, beyond their range, 64-bit) unsigned integers."""
    if isinstance(size, Extent):
        if type_ == UINT32 and size > 1 << 32:
            raise ValueError(f"counter(): {size.value} elements do not fit into a 32-bit index")
        return sized(size, append(COUNTER, type_, size.value, attr=size.serial, where=where) if size > 1 else
                     counter(size.value, type_, where))
    if size == 0:
        return invalid(type_)
    if type_ == UINT32 and size > 1 << 32:
        raise ValueError(f"counter(): {size} elements do not fit into a 32-bit index")
    assert type_ in (UINT32, UINT64)
    if size == 1:
        return literal(type_, 0, 1, SHAPE)
    return append(COUNTER, type_, size, None, None, None, None, 0, None, None, where)


def evaluated(type_: int, size: int, buffer: Any, where: int | None = None) -> Node:
    """The contents of a buffer that the runtime has filled or imported; they belong to its backend, unless it is said
    where."""
    node = imported_node() if buffer.read_only else blank_node()
    node.kind, node.type, node.size, node.id = EVALUATED, type_, size, new_id()
    node.d0 = node.d1 = node.d2 = node.d3 = None
    node.attr, node.payload, node.scope, node.where = 0, buffer, 0, buffer.backend.where if where is None else where
    if current().mode & 1:
        announce(node)
    return node


def sized_by(node: Node, *operands: Node) -> Node:
    """What an operation of some operands is found to be without computing it: a literal, or one of them.

    While a program is recorded, its size follows from theirs, which must go together in each replay.
    """
    if state.recording is None or node.size <= 1:
        return node
    size = common_size(node.size, operands)
    if node.kind != LITERAL or size.__class__ is int:
        return node
    return literal(node.type, node.payload, size, node.attr)


def broadcast_size(name: str, *nodes: Node) -> int:
    """Common size of operands: equal sizes, where 1 goes with any, 0 included."""
    return broadcast_size_of(name, nodes)


def broadcast_size_of(name: str, nodes: Sequence[Node]) -> int:
    """The common size of operands in a sequence, see :func:`broadcast_size`."""
    size = 1
    for node in nodes:
        if node.size != size:
            if size == 1:
                size = node.size
            elif node.size != 1:
                raise IncompatibleSizes(name, tuple([each.size for each in nodes]))
    return size


def where_of(operation: str, nodes: Iterable[Node | None]) -> int:
    """The backend that operands belong to, as a bit: 0 if none of them does.  Raises
    :class:`IncompatibleBackends` if there are two."""
    where = 0
    for node in nodes:
        if node is not None:
            where |= node.where
    if where & (where - 1):
        raise IncompatibleBackends(operation, tuple([JitBackend(1 << bit).name for bit in range(16)
                                                     if where >> bit & 1]))
    return where


def resize(node: Node, size: int) -> Node | None:
    """A node with its values at another size, if that needs no operation (equal size, or a literal), else ``None``."""
    if node.size == size:
        return node
    if node.kind == LITERAL:
        return literal(node.type, node.payload, size, node.attr)
    return None
