"""Compilation of LLVM text to native code: the one module that imports llvmlite.

LLVM can kill the process, so that what reaches it is text of our own or object code whose checksum was verified.
Kernels live in memory of ours (:mod:`.objects`), or else in an LLJIT under unique library names, and are unloaded when
their :class:`NativeCode` dies.  llvmlite and LLVM are loaded at the first compilation, not at import; a process whose
kernels are on disk needs neither, since what LLVM says of the machine is :func:`remembered <remember>`.
"""

from __future__ import annotations

import itertools
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, NamedTuple

from ..errors import CompilationError
from . import objects

__all__ = ["Host", "NativeCode", "assembly", "compile_text", "engine", "host_cpu", "is_x86", "lanes", "link", "lock",
           "remember", "triple", "version"]

_serial = itertools.count()
#: LLVM is used by one thread at a time.
lock = threading.RLock()


class NativeCode:
    """Functions of one module in executable memory, by name; unloaded with this object."""

    __slots__ = ("_held", "addresses", "size")

    def __init__(self, held: Any, addresses: dict[str, int], size: int) -> None:
        self._held = held  # what unloads them when it is let go
        self.addresses = addresses
        self.size = size


@cache
def _binding() -> Any:
    import llvmlite.binding as binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    return binding


class Host(NamedTuple):
    """What LLVM says of this machine: name and features of the processor, its target triple; and LLVM's version."""

    processor: str
    features: str
    triple: str
    version: str


def _asked() -> Host:
    binding = _binding()
    return Host(binding.get_host_cpu_name(), binding.get_host_cpu_features().flatten(), binding.get_default_triple(),
                ".".join(map(str, binding.llvm_version_info)))


_recall: Callable[[Callable[[], Host]], Host] | None = None


def remember(recall: Callable[[Callable[[], Host]], Host]) -> None:
    """Tell what knows the host without LLVM, given what asks that."""
    global _recall
    _recall = recall


@cache
def _host() -> Host:
    return _asked() if _recall is None else _recall(_asked)


@cache
def host_cpu() -> tuple[str, str]:
    """Name and feature string of the host's processor.

    LLVM holds the gathers of AMD's AVX2 processors for slow, and branches for each lane instead: under a random mask
    that takes six times as long (Zen 3, 4M elements of a table of 1 KiB: 8.6 and 1.5 ms).
    """
    features = _host().features
    return _host().processor, features + (",+fast-gather" if "+avx2" in features.split(",") else "")


def version() -> tuple[int, ...]:
    """Version of LLVM."""
    return tuple(map(int, _host().version.split(".")))


def triple() -> str:
    """The host's target triple."""
    return _host().triple


@cache
def is_x86() -> bool:
    """Whether the host is an x86-64 processor."""
    return triple().startswith("x86_64")


@cache
def lanes() -> int:
    """Elements of a packet: 16 with AVX-512, 8 with AVX, else 4."""
    features = set(host_cpu()[1].split(","))
    if "+avx512f" in features and "+avx512vl" in features and "+avx512bw" in features and "+avx512dq" in features:
        return 16
    return 8 if "+avx" in features else 4


@cache
def _machine(level: int) -> Any:
    binding = _binding()
    cpu, features = host_cpu()
    target = binding.Target.from_default_triple()
    return target.create_target_machine(cpu=cpu, features=features, opt=level, reloc="pic", codemodel="small")


@cache
def engine() -> Any:
    """What holds the code of modules that :mod:`.objects` does not load.

    Its linker is JITLink, which gives all sections of an object one block of memory.  The older one maps each section
    where there is room, and aborts the process when they come to lie more than 2 GiB apart; but on Windows, LLVM's own
    default is that one.
    """
    return _binding().create_lljit_compiler(_machine(2), use_jit_link=sys.platform != "win32")


def _parse(text: str) -> Any:
    binding = _binding()
    try:
        module = binding.parse_assembly(text)
        module.verify()
    except RuntimeError as error:
        numbered = "\n".join(f"{number:5d}  {line}" for number, line in enumerate(text.splitlines(), 1))
        raise CompilationError(f"LLVM refused a kernel of ours: {error}\n{numbered}") from error
    return module


def compile_text(text: str, level: int = 2) -> bytes:
    """Object code of a module given as text."""
    with lock:
        code: bytes = _machine(level).emit_object(_parse(text))
        return code


def assembly(text: str, level: int = 2) -> str:
    """Assembly of a module given as text, for people to read."""
    with lock:
        result: str = _machine(level).emit_assembly(_parse(text))
        return result


def link(code: bytes, exports: Iterable[str], imports: Mapping[str, int] | None = None) -> NativeCode:
    """Load object code that :func:`compile_text` has made; ``imports`` are addresses of external symbols."""
    exports = list(exports)
    found = None if imports else objects.load(code, exports)
    if found is not None:
        return NativeCode(found.memory, found.addresses, len(code))
    with lock:
        builder = _binding().JITLibraryBuilder()
        builder.add_object_img(code)
        for name in exports:
            builder.export_symbol(name)
        for name, address in (imports or {}).items():
            builder.import_symbol(name, address)
        tracker = builder.link(engine(), f"kernel{next(_serial)}")
        return NativeCode(tracker, {name: tracker[name] for name in exports}, len(code))
