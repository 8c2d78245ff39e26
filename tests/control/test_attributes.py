"""Attributes are places, whatever the object is that has them: also of what others stand for while functions run."""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

import drjit as dr
from drjit.llvm import PCG32, Bool, Float, UInt

modes = pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
constructs = pytest.mark.parametrize("construct", ["loop", "branch", "call"])


class Tuple(tuple[Any, ...]):
    pass


class Pair(NamedTuple):
    first: Any


class Named(Pair):
    pass


class List(list[Any]):
    pass


class Dict(dict[Any, Any]):
    pass


class Queue(deque[Any]):
    pass


class Generator(PCG32):
    pass


class Array(Float):
    pass


class WithSlots(Float):
    __slots__ = ("__dict__", "extra")


class OnlySlots(Float):
    __slots__ = ("extra",)


STATE: dict[str, Callable[[], Any]] = {
    "tuple": lambda: Tuple([Float(1, 2, 3)]), "named tuple": lambda: Named(Float(1, 2, 3)),
    "list": lambda: List([Float(1, 2, 3)]), "dict": lambda: Dict(x=Float(1, 2, 3)),
    "deque": lambda: Queue([Float(1, 2, 3)]), "generator": lambda: Generator(size=3),
    "array": lambda: Array(1, 2, 3), "array with slots": lambda: WithSlots(1, 2, 3),
    "array with slots only": lambda: OnlySlots(1, 2, 3)}
OBJECTS: dict[str, Callable[[], Any]] = {
    **STATE, "partial": lambda: functools.partial(len), "exception": lambda: ValueError("a"),
    "exception of the user's": lambda: type("Error", (KeyError,), {})(1), "function": lambda: lambda: None}


def run(construct: str, mode: str, step: Callable[[Any], Any], state: Any) -> tuple[list[int], Any]:
    """Call a function of a state in a construct; returns how often each of three elements has called it, and what
    becomes of the state."""
    if construct == "loop":
        def body(i: Any, state: Any) -> Any:
            step(state)
            return i + 1, state

        return [1, 0, 2], dr.while_loop((UInt(0), state), lambda i, state: i < UInt(1, 0, 2), body, mode=mode)[1]

    def side(state: Any) -> Any:
        step(state)
        return state

    sides: Any = [side, lambda state: state]
    return [1, 0, 1], dr.if_stmt((state,), Bool(True, False, True), *sides, mode=mode) if construct == "branch" else \
        dr.switch(UInt(0, 1, 0), sides, state, mode=mode)


def times(count: list[int], first: tuple[int, ...] = (10, 20, 30), amount: int = 1) -> list[int]:
    return [value + amount * number for value, number in zip(first, count, strict=True)]


@modes
@constructs
@pytest.mark.parametrize("name", OBJECTS)
def test_attributes_of_what_functions_know(name: str, construct: str, mode: str) -> None:
    value = OBJECTS[name]()
    value.extra = Float(10, 20, 30)

    def step(_: Any) -> None:
        value.extra = value.extra + 1

    count, _ = run(construct, mode, step, Float(0))
    assert list(value.extra) == times(count)


@modes
@constructs
@pytest.mark.parametrize("how", ["replaced", "in place", "both ways", "in a list"])
@pytest.mark.parametrize("name", STATE)
def test_attributes_of_state(name: str, how: str, construct: str, mode: str) -> None:
    value = STATE[name]()
    value.extra = [Float(10, 20, 30)] if how == "in a list" else Float(10, 20, 30)
    numbers = name != "array with slots only"
    if numbers:
        value.number = 3

    def step(state: Any) -> None:
        if how == "replaced":
            state.extra = state.extra + 1
        elif how == "in place":
            state.extra += 1
        elif how == "in a list":
            state.extra[0] = state.extra[0] + 1
        else:  # the caller's object, if it is known, has the same attributes
            state.extra = value.extra + 1
            value.extra = state.extra * 1
        if numbers:
            assert state.number == 3

    stands = (construct, mode) == ("loop", "symbolic")  # for it, another one
    if "slots" in name and how in ("replaced", "both ways") and stands:
        with pytest.raises(TypeError, match="changes the attribute 'extra'"):
            run(construct, mode, step, value)
        assert list(value.extra) == [10, 20, 30]
        return
    count, result = run(construct, mode, step, value)
    assert list(value.extra[0] if how == "in a list" else value.extra) == times(count)
    if not isinstance(value, Float):
        extra = result.extra[0] if how == "in a list" else result.extra
        assert list(extra) == times(count) and result.number == 3


@modes
@constructs
def test_a_tuple_that_is_replaced_has_the_attributes_that_it_is_given(construct: str, mode: str) -> None:
    value = Tuple([Float(1, 2, 3)])
    value.extra = Float(10, 20, 30)

    def body(i: Any, state: Any) -> Any:
        state.extra = state.extra + 1
        new = Tuple([state[0] + 1])
        new.other = "new"
        return i + 1, new

    found = run_once(construct, mode, body, value)
    assert list(found[0]) == [2, 2, 4] and vars(found) == {"other": "new"}
    assert list(value[0]) == [1, 2, 3] and list(value.extra) == [11, 20, 31]


def run_once(construct: str, mode: str, body: Callable[[Any, Any], Any], value: Any) -> Any:
    if construct == "loop":
        return dr.while_loop((UInt(0, 1, 0), value), lambda i, state: i < 1, body, mode=mode)[1]
    sides: Any = [lambda state: body(UInt(0), state)[1], lambda state: state]
    return dr.if_stmt((value,), Bool(True, False, True), *sides, mode=mode) if construct == "branch" else \
        dr.switch(UInt(0, 1, 0), sides, value, mode=mode)


class Shown:
    """It joins by the protocol, and has more than it shows."""

    def __init__(self, x: Any, hidden: Any = None, number: int = 0) -> None:
        self.x, self.hidden, self.number = x, hidden, number

    def __drjit_children__(self) -> dict[str, Any]:
        return {"x": self.x}

    def __drjit_rebuild__(self, children: dict[str, Any]) -> Shown:
        return Shown(children["x"], self.hidden, self.number)


@modes
@constructs
def test_arrays_that_an_object_does_not_show_among_its_children(construct: str, mode: str) -> None:
    value = Shown(Float(1, 2, 3), Float(10, 20, 30))

    def numbers(state: Any) -> None:
        state.x = state.x + 1
        state.number += 1

    count, result = run(construct, mode, numbers, value)
    assert list(value.x) == list(result.x) == times(count, (1, 2, 3))
    assert value.number == result.number == (2 if (construct, mode) == ("loop", "evaluated") else 1)

    def hidden(state: Any) -> None:
        state.hidden = state.hidden + 1

    count, result = run(construct, mode, hidden, value)
    assert list(value.hidden) == list(result.hidden) == times(count, (10, 20, 30))


# --- classes of classes -----------------------------------------------------------------------------------------------


class Meta(type):
    total = Float(0, 0, 0)


class First(metaclass=Meta):
    pass


class Second(First):
    pass


@pytest.fixture
def classes() -> Iterator[None]:
    Meta.total = Float(0, 0, 0)
    yield
    for cls in (First, Second):
        if "total" in vars(cls):
            del cls.total


@modes
@constructs
@pytest.mark.parametrize("how", ["the class's class", "the class", "in place", "in place of an object's"])
def test_attributes_of_classes_of_classes(how: str, construct: str, mode: str, classes: None) -> None:
    value = Second()

    def step(_: Any) -> None:
        if how == "the class's class":
            Meta.total = Meta.total + 1
        elif how == "the class":
            First.total = First.total + 1
        elif how == "in place":
            First.total += 1
        else:
            type(value).total += 1

    if (construct, mode) == ("loop", "symbolic") and how.startswith("in place"):  # Second.total is found there first
        with pytest.raises(RuntimeError, match="in some iterations only, and elsewhere"):
            run(construct, mode, step, Float(0))
        return
    count, _ = run(construct, mode, step, Float(0))
    assert list(First.total if how == "the class" else Meta.total) == list(Second.total) == count
    assert list(Meta.total) == ([0, 0, 0] if how == "the class" else count)


# --- frozen functions -------------------------------------------------------------------------------------------------


def test_frozen_functions_know_arrays_with_attributes() -> None:
    x = Array(1, 2, 3)
    x.extra = Float(1, 1, 2)

    @dr.freeze
    def function(y: Any) -> Any:
        y += 1
        return y * x * x.extra

    for _ in range(3):
        for change in (lambda: setattr(x, "extra", x.extra + 1), lambda: x.__iadd__(1)):
            change()
            y = Float(0, 1, 2)
            expected = [(k + 1) * each * extra for k, (each, extra) in enumerate(zip(x, x.extra, strict=True))]
            assert list(function(y)) == expected and list(y) == [1, 2, 3]
