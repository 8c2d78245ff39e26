"""A network of PyTorch learns to throw, by derivatives of a simulation that PyTorch has no operation for.

The network chooses with which velocity a ball must be thrown to be at a given point after a given time, against the
drag of the air and a wind that depends on the height. The flight is a loop of this package, one kernel, and its
derivative another one; for PyTorch, ``dr.wrap`` makes it a differentiable function of tensors, whose memory is shared.

Run ``python examples/torch_throw.py``; the picture is ``examples/out/torch_throw.png``. Needs PyTorch and matplotlib.
"""

import argparse
import time
from pathlib import Path

import matplotlib
import torch

import drjit as dr
from drjit.llvm.ad import Array2f, TensorXf, UInt

matplotlib.use("Agg")
import matplotlib.pyplot as plt

OUTPUT = Path(__file__).resolve().parent / "out" / "torch_throw.png"
STEPS, SECONDS = 100, 1.5
BATCH = 4096


@dr.syntax
def flight(velocity: Array2f, steps: int) -> Array2f:
    """Where balls are after some steps, that are thrown from the origin."""
    position, left = Array2f(0), UInt(steps)
    dt = SECONDS / STEPS
    while dr.hint(left > 0, max_iterations=STEPS):
        wind = Array2f(-4 * dr.tanh(position.y), 0)
        relative = velocity - wind
        velocity += dt * (Array2f(0, -9.81) - 0.08 * dr.norm(relative) * relative)
        position += dt * velocity
        left -= 1
    return position


@dr.wrap(source="torch", target="drjit")
def positions(velocities: TensorXf) -> TensorXf:
    """Where balls are in the end: a row for each, as PyTorch has it."""
    return dr.moveaxis(TensorXf(flight(Array2f(dr.moveaxis(velocities, 1, 0)), STEPS)), 0, 1)


def points(count: int, generator: torch.Generator) -> torch.Tensor:
    """Random points that balls are to reach."""
    return torch.rand(count, 2, generator=generator) * torch.tensor([12.0, 6.0]) + torch.tensor([-6.0, 0.0])


def network() -> torch.nn.Module:
    """From a point to a velocity."""
    return torch.nn.Sequential(torch.nn.Linear(2, 64), torch.nn.SiLU(), torch.nn.Linear(64, 64), torch.nn.SiLU(),
                               torch.nn.Linear(64, 2))


def main(steps: int = 400, output: Path = OUTPUT) -> float:
    """Train, print, draw; returns by how much the balls miss on average, in metres."""
    torch.manual_seed(1)
    generator = torch.Generator().manual_seed(2)
    model = network()
    optimiser = torch.optim.Adam(model.parameters(), lr=5e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    losses = []
    begin = time.perf_counter()
    for _ in range(steps):
        target = points(BATCH, generator)
        optimiser.zero_grad()
        loss = (positions(10 * model(target / 5)) - target).square().sum(dim=1).mean()
        loss.backward()
        optimiser.step()
        schedule.step()
        losses.append(loss.item())
    elapsed = time.perf_counter() - begin
    with torch.no_grad():
        target = points(BATCH, generator)
        velocity = 10 * model(target / 5)
        missed = (positions(velocity) - target).norm(dim=1).mean().item()
    print(f"{steps} steps in {elapsed:.1f} s, {1e3 * elapsed / steps:.1f} ms each; balls miss by {100 * missed:.1f} cm")
    draw(velocity[:24], target[:24], losses, output)
    return missed


def draw(velocity: torch.Tensor, target: torch.Tensor, losses: list[float], output: Path) -> None:
    """Some flights with the points that they are to reach, and how the error went down."""
    thrown = Array2f(TensorXf(velocity.T.contiguous()))
    paths = [flight(Array2f(thrown), step).numpy() for step in range(0, STEPS + 1, 4)]
    figure = plt.figure(figsize=(13, 5), layout="constrained")
    left, right = figure.subplots(1, 2)
    for ball in range(len(target)):
        left.plot([path[0][ball] for path in paths], [path[1][ball] for path in paths], linewidth=1)
    left.plot(target[:, 0], target[:, 1], "k+", markersize=9)
    left.set_title(f"flights of {SECONDS} seconds, and where they are to end")
    left.set_aspect("equal")
    right.semilogy(losses)
    right.set_title("mean squared distance")
    right.set_xlabel("step")
    output.parent.mkdir(exist_ok=True)
    figure.savefig(output, dpi=100)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=400)
    main(parser.parse_args().steps)
    print(f"written: {OUTPUT}")
