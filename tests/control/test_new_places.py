"""Places that functions of loops fill where nothing was before: attributes, entries of dictionaries, results that are
kept."""

from __future__ import annotations

import collections
import functools
import gc
import operator
import weakref
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import drjit as dr
from drjit.llvm.ad import Array3f64, TensorXf64, Texture1f64
from drjit.llvm.ad import Float64 as F
from drjit.llvm.ad import UInt32 as U

MODES = "symbolic", "evaluated"


@pytest.fixture(autouse=True)
def without_cycles() -> Iterator[None]:
    """Classes are cycles, which keep what their methods know alive."""
    yield
    gc.collect()


def attribute(compute: Callable[[], Any]) -> tuple[Callable[[], Any], Callable[[], Any]]:
    owner = SimpleNamespace()

    def keep() -> Any:
        owner.kept = compute()
        return owner.kept

    return keep, lambda: owner.kept


def entry(compute: Callable[[], Any]) -> tuple[Callable[[], Any], Callable[[], Any]]:
    table: dict[str, Any] = {}

    def keep() -> Any:
        if "kept" not in table:
            table["kept"] = compute()
        return table["kept"]

    return keep, lambda: table["kept"]


def kept_by_class(compute: Callable[[], Any]) -> tuple[Callable[[], Any], Callable[[], Any]]:
    class Owner:
        @functools.cached_property
        def kept(self) -> Any:
            return compute()

    owner = Owner()
    return lambda: owner.kept, lambda: owner.kept


def kept_by_function(compute: Callable[[], Any]) -> tuple[Callable[[], Any], Callable[[], Any]]:
    kept = functools.cache(compute)
    return kept, kept


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("how", [entry, kept_by_class, kept_by_function], ids=lambda how: how.__name__)
@pytest.mark.parametrize("value", [F(2), dr.opaque(F, 2)], ids=["constant", "evaluated"])
def test_what_is_kept_is_what_it_is_outside(how: Callable[..., Any], value: Any, mode: str) -> None:
    """It has its value, and its derivative, also when the loop is over."""
    factor, x = F(3), F(value)
    dr.enable_grad(x)
    keep, kept = how(lambda: x * x * factor)
    _, total = dr.while_loop((U(0, 1, 2), F(0)), lambda i, total: i < 4,
                             lambda i, total: (i + 1, total + keep()), mode=mode)
    np.testing.assert_allclose(total.numpy(), [48, 36, 24])
    np.testing.assert_allclose(kept().numpy(), [12])
    if how is not kept_by_function:
        assert dr.grad_enabled(kept())
        dr.backward(kept(), dr.ADFlag.ClearVertices)
        np.testing.assert_allclose(x.grad.numpy(), [12])
        x.grad = 0
    dr.backward(total)
    np.testing.assert_allclose(x.grad.numpy(), [12 * 9])


@pytest.mark.parametrize("both", [False, True])
def test_derivatives_of_what_a_loop_has_put_in_an_attribute(both: bool) -> None:
    x, factor = F(2), F(3)
    dr.enable_grad(x)
    keep, kept = attribute(lambda: dr.sin(x) * factor)
    _, total = dr.while_loop((U(0, 1, 2), F(0)), lambda i, total: i < 4,
                             lambda i, total: (i + 1, total + keep()), mode="symbolic")
    dr.backward(kept() + (total if both else 0))
    np.testing.assert_allclose(x.grad.numpy(), np.cos(2) * (3 + 9) * 3 if both else [np.cos(2) * 3])


@pytest.mark.parametrize("mode", MODES)
def test_what_depends_on_nothing_that_is_differentiated(mode: str) -> None:
    x, factor = F(2), F(3)
    dr.enable_grad(x)
    keep, kept = attribute(lambda: factor * 2)
    dr.while_loop((U(0, 1, 2), x), lambda i, y: i < 4, lambda i, y: (i + 1, y * keep()), mode=mode)
    assert not dr.grad_enabled(kept())
    np.testing.assert_allclose(kept().numpy(), 6)


@pytest.mark.parametrize("mode", MODES)
def test_what_depends_on_what_the_loop_changes_is_that_of_the_last_iteration(mode: str) -> None:
    state = SimpleNamespace(factor=F(3))

    def body(i: Any) -> Any:
        state.kept = state.factor * 2
        state.factor += 1
        return (i + 1,)

    dr.while_loop((U(0, 1, 2),), lambda i: i < 4, body, mode=mode)
    np.testing.assert_allclose(state.factor.numpy(), [7, 6, 5])
    np.testing.assert_allclose(state.kept.numpy(), [12, 10, 8])


# --- places that later iterations look at ----------------------------------------------------------------------------

#: What bodies do with a place that is new, a number that grows, and a value: each returns the value, changed.
Step = Callable[[SimpleNamespace, Any, Any], Any]


def gets(box: SimpleNamespace, i: Any, y: Any) -> Any:
    box.table["n"] = box.table.get("n", F(0)) + y * box.x
    return y + 1


def counts(box: SimpleNamespace, i: Any, y: Any) -> Any:
    box.table["n"] = box.table.get("n", U(0)) + 1
    return y + F(box.table["n"])


def pops(box: SimpleNamespace, i: Any, y: Any) -> Any:
    box.table["n"] = box.table.pop("n", F(1)) * 2 + y
    return y


def has_attribute(box: SimpleNamespace, i: Any, y: Any) -> Any:
    if hasattr(box, "n"):
        box.n = box.n * 2
    else:
        box.n = y + 1
    return y + box.n


def has_attribute_and_changes_in_place(box: SimpleNamespace, i: Any, y: Any) -> Any:
    if not hasattr(box, "n"):
        box.n = F(y)
    box.n += box.x
    return y * 0.5 + box.n


def catches(box: SimpleNamespace, i: Any, y: Any) -> Any:
    try:
        box.n = box.n * 2
    except AttributeError:
        box.n = F(i) + 1
        box.k += 5
    return y + box.n * box.k


def last_of_list(box: SimpleNamespace, i: Any, y: Any) -> Any:
    box.entries.append(F(i) * box.x)
    return y + box.entries[-1]


def chained(box: SimpleNamespace, i: Any, y: Any) -> Any:
    box.chained["n"] = box.chained["n"] * y
    return y + 1


def trees(box: SimpleNamespace, i: Any, y: Any) -> Any:
    first, (second,) = getattr(box, "n", (F(0), [F(1)]))
    box.n = first + second, [second * 2]
    return y + first


def sets_default(box: SimpleNamespace, i: Any, y: Any) -> Any:
    return y + box.table.setdefault("n", y * box.x)


def remembers(box: SimpleNamespace, i: Any, y: Any) -> Any:
    if "n" not in box.table:
        box.table["n"] = dr.sin(box.x)
    return y * box.table["n"]


def sets_and_reads(box: SimpleNamespace, i: Any, y: Any) -> Any:
    box.n = y * box.x
    return y + box.n


def in_a_loop(box: SimpleNamespace, i: Any, y: Any) -> Any:
    return dr.while_loop((U(0), y), lambda j, y: j < 2, lambda j, y: (j + 1, has_attribute(box, j, y)))[1]


STEPS: list[Step] = [gets, counts, pops, has_attribute, has_attribute_and_changes_in_place, catches, last_of_list,
                     chained, trees, sets_default, remembers, sets_and_reads, in_a_loop]


def outcome(step: Step, counts: list[int], mode: str, tracked: bool) -> list[Any]:
    box = SimpleNamespace(table={}, x=F(1.25), k=F(1), entries=[])
    box.chained = collections.ChainMap({}, {"n": F(1)})
    if tracked:
        dr.enable_grad(box.x)
    with dr.scoped_set_flag(dr.JitFlag.SymbolicLoops, mode == "symbolic"):
        _, y = dr.while_loop((U(counts), F(1)), lambda i, y: i < 4, lambda i, y: (i + 1, step(box, i, y)), mode=mode)
    place = box.chained["n"] if step is chained else box.table.get("n", getattr(box, "n", F(0)))
    places = [place] if not isinstance(place, tuple) else [place[0], place[1][0]]
    found = [y.numpy(), box.k.numpy()]
    if tracked:
        dr.backward(y + F(places[0]), dr.ADFlag.Default | dr.ADFlag.AllowNoGrad)
        found.append(box.x.grad.numpy())
    return [*found, *(each.numpy() for each in places)]


@pytest.mark.parametrize("tracked", [False, True])
@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.__name__)
def test_later_iterations_find_what_the_first_one_has_put_somewhere(step: Step, tracked: bool) -> None:
    counts = [0, 1, 2]
    symbolic, evaluated = [outcome(step, counts, mode, tracked) for mode in MODES]
    alone = [outcome(step, [count], "evaluated", tracked) for count in counts]
    for position, found in enumerate(symbolic):
        expected = np.concatenate([np.ravel(each[position]) for each in alone])
        if tracked and position == 2:
            expected = expected.sum(keepdims=True)
        np.testing.assert_allclose(np.broadcast_to(found, expected.shape), expected, rtol=1e-6)
        if position < 3:
            np.testing.assert_allclose(np.broadcast_to(evaluated[position], expected.shape), expected, rtol=1e-6)


def summed(entries: list[Any], y: Any) -> Any:
    entries.append((entries[-1] if entries else F(0)) + y)
    return y + entries[-1]


def first_of_all(entries: list[Any], y: Any) -> Any:
    entries.append(y)
    return y + entries[0]


def counted(entries: list[Any], y: Any) -> Any:
    table = entries[0]
    table[len(table)] = table.get(len(table) - 1, F(0)) + y
    return y + table[len(table) - 1]


@pytest.mark.parametrize("step", [summed, first_of_all, counted], ids=lambda step: step.__name__)
@pytest.mark.parametrize("mode", MODES)
def test_bodies_that_look_into_what_grows_with_each_iteration(step: Callable[..., Any], mode: str) -> None:
    """Two calls cannot tell which of the entries later iterations would look at."""
    entries: list[Any] = [{}] if step is counted else []

    def run() -> list[float]:
        found: list[float] = dr.while_loop((U(1, 2), F(1)), lambda i, y: i < 4, lambda i, y: (i + 1, step(entries, y)),
                                           mode=mode)[1].numpy().tolist()
        return found

    if mode == "symbolic":
        with pytest.raises(RuntimeError, match=r"puts an array in the entry 0 of a .*something else in later iter"):
            run()
        assert entries == ([{}] if step is counted else [])
    else:
        assert run() == ([4, 3] if step is first_of_all else [13, 5])


def test_bodies_that_fill_places_are_called_twice() -> None:
    """Later iterations might look there."""
    box, calls, log = SimpleNamespace(table={}), 0, list[Any]()

    def body(i: Any, y: Any) -> Any:
        nonlocal calls
        calls += 1
        box.last = y * 2
        box.table["last"] = y * 3
        log.append(y)
        return i + 1, y + 1

    dr.while_loop((U(0, 1), F(1)), lambda i, y: i < 3, body, mode="symbolic")
    assert calls == 2 and len(log) == 1
    assert box.last.numpy().tolist() == [6, 4] and box.table["last"].numpy().tolist() == [9, 6]


@pytest.mark.parametrize("mode", MODES)
def test_loops_that_turn_out_to_be_wide_and_fill_places(mode: str) -> None:
    """The first call is that of a loop of one element."""
    wide, kept, counts = F(1, 2, 3), list[Any](), dr.zeros(U, 4)

    def body(i: Any) -> Any:
        nonlocal wide
        kept.append(i)
        wide += F(i)
        dr.scatter_add(counts, U(1), i)
        return (i + 1,)

    if mode == "symbolic":
        with pytest.raises(RuntimeError, match="something else in later iterations"):
            dr.while_loop((U(0),), lambda i: i < 3, body, mode=mode)
        assert list(wide) == [1, 2, 3] and not kept
    else:
        dr.while_loop((U(0),), lambda i: i < 3, body, mode=mode)
        assert list(wide) == [4, 5, 6] and list(counts) == [1, 1, 1, 0]


def keeps_what_it_returns(box: SimpleNamespace, i: Any, y: Any) -> Any:
    box.table["n"] = y * 2
    return box.table["n"]


def keeps_what_it_is_given(box: SimpleNamespace, i: Any, y: Any) -> Any:
    box.table["n"] = y
    return y + 1


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("step", "kept"), [
    (keeps_what_it_returns, [8, 4, 0]), (keeps_what_it_is_given, [3, 2, 0]), (sets_default, [1.25, 1.25, 0]),
    (remembers, np.sin(1.25)), (sets_and_reads, [None])], ids=lambda each: getattr(each, "__name__", ""))
def test_places_are_zero_for_elements_without_an_iteration_if_they_depend_on_them(
        step: Step, kept: Any, mode: str) -> None:
    box = SimpleNamespace(table={}, x=F(1.25))
    dr.while_loop((U(0, 1, 9), F(1, 1, 1)), lambda i, y: i < 3, lambda i, y: (i + 1, step(box, i, y)), mode=mode)
    if step is sets_and_reads:
        y = 1 + 1.25
        np.testing.assert_allclose(box.n.numpy(), [1.25 * y * y, 1.25 * y, 0])
    else:
        np.testing.assert_allclose(np.broadcast_to(box.table["n"].numpy(), 3), np.broadcast_to(kept, 3))


@pytest.mark.parametrize("writes", [False, True])
def test_what_the_first_iteration_does_otherwise_is_refused_where_it_writes(writes: bool) -> None:
    table, places = dr.zeros(F, 4), dict[str, Any]()

    def body(i: Any) -> Any:
        number = places["n"] = places.get("n", F(0)) + 1
        if writes:
            dr.scatter_add(table, number, i)
        return (i + 1,)

    def run() -> None:
        dr.while_loop((U(0),), lambda i: i < 4, body, mode="symbolic")

    if writes:
        with pytest.raises(RuntimeError, match=r"the entry 'n' of a dict, where nothing is before.*mode='evaluated'"):
            run()
        assert not places and list(table) == [0] * 4
    else:
        run()
        assert list(places["n"]) == [4]


@pytest.mark.parametrize("started", [False, True])
def test_generators_that_begin_in_a_body(started: bool) -> None:
    def doubled() -> Any:
        value = F(1)
        while True:
            yield value
            value = value * 2

    values = doubled()
    if started:
        next(values)

    def run() -> list[float]:
        found: list[float] = dr.while_loop((U(0, 2), F(0)), lambda i, y: i < 4, lambda i, y: (i + 1, y + next(values)),
                                           mode="symbolic")[1].numpy().tolist()
        return found

    if started:
        assert run() == [30, 6]
    else:
        with pytest.raises(RuntimeError, match="the generator 'doubled' to where it keeps an array in its variable"):
            run()


# --- what is undone, and what is not left ----------------------------------------------------------------------------


def test_a_condition_without_mode_that_raises_has_changed_nothing() -> None:
    box, entries = SimpleNamespace(n=F(0)), [F(1)]

    def condition(i: Any) -> Any:
        box.n = F(7)
        box.new = F(8)
        entries[0] = F(3)
        entries.append(F(2))
        raise ValueError

    with pytest.raises(ValueError):
        dr.while_loop((U(0),), condition, lambda i: (i + 1,))
    assert vars(box).keys() == {"n"} and list(box.n) == [0] and [list(entry) for entry in entries] == [[1]]


@pytest.mark.parametrize("mode", MODES)
def test_a_place_that_both_sides_overwrite_does_not_depend_on_what_was_there(mode: str) -> None:
    x = F(2)
    dr.enable_grad(x)
    box = SimpleNamespace(value=x * 3)

    def put(number: int) -> Callable[[Any], Any]:
        def side(y: Any) -> Any:
            box.value = F(number)
            return y

        return side

    dr.if_stmt((F(1),), dr.opaque(U, 1) == 1, put(7), put(8), mode=mode)
    assert list(box.value) == [7] and not dr.grad_enabled(box.value)


@pytest.mark.parametrize("used", [False, True])
@pytest.mark.parametrize("how", ["symbolic", "evaluated", "call"])
def test_derivatives_of_what_a_side_within_a_loop_puts_in_a_new_place(how: str, used: bool) -> None:
    """It depends on the loop, and on no element that takes the side: that was recorded within the side."""
    x, lane, box = F(1, 2, 3, 4), U(0, 1, 2, 3), SimpleNamespace()
    dr.enable_grad(x)
    factor = x * 2

    def body(j: Any, y: Any) -> Any:
        def first(y: Any) -> Any:
            box.kept = factor * F(j)
            return y * (box.kept if used else 2)

        def second(y: Any) -> Any:
            return y * 3

        number = (j + lane) & 1
        return j + 1, dr.switch(number, [first, second], y) if how == "call" else \
            dr.if_stmt((y,), number == 0, first, second, mode=how)

    mode = "evaluated" if how == "evaluated" else None
    _, y = dr.while_loop((U(0), F(x)), lambda j, y: j < 3 - lane, body, mode=mode)
    dr.backward(y)
    np.testing.assert_allclose(x.grad.numpy(), [0, 24, 0, 1] if used else [12, 6, 2, 1])


@pytest.mark.parametrize("mode", MODES)
def test_derivatives_that_pass_through_what_a_loop_computes(mode: str) -> None:
    """The value in the new place depends on no iteration, but its derivative takes the way that a mask says."""
    x, box = F(1, 2, 3, 4), SimpleNamespace()
    dr.enable_grad(x)
    factor = x * 2

    def body(j: Any) -> Any:
        box.sum = getattr(box, "sum", F(0)) + dr.select(j & 1 == 0, factor, factor)
        return (j + 1,)

    dr.while_loop((U(0, 0, 0, 0),), lambda j: j < 3, body, mode=mode)
    dr.backward(box.sum)
    np.testing.assert_allclose(box.sum.numpy(), [6, 12, 18, 24])
    np.testing.assert_allclose(x.grad.numpy(), [6] * 4)


@pytest.mark.parametrize("how", ["branch", "call"])
def test_derivatives_that_pass_through_what_a_side_computes(how: str) -> None:
    x, y, box = F(1, 2, 3, 4), F(1, -1, 1, -1), SimpleNamespace()
    dr.enable_grad(x)
    factor = x * 2

    def first(y: Any) -> Any:
        box.kept = dr.select(y > 0, factor, factor)
        return y

    if how == "branch":
        dr.if_stmt((y,), U(0, 1, 1, 0) == 0, first, first, mode="symbolic")
    else:
        dr.switch(U(0, 1, 1, 0), [first, first], y, mode="symbolic")
    dr.backward(box.kept)
    np.testing.assert_allclose(x.grad.numpy(), [2, 2, 2, 2])


def detached_at_first(box: SimpleNamespace, i: Any, y: Any) -> Any:
    if hasattr(box, "n"):
        return y + box.n
    box.n = box.x * 1
    return y + dr.detach(box.n)


def detached_later(box: SimpleNamespace, i: Any, y: Any) -> Any:
    value = dr.detach(box.x) if hasattr(box, "n") else box.x
    box.n = value
    return y + value


def product_of_what_is_detached(box: SimpleNamespace, i: Any, y: Any) -> Any:
    if hasattr(box, "n"):
        return y + box.x * F(i)
    box.n = box.x * 1
    return y + dr.detach(box.x) * F(i)


@pytest.mark.parametrize("step", [detached_at_first, detached_later, product_of_what_is_detached],
                         ids=lambda step: step.__name__)
def test_a_first_iteration_with_the_same_values_and_other_derivatives(step: Step) -> None:
    found = []
    for mode in MODES:
        box = SimpleNamespace(x=F(1, 2, 3))
        dr.enable_grad(box.x)
        _, y = dr.while_loop((U(0, 1, 2), F(0, 0, 0)), lambda i, y: i < 4,
                             lambda i, y, box=box: (i + 1, step(box, i, y)), mode=mode)
        dr.backward(y)
        found.append([y.numpy(), box.x.grad.numpy()])
    np.testing.assert_allclose(*found)


def appends(*values: Any) -> Callable[[list[Any]], None]:
    """A function that appends texts, and arrays of numbers, to a list."""
    return lambda entries: entries.extend(value if isinstance(value, str) else F(value) for value in values)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize(("yes", "no", "added"), [
    (appends("x", 1), appends("x", 2), ["x", [1, 2]]), (appends(1, "x"), appends(2, "x"), [[1, 2], "x"])])
def test_what_is_no_array_keeps_its_place_beside_new_arrays(yes: Any, no: Any, added: Any, given: bool,
                                                            mode: str) -> None:
    """Both sides append a text and an array: where the entries of the one remained, those of the other would follow."""
    entries: list[Any] = [F(0)]
    if given:
        dr.if_stmt((entries,), dr.arange(U, 2) == 0, yes, no, mode=mode)
    else:
        dr.if_stmt((), dr.arange(U, 2) == 0, lambda: yes(entries), lambda: no(entries), mode=mode)
    assert [entry if isinstance(entry, str) else list(entry) for entry in entries] == [[0], *added]


@pytest.mark.parametrize("compress", [False, True])
def test_evaluated_loops_that_append_arrays_and_texts(compress: bool) -> None:
    entries: list[Any] = []
    dr.while_loop((U(0, 0), U(2, 2)), lambda i, n: i < n, lambda i, n: (entries.extend([F(i), "x"]), (i + 1, n))[1],
                  mode="evaluated", compress=compress)
    assert [entry if isinstance(entry, str) else list(entry) for entry in entries] == [[0, 0], "x", [1, 1], "x"]


@pytest.mark.parametrize("mode", MODES)
def test_what_is_no_array_must_not_differ_beside_arrays(mode: str) -> None:
    """A record of an array and of a text is one object behind the branch: no element would have the other text."""
    table: dict[str, Any] = {"hit": ("none", F(0))}

    def put(name: str, distance: float) -> Callable[[], None]:
        return lambda: table.update(hit=(name, F(distance)))

    with pytest.raises(RuntimeError, match=(
            r"'\[0\]' of the entry 'hit' of a dict would differ .* 'sphere' after 'true_fn', and 'plane' after")):
        dr.if_stmt((), U(0, 1) == 0, put("sphere", 1), put("plane", 2), mode=mode)
    assert table["hit"][0] == "none" and list(table["hit"][1]) == [0]
    dr.if_stmt((), U(0, 1) == 0, put("sphere", 1), put("plane", 2), mode=mode, strict=False)
    assert table["hit"][0] == "plane" and list(table["hit"][1]) == [1, 2]


@pytest.mark.parametrize("mode", MODES)
def test_texts_that_lists_lose_where_arrays_take_their_places(mode: str) -> None:
    entries: list[Any] = ["x", F(1), "y"]

    def shorten(number: int) -> Callable[[], None]:
        def side() -> None:
            entries[0:2] = [F(number)]

        return side

    with pytest.raises(RuntimeError, match=r"the type of the entry 0 of the list 'entries' would differ"):
        dr.if_stmt((), U(0, 1) == 0, shorten(1), lambda: None, mode=mode)
    assert entries[0] == "x" and list(entries[1]) == [1] and entries[2] == "y"
    dr.if_stmt((), U(0, 1) == 0, shorten(1), shorten(2), mode=mode)
    assert list(entries[0]) == [1, 2] and entries[1:] == ["y"]


# --- arrays that functions make, change in place, and put somewhere ---------------------------------------------------


def _sum(value: Any) -> Any:
    made = F(0, 1)
    made += value
    return made


def _component(value: Any) -> Any:
    made = Array3f64(value, 2, 3)
    made.x += 1
    return made


def _tensor(value: Any) -> Any:
    made = TensorXf64(F(0, 1), (2, 1))
    made += value
    return made


def _texels(value: Any) -> Any:
    made = Texture1f64([2], 1)
    made.set_value(F(0, 1) + value)
    return made.tensor()


def _held(value: Any) -> Any:
    """In an object that is no PyTree."""
    made = SimpleNamespace(inside=F(0, 1))
    made.inside += value
    return made


def _put(make: Callable[[Any], Any], how: str, mode: str, of_element: bool = False) -> Any:
    """What a construct leaves in a new place, of nothing that elements have, or ``of_element``."""
    box: Any = SimpleNamespace()

    def function(x: Any) -> Any:
        if not hasattr(box, "kept"):
            box.kept = make(x if of_element else F(1))
        return x

    x = F(1, 2)
    if how == "loop":
        dr.while_loop((U(0, 9), x), lambda i, x: i < 3, lambda i, x: (i + 1, function(x) + 1), mode=mode)
    elif how == "branch":
        dr.if_stmt((x,), x < 2, function, lambda x: x, mode=mode)
    else:
        dr.switch(U(0, 1), [function, lambda x: x], x, mode=mode)
    return getattr(box.kept, "inside", box.kept)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("how", ["loop", "branch", "call"])
@pytest.mark.parametrize("make", [_sum, _component, _tensor, _texels, _held])
def test_arrays_that_a_function_makes_and_changes_are_what_it_has_left(make: Any, how: str, mode: str) -> None:
    found, expected = _put(make, how, mode), make(F(1))
    expected = getattr(expected, "inside", expected)
    np.testing.assert_array_equal(found.numpy(), expected.numpy())


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("how", ["branch", "call"])
@pytest.mark.parametrize("make", [_sum, _held, lambda x: SimpleNamespace(inside=x * 2)])
def test_arrays_that_a_function_makes_of_elements_have_no_value_for_others(make: Any, how: str, mode: str) -> None:
    found = _put(make, how, mode, True)
    with pytest.raises(RuntimeError, match=r"this array has no value.*has (made|put) it"):
        print(found + 1)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("how", ["loop", "branch", "call"])
def test_derivatives_of_what_a_function_makes_and_changes(how: str, mode: str) -> None:
    w = F(2, 3)
    dr.enable_grad(w)

    def make(_: Any) -> Any:
        made = F(w)
        made *= w
        return made

    found = _put(make, how, mode)
    np.testing.assert_array_equal(found.numpy(), [4, 9])
    dr.backward(found * 1)
    np.testing.assert_array_equal(w.grad.numpy(), [4, 6])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("hidden", [weakref.ref, lambda array: functools.partial(operator.getitem, [array], 0)])
def test_arrays_that_were_there_before_are_the_callers_wherever_they_are_put(hidden: Any, mode: str) -> None:
    array, box = F(1, 2), SimpleNamespace()
    find = hidden(array)

    def side(x: Any) -> Any:
        box.found = find()
        box.found += x
        return x

    dr.if_stmt((F(1, 2),), U(0, 1) < 1, side, lambda x: x, mode=mode)
    np.testing.assert_array_equal(array.numpy(), [2, 2])


def test_arrays_that_a_side_makes_and_writes_to_by_index_are_refused_in_words() -> None:
    box: Any = SimpleNamespace()

    def side(x: Any) -> Any:
        box.made = dr.zeros(F, 2)
        box.made[0] = 5
        return x

    with pytest.raises(RuntimeError, match=r"writes by index to an array of type .* that it has made itself"):
        dr.if_stmt((F(1, 2),), U(0, 1) < 1, side, lambda x: x, mode="symbolic")
    assert not vars(box)


# --- what is beside a value that nobody can use ----------------------------------------------------------------------


def _beside(mode: str) -> list[Any]:
    """A list of an array, and of what one side has appended."""
    found = [F(5, 6)]

    def side(x: Any) -> Any:
        found.append(x + 1)
        return x

    dr.if_stmt((F(1, 2),), U(0, 1) < 1, side, lambda x: x, mode=mode)
    return found


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("loop", [False, True])
@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("before", [False, True], ids=["after", "before"])
@pytest.mark.parametrize("tracks", [False, True])
def test_what_is_beside_a_value_that_nobody_can_use_is_there_for_each_element(
        tracks: bool, before: bool, constant: bool, loop: bool, mode: str) -> None:
    """Other elements would lose it, or get what is not theirs."""
    variable = F(1)  # what has nothing to do with it decides how loops are recorded
    dr.set_grad_enabled(variable, tracks)
    whole, part = [F(1, 2), F(3, 4)], _beside(mode)
    box: Any = SimpleNamespace(kept=part if before else whole)

    def function(x: Any) -> Any:
        new = F(7, 8) if constant else x * 10
        box.kept = [new, new] if before else [new, part[1]]
        return x

    with pytest.raises(RuntimeError, match=r"this array has no value: 'true_fn' .*has put it in the entry 1"):
        if loop:
            dr.while_loop((U(0, 9), F(1, 2)), lambda i, x: i < 3, lambda i, x: (i + 1, function(x)), mode=mode)
        else:
            dr.if_stmt((F(1, 2),), U(0, 1) < 1, function, lambda x: x, mode=mode)
    assert box.kept is (part if before else whole)


def test_loops_that_remove_what_nobody_can_use() -> None:
    def remove(mode: str) -> list[Any]:
        found = _beside(mode)

        def body(i: Any) -> Any:
            del found[1:]
            return (i + 1,)

        dr.while_loop((U(0, 1),), lambda i: i < 3, body, mode=mode)
        return found

    assert len(remove("evaluated")) == 1
    with pytest.raises(RuntimeError, match=r"the body of this symbolic loop removes the entry 1 of the list 'found'"):
        remove("symbolic")


@pytest.mark.parametrize("mode", MODES)
def test_local_memory_that_was_given_what_nobody_can_use_keeps_the_rest(mode: str) -> None:
    local = dr.alloc_local(F, 2, value=F(9))
    local.write(F(1, 2), 0)
    local.write(_beside(mode)[1], 1)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="this array has no value"):
            local.read(U(0, 0))
    np.testing.assert_array_equal(local.read(0).numpy(), [1, 2])
    local.write(F(3, 4), 1)
    np.testing.assert_array_equal(local.read(U(0, 1)).numpy(), [1, 4])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("how", ["branch", "call"])
def test_generators_that_begin_in_a_branch_beside_data(how: str, mode: str) -> None:
    """There are no later iterations that would find where they are."""
    data = np.zeros(3)

    def values() -> Any:
        x = yield
        while True:
            x = yield x + len(data)

    generator = values()
    next(generator)
    functions = [lambda x: generator.send(x) + len(data), lambda x: x]
    x = F(1, 2)
    found = dr.if_stmt((x,), x < 2, *functions, mode=mode) if how == "branch" else dr.switch(
        U(0, 1), functions, x, mode=mode)
    np.testing.assert_array_equal(found.numpy(), [7, 2])


@pytest.mark.parametrize("mode", MODES)
def test_the_first_iteration_alone_changes_an_argument_that_is_returned_as_another_array(mode: str) -> None:
    """Whether or not all iterations put the same in a new place."""
    table: dict[str, Any] = {}
    array, kept = F(1, 2, 3), F(4)

    def body(i: Any, x: Any) -> Any:
        x += 1
        table["kept"] = kept
        return i + 1, x * 2

    _, found = dr.while_loop((U(0, 3, 2), array), lambda i, x: i < 3, body, mode=mode)
    np.testing.assert_array_equal(array.numpy(), [2, 2, 4])
    np.testing.assert_array_equal(found.numpy(), [22, 2, 8])
    assert table["kept"] is kept


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("start", [F(1, 2, 3), F(1), dr.opaque(F, 1)], ids=["wide", "constant", "single"])
@pytest.mark.parametrize("compute", [lambda value: value, lambda value: value * 2])
def test_a_new_place_that_holds_what_is_another_array_after_each_iteration(compute: Any, start: Any, mode: str) -> None:
    box: Any = SimpleNamespace(last=F(start))

    def body(i: Any, x: Any) -> Any:
        box.kept = compute(box.last)
        box.last = x * 4
        return i + 1, x + 1

    dr.while_loop((U(0, 1, 0), F(1, 2, 3)), lambda i, x: i < 2, body, mode=mode)
    expected = compute(F(4, start.numpy()[-2:][0] if len(start) > 1 else 1, 12))
    np.testing.assert_array_equal(box.kept.numpy(), expected.numpy())
    np.testing.assert_array_equal(box.last.numpy(), [8, 8, 16])


# --- what nobody can use, and functions fill again -------------------------------------------------------------------

LANE = U(0, 1, 2, 3)


def _filled(box: Any, value: Callable[[Any], Any]) -> Callable[..., Any]:
    def side(x: Any, _: Any = None) -> Any:
        box.kept = value(x)
        return x

    return side


#: What fills a place, whether all elements take part in that, and whether a symbolic construct knows that they do.
FILLS: dict[str, tuple[Callable[[Any, Any, str], Any], bool, bool]] = {
    "one side": (lambda fill, x, mode: dr.if_stmt((x,), LANE < 1, fill, lambda x: x, mode=mode), False, False),
    "both sides": (lambda fill, x, mode: dr.if_stmt((x,), LANE < 1, fill, fill, mode=mode), True, True),
    "call": (lambda fill, x, mode: dr.switch(LANE & 1, [fill, fill], x, mode=mode), True, True),
    "masked call": (lambda fill, x, mode: dr.switch(LANE & 1, [fill, fill], x, LANE < 3, mode=mode), False, False),
    "loop": (lambda fill, x, mode: dr.while_loop((U(0), x), lambda i, _: i < (LANE & 1),
                                                 lambda i, x: (i + 1, fill(x)), mode=mode), False, False),
    "loop of all": (lambda fill, x, mode: dr.while_loop((U(0), x), lambda i, _: i < 1 + (LANE & 1),
                                                        lambda i, x: (i + 1, fill(x)), mode=mode), True, False),
    "calls in a loop": (lambda fill, x, mode: dr.while_loop(
        (U(0), x), lambda i, _: i < 3 - LANE,
        lambda i, x: (i + 1, dr.switch(LANE & 1, [fill, lambda x: x], x, mode=mode)), mode=mode), False, False),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("value", [lambda x: x * 3, lambda x: F(7)], ids=["of each element", "of all"])
@pytest.mark.parametrize("name", FILLS)
def test_what_some_elements_have_lost_another_value_of_all_replaces(name: str, value: Any, mode: str) -> None:
    """One side has filled the place, which has no value since: elements that fill it no more had one there."""
    box, x = SimpleNamespace(), F(1, 2, 3, 4)
    fill, every, known = FILLS[name]
    dr.if_stmt((x,), LANE < 2, _filled(box, lambda x: x * 2), lambda x: x, mode=mode)
    fill(_filled(box, value), F(x), mode)
    if every and (known or mode == "evaluated"):
        np.testing.assert_array_equal(np.broadcast_to(box.kept.numpy(), 4), np.broadcast_to(value(x).numpy(), 4))
    else:
        with pytest.raises(RuntimeError, match="this array has no value: 'true_fn'"):
            print(box.kept + 1)


@pytest.mark.parametrize("mode", MODES)
def test_what_nobody_can_use_is_there_again_if_a_function_raises(mode: str) -> None:
    entries: list[Any] = [F(5)]

    def side(x: Any) -> Any:
        entries.append(x + 1)
        entries.append(x + 2)
        return x

    def body(i: Any, x: Any) -> Any:
        entries[1:] = [x, x * 2]
        if again:
            raise KeyError("again")
        again.append(i)
        return i + 1, x

    dr.if_stmt((F(1, 2),), U(0, 1) < 1, side, lambda x: x, mode=mode)
    before, again = list(entries), [0] if mode == "symbolic" else list[Any]()
    with pytest.raises(KeyError):
        dr.while_loop((U(0, 0), F(1, 2)), lambda i, _: i < 3, body, mode=mode)
    assert list(map(id, entries)) == list(map(id, before))
