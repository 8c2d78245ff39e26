"""Green contexts: parts of a GPU that kernels run on."""

from __future__ import annotations

from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any

from drjit_core import gpu_of

from .._base import capsules
from .._base.arguments import require_count

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["green_context", "of_gpu"]

_CONTEXT = b"CUcontext"


@contextmanager
def of_gpu(function: str) -> Iterator[Any]:
    """The backend of the GPU, for a function that has to do with it alone, by whose name errors are called."""
    try:
        yield gpu_of()
    except RuntimeError as error:
        if str(error).startswith(function):
            raise
        raise RuntimeError(f"{function}(): {error}.") from error


class green_context:
    """Context manager that lets kernels run on some of the GPU's multiprocessors, in isolation from what runs on the
    others.

    While a thread is in the context, the kernels that it launches go to a stream of the green context, those of frozen
    functions one by one, not as a graph, whose kernels run anywhere; copies and memory belong to the stream of the last
    launch. It may be entered any number of times, also by several threads, and others may be entered in it; it is
    destroyed when nobody has it any more. What counts is where a kernel is launched, not where its operations are
    traced: end the context with :func:`drjit.eval` to have them in it.

    All that Dr.Jit launches remains in one order, whatever contexts its threads are in: what comes after entering waits
    for what came before, and the other way round at the end, on the device, so that arrays can be used everywhere. What
    runs beside are other libraries in streams of their own, for example in the context that :attr:`remaining_ctx`
    tells. The stream of a green context is in no order with the default stream, as the one outside is: what other
    libraries write to shared memory meanwhile is seen when it is exchanged again.

    ``sm_count``: how many multiprocessors there shall be at least, an ``int`` from 1 on. Groups have a least size (8 on
    sm_90), and are multiples of it. Several contexts may have some in common: each is a part of the whole.

    Raises a ``RuntimeError`` if there is no GPU, if it has fewer multiprocessors, or if its driver is older than 12.4.

    >>> from drjit.cuda import Float, green_context
    >>> if dr.has_backend(dr.JitBackend.CUDA):
    ...     with green_context(16):
    ...         done = dr.eval(dr.sqrt(dr.arange(Float, 1000)))
    """

    __slots__ = ("_context", "_requested")

    def __init__(self, sm_count: int) -> None:
        self._requested = require_count("drjit.cuda.green_context", "sm_count", sm_count, 1)
        with of_gpu("drjit.cuda.green_context") as gpu:
            self._context = gpu.streams.make(self._requested)

    def __enter__(self) -> green_context:
        with of_gpu("drjit.cuda.green_context.__enter__"):
            self._context.enter()
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 traceback: TracebackType | None) -> None:
        with of_gpu("drjit.cuda.green_context.__exit__"):
            self._context.leave()

    @property
    def sm_count(self) -> int:
        """How many multiprocessors there are.

        >>> if dr.has_backend(dr.JitBackend.CUDA):
        ...     assert dr.cuda.green_context(3).sm_count >= 3
        """
        return self._context.multiprocessors  # type: ignore[no-any-return]

    @property
    def requested_sm_count(self) -> int:
        """How many were asked for.

        >>> if dr.has_backend(dr.JitBackend.CUDA):
        ...     assert dr.cuda.green_context(3).requested_sm_count == 3
        """
        return self._requested

    @property
    def remaining_ctx(self) -> object | None:
        """A context of the multiprocessors that do not belong to this one: a capsule ``"CUcontext"`` of its handle, for
        other libraries; ``None`` if there are no others.

        It is made when it is first asked for, and lives as long as this object, which must be kept meanwhile. Raises a
        ``RuntimeError`` if the driver cannot make it.

        >>> if dr.has_backend(dr.JitBackend.CUDA):
        ...     context = dr.cuda.green_context(8)
        ...     others = context.remaining_ctx  # a capsule
        """
        with of_gpu("drjit.cuda.green_context.remaining_ctx"):
            handle = self._context.remaining()
        return capsules.new(handle, _CONTEXT, None) if handle else None
