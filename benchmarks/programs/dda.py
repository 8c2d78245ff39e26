"""Line integrals of 1M rays through a volume of 128 × 128 × 128 values, and their derivatives."""

from __future__ import annotations

from measure import case, main, median_seconds, scaled

import drjit as dr
import drjit.dda
from drjit.llvm.ad import Array3f, Float, TensorXf, UInt32

RAYS = scaled(1 << 20)
SIDE = 128


def hashed(i: UInt32) -> Float:
    """Numbers from 0 to 1 that a hash of the position scatters."""
    i = (i ^ (i >> 16)) * 0x7FEB352D
    i = (i ^ (i >> 15)) * 0x846CA68B
    i = i ^ (i >> 16)
    return Float(i >> 8) / (1 << 24)


def volume() -> TensorXf:
    """A volume of random values."""
    vol = TensorXf(hashed(dr.arange(UInt32, SIDE ** 3)), (SIDE, SIDE, SIDE))
    dr.eval(vol)
    return vol


def rays(coherent: bool) -> tuple[Array3f, Array3f]:
    """Rays from one side, a pixel each, or between random points on opposite sides."""
    i = dr.arange(UInt32, RAYS)
    if coherent:
        x, y = Float(i & 1023) / 1024, Float((i >> 10) & 1023) / 1024
        o, d = Array3f(x, y, -1), Array3f(0.1, 0.2, 1)
    else:
        o = Array3f(hashed(i), hashed(i + RAYS), -0.01)
        d = Array3f(hashed(i + 2 * RAYS), hashed(i + 3 * RAYS), 1.01) - o
    dr.eval(o, d)
    return o, d


def integral(vol: TensorXf, o: Array3f, d: Array3f) -> Float:
    """The integrals along infinite rays, through the unit cube."""
    return dr.dda.integrate(o, d, dr.full(Float, float("inf")), Array3f(0), Array3f(1), vol)


def forward(coherent: bool) -> tuple[float, float]:
    """Seconds to integrate, and the mean of what was found."""
    vol, (o, d) = volume(), rays(coherent)

    def once() -> Float:
        result = integral(vol, o, d)
        dr.eval(result)
        dr.sync_thread()
        return result

    return median_seconds(once, 3), float(dr.mean(once())[0])


@case("integrate 1M parallel rays through 128^3")
def _parallel() -> tuple[float, float]:
    return forward(True)


@case("integrate 1M random rays through 128^3")
def _random() -> tuple[float, float]:
    return forward(False)


@case("gradient of 1M random rays through 128^3", tolerance=1e-3)
def _gradient() -> tuple[float, float]:
    vol, (o, d) = volume(), rays(False)

    def once() -> TensorXf:
        dr.enable_grad(vol)
        dr.clear_grad(vol)
        dr.backward(dr.square(integral(vol, o, d)))
        gradient = dr.grad(vol)
        dr.eval(gradient)
        dr.sync_thread()
        return gradient

    seconds = median_seconds(once, 3)
    return seconds, float(dr.mean(once().array)[0])


if __name__ == "__main__":
    main()
