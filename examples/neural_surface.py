"""A surface that a small network has learned, drawn by the sphere tracer beside the one that it was to learn.

The network of sines ("Implicit Neural Representations with Periodic Activation Functions", Sitzmann et al., 2020) says
how far a point is from the surface of a ball with the channels of a gyroid. Each step draws random points, half of them
near the surface, and follows the gradient of the error; it is recorded once, and replayed. Then rays march through the
network: a loop whose body evaluates it, in one kernel. Its derivative by the position is the normal.

Run ``python examples/neural_surface.py``; the picture is ``examples/out/neural_surface.png``. Needs matplotlib.
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import matplotlib
import numpy as np

import drjit as dr
from drjit import nn
from drjit.llvm.ad import Array3f, Bool, Float, TensorXf, UInt
from drjit.opt import Adam

matplotlib.use("Agg")
import matplotlib.pyplot as plt

OUTPUT = Path(__file__).resolve().parent / "out" / "neural_surface.png"
UNITS, BATCH, RATE = 48, 1 << 14, 3e-4

Distance = Callable[[Array3f], Float]


def carved(p: Array3f) -> Float:
    """About how far a point is from a ball through which the channels of a gyroid go; negative within."""
    q = 5.5 * p
    gyroid = dr.dot(dr.sin(q), Array3f(dr.cos(q.y), dr.cos(q.z), dr.cos(q.x)))
    wall, ball = (abs(gyroid) - 0.5) / 9, dr.norm(p) - 0.8
    room = dr.maximum(0.08 - abs(wall - ball), 0)  # where both meet, the edge is round
    return dr.maximum(wall, ball) + room * room / 0.32


def network() -> nn.Sequential:
    """Three layers of sines, of which the first one has the frequencies."""
    layers = nn.Sequential(nn.Linear(3, UNITS, init="siren_first"), nn.Sin(), nn.Linear(-1, UNITS, init="siren"),
                           nn.Sin(), nn.Linear(-1, UNITS, init="siren"), nn.Sin(), nn.Linear(-1, 1, init="siren"))
    return nn.pack(layers.alloc(TensorXf, rng=dr.rng(seed=1)), layout="training")


def learned(layers: nn.Sequential, p: Array3f) -> Float:
    """What the network says of points."""
    return next(iter(layers(nn.CoopVec(p.x, p.y, p.z))))


@dr.freeze
def error_of(layers: nn.Sequential, p: Array3f, target: Float) -> tuple[Float, Float]:
    """How far the network is off, and the gradient by its weights."""
    weights = layers["weights"]
    dr.enable_grad(weights)
    error = abs(learned(layers, p) - target)
    loss = dr.mean(error)
    dr.backward(loss)
    return dr.detach(loss), weights.grad


def points(rng: dr.random.Generator) -> Array3f:
    """Random points, of which those of the first half have gone most of the way to the surface."""
    p = Array3f(rng.uniform(Float, BATCH, low=-1, high=1), rng.uniform(Float, BATCH, low=-1, high=1),
                rng.uniform(Float, BATCH, low=-1, high=1))
    near = dr.arange(UInt, BATCH) < BATCH // 2
    return dr.select(near, p - 0.9 * carved(p) * normal(carved, p), p)


@dr.syntax
def march(distance: Distance, origin: Array3f, direction: Array3f) -> tuple[Float, Bool]:
    """How far rays go, and whether they meet the surface."""
    t = dr.maximum(-dr.dot(origin, direction) - 1, 0)
    hit = Bool(False)
    for _ in range(UInt(90)):
        p = origin + t * direction
        step = dr.maximum(distance(p), dr.norm(p) - 0.85)  # what is far away, nobody has learned
        t += 0.8 * step
        if step < 1e-3:
            hit = Bool(True)
            break
        if t > 5:
            break
    return t, hit


def normal(distance: Distance, p: Array3f) -> Array3f:
    """The direction in which the distance grows."""
    p = Array3f(dr.detach(p))
    dr.enable_grad(p)
    dr.backward(distance(p))
    return dr.normalize(dr.grad(p))


def render(distance: Distance, size: int) -> tuple[np.ndarray, np.ndarray]:
    """The picture of a surface, and which pixels show it."""
    x, y = dr.meshgrid(dr.linspace(Float, -1, 1, size), dr.linspace(Float, 1, -1, size))
    origin, ahead = Array3f(1.3, 1.1, 2.2), dr.normalize(Array3f(-1.3, -1.1, -2.2))
    right = dr.normalize(dr.cross(ahead, Array3f(0, 1, 0)))
    direction = dr.normalize(ahead + 0.36 * (x * right + y * dr.cross(right, ahead)))
    t, hit = march(distance, origin, direction)
    p = origin + t * direction
    n = normal(distance, p)
    lit = dr.maximum(dr.dot(n, dr.normalize(Array3f(-0.3, 0.8, 0.7))), 0)
    within = dr.clip((dr.norm(p) - 0.45) / 0.35, 0.1, 1)  # it is darker inside
    color = (0.15 + 0.95 * lit * within) * (0.5 + 0.5 * Array3f(0.9 * n.x, 0.5 * n.y, 0.9 * n.z))
    color = dr.select(hit, color, Array3f(0.92, 0.93, 0.95) - 0.15 * (y + 1))
    pixels = TensorXf(dr.linear_to_srgb(dr.clip(color, 0, 1))).numpy()
    return np.moveaxis(pixels.reshape(3, size, size), 0, -1), hit.numpy().reshape(size, size)


def main(size: int = 400, steps: int = 1500, output: Path = OUTPUT) -> float:
    """Learn, print, draw; returns the part of the surface's pixels that the network's surface has in common with it."""
    layers, rng = network(), dr.rng(seed=3)
    opt = Adam(lr=RATE, params={"weights": layers["weights"]})
    losses = []
    begin = time.perf_counter()
    for step in range(steps):
        if step == steps * 3 // 4:
            opt.set_learning_rate(RATE / 5)
        p = points(rng)
        target = carved(p)
        dr.eval(p, target)
        layers["weights"] = Float(opt["weights"])
        loss, gradient = error_of(layers, p, target)
        dr.set_grad(opt["weights"], gradient)
        opt.step()
        losses.append(loss)
    error = float(np.mean([loss[0] for loss in losses[-20:]]))
    elapsed = time.perf_counter() - begin
    layers["weights"] = dr.detach(opt["weights"])

    (reference, here), (found, there) = (render(each, size) for each in (carved, lambda p: learned(layers, p)))
    common = float((here & there).sum() / (here | there).sum())
    print(f"{len(layers['weights'])} weights, {steps} steps in {elapsed:.1f} s, mean error {error:.4f}, "
          f"{common:.1%} of the pixels in common")
    draw(reference, found, [loss[0] for loss in losses], output)
    return common


def draw(reference: np.ndarray, found: np.ndarray, losses: list[float], output: Path) -> None:
    """Both pictures, and how the error went down."""
    figure = plt.figure(figsize=(13, 4.2), layout="constrained")
    parts = figure.subplots(1, 3)
    for part, image, title in zip(parts, (reference, found), ("the surface", "what the network has learned"),
                                  strict=False):
        part.imshow(image)
        part.set_title(title)
        part.set_axis_off()
    parts[2].semilogy(losses)
    parts[2].set_title("mean error of the distance")
    parts[2].set_xlabel("step")
    output.parent.mkdir(exist_ok=True)
    figure.savefig(output, dpi=100)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=400, help="pixels in a row of a picture")
    parser.add_argument("--steps", type=int, default=1500)
    arguments = parser.parse_args()
    main(arguments.size, arguments.steps)
    print(f"written: {OUTPUT}")
