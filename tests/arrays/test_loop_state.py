"""The state of loops: what may be in it, what the body may do with it, and what it may not change; in all modes."""

from __future__ import annotations

import dataclasses
import traceback
from typing import Any

import pytest

import drjit as dr
import drjit_core as core
from drjit._access import lanes
from drjit.llvm import PCG32, Array3f, ArrayXf, Bool, Float, Int, Matrix2f, TensorXf, UInt
from drjit.scalar import Array3f as ScalarArray3f
from drjit_core import rooms

MODES = ["symbolic", "evaluated"]
#: Of ours that a traceback shows of a loop: rooms have none where they are compiled.
FRAMES = 1 if rooms.compiled else 2
mode = pytest.mark.parametrize("mode", MODES)


@dataclasses.dataclass
class Particle:
    position: Any = None
    history: Any = None


def tensor(*shape: int) -> TensorXf:
    return dr.reshape(dr.arange(TensorXf, dr.prod(shape)), shape)


# --- what a body may not change --------------------------------------------------------------------------------------

#: The second state variable before, what the body makes of it, and the message.
CHANGES: dict[str, tuple[Any, Any, str]] = {
    "type": (Float(1), lambda x: Int(1), "type of the state variable 'x' from drjit.llvm.Float to drjit.llvm.Int"),
    "number": (Float(1), lambda x: 1.0, "type of the state variable 'x' from drjit.llvm.Float to float"),
    "shape of a tensor": (tensor(2, 3), lambda x: dr.reshape(x, (3, 2)),
                          "shape of the state variable 'x' from (2, 3) to (3, 2)"),
    "dimensions of a tensor": (tensor(4), lambda x: dr.reshape(x, (4, 1)),
                               "shape of the state variable 'x' from (4,) to (4, 1)"),
    "size of a tensor": (tensor(2, 2), lambda x: tensor(2, 3),
                         "shape of the state variable 'x' from (2, 2) to (2, 3)"),
    "tensor inside": ({"t": [tensor(2, 3)]}, lambda x: {"t": [dr.reshape(x["t"][0], (6,))]},
                      "shape of the state variable 'x['t'][0]' from (2, 3) to (6,)"),
    "components": (ArrayXf(1, 2), lambda x: ArrayXf(1, 2, 3),
                   "number of components of the state variable 'x' from 2 to 3"),
    "length": ([Float(1)], lambda x: [*x, Float(1)], "length of the state variable 'x' from 1 to 2"),
    "keys": ({"a": Float(1)}, lambda x: {"b": Float(1)}, "keys of the state variable 'x' from ['a'] to ['b']"),
    "container": ((Float(1),), lambda x: [Float(1)], "type of the state variable 'x' from tuple to list"),
    "field": (Particle(Array3f(1), [Float(1)]), lambda x: Particle(x.position, [Int(1)]),
              "type of the state variable 'x.history[0]' from drjit.llvm.Float to drjit.llvm.Int"),
    "width": (Float(1, 2), lambda x: Float(1, 2, 3), "size of the state variable 'x' from 2 to 3"),
    "width of a component": (Particle(Array3f(1, 2, Float(3, 4))), lambda x: Particle(Array3f(1, 2, Float(1, 2, 3))),
                             "size of the state variable 'x.position.z' from 2 to 3"),
    "empty": (Float(1, 2), lambda x: Float(), "size of the state variable 'x' from 2 to 0"),
}


@mode
@pytest.mark.parametrize(("before", "change", "message"), CHANGES.values(), ids=CHANGES.keys())
def test_changes_of_the_state_name_the_place(mode: str, before: Any, change: Any, message: str) -> None:
    def body(i: Int, x: Any) -> tuple[Int, Any]:
        return i + 1, change(x)

    with pytest.raises((TypeError, RuntimeError)) as caught:
        dr.while_loop((Int(0), before), lambda i, x: i < 2, body, labels=("i", "x"), mode=mode)
    advice = " Convert it in the body, or begin with what it becomes." if message.startswith("type") else ""
    assert str(caught.value) == f"drjit.while_loop(): the body of this loop changed the {message}.{advice}"
    assert caught.value.__cause__ is None
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert len([frame for frame in frames if "/drjit/" in frame.filename]) == FRAMES


@mode
def test_without_labels_places_are_positions(mode: str) -> None:
    with pytest.raises(RuntimeError, match=r"state variable 'state\[1\]\.history' from"):
        dr.while_loop((Int(0), Particle(Float(1), Float(1))), lambda i, x: i < 2,
                      lambda i, x: (i + 1, Particle(x.position, None)), mode=mode)


@mode
@pytest.mark.parametrize(("first", "second", "change", "place"), [
    (Float(), Float(1, 2), lambda a, b: (b, b), "a"), (Float(), Float(1, 2), lambda a, b: (a + 1, b + 1), "a"),
    (Float(1, 2), [Array3f(1, 2, Float())], lambda a, b: (a, [Array3f(a)]), r"b\[0\]"),
    (Float(1, 2), {"k": Float()}, lambda a, b: (a + 1, {"k": b["k"] * a}), r"b\['k'\]"),
    (Float(1), Float(), lambda a, b: (a, Float(1, 2)), "b"),
])
def test_state_that_is_not_initialized(mode: str, first: Any, second: Any, change: Any, place: str) -> None:
    """Variables without elements do not go with others of several ones, unless the body leaves them alone."""
    with pytest.raises(RuntimeError, match=f"the state variable '{place}' of type .* is empty; it must be initialized"):
        dr.while_loop((first, second, Int(0)), lambda a, b, i: (i < 2) & Bool(True, True),
                      lambda a, b, i: (*change(a, b), i + 1), mode=mode, labels=("a", "b", "i"))


# --- what it may -----------------------------------------------------------------------------------------------------


@mode
def test_dictionaries_whose_keys_come_in_another_order(mode: str) -> None:
    _, d = dr.while_loop((Int(0), {"a": Float(1), "b": Float(2)}), lambda i, d: i < 3,
                         lambda i, d: (i + 1, {"b": d["b"] * 2, "a": d["a"]}), mode=mode)
    assert repr(d) == "{'b': [16], 'a': [1]}"


@pytest.mark.parametrize("mode", [*MODES, "scalar"])
def test_one_array_in_two_places(mode: str) -> None:
    """One object under several names: what is done to it by one of them is seen by the others."""
    def body(a: Float, b: Float, c: list[Float]) -> tuple[Any, ...]:
        a += 1
        b *= 2
        return a, b, c

    found = []
    for x in (Float(2), Float(3)) if mode == "scalar" else (Float(1, 2) + 1,):
        a, b, (c,) = dr.while_loop((x, x, [x]), lambda a, b, c: a < 5, body, mode=mode)
        assert a is x and b is x and c is x
        found += list(x)
    assert found == [6, 8]


@pytest.mark.parametrize("mode", [*MODES, "scalar"])
def test_one_array_in_two_places_that_the_body_replaces(mode: str) -> None:
    def body(a: Float, b: Float, c: list[Float]) -> tuple[Any, ...]:
        return a + 1, b * 2, c

    found = []
    for x in (Float(2), Float(3)) if mode == "scalar" else (Float(1, 2) + 1,):
        a, b, (c,) = dr.while_loop((x, x, [x]), lambda a, b, c: a < 5, body, mode=mode)
        assert c is x and a is not x and b is not x
        found.append([list(value) for value in (a, b, x)])
    if mode == "scalar":
        assert found == [[[5], [16], [2]], [[5], [12], [3]]]
    else:
        assert found == [[[5, 5], [16, 12], [2, 3]]]


@pytest.mark.parametrize("mode", [*MODES, "scalar"])
def test_components_as_state_beside_their_array(mode: str) -> None:
    """A component is part of its array."""
    v = Array3f(1, 2, 3)

    def body(v: Array3f, x: Float) -> tuple[Array3f, Float]:
        x += 1
        v.y += x
        return v, x

    after, x = dr.while_loop((v, v.x), lambda v, x: x < 4, body, mode=mode)
    assert after is v
    assert (repr(v), repr(x)) == ("[[4, 11, 3]]", "[4]")


@pytest.mark.parametrize("mode", [*MODES, "scalar"])
def test_changes_in_place_reach_containers_and_arrays_of_the_caller(mode: str) -> None:
    """What the body changes and returns is the caller's, while what it replaces is a new array in its place."""
    state: dict[str, Any] = {"flat": Float(1), "nested": Array3f(1), "matrix": Matrix2f(1), "tensor": tensor(2, 2),
                             "list": [Float(1)], "generator": PCG32(1), "scalar": ScalarArray3f(1, 2, 3)}
    before, first = dict(state), state["list"][0]

    def body(i: Any, s: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        s["flat"] += 1
        s["nested"].y += 1
        s["matrix"][0, 1] = Float(5)
        s["tensor"] *= 2
        s["list"][0] = s["list"][0] + 1
        s["generator"].next_uint32()
        if mode != "symbolic":
            s["scalar"].x += 1
        s["more"] = s.pop("flat")
        s["flat"] = s.pop("more")
        return i + 1, s

    _, after = dr.while_loop((0 if mode == "scalar" else Int(0), state), lambda i, s: i < 3, body, mode=mode)
    assert after is state
    assert list(after) == ["nested", "matrix", "tensor", "list", "generator", "scalar", "flat"]
    assert [name for name in after if after[name] is not before[name]] == []
    assert set(after["flat"]) == {4}
    assert [set(component) for component in after["nested"]] == [{1}, {4}, {1}]
    assert [[set(entry) for entry in row] for row in after["matrix"]] == [[{1}, {5}], [{0}, {1}]]
    assert repr(after["tensor"]) == "[[0, 8],\n [16, 24]]"
    assert set(after["list"][0]) == {4}
    assert after["list"][0] is not first and list(first) == [1]
    assert repr(after["scalar"]) == ("[1, 2, 3]" if mode == "symbolic" else "[4, 2, 3]")
    other = PCG32(1)
    for _ in range(3):
        other.next_uint32()
    assert set(after["generator"].next_uint32()) == set(other.next_uint32())


@mode
@pytest.mark.parametrize(("shape", "whole"), [((), (3,)), ((1,), (3,)), ((1, 1), (1, 3))])
def test_tensors_of_one_element_become_as_wide_as_the_loop(mode: str, shape: tuple[int, ...],
                                                           whole: tuple[int, ...]) -> None:
    """Their shape is that of the sum with a tensor of one dimension."""
    assert (dr.zeros(TensorXf, shape) + tensor(3)).shape == whole
    i, t = dr.while_loop((Int(0, 1, 2), dr.zeros(TensorXf, shape)), lambda i, t: i < 3, lambda i, t: (i + 1, t + 1),
                         mode=mode)
    assert t.shape == whole
    assert list(t.array) == [3, 2, 1]
    assert list(i) == [3, 3, 3]


@mode
def test_tensors_keep_their_shape(mode: str) -> None:
    _, t = dr.while_loop((Int(0, 1, 2, 3, 4, 5), tensor(2, 3)), lambda i, t: i < 3, lambda i, t: (i + 1, t + 1),
                         mode=mode)
    assert t.shape == (2, 3)
    assert list(t.array) == [3, 3, 3, 3, 4, 5]


@mode
def test_masks_of_tensors_as_conditions(mode: str) -> None:
    (t,) = dr.while_loop((tensor(2, 2),), lambda t: t < 3, lambda t: (t + 1,), mode=mode)
    assert t.shape == (2, 2)
    assert list(t.array) == [3, 3, 3, 3]


@mode
@pytest.mark.parametrize(("state", "limit", "expected"), [
    ((Int(0), Float(1)), Int(1, 2, 3), ([1, 2, 3], [2, 3, 4])),
    ((Int(0), Float(1, 2, 3)), Int(3), ([3] * 3, [4, 5, 6])),
    ((Int(0, 1, 5), Float(1)), Int(3), ([3, 3, 5], [4, 3, 1])),
    ((Int(0, 1, 5), Float(1)), Int(-1), ([0, 1, 5], [1, 1, 1])),
])
def test_widths_of_one_go_with_any(mode: str, state: tuple[Any, ...], limit: Int, expected: Any) -> None:
    result = dr.while_loop(state, lambda i, x: i < limit, lambda i, x: (i + 1, x + 1), mode=mode)
    for array, values in zip(result, expected, strict=True):
        assert list(array + dr.zeros(type(array), 3)) == values


@mode
def test_a_body_may_make_a_variable_wider(mode: str) -> None:
    _, x = dr.while_loop((Int(0), Float(1)), lambda i, x: i < 3, lambda i, x: (i + 1, x + Float(1, 2, 3)), mode=mode)
    assert list(x) == [4, 7, 10]


@mode
@pytest.mark.parametrize("size", [1, 3, 4, 9])
def test_tables_as_state(mode: str, size: int) -> None:
    """What the body leaves alone may have another size, and be read by index."""
    table = dr.arange(Float, size) + 1

    def body(i: UInt, x: Float, d: dict[str, Float]) -> tuple[Any, ...]:
        return i + 1, x + dr.gather(Float, d["table"], i % size), d

    _, x, d = dr.while_loop((UInt(0, 1, 7), Float(0), {"table": table}), lambda i, x, d: i < 5, body, mode=mode)
    assert list(x) == [sum(k % size + 1 for k in range(start, 5)) for start in (0, 1, 7)]
    assert list(d["table"]) == list(table)


@mode
@pytest.mark.parametrize("held", [None, 5])
@pytest.mark.parametrize("zero", [lambda v: v * 0, lambda v: v ^ v, dr.zeros_like, lambda v: dr.select(v == v, 0, v),
                                  lambda v: dr.zeros(UInt, dr.width(v)), lambda v: dr.arange(UInt, dr.width(v))],
                         ids=["product", "difference", "zeros_like", "select", "width", "counter"])
@pytest.mark.parametrize("write", [True, False])
def test_constants_of_a_body_do_not_make_a_loop_as_wide_as_a_table(mode: str, zero: Any, write: bool,
                                                                   held: int | None) -> None:
    """They are as wide as the variables they are made from, which were as wide as the table when it was not known yet
    that the body leaves that alone; and a loop of five elements writes five times what one of one element does.  That
    the program holds a counter of five elements, which one in the body would be if it had as many, changes nothing."""
    hits = dr.zeros(UInt, 1)
    counter = held and dr.arange(UInt, held)

    def body(i: UInt, v: UInt, table: Float) -> tuple[UInt, UInt, Float]:
        if write:
            dr.scatter_add(hits, UInt(1), UInt(0))
        return i + 1, zero(v), table

    i, v, table = dr.while_loop((UInt(0), UInt(3), Float(1, 2, 3, 4, 5)), lambda i, v, table: i < 3, body, mode=mode)
    assert list(i) == [3] and list(v) == [0] and list(table) == [1, 2, 3, 4, 5]
    assert list(hits) == [3 if write else 0]
    assert held is None or list(counter) == [0, 1, 2, 3, 4]


@mode
def test_a_loop_is_as_wide_as_a_counter_that_a_body_captures_which_asks_for_a_width(mode: str) -> None:
    counter = dr.arange(UInt, 5)
    i, v, _ = dr.while_loop((UInt(0), UInt(1), Float(1, 2, 3, 4, 5)), lambda i, v, table: i < 3,
                            lambda i, v, table: (i + 1, v + counter * dr.width(v), table), mode=mode)
    assert dr.all(i == 3) and list(v) == [1 + 11 * k if mode == "evaluated" else 1 + 15 * k for k in range(5)]


@mode
def test_a_loop_is_as_wide_as_what_its_body_captures(mode: str) -> None:
    """Also if a table of the same size was taken for a variable of as many elements first."""
    for wide in (dr.full(Float, 2, 5), Float(2, 2, 2, 2, 2), dr.arange(Float, 5) * 0 + 2):
        i, v, _ = dr.while_loop((UInt(0), Float(1), Float(1, 2, 3, 4, 5)), lambda i, v, table: i < 3,
                                lambda i, v, table, wide=wide: (i + 1, v * wide, table), mode=mode)
        assert list(v) == [8] * 5 and dr.all(i == 3)


@mode
def test_sizes_that_do_not_go_together(mode: str) -> None:
    with pytest.raises(RuntimeError, match="sizes"):
        dr.while_loop((Int(0, 1), Float(1, 2, 3)), lambda i, x: i < 3, lambda i, x: (i + 1, x + 1), mode=mode)
    with pytest.raises(RuntimeError, match=r"'b' has|'a' and 'b' have incompatible sizes"):
        dr.while_loop((Int(0, 1), Float(1, 2, 3)), lambda i, x: i < 3, lambda i, x: (i + 1, x + 1), mode=mode,
                      labels=("a", "b"))


@pytest.mark.parametrize("opaque", [False, True])
@pytest.mark.parametrize("evaluate", [False, True])
@pytest.mark.parametrize("size", [3, 5])
def test_writes_to_a_table_in_the_state_of_an_evaluated_loop(size: int, evaluate: bool, opaque: bool) -> None:
    """Lanes write to any elements, those of lanes that have finished included."""
    table = dr.opaque(Int, 0, size) if opaque else dr.zeros(Int, size)

    def body(i: Int, t: Int) -> tuple[Int, Int]:
        dr.scatter_add(t, i + 10, dr.select(i < 3, UInt(2), UInt(0)))
        if evaluate:
            dr.eval(t)
        dr.scatter_add(t, 1, UInt(1))
        return i + 1, t

    _, after = dr.while_loop((Int(1, 5, 5), table), lambda i, t: i < 3, body, mode="evaluated")
    assert after is table and list(after) == [0, 2, 23, 0, 0][:size]


@pytest.mark.parametrize("opaque", [False, True])
def test_writes_to_a_broadcast_component_in_the_state_of_an_evaluated_loop(opaque: bool) -> None:
    v = Array3f(Float(1, 2, 3), 5, 7)
    if opaque:
        dr.make_opaque(v)

    def body(i: Int, v: Array3f) -> tuple[Int, Array3f]:
        dr.scatter_add(v, Array3f(1), UInt(2))
        return i + 1, v

    _, after = dr.while_loop((Int(0, 2, 9), v), lambda i, v: i < 3, body, mode="evaluated")
    assert repr(after) == "[[1, 5, 7],\n [2, 5, 7],\n [7, 9, 11]]"


def test_writes_in_a_loop_within_an_evaluated_loop() -> None:
    def outer(i: Int, t: Int) -> tuple[Int, Int]:
        dr.scatter_add(t, 1, UInt(i))

        def inner(k: Int, t: Int) -> tuple[Int, Int]:
            dr.scatter_add(t, 10, UInt(k))
            return k + 1, t

        _, t = dr.while_loop((Int(0), t), lambda k, t: k < 2, inner, mode="evaluated")
        return i + 1, t

    _, after = dr.while_loop((Int(0, 2, 7), dr.zeros(Int, 3)), lambda i, t: i < 3, outer, mode="evaluated")
    assert list(after)[2] == 2


# --- objects of Python -----------------------------------------------------------------------------------------------


@mode
def test_other_objects_are_passed_on(mode: str) -> None:
    thing = object()
    state = (Int(0), "text", None, [1, 2.5, float("nan")], thing)
    result = dr.while_loop(state, lambda i, *rest: i < 3, lambda i, *rest: (i + 1, *rest), mode=mode)
    assert result[1:3] == ("text", None)
    assert result[3][:2] == [1, 2.5]
    assert result[4] is thing


@pytest.mark.parametrize("value", [1, 2.5, "text", (1, 2), range(3)])
def test_equal_objects_are_unchanged(value: Any) -> None:
    dr.while_loop((Int(0), [value]), lambda i, s: i < 3, lambda i, s: (i + 1, [eval(repr(value))]), mode="symbolic")


@pytest.mark.parametrize(("before", "change"), [
    (1, lambda x: x + 1), (1.5, lambda x: x + 1), ("a", lambda x: x + "b"), (frozenset((1,)), lambda x: frozenset()),
    (ScalarArray3f(1, 2, 3), lambda x: x + 1), (range(3), lambda x: range(4)),
])
def test_symbolic_loops_refuse_changes_of_what_they_do_not_track(before: Any, change: Any) -> None:
    state = (Int(0), {"k": before})
    arguments = lambda i, s: i < 3, lambda i, s: (i + 1, {"k": change(s["k"])})
    with pytest.raises(TypeError, match=r"changed the state variable 'b\['k'\]' of type .* from .* to .*strict=False"):
        dr.while_loop(state, *arguments, mode="symbolic", labels=("a", "b"))
    _, after = dr.while_loop(state, *arguments, mode="symbolic", strict=False)
    assert repr(after["k"]) == repr(change(before))
    _, after = dr.while_loop(state, *arguments, mode="evaluated")
    assert repr(after["k"]) == repr(change(change(change(before))))


def test_scalar_loops_are_python_loops() -> None:
    assert dr.while_loop((0, []), lambda i, found: i < 3, lambda i, found: (i + 1, [*found, i])) == (3, [0, 1, 2])


# --- exceptions ------------------------------------------------------------------------------------------------------


class Mistake(Exception):
    pass


def snapshot() -> tuple[Any, ...]:
    return core.state.region, dict(core.state.open), core.state.flags, \
        core.state.mode, list(lanes._stack.masks), dict(lanes._stack.origins)


#: Where something raises, and how often the body has begun until then in a loop of Python.
RAISING = {"condition": 0, "body": 1, "second iteration": 2, "nested loop": 1}


@pytest.mark.parametrize("where", RAISING)
@pytest.mark.parametrize("mode", [*MODES, "scalar", None])
def test_an_exception_reaches_the_user_as_it_is_and_changes_nothing(mode: str | None, where: str) -> None:
    """A loop of Python, in scalar mode, leaves what it has done before."""
    arrays = [Float(1, 2) + 1, Array3f(1), tensor(1, 2)]
    given, calls, raised = list(arrays), 0, list[Mistake]()

    def fail() -> None:
        raised.append(Mistake("mine"))
        raise raised[-1]

    def condition(i: Any, s: Any) -> Any:
        if where == "condition":
            fail()
        return i < 2

    def body(i: Any, s: Any) -> Any:
        nonlocal calls
        calls += 1
        s[0] += 1
        s[1].x = Float(7)
        s[2] *= 2
        if where == "body" or calls == 2:
            fail()
        if where == "nested loop":
            dr.while_loop((i, s), lambda i, s: i < 2, lambda i, s: fail(), mode=mode)
        return i + 1, s

    before = snapshot()
    for start in (0,) if mode == "scalar" else (Int(0), Int(0, 1)):
        calls = 0 if where != "second iteration" else 1 if mode in ("symbolic", None) else 0
        with pytest.raises(Mistake, match=r"^mine$") as caught:
            dr.while_loop((start, arrays), condition, body, mode=mode)
        assert snapshot() == before
        assert isinstance(caught.value, RuntimeError) and caught.value.__cause__ is raised.pop()
        assert caught.value.__cause__.__cause__ is caught.value.__cause__.__context__ is None
        assert raised == [], (start, calls)
        ours = [frame for frame in traceback.extract_tb(caught.value.__traceback__) if "/drjit" in frame.filename
                and "/tests/" not in frame.filename]
        assert len(ours) == (2 if where == "nested loop" else 1) * FRAMES
    assert [array for array, other in zip(arrays, given, strict=True) if array is not other] == []
    if mode == "scalar":
        count = RAISING[where]
        assert [repr(array) for array in arrays] == [
            f"[{2 + count}, {3 + count}]", f"[[{7 if count else 1}, 1, 1]]", f"[[0, {2 ** count}]]"]
    else:
        assert [repr(array) for array in arrays] == ["[2, 3]", "[[1, 1, 1]]", "[[0, 1]]"]
    target = dr.zeros(Float, 3)
    dr.scatter(target, 1, UInt(2))
    assert list(target) == [0, 0, 1]


@mode
def test_errors_of_operators_in_the_body_keep_their_message(mode: str) -> None:
    with pytest.raises(RuntimeError, match=r"drjit\.llvm\.Int\.__add__"):
        dr.while_loop((Int(0, 1),), lambda i: i < 3, lambda i: (i + Int(1, 2, 3),), mode=mode)
