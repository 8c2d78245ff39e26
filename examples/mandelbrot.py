"""The Mandelbrot set: a loop over all pixels, each of which leaves it when it has escaped, becomes part of a kernel.

Run ``python examples/mandelbrot.py``; the picture is ``examples/out/mandelbrot.png``.
"""

import argparse
from pathlib import Path

from matplotlib.image import imsave

import drjit as dr
from drjit.llvm import Complex2f, Float, TensorXf, UInt

OUTPUT = Path(__file__).resolve().parent / "out" / "mandelbrot.png"


@dr.syntax
def escape(c: Complex2f, iterations: UInt) -> tuple[Complex2f, UInt]:
    """Where points are when they are far away (they will not come back), and after how many iterations."""
    z, count = Complex2f(0), UInt(0)
    while dr.squared_norm(z) < 1e4 and count < iterations:
        z = z * z + c
        count += 1
    return z, count


def main(size: int = 900, iterations: int = 300, output: Path = OUTPUT) -> float:
    """Draw the set; returns its area as the picture has it (the true value is near 1.5066)."""
    x, y = dr.meshgrid(dr.linspace(Float, -2.2, 0.8, size), dr.linspace(Float, -1.5, 1.5, size))
    z, count = escape(Complex2f(x, y), UInt(iterations))
    inside = count == iterations
    # Counts are whole numbers; how far away a point got says what is missing, so that colours have no steps.
    smooth = dr.maximum(Float(count) + 4 - dr.log2(dr.log2(dr.maximum(dr.abs(z), 2))), 1)
    shade = dr.select(inside, 0, 0.2 * dr.log2(smooth) - 0.4)
    dr.eval(shade, inside)

    output.parent.mkdir(exist_ok=True)
    imsave(output, TensorXf(shade, shape=(size, size)).numpy(), cmap="magma", vmin=0, vmax=1)
    return 9 * dr.count(inside)[0] / size**2


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=900, help="pixels in a row")
    parser.add_argument("--iterations", type=int, default=300, help="after which a point counts as part of the set")
    arguments = parser.parse_args()
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory):
        area = main(arguments.size, arguments.iterations)
        kernels = [entry for entry in dr.kernel_history() if entry["type"] == dr.KernelType.JIT]
    print(f"area of the set: {area:.3f}, by {len(kernels)} kernels, picture in {OUTPUT}")
