"""Activations, and other layers without parameters that treat each component by itself."""

from __future__ import annotations

from typing import Any, ClassVar

from .._base.array import ArrayBase
from .._base.errors import describe
from .._base.types import retype
from .._functions.elementwise import exp, exp2, fma, maximum, select, tanh
from .modules import Module
from .vector import CoopVec, cast, on_components

__all__ = ["Cast", "Exp", "Exp2", "LeakyReLU", "ReLU", "ScaleAdd", "Tanh"]


class ReLU(Module):
    """The larger one of ``x`` and 0.

    >>> from drjit.llvm import Float
    >>> dr.nn.ReLU()(Float(-1, 2))
    [0, 2]
    """

    def __call__(self, arg: Any, /) -> Any:
        """``max(x, 0)``."""
        return on_components(arg, lambda x: maximum(x, 0))


class LeakyReLU(Module):
    """``x`` where that is positive, else ``negative_slope * x``; the slope is a number or an array.

    >>> from drjit.llvm import Float
    >>> dr.nn.LeakyReLU(0.1)(Float(-1, 2))
    [-0.1, 2]
    """

    DRJIT_STRUCT: ClassVar[dict[str, Any]] = {"negative_slope": object}
    _constant = True

    def __init__(self, negative_slope: Any = 0.01) -> None:
        self.negative_slope = negative_slope

    def __call__(self, arg: Any, /) -> Any:
        """``x`` or ``negative_slope * x``."""
        slope = self.negative_slope
        return on_components(arg, lambda x: select(x >= 0, x, x * _converted(slope, x)))


def _converted(value: Any, like: Any) -> Any:
    """A number, or an array in the precision of another one."""
    if not isinstance(value, ArrayBase):
        return value
    return retype(type(value), like._type)(value)


class Exp(Module):
    """The exponential function.

    >>> from drjit.llvm import Float
    >>> dr.nn.Exp()(Float(0))
    [1]
    """

    def __call__(self, arg: Any, /) -> Any:
        """``exp(x)``."""
        return on_components(arg, exp)


class Exp2(Module):
    """The exponential function to base 2.

    >>> from drjit.llvm import Float
    >>> dr.nn.Exp2()(Float(3))
    [8]
    """

    def __call__(self, arg: Any, /) -> Any:
        """``exp2(x)``."""
        return on_components(arg, exp2)


class Tanh(Module):
    """The hyperbolic tangent.

    >>> from drjit.llvm import Float
    >>> dr.nn.Tanh()(Float(0))
    [0]
    """

    def __call__(self, arg: Any, /) -> Any:
        """``tanh(x)``."""
        return on_components(arg, tanh)


class Cast(Module):
    """Conversion to the scalar type of an array type ``dtype``.

    >>> from drjit.llvm import Float, Float16
    >>> dr.nn.Cast(Float16)(dr.nn.CoopVec(Float(1)))
    drjit.nn.CoopVec[drjit.llvm.Float16, shape=(1, 1)]
    """

    DRJIT_STRUCT: ClassVar[dict[str, Any]] = {"dtype": type}

    def __init__(self, dtype: Any = None) -> None:
        self.dtype = dtype

    def __call__(self, arg: Any, /) -> Any:
        """The input in another precision."""
        dtype = self.dtype
        if not isinstance(dtype, type) or not issubclass(dtype, ArrayBase):
            raise TypeError(f"drjit.nn.Cast: the type to convert to must be an array type, found {describe(dtype)}.")
        if isinstance(arg, CoopVec):
            return cast(arg, dtype)
        return retype(type(arg), dtype._type)(arg)

    def _config(self) -> str:
        return f"dtype={self.dtype.__name__ if isinstance(self.dtype, type) else self.dtype}"


class ScaleAdd(Module):
    """``x * scale + offset``, by constants: numbers or flat arrays, which are no parameters.

    >>> from drjit.llvm import Float
    >>> dr.nn.ScaleAdd(2, 1)(Float(3))
    [7]
    """

    DRJIT_STRUCT: ClassVar[dict[str, Any]] = {"scale": object, "offset": object}
    _constant = True

    def __init__(self, scale: Any = None, offset: Any = None) -> None:
        self.scale, self.offset = scale, offset

    def __call__(self, arg: Any, /) -> Any:
        """``x * scale + offset``."""
        scale, offset = self.scale, self.offset
        if scale is None or offset is None:
            raise RuntimeError("drjit.nn.ScaleAdd: there must be a scale and an offset.")
        return on_components(arg, lambda x: fma(x, _converted(scale, x), _converted(offset, x)))
