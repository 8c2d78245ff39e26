"""What programs work on, what is seen of it afterwards, and what Python does with one element at a time."""

from __future__ import annotations

import dataclasses
import functools
import linecache
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

import drjit as dr
from drjit import array_api, llvm, scalar
from drjit._trees.pytree import flatten
from drjit.llvm import ad

from .table import PLACES, Cell, Place
from .texts import text_of

__all__ = ["LANES", "Expected", "Observation", "Setting", "Stop", "array_of", "expected", "expected_of_lane", "observe",
           "package", "program_of"]

LANES = 4
Numbers = np.ndarray[Any, Any]


class Stop(Exception):
    """Raised on purpose."""


class Differ(Exception):
    """Elements have lists of different lengths."""


# --- objects ---------------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Data:
    """A data class."""

    v: Any


class Plain:
    """An object with an attribute, which is no PyTree."""

    def __init__(self, v: Any = None) -> None:
        self.v = v


@functools.cache
def struct_of(leaf: type) -> type[Plain]:
    """A class that is a PyTree by its annotation."""
    return type("Struct", (Plain,), {"DRJIT_STRUCT": {"v": leaf}})


class Instance:
    """What ``dr.dispatch`` chooses by."""

    def __init__(self, acts: bool) -> None:
        self.acts = acts


def _held(holder: str, leaf: Any, neighbour: Any) -> Any:
    """A holder of what is changed, in some beside something that is not."""
    return {"bare": lambda: leaf, "list": lambda: [leaf, neighbour], "tuple": lambda: (leaf, neighbour),
            "dict": lambda: {"a": leaf, "z": neighbour}, "data class": lambda: Data(leaf),
            "struct": lambda: struct_of(type(leaf))(leaf), "object": lambda: Plain(leaf),
            "deep": lambda: {"a": [(neighbour, struct_of(type(leaf))(leaf))]}}[holder]()


def _texture(m: Any) -> Any:
    """Four texels that are written to."""
    texture = m.Texture1f([LANES], 1, writable=True)
    texture.set_value(m.Float(10, 20, 30, 40))
    return texture


def _leaf(letter: str, m: Any, x: Any, lanes: Sequence[int]) -> tuple[Any, dict[str, Any]]:
    """What is changed, made of ``x``, and what else is looked at afterwards."""
    one = m is scalar
    parts = [x * (k + 1) for k in range(4)]
    if letter in "FI":
        kind = "i" if letter == "I" else "f"
        return (getattr(m, f"ArrayX{kind}")(x) if one else getattr(m, "Int" if kind == "i" else "Float")(parts[1])), {}
    if letter in "NVH":
        array = m.Array3f(*parts[:3])
        return (array, {}) if letter == "N" else (array.y, {"owner": array}) if letter == "V" else \
            (array, {"held": array.y})
    if letter in "TBGAW":
        tensor = m.TensorXf(m.ArrayXf(x) if one else parts[1], shape=(len(lanes),))
        if letter in "AW":
            array = array_api.asarray(tensor)
            return (array, {}) if letter == "A" else (array[:], {"owner": array})
        return (tensor, {}) if letter == "T" else (tensor.array, {"owner": tensor}) if letter == "B" else \
            (tensor, {"held": tensor.array})
    made = {"D": lambda: m.ArrayXf(parts[:3]), "M": lambda: m.Matrix2f(*parts), "C": lambda: m.Complex2f(*parts[:2]),
            "Q": lambda: m.Quaternion4f(*parts), "S": lambda: m.ArrayXf(10, 20, 30, 40) if one else
            m.Float(10, 20, 30, 40), "X": lambda: _texture(m), "R": lambda: dr.rng(seed=0 if one else m.UInt(0)),
            "P": lambda: m.PCG32(1, 3 + lanes[0], 5 + lanes[0]) if one else
            m.PCG32(1, m.UInt64([3 + k for k in lanes]), m.UInt64([5 + k for k in lanes]))}
    return made[letter](), {}


# --- a program and what it is given ----------------------------------------------------------------------------------


@dataclasses.dataclass
class Setting:
    """What a program is called with: for all lanes, or for one; what it works on may be there already."""

    cell: Cell
    m: Any
    lanes: Sequence[int]
    place: Place
    subject: Any = None

    def __post_init__(self) -> None:
        one, cell = self.m is scalar, self.cell
        self.x = 1.0 + self.lanes[0] if one else self.m.Float([1.0 + k for k in self.lanes])
        if cell.derivatives != "none":
            dr.enable_grad(self.x)
        self.v = self.x * 5
        self.extras: dict[str, Any] = {}
        if self.subject is None:
            neighbour = self.x * 7 if not cell.is_shared or one else self.m.Float(7)
            leaf, self.extras = _leaf(cell.letter, self.m, self.x, self.lanes)
            self.subject = _held(cell.holder, leaf, neighbour)
        #: All that the caller holds, by its path. What is there once is known by its identity.
        self.before = dict(_walk(self.subject, "q")) | self.extras

    def column(self, values: Sequence[Any], kind: str) -> Any:
        """An argument: a number in ``drjit.scalar``."""
        found = [values[k % len(values)] for k in self.lanes]
        return found[0] if self.m is scalar else getattr(self.m, kind)(found)

    def arguments(self) -> dict[str, Any]:
        """What the program is called with."""
        place, single = self.place, len(self.lanes) == 1 and not self.cell.is_shared
        return {"q": self.subject, "c": self.column(place.c, "Bool"), "n": self.column(place.n, "UInt"),
                "s": self.column(place.s, "UInt"), "a": self.column(place.a, "Bool"), "i": self.column([0], "UInt"),
                "k": self.column([0] if single else range(LANES), "UInt"), "v": self.v}

    def call(self, names: Mapping[str, Any], instances: Sequence[Instance]) -> Any:
        """What the program returns, where ``names`` are those of constructs."""
        given = self.arguments()
        one = self.m is scalar
        scope = {"dr": dr, "F": self.m.ArrayXf if one else self.m.Float, "Stop": Stop, **names}
        if self.cell.reach == "global":
            scope["q"] = given.pop("q")
        if "dispatch" in self.cell.chain and not one and "plain" not in names:
            made = dr.instance_array(Instance, self.m.UInt)([instances[k] for k in self.place.s])
        else:
            made = instances[self.place.s[self.lanes[0] % LANES]]
        return program_of(self.cell, scope)(**given, instances=made)


def program_of(cell: Cell, scope: dict[str, Any]) -> Callable[..., Any]:
    """The function of a cell, whose source can be found."""
    text, file = text_of(cell), f"<program of {cell.name}>"
    linecache.cache[file] = len(text), None, text.splitlines(True), file
    exec(compile(text, file, "exec"), scope)
    found: Callable[..., Any] = scope["program"]
    return found


# --- what is seen ----------------------------------------------------------------------------------------------------


def _walk(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """All containers and leaves."""
    yield path, value
    if isinstance(value, (list, tuple)):
        for k, entry in enumerate(value):
            yield from _walk(entry, f"{path}[{k}]")
    elif isinstance(value, dict):
        for key, entry in value.items():
            yield from _walk(entry, f"{path}[{key!r}]")
    elif isinstance(value, (Data, Plain)):
        yield from _walk(value.v, f"{path}.v")


def _is_leaf(value: Any) -> bool:
    return value is not None and not isinstance(value, (list, tuple, dict, Data, Plain))


def _is_generator(value: Any) -> bool:
    return hasattr(value, "uniform")


def array_of(value: Any) -> Any:
    """The array of the library that holds the elements."""
    if isinstance(value, array_api._array.Array):
        return value.tensor
    return value.value() if getattr(value, "IsTexture", False) else value


def _flat(value: Any) -> list[Any]:
    """The flat arrays that hold the elements of an array of floating-point numbers, or texels."""
    value = array_of(value)
    if not dr.is_array_v(value) or not dr.is_float_v(value):
        return []
    if dr.is_tensor_v(value):
        return [value.array]
    return [value] if dr.depth_v(value) == 1 else [part for entry in value for part in _flat(entry)]


@dataclasses.dataclass
class Observation:
    """What is seen: numbers, lanes last, by the path of what has them; which object is where (the path that it had
    before, or ``None`` of a new one); derivatives by ``x``, or along it."""

    numbers: dict[str, Numbers]
    objects: dict[str, str | None]
    derivative: Numbers | None = None


def _numbers(value: Any, setting: Setting) -> Numbers:
    lanes = setting.lanes
    if _is_generator(value):  # each element draws what its own number makes of its own state
        one = setting.m is scalar
        drawn = np.array(value.uniform(setting.m.ArrayXf if one else setting.m.Float, LANES))
        return drawn[[k % LANES for k in lanes]] if setting.cell.letter == "R" else drawn
    if hasattr(value, "next_float32"):
        return np.stack([np.broadcast_to(np.array(part), (len(lanes),)) for part in (value.state, value.inc)])
    value = array_of(value)
    found = np.array(value)
    if setting.m is scalar and (dr.is_array_v(value) and setting.cell.letter not in "FITS" or found.ndim == 0):
        found = found[..., None]
    if not setting.cell.is_shared and found.shape[-1] == 1:
        found = np.broadcast_to(found, (*found.shape[:-1], len(lanes)))
    return found


def _seen(setting: Setting, result: Any) -> dict[str, Any]:
    """All that there is afterwards: what the caller held, what is in its containers now, what was returned."""
    seen = {f"old {path}": value for path, value in setting.before.items() if _is_leaf(value)}
    seen |= dict(_walk(setting.subject, "q"))
    seen |= dict(_walk(result, "result"))
    return seen


def observe(setting: Setting, result: Any, settings: Sequence[Setting] = ()) -> Observation:
    """What is seen afterwards; ``settings`` are those of all lanes that share what is looked at."""
    seen = _seen(setting, result)
    known = {id(value): path for path, value in setting.before.items()}
    objects = {path: known.get(id(value)) for path, value in seen.items()
               if not path.startswith("old ") and not isinstance(value, (int, float, type(None)))}
    if setting.cell.reach == "twice":
        objects.pop("result", None)  # a pair of results
    leaves = {path: value for path, value in seen.items() if _is_leaf(value) and (
        path.startswith("result") or not setting.cell.spends)}
    derivative = _derivative(leaves, setting, settings or (setting,)) if setting.cell.derivatives != "none" else None
    dr.eval(*[value for value in leaves.values() if dr.is_array_v(value) or getattr(value, "IsTexture", False)])
    numbers = {path: _numbers(value, setting) for path, value in leaves.items() if not _is_generator(value)}
    for path, value in leaves.items():
        if _is_generator(value) and path.startswith("old "):  # looking at one moves it on
            numbers[path] = _numbers(value, setting)
    return Observation(numbers, objects, derivative)


def _derivative(leaves: dict[str, Any], setting: Setting, settings: Sequence[Setting]) -> Numbers:
    """The gradient of a weighted sum of all numbers by ``x``; or its derivative, if all ``x`` grow."""
    total = dr.sum(settings[0].x)
    for other in settings[1:]:
        total += dr.sum(other.x)
    # What lanes share has elements of its own.
    shared = setting.cell.is_shared
    weights = setting.m.Float([10.0 ** k for k in (range(LANES) if shared else setting.lanes)])
    for number, path in enumerate(sorted(leaves)):
        for k, part in enumerate(_flat(leaves[path])):
            total += dr.sum(part * weights) * (1 + number + 3 * k)
    if setting.cell.derivatives == "reverse":
        dr.backward(total)
        return np.concatenate([np.broadcast_to(np.array(each.x.grad), (len(each.lanes),)) for each in settings])
    for each in settings:
        dr.set_grad(each.x, 1)
    return np.array(dr.forward_to(total))


# --- one element at a time -------------------------------------------------------------------------------------------


def _truth(value: Any) -> bool:
    return bool(value if isinstance(value, bool) else value[0])


def _plain_if(args: tuple[Any, ...], cond: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any]) -> Any:
    return (true_fn if _truth(cond) else false_fn)(*args)


def _plain_while(state: tuple[Any, ...], cond: Callable[..., Any], body: Callable[..., Any], **options: Any) -> Any:
    while _truth(cond(*state)):
        state = body(*state)
    return state


def _plain_switch(index: Any, targets: Sequence[Callable[..., Any]], *args: Any, active: Any = True) -> Any:
    if not _truth(active):
        return None
    return targets[index if isinstance(index, int) else int(index[0])](*args)


def _plain_dispatch(instance: Any, target: Callable[..., Any], *args: Any) -> Any:
    return target(instance, *args)


def _of_some_elements(call: Callable[..., Any]) -> Callable[..., Any]:
    """A call of functions that an array chooses: its results are new, since elements that take none have zeros; what is
    returned at two places is one result.

    But for memory, which all elements share: its values are those that the last one has left.
    """
    def called(*args: Any, **kwargs: Any) -> Any:
        return _renewed(call(*args, **kwargs), {})

    return called


def _renewed(value: Any, made: dict[int, Any]) -> Any:
    """A copy of a tree, and of the arrays in it."""
    found = made.get(id(value))
    if found is None:
        if isinstance(value, (list, tuple)):
            found = type(value)(_renewed(entry, made) for entry in value)
        elif isinstance(value, dict):
            found = {key: _renewed(entry, made) for key, entry in value.items()}
        elif dr.is_array_v(value):
            found = type(value)(value)
        else:
            leaves, spec = flatten(value, "")
            found = value if spec.children is None else spec.rebuild([_renewed(leaf, made) for leaf in leaves])
        made[id(value)] = found
    return found


def plain(cell: Cell) -> dict[str, Any]:
    """The constructs as Python has them."""
    switch, dispatch = (_plain_switch, _plain_dispatch) if cell.mode == "scalar" or cell.is_shared else (
        _of_some_elements(_plain_switch), _of_some_elements(_plain_dispatch))
    return {"plain": True, "if_stmt": _plain_if, "while_loop": _plain_while, "switch": switch,
            "dispatch": dispatch, "syntax": lambda function: function}


def package(cell: Cell) -> Any:
    """Where the types of a cell are from."""
    return scalar if cell.mode == "scalar" else llvm if cell.derivatives == "none" else ad


def _joined(observations: Sequence[Observation]) -> Observation:
    """What is seen of all lanes: an object is in a place if it is there in all of them."""
    first = observations[0]
    if any(other.objects.keys() != first.objects.keys() for other in observations):
        raise Differ
    numbers = {path: np.concatenate([other.numbers[path] for other in observations], axis=-1) for path in first.numbers}
    objects = {path: name if all(other.objects[path] == name for other in observations) else None
               for path, name in first.objects.items()}
    return Observation(numbers, objects)


def _lane_by_lane(cell: Cell, place: Place, count: int) -> Observation:
    """What Python does, in each lane by itself."""
    if cell.is_shared:
        return _one_after_the_other(cell, place, count)
    found = [observe_plainly(cell, place, lane) for lane in range(count)]
    joined = _joined(found)
    if cell.derivatives != "none":
        parts = [each.derivative for each in found if each.derivative is not None]
        joined.derivative = np.concatenate(parts) if cell.derivatives == "reverse" else np.sum(parts, axis=0)
    return joined


def _one_after_the_other(cell: Cell, place: Place, count: int) -> Observation:
    """What Python does if all lanes write to the same memory."""
    settings: list[Setting] = []
    results: list[Any] = []
    for lane in range(count):
        setting = Setting(cell, package(cell), [lane], place, settings[0].subject if settings else None)
        if settings:
            setting.before = settings[0].before
        results.append(None if place.raises else setting.call(plain(cell), [Instance(True), Instance(False)]))
        settings.append(setting)
    first = observe(settings[0], results[0], settings)
    rest = [observe(dataclasses.replace(setting, cell=cell._replace(derivatives="none")), result)
            for setting, result in zip(settings[1:], results[1:])]
    return dataclasses.replace(_joined([first, *rest]), numbers=first.numbers, derivative=first.derivative)


def _reaches(place: Place) -> tuple[Place, int]:
    """A place in which lanes take all ways that there are."""
    combinations = [(c, n, s) for c in ((True, False) if "if" in place.chain else (True,))
                    for n in ((0, 1, 3) if "while" in place.chain else (0,))
                    for s in ((0, 1) if {"switch", "dispatch"} & {*place.chain} else (0,))]
    c, n, s = zip(*combinations)
    return place._replace(c=c, n=n, s=s, a=(True,) * 4), len(combinations)


class Expected(NamedTuple):
    """What must be seen of a cell (``None`` if elements have lists of different lengths), which objects may be where,
    and whether it may be refused because elements could have lists of different lengths."""

    seen: Observation | None
    objects: list[dict[str, str | None]]
    may_differ: bool


@functools.lru_cache(maxsize=4096)
def _expected(cell: Cell) -> tuple[Observation | None, Observation | None]:
    """What is seen, and what would be if there were lanes that take each way."""
    wide, count = _reaches(PLACES[cell.place])
    found: list[Observation | None] = []
    for each, place, lanes in (cell, PLACES[cell.place], LANES), (cell._replace(derivatives="none"), wide, count):
        try:
            found.append(_lane_by_lane(each, place, lanes))
        except Differ:
            found.append(None)
    return found[0], found[1]


def expected(cell: Cell) -> Expected:
    """What is expected.

    What is only known when a kernel has run, which ways lanes take, decides nothing of objects: in symbolic mode it is
    as if there were lanes that take each. Evaluated mode may know better.
    """
    found, ways = _expected(cell._replace(mode="symbolic" if cell.spends else "evaluated"))
    if ways is None:
        return Expected(None if cell.mode == "symbolic" else found, [found.objects] if found else [], True)
    known = [ways.objects] if cell.mode == "symbolic" or found is None else [found.objects, ways.objects]
    if cell.is_shared and {"switch", "dispatch"} & {*PLACES[cell.place].chain}:
        known += [{path: None if path.startswith("result") else name for path, name in each.items()} for each in known]
    return Expected(found, known, False)


def expected_of_lane(cell: Cell, lane: int) -> Expected:
    """What is expected in scalar mode."""
    found = observe_plainly(cell, PLACES[cell.place], lane)
    return Expected(found, [found.objects], False)


def observe_plainly(cell: Cell, place: Place, lane: int) -> Observation:
    """What Python does in one lane."""
    setting = Setting(cell, package(cell), [lane], place)
    return observe(setting, None if place.raises else setting.call(plain(cell), [Instance(True), Instance(False)]))
