"""Optimisers: their steps are those of the papers, their kernels stay the same, and nothing grows.

Steps are compared with plain NumPy formulas in double precision:

- momentum: B. T. Polyak, "Some methods of speeding up the convergence of iteration methods", 1964; in Nesterov's form:
  I. Sutskever et al., "On the importance of initialization and momentum in deep learning", 2013;
- RMSProp: T. Tieleman and G. Hinton, "Lecture 6.5", 2012;
- Adam: D. P. Kingma and J. Ba, ICLR 2015; AMSGrad: S. J. Reddi et al., ICLR 2018; UniformAdam: B. Nicolet et al.,
  "Large Steps in Inverse Rendering of Geometry", 2021;
- AdamW: I. Loshchilov and F. Hutter, "Decoupled Weight Decay Regularization", ICLR 2019;
- Muon: K. Jordan et al., https://kellerjordan.github.io/posts/muon/, 2024.
"""

from __future__ import annotations

import copy
import gc
import pickle
from collections.abc import Iterator

import numpy as np
import pytest

import drjit as dr
import drjit_core as core
from drjit import llvm, scalar
from drjit.llvm import ad
from drjit.llvm.ad import Array3f, Bool, Complex2f, Float, Float16, Float64, Matrix2f, Quaternion4f, TensorXf
from drjit.opt import SGD, Adam, AdamW, GradScaler, Muon, Optimizer, RMSProp

# --- the formulas -----------------------------------------------------------------------------------------------------


def sgd(p, g, s, t, lr, momentum=0.0, nesterov=False):
    if not momentum:
        return p - lr * g, s
    v = momentum * s.get("v", 0) + g
    return p - lr * (g + momentum * v if nesterov else v), {"v": v}


def rmsprop(p, g, s, t, lr, alpha=0.99, epsilon=1e-8):
    m = alpha * s.get("m", 0) + (1 - alpha) * g**2
    return p - lr * g / (np.sqrt(m) + epsilon), {"m": m}


def adam(p, g, s, t, lr, beta_1=0.9, beta_2=0.999, epsilon=1e-8, uniform=False, amsgrad=False):
    m = beta_1 * s.get("m", 0) + (1 - beta_1) * g
    v = beta_2 * s.get("v", 0) + (1 - beta_2) * g**2
    largest = np.maximum(s.get("largest", 0), v)
    d = largest if amsgrad else v.max() if uniform else v
    factor = np.sqrt(1 - beta_2**t) / (1 - beta_1**t)
    return p - lr * factor * m / (np.sqrt(d) + epsilon), {"m": m, "v": v, "largest": largest}


def adamw(p, g, s, t, lr, weight_decay=0.01, **options):
    result, s = adam(p, g, s, t, lr, **options)
    return result - lr * weight_decay * p, s


def orthogonal(x, steps):
    a, b, c = 3.4445, -4.7750, 2.0315
    if x.shape[0] > x.shape[1]:
        return orthogonal(x.T, steps).T
    x = x / (np.linalg.norm(x) + 1e-7)
    for _ in range(steps):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x


def muon(p, g, s, t, lr, momentum=0.95, nesterov=True, ns_steps=5, weight_decay=0.0):
    m = momentum * s.get("m", 0) + (1 - momentum) * g
    direction = (1 - momentum) * g + momentum * m if nesterov else m
    factor = max(1, p.shape[0] / p.shape[1])**0.5
    return p - lr * weight_decay * p - lr * factor * orthogonal(direction, ns_steps), {"m": m}


RULES = [
    (SGD, sgd, {}), (SGD, sgd, {"momentum": 0.9}), (SGD, sgd, {"momentum": 0.9, "nesterov": True}),
    (RMSProp, rmsprop, {}), (RMSProp, rmsprop, {"alpha": 0.5, "epsilon": 0.1}),
    (Adam, adam, {}), (Adam, adam, {"beta_1": 0.5, "beta_2": 0.7, "epsilon": 0.1}), (Adam, adam, {"uniform": True}),
    (Adam, adam, {"beta_2": 0.5, "amsgrad": True}), (Adam, adam, {"beta_2": 0.5, "amsgrad": True, "uniform": True}),
    (AdamW, adamw, {}), (AdamW, adamw, {"weight_decay": 0.5, "beta_1": 0.2, "amsgrad": True}),
    (AdamW, adamw, {"weight_decay": 0.1, "uniform": True}),
]
IDS = ["-".join([cls.__name__, *options]) for cls, _, options in RULES]
TOLERANCE = {"Float": 2e-5, "Float64": 1e-12, "Float16": 4e-3}
GRADIENTS = np.array([[1, 0, -2], [0.5, 0, -1], [0, 3, 0], [0, 0, 0], [1, 2, 3.0]])


def advance(opt, gradients, key="x", **kwargs):
    """Steps along given gradients, as a program takes them: by a loss."""
    for gradient in gradients:
        x = opt[key]
        dr.backward(x * type(x)(gradient) if type(x)._depth else x * gradient)
        opt.step(**kwargs)
    return opt[key]


def expected(rule, options, p, gradients, lr=0.1, masked=False, first=1):
    p, s = np.array(p, dtype=np.float64), {}
    for t, g in enumerate(gradients, first):
        new, state = rule(p, np.asarray(g, dtype=np.float64), s, t, lr, **options)
        if masked:
            new, state = np.where(g != 0, new, p), {k: np.where(g != 0, v, s.get(k, 0)) for k, v in state.items()}
        p, s = new, state
    return p


def flat(array):
    values = np.array(array).reshape(-1)
    return np.concatenate([values.real, values.imag]) if np.iscomplexobj(values) else values.astype(np.float64)


def close(array, wanted, tolerance=2e-5):
    np.testing.assert_allclose(flat(array), np.reshape(wanted, -1), rtol=tolerance, atol=tolerance)


# --- steps ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("cls", "rule", "options"), RULES, ids=IDS)
@pytest.mark.parametrize("kind", ["Float", "Float64", "Float16"])
@pytest.mark.parametrize("masked", [False, True])
def test_steps_are_those_of_the_paper(cls, rule, options, kind, masked):
    array = getattr(ad, kind)
    opt = cls(lr=0.1, params={"x": array(1, 2, 3)}, mask_updates=masked, **options)
    x = advance(opt, [array(*g) for g in GRADIENTS])
    assert type(x) is array
    close(x, expected(rule, options, [1, 2, 3], GRADIENTS, masked=masked), TOLERANCE[kind])


@pytest.mark.parametrize(("cls", "rule", "options"), RULES, ids=IDS)
def test_unpromoted_half_precision_is_computed_in_single_precision(cls, rule, options):
    """A small number such as epsilon does not become zero, and no element NaN."""
    opt = cls(lr=0.1, params={"x": Float16(1, 2, 3)}, promote_fp16=False, **options)
    x = advance(opt, [Float16(*g) for g in GRADIENTS])
    assert opt._parameters["x"].value._type == Float16._type
    close(x, expected(rule, options, [1, 2, 3], GRADIENTS), 2e-2)


@pytest.mark.parametrize(("cls", "rule", "options"), RULES, ids=IDS)
@pytest.mark.parametrize(("kind", "make"), [
    ("nested", lambda v: Array3f(*v)), ("tensor", lambda v: TensorXf([list(v)])),
    ("dynamic", lambda v: ad.ArrayXf([[x] for x in v]))])
def test_all_components_take_part(cls, rule, options, kind, make):
    opt = cls(lr=0.1, params={"x": make([1, 2, 3])}, **options)
    for g in GRADIENTS:
        dr.set_grad(opt["x"], make(g))
        opt.step()
    close(opt["x"], expected(rule, options, [1, 2, 3], GRADIENTS))


@pytest.mark.parametrize("cls", [Matrix2f, Complex2f, Quaternion4f])
def test_special_types_are_optimised_component_by_component(cls):
    start, gradient = cls(*range(1, 1 + cls._count)), cls(*range(-1, cls._count - 1))
    opt = RMSProp(lr=0.1, alpha=0.5, params={"x": start})
    dr.set_grad(opt["x"], gradient)
    opt.step()
    assert type(opt["x"]) is cls
    close(opt["x"], expected(rmsprop, {"alpha": 0.5}, flat(start), [flat(gradient)]))


@pytest.mark.parametrize("options", [
    {}, {"nesterov": False, "momentum": 0.5}, {"weight_decay": 0.5}, {"ns_steps": 0}, {"ns_steps": 1}])
@pytest.mark.parametrize("shape", [(2, 3), (3, 2), (4, 4), (1, 5), (5, 1), (1, 1)])
def test_steps_of_muon_are_those_of_the_paper(options, shape):
    generator = np.random.default_rng(1)
    start, gradients = generator.normal(size=shape), generator.normal(size=(3, *shape))
    for cls, tolerance in ((ad.TensorXf, 1e-4), (ad.TensorXf64, 1e-10), (ad.TensorXf16, 1e-2)):
        opt = Muon(lr=0.1, params={"x": cls(start)}, **options)
        dr.set_grad(opt["x"], 0)
        for g in gradients:
            dr.backward(dr.sum(opt["x"].array * cls(g).array))
            opt.step()
        close(opt["x"], expected(muon, options, start, gradients), tolerance)


def test_muon_masks_elements_and_survives_gradients_of_zero():
    opt = Muon(lr=0.1, mask_updates=True, params={"x": TensorXf([[1, 2], [3, 4]])})
    opt.step()
    assert flat(opt["x"]).tolist() == [1, 2, 3, 4]
    dr.set_grad(opt["x"], TensorXf([[0, 0], [1, 2]]))
    opt.step()
    assert flat(opt["x"])[:2].tolist() == [1, 2] and (flat(opt["x"])[2:] < [3, 4]).all()
    plain = Muon(lr=0.1, params={"x": TensorXf([[1, 2], [3, 4]])})
    plain.step()
    assert flat(plain["x"]).tolist() == [1, 2, 3, 4]


def test_muon_takes_matrices():
    for value in (Float(1, 2), TensorXf([1, 2]), dr.ones(TensorXf, (2, 2, 2)), Matrix2f(1)):
        with pytest.raises(RuntimeError, match=r"Muon.__setitem__.*'bias' must be a tensor with two axes.*shape"):
            Muon(lr=1, params={"bias": value})
    opt = Muon(lr=1)
    opt.update({"bias": Float(1, 2), "w": dr.ones(TensorXf, (2, 2)), "n": 3})  # as a module of a network has them
    assert list(opt) == ["w"]


# --- half precision ---------------------------------------------------------------------------------------------------


def test_small_steps_add_up_in_promoted_half_precision():
    results = []
    for promote in (True, False):
        opt = SGD(lr=1e-4, params={"x": Float16(1)}, promote_fp16=promote)
        advance(opt, [Float16(1)] * 100)
        results.append(opt["x"])
    assert type(results[0]) is Float16
    assert results[0][0] == pytest.approx(0.99, abs=1e-3) and results[1][0] == 1


@pytest.mark.parametrize("promote", [True, False])
def test_gradients_of_half_precision_can_be_seen_and_set(promote):
    opt = SGD(lr=0.5, params={"x": Float16(1, 2)}, promote_fp16=promote)
    dr.backward(opt["x"] * opt["x"])
    assert type(opt["x"].grad) is Float16 and list(opt["x"].grad) == [2, 4]
    dr.set_grad(opt["x"], 1)
    opt.step()
    assert list(opt["x"]) == [0.5, 1.5]


def test_promotion_keeps_shapes():
    opt = Adam(lr=0.1, params={"t": ad.TensorXf16(np.ones((2, 3))), "v": ad.Array3f16(1, 2, 3)})
    dr.backward(dr.sum(opt["t"].array) + dr.sum(opt["v"]))
    opt.step()
    assert opt["t"].shape == (2, 3) and type(opt["t"]) is ad.TensorXf16 and type(opt["v"]) is ad.Array3f16
    close(opt["t"], [0.9] * 6, 1e-3)


# --- a dictionary of parameters ---------------------------------------------------------------------------------------


def test_an_optimizer_is_a_dictionary_of_variables():
    opt = Adam(lr=0.1, params={"x": Float(1, 2), "y": Array3f(1)})
    opt.update({"a": Float(1)}, b=Float(2))
    opt.update([("c", TensorXf([3]))])
    assert len(opt) == 5 and list(opt) == list(opt.keys()) == ["x", "y", "a", "b", "c"]
    assert "x" in opt and "z" not in opt and 3 not in opt
    assert all(isinstance(found, Iterator) for found in (opt.keys(), opt.values(), opt.items()))
    assert [type(v) for v in opt.values()] == [Float, Array3f, Float, Float, TensorXf]
    assert {key: type(value) for key, value in opt.items()}["c"] is TensorXf
    assert all(dr.grad_enabled(value) for value in opt.values())
    assert opt.pop("a")[0] == 1 and opt.get("a") is None and opt.setdefault("b", None)[0] == 2
    del opt["b"]
    opt.clear()
    assert not opt and len(opt) == 0
    opt.step()  # of nothing
    assert opt == opt and opt != Adam(lr=0.1) and len({opt, Adam(lr=0.1)}) == 2


@pytest.mark.parametrize("value", [
    1, 1.0, None, "s", [1, 2], (Float(1), Float(2)), {"a": Float(1)}, np.ones(3), llvm.Float(1), llvm.TensorXf([1]),
    ad.Int(1), ad.UInt(1), Bool(True), ad.Array3i(1), ad.TensorXi([1]), scalar.Array3f(1),
], ids=lambda v: type(v).__name__)
def test_parameters_are_differentiable_arrays(value):
    opt = SGD(lr=1)
    with pytest.raises(TypeError, match=r"opt.SGD.__setitem__\(\): the parameter 'width' must be .*found") as raised:
        opt["width"] = value
    assert ("drjit.*.ad" in str(raised.value)) == (type(value) in (llvm.Float, llvm.TensorXf))
    assert not opt


def test_other_mistakes_are_named():
    opt = SGD(lr=1, params={"x": Float(1)})
    with pytest.raises(RuntimeError, match=r"the parameter 'y' is empty"):
        opt["y"] = Float()
    with pytest.raises(TypeError, match=r"the name of a parameter must be a str, found int"):
        opt[3] = Float(1)
    for call in (lambda: opt["q"], lambda: opt.reset("q"), lambda: opt.learning_rate("q"),
                 lambda: opt.__delitem__("q"), lambda: opt.set_learning_rate(0.5, q=1)):
        with pytest.raises(KeyError, match=r"drjit.opt.SGD.\w+\(\): there is no parameter 'q' \(found: 'x'\)"):
            call()
    assert opt.learning_rate() == 1  # nothing has changed
    for call in (lambda: SGD(lr="a"), lambda: opt.set_learning_rate("a"), lambda: opt.set_learning_rate(x=[1]),
                 lambda: SGD(lr=None), lambda: SGD(lr=True), lambda: opt.set_learning_rate(Bool(True))):
        with pytest.raises(TypeError, match=r"must be a number or an array of numbers, found"):
            call()
    for call in (lambda: SGD(lr=-1), lambda: SGD(lr=float("nan")), lambda: opt.set_learning_rate(-0.5),
                 lambda: opt.set_learning_rate(x=-1)):
        with pytest.raises(ValueError, match=r"SGD(\.set_learning_rate)?\(\): .*('lr'|rate|'x') must be >= 0, found"):
            call()
    for call in (lambda: SGD(lr=dr.inf), lambda: opt.set_learning_rate(dr.inf),
                 lambda: opt.set_learning_rate(x=dr.inf)):
        with pytest.raises(ValueError, match=r"SGD(\.\w+)?\(\): .*('lr'|rate|'x') must be finite, found inf"):
            call()
    assert opt.learning_rate() == 1 and opt.learning_rate("x") is None
    with pytest.raises(TypeError, match=r"SGD.update\(\): parameters must be given as a dictionary.*found int"):
        opt.update(3)
    with pytest.raises(NotImplementedError, match=r"Optimizer.step\(\).*use drjit.opt.SGD"):
        Optimizer(lr=1, params={"x": Float(1)}).step()


def test_an_update_changes_all_parameters_or_none():
    opt = SGD(lr=1, params={"x": Float(1), "y": Float(2)})
    for call in (lambda: opt.update({"x": Float(5), "y": ad.Int(1)}), lambda: opt.update(x=Float(5), z=None),
                 lambda: opt.update({"x": Float(5)}, y=Float())):
        with pytest.raises((TypeError, RuntimeError), match="the parameter"):
            call()
        assert list(opt) == ["x", "y"] and opt["x"][0] == 1 and opt["y"][0] == 2


@pytest.mark.parametrize(("cls", "options", "message"), [
    (SGD, {"momentum": -1}, r"SGD\(\): 'momentum' must be >= 0, found -1"),
    (SGD, {"nesterov": True}, r"SGD\(\): 'nesterov' needs a 'momentum' above 0"),
    (RMSProp, {"alpha": 1}, r"'alpha' must be in \[0, 1\), found 1"),
    (RMSProp, {"epsilon": -1}, "'epsilon' must be >= 0"),
    (Adam, {"beta_1": 1.0}, r"'beta_1' must be in \[0, 1\)"), (Adam, {"beta_2": -0.1}, "'beta_2'"),
    (Adam, {"epsilon": float("nan")}, "'epsilon' must be >= 0, found nan"),
    (Adam, {"epsilon": dr.inf}, "'epsilon' must be finite, found inf"),
    (AdamW, {"weight_decay": -1}, "'weight_decay'"),
    (Muon, {"momentum": 1}, "'momentum'"), (Muon, {"weight_decay": -1}, "'weight_decay'"),
])
def test_options_out_of_range_are_refused(cls, options, message):
    with pytest.raises(RuntimeError, match=message) as raised:
        cls(lr=1, **options)
    assert isinstance(raised.value, ValueError)


@pytest.mark.parametrize(("cls", "options"), [
    (Adam, {"beta_1": "s"}), (Adam, {"beta_1": Float(0.5)}), (SGD, {"momentum": None}), (Muon, {"ns_steps": 2.5})])
def test_options_of_wrong_types_are_refused(cls, options):
    with pytest.raises(TypeError, match=rf"drjit.opt.{cls.__name__}\(\): '{next(iter(options))}' must be an? "):
        cls(lr=1, **options)


def test_what_a_program_does_to_an_array_stays_there():
    start = Float(1, 2)
    opt = SGD(lr=1, params={"x": start})
    start += 5
    x = opt["x"]
    x *= 10
    x[0] = 7
    assert flat(opt["x"]).tolist() == [1, 2]
    dr.backward(opt["x"] * 2)
    opt.step()
    assert flat(opt["x"]).tolist() == [-1, 0] and flat(x).tolist() == [7, 20]


def test_gradients_reach_all_arrays_that_were_fetched_and_end_with_a_step():
    opt = SGD(lr=1, params={"x": Float(0, 0)})
    x, y = opt["x"], opt["x"]
    dr.backward(x * 2)
    dr.backward(y * 3)
    assert flat(opt["x"].grad).tolist() == [5, 5]
    opt.step()
    assert flat(opt["x"]).tolist() == [-5, -5] and flat(opt["x"].grad).tolist() == [0, 0]
    dr.backward(x * 2)  # an array of before the step
    opt.step()
    assert flat(opt["x"]).tolist() == [-5, -5]


def test_a_parameter_is_a_variable_whatever_holds_where_it_was_made():
    x = Float(1)
    dr.enable_grad(x)
    with dr.suspend_grad():
        opt = SGD(lr=1, params={"x": x * 2})
        assert not dr.grad_enabled(opt["x"])
    assert dr.grad_enabled(opt["x"])
    dr.backward(opt["x"] * 3)
    assert x.grad[0] == 0  # a step does not go back further
    with dr.suspend_grad():
        opt.step()
    assert opt["x"][0] == -1 and dr.grad_enabled(opt["x"])


def test_assignments_keep_the_state_of_the_same_shape_and_reset_forgets_it():
    opt = SGD(lr=1, momentum=0.5, params={"x": Float(0, 0)})

    def coast():
        opt.step()
        return flat(opt["x"]).tolist()

    dr.set_grad(opt["x"], 4)
    assert coast() == [-4, -4] and coast() == [-6, -6]
    opt["x"] = Float(0, 0)
    assert coast() == [-1, -1]
    opt.set_learning_rate(x=2)
    opt["x"] = Float(1, 2, 3)
    assert coast() == [1, 2, 3] and opt.learning_rate("x") == 2
    for value, same in ((Float64(1, 2, 3), False), (TensorXf([1, 2, 3]), False), (TensorXf([[1, 2, 3]]), False),
                        (TensorXf([[1, 2, 4]]), True)):
        dr.set_grad(opt["x"], 4)
        opt.step()
        opt["x"] = value
        assert type(opt["x"]) is type(value) and (coast() != flat(value).tolist()) == same
    opt.reset("x")
    before = flat(opt["x"]).tolist()
    assert coast() == before
    dr.set_grad(opt["x"], 4)
    opt.step()
    opt.reset()
    before = flat(opt["x"]).tolist()
    assert coast() == before


def test_reset_starts_the_count_again():
    opt = Adam(lr=0.1, params={"x": Float(1, 2, 3), "y": Float(5)})
    advance(opt, [Float(*g) for g in GRADIENTS])
    opt["x"] = Float(1, 2, 3)
    opt.reset("x")
    close(advance(opt, [Float(*g) for g in GRADIENTS]), expected(adam, {}, [1, 2, 3], GRADIENTS))


# --- learning rates ---------------------------------------------------------------------------------------------------


def test_learning_rates_of_parameters_come_first():
    opt = SGD(lr=1, params={"x": Float(0), "y": Float(0)})
    opt.set_learning_rate({"x": 10}, y=100)
    opt.set_learning_rate()
    opt.set_learning_rate(None)
    opt.set_learning_rate(y=None)
    opt.set_learning_rate(np.float32(2))
    assert (opt.learning_rate(), opt.learning_rate("x"), opt.learning_rate("y")) == (2, 10, None)
    for key in opt:
        dr.set_grad(opt[key], -1)
    opt.step()
    assert (opt["x"][0], opt["y"][0]) == (10, 2)


@pytest.mark.parametrize(("value", "rate", "wanted"), [
    (Float(0, 0), Float(2), [2, 2]), (Float(0, 0), Float(2, 3), [2, 3]), (Float(0, 0), llvm.Float64(2, 3), [2, 3]),
    (Float16(0, 0), ad.Float(2, 3), [2, 3]), (Float(0, 0), ad.Int(2), [2, 2]),
    (Float(0, 0), dr.opaque(Float, 2), [2, 2]),
    (Array3f(0), Float(2), [2, 2, 2]), (Array3f(0), Array3f(2, 3, 4), [2, 3, 4]),
    (TensorXf([[0, 0]]), Float(2), [2, 2]),
    (TensorXf([[0, 0]]), Float(2, 3), [2, 3]), (TensorXf([[0, 0]]), TensorXf([[2, 3]]), [2, 3]),
    (TensorXf([[0, 0]]), TensorXf([2]), [2, 2]), (Float(0, 0), 0, [0, 0]),
])
def test_learning_rates_may_be_arrays(value, rate, wanted):
    for cls in (SGD, Adam):
        opt = cls(lr=rate, params={"x": value})
        dr.backward(dr.sum(opt["x"]) * -1.0 if type(value)._depth >= 0 else dr.sum(opt["x"].array) * -1.0)
        opt.step()
        close(opt["x"], wanted)
        before = opt.learning_rate()
        if isinstance(before, dr.ArrayBase):
            before += 1  # a copy
            assert flat(opt.learning_rate()).tolist() == flat(rate).tolist()


@pytest.mark.parametrize(("value", "rate"), [
    (Float(0, 0), Float(1, 2, 3)), (Float(0), Float(1, 2)), (Float(0, 0), Array3f(1)), (Array3f(0), ad.Array2f(1)),
    (TensorXf([[0, 0]]), TensorXf([1, 2])), (TensorXf([[0, 0]]), Float(1, 2, 3)), (Quaternion4f(1), Array3f(1))])
def test_learning_rates_that_do_not_fit_are_refused_and_nothing_changes(value, rate):
    opt = Adam(lr=1, params={"first": Float(1), "x": value})
    opt.set_learning_rate(x=rate)
    dr.set_grad(opt["first"], 1)
    with pytest.raises(RuntimeError, match=r"Adam.step\(\): the learning rate does not fit the parameter 'x'"):
        opt.step()
    assert opt["first"][0] == 1 and opt["first"].grad[0] == 1
    opt.set_learning_rate(x=None)
    del opt["first"]
    with pytest.raises(RuntimeError, match=r"the argument 'grad_scale' does not fit the parameter 'x'"):
        opt.step(grad_scale=rate)


# --- arguments of a step ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [0.5, Float(0.5), Float(0.5, 0.5, 0.5), llvm.Float64(0.5)])
def test_gradients_are_scaled(scale):
    opt = SGD(lr=0.1, params={"x": Float(1, 2, 3)})
    advance(opt, [Float(*g) for g in GRADIENTS], grad_scale=scale)
    close(opt["x"], expected(sgd, {}, [1, 2, 3], GRADIENTS / 2))


@pytest.mark.parametrize(("cls", "rule", "options"), RULES, ids=IDS)
@pytest.mark.parametrize("off", [False, Bool(False), llvm.Bool([False]), "opaque"], ids=str)
def test_inactive_steps_change_nothing(cls, rule, options, off):
    """Neither values nor state, the count of steps included."""
    on = True
    if isinstance(off, str):
        on, off = dr.opaque(Bool, True), dr.opaque(Bool, False)
    gradients = [Float(*g) for g in GRADIENTS]
    opt = cls(lr=0.1, params={"x": Float(1, 2, 3)}, **options)
    for position, gradient in enumerate(gradients):
        for active in (off, on, off) if position != 2 else (off, None):
            dr.set_grad(opt["x"], gradient)
            opt.step(active=active)
            assert flat(opt["x"].grad).tolist() == [0, 0, 0]
    close(opt["x"], expected(rule, options, [1, 2, 3], GRADIENTS))


def test_masks_of_zeros_and_of_steps_go_together():
    opt = Adam(lr=0.1, mask_updates=True, params={"x": Float(1, 2, 3)})
    for gradient in GRADIENTS:
        for active in (dr.opaque(Bool, False), dr.opaque(Bool, True)):
            dr.set_grad(opt["x"], Float(*gradient))
            opt.step(active=active)
    close(opt["x"], expected(adam, {}, [1, 2, 3], GRADIENTS, masked=True))


@pytest.mark.parametrize("active", [1, "s", Float(1), ad.Array3b(True), [True]])
def test_what_is_no_mask_is_refused(active):
    opt = SGD(lr=1, params={"x": Float(1, 2)})
    with pytest.raises(TypeError, match=r"SGD.step\(\): 'active' must be a bool, or a mask with one element, found"):
        opt.step(active=active)
    with pytest.raises(RuntimeError, match=r"'active' must have one element, found 2"):
        opt.step(active=Bool(True, False))


def test_steps_that_are_not_evaluated_are_fused_with_what_follows():
    opt = Adam(lr=0.1, params={"x": Float(1, 2, 3)})
    for gradient in GRADIENTS:
        dr.set_grad(opt["x"], Float(*gradient))
        with dr.scoped_set_flag(dr.JitFlag.KernelHistory, True):
            dr.kernel_history_clear()
            opt.step(eval=False)
            assert opt["x"].state == dr.VarState.Unevaluated and not dr.kernel_history()
            opt["x"] = dr.clip(opt["x"], -10, 10)
            dr.eval(opt)
            assert len(dr.kernel_history()) == 1
        assert opt["x"].state == dr.VarState.Evaluated
    close(opt["x"], expected(adam, {}, [1, 2, 3], GRADIENTS))


# --- kernels and memory -----------------------------------------------------------------------------------------------


def optimise(opt, steps, scaler=None):
    """Steps of a program, and the kernels that each of them ran."""
    found = []
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory, True):
        dr.kernel_history_clear()
        for _ in range(steps):
            loss = sum((dr.sum(dr.square(v.array - 1)) if isinstance(v, TensorXf) else dr.sum(dr.square(v - 1)))
                       for v in opt.values())
            dr.backward(scaler.scale(loss) if scaler else loss)
            if scaler:
                scaler.step(opt)
            else:
                opt.step()
            found.append(dr.kernel_history())
    return found


ALL = [(cls, options) for cls, _, options in RULES] + [(Adam, {"mask_updates": True})]


@pytest.mark.parametrize(("cls", "options"), ALL, ids=[*IDS, "Adam-mask_updates"])
def test_a_step_is_a_kernel_for_each_size_and_the_same_one_every_time(cls, options):
    opt = cls(lr=0.1, params={"a": dr.zeros(Float, 100), "b": dr.full(Float, 3, 100), "c": dr.ones(TensorXf, (5, 4))},
              **options)
    dr.flush_kernel_cache()
    first, *others = optimise(opt, 6)
    opt.set_learning_rate(1.0)
    more = optimise(opt, 3)
    opt.set_learning_rate(a=0, b=1.0)  # another set of equal rates
    more += optimise(opt, 3)
    sizes = [kernel["size"] for kernel in first]
    assert sorted(set(sizes)) == [20, 100]
    if not options.get("uniform") or options.get("amsgrad"):
        assert len(sizes) == 2
    for kernels in [*others, *more]:
        assert sorted(kernel["size"] for kernel in kernels) == sorted(sizes)
        assert all(kernel["cache_hit"] for kernel in kernels)


def test_an_array_as_learning_rate_does_not_compile_anew():
    opt = Adam(lr=Float(0.5), params={"a": dr.zeros(Float, 100)})
    _, *others = optimise(opt, 4)
    for rate in (1.0, 0.0, 0.25):
        opt.set_learning_rate(Float(rate))
        others += optimise(opt, 2)
    assert all(kernel["cache_hit"] for kernels in others for kernel in kernels)


@pytest.mark.parametrize("make", [
    lambda: SGD(lr=0.1, momentum=0.9), lambda: RMSProp(lr=0.01), lambda: Adam(lr=0.1, uniform=True, mask_updates=True),
    lambda: AdamW(lr=Float(0.1), amsgrad=True), "scaled"], ids=["SGD", "RMSProp", "Adam", "AdamW", "scaled"])
def test_many_steps_leave_nothing_behind(make):
    scaler = GradScaler(growth_interval=20) if make == "scaled" else None
    opt = Adam(lr=0.1) if scaler else make()
    opt.update(a=dr.zeros(Float, 100), h=dr.zeros(Float16, 10))

    def state():
        dr.sync_thread()
        memory = core.malloc_statistics()
        return len(core.live_vertices()), memory["in_use"], memory["allocations"]

    def step():
        loss = dr.sum(dr.square(opt["a"] - 1)) + dr.sum(dr.square(opt["h"] - 1))
        dr.backward(scaler.scale(loss) if scaler else loss)
        scaler.step(opt) if scaler else opt.step()

    for _ in range(50):
        step()
    gc.collect()  # what others have left
    before = state()
    compiled = core.kernel_statistics()["compiled"]
    for _ in range(700):
        step()
    after = state()
    assert after[:2] == before[:2] and after[2] <= before[2] + 8
    assert core.kernel_statistics()["compiled"] == compiled
    close(opt["a"], [1] * 100, 0.2)


# --- loss scaling -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cls", [Float, Float16, Float64])
@pytest.mark.parametrize("bad", [dr.inf, -dr.inf, dr.nan])
def test_the_scale_follows_overflows(cls, bad):
    """It grows at each step, once there were more than growth_interval of them without an overflow."""
    opt, scaler = SGD(lr=1, params={"x": cls(1, 2)}), GradScaler(init_scale=16, growth_interval=2)
    scales, values = [], []
    for overflow in (0, 1, 0, 0, 1, 0, 0, 0, 0):
        x = opt["x"]
        dr.backward(scaler.scale(dr.sum(x * cls(0.125))) * (bad if overflow else 1))
        scaler.step(opt)
        scales.append(scaler.scale(Float(1))[0])
        values.append(opt["x"][0])
    assert scales == [16, 8, 8, 8, 4, 4, 4, 8, 16]
    assert values == [0.875, 0.875, 0.75, 0.625, 0.625, 0.5, 0.375, 0.25, 0.125]


def test_the_scale_stays_finite_and_above_zero():
    """Beyond, gradients would be infinite or NaN for ever, whatever the loss is."""
    opt = SGD(lr=0.25, params={"x": Float(2)})
    scaler = GradScaler(init_scale=2, growth_factor=2.0**70, growth_interval=0)
    for _ in range(4):
        dr.backward(scaler.scale(opt["x"]))
        scaler.step(opt)
    assert scaler.scale(Float(1))[0] == 2.0**71 and opt["x"][0] == 1
    scaler = GradScaler(init_scale=2, backoff_factor=2.0**-70)
    for _ in range(4):
        dr.set_grad(opt["x"], dr.nan)
        scaler.step(opt)
    dr.backward(scaler.scale(opt["x"]))
    scaler.step(opt)
    assert scaler.scale(Float(1))[0] == 2.0**-69 and opt["x"][0] == 0.75


@pytest.mark.parametrize(("options", "gradient", "last"), [
    ({"init_scale": 2.0**120, "growth_interval": 0, "growth_factor": 2.0**4}, 0, 2.0**124),
    ({"init_scale": 2.0**-120, "backoff_factor": 2.0**-4}, dr.nan, 2.0**-124)])
def test_the_scale_stays_a_number_that_gradients_can_be_divided_by(options, gradient, last):
    opt, scaler = SGD(lr=1, params={"x": Float(1, 2)}), GradScaler(**options)
    for _ in range(4):
        dr.set_grad(opt["x"], gradient)
        scaler.step(opt)
    assert scaler.scale(Float(1))[0] == last
    dr.set_grad(opt["x"], scaler.scale(Float(0.5)))
    scaler.step(opt)
    close(opt["x"], [0.5, 1.5])


def test_skipped_steps_are_not_counted():
    opt, scaler = Adam(lr=0.1, params={"x": Float(1)}), GradScaler(init_scale=4)
    for gradient in (dr.inf, dr.nan, 4):
        dr.set_grad(opt["x"], gradient)
        scaler.step(opt)
    close(opt["x"], [0.9])


def test_one_overflow_skips_the_step_of_all_parameters():
    opt, scaler = SGD(lr=1, params={"x": Float(1, 2), "y": TensorXf([[1, 2]]), "z": Array3f(1)}), GradScaler(2.0)
    dr.set_grad(opt["x"], 1)
    dr.set_grad(opt["z"], Array3f(0, dr.inf, 0))
    scaler.step(opt)
    assert flat(opt["x"]).tolist() == [1, 2]
    dr.set_grad(opt["x"], 1)
    scaler.step(opt, eval=False)
    assert opt["x"].state == dr.VarState.Unevaluated and flat(opt["x"]).tolist() == [0, 1]


def test_scaling_saves_gradients_of_half_precision():
    found = []
    for scaler in (None, GradScaler(init_scale=2.0**40)):  # which overflows at first
        opt = SGD(lr=1000, params={"x": Float16(1)})
        for _ in range(40):
            loss = Float(opt["x"] * Float16(1e-4) * Float16(1e-4))
            dr.backward(scaler.scale(loss) if scaler else loss)
            if scaler:
                scaler.step(opt)
            else:
                opt.step()
        found.append(1 - float(flat(opt._parameters["x"].value)[0]))
    assert found[0] == 0 and found[1] == pytest.approx(15e-5, rel=0.01)  # 25 steps overflow


def test_scale_and_unscale_are_the_inverse_of_each_other():
    scaler = GradScaler(init_scale=65536)
    assert scaler.scale(Float(1, 2))[1] == 131072 and scaler.unscale(scaler.scale(Float(3)))[0] == 3
    half = scaler.scale(Float16(1))
    assert type(half) is Float and half[0] == 65536  # which half precision has no number for
    assert type(scaler.scale(llvm.Float(1))) is llvm.Float and type(scaler.scale(TensorXf([1]))) is TensorXf
    x = Float(1)
    dr.enable_grad(x)
    dr.backward(scaler.scale(x))
    assert x.grad[0] == 65536
    for value in (1.0, "a", [Float(1)], ad.Int(1)):
        with pytest.raises(TypeError, match=r"GradScaler.scale\(\): the argument must be an array of floating-point"):
            scaler.scale(value)


def test_mistakes_with_a_scaler_are_named():
    scaler = GradScaler()
    with pytest.raises(TypeError, match=r"GradScaler.step\(\): 'opt' must be an optimiser, found int"):
        scaler.step(3)
    with pytest.raises(TypeError, match=r"GradScaler.step\(\): 'active', 'grad_scale' cannot be given"):
        scaler.step(SGD(lr=1), active=True, grad_scale=1)
    for option, value in (("init_scale", 0), ("growth_factor", 0.5), ("backoff_factor", 1), ("growth_interval", -1),
                          ("init_scale", dr.inf), ("init_scale", dr.nan), ("init_scale", 1e39), ("init_scale", 1e-40),
                          ("growth_factor", dr.inf), ("growth_factor", dr.nan)):
        with pytest.raises((RuntimeError, ValueError), match=rf"GradScaler\(\): '{option}' must be"):
            GradScaler(**{option: value})
    scaler.step(SGD(lr=1))  # of nothing


def test_a_scaler_tells_when_the_scale_changes(capsys):
    opt, scaler = SGD(lr=1, params={"x": Float(1)}), GradScaler(init_scale=16, growth_interval=1, debug=True)
    for gradient in (1, 1, dr.inf):
        dr.set_grad(opt["x"], gradient)
        scaler.step(opt)
    assert capsys.readouterr().out.splitlines() == [
        "GradScaler: increasing the scale from 16 to 32", "GradScaler: overflow: reducing the scale from 32 to 16"]
    assert "growth_interval=1" in repr(scaler)


def test_kernels_of_a_scaled_step_stay_the_same():
    opt, scaler = Adam(lr=0.1, params={"x": dr.zeros(Float16, 50)}), GradScaler(init_scale=2.0**30, growth_interval=5)
    kernels = optimise(opt, 30, scaler)
    assert all(kernel["cache_hit"] for found in kernels[3:] for kernel in found)
    close(opt["x"], [1] * 50, 0.3)


# --- copies -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, dr.copy, lambda opt: pickle.loads(pickle.dumps(opt))],
                         ids=["copy", "deepcopy", "drjit", "pickle"])
def test_a_copy_goes_on_by_itself(copied):
    gradients = [Float(*g) for g in GRADIENTS]
    opt = Adam(lr=0.1, params={"x": Float(1, 2, 3), "h": Float16(1)}, amsgrad=True)
    opt.set_learning_rate(h=Float(0.5))
    advance(opt, gradients[:2])
    other = copied(opt)
    assert type(other) is Adam and list(other) == ["x", "h"] and other.learning_rate("h")[0] == 0.5
    close(advance(opt, gradients[2:]), expected(adam, {"amsgrad": True}, [1, 2, 3], GRADIENTS))
    close(other["x"], expected(adam, {"amsgrad": True}, [1, 2, 3], GRADIENTS[:2]))
    assert type(other["h"]) is Float16
    close(advance(other, gradients[2:]), expected(adam, {"amsgrad": True}, [1, 2, 3], GRADIENTS))


def test_a_scaler_may_be_pickled():
    scaler = pickle.loads(pickle.dumps(GradScaler(init_scale=8)))
    assert scaler.scale(Float(1))[0] == 8


def test_an_optimizer_shows_its_parameters():
    opt = AdamW(lr=0.1, params={"x": Float(1, 2, 3), "y": Array3f(1)})
    opt.set_learning_rate(y=0.5)
    text = repr(opt)
    assert text.splitlines()[:4] == [
        "AdamW[", "  parameters = ['x', 'y'],", "  total_count = 6,", "  lr = {'default': 0.1, 'y': 0.5},"]
    assert "  weight_decay = 0.01,\n" in text and "beta_1 = 0.9" in text
    for opt, option in ((Muon(lr=1), "ns_steps = 5"), (SGD(lr=1), "nesterov = False"), (RMSProp(lr=1), "alpha = 0.99")):
        assert option in repr(opt)


def test_a_parameter_that_is_added_by_default_is_a_variable():
    opt = SGD(lr=0.5)
    x = opt.setdefault("x", Float(1, 2))
    dr.backward(x * 2)
    opt.step()
    close(opt.setdefault("x", Float(7)), [0, 1])
    with pytest.raises(TypeError, match="the parameter 'y' must be an array"):
        opt.setdefault("y")


@pytest.mark.parametrize("make", [lambda: SGD(lr=0.1, momentum=0.5), lambda: RMSProp(lr=0.1), lambda: Adam(lr=0.1)],
                         ids=["SGD", "RMSProp", "Adam"])
def test_an_optimizer_is_state_of_a_loop(make):
    def advanced(i, opt):
        dr.backward(dr.square(opt["x"] - 3))
        opt.step(eval=False)
        return i + 1, opt

    wanted, opt = make(), make()
    wanted["x"] = opt["x"] = Float(1, 2)
    for _ in range(4):
        advanced(0, wanted)
    evaluated = dr.while_loop((ad.UInt32(0), opt), lambda i, opt: i < 4, advanced, mode="evaluated")[1]
    assert dr.allclose(evaluated["x"], wanted["x"], rtol=1e-6)
    opt = make()
    opt["x"] = Float(1, 2)
    symbolic = dr.while_loop((ad.UInt32(0), opt), lambda i, opt: i < 4, advanced, mode="symbolic")[1]
    # kernels that are fused round otherwise
    assert dr.allclose(symbolic["x"], wanted["x"], rtol=1e-6)
