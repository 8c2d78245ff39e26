"""Where is the lamp, and what colour is the ball? Both follow from a picture, by gradients through a path tracer.

Run ``python examples/recover_light.py``; the picture is ``examples/out/recover_light.png``.
"""

import argparse
from pathlib import Path

from matplotlib.image import imsave

import drjit as dr
from drjit.llvm.ad import PCG32, Array3f, Bool, Float, TensorXf, UInt

OUTPUT = Path(__file__).resolve().parent / "out" / "recover_light.png"
LAMP, COLOR = [1.5, 2, 1.2], [0.9, 0.35, 0.1]  # what is to be found


def hit_ball(origin: Array3f, direction: Array3f) -> Float:
    """Distance to the ball of radius 1; infinity where rays miss it."""
    b, c = dr.dot(origin, direction), dr.squared_norm(origin) - 1
    t = -b - dr.safe_sqrt(b * b - c)
    return dr.select((b * b > c) & (t > 1e-3), t, dr.inf)


@dr.syntax
def trace(origin: Array3f, direction: Array3f, rng: PCG32, lamp: Array3f, color: Array3f) -> Array3f:
    """The light that arrives by paths of up to three bounces, each of which looks at the lamp."""
    light, throughput, bounce, active = Array3f(0), Array3f(1), UInt(0), Bool(True)
    while dr.hint(active & (bounce < 3), max_iterations=3):
        ball, floor = hit_ball(origin, direction), dr.select(direction.y < 0, (-1 - origin.y) / direction.y, dr.inf)
        t = dr.minimum(ball, floor)
        active = t < 20
        if active:
            position = origin + t * direction
            on_ball = ball < floor
            normal = dr.select(on_ball, position, Array3f(0, 1, 0))
            throughput *= dr.select(on_ball, color, Array3f(0.6))
            origin = position + 1e-3 * normal

            way = lamp - origin
            near = dr.rcp(dr.squared_norm(way))
            cosine = dr.maximum(dr.dot(normal, way) * dr.sqrt(near), 0)
            lit = dr.isinf(hit_ball(origin, dr.detach(dr.normalize(way))))
            light += throughput * dr.select(lit, 4 * cosine * near, 0)

            z, angle = 2 * rng.next_float32() - 1, dr.two_pi * rng.next_float32()
            sine, cosine = dr.sincos(angle)
            across = dr.safe_sqrt(1 - z * z)
            direction = dr.normalize(normal + 0.999 * Array3f(across * cosine, across * sine, z))
        bounce += 1
    return light


def render(size: int, samples: int, seed: int, lamp: Array3f, color: Array3f) -> TensorXf:
    """A picture of the ball on a floor, of three planes."""
    rng = PCG32(size=size * size * samples, initstate=seed)
    pixel = dr.arange(UInt, size * size * samples) // samples
    x = (Float(pixel % size) + rng.next_float32()) * (2 / size) - 1
    y = 1 - (Float(pixel // size) + rng.next_float32()) * (2 / size)
    direction = dr.normalize(Array3f(0.5 * x, 0.5 * y - 0.2, -1))
    light = trace(Array3f(0, 0.8, 4), direction, rng, lamp, color)
    planes = [dr.block_sum(channel, samples) / samples for channel in light]
    return dr.reshape(TensorXf(Array3f(planes)), (3, size, size))


def main(size: int = 96, steps: int = 80, samples: int = 16, output: Path = OUTPUT) -> float:
    """Draw what is given, the first guess and what was found; returns how wrong that is."""
    given = dr.detach(render(size, 4 * samples, 1, Array3f(LAMP), Array3f(COLOR)))
    optimizer = dr.opt.Adam(lr=0.08, params={"lamp": Array3f(-1.5, 2.5, 2.5), "color": Array3f(0.5)})
    start = dr.detach(optimizer["lamp"]), dr.detach(optimizer["color"])
    dr.eval(given, start)
    for step in range(steps):
        picture = render(size, samples, 100 + step, optimizer["lamp"], optimizer["color"])
        dr.backward(dr.mean(dr.square(picture - given)))
        optimizer.step()
    lamp, color = dr.detach(optimizer["lamp"]), dr.detach(optimizer["color"])

    pictures = [render(3 * size, 4 * samples, 1, *what) for what in
                ((Array3f(LAMP), Array3f(COLOR)), start, (lamp, color))]
    row = dr.moveaxis(dr.concat(pictures, axis=2), 0, -1)
    output.parent.mkdir(exist_ok=True)
    imsave(output, dr.linear_to_srgb(dr.clip(1.5 * row, 0, 1)).numpy())
    return dr.norm(lamp - Array3f(LAMP))[0] + dr.norm(color - Array3f(COLOR))[0]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=80, help="steps of gradient descent")
    steps = parser.parse_args().steps
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory):
        error = main(steps=steps)
        kernels = [entry for entry in dr.kernel_history() if entry["type"] == dr.KernelType.JIT]
    print(f"error: {error:.3f}, by {len(kernels) / steps:.1f} kernels a step, picture in {OUTPUT}")
