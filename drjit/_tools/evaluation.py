"""Evaluation of PyTrees, their widths, and control of the runtime."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import drjit_core as core
from drjit_core import JitBackend, KernelType, LogLevel, Node

from .._base.array import ArrayBase
from .._base.errors import SizeError, describe
from .._promotion.promote import is_ndarray, plain_scalar
from .._trees.pytree import children, leaves

__all__ = ["eval", "flush_kernel_cache", "flush_malloc_cache", "has_backend", "kernel_history", "kernel_history_clear",
           "log_level", "make_opaque", "schedule", "set_log_level", "set_thread_count", "shape", "sync_thread",
           "thread_count", "width", "expand_threshold", "set_expand_threshold"]


def _all_nodes(args: Sequence[Any], function: str) -> list[Node]:
    return [node for arg in args for leaf in leaves(arg, function) if isinstance(leaf, ArrayBase) and leaf._dynamic
            for node in leaf._nodes()]


def schedule(*args: Any) -> bool:
    """Include arrays in the next evaluation.

    Traverses PyTrees; literals, evaluated arrays and other objects are ignored. Returns whether any array was
    scheduled.
    """
    return core.schedule(_all_nodes(args, "drjit.schedule"))


def eval(*args: Any) -> bool:
    """Evaluate arrays and everything that was scheduled, in as few kernels as possible.

    Traverses PyTrees; literals and evaluated arrays are left alone. Does not wait for the kernels to finish. Returns
    whether anything was evaluated.
    """
    return core.evaluate(_all_nodes(args, "drjit.eval"))


def make_opaque(*args: Any) -> None:
    """Evaluate arrays, literals included: their values no longer take part in compilation.

    Traverses PyTrees.
    """
    found = [leaf for arg in args for leaf in leaves(arg, "drjit.make_opaque")
             if isinstance(leaf, ArrayBase) and leaf._dynamic]
    core.evaluate([node for array in found for node in array._nodes()])
    opaque = [[core.opaque(node) for node in array._nodes()] for array in found]
    for array, nodes in zip(found, opaque, strict=True):  # nothing has changed if one of them failed
        array._replace(nodes)


def width(*args: Any) -> int:
    """Number of elements that are processed in parallel: the size of the trailing dimension of the arrays in PyTrees.

    Arrays of size 1 go with any other; raises a ``RuntimeError`` if the sizes are inconsistent. 1 if there is no array.
    """
    arrays = [leaf for arg in args for leaf in leaves(arg, "drjit.width") if isinstance(leaf, ArrayBase)]
    sizes = {size for array in arrays
             for size in ((node.size for node in array._nodes()) if array._dynamic else array.shape[-1:])}
    if not sizes:
        return 0 if arrays else 1
    wide = sizes - {1} if sizes != {1} else sizes
    if len(wide) > 1 or 0 in sizes and len(sizes) > 1:
        raise SizeError("drjit.width(): the input is ragged (i.e., it does not have a consistent size): found the "
                        f"sizes {', '.join(map(str, sorted(sizes)))}.")
    return wide.pop()


def shape(arg: Any) -> tuple[int, ...]:
    """Sizes of the dimensions of an array or of a nested sequence, outermost first.

    Raises a ``RuntimeError`` if the sizes of the components are inconsistent; entries of size 1 go with any other.
    """
    if isinstance(arg, ArrayBase):
        if arg._depth < 0 or not arg._dynamic:
            return arg.shape
        return (*arg._static_shape(), arg._width("drjit.shape"))
    if is_ndarray(arg) or hasattr(arg, "shape"):
        return tuple(arg.shape)
    if plain_scalar(arg) is not None:
        return ()
    if arg.__class__ in (list, tuple, range):
        if arg.__class__ is range:
            return (len(arg),)
        inner = [shape(item) for _, item in children(arg) or ()]
        if not inner:
            return (0,)
        depth = max(map(len, inner))
        columns = [{s[axis] for s in inner if len(s) > axis} for axis in range(depth)]
        if any(len(column - {1}) > 1 or 0 in column and len(column) > 1 for column in columns) or \
                any(len(s) not in (0, depth) for s in inner):
            raise SizeError("drjit.shape(): the input is ragged (i.e., it does not have a consistent size).")
        return (len(inner), *(max(column) for column in columns))
    raise TypeError(f"drjit.shape(): argument 'arg' must be an array, a sequence or a number, found {describe(arg)}.")


# --- the runtime -----------------------------------------------------------------------------------------------------


def has_backend(arg: JitBackend, /) -> bool:
    """Whether a backend is available on this machine."""
    return bool(isinstance(arg, JitBackend) and core.has_backend(arg))


def sync_thread() -> None:
    """Wait for everything that has been launched. Programs do not need this to be correct."""
    core.sync()


def thread_count() -> int:
    """Number of threads that run kernels on the CPU, the main thread included."""
    return core.thread_count()


def expand_threshold() -> int:
    """Number of elements up to which scatter-reductions use a table per thread instead of atomic updates."""
    return core.expand_threshold()


def set_expand_threshold(arg: int, /) -> None:
    """Set the number of elements up to which scatter-reductions use a table per thread (0: never by themselves)."""
    core.set_expand_threshold(arg)


def set_thread_count(arg: int, /) -> None:
    """Set the number of threads that run kernels on the CPU; 0 and 1 both leave all work to the calling thread."""
    if arg.__class__ is not int or arg < 0:
        raise TypeError(f"drjit.set_thread_count(): the number of threads must be an int >= 0, found {arg!r}.")
    core.set_thread_count(arg)


def kernel_history(types: Sequence[KernelType] = ()) -> list[dict[str, Any]]:
    """Return and clear the list of what was launched while ``JitFlag.KernelHistory`` was set, by kind if given."""
    if not isinstance(types, (list, tuple)) or not all(isinstance(entry, KernelType) for entry in types):
        raise TypeError(f"drjit.kernel_history(): 'types' must be a sequence of drjit.KernelType, found {types!r}.")
    return core.kernel_history(types)


def kernel_history_clear() -> None:
    """Clear the history of launches."""
    core.kernel_history_clear()


def flush_kernel_cache() -> None:
    """Forget the kernels in memory (those on disk stay)."""
    core.flush_kernel_cache()


def flush_malloc_cache() -> None:
    """Give unused memory back to the operating system."""
    core.flush_malloc_cache()


def log_level() -> LogLevel:
    """How much the compiler tells about its work."""
    return core.log_level()


def set_log_level(arg: LogLevel | int, /) -> None:
    """Set how much the compiler tells about its work on standard error."""
    if not isinstance(arg, (LogLevel, int)):
        raise TypeError(f"drjit.set_log_level(): the level must be a drjit.LogLevel or an int, found {describe(arg)}.")
    core.set_log_level(LogLevel(arg))
