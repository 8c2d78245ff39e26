"""Encodings as layers: periodic functions of increasing frequency, and tables of features."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from drjit_core import COMPUTES_IN, TRACE, Node, cast, literal, ops

from .._base.array import ArrayBase
from .._base.errors import describe
from .._base.values import plain_integer
from .._functions.joining import stack
from .._functions.shapes import reshape
from .._promotion.promote import wrap_like
from .hashing import HashEncoding
from .modules import Module
from .vector import CoopVec

__all__ = ["HashEncodingLayer", "SinEncode", "TriEncode"]


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
