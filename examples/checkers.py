"""A plane of checkers up to the horizon, with point lookups, with a MIP map, and with anisotropic lookups.

Far away, a pixel covers many checkers: looked up at a point, it is one of the two colors, and shimmers. A MIP map gives
the mean of an area; a square one blurs what is seen at a flat angle, where areas are long.

Run ``python examples/checkers.py``; the picture is ``examples/out/checkers.png``. Needs pillow.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import drjit as dr
from drjit.llvm import Array2f, Float, TensorXf, UInt

OUTPUT = Path(__file__).resolve().parent / "out" / "checkers.png"
FAR = 200.0  #: Beyond this distance there is sky.


def on_plane(x: Float, y: Float) -> Array2f:
    """Where rays through points of the image plane meet the ground, in checkers."""
    distance = 1 / dr.maximum(-y, 1 / FAR)
    return Array2f(x * distance, distance) * 0.25


def main(size: int = 400, output: Path = OUTPUT) -> float:
    """Write the picture, of three views side by side; returns how much neighbouring pixels far away differ with point
    lookups, over how much they do with anisotropic ones."""
    import numpy as np
    from PIL import Image

    board = (np.indices((64, 64)) // 32).sum(0) % 2
    mipmap = dr.textures.Mipmap(TensorXf(board[:, :, None] * [0.9, 0.8, 0.6] + 0.1), dr.WrapMode.Repeat)
    index = dr.arange(UInt, size * size)
    x, y = Float(index % size), Float(index // size)
    pixel = 2 / size

    def place(dx: float, dy: float) -> Array2f:
        return on_plane((x + 0.5 + dx) * pixel - 1, 0.02 - (y + 0.5 + dy) * pixel / 2)

    pos = place(0, 0)
    ddx, ddy = place(1, 0) - pos, place(0, 1) - pos
    seen = 0.02 - (y + 0.5) * pixel / 2 < -1 / FAR

    def picture(color: Any) -> Any:
        color = dr.select(seen, color, dr.llvm.Array3f(0.5, 0.7, 0.9))
        return color.numpy().T.reshape(size, size, 3)

    views = [picture(mipmap.eval(pos)), picture(mipmap.eval_grad(pos, ddx, ddy)),
             picture(mipmap.eval_grad(pos, ddx, ddy, max_anisotropy=16))]
    output.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray((np.concatenate(views, 1).clip(0, 1) * 255).astype(np.uint8)).save(output)
    far = slice(size // 30, size // 15)
    noise = [float(np.abs(np.diff(view[far, :, 0], axis=1)).mean()) for view in views]
    return noise[0] / noise[2]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--size", type=int, default=400)
    parser.add_argument("--output", type=Path, default=OUTPUT)
    arguments = parser.parse_args()
    print(f"{main(arguments.size, arguments.output):.2f} times less noise far away; see {arguments.output}")
