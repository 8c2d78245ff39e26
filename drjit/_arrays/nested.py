"""Nested arrays: static (or, in ``ArrayX*``, dynamic) leading dimensions of flat arrays.

The components of an array of any depth are one row-major list of nodes. ``v.x`` and ``v[0]`` are live: changing such a
component in place changes ``v``, and it shows what is assigned to ``v`` later. For that it refers back to ``v``, which
knows, weakly, the components that somebody holds.
"""

from __future__ import annotations

import itertools
from typing import Any

from drjit_core import Node

from .._access.elements import assign_component, nested_get, nested_set
from .._access.store import store, store_same
from .._base.array import ArrayBase
from .._base.types import base_class
from .._promotion.promote import coerce
from . import operators as make
from .bases import NestedHandle, component_of
from .components import component, missing_attribute, swizzle, swizzled
from .construction import flipped, nested_nodes

__all__ = ["NestedArray"]



@base_class("nested")
class NestedArray(NestedHandle, ArrayBase):
    """Behaviour of ``Array3f``, ``ArrayXi``, ``Array22f`` …"""

    __slots__ = ()

    @classmethod
    def _construct(cls, args: tuple[Any, ...]) -> list[Node]:
        """The component nodes of an instance made from the arguments of the constructor."""
        return nested_nodes(cls, args)

    @classmethod
    def _with_options(cls, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """The arguments of the constructor, of which its options ask something else."""
        function = f"{cls._name}.__init__"
        unknown = kwargs.keys() - {"flip_axes"}
        if unknown:
            raise TypeError(f"{function}(): unknown keyword argument {unknown.pop()!r}.")
        return flipped(cls, args) if kwargs["flip_axes"] and len(args) == 1 else args

    def _nodes(self) -> list[Node]:
        return self._c

    def _static_shape(self) -> tuple[int, ...]:
        shape = self._record.shape
        if self._count >= 0:
            return shape
        assert self._depth == 1, "dynamic sizes are supported in one leading dimension"
        return (len(self._c),)

    _replace = store_same

    def _assign(self, other: Any) -> None:
        store(self, other._c)

    # --- components --------------------------------------------------------------------------------------------------

    def _component(self, position: int) -> Any:
        """The component at a position that exists, referring back to this array."""
        return component_of(self, position)

    _set_component = assign_component

    def _component_nodes(self, position: int, value: Any, function: str) -> list[Node]:
        """What is to be stored for a value that is assigned to a component."""
        kind: Any = self._value
        return coerce(kind, value, function)

    def __getitem__(self, key: Any) -> Any:
        return nested_get(self, key)

    _get = __getitem__
    del __getitem__

    def __setitem__(self, key: Any, value: Any) -> None:
        nested_set(self, key, value)

    _set = __setitem__
    del __setitem__

    def __getattr__(self, name: str) -> Any:
        # Swizzles of more than four components; shorter ones are properties.
        if len(name) > 4 and not name.strip("xyzw") and self._size > max(map("xyzw".index, name)) \
                and self._special not in ("matrix", "complex"):
            return swizzled(self, ["xyzw".index(letter) for letter in name])
        raise missing_attribute(self, name)

    # --- operators ---------------------------------------------------------------------------------------------------

    __pos__ = make.positive
    __pow__, __rpow__, __ipow__ = make.power, make.reverse_power, make.power_inplace
    __matmul__, __rmatmul__, __imatmul__ = make.matmul, make.reverse_matmul, make.matmul_inplace


for _length in (2, 3, 4):
    for _letters in itertools.product("xyzw", repeat=_length):
        setattr(NestedArray, "".join(_letters), swizzle("".join(_letters)))
for _letter in "xyzw":
    setattr(NestedArray, _letter, component(_letter))
del _length, _letters, _letter
