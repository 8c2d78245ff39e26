"""The backends that there are, which of them can run here, and the one that a thread uses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ..codegen.target import tell_local_memory
from ..context import current as current_context
from ..types import JitBackend
from .backend import Backend
from .cpu.backend import CPU, availability
from .interpreted import Interpreted
from .null import Null

__all__ = ["LLVM", "all_backends", "backend_of", "backend_report", "current", "has_backend", "on_backend", "register"]

#: The backend that is used unless a thread chooses another one.
LLVM = CPU()
_INTERPRETER = Interpreted()
_BY_PLACE: dict[int, Backend] = {0: LLVM, LLVM.where: LLVM}
_BY_NAME: dict[str, Callable[[], Backend]] = {"llvm": lambda: LLVM, "null": Null, "interpreter": lambda: _INTERPRETER}


def backend_of(where: int) -> Backend:
    """The backend of nodes that belong to a :class:`JitBackend`, given as a bit: the one that this thread uses in its
    place, if there is one. What belongs nowhere, 0, goes to that or to the CPU."""
    backend: Backend | None = current_context().backend
    if backend is not None and (not where or backend.where == where):
        return backend
    found = _BY_PLACE.get(where)
    if found is None:
        raise RuntimeError(f"the backend '{JitBackend(where).name}' is not available on this machine")
    return found


def current() -> Backend:
    """The backend of what belongs nowhere."""
    return backend_of(0)


def register(backend: Backend) -> None:
    """Let a backend evaluate what belongs to its :class:`JitBackend`."""
    _BY_PLACE[backend.where] = backend


def all_backends() -> list[Backend]:
    """The backends that may have launched something for this thread."""
    own = current_context().backend
    return [*({LLVM, *_BY_PLACE.values()} - {own}), *([] if own is None else [own])]


tell_local_memory(lambda: current().limits.local)


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


def has_backend(backend: JitBackend, /) -> bool:
    """Whether a backend can compile and run kernels on this machine."""
    if not isinstance(backend, JitBackend):
        raise TypeError(f"drjit.has_backend(): expected a drjit.JitBackend, found {type(backend).__name__}")
    return backend.value in _BY_PLACE and (backend != JitBackend.LLVM or availability()[0])


def backend_report() -> list[tuple[str, bool, str]]:
    """Name, availability and details of every backend; for a missing one, why and how to get it."""
    return [("LLVM", *availability()), ("CUDA", False, "not part of this version: kernels run on the CPU")]
