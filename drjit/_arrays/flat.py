"""Flat arrays: one dynamic dimension, one node."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from drjit_core import Extent, Node, index_of, invalid

from .._access.elements import flat_get, flat_set
from .._access.store import store, store_same
from .._base.array import ArrayBase
from .._base.nodes import values
from .._base.types import base_class
from .._promotion.promote import bound_number, scalar_literal
from . import operators as make
from .bases import FlatHandle
from .components import without_components
from .construction import flat_node

__all__ = ["FlatArray"]

_SCALARS = (float, int, bool)


@base_class("flat")
class FlatArray(FlatHandle, ArrayBase):
    """Behaviour of ``Float``, ``Int``, ``Bool`` …"""

    __slots__ = ()

    def _construct(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Make an instance of anything that the constructor accepts."""
        self._o = None
        cls = self.__class__
        if kwargs:
            raise TypeError(f"{cls._name}.__init__(): unknown keyword argument {next(iter(kwargs))!r}.")
        if len(args) == 1:
            value = args[0]
            kind = value.__class__
            if kind is cls:
                self._n = value._n
            elif kind in _SCALARS:
                self._n = scalar_literal(cls, value, f"{cls._name}.__init__")
            elif kind is Extent:
                self._n = bound_number(cls, value, f"{cls._name}.__init__")
            else:
                self._n = flat_node(cls, value)
        elif not args:
            self._n = invalid(cls._type)
        else:
            self._n = flat_node(cls, args)

    def _nodes(self) -> list[Node]:
        return [self._n]

    def _static_shape(self) -> tuple[int, ...]:
        return ()

    _replace = store_same

    def _assign(self, other: Any) -> None:
        store(self, (other._n,))

    @property
    def index(self) -> int:
        """Index of the variable in the computation graph; zero for an empty array."""
        return index_of(self._n) if self._n.size else 0

    def __iter__(self) -> Iterator[Any]:
        return iter(values(self._n))

    def __getitem__(self, key: Any) -> Any:  # by its name, messages know where a symbolic array was read
        return flat_get(self, key)

    _get = __getitem__
    del __getitem__

    def __setitem__(self, key: Any, value: Any) -> None:
        flat_set(self, key, value)

    __pos__ = make.positive
    __pow__, __rpow__, __ipow__ = make.power, make.reverse_power, make.power_inplace
    __matmul__, __rmatmul__, __imatmul__ = make.matmul, make.reverse_matmul, make.matmul_inplace


without_components(FlatArray)
