"""Conversions between color spaces: the transfer function of sRGB, and Oklab."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .._base.array import ArrayBase
from .._base.errors import ArgumentError, describe
from .._base.typing import ArrayT
from .._base.values import plain_scalar
from . import elementwise as _ops
from .elementwise import abs, cbrt, copysign, fma, power, select
from .joining import stack

__all__ = ["linear_srgb_to_oklab", "linear_to_srgb", "oklab_to_linear_srgb", "srgb_to_linear"]

Matrix = tuple[tuple[float, float, float], ...]


def _intensities(x: Any, function: str) -> Any:
    if isinstance(x, ArrayBase):
        if x._kind == "f":
            return x
    elif plain_scalar(x) is not None:
        return float(plain_scalar(x))
    raise ArgumentError(f"drjit.{function}(): 'x' must be an array of floating-point numbers or a number, found "
                        f"{describe(x)}.")


def linear_to_srgb(x: Any, clip: bool = True) -> Any:
    """Linear intensities, converted to gamma-corrected values of sRGB (IEC 61966-2-1).

    ``12.92 x`` up to 0.0031308, else ``1.055 x**(1/2.4) - 0.055``. Intensities are clipped to the range from 0 to 1;
    with ``clip=False``, the conversion is that of the absolute value, with the sign of ``x``. ``x`` is an array or
    tensor of floating-point numbers, or a number, else a ``TypeError`` is raised. Evaluates nothing.

    >>> from drjit.llvm import Float
    >>> dr.linear_to_srgb(Float(0, 0.2, 1, 2))
    [0, 0.484529, 1, 1]
    """
    x = _intensities(x, "linear_to_srgb")
    value = _clip(x) if clip else abs(x)
    result = select(value <= 0.0031308, value * 12.92, fma(power(value, 1 / 2.4), 1.055, -0.055))
    return result if clip else copysign(result, x)


def srgb_to_linear(x: Any, clip: bool = True) -> Any:
    """Gamma-corrected values of sRGB, converted to linear intensities: the inverse of :func:`linear_to_srgb`.

    Evaluates nothing.

    >>> from drjit.llvm import Float
    >>> dr.srgb_to_linear(Float(0, 0.5, 1))
    [0, 0.214041, 1]
    """
    x = _intensities(x, "srgb_to_linear")
    value = _clip(x) if clip else abs(x)
    result = select(value <= 0.04045, value * (1 / 12.92), power(fma(value, 1 / 1.055, 0.055 / 1.055), 2.4))
    return result if clip else copysign(result, x)


def _clip(x: Any) -> Any:
    return _ops.clip(x, 0, 1)


# B. Ottosson, "A perceptual color space for image processing", 2020 (https://bottosson.github.io/posts/oklab/)
_CONES_OF_RGB: Matrix = ((0.4122214708, 0.5363325363, 0.0514459929), (0.2119034982, 0.6806995451, 0.1073969566),
                         (0.0883024619, 0.2817188376, 0.6299787005))
_LAB_OF_CONES: Matrix = ((0.2104542553, 0.7936177850, -0.0040720468), (1.9779984951, -2.4285922050, 0.4505937099),
                         (0.0259040371, 0.7827717662, -0.8086757660))
_CONES_OF_LAB: Matrix = ((1.0, 0.3963377774, 0.2158037573), (1.0, -0.1055613458, -0.0638541728),
                         (1.0, -0.0894841775, -1.2914855480))
_RGB_OF_CONES: Matrix = ((4.0767416621, -3.3077115913, 0.2309699292), (-1.2684380046, 2.6097574011, -0.3413193965),
                         (-0.0041960863, -0.7034186147, 1.7076147010))


def _transform(matrix: Matrix, channels: Sequence[Any]) -> list[Any]:
    x, y, z = channels
    return [fma(x, a, fma(y, b, z * c)) for a, b, c in matrix]


def _convert(value: Any, conversion: Callable[[Sequence[Any]], list[Any]], function: str) -> Any:
    """A conversion of three channels: the trailing axis of tensors, the leading one of arrays; alpha is kept."""
    channels = 0
    if isinstance(value, ArrayBase) and value._kind == "f" and value._special in ("", "tensor"):
        shape = value.shape if value._depth < 0 else value._static_shape()
        if shape:
            channels = shape[-1 if value._depth < 0 else 0]
    if channels not in (3, 4):
        found = describe(value) + (f" of the shape {value.shape}" if isinstance(value, ArrayBase) else "")
        raise ArgumentError(f"drjit.{function}(): 'value' must be an array or tensor of floating-point numbers with 3 "
                            "or 4 channels, in the trailing dimension of tensors and in the leading one of arrays; "
                            f"found {found}.")
    array: Any = value
    if array._depth >= 0:
        parts = [array[k] for k in range(channels)]
        return type(array)(*conversion(parts[:3]), *parts[3:])
    parts = [array[..., k] for k in range(channels)]
    return stack([*conversion(parts[:3]), *parts[3:]], axis=-1)


def linear_srgb_to_oklab(value: ArrayT) -> ArrayT:
    """Linear sRGB colors, converted to Oklab.

    ``value`` holds red, green and blue, and possibly alpha, which is kept: in the leading dimension of an array, in the
    trailing dimension of a tensor, else a ``TypeError`` is raised. The result has its type and shape, and holds
    lightness, green-red and blue-yellow. Convert gamma-corrected colors with :func:`srgb_to_linear` first. Evaluates
    nothing.

    >>> from drjit.llvm import Array3f
    >>> dr.linear_srgb_to_oklab(Array3f(1, 0, 0))
    [[0.627955, 0.224863, 0.125846]]
    """
    result: ArrayT = _convert(value, _to_oklab, "linear_srgb_to_oklab")
    return result


def _to_oklab(channels: Sequence[Any]) -> list[Any]:
    return _transform(_LAB_OF_CONES, [cbrt(cone) for cone in _transform(_CONES_OF_RGB, channels)])


def oklab_to_linear_srgb(value: ArrayT) -> ArrayT:
    """Oklab colors, converted to linear sRGB: the inverse of :func:`linear_srgb_to_oklab`.

    Evaluates nothing.

    >>> from drjit.llvm import Array3f
    >>> red = dr.oklab_to_linear_srgb(Array3f(0.627955, 0.224863, 0.125846))
    >>> dr.round(red * 100) / 100
    [[1, 0, 0]]
    """
    result: ArrayT = _convert(value, _from_oklab, "oklab_to_linear_srgb")
    return result


def _from_oklab(channels: Sequence[Any]) -> list[Any]:
    return _transform(_RGB_OF_CONES, [cone * cone * cone for cone in _transform(_CONES_OF_LAB, channels)])
