"""Functions are called as often as Python calls them: once for a symbolic construct, whatever is needed of it later.

Calls are counted by iterators, which nobody can wind back.
"""

from __future__ import annotations

import array
import collections
import contextlib
import contextvars
import functools
import hashlib
import io
import itertools
import logging
import operator
import os
import queue
import random
import re
import threading
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import drjit as dr
from drjit import llvm
from drjit.llvm import ad
from drjit.llvm.ad import Bool, Float, TensorXf, UInt

MODES = ["symbolic", "evaluated"]


def plain(value: Any) -> Any:
    return np.asarray(value).tolist()


class Calls:
    """Counts calls, by name."""

    def __init__(self) -> None:
        self.counters = collections.defaultdict[str, Iterator[int]](itertools.count)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A function that counts under its own name."""
        counter = self.counters[function.__name__]

        @functools.wraps(function)
        def counting(*args: Any, **kwargs: Any) -> Any:
            next(counter)
            return function(*args, **kwargs)

        return counting

    def tick(self, name: str) -> None:
        """Count."""
        next(self.counters[name])

    def found(self) -> dict[str, int]:
        """How often something was called."""
        return {name: int(re.findall(r"\d+", repr(counter))[0]) for name, counter in self.counters.items()}


# --- programs that give reasons to trace again -----------------------------------------------------------------------
# The exception: what writes by index what is differentiated has no derivative of its own, and runs in evaluated mode
# when that is found out.


class Program(NamedTuple):
    """A function of ``calls``, ``mode``, an array of four elements that may be differentiated by, and what is called
    how often: in symbolic mode once, unless something else is said; in evaluated mode what is said; and in symbolic
    mode, where derivatives are tracked, what the documented exceptions are."""

    run: Callable[[Calls, Any, Any], Any]
    evaluated: dict[str, int]
    symbolic: dict[str, int]
    differentiated: dict[str, int]


PROGRAMS: dict[str, Program] = {}


def program(symbolic: dict[str, int] | None = None, differentiated: dict[str, int] | None = None,
            **evaluated: int) -> Callable[..., Any]:
    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        once = dict.fromkeys(evaluated, 1) | (symbolic or {})
        PROGRAMS[function.__name__] = Program(function, evaluated, once, once | (differentiated or {}))
        return function

    return register


def limits() -> Any:
    return UInt(0, 1, 3, 2)


def zeros() -> Any:
    return dr.zeros(UInt, 4)


def mask() -> Any:
    return Bool(True, False, True, False)


@program(condition=4, body=3)
def loop(calls: Calls, mode: Any, x: Any) -> Any:
    @calls
    def condition(i: Any, y: Any) -> Any:
        return i < limits()

    @calls
    def body(i: Any, y: Any) -> Any:
        return i + 1, y * x

    return dr.while_loop((zeros(), x * 1), condition, body, mode=mode, max_iterations=4)[1]


@program(condition=4, body=3)
def loop_whose_length_is_unknown(calls: Calls, mode: Any, x: Any) -> Any:
    @calls
    def condition(i: Any, y: Any) -> Any:
        return i < limits()

    @calls
    def body(i: Any, y: Any) -> Any:
        return i + 1, y * y * 0.5

    return dr.while_loop((zeros(), x * 1), condition, body, mode=mode)[1]


@program(condition=4, body=3)
def loop_that_becomes_wider(calls: Calls, mode: Any, x: Any) -> Any:
    @calls
    def condition(i: Any, y: Any, k: Any) -> Any:
        return i < limits()

    @calls
    def body(i: Any, y: Any, k: Any) -> Any:
        return i + 1, y + x, k + y

    return dr.while_loop((UInt(0), Float(1), Float(0)), condition, body, mode=mode, max_iterations=4)[2]


@program(condition=4, body=3)
def loop_with_literals(calls: Calls, mode: Any, x: Any) -> Any:
    """What is the same in the first iteration is not in the second."""
    @calls
    def condition(i: Any, a: Any, b: Any, c: Any, y: Any) -> Any:
        return i < limits()

    @calls
    def body(i: Any, a: Any, b: Any, c: Any, y: Any) -> Any:
        return i + 1, b, c, c + 1, y * x + a

    return dr.while_loop((zeros(), Float(0), Float(0), Float(0), x * 1), condition, body, mode=mode,
                         max_iterations=4)[4]


@program(condition=4, body=3)
def loop_that_exchanges_variables(calls: Calls, mode: Any, x: Any) -> Any:
    @calls
    def condition(i: Any, y: Any, z: Any) -> Any:
        return i < limits()

    @calls
    def body(i: Any, y: Any, z: Any) -> Any:
        return i + 1, z * x, y

    return operator.add(*dr.while_loop((zeros(), x * 1, x * 2), condition, body, mode=mode, max_iterations=4)[1:])


@program(differentiated={"condition": 5, "body": 4}, condition=4, body=3)
def loop_that_writes_to_its_state(calls: Calls, mode: Any, x: Any) -> Any:
    @calls
    def condition(i: Any, table: Any, y: Any) -> Any:
        return i < limits()

    @calls
    def body(i: Any, table: Any, y: Any) -> Any:
        dr.scatter_add(table, y, i)
        return i + 1, table, y * x

    _, table, y = dr.while_loop((zeros(), dr.zeros(Float, 4), x * 1), condition, body, mode=mode, max_iterations=4)
    return table + y


@program(differentiated={"condition": 5, "body": 4}, condition=4, body=3)
def loop_that_writes_elsewhere(calls: Calls, mode: Any, x: Any) -> Any:
    table = dr.zeros(Float, 4)

    @calls
    def condition(i: Any) -> Any:
        return i < limits()

    @calls
    def body(i: Any) -> Any:
        dr.scatter_add(table, x, i)
        return (i + 1,)

    dr.while_loop((zeros(),), condition, body, mode=mode, max_iterations=4)
    return table


@program(condition=4, body=3)
def loop_that_reads(calls: Calls, mode: Any, x: Any) -> Any:
    @calls
    def condition(i: Any, table: Any, y: Any) -> Any:
        return i < limits()

    @calls
    def body(i: Any, table: Any, y: Any) -> Any:
        return i + 1, table, y + dr.gather(Float, table, i) * dr.gather(Float, x, UInt(y) & 3)

    return dr.while_loop((zeros(), x * 2, x * 1), condition, body, mode=mode, max_iterations=4)[2]


@program(condition=4, body=3)
def loop_that_changes_arrays_in_place(calls: Calls, mode: Any, x: Any) -> Any:
    y, nested = x * 1, ad.Array3f(x)

    @calls
    def condition(i: Any) -> Any:
        return i < limits()

    @calls
    def body(i: Any) -> Any:
        nonlocal y
        y *= x
        nested.x += y
        return (i + 1,)

    dr.while_loop((zeros(),), condition, body, mode=mode, max_iterations=4)
    return y + nested.x


@program(condition=4, body=3)
def loop_of_containers(calls: Calls, mode: Any, x: Any) -> Any:
    @calls
    def condition(i: Any, tree: Any) -> Any:
        return i < limits()

    @calls
    def body(i: Any, tree: Any) -> Any:
        tree["a"][0] += x
        tree["b"] = tree["b"] * x
        return i + 1, tree

    tree = {"a": [x * 1, 3], "b": x * 2}
    dr.while_loop((zeros(), tree), condition, body, mode=mode, max_iterations=4)
    return tree["a"][0] + tree["b"]  # type: ignore[index]


@program(condition=4, body=3)
def loop_with_a_generator(calls: Calls, mode: Any, x: Any) -> Any:
    @calls
    def condition(i: Any, generator: Any, y: Any) -> Any:
        return i < limits()

    @calls
    def body(i: Any, generator: Any, y: Any) -> Any:
        return i + 1, generator, y * (x + generator.next_float32())

    return dr.while_loop((zeros(), ad.PCG32(4), x * 1), condition, body, mode=mode, max_iterations=4)[2]


@program(condition=4, body=3)
def loop_that_prints_and_asserts(calls: Calls, mode: Any, x: Any) -> Any:
    out = io.StringIO()

    @calls
    def condition(i: Any, y: Any) -> Any:
        return i < limits()

    @calls
    def body(i: Any, y: Any) -> Any:
        dr.print("{}", i, file=out)
        return i + 1, y * x

    y = dr.while_loop((zeros(), x * 1), condition, body, mode=mode, max_iterations=4)[1]
    dr.eval(y)
    return y


@program(differentiated={"condition": 5, "body": 4}, condition=4, body=3)
def loop_with_local_memory(calls: Calls, mode: Any, x: Any) -> Any:
    memory = dr.alloc_local(Float, 4, value=Float(0))

    @calls
    def condition(i: Any, memory: Any, y: Any) -> Any:
        return i < limits()

    @calls
    def body(i: Any, memory: Any, y: Any) -> Any:
        memory[i] = dr.detach(y)
        return i + 1, memory, y * x + memory[i]

    return dr.while_loop((zeros(), memory, x * 1), condition, body, mode=mode, max_iterations=4)[2]


@program(condition=4, body=3)
def loop_that_differentiates(calls: Calls, mode: Any, x: Any) -> Any:
    z = Float(1, 2, 3, 4)
    dr.enable_grad(z)

    @calls
    def condition(i: Any) -> Any:
        return i < limits()

    @calls
    def body(i: Any) -> Any:
        dr.backward_from(z * z, dr.ADFlag.ClearVertices)
        return (i + 1,)

    dr.while_loop((zeros(),), condition, body, mode=mode)
    return x * z.grad


@program(condition=4, body=3)
def loop_of_tensors(calls: Calls, mode: Any, x: Any) -> Any:
    @calls
    def condition(i: Any, t: Any) -> Any:
        return i < limits()

    @calls
    def body(i: Any, t: Any) -> Any:
        return i + 1, t * TensorXf(x, shape=(4,))

    return dr.while_loop((zeros(), TensorXf(x, shape=(4,))), condition, body, mode=mode, max_iterations=4)[1].array


@program(condition=2, body=1)
def loop_that_nobody_asks_for(calls: Calls, mode: Any, x: Any) -> Any:
    @calls
    def condition(i: Any) -> Any:
        return i < 1

    @calls
    def body(i: Any) -> Any:
        return (i + 1,)

    dr.while_loop((zeros(),), condition, body, mode=mode)
    return x * 1


@program(yes=1, no=1)
def branch(calls: Calls, mode: Any, x: Any) -> Any:
    @calls
    def yes(x: Any) -> Any:
        return x * x

    @calls
    def no(x: Any) -> Any:
        return dr.sin(x)

    return dr.if_stmt((x,), mask(), yes, no, mode=mode)


@program(yes=1, no=1)
def branch_that_becomes_wider(calls: Calls, mode: Any, x: Any) -> Any:
    @calls
    def yes(y: Any) -> Any:
        return y * 2, x + 1

    @calls
    def no(y: Any) -> Any:
        return y, Float(3)

    return operator.add(*dr.if_stmt((Float(1),), mask(), yes, no, mode=mode))


@program(differentiated={"yes": 2, "no": 2}, yes=1, no=1)
def branch_that_writes(calls: Calls, mode: Any, x: Any) -> Any:
    table = dr.zeros(Float, 4)

    @calls
    def yes(y: Any) -> Any:
        dr.scatter_add(table, y * y, dr.arange(UInt, 4))
        return y

    @calls
    def no(y: Any) -> Any:
        return y * 2

    return dr.if_stmt((x * 1,), mask(), yes, no, mode=mode) + table


@program(yes=1, no=1)
def branch_that_changes_arrays_in_place(calls: Calls, mode: Any, x: Any) -> Any:
    y, z = x * 1, [x * 2]

    @calls
    def yes(y: Any) -> None:
        y *= x
        z[0] = z[0] + y

    @calls
    def no(y: Any) -> None:
        y += 1

    dr.if_stmt((y,), mask(), yes, no, mode=mode)
    return y + z[0]


@program(yes=1, no=1)
def branch_that_differentiates(calls: Calls, mode: Any, x: Any) -> Any:
    z = Float(1, 2, 3, 4)
    dr.enable_grad(z)

    @calls
    def yes(y: Any) -> Any:
        dr.backward_from(z * z, dr.ADFlag.ClearVertices)
        return y * 2

    @calls
    def no(y: Any) -> Any:
        return y

    return dr.if_stmt((x,), mask(), yes, no, mode=mode) + z.grad


@program(first=1, second=1)
def call(calls: Calls, mode: Any, x: Any) -> Any:
    @calls
    def first(x: Any) -> Any:
        return x * x

    @calls
    def second(x: Any) -> Any:
        return dr.sin(x)

    return dr.switch(UInt(0, 1, 0, 1), [first, second], x, mode=mode)


@program({"third": 1}, first=1, second=1, third=0)
def call_with_a_mask(calls: Calls, mode: Any, x: Any) -> Any:
    @calls
    def first(x: Any, active: Any = True) -> Any:
        return x * x

    @calls
    def second(x: Any, active: Any = True) -> Any:
        return dr.sin(x)

    @calls
    def third(x: Any, active: Any = True) -> Any:
        return x

    return dr.switch(UInt(0, 1, 0, 2), [first, second, third], x, active=Bool(True, True, True, False), mode=mode)


@program(differentiated={"first": 2, "second": 2}, first=1, second=1)
def call_that_writes(calls: Calls, mode: Any, x: Any) -> Any:
    table = dr.zeros(Float, 4)

    @calls
    def first(x: Any, k: Any) -> Any:
        dr.scatter_add(table, x * x, k)
        return x

    @calls
    def second(x: Any, k: Any) -> Any:
        dr.scatter(table, x, k)
        return x * 2

    return dr.switch(UInt(0, 1, 0, 1), [first, second], x * 1, dr.arange(UInt, 4), mode=mode) + table


@program(first=1, second=1)
def call_that_changes_arrays_in_place(calls: Calls, mode: Any, x: Any) -> Any:
    y, z = x * 1, [x * 2]

    @calls
    def first(y: Any) -> None:
        y *= 2

    @calls
    def second(y: Any) -> None:
        z[0] *= 3

    dr.switch(UInt(0, 1, 0, 1), [first, second], y, mode=mode)
    return y + z[0]


class Shape:
    """A class of instances."""

    def __init__(self, size: float) -> None:
        self.size = size


@program({"function": 2}, function=2)
def call_of_instances(calls: Calls, mode: Any, x: Any) -> Any:
    """Once for each instance."""
    a, b = Shape(2), Shape(3)
    made = dr.instance_array(Shape, UInt)([a, b, a, b])

    @calls
    def function(shape: Shape, x: Any) -> Any:
        return x * x * shape.size

    with dr.scoped_set_flag(dr.JitFlag.SymbolicCalls, mode == "symbolic"):
        return dr.dispatch(made, function, x)


@program({"first": 1, "second": 1}, first=1, second=1, condition=4, body=3, yes=3, no=3)
def call_in_branch_in_loop(calls: Calls, mode: Any, x: Any) -> Any:
    @calls
    def condition(i: Any, y: Any) -> Any:
        return i < limits()

    @calls
    def body(i: Any, y: Any) -> Any:
        return i + 1, dr.if_stmt((i, y), i < 1, yes, no, mode=mode)

    @calls
    def yes(i: Any, y: Any) -> Any:
        return y * x

    @calls
    def no(i: Any, y: Any) -> Any:
        return y + 1

    @calls
    def first(y: Any) -> Any:
        return dr.while_loop((dr.zeros(UInt, dr.width(y)), y), lambda i, y: i < 2, lambda i, y: (i + 1, y * y),
                             mode=mode, max_iterations=2)[1]

    @calls
    def second(y: Any) -> Any:
        return y * 2

    y = dr.while_loop((zeros(), x * 1), condition, body, mode=mode, max_iterations=4)[1]
    return dr.switch(UInt(0, 1, 0, 1), [first, second], y, mode=mode)


@program(differentiated={"outer_condition": 5, "outer": 4, "inner_condition": 13, "inner": 10}, outer_condition=4,
         outer=3, inner_condition=9, inner=6)
def loop_in_a_loop(calls: Calls, mode: Any, x: Any) -> Any:
    table = dr.zeros(Float, 4)

    @calls
    def outer_condition(i: Any, y: Any) -> Any:
        return i < limits()

    @calls
    def outer(i: Any, y: Any) -> Any:
        return i + 1, dr.while_loop((zeros(), y), inner_condition, inner, mode=mode, max_iterations=3)[1]

    @calls
    def inner_condition(j: Any, y: Any) -> Any:
        return j < 2

    @calls
    def inner(j: Any, y: Any) -> Any:
        dr.scatter_add(table, y, j)
        return j + 1, y * x

    return dr.while_loop((zeros(), x * 0.5), outer_condition, outer, mode=mode, max_iterations=4)[1] + table


# --- @dr.syntax: what stands in a block counts -----------------------------------------------------------------------


@program(body=3)
def statement_while(calls: Calls, mode: Any, x: Any) -> Any:
    @dr.syntax
    def function(x: Any, n: Any) -> Any:
        i, y = zeros(), x * 1
        while dr.hint(i < n, max_iterations=4):
            calls.tick("body")
            y *= x
            i += 1
        return y

    return function(x, limits())


@program(yes=1, no=1)
def statement_if(calls: Calls, mode: Any, x: Any) -> Any:
    @dr.syntax
    def function(x: Any, c: Any) -> Any:
        if c:
            calls.tick("yes")
            y = x * x
        else:
            calls.tick("no")
            y = x + 1
        return y

    return function(x, mask())


@program(yes=1)
def statement_that_assigns_on_one_side(calls: Calls, mode: Any, x: Any) -> Any:
    @dr.syntax
    def function(x: Any, c: Any) -> Any:
        y = x * 1
        if c:
            calls.tick("yes")
            z = x * x
            y = z + 1
        return y

    return function(x, mask())


@program(body=3, leaving=3)
def statement_break(calls: Calls, mode: Any, x: Any) -> Any:
    @dr.syntax
    def function(x: Any, n: Any) -> Any:
        i, y = zeros(), x * 1
        while dr.hint(i < 3, max_iterations=4):
            calls.tick("body")
            if i >= n:
                calls.tick("leaving")
                break
            y *= x
            i += 1
        return y

    return function(x, limits())


@program(body=3, going_on=3)
def statement_continue(calls: Calls, mode: Any, x: Any) -> Any:
    @dr.syntax
    def function(x: Any, n: Any) -> Any:
        i, y = zeros(), x * 1
        while dr.hint(i < 3, max_iterations=4):
            calls.tick("body")
            i += 1
            if i > n:
                calls.tick("going_on")
                continue
            y *= x
        return y

    return function(x, limits())


@program(body=3, leaving=3, after=1)
def statement_return_from_a_loop(calls: Calls, mode: Any, x: Any) -> Any:
    @dr.syntax
    def function(x: Any, n: Any) -> Any:
        i, y = zeros(), x * 1
        while dr.hint(i < 3, max_iterations=4):
            calls.tick("body")
            if i >= n:
                calls.tick("leaving")
                return y
            y *= x
            i += 1
        calls.tick("after")
        return y * 2

    return function(x, limits())


@program(yes=1, after=1)
def statement_return(calls: Calls, mode: Any, x: Any) -> Any:
    @dr.syntax
    def function(x: Any, c: Any) -> Any:
        if c:
            calls.tick("yes")
            return x * x
        calls.tick("after")
        x = x + 1
        x = x * 2
        return x + 1

    return function(x, mask())


@program(yes=1, after=1)
def statement_return_of_another_structure(calls: Calls, mode: Any, x: Any) -> Any:
    @dr.syntax
    def function(x: Any, c: Any) -> Any:
        if c:
            calls.tick("yes")
            return x * x, [x]
        calls.tick("after")
        x = x + 1
        return x, [x * 2]

    y, (z,) = function(x, mask())
    return y + z


@program(left=1, right=1)
def expression_if(calls: Calls, mode: Any, x: Any) -> Any:
    def left(x: Any) -> Any:
        calls.tick("left")
        return x * x

    def right() -> float:
        calls.tick("right")
        return 1.0

    @dr.syntax
    def function(x: Any, c: Any) -> Any:
        return left(x) if c else right()

    return function(x, mask())


@program(left=1, right=1)
def expression_and(calls: Calls, mode: Any, x: Any) -> Any:
    def left(x: Any) -> Any:
        calls.tick("left")
        return x > 1

    def right(x: Any) -> Any:
        calls.tick("right")
        return x < 4

    @dr.syntax
    def function(x: Any) -> Any:
        y = x * 1
        if left(x) and right(x):
            y = y * x
        return y

    return function(x)


@program(body=3)
def statement_for(calls: Calls, mode: Any, x: Any) -> Any:
    @dr.syntax
    def function(x: Any, n: Any) -> Any:
        y = x * 1
        for i in range(n):
            calls.tick("body")
            y = y * x + i
        return y

    return function(x, limits())


@program(differentiated={"body": 4, "inner": 6, "otherwise": 5}, body=3, inner=3, otherwise=3)
def statements_nested(calls: Calls, mode: Any, x: Any) -> Any:
    @dr.syntax
    def function(x: Any, n: Any) -> Any:
        i, y, table = zeros(), x * 1, dr.zeros(Float, 4)
        while dr.hint(i < n, max_iterations=4):
            calls.tick("body")
            if i < 1:
                calls.tick("inner")
                dr.scatter_add(table, y, i)
                new = y * x
            else:
                calls.tick("otherwise")
                new = y + 1
            y = new
            i += 1
        return y + table

    return function(x, limits())


class Walker:
    """An object that a method with statements changes."""

    DRJIT_STRUCT = {"at": Float, "steps": UInt}  # noqa: RUF012

    def __init__(self, at: Any = None, steps: Any = None) -> None:
        self.at, self.steps = at, steps

    @dr.syntax
    def walk(self, calls: Calls, n: Any) -> None:
        while dr.hint(self.steps < n, max_iterations=4):
            calls.tick("body")
            if self.at > 1:
                calls.tick("inner")
                self.at *= 2
            self.steps += 1


@program(body=3, inner=3)
def statements_of_a_method(calls: Calls, mode: Any, x: Any) -> Any:
    walker = Walker(x * 1, zeros())
    walker.walk(calls, limits())
    return walker.at


# --- how often --------------------------------------------------------------------------------------------------------


def run(name: str, mode: str, derivative: str) -> dict[str, int]:
    """How often a program has called what."""
    calls, x = Calls(), Float(1, 2, 3, 4)
    if derivative != "none":
        dr.enable_grad(x)
    symbolic = mode == "symbolic"
    with dr.scoped_set_flag(dr.JitFlag.SymbolicLoops, symbolic), \
            dr.scoped_set_flag(dr.JitFlag.SymbolicConditionals, symbolic):
        y = PROGRAMS[name].run(calls, mode, x)
    if derivative == "reverse":
        dr.backward(y)
        dr.eval(y, x.grad)
    elif derivative == "forward":
        x.grad = 1
        dr.eval(y, dr.forward_to(y))
    else:
        dr.eval(y)
    return calls.found()


@pytest.mark.parametrize("derivative", ["none", "reverse", "forward"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_call_their_functions_once(name: str, mode: str, derivative: str) -> None:
    program = PROGRAMS[name]
    assert run(name, mode, derivative) == (
        program.evaluated if mode == "evaluated" else program.symbolic if derivative == "none" else
        program.differentiated)


@pytest.mark.parametrize("name", ["loop", "branch", "call", "statement_while", "statement_return"])
def test_derivatives_of_derivatives_call_nothing(name: str) -> None:
    calls, x = Calls(), Float(1, 2, 3, 4)
    dr.enable_grad(x)
    y = PROGRAMS[name].run(calls, "symbolic", x)
    x.grad = 1
    first = dr.forward_to(y, flags=dr.ADFlag.ClearVertices)
    dr.backward(y)
    dr.eval(first, x.grad)
    assert calls.found() == PROGRAMS[name].symbolic


def test_a_function_that_is_given_twice() -> None:
    """It is two targets: no more calls than these."""
    calls = Calls()

    @calls
    def target(x: Any) -> Any:
        return x * 2

    assert plain(dr.switch(UInt(0, 1, 2), [target, lambda x: x, target], Float(1, 2, 3), mode="symbolic")) == [2, 2, 6]
    assert calls.found()["target"] in (1, 2)


@pytest.mark.parametrize("mode", MODES)
def test_functions_are_not_called_once_more_when_an_evaluation_needs_them(mode: str) -> None:
    """Whatever is done with the results later."""
    for name in PROGRAMS:
        calls, x = Calls(), Float(1, 2, 3, 4)
        symbolic = mode == "symbolic"
        with dr.scoped_set_flag(dr.JitFlag.SymbolicLoops, symbolic), \
                dr.scoped_set_flag(dr.JitFlag.SymbolicConditionals, symbolic):
            y = PROGRAMS[name].run(calls, mode, x)
        before = calls.found()
        dr.eval(dr.sum(y))
        assert plain(y * 2) == [2 * value for value in plain(y)]
        assert calls.found() == before, name


# --- effects of all kinds --------------------------------------------------------------------------------------------


Effects = dict[str, tuple[Callable[[], Any], Callable[[], Any]]]


def effects(folder: Path, closing: contextlib.ExitStack, size: int) -> Effects:
    """Things that a function may do, of which the program can tell how often it has; containers have a size."""
    def letters() -> Iterator[str]:
        yield from "abcdefghij"

    def one_shot() -> None:
        if shots:
            raise AssertionError("called twice")
        shots.append(1)

    def six_deep() -> None:
        deep.a.b.c.d.e.f += 1

    def entry_deep() -> None:
        inner = nested
        for _ in range(500):
            inner = inner[0]
        inner.append(1)

    def count() -> None:
        nonlocal number
        number += 1

    def last_entry() -> None:
        entries[-1] += 1

    def last_key() -> None:
        keys[size - 1] += 1

    def in_environment() -> None:
        os.environ["DRJIT_TEST_CALLS"] = str(int(os.environ.get("DRJIT_TEST_CALLS", "0")) + 1)

    def in_context() -> None:
        context.set(context.get() + 1)

    def in_thread() -> None:
        local.value = getattr(local, "value", 0) + 1

    def numpy_in_place() -> None:
        numbers[...] += 1

    def memory() -> None:
        view[0] += 1

    deep: Any = types.SimpleNamespace(f=0)
    for name in "edcba":
        deep = types.SimpleNamespace(**{name: deep})
    nested: list[Any] = []
    for _ in range(500):
        nested = [nested]
    iterator, generator, cycle = iter(range(100)), letters(), itertools.cycle("abc")
    mapped, matches = map(str, range(100)), re.finditer("a", "a" * 100)
    numpy_generator, python_generator = np.random.default_rng(1), random.Random(1)
    waiting: queue.Queue[int] = queue.Queue()
    for k in range(10):
        waiting.put(k)
    file = closing.enter_context((folder / "file").open("w+", encoding="utf-8"))
    text, digest, shots = io.StringIO(), hashlib.sha256(), list[int]()
    entries, keys, numbers = [0] * size, dict.fromkeys(range(size), 0), np.zeros(3)
    members, tally, number = set(range(size)), collections.Counter[str](), 0
    numbers_of_c, context = array.array("i", [0]), contextvars.ContextVar[int]("context", default=0)
    local, view = threading.local(), memoryview(bytearray(1))
    reading, writing = os.pipe()
    closing.callback(os.close, reading)
    closing.callback(os.close, writing)
    records: list[Any] = []
    logger = logging.Logger("calls")
    handler = logging.Handler()
    handler.emit = records.append  # type: ignore[method-assign]
    logger.addHandler(handler)
    os.environ.pop("DRJIT_TEST_CALLS", None)

    @functools.lru_cache
    def cached(k: int) -> int:
        return k

    def miss() -> None:
        cached(cached.cache_info().misses)

    def written() -> int:
        os.write(writing, b"end")
        return len(os.read(reading, 1000)) - 3

    return {
        "iterator": (lambda: next(iterator), lambda: next(iterator)),
        "generator": (lambda: next(generator), lambda: next(generator)),
        "cycle": (lambda: next(cycle), lambda: next(cycle)),
        "map": (lambda: next(mapped), lambda: next(mapped)),
        "matches": (lambda: next(matches), lambda: next(matches).start()),
        "NumPy's random numbers": (numpy_generator.random, lambda: numpy_generator.bit_generator.state),
        "Python's random numbers": (python_generator.random, python_generator.getstate),
        "queue": (waiting.get_nowait, waiting.qsize),
        "file": (lambda: file.write("a"), file.tell),
        "text": (lambda: text.write("a"), text.getvalue),
        "pipe": (lambda: os.write(writing, b"a"), written),
        "digest": (lambda: digest.update(b"a"), digest.hexdigest),
        "one shot": (one_shot, lambda: shots),
        "six attributes": (six_deep, lambda: deep.a.b.c.d.e.f),
        "500 lists": (entry_deep, lambda: repr(nested)),
        "variable": (count, lambda: number),
        "100,000 entries": (last_entry, lambda: entries[-1]),
        "100,000 entries, append": (lambda: entries.append(1), lambda: len(entries)),
        "100,000 entries, pop": (entries.pop, lambda: len(entries)),
        "100,000 keys": (last_key, lambda: keys[size - 1]),
        "100,000 members": (members.pop, lambda: len(members)),
        "counter": (lambda: tally.update("a"), lambda: tally["a"]),
        "environment": (in_environment, lambda: os.environ["DRJIT_TEST_CALLS"]),
        "context variable": (in_context, context.get),
        "variable of the thread": (in_thread, lambda: local.value),
        "array of NumPy": (numpy_in_place, numbers.tolist),
        "array of C": (lambda: numbers_of_c.append(1), numbers_of_c.tolist),
        "memory": (memory, lambda: view[0]),
        "log": (lambda: logger.warning("called"), lambda: len(records)),
        "cache": (miss, lambda: cached.cache_info().misses),
    }


EFFECTS = ["iterator", "generator", "cycle", "map", "matches", "NumPy's random numbers", "Python's random numbers",
           "queue", "file", "text", "pipe", "digest", "one shot", "six attributes", "500 lists", "variable",
           "100,000 entries", "100,000 entries, append", "100,000 entries, pop", "100,000 keys", "100,000 members",
           "counter", "environment", "context variable", "variable of the thread", "array of NumPy", "array of C",
           "memory", "log", "cache"]


#: What holds data, as arrays do: changes of that are refused where functions are called once for all elements.
DATA = {"array of NumPy": "the object 'numbers' of type numpy", "array of C": "the object 'numbers_of_c'", "memory":
        "an object of type bytearray"}


def in_construct(construct: str, mode: Any, act: Callable[[], Any]) -> None:
    """Do it in the body, on a side or in a target that is called once in either mode; with reasons to trace again:
    what is written to by index, what becomes wider, and a derivative."""
    x, table = Float(1, 2), dr.zeros(Float, 2)
    dr.enable_grad(x)

    def function(y: Any, x: Any = x) -> Any:
        act()
        dr.scatter_add(table, dr.detach(y), UInt(0))
        return y * x

    if construct == "loop":
        def body(i: Any, y: Any) -> Any:
            return i + 1, function(y)

        y = dr.while_loop((UInt(0), Float(1)), lambda i, y: i < UInt(1, 1), body, mode=mode, max_iterations=1)[1]
    elif construct == "branch":
        y = dr.if_stmt((Float(1),), Bool(True, False), function, lambda y: y, mode=mode)
    else:
        y = dr.switch(UInt(0, 1), [function, lambda y, x: y], Float(1), x, mode=mode)
    dr.backward(y)
    dr.eval(y, x.grad)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("construct", ["loop", "branch", "call"])
@pytest.mark.parametrize("effect", EFFECTS)
def test_effects_happen_once(effect: str, construct: str, mode: str, tmp_path: Path) -> None:
    """What programs note down is theirs. But NumPy arrays hold data, which each element and iteration would change."""
    size = 100_000 if "100,000" in effect else 10
    with contextlib.ExitStack() as closing:
        act, tell = effects(tmp_path, closing, size)[effect]
        act()
        once = tell()
        act, tell = effects(tmp_path, closing, size)[effect]
        if effect in DATA and mode == "symbolic":
            with pytest.raises(RuntimeError, match=f"changes {DATA[effect]}"):
                in_construct(construct, mode, act)
            act()
            assert tell() == once
            return
        in_construct(construct, mode, act)
        assert tell() == once


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("construct", ["loop", "branch", "call"])
def test_what_is_printed_is_printed_once(construct: str, mode: str, capsys: pytest.CaptureFixture[str]) -> None:
    in_construct(construct, mode, lambda: print("called"))
    assert capsys.readouterr().out == "called\n"


def test_all_effects_are_listed(tmp_path: Path) -> None:
    with contextlib.ExitStack() as closing:
        assert list(effects(tmp_path, closing, 10)) == EFFECTS


@pytest.mark.parametrize("mode", MODES)
def test_an_evaluated_loop_notes_down_each_iteration(mode: str) -> None:
    """What a body appends to a list of the program is the program's: once for each call."""
    notes: list[Any] = []

    def body(i: Any) -> Any:
        notes.append("called" if mode == "symbolic" else plain(i))
        return (i + 1,)

    dr.while_loop((UInt(0, 0),), lambda i: i < UInt(1, 3), body, mode=mode)
    assert notes == (["called"] if mode == "symbolic" else [[0, 0], [1, 1], [1, 2]])


@pytest.mark.parametrize("construct", ["loop", "branch", "call"])
def test_functions_are_called_once_if_they_raise(construct: str) -> None:
    calls = Calls()

    @calls
    def act() -> None:
        raise KeyError("stop")

    with pytest.raises(KeyError, match="stop"):
        in_construct(construct, "symbolic", act)
    assert calls.found() == {"act": 1}


def test_refused_constructs_have_called_once() -> None:
    """Also where the results cannot be joined, or the state changes its type."""
    calls = Calls()

    @calls
    def yes(x: Any) -> Any:
        return x, x

    @calls
    def no(x: Any) -> Any:
        return x

    with pytest.raises(RuntimeError):
        dr.if_stmt((Float(1, 2),), Bool(True, False), yes, no, mode="symbolic")

    @calls
    def body(i: Any, y: Any) -> Any:
        return i + 1, Float(y)

    with pytest.raises(RuntimeError):
        dr.while_loop((UInt(0, 0), UInt(1)), lambda i, y: i < UInt(1, 2), body, mode="symbolic")
    assert calls.found() == {"yes": 1, "no": 1, "body": 1}


class _Held:
    def __init__(self, value: Any) -> None:
        self.value = value


@pytest.mark.parametrize(("kind", "most"), [(llvm.Float, [1, 1, 1, 1]), (Float, [2, 3, 4, 5])])
def test_bodies_within_bodies_are_called_once_more_for_each_around_them(kind: Any, most: list[int]) -> None:
    """Some variable tracks derivatives, so that arrays which loops turn out to change may have some, too."""
    other = Float(1, 2)
    dr.enable_grad(other)
    for depth, number in enumerate(most, 1):
        held, calls = _Held(kind(1, 2)), [0]
        _nested(depth, held, calls)
        assert calls[0] <= number
        assert dr.all(held.value == kind(1, 2) + 2**depth)


def _nested(level: int, held: Any, calls: list[int]) -> None:
    def body(i: Any) -> Any:
        if level > 1:
            _nested(level - 1, held, calls)
        else:
            calls[0] += 1
            held.value = held.value + 1
        return (i + 1,)

    dr.while_loop((UInt(0),), lambda i: i < 2, body)


def total(array: Any) -> Iterator[Any]:
    while True:
        array = array + 1
        yield array


def total_of_list(entries: list[Any]) -> Iterator[Any]:
    while True:
        entries[0] = entries[0] + 1
        yield entries[0]


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
@pytest.mark.parametrize("place", ["list", "variable"])
def test_generators_that_change_what_others_know(place: str, mode: Any) -> None:
    entries = [ad.Float(1, 2)]
    known = ad.Float(1, 2)

    def generator() -> Iterator[Any]:
        nonlocal known
        while True:
            known = known + 1
            yield known

    advanced = total_of_list(entries) if place == "list" else generator()
    _, x = dr.while_loop((ad.UInt(0, 1), ad.Float(0)), lambda i, x: i < 2, lambda i, x: (i + 1, x + next(advanced)),
                         mode=mode)
    assert list(x) == [5, 3]
    assert list(entries[0] if place == "list" else known) == [3, 3]


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
def test_generators_that_keep_arrays_to_themselves(mode: Any) -> None:
    advanced, arrays = total(ad.Float(1, 2)), (array for array in [ad.Float(1), ad.Float(2), ad.Float(3)])
    next(arrays)
    _, x = dr.while_loop((ad.UInt(0, 1), ad.Float(0)), lambda i, x: i < 2, lambda i, x: (i + 1, x + next(advanced)),
                         mode=mode)
    assert list(x) == [5, 3]
    assert list(next(advanced)) == [4, 4]
    _, x = dr.while_loop((ad.UInt(0, 1), ad.Float(0)), lambda i, x: i < 2, lambda i, x: (i + 1, x + next(arrays)),
                         mode=mode)
    assert list(x) == ([4, 2] if mode == "symbolic" else [5, 2])


@pytest.mark.parametrize("depth", [1, 3])
@pytest.mark.parametrize("cls", [types.SimpleNamespace, type("Plain", (), {})])
def test_bodies_that_change_attributes_are_called_once_however_deep(cls: Any, depth: int) -> None:
    holder, calls = cls(), []
    holder.v = ad.Float(1, 2)

    def nested(depth: int) -> None:
        if not depth:
            calls.append(1)
            holder.v = holder.v + 1
            return

        def body(i: Any) -> Any:
            nested(depth - 1)
            return i + 1

        dr.while_loop((ad.UInt(0, 0),), lambda i: i < 2, body, mode="symbolic")

    nested(depth)
    assert list(holder.v) == [1 + 2 ** depth, 2 + 2 ** depth]
    assert len(calls) == 1


class Holding:
    def __init__(self, value: Any) -> None:
        self.value = value


@pytest.mark.parametrize("kind", ["flat array", "tensor", "generator", "integers", "in a loop", "in a branch"])
def test_changes_of_what_is_equal_to_state(kind: str) -> None:
    """What the body reads tells whether it is the state or the other array."""
    state: Any = {"flat array": lambda: Float(1, 2, 3, 4), "tensor": lambda: TensorXf([1, 2, 3, 4], shape=(4,)),
                  "generator": lambda: ad.PCG32(4), "integers": lambda: UInt(1, 2, 3, 4)}.get(
                      kind, lambda: Float(1, 2, 3, 4) * 2)()
    other, before, calls = Holding(type(state)(state)), type(state)(state), list[int]()

    def change(state: Any) -> Any:
        if kind == "generator":
            other.value.next_float32()
        else:
            other.value += state
        return state

    def body(i: Any, state: Any) -> Any:
        calls.append(1)
        if kind == "in a loop":
            dr.while_loop((UInt(0), state), lambda k, _: k < 2, lambda k, state: (k + 1, change(state)))
        elif kind == "in a branch":
            dr.if_stmt((state,), i < 5, change, lambda state: state)
        else:
            change(state)
        return i + 1, state

    n = UInt(0, 1, 2, 3)
    _, found = dr.while_loop((UInt(0, 0, 0, 0), state), lambda i, _: i < n, body, mode="symbolic")
    assert len(calls) == 1
    if kind == "generator":
        assert dr.all(found.state == before.state) and dr.all(other.value.inc == before.inc)
        alone = ad.PCG32(4)
        drawn = [ad.PCG32(alone).state, *[(alone.next_float32(), ad.PCG32(alone).state)[1] for _ in range(3)]]
        assert [int(other.value.state[k]) for k in range(4)] == [int(drawn[k][k]) for k in range(4)]
    else:
        factor = 2 if kind == "in a loop" else 1
        assert dr.all(found == before)
        assert dr.all(other.value == before * (1 + factor * type(before)(n)))
