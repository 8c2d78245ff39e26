"""Promotion: from the arguments of an operation to lists of nodes of one scalar type and one static shape.

The rules
---------
* Between arrays, the scalar type with the larger number in :class:`drjit.VarType` wins: masks, then integers by width
  (of two integers of one width the unsigned one), then floating point by width.
* Python numbers are weak: an ``int`` goes with anything but a mask (which becomes a 32-bit integer), a ``float`` turns
  masks and integers of any width into single precision. Lists and NumPy scalars count as their elements do.
* Static shapes broadcast from the right, as in NumPy, with the dynamic dimension apart: ``Array3f + Float``.

This is the slow path of the operators; the fast ones are in :mod:`drjit._arrays.flat` and :mod:`drjit._arrays.nested`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from drjit_core import KIND, Node, cast, import_copy, invalid, literal, read_element

from .._base.array import ArrayBase
from .._base.errors import CORE_ERRORS, ArgumentError, SizeError, describe, translate
from .._base.nodes import elements_of, number_of, pack
from .._base.types import BOOL, FLOAT16, FLOAT32, INT32, SCALAR, Record, lookup, relative, reshape, retype
from .._base.values import PYTHON_NUMBERS, is_ndarray, plain_scalar, scalar_type_of

__all__ = ["alike", "coerce", "common_package", "convert", "elements_of", "elementwise", "flat_of_scalars",
           "is_ndarray", "number_of", "operands", "plain_scalar", "scalar_literal", "scalar_type",
           "weak_rank", "wrap", "wrap_like"]

_new = object.__new__
_LITERAL = KIND["literal"]


def wrap(cls: type[ArrayBase], nodes: list[Node]) -> Any:
    """An array of a type from its component nodes, which become its own."""
    array: Any = _new(cls)
    if cls._depth > 0:
        array._c = nodes
    elif cls._depth:  # a tensor with one dimension
        array._n = nodes[0]
        array._s = (nodes[0].size,)  # type: ignore[misc]
    elif cls._dynamic:
        array._n = nodes[0]
    else:
        return number_of(nodes[0])
    array._o = None
    return array


def wrap_like(array: Any, cls: type[ArrayBase], nodes: list[Node]) -> Any:
    """What :func:`wrap` returns, with the shape of an array if that is a tensor."""
    result = wrap(cls, nodes)
    if cls._depth < 0:
        result._s = array._s
    return result


def scalar_literal(cls: type[ArrayBase], value: bool | int | float, function: str) -> Node:
    """A literal of an array type's scalar type; raises if an integer does not fit."""
    kind = cls._kind
    if kind == "b":
        return literal(BOOL, value != 0)
    if kind == "f":
        try:
            return literal(cls._type, float(value))
        except OverflowError:
            pass
    else:
        if value.__class__ is float:
            if value != value or value in (float("inf"), float("-inf")):
                raise ArgumentError(f"{function}(): could not initialize an element of type {cls._leaf._name} with the "
                                    f"value {value!r}.")
            value = int(value)
        leaf = cls._leaf
        if leaf._low <= value <= leaf._high:
            return literal(cls._type, int(value))
    shown = str(value) if abs(value) < 1 << 100 else f"of {value.bit_length()} bits"  # type: ignore[union-attr]
    raise ArgumentError(f"{function}(): could not initialize an element of type {cls._leaf._name} with the value "
                        f"{shown} of type 'int': it is out of range.")


def weak_rank(value: Any, function: str, arrays: list[ArrayBase], position: int) -> int:
    """Rank of a Python number or the elements of a sequence; collects the arrays that a sequence holds."""
    rank = PYTHON_NUMBERS.get(value.__class__)
    if rank is not None:
        return rank
    if isinstance(value, ArrayBase):
        arrays.append(value)
        return -1
    if value.__class__ in (list, tuple, range):
        ranks = {item.__class__ for item in value}
        if ranks <= PYTHON_NUMBERS.keys():
            return max((PYTHON_NUMBERS[cls] for cls in ranks), default=-1)
        return max(weak_rank(item, function, arrays, position) for item in value)
    scalar = plain_scalar(value)
    if scalar is not None:
        return PYTHON_NUMBERS[scalar.__class__]
    raise ArgumentError(f"{function}(): argument {position} has the unsupported type '{describe(value)}' (expected a "
                        "Dr.Jit array or a type that can be converted into one).")


def scalar_type(arrays: int, foreign: int, rank: int) -> int:
    """The scalar type of a result, given the largest one of the arrays, of NumPy arrays, and the rank of numbers."""
    scalar = max(arrays, foreign)
    if rank == 2 and scalar < FLOAT16:
        return FLOAT32
    return INT32 if rank == 1 and scalar == BOOL else scalar


def _foreign(value: Any, like: type[ArrayBase], function: str) -> Any:
    """Turn a NumPy array into an array of the corresponding type over the backend of ``like``."""
    scalar = scalar_type_of(value)
    if scalar is None:
        raise ArgumentError(f"{function}(): arrays of type '{describe(value)}' with elements of type '{value.dtype}' "
                            "are not supported.")
    shape = (-1,) * (value.ndim - 1) if like._dynamic else value.shape
    return reshape(retype(like._leaf, scalar), shape)(value)


def _broadcast_shapes(shapes: list[tuple[tuple[int, ...], tuple[int, ...]]], function: str) -> tuple[int, ...]:
    """Common static shape (-1 where dynamic) of pairs of declared and actual shapes."""
    depth = max(len(declared) for declared, _ in shapes)
    result: list[int] = []
    for axis in range(-depth, 0):
        sizes = {(d[axis], a[axis]) for d, a in shapes if len(d) >= -axis}
        actual = {a for _, a in sizes}
        # A size of one goes with any other if one of both is dynamic; static ones must agree.
        dynamic = any(d < 0 for d, _ in sizes)
        fixed = {a for d, a in sizes if a != 1 or d >= 0 and not dynamic} or {1}
        if len(fixed) > 1:
            found = " and ".join(map(str, sorted(actual)))
            raise ArgumentError(f"{function}(): incompatible arguments: the arrays have {found} components.")
        result.append(-1 if dynamic else fixed.pop())
    return tuple(result)


def operands(function: str, args: Sequence[Any], mask: ArrayBase | None = None,
             ) -> tuple[type[ArrayBase], list[list[Node]]]:
    """Promote the arguments of an elementwise operation (at least one of them, or ``mask``, an array).

    Returns their common array type and the component nodes of each, lists of one length. A ``mask`` (the first argument
    of ``select``) takes part in broadcasting only; its nodes come first.
    """
    arrays: list[ArrayBase] = []
    values = list(args)
    like = mask if mask is not None else next(a for a in args if isinstance(a, ArrayBase))
    rank = -1
    for position, value in enumerate(values):
        if is_ndarray(value) and value.ndim:
            values[position] = value = _foreign(value, type(like), function)
        rank = max(rank, weak_rank(value, function, arrays, position + 1))
    scalar = scalar_type(max((a._type for a in arrays), default=BOOL), BOOL, rank)
    top = [a for a in values if isinstance(a, ArrayBase)] + ([mask] if mask is not None else [])
    shapes = [(a._record.shape, a._static_shape()) for a in top] or [(like._record.shape, like._static_shape())]
    shape = shapes[0][0] if len(shapes) == 1 else _broadcast_shapes(shapes, function)
    cls = common_package(function, top or [like], type(top[0] if top else like))
    specials = {type(a)._record[2:4] for a in top if a._special}
    if not specials:
        cls = reshape(retype(cls, scalar), shape)
    elif len(specials) == 1:
        kind, special_shape = specials.pop()
        cls = retype(_class_of(cls._record._replace(kind=kind, shape=special_shape)), scalar)
    else:
        found = " and ".join(dict.fromkeys(a._name for a in top if a._special))
        raise ArgumentError(f"{function}(): incompatible arguments: there is no rule for {found} together.")
    lists = [coerce(cls, value, function) for value in values]
    if mask is not None:
        lists.insert(0, coerce(cls._mask_type, mask, function))
    count = max(map(len, lists))
    return cls, [nodes if len(nodes) == count else _tile(nodes, count, function) for nodes in lists]


def _class_of(record: Record) -> type[ArrayBase]:
    found = lookup(record) or lookup(record._replace(type=FLOAT32))
    assert found is not None
    return found


def common_package(function: str, arrays: Sequence[ArrayBase], cls: type[ArrayBase]) -> type[ArrayBase]:
    """The relative of a type in the package that arrays meet in: of the one backend that is not scalar, differentiable
    if any of them is."""
    record = cls._record
    if all(a._record.backend is record.backend and a._record.diff is record.diff for a in arrays):
        return cls
    backends = {a._record.backend for a in arrays} - {SCALAR}
    if len(backends) > 1:
        names = " and ".join(dict.fromkeys(a._name for a in arrays))
        raise ArgumentError(f"{function}(): arrays of different backends cannot be combined (found {names}); convert "
                            "one of them first.")
    return relative(cls, backends.pop() if backends else SCALAR, any(a._record.diff for a in arrays))


def _tile(nodes: list[Node], count: int, function: str) -> list[Node]:
    if not nodes or count % len(nodes):
        raise SizeError(f"{function}(): the arrays have incompatible numbers of components ({len(nodes)} and {count}).")
    return nodes * (count // len(nodes))


def coerce(cls: type[ArrayBase], value: Any, function: str) -> list[Node]:
    """The component nodes of a value converted to an array type."""
    return cls._convert(value, function) if cls._special else convert(cls, value, function)


def convert(cls: type[ArrayBase], value: Any, function: str) -> list[Node]:
    """The common rule of conversion: what has fewer components is repeated."""
    count = 1 if cls._count < 0 else cls._count
    if isinstance(value, ArrayBase):
        if value._depth < 0 and value.ndim:
            value = cls(value)
        if not value._dynamic and not cls._depth and value._depth == 1 and cls._dynamic:
            return [flat_of_scalars(cls, value)]
        if not cls._dynamic and value._dynamic:
            value = _to_scalars(cls, value, function)
        nodes, scalar = value._nodes(), cls._type
        if value._type != scalar:
            nodes = [cast(node, scalar) for node in nodes]
        if len(nodes) == cls._count or cls._count < 0:
            return nodes
        declared, found = cls._record.shape, value._static_shape()
        # As in broadcasting, a dynamic dimension of size 1 goes with any other.
        if len(found) > len(declared) or any(d not in (-1, f) and (r >= 0 or f != 1) for d, f, r in zip(
                declared[::-1], found[::-1], value._record.shape[::-1], strict=False)):
            raise ArgumentError(f"{function}(): cannot convert {value._name} to {cls._name}.")
        return _tile(nodes, cls._count, function)
    scalar_value = plain_scalar(value)
    if scalar_value is not None:
        return [scalar_literal(cls, scalar_value, function)] * count
    try:
        return cls(value)._nodes()
    except (TypeError, ValueError, RuntimeError) as error:
        raise ArgumentError(f"{function}(): could not convert an argument of type '{describe(value)}' to "
                            f"{cls._name}: {error}") from error


def flat_of_scalars(cls: type[ArrayBase], value: ArrayBase) -> Node:
    """The node of a flat array with the components of a scalar array."""
    nodes = [cast(node, cls._type) for node in value._nodes()]
    if len(nodes) < 2:
        return nodes[0] if nodes else invalid(cls._type)
    return import_copy(cls._type, pack(nodes))


def _to_scalars(cls: type[ArrayBase], value: ArrayBase, function: str) -> Any:
    """A scalar array with the elements of a vectorised one: flat, or of components of one element each."""
    if not value._depth:
        nodes = elements_of(value._nodes()[0])
        if cls._depth > 1 or cls._size not in (-1, 1, len(nodes)) and len(nodes) != 1:
            raise ArgumentError(f"{function}(): cannot convert {value._name} of size {len(nodes)} to {cls._name}.")
        return wrap(reshape(relative(type(value), SCALAR, False), (-1,)), nodes)
    nodes = value._nodes()
    if any(node.size != 1 for node in nodes):
        raise ArgumentError(f"{function}(): cannot convert {value._name} to {cls._name}: each component must have a "
                            f"single element, found the sizes {', '.join(str(node.size) for node in nodes)}.")
    return wrap(relative(type(value), SCALAR, False), [literal(node.type, read_element(node, 0)) for node in nodes])


def alike(args: Sequence[Any]) -> tuple[Any, list[list[Node]]] | None:
    """What :func:`operands` returns, in the frequent case of arrays of one type and Python numbers that it can hold."""
    cls: Any = None
    for value in args:
        kind = value.__class__
        if kind is not cls and kind is not float and kind is not int:
            if cls is not None or not issubclass(kind, ArrayBase):
                return None
            cls = kind
    count = cls._count
    if count < 0 or cls._special:
        return None
    lists: list[list[Node]] = []
    for value in args:
        kind = value.__class__
        if kind is cls:
            lists.append(value._nodes())
        elif (kind is float and cls._floating) or (kind is int and cls._low <= value <= cls._high):
            lists.append([literal(cls._type, value)] * count)
        else:
            return None
    return cls, lists


def elementwise(function: str, trace: Callable[..., Node], args: Sequence[Any], mask: bool = False) -> Any:
    """Apply a trace function to promoted arguments, one of them an array; ``mask`` if it returns masks."""
    found = alike(args)
    if found is None:
        special = next((type(value) for value in args if isinstance(value, ArrayBase) and value._special), None)
        if special is not None:
            result = special._promote_with(function, trace, args, mask)
            if result is not NotImplemented:
                return result
        found = operands(function, args)
    cls, lists = found
    try:
        nodes = list(map(trace, *lists))
    except CORE_ERRORS as error:
        raise translate(error, function) from error
    return wrap(cls._mask_type if mask else cls, nodes)
