"""What is a place: whatever an object is, what it consists of and its attributes are the caller's, as in Python."""

from __future__ import annotations

import array
import contextvars
import ctypes
import functools
import gc
import mmap
import operator
import weakref
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator
from types import ModuleType, SimpleNamespace
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


@modes
@constructs
@pytest.mark.parametrize("cls", [dict, OrderedDict])
def test_functions_find_dictionaries_in_the_order_of_before(cls: Any, construct: str, mode: str) -> None:
    """Elements cannot have an order each: sides leave the same one; each finds the one of before."""
    table = cls(a=Float(1, 2), b=Float(10, 20), c=Float(0, 0))

    def total() -> Any:
        found = Float(0)
        for value in table.values():
            found = 2 * found + value
        return found

    def first(x: Any) -> Any:
        table["a"] = table.pop("a") + 1
        return x + total()

    def second(x: Any) -> Any:
        before = total()
        table["a"] = table.pop("a")
        return x + before

    if construct == "loop":
        x, _ = dr.while_loop((Float(0, 0), UInt(1, 1)), lambda x, i: i < 3, lambda x, i: (first(x), i + 1), mode=mode)
        assert list(x) == [42 + 43, 83 + 84]
    else:
        sides = [first, second]
        x = dr.if_stmt((Float(0, 0),), Bool(True, False), *sides, mode=mode) if construct == "branch" else \
            dr.switch(UInt(0, 1), sides, Float(0, 0), mode=mode)
        assert list(x) == [42, 48]  # in the order b, c, a, and a, b, c
    assert list(table) == ["b", "c", "a"]


class Number(ctypes.Structure):
    """A structure of C."""

    _fields_ = (("x", ctypes.c_int),)


def advance(holder: Any, key: Any) -> None:
    holder[key] = holder[key] + 1


#: What holds numbers, and how one is counted.
DATA: dict[str, tuple[Callable[[], Any], Callable[[Any], None], Callable[[Any], Any]]] = {
    "mmap": (lambda: mmap.mmap(-1, 8), lambda value: advance(value, 0), lambda value: value[0]),
    "array": (lambda: array.array("d", [0]), lambda value: advance(value, 0), lambda value: value[0]),
    "structure": (lambda: Number(0), lambda value: setattr(value, "x", value.x + 1), lambda value: value.x),
    "structured": (lambda: np.zeros(2, [("x", "i4"), ("y", "f8")]), lambda value: advance(value["y"], 1),
                   lambda value: value["y"][1]),
    "a record": (lambda: np.zeros(2, [("x", "i4"), ("y", "f8")])[1], lambda value: advance(value, "y"),
                 lambda value: value["y"]),
    "beside objects": (lambda: np.zeros(2, [("x", "f8"), ("o", object)]), lambda value: advance(value["x"], 1),
                       lambda value: value["x"][1])}


@modes
@constructs
@pytest.mark.parametrize("name", DATA)
def test_data(name: str, construct: str, mode: str) -> None:
    """Numbers that are changed in place know nothing of elements."""
    make, step, read = DATA[name]
    mmap.mmap(-1, 8).close()
    value = make()
    if mode == "symbolic":
        with pytest.raises(RuntimeError, match=r"changes the object 'value' of type .* in place"):
            run(construct, mode, lambda: step(value))
        assert read(value) == 0
    else:
        times = run(construct, mode, lambda: step(value))
        assert read(value) == times[0]


def test_data_whose_kind_is_seen_first_where_it_cannot_be_written_to() -> None:
    class Map(mmap.mmap):
        """A class that nobody has seen."""

    closed, fixed, value = Map(-1, 8), Map(-1, 8, access=mmap.ACCESS_READ), Map(-1, 8)
    closed.close()
    run("branch", "symbolic", lambda: (closed.closed, fixed[0]))
    with pytest.raises(RuntimeError, match=r"changes the object 'value' of type .* in place"):
        run("branch", "symbolic", lambda: advance(value, 0))


@modes
@constructs
@pytest.mark.parametrize("dtype", [object, [("n", "f8"), ("o", object)], [("n", "f8"), ("p", [("o", object)])]])
def test_objects_in_numpy_arrays(dtype: Any, construct: str, mode: str) -> None:
    value = np.zeros((2, 2), dtype)
    field = value if dtype is object else value["o"] if "o" in value.dtype.names else value["p"]["o"]
    field[1, 0] = Float(0, 0)
    times = run(construct, mode, lambda: advance(field, (1, 0)))
    assert list(field[1, 0]) == times
    times = [first + second for first, second in zip(times, run(construct, mode, lambda: advance(
        (value if dtype is object else value["o"] if "o" in value.dtype.names else value["p"]["o"]), (1, 0))),
        strict=True)]
    assert list(field[1, 0]) == times


@modes
@constructs
def test_contexts(construct: str, mode: str) -> None:
    context, variable = contextvars.Context(), contextvars.ContextVar[Any]("variable")
    context.run(variable.set, Float(0, 0))
    times = run(construct, mode, lambda: context.run(variable.set, context[variable] + 1))
    assert list(context[variable]) == times
    if construct != "loop":
        with pytest.raises(TypeError, match="the context variable 'variable'"):
            run(construct, mode, lambda: context.run(variable.set, UInt(1)))


class Anything:
    """What can be referred to weakly."""


@modes
def test_generators_keep_nothing_that_they_have_forgotten(mode: str) -> None:
    def forgetful() -> Iterator[Any]:
        value: Any = Anything()
        yield value
        value = None
        yield value

    values = forgetful()
    kept = weakref.ref(next(values))
    run("branch", mode, lambda: values.gi_running)
    assert kept() is not None
    next(values)
    assert kept() is None


SOURCE = """
class Made:
    factor = 1

    def __setattr__(self, name, value):
        object.__setattr__(self, name, value)

    def __hash__(self):
        return 1

    def step(self, x):
        self.x = x
        return x
"""


def used(mode: str) -> list[Any]:
    """What a program has made, and used in constructs, by weak references: a module, a class and a code."""
    module = ModuleType("made_here")
    exec(SOURCE, vars(module))
    made = module.Made()

    def step(x: Any) -> Any:
        return made.step(x + module.Made.factor)

    step(Float(1, 2))
    dr.if_stmt((Float(1, 2),), Bool(True, False), step, step, mode=mode)
    dr.while_loop((Float(1, 2),), lambda x: x < 3, lambda x: (step(x),), mode=mode)
    dr.freeze(step)(Float(1, 2))
    return [weakref.ref(module), weakref.ref(module.Made), weakref.ref(module.Made.step.__code__)]


@modes
def test_what_programs_make_is_not_kept(mode: str) -> None:
    kept = used(mode)
    gc.collect()
    gc.collect()
    assert [reference() for reference in kept] == [None] * 3


def test_evaluated_loops_find_what_iterations_have_made() -> None:
    """Containers and functions that were not there before."""
    holder = Holder(Float(0, 0))
    holder.function = []

    def body(i: Any) -> Any:
        if holder.function:
            holder.function[-1][0] = holder.function[-1][0] + 1
        holder.function = [*holder.function, [Float(0, 0)]]
        return i + 1

    dr.while_loop((UInt(0, 0),), lambda i: i < 3, body, mode="evaluated")
    assert [list(entry) for (entry,) in holder.function] == [[1, 1], [1, 1], [0, 0]]


class Counted:
    """An object whose field is state, and that has an attribute besides."""

    DRJIT_STRUCT = {"a": Float}  # noqa: RUF012


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
@pytest.mark.parametrize("cls", [Counted, type("List", (list,), {})])
def test_attributes_of_what_is_state_that_are_no_fields_are_places(cls: type, mode: str) -> None:
    state = cls() if cls is Counted else cls([Float(1, 2, 3)])
    state.a, state.c = Float(1, 2, 3), Float(0, 0, 0)

    def body(i: UInt, s: Any) -> Any:
        s.c = s.c + 1
        return i + 1, s

    dr.while_loop((UInt(0, 0, 0), state), lambda i, s: i < UInt(0, 1, 2), body, mode=mode)
    assert list(state.c) == [0, 1, 2]


# --- names that are computed ------------------------------------------------------------------------------------------

TOTAL = Float(0)


class Visitor:
    """Methods that are found by names which nobody wrote down."""

    def visit_one(self) -> None:
        global TOTAL
        TOTAL = TOTAL + 1


def by_dictionary() -> None:
    globals()["TOTAL"] = globals()["TOTAL"] + 1


def by_code() -> None:
    exec("TOTAL = TOTAL + 1", globals())


def by_computed_method(name: str = "one") -> None:
    getattr(VISITOR, f"visit_{name}")()


def by_caller(name: str = "one") -> None:
    operator.methodcaller(f"visit_{name}")(VISITOR)


VISITOR = Visitor()


@modes
@constructs
@pytest.mark.parametrize("function", [by_dictionary, by_code, by_computed_method, by_caller])
def test_what_functions_find_by_names_that_they_compute(function: Callable[[], None], construct: str,
                                                         mode: str) -> None:
    global TOTAL
    TOTAL = Float(0, 0)
    count = run(construct, mode, function)
    assert list(TOTAL) == count
