"""Values that exist only inside a region that is being traced: which regions are open, and what errors say.

Nothing here runs while nodes are traced outside of regions.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterable, Sequence
from types import CodeType, FrameType
from typing import Any

from ..context import current, state
from ..errors import SymbolicValue
from ..flags import SYMBOLIC_SCOPE
from ..ops.table import COUNTER, IS_INDEXED, IS_WRITE, LITERAL, LOCAL, PHI, RESULT
from .extents import sized_as
from .frames import is_internal, user_place
from .labels import label_of
from .node import Node
from .region import arguments_of, is_apart, is_version, operands, origin_of

__all__ = ["Tracing", "become_memory", "call_site", "close", "describe_value", "has_ended", "innermost", "is_replaced",
           "is_same_in_all_elements", "is_unusable", "line_at", "new_region", "note_seen", "open_", "replace_version",
           "require_memory", "require_open", "scope_of", "scope_of_all", "seen_here",
           "size_for_program", "stands_for", "symbolic_error", "tells_elements_apart", "traced_elsewhere",
           "undo_writes", "user_line", "width_of_write", "writes_so_far", "written_outside"]

#: So many regions that have been closed are remembered.
_REMEMBERED = 256
#: An error looks at so many nodes for the variables that a value depends on.
_SEARCHED = 10_000

#: Numbers of regions: inner ones have larger numbers than those around them.
new_region = itertools.count(1).__next__


#: What most regions have no entries in: whoever adds the first one replaces it.
_NOTHING: dict[Any, Any] = {}
_EMPTY: list[Any] = []
_NONE: frozenset[int] = frozenset()


class Tracing:
    """A region that is being traced, and where it stands in the user's program."""

    __slots__ = ("adopted", "again", "apart", "asked", "borrowed", "by_index", "cautious", "constants", "deferred",
                 "defers", "differentiates", "entering", "entries", "id", "initial", "journal", "label", "functions",
                 "latest", "live", "looked", "measured", "noun", "open", "outer", "outside", "perhaps_read", "place",
                 "reached", "read", "refused", "relied", "roots", "single", "statements", "taped", "uniform",
                 "variables", "widths")

    def __init__(self, label: str | None, place: tuple[CodeType, int] | None, functions: Any = None,
                 variables: int = sys.maxsize, noun: str = "loop") -> None:
        self.id = new_region()
        #: What it is part of: a ``loop``, ``branch`` or ``call``.
        self.noun = noun
        #: The construct's label.
        self.label = label
        #: Where the user's call stands.
        self.place = place
        #: The user's functions, which have names of the state variables or arguments by their positions, and from
        #: ``variables`` on, of arrays of the caller's that it writes to (``the array 'x'``); only as long as the region
        #: is open.
        self.functions = functions
        self.variables = variables
        self.open = True
        self.outer: Tracing | None = None
        #: What formals stand for at first, by their positions; only as long as the region is open.
        self.initial: Sequence[Node] = _EMPTY
        #: What notes changes of arrays that were made outside, if anything does (see :mod:`drjit._access.store`).
        self.journal: Any = None
        #: Whether operations on duals are recorded, and whether they are for a tape (see
        #: :mod:`drjit_core.derivatives.tape`).
        self.differentiates = self.taped = False
        #: If it is found out in the end which of them are differentiated: by the ids of vertices that variables have
        #: here, those that they have outside, as far as they have some.  What there is no derivative of is noted until
        #: then: vertices that it depends on, and what is to be raised, with which message.
        self.entries: dict[int, Any] | None = None
        self.refused: list[tuple[Any, type[Exception], str]] = _EMPTY
        #: The mask of elements that take part in what is being traced, and in what came before (a loop's condition).
        self.live: Node | None = None
        self.entering: Node | None = None
        #: Whether all elements do the same: there are several only because so many are written at once.
        self.uniform = False
        #: Whether, if that is so of a region around it, what is being written is meant for each of them.
        self.apart = False
        #: The widths of its writes, in their order; and what they were when it still was a region of one element.
        self.widths: list[int] = _EMPTY
        self.single: list[int] = _EMPTY
        #: Positions of formals that turned out to be accessed by index after the program had asked for their size.
        self.by_index: frozenset[int] = _NONE
        #: Whether the program has asked how many elements a value of it has; and what the values from outside are
        #: computed of that it has asked this of.
        self.asked = False
        self.measured: frozenset[int] = _NONE
        #: What the program has looked at, of values from outside.
        self.read: frozenset[int] = _NONE
        #: Values that were there before, of which what it has looked at was computed before, or perhaps once more.
        self.perhaps_read: frozenset[int] = _NONE
        #: Constants that it reads by index, in memory, by their ids.
        self.constants: dict[int, Node] = _NOTHING
        #: Whether the user's functions must be called again if it is to be traced again.
        self.again = False
        #: Whether it can be traced again for what turns out about constructs within, and whether it is to be.
        self.defers = self.deferred = False
        #: Whether constructs within have relied on that, or on its width, which may be why something
        #: went wrong.
        self.relied = self.cautious = False
        #: What turned out to be a variable: its number, what it is before, what stands for it in this trace (duals, if
        #: they have derivatives), and what it becomes.
        self.adopted: list[tuple[int, Node, Node, Node]] = _EMPTY
        #: The ids of the vertices from outside that traversals within have reached, also those in regions within; and
        #: of those, formals included, of which the program has looked at the gradients.
        self.reached: frozenset[int] = _NONE
        self.looked: frozenset[int] = _NONE
        #: The formal that each version of this region, which a write has replaced or made, goes back to, by ids.
        self.roots: dict[int, int] = _NOTHING
        #: The last version of each formal that was written to, by the formal's id.
        self.latest: dict[int, Node] = _NOTHING
        #: The ids of what was written that is no formal: the region must be traced again, with a formal for it.
        self.outside: frozenset[int] = _NONE
        #: Memory of statements that it writes to, and the formals that stand for it (see :mod:`.deferred`).
        self.borrowed: dict[Any, Node] = _NOTHING
        #: Its statements, in the order of the program.
        self.statements: list[Any] = _EMPTY


_known: dict[int, Tracing] = {}
#: Those that are closed, as far as they are remembered.
_closed: list[Tracing | None] = [None] * _REMEMBERED


def open_(region: Tracing) -> None:
    """Trace into a region from now on."""
    context = current()
    _known[region.id] = context.open[region.id] = region
    region.outer, context.region, context.scope = context.region, region, region.id
    context.flags |= SYMBOLIC_SCOPE


def close(region: Tracing) -> None:
    """The region is traced: from now on nothing of it may be used but its results."""
    context, outer = current(), region.outer
    region.open, region.functions, region.live, region.entering, region.journal = False, None, None, None, None
    del context.open[region.id]
    context.region, context.scope = outer, 0 if outer is None else outer.id
    region.outer, region.initial, region.entries = None, _EMPTY, None
    region.latest = region.borrowed = region.constants = _NOTHING
    region.statements = region.adopted = region.refused = _EMPTY
    if outer is None:
        context.flags &= ~SYMBOLIC_SCOPE
    place = region.id % _REMEMBERED
    oldest, _closed[place] = _closed[place], region
    if oldest is not None:
        _known.pop(oldest.id, None)


def innermost() -> Tracing | None:
    """The region that this thread is tracing."""
    region: Tracing | None = current().region
    return region


def has_ended(node: Node) -> bool:
    """Whether an array is a value of a region that nobody traces any more."""
    place = _known.get(node.scope) if node.scope else None
    return node.scope != 0 and (place is None or not place.open)


def require_open(node: Node) -> None:
    """Refuse a value of a region that is not open in this thread."""
    if node.scope not in current().open:
        raise symbolic_error(node)


def _elsewhere(number: int) -> Tracing | None:
    """The region of some id, if another thread is tracing it."""
    region = _known.get(number)
    return region if region is not None and region.open and number not in current().open else None


def seen_here(vertex: Any) -> Any:
    """What the vertex of a variable is for a thread that is not tracing its region: what that has outside, if any."""
    region = _elsewhere(vertex.scope)
    if region is None:
        return vertex
    entries = region.entries
    return None if entries is None else entries.get(vertex.id)


def traced_elsewhere(nodes: Sequence[Node]) -> Node | None:
    """A value of a region that another thread is tracing, if there is one among some."""
    for node in nodes:
        if node.scope and _elsewhere(node.scope) is not None:
            return node
    return None


def scope_of(*nodes: Node | None) -> int:
    """The innermost region that some operands depend on: 0 if none, and all of them must be open."""
    return scope_of_all(nodes)


def scope_of_all(nodes: Iterable[Node | None]) -> int:
    """The innermost region that operands in a sequence depend on, see :func:`scope_of`."""
    scope, context = 0, current()
    for node in nodes:
        if node is not None and node.scope:
            if node.scope != context.scope and node.scope not in context.open:
                raise symbolic_error(node)
            if node.scope > scope:
                scope = node.scope
    return scope


def require_memory(operation: str, source: Node) -> None:
    """Refuse to access by index what is computed in a region; state variables of loops get a second chance.

    A version that a write has replaced cannot be read any more: regions make no copies of memory.
    """
    if not source.scope or source.kind == LOCAL:
        return
    region: Tracing | None = state.open.get(source.scope)
    if region is not None:
        if is_replaced(source):
            raise _replaced(source, operation)
        if is_version(source):
            return
        if source.kind == PHI and source.attr >= 0:  # from now on it is memory
            before = region.initial[source.attr]
            require_memory(operation, before)
            if region.asked and source.size != before.size:
                region.by_index |= {source.attr}  # the program knows a number of elements that it has not
            become_memory(source, before)
            return
        if is_apart(source):
            assert source.d0 is not None
            require_memory(operation, source.d0)
            return
    raise symbolic_error(source, operation, "an access by index needs an array in memory")


def become_memory(formal: Node, before: Node) -> None:
    """Let a formal stand for an array in memory from now on, of the size of what it is outside, which may have become
    memory since."""
    formal.payload, formal.size = True, before.size
    if state.recording is not None:
        sized_as(formal, (before,))


def note_seen(node: Node) -> None:
    """Note that the program has looked at elements of a value that is known: what it has been computed of while a
    region was traced, and what was there before, must not be changed by that."""
    region: Tracing | None = current().region
    regions: list[Tracing] = []
    while region is not None:
        regions.append(region)
        region = region.outer
    masks = [mask for region in regions for mask in (region.entering, region.live) if mask is not None]
    first = min([mask.id for mask in masks], default=node.id)
    perhaps: set[int] = set()
    todo, seen = [node], {node.id}
    while todo and len(seen) + len(perhaps) < _SEARCHED:
        node = todo.pop()
        found = seen if node.id > first and node.id not in perhaps else perhaps
        for operand in operands(node):
            if operand.id not in seen and operand.id not in perhaps and operand.kind != LITERAL:
                found.add(operand.id)
                todo.append(operand)
    for region in regions:
        region.read = region.read | seen
        region.perhaps_read = region.perhaps_read | perhaps
        region.again |= bool(todo)


def size_for_program(node: Node) -> int:
    """How many elements a node has, for a program that may depend on it: a region that has turned out to have another
    number is traced by calling the user's functions again, and a program that is being recorded is good for this size
    only."""
    region: Tracing | None
    context = current()
    if context.recording is not None:
        int(context.recording.extent(node))
    if not node.scope:
        region = context.region
        if region is not None and node.id not in region.measured:
            _note_measured(node, region)
        return node.size
    region = state.open.get(node.scope)
    while region is not None:
        region.asked = True
        region = region.outer
    return node.size


def _note_measured(node: Node, region: Tracing | None) -> None:
    """Note what a value is computed of whose number of elements the program knows now."""
    seen, todo = {node.id}, [node]
    while todo and len(seen) < _SEARCHED:
        for operand in operands(todo.pop()):
            if operand.id not in seen:
                seen.add(operand.id)
                todo.append(operand)
    while region is not None:
        region.measured = region.measured | seen
        region = region.outer


def stands_for(node: Node) -> Node:
    """What a formal stands for at first, or what has been told apart; other nodes as they are."""
    while True:
        if node.kind == PHI and node.attr >= 0 and node.scope in state.open:
            node = state.open[node.scope].initial[node.attr]
        elif is_apart(node):
            assert node.d0 is not None
            node = node.d0
        else:
            return node


def replace_version(target: Node, version: Node) -> None:
    """Note that a write of the region that is being traced, if there is one, has made a version of another."""
    region = innermost()
    if region is None:
        return
    if target.scope == region.id:
        region.roots, region.latest = region.roots or {}, region.latest or {}
        root = region.roots.setdefault(target.id, target.id)
        region.roots[version.id] = root
        region.latest[root] = version
    else:
        region.outside |= {target.id}


def is_replaced(version: Node) -> bool:
    """Whether a write of an open region has made another version of memory that is known there."""
    region: Tracing | None = state.open.get(version.scope)
    if region is None or version.id not in region.roots:
        return False
    return region.latest[region.roots[version.id]] is not version


def writes_so_far(region: Tracing) -> tuple[Any, ...]:
    """What has been written in a region so far."""
    return dict(region.roots), dict(region.latest), list(region.widths)


def undo_writes(region: Tracing, before: Any) -> None:
    """Forget what has been written since, to no effect: nothing refers to it."""
    region.roots, region.latest, region.widths = before


def written_outside(node: Node) -> Node | None:
    """The version that the innermost region's writes began with, if a node is what they made of outside memory."""
    region = innermost()
    if region is None or node.scope != region.id or not is_version(node):
        return None
    origin = origin_of(node, region.id)
    return None if origin.scope == region.id else origin


def width_of_write(region: Tracing, width: int) -> int:
    """The width of the next write of a region, as the program means it: 1 also if only the region has become wider."""
    number = len(region.widths)
    if region.uniform and number < len(region.single):
        width = region.single[number]
    region.widths = region.widths or []
    region.widths.append(width)
    return width


def is_same_in_all_elements(node: Node, region: int = 0) -> bool:
    """Whether a value of a region whose elements all do the same does not tell them apart, as far as that is easily
    seen: it is computed from the region's variables, and from single values.

    The region is the one that is being traced, if no other is given.
    """
    if not region:
        tracing = innermost()
        if tracing is None or not tracing.uniform:
            return False
        region = tracing.id
    stack, seen = [node], {node.id}
    while stack:
        node = stack.pop()
        if node.size == 1 or node.kind == PHI and node.scope == region:
            continue
        if not node.scope or node.kind in (COUNTER, PHI, RESULT) or len(seen) > _SEARCHED:
            return False
        for operand in _inputs(node):
            if operand is not None and operand.id not in seen:
                seen.add(operand.id)
                stack.append(operand)
    return True


def _inputs(node: Node) -> list[Node]:
    """What a value is computed from: of a read, all but the memory."""
    return arguments_of(node) if IS_INDEXED[node.kind] and not IS_WRITE[node.kind] else operands(node)


def tells_elements_apart(node: Node, literals: bool = False) -> bool:
    """Whether a value is computed from the positions of elements, or from several values that were there before;
    ``literals`` tells whether these may be a literal, as which one value for all elements may be written as well."""
    stack, seen = [node], {node.id}
    while stack:
        node = stack.pop()
        if node.kind == COUNTER or not node.scope and node.size > 1 and (literals or node.kind != LITERAL):
            return True
        if not node.scope and node.size == 1:
            continue  # one value, whatever it is computed from
        if len(seen) > _SEARCHED:
            return False
        inner: Any = _inputs(node)
        if node.kind == PHI and (origin := stands_for(node)) is not node:
            inner = (origin,)
        for operand in inner:
            if operand is not None and operand.id not in seen:
                seen.add(operand.id)
                stack.append(operand)
    return False


# --- the user's side of the stack ------------------------------------------------------------------------------------


def user_line() -> tuple[str, int] | None:
    """File and line of the innermost frame that is the user's."""
    return line_at(user_place())


def line_at(place: tuple[CodeType, int] | None) -> tuple[str, int] | None:
    """File and line of a place; the latter takes a search in the code's table."""
    if place is None:
        return None
    code, position = place
    return code.co_filename, next((line for first, end, line in code.co_lines() if first <= position < end and line),
                                  code.co_firstlineno)


def call_site(otherwise: str) -> str:
    """The function of this project that the user called, as the user knows it: ``drjit.llvm.Bool.__bool__``.

    It is found among the frames of the stack; ``otherwise`` names it if they have no public name, which those of
    translated functions have not.
    """
    if otherwise and "." not in otherwise:
        otherwise = f"drjit.{otherwise}"
    frame: FrameType | None = sys._getframe()
    called: FrameType | None = None
    while frame is not None and is_internal(frame):
        if frame.f_globals["__name__"] != "contextlib":
            called = frame
        frame = frame.f_back
    if called is None:
        return otherwise
    code = called.f_code
    first = code.co_varnames[0] if code.co_argcount and "<locals>" not in code.co_qualname else ""
    if first:
        cls = type(called.f_locals.get(first))
        name = _method_name(cls, code, first == "self")
        if cls.__module__.partition(".")[0] == "drjit_core" or first == "self" and "._" in cls.__module__:  # nobody's
            return otherwise
        if name or first == "self":
            return f"{cls.__module__}.{cls.__qualname__}.{name}" if name else otherwise
    return _function_name(called.f_globals["__name__"], code) or otherwise


def _method_name(cls: type, code: CodeType, named: bool) -> str:
    """What users of a class call the method whose code is given: ``__pow__``; empty if it is none of theirs. ``named``:
    whether it is known by its own name."""
    names = [code.co_name] if named and hasattr(cls, code.co_name) else [
        name for base in cls.__mro__ for name, member in vars(base).items()
        if getattr(member, "__code__", None) is code]
    return next((name for name in names if not name.startswith("_") or name.endswith("__")), "")


def _function_name(module: str, code: CodeType) -> str:
    """What users call the function of a module whose code is given: ``drjit.array_api.inv``; empty if it is none of
    theirs."""
    if code.co_name.startswith("_"):
        return ""
    public: list[str] = []
    for part in module.split("."):
        if part.startswith("_"):
            break
        public.append(part)
    places = [".".join(public[:count]) for count in range(1, len(public) + 1)]
    for place in places:
        if getattr(vars(sys.modules[place]).get(code.co_name), "__code__", None) is code:
            return f"{place}.{code.co_name}"
    # what stands under its name may be made of it
    return f"{places[0]}.{code.co_name}" if code.co_name in vars(sys.modules[places[0]]) and len(places) == 1 else ""


# --- words -----------------------------------------------------------------------------------------------------------


def _formals(node: Node) -> list[Node]:
    """The state variables and arguments that a value is computed from, in the order of their making."""
    found: list[Node] = []
    stack, seen = [node], {node.id}
    while stack and len(seen) < _SEARCHED:
        node = stack.pop()
        if node.kind == PHI:
            if node.attr >= 0:
                found.append(node)
            continue
        for operand in operands(node):
            if operand.scope and operand.id not in seen:
                seen.add(operand.id)
                stack.append(operand)
    return sorted(found, key=lambda formal: formal.id)


def _quoted(names: list[str]) -> str:
    """``'x'``, ``'x' and 'y'``, ``'x', 'y' and 2 more``."""
    shown = [f"'{name}'" for name in names[:3]]
    if len(names) > 3:
        shown = [*shown[:2], f"{len(names) - 2} more"]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


#: What the constructs call their variables; how a value leaves them.
_VARIABLE = {"loop": "state variable", "branch": "argument", "call": "argument"}
_RETURN = {"loop": "return it from the loop's body as part of the state",
           "branch": "return it from both functions of the branch", "call": "return it from the functions of the call"}
_PLURAL = {"loop": "loops", "branch": "branches", "call": "calls"}


def _noun(place: Tracing | None) -> str:
    return "loop" if place is None else place.noun


def _construct_words(place: Tracing | None) -> str:
    """``the symbolic loop 'newton' (program.py:12)``."""
    noun = _noun(place)
    line = None if place is None else line_at(place.place)
    words = f"a symbolic {noun}" if place is None or not (place.label or line) else f"the symbolic {noun}"
    if place is not None and place.label:
        words += f" '{place.label}'"
    if line is not None:
        words += f" ({line[0]}:{line[1]})"
    return words


def describe_value(node: Node) -> str:
    """What a symbolic value is: ``the state variable 'x' of the symbolic loop 'newton' (program.py:12)``."""
    region = node.scope
    origin = origin_of(node, region)
    formals = _formals(node) if not is_version(node) else [origin] if origin.kind == PHI else []
    place = _known.get(region)
    # an inner loop's values may depend on variables of the loops around it only
    names: dict[str, list[str]] = {}
    arrays: list[str] = []
    if is_version(node) and is_apart(origin) and place is not None and place.functions is not None:
        arrays = [place.functions.name_of(position) for position, value in enumerate(place.initial)
                  if position >= place.variables and value is origin.d0][:1]
    for formal in formals:
        where = _known.get(formal.scope)
        name = None if where is None or where.functions is None else where.functions.name_of(formal.attr)
        if where is not None and name is not None:
            group = names.setdefault(_VARIABLE[where.noun], []) if formal.attr < where.variables else arrays
            group.append(name)
    construct = _construct_words(place)
    label = label_of(node)
    labelled = f", labelled '{label}'," if label is not None else ""
    if not names:
        if not arrays:
            return f"an array that {construct} writes to" if is_version(node) else f"a value{labelled} of {construct}"
        found = arrays[0] if len(arrays) == 1 else f"{len(arrays)} arrays"
        return f"{found}, which {construct} writes to" if is_version(node) else \
            f"a value{labelled} computed from {found}, which {construct} writes to"
    variables = " and ".join(f"the {word}{'s' if len(found) > 1 else ''} {_quoted(found)}"
                             for word, found in names.items())
    if node.kind == PHI or is_version(node):
        return f"{variables} of {construct}"
    if all(formal.scope == region for formal in formals):
        return f"a value{labelled} computed from {variables} of {construct}"
    return f"a value{labelled} of {construct}, computed from {variables}"


def _replaced(version: Node, operation: str) -> SymbolicValue:
    """The exception for an access to what an array held before a write of the region that is being traced."""
    noun = _noun(_known.get(version.scope))
    line = user_line()
    at = f" ({line[0]}:{line[1]})" if line else ""
    return SymbolicValue(
        f"{call_site(operation)}(){at}: this array is an older copy of {describe_value(version)}; it was written to "
        f"since, and symbolic {_PLURAL[noun]} keep no older contents of arrays. Do this before the write, let the "
        f"{noun} write to no copy that it makes of it, or run the {noun} with mode='evaluated'.")


def is_unusable(node: Node) -> bool:
    """Whether a node stands for a value that nobody can use: it may be held and handed on."""
    return node.kind == PHI and type(node.payload) is str


def symbolic_error(node: Node, operation: str = "", need: str = "", function: str = "") -> SymbolicValue:
    """The exception for an operation on a symbolic value that must be known.

    ``operation`` is the name of the function if the stack does not tell it (and empty for operators and the like),
    ``function`` that of one which does not ask the stack, ``need`` says what it needs the value for.
    """
    function, line = function or call_site(operation), user_line()
    function = f"{function}()" if function else "operation"
    place = _known.get(node.scope)
    at = f" ({line[0]}:{line[1]})" if line else ""
    told = stands_for(node) if is_apart(node) else node
    if is_unusable(told):
        return SymbolicValue(f"{function}{at}: {told.payload}")
    what, noun = describe_value(node), _noun(place)
    if place is not None and place.open and node.scope not in state.open:
        return SymbolicValue(
            f"{function}{at}: this array is symbolic: it is {what}, which another thread is tracing. Such a value "
            f"exists only in that thread, while the {noun} is traced: use the {noun}'s results once it has been, or "
            f"compute in the thread that traces the {noun}.")
    if place is None or not place.open:
        return SymbolicValue(
            f"{function}{at}: this array is symbolic: it is {what}, which has ended. Such a value exists only while "
            f"the {noun} is traced: {_RETURN[noun]} to use it afterwards, or run the {noun} with mode='evaluated'.")
    if need:
        return SymbolicValue(
            f"{function}{at}: {need}, but this array is symbolic: it is {what}, which is being traced, and has no "
            f"values before the {noun} runs. Compute what is needed before the {noun}, or run the {noun} with "
            "mode='evaluated'.")
    return SymbolicValue(
        f"{function}{at}: this array is symbolic: it is {what}, which is being traced, and has no values before the "
        f"{noun} runs. To choose between values use drjit.select(), to look at them run the {noun} with "
        "mode='evaluated'.")
