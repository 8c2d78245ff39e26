"""Array objects as Python objects: those without contents, components that become arrays of their own, what programs
derive from array types."""

from __future__ import annotations

import gc
import operator
import threading
import weakref
from collections.abc import Callable
from typing import Any

import pytest

import drjit as dr
from drjit.llvm import Array3f, Bool, Float, Int, Matrix4f, TensorXf, UInt32
from drjit_core.context import current

# --- components that become arrays of their own ----------------------------------------------------------------------


def _initialise(array: Any) -> None:
    array.__init__(5.0)


def _restore(array: Any) -> None:
    array.__setstate__(Float(5.0).__reduce_ex__(4)[2])


OWNERS: dict[str, tuple[Callable[[], Any], Callable[[Any], Any], float]] = {
    "component": (lambda: Array3f(1, 2, 3), lambda array: array.x, 1),
    "entry": (lambda: Array3f(1, 2, 3), lambda array: array[2], 3),
    "elements of a tensor": (lambda: TensorXf([4.0], (1,)), lambda array: array.array, 4),
}


@pytest.mark.parametrize("owner", OWNERS)
def test_a_component_that_is_initialised_again_is_none_any_more(owner: str) -> None:
    make, component, expected = OWNERS[owner]
    for _ in range(50):
        array = make()
        view = component(array)
        view.__init__(5.0)
        assert view[0] == 5
        assert component(array)[0] == expected
        other = component(array)
        assert other is not view
        other += 1
        assert component(array)[0] == expected + 1
        assert view[0] == 5
        view += 1
        assert (view[0], component(array)[0]) == (6, expected + 1)
        del view
        assert component(array) is other


@pytest.mark.parametrize("change", [_initialise, _restore])
@pytest.mark.parametrize("first", ["array", "component"])
def test_a_component_that_has_become_something_else_dies_before_its_owner_or_after(
        change: Callable[[Any], None], first: str) -> None:
    for _ in range(200):
        array = Array3f(1, 2, 3)
        view = array.x
        if change is _restore:  # gives the owner the values, if it is a component
            view.__init__(0.0)
        change(view)
        if first == "array":
            del array
            others = [Array3f(k, 1, 2) for k in range(4)]
            assert view[0] == 5
            del view
        else:
            del view
            others = [Array3f(k, 1, 2) for k in range(4)]
            assert array.x[0] == 1
            del array
        assert [other.x[0] for other in others] == [0, 1, 2, 3]


# --- arrays without contents -----------------------------------------------------------------------------------------


class Forgetful(Float):
    """Does not call ``__init__`` of its base class."""

    def __init__(self, value: float) -> None:
        self.value = value


USES: dict[str, Callable[[Any], Any]] = {
    "x + 1": lambda x: x + 1, "1 + x": lambda x: 1 + x, "x + x": lambda x: x + x, "y + x": lambda x: Float(1) + x,
    "x + y": lambda x: x + Float(1), "-x": operator.neg, "x[0]": lambda x: x[0], "len": len, "repr": repr,
    "sin": dr.sin, "fma": lambda x: dr.fma(x, x, x), "select": lambda x: dr.select(Bool(True), x, 1.0),
    "sum": dr.sum, "maximum": lambda x: dr.maximum(x, 0.5), "x ** 2": lambda x: x ** 2, "Int(x)": lambda x: Int(x),
    "Array3f * x": lambda x: Array3f(1) * x, "tensor * x": lambda x: TensorXf([1.0, 2.0], (2,)) * x,
    "gather": lambda x: dr.gather(Float, x, UInt32(0)), "index": lambda x: dr.gather(Float, Float(1, 2), UInt32(x)),
    "width": dr.width, "numpy": lambda x: x.numpy(), "Array3f(x, 1, 2)": lambda x: repr(Array3f(x, 1, 2)),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("make", [lambda: Float.__new__(Float), lambda: Forgetful(1.0)], ids=["new", "derived"])
def test_arrays_without_contents_are_refused(make: Callable[[], Any], use: str) -> None:
    array = make()
    for _ in range(3):
        with pytest.raises(AttributeError):
            USES[use](array)


@pytest.mark.parametrize("use", ["x + 1", "1 + x", "-x", "x[0]", "sin", "x ** 2", "repr"])
@pytest.mark.parametrize("cls", [Array3f, TensorXf])
def test_other_arrays_without_contents_are_refused(cls: type, use: str) -> None:
    with pytest.raises((AttributeError, TypeError)):
        USES[use](cls.__new__(cls))


# --- derived types ---------------------------------------------------------------------------------------------------


class Demanding(Float):
    """Its ``__new__`` is for users: results of operations come into being without it."""

    made = 0

    def __new__(cls, value: float) -> Any:
        cls.made += 1
        if cls.made > 1:
            return "something else"
        return super().__new__(cls)


class DemandingVector(Array3f):
    made = 0

    def __new__(cls, x: float, y: float, z: float) -> Any:
        cls.made += 1
        if cls.made > 1:
            return "something else"
        return super().__new__(cls)


def test_results_of_derived_types_are_made_without_their_new() -> None:
    array = Demanding(2.0)
    vector = DemandingVector(1.0, 2.0, 3.0)
    for _ in range(100):
        for result in (array + 1, 1 - array, -array, dr.sqrt(array), array + array, dr.sum(array)):
            assert isinstance(result, Float)
        for other in (vector + 1, -vector, vector * vector, dr.sin(vector)):
            assert isinstance(other, Array3f)
    assert (array + 1)[0] == 3
    assert (vector + vector).y[0] == 4
    assert (Demanding.made, DemandingVector.made) == (1, 1)


def test_derived_types_that_arrays_were_created_of_come_and_go() -> None:
    kept = []
    for create in (lambda cls: dr.zeros(cls, 3), lambda cls: dr.full(cls, 2, 3), lambda cls: dr.empty(cls, 3),
                   lambda cls: dr.arange(cls, 3), lambda cls: dr.linspace(cls, 0, 1, 3)):
        derived = type("Derived", (Float,), {})
        for _ in range(2):
            assert type(create(derived)) is derived
        kept.append(weakref.ref(derived))
        del derived
    gc.collect()
    assert [reference() for reference in kept] == [None] * len(kept)


# --- threads ---------------------------------------------------------------------------------------------------------


def test_what_the_context_of_a_dead_thread_held_may_run_other_threads_when_it_ends() -> None:
    """The first to ask for its context after a thread has ended may be who releases that thread's."""
    may_ask, has_asked = threading.Event(), threading.Event()
    seen: dict[str, Any] = {}

    class Slow:
        def __del__(self) -> None:
            may_ask.set()
            has_asked.wait(5)

    def dead() -> None:
        current().scheduled.append(Slow())

    def other() -> None:
        may_ask.wait(5)
        seen["other"] = current()
        has_asked.set()
        done.wait(5)

    mine = current()
    done = threading.Event()
    threads = [threading.Thread(target=other), threading.Thread(target=dead)]
    threads[0].start()
    threads[1].start()
    threads[1].join()
    found = current()
    again = current()
    done.set()
    threads[0].join()
    gc.collect()
    assert "other" in seen
    if isinstance(mine, threading.local):  # one object for all threads
        return
    assert found is mine
    assert again is mine
    assert seen["other"] is not mine


@pytest.mark.parametrize("make", [lambda: Float(1, 2), lambda: Array3f(1, 2, 3), lambda: Matrix4f(1),
                                  lambda: TensorXf([1, 2], (1, 2))])
def test_elements_cannot_be_deleted(make) -> None:
    array = make()
    text = repr(array)
    with pytest.raises(TypeError, match=rf"drjit\.llvm\.{type(array).__name__}\.__delitem__\(\): the elements"):
        del array[0]
    assert repr(array) == text


@pytest.mark.parametrize("bases", [(Float, Array3f), (Array3f, TensorXf), (TensorXf, Float)])
def test_a_class_is_of_one_kind_of_arrays(bases: tuple[type, ...]) -> None:
    with pytest.raises(TypeError, match="multiple bases have instance lay-out conflict"):
        type("Mixed", bases, {})
