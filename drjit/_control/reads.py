"""Whether functions may find what they have put in a place where nothing was before."""

from __future__ import annotations

import dis
import functools
from collections.abc import Iterator
from types import CodeType
from typing import Any

from .._trees.kinds import CELL, CLASS, DICT, LIST, MODULE, OBJECT
from .places import Change, is_kept_by_class
from .snapshot import Snapshot

__all__ = ["Instruction", "has_names", "instructions_of", "may_find", "names_of_container"]

#: What finds attributes by other means than their names in the code.
_BY_NAME = {"getattr", "hasattr", "vars", "__dict__", "attrgetter", "copy", "deepcopy", "replace", "asdict", "astuple",
            "fields"}
#: Methods of lists and queues that look at no entries.
_ADD = {"append", "appendleft"}
Instruction = tuple[str, Any]


def may_find(known: Snapshot, change: Change) -> bool:
    """Whether functions, and those that they know, may look at a new place; results that classes keep are none."""
    container, kind, key = change[:3]
    if is_kept_by_class(change):
        return False
    if has_names(container, kind):
        return any(name == key or name in _BY_NAME for code in known.codes
                   for operation, name in instructions_of(code) if _loads(operation))
    names = set(names_of_container(known, container)) if kind in (DICT, LIST) else {None}
    return not names or None in names or any(
        _loads(operation) and name in names and not _only_puts(instructions_of(code)[place + 1:place + 3])
        for code in known.codes for place, (operation, name) in enumerate(instructions_of(code)))


def has_names(container: Any, kind: int) -> bool:
    """Whether what is in a container is known by names in codes: attributes, and variables of modules."""
    return kind in (OBJECT, CLASS, MODULE) or kind == DICT and isinstance(container, dict) and \
        "__builtins__" in container


def _loads(operation: str) -> bool:
    """Whether an instruction finds a variable of another function or a module, or an attribute."""
    return operation.startswith("LOAD_") and operation != "LOAD_CONST"


def names_of_container(known: Snapshot, container: Any) -> Iterator[str | None]:
    """The names of the variables and attributes that a container is in; ``None``: another place."""
    for holder, kind, key in known.places(container):
        if kind == CELL:
            for function in known.functions:
                for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
                    if cell is holder:
                        yield name
        else:
            yield key if has_names(holder, kind) else None


def _only_puts(following: list[Instruction]) -> bool:
    """Whether what follows a container that was loaded puts something there, and does no more."""
    operation, name = following[0] if following else ("", None)
    return operation in ("LOAD_ATTR", "LOAD_METHOD") and name in _ADD or operation.startswith("LOAD_") and len(
        following) > 1 and following[1][0] == "STORE_SUBSCR"


@functools.lru_cache(256)
def instructions_of(code: CodeType) -> list[Instruction]:
    """What a function, and those within it, do."""
    found = [(each.opname, each.argval) for each in dis.get_instructions(code)]
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found += instructions_of(constant)
    return found
