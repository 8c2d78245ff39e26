"""Seeds and gradients: what programs written for release 1.5.0 of Dr.Jit find in them."""

from __future__ import annotations

import copy
import enum
from typing import Any

import numpy as np
import pytest

import drjit as dr
from drjit.llvm import ad as la


def tracked(value: Any) -> Any:
    dr.enable_grad(value)
    return value


SPECIAL = {"matrix": lambda: la.Matrix2f(1, 2, 3, 4), "complex": lambda: la.Complex2f(1, 2),
           "quaternion": lambda: la.Quaternion4f(1, 2, 3, 4), "vector": lambda: la.Array3f(1, 2, 3),
           "flat": lambda: la.Float(1, 2), "tensor": lambda: la.TensorXf([[1.0, 2.0]]),
           "wider matrix": lambda: la.Matrix43f(3)}
SEEDING = {
    "backward": lambda x, y: dr.backward(y), "backward_from": lambda x, y: dr.backward_from(y),
    "forward": lambda x, y: dr.forward(x), "forward_from": lambda x, y: dr.forward_from(x)}


@pytest.mark.parametrize("seeding", SEEDING)
@pytest.mark.parametrize("kind", SPECIAL)
def test_traversals_seed_every_component_with_one(kind: str, seeding: str) -> None:
    x = tracked(SPECIAL[kind]())
    y = x * 2 if kind != "vector" else x + x
    SEEDING[seeding](x, y)
    found = dr.ravel(y.grad if seeding.startswith("forward") else x.grad)
    assert np.array_equal(np.asarray(found), np.full(len(found), 2))


def test_the_seed_of_a_complex_number_reaches_its_imaginary_part() -> None:
    x = tracked(la.Float(2))
    dr.backward(la.Complex2f(0, x))
    assert list(x.grad) == [1]


def test_the_number_one_is_the_identity_where_it_is_set() -> None:
    m = tracked(la.Matrix2f(1, 2, 3, 4))
    m.grad = 1
    assert np.array_equal(m.grad.numpy()[..., 0], np.eye(2))
    dr.set_grad(m, 1)
    assert np.array_equal(m.grad.numpy()[..., 0], np.eye(2))


def test_trees_are_seeded_with_one_at_every_component() -> None:
    m, z = tracked(la.Matrix2f(1, 2, 3, 4)), tracked(la.Complex2f(1, 2))
    dr.backward_from({"m": 2 * m, "z": [z * 3]})
    assert m.grad.numpy().ravel().tolist() == [2] * 4
    assert (list(z.grad.real), list(z.grad.imag)) == ([3], [3])


@pytest.mark.parametrize("setting", ["set_grad", "attribute", "tree"])
def test_an_empty_gradient_clears(setting: str) -> None:
    x = tracked(la.Float(1, 2))
    x.grad = 3
    if setting == "set_grad":
        dr.set_grad(x, la.Float())
    elif setting == "attribute":
        x.grad = la.Float()
    else:
        dr.set_grad((x,), (la.Float(),))
    assert list(dr.grad(x)) in ([0], [0, 0])
    dr.backward(x * 2)
    assert list(x.grad) == [2, 2]


def test_an_empty_gradient_of_an_accumulation_adds_nothing() -> None:
    x = tracked(la.Float(1, 2))
    x.grad = 3
    dr.accum_grad(x, la.Float())
    assert list(x.grad) == [3, 3]


def test_an_empty_gradient_of_a_tensor_clears() -> None:
    t = tracked(dr.ones(la.TensorXf, (2, 2)))
    t.grad = 3
    t.grad = la.Float()
    assert t.grad.numpy().ravel().tolist() == [0] * 4
    assert t.grad.shape == (2, 2)


@pytest.mark.parametrize("gradient", [la.Float(1, 2, 3, 4), [1, 2, 3, 4], np.arange(1, 5, dtype="f4")])
@pytest.mark.parametrize("setting", ["attribute", "set_grad", "accum_grad"])
def test_tensors_accept_flat_gradients(setting: str, gradient: Any) -> None:
    t = tracked(dr.zeros(la.TensorXf, (2, 2)))
    if setting == "attribute":
        t.grad = gradient
    else:
        getattr(dr, setting)(t, gradient)
    assert t.grad.numpy().tolist() == [[1, 2], [3, 4]]


def test_gradients_of_one_element_are_sums() -> None:
    t = tracked(la.TensorXf(5))
    t.grad = [1, 2, 3]
    assert t.grad.array[0] == 6
    t = tracked(la.TensorXf([[5.0]]))
    t.grad = la.Float(1, 2, 3)
    assert t.grad.shape == (1, 1) and t.grad.array[0] == 6


@pytest.mark.parametrize("size", [3, 5, 8])
def test_gradients_of_other_sizes_are_errors(size: int) -> None:
    t = tracked(dr.zeros(la.TensorXf, (2, 2)))
    with pytest.raises(Exception, match="grad"):
        t.grad = dr.zeros(la.Float, size)


@pytest.mark.parametrize("whole", [True, False])
def test_suspended_gradients_are_zero(whole: bool) -> None:
    x = tracked(la.Float(1, 2))
    x.grad = 3
    with dr.suspend_grad() if whole else dr.suspend_grad(x):
        assert list(dr.grad(x)) in ([0], [0, 0])
        assert list(x.grad) in ([0], [0, 0])
        assert list(dr.grad({"x": x})["x"]) in ([0], [0, 0])
    assert list(x.grad) == [3, 3]


def test_gradients_of_what_is_not_suspended_stay() -> None:
    x, y = tracked(la.Float(1)), tracked(la.Float(2))
    x.grad, y.grad = 3, 4
    with dr.suspend_grad(x):
        assert (list(x.grad), list(y.grad)) == ([0], [4])
    with dr.suspend_grad(), dr.resume_grad(y):
        assert (list(x.grad), list(y.grad)) == ([0], [4])


COPIES = {
    "constructor": lambda x: la.Float(x), "dr.copy": dr.copy, "copy.copy": copy.copy, "copy.deepcopy": copy.deepcopy,
    "nested": lambda x: la.Array3f(x, x, x), "repeated": lambda x: la.Array3f(x),
    "matrix": lambda x: la.Matrix2f(x, x, x, x), "tensor": lambda x: la.TensorXf(x), "tree": lambda x: dr.copy([x])[0],
    "complex": lambda x: la.Complex2f(x, x), "Float64": lambda x: la.Float64(x)}


@pytest.mark.parametrize("kind", COPIES)
def test_what_is_made_in_a_scope_without_derivatives_has_none(kind: str) -> None:
    x = tracked(la.Float(1, 2))
    with dr.suspend_grad():
        c = COPIES[kind](x)
        with dr.resume_grad():
            assert not dr.grad_enabled(c)
    assert not dr.grad_enabled(c)
    assert dr.grad_enabled(x)


def test_what_returns_its_argument_does_so_in_a_scope_without_derivatives() -> None:
    x = tracked(la.Float(1, 2))
    with dr.suspend_grad():
        y, z = +x, dr.select(True, x, 0)
    assert dr.grad_enabled(y) and dr.grad_enabled(z)


def test_the_boundary_of_an_isolated_scope_is_an_input() -> None:
    a = tracked(la.Float(1))
    a.grad = 3
    with dr.isolate_grad():
        b = dr.forward_to(a * 2)
        c = dr.forward_to(a * 5)
    assert (list(b), list(c), list(a.grad)) == ([6], [15], [3])


def test_gradients_that_wait_outside_of_an_isolated_scope_are_found() -> None:
    x = tracked(la.Float(1))
    y = x * 2
    x.grad = 1
    with dr.isolate_grad():
        assert list(dr.forward_to(y * 3)) == [6]


def test_gradients_that_were_moved_to_the_boundary_are_found() -> None:
    x = tracked(la.Float(1))
    y = x * 2
    x.grad = 1
    dr.forward_from(x)
    with dr.isolate_grad():
        assert list(dr.forward_to(y * 3)) == [6]


def test_a_second_traversal_to_a_variable_returns_its_gradient() -> None:
    a = tracked(la.Float(1))
    b = a * 4
    a.grad = 1
    assert list(dr.forward_to(b)) == [4]
    assert list(dr.forward_to(b)) == [4]
    a.grad = 1
    with pytest.raises(RuntimeError):  # which does not reach b any more
        dr.forward_to(b)


def test_custom_operations_take_lists_of_arguments_by_name() -> None:
    seen: list[Any] = []

    class Sum(dr.CustomOp):  # type: ignore[misc]
        def eval(self, *args: Any, **kwargs: Any) -> Any:
            self.count = len(args)
            return sum(args) + sum(kwargs.values())

        def forward(self) -> None:
            args, kwargs = self.grad_in("args"), self.grad_in("kwargs")
            seen.append((args, kwargs))
            self.set_grad_out(sum(args) + sum(kwargs.values()))

        def backward(self) -> None:
            g = self.grad_out()
            self.set_grad_in("args", tuple(g * (k + 1) for k in range(self.count)))
            self.set_grad_in("kwargs", {"u": g * 10, "v": g * 20})

    x, y, u, v = (tracked(la.Float(k)) for k in range(4))
    out = dr.custom(Sum, x, y, u=u, v=v)
    dr.backward(out)
    assert [a.grad[0] for a in (x, y, u, v)] == [1, 2, 10, 20]
    x, y, u, v = (tracked(la.Float(k)) for k in range(4))
    out = dr.custom(Sum, x, y, u=u, v=v)
    for k, a in enumerate((x, y, u, v)):
        a.grad = k + 1
    assert list(dr.forward_to(out)) == [10]
    (args, kwargs), = seen
    assert isinstance(args, tuple) and [a[0] for a in args] == [1, 2]
    assert {key: a[0] for key, a in kwargs.items()} == {"u": 3, "v": 4}


def test_custom_operations_take_indices_and_names_of_keywords() -> None:
    class Product(dr.CustomOp):  # type: ignore[misc]
        def eval(self, *args: Any, **kwargs: Any) -> Any:
            self.factors = args[0], kwargs["u"]
            return args[0] * kwargs["u"]

        def backward(self) -> None:
            self.set_grad_in(0, self.grad_out() * self.factors[1])
            self.set_grad_in("u", self.grad_out() * self.factors[0])

    x, u = tracked(la.Float(3)), tracked(la.Float(5))
    dr.backward(dr.custom(Product, x, u=u))
    assert (x.grad[0], u.grad[0]) == (5, 3)


class Choice(enum.IntEnum):
    ONE = 1


@pytest.mark.parametrize("value", [np.float32(3), np.int8(3), np.bool_(True), np.complex64(3), np.array([1.0, 2]), 3,
                                   2.5, True, 1j, np.array(3, np.uint8)])
@pytest.mark.parametrize("function", [dr.grad, dr.zeros_like])
def test_gradients_of_numbers_are_zero(function: Any, value: Any) -> None:
    for found in (function(value), function({"x": (value,)})["x"][0]):
        assert type(found) is type(value)
        assert np.asarray(found).dtype == np.asarray(value).dtype
        assert np.shape(found) == np.shape(value)
        assert not np.any(found)


@pytest.mark.parametrize("value", ["x", None, Choice.ONE, np.array(["x"])])
@pytest.mark.parametrize("function", [dr.grad, dr.zeros_like, dr.ones_like])
def test_what_is_no_number_has_no_gradient(function: Any, value: Any) -> None:
    assert function(value) is value
    assert function([value])[0] is value


@pytest.mark.parametrize("number", [3, 3.0, np.float32(3), np.int64(3), np.array(3.0)])
def test_numbers_count_for_all_arrays_of_a_tree(number: Any) -> None:
    x = {"a": la.Float(1, 2), "b": [la.Float64(1)]}
    dr.enable_grad(x)
    dr.set_grad(x, number)
    dr.accum_grad(x, number)
    assert list(x["a"].grad) == [6, 6]
    assert list(x["b"][0].grad) == [6]
    assert list(dr.hvp(lambda a: a * a, la.Float(1, 2), number)[1]) == [6, 6]

    class Twice(dr.CustomOp):
        def eval(self, x: Any) -> Any:
            return [x["a"] * 2, x["b"][0] * 2]

        def backward(self) -> None:
            self.set_grad_in("x", number)

        def forward(self) -> None:
            self.set_grad_out(number)

    dr.set_grad(x, 0)
    dr.backward(dr.custom(Twice, x)[0])
    assert list(x["a"].grad) == [3, 3]
    result = dr.custom(Twice, x)
    dr.set_grad(x, 1)
    dr.enqueue(dr.ADMode.Forward, x)
    dr.traverse(dr.ADMode.Forward)
    assert list(result[0].grad) == [3, 3]
