"""Which arrays from outside a function that was traced has changed: those of its own may change as they like."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Container, Iterator, Sequence
from typing import Any

import drjit_core as core
from drjit_core import Node, SymbolicValue, primal

from .._access.store import Journal
from .._base.array import ArrayBase
from .called import Call
from .state import is_retracked
from .wording import Words, name_in_program, place_in_program

__all__ = ["changed_arrays", "require_no_writes"]

_OPAQUE = core.KIND["opaque"]


def changed_arrays(words: Words, journal: Journal, known: set[int], functions: Sequence[Callable[..., Any]],
                   call: Call, variables: Container[Any], returned: Sequence[Any] = (),
                   lent: Container[Any] = ()) -> Iterator[tuple[ArrayBase, int, Node, Node]]:
    """Components of arrays from outside that a function has changed: what they were, and what they are.

    ``variables`` are known to be from outside, by the identity of the array and the position of the component;
    ``returned`` are the leaves of what it returned, in a list and in the tree. What is ``lent`` is an argument, or part
    of one.

    Arrays of a function's own may change as they like; but to write by index to them needs memory that each lane has
    for itself.
    """
    if not journal.entries:
        return
    region = core.innermost()
    assert region is not None
    owners = _Holders(functions, call)
    for array, before, _ in journal.entries.values():
        if id(array) in known:
            continue
        for position, (old, new) in enumerate(zip(before, array._nodes(), strict=True)):
            if new is old or (id(array), position) in lent:
                continue
            origin = core.written_outside(primal(new))
            if (id(array), position) not in variables and not journal.is_memory(array):
                most = _JOURNALED + 2 * sum([leaf is array for leaf in returned])
                own = old.scope == region.id or _references(array) <= most
                while not own and not owners.use(array):
                    own = _references(array) <= most
                if own and origin is not None:
                    raise _own_memory(words, array)
                if own:
                    continue
            if origin is not None and origin is not primal(old) and _is_of_another(origin, old, journal):
                raise SymbolicValue(
                    f"{words.function}(): {words.traced} puts the contents of an array that it writes to by index in "
                    f"the place of those of {name_in_program(array, functions)}. Read them with drjit.gather() "
                    f"instead, or {words.otherwise}.")
            if is_retracked(new, old):
                raise SymbolicValue(
                    f"{words.function}(): {words.traced} enables or disables derivatives of "
                    f"{name_in_program(array, functions)}: they are those of the whole array, whichever elements take "
                    f"part. Do that before the {words.noun}, use drjit.detach(), or {words.otherwise}.")
            yield array, position, old if origin is None else origin, new


def _is_of_another(origin: Node, old: Node, journal: Journal) -> bool:
    """Whether memory that was written to is what another component held, and not this one, which held ``old``."""
    origins = (origin, origin.d0) if origin.kind == _OPAQUE else (origin,)
    return primal(old) not in origins and any(
        primal(node) in origins for _, before, _ in journal.entries.values() for node in before)


def _references(array: Any) -> int:
    """How many references to an array there are, those of the caller and of this function included."""
    return sys.getrefcount(array)


def _measured() -> int:
    """How many references there are to an array that nobody holds but a journal, and who reads that."""
    for array, _, _ in {0: (object(), [], None)}.values():
        return _references(array)
    raise AssertionError


#: That depends on the version of Python.
_JOURNALED = _measured()


class _Holders:
    """Who holds an array that a function has changed.

    Cycles can hold what nobody uses any more. To find them costs as much as all objects of the program, so that those
    that are new are looked at first, others once at most, and none for what the functions can be seen to use.
    """

    __slots__ = ("call", "functions", "generations")

    def __init__(self, functions: Sequence[Callable[..., Any]], call: Call) -> None:
        self.functions, self.call = functions, call
        self.generations = iter((1, 2))

    def use(self, array: Any) -> bool:
        """Whether the functions are seen to use an array, or all cycles are known; if not, some of these hold it no
        more."""
        generation = next(self.generations, -1)
        if generation < 0 or self.call.places_of(array) or place_in_program(array, self.functions) is not None:
            return True
        gc.collect(generation)
        return False


def require_no_writes(words: Words, arrays: Sequence[ArrayBase]) -> None:
    """Refuse writes by index to arrays that a function has made itself."""
    for array in arrays:
        if [node for node in array._nodes() if core.written_outside(primal(node)) is not None]:
            raise _own_memory(words, array)


def _own_memory(words: Words, array: ArrayBase) -> SymbolicValue:
    return SymbolicValue(
        f"{words.function}(): {words.traced} writes by index to an array of type {array._name} that it has made "
        f"itself, of which there is one for all elements. Make it before the {words.noun}, or {words.otherwise}; "
        "memory that each element has for itself is made by drjit.alloc_local().")
