"""What the examples of the reference show, in examples of our own: printed results, errors, the log of tracing.

``conformance/run_reference.py`` runs the reference's own text, which is not part of this repository.
"""

from __future__ import annotations

import dataclasses
import logging
import re
from typing import ClassVar

import pytest

import drjit as dr
from drjit.llvm import Array2f, Array3f, Bool, Float, Int, Matrix3f, TensorXf, UInt32
from drjit.llvm.ad import Float as DiffFloat


def ragged() -> Array2f:
    """Components of different sizes, neither of them 1."""
    vector = Array2f()
    vector.x = [4, 5, 6]
    vector.y = [7, 8]
    return vector


def mixed() -> Array2f:
    """A component of size 1 goes with any."""
    vector = Array2f()
    vector.x = [4, 5, 6]
    vector.y = -1
    return vector


PRINTED = [
    ("flat array", lambda: Float(2, 0.5, 1.25), "[2, 0.5, 1.25]"),
    ("expression", lambda: dr.sqrt(4 - Float(2, 0.5, 1.25) ** 2), "[0, 1.93649, 1.56125]"),
    ("comparison with one element", lambda: Float(4, 5, 4) == Float(4), "[True, False, True]"),
    ("scalar array of a number", lambda: dr.scalar.Array4f(7), "[7, 7, 7, 7]"),
    ("scalar array and number", lambda: dr.scalar.Array3f(4, 5, 6) + 2, "[6, 7, 8]"),
    ("component of one element", mixed, "[[4, -1],\n [5, -1],\n [6, -1]]"),
    ("ragged array", ragged, "[ragged array]"),
    ("matrix and number", lambda: dr.scalar.Matrix2f(5, 6, 7, 8) + 20, "[[25, 6],\n [7, 28]]"),
    ("matrix quotient", lambda: Matrix3f(6) * Matrix3f(4) / Matrix3f(8) + 1,
     "[[[4, 0, 0],\n  [0, 4, 0],\n  [0, 0, 4]]]"),
    ("complex and number", lambda: dr.scalar.Complex2f(3 - 4j) + 2, "5-4j"),
    ("quaternion and number", lambda: dr.scalar.Quaternion4f(5, -6, 7, 8) + 3, "5i-6j+7k+11"),
    ("tensor of zeros", lambda: dr.zeros(TensorXf, shape=(2, 1, 2, 3)),
     "[[[[0, 0, 0],\n   [0, 0, 0]]],\n [[[0, 0, 0],\n   [0, 0, 0]]]]"),
    ("tensor from a list", lambda: TensorXf([9, 8, 7, 6, 5, 4], shape=(2, 3)), "[[9, 8, 7],\n [6, 5, 4]]"),
    ("flat array of a tensor", lambda: TensorXf([9, 8, 7, 6], shape=(2, 2)).array, "[9, 8, 7, 6]"),
    ("tensor broadcasting", lambda: dr.pi - dr.atan2(TensorXf([1, 0.5], shape=(2, 1)), TensorXf([1, 3], shape=(1, 2))),
     "[[2.35619, 2.81984],\n [2.67795, 2.97644]]"),
    ("long array", lambda: dr.arange(Int, 5000) * 3, "[0, 3, 6, .. 4994 skipped .., 14991, 14994, 14997]"),
]


@pytest.mark.parametrize(("expression", "text"), [case[1:] for case in PRINTED], ids=[case[0] for case in PRINTED])
def test_printed(expression, text: str, capsys) -> None:
    print(expression())
    assert capsys.readouterr().out == text + "\n"
    assert repr(expression()) == text


def test_arrays_print_the_transpose_of_tensors() -> None:
    tensor = TensorXf([9, 8, 7, 6, 5, 4], shape=(3, 2))
    array = Array3f(tensor)
    assert repr(array) == "[[9, 7, 5],\n [8, 6, 4]]"
    assert repr(TensorXf(array)) == repr(tensor) == "[[9, 8],\n [7, 6],\n [5, 4]]"
    assert array.shape == tensor.shape == TensorXf(array).shape == (3, 2)


def test_slices_of_tensors() -> None:
    tensor = dr.arange(TensorXf, 4 * 5 * 6 * 7)
    tensor = dr.reshape(tensor, (4, 5, 6, 7))
    part = tensor[UInt32(1, 3), 1:5:2, dr.newaxis, 2, ...]
    assert part.shape == (2, 2, 1, 7)
    assert part[1, 1, 0, 4].array[0] == ((3 * 5 + 3) * 6 + 2) * 7 + 4
    line = tensor[0, 0, 0]
    assert repr(line[0:6:2] + line[1:6:2]) == "[1, 5, 9]"


def test_errors_of_sizes() -> None:
    with pytest.raises(RuntimeError, match=re.escape("drjit.llvm.Float.__eq__(): operands have incompatible sizes! "
                                                     "(sizes: 3, 2)")):
        Float(1, 2, 3) == Float(2, 3)
    with pytest.raises(RuntimeError, match=r"drjit\.sum\(<drjit\.llvm\.Array2f>\): operands have incompatible sizes! "
                                           r"\(sizes: \d, \d\)") as caught:
        dr.sum(ragged())
    assert caught.value.__cause__ is None and caught.value.__suppress_context__


def test_functions_annotated_with_types_of_any_package() -> None:
    def norm(v: dr.cuda.Array2f) -> dr.cuda.Float:
        return dr.sqrt(v.x**2 + v.y**2)

    assert norm(dr.scalar.Array2f(3, 4)) == 5
    assert norm.__annotations__["v"] in ("dr.cuda.Array2f", dr.cuda.Array2f)


def test_the_log_shows_how_a_function_is_traced(caplog) -> None:
    a, b = Array3f([0.1, 0.2], [0.3, 0.4], [0.5, 0.6]), Array3f([0.2, 0.3], [0.4, 0.5], [0.6, 0.7])
    level = dr.log_level()
    dr.set_log_level(dr.LogLevel.Debug)
    try:
        with caplog.at_level(logging.DEBUG, "drjit"):
            angle = dr.acos(a @ b)
    finally:
        dr.set_log_level(level)
    lines = [record.getMessage() for record in caplog.records]
    # each line refers to the results of others by their indices
    assert re.fullmatch(r"jit_var_new\(\): float32 r(\d+)\[2\] = mul\(r\d+, r\d+\)\n"
                        r"jit_var_new\(\): float32 r(\d+)\[2\] = fma\(r\d+, r\d+, r\1\)\n"
                        r"jit_var_new\(\): float32 r(\d+)\[2\] = fma\(r\d+, r\d+, r\2\)\n"
                        r"jit_var_new\(\): float32 r\d+\[2\] = acos\(r\3\)", "\n".join(lines))
    assert dr.allclose(dr.cos(angle), dr.sum(a * b))


def test_copies_share_their_variable_until_one_is_written_to() -> None:
    a = Int(7, 8, 9)
    b = Int(a)
    assert a.index == b.index
    b[1] = 0
    assert a.index != b.index
    assert repr(a) == "[7, 8, 9]"
    assert repr(b) == "[7, 0, 9]"


def test_arithmetic_of_literals_is_done_while_tracing() -> None:
    total = Int(30) + Int(12)
    assert total.state is dr.VarState.Literal
    assert repr(total.state) == "VarState.Literal"
    assert repr(total) == "[42]"


def test_the_same_expression_is_one_variable() -> None:
    a, b = Int(3, 1, 4), Int(1, 5, 9)
    first, second, other = a + b, a + b, a - b
    assert first.index == second.index != other.index


def test_many_additions_to_one_element() -> None:
    target = dr.zeros(Int, 10)
    dr.scatter_add(target=target, index=dr.zeros(Int, 100_000), value=2)
    assert repr(target) == "[200000, 0, 0, 0, 0, 0, 0, 0, 0, 0]"


# --- PyTrees ---------------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Point:
    x: DiffFloat = DiffFloat(0)  # noqa: RUF009 - as the reference does
    y: DiffFloat = DiffFloat(0)  # noqa: RUF009


class Sample:
    DRJIT_STRUCT: ClassVar[dict[str, type]] = {"x": DiffFloat, "hit": Bool}

    def __init__(self, x: DiffFloat | None = None, hit: Bool | None = None) -> None:
        self.x = x or DiffFloat()
        self.hit = hit or Bool()
        self.time = "noon"


def test_creation_fills_the_fields_of_classes() -> None:
    point = dr.zeros(Point, 50)
    assert isinstance(point, Point)
    assert point.x.shape == point.y.shape == (50,)
    assert type(point.x) is DiffFloat
    sample = dr.zeros(Sample, 30)
    assert sample.x.shape == sample.hit.shape == (30,)
    assert type(sample.hit) is Bool
    assert sample.time == "noon"


def test_structures_that_contain_themselves_are_refused() -> None:
    loop: list = [Float(1)]
    loop.append(loop)
    with pytest.raises(RecursionError, match="contains itself"):
        dr.eval(loop)
