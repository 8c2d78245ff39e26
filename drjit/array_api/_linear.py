"""Products of matrices and vectors: lazy, and differentiable."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

import drjit as dr
from drjit.detail import permuted

from . import _dtypes as dtypes
from ._data import constant, view_by, wrap
from ._elementwise import conj, multiply
from ._manipulation import moveaxis, permute_dims, reshape
from ._operands import converted, normalized_axes, normalized_axis, operands, require_array, require_arrays
from ._small import product
from ._statistics import sum as total

if TYPE_CHECKING:
    from ._array import Array

__all__ = ["matmul", "matrix_transpose", "tensordot", "vecdot"]

_NAMESPACE = "drjit.array_api"


def matrix_transpose(x: Array, /) -> Array:
    """The array with its last two axes exchanged. Lazy; differentiable."""
    function = f"{_NAMESPACE}.matrix_transpose"
    array = require_array(function, "x", x)
    if array.ndim < 2:
        raise ValueError(f"{function}(): 'x' must have two dimensions at least, found the shape {array.shape}.")
    order = (*range(array.ndim - 2), array.ndim - 1, array.ndim - 2)
    return view_by(array, permuted(array.shape, order), "transpose", order)


def matmul(x1: Array, x2: Array, /) -> Array:
    """The product of matrices, of the shapes (…, m, k) and (…, k, n); one dimension is a vector, whose axis vanishes.

    Axes in front are broadcast. Lazy; differentiable.
    """
    small = product(x1, x2)
    if small is not None:
        return small  # type: ignore[no-any-return]
    function = f"{_NAMESPACE}.matmul"
    for name, value in (("x1", x1), ("x2", x2)):
        if not require_array(function, name, value).ndim:
            raise ValueError(f"{function}(): '{name}' must have a dimension at least.")
    a, b = operands(function, (x1, x2), ("x1", "x2"), broadcast=False)
    if a._dtype.kind == "b":  # whether there is a pair of which both are true
        return converted(matmul(converted(a, dtypes.int32), converted(b, dtypes.int32)), dtypes.bool)
    first, second = a.ndim == 1, b.ndim == 1
    if first:
        a = reshape(a, (1, a.shape[0]))
    if second:
        b = reshape(b, (b.shape[0], 1))
    if a.shape[-1] != b.shape[-2]:
        raise ValueError(f"{function}(): the shapes {x1.shape} and {x2.shape} do not go together: there are "
                         f"{a.shape[-1]} columns and {b.shape[-2]} rows.")
    try:
        batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    except ValueError:
        raise ValueError(f"{function}(): the shapes {x1.shape} and {x2.shape} cannot be broadcast but for their last "
                         "two axes.") from None
    shape = (*batch, a.shape[-2], b.shape[-1])
    if not math.prod(shape) or not a.shape[-1]:
        found = constant(a._dtype, 0, shape, a.device)
    elif a._dtype.kind == "c":
        (ar, ai), (br, bi) = a._parts, b._parts
        found = wrap(a._dtype, _product(ar, br) - _product(ai, bi), _product(ar, bi) + _product(ai, br))
    else:
        found = wrap(a._dtype, _product(a._parts[0], b._parts[0]))
    if first or second:
        kept = [size for axis, size in enumerate(shape) if not (first and axis == len(shape) - 2 or
                                                               second and axis == len(shape) - 1)]
        found = reshape(found, tuple(kept))
    return found


def _product(a: Any, b: Any) -> Any:
    return dr.matmul(a, b)


def tensordot(x1: Array, x2: Array, /, *, axes: int | tuple[Sequence[int], Sequence[int]] = 2) -> Array:
    """The sum of products over pairs of axes: the last ``axes`` of ``x1`` with the first of ``x2``, or those that two
    sequences name. Lazy; differentiable."""
    function = f"{_NAMESPACE}.tensordot"
    a, b = operands(function, require_arrays(function, (x1, x2), ("x1", "x2")), ("x1", "x2"), broadcast=False)
    if isinstance(axes, int):
        if not 0 <= axes <= min(a.ndim, b.ndim):
            raise ValueError(f"{function}(): 'axes' is {axes}, for arrays of {a.ndim} and {b.ndim} dimensions.")
        left, right = tuple(range(a.ndim - axes, a.ndim)), tuple(range(axes))
    else:
        left = normalized_axes(function, tuple(axes[0]), a.ndim, "axes[0]")
        right = normalized_axes(function, tuple(axes[1]), b.ndim, "axes[1]")
    if len(left) != len(right) or any(a.shape[i] != b.shape[j] for i, j in zip(left, right, strict=True)):
        raise ValueError(f"{function}(): the axes {left} of the shape {a.shape} do not go with the axes {right} of the "
                         f"shape {b.shape}.")
    kept_a = [axis for axis in range(a.ndim) if axis not in left]
    kept_b = [axis for axis in range(b.ndim) if axis not in right]
    inner = math.prod([a.shape[axis] for axis in left])
    rows = math.prod([a.shape[axis] for axis in kept_a])
    columns = math.prod([b.shape[axis] for axis in kept_b])
    shape = tuple([a.shape[axis] for axis in kept_a] + [b.shape[axis] for axis in kept_b])
    a = reshape(permute_dims(a, (*kept_a, *left)), (rows, inner))
    b = reshape(permute_dims(b, (*right, *kept_b)), (inner, columns))
    return reshape(matmul(a, b), shape)


def vecdot(x1: Array, x2: Array, /, *, axis: int = -1) -> Array:
    """The sum of products along an axis; ``x1`` is conjugated. Other axes are broadcast. Lazy; differentiable."""
    function = f"{_NAMESPACE}.vecdot"
    a, b = operands(function, require_arrays(function, (x1, x2), ("x1", "x2")), ("x1", "x2"), broadcast=False)
    if a._dtype.kind == "b":
        return converted(vecdot(converted(a, dtypes.int32), converted(b, dtypes.int32), axis=axis), dtypes.bool)
    if not a.ndim or not b.ndim:
        raise ValueError(f"{function}(): 'x1' and 'x2' must have a dimension at least.")
    if not -min(a.ndim, b.ndim) <= axis < (0 if a.ndim != b.ndim else a.ndim):
        normalized_axis(function, axis, min(a.ndim, b.ndim))
    a, b = (moveaxis(array, axis, -1) for array in (a, b))
    if a.shape[-1] != b.shape[-1]:
        raise ValueError(f"{function}(): the axes have the sizes {a.shape[-1]} and {b.shape[-1]}.")
    return total(multiply(conj(a), b), axis=-1, dtype=a._dtype)


