"""A physics fit by Newton's method: two damped oscillations are recovered from noisy measurements of their sum.

The least-squares problem is solved by Newton-CG: each step solves the equations of Newton's method by conjugate
gradients, which need products of the Hessian with vectors only. ``dr.hvp`` computes one for little more than the price
of a gradient, however many parameters there are; nobody writes a derivative. Gradient descent runs beside it.

Run ``python examples/fit_oscillator.py``; the picture is ``examples/out/fit_oscillator.png``.
"""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import drjit as dr
from drjit.llvm.ad import Float64

OUTPUT = Path(__file__).resolve().parent / "out" / "fit_oscillator.png"
NAMES = ["amplitude", "damping", "frequency", "phase"]
TRUTH = [1.0, 0.15, 2.0, 0.3, 0.6, 0.05, 3.1, -0.8]
START = [0.8, 0.20, 2.1, 0.0, 0.8, 0.10, 3.0, -0.4]


def model(parameters: Float64, time: Float64) -> Float64:
    """The sum of two oscillations, each with four parameters."""
    result = Float64(0)
    for k in range(0, len(TRUTH), 4):
        amplitude, damping, frequency, phase = (dr.gather(Float64, parameters, k + j) for j in range(4))
        result += amplitude * dr.exp(-damping * time) * dr.cos(frequency * time + phase)
    return result


def newton_direction(loss, parameters: Float64) -> tuple[Float64, Float64, int]:
    """The gradient, an approximate solution of ``H d = -g``, and the number of products with the Hessian."""
    gradient, _ = dr.hvp(loss, parameters, dr.zeros(Float64, len(TRUTH)))
    residual, direction = -gradient, dr.zeros(Float64, len(TRUTH))
    step, products = residual, 0
    goal = min(0.5, dr.norm(gradient)[0] ** 0.5) * dr.norm(gradient)[0]
    for products in range(1, 3 * len(TRUTH) + 1):
        _, curved = dr.hvp(loss, parameters, step)
        curvature = dr.dot(step, curved)[0]
        if curvature <= 0:  # not convex there: go as far as we know the way
            return gradient, direction if products > 1 else residual, products
        length = dr.squared_norm(residual)[0] / curvature
        direction, following = direction + length * step, residual - length * curved
        if dr.norm(following)[0] < goal:
            break
        step = following + dr.squared_norm(following)[0] / dr.squared_norm(residual)[0] * step
        residual = following
    return gradient, direction, products


def search(loss, parameters: Float64, gradient: Float64, direction: Float64) -> tuple[Float64, float]:
    """Go in a direction, half as far again and again, until the loss falls as it should (Armijo's rule)."""
    before, slope, length = loss(parameters)[0], dr.dot(gradient, direction)[0], 1.0
    while length > 1e-9:
        candidate = parameters + length * direction
        after = loss(candidate)[0]
        if after <= before + 1e-4 * length * slope:
            return candidate, after
        length /= 2
    return parameters, before


def main(samples: int = 100_000, output: Path = OUTPUT) -> float:
    """Fit; returns the largest error of a parameter."""
    random = np.random.default_rng(1)
    time = dr.linspace(Float64, 0, 20, samples)
    measured = model(Float64(TRUTH), time) + Float64(random.normal(0, 0.2, samples))
    dr.eval(time, measured)

    def loss(parameters: Float64) -> Float64:
        return dr.mean(dr.square(model(parameters, time) - measured))

    found, newton = Float64(START), [loss(Float64(START))[0]]
    for step in range(30):
        gradient, direction, products = newton_direction(loss, found)
        found, value = search(loss, found, gradient, direction)
        dr.eval(found)
        newton.append(value)
        print(f"step {step + 1:2}: loss {value:.9f}, {products} products with the Hessian")
        if newton[-2] - value < 1e-13:
            break

    slow, descent = Float64(START), [newton[0]]
    for _ in range(len(newton) * 4):
        gradient = dr.value_and_grad(loss)(slow)[1]
        slow, value = search(loss, slow, gradient, -gradient)
        dr.eval(slow)
        descent.append(value)

    figure = Figure(figsize=(12, 5), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    every = max(1, samples // 2000)
    moments = time.numpy()
    left.plot(moments[::every], measured.numpy()[::every], ".", markersize=2, color="0.7", label="measured")
    left.plot(moments, model(Float64(START), time).numpy(), color="tab:orange", linewidth=1, label="start")
    left.plot(moments, model(found, time).numpy(), color="tab:blue", label="fitted")
    left.set(xlabel="time", title=f"{samples:,} samples, {len(TRUTH)} parameters")
    left.legend()
    best = min(newton)
    right.semilogy([value - best + 1e-12 for value in newton], "o-", label="Newton-CG")
    right.semilogy([value - best + 1e-12 for value in descent], ".-", label="gradient descent")
    right.set(xlabel="step", title="loss above the minimum")
    right.legend()
    output.parent.mkdir(exist_ok=True)
    figure.savefig(output, dpi=120)

    error = 0.0
    for number, (value, true) in enumerate(zip(found, TRUTH, strict=True)):
        print(f"{NAMES[number % 4]:>10}: {value:8.4f}, true {true:8.4f}")
        error = max(error, abs(value - true))
    return error


if __name__ == "__main__":
    print(f"largest error of a parameter: {main():.4f}, picture in {OUTPUT}")
