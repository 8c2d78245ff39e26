"""A photograph, recovered from a blurred and noisy copy of itself by gradient descent.

The unknown picture is a parameter of an optimiser. Blurred, it must look like the copy, and neighbouring pixels should
differ by little, but for edges (a prior: the sum of the lengths of all steps between neighbours). Derivatives of this
loss by all pixels flow back through the blur, and Adam follows them.

Run ``python examples/fit_photo.py``; the picture is ``examples/out/fit_photo.png``, and a table tells what one
iteration ran. Needs scikit-learn, for its photograph, and matplotlib.
"""

import math
import sys
import time
from collections.abc import Callable
from pathlib import Path

import matplotlib
import numpy as np
from sklearn.datasets import load_sample_image

import drjit as dr
from drjit.llvm.ad import Float, TensorXf
from drjit.opt import Adam

matplotlib.use("Agg")
import matplotlib.pyplot as plt

OUTPUT = Path(__file__).resolve().parent / "out" / "fit_photo.png"
SIGMA, RADIUS = 1.5, 5  # of the blur, in pixels
NOISE = 0.005  # standard deviation, where 1 is white
SMOOTHNESS = 0.0003  # weight of the prior; more is smoother
SOFTNESS = 0.01  # steps between neighbours that are much smaller count little: noise, not edges
WEIGHTS = [math.exp(-0.5 * (k / SIGMA)**2) for k in range(-RADIUS, RADIUS + 1)]


def blur(image: TensorXf) -> TensorXf:
    """A Gaussian blur of all pixels that are RADIUS away from the border: shifted slices, added up, along both axes."""
    width, height = image.shape[2] - 2 * RADIUS, image.shape[1] - 2 * RADIUS
    total = sum(WEIGHTS)
    image = sum(image[:, :, k:k + width] * (weight / total) for k, weight in enumerate(WEIGHTS))
    return sum(image[:, k:k + height, :] * (weight / total) for k, weight in enumerate(WEIGHTS))


def roughness(image: TensorXf) -> Float:
    """The prior: lengths of the steps between neighbours, of which small ones count less."""
    across, down = image[:, :, 1:] - image[:, :, :-1], image[:, 1:, :] - image[:, :-1, :]
    return sum(dr.sum(dr.sqrt(dr.square(step.array) + SOFTNESS**2)) for step in (across, down))


def quality(image: np.ndarray, reference: np.ndarray) -> float:
    """The peak signal-to-noise ratio in decibels, where it can be compared."""
    return -10 * math.log10(float(np.mean(np.square(image - inside(reference)))))


def inside(image: np.ndarray) -> np.ndarray:
    """The pixels that the blur knows about."""
    return image[:, RADIUS:-RADIUS, RADIUS:-RADIUS]


def photograph(size: int | None) -> np.ndarray:
    """Three planes of rows and columns; of a photograph, or of the square in its middle."""
    pixels = load_sample_image("china.jpg").transpose(2, 0, 1).astype(np.float32) / 255
    if size is not None:
        row, column = ((extent - size) // 2 for extent in pixels.shape[1:])
        pixels = pixels[:, row:row + size, column:column + size]
    return np.ascontiguousarray(pixels)


def main(size: int | None = None, steps: int = 150, output: Path = OUTPUT) -> float:
    """Blur, recover, print, draw; returns by how many decibels the picture has become better."""
    reference = photograph(size)
    rng = dr.rng(seed=1)
    observed = dr.detach(blur(TensorXf(reference)))
    observed += rng.normal(TensorXf, observed.shape) * NOISE
    dr.eval(observed)
    before = observed.numpy()

    margin = ((0, 0), (RADIUS, RADIUS), (RADIUS, RADIUS))
    opt = Adam(lr=0.02, params={"image": TensorXf(np.pad(before, margin, mode="edge"))})
    losses = []

    def iterate() -> None:
        image = opt["image"]
        loss = dr.sum(dr.square((blur(image) - observed).array)) + SMOOTHNESS * roughness(image)
        dr.backward(loss)
        losses.append(dr.detach(loss))
        dr.schedule(losses[-1])  # computed along with the step
        opt.step()

    start = time.perf_counter()
    for i in range(steps):
        opt.set_learning_rate(0.02 * (1 - i / steps))  # smaller and smaller steps
        iterate()
        if i % 10 == 9:  # losses are not read here: that would wait for the kernels
            dr.sync_thread()
            print(f"\r{i + 1} of {steps} iterations", end="", file=sys.stderr, flush=True)
        if i == 0:
            dr.sync_thread()
            first, start = time.perf_counter() - start, time.perf_counter()
    dr.sync_thread()
    each = (time.perf_counter() - start) / max(steps - 1, 1)
    print(file=sys.stderr)
    after = inside(opt["image"].numpy())
    curve = [loss[0] for loss in losses]
    report(iterate, first, each)

    gain = quality(after, reference) - quality(before, reference)
    draw(before, after, reference, curve, each, output)
    return gain


def report(iterate: Callable[[], None], first: float, each: float) -> None:
    """Print the kernels of one more iteration."""
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory, True):
        dr.kernel_history_clear()
        iterate()
        dr.sync_thread()
        kernels = dr.kernel_history()
    print("kernel  elements  operations      ms")
    for position, kernel in enumerate(kernels, 1):
        print(f"{position:6}  {kernel['size']:8}  {kernel['operation_count']:10}  {kernel['execution_time']:6.2f}")
    inside_kernels = sum(kernel["execution_time"] for kernel in kernels)
    compiled = sum(not kernel["cache_hit"] for kernel in kernels)
    print(f"one iteration: {len(kernels)} kernels ({compiled} of them compiled now), {inside_kernels:.1f} ms in "
          f"kernels, {each * 1e3:.1f} ms in all; the first one, which compiles: {first * 1e3:.0f} ms")


def draw(before: np.ndarray, after: np.ndarray, reference: np.ndarray, curve: list[float], each: float,
         output: Path) -> None:
    """The three pictures, and the loss."""
    figure, axes = plt.subplots(2, 2, figsize=(12, 8.6), facecolor="#16181d", layout="constrained")
    ink, faint = "#f2f0ea", "#8d93a0"
    for panel, title, image in (
            (axes[0, 0], f"blurred, noisy: {quality(before, reference):.1f} dB", before),
            (axes[0, 1], f"recovered: {quality(after, reference):.1f} dB", after),
            (axes[1, 0], "reference", inside(reference))):
        panel.imshow(np.clip(image.transpose(1, 2, 0), 0, 1))
        panel.set_title(title, color=ink, loc="left", fontsize=14)
        panel.set_axis_off()
    panel = axes[1, 1]
    panel.semilogy(range(1, len(curve) + 1), curve, color="#ffb454", linewidth=2)
    panel.set_title(f"loss by iteration ({each * 1e3:.0f} ms each)", color=ink, loc="left", fontsize=14)
    panel.set_facecolor("#1e2128")
    panel.set_box_aspect(before.shape[1] / before.shape[2])
    panel.tick_params(colors=faint, which="both")
    panel.grid(color="#2c313b", which="both", linewidth=0.7)
    panel.spines[:].set_color("#3a3f4b")
    output.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(output, dpi=100, facecolor=figure.get_facecolor())
    plt.close(figure)


if __name__ == "__main__":
    print(f"{main():.1f} dB better; wrote {OUTPUT}")
