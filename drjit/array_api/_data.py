"""What an array is made of: a data type, and tensors of one shape, one of each part of its elements.

Elements of real, integer and Boolean types have one part, complex ones two, the real and the imaginary part. The class
that users see (:mod:`._array`) stands above the functions, which make its instances by :func:`wrap`.

Arrays can be *views* of others, as NumPy's can: the results of keys of integers and slices, of transposing and of
reshaping. Tensors are values, so that a view is a value of its own, and a note of where it lies in the array that owns
the elements, its *root*. What is written to a view goes to the root; a view that is older than the last write to its
root reads itself again.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import drjit as dr

from . import _dtypes as dtypes
from ._dtypes import DType

if TYPE_CHECKING:
    from ._array import Array

__all__ = ["Storage", "View", "constant", "contiguous_strides", "copy_of", "default_dtype",
           "expanded", "in_body", "part_of_constant",
           "view_of", "wrap"]


def contiguous_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of an array in C order, in elements."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))


def in_body() -> bool:
    """Whether the body of a symbolic loop, branch or call is traced: variables that are made in there stay in there."""
    return dr.flag(dr.JitFlag.SymbolicScope)


class View:
    """Where the elements of an array lie in those of another one in C order, and the writes to it that are known.

    ``load`` makes the view's tensor of one of the array that it was made of, which may be a view itself: ``outer``.
    """

    __slots__ = ("load", "offset", "outer", "root", "seen", "strides")

    def __init__(self, array: Storage, load: Callable[[Any], Any], offset: int, strides: tuple[int, ...]) -> None:
        self.outer, self.load, self.offset, self.strides = array._view, load, offset, strides
        self.root: Storage = array if self.outer is None else self.outer.root
        self.seen = self.root._writes

    def read(self, part: Any) -> Any:
        """The elements of the view among those of a tensor of the root."""
        steps: list[Callable[[Any], Any]] = []
        view: View | None = self
        while view is not None:
            steps.append(view.load)
            view = view.outer
        for load in reversed(steps):
            part = load(part)
        return part


class Storage:
    """The data of an array, which functions read."""

    __slots__ = ("__weakref__", "_dtype", "_held", "_view", "_writes")

    #: The class of arrays, which registers itself.
    final: type[Array]

    def __init__(self, dtype: DType, parts: tuple[Any, ...]) -> None:
        self._dtype = dtype
        self._held = parts  # of a view, what was read last
        self._view: View | None = None
        self._writes = 0

    @property
    def _parts(self) -> tuple[Any, ...]:
        """The tensors."""
        view = self._view
        if view is None or view.seen == view.root._writes:
            return self._held
        parts = tuple([view.read(part) for part in view.root._held])
        if not in_body():  # what is read in the body of a loop or a branch is of use in there alone
            self._held, view.seen = parts, view.root._writes
        return parts

    @property
    def place(self) -> tuple[int, tuple[int, ...]]:
        """Where the elements lie among those of the root: the position of the first one, and strides."""
        view = self._view
        return (0, contiguous_strides(self.shape)) if view is None else (view.offset, view.strides)

    @property
    def dtype(self) -> DType:
        """The type of the elements."""
        return self._dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the axes."""
        return self._held[0].shape  # type: ignore[no-any-return]

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self._held[0].shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self._held[0].shape)


def wrap(dtype: DType, *parts: Any) -> Array:
    """An array of a data type, given a tensor for each part of its elements."""
    return Storage.final(dtype, parts)


def view_of(array: Storage, load: Callable[[Any], Any], offset: int, strides: tuple[int, ...]) -> Array:
    """A view of an array: what makes its tensors of those of the array, and where its elements lie in the root."""
    result = wrap(array._dtype, *map(load, array._parts))
    result._view = View(array, load, offset, strides)
    return result


def copy_of(array: Storage) -> Array:
    """An array of its own with the same elements, which are copied as soon as one of both is written to."""
    return wrap(array._dtype, *[type(part)(part) for part in array._parts])


def constant(dtype: DType, number: complex, shape: tuple[int, ...] = ()) -> Array:
    """An array whose elements are all the same number."""
    if dtype.kind == "c":
        return wrap(dtype, part_of_constant(dtype.part, number.real, shape),
                    part_of_constant(dtype.part, number.imag, shape))
    return wrap(dtype, part_of_constant(dtype, number, shape))


def part_of_constant(dtype: DType, number: Any, shape: tuple[int, ...] = ()) -> Any:
    """A tensor of a real type whose elements are all the same number."""
    return dr.full(dtype.tensor, number, shape)


def expanded(part: Any, shape: tuple[int, ...]) -> Any:
    """A tensor broadcast to a shape."""
    if part.shape == shape:
        return part
    if dr.is_mask_v(part):
        return part | dr.zeros(type(part), shape)
    # Not +0, which would turn -0 into +0.
    return part + dr.full(type(part), -0.0 if dr.is_float_v(part) else 0, shape)


def default_dtype(number: Any) -> DType:
    """The type of an array that is made of a Python number."""
    if isinstance(number, bool):
        return dtypes.bool
    if isinstance(number, int):
        return dtypes.DEFAULT_INT
    return dtypes.DEFAULT_FLOAT if isinstance(number, float) else dtypes.DEFAULT_COMPLEX
