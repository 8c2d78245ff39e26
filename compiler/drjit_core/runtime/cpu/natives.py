"""Native code of this machine, from the cache on disk if it is there: see :mod:`..disk`."""

from __future__ import annotations

from collections.abc import Iterable

from ...llvm import jit
from ..disk import Environment, load, store

__all__ = ["ENVIRONMENT", "load_native", "load_or_compile"]

#: The processor, the version of LLVM, and the system.
ENVIRONMENT = Environment(lambda: (*jit.host_cpu(), ".".join(map(str, jit.version())), jit.triple()))


def _key_of_native(name: str, text: str, level: int) -> bytes:
    return ENVIRONMENT.key_of(text.encode(), f"{name} level={level}")


def load_native(name: str, text: str, exports: Iterable[str], level: int = 2) -> jit.NativeCode | None:
    """Native code of a module of the runtime's own, if it is in the cache."""
    code = load(_key_of_native(name, text, level))
    return None if code is None else jit.link(code, exports)


def load_or_compile(name: str, text: str, exports: Iterable[str], level: int = 2) -> jit.NativeCode:
    """Native code of a module of the runtime's own, from the cache if it is there."""
    native = load_native(name, text, exports, level)
    if native is None:
        code = jit.compile_text(text, level)
        store(_key_of_native(name, text, level), code)
        native = jit.link(code, exports)
    return native
