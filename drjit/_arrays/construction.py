"""Constructors: from Python scalars, sequences, NumPy arrays, buffers and DLPack to nodes.

What is given is copied (Python and NumPy data) or shared (DLPack). A single value becomes a literal, several ones are
written to memory at once. Elements of sequences must be of the type's own kind: integers do not accept floats there.
"""

from __future__ import annotations

import array
import math
import struct
from collections.abc import Iterable, Sequence
from typing import Any

from drjit_core import TYPES, Node, cast, import_copy, invalid, literal, to_memory

from .._access.slicing import strided
from .._base.array import ArrayBase
from .._base.errors import ArgumentError, SizeError, describe
from .._base.nodes import as_literal, elements_of, values
from .._base.types import BFLOAT16, FLOAT64, Record, lookup
from .._base.values import is_ndarray, plain_scalar, scalar_type_of
from .._promotion.promote import brought, coerce, scalar_literal
from .._trees.classes import sole_array
from .broadcasting import make, transposed
from .dlpack import from_dlpack, is_on_gpu, read, speaks

__all__ = ["entry", "flat_node", "flipped", "ndarray_node", "nested_nodes"]

#: Element types that sequences may hold, by kind of the array.
_ACCEPTED: dict[str, frozenset[type]] = {
    "b": frozenset({bool}), "i": frozenset({int, bool}), "u": frozenset({int, bool}),
    "f": frozenset({float, int, bool}),
}


def flat_node(cls: type[ArrayBase], value: Any) -> Node:
    """The node of a flat array made from anything but an array or a Python scalar."""
    function = f"{cls._name}.__init__"
    if isinstance(value, (list, tuple, range)):
        return _from_sequence(cls, value, function)
    scalar = plain_scalar(value)
    if scalar is not None:
        return scalar_literal(cls, scalar, function)
    if isinstance(value, (str, dict)) or value is None:
        raise ArgumentError(f"{function}(): could not initialize element with a value of type '{describe(value)}' "
                            "(expected a number, an array or a sequence).")
    if isinstance(value, ArrayBase):
        if value._depth < 0:
            return _from_tensor(cls, value)[0]
        if not value._dynamic and value._depth == 1 and not value._special:
            return coerce(cls, value, function)[0]
        raise ArgumentError(f"{function}(): cannot convert {value._name} to {cls._name}.")
    if is_ndarray(value):
        if value.ndim != 1:
            raise _configuration(cls, value, f"found {value.ndim} dimensions")
        return ndarray_node(cls, value)
    if speaks(value):
        own = with_derivatives(cls, value)
        if own is not None:
            return flat_node(cls, own)
        found = from_dlpack(value, cls)
        if len(found.shape) != 1:
            raise _configuration(cls, value, f"found {len(found.shape)} dimensions")
        return found.nodes[0]
    try:
        view = memoryview(value)
    except TypeError:
        pass
    else:
        return _from_buffer(cls, value, view)
    if isinstance(value, Iterable):
        return _from_sequence(cls, list(value), function)
    raise ArgumentError(f"{function}(): could not initialize an array from a value of type '{describe(value)}'.")


def with_derivatives(cls: type[ArrayBase], value: Any) -> ArrayBase | None:
    """The array that one of another package consists of, if its derivatives may go on in a type; its memory would not
    tell of these."""
    own = sole_array(value) if cls._record.diff and cls._dynamic else None
    return own if isinstance(own, ArrayBase) and own._record.diff and own._dynamic else None


def _configuration(cls: type[ArrayBase], value: Any, found: str) -> ArgumentError:
    sizes = (*cls._record.shape, -1) if cls._dynamic else cls._record.shape
    shape = ", ".join("*" if size < 0 else str(size) for size in sizes)
    return ArgumentError(
        f"{cls._name}.__init__(): unable to initialize from an array of type '{describe(value)}' ({found}). The input "
        f"should have the following configuration for this to succeed: ndim={len(sizes)}, shape=({shape}), "
        f"dtype={TYPES[cls._type].name}, order='C'.")


def _from_sequence(cls: type[ArrayBase], values: Sequence[Any], function: str) -> Node:
    accepted = _ACCEPTED[cls._kind]
    if not accepted.issuperset({value.__class__ for value in values}):
        originals, values = values, [plain_scalar(value) for value in values]
        for position, value in enumerate(values):
            if value.__class__ not in accepted:
                found = originals[position]
                expected = " or ".join(sorted(kind.__name__ for kind in accepted))
                raise ArgumentError(f"{function}(): could not initialize element {position} with a value of type "
                                    f"'{describe(found)}' (expected {expected}).")
    if len(values) == 1:
        return scalar_literal(cls, values[0], function)
    if not values:
        return invalid(cls._type)
    return import_copy(cls._type, _pack(cls, values, function), cls._where)


def _pack(cls: type[ArrayBase], values: Sequence[Any], function: str) -> Any:
    """A buffer of Python numbers in the memory layout of a type."""
    info = TYPES[cls._type]
    if info.kind == "b":
        return bytes(values)
    try:
        if not info.code:
            return to_memory(info, [value if value.__class__ is float else scalar_literal(cls, value, function).payload
                                    for value in values])
        if info.code == "e":
            return to_memory(info, values)
        return array.array(info.code, values)
    except (OverflowError, struct.error) as error:
        if info.kind == "f":  # beyond half precision: infinities, unless it is an integer that is no float at all
            try:
                return to_memory(info, (scalar_literal(cls, v, function).payload for v in values))
            except struct.error:
                raise error from None
        for value in values:
            scalar_literal(cls, value, function)  # raises for the culprit
        raise


def ndarray_node(cls: type[ArrayBase], value: Any) -> Node:
    """The node of the elements of a NumPy array, in C order, which is copied and converted.

    Floating-point numbers lose their fractions if the type is one of integers; raises for what is out of its range.
    """
    import numpy

    info, own = TYPES[cls._type], scalar_type_of(value)
    if own != BFLOAT16 and value.dtype.kind not in "biuf":
        raise _configuration(cls, value, f"found elements of type '{value.dtype}'")
    if value.__class__ is not numpy.ndarray and getattr(value, "mask", None) is not None and value.mask.any():
        raise ArgumentError(f"{cls._name}.__init__(): the argument of type '{describe(value)}' has masked entries "
                            f"({int(value.mask.sum())} of {value.size}), whose values do not count. Say what to put "
                            "there (value.filled(0)), or leave them out (value.compressed()).")
    if not value.size:
        return invalid(cls._type)
    _require_range(cls, value)
    if BFLOAT16 in (own, cls._type):  # rounded once; in the order of bytes of this machine
        memory = numpy.ascontiguousarray(value, dtype="float64" if own is None else value.dtype.newbyteorder("="))
        node = import_copy(own or FLOAT64, memory.view(numpy.uint16) if own == BFLOAT16 else memory, cls._where)
        return cast(node if value.size > 1 else as_literal(node), cls._type)
    with numpy.errstate(over="ignore"):
        converted = numpy.ascontiguousarray(value, dtype=info.name).reshape(-1)
    if converted.size == 1:
        number: Any = converted[0].item()
        return scalar_literal(cls, number, f"{cls._name}.__init__")
    return import_copy(cls._type, converted, cls._where)


def _require_range(cls: type[ArrayBase], value: Any) -> None:
    """Raise for the first element that the type cannot hold, if it is one of integers."""
    info, found, low, high = TYPES[cls._type], value, cls._leaf._low, cls._leaf._high
    if info.kind not in "iu":
        return
    import numpy

    if scalar_type_of(value) == BFLOAT16:
        found = value.astype(numpy.float32)
    if found.dtype.kind not in "biuf" or numpy.can_cast(found.dtype, info.name):
        return
    with numpy.errstate(invalid="ignore"):
        smallest, largest = found.min().item(), found.max().item()
        # The range of a 64-bit type has no exact bounds in floating point; fractions are cut off towards zero.
        if low - 1 < smallest and largest < high + 1:
            return
        wrong = ~((found > low - 1) & (found < high + 1)) if found.dtype.kind == "f" else (
            (found < max(low, numpy.iinfo(found.dtype).min)) | (found > min(high, numpy.iinfo(found.dtype).max)))
    position = tuple(map(int, numpy.argwhere(wrong)[0]))
    where = position[0] if len(position) == 1 else position
    raise ArgumentError(f"{cls._name}.__init__(): could not initialize an element of type {cls._leaf._name} with the "
                        f"value {value[position].item()!r} at position {where} of an array of type '{value.dtype}': it "
                        "is out of range.")


def _from_buffer(cls: type[ArrayBase], value: Any, view: memoryview) -> Node:
    info = TYPES[cls._type]
    code = view.format.lstrip("@=<")
    if code in ("l", "L"):  # of the platform's long
        code = {"l": {4: "i", 8: "q"}, "L": {4: "I", 8: "Q"}}[code][view.itemsize]
    if view.ndim == 1 and code == info.code and view.contiguous:
        return import_copy(cls._type, view, cls._where) if view.nbytes else invalid(cls._type)
    if view.ndim == 1 and code in "hHiIqQfd":  # of another type: as a sequence of Python numbers
        return _from_sequence(cls, view.tolist(), f"{cls._name}.__init__")
    raise _configuration(cls, value, f"found {view.ndim} dimensions of elements with the format '{view.format}'")


def nested_nodes(cls: type[ArrayBase], args: tuple[Any, ...]) -> list[Node]:
    """The component nodes of a nested array made from the arguments of its constructor."""
    function = f"{cls._name}.__init__"
    if not args:
        return [invalid(cls._type) if cls._dynamic else literal(cls._type, 0)] * max(cls._count, 0)
    if len(args) > 1:
        return _components(cls, args, function)
    value = args[0]
    if isinstance(value, ArrayBase):
        if value._depth < 0:
            return _from_tensor(cls, value)
        if value._depth == cls._depth and cls._size not in (-1, len(value)):  # type: ignore[arg-type]
            raise _wrong_size(cls, len(value), function)  # type: ignore[arg-type]
        if value._depth == 1 < cls._depth and value._size == -1:
            return _components(cls, list(value), function)
        if not cls._count and value._depth < cls._depth:
            raise _wrong_size(cls, 1, function)
        return list(coerce(cls, value, function))
    if isinstance(value, (list, tuple, range)):
        return _components(cls, value, function)
    scalar = plain_scalar(value)
    if scalar is not None:
        if not cls._count:
            raise _wrong_size(cls, 1, function)
        return [scalar_literal(cls, scalar, function)] * (1 if cls._count < 0 else cls._count)
    if isinstance(value, (str, dict, bytes)) or value is None:
        raise ArgumentError(f"{function}(): could not initialize element with a value of type '{describe(value)}' "
                            "(expected a number, an array or a sequence).")
    if is_ndarray(value):
        return _from_nested_ndarray(cls, value)
    if speaks(value):
        own = with_derivatives(cls, value)
        if own is not None:
            return nested_nodes(cls, (own,))
        found = from_dlpack(value, cls)
        if not cls._dynamic:
            _checked_components(cls, value, found.shape, found.nodes)
            return [literal(cls._type, element) for node in found.nodes for element in values(node)]
        return _checked_components(cls, value, found.shape, found.nodes)
    if isinstance(value, Iterable):
        return _components(cls, list(value), function)
    raise ArgumentError(f"{function}(): could not initialize an array from a value of type '{describe(value)}'.")


def flipped(cls: type[ArrayBase], args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The argument of a constructor with its axes in reverse order, if it has several."""
    value, = args
    if isinstance(value, ArrayBase):
        if value._depth >= 0:
            return args
        shape = _checked_axes(cls, value.shape)
        return (make(type(value), *transposed(value._nodes()[0], shape, tuple(range(len(shape)))[::-1])),)
    if not is_ndarray(value):
        if not speaks(value) and not hasattr(value, "__array_interface__"):
            return args
        if is_on_gpu(value):
            found = read(f"{cls._name}.__init__", value)
            if found.kind == "c":
                return args
            shape = _checked_axes(cls, found.shape)[::-1]
            found = found._replace(shape=shape, strides=found.strides[::-1])
            tensor: Any = lookup(Record(found.backend, found.type, "tensor", (), False))
            return (make(tensor, found.node(), shape),)
        import numpy

        value = numpy.asarray(value)
    if value.dtype.kind == "c":
        return args
    _checked_axes(cls, value.shape)
    return (value.transpose(),)


def _checked_axes(cls: type[ArrayBase], shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of what is given in reverse order; raises if it is no such order of the axes of a type."""
    declared = (*cls._record.shape, -1) if cls._dynamic else cls._record.shape
    if len(shape) > 1 and any(size not in (-1, found) for size, found in zip(declared, shape[::-1], strict=False)):
        sizes = ", ".join("*" if size < 0 else str(size) for size in declared[::-1])
        raise ArgumentError(f"{cls._name}.__init__(): with flip_axes=True, the argument must have the shape ({sizes}), "
                            f"found {shape}.")
    return shape


def _from_tensor(cls: type[ArrayBase], value: Any) -> list[Node]:
    """The component nodes of an array from a tensor of the same number of dimensions: its rows."""
    function, shape = f"{cls._name}.__init__", value.shape
    declared = (*cls._record.shape, -1) if cls._dynamic else cls._record.shape
    if len(shape) != len(declared):
        raise ArgumentError(f"{function}(): the tensor has {len(shape)} dimensions (its shape is {shape}), but "
                            f"{cls._name} has {len(declared)}.")
    for axis, (expected, found) in enumerate(zip(declared, shape, strict=True)):
        if expected not in (-1, found):
            raise ArgumentError(f"{function}(): axis {axis} of the tensor has size {found} (its shape is {shape}), but "
                                f"that of {cls._name} has size {expected}.")
    node, width = cast(brought(cls, value, function)._nodes()[0], cls._type), shape[-1]
    if not cls._dynamic:
        return elements_of(node)
    if len(shape) == 1:
        return [node]
    return [strided(node, (width,), (1,), row * width) for row in range(math.prod(shape[:-1]))]


def _wrong_size(cls: type[ArrayBase], found: int, function: str) -> Exception:
    return ArgumentError(f"{function}(): input has the wrong size (expected {cls._size} elements, got {found}).")


def _components(cls: type[ArrayBase], values: Sequence[Any], function: str) -> list[Node]:
    if cls._size not in (-1, len(values)):
        raise _wrong_size(cls, len(values), function)
    kind: Any = cls._value
    if not cls._dynamic and cls._depth == 1:
        return [entry(cls, value, position, function) for position, value in enumerate(values)]
    nodes: list[Node] = []
    for position, value in enumerate(values):
        if value.__class__ is kind:
            nodes += value._nodes()
            continue
        try:
            nodes += kind(value)._nodes()
        except (TypeError, ValueError, SizeError) as error:
            raise ArgumentError(f"{function}(): could not initialize component {position} with a value of type "
                                f"'{describe(value)}': {error}") from None
    return nodes


def entry(cls: type[ArrayBase], value: Any, position: int, function: str) -> Node:
    """The node of an entry of a scalar array."""
    if isinstance(value, ArrayBase) and len(value._nodes()) == 1 and value._nodes()[0].size == 1:
        value = value.item()
    number = plain_scalar(value)
    if number is None or number.__class__ not in _ACCEPTED[cls._kind]:
        raise ArgumentError(f"{function}(): could not initialize component {position} with a value of type "
                            f"'{describe(value)}'.")
    return scalar_literal(cls, number, function)  # type: ignore[arg-type]


def _checked_components(cls: type[ArrayBase], value: Any, shape: tuple[int, ...], nodes: list[Node]) -> list[Node]:
    declared = cls._record.shape
    matches = all(d in (-1, s) for d, s in zip(declared, shape, strict=False))
    if len(shape) != len(declared) + cls._dynamic or not matches:
        raise _configuration(cls, value, f"found the shape {shape}")
    return nodes


def _from_nested_ndarray(cls: type[ArrayBase], value: Any) -> list[Node]:
    declared = cls._record.shape
    if value.ndim == len(declared) and cls._dynamic:
        value = value[..., None]
    _checked_components(cls, value, value.shape, [])
    if not cls._dynamic:
        value = value[..., None]
    if value.size:
        _require_range(cls, value if cls._dynamic else value[..., 0])
    leaf = cls._leaf
    return [ndarray_node(leaf, row) for row in value.reshape(math.prod(value.shape[:-1]), value.shape[-1])]
