"""Elements in another order: permuted axes, reversed entries, and repetitions.

All of these are views, which kernels read row by row or through computed indices. Nothing is evaluated, but for arrays
of counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import drjit_core as core

from .._access.extents import are_extents, repeated, reversed_, tiled
from .._access.slicing import contiguous_strides, normalise_axes, normalise_axis, strided
from .._arrays.broadcasting import make, transposed
from .._base.arguments import require_count, require_tensor
from .._base.array import ArrayBase
from .._base.errors import ArgumentError, SizeError, describe
from .._base.nodes import broadcast
from .._base.types import lookup
from .._base.typing import ArrayT, T
from .._base.values import is_ndarray
from .._promotion.promote import wrap
from .._trees.pytree import is_pytree, transform
from .linalg import transpose as transpose_matrix

__all__ = ["moveaxis", "repeat", "reverse", "swapaxes", "tile", "transpose", "upsample"]

#: Results of so many elements are repeated along the last axis first, by a kernel of its own: kernels go over rows, and
#: rows of a few elements each take long. (512² to 1024²: 0.70 ms, 0.45; 128³ to 256³: 16.2, 4.9.)
_MANY = 1 << 17


# --- orders of axes --------------------------------------------------------------------------------------------------


def _permuted(tensor: ArrayT, axes: tuple[int, ...]) -> ArrayT:
    return make(type(tensor), *transposed(tensor._n, tensor._s, axes))


def transpose(value: ArrayT, /, axes: Sequence[int] | None = None) -> ArrayT:
    """A tensor with its axes in another order: that of the permutation ``axes``, or reversed.

    Also the transpose of a matrix, or of a nested array that has the shape of one, whose type stays the same. Raises a
    ``TypeError`` for other arrays, and if ``axes`` is no permutation. Evaluates nothing.

    >>> from drjit.llvm import Matrix2f, TensorXf
    >>> x = TensorXf([1, 2, 3, 4, 5, 6], shape=(2, 3))
    >>> dr.transpose(x)
    [[1, 4],
     [2, 5],
     [3, 6]]
    >>> dr.transpose(x[None], (1, 0, 2)).shape
    (2, 1, 3)
    >>> dr.transpose(Matrix2f(1, 2, 3, 4))
    [[[1, 3],
      [2, 4]]]
    """
    function = "drjit.transpose"
    if isinstance(value, ArrayBase) and value._depth >= 2:
        result: ArrayT = transpose_matrix(value, axes)
        return result
    tensor = require_tensor(function, value)
    rank = len(tensor._s)
    order = tuple(range(rank))[::-1] if axes is None else normalise_axes(function, axes, rank, "axes")
    if len(order) != rank:
        raise ArgumentError(f"{function}(): 'axes' must be a permutation of {tuple(range(rank))}, found {axes!r}.")
    return _permuted(tensor, order)


def swapaxes(value: ArrayT, /, axis1: int, axis2: int) -> ArrayT:
    """A tensor with two axes exchanged.

    Raises a ``TypeError`` if ``value`` is no tensor or an axis does not exist. Evaluates nothing.

    >>> from drjit.llvm import TensorXf
    >>> dr.swapaxes(dr.zeros(TensorXf, (2, 3, 4)), 0, 2).shape
    (4, 3, 2)
    """
    function = "drjit.swapaxes"
    tensor = require_tensor(function, value)
    order = list(range(len(tensor._s)))
    first = normalise_axis(function, axis1, len(order), "axis1")
    second = normalise_axis(function, axis2, len(order), "axis2")
    order[first], order[second] = second, first
    return _permuted(tensor, tuple(order))


def moveaxis(arg: ArrayT, /, source: int | tuple[int, ...], destination: int | tuple[int, ...]) -> ArrayT:
    """A tensor with some axes (int or tuple) moved to other positions; the others keep their order.

    Raises a ``TypeError`` if ``arg`` is no tensor, if an axis does not exist, and if ``source`` and ``destination`` do
    not name equally many. Evaluates nothing.

    >>> from drjit.llvm import TensorXf
    >>> dr.moveaxis(dr.zeros(TensorXf, (2, 3, 4)), 0, -1).shape
    (3, 4, 2)
    """
    function = "drjit.moveaxis"
    tensor = require_tensor(function, arg, "arg")
    rank = len(tensor._s)
    sources = normalise_axes(function, source, rank, "source")
    destinations = normalise_axes(function, destination, rank, "destination")
    if len(sources) != len(destinations):
        raise ArgumentError(f"{function}(): 'source' and 'destination' must name equally many axes, found {source!r} "
                            f"and {destination!r}.")
    order = [axis for axis in range(rank) if axis not in sources]
    for position, axis in sorted(zip(destinations, sources, strict=True)):
        order.insert(position, axis)
    return _permuted(tensor, tuple(order))


# --- orders of entries -----------------------------------------------------------------------------------------------


def _map_rows(array: Any, change: Callable[[Any], Any], recorded: Callable[[Any], Any] | None = None) -> Any:
    """An array each of whose components has been changed along the trailing, dynamic axis; in another way while a
    function is recorded."""
    nodes = array._nodes()
    if recorded is not None and len({node.size for node in nodes}) == 1 and are_extents(*nodes):
        return wrap(type(array), list(map(recorded, nodes)))
    width = array._width("drjit")
    return wrap(type(array), [change(broadcast(node, width)) for node in nodes])


def reverse(value: Any, axis: int = 0) -> Any:
    """An array, a tensor or a Python sequence with its entries in reverse order along an axis.

    Of nested arrays, axis 0 are the components, the last axis the elements of each; matrices exchange their rows.
    Python sequences have axis 0 only, and keep their type. Raises a ``TypeError`` for anything else, and if there is no
    such axis. Evaluates nothing.

    >>> from drjit.llvm import Array2f, Float, TensorXf
    >>> dr.reverse(Float(1, 2, 3))
    [3, 2, 1]
    >>> dr.reverse(Array2f([1, 2], [3, 4]))
    [[3, 1],
     [4, 2]]
    >>> dr.reverse(TensorXf([1, 2, 3, 4], shape=(2, 2)), axis=1)
    [[2, 1],
     [4, 3]]
    >>> dr.reverse(("x", "y"))
    ('y', 'x')
    """
    function = "drjit.reverse"
    if not isinstance(value, ArrayBase):
        if not isinstance(value, Sequence) and not is_ndarray(value):
            raise TypeError(f"{function}(): 'value' must be a Dr.Jit array or a sequence, found {describe(value)}.")
        normalise_axis(function, axis, 1)
        return value[::-1]
    array: Any = value
    found = normalise_axis(function, axis, array.ndim)
    if array._depth < 0:
        return array[(*(slice(None),) * found, slice(None, None, -1))]
    if found == array._depth and array._dynamic:
        return _map_rows(array, lambda node: strided(node, (node.size,), (-1,), node.size - 1) if node.size else node,
                         reversed_)
    shape, nodes = array._static_shape(), array._nodes()
    inner = math.prod(shape[found + 1:])
    return wrap(type(array), [nodes[outer + k * inner + rest]
                              for outer in range(0, len(nodes), shape[found] * inner or 1)
                              for k in reversed(range(shape[found])) for rest in range(inner)])


# --- repetitions -----------------------------------------------------------------------------------------------------


def _counts(function: str, count: Any) -> tuple[int, ...]:
    """The repetitions along the trailing axes, as a tuple."""
    if isinstance(count, (list, tuple)):
        return tuple(require_count(function, f"count[{k}]", entry) for k, entry in enumerate(count))
    return (require_count(function, "count", count),)


def _either(function: str, name: str, value: Any, count: Any) -> Any:
    """An argument that has a second name, ``count``."""
    if (value is ...) == (count is ...):
        raise TypeError(f"{function}(): expected one argument '{name}' (or 'count', which is the same).")
    return count if value is ... else value


def tile(value: T, reps: int | Sequence[int] = ..., *, count: Any = ...) -> T:  # type: ignore[assignment]
    """An array with all of its elements repeated ``count`` times, one copy after the other.

    Of nested arrays and tensors, the trailing axis; a sequence of counts is one for each of the trailing axes of a
    tensor (whose number of axes grows if there are more of them, as of a flat array, which becomes a tensor). PyTrees
    are traversed. What has no dynamic axis is returned as it is. Raises a ``TypeError`` for other counts, a
    ``ValueError`` for negative ones. Evaluates nothing.

    >>> from drjit.llvm import Array2f, Float, TensorXf
    >>> dr.tile(Float(1, 2, 3), 2)
    [1, 2, 3, 1, 2, 3]
    >>> dr.tile(TensorXf([1, 2], shape=(1, 2)), (2, 3))
    [[1, 2, 1, 2, 1, 2],
     [1, 2, 1, 2, 1, 2]]
    """
    count = _either("drjit.tile", "reps", reps, count)
    function = "drjit.tile"
    counts = _counts(function, count)
    if counts == (1,) and not isinstance(count, (list, tuple)):
        return value
    result: T = _tile(function, value, counts)
    return result


def _tile(function: str, value: Any, counts: tuple[int, ...]) -> Any:
    if not isinstance(value, ArrayBase):
        return transform(function, lambda leaf: _tile(function, leaf, counts), value) \
            if is_pytree(type(value)) else value
    array: Any = value
    if all(count == 1 for count in counts) and len(counts) <= (len(array._s) if array._depth < 0 else 1):
        return value
    if array._depth >= 0 and len(counts) == 1:
        if not array._dynamic:
            return wrap(type(array), array._nodes() * counts[0]) if array._record.shape == (-1,) else value
        return _map_rows(array, lambda node: strided(node, (counts[0], node.size), (0, 1)),
                         (lambda node: tiled(node, counts[0])) if counts[0] > 0 else None)
    if array._depth > 0 or not array._dynamic:
        raise ArgumentError(f"{function}(): only flat arrays and tensors are repeated along several axes, found "
                            f"{array._name} and {len(counts)} counts.")
    tensor: Any = array
    if array._depth == 0:
        kind: Any = lookup(array._record._replace(kind="tensor", shape=()))
        tensor = kind(array)
    rank = max(len(tensor._s), len(counts))
    shape, repeats = ((1,) * (rank - len(given)) + given for given in (tensor._s, counts))
    strides = contiguous_strides(shape)
    node = strided(tensor._n, [size for pair in zip(repeats, shape, strict=True) for size in pair],
                   [stride for own in strides for stride in (0, own)])
    return make(type(tensor), node, tuple(a * b for a, b in zip(repeats, shape, strict=True)))


def repeat(value: T, repeats: int | Sequence[int] | ArrayBase = ..., axis: int | None = None, *,  # type: ignore[assignment]
           count: Any = ...) -> T:
    """An array with each of its elements repeated ``count`` times in place.

    Of nested arrays, the elements of each component. Tensors are raveled first, unless ``axis`` says along which axis
    their entries are repeated. ``count`` may also be an array or a sequence of ints, one for each entry, which is
    evaluated. PyTrees are traversed. What has no dynamic axis is returned as it is. Raises a ``TypeError`` for other
    counts, a ``ValueError`` for negative ones, a ``RuntimeError`` if there is another number of them than of entries.
    Evaluates nothing else.

    >>> from drjit.llvm import Float, TensorXf
    >>> dr.repeat(Float(1, 2, 3), 2)
    [1, 1, 2, 2, 3, 3]
    >>> dr.repeat(TensorXf([1, 2, 3, 4], shape=(2, 2)), 2, axis=1)
    [[1, 1, 2, 2],
     [3, 3, 4, 4]]
    >>> dr.repeat(Float(1, 2, 3), [2, 0, 1])
    [1, 1, 3]
    """
    count = _either("drjit.repeat", "repeats", repeats, count)
    function = "drjit.repeat"
    given: Any = count
    if isinstance(given, (ArrayBase, list, tuple)) or is_ndarray(given) and given.ndim:
        if not isinstance(given, (list, tuple)) and len(given.shape) > 1:
            raise TypeError(f"{function}(): 'count' must be an int, or ints in one dimension, found {describe(given)} "
                            f"of the shape {given.shape}.")
        entries = list(given if isinstance(given, (list, tuple)) else given.numpy() if isinstance(given, ArrayBase)
                       else given)
        counts: Any = [require_count(function, f"count[{k}]", entry) for k, entry in enumerate(entries)]
    else:
        counts = require_count(function, "count", given)
    result: T = _repeat(function, value, counts, axis)
    return result


def _repeat(function: str, value: Any, counts: Any, axis: Any) -> Any:
    if not isinstance(value, ArrayBase):
        return transform(function, lambda leaf: _repeat(function, leaf, counts, axis), value) \
            if is_pytree(type(value)) else value
    array: Any = value
    if array._depth < 0:
        shape, found = array._s, 0
        if axis is None:
            shape = (core.size_for_program(array._n),)
        else:
            found = normalise_axis(function, axis, len(shape))
        outer, size, inner = math.prod(shape[:found]), shape[found], math.prod(shape[found + 1:])
        total = _total(function, size, counts)
        if isinstance(counts, int):
            node = strided(array._n, (outer, size, counts, inner), (size * inner, inner, 0, 1))
            return make(type(array), node, (*shape[:found], total, *shape[found + 1:]))
        source = make(type(array), array._n, (outer, size, inner))
        taken: Any = source[:, [k for k, times in enumerate(counts) for _ in range(times)]]
        return make(type(array), taken._n, (*shape[:found], total, *shape[found + 1:]))
    if axis is not None:
        normalise_axis(function, axis, 1)
    if not array._dynamic:
        if array._record.shape != (-1,):
            return value
        nodes = array._nodes()
        _total(function, len(nodes), counts)
        each = [counts] * len(nodes) if isinstance(counts, int) else counts
        return wrap(type(array), [node for node, times in zip(nodes, each, strict=True) for _ in range(times)])
    if isinstance(counts, int):
        return value if counts == 1 else _map_rows(array, lambda node: strided(node, (node.size, counts), (1, 0)),
                                                   (lambda node: repeated(node, counts)) if counts > 0 else None)
    width = array._width(function)
    _total(function, width, counts)
    index = [k for k, times in enumerate(counts) for _ in range(times)]
    leaf: Any = array._leaf
    return _map_rows(array, lambda node: wrap(leaf, [node])[index]._n)


def _total(function: str, size: int, counts: Any) -> int:
    """The number of entries after repetition."""
    if isinstance(counts, int):
        return size * counts
    if len(counts) != size:
        raise SizeError(f"{function}(): 'count' has {len(counts)} entries, but 'value' has {size}.")
    return sum(counts)


def upsample(t: T, shape: Sequence[int] | None = None, scale_factor: Sequence[int] | None = None) -> T:
    """A tensor with each entry repeated along its axes: nearest neighbours at a multiple of the resolution. Of a
    texture, one of the same options that holds what it looks up at the centres of its texels.

    Either ``shape`` is that of the result, made of multiples of the sizes of ``t`` (of a texture: of any sizes), or
    ``scale_factor`` holds the multiples; both are sequences of ints, and what is missing at the end leaves the axes
    alone. Raises a ``TypeError`` for other arguments. :func:`resample` knows better filters, and any shape. Evaluates
    nothing.

    >>> from drjit.llvm import TensorXf
    >>> dr.upsample(TensorXf([1, 2, 3, 4], shape=(2, 2)), scale_factor=(1, 2))
    [[1, 1, 2, 2],
     [3, 3, 4, 4]]
    """
    function = "drjit.upsample"
    sampled: Any = getattr(t, "_sampled", None)  # of a texture
    tensor: Any = t
    if sampled is None:
        require_tensor(function, tensor, "t")
    sizes = tensor.shape
    if (shape is None) == (scale_factor is None):
        raise ArgumentError(f"{function}(): either 'shape' or 'scale_factor' must be given.")
    name, given = ("shape", shape) if scale_factor is None else ("scale_factor", scale_factor)
    if not isinstance(given, (list, tuple)) or len(given) > len(sizes):
        raise ArgumentError(f"{function}(): '{name}' must be a sequence of at most {len(sizes)} ints, found "
                            f"{given!r}.")
    wanted = [require_count(function, f"{name}[{k}]", entry, 0 if scale_factor is None else 1)
              for k, entry in enumerate(given)]
    factors = []
    for k, (entry, size) in enumerate(zip(wanted, sizes, strict=False)):
        if sampled is None and scale_factor is None and (entry % size or not entry if size else entry):
            raise ArgumentError(f"{function}(): 'shape[{k}]' must be a multiple of the size {size}, found {entry}.")
        factors.append(entry if scale_factor is not None else entry // size if size else 1)
    if sampled is not None:
        if scale_factor is not None:
            wanted = [entry * size for entry, size in zip(wanted, sizes, strict=False)]
        found: T = sampled(function, (*wanted, *sizes[len(wanted):]))
        return found
    factors += [1] * (len(tensor._s) - len(factors))
    shape, node = tensor._s, tensor._n
    result_shape = tuple([size * factor for size, factor in zip(shape, factors, strict=True)])
    if math.prod(result_shape) >= _MANY and factors[-1] > 1 < math.prod(factors[:-1]):
        node = strided(node, (node.size, factors[-1]), (1, 0))
        shape, factors = (*shape[:-1], result_shape[-1]), [*factors[:-1], 1]
    strides = contiguous_strides(shape)
    node = strided(node, [size for pair in zip(shape, factors, strict=True) for size in pair],
                   [stride for own in strides for stride in (own, 0)])
    result: T = make(type(tensor), node, result_shape)
    return result
