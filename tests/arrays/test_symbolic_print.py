"""``dr.print`` and ``dr.assert_*`` in symbolic loops, and printing with ``mode='symbolic'`` anywhere."""

from __future__ import annotations

import contextlib
import io
import itertools
import os
import re
import subprocess
import sys
import textwrap
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import drjit as dr
from drjit.llvm import (
    Array2f,
    Array3f,
    Bool,
    Complex2f,
    Float,
    Float16,
    Float64,
    Int,
    Matrix2f,
    Quaternion4f,
    TensorXf,
    UInt,
    UInt64,
)
from drjit.scalar import Array3f as ScalarArray3f
from drjit_core.ir.deferred import chain
from tests.crossings.model import kind_of, text_of
from tests.crossings.states import STATES, State

Body = Callable[..., Any]


class Output(io.StringIO):
    """What was written, line by line."""

    def lines(self) -> list[str]:
        text = self.getvalue()
        self.seek(0)
        self.truncate()
        return text.splitlines()


@pytest.fixture
def out() -> Output:
    return Output()


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    yield
    left, chain.statements = chain.statements, []
    assert not left


@pytest.fixture
def debug() -> Iterator[None]:
    with dr.scoped_set_flag(dr.JitFlag.Debug):
        yield


def count_to(n: Any, body: Body, **arguments: Any) -> Any:
    """Run ``body(i)`` for i from 0 to n, exclusive, per lane."""
    def step(i: Any, n: Any) -> Any:
        body(i)
        return i + 1, n

    arguments = {"mode": "symbolic", **arguments}
    return dr.while_loop((type(n)(0), n), lambda i, n: i < n, step, **arguments)


def printing(text: str, output: Any, **arguments: Any) -> Body:
    return lambda i: dr.print(text, i=i, file=output, **arguments)


# --- what is printed, and when ---------------------------------------------------------------------------------------


def test_a_print_shows_all_iterations_lane_after_lane_with_the_next_evaluation(out: Output) -> None:
    count_to(Int(2, 3), printing("{thread_id=} {i=}", out))
    assert out.lines() == []
    assert dr.eval()
    assert out.lines() == ["thread_id=[0, 0, 1, 1, 1] i=[0, 1, 0, 1, 2]"]
    assert not dr.eval()
    assert out.lines() == []


@pytest.mark.parametrize("evaluation", [
    lambda i: dr.eval(i), lambda i: repr(i), lambda i: i.numpy(), lambda i: dr.eval(Float(1, 2) + 1),
    lambda i: (Float(1, 2) * 3)[0], lambda i: dr.make_opaque(Float(7)),
    lambda i: dr.print("{}", i, file=io.StringIO())])
def test_any_evaluation_of_the_thread_prints(evaluation: Callable[[Any], object], out: Output) -> None:
    i, _ = count_to(Int(2, 1), printing("{i}", out))
    evaluation(i)
    assert out.lines() == ["[0, 1, 0]"]
    assert i.numpy().tolist() == [2, 1]


def test_the_output_stream_is_that_of_the_statement() -> None:
    first, second = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(first):
        count_to(Int(2), lambda i: dr.print("{}", i, end="!"))
    with contextlib.redirect_stdout(second):
        dr.eval()
    assert (first.getvalue(), second.getvalue()) == ("[0, 1]!", "")


def test_statements_print_in_the_order_of_the_program(out: Output) -> None:
    def body(i: Any) -> None:
        dr.print("a {}", i, file=out)
        count_to(i, lambda j: dr.print("b {} {}", i, j, file=out))
        dr.print("c {}", i * 10, file=out)

    count_to(Int(2, 3), body)
    dr.print("d {}", Int(1, 2), mode="symbolic", file=out)
    count_to(Int(1), printing("e {i}", out))
    dr.eval()
    assert out.lines() == ["a [0, 1, 0, 1, 2]", "b [1, 1, 2, 2] [0, 0, 0, 1]", "c [0, 10, 0, 10, 20]", "d [1, 2]",
                           "e [0]"]


def test_nested_loops_number_the_lanes_of_the_outer_one(out: Output) -> None:
    count_to(Int(2, 0, 3), lambda i: count_to(i, lambda j: count_to(j, printing("{thread_id} {i}", out))))
    dr.eval()
    assert out.lines() == ["[2] [0]"]
    count_to(Int(2, 0, 3), lambda i: count_to(i + 1, lambda j: count_to(j, printing("{thread_id} {i}", out))))
    dr.eval()
    assert out.lines() == ["[0, 2, 2, 2, 2] [0, 0, 0, 0, 1]"]


def test_a_statement_in_a_loop_that_is_not_entered_prints_nothing(out: Output) -> None:
    count_to(Int(0, 0), printing("{i}", out))
    dr.while_loop((Int(0), Bool(False)), lambda i, go: go,
                  lambda i, go: (dr.print("{}", i, file=out), (i + 1, go))[1], mode="symbolic")
    dr.eval()
    assert out.lines() == []


def test_a_loop_that_runs_several_times_prints_each_time(out: Output) -> None:
    for n in (1, 2, 3):
        count_to(Int(n), printing("{i}", out))
        if n != 2:
            dr.eval()
            out.write("-\n")
    assert out.lines() == ["[0]", "-", "[0, 1]", "[0, 1, 2]", "-"]


def test_the_loop_may_be_evaluated_by_parts(out: Output) -> None:
    i, total = dr.while_loop((Int(0), Int(0)), lambda i, total: i < Int(1, 4),
                             lambda i, total: (dr.print("{} {}", i, total, file=out), (i + 1, total + i))[1],
                             mode="symbolic")
    dr.eval(i)
    assert out.lines() == ["[0, 0, 1, 2, 3] [0, 0, 0, 1, 3]"]
    dr.eval(total)
    assert out.lines() == []
    assert total.numpy().tolist() == [0, 6]


def test_a_body_that_is_traced_several_times_prints_once(out: Output) -> None:
    """It turns out wider than its state, leaves variables alone, reads one by index, and writes to an array."""
    calls = itertools.count()
    table, target = Float(1, 2, 3), dr.zeros(Float, 3)

    def body(i: Any, left_alone: Any, looked_up: Any) -> Any:
        next(calls)
        index = dr.arange(UInt, 3)
        dr.print("{} {} {}", i, left_alone, dr.gather(Float, looked_up, index), file=out)
        dr.scatter_add(target, table, index)
        return i + 1, left_alone, looked_up

    dr.while_loop((Int(0), Int(5), Float(7, 8, 9)), lambda i, *_: i < 2, body, mode="symbolic")
    dr.eval()
    assert next(calls) == 1
    assert out.lines() == ["[0, 1, 0, 1, 0, 1] [5, 5, 5, 5, 5, 5] [7, 7, 8, 8, 9, 9]"]
    assert target.numpy().tolist() == [2, 4, 6]


def test_a_loop_that_is_wide_for_its_writes_prints_once(out: Output) -> None:
    y = dr.zeros(Float, 6)

    def body(i: Int) -> tuple[Int]:
        y[1:5] = Float(i)
        dr.print("{}", i * 2, file=out)
        return (i + 1,)

    dr.while_loop((Int(0),), lambda i: i < 3, body, mode="symbolic")
    dr.eval(y)
    assert out.lines() == ["[0, 2, 4]"]


def test_a_body_that_raises_prints_nothing(out: Output) -> None:
    def body(i: Any) -> None:
        dr.print("{}", i, file=out)
        dr.print("no array", file=out)
        raise ValueError("it does")

    with pytest.raises(ValueError, match="it does"):
        count_to(Int(2, 3), body)

    def outer(i: Any) -> None:
        dr.print("outer {}", i, file=out)
        with contextlib.suppress(ValueError):
            count_to(i, body)

    count_to(Int(2), outer)
    dr.eval()
    assert out.lines() == ["outer [0, 1]"]


def test_evaluations_while_the_body_is_traced_print_what_came_before(out: Output) -> None:
    count_to(Int(1), printing("before {i}", out))

    def body(i: Any) -> None:
        dr.print("{}", i, file=out)
        dr.eval(Float(1, 2) + 3)
        out.write("evaluated\n")

    count_to(Int(2), body)
    assert out.lines()[:2] == ["before [0]", "evaluated"]
    dr.eval()
    assert out.lines() == ["[0, 1]"]


# --- arguments -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("make", "expected"), [
    (lambda i: i, "[0, 0, 1]"),
    (lambda i: i == 1, "[False, False, True]"),
    (lambda i: Float16(i) / 2, "[0, 0, 0.5]"),
    (lambda i: Float64(i) + 0.1, "[0.1, 0.1, 1.1]"),
    (lambda i: UInt64(i) + (1 << 40), "[1099511627776, 1099511627776, 1099511627777]"),
    (lambda i: Array2f(i, -i), "[[0, 0],\n [0, 0],\n [1, -1]]"),
    (lambda i: Array3f(i, 1, 2), "[[0, 1, 2],\n [0, 1, 2],\n [1, 1, 2]]"),
    (lambda i: Matrix2f(i, 1, 2, 3), "[[[0, 1],\n  [2, 3]],\n [[0, 1],\n  [2, 3]],\n [[1, 1],\n  [2, 3]]]"),
    (lambda i: Complex2f(i, 1), "[1j,\n 1j,\n 1+1j]"),
    (lambda i: Quaternion4f(i, 1, 2, 3), "[1j+2k+3,\n 1j+2k+3,\n 1i+1j+2k+3]"),
    (lambda i: TensorXf(Float(i)), "[0, 0, 1]"),
    (lambda i: Float(7), "[7, 7, 7]"),
    (lambda i: dr.opaque(Float, 7), "[7, 7, 7]"),
    (lambda i: Float(5, 6), "[5, 6, 6]"),
    (lambda i: ScalarArray3f(1, 2, 3), "[1, 2, 3]"),
    (lambda i: 2.5, "2.5"),
    (lambda i: [i, {"x": Array2f(i, 1)}, "text"],
     "[\n  [0, 0, 1],\n  {\n    'x': [[0, 1],\n          [0, 1],\n          [1, 1]]\n  },\n  'text'\n]"),
], ids=["flat", "mask", "half", "double", "long", "nested", "literals", "matrix", "complex", "quaternion", "tensor",
        "literal", "opaque", "captured", "scalar", "number", "tree"])
def test_arguments(make: Callable[[Any], Any], expected: str) -> None:
    text = io.StringIO()
    count_to(Int(1, 2), lambda i: dr.print("{}", make(i), active=i >= 0, file=text))
    dr.eval()
    found = text.getvalue()
    if "{" in expected:  # the indentation of arrays is that of their line
        found, expected = re.sub(r"\n +", "\n", found), re.sub(r"\n +", "\n", expected)
    assert found == expected + "\n"


TRIPS = (2, 0, 3, 1)


@pytest.mark.parametrize("carried", [False, True], ids=["captured", "carried"])
@pytest.mark.parametrize("state", [state for state in STATES if "tracked" not in state.name],
                         ids=lambda state: state.name)
def test_arrays_in_any_state(state: State, carried: bool) -> None:
    sample = state.make()
    kind = kind_of(sample.array)
    flat = sample.value.reshape(-1) if kind in "VTS" else sample.value
    lanes = flat.shape[-1]
    if not lanes:
        pytest.skip("a loop has lanes")
    trips = np.resize(TRIPS, lanes)
    text = io.StringIO()

    def body(left: Any, array: Any) -> Any:
        dr.print("{thread_id} {}", array if carried else sample.array, file=text, limit=1000)
        return left - 1, array

    dr.while_loop((Int(trips.tolist()), sample.array), lambda left, array: left > 0, body, mode="symbolic")
    dr.eval()
    order = np.repeat(np.arange(lanes), trips)
    shown = text_of(flat[..., order], "V" if kind in "VTS" else kind)
    assert text.getvalue() == f"{order.tolist()} {shown}\n"
    assert not sample.observe(sample.value, sample.value, "lanes")


def test_what_is_formatted_is_what_was_there_at_the_statement(out: Output) -> None:
    numbers, x = [1, 2], Int(5, 6)

    def body(i: Any) -> None:
        dr.print("{} {} {}", i, numbers, x, file=out)
        numbers.append(3)

    count_to(Int(1, 1), lambda i: (numbers.clear(), numbers.extend([1, 2]), body(i)))
    x += 10
    dr.eval()
    assert out.lines() == ["[0, 0] [", "  1,", "  2", "] [5, 6]"]


@pytest.mark.parametrize(("text", "arguments", "expected"), [
    ("{i} {{x}} {0}", (7,), "[0, 0] {x} 7"), ("{1} {0}", (Float(3), 2), "2 [3, 3]"),
    ("{i=}", (Float(1, 2, 3),), "i=[0, 0]"), ("{thread_id}{thread_id=}", (), "[0, 1]thread_id=[0, 1]")])
def test_format_strings(text: str, arguments: tuple[Any, ...], expected: str, out: Output) -> None:
    count_to(Int(1, 1), lambda i: dr.print(text, *arguments, i=i, file=out, active=i == 0))
    dr.eval()
    assert out.lines() == [expected]


def test_bad_format_strings_raise_where_they_stand(out: Output) -> None:
    for text, message in [("{} {}", "missing positional argument 1"), ("{x}", 'missing keyword argument "x"'),
                          ("{", "unmatched brace"), ("{}{0}", "cannot switch")]:
        with pytest.raises(RuntimeError, match=rf"^drjit\.print\(\): {message}"):
            count_to(Int(1), lambda i, text=text: dr.print(text, i, file=out))
    with pytest.raises(RuntimeError, match="'thread_id' is reserved"):
        dr.print("{thread_id}", thread_id=3)
    with pytest.raises(RuntimeError, match='missing keyword argument "thread_id"'):
        dr.print("{thread_id} {}", Float(1, 2))


# --- active, limit ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("active", "expected"), [
    (lambda i: i == 1, ["[0, 1] [1, 1]"]), (lambda i: Bool(False, True), ["[1, 1, 1] [0, 1, 2]"]),
    (lambda i: TensorXf(Float(i)) > 1, ["[1] [2]"]), (lambda i: i > 9, []), (lambda i: False, []),
    (lambda i: Bool(False), []), (lambda i: Bool(True), ["[0, 0, 1, 1, 1] [0, 1, 0, 1, 2]"])])
def test_active(active: Callable[[Any], Any], expected: list[str], out: Output) -> None:
    count_to(Int(2, 3), lambda i: dr.print("{thread_id} {}", i, active=active(i), file=out))
    dr.eval()
    assert out.lines() == expected


def test_more_output_than_the_limit_is_a_sample_with_a_warning(out: Output) -> None:
    count_to(Int(20, 30), printing("{thread_id} {i}", out, limit=3))
    with pytest.warns(RuntimeWarning) as caught:
        dr.eval()
    (warning,) = caught
    assert str(warning.message) == (
        "dr.print(): symbolic print statement only captured 3 of 50 available outputs. The above is a "
        "non-deterministic sample, in which entries are in the right order but not necessarily contiguous. Specify "
        "`limit=..` to capture more information and/or add the special format field `{thread_id}` show the thread "
        "ID/array index associated with each entry of the captured output.")
    assert warning.filename == __file__
    (line,) = out.lines()
    threads, numbers = (eval(part + "]") for part in line.removesuffix("]").split("] "))
    assert len(threads) == len(numbers) == 3
    assert list(zip(threads, numbers)) == sorted(set(zip(threads, numbers)))


def test_the_limit_is_20(out: Output) -> None:
    count_to(Int(20), printing("{i}", out))
    dr.eval()
    assert out.lines() == [str(list(range(20)))]
    count_to(Int(21), printing("{i}", out))
    with pytest.warns(RuntimeWarning, match="captured 20 of 21"):
        dr.eval()


def test_a_statement_that_shows_no_values_has_no_limit(out: Output) -> None:
    count_to(Int(100), lambda i: dr.print("hello", mode="symbolic", file=out))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dr.eval()
    assert out.lines() == ["hello"]


@pytest.mark.parametrize("width", [1000, 100_000])
def test_all_threads_together_lose_nothing(width: int, out: Output) -> None:
    trips = np.resize(TRIPS, width)
    count_to(Int(trips), printing("{thread_id} {i}", out, limit=4 * width))
    dr.eval()
    order = np.repeat(np.arange(width), trips)
    numbers = np.concatenate([np.arange(count) for count in trips])
    assert out.lines() == [f"{order.tolist()} {numbers.tolist()}"]


@pytest.mark.parametrize(("arguments", "error", "message"), [
    ({"limit": 0}, RuntimeError, "'limit' must be at least 1 where values are printed later"),
    ({"limit": -1}, TypeError, "'limit' must be an int >= 0"), ({"mode": "never"}, RuntimeError, "'mode' must be"),
    ({"mode": "evaluated"}, RuntimeError, "symbolic arrays have no values that could be printed at once"),
    ({"file": 3}, RuntimeError, "must have a method write"), ({"active": 3}, RuntimeError, "'active' must be"),
    ({"active": Bool(True, False, True)}, RuntimeError, r"incompatible sizes! \(sizes: 3, 2\)")])
def test_bad_arguments(arguments: dict[str, Any], error: type[Exception], message: str, out: Output) -> None:
    with pytest.raises(error, match=rf"^drjit\.print\(\): .*{message}"):
        count_to(Int(2, 3), printing("{i}", *([] if "file" in arguments else [out]), **arguments)
                 if "file" not in arguments else lambda i: dr.print("{}", i, **arguments))
    dr.eval()
    assert out.lines() == []


def test_arrays_of_other_sizes_are_refused_and_can_be_printed_at_once(out: Output) -> None:
    table = Float(1, 2, 3)
    with pytest.raises(RuntimeError, match=r"^drjit\.print\(\): the arguments have incompatible sizes! \(.*3, 2\)"):
        count_to(Int(2, 3), lambda i: dr.print("{}", table, file=out))
    count_to(Int(2, 3), lambda i: dr.print("{}", table, file=out, mode="evaluated"))
    assert out.lines() == ["[1, 2, 3]"]
    count_to(Int(2), lambda i: dr.print("{} {}", i, table, file=out))  # this loop becomes as wide
    dr.eval()
    assert out.lines() == ["[0, 1, 0, 1, 0, 1] [1, 1, 2, 2, 3, 3]"]


# --- places ----------------------------------------------------------------------------------------------------------


def test_a_statement_without_arrays_prints_when_the_loop_is_traced(out: Output) -> None:
    count_to(Int(2, 3), lambda i: dr.print("once {}", 3, file=out))
    assert out.lines() == ["once 3"]


def test_conditions_must_not_print(out: Output) -> None:
    def condition(i: Any) -> Any:
        dr.print("{}", i, file=out)
        return i < 3

    with pytest.raises(RuntimeError, match=r"^drjit\.print\(\): this stands in the condition of a symbolic loop"):
        dr.while_loop((Int(0, 1),), condition, lambda i: (i + 1,), mode="symbolic")
    dr.eval()
    assert out.lines() == []


def test_values_that_left_their_loop_are_refused(out: Output) -> None:
    left: list[Any] = []
    count_to(Int(2, 3), lambda i: left.append(i))
    with pytest.raises(RuntimeError, match=r"^drjit\.print\(\) .*a value of the symbolic loop .*, which has ended"):
        dr.print("{}", left[-1], file=out)


@pytest.mark.parametrize(("value", "expected"), [
    (Float(1, 2) + 1, "[2, 3]"), (Float(7), "[7]"), (Array3f(1, 2, 3), "[[1, 2, 3]]"),
    (Array2f([1, 2], 3), "[[1, 3],\n [2, 3]]"), (TensorXf([1, 2, 3, 4], (2, 2)), "[1, 2, 3, 4]"),
    ([Float(1, 2), Float(3)], "[\n  [1, 2],\n  [3, 3]\n]"), (Bool(True, False), "[True, False]")])
def test_symbolic_mode_outside_of_loops(value: Any, expected: str) -> None:
    text = io.StringIO()
    dr.print("{}", value, mode="symbolic", file=text)
    assert not text.getvalue()
    dr.eval()
    assert text.getvalue() == expected + "\n"


def test_symbolic_mode_outside_of_loops_knows_limit_active_and_positions(out: Output) -> None:
    dr.print("{thread_id=} {}", dr.arange(Int, 6), mode="symbolic", file=out, active=dr.arange(Int, 6) % 2 == 1)
    dr.eval()
    assert out.lines() == ["thread_id=[1, 3, 5] [1, 3, 5]"]
    dr.print(dr.arange(Float, 10_000_000), mode="symbolic", file=out)
    with pytest.warns(RuntimeWarning, match="captured 20 of 10000000"):
        dr.eval()
    out.lines()
    dr.print("hi", mode="symbolic", file=out)
    dr.print("{}", Float(), mode="symbolic", file=out)
    assert out.lines() == ["hi", "[]"]  # there is nothing to wait for
    with pytest.raises(RuntimeError, match=r"incompatible sizes! \(sizes: .*2, 3"):
        dr.print("{} {}", Float(1, 2), Float(1, 2, 3), mode="symbolic", file=out)


def test_evaluated_loops_hold_back_lanes_that_have_finished(out: Output) -> None:
    count_to(Int(2, 3), lambda i: dr.print("{thread_id} {}", i, mode="symbolic", file=out), mode="evaluated")
    assert out.lines() == ["[0] [0]", "[0, 1] [1, 1]", "[1] [2]"]  # at first, i is one number
    count_to(Int(0, 2), lambda i: count_to(Int(1, 2), printing("{thread_id} {i}", out)), mode="evaluated")
    assert out.lines() == ["[1, 1] [0, 1]"] * 2


@pytest.mark.parametrize("seed", range(8))
def test_evaluated_and_symbolic_loops_show_the_same_values(seed: int) -> None:
    rng = np.random.default_rng(seed)
    width = int(rng.choice([1, 3, 16, 33, 200]))
    start, stop = rng.integers(0, 4, width), rng.integers(0, 7, width)

    def run(mode: str) -> list[tuple[int, int]]:
        shown: list[tuple[int, int]] = []

        class Parsing:
            def write(self, text: str) -> None:
                lane, value = (eval(part + "]") for part in text.strip().removesuffix("]").split("] "))
                shown.extend(zip(lane, value))

        def body(i: Any, lane: Any, x: Any) -> Any:
            x = x * 3 + i
            dr.print("{} {}", lane, x, active=x % 2 == 0, limit=10_000, file=Parsing())
            return i + 1, lane, x

        dr.while_loop((Int(start), dr.arange(Int, width), Int(0)), lambda i, lane, x: i < Int(stop), body, mode=mode)
        dr.eval()
        return shown

    symbolic = run("symbolic")
    assert symbolic == sorted(symbolic, key=lambda entry: entry[0])
    assert sorted(symbolic) == sorted(run("evaluated"))


# --- surroundings ----------------------------------------------------------------------------------------------------


def test_a_file_that_raises_loses_only_its_own_output(out: Output) -> None:
    class Broken:
        def write(self, text: str) -> None:
            raise OSError("the disk is full")

    def body(i: Any) -> None:
        dr.print("{}", i, file=Broken())
        dr.print("{}", i * 2, file=out)

    count_to(Int(2), body)
    with pytest.raises(OSError, match="disk is full"):
        dr.eval()
    assert out.lines() == []
    dr.eval()
    assert out.lines() == ["[0, 2]"]


def test_warnings_that_are_errors_lose_nothing(out: Output) -> None:
    def body(i: Any) -> None:
        dr.print("{}", i, file=out, limit=1)
        dr.print("{}", i * 2, file=out)

    count_to(Int(2), body)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(RuntimeWarning, match="captured 1 of 2"):
            dr.eval()
        dr.eval()
    assert out.lines() == ["[0]", "[0, 2]"]


def test_a_file_may_evaluate_and_print(out: Output) -> None:
    class Talkative:
        def write(self, text: str) -> None:
            dr.print("within {}", Int(1, 2), mode="symbolic", file=out)
            dr.eval(Float(1) + dr.opaque(Float, 2))
            out.write(text)

    def body(i: Any) -> None:
        dr.print("{}", i, file=Talkative())
        dr.print("{}", i * 2, file=out)

    count_to(Int(2), body)
    dr.eval()
    assert out.lines() == ["[0, 1]", "[0, 2]", "within [1, 2]"]


def test_each_thread_has_statements_of_its_own(out: Output) -> None:
    count_to(Int(2), printing("main {i}", out))

    def other() -> None:
        dr.eval(Float(1, 2) + 1)
        count_to(Int(1), printing("other {i}", out))
        count_to(Int(3), printing("evaluated {i}", out))
        dr.eval()
        count_to(Int(4), printing("dropped {i}", out))

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert out.lines() == ["other [0]", "evaluated [0, 1, 2]"]
    dr.eval()
    assert out.lines() == ["main [0, 1]"]


def test_many_threads_at_once() -> None:
    texts = [io.StringIO() for _ in range(8)]

    def work(number: int) -> None:
        for k in range(10):
            count_to(Int(k % 3 + 1), lambda i, k=k: dr.print("{} {}", k, i + number, file=texts[number]))
            dr.eval()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, text in enumerate(texts):
        assert text.getvalue().splitlines() == [f"{k} {[number + i for i in range(k % 3 + 1)]}" for k in range(10)]


@pytest.mark.parametrize(("flag", "value"), [("ForbidSynchronization", True), ("LaunchBlocking", True),
                                             ("OptimizeLoops", False), ("ValueNumbering", False), ("Debug", True),
                                             ("ConstantPropagation", False), ("KernelHistory", True)])
def test_flags(flag: str, value: bool, out: Output) -> None:
    with dr.scoped_set_flag(getattr(dr.JitFlag, flag), value):
        count_to(Int(2, 3), printing("{i}", out))
        dr.eval()
        assert dr.flag(getattr(dr.JitFlag, flag)) is value
    dr.kernel_history_clear()
    assert out.lines() == ["[0, 1, 0, 1, 2]"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_leaves_the_output_to_its_parent(out: Output) -> None:
    count_to(Int(2), printing("{i}", out))
    child = os.fork()
    if not child:
        code = 1
        try:
            dr.eval(Float(1, 2) + 1)
            silent = out.lines() == []
            count_to(Int(3), printing("{i}", out))
            dr.eval()
            code = 0 if silent and out.lines() == ["[0, 1, 2]"] else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    dr.eval()
    assert out.lines() == ["[0, 1]"]


def test_what_is_not_evaluated_when_the_program_ends_is_dropped() -> None:
    program = """
        import drjit as dr
        from drjit.llvm import Int
        def run(text):
            dr.while_loop((Int(0),), lambda i: i < 2, lambda i: (dr.print(text, i), (i + 1,))[1], mode="symbolic")
        run("evaluated {}")
        dr.eval()
        run("dropped {}")
        print("end")
    """
    found = subprocess.run([sys.executable, "-c", textwrap.dedent(program)], capture_output=True, text=True, check=True,
                           env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)})
    assert (found.stdout, found.stderr) == ("evaluated [0, 1]\nend\n", "")


def test_statements_let_go_of_what_they_show() -> None:
    import gc
    import weakref

    class Target:
        def write(self, text: str) -> None:
            pass

    target = Target()
    reference = weakref.ref(target)
    count_to(Int(2, 3), lambda i, target=target: dr.print("{}", i, file=target))
    dr.eval()
    del target
    gc.collect()
    assert reference() is None


def test_what_cannot_be_evaluated_does_not_stay(monkeypatch: pytest.MonkeyPatch, out: Output) -> None:
    """A statement whose evaluation fails has failed; it is not tried again by evaluations that follow."""
    from drjit_core.runtime.backends import LLVM

    def fail(roots: Any) -> None:
        raise MemoryError("none left")

    count_to(Int(2), printing("{i}", out))
    with monkeypatch.context() as patch:
        patch.setattr(LLVM, "evaluate", fail)
        with pytest.raises(MemoryError):
            dr.eval()
    dr.eval(Float(1, 2) + 1)
    assert out.lines() == []


# --- assertions ------------------------------------------------------------------------------------------------------


def failures(capsys: pytest.CaptureFixture[str]) -> str:
    """What the next evaluation reports."""
    assert capsys.readouterr().err == ""
    dr.eval()
    found = capsys.readouterr()
    assert found.out == ""
    return found.err


@pytest.mark.usefixtures("debug")
def test_a_symbolic_assertion_reports_what_failed_and_where(capsys: pytest.CaptureFixture[str]) -> None:
    count_to(Int(2, 3, 5), lambda i: dr.assert_true(i < 2, "too large: {thread_id} {i}", i=i))
    text = failures(capsys)
    first, *lines = text.splitlines()
    assert first == "Assertion failure: too large: [1, 2, 2, 2] [2, 2, 3, 4]"
    assert text.endswith("\n\n")
    assert re.fullmatch(r'  File ".*test_symbolic_print\.py", line \d+, in <lambda>', lines[-3])
    assert lines[-2].startswith("    count_to(Int(2, 3, 5), lambda i: dr.assert_true(i < 2")


@pytest.mark.usefixtures("debug")
@pytest.mark.parametrize(("check", "expected"), [
    (lambda i: dr.assert_true(i < 2), "Assertion failure!"),
    (lambda i: dr.assert_false(i == 1, "{} of {{}}", i), "Assertion failure: [1, 1] of {}"),
    (lambda i: dr.assert_equal(i, 0, "{}", i), "Assertion failure: [1, 1, 2]"),
    (lambda i: dr.assert_equal([i, 2], [i * 1, i], "{}", i), "Assertion failure: [0, 1, 0]"),
    (lambda i: dr.assert_true([i < 2, {"a": i >= 0}], "{}", i), "Assertion failure: [2]"),
    (lambda i: dr.assert_true(Array2f(i, 0) < 2, "{}", i), "Assertion failure: [2]"),
    (lambda i: dr.assert_true(False, "{}", i, tb_skip=0), "Assertion failure: [0, 1, 0, 1, 2]"),
    (lambda i: dr.assert_true(Bool(True, False), "{}", i), "Assertion failure: [0, 1, 2]"),
])
def test_symbolic_assertions(check: Body, expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # assert_equal shows three values
        count_to(Int(2, 3), check)
        assert failures(capsys).splitlines()[0] == expected


@pytest.mark.usefixtures("debug")
@pytest.mark.parametrize(("arguments", "names"), [
    ({}, ["outer", "helper", "inner"]), ({"tb_depth": 0}, []), ({"tb_depth": 1}, ["inner"]),
    ({"tb_depth": 1, "tb_skip": 1}, ["helper"]), ({"tb_depth": 2, "tb_skip": 1}, ["outer", "helper"])])
def test_the_backtrace(arguments: dict[str, int], names: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    def inner(i: Any) -> None:
        dr.assert_true(i < 2, "{}", i, **arguments)

    def helper(i: Any) -> None:
        inner(i)

    def outer(i: Any) -> None:
        helper(i)

    count_to(Int(2, 3), outer)
    assert re.findall(r"line \d+, in (\w+)", failures(capsys)) == names


@pytest.mark.usefixtures("debug")
def test_assertions_that_hold_or_are_not_reached_report_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    count_to(Int(2, 3), lambda i: dr.assert_true(i < 3, "{}", i))
    count_to(Int(0, 0), lambda i: dr.assert_true(i > 3, "{}", i))
    count_to(Int(2, 3), lambda i: dr.assert_true(True, "{}", i))
    assert failures(capsys) == ""


def test_assertions_do_nothing_outside_of_debug_mode(capsys: pytest.CaptureFixture[str]) -> None:
    count_to(Int(2, 3), lambda i: dr.assert_true(i < 0, "{nothing}"))
    assert failures(capsys) == ""


@pytest.mark.usefixtures("debug")
def test_assertions_without_arrays_raise_at_once() -> None:
    with pytest.raises(AssertionError, match="Assertion failure: x 3"):
        count_to(Int(2, 3), lambda i: dr.assert_true(False, "x {}", 3))


@pytest.mark.usefixtures("debug")
@pytest.mark.parametrize(("check", "error", "message"), [
    (lambda i: dr.assert_true(i), TypeError, r"drjit\.assert_true\(\): the condition must be"),
    (lambda i: dr.assert_true(i < 1, "{}"), RuntimeError, r"drjit\.assert_true\(\): missing positional argument 0"),
    (lambda i: dr.assert_true(i < 1, tb_depth=-1), TypeError, r"assert_true\(\): 'tb_depth' must be an int >= 0"),
    (lambda i: dr.assert_equal(i, 1, tb_skip=0.5), TypeError, r"assert_equal\(\): 'tb_skip' must be an int >= 0"),
    (lambda i: dr.assert_true(i < 1, "{}", Float(1, 2, 3)), RuntimeError, r"assert_true\(\): .*incompatible sizes"),
])
def test_bad_assertions(check: Body, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        count_to(Int(2, 3), check)
