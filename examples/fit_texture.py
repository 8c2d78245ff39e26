"""Fit a photograph through lookups of a few pixels at a time: texels on their own, and a Laplacian pyramid of them.

Each step looks at a small random share of the picture, interpolated between texels. Texels that are optimised
themselves change where they are seen only; a level of a pyramid moves whole regions at once. The picture shows both
after as many steps, beside the photograph, and their errors on the way.

Run ``python examples/fit_texture.py``; the picture is ``examples/out/fit_texture.png``. Needs scikit-learn, for its
photograph, and matplotlib.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import drjit as dr
from drjit.llvm.ad import Array2f, TensorXf, Texture2f

Parameters = dict[str, Any]
OUTPUT = Path(__file__).resolve().parent / "out" / "fit_texture.png"


def photograph(size: int) -> TensorXf:
    """A photograph, with values from 0 to 1."""
    from sklearn.datasets import load_sample_image

    image = TensorXf(load_sample_image("flower.jpg")[:400, 120:520] / 255.0)
    return dr.resample(image, (size, size, 3), "box")


def fit(target: TensorXf, parameters: Parameters, image_of: Callable[[Any], TensorXf], rate: float,
        steps: int) -> tuple[TensorXf, list[float]]:
    """Optimise parameters, of which the image follows; returns it, and its mean squared error after each step."""
    wanted, size = Texture2f(target), target.shape[0]
    optimiser, rng = dr.opt.Adam(lr=rate, params=parameters), dr.rng(seed=1)
    errors = []
    for _ in range(steps):
        position = rng.random(Array2f, (2, size * size // 30))
        seen, expected = Texture2f(image_of(optimiser)).eval(position), wanted.eval(position)
        dr.backward(dr.mean(dr.squared_norm(seen - expected)))
        optimiser.step()
        with dr.suspend_grad():
            difference = image_of(optimiser).array - target.array
            errors.append(float(dr.mean(difference * difference)[0]))
    return dr.detach(image_of(optimiser)), errors


def main(size: int = 256, steps: int = 150, output: Path = OUTPUT) -> float:
    """Fit both, write the picture, and return how many times smaller the error of the pyramid is."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    target = photograph(size)
    empty = dr.full(TensorXf, 0.5, (size, size, 3))
    levels = dr.textures.laplacian_pyramid(empty)
    found = {
        "texels": fit(target, {"image": empty}, lambda p: p["image"], 0.03, steps),
        "Laplacian pyramid": fit(target, {str(k): level for k, level in enumerate(levels)},
                                 lambda p: dr.textures.from_laplacian_pyramid([p[str(k)] for k in range(len(levels))]),
                                 0.008, steps),
    }
    figure, axes = pyplot.subplots(1, 4, figsize=(16, 4), dpi=75)
    for axis, (name, image) in zip(axes, [("photograph", target), *((name, f[0]) for name, f in found.items())],
                                   strict=False):
        axis.imshow(image.numpy().clip(0, 1))
        axis.set_title(name)
        axis.set_axis_off()
    for name, (_, errors) in found.items():
        axes[3].semilogy(errors, label=name)
    axes[3].set_title("mean squared error by step")
    axes[3].legend()
    figure.tight_layout()
    output.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(output)
    pyplot.close(figure)
    return found["texels"][1][-1] / found["Laplacian pyramid"][1][-1]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--size", type=int, default=256)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--output", type=Path, default=OUTPUT)
    arguments = parser.parse_args()
    ratio = main(arguments.size, arguments.steps, arguments.output)
    print(f"the error of the pyramid is {ratio:.1f} times smaller; see {arguments.output}")
