"""The dimensions of the table, which cells exist, and which must be refused."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from typing import NamedTuple

__all__ = ["ACTIONS", "DIMENSIONS", "PLACES", "STRUCTURE", "Cell", "cells", "exclusion", "refusal", "sample"]

#: Kinds of what is changed, by a letter. ``V``, ``B`` and ``W`` are parts of an array that is looked at as well, ``H``
#: and ``G`` are arrays a part of which somebody holds.
LEAVES = {
    "F": "flat array", "I": "integers", "N": "nested array", "D": "dynamic array", "M": "matrix", "C": "complex number",
    "Q": "quaternion", "T": "tensor", "A": "array_api", "S": "table", "X": "texture", "P": "PCG32", "R": "rng",
    "V": "component", "B": "array of a tensor", "W": "array_api view", "H": "nested array, component held",
    "G": "tensor, array held"}
_LETTERS = {name: letter for letter, name in LEAVES.items()}
_NUMBERS = "FINDMCQTAVBWHG"  # arrays with arithmetic, an element each of which belongs to a lane


class Action(NamedTuple):
    """What is done: statements, where ``{e}`` is the expression of what is changed; and to which kinds."""

    text: str
    leaves: str = _NUMBERS
    holders: str = ""  # all, unless some are named


#: ``k`` is the number of the lane, ``v`` has a value for each.
ACTIONS = {
    "+=": Action("{e} += 2"),
    "+= by another name": Action("t = {e}\nt += 2"),
    "*=": Action("{e} *= 3"),
    "-= /=": Action("{e} -= 1\n{e} /= 2", "FNDMCQTVBH"),
    "|= <<=": Action("{e} |= 1\n{e} <<= 2", "I"),
    "[0] +=": Action("{e}[0] += 2", "NDMCQH"),
    "[1] = of [0]": Action("{e}[1] = {e}[0] * 2", "NDMCQH"),
    ".x +=": Action("{e}.x += 2", "NH"),
    ".real +=": Action("{e}.real += 2", "C"),
    ".w *=": Action("{e}.w *= 2", "Q"),
    "[0, 1] +=": Action("{e}[0, 1] += 2", "M"),
    ".zx *=": Action("{e}.zx *= 2", "NH"),
    "[mask] =": Action("{e}[{e} > 2] = 9", "FINTAVBWHG"),
    "[mask] +=": Action("{e}[{e} > 2] += 5", "FITVBG"),
    "[lane] =": Action("{e}[k] = v", "FSV"),
    "[lane] +=": Action("{e}[k] += v", "FSV"),
    "[0] = 7": Action("{e}[0] = 7", "S"),
    "scatter": Action("dr.scatter({e}, v, k)", "FSV"),
    "scatter_add": Action("dr.scatter_add({e}, v, k)", "FSV"),
    "scatter_add to one place": Action("dr.scatter_add({e}, v, 3)", "S"),
    "scatter_max": Action("dr.scatter_reduce(dr.ReduceOp.Max, {e}, v, 2)", "S"),
    "write of a texel": Action("{e}.write([k], [v])", "X"),
    "two writes and a lookup": Action("{e}.write([k], [7])\n{e}.write([k], [{e}.eval([(k + 0.5) / 4]).x + v])", "X"),
    "lookup": Action("t = {e}.eval([(k + 0.5) / 4])", "X"),
    "view +=": Action("t = {e}[:]\nt += 2", "AW"),
    "draw": Action("{e}.next_float32()", "P"),
    "two draws": Action("{e}.next_uint32()\n{e}.next_float64()", "P"),
    "uniform": Action("{e}.uniform(F, 4)", "R"),
    "rebound entry": Action("{e} = {e} + 2", holders="list, dict, data class, struct, object, deep"),
    "rebound name": Action("q = q + 2", holders="bare"),
    "append": Action("q.append({e} + 1)", holders="list"),
    "new key": Action("q['b'] = {e} + 1", holders="dict"),
    "nothing": Action("t = {e} + 1"),
}
#: What the other side of a branch, or another target, does.
OTHERS = {**dict.fromkeys(_NUMBERS, "t = {e}\nt *= 5"), "S": "dr.scatter_add({e}, v, k)", "X": "{e}.write([k], [9])",
          "P": "{e}.next_uint32()\n{e}.next_float32()", "R": "{e}.uniform(F, 4)\n{e}.uniform(F, 4)"}

#: Where it is, and the expression of it there.
HOLDERS = {"bare": "q", "list": "q[0]", "tuple": "q[0]", "dict": "q['a']", "data class": "q.v", "struct": "q.v",
           "object": "q.v", "deep": "q['a'][0][1].v"}


class Place(NamedTuple):
    """Constructs, the outermost first; what is done on the other side; and, for four lanes, ``c`` (the condition of
    branches), ``n`` (iterations), ``s`` (which target) and ``a`` (active lanes of calls)."""

    chain: tuple[str, ...]
    other: str = "nothing"
    c: tuple[bool, ...] = (True, False, True, False)
    n: tuple[int, ...] = (0, 1, 3, 2)
    s: tuple[int, ...] = (0, 1, 0, 1)
    a: tuple[bool, ...] = (True,) * 4
    raises: bool = False


_NESTED = {f"{inner} in {outer}": Place((outer, inner)) for outer, inner in (
    ("while", "if"), ("if", "while"), ("while", "switch"), ("switch", "while"), ("if", "if"), ("if", "switch"),
    ("switch", "if"), ("switch", "switch"))}
PLACES = {
    "if": Place(("if",)),
    "if, other side": Place(("if",), "moved"),
    "if, both sides": Place(("if",), "same"),
    "if, sides differ": Place(("if",), "other"),
    "if, other side rebinds": Place(("if",), "rebinds"),
    "if, no lane": Place(("if",), c=(False,) * 4),
    "if, all lanes": Place(("if",), c=(True,) * 4),
    "if, raises": Place(("if",), raises=True),
    "while": Place(("while",)),
    "while, no iteration": Place(("while",), n=(0,) * 4),
    "while, one": Place(("while",), n=(1,) * 4),
    "while, three": Place(("while",), n=(3,) * 4),
    "while, raises": Place(("while",), raises=True),
    "switch": Place(("switch",)),
    "switch, targets differ": Place(("switch",), "other"),
    "switch, masked": Place(("switch",), "other", a=(True, True, False, False)),
    "switch, raises": Place(("switch",), raises=True),
    "dispatch": Place(("dispatch",)),
    **_NESTED,
}

DIMENSIONS: dict[str, tuple[str, ...]] = {
    "action": tuple(ACTIONS),
    "leaf": tuple(LEAVES.values()),
    "holder": tuple(HOLDERS),
    "place": tuple(PLACES),
    #: How the construct comes by it: an argument that is returned, or not, or from which something new is made; two
    #: arguments that are one object; a variable of the function around it; one of the module.
    "reach": ("returned", "kept", "new", "twice", "captured", "global"),
    "by": ("statements", "a function"),
    "style": ("functions", "syntax"),
    "mode": ("scalar", "symbolic", "evaluated", "compressed"),
    "derivatives": ("none", "reverse", "forward"),
}


class Cell(NamedTuple):
    """One value of each dimension."""

    action: str
    leaf: str
    holder: str
    place: str
    reach: str
    by: str
    style: str
    mode: str
    derivatives: str

    @property
    def letter(self) -> str:
        """The kind of what is changed."""
        return _LETTERS[self.leaf]

    @property
    def chain(self) -> tuple[str, ...]:
        """The constructs around it."""
        return PLACES[self.place].chain

    @property
    def is_shared(self) -> bool:
        """Whether it is memory that all lanes have in common."""
        return self.letter in "SX"

    @property
    def by_index(self) -> bool:
        """Whether it is memory, parts of which are written to."""
        return self.is_shared or "lane" in self.action or "scatter" in self.action

    @property
    def spends(self) -> bool:
        """Whether nobody can use what was given afterwards: iterations of a symbolic loop write to it by index, and
        return what a call has returned, which is another array."""
        place = PLACES[self.place]
        return self.by_index and self.mode == "symbolic" and place.chain == ("while", "switch") and \
            self.reach in ("returned", "twice") and self.action not in ("nothing", "lookup") and \
            self.holder != "object"

    @property
    def name(self) -> str:
        """All values."""
        return " | ".join(self)


def _rebinds_beside(cell: Cell) -> bool:
    return PLACES[cell.place].other == "rebinds"


def exclusion(cell: Cell) -> str:
    """Why there is no such cell; the empty string if there is."""
    action, place, letter = ACTIONS[cell.action], PLACES[cell.place], cell.letter
    if letter not in action.leaves or action.holders and cell.holder not in action.holders.split(", "):
        return "this cannot be done to that"
    text = action.text
    if cell.holder == "tuple" and (text.startswith("{e} ") or _rebinds_beside(cell)):
        return "Python refuses to assign entries of tuples"
    if cell.action == "rebound name" and cell.by != "statements":
        return "a function has names of its own"
    if cell.reach in ("captured", "global") and cell.holder == "bare" and \
            (cell.action == "rebound name" or _rebinds_beside(cell)):
        return "assigning variables of other functions is another thing"
    if _rebinds_beside(cell) and (letter not in _NUMBERS or cell.by != "statements"):
        return "it would not know how"
    if cell.reach == "new" and (cell.holder != "bare" or cell.style != "functions" or len(place.chain) > 1 or
                                letter not in _NUMBERS or place.raises or place.other == "rebinds"):
        return "a result of the construct itself, of an array"
    if cell.reach == "kept" and cell.style == "functions" and place.chain[0] == "while":
        return "loops return their state"
    if cell.reach == "twice" and place.raises:
        return "nothing is returned"
    if cell.style == "syntax" and not set(place.chain) <= {"if", "while"}:
        return "there is no statement for it"
    if cell.mode == "compressed" and "while" not in place.chain:
        return "loops remove elements"
    if cell.mode == "scalar" and (place.raises or letter in "SXAWVBHG" or cell.derivatives != "none"):
        return "Python does it itself, or there is no such thing"
    if place.a != (True,) * 4 and cell.reach not in ("kept", "captured", "global"):
        return "what elements get that are not active is not the question"
    few = {"switch", "dispatch"} & {*place.chain} and cell.mode == "evaluated" or cell.mode == "compressed"
    if letter == "R" and few:
        return "what is drawn has a number for each lane"
    if cell.action in ("append", "new key") and cell.reach in ("captured", "global") and cell.mode != "scalar":
        return "what a function notes down is its own business: once for each call"
    if cell.action == "[0] = 7" and place.raises and cell.mode in ("evaluated", "compressed"):
        return "what the host or a kernel has written is not undone"
    if cell.derivatives != "none" and (letter in "IPR" or place.raises):
        return "it has no derivative"
    return ""


#: What an error says of elements that would have lists or dictionaries of different lengths.
STRUCTURE = "structure|size|length|keys|entries"
#: What is refused by design, and the words of the error.
COMPRESSED = "removes elements that have finished"
GIVEN_ELEMENTS = "by index (to|from) the argument|out of bounds"
BY_INDEX = "by index, and (computes with all|given other values|a value)|accessed by index and given other values"


def refusal(cell: Cell) -> tuple[str, bool]:
    """A pattern of the error that a cell may raise, and whether it must; an empty pattern if it has a value.

    (Lists that have grown in some elements only are refused as well: the model knows where.)
    """
    place, outside = PLACES[cell.place], cell.reach in ("captured", "global")
    if cell.mode in ("evaluated", "compressed") and {"switch", "dispatch"} & {*place.chain} and \
            not outside and cell.holder != "object" and cell.letter != "X":  # which is given as a whole
        # A function has arrays of fewer elements, but for those in objects that are no PyTrees.
        if cell.by_index:
            return GIVEN_ELEMENTS, not place.raises
        if cell.letter in "AW" or cell.action == "[mask] +=":
            return GIVEN_ELEMENTS, False  # some of what views and masks do is done by index
    if cell.mode == "compressed" and (outside or cell.style == "syntax") and not place.raises:
        return COMPRESSED, False  # what loops refer to has all elements, while some have left
    if cell.letter in "FV" and ("lane" in cell.action or "scatter" in cell.action) and \
            cell.mode == "symbolic" and (place.other in ("other", "rebinds") or cell.reach == "new"):
        return BY_INDEX, False  # a region writes to memory, or computes with values
    if cell.letter in "AW" and cell.action == "rebound name" and cell.reach == "twice" and \
            cell.mode == "symbolic" and place.chain[0] == "while":
        return "which is given twice, and are two afterwards", False  # functions get one copy of what is one object
    if cell.spends and cell.reach == "twice":
        return "returns another one, and finds the first one", False  # calls return another array: that is memory, too
    return "", False


def cells() -> Iterator[Cell]:
    """All cells."""
    for values in itertools.product(*DIMENSIONS.values()):
        cell = Cell(*values)
        if not exclusion(cell):
            yield cell


def sample(strength: int, seed: int = 0, patience: int = 200) -> list[Cell]:
    """Cells such that any ``strength`` values of different dimensions that go together are together in one of them.

    (Nearly: the search ends after ``patience`` cells in a row that bring nothing new.)
    """
    source, seen, found, misses = random.Random(seed), set[tuple[tuple[int, str], ...]](), list[Cell](), 0
    by_letter = {letter: [name for name, action in ACTIONS.items() if letter in action.leaves] for letter in LEAVES}
    while misses < patience:
        leaf = source.choice(DIMENSIONS["leaf"])
        values = [source.choice(by_letter[_LETTERS[leaf]]), leaf, *map(source.choice, list(DIMENSIONS.values())[2:])]
        cell = Cell(*values)
        if exclusion(cell):
            continue
        new = set(itertools.combinations(enumerate(cell), strength)) - seen
        misses = 0 if new else misses + 1
        if new:
            seen |= new
            found.append(cell)
    return found
