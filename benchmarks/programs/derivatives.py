"""Derivatives: tracing, traversals, and gradients of programs with many samples and few or many variables."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from measure import case, main, median_seconds, scaled

import drjit as dr
from drjit.llvm.ad import Float, UInt
from drjit.opt import SGD, Adam

SAMPLES, WIDE = scaled(1 << 19), scaled(1 << 22)
_random = np.random.default_rng(0)


def uniform(size: int) -> Any:
    """Random numbers in memory."""
    found = Float(_random.random(size, dtype=np.float32) + np.float32(0.1))
    dr.eval(found)
    return found


# --- tracing and traversal -------------------------------------------------------------------------------------------

_STEPS = 1000


def _traced(operation: Callable[[Any, Any], Any], differentiable: bool) -> tuple[float, float]:
    """Microseconds to trace an operation, and the last value."""
    a, b = Float(1.5, 2.5), Float(0.5, 0.25)
    dr.eval(a, b)
    if differentiable:
        dr.enable_grad(a, b)
    times = []
    gc.disable()
    for _ in range(15):
        value = a
        start = time.perf_counter()
        for _ in range(_STEPS):
            value = operation(value, b)
        times.append((time.perf_counter() - start) / _STEPS * 1e6)
    gc.enable()
    return statistics.median(times), float(dr.detach(operation(a, b))[0])


for _name, _operation in {"a + b": lambda a, b: a + b, "a * b": lambda a, b: a * b,
                          "fma(a, b, b)": lambda a, b: dr.fma(a, b, b), "sqrt(a)": lambda a, b: dr.sqrt(a)}.items():
    case(f"tracing {_name}, differentiable", "us")(lambda o=_operation: _traced(o, True))
    case(f"tracing {_name}, of constants", "us")(lambda o=_operation: _traced(o, False))


@case("reverse traversal, an operation", "us")
def _reverse_traversal() -> tuple[float, float]:
    times = []
    x, b = Float(1.5, 2.5), Float(0.5, 0.25)
    for _ in range(15):
        dr.enable_grad(x, b)
        value = x
        for _ in range(_STEPS // 2):
            value = value * b
            value = value + x
        start = time.perf_counter()
        dr.backward(value)
        times.append((time.perf_counter() - start) / _STEPS * 1e6)
        checksum = float(x.grad[0])
        dr.disable_grad(x, b)
    return statistics.median(times), checksum


# --- gradients -------------------------------------------------------------------------------------------------------


def _network(inputs: list[Any], weights: list[Any]) -> Any:
    """Layers of 4, 8, 7 and 1 units: 104 weights."""
    position, hidden, last = 0, [], []
    for _ in range(8):
        total = weights[position + 4]
        for k in range(4):
            total = dr.fma(inputs[k], weights[position + k], total)
        hidden.append(dr.tanh(total))
        position += 5
    for _ in range(7):
        total = weights[position + 8]
        for k in range(8):
            total = dr.fma(hidden[k], weights[position + k], total)
        last.append(dr.maximum(total, 0))
        position += 9
    result = weights[position]
    for value in last:
        result = result + value
    return result


def _network_case(width: int) -> tuple[Callable[[], Any], Callable[[], float]]:
    inputs = [uniform(SAMPLES) for _ in range(3)]
    table, target = uniform(4096), uniform(SAMPLES)
    index = UInt(_random.integers(0, 4096, SAMPLES, dtype=np.uint32))
    weights = [Float(float(value)) for value in _random.standard_normal(104) * 0.5]
    if width > 1:
        weights = [value + dr.zeros(Float, width) for value in weights]
    dr.make_opaque(weights, index)

    def step() -> Any:
        variables = [*weights, table]
        dr.enable_grad(variables)
        loss = dr.mean(dr.square(_network([*inputs, dr.gather(Float, table, index)], weights) - target))
        dr.backward(loss)
        found = dr.grad(variables)
        dr.eval(loss, found)
        dr.sync_thread()
        dr.disable_grad(variables)
        return found

    return step, lambda: float(sum(float(dr.sum(dr.abs(dr.detach(value)))[0]) for value in step()))


@case("gradient of 104 scalar weights and a table, first call")
def _first_call() -> tuple[float, float]:
    step, checksum = _network_case(1)
    start = time.perf_counter()
    step()
    return time.perf_counter() - start, checksum()


@case("gradient of 104 scalar weights and a table, 512k samples", tolerance=1e-3)
def _scalar_weights() -> tuple[float, float]:
    step, checksum = _network_case(1)
    return median_seconds(step, 9, budget=4.0), checksum()


@case("gradient of 104 weights of 512k elements", tolerance=1e-3)
def _wide_weights() -> tuple[float, float]:
    step, checksum = _network_case(SAMPLES)
    return median_seconds(step, 5, budget=4.0), checksum()


def _arithmetic(a: Any, b: Any) -> Any:
    x = a * b + a
    for _ in range(3):
        x = x * a + b
        x = x * b - a
        x = x * x * 0.1 + a * b
    return x * a


def _functions(a: Any, b: Any) -> Any:
    x = dr.sin(a) * b
    for _ in range(4):
        x = dr.exp(-x * x) * a + dr.sin(x) * b
        x = dr.log(x * x + 1)
    return x * a


def _elementwise(function: Callable[[Any, Any], Any], stage: str) -> tuple[float, float]:
    a, b = uniform(WIDE), uniform(WIDE)

    def primal() -> Any:
        y = function(a, b)
        dr.eval(y)
        dr.sync_thread()
        return y

    def both() -> Any:
        x, z = Float(a), Float(b)
        dr.enable_grad(x, z)
        y = function(x, z)
        dr.backward(y)
        dr.eval(y, x.grad, z.grad)
        dr.sync_thread()
        return x.grad

    def alone() -> float:
        x, z = Float(a), Float(b)
        dr.enable_grad(x, z)
        y = function(x, z)
        dr.eval(y)
        dr.sync_thread()
        start = time.perf_counter()
        dr.backward(y)
        dr.eval(x.grad, z.grad)
        dr.sync_thread()
        return time.perf_counter() - start

    def checksum(value: Any) -> float:
        return float(dr.mean(dr.detach(value))[0])

    if stage == "primal":
        return median_seconds(primal, 15), checksum(primal())
    if stage == "both":
        return median_seconds(both, 15), checksum(both())
    for _ in range(3):
        alone()
    return statistics.median(alone() for _ in range(15)), checksum(both())


for _name, _function in {"20 operations": _arithmetic, "20 operations, transcendental": _functions}.items():
    for _stage, _words in {"primal": "values", "both": "values and gradient",
                           "alone": "gradient of evaluated values"}.items():
        case(f"{_name} on 4M, {_words}", tolerance=1e-3)(lambda f=_function, s=_stage: _elementwise(f, s))


@case("gradient of 4M gathers from 64k entries", tolerance=1e-3)
def _gathers() -> tuple[float, float]:
    table, weights = uniform(1 << 16), uniform(WIDE)
    index = UInt(_random.integers(0, 1 << 16, WIDE, dtype=np.uint32))
    dr.make_opaque(index)

    def step() -> Any:
        dr.enable_grad(table)
        value = dr.sum(dr.square(dr.gather(Float, table, index)) * weights)
        dr.backward(value)
        found = dr.grad(table)
        dr.eval(value, found)
        dr.sync_thread()
        dr.disable_grad(table)
        return found

    return median_seconds(step), float(dr.mean(dr.detach(step()))[0])


# --- optimisers ------------------------------------------------------------------------------------------------------


def _fitted(optimizer: Callable[..., Any], arrays: int, size: int) -> tuple[float, float]:
    """Seconds of a step of an optimiser that moves arrays of numbers towards one, gradients included."""
    opt = optimizer(lr=0.01, params={f"x{k}": uniform(size) for k in range(arrays)})

    def steps() -> None:
        for _ in range(20):
            loss = Float(0)
            for value in opt.values():
                loss += dr.sum(dr.square(value - 1))
            dr.backward(loss)
            opt.step()
        dr.sync_thread()

    steps()
    checksum = sum(float(dr.sum(dr.detach(value))[0]) for value in opt.values())
    return median_seconds(steps) / 20, checksum


for _name, _optimizer in {"SGD": SGD, "Adam": Adam}.items():
    for _arrays, _size in ((1, 1000), (10, 1000), (1000, 1)):
        case(f"a step of {_name}, {_arrays} x {_size} parameters")(
            lambda o=_optimizer, n=_arrays, size=_size: _fitted(o, n, size))


if __name__ == "__main__":
    main()
