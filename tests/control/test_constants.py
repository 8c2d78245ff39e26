"""Constants from outside, in symbolic loops: what the body computes with them, looks at, and changes."""

from __future__ import annotations

import io
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

import drjit as dr
from drjit.llvm import Bool, Float, Int, TensorXf, UInt, ad
from drjit_core.ir.symbolic import new_region


def looped(change: Callable[[UInt], object], width: int = 1) -> int:
    """Let a loop of three iterations do something; returns how often the body was called."""
    calls = 0

    def body(i: UInt) -> tuple[UInt]:
        nonlocal calls
        calls += 1
        change(i)
        return (i + 1,)

    dr.while_loop((dr.zeros(UInt, width),), lambda i: i < 3, body, mode="symbolic")
    return calls


@pytest.mark.parametrize("width", [1, 2])
def test_read_and_then_changed(width: int) -> None:
    count, total = UInt(0), UInt(0)

    def change(i: UInt) -> None:
        nonlocal total
        total += count
        count.__iadd__(2)

    assert looped(change, width) == 1
    assert list(count) == [6] * width
    assert list(total) == [6] * width


@pytest.mark.parametrize("width", [1, 2])
def test_two_arrays_that_hold_one_constant(width: int) -> None:
    first, second = dr.zeros(UInt, 5), dr.zeros(UInt, 5)

    def change(i: UInt) -> None:
        dr.scatter_add(second, dr.gather(UInt, first, i), i)
        dr.scatter_add(first, i + 1, i)

    assert looped(change, width) == 1
    assert list(first) == [width, 2 * width, 3 * width, 0, 0]
    assert list(second) == [0] * 5


def test_elements_that_were_looked_at() -> None:
    """As long as they do not change, constants are what they are, and so is what is computed with them."""
    steps, scale, found = UInt(3), Float(2), Float(0)

    def change(i: UInt) -> None:
        for _ in range(steps[0]):
            found.__iadd__(scale)
        assert dr.all(scale + 1 == 3)
        assert dr.sum(dr.zeros(Float, 4) + scale) == 8
        assert f"{scale}" == "[2]"
        assert dr.gather(Float, scale * 2, UInt(0)).numpy().tolist() == [4]
        assert dr.width(steps) == 1
        dr.eval(scale)

    assert looped(change) == 1
    assert list(found) == [18]


@pytest.mark.parametrize("value", [Float(1), Float(1, 2), dr.arange(Float, 3) * 2], ids=["constant", "memory", "value"])
@pytest.mark.parametrize("look", [lambda x: x[0], lambda x: float(dr.sum(x)), lambda x: x.numpy(), repr,
                                  lambda x: bool(dr.any(x + 1 > 1))],
                         ids=["element", "number", "numpy", "text", "reduction"])
def test_what_was_looked_at_must_not_change(value: Float, look: Callable[[Float], Any]) -> None:
    """The body is called once: what it has seen would be that of the first iteration."""
    x = Float(value)
    before = list(x)

    def change(i: UInt) -> None:
        look(x)
        x.__iadd__(1)

    with pytest.raises(RuntimeError, match=r"(looks at elements of the array 'x', and changes it|symbolic)"):
        looped(change)
    assert list(x) == before


def test_elements_that_are_increased() -> None:
    x = Float(1, 2, 3)

    def change(i: UInt) -> None:
        x[1] += 2

    with pytest.raises(RuntimeError, match="looks at elements of the array 'x', and changes it"):
        looped(change)
    assert list(x) == [1, 2, 3]


def test_what_was_evaluated_must_not_change() -> None:
    """It is as it was before the loop in later iterations, too."""
    x = Float(1, 2)

    def change(i: UInt) -> None:
        y = x + 1
        dr.eval(y)
        x.__iadd__(y)

    with pytest.raises(RuntimeError, match="looks at elements of the array 'x', and changes it"):
        looped(change)
    assert list(x) == [1, 2]


def test_looking_within_an_inner_construct() -> None:
    x = Float(1, 2)

    def change(i: UInt) -> None:
        dr.if_stmt((), i > 0, lambda: Float(x[0]), lambda: Float(0))
        x.__iadd__(1)

    with pytest.raises(RuntimeError, match="looks at elements of the array 'x'"):
        looped(change, 2)


def test_branches_find_what_was_there_before() -> None:
    x = Float(1, 2)

    def side() -> Float:
        found = x[0]
        x.__iadd__(found)
        return Float(found)

    y = dr.if_stmt((), Bool(True, False), side, lambda: Float(0), mode="symbolic")
    assert list(x) == [2, 2]
    assert list(y) == [1, 0]


@pytest.mark.parametrize("kind", ["attribute", "list", "dictionary", "tuple", "tensor", "nested"])
def test_wherever_constants_are(kind: str) -> None:
    holder: Any = {"attribute": SimpleNamespace(x=Float(0)), "list": [Float(0)], "dictionary": {"x": Float(0)},
                   "tuple": (Float(0),), "tensor": TensorXf(0),
                   "nested": SimpleNamespace(y=[SimpleNamespace(x=Float(0))])}[kind]

    def array() -> Any:
        return {"attribute": lambda: holder.x, "list": lambda: holder[0], "dictionary": lambda: holder["x"],
                "tuple": lambda: holder[0], "tensor": lambda: holder, "nested": lambda: holder.y[0].x}[kind]()

    def change(i: UInt) -> None:
        x = array()
        x += x + 1

    assert looped(change) == 1
    assert list(array()) == [7] if kind != "tensor" else array().array[0] == 7


def test_bodies_that_change_no_constants_are_known() -> None:
    """Later traces of such a body presume nothing, and are right if it changes some all the same."""
    scale, changes, found = Float(2), [False], Float(0, 0)

    def change(i: UInt) -> None:
        found.__iadd__(scale)
        if changes[0]:
            scale.__iadd__(1)

    assert looped(change) == looped(change) == 1
    assert list(found) == [12, 12]
    changes[0] = True
    assert looped(change) <= 2
    assert list(found) == [21, 21]
    assert list(scale) == [5, 5]


def test_what_is_kept_of_constants_is_a_value_afterwards() -> None:
    """A new attribute that is computed of nothing but a constant holds what that is outside."""
    owner = SimpleNamespace(scale=Float(2))

    def body(i: Any, x: Any) -> Any:
        owner.double = owner.scale * 2
        return i + 1, x + owner.double

    _, x = dr.while_loop((Int(0), Float(1, 2)), lambda i, x: i < 3, body, mode="symbolic")
    assert dr.all(x == Float(13, 14))
    assert not owner.double._n.scope
    assert dr.all(owner.double == 4)


def test_several_looks_at_what_is_computed_of_a_constant_are_one_kernel() -> None:
    owner, memory = SimpleNamespace(scale=Float(2)), dr.opaque(Float, 5, 3)
    seen: list[float] = []
    kernels: list[int] = []

    def body(i: Any, x: Any) -> Any:
        y = owner.scale * 3 + dr.gather(Float, memory, Int(1))
        with dr.scoped_set_flag(dr.JitFlag.KernelHistory, True):
            dr.kernel_history_clear()
            seen.extend(float(y[0]) for _ in range(4))
            kernels.append(len(dr.kernel_history()))
        return i + 1, x + y

    dr.while_loop((Int(0), Float(1, 2)), lambda i, x: i < 3, body, mode="symbolic")
    assert seen == [11] * 4
    assert kernels == [1]


#: What a body computes with two constants, and whether the loop is traced again: where something is known, or simpler.
USES: dict[str, tuple[Callable[[Any, Any, Any], Any], float, float, bool]] = {
    "not at all": (lambda x, c, d: x + 1, 1.5, 2.5, False),
    "once": (lambda x, c, d: x + c, 1.5, 2.5, False),
    "both": (lambda x, c, d: (x + c) * d, 1.5, 2.5, False),
    "thrice": (lambda x, c, d: dr.fma(x, c, d) - c, 1.5, 2.5, False),
    "zero": (lambda x, c, d: x + c, 0, 2.5, False),  # of -0, it makes 0
    "negative zero": (lambda x, c, d: x + c, -0.0, 2.5, True),
    "one": (lambda x, c, d: dr.fma(x, c, d), 1, 2.5, True),
    "with another": (lambda x, c, d: x + c * d, 1.5, 2.5, True),
    "with a number": (lambda x, c, d: x + c * 3, 1.5, 2.5, True),
    "alone": (lambda x, c, d: x + dr.sin(c), 1.5, 2.5, True),
    "equal": (lambda x, c, d: dr.select(x < 4, c, d) + x, 1.5, 1.5, True),
    "returned": (lambda x, c, d: c, 1.5, 2.5, True),
    "read for nothing": (lambda x, c, d: (dr.gather(Float, c, UInt(0)), x + c)[1], 1.5, 2.5, False),
    "asserted": (lambda x, c, d: (dr.assert_true(x * d > 0), x + c)[1], 1.5, 2.5, False),
    "read": (lambda x, c, d: x + dr.gather(Float, c, UInt(0)), 1.5, 2.5, True),
    "within": (lambda x, c, d: dr.if_stmt((x,), x < 4, lambda x: x + c, lambda x: x * d), 1.5, 2.5, True)}


@pytest.mark.parametrize("use", USES)
def test_constants_that_stay_as_they_are(use: str) -> None:
    function, *values, again = USES[use]
    c, d = map(Float, values)

    def run(mode: Any) -> Any:
        return dr.while_loop((UInt(0, 0), Float(1, 4)), lambda k, x: (k < 3) & (x < 100),
                             lambda k, x: (k + 1, function(x, c, d)), mode=mode)

    first = new_region()
    found = run("symbolic")
    count = new_region() - first - 1
    assert (count > 1) == again
    assert dr.all((found[0] == run("evaluated")[0]) & (found[1] == run("evaluated")[1]))
    assert (c._n.kind, d._n.kind) == (Float(1.5)._n.kind,) * 2


#: The same with the types that have derivatives.
TRACKED: dict[str, Callable[[Any, Any, Any], Any]] = {
    **{use: function for use, (function, *_) in USES.items()},
    "read for nothing": lambda x, c, d: (dr.gather(ad.Float, c, ad.UInt(0)), x + c)[1]}


@pytest.mark.parametrize("variable", ["state", "constant", "both"])
@pytest.mark.parametrize("use", ["once", "both", "thrice", "read for nothing", "asserted"])
def test_constants_that_stay_as_they_are_where_derivatives_are_tracked(use: str, variable: str) -> None:
    function = TRACKED[use]

    def run(mode: Any) -> list[Any]:
        c, d, x = map(ad.Float, (1.5, 2.5, (1, 4)))
        dr.enable_grad(*{"state": (x,), "constant": (c,), "both": (c, x)}[variable])
        first = new_region()
        _, y = dr.while_loop((0 if mode == "scalar" else ad.UInt(0, 0), x), lambda k, x: k < 3,
                             lambda k, x: (k + 1, function(x, c, d)), mode=mode)
        assert mode != "symbolic" or new_region() - first == 2
        dr.backward(y)
        return [y, c.grad, d.grad, x.grad]

    found = run("symbolic")
    for mode in ("evaluated", "scalar"):
        assert all(dr.allclose(*pair) for pair in zip(found, run(mode), strict=True))


@pytest.mark.parametrize("use", USES)
def test_constants_that_stay_as_they_are_in_frozen_functions(use: str) -> None:
    function, *values, _ = USES[use]
    c, d = map(Float, values)

    def run(x: Any) -> Any:
        return dr.while_loop((dr.zeros(UInt, len(x)), x), lambda k, x: (k < 3) & (x < 100),
                             lambda k, x: (k + 1, function(x, c, d)))[1]

    frozen = dr.freeze(run)
    for x in (Float(1, 4), Float(2, 3), Float(3, 2, 1)):
        assert dr.all(frozen(x) == run(x))
    c += 1
    assert dr.all(frozen(Float(1, 4)) == run(Float(1, 4)))


def test_constants_that_stay_as_they_are_beside_statements_and_writes() -> None:
    """Statements have results of their own, behind those of the state; what is printed may be computed of constants."""
    c, total, output = Float(1.5), Float(0), io.StringIO()

    def body(k: UInt, x: Float) -> Any:
        dr.print("{}", x * c, file=output)
        dr.scatter_add(total, x + c, UInt(0))
        return k + 1, x + c

    _, x = dr.while_loop((UInt(0, 0), Float(1, 4)), lambda k, x: k < 2, body, mode="symbolic")
    assert list(x) == [4, 7]
    assert list(total) == [1 + 1.5 + 2.5 + 1.5 + 4 + 1.5 + 5.5 + 1.5]
    assert sorted(map(float, output.getvalue().strip("[]\n").split(", "))) == [1.5, 3.75, 6, 8.25]


def test_constants_that_stay_as_they_are_in_loops_within_loops() -> None:
    c, width = Float(1.5), dr.opaque(Float, 2, 3)

    def outer(i: UInt, x: Float) -> Any:
        _, x = dr.while_loop((UInt(0), x), lambda k, x: k < 2, lambda k, x: (k + 1, x * c + width), mode="symbolic")
        return i + 1, x - c

    _, x = dr.while_loop((UInt(0), Float(1)), lambda i, x: i < 2, outer, mode="symbolic")
    expected = Float(1)
    for _ in range(2):
        expected = (expected * 1.5 + width) * 1.5 + width - 1.5
    assert dr.all(x == expected)


def test_a_constant_is_returned_in_the_place_of_state() -> None:
    """That is no array of the state which changes places."""
    c = Float(1.5)
    _, x, y = dr.while_loop((UInt(0, 0), Float(3, 4), Float(0, 0)), lambda k, x, y: k < 3,
                            lambda k, x, y: (k + 1, c, y + x), mode="symbolic")
    assert dr.all((x == 1.5) & (y == Float(6, 7)))


def test_constants_and_a_program_that_asks_for_the_width() -> None:
    """The body is called again, and finds the constants again."""
    c, width = Float(1.5), dr.opaque(Float, 2, 3)

    def body(k: UInt, x: Float) -> Any:
        return k + 1, x * c + width + len(x)

    _, x = dr.while_loop((UInt(0), Float(1)), lambda k, x: k < 2, body, mode="symbolic")
    expected = Float(1)
    for _ in range(2):
        expected = expected * 1.5 + width + 3
    assert dr.all(x == expected)


def _inner(i: Any, x: Any, k: Any, o: Any) -> Any:
    return i + 1, dr.while_loop((UInt(0), x, k), lambda j, x, k: j < 2, lambda j, x, k: (j + 1, x * k + o, k))[1], k, o


#: Bodies that leave the last two of the state alone, ``k`` and ``o``, and do something with them.
ALONE: dict[str, Callable[..., Any]] = {
    "used": lambda i, x, k, o: (i + 1, x * k - x, k, o),
    "all operands": lambda i, x, k, o: (i + 1, dr.fma(x, k, o), k, o),
    "one of them alone": lambda i, x, k, o: (i + 1, x + k * o, k, o),
    "twice": lambda i, x, k, o: (i + 1, dr.fma(k, k, x) + dr.select(x > k, k, o), k, o),
    "given to another": lambda i, x, k, o: (i + 1, k, k, o),
    "read by index": lambda i, x, k, o: (i + 1, x + dr.gather(Float, k, i % len(k)), k, o),
    "written by the side": lambda i, x, k, o: (dr.scatter_add(TARGET, k, i % 5), (i + 1, x * k, k, o))[1],
    "in a branch": lambda i, x, k, o: (i + 1, dr.if_stmt((x,), x > k, lambda x: x - o, lambda x: x + k), k, o),
    "in a loop": _inner,
    "of the condition": lambda i, x, k, o: (i + UInt(o > 1) + 1, x * k, k, o),
}
TARGET = Float(0, 0, 0, 0, 0)


@pytest.mark.parametrize("wide", [1, 3])
@pytest.mark.parametrize("name", ALONE)
def test_variables_that_are_left_alone_are_what_they_are_outside(name: str, wide: int) -> None:
    found = []
    for mode in ("symbolic", "evaluated"):
        TARGET[:] = 0
        for literal in (False, True):
            values = [Float(value[:wide]) for value in ([1, 2, -3], [0.5, 2, 3], [4, -1, 2])]
            k, o = (Float(1.5), Float(2)) if literal else values[1:]
            _, *results = dr.while_loop((dr.zeros(UInt, wide), values[0], k, o), lambda i, x, k, o: i < UInt(o + 3),
                                        ALONE[name], mode=mode)
            found.append([list(result) for result in (*results, TARGET)])
    assert found[:2] == found[2:]


#: What a body computes with an array of the state that it leaves alone, by a branch or call, and how many regions are
#: traced: those of the construct and the loop once, if another trace would do nothing else.
LEFT_ALONE: dict[str, tuple[Callable[[Any, Any, Any], Any], int]] = {
    "argument": (lambda k, x, c: dr.if_stmt((x, c), x < 4, lambda x, c: x + c, lambda x, c: x * c), 3),
    "argument of a call": (lambda k, x, c: dr.switch(k & 1, [lambda x, c: x + c, lambda x, c: x * c], x, c), 3),
    "within two": (lambda k, x, c: dr.if_stmt(
        (x, c), x < 4, lambda x, c: dr.if_stmt((x, c), c > 1, lambda x, c: x + c, lambda x, c: x), lambda x, c: x * c),
        5),
    "returned": (lambda k, x, c: dr.if_stmt((x, c), x < 4, lambda x, c: (x + c, c), lambda x, c: (x * c, c))[0], 3),
    "result": (lambda k, x, c: dr.if_stmt((x, c), x < 4, lambda x, c: c, lambda x, c: x * c), 3),
    "twice": (lambda k, x, c: dr.if_stmt((x, c, c), x < 4, lambda x, c, d: x + c * d, lambda x, c, d: x * c), 6),
    "captured": (lambda k, x, c: dr.if_stmt((x,), x < 4, lambda x: x + c, lambda x: x * c), 6),
    "condition": (lambda k, x, c: dr.if_stmt((x,), c < 4, lambda x: x + 1, lambda x: x * 2), 6),
    "index": (lambda k, x, c: dr.switch(UInt(c) & 1, [lambda x: x + 1, lambda x: x * 2], x), 6)}


@pytest.mark.parametrize("use", LEFT_ALONE)
def test_state_that_is_left_alone_and_given_to_a_construct_within(use: str) -> None:
    function, regions = LEFT_ALONE[use]
    state = dr.opaque(UInt, 0, 3), Float(1, 4, 2), Float(1.5, 2.5, 1)

    def run(mode: Any) -> Any:
        return dr.while_loop(state, lambda k, x, c: (k < 3) & (x < 100),
                             lambda k, x, c: (k + 1, function(k, x, c), c), mode=mode)

    first = new_region()
    found = run("symbolic")
    assert new_region() - first - 1 <= regions
    for one, other in zip(found, run("evaluated"), strict=True):
        assert dr.all(one == other)


@dr.syntax
def _loop_by_one_value(wide: UInt, state: list[UInt], count: UInt) -> None:
    while (count := count + 1) < 3:
        state[0] ^= wide


@pytest.mark.parametrize("narrow", [1, 17, 300])
def test_branches_by_one_value_pass_what_they_leave_alone(narrow: int) -> None:
    """Also what has another number of elements than what they compute."""
    state = [dr.arange(UInt, 300) + 1, dr.arange(UInt, narrow)]
    _loop_by_one_value(dr.arange(UInt, 300), state, UInt(0))
    assert state[0].numpy().tolist() == list(range(1, 301)) and state[1].numpy().tolist() == list(range(narrow))
    for decides in Bool(True), dr.opaque(Bool, False):
        found = dr.if_stmt((state[0], state[1]), decides, lambda x, y: (x * 2, y), lambda x, y: (x, y),
                           mode="symbolic")
        assert len(found[0]) == 300 and found[1].numpy().tolist() == list(range(narrow))


@pytest.mark.parametrize("value", [0, 1, 1.5, -1])
@pytest.mark.parametrize("width", [1, 3])
@pytest.mark.parametrize("shared", [False, True])
def test_state_that_stays_as_it_is(value: float, width: int, shared: bool) -> None:
    """What is computed of such state alone is computed once, outside, whatever its value and size are."""
    calls = []

    def run(mode: Any, constant: Float) -> Any:
        def body(k: Any, c: Any, x: Any, d: Any) -> Any:
            calls.append(mode)
            half = dr.sqrt(c * c) * 0.5
            return k + 1, c, dr.select(c < 1, x * c + half, x - d) + UInt(c * c), d

        state = UInt(0, 0, 0), constant, Float(1, 4, 9), constant if shared else Float(constant)
        return dr.while_loop(state, lambda k, c, x, d: (k < 3) & (c * 2 < 100), body, mode=mode)

    for constant in (dr.full(Float, value, width), dr.opaque(Float, value, width)):
        calls.clear()
        found = run("symbolic", constant)
        assert calls == ["symbolic"]
        for one, other in zip(found, run("evaluated", constant), strict=True):
            assert dr.all((one == other) & (dr.width(one) <= 3))
        assert list(found[1]) == [value] * width
        if not shared:
            assert found[1]._n is constant._n


@pytest.mark.parametrize("switch", [bool, str, lambda change: [change]], ids=["truth value", "text", "list"])
def test_constants_that_a_body_changes_after_many_calls(switch: Callable[[bool], Any]) -> None:
    """Nobody expects that of a body that never did, if the texts and truth values that it knows are the same; once it
    has, nothing is expected of it any more."""
    steps = [Float(value) for value in (0.5, 1.5)]
    calls = 0

    def run(change: bool) -> tuple[float, int]:
        nonlocal calls
        calls, first, switched = 0, Float(0.5), switch(change)
        steps[0] = first

        def body(k: UInt, x: Float) -> tuple[UInt, Float]:
            nonlocal calls
            calls += 1
            x = x + steps[0] * steps[1]
            if switched in (True, "True", [True]):
                first.__iadd__(1)
            return k + 1, x

        return dr.while_loop((UInt(0), Float(0)), lambda k, x: k < 3, body, mode="symbolic")[1][0], calls

    assert [run(False) for _ in range(20)] == [(2.25, 1)] * 20
    assert run(True) == (6.75, 2 if isinstance(switch(True), list) else 1)
    assert [run(change) for change in (True, False) * 10] == [(6.75, 1), (2.25, 1)] * 10
