"""The automatic backend: what the modules ``drjit.auto`` and ``drjit.auto.ad`` stand for."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import Any, Literal

from drjit_core import JitBackend, has_backend

from .._base.errors import ArgumentError

__all__ = ["module", "set_backend"]

_NAMES = {"scalar": JitBackend.Invalid, "llvm": JitBackend.LLVM, "cuda": JitBackend.CUDA}
_chosen: JitBackend | None = None


def set_backend(arg: JitBackend | Literal["cuda", "llvm", "scalar"], /) -> None:
    """Let ``drjit.auto`` and ``drjit.auto.ad`` stand for a backend: ``'cuda'``, ``'llvm'``, ``'scalar'``.

    A ``JitBackend`` does as well. Names that a program has imported from there before stay what they are.
    """
    global _chosen
    backend = _NAMES.get(arg) if isinstance(arg, str) else arg
    if not isinstance(backend, JitBackend):
        raise ArgumentError(f"drjit.set_backend(): the argument must be 'cuda', 'llvm', 'scalar', or a "
                            f"drjit.JitBackend, found {arg!r}.")
    _chosen = backend


def module(diff: bool) -> ModuleType:
    """The package that ``drjit.auto`` stands for: the chosen one, or the best that is available."""
    backend = _chosen
    if backend is None:
        backend = next((b for b in (JitBackend.CUDA, JitBackend.LLVM) if has_backend(b)), JitBackend.Invalid)
    if backend is JitBackend.Invalid:
        return importlib.import_module("drjit.scalar")
    return importlib.import_module(f"drjit.{backend.name.lower()}{'.ad' if diff else ''}")


def get(name: str, diff: bool) -> Any:
    """An attribute of that package."""
    if name.startswith("__") and name != "__all__":
        raise AttributeError(f"module 'drjit.auto{'.ad' if diff else ''}' has no attribute {name!r}")
    return getattr(module(diff), name)
