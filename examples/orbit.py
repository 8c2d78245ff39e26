"""A frozen renderer: a camera goes round a scene of distance functions, and each frame is launched, not traced.

``frame`` is traced by its first two calls; all others launch its kernels for another angle, which is an argument of one
element. So does every other resolution.

Run ``python examples/orbit.py``; the picture is ``examples/out/orbit.png``.
"""

import argparse
import time
from pathlib import Path

from matplotlib.image import imsave

import drjit as dr
from drjit.llvm import Array3f, Bool, Float, TensorXf, UInt

OUTPUT = Path(__file__).resolve().parent / "out" / "orbit.png"
FRAMES = 4  # in the picture


def distance(p: Array3f) -> Float:
    """How far it is at least from a point to what stands in the scene: a floor, and a knot of three bars."""
    q = abs(p - Array3f(0, 0.1, 0))
    bars = dr.minimum(dr.maximum(q.x, q.y), dr.minimum(dr.maximum(q.y, q.z), dr.maximum(q.z, q.x))) - 0.22
    knot = dr.maximum(bars, dr.norm(q) - 1.05)
    return dr.minimum(p.y + 1, knot) * 0.8


@dr.syntax
def march(origin: Array3f, direction: Array3f, most: float) -> tuple[Float, Bool]:
    """How far rays go, and whether they meet anything."""
    t, hit = Float(0.01), Bool(False)
    for _ in range(UInt(120)):
        step = distance(origin + t * direction)
        hit = step < 1e-4 * t
        t += step
        if hit or t > most:
            break
    return t, hit


def frame(angle: Float, x: Float, y: Float) -> tuple[Array3f, Float]:
    """The colours of all pixels, seen from an angle, and how much of the picture something covers."""
    eye = Array3f(4 * dr.sin(angle), 0.9, 4 * dr.cos(angle))
    ahead = dr.normalize(Array3f(0, -0.1, 0) - eye)
    right = dr.normalize(dr.cross(ahead, Array3f(0, 1, 0)))
    direction = dr.normalize(ahead + 0.4 * (x * right + y * dr.cross(right, ahead)))
    t, hit = march(eye, direction, 30)
    p = eye + t * direction
    ways = [Array3f(1, -1, -1), Array3f(-1, -1, 1), Array3f(-1, 1, -1), Array3f(1, 1, 1)]
    normal = dr.normalize(sum((way * distance(p + 1e-3 * way) for way in ways), Array3f(0)))
    sun = dr.normalize(Array3f(-0.5, 0.9, 0.6))
    shaded = march(p + 0.01 * normal, Array3f(sun), 6)[1]
    lit = dr.select(shaded, 0, dr.maximum(dr.dot(normal, sun), 0))
    albedo = dr.select(p.y < -0.98, Array3f(0.55, 0.5, 0.45), Array3f(0.9, 0.45, 0.1))
    sky = dr.lerp(Array3f(0.75, 0.85, 1), Array3f(0.3, 0.5, 0.9), dr.clip(2 * direction.y + 0.5, 0, 1))
    color = dr.select(hit, albedo * (1.5 * lit + 0.3 + 0.15 * normal.y), sky)
    return dr.linear_to_srgb(dr.clip(color, 0, 1)), dr.mean(Float(hit))


def milliseconds(render, x: Float, y: Float, frames: int) -> float:
    """The time of one frame, once everything has been compiled."""
    best = float("inf")
    for k in range(frames):
        start = time.perf_counter()
        dr.eval(render(dr.opaque(Float, 0.1 * k), x, y))
        dr.sync_thread()
        best = min(best, time.perf_counter() - start)
    return best * 1e3


def main(size: int = 300, output: Path = OUTPUT) -> float:
    """Draw some frames side by side; returns how much of the picture something covers, on average."""
    render = dr.freeze(frame)
    x, y = dr.meshgrid(dr.linspace(Float, -1, 1, size), dr.linspace(Float, 1, -1, size))
    dr.eval(x, y)
    images, covered = [], Float(0)
    for k in range(FRAMES):
        colors, part = render(dr.opaque(Float, 0.4 + k * 0.5), x, y)
        images.append(dr.moveaxis(dr.reshape(TensorXf(colors), (3, size, size)), 0, -1))
        covered += part / FRAMES
    assert render.n_recordings == 1
    output.parent.mkdir(exist_ok=True)
    imsave(output, dr.concat(images, axis=1).numpy())
    return covered[0]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=300, help="pixels in a row")
    parser.add_argument("--frames", type=int, default=50, help="frames whose time is measured")
    arguments = parser.parse_args()
    print(f"covered by the scene: {main(arguments.size):.1%}, picture in {OUTPUT}")
    for size in (arguments.size // 8, arguments.size):
        x, y = dr.meshgrid(dr.linspace(Float, -1, 1, size), dr.linspace(Float, 1, -1, size))
        dr.eval(x, y)
        frozen, traced = (milliseconds(each, x, y, arguments.frames) for each in (dr.freeze(frame), frame))
        print(f"{size} x {size}: a frame takes {frozen:.2f} ms frozen, {traced:.2f} ms traced")
