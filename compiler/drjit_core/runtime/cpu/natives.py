"""Native code of this machine, from the cache on disk if it is there: see :mod:`..disk`."""

from __future__ import annotations

import glob
import importlib.util
import os
from collections.abc import Callable, Iterable

from ...llvm import jit
from ..disk import Environment, identity, load, remembered, store

__all__ = ["ENVIRONMENT", "load_native", "load_or_compile"]

#: The processor, the version of LLVM, and the system.
ENVIRONMENT = Environment(lambda: (*jit.host_cpu(), ".".join(map(str, jit.version())), jit.triple()))


def _host(ask: Callable[[], jit.Host]) -> jit.Host:
    """What LLVM says of this machine, from the cache on disk if the library is the same, and the processor."""
    found = importlib.util.find_spec("llvmlite")
    folders = () if found is None else found.submodule_search_locations or ()
    libraries = [path for folder in folders for path in glob.glob(os.path.join(folder, "binding", "*llvmlite.*"))]
    try:
        with open("/proc/cpuinfo", "rb", buffering=0) as file:  # each further processor takes the system some time
            words = [line for line in file.read(1 << 12).decode("latin-1").partition("\n\n")[0].splitlines()
                     if not line.startswith(_CHANGES)]
        words += [path + identity(os.stat(path)) for path in libraries]
    except OSError:  # another system
        return ask()
    if not libraries:
        return ask()
    words += jit.Host._fields
    return jit.Host(*remembered("\n".join(words), lambda: "\n".join(ask()).encode()).decode().split("\n"))


#: Lines of ``/proc/cpuinfo`` that are others at other times.
_CHANGES = "cpu MHz", "bogomips", "BogoMIPS"

jit.remember(_host)


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
