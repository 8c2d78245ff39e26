"""Derivatives of constructs whose functions refer to what has changed since they were traced: of what was traced."""

from __future__ import annotations

import functools
import gc
import time
import weakref
from collections import OrderedDict, deque
from typing import Any

import numpy as np
import pytest

import drjit as dr
from drjit.llvm.ad import Float64 as F
from drjit.llvm.ad import TensorXf64
from drjit.llvm.ad import UInt32 as U

scale: Any = None


def repeated(body: Any) -> Any:
    return dr.while_loop((U(0, 0), F(1, 1)), lambda i, y: i < 2, body)[1]


def variable() -> Any:
    x = F(2, 3)
    dr.enable_grad(x)
    return x


def test_variables_of_enclosing_functions() -> None:
    x = first = variable()
    factor, weights = 3, [F(5, 7)]
    y = repeated(lambda i, y: (i + 1, y * x * factor * weights[0]))
    x, factor, weights[0] = x * 2, 100, F(0)
    dr.backward(y)
    assert first.grad.numpy().tolist() == [4 * 225, 6 * 441]


def test_arrays_changed_in_place() -> None:
    x, w = variable(), F(5, 7)
    y = repeated(lambda i, y: (i + 1, y * w * x))
    w *= 0
    dr.backward(y)
    assert x.grad.numpy().tolist() == [4 * 25, 6 * 49]


def test_variables_of_the_module() -> None:
    global scale
    x, scale = variable(), F(3)

    y = dr.if_stmt((x,), x > 2.5, lambda x: scaled(x), lambda x: -x)
    z = dr.switch(U(0, 1), [scaled, lambda x: x * 2], x)
    scale = F(100)
    dr.backward(y + z)
    assert x.grad.numpy().tolist() == [2, 5]


def scaled(x: Any) -> Any:
    return x * scale


@dr.syntax
def returned_early(x: Any) -> Any:
    if x > 2.5:
        return scaled(x)
    x = x * scale
    x += 0
    return x


@dr.syntax
def chosen(x: Any) -> Any:
    return scaled(x) if x > 0 else 1.0


@dr.syntax
def left_early(x: Any) -> Any:
    i = U(0)
    while i < 1:
        x = scaled(x)
        if x > 1000:
            break
        i += 1
    return x


@pytest.mark.parametrize("function", [returned_early, chosen, left_early])
def test_variables_of_the_module_in_translated_functions(function: Any) -> None:
    global scale
    x, scale = variable(), F(3)
    y = function(x)
    scale = F(100)
    dr.backward(y)
    assert x.grad.numpy().tolist() == [3, 3]


def test_branches_in_a_loop_of_python() -> None:
    x = variable()
    found = [dr.if_stmt((x,), x > 2.5, lambda x: x * k, lambda x: -x * k) for k in range(3)]  # noqa: B023
    dr.backward(found[0] + found[1] + found[2])
    assert x.grad.numpy().tolist() == [-3, 3]


def test_attributes_that_have_changed() -> None:
    class Model:
        def __init__(self) -> None:
            self.weight = F(3)

        def __call__(self, x: Any) -> Any:
            return x * self.weight

        def value(self, x: Any) -> Any:
            return self(x) + x * self.weight

    x, model = variable(), Model()
    y = dr.if_stmt((x,), x > 2.5, model.value, lambda x: -x * model.weight)
    dr.eval(model.weight)
    model.weight *= 2
    dr.backward(y)
    assert x.grad.numpy().tolist() == [-3, 6]


class Holder:
    """An object with an attribute, a slot, a class attribute, a property and a list."""

    __slots__ = ("__dict__", "slot")
    shared: Any = 3.0

    def __init__(self) -> None:
        self.own, self.slot, self.entries = F(3), F(3), [F(3)]

    @property
    def hidden(self) -> Any:
        return self.own

    def __call__(self, i: Any, y: Any) -> Any:
        return i + 1, y * self.own

    def __mul__(self, y: Any) -> Any:
        return self.own * y

    def by_attribute(self, i: Any, y: Any) -> Any:
        return i + 1, y * self.own

    def by_slot(self, i: Any, y: Any) -> Any:
        return i + 1, y * self.slot

    def by_property(self, i: Any, y: Any) -> Any:
        return i + 1, y * self.hidden

    def by_class(self, i: Any, y: Any) -> Any:
        return i + 1, y * self.shared

    def by_entry(self, i: Any, y: Any) -> Any:
        return i + 1, y * self.entries[0]

    def by_name(self, i: Any, y: Any) -> Any:
        return i + 1, y * getattr(self, "own")  # noqa: B009

    def by_operator(self, i: Any, y: Any) -> Any:
        return i + 1, self * y


@pytest.mark.parametrize(("body", "attribute", "value"), [
    (lambda holder: holder, "own", F(100)), (lambda holder: holder.by_attribute, "own", F(100)),
    (lambda holder: holder.by_slot, "slot", F(100)), (lambda holder: holder.by_property, "own", F(100)),
    (lambda holder: holder.by_entry, "entries", [F(100)]), (lambda holder: holder.by_name, "own", F(100)),
    (lambda holder: holder.by_operator, "own", F(100)), (lambda holder: holder.by_class, "shared", 100.0),
    (lambda holder: lambda i, y: (i + 1, holder.entries[0] * y), "entries", [F(100)]),
])
def test_what_objects_hold(body: Any, attribute: str, value: Any) -> None:
    holder, x = Holder(), variable()
    y = dr.while_loop((U(0, 0), x), lambda i, y: i < 2, body(holder))[1]
    setattr(holder, attribute, value)
    dr.backward(y)
    assert x.grad.numpy().tolist() == [9, 9]


def test_entries_of_attributes_that_have_changed() -> None:
    holder, x = Holder(), variable()
    y = dr.while_loop((U(0, 0), x), lambda i, y: i < 2, holder.by_entry)[1]
    holder.entries[0] += 1
    dr.backward(y)
    assert x.grad.numpy().tolist() == [9, 9]


@pytest.mark.parametrize("construct", ["loop", "branch", "call", "instances"])
def test_attributes_that_functions_write_to_by_index(construct: str) -> None:
    class Counter:
        def __init__(self) -> None:
            self.factor, self.seen, self.entries = F(3), dr.zeros(F, 2), [dr.zeros(F, 2)]

        def count(self, x: Any) -> Any:
            dr.scatter_add(self.seen, F(1), U(0))
            dr.scatter_add(self.entries[0], F(1), U(1))
            return x * self.factor

    x, counter = variable(), Counter()
    y = dr.while_loop((U(0, 0), x), lambda i, y: i < 1, lambda i, y: (i + 1, counter.count(y)))[1] \
        if construct == "loop" else dr.if_stmt((x,), x > 0, counter.count, lambda x: x) if construct == "branch" else \
        dr.switch(U(0, 0), [counter.count, lambda x: x], x) if construct == "call" else \
        dr.instance_array(Counter, U)(counter, counter).count(x)
    dr.backward(y)
    assert x.grad.numpy().tolist() == [3, 3]
    assert counter.seen.numpy().tolist() == [2, 0] and counter.entries[0].numpy().tolist() == [0, 2]


def test_attributes_of_classes_that_have_changed() -> None:
    class Settings:
        factor = 3.0

    x = variable()
    y = dr.while_loop((U(0, 0), x), lambda i, y: i < 2, lambda i, y: (i + 1, y * Settings.factor))[1]
    Settings.factor = 100.0
    dr.backward(y)
    assert x.grad.numpy().tolist() == [9, 9]


def test_attributes_of_instances_that_have_changed() -> None:
    class Light:
        def __init__(self, power: Any) -> None:
            self.power = power

        def value(self, x: Any) -> Any:
            return self.power * x

    x, light = variable(), Light(F(3))
    y = dr.instance_array(Light, U)(light, light).value(x)
    light.power = F(100)
    dr.backward(y)
    assert x.grad.numpy().tolist() == [3, 3]


def defaults(k: Any) -> Any:
    return lambda i, y, k=k: (i + 1, y * k[0])


def keyword_defaults(k: Any) -> Any:
    def body(i: Any, y: Any, *, k: Any = k) -> Any:
        return i + 1, y * k[0]

    return body


def function_attribute(k: Any) -> Any:
    def body(i: Any, y: Any) -> Any:
        return i + 1, y * body.factor[0]  # type: ignore[attr-defined]

    body.factor = k  # type: ignore[attr-defined]
    return body


@pytest.mark.parametrize("held", [
    lambda number: [number], lambda number: [number] * 300, lambda number: OrderedDict({0: number}),
    lambda number: np.full(1, number), lambda number: deque([number]), lambda number: {0: number},
], ids=["list", "long list", "OrderedDict", "ndarray", "deque", "dict"])
@pytest.mark.parametrize("function", [
    defaults, keyword_defaults, lambda k: lambda i, y: (i + 1, y * k[0]),
], ids=["default", "keyword default", "closure"])
def test_what_functions_hold_is_copied(held: Any, function: Any) -> None:
    x, values = variable(), held(3.0)
    y = dr.while_loop((U(0, 0), x), lambda i, y: i < 2, function(values))[1]
    values[0] = 100.0
    dr.backward(y)
    assert x.grad.numpy().tolist() == [9, 9]


def test_attributes_of_functions() -> None:
    x, values = variable(), [3.0]
    body = function_attribute(values)
    y = dr.while_loop((U(0, 0), x), lambda i, y: i < 2, body)[1]
    dr.backward(y)
    assert x.grad.numpy().tolist() == [9, 9]


def test_containers_that_hold_themselves() -> None:
    class Cyclic:
        def __init__(self) -> None:
            self.entries: list[Any] = [F(3)]
            self.entries.append(self.entries)

    x, cyclic = variable(), Cyclic()
    y = dr.while_loop((U(0, 0), x), lambda i, y: i < 2, lambda i, y: (i + 1, y * cyclic.entries[0]))[1]
    dr.backward(y)
    assert x.grad.numpy().tolist() == [9, 9]


def test_what_is_written_from_outside_is_still_written_once() -> None:
    x, target = variable(), dr.zeros(F, 2)

    def body(i: Any, y: Any) -> Any:
        dr.scatter_add(target, F(1), U(0))
        return i + 1, y * x

    y = repeated(body)
    dr.backward(y)
    assert target.numpy().tolist() == [4, 0] and x.grad.numpy().tolist() == [4, 6]
    y = repeated(body)
    dr.set_grad(x, F(1, 1))
    dr.forward_to(y)
    assert target.numpy().tolist() == [8, 0] and y.grad.numpy().tolist() == [4, 6]


def test_sines_and_cosines_of_single_values_used_both_ways() -> None:
    values = [F(0.1 * k) for k in range(40)]
    x = F(np.linspace(0, 1, 40))
    dr.make_opaque(values, x)
    expected = x.numpy()
    for k in range(40):
        expected = expected * np.cos(0.1 * k) + np.sin(0.1 * k)
    result = x
    for value in values:
        sine, cosine = dr.sincos(value)
        result = result * cosine + sine
    np.testing.assert_allclose(result.numpy(), expected, atol=1e-12)


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
def test_arrays_that_a_body_makes_and_somebody_keeps_change_in_all_iterations(mode: str) -> None:
    entries: dict[str, Any] = {}
    kept: list[Any] = []

    @functools.lru_cache
    def cached() -> Any:
        return F(0)

    def body(i: Any, x: Any) -> Any:
        if not kept:
            kept.append(F(0))
            entries["total"] = F(0)
        for array in (kept[0], entries["total"], cached()):
            array += x
        own = F(0)
        own += x  # which nobody keeps
        return i + 1, x + own

    x = dr.while_loop((U(0), F(1, 2)), lambda i, x: i < 3, body, mode=mode)[1]
    assert x.numpy().tolist() == [8, 16]
    for array in (kept[0], entries["total"], cached()):
        assert array.numpy().tolist() == [7, 14]


@pytest.mark.parametrize("tracked", [False, True])
def test_a_body_that_makes_another_array_whenever_it_is_called_is_refused(tracked: bool) -> None:
    @functools.lru_cache
    def cached(number: int) -> Any:
        return F(0)

    def body(i: Any, x: Any) -> Any:
        total = cached(time.perf_counter_ns())
        total += x * x
        return i + 1, x

    x = F(1, 2)
    if tracked:
        dr.enable_grad(x)
    with pytest.raises(RuntimeError, match=r"do(es)? something else each time"):
        dr.while_loop((U(0), x), lambda i, x: i < 3, body, mode="symbolic")
    assert x.numpy().tolist() == [1, 2]


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
def test_classes_of_objects_that_bodies_know_are_let_go(mode: str) -> None:
    def run() -> list[Any]:
        class Base:
            __slots__ = ("__weakref__", "x")
            table = F(0, 0)

            def __init__(self) -> None:
                self.x = F(0, 0)

        class Derived(Base):
            pass

        owner = Derived()

        def body(i: U) -> U:
            owner.x = owner.x + 1
            Base.table += 1
            return i + 1

        dr.while_loop((U(0, 1),), lambda i: i < 2, body, mode=mode)
        assert list(owner.x) == list(Base.table) == [2, 1]
        return [weakref.ref(Base), weakref.ref(Derived)]

    found = run()
    gc.collect()  # classes are in cycles, and hold those that they are derived from
    gc.collect()
    assert [reference() for reference in found] == [None, None]


# --- reductions of what is captured -----------------------------------------------------------------------------------

REDUCTIONS = {
    "sum": lambda x, t: dr.sum(x), "max": lambda x, t: dr.max(x), "mean": lambda x, t: dr.mean(x),
    "dot": lambda x, t: dr.dot(x, x), "count": lambda x, t: F(dr.count(x < 2.5)),
    "prefix": lambda x, t: dr.cumsum(x),
    "blocks": lambda x, t: dr.sum(dr.block_reduce(dr.ReduceOp.Max, x, 2)), "part": lambda x, t: dr.sum(x[1:]),
    "reverse": lambda x, t: dr.sum(dr.reverse(x)), "rows": lambda x, t: dr.sum(t, axis=1).array,
    "columns": lambda x, t: dr.max(t, axis=0).array, "product": lambda x, t: dr.sum((t @ t).array),
    "other size": lambda x, t: dr.sum(dr.arange(F, 7)),
}


@pytest.mark.parametrize("mode", ["symbolic", "evaluated"])
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions_of_captured_arrays_know_no_mask(name: str, mode: str) -> None:
    """Although the arrays are as wide as the construct: their elements are none of its lanes."""
    x, t = dr.arange(F, 4) + 1, TensorXf64(dr.arange(F, 16) + 1, (4, 4))
    reduced, y, count = REDUCTIONS[name], np.array([1, 2, 3, 4], np.float64), np.array([1, 0, 3, 2])
    dr.eval(x, t)
    found = np.broadcast_to(reduced(x, t).numpy(), 4)
    _, z = dr.while_loop((U(0, 0, 0, 0), F(y)), lambda k, z: k < U(count),
                         lambda k, z: (k + 1, z + reduced(x, t)), mode=mode)
    assert np.array_equal(z.numpy(), y + count * found)
    z = dr.if_stmt((F(y),), U(count) < 2, lambda z: z + reduced(x, t), lambda z: z - reduced(x, t), mode=mode)
    assert np.array_equal(z.numpy(), np.where(count < 2, y + found, y - found))
    if name not in ("prefix", "rows", "columns"):  # evaluated functions have fewer lanes
        z = dr.switch(U(count % 2), [lambda z: z + reduced(x, t), lambda z: z * reduced(x, t)], F(y), mode=mode)
        assert np.array_equal(z.numpy(), np.where(count % 2, y * found, y + found))
