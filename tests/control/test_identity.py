"""Which array is which: what functions change in place shows wherever the array is, as in Python with one element."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

import drjit as dr
from drjit.llvm import Array3f, Bool, Float, UInt

MODES = ["symbolic", "evaluated"]
LANES = 3


class Box:
    """An object with some arrays."""

    def __init__(self, **arrays: Any) -> None:
        vars(self).update(arrays)


class Program:
    """What a program uses: all lanes at once, or one of them with Python's own constructs."""

    def __init__(self, mode: str, lane: int = -1) -> None:
        self.mode, self.lane = mode, lane

    def array(self, *values: float) -> Float:
        return Float(*values) if self.lane < 0 else Float(values[self.lane])

    def loop(self, body: Callable[..., Any], *state: Any) -> Any:
        """One iteration for the last lane, two and three for others."""
        left = UInt(3, 2, 1)
        if self.lane < 0:
            return dr.while_loop((left, *state), lambda left, *_: left > 0,
                                 lambda left, *state: (left - 1, *body(*state)), mode=self.mode)[1:]
        for _ in range(int(left[self.lane])):
            state = body(*state)
        return state

    def branch(self, yes: Callable[..., Any], no: Callable[..., Any], *arguments: Any) -> Any:
        if self.lane < 0:
            return dr.if_stmt(arguments, Bool(True, False, True), yes, no, mode=self.mode)
        return (no if self.lane == 1 else yes)(*arguments)


def _numbers(value: Any) -> list[Any]:
    """The elements of arrays: a list for each component."""
    if isinstance(value, (tuple, list)):
        return [part for entry in value for part in _numbers(entry)]
    return [list(part) for part in value] if isinstance(value, Array3f) else [list(value)]


def _python(program: Callable[[Program], Any]) -> list[Any]:
    columns = [_numbers(program(Program("python", lane))) for lane in range(LANES)]
    return [[element for part in parts for element in part] for parts in zip(*columns, strict=True)]


def _nothing(*_: Any) -> None:
    pass


# --- loops ------------------------------------------------------------------------------------------------------------


def changed_and_replaced(p: Program) -> Any:
    box = Box(f=p.array(1, 2, 3))
    before = box.f

    def body() -> Any:
        box.f -= 1
        box.f = box.f * 2
        return ()

    p.loop(body)
    return box.f, before


def replaced_and_read_elsewhere(p: Program) -> Any:
    box = Box(f=p.array(1, 2, 3))
    before = box.f

    def body(y: Any) -> Any:
        z = box.f * 1
        box.f = y + 10
        return (y + before + z + box.f,)

    return *p.loop(body, p.array(0, 0, 0)), box.f, before


def exchanged(p: Program) -> Any:
    box = Box(f=p.array(1, 2, 3), g=p.array(4, 5, 6))
    f, g = box.f, box.g

    def body() -> Any:
        box.f += 1
        box.f, box.g = box.g * 2, box.f * 1
        box.g += 1
        return ()

    p.loop(body)
    return box.f, box.g, f, g


def entry_of_a_list(p: Program) -> Any:
    entries = [p.array(1, 2, 3)]
    before = entries[0]

    def body(entries: Any) -> Any:
        entries[0] += 1
        entries[0] = entries[0] * 2
        return (entries,)

    found, = p.loop(body, entries)
    assert found is entries
    return entries, before


def list_that_is_not_returned(p: Program) -> Any:
    entries = [p.array(1, 2, 3)]
    before = entries[0]

    def body(entries: Any) -> Any:
        entries[0] += 1
        entries[0] = entries[0] * 2
        return ([entries[0] + 0],)

    return p.loop(body, entries), entries, before


def argument_and_constant(p: Program) -> Any:
    """Of which the function is called again."""
    x, total = p.array(1, 2, 3), p.array(1, 1, 1)

    def body(y: Any) -> Any:
        nonlocal total
        y += 1
        total += y
        return (y * 2,)

    return p.loop(body, x), x, total


def list_and_constant(p: Program) -> Any:
    entries, total = [p.array(1, 2, 3)], p.array(1, 1, 1)

    def body(entries: Any) -> Any:
        nonlocal total
        entries[0] = entries[0] + 1
        total += entries[0]
        return ([entries[0] * 2],)

    return p.loop(body, entries), entries, total


def list_in_a_loop_in_a_loop(p: Program) -> Any:
    entries = [p.array(1, 2, 3)]

    def inner(entries: Any) -> Any:
        entries[0] = entries[0] + 1
        return ([entries[0] * 2],)

    return p.loop(lambda entries: p.loop(inner, entries), entries), entries


def given_twice_to_a_loop(p: Program) -> Any:
    x = p.array(1, 2, 3)

    def body(a: Any, b: Any) -> Any:
        a += 1
        b *= 2
        return a, b

    a, b = p.loop(body, x, x)
    assert a is x and b is x
    return x


def given_and_in_a_list_to_a_loop(p: Program) -> Any:
    x = p.array(1, 2, 3)
    entries = [x]

    def body(a: Any, entries: Any) -> Any:
        a += 1
        entries[0] *= 2
        return a, entries

    a, found = p.loop(body, x, entries)
    assert a is x and found is entries and entries[0] is x
    return x


def known_otherwise(p: Program) -> Any:
    x = p.array(1, 2, 3)

    def body(a: Any, y: Any) -> Any:
        a += 1
        return a, y + x

    return *p.loop(body, x, p.array(0, 0, 0)), x


def changed_otherwise(p: Program) -> Any:
    x = p.array(1, 2, 3)
    box = Box(f=x)

    def body(a: Any, y: Any) -> Any:
        box.f += 1
        return a, y + a

    found = p.loop(body, x, p.array(0, 0, 0))
    assert box.f is x and found[0] is x
    return x, found[1]


def three_times_of_which_two_change(p: Program) -> Any:
    x = p.array(1, 2, 3)

    def body(a: Any, b: Any, c: Any) -> Any:
        b += 1
        c *= 2
        return a, b, c

    a, b, c = p.loop(body, x, x, x)
    assert a is x and b is x and c is x
    return x


def known_and_not_read(p: Program) -> Any:
    box = Box(f=p.array(1, 2, 3))

    def body(a: Any) -> Any:
        assert isinstance(box, Box)
        a += 1
        return (a * 2,)

    return p.loop(body, box.f), box.f


def known_otherwise_and_replaced(p: Program) -> Any:
    x = p.array(1, 2, 3)

    def body(a: Any, y: Any) -> Any:
        return a + 1, y + x

    return *p.loop(body, x, p.array(0, 0, 0)), x


# --- branches ---------------------------------------------------------------------------------------------------------


def made_and_changed(p: Program) -> Any:
    box = Box(f=p.array(1, 2, 3), g=p.array(4, 5, 6))
    f, g = box.f, box.g

    def yes() -> None:
        box.g = box.f * 1.5
        box.g += 1
        box.f += 10
        box.f = box.g * 2
        box.f += 1

    p.branch(yes, _nothing)
    return box.f, box.g, f, g


def given_twice(p: Program) -> Any:
    x = p.array(1, 2, 3)

    def yes(a: Any, b: Any) -> None:
        assert a is b
        a += 1
        b *= 2

    p.branch(yes, _nothing, x, x)
    return x


def given_and_in_a_list(p: Program) -> Any:
    x = p.array(1, 2, 3)
    entries = [x]

    def yes(a: Any, entries: Any) -> Any:
        a += 1
        entries[0] *= 2
        return a, entries

    a, found = p.branch(yes, lambda a, entries: (a, entries), x, entries)
    assert a is x and found is entries and entries[0] is x
    return x


def written_and_read(p: Program) -> Any:
    x = p.array(1, 2, 3)
    places, entries = UInt(0, 1, 2) if p.lane < 0 else UInt(0), [x]

    def yes(a: Any, entries: Any) -> Any:
        dr.scatter(a, p.array(7, 8, 9), places)
        return dr.gather(Float, entries[0], places)

    found = p.branch(yes, lambda a, entries: p.array(0, 0, 0), x, entries)
    return found, x


def array_and_component(p: Program) -> Any:
    v = Array3f(p.array(1, 2, 3), 4, 5)

    def yes(v: Any, x: Any) -> None:
        x += 1
        v.x *= 2
        v.y += x

    p.branch(yes, _nothing, v, v.x)
    return v.x, v.y


def variable_that_is_replaced(p: Program) -> Any:
    x = y = p.array(1, 2, 3)

    def yes(a: Any) -> None:
        nonlocal x
        x = a + 1
        a += 5
        x += a

    p.branch(yes, _nothing, x)
    return x, y


def argument_that_is_kept(p: Program) -> Any:
    x, box = p.array(1, 2, 3), Box(f=p.array(0, 0, 0))

    def yes(a: Any, box: Any) -> None:
        box.f = a
        a += 1

    p.branch(yes, _nothing, x, box)
    return x, box.f


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("program", [
    changed_and_replaced, replaced_and_read_elsewhere, exchanged, entry_of_a_list, list_that_is_not_returned,
    given_twice_to_a_loop, given_and_in_a_list_to_a_loop, known_otherwise, changed_otherwise,
    three_times_of_which_two_change, known_and_not_read, known_otherwise_and_replaced,
    argument_and_constant, list_and_constant, list_in_a_loop_in_a_loop,
    made_and_changed, given_twice, given_and_in_a_list, written_and_read, array_and_component,
    variable_that_is_replaced, argument_that_is_kept,
], ids=lambda program: program.__name__)
def test_arrays_are_as_with_one_element(program: Callable[[Program], Any], mode: str) -> None:
    found = [part * (LANES if len(part) == 1 else 1) for part in _numbers(program(Program(mode)))]
    assert found == _python(program)


def test_arrays_that_are_two_after_the_first_iteration() -> None:
    """What the first iteration would do to one of them it would do to the other, too."""
    x = Float(1, 2, 3)
    program = Program("symbolic")

    def body(a: Any, b: Any) -> Any:
        a += 1
        return a, b * 2

    with pytest.raises(RuntimeError, match=r"'state\[1\]' and 'state\[2\]' are one array"):
        program.loop(body, x, x)

    def known(a: Any) -> Any:
        nonlocal x
        x += 1
        return (a * 2,)

    with pytest.raises(RuntimeError, match="finds the first one in a variable of an enclosing function"):
        program.loop(known, x)
    assert list(x) == [1, 2, 3]


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
def test_attributes_of_a_thread_are_places_like_others(mode: Any) -> None:
    held = threading.local()

    def add() -> None:
        held.value = held.value + 1

    def step(i: Any) -> Any:
        add()
        return (i + 1,)

    held.value = UInt(0)
    dr.while_loop((UInt(0),), lambda i: i < UInt(1, 2), step, mode=mode)
    assert dr.all(held.value == UInt(1, 2))
    held.value = UInt(0)
    dr.if_stmt((), UInt(1, 2) < 2, add, lambda: None, mode=mode)
    assert dr.all(held.value == UInt(1, 0))
    held.value = UInt(0)
    dr.switch(UInt(0, 1), [lambda x: (add(), x)[1], lambda x: x], UInt(1, 2), mode=mode)
    assert dr.all(held.value == UInt(1, 0))
