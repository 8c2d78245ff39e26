"""Tables of calls: what :class:`~drjit_core.codegen.records.Layout` says, at addresses of this process."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from typing import Any

from ...codegen.program import Program
from ...codegen.records import layout_of
from ...llvm.calls import name_of_function

__all__ = ["fill", "names"]


def names(program: Program) -> list[str]:
    """Names of the functions that calls may reach, in its kernel's module."""
    return [name_of_function(number, records) for records in (False, True)
            for number, key in enumerate(program.functions) if not records or key in program.shared]


def fill(program: Program, addresses: Mapping[str, int], keep: list[Any]) -> None:
    """Make the tables of calls, whose addresses become parameters; ``keep`` gets what must live as long."""
    layout = layout_of(program)
    words = array("Q", layout.words)
    base, size = words.buffer_info()[0], words.itemsize
    for word, source in layout.links:
        words[word] = words[source]
    for word, place in layout.moves:
        words[word] = base + size * place
    functions = [[addresses.get(name_of_function(number, shared), 0) for number in range(len(program.functions))]
                 for shared in (False, True)]
    for word, number, shared in layout.functions:
        words[word] = functions[shared][number]
    for site in program.calls.values():
        program.parameters[site.slot] = words[site.slot]
    keep.append(words)
