"""Named parts of programs, for the kernel history, and for tools that listen to NVTX, as NVIDIA Nsight Systems does.

Such tools say in ``NVTX_INJECTION64_PATH`` by which library they listen, to the programs that they start. They are told
by NVIDIA's package ``nvtx`` where that is installed, as NVTX is a header of C, whose tables of functions are not
documented. Without a tool nothing is imported, and nobody is called.
"""

from __future__ import annotations

import importlib
import os
from types import TracebackType
from typing import Any

import drjit_core as core
from drjit_core import JitFlag, scoped_set_flag

from .._base.errors import describe

__all__ = ["profile_enable", "profile_mark", "profile_range"]


def _listener() -> Any:
    """What a tool is told by, ``None`` if there is no tool, or no package."""
    if "NVTX_INJECTION64_PATH" not in os.environ:
        return None
    try:
        return importlib.import_module("nvtx")
    except ImportError:
        return None


_nvtx = _listener()


def _checked(function: str, name: object) -> str:
    if not isinstance(name, str):
        raise TypeError(f"{function}(): the name must be a str, found {describe(name)} ({name!r}).")
    return str(name)


class profile_enable:
    """Context manager that profiles a part of a program: keeps a history of the kernels that are launched in it.

    Sets ``JitFlag.KernelHistory`` in the current thread, and puts it back at the end. Evaluates nothing, and waits for
    nothing: what is traced inside and launched later is not in the history.

    >>> from drjit.llvm import Float
    >>> dr.kernel_history_clear()
    >>> with dr.profile_enable():
    ...     done = dr.eval(dr.arange(Float, 4) * 2)
    >>> [entry["size"] for entry in dr.kernel_history()]
    [4]
    """

    __slots__ = ("_scopes",)

    def __init__(self) -> None:
        self._scopes: list[scoped_set_flag] = []

    def __enter__(self) -> None:
        scope = scoped_set_flag(JitFlag.KernelHistory, True)
        scope.__enter__()
        self._scopes.append(scope)

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 traceback: TracebackType | None) -> None:
        self._scopes.pop().__exit__(kind, value, traceback)


def profile_mark(arg: str, /) -> None:
    """Note an event by name: an entry between those of kernels in the history, if one is kept, and on the timeline of a
    tool that listens to NVTX (see :class:`profile_range`).

    Nothing happens otherwise. Raises a ``TypeError`` if the name is no ``str``; evaluates nothing. The entry has the
    type ``ProfileEvent.Mark`` (of ``drjit.detail``), ``name``, the enclosing ``ranges``, and its ``time`` in seconds on
    the clock of ``time.perf_counter``.

    >>> with dr.profile_enable():
    ...     dr.profile_mark("before the first step")
    >>> dr.kernel_history()[0]["name"]
    'before the first step'
    """
    core.profile_mark(_checked("drjit.profile_mark", arg))
    if _nvtx is not None:
        _nvtx.mark(arg)


class profile_range:
    """Context manager that names a part of a program: kernels that are launched in it carry the name.

    Ranges nest: the entry ``ranges`` of a kernel in the history holds the names, outermost first. They belong to the
    thread that enters them, and end with exceptions as well. Where a history is kept (see :class:`profile_enable`), the
    end of a range adds an entry of the type ``ProfileEvent.Range`` (of ``drjit.detail``) with ``name``, the enclosing
    ``ranges``, its start as ``time`` in seconds, and as ``execution_time`` how many milliseconds the program spent
    there. Since kernels run asynchronously, that is not the time of the kernels, which their own entries tell. What
    counts is where a kernel is launched, not where its operations are traced: end a range with :func:`eval` to have
    them in it. Raises a ``TypeError`` if the name is no ``str``.

    A program that was started by NVIDIA Nsight Systems (``nsys profile -t nvtx python program.py``), or another tool
    that listens to NVTX, tells it of ranges and marks as well, on the timeline of the thread, if the package ``nvtx``
    is installed.

    >>> from drjit.llvm import Float
    >>> with dr.profile_enable(), dr.profile_range("step"):
    ...     done = dr.eval(dr.arange(Float, 4) * 2)
    >>> [(entry["type"], entry["ranges"]) for entry in dr.kernel_history()]
    [(KernelType.JIT, ('step',)), (ProfileEvent.Range, ())]
    """

    __slots__ = ("_entered", "_name")

    def __init__(self, arg: str, /) -> None:
        self._name = _checked("drjit.profile_range", arg)
        self._entered: list[core.ProfileRange] = []

    def __enter__(self) -> None:
        entered = core.ProfileRange(self._name)
        self._entered.append(entered)
        entered.enter()
        if _nvtx is not None:
            _nvtx.push_range(self._name)

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 traceback: TracebackType | None) -> None:
        self._entered.pop().leave()
        if _nvtx is not None:
            _nvtx.pop_range()
