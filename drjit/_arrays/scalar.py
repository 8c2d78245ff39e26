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
from collections.abc import Callable
from typing import Any, TypeVar

from drjit_core import Node, VarState

from .._base.array import ArrayBase
from .._base.backends import computing
from .._base.errors import SizeError
from .._base.nodes import as_literal, number_of
from .._base.types import SCALAR, base_class, relative
from .._promotion.promote import coerce, wrap
from .construction import entry

_Function = TypeVar("_Function", bound=Callable[..., Any])

__all__ = ["ScalarMixin", "rounding"]


@base_class("scalar")
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
        return bool(number_of(self._c[0]))


def rounding(function: _Function) -> _Function:
    """A function of array components that rounds alike on all backends.

    A component of a scalar array is a Python number, with which it would compute in double precision. It is hence given
    arrays of a package that compiles with the same literals, which fold as it traces them.
    """
    def lift(value: Any) -> Any:
        if isinstance(value, type):
            return relative(value, computing(), False)
        return wrap(relative(type(value), computing(), False), list(value._nodes()))

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
