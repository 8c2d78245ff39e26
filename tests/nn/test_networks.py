"""Networks: each layer against a model with NumPy, in both forms, and their derivatives."""

from __future__ import annotations

import pickle
from typing import Any, ClassVar

import numpy as np
import pytest

import drjit as dr
from drjit import nn
from drjit.llvm import ad
from drjit.llvm.ad import Float, Float16, Float64, TensorXf, TensorXf16, TensorXf64, UInt
from drjit.opt import Adam
from drjit_core import limits
from tests.nn.model import run

LAYERS: dict[str, Any] = {
    "relu": nn.ReLU, "leaky": nn.LeakyReLU, "exp": nn.Exp, "exp2": nn.Exp2, "tanh": nn.Tanh,
    "scale": lambda: nn.ScaleAdd(2, -1), "sin": lambda: nn.SinEncode(2, 0.25), "tri": lambda: nn.TriEncode(2, 0.25)}
TYPES: list[tuple[Any, float]] = [(TensorXf64, 1e-12), (TensorXf, 2e-5), (TensorXf16, 2e-2), (ad.TensorXbf16, 1e-1)]


def network(rng: Any, dtype: Any, depth: int) -> tuple[Any, list[tuple[str, Any]], int]:
    """A random network, and the same for the model."""
    inputs = int(rng.integers(1, 6))
    layers: list[Any] = []
    for _ in range(depth):
        layers.append(nn.Linear(-1, int(rng.integers(1, 12)), bias=bool(rng.integers(2))))
        layers.append(LAYERS[str(rng.choice(list(LAYERS)))]())
    net = nn.Sequential(*layers).alloc(dtype, inputs)
    for key in net:
        if key.endswith("bias"):
            net[key] = dtype(rng.uniform(-1, 1, net[key].shape).astype(np.float32))
    names = {type(make()): name for name, make in LAYERS.items()}
    model = [("linear", (to_numpy(layer.weights), None if layer.bias is None else to_numpy(layer.bias)))
             if isinstance(layer, nn.Linear) else (names[type(layer)], None) for layer in net.layers]
    return net, model, inputs


def to_numpy(value: Any) -> Any:
    return np.array(TensorXf64(value).numpy() if value._depth < 0 else Float64(value).numpy(), dtype=np.float64)


@pytest.mark.parametrize(("dtype", "tolerance"), TYPES)
@pytest.mark.parametrize("name", list(LAYERS))
def test_a_layer_is_that_of_the_model(name: str, dtype: Any, tolerance: float) -> None:
    x = np.linspace(-1, 1, 12).reshape(2, 6)
    tensor = dtype(x.astype(np.float32)) if dtype is not TensorXf64 else TensorXf64(x)
    expected = run([(name, None)], to_numpy(tensor))
    layer = LAYERS[name]()
    for value in (layer(tensor), TensorXf64(nn.cast(layer(nn.CoopVec(tensor)), Float64))):
        assert np.allclose(to_numpy(value), expected, atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize(("dtype", "tolerance"), TYPES)
@pytest.mark.parametrize("seed", range(8))
def test_a_network_is_that_of_the_model(seed: int, dtype: Any, tolerance: float) -> None:
    rng = np.random.default_rng(seed)
    depth = 1 if dtype is ad.TensorXbf16 else 1 + seed % 2  # encodings enlarge what its eight bits lose
    net, model, inputs = network(rng, dtype, depth)
    x = dtype(rng.uniform(-0.3, 0.3, (inputs, 33)).astype(np.float32))
    expected = run(model, to_numpy(x))
    found = [net(x), *(TensorXf64(nn.cast(nn.pack(net, layout=layout)(nn.CoopVec(x)), Float64))
                       for layout in ("inference", "training"))]
    for value in found:
        assert np.allclose(to_numpy(value), expected, atol=5 * tolerance * max(1, abs(expected).max()))


def loss(net: Any, x: Any, packed: bool) -> Any:
    y = net(nn.CoopVec(x) if packed else x)
    return dr.sum(dr.square(TensorXf64(nn.cast(y, Float64)) if packed else y) * 0.5)


@pytest.mark.parametrize("seed", range(6))
def test_gradients_are_differences_in_both_modes(seed: int) -> None:
    rng = np.random.default_rng(100 + seed)
    net, _, inputs = network(rng, TensorXf64, 2)
    x = rng.uniform(-0.3, 0.3, (inputs, 5))
    packed = nn.pack(net)
    weights = packed["weights"].numpy()

    def value(change: Any, move: Any) -> Any:
        packed["weights"] = Float64(weights + change)
        return loss(packed, TensorXf64(x + move), True).array[0]

    direction, move = rng.normal(size=weights.shape), rng.normal(size=x.shape)
    expected = (value(1e-6 * direction, 1e-6 * move) - value(-1e-6 * direction, -1e-6 * move)) / 2e-6
    w, p = Float64(weights), TensorXf64(x)
    dr.enable_grad(w, p)
    packed["weights"] = w
    dr.backward(loss(packed, p, True))
    found = (w.grad.numpy() * direction).sum() + (p.grad.numpy() * move).sum()
    assert np.allclose(found, expected, rtol=1e-5, atol=1e-6)
    w, p = Float64(weights), TensorXf64(x)
    dr.enable_grad(w, p)
    dr.set_grad(w, Float64(direction))
    dr.set_grad(p, TensorXf64(move))
    packed["weights"] = w
    assert np.allclose(dr.forward_to(loss(packed, p, True)).array[0], found, rtol=1e-10)


def test_second_derivatives() -> None:
    net = nn.pack(nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(-1, 1)).alloc(TensorXf64))
    weights = net["weights"].numpy()
    x = Float64(0.3, -0.2, 0.5), Float64(0.1, 0.7, 0.2)

    def gradient(w: Any) -> Any:
        def value(w: Any) -> Any:
            net["weights"] = w
            y, = net(nn.CoopVec(*x))
            return dr.sum(y * y)
        return dr.value_and_grad(value)(w)[1]

    direction = np.linspace(-1, 1, len(weights))

    def value(w: Any) -> Any:
        net["weights"] = w
        y, = net(nn.CoopVec(*x))
        return dr.sum(y * y)

    _, found = dr.hvp(value, Float64(weights), Float64(direction))
    step = 1e-5
    expected = (gradient(Float64(weights + step * direction)).numpy() -
                gradient(Float64(weights - step * direction)).numpy()) / (2 * step)
    assert np.allclose(found.numpy(), expected, atol=1e-6)


def test_half_precision_is_summed_in_single_precision() -> None:
    x = [Float16(2048), *[Float16(1)] * 64]
    A = nn.pack(dr.full(TensorXf16, 1, (1, 65)))
    assert next(iter(nn.matvec(A, nn.CoopVec(x))))[0] == 2112
    count = 262144
    A, b = nn.pack(dr.full(TensorXf16, 1, (1, 2)), Float16(0))
    dr.enable_grad(A.buffer)
    y, = nn.matvec(A, nn.CoopVec(dr.full(Float16, 1, count), Float16(1)), b)
    dr.backward(dr.sum(Float(y)) * 2.0 ** -8)
    assert A.grad.buffer.numpy().tolist() == [1024, 1024, 1024]


@pytest.mark.parametrize("dtype", [TensorXf, TensorXf16, TensorXf64])
def test_gradients_of_uniform_values_count_all_samples(dtype: Any) -> None:
    net = nn.pack(nn.Linear(2, 2).alloc(dtype), layout="training")
    w = net["weights"]
    dr.enable_grad(w)
    leaf = type(w)
    y = net(nn.CoopVec(dr.full(leaf, 1, 100), 2))
    dr.backward(dr.sum(dr.sum(y)))
    assert w.grad.numpy().tolist() == [100, 200, 100, 200, 100, 100]


@pytest.mark.parametrize(("tensor", "leaf", "tolerance"), [(TensorXf, Float, 1e-6), (TensorXf64, Float64, 1e-13)])
def test_gradients_of_samples_in_rows(tensor: Any, leaf: Any, tolerance: float) -> None:
    rng = np.random.default_rng(9)
    a, row = rng.random((30, 70)), rng.random((1, 70))
    A, b = nn.pack(tensor([1, 2, 3, 4, 5, 6], (3, 2)), leaf(1, 2, 3))
    weights = A.buffer
    dr.enable_grad(weights)
    parts = tensor(a) + tensor(row), tensor(a) / dr.reshape(dr.sum(tensor(a), axis=1), (30, 1))
    total = leaf(0)
    for component in nn.matvec(A, nn.CoopVec(*(part.array for part in parts)), b):
        total += component * component
    dr.backward(dr.sum(total))
    x = np.stack([(a + row).ravel(), (a / a.sum(1, keepdims=True)).ravel()])
    gradient = 2 * ([[1, 2], [3, 4], [5, 6]] @ x + [[1], [2], [3]])
    assert np.allclose(weights.grad.numpy(), [*(gradient @ x.T).ravel(), *gradient.sum(1)], rtol=tolerance)


def test_matrix_and_bias_of_different_buffers() -> None:
    A, b, x = nn.view(TensorXf([1, 2, 3, 4, 5, 6], (3, 2))), nn.view(Float(1, 2, 3)), Float(1, 2, 3, 4)
    for attached in ((A,), (b,), (A, b)):
        dr.enable_grad(*attached)
        y = nn.matvec(A[::-1], nn.CoopVec(x, 2 * x), b)
        first, second, third = y
        dr.backward(dr.sum(first + 2 * second + 3 * third))
        for found, expected in ((A, [30, 60, 20, 40, 10, 20]), (b, [4, 8, 12])):
            assert list(found.buffer.grad) == (expected if found in attached else [0] * len(expected))
        dr.disable_grad(*attached)


def test_a_gradient_is_one_kernel_and_what_places_it() -> None:
    layers = nn.Linear(8, 16), nn.ReLU(), nn.Linear(-1, 16), nn.ReLU(), nn.Linear(-1, 4)
    net = nn.pack(nn.Sequential(*layers).alloc(TensorXf))
    rows = [dr.rng(seed=k).random(Float, 1000) for k in range(8)]
    dr.eval(rows)
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory):
        dr.kernel_history_clear()
        weights = net["weights"]
        dr.enable_grad(weights)
        dr.backward(dr.mean(sum(component * component for component in net(nn.CoopVec(rows)))))
        dr.eval(weights.grad)
        wide = [kernel for kernel in dr.kernel_history() if kernel["size"] >= 1000]
    assert len(wide) == 1


def test_networks_in_loops_calls_and_frozen_functions() -> None:
    net = nn.pack(nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(-1, 2)).alloc(TensorXf64), layout="training")
    x = Float64(0.1, 0.2, 0.3), Float64(0.4, 0.5, 0.6)
    weights = Float64(net["weights"])

    def repeated(mode: str) -> Any:
        return dr.while_loop((UInt(0), nn.CoopVec(x)), lambda i, v: i < 3, lambda i, v: (i + 1, net(v)), mode=mode,
                             max_iterations=4)[1]

    def gradient(function: Any) -> Any:
        w = Float64(weights)
        dr.enable_grad(w)
        net["weights"] = w
        result = function()
        dr.backward(dr.sum(dr.sum(result)))
        return [y.numpy() for y in result], w.grad.numpy()

    expected = gradient(lambda: net(net(net(nn.CoopVec(x)))))
    for mode in ("symbolic", "evaluated"):
        found = gradient(lambda mode=mode: repeated(mode))
        assert np.allclose(found[0], expected[0]) and np.allclose(found[1], expected[1])
    index = UInt(0, 1, 0)
    expected = gradient(lambda: nn.CoopVec([dr.select(index == 0, a, b) for a, b in zip(
        net(nn.CoopVec(x)), net(net(nn.CoopVec(x))), strict=True)]))
    found = gradient(lambda: dr.switch(index, [lambda v: net(v), lambda v: net(net(v))], nn.CoopVec(x)))
    assert np.allclose(found[0], expected[0]) and np.allclose(found[1], expected[1])
    net["weights"] = Float64(weights)
    frozen = dr.freeze(lambda net, v: net(v))
    for count in (3, 4, 7):
        v = nn.CoopVec(dr.linspace(Float64, 0, 1, count), 0.5)
        assert np.allclose([y.numpy() for y in frozen(net, v)], [y.numpy() for y in net(v)])
    assert frozen.n_recordings == 1 or frozen.n_recordings == 2


@pytest.mark.parametrize("order", [1, 2])
@pytest.mark.parametrize("how", ["symbolic", "evaluated", "switch", "if"])
def test_derivatives_by_inputs_in_regions_are_products(how: str, order: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where derivatives of something else are tracked, and the state of a loop could have some."""
    net = nn.pack(nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(-1, 8), nn.Sin(1.5), nn.Linear(-1, 2)).alloc(
        TensorXf64, rng=dr.rng(seed=1)), layout="training")
    other = Float64(1)
    dr.enable_grad(other)

    def step(x: Any, y: Any) -> Any:
        a, b = net(nn.CoopVec(x, y))
        return x + 0.3 * a, y + 0.2 * b

    def three(how: str, x: Any, y: Any) -> Any:
        if how == "symbolic" or how == "evaluated":
            return dr.while_loop((UInt(0, 0, 0), x, y), lambda k, x, y: k < UInt(3, 1, 2), lambda k, x, y: (
                k + 1, *step(x, y)), mode=how, max_iterations=3)[1:]
        for k in range(3):
            if how == "switch":
                x, y = dr.switch(UInt(UInt(3, 1, 2) > k), [lambda x, y: (x, y), step], x, y)
            elif how == "if":
                x, y = dr.if_stmt((x, y), UInt(3, 1, 2) > k, step, lambda x, y: (x, y))
            else:
                a, b = step(x, y)
                x, y = dr.select(UInt(3, 1, 2) > k, a, x), dr.select(UInt(3, 1, 2) > k, b, y)
        return x, y

    def derivatives(how: str) -> Any:
        given = Float64(0.1, 0.2, 0.3), Float64(-0.1, 0.5, 0.7)
        dr.enable_grad(given)
        first, second = three(how, *given)
        result = dr.sum(first * second + second)
        dr.backward(result)
        found = [each.grad.numpy() for each in given]
        again = Float64(0.1, 0.2, 0.3), Float64(-0.1, 0.5, 0.7)
        dr.enable_grad(again)
        dr.set_grad(again[0], 1)
        dr.set_grad(again[1], 2)
        return [*found, dr.forward_to(sum(three(how, *again))).numpy()]

    def second(how: str) -> Any:
        found = dr.hvp(lambda x, y: dr.sum(three(how, x, y)[0] ** 2), (Float64(0.1, 0.2, 0.3), Float64(0.1, 0.5, 0.7)),
                       (Float64(1, 2, 3), Float64(0, 1, 0)))
        return [each.numpy() for pair in found for each in pair]

    if limits(dr.opaque(Float64, 0)._n.where).tracing.products and (order == 1 or how != "symbolic"):
        monkeypatch.setattr("drjit.nn.product._sum", None)
    function = derivatives if order == 1 else second
    for one, two in zip(function(how), function("plain"), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-12)


@pytest.mark.parametrize(("dtype", "leaf"), [(TensorXf, Float), (TensorXf16, Float16)])
def test_a_network_learns(dtype: Any, leaf: Any) -> None:
    net = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(-1, 16), nn.LeakyReLU(), nn.Linear(-1, 1), prefix="mlp")
    net = nn.pack(net.alloc(dtype), layout="training")
    opt, rng = Adam(lr=1e-2), dr.rng(seed=1)
    opt.update(net)
    assert list(opt) == ["mlp.weights"]
    for _ in range(60):
        net.update(opt)
        a, b = rng.random(Float, 500), rng.random(Float, 500)
        y, = net(nn.cast(nn.CoopVec(a, b), leaf))
        error = dr.mean(dr.square(Float(y) - dr.sin(6 * a) * b))
        dr.backward(error)
        opt.step()
    assert error[0] < 0.05


# --- modules as dictionaries and PyTrees -----------------------------------------------------------------------------


def test_weights_are_those_of_the_reference() -> None:
    expected = [[-0.130534, -0.327993], [-0.32773, 0.32351], [-0.163224, 0.336515], [-0.364117, 0.330919]]
    for dtype in (TensorXf, TensorXf64, TensorXf16):
        tolerance = 1e-3 if dtype is TensorXf16 else 1e-6
        assert np.allclose(to_numpy(nn.Linear(2, 4).alloc(dtype).weights), expected, atol=tolerance)


def test_a_module_is_a_dictionary() -> None:
    net = nn.Sequential(nn.Linear(2, 3), nn.Sequential(nn.Linear(3, 4, bias=False))).alloc(TensorXf16)
    assert list(net) == ["layers.0.weights", "layers.0.bias", "layers.1.layers.0.weights"] and len(net) == 3
    value = dr.full(TensorXf16, 0, (3,))
    net["layers.0.bias"] = value
    assert net["layers.0.bias"] is value
    net["layers.0.bias"] = dr.full(TensorXf, 1, (3,))
    assert type(net["layers.0.bias"]) is TensorXf16
    for key, new, error in (("x", value, KeyError), ("layers.0.bias", dr.full(TensorXf16, 0, (4,)), ValueError),
                            ("layers.0.bias", 1.0, TypeError)):
        with pytest.raises(error):
            net[key] = new
    for remove in (net.popitem, net.clear, lambda: net.pop("layers.0.bias"), lambda: net.__delitem__("layers.0.bias")):
        with pytest.raises(TypeError):
            remove()
    with pytest.raises(TypeError):
        hash(net)
    assert len(nn.Linear(2, 3)) == 0 and len(nn.ReLU()) == 0


def test_a_packed_module_keeps_its_buffer() -> None:
    net = nn.pack(nn.Sequential(nn.Linear(2, 3), nn.Linear(-1, 1), prefix="p").alloc(TensorXf16))
    assert list(net) == ["p.weights"]
    buffer = net["p.weights"]
    net["p.weights"] = Float(np.ones(len(buffer), dtype=np.float32))
    assert net["p.weights"] is buffer and buffer.numpy().tolist() == [1] * len(buffer)
    for other in (dr.copy(net), pickle.loads(pickle.dumps(net)), nn.pack(net)):
        assert other.layers[0].weights.buffer is other.layers[1].bias.buffer is other["p.weights"]
        assert other["p.weights"] is not buffer
    assert len(nn.unpack(net)) == 0 and list(net.alloc(TensorXf)) != ["p.weights"]


def test_layers_that_do_not_fit_are_named() -> None:
    with pytest.raises(ValueError, match=r"layer 2, Linear\(in_features=4.*layer 0, Linear\(in_features=2.*returns 3"):
        nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(4, 5))
    with pytest.raises(ValueError, match=r"layer 1.*takes 5.*layer 0.*returns 8"):
        nn.Sequential(nn.SinEncode(2), nn.Linear(5, 1)).alloc(TensorXf, 2)
    with pytest.raises(ValueError, match=r"takes 2.*the input has 3"):
        nn.Sequential(nn.Linear(2, 3)).alloc(TensorXf, 3)
    with pytest.raises(RuntimeError, match="number of components"):
        nn.Linear(-1, 3).alloc(TensorXf)
    with pytest.raises(TypeError, match="tensor type"):
        nn.Linear(2, 3).alloc(Float)


def test_networks_say_what_they_need() -> None:
    net, v, t = nn.Linear(2, 3), nn.CoopVec(Float(1), 2), dr.full(TensorXf, 1, (2, 5))
    with pytest.raises(RuntimeError, match="alloc"):
        net(v)
    net = net.alloc(TensorXf)
    with pytest.raises(RuntimeError, match="pack"):
        net(v)
    with pytest.raises(RuntimeError, match="CoopVec"):
        nn.pack(net)(t)
    with pytest.raises(RuntimeError, match="shape"):
        net(dr.full(TensorXf, 1, (2,)))
    with pytest.raises(RuntimeError, match="3 rows and 2 columns"):
        nn.pack(net)(nn.CoopVec(Float(1)))
    with pytest.raises(RuntimeError, match="type"):
        nn.pack(net)(nn.CoopVec(Float16(1), 2))
    with pytest.raises(TypeError):
        nn.matvec(t, v)
    with pytest.raises(ValueError, match="shape"):
        nn.SinEncode(2)(dr.full(TensorXf, 1, (2,)))
    with pytest.raises(RuntimeError, match="scale"):
        nn.ScaleAdd()(v)
    with pytest.raises(TypeError, match="type"):
        nn.Cast()(v)


def test_samples_that_have_no_part_add_nothing() -> None:
    net = nn.pack(nn.Linear(2, 1, bias=False).alloc(TensorXf64))
    w = Float64(1, 2)
    dr.enable_grad(w)
    net["weights"] = w

    def body(i: Any, x: Any) -> Any:
        y, = net(nn.CoopVec(x, 1))
        dr.backward(y)
        return i + 1, x

    dr.while_loop((UInt(0, 0), Float64(10, 100)), lambda i, x: i < UInt(1, 3), body, mode="evaluated")
    assert w.grad.numpy().tolist() == [310, 4]


class Branches(nn.Module):
    """A module of somebody's own, which says nothing of numbers of components."""

    DRJIT_STRUCT: ClassVar[dict[str, Any]] = {"first": nn.Module, "others": list, "named": dict}

    def __init__(self) -> None:
        self.first, self.others = nn.Linear(2, 3), [nn.Linear(2, 3), nn.Tanh()]
        self.named = {"gate": nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(-1, 3))}

    def __call__(self, arg: Any, /) -> Any:
        return self.first(arg) + self.others[1](self.others[0](arg)) * self.named["gate"](arg)


def test_modules_in_fields_get_parameters() -> None:
    made = Branches()
    net = nn.Sequential(nn.Linear(-1, 2), made, nn.ReLU(), nn.Linear(3, 1)).alloc(TensorXf64, 4)
    assert made.first.weights is None and made.others[0].weights is None
    assert [key.removeprefix("layers.1.") for key in net if key.endswith("weights")] == [
        "layers.0.weights", "first.weights", "others.0.weights", "named.gate.layers.0.weights",
        "named.gate.layers.2.weights", "layers.3.weights"]
    x = TensorXf64(np.random.default_rng(1).normal(size=(4, 7)))
    for other in (nn.pack(net), nn.pack(net, layout="training")):
        assert np.allclose(to_numpy(net(x)), to_numpy(TensorXf64(other(nn.CoopVec(x)))))
    assert len(made.alloc(TensorXf64)) == 8
    with pytest.raises(ValueError, match=r"layer 1.*takes 3.*returns 2"):
        nn.Sequential(nn.Linear(-1, 2), nn.Linear(3, 1)).alloc(TensorXf64, 4)
    with pytest.raises(RuntimeError, match="unknown size"):
        nn.Sequential(Branches(), nn.Linear(-1, 1)).alloc(TensorXf64)
