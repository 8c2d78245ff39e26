"""Lookups in textures at random and at coherent positions, and their derivatives; processor time of all threads."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from measure import case, main, scaled

import drjit as dr
import drjit.llvm.ad as package
from drjit.llvm.ad import Array2f, Array3f, Float, UInt32

SIDE, DEPTH = 1024, 128
MANY, FEW = scaled(1 << 22), scaled(1 << 20)


def hashed(i: UInt32) -> Float:
    """Numbers from 0 to 1 that a hash of the position scatters."""
    i = (i ^ (i >> 16)) * 0x7FEB352D
    i = (i ^ (i >> 15)) * 0x846CA68B
    i = i ^ (i >> 16)
    return Float(i >> 8) / (1 << 24)


def processor_seconds(function: Callable[[], Any], repeats: int = 7) -> float:
    """The least processor time of a call, after a warm-up."""
    times = []
    for _ in range(repeats + 2):
        dr.sync_thread()
        start = time.process_time()
        function()
        dr.sync_thread()
        times.append(time.process_time() - start)
    return min(times[2:])


def texture(dimension: int, channels: int) -> tuple[Any, Float]:
    """A texture of random texels, and these."""
    shape = [SIDE] * 2 if dimension == 2 else [DEPTH] * 3
    count = channels
    for size in shape:
        count *= size
    value = hashed(dr.arange(UInt32, count))
    dr.eval(value)
    result = getattr(package, f"Texture{dimension}f")(shape, channels)
    result.set_value(value)
    return result, value


def positions(dimension: int, count: int, coherent: bool = False) -> Any:
    """Where to look up."""
    i = dr.arange(UInt32, count)
    if coherent:
        found = Array2f(Float(i & 2047) / 2048, Float(i >> 11) / 2048)
    else:
        found = (Array2f if dimension == 2 else Array3f)(*[hashed(i + k * count) for k in range(dimension)])
    dr.eval(found)
    return found


def total(result: Any) -> Float:
    """The sum of the channels."""
    found = result[0]
    for k in range(1, len(result)):
        found = found + result[k]
    return found


def lookups(method: str, dimension: int, channels: int, count: int, coherent: bool = False) -> tuple[float, float]:
    """Processor seconds of lookups, and the mean of what they found."""
    tex, _ = texture(dimension, channels)
    pos = positions(dimension, count, coherent)

    def once() -> Any:
        result = getattr(tex, method)(pos)
        dr.eval(result)
        return result

    seconds, result = processor_seconds(once), once()
    return seconds, float(dr.mean(total(result[0] if isinstance(result, tuple) else result))[0])


def gradients(method: str, channels: int, by_data: bool) -> tuple[float, float]:
    """Processor seconds of lookups with their gradients by texels or positions, and a sum of these."""
    tex, value = texture(2, channels)
    pos = positions(2, FEW)

    def once() -> Any:
        source = value if by_data else pos
        dr.enable_grad(source)
        tex.set_value(value)
        dr.backward(total(getattr(tex, method)(pos)))
        found = dr.grad(source)
        dr.eval(found)
        dr.disable_grad(source)
        return found

    seconds, found = processor_seconds(once), once()
    return seconds, float(dr.mean(found * found if by_data else found.x * found.x)[0])


for _channels in (1, 3, 4):
    case(f"textures: 4M bilinear lookups, {_channels} channels")(
        lambda channels=_channels: lookups("eval", 2, channels, MANY))
    case(f"textures: 4M coherent bilinear lookups, {_channels} channels")(
        lambda channels=_channels: lookups("eval", 2, channels, MANY, True))
    case(f"textures: 1M bilinear lookups and gradients by texels, {_channels} channels", tolerance=1e-3)(
        lambda channels=_channels: gradients("eval", channels, True))
    case(f"textures: 1M bilinear lookups and gradients by positions, {_channels} channels", tolerance=1e-3)(
        lambda channels=_channels: gradients("eval", channels, False))
case("textures: 4M cubic lookups in 2-D")(lambda: lookups("eval_cubic", 2, 1, MANY))
case("textures: 1M cubic lookups in 3-D")(lambda: lookups("eval_cubic", 3, 1, FEW))
case("textures: 1M cubic lookups with gradients")(lambda: lookups("eval_cubic_grad", 2, 1, FEW))
case("textures: 1M cubic lookups and gradients by texels", tolerance=1e-3)(lambda: gradients("eval_cubic", 1, True))
case("textures: 1M trilinear lookups")(lambda: lookups("eval", 3, 1, FEW))


def tracing(channels: int, attached: bool) -> tuple[float, float]:
    """Seconds to trace a lookup."""
    tex, _ = texture(2, channels)
    pos = positions(2, 1024)
    if attached:
        dr.enable_grad(pos)
    places = [pos + k * 1e-3 for k in range(500)]
    times = []
    for _ in range(5):
        start = time.process_time()
        found = [tex.eval(place) for place in places]
        times.append(time.process_time() - start)
        del found
        places = [place + 1e-5 for place in places]
    return min(times) / len(places), 0.0


for _channels in (1, 3):
    for _attached in (False, True):
        case(f"textures: tracing a bilinear lookup, {_channels} channels{', attached position' * _attached}", unit="s")(
            lambda channels=_channels, attached=_attached: tracing(channels, attached))

if __name__ == "__main__":
    main()
