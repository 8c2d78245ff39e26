"""Whether functions ask if something is in a place, as caches do: ``if key not in table``, ``table.get(key)``,
``hasattr(obj, name)``, ``except KeyError``; or in which order the entries of dictionaries are.

The answer is one for all elements. Where one side of a branch fills a place with what depends on its elements, it would
be another one for those of the other side; where it changes an order, or an iteration does, another one later.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._base.errors import ArgumentError
from .._trees.kinds import CELL, LIST, OBJECT
from .places import Change
from .reads import Instruction, has_names, instructions_of, names_of_container
from .snapshot import Snapshot
from .wording import Words, place_in_words

__all__ = ["require_unasked", "require_unordered"]

#: What tells that there is nothing, by whether it would be found by its name, as attributes and variables are.
_ERRORS = {"KeyError", "LookupError", "IndexError", "Exception"}, {"AttributeError", "NameError", "Exception"}
#: Methods of containers that tell what is there, and functions.
_METHODS = {"__contains__", "copy", "get", "items", "keys", "pop", "popitem", "setdefault", "values"}
_FUNCTIONS = {"bool", "dict", "len", "list", "tuple"}
#: What finds entries in their order.
_IN_ORDER = {"dict", "enumerate", "items", "iter", "keys", "list", "map", "popitem", "reversed", "tuple", "values",
             "zip"}


def require_unasked(words: Words, known: Sequence[Snapshot | None], change: Change, who: str) -> None:
    """Refuse functions, by what is known of them, that may ask if something is in a new place which some elements have
    filled."""
    for each in [each for each in known if each is not None and may_ask(each, change)]:
        raise ArgumentError(
            f"{words.function}(): {who} asks whether there is {place_in_words(change, each.functions)}, and puts an "
            "array there that depends on the elements that it is called for, which others would not have. Put "
            f"something there before the {words.noun}.")


def require_unordered(words: Words, known: Snapshot, tables: Sequence[Any]) -> None:
    """Refuse functions, by what is known of them, that may ask for the order of dictionaries, of which some iterations
    or elements have changed it; of some only the types are known, by their names."""
    names: set[str | None] = set()
    for table in tables:
        names.update((None,) if isinstance(table, str) else names_of_container(known, table))
    if tables and any(_finds_order(instructions_of(code), names) for code in known.codes):
        cls = tables[0] if isinstance(tables[0], str) else type(tables[0]).__name__
        raise ArgumentError(
            f"{words.function}(): {words.traced} changes the order of the entries of a {cls}, which later iterations "
            "would find, and looks at entries in their order. Leave the order as it is, or "
            f"{words.otherwise}.")


def _finds_order(code: Sequence[Instruction], names: set[str | None]) -> bool:
    """Whether a function may find the entries of a container that has some names, or that a local variable holds."""
    for place, (operation, name) in enumerate(code):
        if operation == "GET_ITER" or operation in ("LOAD_ATTR", "LOAD_METHOD") and name in _IN_ORDER:
            loaded = code[place - 1]
        elif operation == "LOAD_GLOBAL" and name in _IN_ORDER:
            loaded = code[_end_of_call(code, place) - 1]
        else:
            if operation in ("DICT_UPDATE", "DICT_MERGE"):
                return True
            continue
        if loaded[0] in ("LOAD_FAST", "BINARY_SUBSCR") or _is_container(loaded, names):
            return True
    return False


def may_ask(known: Snapshot, change: Change) -> bool:
    """Whether functions, and those that they know, may ask if something is in a new place. Of what they append to lists
    nobody knows what it is the place of."""
    container, kind, key = change[:3]
    by_name = has_names(container, kind) or kind == CELL
    if kind == LIST:
        return False
    if kind == OBJECT and [code for code in known.codes if code.co_name == "__getattr__"]:
        return True
    names = set() if by_name else set(names_of_container(known, container))
    for code in known.codes:
        found = instructions_of(code)
        for place, (operation, name) in enumerate(found):
            if operation.startswith("LOAD_") and operation != "LOAD_CONST" and name in _ERRORS[by_name]:
                return True
            if _asks_by_name(found, place, key) if by_name else _asks_of(found, place, names):
                return True
    return False


def _asks_by_name(code: Sequence[Instruction], place: int, key: Any) -> bool:
    """Whether an instruction is where an attribute is asked for, which may be some one."""
    operation, name = code[place]
    if not operation.startswith("LOAD_") or operation == "LOAD_CONST" or name not in (
            "hasattr", "getattr", "vars", "__dict__", "globals"):
        return False
    end = _end_of_call(code, place)
    texts = [value for each, value in code[place:end] if each == "LOAD_CONST" and isinstance(value, str)]
    return not texts or key in texts


def _asks_of(code: Sequence[Instruction], place: int, names: set[str | None]) -> bool:
    """Whether an instruction asks what is in a container that has some names, or in what a local variable holds."""
    operation, name = code[place]
    if place and (operation == "CONTAINS_OP" or operation in ("LOAD_ATTR", "LOAD_METHOD") and name in _METHODS):
        return code[place - 1][0] in ("LOAD_FAST", "BINARY_SUBSCR") or _is_container(code[place - 1], names)
    if place and (operation == "GET_ITER" or operation.startswith("POP_JUMP")):
        return _is_container(code[place - 1], names)
    return operation == "LOAD_GLOBAL" and name in _FUNCTIONS and _is_container(
        code[_end_of_call(code, place) - 1], names)


def _is_container(loaded: Instruction, names: set[str | None]) -> bool:
    operation, name = loaded
    return operation.startswith("LOAD_") and operation not in ("LOAD_CONST", "LOAD_FAST") and (
        name in names or None in names)


def _end_of_call(code: Sequence[Instruction], place: int) -> int:
    """Where the function that an instruction loads is called."""
    return next((k for k in range(place + 1, len(code)) if code[k][0].startswith(("CALL", "PRECALL"))), len(code))
