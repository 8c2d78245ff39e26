"""``dr.if_stmt`` and ``dr.switch``: results, writes, sizes, masks, and what is refused."""

from __future__ import annotations

import functools
import gc
import itertools
import pickle
import types
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import drjit as dr
from drjit import scalar
from drjit.llvm import Array3f, Bool, Float, Float16, Int, TensorXf, UInt32, UInt64, ad

MODES = ["symbolic", "evaluated"]
X = Float(-4, 9, 0.25, -1)


def values(array: Any) -> Any:
    return np.asarray(array.numpy()).tolist()


def empty(size: int) -> Any:
    target = dr.zeros(Float, size)
    dr.eval(target)
    return target


# --- branches --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
def test_each_element_takes_a_side(mode: Any) -> None:
    x = Float(X)
    root, (vector, number) = dr.if_stmt(
        (x, {"v": Array3f(1, 2, 3), "n": 3}), x > 0, lambda x, d: (dr.sqrt(x), (d["v"] * x, d["n"])),
        lambda x, d: (x * 0 - 1, (d["v"] + x, d["n"])), mode=mode)
    assert values(root) == [-1, 3, 0.5, -1]
    assert values(vector)[0] == [-3, 9, 0.25, 0] and number == 3


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("cond", [True, False])
def test_masks_of_one_element(mode: Any, cond: bool) -> None:
    opaque = dr.opaque(Bool, cond)
    for mask in (Bool(cond), opaque):
        target = empty(2)

        def written(x: Any, target: Any = target) -> Any:
            dr.scatter(target, x[0] if mode == "evaluated" else 5, UInt32(1))
            return x * 2

        result = dr.if_stmt((Float(5, 6),), mask, written, lambda x: x, mode=mode)
        assert values(result) == ([10, 12] if cond else [5, 6])
        assert values(target) == ([0, 5] if cond else [0, 0])


def test_scalar_conditions_are_plain_branches() -> None:
    calls = []
    assert dr.if_stmt((3,), True, lambda x: calls.append(x) or x + 1, lambda x: 1 / 0) == 4
    assert calls == [3]
    assert dr.if_stmt((scalar.Float(2),), scalar.Float(2) > 3, lambda x: 1, lambda x: 2) == 2
    assert dr.if_stmt((), Bool(True), lambda: 1, lambda: 2, mode="scalar") == 1


@pytest.mark.parametrize("mode", MODES)
def test_writes_happen_for_the_elements_of_a_side(mode: Any) -> None:
    x, index, outside = Float(X), UInt32(0, 1, 2, 3), empty(5)
    argument = empty(4)

    def yes(x: Any, target: Any) -> Any:
        dr.scatter(outside, x, index)
        dr.scatter(target, x, index)
        return target

    def no(x: Any, target: Any) -> Any:
        dr.scatter_add(outside, x, UInt32(4))
        return target

    result = dr.if_stmt((x, argument), x > 0, yes, no, mode=mode)
    assert values(outside) == [0, 9, 0.25, 0, -5]
    assert values(result) == values(argument) == [0, 9, 0.25, 0]


@pytest.mark.parametrize("mode", MODES)
def test_loops_and_branches_within(mode: Any) -> None:
    def doubled(x: Any) -> Any:
        return dr.while_loop((x,), lambda x: dr.abs(x) < 100, lambda x: (x * 2,), mode=mode)[0]

    def yes(x: Any) -> Any:
        return dr.if_stmt((x,), x > 5, doubled, lambda x: x + 1, mode=mode)

    x = Float(0, 9, 0.25, -1)  # the loop would not end for 0
    assert values(dr.if_stmt((x,), x > 0, yes, lambda x: -x, mode=mode)) == [0, 144, 1.25, 1]


def test_reads_of_lanes_that_take_no_part_are_masked() -> None:
    table, index = Float(1, 2), UInt32(0, 1, 1 << 30, 1 << 31)
    for mode in MODES:
        found = dr.if_stmt((index,), index < 2, lambda i: dr.gather(Float, table, i), lambda i: Float(-1),
                           mode=mode)  # type: ignore[call-overload]
        assert values(found) == [1, 2, -1, -1]


def test_a_side_that_no_packet_needs_is_part_of_the_kernel() -> None:
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory):
        dr.kernel_history_clear()
        x = Float(X)
        dr.eval(dr.if_stmt((x,), x > 0, lambda x: dr.sin(x), lambda x: dr.exp(x)))
        assert len(dr.kernel_history()) == 1


def test_tensors() -> None:
    t = TensorXf([1, -2, 3, -4], (2, 2))
    for mode in MODES:
        found = dr.if_stmt((t,), t.array > 0, lambda t: t * 2, lambda t: t, mode=mode)
        assert found.shape == (2, 2) and values(found) == [[2, -2], [6, -4]]


@pytest.mark.parametrize(("arguments", "error", "text"), [
    ({"args": [1]}, TypeError, "'args' must be a tuple"),
    ({"cond": Float(1)}, TypeError, "'cond' must be a one-dimensional mask"),
    ({"true_fn": 3}, TypeError, "'true_fn' must be callable"),
    ({"mode": "fast"}, RuntimeError, "'mode' must be"),
    ({"strict": 1}, TypeError, "'strict' must be a bool"),
    ({"label": 1}, TypeError, "'label' must be a str"),
    ({"arg_labels": ("a", "b")}, RuntimeError, "'arg_labels' has 2 entries for 1 argument"),
    ({"rv_labels": "ab"}, TypeError, "'rv_labels' must be a sequence of strings"),
    ({"args": (Float(),)}, RuntimeError, r"'args\[0\]' of type drjit.llvm.Float is empty"),
    ({"true_fn": lambda x: Int(x), "rv_labels": ("y",)}, RuntimeError, "'result' is drjit.llvm.Int in 'true_fn'"),
    ({"true_fn": lambda x: (x, x)}, RuntimeError, "must return values of the same types and structure"),
    ({"false_fn": lambda x: (x, x)}, RuntimeError, "the type of 'result' is drjit.llvm.Float in 'true_fn' and tuple"),
    ({"true_fn": lambda x: (x, x), "false_fn": lambda x: (x,)}, RuntimeError, "the length of 'result' is 2"),
    ({"true_fn": lambda x: 1, "false_fn": lambda x: 2}, RuntimeError, "not tracked: 1 and 2.*strict=False"),
    ({"args": (Float(1, 2, 3),)}, RuntimeError, "sizes: .*3.*2|sizes: 2, 3"),
])
@pytest.mark.parametrize("mode", MODES)
def test_bad_branches(arguments: dict[str, Any], error: type[Exception], text: str, mode: str) -> None:
    given: dict[str, Any] = {"args": (Float(1, 2),), "cond": Float(1, 2) > 1, "true_fn": lambda x: x,
                             "false_fn": lambda x: x + 1, "mode": mode}
    with pytest.raises(error, match=rf"drjit.if_stmt\(\): .*{text}"):
        dr.if_stmt(**given | arguments)


def test_without_strictness_the_last_object_counts() -> None:
    x = Float(1, 2)
    found, word = dr.if_stmt((x,), x > 1, lambda x: (x, "yes"), lambda x: (x, "no"), strict=False)
    assert values(found) == [1, 2] and word == "no"


@pytest.mark.parametrize("mode", MODES)
def test_changes_from_within_are_the_callers_and_undone_if_a_side_raises(mode: str) -> None:
    given = total = Float(1, 2)
    target = empty(2)

    def adds(x: Any) -> Any:
        nonlocal total
        dr.scatter(target, x, UInt32(0, 1))
        total += x
        return x

    def fails(x: Any) -> Any:
        return adds(x).missing

    for fails_last in (False, True):
        sides = (lambda x: x, fails) if fails_last else (fails, lambda x: x)
        with pytest.raises(AttributeError, match="missing"):
            dr.if_stmt((Float(1, 2),), Bool(True, False), *sides, mode=mode)
        assert total is given and values(total) == [1, 2] and values(target) == [0, 0]
    assert values(dr.if_stmt((Float(3, 4),), Bool(True, False), adds, lambda x: x + 1, mode=mode)) == [3, 5]
    assert total is given and values(total) == [4, 2] and values(target) == [3, 0]
    assert values(dr.if_stmt((Float(3, 4),), Bool(True, False), lambda x: x + 1, adds, mode=mode)) == [4, 4]
    assert total is given and values(total) == [4, 6] and values(target) == [3, 4]
    x = Float(1, 2)
    assert values(dr.if_stmt((x,), x > 1, lambda x: x + 1, lambda x: x, mode=mode)) == [1, 3]


@pytest.mark.parametrize("kind", ["branch", "call"])
def test_a_new_attribute_is_kept_only_by_a_construct_that_does_not_raise(kind: str) -> None:
    scene = types.SimpleNamespace(x=Float(1, 2), there=Float(3, 4))
    removes = True

    def adds(x: Any) -> Any:
        scene.new = scene.x * 2
        return x

    def other(x: Any) -> Any:
        if removes:
            del scene.there
        return x + 1

    def run() -> Any:
        if kind == "branch":
            return dr.if_stmt((Float(1, 2),), Bool(True, False), adds, other, mode="symbolic")
        return dr.switch(UInt32(0, 1), [adds, other], Float(1, 2), mode="symbolic")

    with pytest.raises(RuntimeError, match="removes the attribute 'there'"):
        run()
    assert sorted(vars(scene)) == ["there", "x"]
    removes = False
    assert values(run()) == [1, 3] and sorted(vars(scene)) == ["new", "there", "x"]


@pytest.mark.parametrize("kind", ["branch", "call"])
@pytest.mark.parametrize("place", ["attribute", "entry", "list"])
@pytest.mark.parametrize("mode", MODES)
def test_elements_that_put_nothing_in_a_new_place_would_have_nothing_there(kind: str, place: str, mode: str) -> None:
    scene, table, seen, x = types.SimpleNamespace(), dict[str, Any](), list[Any](), Float(1, 2)

    def adds(x: Any) -> Any:
        if place == "attribute":
            scene.new = x * 2
        elif place == "entry":
            table["new"] = x * 2
        else:
            seen.append(x * 2)
        return x

    def run(first: Any) -> None:
        if kind == "branch":
            dr.if_stmt((x,), Bool(True, False), first, adds, mode=mode)
        else:
            dr.switch(UInt32(0, 1), [first, adds], x, mode=mode)

    run(lambda x: x)  # an attribute may serve a function as long as it runs; later it is of no use
    with pytest.raises(RuntimeError, match=r"this array has no value: .* where nothing was, and other elements have"):
        (scene.new if place == "attribute" else table["new"] if place == "entry" else seen.pop()) + 1
    run(adds)
    assert values(scene.new if place == "attribute" else table["new"] if place == "entry" else seen[0]) == [2, 4]


def test_functions_that_are_called_again_do_not_find_what_they_have_added() -> None:
    scene, target, calls = types.SimpleNamespace(), empty(3), []

    def writes(x: Any) -> Any:
        calls.append(hasattr(scene, "new"))
        scene.new = Float(2) * 2
        dr.scatter(target, Float(1, 2, 3) * dr.width(x), UInt32(0, 1, 2))
        return x + 1

    found = dr.if_stmt((Float(1),), dr.opaque(Bool, True), writes, lambda x: x, mode="symbolic")
    assert values(target) == [1, 2, 3] and set(values(found)) == {2} and calls == [False, False]


# --- calls -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
def test_each_element_calls_its_function(mode: Any) -> None:
    seen = []

    def target(k: int) -> Any:
        def function(x: Any, *, scale: Any) -> Any:
            seen.append(k)
            return {"value": x * scale + k, "mask": x > k}
        return function

    found = dr.switch(UInt32(0, 2, 2, 7), [target(k) for k in range(3)], Float(1, 2, 3, 4), scale=Float(10), mode=mode)
    assert values(found["value"]) == [10, 22, 32, 0] and values(found["mask"]) == [True, False, True, False]
    assert set(seen) == ({0, 1, 2} if mode == "symbolic" else {0, 2})


@pytest.mark.parametrize("mode", MODES)
def test_masks(mode: Any) -> None:
    targets = [lambda x, active: (x + 1, active), lambda x, active: (x * 2, active)]
    for result, active in (
            dr.switch(UInt32(0, 1, 1), targets, Float(1, 2, 3), Bool(True, False, True), mode=mode),
            dr.switch(UInt32(0, 1, 1), targets, Float(1, 2, 3), active=Bool(True, False, True), mode=mode)):
        assert values(result) == [2, 0, 6] and values(active) == [True, False, True]
    nothing = dr.switch(UInt32(0, 1, 1), [lambda x, active: x, lambda x, active: x], Float(1, 2, 3), active=False,
                        mode=mode)
    assert values(nothing) == [0, 0, 0]


@pytest.mark.parametrize("mode", MODES)
def test_functions_see_a_mask_that_is_a_literal(mode: Any) -> None:
    seen = []

    def function(x: Any, active: Any) -> Any:
        seen.append((active.state, active[0]))
        return dr.select(active, x, 0)

    class Shape:
        def area(self, x: Any, active: Any) -> Any:
            return function(x, active)

    shapes = [Shape(), Shape()]
    mask, x = Bool(True, False, True), Float(1, 2, 3)
    for result in (dr.switch(UInt32(0, 1, 1), [function, function], x, mask, mode=mode),
                   dr.switch(UInt32(0, 1, 1), [function, function], x, active=mask, mode=mode),
                   dr.dispatch(dr.instance_array(Shape, UInt32)(shapes[0], *shapes), Shape.area, x, mask, mode=mode)):
        assert values(result) == [1, 0, 3]
    assert len(seen) == 6 and set(seen) == {(dr.VarState.Literal, True)}


@pytest.mark.parametrize("mask", [None, Bool(True, False, True)])
def test_a_literal_that_all_functions_return_stays_one(mask: Any) -> None:
    targets = [lambda x, active=None: (x + 1, Float(5), UInt32(1), Bool(False)),
               lambda x, active=None: (x * 2, Float(5), UInt32(2), Bool(False))]
    masked = {} if mask is None else {"active": mask}
    expected = [[2, 4, 6], [5, 5, 5], [1, 2, 2]] if mask is None else [[2, 0, 6], [5, 0, 5], [1, 0, 2]]
    for flag in (True, False):
        with dr.scoped_set_flag(dr.JitFlag.OptimizeCalls, flag):
            *found, no = dr.switch(UInt32(0, 1, 1), targets, Float(1, 2, 3), mode="symbolic", **masked)
        assert (found[1].state is dr.VarState.Literal) == (flag and mask is None)
        assert (no.state is dr.VarState.Literal) == flag
        assert [*map(values, found)] == expected and values(no) == [False] * 3


def test_a_literal_that_methods_return_is_not_that_of_no_instance() -> None:
    class Shape:
        def sides(self) -> Any:
            return Float(4)

    shapes = [Shape(), Shape()]
    found = dr.instance_array(Shape, UInt32)(shapes[0], None, shapes[1]).sides()
    assert values(found) == [4, 0, 4]


def test_calls_that_write_and_return_a_literal() -> None:
    target = empty(3)

    def function(x: Any) -> Any:
        dr.scatter_add(target, x, UInt32(1))
        return Float(5)

    found = dr.switch(UInt32(0, 1), [function, function], Float(1, 2), mode="symbolic")
    assert found.state is dr.VarState.Literal and values(target) == [0, 3, 0]


def test_masks_of_ordinary_calls() -> None:
    calls = []

    def note(*args: Any) -> Any:
        calls.append(args)
        return "done"

    def with_mask(x: Any, active: Any = "none") -> Any:
        return x, active

    assert dr.switch(0, [note], 7, active=False) is None and not calls
    assert dr.switch(0, [note], 7, active=True) == "done" and calls == [(7,)]
    assert dr.switch(0, [with_mask], 7, active=True) == (7, True)
    assert dr.switch(0, [with_mask], 7) == (7, "none")
    assert dr.switch(0, [lambda **options: options], active=True) == {"active": True}
    assert dr.switch(0, [functools.partial(with_mask, 7)], active=np.bool_(True)) == (7, True)
    with pytest.raises(TypeError, match=r"'active' must be a bool where 'index' is an int, found drjit.llvm.Bool"):
        dr.switch(0, [with_mask], 7, active=Bool(True))


@pytest.mark.parametrize("mode", MODES)
def test_calls_write(mode: Any) -> None:
    target, index = empty(3), UInt32(0, 1, 0, 1)

    def first(x: Any) -> None:
        dr.scatter_add(target, x, UInt32(0))

    def second(x: Any) -> None:
        dr.scatter_add(target, x, UInt32(2))

    assert dr.switch(index, [first, second], Float(1, 2, 3, 4), mode=mode) is None
    assert values(target) == [4, 0, 6]


@pytest.mark.parametrize("mode", MODES)
def test_calls_of_one_element_and_of_none(mode: Any) -> None:
    targets = [lambda x: x, lambda x: x + 1]
    assert values(dr.switch(UInt32(1), targets, Float(1, 2), mode=mode)) == [2, 3]
    assert values(dr.switch(dr.opaque(UInt32, 1), targets, Float(1), mode=mode)) == [2]
    assert values(dr.switch(dr.opaque(UInt32, 9), targets, Float(1), mode=mode)) == [0]
    assert values(dr.switch(UInt32(), targets, Float(1), mode=mode)) == []


def test_numbers_are_ordinary_calls() -> None:
    assert dr.switch(1, [lambda x: x, lambda x: x + 1], 5) == 6
    for index in (-1, 2):
        with pytest.raises(IndexError, match=rf"drjit.switch\(\): 'index' is {index}, and there are 2 targets"):
            dr.switch(index, [lambda x: x, lambda x: x + 1], 5)


def test_many_targets_with_other_numbers_are_one_kernel() -> None:
    index = UInt32(np.arange(1000) % 100)
    x = Float(np.linspace(0, 1, 1000))
    targets = [lambda x, k=k: x * k + k for k in range(100)]
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory):
        dr.kernel_history_clear()
        found = dr.switch(index, targets, x)
        dr.eval(found)
        assert len(dr.kernel_history()) == 1
    k = np.arange(1000) % 100
    np.testing.assert_allclose(found.numpy(), np.linspace(0, 1, 1000) * k + k, rtol=1e-6)


def _of_all_types(k: int) -> tuple[Any, Any]:
    """A function of an element and a position, and the same in NumPy; what it captures follows from a number."""
    number, wide, half = k * 0.5 + 0.25, (1 << 40) + k, k * 0.125 + 1
    yes, one, table = k % 3 == 0, dr.opaque(Float, k + 0.5), Float(k, k + 1, k + 2, k + 3)
    chosen = dr.opaque(Bool, yes)
    flags = Bool([bit == "1" for bit in f"{k:06b}"])
    dr.make_opaque(table, flags)

    def function(x: Float, i: UInt32, active: Any) -> Any:
        flag = dr.gather(Bool, flags, i % 6) & (x < 40)
        found = dr.gather(Float, table, i & 3, flag) + dr.gather(Float, table, UInt32(1)) + one
        steps, _ = dr.while_loop((UInt32(0), Float(x)), lambda n, y: (n < 9) & (y < number * 4),
                                 lambda n, y: (n + 1, y + number))
        y = dr.if_stmt((x,), chosen & (i > 7), lambda x: x * number, lambda x: x - found)
        return y, steps, UInt64(i) * wide, Float16(half) * Float16(i & 1), chosen & flag

    def expected(x: float, i: int) -> tuple[Any, ...]:
        flag = f"{k:06b}"[i % 6] == "1" and x < 40
        found = (k + (i & 3) if flag else 0) + k + 1 + k + 0.5
        steps, y = 0, x
        while steps < 9 and y < number * 4:
            steps, y = steps + 1, y + number
        return (x * number if yes and i > 7 else x - found), steps, i * wide, half * (i & 1), yes and flag

    return function, expected


@pytest.mark.parametrize("spread", ["random", "in runs", "some masked"])
def test_elements_of_several_targets_share_a_function(spread: str) -> None:
    functions, models = zip(*map(_of_all_types, range(40)), strict=True)
    others = [lambda x, i, active: (-x, i, UInt64(i), Float16(1), i > 5),
              lambda x, i, active: (x * x, i + 1, UInt64(0), Float16(x), i < 5)]
    other_models = [lambda x, i: (-x, i, i, 1, i > 5), lambda x, i: (x * x, i + 1, 0, x, i < 5)]
    count = 1003  # the last packet is not full
    index = np.random.default_rng(1).integers(0, 42, count)
    if spread == "in runs":
        index = np.sort(index) * 5 % 42
    active = np.arange(count) % 7 != 3 if spread == "some masked" else np.ones(count, bool)
    x, i = np.arange(count) % 64 / 4, np.arange(count)
    found = dr.switch(UInt32(index), [*functions, *others], Float(x), UInt32(i), active=Bool(active))
    dr.eval(found)
    models = (*models, *other_models)
    wanted = [models[k](float(at), int(n)) if on else (0,) * 5
              for k, at, n, on in zip(index, x, i, active, strict=True)]
    for values_, column in zip(found, zip(*wanted, strict=True), strict=True):
        assert values(values_) == list(column)


def test_what_targets_share_is_taken_together() -> None:
    def text(count: int) -> str:
        functions = [lambda x, k=k: x * (k + 2.5) + (k + 3) for k in range(count)]
        with dr.scoped_set_flag(dr.JitFlag.KernelHistory):
            dr.kernel_history_clear()
            dr.eval(dr.switch(UInt32(np.arange(64) % count), functions, dr.arange(Float, 64)))
            (entry,) = dr.kernel_history()
        return str(entry["ir"].getvalue())

    assert "@shared0(" in text(2) and text(2) == text(50)
    assert "@shared" not in text(1)


@pytest.mark.parametrize(("arguments", "error", "text"), [
    ({"index": Int(0)}, TypeError, "'index' must be a flat array of 32-bit unsigned"),
    ({"index": 1.5}, TypeError, "'index' must be a flat array of 32-bit unsigned"),
    ({"targets": 3}, TypeError, "'targets' must be a sequence"),
    ({"targets": []}, RuntimeError, "'targets' is empty"),
    ({"targets": [abs, 3]}, TypeError, r"'targets\[1\]' must be callable"),
    ({"targets": [lambda x: x, lambda x: Int(x)]}, RuntimeError, r"drjit.llvm.Int in 'targets\[1\]'"),
    ({"targets": [lambda x: 1, lambda x: 2]}, RuntimeError, "not tracked: 1 and 2"),
    ({"mode": "scalar"}, RuntimeError, "'mode' must be"),
    ({"label": 3}, TypeError, "'label' must be"),
])
def test_bad_calls(arguments: dict[str, Any], error: type[Exception], text: str) -> None:
    given: dict[str, Any] = {"index": UInt32(0, 1), "targets": [lambda x: x, lambda x: x + 1]} | arguments
    with pytest.raises(error, match=rf"drjit.switch\(\): .*{text}"):
        dr.switch(given.pop("index"), given.pop("targets"), Float(1, 2), **given)


def test_debug_mode_warns_of_indices_that_are_too_large() -> None:
    with dr.scoped_set_flag(dr.JitFlag.Debug), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = dr.switch(UInt32(0, 100), [lambda x: x], Float(1, 2))
        assert values(found) == [1, 0]
    assert any("index 100, but this value must be smaller than 1" in str(entry.message) and entry.filename == __file__
               for entry in caught)


# --- instances -------------------------------------------------------------------------------------------------------


class Shape:
    def __init__(self, size: float) -> None:
        self.size = Float(size)

    def area(self, scale: Any) -> Any:
        return self.size * scale


class Square(Shape):
    def area(self, scale: Any) -> Any:
        return self.size * super().area(scale)


@pytest.mark.parametrize("mode", MODES)
def test_methods_of_instances(mode: Any) -> None:
    ShapePtr = dr.instance_array(Shape, UInt32)
    line, square, scale = Shape(2), Square(3), Float(1, 2, 3, 4)
    pointers = ShapePtr(line, square, None, square)
    assert values(pointers.area(scale, mode=mode)) == [2, 18, 0, 36]
    assert values(dr.dispatch(pointers, lambda shape, x: shape.size + x, scale, mode=mode)) == [3, 5, 0, 7]
    assert values(dr.gather(ShapePtr, pointers, UInt32(1, 0)).area(Float(1), mode=mode)) == [9, 2]
    assert values(pointers.area(scale, mode=mode, label="areas")) == [2, 18, 0, 36]
    assert dr.dispatch(line, lambda shape, x: x, 5) == 5


@pytest.mark.parametrize("mode", MODES)
def test_instances_that_are_gone_are_none(mode: Any) -> None:
    ShapePtr = dr.instance_array(Shape, UInt32)
    line, gone, square = Shape(2), Shape(4), Square(3)
    pointers = ShapePtr(line, gone, square)
    del gone
    assert values(pointers.area(Float(1), mode=mode)) == [2, 0, 9]
    del line, square
    with pytest.raises(RuntimeError, match=r"ShapePtr.area\(\): there is no instance"):
        pointers.area(Float(1), mode=mode)


def test_a_thousand_instances_are_one_function() -> None:
    ShapePtr = dr.instance_array(Shape, UInt32)
    shapes = [Shape(k) for k in range(1000)]
    pointers = ShapePtr(*shapes)
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory):
        sources = []
        for scale in (1, 2):
            dr.kernel_history_clear()
            found = pointers.area(dr.opaque(Float, scale))
            dr.eval(found)
            assert values(found) == [k * scale for k in range(1000)]
            (entry,) = [entry for entry in dr.kernel_history() if entry["size"] == 1000]
            sources.append(entry["ir"].getvalue())
        assert sources[0] == sources[1] and sources[0].count("define") < 10 and len(sources[0]) < 20_000


@pytest.mark.parametrize(("action", "error", "text"), [
    (lambda: dr.instance_array(3, UInt32), TypeError, "drjit.instance_array.*'base' must be a class"),
    (lambda: dr.instance_array(Shape, Int), TypeError, "drjit.instance_array.*'index' must be a type"),
    (lambda: dr.dispatch(UInt32(0), lambda s: s), TypeError, "drjit.dispatch.*'inst' must be an array of instances"),
    (lambda: dr.dispatch(dr.instance_array(Shape, UInt32)(None), 3), TypeError, "drjit.dispatch.*'target' must be"),
])
def test_bad_instances(action: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        action()


def test_selected_instances_remain_instances() -> None:
    class Item:
        def __init__(self, value):
            self.value = value

        def get(self):
            return Float(self.value)

    ItemArray = dr.instance_array(Item, UInt32)
    one, two = Item(1), Item(2)
    chosen = dr.select(Bool(True, False, False), ItemArray(one), ItemArray(one, two, None))
    assert type(chosen) is ItemArray
    assert type(dr.select(Bool(True, False), ItemArray(one, two), ItemArray(two, one))) is ItemArray
    assert list(chosen.get()) == [1, 2, 0]
    assert type(dr.select(True, ItemArray(one), ItemArray(two))) is ItemArray


def test_what_is_wrong_with_instances_is_told() -> None:
    class Item:
        def get(self):
            return Float(1)

    ItemArray = dr.instance_array(Item, UInt32)
    one = Item()
    with pytest.raises(TypeError, match=r"ItemPtr.__init__\(\): element 1 must be an instance of 'Item' or None"):
        ItemArray(one, "two")
    for wrong in (2.7, "x", True, Float(1), np.array([1.5]), [1, 2.5]):
        with pytest.raises(TypeError, match=r"ItemPtr.__init__\(\): element [01] must be an instance of 'Item'"):
            ItemArray(wrong)
    for numbers in (1, [1, 0], range(2), UInt32(1, 0), np.array([1, 0])):
        assert list(ItemArray(numbers)) == list(UInt32(numbers))
    gone = ItemArray(one)
    assert ItemArray([]).get().shape == ItemArray().get().shape == (0,)
    del one
    with pytest.raises(RuntimeError, match=r"ItemPtr.get.*Keep a reference to each"):
        gone.get()


@dataclass
class Material:
    """Equal to others of its name, and not hashable."""

    name: str
    factor: float = field(compare=False)

    def scaled(self, x: Any) -> Any:
        return x * self.factor


@pytest.mark.parametrize("mode", MODES)
def test_instances_that_are_equal_are_different_ones(mode: Any) -> None:
    MaterialArray = dr.instance_array(Material, UInt32)
    one, two = Material("wood", 2), Material("wood", 3)
    assert one == two
    assert values(MaterialArray(one, two, one).scaled(Float(1, 1, 10), mode=mode)) == [2, 3, 20]


def test_types_derived_from_those_of_instances() -> None:
    class MaterialArray(dr.instance_array(Material, UInt32)):
        pass

    one, two = Material("a", 2), Material("b", 3)
    assert values(MaterialArray(one, two).scaled(Float(1, 1))) == [2, 3]


def test_instances_that_cannot_be_referred_to_weakly() -> None:
    class Packed:
        __slots__ = ()

    with pytest.raises(TypeError, match=r"PackedPtr.__init__\(\): an instance of 'Packed' cannot be .* '__weakref__'"):
        dr.instance_array(Packed, UInt32)(Packed())


def test_evaluated_calls_refuse_writes_to_parts_of_arguments() -> None:
    def write(x: Any, i: Any) -> None:
        dr.scatter(x, Float(1), 3 - i)

    x, wide = Float(0, 0, 0, 0), dr.zeros(Float, 5)
    index, lanes = UInt32(0, 0, 1, 1), dr.arange(UInt32, 4)
    with pytest.raises(RuntimeError, match=r"drjit.switch.*: 'targets\[0\]' writes .* 'args\[0\]', of which"):
        dr.switch(index, [write, write], x, lanes, mode="evaluated")
    assert values(x) == [0, 0, 0, 0]
    dr.switch(index, [write, write], wide, lanes, mode="evaluated")
    dr.switch(index, [write, write], x, lanes, mode="symbolic")
    assert values(wide) == [1, 1, 1, 1, 0] and values(x) == [1, 1, 1, 1]


# --- how often functions are called ----------------------------------------------------------------------------------


@pytest.mark.parametrize("differentiable", [False, True])
def test_functions_are_called_once(differentiable: bool) -> None:
    package = dr.llvm.ad if differentiable else dr.llvm
    calls: list[str] = []

    def noted(name: str, value: Any) -> Any:
        calls.append(name)
        return value

    x = package.Float(1, 2, 3)
    dr.if_stmt((x,), x > 2, lambda x: noted("true", x + 1), lambda x: noted("false", x * 2))
    dr.switch(package.UInt32(0, 1, 1), [lambda x: noted("0", x), lambda x: noted("1", x * x)], x)
    dr.while_loop((package.UInt32(0, 0, 0), x), lambda k, x: noted("condition", k < 3),
                  lambda k, x: (k + 1, noted("body", x + 1)), mode="symbolic")
    assert calls == ["true", "false", "0", "1", "condition", "body"]


@pytest.mark.parametrize("mode", MODES)
def test_functions_that_turn_out_to_be_differentiated_are_called_once(mode: str) -> None:
    calls, noted = itertools.count(), list[int]()
    scale = dr.llvm.ad.Float(3)
    dr.enable_grad(scale)

    def function(x: Any) -> Any:
        noted.append(next(calls))
        return x * scale

    y = dr.if_stmt((dr.llvm.ad.Float(1, 2),), dr.llvm.ad.Float(1, 2) > 1, function, lambda x: x, mode=mode)
    assert values(dr.detach(y)) == [1, 6]
    dr.backward(y)
    assert values(dr.grad(scale)) == [2]
    assert noted == [0]
    assert next(calls) == 1


@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.parametrize("fails", [True, False])
def test_calls_of_many_functions_leave_the_collector_of_cycles_as_it_was(enabled: bool, fails: bool) -> None:
    def function(number: int) -> Any:
        def target(x: Any) -> Any:
            if fails and number == 99:
                raise KeyError("of the user")
            return x * number

        return target

    before = gc.isenabled()
    try:
        (gc.enable if enabled else gc.disable)()
        index = UInt32(1, 99, 50)
        if fails:
            with pytest.raises(KeyError):
                dr.switch(index, [function(k) for k in range(100)], Float(1, 2, 3))
        else:
            assert dr.all(dr.switch(index, [function(k) for k in range(100)], Float(1, 2, 3)) == Float(1, 198, 150))
        assert gc.isenabled() == enabled
    finally:
        (gc.enable if before else gc.disable)()


class Lamp:
    def __init__(self, power: float) -> None:
        self._power = power

    @property
    def power(self) -> Any:
        """How bright it is."""
        return Float(self._power)

    @functools.cached_property
    def twice(self) -> Any:
        return Float(2 * self._power)


LampPtr = dr.instance_array(Lamp, UInt32)


def test_properties_of_instances() -> None:
    dim, bright = Lamp(1), Lamp(10)
    pointers = LampPtr(dim, None, bright, dim)
    assert values(pointers.power) == [1, 0, 10, 1]
    assert values(pointers.twice) == [2, 0, 20, 2]
    assert LampPtr.power.__doc__ == "How bright it is."


def test_instances_are_compared() -> None:
    dim, bright, other = Lamp(1), Lamp(10), Lamp(5)
    pointers = LampPtr(dim, None, bright, dim)
    assert values(pointers == None) == [False, True, False, False]  # noqa: E711
    assert values(pointers != None) == [True, False, True, True]  # noqa: E711
    assert values(pointers == dim) == [True, False, False, True]
    assert values(pointers == other) == [False] * 4
    assert values(pointers != LampPtr(dim, dim, bright, bright)) == [False, True, False, True]
    assert isinstance(hash(pointers), int)


def test_instances_are_pickled_with_what_holds_them() -> None:
    lamps = [Lamp(1), Lamp(10)]
    pointers = LampPtr(lamps[1], None, lamps[0], lamps[1])
    again, found = pickle.loads(pickle.dumps((lamps, pointers)))
    assert type(found) is LampPtr and values(found.power) == [10, 0, 1, 10]
    assert values(found == again[1]) == [True, False, False, True]
    assert values(pointers == lamps[1]) == [True, False, False, True]
    alone = pickle.loads(pickle.dumps(pointers))
    assert values(alone == None) in ([False, True, False, False], [True] * 4)  # noqa: E711


@pytest.mark.parametrize("mode", MODES)
def test_debug_mode_says_nothing_of_none(mode: Any) -> None:
    lamp = Lamp(3)
    with dr.scoped_set_flag(dr.JitFlag.Debug), warnings.catch_warnings():
        warnings.simplefilter("error")
        found = dr.dispatch(LampPtr(lamp, None), lambda lamp, x: lamp.power * x, Float(1, 2), mode=mode)
        assert values(found) == [3, 0]
        dr.sync_thread()


@pytest.mark.parametrize("mode", MODES)
def test_calls_read_arguments_at_positions_among_all_elements(mode: Any) -> None:
    def read(i: Any, table: Any) -> Any:
        return dr.gather(Float, table, i)

    def skip(i: Any, table: Any) -> Any:
        return Float(i)

    i, table = dr.arange(UInt32, 4), Float(1, 2, 3, 4)
    assert values(dr.switch(i % 2, [read, skip], 3 - i, table, mode=mode)) == [4, 2, 2, 0]
    assert values(dr.switch(i * 0, [read, skip], 3 - i, table, mode=mode)) == [4, 3, 2, 1]

    def within(i: Any, table: Any) -> Any:
        return dr.switch(i // 2, [read, skip], i, table, mode=mode)

    assert values(dr.switch(i % 2, [within, skip], 3 - i, table, mode=mode)) == [3, 2, 2, 0]


def test_evaluated_calls_write_in_their_own_lanes_only() -> None:
    index, ones = dr.arange(UInt32, 4), dr.ones(UInt32, 4)
    dr.eval(index, ones)
    for mode in ("symbolic", "evaluated"):
        seen = dr.zeros(UInt32, 4)

        def write(x: Any, seen: Any = seen) -> Any:
            dr.scatter_add(seen, ones, index)
            return x

        dr.switch(index % 2, [write, lambda x: x], index, mode=mode)
        assert values(seen) == [1, 0, 1, 0], mode


class Holder:
    def __init__(self) -> None:
        self.total = Float(0)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("where", ["attribute", "list", "dictionary", "method"])
def test_arrays_that_a_body_replaces_are_replaced_in_each_iteration(where: str, mode: str) -> None:
    holder, entries, named = Holder(), [Float(0)], {"total": Float(0)}

    class Program(Holder):
        def body(self, i: Any) -> Any:
            self.total = self.total + 1
            return (i + 1,)

    program = Program()

    def attribute(i: Any) -> Any:
        holder.total = holder.total + 1
        return (i + 1,)

    def item(i: Any) -> Any:
        entries[0] = entries[0] + 1
        return (i + 1,)

    def key(i: Any) -> Any:
        named["total"] = named["total"] + 1
        return (i + 1,)

    body = {"attribute": attribute, "list": item, "dictionary": key, "method": program.body}[where]
    owners: dict[str, Callable[[], Any]] = {
        "attribute": lambda: holder.total, "list": lambda: entries[0], "dictionary": lambda: named["total"],
        "method": lambda: program.total}
    before = {name: found() for name, found in owners.items()}
    assert values(dr.while_loop((UInt32(0, 2, 5),), lambda i: i < 3, body, mode=mode)[0]) == [3, 3, 5]
    assert values(owners[where]()) == [3, 1, 0]
    assert values(before[where]) == [0]  # the array that was there
    assert all(found() is before[name] and values(found()) == [0] for name, found in owners.items() if name != where)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("size", [4, 5])
def test_several_branches_write_to_one_array_before_it_is_evaluated(mode: str, size: int) -> None:
    x, target = UInt32(0, 1, 2, 3), dr.zeros(Float, size)

    def add(target: Any) -> Any:
        dr.scatter_add(target, Float(1), UInt32(0))
        return target

    for bound in range(3):
        result = dr.if_stmt((target,), x > bound, add, lambda target: target, mode=mode)
    assert values(target) == values(result) == [6] + [0] * (size - 1)


@pytest.mark.parametrize("writes", [False, True])
@pytest.mark.parametrize("differentiated", [False, True])
def test_arguments_that_all_functions_return_are_zero_where_none_is_called(writes: bool, differentiated: bool) -> None:
    """Also if the functions write what is differentiated, so that all of them are computed."""
    x, bins = ad.Float(1, 2, 3), dr.zeros(ad.Float, 3)
    if differentiated:
        dr.enable_grad(x)

    def second(value: Any) -> Any:
        if writes:
            dr.scatter_add(bins, x, ad.UInt(0, 1, 2))
        return value

    y = dr.switch(ad.UInt(0, 1, 2), [lambda value: value, second], x * 2, mode="symbolic")
    assert list(y) == [2, 4, 0]
    if differentiated:
        dr.backward(y)
        assert list(x.grad) == [2, 2, 0]


def test_functions_that_know_each_other_are_looked_at_once() -> None:
    """What they know is compared after each, but not gathered for each."""
    class Shape:
        def __init__(self, size: float) -> None:
            self.size, self.others = Float(size), [self]

        def area(self, x: Any) -> Any:
            self.size = self.size + x
            return self.size

    shapes = [Shape(k) for k in range(4)]
    for shape in shapes:
        shape.others = shapes
    found = dr.switch(UInt32(0, 1, 3), [shape.area for shape in shapes], Float(1, 2, 3))
    assert list(found) == [1, 3, 6]
    assert [list(shape.size) for shape in shapes] == [[1, 0, 0], [1, 3, 1], [2, 2, 2], [3, 3, 6]]
