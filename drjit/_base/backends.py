"""Which backend ``drjit.auto`` stands for, and what arrays of NumPy become where no other array says it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from drjit_core import JitBackend, has_backend

from .array import ArrayBase
from .types import SCALAR, Record, lookup
from .values import scalar_type_of

__all__ = ["array_type_of", "backend", "choose", "computing"]

_chosen: JitBackend | None = None


def choose(chosen: JitBackend) -> None:
    """Let ``drjit.auto`` stand for a backend."""
    global _chosen
    _chosen = chosen


def backend() -> JitBackend:
    """The chosen backend, or the best that is available."""
    if _chosen is not None:
        return _chosen
    return next((b for b in (JitBackend.CUDA, JitBackend.LLVM) if has_backend(b)), JitBackend.Invalid)


def computing(values: Iterable[Any] = ()) -> JitBackend:
    """The backend that computes for arrays of Python numbers: that of arrays among some values, else the best one."""
    for value in values:
        if isinstance(value, ArrayBase) and value._record.backend is not SCALAR:
            return value._record.backend
    chosen = backend()
    return chosen if chosen is not SCALAR else JitBackend.LLVM


def array_type_of(value: Any, like: type[ArrayBase] | None = None) -> type[ArrayBase] | None:
    """The type that a NumPy array becomes: flat if it has one dimension, else a tensor; over its own scalar type.

    It is of the package of another array type, or else of the one that ``drjit.auto`` stands for. ``None`` if no array
    type has such elements.
    """
    scalar = scalar_type_of(value)
    if scalar is None:
        return None
    where, diff = (backend(), False) if like is None else (like._record.backend, like._record.diff)
    if value.ndim != 1:
        return lookup(Record(where, scalar, "tensor", (), diff))
    return lookup(Record(where, scalar, "array", (-1,) if where is JitBackend.Invalid else (), diff))
