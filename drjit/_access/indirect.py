"""Indirect reads and writes: gather, scatter and scatter-reductions, over arrays and PyTrees.

A scatter changes its target in place: the target's node becomes the new version, which the next evaluation realises.
Other arrays that shared the old version keep it.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import drjit_core as core
from drjit_core import BAKED, KIND, TYPES, JitFlag, Node, ReduceMode, ReduceOp, cast, literal, ops

from .._base.array import ArrayBase
from .._base.errors import CORE_ERRORS, ArgumentError, SizeError, describe, translate
from .._base.handle import held
from .._base.methods import FlatSlots
from .._base.nodes import broadcast, index_node, index_type
from .._base.types import BOOL, UINT32, lookup, reshape, retype
from .._base.typing import T
from .._base.values import is_ndarray
from .._promotion.promote import coerce, wrap
from .._trees.pytree import is_pytree, leaves, transform, walk
from .direct import read
from .keys import check_literal, is_foreign, require_assignable
from .lanes import TRUE, WATCHES, by_each_lane, note_read, note_version, wholes, widest_mask, with_lanes
from .scalars import gather_scalars, scatter_scalars
from .store import note_narrow, store, store_written

__all__ = ["gather", "index_and_mask", "scatter", "scatter_add", "scatter_reduce"]

_LITERAL = KIND["literal"]
_AUTO = ReduceMode.Auto
_LARGEST = (1 << 32) - 1


def _leaf_of(function: str, *values: Any) -> type[ArrayBase] | None:
    """The flat array type (of any scalar type) of the backend that values in PyTrees belong to."""
    found = (leaf for value in values for leaf in leaves(value, function) if isinstance(leaf, ArrayBase))
    return next((array._leaf for array in found), None)


def _width_of(value: Any, function: str) -> int:
    """The largest size among the arrays of a PyTree."""
    if isinstance(value, ArrayBase):
        return value._width(function)
    return max((array._width(function) for array in leaves(value, function) if isinstance(array, ArrayBase)), default=0)


def _flat_argument(value: Any, leaf: type[ArrayBase], scalar: int, name: str, function: str) -> Node:
    """The node of an index or mask argument, converted to a flat array of the given scalar type."""
    if isinstance(value, ArrayBase) and (not value._depth or value._depth < 0 and value.ndim < 2):
        if value._kind in ("b" if scalar == BOOL else "iuf") and not is_foreign(value, leaf):
            return value._nodes()[0]
    elif value is True and scalar == BOOL:
        return TRUE
    cls = retype(leaf, scalar)
    if not isinstance(value, ArrayBase) or not value._dynamic and value._depth == 1:
        try:
            return coerce(cls, value, function)[0]
        except (TypeError, ValueError, RuntimeError) as error:
            raise TypeError(f"{function}(): '{name}' has an unsupported type ({describe(value)}); it must be "
                            f"convertible to {cls._name}: {error}") from None
    raise TypeError(f"{function}(): '{name}' has an unsupported type ({describe(value)}); it must be convertible to "
                    f"{cls._name}.")


def index_and_mask(leaf: type[ArrayBase], index: Any, active: Any, size: int,
                   function: str) -> tuple[Node, Node]:
    """The index and the mask of an access to arrays of a size."""
    return (_flat_argument(index, leaf, index_type(size), "index", function),
            _flat_argument(active, leaf, BOOL, "active", function))


def _prepare(leaf: type[ArrayBase], index: Any, active: Any, size: int, function: str) -> tuple[Node, Node]:
    """The index and the mask of a read from arrays of a size, in the lanes that take part."""
    index_, mask = index_and_mask(leaf, index, active, size, function)
    return index_, with_lanes(mask, max(index_.size, mask.size))


def _check_mode(mode: Any, function: str) -> None:
    if not isinstance(mode, ReduceMode):
        raise TypeError(f"{function}(): 'mode' must be a drjit.ReduceMode, found {describe(mode)} ({mode!r}).")


def _together(count: int) -> bool:
    """Whether neighbours in rows of some length are read and written together."""
    return core.flag(JitFlag.PacketOps) and count <= core.LONGEST_ROW


def _interleaved(index: Node, count: int, size: int, known: bool) -> list[Node]:
    """``index * count + k`` for each component ``k`` of an array that is stored row by row.

    The program knows (``known``) which ones are neighbours, if these go together.
    """
    if not index.size:
        return [index] * count
    index = index_node(index, size, True)  # the largest 32-bit number remains none that exists
    if index.kind == _LITERAL and index.type == UINT32 and index.payload * count > _LARGEST:
        index = literal(UINT32, _LARGEST, index.size)
    kind = BAKED if known else None
    base = ops.mul(index, literal(index.type, count, 1, kind))
    return [ops.add(base, literal(index.type, k, 1, kind)) for k in range(count)]


# --- gather ----------------------------------------------------------------------------------------------------------


def _gather_node(source: Node, index: Node, mask: Node, width: int, function: str, ready: bool = False) -> Node:
    """Read from one array, whose only element stands for all if the arrays beside it have ``width`` ones; from what are
    positions in it already, if the index is ``ready``."""
    if WATCHES:
        note_read(source)
    if not source.size and index.size and mask.size and not (mask.kind == _LITERAL and not mask.payload):
        raise SizeError(f"{function}(): attempted to read from an empty array.")
    if not index.size and mask.size <= 1 or not mask.size and index.size == 1:
        return core.nothing_of(source)
    if source.size == 1 and width > 1:
        index = literal(UINT32, 0, index.size)
    check_literal(function, index, mask, source.size)
    if index.size == mask.size == 1:
        mask = by_each_lane(mask, source)
    return core.gather(source, index if ready else index_node(index, source.size), mask)


def gather(dtype: type[T], source: Any, index: ArrayBase | Sequence[int] | int,
           active: ArrayBase | Sequence[bool] | bool = True, mode: ReduceMode = ReduceMode.Auto,
           shape: tuple[int, ...] | None = None) -> T:
    """Read ``source[index]`` where ``active`` is set, else zero; an instance of ``dtype``.

    ``source`` is a flat array, or an array or PyTree of type ``dtype``, whose entries are read likewise. If ``dtype``
    is a nested type and ``source`` flat, its components are read from consecutive elements, from ``index * n`` on;
    ``ArrayX*`` types need ``shape``, in which -1 stands for the number of indices; any other type's result must have
    that shape, if it is given. An array of one element beside larger ones in a PyTree (or nested array) goes with any
    index. ``index`` and ``active`` are converted to unsigned integers and masks; NumPy arrays and lists of numbers may
    stand for any array, and as ``source`` are converted to what ``dtype`` reads from. The result has as many entries as
    ``index``. Evaluates nothing.

    Indices are not checked, except for an index that is the same for all elements and known to the program (an
    ``IndexError``), and in debug mode (``JitFlag.Debug``). ``mode`` is a hint for the derivative. Raises a
    ``TypeError`` if the types do not go together, a ``RuntimeError`` if the sizes of index and mask do not, or
    something is read from an empty source.

    >>> from drjit.llvm import Array2f, Bool, Float, UInt
    >>> source = Float(10, 11, 12, 13)
    >>> dr.gather(Float, source, UInt(3, 0))
    [13, 10]
    >>> dr.gather(Float, source, UInt(3, 9), active=Bool(True, False))
    [13, 0]
    >>> dr.gather(Array2f, source, UInt(0, 1))
    [[10, 11],
     [12, 13]]
    """
    function = "drjit.gather"
    if WATCHES and isinstance(source, ArrayBase) and source._dynamic and source._depth >= 0:
        nodes = wholes(source._nodes())
        if nodes is not None:
            source = wrap(type(source), nodes)
    if mode is _AUTO and shape is None:
        try:
            found = read(dtype, source, index, active)
        except CORE_ERRORS as error:
            raise translate(error, function) from None
        if found is not None:
            if WATCHES:
                note_read(source._nodes()[0])
            return found  # type: ignore[no-any-return]
    if not isinstance(dtype, type):
        raise TypeError(f"{function}(): 'dtype' must be a type, found {describe(dtype)} ({dtype!r}).")
    _check_mode(mode, function)
    if not isinstance(source, ArrayBase):
        source = _source(dtype, source, function)
    sizes = None if shape is None else _parse_sizes(shape, function)
    if not isinstance(source, ArrayBase):
        return _gather_tree(source, index, active, sizes, function)  # type: ignore[no-any-return]
    result: Any
    if not source._dynamic:
        result = gather_scalars(dtype, source, index, active, function)
    else:
        width = source._width(function)
        index_, mask = _prepare(source._leaf, index, active, width, function)
        try:
            result = _gather_array(dtype, source, index_, mask, width, sizes, function)
        except CORE_ERRORS as error:
            raise translate(error, function) from None
    return result if sizes is None else _of_shape(result, sizes, function)  # type: ignore[no-any-return]


def _source(dtype: type, source: Any, function: str) -> Any:
    """What is to be read, given something other than an array: a PyTree of type ``dtype``, or an array made of it."""
    leaf = _leaf_of(function, source)
    if leaf is None:
        if issubclass(dtype, ArrayBase) and (isinstance(source, (list, tuple, range)) or is_ndarray(source)):
            return _source_array(dtype, source, function)
        raise TypeError(f"{function}(): 'source' must be a Dr.Jit array or a PyTree of such, found {describe(source)}.")
    if type(source) is not dtype or not is_pytree(dtype):
        raise TypeError(f"{function}(): 'source' must be a flat array, or of the type 'dtype' ({describe(dtype)}), "
                        f"found {describe(source)}.")
    return source


def _gather_tree(source: Any, index: Any, active: Any, sizes: tuple[int, ...] | None, function: str) -> Any:
    """Read from each array of a PyTree."""
    leaf = _leaf_of(function, source)
    assert leaf is not None
    width = _width_of(source, function)
    nodes = _prepare(leaf, index, active, width, function) if leaf._dynamic else None

    def read(value: Any) -> Any:
        if not isinstance(value, ArrayBase):
            return value
        if nodes is None:
            found = gather_scalars(type(value), value, index, active, function)
        else:
            found = _gather_array(type(value), value, *nodes, width, sizes, function)
        return found if sizes is None else _of_shape(found, sizes, function)

    try:
        return transform(function, read, source)
    except CORE_ERRORS as error:
        raise translate(error, function) from None


def _source_array(dtype: Any, source: Any, function: str) -> Any:
    """An array that elements of ``dtype`` can be read from, given a NumPy array or a (nested) list of numbers."""
    if dtype._depth < 0:
        raise TypeError(f"{function}(): unsupported 'dtype' {describe(dtype)} (tensors are read by slice expressions).")
    require_assignable(dtype, source, function)
    flat = dtype._leaf if dtype._dynamic else reshape(dtype, (-1,))
    nested = source.ndim > 1 if is_ndarray(source) else any(isinstance(entry, (list, tuple)) for entry in source)
    try:
        return (dtype if nested else flat)(source)
    except (TypeError, ValueError, RuntimeError) as error:
        raise TypeError(f"{function}(): could not convert 'source' to {(dtype if nested else flat)._name}: {error}"
                        ) from None


def _parse_sizes(shape: Any, function: str) -> tuple[int, ...]:
    try:
        sizes = tuple(map(operator.index, shape))
    except TypeError:
        sizes = (-2,)
    if min(sizes, default=0) < -1:
        raise TypeError(f"{function}(): 'shape' must be a tuple of sizes, or -1 for one that is not known, found "
                        f"{shape!r}.")
    return sizes


def _of_shape(result: Any, sizes: tuple[int, ...], function: str) -> Any:
    """A result, if it has the requested shape."""
    found = result.shape if isinstance(result, ArrayBase) else ()
    if len(found) != len(sizes):
        raise ArgumentError(f"{function}(): 'shape' must have {len(found)} entries for {describe(result)}, found "
                            f"{sizes}.")
    if any(size not in (-1, actual) for size, actual in zip(sizes, found, strict=True)):
        raise ArgumentError(f"{function}(): the result, of type {describe(result)}, has the shape {found}, which "
                            f"contradicts 'shape' ({sizes}).")
    return result


def _gather_array(dtype: Any, source: ArrayBase, index: Node, mask: Node, width: int, shape: tuple[int, ...] | None,
                  function: str) -> Any:
    if source._depth < 0:
        raise ArgumentError(f"{function}(): 'source' is a tensor ({source._name}): read it by a slice expression, or "
                            "pass its flat array, 'source.array'.")
    if type(source) is dtype:
        return wrap(dtype, [_gather_node(node, index, mask, width, function) for node in source._nodes()])
    if not issubclass(dtype, ArrayBase) or source._depth or dtype._leaf is not source._leaf:
        raise TypeError(f"{function}(): unsupported 'dtype' {describe(dtype)} for a source of type {source._name} "
                        f"(expected {source._name}, or a nested type over the elements of a flat source).")
    count = dtype._count
    if count < 0:
        if shape is None:
            raise ArgumentError(f"{function}(): {describe(dtype)} has a dynamic size; specify the 'shape' argument.")
        if len(shape) != dtype._depth + 1 or min(shape[:-1]) < 0:
            raise ArgumentError(f"{function}(): 'shape' must have {dtype._depth + 1} entries for {dtype._name}, of "
                                f"which only the last may be -1, found {shape}.")
        count = 1
        for size in shape[:-1]:
            count *= size
    source_node = source._nodes()[0]
    return wrap(dtype, [_gather_node(source_node, node, mask, 1, function, True)
                        for node in _interleaved(index, count, source_node.size, _together(count))])


# --- scatter ---------------------------------------------------------------------------------------------------------

def scatter(target: Any, value: Any, index: Any, active: Any = True, mode: ReduceMode = ReduceMode.Auto) -> None:
    """Write ``target[index] = value`` where ``active`` is set, in place.

    ``target`` and ``value`` are arrays or PyTrees of one type, whose entries are written likewise; a nested ``value``
    may also be written to consecutive elements of a flat ``target``, from ``index * n`` on. ``index`` and ``active``
    are converted to unsigned integers and masks, and so are NumPy arrays and lists; but floating-point numbers are not
    written to integers. Indices are checked as by :func:`gather`; if some coincide, one of the writes wins. ``mode`` is
    a hint.

    Other arrays that shared the old contents keep them. Evaluates nothing: the write happens with the next evaluation.
    Raises a ``TypeError`` if the types do not go together, a ``RuntimeError`` if the sizes do not, or something is
    written to an empty target; the target is unchanged then.

    >>> from drjit.llvm import Float, UInt
    >>> x = dr.zeros(Float, 4)
    >>> dr.scatter(x, Float(7, 8), UInt(3, 0))
    >>> x
    [8, 0, 0, 7]
    """
    _scatter(ReduceOp.Identity, target, value, index, active, mode, "drjit.scatter")


def scatter_add(target: Any, value: Any, index: Any, active: Any = True, mode: ReduceMode = ReduceMode.Auto) -> None:
    """Add ``value`` to ``target[index]`` where ``active`` is set, atomically and in place.

    What goes to one element is added up, in no particular order, so that floating-point results may differ in their
    last bits from run to run. ``mode`` chooses a strategy, see :class:`ReduceMode`; see :func:`scatter` for the other
    arguments and errors. Evaluates nothing: the addition happens with the next evaluation.

    >>> from drjit.llvm import Float, UInt
    >>> histogram = dr.zeros(Float, 3)
    >>> dr.scatter_add(histogram, 1, UInt(0, 2, 2, 2))
    >>> histogram
    [1, 0, 3]
    """
    _scatter(ReduceOp.Add, target, value, index, active, mode, "drjit.scatter_add")


def scatter_reduce(op: ReduceOp, target: Any, value: Any, index: Any, active: Any = True,
                   mode: ReduceMode = ReduceMode.Auto) -> None:
    """Combine ``target[index]`` with ``value`` by ``op`` where ``active`` is set, atomically and in place.

    ``op`` is a :class:`ReduceOp` that is defined for the elements: ``And`` and ``Or`` for masks and integers, the
    others for numbers. The order of updates of one element is not specified. See :func:`scatter_add` for the other
    arguments. Raises a ``TypeError`` if the elements are of another kind. Evaluates nothing: the update happens with
    the next evaluation.

    >>> from drjit.llvm import Int, UInt
    >>> x = Int(5, 5)
    >>> dr.scatter_reduce(dr.ReduceOp.Max, x, Int(3, 9, 7), UInt(0, 1, 1))
    >>> x
    [5, 9]
    """
    if not isinstance(op, ReduceOp):
        raise TypeError(f"drjit.scatter_reduce(): 'op' must be a drjit.ReduceOp, found {describe(op)} ({op!r}).")
    _scatter(op, target, value, index, active, mode, "drjit.scatter_reduce")


def _scatter_directly(op: ReduceOp, target: Any, value: Any, index: Any, mode: ReduceMode) -> bool:
    """Write a flat array at positions that are unsigned integers of 32 bits: the most frequent case; whether it was."""
    if not (isinstance(value, FlatSlots) and type(target) is type(value) and isinstance(index, FlatSlots)) or \
            index._where != target._where:  # type: ignore[attr-defined]
        return False
    node, source, position = held(target), held(value), held(index)
    width = position.size
    if position.type != UINT32 or position.kind <= _LITERAL or width < 2 or source.size not in (1, width) or \
            not 2 <= node.size <= 1 << 32 or \
            op is not ReduceOp.Identity and TYPES[node.type].kind not in core.REDUCTIONS[op._value_].accepts:
        return False
    store_written(target, [core.scatter(node, source, position, with_lanes(TRUE, width), op._value_, mode._value_)])
    return True


def _scatter(op: ReduceOp, target: Any, value: Any, index: Any, active: Any, mode: ReduceMode, function: str) -> None:
    _check_mode(mode, function)
    if mode is ReduceMode.Permute and op is not ReduceOp.Identity:
        raise ArgumentError(f"{function}(): 'mode' must not be ReduceMode.Permute, which is for plain writes.")
    if active is True:
        try:
            if _scatter_directly(op, target, value, index, mode):
                return
        except CORE_ERRORS as error:
            raise translate(error, function) from None
    leaf = _leaf_of(function, target)
    if leaf is None or not (isinstance(target, ArrayBase) or is_pytree(type(target))):
        raise TypeError(f"{function}(): 'target' must be a Dr.Jit array or a PyTree of such, found {describe(target)}.")
    pending: list[tuple[ArrayBase, list[Node]]] = []  # nothing is changed before everything has been checked
    if not leaf._dynamic:
        walk(function, lambda old, new: pending.append(
            (old, scatter_scalars(op, old, new, index, active, function)))
            if isinstance(old, ArrayBase) else None, target, value)
        for array, nodes in pending:
            store(array, nodes)
        return
    index_, mask = index_and_mask(leaf, index, active, _width_of(target, function), function)

    def visit(destination: Any, source: Any) -> None:
        if isinstance(destination, ArrayBase):
            pending.append((destination, _scatter_array(op, destination, source, index_, mask, mode, function)))

    try:
        if isinstance(target, ArrayBase):
            visit(target, value)
        else:
            walk(function, visit, target, value)
    except CORE_ERRORS as error:
        raise translate(error, function) from None
    for array, nodes in pending:
        store_written(array, nodes)


def _scatter_array(op: ReduceOp, target: Any, value: Any, index: Node, mask: Node, mode: ReduceMode,
                   function: str) -> list[Node]:
    """The new versions of the components of a target."""
    if target._depth < 0:
        raise ArgumentError(f"{function}(): 'target' is a tensor ({target._name}): assign to a slice expression, or "
                            "pass its flat array, 'target.array'.")
    if op is not ReduceOp.Identity and target._kind not in core.REDUCTIONS[op._value_].accepts:
        raise ArgumentError(f"{function}(): the reduction {op.name} is not supported for arrays of type "
                            f"{TYPES[target._type].name}.")
    if isinstance(value, ArrayBase) and (value._type != target._type or is_foreign(value, target)):
        raise TypeError(f"{function}(): 'value' of type {value._name} is not supported for a target of type "
                        f"{target._name}; convert it first.")
    require_assignable(target, value, function)
    nodes = target._nodes()
    if is_ndarray(value) and value.ndim > target._depth + 1 == 1:
        kind: Any = lookup(target._record._replace(shape=(-1,) * (value.ndim - 1)))
        value = value if kind is None else kind(value)
    if isinstance(value, ArrayBase) and value._depth > target._depth == 0:
        node = nodes[0]
        count, plain = len(value._nodes()), op is ReduceOp.Identity
        indices = _interleaved(index, count, node.size, plain or _together(count))  # writes of a row are one kernel
        if plain and not core.flag(JitFlag.PacketOps):
            mode = ReduceMode.Direct
        for source, position in zip(value._nodes(), indices, strict=True):
            node = _scatter_node(op, node, source, position, mask, mode, function)
        return [node]
    sources = coerce(type(target), value, function)
    if len(sources) != len(nodes):
        sources = coerce(reshape(type(target), (len(nodes),)), value, function)
    width = target._width(function)
    if any(node.size < width and node.scope for node in nodes):
        note_narrow()
    return [_scatter_node(op, note_version(broadcast(node, width), node), source, index, mask, mode, function)
            for node, source in zip(nodes, sources, strict=True)]


def _scatter_node(op: ReduceOp, target: Node, value: Node, index: Node, mask: Node, mode: ReduceMode,
                  function: str) -> Node:
    width = next((node.size for node in (index, mask, value) if node.size != 1), 1)
    if not {index.size, mask.size, value.size} <= {1, width}:
        raise SizeError(f"{function}(): 'value', 'index' and 'active' have incompatible sizes: {value.size}, "
                        f"{index.size} and {mask.size} (they must be equal, or 1).")
    if not width:
        return target
    if not target.size:
        raise SizeError(f"{function}(): attempted to write to an empty array.")
    if width > 1 or op is ReduceOp.Identity:
        mask = with_lanes(mask, width)
    else:
        lanes = widest_mask()
        mask = mask if lanes is None else ops.and_(mask, lanes)
    check_literal(function, index, mask, target.size)
    return core.scatter(target, cast(value, target.type), index_node(index, target.size), mask, op.value, mode.value)
