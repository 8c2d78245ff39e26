"""Arrays, types and reductions: what programs written for release 1.5.0 of Dr.Jit find in them."""

from __future__ import annotations

import math
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import drjit as dr
from drjit import llvm as l
from drjit import scalar as s
from drjit.llvm import ad as la

packages = pytest.mark.parametrize("package", [s, l, la], ids=["scalar", "llvm", "ad"])


@packages
@pytest.mark.parametrize("name", ["Complex2f", "Complex2f64"])
@pytest.mark.parametrize("dtype", ["c8", "c16"])
def test_complex_numbers_from_arrays_without_axes(name: str, package: ModuleType, dtype: str) -> None:
    z = getattr(package, name)(np.array(1 - 2j, dtype))
    assert (dr.slice(z.real) if dr.is_array_v(z.real) else z.real) == 1
    assert (dr.slice(z.imag) if dr.is_array_v(z.imag) else z.imag) == -2


@packages
@pytest.mark.parametrize("name", ["Float", "Float64", "UInt", "Array3f", "Matrix2f", "Quaternion4f", "Complex2f"])
def test_arrays_from_numpy_values_without_axes(name: str, package: ModuleType) -> None:
    if package is s and name in ("Float", "Float64", "UInt"):
        pytest.skip("these are Python's numbers")
    kind = getattr(package, name)
    for value in (np.array(3.0), np.float64(3), np.array(3)):
        if name == "UInt" and value.dtype.kind == "f":
            value = value.astype("u4")
        assert dr.all(kind(value) == kind(3), axis=None)


def test_matrices_with_further_dimensions_meet_matrices() -> None:
    a, b = l.Matrix43f(3), l.Matrix4f(3)
    assert dr.all(a == b, axis=None)
    assert dr.all(b == a, axis=None)
    assert dr.all(a + b == l.Matrix43f(6), axis=None)
    assert dr.all(b + a == l.Matrix43f(6), axis=None)
    assert dr.all(a * b == l.Matrix43f(9), axis=None)
    assert dr.all(a @ b == l.Matrix43f(9), axis=None)
    assert dr.all(l.Matrix43f(b) == a, axis=None)
    with pytest.raises(TypeError):
        l.Matrix4f(l.Matrix41f(3))


@pytest.mark.parametrize("module", [dr.scalar, l, dr.llvm.ad])
def test_an_array_that_is_an_entry_of_a_matrix_is_its_multiple_of_the_identity(module):
    for cls, entry in ((module.Matrix43f, module.Array3f(1, 2, 3)), (module.Matrix34f, module.Array4f(1, 2, 3, 4)),
                       (module.Matrix43f, module.Array3f64(1, 2, 3))):
        m, size = cls(entry), len(cls(0))
        for row in range(size):
            for column in range(size):
                assert dr.all(m[row, column] == (entry if row == column else 0))
    rows = module.Matrix34f(module.Array3f(1, 2, 3))  # as many numbers as rows are those
    assert dr.all(rows[1, 2] == 2)
    with pytest.raises(TypeError, match="cannot convert"):
        module.Matrix4f(module.Array3f(1, 2, 3))


def test_vectors_with_further_dimensions_meet_vectors() -> None:
    found = l.Array4f(1, 2, 3, 4) + l.Array43f(1)
    assert type(found) is l.Array43f
    assert found.numpy()[..., 0].tolist() == [[2] * 3, [3] * 3, [4] * 3, [5] * 3]
    found = l.Array43f(1) * l.Array4f(1, 2, 3, 4)
    assert found.numpy()[..., 0].tolist() == [[1] * 3, [2] * 3, [3] * 3, [4] * 3]


def test_matrices_count_on_the_first_two_axes_whatever_follows() -> None:
    b = l.Matrix4f(np.arange(16).reshape(4, 4))
    for found in (l.Matrix44f(0) * 0 + b, b + l.Matrix44f(0) * 0, l.Matrix44f(b)):
        assert np.array_equal(np.array(found)[..., 0], np.broadcast_to(np.arange(16).reshape(4, 4, 1), (4, 4, 4)))


@pytest.mark.parametrize(("kind", "value"), [
    (l.Array43f, l.ArrayXf([1], [2], [3], [4])), (l.Array43f, l.ArrayXf([1, 5], [2, 6], [3, 7], [4, 8])),
    (l.Array334f, l.ArrayXf([1], [2], [3])), (l.Array43b, l.ArrayXb([True], [False], [True], [True])),
    (s.Array43f, s.ArrayXf(1, 2, 3, 4)), (s.Array43f, l.ArrayXf([1], [2], [3], [4]))])
def test_dynamic_arrays_become_such_with_further_dimensions(kind: Any, value: Any) -> None:
    found = kind(value)
    for k, component in enumerate(value):
        assert found[k].shape[:-1] == kind(0)[k].shape[:-1]
        assert np.array_equal(np.array(found[k]), np.broadcast_to(np.array(component), found[k].shape))



@pytest.mark.parametrize(("arguments", "found"), [
    ((l.Array2f, [1, 2]), l.Array2f), ((l.Float, (1, 2)), l.Float), ((l.Float, np.ones(3)), l.Float64),
    ((l.Float, [1.0, l.Float64(2)]), l.Array2f64), ((l.Float, [[1, 2], [3]]), l.Array2f), ((l.Bool, [1]), l.Int),
    ((l.Int, [1.5]), l.Float), ((l.Int, np.ones(3, "f4")), l.Float)])
def test_types_of_expressions_with_sequences(arguments: Any, found: Any) -> None:
    assert dr.expr_t(*arguments) is found


def test_types_of_expressions_with_dictionaries_are_errors() -> None:
    with pytest.raises(TypeError):
        dr.expr_t(l.Float, {"a": 1})


@pytest.mark.parametrize(("source", "type_", "found"), [
    (l.Array3f, dr.VarType.Float16, l.Array3f16), (l.Array3f, dr.VarType.Float64, l.Array3f64),
    (l.Array3f, dr.VarType.UInt32, l.Array3u), (l.Float64, dr.VarType.Int32, l.Int)])
def test_reinterpreted_types_of_any_size(source: Any, type_: Any, found: Any) -> None:
    assert dr.reinterpret_array_t(source, type_) is found


@pytest.mark.parametrize(("a", "b", "close"), [
    (l.Float(1, 2), [[1, 2]], True), (l.Float(1, 2), [[1, 3]], False), (l.Float(1, 2), [[1, 2], [1, 2]], True),
    ([1, [1, 1]], 1, True)])
def test_nested_sequences_are_compared_by_broadcasting(a: Any, b: Any, close: bool) -> None:
    assert bool(dr.all(dr.allclose(a, b))) is close


def test_arrays_of_one_element_answer_any_index() -> None:
    assert l.Float(5)[7] == 5
    assert la.Float(5)[-3] == 5
    assert dr.all(dr.zeros(l.ArrayXf, 5)[3] == 0)
    with pytest.raises(IndexError):
        l.Float(1, 2)[7]
    with pytest.raises(IndexError):
        l.Array3f(5)[7]
    with pytest.raises(IndexError):
        l.Float(5)[7] = 3
    assert list(l.Float(5)) == [5]


@pytest.mark.parametrize("sign", [1, -1])
def test_angles_of_quaternions_at_the_poles(sign: int) -> None:
    found = dr.quat_to_euler(l.Quaternion4f(0, sign * 0.7072, 0, 0.7071))
    assert [found.x[0], found.z[0]] == [0, 0]
    assert math.isclose(found.y[0], sign * math.pi / 2, rel_tol=1e-6)


@pytest.mark.parametrize("function", [dr.argmin, dr.argmax])
def test_the_place_of_the_least_is_an_array(function: Any) -> None:
    t = l.TensorXf([[3.0, 1.0], [2.0, 5.0]])
    found = function(t, axis=None)
    assert type(found) is l.UInt and found[0] == (1 if function is dr.argmin else 3)


def test_sequences_are_counted() -> None:
    assert dr.count([[True], [True], [False]], axis=None) == 2
    assert dr.count([[True, False], [True, True]], axis=None) == 3
    assert dr.count([True, True, False]) == 2
    assert int(dr.count([l.Bool(True, False), True], axis=None)[0]) == 2


def test_median_of_a_number() -> None:
    assert dr.median(7.0) == 7


@pytest.mark.parametrize("function", [dr.sum, dr.prod, dr.min, dr.max, dr.mean])
def test_sequences_have_no_axes_to_keep(function: Any) -> None:
    with pytest.raises(RuntimeError):
        function([1.0, 2.0], keepdims=True)


def test_local_memory_of_nothing_is_refused() -> None:
    with pytest.raises(TypeError):
        dr.alloc_local(l.Array0f, 2)


@pytest.mark.parametrize("dtype", [float, s.Array3f, int, bool, s.Matrix2f])
def test_local_memory_of_scalars_is_one_of_python(dtype: Any) -> None:
    """Release 1.5.0 refuses it. Here, programs for one backend run on all of them."""
    buffer = dr.alloc_local(dtype, 2, value=dtype(1))
    buffer[1] = dtype(0)
    assert dr.all(buffer[0] == dtype(1), axis=None) and dr.all(buffer[1] == dtype(0), axis=None)


def test_what_is_flat_is_returned() -> None:
    v = s.ArrayXf(1, 2, 3)
    assert dr.ravel(v) is v
    assert dr.unravel(s.ArrayXf, v) is v
    w = l.Float(1, 2, 3)
    assert dr.ravel(w) is w
    assert dr.unravel(l.Float, w) is w


def test_unravel_converts_elements_and_tracking() -> None:
    a = dr.unravel(l.Array3f64, l.Float(1, 2, 3, 4, 5, 6), order="C")
    assert type(a) is l.Array3f64 and a.numpy().tolist() == [[1, 2], [3, 4], [5, 6]]
    b = dr.unravel(la.Array3f, l.Float(1, 2, 3), order="C")
    assert type(b) is la.Array3f
    c = dr.unravel(l.Array3f, la.Float(1, 2, 3), order="C")
    assert type(c) is l.Array3f


@pytest.mark.parametrize("call", [
    lambda: dr.gather(l.ArrayXf, dr.arange(l.Float, 10), l.UInt(0, 1), shape=(2, 5)),
    lambda: l.UInt(np.array([2**33 + 5], np.uint64))], ids=["shape", "range"])
def test_what_would_lose_something_is_refused(call: Any) -> None:
    with pytest.raises((ValueError, RuntimeError, OverflowError, TypeError)):
        call()


def test_tensors_that_are_joined_raveled_are_flat() -> None:
    t = l.TensorXf([[1.0, 2.0], [3.0, 4.0]])
    found = dr.concat([t, t + 1], axis=None)
    assert type(found) is l.Float and list(found) == [1, 2, 3, 4, 2, 3, 4, 5]


@pytest.mark.parametrize("together", [True, False])
@pytest.mark.parametrize("rows", [2, 3, 4, 5, 7, 16, 64, 65, 100])
@pytest.mark.parametrize("write", ["scatter", "scatter_add"])
@pytest.mark.parametrize("target", ["zeros", "evaluated"])
def test_nested_arrays_are_written_by_one_kernel(target: str, write: str, rows: int, together: bool) -> None:
    flags = dr.JitFlag.KernelHistory, dr.JitFlag.PacketOps
    count = 4
    values = np.arange(rows * count, dtype="f4").reshape(rows, count)
    value, index = l.ArrayXf(values), l.UInt(3, 0, 2, 1)
    with dr.scoped_set_flag(flags[0], True), dr.scoped_set_flag(flags[1], together):
        found = dr.opaque(l.Float, 0, rows * count) if target == "evaluated" else dr.zeros(l.Float, rows * count)
        dr.eval(found, value)
        dr.kernel_history_clear()
        getattr(dr, write)(found, value, index)
        dr.eval(found)
        assert len(dr.kernel_history((dr.KernelType.JIT,))) == 1
    expected = np.empty((count, rows), "f4")
    expected[[3, 0, 2, 1]] = values.T
    assert np.array_equal(found.numpy(), expected.ravel())


def test_values_are_replaced_in_trees_of_one_type() -> None:
    with pytest.raises(RuntimeError):
        dr.replace_grad((1.0,), (la.UInt(1),))


@pytest.mark.parametrize(("kind", "flat"), [(l.TensorXf, l.Float), (la.TensorXf, la.Float), (l.TensorXf, l.Int),
                                            (s.TensorXf, s.ArrayXf), (s.TensorXf, s.ArrayXi)])
def test_flat_arrays_are_assigned_to_slices(kind: Any, flat: Any) -> None:
    v = dr.zeros(kind, (4, 4))
    v[::2, ...] = flat(range(1, 9))
    assert v.numpy().tolist() == [[1, 2, 3, 4], [0] * 4, [5, 6, 7, 8], [0] * 4]
    v[1] = flat(range(4))
    v[:, 3] = flat([9])
    assert v.numpy().tolist() == [[1, 2, 3, 9], [0, 1, 2, 9], [5, 6, 7, 9], [0, 0, 0, 9]]


def test_flat_arrays_keep_their_derivatives_in_slices() -> None:
    v, x = dr.zeros(la.TensorXf, (4, 4)), la.Float(1, 2, 3, 4, 5, 6, 7, 8)
    dr.enable_grad(x)
    v[::2, ...] = x
    dr.backward(v * la.TensorXf(dr.arange(la.Float, 16), (4, 4)))
    assert list(x.grad) == [0, 1, 2, 3, 8, 9, 10, 11]


@pytest.mark.parametrize("size", [3, 7, 9, 16])
def test_flat_arrays_of_other_sizes_do_not_fit_slices(size: int) -> None:
    v = dr.zeros(l.TensorXf, (4, 4))
    with pytest.raises((RuntimeError, ValueError)):
        v[::2, ...] = dr.ones(l.Float, size)


@pytest.mark.parametrize(("origin", "direction", "first"), [
    ((0.5, 3, 0.5), (0, -1, 0), (0, 2, 0)), ((0.5, 3, 0.5), (0, 1, 0), (0, 3, 0)),
    ((3, 0.5, 0.5), (-1, 0, 0), (2, 0, 0)), ((0.5, 0.5, 3), (0, 0, -1), (0, 0, 2)),
    ((3, 3, 0.5), (-1, -1, 0), (2, 2, 0)), ((0.5, 8, 0.5), (0, -1, 0), (0, 7, 0))])
def test_rays_from_a_boundary_do_not_visit_the_cell_behind(origin: Any, direction: Any, first: Any) -> None:
    from drjit import dda

    cells = []

    def visit(state: Any, index: Any, pt_in: Any, pt_out: Any, active: Any) -> Any:
        number, = state
        cells.append(None)
        return [number * 1000 + l.Int(index.x * 100 + index.y * 10 + index.z + 1)], l.Bool(False)

    state = dda.dda(l.Array3f(origin), l.Array3f(direction), l.Float(100), l.Array3u(8), l.Array3f(0),
                    l.Array3f(8), visit, [l.Int(0)], l.Bool(True), mode="evaluated")
    x, y, z = first
    assert list(state[0]) == [z * 100 + y * 10 + x + 1]


def test_lists_are_not_added() -> None:
    """Release 1.5.0 does, and returns [1, 2, 3, 4], which is the sum of no numbers."""
    with pytest.raises(RuntimeError):
        dr.sum([[1, 2], [3, 4]])
    assert dr.sum([[1, 2], [3, 4]], axis=None) == 10


def test_differences_of_tensors_are_told() -> None:
    with pytest.raises(AssertionError, match="Max abs") as of_arrays:
        dr.assert_allclose(l.Float(1, 2), l.Float(1, 3))
    with pytest.raises(AssertionError) as of_tensors:
        dr.assert_allclose(l.TensorXf([1.0, 2.0]), l.TensorXf([1.0, 3.0]))
    assert len(str(of_tensors.value).splitlines()) == len(str(of_arrays.value).splitlines())
