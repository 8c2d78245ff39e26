"""``dr.select`` with a Python ``bool`` agrees with one mask element, for each pair of kinds of operands."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import drjit as dr
from drjit.llvm import ad
from drjit.scalar import Array3f as ScalarArray3f

OPERANDS: dict[str, Callable[[], Any]] = {
    "float": lambda: ad.Float(1, 2, 3), "one": lambda: ad.Float(7), "int": lambda: ad.Int(4, 5, 6),
    "bool": lambda: ad.Bool(True, False, True), "float64": lambda: ad.Float64(1, 2, 3), "number": lambda: 2.5,
    "whole": lambda: 3, "list": lambda: [1, 2, 3], "numpy": lambda: np.array([1, 2, 3], np.float32),
    "static": lambda: ad.Array3f(ad.Float(1, 2, 3), 2, 3), "dynamic": lambda: ad.ArrayXf([[1, 2, 3], [4, 5, 6]]),
    "complex": lambda: ad.Complex2f(1, 2), "quaternion": lambda: ad.Quaternion4f(1, 2, 3, 4),
    "matrix": lambda: ad.Matrix2f(1, 2, 3, 4), "vector": lambda: ad.Array4f(1, 2, 3, 4),
    "tensor": lambda: ad.TensorXf(np.arange(6.0).reshape(2, 3)), "row": lambda: ad.TensorXf(np.arange(3.0)),
    "scalar": lambda: ScalarArray3f(1, 2, 3), "constant": lambda: dr.opaque(ad.Float, 4, 3),
    "evaluated": lambda: dr.arange(ad.Float, 3) * 2, "tracked": lambda: _tracked(ad.Float(8, 9, 10)),
    "empty": lambda: ad.Float(), "long": lambda: ad.Float(1, 2, 3, 4), "nothing": lambda: None, "text": lambda: "x",
}


def _tracked(array: Any) -> Any:
    dr.enable_grad(array)
    return array


def _outcome(condition: Any, first: str, second: str) -> Any:
    """The result's type, shape and values, or the exception's class."""
    try:
        result = dr.select(condition, OPERANDS[first](), OPERANDS[second]())
    except (TypeError, ValueError, RuntimeError) as error:
        return type(error)
    return type(result), dr.shape(result), dr.grad_enabled(result), str(result)


PAIRS = [(first, second) for first, second in itertools.product(OPERANDS, repeat=2)
         if (first, second) != ("empty", "empty")  # a bool has no width, one mask element has
         and any(isinstance(OPERANDS[name](), dr.ArrayBase) and name != "scalar" for name in (first, second))]


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_a_bool_chooses_as_one_mask_element_does(first: str, second: str) -> None:
    for condition in (True, False):
        found = _outcome(condition, first, second)
        assert found == _outcome(np.bool_(condition), first, second)
        expected = _outcome(ad.Bool(condition), first, second)
        if isinstance(expected, type):
            assert found is expected
        else:
            assert found[:2] + found[3:] == expected[:2] + expected[3:]
            assert found[2] == dr.grad_enabled(OPERANDS[first if condition else second]())


def test_a_bool_between_scalar_arrays_stays_scalar() -> None:
    result = dr.select(False, 2.5, ScalarArray3f(1, 2, 3))
    assert type(result) is ScalarArray3f and list(result) == [1, 2, 3]


@pytest.mark.parametrize("kind", [ad.Float, ad.Array3f, ad.ArrayXf, ad.Complex2f, ad.Matrix2f, ad.TensorXf])
def test_gradients_reach_what_was_chosen_alone(kind: type) -> None:
    shape: tuple[int, ...] = (3,) if kind is ad.Float else (2, 3)
    for condition in (True, False):
        x, y = (dr.ones(kind, shape if kind in (ad.Float, ad.ArrayXf, ad.TensorXf) else 3) for _ in range(2))
        dr.enable_grad(x, y)
        dr.backward(dr.sum(dr.select(condition, x * 2, y * 3), axis=None) if kind is not ad.Complex2f
                    else dr.select(condition, x * 2, y * 3))
        got_x, got_y = dr.grad(x), dr.grad(y)
        assert dr.any(got_x != 0, axis=None) if condition else dr.all(got_x == 0, axis=None)
        assert dr.all(got_y == 0, axis=None) if condition else dr.any(got_y != 0, axis=None)


def test_the_gradient_of_one_element_that_was_widened_is_a_sum() -> None:
    x, y = ad.Float(5), ad.Float(1, 2, 3)
    dr.enable_grad(x, y)
    chosen = dr.select(True, x, y)
    assert chosen.shape == (3,)
    dr.set_grad(chosen, ad.Float(1, 2, 4))
    dr.enqueue(dr.ADMode.Backward, chosen)
    dr.traverse(dr.ADMode.Backward)
    assert list(dr.grad(x)) == [7]
    assert list(dr.grad(y)) == [0, 0, 0]


def test_the_choice_is_not_what_it_was_chosen_from() -> None:
    x, y = ad.Float(1, 2), ad.Float(3, 4)
    chosen = dr.select(True, x, y)
    chosen += 1
    chosen[0] = 9
    assert list(x) == [1, 2] and list(chosen) == [9, 3]


def test_a_choice_within_symbolic_code_and_of_frozen_functions() -> None:
    x = ad.Float(1, 2, 3)

    def body(i: Any, total: Any) -> Any:
        return i + 1, total + dr.select(True, x, 0) - dr.select(False, x, 1)

    _, total = dr.while_loop((ad.Int(0), dr.zeros(ad.Float, 3)), lambda i, _: i < 3, body)
    assert list(total) == [0, 3, 6]


@pytest.mark.parametrize(("arguments", "message"), [
    ((True, ad.Float(1, 2), ad.Float(1, 2, 3)), r"drjit\.select\(<drjit\.llvm\.ad\.Float>\).*sizes: 2, 3"),
    ((True, ad.Float(1), "x"), r"'arg2' has the unsupported type 'str'"),
    ((False, None, ad.Float(1)), r"'arg1' has the unsupported type 'NoneType'"),
    ((True, ad.Array3f(1), ad.Array4f(2)), r"incompatible arguments"),
    ((None, ad.Float(1), ad.Float(2)), r"'arg0', the condition, must be a mask array or a bool, found NoneType"),
    ((1, ad.Float(1), ad.Float(2)), r"'arg0', the condition, must be a mask array or a bool, found int"),
])
def test_refusals(arguments: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError, RuntimeError), match=message):
        dr.select(*arguments)
