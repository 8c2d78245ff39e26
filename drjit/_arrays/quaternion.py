"""Quaternions: four components, of i, j, k and the real part.

The arithmetic is in :mod:`drjit._rules.quaternion`, the operators are in :mod:`drjit._arrays.special`; the contract
with the factory stands in :mod:`drjit._base.types`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from drjit_core import Node, ops

from .._access.store import store
from .._base.types import base_class, reshape
from .._promotion.promote import coerce, wrap
from .._rules import quaternion as rules
from .format import hypercomplex_text
from .special import SpecialArray

__all__ = ["QuaternionBase"]


@base_class("quaternion")
class QuaternionBase(SpecialArray):
    """Behaviour of the ``quaternion`` types."""

    __slots__ = ()

    _rules: ClassVar[dict[str, Any]] = {
        "add": lambda a, b: list(map(ops.add, a, b)), "sub": lambda a, b: list(map(ops.sub, a, b)),
        "mul": rules.mul, "div": rules.divide, "power": rules.power, "fma": rules.fma,
    }
    _functions: ClassVar[dict[str, Any]] = {
        "abs": rules.absolute, "sqrt": rules.sqrt, "rsqrt": rules.rsqrt, "rcp": rules.rcp, "exp": rules.exp,
        "exp2": rules.exp2, "log": rules.log, "log2": rules.log2, "conj": rules.conjugate,
    }

    @classmethod
    def _unit(cls) -> Sequence[int]:
        return (3,)

    @classmethod
    def _inverse(cls, nodes: list[Node]) -> list[Node]:
        return rules.rcp(nodes)  # type: ignore[no-any-return]

    def _format(self, limit: int) -> str:
        return hypercomplex_text(self, ((0, "i"), (1, "j"), (2, "k"), (3, "")), limit)

    @property
    def real(self) -> Any:
        """The real part: a live reference, and assignment."""
        return self._component(3)

    @real.setter
    def real(self, value: Any) -> None:
        self._set_component(3, value, f"{self._name}.real")

    @property
    def imag(self) -> Any:
        """The factors of i, j and k as a new 3D array."""
        return wrap(reshape(type(self), (3,)), self._c[:3])

    @imag.setter
    def imag(self, value: Any) -> None:
        store(self, coerce(reshape(type(self), (3,)), value, f"{self._name}.imag"), 0)
