"""Labels, listings, graphs, formatted output, and ``drjit.detail``."""

from __future__ import annotations

import dataclasses
import io
import sys

import pytest

import drjit as dr
from drjit.llvm import Array2f, Array3f, Bool, Float, Int, TensorXf


@dataclasses.dataclass
class Point:
    x: Float
    y: int = 3


def test_labels():
    a, b = dr.opaque(Float, 1, 2), Float(1, 2)
    assert a.label is None
    tree = {"x": a, "y": [b, Array2f(5, 6)], "z": Point(Float(7, 8))}
    dr.set_label(tree, "t")
    assert (a.label, b.label, tree["y"][1].y.label, tree["z"].x.label) == ("t_x", "t_y_0", "t_y_1_1", "t_z_x")
    assert tree["y"][1].label is None
    dr.set_label(p=a, q=3)
    b.label = "direct"
    assert (a.label, b.label) == ("p", "direct")
    dr.set_label(dr.scalar.ArrayXf([1, 2]), "ignored")


def test_label_of_a_literal_is_its_own():
    x = Float(12.5)
    x.label = "mine"
    assert x.label == "mine" and Float(12.5).label is None and str(x + Float(12.5)) == "[25]"


@pytest.mark.parametrize(("args", "kwargs"), [
    ((Float(1),), {}), ((Float(1), 3), {}), ((Float(1), "a"), {"b": 1}), ((1, "a", 2), {}),
])
def test_set_label_bad_input(args, kwargs):
    with pytest.raises(TypeError, match=r"drjit\.set_label"):
        dr.set_label(*args, **kwargs)


def test_whos(capsys):
    a = dr.opaque(Float, 1, 1000)
    b = a + 1
    dr.set_label(evaluated=a, pending=b)
    text = dr.whos(as_string=True)
    lines = {line.split()[-1]: line.split() for line in text.splitlines() if line.strip()}
    assert lines["evaluated"][1:-1] == ["float32", "Evaluated", "1000", "3.9062", "KiB"]
    assert lines["pending"][1:-1] == ["float32", "Unevaluated", "1000"]
    assert lines["pending"][0] == f"r{b.index}"
    del b
    assert "pending" not in dr.whos(True)
    assert dr.whos() is None and "Memory allocator" in capsys.readouterr().out


def test_graphviz(monkeypatch):
    a = dr.opaque(Float, 1, 4)
    b = a * a
    dr.set_label(b, 'a "label"')
    text = dr.graphviz(as_string=True)
    assert text.startswith("digraph {") and text.endswith("}\n") and '\\"a \\"label\\"\\"' in text and " -> " in text
    monkeypatch.setitem(sys.modules, "graphviz", None)
    with pytest.raises(ImportError, match="pip install graphviz"):
        dr.graphviz()


FORMATS = [
    (("{} {}", 1, "a"), {}, "1 a"), (("{1} {0}", 1, 2), {}, "2 1"),
    (("{x=} {x}",), {"x": Float(1, 2)}, "x=[1, 2] [1, 2]"),
    (("{{}} {}", 1), {}, "{} 1"), (("hello",), {}, "hello"), ((1 / 3,), {}, "0.333333"), (([],), {}, "[]"),
    (("{=}", 3), {}, "=3"), (((1,),), {}, "(\n  1\n)"), (("{0=}", 3), {}, "0=3"),
    (({"a": Float(1, 2), "b": [1, "x", (None,)], "c": {}},), {},
     "{\n  'a': [1, 2],\n  'b': [\n    1,\n    'x',\n    (\n      None\n    )\n  ],\n  'c': {}\n}"),
    (({"a": Array3f([1, 2], 2, 3)},), {}, "{\n  'a': [[1, 2, 3],\n   [2, 2, 3]]\n}"),
    ((Point(Float(1)),), {}, "Point[\n  x=[1],\n  y=3\n]"),
    ((dr.arange(Int, 30),), {}, "[0, 1, 2, .. 24 skipped .., 27, 28, 29]"),
    ((dr.arange(Int, 21),), {"limit": 21}, str(list(range(21)))),
]


@pytest.mark.parametrize(("args", "kwargs", "expected"), FORMATS)
def test_format(args, kwargs, expected):
    assert dr.format(*args, **kwargs) == expected


@pytest.mark.parametrize(("args", "error"), [
    ((), TypeError), ((1, 2), TypeError), (("{} {}", 1), RuntimeError), (("{x}",), RuntimeError),
    (("{", 1), RuntimeError), (("}", 1), RuntimeError), (("{:x}", 1), RuntimeError), (("{0} {}", 1), RuntimeError),
])
def test_format_bad_input(args, error):
    with pytest.raises(error, match="format"):
        dr.format(*args)


@pytest.mark.parametrize(("args", "kwargs", "expected"), [
    (("a={}", Float(1, 2, 3)), {"active": Bool(True, False, True)}, "a=[1, 3]\n"),
    (("{} {}", Float(1, 2), Float(1)), {"active": Bool(False, True)}, "[2] [1]\n"),
    ((Array2f([1, 2, 3], 4),), {"active": Bool(True, False, True)}, "[[1, 4],\n [3, 4]]\n"),
    ((TensorXf([1, 2], (2,)),), {"active": Bool(True, False)}, "[1, 2]\n"),
    ((Float(1, 2, 3),), {"active": Bool(True, False)}, "[1, 2, 3]\n"), (("x",), {"active": Bool(False, False)}, ""),
    ((3,), {"active": False}, ""), ((3,), {"end": "!", "mode": "evaluated"}, "3!"),
])
def test_print(args, kwargs, expected, capsys):
    file = io.StringIO()
    dr.print(*args, file=file, **kwargs)
    dr.print(*args, **kwargs)
    assert file.getvalue() == capsys.readouterr().out == expected


@pytest.mark.parametrize(("kwargs", "error"), [
    ({"mode": "x"}, RuntimeError), ({"file": 3}, RuntimeError), ({"active": 1}, RuntimeError),
    ({"limit": "a"}, TypeError), ({"mode": "symbolic"}, NotImplementedError), ({"active": Array3f(1) > 0}, TypeError),
])
def test_print_bad_input(kwargs, error):
    with pytest.raises(error, match=r"drjit\.print"):
        dr.print("{}", 1, **kwargs)


def test_symbolic_inputs():
    def body(i):
        with pytest.raises(NotImplementedError, match=r"drjit\.print"):
            dr.print("{}", i)
        with pytest.raises(RuntimeError, match=r"drjit\.format"):
            dr.format(i)
        with dr.scoped_set_flag(dr.JitFlag.Debug, True), pytest.raises(NotImplementedError, match="assert_true"):
            dr.assert_true(i < 0)
        return (i + 1,)

    dr.while_loop((dr.opaque(Int, 0),), lambda i: i < 2, body)


def test_detail():
    assert len(dr.detail.llvm_version()) == 3 and dr.detail.cuda_version() == (0, 0)
    assert dr.detail.leak_warnings() is False
    dr.detail.set_leak_warnings(True)
    assert dr.detail.leak_warnings() is True
    dr.detail.set_leak_warnings(False)
    with pytest.raises(TypeError):
        dr.detail.set_leak_warnings(1)
