"""The Fourier transform extension of the standard, by NumPy's pocketfft: all evaluate their argument, and are
differentiable but for the frequencies.

``n`` and ``s`` are sizes that axes are cut or filled with zeros to. ``norm`` says which direction is divided by the
number of elements: ``'backward'``, ``'forward'``, or ``'ortho'``, both by its square root.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from . import _dtypes as dtypes
from ._creation import asarray, chosen_device, data_type
from ._data import constant
from ._dtypes import DTypeLike
from ._elementwise import conj, real
from ._host import computed, is_tracked
from ._manipulation import concat, each, flip, roll
from ._operands import as_float, converted, normalized_axes, normalized_axis, require_array, require_kind

if TYPE_CHECKING:
    from ._array import Array

__all__ = ["fft", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifftn", "ifftshift", "ihfft", "irfft", "irfftn",
           "rfft", "rfftfreq", "rfftn"]

_NAMESPACE = "drjit.array_api.fft"
_rfft: Any = np.fft.rfft
_irfft: Any = np.fft.irfft
_NORMS = ("backward", "forward", "ortho")


def _argument(name: str, x: Any, norm: Any, kinds: str = "fc") -> Array:
    function = f"{_NAMESPACE}.{name}"
    if norm not in _NORMS:
        raise ValueError(f"{function}(): 'norm' must be one of {', '.join(map(repr, _NORMS))}, found {norm!r}.")
    array = as_float(function, "x", x)
    if array._dtype.kind not in kinds:
        require_kind(function, "x", x, kinds)
    return array


def _size(function: str, n: Any, default: int, name: str = "n") -> int:
    size = default if n is None else int(n)
    if size < 1:
        raise ValueError(f"{function}(): '{name}' must be positive, found {size}.")
    return size


def _complex(array: Array) -> Array:
    return converted(array, dtypes.complex128 if array._dtype.bits == 64 else dtypes.complex64)


def _fitted(array: Array, size: int, axis: int) -> Array:
    """The array cut, or filled with zeros, to a size along an axis."""
    have = array.shape[axis]
    if have > size:
        key = (slice(None),) * axis + (slice(0, size),)
        return each(array, lambda part: part[key])
    if have == size:
        return array
    shape = (*array.shape[:axis], size - have, *array.shape[axis + 1:])
    return concat([array, constant(array._dtype, 0, shape, array.device)], axis=axis)


def _transformed(name: str, array: Array, axis: int, norm: str, inverse: bool) -> Array:
    """The complex transform along an axis, whose adjoint is the other direction with the other norm."""
    run: Any = np.fft.ifft if inverse else np.fft.fft
    other = {"backward": "forward", "forward": "backward", "ortho": "ortho"}[norm]
    return computed(f"{_NAMESPACE}.{name}", lambda a: run(a, axis=axis, norm=norm), [array],
                    lambda a, y, d: [_transformed(name, d[0], axis, norm, inverse)],
                    lambda a, y, g: [_transformed(name, g[0], axis, other, not inverse)])[0]


def _one(name: str, x: Any, n: Any, axis: int, norm: str, inverse: bool) -> Array:
    array = _complex(_argument(name, x, norm))
    place = normalized_axis(f"{_NAMESPACE}.{name}", axis, array.ndim)
    return _transformed(name, _fitted(array, _size(f"{_NAMESPACE}.{name}", n, array.shape[place]), place), place, norm,
                        inverse)


def fft(x: Array, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Array:
    """The discrete Fourier transform along an axis."""
    return _one("fft", x, n, axis, norm, False)


def ifft(x: Array, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Array:
    """The inverse of :func:`fft`."""
    return _one("ifft", x, n, axis, norm, True)


def _axes(name: str, array: Array, s: Any, axes: Any) -> list[tuple[int, int | None]]:
    """Axes, and the sizes that they are brought to."""
    function = f"{_NAMESPACE}.{name}"
    if axes is None:
        places = tuple(range(array.ndim)) if s is None else tuple(range(array.ndim - len(s), array.ndim))
    else:
        places = tuple([normalized_axis(function, axis, array.ndim, "axes") for axis in axes])
    sizes = [None] * len(places) if s is None else list(s)
    if len(sizes) != len(places):
        raise ValueError(f"{function}(): 's' has {len(sizes)} sizes for {len(places)} axes.")
    return [(place, None if size in (None, -1) else size) for place, size in zip(places, sizes, strict=True)]


def _several(name: str, x: Any, s: Any, axes: Any, norm: str, inverse: bool) -> Array:
    array = _argument(name, x, norm)
    for place, size in _axes(name, array, s, axes):
        array = _one(name, array, size, place, norm, inverse)
    return _complex(array)


def fftn(x: Array, /, *, s: Any = None, axes: Any = None, norm: str = "backward") -> Array:
    """The discrete Fourier transform along several axes, all of them without ``axes``."""
    return _several("fftn", x, s, axes, norm, False)


def ifftn(x: Array, /, *, s: Any = None, axes: Any = None, norm: str = "backward") -> Array:
    """The inverse of :func:`fftn`."""
    return _several("ifftn", x, s, axes, norm, True)


def rfft(x: Array, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Array:
    """The first half of the transform of real numbers, which determines the other."""
    array = _argument("rfft", x, norm, "f")
    place = normalized_axis(f"{_NAMESPACE}.rfft", axis, array.ndim)
    size = _size(f"{_NAMESPACE}.rfft", n, array.shape[place])
    if not is_tracked(array):
        return computed(f"{_NAMESPACE}.rfft", lambda a: _rfft(a, n=size, axis=place, norm=norm), [array])[0]
    return _fitted(_one("rfft", array, size, place, norm, False), size // 2 + 1, place)


def irfft(x: Array, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Array:
    """The inverse of :func:`rfft`: real numbers, of which there are ``n``, an even number by default."""
    array = _argument("irfft", x, norm)
    array = _complex(array)
    place = normalized_axis(f"{_NAMESPACE}.irfft", axis, array.ndim)
    size = _size(f"{_NAMESPACE}.irfft", n, 2 * (array.shape[place] - 1))
    if not is_tracked(array):
        return computed(f"{_NAMESPACE}.irfft", lambda a: _irfft(a, n=size, axis=place, norm=norm), [array])[0]
    return real(_one("irfft", _mirrored(_fitted(array, size // 2 + 1, place), size, place), size, place, norm, True))


def _mirrored(array: Array, size: int, axis: int) -> Array:
    """The whole spectrum of real numbers, given its first half; the first number, and the middle one, are real."""
    before = (slice(None),) * axis

    def part(start: int, stop: int) -> Array:
        return each(array, lambda tensor: tensor[(*before, slice(start, stop))])

    middle = size // 2
    ends = [_complex(real(part(0, 1))), part(1, (size + 1) // 2)]
    if size % 2 == 0:
        ends.append(_complex(real(part(middle, middle + 1))))
    found = [entry for entry in ends if entry.shape[axis]]
    if (size + 1) // 2 > 1:
        found.append(conj(flip(part(1, (size + 1) // 2), axis=axis)))
    return concat(found, axis=axis)


def rfftn(x: Array, /, *, s: Any = None, axes: Any = None, norm: str = "backward") -> Array:
    """The transform of real numbers along several axes; the last one is halved."""
    array = _argument("rfftn", x, norm, "f")
    places = _axes("rfftn", array, s, axes)
    found = rfft(array, n=places[-1][1], axis=places[-1][0], norm=norm)
    for place, size in places[:-1]:
        found = _one("rfftn", found, size, place, norm, False)
    return found


def irfftn(x: Array, /, *, s: Any = None, axes: Any = None, norm: str = "backward") -> Array:
    """The inverse of :func:`rfftn`."""
    array = _argument("irfftn", x, norm)
    places = _axes("irfftn", array, s, axes)
    for place, size in places[:-1]:
        array = _one("irfftn", array, size, place, norm, True)
    return irfft(array, n=places[-1][1], axis=places[-1][0], norm=norm)


def hfft(x: Array, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Array:
    """The transform of numbers whose spectrum is real, given the first half of them."""
    array = _complex(_argument("hfft", x, norm))
    return irfft(conj(array), n=n, axis=axis, norm=_swapped(norm))


def ihfft(x: Array, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Array:
    """The inverse of :func:`hfft`."""
    return conj(rfft(_argument("ihfft", x, norm, "f"), n=n, axis=axis, norm=_swapped(norm)))


def _swapped(norm: str) -> str:
    return {"backward": "forward", "forward": "backward", "ortho": "ortho"}[norm]


def fftfreq(n: int, /, *, d: float = 1.0, dtype: DTypeLike | None = None, device: Any = None) -> Array:
    """The frequencies of the results of :func:`fft`, for samples at a distance of ``d``."""
    return _frequencies("fftfreq", np.fft.fftfreq, n, d, dtype, device)


def rfftfreq(n: int, /, *, d: float = 1.0, dtype: DTypeLike | None = None, device: Any = None) -> Array:
    """The frequencies of the results of :func:`rfft`, for samples at a distance of ``d``."""
    return _frequencies("rfftfreq", np.fft.rfftfreq, n, d, dtype, device)


def _frequencies(name: str, frequencies: Any, n: int, d: float, dtype: Any, device: Any) -> Array:
    function = f"{_NAMESPACE}.{name}"
    where = chosen_device(function, device)
    wanted = data_type(function, dtype, dtypes.DEFAULT_FLOAT)
    if wanted.kind != "f":
        raise TypeError(f"{function}(): 'dtype' must be a real floating point type, found {dtype}.")
    return converted(asarray(frequencies(_size(function, n, 1), d), device=where), wanted)


def fftshift(x: Array, /, *, axes: int | tuple[int, ...] | None = None) -> Array:
    """The elements with the frequency 0 in the middle of the axes. Lazy."""
    return _shifted("fftshift", x, axes, 1)


def ifftshift(x: Array, /, *, axes: int | tuple[int, ...] | None = None) -> Array:
    """The inverse of :func:`fftshift`. Lazy."""
    return _shifted("ifftshift", x, axes, -1)


def _shifted(name: str, x: Any, axes: Any, sign: int) -> Array:
    function = f"{_NAMESPACE}.{name}"
    array = require_array(function, "x", x)
    places = normalized_axes(function, axes, array.ndim, "axes")
    return roll(array, tuple([sign * (array.shape[place] // 2) for place in places]), axis=places) if places else array


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)
