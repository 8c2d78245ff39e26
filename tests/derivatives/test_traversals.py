"""Which gradients a traversal reads and changes, and which it leaves alone."""

from __future__ import annotations

import copy
import gc
import pickle
import threading
import weakref
from typing import Any

import pytest

import drjit as dr
import drjit_core
from drjit.llvm.ad import Float, TensorXf, UInt
from drjit_core import rooms
from tests.derivatives.harness import flat


def variable(*values: float) -> Any:
    found = Float(*values)
    dr.enable_grad(found)
    return found


def numbers(array: Any) -> list[float]:
    return flat(array).tolist()


# --- gradients that are there already --------------------------------------------------------------------------------


class Product(dr.CustomOp):
    def eval(self, x: Any, w: Any) -> Any:
        self.x, self.w = x, w
        return x * w

    def forward(self) -> None:
        self.set_grad_out(self.x * self.grad_in("w") + self.w * self.grad_in("x"))


def implicit(x: Any, w: Any) -> Any:
    class Weighted(dr.CustomOp):
        def eval(self, x: Any) -> Any:
            self.add_input(w)
            self.x = x
            return x * dr.detach(w)

        def forward(self) -> None:
            self.set_grad_out(self.x * dr.grad(w) + dr.detach(w) * self.grad_in("x"))

    return dr.custom(Weighted, x)


PRODUCTS = {
    "row": lambda x, w: x * w, "several": lambda x, w: dr.fma(x, w, 0) + (w - w),
    "scatter": lambda x, w: scattered(x, w), "matmul": lambda x, w: (TensorXf(x) @ TensorXf(w)),
    "custom": lambda x, w: dr.custom(Product, x, w), "implicit input": implicit,
}


def scattered(x: Any, w: Any) -> Any:
    target = Float(w)
    dr.scatter_add(target, x * dr.detach(w) - dr.detach(w), UInt(0))
    return target


@pytest.mark.parametrize("name", PRODUCTS)
def test_forward_mode_takes_no_gradients_from_what_was_not_enqueued(name: str) -> None:
    x, w = variable(2), variable(3)
    dr.set_grad(w, 100)
    product = PRODUCTS[name](x, w)
    dr.forward(x)
    assert (numbers(product.grad), numbers(w.grad)) == ([3], [100])


@pytest.mark.parametrize("mode", ["forward", "reverse"])
@pytest.mark.parametrize("function", [lambda x, w: w, lambda x, w: w * 1, lambda x, w: x * x + w, lambda x, w: x * w])
def test_jacobians_do_not_see_gradients_that_the_caller_has(function: Any, mode: str) -> None:
    w = variable(3, 4)
    before = numbers(dr.jacobian(lambda x: function(x, w), Float(1, 2), mode=mode))
    dr.set_grad(w, 5)
    assert numbers(dr.jacobian(lambda x: function(x, w), Float(1, 2), mode=mode)) == before
    assert before == numbers(dr.jacobian(lambda x: function(x, dr.detach(w)), Float(1, 2), mode=mode))
    assert numbers(w.grad) == [5, 5]


# --- functions of functions ------------------------------------------------------------------------------------------


def test_results_have_derivatives_by_what_the_function_refers_to() -> None:
    w = variable(3, 4)
    x = Float(1, 2)
    value, gradient = dr.value_and_grad(lambda x: dr.sum(x * x * w))(x)
    dr.backward(value + dr.sum(gradient * gradient))
    assert numbers(w.grad) == [1 + 8 * 3, 4 + 32 * 4]

    w = variable(3, 4)
    gradient, product = dr.hvp(lambda x: dr.sum(x * x * x * w), x, Float(1, 10))
    dr.backward(gradient + product)
    assert numbers(w.grad) == [3 + 6, 12 + 120]

    for mode in ("forward", "reverse"):
        w = variable(3, 4)
        dr.backward(dr.sum(dr.square(dr.jacobian(lambda x: x * x * w, x, mode=mode)), axis=None))  # noqa: B023
        assert numbers(w.grad) == [8 * 3, 32 * 4]


def test_results_that_depend_on_nothing_else_are_constants() -> None:
    w = variable(3, 4)
    value, gradient = dr.value_and_grad(lambda x: dr.sum(x * x * dr.detach(w)))(Float(1, 2))
    assert not dr.grad_enabled(value, gradient, dr.hvp(lambda x: dr.sum(x * x), Float(1), Float(1)))


@pytest.mark.parametrize("scope", [dr.suspend_grad, dr.isolate_grad, lambda: dr.suspend_grad(dr.llvm.ad.Float(1))])
def test_functions_of_functions_do_not_depend_on_scopes(scope: Any) -> None:
    w, x = variable(3, 4), variable(1, 2)
    f = lambda x: dr.sum(x * x * w)  # noqa: E731
    with scope():
        tracked = dr.grad_enabled(w)
        found = dr.value_and_grad(f)(x), dr.hvp(f, x, Float(1, 1)), dr.jacobian(lambda x: x * w, x)
        assert dr.gradcheck(dr.sin, dr.llvm.ad.Float64(1, 2))
        assert dr.grad_enabled(found) == tracked
    assert [numbers(entry) for entry in found] == [[19, 6, 16], [6, 16, 6, 8], [3, 0, 0, 4]]


def test_what_the_result_depends_on_beside_the_arguments_is_not_traversed() -> None:
    w = variable(3, 4)
    used = w * w
    dr.backward(used)
    largest = dr.prefix_reduce(dr.ReduceOp.Max, w)
    x = Float(1, 2)
    for other in (used, largest):
        assert numbers(dr.value_and_grad(lambda x: dr.sum(x * dr.sqrt(x) * other))(x)[1]) == numbers(  # noqa: B023
            dr.value_and_grad(lambda x: dr.sum(x * dr.sqrt(x) * dr.detach(other)))(x)[1])  # noqa: B023


def test_errors_of_functions_of_functions_name_them() -> None:
    class Twice(dr.CustomOp):
        def eval(self, x: Any) -> Any:
            return x * 2

        def backward(self) -> None:
            self.set_grad_in("x", self.grad_out() * 2)

    with pytest.raises(RuntimeError, match=r"drjit\.hvp\(\): there is no derivative"):
        dr.hvp(lambda x: dr.custom(Twice, x), Float(1, 2), 1)


# --- symbolic loops --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scope", [lambda x: dr.suspend_grad(), dr.suspend_grad], ids=["all", "one"])
def test_loops_take_arrays_whose_derivatives_are_suspended(scope: Any) -> None:
    x = variable(1, 2, 3)
    with scope(x):
        _, y = dr.while_loop((UInt(0, 0, 0), x), lambda i, y: i < 3, lambda i, y: (i + 1, y * 2))
        _, z = dr.while_loop((UInt(0, 0, 0), Float(0, 0, 0)), lambda i, z: i < 3, lambda i, z: (i + 1, x))

        def body(i: Any) -> Any:
            dr.scatter(x, Float(i) * 10, i)
            return (i + 1,)

        dr.while_loop((UInt(0),), lambda i: i < 2, body)
    assert [numbers(array) for array in (y, z, x)] == [[8, 16, 24], [1, 2, 3], [0, 10, 3]]
    assert not dr.grad_enabled(y, z)


@pytest.mark.parametrize("change", [lambda x, i: dr.accum_grad(x, 1), lambda x, i: dr.set_grad(x, Float(i)),
                                    lambda x, i: dr.backward(x)])
def test_loops_do_not_change_gradients_from_outside(change: Any) -> None:
    x = variable(1, 2)

    def body(i: Any) -> Any:
        change(x, i)
        return (i + 1,)

    with pytest.raises(RuntimeError, match=r"drjit.(accum_grad|set_grad|backward)\(\): this changes the gradient of an "
                                           "array"):
        dr.while_loop((UInt(0, 0),), lambda i: i < 3, body)
    assert numbers(x.grad) == [0, 0]


# --- where traversals begin and end ----------------------------------------------------------------------------------


@pytest.mark.parametrize("flags", [dr.ADFlag.Default, dr.ADFlag.ClearVertices, dr.ADFlag.ClearNone])
def test_a_traversal_ends_where_nothing_more_was_enqueued(flags: Any) -> None:
    x = variable(3)
    y = x * x
    z = y * x
    dr.set_grad(z, 1)
    assert numbers(dr.backward_to(y, flags=flags)) == [3] == numbers(y.grad) and numbers(x.grad) == [0]
    dr.backward_from(y)  # goes on from there
    assert numbers(x.grad) == [18]


def test_a_traversal_does_not_take_apart_what_it_did_not_traverse() -> None:
    x = variable(3)
    y = x * x
    z = y * 2
    dr.forward(y)
    assert numbers(z.grad) == [2] and numbers(x.grad) == [0]
    dr.backward(y * 5)
    assert numbers(x.grad) == [30]
    with pytest.raises(RuntimeError, match="taken apart"):
        dr.backward(z)


def test_custom_operations_are_ends_of_traversals() -> None:
    w, x = variable(2), variable(3)
    y = dr.custom(Both, x * 1, w)
    dr.set_grad(y * 5, 1)
    dr.set_grad(y, 4)
    dr.enqueue(dr.ADMode.Forward, y)
    dr.traverse(dr.ADMode.Backward)
    assert numbers(y.grad) == [4] and numbers(w.grad) == [0]
    dr.backward_from(y)
    assert numbers(w.grad) == [12] and numbers(x.grad) == [8]


class Both(Product):
    def backward(self) -> None:
        self.set_grad_in("x", self.w * self.grad_out())
        self.set_grad_in("w", self.x * self.grad_out())


# --- failures, and other threads -------------------------------------------------------------------------------------


class Bad(dr.CustomOp):
    def eval(self, x: Any) -> Any:
        return x * 1

    def backward(self) -> None:
        raise KeyError("bad")


def test_a_failure_gives_back_gradients_that_callbacks_have_changed() -> None:
    w, x, z = variable(3), variable(1), variable(1)
    dr.set_grad(w, 7)

    class Weighted(dr.CustomOp):
        def eval(self, x: Any) -> Any:
            self.add_input(w)
            return x * dr.detach(w)

        def backward(self) -> None:
            dr.accum_grad(w, 5)
            self.set_grad_in("x", 1)

    bad = dr.custom(Bad, z)  # is older, and comes later
    with pytest.raises(KeyError):
        dr.backward(dr.custom(Weighted, x) + bad)
    assert [numbers(array.grad) for array in (w, x, z)] == [[7], [0], [0]]


def test_a_failure_gives_back_gradients_that_two_flows_have_changed() -> None:
    vertex = drjit_core.Vertex(drjit_core.LEAF, drjit_core.VarType.Float32.value, 1)
    one = drjit_core.literal(vertex.type, 1)
    outer = drjit_core.Flow()
    outer.give(vertex, one, 1)
    outer = drjit_core.Flow(members=[vertex])
    outer.clear(vertex)
    drjit_core.Flow().note(vertex)  # a callback has looked at it
    outer.give(vertex, one, 1)
    outer.end()
    outer.roll_back()
    assert vertex.gradient is one


def test_gradients_that_are_added_while_another_thread_traverses_are_not_lost() -> None:
    x, w = variable(1), variable(3)
    adding = threading.Thread(target=lambda: dr.accum_grad(w, 5))

    class Slow(dr.CustomOp):
        def eval(self, x: Any) -> Any:
            return x * 1

        def backward(self) -> None:
            adding.start()
            adding.join(0.1)
            raise KeyError

    with pytest.raises(KeyError):
        dr.backward(dr.custom(Slow, x) + w * 1)
    adding.join()
    assert numbers(w.grad) == [5]


@pytest.mark.parametrize("mode", [dr.ADMode.Forward, dr.ADMode.Backward])
def test_queues_of_other_threads_make_no_difference(mode: Any) -> None:
    x = variable(2, 3)
    y = x * 1
    z = x * y
    result = z * z
    ends = (x, y) if mode is dr.ADMode.Forward else (result, z)
    dr.set_grad(ends[0], 1)
    dr.enqueue(mode, ends[0])
    thread = threading.Thread(target=lambda: dr.enqueue(mode, ends[0]))
    thread.start()
    thread.join()
    dr.enqueue(mode, ends[1])
    dr.traverse(mode, dr.ADFlag.ClearNone)
    assert numbers((result if mode is dr.ADMode.Forward else x).grad) == [32, 108]


# --- isolated scopes -------------------------------------------------------------------------------------------------


def test_what_an_isolated_scope_postpones_is_there_at_once() -> None:
    x = variable(2)
    y = x * x
    with dr.isolate_grad():
        dr.backward(y * Float(1, 2, 3))
        assert (numbers(x.grad), numbers(y.grad)) == ([0], [6])
    assert (numbers(x.grad), numbers(y.grad)) == ([24], [0])

    with dr.isolate_grad():
        dr.backward(x * Float(1, 2, 3))
        dr.clear_grad(x)
    assert numbers(x.grad) == [0]

    with pytest.raises(KeyError), dr.isolate_grad():
        dr.backward(x * Float(1, 2, 3))
        raise KeyError
    assert numbers(x.grad) == [6]


def test_changes_flow_to_what_is_older_than_an_isolated_scope() -> None:
    """What waits farther out is used, and stays there; what the program asks for gets what has flowed to it."""
    x = variable(1, 2)
    z = x * 3
    w = z * 2
    x.grad = 1
    with dr.isolate_grad():
        assert numbers(dr.forward_to(z)) == [3, 3]
        dr.clear_grad(z)
        assert [numbers(each) for each in dr.forward_to(z, w)] == [[0, 0], [6, 6]]  # as outside of scopes
        dr.clear_grad(w)
        assert numbers(dr.forward_to(z * w)) == [36, 72]
    assert [numbers(each.grad) for each in (x, z, w)] == [[1, 1], [0, 0], [0, 0]]


@pytest.mark.parametrize("flags", [dr.ADFlag.Default, dr.ADFlag.ClearNone])
def test_what_is_older_than_an_isolated_scope_may_be_traversed_again(flags: Any) -> None:
    x = variable(2)
    y = x * x
    with dr.isolate_grad():
        dr.backward(y * 2, flags=flags)
    dr.backward(y)
    assert numbers(x.grad) == [12]


def test_a_failure_in_an_isolated_scope_changes_nothing() -> None:
    x = variable(2)
    y = x * x
    with dr.isolate_grad(), pytest.raises(KeyError):
        dr.backward(dr.custom(Bad, y))
    assert numbers(x.grad) == [0]
    dr.backward(y)
    assert numbers(x.grad) == [4]


# --- lifetimes -------------------------------------------------------------------------------------------------------


def test_operations_keep_no_more_than_their_derivatives_need() -> None:
    source, x = Float(1, 2, 3, 4), Float(4, 3, 2, 1)
    for record in (lambda value: dr.scatter_add(target, value, UInt(0, 1, 2, 3)),  # noqa: B023
                   lambda value: dr.scatter(target, value, UInt(0, 1, 2, 3)),  # noqa: B023
                   lambda value: dr.cumsum(value), lambda value: TensorXf(value, (2, 2)) @ TensorXf(x, (2, 2))):
        target = variable(0, 0, 0, 0)
        value = source * 7
        dr.enable_grad(value)
        dr.eval(value)
        held = weakref.ref(drjit_core.primal(value._nodes()[0]))
        result = record(value)
        dr.eval(result, target)
        del value
        assert held() is None


def test_vertices_are_neither_copied_nor_pickled() -> None:
    vertex = drjit_core.Vertex(drjit_core.LEAF, drjit_core.VarType.Float32.value, 1)
    for act in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="cannot pickle or copy a vertex"):
            act(vertex)


def test_further_results_of_custom_operations_are_let_go() -> None:
    gc.collect()
    before = len(drjit_core.live_vertices())
    x, twice = variable(3), [Float(0)]

    class Both(dr.CustomOp):
        def eval(self, x: Any) -> Any:
            twice[0][:] = 2 * x
            self.add_output(twice[0])
            return x + 1

    dr.custom(Both, x)
    assert len(drjit_core.live_vertices()) == before + 3
    twice.clear()
    del x
    assert len(drjit_core.live_vertices()) == before


def long_chain(x: Any, length: int) -> Any:
    value = x
    for _ in range(length):
        value = value + x
    return value


def test_a_long_chain_of_vertices_may_die_or_be_traversed() -> None:
    """Of a million, and fewer in the plain form, which takes a minute for them."""
    length = 1_000_000 if rooms.compiled else 100_000
    gc.collect()
    before = len(drjit_core.live_vertices())
    x = variable(1)
    value = long_chain(x, length)
    del value
    assert len(drjit_core.live_vertices()) == before + 1
    value = long_chain(x, length)
    dr.backward(value)
    assert numbers(x.grad) == [length + 1]
    del value
    assert len(drjit_core.live_vertices()) == before + 1


def test_vertices_in_the_memory_of_dead_ones_know_nothing_of_them() -> None:
    for _ in range(3):
        x, y = variable(3), variable(5)
        dr.set_label(x=x)
        product = x * y
        dr.set_grad(y, 7)
        dr.backward(product, flags=dr.ADFlag.ClearNone)
        assert (numbers(x.grad), numbers(y.grad)) == ([5], [10])
        del x, y, product
        for vertex in [drjit_core.Vertex(drjit_core.LEAF, drjit_core.VarType.Float32.value, 1) for _ in range(8)]:
            assert [getattr(vertex, name) for name in "abcxyzr"] == [None] * 7
            assert vertex.gradient is vertex.pending is vertex.info is vertex.label is None
            assert not vertex.sparse and vertex.scope == vertex.member == vertex.depended == vertex.noted == 0
        z = variable(2)
        value = z + z
        assert not dr.grad(value)[0] and not dr.grad(z)[0]
        dr.backward(value)
        assert numbers(z.grad) == [2]


def test_vertices_live_and_die_in_several_threads() -> None:
    gc.collect()
    before, wrong = len(drjit_core.live_vertices()), []

    def work(number: int) -> None:
        for turn in range(30):
            x = variable(number)
            value = long_chain(x, 300 + turn) * x
            if turn % 3:
                dr.backward(value)
                if numbers(x.grad) != [2 * number * (301 + turn)]:
                    wrong.append((number, turn))
            del x, value

    threads = [threading.Thread(target=work, args=(number,)) for number in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert len(drjit_core.live_vertices()) == before
    ids = [vertex.id for vertex in drjit_core.live_vertices()]
    assert ids == sorted(set(ids))


def test_ten_thousand_iterations_leave_nothing_behind() -> None:
    x, rate = variable(1.5), Float(0.25)
    dr.eval(x, rate)

    def iterate(count: int) -> None:
        for _ in range(count):
            value = dr.square(x) * rate + x
            dr.backward(value)
            gradient = x.grad
            dr.clear_grad(x)
            dr.eval(gradient)

    iterate(100)
    gc.collect()
    vertices, nodes = len(drjit_core.live_vertices()), dr.whos(as_string=True).count("\n")
    iterate(10_000)
    gc.collect()
    assert len(drjit_core.live_vertices()) == vertices
    assert dr.whos(as_string=True).count("\n") == nodes
