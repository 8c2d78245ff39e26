"""The Mandelbrot set: a symbolic loop over all pixels, which becomes part of a kernel.

Run ``python examples/mandelbrot.py``; the picture is ``examples/out/mandelbrot.png``.
"""

from pathlib import Path

from matplotlib.image import imsave

import drjit as dr
from drjit.llvm import Complex2f, Float, TensorXf

OUTPUT = Path(__file__).resolve().parent / "out" / "mandelbrot.png"


def main(size: int = 900, iterations: int = 300, output: Path = OUTPUT) -> float:
    """Draw the set; returns its area as the picture has it (the true value is near 1.5066)."""
    x, y = dr.meshgrid(dr.linspace(Float, -2.2, 0.8, size), dr.linspace(Float, -1.5, 1.5, size))
    c = Complex2f(x, y)  # one complex number per pixel

    def body(z: Complex2f, count: Float) -> tuple[Complex2f, Float]:
        return z * z + c, count + 1

    # A pixel goes on until it is far away (it will not come back) or has had its iterations.
    z, count = dr.while_loop((dr.zeros(Complex2f, size * size), dr.zeros(Float, size * size)),
                             lambda z, count: (dr.squared_norm(z) < 1e4) & (count < iterations), body)
    inside = count == iterations
    # Counts are whole numbers; how far away a point got says what is missing, so that colours have no steps.
    smooth = dr.maximum(count + 4 - dr.log2(dr.log2(dr.maximum(dr.abs(z), 2))), 1)
    shade = dr.select(inside, 0, 0.2 * dr.log2(smooth) - 0.4)
    dr.eval(shade, inside)

    output.parent.mkdir(exist_ok=True)
    imsave(output, TensorXf(shade, shape=(size, size)).numpy(), cmap="magma", vmin=0, vmax=1)
    return 9 * dr.count(inside)[0] / size**2


if __name__ == "__main__":
    print(f"area of the set: {main():.3f}, picture in {OUTPUT}")
