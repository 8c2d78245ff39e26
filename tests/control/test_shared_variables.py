"""``@dr.syntax``: functions see variables as they are when they are called, also if a construct has assigned them."""

from __future__ import annotations

from typing import Any

import pytest

import drjit as dr
from drjit.llvm import Float, Int, UInt32, ad
from drjit_core.control import source


@pytest.fixture(params=["symbolic", "evaluated"], autouse=True)
def mode(request: Any) -> Any:
    symbolic = request.param == "symbolic"
    with dr.scoped_set_flag(dr.JitFlag.SymbolicLoops, symbolic), \
            dr.scoped_set_flag(dr.JitFlag.SymbolicConditionals, symbolic):
        yield request.param


def scalar(function: Any, *args: Any) -> list[Any]:
    """What plain Python does, element after element."""
    plain = function.__wrapped__ if hasattr(function, "__wrapped__") else function
    return [plain(*values) for values in zip(*args, strict=True)]


def loop_with_lambda(x: Any, n: Any) -> Any:
    now = lambda: x * 10  # noqa: E731
    total = x * 0
    while n > 0:
        x = x + 1
        total = total + now()
        n = n - 1
    return total + now()


def branch_with_lambda(x: Any, n: Any) -> Any:
    now = lambda: x * 10  # noqa: E731
    inside = x * 0
    if n > 1:
        x = x + 1
        inside = now()
    elif n > 0:
        x = x + 2
    return inside * 1000 + now()


def nested_function(x: Any, n: Any) -> Any:
    def outer() -> Any:
        def inner() -> Any:
            return x * 3

        return inner() + n

    while n > 0:
        x = x + outer()
        n = n - 1
        if x > 20:
            x = x - outer()
    return outer()


def default_argument(x: Any, n: Any) -> Any:
    def call(now: Any = lambda: x + 1) -> Any:
        return now()

    while n > 0:
        x = call() * 2
        n = n - 1
    return call()


def generator(x: Any, n: Any) -> Any:
    values = (x * k for k in (1, 2, 3))
    first = next(values)
    while n > 0:
        x = x + n
        n = n - 1
    return first * 1000 + next(values) * 100 + next(values)


def lambdas_of_a_comprehension(x: Any, n: Any) -> Any:
    functions = [lambda k=k: x + k for k in range(3)]
    if n > 1:
        x = x + functions[1]()
    return functions[2]()


def function_of_an_iteration(x: Any, n: Any) -> Any:
    total = x * 0
    while n > 0:
        now = lambda: x + n  # noqa: B023, E731
        x = x * 2
        if x > 5:
            x = x - 3
        total = total + now()
        n = n - 1
        total = total + now()
    return total


def of_a_python_loop(x: Any, n: Any) -> Any:
    functions = []
    for k in range(3):
        for function in functions:
            x = x + function()
        functions.append(lambda: x + n)  # noqa: B023
        if n > k:
            x = x + 1
            n = n - 1
    return functions[0]() + functions[2]()


def choice(x: Any, n: Any) -> Any:
    now = lambda: y  # noqa: E731
    y = x
    z = (y := x + 5) if n > 1 else x
    return z * 100 + now()


def elements_that_leave(x: Any, n: Any) -> Any:
    now = lambda: x  # noqa: E731
    total = x * 0
    while n > 0:
        x = x + 1
        if x > 6:
            break
        n = n - 1
        if x > 4:
            continue
        x = x + now()
        total = total + now()
    if total > 5:
        return now()
    x = x + 100
    return total + now()


def variable_made_later(x: Any, n: Any) -> Any:
    now = lambda: y  # noqa: E731
    if n > 1:
        y = x
    else:
        y = x * 2
    while n > 0:
        y = now() + 1
        n = n - 1
    return now()


def method(x: Any, n: Any) -> Any:
    class Reader:
        def read(self) -> Any:
            return x

    reader = Reader()
    while n > 0:
        x = x + reader.read()
        n = n - 1
    return reader.read()


PROGRAMS = [loop_with_lambda, branch_with_lambda, nested_function, default_argument, generator,
            lambdas_of_a_comprehension, function_of_an_iteration, of_a_python_loop, choice, elements_that_leave,
            variable_made_later, method]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
@pytest.mark.parametrize("recursive", [False, True], ids=["", "recursive"])
def test_functions_see_what_constructs_assign(program: Any, recursive: bool) -> None:
    x, n = [1, 2, 3, 0, 7], [3, 0, 1, 2, 5]
    found = dr.syntax(program, recursive=recursive)(Int(x), Int(n))
    assert found.numpy().tolist() == scalar(program, x, n)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_python_numbers(program: Any) -> None:
    assert [dr.syntax(program)(x, 3) for x in range(4)] == scalar(program, range(4), [3] * 4)


def _slope(program: Any, x: list[float], n: list[int]) -> list[float]:
    step = 1e-6
    return [(program(a + step, k) - program(a - step, k)) / (2 * step) for a, k in zip(x, n, strict=True)]


def squares(x: Any, n: Any) -> Any:
    now = lambda: x * x  # noqa: E731
    while dr.hint(n > 0, max_iterations=3):
        x = x + now()
        n = n - 1
    y = now()
    x = x * 0  # what the functions refer to is another value when the derivative is computed
    return y + now()


def branches(x: Any, n: Any) -> Any:
    now = lambda: x * x  # noqa: E731
    y = x
    if n > 0:
        x = x * 3
        y = now() + x
        if n > 1:
            x = y * x
    z = now() * y
    x = x * 0
    return z + now()


def assigned_by_a_function(x: Any, n: Any) -> Any:
    def advance() -> None:
        nonlocal x
        x = x * x + 0.25

    while dr.hint(n > 0, max_iterations=3):
        advance()
        n = n - 1
    y = x * 2
    x = x * 0
    return y


@pytest.mark.parametrize("program", [squares, branches, assigned_by_a_function], ids=lambda entry: entry.__name__)
@pytest.mark.parametrize("reverse", [True, False])
def test_derivatives(program: Any, reverse: bool) -> None:
    values, counts = [0.5, 1.0, 0.75], [1, 0, 2]
    x = ad.Float64(values)
    dr.enable_grad(x)
    y = dr.syntax(program)(x, ad.Int(counts))
    if reverse:
        dr.backward(y)
    else:
        dr.forward(x)
    found = dr.grad(x if reverse else y)
    assert dr.allclose(found, _slope(program, values, counts), rtol=1e-4)


def test_variables_that_no_construct_assigns_are_left_alone() -> None:
    @dr.syntax
    def program(x: Any, table: Any, n: Any) -> Any:
        scale = 2
        apply = lambda y, i: y * scale + dr.gather(Float, table, i)  # noqa: E731
        while n > 0:
            n -= 1
            x = apply(x, n)
        return x

    table = Float(1, 2, 3)
    assert program(Float(1, 1), table, UInt32(1, 3)).numpy().tolist() == [3, 8 + 4 * 3 + 2 * 2 + 1]


def test_holders_of_arrays_are_counted_once() -> None:
    counts, count = [], source.count_holders[0]

    def counting(held: dict[int, int]) -> None:
        counts.append(None)
        count(held)

    source.count_holders[0] = counting
    try:
        arrays = [dr.opaque(Float, k, 2) for k in range(20)]

        def body(i: UInt32) -> UInt32:
            for array in arrays:
                array += 1
            return i + 1

        dr.while_loop((UInt32(0, 1),), lambda i: i < 3, body, mode="symbolic")
    finally:
        source.count_holders[0] = count
    assert len(counts) <= 1
    assert [list(array) for array in arrays] == [[k + 3, k + 2] for k in range(20)]
