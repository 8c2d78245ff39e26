"""Messages in branches and calls: what is printed and asserted there, and errors that name the construct."""

from __future__ import annotations

import ctypes
import inspect
import io
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import drjit as dr
from drjit.llvm import Bool, Float, TensorXf, UInt32
from drjit_core import SymbolicValue

X = Float(1, 2, 3, 4)
INDEX = UInt32(0, 1, 0, 1)
SYMBOLIC: Any = {"mode": "symbolic"}
Function = Callable[[Any], Any]


def branch(function: Function, mask: Any = None, otherwise: Function = lambda x: x, **arguments: Any) -> Any:
    return dr.if_stmt((X,), X > 2 if mask is None else mask, function, otherwise, **{**SYMBOLIC, **arguments})


def call(function: Function, otherwise: Function = lambda x: x, **arguments: Any) -> Any:
    return dr.switch(INDEX, [function, otherwise], X, **{**SYMBOLIC, **arguments})


def loop(function: Function) -> Any:
    return dr.while_loop((X,), lambda x: x < 10, lambda x: (function(x) + 10,), **SYMBOLIC)


CONSTRUCTS = [("branch", branch), ("call", call)]


# --- what is printed -------------------------------------------------------------------------------------------------


class Output(io.StringIO):
    def show(self, format: str, *values: Any, **arguments: Any) -> Function:
        """A function that prints, and returns its argument."""
        def function(x: Any) -> Any:
            dr.print(format, *(values or (x,)), file=self, **arguments)
            return x
        return function

    def lines(self, result: Any) -> list[str]:
        assert not self.getvalue()
        dr.eval(result)
        assert dr.eval(X * 5)  # nothing is printed twice
        return self.getvalue().splitlines()


@pytest.fixture
def out() -> Output:
    return Output()


def test_each_side_of_a_branch_prints_its_elements(out: Output) -> None:
    result = branch(out.show("yes {thread_id} {}"), otherwise=out.show("no {thread_id} {}"))
    assert out.lines(result) == ["yes [2, 3] [3, 4]", "no [0, 1] [1, 2]"]


def test_each_function_of_a_call_prints_its_elements(out: Output) -> None:
    result = call(out.show("a {thread_id} {}"), out.show("b {thread_id} {}"))
    assert out.lines(result) == ["a [0, 2] [1, 3]", "b [1, 3] [2, 4]"]


def test_elements_that_call_nothing_print_nothing(out: Output) -> None:
    target = out.show("{thread_id} {}")
    masked = dr.switch(UInt32(0, 0, 7, 0), [lambda x, active: target(x)], X, X > 1, **SYMBOLIC)
    assert out.lines(masked) == ["[1, 3] [2, 4]"]


def test_nobody_takes_a_side(out: Output) -> None:
    assert out.lines(branch(out.show("{}"), X > 10)) == []


@pytest.mark.parametrize("mask", [True, False])
def test_masks_that_are_known(out: Output, mask: bool) -> None:
    branch(out.show("yes {}"), Bool(mask), out.show("no {}"))  # is no branch
    assert out.getvalue() == f"{'yes' if mask else 'no'} [1, 2, 3, 4]\n"


@pytest.mark.parametrize(("name", "construct"), CONSTRUCTS)
def test_arrays_from_outside_and_masks(out: Output, name: str, construct: Any) -> None:
    result = construct(out.show("{} {}", X * 2, X, active=X < 4))
    assert out.lines(result) == {"branch": ["[6] [3]"], "call": ["[2, 6] [1, 3]"]}[name]


@pytest.mark.parametrize(("name", "construct"), CONSTRUCTS)
def test_statements_after_writes_from_within(out: Output, name: str, construct: Any) -> None:
    """The functions are traced again, with the array as a further argument; the statement stays one."""
    target, show = dr.zeros(Float, 4), out.show("{}")

    def function(x: Any) -> Any:
        dr.scatter(target, x, UInt32(x) - 1)
        return show(x)

    assert out.lines((construct(function), target)) == {"branch": ["[3, 4]"], "call": ["[1, 3]"]}[name]
    assert target.numpy().tolist() == {"branch": [0, 0, 3, 4], "call": [1, 0, 3, 0]}[name]


def test_nested_statements(out: Output) -> None:
    show = out.show("{thread_id} {}")
    inner = lambda x: dr.if_stmt((x,), x < 4, show, lambda x: x, **SYMBOLIC)  # noqa: E731
    assert out.lines(branch(inner, X > 1)) == ["[1, 2] [2, 3]"]
    for construct, expected in ((branch, "[2] [3]"), (call, "[0, 2] [1, 3]"), (loop, "[0, 1, 2] [1, 2, 3]")):
        another = Output()
        show = another.show("{thread_id} {}")
        assert another.lines(construct(inner)) == [expected]


def test_loops_in_branches_and_calls_in_branches(out: Output) -> None:
    show = out.show("{thread_id} {}")
    result = branch(lambda x: dr.while_loop((x,), lambda x: x < 10, lambda x: (show(x) * 2,), **SYMBOLIC)[0])
    assert out.lines(result) == ["[2, 2, 3, 3] [3, 6, 4, 8]"]
    another = Output()
    show = another.show("{thread_id} {}")
    result = dr.if_stmt((X, INDEX), X > 1, lambda x, i: dr.switch(i, [show, lambda x: x * 1], x, **SYMBOLIC),
                        lambda x, i: x, **SYMBOLIC)
    assert another.lines(result) == ["[2] [3]"]


@pytest.mark.parametrize("construct", [branch, call])
def test_evaluated_constructs_print_at_once(out: Output, construct: Any) -> None:
    construct(out.show("{}"), mode="evaluated")
    assert out.getvalue() == {branch: "[3, 4]\n", call: "[1, 3]\n"}[construct]


# --- what is asserted ------------------------------------------------------------------------------------------------


ASSERTIONS: list[tuple[str, Function]] = [
    ("assert_true", lambda x: dr.assert_true(x != 3, "found {}", x)),
    ("assert_false", lambda x: dr.assert_false(x == 3, "found {}", x)),
    ("assert_equal", lambda x: dr.assert_equal(x == 3, False, "found {}", x)),
]


@pytest.mark.parametrize("assertion", [entry[1] for entry in ASSERTIONS], ids=[entry[0] for entry in ASSERTIONS])
@pytest.mark.parametrize("construct", [branch, call])
def test_assertions_hold_for_the_elements_that_come_by(construct: Any, assertion: Function,
                                                       capsys: pytest.CaptureFixture[str]) -> None:
    with dr.scoped_set_flag(dr.JitFlag.Debug):
        def function(x: Any) -> Any:
            assertion(x)
            return x
        dr.eval(construct(lambda x: x, otherwise=function))  # the third element goes elsewhere
        assert not capsys.readouterr().err
        dr.eval(construct(function))
        text = capsys.readouterr().err
        assert text.startswith("Assertion failure: found [3]\n") and text.count("failure") == 1
        dr.eval(branch(lambda x: dr.if_stmt((x,), x < 4, function, lambda x: x, **SYMBOLIC)))
        text = capsys.readouterr().err
        assert text.startswith("Assertion failure: found [3]\n") and text.count("failure") == 1


@pytest.mark.parametrize("construct", [branch, call])
def test_assertions_of_evaluated_constructs_raise(construct: Any) -> None:
    with dr.scoped_set_flag(dr.JitFlag.Debug), pytest.raises(AssertionError, match=r"found \[3\]"):
        construct(ASSERTIONS[0][1], mode="evaluated")


# --- the scope -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("construct", [branch, call])
@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
def test_the_flag_of_the_symbolic_scope(construct: Any, mode: str) -> None:
    found = []

    def function(x: Any) -> Any:
        found.append(dr.flag(dr.JitFlag.SymbolicScope))
        return x

    construct(function, otherwise=function, mode=mode)
    assert found == [mode == "symbolic"] * 2 and not dr.flag(dr.JitFlag.SymbolicScope)
    with pytest.raises(ZeroDivisionError):
        construct(lambda x: 1 / 0, mode=mode)
    assert not dr.flag(dr.JitFlag.SymbolicScope)
    branch(lambda x: (branch(lambda x: x), function(x))[1])
    assert found[2:] == [True]


# --- errors ----------------------------------------------------------------------------------------------------------


READS: dict[str, Function] = {
    "__getitem__": lambda x: x[0], "__float__": float, "__int__": int, "__bool__": lambda x: bool(x > 1),
    "numpy": lambda x: x.numpy(), "__array__": np.array, "__iter__": list, "__dlpack__": lambda x: x.__dlpack__(),
    "__index__": lambda x: [1, 2][UInt32(x)], "eval": dr.eval, "schedule": dr.schedule,
    "make_opaque": dr.make_opaque, "sum": dr.sum, "all": lambda x: dr.all(x > 1), "sort": dr.sort,
    "cumsum": dr.cumsum, "compress": lambda x: dr.compress(x > 1),
    "while_loop": lambda x: dr.while_loop((x,), lambda x: x > 0, lambda x: (x - 1,), mode="evaluated"),
    "switch": lambda x: dr.switch(UInt32(x), [lambda x: x, lambda x: x + 1], x, mode="evaluated"),
}


def refused(construct: Any, function: Function, **arguments: Any) -> str:
    with pytest.raises(SymbolicValue) as raised:
        construct(function, **arguments)
    return str(raised.value)


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize(("noun", "construct"), [*CONSTRUCTS, ("loop", loop)])
def test_reads_of_symbolic_values_name_the_construct(noun: str, construct: Any, read: str) -> None:
    text = refused(construct, lambda x: (READS[read](x), x)[1])
    name = "state variable 'state[0]'" if noun == "loop" else "argument 'args[0]'"
    assert text.startswith("drjit.") and f"{read}() ({__file__}:" in text
    assert f"the {name} of the symbolic {noun} ({__file__}:" in text and f"before the {noun} runs" in text
    assert f"run the {noun} with mode='evaluated'" in text
    assert not [word for word in {"loop", "branch", "call"} - {noun, read.partition("_")[2]} if f"the {word}" in text]


@pytest.mark.parametrize("construct", [branch, call])
def test_what_may_be_asked_of_symbolic_values(construct: Any) -> None:
    found: list[Any] = []

    def function(x: Any) -> Any:
        found.extend((repr(x), str(x), len(x), x.state, dr.width(x), dr.reshape(TensorXf, x, (2, 2)).shape))
        return x

    construct(function)
    word = "[symbolic array of type drjit.llvm.Float]"
    assert found == [word, word, 4, dr.VarState.Symbolic, 4, (2, 2)]


@pytest.mark.parametrize(("noun", "construct"), CONSTRUCTS)
def test_values_that_have_ended(noun: str, construct: Any) -> None:
    kept: list[Any] = []
    address = id(kept)  # so that constructs do not know it
    construct(lambda x: (ctypes.cast(address, ctypes.py_object).value.append(x * 3), x)[1])
    with pytest.raises(SymbolicValue) as raised:
        kept[0] + 1
    returned = {"branch": "both functions of the branch", "call": "the functions of the call"}[noun]
    assert f"of the symbolic {noun} ({__file__}:" in str(raised.value)
    assert f"which has ended. Such a value exists only while the {noun} is traced: return it from {returned} to use " \
        f"it afterwards, or run the {noun} with mode='evaluated'." in str(raised.value)


def test_labels_and_names() -> None:
    text = refused(branch, float, label="clamp", arg_labels=["position"])
    assert "the argument 'position' of the symbolic branch 'clamp'" in text
    assert "the argument 'args[0]' of the symbolic call 'shade'" in refused(call, float, label="shade")
    with pytest.raises(SymbolicValue, match=r"the argument 'kwargs\['x'\]' of the symbolic call"):
        dr.switch(INDEX, [lambda x: float(x), lambda x: x], x=X, **SYMBOLIC)


def test_values_of_several_constructs() -> None:
    def body(x: Any) -> Any:
        return dr.if_stmt((X + 1,), x > 3, lambda y: float(x + y), lambda y: y, **SYMBOLIC)

    text = refused(loop, body)
    assert "is a value of the symbolic branch" in text
    assert "computed from the state variable 'state[0]' and the argument 'args[0]'" in text
    text = refused(call, lambda x: loop(lambda y: y * float(x)))
    assert "the argument 'args[0]' of the symbolic call" in text


@pytest.mark.parametrize(("noun", "construct"), CONSTRUCTS)
def test_older_contents_of_arrays(noun: str, construct: Any) -> None:
    def function(x: Any) -> Any:
        older = Float(x)
        dr.scatter(x, 1, INDEX)
        return dr.gather(Float, older, INDEX)

    text = refused(construct, function)
    assert f"an older copy of the argument 'args[0]' of the symbolic {noun} (" in text
    assert f"symbolic {'branches' if noun == 'branch' else 'calls'} keep no older contents" in text


@pytest.mark.parametrize(("noun", "construct"), CONSTRUCTS)
def test_other_threads(noun: str, construct: Any) -> None:
    texts = []

    def function(x: Any) -> Any:
        def elsewhere() -> None:
            with pytest.raises(SymbolicValue) as raised:
                x + 1
            texts.append(str(raised.value))
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        return x

    construct(function)
    assert "which another thread is tracing" in texts[0] and f"in the thread that traces the {noun}" in texts[0]


@pytest.mark.parametrize(("noun", "construct"), CONSTRUCTS)
def test_writes_of_another_width(noun: str, construct: Any) -> None:
    target = dr.zeros(Float, 4)

    def function(x: Any) -> Any:
        dr.scatter(target, Float(1, 2, 3), UInt32(0, 1, 2))
        return x

    assert f"this write is part of a symbolic {noun} with 4 elements" in refused(construct, function)


counted: Any = Float(0)


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
def test_loops_assign_variables_from_outside(mode: str) -> None:
    """In each iteration of an element; the arrays that were there stay as they are."""
    global counted
    before = Float(0)
    local = counted = before

    def count(i: Any) -> Any:
        nonlocal local
        local = local + 1
        return (i + 1,)

    def count_globally(i: Any) -> Any:
        global counted
        counted = counted + 1
        return (i + 1,)

    dr.while_loop((UInt32(0, 1, 3),), lambda i: i < 3, count, mode=mode)
    assert list(local) == [3, 2, 0] and counted is before
    dr.while_loop((UInt32(0, 1, 3),), lambda i: i < 3, count_globally, mode=mode)
    assert list(local) == list(counted) == [3, 2, 0] and list(before) == [0]


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
def test_loops_may_assign_what_they_do_not_add_up(mode: str) -> None:
    calls, tables = 0, dict[str, Float]()

    def body(i: Any, x: Any) -> Any:
        nonlocal calls
        calls += 1
        if "table" not in tables:
            tables["table"] = Float(1, 2)
        return i + 1, x + tables["table"]

    _, x = dr.while_loop((UInt32(0, 1), Float(0)), lambda i, x: i < 3, body, mode=mode)
    assert list(x) == [3, 4] and list(tables["table"]) == [1, 2]
    assert calls == (2 if mode == "symbolic" else 3)  # with a table, and without


def test_symbolic_loops_refuse_to_assign_an_array_where_there_was_none() -> None:
    """Elements without an iteration would have none."""
    table: Any = None

    def body(i: Any) -> Any:
        nonlocal table
        table = Float(1, 2) if table is None else table
        return (i + 1,)

    with pytest.raises(SymbolicValue, match=r"drjit.while_loop\(\): the body of this symbolic loop changes the type "
                                            r"of a variable .* from NoneType to drjit.llvm.Float.*Begin with what it"):
        dr.while_loop((UInt32(0, 1),), lambda i: i < 3, body, mode="symbolic")
    assert table is None
    dr.while_loop((UInt32(0, 1),), lambda i: i < 3, body, mode="evaluated")
    assert list(table) == [1, 2]


@pytest.mark.parametrize("mode, expected", [
    ("symbolic", "[0, 0, 1, 1, 2, 2, 3, 3]"), ("evaluated", "[0, 1, 2, 3]\n[0, 1, 2, 3]")])
def test_loops_of_one_element_within_others_print_all_values(out: Output, mode: Any, expected: str) -> None:
    lane = dr.arange(UInt32, 4)

    def inner(i: Any) -> Any:
        dr.print("{}", lane, file=out)
        return (i + 1,)

    def outer(i: Any) -> Any:
        first = dr.while_loop((UInt32(0),), lambda j: j < 1, inner, mode=mode)[0]
        return (i + first,)

    result = dr.while_loop((UInt32(0),), lambda i: i < 2, outer, mode=mode)[0]
    dr.eval(result)
    assert out.getvalue() == expected + "\n"
    assert set(result) == {2}


# --- functions that call themselves ----------------------------------------------------------------------------------


def _by_switch(x: Any, n: Any) -> Any:
    return dr.switch(UInt32(n > 1), [lambda x, n: n, lambda x, n: n * _by_switch(x, n - dr.gather(UInt32, x, n))], x, n)


def _by_branch(x: Any, n: Any) -> Any:
    return dr.if_stmt((x, n), n > 1, lambda x, n: n * _by_branch(x, n - dr.gather(UInt32, x, n)), lambda x, n: n)


def _by_writing_branch(x: Any, n: Any) -> Any:
    def larger(x: Any, n: Any) -> Any:
        dr.scatter(x, n, n & 1)
        return _by_writing_branch(x, n - 1)

    return dr.if_stmt((x, n), n > 1, larger, lambda x, n: n)


def _by_evaluated_branch(x: Any, n: Any) -> Any:
    return dr.if_stmt((n,), n > 1, lambda n: n * _by_evaluated_branch(x, n - 1), lambda n: n, mode="evaluated")


def _by_loop(x: Any, n: Any) -> Any:
    return dr.while_loop((x, n), lambda x, n: n > 1, lambda x, n: (x, _by_loop(x, n - dr.gather(UInt32, x, n))))[1]


@dr.syntax
def _by_syntax(x: Any, n: Any) -> Any:
    if n > 1:
        return n * _by_syntax(x, n - dr.gather(UInt32, x, n))
    return n


@dr.syntax
def _by_syntax_loop(x: Any, n: Any) -> Any:
    while n > 1:
        if n > 5:
            break
        n = _by_syntax_loop(x, n - dr.gather(UInt32, x, n))
    return n


def _by_new_memory(x: Any, n: Any) -> Any:
    return dr.switch(UInt32([0, 1] * 4), [_by_new_memory, lambda x, n: n], x, n)


class _Recursive:
    def go(self, x: Any, n: Any) -> Any:
        return n * _INSTANCES.go(x, n - dr.gather(UInt32, x, n))


_INSTANCES: Any = None

# The last one calls itself through its loop, and what follows its break through a branch within that.
RECURSIVE: list[tuple[Callable[[Any, Any], Any], str | tuple[str, ...], str]] = [
    (_by_switch, "drjit.switch", "_by_switch"), (_by_branch, "drjit.if_stmt", "_by_branch"),
    (_by_writing_branch, "drjit.if_stmt", "_by_writing_branch.larger"),
    (_by_evaluated_branch, "drjit.if_stmt", "_by_evaluated_branch"), (_by_loop, "drjit.while_loop", "_by_loop"),
    (_by_syntax, "drjit.if_stmt", "_by_syntax"), (_by_new_memory, "drjit.switch", "_by_new_memory"),
    (_by_syntax_loop, ("drjit.while_loop", "drjit.if_stmt"), "_by_syntax_loop")]


@pytest.mark.parametrize("function, construct, name", RECURSIVE, ids=[row[2] for row in RECURSIVE])
def test_functions_that_call_themselves_without_end(function: Callable[[Any, Any], Any],
                                                    construct: str | tuple[str, ...], name: str) -> None:
    """Wherever the stack ends, all is undone."""
    before = sys.getrecursionlimit()
    depth = len(inspect.stack(0))
    for limit in range(depth + 150, depth + 200, 3):
        x, n = dr.full(UInt32, 1, 8), UInt32(1, 2, 3)
        sys.setrecursionlimit(limit)
        try:
            with pytest.raises(RecursionError) as caught:
                function(x, n)
        finally:
            sys.setrecursionlimit(before)
        assert list(n) == [1, 2, 3] and list(x) == [1] * 8
        assert list(dr.while_loop((n,), lambda n: n < 3, lambda n: (n + 1,))[0]) == [3, 3, 3]
    message = str(caught.value)
    assert message.partition("(): ")[0] in ((construct,) if isinstance(construct, str) else construct)
    assert name.split(".")[0] in message
    assert "calls itself through this construct" in message and f"({__file__}:" in message
    assert len(caught.traceback) < 6


def test_methods_that_call_themselves_without_end() -> None:
    global _INSTANCES
    array = dr.instance_array(_Recursive, UInt32)
    first, second = _Recursive(), _Recursive()
    _INSTANCES = array([first, second])
    with pytest.raises(RecursionError, match=r"go\(\): _Recursive.go\(\) .* calls itself through this construct"):
        _INSTANCES.go(dr.full(UInt32, 1, 8), UInt32(3, 2))
    assert list(X + 1) == [2, 3, 4, 5]


def test_functions_that_call_themselves_in_a_construct_alone() -> None:
    """Python's own exception, at the line that does it."""
    def endless(x: Any) -> Any:
        return endless(x + 1)

    with pytest.raises(RecursionError, match="maximum recursion depth exceeded"):
        loop(endless)


def test_recursion_that_a_number_ends() -> None:
    def power(x: Any, depth: int) -> Any:
        return x if not depth else branch(lambda x: x * power(x, depth - 1))

    assert list(power(X, 2)) == [1, 2, 27, 64]


# --- names -----------------------------------------------------------------------------------------------------------


@dr.syntax
def _value_and_memory(x: Any, i: Any) -> Any:
    while i < 3:
        x = x + dr.gather(UInt32, x, i)
        i += 1
    return x


@dr.syntax
def _exchanged(x: Any, i: Any) -> Any:
    y = x + 1
    while i < 3:
        i += dr.gather(UInt32, x, i) + 1
        x, y = y, x
    return x


@dr.syntax
def _computed_with(x: Any, i: Any) -> Any:
    while i < 3:
        dr.scatter(x, i, i)
        i = i + x + 1
    return x


@dr.syntax
def _older(x: Any, i: Any) -> Any:
    while i < 3:
        before = UInt32(x)
        dr.scatter(x, i, i)
        x = before
        i = i + 1
    return x


@pytest.mark.parametrize("function", [_value_and_memory, _exchanged, _computed_with, _older])
def test_refused_loops_of_translated_functions_name_the_construct(function: Callable[[Any, Any], Any]) -> None:
    with pytest.raises((NotImplementedError, SymbolicValue), match=r"^drjit.while_loop\(\): "):
        function(UInt32(1, 2, 3), UInt32(0, 1, 2))


# --- lines and labels ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("width", [1, 2])  # a loop of one element turns out to be wider, and is traced again
def test_warnings_of_indices_name_the_access_within_a_loop(width: int) -> None:
    table, first = Float(1, 2, 3), inspect.currentframe().f_lineno  # type: ignore[union-attr]

    def body(i: Any, x: Any) -> Any:
        return i + 1, x + dr.gather(Float, table, i + 2)

    with dr.scoped_set_flag(dr.JitFlag.Debug), pytest.warns(
            RuntimeWarning, match=rf"drjit\.gather\(\): .* position 3 .*\(.*test_messages\.py:{first + 3}\)"):
        dr.eval(dr.while_loop((dr.zeros(UInt32, width), dr.zeros(Float, width)), lambda i, x: i < UInt32(2, 2), body,
                              **SYMBOLIC))
        dr.sync_thread()


@pytest.mark.parametrize("kind, told", [(UInt32, ": compare it, as in x != 0."), (dr.llvm.Array3f, "Array3f."),
                                        (lambda *values: None, "NoneType.")])
def test_conditions_that_are_no_masks(kind: Callable[..., Any], told: str) -> None:
    for construct in (lambda x: dr.while_loop((x,), lambda x: x, lambda x: x - 1),
                      lambda x: dr.if_stmt((x,), x, lambda x: x, lambda x: x)):
        with pytest.raises(TypeError) as caught:
            construct(kind(1, 2, 3))
        assert str(caught.value).endswith(told)


def test_attributes_that_arrays_of_instances_have_not() -> None:
    class Shape:
        def area(self) -> float:
            return 1

    array = dr.instance_array(Shape, UInt32)(Shape())
    with pytest.raises(AttributeError, match=r"'ShapePtr' .* 'volume': .* methods and properties of 'Shape'"):
        array.volume()
    assert not hasattr(array, "_nothing")


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
def test_sizes_of_results_are_told(mode: str) -> None:
    wide, condition = Float(1, 2, 3), Bool(True, False)
    with pytest.raises(RuntimeError, match=r"result 'result' do not go with that of the condition! \(sizes: 3, 2, 2\)"):
        dr.if_stmt((Float(1, 2),), condition, lambda x: wide, lambda x: x, mode=mode)
    with pytest.raises(RuntimeError, match=r"result '.*1.*' do not go with that of the condition! \(sizes: 3, 3, 2\)"):
        dr.if_stmt((Float(1, 2), wide), condition, lambda x, y: (x, 2 * y), lambda x, y: (x, y), mode=mode)
    if mode == "symbolic":
        with pytest.raises(RuntimeError, match=r"result 'result' do not go with that of the index! \(sizes: 2, 3, 2\)"):
            dr.switch(UInt32(0, 1), [lambda x: x, lambda x: wide], Float(1, 2), mode=mode)
