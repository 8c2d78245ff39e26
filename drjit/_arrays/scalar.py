"""The scalar backend: static arrays of Python numbers, and ``ArrayX*`` of any length.

A component is a node like everywhere else, but always a literal of one element: the compiler folds operations on
literals while it traces them, rounding as the type does. Scalar arrays hence share all code of the nested arrays, and
differ in what follows: there is no trailing dynamic dimension, an entry of the innermost dimension is a Python number,
and indirect access happens at once, here.

Where a flat scalar array is called for, there is a Python number instead; the factory's flat scalar classes only stand
for ``bool``, ``int`` and ``float`` of a certain width, and :func:`drjit._promotion.promote.wrap` never makes an
instance of them.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from drjit_core import KIND, TYPES, JitBackend, Node, ReduceOp, VarState, literal, read_element

from .._base.array import ArrayBase
from .._base.errors import SizeError, describe
from .._base.types import SCALAR, relative
from .._functions.reductions import COMBINE
from .._promotion.promote import coerce, number_of, plain_scalar, wrap
from .construction import entry

_Function = TypeVar("_Function", bound=Callable[..., Any])

__all__ = ["ScalarMixin", "gather", "rounding", "scatter"]


class ScalarMixin(ArrayBase):
    """What scalar arrays do otherwise than vectorised ones; comes before the base class of their kind."""

    __slots__ = ()

    _c: list[Node]

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of all dimensions, outermost first."""
        return self._static_shape()

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return self._depth

    @property
    def state(self) -> VarState:
        """Evaluation state: always ``VarState.Invalid``, as scalar arrays take no part in tracing."""
        return VarState.Invalid

    def _component(self, position: int) -> Any:
        if isinstance(self._value, type) and issubclass(self._value, ArrayBase):
            return super()._component(position)  # type: ignore[misc]
        return number_of(self._c[position])

    def _component_nodes(self, position: int, value: Any, function: str) -> list[Node]:
        kind: Any = self._value
        return coerce(kind, value, function) if issubclass(kind, ArrayBase) else \
            [entry(type(self), value, position, function)]

    def __bool__(self) -> bool:
        if self._kind != "b":
            raise TypeError(f"{self._name}.__bool__(): implicit conversion to 'bool' is only supported for scalar mask "
                            "arrays.")
        if self.shape != (1,):
            raise SizeError(f"{self._name}.__bool__(): implicit conversion to 'bool' requires an array with exactly 1 "
                            f"element (this one has the shape {self.shape}). Did you mean drjit.all() or drjit.any()?")
        return bool(self._component(0))


def rounding(function: _Function) -> _Function:
    """A function of array components that rounds alike on all backends.

    A component of a scalar array is a Python number, with which it would compute in double precision. It is hence given
    arrays of the LLVM package with the same literals, which fold as it traces them.
    """
    def lift(value: Any) -> Any:
        if isinstance(value, type):
            return relative(value, JitBackend.LLVM, False)
        return wrap(relative(type(value), JitBackend.LLVM, False), list(value._nodes()))

    def lower(value: Any) -> Any:
        if isinstance(value, ArrayBase):
            return wrap(relative(type(value), SCALAR, False), list(map(as_literal, value._nodes())))
        return value

    @functools.wraps(function)
    def compute(*args: Any, **kwargs: Any) -> Any:
        if not args or getattr(args[0], "_dynamic", True):
            return function(*args, **kwargs)
        records = [getattr(arg, "_record", None) for arg in args]
        if any(record is not None and record.backend is not SCALAR for record in records):
            return function(*args, **kwargs)
        lifted = [arg if record is None else lift(arg) for arg, record in zip(args, records, strict=True)]
        return lower(function(*lifted, **kwargs))

    return compute  # type: ignore[return-value]


def pack(nodes: Sequence[Node]) -> bytes:
    """The numbers that nodes hold in the memory layout of their type."""
    return struct.pack(f"={len(nodes)}{TYPES[nodes[0].type].code}", *map(number_of, nodes)) if nodes else b""


# --- indirect access -------------------------------------------------------------------------------------------------


def _indices(index: Any, active: Any, function: str) -> tuple[list[int], list[bool], bool]:
    """Positions, whether each is to be accessed, and whether there is a single one."""
    positions, single = _numbers(index, "index", "iuf", function)
    mask, _ = _numbers(active, "active", "b", function)
    count = max(len(positions), len(mask)) if positions and mask else 0
    if len(positions) not in (1, count) or len(mask) not in (1, count):
        raise SizeError(f"{function}(): operands have incompatible sizes! (sizes: {len(positions)}, {len(mask)})")
    if len(positions) < count:
        positions *= count
    return [int(k) for k in positions], [bool(m) for m in (mask if len(mask) == count else mask * count)], single


def _numbers(value: Any, name: str, kinds: str, function: str) -> tuple[list[Any], bool]:
    number = plain_scalar(value)
    if number is not None:
        return [number], True
    if isinstance(value, ArrayBase) and not value._dynamic and value._depth == 1 and value._kind in kinds:
        return [number_of(node) for node in value._nodes()], False
    if isinstance(value, (list, tuple, range)) and all(plain_scalar(entry) is not None for entry in value):
        return list(value), False
    raise TypeError(f"{function}(): '{name}' has an unsupported type ({describe(value)}); it must be an integer array "
                    "of the scalar backend, a sequence of numbers or a number.")


def _node_at(nodes: Sequence[Node], position: int, function: str) -> Node:
    if not 0 <= position < len(nodes):
        raise IndexError(f"{function}(): index {position} is out of bounds (the array has {len(nodes)} entries).")
    return nodes[position]


def gather(dtype: Any, source: ArrayBase, index: Any, active: Any, function: str) -> Any:
    """``dr.gather`` from a one-dimensional scalar array, with indices checked."""
    if source._depth != 1 or source._special:
        raise TypeError(f"{function}(): the source of type {source._name} must be a one-dimensional array.")
    positions, mask, single = _indices(index, active, function)
    nodes, zero = source._nodes(), literal(source._type, 0)
    found = {"b": bool, "i": int, "u": int, "f": float}[source._kind]
    if dtype is found and single:
        return number_of(_node_at(nodes, positions[0], function)) if mask[0] else found(0)
    if isinstance(dtype, type) and issubclass(dtype, ArrayBase) and dtype._leaf is source._leaf:
        if dtype._count < 0 and dtype._depth == 1:
            return wrap(dtype, [_node_at(nodes, k, function) if m else zero
                                for k, m in zip(positions, mask, strict=True)])
        if dtype._count >= 0 and single:
            start, count = positions[0] * dtype._count, dtype._count
            return wrap(dtype, [_node_at(nodes, start + k, function) if mask[0] else zero for k in range(count)])
    raise TypeError(f"{function}(): unsupported 'dtype' {describe(dtype)} for a source of type {source._name}.")


def scatter(op: ReduceOp, target: ArrayBase, value: Any, index: Any, active: Any, function: str) -> list[Node]:
    """The components of a one-dimensional scalar array after a ``dr.scatter`` or ``dr.scatter_reduce``."""
    if target._depth != 1 or target._special:
        raise TypeError(f"{function}(): the target of type {target._name} must be a one-dimensional array.")
    positions, mask, single = _indices(index, active, function)
    nodes = list(target._nodes())
    if isinstance(value, ArrayBase):
        if value._type != target._type or value._dynamic:
            raise TypeError(f"{function}(): 'value' of type {value._name} is not supported for a target of type "
                            f"{target._name}; convert it first.")
        values = list(value._nodes())
        if single and len(values) > 1:
            positions = [positions[0] * len(values) + k for k in range(len(values))]
            mask *= len(values)
    else:
        entries = value if isinstance(value, (list, tuple, range)) else [value]
        values = [coerce(target._leaf, entry, function)[0] for entry in entries]
    if len(values) == 1:
        values *= len(positions)
    if len(positions) == 1:
        positions, mask = positions * len(values), mask * len(values)
    if len(values) != len(positions):
        raise SizeError(f"{function}(): operands have incompatible sizes! (sizes: {len(values)}, {len(positions)})")
    for node, position, enabled in zip(values, positions, mask, strict=True):
        if enabled:
            old = _node_at(nodes, position, function)
            nodes[position] = node if op is ReduceOp.Identity else as_literal(COMBINE[op](old, node))
    return nodes


def as_literal(node: Node) -> Node:
    """A node of one element as a literal."""
    return node if node.kind == KIND["literal"] else literal(node.type, read_element(node, 0))
