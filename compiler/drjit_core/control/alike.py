"""Loops of one element that are as wide as what they write: what their elements may do.

All elements do the same, but for what they write, one value each.  A program means the whole loop as one: what an
iteration writes, the next one reads.  But packets run one after the other, each all of its iterations, on any thread.
So an array that such a loop writes to must be accessed in one of these ways:

* Reductions by one operator, of which nothing is read: their order does not matter.
* Writes of single values, of which nothing is read: the first element does them, in order.
* Writes that are ``KEPT_APART`` or ``OF_ELEMENTS``: the caller vouches for it that each element has its own part of
  the array.
* Accesses of which each element has its own part of the array for itself, in all iterations: their positions do not
  depend on the loop, and are always the same; or they are parts of rows, of which the loop chooses one
  (``row * length + position``), and each element stays in its column.
"""

from __future__ import annotations

from typing import Any

from ..errors import SymbolicValue
from ..ir.extents import number_of
from ..ir.node import Node
from ..ir.region import CONTROL, Region, is_version, memory_of, origin_of
from ..ir.symbolic import call_site, is_same_in_all_elements
from ..ops.reductions import EXCHANGES
from ..ops.table import COUNTER, GATHER, KIND, LITERAL, NEEDS_MEMORY, SCATTER
from ..types import TYPES, ReduceOp

__all__ = ["KEPT_APART", "NEIGHBOURS", "OF_ELEMENTS", "check_alike"]

#: The mode of plain writes to arrays of which each element reads and writes a part of its own only.
KEPT_APART = 15
#: The mode of such writes where it is known which part: that of element ``k`` are the positions
#: ``(k // NEIGHBOURS * entries + entry) * NEIGHBOURS + k % NEIGHBOURS``. What has been written so is read so as long as
#: it has not been evaluated.
OF_ELEMENTS = 14
#: How many elements have their parts interleaved: no fewer than a packet of the widest registers has.
#: (Insertion sort of 16 numbers in 1M lanes: 138 ms with 16, 150 with 8, 265 with 64.)
NEIGHBOURS = 16

_ADD, _MUL = KIND["add"], KIND["mul"]


def check_alike(region: Region, width: Any, name: str, formal: Node) -> None:
    """Refuse what elements of a loop do to an array, its formal, if they would get into each other's way.

    While a program is recorded, the width may be an extent, so that what is decided by it is a guard.
    """
    plain = single = read = False
    operators: set[int] = set()
    places: set[tuple[int, ...] | None] = set()
    for node in region.nodes:
        if node.kind == GATHER or node.kind == SCATTER:
            assert node.d0 is not None and node.d1 is not None
            if origin_of(node.d0, region.id) is not formal:
                continue
            index = node.d1
            if node.kind == GATHER:
                read = True
            else:
                assert node.d2 is not None
                index = node.d2
                if node.payload in (KEPT_APART, OF_ELEMENTS):
                    return
                plain |= node.attr == ReduceOp.Identity.value or node.attr in EXCHANGES
                operators.add(node.attr)
            alone = is_same_in_all_elements(index, region.id)
            single |= alone
            places.add(None if alone else _place(index, region.id, width))
        elif (node.kind in CONTROL or NEEDS_MEMORY[node.kind]) and any(
                is_version(version) and origin_of(version, region.id) is formal
                for version in ((*node.payload.memory(), *node.payload.sources()) if node.kind in CONTROL else
                                memory_of(node))):
            read = plain = True
            places.add(None)
    if not operators or not read and (len(operators) == 1 and not plain or single and places == {None}):
        return
    if len(places) > 1 or None in places or read and any(len(place) == 1 for place in places if place is not None):
        width = number_of(width)[0]
        raise SymbolicValue(
            f"{call_site('while_loop')}(): this symbolic loop of one element writes {width} values at once, and so has "
            f"{width} elements, which run in no order; but what one of them writes to {name}, another one may read or "
            "write in another iteration. If each element keeps to places of its own, make the state as wide (such as a "
            f"counter of {width} elements instead of one); run the loop with mode='evaluated' otherwise.")


def _place(index: Node, region: int, width: Any) -> tuple[int, ...] | None:
    """What is equal for accesses of which each element has a part of an array for itself; ``None`` if that is unknown.

    It is the length of a row, or 0, the first position in it, and the distance of two; or a node, whose elements may be
    equal.
    """
    length, base, step = 0, 0, 0
    terms = [index]
    while terms:
        term = terms.pop()
        if term.kind == _ADD:
            assert term.d0 is not None and term.d1 is not None
            terms += (term.d0, term.d1)
        elif term.kind == LITERAL:
            base += _signed(term)
        elif not step and (found := _step(term)):
            step = found
        elif not length and term.kind == _MUL:
            assert term.d0 is not None and term.d1 is not None
            row, factor = (term.d0, term.d1) if term.d1.kind == LITERAL else (term.d1, term.d0)
            if factor.kind != LITERAL or not is_same_in_all_elements(row, region):
                break
            length = _signed(factor)
        else:
            break
    else:
        first = base % length if length > 0 else base
        if step > 0 and (not length or first + step * (width - 1) < length):
            return length, first, step
    return None if index.scope == region else (index.id,)


def _signed(literal: Node) -> int:
    """An integer as it was before it has wrapped around."""
    bits, value = TYPES[literal.type].bits, int(literal.payload)
    return value - (value >> bits - 1 << bits)


def _step(term: Node) -> int:
    """The factor of a multiple of the element's position; 0 if a value is none."""
    if term.kind == COUNTER:
        return 1
    if term.kind == _MUL:
        assert term.d0 is not None and term.d1 is not None
        for counter, factor in ((term.d0, term.d1), (term.d1, term.d0)):
            if counter.kind == COUNTER and factor.kind == LITERAL:
                return _signed(factor)
    return 0
