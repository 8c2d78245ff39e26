"""Labels, listings, graphs, formatted output, and ``drjit.detail``."""

from __future__ import annotations

import dataclasses
import gc
import io
import sys

import numpy as np
import pytest

import drjit as dr
from drjit.llvm import Array2f, Array3f, Bool, Float, Int, TensorXf

PLACE = dr.backend_v(Float).name

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
    assert text.splitlines()[1].split() == ["ID", "Type", "Status", "Refs", "Size", "Storage", "Label"]
    assert row("evaluated") == [str(a.index), PLACE, "f32", PLACE, "2", "1000", "3.9062", "KiB"]
    assert row("pending") == [str(b.index), PLACE, "f32", "1", "1000"]
    c, v = Float(b), Array2f(b, 1)
    assert row("pending")[3] == "3" and row("evaluated")[4] == "2" and c.index == v.x.index
    del a
    assert row("evaluated")[4] == "1"  # what is yet to be computed needs it
    del b, c, v
    assert not any(line.endswith((" pending", " evaluated")) for line in dr.whos(True).splitlines())
    assert dr.whos() is None and "Memory allocator" in capsys.readouterr().out


def row(label):
    """The columns of a labelled variable."""
    (line,) = [line for line in dr.whos(as_string=True).splitlines() if line.endswith(f" {label}")]
    return line.split()[:-1]


def listed():
    """The number of variables that are listed."""
    (line,) = [line for line in dr.whos(as_string=True).splitlines() if "- Variables" in line]
    return int(line.split()[-1].rstrip("."))


def test_whos_lists_what_the_program_holds_only():
    gc.collect()  # what other tests have left in cycles
    before = listed()
    for k in range(50):
        dr.eval(dr.sin(Float(1, 2) * (k + 0.5)) + 1)  # leaves constants in the compiler
    assert listed() == before
    x = Float(1, 2)
    y = x * 12.5 + 1  # the constants are no variables of the program
    assert listed() == before + 3
    dr.eval(y)
    assert listed() == before + 2
    constant = Float(12.5)
    assert listed() == before + 3
    dr.set_label(constant=constant, empty=Float())
    assert row("constant")[1:] == [PLACE, "f32", "const.", "1", "1"]
    array, matrix = dr.scalar.Array3f(1), dr.llvm.Matrix2f(x, y, 17.25, 18.25)  # the first is not traced
    assert listed() == before + 5 and array.x + 16.25 == matrix[1, 0][0]
    view, tensor, generator = matrix[0], TensorXf(x), dr.llvm.PCG32(3)
    dr.set_label(x=x, state=generator.state)
    assert row("x")[3:5] == [PLACE, "4"] and row("state")[4] == "3" and tensor.shape == view.x.shape


def test_whos_says_what_is_in_memory():
    x, memory = dr.opaque(Float, 1, 10), np.ones(4, dtype=np.float32)
    y = Float(x)
    dr.scatter(y, Float(2), dr.llvm.UInt(1))
    z = TensorXf(memory)
    imported = Float(Exchange(memory))
    dr.set_label(x=x, y=y, imported=imported, z=z, undefined=dr.empty(Float, 3))
    assert (row("x")[3], row("y")[3], row("imported")[3:5]) == ("LLVM", "dirty", ["LLVM", "shared"])
    assert row("z")[3:] == ["LLVM", "1", "4", "16", "B"]


class Exchange:
    """Speaks DLPack only."""

    def __init__(self, memory):
        self.memory = memory

    def __dlpack__(self, **options):
        return self.memory.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.memory.__dlpack_device__()


def test_whos_follows_what_loops_read():
    tables, x = [dr.opaque(Float, 2, 10)], dr.opaque(Int, 3, 4)
    dr.set_label(table=tables[0], x=x)
    before = int(row("table")[4])
    _, total = dr.while_loop((Int(0, 0, 0, 0), Float(0)), lambda i, total: i < x,
                             lambda i, total: (i + 1, total + dr.gather(Float, tables[0], i)))
    assert int(row("table")[4]) == before + 1 and row("x")[4] == "2"
    tables.clear()
    assert row("table")[4] == "1" and total.tolist() == [6] * 4


def test_whos_counts_launches():
    def launches():
        (line,) = [line for line in dr.whos(as_string=True).splitlines() if "- Kernel launches" in line]
        return [int(word.strip("(")) for word in line.replace(":", " ").split() if word.strip("(").isdigit()]

    before = launches()
    x = dr.arange(Float, 3) * 2.5
    dr.eval(x)
    dr.eval(dr.arange(Float, 4) * 3.5)
    after = launches()
    assert after[0] - before[0] == 2 and after[1] - before[1] >= 1 and sum(after[1:]) == after[0]


def test_graphviz(monkeypatch):
    a = dr.opaque(Float, 1, 4)
    b = a * a
    dr.set_label(b, 'a "label"')
    text = dr.graphviz(as_string=True)
    kept = dr.graphviz(as_string=True).count("label=")
    dr.eval(Float(1, 2) * 12.625)
    assert dr.graphviz(as_string=True).count("label=") == kept and "12.625" not in dr.graphviz(as_string=True)
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


def test_the_format_may_be_given_by_name(capsys):
    assert dr.format(fmt="{a}", a=Float(1, 2)) == "[1, 2]"
    dr.print(fmt="{a}", a=Array2f(1, 2), end="!")
    assert capsys.readouterr().out == "[[1, 2]]!"


@pytest.mark.parametrize(("args", "active", "expected"), [
    ((TensorXf([[1, 2], [3, 4]]),), TensorXf([[1, 2], [3, 4]]) > 2, "[3, 4]"),
    ((TensorXf([1, 2, 3]),), Bool(True, False, True), "[1, 2, 3]"),  # a flat mask selects lanes: tensors have none
    (("{} {}", TensorXf([1, 2, 3]), Float(4, 5, 6)), TensorXf([1, 2, 3]) > 1, "[2, 3] [5, 6]"),
    (("{}", TensorXf([[1, 2, 3, 4]])), TensorXf([[1, 2], [3, 4]]) > 2, "[[1, 2, 3, 4]]"),
    (({"a": TensorXf(dr.arange(Float, 4), (2, 2))},), TensorXf(dr.arange(Float, 4), (2, 2)) < 1, "{\n  'a': [0]\n}"),
    ((TensorXf([[1, 2]]),), TensorXf([[1, 2]]) > 0, "[[1, 2]]"), ((TensorXf([[1, 2]]),), TensorXf([[1, 2]]) > 2, None),
    ((TensorXf(3),), TensorXf(3) > 2, "3"), (("x",), TensorXf(3) > 4, None),
    ((TensorXf(Float(), (2, 0)),), TensorXf(Float(), (2, 0)) > 0, None),
])
def test_masks_that_are_tensors(args, active, expected, capsys):
    dr.print(*args, active=active)
    assert capsys.readouterr().out == ("" if expected is None else expected + "\n")


@pytest.mark.parametrize(("kwargs", "error"), [
    ({"mode": "x"}, RuntimeError), ({"file": 3}, RuntimeError), ({"active": 1}, RuntimeError),
    ({"limit": "a"}, TypeError), ({"active": Array3f(1) > 0}, TypeError),
])
def test_print_bad_input(kwargs, error):
    with pytest.raises(error, match=r"drjit\.print"):
        dr.print("{}", 1, **kwargs)


def test_symbolic_inputs():
    def body(i):
        with pytest.raises(RuntimeError, match=r"drjit\.format"):
            dr.format(i)
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


def test_lanes_that_have_finished_are_left_out(capsys):
    failures = []

    def body(i):
        dr.print("i={}", i)
        dr.print("positive {}, of another width {}", i, Float(1, 2, 3), active=i > 0)
        with dr.scoped_set_flag(dr.JitFlag.Debug):
            dr.assert_true(i < 3, "never: those with 3 have finished")
            dr.assert_equal({"a": [i]}, {"a": [dr.select(i < 3, i, 7)]})
            try:
                dr.assert_false(i >= 2, "{}", i)
            except AssertionError as error:
                failures.append(str(error))
        return (i + 1,)

    (i,) = dr.while_loop((Int(0, 1),), lambda i: i < 3, body, mode="evaluated")
    other = "of another width [1, 2, 3]"
    assert capsys.readouterr().out.splitlines() == [
        "i=[0, 1]", f"positive [1], {other}", "i=[1, 2]", f"positive [1, 2], {other}",
        "i=[2]", f"positive [2], {other}"]
    assert failures == ["Assertion failure: [2]"] * 2 and i.tolist() == [3, 3]


def test_a_label_takes_one_line_of_a_listing(capsys: pytest.CaptureFixture[str]) -> None:
    from drjit.llvm import Float
    x = Float(1, 2)
    dr.set_label(x, "several\nlines")
    dr.whos()
    assert "several lines\n" in capsys.readouterr().out


def test_a_constant_that_tracks_derivatives_has_a_label() -> None:
    from drjit.llvm.ad import Array2f, Float
    x, v = Float(1), Array2f(2, Float(3, 4))
    dr.enable_grad(x, v)
    dr.set_label(x=x, v=v)
    assert (x.label, v.x.label, v.y.label) == ("x", "v_0", "v_1")
    assert [line.split()[-1] for line in (dr.whos_ad(as_string=True) or "").splitlines() if line.endswith((
        "x", "v_0", "v_1"))] == ["x", "v_0", "v_1"]
    dr.backward(x * v)
    assert x.grad == 9 and dr.all(v.y.grad == 1)
