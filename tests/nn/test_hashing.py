"""Hash grids and permutohedral lattices against a model with NumPy."""

from __future__ import annotations

import pickle
from typing import Any, ClassVar

import numpy as np
import pytest

import drjit as dr
from drjit import nn
from drjit.llvm.ad import Array2f, Array2f64, Array2u, ArrayXf, ArrayXf16, Bool, Float, Float16, Float64, TensorXf, UInt
from drjit.nn import hashing
from drjit_core import limits
from tests.nn.model import features

KINDS: dict[str, Any] = {"grid": nn.HashGridEncoding, "permuto": nn.PermutoEncoding}
OPTIONS: dict[str, Any] = {"n_levels": 4, "hashmap_size": 256, "base_resolution": 3, "per_level_scale": 1.7,
                           "init_scale": 1}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return request.param  # type: ignore[no-any-return]


@pytest.mark.parametrize("dimension", [1, 2, 3, 4])
@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("low", [0, -3])
def test_features_are_those_of_the_model(kind: str, dimension: int, align: bool, low: float) -> None:
    enc = KINDS[kind](Float64, dimension, align_corners=align, **OPTIONS)
    x = np.random.default_rng(dimension).uniform(low, 1, (dimension, 100))
    found = np.array([row.numpy() for row in enc([Float64(row) for row in x])])
    assert np.allclose(found, features(kind, enc.data.numpy(), x, 4, 2, 256, 3, 1.7, align))


def test_arguments_of_all_kinds(kind: str) -> None:
    enc = KINDS[kind](Float, 2, **OPTIONS)
    x, y = Float(0.1, 0.7), Float(0.3, 0.4)
    expected = enc(Array2f(x, y)).numpy()
    for p in ([x, y], (x, y), nn.CoopVec(x, y), TensorXf(Array2f(x, y)),
              np.array([[0.1, 0.7], [0.3, 0.4]], np.float32)):
        found = enc(p)
        assert type(found) is ArrayXf and np.allclose(found.numpy(), expected)
    for wrong in (x, [x], dr.full(TensorXf, 1, (3, 2))):
        with pytest.raises(AssertionError, match="2 components"):
            enc(wrong)
    assert type(KINDS[kind](Float16, 2)(Array2f(x, y))) is ArrayXf16


def test_inactive_lanes_have_zeros_and_no_gradient(kind: str) -> None:
    enc = KINDS[kind](Float, 2, **OPTIONS)
    dr.enable_grad(enc.params)
    found = enc(Array2f([0.1, 0.7], 0.3), Bool(True, False))
    assert not found.numpy()[:, 1].any() and found.numpy()[:, 0].any()
    dr.backward(dr.sum(found))
    gradient = enc.params.grad.numpy()
    enc = KINDS[kind](Float, 2, **OPTIONS)
    dr.enable_grad(enc.params)
    dr.backward(dr.sum(enc(Array2f(0.1, 0.3))))
    assert np.allclose(enc.params.grad.numpy(), gradient) and np.isclose(gradient.sum(), 8)


def test_derivatives_are_differences(kind: str) -> None:
    enc = KINDS[kind](Float64, 2, **OPTIONS)
    rng = np.random.default_rng(1)
    x, data = rng.uniform(0, 1, (2, 20)), enc.data.numpy()
    factors = rng.normal(size=8)

    def value(x: Any, data: Any) -> float:
        return float((features(kind, data, x, 4, 2, 256, 3, 1.7, False) * factors[:, None]).sum())

    p, w = Array2f64(Float64(x[0]), Float64(x[1])), Float64(data)
    dr.enable_grad(p, w)
    enc.set_params(w)
    dr.backward(dr.sum(sum(f * y for f, y in zip(factors.tolist(), enc(p), strict=True))))
    move, change = rng.normal(size=x.shape), rng.normal(size=data.shape)
    expected = (value(x + 1e-7 * move, data + 1e-7 * change) - value(x - 1e-7 * move, data - 1e-7 * change)) / 2e-7
    assert np.isclose((p.grad.numpy() * move).sum() + (w.grad.numpy() * change).sum(), expected, rtol=1e-5)
    p, w = Array2f64(Float64(x[0]), Float64(x[1])), Float64(data)
    dr.enable_grad(p, w)
    dr.set_grad(p, Array2f64(Float64(move[0]), Float64(move[1])))
    dr.set_grad(w, Float64(change))
    enc.set_params(w)
    y = dr.sum(sum(f * y for f, y in zip(factors.tolist(), enc(p), strict=True)))
    assert np.isclose(dr.forward_to(y)[0], expected, rtol=1e-5)


@pytest.mark.parametrize(("name", "gradient"), [("grid", (0.800649, 15.4108)), ("permuto", (-9.87839, 42.5865))])
def test_gradients_may_be_smoothed(name: str, gradient: tuple[float, float]) -> None:
    # those of the reference implementation
    enc = KINDS[name](Float, 2, n_levels=1, base_resolution=4, smooth_weight_gradients=True)
    plain = KINDS[name](Float, 2, n_levels=1, base_resolution=4)
    for each in (enc, plain):
        each.set_params(dr.square(dr.arange(Float, 32)) * 0.01)
    x = Array2f(0.3, 0.62)
    dr.enable_grad(x)
    found = enc(x)
    assert dr.allclose(found, plain(Array2f(0.3, 0.62)))
    dr.backward(found[0])
    assert np.allclose(x.grad.numpy().ravel(), gradient, rtol=1e-4)


def test_half_precision_gradients_are_sums_in_single_precision(kind: str) -> None:
    enc = KINDS[kind](Float16, 1, n_levels=1, base_resolution=4)
    dr.enable_grad(enc.params)
    found = enc([dr.zeros(Float, 10000)])
    dr.backward(dr.sum(Float(found[0])) * 2.0 ** -8)
    assert np.isclose(enc.params.grad.numpy().astype(np.float64).sum(), 39.0625, rtol=1e-3)


def test_tables_and_indices() -> None:
    enc = nn.HashGridEncoding(Float, 2)
    assert enc.hash(Array2u(1, 2))[0] == 1013904227 and enc.indexing_function(Array2u(1, 2), 0)[0] == 33
    assert nn.HashGridEncoding(Float, 2, n_levels=2).level_offset(1) == 256
    assert nn.HashGridEncoding(Float, 2, n_levels=2).n_params == 2560 and enc.n_output_features == 32
    assert dr.allclose(enc.data[0], -3.79302e-05) and enc.params is enc.data
    assert enc.hashmap_size == 2 ** 19 and not enc.torchngp_compat and "n_levels=16" in repr(enc)
    with pytest.raises(AttributeError):
        enc.n_levels = 3
    with pytest.raises(AssertionError, match="parameters"):
        enc.set_params(Float(1))
    with pytest.raises(AssertionError, match="hashmap_size"):
        nn.HashGridEncoding(Float, 2, hashmap_size=3)
    with pytest.raises(RuntimeError, match="floating-point"):
        nn.HashGridEncoding(UInt, 2)
    with pytest.warns(RuntimeWarning, match="multiple of 2"):
        nn.HashGridEncoding(Float, 2, n_features_per_level=3, hashmap_size=3 * 2 ** 10)


def test_encodings_are_trees_and_layers(kind: str) -> None:
    enc = KINDS[kind](Float, 2, **OPTIONS)
    v = nn.CoopVec(Float(0.1, 0.7), 0.4)
    expected = enc(v).numpy()
    for other in (pickle.loads(pickle.dumps(enc)), dr.copy(enc)):
        assert np.allclose(other(v).numpy(), expected)
    assert np.allclose(dr.freeze(lambda enc, v: enc(v))(enc, v).numpy(), expected)
    net = nn.Sequential(nn.HashEncodingLayer(enc), nn.Linear(-1, 3)).alloc(TensorXf, 2)
    assert list(net) == ["layers.1.weights", "layers.1.bias"] and net["layers.1.weights"].shape == (3, 8)
    packed = nn.pack(net)
    assert len(packed(v)) == 3 and packed.layers[0].encoding.params is enc.params
    with pytest.raises(ValueError, match="takes 2 components"):
        nn.Sequential(nn.HashEncodingLayer(enc)).alloc(TensorXf, 3)


# --- beyond the reference --------------------------------------------------------------------------------------------


def test_the_last_level_has_the_largest_resolution(kind: str) -> None:
    enc = KINDS[kind](Float, 2, n_levels=6, base_resolution=7, max_resolution=100)
    assert [level.resolution for level in enc._levels][::5] == [7, 100]
    assert np.isclose(enc.per_level_scale, (100 / 7) ** 0.2)
    for options in ({"max_resolution": 3}, {"n_levels": 1, "max_resolution": 20}, {"storage": "sparse"}):
        with pytest.raises(ValueError, match=r"max_resolution|storage"):
            KINDS[kind](Float, 2, base_resolution=4, **options)


@pytest.mark.parametrize("storage", ["dense", "tiled"])
def test_dense_and_tiled_tables(storage: str) -> None:
    enc = nn.HashGridEncoding(Float64, 2, n_levels=3, base_resolution=4, hashmap_size=16, storage=storage, init_scale=1)
    assert [enc.level(number).shape[0] for number in range(3)] == ([16, 64, 256] if storage == "dense" else [16] * 3)
    x, y = np.random.default_rng(0).random((2, 50))
    found = enc([Float64(x), Float64(y)]).numpy()
    for number, side in enumerate((4, 8, 16)):
        table, tile = enc.level(number).numpy(), side if storage == "dense" else 4
        expected = np.zeros((2, 50))
        px, py = (v * (side - 1) + 0.5 for v in (x, y))
        for dx in (0, 1):
            for dy in (0, 1):
                kx, ky = np.floor(px).astype(int) + dx, np.floor(py).astype(int) + dy
                weight = abs(1 - dx - px % 1) * abs(1 - dy - py % 1)
                index = (kx + ky * side) % side ** 2 if storage == "dense" else kx % tile + ky % tile * tile
                expected += weight * table[index].T
        assert np.allclose(found[2 * number:2 * number + 2], expected)


def test_smoothstep_has_continuous_derivatives() -> None:
    options = {**OPTIONS, "n_levels": 1, "base_resolution": 5, "align_corners": True}
    smooth = nn.HashGridEncoding(Float64, 1, interpolation="smoothstep", rng=dr.rng(1), **options)
    linear = nn.HashGridEncoding(Float64, 1, rng=dr.rng(1), **options)
    x = np.linspace(0.01, 0.99, 77)
    fraction = x * 4 - np.floor(x * 4)
    moved = (np.floor(x * 4) + fraction ** 2 * (3 - 2 * fraction)) / 4
    assert np.allclose(smooth([Float64(x)]).numpy(), linear([Float64(moved)]).numpy())
    edges = Float64([0.25 - 1e-9, 0.25 + 1e-9, 0.5 - 1e-9, 0.5 + 1e-9])
    dr.enable_grad(edges)
    dr.backward(dr.sum(smooth([edges])[0]))
    assert np.allclose(edges.grad, 0, atol=1e-6)
    assert "interpolation='smoothstep'" in repr(smooth) and "storage" not in repr(linear)


def test_levels_come_in_one_after_the_other(kind: str) -> None:
    enc = KINDS[kind](Float, 2, **OPTIONS)
    p = [Float(0.1, 0.7), Float(0.3, 0.2)]
    features = enc(p).numpy()
    shares = np.repeat([1, 1, 0.25, 0], 2)[:, None]
    for levels in (2.25, Float(2.25)):
        assert np.allclose(enc(p, True, levels).numpy(), features * shares)
    assert not enc(p, levels=0).numpy().any() and np.array_equal(enc(p, levels=9).numpy(), features)
    with pytest.raises(TypeError, match="levels"):
        enc(p, levels=Bool(True))

    @dr.freeze
    def function(enc: Any, x: Any, y: Any, levels: Any) -> Any:
        return enc([x, y], levels=levels)

    dr.eval(enc.data)
    for levels in (1.5, 3, 0.5, 2):
        assert np.allclose(function(enc, *p, Float(levels)).numpy(), enc(p, levels=levels).numpy())
    assert function.n_recordings <= 2


def test_gradients_flow_through_the_table_of_a_level(kind: str) -> None:
    enc = KINDS[kind](Float, 2, **OPTIONS)
    dr.enable_grad(enc.data)
    dr.backward(dr.sum(enc.level(1).array * 3))
    gradient, first = enc.data.grad.numpy(), 2 * enc.level_offset(1)
    assert set(gradient[first:2 * enc.level_offset(2)]) == {3} and not gradient[:first].any()


class Field(nn.Module):
    """A module that holds an encoding itself, not in a layer."""

    DRJIT_STRUCT: ClassVar[dict[str, Any]] = {"encoding": object, "net": object}

    def __init__(self, encoding: Any = None, net: Any = None) -> None:
        self.encoding, self.net = encoding, net

    def __call__(self, *p: Any) -> Any:
        return self.net(nn.CoopVec(self.encoding(p)))


def test_encodings_in_modules_are_not_packed(kind: str) -> None:
    net = nn.Sequential(nn.Linear(8, 5), nn.ReLU(), nn.Linear(-1, 3)).alloc(TensorXf)
    field = Field(KINDS[kind](Float, 2, **OPTIONS), net)
    packed = nn.pack(field)
    assert packed.encoding is field.encoding and len(packed["weights"]) == 8 * 5 + 5 + 5 * 3 + 3
    x, y = Float(0.1, 0.7), Float(0.3, 0.2)
    expected = TensorXf(nn.pack(net)(nn.CoopVec(field.encoding([x, y]))))
    assert np.allclose(TensorXf(packed(x, y)), expected)
    assert nn.unpack(packed).encoding is field.encoding


# --- level by level --------------------------------------------------------------------------------------------------


def apart(monkeypatch: pytest.MonkeyPatch, many: int) -> None:
    def limits_of(where: int) -> Any:
        found = limits(where)
        return found._replace(tracing=found.tracing._replace(apart=0, apart_width=many))

    monkeypatch.setattr(hashing, "limits", limits_of)


def lookup(kind: str, leaf: Any, n: int, masked: bool) -> tuple[Any, Any]:
    """Features of an encoding, and the gradient of something of them."""
    wide = Float if leaf is Float16 else leaf
    enc = KINDS[kind](leaf, 3, **OPTIONS, rng=dr.rng(3))
    p = [wide(row) for row in np.random.default_rng(1).random((3, n))]
    dr.enable_grad(enc.data)
    found = enc(p, dr.arange(UInt, n) % 3 != 0 if masked else True)
    total = wide(0)
    for place, component in enumerate(found):
        total = dr.fma(wide(component) * wide(component), place + 1, total)
    dr.backward(dr.sum(total))
    return np.array(found, np.float64), np.array(enc.data.grad, np.float64)


@pytest.mark.parametrize(("leaf", "tolerance"), [(Float, 1e-5), (Float64, 1e-12), (Float16, 2e-3)])
@pytest.mark.parametrize(("n", "masked"), [(100, True), (40_000, False)])
def test_level_by_level_is_the_same(kind: str, leaf: Any, tolerance: float, n: int, masked: bool,
                                    monkeypatch: pytest.MonkeyPatch) -> None:
    apart(monkeypatch, 1)
    features_apart, gradient_apart = lookup(kind, leaf, n, masked)
    apart(monkeypatch, 1 << 60)
    found, gradient = lookup(kind, leaf, n, masked)
    assert np.array_equal(found, features_apart)
    assert np.allclose(gradient, gradient_apart, rtol=tolerance, atol=tolerance * abs(gradient).max())


def test_other_derivatives_level_by_level(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    enc = KINDS[kind](Float64, 2, **OPTIONS)
    p = [Float64(row) for row in np.random.default_rng(1).random((2, 50))]
    data = enc.data.numpy()
    direction = np.linspace(-1, 1, len(data))

    def value(data: Any) -> Any:
        enc.set_params(data)
        return dr.sum(sum(component ** 3 * (place + 1) for place, component in enumerate(enc(p))))

    results = []
    for many in (1, 1 << 60):
        apart(monkeypatch, many)
        _, second = dr.hvp(value, Float64(data), Float64(direction))
        weights = Float64(data)
        dr.enable_grad(weights)
        dr.set_grad(weights, Float64(direction))
        results.append((second.numpy(), dr.forward_to(value(weights)).numpy()))
    for found, expected in zip(*results, strict=True):
        assert np.allclose(found, expected, rtol=1e-12) and found.any()


def test_recordings_know_whether_levels_are_apart(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    apart(monkeypatch, 1000)
    enc = KINDS[kind](Float, 2, **OPTIONS)

    @dr.freeze
    def function(enc: Any, x: Any, y: Any) -> Any:
        return dr.sum(enc([x, y]), axis=0)

    for n, recordings in ((500, 1), (700, 1), (2000, 2), (3000, 2), (500, 2)):
        x, y = (Float(row) for row in np.random.default_rng(n).random((2, n)))
        assert np.array_equal(function(enc, x, y), dr.sum(enc([x, y]), axis=0))
        assert function.n_recordings == recordings


def test_a_level_is_a_kernel(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    apart(monkeypatch, 1000)
    enc = KINDS[kind](Float, 2, **OPTIONS)
    p = [Float(row) for row in np.random.default_rng(1).random((2, 1000))]
    dr.eval(enc.data)
    dr.enable_grad(enc.data)
    for few, many in (p, 4), ([x[:999] for x in p], 1):
        dr.eval(few)
        with dr.scoped_set_flag(dr.JitFlag.KernelHistory):
            dr.kernel_history_clear()
            dr.eval(enc(few))
            assert len([kernel for kernel in dr.kernel_history() if kernel["size"] >= 999]) == many


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("way", ["loop", "branch"])
def test_gradients_in_regions_need_no_atomic_updates(kind: str, way: str) -> None:
    """Tables of the threads are updated, where an entry has all its features at a time."""
    n, enc = 3001, KINDS[kind](Float, 2, n_levels=3, hashmap_size=2**12, n_features_per_level=4)
    rng = np.random.default_rng(5)
    p = [Float(rng.uniform(0, 0.4, n)) for _ in range(2)]
    times = UInt(rng.integers(0, 3, n).astype(np.uint32))
    factors = rng.normal(size=12)

    def value(x: Any, y: Any) -> Any:
        return sum(f * component for f, component in zip(factors, enc(Array2f(x, y)), strict=True))

    def plain() -> Any:
        total = dr.zeros(Float, n)
        for k in range(1 if way == "branch" else 2):
            total += dr.select(times > k, dr.square(value(p[0] + k * 0.3, p[1])), 0)
        return total

    def region() -> Any:
        if way == "branch":
            return dr.if_stmt((), times > 0, lambda: dr.square(value(*p)), lambda: Float(0), mode="symbolic")
        return dr.while_loop((UInt(0), dr.zeros(Float, n)), lambda k, total: k < times, lambda k, total: (
            k + 1, total + dr.square(value(p[0] + Float(k) * 0.3, p[1]))), max_iterations=2)[1]

    found = []
    for function in (plain, region):
        dr.enable_grad(enc.data)
        with dr.scoped_set_flag(dr.JitFlag.KernelHistory):
            dr.kernel_history_clear()
            dr.backward(dr.sum(function()))
            gradient = enc.data.grad
            dr.eval(gradient)
            texts = [kernel["ir"].getvalue() for kernel in dr.kernel_history() if kernel["size"] == n]
        found.append(gradient.numpy())
        dr.disable_grad(enc.data)
        enc.data = dr.detach(enc.data)
    assert dr.thread_count() < 2 or "cmpxchg" not in texts[-1]
    assert "load <4 x float>" in texts[-1] and "scatter_add" not in texts[-1]
    # threads add in any order
    assert np.abs(found[0]).max() > 0 and np.allclose(found[1], found[0], rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize(("call", "error", "text"), [
    (lambda cls: cls(Float, 2, per_level_scale=0), ValueError, r"\(\): 'per_level_scale' must be a finite positive"),
    (lambda cls: cls(Float, 2, per_level_scale=-1.5), ValueError, r"'per_level_scale'.*found -1.5"),
    (lambda cls: cls(Float, 2, per_level_scale=float("nan")), ValueError, r"'per_level_scale'.*found nan"),
    (lambda cls: cls(Float, 2, per_level_scale="2"), ValueError, r"'per_level_scale'.*found '2'"),
    (lambda cls: cls(Float, 2, init_scale="a"), ValueError, r"'init_scale' must be a finite number, found 'a'"),
    (lambda cls: cls(Float, 2, n_levels=2).level(5), IndexError, r"\.level\(\): there is no level 5 of 2"),
    (lambda cls: cls(Float, 2, n_levels=2).level_offset(2), IndexError,
     r"\.level_offset\(\): there is no level 2 of 2"),
    (lambda cls: cls(Float, 2, n_levels=2).indexing_function(Array2u(1, 2), 7), IndexError,
     r"\.indexing_function\(\): there is no level 7 of 2"),
    (lambda cls: cls(Float, 2)(Array2f([0.1, 0.2], 0.5), Bool(True, False, True)), RuntimeError, "sizes|numbers of el"),
    (lambda cls: cls(Float, 2)([Float(1, 2), Float(1, 2, 3)]), RuntimeError, "different numbers of elements: 2 and 3"),
    (lambda cls: cls(Float, 2)(Array2f(0.1, 0.2), levels="a"), TypeError, "'levels' must be a number or a flat array"),
])
def test_what_does_not_fit_is_named(kind: str, call: Any, error: Any, text: str) -> None:
    with pytest.raises(error, match=text) as raised:
        call(KINDS[kind])
    assert f"drjit.nn.{KINDS[kind].__name__}" in str(raised.value) or "HashEncoding" in str(raised.value)
