"""Names and options that release 1.5.0 of Dr.Jit brought, or still has."""

from __future__ import annotations

import itertools
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import drjit as dr
from drjit import llvm as l
from drjit import scalar as s
from drjit.llvm import ad as la

packages = pytest.mark.parametrize("package", [s, l, la], ids=["scalar", "llvm", "ad"])


# --- flip_axes -------------------------------------------------------------------------------------------------------


def test_vectors_from_rows() -> None:
    rows = np.array([[1.0, 2, 3], [7, 8, 9]])
    a = l.Array3f(rows, flip_axes=True)
    assert [list(c) for c in a] == [[1, 7], [2, 8], [3, 9]]
    t = l.TensorXf(rows)
    assert dr.all(l.Array3f(t, flip_axes=True) == a, axis=None)
    assert dr.all(l.Array3f(l.TensorXi(t), flip_axes=True) == a, axis=None)
    assert np.array_equal(l.TensorXf(l.Array3f(t, flip_axes=True), flip_axes=True).numpy(), rows)
    with pytest.raises(TypeError):
        l.Array3f(rows.T, flip_axes=True)
    assert dr.all(l.Array3f(rows.T, flip_axes=False) == a, axis=None)


@packages
def test_matrices_from_columns(package: ModuleType) -> None:
    m = package.Matrix2f(np.arange(4.0).reshape(2, 2), flip_axes=True)
    assert np.array_equal(np.array(m).reshape(2, 2), [[0, 2], [1, 3]])


def test_other_types_from_rows() -> None:
    q = l.Quaternion4f(np.arange(8.0).reshape(2, 4), flip_axes=True)
    assert [list(c) for c in q.array] == [[0, 4], [1, 5], [2, 6], [3, 7]]
    z = l.Complex2f(np.array([1 + 2j, 3 + 4j]), flip_axes=True)
    assert (list(z.real), list(z.imag)) == ([1, 3], [2, 4])
    assert list(s.Array3f(np.arange(3.0), flip_axes=True)) == [0, 1, 2]


# --- opaque ----------------------------------------------------------------------------------------------------------


def test_opaque_copies() -> None:
    a = l.Float(3)
    copy = dr.opaque((a, a, l.Array2f(3, 3), {"x": None}))
    flat = [copy[0], copy[1], copy[2].x, copy[2].y]
    assert len({array.index for array in flat}) == 4
    assert all(array.state == dr.VarState.Evaluated for array in flat)
    assert copy[3] == {"x": None} and a.state == dr.VarState.Literal
    assert list(dr.opaque(l.Float, 5)) == [5]
    assert dr.opaque(l.TensorXf([[1.0, 2.0]])).shape == (1, 2)
    with pytest.raises(RuntimeError, match="opaque"):
        dr.opaque(l.Float)


def test_opaque_copies_have_derivatives() -> None:
    x = la.Float(2)
    dr.enable_grad(x)
    dr.backward(dr.opaque({"x": x})["x"] * 3)
    assert list(x.grad) == [3]


# --- mathematics -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_relative_derivatives(mode: str) -> None:
    x = la.Float(2, 0, -3)
    dr.enable_grad(x)
    y = dr.relative_grad(x)
    assert list(y) == [1, 1, 1]
    if mode == "forward":
        dr.forward(x)
        found = y.grad
    else:
        dr.backward(y)
        found = x.grad
    assert np.allclose(found.numpy(), [0.5, 0, -1 / 3])


def test_relative_derivatives_of_other_values() -> None:
    assert dr.relative_grad(3) == 1.0 and isinstance(dr.relative_grad(3), float)
    assert list(dr.relative_grad(l.Float(2, 0))) == [1, 1]
    a = la.Array2f(2, 4)
    dr.enable_grad(a)
    dr.backward(dr.relative_grad(a))
    assert [a.grad.x[0], a.grad.y[0]] == [0.5, 0.25]


def test_constants() -> None:
    assert dr.inv_sqrt_four_pi == 1 / np.sqrt(4 * np.pi)
    assert dr.JitBackend.Metal is not dr.JitBackend.LLVM


def test_old_names() -> None:
    a = l.Array2f([1, 2], [3, 4])
    assert dr.all(dr.sqr(a) == a * a, axis=None)
    for name in ("sum", "prod", "min", "max"):
        found = getattr(dr, f"{name}_nested")(a)
        assert found == getattr(dr, name)(a, axis=None)
    mask = a > 2
    assert not dr.all_nested(mask) and dr.any_nested(mask) and not dr.none_nested(mask)
    assert dr.wrap_ad is not None
    assert list(dr.opaque_width(a)) == [2] and dr.opaque_width(a).state == dr.VarState.Evaluated
    dr.flush_thread()


def test_keywords() -> None:
    x = l.Float(1, 2)
    assert list(dr.repeat(value=x, repeats=2)) == list(dr.repeat(x, count=2)) == [1, 1, 2, 2]
    assert list(dr.tile(value=x, reps=2)) == list(dr.tile(x, count=2)) == [1, 2, 1, 2]
    for function in (dr.repeat, dr.tile):
        with pytest.raises(TypeError):
            function(x)


# --- functions of the kernel -----------------------------------------------------------------------------------------


def test_functions_that_are_not_inlined() -> None:
    @dr.func
    def add(d: Any, *rest: Any, scale: Any = 1, extra: Any = None) -> Any:
        """What it does."""
        assert extra is None
        return (d["x"] + d["y"]) * scale, rest

    x, y = la.Float(1, 2), la.Float(3, 4)
    dr.enable_grad(x, y)
    z, rest = add({"x": x, "y": y}, (la.Float(5), None), scale=la.Float(2))
    dr.backward(z)
    assert list(z) == [8, 12] and list(x.grad) == [2, 2]
    assert rest[0][0][0] == 5 and rest[0][1] is None
    assert add.__name__ == "add" and add.__doc__ == "What it does."
    assert list(dr.func(lambda d: d["x"] + d["y"])({"x": l.Float(1), "y": l.Float(2)})) == [3]


def test_functions_need_a_backend() -> None:
    with pytest.raises(RuntimeError):
        dr.func(lambda: 1)()
    assert list(dr.func(backend=dr.JitBackend.LLVM)(lambda: l.Float(3))()) == [3]


# --- events ----------------------------------------------------------------------------------------------------------


def test_events() -> None:
    assert l.Event is la.Event
    begin, end = l.Event(), l.Event(enable_timing=True)
    assert begin.query() is True
    with pytest.raises(RuntimeError):
        begin.elapsed_time(end)
    with pytest.raises(TypeError, match="'end' must be an Event, found 3"):
        begin.elapsed_time(3)
    begin.record()
    x = dr.arange(l.Float, 1000) + 1
    dr.eval(x)
    end.record()
    end.wait()
    assert end.query() is True and begin.query() is True
    assert begin.elapsed_time(end) >= 0
    assert isinstance(end.handle, int)
    with pytest.raises(RuntimeError):
        silent = l.Event(enable_timing=False)
        silent.record()
        begin.elapsed_time(silent)


# --- optimisers ------------------------------------------------------------------------------------------------------


def test_states_of_optimisers() -> None:
    opt = dr.opt.Adam(lr=0.1, params={"x": la.Float(1, 2)})
    assert opt.lr == 0.1 and set(opt.state) == {"x"}
    dr.set_grad(opt["x"], 2)
    opt.step()
    value, (count, first, second, _) = opt.state["x"][0], opt.state["x"][-1]
    assert count == 1 and np.allclose(first.numpy(), 0.2) and np.allclose(second.numpy(), 0.004)
    assert np.allclose(value.numpy(), opt["x"].numpy())
    opt["x"] = la.Float(5, 6)
    assert np.allclose(opt.state["x"][-1][1].numpy(), 0.2)
    opt["x"] = la.Float(5, 6, 7)
    assert np.allclose(opt.state["x"][-1][1].numpy(), 0)


def test_precision_that_parameters_are_kept_in() -> None:
    opt = dr.opt.Adam(lr=0.1, params={"x": la.Float16(1, 2)}, promote_fp16=True)
    assert dr.type_v(opt.state["x"][0]) == dr.VarType.Float32


def test_optimisers_are_trees() -> None:
    opt = dr.opt.Adam(lr=0.1, params={"x": la.Float(1, 2)})
    dr.set_grad(opt["x"], 2)
    opt.step()
    assert dr.eval(opt) in (True, False)
    dr.schedule(opt)
    assert all(a.state == dr.VarState.Evaluated for a in (opt["x"],))


# --- ray marching ----------------------------------------------------------------------------------------------------


def test_integrals_for_reference() -> None:
    from drjit import dda

    rng = np.random.default_rng(0)
    vol = la.TensorXf(rng.uniform(size=(3, 4, 5)).astype("f4"))
    dr.enable_grad(vol)
    o, d = la.Array3f(-0.2, 0.1, 0.3), dr.normalize(la.Array3f(1, 0.5, 0.2))
    arguments = (o, d, la.Float(2), la.Array3f(0), la.Array3f(1), vol)
    exact = dda.integrate(*arguments, la.Bool(True))
    found = dda.integrate_ref(*arguments, 4000)
    assert np.allclose(found.numpy(), exact.numpy(), rtol=1e-3)
    dr.backward(found)
    assert dr.sum(vol.grad, axis=None) > 0


def test_all_names_are_documented() -> None:
    for name in itertools.chain(("relative_grad", "func", "opaque_width", "flush_thread", "sqr", "wrap_ad")):
        assert getattr(dr, name).__doc__
