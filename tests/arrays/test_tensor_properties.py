"""Random tensors against NumPy: slicing, assignment, reductions, scans, sorting, joining, splitting, other shapes.

A case follows from its number: a shape of rank 0 to 5 with sizes from zero, an element type, how the tensor came about
(a literal, memory, an expression that was not evaluated yet), and one of the operations of the tables below, with
arguments. Elements are small whole numbers, so that results are exact; those that are not say how far they may be off.
Operations that do not exist take no part, and are there when they do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

import drjit as dr
from drjit import llvm, scalar

Array = np.ndarray[Any, Any]
TYPES = [llvm.TensorXb, llvm.TensorXf16, llvm.TensorXf, llvm.TensorXf64, llvm.TensorXi8, llvm.TensorXu8, llvm.TensorXi,
         llvm.TensorXu, llvm.TensorXi64, llvm.TensorXu64]
FLOATS = (2.0**-10, 2.0**-20, 2.0**-40)  # relative errors of half, single and double precision that are let pass


class Checked(NamedTuple):
    """A result, what it should be, and how far it may be off, as a multiple of the precision of its type."""

    what: str
    found: Any
    expected: Any
    loose: bool = False


# --- samples ---------------------------------------------------------------------------------------------------------


def random_shape(rng: np.random.Generator, rank: int | None = None) -> tuple[int, ...]:
    rank = int(rng.integers(0, 6)) if rank is None else rank
    low = 0 if rng.integers(0, 5) == 0 else 1
    shape = [int(n) for n in rng.integers(low, 6, rank)]
    if rank and rng.integers(0, 6) == 0:  # beyond what is unrolled, and beyond a packet
        shape[int(rng.integers(0, rank))] = int(rng.integers(17, 70))
    return tuple(shape)


def random_values(rng: np.random.Generator, cls: Any, shape: tuple[int, ...]) -> Array:
    dtype = np.dtype(cls([0]).numpy().dtype if cls._kind != "b" else bool)
    low, high = {"b": (0, 2), "u": (0, 4)}.get(cls._kind, (-3, 4))
    return rng.integers(low, high, shape).astype(dtype)


def in_some_state(rng: np.random.Generator, cls: Any, values: Array) -> tuple[Any, Array]:
    """A tensor of these values, or of one of them everywhere."""
    state = rng.integers(0, 4)
    if state == 0 and values.size:
        values = np.full_like(values, values.flat[0])
        return dr.full(cls, values.flat[0].item(), values.shape), values
    tensor = cls(values)
    if state == 1:
        dr.eval(tensor)
    elif state == 2:
        tensor = tensor ^ dr.zeros(cls, values.shape) if cls._kind == "b" else tensor + dr.zeros(cls, values.shape)
    return tensor, values


def random_axes(rng: np.random.Generator, rank: int) -> Any:
    """An axis, some axes, all of them, or none."""
    if not rank or rng.integers(0, 4) == 0:
        return [None, ..., ()][rng.integers(0, 3)]
    if rng.integers(0, 2):
        return int(rng.integers(-rank, rank))
    found = rng.permutation(rank)[:int(rng.integers(1, rank + 1))]
    return tuple(int(axis - rank * rng.integers(0, 2)) for axis in found)


def axes_of_numpy(axis: Any, rank: int) -> tuple[int, ...]:
    return tuple(range(rank)) if axis in (None, ...) else tuple(int(a) % rank for a in np.atleast_1d(axis).tolist())


# --- slices ----------------------------------------------------------------------------------------------------------


def random_key(rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[Any, ...]:
    key: list[Any] = []
    length = int(rng.integers(1, 4))
    for size in shape[:int(rng.integers(0, len(shape) + 1))]:
        choice = rng.integers(0, 5)
        if choice == 0 and size:
            key.append(int(rng.integers(-size, size)))
        elif choice == 1 and size:
            key.append(rng.integers(-size, size, [(length,), (1,), (2, length)][rng.integers(0, 3)]))
        else:
            bounds: list[Any] = [None, *range(-size - 1, size + 2)]
            start, stop = (bounds[rng.integers(len(bounds))] for _ in range(2))
            key.append(slice(start, stop, [None, 1, 2, 3, -1, -2][rng.integers(0, 6)]))
    if rng.integers(0, 2):
        missing = len(shape) - len(key)
        at = int(rng.integers(0, len(key) + 1)) if not missing else len(key)
        key.insert(at, Ellipsis)
    for _ in range(rng.integers(0, 3)):
        key.insert(int(rng.integers(0, len(key) + 1)), None)
    return tuple(key)


def selected(shape: tuple[int, ...], key: tuple[Any, ...]) -> Array:
    """Flat positions of what a key selects: integers remove their axis first, then NumPy's rules hold."""
    index = np.arange(math.prod(shape)).reshape(shape)
    entries = list(key)
    consuming = sum(entry is not None and entry is not Ellipsis for entry in entries)
    at = next((k for k, entry in enumerate(entries) if entry is Ellipsis), len(entries))
    entries[at:at + 1] = [slice(None)] * (len(shape) - consuming)
    axes = [entry for entry in entries if entry is not None]
    index = index[tuple(entry if isinstance(entry, int) else slice(None) for entry in axes)]
    found: Array = index[tuple(entry for entry in entries if not isinstance(entry, int))]
    return found


def as_written(rng: np.random.Generator, key: tuple[Any, ...]) -> Any:
    """The key with its integer arrays as lists, NumPy arrays, flat arrays or tensors."""
    forms: list[Callable[[Array], Any]] = [
        lambda a: a, lambda a: a.tolist(), lambda a: llvm.TensorXi(a.astype("i4")),
        lambda a: llvm.Int64(a) if a.ndim == 1 else llvm.TensorXi64(a)]
    written = tuple(forms[rng.integers(0, 4)](entry) if isinstance(entry, np.ndarray) else entry for entry in key)
    return written[0] if len(written) == 1 and rng.integers(0, 2) else written


def read_a_slice(rng: np.random.Generator) -> Iterator[Checked]:
    cls = TYPES[rng.integers(0, len(TYPES))]
    tensor, values = in_some_state(rng, cls, random_values(rng, cls, random_shape(rng)))
    key = random_key(rng, values.shape)
    yield Checked(f"{values.shape}[{key}]", tensor[as_written(rng, key)],
                  values.reshape(-1)[selected(values.shape, key)])
    yield Checked("the tensor", tensor, values)


def assign_to_a_slice(rng: np.random.Generator) -> Iterator[Checked]:
    cls = TYPES[rng.integers(0, len(TYPES))]
    tensor, values = in_some_state(rng, cls, random_values(rng, cls, random_shape(rng)))
    key = random_key(rng, values.shape)
    positions = selected(values.shape, key)
    kept, written = cls(tensor), as_written(rng, key)
    part = tensor[written]
    expected = values.reshape(-1).copy()
    before = expected[positions]
    broadcastable = [size if rng.integers(0, 3) else 1 for size in positions.shape]
    new = random_values(rng, cls, tuple(broadcastable[int(rng.integers(0, len(broadcastable) + 1)):]))
    unique = np.unique(positions).size == positions.size
    form = rng.integers(0, 4 if cls._kind != "b" else 3)
    what = f"{values.shape}[{key}] = "
    if form == 0 or not unique and form < 3:
        number = random_values(rng, cls, ()).item()
        tensor[written] = number
        expected[positions] = number
    elif form == 1:
        what += f"{new.shape}"
        value = [cls(new), new.tolist() if new.size else new, new, cls(new) if new.ndim != 1 else cls(new).array,
                 ][rng.integers(0, 4)]
        tensor[written] = value
        expected[positions] = new
    elif form == 2:  # of what it writes to, in another order
        what += "the same in reverse"
        tensor[written] = tensor[written][::-1] if positions.ndim else tensor[written]
        expected[positions] = before[::-1] if positions.ndim else before
    else:
        what += "more"
        tensor[written] += 1
        expected[positions] = before + np.ones((), before.dtype)
    yield Checked(what, tensor, expected.reshape(values.shape))
    yield Checked("a copy made before", kept, values)
    yield Checked("a slice made before", part, before)


def shift_along_an_axis(rng: np.random.Generator) -> Iterator[Checked]:
    """Assignments that read what they write."""
    cls = TYPES[rng.integers(0, len(TYPES))]
    tensor, values = in_some_state(rng, cls, random_values(rng, cls, random_shape(rng, int(rng.integers(1, 4)))))
    axis, step = int(rng.integers(0, values.ndim)), int(rng.integers(1, 3))
    before = (slice(None),) * axis
    pairs = [(slice(step, None), slice(None, -step)), (slice(None, -step), slice(step, None)),
             (slice(None, None, -1), slice(None))]
    target, source = pairs[rng.integers(0, 3)]
    expected = values.copy()
    expected[(*before, target)] = values[(*before, source)]
    tensor[(*before, target)] = tensor[(*before, source)]
    yield Checked(f"{values.shape}[{target}] = [{source}] on axis {axis}", tensor, expected)


def write_chained(rng: np.random.Generator) -> Iterator[Checked]:
    """Several assignments in a row, to overlapping places, and through the flat array."""
    cls = TYPES[rng.integers(1, len(TYPES))]
    tensor, values = in_some_state(rng, cls, random_values(rng, cls, random_shape(rng)))
    expected = values.reshape(-1).copy()
    for k in range(3):
        key = random_key(rng, values.shape)
        positions = selected(values.shape, key)
        tensor[as_written(rng, key)] = k
        expected[positions] = k
        if values.size and rng.integers(0, 3) == 0:
            tensor.array[-1] = 9
            expected[-1] = 9
    yield Checked(f"assignments to {values.shape}", tensor, expected.reshape(values.shape))


def write_by_a_mask(rng: np.random.Generator) -> Iterator[Checked]:
    cls = TYPES[rng.integers(0, len(TYPES))]
    tensor, values = in_some_state(rng, cls, random_values(rng, cls, random_shape(rng)))
    shape = tuple(size if rng.integers(0, 3) else 1 for size in values.shape)[int(rng.integers(0, values.ndim + 1)):]
    mask = rng.integers(0, 2, shape).astype(bool)
    number = random_values(rng, cls, ()).item()
    expected = np.where(mask, np.asarray(number, values.dtype), values)
    tensor[llvm.TensorXb(mask)] = number
    yield Checked(f"{values.shape}[mask of {shape}] = {number}", tensor, expected)
    yield Checked("what a mask reads", tensor[llvm.TensorXb(mask)], expected)


# --- reductions ------------------------------------------------------------------------------------------------------

Oracle = Callable[..., Any]
Reduction = tuple[str, str, Oracle, bool]


def _empty(low: bool) -> Callable[[Array], Any]:
    def extreme(values: Array) -> Any:
        if values.dtype.kind == "f":
            return math.inf if low else -math.inf
        info = np.iinfo(values.dtype)
        return info.max if low else info.min
    return extreme


def _in_double(function: Callable[..., Any], of_nothing: float = math.nan) -> Oracle:
    def oracle(values: Array, axes: tuple[int, ...], keepdims: bool) -> Any:
        with np.errstate(all="ignore"):
            empty = not math.prod(values.shape[axis] for axis in axes)
            if empty:
                shape = values.sum(axis=axes, keepdims=keepdims).shape
                return np.full(shape, of_nothing, values.dtype)
            return np.asarray(function(values.astype("f8"), axis=axes, keepdims=keepdims)).astype(values.dtype)
    return oracle


def _wrapping(function: Callable[..., Any]) -> Oracle:
    return lambda values, axes, keepdims: function(values, axis=axes, keepdims=keepdims, dtype=values.dtype)


#: Name, type classes, what NumPy says, and whether the result is rounded.
REDUCTIONS: list[Reduction] = [
    ("sum", "iuf", _wrapping(np.sum), False),
    ("prod", "iu", _wrapping(np.prod), False),
    ("min", "iuf", lambda v, axes, keep: np.min(v, axis=axes, keepdims=keep, initial=_empty(True)(v)), False),
    ("max", "iuf", lambda v, axes, keep: np.max(v, axis=axes, keepdims=keep, initial=_empty(False)(v)), False),
    ("mean", "f", _in_double(np.mean, 0), True),
    ("var", "f", _in_double(np.var), True),
    ("std", "f", _in_double(np.std), True),
    ("all", "b", lambda v, axes, keep: np.all(v, axis=axes, keepdims=keep), False),
    ("any", "b", lambda v, axes, keep: np.any(v, axis=axes, keepdims=keep), False),
    ("none", "b", lambda v, axes, keep: ~np.any(v, axis=axes, keepdims=keep), False),
    ("count", "b", lambda v, axes, keep: np.sum(v, axis=axes, keepdims=keep, dtype="u4"), False),
]


def a_type(rng: np.random.Generator, kinds: str) -> Any:
    fitting = [cls for cls in TYPES if cls._kind in kinds]
    return fitting[rng.integers(0, len(fitting))]


def reduce_some_axes(rng: np.random.Generator) -> Iterator[Checked]:
    name, kinds, oracle, loose = REDUCTIONS[rng.integers(0, len(REDUCTIONS))]
    cls = a_type(rng, kinds)
    tensor, values = in_some_state(rng, cls, random_values(rng, cls, random_shape(rng)))
    axis, keepdims = random_axes(rng, values.ndim), bool(rng.integers(0, 2))
    options: dict[str, Any] = {"keepdims": keepdims}
    if "b" not in kinds:
        options["mode"] = [None, "symbolic", "evaluated"][rng.integers(0, 3)]
    found = getattr(dr, name)(tensor, axis=axis, **options)
    yield Checked(f"dr.{name}({cls.__name__} {values.shape}, {axis}, {options})", found,
                  oracle(values, axes_of_numpy(axis, values.ndim), keepdims), loose)


def extremes_among_nan(rng: np.random.Generator) -> Iterator[Checked]:
    """NaN is ignored, as if it were not there."""
    cls = a_type(rng, "f")
    values = random_values(rng, cls, random_shape(rng))
    values[rng.integers(0, 2, values.shape).astype(bool)] = np.nan
    if rng.integers(0, 3) == 0:
        values[...] = np.nan
    tensor, values = in_some_state(rng, cls, values)
    axis = random_axes(rng, values.ndim)
    for name, low in (("min", True), ("max", False)):
        limit = _empty(low)(values)
        if axis == () and values.ndim:
            yield Checked("no axes", getattr(dr, name)(tensor, axis), values)
            continue
        present = np.where(np.isnan(values), np.asarray(limit, values.dtype), values)
        expected = getattr(np, name)(present, axis=axes_of_numpy(axis, values.ndim), initial=limit)
        yield Checked(f"dr.{name} of {values.shape} with NaN, {axis}", getattr(dr, name)(tensor, axis), expected)


def find_extremes(rng: np.random.Generator) -> Iterator[Checked]:
    for name in ("argmin", "argmax"):
        function = getattr(dr, name, None)
        cls = a_type(rng, "iuf")
        tensor, values = in_some_state(rng, cls, random_values(rng, cls, random_shape(rng)))
        axis = None if not values.ndim or rng.integers(0, 2) else int(rng.integers(-values.ndim, values.ndim))
        if function is None or not (values.size if axis is None else values.shape[axis]):
            continue
        keepdims = bool(rng.integers(0, 2))
        expected = getattr(np, name)(values, axis=axis, keepdims=keepdims)
        yield Checked(f"dr.{name}({cls.__name__} {values.shape}, {axis}, {keepdims})",
                      function(tensor, axis=axis, keepdims=keepdims), np.asarray(expected, "u4"))


def scan(rng: np.random.Generator) -> Iterator[Checked]:
    cls = a_type(rng, "iuf")
    tensor, values = in_some_state(rng, cls, random_values(rng, cls, random_shape(rng, int(rng.integers(1, 5)))))
    axis, backwards = int(rng.integers(-values.ndim, values.ndim)), bool(rng.integers(0, 2))
    ordered = np.flip(values, axis) if backwards else values
    inclusive = np.cumsum(ordered, axis, dtype=values.dtype)
    for name, expected in (("cumsum", inclusive), ("prefix_sum", inclusive - ordered)):
        function = getattr(dr, name, None)
        if function is not None:
            yield Checked(f"dr.{name}({cls.__name__} {values.shape}, {axis}, {backwards})",
                          function(tensor, axis=axis, reverse=backwards),
                          np.flip(expected, axis) if backwards else expected)


def put_in_order(rng: np.random.Generator) -> Iterator[Checked]:
    cls = a_type(rng, "iuf")
    tensor, values = in_some_state(rng, cls, random_values(rng, cls, random_shape(rng, int(rng.integers(1, 4)))))
    axis, descending = (-1, 0)[rng.integers(0, 2)], bool(rng.integers(0, 2))
    order = np.argsort(-values.astype("f8") if descending else values, axis=axis, kind="stable")
    expected = {"sort": np.take_along_axis(values, order, axis), "argsort": order.astype("u4")}
    for name, oracle in expected.items():
        function = getattr(dr, name, None)
        if function is not None:
            yield Checked(f"dr.{name}({cls.__name__} {values.shape}, {axis}, {descending})",
                          function(tensor, axis=axis, descending=descending), oracle)


# --- joining, splitting, other shapes --------------------------------------------------------------------------------


def join(rng: np.random.Generator) -> Iterator[Checked]:
    cls = TYPES[rng.integers(0, len(TYPES))]
    shape = random_shape(rng, int(rng.integers(1, 5)))
    axis = int(rng.integers(-len(shape), len(shape)))
    parts = []
    for _ in range(rng.integers(1, 4)):
        own = list(shape)
        own[axis] = int(rng.integers(0, 5))
        parts.append(in_some_state(rng, cls, random_values(rng, cls, tuple(own))))
    given, arrays = [t for t, _ in parts], [a for _, a in parts]
    yield Checked(f"dr.concat of {[a.shape for a in arrays]}, {axis}", dr.concat(given, axis),
                  np.concatenate(arrays, axis))
    yield Checked("dr.concat raveled", dr.concat(given, axis=None), np.concatenate(arrays, None))


#: Name of a function that stacks, and NumPy's.
STACKS: list[tuple[str, Any]] = [("stack", np.stack), ("vstack", np.vstack), ("row_stack", np.vstack),
                                 ("hstack", np.hstack), ("column_stack", np.column_stack), ("dstack", np.dstack)]


def stack(rng: np.random.Generator) -> Iterator[Checked]:
    cls = TYPES[rng.integers(0, len(TYPES))]
    shape = random_shape(rng)
    parts = [in_some_state(rng, cls, random_values(rng, cls, shape)) for _ in range(rng.integers(1, 4))]
    given, arrays = [t for t, _ in parts], [a for _, a in parts]
    name, oracle = STACKS[rng.integers(0, len(STACKS))]
    options = {"axis": int(rng.integers(-len(shape) - 1, len(shape) + 1))} if name == "stack" else {}
    yield Checked(f"dr.{name} of {len(parts)} {shape}, {options}", getattr(dr, name)(given, **options),
                  oracle(arrays, **options))


def split(rng: np.random.Generator) -> Iterator[Checked]:
    cls = TYPES[rng.integers(0, len(TYPES))]
    tensor, values = in_some_state(rng, cls, random_values(rng, cls, random_shape(rng, int(rng.integers(1, 5)))))
    axis = int(rng.integers(-values.ndim, values.ndim))
    size = values.shape[axis]
    sections = int(rng.integers(1, 5))
    bounds = [int(b) for b in rng.integers(-size - 1, size + 2, rng.integers(0, 4))]
    equal = next(k for k in (3, 2, 1) if size % k == 0)
    pairs = [(dr.array_split(tensor, sections, axis=axis), np.array_split(values, sections, axis)),
             (dr.split(tensor, bounds, axis=axis), np.split(values, bounds, axis)),
             (dr.split(tensor, equal, axis=axis), np.split(values, equal, axis))]
    for found, expected in pairs:
        assert len(found) == len(expected)
        for k, (part, theirs) in enumerate(zip(found, expected, strict=True)):
            yield Checked(f"part {k} of {values.shape} on axis {axis}: {sections}, {bounds}, {equal}", part, theirs)


def permute(rng: np.random.Generator) -> Iterator[Checked]:
    cls = TYPES[rng.integers(0, len(TYPES))]
    tensor, values = in_some_state(rng, cls, random_values(rng, cls, random_shape(rng, int(rng.integers(1, 6)))))
    rank = values.ndim
    order = tuple(int(axis - rank * rng.integers(0, 2)) for axis in rng.permutation(rank))
    a, b = (int(axis) for axis in rng.integers(-rank, rank, 2))
    count = int(rng.integers(1, rank + 1))
    sources, targets = (tuple(int(axis) for axis in rng.permutation(rank)[:count]) for _ in range(2))
    what = f"{values.shape}"
    yield Checked(f"transpose {what} {order}", dr.transpose(tensor, order), np.transpose(values, order))
    yield Checked(f"transpose {what}", dr.transpose(tensor), values.T)
    yield Checked(f"swapaxes {what} {a} {b}", dr.swapaxes(tensor, a, b), np.swapaxes(values, a, b))
    yield Checked(f"moveaxis {what} {sources} {targets}", dr.moveaxis(tensor, sources, targets),
                  np.moveaxis(values, sources, targets))
    yield Checked(f"reverse {what} {a}", dr.reverse(tensor, a), np.flip(values, a))
    if rank > 1:
        yield Checked(f"mT {what}", tensor.mT, np.swapaxes(values, -1, -2))


def change_the_shape(rng: np.random.Generator) -> Iterator[Checked]:
    cls = TYPES[rng.integers(0, len(TYPES))]
    tensor, values = in_some_state(rng, cls, random_values(rng, cls, random_shape(rng)))
    rank = values.ndim
    order = "CF"[rng.integers(0, 2)]
    yield Checked(f"ravel {values.shape} {order}", dr.ravel(tensor, order=order), values.ravel(order))
    target = list(rng.permutation(values.shape).astype(int).tolist())
    if len(target) > 1 and rng.integers(0, 2):
        target[:2] = [target[0] * target[1]]
    written = list(target)
    if target and math.prod(target) and rng.integers(0, 2):
        written[int(rng.integers(0, len(target)))] = -1
    yield Checked(f"reshape {values.shape} {written} {order}", dr.reshape(tensor, tuple(written), order=order),
                  values.reshape(target, order=order))
    smaller = int(rng.integers(0, values.size + 1))
    yield Checked(f"shrink {values.shape} to {smaller}", dr.reshape(tensor, smaller, shrink=True),
                  values.reshape(-1)[:smaller])
    added = tuple(int(axis) for axis in rng.permutation(rank + 2)[:2])
    yield Checked(f"expand_dims {values.shape} {added}", dr.expand_dims(tensor, added), np.expand_dims(values, added))
    yield Checked(f"squeeze {values.shape}", dr.squeeze(tensor), np.squeeze(values))
    counts = tuple(int(count) for count in rng.integers(0, 3, rng.integers(0, 4)))
    yield Checked(f"tile {values.shape} {counts}", dr.tile(tensor, counts), np.tile(values, counts))
    axis = None if not rank or rng.integers(0, 3) == 0 else int(rng.integers(-rank, rank))
    times = int(rng.integers(0, 4))
    yield Checked(f"repeat {values.shape} {times} {axis}", dr.repeat(tensor, times, axis),
                  np.repeat(values, times, axis))


def broadcast(rng: np.random.Generator) -> Iterator[Checked]:
    cls = a_type(rng, "iuf")
    shape = random_shape(rng)
    operands = []
    for _ in range(2):
        own = tuple(size if rng.integers(0, 3) else 1 for size in shape)[int(rng.integers(0, len(shape) + 1)):]
        operands.append(in_some_state(rng, cls, random_values(rng, cls, own)))
    (t, a), (u, b) = operands
    yield Checked(f"{a.shape} + {b.shape}", t + u, a + b)
    yield Checked(f"{a.shape} < {b.shape}", t < u, a < b)
    yield Checked(f"select {a.shape} {b.shape}", dr.select(t > 0, u, t), np.where(a > 0, b, a))


#: The operations, those that have more to go wrong more often.
OPERATIONS: list[Callable[[np.random.Generator], Iterator[Checked]]] = [
    read_a_slice, read_a_slice, assign_to_a_slice, assign_to_a_slice, shift_along_an_axis, write_chained,
    write_by_a_mask, reduce_some_axes, reduce_some_axes, reduce_some_axes, extremes_among_nan, find_extremes, scan,
    put_in_order, join, stack, split, permute, change_the_shape, broadcast]


# --- the scalar backend ----------------------------------------------------------------------------------------------

SCALARS = [scalar.ArrayXb, scalar.ArrayXf, scalar.ArrayXf64, scalar.ArrayXi, scalar.ArrayXu, scalar.ArrayXi64]


def in_scalars(rng: np.random.Generator) -> Iterator[Checked]:
    """Arrays of the scalar backend, which have one dimension here."""
    cls: Any = SCALARS[rng.integers(0, len(SCALARS))]
    values = random_values(rng, cls, (int(rng.integers(1, 7)),))
    array, size = cls(values), values.size
    key: Any = slice(*(None if rng.integers(0, 3) == 0 else int(rng.integers(-size - 1, size + 2)) for _ in range(2)),
                     [None, 2, -1, -2][rng.integers(0, 4)])
    yield Checked(f"{cls.__name__}{values}[{key}]", array[key], values[key])
    changed, number = values.copy(), random_values(rng, cls, ()).item()
    changed[key] = number
    target = cls(array)
    target[key] = number
    yield Checked(f"{cls.__name__}{values}[{key}] = {number}", target, changed)
    yield Checked("reverse", dr.reverse(array), values[::-1])
    yield Checked("tile", dr.tile(array, 2), np.tile(values, 2))
    yield Checked("repeat", dr.repeat(array, 3), np.repeat(values, 3))
    yield Checked("concat", dr.concat([array, target]), np.concatenate([values, changed]))
    for name, kinds, oracle, loose in REDUCTIONS:
        if cls._kind in kinds:
            yield Checked(f"dr.{name}({values})", getattr(dr, name)(array), oracle(values, (0,), False), loose)


# --- running ---------------------------------------------------------------------------------------------------------


def check(number: int) -> None:
    rng = np.random.default_rng(number)
    operation = in_scalars if number % 10 == 9 else OPERATIONS[rng.integers(0, len(OPERATIONS))]
    what = operation.__name__
    try:
        for case in operation(rng):
            what = f"{operation.__name__}: {case.what}"
            compare(case)
    except Exception as error:
        error.add_note(f"case {number}: {what}")
        raise


def compare(case: Checked) -> None:
    found, expected = case.found, np.asarray(case.expected)
    if isinstance(found, dr.ArrayBase):
        if found._depth < 0:
            assert found.shape == expected.shape
        found = found.numpy()
    found = np.asarray(found)
    if isinstance(case.found, dr.ArrayBase):
        assert found.dtype == expected.dtype
    found = found.reshape(expected.shape) if found.size == expected.size else found
    if case.loose:
        tolerance = FLOATS[{2: 0, 4: 1, 8: 2}[expected.dtype.itemsize]]
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)
    else:
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("block", range(20))
def test_tensors_do_what_numpy_does(block: int) -> None:
    for number in range(25 * block, 25 * block + 25):
        check(number)


@pytest.mark.exhaustive
@pytest.mark.parametrize("block", range(200))
def test_tensors_do_what_numpy_does_at_length(block: int) -> None:
    for number in range(1000 + 100 * block, 1100 + 100 * block):
        check(number)


# --- beyond 32 bits --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(70_000, 70_000), (3, 1 << 31, 2), (1 << 33,), (5, 1 << 20, 1 << 12)])
def test_extents_beyond_32_bits_are_indexed_right(shape: tuple[int, ...]) -> None:
    """Of literals, which need no memory: shapes, and the positions that accesses compute."""
    from drjit._access.slicing import parse_slice, positions

    tensor = dr.full(llvm.TensorXf, 2, shape)
    strides = np.cumprod([1, *shape[:0:-1]], dtype=object)[::-1]
    far = tuple(size - 7 if size > 100 else slice(None) for size in shape)
    keys: list[Any] = [tuple(slice(size - 3, size, 2) for size in shape), tuple(slice(-1, -3, -1) for _ in shape),
                       (*(slice(size - 2, size) for size in shape[:-1]), [shape[-1] - 1, -2, 0]), far,
                       (slice(-2, None), ..., slice(0, 3))]
    for key in keys[:None if len(shape) > 1 else 4]:
        access, result = parse_slice("f", shape, key)
        entries = list(key)
        if ... in entries:
            entries[entries.index(...):entries.index(...) + 1] = [slice(0, 1)] * (len(shape) - 2)
            key = tuple(entries)
            access, result = parse_slice("f", shape, key)
        chosen = [np.asarray(range(*entry.indices(size))) if isinstance(entry, slice) else
                  np.asarray(entry) % size for size, entry in zip(shape, key, strict=True)]
        grid = np.zeros((), dtype="i8")
        for stride, index in zip(strides, chosen, strict=True):
            grid = grid[..., None] + index * int(stride) if index.ndim else grid + index * int(stride)
        node = positions(access, math.prod(shape))
        flat = dr.llvm.UInt64 if dr.llvm.UInt64._type == node.type else dr.llvm.UInt
        found = dr._promotion.promote.wrap(flat, [node]).numpy()
        np.testing.assert_array_equal(np.broadcast_to(found, grid.size), grid.reshape(-1))
        assert tensor[key].shape == result and (tensor[key].numpy() == 2).all()


def test_reductions_and_other_shapes_of_literals_beyond_32_bits() -> None:
    tensor = dr.full(llvm.TensorXf64, 2, (1 << 20, 1 << 13))
    assert dr.sum(tensor).item() == 2.0**34 and dr.mean(tensor).item() == 2
    assert dr.sum(tensor, axis=0).shape == (1 << 13,) and dr.sum(tensor, axis=0).array[5] == 2.0**21
    assert dr.reshape(tensor, (1 << 13, -1)).shape == (1 << 13, 1 << 20)
    assert dr.transpose(tensor).shape == (1 << 13, 1 << 20) and dr.max(dr.transpose(tensor)).item() == 2
    assert (tensor + tensor)[-1, -1].item() == 4 and dr.concat([tensor, tensor]).shape == (1 << 21, 1 << 13)
    assert dr.reverse(tensor, 1)[12345, 6789].item() == 2 and dr.tile(tensor, (2, 1)).shape == (1 << 21, 1 << 13)
