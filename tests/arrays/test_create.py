"""Creation of arrays and PyTrees."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import numpy as np
import pytest

import drjit as dr
from drjit.llvm import (
    Array2f,
    Array3b,
    Array3f,
    Array22f,
    ArrayXf,
    Bool,
    Float,
    Float16,
    Float64,
    Int,
    TensorXf,
    UInt,
    UInt64,
)


@dataclasses.dataclass
class Point:
    x: Float = dataclasses.field(default_factory=Float)
    y: Int = dataclasses.field(default_factory=Int)
    name: str = "p"


class Struct:
    DRJIT_STRUCT: ClassVar = {"position": Array3f, "points": Point}

    def __init__(self) -> None:
        self.position, self.points = Array3f(), Point()


@pytest.mark.parametrize(("expression", "text", "kind"), [
    (lambda: dr.zeros(Float, 3), "[0, 0, 0]", Float), (lambda: dr.ones(Bool, 2), "[True, True]", Bool),
    (lambda: dr.zeros(Bool), "[False]", Bool), (lambda: dr.zeros(Float, 0), "[]", Float),
    (lambda: dr.full(Array3f, 3, 2), "[[3, 3, 3],\n [3, 3, 3]]", Array3f),
    (lambda: dr.full(Array3f, [1, 2, 3]), "[[1, 2, 3]]", Array3f), (lambda: dr.full(Float, 1, (2,)), "[1, 1]", Float),
    (lambda: dr.zeros(Array2f, [2, 2]), "[[0, 0],\n [0, 0]]", Array2f),
    (lambda: dr.zeros(ArrayXf, (2, 1)), "[[0, 0]]", ArrayXf), (lambda: dr.zeros(ArrayXf, 2), "[[0],\n [0]]", ArrayXf),
    (lambda: dr.zeros(Array22f), "[[[0, 0],\n  [0, 0]]]", Array22f), (lambda: dr.ones(Array3b), "[[True, True, True]]",
                                                                   Array3b),
    (lambda: dr.opaque(Float, 3, 2), "[3, 3]", Float), (lambda: dr.zeros(int), "0", int),
    (lambda: dr.full(float, 3), "3.0", float), (lambda: dr.ones(bool), "True", bool),
    (lambda: dr.arange(Float, 3), "[0, 1, 2]", Float), (lambda: dr.arange(UInt, 1, 5), "[1, 2, 3, 4]", UInt),
    (lambda: dr.arange(Int, 10, 0, -3), "[10, 7, 4, 1]", Int), (lambda: dr.arange(Int, 0), "[]", Int),
    (lambda: dr.arange(Int, -2, 2), "[-2, -1, 0, 1]", Int), (lambda: dr.arange(dtype=UInt, size=2), "[0, 1]", UInt),
    (lambda: dr.arange(Float, start=1, stop=5, step=2), "[1, 3]", Float), (lambda: dr.arange(Float16, 3), "[0, 1, 2]",
                                                                      Float16),
    (lambda: dr.arange(UInt64, 2**40, 2**40 + 2), "[1099511627776, 1099511627777]", UInt64),
    (lambda: dr.arange(Float64, 2**40, 2**40 + 1), "[1.09951e+12]", Float64),
    (lambda: dr.linspace(Float, 0, 1, 5), "[0, 0.25, 0.5, 0.75, 1]", Float),
    (lambda: dr.linspace(Float, 0, 1, 5, endpoint=False), "[0, 0.2, 0.4, 0.6, 0.8]", Float),
    (lambda: dr.linspace(Float, 2, 3, 1), "[2]", Float), (lambda: dr.linspace(Float, 0, 1, 0), "[]", Float),
    (lambda: dr.linspace(Float16, 0, 1, 3), "[0, 0.5, 1]", Float16),
    (lambda: dr.zeros_like(Float(1, 2)), "[0, 0]", Float), (lambda: dr.ones_like(Array3f(1, 2, 3)), "[[1, 1, 1]]",
                                                          Array3f),
    (lambda: dr.zeros_like([Float(1, 2), 3, "a"]), "[[0, 0], 0, 'a']", list),
])
def test_creation(expression, text: str, kind: type) -> None:
    for _ in range(2):  # types that have been seen are not looked at again
        result = expression()
        assert type(result) is kind
        assert repr(result) == text


@pytest.mark.parametrize(("expression", "state"), [
    (lambda: dr.zeros(Float, 9), dr.VarState.Literal), (lambda: dr.full(Float, 2, 9), dr.VarState.Literal),
    (lambda: dr.empty(Float, 9), dr.VarState.Undefined), (lambda: dr.empty_like(Float(1, 2)), dr.VarState.Undefined),
    (lambda: dr.opaque(Float, 2), dr.VarState.Evaluated), (lambda: dr.opaque(Array3f, 2), dr.VarState.Evaluated),
    (lambda: dr.arange(UInt, 9), dr.VarState.Unevaluated),
])
def test_states(expression, state: dr.VarState) -> None:
    assert expression().state is state


def test_linspace_and_arange_agree_with_numpy() -> None:
    np.testing.assert_allclose(dr.linspace(Float64, -3, 7, 1001).numpy(), np.linspace(-3, 7, 1001), 1e-14, 1e-14)
    for start, stop, num in (0, 1, 7), (True, 2.5, 2), (1, 1, 1), (np.float32(2), np.int64(9), 12), (-1, 1, np.int8(4)):
        for endpoint in True, False:
            np.testing.assert_allclose(dr.linspace(Float64, start, stop, num, endpoint).numpy(),
                                       np.linspace(start, stop, num, endpoint), 1e-14, 1e-14)
    np.testing.assert_array_equal(dr.arange(Int, -500, 500, 7).numpy(), np.arange(-500, 500, 7))


def test_pytrees_are_created_field_by_field() -> None:
    value = dr.zeros(Struct, 2)
    assert repr(value.position) == "[[0, 0, 0],\n [0, 0, 0]]"
    assert value.points.name == "p"
    assert list(value.points.y) == [0, 0]
    assert dr.width(value) == 2


def test_eval_schedule_and_make_opaque_traverse_pytrees() -> None:
    data = {"a": [Float(1, 2) + 1], "b": (Point(Float(3), Int(1, 2) * 2), None)}
    assert dr.schedule(data)
    assert data["a"][0].state is dr.VarState.Unevaluated
    assert dr.eval(data)
    assert data["a"][0].state is dr.VarState.Evaluated
    assert data["b"][0].x.state is dr.VarState.Literal
    assert not dr.eval(data, 3, "text")
    dr.make_opaque(data)
    assert data["b"][0].x.state is dr.VarState.Evaluated
    assert not dr.schedule()


def test_cycles_raise() -> None:
    cycle: list[object] = []
    cycle.append({"a": cycle})
    for function in (dr.eval, dr.schedule, dr.width, dr.make_opaque, dr.zeros_like):
        with pytest.raises(RecursionError, match="itself"):
            function(cycle)


@pytest.mark.parametrize(("expression", "error", "message"), [
    (lambda: dr.zeros(3), TypeError, r"drjit\.zeros\(\): 'dtype'"), (lambda: dr.zeros(Float, -1), TypeError, "'shape'"),
    (lambda: dr.zeros(Float, "a"), TypeError, "'shape'"), (lambda: dr.zeros(Float, (2, 3)), RuntimeError, r"\(\*\)"),
    (lambda: dr.zeros(Array3f, (2, 10)), RuntimeError, r"drjit\.zeros\(<drjit\.llvm\.Array3f>\).*\(3, \*\)"),
    (lambda: dr.full(Float, "a", 3), TypeError, "'value'"), (lambda: dr.full(Int, 2**31), TypeError, "2147483648"),
    (lambda: dr.arange(Array3f, 5), TypeError, "1D"), (lambda: dr.arange(Bool, 5), TypeError, "arithmetic"),
    (lambda: dr.arange(Float, 5.5), TypeError, "'size'.*float"),
    (lambda: dr.arange(Int, 5, 0), RuntimeError, "negative"),
    (lambda: dr.arange(Int, 0, 5, 0), ValueError, "'step'"), (lambda: dr.arange(UInt, -1, 3), TypeError, "-1"),
    (lambda: dr.arange(UInt, start=1), TypeError, "expected either"), (lambda: dr.linspace(Int, 0, 1, 2), TypeError,
                                                                      "floating-point"),
    (lambda: dr.linspace(Float, 0, 1, -1), TypeError, "'num'"), (lambda: dr.linspace(Float, "a", 1, 2), TypeError,
                                                              "'start'"),
    (lambda: dr.zeros(dr.ArrayBase), TypeError, "concrete"),
    (lambda: dr.zeros(Float, 2**63), RuntimeError, r"drjit\.zeros\(\): 'shape' asks for 9223372036854775808 elements"),
    (lambda: dr.full(Array3f, 1, (3, 2**70)), RuntimeError, r"drjit\.full\(\): 'shape' asks for"),
    (lambda: dr.ones(TensorXf, (2**40, 2**40)), RuntimeError, r"drjit\.ones\(\): 'shape' asks for"),
    (lambda: dr.zeros(TensorXf, (0, 2**63)), RuntimeError, r"drjit\.zeros\(\): 'shape' asks for"),
    (lambda: dr.arange(Float, 2**63), RuntimeError, r"drjit\.arange\(\): 'size' asks for"),
    (lambda: dr.arange(Float, 0, 2**64), RuntimeError, r"drjit\.arange\(\): 'stop' asks for"),
    (lambda: dr.linspace(Float, 0, 1, 2**70), RuntimeError, r"drjit\.linspace\(\): 'num' asks for"),
])
def test_creation_refuses(expression, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        expression()


def test_ones_like_special_arrays_is_the_one_of_ones() -> None:
    from drjit.llvm import Complex2f, Float, Quaternion4f

    assert repr(dr.ones_like(Complex2f(Float(1, 2), 3))) == "[1,\n 1]" and repr(dr.ones_like(Quaternion4f(3))) == "[1]"
