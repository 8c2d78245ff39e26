"""Encodings as layers: periodic functions of increasing frequency, and tables of features."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any, ClassVar

from drjit_core import COMPUTES_IN, TRACE, Node, cast, literal, ops

from .._base.array import ArrayBase
from .._base.errors import describe
from .._base.types import reshape as reshape_type
from .._base.values import plain_integer
from .._functions.elementwise import maximum, minimum
from .._functions.joining import stack
from .._functions.shapes import reshape
from .._functions.transformations import sh_eval
from .._promotion.promote import wrap_like
from .activations import in_single, wide
from .hashing import HashEncoding
from .modules import Module
from .vector import CoopVec

__all__ = ["HashEncodingLayer", "OneBlob", "SinEncode", "SphericalHarmonics", "TriEncode"]


class _Encode(Module):
    """What both encodings have in common."""

    DRJIT_STRUCT: ClassVar[dict[str, Any]] = {"octaves": int, "shift": float, "channels": int}

    def __init__(self, octaves: int = 0, shift: float = 0) -> None:
        count = plain_integer(octaves)
        if count is None or count < 0:
            raise ValueError(f"drjit.nn.{type(self).__name__}(): 'octaves' must be an int from 0 on, found "
                             f"{octaves!r}.")
        self.octaves, self.shift, self.channels = count, shift, -1

    def _pair(self, position: Node) -> tuple[Node, Node]:
        """The two functions of a position, in periods."""
        raise NotImplementedError

    def _of_node(self, node: Node) -> list[Node]:
        """The functions of a component, octave by octave."""
        found, type_ = [], COMPUTES_IN[node.type]
        wide = cast(node, type_)
        for octave in range(self.octaves):
            position = ops.mul(wide, literal(type_, 2.0 ** octave)) if octave else wide
            if self.shift and octave:
                position = ops.add(position, literal(type_, octave * float(self.shift)))
            found += [cast(value, node.type) for value in self._pair(position)]
        return found

    def __call__(self, arg: Any, /) -> Any:
        """The encoded input."""
        if isinstance(arg, CoopVec):
            nodes = [value for node in arg._nodes() for value in self._of_node(node)]
            if not nodes:
                raise RuntimeError(f"drjit.nn.{type(self).__name__}: without octaves there are no components.")
            return CoopVec._made(arg.type, nodes)
        if not isinstance(arg, ArrayBase) or arg._depth >= 0:
            raise TypeError(f"drjit.nn.{type(self).__name__}: the input is a cooperative vector, or a tensor of "
                            f"features and samples, found {describe(arg)}.")
        if arg.ndim != 2:
            raise ValueError(f"drjit.nn.{type(self).__name__}: the input is a tensor of features and samples, found "
                             f"the shape {arg.shape}.")
        parts = [wrap_like(arg, type(arg), [node]) for node in self._of_node(arg._nodes()[0])]
        return reshape(stack(parts, axis=1), (2 * self.octaves * arg.shape[0], arg.shape[1]))

    def _gives(self, size: int) -> int:
        return 2 * self.octaves * size if size > 0 else -1

    def _alloc(self, dtype: Any, size: int, rng: Any, /) -> tuple[Any, int]:
        result = type(self)(self.octaves, self.shift)
        result.channels = size
        return result, self._gives(size)

    def _config(self) -> str:
        return (f"octaves={self.octaves}, shift={self.shift}, in_channels={self.channels}, "
                f"out_features={2 * self.octaves * self.channels}")


class SinEncode(_Encode):
    """Sines and cosines of increasing frequency: ``sin(2π (2ⁱx + i·shift))``, then the cosine, for each octave ``i``.

    For each component (outermost), there are ``2 * octaves`` results. The encoding has period 1. Phases are reduced
    before they are multiplied by 2π, so that high octaves lose no precision; half precision is computed in single
    precision. ``shift``, a part of a period, moves each octave against the one before it, so that extrema do not
    coincide. Takes cooperative vectors, and tensors of features and samples.

    >>> from drjit.llvm import Float
    >>> list(dr.nn.SinEncode(1)(dr.nn.CoopVec(Float(0.25))))
    [[1], [-4.37114e-08]]
    """

    def _pair(self, position: Node) -> tuple[Node, Node]:
        angle = ops.mul(ops.sub(position, ops.round(position)), literal(position.type, 2 * math.pi))
        return TRACE["sin"](angle), TRACE["cos"](angle)


class TriEncode(_Encode):
    """Triangle waves of increasing frequency, which are cheaper than sines and cosines; see :class:`SinEncode`.

    ``cos△(x) = 1 - 4 |x - round(x)|`` takes the place of the cosine, ``sin△(x) = cos△(x - 1/4)`` that of the sine.

    >>> from drjit.llvm import Float
    >>> list(dr.nn.TriEncode(1)(dr.nn.CoopVec(Float(0.25))))
    [[1], [0]]
    """

    def _pair(self, position: Node) -> tuple[Node, Node]:
        return _triangle(ops.sub(position, literal(position.type, 0.25))), _triangle(position)


def _triangle(position: Node) -> Node:
    distance = ops.abs(ops.sub(position, ops.round(position)))
    result: Node = ops.fma(distance, literal(position.type, -4), literal(position.type, 1))
    return result


class SphericalHarmonics(Module):
    """The real spherical harmonics of a unit vector, up to an order from 0 to 10: see :func:`drjit.sh_eval`.

    Three components become ``(order + 1)**2``.

    >>> from drjit.llvm import Float
    >>> len(dr.nn.SphericalHarmonics(2)(dr.nn.CoopVec(Float(0), 0, 1)))
    9
    """

    DRJIT_STRUCT: ClassVar[dict[str, Any]] = {"order": int}

    def __init__(self, order: int = 3) -> None:
        count = plain_integer(order)
        if count is None or not 0 <= count <= 10:
            raise ValueError(f"drjit.nn.SphericalHarmonics(): 'order' must be an int from 0 to 10, found {order!r}.")
        self.order = count

    def __call__(self, arg: Any, /) -> Any:
        """The values for each direction."""
        return by_component(self, arg, 3, lambda x: sh_eval(reshape_type(x[0]._leaf, (3,))(*x), self.order))

    @property
    def _wants(self) -> int:
        return 3

    def _gives(self, size: int) -> int:
        return (self.order + 1) ** 2

    def _alloc(self, dtype: Any, size: int, rng: Any, /) -> tuple[Any, int]:
        if size not in (-1, 3):
            raise ValueError(f"drjit.nn.SphericalHarmonics: directions have 3 components, but the input has {size}.")
        return self, self._gives(size)

    def _config(self) -> str:
        return f"order={self.order}"


class OneBlob(Module):
    """A bump around each component, which is in [0, 1], as it is seen by ``bins`` equal parts of that interval.

    A smooth relative of the one-hot vector: bin ``i`` gets the part of the bump that lies in it. The bump has the shape
    ``15/16 (1 - u**2)**2`` and the radius ``1 / bins``; what leaves the interval on one side enters it on the other.
    (T. Müller et al., "Neural Importance Sampling", 2019, with a Gaussian bump; the quartic one, which vanishes outside
    of its radius, is that of tiny-cuda-nn.) Each component, outermost, becomes ``bins`` values, whose sum is 1.

    >>> from drjit.llvm import Float
    >>> list(dr.nn.OneBlob(4)(dr.nn.CoopVec(Float(0.375))))
    [[0.103516], [0.792969], [0.103516], [0]]
    """

    DRJIT_STRUCT: ClassVar[dict[str, Any]] = {"bins": int}

    def __init__(self, bins: int = 16) -> None:
        count = plain_integer(bins)
        if count is None or count < 2:
            raise ValueError(f"drjit.nn.OneBlob(): 'bins' must be an int from 2 on, found {bins!r}.")
        self.bins = count

    def _part(self, x: Any) -> list[Any]:
        """The bins of a component."""
        bounds = [self._below(k - x * self.bins) for k in range(self.bins + 1)]
        return [high - low for low, high in itertools.pairwise(bounds)]

    def _below(self, u: Any) -> Any:
        """What lies below a bound, in radii from the centre: also of the bumps one interval to the left and right."""
        total: Any = 0
        for shift in (-self.bins, 0, self.bins):
            v = minimum(maximum(u + shift, -1), 1)
            square = v * v
            total = total + v * (15 / 16 - square * (5 / 8) + square * square * (3 / 16)) + 0.5
        return total

    def __call__(self, arg: Any, /) -> Any:
        """The values for each component."""
        return by_component(self, arg, -1, lambda x: [value for entry in x for value in self._part(entry)])

    def _gives(self, size: int) -> int:
        return self.bins * size if size > 0 else -1

    def _alloc(self, dtype: Any, size: int, rng: Any, /) -> tuple[Any, int]:
        return self, self._gives(size)

    def _config(self) -> str:
        return f"bins={self.bins}"


def by_component(module: Module, arg: Any, count: int, function: Callable[[list[Any]], list[Any]]) -> Any:
    """What a function of flat arrays makes of the components of a vector, or the rows of a tensor."""
    name = f"drjit.nn.{type(module).__name__}"
    tensor = isinstance(arg, ArrayBase) and arg._depth < 0
    if not tensor and not isinstance(arg, CoopVec):
        raise TypeError(f"{name}: the input is a cooperative vector, or a tensor of features and samples, found "
                        f"{describe(arg)}.")
    if tensor and arg.ndim != 2:
        raise ValueError(f"{name}: the input is a tensor of features and samples, found the shape {arg.shape}.")
    rows = [arg[row].array for row in range(arg.shape[0])] if tensor else list(arg)
    if count not in (-1, len(rows)):
        raise RuntimeError(f"{name}: the input has {len(rows)} components instead of {count}.")
    found = [in_single(rows[0], entry) for entry in function([wide(row) for row in rows])]
    vector: Any = CoopVec(*found)
    return type(arg)(vector) if tensor else vector


class HashEncodingLayer(Module):
    """An encoding as a layer of a network, which takes and returns cooperative vectors.

    The parameters of the encoding are no part of the layer's: they are neither listed nor packed with those of the
    network, and are initialised and optimised by themselves; ``state_dict()`` of the network has them.

    >>> from drjit.llvm.ad import Float, TensorXf
    >>> enc = dr.nn.HashGridEncoding(Float, 2, n_levels=4)
    >>> net = dr.nn.Sequential(dr.nn.HashEncodingLayer(enc), dr.nn.Linear(-1, 3)).alloc(TensorXf, size=2)
    >>> len(dr.nn.pack(net)(dr.nn.CoopVec(Float(0.1), 0.2)))
    3
    """

    DRJIT_STRUCT: ClassVar[dict[str, Any]] = {"encoding": object}
    _constant = True

    def __init__(self, encoding: HashEncoding) -> None:
        if not isinstance(encoding, HashEncoding):
            raise TypeError("drjit.nn.HashEncodingLayer(): 'encoding' must be an encoding, found "
                            f"{describe(encoding)}.")
        self.encoding = encoding

    def __call__(self, arg: Any, /) -> Any:
        """The features of a position."""
        if not isinstance(arg, CoopVec):
            raise RuntimeError(f"drjit.nn.HashEncodingLayer: the input is a cooperative vector, found {describe(arg)}.")
        return CoopVec._of(self.encoding(arg))

    @property
    def data(self) -> Any:
        """The parameters of the encoding.

        >>> from drjit.llvm import Float
        >>> dr.nn.HashEncodingLayer(dr.nn.HashGridEncoding(Float, 2, n_levels=1)).data.shape
        (512,)
        """
        return self.encoding.data

    @property
    def _wants(self) -> int:
        return self.encoding._dimension

    def _gives(self, size: int) -> int:
        return self.encoding.n_output_features

    def _alloc(self, dtype: Any, size: int, rng: Any, /) -> tuple[Any, int]:
        if size > 0 and size != self._wants:
            raise ValueError(f"drjit.nn.HashEncodingLayer: positions have {self._wants} components, but the input has "
                             f"{size}.")
        return self, self.encoding.n_output_features

    def _config(self) -> str:
        return "\n  " + repr(self.encoding).replace("\n", "\n  ") + "\n"
