"""Arrays in loops, branches and calls, in ``@dr.syntax``, as parameters of optimisers, and in custom operations."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import drjit as dr
import drjit.array_api as xp
from drjit.llvm.ad import TensorXf, TensorXi, UInt32
from drjit.opt import SGD, Adam, AdamW, RMSProp

MODES = ["symbolic", "evaluated"]

# --- control flow ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", MODES)
def test_masks_are_conditions_of_loops(mode):
    count, total = dr.while_loop((xp.zeros(4, dtype=xp.int64), xp.zeros(4)), lambda count, total: count < xp.arange(4),
                                 lambda count, total: (count + 1, total + 1.5), mode=mode)
    assert count.tolist() == [0, 1, 2, 3] and total.tolist() == [0, 1.5, 3, 4.5]


@pytest.mark.parametrize("cls", [xp.asarray, TensorXi])
def test_a_counter_gets_the_shape_of_the_rest_of_the_state(cls):
    count, total = dr.while_loop((cls(0), xp.ones((2, 2))), lambda count, total: count < 3,
                                 lambda count, total: (count + 1, total * 2), mode="symbolic")
    assert total.tolist() == [[8, 8], [8, 8]] and count.shape == (2, 2) and np.all(np.asarray(count) == 3)


@pytest.mark.parametrize("mode", MODES)
def test_masks_are_conditions_of_branches(mode):
    x = xp.reshape(xp.arange(4.0), (2, 2))
    dr.enable_grad(x)
    y = dr.if_stmt((x,), x > 1.5, lambda x: x * x, lambda x: x - 1, mode=mode)
    assert y.tolist() == [[-1, 0], [4, 9]]
    dr.backward(xp.sum(y))
    assert dr.grad(x).tolist() == [[1, 1], [4, 6]]


@dr.syntax
def halvings(x):
    count = xp.zeros(x.shape, dtype=xp.int64)
    while x > 1:
        x = x / 2
        count += 1
    return count


@dr.syntax
def steps_to(limit, x):
    count = xp.zeros(x.shape, dtype=xp.int64)
    while True:
        if x > limit:
            break
        x = x * 2 + 1
        count += 1
    return count


@dr.syntax
def pieces(x):
    y = x * 0
    if x > 1 and x < 3:
        y = x + 10
    elif not (x > 1):
        y = x - 10
    return y


@dr.syntax
def doubled(x):
    if x > 1:
        return x * 2
    return x


@dr.syntax
def counted(x):
    while x < 10:
        x += 1
    return x


@pytest.mark.parametrize("function, wanted", [
    (halvings, [0, 0, 1, 2]), (lambda x: steps_to(20.0, x), [5, 4, 3, 3]), (pieces, [-10, -9, 12, 0]),
    (doubled, [0, 1, 4, 6]), (counted, [10, 10, 10, 10])])
def test_translated_functions(function, wanted):
    assert function(xp.arange(4.0)).tolist() == wanted


def test_calls_take_arrays():
    x = xp.arange(4.0)
    dr.enable_grad(x)
    y = dr.switch(UInt32(0, 1, 0, 1), [lambda x: x * x, lambda x: x - 1], x)
    assert y.tolist() == [0, 0, 4, 2]
    dr.backward(xp.sum(y))
    assert dr.grad(x).tolist() == [0, 1, 4, 1]


def test_writes_in_a_loop_stay_in_the_array():
    def body(count, x):
        x[1] += 2
        return count + 1, x

    _, x = dr.while_loop((UInt32(0), xp.zeros(3)), lambda count, x: count < 5, body)
    assert x.tolist() == [0, 10, 0]


@pytest.mark.parametrize("name, use", [
    (r"Array\.__bool__", lambda x: bool(x[0] > 0)), (r"Array\.__float__", lambda x: float(x[0])),
    (r"Array\.__getitem__", lambda x: x[x > 0]), (r"linalg\.inv", lambda x: xp.linalg.inv(xp.reshape(x, (2, 2)))),
    (r"Array\.__array__", np.asarray), (r"Array\.tolist", lambda x: x.tolist()), (r"fft\.fft", xp.fft.fft),
    (r"unique_values", xp.unique_values), (r"Array\.__dlpack__", np.from_dlpack)])
def test_values_that_are_not_there_yet(name, use):
    def body(count, x):
        use(x)
        return count + 1, x

    with pytest.raises(RuntimeError, match=rf"^drjit\.array_api\.{name}\(\) .*this array is symbolic"):
        dr.while_loop((UInt32(0), xp.ones(4)), lambda count, x: count < 3, body, mode="symbolic")


def test_a_symbolic_array_may_be_printed():
    texts = []

    def body(count, x):
        texts.append(repr(x))
        return count + 1, x

    dr.while_loop((UInt32(0), xp.ones(4)), lambda count, x: count < 3, body, mode="symbolic")
    assert texts[0] == "Array(<symbolic>, shape=(4,), dtype=float64)"


# --- derivatives of one's own ----------------------------------------------------------------------------------------


class _Cube(dr.CustomOp):
    def eval(self, x):
        self.x = x
        return x ** 3

    def forward(self):
        self.set_grad_out(3 * self.x ** 2 * self.grad_in("x"))

    def backward(self):
        self.set_grad_in("x", 3 * self.x ** 2 * self.grad_out())


def test_custom_operations():
    x = xp.arange(3.0)
    dr.enable_grad(x)
    y = dr.custom(_Cube, x)
    dr.backward(xp.sum(y), dr.ADFlag.ClearVertices)
    assert dr.grad(x).tolist() == [0, 3, 12]
    x = xp.arange(3.0)
    dr.enable_grad(x)
    y = dr.custom(_Cube, x)
    dr.set_grad(x, xp.asarray([1.0, 2.0, 0.5]))
    assert dr.forward_to(y).tolist() == [0, 6, 6]


# --- optimisers ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cls", [SGD, Adam, AdamW, RMSProp])
def test_optimisers_take_arrays(cls):
    optimizer = cls(lr=0.05, params={"w": xp.zeros((2, 2)), "b": xp.ones(3, dtype=xp.float32)})
    for _ in range(200):
        w, b = optimizer["w"], optimizer["b"]
        assert isinstance(w, xp.Array) and w.dtype == xp.float64 and b.dtype == xp.float32
        dr.backward(xp.sum((w - 3) ** 2) + xp.astype(xp.sum((b + 1) ** 2), xp.float64))
        optimizer.step()
    assert np.allclose(np.asarray(dr.detach(optimizer["w"])), 3, atol=0.2)
    assert np.allclose(np.asarray(dr.detach(optimizer["b"])), -1, atol=0.2)


def test_optimisers_of_arrays_are_copied_pickled_and_reassigned():
    optimizer = Adam(lr=0.1, params={"w": xp.ones((2, 2))})
    found = []
    for other in (optimizer, dr.copy(optimizer), pickle.loads(pickle.dumps(optimizer))):
        dr.backward(xp.sum((other["w"] - 3) ** 2))
        other.step()
        found.append(other["w"].tolist())
    assert found[0] == found[1] == found[2] and found[0][0][0] > 1
    optimizer["w"] = xp.zeros(3)
    assert optimizer["w"].tolist() == [0, 0, 0]
    optimizer["w"] = TensorXf([1, 2])
    assert type(optimizer["w"]) is TensorXf
    for value in (xp.ones(2) + 1j, xp.ones(2, dtype=xp.int32)):
        with pytest.raises(TypeError, match=r"the parameter 'w' must be .* found drjit\.array_api\.Array"):
            optimizer["w"] = value


def test_an_array_may_be_sought_in_another():
    a = xp.asarray([1.0, 2.0])
    assert a[0] in a and 2.0 in a and xp.asarray(3.0) not in a
