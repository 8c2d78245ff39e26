"""The public functions of derivatives: variables, gradients, traversals, scopes, and what they refuse."""

from __future__ import annotations

import copy
import gc
import pickle
import re
import threading
from typing import Any

import numpy as np
import pytest

import drjit as dr
import drjit_core
from drjit import llvm, scalar
from drjit._promotion.promote import wrap
from drjit.llvm import ad
from drjit_core.derivatives.structure import STRUCTURE as directions
from drjit_core.ir.node import node_count
from drjit_core.ir.verify import VerificationError, verify
from drjit_core.runtime.recording import Recorded
from tests.derivatives.harness import flat
from tests.interop.harness import from_dlpack

Float, Bool = ad.Float, ad.Bool
Mode, Flag = dr.ADMode, dr.ADFlag


def variable(*values: float) -> Any:
    x = Float(*values)
    dr.enable_grad(x)
    return x


def numbers(array: Any) -> list[float]:
    return flat(array).tolist()


# --- variables -------------------------------------------------------------------------------------------------------


def test_what_tracks_derivatives() -> None:
    x = variable(1, 2)
    assert dr.grad_enabled(x) and dr.grad_enabled(x * 2) and dr.grad_enabled([0, {"a": x}])
    assert x.index_ad > 0 and Float(1).index_ad == 0
    for other in (ad.UInt32(x), x > 1, dr.floor(x), dr.detach(x), llvm.Float(x), Float(1)):
        assert not dr.grad_enabled(other)
    for ignored in (ad.UInt32(1), llvm.Float(1), 1.5, "text", None, [ad.Bool(True)]):
        dr.enable_grad(ignored)
        assert not dr.grad_enabled(ignored)
    dr.disable_grad(x)
    assert not dr.grad_enabled(x) and x.index_ad == 0 and numbers(x) == [1, 2]
    dr.set_grad_enabled(x, True)
    assert dr.grad_enabled(x)


def test_enabling_twice_changes_nothing() -> None:
    x = variable(1, 2)
    number = x.index_ad
    y = x * 2
    dr.enable_grad(x, y)
    assert x.index_ad == number
    dr.backward(y)
    assert numbers(x.grad) == [2, 2]


@pytest.mark.parametrize("make", [
    lambda: ad.Array3f(1, 2, 3), lambda: ad.Matrix2f(1, 2, 3, 4), lambda: ad.Complex2f(1, 2),
    lambda: ad.Quaternion4f(1, 2, 3, 4),
    lambda: ad.TensorXf([1, 2, 3, 4], shape=(2, 2)), lambda: ad.ArrayXf([1, 2], [3, 4]), lambda: ad.Float16(1, 2),
    lambda: ad.Float64(1, 2), lambda: ad.TensorXf(3.0),
])
def test_all_kinds_of_arrays(make: Any) -> None:
    x = make()
    dr.enable_grad(x)
    assert dr.grad_enabled(x)
    dr.backward(x * 2)
    assert type(x.grad) is type(x) and x.grad.shape == x.shape
    if not dr.is_matrix_v(x) and not dr.is_complex_v(x) and not dr.is_quaternion_v(x):
        assert set(numbers(x.grad)) == {2}
    plain = dr.detach(x, preserve_type=False)
    assert type(plain).__module__ == "drjit.llvm" and not dr.grad_enabled(plain) and type(dr.detach(x)) is type(x)
    assert type(dr.grad(x, preserve_type=False)) is type(plain)
    converted = type(plain)(x)
    assert not dr.grad_enabled(converted) and numbers(converted) == numbers(x)
    assert dr.grad_enabled(type(x)(x))


def test_components_share_the_derivatives_of_their_owners() -> None:
    v = ad.Array3f(1, 2, 3)
    x = v.x
    dr.enable_grad(v)
    assert dr.grad_enabled(x)
    v.y *= 2
    dr.backward(v.x * v.y + v.z)
    assert [numbers(g) for g in (x.grad, v.z.grad)] == [[4], [1]]
    w = ad.Array3f(1, 2, 3)
    dr.enable_grad(w.y)
    assert [dr.grad_enabled(entry) for entry in w] == [False, True, False]
    t = ad.TensorXf([1, 2])
    dr.enable_grad(t.array)
    assert dr.grad_enabled(t)


def test_empty_arrays_and_literals() -> None:
    x = Float()
    dr.enable_grad(x)
    assert dr.grad_enabled(x) and numbers(x.grad) == [] and numbers((x * x).grad) == []
    dr.backward(dr.sum(x * x))
    assert numbers(x.grad) == []
    y = dr.zeros(Float, 3)
    dr.enable_grad(y)
    assert y.state is dr.VarState.Literal
    dr.backward(y * 3)
    assert numbers(y.grad) == [3, 3, 3]


def test_copies_and_pickles() -> None:
    x = variable(1, 2)
    assert dr.grad_enabled(dr.copy(x)) and dr.grad_enabled(copy.copy(x)) and dr.grad_enabled(Float(x))
    assert not dr.grad_enabled(pickle.loads(pickle.dumps(x)))
    for exported in (x.numpy(), from_dlpack(dr.detach(x)), list(x), repr(x)):
        assert str(exported)
    dr.eval(x)
    dr.make_opaque(x)
    assert dr.grad_enabled(x) and x.state is dr.VarState.Evaluated


@pytest.mark.parametrize("convert", [
    lambda x: llvm.Float(x), lambda x: llvm.Float(x * 2) + 1, lambda x: llvm.Float64(x), lambda x: llvm.Float16(x),
    lambda x: llvm.Array3f(x, 1, x).z, lambda x: llvm.Array3f(ad.Array3f(x)).x, lambda x: llvm.Array3f(x).y,
    lambda x: llvm.Complex2f(x, x).imag, lambda x: llvm.Matrix2f(x, 1, 1, x)[1, 1], lambda x: llvm.ArrayXf([x, x])[1],
    lambda x: llvm.Quaternion4f(x, x, x, x).real, lambda x: llvm.TensorXf(x).array,
    lambda x: llvm.TensorXf(ad.TensorXf(x)).array, lambda x: dr.detach(x, preserve_type=False),
    lambda x: dr.reshape(llvm.TensorXf, x, (2, 1)).array, lambda x: dr.reinterpret_array(llvm.Float, x)])
def test_types_that_track_no_derivatives_hold_none(convert: Any) -> None:
    x = variable(1, 2)
    before = len(drjit_core.live_vertices())
    y = convert(x)
    assert type(y).__module__ == "drjit.llvm" and all(drjit_core.vertex_of(node) is None for node in y._nodes())
    assert not dr.grad_enabled(Float(y)) and "No derivative flows" in dr.explain_grad(x, y)
    assert len(drjit_core.live_vertices()) == before


def test_labels_in_diagrams_are_texts() -> None:
    x = variable(1)
    dr.set_label(x, 'a "b" <c> {d|e}\n\\')
    text = str(dr.graphviz_ad(as_string=True))
    assert r'label="{a \"b\" \<c\> \{d\|e\} \\|{Type: float32|Size: 1}|' in text
    assert '    a "b" <c> {d|e} \\\n' in str(dr.whos_ad(as_string=True))  # on one line


def test_names_of_custom_operations_are_texts() -> None:
    class Numbered(dr.CustomOp):
        def eval(self, x: Any) -> Any:
            return x * 2

        def name(self) -> Any:
            return 3

    x = variable(1)
    with pytest.raises(TypeError, match=r"drjit.custom\(\): Numbered.name\(\) must return a str \(found int\)"):
        dr.custom(Numbered, x)
    assert "Size: 1" in str(dr.graphviz_ad(as_string=True)) and numbers(dr.custom(Numbered, Float(1))) == [2]


@pytest.mark.parametrize(("name", "make"), [
    ("drjit.while_loop", lambda x: dr.while_loop((ad.UInt32(0, 0), x), lambda i, x: i < 2,
                                                 lambda i, x: (i + 1, x * x))),
    ("drjit.while_loop: squares", lambda x: dr.while_loop((ad.UInt32(0, 0), x), lambda i, x: i < 2,
                                                          lambda i, x: (i + 1, x * x), label="squares")),
    ("drjit.if_stmt", lambda x: dr.if_stmt((x,), x > 1, lambda x: x * x, lambda x: x)),
    ("drjit.switch", lambda x: dr.switch(ad.UInt32(0, 1), [lambda x: x * x, lambda x: x], x)),
])
def test_constructs_have_names_in_listings(name: str, make: Any) -> None:
    x = variable(1, 2)
    result = make(x)
    assert f"    {name}\n" in str(dr.whos_ad(as_string=True))
    assert f"{{{name}|" in str(dr.graphviz_ad(as_string=True))
    del result


def test_evaluation_keeps_derivatives_and_includes_gradients() -> None:
    x = variable(1, 2)
    y = x * x
    dr.eval(y)
    assert y.state is dr.VarState.Evaluated and dr.grad_enabled(y)
    dr.backward(y)
    assert x.grad.state is dr.VarState.Unevaluated
    dr.eval(x)
    assert x.grad.state is dr.VarState.Evaluated and numbers(x.grad) == [2, 4]


def test_element_writes_keep_the_derivatives_of_the_others() -> None:
    x = variable(1, 2, 3)
    y = x * x
    y[1] = 5
    dr.backward(y)
    assert numbers(y) == [1, 5, 9] and numbers(x.grad) == [2, 0, 6]


def test_a_write_in_place_does_not_change_derivatives_that_were_recorded() -> None:
    x = variable(1, 2, 3)
    y = x * x
    dr.eval(x)
    dr.scatter(x, Float(10), ad.UInt32(0))
    dr.backward(y)
    assert numbers(x) == [10, 2, 3]
    z = variable(1, 2, 3)
    w = Float(4, 5, 6)
    dr.eval(w)
    product = z * w
    w[0] = 100  # what the product keeps is what it was
    dr.backward(product)
    assert numbers(z.grad) == [4, 5, 6]


# --- gradients -------------------------------------------------------------------------------------------------------


def test_gradients_are_set_added_and_cleared() -> None:
    x = variable(1, 2)
    assert numbers(x.grad) == [0, 0] and numbers(dr.grad(Float(1, 2))) == [0, 0] and dr.grad(1.5) == 0
    dr.set_grad(x, 5)
    dr.accum_grad(x, Float(1, 2))
    assert numbers(x.grad) == [6, 7]
    x.grad = [1, 2]
    assert numbers(x.grad) == [1, 2]
    dr.clear_grad(x)
    assert numbers(x.grad) == [0, 0]
    dr.set_grad(Float(1), 3)  # tracks nothing: ignored
    single = variable(1)
    dr.set_grad(single, Float(1, 2, 3))
    assert numbers(single.grad) == [6]


SHARED = {
    "components": (lambda y: ad.Array3f(y, y, y), ad.Array3f(1, 2, 4), 3, 7),
    "a broadcast": (ad.Array3f, ad.Array3f(1, 2, 4), 3, 7),
    "a diagonal": (ad.Matrix2f, ad.Matrix2f(1, 2, 3, 4), 2, 5),
    "a structure": (lambda y: [y, {"y": y}], [1, {"y": 2}], 2, 3),
}


@pytest.mark.parametrize("name", SHARED)
def test_what_stands_at_several_places_has_the_gradients_of_all(name: str) -> None:
    make, gradient, ones, total = SHARED[name]
    x = variable(1, 2)
    dr.backward(make(x * 1.5))
    assert numbers(x.grad) == [1.5 * ones] * 2
    x = variable(1, 2)
    y = make(x * 1.5)
    dr.set_grad(y, 100)
    dr.set_grad(y, gradient)
    dr.backward_from(y)
    assert numbers(x.grad) == [1.5 * total] * 2
    x = variable(1, 2)
    y = make(x * 1.5)
    dr.accum_grad(y, gradient)
    dr.accum_grad(y, gradient)
    dr.backward_from(y)
    assert numbers(x.grad) == [3 * total] * 2
    x = variable(1, 2)
    z, y = x * 2, make(x)
    dr.forward(y)
    assert numbers(z.grad) == [2 * ones] * 2


def test_gradients_of_structures() -> None:
    state = {"a": variable(1, 2), "b": [variable(3), 5]}
    dr.set_grad(state, 2)
    assert numbers(state["a"].grad) == [2, 2]
    dr.set_grad(state, {"a": 1, "b": [Float(4), 0]})
    found = dr.grad(state)
    assert numbers(found["a"]) == [1, 1] and numbers(found["b"][0]) == [4] and found["b"][1] == 0
    constants = [scalar.ArrayXf(1, 2, 3), scalar.TensorXf([1, 2]), scalar.Array3f(1), scalar.Complex2f(1, 2), 3j, 2.5]
    for constant, zero in zip(constants, dr.grad(constants), strict=True):
        assert type(zero) is type(constant) and not np.any(zero) and np.shape(zero) == np.shape(constant)


@pytest.mark.parametrize(("source", "error", "message"), [
    (Float(1, 2, 3), RuntimeError, r"drjit.set_grad\(\): a gradient with 3 elements does not fit an array with 2"),
    ("text", TypeError, r"drjit.set_grad\(\): .*'str'"),
    ({"a": 1}, TypeError, r"drjit.set_grad\(\)"),
])
def test_gradients_that_do_not_fit(source: Any, error: type[Exception], message: str) -> None:
    x = variable(1, 2)
    dr.set_grad(x, 7)
    with pytest.raises(error, match=message):
        dr.set_grad(x, source)
    assert numbers(x.grad) == [7, 7]
    with pytest.raises(error, match=message):  # whether it tracks derivatives or not
        dr.set_grad(dr.detach(x), source)


def test_a_gradient_of_another_shape() -> None:
    t = ad.TensorXf([1, 2, 3, 4], shape=(2, 2))
    dr.enable_grad(t)
    with pytest.raises(RuntimeError, match=r"of the shape \(4, 1\) does not fit an array of the shape \(2, 2"):
        dr.set_grad(t, ad.TensorXf([1, 2, 3, 4], shape=(4, 1)))


def test_gradients_replaced() -> None:
    x, y = variable(4), variable(1, 2)
    dr.backward(dr.replace_grad(dr.floor(x), x * 2))
    assert numbers(x.grad) == [2]
    x = variable(4)
    z = dr.replace_grad(Float(1, 2, 3), x)  # of one element: the sum
    assert numbers(z) == [1, 2, 3]
    dr.backward(z)
    assert numbers(x.grad) == [3]
    z = dr.replace_grad(7, y)
    dr.backward(z)
    assert numbers(z) == [7, 7] and numbers(y.grad) == [1, 1]
    t = ad.TensorXf([1, 2], shape=(1, 2))
    dr.enable_grad(t)
    assert dr.replace_grad(ad.TensorXf([5, 6, 7, 8], shape=(2, 2)), t).shape == (2, 2)
    assert not dr.grad_enabled(dr.replace_grad(x, Float(2)))


# --- traversals ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("value", "source", "given", "expected", "gradient"), [
    (ad.Complex2f(3, 4), ad.Complex2f(1, 2), ad.Complex2f(1, 2), [3, 4], [2, 4]),
    (5, ad.Complex2f(1, 2), ad.Complex2f(1, 2), [5, 0], [2, 4]),
    (ad.Complex2f(3, 4), Float(1), ad.Complex2f(1, 2), [3, 4], [2]),
    (ad.Quaternion4f(1, 2, 3, 4), ad.Quaternion4f(0), ad.Quaternion4f(1, 2, 3, 4), [1, 2, 3, 4], [2, 4, 6, 8]),
    (ad.Matrix2f(1, 2, 3, 4), ad.Matrix2f(0), ad.Matrix2f(1, 2, 3, 4), [1, 2, 3, 4], [2, 4, 6, 8]),
    (ad.Matrix2f(1, 2, 3, 4), Float(1), ad.Matrix2f(1, 2, 3, 4), [1, 2, 3, 4], [10]),
    (Float(7), ad.Matrix2f(0), ad.Matrix2f(1, 2, 3, 4), [7, 0, 0, 7], [2, 4, 6, 8]),
])
def test_gradients_of_special_types_replaced(value: Any, source: Any, given: Any, expected: list[float],
                                             gradient: list[float]) -> None:
    x = type(source)(source)
    dr.enable_grad(x)
    y = dr.replace_grad(value, x * 2)
    assert type(y) is type(given) and numbers(y) == expected
    dr.set_grad(y, given)
    dr.backward_from(y)
    assert numbers(x.grad) == gradient


def test_gradients_add_up_over_traversals() -> None:
    x = variable(3)
    for _ in range(2):
        dr.backward(x * x)
    assert numbers(x.grad) == [12]


def test_forward_and_backward_to() -> None:
    x = variable(3)
    y, z = x * x, x * 5
    dr.set_grad(x, 1)
    assert numbers(dr.forward_to(y)) == [6] and numbers(z.grad) == [0]
    x = variable(3)
    y, z = x * x, x * 5
    dr.set_grad(x, 1)
    assert [numbers(g) for g in dr.forward_to(y, z)] == [[6], [5]]
    a, b = variable(2), variable(3)
    c = a * b
    dr.set_grad(c, 1)
    assert numbers(dr.backward_to(a)) == [3] and numbers(b.grad) == [0]


def test_the_gradient_that_was_set_is_where_it_begins() -> None:
    x = variable(1, 2)
    y = x * x
    dr.set_grad(y, Float(1, 10))
    dr.backward_from(y)
    assert numbers(x.grad) == [2, 40]
    x = variable(1, 2)
    y = x * x
    dr.set_grad(y, Float(1, 10))
    dr.backward(y)  # sets it to one
    assert numbers(x.grad) == [2, 4]
    x = variable(1, 2)
    y = x * x
    dr.set_grad(x, 3)
    dr.forward_from(x)
    assert numbers(y.grad) == [6, 12] and numbers(x.grad) == [0, 0]


def test_what_traversals_clear() -> None:
    def graph() -> tuple[Any, Any, Any]:
        x = variable(3)
        y = x * x
        return x, y, y * 2

    x, y, z = graph()
    dr.backward(z, flags=Flag.ClearNone)
    assert [numbers(a.grad) for a in (x, y, z)] == [[12], [2], [1]]
    dr.backward(z, flags=Flag.ClearVertices)  # the gradient of y is still there
    assert numbers(x.grad) == [12 + 24] and numbers(y.grad) == [0]
    dr.backward(z)
    assert numbers(x.grad) == [48]
    x, y, z = graph()
    dr.backward(z, flags=Flag.ClearEdges | Flag.ClearInterior)
    assert [numbers(a.grad) for a in (x, y, z)] == [[12], [0], [1]]
    x, y, z = graph()
    dr.forward(x, flags=Flag.ClearNone)
    assert [numbers(a.grad) for a in (x, y, z)] == [[1], [6], [12]]
    x, y, z = graph()
    dr.forward(x, flags=Flag.ClearEdges | Flag.ClearInput)
    assert [numbers(a.grad) for a in (x, y, z)] == [[0], [6], [12]]
    x, y, z = graph()
    dr.forward(x)
    assert [numbers(a.grad) for a in (x, y, z)] == [[0], [0], [12]]


def test_a_graph_that_was_taken_apart_is_not_silently_constant() -> None:
    x = variable(3)
    y = x * x
    dr.backward(y)
    for attempt in (lambda: dr.backward(y), lambda: dr.backward(y * 2), lambda: dr.forward_to(y)):
        with pytest.raises(RuntimeError, match=r"an earlier traversal has taken apart.*drjit.ADFlag.ClearVertices"):
            attempt()
    assert numbers(x.grad) == [6]
    dr.backward(dr.detach(y) * x)
    assert numbers(x.grad) == [15]
    y = x * x
    dr.backward(y, flags=Flag.ClearVertices)
    dr.backward(y)
    assert numbers(x.grad) == [27]


def test_only_what_is_enqueued_is_visited() -> None:
    x, unrelated = variable(3), variable(5)
    y, z = x * 2, x * 5
    dr.set_grad(x, 1)
    dr.enqueue(Mode.Backward, y)
    dr.traverse(Mode.Forward)
    assert numbers(y.grad) == [2] and numbers(z.grad) == [0]
    dr.traverse(Mode.Forward)  # nothing waits
    dr.backward(unrelated * 2)
    assert numbers(unrelated.grad) == [2]


def test_wide_and_single_values_meet() -> None:
    a, x = variable(2), variable(1, 2, 3)
    y = a * x + a
    dr.backward(y)
    assert numbers(a.grad) == [9] and numbers(x.grad) == [2, 2, 2]
    a, x = variable(2), variable(1, 2, 3)
    dr.backward(dr.sum(x * a) * a)
    assert numbers(a.grad) == [24] and numbers(x.grad) == [4, 4, 4]
    a = variable(2)
    wide = a + dr.zeros(Float, 5)  # each of five elements
    dr.backward(wide)
    assert numbers(a.grad) == [5]
    a = variable(2)
    dr.forward(a)
    b = variable(2)
    y = dr.sum(b * dr.ones(Float, 4))
    dr.forward(b)
    assert numbers(y.grad) == [4]


@pytest.mark.parametrize("function", [dr.backward, dr.backward_from, dr.forward, dr.forward_from, dr.backward_to,
                                      dr.forward_to])
def test_arguments_without_derivatives(function: Any) -> None:
    name = f"drjit.{function.__name__}"
    for value in (Float(1), ad.UInt32(1), llvm.Float(1)):
        with pytest.raises(RuntimeError, match=rf"{name}\(\): the argument does not depend on any .*AllowNoGrad"):
            function(value)
        function(value, flags=Flag.Default | Flag.AllowNoGrad)
    if not function.__name__.endswith("_to"):
        with pytest.raises(TypeError, match=rf"{name}\(\): expected an array or a PyTree with arrays \(found float\)"):
            function(1.5)
    with pytest.raises(TypeError, match=rf"{name}\(\): the argument 'flags' must be a combination of drjit.ADFlag"):
        function(variable(1), flags="all")


@pytest.mark.parametrize("flags", [16, 999, -1, True, None, "all"])
def test_flags_that_are_none(flags: Any) -> None:
    x = variable(1)
    with pytest.raises(TypeError, match=r"drjit.backward\(\): the argument 'flags' must be a combination of "
                                        r"drjit.ADFlag values \(found "):
        dr.backward(x * x, flags=flags)
    assert numbers(x.grad) == [0]


def test_modes_that_are_none() -> None:
    for mode in (Mode.Primal, 1, "forward"):
        with pytest.raises(TypeError, match=r"drjit.enqueue\(\): the argument 'mode' must be drjit.ADMode.Forward or"):
            dr.enqueue(mode, variable(1))
        with pytest.raises(TypeError, match=r"drjit.traverse\(\): the argument 'mode' must be"):
            dr.traverse(mode)
    with pytest.raises(TypeError, match=r"drjit.set_grad_enabled\(\): the second argument must be a bool"):
        dr.set_grad_enabled(variable(1), 1)


def test_a_traversal_that_raises_leaves_gradients_as_they_were() -> None:
    class Failing(dr.CustomOp):
        def eval(self, x: Any) -> Any:
            return x * 2

        def backward(self) -> None:
            raise ZeroDivisionError("in a callback")

    x = variable(1, 2)
    dr.set_grad(x, 7)
    y = dr.custom(Failing, x * 3) + x
    with pytest.raises(ZeroDivisionError, match="in a callback"):
        dr.backward(y)
    assert numbers(x.grad) == [7, 7]
    z = x * 5
    dr.backward(z)
    assert numbers(x.grad) == [12, 12]


@pytest.mark.parametrize("function", [dr.backward, dr.backward_from])
@pytest.mark.parametrize("made", [lambda y: y, lambda y: (y, y * 2), lambda y: ad.Complex2f(y, 0)],
                         ids=["array", "structure", "complex"])
def test_a_traversal_that_raises_leaves_no_gradient_where_it_began(function: Any, made: Any) -> None:
    x = variable(3)
    y = x * x
    dr.backward(y)
    z = y * 2
    root = made(z)
    with pytest.raises(RuntimeError, match="an earlier traversal has taken apart"):
        function(root)
    assert numbers(z.grad) == [0] and all(not any(numbers(g)) for g in (
        dr.grad(root) if isinstance(root, tuple) else (dr.grad(root),)))


def test_derivatives_may_begin_and_end_at_what_was_taken_apart() -> None:
    """Only what lies behind is gone."""
    def made() -> tuple[Any, Any, Any]:
        x = variable(3)
        y = x * x
        dr.backward(y * 3)
        return x, y, y * 2

    x, y, z = made()
    dr.forward(y)
    assert numbers(z.grad) == [2]
    x, y, z = made()
    dr.set_grad(y, 5)
    assert numbers(dr.forward_to(z)) == [10]
    x, y, z = made()
    dr.set_grad(z, 7)
    assert numbers(dr.backward_to(y)) == [14] and numbers(x.grad) == [18]
    x, y, z = made()
    dr.set_grad(x, 1)
    for attempt in (lambda: dr.forward_to(z), lambda: dr.backward(z)):
        with pytest.raises(RuntimeError, match="an earlier traversal has taken apart"):
            attempt()


@pytest.mark.parametrize("function", [dr.forward, dr.forward_from, dr.backward, dr.backward_from])
@pytest.mark.parametrize("special", [False, True])
@pytest.mark.parametrize("set_", [False, True])
def test_a_traversal_that_raises_leaves_the_gradient_of_its_argument_as_it_was(function: Any, special: bool,
                                                                               set_: bool) -> None:
    class Failing(dr.CustomOp):
        def eval(self, x: Any) -> Any:
            return x * 2

    x = ad.Matrix2f(1, 2, 3, 4) if special else Float(1, 2)
    dr.enable_grad(x)
    y = dr.custom(Failing, x)
    argument = x if function in (dr.forward, dr.forward_from) else y
    if set_:
        dr.set_grad(argument, 7)
    before = numbers(argument.grad)
    with pytest.raises(NotImplementedError, match="Failing"):
        function(argument)
    assert numbers(argument.grad) == before
    dr.clear_grad(argument)
    dr.backward(x * 3)
    assert set(numbers(x.grad)) <= {0, 3}
    with pytest.raises(RuntimeError, match="an earlier traversal has taken apart"):
        z = x * 2
        dr.backward(w := z * 2)
        function(w if function in (dr.backward, dr.backward_from) else z)
    assert set(numbers(w.grad)) == {0}


@pytest.mark.parametrize("size", [1, 2])
def test_components_that_are_the_same_variable_get_the_sum_of_gradients(size: int) -> None:
    x = variable(*range(5, 5 + size))
    for make, seed, wanted in ((lambda: ad.Array3f(x, x, x), 1, 3), (lambda: ad.Array3f(x * 2), 1, 6),
                               (lambda: ad.Array3f(x), ad.Array3f(1, 2, 3), 6), (lambda: [x, {"a": x}], 1, 2),
                               (lambda: [x, x], [Float(1), 2], 3), (lambda: [x * 1] * 2, [Float(1), 2], 3),
                               (lambda: dr.replace_grad(ad.Array3f(1, 2, 3), x), 1, 3),
                               (lambda: ad.Matrix2f(x, x, x, x), ad.Matrix2f(1, 2, 3, 4), 10)):
        y: Any = make()
        dr.set_grad(y, 9)
        dr.set_grad(y, seed)
        dr.backward_from(y)
        assert numbers(x.grad) == [wanted] * size
        dr.clear_grad(x)
        if seed.__class__ is int:
            dr.backward(make())
            assert numbers(x.grad) == [wanted] * size
            dr.clear_grad(x)
    y = ad.Array2f(x, x)
    dr.forward(y)
    assert numbers(y.grad) == [2] * 2 * size
    dr.accum_grad(y, 1)
    assert numbers(x.grad) == [4] * size


@pytest.mark.parametrize("change", [dr.set_grad, dr.accum_grad])
def test_symbolic_loops_leave_gradients_of_arrays_from_outside_alone(change: Any) -> None:
    x = variable(1, 2, 3)
    dr.set_grad(x, 4)

    def body(i: Any) -> Any:
        change(x, Float(i))
        return (i + 1,)

    with pytest.raises(RuntimeError, match=rf"drjit.{change.__name__}.*array that was made outside.*symbolic"):
        dr.while_loop((ad.UInt32(0, 0, 0),), lambda i: i < 3, body, mode="symbolic")
    assert numbers(x.grad) == [4, 4, 4]


# --- scopes ----------------------------------------------------------------------------------------------------------


def test_suspended_and_resumed_scopes() -> None:
    x, y = variable(2), variable(3)
    with dr.suspend_grad():
        assert not dr.grad_enabled(x) and not dr.grad_enabled(x * y)
        z = Float(1)
        dr.enable_grad(z)
        assert not dr.grad_enabled(z)
        with dr.resume_grad():
            assert dr.grad_enabled(x * y)
        with dr.resume_grad(x):
            w = x * y
            assert dr.grad_enabled(x, w) and not dr.grad_enabled(y)
            v = w * 2
        assert not dr.grad_enabled(w)
    assert dr.grad_enabled(x) and dr.grad_enabled(w)
    dr.backward(v)
    assert numbers(x.grad) == [6] and numbers(y.grad) == [0]


def test_scopes_for_some_variables() -> None:
    x, y = variable(2), variable(3)
    with dr.suspend_grad(x):
        z = x * y
        assert not dr.grad_enabled(x) and dr.grad_enabled(y) and dr.grad_enabled(z)
        new = variable(5)
        assert dr.grad_enabled(new)
        with dr.suspend_grad(new):
            assert not dr.grad_enabled(new) and not dr.grad_enabled(x) and dr.grad_enabled(y)
        with dr.resume_grad(x):
            assert dr.grad_enabled(x)
    dr.backward(z)
    assert numbers(x.grad) == [0] and numbers(y.grad) == [2]
    z = x * 5
    with dr.suspend_grad(x):
        dr.enable_grad(x)  # it is the same variable still
        assert not dr.grad_enabled(x)
    dr.backward(z * x)
    assert numbers(x.grad) == [20]
    with dr.suspend_grad(when=False), dr.resume_grad(when=False), dr.isolate_grad(when=False):
        assert dr.grad_enabled(x)
    with pytest.raises(ZeroDivisionError), dr.suspend_grad():
        raise ZeroDivisionError
    assert dr.grad_enabled(x)


@pytest.mark.parametrize("scope", [dr.suspend_grad, dr.resume_grad, dr.isolate_grad])
def test_scopes_that_are_given_an_array_for_when(scope: Any) -> None:
    with pytest.raises(TypeError, match=rf"drjit.{scope.__name__}\(\): the argument 'when' must be a bool \(found "
                                        r"drjit.llvm.ad.Float\)"):
        scope(when=variable(1, 2))
    with scope(when=np.bool_(False)):
        assert dr.grad_enabled(variable(1))


def test_scopes_end_in_any_order() -> None:
    x = variable(1)

    def rows(scope: Any) -> Any:
        with scope:
            while True:
                yield dr.grad_enabled(x)

    first, second = rows(dr.suspend_grad()), rows(dr.resume_grad())
    assert [next(first), next(second)] == [False, True]
    first.close()
    assert dr.grad_enabled(x)
    second.close()
    assert dr.grad_enabled(x)
    first, second = rows(dr.isolate_grad()), rows(dr.suspend_grad())
    assert [next(first), next(second)] == [True, False]
    first.close()
    assert not dr.grad_enabled(x)
    second.close()
    y = x * x
    dr.backward(y)
    assert numbers(x.grad) == [2]


def test_scopes_may_be_entered_again_and_decorate_functions() -> None:
    x, scope = variable(1), dr.suspend_grad()
    for _ in range(2):
        with scope, scope:
            assert not dr.grad_enabled(x)
        assert dr.grad_enabled(x)

    @dr.suspend_grad(x)
    def depth(n: int) -> tuple[int, bool]:
        return (n, dr.grad_enabled(x)) if n == 3 else depth(n + 1)

    assert depth(0) == (3, False) and dr.grad_enabled(x)


def test_isolated_scopes_track_what_the_scope_around_them_tracks() -> None:
    x, y = variable(2), variable(3)
    with dr.suspend_grad(), dr.resume_grad(x):
        before = x * y
        with dr.isolate_grad():
            after = before * 2
            assert dr.grad_enabled(before, after) and not dr.grad_enabled(y)
    dr.backward(after)
    assert numbers(x.grad) == [6] and numbers(y.grad) == [0]


def test_every_rule_with_structure_has_both_directions() -> None:
    assert set(directions) == set(drjit_core.STRUCTURE)


def test_what_an_isolated_scope_postponed_is_dropped_if_it_fails() -> None:
    x = variable(3)
    y = x * x
    with pytest.raises(ZeroDivisionError), dr.isolate_grad():
        dr.backward(y * 2 + x * 5)
        raise ZeroDivisionError
    assert numbers(y.grad) == [0] and numbers(x.grad) == [5]
    dr.backward(y * 10)  # which is not added to what was left
    assert numbers(x.grad) == [65]
    y = x * x
    with pytest.raises(ZeroDivisionError), dr.isolate_grad():
        with dr.isolate_grad():
            dr.backward(y * 2)
        raise ZeroDivisionError
    assert numbers(y.grad) == [0] and numbers(x.grad) == [65]


def test_isolated_scopes_postpone() -> None:
    x = variable(3)
    y = x * x
    with dr.isolate_grad():
        z = y * 2
        dr.backward(z)
        assert numbers(x.grad) == [0] and numbers(y.grad) == [2]
    assert numbers(x.grad) == [12]
    x = variable(3)
    y = x * x
    with dr.isolate_grad():
        for factor in (1, 2):
            dr.backward(y * factor)
    assert numbers(x.grad) == [18]


# --- custom operations -----------------------------------------------------------------------------------------------


class Product(dr.CustomOp):
    def eval(self, x: Any, y: Any) -> Any:
        assert not dr.grad_enabled(x, y)
        self.x, self.y = x, y
        return x * y

    def forward(self) -> None:
        self.set_grad_out(self.y * self.grad_in("x") + self.x * self.grad_in("y"))

    def backward(self) -> None:
        self.set_grad_in("x", self.y * self.grad_out())
        self.set_grad_in("y", self.x * self.grad_out())

    def name(self) -> str:
        return "the product"


def test_custom_operations_in_both_modes() -> None:
    x, y = variable(1, 2), variable(3)
    z = dr.custom(Product, x, y=y) * 2
    assert "the product" in str(dr.whos_ad(as_string=True)) and "the product" in dr.graphviz_ad(as_string=True)
    dr.backward(z)
    assert numbers(x.grad) == [6, 6] and numbers(y.grad) == [6]
    x, y = variable(1, 2), variable(3)
    z = dr.custom(Product, x, y) * 2
    dr.forward(y)
    assert numbers(z.grad) == [2, 4]
    assert not dr.grad_enabled(dr.custom(Product, Float(1), Float(2)))


def test_custom_operations_on_structures() -> None:
    class Both(dr.CustomOp):
        def eval(self, values: Any, *rest: Any, scale: float = 1.0) -> Any:
            self.scale = scale
            return {"sum": values[0] + values[1], "rest": [r * scale for r in rest], "count": 3}

        def backward(self) -> None:
            g = self.grad_out()
            assert g["count"] == 0
            self.set_grad_in("values", [g["sum"], g["sum"] * 10])
            for k, part in enumerate(g["rest"]):
                self.set_grad_in(k, part * self.scale)

        def forward(self) -> None:
            a, b = self.grad_in("values")
            self.set_grad_out({"sum": a + b, "rest": [self.grad_in(0) * self.scale], "count": 0})

    a, b, c = variable(1), variable(2), variable(3, 4)
    found = dr.custom(Both, [a, b], c, scale=5.0)
    assert found["count"] == 3 and dr.grad_enabled(found)
    dr.backward(found)
    assert [numbers(g) for g in (a.grad, b.grad, c.grad)] == [[1], [10], [5, 5]]
    a, b, c = variable(1), variable(2), variable(3, 4)
    found = dr.custom(Both, [a, b], c, scale=5.0)
    dr.set_grad([a, b, c], 1)
    dr.enqueue(Mode.Forward, a, b, c)
    dr.traverse(Mode.Forward)
    assert numbers(found["sum"].grad) == [2] and numbers(found["rest"][0].grad) == [5, 5]


def test_implicit_inputs_and_outputs() -> None:
    weight, memory = variable(3), dr.zeros(Float, 2)

    class Hidden(dr.CustomOp):
        def eval(self, x: Any) -> Any:
            self.add_input(weight)
            self.x, self.weight = x, dr.detach(weight)
            memory[:] = x * 5
            self.add_output(memory)
            return x * self.weight

        def backward(self) -> None:
            g = self.grad_out()
            dr.accum_grad(weight, dr.sum(self.x * g))
            self.set_grad_in("x", self.weight * g + 5 * dr.grad(memory))

        def forward(self) -> None:
            self.set_grad_out(self.weight * self.grad_in("x") + self.x * dr.grad(weight))
            dr.accum_grad(memory, 5 * self.grad_in("x"))

    x = variable(1, 2)
    y = dr.custom(Hidden, x)
    assert dr.grad_enabled(memory)
    dr.backward(y + memory)
    assert numbers(x.grad) == [8, 8] and numbers(weight.grad) == [3]
    weight, memory, x = variable(3), dr.zeros(Float, 2), variable(1, 2)
    y = dr.custom(Hidden, x)
    z = memory * 2
    dr.forward(x)
    assert numbers(y.grad) == [3, 3] and numbers(z.grad) == [10, 10]


@pytest.mark.parametrize("write", [
    lambda x: dr.scatter(x, Float(100), ad.UInt32(0)), lambda x: x.__imul__(3), lambda x: x.__setitem__(0, 7.0),
])
def test_writes_to_the_arguments_of_custom_operations_do_not_matter(write: Any) -> None:
    for mode in (Mode.Forward, Mode.Backward):
        x, y = variable(1, 2), Float(3)
        argument, second = Float(x), Float(y)
        z = dr.custom(Product, argument, second)
        write(argument)
        write(second)
        dr.forward(x) if mode is Mode.Forward else dr.backward(z)
        assert numbers(z.grad if mode is Mode.Forward else x.grad) == [3, 3]
    v = ad.Array3f(1, 2, 3)
    dr.enable_grad(v)
    z = dr.custom(Product, v, ad.Array3f(2))
    w = v.y
    v.y *= 5
    dr.backward(z)
    assert [numbers(g) for g in (v.x.grad, w.grad, v.z.grad)] == [[2], [0], [2]]


def test_custom_operations_do_not_wait_for_the_garbage_collector() -> None:
    gc.collect()
    before = len(drjit_core.live_vertices())
    gc.disable()
    try:
        for flow in (dr.backward, lambda y: None):
            x, y = variable(1, 2), variable(3)
            flow(dr.custom(Product, x, y))
            del x, y
            assert len(drjit_core.live_vertices()) == before
    finally:
        gc.enable()


def test_an_implicit_output_that_is_written_to_later() -> None:
    memory = dr.zeros(Float, 2)

    class Writes(dr.CustomOp):
        def eval(self, x: Any) -> Any:
            memory[:] = x * 5
            self.add_output(memory)
            return x + 0

        def backward(self) -> None:
            self.set_grad_in("x", self.grad_out() + 5 * dr.grad(memory))

        def forward(self) -> None:
            dr.accum_grad(memory, 5 * self.grad_in("x"))
            self.set_grad_out(self.grad_in("x"))

    for backward in (True, False):
        x = variable(1, 2)
        y = dr.custom(Writes, x)
        z = memory * 3
        memory[0] = 100
        if backward:
            dr.backward(y + z)
            assert numbers(x.grad) == [16, 16]
        else:
            dr.forward(x)
            assert numbers(z.grad) == [15, 15]
        assert numbers(memory) == [100, 10]
        memory = dr.zeros(Float, 2)


@pytest.mark.parametrize(("act", "error", "message"), [
    (lambda op: op.set_grad_in("z", 1), TypeError,
     r"Product.set_grad_in\(\): there is no argument 'z'; there are: 'x', 'y'"),
    (lambda op: op.set_grad_in([0], 1), TypeError, r"Product.set_grad_in\(\): there is no argument \[0\]; there are"),
    (lambda op: op.set_grad_in(True, 1), TypeError, r"Product.set_grad_in\(\): there is no argument True; there are"),
    (lambda op: op.set_grad_in("x", Float(1, 2, 3)), RuntimeError,
     r"Product.set_grad_in\(\): a gradient with 3 elements"),
    (lambda op: op.grad_in("x"), RuntimeError, r"grad_in\(\): this is of use in forward\(\) only"),
])
def test_mistakes_in_callbacks(act: Any, error: type[Exception], message: str) -> None:
    class Wrong(Product):
        def backward(self) -> None:
            self.set_grad_in("x", 100)
            act(self)

    Wrong.__name__ = "Product"
    x, y = variable(1, 2), variable(3, 4)
    z = dr.custom(Wrong, x, y)
    with pytest.raises(error, match=message):
        dr.backward(z)
    assert numbers(x.grad) == [0, 0] and numbers(y.grad) == [0, 0]


def test_mistakes_in_calls() -> None:
    for wrong in (Product(), int, 3):
        with pytest.raises(TypeError, match=r"drjit.custom\(\): the first argument must be a class derived from"):
            dr.custom(wrong, 1, 2)
    with pytest.raises(TypeError, match=r"drjit.custom\(\): the arguments do not fit Product.eval\(\): missing a"):
        dr.custom(Product, variable(1))
    with pytest.raises(NotImplementedError, match=r"CustomOp.eval\(\) is not implemented"):
        dr.custom(dr.CustomOp)

    class OneWay(dr.CustomOp):
        def eval(self, x: Any) -> Any:
            return x * 2

    x = variable(1)
    with pytest.raises(NotImplementedError, match=r"OneWay.backward\(\) is not implemented: the operation has no"):
        dr.backward(dr.custom(OneWay, x))


def test_callbacks_may_traverse() -> None:
    """A custom operation that computes its part again, and differentiates that, as checkpointing does."""
    weight = variable(3)

    class Again(dr.CustomOp):
        def eval(self, x: Any) -> Any:
            self.add_input(weight)
            self.x = x
            return dr.detach(dr.sin(x * weight))

        def backward(self) -> None:
            x = dr.detach(self.x)
            dr.enable_grad(x)
            y = dr.sin(x * weight)
            dr.set_grad(y, self.grad_out())
            dr.enqueue(Mode.Backward, y)
            dr.traverse(Mode.Backward)
            self.set_grad_in("x", x.grad)

    def gradients(inner: Any) -> list[list[float]]:
        x = variable(0.5, 1.5)
        dr.clear_grad(weight)
        y = weight * 2 + inner(x * weight) * weight
        dr.backward(y * weight)
        return [numbers(x.grad), numbers(weight.grad)]

    expected = gradients(lambda x: dr.sin(x * weight))
    found = gradients(lambda x: dr.custom(Again, x))
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-5)
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-5)


def test_threads_share_variables() -> None:
    x = variable(1, 2)
    failures: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(50):
                dr.backward(dr.sum(dr.sin(x) * x))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    base = variable(1, 2)
    dr.backward(dr.sum(dr.sin(base) * base))
    np.testing.assert_allclose(x.grad.numpy(), 200 * base.grad.numpy(), rtol=1e-4)


# --- functions of functions ------------------------------------------------------------------------------------------


def test_gradients_of_functions() -> None:
    gc.collect()
    before = len(drjit_core.live_vertices())
    x = Float(1, 2)
    function = dr.value_and_grad(lambda a, b: dr.sum(a * a * b["c"]), argnums=(0, 1))
    value, gradient = function(x, {"c": Float(3), "d": 1})
    assert numbers(value) == [15] and numbers(gradient[0]) == [6, 12] and numbers(gradient[1]["c"]) == [5]
    assert not dr.grad_enabled(x) and not dr.grad_enabled(value) and not dr.grad_enabled(gradient)
    gc.collect()
    assert len(drjit_core.live_vertices()) == before
    with pytest.raises(TypeError, match=r"drjit.value_and_grad\(\): there is no array of a type that tracks"):
        dr.value_and_grad(lambda a: a)(3)
    with pytest.raises(TypeError, match=r"use the type of the same name in drjit"):
        dr.value_and_grad(lambda a: a)(llvm.Float(3))
    with pytest.raises(TypeError, match=r"'argnums' names the argument 2, but there are 1"):
        dr.value_and_grad(lambda a: a, 2)(x)
    with pytest.raises(TypeError, match=r"'argnums' names an argument twice \(found \(0, -1\), of 1\)"):
        dr.value_and_grad(lambda a: a, (0, -1))(x)
    for positions in (x, (), "ab", 0.5, None):  # the first of these is what a function of both would get
        with pytest.raises(TypeError, match=r"drjit.value_and_grad\(\): 'argnums' must be the position"):
            dr.value_and_grad(lambda a: a, positions)  # type: ignore[arg-type]


@pytest.mark.parametrize("function", ["value_and_grad", "hvp", "jacobian", "gradcheck"])
def test_values_are_no_functions(function: str) -> None:
    x = Float(1, 2)
    with pytest.raises(TypeError, match=rf"drjit.{function}\(\): 'function' must be a function \(found drjit.llvm"):
        getattr(dr, function)(*(x * x, x, x)[:1 if function == "value_and_grad" else 3 if function == "hvp" else 2])


@pytest.mark.parametrize("result", [None, Bool(True), ad.Int(1), 2.0, llvm.Float(1), []])
def test_functions_that_return_nothing_to_differentiate(result: Any) -> None:
    for function in (dr.value_and_grad(lambda x: result), lambda x: dr.hvp(lambda x: result, x, x),
                     lambda x: dr.gradcheck(lambda x: result, x)):
        with pytest.raises(TypeError, match=r"there is no array of floats of a type that tracks derivatives in what "
                                            r"the function returned \(found "):
            function(Float(1, 2))


def test_derivatives_of_derivatives() -> None:
    def f(x: Any) -> Any:
        return dr.sum(dr.exp(dr.gather(ad.Float64, x, ad.UInt32(0, 0, 2))) * dr.sum(x) / x + dr.sort(x) * dr.cumsum(x))

    x = ad.Float64(1, 3, 2)
    hessian = dr.jacobian(lambda y: dr.value_and_grad(f)(y)[1], x).numpy()
    np.testing.assert_allclose(hessian, hessian.T, rtol=1e-12)
    assert dr.gradcheck(lambda y: dr.value_and_grad(f)(y)[1], x)
    gradient, product = dr.hvp(f, x, ad.Float64(1, 10, 100))
    np.testing.assert_allclose(product.numpy(), hessian @ [1, 10, 100], rtol=1e-12)
    np.testing.assert_allclose(gradient.numpy(), dr.value_and_grad(f)(x)[1].numpy(), rtol=1e-12)
    dr.enable_grad(x)
    dr.backward(dr.value_and_grad(f)(x)[1])
    np.testing.assert_allclose(x.grad.numpy(), hessian.sum(0), rtol=1e-12)
    def inner(y: Any) -> Any:
        return dr.jacobian(lambda z: dr.value_and_grad(lambda w: dr.sum(w ** 4))(z)[1], y)

    third = dr.jacobian(inner, ad.Float64(2, 3))
    assert third.shape == (2, 2, 2) and third.numpy()[0, 0, 0] == 48 and third.numpy()[0, 1, 1] == 0


def test_jacobians_in_both_modes() -> None:
    def f(x: Any) -> Any:
        return dr.sin(x) * dr.sum(x)

    x = ad.Float64(1, 2, 3)
    forward, reverse = (dr.jacobian(f, x, mode=mode).numpy() for mode in ("forward", "reverse"))
    np.testing.assert_allclose(forward, reverse, rtol=1e-12)
    t = ad.TensorXf64([[1, 2], [3, 4]])
    assert dr.jacobian(lambda a: a @ a, t).shape == (2, 2, 2, 2)
    assert dr.jacobian(lambda a: dr.sum(a), t).shape == (2, 2)
    assert dr.jacobian(lambda a: ad.Float64(1, 2), x).numpy().tolist() == [[0] * 3] * 2
    with pytest.raises(TypeError, match=r"drjit.jacobian\(\): 'mode' must be"):
        dr.jacobian(f, x, mode="both")
    with pytest.raises(TypeError, match=r"drjit.jacobian\(\): 'x' must be a flat array or a tensor of floats"):
        dr.jacobian(f, [x])


def test_checks_in_single_and_half_precision() -> None:
    for function in (dr.sin, dr.exp, dr.rcp, lambda x: x * x * x, lambda x: dr.prod(x) * x):
        assert dr.gradcheck(function, Float(0.5, 1, 2), directions=5)
    with pytest.raises(AssertionError, match="finite differences"):
        dr.gradcheck(lambda x: dr.replace_grad(x * x, x * 1.5), Float(0.5, 1, 2))
    with pytest.raises(TypeError, match=r"gradcheck\(\): differences of half precision tell little"):
        dr.gradcheck(dr.sin, ad.Float16(1, 2))
    assert dr.gradcheck(dr.sin, ad.Float16(1, 2), eps=0.1, atol=0.1, rtol=0.1)


@pytest.mark.parametrize(("options", "error", "words"), [
    ({"eps": 0}, ValueError, "'eps' must be finite and > 0, found 0"),
    ({"eps": -1e-3}, ValueError, "'eps' must be finite and > 0, found -0.001"),
    ({"eps": dr.nan}, ValueError, "'eps' must be finite and > 0, found nan"),
    ({"eps": "a"}, TypeError, r"'eps' must be a number, found str"),
    ({"atol": -1}, ValueError, "'atol' must be finite and >= 0, found -1"),
    ({"rtol": dr.inf}, ValueError, "'rtol' must be finite and >= 0, found inf"),
    ({"rtol": Float(1)}, TypeError, "'rtol' must be a number, found drjit.llvm.ad.Float"),
    ({"directions": 0}, ValueError, "'directions' must be an int >= 1, found 0"),
    ({"directions": "a"}, TypeError, "'directions' must be an int, found str"),
])
def test_checks_that_would_check_nothing_are_refused(options: dict[str, Any], error: type[Exception],
                                                     words: str) -> None:
    with pytest.raises(error, match=rf"drjit.gradcheck\(\): {words}"):
        dr.gradcheck(lambda x: dr.detach(x * x), ad.Float64(1, 2), **options)
    assert dr.gradcheck(lambda x: x + x, ad.Float64(0), eps=0.5, atol=0, rtol=0, directions=1)


def test_checks_find_wrong_derivatives() -> None:
    class Wrong(Product):
        def backward(self) -> None:
            self.set_grad_in("x", self.y * self.grad_out() * 1.01)
            self.set_grad_in("y", self.x * self.grad_out())

    x = ad.Float64(1, 2)
    assert dr.gradcheck(lambda a: dr.custom(Product, a, a * a), x)
    with pytest.raises(AssertionError, match=r"in reverse mode, the derivative .* finite differences say"):
        dr.gradcheck(lambda a: dr.custom(Wrong, a, a * a), x)
    with pytest.raises(RuntimeError, match="there is no derivative of a derivative that a custom operation computes"):
        dr.hvp(lambda a: dr.custom(Product, a, a), x, x)


def test_the_verifier_finds_duals_behind_tracing() -> None:
    x = variable(1, 2)
    with pytest.raises(VerificationError, match="is a value with a derivative"):
        verify([x._n])


@pytest.mark.parametrize(("function", "words"), [
    (lambda x: x * 2 + dr.sin(x), r"^Derivatives flow from x to y.$"),
    (lambda x: dr.floor(x) + x, r"^Derivatives flow from x to y. Some paths are cut:\n  by floor$"),
    (lambda x: Float(ad.Int(x)) * 2, r"is cut:\n  by a conversion to int32$"),
    (lambda x: dr.select(x > 1, Float(1), Float(2)), r"is cut:\n  by gt$"),
    (lambda x: dr.gather(Float, Float(1, 2, 3), ad.UInt32(x)), r"is cut:\n  by a conversion to uint32$"),
    (lambda x: dr.detach(x * 2) + 1, r"is cut:\n  by detach\(\), suspend_grad\(\), or a type that tracks no"),
    (lambda x: Float(dr.reinterpret_array(ad.UInt32, x)), r"is cut:\n  by a reinterpretation of bits$"),
    (lambda x: Float(dr.argmin(x)), r"is cut:\n  by extremum$"),
    (lambda x: Float(1), r"as far as is known, y is not computed from x"),
    (lambda x: x[0] * Float(1, 2), r"an element that was read \(as in x\[0\]\) is a number"),
    (lambda x: evaluated(dr.floor(x) * 2), r"as far as is known, y is not computed from x"),
])
def test_explanations_of_what_cuts_derivatives(function: Any, words: str) -> None:
    x = variable(0.5, 1.5)
    assert re.search(words, dr.explain_grad(x, function(x)))


def test_explanations_tell_arguments_in_the_wrong_order() -> None:
    x = variable(0.5, 1.5)
    assert "Derivatives flow from y to x: the variable is the first argument" in dr.explain_grad(x * 2 + 1, x)


def evaluated(array: Any) -> Any:
    dr.eval(array)
    return array


def test_explanations_name_lines_and_refuse_other_values() -> None:
    with dr.scoped_set_flag(dr.JitFlag.Debug):
        x = variable(0.5, 1.5)
        y = dr.round(x)
    assert re.search(r"by round \(.*test_interface.py:\d+\)", dr.explain_grad({"x": x}, [y]))
    assert "x is no variable" in dr.explain_grad(Float(1), x)
    with pytest.raises(TypeError, match=r"drjit.explain_grad\(\): the argument 'y' must be a traced array"):
        dr.explain_grad(x, 1.5)


# --- lifetimes -------------------------------------------------------------------------------------------------------


def test_nothing_grows() -> None:
    x, w = variable(*range(100)), variable(0.5)

    def step() -> None:
        loss = dr.sum(dr.square(dr.sin(x * w) - dr.gather(Float, x, ad.UInt32(1)) * w))
        dr.backward(loss)
        dr.eval(x.grad, w.grad)
        dr.clear_grad([x, w])

    for _ in range(5):
        step()
    gc.collect()
    vertices, nodes, kernels = len(drjit_core.live_vertices()), _nodes(), drjit_core.kernel_statistics()["compiled"]
    for _ in range(300):
        step()
    gc.collect()
    assert len(drjit_core.live_vertices()) == vertices == 2
    assert _nodes() <= nodes + 8 and drjit_core.kernel_statistics()["compiled"] == kernels


def _nodes() -> int:
    return node_count()


def test_long_chains_are_released_without_recursion() -> None:
    x = variable(1)
    y = x
    for _ in range(100_000):
        y = y * 1.5
    del y
    gc.collect()
    assert len(drjit_core.live_vertices()) == 1
    y = x
    for _ in range(20_000):
        y = y + x
    dr.backward(y)
    assert numbers(x.grad) == [20_001]


# --- recordings ------------------------------------------------------------------------------------------------------


def recorded(function: Any) -> Any:
    """A recorded program of one array."""
    program = Recorded(lambda node: function(wrap(Float, [node]))._nodes())
    return lambda x: wrap(Float, program(*x._nodes()))


def test_traversals_within_a_recording_are_replayed() -> None:
    def gradient(x: Any) -> Any:
        dr.enable_grad(x)
        target = Float(x)
        dr.scatter_reduce(dr.ReduceOp.Mul, target, x * 2, ad.UInt32(0))
        y = dr.reshape(ad.TensorXf(dr.sin(x)), (3, -1))
        dr.backward(dr.sum(dr.prefix_reduce(dr.ReduceOp.Max, x, exclusive=False) * dr.cumsum(x) * target) +
                    dr.prod(x) + dr.sum(dr.max(y, axis=0)).array)
        return x.grad

    program = recorded(gradient)
    for values in ([1, 3, 2, 0.5, 4, 2.5], [3, 1, 0.25, 0.5, 2, 6], [-1, 2, 3, 1, 0.5, 1.5]):
        np.testing.assert_allclose(flat(program(Float(values))), flat(gradient(Float(values))), rtol=1e-6)


def test_recordings_refuse_derivatives_that_replays_would_lose() -> None:
    x = variable(1, 2, 3)
    y = x * x
    for function, argument, message in (
            (lambda a: a * 2, x, "must not track derivatives"),
            (lambda a: a * x, Float(4), "must not track derivatives"),
            (lambda a: dr.backward(y * a) or a, Float(4), "gradient of an array from outside"),
            (lambda a: dr.accum_grad(x, a) or a, Float(4), "gradient of an array from outside")):
        program = recorded(function)
        for _ in range(2):
            with pytest.raises(RuntimeError, match=message):
                program(argument)
    assert numbers(x.grad) == [0, 0, 0]
    dr.backward(y)
    assert numbers(x.grad) == [2, 4, 6]


def test_custom_operations_with_derivatives_of_derivatives() -> None:
    class Product(dr.CustomOp):
        differentiable = True

        def eval(self, x: Any, y: Any) -> Any:
            return x * x * y

        def forward(self) -> None:
            x, y = self.given("x"), self.given("y")
            self.set_grad_out(2 * x * y * self.grad_in("x") + x * x * self.grad_in("y"))

        def backward(self) -> None:
            x, y = self.given("x"), self.given("y")
            self.set_grad_in("x", 2 * x * y * self.grad_out())
            self.set_grad_in("y", x * x * self.grad_out())

    def own(x: Any) -> Any:
        return dr.sin(dr.custom(Product, x, dr.exp(x)))

    def plain(x: Any) -> Any:
        return dr.sin(x * x * dr.exp(x))

    pairs = [dr.hvp(function, ad.Float(0.3, 0.5), ad.Float(1, 2)) for function in (own, plain)]
    for found, wanted in zip(*pairs, strict=True):
        np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-6)
    x = ad.Float(0.3, 0.5)
    dr.enable_grad(x)
    y = own(x)
    dr.backward(y)
    assert not dr.grad_enabled(x.grad)
    with pytest.raises(RuntimeError, match=r"Product\.given\(\): this is of use in forward\(\) and backward\(\) only"):
        Product().given("x")
