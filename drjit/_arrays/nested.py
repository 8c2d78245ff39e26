"""Nested arrays: static (or, in ``ArrayX*``, dynamic) leading dimensions of flat arrays.

The components of an array of any depth are one row-major list of nodes. ``v.x`` and ``v[0]`` are live: changing such a
component in place changes ``v``, and it shows what is assigned to ``v`` later. For that it refers back to ``v``, which
knows, weakly, the components that somebody holds.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Iterator
from typing import Any

from drjit_core import Node, ops

from .._access.elements import nested_get, nested_set
from .._base.array import ArrayBase
from .._base.types import base_class, reshape
from .._promotion import operations
from .._promotion.promote import coerce, refuse_floats, wrap
from . import operators as make
from .construction import nested_nodes

__all__ = ["NestedArray"]

_new = object.__new__


@base_class("nested")
class NestedArray(ArrayBase):
    """Behaviour of ``Array3f``, ``ArrayXi``, ``Array22f`` …"""

    __slots__ = ("__weakref__", "_c", "_o", "_v")

    _c: list[Node]
    #: Components that somebody may hold, by position; not set as long as none has been asked for.
    _v: dict[int, weakref.ref[Any]]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if kwargs:
            raise TypeError(f"{self._name}.__init__(): unknown keyword argument {next(iter(kwargs))!r}.")
        self._o = None
        self._c = self._construct(args)

    @classmethod
    def _construct(cls, args: tuple[Any, ...]) -> list[Node]:
        """The component nodes of an instance made from the arguments of the constructor."""
        return nested_nodes(cls, args)

    def _nodes(self) -> list[Node]:
        return self._c

    def _static_shape(self) -> tuple[int, ...]:
        shape = self._record.shape
        if self._count >= 0:
            return shape
        assert self._depth == 1, "dynamic sizes are supported in one leading dimension"
        return (len(self._c),)

    def _replace(self, nodes: list[Node]) -> None:
        self._c = nodes
        self._update_components()
        if self._o is not None:
            owner, position = self._o
            owner._store(position, nodes)

    def _assign(self, other: Any) -> None:
        self._replace(list(other._c))

    def _store(self, position: int, nodes: list[Node]) -> None:
        """Replace some components in place."""
        self._c[position:position + len(nodes)] = nodes
        self._update_components()
        if self._o is not None:
            owner, offset = self._o
            owner._store(offset + position, nodes)

    def _update_components(self) -> None:
        """Tell the components that somebody holds what they are now."""
        try:
            views = self._v
        except AttributeError:
            return
        for position, reference in views.items():
            view = reference()
            if view is None:
                continue
            if view._depth:
                count = len(view._c)
                view._c = self._c[position * count:(position + 1) * count]
                view._update_components()
            else:
                view._n = self._c[position]

    # --- components --------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return self._size if self._size >= 0 else len(self._c)

    def _component(self, position: int) -> Any:
        """The component at a position that exists, referring back to this array."""
        try:
            views = self._v
        except AttributeError:
            views = self._v = {}
        else:
            reference = views.get(position)
            result = reference() if reference is not None else None
            if result is not None:
                return result
        value: Any = self._value
        result = _new(value)
        if value._depth:
            count = value._count
            result._c = self._c[position * count:(position + 1) * count]
            result._o = (self, position * count)
        else:
            result._n = self._c[position]
            result._o = (self, position)
        views[position] = weakref.ref(result)
        return result

    def _set_component(self, position: int, value: Any, function: str) -> None:
        """Assign to the component at a position that exists."""
        if value.__class__ is float:
            refuse_floats(self, value, function)
        nodes = self._component_nodes(position, value, function)
        self._store(position * len(nodes), nodes)

    def _component_nodes(self, position: int, value: Any, function: str) -> list[Node]:
        """What is to be stored for a value that is assigned to a component."""
        kind: Any = self._value
        return coerce(kind, value, function)

    def __iter__(self) -> Iterator[Any]:
        return map(self._component, range(len(self)))

    def __getitem__(self, key: Any) -> Any:
        if key.__class__ is int and 0 <= key < len(self):
            return self._component(key)
        return nested_get(self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        nested_set(self, key, value)

    def __getattr__(self, name: str) -> Any:
        # Swizzles of more than four components; shorter ones are properties.
        if len(name) > 4 and not name.strip("xyzw") and self._size > max(map("xyzw".index, name)) \
                and self._special not in ("matrix", "complex"):
            return _swizzle(self, ["xyzw".index(letter) for letter in name])
        raise AttributeError(f"{self._name!r} object has no attribute {name!r}", name=name, obj=self)

    # --- operators ---------------------------------------------------------------------------------------------------

    __add__, __radd__, __iadd__ = make.nested_operators(operations.ADD)
    __sub__, __rsub__, __isub__ = make.nested_operators(operations.SUB)
    __mul__, __rmul__, __imul__ = make.nested_operators(operations.MUL)
    __truediv__, __rtruediv__, __itruediv__ = make.nested_operators(operations.DIV)
    __floordiv__, __rfloordiv__, __ifloordiv__ = make.nested_operators(operations.FLOORDIV)
    __mod__, __rmod__, __imod__ = make.nested_operators(operations.MOD)
    __lshift__, __rlshift__, __ilshift__ = make.nested_operators(operations.SHL)
    __rshift__, __rrshift__, __irshift__ = make.nested_operators(operations.SHR)
    __or__, __ror__, __ior__ = make.nested_operators(operations.OR)
    __xor__, __rxor__, __ixor__ = make.nested_operators(operations.XOR)
    __and__, __rand__, __iand__ = make.nested_operators(operations.AND)
    __pow__, __rpow__, __ipow__ = make.power, make.reverse_power, make.power_inplace
    __matmul__, __rmatmul__, __imatmul__ = make.matmul, make.reverse_matmul, make.matmul_inplace

    __eq__ = make.nested_comparison(operations.EQ)
    __ne__ = make.nested_comparison(operations.NEQ)
    __lt__ = make.nested_comparison(operations.LT)
    __le__ = make.nested_comparison(operations.LE)
    __gt__ = make.nested_comparison(operations.GT)
    __ge__ = make.nested_comparison(operations.GE)
    __hash__ = object.__hash__

    __neg__ = make.nested_unary("neg", ops.neg)
    __invert__ = make.nested_unary("invert", ops.inv)
    __abs__ = make.nested_unary("abs", make.absolute)


# --- .x, .xy, .zyx … -------------------------------------------------------------------------------------------------


def _swizzle(array: NestedArray, positions: list[int]) -> Any:
    """A new array of some components, in a given order."""
    count = len(array._c) // array._size
    nodes = [node for position in positions for node in array._c[position * count:(position + 1) * count]]
    return wrap(reshape(type(array), (len(positions), *array._record.shape[1:])), nodes)


def _component_property(name: str) -> property:
    """``.x`` and its like: a live reference, and assignment."""
    position = "xyzw".index(name)

    def get(self: NestedArray) -> Any:
        if self._size <= position:
            raise RuntimeError(f"{self._name} does not have a '{name}' component.")
        return self._component(position)

    def set_(self: NestedArray, value: Any) -> None:
        if self._size <= position:
            raise RuntimeError(f"{self._name} does not have a '{name}' component.")
        self._set_component(position, value, f"{self._name}.{name}")

    return property(get, set_, doc=f"Component {position} of arrays with a static size above that; a live reference.")


def _swizzle_property(name: str) -> property:
    """``.xy`` and its like: a copy of several components, and assignment to them."""
    positions = ["xyzw".index(letter) for letter in name]
    last = max(positions)

    def check(self: NestedArray) -> None:
        if self._size <= last or self._special in ("matrix", "complex"):
            raise RuntimeError(f"{self._name} does not have a '{'xyzw'[last]}' component.")

    def get(self: NestedArray) -> Any:
        check(self)
        return _swizzle(self, positions)

    def set_(self: NestedArray, value: Any) -> None:
        check(self)
        cls = reshape(type(self), (len(positions), *self._record.shape[1:]))
        nodes = coerce(cls, value, f"{self._name}.{name}")
        count = len(nodes) // len(positions)
        for k, position in enumerate(positions):
            self._store(position * count, nodes[k * count:(k + 1) * count])

    return property(get, set_, doc=f"The components {', '.join(name)} as a new array.")


for _length in (2, 3, 4):
    for _letters in itertools.product("xyzw", repeat=_length):
        setattr(NestedArray, "".join(_letters), _swizzle_property("".join(_letters)))
for _letter in "xyzw":
    setattr(NestedArray, _letter, _component_property(_letter))
del _length, _letters, _letter
