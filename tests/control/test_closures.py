"""Derivatives of constructs whose functions refer to what has changed since they were traced."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import drjit as dr
from drjit.llvm.ad import Float64 as F
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

    def scaled(x: Any) -> Any:
        return x * scale

    y = dr.if_stmt((x,), x > 2.5, lambda x: scaled(x), lambda x: -x)
    z = dr.switch(U(0, 1), [scaled, lambda x: x * 2], x)
    scale = F(100)
    dr.backward(y + z)
    assert x.grad.numpy().tolist() == [2, 5]


def test_branches_in_a_loop_of_python() -> None:
    x = variable()
    found = [dr.if_stmt((x,), x > 2.5, lambda x: x * k, lambda x: -x * k) for k in range(3)]  # noqa: B023
    dr.backward(found[0] + found[1] + found[2])
    assert x.grad.numpy().tolist() == [-3, 3]


def test_attributes_that_have_changed_are_refused() -> None:
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
    with pytest.raises(RuntimeError, match="attribute 'weight' of an object of type Model has changed"):
        dr.backward(y)
    assert not dr.any(x.grad != 0)


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
