"""Functions of arrays with derivatives that are functions of arrays, too."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from drjit_core import FACTOR, Node, Partial, Rule, attached, primal

from .._arrays.broadcasting import make
from .._base.array import ArrayBase
from .._promotion.plans import elementwise
from .._promotion.promote import wrap
from .arrays import detached, grad_enabled

__all__ = ["differentiated"]


def differentiated(function: Callable[..., Any], *derivatives: Callable[..., Any] | None) -> Callable[..., Any]:
    """An elementwise function of up to three real arrays or tensors of one type, with derivatives of its own.

    ``function`` computes values, ``derivatives`` the factors by which a change of each argument is multiplied, from the
    same arguments: elementwise functions of arrays as well, whose own derivatives are those of second order; ``None``
    where the derivative is zero. The result has the value and the special values of ``function``, but none of the
    derivatives of what it is composed of.

    >>> from drjit.llvm.ad import Float
    >>> expit = dr.detail.differentiated(lambda x: 1 / (1 + dr.exp(-x)), lambda x: expit(x) * expit(-x))
    >>> x = Float(-80, 0)
    >>> dr.enable_grad(x)
    >>> dr.backward(expit(x))
    >>> x.grad
    [1.80485e-35, 0.25]
    """
    @functools.wraps(function)
    def compute(*args: Any) -> Any:
        found = function(*[detached(arg, True) for arg in args])
        if not grad_enabled(*args):
            return found
        cls = type(found)
        rule = Rule(function.__name__, tuple([
            None if derivative is None else Partial(FACTOR, "xyz"[:len(args)], _factor(derivative, cls, len(args)))
            for derivative in derivatives]))
        return elementwise("drjit.detail.differentiated", lambda value, *nodes: attached(rule, primal(value), *nodes),
                           (found, *args))

    return compute


def _factor(derivative: Callable[..., Any], cls: type[ArrayBase], count: int) -> Callable[..., Node]:
    """A derivative as rules have them, of nodes."""
    def factor(_functions: object, *nodes: Any) -> Node:
        found = derivative(*[make(cls, node, (node.size,)) if cls._depth < 0 else wrap(cls, [node])
                             for node in nodes[:count]])
        return found._nodes()[0]  # type: ignore[no-any-return]

    return factor
