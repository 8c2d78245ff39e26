"""Variables from outside that functions of symbolic constructs assign: once, in the elements that take part."""

from __future__ import annotations

import array as arrays
import collections
import contextlib
import ctypes
import dataclasses
import functools
import heapq
import math
import mmap
import operator
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import drjit as dr
from drjit.llvm import Bool, Float, UInt, ad


def plain(array: Any) -> Any:
    return np.asarray(array).tolist()


class Scene:
    """An object whose attribute functions assign."""

    def __init__(self) -> None:
        self.x = Float(1, 2, 3)


def in_construct(construct: str, function: Callable[[Any], Any]) -> Any:
    """A symbolic construct whose function is called with a variable, in the first and the last element."""
    x, taken = Float(0, 0, 0), Bool(True, False, True)
    if construct == "loop":
        return dr.while_loop((x,), lambda x: taken & (x < 1), function, mode="symbolic")[0]
    if construct == "branch":
        return dr.if_stmt((x,), taken, function, lambda x: x, mode="symbolic")
    return dr.switch(dr.select(taken, UInt(0), 1), [function, lambda x: x], x, mode="symbolic")


@pytest.mark.parametrize("construct", ["loop", "branch", "call"])
def test_functions_that_write_by_index_assign_once(construct: str) -> None:
    """What they write is of the values that they have assigned, in the elements that take part."""
    scene, entries, table = Scene(), [Float(1, 2, 3)], dr.zeros(Float, 3)
    nonlocal_ = Float(1, 2, 3)

    def function(x: Any) -> Any:
        nonlocal nonlocal_
        scene.x = scene.x + 1
        entries[0] = entries[0] * 2
        nonlocal_ = nonlocal_ + 10
        dr.scatter_add(table, scene.x + entries[0] + nonlocal_, dr.arange(UInt, 3))
        return x + 1

    assert plain(in_construct(construct, function)) == [1, 0, 1]
    assert plain(table) == [15, 0, 23]
    assert (plain(scene.x), plain(entries[0]), plain(nonlocal_)) == ([2, 2, 4], [2, 2, 6], [11, 2, 13])


@pytest.mark.parametrize("construct", ["loop", "branch", "call"])
def test_variables_are_as_before_when_a_function_raises(construct: str) -> None:
    scene, entries, nonlocal_ = Scene(), [Float(1, 2, 3)], Float(1, 2, 3)

    def function(x: Any) -> Any:
        nonlocal nonlocal_
        scene.x = scene.x + x
        entries[0] = x
        nonlocal_ = x * 2
        raise KeyError("stop")

    with pytest.raises(KeyError, match="stop"):
        in_construct(construct, function)
    for array in (scene.x, entries[0], nonlocal_):
        assert plain(array) == [1, 2, 3]


@pytest.mark.parametrize("construct", ["branch", "call"])
@pytest.mark.parametrize("reverse", [False, True])
def test_derivatives_of_functions_assign_nothing(construct: str, reverse: bool) -> None:
    count, x = [dr.zeros(ad.Float, 3)], ad.Float(1, 2, 3)
    dr.enable_grad(x)

    def function(x: Any) -> Any:
        count[0] = count[0] + 1
        return x * x

    if construct == "branch":
        y = dr.if_stmt((x,), x > 1, function, lambda x: x, mode="symbolic")
    else:
        y = dr.switch(dr.select(x > 1, ad.UInt(0), 1), [function, lambda x: x], x, mode="symbolic")
    if reverse:
        dr.backward(y)
        assert plain(x.grad) == [1, 4, 6]
    else:
        x.grad = 1
        assert plain(dr.forward_to(y)) == [1, 4, 6]
    assert plain(count[0]) == [0, 1, 1]  # not by the derivative, and where x > 1


class Inner:
    """An object whose attribute is assigned."""

    def __init__(self) -> None:
        self.value: Any = Float(1)
        self.calls = 0

    def double(self) -> None:
        self.value = self.value * 2


class Outer:
    """An object that has another one, and can be called."""

    __slots__ = ("inner", "value")

    def __init__(self) -> None:
        self.inner = Inner()
        self.value: Any = Float(1)

    def __call__(self, value: Any = None) -> Any:
        self.value = self.value * 2
        return value

    def double(self) -> None:
        self.inner.double()


class Shared:
    """A class with an attribute of its own, and operators that assign."""

    total: Any = Float(1)

    def __init__(self) -> None:
        self._value: Any = Float(1)

    @classmethod
    def double(cls) -> None:
        cls.total = cls.total * 2

    @staticmethod
    def double_directly() -> None:
        Shared.total = Shared.total * 2

    @property
    def value(self) -> Any:
        return self._value

    @value.setter
    def value(self, value: Any) -> None:
        self._value = value

    def __setitem__(self, key: int, value: Any) -> None:
        self._value = value

    def __getitem__(self, key: int) -> Any:
        return self._value

    def __iadd__(self, other: Any) -> Any:
        self._value = self._value + other
        return self


total: Any = Float(1)


def double_total() -> None:
    """Assigns a variable of the module."""
    global total
    total = total * 2


def assigning(case: str) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """A function that doubles something that is 1, as a Python program may, and one that tells what it is."""
    number: Any = 1
    pair: Any = (Float(1), 0)
    entries: list[Any] = []
    table: dict[str, list[Any]] = {"a": [Float(1)]}
    outer = Outer()

    def nested() -> None:
        nonlocal pair, number
        pair = (pair[0] * 2, 1)

    def helper() -> None:
        nested()

    def count() -> None:
        nonlocal number
        number += 1

    def inner_count() -> None:
        outer.inner.calls += 1

    def first_of(made: Any) -> None:
        made.double()

    def within() -> None:
        def body() -> None:
            nonlocal number
            number = number * 2
        body()

    shared = Shared()
    Shared.total = Float(1)

    def by_property() -> None:
        shared.value = shared.value * 2

    def by_item() -> None:
        shared[0] = shared[0] * 2

    def by_operator() -> None:
        nonlocal shared
        shared += 1

    def of_the_class() -> None:
        Shared.total = Shared.total * 2

    def by_name() -> None:
        setattr(outer.inner, "value", outer.inner.value * 2)  # noqa: B010

    callbacks = {"all": [helper, count]}

    if case == "module":
        global total
        total = Float(1)
        return double_total, lambda: total
    functions: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
        "tuple in a function that is called": (helper, lambda: pair[0]),
        "function in a list": (lambda: callbacks["all"][0](), lambda: pair[0]),
        "counter": (count, lambda: number),
        "function within": (within, lambda: number),
        "list": (lambda: entries.append(1), lambda: len(entries) + 1),
        "list in a dictionary": (lambda: table["a"].append(Float(3)), lambda: len(table["a"])),
        "partial application": (functools.partial(first_of, outer), lambda: outer.inner.value),
        "object that is called": (outer, lambda: outer.value),
        "method": (outer.double, lambda: outer.inner.value),
        "attribute of an attribute": (inner_count, lambda: outer.inner.calls + 1),
        "property": (by_property, lambda: shared.value),
        "item": (by_item, lambda: shared.value),
        "operator": (by_operator, lambda: shared.value),
        "class": (of_the_class, lambda: Shared.total),
        "method of a class": (lambda: Shared.double(), lambda: Shared.total),
        "static method": (lambda: shared.double_directly(), lambda: Shared.total),
        "setattr": (by_name, lambda: outer.inner.value)}
    return functions[case]


#: What is assigned is an array before and after, of which elements have their own.
ARRAYS = ["tuple in a function that is called", "function in a list", "partial application", "object that is called",
          "method", "module", "property", "item", "operator", "class", "method of a class", "static method", "setattr"]
#: What is assigned is no array: once, however many elements there are.
NO_ARRAYS = ["counter", "function within", "list", "list in a dictionary", "attribute of an attribute"]


@pytest.mark.parametrize("construct", ["loop", "branch", "call"])
@pytest.mark.parametrize("case", ARRAYS + NO_ARRAYS)
def test_whatever_functions_assign_they_assign_it_once(construct: str, case: str) -> None:
    """However it is reached: by functions that are called, in containers, of any type."""
    change, value = assigning(case)
    table = dr.zeros(Float, 3)

    def function(x: Any) -> Any:
        change()
        dr.scatter_add(table, x + 1, dr.arange(UInt, 3))
        return x + 1

    assert plain(in_construct(construct, function)) == [1, 0, 1]
    assert plain(table) == [1, 0, 1]
    assert plain(value()) == (2 if case in NO_ARRAYS else [2, 1, 2])


class Stubborn(list[Any]):
    """A list that refuses to be changed, and tells nothing of itself."""

    def __setitem__(self, key: Any, value: Any) -> None:
        raise TypeError("read only")

    def __len__(self) -> int:
        raise TypeError("no length")

    def __iter__(self) -> Any:
        return iter([])


class Counted:
    """A class that counts its instances, and keeps them."""

    count = 0
    known: list[Any] = []  # noqa: RUF012

    def __init__(self) -> None:
        Counted.count += 1
        self.own = 1
        self.known.append(self)

    def increase(self) -> None:
        type(self).count += 1

    @functools.cached_property
    def number(self) -> int:
        self.own += 1
        return self.own


class Derived(Counted):
    """A class whose method calls the one that it replaces."""

    def increase(self) -> None:
        super().increase()


@dataclasses.dataclass(frozen=True)
class Frozen:
    """An object that is changed nevertheless."""

    n: int = 0


def effects() -> dict[str, tuple[Callable[[], Any], Callable[[], Any]]]:
    """Functions that change something, and ones that tell what it is."""
    numbers, buffer, queue = np.zeros(3), bytearray(b"a"), collections.deque([1, 2, 3])
    reals, longer = arrays.array("d", [math.nan, 1]), arrays.array("i", [1])
    of_c, mapped = (ctypes.c_int * 3)(), mmap.mmap(-1, 16)
    ordered, sets, entries = collections.OrderedDict(a=1, b=2, c=3), {1, 2, 3}, [3, 4]
    many, stubborn, frozen, outer = [0] * 1000, Stubborn([1]), Frozen(), Outer()
    made, derived = Counted(), Derived()
    Counted.count, Counted.known = 0, []
    held = {"a": outer}

    def add_in_place() -> None:
        nonlocal numbers, entries
        numbers += 1
        entries += [5]

    def increase(owner: Any) -> None:
        owner.calls += 1

    def default(seen: list[Any] = [], *, last: Any = outer) -> None:  # noqa: B006
        seen.append(1)
        last.inner.calls = len(seen)

    def assign_many() -> None:
        many[0] += 1

    def assign_number() -> None:
        numbers[0] += 1

    def first() -> Any:
        return held["a"]

    def assign_returned() -> None:
        first().inner.calls += 1

    return {
        "array of NumPy": (assign_number, lambda: numbers.tolist()),
        "array of NumPy, by a method": (lambda: numbers.fill(numbers[0] + 1), lambda: numbers.tolist()),
        "in place": (add_in_place, lambda: (numbers.tolist(), entries)),
        "array": (lambda: operator.setitem(reals, 1, reals[1] + 1), lambda: str(reals.tolist())),
        "array, longer": (lambda: longer.append(2), longer.tolist),
        "array of C": (lambda: operator.setitem(of_c, 0, of_c[0] + 1), lambda: list(of_c)),
        "mapped memory": (lambda: operator.setitem(mapped, 0, mapped[0] + 1), lambda: mapped[:]),
        "bytes": (lambda: buffer.append(66), lambda: bytes(buffer)),
        "queue": (lambda: queue.rotate(1), lambda: list(queue)),
        "order": (lambda: ordered.move_to_end(next(iter(ordered))), lambda: list(ordered)),
        "set": (lambda: sets.symmetric_difference_update({3, 4}), lambda: sorted(sets)),
        "heap": (lambda: heapq.heappush(entries, 1), lambda: entries),
        "many entries": (assign_many, lambda: many[0]),
        "list that refuses": (lambda: stubborn.append(2), lambda: list.__len__(stubborn)),
        "frozen object": (lambda: object.__setattr__(frozen, "n", frozen.n + 1), lambda: frozen.n),
        "argument": (lambda: increase(outer.inner), lambda: outer.inner.calls),
        "result": (assign_returned, lambda: outer.inner.calls),
        "default": (default, lambda: (default.__defaults__, outer.inner.calls)),
        "constructor": (Counted, lambda: (Counted.count, len(Counted.known))),
        "class of an object": (made.increase, lambda: Counted.count),
        "class above": (derived.increase, lambda: Counted.count),
        "cached property": (lambda: made.number, lambda: made.own),
        "operator": (lambda: operator.setitem(entries, 0, entries[0] + 1), lambda: entries),
        "name in a text": (lambda: getattr(entries, "append")(1), lambda: entries)}  # noqa: B009


#: What holds data, as arrays do: a body that is called once cannot change it in each iteration, or for some elements.
DATA = {"array of NumPy": "numbers", "array of NumPy, by a method": "numbers", "in place": "numbers", "bytes": "buffer",
        "set": "sets", "array": "reals", "array, longer": "longer", "array of C": "of_c", "mapped memory": "mapped"}


@pytest.mark.parametrize("construct", ["loop", "branch", "call"])
@pytest.mark.parametrize("case", DATA)
def test_changes_of_data_are_refused_and_undone(construct: str, case: str) -> None:
    change, value = effects()[case]
    before = value()

    def function(x: Any) -> Any:
        change()
        return x + 1

    with pytest.raises(RuntimeError, match=f"changes the object '{DATA[case]}' of type .* in place"):
        in_construct(construct, function)
    after = value()
    assert (after[0] if case == "in place" else after) == (before[0] if case == "in place" else before)


@pytest.mark.parametrize("construct", ["loop", "branch", "call"])
@pytest.mark.parametrize("case", [case for case in effects() if case not in DATA])
def test_whatever_functions_change_they_change_it_once(construct: str, case: str) -> None:
    change, value = effects()[case]
    change()
    once = value()
    change, value = effects()[case]
    table = dr.zeros(Float, 3)

    def function(x: Any) -> Any:
        change()
        dr.scatter_add(table, x + 1, dr.arange(UInt, 3))
        return x + 1

    assert plain(in_construct(construct, function)) == [1, 0, 1]
    assert plain(table) == [1, 0, 1]
    assert value() == once


@dataclasses.dataclass
class Data:
    """A data class."""

    x: Any


def test_functions_of_instances_assign_once() -> None:
    made = dr.instance_array(Inner, UInt)
    first, second, table = Inner(), Inner(), dr.zeros(Float, 4)

    def function(instance: Inner, index: Any) -> Any:
        instance.double()
        dr.scatter(table, Float(index), index)
        return instance.value

    assert plain(dr.dispatch(made(first, second, first, second), function, dr.arange(UInt, 4))) == [2, 2, 2, 2]
    assert (plain(first.value), plain(second.value)) == ([2, 1, 2, 1], [1, 2, 1, 2])
    assert plain(table) == [0, 1, 2, 3]


def test_counters_remain_when_a_function_raises() -> None:
    """What is no array is left as a function of Python leaves it."""
    calls, seen = 0, list[str]()

    def function(x: Any) -> Any:
        nonlocal calls
        calls += 1
        seen.append("called")
        raise KeyError("stop")

    with pytest.raises(KeyError, match="stop"):
        in_construct("branch", function)
    assert (calls, seen) == (1, ["called"])


def test_derivatives_count_nothing() -> None:
    calls, x = 0, ad.Float(1, 2, 3)
    dr.enable_grad(x)

    def function(x: Any) -> Any:
        nonlocal calls
        calls += 1
        return x * x

    y = dr.if_stmt((x,), x > 1, function, lambda x: x, mode="symbolic")
    dr.backward(y)
    assert plain(x.grad) == [1, 4, 6]
    assert calls == 1


def test_objects_that_tell_nothing_of_themselves() -> None:
    """Classes without a module, and objects whose attributes are computed, are looked at without harm."""
    class Odd:
        __module__ = None  # type: ignore[assignment]
        value: Any = 1

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(f"computed {name}")

    odd, table = Odd(), dr.zeros(Float, 3)

    def function(x: Any) -> Any:
        odd.value = odd.value + 1
        dr.scatter_add(table, x + odd.value, dr.arange(UInt, 3))
        return x + 1

    assert plain(in_construct("branch", function)) == [1, 0, 1]
    assert (plain(table), odd.value) == ([2, 0, 2], 2)


def test_each_object_of_a_class_is_looked_at() -> None:
    pair, table = [Inner(), Inner()], dr.zeros(Float, 3)
    first, second = pair

    def function(x: Any) -> Any:
        first.double()
        second.double()
        dr.scatter_add(table, x + 1, dr.arange(UInt, 3))
        return x + 1

    assert plain(in_construct("branch", function)) == [1, 0, 1]
    assert (plain(first.value), plain(second.value)) == ([2, 1, 2], [2, 1, 2])


def test_instances_with_functions_of_their_own() -> None:
    """Whether the first one's assigns says nothing of the others'."""
    class Calling:
        def __init__(self, callback: Callable[[], None]) -> None:
            self.callback = callback

        def run(self, index: Any) -> Any:
            self.callback()
            dr.scatter(table, Float(index), index)
            return index

    def count() -> None:
        nonlocal calls
        calls += 1

    calls, table = 0, dr.zeros(Float, 4)
    made = dr.instance_array(Calling, UInt)
    instances = [Calling(lambda: None), Calling(count), *[Calling(lambda: None) for _ in range(100)], Calling(count)]
    assert plain(made(instances).run(dr.arange(UInt, len(instances)) % 4)) == [k % 4 for k in range(len(instances))]
    assert (calls, plain(table)) == (2, [0, 1, 2, 3])


@pytest.mark.parametrize("construct", ["branch", "call"])
def test_what_is_reached_through_libraries_is_assigned_once(construct: str) -> None:
    """Attributes of a namespace, by a function behind a decorator."""
    state, table = types.SimpleNamespace(value=Float(1)), dr.zeros(Float, 3)

    @contextlib.contextmanager
    def doubled() -> Any:
        state.value = state.value * 2
        yield

    def function(x: Any) -> Any:
        with doubled():
            dr.scatter_add(table, x + 1, dr.arange(UInt, 3))
        return x

    in_construct(construct, function)
    assert (plain(state.value), plain(table)) == ([2, 1, 2], [1, 0, 1])


def test_containers_that_other_threads_read_are_never_empty() -> None:
    """A cache of a program keeps its old entries while those are removed that a trace has made."""
    class Cache(dict[str, int]):
        def clear(self) -> None:
            raise AssertionError("the cache was emptied")

    cache, table = Cache(a=1, b=2), dr.zeros(Float, 3)

    def function(x: Any) -> Any:
        cache["a"] += 1
        cache["c"] = 3
        dr.scatter_add(table, x + 1, dr.arange(UInt, 3))
        return x

    in_construct("branch", function)
    assert cache == {"a": 2, "b": 2, "c": 3}
