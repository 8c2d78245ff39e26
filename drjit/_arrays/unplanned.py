"""Operators whose operands are not those that there is a plan for: what they become, and what is wrong with them."""

from __future__ import annotations

from typing import Any

from drjit_core import Extent

from .._base.array import ArrayBase
from .._base.errors import ArgumentError, CallSite, called, describe, translate
from .._base.values import is_ndarray, plain_scalar
from .._promotion.operations import method_of
from .._promotion.plans import Operation, apply

__all__ = ["failed", "is_foreign", "mixed"]


def is_foreign(self: Any, other: Any, method: str) -> bool:
    """Whether an operand is none of ours, but may know what to do; raises if it certainly does not."""
    if isinstance(other, (ArrayBase, Extent, list, tuple, range, complex)) or plain_scalar(other) is not None \
            or is_ndarray(other) or type(other).__module__ == "numpy":
        return False
    if type(other).__module__ != "builtins":
        return True
    raise ArgumentError(f"{called(CallSite(method, type(self)))}: unsupported operand of type '{describe(other)}' "
                        "(expected a Dr.Jit array or a type that can be converted into one).")


def mixed(self: Any, other: Any, operation: Operation, reverse: bool = False) -> Any:
    """An operator with operands for which there is no plan yet, or that are no arrays and numbers."""
    method = method_of(operation, reverse)
    if is_foreign(self, other, method):
        return NotImplemented
    return apply(operation, CallSite(method, type(self)), (other, self) if reverse else (self, other))


def failed(error: Exception, self: Any, other: Any, operation: Operation, reverse: bool = False) -> Exception:
    """The exception for the user of an operator."""
    site = CallSite(method_of(operation, reverse), type(self))
    return translate(error, site, (other, self) if reverse else (self, other))
