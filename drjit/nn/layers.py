"""Layers that look at all components together, draw numbers, look rows up, or join others."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, ClassVar

from .._access.indirect import gather
from .._ad.arrays import grad_enabled
from .._base.array import ArrayBase
from .._base.errors import describe
from .._base.types import FLOAT32, SCALAR, UINT32, UINT64, reshape, retype
from .._base.values import plain_integer
from .._functions.creation import arange, full, zeros
from .._functions.elementwise import rsqrt, select
from .._functions.evaluation import make_opaque
from .._functions.joining import concat
from .._functions.reductions import mean
from .._functions.traits import tensor_t
from .._promotion.promote import wrap
from .._random.generator import Generator
from .._random.generator import rng as new_generator
from .activations import in_single, wide
from .linear import drawn, initialiser
from .modules import Module, Sequential, require
from .vector import CoopVec
from .views import MatrixView

__all__ = ["Concat", "Dropout", "Embedding", "LayerNorm", "RMSNorm", "Skip"]


_NONE = "there are no parameters yet: net = net.alloc(<tensor type>) makes a network that has."


def _count(name: str, argument: str, value: Any, least: int = 1) -> int:
    count = plain_integer(value)
    if count is None or (count < least and count != -1):
        raise ValueError(f"drjit.nn.{name}(): {argument!r} must be an int from {least} on"
                         f"{' or -1' * (argument == 'features')}, found {value!r}.")
    return count


def _rows(view: MatrixView, rows: int) -> Any:
    """The elements of a vector in a buffer as a nested array, whose components have one element."""
    buffer = wide(view._buffer) if grad_enabled(view._buffer) else view._buffer
    leaf, down = type(buffer), view._steps[2]
    index = retype(leaf, UINT32)
    return wrap(reshape(leaf, (-1,)), [wide(gather(leaf, buffer, index(view._offset + row * down)))._nodes()[0]
                                       for row in range(rows)])


def _tensor_of(module: Module, arg: Any, allocated: bool) -> bool:
    """Whether the input is a tensor of features and samples, and no cooperative vector; raises if it does not fit."""
    name = f"drjit.nn.{type(module).__name__}"
    weights = getattr(module, "weights", None)
    if allocated:
        require(module, weights is not None, _NONE)
    if isinstance(arg, CoopVec):
        require(module, weights is None or isinstance(weights, MatrixView),
                "cooperative vectors need packed parameters: drjit.nn.pack(net) makes a network that has.")
        return False
    if not isinstance(arg, ArrayBase) or arg._depth >= 0 or len(arg.shape) != 2:
        raise TypeError(f"{name}: the input is a cooperative vector, or a tensor of features and samples, found "
                        f"{describe(arg)}.")
    require(module, not isinstance(weights, MatrixView), "tensors need parameters that are not packed: use the network "
                                                         "from before drjit.nn.pack().")
    return True


class _Norm(Module):
    """What normalisations have in common: a scale, and perhaps an offset, for each component."""

    DRJIT_STRUCT: ClassVar[dict[str, Any]] = {"config": tuple, "weights": object, "bias": object}
    _centred = True

    def __init__(self, features: int = -1, eps: float = 1e-5, affine: bool = True) -> None:
        self.config = _count(type(self).__name__, "features", features), float(eps), bool(affine)
        self.weights: Any = None
        self.bias: Any = None

    @property
    def _wants(self) -> int:
        return self.config[0]

    def _gives(self, size: int) -> int:
        return self.config[0] if self.config[0] > 0 else size

    def _alloc(self, dtype: Any, size: int, rng: Any, /) -> tuple[Any, int]:
        features, eps, affine = self.config
        if size > 0 and features > 0 and size != features:
            raise ValueError(f"drjit.nn.{type(self).__name__}: {self!r} takes {features} components, but the input has "
                             f"{size}.")
        features = features if features > 0 else size
        if affine and features < 0:
            raise RuntimeError(f"drjit.nn.{type(self).__name__}.alloc(): the network has layers of an unknown size: "
                               "pass the number of components of the input, as in net.alloc(dtype, size=2).")
        result = type(self)(features, eps, affine)
        if affine:
            result.weights = full(dtype, 1, (features,))
            if self._centred:
                result.bias = zeros(dtype, (features,))
        return result, features

    def __call__(self, arg: Any, /) -> Any:
        """The normalised components of each sample."""
        features, eps, affine = self.config
        tensor = _tensor_of(self, arg, affine)
        given: Any = arg if tensor else arg._array
        x = wide(given)
        count = x.shape[0]
        require(self, features in (-1, count), f"the input has {count} components instead of {features}.")
        if self._centred:
            x = x - mean(x, axis=0)
        x = x * rsqrt(mean(x * x, axis=0) + eps)
        if affine:
            scale, offset = ((None if value is None else wide(value)[:, None] if tensor else _rows(value, count))
                             for value in (self.weights, self.bias))
            x = x * scale if offset is None else x * scale + offset
        result = in_single(given, x)
        return result if tensor else CoopVec._of(result)

    def _config(self) -> str:
        features, eps, affine = self.config
        return f"features={features}, eps={eps}{'' if affine else ', affine=False'}"


class LayerNorm(_Norm):
    """Normalisation of the components of each sample to mean 0 and variance 1, then a scale and an offset for each.

    ``(x - mean(x)) / sqrt(var(x) + eps) * weights + bias``, where the variance is divided by the number of components,
    ``features`` (-1: as many as there are). ``affine=False`` leaves the scale and the offset out, which begin as 1 and
    0. (J. L. Ba, J. R. Kiros and G. E. Hinton, "Layer Normalization", 2016.)

    >>> from drjit.llvm import TensorXf
    >>> dr.nn.LayerNorm(eps=0).alloc(TensorXf, size=2)(TensorXf([1, 10, 3, 20], (2, 2)))
    [[-1, -1],
     [1, 1]]
    """


class RMSNorm(_Norm):
    """Division of the components of each sample by the root of their mean square, then a scale for each.

    ``x / sqrt(mean(x**2) + eps) * weights``. See :class:`LayerNorm`. (B. Zhang and R. Sennrich, "Root Mean Square Layer
    Normalization", NeurIPS 2019.)

    >>> from drjit.llvm import TensorXf
    >>> dr.nn.RMSNorm(eps=0).alloc(TensorXf, size=2)(TensorXf([3, 3], (2, 1)))
    [[1],
     [1]]
    """

    _centred = False

    def __init__(self, features: int = -1, eps: float = 1e-6, affine: bool = True) -> None:
        super().__init__(features, eps, affine)


class Dropout(Module):
    """Zeros in place of components that are drawn with the probability ``p``; the others are divided by ``1 - p``.

    ``rng`` draws them; without one, ``alloc`` gives the layer a generator of its own. It is part of ``state_dict()``,
    so that training goes on with the numbers that would have followed. ``net.train(False)`` lets all such layers return
    what they are given, ``net.train()`` lets them draw again. (N. Srivastava et al., "Dropout", JMLR 2014.)

    >>> from drjit.llvm import Float
    >>> layer = dr.nn.Dropout(0.5, dr.rng(seed=0))
    >>> layer(Float(1, 2, 3, 4))
    [0, 4, 6, 0]
    >>> layer.train(False)(Float(1, 2, 3, 4))
    [1, 2, 3, 4]
    """

    _keeps = True
    DRJIT_STRUCT: ClassVar[dict[str, Any]] = {"p": float, "training": bool, "rng": object}
    _constant = True

    def __init__(self, p: float = 0.5, rng: Generator | None = None) -> None:
        if not 0 <= p < 1:
            raise ValueError(f"drjit.nn.Dropout(): 'p' must be in [0, 1), found {p!r}.")
        self.p, self.training = float(p), True
        self.rng: Any = rng

    def _alloc(self, dtype: Any, size: int, rng: Any, /) -> tuple[Any, int]:
        result = Dropout(self.p, self.rng)
        result.training = self.training
        if self.rng is None:
            leaf = reshape(dtype, ())
            high, low = (rng.integers(retype(leaf, UINT32), 1, 0, 2**32 - 1) for _ in range(2))
            cls: Any = int if dtype._record.backend is SCALAR else retype(leaf, UINT64)
            result.rng = new_generator(cls(high) * 2**32 + cls(low))
            make_opaque(result.rng)  # so that a frozen function knows it from the first call on
        return result, size

    def __call__(self, arg: Any, /) -> Any:
        """What is left of the components."""
        if not self.training or not self.p:
            return arg
        require(self, self.rng is not None, "there is no generator: pass 'rng', or call net.alloc().")
        given: Any = arg._array if isinstance(arg, CoopVec) else arg
        x = wide(given)
        number: Any = self.rng.random(retype(type(x), FLOAT32), x.shape)
        result = in_single(given, select(number >= self.p, x * (1 / (1 - self.p)), 0))
        return CoopVec._of(result) if isinstance(arg, CoopVec) else result

    def _config(self) -> str:
        return f"p={self.p}"


def _index_of(arg: Any) -> Any:
    """The indices as a flat array: also those of a vector or a tensor with one component."""
    index = arg._array if isinstance(arg, CoopVec) else arg
    if isinstance(index, ArrayBase) and index._depth and len(index.shape) < 3 and index.shape[0] == 1:
        array: Any = index
        index = array.array if index._depth < 0 else array[0]
    if not isinstance(index, ArrayBase) or index._kind != "u" or index._depth:
        raise TypeError(f"drjit.nn.Embedding: the input is a flat array of unsigned integers, found {describe(arg)}.")
    return index


class Embedding(Module):
    """A row of a table for each index: ``features`` parameters for each of ``count`` indices, which begin as ``init``
    says (see :class:`Linear`).

    The input is a flat array of unsigned integers below ``count``, or a cooperative vector or a tensor with one such
    component. The result is a cooperative vector if the parameters are packed, else a tensor of features and samples.

    >>> from drjit.llvm import TensorXf, UInt
    >>> table = dr.nn.Embedding(10, 3).alloc(TensorXf)
    >>> table(UInt(1, 5, 1, 0)).shape
    (3, 4)
    >>> dr.nn.pack(table)(UInt(1, 5, 1, 0))
    drjit.nn.CoopVec[drjit.llvm.Float, shape=(3, 4)]
    """

    DRJIT_STRUCT: ClassVar[dict[str, Any]] = {"config": tuple, "weights": object}

    def __init__(self, count: int, features: int, init: str | Callable[..., Any] = "normal") -> None:
        self.config = _count("Embedding", "count", count), _count("Embedding", "size", features)
        self.init = initialiser("drjit.nn.Embedding", init)
        self.weights: Any = None

    @property
    def _wants(self) -> int:
        return 1

    def _gives(self, size: int) -> int:
        return self.config[1]

    def _alloc(self, dtype: Any, size: int, rng: Any, /) -> tuple[Any, int]:
        result = Embedding(*self.config, self.init)
        result.weights = drawn(self.init, rng, dtype, self.config)
        return result, self.config[1]

    def __call__(self, arg: Any, /) -> Any:
        """The rows of indices; zeros for those that are out of range, which nobody can see before they are computed."""
        weights, features = self.weights, self.config[1]
        require(self, weights is not None, _NONE)
        index = _index_of(arg)
        known = index < self.config[0]
        if isinstance(weights, MatrixView):
            buffer = wide(weights._buffer) if grad_enabled(weights._buffer) else weights._buffer
            _, _, down, right = weights._steps
            found = [gather(type(buffer), buffer, index * down + (weights._offset + column * right), known)
                     for column in range(features)]
            result = wrap(reshape(type(buffer), (-1,)), [entry._nodes()[0] for entry in found])
            return CoopVec._of(in_single(weights._buffer, result))
        table = wide(weights) if grad_enabled(weights) else weights
        samples = len(index)
        place = arange(type(index), features * samples)
        column = place // samples
        flat = gather(type(index), index, place - column * samples) * features + column
        found = gather(type(table.array), table.array, flat, gather(type(known), known, place - column * samples))
        return in_single(weights, tensor_t(table)(found, (features, samples)))

    def _config(self) -> str:
        return f"count={self.config[0]}, features={self.config[1]}"


class Skip(Sequential):
    """The input, added to what modules make of it one after the other: as many components as there were.

    (K. He et al., "Deep Residual Learning for Image Recognition", CVPR 2016.)

    >>> from drjit.llvm import Float
    >>> dr.nn.Skip(dr.nn.ReLU())(Float(-1, 2))
    [-1, 4]
    """

    def __call__(self, arg: Any, /) -> Any:
        """The sum."""
        return arg + super().__call__(arg)

    def _gives(self, size: int) -> int:
        found = super()._gives(size)
        if found > 0 and size > 0 and found != size:
            raise ValueError(f"drjit.nn.Skip: the modules return {found} components, which cannot be added to the "
                             f"{size} of the input.")
        return size if size > 0 else found

    def _alloc(self, dtype: Any, size: int, rng: Any, /) -> tuple[Any, int]:
        result, found = super()._alloc(dtype, size, rng)
        Skip._gives(result, size if size > 0 else self._wants)
        return result, found


class Concat(Module):
    """What each of several modules makes of the input, one after the other in one vector.

    ``Concat(Identity(), net)`` hands the input on together with the output of a network.

    >>> from drjit.llvm import Float
    >>> list(dr.nn.Concat(dr.nn.Identity(), dr.nn.ReLU())(dr.nn.CoopVec(Float(-1), 2)))
    [[-1], [2], [0], [2]]
    """

    DRJIT_STRUCT: ClassVar[dict[str, Any]] = {"layers": tuple}

    def __init__(self, *args: Module) -> None:
        for number, layer in enumerate(args):
            if not isinstance(layer, Module):
                raise TypeError(f"drjit.nn.Concat(): layer {number} is no module, but {describe(layer)}.")
        self.layers = tuple(args)
        wanted = {layer._wants for layer in args} - {-1}
        if len(wanted) > 1:
            raise ValueError(f"drjit.nn.Concat(): the modules take different numbers of components: "
                             f"{', '.join(map(str, sorted(wanted)))}.")

    def __call__(self, arg: Any, /) -> Any:
        """The results together."""
        found = [layer(arg) for layer in self.layers]
        return CoopVec(*found) if isinstance(arg, CoopVec) else concat(found, axis=0)

    @property
    def _wants(self) -> int:
        return max((layer._wants for layer in self.layers), default=-1)

    def _gives(self, size: int) -> int:
        found = [layer._gives(size) for layer in self.layers]
        return sum(found) if all(count > 0 for count in found) else -1

    def _alloc(self, dtype: Any, size: int, rng: Any, /) -> tuple[Any, int]:
        size = size if size > 0 else self._wants
        made = [layer._alloc(dtype, size, rng) for layer in self.layers]
        result = copy.copy(self)
        result.layers, result._in_buffer = tuple(layer for layer, _ in made), False
        counts = [count for _, count in made]
        return result, sum(counts) if all(count > 0 for count in counts) else -1

    def __repr__(self) -> str:
        return Sequential.__repr__(self)  # type: ignore[arg-type]
