"""Parts of tensors: what lies between positions along an axis, at them, or in between by interpolation.

Nothing is evaluated.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import drjit_core as core

from .._access.keys import is_array_key, is_mask, key_integer
from .._access.slicing import normalise_axis, parse_slice, read
from .._arrays.broadcasting import make
from .._base.arguments import require_count, require_integer, require_tensor
from .._base.array import ArrayBase
from .._base.errors import CORE_ERRORS, ArgumentError, SizeError, describe, translate
from .._base.types import FLOAT32, FLOAT64, INT64, UINT32, retype
from .._base.typing import ArrayT
from .._base.values import plain_scalar
from .elementwise import floor, lerp, maximum, minimum, select

__all__ = ["array_split", "split", "take", "take_interp"]


def split(value: ArrayT, indices_or_sections: int | Sequence[int], /, axis: int = 0) -> list[ArrayT]:
    """A list of parts of a tensor along an axis: a number of equal ones, or those between the given positions.

    Raises a ``TypeError`` if ``value`` is no tensor, and if it cannot be split into that many equal parts (see
    :func:`array_split`). Evaluates nothing.

    >>> from drjit.llvm import Float, TensorXf
    >>> x = TensorXf(dr.arange(Float, 6))
    >>> dr.split(x, 2)
    [[0, 1, 2], [3, 4, 5]]
    >>> dr.split(x, [1, 3])
    [[0], [1, 2], [3, 4, 5]]
    """
    function = "drjit.split"
    tensor = require_tensor(function, value)
    found = normalise_axis(function, axis, len(tensor._s))
    size = tensor._s[found]
    if isinstance(indices_or_sections, (list, tuple)):
        bounds = [0, *(require_integer(function, f"indices_or_sections[{k}]", entry)
                       for k, entry in enumerate(indices_or_sections)), size]
    else:
        sections = require_integer(function, "indices_or_sections", indices_or_sections)
        if sections < 1 or size % sections:
            raise ArgumentError(f"{function}(): axis {found} of size {size} cannot be split into {sections} equal "
                                "parts; see drjit.array_split().")
        bounds = list(range(0, size + 1, size // sections)) if size else [0] * (sections + 1)
    return _parts(tensor, bounds, found)


def array_split(value: ArrayT, sections: int, /, axis: int = 0) -> list[ArrayT]:
    """A list of parts of a tensor along an axis whose sizes differ by at most one, the larger ones first.

    Raises a ``TypeError`` if ``value`` is no tensor. Evaluates nothing.

    >>> from drjit.llvm import Float, TensorXf
    >>> dr.array_split(TensorXf(dr.arange(Float, 5)), 3)
    [[0, 1], [2, 3], [4]]
    """
    function = "drjit.array_split"
    tensor = require_tensor(function, value)
    found = normalise_axis(function, axis, len(tensor._s))
    count = require_count(function, "sections", sections, 1)
    small, larger = divmod(tensor._s[found], count)
    return _parts(tensor, [k * small + min(k, larger) for k in range(count + 1)], found)


def _parts(tensor: Any, bounds: Sequence[int], axis: int) -> list[Any]:
    before = (slice(None),) * axis
    return [tensor[(*before, slice(start, stop))] for start, stop in itertools.pairwise(bounds)]


def take(value: ArrayT, index: int | ArrayBase, axis: int = 0) -> ArrayT:
    """What ``value[..., index, ...]`` selects, with an integer or an integer array ``index`` at position ``axis``.

    ``value`` is a tensor, else a ``TypeError`` is raised. An integer removes the axis; an array gives it its size.
    Indices that are too large are found in debug mode only (``JitFlag.Debug``). Evaluates nothing.

    >>> from drjit.llvm import TensorXf, UInt
    >>> x = TensorXf([1, 2, 3, 4, 5, 6], shape=(2, 3))
    >>> dr.take(x, 1)
    [4, 5, 6]
    >>> dr.take(x, UInt(2, 0), axis=1)
    [[3, 1],
     [6, 4]]
    """
    function = "drjit.take"
    tensor: Any = require_tensor(function, value)
    found = normalise_axis(function, axis, len(tensor._s))
    if key_integer(index) is None and (not is_array_key(index) or is_mask(index)):
        raise TypeError(f"{function}(): 'index' must be an int or an array of integers, found {describe(index)}.")
    access, shape = parse_slice(function, tensor._s, (*(slice(None),) * found, index))
    try:
        result: ArrayT = make(type(tensor), read(tensor._n, access), shape)
    except CORE_ERRORS as error:
        raise translate(error, function) from None
    return result


def take_interp(value: ArrayT, pos: float | ArrayBase, axis: int = 0) -> ArrayT:
    """Values between the entries of a tensor along an axis, by linear interpolation at fractional positions.

    ``pos`` is a number, which removes the axis, or an array of one dimension, which gives it its size. Position 0 is
    the first entry, ``n - 1`` the last one; beyond, the first and the last segment are extended. The result has the
    type of ``value``. Raises a ``TypeError`` if ``value`` is no tensor, a ``RuntimeError`` if the axis has fewer than
    two entries. Evaluates nothing.

    >>> from drjit.llvm import Float, TensorXf
    >>> x = TensorXf([0, 1, 2, 10, 20, 40], shape=(2, 3))
    >>> dr.take_interp(x, 0.5)
    [5, 10.5, 21]
    >>> dr.take_interp(x, Float(0.5, 1.25), axis=1)
    [[0.5, 1.25],
     [15, 25]]
    """
    function = "drjit.take_interp"
    tensor: Any = require_tensor(function, value)
    rank = len(tensor._s)
    found = normalise_axis(function, axis, rank)
    size = tensor._s[found]
    if size < 2:
        raise SizeError(f"{function}(): axis {found} has size {size}, but interpolation needs at least 2 entries.")
    if tensor._kind == "b":
        raise ArgumentError(f"{function}(): masks cannot be interpolated; convert them first.")
    cls: Any = type(tensor)
    # at least in single precision, and in double precision where the position or the value has it
    wide: Any = retype(cls, FLOAT64 if cls._leaf._type in (FLOAT64, INT64) else FLOAT32)
    before = (slice(None),) * found
    number = plain_scalar(pos)
    if number is not None:
        if not math.isfinite(number):
            raise ArgumentError(f"{function}(): 'pos' must be finite, found {pos!r}.")
        start = min(max(math.floor(number), 0), size - 2)
        below, above = (wide(tensor[(*before, k)]) for k in (start, start + 1))
        result: ArrayT = cls(lerp(below, above, number - start))
        return result
    at: Any = pos
    if not isinstance(pos, ArrayBase):
        kind: Any = wide._leaf
        try:
            at = kind(pos)
        except (TypeError, ValueError, RuntimeError) as error:
            raise ArgumentError(f"{function}(): 'pos' must be a number or an array of one dimension: {error}") from None
    if at._depth > 0 or len(at.shape) != 1 or at._kind == "b" or not at._dynamic:
        raise TypeError(f"{function}(): 'pos' must be a number or an array of one dimension, found {describe(at)}"
                        f"{f' of the shape {at.shape}' if at._depth < 0 else ''}.")
    flat: Any = at if at._depth == 0 else at.array
    if not len(flat):
        empty: ArrayT = make(cls, core.invalid(cls._type), (*tensor._s[:found], 0, *tensor._s[found + 1:]))
        return empty
    exact: Any = retype(type(flat), FLOAT64 if flat._type == FLOAT64 or size > 1 << 22 else FLOAT32)(flat)
    # NaN is at no position, but interpolates to NaN
    index: Any = retype(type(flat), UINT32)(maximum(minimum(floor(exact), size - 2), 0))
    index = select(exact == exact, index, 0)
    weight = wide((exact - type(exact)(index)), shape=(len(flat), *(1,) * (rank - 1 - found)))
    below, above = (wide(tensor[(*before, k)]) for k in (index, index + 1))
    interpolated: ArrayT = cls(lerp(below, above, weight))
    return interpolated
