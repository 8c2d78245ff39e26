"""Networks from and to PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import drjit as dr
from drjit import nn
from drjit.llvm import ad
from drjit.llvm.ad import Float, TensorXf, TensorXf16, TensorXf64, UInt

torch: Any = pytest.importorskip("torch")


NAMES = {TensorXf: "float32", TensorXf16: "float16", TensorXf64: "float64", ad.TensorXbf16: "bfloat16"}


def make() -> Any:
    t = torch.nn
    return t.Sequential(
        t.Linear(3, 5), t.LayerNorm(5), t.LeakyReLU(0.2),
        t.Sequential(t.Linear(5, 4, bias=False), t.SiLU(), t.GELU("tanh")), t.RMSNorm(4, 1e-6), t.ELU(0.5),
        t.Dropout(0.5), t.Identity(), t.Softplus(2.0), t.Linear(4, 4), t.Tanh(), t.Sigmoid(), t.ReLU(),
        t.LayerNorm(4, elementwise_affine=False))


@pytest.mark.parametrize(("dtype", "tolerance"), [(TensorXf, 1e-5), (TensorXf64, 1e-5), (TensorXf16, 5e-2)])
def test_a_network_of_pytorch_returns_the_same(dtype: Any, tolerance: float) -> None:
    torch.manual_seed(0)
    module = make().eval()
    for parameter in module.parameters():
        parameter.data += 0.1 * torch.rand_like(parameter)
    net = nn.from_torch(module, dtype)
    x = np.random.default_rng(0).uniform(-1, 1, (3, 9)).astype(np.float32)
    expected = module(torch.tensor(x.T.copy())).detach().numpy().T
    found = [net(dtype(x)), TensorXf64(nn.cast(nn.pack(net)(nn.CoopVec(dtype(x))), ad.Float64))]
    for value in found:
        assert np.allclose(TensorXf64(value).numpy(), expected, atol=tolerance, rtol=tolerance)
    back = nn.to_torch(net)
    assert repr(back) == repr(module)
    for key, value in back.state_dict().items():
        other = module.state_dict()[key].numpy()
        assert np.allclose(value.double().numpy(), other, rtol=1e-3 if dtype is TensorXf16 else 0, atol=0)
    assert not back.training


@pytest.mark.parametrize("dtype", [TensorXf, TensorXf64])
def test_the_usual_epsilon_is_that_of_the_precision(dtype: Any) -> None:
    """Where inputs are so small that it matters."""
    module = torch.nn.Sequential(torch.nn.RMSNorm(3)).to(getattr(torch, NAMES[dtype]))
    x = np.array([[1e-4, 2e-4, -3e-4], [1e-3, -1e-3, 2e-3]]).astype(NAMES[dtype])
    expected = module(torch.tensor(x)).detach().numpy().T
    # roots and sums of two libraries, in single precision; epsilons of the other one are off by more than 1e-3
    assert np.allclose(nn.from_torch(module, dtype)(dtype(x.T.copy())).numpy(), expected, rtol=1e-6, atol=0)


@pytest.mark.parametrize("dtype", [TensorXf, TensorXf16, TensorXf64, ad.TensorXbf16])
def test_there_and_back(dtype: Any) -> None:
    net = nn.Sequential(nn.Embedding(4, 3), nn.Linear(-1, 2), nn.LeakyReLU(Float(0.5))).alloc(dtype)
    for form in (net, nn.pack(net)):
        module = nn.to_torch(form)
        assert module[2].negative_slope == 0.5 and str(module[1].weight.dtype) == f"torch.{NAMES[dtype]}"
        back = nn.from_torch(module, dtype)
        assert all((back[key] == net[key]).numpy().all() for key in net)
    assert module(torch.tensor([1, 2])).shape == (2, 2) and net(UInt(1, 2)).shape == (2, 2)
    module[1].weight.data += 1  # memory of its own
    assert (back["layers.1.weights"] == net["layers.1.weights"]).numpy().all()


def test_training_goes_on_in_the_other_library() -> None:
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
    net = nn.pack(nn.from_torch(module, TensorXf), layout="training")
    x = np.random.default_rng(0).uniform(-1, 1, (2, 64)).astype(np.float32)
    opt, other = dr.opt.Adam(0.01, net), torch.optim.Adam(module.parameters(), 0.01)
    for _ in range(10):
        net.update(opt)
        y, = net(nn.CoopVec(TensorXf(x)))
        dr.backward(dr.mean(dr.square(y - 1)))
        opt.step()
        other.zero_grad()
        (module(torch.tensor(x.T.copy())) - 1).square().mean().backward()
        other.step()
    net.update(opt)
    for key, value in nn.to_torch(net).state_dict().items():
        assert np.allclose(value.numpy(), module.state_dict()[key].numpy(), atol=1e-4)


@pytest.mark.parametrize(("build", "text"), [
    (lambda: nn.from_torch(torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Conv1d(1, 1, 1)), TensorXf),
     r"module\[1\] is Conv1d.*no such layer"),
    (lambda: nn.from_torch(torch.nn.LayerNorm((2, 3)), TensorXf), "no such layer"),
    (lambda: nn.from_torch(torch.nn.Embedding(2, 3, padding_idx=0), TensorXf), "no such layer"),
    (lambda: nn.from_torch(torch.nn.Embedding(2, 3, scale_grad_by_freq=True), TensorXf), "no such layer"),
    (lambda: nn.from_torch(torch.nn.Softplus(1.0, 5.0), TensorXf), "no such layer"),
    (lambda: nn.from_torch(torch.nn.Sequential(*[torch.nn.Linear(2, 2)] * 2), TensorXf),
     "'0.weight' and '1.weight' are one parameter"),
    (lambda: nn.from_torch(torch.nn.ReLU(), Float), "'dtype' must be a tensor type"),
    (lambda: nn.to_torch(nn.Sequential(nn.Exp())), r"net.layers\[0\] is Exp\(\)"),
    (lambda: nn.to_torch(nn.Linear(1, 2)), "no parameters yet"), (lambda: nn.to_torch(3), "net is 3"),
])
def test_what_the_other_library_does_not_have_is_named(build: Any, text: str) -> None:
    with pytest.raises(TypeError, match=text):
        build()
