"""Branches, calls and loops that write to arrays from outside, to arguments, and to copies; within each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import drjit as dr
from drjit._base.errors import ArgumentError
from drjit.llvm import Array3f, Float, Int, TensorXf, UInt, ad


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
def test_each_function_of_a_call_writes_to_an_array_of_its_own(mode: str) -> None:
    targets = [dr.zeros(Float, 6) for _ in range(3)]
    x = dr.arange(UInt, 6)
    found = dr.switch(x % 3, [lambda x, k=k: (dr.scatter(targets[k], Float(k + 1), x), x * k)[1] for k in range(3)], x,
                      mode=mode)
    assert list(found) == [0, 1, 4, 0, 4, 10]
    assert [list(target) for target in targets] == [[1, 0, 0, 1, 0, 0], [0, 2, 0, 0, 2, 0], [0, 0, 3, 0, 0, 3]]


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
def test_each_side_of_a_branch_writes_to_an_array_of_its_own(mode: str) -> None:
    small, large = dr.zeros(UInt, 4), dr.zeros(UInt, 4)
    x = dr.arange(UInt, 4)
    dr.if_stmt((x,), x < 2, lambda x: dr.scatter(small, x + 1, x), lambda x: dr.scatter(large, x + 1, x), mode=mode)
    assert (list(small), list(large)) == ([1, 2, 0, 0], [0, 0, 3, 4])


@pytest.mark.parametrize("first", [True, False])
def test_one_side_changes_an_array_and_the_other_one_writes_to_it(first: bool) -> None:
    array, x = dr.zeros(Float, 4), dr.arange(UInt, 4)

    def change() -> None:
        nonlocal array
        array += 1

    def write() -> None:
        dr.scatter(array, Float(5), UInt(3))

    if first:
        dr.if_stmt((), x < 2, change, write, mode="evaluated")
        assert list(array) == [1, 1, 0, 5]
    else:
        dr.if_stmt((), x < 2, write, change, mode="evaluated")
        assert list(array) == [0, 0, 1, 6]


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
def test_an_entry_that_only_one_side_removes(mode: str) -> None:
    box, x = {"a": dr.zeros(Float, 4)}, dr.arange(UInt, 4)
    with pytest.raises(ArgumentError, match=r"'true_fn' removes the entry 'a' of the dict 'box'.*Let it stay"):
        dr.if_stmt((), x < 2, lambda: box.pop("a") is None, lambda: False, mode=mode, strict=False)
    assert list(box["a"]) == [0] * 4


def _branch(left: Int, function: Callable[[Int], Int], mode: str) -> Int:
    return dr.if_stmt((left,), left > 0, lambda left: (function(left),), lambda left: (left,), mode=mode)[0]


def _call(left: Int, function: Callable[[Int], Int], mode: str) -> Int:
    return dr.switch(dr.select(left > 0, UInt(0), UInt(1)), [function, lambda left: left], left, mode=mode)


#: Constructs whose functions run for the elements whose state is positive.
CONSTRUCTS: dict[str, Callable[[Int, Callable[[Int], Int], str], Int]] = {
    "branch": _branch, "call": _call,
    "loop": lambda left, function, mode: dr.while_loop((left,), lambda left: left > 0,
                                                       lambda left: (function(left) * 0,), mode=mode)[0],
    "branch in branch": lambda left, function, mode: _branch(left, lambda left: _branch(left, function, mode), mode),
    "call in branch": lambda left, function, mode: _branch(left, lambda left: _call(left, function, mode), mode),
    "branch in loop": lambda left, function, mode: dr.while_loop(
        (left,), lambda left: left > 0, lambda left: (_branch(left, function, mode) * 0,), mode=mode)[0],
    "loop in branch": lambda left, function, mode: _branch(left, lambda left: dr.while_loop(
        (left,), lambda left: left > 0, lambda left: (function(left) * 0,), mode=mode)[0], mode),
}


def _set_item(x: Float) -> None:
    x[3] = 5
    x[0] = 7


def _set_component(v: Array3f) -> None:
    v.y[3] = 5


def _set_entry(t: TensorXf) -> None:
    t[1, 1] = 5


def _read_after_write(x: Float) -> None:
    x[3] = 5
    dr.scatter(x, dr.gather(Float, x, UInt(3)) + 1, UInt(0))
    dr.scatter(x, dr.gather(Float, x, UInt(0)) + dr.gather(Float, x, UInt(3)), UInt(1))


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
@pytest.mark.parametrize("construct", CONSTRUCTS)
@pytest.mark.parametrize(("make", "write", "expected"), [
    (lambda: Float(3, 1, 4, 2), _set_item, [7, 1, 4, 5]),
    (lambda: Array3f([3, 1, 4, 2], [3, 1, 4, 2], 0), _set_component, [[3, 1, 4, 2], [3, 1, 4, 5], [0] * 4]),
    (lambda: TensorXf([3, 1, 4, 2], (2, 2)), _set_entry, [[3, 1], [4, 5]]),
    (lambda: Float(3, 1, 4, 2), _read_after_write, [6, 11, 4, 5]),
], ids=["item", "component", "entry", "read after write"])
def test_single_elements_of_arrays_from_outside(make: Callable[[], Any], write: Callable[[Any], None],
                                                expected: list[Any], construct: str, mode: str) -> None:
    """The array is as wide as the construct: its elements are not those of the lanes."""
    array = make()
    dr.eval(array)

    def function(left: Int) -> Int:
        write(array)
        return left

    found = CONSTRUCTS[construct](Int(2, 0, 3, 1), function, mode)
    dr.eval(found, array)
    assert array.numpy().tolist() == expected


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
def test_a_state_variable_that_is_read_by_index_may_pass_through_a_branch(mode: str) -> None:
    def body(step: Int, table: Float, found: Float) -> Any:
        return step - 1, *dr.if_stmt((table, found), step > 1, lambda table, found: (
            table, found + dr.gather(Float, table, UInt(3, 2, 1, 0))), lambda table, found: (table, found), mode=mode)

    _, table, found = dr.while_loop((Int(2, 0, 3, 1), Float(3, 1, 4, 2), dr.zeros(Float, 4)),
                                    lambda step, table, found: step > 0, body, mode=mode)
    assert (list(table), list(found)) == ([3, 1, 4, 2], [2, 0, 2, 0])


# --- writes by a construct within another one, in each mode ----------------------------------------------------------

LANES = UInt(0, 1, 2, 3)
WITHIN: dict[str, Callable[..., Any]] = {}


def within(function: Callable[..., Any]) -> Callable[..., Any]:
    WITHIN[function.__name__] = function
    return function


@within
def branch_of_the_argument(mode: str, x: Any, t: Any) -> Any:
    def write(x: Any, t: Any) -> Any:
        dr.scatter_add(t, x, (LANES * 3) % len(t))
        return x, t
    return dr.if_stmt((x, t), x > 1, write, lambda x, t: (x, t), mode=mode)


@within
def branch_of_a_variable(mode: str, x: Any, t: Any) -> Any:
    def write(x: Any) -> Any:
        dr.scatter_add(t, x, (LANES * 3) % len(t))
        return x
    return dr.if_stmt((x,), x > 1, write, lambda x: x, mode=mode), t


@within
def loop_of_the_argument(mode: str, x: Any, t: Any) -> Any:
    def body(x: Any, t: Any, j: Any) -> Any:
        dr.scatter_add(t, x, (LANES * 3 + j) % len(t))
        return x, t, j + 1
    return dr.while_loop((x, t, UInt(0)), lambda x, t, j: j < 2, body, mode=mode)[:2]


@within
def loop_of_a_variable(mode: str, x: Any, t: Any) -> Any:
    def body(x: Any, j: Any) -> Any:
        dr.scatter_add(t, x, (LANES * 3 + j) % len(t))
        return x, j + 1
    return dr.while_loop((x, UInt(0)), lambda x, j: j < 2, body, mode=mode)[0], t


@within
def call_of_the_argument(mode: str, x: Any, t: Any) -> Any:
    def write(x: Any, t: Any) -> Any:
        dr.scatter_add(t, x, (UInt(x) * 3) % len(t))
        return x, t
    return dr.switch(UInt(0, 1, 1, 0), [write, lambda x, t: (x, t)], x, t, mode=mode)


def run_within(name: str, size: int, outer: str, inner: str, around: str) -> list[list[float]]:
    """What results are, and an array that may be written to."""
    x, t = Float(0.5, 1, 2, 4), dr.zeros(Float, size)
    function = WITHIN[name]
    if around == "loop":
        def body(x: Any, i: Any, t: Any) -> Any:
            x, t = function(inner, x, t)
            return x * 1.5, i + 1, t
        x, _, found = dr.while_loop((x, LANES, t), lambda x, i, t: i < 3, body, mode=outer)  # type: ignore[arg-type]
    else:
        x, found = dr.if_stmt((x, t), LANES > 0, lambda x, t: function(inner, x, t), lambda x, t: (x, t),
                              mode=outer)  # type: ignore[arg-type]
    spent = name == "call_of_the_argument" and around == "loop"  # what later iterations write to is another array
    return [array.numpy().tolist() for array in ((x, found) if spent else (x, t, found))]


@pytest.mark.parametrize("around", ["loop", "branch"])
@pytest.mark.parametrize("size", [4, 7])
@pytest.mark.parametrize("name", WITHIN)
def test_constructs_within_others_write_the_same_in_each_mode(name: str, size: int, around: str) -> None:
    if name == "call_of_the_argument" and size == 4:
        with pytest.raises(ArgumentError, match=r"'targets\[0\]' writes by index to the argument 'args\[1\]'"):
            run_within(name, size, "evaluated", "evaluated", around)
        assert run_within(name, size, "evaluated", "symbolic", around) == \
            run_within(name, size, "symbolic", "symbolic", around)
        return
    expected = run_within(name, size, "evaluated", "evaluated", around)
    assert run_within(name, size, "evaluated", "symbolic", around) == expected
    assert run_within(name, size, "symbolic", "symbolic", around) == expected


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
@pytest.mark.parametrize("size", [4, 7])
def test_copies_that_functions_make_of_arguments(mode: Any, size: int) -> None:
    x, t = Float(1, 2, 3, 4), dr.arange(Float, size)

    def write(factor: float) -> Callable[[Any, Any], Any]:
        def function(x: Any, t: Any) -> Any:
            copy = Float(t)
            dr.scatter(copy, x * factor, 3 - LANES)
            return copy
        return function

    result = dr.if_stmt((x, t), x > 2, write(1), lambda x, t: t, mode=mode)
    assert list(result) == [4, 3, *range(2, size)] and list(t) == [*range(size)]
    if mode == "symbolic":
        result = dr.if_stmt((x, t), x > 2, write(1), write(10), mode=mode)
        assert list(result) == [4, 3, 20, 10, *range(4, size)]
    else:
        with pytest.raises(ArgumentError, match="different copies of one array, and return them as 'result'"):
            dr.if_stmt((x, t), x > 2, write(1), write(10), mode=mode)
    assert list(t) == [*range(size)]


# --- memory that functions pass on -----------------------------------------------------------------------------------


def _adds(x: Any, table: Any, seen: Any) -> Any:
    dr.scatter_add(table, UInt(1), x % 7)
    return x + 1, table, seen


def _passes(x: Any, table: Any, seen: Any) -> Any:
    return x + 2, table, seen


def _also_passes(x: Any, table: Any, seen: Any) -> Any:
    return x + 3, table, seen


def _reads(x: Any, table: Any, seen: Any) -> Any:
    return x + dr.gather(UInt, table, x % 7), table, seen


def _counts(x: Any, table: Any, seen: Any) -> Any:
    dr.scatter_add(seen, UInt(1), x % 3)
    return x + 1, table, seen


FUNCTIONS = {"pass": (_passes, _also_passes), "read, pass": (_reads, _passes), "read": (_reads, _reads),
             "write, pass": (_adds, _passes), "write": (_adds, _adds), "write another, pass": (_counts, _passes),
             "write another, read": (_counts, _reads)}


class _Target:
    def __init__(self, function: Any) -> None:
        self.call = function


def _one_by_one(functions: Any, place: str, fixed: bool) -> list[list[int]]:
    """What the program below computes, element after element."""
    x, table, seen = list(range(4)), list(range(7)), [0] * 3
    for _ in range(1 if place == "alone" else 3):
        if place == "between writes":
            for value in x:
                table[value % 7] += 10
        before = table.copy()
        for lane, value in enumerate(x):
            function = functions[(lane if fixed else value) % 2]
            if function is _adds:
                table[value % 7] += 1
            elif function is _counts:
                seen[value % 3] += 1
            x[lane] = value + {_adds: 1, _counts: 1, _passes: 2, _also_passes: 3, _reads: before[value % 7]}[function]
        if place == "between writes":
            for value in x:
                table[value % 7] += 100
    return [x, table, seen]


@pytest.mark.parametrize("names", FUNCTIONS)
@pytest.mark.parametrize("construct", ["switch", "dispatch", "branch"])
@pytest.mark.parametrize("place", ["alone", "between writes", "within a loop"])
@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
def test_memory_that_functions_pass_on(names: str, construct: str, place: str, mode: Any) -> None:
    """A table of the state goes through a call or branch as it is, whether it is written there, elsewhere or not."""
    functions = FUNCTIONS[names]
    pair = _Target(functions[0]), _Target(functions[1])
    instances = dr.instance_array(_Target, UInt)(pair[0], pair[1], pair[0], pair[1])

    def chosen(x: Any, table: Any, seen: Any) -> Any:
        if construct == "switch":
            return dr.switch(x % 2, functions, x, table, seen, mode=mode)
        if construct == "branch":
            return dr.if_stmt((x, table, seen), x % 2 == 0, *functions, mode=mode)
        return dr.dispatch(instances, lambda self, *args: self.call(*args), x, table, seen, mode=mode)

    def body(i: Any, x: Any, table: Any, seen: Any) -> Any:
        if place == "between writes":
            dr.scatter_add(table, UInt(10), x % 7)
        x, table, seen = chosen(x, table, seen)
        if place == "between writes":
            dr.scatter_add(table, UInt(100), x % 7)
        return i + 1, x, table, seen

    state = UInt(0), dr.arange(UInt, 4), dr.arange(UInt, 7), dr.zeros(UInt, 3)

    def run() -> Any:
        return chosen(*state[1:]) if place == "alone" else \
            dr.while_loop(state, lambda i, *_: i < 3, body, mode=mode)[1:]

    found = run()
    assert [entry.numpy().tolist() for entry in found] == _one_by_one(functions, place, construct == "dispatch")


# --- components of one element ---------------------------------------------------------------------------------------


def _write(a: Any) -> Any:
    dr.scatter(a, Array3f(UInt(10, 11)), UInt(0, 1))
    return a


def _in_branch(inner: Any) -> Any:
    return lambda a: dr.if_stmt((a,), dr.arange(UInt, 2) < 5, inner, lambda a: a)


def _in_call(inner: Any) -> Any:
    return lambda a: dr.switch(dr.zeros(UInt, 2), [inner, lambda a: a], a)


def _in_loop(inner: Any) -> Any:
    return lambda a: dr.while_loop((dr.zeros(UInt, 2), a), lambda i, a: i < 2, lambda i, a: (i + 1, inner(a)))[1]


PLACES = {"branch": _in_branch, "call": _in_call, "loop": _in_loop}


@pytest.mark.parametrize("outer", [*PLACES, "nothing"])
@pytest.mark.parametrize("middle", [*PLACES, "nothing"])
@pytest.mark.parametrize("inner", PLACES)
def test_components_of_one_element_become_as_wide_as_the_others(outer: str, middle: str, inner: str) -> None:
    function = PLACES[inner](_write)
    for place in (middle, outer):
        function = PLACES[place](function) if place != "nothing" else function
    a = Array3f(Float(1, 2, 3, 4), 5, Float(6))
    dr.eval(a)
    found = function(a)
    assert found.numpy().tolist() == [[10, 11, 3, 4], [10, 11, 5, 5], [10, 11, 6, 6]]


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
@pytest.mark.parametrize("construct", ["loop", "branch", "call"])
@pytest.mark.parametrize("counts", [(0, 1, 2, 3), (0, 3), (0, 0, 0, 0), (3, 0, 0, 0), (2,), (0,)])
@pytest.mark.parametrize("tracked", [False, True])
def test_the_element_at_a_number_is_one_for_all_lanes(counts: tuple[int, ...], construct: str, mode: Any,
                                                      tracked: bool) -> None:
    """``table[0] = 7`` happens if any lane takes part, whichever lane has the number."""
    Number = ad.Float if tracked else Float
    table = Number(10, 20, 30, 40)
    x = Number(1)
    if tracked:
        dr.enable_grad(x)
    n = type(x)(UInt(counts))

    def write(table: Any) -> Any:
        table[0] = 7
        return table

    if construct == "loop":
        _, found = dr.while_loop((n * 0, table), lambda i, _: i < n, lambda i, table: (i + x, write(table)), mode=mode,
                                 max_iterations=4)
        assert found is table
    elif construct == "branch":
        dr.if_stmt((table,), n > 0, write, lambda table: table, mode=mode)
    elif mode == "symbolic":
        index = dr.uint32_array_t(Number)(n > 0)
        dr.switch(index, [lambda table: table, write], table, mode=mode)
    else:
        index = dr.uint32_array_t(Number)(n > 0)
        dr.switch(index, [lambda: None, lambda: (write(table), None)[1]], mode=mode)
    assert list(table) == [7 if any(counts) else 10, 20, 30, 40]


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
def test_elements_of_what_is_computed_are_those_of_lanes(mode: Any) -> None:
    def body(i: Any, x: Any) -> Any:
        x = x * 2
        x[0] = 7
        return i + 1, x

    _, x = dr.while_loop((UInt(0, 0, 0, 0), Float(10, 20, 30, 40)), lambda i, x: i < UInt(0, 1, 2, 3), body, mode=mode)
    assert list(x) == [10, 40, 120, 320]


def test_variables_are_written_by_number_or_computed_with() -> None:
    def body(i: Any, x: Any) -> Any:
        x[0] = 7
        return i + 1, x * 2

    with pytest.raises(NotImplementedError, match=r"'state\[1\]' is accessed by index and given other values"):
        dr.while_loop((UInt(0, 0), Float(1, 2)), lambda i, x: i < UInt(0, 1), body, mode="symbolic")
