"""What a body does to objects, it does to the caller's: ``x += 1``, parts of arrays, entries, attributes, draws.

Most of it is a table (``tests/control/mutation``), whose cells are compared with Python, one element at a time; the
rest are tests of what has no place in it.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import types
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pytest

import drjit as dr
from drjit import array_api
from drjit.llvm import ad
from drjit.llvm.ad import Array3f, Bool, Float, TensorXf, UInt
from tests.control.mutation.model import Plain, expected
from tests.control.mutation.run import outcome
from tests.control.mutation.table import Cell, sample

MODES = ["symbolic", "evaluated"]
#: How many cells of the table always run, and how many tests the others are divided into.
FEW, PARTS = 300, 40


def plain(array: Any) -> Any:
    return np.asarray(array).tolist()


# --- the table -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cell", sample(2)[:FEW], ids=lambda cell: cell.name)
def test_cells(cell: Cell) -> None:
    assert outcome(cell) in ("ok", "refused")


@pytest.mark.exhaustive
@pytest.mark.parametrize("part", range(PARTS))
def test_more_cells(part: int) -> None:
    """Any three values of different dimensions that go together."""
    found = {cell.name: outcome(cell) for cell in sample(3)[part::PARTS]}
    assert {name: text for name, text in found.items() if text not in ("ok", "refused")} == {}


def cell_of(action: str, leaf: str, holder: str, place: str, reach: str, mode: str) -> Cell:
    return Cell(action, leaf, holder, place, reach, "statements", "functions", mode, "none")


def test_the_model_is_python() -> None:
    """A few cells in numbers."""
    def seen(*names: str) -> dict[str, Any]:
        found = expected(cell_of(*names)).seen
        assert found is not None
        return {path: values.tolist() for path, values in found.numbers.items()}

    # Lanes 0 and 2 take the true side and the first target; lanes have 0, 1, 3, 2 iterations.
    given = [2, 4, 6, 8]
    assert seen("+=", "flat array", "bare", "if", "returned", "symbolic") == {
        "old q": [4, 4, 8, 8], "q": [4, 4, 8, 8], "result": [4, 4, 8, 8]}
    assert seen("rebound name", "flat array", "bare", "if", "returned", "symbolic") == {
        "old q": given, "q": given, "result": [4, 4, 8, 8]}
    assert seen("+=", "flat array", "bare", "if, other side rebinds", "returned", "symbolic") == {
        "old q": [4, 4, 8, 8], "q": [4, 4, 8, 8], "result": [4, 9, 8, 13]}
    assert seen("*=", "flat array", "bare", "while", "kept", "symbolic")["q"] == [2, 12, 162, 72]
    assert seen("*=", "flat array", "bare", "while", "new", "symbolic") == {
        "old q": [2, 12, 18, 24], "q": [2, 12, 18, 24], "result": [2, 13, 175, 76]}
    assert seen("rebound entry", "flat array", "data class", "switch", "kept", "symbolic") == {
        "old q.v": given, "q.v": [4, 4, 8, 8]}
    assert seen("scatter_add", "table", "bare", "while", "captured", "symbolic")["q"] == [
        10, 20 + 10, 30 + 3 * 15, 40 + 2 * 20]
    assert seen("[0] +=", "nested array", "bare", "if, raises", "kept", "symbolic")["q"] == [
        [1, 2, 3, 4], [2, 4, 6, 8], [3, 6, 9, 12]]


# --- constructs of one mode ------------------------------------------------------------------------------------------


def branch(mode: str, change: Callable[[], Any]) -> None:
    """Lane 0 makes a change."""
    def yes() -> None:
        change()

    dr.if_stmt((), Bool(True, False), yes, lambda: None, mode=mode)


def loop(mode: str, change: Callable[[], Any]) -> None:
    """Lane 0 makes a change once, lane 1 twice."""
    def body(i: Any) -> Any:
        change()
        return (i + 1,)

    dr.while_loop((UInt(0, 0),), lambda i: i < UInt(1, 2), body, mode=mode)


def call(mode: str, change: Callable[[], Any]) -> None:
    """Lane 1 makes a change."""
    def first(x: Any) -> None:
        pass

    def second(x: Any) -> None:
        change()

    dr.switch(UInt(0, 1), [first, second], Float(1, 1), mode=mode)


CONSTRUCTS: dict[str, tuple[Callable[..., None], list[int]]] = {
    "branch": (branch, [1, 0]), "loop": (loop, [1, 2]), "call": (call, [0, 1])}


# --- however the object is found -------------------------------------------------------------------------------------


class Slots:
    """An object with a slot and a property."""

    __slots__ = ("_value",)

    def __init__(self, value: Any) -> None:
        self._value = value

    @property
    def value(self) -> Any:
        return self._value

    @value.setter
    def value(self, value: Any) -> None:
        self._value = value


class Counter:
    """An object with methods that change it, an attribute of its class, and items."""

    shared: ClassVar[Any] = None

    def __init__(self, value: Any) -> None:
        self.value = value
        Counter.shared = value

    def grow(self) -> None:
        self.value += 1

    def replace(self) -> None:
        self.value = self.value + 1

    def __getitem__(self, key: str) -> Any:
        return self.value

    def __setitem__(self, key: str, value: Any) -> None:
        self.value = value


module = types.ModuleType("a_module")
GLOBAL: dict[str, Any] = {}


def of_the_module() -> None:
    GLOBAL["a"][0] += 1


def found_by(way: str, x: Any) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """A function that changes ``x`` in place, having found it in some way, and one that replaces it there."""
    def grow(y: Any) -> None:
        y += 1

    counter, slots, space = Counter(x), Slots(x), types.SimpleNamespace(value=x)
    deep: Any = x
    for name in ("six", "five", "four", "three", "two", "one"):
        deep = types.SimpleNamespace(**{name: deep})
    GLOBAL["a"] = [x]
    module.value = x  # type: ignore[attr-defined]

    def attribute_of(owner: Any, name: str) -> tuple[Callable[[], Any], Callable[[], Any]]:
        def change() -> None:
            grow(getattr(owner, name))

        return change, lambda: setattr(owner, name, getattr(owner, name) + 1)

    def default(y: Any = x) -> None:
        y += 1

    def by_item() -> None:
        counter["a"] += 1

    def by_item_replaced() -> None:
        counter["a"] = counter["a"] + 1

    def six_deep() -> None:
        deep.one.two.three.four.five.six += 1

    def six_deep_replaced() -> None:
        deep.one.two.three.four.five.six = deep.one.two.three.four.five.six + 1

    def replaced_in_module() -> None:
        GLOBAL["a"][0] = GLOBAL["a"][0] + 1

    return {
        "partial application": (functools.partial(grow, x), None),
        "default": (default, None),
        "method": (counter.grow, counter.replace),
        "slot": attribute_of(slots, "_value"),
        "property": attribute_of(slots, "value"),
        "namespace": attribute_of(space, "value"),
        "class": attribute_of(Counter, "shared"),
        "module": attribute_of(module, "value"),
        "item": (by_item, by_item_replaced),
        "six attributes": (six_deep, six_deep_replaced),
        "container of the module": (of_the_module, replaced_in_module),
        "tuple": (lambda: grow((1, (x,))[1][0]), None),
        "function in a list": (lambda: [grow][0](x), None),
        "exec": (lambda: exec("x += 1", {"x": x}), None),
    }[way]  # type: ignore[return-value]


WAYS = ["partial application", "default", "method", "slot", "property", "namespace", "class", "module", "item",
        "six attributes", "container of the module", "tuple", "function in a list", "exec"]


def value_by(way: str) -> Any:
    return {"class": lambda: Counter.shared, "module": lambda: module.value,
            "container of the module": lambda: GLOBAL["a"][0]}[way]()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("construct", CONSTRUCTS)
@pytest.mark.parametrize("way", WAYS)
def test_arrays_that_are_changed_in_place_however_they_are_found(way: str, construct: str, mode: str) -> None:
    run, times = CONSTRUCTS[construct]
    x = Float(10, 20)
    run(mode, found_by(way, x)[0])
    assert plain(x) == [10 + times[0], 20 + times[1]]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("construct", CONSTRUCTS)
@pytest.mark.parametrize("way", [way for way in WAYS if found_by(way, 0)[1] is not None])
def test_entries_and_attributes_that_are_replaced_however_they_are_found(way: str, construct: str, mode: str) -> None:
    run, times = CONSTRUCTS[construct]
    x = Float(10, 20)
    change = found_by(way, x)[1]
    run(mode, change)
    assert plain(x) == [10, 20]
    if way in ("class", "module", "container of the module"):
        found = value_by(way)
        assert plain(found) == [10 + times[0], 20 + times[1]]
        assert found is not x


# --- several names ---------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Data:
    """A data class."""

    v: Any


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("replaced", [False, True])
def test_an_array_in_two_objects(mode: str, replaced: bool) -> None:
    x = Float(10, 20)
    first, second = Data(x), Data(x)

    def yes(first: Data, second: Data) -> Any:
        assert first.v is second.v
        if replaced:
            first.v = first.v + 1
        else:
            first.v += 1
        return first, second

    found = dr.if_stmt((first, second), Bool(True, False), yes, lambda first, second: (first, second), mode=mode)
    assert found[0] is first and found[1] is second and second.v is x
    assert plain(first.v) == [11, 20]
    assert plain(x) == ([10, 20] if replaced else [11, 20])
    assert (first.v is x) == (not replaced)


@pytest.mark.parametrize("mode", MODES)
def test_an_object_in_two_places(mode: str) -> None:
    inner = Data(Float(10, 20))
    pair = [inner, {"a": inner}]

    def body(i: Any, pair: Any) -> Any:
        assert pair[0] is pair[1]["a"]
        pair[0].v += 1
        pair[1]["a"].v *= 2
        return i + 1, pair

    _, found = dr.while_loop((UInt(0, 0), pair), lambda i, pair: i < UInt(1, 2), body, mode=mode)
    assert found is pair and pair[0] is inner and pair[1]["a"] is inner  # type: ignore[index]
    assert plain(inner.v) == [22, (21 * 2 + 1) * 2]


@pytest.mark.parametrize("mode", MODES)
def test_arrays_that_change_places(mode: str) -> None:
    x, z = Float(1, 1), Float(5, 5)

    def body(i: Any, x: Any, z: Any) -> Any:
        x += 1
        z += 10
        return i + 1, z, x

    _, first, second = dr.while_loop((UInt(0, 0), x, z), lambda i, x, z: i < UInt(1, 2), body, mode=mode)
    assert (plain(first), plain(second)) == ([15, 12], [2, 16])
    assert (plain(x), plain(z)) == ([2, 12], [15, 16])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", [Float, Array3f])
def test_an_array_in_two_places_that_calls_replace(mode: str, kind: Any) -> None:
    """A call returns one new array for both: the first iteration changes the caller's, and later ones what is new."""
    x = kind([1, 2, 3, 4]) if kind is Float else kind([1, 2, 3, 4], 5, 6)
    before = np.asarray(x).copy()

    def add(p: Any, q: Any) -> Any:
        p += 1
        return p, q

    def scale(p: Any, q: Any) -> Any:
        q *= 2
        return p, q

    def body(k: UInt, p: Any, q: Any) -> Any:
        p, q = dr.switch(UInt(0, 1, 0, 1), [add, scale], p, q, mode=mode)
        return k + 1, p, q

    _, p, q = dr.while_loop((UInt(0), x, x), lambda k, p, q: k < UInt(0, 1, 3, 2), body, mode=mode)
    wanted, first = before.copy(), before.copy()
    wanted[..., 1], wanted[..., 2], wanted[..., 3] = before[..., 1] * 2, before[..., 2] + 3, before[..., 3] * 4
    first[..., 1], first[..., 2], first[..., 3] = before[..., 1] * 2, before[..., 2] + 1, before[..., 3] * 2
    np.testing.assert_array_equal(np.asarray(p), wanted)
    assert plain(q) == plain(p)
    np.testing.assert_array_equal(np.asarray(x), first)


def _joined(j: Any, q: Any, p: Any) -> Any:
    q["a"], p["a"] = q["a"] + 2, p["a"] * 3
    return j + 1, q, q


def _new_and_joined(j: Any, q: Any, p: Any) -> Any:
    new = {"a": q["a"] + 2}
    p["a"] = p["a"] * 3
    return j + 1, new, new


def _copied_and_joined(j: Any, q: Any, p: Any) -> Any:
    q["a"] = q["a"] + 2
    p["a"] = p["a"] * 3
    new = dict(q)
    return j + 1, new, new


def _parted(j: Any, q: Any, p: Any) -> Any:
    q["a"] = q["a"] + 2
    p["a"] = p["a"] * 3
    return j + 1, dict(q), dict(p)


def _parted_in_place(j: Any, q: Any, p: Any) -> Any:
    q["a"] += 2
    p["a"] *= 3
    return j + 1, dict(q), dict(p)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("same", [False, True])
@pytest.mark.parametrize("body", [_joined, _new_and_joined, _copied_and_joined, _parted, _parted_in_place])
def test_containers_that_become_one_or_two_in_a_loop(body: Any, same: bool, mode: str) -> None:
    """Evaluated loops do what Python does; symbolic ones that, or they refuse it."""
    def begin(values: Any) -> Any:
        first = {"a": Float(values)}
        return first, first if same else {"a": Float(values) + 1}

    wanted = []
    for value, count in ((2, 0), (4, 1), (6, 3), (8, 2)):
        given = q, p = begin(value)
        for _ in range(count):
            _, q, p = body(UInt(0), q, p)
        wanted.append([plain(each["a"])[0] for each in (q, p, *given)])
    given = begin([2, 4, 6, 8])
    try:
        _, q, p = dr.while_loop((UInt(0), *given), lambda j, q, p: j < UInt(0, 1, 3, 2), body, mode=mode)
    except RuntimeError as error:
        assert mode == "symbolic" and ("change places" in str(error) or "are two afterwards" in str(error))
        assert [plain(each["a"]) for each in given] == [plain(each["a"]) for each in begin([2, 4, 6, 8])]
    else:
        assert np.transpose([plain(each["a"]) for each in (q, p, *given)]).tolist() == wanted
        assert (q is p) == (same and body in (_joined, _new_and_joined, _copied_and_joined))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("holder", [dict, list, Data])
def test_calls_return_one_container_where_all_functions_do(holder: Any, mode: str) -> None:
    x = Float(1, 2)
    q = {"a": x} if holder is dict else [x] if holder is list else Data(x)
    both = dr.switch(UInt(0, 1), [lambda q, p: (q, p), lambda q, p: (q, q)], q, q, mode=mode)
    assert both[0] is both[1] and both[0] is not q
    sides = dr.switch(UInt(0, 1), [lambda q, p: (q, p), lambda q, p: (q, copy.copy(q))], q, q, mode=mode)
    assert sides[0] is not sides[1]


def test_memory_that_a_loop_returns_in_another_array() -> None:
    """Only the first iteration writes to the caller's array; what that is then, nobody knows."""
    def add(table: Any, lane: Any) -> Any:
        dr.scatter_add(table, Float(5), lane)
        return table

    def called(j: Any, table: Any) -> Any:
        return j + 1, dr.switch(UInt(0, 1, 0, 1), [add, lambda table, lane: table], table, UInt(0, 1, 2, 3))

    def loop(table: Any) -> Any:
        return dr.while_loop((UInt(0), table), lambda j, table: j < UInt(0, 1, 3, 2), called)[1]

    def nested(j: Any, table: Any) -> Any:
        return j + 1, loop(table)

    def branch(table: Any) -> Any:
        return dr.if_stmt((table,), Bool(True, True, True, False), loop, lambda table: table)

    def tracked(table: Any) -> Any:
        grown = Float(5, 5, 5, 5)
        dr.enable_grad(grown)

        def add(table: Any, lane: Any) -> Any:
            dr.scatter_add(table, grown, lane)
            return table

        return dr.while_loop((UInt(0), table), lambda j, table: j < UInt(0, 1, 3, 2), lambda j, table: (
            j + 1, dr.switch(UInt(0, 1, 0, 1), [add, lambda table, lane: table], table, UInt(0, 1, 2, 3))),
            max_iterations=3)[1]

    for program in loop, branch, tracked, lambda table: dr.while_loop((UInt(0), table), lambda j, _: j < 1, nested)[1]:
        table = Float(2, 4, 6, 8)
        found = program(table)
        dr.eval(table, found)
        assert plain(found) == [2, 4, 21, 8]
        with pytest.raises(RuntimeError, match="Only the first iteration has written to this one"):
            table + 1
    with pytest.raises(RuntimeError, match="Only the first iteration has written to this one"):
        dr.while_loop((UInt(0), Float(2, 4, 6, 8)), lambda j, _: j < 2,
                      lambda j, table: (loop(table), (j + 1, table))[1])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("construct", ["branch", "call"])
@pytest.mark.parametrize("captured", [False, True])
@pytest.mark.parametrize(("change", "other"), [("+=", "="), ("view", "="), ("view", "*="), ("+=", "*="), ("view", "")])
def test_views_that_the_other_side_replaces_or_changes(change: str, other: str, captured: bool, construct: str,
                                                       mode: str) -> None:
    array = array_api.asarray(TensorXf(Float(2, 4, 6, 8), shape=(4,)))
    view = array[:]
    box = Plain(view)

    def first(box: Any) -> None:
        if change == "view":
            part = box.v[:]
            part += 2
        else:
            box.v += 2

    def second(box: Any) -> None:
        if other == "=":
            box.v = box.v + 5
        elif other:
            part = box.v
            part *= 5

    sides = [lambda *_: first(box), lambda *_: second(box)] if captured else [first, second]
    if construct == "branch":
        dr.if_stmt(() if captured else (box,), Bool(True, False, True, False), *sides, mode=mode)
    else:
        dr.switch(UInt(0, 1, 0, 1), sides, Float(1, 2, 3, 4) if captured else box, mode=mode)
    shown = [4, 20, 8, 40] if other == "*=" else [4, 4, 8, 8]
    assert (plain(array), plain(view)) == (shown, shown)
    assert plain(box.v) == ([4, 9, 8, 13] if other == "=" else shown)


@pytest.mark.parametrize("mode", MODES)
def test_results_that_differ_in_their_place(mode: str) -> None:
    x, z = Float(1, 1), Float(5, 5)

    def yes(x: Any, z: Any) -> Any:
        x += 1
        return z, x

    first, second = dr.if_stmt((x, z), Bool(True, False), yes, lambda x, z: (x, z), mode=mode)
    assert (plain(x), plain(z), plain(first), plain(second)) == ([2, 1], [5, 5], [5, 1], [2, 5])


@pytest.mark.parametrize("mode", MODES)
def test_an_argument_that_is_also_a_variable_of_the_function_around(mode: str) -> None:
    x = Float(10, 20)

    def yes(y: Any) -> None:
        nonlocal x
        assert x is y
        x += 1
        y *= 2

    dr.if_stmt((x,), Bool(True, False), yes, lambda y: None, mode=mode)
    assert plain(x) == [22, 20]


# --- what is not in the table ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
def test_each_side_sees_the_values_from_before(mode: str) -> None:
    x, seen = Float(10, 20), Data(Float(0, 0))

    def yes(x: Any, seen: Data) -> None:
        x += 1
        seen.v = x * 100

    def no(x: Any, seen: Data) -> None:
        seen.v = x * 1000
        x += 5

    dr.if_stmt((x, seen), Bool(True, False), yes, no, mode=mode)
    assert (plain(x), plain(seen.v)) == ([11, 25], [1100, 20000])


@pytest.mark.parametrize("by_flag", [False, True])
@pytest.mark.parametrize("mode", MODES)
def test_conditions_that_change_arrays(mode: str, by_flag: bool) -> None:
    """Also where a call of the condition finds out that the loop is none of Python."""
    x = Float(1, 1)

    def condition(i: Any, x: Any) -> Any:
        x += 1
        return i < UInt(1, 2)

    def run() -> Any:
        with dr.scoped_set_flag(dr.JitFlag.SymbolicLoops, mode == "symbolic"):
            return dr.while_loop((UInt(0, 0), x), condition, lambda i, x: (i + 1, x), mode=None if by_flag else mode,
                                 labels=("i", "x"))[1]

    if mode == "symbolic":
        with pytest.raises(RuntimeError, match="condition of this symbolic loop changes the state variable 'x'"):
            run()
        assert plain(x) == [1, 1]
    else:
        assert run() is x
        assert plain(x) == [3, 4]


@pytest.mark.parametrize("mode", MODES)
def test_arrays_that_become_wider(mode: str) -> None:
    x = y = Float(3)

    def grow(x: Any) -> Any:
        x += Float(1, 2)
        return (x,)

    found, = dr.while_loop((x,), lambda x: x < 6, grow, mode=mode)
    assert found is x and plain(x) == [6, 7]
    y = Float(3)
    found = dr.if_stmt((y,), Bool(True, False), lambda y: grow(y)[0], lambda y: y, mode=mode)
    assert found is y and plain(y) == [4, 3]


@pytest.mark.parametrize("mode", MODES)
def test_arrays_of_another_type_are_others(mode: str) -> None:
    """``x += 0.5`` of integers is a new array."""
    x = UInt(1, 1)

    def yes(x: Any) -> Any:
        x += 0.5
        return x

    found = dr.if_stmt((x,), Bool(True, False), yes, lambda x: Float(x), mode=mode)
    assert (plain(x), plain(found), type(found)) == ([1, 1], [1.5, 1], Float)


@pytest.mark.parametrize("mode", MODES)
def test_tuples_that_are_returned_as_they_are(mode: str) -> None:
    x, z = Float(1, 1), Float(5, 6)
    pair, entries = (z, (z, 3)), [z]

    def body(x: Any, *rest: Any) -> Any:
        return x + 1, *rest

    found = dr.while_loop((x, z, pair, entries, None, "text", 3), lambda x, *rest: x < 3, body, mode=mode)
    assert found[1] is z and found[2] is pair and found[3] is entries and entries[0] is z
    assert found[4:] == (None, "text", 3)
    sides = dr.if_stmt((z, pair, entries), Bool(True, False), lambda *given: given, lambda *given: given, mode=mode)
    assert sides[0] is z and sides[1] is pair and sides[2] is entries


@pytest.mark.parametrize("mode", MODES)
def test_what_a_construct_does_not_change_keeps_its_derivatives(mode: str) -> None:
    x = Float(1, 2)
    dr.enable_grad(x)
    y = x * 3
    before = y.index_ad
    _, found = dr.if_stmt((x, y), Bool(True, False), lambda x, y: (x * 2, y), lambda x, y: (x, y), mode=mode)
    assert found is y and y.index_ad == before
    _, found = dr.while_loop((UInt(0, 0), y), lambda i, y: i < 2, lambda i, y: (i + 1, y), mode=mode)
    assert found is y and y.index_ad == before


@pytest.mark.parametrize("mode", MODES)
def test_arrays_changed_later_do_not_change_derivatives(mode: str) -> None:
    x = Float(1, 2)
    dr.enable_grad(x)
    w, y = x * 1, Float(1, 1)

    def body(i: Any, y: Any) -> Any:
        y *= w
        return i + 1, y

    dr.while_loop((UInt(0, 0), y), lambda i, y: i < 2, body, mode=mode, max_iterations=3)
    w *= 0
    dr.backward(y)
    assert (plain(y), plain(x.grad)) == ([1, 4], [2, 4])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("construct", CONSTRUCTS)
def test_all_is_as_before_if_a_body_raises(construct: str, mode: str) -> None:
    x, nested, tensor, holder = Float(1, 2), Array3f(1, 2, 3), TensorXf([1, 2], shape=(2,)), Data(Float(1, 2))
    entries, inner, table = [Float(1, 2)], holder.v, dr.zeros(Float, 2)
    generator, other = ad.PCG32(2), ad.PCG32(2)
    first, component = entries[0], nested.x

    def change() -> None:
        nonlocal x, tensor
        x += 1
        nested.x += 1
        tensor *= 2
        holder.v = holder.v + 1
        entries[0] += 1
        entries.append(Float(3))
        dr.scatter_add(table, Float(1), UInt(0))
        generator.next_float32()
        raise KeyError("stop")

    with pytest.raises(KeyError, match="stop"):
        CONSTRUCTS[construct][0](mode, change)
    assert (plain(x), plain(nested), plain(tensor), plain(table)) == ([1, 2], [[1], [2], [3]], [1, 2], [0, 0])
    assert holder.v is inner and plain(inner) == [1, 2]
    assert len(entries) == 1 and entries[0] is first and plain(first) == [1, 2]
    assert plain(component) == [1]
    assert plain(generator.state) == plain(other.state)


@pytest.mark.parametrize("mode", MODES)
def test_generators_advance(mode: str) -> None:
    """The same draws as of elements that draw by themselves."""
    def draws(count: int, lane: int) -> list[float]:
        alone = ad.PCG32(2)
        return [plain(alone.next_float32())[lane] for _ in range(count)]

    @dr.syntax
    def sums(generator: Any, n: Any) -> Any:
        i, total = UInt(0), Float(0)
        while i < n:
            total += generator.next_float32()
            i += 1
        return total

    generator = ad.PCG32(2)
    with dr.scoped_set_flag(dr.JitFlag.SymbolicLoops, mode == "symbolic"):
        sums(generator, UInt(1, 2))
        found = sums(generator, UInt(2, 1))
    assert plain(found) == [np.float32(np.float32(draws(3, 0)[1]) + np.float32(draws(3, 0)[2])), draws(3, 1)[2]]
