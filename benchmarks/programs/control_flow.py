"""Loops, branches and calls: what they compute, how fast they are traced, and their derivatives."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from measure import case, main, median_seconds, scaled

import drjit as dr
from drjit.llvm import Float, UInt32
from drjit.llvm.ad import Float as FloatAD
from drjit.llvm.ad import UInt32 as UInt32AD

WIDE, LANES = scaled(1 << 22), scaled(1 << 20)
SIDE, PICTURE = max(64, int(scaled(1 << 20) ** 0.5)), max(64, int(scaled(1 << 18) ** 0.5))


def timed(function: Callable[[], Any]) -> tuple[float, float]:
    """Seconds of a call, and the mean of what it computes."""
    def run() -> None:
        dr.eval(function())
        dr.sync_thread()

    return median_seconds(run), float(np.asarray(function()).astype(np.float64).mean())


def kernels(name: str, function: Callable[[], Any]) -> None:
    """A case that counts the kernels of a call."""
    @case(f"{name}: kernels", unit="kernels")
    def _count() -> tuple[float, float]:
        dr.eval(function())
        with dr.scoped_set_flag(dr.JitFlag.KernelHistory):
            dr.kernel_history_clear()
            dr.eval(function())
            dr.sync_thread()
            found = [entry for entry in dr.kernel_history() if entry["type"] == dr.KernelType.JIT]
        return float(len(found)), 0.0


def measured(name: str, tolerance: float = 1e-3) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    """Register a function: its time, and its kernels."""
    def register(function: Callable[[], Any]) -> Callable[[], Any]:
        case(name, tolerance=tolerance)(lambda: timed(function))
        kernels(name, function)
        return function

    return register


# --- values ----------------------------------------------------------------------------------------------------------


@measured("Mandelbrot set, 1024², 200 iterations")
def mandelbrot() -> Any:
    """How many steps each point stays within a circle."""
    index = dr.arange(UInt32, SIDE * SIDE)
    cx, cy = Float(index % SIDE) * (3 / SIDE) - 2.25, Float(index // SIDE) * (3 / SIDE) - 1.5

    def body(k: UInt32, x: Float, y: Float) -> Any:
        return k + 1, x * x - y * y + cx, 2 * x * y + cy

    zero = dr.zeros(Float, SIDE * SIDE)
    return Float(dr.while_loop((dr.zeros(UInt32, SIDE * SIDE), zero, zero),
                               lambda k, x, y: (x * x + y * y < 4) & (k < 200), body)[0])


def scene(x: Any, y: Any, z: Any, p: Any) -> Any:
    """The distance to four spheres, each with a place and a radius in ``p``, and to the ground."""
    found = y + 1
    for k in range(0, 16, 4):
        found = dr.minimum(found, dr.sqrt(dr.square(x - p[k]) + dr.square(y - p[k + 1]) + dr.square(z - p[k + 2])) -
                           p[k + 3])
    return found


PARAMETERS = [-1.2, -0.4, 4.0, 0.6, 0.1, -0.3, 3.2, 0.7, 1.3, -0.5, 4.4, 0.5, 0.4, 0.7, 4.2, 0.4]


def rays(float_: Any, integer: Any) -> tuple[Any, Any, Any]:
    """Directions through the pixels of a picture."""
    index = dr.arange(integer, PICTURE * PICTURE)
    x = (float_(index % PICTURE) + 0.5) * (2 / PICTURE) - 1
    y = 1 - (float_(index // PICTURE) + 0.5) * (2 / PICTURE)
    scale = dr.rsqrt(x * x + y * y + 2.25)
    return x * scale, y * scale, 1.5 * scale


def traced(float_: Any, integer: Any, parameters: Any, **options: Any) -> Any:
    """How far rays go before they meet something, by sphere tracing."""
    dx, dy, dz = rays(float_, integer)

    def body(k: Any, t: Any, step: Any) -> Any:
        step = scene(dx * t, dy * t, dz * t, parameters)
        return k + 1, t + step, step

    count = PICTURE * PICTURE
    return dr.while_loop((dr.zeros(integer, count), dr.zeros(float_, count), dr.full(float_, 1, count)),
                         lambda k, t, step: (k < 48) & (step > 1e-3) & (t < 10), body, **options)[1]


@measured("sphere tracing, 512²")
def sphere_tracing() -> Any:
    """Distances of a picture."""
    return traced(Float, UInt32, [Float(value) for value in PARAMETERS])


@measured("switch between 16 functions, 4M")
def sixteen() -> Any:
    """One of sixteen polynomials for each element."""
    index = dr.arange(UInt32, WIDE)
    functions = [lambda x, k=k: dr.fma(x, x + k, dr.sin(x * (k + 1)) * 0.5) for k in range(16)]
    return dr.switch((index * 2654435761) >> 28, functions, Float(index) * (1 / WIDE))


_buffers: list[Any] = []


@measured("calls of 1000 functions that differ in numbers and buffers, 1M")
def thousand() -> Any:
    """A value of a buffer, scaled: by one of a thousand closures."""
    if not _buffers:
        _buffers.extend(Float(k, k + 1, k + 2, k + 3) for k in range(1000))
        dr.make_opaque(_buffers)
    index = dr.arange(UInt32, LANES)

    def function(k: int) -> Any:
        buffer = _buffers[k]
        return lambda x, i: dr.fma(dr.gather(Float, buffer, i & 3), x, k * 0.25)

    return dr.switch((index * 2654435761 >> 8) % 1000, [function(k) for k in range(1000)],
                     Float(index) * (1 / LANES), index)


_sorted: list[Any] = []


@measured("binary search in 64k numbers, 4M")
def search() -> Any:
    """Places of values in a sorted table."""
    if not _sorted:
        table = np.sort(np.random.default_rng(1).random(1 << 16, dtype=np.float32))
        _sorted.append(Float(table))
    value = Float((dr.arange(UInt32, WIDE) * 2654435761) >> 8) * (1 / (1 << 24))
    return Float(dr.binary_search(0, (1 << 16) - 1, lambda k: dr.gather(Float, _sorted[0], k) < value))


@case("evaluated loop of 100 iterations, 1M", tolerance=1e-3)
def _evaluated() -> tuple[float, float]:
    def function() -> Any:
        return dr.while_loop((dr.zeros(UInt32, LANES), dr.arange(Float, LANES) * (1 / LANES)), lambda k, x: k < 100,
                             lambda k, x: (k + 1, x * 0.99 + 0.01), mode="evaluated")[1]

    return timed(function)


def _geometric(name: str, **options: Any) -> None:
    """A case: an evaluated loop in which half of the elements that are left finish every 28 iterations."""
    @case(f"evaluated loop of 1M, 40 iterations on average and 300 at most{name}", tolerance=1e-3)
    def _run() -> tuple[float, float]:
        index = dr.arange(UInt32, LANES)
        uniform = Float((index * 2654435761) >> 8) * (1 / (1 << 24))
        limit = UInt32(dr.minimum(dr.floor(-dr.log(1 - uniform) * 40) + 1, 300))
        dr.eval(limit)
        return timed(lambda: dr.while_loop(
            (dr.zeros(UInt32, LANES), Float(index) * (1 / LANES), UInt32(limit)), lambda k, x, n: k < n,
            lambda k, x, n: (k + 1, dr.sin(x) * 0.9 + 0.01, n), mode="evaluated", **options)[1])


_geometric("")
_geometric(", compressed", compress=True)


# --- tracing ---------------------------------------------------------------------------------------------------------


def operations(x: Any, count: int) -> Any:
    """Some arithmetic, of which nothing is equal."""
    y = x
    for _ in range(count // 4):
        y = y * x
        y = y + x
        y = dr.fma(y, x, y)
        y = dr.sqrt(y)
    return y


def per_operation(construct: Callable[[Any, int], Any]) -> float:
    """Microseconds that an operation takes in a construct: the difference of many and few."""
    x = Float(1, 2, 3)

    def seconds(count: int) -> float:
        times = []
        for _ in range(25):
            start = time.perf_counter()
            result = construct(x, count)
            times.append(time.perf_counter() - start)
            del result
        return sorted(times)[len(times) // 4]

    return (seconds(2020) - seconds(20)) / 2000 * 1e6


for _name, _construct in {
        "plain code": operations,
        "the body of a loop": lambda x, n: dr.while_loop((UInt32(0, 0, 0), x), lambda k, y: k < 3,
                                                         lambda k, y: (k + 1, operations(y, n)))[1],
        "a branch": lambda x, n: dr.if_stmt((x,), x > 2, lambda y: operations(y, n), lambda y: y),
        "a call": lambda x, n: dr.switch(UInt32(0, 1, 1), [lambda y: operations(y, n), lambda y: y], x)}.items():
    case(f"tracing an operation in {_name}", unit="µs")(
        lambda construct=_construct: (per_operation(construct), 0.0))


@case("tracing an empty loop", unit="µs")
def _empty() -> tuple[float, float]:
    x, k = Float(1, 2, 3), UInt32(0, 0, 0)
    seconds = median_seconds(lambda: dr.while_loop((k, x), lambda k, y: k < 3, lambda k, y: (k + 1, y + 1)), 200)
    return seconds * 1e6, 0.0


# --- derivatives -----------------------------------------------------------------------------------------------------


def reverse(name: str, function: Callable[[list[Any]], Any], variables: Callable[[], list[Any]]) -> None:
    """A case: the value of a function of some variables, and its gradient."""
    def run() -> Any:
        given = variables()
        dr.enable_grad(given)
        loss = dr.mean(function(given))
        dr.backward(loss)
        found = [dr.grad(value) for value in given]
        dr.eval(loss, found)
        dr.sync_thread()
        return found

    case(name, tolerance=2e-2)(lambda: (median_seconds(run), sum(float(np.abs(np.asarray(value)).sum())
                                                                 for value in run())))
    kernels(name, lambda: run()[0])


def opaque(*values: Any) -> list[Any]:
    """Variables that kernels read, not literals."""
    found = [FloatAD(value) for value in values]
    dr.make_opaque(found)
    return found


def _sum(given: list[Any]) -> Any:
    scale, x = given

    def body(k: Any, total: Any) -> Any:
        return k + 1, total + dr.sin(x * (FloatAD(k) + scale))

    return dr.while_loop((dr.zeros(UInt32AD, LANES), dr.zeros(FloatAD, LANES)), lambda k, total: k < 16, body,
                         max_iterations=16)[1]


def _state(given: list[Any]) -> Any:
    scale, x = given
    return dr.while_loop((dr.zeros(UInt32AD, LANES), x), lambda k, y: k < 16,
                         lambda k, y: (k + 1, dr.sin(y * scale) + 0.5 * y), max_iterations=16)[1]


def _switch(given: list[Any]) -> Any:
    scale, x = given
    functions = [lambda x, s, k=k: dr.fma(x, s + k, dr.sin(x * (k + 1))) for k in range(8)]
    return dr.switch((dr.arange(UInt32AD, LANES) * 2654435761) >> 29, functions, x, scale)


def _two() -> list[Any]:
    return [*opaque(1.25), FloatAD(dr.arange(FloatAD, LANES) * (1 / LANES))]


def _pose(given: list[Any]) -> Any:
    return traced(FloatAD, UInt32AD, given, max_iterations=48)


def _shaded(given: list[Any]) -> Any:
    """What renderers do: rays are traced without derivatives; the points found depend on the parameters to first order,
    and so do the normals, which are differences of the distance, and the light."""
    dx, dy, dz = rays(FloatAD, UInt32AD)
    t = dr.detach(traced(FloatAD, UInt32AD, [dr.detach(value) for value in given]))
    hit = t < 10
    t = t + scene(dx * t, dy * t, dz * t, given)
    x, y, z, step, normal = dx * t, dy * t, dz * t, 1e-2, [0, 0, 0]
    for signs in ((1, -1, -1), (-1, -1, 1), (-1, 1, -1), (1, 1, 1)):
        distance = scene(x + signs[0] * step, y + signs[1] * step, z + signs[2] * step, given)
        normal = [part + sign * distance for part, sign in zip(normal, signs)]
    scale = dr.rsqrt(normal[0] * normal[0] + normal[1] * normal[1] + normal[2] * normal[2])
    return dr.select(hit, dr.maximum((normal[0] * 0.5 + normal[1] * 0.7 - normal[2] * 0.5) * scale, 0), 0.2)


def _unrolled(given: list[Any]) -> Any:
    """Without a loop: eight steps of every ray."""
    dx, dy, dz = rays(FloatAD, UInt32AD)
    t = dr.zeros(FloatAD, PICTURE * PICTURE)
    for _ in range(8):
        t = t + scene(dx * t, dy * t, dz * t, given)
    return t


reverse("gradient of a loop that adds up, 1M", _sum, _two)
reverse("gradient of a loop with state, 1M", _state, _two)
reverse("gradient of a switch, 1M", _switch, _two)
reverse("gradient of sphere tracing by 16 numbers, 512²", _pose, lambda: opaque(*PARAMETERS))
reverse("gradient of a shaded picture of spheres by 16 numbers, 512²", _shaded, lambda: opaque(*PARAMETERS))
reverse("gradient of eight steps of sphere tracing by 16 numbers, 512²", _unrolled, lambda: opaque(*PARAMETERS))

if __name__ == "__main__":
    main()
