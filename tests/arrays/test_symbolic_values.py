"""Values that exist only while a loop is traced: what is refused, and what the message says about them."""

from __future__ import annotations

import re
import threading
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import drjit as dr
from drjit.llvm import Array3f, Bool, Float, Int, Matrix2f, TensorXf, UInt
from drjit_core import SymbolicValue, rooms

HERE = re.escape(__file__)


def line_of(error: BaseException) -> int:
    """The line of this file that failed last."""
    return [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == __file__][-1]


def refused(use: Callable[[Any], Any], *state: Any, label: str | None = None) -> SymbolicValue:
    """What is raised by using the state variables ``x`` … in the body of a symbolic loop."""
    labels = ("i", "x", "y")[:1 + len(state)]

    def body(i: Any, *rest: Any) -> Any:
        use(*rest)
        return (i + 1, *rest)

    before = [repr(value) for value in state]
    with pytest.raises(SymbolicValue) as caught:
        # in the condition's absence of x, only the body can touch it; it is changed so that it stays a variable
        dr.while_loop((Int(0), *state), lambda i, *rest: i < 3, body, labels=labels, label=label, mode="symbolic")
    assert [repr(value) for value in state] == before
    assert list(Float(1) + 1) == [2]  # tracing goes on as before
    return caught.value


#: Ways to ask for a value, the array, and the function that is named.
USES: dict[str, tuple[Callable[[Any], Any], Any, str]] = {
    "test of a comparison": (lambda x: bool(x > 0), Float(1), "drjit.llvm.Bool.__bool__"),
    "test of a wide comparison": (lambda x: bool(x > 0), Float(1, 2), "drjit.llvm.Bool.__bool__"),
    "if": (lambda x: 1 if x > 0 else 2, Float(1), "drjit.llvm.Bool.__bool__"),
    "and": (lambda x: x > 0 and x < 1, Float(1), "drjit.llvm.Bool.__bool__"),
    "test of a mask": (bool, Bool(True), "drjit.llvm.Bool.__bool__"),
    "element": (lambda x: x[0], Float(1, 2), "drjit.llvm.Float.__getitem__"),
    "element of a nested array": (lambda x: x[0][0], Array3f(1), "drjit.llvm.Float.__getitem__"),
    "item": (lambda x: x.item(), Float(1), "drjit.llvm.Float.item"),
    "list": (list, Float(1, 2), "drjit.llvm.Float.__iter__"),
    "numpy": (lambda x: x.numpy(), Float(1, 2), "drjit.llvm.Float.numpy"),
    "numpy of a nested array": (lambda x: x.numpy(), Array3f(1), "drjit.llvm.Array3f.numpy"),
    "np.array": (np.array, Float(1, 2), "drjit.llvm.Float.__array__"),
    "memoryview": (lambda x: x.memview(), Float(1, 2), "drjit.llvm.Float.memview"),
    "float": (float, Float(1), "drjit.llvm.Float.__float__"),
    "int": (int, UInt(1), "drjit.llvm.UInt.__int__"),
    "range": (range, UInt(1), "drjit.llvm.UInt.__index__"),
    "concat": (lambda x: dr.concat([x, x]), Float(1, 2), "drjit.concat"),
    "ravel": (dr.ravel, Array3f(1, 2, 3), "drjit.ravel"),
    "stack": (lambda x: dr.stack([x, x]), TensorXf([1, 2, 3]), "drjit.stack"),
    "format": (lambda x: f"{x:.2f}", Float(1), "drjit.llvm.Float.__format__"),
    "tolist": (lambda x: x.tolist(), Float(1, 2), "drjit.llvm.Float.tolist"),
    "DLPack": (np.from_dlpack, Float(1, 2), "drjit.llvm.Float.__dlpack__"),
    "eval": (dr.eval, Float(1, 2), "drjit.eval"),
    "eval of a tree": (lambda x: dr.eval([{"a": x}]), Float(1, 2), "drjit.eval"),
    "schedule": (dr.schedule, Array3f(1), "drjit.schedule"),
    "make_opaque": (dr.make_opaque, Float(1, 2), "drjit.make_opaque"),
    "all": (lambda x: dr.all(x > 1), Float(1, 2), "drjit.all"),
    "sum": (dr.sum, Float(1, 2), "drjit.sum"),
    "gather": (lambda x: dr.gather(Float, x * 2, UInt(0)), Float(1, 2), "drjit.gather"),
    "tensor": (lambda x: x.numpy(), TensorXf([1, 2]), "drjit.llvm.TensorXf.numpy"),
    "matrix": (lambda x: np.array(x), Matrix2f(1), "drjit.llvm.Matrix2f.__array__"),
}


@pytest.mark.parametrize(("use", "array", "function"), USES.values(), ids=USES.keys())
def test_a_message_names_function_variable_loop_line_and_remedy(use, array, function) -> None:
    error = refused(use, array, label="newton")
    text = str(error)
    assert text.startswith(f"{function}() ({__file__}:{line_of(error)}): "), text
    assert "symbolic" in text
    assert re.search(r"the state variable 'x(\.x|\[0\]\[0\])?'|computed from the state variable 'x'", text), text
    assert re.search(rf"of the symbolic loop 'newton' \({HERE}:\d+\), which is being traced", text), text
    assert "mode='evaluated'" in text
    assert "drjit.select()" in text or "in memory" in text or "all elements" in text


@pytest.mark.parametrize(("use", "words"), [
    (lambda x, y: dr.eval(x), "the state variable 'x' of"),
    (lambda x, y: dr.eval(x + 1), "a value computed from the state variable 'x' of"),
    (lambda x, y: dr.eval(x * dr.sin(y)), "a value computed from the state variables 'x' and 'y' of"),
])
def test_values_are_described_by_what_they_are_computed_from(use, words) -> None:
    assert words in str(refused(use, Float(1), Float(2)))


def test_a_label_of_ones_own_is_mentioned() -> None:
    def use(x: Float) -> None:
        step = x * 2
        dr.set_label(step, "step")
        dr.eval(step)

    assert "a value, labelled 'step', computed from the state variable 'x'" in str(refused(use, Float(1)))


def test_entries_of_structures_are_named_by_their_place() -> None:
    def body(i: Int, s: Any) -> Any:
        dr.eval(s["p"][1].z)
        return i + 1, s

    with pytest.raises(SymbolicValue, match=r"the state variable 's\['p'\]\[1\]\.z' of the symbolic loop"):
        dr.while_loop((Int(0), {"p": [1, Array3f(1)]}), lambda i, s: i < 3, body, labels=("i", "s"), mode="symbolic")


def test_conditions_are_part_of_the_loop() -> None:
    with pytest.raises(SymbolicValue, match="computed from the state variable 'i'"):
        dr.while_loop((Int(0),), lambda i: Bool(bool(i < 3)), lambda i: (i + 1,), labels=("i",), mode="symbolic")


def test_loops_within_loops_name_their_own_variables() -> None:
    def outer(i: Int, x: Float) -> tuple[Int, Float]:
        def inner(k: Int, y: Float) -> tuple[Int, Float]:
            with pytest.raises(SymbolicValue, match=r"the state variable 'k' of the symbolic loop 'inner'"):
                dr.eval(k)
            with pytest.raises(SymbolicValue,
                               match=r"'inner' .*, computed from the state variables 'x' and 'y', which"):
                dr.eval(y + x)
            with pytest.raises(SymbolicValue, match=r"the state variable 'x' of the symbolic loop 'outer'"):
                dr.eval(x)
            return k + 1, y * x

        _, y = dr.while_loop((Int(0), x + 1), lambda k, y: k < 2, inner, labels=("k", "y"), label="inner")
        return i + 1, y + x

    dr.while_loop((Int(0), Float(1)), lambda i, x: i < 2, outer, labels=("i", "x"), label="outer")


# --- values that leave their loop ------------------------------------------------------------------------------------


@pytest.mark.parametrize("use", [dr.eval, list, lambda x: x[0], lambda x: dr.eval(x + 1), lambda x: repr(x * 2),
                                 lambda x: dr.sum(x), lambda x: dr.eval(dr.select(x > 0, Float(1, 2), 3)),
                                 lambda x: dr.eval(dr.gather(Float, Float(1, 2), UInt(x)), Float(3) + 1)])
def test_what_was_kept_from_a_loop_cannot_be_used(use) -> None:
    kept: list[Any] = []

    def body(i: Int, x: Float) -> tuple[Int, Float]:
        kept.append(x)
        return i + 1, x * 2

    _, x = dr.while_loop((Int(0), Float(1, 2)), lambda i, x: i < 3, body, label="newton")
    with pytest.raises(SymbolicValue, match=rf"the symbolic loop 'newton' \({HERE}:\d+\), which has ended.*as part of"):
        use(kept[0])
    assert list(x) == [8, 16]


def test_other_arrays_are_evaluated_after_a_mistake() -> None:
    kept: list[Any] = []
    dr.while_loop((Int(0),), lambda i: i < 3, lambda i: (kept.append(i), (i + 1,))[1])
    target, other = dr.zeros(Float, 3), Float(1, 2) + 1
    dr.scatter(target, Float(5), UInt(1))
    dr.schedule(other)
    with pytest.raises(SymbolicValue):
        dr.eval(kept[0] + 1)
    assert dr.eval()
    assert other.state is dr.VarState.Evaluated
    assert target.state is dr.VarState.Evaluated
    assert list(target) == [0, 5, 0]


def test_what_a_loop_computed_of_outside_values_may_be_kept() -> None:
    kept: list[Float] = []
    a = Float(1, 2) + 1

    def body(i: Int) -> tuple[Int]:
        kept.append(a * 2)
        return (i + 1,)

    dr.while_loop((Int(0),), lambda i: i < 3, body)
    assert list(kept[0] + 1) == [5, 7]


def test_a_loop_uses_what_was_kept_from_another() -> None:
    kept: list[Any] = []
    dr.while_loop((Int(0),), lambda i: i < 3, lambda i: (kept.append(i), (i + 1,))[1], label="first")
    with pytest.raises(SymbolicValue, match=r"'first' .*, which has ended") as caught:
        dr.while_loop((Int(0),), lambda i: i < 3, lambda i: (i + kept[0],), label="second")
    what = "operation" if rooms.compiled else "drjit.llvm.Int.__add__()"  # compiled operators have no frames
    assert f"{what} ({__file__}:{line_of(caught.value)}): this array is symbolic" in str(caught.value)


@pytest.mark.parametrize("use", [
    lambda x: x + 1, lambda x: x + 2.5, lambda x: 2.5 - x, lambda x: x // Float(2), lambda x: x ** 2,
    lambda x: x ** 2.5, lambda x: 2 ** x, lambda x: x @ x, lambda x: 2 @ x, lambda x: -x, Float, Array3f,
    TensorXf, Matrix2f,
])
def test_functions_that_messages_name_are_those_of_the_array(use: Callable[[Any], Any]) -> None:
    kept: list[Any] = []
    dr.while_loop((Int(0),), lambda i: i < 3, lambda i: (kept.append(i), (i + 1,))[1])
    with pytest.raises(SymbolicValue) as caught:
        use(kept[0])
    named = str(caught.value).partition("(")[0].rstrip()
    owner, _, name = named.rpartition(".")
    assert named == "operation" or hasattr(getattr(dr.llvm, owner.rpartition(".")[2]), name), named


# --- advice ----------------------------------------------------------------------------------------------------------


def test_advice_names_what_exists() -> None:
    """Names of functions in messages, in all sources, are those of functions that can be called."""
    import pathlib

    root = pathlib.Path(dr.__file__).parent
    sources = [*root.rglob("*.py"), *pathlib.Path(__import__("drjit_core").__file__).parent.rglob("*.py")]
    found = set()
    for source in sources:
        if source.name == "later.py":
            continue
        for name in re.findall(r"(?:@?\bdr|drjit)\.([a-z_]+[a-z])\(\)", source.read_text()):
            found.add(name)
    assert "select" in found
    missing = {name for name in found if type(getattr(dr, name, None)).__name__ in ("Later", "NoneType")}
    assert not missing


@pytest.mark.parametrize("use", [
    lambda x: x + 1, lambda x: bool(x == 1), dr.eval, lambda x: x[0], lambda x: dr.gather(Float, Float(1, 2), x),
    dr.sum, lambda x: dr.scatter(x, 1, 0), lambda x: dr.while_loop((Int(0),), lambda y: y < x, lambda y: (y + 1,)),
], ids=["operator", "bool", "eval", "element", "gather", "sum", "scatter", "loop"])
def test_values_of_a_loop_that_another_thread_traces(use: Callable[[Any], Any]) -> None:
    caught: list[Any] = []

    def elsewhere(x: Int) -> None:
        try:
            caught.append(use(x))
        except SymbolicValue as error:
            caught.append(error)

    def body(i: Int) -> tuple[Int]:
        thread = threading.Thread(target=elsewhere, args=(i,))
        thread.start()
        thread.join()
        return (i + 1,)

    (i,) = dr.while_loop((Int(0, 1),), lambda i: i < 3, body, labels=("i",), mode="symbolic")
    assert list(i) == [3, 3]
    assert caught
    for error in caught:
        assert isinstance(error, SymbolicValue)
        assert "the state variable 'i'" in str(error)
        assert "which another thread is tracing" in str(error)
        assert "drjit.select" not in str(error)  # which is no help there


@pytest.mark.parametrize("source", [dr.zeros(Float, 10), Float(1, 2, 3)], ids=["literal", "memory"])
@pytest.mark.parametrize("active", [True, False])
def test_an_index_that_leaked_is_refused_whatever_is_read(source: Float, active: bool) -> None:
    leaked: list[Any] = []

    def body(i: Any) -> Any:
        leaked.append(i)
        return (i + 1,)

    dr.while_loop((UInt(0),), lambda i: i < 3, body, mode="symbolic")
    with pytest.raises(SymbolicValue, match=r"drjit\.gather\(\) .* which has ended"):
        dr.gather(Float, source, leaked[0], Bool(active))
