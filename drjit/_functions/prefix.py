"""Running reductions (scans): each element becomes the reduction of those before it.

Along the trailing dimension, and along the axes of tensors, that is a step of its own, which reads its input from
memory; static dimensions are scanned by elementwise operations. Nothing is evaluated here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import drjit_core as core
from drjit_core import COMPUTES_IN, REDUCTIONS, Node, ReduceOp, cast, invalid, literal

from .._access.extents import alike
from .._access.slicing import normalise_axes
from .._arrays.broadcasting import make
from .._arrays.tensor import TensorBase
from .._base.arguments import require_bool, require_count
from .._base.array import ArrayBase
from .._base.errors import CORE_ERRORS, ArgumentError, SizeError, describe, translate
from .._base.types import SCALAR
from .._base.typing import ArrayT, T
from .._base.values import is_ndarray, plain_scalar
from .._promotion.promote import wrap
from .._rules.combine import COMBINE
from .._trees.pytree import is_pytree, transform
from .reductions import combine_entries, unless_nan

__all__ = ["block_prefix_reduce", "block_prefix_sum", "cumsum", "prefix_reduce", "prefix_sum"]


class _Scan:
    """What a call asks for."""

    __slots__ = ("exclusive", "function", "op", "reverse")

    def __init__(self, function: str, op: Any, exclusive: bool, reverse: bool) -> None:
        if not isinstance(op, ReduceOp):
            raise TypeError(f"{function}(): 'op' must be a drjit.ReduceOp, found {describe(op)} ({op!r}).")
        if op.value not in REDUCTIONS:
            raise ArgumentError(f"{function}(): {op} is no operation of reductions.")
        for name, flag in (("exclusive", exclusive), ("reverse", reverse)):
            require_bool(function, name, flag)
        self.function, self.op = function, op
        self.exclusive, self.reverse = exclusive, reverse

    def require(self, array: ArrayBase) -> None:
        """Raise if the operation is not defined for the elements of an array."""
        if array._kind not in REDUCTIONS[self.op.value].accepts:
            raise ArgumentError(f"{self.function}(): {self.op} is not defined for the elements of {describe(array)}.")

    def along(self, node: Node, extents: tuple[int, int, int]) -> Node:
        """The scan of the middle one of three extents, of which one is 0 if it is what the others leave."""
        if not node.size:
            return node
        options = (self.op.value, int(self.exclusive), int(self.reverse))
        return core.step("scan", [node], [(node.type, node.size)], options, extents)[0]

    def over(self, nodes: Sequence[Node]) -> list[Node]:
        """The scan of a list of nodes."""
        if not nodes:
            return []
        type_, reduction = nodes[0].type, REDUCTIONS[self.op.value]
        wide = COMPUTES_IN[type_] if reduction.rounds else type_
        # What no elements reduce to stands for all lanes; of no lanes there is none.
        found, so_far = [], literal(wide, reduction.empty(wide)) if nodes[0].size else invalid(wide)
        for position, node in enumerate(reversed(nodes) if self.reverse else nodes):
            following = COMBINE[self.op](so_far, cast(node, wide)) if position else \
                core.unless_nan(cast(node, wide), self.op.value)
            found.append(cast(so_far if self.exclusive else following, type_))
            so_far = following
        return found[::-1] if self.reverse else found


def _scan_tensor(scan: _Scan, tensor: Any, axes: tuple[int, ...]) -> Any:
    node, shape = tensor._n, tensor._s
    for axis in axes:
        inner = math.prod(shape[axis + 1:])
        outer = math.prod(shape[:axis])
        node = scan.along(node, (1, 0, inner) if outer == 1 else (0, shape[axis], inner))
    return make(type(tensor), node, shape)


def _scan_array(scan: _Scan, array: Any, axis: Any) -> Any:
    scan.require(array)
    try:
        if isinstance(array, TensorBase):
            if not array._s:
                raise ArgumentError(f"{scan.function}(): a tensor without dimensions has no axis to scan.")
            return _scan_tensor(scan, array, normalise_axes(scan.function, axis, len(array._s)))
        depth = array._depth
        axes = normalise_axes(scan.function, axis, depth + array._dynamic)
        nodes, shape = array._nodes(), array._static_shape()
        for each in axes:
            if each == depth:
                nodes = [scan.along(node, (1, 0, 1)) if node.size else node for node in alike(array, scan.function)]
            else:
                nodes = _scan_components(scan, nodes, shape, each)
        return wrap(type(array), nodes)
    except CORE_ERRORS as error:
        raise translate(error, scan.function) from None


def _scan_components(scan: _Scan, nodes: Sequence[Node], shape: tuple[int, ...], axis: int) -> list[Node]:
    """The scan of components along a static dimension."""
    inner, length = math.prod(shape[axis + 1:]), shape[axis]
    found = list(nodes)
    for start in range(0, len(nodes), inner * length):
        for column in range(start, start + inner):
            places = slice(column, column + (length - 1) * inner + 1, inner)
            found[places] = scan.over(nodes[places])
    return found


def _scan_sequence(scan: _Scan, value: Any, axis: Any) -> list[Any]:
    if is_ndarray(value):
        value = value.tolist()
    if isinstance(value, (str, bytes, dict)) or not isinstance(value, Iterable):
        raise ArgumentError(f"{scan.function}(): 'value' must be a Dr.Jit array or a sequence of arrays or numbers, "
                            f"found {describe(value)}.")
    entries = list(value)
    if axis not in (0, (0,)) or axis is False:
        raise ArgumentError(f"{scan.function}(): sequences are scanned along axis 0 only, found axis={axis!r}.")
    for entry in entries:
        if not isinstance(entry, ArrayBase) and plain_scalar(entry) is None:
            raise ArgumentError(f"{scan.function}(): cannot scan a sequence with an entry of type '{describe(entry)}'.")
        if isinstance(entry, ArrayBase):
            scan.require(entry)
    found: list[Any] = []
    so_far: Any = None
    for entry in reversed(entries) if scan.reverse else entries:
        following = unless_nan(scan.op, entry) if so_far is None else combine_entries(scan.op, so_far, entry)
        if not scan.exclusive:
            found.append(following)
        elif so_far is not None:
            found.append(so_far)
        elif isinstance(entry, ArrayBase):
            found.append(type(entry)(REDUCTIONS[scan.op.value].empty(entry._type)))
        else:
            found.append(REDUCTIONS[scan.op.value].nothing)
        so_far = following
    return found[::-1] if scan.reverse else found


def prefix_reduce(op: ReduceOp, value: T, axis: int | tuple[int, ...] = 0, exclusive: bool = True,
                  reverse: bool = False) -> T:
    """The running reduction of an array, tensor or sequence: each element becomes the reduction of those before it.

    ``exclusive=True`` leaves the element itself out, so that the first result is what no elements reduce to (0 for
    ``Add``, infinity for ``Min``); ``exclusive=False`` includes it. ``reverse=True`` begins at the end. ``axis`` is the
    axis to go along, 0 being the outermost one, negative ones counted from the innermost one; several are scanned one
    after the other. Shape and type are those of the input; sequences become lists. Minimum and maximum ignore NaN, are
    those of nothing as long as there was nothing else, and have the derivative of the first of equal elements.
    Half precision is accumulated in single precision; results are bitwise the same in every run, with any number of
    threads.

    Raises a ``TypeError`` where the operation is not defined for the elements, for axes that do not exist or are named
    twice, and for sequences of anything but numbers and arrays. Along the trailing dimension it needs the values of all
    elements, which raises a ``RuntimeError`` in symbolic loops. Evaluates nothing.

    >>> from drjit.llvm import Float, TensorXi
    >>> dr.prefix_reduce(dr.ReduceOp.Add, Float(1, 2, 3))
    [0, 1, 3]
    >>> dr.prefix_reduce(dr.ReduceOp.Max, Float(1, 3, 2), exclusive=False, reverse=True)
    [3, 3, 2]
    >>> dr.prefix_reduce(dr.ReduceOp.Mul, TensorXi([[1, 2, 3], [4, 5, 6]]), axis=1, exclusive=False)
    [[1, 2, 6],
     [4, 20, 120]]
    """
    result: T = _prefix_reduce("drjit.prefix_reduce", op, value, axis, exclusive, reverse)
    return result


def _prefix_reduce(function: str, op: ReduceOp, value: Any, axis: Any, exclusive: bool, reverse: bool) -> Any:
    scan = _Scan(function, op, exclusive, reverse)
    return _scan_array(scan, value, axis) if isinstance(value, ArrayBase) else _scan_sequence(scan, value, axis)


def prefix_sum(value: T, axis: int | tuple[int, ...] = 0, reverse: bool = False) -> T:
    """The sums of all elements before each one: :func:`prefix_reduce` with ``ReduceOp.Add``, exclusive.

    >>> from drjit.llvm import UInt
    >>> dr.prefix_sum(UInt(5, 6, 7))
    [0, 5, 11]
    """
    result: T = _prefix_reduce("drjit.prefix_sum", ReduceOp.Add, value, axis, True, reverse)
    return result


def cumsum(value: T, axis: int | tuple[int, ...] = 0, reverse: bool = False) -> T:
    """The sums of all elements up to and including each one: :func:`prefix_reduce` with ``ReduceOp.Add``, inclusive.

    >>> from drjit.llvm import UInt, TensorXf
    >>> dr.cumsum(UInt(5, 6, 7))
    [5, 11, 18]
    >>> dr.cumsum(TensorXf([[1, 2], [3, 4]]))
    [[1, 2],
     [4, 6]]
    """
    result: T = _prefix_reduce("drjit.cumsum", ReduceOp.Add, value, axis, False, reverse)
    return result


# --- blocks ----------------------------------------------------------------------------------------------------------


def block_prefix_reduce(op: ReduceOp, value: ArrayT, block_size: int, exclusive: bool = True,
                        reverse: bool = False) -> ArrayT:
    """The running reduction of each block of ``block_size`` elements along the trailing dimension.

    Like :func:`prefix_reduce`, but it begins anew with each block; the last one may have fewer elements. Tensors are
    flat arrays to it, in C order. PyTrees are traversed: arrays of dynamic size are scanned, everything else stays as
    it is.

    Raises a ``TypeError`` where the operation is not defined for the elements, and for a block size that is no int; a
    ``ValueError`` if that is not positive, a ``RuntimeError`` if it exceeds the size of an array. Evaluates nothing.

    >>> from drjit.llvm import Float
    >>> dr.block_prefix_reduce(dr.ReduceOp.Add, Float(1, 2, 3, 4, 5, 6), 3)
    [0, 1, 3, 0, 4, 9]
    """
    result: ArrayT = _block_prefix("drjit.block_prefix_reduce", op, value, block_size, exclusive, reverse)
    return result


def block_prefix_sum(value: T, block_size: int, exclusive: bool = True, reverse: bool = False) -> T:
    """The running sums of each block: :func:`block_prefix_reduce` with ``ReduceOp.Add``.

    >>> from drjit.llvm import Float
    >>> dr.block_prefix_sum(Float(1, 2, 3, 4), 2, exclusive=False)
    [1, 3, 3, 7]
    """
    result: T = _block_prefix("drjit.block_prefix_sum", ReduceOp.Add, value, block_size, exclusive, reverse)
    return result


def _block_prefix(function: str, op: ReduceOp, value: Any, block_size: Any, exclusive: bool, reverse: bool) -> Any:
    scan = _Scan(function, op, exclusive, reverse)
    length = require_count(function, "block_size", block_size, 1)

    def visit(leaf: Any) -> Any:
        return _scan_blocks(scan, leaf, length)

    if isinstance(value, ArrayBase):
        return visit(value)
    return transform(function, visit, value) if is_pytree(type(value)) else value


def _scan_blocks(scan: _Scan, array: Any, length: int) -> Any:
    if not isinstance(array, ArrayBase):
        return array
    if array._depth >= 0 and not array._dynamic:  # numbers: blocks of as many as there are, if that is dynamic
        if array._record.backend is not SCALAR or array._record.shape != (-1,):
            return array
        scan.require(array)
        nodes = array._nodes()
        _require_fit(scan, array, len(nodes), length)
        return wrap(type(array), [node for start in range(0, len(nodes), length)
                                  for node in scan.over(nodes[start:start + length])])
    scan.require(array)
    try:
        if isinstance(array, TensorBase):
            _require_fit(scan, array, array._n.size, length)
            return make(type(array), scan.along(array._n, (0, length, 1)), array._s)
        nodes = alike(array, scan.function)
        if nodes:
            _require_fit(scan, array, core.size_of(nodes[0]), length)
        return wrap(type(array), [scan.along(node, (0, length, 1)) if node.size else node for node in nodes])
    except CORE_ERRORS as error:
        raise translate(error, scan.function) from None


def _require_fit(scan: _Scan, array: Any, size: Any, length: int) -> None:
    if length > size > 1:
        raise SizeError(f"{scan.function}(): 'block_size' ({length}) exceeds the number of elements of "
                        f"{describe(array)} ({int(size)}).")
