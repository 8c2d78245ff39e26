"""Parts of tensors that integers, slices, ``None`` and ``...`` choose, and tensors with their axes in another order.

What a key or an order makes of a shape follows from both, and is remembered (:class:`Part`); any other key is left to
:mod:`.slicing`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import drjit_core as core
from drjit_core import access, view

from .._base.handle import fresh_array, held
from .lanes import WATCHES
from .slicing import Access, collapsed, contiguous_strides, read

__all__ = ["Part", "filled_by", "of_memory", "part_of", "permuted", "reshaped"]

#: So many keys are remembered.
_MOST = 4096
_known: dict[tuple[Any, Any], Part] = {}


class Part:
    """What a key chooses of arrays of a shape: a function that reads it of a tensor, its ``shape``, and where it lies:
    at a ``base``, with ``strides``, which is an ``access``."""

    __slots__ = ("_axes", "_extents", "_first", "_size", "_steps", "access", "base", "shape", "strides")

    def __init__(self, source: tuple[int, ...], first: list[int], axes: list[tuple[int, int]],
                 sizes: list[int]) -> None:
        within = contiguous_strides(source)
        self._first, self._axes = first, axes
        self.shape = tuple(sizes)
        self.base, self.strides = self.placed(0, within)
        self.access = Access(self.base, self.shape, self.strides)
        self._size = 1
        for size in sizes:
            self._size *= size
        merged = collapsed(self.shape, self.strides) if self._size else []
        self._extents = tuple([extent for extent, _ in merged])
        self._steps = tuple([step for _, step in merged])

    def placed(self, offset: int, strides: tuple[int, ...]) -> tuple[int, tuple[int, ...]]:
        """Where the part lies in an array of which all lies at an offset, with strides."""
        for first, stride in zip(self._first, strides, strict=True):
            offset += first * stride
        return offset, tuple([0 if axis < 0 else strides[axis] * step for axis, step in self._axes])

    def __call__(self, tensor: Any) -> Any:
        result = fresh_array(type(tensor))
        result._n = self.of_node(held(tensor))
        result._s = self.shape
        result._o = None
        return result

    def of_node(self, node: core.Node) -> core.Node:
        """The part of the elements of a tensor."""
        axes = len(self._extents)
        if not WATCHES and self._size:
            if axes == 0:
                return access(node, self.base, 1, 1)
            if axes == 1 and self._steps[0]:
                return access(node, self.base, self._steps[0], self._extents[0])
            if axes > 1:
                found = view(node, self.base, self._extents, self._steps)
                if found is not None:
                    return found
        return read(node, self.access)


def part_of(shape: tuple[int, ...], key: Any) -> Part | None:
    """What a key chooses of arrays of a shape: a function of tensors, with the ``shape`` of its results. ``None`` if
    that is more than Python's own integers and slices say, or does not exist. Evaluates nothing.

    >>> from drjit.llvm import TensorXf
    >>> part = dr.detail.part_of((2, 3), (slice(None), 1))
    >>> part(TensorXf([[1, 2, 3], [4, 5, 6]]))
    [2, 5]
    >>> part.shape, part.base, part.strides
    ((2,), 1, (3,))
    """
    name = _name_of(key)
    if name is None:
        return None
    found = _known.get((shape, name))
    if found is None:
        entries = _entries(shape, key)
        if entries is None:
            return None
        found = _remember(shape, name, _chosen(shape, entries))
    return found


def permuted(shape: tuple[int, ...], order: tuple[int | None, ...]) -> Part:
    """What takes the axes of arrays of a shape in some order, with a new one for each ``None``; axes that are left out
    have one element. A function of tensors, as that of :func:`part_of`. Evaluates nothing.

    >>> from drjit.llvm import TensorXf
    >>> dr.detail.permuted((2, 3), (1, 0))(TensorXf([[1, 2, 3], [4, 5, 6]]))
    [[1, 4],
     [2, 5],
     [3, 6]]
    """
    found = _known.get((shape, (_AXES, order)))
    if found is None:
        axes = [(-1, 0) if axis is None else (axis, 1) for axis in order]
        sizes = [1 if axis is None else shape[axis] for axis in order]
        found = _remember(shape, (_AXES, order), Part(shape, [0] * len(shape), axes, sizes))
    return found


def _remember(shape: tuple[int, ...], name: Any, part: Part) -> Part:
    if len(_known) >= _MOST:
        _known.clear()
    _known[shape, name] = part
    return part


def _chosen(shape: tuple[int, ...], entries: list[Any]) -> Part:
    """The part that integers, slices and new axes choose."""
    first: list[int] = []
    axes: list[tuple[int, int]] = []
    sizes: list[int] = []
    for entry in entries:
        axis = len(first)
        if entry is None:
            axes.append((-1, 0))
            sizes.append(1)
        elif type(entry) is int:
            first.append(entry % shape[axis])
        else:
            chosen = range(shape[axis])[entry]
            first.append(chosen.start if chosen else 0)
            axes.append((axis, chosen.step))
            sizes.append(len(chosen))
    return Part(shape, first, axes, sizes)


def reshaped(tensor: Any, shape: tuple[int, ...]) -> Any:
    """A tensor with the elements of another one, in their order, and a shape of as many, which is not checked.

    >>> from drjit.llvm import TensorXf
    >>> dr.detail.reshaped(TensorXf([1, 2, 3, 4]), (2, 2))
    [[1, 2],
     [3, 4]]
    """
    result = fresh_array(type(tensor))
    result._n = held(tensor)
    result._s = shape
    result._o = None
    return result


def of_memory(cls: Any, value: Any) -> Any:
    """A tensor with a copy of a NumPy array in C order, which has elements, of just the type's; nothing is checked.

    >>> import numpy as np
    >>> from drjit.llvm import TensorXf
    >>> dr.detail.of_memory(TensorXf, np.ones((1, 2), np.float32))
    [[1, 1]]
    """
    result = fresh_array(cls)
    result._n = core.import_copy(cls._type, value, cls._where)
    result._s = value.shape
    result._o = None
    return result


def filled_by(cls: Any, shape: tuple[int, ...], fill: Callable[[Any], None]) -> Any:
    """A tensor of a shape that has elements, whose bytes a function writes, all of them; it must keep no view of them.

    >>> import numpy as np
    >>> from drjit.llvm import TensorXf
    >>> dr.detail.filled_by(TensorXf, (2,), lambda memory: np.frombuffer(memory, np.float32).fill(3))
    [3, 3]
    """
    result = fresh_array(cls)
    result._n = core.import_written(cls._type, math.prod(shape), fill, cls._where)
    result._s = shape
    result._o = None
    return result


#: Names of entries that are no numbers.
_DOTS, _NEW, _AXES = "...", "None", "axes"


def _name_of(key: Any) -> Any:
    """By what a key is remembered; ``None`` if it is not."""
    cls = type(key)
    if cls is int:
        return key
    if cls is tuple:
        names = []
        for entry in key:
            name = entry if type(entry) is int else None if type(entry) is tuple else _name_of(entry)
            if name is None:
                return None
            names.append(name)
        return tuple(names)
    if cls is slice:
        start, stop, step = key.start, key.stop, key.step
        if (start is None or type(start) is int) and (stop is None or type(stop) is int) and \
                (step is None or type(step) is int and step):
            return slice, start, stop, step
        return None
    return _NEW if key is None else _DOTS if key is Ellipsis else None


def _entries(shape: tuple[int, ...], key: Any) -> list[Any] | None:
    """An entry of a key for each axis, and those for new ones; ``None`` if it names what does not exist."""
    found = list(key) if type(key) is tuple else [key]
    used = len([entry for entry in found if entry is not None and entry is not Ellipsis])
    dots = [place for place, entry in enumerate(found) if entry is Ellipsis]
    if used > len(shape) or len(dots) > 1:
        return None
    place = dots[0] if dots else len(found)
    found[place:place + 1] = [slice(None)] * (len(shape) - used)
    sizes = iter(shape)
    for entry in found:
        if entry is not None:
            size = next(sizes)
            if type(entry) is int and not -size <= entry < size:
                return None
    return found
