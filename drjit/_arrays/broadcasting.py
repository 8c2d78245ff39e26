"""Tensors as operands: promotion, broadcasting, and what their nodes become.

The contract with the factory stands in :mod:`drjit._base.types`. Operators and functions broadcast like NumPy: operands
of one shape, and those with a single element, take part as they are; others are views
(:mod:`drjit._access.slicing`). Flat arrays count as tensors of one dimension, those with a single element as scalars.

Plans of operations (:func:`tensor_plan`) know types only; shapes are aligned by each call. What they become, and the
view that an operand of one shape is in another, is remembered by shapes (:func:`_alignment`, :func:`_layout`).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import drjit_core as core
from drjit_core import Node, cast, literal

from .._access import slicing
from .._access.extents import are_extents, joined
from .._access.slicing import TRUE, contiguous_strides
from .._base.array import ArrayBase
from .._base.errors import (
    FAILURES,
    ArgumentError,
    IncompatibleArguments,
    IncompatibleShapes,
    Site,
    called,
    describe,
    translate,
)
from .._base.nodes import broadcast
from .._base.values import plain_scalar
from .._promotion.componentwise import FLAT, Loader
from .._promotion.plans import (
    AND,
    SELECT,
    Keys,
    Operation,
    Plan,
    is_array,
    is_masking,
    loader_of_number,
    masking,
    resolve,
    tensor_type,
)
from .._promotion.promote import brought, scalar_literal
from .bases import TensorPlan, shape_of
from .bases import tensor as make

__all__ = ["Shape", "align", "concatenate", "make", "operand", "promote", "tensor_plan", "tensor_select", "transposed"]

_LITERAL = core.KIND["literal"]
_IDENTITY, _AUTO = core.ReduceOp.Identity.value, core.ReduceMode.Auto.value
Shape = tuple[int, ...]


def operand(function: Site, cls: type[ArrayBase], value: Any) -> tuple[Node, Shape]:
    """The node (of the scalar type of ``cls``) and the shape of a value that stands for a tensor."""
    if isinstance(value, ArrayBase):
        if value._depth > 0:
            raise ArgumentError(f"{called(function)}: incompatible arguments: {value._name} cannot be combined with "
                                f"tensors; convert it to {cls._name} first.")
        node = brought(cls, value, function)._nodes()[0]
        shape = value._s if value._depth < 0 else (node.size,)
        return cast(node, cls._type), shape
    number = plain_scalar(value)
    if number is not None:
        return scalar_literal(cls, number, function), ()
    try:
        tensor: Any = cls(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ArgumentError(f"{called(function)}: could not convert an argument of type '{describe(value)}' to "
                            f"{cls._name}: {error}") from None
    return tensor._n, tensor._s


# --- broadcasting ----------------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=1024)
def _alignment(shapes: tuple[Shape, ...]) -> tuple[Shape, int]:
    """The common shape by the rules of NumPy, and its number of elements."""
    shape = slicing.common_shape(shapes)
    if shape is None:
        raise IncompatibleShapes
    return shape, math.prod(shape)


@functools.lru_cache(maxsize=4096)
def _layout(shape: Shape, target: Shape) -> tuple[Shape, Shape] | None:
    """Extents and strides of what has a shape in another one, adjacent axes merged; ``None``: they are the same."""
    extents, strides = zip(*slicing.collapsed(target, slicing.broadcast_strides(shape, target)), strict=True)
    return None if strides == (1,) else (extents, strides)


def _seen(node: Node, shape: Shape, target: Shape) -> Node:
    """What has a shape, in another one; a single element goes with any, and stays as it is."""
    if shape == target or node.size == 1:
        return node
    layout = _layout(shape, target)
    if layout is None:
        return node
    found = core.view(node, 0, layout[0], layout[1])
    return slicing.expand(node, shape, target) if found is None else found  # in regions and recordings


def align(nodes: Sequence[Node], shapes: tuple[Shape, ...]) -> tuple[list[Node], Shape]:
    """Nodes of some shapes, broadcast to a common one, which is returned as well; those of size 1 are left alone."""
    shape, count = _alignment(shapes)
    if not count:
        return list(map(core.nothing_of, nodes)), shape
    return [_seen(node, own, shape) for node, own in zip(nodes, shapes, strict=True)], shape


def _align_two(left: Node, right: Node, shapes: tuple[Shape, Shape]) -> tuple[Node, Node, Shape]:
    """Two nodes of some shapes, broadcast to a common one, which is returned as well."""
    shape, count = _alignment(shapes)
    if not count:
        return core.nothing_of(left), core.nothing_of(right), shape
    return _seen(left, shapes[0], shape), _seen(right, shapes[1], shape), shape


# --- promotion -------------------------------------------------------------------------------------------------------


def loader(cls: type[ArrayBase], key: Any) -> Loader:
    """How operands of a class become nodes of the scalar type of ``cls``."""
    if not is_array(key):
        return loader_of_number(cls)
    if key._depth > 0:
        raise IncompatibleArguments(f"{describe(key)} cannot be combined with tensors; convert it to {describe(cls)} "
                                    "first")
    return Loader(FLAT, cls._type, key._type != cls._type)


def tensor_plan(operation: Operation, site: Site, keys: Keys) -> Plan:
    """The plan of an elementwise operation with a tensor among the operands."""
    trace, mask = operation.trace, 0 if operation is SELECT else -1
    masks = operation is AND and is_masking(keys)
    if masks:
        keys, mask = (keys[1], keys[0]), 0
    cls = tensor_type(keys, mask)
    result = cls._mask_type if operation.mask else cls
    if masks:
        trace = masking(literal(cls._type, 0))
    loaders = [loader(cls._mask_type if position == mask else cls, key) for position, key in enumerate(keys)]
    plan = TensorPlan(trace, loaders, result, align, _align_two)
    return (lambda value, mask: plan.two(mask, value)) if masks else plan


def promote(site: Site, args: Sequence[Any], mask: int = -1) -> tuple[type[ArrayBase], list[tuple[Node, Shape]]]:
    """Arguments, one of them a tensor, as nodes of their promoted type, with shapes."""
    values, keys = resolve(site, args, mask)
    cls = tensor_type(keys, mask)
    loaders = [loader(cls._mask_type if position == mask else cls, key) for position, key in enumerate(keys)]
    return cls, [(load.node(value), shape_of(value)) for load, value in zip(loaders, values, strict=True)]


def tensor_select(site: Site, condition: bool, first: Any, second: Any) -> Any:
    """``dr.select`` with a ``bool`` and a tensor among the choices."""
    try:
        cls, found = promote(site, (first, second))
        nodes, shape = align([node for node, _ in found], tuple(own for _, own in found))
    except FAILURES as error:
        raise translate(error, site, (first, second)) from None
    node = nodes[0 if condition else 1]
    return make(cls, broadcast(node, math.prod(shape)) if node.size else node, shape)


# --- nodes -----------------------------------------------------------------------------------------------------------


def concatenate(nodes: Sequence[Node]) -> Node:
    """The elements of several nodes of one type, one after the other."""
    type_ = nodes[0].type
    nodes = [node for node in nodes if node.size]
    if len(nodes) < 2:
        return nodes[0] if nodes else core.invalid(type_)
    for node in nodes:
        if node.scope:
            raise core.symbolic_error(node, need="an array made of others needs their elements in memory")
    total = sum(node.size for node in nodes)
    first = nodes[0]
    if first.kind == _LITERAL and all(
            node.kind == _LITERAL and math.copysign(1, node.payload) == math.copysign(1, first.payload)
            and node.payload == first.payload for node in nodes):
        return literal(type_, first.payload, total, first.attr)
    if are_extents(*nodes, least=1):
        return joined(nodes)
    result, start = core.undefined(type_, total), 0
    for node in nodes:
        size = node.size
        extents, strides = ((size,), (1,)) if size > 1 else ((), ())
        index = core.positions(total, start, extents, strides)
        result = core.scatter(result, node, index, TRUE, _IDENTITY, _AUTO, True)
        start += size
    core.schedule([result])
    return result


def transposed(node: Node, shape: Shape, axes: Shape) -> tuple[Node, Shape]:
    """The node and the shape of a tensor whose axes have been put into another order."""
    sizes = tuple(shape[axis] for axis in axes)
    copied = core.transposed(node, shape, axes, *core.limits(node.where).tracing.copies)
    if copied is not None:
        return copied, sizes
    strides = contiguous_strides(shape)
    return slicing.strided(node, sizes, [strides[axis] for axis in axes]), sizes
