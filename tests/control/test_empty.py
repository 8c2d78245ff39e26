"""Loops, branches and calls of no elements: nothing happens, and results have none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import drjit as dr
from drjit import llvm
from drjit.llvm import Array3f, ArrayXf, Bool, Float, Int, TensorXf, UInt, ad

MODES = ["symbolic", "evaluated"]
mode = pytest.mark.parametrize("mode", MODES)
X, K, TABLE = Float(), UInt(), Float(1, 2, 3)


def shapes(values: Any) -> list[Any]:
    return [value.shape for value in values]


# --- loops -----------------------------------------------------------------------------------------------------------

#: The state before; condition and body; the shapes of the state after a symbolic loop, and after an evaluated one, in
#: which what there is one of goes with all elements.
LOOPS: dict[str, tuple[Any, ...]] = {
    "one variable": ((X,), lambda x: x < 3, lambda x: (x + 1,), [(0,)], [(0,)]),
    "a counter": ((UInt(0), X), lambda i, x: x < i, lambda i, x: (i + 1, x * 2), [(0,), (0,)], [(1,), (0,)]),
    "a condition of one element": ((UInt(0), X), lambda i, x: i < 3, lambda i, x: (i + 1, x * 2), [(0,), (0,)],
                                   [(1,), (0,)]),
    "what is left alone": ((UInt(0), X, TABLE), lambda i, x, t: i < 3, lambda i, x, t: (i + 1, x, t),
                           [(1,), (0,), (3,)], [(1,), (0,), (3,)]),
    "beside several elements": ((TABLE, X), lambda t, x: t < 9, lambda t, x: (t * 2, x), [(3,), (0,)], [(3,), (0,)]),
    "a table": ((K, TABLE), lambda k, t: k < 3, lambda k, t: (k + UInt(dr.gather(Float, t, k)), t), [(0,), (3,)],
                [(0,), (3,)]),
    "a constant": ((X, Float(2)), lambda x, c: x < 3, lambda x, c: (x * c, c), [(0,), (1,)], [(0,), (1,)]),
    "what the body refers to": ((UInt(0), Float(1)), lambda i, x: i < 3, lambda i, x: (i + 1, x + X), [(0,), (0,)],
                                [(1,), (0,)]),
    "what the condition refers to": ((UInt(0), Float(1)), lambda i, x: x < X, lambda i, x: (i + 1, x), [(0,), (1,)],
                                     [(1,), (1,)]),
    "components": ((Array3f(1, 2, X),), lambda v: v.z < 3, lambda v: (v + 1,), [(3, 0)], [(3, 0)]),
    "no components": ((ArrayXf(), X), lambda v, x: x < 3, lambda v, x: (v, x + 1), [(0, 0), (0,)], [(0, 0), (0,)]),
    "a tensor": ((dr.zeros(TensorXf, (0, 3)),), lambda t: t.array < 3, lambda t: (t + TensorXf([1, 2, 3]),), [(0, 3)],
                 [(0, 3)]),
    "containers": (([X, {"k": K}],), lambda s: s[0] < 3, lambda s: ([s[0] + 1, {"k": s[1]["k"] + 1}],), None, None),
}


@mode
@pytest.mark.parametrize("name", LOOPS)
@pytest.mark.parametrize("options", [{}, {"compress": True}, {"max_iterations": 3}], ids=["", "compress", "bounded"])
def test_loops(name: str, mode: str, options: dict[str, Any]) -> None:
    state, cond, body, symbolic, evaluated = LOOPS[name]
    if name == "containers":
        (x, d), = dr.while_loop(([X, {"k": K}],), cond, body, mode=mode, **options)
        assert type(x) is Float and type(d["k"]) is UInt and shapes([x, d["k"]]) == [(0,), (0,)]
        return
    found = dr.while_loop(state, cond, body, mode=mode, **options)
    assert list(map(type, found)) == list(map(type, state))
    assert shapes(found) == (symbolic if mode == "symbolic" else evaluated)


@pytest.mark.parametrize("flag", [dr.JitFlag.OptimizeLoops, dr.JitFlag.Debug, dr.JitFlag.SymbolicLoops])
@pytest.mark.parametrize("name", [name for name in LOOPS if name != "containers"])
def test_loops_under_flags(name: str, flag: dr.JitFlag) -> None:
    state, cond, body, symbolic, _ = LOOPS[name]
    with dr.scoped_set_flag(flag, flag is dr.JitFlag.Debug):
        found = dr.while_loop(state, cond, body, mode="symbolic")
    assert shapes(found) == symbolic


@mode
def test_loops_write_nothing(mode: str) -> None:
    one, several, state = dr.zeros(Float, 3), dr.zeros(Float, 3), dr.zeros(Float, 3)

    def body(x: Float, k: UInt, state: Float) -> tuple[Float, UInt, Float]:
        dr.scatter_add(one, 1, UInt(0))
        dr.scatter(several, x, k)
        dr.scatter(state, x + 1, k)
        return x + 1, k + 1, state

    *found, after = dr.while_loop((X, K, state), lambda x, k, state: x < 3, body, mode=mode)
    assert shapes(found) == [(0,), (0,)]
    for array in (one, several, state, after):
        assert list(array) == [0, 0, 0]


@mode
def test_loops_print_nothing(mode: str, capsys: pytest.CaptureFixture[str]) -> None:
    def body(x: Float) -> tuple[Float]:
        dr.print("{}", x)
        return (x + 1,)

    dr.eval(dr.while_loop((X,), lambda x: x < 3, body, mode=mode))
    dr.sync_thread()
    assert capsys.readouterr().out == ""


@mode
def test_loops_within_loops(mode: str) -> None:
    def inner(x: Float) -> Any:
        return dr.while_loop((UInt(0), x), lambda j, y: y < 5, lambda j, y: (j + 1, y + 1), mode=mode)[1]

    k, x = dr.while_loop((K, X), lambda k, x: k < 3, lambda k, x: (k + 1, inner(x)), mode=mode)
    assert shapes([k, x]) == [(0,), (0,)]
    i, y = dr.while_loop((UInt(0, 1), Float(5, 6)), lambda i, y: i < 3,
                         lambda i, y: (i + 1, y + dr.sum(inner(X)) + 1), mode=mode)
    assert list(i) == [3, 3] and list(y) == [8, 8]


@mode
def test_bodies_are_checked_as_if_there_were_elements(mode: str) -> None:
    """In symbolic mode; evaluated loops run no body if there is no element that it would be for."""
    for body in (lambda x: (UInt(x),), lambda x: None, lambda x: (x, x)):
        if mode == "symbolic":
            with pytest.raises((TypeError, RuntimeError), match=r"body of this loop changed the type|'body' must re"):
                dr.while_loop((X,), lambda x: x < 3, body, mode=mode)
        else:
            assert dr.while_loop((X,), lambda x: x < 3, body, mode=mode)[0].shape == (0,)


# --- branches --------------------------------------------------------------------------------------------------------

OPAQUE = dr.opaque(UInt, 2)
#: Arguments, condition, functions, and the shapes of the results, ``None``: sizes do not go together.
BRANCHES: dict[str, tuple[Any, ...]] = {
    "no elements": ((X,), X > 0, lambda x: (x * 2,), lambda x: (x,), [(0,)]),
    "an argument of one element": ((Float(1),), X > 0, lambda y: (y * 2,), lambda y: (y,), [(0,)]),
    "no arguments": ((), X > 0, lambda: (Float(1), UInt(2)), lambda: (Float(2), UInt(3)), [(0,), (0,)]),
    "a table": ((TABLE, K), X > 0, lambda t, k: (t, dr.gather(Float, t, k)), lambda t, k: (t, Float(k)), [(3,), (0,)]),
    "a wide result": ((TABLE,), X > 0, lambda t: (t + 1,), lambda t: (t,), None),
    "an argument without elements": ((X, UInt(0)), OPAQUE > 1, lambda x, k: (x * 2, k + 1), lambda x, k: (x, k),
                                     [(0,), (1,)]),
    "a side without elements": ((X, Float(1)), OPAQUE > 1, lambda x, y: (x * 2,), lambda x, y: (y,), [(0,)]),
    "a literal condition": ((X, Float(1)), Bool(True), lambda x, y: (x * y,), lambda x, y: (y,), [(0,)]),
    "an argument that is left alone": ((X, TABLE), TABLE > 1, lambda x, t: (x, t * 2), lambda x, t: (x, t),
                                       [(0,), (3,)]),
    "an argument that is set": ((X, TABLE), TABLE > 1, lambda x, t: (t * 2,), lambda x, t: (t,), [(3,)]),
    "an argument that is set by one side": ((X, TABLE), TABLE > 1, lambda x, t: (t * 2,), lambda x, t: (x,), None),
    "results without elements": ((X, TABLE), TABLE > 1, lambda x, t: (x * 2,), lambda x, t: (x * 3,), None),
    "a wide literal condition": ((X,), dr.full(Bool, True, 3), lambda x: (x * 2,), lambda x: (x,), None),
}


@mode
@pytest.mark.parametrize("name", BRANCHES)
def test_branches(name: str, mode: str) -> None:
    args, cond, true_fn, false_fn, expected = BRANCHES[name]
    if expected is None:
        with pytest.raises(RuntimeError, match=r"is empty; it must be initialized before the branch|sizes: 3, 3, 0"):
            dr.if_stmt(args, cond, true_fn, false_fn, mode=mode)
    else:
        found = dr.if_stmt(args, cond, true_fn, false_fn, mode=mode)
        assert shapes(found) == expected and [type(value) for value in found] == [
            type(value) for value in false_fn(*args)]


@mode
def test_branches_write_nothing(mode: str) -> None:
    target = dr.zeros(Float, 3)

    def write(x: Float) -> Float:
        dr.scatter_add(target, 1, UInt(0))
        dr.scatter(target, x, K)
        return x

    assert dr.if_stmt((X,), X > 0, write, write, mode=mode).shape == (0,)
    assert list(target) == [0, 0, 0]


@mode
def test_branches_of_one_element_that_write_several(mode: str) -> None:
    target = dr.zeros(Float, 3)

    def write(x: Float) -> Float:
        dr.scatter(target, TABLE, UInt(0, 1, 2))
        return x * 2

    assert dr.if_stmt((X,), OPAQUE > 1, write, lambda x: x, mode=mode).shape == (0,)
    assert list(target) == [1, 2, 3]


# --- calls -----------------------------------------------------------------------------------------------------------

TARGETS = [lambda x: x + 1, lambda x: x * 2]
#: Index, arguments, and the shape of the result, ``None``: sizes do not go together.
CALLS: dict[str, tuple[Any, ...]] = {
    "no elements": (K, (X,), (0,)), "an argument of one element": (K, (Float(1),), (0,)),
    "an argument without elements": (OPAQUE - 1, (X,), (0,)), "a literal index": (UInt(1), (X,), (0,)),
    "an index of several elements": (UInt(0, 1), (X,), None),
}
MASKED = {"a mask": (OPAQUE - 1, (Float(1), Bool()), (0,)), "a mask of one element": (K, (X, Bool(True)), (0,)),
          "a mask of several elements": (K, (X, Bool(True, False)), None)}


@mode
@pytest.mark.parametrize("name", [*CALLS, *MASKED])
def test_calls(name: str, mode: str) -> None:
    index, args, expected = {**CALLS, **MASKED}[name]
    targets = [lambda x, *mask, target=target: target(x) for target in TARGETS]
    if expected is None:
        with pytest.raises(RuntimeError, match=r"incompatible sizes|go with that of the index|returned 0 elements"):
            dr.switch(index, targets, *args, mode=mode)
    else:
        found = dr.switch(index, targets, *args, mode=mode)
        assert type(found) is Float and found.shape == expected


@mode
def test_instances(mode: str) -> None:
    class Shape:
        def __init__(self, number: float) -> None:
            self.number = number

        def area(self, x: Float) -> tuple[Float, Int]:
            return x * self.number, Int(1)

    ShapePtr = dr.instance_array(Shape, UInt)
    kept = [Shape(1), Shape(2)]
    array = ShapePtr(kept)
    for inst in (ShapePtr(), dr.gather(ShapePtr, array, K), array[K]):
        area, count = dr.dispatch(inst, Shape.area, X, mode=mode)
        assert shapes([area, count]) == [(0,), (0,)] and type(count) is Int


# --- ordinary Python -------------------------------------------------------------------------------------------------


@dr.syntax
def collatz(x: Any, table: Any, scale: Any) -> Any:
    steps = UInt(0)
    while x > 1:
        if x % 2 == 1:
            x = 3 * x + 1
        else:
            x //= 2
        x += UInt(scale * dr.gather(Float, table, x % 3)) * 0
        steps += 1
    return steps, x, table, scale


def test_syntax() -> None:
    assert shapes(collatz(K, TABLE, Float(2))) == [(0,), (0,), (3,), (1,)]
    assert list(collatz(UInt(1, 6, 7), TABLE, Float(2))[0]) == [0, 8, 16]


@pytest.mark.parametrize("package", [llvm, ad], ids=["llvm", "ad"])
@pytest.mark.parametrize("limit", [0, 2, 9])
def test_a_program_that_filters(package: Any, limit: int) -> None:
    """Of several elements, of one, and of none: Newton's iteration for those numbers that exceed a limit."""
    values = np.array([1, 2, 3], np.float32)
    numbers = package.Float(values)
    found = dr.gather(package.Float, numbers, dr.compress(numbers > limit))
    result, _ = dr.while_loop((found, found * 0), lambda x, before: abs(x - before) > 1e-6 * x,
                              lambda x, before: ((x + found / x) / 2, x), mode="symbolic")
    np.testing.assert_allclose(result.numpy(), np.sqrt(values[values > limit]), rtol=1e-6)
