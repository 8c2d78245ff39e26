"""Layers and encodings against NumPy and PyTorch: values in each precision, gradients, and what they refuse."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import drjit as dr
import drjit.scalar as scalar
from drjit import nn
from drjit.llvm import ad
from drjit.llvm.ad import Float, Float16, Float64, TensorXf, TensorXf16, TensorXf64, UInt

erf = np.vectorize(math.erf)


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def one_blob(x: Any, bins: int) -> Any:
    rows = []
    for row in x:
        for k in range(bins):
            u = np.linspace(0, 1, 20001)[:, None] / bins + k / bins  # the bump, integrated over the bin
            total = sum(np.clip(1 - ((u - row + shift) * bins) ** 2, 0, None) ** 2 for shift in (-1, 0, 1))
            rows.append(np.trapezoid(total, u, axis=0) * 15 / 16 * bins)
    return np.stack(rows)


def harmonics(x: Any) -> Any:
    a, b, c = x
    return np.stack([0 * a + 0.28209479177387814, -0.4886025119029199 * b, 0.4886025119029199 * c,
                     -0.4886025119029199 * a])


def norm(x: Any, eps: float, centred: bool = True) -> Any:
    x = x - x.mean(axis=0) if centred else x
    return x / np.sqrt((x * x).mean(axis=0) + eps)


#: Layers, their model, the range of what they get, and PyTorch's name with arguments.
LAYERS: dict[str, tuple[Any, Any, float, Any]] = {
    "sigmoid": (nn.Sigmoid, sigmoid, 6, lambda torch: torch.nn.Sigmoid()),
    "silu": (nn.SiLU, lambda x: x * sigmoid(x), 6, lambda torch: torch.nn.SiLU()),
    "gelu": (nn.GELU, lambda x: x / 2 * (1 + erf(x / math.sqrt(2))), 4, lambda torch: torch.nn.GELU()),
    "gelu tanh": (lambda: nn.GELU("tanh"), lambda x: x / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (
        x + 0.044715 * x**3))), 4, lambda torch: torch.nn.GELU("tanh")),
    "softplus": (nn.Softplus, lambda x: np.log1p(np.exp(x)), 8, lambda torch: torch.nn.Softplus()),
    "softplus 3": (lambda: nn.Softplus(3), lambda x: np.log1p(np.exp(3 * x)) / 3, 4,
                   lambda torch: torch.nn.Softplus(3)),
    "elu": (nn.ELU, lambda x: np.where(x > 0, x, np.expm1(x)), 4, lambda torch: torch.nn.ELU()),
    "elu 2": (lambda: nn.ELU(2), lambda x: np.where(x > 0, x, 2 * np.expm1(x)), 4, lambda torch: torch.nn.ELU(2)),
    "sin": (nn.Sin, lambda x: np.sin(30 * x), 2, None), "sin 2": (lambda: nn.Sin(2), lambda x: np.sin(2 * x), 2, None),
    "identity": (nn.Identity, lambda x: x, 2, lambda torch: torch.nn.Identity()),
    "layer norm": (lambda: nn.LayerNorm(affine=False), lambda x: norm(x, 1e-5), 2,
                   lambda torch: torch.nn.LayerNorm(3, elementwise_affine=False)),
    "rms norm": (lambda: nn.RMSNorm(affine=False), lambda x: norm(x, 1e-6, False), 2,
                 lambda torch: torch.nn.RMSNorm(3, 1e-6, elementwise_affine=False)),
    "skip": (lambda: nn.Skip(nn.Tanh(), nn.Sin(1)), lambda x: x + np.sin(np.tanh(x)), 2, None),
    "concat": (lambda: nn.Concat(nn.Identity(), nn.Tanh()), lambda x: np.concatenate([x, np.tanh(x)]), 2, None),
    "one blob": (lambda: nn.OneBlob(5), lambda x: one_blob(x % 1, 5), 1, None),
    "harmonics": (lambda: nn.SphericalHarmonics(1), harmonics, 1, None),
}
TYPES = [(TensorXf64, 1e-12), (TensorXf, 3e-6), (TensorXf16, 1e-3), (ad.TensorXbf16, 1e-2)]


def numbers(name: str, dtype: Any, shape: tuple[int, int] = (3, 8)) -> Any:
    x = np.random.default_rng(len(name)).uniform(-1, 1, shape) * LAYERS[name][2]
    if name == "one blob":
        x = abs(x)
    return dtype(x.astype(np.float32)) if dtype is not TensorXf64 else TensorXf64(x)


def to_numpy(value: Any) -> Any:
    return np.array(TensorXf64(nn.cast(value, Float64) if isinstance(value, nn.CoopVec) else value).numpy())


@pytest.mark.parametrize(("dtype", "tolerance"), TYPES)
@pytest.mark.parametrize("name", list(LAYERS))
def test_a_layer_is_its_model(name: str, dtype: Any, tolerance: float) -> None:
    layer, x = LAYERS[name][0](), numbers(name, dtype)
    expected = LAYERS[name][1](to_numpy(x))
    if name == "one blob":
        tolerance = max(tolerance, 1e-8)  # that of the quadrature
    for found in (layer(x), layer(nn.CoopVec(x))):
        assert (type(found) if isinstance(found, dtype) else found.type) in (dtype, dtype._leaf)
        error = abs(to_numpy(found) - expected)
        assert (error <= tolerance * (2 if name.startswith("sin") else 1) * np.maximum(abs(expected), 0.2)).all()


@pytest.mark.parametrize("name", list(LAYERS))
def test_gradients_of_a_layer_are_differences(name: str) -> None:
    layer, x = LAYERS[name][0](), numbers(name, TensorXf64).numpy()
    rng = np.random.default_rng(1)
    weights, direction = rng.normal(size=to_numpy(layer(TensorXf64(x))).shape), rng.normal(size=x.shape)

    def value(x: Any, vector: bool) -> Any:
        y = layer(nn.CoopVec(x) if vector else x)
        return dr.sum(TensorXf64(y) * TensorXf64(weights), axis=None)

    for vector in (False, True):
        ends = [value(TensorXf64(x + h * direction), vector) for h in (1e-6, -1e-6)]
        expected = (ends[0] - ends[1]) / 2e-6
        p = TensorXf64(x)
        dr.enable_grad(p)
        dr.backward(value(p, vector))
        assert np.allclose((p.grad.numpy() * direction).sum(), expected.array[0], rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", [name for name, row in LAYERS.items() if row[3] is not None])
def test_a_layer_is_that_of_pytorch(name: str) -> None:
    torch = pytest.importorskip("torch")
    x = numbers(name, TensorXf)
    dr.enable_grad(x)
    y = LAYERS[name][0]()(x)
    dr.backward(dr.sum(y * y, axis=None))
    other = torch.tensor(x.numpy().T.copy(), requires_grad=True)
    result = LAYERS[name][3](torch)(other)
    (result * result).sum().backward()
    assert np.allclose(y.numpy().T, result.detach().numpy(), rtol=1e-5, atol=1e-6)
    assert np.allclose(x.grad.numpy().T, other.grad.numpy(), rtol=1e-4, atol=2e-5)


def test_activations_far_away() -> None:
    x = Float(-1000, -88, -20, 0, 20, 88, 1000)
    small = math.exp(-20)
    for layer, values, slopes in (
            (nn.Sigmoid(), [0, None, small, 0.5, 1, 1, 1], [0, None, small, 0.25, small, None, 0]),
            (nn.SiLU(), [0, None, -20 * small, 0, 20, 88, 1000], [0, None, -19 * small, 0.5, 1, 1, 1]),
            (nn.GELU(), [0, 0, 0, 0, 20, 88, 1000], [0, 0, 0, 0.5, 1, 1, 1]),
            (nn.Softplus(), [0, None, small, math.log(2), 20, 88, 1000], [0, None, small, 0.5, 1, 1, 1]),
            (nn.ELU(), [-1, -1, -1, 0, 20, 88, 1000], [0, None, small, 1, 1, 1, 1])):
        p = Float(x)
        dr.enable_grad(p)
        y = layer(p)
        dr.backward(y)
        for found, expected in ((y.numpy(), values), (p.grad.numpy(), slopes)):
            for a, b in zip(found, expected, strict=True):
                assert b is None and 0 <= abs(a) < 1e-30 or b is not None and math.isclose(a, b, rel_tol=1e-5,
                                                                                           abs_tol=1e-37), layer
    assert nn.Sigmoid()(Float(-20))[0] == pytest.approx(2.0611536e-9, rel=1e-6)
    assert nn.Softplus()(Float(-20))[0] == pytest.approx(2.0611537e-9, rel=1e-6)
    assert nn.ELU()(Float(-1e-6))[0] == pytest.approx(-1e-6, rel=1e-5)


def make(layer: Any, dtype: Any, size: int, seed: int = 0) -> Any:
    """A layer with parameters that are not those it begins with."""
    layer = layer.alloc(dtype, size)
    rng = np.random.default_rng(seed)
    for key in layer:
        layer[key] = dtype(rng.uniform(0.5, 1.5, layer[key].shape).astype(np.float32))
    return layer


@pytest.mark.parametrize(("dtype", "tolerance"), TYPES)
@pytest.mark.parametrize("cls", [nn.LayerNorm, nn.RMSNorm])
def test_normalisation_with_parameters(cls: Any, dtype: Any, tolerance: float) -> None:
    net = make(nn.Sequential(cls(), nn.Linear(-1, 2)), dtype, 4)
    assert list(net)[:2] == ["layers.0.weights", "layers.0.bias"][:1 + (cls is nn.LayerNorm)] + [
        "layers.1.weights"] * (cls is nn.RMSNorm)
    x = dtype(np.random.default_rng(0).uniform(-1, 1, (4, 7)).astype(np.float32))
    w = [to_numpy(net[key]) for key in net]
    y = norm(to_numpy(x), net.layers[0].config[1], cls is nn.LayerNorm) * w[0][:, None]
    y = y + w[1][:, None] if cls is nn.LayerNorm else y
    expected = w[-2] @ y + w[-1][:, None]
    for found in (net(x), nn.pack(net)(nn.CoopVec(x))):
        assert np.allclose(to_numpy(found), expected, atol=8 * tolerance, rtol=8 * tolerance)


@pytest.mark.parametrize("make_net", [
    lambda: nn.Sequential(nn.LayerNorm(), nn.Linear(-1, 3)), lambda: nn.Sequential(nn.RMSNorm(), nn.Tanh()),
    lambda: nn.Skip(nn.Linear(-1, 5), nn.SiLU(), nn.Linear(-1, 4)),
    lambda: nn.Sequential(nn.Concat(nn.Linear(-1, 2), nn.LayerNorm()), nn.Linear(-1, 1))])
def test_gradients_of_parameters_are_differences(make_net: Any) -> None:
    net = make(make_net(), TensorXf64, 4)
    x = np.random.default_rng(0).uniform(-1, 1, (4, 7))
    keys = list(net)
    start = {key: net[key].numpy() for key in keys}
    direction = {key: np.random.default_rng(2).normal(size=value.shape) for key, value in start.items()}

    def value(arrays: Any, vector: bool) -> Any:
        net.update(arrays)
        if vector:
            buffer = nn.pack(net)
            return dr.sum(dr.sum(dr.square(buffer(nn.CoopVec(TensorXf64(x))))))
        return dr.sum(dr.square(net(TensorXf64(x))), axis=None).array

    for vector in (False, True):
        ends = [value({key: TensorXf64(start[key] + h * direction[key]) for key in keys}, vector)[0]
                for h in (1e-6, -1e-6)]
        arrays = {key: TensorXf64(start[key]) for key in keys}
        dr.enable_grad(list(arrays.values()))
        dr.backward(value(arrays, vector))
        found = sum((arrays[key].grad.numpy() * direction[key]).sum() for key in keys)
        assert np.allclose(found, (ends[0] - ends[1]) / 2e-6, rtol=1e-5)


def test_half_precision_gradients_of_normalisations_are_summed_in_single_precision() -> None:
    net = nn.pack(nn.LayerNorm(2).alloc(TensorXf16))
    w = net["weights"]
    dr.enable_grad(w)
    y = net(nn.CoopVec(dr.full(Float16, 1, 40000), Float16(-1)))
    dr.backward(dr.sum(dr.sum(ad.ArrayXf(nn.cast(y, Float)))) * 2.0 ** -3)
    assert np.allclose(w.grad.numpy().astype(float), [5000, -5000, 5000, 5000], rtol=1e-3)


@pytest.mark.parametrize("dtype", [TensorXf64, TensorXf, TensorXf16])
@pytest.mark.parametrize("packed", [False, True])
def test_embeddings(packed: bool, dtype: Any) -> None:
    net = nn.Sequential(nn.Embedding(6, 3), nn.Linear(-1, 3)).alloc(dtype)
    net["layers.1.weights"] = dtype(np.eye(3, dtype=np.float32))
    table = to_numpy(net["layers.0.weights"])
    assert table.shape == (6, 3) and 0.5 < table.std() < 1.5
    index = [0, 5, 2, 2]
    net = nn.pack(net) if packed else net
    key = "weights" if packed else "layers.0.weights"
    weights = net[key]
    dr.enable_grad(weights)
    net[key] = weights
    for given in (UInt(index), nn.CoopVec(UInt(index)), ad.TensorXu([index])):
        assert np.allclose(to_numpy(net(given)), table[index].T, rtol=1e-3)
    y = net(UInt(index))
    total = dr.sum(dr.sum(y)) if packed else dr.sum(y, axis=None)
    dr.backward(total)
    expected = np.bincount(index, minlength=6)[:, None] * np.ones(3)
    found = to_numpy(dtype(weights.grad) if packed else weights.grad).reshape(-1)[:18].reshape(6, 3)
    assert np.allclose(found, expected)
    with pytest.raises(TypeError, match="unsigned integers"):
        net(Float(1))
    with pytest.raises(RuntimeError, match="no parameters yet"):
        nn.Embedding(2, 3)(UInt(0))


@pytest.mark.parametrize("dtype", [TensorXf64, TensorXf, TensorXf16])
def test_dropout(dtype: Any) -> None:
    net = nn.Sequential(nn.Linear(2, 3), nn.Dropout(0.25)).alloc(dtype)
    layer, x = net.layers[1], dr.full(dtype, 3, (2, 4000))
    first, second = to_numpy(layer(x)), to_numpy(layer(nn.CoopVec(x)))
    for found in (first, second):
        assert set(np.unique(found)) == {0.0, 4.0} and abs((found == 0).mean() - 0.25) < 0.02
    assert (first != second).any()
    state = net.state_dict()
    assert [key for key in state if "rng" in key] == ["layers.1.rng.seed", "layers.1.rng.counter"]
    third = to_numpy(layer(x))
    net.load_state_dict(state)
    assert np.array_equal(to_numpy(layer(x)), third)
    packed = nn.pack(net)
    assert len(packed) == 1 and packed.layers[1] is layer
    assert net.train(False) is net and layer(x) is x
    net.train()
    assert layer(x) is not x
    p = dtype(x)
    dr.enable_grad(p)
    y = layer(p)
    dr.backward(dr.sum(y, axis=None))
    assert np.allclose(to_numpy(p.grad), (to_numpy(y) != 0) * (4 / 3), rtol=1e-3)
    with pytest.raises(RuntimeError, match="no generator"):
        nn.Dropout()(Float(1))
    with pytest.raises(ValueError, match=r"'p' must be in \[0, 1\)"):
        nn.Dropout(1)


def test_layers_of_numbers_of_python() -> None:
    net = nn.Sequential(nn.Linear(2, 2), nn.Dropout(), nn.LayerNorm(), nn.GELU(), nn.Skip(nn.Linear())).alloc(
        scalar.TensorXf)
    assert net(scalar.TensorXf([1, 2], (2, 1))).shape == (2, 1)


def test_two_layers_do_not_drop_the_same() -> None:
    net = nn.Sequential(nn.Dropout(), nn.Dropout()).alloc(TensorXf, 1)
    x = dr.full(TensorXf, 1, (1, 1000))
    assert abs((to_numpy(net(x)) != 0).mean() - 0.25) < 0.05


def test_a_frozen_step_draws_anew_and_is_not_recorded_again() -> None:
    @dr.freeze
    def step(net: Any, x: Any) -> Any:
        y, = net(nn.CoopVec(x))
        return y

    net = nn.pack(nn.Sequential(nn.Linear(1, 1, init="ones"), nn.Dropout()).alloc(TensorXf))
    x = dr.full(Float, 1, 100)
    found = [step(net, x).numpy() for _ in range(6)]
    assert len({value.tobytes() for value in found}) == 6 and step.n_recordings <= 2
    net.train(False)
    assert step(net, x).numpy().tolist() == [1] * 100
    net.train()
    assert (step(net, x).numpy() != 1).any()


@pytest.mark.parametrize(("build", "error", "text"), [
    (lambda: nn.Sequential(nn.Linear(2, 3), nn.LayerNorm(4)), ValueError, "takes 4 components, but layer 0"),
    (lambda: nn.LayerNorm().alloc(TensorXf), RuntimeError, "pass the number of components"),
    (lambda: nn.LayerNorm(3).alloc(TensorXf, 2), ValueError, "takes 3 components, but the input has 2"),
    (lambda: nn.LayerNorm(3)(dr.zeros(TensorXf, (3, 1))), RuntimeError, "no parameters yet"),
    (lambda: nn.LayerNorm(3).alloc(TensorXf)(nn.CoopVec(Float(1), 2, 3)), RuntimeError, "packed parameters"),
    (lambda: nn.pack(nn.LayerNorm(3).alloc(TensorXf))(dr.zeros(TensorXf, (3, 1))), RuntimeError, "not packed"),
    (lambda: nn.LayerNorm(3).alloc(TensorXf)(dr.zeros(TensorXf, (2, 1))), RuntimeError, "2 components instead of 3"),
    (lambda: nn.RMSNorm(0), ValueError, "'features' must be an int from 1 on or -1"),
    (lambda: nn.Skip(nn.Linear(2, 3)).alloc(TensorXf), ValueError, "return 3 components"),
    (lambda: nn.Sequential(nn.Linear(1, 2), nn.Skip(nn.Linear(-1, 3))), ValueError, "return 3 components"),
    (lambda: nn.Concat(nn.Linear(2, 1), nn.Linear(3, 1)), ValueError, "different numbers of components: 2, 3"),
    (lambda: nn.Concat(1), TypeError, "layer 0 is no module"), (lambda: nn.GELU("erf"), ValueError, "'approximate'"),
    (lambda: nn.Softplus(0), ValueError, "'beta' must be a positive number"),
    (lambda: nn.Softplus("a"), TypeError, "Softplus.*'beta' must be a number, found str"),
    (lambda: nn.Sin("a"), TypeError, "Sin.*'frequency' must be a number, found str"),
    (lambda: nn.ELU([1]), TypeError, "ELU.*'alpha' must be a number, found list"),
    (lambda: nn.LeakyReLU("a"), TypeError, "LeakyReLU.*'negative_slope' must be a number, found str"),
    (lambda: nn.OneBlob(1), ValueError, "'bins' must"), (lambda: nn.SphericalHarmonics(11), ValueError, "'order' must"),
    (lambda: nn.SphericalHarmonics()(nn.CoopVec(Float(1), 2)), RuntimeError, "2 components instead of 3"),
    (lambda: nn.Sequential(nn.Linear(1, 2), nn.SphericalHarmonics()), ValueError, "takes 3 components"),
    (lambda: nn.OneBlob()(Float(1)), TypeError, "cooperative vector, or a tensor"),
])
def test_what_does_not_fit_is_named(build: Any, error: Any, text: str) -> None:
    with pytest.raises(error, match=text):
        build()


def test_sizes_follow_from_layers_before() -> None:
    net = nn.Sequential(nn.Concat(nn.SphericalHarmonics(1), nn.Identity(), nn.OneBlob(4)),
                        nn.Skip(nn.Linear(), nn.Sin()), nn.LayerNorm(), nn.Linear(-1, 2)).alloc(TensorXf)
    assert net["layers.3.weights"].shape == (2, 4 + 3 + 12) and net["layers.1.layers.0.weights"].shape == (19, 19)
    assert repr(net.layers[0]) == "Concat(\n  SphericalHarmonics(order=1),\n  Identity(),\n  OneBlob(bins=4)\n)"
    assert repr(nn.Embedding(3, 4)) == "Embedding(count=3, features=4)"
    assert repr(nn.Sequential(nn.Dropout(0.5), nn.RMSNorm(2), nn.Softplus())).splitlines()[1:-1] == [
        "  Dropout(p=0.5),", "  RMSNorm(features=2, eps=1e-06),", "  Softplus(beta=1.0)"]


def test_layers_are_state_of_loops() -> None:
    net = nn.pack(nn.Sequential(nn.LayerNorm(2), nn.SiLU(), nn.Skip(nn.Linear(2, 2))).alloc(TensorXf))
    x = nn.CoopVec(Float(0.5, 1), Float(2, 0))

    def body(i: Any, x: Any) -> Any:
        return i + 1, net(x)

    expected = x
    for _ in range(3):
        expected = net(expected)
    for mode in ("symbolic", "evaluated"):
        _, found = dr.while_loop((UInt(0, 0), x), lambda i, x: i < 3, body, mode=mode)
        assert np.allclose(to_numpy(found), to_numpy(expected), rtol=1e-5)


def test_embeddings_of_what_is_out_of_range_are_zeros() -> None:
    table = nn.Embedding(5, 3).alloc(TensorXf)
    found = table(UInt(1, 9, 100_000_000)).numpy()
    assert found[:, 0].all() and not found[:, 1:].any()
