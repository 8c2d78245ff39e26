"""A sphere on a chequered floor: a ray for each pixel, with light, shadow and haze.

Run ``python examples/ray_sphere.py``; the picture is ``examples/out/ray_sphere.png``.
"""

from pathlib import Path

from matplotlib.image import imsave

import drjit as dr
from drjit.llvm import Array3f, Float, Int, TensorXf

OUTPUT = Path(__file__).resolve().parent / "out" / "ray_sphere.png"


def hit_sphere(origin: Array3f, direction: Array3f) -> Float:
    """Distance along rays to the unit sphere around the origin; infinity where they miss it."""
    b, c = dr.dot(origin, direction), dr.squared_norm(origin) - 1
    root = b * b - c  # |origin + t * direction|^2 = 1 is a quadratic equation for t
    t = -b - dr.sqrt(dr.maximum(root, 0))
    return dr.select((root > 0) & (t > 1e-3), t, dr.inf)


def main(size: int = 800, output: Path = OUTPUT) -> float:
    """Draw the picture; returns which part of it the sphere covers."""
    x, y = dr.meshgrid(dr.linspace(Float, -1, 1, size), dr.linspace(Float, 1, -1, size))
    origin = Array3f(0, 0.8, 4)
    direction = dr.normalize(Array3f(0.55 * x, 0.55 * y - 0.25, -1))
    light = dr.normalize(Array3f(0.6, 0.9, 0.5))

    # What does a ray meet first: the sphere, the floor y = -1, or neither?
    sphere = hit_sphere(origin, direction)
    floor = dr.select(direction.y < 0, (-1 - origin.y) / direction.y, dr.inf)
    on_sphere, on_sky = sphere < floor, dr.isinf(dr.minimum(sphere, floor))
    distance = dr.select(on_sky, 0, dr.minimum(sphere, floor))
    position = origin + distance * direction

    # How much light arrives there? None if another ray, towards the light, meets the sphere.
    normal = dr.select(on_sphere, position, Array3f(0, 1, 0))
    shadow = dr.isfinite(hit_sphere(position, light))
    diffuse = dr.select(shadow, 0, dr.maximum(dr.dot(normal, light), 0))
    shine = dr.power(dr.maximum(dr.dot(normal, dr.normalize(light - direction)), 0), 80)

    squares = Int(dr.floor(position.x)) + Int(dr.floor(position.z))
    chequers = dr.select(squares & 1 == 1, Array3f(0.8), Array3f(0.2))
    sky = dr.lerp(Array3f(0.8, 0.88, 1), Array3f(0.2, 0.4, 0.8), dr.clip(3 * direction.y, 0, 1))
    color = dr.select(on_sphere, Array3f(0.85, 0.12, 0.08), chequers) * (0.2 * sky + diffuse)
    color += dr.select(on_sphere, 0.7 * shine, 0)
    color = dr.lerp(sky, color, dr.select(on_sky, 0, dr.exp(-0.002 * distance * distance)))  # haze

    pixels = dr.linear_to_srgb(dr.clip(color, 0, 1))
    image = dr.moveaxis(dr.reshape(TensorXf(pixels), (3, size, size)), 0, -1)  # three planes → three values a pixel
    output.parent.mkdir(exist_ok=True)
    imsave(output, image.numpy())
    return dr.count(on_sphere)[0] / size**2


if __name__ == "__main__":
    print(f"the sphere covers {main():.1%} of the picture, which is in {OUTPUT}")
