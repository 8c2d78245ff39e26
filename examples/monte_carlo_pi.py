"""Estimate pi with random points, and watch the error shrink like one over the square root of their number.

Run ``python examples/monte_carlo_pi.py``; the picture is ``examples/out/monte_carlo_pi.png``.
"""

from pathlib import Path

from matplotlib.figure import Figure

import drjit as dr
from drjit.llvm import PCG32, Float

OUTPUT = Path(__file__).resolve().parent / "out" / "monte_carlo_pi.png"


def main(points: int = 1 << 24, output: Path = OUTPUT) -> float:
    """Estimate pi from that many points; returns the estimate."""
    rng = PCG32(size=points)  # a stream of random numbers for each point
    x, y = rng.next_float32(), rng.next_float32()
    inside = x * x + y * y < 1  # a quarter of a disc, of area pi / 4
    estimate = 4 * dr.count(inside)[0] / points  # one kernel draws, tests and counts; x and y are never stored

    figure = Figure(figsize=(10, 5), layout="constrained")
    left, right = figure.subplots(1, 2)
    few = min(points, 4000)
    colors = dr.select(inside[:few], 0.15, 0.75).numpy()
    left.scatter(x[:few].numpy(), y[:few].numpy(), c=colors, s=4, cmap="viridis", vmin=0, vmax=1)
    left.set(aspect="equal", xlim=(0, 1), ylim=(0, 1), title=f"{few} of {points:,} points")

    sizes = [4**k for k in range(3, 20) if 4**k <= points]
    errors = [dr.abs(4 * dr.mean(dr.select(inside[:n], Float(1), 0)) - dr.pi)[0] for n in sizes]
    right.loglog(sizes, errors, "o-", label="error of the estimate")
    right.loglog(sizes, [1.64 / n**0.5 for n in sizes], "--", color="gray", label="standard deviation")
    right.set(xlabel="points", title=f"estimate: {estimate:.5f}")
    right.legend()

    output.parent.mkdir(exist_ok=True)
    figure.savefig(output, dpi=120)
    return estimate


if __name__ == "__main__":
    print(f"pi is about {main():.5f}, picture in {OUTPUT}")
