"""Values that exist only inside a region that is being traced: what an error says about them.

Nothing here runs before somebody asks for such a value, but for :class:`Place`, which a region makes when it is opened.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from types import FrameType

from ..errors import SymbolicValue
from ..flags import state
from ..ops.table import PHI
from .node import Node, label_of
from .region import operands

__all__ = ["PACKAGES", "Place", "ReadByIndex", "call_site", "close", "depends_on_formals", "describe_value",
           "is_internal", "open_", "require_memory", "symbolic_error", "user_line"]

#: Frames of these packages are not the user's.
PACKAGES = ("drjit_core", "drjit")

#: Places of regions that have been closed are remembered up to this number of regions.
_REMEMBERED = 256
#: An error looks at so many nodes for the variables that a value depends on.
_SEARCHED = 10_000


class Place:
    """Where a region stands in the user's program."""

    __slots__ = ("label", "line", "name_of", "open")

    def __init__(self, label: str | None, line: tuple[str, int] | None, name_of: Callable[[int], str] | None) -> None:
        #: The loop's label.
        self.label = label
        #: File and line of the user's call.
        self.line = line
        #: Names of the state variables by their positions; only as long as the region is open.
        self.name_of = name_of
        self.open = True


class ReadByIndex(BaseException):
    """A state variable is read by index: what traces its region starts again, with the variable's initial value.

    It passes through the user's function, and is no ``Exception`` lest that be caught there.
    """

    def __init__(self, region: int, position: int) -> None:
        super().__init__("a state variable is read by index")
        self.region, self.position = region, position


_places: dict[int, Place] = {}


def require_memory(operation: str, source: Node) -> None:
    """Refuse to read by index what is computed in a region; the state variables of loops get a second chance."""
    if source.scope:
        place = _places.get(source.scope)
        if source.kind == PHI and state.scope and place is not None and place.open:
            raise ReadByIndex(source.payload, source.attr)
        raise symbolic_error(source, operation, "an indirect read needs its source in memory")


def open_(region: int, place: Place) -> None:
    """Remember where a region stands."""
    _places[region] = place


def close(region: int) -> None:
    """The region is traced: from now on nothing of it may be used but its results."""
    place = _places[region]
    place.open, place.name_of = False, None
    for oldest in list(_places)[:max(0, len(_places) - _REMEMBERED)]:
        if not _places[oldest].open:
            del _places[oldest]


# --- the user's side of the stack ------------------------------------------------------------------------------------


def is_internal(frame: FrameType) -> bool:
    """Whether a frame belongs to this project, not to its user."""
    return frame.f_globals.get("__name__", "").partition(".")[0] in PACKAGES


def user_line() -> tuple[str, int] | None:
    """File and line of the innermost frame that is the user's."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if not is_internal(frame):
            return frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back
    return None


def call_site(otherwise: str) -> str:
    """The function of this project that the user called, as the user knows it: ``drjit.llvm.Bool.__bool__``.

    It is found among the frames of the stack; ``otherwise`` is the answer if they have no public name.
    """
    frame: FrameType | None = sys._getframe(1)
    called: FrameType | None = None
    while frame is not None and is_internal(frame):
        called, frame = frame, frame.f_back
    if called is None:
        return otherwise
    code, package = called.f_code, called.f_globals["__name__"].partition(".")[0]
    if code.co_argcount and code.co_varnames[0] == "self" and "<locals>" not in code.co_qualname:
        cls = type(called.f_locals["self"])
        return f"{cls.__module__}.{cls.__qualname__}.{code.co_name}"
    known = code.co_name in vars(sys.modules[package]) and not code.co_name.startswith("_")
    return f"{package}.{code.co_name}" if known else otherwise


def depends_on_formals(root: Node) -> bool:
    """Whether a value is computed from state variables of a loop, which are unknown outside of its region."""
    return bool(_formals(root, math.inf))


# --- words -----------------------------------------------------------------------------------------------------------


def _formals(node: Node, limit: float = _SEARCHED) -> list[Node]:
    """The state variables of regions that a value is computed from, in the order of their making."""
    found: list[Node] = []
    stack, seen = [node], {node.id}
    while stack and len(seen) < limit:
        node = stack.pop()
        if node.kind == PHI:
            found.append(node)
            continue
        for operand in operands(node):
            if operand.id not in seen:
                seen.add(operand.id)
                stack.append(operand)
    return sorted(found, key=lambda formal: formal.id)


def _quoted(names: list[str]) -> str:
    """``'x'``, ``'x' and 'y'``, ``'x', 'y' and 2 more``."""
    shown = [f"'{name}'" for name in names[:3]]
    if len(names) > 3:
        shown = [*shown[:2], f"{len(names) - 2} more"]
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def _loop_words(place: Place | None) -> str:
    """``the symbolic loop 'newton' (program.py:12)``."""
    words = "a symbolic loop" if place is None or not (place.label or place.line) else "the symbolic loop"
    if place is not None and place.label:
        words += f" '{place.label}'"
    if place is not None and place.line:
        words += f" ({place.line[0]}:{place.line[1]})"
    return words


def describe_value(node: Node) -> str:
    """What a symbolic value is: ``the state variable 'x' of the symbolic loop 'newton' (program.py:12)``."""
    formals = _formals(node)
    region = node.scope or next((formal.scope for formal in formals), 0)
    place = _places.get(region)
    # an inner loop's values may depend on variables of the loops around it only
    places = [_places.get(formal.scope) for formal in formals]
    names = [where.name_of(formal.attr) for formal, where in zip(formals, places, strict=True)
             if where is not None and where.name_of is not None]
    loop = _loop_words(place)
    label = label_of(node)
    labelled = f", labelled '{label}'," if label is not None else ""
    if not names:
        return f"a value{labelled} of {loop}"
    variables = f"the state variable{'s' if len(names) > 1 else ''} {_quoted(names)}"
    if node.kind == PHI:
        return f"{variables} of {loop}"
    if all(formal.scope == region for formal in formals):
        return f"a value{labelled} computed from {variables} of {loop}"
    return f"a value{labelled} of {loop}, computed from {variables}"


def symbolic_error(node: Node, operation: str, need: str = "") -> SymbolicValue:
    """The exception for an operation on a symbolic value that must be known.

    ``operation`` is the name of the function if the stack does not tell it, ``need`` says what it needs the value for.
    """
    function, line = call_site(operation), user_line()
    region = node.scope or next((formal.scope for formal in _formals(node)), 0)
    place = _places.get(region)
    at = f" ({line[0]}:{line[1]})" if line else ""
    what = describe_value(node)
    if place is None or not place.open:
        return SymbolicValue(
            f"{function}(){at}: this array is symbolic: it is {what}, which has ended. Such a value exists only while "
            "the loop is traced: return it from the loop's body as part of the state to use it afterwards, or run the "
            "loop with mode='evaluated'.")
    if need:
        return SymbolicValue(
            f"{function}(){at}: {need}, but this array is symbolic: it is {what}, which is being traced, and has no "
            "values before the loop runs. Compute what is needed before the loop, or run the loop with "
            "mode='evaluated'.")
    return SymbolicValue(
        f"{function}(){at}: this array is symbolic: it is {what}, which is being traced, and has no values before the "
        "loop runs. To choose between values use drjit.select(), to look at them run the loop with mode='evaluated'.")
