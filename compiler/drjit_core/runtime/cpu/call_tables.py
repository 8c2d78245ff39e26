"""Tables of calls: for each target the address of its function, of a record with its literals and addresses, and of the
function that takes elements of several targets."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any

from ...codegen.program import Binding, Program
from ...llvm.calls import name_of_function

__all__ = ["fill", "names"]


def names(bound: Program | Binding) -> list[str]:
    """Names of the functions that calls may reach, in its kernel's module."""
    return [name_of_function(number, records) for records in (False, True) for number, key in enumerate(bound.functions)
            if not records or key in bound.shared]


def fill(bound: Program | Binding, addresses: Mapping[str, int], keep: list[Any]) -> None:
    """Make the tables of calls, whose addresses become parameters; ``keep`` gets what must live as long."""
    functions = {key: (addresses[name_of_function(number)],
                       addresses[name_of_function(number, True)] if key in bound.shared else 0)
                 for number, key in enumerate(bound.functions)}
    _fill(bound, functions, keep)


def _fill(bound: Program | Binding, functions: dict[Any, tuple[int, int]], keep: list[Any]) -> None:
    for site in bound.calls.values():
        words: list[int] = []
        for target in site.targets:
            for slot, outer in target.links:
                target.parameters[slot] = bound.parameters[outer]
            _fill(target, functions, keep)
            record = (ctypes.c_uint64 * len(target.parameters))(*target.parameters)
            keep.append(record)
            function, shared = functions[target.key]
            words += (function, ctypes.addressof(record), shared)
        table = (ctypes.c_uint64 * len(words))(*words)
        keep.append(table)
        bound.parameters[site.slot] = ctypes.addressof(table)
