"""Gradients of long simulations that evaluate each step: a cloth, particles on a grid, a fluid on a lattice.

    python benchmarks/long_simulations.py [--steps 10 100 1000] [--only cloth] [--checkpoints]

Each row is a process of its own. The gradient of a number that follows from the last state, by the initial one, is
computed three times: by one ``dr.backward`` through all steps (or through ``dr.checkpoint``), and by a tape by hand,
which keeps the states and differentiates step by step. The columns: seconds of the simulation; of the first gradient,
with what is compiled; of later ones, those of the tape, kernels that the first gradient and later ones have compiled,
launches of a gradient, the most memory of arrays, and how far gradients are from those of the tape (relative to the
largest). Clear the cache of kernels (``DRJIT_CACHE_DIR=$(mktemp -d)``) for the price of compiling.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import drjit as dr
import drjit_core
from drjit.llvm.ad import Array2f, Array3f, Float, UInt

Step = Callable[..., tuple[Any, ...]]


def cloth(side: int = 64) -> tuple[Step, tuple[Any, ...], Callable[..., Any]]:
    """Masses and springs, explicit Euler: the initial velocity decides where the cloth is."""
    index = dr.arange(UInt, side * side)
    row, column = index // side, index % side
    springs = []
    for down, right in ((0, 1), (1, 0), (0, -1), (-1, 0), (1, 1), (-1, -1), (1, -1), (-1, 1)):
        i, j = row + UInt(down & 0xFFFFFFFF), column + UInt(right & 0xFFFFFFFF)
        there = (i < side) & (j < side)
        springs.append((dr.select(there, i * side + j, 0), there, (down * down + right * right) ** 0.5 / side))
    dr.eval(springs)

    def step(x: Any, v: Any) -> tuple[Any, ...]:
        force = Array3f(0, -9.81, 0)
        for other, there, rest in springs:
            d = dr.gather(Array3f, x, other, there) - x
            length = dr.norm(d) + 1e-8
            force += dr.select(there, d * (50 * (length - rest) / length), 0)
        v = v + 0.002 * force
        return x + 0.002 * v, v

    start = Array3f(Float(column) / side, Float(row) / side, 0), Array3f(dr.zeros(Float, side * side))
    return step, start, lambda x, v: dr.sum(dr.squared_norm(x))


def particles(count: int = 1 << 13, side: int = 64) -> tuple[Step, tuple[Any, ...], Callable[..., Any]]:
    """Particles that exchange momentum through a grid, as in the material point method: scattered, and gathered."""

    def step(x: Any, v: Any) -> tuple[Any, ...]:
        base = UInt(x.x * side), UInt(x.y * side)
        fx, fy = x.x * side - Float(base[0]), x.y * side - Float(base[1])
        corners = [((base[0] + i) % side * side + (base[1] + j) % side,
                    (fx if i else 1 - fx) * (fy if j else 1 - fy)) for i in (0, 1) for j in (0, 1)]
        mass = dr.zeros(Float, side * side)
        momentum = dr.zeros(Array2f, side * side)
        for cell, weight in corners:
            dr.scatter_add(mass, weight, cell)
            dr.scatter_add(momentum, v * weight, cell)
        velocity = momentum / (mass + 1e-6)
        smooth = dr.zeros(Array2f, count)
        for cell, weight in corners:
            smooth += dr.gather(Array2f, velocity, cell) * weight
        v = 0.5 * v + 0.5 * smooth + 0.01 * Array2f(dr.sin(6.28 * x.y), -dr.sin(6.28 * x.x))
        x = x + 0.001 * v
        return x - dr.floor(x), v

    random = np.random.default_rng(0)
    start = (Array2f(random.random((2, count), dtype=np.float32)),
             Array2f(0.1 * random.standard_normal((2, count)).astype(np.float32)))
    return step, start, lambda x, v: dr.sum(dr.squared_norm(v))


def lattice(side: int = 64) -> tuple[Step, tuple[Any, ...], Callable[..., Any]]:
    """The lattice-Boltzmann method with nine velocities: collision, and streaming to the neighbours."""
    index = dr.arange(UInt, side * side)
    row, column = index // side, index % side
    velocities = [(i, j) for i in (0, 1, -1) for j in (0, 1, -1)]
    weights = [(4 / 9, 1 / 9, 1 / 36)[abs(i) + abs(j)] for i, j in velocities]
    sources = [(row + (side - i)) % side * side + (column + (side - j)) % side for i, j in velocities]
    dr.eval(sources)

    def step(*f: Any) -> tuple[Any, ...]:
        density = sum(f[1:], f[0])
        ux = sum((i * g for (i, _), g in zip(velocities, f, strict=True) if i), Float(0)) / density
        uy = sum((j * g for (_, j), g in zip(velocities, f, strict=True) if j), Float(0)) / density
        square = 1 - 1.5 * (ux * ux + uy * uy)
        after = []
        for (i, j), weight, g, source in zip(velocities, weights, f, sources, strict=True):
            along = 3 * (i * ux + j * uy)
            g = g + 0.6 * (weight * density * (square + along + 0.5 * along * along) - g)
            after.append(dr.gather(Float, g, source))
        return tuple(after)

    wave = 1 + 0.05 * dr.sin(2 * dr.pi * Float(column) / side) * dr.cos(2 * dr.pi * Float(row) / side)
    return step, tuple(weight * wave for weight in weights), lambda *f: dr.sum(dr.square(sum(f[1:], f[0])))


SIMULATIONS = {"cloth": cloth, "particles": particles, "lattice": lattice}


def _variables(state: tuple[Any, ...]) -> tuple[Any, ...]:
    found = tuple(type(array)(dr.detach(array)) for array in state)
    dr.make_opaque(found)
    dr.enable_grad(found)
    return found


def _tape(step: Step, start: tuple[Any, ...], loss: Callable[..., Any], steps: int) -> tuple[Any, ...]:
    """The gradient by hand."""
    states = [start]
    with dr.suspend_grad():
        for _ in range(steps):
            states.append(step(*states[-1]))
            dr.eval(states[-1])
    last = _variables(states.pop())
    dr.backward(loss(*last))
    gradient = dr.grad(last)
    dr.eval(gradient)
    while states:
        before = _variables(states.pop())
        after = step(*before)
        dr.set_grad(after, gradient)
        dr.backward_from(after)
        gradient = dr.grad(before)
        dr.eval(gradient)
    return gradient


def measure(name: str, steps: int, checkpoints: bool) -> dict[str, Any]:
    """One row."""
    step, start, loss = SIMULATIONS[name]()
    dr.eval(start)
    row: dict[str, Any] = {"name": name, "steps": steps}
    counts = []
    for turn in range(3):
        variables = _variables(start)
        begin, before = time.perf_counter(), drjit_core.kernel_statistics()
        state = variables
        if checkpoints:
            state = dr.checkpoint(step, *state, steps=steps)
        else:
            for _ in range(steps):
                state = step(*state)
                dr.eval(state)
        dr.sync_thread()
        middle, between = time.perf_counter(), drjit_core.kernel_statistics()
        dr.backward(loss(*state))
        gradient = dr.grad(variables)
        dr.eval(gradient)
        dr.sync_thread()
        end, after = time.perf_counter(), drjit_core.kernel_statistics()
        counts.append({key: after[key] - between[key] for key in after})
        row["simulation"], row["first" if turn == 0 else "later"] = middle - begin, end - middle
        row["compiled" if turn == 0 else "compiled later"] = after["compiled"] - before["compiled"]
        row["memory"] = drjit_core.malloc_statistics()["peak"] / 2**20
        del state
    row["launches"] = counts[-1]["launches"]
    _tape(step, start, loss, steps)
    begin = time.perf_counter()
    by_hand = _tape(step, start, loss, steps)
    dr.sync_thread()
    row["tape"] = time.perf_counter() - begin
    pairs = [(np.array(a), np.array(b)) for a, b in zip(gradient, by_hand, strict=True)]
    row["difference"] = float(max(abs(a - b).max() for a, b in pairs) / max(abs(b).max() for _, b in pairs))
    return row


COLUMNS = ("name", "steps", "simulation", "first", "later", "tape", "compiled", "compiled later", "launches", "memory",
           "difference")


def main() -> None:
    """The table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, nargs="+", default=[10, 100, 1000])
    parser.add_argument("--only", choices=SIMULATIONS)
    parser.add_argument("--checkpoints", action="store_true")
    parser.add_argument("--row", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.row:
        print(json.dumps(measure(options.row[0], int(options.row[1]), options.checkpoints)))
        return
    print(" | ".join(COLUMNS))
    for name in (options.only,) if options.only else SIMULATIONS:
        for steps in options.steps:
            command = [sys.executable, __file__, "--row", name, str(steps)]
            done = subprocess.run(command + ["--checkpoints"] * options.checkpoints, check=True, capture_output=True,
                                  text=True)
            row = json.loads(done.stdout.splitlines()[-1])
            print(" | ".join(f"{value:.3g}" if isinstance(value := row[key], float) else str(value)
                             for key in COLUMNS), flush=True)


if __name__ == "__main__":
    main()
