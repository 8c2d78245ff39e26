"""The attitude of a body from its shadow: gradients go through a class of SciPy that knows nothing of derivatives.

``scipy.spatial.transform.Rotation`` computes with the functions of whatever array namespace its arguments belong to.
With arrays of ``drjit.array_api``, all that it does is traced, so that ``dr.backward`` differentiates it: a rotation is
found whose projection to the plane matches that of a knot in an unknown attitude.

Run ``python examples/pose.py`` (needs SciPy 1.17); the picture is ``examples/out/pose.png``.
"""

import os
from pathlib import Path

os.environ["SCIPY_ARRAY_API"] = "1"  # before SciPy is imported

import numpy as np
from matplotlib.figure import Figure
from scipy.spatial.transform import Rotation

import drjit as dr
import drjit.array_api as xp
from drjit.opt import Adam

OUTPUT = Path(__file__).resolve().parent / "out" / "pose.png"
TRUTH, START = [0.9, -0.6, 0.5], [0.0, 0.0, 0.0]
STEPS = 150


def knot(count: int) -> xp.Array:
    """Points along a trefoil knot, one row each."""
    t = xp.linspace(0, 2 * xp.pi, count, endpoint=False)
    return xp.stack([xp.sin(t) + 2 * xp.sin(2 * t), xp.cos(t) - 2 * xp.cos(2 * t), -xp.sin(3 * t)], axis=1)


def shadow(points: xp.Array, attitude: xp.Array) -> xp.Array:
    """Where the shadows of points are once the body is turned by a rotation vector (in radians)."""
    return Rotation.from_rotvec(attitude).apply(points)[:, :2]


def main(output: Path = OUTPUT, count: int = 400) -> float:
    """Find the attitude, draw the way there, and return the angle that is left, in degrees."""
    points = knot(count)
    seen = shadow(points, xp.asarray(TRUTH))
    optimizer = Adam(lr=0.05)
    optimizer["attitude"] = xp.asarray(START).tensor
    losses, shadows = [], {0: shadow(points, xp.asarray(START))}
    for step in range(1, STEPS + 1):
        attitude = xp.asarray(optimizer["attitude"])
        loss = xp.mean((shadow(points, attitude) - seen) ** 2)
        dr.backward(loss)
        optimizer.step()
        losses.append(float(dr.detach(loss)))
        if step in (10, 25, STEPS):
            shadows[step] = shadow(points, xp.asarray(dr.detach(optimizer["attitude"])))
    turn = Rotation.from_rotvec(dr.detach(attitude).tolist()).inv() * Rotation.from_rotvec(TRUTH)
    angle = float(np.degrees(turn.magnitude()))
    print(f"the loss fell from {losses[0]:.3g} to {losses[-1]:.3g}; {angle:.3f} degrees are left")
    draw(output, np.asarray(seen), {step: np.asarray(found) for step, found in shadows.items()}, losses)
    return angle


def draw(output: Path, seen: np.ndarray, shadows: dict[int, np.ndarray], losses: list[float]) -> None:
    """The shadow that is wanted under those on the way, and the loss."""
    figure = Figure(figsize=(15, 3.4), layout="constrained")
    places = figure.subplots(1, len(shadows) + 1)
    for axes, (step, found) in zip(places, shadows.items(), strict=False):
        axes.plot(*np.vstack((seen, seen[:1])).T, color="lightgray", linewidth=7)
        axes.plot(*np.vstack((found, found[:1])).T, color="tab:red", linewidth=1.6)
        axes.set_title(f"after {step} steps")
        axes.set_aspect("equal")
        axes.set_axis_off()
    places[-1].semilogy(losses)
    places[-1].set_title("mean squared distance")
    places[-1].set_xlabel("step")
    output.parent.mkdir(exist_ok=True)
    figure.savefig(output, dpi=130)


if __name__ == "__main__":
    main()
    print(f"written: {OUTPUT}")
