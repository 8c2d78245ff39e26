"""A photograph, learned by a small network that looks positions up in a hash grid.

The network computes the colour of a position: features of grids of increasing resolution, interpolated in tables that
are shared by hashing where there are too many vertices ("Instant Neural Graphics Primitives", Müller et al., 2022), go
through two layers of 32 units. Each step draws random pixels, and Adam follows the gradient of their error, through the
network and down to the entries of the tables that these pixels have used. The step is recorded once, and replayed.

Run ``python examples/neural_image.py``; the picture is ``examples/out/neural_image.png``. Needs scikit-learn, for its
photograph, and matplotlib.
"""

import math
import sys
import time
from pathlib import Path

import matplotlib
import numpy as np
from sklearn.datasets import load_sample_image

import drjit as dr
from drjit import nn
from drjit.llvm.ad import ArrayXf, Float, TensorXf, UInt
from drjit.opt import Adam

matplotlib.use("Agg")
import matplotlib.pyplot as plt

OUTPUT = Path(__file__).resolve().parent / "out" / "neural_image.png"
BATCH = 1 << 15  # pixels of a step
RATE = 0.01
UNITS = 32


def photograph(size: int | None) -> np.ndarray:
    """Rows, columns and colours of a photograph, or of the square in its middle."""
    pixels = load_sample_image("china.jpg").astype(np.float32) / 255
    if size is not None:
        row, column = ((extent - size) // 2 for extent in pixels.shape[:2])
        pixels = pixels[row:row + size, column:column + size]
    return np.ascontiguousarray(pixels)


def network(rows: int, columns: int) -> tuple[nn.HashGridEncoding, nn.Sequential]:
    """An encoding whose finest level has about a vertex for each pixel, and the layers behind it."""
    levels = 10
    growth = (max(rows, columns) / 16)**(1 / (levels - 1))
    encoding = nn.HashGridEncoding(Float, 2, n_levels=levels, base_resolution=16, per_level_scale=growth,
                                   hashmap_size=1 << 16, rng=dr.rng(seed=2))
    layers = nn.Sequential(nn.Linear(encoding.n_output_features, UNITS), nn.ReLU(), nn.Linear(-1, UNITS), nn.ReLU(),
                           nn.Linear(-1, 3))
    return encoding, nn.pack(layers.alloc(TensorXf, rng=dr.rng(seed=1)), layout="training")


def colours(encoding: nn.HashGridEncoding, layers: nn.Sequential, x: Float, y: Float) -> list[Float]:
    """The colours at positions in the unit square."""
    return list(layers(nn.CoopVec(encoding([x, y]))))


@dr.freeze
def error_of(encoding: nn.HashGridEncoding, layers: nn.Sequential, target: Float, x: Float, y: Float,
             pixel: UInt) -> tuple[Float, Float, Float]:
    """The mean squared error of some pixels, and its gradients by both sets of parameters."""
    entries, weights = encoding.params, layers["weights"]
    dr.enable_grad(entries, weights)
    found = colours(encoding, layers, x, y)
    error = sum(dr.square(value - dr.gather(Float, target, pixel * 3 + k)) for k, value in enumerate(found))
    loss = dr.mean(error) / 3
    dr.backward(loss)
    return dr.detach(loss), entries.grad, weights.grad


def render(encoding: nn.HashGridEncoding, layers: nn.Sequential, rows: int, columns: int) -> np.ndarray:
    """The picture that the network has learned."""
    pixel = dr.arange(UInt, rows * columns)
    x = (Float(pixel % columns) + 0.5) / columns
    y = (Float(pixel // columns) + 0.5) / rows
    return np.clip(ArrayXf(colours(encoding, layers, x, y)).numpy().T.reshape(rows, columns, 3), 0, 1)


def quality(image: np.ndarray, reference: np.ndarray) -> float:
    """The peak signal-to-noise ratio in decibels."""
    return -10 * math.log10(float(np.mean(np.square(image - reference))))


def main(size: int | None = None, steps: int = 400, output: Path = OUTPUT) -> float:
    """Learn, print, draw; returns the peak signal-to-noise ratio in decibels."""
    reference = photograph(size)
    rows, columns, _ = reference.shape
    target = Float(reference.ravel())
    encoding, layers = network(rows, columns)
    opt = Adam(lr=RATE, params={"entries": encoding.params, "weights": layers["weights"]}, epsilon=1e-15)
    rng = dr.rng(seed=3)
    losses, first = [], 0.0
    begin = time.perf_counter()
    for step in range(steps):
        pixel = UInt(rng.random(Float, BATCH) * (rows * columns))
        pixel = dr.minimum(pixel, rows * columns - 1)
        x, y = (Float(pixel % columns) + 0.5) / columns, (Float(pixel // columns) + 0.5) / rows
        encoding.set_params(Float(opt["entries"]))
        layers["weights"] = Float(opt["weights"])
        loss, entries, weights = error_of(encoding, layers, target, x, y, pixel)
        dr.set_grad(opt["entries"], entries)
        dr.set_grad(opt["weights"], weights)
        opt.step()
        losses.append(loss[0])
        if not step:
            first = time.perf_counter() - begin
        if step == steps * 3 // 4:
            opt.set_learning_rate(RATE / 5)
    elapsed = time.perf_counter() - begin
    encoding.set_params(dr.detach(opt["entries"]))
    layers["weights"] = dr.detach(opt["weights"])
    found = render(encoding, layers, rows, columns)
    decibels = quality(found, reference)
    count = encoding.n_params + len(layers["weights"])
    print(f"{columns} x {rows} pixels, {3 * rows * columns} numbers, by {count} parameters: {decibels:.1f} dB after "
          f"{steps} steps, {elapsed:.1f} s (the first {first:.2f} s)")
    draw(reference, found, losses, output)
    return decibels


def draw(reference: np.ndarray, found: np.ndarray, losses: list[float], output: Path) -> None:
    """Both pictures, and how the error went down."""
    figure = plt.figure(figsize=(13, 3.4), layout="constrained")
    parts = figure.subplots(1, 3)
    for part, image, title in zip(parts, (reference, found), ("the photograph", "what the network has learned"),
                                  strict=False):
        part.imshow(image)
        part.set_title(title)
        part.set_axis_off()
    parts[2].semilogy(losses)
    parts[2].set_title("mean squared error of a batch")
    parts[2].set_xlabel("step")
    output.parent.mkdir(exist_ok=True)
    figure.savefig(output, dpi=100)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
    print(f"written: {OUTPUT}")
