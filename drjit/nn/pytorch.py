"""Networks from and to PyTorch: modules of the same meaning, with their weights."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .._base.array import ArrayBase
from .._base.errors import describe
from .._base.types import BFLOAT16, FLOAT32, FLOAT64, retype
from .._functions.evaluation import eval
from .activations import ELU, GELU, Identity, LeakyReLU, ReLU, Sigmoid, SiLU, Softplus, Tanh
from .layers import Dropout, Embedding, LayerNorm, RMSNorm
from .linear import Linear
from .modules import Module, Sequential

__all__ = ["from_torch", "to_torch"]


class _Row(NamedTuple):
    """A layer here and there, under the same name."""

    cls: type[Module]
    #: The layer here, of one there: ``None`` if there is none.
    ours: Callable[[Any], Module | None]
    #: Arguments of the layer there, of one here.
    theirs: Callable[[Any], dict[str, Any]]


def _norm(cls: Any) -> _Row:
    def ours(m: Any) -> Module | None:
        double = m.elementwise_affine and m.weight.element_size() == 8  # half precision is computed in single
        eps = np.finfo(np.float64 if double else np.float32).eps if m.eps is None else m.eps
        return cls(m.normalized_shape[0], float(eps), m.elementwise_affine) if len(m.normalized_shape) == 1 else None

    return _Row(cls, ours, lambda m: {"normalized_shape": m.config[0], "eps": m.config[1],
                                      "elementwise_affine": m.config[2]})


def _plain(cls: Any) -> _Row:
    return _Row(cls, lambda m: cls(), lambda m: {})


def _with(cls: Any, option: str) -> _Row:
    return _Row(cls, lambda m: cls(getattr(m, option)), lambda m: {option: getattr(m, option)})


def _softplus(m: Any) -> Module | None:
    """PyTorch's is linear from a threshold on: from its default, 20, on, that is the same to single precision."""
    return Softplus(m.beta) if m.threshold >= 20 else None


#: The layers that both know, by their name in ``torch.nn``.
_ROWS: dict[str, _Row] = {
    "Linear": _Row(Linear, lambda m: Linear(m.in_features, m.out_features, m.bias is not None), lambda m: {
        "in_features": m.config[0], "out_features": m.config[1], "bias": m.config[2]}),
    "Embedding": _Row(Embedding, lambda m: Embedding(m.num_embeddings, m.embedding_dim)
                      if m.padding_idx is None and m.max_norm is None and not m.scale_grad_by_freq else None,
                      lambda m: {"num_embeddings": m.config[0], "embedding_dim": m.config[1]}),
    "LayerNorm": _norm(LayerNorm), "RMSNorm": _norm(RMSNorm), "Dropout": _with(Dropout, "p"),
    "LeakyReLU": _with(LeakyReLU, "negative_slope"), "GELU": _with(GELU, "approximate"), "ELU": _with(ELU, "alpha"),
    "Softplus": _Row(Softplus, _softplus, lambda m: {"beta": m.beta}), "ReLU": _plain(ReLU), "Tanh": _plain(Tanh),
    "Sigmoid": _plain(Sigmoid), "SiLU": _plain(SiLU), "Identity": _plain(Identity),
}
_NAMES = {row.cls: name for name, row in _ROWS.items()}


def from_torch(module: Any, dtype: Any) -> Any:
    """A network like one of PyTorch, with its weights as they are now, as tensors of the type ``dtype``.

    ``module`` is a ``torch.nn.Sequential``, which may hold others, or a layer: ``Linear``, ``Embedding``,
    ``LayerNorm``, ``RMSNorm``, ``Dropout``, ``Identity``, and the activations that are here, too. Raises a
    ``TypeError`` that names any other layer, or parameters that several layers share. The result is one of
    :meth:`drjit.nn.Module.alloc`, to be packed for cooperative vectors; tensors have features first and samples second
    here, PyTorch has them the other way round.

    >>> import torch  # doctest: +SKIP
    >>> from drjit.llvm.ad import TensorXf
    >>> net = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.SiLU(), torch.nn.Linear(8, 1))  # doctest: +SKIP
    >>> dr.nn.from_torch(net, TensorXf)  # doctest: +SKIP
    Sequential(
      Linear(in_features=2, out_features=8),
      SiLU(),
      Linear(in_features=8, out_features=1)
    )
    """
    if not isinstance(dtype, type) or not issubclass(dtype, ArrayBase) or dtype._depth >= 0 or dtype._kind != "f":
        raise TypeError(f"drjit.nn.from_torch(): 'dtype' must be a tensor type of floating-point numbers, found "
                        f"{describe(dtype)}.")
    made = _ours(module, "module")
    _require_own(module)
    result = made.alloc(dtype)
    _copy(module, result, dtype)
    eval(result)
    return result


def _require_own(module: Any) -> None:
    """Raise if layers share parameters: each would have a copy, and training would move them apart."""
    first: dict[int, str] = {}
    for name, parameter in module.named_parameters(remove_duplicate=False):
        other = first.setdefault(id(parameter), name)
        if other != name:
            raise TypeError(f"drjit.nn.from_torch(): {other!r} and {name!r} are one parameter: layers do not share "
                            "parameters here.")


def _is_sequential(module: Any) -> bool:
    return module.__class__.__name__ == "Sequential" and hasattr(module, "named_parameters")


def _ours(module: Any, path: str) -> Module:
    """The layers without their weights."""
    if _is_sequential(module):
        return Sequential(*(_ours(layer, f"{path}[{number}]") for number, layer in enumerate(module)))
    row = _ROWS.get(module.__class__.__name__) if module.__class__.__module__.startswith("torch.nn") else None
    made = None if row is None else row.ours(module)
    if made is None:
        raise TypeError(f"drjit.nn.from_torch(): {path} is {module!r}: there is no such layer here.")
    return made


def _copy(module: Any, made: Any, dtype: Any) -> None:
    """Give layers their weights."""
    if _is_sequential(module):
        for layer, own in zip(module, made.layers, strict=True):
            _copy(layer, own, dtype)
        return
    for name, value in module.named_parameters(recurse=False):
        wide: Any = retype(dtype, FLOAT64)
        made["weights" if name == "weight" else name] = dtype(wide(value.detach().cpu().double().numpy()))
    if hasattr(module, "training"):
        made.train(module.training)


def to_torch(net: Any) -> Any:
    """A module of PyTorch like a network, with its parameters as they are now: the inverse of :func:`from_torch`.

    ``net`` is a :class:`Sequential`, which may hold others, or a layer, packed or not, on the CPU or a GPU; the module
    is on the CPU. Raises a ``TypeError`` that names a layer that PyTorch does not have.

    >>> from drjit.llvm.ad import TensorXf
    >>> net = dr.nn.Sequential(dr.nn.Linear(2, 8), dr.nn.GELU()).alloc(TensorXf)
    >>> dr.nn.to_torch(net)  # doctest: +SKIP
    Sequential(
      (0): Linear(in_features=2, out_features=8, bias=True)
      (1): GELU(approximate='none')
    )
    """
    made = _theirs(importlib.import_module("torch"), net, "net")
    return made.train(all(layer.training for layer in made.modules()))


def _theirs(torch: Any, net: Any, path: str) -> Any:
    if net.__class__ is Sequential:
        return torch.nn.Sequential(*(_theirs(torch, layer, f"{path}.layers[{number}]")
                                     for number, layer in enumerate(net.layers)))
    name = _NAMES.get(net.__class__)
    parameters = net.parameters() if isinstance(net, Module) else {}
    if name is None or (hasattr(net, "weights") and not parameters and net.config[-1] is not False):
        problem = "there is no such layer in torch.nn" if name is None else "it has no parameters yet"
        raise TypeError(f"drjit.nn.to_torch(): {path} is {net!r}: {problem}.")
    options = {key: np.asarray(value).item() if isinstance(value, ArrayBase) else value  # an array as a slope
               for key, value in _ROWS[name].theirs(net).items()}
    made = getattr(torch.nn, name)(**options)
    own = dict(made.named_parameters())
    for key, value in parameters.items():
        half = value._type == BFLOAT16
        wide: Any = retype(type(value), FLOAT32)(value) if half else value
        tensor = torch.from_numpy(np.array(wide.numpy()))
        own["weight" if key == "weights" else key].data = tensor.to(torch.bfloat16) if half else tensor
    return made.train(getattr(net, "training", True))
