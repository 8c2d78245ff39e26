"""Element access, components, swizzles, and how changes of them show elsewhere."""

from __future__ import annotations

import numpy as np
import pytest

import drjit as dr
from drjit import llvm, scalar
from drjit.llvm import Array2f, Array3f, Array22f, ArrayXf, Float, Int, UInt

#: What the code in the tables refers to.
NAMES = {**{name: getattr(llvm, name) for name in llvm.__all__}, "dr": dr}


@pytest.mark.parametrize(("expression", "expected"), [
    (lambda a: a[0], 1.0), (lambda a: a[-1], 3.0), (lambda a: a[np.int64(1)], 2.0),
    (lambda a: list(a[0:2]), [1, 2]), (lambda a: list(a[::-1]), [3, 2, 1]), (lambda a: list(a[5:]), []),
    (lambda a: list(a[:]), [1, 2, 3]), (lambda a: list(a[Int(2, 0)]), [3, 1]), (lambda a: len(a), 3),
    (lambda a: 2 in a, True), (lambda a: list(a), [1, 2, 3]), (lambda a: a[()] is not a, True),
])
def test_reading_flat_arrays(expression, expected: object) -> None:
    assert expression(Float(1, 2, 3)) == expected


@pytest.mark.parametrize(("expression", "text"), [
    (lambda v: v[0], "[1, 2]"), (lambda v: v[-1], "[4]"), (lambda v: v.y, "[3]"), (lambda v: v[0, 1], "2.0"),
    (lambda v: v[0:2], "[[1, 3],\n [2, 3]]"), (lambda v: v[::2], "[[1, 4],\n [2, 4]]"),
    (lambda v: v[:, 1], "[2, 3, 4]"),
    (lambda v: v.zy, "[[4, 3]]"), (lambda v: v.zyxx, "[[4, 3, 1, 1],\n [4, 3, 2, 2]]"),
    (lambda v: v.yyyyy, "[[3, 3, 3, 3, 3]]"), (lambda v: list(v), "[[1, 2], [3], [4]]"),
])
def test_reading_nested_arrays(expression, text: str) -> None:
    assert repr(expression(Array3f([1, 2], 3, 4))) == text


def test_slices_have_the_type_of_their_size() -> None:
    assert type(Array3f(1)[0:2]) is Array2f
    assert type(ArrayXf(1, 2, 3)[0:2]) is ArrayXf


@pytest.mark.parametrize(("start", "code", "text"), [
    ("Float(1, 2, 3)", "a[0] = 9", "[9, 2, 3]"), ("Float(1, 2, 3)", "a[-1] = 9", "[1, 2, 9]"),
    ("Int(1, 2, 3)", "a[0:2] = 7", "[7, 7, 3]"), ("Int(1, 2, 3)", "a[:] = 9", "[9, 9, 9]"),
    ("Int(1, 2, 3)", "a[:] = Int(4, 5, 6)", "[4, 5, 6]"), ("Int(1, 2, 3)", "a[5:] = 1", "[1, 2, 3]"),
    ("Int(1, 2, 3)", "a[Bool(True, False, True)] = 9", "[9, 2, 9]"), ("Int(1, 2, 3)", "a[Int(0, 1)] = 4", "[4, 4, 3]"),
    ("Int(1, 2, 3)", "a[Bool(True, False, True)] = Int(5, 6, 8)", "[5, 2, 8]"), ("Int(1, 2)", "a[0] = True", "[1, 2]"),
    ("dr.zeros(Float, 3)", "a[0] = 1", "[1, 0, 0]"), ("Float(5)", "a[0] = 7", "[7]"),
    ("Array3f(1, 2, 3)", "a.x = [4, 5]", "[[4, 2, 3],\n [5, 2, 3]]"), ("Array3f(1, 2, 3)", "a[1] = 5", "[[1, 5, 3]]"),
    ("Array3f(1, 2, 3)", "a.x += 1", "[[2, 2, 3]]"), ("Array3f(1, 2, 3)", "a[0] += 1", "[[2, 2, 3]]"),
    ("Array3f(1, 2, 3)", "a[0][0] = 5", "[[5, 2, 3]]"), ("Array3f(1, 2, 3)", "a[:] = 5", "[[5, 5, 5]]"),
    ("Array3f(1, 2, 3)", "a[0:2] = Float(7)", "[[7, 7, 3]]"), ("Array3f(1, 2, 3)", "a[Bool(True)] = 5", "[[5, 5, 5]]"),
    ("Array3f(1, 2, 3)", "a[Array3b(True, False, True)] = 5", "[[5, 2, 5]]"),
    ("Array3f([1, 2], 2, 3)", "a[Bool(True, False)] = 5", "[[5, 5, 5],\n [2, 2, 3]]"),
    ("Array3f(1, 2, 3)", "a.yx = Array2f(8, 9)", "[[9, 8, 3]]"), ("Array3f(1, 2, 3)", "a.xy = 5", "[[5, 5, 3]]"),
    ("Array22f(1)", "a[0, 1] = 5", "[[[1, 5],\n  [1, 1]]]"), ("Array22f(1)", "a[0][1] = 5", "[[[1, 5],\n  [1, 1]]]"),
    ("ArrayXf(1, 2)", "a[0] = 5", "[[5, 2]]"),
    ("dr.zeros(Array2f, 3)", "a[:, UInt(1)] += Array2f(1, 2)", "[[0, 0],\n [1, 2],\n [0, 0]]"),
    ("dr.zeros(Array2f, 3)", "a[:, UInt(2, 0)] = Array2f([1, 2], 3)", "[[2, 3],\n [0, 0],\n [1, 3]]"),
    ("Array3f([0, 0], 0, [5, 5])", "a[::2, 1] += 1", "[[0, 0, 5],\n [1, 0, 6]]"),
    ("dr.zeros(Array2f, 2)", "a[:, 1] = [1, 2]", "[[0, 0],\n [1, 2]]"),
    ("dr.zeros(Array2f, 2)", "a[:, 1] = Float(3)", "[[0, 0],\n [3, 3]]"),
    ("Array22f(1)", "a[:, 0] = Array2f(2, 3)", "[[[2, 1],\n  [3, 1]]]"),
    ("Array22f(1)", "a[:, 0] += 4", "[[[5, 1],\n  [5, 1]]]"),
])
def test_writing(start: str, code: str, text: str) -> None:
    scope = {**NAMES}
    scope["a"] = eval(start, scope)
    exec(code, scope)
    assert repr(scope["a"]) == text


def test_components_are_live_in_both_directions() -> None:
    v = Array3f(1, 2, 3)
    f = v.x
    f += 1
    assert repr(v) == "[[2, 2, 3]]"
    f[0] = 7
    assert repr(v) == "[[7, 2, 3]]"
    v.x = 5
    assert list(f) == [5]
    v += 1
    assert list(f) == [6]
    dr.scatter(f, 9, 0)
    assert repr(v) == "[[9, 3, 4]]"
    for component in v:
        component *= 2
    assert repr(v) == "[[18, 6, 8]]"


def test_components_of_components_are_live() -> None:
    a = Array22f(1)
    row, element = a[0], a.x.y
    element += 3
    assert repr(a) == "[[[1, 4],\n  [1, 1]]]"
    assert repr(row) == "[[1, 4]]"
    row += 5
    assert list(element) == [9]
    a[0] = Array2f(0)
    assert list(element) == [0]


def test_swizzles_are_copies() -> None:
    v = Array3f(1, 2, 3)
    f = v.xy
    f += 3
    assert repr(v) == "[[1, 2, 3]]"


def test_an_array_put_into_another_is_copied() -> None:
    x = Float(1, 2)
    v = Array2f(x, x)
    v.x += 1
    assert list(x) == [1, 2]
    assert list(v.y) == [1, 2]


@pytest.mark.parametrize(("code", "error", "message"), [
    ("Float(1, 2, 3)[3]", IndexError, r"Float\.__getitem__\(\): entry 3 is out of bounds \(the array is of size 3\)"),
    ("Float(1, 2, 3)[-4]", IndexError, "entry -4"), ("Float(1, 2, 3)['a']", TypeError, "'str'"),
    ("Float(1, 2, 3)[True]", TypeError, "'bool'"), ("Float(1, 2, 3)[1.0]", TypeError, "'float'"),
    ("Float(1, 2, 3)[Bool(True, False)]", RuntimeError, "mask has 2 elements, but the array has 3"),
    ("Float()[0]", IndexError, "size 0"),
    ("Array3f(1)[3]", IndexError, "entry 3"), ("Array3f(1)['x']", TypeError, "'str'"),
    ("Float(1).x", RuntimeError, r"drjit\.llvm\.Float does not have a 'x' component"),
    ("Array3f(1).w", RuntimeError, r"drjit\.llvm\.Array3f does not have a 'w' component"),
    ("Array3f(1).xw", RuntimeError, "'w' component"), ("Float(1).foo", AttributeError, "foo"),
    ("Array3f(1).foo", AttributeError, "foo"), ("Float(1, 2).item()", RuntimeError, "single element"),
    ("bool(Bool(True, False))", RuntimeError, "exactly 1 element"), ("bool(Float(1))", TypeError, "mask"),
    ("bool(Array3b(True))", RuntimeError, "1 dimension"), ("Float(1, 2).T", TypeError, "matrix"),
])
def test_reading_refuses(code: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        eval(code, NAMES)


@pytest.mark.parametrize(("start", "code", "error", "message"), [
    ("Int(1, 2, 3)", "a[5] = 1", IndexError, r"Int\.__setitem__\(\): entry 5"),
    ("Int(1, 2, 3)", "a[0] = 'x'", TypeError, "'str'"), ("Int(1, 2, 3)", "a[0] = 1.5", TypeError, "'float'"),
    ("Int(1, 2, 3)", "a[0] = 2**31", TypeError, "2147483648"), ("Int(1, 2, 3)", "a['x'] = 1", TypeError, "'str'"),
    ("Int(1, 2, 3)", "a[0:2] = Int(1, 2, 3)", RuntimeError, "3 values to 2 elements"),
    ("Float(1, 2)", "a[0] = Float(5)", TypeError, r"'drjit\.llvm\.Float'"),
    ("Array3f(1, 2, 3)", "a[3] = 1", IndexError, "entry 3"), ("Array3f(1, 2, 3)", "a[0] = 'q'", TypeError, "'str'"),
    ("Array3f(1, 2, 3)", "a.w = 1", RuntimeError, "'w'"), ("Array3f(1, 2, 3)", "a.foo = 1", AttributeError, "foo"),
    ("Array3f(1, 2, 3)", "a[0:2] = [1, 'q']", TypeError, "'str'"), ("Float(1)", "a.foo = 1", AttributeError, "foo"),
    ("Float(1)", "a.x = 1", RuntimeError, "'x'"),
    ("Array3f([1, 2], 3, 4)", "a[:, 0] = Float(1, 2)", RuntimeError, "2 values to 3 components"),
    ("Array3f([1, 2], [3, 4], 4)", "a[:, 1] = 5", IndexError, "1"),
    ("Array3f([1, 2], [3, 4], 4)", "a[:, UInt(1)] = 5", IndexError, "index 1 is out of bounds"),
    ("Array3f([1, 2], 3, 4)", "a[:, UInt(0)] = Array2f(1, 2)", RuntimeError, "2 values to 3 components"),
])
def test_failed_writing_changes_nothing(start: str, code: str, error: type[Exception], message: str) -> None:
    scope = {**NAMES}
    scope["a"] = eval(start, scope)
    before = repr(scope["a"])
    with pytest.raises(error, match=message):
        exec(code, scope)
    assert repr(scope["a"]) == before


def test_width_and_shape() -> None:
    assert Array3f([1, 2], 2, 3).shape == (3, 2)
    assert (Float(1, 2).shape, Float().shape, Array3f().shape, Array22f(1).shape) == ((2,), (0,), (3, 0), (2, 2, 1))
    assert (Array3f(1).ndim, len(Array3f()), len(ArrayXf(1, 2)), Array3f(1).index) == (2, 3, 2, 0)
    assert dr.width([Float(1, 2), {"a": UInt(1)}]) == 2
    assert dr.width(3) == 1
    assert dr.shape([[1, 2], [3, 4]]) == (2, 2)
    ragged = Array3f([1, 2], [1, 2, 3], 0)
    for function in (lambda: ragged.shape, lambda: dr.width(ragged), lambda: dr.shape(ragged), ragged.numpy):
        with pytest.raises(RuntimeError, match="ragged"):
            function()
    with pytest.raises(RuntimeError, match=r"drjit\.sum\(<drjit\.llvm\.Array3f>\).*\(sizes: 2, 3\)"):
        dr.sum(ragged)


@pytest.mark.parametrize("array", [Array3f(1, 2, 3), scalar.Array3f(1, 2, 3)], ids=["llvm", "scalar"])
def test_components_cannot_be_deleted(array) -> None:
    with pytest.raises(AttributeError, match=r"Array3f: components cannot be deleted"):
        del array.x
    assert list(array) == [1, 2, 3]
