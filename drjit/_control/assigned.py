"""Which variables of enclosing functions and of modules the functions of symbolic constructs assign to."""

from __future__ import annotations

import dis
import functools
from collections.abc import Callable, Sequence
from types import CellType, CodeType, FunctionType
from typing import Any

from drjit_core import SymbolicValue

from .._base.array import ArrayBase

__all__ = ["EMPTY_CELL", "ENTRIES_SEARCHED", "Variables", "assigned_by"]

#: Lists, tuples and dictionaries of more entries are not looked through.
ENTRIES_SEARCHED = 256
EMPTY_CELL = CellType()


class Variables:
    """The variables of enclosing functions and of their module that functions use, and what they are.

    A body that assigns to one does so once for each trace, not for each iteration.
    """

    __slots__ = ("cells", "entries", "globals")

    def __init__(self, functions: Sequence[Callable[..., Any]]) -> None:
        self.cells: list[tuple[str, CellType, Any]] = []
        self.globals: list[tuple[str, dict[str, Any], Any]] = []
        #: Entries of containers and attributes of objects, if functions assign any: what they are called, the
        #: container, and the key.
        self.entries: list[tuple[str, Any, Any, Any]] = []
        for function in functions:
            owner = getattr(function, "__self__", None)
            function = getattr(function, "__func__", function)
            if function.__class__ is not FunctionType:
                continue
            code, variables = function.__code__, function.__globals__
            attributes, items = _stores(code)
            if attributes or items:
                known = {name: cell.cell_contents for name, cell in zip(code.co_freevars, function.__closure__ or (),
                                                                        strict=True) if cell != EMPTY_CELL}
                known |= {name: variables[name] for name in code.co_names if name in variables}
                if owner is not None:
                    known[code.co_varnames[0] if code.co_varnames else "self"] = owner
                self.add_entries(known, attributes, items)
            cells = function.__closure__
            if cells:
                for name, cell in zip(code.co_freevars, cells, strict=True):
                    if cell != EMPTY_CELL and isinstance(cell.cell_contents, ArrayBase):
                        self.cells.append((name, cell, cell.cell_contents))
            for name in code.co_names:
                if isinstance(variables.get(name), ArrayBase):
                    self.globals.append((name, variables, variables[name]))

    def add_entries(self, known: dict[str, Any], attributes: frozenset[str], items: bool) -> None:
        """Note arrays among the attributes of objects that are known by names, and in lists and dictionaries."""
        for name, value in known.items():
            if items and isinstance(value, (list, dict)) and len(value) <= ENTRIES_SEARCHED:
                self.entries += [(f"{name}[{key!r}]", value, key, entry) for key, entry in (
                    value.items() if isinstance(value, dict) else enumerate(value)) if isinstance(entry, ArrayBase)]
            own = getattr(value, "__dict__", None) if attributes else None
            if own.__class__ is dict and not isinstance(value, ArrayBase):
                self.entries += [(f"{name}.{key}", own, key, own[key]) for key in attributes
                                 if isinstance(own.get(key), ArrayBase)]

    def require_same(self, words: Any) -> None:
        """Refuse assignments of arrays that have nothing to do with the construct; others cannot be used afterwards."""
        for name, cell, before in self.cells:
            if cell != EMPTY_CELL and _is_other(cell.cell_contents, before):
                cell.cell_contents = before
                raise self.refusal(words, name)
        for name, variables, before in self.globals:
            if _is_other(variables.get(name), before):
                variables[name] = before
                raise self.refusal(words, name)

        for name, holder, key, before in self.entries:
            now = holder.get(key) if isinstance(holder, dict) else holder[key] if key < len(holder) else None
            if _is_other(now, before):
                holder[key] = before
                raise self.refusal(words, name)

    def put_back(self) -> None:
        """Give variables what they were: functions were left by an exception, or will be called again."""
        for _, cell, before in self.cells:
            if cell != EMPTY_CELL and _is_another_array(cell.cell_contents, before):
                cell.cell_contents = before
        for name, variables, before in self.globals:
            if _is_another_array(variables.get(name), before):
                variables[name] = before
        for _, holder, key, before in self.entries:
            now = holder.get(key) if isinstance(holder, dict) else holder[key] if key < len(holder) else None
            if _is_another_array(now, before):
                holder[key] = before

    @staticmethod
    def refusal(words: Any, name: str) -> SymbolicValue:
        """What is wrong with the user's function."""
        return SymbolicValue(
            f"{words.function}(): {words.traced} assigns an array to the variable '{name}', which was made outside: "
            f"that happens once, and not for each iteration. {words.remedy[0].upper()}{words.remedy[1:]}, or "
            f"{words.otherwise}.")


def assigned_by(functions: Sequence[Callable[..., Any]]) -> Variables | None:
    """The variables of functions some of which assign to any, else ``None``."""
    for function in functions:
        code = getattr(getattr(function, "__func__", function), "__code__", None)
        if code is not None and _assigns(code):
            return Variables(functions)
    return None


@functools.lru_cache(1024)
def _assigns(code: CodeType) -> bool:
    """Whether a function assigns to anything but variables of its own."""
    return any(entry.opname in ("STORE_ATTR", "STORE_SUBSCR", "STORE_GLOBAL") or entry.opname == "STORE_DEREF" and
               entry.argval in code.co_freevars for entry in dis.get_instructions(code))


@functools.lru_cache(1024)
def _stores(code: CodeType) -> tuple[frozenset[str], bool]:
    """The names of attributes that a function assigns, and whether it assigns to items."""
    found = [(entry.opname, entry.argval) for entry in dis.get_instructions(code)]
    return frozenset([name for what, name in found if what == "STORE_ATTR"]), ("STORE_SUBSCR", None) in [
        (what, None) for what, _ in found]


def _is_another_array(now: Any, before: Any) -> bool:
    return now is not before and isinstance(now, ArrayBase)


def _is_other(now: Any, before: Any) -> bool:
    return _is_another_array(now, before) and not any(node.scope for node in now._nodes())
