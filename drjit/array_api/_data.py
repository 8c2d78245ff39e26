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
from drjit.detail import part_of as chosen_by

from . import _dtypes as dtypes
from ._dtypes import DType
from ._evaluation import in_body, note, settle

if TYPE_CHECKING:
    from ._array import Array

__all__ = ["Storage", "View", "constant", "contiguous_strides", "copy_of", "default_dtype", "evaluated", "expanded",
           "hold", "in_body", "made", "part_of", "part_of_constant", "parts_of", "register", "view_of", "viewed",
           "wrap"]


def contiguous_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of an array in C order, in elements."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))


class View:
    """Where the elements of an array lie in those of another one in C order, and the writes to it that are known.

    ``load`` makes the view's tensor of one of the array that it was made of, which may be a view itself: ``outer``.
    Where it lies is asked for by writes only: of what a key has chosen (``dr.detail.part_of``), it is found then.
    """

    __slots__ = ("_place", "load", "outer", "root", "seen", "shape")

    def __init__(self, array: Storage, load: Callable[[Any], Any], place: tuple[int, tuple[int, ...]] | None) -> None:
        self.outer, self.load, self._place = array._view, load, place
        self.root: Storage = array if self.outer is None else self.outer.root
        self.seen = self.root._writes
        #: That of the array that it was made of.
        self.shape: tuple[int, ...] = array._held[0].shape

    @property
    def place(self) -> tuple[int, tuple[int, ...]]:
        """The position of the first element in the root, and strides."""
        if self._place is None:
            outer = (0, contiguous_strides(self.shape)) if self.outer is None else self.outer.place
            self._place = self.load.placed(*outer)  # type: ignore[attr-defined]
        return self._place

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

    def __init__(self, dtype: DType, parts: tuple[Any, ...]) -> None:
        self._dtype = dtype
        self._held = parts  # of a view, what was read last
        self._view: View | None = None
        self._writes = 0
        note(self)

    @property
    def _parts(self) -> tuple[Any, ...]:
        """The tensors."""
        return parts_of(self)

    @property
    def place(self) -> tuple[int, tuple[int, ...]]:
        """Where the elements lie among those of the root: the position of the first one, and strides."""
        view = self._view
        return (0, contiguous_strides(self.shape)) if view is None else view.place

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


#: The class of arrays.
_final: Any = Storage


def register(cls: type[Array]) -> None:
    """Tell of the class of arrays, which stands above the functions."""
    global _final
    _final = cls


def parts_of(array: Storage) -> tuple[Any, ...]:
    """The tensors of an array."""
    view = array._view
    if view is None or view.seen == view.root._writes:
        return array._held
    parts = tuple([view.read(part) for part in view.root._held])
    if not in_body():  # what is read in the body of a loop or a branch is of use in there alone
        hold(array, parts)
        view.seen = view.root._writes
    return parts


def hold(array: Storage, parts: tuple[Any, ...]) -> None:
    """Give an array other tensors."""
    array._held = parts
    note(array)


def evaluated(array: Storage) -> tuple[Any, ...]:
    """The tensors of an array whose values are asked for, evaluated with what the policy says."""
    settle(array)
    return parts_of(array)


def made(dtype: DType, parts: tuple[Any, ...]) -> Array:
    """An array of a data type, given a tuple of the tensors."""
    cls = _final
    array = cls.__new__(cls)
    array._dtype = dtype
    array._held = parts
    array._view = None
    array._writes = 0
    note(array)
    return array  # type: ignore[no-any-return]


def wrap(dtype: DType, *parts: Any) -> Array:
    """An array of a data type, given a tensor for each part of its elements."""
    return made(dtype, parts)


def view_of(array: Storage, load: Callable[[Any], Any], offset: int, strides: tuple[int, ...]) -> Array:
    """A view of an array: what makes its tensors of those of the array, and where its elements lie in the root."""
    return viewed(array, load, (offset, strides))


def part_of(array: Storage, key: Any) -> Array | None:
    """What a key of integers and slices chooses, a view or a single element; ``None`` for other keys."""
    part = chosen_by(array._held[0].shape, key)
    if part is None:
        return None
    if part.shape or not array.ndim:
        return viewed(array, part)
    return made(array._dtype, tuple([part(tensor) for tensor in parts_of(array)]))


def viewed(array: Storage, load: Callable[[Any], Any], place: tuple[int, tuple[int, ...]] | None = None) -> Array:
    """A view of an array, whose place is asked for when it is needed, unless it is given."""
    result = made(array._dtype, tuple([load(tensor) for tensor in parts_of(array)]))
    result._view = View(array, load, place)
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
