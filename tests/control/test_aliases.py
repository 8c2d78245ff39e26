"""One array in several places: what functions change in place shows in all of them, as in Python with one element."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import drjit as dr
from drjit import llvm
from drjit._control.snapshot import snapshot
from drjit.llvm import ad
from drjit_core import SymbolicValue


@pytest.mark.parametrize("alive", [False, True])
@pytest.mark.parametrize("module", [llvm, ad])
def test_one_array_given_twice_to_a_loop_is_one(module: Any, alive: bool) -> None:
    other = ad.Float(1)
    if alive:
        dr.enable_grad(other)

    def body(i: Any, y: Any, z: Any) -> Any:
        y += z
        return i + 1, y, z

    given = module.Float(1, 1)
    _, y, z = dr.while_loop((module.UInt(0, 1), given, given), lambda i, y, z: i < 4, body, mode="symbolic")
    assert list(y) == list(z) == list(given) == [16, 8]


@pytest.mark.parametrize("alive", [False, True])
@pytest.mark.parametrize("around", ["loop", "branch"])
def test_one_array_given_twice_to_a_loop_within_is_one(around: str, alive: bool) -> None:
    other = ad.Float(1)
    if alive:
        dr.enable_grad(other)

    def body(i: Any, y: Any, z: Any) -> Any:
        y += z
        return i + 1, y, z

    def doubled(start: Any, array: Any) -> Any:
        _, y, _ = dr.while_loop((start, array, array), lambda i, y, z: i < 4, body)
        return y

    given = ad.Float(1, 1)
    if around == "branch":
        found = dr.if_stmt((ad.UInt(0, 1), given), ad.Bool(True, True), doubled, lambda i, y: y, mode="symbolic")
    else:
        _, found = dr.while_loop((ad.UInt(0, 0), given), lambda k, y: k < 1,
                                 lambda k, y: (k + 1, doubled(ad.UInt(0, 1), y)), mode="symbolic")
    assert list(found) == list(given) == [16, 8]


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
def test_what_is_returned_for_an_array_that_the_body_knows_is_another_one(mode: Any) -> None:
    known = llvm.Float(1, 2)
    _, found = dr.while_loop((llvm.UInt(0, 1), known), lambda i, y: i < 3, lambda i, y: (i + 1, y + known), mode=mode)
    assert list(found) == [4, 6]
    assert list(known) == [1, 2]


# --- programs, as Python runs them for one element after the other ---------------------------------------------------

LANES = 4


class Box:
    """An object with arrays."""

    def __init__(self, **arrays: Any) -> None:
        vars(self).update(arrays)



class Struct:
    """An object that functions are given as a tree."""

    DRJIT_STRUCT = {"v": ad.Float}  # noqa: RUF012

    def __init__(self, v: Any = None) -> None:
        self.v = v


class Program:
    """What a program uses: all lanes at once, or one of them with Python's own constructs."""

    def __init__(self, module: Any, mode: Any = None, compress: Any = None, lane: int = -1) -> None:
        self.module, self.mode, self.compress, self.lane = module, mode, compress, lane
        #: What all depends on, if there are derivatives.
        self.input: Any = None

    def _array(self, cls: Any, values: tuple[float, ...]) -> Any:
        return cls(*values) if self.lane < 0 else cls(values[self.lane])

    def float(self, *values: float) -> Any:
        found = self._array(self.module.Float, values)
        return found if self.input is None else found + (self.input - dr.detach(self.input))

    def int(self, *values: int) -> Any:
        return self._array(self.module.UInt, values)

    def pair(self) -> Any:
        return self.module.Array2f(self.float(1, 2, 3, 4), self.float(5, 6, 7, 8))

    def loop(self, state: Any, cond: Callable[..., Any], body: Callable[..., Any]) -> Any:
        if self.lane < 0:
            return dr.while_loop(state, cond, body, mode=self.mode, compress=self.compress)
        while cond(*state)[0]:
            state = body(*state)
            state = state if isinstance(state, tuple) else (state,)
        return state

    def branch(self, arguments: Any, mask: Any, yes: Callable[..., Any], no: Callable[..., Any]) -> Any:
        if self.lane < 0:
            return dr.if_stmt(arguments, mask, yes, no, mode=self.mode)
        return (yes if mask[0] else no)(*arguments)

    def switch(self, index: Any, functions: list[Callable[..., Any]], *arguments: Any) -> Any:
        if self.lane < 0:
            return dr.switch(index, functions, *arguments, mode=self.mode)
        return functions[int(index[0])](*arguments)


def one_array_twice(p: Program, x: Any) -> Any:
    def body(i: Any, y: Any, z: Any) -> Any:
        y += z
        z *= 2
        return i + 1, y, z

    _, y, z = p.loop((p.int(0, 1, 2, 3), x, x), lambda i, y, z: i < 4, body)
    return x, y, z


def one_array_twice_and_a_condition_of_it(p: Program, x: Any) -> Any:
    def body(i: Any, y: Any, z: Any) -> Any:
        y += z
        return i + 1, y, z

    _, y, z = p.loop((p.int(0, 1, 2, 3), x, x), lambda i, y, z: (i < 4) & (z < 10), body)
    return x, y, z


def one_array_twice_of_which_one_is_replaced(p: Program, x: Any) -> Any:
    return *p.loop((p.int(0, 1, 2, 3), x, x), lambda i, y, z: i < 4, lambda i, y, z: (i + 1, y + z, z))[1:], x


def one_array_in_two_lists(p: Program, x: Any) -> Any:
    first, second = [x], [x]

    def body(i: Any, first: Any, second: Any) -> Any:
        first[0] += 1
        second[0] *= 2
        return i + 1, first, second

    p.loop((p.int(0, 1, 2, 3), first, second), lambda i, u, v: i < 4, body)
    return x, first[0], second[0]


def a_list_twice(p: Program, x: Any) -> Any:
    entries = [x]

    def body(i: Any, first: Any, second: Any, y: Any) -> Any:
        first[0] = first[0] + 1
        return i + 1, first, second, y + second[0]

    *_, y = p.loop((p.int(0, 1, 2, 3), entries, entries, p.float(1, 2, 3, 4)), lambda i, *_: i < 4, body)
    return entries[0], y


def an_array_and_its_component(p: Program, x: Any) -> Any:
    v = p.pair()

    def body(i: Any, v: Any, y: Any) -> Any:
        y += 1
        v.x += v.y
        return i + 1, v, y

    _, v, y = p.loop((p.int(0, 1, 2, 3), v, v.y), lambda i, v, y: i < 6, body)
    return v.x + 0, v.y + 0, y + 0


def a_component_and_its_array(p: Program, x: Any) -> Any:
    v = p.pair()

    def body(i: Any, y: Any, v: Any) -> Any:
        v.x += y
        v.y *= 2
        return i + 1, y, v

    _, y, v = p.loop((p.int(0, 1, 2, 3), v.y, v), lambda i, y, v: i < 6, body)
    return v.x + 0, v.y + 0, y + 0


def a_component_of_a_known_array(p: Program, x: Any) -> Any:
    v = p.pair()

    def body(i: Any, y: Any) -> Any:
        y += 1
        v.x += v.y
        return i + 1, y

    p.loop((p.int(0, 1, 2, 3), v.y), lambda i, y: i < 6, body)
    return v.x + 0, v.y + 0


def a_known_component(p: Program, x: Any) -> Any:
    v = p.pair()
    y = v.y

    def body(i: Any, v: Any) -> Any:
        v.x += y
        v.y += 1
        return i + 1, v

    p.loop((p.int(0, 1, 2, 3), v), lambda i, v: i < 6, body)
    return v.x + 0, y + 0


def a_known_array(p: Program, x: Any) -> Any:
    box = Box(c=p.float(1, 1, 1, 1))

    def body(i: Any, y: Any) -> Any:
        y += box.c
        box.c *= 2
        return i + 1, y

    p.loop((p.int(0, 1, 2, 3), box.c), lambda i, y: i < 4, body)
    return (box.c,)


def a_known_array_in_a_tuple(p: Program, x: Any) -> Any:
    entries = (p.float(1, 1, 1, 1), 1)

    def body(i: Any, y: Any) -> Any:
        y += entries[0]
        return i + 1, y

    p.loop((p.int(0, 1, 2, 3), entries[0]), lambda i, y: i < 4, body)
    return (entries[0],)


def a_known_array_that_is_changed(p: Program, x: Any) -> Any:
    def body(i: Any, y: Any) -> Any:
        nonlocal x
        x += 1
        return i + 1, y

    _, y = p.loop((p.int(0, 1, 2, 3), x), lambda i, y: i < 4, body)
    return x, y


def a_known_array_that_is_replaced(p: Program, x: Any) -> Any:
    return *p.loop((p.int(0, 1, 2, 3), x), lambda i, y: i < 4, lambda i, y: (i + 1, y + x))[1:], x


def a_loop_within_a_loop(p: Program, x: Any) -> Any:
    def inner(j: Any, y: Any, z: Any) -> Any:
        y += z
        return j + 1, y, z

    def body(i: Any, y: Any) -> Any:
        p.loop((i * 0, y, y), lambda j, y, z: j < 2, inner)
        return i + 1, y

    _, y = p.loop((p.int(0, 1, 2, 3), x), lambda i, y: i < 6, body)
    return x, y


def a_loop_within_a_branch(p: Program, x: Any) -> Any:
    c = p.float(1, 1, 1, 1)

    def inner(j: Any, y: Any, z: Any) -> Any:
        y += z
        return j + 1, y, z

    def yes(y: Any) -> Any:
        p.loop((p.int(0, 0, 0, 0), y, y), lambda j, y, z: j < 2, inner)
        return y

    return p.branch((c,), x > 2, yes, lambda y: y), c


def a_loop_of_what_the_one_around_it_knows(p: Program, x: Any) -> Any:
    box = Box(c=x)

    def inner(j: Any, y: Any) -> Any:
        y += box.c
        return j + 1, y

    def body(i: Any) -> Any:
        p.loop((i * 0, box.c), lambda j, y: j < 2, inner)
        return (i + 1,)

    p.loop((p.int(0, 1, 2, 3),), lambda i: i < 4, body)
    return x, box.c


def a_branch_within_a_loop(p: Program, x: Any) -> Any:
    def yes(y: Any, z: Any) -> Any:
        y += z
        return y

    def body(i: Any, y: Any) -> Any:
        p.branch((y, y), y < 10, yes, lambda y, z: y)
        return i + 1, y

    _, y = p.loop((p.int(0, 1, 2, 3), x), lambda i, y: i < 6, body)
    return x, y


def a_branch_of_one_array_twice(p: Program, x: Any) -> Any:
    z = p.float(1, 2, 3, 4)

    def yes(y: Any, z: Any) -> Any:
        y += 1
        z *= 2
        return y + z

    def no(y: Any, z: Any) -> Any:
        z -= 1
        return y * z

    return p.branch((z, z), x > 2, yes, no), z


def a_branch_of_an_array_and_its_component(p: Program, x: Any) -> Any:
    v = p.pair()

    def yes(v: Any, y: Any) -> Any:
        y += 1
        v.x += v.y
        return y * 2

    def no(v: Any, y: Any) -> Any:
        v.y *= 2
        return y + 0

    return p.branch((v, v.y), x > 2, yes, no), v.x + 0, v.y + 0


def a_call_of_one_array_twice(p: Program, x: Any) -> Any:
    z = p.float(1, 2, 3, 4)

    def first(a: Any, z: Any) -> Any:
        a += 1
        return a * z

    def second(a: Any, z: Any) -> Any:
        z *= a
        return z + 0

    def third(a: Any, z: Any) -> Any:
        a += 5
        z -= 1
        return a + 0

    return p.switch(p.int(0, 1, 2, 1), [first, second, third], z, z), z


def a_call_of_two_lists(p: Program, x: Any) -> Any:
    z = p.float(1, 2, 3, 4)
    u, v = [z], [z]

    def first(u: Any, v: Any) -> Any:
        u[0] += 1
        return v[0] * 2

    def second(u: Any, v: Any) -> Any:
        v[0] = u[0] * 3
        return u[0] + 0

    return p.switch(p.int(0, 1, 0, 1), [first, second], u, v), z, u[0], v[0]


def a_call_of_one_object_twice(p: Program, x: Any) -> Any:
    struct = Struct(p.float(1, 2, 3, 4))

    def first(a: Any, b: Any) -> Any:
        a.v += 1
        return b.v * 2

    def second(a: Any, b: Any) -> Any:
        b.v = a.v * 3
        return a.v + 0

    return p.switch(p.int(0, 1, 0, 1), [first, second], struct, struct), struct.v


def a_call_of_an_array_and_its_component(p: Program, x: Any) -> Any:
    v = p.pair()

    def first(v: Any, y: Any) -> Any:
        y += 1
        v.x += v.y
        return y * 2

    def second(v: Any, y: Any) -> Any:
        v.y *= 2
        return y + 0

    return p.switch(p.int(0, 1, 1, 0), [first, second], v, v.y), v.x + 0, v.y + 0


def a_call_of_a_component(p: Program, x: Any) -> Any:
    v = p.pair()

    def first(y: Any) -> Any:
        y += 1
        return y * 2

    def second(y: Any) -> Any:
        v.y *= 2
        return y + 0

    return p.switch(p.int(0, 1, 1, 0), [first, second], v.y), v.x + 0, v.y + 0


def a_call_of_what_functions_know(p: Program, x: Any) -> Any:
    z = p.float(1, 2, 3, 4)

    def first(a: Any) -> Any:
        nonlocal z
        z += 1
        return a * 2

    def second(a: Any) -> Any:
        a += 5
        return a * 1

    return p.switch(p.int(0, 1, 0, 1), [first, second], z), z


def a_call_of_what_functions_know_and_compute_with(p: Program, x: Any) -> Any:
    box = Box(z=p.float(1, 2, 3, 4))

    def first(a: Any) -> Any:
        a += box.z
        return box.z * 2

    return p.switch(p.int(0, 1, 0, 1), [first, lambda a: a * 1], box.z), box.z


def a_call_within_a_loop(p: Program, x: Any) -> Any:
    box = Box(z=p.float(1, 2, 3, 4))

    def first(a: Any, b: Any) -> Any:
        a += b
        return b * 2

    def body(i: Any, y: Any) -> Any:
        return i + 1, y + p.switch(i % 2, [first, lambda a, b: a * 1], box.z, box.z)

    _, y = p.loop((p.int(0, 1, 2, 3), x), lambda i, y: i < 4, body)
    return y, box.z


def a_branch_that_returns_what_it_knows(p: Program, x: Any) -> Any:
    known = p.float(1, 2, 3, 4)
    found = p.branch((x,), p.int(0, 1, 2, 3) < 2, lambda a: known, lambda a: known)
    found += 1
    return known, found


def a_branch_that_changes_and_returns_what_it_knows(p: Program, x: Any) -> Any:
    known, other = p.float(1, 2, 3, 4), p.float(8, 7, 6, 5)

    def yes(a: Any) -> Any:
        nonlocal known
        known += a
        return known

    def no(a: Any) -> Any:
        nonlocal other
        other *= a
        return known

    found = p.branch((x,), p.int(0, 1, 2, 3) < 2, yes, no)
    found *= 2
    return known, other, found


def a_branch_that_returns_one_of_what_it_knows(p: Program, x: Any) -> Any:
    box = Box(one=p.float(1, 2, 3, 4), other=p.float(8, 7, 6, 5))
    one, other = box.one, box.other

    def yes(a: Any) -> Any:
        box.one = box.other
        box.one += a
        return box.one

    return p.branch((x,), p.int(0, 1, 2, 3) < 2, yes, lambda a: box.other), box.one, box.other, one, other


def a_branch_that_returns_one_array_twice(p: Program, x: Any) -> Any:
    one, other = p.branch((x, x + 1), p.int(0, 1, 2, 3) < 2, lambda a, b: (a, a), lambda a, b: (b, b))
    one += 1
    return one, other


def a_branch_that_changes_a_known_component(p: Program, x: Any) -> Any:
    pair = p.pair()

    def yes(a: Any) -> Any:
        pair.x += a
        return pair.x

    return p.branch((x,), p.int(0, 1, 2, 3) < 2, yes, lambda a: pair.y), pair.x, pair.y


def a_branch_that_returns_a_known_list(p: Program, x: Any) -> Any:
    entries = [p.float(1, 2, 3, 4), x]

    def yes(a: Any) -> Any:
        entries[0] += a
        return entries

    found = p.branch((x,), p.int(0, 1, 2, 3) < 2, yes, lambda a: entries)
    found[0] += 1
    return *found, *entries


def a_loop_that_returns_what_it_changes(p: Program, x: Any) -> Any:
    known = p.float(1, 2, 3, 4)

    def body(i: Any, y: Any) -> Any:
        nonlocal known
        known += 2
        return i + 1, known

    return *p.loop((p.int(1, 4, 0, 3), x), lambda i, y: i < 4, body)[1:], known, x


def a_loop_that_returns_what_it_computes_of(p: Program, x: Any) -> Any:
    known = p.float(1, 2, 3, 4)

    def body(i: Any, y: Any) -> Any:
        nonlocal known
        known += y
        return i + 1, known

    return *p.loop((p.int(1, 4, 0, 3), x), lambda i, y: i < 4, body)[1:], known, x


def a_loop_that_looks_again(p: Program, x: Any) -> Any:
    known = p.float(1, 2, 3, 4)

    def body(i: Any, y: Any, z: Any) -> Any:
        nonlocal known
        known += 1
        return i + 1, known, z + y * 2

    return *p.loop((p.int(1, 4, 0, 3), x, x), lambda i, y, z: i < 4, body)[1:], known, x


def a_loop_that_changes_what_it_returned(p: Program, x: Any) -> Any:
    known = p.float(1, 2, 3, 4)

    def body(i: Any, y: Any) -> Any:
        nonlocal known
        y += 1
        known += y
        return i + 1, known

    return *p.loop((p.int(1, 4, 0, 3), x), lambda i, y: i < 4, body)[1:], known, x


def a_loop_that_returns_one_array_twice(p: Program, x: Any) -> Any:
    def body(i: Any, y: Any, z: Any) -> Any:
        z += 1
        y += 2
        y = y + 0
        return i + 1, y, y

    return *p.loop((p.int(1, 4, 0, 3), x, x + 1), lambda i, y, z: i < 4, body)[1:], x


def a_loop_that_returns_a_known_list(p: Program, x: Any) -> Any:
    entries = [p.float(1, 2, 3, 4)]

    def body(i: Any, values: Any) -> Any:
        entries[0] = entries[0] + 1
        return i + 1, entries

    return *p.loop((p.int(1, 2, 0, 3), [x]), lambda i, values: i < 4, body)[1], entries[0], x


def a_call_that_changes_and_returns_what_it_knows(p: Program, x: Any) -> Any:
    box = Box(z=x, y=p.float(1, 2, 3, 4))

    def first() -> Any:
        box.z *= 3
        return box.z

    def second() -> Any:
        box.y += 3
        return box.z

    return p.switch(p.int(0, 1, 0, 1), [first, second]), box.z, box.y


def a_call_that_changes_its_arguments(p: Program, x: Any) -> Any:
    y, z = p.float(1, 2, 3, 4), x + 1

    def first(a: Any, b: Any) -> Any:
        a *= b
        return b * 2

    def second(a: Any, b: Any) -> Any:
        b += a * a
        return a

    return p.switch(p.int(0, 1, 0, 1), [first, second], y, z), y, z, x


def a_place_that_holds_a_component_is_filled(p: Program, x: Any) -> Any:
    box = Box(v=p.pair(), y=p.float(0, 0, 0, 0))
    box.part = box.v.x

    def body(i: Any) -> Any:
        box.y = box.y + box.v.x
        box.part = box.v.y + 1
        return (i + 1,)

    p.loop((p.int(0, 1, 2, 3),), lambda i: i < 5, body)
    return box.y, box.part, box.v.x + 0


def what_is_read_by_another_name_before_it_changes(p: Program, x: Any) -> Any:
    box = Box(x=x, last=p.float(0, 0, 0, 0))

    def body(i: Any, y: Any) -> Any:
        box.last = +box.x
        y *= 2
        return i + 1, y

    p.loop((p.int(0, 1, 2, 3), x), lambda i, y: i < 5, body)
    return box.last, x


def what_is_put_in_two_places_and_changes(p: Program, x: Any) -> Any:
    box = Box(a=x, b=x, c=p.float(1, 1, 1, 1))

    def body(i: Any) -> Any:
        box.a = box.b = box.c + 1
        box.a *= 2
        box.c += 1
        return (i + 1,)

    p.loop((p.int(0, 1, 2, 3),), lambda i: i < 5, body)
    return box.a, box.b, box.c, x


def arrays_that_change_places_and_one_that_changes(p: Program, x: Any) -> Any:
    v = p.pair()
    box = Box(a=v.x, b=x, c=v.x)

    def body(i: Any) -> Any:
        box.a, box.b = box.b, box.a
        box.a *= 1.5
        return (i + 1,)

    p.loop((p.int(0, 1, 2, 3),), lambda i: i < 5, body)
    return box.a, box.b, box.c, v.x + 0, x


def an_array_in_another_place_in_later_iterations(p: Program, x: Any) -> Any:
    box = Box(x=x, last=x, y=p.float(0, 0, 0, 0))

    def body(i: Any) -> Any:
        box.x += 1
        box.y = box.y + box.last
        box.last = box.last * 1.5
        return (i + 1,)

    p.loop((p.int(0, 1, 2, 3),), lambda i: i < 5, body)
    return box.y, box.last, x


def a_branch_that_changes_another_component(p: Program, x: Any) -> Any:
    v = p.pair()
    box = Box(a=v.y)

    def changes(y: Any) -> Any:
        box.a *= 2
        return y * 2

    found = p.branch((v.x,), p.int(0, 1, 2, 3) < 2, changes, lambda y: y)
    return found, v.x + 0, v.y + 0, box.a


def a_branch_that_replaces_what_the_other_side_changes(p: Program, x: Any) -> Any:
    v = p.pair()
    box = Box(a=v.x, b=v.x, c=x)

    def changes(y: Any) -> Any:
        box.b *= 2
        return y + 1

    def replaces(y: Any) -> Any:
        box.a, box.c = box.c, box.a
        return y

    found = p.branch((v.x,), p.int(0, 1, 2, 3) < 2, changes, replaces)
    return found, v.x + 0, box.a, box.b, box.c


def a_branch_that_makes_an_array_and_changes_it(p: Program, x: Any) -> Any:
    box = Box(v=p.pair())

    def makes(y: Any) -> Any:
        box.v = p.module.Array2f(y, box.v.y)
        box.v += 1
        return y

    found = p.branch((x,), p.int(0, 1, 2, 3) < 2, makes, lambda y: y)
    return found, box.v.x + 0, box.v.y + 0


def a_call_that_changes_what_another_target_replaces(p: Program, x: Any) -> Any:
    box = Box(a=x)

    def changes(y: Any) -> Any:
        y *= 2
        return y + 1

    def replaces(y: Any) -> Any:
        box.a = y + 3
        return y

    return p.switch(p.int(0, 1, 0, 1), [changes, replaces], x), box.a, x


PROGRAMS = [
    a_place_that_holds_a_component_is_filled, what_is_read_by_another_name_before_it_changes,
    what_is_put_in_two_places_and_changes, arrays_that_change_places_and_one_that_changes,
    an_array_in_another_place_in_later_iterations, a_branch_that_changes_another_component,
    a_branch_that_replaces_what_the_other_side_changes, a_branch_that_makes_an_array_and_changes_it,
    a_call_that_changes_what_another_target_replaces,
    one_array_twice, one_array_twice_and_a_condition_of_it, one_array_twice_of_which_one_is_replaced,
    one_array_in_two_lists, a_list_twice, an_array_and_its_component, a_component_and_its_array,
    a_component_of_a_known_array, a_known_component, a_known_array, a_known_array_in_a_tuple,
    a_known_array_that_is_changed, a_known_array_that_is_replaced, a_loop_within_a_loop, a_loop_within_a_branch,
    a_loop_of_what_the_one_around_it_knows, a_branch_within_a_loop, a_branch_of_one_array_twice,
    a_branch_of_an_array_and_its_component, a_call_of_one_array_twice, a_call_of_two_lists, a_call_of_one_object_twice,
    a_call_of_an_array_and_its_component, a_call_of_a_component, a_call_of_what_functions_know,
    a_call_of_what_functions_know_and_compute_with, a_call_within_a_loop,
    a_branch_that_returns_what_it_knows, a_branch_that_changes_and_returns_what_it_knows,
    a_branch_that_returns_one_of_what_it_knows, a_branch_that_returns_one_array_twice,
    a_branch_that_changes_a_known_component, a_branch_that_returns_a_known_list, a_loop_that_returns_what_it_changes,
    a_loop_that_returns_what_it_computes_of, a_loop_that_looks_again, a_loop_that_changes_what_it_returned,
    a_loop_that_returns_one_array_twice, a_loop_that_returns_a_known_list,
    a_call_that_changes_and_returns_what_it_knows, a_call_that_changes_its_arguments]
#: Those that compute with what a loop knows of all elements, where only some are left.
OF_ALL_ELEMENTS = [a_loop_of_what_the_one_around_it_knows, a_call_within_a_loop]
#: Those in which what an iteration returns is another array for the next one, which is changed: a loop that is traced
#: knows one iteration only.
IN_SOME_ITERATIONS = [arrays_that_change_places_and_one_that_changes, an_array_in_another_place_in_later_iterations]
CHANGES_PLACES = [a_loop_that_looks_again, a_loop_that_changes_what_it_returned, a_loop_that_returns_one_array_twice]


def _run(program: Callable[..., Any], p: Program, alive: bool) -> list[list[float]]:
    x = p.float(1.5, 2.5, 3.5, 0.5)
    if alive:
        dr.enable_grad(x)
        p.input = x
    start = x + 0 if alive else x
    found = program(p, start)
    values = [list(dr.detach(part)) for part in found]
    if alive:
        dr.backward(sum([part * (k + 1.5) for k, part in enumerate(found)]))
        values.append(list(dr.grad(x)))
    return values


@pytest.mark.parametrize("mode", ["symbolic", "evaluated", "compressed"])
@pytest.mark.parametrize("alive", [False, True])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_arrays_that_are_one_are_as_with_one_element(program: Callable[..., Any], alive: bool, mode: str) -> None:
    module: Any = ad if alive else llvm
    columns = [_run(program, Program(module, lane=lane), alive) for lane in range(LANES)]
    wanted = [[part[0] for part in parts] for parts in zip(*columns, strict=True)]
    p = Program(module, "symbolic" if mode == "symbolic" else "evaluated", mode == "compressed")
    if mode == "compressed" and program in OF_ALL_ELEMENTS:
        with pytest.raises(Exception, match="removes elements"):
            _run(program, p, alive)
        return
    if mode == "symbolic" and program in CHANGES_PLACES:
        with pytest.raises(SymbolicValue, match="which change places: another one in each iteration"):
            _run(program, p, alive)
        return
    if mode == "symbolic" and program in IN_SOME_ITERATIONS:
        with pytest.raises(SymbolicValue, match="in some iterations only, and elsewhere, too"):
            _run(program, p, alive)
        return
    found = [part * LANES if len(part) == 1 else part for part in _run(program, p, alive)]
    assert np.allclose(found, wanted, rtol=1e-5)


def test_a_known_list_is_not_that_of_elements_that_have_left() -> None:
    entries = [llvm.Float(1, 2)]

    def body(i: Any, values: Any) -> Any:
        entries[0] = entries[0] + 1
        return i + 1, entries

    with pytest.raises(RuntimeError, match="returns a container that it knows otherwise as state"):
        dr.while_loop((llvm.UInt(0, 1), [llvm.Float(0)]), lambda i, values: i < 1, body, mode="evaluated")
    assert list(entries[0]) == [1, 2]


class WithDefault:
    """An object that finds an array in its class at first."""

    DRJIT_STRUCT = {"v": llvm.Float}  # noqa: RUF012
    v: Any = None

    def __init__(self) -> None:
        self.v = type(self).v


@pytest.mark.parametrize("replaces", [False, True])
def test_what_an_object_has_of_its_class_is_one_array(replaces: bool) -> None:
    calls = []

    def body(i: Any, found: Any) -> Any:
        calls.append(None)
        if replaces:
            found.v = found.v + 1
        else:
            found.v += 1
        return i + 1, found

    WithDefault.v = llvm.Float(0)
    start = WithDefault()
    dr.while_loop((llvm.UInt(0, 1), start), lambda i, _: i < 3, body, mode="symbolic")
    assert list(start.v) == [3, 2]
    assert list(WithDefault.v) == ([0] if replaces else [3, 2])
    assert len(calls) == 1


def test_places_of_arrays_are_found_by_what_they_hold() -> None:
    v, t = llvm.Array3f(1, 2, 3), llvm.TensorXf([1, 2, 3, 4], (2, 2))
    x, flat = v.x, t.array
    tree: Any = {"v": v, "parts": [x, v.y, llvm.Float(1)], "more": {"x": x, "t": t, "flat": (flat, flat)}}
    known = snapshot(tree, None)
    assert known is not None

    def keys(array: Any) -> list[str]:
        return sorted([str(key) for _, _, key in known.places(array)])

    assert keys(v) == ["0", "1", "v", "x"]
    assert keys(x) == keys(v.x) == ["0", "v", "x"]
    assert keys(v.z) == ["v"]
    assert keys(t) == keys(flat) == ["0", "1", "t"]
    assert keys(llvm.Float(1)) == []
    x.__init__(5)  # type: ignore[misc]  # which is no component any more
    assert keys(x) == ["0", "x"]
    assert keys(v) == ["1", "v"]
    tree["more"]["x"] = v.z
    assert known.refresh()
    assert keys(v) == ["1", "v", "x"]
