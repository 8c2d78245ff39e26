"""Tables of calls: for each target the address of its function, of a record with its literals and addresses, and of the
function that takes elements of several targets."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from typing import Any

from ...codegen.program import Binding, Program
from ...codegen.records import Alike
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


def _fill(bound: Program | Binding | Alike, functions: dict[Any, tuple[int, int]], keep: list[Any]) -> None:
    for site in bound.calls.values():
        places: list[int] = []
        records = array("Q")  # of all targets, one after the other
        for target in site.targets:
            for slot, outer in target.links:
                target.parameters[slot] = bound.parameters[outer]
            if target.calls:
                _fill(target, functions, keep)
            places.append(len(records))
            records.extend(target.parameters)
        first, size = records.buffer_info()[0], records.itemsize
        table = array("Q")
        for target, place in zip(site.targets, places, strict=True):
            function, shared = functions[target.key]
            table.extend((function, first + size * place, shared))
        keep += (records, table)
        bound.parameters[site.slot] = table.buffer_info()[0]
