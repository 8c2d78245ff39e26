"""What messages call a construct, its parts, and what the user's functions change."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Sequence
from types import CellType, FunctionType, MethodType
from typing import Any, NamedTuple

from drjit_core import SymbolicValue

from .._base.array import ArrayBase
from .._base.errors import ArgumentError, describe
from .._trees.kinds import DICT, LIST
from .called import Call
from .places import Change, words_of
from .snapshot import Snapshot

__all__ = ["Words", "name_in_program", "place_in_program", "place_in_words", "require_data", "require_started",
           "require_variables"]


class Words(NamedTuple):
    """What messages call a construct and its parts."""

    #: The user's function: ``drjit.while_loop``.
    function: str
    #: What is traced: ``the body of this symbolic loop``.
    traced: str
    #: The construct: ``loop``.
    noun: str
    #: What else helps: ``run the loop with mode='evaluated'``.
    otherwise: str


def require_data(words: Words, snapshot: Snapshot, functions: Sequence[Callable[..., Any]]) -> None:
    """Refuse changes of NumPy arrays, sets and byte arrays, which hold again what they did."""
    for value in snapshot.restored():
        place = place_in_program(value, functions)
        what = "an object" if place is None else f"the object '{place}'"
        raise SymbolicValue(
            f"{words.function}(): {words.traced} changes {what} of type {describe(value)} in place, and is called once "
            f"for all elements and iterations. Use an array of Dr.Jit instead, or {words.otherwise}.")


def require_started(words: Words, snapshot: Snapshot) -> None:
    """Refuse that the body of a loop lets generators keep arrays where nothing was."""
    for generator, name in snapshot.begun:
        raise ArgumentError(
            f"{words.function}(): {words.traced} advances the generator '{generator.__name__}' to where it keeps an "
            f"array in its variable '{name}' for the first time, and later iterations would find it there. Advance it "
            f"before the {words.noun}, as far as it does the same each time, or {words.otherwise}.")


def require_variables(function: str, call: Call) -> None:
    """Refuse changes of what a function finds that is no place: what generators use in the middle of an expression, and
    what optimisers keep, unless they are arguments."""
    assert call.snapshot is not None
    for value in call.rekept:
        raise ArgumentError(
            f"{function}(): a function that is called here changes an object of type {describe(value)} which it finds "
            "elsewhere than among its arguments, and which would change for all elements. Pass it as an argument if it "
            "is an optimiser, and let the function use that only; otherwise change it before or afterwards.")
    for generator, name in call.snapshot.waiting:
        raise ArgumentError(
            f"{function}(): a function that is called here advances the generator '{generator.__name__}', which waits "
            f"in the middle of an expression with what it keeps in its variable '{name}': nobody else can change that. "
            "Let 'yield' be a statement of its own, or the value of one.")


def name_in_program(array: Any, functions: Sequence[Callable[..., Any]]) -> str:
    """An array, or another object, as the user knows it: by the name of a variable that the functions use."""
    word = "array" if isinstance(array, ArrayBase) else "object"
    place = place_in_program(array, functions)
    return f"an {word} of type {getattr(array, '_name', type(array).__name__)}" if place is None else \
        f"the {word} '{place}'"


def place_in_words(change: Change, functions: Sequence[Callable[..., Any]]) -> str:
    """A place, in words; lists and dictionaries by the name of a variable in which functions find them."""
    where = words_of(change.container, change.kind, change.key)
    if change.kind not in (LIST, DICT):
        return where
    name, cls = place_in_program(change.container, functions), type(change.container).__name__
    return where if name is None else where.replace(f" of a {cls}", f" of the {cls} '{name}'")


def place_in_program(sought: Any, functions: Sequence[Callable[..., Any]]) -> str | None:
    """The name of a variable, or of a part of it, in which functions, or those that they call, find an object."""
    queue: list[Any] = list(functions)  # and what those call, which are added meanwhile
    for function in itertools.islice(queue, _FUNCTIONS_SEARCHED):
        method, function = function, getattr(function, "__func__", function)
        code = getattr(function, "__code__", None)
        if code is None:
            continue
        cells = zip(code.co_freevars, function.__closure__ or (), strict=True)
        variables = {name: cell.cell_contents for name, cell in cells if cell != _EMPTY_CELL}
        queue += [value for value in variables.values() if hasattr(value, "__code__")]
        if method is not function and code.co_varnames:
            variables[code.co_varnames[0]] = method.__self__
        variables |= {name: function.__globals__[name] for name in code.co_names if name in function.__globals__}
        for name, value in variables.items():
            if value is sought:
                return str(name)
            if value.__class__ in _CONTAINERS:
                if len(value) <= _ENTRIES_SEARCHED:
                    for key, entry in list(value.items() if value.__class__ is dict else enumerate(value)):
                        if entry is sought:
                            return f"{name}[{key!r}]"
                continue
            attributes = getattr(value, "__dict__", {})
            for attribute in code.co_names:
                if attributes.get(attribute) is sought:
                    return f"{name}.{attribute}"
                if attribute not in attributes and not isinstance(value, ArrayBase):
                    method = getattr(type(value), attribute, None)
                    if method.__class__ is FunctionType:
                        queue.append(MethodType(method, value))
    return None


#: So many functions, of those that traced functions call, are searched for the name of an array.
_FUNCTIONS_SEARCHED, _ENTRIES_SEARCHED = 16, 256
_EMPTY_CELL = CellType()
_CONTAINERS = (list, tuple, dict, deque)
