"""States as dictionaries: of modules, encodings, optimisers, scalers and generators; initial weights by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import drjit as dr
from drjit import nn
from drjit.llvm.ad import Float, Float16, Float64, TensorXf, TensorXf16, TensorXf64, UInt64
from drjit.opt import SGD, Adam, AdamW, GradScaler, Muon, RMSProp


def network(dtype: Any = TensorXf, seed: int = 0) -> Any:
    return nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(-1, 1), prefix="net").alloc(dtype, rng=dr.rng(seed))


KEYS = ["net.layers.0.weights", "net.layers.0.bias", "net.layers.2.weights", "net.layers.2.bias"]


def same(a: Any, b: Any) -> bool:
    return a.keys() == b.keys() and all(
        type(a[key]) is type(b[key]) and np.array_equal(np.array(a[key]), np.array(b[key])) for key in a)


@pytest.mark.parametrize("form", ["plain", "packed", "unpacked"])
@pytest.mark.parametrize("other", ["plain", "packed", "unpacked"])
@pytest.mark.parametrize("dtype", [TensorXf16, TensorXf, TensorXf64])
def test_the_state_of_a_module_is_the_same_in_each_form(form: str, other: str, dtype: Any) -> None:
    def formed(net: Any, form: str) -> Any:
        return net if form == "plain" else nn.pack(net) if form == "packed" else nn.unpack(nn.pack(net))

    source, target = formed(network(dtype), form), formed(network(dtype, seed=1), other)
    state = source.state_dict()
    assert list(state) == KEYS and [value.shape for value in state.values()] == [(8, 1), (8,), (1, 8), (1,)]
    before = target.state_dict()
    assert not same(state, before)
    assert target.load_state_dict(state) == ([], [])
    assert same(target.state_dict(), state) and not same(before, state)


def test_only_a_part_of_a_buffer_is_written() -> None:
    net, rest = nn.pack(network(), Float(5, 6))
    net.load_state_dict({key: value * 0 + 1 for key, value in net.state_dict().items()})
    assert rest.buffer is net["net.weights"] and rest.buffer.numpy().tolist() == [1] * 25 + [5, 6]


def test_gradients_are_wanted_of_what_is_loaded_where_they_were_before() -> None:
    for net in (network(), nn.pack(network())):
        state = net.state_dict()
        assert not any(dr.grad_enabled(value) for value in state.values())
        net.load_state_dict(state)
        assert not dr.grad_enabled(net)
        dr.enable_grad([net[key] for key in net])
        net.load_state_dict(state)
        assert all(dr.grad_enabled(net[key]) for key in net)
        assert not any(dr.grad_enabled(value) for value in net.state_dict().values())


@pytest.mark.parametrize(("change", "error", "text"), [
    (lambda state: state.pop(KEYS[0]), KeyError, "missing: 'net.layers.0.weights'"),
    (lambda state: state.update(x=1, y=2), KeyError, "unknown: 'x', 'y'"),
    (lambda state: state.update({KEYS[3]: TensorXf([1, 2])}), ValueError, r"'net.layers.2.bias' must have the shape "
                                                                          r"\(1,\), found \(2,\)"),
    (lambda state: state.update({KEYS[3]: TensorXf64([1])}), TypeError, "must be of the type Float32, found Float64"),
    (lambda state: state.update({KEYS[3]: np.zeros(1)}), TypeError, "must be of the type Float32, found float64"),
    (lambda state: state.update({KEYS[3]: 1.0}), TypeError, "must be an array of the type Float32 .*, found float"),
])
@pytest.mark.parametrize("packed", [False, True])
def test_a_state_that_does_not_fit_changes_nothing(change: Any, error: Any, text: str, packed: bool) -> None:
    net = nn.pack(network()) if packed else network()
    before = net.state_dict()
    state = network(seed=1).state_dict()
    change(state)
    with pytest.raises(error, match=text):
        net.load_state_dict(state)
    assert same(net.state_dict(), before)


def test_what_is_not_strict_takes_what_there_is() -> None:
    net = network()
    found = net.load_state_dict({KEYS[1]: np.full(8, 2.0), "other": 1}, strict=False)
    assert found.missing_keys == [KEYS[0], *KEYS[2:]] and found.unexpected_keys == ["other"]
    assert net[KEYS[1]].numpy().tolist() == [2] * 8
    with pytest.raises(ValueError, match="shape"):
        net.load_state_dict({KEYS[1]: np.full(3, 2.0)}, strict=False)
    with pytest.raises(TypeError, match="dictionary"):
        net.load_state_dict(None)
    with pytest.raises(KeyError, match="unknown"):
        nn.Linear(1, 2).load_state_dict(net.state_dict())


def test_encodings_belong_to_the_state_of_a_network() -> None:
    enc = nn.HashGridEncoding(Float, 2, n_levels=2)
    net = nn.Sequential(nn.HashEncodingLayer(enc), nn.Linear(-1, 1)).alloc(TensorXf)
    state = nn.pack(net).state_dict()
    assert list(state) == ["layers.0.encoding.data", "layers.1.weights", "layers.1.bias"]
    net.load_state_dict({**state, "layers.0.encoding.data": state["layers.0.encoding.data"] + 1})
    assert dr.allclose(enc.params - 1, state["layers.0.encoding.data"], atol=1e-6)
    assert list(enc.state_dict()) == ["data"]
    with pytest.raises(ValueError, match="'data' must have the shape"):
        enc.load_state_dict({"data": Float(1)})


def test_constants_are_no_part_of_a_state() -> None:
    net = nn.Sequential(nn.LeakyReLU(Float(0.5)), nn.ScaleAdd(Float(1), 2))
    assert net.state_dict() == {} and nn.pack(net).layers[0].negative_slope is net.layers[0].negative_slope


OPTIMISERS: dict[str, Any] = {
    "sgd": lambda params: SGD(lr=0.1, momentum=0.5, params=params), "rmsprop": lambda params: RMSProp(0.1, params),
    "adam": lambda params: Adam(0.1, params), "amsgrad": lambda params: AdamW(0.1, params, amsgrad=True),
    "muon": lambda params: Muon(0.1, params)}


def advance(opt: Any, active: Any = None) -> None:
    for key in list(opt):
        value = opt[key]
        dr.backward(dr.sum(dr.sin(value * 3), axis=None))
    opt.step(active=active)


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("name", list(OPTIMISERS))
def test_an_optimiser_goes_on_with_the_same_bits(name: str, masked: bool, half: bool) -> None:
    def params() -> Any:
        return {"x": (TensorXf16 if half else TensorXf)(np.linspace(-1, 1, 6).astype(np.float32), (2, 3))}

    opt, other = OPTIMISERS[name](params()), OPTIMISERS[name](params())
    active = dr.opaque(dr.mask_t(Float), True) if masked else None
    for _ in range(3):
        advance(opt, active)
    opt.set_learning_rate(0.05)
    opt.set_learning_rate(x=0.025)
    state = opt.state_dict()
    advance(other)  # what it has by itself goes away
    other.load_state_dict(state)
    assert same(other.state_dict(), state)
    for _ in range(3):
        advance(opt, active)
        advance(other, active)
    assert same(other.state_dict(), opt.state_dict()) and not same(state, opt.state_dict())
    assert other.learning_rate("x") == 0.025


def test_an_optimiser_refuses_what_does_not_fit() -> None:
    opt = Adam(0.1, {"x": Float(1, 2)})
    state = opt.state_dict()
    for change, error, text in (({"x.first": Float(1)}, ValueError, r"'x.first' must have the shape \(2,\)"),
                                ({"x.steps": 1.5}, TypeError, "'x.steps' must be of the type int, found float"),
                                ({"lr": "fast"}, TypeError, "'lr' must be a number"),
                                ({"y.value": Float(1)}, KeyError, "unknown: 'y.value'")):
        with pytest.raises(error, match=text):
            opt.load_state_dict({**state, "x.value": Float(5, 6), **change})
        assert same(opt.state_dict(), state)


def test_a_frozen_step_goes_on_after_loading() -> None:
    @dr.freeze
    def step(opt: Any) -> None:
        dr.backward(dr.sum(dr.square(opt["x"] - 1)))
        opt.step()

    opt = Adam(0.1, {"x": Float(1, 2)})
    for _ in range(4):
        step(opt)
    state, count = opt.state_dict(), step.n_recordings
    for _ in range(3):
        step(opt)
    after = opt.state_dict()
    opt.load_state_dict(state)
    for _ in range(3):
        step(opt)
    assert same(opt.state_dict(), after) and step.n_recordings == count


def test_scalers_and_generators() -> None:
    scaler, other = GradScaler(4.0, growth_interval=1), GradScaler()
    opt = SGD(0.1, {"x": Float16(1)})
    scaler.step(opt)
    other.load_state_dict(scaler.state_dict())
    assert other.state_dict() == scaler.state_dict() == {"scale": 4.0, "steps": 1}
    with pytest.raises(TypeError, match="'steps' must be of the type int"):
        other.load_state_dict({"scale": 1.0, "steps": True})
    for seed in (7, UInt64(1, 2)):
        rng, second = dr.rng(seed), dr.rng()
        rng.random(Float, 2)
        second.load_state_dict(rng.state_dict())
        assert (rng.random(Float, 2) == second.random(Float, 2)).numpy().all()
    with pytest.raises(TypeError, match="'seed' does not fit"):
        dr.rng().load_state_dict({"seed": -1, "counter": 0})


def test_learning_rates_by_predicate() -> None:
    net = network()
    opt = SGD(lr=1, params=net)
    opt.set_learning_rate({lambda name: name.endswith("bias"): 0.5, KEYS[3]: 0.25})
    assert [opt.learning_rate(key) for key in KEYS] == [None, 0.5, None, 0.25]
    packed = nn.pack(net)
    opt = SGD(lr=1, params=packed)
    opt.set_learning_rate(packed.spread(lambda name: 0 if name.endswith("bias") else 2))
    dr.set_grad(opt["net.weights"], 1)
    before = packed.state_dict()
    opt.step()
    packed.update(opt)
    for key, value in packed.state_dict().items():
        assert np.allclose((before[key] - value).numpy(), 0 if key.endswith("bias") else 2)
    assert net.spread(len) == {key: len(key) for key in KEYS}


def test_the_table_of_parameters() -> None:
    table = nn.pack(network()).parameters(lambda name: "bias" in name)
    assert repr(table).splitlines() == ["name               shape  type     elements",
                                        "net.layers.0.bias  (8,)   Float32  8",
                                        "net.layers.2.bias  (1,)   Float32  1",
                                        "total                              9"]
    assert repr(nn.ReLU().parameters()).splitlines()[-1].split() == ["total", "0"]


VARIANCES = {"default": 1 / 3 / 60, "torch": 1 / 3 / 40, "glorot_uniform": 2 / 100, "glorot_normal": 2 / 100,
             "xavier_normal": 2 / 100, "he_uniform": 2 / 40, "he_normal": 2 / 40, "kaiming_uniform": 2 / 40,
             "lecun_uniform": 1 / 40, "lecun_normal": 1 / 40, "siren_first": 1 / 3 / 1600, "siren": 2 / 40 / 900,
             "normal": 1, "orthogonal": 1 / 60, "zeros": 0}


@pytest.mark.parametrize("dtype", [TensorXf16, TensorXf, TensorXf64])
@pytest.mark.parametrize("name", list(VARIANCES))
def test_initial_weights_by_name(name: str, dtype: Any) -> None:
    layer = nn.Linear(40, 60, init=name).alloc(dtype)
    weights = TensorXf64(layer["weights"]).numpy()
    assert abs(weights.mean()) < 3 * (VARIANCES[name] / 2400) ** 0.5 + 1e-9
    assert np.isclose(weights.var(), VARIANCES[name], rtol=0.1, atol=1e-12)
    bias = Float64(layer["bias"].array).numpy()
    if name in ("torch", "siren", "siren_first"):
        assert np.isclose(bias.var(), 1 / 3 / 40, rtol=0.4)
    else:
        assert not bias.any()
    if name == "orthogonal":
        assert np.allclose(weights.T @ weights, np.eye(40), atol=1e-2 if dtype is TensorXf16 else 1e-6)
    assert (f"init={name!r}" in repr(layer)) == (name != "default")


def test_other_initial_weights() -> None:
    layer = nn.Linear(3, 2, init=lambda rng, dtype, shape: dr.full(dtype, 2, shape)).alloc(TensorXf16)
    assert layer["weights"].numpy().tolist() == [[2] * 3] * 2
    with pytest.raises(ValueError, match=r"'init' must be a function or one of 'default', .*, found 'random'"):
        nn.Linear(3, 2, init="random")
    with pytest.raises(ValueError, match=r"shape \(2, 3\)"):
        nn.Linear(3, 2, init=lambda rng, dtype, shape: dr.zeros(dtype, 3)).alloc(TensorXf)
    assert (nn.Linear(3, 2).alloc(TensorXf)["weights"] == nn.Linear(3, 2, init="default").alloc(TensorXf)[
        "weights"]).numpy().all()
