"""Tensors in loops, branches and calls: which shape one of a single element has where others have several."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import drjit as dr
from drjit.llvm import Bool, UInt, ad
from drjit.llvm import TensorXu as Tensor

MODES = ["symbolic", "evaluated"]


def counting(*shape: int) -> Any:
    return dr.reshape(dr.arange(Tensor, dr.prod(shape)), shape)


def both(*values: Any) -> list[tuple[tuple[int, ...], Any]]:
    """Shapes and elements."""
    return [(value.shape, value.numpy().tolist()) for value in values]


# --- branches --------------------------------------------------------------------------------------------------------

#: What both sides return, where the condition has six elements: its shape, the results, and the shape of the whole.
SIDES: list[tuple[tuple[int, ...] | None, Callable[[], Any], Callable[[], Any], tuple[int, ...]]] = [
    ((6,), lambda: Tensor(7), lambda: counting(6), (6,)),
    ((6,), lambda: counting(6), lambda: Tensor(7), (6,)),
    ((6,), lambda: Tensor([7]), lambda: counting(6), (6,)),
    ((2, 3), lambda: counting(2, 3), lambda: Tensor(7), (2, 3)),
    ((2, 3), lambda: Tensor([[[7]]]), lambda: counting(2, 3), (1, 2, 3)),
    ((2, 3), lambda: Tensor(7), lambda: Tensor(8), (2, 3)),
    ((2, 3), lambda: Tensor(7), lambda: Tensor([8]), (2, 3)),
    (None, lambda: Tensor(7), lambda: Tensor(8), (6,)),
    (None, lambda: Tensor([[7]]), lambda: Tensor([[8]]), (1, 6)),
    (None, lambda: counting(2, 3), lambda: Tensor(7), (2, 3)),
    (None, lambda: counting(3, 2), lambda: counting(3, 2) * 2, (3, 2)),
]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("shape, first, second, whole", SIDES)
def test_sides_of_a_branch_meet_in_the_shape_that_broadcasting_gives(
        shape: tuple[int, ...] | None, first: Callable[[], Any], second: Callable[[], Any], whole: tuple[int, ...],
        mode: str) -> None:
    mask = dr.arange(UInt, 6) % 4 < 2
    # others of that size have nothing to do with it
    args = counting(6, 1), counting(3, 2), counting(1, 6)
    cond = mask if shape is None else dr.reshape(type(counting(1) < 1)(mask), shape)
    found = dr.if_stmt(args, cond, lambda *_: first(), lambda *_: second(), mode=mode)
    expected = dr.select(mask, *[value.array if dr.width(value) > 1 else UInt(value.array)
                                 for value in (first(), second())])
    assert (found.shape, found.array.numpy().tolist()) == (whole, expected.numpy().tolist())


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("first, second", [((6,), (2, 3)), ((2, 3), (3, 2)), ((1, 6), (6, 1)), ((6, 1), (6,))])
def test_sides_of_other_shapes_are_refused(first: tuple[int, ...], second: tuple[int, ...], mode: str) -> None:
    with pytest.raises(RuntimeError, match=r"the shape of 'result' is \(.*\) in 'true_fn' and \(.*\) in 'false_fn'"):
        dr.if_stmt((), dr.arange(UInt, 6) < 2, lambda: counting(*first), lambda: counting(*second), mode=mode)


@pytest.mark.parametrize("value", [True, False])
def test_known_conditions_have_shapes_too(value: bool) -> None:
    cond = dr.full(type(counting(1) < 1), value, (2, 3))
    assert dr.if_stmt((), cond, lambda: Tensor(1), lambda: Tensor(0), mode="symbolic").shape == (2, 3)


@pytest.mark.parametrize("mode", MODES)
def test_branches_of_decorated_functions_widen_tensors(mode: str) -> None:
    @dr.syntax
    def f(i: Any) -> Any:
        z = Tensor(0)
        if dr.hint(i < 2, mode=mode):
            z = i * 3 + 1
        return z

    @dr.syntax
    def g(i: Any) -> Any:
        if dr.hint(i < 2, mode=mode):
            return i * 3 + 1
        return Tensor(0)

    for function in (f, g):
        assert both(function(counting(4))) == [((4,), [1, 4, 0, 0])]
        assert both(function(counting(2, 2))) == [((2, 2), [[1, 4], [0, 0]])]


# --- calls -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("index", [[0, 1, 1, 0], [0, 1, 1, 1], [1, 1, 1, 1], [0, 0, 0, 0]])
@pytest.mark.parametrize("shape", [(4,), (2, 2), (1, 4)])
def test_functions_of_a_call_meet_in_one_shape(shape: tuple[int, ...], index: list[int], mode: str) -> None:
    x, chosen = counting(*shape), UInt(index)
    for first in (lambda a: Tensor(7), lambda a: a + 1):
        found = dr.switch(chosen, [first, lambda a: a * 2], x, mode=mode)
        expected = dr.select(chosen == 0, UInt(first(x).array), x.array * 2).numpy().tolist()
        assert (found.shape, found.array.numpy().tolist()) == (shape, expected)


# --- loops -----------------------------------------------------------------------------------------------------------

FLAT = dr.arange(UInt, 6)

#: Loops: the state, the condition, the body, the shapes that the state has after it in symbolic mode.
LOOPS: dict[str, tuple[Callable[[], tuple[Any, ...]], Callable[..., Any], Callable[..., Any], list[Any]]] = {
    "what the state has": (
        lambda: (Tensor(0), counting(2, 3)), lambda z, i: i < 5, lambda z, i: (z + i, i + 1), [(2, 3), (2, 3)]),
    "one of several shapes in the state": (
        lambda: (Tensor(0), counting(2, 3), counting(6)), lambda z, i, j: i < 5,
        lambda z, i, j: (z + j, i + 1, j + 1), [(6,), (2, 3), (6,)]),
    "two of several shapes in the state": (
        lambda: (Tensor(0), Tensor(0), counting(2, 3), counting(6)), lambda z, y, i, j: i < 5,
        lambda z, y, i, j: (z + i, y + j, i + 1, j + 1), [(2, 3), (6,), (2, 3), (6,)]),
    "what another gets in the iteration before": (
        lambda: (Tensor(0), Tensor(0), counting(2, 3), counting(6)), lambda z, y, i, j: i < 5,
        lambda z, y, i, j: (z + y, y + j, i + 1, j + 1), [(6,), (6,), (2, 3), (6,)]),
    "what is outside": (
        lambda: (Tensor(0), UInt(0)), lambda z, i: i < 3, lambda z, i: (z + counting(2, 3), i + 1), [(2, 3), (6,)]),
    "what is outside, beside a state of another shape": (
        lambda: (Tensor(0), counting(6)), lambda z, i: i < 5, lambda z, i: (z + counting(2, 3), i + 1), [(2, 3), (6,)]),
    "more dimensions than what is outside": (
        lambda: (Tensor([[0]]), UInt(0)), lambda z, i: i < 3, lambda z, i: (z + counting(6), i + 1), [(1, 6), (6,)]),
    "the shape of the condition": (
        lambda: (Tensor(0), counting(2, 3)), lambda z, i: i < 5, lambda z, i: (z + 1, i + 1), [(2, 3), (2, 3)]),
    "the shape of the condition, which is outside": (
        lambda: (Tensor(0),), lambda z: z < counting(2, 3), lambda z: (z + 1,), [(2, 3)]),
    "what the state has, with a flat condition": (
        lambda: (Tensor(0), dr.arange(UInt, 6), counting(2, 3)), lambda z, i, j: i < 5,
        lambda z, i, j: (z + 1, i + 1, j + 1), [(2, 3), (6,), (2, 3)]),
    "what the state has, with a flat condition of one element": (
        lambda: (Tensor(0), UInt(0), counting(2, 3)), lambda z, i, j: i < 5,
        lambda z, i, j: (z + 1, i + 1, j + 1), [(2, 3), (6,), (2, 3)]),
    "one dimension of a flat condition": (
        lambda: (Tensor(0), dr.arange(UInt, 6), counting(2, 3), counting(3, 2)), lambda z, i, j, k: i < 5,
        lambda z, i, j, k: (z + 1, i + 1, j + 1, k), [(6,), (6,), (2, 3), (3, 2)]),
    "the shape that it keeps, as others have": (
        lambda: (Tensor(0), counting(2, 3)), lambda i, z: i < 5, lambda i, z: (i + 1, z * 2), [(2, 3), (2, 3)]),
    "one element": (lambda: (Tensor(0), Tensor(0)), lambda z, i: i < 3, lambda z, i: (z + i, i + 1), [(), ()]),
    "one element of one dimension": (
        lambda: (Tensor(0), Tensor(0)), lambda z, i: i < 3, lambda z, i: (z + Tensor([1]), i + 1), [(1,), ()]),
    "one dimension, of a flat array": (
        lambda: (Tensor(0), UInt(0)), lambda z, i: i < 3, lambda z, i: (z + FLAT, i + 1), [(6,), (6,)]),
    "the shape of several elements that are set to one": (
        lambda: (counting(2, 3), Tensor(0)), lambda z, i: z + i < 6, lambda z, i: (Tensor(5), i + 1), [(2, 3), (2, 3)]),
}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", LOOPS)
def test_tensors_of_one_element_get_in_a_loop(name: str, mode: str) -> None:
    state, cond, body, shapes = LOOPS[name]
    found = dr.while_loop(state(), cond, body, mode=mode)
    flat = [dr.zeros(UInt, 6) + (value if isinstance(value, UInt) else UInt(value.array)) for value in found]
    if mode == "symbolic":
        assert [value.shape for value in found] == shapes
    else:  # what is the same for all elements remains one
        assert all(value.shape == shape or dr.width(value) == 1 for value, shape in zip(found, shapes, strict=True))
    values: list[Any] = [list(entry) for entry in zip(*[dr.zeros(UInt, 6) + UInt(getattr(value, "array", value))
                                                        for value in state()], strict=True)]
    for lane in range(6):
        assert [int(value[lane]) for value in flat] == expected_of(lane, values[lane], cond, body, state())


def expected_of(lane: int, values: list[Any], cond: Callable[..., Any], body: Callable[..., Any],
                state: tuple[Any, ...]) -> list[int]:
    """What one element has after a loop, by a loop in Python over all of them."""
    def element(value: Any) -> Any:
        found = UInt(getattr(value, "array", value))
        return int(found[lane if len(found) > 1 else 0])

    while element(cond(*state)):
        state = body(*state)
    return [element(value) for value in state]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("state, body", [
    ((6,), lambda z, i: (counting(2, 3), i + 1)),
    ((2, 3), lambda z, i: (counting(6), i + 1)),
    ((2, 3), lambda z, i: (counting(1, 2, 3), i + 1)),
    ((), lambda z, i: (dr.reshape(z, (*z.shape, 1)), i + 1)),
])
def test_other_changes_of_shapes_are_refused(state: tuple[int, ...], body: Callable[..., Any], mode: str) -> None:
    with pytest.raises(RuntimeError, match=r"changed the shape of the state variable 'z' from \(.*\) to \(.*\)"):
        dr.while_loop((counting(*state) if state else Tensor(0), UInt(0)), lambda z, i: i < 3, body, ("z", "i"),
                      mode=mode)


@pytest.mark.parametrize("compress", [False, True])
def test_evaluated_loops_that_are_compressed_widen_tensors_of_one_dimension(compress: bool) -> None:
    def body(z: Any, i: Any) -> Any:
        return z + i, i + 1

    found = dr.while_loop((Tensor(0), dr.arange(Tensor, 8)), lambda z, i: i < 6, body, mode="evaluated",
                          compress=compress)
    assert both(*found) == [((8,), [15, 15, 14, 12, 9, 5, 0, 0]), ((8,), [6, 6, 6, 6, 6, 6, 6, 7])]


@pytest.mark.parametrize("mode", MODES)
def test_errors_of_bodies_about_shapes_are_theirs(mode: str) -> None:
    calls = []

    def body(z: Any, i: Any) -> Any:
        calls.append(0)
        return z + counting(4) + counting(2, 3), i + 1

    with pytest.raises(RuntimeError, match=r"incompatible shapes"):
        dr.while_loop((Tensor(0), counting(2, 3)), lambda z, i: i < 5, body, mode=mode)
    assert len(calls) < 4


@pytest.mark.parametrize("mode", MODES)
def test_widened_tensors_have_derivatives(mode: str) -> None:
    x = ad.TensorXf([1, 2, 3, 4, 5, 6], shape=(2, 3))
    dr.enable_grad(x)
    found, _, _ = dr.while_loop((ad.TensorXf(1), ad.TensorXu(0), x), lambda z, i, x: i < 2,
                                lambda z, i, x: (z * x, i + 1, x), mode=mode, max_iterations=2)
    assert found.shape == (2, 3)
    dr.backward(dr.sum(found, axis=None))
    assert dr.grad(x).numpy().tolist() == [[2, 4, 6], [8, 10, 12]]


@pytest.mark.parametrize("mode", MODES)
def test_loops_in_loops_widen_tensors(mode: str) -> None:
    def inner(z: Any, k: Any) -> Any:
        return z + counting(2, 3), k + 1

    def outer(z: Any, i: Any) -> Any:
        return dr.while_loop((z, i * 0), lambda z, k: k < 2, inner, mode=mode)[0], i + 1

    z, _ = dr.while_loop((Tensor(1), counting(6)), lambda z, i: i < 3, outer, mode=mode)
    assert both(z) == [((2, 3), [[1, 5, 5], [1, 1, 1]])]


def test_bodies_that_write_find_out_shapes_without_writing_twice() -> None:
    target = dr.zeros(UInt, 6)

    def body(z: Any, i: Any, j: Any) -> Any:
        dr.scatter_add(target, UInt(1), i.array)
        return z + j, i + 1, j

    z, _, _ = dr.while_loop((Tensor(0), counting(2, 3), counting(6)), lambda z, i, j: i < 5, body, mode="symbolic")
    assert z.shape == (6,) and target.numpy().tolist() == [1, 2, 3, 4, 5, 0]


def test_masks_and_tensors_of_one_element() -> None:
    assert both(dr.if_stmt((), Bool(True, False), lambda: Tensor(1), lambda: Tensor(0))) == [((2,), [1, 0])]


# --- what functions change besides -----------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
def test_tensors_in_containers_get_the_shape_of_what_decides(mode: str) -> None:
    held: dict[str, Any] = {"branch": Tensor(0), "call": Tensor(0), "loop": Tensor(0)}

    def change(name: str, value: Any) -> None:
        held[name] = value

    def body(i: Any) -> Any:
        held["loop"] = held["loop"] + 1
        return (i + 1,)

    dr.if_stmt((), counting(2, 3) < 3, lambda: change("branch", Tensor(7)), lambda: None, mode=mode)
    dr.switch(UInt(0, 1, 0, 1, 0, 1), [lambda x: change("call", x + 1), lambda x: None], counting(2, 3), mode=mode)
    dr.while_loop((counting(2, 3),), lambda i: i < 5, body, mode=mode)
    assert both(*held.values()) == [((2, 3), [[7, 7, 7], [0, 0, 0]]), ((2, 3), [[1, 0, 3], [0, 5, 0]]),
                                    ((2, 3), [[5, 4, 3], [2, 1, 0]])]


@pytest.mark.parametrize("mode", MODES)
def test_arguments_that_are_changed_in_place_get_the_shape_of_what_decides(mode: str) -> None:
    def add(x: Any) -> None:
        x += 1

    x = Tensor(0)
    dr.if_stmt((x,), counting(2, 3) < 3, add, lambda x: None, mode=mode)
    assert both(x) == [((2, 3), [[1, 1, 1], [0, 0, 0]])]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("construct", ["loop", "branch", "call"])
@pytest.mark.parametrize("carried", [True, False])
def test_tensors_of_one_element_that_are_changed_in_place_become_as_wide_as_the_lanes(
        carried: bool, construct: str, mode: Any) -> None:
    x = Tensor([1])
    part = x.array

    def add(i: Any, *state: Any) -> Any:
        changed = state[0] if carried else x
        changed += 1
        return i + 1, *state

    def same(*state: Any) -> Any:
        return state

    state = (UInt(0, 1, 2, 3), x) if carried else (UInt(0, 1, 2, 3),)
    if construct == "loop":
        dr.while_loop(state, lambda i, *_: i < 3, add, mode=mode)
    elif construct == "branch":
        dr.if_stmt(state, state[0] < 3, add, same, mode=mode)
    else:
        dr.switch(UInt(0, 0, 0, 1), [add, same], *state, mode=mode)
    values = [4, 3, 2, 1] if construct == "loop" else [2, 2, 2, 1]
    assert both(x) == [((4,), values)] and list(part) == values
