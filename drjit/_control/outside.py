"""What functions that are traced change outside of themselves: the bodies of loops, branches, and what calls call.

Writes by index to arrays that were made outside are part of the construct: it is traced again with these arrays as
further variables. Other changes in place are refused, and name the array as the user knows it.
"""

from __future__ import annotations

import gc
import itertools
import sys
from collections.abc import Callable, Iterator, Sequence
from types import MethodType
from typing import Any, NamedTuple

import drjit_core as core
from drjit_core import Node, SymbolicValue

from .._access.store import Journal
from .._base.array import ArrayBase
from .._base.nodes import broadcast
from .assigned import EMPTY_CELL, ENTRIES_SEARCHED, method_of

__all__ = ["Again", "Captured", "TracedAgain", "Wider", "Words", "captured_earlier", "name_in_program",
           "require_no_leftovers", "variables_of", "widened"]


class Words(NamedTuple):
    """What messages call a construct and its parts."""

    #: The user's function: ``drjit.while_loop``.
    function: str
    #: What is traced: ``the body of this symbolic loop``.
    traced: str
    #: How an array becomes part of the construct: ``make it a state variable: ...``.
    remedy: str
    #: The construct: ``loop``.
    noun: str
    #: What else helps: ``run the loop with mode='evaluated'``.
    otherwise: str


class Captured(NamedTuple):
    """A component of an array from outside that traced functions write to by index."""

    array: ArrayBase
    position: int  # of the component
    initial: Node
    #: The function that was found to write to it, if that was in the trace before.
    path: tuple[int, ...] | None = None


class TracedAgain(Exception):
    """Functions are left, since they are going to be traced, or called, once more."""


class Again(TracedAgain):
    """Arrays from outside are written to: trace again, with them as further variables."""

    def __init__(self, captured: list[Captured]) -> None:
        super().__init__("arrays from outside are written to")
        self.captured = captured


class Wider(TracedAgain):
    """Local memory that a region accesses is too narrow, or not written yet: do that first, and trace the outermost
    construct again."""

    def __init__(self, widen: Callable[[], None]) -> None:
        super().__init__("local memory is to be changed outside")
        self.widen = widen


def variables_of(nodes: list[Node], captured: list[Captured]) -> list[Node]:
    """What a construct is given: the nodes of a state or of arguments, and arrays from outside that it writes to."""
    return [*nodes, *[entry.initial for entry in captured]] if captured else nodes


def captured_earlier(around: Journal) -> list[Captured]:
    """What this construct wrote to when the function around it was traced before: or each level would double traces.
    """
    number = len(around.inner)
    if number >= len(around.earlier):
        return []
    found = []
    for reference, position in around.earlier[number]:
        array = reference()
        if array is not None:
            node = array._nodes()[position]
            # an array of an earlier trace lives on as long as an exception that was raised in it is kept
            if core.is_version(node) and node.scope in core.state.open:
                found.append(Captured(array, position, node))
    return found


def widened(journals: Sequence[Journal], around: Journal | None, nodes: Sequence[Node],
            leaves: Sequence[Any]) -> list[Node] | None:
    """The nodes of a state or of arguments, in which the components of an array are as large as each other; ``None`` if
    that would not help functions, which were to write to narrower ones by index.

    What belongs to a construct around this one is made wider by that, which is traced again, too.
    """
    if not any(journal.narrow for journal in journals):
        return None
    found, start = list(nodes), 0
    for leaf in leaves:
        if isinstance(leaf, ArrayBase) and leaf._dynamic:
            count = len(leaf._nodes())
            width = max([node.size for node in nodes[start:start + count]], default=0)
            for position in range(start, start + count):
                node = nodes[position]
                if not node.scope:
                    found[position] = broadcast(node, width)
                elif node.size < width and around is not None:
                    around.narrow = True
            start += count
    return found if found != list(nodes) else None


def require_no_leftovers(words: Words, journal: Journal, captured: list[Captured], formals: Sequence[Node],
                         functions: Sequence[Callable[..., Any]]) -> None:
    """Refuse changes of arrays from outside that are no writes by index; ask for another trace because of such writes.

    Arrays of a function's own may change as they like; but to write by index to them needs memory that each lane has
    for itself.
    """
    region = core.innermost()
    assert region is not None
    holders = _Holders(functions)
    known = {(id(entry.array), entry.position) for entry in captured}
    found: list[Captured] = []
    for array, before in journal.entries.values():
        for position, (old, new) in enumerate(zip(before, array._nodes(), strict=True)):
            if new is old or old.scope == region.id or (id(array), position) in known:
                continue
            origin = core.written_outside(core.primal(new))
            if origin is not None and id(array) in journal.buffers.arrays:
                found.append(Captured(array, position, origin, journal.path))
                continue
            if origin is None and not holders.keep(array):
                continue
            if origin is None:
                raise SymbolicValue(
                    f"{words.function}(): {words.traced} changes {name_in_program(array, functions)}, which was made "
                    "outside, as a whole. Elements of it may be written by drjit.scatter(); to give it new values, "
                    f"{words.remedy}, or {words.otherwise}.")
            if not holders.keep(array):
                raise _own_memory(words, array)
            found.append(Captured(array, position, origin, journal.path))
    for owner, values in journal.attributes.values():
        if not any(isinstance(value, ArrayBase) and any(node.scope == region.id for node in value._nodes())
                   for value in values.values()) and holders.keep(owner):
            raise SymbolicValue(
                f"{words.function}(): {words.traced} changes {name_in_program(owner, functions)}, which was made "
                f"outside. {words.remedy[0].upper()}{words.remedy[1:]}, or {words.otherwise}.")
    if found:
        # what the last trace wrote to and this one, which may know more, does not; or each time there is another array
        idle = [entry for entry, formal in zip(captured, formals, strict=True)
                if entry.path == journal.path and entry.array._nodes()[entry.position] is formal
                and id(entry.array) not in journal.buffers.arrays]
        for entry in idle:
            if len(idle) > _MOST_IDLE or sys.getrefcount(entry.array) <= 2 + sum(
                    [1 for other in captured if other.array is entry.array]):
                raise _own_memory(words, entry.array)
        raise Again([*captured, *found])


#: Beyond so many arrays that the last trace wrote to, and this one does not, they are taken for one that is made anew.
_MOST_IDLE = 16

#: References to an array in :meth:`_Holders.keep` that the journal and its reader hold.
_JOURNALED = 4


class _Holders:
    """Who holds an array, or another object, that the body of a loop has changed.

    Cycles can hold what nobody uses any more; to find them costs as much as all objects of the program, so that it is
    done once at most, and not for what the functions can be seen to use.
    """

    __slots__ = ("collected", "functions")

    def __init__(self, functions: Sequence[Callable[..., Any]]) -> None:
        self.functions = functions
        self.collected = False

    def keep(self, array: Any) -> bool:
        """Whether anybody but the journal holds an array."""
        if sys.getrefcount(array) <= _JOURNALED:
            return False
        if self.collected or _place(array, self.functions) is not None:
            return True
        gc.collect()
        self.collected = True
        return sys.getrefcount(array) > _JOURNALED


def _own_memory(words: Words, array: ArrayBase) -> SymbolicValue:
    return SymbolicValue(
        f"{words.function}(): {words.traced} writes by index to an array of type {array._name} that it has made "
        f"itself, of which there is one for all elements. Make it before the {words.noun}, or {words.otherwise}; "
        "memory that each element has for itself is made by drjit.alloc_local().")


def name_in_program(array: Any, functions: Sequence[Callable[..., Any]]) -> str:
    """An array, or another object, as the user knows it: by the name of a variable that the functions use."""
    word = "array" if isinstance(array, ArrayBase) else "object"
    place = _place(array, functions)
    return f"an {word} of type {getattr(array, '_name', type(array).__name__)}" if place is None else \
        f"the {word} '{place}'"


def _place(sought: Any, functions: Sequence[Callable[..., Any]]) -> str | None:
    """The name of a variable, or of a part of it, in which functions, or those that they call, find an object."""
    queue = list(functions)  # and what those call
    for function in itertools.islice(_growing(queue), _FUNCTIONS_SEARCHED):
        method, function = function, getattr(function, "__func__", function)
        code = getattr(function, "__code__", None)
        if code is None:
            continue
        cells = zip(code.co_freevars, function.__closure__ or (), strict=True)
        variables = {name: cell.cell_contents for name, cell in cells if cell != EMPTY_CELL}
        queue += [value for value in variables.values() if hasattr(value, "__code__")]
        if method is not function:
            variables[code.co_varnames[0]] = method.__self__
        variables |= {name: function.__globals__[name] for name in code.co_names if name in function.__globals__}
        for name, value in variables.items():
            if value is sought:
                return str(name)
            if value.__class__ in _CONTAINERS:
                if len(value) <= ENTRIES_SEARCHED:
                    for key, entry in list(value.items() if value.__class__ is dict else enumerate(value)):
                        if entry is sought:
                            return f"{name}[{key!r}]"
                continue
            attributes = getattr(value, "__dict__", {})
            for attribute in code.co_names:
                if attributes.get(attribute) is sought:
                    return f"{name}.{attribute}"
                if attribute not in attributes and not isinstance(value, ArrayBase):
                    method = method_of(type(value), attribute)
                    if method is not None:
                        queue.append(MethodType(method, value))
    return None


def _growing(queue: list[Any]) -> Iterator[Any]:
    """The entries of a list that grows meanwhile."""
    position = 0
    while position < len(queue):
        yield queue[position]
        position += 1


#: So many functions, of those that traced functions call, are searched for the name of an array.
_FUNCTIONS_SEARCHED = 16
_CONTAINERS = (list, tuple, dict)
