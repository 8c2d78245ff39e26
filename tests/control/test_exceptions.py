"""What functions raise that loops, branches, calls and custom operations call: caught by its class, or as a
``RuntimeError``."""

from __future__ import annotations

import copy
import gc
import pickle
import queue
import traceback
import types
import unittest
import warnings
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pytest

import drjit as dr
from drjit._base import errors
from drjit.llvm import Bool, Int, UInt
from drjit.llvm.ad import PCG32, Float


class Picky(Exception):
    """Its constructor takes other arguments than it has kept, and it has a slot."""

    __slots__ = ("code",)

    def __init__(self, what: str, *, code: int) -> None:
        super().__init__(f"{what} ({code})")
        self.what, self.code = what, code

    def __str__(self) -> str:
        return f"picky: {self.what}"


class New(OSError):
    def __new__(cls, number: int, *, text: str) -> New:
        return super().__new__(cls, number, text)

    def __init__(self, number: int, *, text: str) -> None:
        super().__init__(number, text)


class Kept:
    """A class that keeps an account of those derived from it."""

    kinds: ClassVar[list[type]] = []

    def __init_subclass__(cls) -> None:
        cls.kinds.append(cls)


class Listed(Kept, Exception):
    pass


class Meta(type):
    pass


class Managed(Exception, metaclass=Meta):
    pass


#: Exceptions that a function raises.
RAISED: list[Callable[[], Exception]] = [
    lambda: KeyError("here"), lambda: ZeroDivisionError("here"), AssertionError, lambda: Picky("here", code=3),
    lambda: OSError(2, "nothing", "file"), lambda: FileNotFoundError(2, "nothing", "file", None, "other"),
    lambda: UnicodeDecodeError("utf8", b"ab", 0, 1, "why"), lambda: SyntaxError("here", ("file", 1, 2, "text")),
    lambda: ModuleNotFoundError("here", name="module", path="path"), lambda: AttributeError("here", name="x", obj=3),
    lambda: ExceptionGroup("here", [ValueError(1), KeyError(2)]), lambda: RuntimeWarning("here"),
    lambda: unittest.SkipTest("here"), lambda: New(2, text="here"),
]
#: Those that are passed on themselves.
PASSED: list[Callable[[], BaseException]] = [
    lambda: NotImplementedError("here"), lambda: StopIteration(3), StopAsyncIteration, lambda: Listed("here"),
    lambda: Managed("here"), lambda: KeyboardInterrupt("here"), lambda: SystemExit(2), GeneratorExit,
]


class Operation(dr.CustomOp):
    def eval(self, function: Any) -> Any:
        return function()


class Shape:
    def area(self, function: Any) -> Any:
        return function()


SHAPES = [Shape(), Shape()]
MASK = Bool(True, False)


def pointers() -> Any:
    return dr.instance_array(Shape, UInt)(SHAPES)


@dr.syntax
def decorated(x: Any, function: Any) -> Any:
    while x < 3:
        if x > 1:
            function()
        x += 1
    return x


#: What calls a function, in both modes where there are two.
CONSTRUCTS: dict[str, Callable[[Callable[..., Any]], Any]] = {
    "a custom operation": lambda f: dr.custom(Operation, f),
    "a decorated function": lambda f: decorated(UInt(0, 1), f),
    "the mode of a loop that is asked for": lambda f: dr.while_loop((UInt(0, 1),), lambda _: f(), lambda i: i),
    "nested ones": lambda f: dr.if_stmt((), MASK, lambda: dr.switch(UInt(0, 1), [f, f]), lambda: f()),
}
for mode in ("symbolic", "evaluated"):
    CONSTRUCTS |= {
        f"the body of a loop, {mode}": lambda f, mode=mode: dr.while_loop(  # type: ignore[misc]
            (UInt(0, 1),), lambda i: i < 3, lambda _: f(), mode=mode),
        f"the condition of a loop, {mode}": lambda f, mode=mode: dr.while_loop(  # type: ignore[misc]
            (UInt(0, 1),), lambda _: f(), lambda i: i, mode=mode),
        f"a branch, {mode}": lambda f, mode=mode: dr.if_stmt((), MASK, f, f, mode=mode),  # type: ignore[misc]
        f"a call, {mode}": lambda f, mode=mode: dr.switch(UInt(0, 1), [f, f], mode=mode),  # type: ignore[misc]
        f"a dispatch, {mode}": lambda f, mode=mode: dr.dispatch(  # type: ignore[misc]
            pointers(), lambda _: f(), mode=mode),
        f"a method, {mode}": lambda f, mode=mode: pointers().area(f, mode=mode),  # type: ignore[misc]
    }


def caught(construct: Callable[[Callable[..., Any]], Any], error: BaseException) -> BaseException:
    def function() -> Any:
        raise error

    with pytest.raises(BaseException) as info:
        construct(function)
    return info.value


@pytest.mark.parametrize("name", CONSTRUCTS)
def test_exceptions_are_of_their_class_and_runtime_errors(name: str) -> None:
    original = KeyError("here")
    original.add_note("a note")
    found = caught(CONSTRUCTS[name], original)
    assert isinstance(found, KeyError) and isinstance(found, RuntimeError) and found.__cause__ is original
    assert found.__notes__ == ["a note"] and str(found) == "'here'"
    for error in (found, original):
        frames = traceback.extract_tb(error.__traceback__)
        assert frames[-1].line == "raise error"
    assert not {frame.name for frame in traceback.extract_tb(original.__traceback__)} & {"while_loop", "run", "trace"}


@pytest.mark.parametrize("make", RAISED)
def test_exceptions_keep_what_they_are(make: Callable[[], Exception]) -> None:
    original = make()
    found = caught(CONSTRUCTS["a branch, symbolic"], original)
    cls = type(original)
    assert isinstance(found, cls) and isinstance(found, RuntimeError) and found.__cause__ is original
    assert (type(found).__name__, type(found).__qualname__, type(found).__module__, type(found).__doc__) == (
        cls.__name__, cls.__qualname__, cls.__module__, cls.__doc__)
    for error in (found, copy.copy(found)):
        assert isinstance(error, cls) and isinstance(error, RuntimeError) and str(error) == str(original)
        assert (error.args, error.__dict__) == (original.args, original.__dict__)
        for name in {*dir(original)} - {*dir(BaseException), "__slots__"}:
            value = getattr(original, name, None)
            assert callable(value) or getattr(error, name, None) == value, name


@pytest.mark.parametrize("make", [make for make in RAISED if type(make()) not in (Picky, New)])
def test_exceptions_pickle_as_the_original(make: Callable[[], Exception]) -> None:
    found = caught(CONSTRUCTS["a branch, symbolic"], make())
    again = pickle.loads(pickle.dumps(found))
    assert isinstance(again, type(make())) and isinstance(again, RuntimeError) and str(again) == str(found)


@pytest.mark.parametrize("make", PASSED)
def test_exceptions_that_are_passed_on_themselves(make: Callable[[], BaseException]) -> None:
    original, kinds = make(), list(Kept.kinds)
    for name in ("the body of a loop, symbolic", "a branch, evaluated", "a call, symbolic", "a custom operation"):
        assert caught(CONSTRUCTS[name], original) is original
    assert original.__cause__ is None and Kept.kinds == kinds


def test_exceptions_go_through_several_constructs_as_one() -> None:
    original = KeyError("here")
    found = caught(lambda f: dr.while_loop((UInt(0, 1),), lambda i: i < 3, lambda i: dr.if_stmt(
        (i,), i < 2, lambda i: dr.custom(Operation, f), lambda i: i + 1)), original)
    assert found.__cause__ is original and type(found).__mro__.count(RuntimeError) == 1


def test_plain_python_branches_and_calls_pass_exceptions_on() -> None:
    for construct in (lambda f: dr.if_stmt((), True, f, f), lambda f: dr.switch(0, [f]),
                      lambda f: dr.dispatch(SHAPES[0], lambda _: f())):
        original = KeyError("here")
        assert caught(construct, original) is original


def test_assertions_of_evaluated_loops_are_caught_as_runtime_errors() -> None:
    def body(i: Any) -> Any:
        dr.assert_true(i < 2)
        return i + 1

    for kind in (RuntimeError, AssertionError):
        with dr.scoped_set_flag(dr.JitFlag.Debug), pytest.raises(kind):
            dr.while_loop((UInt(0, 1),), lambda i: i < 3, body, mode="evaluated")


def test_custom_operations_are_left_as_they_were() -> None:
    class Failing(dr.CustomOp):
        last: Any = None

        def eval(self, x: Any) -> Any:
            Failing.last = self
            raise KeyError("here")

    x = Float(1)
    dr.enable_grad(x)
    with pytest.raises(RuntimeError) as info:
        dr.custom(Failing, x)
    assert isinstance(info.value, KeyError) and Failing.last._link is None


def test_classes_live_as_long_as_their_exceptions() -> None:
    class Own(Exception):
        pass

    found = caught(CONSTRUCTS["a branch, symbolic"], Own("here"))
    again = caught(CONSTRUCTS["a call, evaluated"], Own("here"))
    assert type(found) is type(again) and Own in errors._classes
    del found, again
    gc.collect()
    assert errors._classes[Own]() is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert isinstance(caught(CONSTRUCTS["a branch, symbolic"], Own("here")), RuntimeError)


class Stop(Exception):
    pass


@pytest.mark.parametrize("carried", [True, False])
@pytest.mark.parametrize("compress", [True, False])
def test_what_evaluated_loops_have_written_is_undone(compress: bool, carried: bool) -> None:
    """That of earlier iterations, too, which kernels have done: to a copy, of which there is one for all iterations."""
    for _ in range(2):
        table, whole, rounds = dr.zeros(Float, 4), Float(1, 2), list[Any]()
        dr.eval(table, whole)
        view = np.from_dlpack(table)

        def body(i: Any, *state: Any) -> Any:
            nonlocal whole
            target = state[0] if carried else table  # noqa: B023
            dr.scatter(target, Float(i) + 1, i)
            whole += 1
            dr.scatter(whole, Float(9), UInt(0))
            if len(rounds) == 2:  # noqa: B023
                raise Stop
            rounds.append(i)  # noqa: B023
            return i + 1, *state

        with pytest.raises(Stop):
            dr.while_loop((UInt(0, 1), table) if carried else (UInt(0, 1),), lambda i, *_: i < 4, body,
                          mode="evaluated", compress=compress)
        assert list(table) == [0, 0, 0, 0] and list(whole) == [1, 2]
        assert view.tolist() == [0, 0, 0, 0]


def test_what_others_see_is_written_back_also_if_the_array_is_elsewhere_meanwhile() -> None:
    """Another array holds the memory, so that the next write goes to a copy."""
    table, kept = dr.zeros(Float, 4), list[Any]()
    dr.eval(table)
    view = np.from_dlpack(table)

    def body(i: Any) -> Any:
        dr.scatter(table, Float(i) + 1, i)
        dr.eval(table)
        kept.append(Float(table))
        dr.scatter(table, Float(9), i)
        dr.eval(table)
        kept.append(Float(table))
        if len(kept) == 4:
            seen.extend([each.numpy().tolist() for each in kept])
            raise Stop
        return (i + 1,)

    seen = list[Any]()
    with pytest.raises(Stop):
        dr.while_loop((UInt(0),), lambda i: i < 4, body, mode="evaluated")
    assert list(table) == view.tolist() == [0, 0, 0, 0] and not kept
    assert seen == [[1, 0, 0, 0], [9, 0, 0, 0], [9, 2, 0, 0], [9, 9, 0, 0]]


@pytest.mark.parametrize("construct", ["loop", "call"])
def test_what_evaluated_constructs_write_to_is_copied_once(construct: str) -> None:
    """For what raises has changed nothing. Constants are no memory yet."""
    def run(table: Any) -> None:
        def body(i: Any) -> Any:
            dr.scatter_add(table, UInt(1), i)
            return i + 1

        dr.while_loop((UInt(0, 1),), lambda i: i < 5, body, mode="evaluated") if construct == "loop" else \
            dr.switch(UInt(0, 1, 0, 1), [body, body], UInt(0, 1, 2, 3), mode="evaluated")
        dr.eval(table)

    for table, count in ((dr.arange(UInt, 1000) * 2, 1), (dr.zeros(UInt, 1000), 1)):
        run(dr.copy(table))
        if count:
            dr.eval(table)
        with dr.scoped_set_flag(dr.JitFlag.KernelHistory, True):
            dr.kernel_history_clear()
            run(table)
            assert [entry["size"] for entry in dr.kernel_history()].count(1000) == count


@pytest.mark.parametrize(("mode", "number"), [("symbolic", 1), ("evaluated", 1), ("evaluated", 3)])
def test_objects_are_as_they_were_before_a_loop_that_raises(mode: str, number: int) -> None:
    """Also what is no array, of what is state."""
    state, calls = {"n": 0, "values": [Float(1), "a"], "rng": PCG32(2)}, list[int]()

    def body(i: Any, state: Any) -> Any:
        state["n"] += 1
        state["values"].append(3)
        state["values"][1] = "b"
        state["values"][0] += state["rng"].next_float32()
        calls.append(1)
        if len(calls) == number:
            raise Stop
        state["values"].pop()
        return i + 1, state

    with pytest.raises(Stop):
        dr.while_loop((UInt(0, 1), state), lambda i, _: i < 9, body, mode=mode)
    assert state["n"] == 0 and [list(state["values"][0]), *state["values"][1:]] == [[1], "a"]
    assert dr.all(state["rng"].next_float32() == PCG32(2).next_float32())


def test_a_value_that_was_kept_of_a_write_that_was_undone() -> None:
    table, kept = dr.zeros(Float, 2), queue.SimpleQueue[Any]()
    dr.eval(table)

    def body(i: Any) -> Any:
        dr.scatter(table, Float(5), UInt(1))
        kept.put(dr.gather(Float, table, UInt(0, 1)))
        raise Stop

    with pytest.raises(Stop):
        dr.while_loop((UInt(0, 1),), lambda i: i < 4, body, mode="evaluated")
    assert list(kept.get()) == [0, 5] and list(table) == [0, 0]


def test_a_loop_that_is_refused_leaves_no_new_place() -> None:
    table = Float(1, 2, 3)

    class Scene:
        new: Any

    scene = Scene()

    def body(i: Int, x: Float) -> Any:
        scene.new = x * 2
        dr.scatter(table, Float(0), UInt(1))
        return i + 1, x + table

    with pytest.raises(RuntimeError):
        dr.while_loop((Int(0, 1, 2), Float(1, 2, 3)), lambda i, x: i < 4, body, mode="symbolic")
    assert not hasattr(scene, "new")


def test_a_body_that_is_called_again_finds_no_new_place_of_before() -> None:
    class Scene:
        new: Any

    scene, found = Scene(), []

    def body(i: Int, x: Float) -> Any:
        found.append(hasattr(scene, "new"))
        scene.new = x * 2
        return i + dr.width(x), x + Float(1, 2, 3)

    i, x = dr.while_loop((Int(0), Float(1)), lambda i, x: i < 4, body, mode="symbolic")
    assert found == [False, False]
    assert i.numpy()[0] >= 4 and x.numpy().tolist() == [3, 5, 7]


@pytest.mark.parametrize("raises_at", [0, 1, 2])
@pytest.mark.parametrize("compress", [True, False])
def test_a_condition_of_an_evaluated_loop_that_raises_has_changed_nothing(compress: bool, raises_at: int) -> None:
    i, array, owner, entries, calls = UInt(0, 0), UInt(5, 5), types.SimpleNamespace(x=UInt(7, 7)), [UInt(1)], [0]

    def condition(i: UInt) -> Bool:
        array.__iadd__(1)
        i.__iadd__(0)
        owner.x = owner.x + 1
        entries.append(UInt(2))
        calls[0] += 1
        if calls[0] > raises_at:
            raise ValueError
        return i < 3

    def body(i: UInt) -> tuple[UInt]:
        array.__iadd__(10)
        owner.x += 100
        i += 1
        return (i,)

    with pytest.raises(ValueError):
        dr.while_loop((i,), condition, body, mode="evaluated", compress=compress)
    assert [list(each) for each in (i, array, owner.x, entries[0])] == [[0, 0], [5, 5], [7, 7], [1]]
    assert calls == [raises_at + 1] and len(entries) == 1


def test_the_first_call_of_a_condition_has_changed_nothing() -> None:
    """Without a mode, it tells whether the loop is one of Python's."""
    owner = types.SimpleNamespace(x=UInt(0, 0))

    def condition(i: UInt) -> Bool:
        owner.x = owner.x + 1
        return i < 3

    with dr.scoped_set_flag(dr.JitFlag.SymbolicLoops, False):
        dr.while_loop((UInt(0, 1),), condition, lambda i: i + 1)
    assert list(owner.x) == [4, 3]
    with pytest.raises(RuntimeError, match="the condition of this symbolic loop changes the attribute 'x'"):
        dr.while_loop((UInt(0, 1),), condition, lambda i: i + 1)
    assert list(owner.x) == [4, 3]


@pytest.mark.parametrize("call", [
    lambda side, x: dr.if_stmt((x,), Bool(True), side, lambda x: x),
    lambda side, x: dr.if_stmt((x,), Bool(False), lambda x: x, side, mode="symbolic"),
    lambda side, x: dr.switch(UInt(0), [side, lambda x: x], x),
    lambda side, x: dr.switch(dr.opaque(UInt, 0), [side, lambda x: x], x, mode="evaluated"),
    lambda side, x: dr.if_stmt((x,), Bool(True, True), side, lambda x: x, mode="evaluated"),
    lambda side, x: dr.switch(UInt(0, 0), [side, lambda x: x], x)])
def test_a_function_that_all_elements_take_and_that_raises_has_changed_nothing(call: Any) -> None:
    x, array, owner, entries, table = UInt(1, 1), UInt(5, 5), types.SimpleNamespace(x=UInt(7)), [UInt(1)], \
        dr.zeros(UInt, 2)

    def side(x: UInt) -> UInt:
        x += 1
        array.__iadd__(1)
        owner.x, entries[0] = owner.x + 1, UInt(3)
        dr.scatter_add(table, UInt(1), UInt(0))
        raise ValueError

    with pytest.raises(ValueError):
        call(side, x)
    assert [list(each) for each in (x, array, owner.x, entries[0], table)] == [[1, 1], [5, 5], [7], [1], [0, 0]]


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
def test_entries_that_were_removed_are_in_their_places_again(mode: str) -> None:
    entries = [Float(1), Float(2), Float(3)]
    before = list(entries)

    def body(i: Int) -> Any:
        entries.pop()
        entries.pop()
        raise Stop

    with pytest.raises(Stop):
        dr.while_loop((Int(0, 1),), lambda i: i < 3, body, mode=mode)
    assert [one is other for one, other in zip(entries, before, strict=True)] == [True] * 3


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
def test_dictionaries_have_their_order_again_if_an_entry_was_removed(mode: str) -> None:
    table = {"a": Float(1), "b": Float(2), "c": Float(3)}

    def body(i: Int) -> Any:
        table.pop("a")
        raise Stop

    with pytest.raises(Stop):
        dr.while_loop((Int(0, 1),), lambda i: i < 3, body, mode=mode)
    assert list(table) == ["a", "b", "c"]


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
def test_lists_have_no_text_of_a_function_that_raises_after_it_has_added_arrays(mode: str) -> None:
    entries: list[Any] = [Float(1)]

    def body(i: Int) -> Any:
        entries.extend([Float(2), "text", None])
        raise Stop

    with pytest.raises(Stop):
        dr.while_loop((Int(0, 1),), lambda i: i < 3, body, mode=mode)
    assert len(entries) == 1
