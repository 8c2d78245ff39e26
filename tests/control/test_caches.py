"""What functions keep for later: caches, in dictionaries, attributes and by classes; and in which order it is."""

from __future__ import annotations

import contextlib
import contextvars
import functools
import gc
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import conformance.called_once
import drjit as dr
from drjit._base.errors import ArgumentError
from drjit.llvm.ad import Bool
from drjit.llvm.ad import Float64 as F
from drjit.llvm.ad import UInt32 as U

MODES = "symbolic", "evaluated"
modes = pytest.mark.parametrize("mode", MODES)
M = [True, False, True, False]


@pytest.fixture(autouse=True)
def without_cycles() -> Iterator[None]:
    """Classes are cycles, which keep what their methods know alive."""
    yield
    gc.collect()


def base() -> Any:
    return F(1, 2, 3, 4)


def of(array: Any) -> list[float]:
    return [float(value) for value in array.numpy()]


# --- places that are asked for ---------------------------------------------------------------------------------------

#: How something is kept: given a box, whether it is there, and what computes it.
Keeps = Callable[[SimpleNamespace, Callable[[], Any]], Any]


def contains(box: SimpleNamespace, compute: Callable[[], Any]) -> Any:
    if "k" not in box.table:
        box.table["k"] = compute()
    return box.table["k"]


def contains_by_another_name(box: SimpleNamespace, compute: Callable[[], Any]) -> Any:
    table = box.table
    if "k" not in table:
        table["k"] = compute()
    return table["k"]


def gets(box: SimpleNamespace, compute: Callable[[], Any]) -> Any:
    found = box.table.get("k")
    if found is None:
        found = box.table["k"] = compute()
    return found


def sets_default(box: SimpleNamespace, compute: Callable[[], Any]) -> Any:
    return box.table.setdefault("k", compute())


def catches(box: SimpleNamespace, compute: Callable[[], Any]) -> Any:
    try:
        return box.table["k"]
    except KeyError:
        found = box.table["k"] = compute()
        return found


def is_filled(box: SimpleNamespace, compute: Callable[[], Any]) -> Any:
    if not box.table:
        box.table["k"] = compute()
    return box.table["k"]


def counts(box: SimpleNamespace, compute: Callable[[], Any]) -> Any:
    if len(box.table) == 0:
        box.table["k"] = compute()
    return box.table["k"]


def getattr_with_default(box: SimpleNamespace, compute: Callable[[], Any]) -> Any:
    found = getattr(box, "k", None)
    if found is None:
        found = box.k = compute()
    return found


def hasattr_of_object(box: SimpleNamespace, compute: Callable[[], Any]) -> Any:
    if not hasattr(box, "k"):
        box.k = compute()
    return box.k


def catches_attribute(box: SimpleNamespace, compute: Callable[[], Any]) -> Any:
    try:
        return box.k
    except AttributeError:
        box.k = compute()
        return box.k


KEEPS: list[Keeps] = [contains, contains_by_another_name, gets, sets_default, catches, is_filled, counts,
                      getattr_with_default, hasattr_of_object, catches_attribute]
keeps_ = pytest.mark.parametrize("keep", KEEPS, ids=lambda keep: keep.__name__)


def chosen(how: str, mode: str, x: Any, yes: Callable[[Any], Any], no: Callable[[Any], Any] = lambda x: x,
           mask: Any = M) -> Any:
    """The result of one of two sides."""
    if how == "branch":
        return dr.if_stmt((x,), Bool(mask), yes, no, mode=mode)
    return dr.switch(dr.select(Bool(mask), U(0), U(1)), [yes, no], x, mode=mode)


#: What is said of a place that only some elements would have something in, to who uses that.
DEPENDS = "this array has no value: .* has put it in .*, where nothing was, and other elements have nothing there"


@contextlib.contextmanager
def refused(use: Callable[[], Any], words: str = DEPENDS) -> Iterator[None]:
    """What only some elements have is refused where it is used afterwards."""
    yield
    with pytest.raises(RuntimeError, match=words):
        use() + 1


@modes
@pytest.mark.parametrize("how", ["branch", "call"])
@keeps_
def test_what_one_side_computes_of_its_elements_and_keeps_is_refused(keep: Keeps, how: str, mode: str) -> None:
    box = SimpleNamespace(table={})
    with refused(lambda: keep(box, base), r"this array has no value: .* has put it in the (entry|attribute) 'k' of"):
        assert of(chosen(how, mode, base(), lambda x: x + keep(box, lambda: x * 10))) == [11, 2, 33, 4]


@modes
@keeps_
def test_what_one_side_keeps_within_a_loop_is_refused(keep: Keeps, mode: str) -> None:
    """Later iterations would find zeros for elements that have not taken the side before."""
    box = SimpleNamespace(table={})

    def body(i: Any, x: Any, y: Any) -> Any:
        x = dr.if_stmt((x, y), (U(0, 1, 0, 1) + i) % 2 == 0, lambda x, y: x + keep(box, lambda: y * 10),
                       lambda x, y: x, mode=mode)
        return i + 1, x, y + 1

    with pytest.raises(RuntimeError, match=DEPENDS):
        dr.while_loop((U(0, 0, 0, 0), F(0), base()), lambda i, x, y: i < U(0, 1, 2, 3), body, mode=mode)
    assert not box.table and not hasattr(box, "k")


@modes
@keeps_
def test_what_depends_on_no_element_is_kept_for_all(keep: Keeps, mode: str) -> None:
    box, known = SimpleNamespace(table={}), base()
    result = chosen("branch", mode, F(1, 1, 1, 1), lambda x: x + keep(box, lambda: known * 10))
    assert of(result) == [11, 1, 31, 1]
    assert of(keep(box, lambda: None)) == [10, 20, 30, 40]


@modes
@keeps_
def test_what_both_sides_keep_is_there_for_all(keep: Keeps, mode: str) -> None:
    box = SimpleNamespace(table={})
    result = chosen("branch", mode, base(), lambda x: x + keep(box, lambda: x * 10),
                    lambda x: x - keep(box, lambda: x * 10))
    assert of(result) == [11, -18, 33, -36]
    assert of(keep(box, lambda: F(0))) == [10, 20, 30, 40]


@modes
@keeps_
def test_what_is_read_by_the_elements_of_a_side_is_not_kept(keep: Keeps, mode: str) -> None:
    box, table, index = SimpleNamespace(table={}), dr.opaque(F, 5, 8), dr.opaque(U, 2, 4)
    with refused(lambda: keep(box, base)):
        assert of(chosen("branch", mode, base(), lambda x: x + keep(box, lambda: dr.gather(F, table, index)))) == \
            [6, 2, 8, 4]


@modes
@pytest.mark.parametrize("start", [F(1, 2, 3, 4), F(2)], ids=["evaluated", "constant"])
def test_what_is_computed_of_what_a_side_has_changed_is_not_kept(start: Any, mode: str) -> None:
    box = SimpleNamespace(table={}, n=F(start))

    def side(x: Any) -> Any:
        box.n += 1
        return x + contains(box, lambda: box.n * 10)

    before = of(start) * (4 // len(start))
    with refused(lambda: box.table["k"]):
        assert of(chosen("branch", mode, base(), side)) == [
            x + 10 * (n + 1) if m else x for x, n, m in zip(of(base()), before, M, strict=True)]
    assert of(box.n) == [n + m for n, m in zip(before, M, strict=True)]


@modes
def test_a_list_that_one_side_fills_is_refused(mode: str) -> None:
    """Whoever looks into it later would find zeros for elements that have not taken the side."""
    entries: list[Any] = []

    def keep(x: Any) -> Any:
        if not entries:
            entries.append(x * 10)
        return x + entries[0]

    with refused(lambda: entries[0], "has put it in the entry 0 of the list 'entries', where nothing was"):
        assert of(chosen("branch", mode, base(), keep)) == [11, 2, 33, 4]
    entries[:] = [F(0, 0, 0, 0)]
    assert of(chosen("branch", mode, base(), keep)) == [1, 2, 3, 4]


# --- what classes keep -----------------------------------------------------------------------------------------------


class Plain:
    """Something that is no PyTree."""

    def __init__(self, x: Any = None) -> None:
        self.x = x

    @functools.cached_property
    def big(self) -> Any:
        return self.x * 10


class Tree:
    """The same, of which functions are given arrays of their own."""

    DRJIT_STRUCT = {"x": F}  # noqa: RUF012

    def __init__(self, x: Any = None) -> None:
        self.x = x

    @functools.cached_property
    def big(self) -> Any:
        return self.x * 10


@modes
@pytest.mark.parametrize("how", ["branch", "call", "both"])
def test_what_a_class_computes_of_some_elements_is_computed_again(how: str, mode: str) -> None:
    tree = Tree(base())

    def side(tree: Any, x: Any) -> Any:
        return x + tree.big, tree

    def other(tree: Any, x: Any) -> Any:
        return x, tree

    if how == "branch":
        x, _ = dr.if_stmt((tree, F(0)), Bool(M), side, other, mode=mode)
    else:
        x, _ = dr.switch(U(0, 1, 0, 1), [side, side if how == "both" else other], tree, F(0, 0, 0, 0), mode=mode)
    assert of(x) == ([10, 20, 30, 40] if how == "both" else [10, 0, 30, 0])
    assert of(tree.big) == [10, 20, 30, 40]


@modes
@pytest.mark.parametrize("cls", [Plain, Tree])
def test_what_a_class_computes_in_a_loop_of_what_that_changes(cls: Any, mode: str) -> None:
    """Later iterations find it, elements without an iteration compute it."""
    known = cls(base())

    def step(thing: Any, x: Any) -> Any:
        thing.x += 1
        return x + thing.big

    if cls is Plain:
        _, x = dr.while_loop((U(0), F(0)), lambda i, x: i < U(0, 1, 2, 3),
                             lambda i, x: (i + 1, step(known, x)), mode=mode)
    else:
        _, x, _ = dr.while_loop((U(0), F(0), known), lambda i, x, thing: i < U(0, 1, 2, 3),
                                lambda i, x, thing: (i + 1, step(thing, x), thing), mode=mode)
    assert of(x) == [0, 30, 80, 150]
    assert of(known.x) == [1, 3, 5, 7] and of(known.big) == [10, 30, 50, 70]


@modes
@pytest.mark.parametrize("loop", [False, True])
def test_what_a_class_reads_for_some_elements_is_read_again(loop: bool, mode: str) -> None:
    table, index = dr.opaque(F, 5, 8) + dr.arange(F, 8), dr.arange(U, 4)

    class Reader:
        @functools.cached_property
        def read(self) -> Any:
            return dr.gather(F, table, index)

    reader = Reader()
    if loop:
        _, x = dr.while_loop((U(0), F(0)), lambda i, x: i < U(0, 1, 2, 0), lambda i, x: (i + 1, x + reader.read),
                             mode=mode)
        assert of(x) == [0, 6, 14, 0]
    else:
        assert of(chosen("branch", mode, F(0, 0, 0, 0), lambda x: x + reader.read)) == [5, 0, 7, 0]
    assert of(reader.read) == [5, 6, 7, 8]


@modes
@pytest.mark.parametrize("copied", [False, True])
@pytest.mark.parametrize("how", ["branch", "call"])
def test_modes_agree_on_arrays_that_are_the_same_as_arguments(how: str, copied: bool, mode: str) -> None:
    x = base()
    known, box = F(x) if copied else x, SimpleNamespace()

    def side(x: Any) -> Any:
        box.k = known * 2
        return x + 1

    with refused(lambda: box.k):
        assert of(chosen(how, mode, x, side)) == [2, 2, 4, 4]
    vars(box).clear()
    chosen("branch", mode, x, side, side)
    assert of(box.k) == [2, 4, 6, 8]


@modes
@pytest.mark.parametrize("how", ["branch", "call", "loop"])
@pytest.mark.parametrize("keeping", [functools.cache, functools.lru_cache], ids=["cache", "lru_cache"])
@pytest.mark.parametrize("reads", [False, True])
def test_what_a_function_keeps_of_some_elements_is_computed_again(reads: bool, keeping: Any, how: str,
                                                                  mode: str) -> None:
    table, index, scale = dr.opaque(F, 5, 8) + dr.arange(F, 8), dr.arange(U, 4), F(3)

    @keeping
    def kept() -> Any:
        return dr.gather(F, table, index) if reads else dr.sin(scale)

    def use(x: Any) -> Any:
        kept()
        return x

    if how == "loop":
        dr.while_loop((U(0, 0, 0, 0),), lambda i: i < U(0, 1, 2, 0), lambda i: (use(i) + 1,), mode=mode)
    else:
        chosen(how, mode, base(), use)
    expected = [5, 6, 7, 8] if reads else [np.sin(3)]
    np.testing.assert_allclose(kept().numpy(), expected)
    assert kept.cache_info().hits == (not reads) + (how == "loop" and mode == "evaluated" and not reads)


# --- threads ---------------------------------------------------------------------------------------------------------


def elsewhere(function: Callable[[], Any]) -> Any:
    """What a function returns in another thread."""
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(function()))
    thread.start()
    thread.join()
    return found[0]


KNOWN = {"constant": lambda: F(5), "evaluated": lambda: dr.opaque(F, 5), "wide": base}


@modes
@pytest.mark.parametrize("how", ["in place", "by index"])
@pytest.mark.parametrize("kind", KNOWN)
def test_threads_that_a_body_starts_change_what_it_uses_in_each_iteration_or_it_is_refused(kind: str, how: str,
                                                                                          mode: str) -> None:
    known = KNOWN[kind]()
    before = known.numpy().copy()

    def change() -> None:
        nonlocal known
        if how == "in place":
            known += 1
        else:
            dr.scatter_add(known, F(1), U(0))

    def body(i: Any, x: Any) -> Any:
        elsewhere(change)
        return i + 1, x + known

    def run() -> Any:
        return dr.while_loop((U(0), F(0, 0, 0, 0)), lambda i, x: i < 2, body, mode=mode)[1]

    if mode == "symbolic":
        with pytest.raises(RuntimeError, match=r"another thread changes the array 'known'.*mode='evaluated'"):
            run()
    else:
        first = np.zeros_like(before)
        first[:1 if how == "by index" else None] = 1
        np.testing.assert_allclose(run().numpy(), np.broadcast_to(2 * before + 3 * first, 4))


@pytest.mark.parametrize("kind", KNOWN)
def test_threads_that_look_at_what_a_body_has_changed(kind: str) -> None:
    known, seen = KNOWN[kind](), list[Any]()
    before = known.numpy().copy()

    def body(i: Any, x: Any) -> Any:
        nonlocal known
        known += 1
        seen.append(elsewhere(lambda: of(known)))
        return i + 1, x + known

    def run() -> Any:
        return dr.while_loop((U(0), F(0, 0, 0, 0)), lambda i, x: i < 2, body, mode="evaluated")[1]

    np.testing.assert_allclose(run().numpy(), np.broadcast_to(2 * before + 3, 4))


@modes
def test_data_that_a_body_makes_may_be_put_in_captured_arrays(mode: str) -> None:
    known = dr.llvm.Array3f(F(1, 2, 3, 4), 1, 2)

    def body(i: Any) -> Any:
        known[0] = F([5, 6, 7, 8])
        return (i - 1,)

    dr.while_loop((dr.llvm.Int(2, 0, 3, 1),), lambda i: i > 0, body, mode=mode)
    assert list(known[0]) == [5, 2, 7, 8]


# --- orders ----------------------------------------------------------------------------------------------------------


@modes
@pytest.mark.parametrize("cls", [dict, OrderedDict])
@pytest.mark.parametrize("state", [False, True])
def test_iterations_that_find_the_order_of_the_last_one_or_are_refused(state: bool, cls: Any, mode: str) -> None:
    table = cls(a=F(1, 1, 1), b=F(2, 2, 2))

    def rotate(table: Any) -> Any:
        key = next(iter(table))
        table[key] = table.pop(key) + 1

    def body(i: Any, *rest: Any) -> Any:
        rotate(*rest or (table,))
        return i + 1, *rest

    def run() -> None:
        dr.while_loop((U(0), *(table,) * state), lambda i, *rest: i < U(1, 2, 3), body, mode=mode)

    if mode == "symbolic":
        with pytest.raises(RuntimeError, match=r"changes the order of the entries of a .*ict in each iteration"):
            run()
        assert {key: of(value) for key, value in table.items()} == {"a": [1, 1, 1], "b": [2, 2, 2]}
    else:
        run()
        assert {key: of(value) for key, value in table.items()} == {"b": [2, 3, 3], "a": [2, 2, 3]}
    assert list(table) == (["a", "b"] if mode == "symbolic" else ["b", "a"])


@modes
def test_orders_that_nobody_looks_at_do_not_matter(mode: str) -> None:
    table = {"a": F(1, 1, 1), "b": F(2, 2, 2)}

    def body(i: Any) -> Any:
        table["a"] = table.pop("a") + 1
        return (i + 1,)

    dr.while_loop((U(0),), lambda i: i < U(1, 2, 3), body, mode=mode)
    assert {key: of(value) for key, value in table.items()} == {"a": [2, 3, 4], "b": [2, 2, 2]}
    assert list(table) == ["b", "a"]


@modes
def test_later_iterations_find_the_order_that_the_first_one_leaves(mode: str) -> None:
    table = {"a": F(1, 1, 1), "b": F(2, 2, 2)}

    def body(i: Any, x: Any) -> Any:
        x = x * 10 + next(iter(table.values()))
        table["a"] = table.pop("a") + 4
        return i + 1, x

    _, x = dr.while_loop((U(0), F(0)), lambda i, x: i < U(1, 2, 3), body, mode=mode)
    assert of(x) == [1, 12, 122] and list(table) == ["b", "a"] and of(table["a"]) == [5, 9, 13]


@modes
@pytest.mark.parametrize("state", [False, True])
def test_an_order_that_both_sides_leave_remains(state: bool, mode: str) -> None:
    table = {"a": F(1, 1), "b": F(2, 2)}

    def side(x: Any, *rest: Any) -> Any:
        inner = rest[0] if rest else table
        inner["a"] = inner.pop("a") + 1
        return x + next(iter(inner.values())), *rest

    x, *_ = dr.if_stmt((F(0, 0), *(table,) * state), Bool(True, False), side, side, mode=mode)
    assert of(x) == [2, 2] and list(table) == ["b", "a"] and of(table["a"]) == [2, 2]


@modes
@pytest.mark.parametrize("how", ["branch", "call"])
def test_an_order_that_one_side_changes_is_refused(how: str, mode: str) -> None:
    table = {"a": F(1, 1, 1), "b": F(2, 2, 2)}

    def move(x: Any) -> Any:
        table["a"] = table.pop("a")
        return x

    with pytest.raises(ArgumentError, match="changes the order of the entries of the dict 'table', which only some"):
        chosen(how, mode, base(), move)
    assert list(table) == ["a", "b"]


# --- what is removed, and what remains -------------------------------------------------------------------------------


@modes
@pytest.mark.parametrize("state", [False, True])
def test_what_both_sides_remove_is_gone(state: bool, mode: str) -> None:
    entries, table = [F(1, 2), F(3, 4)], {"a": F(5, 6), "b": F(7, 8)}

    def side(sign: int) -> Callable[..., Any]:
        def function(x: Any, *rest: Any) -> Any:
            first, second = rest or (entries, table)
            return x + sign * (first.pop() + second.pop("a")), *rest
        return function

    x, *_ = dr.if_stmt((F(0, 0), *(entries, table) * state), Bool(True, False), side(1), side(-1), mode=mode)
    assert of(x) == [8, -10]
    assert [of(entry) for entry in entries] == [[1, 2]] and list(table) == ["b"]


@modes
def test_what_both_sides_remove_first_lets_others_move(mode: str) -> None:
    entries = [F(1, 2), F(3, 4), F(5, 6)]
    held = entries[1:]
    x = dr.if_stmt((F(0, 0),), Bool(True, False), lambda x: x + entries.pop(0), lambda x: x - entries.pop(0),
                   mode=mode)
    assert of(x) == [1, -2] and [of(entry) for entry in entries] == [[3, 4], [5, 6]]
    assert all(entry is other for entry, other in zip(entries, held, strict=True))


@modes
@pytest.mark.parametrize("how", ["branch", "call"])
def test_what_one_side_removes_is_called_by_its_name(how: str, mode: str) -> None:
    hits = [F(1)]
    with pytest.raises(ArgumentError, match="removes the entry 0 of the list 'hits', which only some elements"):
        chosen(how, mode, base(), lambda x: x + hits.pop())
    assert len(hits) == 1


def test_functions_of_the_kernel_are_called_by_their_names() -> None:
    hits = [F(1, 2)]

    @dr.func
    def remove(x: Any) -> Any:
        return x + hits.pop()

    @dr.func
    def own(x: Any) -> Any:
        memory = dr.zeros(F, 2)
        dr.scatter_add(memory, x, U(0, 1))
        return memory

    with pytest.raises(ArgumentError, match=r"^drjit.func\(\): 'remove' removes the entry 0 of the list 'hits'"):
        remove(F(1, 2))
    with pytest.raises(RuntimeError, match=r"^drjit.func\(\): a function writes"):
        own(F(1, 2))


@modes
def test_a_literal_that_both_sides_return_is_one(mode: str) -> None:
    one, other, x = dr.if_stmt((F(1, 2),), Bool(True, False), lambda x: (F(1), F(2), x), lambda x: (F(1), F(3), x + 1),
                               mode=mode)
    assert one.state == dr.VarState.Literal and list(one) == [1]
    assert of(other) == [2, 3] and of(x) == [1, 3]


@modes
@pytest.mark.parametrize("construct", ["loop", "branch", "call"])
def test_variables_of_contexts_that_had_no_value_hold_none_of_a_body_that_raises(construct: str, mode: str) -> None:
    variable: contextvars.ContextVar[Any] = contextvars.ContextVar("variable")

    def act(x: Any) -> Any:
        variable.set(x * 2)
        raise KeyError

    def run() -> None:
        with pytest.raises(KeyError):
            if construct == "loop":
                dr.while_loop((U(0), F(1, 2)), lambda i, x: i < 2, lambda i, x: (i + 1, act(x)), mode=mode)
            elif construct == "branch":
                dr.if_stmt((F(1, 2),), Bool(True, False), act, lambda x: x, mode=mode)
            else:
                dr.switch(U(0, 1), [act, lambda x: x], F(1, 2), mode=mode)
        assert variable.get(None) is None

    contextvars.Context().run(run)


def test_examples_without_their_packages_are_not_run(monkeypatch: pytest.MonkeyPatch,
                                                     capsys: pytest.CaptureFixture[str]) -> None:
    called_once = conformance.called_once

    def missing(name: str) -> Callable[[Any], None]:
        def run(path: Any) -> None:
            raise ModuleNotFoundError(name=name)
        return run

    monkeypatch.setattr(called_once, "install", lambda dr: None)
    monkeypatch.setattr(called_once.sys, "path", list(called_once.sys.path))
    monkeypatch.setattr(called_once, "run_example", missing("torch"))
    assert called_once.run_here(called_once.ROOT / "examples" / "torch_throw.py") == 0
    monkeypatch.setattr(called_once, "run_example", missing("drjit.nowhere"))
    with pytest.raises(ModuleNotFoundError):
        called_once.run_here(called_once.ROOT / "examples" / "torch_throw.py")


@modes
@pytest.mark.parametrize("later", ["evaluated", "symbolic"])
def test_an_object_that_holds_what_nobody_can_use_may_be_evaluated_and_be_state(later: str, mode: str) -> None:
    table = {"w": base()}

    def keep(x: Any) -> Any:
        table["k"] = x * 10
        return x + 1

    chosen("branch", mode, base(), keep)
    dr.schedule(table)
    dr.eval(table)
    dr.make_opaque(table)
    _, table, sums = dr.while_loop((U(0, 1, 2, 3), table, F(0)), lambda i, t, s: i < 3,
                                   lambda i, t, s: (i + 1, t, s + t["w"]), mode=later)
    assert of(sums) == [3, 4, 3, 0]
    sums = dr.switch(U(0, 1, 0, 1), [lambda x, t: x + t["w"], lambda x, t: x], base(), table, mode=later)
    assert of(sums) == [2, 2, 6, 4]
    with refused(lambda: table["k"]):
        pass
    with pytest.raises(RuntimeError, match=DEPENDS):
        dr.while_loop((U(0, 1, 2, 3), table), lambda i, t: i < 3, lambda i, t: (i + 1, {**t, "w": t["w"] + t["k"]}),
                      mode=later)
