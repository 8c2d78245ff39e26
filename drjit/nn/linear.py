"""Affine layers, and how their weights begin."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from .._base.array import ArrayBase
from .._base.errors import describe
from .._base.types import FLOAT32, FLOAT64, retype
from .._base.values import plain_integer
from .._functions.creation import full, zeros
from .modules import Module, require
from .product import matvec
from .vector import CoopVec
from .views import MatrixView

__all__ = ["INITIALISERS", "Linear", "drawn"]

#: The gain of layers before a ReLU, which halves the variance.
_GAIN = math.sqrt(2)


def _uniform(bound: Callable[[int, int], float]) -> Callable[..., Any]:
    """Numbers between minus a bound and the bound, which depends on the numbers of inputs and outputs."""
    return lambda rng, dtype, shape: (rng.random(dtype, shape) * 2 - 1) * bound(shape[1], shape[0])


def _normal(deviation: Callable[[int, int], float]) -> Callable[..., Any]:
    """Normally distributed numbers of a deviation."""
    return lambda rng, dtype, shape: rng.normal(dtype, shape) * deviation(shape[1], shape[0])


def _orthogonal(rng: Any, dtype: Any, shape: tuple[int, int]) -> Any:
    """Rows or columns of a random orthogonal matrix (F. Mezzadri, "How to generate random matrices from the classical
    compact groups", 2007)."""
    large, small = max(shape), min(shape)
    q, r = np.linalg.qr(rng.normal(retype(dtype, FLOAT64), (large, small)).numpy())
    q *= np.sign(np.diagonal(r))
    return dtype(np.ascontiguousarray(q if shape == q.shape else q.T))


#: Initial weights, of shape (outputs, inputs), by name. Sources: X. Glorot and Y. Bengio, "Understanding the difficulty
#: of training deep feedforward neural networks" (2010), also known by the name Xavier; K. He et al., "Delving deep into
#: rectifiers" (2015), also Kaiming; Y. LeCun et al., "Efficient BackProp" (1998); V. Sitzmann et al., "Implicit neural
#: representations with periodic activation functions" (2020), for frequency 30; PyTorch's is that of its Linear.
INITIALISERS: dict[str, Callable[..., Any]] = {
    "default": _uniform(lambda into, out: 1 / math.sqrt(out)),
    "zeros": lambda rng, dtype, shape: zeros(dtype, shape),
    "ones": lambda rng, dtype, shape: full(dtype, 1, shape),
    "normal": _normal(lambda into, out: 1.0),
    "glorot_uniform": _uniform(lambda into, out: math.sqrt(6 / (into + out))),
    "glorot_normal": _normal(lambda into, out: math.sqrt(2 / (into + out))),
    "he_uniform": _uniform(lambda into, out: _GAIN * math.sqrt(3 / into)),
    "he_normal": _normal(lambda into, out: _GAIN / math.sqrt(into)),
    "lecun_uniform": _uniform(lambda into, out: math.sqrt(3 / into)),
    "lecun_normal": _normal(lambda into, out: 1 / math.sqrt(into)),
    "torch": _uniform(lambda into, out: 1 / math.sqrt(into)),
    "siren_first": _uniform(lambda into, out: 1 / into),
    "siren": _uniform(lambda into, out: math.sqrt(6 / into) / 30),
    "orthogonal": _orthogonal,
}
INITIALISERS |= {name.replace(old, new): INITIALISERS[name] for old, new in (("glorot", "xavier"), ("he_", "kaiming_"))
                 for name in list(INITIALISERS) if name.startswith(old)}
#: Those whose biases are drawn as well, from a range that depends on the number of inputs.
_BIASED = "torch", "siren", "siren_first"


def initialiser(function: str, init: Any) -> Any:
    """An initialiser as it is kept: a name, or a function."""
    if not callable(init) and not (isinstance(init, str) and init in INITIALISERS):
        raise ValueError(f"{function}(): 'init' must be a function or one of {', '.join(map(repr, INITIALISERS))}, "
                         f"found {init!r}.")
    return init


def drawn(init: Any, rng: Any, dtype: Any, shape: tuple[int, int]) -> Any:
    """Initial weights: drawn in single precision at least, then rounded."""
    wide = dtype if dtype._type == FLOAT64 else retype(dtype, FLOAT32)
    function = INITIALISERS[init] if isinstance(init, str) else init
    found = function(rng, wide, shape)
    if not isinstance(found, ArrayBase) or found.shape != shape:
        raise ValueError(f"drjit.nn: an initialiser must return a tensor of the shape {shape}, found {describe(found)} "
                         f"of the shape {getattr(found, 'shape', ())}.")
    return dtype(found)


class Linear(Module):
    """An affine transformation with parameters: ``weights @ x + bias``.

    ``in_features=-1`` takes as many components as the layer before returns, ``out_features=-1`` returns as many as it
    takes. Without ``bias``, nothing is added.

    ``init`` says how weights begin, as ``alloc`` draws them, by name, or as a function of a generator, a tensor type
    and a shape ``(out_features, in_features)`` that returns such a tensor:

    - ``"default"``: uniformly between ``-k`` and ``k``, where ``k`` is ``1 / sqrt(out_features)``;
    - ``"glorot_uniform"``, ``"glorot_normal"`` (also ``"xavier_…"``), ``"he_uniform"``, ``"he_normal"`` (also
      ``"kaiming_…"``, for ReLU), ``"lecun_uniform"``, ``"lecun_normal"``: for a variance that layers keep;
    - ``"siren_first"`` and ``"siren"``: for :class:`Sin` of frequency 30;
    - ``"torch"``: as PyTorch's ``Linear`` does;
    - ``"orthogonal"``, ``"normal"``, ``"zeros"``, ``"ones"``.

    Biases begin as zeros, with ``"torch"`` and ``"siren"`` uniformly between plus and minus ``1 / sqrt(in_features)``.

    >>> from drjit.llvm import Float, TensorXf
    >>> layer = dr.nn.Linear(2, 1).alloc(TensorXf)
    >>> layer["weights"] = TensorXf([1, 2], (1, 2))
    >>> layer["bias"] = TensorXf([3], (1,))
    >>> layer(TensorXf([1, 10, 1, 20], (2, 2)))
    [[6, 53]]
    >>> list(dr.nn.pack(layer)(dr.nn.CoopVec(Float(1, 10), Float(1, 20))))
    [[6, 53]]
    """

    DRJIT_STRUCT: ClassVar[dict[str, Any]] = {"config": tuple, "weights": object, "bias": object}

    def __init__(self, in_features: int = -1, out_features: int = -1, bias: bool = True,
                 init: str | Callable[..., Any] = "default") -> None:
        for name, value in (("in_features", in_features), ("out_features", out_features)):
            count = plain_integer(value)
            if count is None or (count < 1 and count != -1):
                raise ValueError(f"drjit.nn.Linear(): {name!r} must be a positive int or -1, found {value!r}.")
        self.config = int(in_features), int(out_features), bool(bias)
        self.init = initialiser("drjit.nn.Linear", init)
        self.weights: Any = None
        self.bias: Any = None

    @property
    def _wants(self) -> int:
        return self.config[0]

    def _gives(self, size: int) -> int:
        into, out, _ = self.config
        return out if out > 0 else into if into > 0 else size

    def _alloc(self, dtype: Any, size: int, rng: Any, /) -> tuple[Any, int]:
        into, out, bias = self.config
        if into < 0:
            into = size
        if into < 0:
            raise RuntimeError("drjit.nn.Linear.alloc(): the network has layers of an unknown size: pass the number of "
                               "components of the input, as in net.alloc(dtype, size=2).")
        if size > 0 and size != into:
            raise ValueError(f"drjit.nn.Linear: {self!r} takes {into} components, but the input has {size}.")
        if out < 0:
            out = into
        result = Linear(into, out, bias, self.init)
        result.weights = drawn(self.init, rng, dtype, (out, into))
        if bias and self.init in _BIASED:
            result.bias = drawn(_uniform(lambda one, out: 1 / math.sqrt(into)), rng, dtype, (out, 1))[:, 0]
        elif bias:
            result.bias = zeros(dtype, (out,))
        return result, out

    def __call__(self, arg: Any, /) -> Any:
        """The product with the weights, and the bias added.

        >>> from drjit.llvm import TensorXf
        >>> dr.nn.Linear(3, 2).alloc(TensorXf)(dr.zeros(TensorXf, (3, 5))).shape
        (2, 5)
        """
        weights, bias = self.weights, self.bias
        require(self, weights is not None, "the network has no parameters yet: net = net.alloc(<tensor type>) makes a "
                                            "network that has.")
        if isinstance(arg, CoopVec):
            require(self, isinstance(weights, MatrixView), "cooperative vectors need packed weights: drjit.nn.pack("
                                                            "net) makes a network that has.")
            return matvec(weights, arg, bias)
        require(self, not isinstance(weights, MatrixView), "tensors need weights that are not packed: pass a "
                                                            "drjit.nn.CoopVec, or use the network from before "
                                                            "drjit.nn.pack().")
        if not isinstance(arg, ArrayBase) or arg._depth >= 0:
            raise TypeError(f"drjit.nn.Linear: the input is a cooperative vector, or a tensor of features and samples, "
                            f"found {describe(arg)}.")
        if arg.ndim != 2 or arg.shape[0] != weights.shape[1]:
            raise RuntimeError(f"drjit.nn.Linear: the input is a tensor of {weights.shape[1]} features and any number "
                               f"of samples, found the shape {arg.shape}.")
        result = weights @ arg
        return result if bias is None else result + bias[:, None]

    def _config(self) -> str:
        into, out, bias = self.config
        return (f"in_features={into}, out_features={out}{'' if bias else ', bias=False'}"
                f"{'' if self.init == 'default' else f', init={self.init!r}'}")
