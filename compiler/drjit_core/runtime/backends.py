"""The backends that there are, which of them can run here, and the one that a thread uses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import Generic, Protocol

from ..codegen.target import tell_limits
from ..context import current as current_context
from ..types import JitBackend
from .backend import Backend, KernelBackend
from .cpu.backend import CPU, availability
from .cpu.texts import TEXTS
from .interpreted import Interpreted
from .null import Null

__all__ = ["LLVM", "all_backends", "backend_of", "backend_report", "expand_threshold", "flush_malloc_cache",
           "has_backend", "kernel_statistics", "llvm_version", "malloc_statistics", "memory_of_backends",
           "missing_backend", "on_backend", "register", "set_expand_threshold", "set_thread_count", "thread_count",
           "thread_report"]

#: The backend that is used unless a thread chooses another one.
LLVM = CPU()
_INTERPRETER = Interpreted(LLVM.limits)
_BY_PLACE: dict[int, Backend] = {0: LLVM, LLVM.where: LLVM}
_BY_NAME: dict[str, Callable[[], Backend]] = {"llvm": lambda: LLVM, "null": lambda: Null(TEXTS),
                                              "interpreter": lambda: _INTERPRETER,
                                              "cuda": lambda: backend_of(JitBackend.CUDA.value)}


def _gpu() -> ModuleType:
    """What looks for GPUs and compiles for them: twenty-odd modules, read when somebody asks first."""
    from .gpu import backend

    return backend


def backend_of(where: int) -> Backend:
    """The backend of nodes that belong to a :class:`JitBackend`, given as a bit: the one that this thread uses in its
    place, if there is one. What belongs nowhere, 0, goes to that or to the CPU."""
    backend: Backend | None = current_context().backend
    if backend is not None and (not where or backend.where == where):
        return backend
    found = _BY_PLACE.get(where)
    if found is None:
        if where != JitBackend.CUDA.value or not _has_gpu():
            reason = f": {_gpu().availability()[1]}" if where == JitBackend.CUDA.value else ""
            raise RuntimeError(f"the backend '{JitBackend(where).name}' is not available on this machine{reason}")
        found = _BY_PLACE[where]
    return found


def _has_gpu() -> bool:
    """Whether there is a GPU, or what stands for one; it is looked for when somebody asks first."""
    if JitBackend.CUDA.value not in _BY_PLACE:
        found = _gpu().the_gpu()
        if found is not None:
            register(found)
    return JitBackend.CUDA.value in _BY_PLACE


def register(backend: Backend) -> None:
    """Let a backend evaluate what belongs to ``JitBackend.CUDA``, arrays of ``drjit.cuda``, in the place of the one
    that does so, or would be looked for.

    Raises a ``TypeError`` if it lacks what :class:`.backend.Backend` asks for, or with ``recipes``
    :class:`.backend.KernelBackend`; and a ``ValueError`` for another place: that of the CPU is taken.
    """
    protocol = Backend if getattr(backend, "recipes", None) is None else KernelBackend
    missing = sorted(name for name in _members_of(protocol) if not hasattr(backend, name))
    if missing or isinstance(backend, type):
        found = f"the class {backend.__name__}" if isinstance(backend, type) else \
            f"an object of type '{type(backend).__name__}'"
        raise TypeError(f"register(): 'backend' must be a {protocol.__name__} (see drjit_core.runtime.backend), found "
                        f"{found}{' without ' if missing else ''}{', '.join(missing)}")
    if type(backend.where) is not int or backend.where != JitBackend.CUDA.value:
        raise ValueError(f"register(): the backend '{backend.name}' belongs to {backend.where!r} (its 'where'), and "
                         f"must belong to {JitBackend.CUDA.value}, the value of JitBackend.CUDA")
    _BY_PLACE[backend.where] = backend


def _members_of(protocol: type) -> set[str]:
    """The names of what a protocol asks for."""
    return {name for base in protocol.__mro__ if base not in (Protocol, Generic, object) for name in vars(base)
            if not name.startswith("_")}


def all_backends() -> list[Backend]:
    """The backends that may have launched something for this thread."""
    own = current_context().backend
    return [*({LLVM, *_BY_PLACE.values()} - {own}), *([] if own is None else [own])]


tell_limits(lambda where: backend_of(where).limits)


@contextmanager
def on_backend(backend: str | Backend) -> Iterator[Backend]:
    """Use another backend in this thread, given by its name; ``"null"`` makes a new one.

    Arrays belong to the backend on which they were evaluated or imported, and to no other.
    """
    context = current_context()
    before = context.backend
    if isinstance(backend, str):
        if backend not in _BY_NAME:
            raise ValueError(f"there is no backend '{backend}', only {', '.join(_BY_NAME)}")
        backend = _BY_NAME[backend]()
    context.backend = backend
    try:
        yield backend
    finally:
        current_context().backend = before


def _sums(statistics: Iterable[Mapping[str, int]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for each in statistics:
        for name, number in each.items():
            found[name] = found.get(name, 0) + number
    return found


def malloc_statistics() -> dict[str, int]:
    """Bytes ``in_use`` by arrays, their ``peak``, bytes ``cached``, and how often a system was asked for memory, which
    are ``allocations``: of all backends."""
    return _sums(backend.memory_statistics() for backend in all_backends())


def memory_of_backends() -> list[tuple[str, dict[str, int]]]:
    """The same of each backend that has memory, with its name among :class:`JitBackend`; the CPU's first."""
    found = [(JitBackend(backend.where).name, statistics) for backend in all_backends()
             if (statistics := backend.memory_statistics())]
    return sorted(found, reverse=True)


def flush_malloc_cache() -> None:
    """Return the memory that no array uses, of all backends."""
    for backend in all_backends():
        backend.flush_memory()


def kernel_statistics() -> dict[str, int]:
    """How often kernels were launched since the program began, and found in memory, on disk, or nowhere."""
    return _sums(backend.kernel_statistics() for backend in all_backends())


#: What the CPU alone has: threads, and tables for scatter-reductions.
llvm_version = LLVM.version
expand_threshold, set_expand_threshold = LLVM.expand_threshold, LLVM.set_expand_threshold
set_thread_count, thread_count, thread_report = LLVM.set_thread_count, LLVM.thread_count, LLVM.thread_report


def has_backend(backend: JitBackend, /) -> bool:
    """Whether a backend can compile and run kernels on this machine."""
    if not isinstance(backend, JitBackend):
        raise TypeError(f"drjit.has_backend(): expected a drjit.JitBackend, found {type(backend).__name__}")
    if backend == JitBackend.CUDA:
        return _has_gpu()
    return backend == JitBackend.LLVM and availability()[0]


def missing_backend(backend: JitBackend, /) -> str:
    """Why a backend is not available on this machine; nothing if it is."""
    return "" if has_backend(backend) else next(
        (why for name, _, why in backend_report() if name == backend.name), "there is no such backend")


def backend_report() -> list[tuple[str, bool, str]]:
    """Name, availability and details of every backend; for a missing one, why and how to get it."""
    known = _BY_PLACE.get(JitBackend.CUDA.value)
    found = _gpu().availability() if known is None or known is _gpu().the_gpu() else \
        (True, f"the backend '{known.name}', which the program has registered")
    return [("LLVM", *availability()), ("CUDA", *found)]
