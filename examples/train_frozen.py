"""A frozen training loop: a network learns a picture, and each step is launched, not traced.

A step is the whole of it: the network, its derivatives, and Adam. The learning rate falls from step to step; since that
is an attribute of the optimiser that changes, the frozen function takes it for an array after two of its values.

Run ``python examples/train_frozen.py``; the picture is ``examples/out/train_frozen.png``.
"""

import argparse
import logging
import time
from pathlib import Path

from matplotlib.image import imsave

import drjit as dr
from drjit.llvm.ad import Float, TensorXf
from drjit.opt import Adam

OUTPUT = Path(__file__).resolve().parent / "out" / "train_frozen.png"
WAVES, HIDDEN = 8, 24


def picture(x: Float, y: Float) -> Float:
    """What is to be learned: rings and stripes."""
    return 0.5 + 0.25 * dr.cos(18 * dr.sqrt(x * x + y * y)) + 0.25 * dr.sin(7 * (x + 2 * y))


def network(weights, x: Float, y: Float) -> Float:
    """Waves of several directions and lengths, one hidden layer, one output; weights are read one by one."""
    def weight(name: str, number: int) -> Float:
        return dr.gather(Float, weights[name], number)

    inputs = [wave(weight("directions", 2 * k) * x + weight("directions", 2 * k + 1) * y)
              for k in range(WAVES) for wave in (dr.sin, dr.cos)]
    result = weight("last", HIDDEN)
    for row in range(HIDDEN):
        total = weight("first", row * (2 * WAVES + 1))
        for k, value in enumerate(inputs, 1):
            total = dr.fma(weight("first", row * (2 * WAVES + 1) + k), value, total)
        result = dr.fma(dr.maximum(total, 0), weight("last", row), result)
    return result


def step(opt: Adam, x: Float, y: Float) -> Float:
    """One step; returns the loss."""
    loss = dr.mean(dr.square(network(opt, x, y) - picture(x, y)))
    dr.backward(loss)
    opt.step()
    return loss


def optimiser() -> Adam:
    """The weights at the beginning."""
    rng = dr.rng(seed=1)
    return Adam(lr=0.01, params={
        "directions": rng.uniform(Float, 2 * WAVES, low=-12, high=12),
        "first": rng.normal(Float, HIDDEN * (2 * WAVES + 1), scale=0.3),
        "last": rng.normal(Float, HIDDEN + 1, scale=0.3)})


def train(function, steps: int, points: int) -> tuple[Adam, Float, float]:
    """Train with random points; returns the optimiser, the last loss, and the milliseconds of a step."""
    opt, rng, best = optimiser(), dr.rng(seed=2), float("inf")
    loss = Float(0)
    for k in range(steps):
        x, y = rng.uniform(Float, points, low=-1, high=1), rng.uniform(Float, points, low=-1, high=1)
        dr.eval(x, y)
        dr.sync_thread()
        start = time.perf_counter()
        opt.set_learning_rate(0.01 * 0.998 ** k)
        loss = function(opt, x, y)
        dr.eval(loss)
        dr.sync_thread()
        best = min(best, time.perf_counter() - start)
    return opt, loss, best * 1e3


def main(size: int = 200, steps: int = 1500, points: int = 2000, output: Path = OUTPUT) -> float:
    """Train, and draw what has been learned beside what was to be learned; returns the last loss."""
    frozen = dr.freeze(step)
    opt, loss, _ = train(frozen, steps, points)
    assert frozen.n_recordings <= 4  # the first step of Adam has no averages; two rates; and an array in their place
    x, y = dr.meshgrid(dr.linspace(Float, -1, 1, size), dr.linspace(Float, -1, 1, size))
    images = [dr.reshape(TensorXf(dr.clip(dr.detach(each), 0, 1)), (size, size))
              for each in (picture(x, y), network(opt, x, y))]
    output.parent.mkdir(exist_ok=True)
    imsave(output, dr.concat(images, axis=1).numpy(), cmap="magma", vmin=0, vmax=1)
    return loss[0]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=1500)
    logging.getLogger("drjit").setLevel(logging.ERROR)  # that the learning rate has become an array is known
    print(f"loss: {main(steps=parser.parse_args().steps):.5f}, picture in {OUTPUT}")
    for points in (100, 2000, 50_000):
        frozen, traced = (train(each, 60, points)[2] for each in (dr.freeze(step), step))
        print(f"{points} points: a step takes {frozen:.2f} ms frozen, {traced:.2f} ms traced")
