"""Derivatives against finite differences: forward mode, reverse mode, and both against each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import drjit as dr
from drjit.llvm import ad
from drjit_core import HUB, ReduceMode, ReduceOp, Vertex, live_vertices
from drjit_core.ir.vertex import last_vertex
from drjit_core.ops.derivatives import RULES

__all__ = ["check", "flat", "rules_of"]

Array = np.ndarray[Any, Any]


def flat(value: Any) -> Array:
    """All numbers in arrays and tuples of them."""
    if isinstance(value, tuple | list):
        return np.concatenate([flat(entry) for entry in value]) if value else np.zeros(0)
    if isinstance(value, dr.ArrayBase):
        found = value.numpy()
        if found.dtype.kind == "c":
            found = np.stack([found.real, found.imag])
        return np.asarray(found, dtype=np.float64).ravel()
    return np.array([value], dtype=np.float64)


def _weights(value: Any, random: np.random.Generator) -> tuple[Any, Array]:
    """Numbers for each element of the results: as arrays like them, and as an array of NumPy."""
    if isinstance(value, tuple | list):
        found = [_weights(entry, random) for entry in value]
        return type(value)(entry for entry, _ in found), np.concatenate([numbers for _, numbers in found])
    if dr.is_complex_v(value):
        numbers = random.standard_normal((2, dr.width(value)))
        return type(value)(ad.Float64(numbers[0]), ad.Float64(numbers[1])), numbers.ravel()
    numbers = random.standard_normal(value.numpy().shape)
    return type(value)(numbers), numbers.ravel()


def check(function: Callable[..., Any], *inputs: tuple[Any, Array], eps: float = 1e-6, tolerance: float = 2e-5) -> None:
    """Compare the derivatives of a function of arrays, given their types and values, with finite differences."""
    random = np.random.default_rng(1)
    bases = [np.array(value, dtype=np.float64) for _, value in inputs]
    directions = [random.standard_normal(base.shape) for base in bases]

    def arrays(values: list[Array]) -> list[Any]:
        return [cls(value) for (cls, _), value in zip(inputs, values, strict=True)]

    def moved(step: float) -> Array:
        return flat(function(*arrays([a + step * b for a, b in zip(bases, directions, strict=True)])))

    expected = (moved(eps) - moved(-eps)) / (2 * eps)
    scale = tolerance * max(1.0, float(np.abs(expected).max(initial=0)))

    xs = arrays(bases)
    dr.enable_grad(xs)
    result = function(*xs)
    for x, change in zip(xs, arrays(directions), strict=True):
        dr.set_grad(x, change)
    dr.enqueue(dr.ADMode.Forward, *xs)
    dr.traverse(dr.ADMode.Forward)
    np.testing.assert_allclose(flat(dr.grad(result)), expected, atol=scale, rtol=1e-4, err_msg="forward mode")

    xs = arrays(bases)
    dr.enable_grad(xs)
    result = function(*xs)
    weights, numbers = _weights(result, random)
    dr.set_grad(result, weights)
    dr.enqueue(dr.ADMode.Backward, result)
    dr.traverse(dr.ADMode.Backward)
    found = sum(float(flat(dr.grad(x)) @ direction.ravel()) for x, direction in zip(xs, directions, strict=True))
    np.testing.assert_allclose(found, numbers @ expected, atol=10 * scale, rtol=1e-4, err_msg="reverse mode")


def rules_of(function: Callable[..., Any], *inputs: tuple[Any, Array]) -> set[str]:
    """The rules by which the results of a function of arrays are differentiated, nothing of which is computed: of an
    elementwise one by operands that take part, of others with their operators and options."""
    xs = [cls(np.array(value, dtype=np.float64)) for cls, value in inputs]
    dr.enable_grad(xs)
    first = last_vertex()
    results = function(*xs)
    found = set()
    for vertex in live_vertices(first):
        if vertex.rule.partials:
            if RULES.get(vertex.rule.name) is not vertex.rule:
                continue  # of a function of complex numbers
            found |= {f"{vertex.rule.name} {operand}" for operand, attached in zip("xyz", "abc")
                      if getattr(vertex, attached) is not None}
        elif vertex.rule is not HUB:
            found.add(" ".join([vertex.rule.name, *_options(vertex)]))
    del results
    return found


def _options(vertex: Vertex) -> list[str]:
    name, info = vertex.rule.name, vertex.info
    if name == "scatter":
        return [ReduceOp(info[2]).name, ReduceMode(info[3]).name]
    if name in ("reduce", "segment"):
        return [ReduceOp(info if name == "reduce" else info[0]).name]
    if name == "scan":
        op, exclusive, reverse = info.options
        return [ReduceOp(op).name, str(int(exclusive)), str(int(reverse))]
    if name == "sort":
        return [str(int(info.options[1]))]
    return [type(vertex.a.info).__name__] if name == "output" and vertex.a is not None else []
