"""Learning-rate schedules, clipping, accumulation over micro-batches, and averages of parameters."""

from __future__ import annotations

import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import drjit as dr
from drjit import nn
from drjit.llvm.ad import Array2f, Float, Float16, Float64, TensorXf, TensorXf16, UInt
from drjit.opt import (
    SGD,
    Accumulator,
    Adam,
    AdamW,
    Average,
    GradScaler,
    Muon,
    RMSProp,
    Schedule,
    clip_grad_norm,
    clip_grad_value,
)

S = Schedule
#: Schedules with their models.
SCHEDULES: dict[str, tuple[Schedule, Any]] = {
    "constant": (S.constant(0.5), lambda t: 0.5),
    "linear": (S.linear(1, 10, 0.25), lambda t: 1 - 0.75 * min(t / 10, 1)),
    "cosine": (S.cosine(0.5, 12, 0.1), lambda t: 0.1 + 0.2 * (1 + math.cos(math.pi * min(t / 12, 1)))),
    "exponential": (S.exponential(0.5, 0.5, 4), lambda t: 0.5 * 0.5 ** (t / 4)),
    "staircase": (S.exponential(0.5, 0.1, 3, staircase=True), lambda t: 0.5 * 0.1 ** (t // 3)),
    "piecewise": (S.piecewise(1, {3: 0.5, 7: 0}), lambda t: 1 if t < 3 else 0.5 if t < 7 else 0),
    "warmup": (S.cosine(0.5, 12).warmup(4, 0.1), lambda t: 0.1 + 0.1 * t if t < 4 else 0.25 * (
        1 + math.cos(math.pi * min((t - 4) / 12, 1)))),
    "joined": (S.joined([S.constant(1), S.linear(0.5, 4), S.constant(0.125)], [3, 7]),
               lambda t: 1 if t < 3 else 0.5 - 0.125 * (t - 3) if t < 7 else 0.125),
}


@pytest.mark.parametrize("name", list(SCHEDULES))
def test_a_schedule_is_its_model(name: str) -> None:
    schedule, model = SCHEDULES[name]
    expected = [model(t) for t in range(20)]
    found = [schedule(t) for t in range(20)]
    assert all(type(rate) is float for rate in found) and np.allclose(found, expected, rtol=1e-12)
    for steps, tolerance in ((dr.arange(UInt, 20), 1e-6), (dr.arange(Float64, 20), 1e-12)):
        assert np.allclose(schedule(steps).numpy(), expected, rtol=tolerance, atol=1e-7 if tolerance > 1e-7 else 1e-15)
    assert pickle.loads(pickle.dumps(schedule)) == schedule and hash(schedule) == hash(pickle.loads(pickle.dumps(
        schedule)))
    assert eval(repr(schedule), {"Schedule": S}) == schedule


def advance(opt: Any, active: Any = None) -> None:
    for key in list(opt):
        dr.backward(dr.sum(dr.square(opt[key] - 1), axis=None))
    opt.step(active=active)


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("name", list(SCHEDULES))
@pytest.mark.parametrize("make", [SGD, Adam, RMSProp, Muon])
def test_an_optimiser_follows_a_schedule(make: Any, name: str, frozen: bool) -> None:
    schedule = SCHEDULES[name][0]

    def params() -> Any:
        return {"x": TensorXf([0.5, 2, 3, -1], (2, 2))}

    opt, other = make(schedule, params()), make(1.0, params())
    step = dr.freeze(advance) if frozen else advance
    for t in range(12):
        other.set_learning_rate(schedule(t))
        assert np.allclose(opt.learning_rate().numpy(), schedule(t), rtol=1e-6, atol=1e-7)
        advance(other)
        step(opt)
        tolerance = 1e-2 if make is Muon else 1e-4  # whose directions change much where gradients are small
        assert np.allclose(opt["x"].numpy(), other["x"].numpy(), rtol=tolerance, atol=tolerance / 10)
    if frozen:
        assert step.n_recordings <= 2


def test_steps_of_a_schedule_compile_nothing_anew() -> None:
    opt = Adam(S.cosine(0.1, 100).warmup(5), {"x": Float(1, 2, 3)})
    for _ in range(3):
        advance(opt)
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory, True):
        dr.kernel_history_clear()
        for _ in range(10):
            advance(opt)
        assert all(entry["cache_hit"] for entry in dr.kernel_history())


def test_steps_that_are_left_out_do_not_count() -> None:
    opt = SGD(S.linear(1, 10), {"x": Float(0)})
    for active in (False, dr.opaque(dr.mask_t(Float), False), True, dr.opaque(dr.mask_t(Float), True)):
        advance(opt, active)
    assert np.allclose(opt.learning_rate().numpy(), 0.8) and opt.state_dict()["clock"] == 2
    scaler = GradScaler(1.0)
    dr.set_grad(opt["x"], dr.inf)
    scaler.step(opt)
    assert opt.state_dict()["clock"] == 2


def test_a_schedule_goes_on_after_loading_copying_and_pickling() -> None:
    opt = Adam(S.cosine(0.1, 10), {"x": Float(1, 2)})
    for _ in range(4):
        advance(opt)
    other = Adam(S.cosine(0.1, 10), {"x": Float(5, 5)})
    other.load_state_dict(opt.state_dict())
    for made in (other, dr.copy(opt), pickle.loads(pickle.dumps(opt))):
        before = opt.state_dict()
        expected = dr.copy(opt)
        for _ in range(3):
            advance(made)
            advance(expected)
        assert made.state_dict()["clock"] == 7 and opt.state_dict()["clock"] == 4
        assert (made["x"] == expected["x"]).numpy().all() and (before["x.value"] == opt["x"]).numpy().all()
    with pytest.raises(KeyError, match="missing: 'lr'; unknown: 'clock'"):
        Adam(0.1, {"x": Float(1, 2)}).load_state_dict(opt.state_dict())


def test_a_schedule_of_one_parameter() -> None:
    opt = SGD(1, {"x": Float(0), "y": Float(0)})
    opt.set_learning_rate(x=S.piecewise(0, {1: 1}))
    for _ in range(2):
        for key in opt:
            dr.set_grad(opt[key], 1)
        opt.step()
    assert opt["x"][0] == -1 and opt["y"][0] == -2 and "Schedule.piecewise" in repr(opt)


@pytest.mark.parametrize(("make", "text"), [
    (lambda: S(), "made by its methods"), (lambda: S.constant(-1), "'lr' must be a finite number"),
    (lambda: S.cosine(1, 0), "'steps' must be a positive int"), (lambda: S.linear(1, 5, math.inf), "'last'"),
    (lambda: S.exponential(1, 0), "'factor' must be positive"), (lambda: S.piecewise(1, {5: 1, 3: 2}), "increasing"),
    (lambda: S.joined([S.constant(1)], [1]), "one boundary less"), (lambda: S.constant(1).warmup(0), "'steps'"),
    (lambda: S.constant(1)(-1), "a step is a number"), (lambda: S.constant("fast"), "'lr' must be a finite number"),
])
def test_schedules_that_are_wrong(make: Any, text: str) -> None:
    with pytest.raises((ValueError, TypeError), match=text):
        make()


def gradients(opt: Any) -> list[Any]:
    return [np.array(dr.grad(opt[key])).ravel() for key in opt]


@pytest.mark.parametrize("dtype", [Float, Float16, Float64, Array2f, TensorXf])
def test_clipping(dtype: Any) -> None:
    def value(*numbers: float) -> Any:
        return TensorXf(numbers) if dtype is TensorXf else Array2f(*numbers) if dtype is Array2f else dtype(numbers)

    def make() -> Any:
        opt = SGD(1.0, {"x": value(0, 0), "y": value(0, 0)})
        dr.set_grad(opt["x"], value(3, -4))
        dr.set_grad(opt["y"], value(0, 12))
        return opt

    opt = make()
    assert clip_grad_norm(opt, 26)[0] == 13 and np.allclose(gradients(opt), [[3, -4], [0, 12]], rtol=1e-3)
    assert clip_grad_norm(opt, 6.5)[0] == 13 and np.allclose(gradients(opt), [[1.5, -2], [0, 6]], rtol=1e-3)
    opt = make()
    clip_grad_norm(opt, GradScaler(2).scale(Float(3.25)))
    opt.step()
    assert np.allclose(np.array(opt["x"]).ravel(), [-1.5, 2], rtol=1e-3)
    opt = make()
    clip_grad_value(opt, 3.5)
    assert np.allclose(gradients(opt), [[3, -3.5], [0, 3.5]])


def test_clipping_of_modules_of_constants_and_of_what_is_not_finite() -> None:
    net = nn.Linear(2, 2).alloc(TensorXf)
    dr.enable_grad([net[key] for key in net])
    dr.backward(dr.sum(net["weights"] * 3, axis=None))  # a gradient of one value
    assert clip_grad_norm(net, 3)[0] == 6
    assert np.allclose(net["weights"].grad.numpy(), 1.5) and not net["bias"].grad.numpy().any()
    x = Float(0, 0)
    dr.enable_grad(x)
    dr.set_grad(x, Float(dr.inf, 1))
    assert clip_grad_norm([x], 1)[0] == dr.inf and np.isnan(x.grad[0]) and x.grad[1] == 0
    dr.set_grad(x, Float(dr.nan, 1))
    clip_grad_norm(x, 1)
    assert np.isnan(x.grad.numpy()).all()
    x = Float16(0, 0)
    dr.enable_grad(x)
    dr.set_grad(x, Float16(3e4, 4e4))  # whose squares overflow
    assert np.isclose(clip_grad_norm(x, 5)[0], 5e4, rtol=1e-3) and np.allclose(x.grad.numpy(), [3, 4], rtol=1e-3)
    dr.set_grad(x, 0)
    assert clip_grad_norm(x, 1)[0] == 0 and not x.grad.numpy().any()
    with pytest.raises(ValueError, match="no arrays"):
        clip_grad_norm([], 1)
    with pytest.raises(ValueError, match="'limit'"):
        clip_grad_value(x, -1)


def test_clipping_in_a_frozen_step() -> None:
    def step(opt: Any) -> Any:
        dr.backward(dr.sum(dr.square(opt["x"])))
        norm = clip_grad_norm(opt, 1)
        opt.step()
        return norm

    opt, other = (Adam(0.1, {"x": Float(3, 4)}) for _ in range(2))
    frozen = dr.freeze(step)
    for _ in range(5):
        assert np.allclose(frozen(opt).numpy(), step(other).numpy())
    assert np.allclose(opt["x"].numpy(), other["x"].numpy(), rtol=1e-6) and frozen.n_recordings <= 2


@pytest.mark.parametrize("half", [False, True])
def test_micro_batches_are_one_batch(half: bool) -> None:
    x = np.linspace(-1, 1, 12, dtype=np.float32).reshape(2, 6)

    def loss(opt: Any, x: Any) -> Any:
        w = (TensorXf16 if half else TensorXf)(opt["w"])
        return dr.mean(dr.square(dr.sum(w * TensorXf(x), axis=0) - 1), axis=None)

    opt, whole = (Adam(0.1, {"w": TensorXf([0.5, 0.25], (2, 1))}) for _ in range(2))
    scaler = GradScaler(8.0) if half else None
    batches = Accumulator(opt, every=3)
    for _ in range(4):
        dr.backward(loss(whole, x))
        whole.step()
        made = []
        for part in np.split(x, 3, axis=1):
            value = loss(opt, part)
            dr.backward(value if scaler is None else scaler.scale(value))
            made.append(batches.step(scaler))
        assert made == [False, False, True]
    assert np.allclose(opt["w"].numpy(), whole["w"].numpy(), rtol=1e-4 if half else 1e-5)


def test_accumulation_goes_on_after_loading() -> None:
    def micro(opt: Any, batches: Any, value: float) -> None:
        dr.backward(opt["x"] * value)
        batches.step()

    opt, other = (SGD(1, {"x": Float(0, 0)}) for _ in range(2))
    batches, second = Accumulator(opt, 3), Accumulator(other, 3)
    micro(opt, batches, 3)
    micro(opt, batches, 6)
    micro(other, second, 100)
    second.load_state_dict(batches.state_dict())
    micro(other, second, 9)
    assert other["x"].numpy().tolist() == [-6, -6] and second.count == 0
    for bad in (lambda: Accumulator(opt, 0), lambda: Accumulator({}, 1)):
        with pytest.raises((ValueError, TypeError)):
            bad()


@pytest.mark.parametrize("first", ["opt", "batches"])
def test_checkpoints_between_micro_batches_keep_their_gradients(first: str, tmp_path: Path) -> None:
    """The optimiser's values are loaded as well, in either order: by 3 and 6, then 9, the mean is 6."""
    def made() -> dict[str, Any]:
        opt = SGD(1, {"x": Float(0, 0)})
        both = {"opt": opt, "batches": Accumulator(opt, 3)}
        return {key: both[key] for key in sorted(both, key=lambda key: key != first)}

    def micro(state: dict[str, Any], value: float) -> None:
        dr.backward(state["opt"]["x"] * value)
        state["batches"].step()

    state, other = made(), made()
    micro(state, 3)
    micro(state, 6)
    nn.save_checkpoint(tmp_path, state, 2)
    nn.load_checkpoint(tmp_path, other)
    micro(other, 9)
    assert other["opt"]["x"].numpy().tolist() == [-6, -6] and other["batches"].count == 0


@pytest.mark.parametrize("within", [False, True])
def test_frozen_steps_of_micro_batches(within: bool) -> None:
    """A step is made by every third call of a frozen function as well; of another accumulator, by every second."""
    def step(state: Any, opt: Any, x: Any) -> Any:
        loss = dr.sum(opt["w"] * x)
        dr.backward(loss)
        made = (state["batches"] if within else state).step()
        return loss, made

    frozen = dr.freeze(step)
    for every in (3, 2):
        results = []
        for function in (step, frozen):
            opt = Adam(0.5, {"w": Float(0, 1)})
            batches = Accumulator(opt, every)
            found = [function({"batches": batches} if within else batches, opt, Float(k, 1)) for k in range(8)]
            results.append(([made for _, made in found], [loss.numpy().tolist() for loss, _ in found],
                            opt["w"].numpy().tolist(), dr.grad(opt["w"]).numpy().tolist(), batches.count))
        assert results[0] == results[1] and results[0][0] == [(k + 1) % every == 0 for k in range(8)]


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("schedule", [False, True])
def test_weights_decay_by_predicate(schedule: bool, frozen: bool) -> None:
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(-1, 1)).alloc(TensorXf)
    packed = nn.pack(net)
    rate: Any = S.linear(0.1, 20) if schedule else 0.1

    def weight(name: str) -> float:
        return 0.5 if name.endswith("weights") else 0.0

    def step(opt: Any) -> None:
        for key in opt:
            dr.set_grad(opt[key], 0.5)
        opt.step()

    first = AdamW(rate, net, weight_decay={lambda name: True: 0, lambda name: name.endswith("weights"): 0.5})
    second = AdamW(rate, packed, weight_decay=packed.spread(weight))
    third = Adam(rate, net)
    fourth = AdamW(rate, net, weight_decay=0.5)
    steps = [dr.freeze(step) if frozen else step for _ in range(4)]
    for _ in range(6):
        for opt, function in zip((first, second, third, fourth), steps, strict=True):
            function(opt)
    net.update(first)
    packed.update(second)
    for key, value in packed.state_dict().items():
        other = fourth if key.endswith("weights") else third
        assert np.allclose(net[key].numpy(), value.numpy(), rtol=1e-5) and np.allclose(
            net[key].numpy(), other[key].numpy(), rtol=1e-5)
    assert not frozen or all(function.n_recordings <= 2 for function in steps)


def test_weight_decay_that_is_wrong() -> None:
    with pytest.raises(ValueError, match="'weight_decay' must be >= 0"):
        AdamW(0.1, {"x": Float(1)}, weight_decay={"x": -1})
    opt = AdamW(0.1, {"x": Float(1, 2)}, weight_decay={"x": Float(1, 2, 3)})
    with pytest.raises(ValueError, match="the weight decay does not fit the parameter 'x'"):
        opt.step()


def test_averages() -> None:
    net = nn.Sequential(nn.Linear(2, 3), nn.Linear(-1, 1)).alloc(TensorXf16)
    average = Average(net, 0.75)
    expected = {key: net[key].numpy().astype(np.float64) for key in net}
    rng = np.random.default_rng(0)
    for _ in range(5):
        for key in net:
            net[key] = TensorXf16(rng.normal(size=net[key].shape).astype(np.float16))
            expected[key] = 0.75 * expected[key] + 0.25 * net[key].numpy().astype(np.float64)
        average.update(net)
    state = average.state_dict()
    assert all(np.allclose(state[key].numpy(), expected[key], atol=1e-6) for key in expected)
    assert type(average["layers.0.bias"]) is TensorXf16 and list(average) == list(net)
    net.update(average)
    assert np.allclose(net["layers.0.weights"].numpy(), expected["layers.0.weights"], atol=1e-3)
    other = Average(net, 0.75)
    other.load_state_dict(state)
    assert all((other[key] == average[key]).numpy().all() for key in net)
    packed = nn.pack(net)
    opt = SGD(1, packed)
    average = Average(opt, 0.5)
    average.update(opt)
    packed.update(average)
    assert not dr.grad_enabled(average["weights"])
    with pytest.raises(KeyError, match="missing: 'weights'"):
        average.update({})
    with pytest.raises(ValueError, match="must be an array of the shape"):
        average.update({"weights": Float16(1)})
    with pytest.raises(TypeError, match="'x' must be an array of floating-point"):
        Average({"x": UInt(1)})


def test_averages_in_a_frozen_step() -> None:
    def step(opt: Any, average: Any) -> None:
        dr.backward(dr.sum(dr.square(opt["x"])))
        opt.step()
        average.update(opt)

    opt, other = (SGD(0.1, {"x": Float(3, 4)}) for _ in range(2))
    first, second = Average(opt, 0.5), Average(other, 0.5)
    frozen = dr.freeze(step)
    for _ in range(5):
        frozen(opt, first)
        step(other, second)
    assert np.allclose(first["x"].numpy(), second["x"].numpy()) and frozen.n_recordings <= 2


@pytest.mark.exhaustive
def test_ten_thousand_steps_grow_nothing_and_compile_nothing() -> None:
    net = nn.pack(nn.Sequential(nn.Linear(1, 16), nn.SiLU(), nn.LayerNorm(), nn.Dropout(0.1), nn.Linear(-1, 1)).alloc(
        TensorXf), layout="training")
    opt = AdamW(S.cosine(1e-2, 10_000).warmup(100), net, weight_decay=net.spread(lambda name: 0.01))
    average, rng = Average(net), dr.rng(3)

    @dr.freeze
    def step(net: Any, opt: Any, average: Any, x: Any) -> None:
        net.update(opt)
        y, = net(nn.CoopVec(x))
        dr.backward(dr.mean(dr.square(y - dr.sin(3 * x))))
        clip_grad_norm(opt, 1)
        opt.step()
        average.update(opt)

    def memory() -> int:
        dr.sync_thread()
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096

    sizes = []
    for number in range(10_000):
        step(net, opt, average, rng.random(Float, 256))
        if number % 1000 == 999:
            sizes.append((memory(), step.n_recordings))
    assert sizes[-1][0] - sizes[1][0] < 2**21 and sizes[-1][1] == sizes[0][1] <= 3
