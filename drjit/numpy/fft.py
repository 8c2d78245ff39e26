"""Fourier transforms by NumPy's names and signatures. They evaluate their arguments; all are differentiable."""

from __future__ import annotations

from typing import Any

import drjit.array_api as xp

from ._public import Array, array_of, documented, into, missing, named

__all__ = ["fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifft2", "ifftn", "ifftshift", "ihfft",
           "irfft", "irfft2", "irfftn", "rfft", "rfft2", "rfftfreq", "rfftn"]


def _argument(a: Any) -> Array:
    """The argument of a transform; those of real signals take real numbers, others become complex by themselves."""
    array = array_of(a)
    return array if array.dtype.kind in "fc" else array.astype(xp.float64)


def _along_one(name: str) -> Any:
    found: Any = getattr(xp.fft, name)

    def function(a: Any, n: int | None = None, axis: int = -1, norm: str | None = None,
                 out: Array | None = None) -> Array:
        return into(out, found(_argument(a), n=n, axis=axis, norm=norm or "backward"))

    return documented(function, f"fft.{name}", found.__doc__)


def _along_several(name: str, standard: str, axes_: tuple[int, int] | None) -> Any:
    found: Any = getattr(xp.fft, standard)

    def function(a: Any, s: Any = None, axes: Any = axes_, norm: str | None = None, out: Array | None = None) -> Array:
        array = _argument(a)
        if axes is None and s is not None:
            axes = tuple(range(-len(s), 0))
        return into(out, found(array, s=s, axes=axes, norm=norm or "backward"))

    text = f"{found.__doc__}" if axes_ is None else f"{found.__doc__}\n\nAlong two axes, by default the last ones."
    return documented(function, f"fft.{name}", text)


fft, ifft, rfft, irfft, hfft, ihfft = map(_along_one, ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"))
fftn, ifftn, rfftn, irfftn = (_along_several(name, name, None) for name in ("fftn", "ifftn", "rfftn", "irfftn"))
fft2, ifft2 = _along_several("fft2", "fftn", (-2, -1)), _along_several("ifft2", "ifftn", (-2, -1))
rfft2, irfft2 = _along_several("rfft2", "rfftn", (-2, -1)), _along_several("irfft2", "irfftn", (-2, -1))


@named("drjit.numpy.fft.fftfreq")
def fftfreq(n: int, d: float = 1.0) -> Array:
    """The frequencies of ``fft`` of ``n`` samples at distances ``d``. Lazy."""
    return xp.fft.fftfreq(n, d=d)


@named("drjit.numpy.fft.rfftfreq")
def rfftfreq(n: int, d: float = 1.0) -> Array:
    """The frequencies of ``rfft`` of ``n`` samples at distances ``d``. Lazy."""
    return xp.fft.rfftfreq(n, d=d)


@named("drjit.numpy.fft.fftshift")
def fftshift(x: Any, axes: Any = None) -> Array:
    """The elements moved so that the frequency 0 is in the middle of axes. Lazy; differentiable."""
    return xp.fft.fftshift(array_of(x), axes=tuple(axes) if isinstance(axes, list) else axes)


@named("drjit.numpy.fft.ifftshift")
def ifftshift(x: Any, axes: Any = None) -> Array:
    """The inverse of :func:`fftshift`. Lazy; differentiable."""
    return xp.fft.ifftshift(array_of(x), axes=tuple(axes) if isinstance(axes, list) else axes)


def __getattr__(name: str) -> Any:
    raise missing(__name__, name, __all__)


def __dir__() -> list[str]:
    """The public names."""
    return sorted(__all__)
