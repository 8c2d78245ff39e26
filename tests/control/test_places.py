"""What is a place: whatever an object is, what it consists of and its attributes are the caller's, as in Python."""

from __future__ import annotations

import functools
import weakref
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest

import drjit as dr
from drjit.llvm.ad import Bool, Float, UInt

modes = pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
constructs = pytest.mark.parametrize("construct", ["loop", "branch", "call"])


def run(construct: str, mode: str, function: Callable[[], Any]) -> list[int]:
    """Call a function without arguments in a construct; returns how often each of two elements has called it."""
    if construct == "loop":
        def body(i: Any) -> Any:
            function()
            return i + 1

        dr.while_loop((UInt(0, 1),), lambda i: i < 3, body, mode=mode)
        return [3, 2]

    def side(x: Any) -> Any:
        function()
        return x

    sides: Any = [side, lambda x: x]
    dr.if_stmt((UInt(1),), Bool(True, False), *sides, mode=mode) if construct == "branch" else \
        dr.switch(UInt(0, 1), sides, UInt(1), mode=mode)
    return [1, 0]


def derived(base: Any, *args: Any, **attributes: Any) -> Any:
    """An object of a class that is derived from another one."""
    return type("Derived", (base,), attributes)(*args)


class Pair(NamedTuple):
    """A named tuple."""

    first: Any
    second: Any


#: Objects of classes that are derived from those of Python and NumPy.
DERIVED: dict[str, Callable[[], Any]] = {
    "list": lambda: derived(list, [1]), "tuple": lambda: derived(tuple, [1]), "dict": lambda: derived(dict, {"n": 1}),
    "OrderedDict": OrderedDict, "defaultdict": lambda: derived(defaultdict, int), "deque": lambda: derived(deque, [1]),
    "set": lambda: derived(set, [1]), "frozenset": lambda: derived(frozenset, [1]),
    "named tuple": lambda: derived(Pair, 1, 2), "int": lambda: derived(int, 1), "str": lambda: derived(str, "a"),
    "bytearray": lambda: derived(bytearray, b"a"),
    "NumPy": lambda: np.zeros(2).view(type("Derived", (np.ndarray,), {})),
    "partial": lambda: derived(functools.partial, len), "reference": lambda: derived(weakref.ref, SimpleNamespace),
    "exception": lambda: derived(ValueError, "a"), "slots": lambda: derived(list, [1], __slots__=("x",))}


@modes
@constructs
@pytest.mark.parametrize("name", DERIVED)
def test_attributes_of_objects_with_a_content(name: str, construct: str, mode: str) -> None:
    value = DERIVED[name]()
    value.x = Float(0, 0)

    def step() -> None:
        value.x = value.x + 1

    assert list(value.x) == [0, 0]
    times = run(construct, mode, step)
    assert list(value.x) == times
    assert not isinstance(value, dict) or "x" not in value


@modes
@constructs
def test_an_entry_and_an_attribute_of_one_name(construct: str, mode: str) -> None:
    value = derived(dict, {"x": Float(0, 0)})
    value.x = Float(0, 10)

    def step() -> None:
        value["x"] = value["x"] + value.x
        value.x = value.x + 1

    first, second = run(construct, mode, step)
    assert list(value.x) == [first, 10 + second]
    assert list(value["x"]) == [sum(range(first)), sum(range(10, 10 + second))]


class Holder:
    """An object that is no PyTree, with a function in a place."""

    def __init__(self, x: Any) -> None:
        self.x = x
        self.function: Any = None

    def total(self) -> Any:
        return self.x


def closure(y: Any) -> Callable[[], Any]:
    return lambda: y


def default(y: Any) -> Callable[[], Any]:
    return lambda value=y: value


def attribute(y: Any) -> Callable[[], Any]:
    def function() -> Any:
        return function.value  # type: ignore[attr-defined]

    function.value = y  # type: ignore[attr-defined]
    return function


#: Functions that refer to an array.
FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "closure": closure, "default": default, "attribute": attribute, "partial": lambda y: functools.partial(abs, y),
    "bound method": lambda y: Holder(y).total, "method of an array": lambda y: y.__abs__,
    "method of a list": lambda y: [y].copy, "partial of a closure": lambda y: functools.partial(closure(y)),
    "generator": lambda y: (entry for entry in [y])}


@modes
@constructs
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_that_refer_to_arrays(name: str, construct: str, mode: str) -> None:
    """Elements cannot have a function each."""
    holder, before = Holder(Float(1, 2)), FUNCTIONS[name](Float(3, 4))
    holder.function = before

    def step() -> None:
        holder.function = FUNCTIONS[name](holder.x + 1)

    with pytest.raises((RuntimeError, TypeError), match=r"another object|would be another"):
        run(construct, mode, step)
    assert holder.function is before
    assert list(holder.x) == [1, 2]


@modes
@constructs
def test_functions_that_are_made_of_the_same_are_the_same(construct: str, mode: str) -> None:
    holder, y = Holder(Float(1, 2)), Float(3, 4)
    holder.function = [holder.total, closure(y), functools.partial(abs, y), y.__abs__]

    def step() -> None:
        holder.x = holder.x + 1
        holder.function = [holder.total, closure(y), functools.partial(abs, y), y.__abs__]

    first, second = run(construct, mode, step)
    assert [list(function()) for function in holder.function] == [[1 + first, 2 + second], [3, 4], [3, 4], [3, 4]]


@modes
@constructs
def test_functions_of_new_places(construct: str, mode: str) -> None:
    """Nobody knows what they are for others."""
    holder = Holder(Float(1, 2))

    def step() -> None:
        holder.x = holder.x + 1
        holder.other = holder.total  # type: ignore[attr-defined]

    first, second = run(construct, mode, step)
    assert list(holder.other()) == [1 + first, 2 + second]  # type: ignore[attr-defined]
