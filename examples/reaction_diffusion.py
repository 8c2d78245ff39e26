"""Two substances that react and spread (the model of Gray and Scott), on tensors: a maze that grows from a few spots.

Run ``python examples/reaction_diffusion.py``; the picture is ``examples/out/reaction_diffusion.png``.
"""

from pathlib import Path

from matplotlib.image import imsave

import drjit as dr
from drjit.llvm import PCG32, TensorXf, UInt

OUTPUT = Path(__file__).resolve().parent / "out" / "reaction_diffusion.png"
FEED, KILL = 0.037, 0.060  # other values give other patterns: 0.025 and 0.060 dots that divide, for example


def main(size: int = 400, steps: int = 3000, output: Path = OUTPUT) -> float:
    """Run the model and draw the second substance; returns its mean concentration."""
    index = dr.arange(UInt, size)
    after, before = (index + 1) % size, (index + size - 1) % size  # neighbours; the grid is a torus
    dr.eval(after, before)

    def spread(t: TensorXf) -> TensorXf:
        """What flows into each cell from its four neighbours (the Laplacian)."""
        return t[after] + t[before] + t[:, after] + t[:, before] - 4 * t

    noise = TensorXf(PCG32(size=(size // 8)**2).next_float32(), shape=(size // 8, size // 8))
    v = dr.select(noise[index // 8][:, index // 8] > 0.9, TensorXf(0.5), 0.0)  # a few squares to start from
    u = 1 - v
    for _ in range(steps):
        reaction = u * v * v
        u, v = (u + 0.16 * spread(u) - reaction + FEED * (1 - u),
                v + 0.08 * spread(v) + reaction - (FEED + KILL) * v)
        dr.eval(u, v)  # the next step reads neighbours: this one must be in memory

    output.parent.mkdir(exist_ok=True)
    imsave(output, v.numpy(), cmap="inferno", vmin=0, vmax=0.38)
    return dr.mean(v).array[0]


if __name__ == "__main__":
    print(f"mean concentration {main():.4f}, picture in {OUTPUT}")
