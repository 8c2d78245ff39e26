"""The automatic backend: what the modules ``drjit.auto`` and ``drjit.auto.ad`` stand for."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any, Literal

from drjit_core import JitBackend

from .._base import backends
from .._base.errors import ArgumentError

__all__ = ["module", "set_backend"]

_NAMES = {"scalar": JitBackend.Invalid, "llvm": JitBackend.LLVM, "cuda": JitBackend.CUDA}


def set_backend(arg: JitBackend | Literal["cuda", "llvm", "scalar"], /) -> None:
    """Let ``drjit.auto`` and ``drjit.auto.ad`` stand for a backend: ``'cuda'``, ``'llvm'``, ``'scalar'``.

    A :class:`JitBackend` does as well. Names that a program has imported from there before stay what they are.

    >>> dr.set_backend("scalar")
    >>> dr.auto.Array3f
    <class 'drjit.scalar.Array3f'>
    >>> dr.set_backend("llvm")
    >>> dr.auto.Array3f
    <class 'drjit.llvm.Array3f'>
    """
    backend = _NAMES.get(arg) if isinstance(arg, str) else arg
    if not isinstance(backend, JitBackend):
        raise ArgumentError(f"drjit.set_backend(): the argument must be 'cuda', 'llvm', 'scalar', or a "
                            f"drjit.JitBackend, found {arg!r}.")
    backends.choose(backend)


def module(diff: bool) -> ModuleType:
    """The package that ``drjit.auto`` stands for: the chosen one, or the best that is available."""
    backend = backends.backend()
    if backend is JitBackend.Invalid:
        return importlib.import_module("drjit.scalar")
    return importlib.import_module(f"drjit.{backend.name.lower()}{'.ad' if diff else ''}")


def get(name: str, diff: bool) -> Any:
    """An attribute of that package."""
    if name.startswith("__") and name != "__all__":
        raise AttributeError(f"module 'drjit.auto{'.ad' if diff else ''}' has no attribute {name!r}")
    return getattr(module(diff), name)
