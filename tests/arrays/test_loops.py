"""``dr.while_loop`` in its three modes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import drjit as dr
from drjit.llvm import Array3f, Bool, Float, Int, UInt

MODES = ["symbolic", "evaluated"]


@dataclasses.dataclass
class Point:
    x: Float = dataclasses.field(default_factory=Float)
    n: Int = dataclasses.field(default_factory=Int)


@pytest.mark.parametrize("mode", [*MODES, None])
def test_each_element_iterates_as_often_as_it_needs(mode: str | None) -> None:
    i, x = dr.while_loop((Int(0, 3, 20), Float(2)), lambda i, x: i < 10, lambda i, x: (i + 1, x * 2), mode=mode)
    assert list(i) == [10, 10, 20]
    assert list(x) == [2048, 256, 2]


def test_a_python_condition_makes_a_python_loop() -> None:
    assert repr(dr.while_loop((0, Float(2)), lambda i, x: i < 10, lambda i, x: (i + 1, x * 2))) == "(10, [2048])"


@pytest.mark.parametrize("mode", MODES)
def test_in_place_changes_are_the_callers(mode: str) -> None:
    def body(i: Int, v: Array3f) -> tuple[Int, Array3f]:
        i += 1
        v.x += v.y
        return i, v

    i0, v0 = Int(0, 5), Array3f(1, 2, 3)
    i, v = dr.while_loop((i0, v0), lambda i, v: i < 10, body, mode=mode)
    assert repr(v) == "[[21, 2, 3],\n [11, 2, 3]]"
    assert list(i) == [10, 10]
    assert i is i0
    assert v is v0


@pytest.mark.parametrize("mode", MODES)
def test_pytrees_as_state(mode: str) -> None:
    def body(p: Point, d: dict[str, Float]) -> tuple[Point, dict[str, Float]]:
        return Point(p.x + 1, p.n + 1), {"k": d["k"] * 2}

    p, d = dr.while_loop((Point(Float(1), Int(0, 1)), {"k": Float(1)}), lambda p, d: p.n < 3, body, mode=mode)
    assert repr(p) == "Point(x=[4, 3], n=[3, 3])"
    assert list(d["k"]) == [8, 4]


@pytest.mark.parametrize("mode", MODES)
def test_loops_that_never_run(mode: str) -> None:
    (i,) = dr.while_loop((Int(5, 6),), lambda i: i < 3, lambda i: (i + 1,), mode=mode)
    assert list(i) == [5, 6]


def test_flag_selects_evaluated_mode() -> None:
    calls = []
    with dr.scoped_set_flag(dr.JitFlag.SymbolicLoops, False):
        dr.while_loop((Int(0),), lambda i: i < 5, lambda i: (calls.append(1), i + 1)[1:])
    assert len(calls) == 5


@pytest.mark.parametrize("mode", MODES)
def test_reads_of_finished_elements_are_masked(mode: str) -> None:
    data = Float(1, 2, 3, 4)

    def body(i: UInt, total: Float) -> tuple[UInt, Float]:
        return i + 1, total + dr.gather(Float, data, i)

    _, total = dr.while_loop((UInt(0, 2, 1 << 30), Float(0)), lambda i, total: i < 4, body, mode=mode)
    assert list(total) == [10, 7, 0]


def test_writes_of_finished_elements_are_masked() -> None:
    target = dr.zeros(Int, 2)

    def body(i: Int) -> tuple[Int]:
        dr.scatter_add(target, 1, 0)
        return (i + 1,)

    dr.while_loop((Int(0, 1, 5),), lambda i: i < 3, body, mode="evaluated")
    assert list(target) == [5, 0]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("body", "message"), [
    (lambda i, x: (i + 1.5, x), r"type of the state variable 'i' from drjit\.llvm\.Int to drjit\.llvm\.Float"),
    (lambda i, x: (i + 1,), "2 state variables, found 1"), (lambda i, x: 5, "tuple of 2 state variables, found int"),
    (lambda i, x: (i + 1, Float(1, 2, 3, 4)), None),
])
def test_inconsistent_bodies(mode: str, body, message: str | None) -> None:
    with pytest.raises((TypeError, RuntimeError), match=message):
        dr.while_loop((Int(0, 1), Float(1)), lambda i, x: i < 3, body, labels=("i", "x"), mode=mode)
    assert list(Float(1, 2) + 1) == [2, 3]  # tracing goes on as before


@pytest.mark.parametrize(("arguments", "message"), [
    (([Int(0)], lambda i: i < 3, lambda i: (i + 1,)), "'state' must be a tuple"),
    (((Int(0),), None, lambda i: (i + 1,)), "'cond' must be callable"),
    (((Int(0),), lambda i: i, lambda i: (i + 1,)), "'cond' must return"),
    (((Int(0),), lambda i: i < 3, lambda i: None), r"'body' must return a tuple of 1 state variable, found NoneType"),
    (((Int(), Int(1, 2)), lambda i, k: k < 3, lambda i, k: (k, k + 1)), r"state\[0\].*empty"),
    (((Int(0), 1), lambda i, k: i < 3, lambda i, k: (i + 1, k + 1)), "Python objects"),
])
def test_bad_arguments(arguments: tuple, message: str) -> None:
    with pytest.raises((TypeError, RuntimeError), match=message):
        dr.while_loop(*arguments)


@pytest.mark.parametrize("mode", [*MODES, None])
@pytest.mark.parametrize(("argument", "value", "message"), [
    ("max_iterations", "x", r"must be an int, found str \('x'\)"), ("max_iterations", 2.5, "found float"),
    ("max_iterations", True, r"found bool \(True\)"), ("max_iterations", Int(3), "found drjit.llvm.Int"),
    ("compress", "yes", r"must be a bool or None, found str \('yes'\)"), ("compress", 1, "found int"),
    ("strict", None, r"must be a bool, found NoneType \(None\)"), ("strict", "no", "found str"),
    ("label", 5, r"must be a str or None, found int \(5\)"), ("label", b"x", "found bytes"),
    ("labels", "ab", r"must be a sequence of strings, one for each state variable, found str \('ab'\)"),
    ("labels", None, "found NoneType"), ("labels", 5, "found int"), ("labels", {"a": 1, "b": 2}, "found dict"),
    ("labels", iter("ab"), "found str_"), ("labels", ("a", 2), r"found int \(2\)"),
    ("labels", ["a"], "has 1 entry for 2 state variables"), ("labels", ["a", "b", "c"], "has 3 entries"),
])
def test_arguments_of_other_types_are_refused_by_name(mode: str | None, argument: str, value: object,
                                                      message: str) -> None:
    with pytest.raises((TypeError, RuntimeError), match=rf"drjit\.while_loop\(\): '{argument}.*' .*{message}"):
        dr.while_loop((Int(0), Int(1, 2)), lambda i, n: i < n, lambda i, n: (i + 1, n), mode=mode, **{argument: value})


@pytest.mark.parametrize("arguments", [
    {"max_iterations": -1}, {"max_iterations": np.int64(5)}, {"compress": True}, {"labels": []}, {"label": ""},
    {"labels": ["a", "a"]}, {"strict": False}])
def test_arguments_that_do_not_change_the_result(arguments: dict[str, object]) -> None:
    for mode in (*MODES, None):
        i, _ = dr.while_loop((Int(0), Int(1, 2)), lambda i, n: i < n, lambda i, n: (i + 1, n), mode=mode, **arguments)
        assert list(i) == [1, 2]


@pytest.mark.parametrize("mode", [5, "evaluate", [], np.zeros(2)], ids=str)
def test_unknown_modes(mode: object) -> None:
    with pytest.raises(TypeError, match="'mode' must be 'scalar', 'symbolic', 'evaluated' or None, found"):
        dr.while_loop((Int(0),), lambda i: i < 3, lambda i: (i + 1,), mode=mode)


@pytest.mark.parametrize("mode", MODES)
def test_a_bool_is_no_condition_of_elements(mode: str) -> None:
    """With a number of elements that take part, it would never become false."""
    with pytest.raises(TypeError, match=r"'cond' must return a one-dimensional mask array, found bool.*mode='scalar'"):
        dr.while_loop((Int(0),), lambda i: True, lambda i: (i + 1,), mode=mode)


def test_symbolic_arrays_cannot_be_read() -> None:
    def body(i: Int) -> tuple[Int]:
        assert "symbolic" in repr(i)
        assert i.state is dr.VarState.Symbolic
        with pytest.raises(RuntimeError, match="symbolic"):
            i[0]
        return (i + 1,)

    dr.while_loop((Int(0),), lambda i: i < 3, body)


def test_a_mask_is_fine_as_state() -> None:
    i, done = dr.while_loop((Int(0, 4), Bool(False)), lambda i, done: ~done, lambda i, done: (i + 1, i >= 5))
    assert list(i) == [6, 6]
    assert list(done) == [True, True]


# --- kernels of evaluated loops --------------------------------------------------------------------------------------


def _kernels(run: Callable[[], object]) -> int:
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory):
        dr.kernel_history_clear()
        run()
        return len([entry for entry in dr.kernel_history() if entry["type"] == dr.KernelType.JIT])


@pytest.mark.parametrize("compress", [False, True])
def test_an_iteration_of_an_evaluated_loop_is_one_kernel(compress: bool) -> None:
    """Which computes the state, for whom the condition holds, and whether it holds for any."""
    def run(count: int) -> int:
        state = UInt(0, 1, 2, 3), Float(1, 2, 3, 4)
        return _kernels(lambda: dr.while_loop(state, lambda i, x: i < count, lambda i, x: (i + 1, x * 1.5 + 1),
                                              mode="evaluated", compress=compress))

    run(40)
    assert run(140) - run(40) == 100


def test_a_condition_that_reads_the_state_makes_two_kernels_of_an_iteration() -> None:
    """One of them computes all of the state: not what is read first, and the rest once more."""
    def body(i: UInt, x: Float) -> tuple[UInt, Float]:
        return i + 1, dr.sin(x) * 0.5 + Float(i)

    seen = []

    def run(count: int) -> int:
        def condition(i: UInt, x: Float) -> Bool:
            seen.append(x[0])
            return i < count

        return _kernels(lambda: dr.while_loop((UInt(0, 1, 2), Float(1, 2, 3)), condition, body, mode="evaluated"))

    run(10)
    assert run(30) - run(10) == 40
    expected = [1.0]
    for i in range(5):
        expected.append(float(np.sin(np.float32(expected[-1])) * 0.5 + i))
    np.testing.assert_allclose(seen[:6], expected, rtol=1e-5)  # NumPy rounds sines in another way


@pytest.mark.parametrize("writes", [False, True])
def test_dear_bodies_of_wide_evaluated_loops(writes: bool) -> None:
    """Packets of which no element is left skip them; elements that have finished keep what they had."""
    size = 1 << 17
    index = dr.arange(UInt, size)
    limit, table, target = UInt((index * 2654435761) >> 28), Float(0.5, 1, 2, 4), dr.zeros(UInt, 16)
    dr.eval(limit)

    def body(k: UInt, x: Float, y: Float, z: Float) -> tuple[UInt, Float, Float, Float]:
        if writes:
            dr.scatter_add(target, UInt(1), k)
        for _ in range(3):
            x = dr.sin(x) * dr.gather(Float, table, k & 3) + 0.25
        return k + 1, x, dr.exp(x) + y, Float(7)

    def run(mode: str) -> list[Any]:
        found = dr.while_loop((dr.zeros(UInt, size), Float(index) / size, Float(1), dr.zeros(Float, size)),
                              lambda k, x, y, z: k < limit, body, mode=mode)
        return [np.asarray(value) for value in found]

    for one, other in zip(run("evaluated"), run("symbolic"), strict=True):
        np.testing.assert_array_equal(one, np.broadcast_to(other, one.shape))
    if writes:
        counts = [2 * int((limit.numpy() > k).sum()) for k in range(16)]
        assert list(target) == counts

