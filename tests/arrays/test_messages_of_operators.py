"""What operators and elementwise functions say when operands do not fit: one exception, about the user's own call."""

from __future__ import annotations

import operator
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import drjit as dr
from drjit.llvm import (
    Array2f,
    Array3f,
    ArrayXf,
    Bool,
    Complex2f,
    Float,
    Int,
    Matrix2f,
    Matrix3f,
    Quaternion4f,
    TensorXf,
    TensorXi,
)

F, V, T = Float(1, 2), Array3f(1), TensorXf(np.ones((2, 3)))

UNSUPPORTED = "(expected a Dr.Jit array or a type that can be converted into one)."

CASES: list[tuple[Callable[[], Any], str]] = [
    # arguments of unsupported types are named as the user knows them
    (lambda: dr.fma(Float(1), "a", 2), "drjit.fma(<drjit.llvm.Float>): argument 'arg1' has the unsupported type 'str' "
                                       + UNSUPPORTED),
    (lambda: dr.fma({}, Float(1), 2), "drjit.fma(<drjit.llvm.Float>): argument 'arg0' has the unsupported type 'dict' "
                                      + UNSUPPORTED),
    (lambda: dr.maximum(V, "a"), "drjit.maximum(<drjit.llvm.Array3f>): argument 'arg1' has the unsupported type 'str' "
                                 + UNSUPPORTED),
    (lambda: dr.atan2(None, F), "drjit.atan2(<drjit.llvm.Float>): argument 'arg0' has the unsupported type 'NoneType' "
                                + UNSUPPORTED),
    (lambda: F + "a", "drjit.llvm.Float.__add__(): unsupported operand of type 'str' " + UNSUPPORTED),
    (lambda: None - V, "drjit.llvm.Array3f.__rsub__(): unsupported operand of type 'NoneType' " + UNSUPPORTED),
    (lambda: T * 2j, "drjit.llvm.TensorXf.__mul__(): unsupported operand of type 'complex' " + UNSUPPORTED),
    (lambda: F * [1, "a"], "drjit.llvm.Float.__mul__(): unsupported operand of type 'str' " + UNSUPPORTED),
    (lambda: Complex2f(1) ** "a", "drjit.llvm.Complex2f.__pow__(): unsupported operand of type 'str' " + UNSUPPORTED),
    # shapes: both types in the order of the operands, and their shapes
    (lambda: V + Array2f(1, [2, 3]), "drjit.llvm.Array3f.__add__(): incompatible arguments: drjit.llvm.Array3f of "
                                     "shape (3, 1) and drjit.llvm.Array2f of shape (2, 2)."),
    (lambda: Array2f(1) < V, "drjit.llvm.Array2f.__lt__(): incompatible arguments: drjit.llvm.Array2f of shape (2, 1) "
                             "and drjit.llvm.Array3f of shape (3, 1)."),
    (lambda: dr.fma(V, 2, Array2f(1)), "drjit.fma(<drjit.llvm.Array3f>): incompatible arguments: drjit.llvm.Array3f of "
                                       "shape (3, 1), int and drjit.llvm.Array2f of shape (2, 1)."),
    (lambda: V + Array2f(Float(1, 2), Float(1, 2, 3)),
     "drjit.llvm.Array3f.__add__(): incompatible arguments: drjit.llvm.Array3f of shape (3, 1) and drjit.llvm.Array2f "
     "(ragged)."),
    (lambda: T + TensorXf([1, 2]), "drjit.llvm.TensorXf.__add__(): operands have incompatible shapes: "
                                   "drjit.llvm.TensorXf of shape (2, 3) and drjit.llvm.TensorXf of shape (2,)."),
    (lambda: F - T, "drjit.llvm.Float.__sub__(): operands have incompatible shapes: drjit.llvm.Float of shape (2,) and "
                    "drjit.llvm.TensorXf of shape (2, 3)."),
    (lambda: dr.select(Bool(True, False), T, 0), "drjit.select(<drjit.llvm.TensorXf>): operands have incompatible "
                                                 "shapes: drjit.llvm.Bool of shape (2,), drjit.llvm.TensorXf of shape "
                                                 "(2, 3) and int."),
    (lambda: F + Float(1, 2, 3), "drjit.llvm.Float.__add__(): operands have incompatible sizes! (sizes: 2, 3)"),
    (lambda: Float(1, 2, 3) * Array3f(F), "drjit.llvm.Float.__mul__(): operands have incompatible sizes! (sizes: 3, "
                                          "2)"),
    (lambda: dr.minimum(Float(1, 2, 3), F), "drjit.minimum(<drjit.llvm.Float>): operands have incompatible sizes! "
                                            "(sizes: 3, 2)"),
    (lambda: ArrayXf([1, 2]) + V, "drjit.llvm.ArrayXf.__add__(): incompatible arguments: drjit.llvm.ArrayXf of shape "
                                  "(2, 1) and drjit.llvm.Array3f of shape (3, 1): their numbers of components differ."),
    # kinds without a common rule
    (lambda: V + T, "drjit.llvm.Array3f.__add__(): incompatible arguments: drjit.llvm.Array3f of shape (3, 1) and "
                    "drjit.llvm.TensorXf of shape (2, 3): drjit.llvm.Array3f cannot be combined with tensors; convert "
                    "it to drjit.llvm.TensorXf first."),
    (lambda: Complex2f(1) * Quaternion4f(1), "drjit.llvm.Complex2f.__mul__(): incompatible arguments: "
                                             "drjit.llvm.Complex2f of shape (2, 1) and drjit.llvm.Quaternion4f of "
                                             "shape (4, 1)."),
    (lambda: Matrix3f(1) * Matrix2f(1), "drjit.llvm.Matrix3f.__mul__(): incompatible arguments: drjit.llvm.Matrix3f of "
                                        "shape (3, 3, 1) and drjit.llvm.Matrix2f of shape (2, 2, 1): matrices of "
                                        "different sizes cannot be multiplied."),
    (lambda: Complex2f(1) < 1, "drjit.llvm.Complex2f.__lt__(): there is no order among complex numbers."),
    (lambda: dr.maximum(Complex2f(1), 1), "drjit.maximum(<drjit.llvm.Complex2f>): the function is not defined for "
                                          "complex numbers."),
    # types of elements, and values
    (lambda: Bool(True) + Bool(True), "drjit.llvm.Bool.__add__(): operation not supported for this type (elements of "
                                      "type bool)."),
    (lambda: F & 1, "drjit.llvm.Float.__and__(): operation not supported for this type (elements of type float32)."),
    (lambda: TensorXi([1]) / 2, "drjit.llvm.TensorXi.__truediv__(): operation not supported for this type (elements of "
                                "type int32)."),
    (lambda: Int(1) + (1 << 40), "drjit.llvm.Int.__add__(): could not initialize an element of type drjit.llvm.Int "
                                 "with the value 1099511627776 of type 'int': it is out of range."),
    (lambda: F * np.array(["a"]), "drjit.llvm.Float.__mul__(): arrays of type 'numpy.ndarray' with elements of type "
                                  "'<U1' are not supported."),
    (lambda: Int(2) ** -1, "drjit.llvm.Int.__pow__(): integer arrays cannot be raised to the negative power -1."),
    (lambda: Int(2) ** Int(2), "drjit.llvm.Int.__pow__(): raising integers to the power of an array is not supported; "
                               "convert to a floating-point type first."),
]


@pytest.mark.parametrize(("operation", "message"), CASES)
def test_one_exception_says_what_is_wrong_with_the_call(operation: Callable[[], Any], message: str) -> None:
    for _ in range(2):  # without a plan, and with one where operands of these classes have one
        with pytest.raises((TypeError, RuntimeError)) as caught:
            operation()
        error = caught.value
        assert str(error) == message
        assert error.__cause__ is None and (error.__context__ is None or error.__suppress_context__)
        inside = [frame for frame in traceback.extract_tb(error.__traceback__)
                  if Path(frame.filename).resolve().is_relative_to(Path(dr.__file__).parent)]
        assert len(inside) <= 2, "\n".join(traceback.format_list(inside))
        assert not any("drjit_core" in frame.filename for frame in inside)


def test_nothing_is_formatted_unless_something_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    from drjit._base import errors

    def refuse(*args: Any) -> str:
        raise AssertionError("a message was made")

    operands = [Float(1, 2), Int(1, 2), Array3f(1), ArrayXf([1, 2, 3]), TensorXf([1, 2]), 2, 1.5, [1, 2], np.float32(1)]
    for name in ("describe", "describe_all", "called", "argument", "translate"):
        for module in [module for title, module in sys.modules.items() if title.startswith("drjit._")]:
            if getattr(module, name, None) is getattr(errors, name) and module is not errors:
                monkeypatch.setattr(module, name, refuse)
        monkeypatch.setattr(errors, name, refuse)
    monkeypatch.setattr(errors.CallSite, "__str__", refuse)
    monkeypatch.setattr(errors.CallSite, "call", refuse)
    for a in operands:
        for b in operands:
            nested = any(isinstance(x, (Array3f, ArrayXf)) for x in (a, b))
            if not any(isinstance(x, dr.ArrayBase) for x in (a, b)) or nested and any(
                    isinstance(x, (list, TensorXf)) for x in (a, b)):
                continue
            for function in (operator.add, operator.mul, operator.lt, dr.maximum):
                function(a, b)
            dr.fma(a, b, 1)
            dr.select(Bool(True), a, b)
    operator.matmul(Float(1, 2), [1, 2])


def test_foreign_types_have_their_say() -> None:
    class Foreign:
        def __radd__(self, other: Any) -> str:
            return "foreign"

        def __rmatmul__(self, other: Any) -> str:
            return "product"

    for array in (Float(1), Array3f(1), TensorXf([1]), Complex2f(1), Matrix2f(1)):
        assert array + Foreign() == "foreign" and array @ Foreign() == "product"
        with pytest.raises(TypeError, match="unsupported operand"):
            array - Foreign()
