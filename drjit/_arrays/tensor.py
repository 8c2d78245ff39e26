"""Tensors: arrays of any shape, held as one flat array in C order and a shape.

The contract with the factory stands in :mod:`drjit._base.types`. Operators and functions broadcast like NumPy: operands
of one shape, and those with a single element, take part as they are; others are read through computed indices
(:mod:`drjit._access.slicing`). Flat arrays count as tensors of one dimension, those with a single element as scalars.

Slots
-----
``_n``
    The node of the flat array.
``_s``
    The shape.
``_v``
    A weak reference to the flat array that ``.array`` returned; not set as long as nobody asked for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import drjit_core as core
from drjit_core import KIND, Node, cast, evaluate, followed, primal, size_for_program

from .._access.elements import tensor_get, tensor_set
from .._access.keys import flatten, require_assignable
from .._access.slicing import contiguous_strides
from .._access.store import store, store_same
from .._base.array import ArrayBase
from .._base.errors import ArgumentError, Site, SizeError, describe
from .._base.handle import add_view, view_at
from .._base.nodes import broadcast, elements_of, values_at
from .._base.types import FLOAT32, base_class, retype
from .._base.values import is_ndarray, plain_scalar
from .._promotion.plans import Keys, Operation, Plan
from .._promotion.promote import (
    brought,
    convert,
    flat_of_scalars,
    scalar_literal,
    wrap,
)
from .bases import TensorHandle, reshaped
from .broadcasting import Shape, concatenate, make, tensor_plan, transposed
from .components import without_components
from .construction import flat_node, ndarray_node, with_derivatives
from .dlpack import from_dlpack, speaks
from .format import format_element, shown_positions
from .operators import integer_power, matmul, positive, power, reverse_matmul, reverse_power

__all__ = ["TensorBase"]

Operator = Callable[[Any, Any], Any]
_DUAL = KIND["dual"]


# --- operators -------------------------------------------------------------------------------------------------------


def _inplace(operator: Operator, method: str) -> Operator:
    """The in-place form of an operator, which changes a tensor's elements but not its shape."""

    def assign(self: Any, other: Any) -> Any:
        result = operator(self, other)
        if result.__class__ is not self.__class__:
            return result
        if result._s != self._s:
            raise reshaped(self, result, method)
        self._assign(result)
        return self

    return assign


def _power_plan(keys: Keys) -> Plan:
    """The plan of a tensor to the power of an integral Python number."""
    base, number = keys
    cls = base if base._kind == "f" or number is not float else retype(base, FLOAT32)

    def raised(tensor: Any, exponent: Any) -> Any:
        if exponent < 0 and base._kind != "f":
            raise ArgumentError(f"{base._name}.__pow__(): integer arrays cannot be raised to the negative power "
                                f"{exponent}.")
        return make(cls, integer_power(cast(tensor._n, cls._type), int(exponent)), tensor._s)

    return raised


# --- construction ----------------------------------------------------------------------------------------------------


def _holds_arrays(value: Any) -> bool:
    """Whether a nested sequence has arrays among its entries."""
    if isinstance(value, (list, tuple)):
        return any(map(_holds_arrays, value))
    return isinstance(value, ArrayBase) or is_ndarray(value) and value.ndim > 0


def _from_sequence(cls: type[ArrayBase], value: Any) -> tuple[Node, Shape]:
    function = f"{cls._name}.__init__"
    if not _holds_arrays(value):
        flat: list[Any] = []
        shape = flatten(function, value, flat)
        return flat_node(cls._leaf, flat), shape
    parts: list[Any] = [cls(entry) for entry in value]
    inner = parts[0]._s
    if any(part._s != inner for part in parts):
        raise ArgumentError(f"{function}(): the sequence is ragged: its entries have the shapes "
                            f"{' and '.join(dict.fromkeys(str(part._s) for part in parts))}.")
    return concatenate([part._n for part in parts]), (len(parts), *inner)


def _from_array(cls: type[ArrayBase], value: Any) -> tuple[Node, Shape]:
    """The node, in C order, and the shape of any Dr.Jit array."""
    value = brought(cls, value, f"{cls._name}.__init__")
    if value._special == "tensor":
        return cast(value._n, cls._type), value._s
    if not value._depth:
        return cast(value._n, cls._type), (size_for_program(value._n),)
    shape = value.shape
    if not value._dynamic:
        return flat_of_scalars(cls, value), shape
    nodes = [cast(node, cls._type) for node in value._nodes()]
    if not nodes:
        return core.invalid(cls._type), shape
    return concatenate([broadcast(node, shape[-1]) if node.size else node for node in nodes]), shape


def _convert(cls: type[ArrayBase], value: Any) -> tuple[Node, Shape]:
    """The node and the shape of a tensor made from a value."""
    function = f"{cls._name}.__init__"
    if isinstance(value, ArrayBase):
        return _from_array(cls, value)
    number = plain_scalar(value)
    if number is not None:
        return scalar_literal(cls, number, function), ()
    if isinstance(value, (list, tuple, range)):
        return _from_sequence(cls, value)
    if is_ndarray(value):
        return ndarray_node(cls, value), value.shape
    if isinstance(value, (str, bytes, dict)) or value is None:
        raise ArgumentError(f"{function}(): could not initialize a tensor with a value of type '{describe(value)}'.")
    if hasattr(value.__class__, "__drjit_tensor__"):
        elements, shape = value.__drjit_tensor__(cls)
        return core.cast(cls._leaf(elements)._nodes()[0], cls._type), shape
    if speaks(value):
        own = with_derivatives(cls, value)
        if own is not None:
            return _from_array(cls, own)
        found = from_dlpack(value, cls, whole=True)
        return concatenate(found.nodes), found.shape
    try:
        view = memoryview(value)
    except TypeError:
        pass
    else:
        if view.ndim == 1:
            return flat_node(cls._leaf, value), (len(view),)
        import numpy

        return _convert(cls, numpy.asarray(view))
    if isinstance(value, Iterable):
        return _from_sequence(cls, list(value))
    raise ArgumentError(f"{function}(): could not initialize a tensor from a value of type '{describe(value)}'.")


def _check_shape(function: str, shape: Any) -> Shape:
    if not isinstance(shape, tuple) or not all(entry.__class__ is int and entry >= 0 for entry in shape):
        try:
            shape = tuple(int(entry) for entry in shape if not isinstance(entry, (bool, float)) or 1 // 0)
        except (TypeError, ValueError, ZeroDivisionError):
            shape = (-1,)
        if any(entry < 0 for entry in shape):
            raise TypeError(f"{function}(): 'shape' must be a tuple of non-negative ints.")
    return shape  # type: ignore[no-any-return]


@base_class("tensor")
class TensorBase(TensorHandle, ArrayBase):
    """Behaviour of ``TensorXf``, ``TensorXi`` …"""

    __slots__ = ()

    def __init__(self, array: Any = (), shape: Any = None, flip_axes: bool = False) -> None:
        cls = self.__class__
        if array.__class__ is cls and shape is None and not flip_axes:  # a copy
            self._o = None
            self._n = array._n
            self._s = array._s
            if self._n.kind == _DUAL:
                self._n, = followed([self._n])
            return
        function = f"{cls._name}.__init__"
        if not cls._dynamic:
            raise NotImplementedError(f"{function}(): tensors of the scalar backend are not available yet; use those "
                                      "of drjit.llvm.")
        self._o = None
        node, found = _convert(cls, array)
        if flip_axes:
            node, found = transposed(node, found, tuple(range(len(found)))[::-1])
        if shape is not None:
            wanted = _check_shape(function, shape)
            if len(found) > 1 and found != wanted and not (isinstance(array, ArrayBase) and array._special == "tensor"):
                raise ArgumentError(f"{function}(): 'array' must be flat where 'shape' is given (it has the shape "
                                    f"{found}, and 'shape' is {wanted}).")
            if math.prod(wanted) != math.prod(found):
                raise ArgumentError(f"{function}(): the input has the wrong number of entries (got {math.prod(found)}, "
                                    f"expected {math.prod(wanted)} for the shape {wanted}).")
            found = wanted
        node, = followed([node]) if cls._record.diff else [primal(node)]
        self._n, self._s = node, tuple(map(int, found))

    def _nodes(self) -> list[Node]:
        return [self._n]

    def _static_shape(self) -> Shape:
        return self._s[:-1]

    def _width(self, function: str) -> int:
        return size_for_program(self._n)

    _replace = store_same

    def _assign(self, other: Any) -> None:
        if other._s != self._s:
            raise SizeError(f"{self._name}: a value of the shape {other._s} cannot replace the elements of a tensor of "
                            f"the shape {self._s} in place.")
        store(self, (other._n,))

    # --- properties --------------------------------------------------------------------------------------------------

    @property
    def array(self) -> Any:
        """The flat array that holds the elements in C order: a live reference, changing it changes the tensor."""
        view = view_at(self, 0)
        if view is None:
            view = wrap(self._leaf, [self._n]) if self._plain is self._leaf else wrap(self._plain, elements_of(self._n))
            add_view(self, 0, view, 0)
        return view

    @array.setter
    def array(self, value: Any) -> None:
        function = f"{self._name}.array"
        require_assignable(self, value, function)
        node = value._nodes()[0] if isinstance(value, self._leaf) else _convert(type(self), value)[0]
        count = math.prod(self._s)
        if node.size not in (1, count):
            raise SizeError(f"{function}: cannot assign {node.size} elements to a tensor of the shape {self._s}.")
        store(self, (broadcast(node, count) if count else self._n,))

    @property
    def shape(self) -> Shape:
        """Sizes of all dimensions."""
        return self._s

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self._s)

    @property
    def T(self) -> Any:
        """Transpose of a tensor with two dimensions; others raise a ``TypeError``, see ``mT``."""
        if len(self._s) != 2:
            raise TypeError(f"{self._name}.T: only tensors with two dimensions have a transpose (this one has "
                            f"{len(self._s)}); to transpose the last two dimensions, use '.mT'.")
        return self.mT

    @property
    def mT(self) -> Any:
        """A copy with the last two dimensions swapped; raises a ``TypeError`` if there are fewer than two."""
        rank = len(self._s)
        if rank < 2:
            raise TypeError(f"{self._name}.mT: at least two dimensions are needed (this tensor has {rank}).")
        return make(type(self), *transposed(self._n, self._s, (*range(rank - 2), rank - 1, rank - 2)))

    # --- elements ----------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return self._s[0] if self._s else 0

    def __iter__(self) -> Iterator[Any]:
        return (self[k] for k in range(len(self)))

    def __getitem__(self, key: Any) -> Any:
        return tensor_get(self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        tensor_set(self, key, value)

    # --- text --------------------------------------------------------------------------------------------------------

    def _format(self, limit: int) -> str:
        if self._n.scope:
            return f"[symbolic array of type {self._name}]"
        if self._n.size:
            evaluate([self._n])
        strides, shown = contiguous_strides(self._s), [shown_positions(size, limit) for size in self._s]
        bases = [0]
        for positions, stride in zip(shown, strides, strict=True):
            bases = [base + k * stride for base in bases for k in positions if k is not None]
        values = values_at(self._n, bases)

        def text(axis: int, base: int) -> str:
            if axis == len(self._s):
                return format_element(values[base])
            entries = [f".. {self._s[axis] - 6} skipped .." if k is None else text(axis + 1, base + k * strides[axis])
                       for k in shown[axis]]
            innermost = axis == len(self._s) - 1
            return "[" + (", " if innermost else ",\n" + " " * (axis + 1)).join(entries) + "]"

        return text(0, 0)

    # --- operators ---------------------------------------------------------------------------------------------------

    @classmethod
    def _convert(cls, value: Any, function: Site) -> list[Node]:
        return convert(cls, value, function)

    @classmethod
    def _plan(cls, operation: Operation, site: Site, keys: Keys) -> Plan | None:
        return _power_plan(keys) if operation.name == "integer_power" else tensor_plan(operation, site, keys)

    __pos__ = positive
    __pow__, __rpow__, __ipow__ = power, reverse_power, _inplace(power, "__pow__")
    __matmul__, __rmatmul__, __imatmul__ = matmul, reverse_matmul, _inplace(matmul, "__matmul__")


without_components(TensorBase)
