"""Details of this installation that few programs need: versions of the compilers below, and reports of leaks."""

from __future__ import annotations

import drjit_core as core
from drjit_core import ProfileEvent

from ._access.basic import filled_by, of_memory, part_of, permuted, reshaped
from ._ad.formulas import differentiated
from ._base.naming import named
from ._functions.held import (
    bytes_of,
    computes_now,
    contents,
    copied,
    eval_held,
    in_plain_code,
    is_constant,
    is_pending,
    is_recorded,
    is_variable,
    read_by,
    tracking,
    write_by,
)
from ._functions.hosted import call_host, records
from ._functions.pairs import of_pairs
from ._tools.runtime import missing_backend

__all__ = ["ProfileEvent", "bytes_of", "call_host", "computes_now", "contents", "copied", "cuda_version",
           "differentiated", "eval_held", "filled_by", "in_plain_code", "is_constant", "is_pending", "is_recorded",
           "is_variable", "leak_warnings", "llvm_version", "missing_backend", "named", "of_memory", "of_pairs",
           "part_of", "permuted", "read_by", "records", "reshaped", "set_leak_warnings", "tracking", "write_by"]

_leak_warnings = False


def leak_warnings() -> bool:
    """Whether leak warnings are enabled, see :func:`set_leak_warnings`.

    >>> dr.detail.leak_warnings()
    False
    """
    return _leak_warnings


def set_leak_warnings(arg: bool, /) -> None:
    """Enable or disable leak warnings (disabled by default).

    The setting is only remembered: the lifetime of arrays is that of Python objects, so that there is nothing to leak
    that :func:`drjit.whos` would not list. Raises a ``TypeError`` for anything but a ``bool``.

    >>> dr.detail.set_leak_warnings(True)
    >>> dr.detail.leak_warnings()
    True
    >>> dr.detail.set_leak_warnings(False)
    """
    if arg.__class__ is not bool:
        raise TypeError(f"drjit.detail.set_leak_warnings(): expected a bool, found {arg!r}.")
    global _leak_warnings
    _leak_warnings = arg


def llvm_version() -> tuple[int, ...]:
    """Version of LLVM: major, minor, patch. Raises an ``ImportError`` if it is not installed.

    >>> major, minor, patch = dr.detail.llvm_version()
    >>> major >= 15
    True
    """
    return core.llvm_version()


def cuda_version() -> tuple[int, int]:
    """Version of the CUDA driver: major, minor; ``(0, 0)``, as kernels run on the CPU.

    >>> dr.detail.cuda_version()
    (0, 0)
    """
    return (0, 0)
