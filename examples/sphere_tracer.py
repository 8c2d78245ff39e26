"""A scene of distance functions with soft shadows: each ray steps until it meets something, or gives up.

Run ``python examples/sphere_tracer.py``; the picture is ``examples/out/sphere_tracer.png``.
"""

import argparse
from pathlib import Path

from matplotlib.image import imsave

import drjit as dr
from drjit.llvm import Array2f, Array3f, Bool, Float, TensorXf, UInt

OUTPUT = Path(__file__).resolve().parent / "out" / "sphere_tracer.png"


def distance(p: Array3f) -> Float:
    """How far it is at least from a point to what stands in the scene."""
    floor = p.y + 1
    ring = dr.norm(Array2f(dr.norm(Array2f(p.x, p.z)) - 1.6, p.y + 0.7)) - 0.3
    ball = dr.norm(p - Array3f(0, 0.2, 0)) - 0.8
    corner = abs(p - Array3f(0, 0.2, 0)) - 0.62
    box = dr.norm(dr.maximum(corner, 0)) + dr.minimum(dr.max(corner), 0) - 0.04
    return dr.minimum(dr.minimum(floor, ring), dr.maximum(box, -ball))  # a box without its inside


@dr.syntax
def march(origin: Array3f, direction: Array3f) -> tuple[Float, Bool]:
    """How far rays go, and whether they meet anything."""
    t = Float(0)
    for _ in range(UInt(160)):
        step = distance(origin + t * direction)
        if step < 1e-4 * t:
            return t, Bool(True)
        t += step
        if t > 40:
            break
    return t, Bool(False)


@dr.syntax
def light_at(p: Array3f, towards: Array3f) -> Float:
    """How much of the light arrives at a point: little where the way to it leads close by something."""
    lit, t = Float(1), Float(0.02)
    while t < 8 and lit > 0.01:
        step = distance(p + t * towards)
        lit = dr.minimum(lit, 10 * dr.maximum(step, 0) / t)
        t += dr.clip(step, 0.02, 0.3)
    return lit


def main(size: int = 700, output: Path = OUTPUT) -> float:
    """Draw the picture; returns which part of it is floor, ring or box."""
    x, y = dr.meshgrid(dr.linspace(Float, -1, 1, size), dr.linspace(Float, 1, -1, size))
    origin, ahead = Array3f(2.6, 2.4, 4), dr.normalize(Array3f(-2.6, -2.8, -4))
    right = dr.normalize(dr.cross(ahead, Array3f(0, 1, 0)))
    direction = dr.normalize(ahead + 0.5 * (x * right + y * dr.cross(right, ahead)))

    t, hit = march(origin, direction)
    p = origin + t * direction
    ways = [Array3f(1, -1, -1), Array3f(-1, -1, 1), Array3f(-1, 1, -1), Array3f(1, 1, 1)]
    normal = dr.normalize(sum((way * distance(p + 1e-3 * way) for way in ways), Array3f(0)))

    sun = dr.normalize(Array3f(-0.5, 0.9, 0.6))
    lit = dr.maximum(dr.dot(normal, sun), 0) * light_at(p + 0.01 * normal, sun)
    albedo = dr.select(p.y < -0.99, Array3f(0.55, 0.5, 0.45),
                       dr.select(dr.max(abs(p - Array3f(0, 0.2, 0))) < 0.68, Array3f(0.9, 0.45, 0.1),
                                 Array3f(0.1, 0.35, 0.7)))
    sky = dr.lerp(Array3f(0.75, 0.85, 1), Array3f(0.3, 0.5, 0.9), dr.clip(2 * direction.y + 0.5, 0, 1))
    color = albedo * (1.6 * lit * Array3f(1, 0.9, 0.75) + (0.25 + 0.15 * normal.y) * sky)
    color = dr.select(hit, dr.lerp(sky, color, dr.exp(-0.002 * t * t)), sky)

    pixels = TensorXf(dr.linear_to_srgb(dr.clip(color, 0, 1)))
    covered = dr.mean(Float(hit))
    image = dr.moveaxis(dr.reshape(pixels, (3, size, size)), 0, -1)
    output.parent.mkdir(exist_ok=True)
    imsave(output, image.numpy())
    return covered[0]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=700, help="pixels in a row")
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory):
        covered = main(parser.parse_args().size)
        kernels = [entry for entry in dr.kernel_history() if entry["type"] == dr.KernelType.JIT]
    print(f"rays that meet something: {covered:.1%}, by {len(kernels)} kernels, picture in {OUTPUT}")
