"""A path tracer of a box with a lamp: materials are instances of classes, and paths end at random.

Run ``python examples/cornell_box.py``; the picture is ``examples/out/cornell_box.png``.
"""

import argparse
from pathlib import Path

from matplotlib.image import imsave

import drjit as dr
from drjit.llvm import PCG32, Array3f, Bool, Float, TensorXf, UInt

OUTPUT = Path(__file__).resolve().parent / "out" / "cornell_box.png"


class Diffuse:
    """Reflects light in all directions; surfaces may shine by themselves."""

    def __init__(self, albedo: list[float], emission: float = 0) -> None:
        self.albedo, self.emission = Array3f(albedo), Float(emission)

    def emitted(self) -> Float:
        return self.emission

    def sample(self, direction: Array3f, normal: Array3f, ball: Array3f) -> tuple[Array3f, Array3f]:
        """Where a path goes on, and how much light comes from there; ``ball`` is a random point on the unit sphere."""
        return dr.normalize(normal + 0.999 * ball), self.albedo


class Metal(Diffuse):
    """Reflects like a mirror, more or less rough."""

    def __init__(self, albedo: list[float], roughness: float) -> None:
        super().__init__(albedo)
        self.roughness = Float(roughness)

    def sample(self, direction: Array3f, normal: Array3f, ball: Array3f) -> tuple[Array3f, Array3f]:
        mirrored = direction - 2 * dr.dot(direction, normal) * normal
        return dr.normalize(mirrored + self.roughness * ball), self.albedo


MaterialArray = dr.instance_array(Diffuse, UInt)

WHITE, RED, GREEN = Diffuse([0.75] * 3), Diffuse([0.65, 0.06, 0.05]), Diffuse([0.12, 0.48, 0.1])
LAMP, CHROME, GOLD = Diffuse([0] * 3, 8), Metal([0.9] * 3, 0), Metal([1, 0.75, 0.3], 0.25)
#: Walls (normal and material), which are at a distance of 1 from the middle; spheres (centre, radius, material).
WALLS = [([0, 1, 0], WHITE), ([0, -1, 0], WHITE), ([1, 0, 0], RED), ([-1, 0, 0], GREEN), ([0, 0, 1], WHITE)]
SPHERES = [([-0.42, -0.6, -0.35], 0.4, CHROME), ([0.45, -0.65, 0.25], 0.35, GOLD)]


def intersect(origin: Array3f, direction: Array3f) -> tuple[Float, Array3f, MaterialArray]:
    """Distance, normal and material of what rays meet first; no material where they leave the box."""
    nearest, normal, material = Float(dr.inf), Array3f(0), MaterialArray(None)
    for axis, wall in WALLS:
        cosine = dr.dot(Array3f(axis), direction)
        t = (-1 - dr.dot(Array3f(axis), origin)) / cosine
        p = origin + t * direction
        closer = (cosine < 0) & (t < nearest) & (p.z < 1)
        lamp = (p.y > 0.99) & (abs(p.x) < 0.5) & (abs(p.z) < 0.5)
        normal, nearest = dr.select(closer, Array3f(axis), normal), dr.select(closer, t, nearest)
        material = dr.select(closer, dr.select(lamp, MaterialArray(LAMP), MaterialArray(wall)), material)
    for centre, radius, surface in SPHERES:
        offset = origin - Array3f(centre)
        b = dr.dot(offset, direction)
        root = b * b - dr.squared_norm(offset) + radius * radius
        t = -b - dr.safe_sqrt(root)
        closer = (root > 0) & (t > 0) & (t < nearest)
        normal = dr.select(closer, (offset + t * direction) / radius, normal)
        nearest, material = dr.select(closer, t, nearest), dr.select(closer, MaterialArray(surface), material)
    return nearest, normal, material


@dr.syntax
def trace(origin: Array3f, direction: Array3f, rng: PCG32) -> Array3f:
    """The light that arrives by one path each."""
    light, throughput, bounces, active = Array3f(0), Array3f(1), UInt(0), Bool(True)
    while active:
        t, normal, material = intersect(origin, direction)
        light += throughput * material.emitted()
        active = dr.isfinite(t) & (material != MaterialArray(LAMP))
        if active:
            z, angle = 2 * rng.next_float32() - 1, dr.two_pi * rng.next_float32()
            sine, cosine = dr.sincos(angle)
            ball = Array3f(dr.safe_sqrt(1 - z * z) * Array3f(cosine, sine, 0) + Array3f(0, 0, z))
            origin = origin + t * direction + 1e-3 * normal
            direction, weight = material.sample(direction, normal, ball)
            throughput *= weight
            bounces += 1
            if bounces > 3:  # the darker a path has become, the sooner it ends; those that go on count for it
                survives = dr.minimum(dr.max(throughput), 0.95)
                throughput /= survives
                active = rng.next_float32() < survives
    return light


def main(size: int = 400, samples: int = 256, output: Path = OUTPUT) -> float:
    """Draw the picture; returns its mean brightness."""
    rng = PCG32(size=size * size * samples)
    pixel = dr.arange(UInt, size * size * samples) // samples
    x = (Float(pixel % size) + rng.next_float32()) * (2 / size) - 1
    y = 1 - (Float(pixel // size) + rng.next_float32()) * (2 / size)
    light = trace(Array3f(0, 0, 3.6), dr.normalize(Array3f(0.39 * x, 0.39 * y, -1)), rng)

    mean = Array3f(*[dr.block_sum(channel, samples) / samples for channel in light])
    image = dr.moveaxis(dr.reshape(TensorXf(dr.linear_to_srgb(dr.clip(mean, 0, 1))), (3, size, size)), 0, -1)
    output.parent.mkdir(exist_ok=True)
    imsave(output, image.numpy())
    return float(image.numpy().mean())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=400, help="pixels in a row")
    parser.add_argument("--samples", type=int, default=256, help="paths for each pixel")
    arguments = parser.parse_args()
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory):
        brightness = main(arguments.size, arguments.samples)
        kernels = [entry for entry in dr.kernel_history() if entry["type"] == dr.KernelType.JIT]
    print(f"mean brightness: {brightness:.3f}, by {len(kernels)} kernels, picture in {OUTPUT}")
