"""What an array is made of: a data type, and tensors of one shape, one of each part of its elements.

Elements of real, integer and Boolean types have one part, complex ones two, the real and the imaginary part. The class
that users see (:mod:`._array`) stands above the functions, which make its instances by :func:`wrap`.

Arrays can be *views* of others, as NumPy's can: the results of keys of integers and slices, of transposing and of
reshaping. Tensors are values, so that a view is a value of its own, and a note of where it lies in the array that owns
the elements, its *root*. What is written to a view goes to the root; a view that is older than the last write to its
root, by whomever, reads itself again, and so does one whose root has got derivatives since, or shares its memory. The
real and the imaginary part of a complex array are views of one of its tensors.

Small arrays hold a NumPy array, their *value*, instead of tensors or beside them (:func:`value_of`): operations on
these are NumPy's, at once (:mod:`._small`). That of a view shares the memory of its root's. Whoever asks for tensors
gets some with the same elements; those who may write to them from outside (:func:`given`) make the array forget its
value.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import numpy as np

import drjit as dr
from drjit.detail import (
    bytes_of,
    computes_now,
    contents,
    copied,
    in_plain_code,
    is_pending,
    is_variable,
    of_memory,
    permuted,
    read_by,
    tracking,
    write_by,
)
from drjit.detail import part_of as chosen_by
from drjit.interop import contiguous_strides

from . import _dtypes as dtypes
from ._devices import CPU
from ._dtypes import DType
from ._evaluation import COMPILED, eager, in_body, note, settle

if TYPE_CHECKING:
    from ._array import Array

__all__ = ["Storage", "View", "constant", "copy_of", "default_dtype", "evaluated", "expanded", "for_others", "given",
           "has_value", "hold", "in_body", "is_current", "made", "of_own", "of_value", "own", "own_tensors", "part_of",
           "parts_of", "put_elements", "read_elements", "register", "require_writable", "reshaped_now", "reversed_axes",
           "same", "share_memory", "tensors_of", "tensors_with", "value_of", "view_by", "view_of", "view_of_part",
           "view_of_zeros", "viewed", "was_read", "wrap", "writing", "written"]


#: Held while tensors of an array are written to: threads may write to other elements of it.
writing = threading.RLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=writing.acquire, after_in_parent=writing.release, after_in_child=writing.release)
#: Views of all tensors of an array, and zeros beside real ones.
_ALL, _ZEROS = -1, -2
#: In place of the key of a view whose axes are those of another array in reverse order.
_REVERSED = object()
#: What keys are made of that numbers of NumPy's are not looked for.
_PLAIN = (int, slice, type(None), type(Ellipsis))
_LITERAL, _EVALUATED, _UNEVALUATED = dr.VarState.Literal, dr.VarState.Evaluated, dr.VarState.Unevaluated
_ndarray = np.ndarray


class View:
    """Where the elements of an array lie in those of another one in C order, and the writes to it that are known.

    ``load`` makes the view's tensor of one of the array that it was made of, which may be a view itself: ``outer``.
    Where it lies is asked for by writes only: of what a ``key`` has chosen (``dr.detail.part_of``), it is found then,
    and so is ``load`` if it is not given.
    """

    __slots__ = ("_load", "_place", "contents", "key", "made", "outer", "part", "root", "seen", "shape", "source")

    _load: Any
    _place: Any
    key: Any
    outer: View | None
    root: Storage
    #: Which of the tensors of the root it is made of, or _ALL.
    part: int
    #: That of the array that it was made of.
    shape: tuple[int, ...]
    #: The writes to the root, what stood for its elements (``dr.detail.contents``), and what its derivatives and those
    #: of the view were, when it was read last.
    seen: int
    contents: tuple[int, ...] | None
    source: Any
    made: Any

    @property
    def load(self) -> Callable[[Any], Any]:
        """What makes the view's tensor."""
        if self._load is None:
            self._load = permuted(self.shape, tuple(range(len(self.shape)))[::-1]) if self.key is _REVERSED else \
                chosen_by(self.shape, self.key)
        return cast(Callable[[Any], Any], self._load)

    @property
    def place(self) -> tuple[int, tuple[int, ...]]:
        """The position of the first element in the root, and strides."""
        if self._place is None:
            outer = (0, contiguous_strides(self.shape)) if self.outer is None else self.outer.place
            self._place = self.load.placed(*outer)  # type: ignore[attr-defined]
        return cast(tuple[int, tuple[int, ...]], self._place)

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


def _noted(array: Storage, load: Callable[[Any], Any] | None, place: tuple[int, tuple[int, ...]] | None, part: int,
           key: Any = None) -> View:
    """Where a view of an array lies."""
    view = View.__new__(View)
    outer = view.outer = array._view
    view._load, view._place, view.key = load, place, key
    view.root = array if outer is None else outer.root
    view.part = part if outer is None or part != _ALL else outer.part
    view.shape = array.shape
    view.seen = 0
    view.contents = None
    view.source = view.made = 0
    return view


class Storage:
    """The data of an array, which functions read."""

    # Values, and how often these are written to, are no state that constructs could find: they get tensors.
    __slots__ = ("__weakref__", "_dtype", "_held", "_view") if COMPILED else \
        ("__weakref__", "_dtype", "_given", "_held", "_value", "_view", "_writes")

    def __init__(self, dtype: DType, parts: tuple[Any, ...]) -> None:
        self._dtype = dtype
        self._held: Any = parts  # of a view, what was read last; ``None`` if there is a value alone
        self._value: Any = None  # of a view, of the value that its root had last
        self._given = False
        self._view: View | None = None
        self._writes = 0
        note(self)

    def _tensors(self) -> Any:
        """The tensors that are there; ``None`` if there is a value alone. Those of a view may be old."""
        return self._held

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
    def dtype(self) -> np.dtype[Any]:
        """The type of the elements, as NumPy's, which equals that of the namespace."""
        return self._dtype.numpy

    @property
    def device(self) -> str:
        """Where the elements are: ``'cpu'`` or ``'cuda'``."""
        held: Any = self._held
        return CPU if not held or type(held[0]) is self._dtype.part.tensor else dtypes.device_of(held[0])

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the axes."""
        return self._value.shape if self._held is None else self._held[0].shape  # type: ignore[no-any-return]

    @shape.setter
    def shape(self, value: Any) -> None:
        raise AttributeError(f"drjit.array_api.Array.shape: an array keeps its shape; x = x.reshape({value!r}) is a "
                             "view with another one.")

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)


#: The class of arrays.
_final: Any = Storage


def register(cls: type[Array]) -> None:
    """Tell of the class of arrays, which stands above the functions."""
    global _final
    _final = cls


def parts_of(array: Storage) -> tuple[Any, ...]:
    """The tensors of an array."""
    view = array._view
    held: Any = array._held
    if view is None:
        if held is None:
            held = array._held = tensors_with(array._dtype, array._value)
        return held  # type: ignore[no-any-return]
    if held is not None and is_current(view) and view.source == _tracked(view.root):
        return held  # type: ignore[no-any-return]
    parts = tuple([view.read(part) for part in tensors_of(view)])
    if not in_plain_code():  # what is read in the body of a loop or a branch is of use in there alone
        return parts
    found = tracking(parts)
    if held is not None and view.made != tracking(held):
        parts = _kept(view, held, parts)
    hold(array, parts)
    view.seen, view.source, view.made = view.root._writes, _tracked(view.root), found
    view.contents = _contents(view.root)
    return parts


def _contents(root: Storage) -> Any:
    """What stands for the elements of an array that owns them; ``None`` where others may write to them unnoticed."""
    held: Any = root._held
    return () if held is None else contents(held, root._given)


def is_current(view: View) -> bool:
    """Whether the root of a view holds what it did when the view was read last: nobody has written to it since, this
    namespace, others by a tensor of it, or in memory that they share."""
    return view.contents is not None and view.seen == view.root._writes and view.contents == _contents(view.root)


def given(array: Storage) -> tuple[Any, ...]:
    """The tensors of an array, for those who may write to them."""
    parts = parts_of(array)
    array._given = True
    if COMPILED and array._held is not None:  # else the value is all that there is, within functions of constructs
        array._value = None
    return parts


def for_others(array: Storage) -> tuple[Any, ...]:
    """The tensors of an array, evaluated with what the policy says, for those who may write to their memory. That of a
    view is a copy, since its root could not know of what is written there."""
    settle(array)
    if array._view is None:
        return given(array)
    return tuple(map(copied, parts_of(array)))


def own_tensors(root: Storage) -> None:
    """Give an array tensors that nobody else has: other arrays may have the same."""
    hold(root, tuple([type(part)(part) for part in parts_of(root)]))


def written(root: Storage, by_value: bool) -> None:
    """Note that an array has been written to, by its value or by its tensors, of which the others are gone."""
    root._writes += 1
    if by_value:
        root._held = None
    else:
        root._value = None


def _tracked(array: Storage) -> int:
    """By which vertices an array is tracked."""
    held: Any = array._held
    return 0 if held is None else tracking(held)


def value_of(array: Storage, most: int) -> Any:
    """The elements of an array as a NumPy array, if it is small and has them already, and no derivatives: at most so
    many. Those of a view are in the memory of its root's, or copies if the root is large."""
    view = array._view
    if view is None:
        return _fetched(array, most) if array._value is None else array._value
    root = view.root
    whole = _fetched(root, most) if root._value is None else root._value
    if whole is None:
        return _row_of(array) if 0 < array.size <= most < root.size else None
    if view.part == _ZEROS or array._given and not computes_now(parts_of(array)[0]):
        return None
    value = array._value
    if value is None or value.base is not whole:
        if 0 in array.shape:
            return None
        value = _seen(whole, array.shape, array._dtype, view)
        if root._value is whole:
            array._value = value
    return value


def _row_of(array: Storage) -> Any:
    """A copy of the elements of a small view of a large array; the one that it has if there are no tensors beside it
    and the root holds what it did, and has no derivatives."""
    view, value = array._view, array._value
    assert view is not None
    if value is not None and is_current(view) and not _tracked(view.root):
        return value
    value = _copied(array)
    if value is not None and array._held is None:
        array._value, view.seen, view.contents = value, view.root._writes, _contents(view.root)
    return value


def _seen(whole: Any, shape: tuple[int, ...], dtype: DType, view: View) -> Any:
    """A view of a shape in the value of its root, as a NumPy array in the same memory."""
    offset, strides = view.place
    size = whole.dtype.itemsize
    first = offset * size + (view.part * dtype.itemsize if view.part > 0 else 0)
    return _ndarray(shape, dtype.numpy, whole, first, tuple([stride * size for stride in strides]))


def share_memory(first: Storage, second: Storage) -> bool:
    """Whether an element of one array is one of another: what is written to the one is read from the other."""
    root = first if first._view is None else first._view.root
    if root is not (second if second._view is None else second._view.root):
        return False
    if not first.size or not second.size:
        return False
    whole = np.empty(root.shape, root._dtype.numpy)  # of which nothing is read
    left, right = (whole if array._view is None else _seen(whole, array.shape, array._dtype, array._view)
                   for array in (first, second))
    return np.shares_memory(left, right)


def has_value(array: Storage) -> bool:
    """Whether an array is small, has its elements, and no derivatives."""
    most = eager()
    return most > 0 and value_of(array, most) is not None


def _fetched(array: Storage, most: int) -> Any:
    """The elements of an array that owns them, which a NumPy array is made of now, if that takes no kernel."""
    dtype, held = array._dtype, array._held
    if dtype.bits == 16:
        return None
    shape, count = held[0].shape, 1
    for size in shape:
        count *= size
    if not 0 < count <= most:
        return None
    values = []
    tensor = dtype.part.tensor
    for part in held:
        if type(part) is not tensor and dtypes.device_of(part) != CPU:  # where it remains until it is asked for
            return None
        if is_pending(part) or not computes_now(part):
            return None
        if part.state is _LITERAL:
            values.append(np.full(shape, part.array[0], dtype.part.numpy))
        elif part.state is _EVALUATED or part.state is _UNEVALUATED:
            values.append(_ndarray(shape, dtype.part.numpy, bytes_of(part)).copy())
        else:
            return None
    value = values[0]
    if len(values) == 2:
        value = complex_of(dtype, values)
    if not array._given:
        array._value = value
    return value


def complex_of(dtype: DType, parts: list[Any]) -> Any:
    """A NumPy array of complex numbers with real and imaginary parts."""
    value = np.empty(parts[0].shape, dtype.numpy)
    value.real, value.imag = parts
    return value


def tensors_with(dtype: DType, value: Any, device: str = CPU) -> tuple[Any, ...]:
    """Tensors with the elements of a NumPy array of just their type, in C order."""
    tensor = dtype.on(device)
    if dtype.kind == "c":
        return of_memory(tensor, value.real.copy()), of_memory(tensor, value.imag.copy())
    return (of_memory(tensor, value),)


def of_value(dtype: DType, value: Any) -> Array:
    """An array with the elements of a NumPy array of just its type, of which nobody else knows."""
    if value.base is not None or value.ndim > 1 and not value.flags.c_contiguous:
        value = value.copy()
    return of_own(dtype, value)


def of_own(dtype: DType, value: Any) -> Array:
    """An array with the elements of a NumPy array that has memory of its own, in C order."""
    cls = _final
    array = cls.__new__(cls)
    array._dtype = dtype
    array._held = array._view = None
    array._value = value
    array._given = False
    array._writes = 0
    return array  # type: ignore[no-any-return]


def tensors_of(view: View) -> tuple[Any, ...]:
    """The tensors of the root of a view that it is made of."""
    held = parts_of(view.root)
    return held if view.part < 0 else (held[view.part],)


def was_read(array: Storage) -> None:
    """Note that a view holds what its root does."""
    view = array._view
    if view is not None:
        view.seen, view.source, view.made = view.root._writes, _tracked(view.root), _tracked(array)
        view.contents = _contents(view.root)


def _kept(view: View, before: tuple[Any, ...], parts: tuple[Any, ...]) -> tuple[Any, ...]:
    """What is read by a view that derivatives have been enabled for: the new values are those of the same variable."""
    if not is_variable(before):  # but what a construct has made of it, as of the root
        return parts
    if view.seen != view.root._writes and dr.grad_enabled(parts):
        raise RuntimeError("drjit.array_api: derivatives have been enabled for a view of an array, into which values "
                           "that have derivatives have been written since. Enable them for a copy of the view, or "
                           "for the array that it is a view of.")
    return tuple([dr.replace_grad(dr.detach(part), old) for part, old in zip(parts, before, strict=True)])


def require_writable(function: str, array: Storage) -> None:
    """Refuse to write to the variables of derivatives, whose gradients would belong to what nobody has any more, and to
    imaginary parts of real numbers."""
    view = array._view
    if view is not None and view.part == _ZEROS:
        raise ValueError(f"{function}(): the imaginary part of real numbers cannot be written to.")
    if array._dtype.kind in "fc" and not in_body() and is_variable(
            (*(array._held or ()), *(() if view is None else view.root._held or ()))):
        raise RuntimeError(f"{function}(): derivatives have been enabled for this array, whose gradient could not be "
                           "reached any more if it was written to. Write to a copy (x = x + 1, x.copy(), "
                           "x.at[key].set(value)), or call drjit.disable_grad() before.")


def hold(array: Storage, parts: tuple[Any, ...]) -> None:
    """Give an array other tensors."""
    array._held, array._value = parts, None
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
    array._value = array._view = None
    array._given = False
    array._writes = 0
    note(array)
    return array  # type: ignore[no-any-return]


def wrap(dtype: DType, *parts: Any) -> Array:
    """An array of a data type, given a tensor for each part of its elements."""
    return made(dtype, parts)


def view_of(array: Storage, load: Callable[[Any], Any], offset: int, strides: tuple[int, ...]) -> Array:
    """A view of an array: what makes its tensors of those of the array, and where its elements lie in the root."""
    return viewed(array, load, (offset, strides))


def view_of_part(array: Storage, number: int) -> Array:
    """A view of the real (0) or imaginary part of a complex array."""
    most = eager()
    value = value_of(array, most) if most else None
    if value is not None:
        found = _view_of_value(array, same, array.place, value.imag if number else value.real, number)
        if found is not None:
            return found
    result = made(array._dtype.part, (same(parts_of(array)[number]),))
    result._view = _noted(array, same, array.place, number)
    was_read(result)
    return result


def view_of_zeros(array: Storage) -> Array:
    """Zeros like an array, which cannot be written to: its imaginary part."""
    result = made(array._dtype, tuple([_zeros_of(part) for part in parts_of(array)]))
    result._view = _noted(array, _zeros_of, None, _ZEROS)
    was_read(result)
    return result


def same(part: Any) -> Any:
    """A tensor of its own with the same elements, and the same derivatives."""
    return type(part)(part)


def _zeros_of(part: Any) -> Any:
    return dr.zeros(type(part), part.shape)


def part_of(array: Storage, key: Any) -> Array | None:
    """What a key of integers and slices chooses, a view or a single element; ``None`` for other keys."""
    most = eager()
    if most:
        value = value_of(array, most)
        if value is not None and _is_plain(key):
            try:
                found = value[key]
            except (IndexError, TypeError, ValueError):  # which are told in words
                return None
            if type(found) is not _ndarray:
                return of_value(array._dtype, np.asarray(found))
            result = _view_of_value(array, None, None, found, _ALL, key)
            if result is not None:
                return result
    part = chosen_by(array.shape, key)
    if part is None:
        return None
    if part.shape or not array.ndim or type(key) is tuple and Ellipsis in key:  # which makes a view without axes
        row = _row(array, part, key, most) if most else None
        return viewed(array, part) if row is None else row
    found = _element(array, part) if most else None
    return made(array._dtype, tuple([part(tensor) for tensor in parts_of(array)])) if found is None else found


def _row(array: Storage, part: Any, key: Any, most: int) -> Array | None:
    """A small part of a large array that is in memory, as a view that has a copy of its elements, and tensors as soon
    as they are wanted; ``None`` of others."""
    root = array if array._view is None else array._view.root
    if not 0 < math.prod(part.shape) <= most < root.size:
        return None
    value = _copied(array, key)
    if value is None:
        return None
    result = _view_with(array, part, None, value, _ALL)
    view = result._view
    view.contents = _contents(view.root)  # type: ignore[union-attr]
    return result


def _in_memory(array: Storage, constants: bool = False) -> tuple[Any, ...] | None:
    """The tensors of an array, or of the root of a view, on the CPU that have their elements in memory, or are
    ``constants``, and no derivatives; ``None`` of others."""
    dtype, view = array._dtype, array._view
    root = array if view is None else view.root
    if dtype.bits == 16 or root._held is None or view is not None and view.part == _ZEROS:
        return None
    held = parts_of(root) if view is None else tensors_of(view)
    for part in held:
        if type(part) is not dtype.part.tensor or not computes_now(part) or \
                part.state is not _EVALUATED and not (constants and part.state is _LITERAL):
            return None
    if array._given and not computes_now(parts_of(array)[0]):
        return None
    return held


def _element(array: Storage, chosen: Any) -> Array | None:
    """A single element of an array that is in memory: read there, which takes no kernel; ``None`` of others."""
    held = _in_memory(array)
    if held is None:
        return None
    dtype, first = array._dtype, chosen.placed(*array.place)[0]
    numbers = [part.array[first] for part in held]
    return of_own(dtype, np.asarray(numbers[0] if len(numbers) == 1 else complex(*numbers), dtype.numpy))


def read_elements(array: Storage, place: Any) -> Array | None:
    """What a key as NumPy has it chooses of an array that is in memory, copied from there, which takes no kernel;
    ``None`` of others. Raises what NumPy raises."""
    found = _copied(array, place)
    return None if found is None else of_value(array._dtype, found)


def _copied(array: Storage, place: Any = ...) -> Any:
    """What a key as NumPy has it chooses of an array that is in memory, as a NumPy array; ``None`` of others."""
    held = _in_memory(array)
    if held is None:
        return None
    where = _where(array)
    found = [read_by(part, lambda memory: np.array(_ndarray(where[0], where[1], memory, *where[2:])[place]))
             for part in held]
    return found[0] if len(found) == 1 else complex_of(array._dtype, found)


def put_elements(array: Storage, place: Any, value: Any) -> bool:
    """Set what a key as NumPy has it chooses of an array that is a constant, or in memory, there, which takes no
    kernel; ``False`` of others. Raises what NumPy raises."""
    if _in_memory(array, constants=True) is None or not in_plain_code():
        return False
    where, view = _where(array), array._view
    root = array if view is None else view.root
    with writing:
        own_tensors(root)
        written(root, False)
        held = parts_of(root) if view is None else tensors_of(view)
        for part, source in zip(held, (value,) if len(held) == 1 else (value.real, value.imag), strict=True):
            write_by(part.array, lambda memory, source=source:  # type: ignore[misc]
                     _ndarray(where[0], where[1], memory, *where[2:]).__setitem__(place, source))
    return True


def _where(array: Storage) -> tuple[Any, ...]:
    """What ``np.ndarray`` is made by in the memory of one of the tensors of the root of an array: its shape and type,
    the first byte and strides."""
    number = array._dtype.part.numpy
    size = number.itemsize
    offset, strides = array.place
    return array.shape, number, offset * size, tuple([stride * size for stride in strides])


def _is_plain(key: Any) -> bool:
    """Whether a key is made of integers and slices."""
    if type(key) is not tuple:
        return type(key) in _PLAIN
    return not [entry for entry in key if type(entry) not in _PLAIN]


def reversed_axes(array: Storage) -> Array | None:
    """A view of a small array with its axes in reverse order; ``None`` of others."""
    most = eager()
    value = value_of(array, most) if most else None
    return None if value is None else _view_of_value(array, None, None, value.T, _ALL, _REVERSED)


def reshaped_now(array: Storage, shape: Any, load: Callable[..., Any]) -> Array | None:
    """A view of a small array with another shape, whose elements follow each other; ``None`` of others. ``load`` makes
    of both shapes what makes tensors."""
    most = eager()
    value = value_of(array, most) if most else None
    if value is None:
        return None
    try:
        found = value.reshape(shape)
    except (TypeError, ValueError):  # which are told in words
        return None
    return _view_of_value(array, load(value.shape, found.shape), None, found, _ALL)


def viewed(array: Storage, load: Callable[[Any], Any], place: tuple[int, tuple[int, ...]] | None = None) -> Array:
    """A view of an array, whose place is asked for when it is needed, unless it is given."""
    most = eager()
    if most and hasattr(load, "shape") and 0 not in load.shape and value_of(array, most) is not None:
        root = array if array._view is None else array._view.root
        if root._value is not None:
            view = _noted(array, load, place, _ALL)
            value = _seen(root._value, load.shape, array._dtype, view)
            found = _view_of_value(array, load, view.place, value, _ALL)
            if found is not None:
                return found
    result = made(array._dtype, tuple([load(tensor) for tensor in parts_of(array)]))
    result._view = _noted(array, load, place, _ALL)
    was_read(result)
    return result


def _view_of_value(array: Storage, load: Callable[[Any], Any] | None, place: Any, value: Any, part: int,
                   key: Any = None) -> Array | None:
    """A view of an array, or of one of its parts, whose value is in the memory of the root's; ``None`` if the root has
    none."""
    root = array if array._view is None else array._view.root
    if root._value is None or value.base is not root._value:
        return None
    return _view_with(array, load, place, value, part, key)


def _view_with(array: Storage, load: Callable[[Any], Any] | None, place: Any, value: Any, part: int,
               key: Any = None) -> Array:
    """A view of an array that has a value, and no tensors."""
    cls = _final
    result = cls.__new__(cls)
    result._dtype = array._dtype if part == _ALL else array._dtype.part
    result._held = None
    result._value = value
    result._given = False
    result._writes = 0
    result._view = view = _noted(array, load, place, part, key)
    view.seen = view.root._writes
    return result  # type: ignore[no-any-return]


def view_by(array: Storage, load: Callable[[Any], Any], rearrange: str, argument: Any) -> Array:
    """A view of an array, which NumPy's method ``rearrange`` makes of a small one."""
    most = eager()
    value = value_of(array, most) if most else None
    found = None if value is None else \
        _view_of_value(array, load, None, value.transpose(argument) if rearrange == "transpose" else
                       value.reshape(argument), _ALL)
    return viewed(array, load) if found is None else found


def copy_of(array: Storage) -> Array:
    """An array of its own with the same elements, which are copied as soon as one of both is written to."""
    most = eager()
    value = value_of(array, most) if most else None
    if value is not None:
        return of_value(array._dtype, value.copy())
    parts = parts_of(array)
    if in_plain_code() and contents(parts, _is_given(array)) is None:
        parts = tuple(map(copied, parts))
    return wrap(array._dtype, *map(own, parts))


def own(part: Any) -> Any:
    """A tensor of its own with the same elements: that of a variable of derivatives depends on it, and is none."""
    return part * 1 if is_variable((part,)) else same(part)


def _is_given(array: Storage) -> bool:
    """Whether others may write to the tensors of an array, or of the root of a view."""
    return array._given if array._view is None else array._view.root._given


def constant(dtype: DType, number: Any, shape: tuple[int, ...] = (), device: str = CPU) -> Array:
    """An array whose elements are all the same number."""
    tensor = dtype.on(device)
    if dtype.kind == "c":
        return wrap(dtype, dr.full(tensor, number.real, shape), dr.full(tensor, number.imag, shape))
    return wrap(dtype, dr.full(tensor, number, shape))


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
