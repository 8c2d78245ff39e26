"""Index arithmetic of tensors: shapes, broadcasting, and slice tuples, turned into positions in the flat array.

A tensor lies in C order in one flat array. A view of it is described by an *access*: a base position, the axes of the
view with the stride that each has in the flat array, and at most one block of axes whose positions come from integer
arrays. :func:`positions` turns an access into a node of indices, one for each element of the view: by the compiler's
own function, which views become reads by index with; extents and strides are parameters of the kernel, so that other
shapes are the same program.

The rules are NumPy's, with one exception: integers only remove their axis. Integer arrays are broadcast against each
other; their axes stand where the first of them stood if there is nothing but integers between them, else at the front.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import drjit_core as core
from drjit_core import (
    KIND,
    SHAPE,
    Node,
    SymbolicValue,
    cast,
    counter,
    innermost,
    is_same_in_all_elements,
    literal,
    ops,
)

from .._base.array import ArrayBase
from .._base.errors import ArgumentError, BoundsError, Site, SizeError, called, describe
from .._base.nodes import broadcast, index_type
from .._base.types import UINT32, UINT64
from .._base.values import plain_integer
from .keys import flatten, is_array_key, key_integer, positions_node, slice_positions
from .lanes import TRUE, WATCHES, lane_mask, note_read, symbolic_width

__all__ = ["TRUE", "Access", "broadcast_shapes", "broadcast_strides", "collapsed", "common_shape", "contiguous_strides",
           "expand", "flatten", "is_identity", "normalise_axes", "normalise_axis", "parse_slice", "positions", "read",
           "read_slice", "require_lanes", "strided", "write_mask"]

#: Literals of different meaning carry different tags, see drjit_core.literal.
_ARRAYS, _ROWS = 14, 17
#: Positions of at least so many elements, in rows of at least so many, are what rows and columns add up to.
_MANY, _LONG_ROW = 1 << 14, 16
_LITERAL = KIND["literal"]
#: How many numbers types of positions have: negative ones wrap around.
_COUNT_OF = {UINT32: 1 << 32, UINT64: 1 << 64}


# --- shapes ----------------------------------------------------------------------------------------------------------


def contiguous_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides of an array in C order, in elements."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))


def common_shape(shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...] | None:
    """The common shape by the rules of NumPy: aligned at the last axis, axes of size 1 go with any other."""
    rank = max(map(len, shapes))
    result = [1] * rank
    for shape in shapes:
        for axis, size in enumerate(shape, rank - len(shape)):
            if size != 1:
                if result[axis] not in (1, size):
                    return None
                result[axis] = size
    return tuple(result)


def broadcast_shapes(function: str, shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """The common shape; raises if there is none."""
    found = common_shape(shapes)
    if found is None:
        raise SizeError(f"{function}(): operands have incompatible shapes: "
                        f"{' and '.join(map(str, dict.fromkeys(shapes)))}.")
    return found


def broadcast_strides(shape: tuple[int, ...], target: tuple[int, ...]) -> tuple[int, ...]:
    """Strides through which what has a shape is read in another one: zero along axes that are repeated."""
    offset, strides = len(target) - len(shape), contiguous_strides(shape)
    return tuple([0 if axis < offset or shape[axis - offset] == 1 else strides[axis - offset]
                  for axis in range(len(target))])


def normalise_axis(site: Site, axis: Any, ndim: int, name: str = "axis") -> int:
    """An axis counted from the front."""
    found = plain_integer(axis)
    if found is None:
        raise ArgumentError(f"{called(site)}: '{name}' must be an int, found {describe(axis)} ({axis!r}).")
    if not -ndim <= found < ndim:
        which = "" if name == "axis" else f" '{name}'"
        raise ArgumentError(f"{called(site)}: out-of-bounds axis{which} (got {found}, ndim={ndim}).")
    return found % ndim


def normalise_axes(site: Site, axes: Any, ndim: int, name: str = "axis") -> tuple[int, ...]:
    """An int or a sequence of ints as axes counted from the front, all of them different."""
    found = tuple([normalise_axis(site, axis, ndim, name)
                   for axis in (axes if isinstance(axes, (tuple, list)) else (axes,))])
    if len(set(found)) != len(found):
        raise ArgumentError(f"{called(site)}: '{name}' names an axis twice ({axes!r}).")
    return found


# --- accesses --------------------------------------------------------------------------------------------------------


class Access(NamedTuple):
    """A view of a flat array in C order."""

    base: int
    sizes: tuple[int, ...]
    strides: Sequence[int | None]  # None: of the block of integer arrays
    block: Node | None = None  # positions relative to the base, for each element of the block; if that is only one, it
    # may be repeated, for each element of a symbolic loop
    lanes: Node | None = None  # which elements of the block belong to lanes that take part; None if all do
    checked: bool = True  # whether the positions of the block are known to exist
    per_lane: bool = False  # whether a symbolic loop has as many lanes as one of the integer arrays has elements

    @property
    def shape_size(self) -> int:
        return math.prod(self.sizes)


def _collapse(access: Access) -> list[tuple[int, int | None]]:
    """Sizes and strides without axes of size 1, axes merged where the stride of one continues that of the next."""
    result: list[tuple[int, int | None]] = []
    for size, stride in zip(access.sizes, access.strides, strict=True):
        if size == 1 and stride is not None:
            continue
        if result:
            outer_size, outer = result[-1]
            if outer is None and stride is None or outer is not None and stride is not None and outer == stride * size:
                result[-1] = (outer_size * size, stride)
                continue
        result.append((size, stride))
    return result


@functools.lru_cache(maxsize=4096)
def collapsed(shape: tuple[int, ...], strides: tuple[int, ...]) -> list[tuple[int, int]]:
    """Extents and strides of a view without axes of one element, axes merged where they follow each other."""
    return _collapse(Access(0, shape, strides))  # type: ignore[return-value]


def positions(access: Access, source_size: int) -> Node:
    """Indices into a flat array of ``source_size`` elements, for each element of the view in C order."""
    count = access.shape_size
    if not count:
        return core.invalid(index_type(max(count, source_size)))
    axes, start = _collapse(access), None
    if len(axes) > 1 and (1, None) in axes:  # a single position, of all elements
        start = access.block
        axes = _collapse(access._replace(strides=[0 if stride is None else stride for stride in access.strides]))
    extents, strides = zip(*axes, strict=True) if axes else ((), ())
    result = core.positions(source_size, access.base, extents, strides, access.block)
    return result if start is None else ops.add(result, cast(start, result.type))


def _wrapped(scalar: int, value: int, tag: int) -> Node:
    return literal(scalar, value % _COUNT_OF[scalar], 1, SHAPE, tag=tag)


def is_identity(access: Access, source_size: int) -> bool:
    """Whether a view is the whole array in its own order."""
    if access.base or access.shape_size != source_size:
        return False
    axes = _collapse(access)
    return not axes or len(axes) == 1 and axes[0][1] == 1


def read(source: Node, access: Access) -> Node:
    """The elements of a view in C order."""
    if WATCHES:
        note_read(source)
    count = access.shape_size
    if not count:
        return core.nothing_of(source)
    if access.block is None:
        axes = _collapse(access)
        if len(axes) <= 1:
            size, stride = axes[0] if axes else (1, 1)
            if stride:
                return core.access(source, access.base, stride, size)
        else:
            found = core.view(source, access.base, *zip(*axes, strict=True))
            if found is not None:
                return found
    index = _positions_by_rows(access, source.size) if count >= _MANY and access.block is not None else None
    if index is None:
        index = positions(access, source.size)
    return core.gather(source, index, _block_mask(access), harmless=access.checked)


def _positions_by_rows(access: Access, source_size: int) -> Node | None:
    """What :func:`positions` returns of a view with a block, without a division for each element; if rows are long."""
    *outer, (size, stride) = _collapse(access)
    sizes, strides = tuple(extent for extent, _ in outer), tuple(step for _, step in outer)
    count = math.prod(sizes)
    if count < 2 or size < _LONG_ROW:
        return None
    block = access.block
    assert block is not None
    scalar = block.type
    if stride is None:
        within, block = cast(block, scalar), None
    else:
        within = counter(size, scalar)
        if stride != 1:
            within = ops.mul(within, _wrapped(scalar, stride, _ROWS))
    columns = core.view(within, 0, (count, size), (0, 1))
    if columns is None:
        return None
    start = cast(positions(Access(access.base, sizes, strides, block), source_size), scalar)
    rows = core.view(start, 0, (count, size), (1, 0))
    return None if rows is None else ops.add(rows, columns)


def read_slice(source: Node, start: int, count: int, step: int) -> Node:
    """Elements of a flat array at regular distances: what :func:`read` returns of such a view, by a shorter way."""
    if WATCHES:
        note_read(source)
    return core.access(source, start, step, count)


def _block_mask(access: Access) -> Node:
    """The mask of the block for each element of the view."""
    if access.lanes is None:
        return TRUE
    if access.lanes.size in (1, access.shape_size):
        return access.lanes
    return strided(access.lanes, access.sizes, [1 if stride is None else 0 for stride in access.strides])


def write_mask(access: Access, shape: tuple[int, ...], value: Node, value_shape: tuple[int, ...]) -> Node:
    """Which elements of a view are written, given a value and its shape before broadcasting: see :mod:`.lanes`."""
    mask = _block_mask(access)
    lanes = lane_mask(value.size) if access.block is None or len(value_shape) < 2 else None
    return mask if lanes is None else ops.and_(mask, expand(lanes, value_shape, shape))


def require_lanes(function: str, access: Access, value: Node, value_shape: tuple[int, ...]) -> None:
    """Refuse to write several elements once, in a symbolic loop, whose lanes would have to do it together."""
    width = symbolic_width()
    if width > 1 < access.shape_size and not access.per_lane and \
            (value.size != width or access.block is not None and len(value_shape) > 1):
        region = core.innermost()
        noun = "loop" if region is None else region.noun
        raise SymbolicValue(
            f"{function}(): this assignment to {access.shape_size} elements is part of a symbolic {noun} with {width} "
            "elements, each of which writes if it takes part: one value, or a value or index for each element of the "
            f"{noun}. Assign before the {noun}, write one value after the other, or run the {noun} with "
            "mode='evaluated'.")


def strided(source: Node, sizes: Sequence[int], strides: Sequence[int], base: int = 0) -> Node:
    """The elements of a view with given sizes and strides, in C order."""
    return read(source, Access(base, tuple(sizes), tuple(strides)))


# --- slice tuples ----------------------------------------------------------------------------------------------------


def parse_slice(function: str, shape: tuple[int, ...], key: Any) -> tuple[Access, tuple[int, ...]]:
    """The access of a slice expression, and the shape of its result.

    ``key`` is what stood in brackets: integers, slices, integer arrays, ``None``, at most one ellipsis, or a tuple of
    those.
    """
    entries = key if key.__class__ is tuple else (key,)
    consuming = 0
    ellipsis = None
    for number, entry in enumerate(entries):
        if entry is ...:
            if ellipsis is not None:
                raise BoundsError(f"{function}(): multiple ellipses (...) are not allowed.")
            ellipsis = number
        elif entry is not None:
            consuming += 1
    if consuming > len(shape):
        raise BoundsError(f"{function}(): too many indices (found {consuming} for an array with {len(shape)} "
                         f"dimension{'s' if len(shape) != 1 else ''}).")
    fill = (slice(None),) * (len(shape) - consuming)
    if ellipsis is None:
        entries = (*entries, *fill)
    else:
        entries = (*entries[:ellipsis], *fill, *entries[ellipsis + 1:])

    source = contiguous_strides(shape)
    base, axis = 0, 0
    sizes: list[int] = []
    strides: list[int | None] = []
    arrays: list[tuple[Node, tuple[int, ...], int]] = []
    checked = True
    where, previous = -1, -2  # position of the block in the result; position at which the last array was seen
    for entry in entries:
        if entry is None:
            sizes.append(1)
            strides.append(0)
            continue
        size, stride = shape[axis], source[axis]
        kind = entry.__class__
        position = entry if kind is int else None if kind is slice else key_integer(entry)
        if position is not None:
            if not -size <= position < size:
                raise BoundsError(f"{function}(): index {position} is out of bounds for axis {axis} with size {size}.")
            base += position % size * stride
        elif kind is slice:
            chosen = slice_positions(function, entry, size, axis)
            base += chosen.start * stride if chosen else 0
            sizes.append(len(chosen))
            strides.append(chosen.step * stride)
        elif is_array_key(entry):
            node, array_shape = positions_node(function, entry, size, axis, len(shape) == 1)
            checked = checked and (node.kind == _LITERAL or not (isinstance(entry, ArrayBase) and entry._dynamic))
            if not size and 0 not in array_shape:
                raise BoundsError(f"{function}(): axis {axis} is empty.")
            if where < 0:
                where = len(sizes)
            elif previous != len(sizes):
                where = 0
            previous = len(sizes)
            arrays.append((node, array_shape, stride))
        else:
            raise ArgumentError(f"{function}(): unsupported type '{describe(entry)}' in slice expression (expected "
                            "integers, slices, integer arrays, None or an ellipsis).")
        axis += 1
    if not arrays:
        return Access(base, tuple(sizes), tuple(strides)), tuple(sizes)
    if innermost() is not None and math.prod(sizes) > 1:
        # such a loop is only as wide as what it writes: its single values are as many, and yet name one position
        arrays = [(node, (1,) * len(array_shape) if is_same_in_all_elements(node) else array_shape, stride)
                  for node, array_shape, stride in arrays]
    block_shape = broadcast_shapes(function, [array_shape for _, array_shape, _ in arrays])
    block, lanes = _block(arrays, block_shape, math.prod(shape))
    sizes[where:where] = [math.prod(block_shape)]
    strides[where:where] = [None]
    result = (*sizes[:where], *block_shape, *sizes[where + 1:])
    width = symbolic_width()
    per_lane = width > 1 and any(node.size == width for node, _, _ in arrays)
    return Access(base, tuple(sizes), tuple(strides), block, lanes, checked, per_lane), tuple(result)


def _block(arrays: list[tuple[Node, tuple[int, ...], int]], shape: tuple[int, ...], source_size: int,
           ) -> tuple[Node, Node | None]:
    """Positions that several integer arrays name together, and those of them whose lanes take part."""
    scalar = UINT64 if any(core.TYPES[node.type].bits == 64 for node, _, _ in arrays) else index_type(source_size)
    count = math.prod(shape)
    if not count:
        return core.invalid(scalar), None
    result: Node | None = None
    lanes: Node | None = None
    for number, (node, array_shape, stride) in enumerate(arrays):
        own = lane_mask(node.size)
        if own is not None:
            own = expand(own, array_shape, shape)
            lanes = own if lanes is None else ops.and_(lanes, own)
        term = cast(node if math.prod(array_shape) == 1 else expand(node, array_shape, shape), scalar)
        if stride != 1:
            term = ops.mul(term, _wrapped(scalar, stride, _ARRAYS - number))
        result = term if result is None else ops.add(result, term)
    assert result is not None
    return result if count == 1 else broadcast(result, count), lanes


def expand(node: Node, shape: tuple[int, ...], target: tuple[int, ...]) -> Node:
    """A tensor's node broadcast to another shape; one of size 1 stays as it is, since it goes with any other."""
    if shape == target or node.size == 1:
        return node
    return strided(node, target, broadcast_strides(shape, target))
