"""Conversions: values as nodes of an array type, and nodes as arrays.

What an operation's arguments promote to is the matter of :mod:`drjit._promotion.plans`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from drjit_core import Extent, Node, bound, cast, import_copy, invalid, literal, moved, primal, read_element

from .._base.array import ArrayBase
from .._base.errors import (
    ArgumentError,
    IncompatibleArguments,
    OutOfRange,
    Site,
    SizeError,
    called,
    describe,
    translate,
)
from .._base.handle import fresh as _new
from .._base.nodes import elements_of, number_of, pack
from .._base.types import BOOL, SCALAR, relative, reshape
from .._base.values import is_ndarray, plain_scalar

__all__ = ["bound_number", "brought", "coerce", "common_package", "convert", "elements_of", "flat_of_scalars",
           "is_ndarray", "is_row", "leads", "meeting_package", "number_literal", "number_of", "plain_scalar",
           "repeated", "scalar_literal", "trails", "wrap", "wrap_like"]

_Array = TypeVar("_Array")


def wrap(cls: type[_Array], nodes: list[Node]) -> _Array:
    """An array of a type from its component nodes, which become its own."""
    kind: Any = cls
    array: Any = _new(kind)
    if kind._depth > 0:
        array._c = nodes
    elif kind._depth:  # a tensor with one dimension
        array._n = nodes[0]
        array._s = (nodes[0].size,)
    elif kind._dynamic:
        array._n = nodes[0]
    else:
        return number_of(nodes[0])  # type: ignore[no-any-return]
    array._o = None
    return array  # type: ignore[no-any-return]


def wrap_like(array: Any, cls: type[ArrayBase], nodes: list[Node]) -> Any:
    """What :func:`wrap` returns, with the shape of an array if that is a tensor."""
    result: Any = wrap(cls, nodes)
    if cls._depth < 0:
        result._s = array._s
    return result


def brought(cls: type[ArrayBase], value: ArrayBase, function: Site) -> Any:
    """An array, to be converted to a type: if it belongs to another backend, constructors copy its elements, and other
    functions refuse it."""
    if value._where == cls._where or not value._dynamic or not cls._where:
        return value
    if any(node.where not in (0, cls._where) for node in value._nodes()) and not str(function).endswith(".__init__"):
        raise ArgumentError(f"{called(function)}: an array of type '{value._name}' does not go with {cls._name}: they "
                            "are of different backends; convert it first.")
    return wrap_like(value, type(value), moved(value._nodes(), cls._where, str(function)))


def number_literal(cls: type[ArrayBase], value: bool | int | float) -> Node:
    """A literal of an array type's scalar type; raises :class:`OutOfRange` if the type cannot hold the number."""
    kind = cls._kind
    if kind == "b":
        return literal(BOOL, value != 0)
    if kind == "f":
        try:
            return literal(cls._type, float(value))
        except OverflowError:
            raise OutOfRange(cls._leaf._name, value) from None
    if value.__class__ is float:
        if value != value or value in (float("inf"), float("-inf")):
            raise OutOfRange(cls._leaf._name, value)
        value = int(value)
    if not cls._low <= value <= cls._high:
        raise OutOfRange(cls._leaf._name, value)
    return literal(cls._type, int(value))


def scalar_literal(cls: type[ArrayBase], value: bool | int | float, function: Site) -> Node:
    """A literal of an array type's scalar type; raises if an integer does not fit."""
    try:
        return number_literal(cls, value)
    except OutOfRange as error:
        raise translate(error, function) from None


def bound_number(cls: type[ArrayBase], value: Extent, function: Site) -> Node:
    """A literal of an array type's scalar type for a number of a recording, which may be another one in replays: within
    the type's range, too."""
    if cls._kind == "b" or value.value.__class__ is float and cls._kind != "f":
        return scalar_literal(cls, value.pinned(), function)
    if cls._kind != "f" and not cls._low <= value <= cls._high:
        raise translate(OutOfRange(cls._leaf._name, value.value), function)
    return bound(cls._type, value)


def meeting_package(arrays: Sequence[ArrayBase | type[ArrayBase]], cls: type[ArrayBase]) -> type[ArrayBase]:
    """The relative of a type in the package that arrays meet in: of the one backend that is not scalar, differentiable
    if any of them is. Raises :class:`IncompatibleArguments` if there are several such backends."""
    record = cls._record
    if all(a._record.backend is record.backend and a._record.diff is record.diff for a in arrays):
        return cls
    backends = {a._record.backend for a in arrays} - {SCALAR}
    if len(backends) > 1:
        raise IncompatibleArguments("arrays of different backends cannot be combined; convert one of them first")
    return relative(cls, backends.pop() if backends else SCALAR, any(a._record.diff for a in arrays))


def common_package(function: Site, arrays: Sequence[ArrayBase], cls: type[ArrayBase]) -> type[ArrayBase]:
    """What :func:`meeting_package` returns, with its exception in words."""
    try:
        return meeting_package(arrays, cls)
    except IncompatibleArguments as error:
        raise translate(error, function, arrays) from None


def _tile(nodes: list[Node], count: int, function: Site) -> list[Node]:
    if not nodes or count % len(nodes):
        raise SizeError(f"{called(function)}: the arrays have incompatible numbers of components ({len(nodes)} and "
                        f"{count}).")
    return nodes * (count // len(nodes))


def leads(shape: tuple[int, ...], of: tuple[int, ...]) -> bool:
    """Whether a static shape is what another one begins with."""
    return -1 not in of and shape == of[:len(shape)]


def trails(shape: tuple[int, ...], of: tuple[int, ...]) -> bool:
    """Whether a static shape goes with what another one, perhaps a dynamic one, ends with."""
    return len(shape) <= len(of) and all(d in (-1, f) for d, f in zip(of[::-1], shape[::-1], strict=False))


def is_row(cls: type[ArrayBase], value: ArrayBase | type[ArrayBase]) -> bool:
    """Whether an array of fewer dimensions stands for each component along the first axis of a type. Others are
    sequences of these components: numbers of other kinds, and arrays of numbers or of components that one counts."""
    record = value._record
    return (value._dynamic == cls._dynamic and -1 not in record.shape and value._special in ("", "tensor")
            and trails(record.shape, cls._record.shape))


def repeated(cls: type[ArrayBase], value: ArrayBase) -> list[Node]:
    """The component nodes of an array as those of a type with further dimensions behind its own."""
    nodes = [node if node.type == cls._type else cast(node, cls._type) for node in value._nodes()]
    times = cls._count // len(nodes)
    if value._record.diff and not cls._record.diff:
        nodes = [primal(node) for node in nodes]
    return [node for node in nodes for _ in range(times)]


def coerce(cls: type[ArrayBase], value: Any, function: Site) -> list[Node]:
    """The component nodes of a value converted to an array type."""
    return cls._convert(value, function) if cls._special else convert(cls, value, function)


def convert(cls: type[ArrayBase], value: Any, function: Site) -> list[Node]:
    """The common rule of conversion: what has fewer components is repeated."""
    count = 1 if cls._count < 0 else cls._count
    if isinstance(value, ArrayBase):
        value = brought(cls, value, function)
        if value._depth < 0 and value.ndim:
            value = cls(value)
        if not value._dynamic and not cls._depth and value._depth == 1 and cls._dynamic:
            return [flat_of_scalars(cls, value)]
        if not cls._dynamic and value._dynamic:
            value = _to_scalars(cls, value, function)
        nodes: list[Node] = value._nodes()
        scalar = cls._type
        if value._type != scalar:
            nodes = [cast(node, scalar) for node in nodes]
        if value._record.diff and not cls._record.diff:
            nodes = [primal(node) for node in nodes]
        if len(nodes) == cls._count or cls._count < 0:
            return nodes
        if not value._depth:
            return nodes * cls._count
        declared, found = cls._record.shape, value._static_shape()
        if len(found) < len(declared) and leads(found, declared) and not is_row(cls, value):
            return repeated(cls, value)
        # As in broadcasting, a dynamic dimension of size 1 goes with any other.
        if len(found) > len(declared) or any(d not in (-1, f) and (r >= 0 or f != 1) for d, f, r in zip(
                declared[::-1], found[::-1], value._record.shape[::-1], strict=False)):
            raise ArgumentError(f"{called(function)}: cannot convert {value._name} to {cls._name}.")
        return _tile(nodes, cls._count, function)
    if value.__class__ is Extent:
        return [bound_number(cls, value, function)] * count
    scalar_value = plain_scalar(value)
    if scalar_value is not None:
        return [scalar_literal(cls, scalar_value, function)] * count
    create: Any = cls
    try:
        return list(create(value)._nodes())
    except (TypeError, ValueError, RuntimeError) as error:
        raise ArgumentError(f"{called(function)}: could not convert an argument of type '{describe(value)}' to "
                            f"{cls._name}: {error}") from None


def flat_of_scalars(cls: type[ArrayBase], value: ArrayBase) -> Node:
    """The node of a flat array with the components of a scalar array."""
    nodes = [cast(node, cls._type) for node in value._nodes()]
    if len(nodes) < 2:
        return nodes[0] if nodes else invalid(cls._type)
    return import_copy(cls._type, pack(nodes), cls._where)


def _to_scalars(cls: type[ArrayBase], value: ArrayBase, function: Site) -> Any:
    """A scalar array with the elements of a vectorised one: flat, or of components of one element each."""
    if not value._depth:
        nodes = elements_of(value._nodes()[0])
        if cls._depth > 1 or cls._size not in (-1, 1, len(nodes)) and len(nodes) != 1:
            raise ArgumentError(f"{called(function)}: cannot convert {value._name} of size {len(nodes)} to "
                                f"{cls._name}.")
        return wrap(reshape(relative(type(value), SCALAR, False), (-1,)), nodes)
    nodes = value._nodes()
    if any(node.size != 1 for node in nodes):
        raise ArgumentError(f"{called(function)}: cannot convert {value._name} to {cls._name}: each component must "
                            f"have a single element, found the sizes {', '.join(str(node.size) for node in nodes)}.")
    return wrap(relative(type(value), SCALAR, False), [literal(node.type, read_element(node, 0)) for node in nodes])
