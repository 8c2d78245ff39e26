"""Objects, lists and dictionaries of arrays as arguments and state: what functions do to fields, against Python with
one element at a time."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import drjit as dr
from drjit.llvm.ad import PCG32, Array2f, Float, UInt32

X = np.array([0, 1, 2, 3], np.float32)


class Struct:
    """A class that names its fields."""

    DRJIT_STRUCT = {"a": Float, "b": Float}  # noqa: RUF012

    def __init__(self, a: Any = None, b: Any = None) -> None:
        self.a, self.b = a, b


class Slots:
    """One that keeps them in slots."""

    __slots__ = ("a", "b")
    DRJIT_STRUCT = {"a": Float, "b": Float}  # noqa: RUF012

    def __init__(self, a: Any = None, b: Any = None) -> None:
        self.a, self.b = a, b


@dataclasses.dataclass
class Data:
    """A data class."""

    a: Float
    b: Float


class Entries(dict[str, Any]):
    """What reads and writes the entries of a dictionary, or a list, like attributes."""

    def __init__(self, holder: Any) -> None:
        object.__setattr__(self, "holder", holder)

    def key(self, name: str) -> Any:
        """The key of an attribute."""
        return name if isinstance(self.holder, dict) else "ab".index(name)

    def __getattr__(self, name: str) -> Any:
        return self.holder[self.key(name)]

    def __setattr__(self, name: str, value: Any) -> None:
        self.holder[self.key(name)] = value


def fields(holder: Any) -> Any:
    """Access to what is in a container."""
    return Entries(holder) if isinstance(holder, (dict, list)) else holder


MAKERS = {
    "struct": Struct, "slots": Slots, "data": Data, "namespace": lambda a, b: SimpleNamespace(a=a, b=b),
    "dict": lambda a, b: {"a": a, "b": b}, "list": lambda a, b: [a, b]}


def exchanged(o: Any, x: Float, held: Float) -> Any:
    o.a = o.a + x
    return o.b


def in_place(o: Any, x: Float, held: Float) -> Any:
    o.a += x
    return o.a * 2


def both(o: Any, x: Float, held: Float) -> Any:
    first = o.a
    first += x
    o.a = first * 2
    return first


def swapped(o: Any, x: Float, held: Float) -> Any:
    o.a, o.b = o.b, o.a
    return o.a + 1


def joined(o: Any, x: Float, held: Float) -> Any:
    o.a = o.b
    return x + o.a


def argument(o: Any, x: Float, held: Float) -> Any:
    o.b = x
    return o.b + 1


def outside(o: Any, x: Float, held: Float) -> Any:
    o.b = held
    return held + x


def twice(o: Any, x: Float, held: Float) -> Any:
    o.a = o.b = o.a + 1
    return x * 1


def later(o: Any, x: Float, held: Float) -> Any:
    new = o.a + x
    o.a = new
    new += 1
    return new


def nothing(o: Any, x: Float, held: Float) -> Any:
    return o.a


CHANGES = exchanged, in_place, both, swapped, joined, argument, outside, twice, later, nothing


def state_of(kind: str, x: np.ndarray) -> tuple[Any, ...]:
    """An object, two arrays in it, another array, and one that functions know."""
    a, b = Float(x + 10), Float(x * 2 + 20)
    return MAKERS[kind](a, b), a, b, Float(x), Float(x + 40)


def left(state: tuple[Any, ...], result: Any) -> list[Any]:
    """What all of it holds."""
    o = fields(state[0])
    return [np.broadcast_to(np.array(each), X.shape if len(X) == dr.width(state[1]) else (1,))
            for each in (o.a, o.b, *state[1:], result)]


def by_elements(kind: str, run: Any) -> list[Any]:
    """What is left by a function that is called with each element."""
    found = []
    for k in range(len(X)):
        state = state_of(kind, X[k:k + 1])
        found.append(left(state, run(state, float(X[k]))))
    return [np.concatenate(values) for values in zip(*found, strict=True)]


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("shift", (0, 1, 3))
def test_branches(kind: str, shift: int) -> None:
    for number, first in enumerate(CHANGES):
        second = CHANGES[(number + shift) % len(CHANGES)]
        state = o, _, _, x, held = state_of(kind, X)

        def yes(o: Any, x: Float, held: Float = held, change: Any = first) -> Any:
            return change(fields(o), x, held)

        def no(o: Any, x: Float, held: Float = held, change: Any = second) -> Any:
            return change(fields(o), x, held)

        result = dr.if_stmt((o, x), x < 2, yes, no)
        expected = by_elements(kind, lambda state, x, first=first, second=second: (first if x < 2 else second)(
            fields(state[0]), state[3], state[4]))
        for found, value in zip(left(state, result), expected, strict=True):
            np.testing.assert_array_equal(found, value, err_msg=f"{first.__name__}, {second.__name__}")


@pytest.mark.parametrize("kind", MAKERS)
@pytest.mark.parametrize("mode", ("symbolic", "evaluated"))
def test_loops(kind: str, mode: str) -> None:
    for change in (exchanged, in_place, swapped, twice, later, nothing):
        state = o, _, _, x, held = state_of(kind, X)

        def body(k: Any, o: Any, x: Float, r: Any, held: Float = held, change: Any = change) -> Any:
            return k + 1, o, x, change(fields(o), x, held) * 1

        def loop(state: tuple[Any, ...], x: float, change: Any = change) -> Any:
            result = Float(0)
            for _ in range(1 + int(x) % 3):
                result = change(fields(state[0]), state[3], state[4]) * 1
            return result

        _, other, _, result = dr.while_loop((UInt32(0), o, x, Float(0)), lambda k, o, x, r: k < 1 + UInt32(x) % 3, body,
                                            mode=mode)
        assert other is o
        for found, value in zip(left(state, result), by_elements(kind, loop), strict=True):
            np.testing.assert_array_equal(found, value, err_msg=change.__name__)


def test_results_are_what_fields_hold() -> None:
    o, x = Struct(Float(X), Float(X + 1)), Float(X)

    def yes(o: Struct, x: Float) -> Any:
        o.a = o.a + x
        return o.a, o, o.b

    a, other, b = dr.if_stmt((o, x), x < 2, yes, lambda o, x: (o.a, o, o.b))
    assert other is o and a is o.a and b is o.b
    np.testing.assert_array_equal(a, np.where(X < 2, 2 * X, X))


def test_attributes_that_are_added_and_removed() -> None:
    """A field that one side adds has no value for other elements; one that a loop's body adds is another structure."""
    o, x = Struct(Float(X), Float(X)), Float(X)

    def add(o: Any, x: Float) -> Any:
        o.c = o.a + x

    with pytest.raises(Exception, match="adds the entry 'b' of a dict, an argument"):
        dr.if_stmt(({"a": o.a},), x < 2, lambda o: o.update(b=o["a"] + 1), lambda o: None)
    dr.if_stmt((o, x), x < 2, add, add)
    np.testing.assert_array_equal(o.c, 2 * X)

    def fail(o: Any, x: Float) -> Any:
        o.d = o.a = x + 1
        raise ValueError("given up")

    p = Struct(Float(X), Float(X))
    with pytest.raises(ValueError, match="given up"):
        dr.if_stmt((p, x), x < 2, fail, lambda o, x: None)
    with pytest.raises(ValueError, match="given up"):
        dr.while_loop((p, x), lambda o, x: x < 2, lambda o, x: (o, fail(o, x)))
    np.testing.assert_array_equal(p.a, X)
    assert not hasattr(p, "d")


class Counted:
    """A class whose methods change it."""

    DRJIT_STRUCT = {"a": Float}  # noqa: RUF012
    total: Any = None

    def __init__(self, a: Any = None) -> None:
        self.a = a

    def count(self) -> None:
        """Add to what the class holds."""
        type(self).total = type(self).total + self.a


@pytest.mark.parametrize("known", (False, True))
def test_methods_that_change_their_class(known: bool) -> None:
    x, Counted.total = Float(X), Float(5)
    o = Counted(Float(X))

    def count(o: Counted, x: Float) -> Any:
        o.count()

    dr.if_stmt((o, x), x < 2, (lambda o, x: Counted(x).count()) if known else count, lambda o, x: None)
    np.testing.assert_array_equal(Counted.total, np.where(X < 2, 5 + X, 5))


def test_objects_that_are_known_otherwise() -> None:
    """It is one object, whether functions are given it or know it."""
    o, x = Struct(Float(X), Float(X)), Float(X)

    def body(k: UInt32, other: Struct) -> Any:
        o.a = o.a + other.b
        other.a = other.a * 2
        return k + 1, other

    dr.while_loop((UInt32(0), o), lambda k, other: (k < 2) & (o.a < 100), body)
    np.testing.assert_array_equal(o.a, ((X + X) * 2 + X) * 2)
    dr.if_stmt((o, x), x < 2, lambda other, x: setattr(o, "a", other.b + 1), lambda other, x: None)
    np.testing.assert_array_equal(o.a, np.where(X < 2, X + 1, ((X + X) * 2 + X) * 2))


def test_nested_ones_and_derivatives() -> None:
    x = Float(X)
    dr.enable_grad(x)
    tree = {"p": [Struct(x * 1, x * 2)], "q": (Array2f(x, x), Data(x, Float(X)))}
    tree["q"][1].a = x * 3

    def change(tree: Any, k: UInt32) -> Any:
        tree["p"][0].a = tree["p"][0].a * tree["q"][1].a
        tree["q"][0].y = tree["q"][0].x + 1
        return tree, k + 1

    dr.while_loop((tree, UInt32(0)), lambda tree, k: k < 2, change, max_iterations=2)
    dr.if_stmt((tree, UInt32(0)), Float(X) < 2, change, lambda tree, k: (tree, k))
    total = np.where(X < 2, 27 * X**4, 9 * X**3)
    np.testing.assert_allclose(tree["p"][0].a, total, rtol=1e-6)  # a product of four
    np.testing.assert_array_equal(tree["q"][0], np.array([X, X + 1]))
    dr.backward(dr.sum(tree["p"][0].a))
    # likewise of products of single precision
    np.testing.assert_allclose(x.grad, np.where(X < 2, 108 * X**3, 27 * X**2), rtol=1e-6)


def test_calls_leave_others_as_they_were() -> None:
    o, x = Struct(Float(X), Float(X)), Float(X)

    def first(o: Struct, x: Float, active: Any) -> Any:
        o.a = o.a + 10
        return o.b

    def second(o: Struct, x: Float, active: Any) -> Any:
        o.b = o.a * x
        return o.a

    result = dr.switch(UInt32(X) % 2, [first, second], o, x, active=Float(X) < 3)
    np.testing.assert_array_equal(o.a, np.where(X % 2 == 0, X + 10, X))
    np.testing.assert_array_equal(o.b, np.where((X % 2 == 1) & (X < 3), X * X, X))
    np.testing.assert_array_equal(result, np.where(X < 3, X, 0))


def test_frozen() -> None:
    @dr.freeze
    def run(o: Struct, x: Float) -> Any:
        def step(o: Struct, x: Float) -> Any:
            o.a = o.a + x
            return o

        return dr.if_stmt((o, x), x < 2, step, lambda o, x: o)

    for shift in range(3):
        o, x = Struct(Float(X + shift), Float(X)), Float(X + shift)
        found = run(o, x)
        np.testing.assert_array_equal(found.a, np.where(X + shift < 2, 2 * (X + shift), X + shift))
        np.testing.assert_array_equal(o.a, np.where(X + shift < 2, 2 * (X + shift), X + shift))


class Known:
    """A class that its operator, and functions that are given its objects, change."""

    DRJIT_STRUCT = {"a": Float}  # noqa: RUF012
    total: Any = None

    def __init__(self, a: Any = None) -> None:
        self.a = a

    def __matmul__(self, other: Float) -> Float:
        type(self).total = type(self).total + other
        return other


def bump(o: Any, x: Float) -> None:
    type(o).total = type(o).total + x


def put(cls: Any, x: Float) -> None:
    cls.total = cls.total + x


def moved(o: Any, x: Float) -> None:
    _ = o @ x


@pytest.mark.parametrize("change", (
    bump, moved, lambda o, x: bump(o, x), lambda o, x: put(Known, x), lambda o, x: moved(o, x),
    lambda o, x: bump(Known(x), x), lambda o, x: setattr(Known, "total", Known.total + x)))
@pytest.mark.parametrize("given", (False, True))
def test_classes_that_functions_find(change: Any, given: bool) -> None:
    x, Known.total = Float(X), Float(5)
    o = Known(Float(X))

    def step(*state: Any) -> Any:
        change(state[1] if given else Known(state[0]), state[0])
        return state

    dr.if_stmt((x, o) if given else (x,), x < 2, lambda *s: step(*s), lambda *s: s)
    np.testing.assert_array_equal(Known.total, np.where(X < 2, 5 + X, 5))
    dr.if_stmt((o, x), x < 2, lambda o, x: None, change)
    np.testing.assert_array_equal(Known.total, 5 + X)
    Known.total = Float(5)
    dr.while_loop((x, o, UInt32(0)) if given else (x, UInt32(0)), lambda *s: s[-1] < 3,
                  lambda *s: (*step(*s[:-1]), s[-1] + 1))
    np.testing.assert_array_equal(Known.total, 5 + 3 * X)


def test_classes_that_methods_are_given() -> None:
    class Counted:
        DRJIT_STRUCT = {"a": Float}  # noqa: RUF012
        total: Any = 0

        def __init__(self, a: Any = None) -> None:
            self.a = a

        def put(self, cls: Any) -> None:
            cls.total = cls.total + self.a

        @staticmethod
        def set(cls: Any, value: Any) -> None:
            cls.total = cls.total + value

        def reset(self: Any, value: Any) -> None:
            self.total = self.total + value

        @classmethod
        def of(cls, value: Any) -> None:
            cls.reset(cls, value)

        def found(self) -> Any:
            return type(self)

    def default(o: Any, cls: Any = Counted) -> None:
        o.put(cls)

    for change in (lambda o: o.put(Counted), lambda o: Counted.set(Counted, o.a), lambda o: Counted.reset(Counted, o.a),
                   lambda o: Counted.of(o.a), lambda o: o.put(o.found()), default):
        for total in (0, 5.0):  # no arrays, which are looked at in any case
            Counted.total = total
            o = Counted(Float(X))

            def step(o: Any, i: Any, change: Any = change) -> tuple[Any, Any]:
                change(o)
                return o, i + 1

            with pytest.raises(RuntimeError, match="attribute 'total' of the class Counted"):
                dr.while_loop((o, UInt32(0)), lambda o, i: i < 3, step)
            assert Counted.total == total


def test_objects_that_operators_call() -> None:
    class Sum:
        def __init__(self) -> None:
            self.sum = Float(0)

        def __call__(self, value: Any) -> None:
            self.sum = self.sum + value

    known = Sum()

    class Called:
        DRJIT_STRUCT = {"a": Float}  # noqa: RUF012
        __call__ = known
        __getitem__ = property(lambda self: known)
        __matmul__ = staticmethod(known)

        def __init__(self, a: Any = None) -> None:
            self.a = a

    for change in (lambda o: o(o.a), lambda o: o[o.a], lambda o: o @ o.a):
        for mode in ("symbolic", "evaluated"):
            known.sum = Float(0)
            dr.if_stmt((Called(Float(X)),), Float(X) < 2, change, lambda o: None, mode=mode)
            np.testing.assert_array_equal(known.sum, np.where(X < 2, X, 0))


@pytest.mark.parametrize("mode", ("symbolic", "evaluated"))
def test_conditions_that_change_state(mode: str) -> None:
    def put(values: list[Any]) -> None:
        values[0] = values[0] + 1

    for state, change in ((Data(Float(X), Float(X)), lambda o: setattr(o, "a", o.a + 1)), ([Float(X)], put),
                          (PCG32(4), lambda o: o.next_uint32())):
        before = str([state, getattr(state, "state", None)])
        with pytest.raises(RuntimeError, match=r"change that in the body\.$"):
            dr.while_loop((UInt32(0), state), lambda i, o, change=change: (change(o), i < 3)[1],
                          lambda i, o: (i + 1, o), mode=mode)
        assert str([state, getattr(state, "state", None)]) == before
