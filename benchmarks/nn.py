"""How long do networks and encodings take, forwards and with gradients?

Each case is run by the interpreter that this program is run by, in one process: the first call, with compilation, and
the best of three more, in seconds of this clock and of processor time. Run it with a peer's interpreter as well to
compare: it uses nothing else than the common interface.

    python benchmarks/nn.py [--samples 262144] [--width 64] [--positions 1000000] [--only mlp grid permuto loops]
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable
from typing import Any

import drjit as dr
from drjit import nn
from drjit.llvm.ad import ArrayXf, Float, Float16, TensorXf, TensorXf16, UInt32


def processor_time() -> float:
    """Seconds of this process, all threads together."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def timed(name: str, function: Callable[[], Any]) -> None:
    """Print how long a function takes."""
    times = []
    for _ in range(4):
        start, used = time.perf_counter(), processor_time()
        function()
        dr.sync_thread()
        times.append((time.perf_counter() - start, processor_time() - used))
    best = min(times[1:])
    print(f"{name:28} first {times[0][0]:6.3f} s (processor {times[0][1]:6.3f}), then {best[0]:6.3f} s "
          f"(processor {best[1]:6.3f})", flush=True)


def networks(samples: int, width: int) -> None:
    """Four layers of one width."""
    for name, tensor, leaf in (("float32", TensorXf, Float), ("float16", TensorXf16, Float16)):
        layers: list[Any] = [nn.Linear(width, width)]
        for _ in range(3):
            layers += [nn.ReLU(), nn.Linear(width, width)]
        net = nn.pack(nn.Sequential(*layers).alloc(tensor), layout="training")
        rng = dr.rng(seed=1)
        rows = [leaf(rng.random(Float, samples)) for _ in range(width)]
        dr.eval(rows)

        def forward(net: Any = net, rows: Any = rows) -> None:
            total = Float(0)
            for component in net(nn.CoopVec(rows)):
                total += Float(component)
            dr.eval(total)

        def gradient(net: Any = net, rows: Any = rows) -> None:
            weights = net["weights"]
            dr.enable_grad(weights)
            total = Float(0)
            for component in net(nn.CoopVec(rows)):
                total = dr.fma(Float(component), Float(component), total)
            dr.backward(dr.mean(total))
            dr.eval(weights.grad)
            dr.disable_grad(weights)

        timed(f"network {width} x 4 {name}", forward)
        timed(f"  gradient of {name}", gradient)


def in_a_loop(name: str, samples: int, evaluate: Callable[[list[Any]], Any], parameters: Callable[[], Any]) -> None:
    """Eight steps along each of some rays, in a symbolic loop, and the gradient of what is added up there."""
    rng = dr.rng(seed=1)
    origin, direction = ([rng.random(Float, samples) for _ in range(3)] for _ in range(2))
    dr.eval(origin, direction)

    def march() -> Any:
        def body(i: Any, t: Any, total: Any) -> Any:
            return i + 1, t + 0.05, total + evaluate([dr.fma(d, t, o) for o, d in zip(origin, direction, strict=True)])

        return dr.while_loop((UInt32(0), Float(0), dr.zeros(Float, samples)), lambda i, t, total: i < 8, body,
                             max_iterations=8)[2]

    def gradient() -> None:
        weights = parameters()
        dr.enable_grad(weights)
        dr.backward(dr.mean(dr.square(march() - 1)))
        dr.eval(weights.grad)
        dr.disable_grad(weights)

    timed(f"{name} in a loop", lambda: dr.eval(march()))
    timed("  gradient", gradient)


def loops(samples: int, width: int, positions: int) -> None:
    """A network with two hidden layers of one width, and a grid of eight levels, along rays."""
    for name, tensor, leaf in (("float32", TensorXf, Float), ("float16", TensorXf16, Float16)):
        layers = nn.Linear(3, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1)
        net = nn.pack(nn.Sequential(*layers).alloc(tensor), layout="training")
        in_a_loop(f"3, {width}, {width}, 1 {name}", samples, lambda p, net=net, leaf=leaf: sum(
            Float(y) for y in net(nn.cast(nn.CoopVec(p), leaf))), lambda net=net: net["weights"])
    enc = nn.HashGridEncoding(Float, 3, n_levels=8)
    in_a_loop("HashGridEncoding", positions, lambda p: sum(enc(ArrayXf(p))), lambda: enc.data)


def encodings(cls: Any, positions: int) -> None:
    """Sixteen levels of two features in three dimensions."""
    enc = cls(Float, 3)
    rng = dr.rng(seed=1)
    p = [rng.random(Float, positions) for _ in range(3)]
    dr.eval(p)

    def forward() -> None:
        dr.eval(enc(ArrayXf(p)))

    def gradient() -> None:
        dr.enable_grad(enc.data)
        total = Float(0)
        for component in enc(ArrayXf(p)):
            total = dr.fma(component, component, total)
        dr.backward(dr.sum(total))
        dr.eval(enc.data.grad)
        dr.disable_grad(enc.data)

    timed(cls.__name__, forward)
    timed("  gradient", gradient)


def main() -> None:
    """Run the cases."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--samples", type=int, default=1 << 18)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--positions", type=int, default=1_000_000)
    parser.add_argument("--only", nargs="*", default=["mlp", "grid", "permuto", "loops"])
    arguments = parser.parse_args()
    if "mlp" in arguments.only:
        networks(arguments.samples, arguments.width)
    if "loops" in arguments.only:
        loops(arguments.samples // 4, arguments.width, arguments.positions // 8)
    for name, cls in (("grid", nn.HashGridEncoding), ("permuto", nn.PermutoEncoding)):
        if name in arguments.only:
            encodings(cls, arguments.positions)


if __name__ == "__main__":
    main()
