"""Type variables of the public signatures, for annotations in programs that are generic over array types.

What they stand for says :class:`drjit.ArrayBase` in its stub (``drjit/__init__.pyi``), where type checkers find them;
at runtime they have no effect.
"""

from __future__ import annotations

from typing import Any, TypeAlias, TypeVar, TypeVarTuple

from .array import ArrayBase

__all__ = ["AnyArray", "ArrayT", "MaskT", "PlainT", "RedT", "SelfCpT", "SelfT", "T", "Ts", "ValCpT", "ValT"]

#: Any type.
T = TypeVar("T")
#: Several types.
Ts = TypeVarTuple("Ts")
#: An array of any type.
AnyArray: TypeAlias = ArrayBase[Any, Any, Any, Any, Any, Any, Any]  # type: ignore[type-arg]
#: An array type: ``def twice(x: dr.ArrayT) -> dr.ArrayT``.
ArrayT = TypeVar("ArrayT", bound=AnyArray)

# The parameters of ``ArrayBase``.
SelfT, SelfCpT = TypeVar("SelfT"), TypeVar("SelfCpT")
ValT, ValCpT = TypeVar("ValT"), TypeVar("ValCpT")
RedT, PlainT, MaskT = TypeVar("RedT"), TypeVar("PlainT"), TypeVar("MaskT")
