"""Order: sorting, positions of the smallest and largest elements, medians, positions of set elements of masks.

Each is a step of its own, which reads its input from memory. But for :func:`compress`, the size of whose result depends
on values, nothing is evaluated here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import drjit_core as core
from drjit_core import Node, cast, literal, ops

from .._access.extents import alike
from .._access.slicing import TRUE, normalise_axes, normalise_axis, strided
from .._arrays.broadcasting import concatenate, make, transposed
from .._arrays.tensor import TensorBase
from .._base.arguments import require_bool
from .._base.array import ArrayBase
from .._base.errors import CORE_ERRORS, ArgumentError, SizeError, describe, translate
from .._base.nodes import broadcast, exact_size, number_of
from .._base.types import SCALAR, UINT32, UINT64, reshape, retype
from .._base.typing import ArrayT
from .._base.values import plain_scalar
from .._promotion.promote import wrap

__all__ = ["argmax", "argmin", "argsort", "compress", "median", "require_positions", "set_positions", "sort"]


def _require_array(function: str, value: Any) -> Any:
    if not isinstance(value, ArrayBase):
        raise TypeError(f"{function}(): 'value' must be a Dr.Jit array or tensor, found {describe(value)}.")
    return value


def require_positions(function: str, array: Any, size: int) -> None:
    """Raise a ``SizeError`` for rows of more elements than the backend of an array, or of a type, counts."""
    most = core.limits(array._where).row
    if size > most:
        raise SizeError(f"{function}(): positions among {size} elements do not fit into 32 bits (on this backend, at "
                        f"most {most} elements do).")


# --- sorting ---------------------------------------------------------------------------------------------------------


def _sorted(node: Node, length: int, positions: bool, descending: bool) -> Node:
    """Rows of neighbours in order, or the positions of their elements."""
    type_ = UINT32 if positions else node.type
    if node.size <= 1 or length == 1:
        return literal(UINT32, 0, node.size) if positions else node
    extents = (1, 0, 1) if length == node.size else (0, length, 1)
    return core.step("sort", [node], [(type_, node.size)], (int(positions), int(descending)), extents)[0]


def _sort_numbers(function: str, array: Any, positions: bool, descending: bool) -> Any:
    """The components of an array of numbers, in order."""
    if array._depth != 1:
        raise TypeError(f"{function}(): {describe(array)} has no axis of elements to sort along.")
    nodes = array._nodes()
    numbers = [number_of(node) for node in nodes]
    order = sorted(range(len(nodes))[::-1 if descending else 1], key=lambda k: _key(numbers[k]))
    if descending:
        order = order[::-1]
    if positions:
        return wrap(retype(type(array), UINT32), [literal(UINT32, position) for position in order])
    return wrap(type(array), [nodes[position] for position in order])


def _key(number: Any) -> tuple[bool, Any]:
    """What orders numbers: NaN comes last."""
    return (False, number) if number == number else (True, 0)


def _sort(function: str, value: Any, axis: Any, descending: Any, positions: bool) -> Any:
    array, descending = _require_array(function, value), require_bool(function, "descending", descending)
    if array._kind not in "biuf":
        raise TypeError(f"{function}(): the elements of {describe(array)} have no order.")
    cls = retype(type(array), UINT32) if positions else type(array)
    try:
        if isinstance(array, TensorBase):
            shape: tuple[int, ...] = array._s
            require_positions(function, array, max(shape, default=1))
            if not shape:
                raise ArgumentError(f"{function}(): a tensor without dimensions has no axis to sort along.")
            place = normalise_axis(function, axis, len(shape))
            node, order = array._n, [k for k in range(len(shape)) if k != place] + [place]
            moved = shape
            if place != len(shape) - 1:
                node, moved = transposed(node, shape, tuple(order))
            node = _sorted(node, shape[place], positions, descending) if node.size else \
                core.invalid(UINT32) if positions else node
            if place != len(shape) - 1:
                node, moved = transposed(node, moved, tuple(order.index(k) for k in range(len(shape))))
            return make(cls, node, moved)
        ndim = array._depth + array._dynamic
        place = normalise_axis(function, axis, ndim)
        if not array._dynamic:
            return _sort_numbers(function, array, positions, descending)
        if place != array._depth:
            raise TypeError(f"{function}(): {describe(array)} is sorted along its last axis only, each component by "
                            f"itself; found axis={axis}.")
        nodes = alike(array, function)
        require_positions(function, array, max([node.size for node in nodes], default=0))
        return wrap(cls, [_sorted(node, node.size, positions, descending) for node in nodes])
    except CORE_ERRORS as error:
        raise translate(error, function) from None


def sort(value: ArrayT, /, axis: int = -1, descending: bool = False) -> ArrayT:
    """The elements of an array or tensor in order, along one axis.

    ``axis`` is the axis of a tensor, by default the last one; of nested arrays, each component is sorted by itself.
    Equal elements keep their order, also with ``descending=True``. NaN counts as larger than any number, whatever its
    sign, and zeros of either sign are equal; masks are ordered like 0 and 1. Type and shape are those of the input.
    A radix sort: its time does not depend on the order of the input.

    Raises a ``TypeError`` for anything but arrays and for axes that there are not, and a ``RuntimeError`` in symbolic
    loops, since it needs the values of all elements. Evaluates nothing.

    >>> from drjit.llvm import Float, TensorXi
    >>> dr.sort(Float(3, -1, 2))
    [-1, 2, 3]
    >>> dr.sort(TensorXi([[3, 1, 2], [4, 6, 5]]), descending=True)
    [[3, 2, 1],
     [6, 5, 4]]
    """
    return _sort("drjit.sort", value, axis, descending, False)  # type: ignore[no-any-return]


def argsort(value: ArrayBase, /, axis: int = -1, descending: bool = False) -> Any:
    """The positions of the elements of an array or tensor in order, along one axis: unsigned integers of 32 bits.

    ``dr.gather(type(x), x, dr.argsort(x))`` is sorted. See :func:`sort` for the order, axes and errors: it is stable.

    >>> from drjit.llvm import Float
    >>> dr.argsort(Float(3, -1, 2))
    [1, 2, 0]
    >>> dr.argsort(Float(1, 0, 1), descending=True)
    [0, 2, 1]
    """
    return _sort("drjit.argsort", value, axis, descending, True)


# --- positions of extremes -------------------------------------------------------------------------------------------


def _extreme(node: Node, extents: tuple[int, int, int], largest: bool) -> Node:
    """Positions of the best elements along the middle one of three extents."""
    outer, length, inner = extents
    if length == 1 or node.kind == core.KIND["literal"]:
        return literal(UINT32, 0, outer * inner)
    if outer == 1:
        extents = (1, 0, inner)
    return core.step("extremum", [node], [(UINT32, outer * inner)], (int(largest),), extents)[0]


def _first_extreme(nodes: Sequence[Node], largest: bool) -> Node:
    """The number of the node with the best element, for each position."""
    zero, best, place = literal(UINT32, 0), nodes[0], literal(UINT32, 0)
    for number, node in enumerate(nodes[1:], 1):
        wins = ops.gt(node, best) if largest else ops.lt(node, best)
        if core.TYPES[node.type].kind == "f":  # whatever is a number is better than NaN
            wins = ops.or_(wins, ops.and_(ops.neq(best, best), ops.eq(node, node)))
        best, place = ops.select(wins, node, best), ops.select(wins, literal(UINT32, number), ops.add(place, zero))
    return broadcast(place, max(node.size for node in nodes)) if place.size == 1 else place


def _as_integers(nodes: Sequence[Node]) -> list[Node]:
    """Masks as integers, which can be compared."""
    return [cast(node, UINT32) if core.TYPES[node.type].kind == "b" else node for node in nodes]


def _require_elements(function: str, count: int, array: Any) -> None:
    if not count:
        raise SizeError(f"{function}(): there is no such position among no elements ({describe(array)}).")


def _argextreme(function: str, value: Any, axis: Any, keepdims: Any, largest: bool) -> Any:
    array, keepdims = _require_array(function, value), require_bool(function, "keepdims", keepdims)
    try:
        if isinstance(array, TensorBase):
            return _of_tensor(function, array, axis, keepdims, largest)
        shape, nodes = array._static_shape(), array._nodes()
        depth, dynamic = array._depth, array._dynamic
        if axis is not None:
            axis = normalise_axis(function, axis, depth + dynamic)
        if keepdims and not (dynamic and (axis == depth or axis is None and not depth)):
            raise ArgumentError(f"{function}(): 'keepdims=True' is only supported for tensor types or along a trailing "
                                "dynamic axis.")
        if dynamic and (axis == depth or axis is None):
            width = array._width(function)
            _require_elements(function, width * len(nodes), array)
            rows = [broadcast(node, width) for node in nodes]
            if axis is None and len(rows) > 1:
                rows = [concatenate(rows)]
            require_positions(function, array, rows[0].size)
            found = [_extreme(row, (1, row.size, 1), largest) for row in rows]
            target = array._leaf if axis is None else type(array)
            return wrap(retype(target, UINT32), found)
        axes = [k for k in range(depth) if axis is None or k == axis]
        kept = tuple(array._record.shape[k] for k in range(depth) if k not in axes)
        return _of_components(function, array, nodes, shape, axes, kept, largest)
    except CORE_ERRORS as error:
        raise translate(error, function) from None


def _of_components(function: str, array: Any, nodes: Sequence[Node], shape: tuple[int, ...], axes: list[int],
                   kept: tuple[int, ...], largest: bool) -> Any:
    length = math.prod(shape[k] for k in axes)
    _require_elements(function, length, array)
    inner = math.prod(shape[axes[-1] + 1:])
    nodes, found = _as_integers(nodes), []
    for start in range(0, len(nodes), inner * length):
        found += [_first_extreme(nodes[column:column + (length - 1) * inner + 1:inner], largest)
                  for column in range(start, start + inner)]
    target = retype(reshape(type(array), kept), UINT32) if kept or array._dynamic else None
    return number_of(found[0]) if target is None else wrap(target, found)


def _of_tensor(function: str, tensor: Any, axis: Any, keepdims: bool, largest: bool) -> Any:
    shape, node = tensor._s, tensor._n
    cls = retype(type(tensor), UINT32)
    place = None if axis is None else normalise_axis(function, axis, len(shape))
    if place is None:
        outer, length, inner = 1, node.size, 1
    else:
        outer, length, inner = math.prod(shape[:place]), shape[place], math.prod(shape[place + 1:])
    require_positions(function, tensor, length)
    kept = tuple(1 if place is None or k == place else size for k, size in enumerate(shape)
                 if keepdims or place is not None and k != place)
    if place is not None and not outer * inner:
        return make(cls, core.invalid(UINT32), kept)
    _require_elements(function, length, tensor)
    found = _extreme(node, (outer, length, inner), largest)
    if place is None and not keepdims and cls._dynamic and cls._plain is cls._leaf:
        return wrap(cls._leaf, [found])
    return make(cls, found, kept)


def argmin(value: ArrayBase, /, axis: int | None = None, keepdims: bool = False) -> Any:
    """The position of the smallest element: unsigned integers of 32 bits.

    ``axis=None`` looks at all elements, in C order; an integer along that axis, which the result has with size 1 if
    ``keepdims`` is set, and otherwise not at all. Of equal elements it is the first one. NaN is passed over, as by
    :func:`min`; the position is 0 where there is nothing else.

    Raises a ``TypeError`` for anything but arrays and for axes that there are not, a ``RuntimeError`` where there are
    no elements, and in symbolic loops along dynamic axes. Evaluates nothing.

    >>> from drjit.llvm import Float, TensorXf
    >>> dr.argmin(Float(3, 1, 2))
    [1]
    >>> dr.argmin(TensorXf([[1, 5, 0], [7, 2, 3]]), axis=1)
    [2, 1]
    """
    return _argextreme("drjit.argmin", value, axis, keepdims, False)


def argmax(value: ArrayBase, /, axis: int | None = None, keepdims: bool = False) -> Any:
    """The position of the largest element: unsigned integers of 32 bits.

    See :func:`argmin`.

    >>> from drjit.llvm import Float, TensorXf
    >>> dr.argmax(Float(3, 1, 2))
    [0]
    >>> dr.argmax(TensorXf([[1, 5, 0], [7, 2, 3]]), axis=0)
    [1, 0, 1]
    """
    return _argextreme("drjit.argmax", value, axis, keepdims, True)


# --- medians ---------------------------------------------------------------------------------------------------------


def median(value: Any, /, axis: int | tuple[int, ...] | None = -1, keepdims: bool = False,
           return_index: bool = False) -> Any:
    """The median along one or more axes: of ``n`` elements in order, the one at the place ``(n - 1) // 2``.

    Of an even number of elements that is the lower one of the two in the middle, so that it is an element. NaN counts
    as larger than any number. ``axis=None`` looks at all elements, a tuple of axes at those in C order.
    ``keepdims=True`` keeps the axes with size 1. With ``return_index=True`` the result is a pair, with the positions of
    the medians (unsigned integers of 32 bits).

    Of a sequence of numbers, it is a number. Raises a ``TypeError`` for anything else but arrays and for axes that
    there are not, a ``RuntimeError`` where there are no elements, and in symbolic loops. Evaluates nothing.

    >>> from drjit.llvm import Float, TensorXf
    >>> dr.median(Float(5, 1, 3))
    [3]
    >>> dr.median(TensorXf([[1, 5, 2], [7, 0, 3]]), axis=1)
    [2, 3]
    """
    function = "drjit.median"
    keepdims = require_bool(function, "keepdims", keepdims)
    return_index = require_bool(function, "return_index", return_index)
    if plain_scalar(value) is not None:
        return (value, 0) if return_index else value
    if isinstance(value, (list, tuple)) and value and all(plain_scalar(entry) is not None for entry in value):
        if axis not in (None, 0, -1) or keepdims:
            raise ArgumentError(f"{function}(): a sequence of numbers has one axis, which cannot be kept.")
        place = sorted(range(len(value)), key=lambda k: _key(value[k]))[(len(value) - 1) // 2]
        return (value[place], place) if return_index else value[place]
    array = _require_array(function, value)
    try:
        if isinstance(array, TensorBase):
            return _median_of_tensor(function, array, axis, keepdims, return_index)
        if array._depth or not array._dynamic:
            raise TypeError(f"{function}(): 'value' must be a flat array or a tensor, found {describe(array)}.")
        if axis is not None:
            normalise_axes(function, axis, 1)
        _require_elements(function, array._n.size, array)
        found = _medians(array._n, exact_size(array._n), return_index)
        results = [wrap(cls, [node]) for cls, node in zip((type(array), retype(type(array), UINT32)), found,
                                                         strict=False)]
        return tuple(results) if return_index else results[0]
    except CORE_ERRORS as error:
        raise translate(error, function) from None


def _medians(node: Node, length: int, with_positions: bool) -> list[Node]:
    """The medians of rows, and their positions."""
    rows, rank = node.size // length, (length - 1) // 2
    if not with_positions:
        return [strided(_sorted(node, length, False, False), (rows,), (length,), rank)]
    places = strided(_sorted(node, length, True, False), (rows,), (length,), rank)
    starts = ops.mul(core.counter(rows, UINT32), literal(UINT32, length))
    values = core.gather(node, ops.add(starts, places), TRUE, harmless=True)
    return [values, places]


def _median_of_tensor(function: str, tensor: Any, axis: Any, keepdims: bool, return_index: bool) -> Any:
    shape = tensor._s
    axes = tuple(range(len(shape))) if axis is None else normalise_axes(function, axis, len(shape))
    others = tuple(k for k in range(len(shape)) if k not in axes)
    length = math.prod(shape[k] for k in axes)
    kept = tuple(1 if k in axes else size for k, size in enumerate(shape) if keepdims or k not in axes)
    types = (type(tensor), retype(type(tensor), UINT32))
    if not math.prod(kept):
        found = [core.nothing_of(tensor._n), core.invalid(UINT32)]
    else:
        _require_elements(function, length, tensor)
        node = tensor._n
        order = (*others, *sorted(axes))
        if order != tuple(range(len(shape))):
            node, _ = transposed(node, shape, order)
        found = _medians(node, length, return_index)
    results = [make(cls, node, kept) for cls, node in zip(types, found, strict=False)]
    return tuple(results[:2]) if return_index else results[0]


# --- masks -----------------------------------------------------------------------------------------------------------

#: Elements of a mask that are counted together.
_CHUNK = 1 << 14


def compress(arg: ArrayBase, /) -> Any:
    """The positions of the elements of a mask that are set, in order: unsigned integers of 32 bits.

    Reduces a stream to the elements that are active::

        indices = dr.compress(active)
        data = dr.gather(type(data), data, indices)

    How many there are follows from the values: the mask is evaluated, and the function waits for it. Raises a
    ``TypeError`` for anything but a flat array of masks, and a ``RuntimeError`` in symbolic loops.

    >>> from drjit.llvm import Bool
    >>> dr.compress(Bool(True, False, True))
    [0, 2]
    """
    function = "drjit.compress"
    array: Any = arg
    if not isinstance(array, ArrayBase) or array._kind != "b" or isinstance(array, TensorBase) or \
            array._depth != int(not array._dynamic) or array._record.shape[:array._depth] not in ((), (-1,)):
        raise TypeError(f"{function}(): 'arg' must be a flat array of masks, found {describe(arg)}.")
    cls = retype(type(array), UINT32)
    if array._record.backend is SCALAR:
        return wrap(cls, [literal(UINT32, k) for k, node in enumerate(array._nodes()) if number_of(node)])
    node = array._n
    require_positions(function, array, node.size)
    try:
        return wrap(cls, [set_positions(node, cls._where)])
    except CORE_ERRORS as error:
        raise translate(error, function) from None


def set_positions(mask: core.Node, where: int = 0) -> core.Node:
    """The positions where a mask is set, in order; waits for their number."""
    size = mask.size
    if mask.kind == core.KIND["literal"]:
        return core.counter(size, UINT32, where) if size and mask.payload else core.invalid(UINT32)
    if not size:
        return core.invalid(UINT32)
    extents = (_CHUNK, 0)
    chunks = -(-core.size_of(mask) // _CHUNK)
    before, total = core.step("count", [mask], [(UINT64, chunks), (UINT64, 1)], (), extents)
    core.evaluate([before, total])
    count = core.read_size(total)
    if not count:
        return core.invalid(UINT32)
    return core.step("compress", [mask, before], [(UINT32, count)], (), extents)[0]
