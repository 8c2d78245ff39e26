"""Which backends can run here, and if not, why."""

from __future__ import annotations

from functools import cache

from ..types import JitBackend

__all__ = ["backend_report", "has_backend", "llvm_version"]


@cache
def _llvm() -> tuple[bool, str]:
    try:
        from ..llvm import jit

        cpu, version = jit.host_cpu()[0], ".".join(map(str, jit.version()))
        return True, f"LLVM {version} through llvmlite, {cpu}, packets of {jit.lanes()} elements"
    except (ImportError, OSError, RuntimeError, AttributeError) as error:
        return False, f"{error} (install it with: pip install llvmlite)"


def llvm_version() -> tuple[int, int, int]:
    """Version of LLVM."""
    from ..llvm import jit

    return jit.version()


def has_backend(backend: JitBackend, /) -> bool:
    """Whether a backend can compile and run kernels on this machine."""
    if not isinstance(backend, JitBackend):
        raise TypeError(f"drjit.has_backend(): expected a drjit.JitBackend, found {type(backend).__name__}")
    return backend == JitBackend.LLVM and _llvm()[0]


def backend_report() -> list[tuple[str, bool, str]]:
    """Name, availability and details of every backend; for a missing one, why and how to get it."""
    return [("LLVM", *_llvm()), ("CUDA", False, "not part of this version: kernels run on the CPU")]
