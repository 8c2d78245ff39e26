"""Develop a photograph in traced code, and compare with the same steps in NumPy.

A photograph is taken from sRGB to linear light, exposed, sent through a filmic curve, blurred with a separable
Gaussian, searched for edges, and counted into histograms of luminance.  The result is a contact sheet in one PNG file;
the table printed along with it says what was launched, compiled and fused, how long that took, and how NumPy compares:

.. code-block:: shell

    python examples/photo.py [--image FILE] [--output FILE] [--exposure STOPS] [--sigma PIXELS] [--repeats N]

An image is a tensor: three planes of rows and columns.  What looks at neighbours adds up shifted slices of a padded
copy, as one would in NumPy; but a slice is no array of its own here, only a place to read from, and the whole sum is
one kernel.  Every step is a small function that traces operations; nothing runs until ``dr.eval`` is called, which
fuses all steps between two barriers (slices of what has yet to be computed, unless that is cheap to do again) into one
kernel.

Needs scikit-learn (for its photograph), matplotlib and pillow besides drjit: ``pip install "drjit-python[dev]"``.
"""

from __future__ import annotations

import argparse
import math
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

import drjit as dr
from drjit.llvm import Int32, TensorXf, TensorXi, UInt32

if TYPE_CHECKING:
    import numpy.typing as npt

    Image = npt.NDArray[np.float32]  #: Planes (3, height, width), or one plane (height, width)

DEFAULT_OUTPUT = Path(__file__).resolve().parent / "out" / "photo.png"
BINS = 256

#: Weights of linear red, green and blue in relative luminance (ITU-R BT.709).
LUMINANCE = (0.2126, 0.7152, 0.0722)

#: Rational approximation of the ACES filmic curve: K. Narkowicz, "ACES Filmic Tone Mapping Curve", 2015.
#: ``x (a x + b) / (x (c x + d) + e)``
FILMIC = (2.51, 0.03, 2.43, 0.59, 0.14)


@dataclass(frozen=True)
class Settings:
    """What both pipelines are given: the size of the picture and the choices of the user."""

    width: int
    height: int
    exposure: float
    sigma: float

    @property
    def pixels(self) -> int:
        """Number of pixels."""
        return self.width * self.height

    @property
    def weights(self) -> list[float]:
        """Weights of a Gaussian from its centre to three standard deviations, one side, of sum 1 over both sides."""
        radius = max(1, math.ceil(3 * self.sigma))
        side = [math.exp(-0.5 * (k / self.sigma) ** 2) for k in range(radius + 1)]
        total = side[0] + 2 * sum(side[1:])
        return [weight / total for weight in side]


# --- the pipeline in traced code -------------------------------------------------------------------------------------


def srgb_to_linear(color: TensorXf) -> TensorXf:
    """Linear light of sRGB-encoded components (IEC 61966-2-1)."""
    return dr.select(color <= 0.04045, color / 12.92, dr.power((color + 0.055) / 1.055, 2.4))


def linear_to_srgb(light: TensorXf) -> TensorXf:
    """The inverse of :func:`srgb_to_linear`, for colours and for luminance."""
    return dr.select(light <= 0.0031308, light * 12.92, 1.055 * dr.power(light, 1 / 2.4) - 0.055)


def expose(light: TensorXf, stops: float) -> TensorXf:
    """Multiply light by two for every stop."""
    return light * 2.0**stops


def filmic(light: TensorXf) -> TensorXf:
    """Compress light of any strength to [0, 1] with a filmic curve: soft shadows, highlights that roll off."""
    a, b, c, d, e = FILMIC
    return dr.clip(light * (a * light + b) / (light * (c * light + d) + e), 0, 1)


def luminance(light: TensorXf) -> TensorXf:
    """Relative luminance of linear light."""
    red, green, blue = LUMINANCE
    return red * light[0] + green * light[1] + blue * light[2]


def pad(image: TensorXf, radius: int) -> TensorXf:
    """Go on with the nearest pixel inside, beyond all four borders."""
    rows, columns = (TensorXi(dr.clip(dr.arange(Int32, -radius, extent + radius), 0, extent - 1))
                     for extent in image.shape[-2:])
    return image[..., rows[:, None], columns]


def blur(image: TensorXf, settings: Settings) -> TensorXf:
    """Gaussian blur: first along rows, then along columns, each a weighted sum of shifted slices of a padded copy."""
    centre, *others = settings.weights
    radius = len(others)
    image = pad(image, radius)
    for extent, axis in ((settings.width, -1), (settings.height, -2)):
        views = [image[..., k:k + extent] if axis == -1 else image[..., k:k + extent, :]
                 for k in range(2 * radius + 1)]
        image = views[radius] * centre
        for k, weight in enumerate(others, 1):
            image = dr.fma(views[radius - k] + views[radius + k], weight, image)
    return image


def edges(image: TensorXf, settings: Settings) -> TensorXf:
    """Length of the Sobel gradient of encoded luminance, that is, of lightness as it is perceived."""
    p = pad(linear_to_srgb(luminance(image)), 1)
    at = {(dx, dy): p[1 + dy:1 + dy + settings.height, 1 + dx:1 + dx + settings.width]
          for dx in (-1, 0, 1) for dy in (-1, 0, 1)}
    horizontal = at[1, -1] + 2 * at[1, 0] + at[1, 1] - at[-1, -1] - 2 * at[-1, 0] - at[-1, 1]
    vertical = at[-1, 1] + 2 * at[0, 1] + at[1, 1] - at[-1, -1] - 2 * at[0, -1] - at[1, -1]
    return dr.sqrt(horizontal * horizontal + vertical * vertical)


def histogram(image: TensorXf) -> UInt32:
    """Number of pixels in each of ``BINS`` equal intervals of encoded luminance."""
    counts = dr.zeros(UInt32, BINS)
    position = (linear_to_srgb(luminance(image)) * BINS).array
    dr.scatter_add(counts, UInt32(1), UInt32(dr.clip(position, 0, BINS - 1)))
    return counts


# --- the same pipeline in NumPy --------------------------------------------------------------------------------------


def numpy_srgb_to_linear(color: Image) -> Image:
    """See :func:`srgb_to_linear`."""
    return np.where(color <= 0.04045, color / np.float32(12.92),
                    ((color + np.float32(0.055)) / np.float32(1.055)) ** np.float32(2.4))


def numpy_linear_to_srgb(light: Image) -> Image:
    """See :func:`linear_to_srgb`."""
    return np.where(light <= 0.0031308, light * np.float32(12.92),
                    np.float32(1.055) * light ** np.float32(1 / 2.4) - np.float32(0.055))


def numpy_filmic(light: Image) -> Image:
    """See :func:`filmic`."""
    a, b, c, d, e = (np.float32(value) for value in FILMIC)
    return np.clip(light * (a * light + b) / (light * (c * light + d) + e), 0, 1)


def numpy_luminance(light: Image) -> Image:
    """See :func:`luminance`."""
    red, green, blue = (np.float32(weight) for weight in LUMINANCE)
    return red * light[0] + green * light[1] + blue * light[2]


def numpy_blur(image: Image, settings: Settings) -> Image:
    """See :func:`blur`: here a weighted sum of shifted views of a padded copy."""
    radius = len(settings.weights) - 1
    for axis in (2, 1):
        extent = image.shape[axis]
        padded = np.pad(image, [(radius, radius) if a == axis else (0, 0) for a in range(3)], mode="edge")
        views = [np.moveaxis(np.moveaxis(padded, axis, 0)[k:k + extent], 0, axis) for k in range(2 * radius + 1)]
        total = image * np.float32(settings.weights[0])
        for k, weight in enumerate(settings.weights[1:], 1):
            total += (views[radius - k] + views[radius + k]) * np.float32(weight)
        image = total
    return image


def numpy_edges(image: Image) -> Image:
    """See :func:`edges`."""
    p = np.pad(numpy_linear_to_srgb(numpy_luminance(image)), 1, mode="edge")
    columns = p[:-2] + 2 * p[1:-1] + p[2:]
    rows = p[:, :-2] + 2 * p[:, 1:-1] + p[:, 2:]
    return np.hypot(columns[:, 2:] - columns[:, :-2], rows[2:] - rows[:-2])


def numpy_histogram(image: Image) -> npt.NDArray[np.uint32]:
    """See :func:`histogram`."""
    position = numpy_linear_to_srgb(numpy_luminance(image)) * np.float32(BINS)
    bins = np.clip(position, 0, BINS - 1).astype(np.uint32)
    return np.bincount(bins.ravel(), minlength=BINS).astype(np.uint32)


# --- the stages, side by side ----------------------------------------------------------------------------------------

Panels = dict[str, Any]


@dataclass(frozen=True)
class Stage:
    """A step of both pipelines: what it reads and makes, by name, and how."""

    title: str
    reads: tuple[str, ...]
    makes: tuple[str, ...]
    traced: Callable[[Panels, Settings], tuple[Any, ...]]
    numpy: Callable[[Panels, Settings], tuple[Any, ...]]


STAGES = (
    Stage("sRGB to linear light", ("original",), ("linear",),
          lambda p, s: (srgb_to_linear(p["original"]),),
          lambda p, s: (numpy_srgb_to_linear(p["original"]),)),
    Stage("exposure, filmic curve", ("linear",), ("toned",),
          lambda p, s: (filmic(expose(p["linear"], s.exposure)),),
          lambda p, s: (numpy_filmic(p["linear"] * np.float32(2.0**s.exposure)),)),
    Stage("Gaussian blur", ("toned",), ("blurred",),
          lambda p, s: (blur(p["toned"], s),),
          lambda p, s: (numpy_blur(p["toned"], s),)),
    Stage("edges", ("toned",), ("edges",),
          lambda p, s: (edges(p["toned"], s),),
          lambda p, s: (numpy_edges(p["toned"]),)),
    Stage("two histograms", ("linear", "toned"), ("counts before", "counts after"),
          lambda p, s: (histogram(p["linear"]), histogram(p["toned"])),
          lambda p, s: (numpy_histogram(p["linear"]), numpy_histogram(p["toned"]))),
    Stage("linear light to sRGB", ("toned", "blurred"), ("toned sRGB", "blurred sRGB"),
          lambda p, s: (linear_to_srgb(p["toned"]), linear_to_srgb(p["blurred"])),
          lambda p, s: (numpy_linear_to_srgb(p["toned"]), numpy_linear_to_srgb(p["blurred"]))),
)

#: What the contact sheet shows, hence all that the pipeline as a whole has to store.
SHOWN = ("linear", "toned sRGB", "blurred sRGB", "edges", "counts before", "counts after")
WHOLE = "the whole pipeline"


def size_in_bytes(name: str, settings: Settings) -> int:
    """Memory that a panel takes."""
    if name.startswith("counts"):
        return 4 * BINS
    return 4 * settings.pixels * (1 if name == "edges" else 3)


@dataclass
class Row:
    """A line of the table."""

    title: str
    bytes: int
    cold: float = 0.0
    warm: float = 0.0
    inside: float = 0.0
    numpy: float = 0.0
    kernels: int = 0
    operations: int = 0
    compiled: int = 0
    loaded: int = 0
    recalled: int = 0
    differences: list[tuple[str, float]] = field(default_factory=list)


def traced_pipeline(original: TensorXf, settings: Settings) -> Panels:
    """Trace all stages and evaluate, in one go, what the contact sheet shows."""
    panels: Panels = {"original": original}
    for stage in STAGES:
        panels.update(zip(stage.makes, stage.traced(panels, settings), strict=True))
    panels = {name: panels[name] for name in SHOWN}
    dr.eval(panels)
    return panels


def numpy_pipeline(original: Image, settings: Settings) -> Panels:
    """All stages in NumPy."""
    panels: Panels = {"original": original}
    for stage in STAGES:
        panels.update(zip(stage.makes, stage.numpy(panels, settings), strict=True))
    return panels


def clock(function: Callable[[], Any]) -> tuple[float, Any]:
    """Milliseconds that a call takes, all kernels included, and what it returns."""
    start = time.perf_counter()
    result = function()
    dr.sync_thread()
    return (time.perf_counter() - start) * 1e3, result


def measure(row: Row, repeats: int, traced: Callable[[], Any], numpy: Callable[[], Any]) -> tuple[Any, Any]:
    """Fill a row of the table: run traced code cold, then both versions repeatedly; returns both results."""
    dr.flush_kernel_cache()
    dr.kernel_history_clear()
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory, True):
        row.cold, result = clock(traced)
    kernels = dr.kernel_history([dr.KernelType.JIT])
    row.kernels = len(kernels)
    row.operations = sum(kernel["operation_count"] for kernel in kernels)
    row.loaded = sum(1 for kernel in kernels if kernel["cache_disk"] and not kernel["cache_hit"])
    row.compiled = sum(1 for kernel in kernels if not kernel["cache_disk"] and not kernel["cache_hit"])
    inside = []
    for _ in range(max(3, repeats // 3)):
        with dr.scoped_set_flag(dr.JitFlag.KernelHistory, True):
            clock(traced)
        kernels = dr.kernel_history([dr.KernelType.JIT])
        inside.append(sum(kernel["execution_time"] for kernel in kernels))
    row.recalled = sum(1 for kernel in kernels if kernel["cache_hit"])
    row.inside = statistics.median(inside)
    row.warm = statistics.median(clock(traced)[0] for _ in range(repeats))
    reference = numpy()
    row.numpy = statistics.median(clock(numpy)[0] for _ in range(max(3, repeats // 3)))
    return result, reference


def run(image: Image, settings: Settings, repeats: int, progress: Callable[[str], None]) -> tuple[Panels, list[Row]]:
    """Run every stage on its own and then the whole; returns the panels of the whole, and the table."""
    original = TensorXf(image)
    dr.eval(original)
    rows = []
    traced: Panels = {"original": original}
    arrays: Panels = {"original": image}
    for stage in STAGES:
        progress(stage.title)
        row = Row(stage.title, sum(size_in_bytes(name, settings) for name in stage.reads + stage.makes))

        def trace(stage: Stage = stage) -> tuple[Any, ...]:
            result = stage.traced(traced, settings)
            dr.eval(result)
            return result

        def compute(stage: Stage = stage) -> tuple[Any, ...]:
            return stage.numpy(arrays, settings)

        results, references = measure(row, repeats, trace, compute)
        traced.update(zip(stage.makes, results, strict=True))
        arrays.update(zip(stage.makes, references, strict=True))
        row.differences = [(name, difference(traced[name], arrays[name])) for name in stage.makes]
        rows.append(row)
    progress(WHOLE)
    row = Row(WHOLE, sum(size_in_bytes(name, settings) for name in ("original", *SHOWN)))
    panels, reference = measure(row, repeats, lambda: traced_pipeline(original, settings),
                                lambda: numpy_pipeline(image, settings))
    row.differences = [(name, difference(panels[name], reference[name])) for name in SHOWN]
    rows.append(row)
    return {name: as_image(panel) for name, panel in panels.items()}, rows


def difference(result: Any, reference: npt.NDArray[Any]) -> float:
    """Largest absolute difference of two panels; of histograms, the number of pixels that changed their bin."""
    values = np.asarray(result.numpy(), dtype=np.float64).reshape(-1)
    distance = np.abs(values - reference.reshape(-1).astype(np.float64))
    return float(distance.sum() / 2 if values.size == BINS and reference.ndim == 1 else distance.max())


def as_image(panel: Any) -> Any:
    """A panel as it is drawn: (height, width, 3), (height, width), or the counts."""
    values = panel.numpy()
    return values.transpose(1, 2, 0) if values.ndim == 3 else values


# --- reporting -------------------------------------------------------------------------------------------------------


def table(rows: list[Row], repeats: int) -> str:
    """The table as text."""
    head = ("", "kernels", "first run", "then", "operations", "cold ms", "warm ms", "in kernels", "GB/s", "NumPy ms",
            "ratio", "largest difference")
    lines = [head]
    for row in rows:
        first = [f"{count} {what}" for count, what in ((row.compiled, "compiled"), (row.loaded, "from disk"),
                                                       (row.kernels - row.compiled - row.loaded, "cached")) if count]
        values = [value for name, value in row.differences if not name.startswith("counts")]
        moved = [value for name, value in row.differences if name.startswith("counts")]
        worst = [f"{max(values):.1e}"] if values else []
        worst += [f"{max(moved):.0f} pixels in another bin"] if moved else []
        lines.append((row.title, str(row.kernels), ", ".join(first), f"{row.recalled} cached", str(row.operations),
                      f"{row.cold:.1f}", f"{row.warm:.2f}", f"{row.inside:.2f}",
                      f"{row.bytes / row.warm * 1e-6:.1f}", f"{row.numpy:.2f}", f"{row.numpy / row.warm:.1f}x",
                      ", ".join(worst)))
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    text = ["  ".join(cell.ljust(width) if column in (0, 2, 11) else cell.rjust(width)
                      for column, (cell, width) in enumerate(zip(line, widths, strict=True))).rstrip()
            for line in lines]
    rule = "-" * max(map(len, text))
    return "\n".join([text[0], rule, *text[1:-1], rule, text[-1], "", (
        f"warm: median of {repeats} runs, tracing and launching included; in kernels: the time that these ran.\n"
        "GB/s: what a step must read and write, over the time of a warm run.\n"
        "ratio: NumPy's time over ours.  The whole is evaluated at once, and so stores only what the picture shows.")])


def draw(image: Image, panels: Panels, settings: Settings, rows: list[Row], output: Path) -> None:
    """Write the contact sheet."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    paper, ink, faint = "#16181d", "#f2f0ea", "#8d93a0"
    aspect = settings.height / settings.width
    column = 5.4
    row_height = min(max(column * aspect, 2.6), 9.0) + 0.72
    figure, axes = plt.subplots(2, 3, figsize=(3 * column + 0.7, 2 * row_height + 1.05), facecolor=paper)
    total = rows[-1]
    figure.suptitle(f"A photograph, developed by {total.kernels} kernels", x=0.021, y=0.982, ha="left", va="top",
                    color=ink, fontsize=21, fontweight="bold")
    figure.text(0.96, 0.974, f"{settings.width} × {settings.height} pixels     {total.operations} traced operations"
                f"     {total.warm:.1f} ms on {dr.thread_count()} threads, NumPy {total.numpy:.0f} ms on one",
                ha="right", va="top", color=faint, fontsize=13)
    pictures = (
        ("original", "sRGB, as the file has it", image.transpose(1, 2, 0)),
        ("linear light", "proportional to radiance, shown without encoding", panels["linear"]),
        ("exposed, filmic", f"{settings.exposure:+g} stops, then the ACES curve", panels["toned sRGB"]),
        ("blurred", f"Gaussian, σ = {settings.sigma:g} pixels, in linear light: shifted slices, added up",
         panels["blurred sRGB"]),
        ("edges", "Sobel gradient of perceived lightness", panels["edges"]),
    )
    for number, (panel, (title, caption, picture)) in enumerate(zip(axes.flat, pictures, strict=False), 1):
        if picture.ndim == 2:
            panel.imshow(picture, cmap="magma", vmin=0, vmax=max(float(np.percentile(picture, 99.5)), 1e-6))
        else:
            panel.imshow(np.clip(picture, 0, 1))
        panel.set_xticks([])
        panel.set_yticks([])
        panel.spines[:].set_visible(False)
        label(panel, number, title, caption, ink, faint)
    draw_histograms(axes[1, 2], panels, settings, ink, faint)
    figure.subplots_adjust(left=0.021, right=0.96, bottom=0.045, top=0.865, wspace=0.05, hspace=0.21)
    output.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(output, dpi=110, facecolor=paper)
    plt.close(figure)


def label(panel: Any, number: int, title: str, caption: str, ink: str, faint: str) -> None:
    """Title and caption above a panel."""
    panel.annotate(f"{number}  {title}", (0, 1), (0, 22), xycoords="axes fraction", textcoords="offset points",
                   color=ink, fontsize=14, fontweight="bold")
    panel.annotate(caption, (0, 1), (0, 7), xycoords="axes fraction", textcoords="offset points", color=faint,
                   fontsize=10.5)


def draw_histograms(panel: Any, panels: Panels, settings: Settings, ink: str, faint: str) -> None:
    """The two histograms of luminance in one panel."""
    centers = (np.arange(BINS) + 0.5) / BINS
    highest = 0.0
    for name, title, color in (("counts before", "original", "#5aa9e6"),
                               ("counts after", "exposed, filmic", "#ffb454")):
        share = panels[name] / settings.pixels * 100
        panel.fill_between(centers, share, step="mid", color=color, alpha=0.28, linewidth=0)
        panel.step(centers, share, where="mid", color=color, linewidth=1.4, label=title)
        highest = max(highest, float(np.sort(share)[-6]))  # a few clipped pixels must not flatten the rest
    panel.set_facecolor("#1e2128")
    panel.set_xlim(0, 1)
    panel.set_ylim(0, highest * 1.18 or 1)
    panel.set_anchor("C")
    panel.set_box_aspect(settings.height / settings.width)
    panel.tick_params(colors=faint, labelsize=9.5, direction="in")
    panel.spines[:].set_color("#3a3f4b")
    panel.grid(color="#2c313b", linewidth=0.7)
    panel.set_axisbelow(True)
    panel.set_xlabel("perceived lightness", color=faint, fontsize=10.5, labelpad=2)
    panel.yaxis.tick_right()
    panel.yaxis.set_major_formatter(lambda value, position: f"{value:g}%" if value else "")
    legend = panel.legend(loc="upper left", frameon=False, fontsize=11)
    for text in legend.get_texts():
        text.set_color(ink)
    label(panel, 6, "histograms of luminance", f"share of pixels in each of {BINS} bins", ink, faint)


# --- the program -----------------------------------------------------------------------------------------------------


def missing(module: str) -> NoReturn:
    """Say how to get a package that is not a dependency of drjit itself."""
    package = {"sklearn": "scikit-learn", "PIL": "pillow"}.get(module, module)
    raise SystemExit(f"photo.py: this example needs the package {package}, which is not installed. Get all that the "
                     f'examples use with:\n    pip install "drjit-python[dev]"      (in a checkout: pip install -e '
                     f'".[dev]")\nor this one with:\n    pip install {package}')


def load(file: Path | None, parser: argparse.ArgumentParser) -> Image:
    """The photograph as three planes of float32 in [0, 1]."""
    if file is None:
        from sklearn.datasets import load_sample_image

        pixels = load_sample_image("china.jpg")
    else:
        from PIL import Image as Pictures
        from PIL import ImageOps

        if not file.exists():
            parser.error(f"argument --image: there is no file {str(file)!r}")
        try:
            with Pictures.open(file) as picture:
                pixels = np.asarray(ImageOps.exif_transpose(picture).convert("RGB"))
        except (OSError, ValueError, SyntaxError, Pictures.DecompressionBombError) as error:
            parser.error(f"argument --image: {str(file)!r} cannot be read as an image: {error}")
    return np.ascontiguousarray(pixels.transpose(2, 0, 1), dtype=np.float32) / np.float32(255)


def positive(kind: type) -> Callable[[str], Any]:
    """A type of command-line arguments: finite numbers above zero."""

    def convert(text: str) -> Any:
        value = kind(text)
        if not 0 < value < math.inf:
            raise argparse.ArgumentTypeError(f"must be above zero, found {text}")
        return value

    convert.__name__ = kind.__name__
    return convert


def main(arguments: list[str] | None = None) -> None:
    """Read the command line, run, print the table, write the picture."""
    parser = argparse.ArgumentParser(prog="photo.py", description="Develop a photograph in traced code.")
    parser.add_argument("--image", type=Path, metavar="FILE", help="a photograph (default: china.jpg of scikit-learn)")
    parser.add_argument("--output", type=Path, metavar="FILE", default=DEFAULT_OUTPUT,
                        help="the contact sheet, a PNG file (default: %(default)s)")
    parser.add_argument("--exposure", type=float, default=0.3, metavar="STOPS", help="default: %(default)s")
    parser.add_argument("--sigma", type=positive(float), default=3.0, metavar="PIXELS",
                        help="standard deviation of the blur (default: %(default)s)")
    parser.add_argument("--repeats", type=positive(int), default=15, metavar="N",
                        help="warm runs, of which the median is taken (default: %(default)s)")
    options = parser.parse_args(arguments)
    if not abs(options.exposure) < 64:
        parser.error(f"argument --exposure: must lie between -64 and 64 stops, found {options.exposure}")
    if options.output.is_dir():
        parser.error(f"argument --output: {str(options.output)!r} is a directory, a file is needed")

    try:
        import matplotlib  # noqa: F401 - better to fail now than after the work

        image = load(options.image, parser)
    except ModuleNotFoundError as error:
        missing(error.name or str(error))

    settings = Settings(image.shape[2], image.shape[1], options.exposure, options.sigma)
    name = options.image.name if options.image else "china.jpg"
    print(f"{name}: {settings.width} x {settings.height} pixels, {dr.thread_count()} threads")
    steps = len(STAGES) + 1
    done = iter(range(1, steps + 1))

    def progress(title: str) -> None:
        print(f"  [{next(done)}/{steps}] {title}: cold, warm, NumPy", file=sys.stderr, flush=True)

    panels, rows = run(image, settings, options.repeats, progress)
    print("\n" + table(rows, options.repeats) + "\n")
    try:
        draw(image, panels, settings, rows, options.output)
    except OSError as error:
        parser.error(f"argument --output: {str(options.output)!r} cannot be written: {error.strerror or error}")
    print(f"wrote {options.output}")


if __name__ == "__main__":
    main()
