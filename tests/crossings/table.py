"""The product of the three tables: which cells there are, which must raise, and which have no meaning."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .known import KNOWN, Known
from .model import kind_of
from .places import NOT_ONE, PLACES, Refusal
from .states import State
from .touches import TOUCHES, Touch

__all__ = ["EXCLUDED", "REFUSED", "Cell", "cells", "exclusion", "known", "refusal", "run"]


class Cell(NamedTuple):
    """A touch of a state in a place, with what rules need to know of it."""

    touch: Touch
    state: str
    place: str
    kind: str
    letter: str  # of the scalar type: b, i, u or f
    count: int  # elements, or lanes
    shape: tuple[int, ...]  # of the model

    @property
    def name(self) -> str:
        """How a failure names it."""
        return f"{self.touch.name}-{self.state}-{self.place}"

    @property
    def way(self) -> str:
        """How the array comes into the construct of the place, and how that is run: the place without its construct."""
        return self.place.removeprefix("branch-").removeprefix("call-").removeprefix(
            "nested-").removeprefix("compressed-")

    @property
    def room(self) -> str:
        """What the touch needs of this kind of array."""
        return self.touch.room(self.kind)


Predicate = Callable[[Cell], bool]


def _named(names: str) -> frozenset[str]:
    return frozenset(names.split())


# --- cells that have no meaning --------------------------------------------------------------------------------------

#: Predicates and reasons; the first that applies is the one.
EXCLUDED: list[tuple[Predicate, str]] = [
    (lambda c: c.place.startswith(("branch", "call")) and c.place.endswith("carried") and
     c.room != "lanes", "an argument that is accessed by index, or as a whole, is the array itself if nothing writes"),
    (lambda c: c.place.startswith(("branch", "call")) and c.count == 1,
     "where there is one element, the condition is a constant, and the construct part of what is around it"),
    (lambda c: c.place.startswith(("branch", "call")) and c.count == 0 and c.way.endswith("carried"),
     "an empty array has no lane that could take part"),
    (lambda c: "tracked" in c.state and c.way.startswith("symbolic"),
     "what tracks derivatives in symbolic constructs: see tests/control/test_derivatives.py"),
    (lambda c: not c.room or c.letter not in c.touch.letters, "*"),  # the row of the touch says why
    (lambda c: c.count == 0 and c.way.endswith("captured"),
     "an empty array has no lane that could be combined with those of a loop"),
    (lambda c: c.way.startswith(("symbolic", "evaluated")) and c.touch.name in _WIDE_RESULTS and c.count == 1,
     "how many elements an array of one has inside of a loop is not defined"),
    (lambda c: c.way == "symbolic-carried" and c.count == 1 and c.room in ("read", "write", "scatter") and
     c.touch.name.startswith(("slice", "key", "set-slice", "element", "item", "set-", "increase-")),
     "what covers all elements, or none, needs no memory"),
    (lambda c: c.way == "symbolic-carried" and c.count == 1 and
     c.touch.name in ("argmin", "argmax", "argmax-first", "argsort"),
     "the position of the only element needs no memory"),
    (lambda c: c.touch.name == "block-sum" and c.state.endswith("-broadcast"),
     "components of one element stay as they are, which depends on the operation: block-max has these states"),
    (lambda c: c.way == "evaluated-captured" and
     (c.count == 1 and c.touch.name == "set-mask-of-array" or
      c.state == "nested-broadcast" and c.touch.name == "set-mask-of-array"),
     "what is written to all lanes at once, when some have finished, is not defined"),
    (lambda c: c.way.startswith("symbolic") and c.touch.name == "print",
     "all iterations are printed at once, after the loop: tests/arrays/test_symbolic_print.py prints these states"),
    (lambda c: c.way == "symbolic-carried" and (c.touch.name == "slice-nothing" or "literal" in c.state) and
     c.room == "read" and c.touch.name.startswith(("slice", "item", "element", "key", "take", "list", "sum-axis")),
     "what covers all elements or none, or elements that are all the same, needs no memory"),
    (lambda c: c.count == 0 and c.kind in "ND" and c.touch.name in _COMPONENT_WRITES,
     "components that are written one by one need elements to go with the others"),
    (lambda c: c.state == "tensor-empty" and c.touch.name in ("add-list", "subtract-list"),
     "an empty list does not say how many columns it has"),
    (lambda c: c.state == "tensor-scalar" and c.touch.name == "add-one-element",
     "an array of one element has one dimension"),
    (lambda c: c.kind in "DM" and c.touch.name in ("slice", "slice-step"),
     "there is no type of matrices of one row"),
    (lambda c: c.touch.name.endswith("packet") and c.state == "int16",
     "there is no type of two components of this scalar type"),
    (lambda c: c.touch.name.endswith("packet") and c.count == 1, "a packet needs two elements"),
    (lambda c: c.place.startswith("compressed") and c.touch.name in _OF_ALL_LANES and c.kind not in "VTS",
     "operands of the host, and slices of others, are not those of the lanes that are left"),
    (lambda c: c.place.startswith("compressed") and c.count == 0 and c.touch.name in ("key-nested", "gather-tensor"),
     "no lanes are left that operands could be made for"),
    (lambda c: c.place.startswith("compressed") and c.touch.name == "scatter-after-copy",
     "an array that all lanes share is no value of those that are left"),
    (lambda c: c.touch.name == "scatter-inc" and c.state != "uint",
     "counters are unsigned numbers of 32 bits"),
]
_WIDE_RESULTS = _named("slice-none slice-column length list")
_LOOPS = ("symbolic", "evaluated")
_OF_ALL_LANES = _named(
    "add-list subtract-list or-list list-or add-numpy add-numpy-complex numpy-minus and-numpy less-numpy np-function "
    "function-of-numpy set-slice-wide random-uniform random-integers")
_COMPONENT_WRITES = _named("set-item set-item-last increase-item set-slice set-component increase-component "
                           "set-component-wide set-element")

# --- cells that must raise -------------------------------------------------------------------------------------------

_POSITIONS = _named("argmin argmax argmax-first median")
_LOCAL = _named("copy-write deepcopy-write pickle-write")
_ELEMENTS = _named("item item-last item-numpy element slice-lane set-item set-item-last increase-item key-numpy take "
                   "set-key-numpy increase-key-numpy set-row-wide set-element write-after-copy")
_OF_ONE = _named("float int range bool f-string-of-one")
_TARGET = Refusal((RuntimeError, TypeError, IndexError), "empty|out of bounds", "there is no element to write to")
_SYMBOLIC = Refusal((RuntimeError,), "symbolic", "the value of a symbolic array exists only while the loop runs")
_AS_A_WHOLE = Refusal((RuntimeError,), "symbolic.*changes.*as a whole|computes with all of its elements",
                      "an array from outside may be written by index, but not get other values as a whole")
_OWN = Refusal((RuntimeError,), "symbolic", "what is written in a symbolic loop has no values before it runs")
_TOGETHER = Refusal((RuntimeError,), "symbolic (loop|branch|call) with .* elements, each of which writes",
                    "what writes several elements at once is done by no single lane")
_ONE_VERSION = Refusal((RuntimeError,),
                       "symbolic.*(writes to|no values before the loop runs|accesses elements of|looks at elements of)",
                       "there is no copy of what an array held before a write of the construct")



def _is_loop(cell: Cell) -> bool:
    """Whether a construct repeats what it does."""
    return not cell.place.startswith(("branch", "call"))


#: What is written along the first axis, by touch: few elements, or rows.
_SELECTIONS: dict[str, Any] = {
    "set-item": 0, "set-item-last": 0, "increase-item": 0, "set-row-wide": 0, "set-element": (0, 0),
    "set-slice": slice(1, 3), "set-slice-list": slice(0, 1), "set-slice-shifted": slice(1, None),
    "set-slice-wide": slice(0, 2), "set-slice-numpy": slice(0, 2), "set-key-numpy": slice(0, 2),
    "increase-key-numpy": slice(0, 2),
}


def _written(cell: Cell) -> int:
    """How many elements a touch whose room is ``write`` writes."""
    if cell.touch.name == "scatter-storage":
        return 1
    key = _SELECTIONS[cell.touch.name]
    if cell.kind == "T" and key == slice(0, 2):
        key = 0  # one row
    return int(np.empty(cell.shape)[key].size)


def _replaces_all(cell: Cell) -> bool:
    """Whether a touch gives other values to an array as a whole."""
    if cell.room == "inplace":
        return not _changes_nothing(cell)
    return (cell.room == "write" and _written(cell) == cell.count == 1 and not cell.touch.name.endswith("key-numpy") and
            cell.touch.name != "scatter-storage" or cell.touch.name == "set-slice-reversed" and cell.count == 1) and \
        not _changes_nothing(cell)


def _changes_nothing(cell: Cell) -> bool:
    """Whether an array is given values that it is known to have."""
    return (cell.touch.name, cell.state) in _THE_SAME


_THE_SAME = {
    ("in-place-times", "tensor-scalar"), ("in-place-times", "tensor-one"), ("set-item", "nested-broadcast"),
    ("set-item", "complex-broadcast"), ("set-item-last", "complex-broadcast"),
    *((f"set-slice-{name}", "one-mask") for name in ("all", "list", "numpy", "reversed", "wide")),
}

REFUSED: list[tuple[Predicate, Refusal]] = [
    (lambda c: "tracked" in c.state and (c.touch.name.startswith("scatter-cas") or
                                         c.touch.name.startswith("scatter-exch") and c.way.startswith("symbolic")),
     Refusal((RuntimeError,), "no derivative of an update", "what an update finds decides what it does")),
    (lambda c: c.touch.name == "take-interp" and c.shape[0] < 2,
     Refusal((RuntimeError,), "at least 2 entries", "there is nothing to interpolate between")),
    (lambda c: c.touch.name in _POSITIONS and c.count == 0 and not (c.touch.name == "median" and c.kind == "T"),
     Refusal((RuntimeError,), "no elements", "an element that does not exist")),
    (lambda c: c.touch.name in _ELEMENTS and c.count == 0 and c.way == "symbolic-carried" and
     not (c.kind == "N" and c.touch.name.startswith("item")),  # which are components
     Refusal((IndexError,), "out of bounds", "the element does not exist")),
    (lambda c: c.touch.name == "set-item-beyond" or c.touch.name == "item-beyond" and (c.kind != "F" or c.count != 1),
     Refusal((IndexError,), "99.*out of bounds", "the element does not exist")),
    (lambda c: c.touch.name in _OF_ONE and c.count != 1 and c.way == "symbolic-carried",
     Refusal((TypeError, RuntimeError), "1 element|one element|symbolic", "a number has one element, and a value")),
    (lambda c: c.touch.name in _OF_ONE and c.count != 1, NOT_ONE),
    (lambda c: c.touch.name == "set-item-text" and c.count == 0 and c.kind in "FVTS",
     Refusal((IndexError,), "out of bounds", "the element does not exist")),
    (lambda c: c.touch.name == "key-rows" and c.count == 0, Refusal((IndexError,), "empty|out of bounds", "no rows")),
    (lambda c: c.touch.name == "set-item-text", Refusal((TypeError, RuntimeError), "str", "text is no number")),
    (lambda c: c.touch.name == "greater-special",
     Refusal((RuntimeError, TypeError), "no order", "there is no order among complex numbers")),
    (lambda c: c.touch.name == "key-nested",
     Refusal((TypeError,), r"invalid key.*UInt", "the first axis of a nested array has components, not lanes")),
    (lambda c: c.touch.name == "gather-tensor",
     Refusal((RuntimeError,), "tensor", "the shape of a result would be ambiguous")),
    (lambda c: c.touch.name == "set-slice-mismatch",
     Refusal((RuntimeError,), "cannot assign|incompatible|elements|broadcast", "three values are no one element")),
    (lambda c: c.touch.name in (*_LOCAL, "scatter-storage")
     and c.count == 0, _TARGET),
    (lambda c: c.way == "symbolic-carried" and c.count > 0 and c.touch.name in ("repr", "str", "f-string"),
     Refusal((), "symbolic", "text says that an array is symbolic")),
    (lambda c: c.way == "symbolic-captured" and c.touch.name in _LOCAL, _OWN),
    (lambda c: c.way.startswith("symbolic") and c.count > 0 and
     c.touch.name in ("write-after-copy", "scatter-after-copy") and
     (c.way == "symbolic-carried" or c.place.startswith("nested") or _is_loop(c)),
     _ONE_VERSION),
    (lambda c: c.way.startswith("symbolic") and c.touch.name == "increase-item" and c.room == "item" and
     (c.way == "symbolic-carried" or _is_loop(c)), _SYMBOLIC),
    (lambda c: c.way == "symbolic-carried" and c.count > 0 and c.room == "read", _SYMBOLIC),
    (lambda c: c.way.startswith("symbolic") and c.way != "symbolic-captured"
     and c.touch.name == "random-permutation" and c.shape[0] > 1, _SYMBOLIC),
    (lambda c: c.way.startswith("symbolic") and c.count > 0 and c.room == "write" and _written(c) > 1, _TOGETHER),
]


# --- the product -----------------------------------------------------------------------------------------------------


@functools.cache
def _facts(state: State) -> tuple[str, str, int, tuple[int, ...]]:
    sample = state.make()
    kind = kind_of(sample.array)
    value = sample.value
    return kind, value.dtype.kind, value.size if kind in "VTS" else value.shape[-1], value.shape


def cells(state: State, place: str) -> list[Cell]:
    """All cells of a state in a place, excluded ones as well."""
    return [Cell(touch, state.name, place, *_facts(state)) for touch in TOUCHES]


def exclusion(cell: Cell) -> str:
    """Why a cell has no meaning; the empty string if it has one."""
    for predicate, reason in EXCLUDED:
        if predicate(cell):
            return (cell.touch.why or "not meant for such arrays") if reason == "*" else reason
    return ""


def refusal(cell: Cell) -> Refusal | None:
    """The error that a cell must raise, if it must."""
    return next((refused for predicate, refused in REFUSED if predicate(cell)), None)


def known(cell: Cell) -> Known | None:
    """The defect that a cell is known to show."""
    return next((entry for entry in KNOWN if entry.covers(cell.touch.name, cell.state, cell.place)), None)


def run(state: State, place: str) -> dict[str, str]:
    """Run the cells of a state in a place: for each touch in words what went wrong.

    Cells that are known to destroy memory are left out.
    """
    included = [cell for cell in cells(state, place) if not exclusion(cell)]
    safe = {cell.touch.name: cell for cell in included if (entry := known(cell)) is None or not entry.crashes}
    return PLACES[place](state, [cell.touch for cell in safe.values()], lambda touch: refusal(safe[touch.name]))
