"""Many random walks: where walkers are after each step, and the square root of time that bounds them.

Run ``python examples/random_walk.py``; the picture is ``examples/out/random_walk.png``.
"""

from pathlib import Path

from matplotlib.colors import PowerNorm
from matplotlib.figure import Figure

import drjit as dr
from drjit.llvm import PCG32, Float, Int, TensorXf, UInt

OUTPUT = Path(__file__).resolve().parent / "out" / "random_walk.png"


def main(walkers: int = 200_000, steps: int = 400, output: Path = OUTPUT) -> float:
    """Let them walk; returns the variance of the last positions, which should be near the number of steps."""
    reach = int(3.5 * steps**0.5)  # rows of the picture on each side of the start
    counts = dr.zeros(Float, (2 * reach + 1) * steps)
    rng, position = PCG32(size=walkers), dr.zeros(Int, walkers)
    for step in range(steps):
        position += dr.select(rng.next_float32() < 0.5, -1, 1)
        row = UInt(dr.clip(position, -reach, reach) + reach)
        dr.scatter_add(counts, Float(1), row * steps + step)
        dr.eval(position, rng, counts)  # else all steps would become one large kernel

    figure = Figure(figsize=(10, 6), layout="constrained")
    axes = figure.subplots()
    density = TensorXf(counts, shape=(2 * reach + 1, steps)).numpy()
    density = density[:-1:2] + density[1::2]  # walkers are on even places after even steps: join neighbours
    axes.imshow(density, aspect="auto", origin="lower", extent=(1, steps, -reach, reach), cmap="inferno",
                norm=PowerNorm(0.4, 0, 0.06 * walkers))
    for sign in (-1, 1):
        axes.plot(range(1, steps), [sign * k**0.5 for k in range(1, steps)], "w--", linewidth=1)
    axes.set(xlabel="step", ylabel="position", title=f"{walkers:,} random walks, and the square root of time")

    output.parent.mkdir(exist_ok=True)
    figure.savefig(output, dpi=120)
    return dr.var(Float(position))[0]


if __name__ == "__main__":
    print(f"variance of the last positions: {main():.1f}, picture in {OUTPUT}")
