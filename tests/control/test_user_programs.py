"""Programs as users write them, in which something that bodies change is reached in unusual ways."""

from __future__ import annotations

import contextvars
import functools
import itertools
import operator
import types
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator
from types import MappingProxyType, ModuleType, SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest

import drjit as dr
from drjit.llvm.ad import PCG32, Array3f, Bool, Float, UInt

MODES = ["symbolic", "evaluated"]
mode_of = pytest.mark.parametrize("mode", MODES)


class Walker:
    """An object that is no PyTree, which shares a generator with others."""

    def __init__(self, rng: Any) -> None:
        self.rng = rng

    @dr.syntax
    def walk(self, n: Any, mode: str) -> Any:
        i, x = UInt(0), Float(0)
        while dr.hint(i < n, mode=mode):
            x += self.rng.next_float32()
            i += 1
        return x


@mode_of
def test_objects_share_a_generator(mode: str) -> None:
    rng, own = PCG32(2), PCG32(2)
    walker = Walker(rng)
    walker.walk(UInt(1, 1), mode)
    second = walker.walk(UInt(1, 1), mode)
    own.next_float32()
    assert walker.rng is rng
    assert list(second) == list(own.next_float32())


@mode_of
@pytest.mark.parametrize("change", ["array", "component"])
def test_attributes_of_two_objects_that_are_one_array(change: str, mode: str) -> None:
    a = SimpleNamespace(v=Float(1) if change == "array" else Array3f(1))
    b = SimpleNamespace(v=a.v)

    @dr.syntax
    def add_twice(a: Any, b: Any, n: Any) -> None:
        i = UInt(0)
        while dr.hint(i < n, mode=mode):
            a.v += 1
            b.v += 1
            i += 1

    @dr.syntax
    def add_and_double(a: Any, b: Any, n: Any) -> None:
        i = UInt(0)
        while dr.hint(i < n, mode=mode):
            a.v += 1
            b.v.x *= 2
            i += 1

    assert a.v is b.v
    if change == "array":
        add_twice(a, b, UInt(3, 1, 2, 4))
        assert list(a.v) == [7, 3, 5, 9]
    else:
        add_and_double(a, b, UInt(2, 1))
        assert list(a.v.x) == [10, 4]
        assert list(a.v.y) == [3, 2]
    assert a.v is b.v


@mode_of
@pytest.mark.parametrize("count", [900, 1100])
def test_many_objects_in_a_list(mode: str, count: int) -> None:
    objects = [SimpleNamespace(v=Float(0)) for _ in range(count)]

    def body(i: Any) -> Any:
        last = objects[-1]
        last.v = last.v + 1
        return (i + 1,)

    dr.while_loop((UInt(0, 1),), lambda i: i < 3, body, mode=mode)
    assert list(objects[-1].v) == [3, 2]


@mode_of
def test_writes_in_a_branch_in_a_call(mode: str) -> None:
    hits, lane = dr.zeros(UInt, 4), dr.arange(UInt, 4)

    def function(i: Any) -> Any:
        dr.if_stmt((), lane < 3, lambda: dr.scatter_add(hits, 1, lane), lambda: None, mode=mode)
        return i

    dr.switch(UInt(0, 1, 1, 0), [function, lambda i: i], UInt(0, 1, 2, 3), mode=mode)
    assert list(hits) == [1, 0, 0, 0]


def test_two_buffers_that_change_places_in_evaluated_loops() -> None:
    a, b = dr.zeros(Float, 4), dr.zeros(Float, 4)
    buffers = SimpleNamespace(source=a, target=b)

    def body(i: Any) -> Any:
        dr.scatter(buffers.target, Float(i) + 1, i)
        buffers.source, buffers.target = buffers.target, buffers.source
        return (i + 1,)

    dr.while_loop((UInt(0, 1),), lambda i: i < 2, body, mode="evaluated")
    assert [list(a), list(b)] == [[0, 2, 0, 0], [1, 2, 0, 0]]


@mode_of
def test_a_condition_of_one_element_at_first(mode: str) -> None:
    @dr.syntax
    def function(hits: Any, n: Any) -> None:
        active, i = Bool(True), UInt(0)
        while dr.hint(active, mode=mode):
            dr.scatter_add(hits, 1, i)
            i += 1
            active = i < n

    hits = dr.zeros(UInt, 4)
    function(hits, UInt(1, 2, 3))
    assert list(hits) == [3, 2, 1, 0]


@mode_of
@pytest.mark.parametrize("construct", ["loop", "branch", "call"])
def test_what_is_computed_when_it_is_asked_for_is_kept(construct: str, mode: str) -> None:
    calls = []

    class Table:
        @functools.cached_property
        def values(self) -> Any:
            calls.append(1)
            return Float(3)

    table = Table()

    def function(i: Any) -> Any:
        return i + 1 + UInt(table.values) * 0

    if construct == "loop":
        dr.while_loop((UInt(0, 1),), lambda i: i < 2, lambda i: (function(i),), mode=mode)
    elif construct == "branch":
        dr.if_stmt((UInt(0, 1),), Bool(True, False), function, lambda i: i, mode=mode)
    else:
        dr.switch(UInt(0, 1), [function, lambda i: i], UInt(0, 1), mode=mode)
    assert list(table.values) == [3]
    assert len(calls) == 1


STATE = SimpleNamespace(v=Float(0))


class Scene:
    """An object whose method changes what the module knows."""

    def step(self) -> None:
        STATE.v = STATE.v + 1


@mode_of
def test_what_only_methods_know(mode: str) -> None:
    STATE.v, scene = Float(0), Scene()

    def function(i: Any) -> Any:
        scene.step()
        return i

    dr.if_stmt((UInt(0, 1, 2, 3),), UInt(0, 1, 2, 3) < 2, function, lambda i: i, mode=mode)
    assert list(STATE.v) == [1, 1, 0, 0]


@mode_of
@pytest.mark.parametrize("asked", [dr.width, len, lambda x: dr.shape(x)[0], lambda x: dr.width([x * 2])])
@pytest.mark.parametrize("kept", ["literal", "memory", "place", "state"])
def test_the_width_of_what_becomes_wider(kept: str, asked: Callable[[Any], int], mode: str) -> None:
    """In symbolic loops it is wide from the start, be it state or not, as there is one body for all iterations."""
    x, y, wide = Float(1) if kept == "literal" else dr.opaque(Float, 1), Float(0), Float(1, 2, 3, 4)
    owner = SimpleNamespace(x=dr.opaque(Float, 1))

    def body(i: Any, state: Any) -> Any:
        nonlocal x, y
        y += asked(owner.x if kept == "place" else state if kept == "state" else x)
        x += wide
        owner.x = owner.x + wide
        return i + 1, state + wide

    dr.while_loop((UInt(0), dr.opaque(Float, 1)), lambda i, _: i < 3, body, mode=mode)
    assert set(y) == {9 if mode == "evaluated" else 12}
    assert list(x) == list(owner.x) == [4, 7, 10, 13]


def test_conditions_that_put_something_in_a_place() -> None:
    entries = [UInt(0, 0)]

    def condition(i: Any) -> Any:
        entries[0] = entries[0] + i
        return i < 3

    with pytest.raises(RuntimeError, match="condition of this symbolic loop"):
        dr.while_loop((UInt(0, 1),), condition, lambda i: (i + 1,), mode="symbolic")
    assert list(entries[0]) == [0, 0]


@pytest.mark.parametrize("construct", ["branch", "call"])
def test_components_that_change_places_after_writes(construct: str) -> None:
    """Which is refused: there is no copy of either."""
    v, lane = Array3f(Float(1, 2), Float(3, 4), 5), UInt(0, 1)

    def function(i: Any) -> Any:
        dr.scatter(v.x, Float(9), i)
        dr.scatter(v.y, Float(8), i)
        v.x, v.y = Float(v.y), Float(v.x)
        return i

    with pytest.raises(RuntimeError, match="puts the contents of an array that it writes to by index in the place"):
        if construct == "branch":
            dr.if_stmt((lane,), lane < 1, function, lambda i: i, mode="symbolic")
        else:
            dr.switch(lane, [function, lambda i: i], lane, mode="symbolic")
    assert [list(v.x), list(v.y)] == [[1, 2], [3, 4]]


class Defaults:
    """A class with attributes that its objects have until they get their own."""

    nothing: Any = None
    number: Any = Float(5)


def in_construct(construct: str, mode: str, first: Callable[[], None], second: Callable[[], None]) -> None:
    """Call a function in elements 0 and 1, another one in 2 and 3; in loops the first one, once in all elements."""
    i = UInt(0, 1, 2, 3)

    def called(function: Callable[[], None]) -> Callable[[Any], Any]:
        def body(i: Any) -> Any:
            function()
            return i + 4
        return body

    if construct == "branch":
        dr.if_stmt((i,), i < 2, called(first), called(second), mode=mode)
    elif construct == "call":
        dr.switch(i // 2, [called(first), called(second)], i, mode=mode)
    else:
        dr.while_loop((i,), lambda i: i < 4, called(first), mode=mode)


#: Where a variable is, that is nothing at first: what it is, and a function that sets it.
def places() -> dict[str, tuple[Callable[[], Any], Callable[[Any], None]]]:
    owner, cls = Defaults(), type("Class", (Defaults,), {})
    other, entries, table, own = cls(), [None], {"a": None}, SimpleNamespace(x=None)
    variable: Any = None

    def assign(value: Any) -> None:
        nonlocal variable
        variable = value

    return {
        "attribute of a class": (lambda: owner.nothing, lambda value: setattr(owner, "nothing", value)),
        "class of an object": (lambda: cls.nothing, lambda value: setattr(type(other), "nothing", value)),
        "base class": (lambda: Defaults.nothing, lambda value: setattr(type(other).__base__, "nothing", value)),
        "attribute": (lambda: own.x, lambda value: setattr(own, "x", value)),
        "entry": (lambda: entries[0], functools.partial(entries.__setitem__, 0)),
        "key": (lambda: table["a"], functools.partial(table.__setitem__, "a")),
        "variable": (lambda: variable, assign)}


place_of = pytest.mark.parametrize("place", list(places()))


@pytest.fixture(autouse=True)
def defaults() -> Iterator[None]:
    """Classes are as they were after each test."""
    yield
    Defaults.nothing, Defaults.number = None, Float(5)


@mode_of
@place_of
@pytest.mark.parametrize("construct", ["branch", "call"])
def test_all_functions_set_what_was_nothing(construct: str, place: str, mode: str) -> None:
    get, assign = places()[place]
    in_construct(construct, mode, lambda: assign(Float(1, 2, 3, 4) if mode == "symbolic" else Float(7)),
                 lambda: assign(Float(8)))
    assert list(get()) == ([1, 2, 8, 8] if mode == "symbolic" else [7, 7, 8, 8])


@mode_of
@place_of
@pytest.mark.parametrize("construct", ["branch", "call", "loop"])
def test_some_functions_set_what_was_nothing(construct: str, place: str, mode: str) -> None:
    """Which is refused, as other elements have nothing; in evaluated loops if there are any."""
    get, assign = places()[place]
    if construct == "loop" and mode == "evaluated":
        in_construct(construct, mode, lambda: assign(Float(3)), lambda: None)
        assert set(get()) == {3}
        assign(None)
        with pytest.raises(RuntimeError, match=r"from NoneType to drjit.llvm.ad.Float.*finished would not have"):
            dr.while_loop((UInt(0, 9),), lambda i: i < 2, lambda i: (assign(Float(3)), (i + 1,))[1], mode=mode)
    else:
        with pytest.raises(RuntimeError, match=r"the type of .* drjit.llvm.ad.Float"):
            in_construct(construct, mode, lambda: assign(Float(3)), lambda: None)
        if construct != "loop":
            with pytest.raises(RuntimeError, match="would differ between elements: it is"):
                in_construct(construct, mode, lambda: None, lambda: assign(Float(3)))
    assert get() is None


@mode_of
@pytest.mark.parametrize("construct", ["branch", "call", "loop"])
def test_what_the_class_has_is_there_before(construct: str, mode: str) -> None:
    owner = Defaults()

    def add() -> None:
        owner.number = owner.number + 1

    in_construct(construct, mode, add, lambda: None)
    assert list(owner.number) == ([6, 6, 5, 5] if construct != "loop" else [6] * 4)
    assert list(Defaults.number) == [5]


@mode_of
@pytest.mark.parametrize("construct", ["branch", "call", "loop"])
def test_objects_show_what_the_class_has_after_errors(construct: str, mode: str) -> None:
    owner = Defaults()

    def raising() -> None:
        owner.number = owner.number + 1
        owner.nothing = Float(1)
        type(owner).number = Float(2)
        raise KeyError("stop")

    with pytest.raises(KeyError):
        in_construct(construct, mode, raising, lambda: None)
    assert not vars(owner)
    assert list(Defaults.number) == [5]


class Checked:
    """A class whose setter may refuse what it is given."""

    DRJIT_STRUCT: ClassVar = {"x": Float, "y": Float}
    refused: ClassVar[int] = 0

    def __init__(self) -> None:
        self.store = SimpleNamespace(x=Float(1, 2, 3, 4))
        self.y = Float(5, 6, 7, 8)

    @property
    def x(self) -> Any:
        return self.store.x

    @x.setter
    def x(self, value: Any) -> None:
        Checked.refused -= 1
        if not Checked.refused:
            raise KeyError("refused")
        self.store.x = value


@mode_of
@pytest.mark.parametrize("construct", ["branch", "call", "loop"])
def test_whenever_setters_raise_all_is_as_before(construct: str, mode: str) -> None:
    for refused in itertools.count(1):
        checked, entries = Checked(), [Float(0)]
        checked.y, i = Float(5, 6, 7, 8), UInt(0, 1, 2, 3)
        x, y, entry = checked.x, checked.y, entries[0]
        Checked.refused = refused

        def function(checked: Any, i: Any, entries: list[Any] = entries) -> Any:
            checked.y += 1
            entries[0] = entries[0] + 1
            checked.x = checked.x + 1
            return checked, i + 4

        try:
            if construct == "branch":
                dr.if_stmt((checked, i), i < 2, function, lambda *args: args, mode=mode)
            elif construct == "call":
                dr.switch(i // 2, [function, lambda *args: args], checked, i, mode=mode)
            else:
                dr.while_loop((checked, i), lambda checked, i: i < 2, function, mode=mode)
        except KeyError:
            assert checked.store.x is x and checked.y is y and entries[0] is entry
            assert [list(each) for each in (x, y, entry)] == [[1, 2, 3, 4], [5, 6, 7, 8], [0]]
        else:
            break
    Checked.refused = 0
    assert list(checked.x) == [2, 3, 3, 4]
    assert list(checked.y) == [6, 7, 7, 8]
    assert list(entries[0]) == [1, 1, 0, 0]


def in_a_call(case: str, mode: str) -> list[list[float]]:
    """What a function that some elements of a call take makes of arrays of all elements."""
    lane, i, total = dr.arange(UInt, 6), UInt(0, 10, 20, 30, 40, 50), dr.zeros(UInt, 6)
    own, few = [UInt(7, 7, 7, 7, 7, 7)], lane < 4

    def write_own(j: Any) -> Any:
        dr.scatter_add(total, j + 1, j // 10)
        return j

    def write(j: Any) -> Any:
        dr.scatter_add(total, lane + 1, lane)
        return j

    def change(j: Any) -> Any:
        own[0] += 1
        return j

    def nested(j: Any) -> Any:
        return dr.switch((j // 10) & 1, [write, lambda j: j + 3], j, mode=mode)

    def in_a_branch(j: Any) -> Any:
        return dr.if_stmt((j,), few, nested, lambda j: j + 5, mode=mode)

    functions = {
        "branch that writes": lambda j: dr.if_stmt((j,), few, write, lambda j: j, mode=mode),
        "branch that writes at an argument": lambda j: dr.if_stmt((j,), few, write_own, lambda j: j, mode=mode),
        "branch that changes": lambda j: dr.if_stmt((j,), few, change, lambda j: j + 1, mode=mode),
        "call in a call": nested,
        "call in a branch in a call": in_a_branch,
        "loop that writes": lambda j: dr.while_loop((lane,), lambda k: k < 4, lambda k: (write(k) + 2,), mode=mode)[0],
        "array of all": lambda j: lane + 1}
    result = dr.switch(UInt(0, 1, 0, 0, 1, 0), [functions[case], lambda j: j], i, mode=mode)
    return [list(each) for each in (result, total, own[0])]


@pytest.mark.parametrize("case, expected", [
    ("branch that writes", [[0, 10, 20, 30, 40, 50], [1, 0, 3, 4, 0, 0], [7] * 6]),
    ("branch that writes at an argument", [[0, 10, 20, 30, 40, 50], [1, 0, 21, 31, 0, 0], [7] * 6]),
    ("branch that changes", [[0, 10, 20, 30, 40, 51], [0] * 6, [8, 7, 8, 8, 7, 7]]),
    ("call in a call", [[0, 10, 20, 33, 40, 53], [1, 0, 3, 0, 0, 0], [7] * 6]),
    ("call in a branch in a call", [[0, 10, 20, 33, 40, 55], [1, 0, 3, 0, 0, 0], [7] * 6]),
    ("loop that writes", [[4, 10, 4, 5, 40, 5], [2, 0, 3, 4, 0, 0], [7] * 6]),
    ("array of all", [[1, 10, 3, 4, 40, 6], [0] * 6, [7] * 6])])
@mode_of
def test_arrays_of_all_elements_in_calls(case: str, expected: Any, mode: str) -> None:
    assert in_a_call(case, mode) == expected


def test_arrays_of_all_elements_beside_those_of_some() -> None:
    x = Float(1, 2, 3)
    with pytest.raises(RuntimeError, match=r"gives 'targets\[0\]' only those .* it, 2 of 3: pass arrays of all 3"):
        dr.switch(UInt(0, 1, 0), [lambda i: x + Float(i), Float], UInt(0, 1, 2), mode="evaluated")


@mode_of
@pytest.mark.parametrize("around", [None, "branch", "call", "loop"])
@pytest.mark.parametrize("construct", ["branch", "call"])
def test_elements_looked_at_before_they_change(construct: str, around: str | None, mode: str) -> None:
    """The host finds what was there before the construct; where that is not what it will be, it is refused."""
    x, seen = Float(1, 2, 3, 4), []

    def change() -> None:
        seen.append(x[0])
        if x[0] < 2:
            x.__iadd__(1)

    def nested() -> None:
        in_construct(construct, mode, change, lambda: None)

    if around == "loop" and mode == "symbolic":
        with pytest.raises(RuntimeError, match="looks at elements of the array 'x', and changes it"):
            in_construct(around, mode, nested, lambda: None)
        assert list(x) == [1, 2, 3, 4]
        return
    if around is None:
        nested()
    elif mode == "symbolic" or construct == "branch":
        in_construct(around, mode, nested, lambda: None)
    else:
        return  # calls of some elements in calls of some
    assert (list(x), seen) == ([2, 3, 3, 4], [1])


HELPER = """
value, nothing = Float(0), None

def step():
    global value
    value = value + 1

def step_of_itself():
    step_of_itself.value = step_of_itself.value + 1

class Kind:
    value = Float(0)

    @staticmethod
    def static():
        Kind.value = Kind.value + 1

    @classmethod
    def of_class(cls):
        cls.value = cls.value + 1

    @property
    def computed(self):
        step()

    @functools.cached_property
    def kept(self):
        step()
        return 1

    def __call__(self):
        step()

    def __add__(self, other):
        step()

    def method(self):
        step()

class Derived(Kind):
    def method(self):
        super().method()
"""


def helper() -> Any:
    """A module that a program has imported."""
    module = ModuleType("helper")
    vars(module).update(Float=Float, functools=functools)
    exec(HELPER, vars(module))
    module.step_of_itself.value = Float(0)
    return module


#: What is called in the body of a construct, and what that changes.
CALLS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "function of a module": (lambda module: lambda: module.step(), "value"),
    "attribute of a module": (lambda module: lambda: setattr(module, "value", module.value + 1), "value"),
    "attribute of a function": (lambda module: module.step_of_itself, "step_of_itself.value"),
    "static method": (lambda module: lambda: module.Kind.static(), "Kind.value"),
    "static method of an object": (lambda module: module.Kind().static, "Kind.value"),
    "class method": (lambda module: lambda: module.Kind.of_class(), "Kind.value"),
    "class method of an object": (lambda module: module.Kind().of_class, "Kind.value"),
    "method": (lambda module: module.Kind().method, "value"),
    "method of the object": (lambda module: functools.partial(_method, module.Kind()), "value"),
    "method that calls another one": (lambda module: functools.partial(_method, module.Derived()), "value"),
    "object": (lambda module: module.Kind(), "value"),
    "operator": (lambda module: functools.partial(_add, module.Kind()), "value"),
    "property": (lambda module: functools.partial(_computed, module.Kind()), "value"),
    "cached property": (lambda module: functools.partial(_kept, module.Kind()), "value"),
    "partial application": (lambda module: functools.partial(module.Kind.method, module.Kind()), "value"),
    "object that is made": (lambda module: lambda: module.Kind().method(), "value"),
    "function of a function": (lambda module: lambda: list(map(module.Kind.method, [module.Kind()])), "value")}


def _method(owner: Any) -> None:
    owner.method()


def _add(owner: Any) -> None:
    owner + 1


def _computed(owner: Any) -> None:
    owner.computed


def _kept(owner: Any) -> None:
    owner.kept


@mode_of
@pytest.mark.parametrize("construct", ["branch", "call", "loop"])
@pytest.mark.parametrize("case", list(CALLS))
def test_however_functions_are_called(case: str, construct: str, mode: str) -> None:
    module = helper()
    make, changed = CALLS[case]
    in_construct(construct, mode, make(module), lambda: None)
    assert list(operator.attrgetter(changed)(module)) == ([1, 1, 0, 0] if construct != "loop" else [1] * 4)


@mode_of
@pytest.mark.parametrize("construct", ["branch", "call"])
def test_variables_of_modules_that_were_nothing(construct: str, mode: str) -> None:
    module = helper()

    def assign() -> None:
        module.nothing = Float(3)

    in_construct(construct, mode, assign, assign)
    assert set(module.nothing) == {3}
    module.nothing = None
    with pytest.raises(RuntimeError, match="'nothing' of the module helper would differ between elements"):
        in_construct(construct, mode, assign, lambda: None)
    assert module.nothing is None


#: What a branch does to two lists of an array each, ``a`` in ``holder["a"]``, ``b`` in ``holder["b"]``; and what there
#: is afterwards for the element that takes it: ``holder["a"][0]``, ``holder["b"][0]``, ``a[0]``, ``b[0]``.
EXCHANGES: dict[str, tuple[Callable[[Any], None], list[float]]] = {
    "exchange": (lambda holder: holder.update(a=holder["b"], b=holder["a"]), [5, 1, 1, 5]),
    "exchange and replace": (lambda holder: (holder.update(a=holder["b"], b=holder["a"]),
                                             holder["a"].__setitem__(0, holder["a"][0] + 1)), [6, 1, 1, 6]),
    "exchange and add": (lambda holder: (holder.update(a=holder["b"], b=holder["a"]),
                                         holder["a"][0].__iadd__(1)), [6, 1, 1, 6]),
    "replace and exchange": (lambda holder: (holder["a"].__setitem__(0, holder["a"][0] + 1),
                                             holder.update(a=holder["b"], b=holder["a"])), [5, 2, 2, 5]),
    "add and exchange": (lambda holder: (holder["a"][0].__iadd__(1),
                                         holder.update(a=holder["b"], b=holder["a"])), [5, 2, 2, 5]),
    "bind": (lambda holder: holder.update(a=holder["b"]), [5, 5, 1, 5])}


@mode_of
@pytest.mark.parametrize("case", list(EXCHANGES))
@pytest.mark.parametrize("construct", ["branch", "call"])
def test_lists_that_change_places_in_some_elements(construct: str, case: str, mode: str) -> None:
    a, b = [Float(1, 1, 1, 1)], [Float(5, 5, 5, 5)]
    holder = {"a": a, "b": b}
    change, taken = EXCHANGES[case]
    in_construct(construct, mode, lambda: change(holder), lambda: None)
    found = [list(each[0]) for each in (holder["a"], holder["b"], a, b)]
    assert found == [[new, new, old, old] for new, old in zip(taken, [1, 5, 1, 5], strict=True)]


@mode_of
def test_lists_that_change_places_and_that_others_change(mode: str) -> None:
    a, b = [Float(1, 1, 1, 1)], [Float(5, 5, 5, 5)]
    holder = {"a": a, "b": b}

    def replace() -> None:
        a[0] = a[0] + 1

    in_construct("branch", mode, replace, lambda: EXCHANGES["exchange"][0](holder))
    found = [list(each[0]) for each in (holder["a"], holder["b"], a, b)]
    assert found == [[2, 2, 5, 5], [5, 5, 1, 1], [2, 2, 1, 1], [5, 5, 5, 5]]


@mode_of
@pytest.mark.parametrize("construct", ["branch", "call", "loop"])
def test_objects_that_are_others_in_some_elements(construct: str, mode: str) -> None:
    """Which is refused: no element can choose between objects that are no PyTrees."""
    class Plain:
        def __init__(self, **attributes: Any) -> None:
            vars(self).update(attributes)

    first, second = Plain(v=Float(1)), Plain(v=Float(5))
    holder = Plain(a=first, b=second)

    def exchange() -> None:
        holder.a, holder.b = holder.b, holder.a

    with pytest.raises(RuntimeError, match="another object"):
        if construct == "loop":
            dr.while_loop((UInt(0, 1),), lambda i: i < 2, lambda i: (exchange(), (i + 1,))[1], mode=mode)
        else:
            in_construct(construct, mode, exchange, lambda: None)
    assert holder.a is first and holder.b is second


def test_state_that_changes_places_and_that_symbolic_loops_change() -> None:
    """Which is refused: it is another array in each iteration."""
    i, lists, arrays = UInt(0, 0), ([Float(1)], [Float(5)]), (Float(1), Float(5))

    def replace(i: Any, a: Any, b: Any) -> Any:
        a[0] = a[0] + 1
        return i + 1, b, a

    def add(i: Any, a: Any, b: Any) -> Any:
        a += 1
        return i + 1, b, a

    for body, state in ((replace, lists), (add, arrays)):
        with pytest.raises(RuntimeError, match="change places: another one in each iteration"):
            dr.while_loop((i, *state), lambda i, a, b: i < UInt(1, 2), body, mode="symbolic")
    assert [list(each) for each in (lists[0][0], lists[1][0], *arrays)] == [[1], [5], [1], [5]]


class Found:
    """An object that is no PyTree, which functions find in unusual places."""

    def __init__(self, v: Any) -> None:
        self.v = v


#: How a function finds an object: what it refers to instead, and how it gets at the object.
FINDS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "set": (lambda found: {found, 1}, lambda each: next(e for e in each if e != 1)),
    "frozenset": (lambda found: frozenset([found]), lambda each: next(iter(each))),
    "key": (lambda found: {found: 1}, lambda each: next(iter(each))),
    "in a key": (lambda found: {(1, found): 1}, lambda each: next(iter(each))[1]),
    "view": (lambda found: {1: found}.values(), lambda each: next(iter(each))),
    "view of an ordered dictionary": (lambda found: OrderedDict(a=found).items(), lambda each: next(iter(each))[1]),
    "proxy of a dictionary": (lambda found: MappingProxyType({1: found}), lambda each: each[1]),
    "iterator": (lambda found: iter([found] * 9), next),
    "cycle": (lambda found: itertools.cycle([found]), next),
    "map": (lambda found: map([found].__getitem__, itertools.repeat(0)), next),
    "weak reference": (weakref.ref, lambda reference: reference()),
    "weak proxy": (weakref.proxy, lambda proxy: proxy),
    "weak set": (lambda found: weakref.WeakSet([found]), lambda each: next(iter(each))),
    "weak dictionary": (lambda found: weakref.WeakValueDictionary({1: found}), lambda each: each[1]),
    "context variable": (lambda found: contextvars.ContextVar("v", default=found), lambda variable: variable.get()),
}


def kept_result(size: int | None) -> Any:
    """A function that keeps its results, which nobody else knows."""
    @functools.lru_cache(maxsize=size)
    def make(number: int) -> Found:
        return Found(Float(number))

    make(0)
    return make


@mode_of
@pytest.mark.parametrize("construct", ["branch", "call", "loop"])
@pytest.mark.parametrize("case", list(FINDS))
def test_wherever_functions_find_objects(case: str, construct: str, mode: str) -> None:
    found = Found(Float(0))
    refer, get = FINDS[case]
    place = refer(found)

    def function() -> None:
        one = get(place)
        one.v = one.v + 1

    in_construct(construct, mode, function, lambda: None)
    assert list(found.v) == ([1, 1, 0, 0] if construct != "loop" else [1] * 4)


@mode_of
@pytest.mark.parametrize("size", [None, 2])
def test_results_that_functions_keep(size: int | None, mode: str) -> None:
    make = kept_result(size)

    def function() -> None:
        make(0).v = make(0).v + 1

    in_construct("branch", mode, function, lambda: None)
    assert list(make(0).v) == [1, 1, 0, 0]


@mode_of
def test_defaults_of_keyword_arguments(mode: str) -> None:
    """Of functions that refer to nothing else."""
    kept = [Float(0)]

    def function(i: Any, *, kept: list[Any] = kept) -> Any:
        kept[0] = kept[0] + 1
        return i + 1

    i = UInt(0, 1, 2, 3)
    dr.while_loop((i,), lambda i: i < 4, lambda i, *, kept=kept: (function(i, kept=kept),), mode=mode)
    assert list(kept[0]) == [4, 3, 2, 1]
    dr.if_stmt((i,), i < 2, function, lambda i: i, mode=mode)
    assert list(kept[0]) == [5, 4, 2, 1]
    dr.switch(i // 2, [function, lambda i: i], i, mode=mode)
    assert list(kept[0]) == [6, 5, 2, 1]


@mode_of
@pytest.mark.parametrize("construct", ["branch", "call", "loop"])
def test_variables_of_contexts(construct: str, mode: str) -> None:
    variable = contextvars.ContextVar[Any]("depth")
    variable.set(Float(0))

    def function() -> None:
        variable.set(variable.get() + 1)

    in_construct(construct, mode, function, lambda: None)
    assert list(variable.get()) == ([1, 1, 0, 0] if construct != "loop" else [1] * 4)

    def failing() -> None:
        variable.set(variable.get() + 1)
        raise KeyError

    before = variable.get()
    with pytest.raises(KeyError):
        in_construct(construct, mode, failing, lambda: None)
    assert variable.get() is before


@mode_of
def test_variables_of_contexts_in_messages(mode: str) -> None:
    variable = contextvars.ContextVar[Any]("depth")
    variable.set(Float(0))
    with pytest.raises(TypeError, match="the context variable 'depth'"):
        in_construct("branch", mode, lambda: variable.set(UInt(1)), lambda: None)


def accumulated(start: Float, in_place: bool) -> Iterator[Float]:
    """A generator that keeps an array to itself."""
    total = start
    while True:
        if in_place:
            total += 1
        else:
            total = total + 1
        yield total


@mode_of
@pytest.mark.parametrize("start", [Float(0), Float([0, 0])])
def test_arrays_that_only_a_generator_knows(start: Float, mode: str) -> None:
    """Which are put in a place."""
    numbers, last = accumulated(+start if dr.width(start) > 1 else Float(0), True), [Float(0)]

    def body(i: Any) -> Any:
        last[0] = next(numbers)
        return i + 1

    dr.while_loop((UInt(0, 1),), lambda i: i < 3, body, mode=mode)
    assert list(last[0]) == [3, 2]
    assert list(next(numbers)) == [4, 3]


@mode_of
@pytest.mark.parametrize("construct", ["if", "while", "branch", "call", "loop"])
@pytest.mark.parametrize("start", [(0,), (0, 0), (1, 4)])
def test_arrays_that_a_generator_replaces(start: tuple[float, ...], construct: str, mode: str) -> None:
    """A variable of a generator is a place like any other."""
    first, second = (*start, *start)[:2]
    numbers, x = accumulated(Float(*start), False), Float(1, 1)
    next(numbers)

    @dr.syntax
    def branch(x: Any, c: Any, mode: Any) -> Any:
        if dr.hint(c, mode=mode):
            x = x + next(numbers)
        return x

    @dr.syntax
    def loop(x: Any, i: Any, mode: Any) -> Any:
        while dr.hint(i < 3, mode=mode):
            x = x + next(numbers)
            i += 1
        return x

    if construct in ("while", "loop"):
        x = loop(x, UInt(0, 1), mode) if construct == "while" else dr.while_loop(
            (x, UInt(0, 1)), lambda x, i: i < 3, lambda x, i: (x + next(numbers), i + 1), mode=mode)[0]
        assert list(x) == [1 + 3 * first + 9, 1 + 2 * second + 5]
        assert list(next(numbers)) == [first + 5, second + 4]
    else:
        c, sides = Bool(True, False), [lambda x: x + next(numbers), lambda x: x]
        x = branch(x, c, mode) if construct == "if" else dr.if_stmt((x,), c, *sides, mode=mode) \
            if construct == "branch" else dr.switch(UInt(0, 1), sides, x, mode=mode)
        assert list(x) == [1 + first + 2, 1]
        assert list(next(numbers)) == [first + 3, second + 2]


def waiting(start: Float) -> Iterator[Float]:
    """A generator that waits in the middle of an expression."""
    total = start
    while True:
        total = total + (yield total)  # type: ignore[misc]


@mode_of
@pytest.mark.parametrize("construct", ["branch", "call", "loop"])
def test_arrays_that_a_generator_uses_in_the_middle_of_an_expression(construct: str, mode: str) -> None:
    """Nobody can put others there."""
    numbers, x = waiting(Float(0, 0)), Float(1, 1)
    next(numbers)

    def advance(x: Any) -> Any:
        return x + numbers.send(1)  # type: ignore[attr-defined]

    with pytest.raises(RuntimeError, match=r"advances the generator 'waiting', .* in its variable 'total'"):
        if construct == "loop":
            dr.while_loop((UInt(0, 1),), lambda i: i < 3, lambda i: (advance(i), i + 1)[1:], mode=mode)
        elif construct == "branch":
            dr.if_stmt((x,), Bool(True, False), advance, lambda x: x, mode=mode)
        else:
            dr.switch(UInt(0, 0), [advance, lambda x: x], x, mode=mode)


@mode_of
def test_what_a_generator_computes_anew(mode: str) -> None:
    """Its variables are what they are: sizes and types may be others."""
    def tables() -> Iterator[Float]:
        for count in range(2, 6):
            table = dr.arange(Float, count) + 0.5 if count != 4 else UInt(1, 2, 3, 4)
            entry = table[0] if count == 3 else dr.sum(table)
            yield table
            del entry

    found, numbers = [], tables()
    next(numbers)

    def body(i: Any, x: Any) -> Any:
        table = next(numbers)
        found.append(len(table))
        return i + 1, x + dr.gather(type(table), table, i)

    _, x = dr.while_loop((UInt(0, 1), Float(0)), lambda i, x: i < 2, body, mode=mode)
    assert found == ([3] if mode == "symbolic" else [3, 4])
    assert list(x) == ([2, 1.5] if mode == "symbolic" else [2.5, 1.5])


@mode_of
def test_coroutines(mode: Any) -> None:
    kept = [Float(0)]

    @types.coroutine
    def pause() -> Iterator[None]:
        yield

    async def steps() -> None:
        while True:
            kept[0] = kept[0] + 1
            await pause()

    coroutine = steps()

    def place() -> Any:  # which knows the coroutine only
        def body(i: Any) -> Any:
            coroutine.send(None)
            return i + 1
        return body

    dr.while_loop((UInt(0, 1),), lambda i: i < 3, place(), mode=mode)
    coroutine.close()
    assert list(kept[0]) == [3, 2]


@mode_of
def test_arrays_that_a_coroutine_replaces(mode: Any) -> None:
    """A variable of a coroutine is a place like any other; so is one that holds a list of arrays."""
    found: list[Any] = [Float(0)]

    @types.coroutine
    def pause() -> Iterator[None]:
        yield

    async def steps() -> None:
        total, pair = Float(0), (Float(1), Float(2))
        while True:
            await pause()
            total, pair = total + 1, (pair[1], pair[0] + total)
            found[0] = pair[0]

    coroutine, i = steps(), UInt(0, 1)
    coroutine.send(None)
    dr.while_loop((i,), lambda i: i < 3, lambda i: (coroutine.send(None), i + 1)[1:], mode=mode)
    expected = []
    for count in (3, 2):
        total, pair = 0, (1, 2)
        for _ in range(count):
            total, pair = total + 1, (pair[1], pair[0] + total)
        expected.append(pair)
    assert list(found[0]) == [pair[0] for pair in expected]
    coroutine.send(None)
    assert list(found[0]) == [pair[1] for pair in expected]
    coroutine.close()


@mode_of
@pytest.mark.parametrize("container", [list, lambda each: dict(enumerate(each)), set])
def test_many_objects(container: Callable[[Any], Any], mode: Any) -> None:
    """All are looked at, or a warning says that there are more."""
    objects = [Found(Float(0)) for _ in range(20000)]
    last, all_of_them = id(objects[-1]), container(objects)

    def body(i: Any) -> Any:
        (found,) = [each for each in getattr(all_of_them, "values", lambda: all_of_them)() if id(each) == last]
        found.v = found.v + 1
        return i + 1

    dr.while_loop((UInt(0, 1),), lambda i: i < 3, body, mode=mode)
    assert list(objects[-1].v) == [3, 2]


def test_more_objects_than_are_looked_at() -> None:
    objects = [Found(i) for i in range(70000)]

    def body(i: Any) -> Any:
        objects[0].v = 2
        return i + 1

    with pytest.warns(RuntimeWarning, match="refer to more than 65536 lists, dictionaries and objects"):
        dr.while_loop((UInt(0, 1),), lambda i: i < 3, body)


@dr.syntax
def advanced(state: Any, i: Any, mode: str) -> None:
    """One times one is one, until it is known that the factor changes."""
    while dr.hint(i < 4, mode=mode):
        state.l[0] *= (1 + state.l[0]) * Float(0.5)
        state.step()
        state.w, state.a = state.a + 0, state.w * 1
        i += 1


@mode_of
def test_changes_in_place_that_are_seen_one_after_the_other(mode: str) -> None:
    """Of arrays that are then replaced."""
    def step(self: Any) -> None:
        self.a += 1
        self.l[0] = self.l[0] - 1

    a, w, first = Float(0, 1, 2), Float(0, 2, 4), Float(1)
    state = SimpleNamespace(a=a, l=[first], w=w)
    state.step = types.MethodType(step, state)
    advanced(state, UInt(0, 1, 2), mode)
    assert [list(array) for array in (state.a, state.w, a)] == [[2, 3, 3], [2, 3, 5], [1, 2, 3]]
    assert set(state.l[0]) == {-1}
    assert set(first) == {1}


@mode_of
@pytest.mark.parametrize("where", ["state", "outside"])
@pytest.mark.parametrize("tracked", [False, True])
def test_what_is_read_by_index_and_computed_with(where: str, tracked: bool, mode: str) -> None:
    """Forces between all particles: each looks at its own position, and at that of another one."""
    positions = np.array([-1, -0.5, 0.25, 2])
    x = Float(positions)
    seen = [x]
    if tracked:
        dr.enable_grad(x)

    @dr.syntax
    def forces(x: Any) -> Any:
        total, j = dr.zeros(Float, 4), UInt(0)
        while dr.hint(j < 4, mode=mode):
            distance = dr.gather(Float, seen[0], j) - seen[0] if where == "outside" else dr.gather(Float, x, j) - x
            if dr.hint(distance > 0, mode=mode):
                total += distance * distance
            j += 1
        return total

    found = forces(x)
    apart = np.maximum(positions - positions[:, None], 0)
    np.testing.assert_allclose(dr.detach(found).numpy(), (apart**2).sum(1), rtol=1e-6)  # float32
    if tracked:
        dr.backward(found)
        np.testing.assert_allclose(x.grad.numpy(), 2 * (apart.sum(0) - apart.sum(1)), rtol=1e-6)


@pytest.mark.parametrize("change", [lambda x: x * 2, lambda x: dr.scatter(x, Float(1), UInt(0)) or x])
def test_what_is_read_by_index_computed_with_and_changed_is_refused(change: Callable[[Any], Any]) -> None:
    x = Float(1, 2, 3)

    def body(i: Any, x: Any, total: Any) -> Any:
        total = total + dr.gather(Float, x, i) * x
        return i + 1, change(x), total

    with pytest.raises(RuntimeError, match=r"'state\[1\]'"):
        dr.while_loop((UInt(0), x, Float(0)), lambda i, x, total: i < 3, body, mode="symbolic")
    assert list(x) == [1, 2, 3]
