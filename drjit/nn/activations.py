"""Activations, and other layers without parameters that treat each component by itself."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from drjit_core import COMPUTES_IN

from .._base.array import ArrayBase
from .._base.errors import describe
from .._base.types import retype
from .._functions.elementwise import atanh, erfc, exp, exp2, fma, maximum, select, sin, tanh
from .modules import Module
from .vector import CoopVec, cast, on_components

__all__ = ["Cast", "ELU", "Exp", "Exp2", "GELU", "Identity", "LeakyReLU", "ReLU", "ScaleAdd", "SiLU", "Sigmoid", "Sin",
           "Softplus", "Tanh", "in_single", "wide"]


class ReLU(Module):
    """The larger one of ``x`` and 0.

    >>> from drjit.llvm import Float
    >>> dr.nn.ReLU()(Float(-1, 2))
    [0, 2]
    """

    _keeps = True

    def __call__(self, arg: Any, /) -> Any:
        """``max(x, 0)``."""
        return on_components(arg, lambda x: maximum(x, 0))


class LeakyReLU(Module):
    """``x`` where that is positive, else ``negative_slope * x``; the slope is a number or an array.

    >>> from drjit.llvm import Float
    >>> dr.nn.LeakyReLU(0.1)(Float(-1, 2))
    [-0.1, 2]
    """

    _keeps = True
    DRJIT_STRUCT: ClassVar[dict[str, Any]] = {"negative_slope": object}
    _constant = True

    def __init__(self, negative_slope: Any = 0.01) -> None:
        if not isinstance(negative_slope, ArrayBase):
            _real("LeakyReLU", "negative_slope", negative_slope)
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

    _keeps = True

    def __call__(self, arg: Any, /) -> Any:
        """``exp(x)``."""
        return on_components(arg, exp)


class Exp2(Module):
    """The exponential function to base 2.

    >>> from drjit.llvm import Float
    >>> dr.nn.Exp2()(Float(3))
    [8]
    """

    _keeps = True

    def __call__(self, arg: Any, /) -> Any:
        """``exp2(x)``."""
        return on_components(arg, exp2)


class Tanh(Module):
    """The hyperbolic tangent.

    >>> from drjit.llvm import Float
    >>> dr.nn.Tanh()(Float(0))
    [0]
    """

    _keeps = True

    def __call__(self, arg: Any, /) -> Any:
        """``tanh(x)``."""
        return on_components(arg, tanh)


def wide(x: Any) -> Any:
    """An array in the precision that is computed in: half precision as single precision."""
    if not isinstance(x, ArrayBase) or COMPUTES_IN[x._type] == x._type:
        return x
    return retype(type(x), COMPUTES_IN[x._type])(x)


def in_single(x: Any, result: Any) -> Any:
    """What was computed of an array by way of :func:`wide`, rounded to its precision."""
    if not isinstance(x, ArrayBase) or result._type == x._type:
        return result
    return retype(type(result), x._type)(result)


class _Activation(Module):
    """A function of each component, which half precision rounds once."""

    _keeps = True

    #: Names of the attributes to show.
    _options: ClassVar[tuple[str, ...]] = ()

    def _of(self, x: Any) -> Any:
        """The function."""
        raise NotImplementedError

    def __call__(self, arg: Any, /) -> Any:
        """The function of a vector, a tensor or another array."""
        return on_components(arg, lambda x: in_single(x, self._of(wide(x))))

    def _config(self) -> str:
        return ", ".join(f"{name}={getattr(self, name)!r}" for name in self._options)


def _sigmoid(x: Any) -> Any:
    """``1 / (1 + exp(-x))``, with exponentials that are at most 1."""
    small = exp(select(x >= 0, -x, x))
    return select(x >= 0, 1, small) / (1 + small)


class Sigmoid(_Activation):
    """The logistic function ``1 / (1 + exp(-x))``, without overflow, and to full relative accuracy where it is small.

    >>> from drjit.llvm import Float
    >>> dr.nn.Sigmoid()(Float(0, 100))
    [0.5, 1]
    """

    def _of(self, x: Any) -> Any:
        return _sigmoid(x)


class SiLU(_Activation):
    """``x`` times its logistic function: also called swish.

    >>> from drjit.llvm import Float
    >>> dr.nn.SiLU()(Float(0, 100))
    [0, 100]
    """

    def _of(self, x: Any) -> Any:
        return x * _sigmoid(x)


class GELU(_Activation):
    """``x`` times the distribution function of the normal distribution, ``x / 2 (1 + erf(x / sqrt(2)))``.

    ``approximate="tanh"`` computes ``x / 2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x**3)))`` instead. (D. Hendrycks and K.
    Gimpel, "Gaussian Error Linear Units", 2016.)

    >>> from drjit.llvm import Float
    >>> dr.nn.GELU()(Float(0, 100))
    [0, 100]
    """

    _options = "approximate",

    def __init__(self, approximate: str = "none") -> None:
        if approximate not in ("none", "tanh"):
            raise ValueError(f"drjit.nn.GELU(): 'approximate' must be 'none' or 'tanh', found {approximate!r}.")
        self.approximate = approximate

    def _of(self, x: Any) -> Any:
        if self.approximate == "tanh":
            return x * _sigmoid(math.sqrt(8 / math.pi) * (x + 0.044715 * x * x * x))
        return 0.5 * x * erfc(x * -math.sqrt(0.5))


class Softplus(_Activation):
    """``log(1 + exp(beta x)) / beta``, without overflow, and to full relative accuracy where it is small.

    >>> from drjit.llvm import Float
    >>> dr.nn.Softplus()(Float(0, 100))
    [0.693147, 100]
    """

    _options = "beta",

    def __init__(self, beta: float = 1.0) -> None:
        self.beta = _positive("Softplus", "beta", beta)

    def _of(self, x: Any) -> Any:
        x = x * self.beta
        small = exp(select(x >= 0, -x, x))
        return (select(x >= 0, x, 0) + 2 * atanh(small / (2 + small))) * (1 / self.beta)  # log(1 + small)


class ELU(_Activation):
    """``x`` where that is positive, else ``alpha (exp(x) - 1)``.

    >>> from drjit.llvm import Float
    >>> dr.nn.ELU()(Float(-100, 2))
    [-1, 2]
    """

    _options = "alpha",

    def __init__(self, alpha: float = 1.0) -> None:
        self.alpha = _real("ELU", "alpha", alpha)

    def _of(self, x: Any) -> Any:
        power = exp(select(x > 0, 0, x))
        small = select(abs(x) < 0.5, x, 0)  # where exp(x) - 1 would lose digits
        below = select(small != 0, tanh(0.5 * small) * (power + 1), power - 1)
        return select(x > 0, x, self.alpha * below)


class Sin(_Activation):
    """``sin(frequency x)``: the activation of SIRENs, whose layers begin with ``init="siren_first"`` and ``"siren"``.

    (V. Sitzmann et al., "Implicit Neural Representations with Periodic Activation Functions", NeurIPS 2020, where the
    frequency is 30.)

    >>> from drjit.llvm import Float
    >>> dr.nn.Sin(1)(Float(0))
    [0]
    """

    _options = "frequency",

    def __init__(self, frequency: float = 30.0) -> None:
        self.frequency = _real("Sin", "frequency", frequency)

    def _of(self, x: Any) -> Any:
        return sin(x * self.frequency)


class Identity(Module):
    """What it is given: of use in :class:`Concat`.

    >>> from drjit.llvm import Float
    >>> dr.nn.Identity()(Float(1, 2))
    [1, 2]
    """

    _keeps = True

    def __call__(self, arg: Any, /) -> Any:
        """The argument."""
        return arg


def _real(name: str, argument: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise TypeError(f"drjit.nn.{name}(): {argument!r} must be a number, found {describe(value)}.") from None


def _positive(name: str, argument: str, value: float) -> float:
    found = _real(name, argument, value)
    if not 0 < found < math.inf:
        raise ValueError(f"drjit.nn.{name}(): {argument!r} must be a positive number, found {value!r}.")
    return found


class Cast(Module):
    """Conversion to the scalar type of an array type ``dtype``.

    >>> from drjit.llvm import Float, Float16
    >>> dr.nn.Cast(Float16)(dr.nn.CoopVec(Float(1)))
    drjit.nn.CoopVec[drjit.llvm.Float16, shape=(1, 1)]
    """

    _keeps = True
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

    _keeps = True
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
