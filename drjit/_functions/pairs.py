"""Functions of complex numbers whose parts are apart: two arrays or tensors of real numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from drjit_core import Node

from .._base.errors import ArgumentError
from .._promotion.plans import elementwise
from .._rules import complex as rules

__all__ = ["of_pairs"]

#: Functions of one number and of two whose results are complex.
_ONE = ("acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "exp", "expm1", "log", "log10", "log1p",
        "log2", "reciprocal", "sign", "sin", "sinh", "sqrt", "square", "tan", "tanh")
_TWO = ("mul", "power", "quotient")


def of_pairs(name: str, *pairs: tuple[Any, Any]) -> tuple[Any, Any]:
    """A function of complex numbers, each of which is a pair of real arrays or tensors: real and imaginary parts.

    ``name`` is that of the function: ``exp``, ``expm1``, ``log``, ``log1p``, ``log2``, ``log10``, ``sqrt``,
    ``square``, ``sign``, the circular and hyperbolic ones with their inverses; ``mul`` and ``power`` of two numbers.
    Values and derivatives are those of the arrays of complex numbers. ``quotient`` of two and ``reciprocal`` are those
    of C99 (annex G) where something is zero or infinite. Arrays are broadcast. Raises a ``TypeError`` for other names,
    and for another number of arguments. Differentiable; evaluates nothing.

    >>> from drjit.llvm import Float
    >>> dr.detail.of_pairs("sqrt", (Float(-4), Float(0)))
    ([0], [2])
    """
    if len(pairs) != (1 if name in _ONE else 2 if name in _TWO else -1):
        raise ArgumentError(f"drjit.detail.of_pairs(): there is no function {name!r} of {len(pairs)} complex numbers.")
    function: Callable[..., list[Node]] = getattr(rules, name)
    found: dict[tuple[int, ...], tuple[tuple[Node, ...], list[Node]]] = {}

    def part(position: int) -> Callable[..., Node]:
        def trace(*nodes: Node) -> Node:
            key = tuple(map(id, nodes))
            if key not in found:
                found[key] = nodes, function(*[nodes[k:k + 2] for k in range(0, len(nodes), 2)])
            return found[key][1][position]

        return trace

    site, parts = f"drjit.detail.of_pairs({name!r})", [part for pair in pairs for part in pair]
    return elementwise(site, part(0), parts), elementwise(site, part(1), parts)
